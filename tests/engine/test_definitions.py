"""Definitions as executions keep them: embedded at the start, immutable, stored once."""

from __future__ import annotations

import attrs
import pytest
from engine_kit import Bench, NewBench, flow, fork, join, rounds, simple, switch, task_def

from conductorlite import InvalidDefinition, TaskDef, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.errors import AlreadyExists, DefinitionNotFound
from conductorlite.model.codec import definition_text
from conductorlite.model.definitions import Semantics
from conductorlite.plan.compile import known_plan
from conductorlite.store.memory.backend import MemoryBackend


def test_registering_again_changes_nothing_that_runs(bench: Bench) -> None:
    """A running execution goes on with the definition it was started with; a new one takes the new."""
    bench.engine.register(flow(simple("a"), simple("b")))
    bench.start("flow")
    first = bench.workflow_id
    bench.engine.register(flow(simple("a"), simple("other")))
    bench.do("a")
    assert bench.statuses() == {"a": "COMPLETED", "b": "SCHEDULED"}
    bench.start("flow")
    bench.do("a")
    assert bench.statuses() == {"a": "COMPLETED", "other": "SCHEDULED"}
    assert [task.task_reference_name for task in bench.engine.get(first).definition.tasks] == ["a", "b"]  # type: ignore[union-attr]


def test_registering_a_task_definition_again(bench: Bench) -> None:
    """Task definitions are embedded at the start, too: a running task keeps its retries, a new one takes the new."""
    bench.engine.register(task_def("a", retry_count=1, retry_delay_s=1), flow(simple("a")))
    bench.start("flow")
    bench.engine.register(task_def("a", retry_count=0))
    bench.do("a", "FAILED")
    assert bench.statuses() == {"a": "SCHEDULED"}
    bench.at(1)
    bench.do("a")
    bench.start("flow")
    bench.do("a", "FAILED")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


def test_unregistered(bench: Bench) -> None:
    """A definition that nobody registered can be started; that registers nothing."""
    bench.start(flow(simple("a"), name="loose"))
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert list(bench.engine.definitions.workflows()) == []
    with pytest.raises(DefinitionNotFound, match="loose"):
        bench.engine.start("loose")


def test_changing_the_object_changes_nothing(bench: Bench) -> None:
    """What was handed in may be changed afterwards without any effect."""
    inputs = {"n": {"deep": 1}}
    definition = flow(simple("a", input_parameters=inputs), simple("b", input_parameters=inputs))
    given = {"list": [1]}
    bench.start(definition, given)
    inputs["n"]["deep"] = 2
    given["list"].append(2)
    assert bench.take("a").input_data == {"n": {"deep": 1}}
    bench.report(bench.task("a"), lease=False)
    assert bench.take("b").input_data == {"n": {"deep": 1}}
    assert bench.workflow.input_data == {"list": [1]}


def _spoil(definition: WorkflowDef | None) -> None:
    """Change every mapping of a definition, as nobody should."""
    assert definition is not None
    for mapping in (definition.variables, definition.output_parameters, *(task.input_parameters for task in definition.tasks)):
        mapping.clear()  # type: ignore[attr-defined]


@pytest.mark.parametrize("whose", ["given", "shown"])
def test_no_object_of_the_programs_is_part_of_a_plan(new_bench: NewBench, whose: str) -> None:
    """Neither what it handed in nor what it was shown, in this engine or in another one of the process, which share plans."""
    for spoiling in (True, False):
        bench = new_bench()
        definition = flow(
            simple("a", input_parameters={"n": "${workflow.variables.n}"}),
            variables={"n": 1},
            output_parameters={"x": "${a.output.x}"},
        )
        bench.start(definition)
        if spoiling:
            _spoil(definition if whose == "given" else bench.workflow.definition)
        for _ in range(2):
            assert bench.take("a").input_data == {"n": 1}
            bench.report(bench.task("a"), lease=False, output={"x": 2})
            assert bench.workflow.output_data == {"x": 2}
            bench.engine.restart(bench.workflow_id)


def test_a_text_is_compiled_once() -> None:
    """For all engines of the process; with the names that one knows, or under other rules, it is another plan."""
    text = definition_text(flow(simple("a"), name="compiled_once"))
    plan, _ = known_plan(text)
    assert known_plan(str(text))[0] is plan
    assert known_plan(text, Semantics.OSS)[0] is not plan
    broken = definition_text(flow(simple("a"), simple("a"), name="broken"))
    for _ in range(2):
        with pytest.raises(InvalidDefinition, match="1 problem"):
            known_plan(broken)


@pytest.mark.parametrize("found", ["embedded", "registered", "decorator", "default"])
def test_precedence(new_bench: NewBench, found: str) -> None:
    """Embedded in the WorkflowTask, then registered, then the decorator's, then Conductor's default."""
    workers = Workers()
    if found != "default":
        workers.task("a", retry_delay_seconds=30)(lambda: None)
    bench = new_bench(workers=workers)
    if found in ("embedded", "registered"):
        bench.engine.register(task_def("a", retry_delay_s=20))
    bench.start(flow(simple("a", {"retry_delay_s": 10} if found == "embedded" else None)))
    # Reported without a poll: the driver would call the decorated function.
    bench.report(bench.task("a"), "FAILED", lease=False)
    delay = {"embedded": 10, "registered": 20, "decorator": 30, "default": 60}[found]
    assert bench.task("a").due_at == bench.clock.now() + delay * 1000


