"""The search index in SQLite."""
