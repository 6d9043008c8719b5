"""A report that was committed is neither dropped nor made again, whatever happens to what follows, or to the answer."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from conductorlite import Engine, SubWorkflowParams, Workers, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.errors import StorageBusy, StorageUnavailable
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import FaultyBackend
from conductorlite.testing.faults import lay_empty_store


def simple(ref: str, **fields: object) -> WorkflowTask:
    return WorkflowTask(name=ref, task_reference_name=ref, **fields)  # type: ignore[arg-type]


#: A child whose end has its parent go on, beside a task; then one more.
FLOW = WorkflowDef(
    name="w",
    tasks=[
        simple(
            "f",
            type="FORK_JOIN",
            fork_tasks=[
                [simple("a")],
                [
                    simple(
                        "s",
                        type="SUB_WORKFLOW",
                        sub_workflow_param=SubWorkflowParams(
                            workflow_definition=WorkflowDef(name="child", tasks=[simple("t"), simple("u", optional=True)])
                        ),
                    )
                ],
            ],
        ),
        simple("j", type="JOIN", join_on=["a", "s"]),
        simple("z"),
    ],
)


def fails() -> None:
    raise ValueError("it is optional")


@pytest.mark.parametrize("answered", [True, False], ids=["refused", "committed without an answer"])
@pytest.mark.parametrize(
    ("store", "step"), [("memory", 1), ("sqlite", 5), pytest.param("sqlite", 1, marks=pytest.mark.slow)], ids=str
)
def test_no_report_that_was_committed_is_dropped(
    store: str, step: int, answered: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each write is refused once, or each commit loses its answer once: all is carried out, and no report comes too late."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    number = 1 - step
    while True:
        number += step
        caplog.clear()
        inner: Backend
        if store == "memory":
            inner = MemoryBackend()
        else:
            inner = SQLiteBackend(lay_empty_store(tmp_path / f"{number}.db"), synchronous="NORMAL")
        lost = [] if answered else [number]

        def lose(at: int, lost: list[int] = lost) -> None:
            if at in lost:
                lost.remove(at)
                raise StorageUnavailable("the answer to the commit did not come")

        backend = FaultyBackend(
            inner, fail_before=number if answered else None, error=StorageBusy("another writer"), on_commit=lose
        )
        workers = Workers()
        for name in ("a", "t", "z"):
            workers.task(name)(lambda: {"x": 1})
        workers.task("u", retry_count=0)(fails)
        with Engine(backend, workers=workers) as engine:
            runs = []
            for _ in range(2):
                try:
                    runs.append(engine.start(FLOW))
                except StorageBusy:
                    assert answered
                    stored = [one.workflow_id for one in engine.search().results if one.workflow_type == "w"]
                    assert sorted(stored) == sorted(run.workflow_id for run in runs)
                except StorageUnavailable:
                    assert not answered
            for run in runs:
                run.result(timeout="20s")
            engine.run_until_idle(timeout="20s")
            lost.clear()  # a search indexes, which is not the subject
            assert {engine.get(one.workflow_id).status for one in engine.search().results} == {WorkflowStatus.COMPLETED}
        dropped = [one for one in caplog.messages if "late" in one or "dropped" in one]
        assert dropped == [], number
        if backend.writes < number:
            return
