"""Where secrets are filled in, where they are not, and what happens when they are not to be had."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from canary_kit import Vault

from conductorlite import (
    AsyncEngine,
    Engine,
    EngineConfig,
    EnvironmentSecrets,
    InvalidDefinition,
    Semantics,
    Task,
    TaskContext,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
    validate,
)
from conductorlite.errors import InvalidInput, SecretsUnavailable
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend

SECRETS = {"A": "alpha-alpha", "B": '{"user": {"name": "bob-bobson"}, "n": [1, 12345]}', "N": "12"}


def one(inputs: dict[str, Any], kind: str = "SIMPLE", task_def: TaskDef | None = None, **fields: Any) -> WorkflowDef:
    """A workflow of one task `t`."""
    task = WorkflowTask(name="t", task_reference_name="t", type=kind, input_parameters=inputs, task_definition=task_def, **fields)
    return WorkflowDef(name="flow", tasks=[task])


def polled(engine: Engine, definition: WorkflowDef, given: dict[str, Any] | None = None) -> Task:
    """The one task that is offered."""
    engine.start(definition, given, workflow_id="w")
    engine.settle()
    (task,) = engine.poll("t")
    return task


@pytest.fixture
def engine(backend: Backend) -> Engine:
    """An engine with three secrets."""
    return Engine(backend, clock=VirtualClock(0), secrets=SECRETS)


@pytest.mark.parametrize(
    ("written", "received"),
    [
        ("${workflow.secrets.A}", "alpha-alpha"),
        ("x ${workflow.secrets.A} y ${workflow.secrets.N}${workflow.secrets.A}", "x alpha-alpha y 12alpha-alpha"),
        ("${workflow.secrets.N}", "12"),
        ("${workflow.secrets.B.user.name}", "bob-bobson"),
        ("${workflow.secrets.B.user}", {"name": "bob-bobson"}),
        ("${workflow.secrets.B.n[1]}", 12345),
        ("n=${workflow.secrets.B.n[1]}", "n=12345"),
        ("${workflow.secrets.B}", SECRETS["B"]),
        ([{"k": ["${workflow.secrets.A}"]}], [{"k": ["alpha-alpha"]}]),
        ("$${workflow.secrets.A}", "${workflow.secrets.A}"),
        ("${workflow.input.n}-${workflow.secrets.A}", "7-alpha-alpha"),
    ],
)  # fmt: skip
def test_a_worker_receives_the_value_and_the_store_the_name(engine: Engine, written: Any, received: Any) -> None:
    """Whole texts are typed, longer ones are text; what is stored is what the definition says."""
    task = polled(engine, one({"k": written}), {"n": 7})
    assert task.input_data == {"k": received}
    stored = str(engine.get("w").tasks[0].input_data)
    assert [value for value in ("alpha", "bob", "12345") if value in stored] == []


@pytest.mark.trap("tasks-56")
@pytest.mark.parametrize("hostile", ["${workflow.secrets.A}", "x ${workflow.secrets.A}", "${workflow.secrets.B}"])
def test_data_that_looks_like_a_secret_is_data(engine: Engine, hostile: str) -> None:
    """Whoever writes an input reads no secret: only what the definition names, where it names it, is filled in."""
    definition = one({"mine": "${workflow.input.x}", "nested": "${workflow.input}", "key": "${workflow.secrets.A}"})
    task = polled(engine, definition, {"x": hostile})
    assert task.input_data == {"mine": hostile, "nested": {"x": hostile}, "key": "alpha-alpha"}


def test_the_template_of_a_task_definition_may_name_one(engine: Engine) -> None:
    """Where the parameter is absent, and where it comes out null."""
    template = {"a": "${workflow.secrets.A}", "b": {"c": "${workflow.secrets.A}"}}
    definition = one({"b": "${workflow.input.none}"}, task_def=TaskDef(name="t", input_template=template))
    assert polled(engine, definition).input_data == {"a": "alpha-alpha", "b": {"c": "alpha-alpha"}}


def test_runtime_metadata_is_handed_out_beside_the_input(engine: Engine) -> None:
    """`runtimeMetadata` names secrets; they are on the polled task, and scrubbed like those in its input."""
    task = polled(engine, one({}, task_def=TaskDef(name="t", runtime_metadata=["A"])))
    assert (task.runtime_metadata, task.input_data) == ({"A": "alpha-alpha"}, {})
    done = TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, output_data={"got": "alpha-alpha"})
    assert engine.update_task(done).output_data == {"got": "***"}
    assert engine.get("w").tasks[0].runtime_metadata == {}


def test_runtime_metadata_that_is_not_there(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """By the semantics of the open-source server the task is handed out without it, with a warning; else it fails for good."""
    definition = one({"k": "${workflow.secrets.A}"}, task_def=TaskDef(name="t", runtime_metadata=["A", "NONE"]))
    engine = Engine(backend, clock=VirtualClock(0), secrets=SECRETS, config=EngineConfig(semantics=Semantics.OSS))
    task = polled(engine, definition)
    assert (task.runtime_metadata, task.input_data) == ({"A": "alpha-alpha"}, {"k": "alpha-alpha"})
    assert "handed out without 'NONE'" in caplog.text
    strict = Engine(MemoryBackend(), clock=VirtualClock(0), secrets=SECRETS)
    strict.start(definition, workflow_id="w")
    strict.settle()
    assert strict.poll("t") == []
    assert strict.get("w").tasks[0].reason == "task 't': there is no secret 'NONE'"


@pytest.mark.parametrize(
    ("written", "named"),
    [("${workflow.secrets.NONE}", "NONE"), ("x ${workflow.secrets.NONE.a}", "NONE"), ("${workflow.secrets.B.no.such}", "B.no.such"),
     ("${workflow.secrets.A.path}", "A.path")],
)  # fmt: skip
def test_a_secret_that_is_not_there_fails_the_task_for_good(engine: Engine, written: str, named: str) -> None:
    """Its name is in the reason; no worker sees the task, and it is not tried again."""
    engine.start(one({"k": written}), workflow_id="w")
    engine.settle()
    assert engine.poll("t") == []
    (task,) = engine.get("w").tasks
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert task.reason == f"task 't': there is no secret {named!r}"
    assert engine.status("w") is WorkflowStatus.FAILED


def test_a_provider_that_fails_fails_the_attempt(backend: Backend) -> None:
    """Its error is named by type, never quoted; the task's policy says whether it is tried again."""

    class Shaky(Vault):
        def get(self, name: str, /) -> str | None:
            super().get(name)
            if len(self.asked) == 1:
                raise ConnectionError("alpha-alpha is what I would have said")
            return "alpha-alpha"

    engine = Engine(backend, clock=VirtualClock(0), secrets=Shaky())
    engine.start(one({"k": "${workflow.secrets.A}"}, task_def=TaskDef(name="t", retry_count=1, retry_delay_ms=0)), workflow_id="w")
    engine.settle()
    assert engine.poll("t") == []
    engine.settle()
    (task,) = engine.poll("t")
    assert task.input_data == {"k": "alpha-alpha"}
    first = engine.get("w").tasks[0]
    assert (first.status, first.reason) == (TaskStatus.FAILED, "task 't': the secret 'A' could not be looked up: ConnectionError")
    assert "alpha" not in repr(engine.history("w"))


