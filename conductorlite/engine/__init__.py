"""The verbs, one file per family, each family built on the one before.

metadata ◁ control ◁ migrations ◁ reruns ◁ workface ◁ signals ◁ records ◁ limits ◁ queries.
"""

from conductorlite.engine.asked import Listener
from conductorlite.engine.limits import LimitMember, LimitUse
from conductorlite.engine.queries import AgendaEntry, Queries
from conductorlite.engine.reruns import BulkReport
from conductorlite.engine.turns import Turns

__all__ = ["AgendaEntry", "BulkReport", "LimitMember", "LimitUse", "Listener", "Queries", "Turns"]
