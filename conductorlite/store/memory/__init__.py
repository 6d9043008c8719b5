"""Rows in dicts: the store of tests, and the oracle of the conformance suite."""
