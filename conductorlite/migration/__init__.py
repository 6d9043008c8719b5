"""Moving a running execution to another definition: what differs, and whether what is live has a place in it.

    places       where each reference of a definition stands
    difference   two definitions compared, in words
    future       what can still run, from what is live now
    planning     one execution between two definitions: safe, or blocked and why

Nothing here changes anything; `decider.migrations` carries a plan out.
"""

from conductorlite.migration.difference import DefinitionDiff, diff
from conductorlite.migration.planning import MigrationPlan, Verdict, plan_between, plan_migration

__all__ = ["DefinitionDiff", "MigrationPlan", "Verdict", "diff", "plan_between", "plan_migration"]
