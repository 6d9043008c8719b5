"""The turn, and the verbs that make an event of a call."""
