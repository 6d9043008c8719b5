"""Tasks that nobody would carry out: types that only Conductor's server knows, and, where the workers are known, any other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from conductorlite.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.plan.checks_findings import Findings
from conductorlite.plan.tree import Place, walk
from conductorlite.plan.types import OPERATOR_TYPES, SHIPPED_TYPES
from conductorlite.texts import did_you_mean

__all__ = ["check_served", "unserved", "worker_types"]

#: Types that Conductor's server, its modules or Orkes' carry out, and nothing here does.
_SERVERS: Final = frozenset(
    {
        "PULL_WORKFLOW_MESSAGES", "GENERATE_IMAGE", "GENERATE_AUDIO", "GENERATE_VIDEO", "GENERATE_PDF", "LLM_TEXT_COMPLETE",
        "LLM_CHAT_COMPLETE", "LLM_GENERATE_EMBEDDINGS", "LLM_INDEX_TEXT", "LLM_INDEX_DOCUMENT", "LLM_STORE_EMBEDDINGS",
        "LLM_SEARCH_EMBEDDINGS", "LLM_GET_EMBEDDINGS", "LLM_SEARCH_INDEX", "LIST_MCP_TOOLS", "CALL_MCP_TOOL", "AGENT",
        "GET_AGENT_CARD", "CANCEL_AGENT", "PLAN_AND_COMPILE", "LIST_API_TOOLS", "GET_WORKFLOW", "UPDATE_TASK", "YIELD",
        "HTTP_POLL", "WAIT_FOR_WEBHOOK", "BUSINESS_RULE", "OPS_GENIE", "UPDATE_SECRET", "QUERY_PROCESSOR", "GET_SIGNED_JWT",
        "GET_DOCUMENT", "SENDGRID", "JDBC",
    }
)  # fmt: skip

#: Names told of at most.
_TOLD: Final = 10


def _worker_type(task: WorkflowTask) -> str | None:
    """The type whose worker carries out a task; None for what the decider does itself, or what is known at run time."""
    if task.type in OPERATOR_TYPES:
        return None
    return task.name if task.type in (TaskType.SIMPLE, "") else task.type


def check_served(nodes: Iterable[Place], served: Collection[str] | None, findings: Findings) -> None:
    """Warn, at the first task of each type, of what nobody here would carry out."""
    seen: set[str] = set()
    for node in nodes:
        kind = _worker_type(node.task)
        if kind is None or kind in seen or (served is not None and kind in served):
            continue
        seen.add(kind)
        known = served is not None or (node.task.type == kind and kind in _SERVERS)
        if known:
            findings.warn(f"{node.path}.{'type' if node.task.type == kind else 'name'}", unserved(kind, served))


def worker_types(definition: WorkflowDef) -> Iterator[str]:
    """The types that a definition needs workers for, those of inline sub-workflows included."""
    waiting = [definition]
    for one in waiting:
        for node in walk(one):
            kind = _worker_type(node.task)
            if kind is not None:
                yield kind
            params = node.task.sub_workflow_param
            if params is not None and isinstance(params.workflow_definition, WorkflowDef):
                waiting.append(params.workflow_definition)


def unserved(kind: str, served: Collection[str] | None) -> str:
    """That no worker is there for a task type, and which there are."""
    if kind in SHIPPED_TYPES and served is not None:
        return f"no worker here for {kind!r}: include those of conductorlite.system.system_workers()"
    if kind in _SERVERS:
        text = f"{kind!r} is carried out by a server of Conductor's, and by nothing here: it needs a worker of that name"
    else:
        text = f"no worker here for {kind!r}"
    if served is None:
        return text
    names = sorted(served)
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    there = f"there are {', '.join(names[:_TOLD])}{more}" if names else "there are none"
    return f"{text}; {there}{did_you_mean(kind, [*names, *sorted(map(str, OPERATOR_TYPES))])}"
