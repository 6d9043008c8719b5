"""The same verbs, awaited: an engine for programs that live on an event loop."""