def test_precedence_is_all_or_nothing(bench: Bench) -> None:
    """Definitions are not merged: an embedded one leaves the rest to the defaults, not to the registered one."""
    bench.engine.register(task_def("a", retry_delay_s=20, retry_count=0))
    bench.start(flow(simple("a", {"retry_delay_s": 10})))
    bench.do("a", "FAILED")
    assert bench.task("a").due_at == bench.clock.now() + 10_000


def test_definitions_at_every_depth(bench: Bench) -> None:
    """Task definitions are embedded inside forks, cases, defaults and loops as well."""
    refs = ("a", "b", "c", "d")
    bench.engine.register(*[task_def(ref, retry_count=0) for ref in refs])
    bench.start(
        flow(
            fork("f", [simple("a")], [switch("S", {"x": [simple("b")]}, [simple("c")])], [rounds("l", [simple("d")])]),
            join("j", "a", "S", "l"),
        ),
        {"case": "x"},
    )
    definition = bench.workflow.definition
    assert definition is not None
    f = definition.tasks[0]
    embedded = [f.fork_tasks[0][0], f.fork_tasks[1][0].decision_cases["x"][0], f.fork_tasks[1][0].default_case[0],
                f.fork_tasks[2][0].loop_over[0]]  # fmt: skip
    assert [task.task_definition and task.task_definition.retry_count for task in embedded] == [0, 0, 0, 0]


def test_a_hundred_starts_store_one_definition() -> None:
    """The embedded definition is kept under the hash of its text, once, however it was handed in."""
    backend = MemoryBackend()
    bench = Bench(backend)
    bench.engine.register(flow(simple("a")))
    for number in range(100):
        bench.start("flow" if number % 2 else WorkflowDef.from_json(flow(simple("a")).to_json()), {"n": number})
    assert len(backend._store.metadata.definitions) == 1
    hashes = {bench.engine.get(workflow_id).definition_hash for workflow_id in bench.engine.admin.workflow_ids()}
    assert hashes == set(backend._store.metadata.definitions)
    assert bench.engine.admin.check() == []


def test_versions(bench: Bench) -> None:
    """Without a version the highest is started, at registration order's expense; every version stays."""
    for version in (1, 10, 2):
        bench.engine.register(flow(simple(f"v{version}"), version=version))
    assert list(bench.engine.definitions.workflows()) == [("flow", 1), ("flow", 2), ("flow", 10)]
    bench.start("flow")
    assert (bench.workflow.version, list(bench.statuses())) == (10, ["v10"])
    bench.start("flow", version=2)
    assert (bench.workflow.version, list(bench.statuses())) == (2, ["v2"])
    with pytest.raises(DefinitionNotFound, match="'flow' version 3"):
        bench.engine.start("flow", version=3)
    assert bench.engine.definitions.workflow("flow").version == 10


def test_unregistering(bench: Bench) -> None:
    """A version and a task definition are deleted; what runs keeps them, a new start does not find them."""
    engine = bench.engine
    engine.register(task_def("a", retry_count=1, retry_delay_s=1), flow(simple("a")), attrs.evolve(flow(simple("b")), version=2))
    bench.start("flow", version=1)
    engine.definitions.unregister("flow", 1)
    engine.definitions.unregister_task("a")
    assert list(engine.definitions.workflows()) == [("flow", 2)]
    with pytest.raises(DefinitionNotFound, match="version 1"):
        engine.start("flow", version=1)
    for gone in (lambda: engine.definitions.unregister("flow", 1), lambda: engine.definitions.unregister_task("a")):
        with pytest.raises(DefinitionNotFound):
            gone()
    bench.do("a", "FAILED")
    assert bench.statuses() == {"a": "SCHEDULED"}
    engine.start(flow(simple("a"), name="new"))


def test_register_without_overwriting(bench: Bench) -> None:
    """`overwrite=False` refuses a name and version that are taken, and then registers nothing of the call."""
    bench.engine.register(flow(simple("a")))
    with pytest.raises(AlreadyExists, match="'flow' version 1"):
        bench.engine.register(flow(simple("n"), name="new"), flow(simple("b")), overwrite=False)
    assert list(bench.engine.definitions.workflows()) == [("flow", 1)]


def test_register_is_all_or_nothing(bench: Bench) -> None:
    """One bad definition keeps the good ones out, and every problem of all of them is told."""
    bad = flow(simple("a"), simple("a"))
    worse = TaskDef(name="t", response_timeout_ms=2_000, timeout_ms=1_000)
    with pytest.raises(InvalidDefinition) as caught:
        bench.engine.register(flow(simple("ok"), name="good"), bad, worse)
    assert len(caught.value.problems) >= 2
    assert list(bench.engine.definitions.workflows()) == []
    assert list(bench.engine.definitions.tasks()) == []


def test_definitions_survive_reopening(new_bench: NewBench) -> None:
    """Another engine on the same store goes on with executions of definitions that nobody registered."""
    first = new_bench()
    first.start(flow(simple("a"), simple("b")))
    first.do("a")
    second = Bench(first.engine.backend)
    second.clock = VirtualClock(first.clock.now())
    second.workflow_id = first.workflow_id
    second.do("b")
    assert second.status_of_workflow() is WorkflowStatus.COMPLETED
