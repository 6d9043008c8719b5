"""Hook that Hypothesis calls on import: `st.from_type(WorkflowDef)` draws definitions that are valid, nested and end.

Named by the entry point `hypothesis` of the package. The strategies themselves are imported when one of them is drawn from.
"""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Register the strategies of `conductorlite.testing.strategies` for the types that they make."""
    from hypothesis import strategies as st

    from conductorlite.model.definitions import TaskDef, WorkflowDef

    def workflow_defs(_: type[WorkflowDef]) -> st.SearchStrategy[WorkflowDef]:
        from conductorlite.testing.strategies import definitions

        return definitions()

    def task_definitions(_: type[TaskDef]) -> st.SearchStrategy[TaskDef]:
        from conductorlite.testing.strategies import task_defs

        return task_defs()

    st.register_type_strategy(WorkflowDef, workflow_defs)
    st.register_type_strategy(TaskDef, task_definitions)