def test_a_provider_that_never_answers(backend: Backend) -> None:
    """Polling goes on for the others; a report on what another process has handed out is not stored unscrubbed."""

    class Down:
        def get(self, name: str, /) -> str | None:
            raise ConnectionError(name)

    engine = Engine(backend, clock=VirtualClock(0), secrets=Down())
    definition = one({"k": "${workflow.secrets.A}"}, task_def=TaskDef(name="t", retry_count=1, retry_delay_ms=0))
    engine.start(definition, workflow_id="w")
    engine.settle()
    assert engine.poll("t") == []
    engine.settle()
    (task,) = Engine(backend, clock=engine.clock, secrets=SECRETS).poll("t")
    said = TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, output_data=task.input_data)
    with pytest.raises(SecretsUnavailable, match="task 't': the secret 'A' could not be looked up: ConnectionError"):
        engine.update_task(said)
    with pytest.raises(SecretsUnavailable):
        engine.tasks.log(engine.tasks.get(task.task_id), "used alpha-alpha")
    assert engine.tasks.logs(task.task_id) == []
    assert engine.tasks.get(task.task_id).status is TaskStatus.IN_PROGRESS


@pytest.mark.parametrize("value", [b"bytes", 7, {"a": 1}])
def test_a_provider_must_give_text(backend: Backend, value: Any) -> None:
    """Anything else fails the attempt, named by its type."""
    engine = Engine(backend, clock=VirtualClock(0), secrets={"A": value})
    engine.start(one({"k": "${workflow.secrets.A}"}, task_def=TaskDef(name="t", retry_count=0)), workflow_id="w")
    engine.settle()
    assert engine.poll("t") == []
    assert engine.get("w").tasks[0].reason == f"task 't': the secret 'A' is not text, but of type {type(value).__name__}"


