"""The verbs, one file per family, each family built on the one before.

metadata ◁ control ◁ migrations ◁ reruns ◁ workface ◁ signals ◁ events ◁ records ◁ schedules ◁ queries ◁ upkeep.
"""

from conductorlite.engine.asked import Listener
from conductorlite.engine.outside import PayloadSweep
from conductorlite.engine.queries import AgendaEntry, Queries
from conductorlite.engine.reruns import BulkReport
from conductorlite.engine.turns import Turns
from conductorlite.engine.upkeep import EngineShare, RepairReport, Upkeep

__all__ = ["AgendaEntry", "BulkReport", "EngineShare", "Listener", "PayloadSweep", "Queries", "RepairReport", "Turns", "Upkeep"]
