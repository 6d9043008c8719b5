"""A few executions, and whether an index answers as the store does."""

from __future__ import annotations

from typing import Any

from conductorlite import Engine, TaskFailedTerminally, VirtualClock, Workers, WorkflowDef

ORDER = WorkflowDef.from_json(
    {
        "name": "order",
        "tasks": [
            {"name": "charge", "taskReferenceName": "charge", "inputParameters": {"amount": "${workflow.input.amount}"}},
            {"name": "ship", "taskReferenceName": "ship", "inputParameters": {"to": "${workflow.input.city}"}},
        ],
    }
)

#: What every test asks, with what an index could get wrong.
QUESTIONS = (
    ("", "*"),
    ("status = COMPLETED", "*"),
    ("status = FAILED AND input.amount >= 100", "*"),
    ("output.to = 'Köln' OR correlationId STARTS_WITH 'customer-1'", "*"),
    ("failedReferenceTaskNames = charge", "*"),
    ("NOT archived = true", "koln"),
    ("endTime IS NULL", "*"),
)


def workers() -> Workers:
    """What charges and ships; an amount that divides by 100 is refused."""
    found = Workers()

    @found.task("charge")
    def charge(amount: int) -> dict[str, Any]:
        if amount % 100 == 0:
            raise TaskFailedTerminally("the card was refused")
        return {"charged": amount}

    @found.task("ship")
    def ship(to: str) -> dict[str, Any]:
        return {"to": to}

    return found


def engine(store: Any, index: Any = None, clock: VirtualClock | None = None) -> Engine:
    """An engine that carries orders out; `index` is an external one."""
    return Engine(store, workers=workers(), clock=clock or VirtualClock(1_000), index=index)


def place(engine: Engine, first: int, last: int) -> None:
    """Start orders by number, unless they are there."""
    known = set(engine.admin.workflow_ids())
    for n in range(first, last):
        if f"o{n}" not in known:
            data = {"amount": n * 50, "city": ("Köln", "Oslo", "Rome")[n % 3], "note": "x" * 2_000}
            engine.start(ORDER, data, workflow_id=f"o{n}", correlation_id=f"customer-{n}")


def answers(engine: Engine, *, looking: bool = False) -> list[Any]:
    """All that the questions find, of executions and of tasks; with `looking` without an index."""
    if looking:
        engine.core.searching.feeder, feeder = None, engine.core.searching.feeder
        engine.core.searching._own_found = lambda ask, look: look()  # type: ignore[method-assign]
        try:
            return answers(engine)
        finally:
            engine.core.searching.feeder = feeder
            del engine.core.searching._own_found
    found: list[Any] = []
    for query, words in QUESTIONS:
        result = engine.search(query, free_text=words, sort="workflowId:ASC")
        found.append((result.total_hits, result.results))
    for query in ("", "status = COMPLETED AND workflowType = order", "input.to = 'Köln'", "referenceTaskName = charge"):
        tasks = engine.tasks.search(query)
        found.append((tasks.total_hits, tasks.results))
    found.append(engine.tasks.search_workflows("status = FAILED_WITH_TERMINAL_ERROR", sort="workflowId").results)
    return found


def agrees(engine: Engine) -> None:
    """The index is complete, not behind, and answers as the store does."""
    assert answers(engine) == answers(engine, looking=True)
    health = engine.admin.index_health()
    assert health is None or (health.complete, health.behind, health.error) == (True, 0, None)
