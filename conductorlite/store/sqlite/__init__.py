"""Rows in one SQLite file, durable."""
