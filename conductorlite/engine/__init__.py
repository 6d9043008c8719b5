"""The verbs, one file per family, each family built on the one before.

metadata ◁ control ◁ migrations ◁ reruns ◁ workface ◁ signals ◁ events ◁ records ◁ schedules ◁ queries.
"""

from conductorlite.engine.asked import Listener
from conductorlite.engine.outside import PayloadSweep
from conductorlite.engine.queries import AgendaEntry, Queries
from conductorlite.engine.reruns import BulkReport
from conductorlite.engine.turns import Turns

__all__ = ["AgendaEntry", "BulkReport", "Listener", "PayloadSweep", "Queries", "Turns"]
