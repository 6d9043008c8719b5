"""The verbs, one file per family, each family built on the one before: metadata, control, workface, records, queries."""

from conductorlite.engine.queries import AgendaEntry, Queries
from conductorlite.engine.turns import Listener, Turns

__all__ = ["AgendaEntry", "Listener", "Queries", "Turns"]
