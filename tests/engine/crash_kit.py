"""`crash_families`: crash_everywhere for executions that wait for each other.

A call that is lost in one execution makes those that wait for it later. `crash_everywhere` compares an execution without instants
only when the call was its own; here that is so for all of them as soon as any call was lost. What a failure workflow is told of
the failed execution is then compared without instants too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import Engine, HistoryEvent
from conductorlite.model.canonical import Payload
from conductorlite.store.ports import Backend
from conductorlite.testing import ScriptedWorkers, crash_everywhere, crashes

__all__ = ["EVERY_DEATH", "STORES", "crash_families", "server_stores", "timeless", "without_poll_counts"]

#: Each store, killed every time: the deep run.
EVERY_DEATH = [pytest.param(store, 1, marks=pytest.mark.deep) for store in ("memory", "relay", "sqlite")]
#: In CI the slowest store is killed every thirteenth time; in the deep run every store, every time.
STORES = [pytest.param("sqlite", 13, marks=pytest.mark.slow), *EVERY_DEATH]


def server_stores() -> list[Callable[[Path], Backend]]:
    """What opens the stores of a server for the tests, if there is one: see tests/servers/run."""
    if "CONDUCTORLITE_TEST_STORE" not in os.environ:
        return []
    from tests.servers.places import store_of

    return [store_of]


STORES = [pytest.param(store, 13, id="server") for store in server_stores()] or STORES

#: Ids are derived from numbers of attempts, which a lost call changes.
_ID = re.compile(r"\b[0-9a-f]{32}\b")

_COMPARE = crashes._compare_histories


def crash_families(scenario: Callable[[Engine], object], script: Callable[[ScriptedWorkers], object], **options: Any) -> int:
    """Kill a scenario of several executions before and after each store write in turn; returns how often it was killed."""
    crashes._compare_histories = _compare_later
    try:
        return crash_everywhere(scenario, script, **options)
    finally:
        crashes._compare_histories = _COMPARE


def _compare_later(calm: Any, shaken: Any, workflow_id: str, where: str, same_order: bool) -> None:
    told = shaken.lost, calm.histories, shaken.histories
    told_as = timeless if shaken.lost else without_poll_counts
    if shaken.lost:
        shaken.lost = {*shaken.lost, (workflow_id, "", -1)}
    for life in (calm, shaken):
        life.histories = {**life.histories, workflow_id: told_as(life, workflow_id)}
    try:
        _COMPARE(calm, shaken, workflow_id, where, same_order)
    finally:
        shaken.lost, calm.histories, shaken.histories = told


def without_poll_counts(life: Any, workflow_id: str) -> list[HistoryEvent]:
    """A journal, without how often tasks of a failed execution were polled: what a dead process had is polled again."""
    made = []
    for line in life.histories[workflow_id]:
        value = line.payload.value if line.payload is not None else None
        if isinstance(value, dict) and "failedWorkflow" in value:
            told = value["failedWorkflow"]
            tasks = [{name: one[name] for name in one if name != "pollCount"} for one in told["tasks"]]
            line = attrs.evolve(line, payload=Payload.of({**value, "failedWorkflow": {**told, "tasks": tasks}}, bounded=False))
        made.append(line)
    return made


def timeless(life: Any, workflow_id: str) -> list[HistoryEvent]:
    """A journal without the ids of attempts, which tells of a failed execution without instants.

    What a rerun takes back is sorted: in which order branches were scheduled depends on who was late.
    """
    made = []
    for line in life.histories[workflow_id]:
        reason = line.reason and _ID.sub("<id>", line.reason)
        value = line.payload.value if line.payload is not None else None
        if isinstance(value, dict) and "failedWorkflow" in value:
            told = value["failedWorkflow"]
            ends = [(one["referenceTaskName"], one["status"], str(one["outputData"])) for one in told["tasks"]]
            tasks = sorted(end for end in ends if end[1] != "TIMED_OUT")
            kept = {key: told[key] for key in ("status", "input", "variables", "failedReferenceTaskNames")}
            value = {**value, "failedWorkflow": {**kept, "tasks": tasks}}
        if isinstance(value, dict) and "dropped" in value:
            value = {**value, "dropped": sorted(value["dropped"])}
        payload = None if line.payload is None else Payload.of(value, bounded=False)
        if payload is not None and payload.text is not None:
            payload = Payload(_ID.sub("<id>", payload.text))
        made.append(attrs.evolve(line, reason=reason, payload=payload))
    return made
