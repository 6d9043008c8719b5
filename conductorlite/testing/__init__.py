"""The test kit: scripted workers, faulty stores, the laws of an execution, Hypothesis strategies, and a pytest plugin.

Everything is imported when it is first used; `strategies`, `BackendConformance` and the plugin need
`conductorlite[testing]` and raise MissingExtra without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from conductorlite.engine.invariants import INVARIANTS, Finding, findings
    from conductorlite.testing import strategies
    from conductorlite.testing.answers import Cassette, assert_calls, freeze_workers
    from conductorlite.testing.conformance import BackendConformance
    from conductorlite.testing.conformance.indexes import IndexConformance, MemoryIndex
    from conductorlite.testing.conformance.locks import LockConformance
    from conductorlite.testing.conformance.payloads import PayloadStorageConformance
    from conductorlite.testing.crashes import crash_everywhere, start_once
    from conductorlite.testing.disturbances import deliver_twice, disturbed_by, reorder
    from conductorlite.testing.environment import TaskEnvironment
    from conductorlite.testing.exploration.invariants import RunState, conserved, eventually, in_order, never, whenever
    from conductorlite.testing.exploration.outcomes import OUTCOMES, Outcome
    from conductorlite.testing.exploration.report import ExplorationFailed, Explored, Problem
    from conductorlite.testing.exploration.search import explore
    from conductorlite.testing.faults import CountedIds, Crash, FaultyBackend
    from conductorlite.testing.forecast import Forecast, Work, exponential, fixed, lognormal, measured, uniform, what_if
    from conductorlite.testing.history import History, diff
    from conductorlite.testing.interrupts import interrupt_everywhere
    from conductorlite.testing.machine import WorkflowMachine
    from conductorlite.testing.mocked import mock_sub_workflows, run_mocked
    from conductorlite.testing.readers import NotRecorded, RecordingReader, ReplayReader, RowsReader
    from conductorlite.testing.replaying import Replayed, replay
    from conductorlite.testing.scripted import Call, Script, ScriptedWorkers
    from conductorlite.testing.simulation import Simulated, SimulationFailed, simulate
    from conductorlite.testing.steps import Step, StepKind, assert_history, render_history, timeline

__all__ = [
    "INVARIANTS",
    "OUTCOMES",
    "BackendConformance",
    "Call",
    "Cassette",
    "CountedIds",
    "Crash",
    "ExplorationFailed",
    "Explored",
    "FaultyBackend",
    "Finding",
    "Forecast",
    "History",
    "IndexConformance",
    "LockConformance",
    "MemoryIndex",
    "NotRecorded",
    "Outcome",
    "PayloadStorageConformance",
    "Problem",
    "RecordingReader",
    "ReplayReader",
    "Replayed",
    "RowsReader",
    "RunState",
    "Script",
    "ScriptedWorkers",
    "Simulated",
    "SimulationFailed",
    "Step",
    "StepKind",
    "TaskEnvironment",
    "Work",
    "WorkflowMachine",
    "assert_calls",
    "assert_history",
    "conserved",
    "crash_everywhere",
    "deliver_twice",
    "diff",
    "disturbed_by",
    "eventually",
    "explore",
    "exponential",
    "findings",
    "fixed",
    "freeze_workers",
    "in_order",
    "interrupt_everywhere",
    "lognormal",
    "measured",
    "mock_sub_workflows",
    "never",
    "render_history",
    "reorder",
    "replay",
    "run_mocked",
    "simulate",
    "start_once",
    "strategies",
    "timeline",
    "uniform",
    "what_if",
    "whenever",
]

_PLACES: Final = {
    "INVARIANTS": "conductorlite.engine.invariants",
    "Finding": "conductorlite.engine.invariants",
    "findings": "conductorlite.engine.invariants",
    "BackendConformance": "conductorlite.testing.conformance",
    "IndexConformance": "conductorlite.testing.conformance",
    "LockConformance": "conductorlite.testing.conformance",
    "PayloadStorageConformance": "conductorlite.testing.conformance",
    "TaskEnvironment": "conductorlite.testing.environment",
    "RunState": "conductorlite.testing.exploration.invariants",
    "conserved": "conductorlite.testing.exploration.invariants",
    "eventually": "conductorlite.testing.exploration.invariants",
    "in_order": "conductorlite.testing.exploration.invariants",
    "never": "conductorlite.testing.exploration.invariants",
    "whenever": "conductorlite.testing.exploration.invariants",
    "OUTCOMES": "conductorlite.testing.exploration.outcomes",
    "Outcome": "conductorlite.testing.exploration.outcomes",
    "ExplorationFailed": "conductorlite.testing.exploration.report",
    "Explored": "conductorlite.testing.exploration.report",
    "Problem": "conductorlite.testing.exploration.report",
    "explore": "conductorlite.testing.exploration.search",
    "crash_everywhere": "conductorlite.testing.crashes",
    "start_once": "conductorlite.testing.crashes",
    "Crash": "conductorlite.testing.faults",
    "FaultyBackend": "conductorlite.testing.faults",
    "assert_history": "conductorlite.testing.steps",
    "render_history": "conductorlite.testing.steps",
    "timeline": "conductorlite.testing.steps",
    "interrupt_everywhere": "conductorlite.testing.interrupts",
    "MemoryIndex": "conductorlite.testing.conformance.indexes",
    "NotRecorded": "conductorlite.testing.readers",
    "RecordingReader": "conductorlite.testing.readers",
    "ReplayReader": "conductorlite.testing.readers",
    "RowsReader": "conductorlite.testing.readers",
    "Replayed": "conductorlite.testing.replaying",
    "mock_sub_workflows": "conductorlite.testing.mocked",
    "run_mocked": "conductorlite.testing.mocked",
    "replay": "conductorlite.testing.replaying",
    "Call": "conductorlite.testing.scripted",
    "Script": "conductorlite.testing.scripted",
    "ScriptedWorkers": "conductorlite.testing.scripted",
    "Simulated": "conductorlite.testing.simulation",
    "SimulationFailed": "conductorlite.testing.simulation",
    "simulate": "conductorlite.testing.simulation",
    "Step": "conductorlite.testing.steps",
    "StepKind": "conductorlite.testing.steps",
    "CountedIds": "conductorlite.testing.faults",
    "Forecast": "conductorlite.testing.forecast",
    "Work": "conductorlite.testing.forecast",
    "exponential": "conductorlite.testing.forecast",
    "fixed": "conductorlite.testing.forecast",
    "lognormal": "conductorlite.testing.forecast",
    "measured": "conductorlite.testing.forecast",
    "uniform": "conductorlite.testing.forecast",
    "what_if": "conductorlite.testing.forecast",
    "History": "conductorlite.testing.history",
    "diff": "conductorlite.testing.history",
    "Cassette": "conductorlite.testing.answers",
    "assert_calls": "conductorlite.testing.answers",
    "freeze_workers": "conductorlite.testing.answers",
    "WorkflowMachine": "conductorlite.testing.machine",
    "deliver_twice": "conductorlite.testing.disturbances",
    "disturbed_by": "conductorlite.testing.disturbances",
    "reorder": "conductorlite.testing.disturbances",
}


def __getattr__(name: str) -> Any:
    if name == "strategies":
        return import_module("conductorlite.testing.strategies")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_PLACES[name]), name)
    except ModuleNotFoundError as error:
        if error.name in ("pytest", "hypothesis"):
            from conductorlite.model.errors import MissingExtra

            raise MissingExtra("testing", f"conductorlite.testing.{name}") from error
        raise


def __dir__() -> list[str]:
    return sorted(__all__)
