"""Drivers: loops around an engine's turns and its workers."""
