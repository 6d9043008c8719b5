"""The verbs, one file per family, each family built on the one before.

metadata ◁ control ◁ migrations ◁ reruns ◁ reporting ◁ workface ◁ signals ◁ events ◁ records ◁ schedules ◁ limits ◁ queries ◁
searching ◁ keeping ◁ upkeep.
"""

from conductorlite.engine.asked import Listener
from conductorlite.engine.feeding import IndexHealth
from conductorlite.engine.holding import leave_all
from conductorlite.engine.keeping import Keeping, PruneReport
from conductorlite.engine.limits import LimitMember, LimitUse
from conductorlite.engine.outside import PayloadSweep
from conductorlite.engine.queries import AgendaEntry, Queries
from conductorlite.engine.reruns import BulkReport
from conductorlite.engine.searching import Where
from conductorlite.engine.turns import Turns
from conductorlite.engine.upkeep import EngineShare, RepairReport, Upkeep
from conductorlite.engine.workface import Hand

__all__ = [
    "AgendaEntry",
    "BulkReport",
    "EngineShare",
    "Hand",
    "IndexHealth",
    "Keeping",
    "LimitMember",
    "LimitUse",
    "Listener",
    "PayloadSweep",
    "PruneReport",
    "Queries",
    "RepairReport",
    "Turns",
    "Upkeep",
    "Where",
    "leave_all",
]