def test_a_text_that_json_cannot_hold_fails_the_task(backend: Backend) -> None:
    """Half a surrogate pair, as an environment may hold one; the reason does not quote it."""
    engine = Engine(backend, clock=VirtualClock(0), secrets={"A": "abcdef\udc80"})
    engine.start(one({"k": "${workflow.secrets.A}"}), workflow_id="w")
    engine.settle()
    assert engine.poll("t") == []
    reason = engine.get("w").tasks[0].reason
    assert reason == "task 't': with its secrets filled in, the input cannot be kept as JSON"


def test_each_attempt_asks_anew(backend: Backend) -> None:
    """A value that was changed counts from the next attempt on; what the first received is scrubbed all the same."""
    vault = Vault({"A": "first-value"})
    engine = Engine(backend, clock=VirtualClock(0), secrets=vault)
    task = polled(engine, one({"k": "${workflow.secrets.A}"}, task_def=TaskDef(name="t", retry_count=1, retry_delay_ms=0)))
    vault.secrets["A"] = "second-value"
    engine.update_task(
        TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.FAILED, reason="bad first-value", lease=task.lease)
    )
    assert vault.asked == ["A"]
    engine.settle()
    (again,) = engine.poll("t")
    assert again.input_data == {"k": "second-value"}
    assert engine.get("w").tasks[0].reason == "bad ***"


def test_only_tasks_that_name_one_ask(backend: Backend) -> None:
    """The provider is asked when a task that names a secret is handed out, and at no other time."""
    vault = Vault({"A": "alpha-alpha"})
    engine = Engine(backend, clock=VirtualClock(0), secrets=vault)
    plain = WorkflowTask(name="plain", task_reference_name="plain")
    task = WorkflowTask(name="t", task_reference_name="t", input_parameters={"k": "${workflow.secrets.A}"})
    engine.start(WorkflowDef(name="flow", tasks=[plain, task]), workflow_id="w")
    engine.settle()
    (first,) = engine.poll("plain")
    engine.update_task(TaskResult(workflow_id="w", task_id=first.task_id, status=TaskStatus.COMPLETED))
    engine.settle()
    for look in (engine.explain, engine.get, engine.admin.export, engine.history):
        look("w")
    assert vault.asked == []
    engine.poll("t")
    assert vault.asked == ["A"]


def test_large_inputs_are_filled_in_too(engine: Engine) -> None:
    """An input that is stored apart, by its hash."""
    task = polled(engine, one({"k": "${workflow.secrets.A}", "wide": "${workflow.input.wide}"}), {"wide": "w" * 5_000})
    assert task.input_data == {"k": "alpha-alpha", "wide": "w" * 5_000}
    assert engine.tasks.get(task.task_id).input_data["k"] == "${workflow.secrets.A}"


