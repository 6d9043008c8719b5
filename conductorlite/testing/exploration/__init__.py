"""The search for mistakes of design: what may happen, the sandbox it happens in, what must hold, and the search itself."""
