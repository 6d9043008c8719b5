"""Stores behind `ports.Backend`: `memory` (dicts, the oracle of the suite) and `sqlite` (one file, durable)."""