def test_workers_on_both_faces(backend: Backend) -> None:
    """A coroutine of an AsyncEngine receives the value; its output is scrubbed."""
    workers = Workers()

    @workers.task("t")
    async def work(context: TaskContext) -> dict[str, Any]:
        assert context.input == {"k": "alpha-alpha"}
        return {"said": context.input["k"]}

    async def main() -> dict[str, Any]:
        async with AsyncEngine(backend, workers=workers, secrets=SECRETS) as engine:
            run = await engine.start(one({"k": "${workflow.secrets.A}"}))
            return await run.result(timeout="20s")

    assert asyncio.run(main()) == {"said": "***"}


def test_out_of_the_environment(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables with the prefix, read each time; nothing else of the environment can be asked for."""
    monkeypatch.setenv("MY_A", "one")
    monkeypatch.setenv("OTHER", "no")
    secrets = EnvironmentSecrets("MY_")
    assert (secrets.get("A"), secrets.get("OTHER"), secrets.get("a=b"), secrets.get("")) == ("one", None, None, None)
    monkeypatch.setenv("MY_A", "two")
    engine = Engine(backend, clock=VirtualClock(0), secrets=secrets)
    assert polled(engine, one({"k": "${workflow.secrets.A}"})).input_data == {"k": "two"}
    with pytest.raises(InvalidInput, match="prefix is empty"):
        EnvironmentSecrets("")


_S = "${workflow.secrets.A}"


@pytest.mark.trap("tasks-56")
@pytest.mark.parametrize(
    ("definition", "path"),
    [
        (one({"_": [1, {"x": _S}]}, "SET_VARIABLE"), "$.tasks[0].inputParameters._[1].x"),
        (one({"expression": _S, "evaluatorType": "javascript"}, "INLINE"), "$.tasks[0].inputParameters.expression"),
        (one({"queryExpression": ".", "x": _S}, "JSON_JQ_TRANSFORM"), "$.tasks[0].inputParameters.x"),
        (one({"duration": _S}, "WAIT"), "$.tasks[0].inputParameters.duration"),
        (one({"x": _S}, "HUMAN"), "$.tasks[0].inputParameters.x"),
        (one({"which": _S}, "DYNAMIC", dynamic_task_name_param="which"), "$.tasks[0].inputParameters.which"),
        (one({"startWorkflow": {"name": "x", "input": {"k": _S}}}, "START_WORKFLOW"),
         "$.tasks[0].inputParameters.startWorkflow.input.k"),
        (one({"k": "${x.output[${workflow.secrets.A}]}"}), "$.tasks[0].inputParameters.k"),
        (one({"k": "${workflow.secrets.${workflow.input.which}}"}), "$.tasks[0].inputParameters.k"),
        (WorkflowDef(name="f", tasks=one({}).tasks, output_parameters={"x": _S}), "$.outputParameters.x"),
        (WorkflowDef(name="f", tasks=one({}).tasks, input_template={"x": _S}), "$.inputTemplate.x"),
        (WorkflowDef(name="f", tasks=one({}).tasks, variables={"x": _S}), "$.variables.x"),
        (WorkflowDef(name="f", tasks=one({}).tasks, failure_workflow=_S), "$.failureWorkflow"),
    ],
)  # fmt: skip
def test_a_secret_elsewhere_is_refused(definition: WorkflowDef, path: str) -> None:
    """Where it could not be filled in without being stored, the definition is refused, with the place."""
    found = [problem for problem in validate(definition) if problem.severity == "error" and "secret" in problem.message]
    assert [problem.path for problem in found] == [path]
    with Engine() as engine, pytest.raises(InvalidDefinition):
        engine.register(definition)


@pytest.mark.parametrize("kind", ["SIMPLE", "HTTP", "EVENT", "KAFKA_PUBLISH", "MY_OWN"])
def test_a_secret_in_the_input_of_a_worker_is_accepted(kind: str) -> None:
    """Every type that is carried out by a worker."""
    fields = {"sink": "conductor:x"} if kind == "EVENT" else {}
    definition = one({"k": _S, "http_request": {"uri": "http://x", "method": "GET", "headers": {"a": _S}}}, kind, **fields)
    assert [problem for problem in validate(definition) if "secret" in problem.message] == []
