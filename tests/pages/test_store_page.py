"""The page of a store: executions by status and definition, failures by reason, what waits, what comes next."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_kit import Element, read

from conductorlite import (
    Engine,
    StartWorkflowRequest,
    TaskDef,
    TaskFailedTerminally,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowSchedule,
    WorkflowTask,
)
from conductorlite.errors import InvalidInput
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend

T0 = 1_900_000_000_000
WORSE = "<img src=x onerror=alert(1)></script>"


def flow(name: str, kind: str = "SIMPLE", **fields: object) -> WorkflowDef:
    task = WorkflowTask(name=name, task_reference_name="t", type=kind, **fields)  # type: ignore[arg-type]
    return WorkflowDef(name=name, tasks=[task])


def pay(order: int) -> None:
    raise TaskFailedTerminally(f"order {order}: {WORSE}")


def filled(backend: Backend) -> Engine:
    """Three executions that failed alike, one that waits, two that no worker serves, one that completed, and a schedule."""
    workers = Workers()
    workers.add("pay", pay)
    engine = Engine(backend, clock=VirtualClock(T0), workers=workers)
    once = TaskDef(name="pay", retry_count=0)
    for order in range(3):
        engine.start(flow("pay", input_parameters={"order": order}, task_definition=once), workflow_id=f"p-{order}")
    engine.start(flow("nap", "WAIT", input_parameters={"duration": "1 hour"}), workflow_id="n-1")
    for number in range(2):
        engine.start(flow("nobody", task_definition=TaskDef(name="nobody", concurrent_exec_limit=1)), workflow_id=f"x-{number}")
    engine.start(flow("noop", "NOOP"), workflow_id="o-1")
    engine.register(flow("noop", "NOOP"))
    start = StartWorkflowRequest(name="noop")
    engine.schedules.save(WorkflowSchedule(name="nightly", cron_expression="0 0 3 * * *", start_workflow_request=start))
    engine.settle()
    return engine


def cells(page: Element, section: str) -> list[list[str]]:
    """The rows of the tables of a section, without their heads."""
    rows = [row for body in page.by_id(section).all("tbody") for row in body.all("tr")]
    return [[cell.text for cell in row.content if isinstance(cell, Element)] for row in rows]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_a_store_shows(kind: str, tmp_path: Path) -> None:
    """Each execution is listed once, newest first; failures that differ in numbers only are one group; texts stay texts."""
    with filled(MemoryBackend() if kind == "memory" else SQLiteBackend(tmp_path / "a.db")) as engine:
        text = engine.admin.page()
        stored = [(row.workflow_id, str(row.status)) for row in engine.executions()]
    page = read(text)
    listed = [(row.all("th")[0].text, row.attributes["data-s"]) for row in page.all("tr") if "data-s" in row.attributes]
    assert listed == stored
    [head, *_] = page.by_id("definitions").all("tr")
    assert [cell.text for cell in head.all("th")] == ["Definition", "RUNNING", "COMPLETED", "FAILED"]
    assert cells(page, "definitions") == [
        ["nap v1", "1", "", ""],
        ["nobody v1", "2", "", ""],
        ["noop v1", "", "1", ""],
        ["pay v1", "", "", "3"],
    ]
    [[reason, times, name, newest, which]] = cells(page, "failures")
    assert (times, name, newest) == ("3", "pay", "2030-03-17 17:46:40 UTC")
    assert reason in {f"t failed: order {order}: {WORSE}" for order in range(3)}  # the step and its reason
    assert all(f"p-{order}" in which for order in range(3))
    assert ["2030-03-17 18:46:40 UTC", "in 1 h", "WAIT_ENDS", "t", "n-1"] in cells(page, "due")
    assert ["nobody", "1", "1", "0", "0", "0 ms"] in cells(page, "queues")
    assert cells(page, "limits") == [["task:nobody", "1", "0", "1"]]
    assert [row[:4] for row in cells(page, "schedules")] == [["nightly", "noop", "active", "2030-03-18 03:00:00 UTC"]]
    assert not page.all("img")
    assert len(page.all("script")) == 1


def test_a_store_with_more_than_is_looked_at() -> None:
    """The newest `limit` executions, and the page says that these are not all; an empty store has a page; 0 is refused."""
    with filled(MemoryBackend()) as engine:
        page = read(engine.admin.page(limit=2))
        assert len([row for row in page.all("tr") if "data-s" in row.attributes]) == 2
        assert "2, the newest 2" in page.text
        with pytest.raises(InvalidInput):
            engine.admin.page(limit=0)
    with Engine() as engine:
        assert "0, all" in read(engine.admin.page()).text
