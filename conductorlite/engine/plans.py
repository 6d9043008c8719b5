"""The compiled plans of embedded definitions, kept as long as they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conductorlite.engine.cache import Cache
from conductorlite.model import codec
from conductorlite.model.canonical import digest as digest_of
from conductorlite.model.definitions import Semantics, WorkflowDef
from conductorlite.model.errors import StorageCorrupt
from conductorlite.model.executions import Workflow
from conductorlite.plan.compile import Plan, compile_plan
from conductorlite.plan.grafts import grafted
from conductorlite.store.ports import ReadingTransaction

__all__ = ["Plans"]

_NOTHING_MADE: Final[Mapping[str, str]] = {}


class Plans:
    """Compiles each definition once."""

    def __init__(self) -> None:
        self._plans: Cache[tuple[str, Semantics], Plan] = Cache(256)
        self._grown: Cache[tuple[str, Semantics, tuple[str, ...]], Plan] = Cache(64)

    def plan(self, view: ReadingTransaction, workflow: Workflow) -> Plan:
        """The compiled plan of an execution's embedded definition; raises StorageCorrupt when that is missing."""
        return self._plan(view, workflow, workflow.definition_hash, {})

    def made(self, view: ReadingTransaction, workflow: Workflow, digest: str) -> WorkflowDef:
        """A definition that an execution made at run time; raises StorageCorrupt when it is missing."""
        return self._plan(view, workflow, digest, _NOTHING_MADE).definition

    def grown(
        self, view: ReadingTransaction, workflow: Workflow, chain: tuple[str, ...], made: Mapping[str, str] = _NOTHING_MADE
    ) -> Plan:
        """The plan with the definitions of these hashes grown into it; `made` are texts that are not stored yet."""
        plan = self.kept(workflow, chain)
        if plan is None:
            inner = self._plan(view, workflow, chain[-1] if chain else workflow.definition_hash, made)
            plan = self._grafted(workflow, chain, self.grown(view, workflow, chain[:-1], made), inner) if chain else inner
        return plan

    def kept(self, workflow: Workflow, chain: tuple[str, ...]) -> Plan | None:
        """The same without a look into the store, if it was asked for before, or all that it is made of."""
        if not chain:
            return self._plans.get((workflow.definition_hash, workflow.semantics))
        plan = self._grown.get((workflow.definition_hash, workflow.semantics, chain))
        if plan is None:
            inner, outer = self._plans.get((chain[-1], workflow.semantics)), self.kept(workflow, chain[:-1])
            if inner is not None and outer is not None:
                plan = self._grafted(workflow, chain, outer, inner)
        return plan

    def _grafted(self, workflow: Workflow, chain: tuple[str, ...], outer: Plan, inner: Plan) -> Plan:
        plan = grafted(outer, inner.definition.tasks[0].task_reference_name, chain[-1], inner)
        self._grown.put((workflow.definition_hash, workflow.semantics, chain), plan)
        return plan

    def _plan(self, view: ReadingTransaction, workflow: Workflow, digest: str, made: Mapping[str, str]) -> Plan:
        plan = self._plans.get((digest, workflow.semantics))
        if plan is None:
            text = made.get(digest) or view.definition(digest)
            if text is None:
                raise StorageCorrupt(f"the definition {digest} of {workflow.workflow_id} is missing")
            if digest_of(text) != digest:
                raise StorageCorrupt(f"the definition {digest} of {workflow.workflow_id} is damaged")
            plan = compile_plan(codec.workflow_def_from_json(text), workflow.semantics)
            self._plans.put((digest, workflow.semantics), plan)
        return plan

    def know(self, digest: str, plan: Plan) -> None:
        """Keep a plan that was compiled elsewhere."""
        self._plans.put((digest, plan.semantics), plan)
