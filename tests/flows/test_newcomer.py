"""Mistakes of a newcomer: each ends with a message that says what is wrong, where, and what to do; none is silent."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    AsyncEngine,
    Engine,
    StartWorkflowRequest,
    TaskContext,
    VirtualClock,
    WorkflowDef,
    WorkflowSchedule,
    flow,
    task,
)
from conductorlite.flows import Backoff, each, human, wait

HERE = Path(__file__).name


@task
def greet(name: str) -> str:
    """The one task."""
    return f"hello {name}"


@flow
def hello(name: str) -> str:
    """The one flow."""
    return greet(name)


@flow
def other(name: str) -> str:
    """Another flow."""
    return greet(name)


@flow
def ask(name: str) -> dict:
    """A flow that asks a person."""
    greet(name)
    return human("approval")


def plain(name: str) -> str:
    """No task."""
    return name


def made(*workers: Any) -> Engine:
    """An engine on a virtual clock."""
    return Engine(workers=list(workers) or [hello, ask], clock=VirtualClock(0))


def begun(what: Any, **given: Any) -> Any:
    """A run that has gone as far as it can."""
    engine = made(what)
    run = engine.start(what, **given)
    engine.run_until_idle()
    return run


def compiled(function: Callable[..., Any]) -> WorkflowDef:
    """The definition of a function as a flow."""
    return flow(function).definition


def json(*tasks: dict[str, Any]) -> WorkflowDef:
    """A definition from JSON."""
    return WorkflowDef.from_json({"name": "w", "tasks": list(tasks)})


def _closed() -> None:
    engine = made()
    engine.close()
    engine.start(hello, name="x")


def _again() -> None:
    engine = made()
    for _ in range(2):
        engine.start(hello.options(workflow_id="a"), name="x")


def _key_again() -> None:
    engine = made()
    for _ in range(2):
        engine.start(hello.options(idempotency_key="k"), name="x")


def _other_run() -> None:
    engine = made()
    engine.run(other, engine.start(hello, name="x").workflow_id)


def _prints(name: str) -> str:
    print(name)
    return greet(name)


def _opens(name: str) -> None:
    with open(name) as file:  # noqa: PTH123
        greet(file.read())


def _calls_plain(name: str) -> None:
    greet(plain(name))


def _sleeps(name: str) -> None:
    time.sleep(1)
    greet(name)


async def _sleeps_async(name: str) -> None:
    await asyncio.sleep(1)
    greet(name)


def _reads_the_clock(name: str) -> None:
    greet(dt.datetime.now().isoformat())


def _global(name: str) -> None:
    global greeted
    greeted = greet(name)


def _misnamed(name: str) -> None:
    greet(nme=name)


def _gives_nothing(name: str) -> None:
    greet()


def _each_plain(names: list[str]) -> None:
    each(names, plain)


def _waits_for_a_number(name: str) -> None:
    human("ok", timeout=5)


def _waits_soon(name: str) -> None:
    greet(name)
    wait("soon")


def _no_step(name: str) -> str:
    return name


@task(retry=0)
def wrong() -> int:
    """Returns a text."""
    return "x"


@task(retry=0)
def returns_object() -> Any:
    """Returns what is no JSON."""
    return {"x": object()}


@task(retry=0)
def fails() -> None:
    """Has a bug."""
    raise ValueError("a bug")


@task(retry=0)
def drives(context: TaskContext) -> None:
    """Drives the engine that has called it."""
    ENGINES[-1].run_until_idle()


ENGINES: list[Engine] = []


def _result_of(one: Any) -> Any:
    """The result of a flow with one step."""

    @flow
    def single() -> Any:
        return one()

    engine = made(single)
    ENGINES.append(engine)
    return engine.start(single).result()


def _wrong_result() -> Any:
    @flow
    def single() -> int:
        return wrong()

    return begun(single).result()


def _named(name: str, of: Any) -> Any:
    """Another task or flow that has a name which is in use."""
    return of(name=name)(lambda name: None) if of is task else of(name=name)(_prints_not)


def _prints_not(name: str) -> str:
    return greet.options(name="other_step")(name)


async def _enter_async() -> None:
    async with Engine():  # type: ignore[attr-defined]
        pass


def _enter_sync() -> None:
    with AsyncEngine():  # type: ignore[attr-defined]
        pass


def _annotated() -> Any:
    def order(one: Nowhere) -> int:  # noqa: F821
        return 1

    return task(order)


def _typed(hint: Any) -> Any:
    def order(one: Any) -> Any:
        return 1

    order.__annotations__ = {"one": hint, "return": int}
    return order


#: By name: what is done, and what the message says (regular expressions).
MISTAKES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    # names
    "a flow's name is misspelt": (lambda: made().start("helo", {"name": "x"}), ("no workflow 'helo'", "did you mean 'hello'")),
    "an input is misspelt": (
        lambda: made().start("hello", {"nme": "x"}),
        ("flow 'hello'", "name: is missing", "no parameter 'nme'"),
    ),
    "an argument is misspelt": (lambda: made().start(hello, nme="x"), ("hello: ", "no argument 'nme'; did you mean 'name'")),
    "an argument is missing": (lambda: made().start(hello), ("hello: ", "missing a required argument: 'name'")),
    "an option among the arguments": (
        lambda: made().start(hello, name="x", workflow_id="a"),
        ("no argument 'workflow_id'", r"hello\.options\(workflow_id=…\)"),
    ),
    "an option is misspelt": (lambda: hello.options(workflowid="a"), ("<flow hello>", "did you mean 'workflow_id'")),
    "an option of @flow is misspelt": (lambda: flow(timeut="3s"), ("no option 'timeut'; did you mean 'timeout'",)),
    "two flows of one name": (
        lambda: made(hello, _named("hello", flow)),
        ("two flows are called 'hello'", rf"hello \({HERE}:\d+\)", rf"_prints_not \({HERE}:\d+\)", "another name"),
    ),
    "two tasks of one name": (
        lambda: made(greet, _named("greet", task)),
        ("two workers for 'greet'", rf"greet \({HERE}:\d+\)", rf"lambda> \({HERE}:\d+\)", "another name"),
    ),
    "a lambda as a task": (lambda: task(lambda name: name), ("has no name", "give the task's type")),
    "a version that there is not": (
        lambda: made().start("hello", {"name": "x"}, version=7),
        ("'hello' version 7", "there is version 1"),
    ),
    "an id that there is not": (lambda: made().get("nope"), ("no execution has the id 'nope'",)),
    "an id twice": (_again, ("an execution 'a' exists already",)),
    "an idempotency key twice": (_key_again, ("idempotency key 'k' of workflow 'hello'", "belongs to execution", "RUNNING")),
    # types
    "a number for a text": (lambda: made().start(hello, name=5), ("flow 'hello': name: expected str, got 5",)),
    "a list for the input": (lambda: made().start("hello", ["x"]), ("input is a mapping, and not",)),
    "an object in the input": (
        lambda: made().start(json({"name": "a", "taskReferenceName": "a"}), {"x": object()}),
        (r"input\.x", "JSON"),
    ),
    "an annotation that is not known": (_annotated, ("'Nowhere' of parameter 'one'", rf"{HERE}:\d+", "import it")),
    "a type that is no JSON": (lambda: task(_typed(Engine)), ("parameter 'one'", rf"{HERE}:\d+", "Annotate it")),
    "a flow's type that is no JSON": (lambda: flow(_typed(Engine)), ("parameter 'one'", rf"{HERE}:\d+", "Annotate it")),
    "a task returns another type": (_wrong_result, ("flow 'single'", 'expected int, got "x"', rf"single \({HERE}:\d+\)")),
    "a task returns what is no JSON": (lambda: _result_of(returns_object), ("task 'returns_object'", r"output\.x", "not JSON")),
    "a generator as a task": (lambda: task(_generator), ("_generator' is a generator function", "return a list")),
    "a task with *args": (lambda: task(_any_number), (r"task '_any_number': \*names: 'str' cannot be an input", "have names")),
    "a flow with *args": (lambda: flow(_any_number), (r"flow '_any_number': \*names: 'str' cannot be an input", "have names")),
    "decorated twice": (lambda: task(greet), (rf"greet \({HERE}:\d+\) is a task already", "remove @task")),
    "a task as a flow": (lambda: flow(greet), (rf"greet \({HERE}:\d+\) is a task already", "remove @flow")),
    "a text for a number of retries": (lambda: task(retry="3"), ("a number of retries or a Backoff", "not '3'")),
    "a text for a version": (lambda: made(flow(version="1")(plain_flow)), (r"\$\.version: expected an integer",)),
    # workers
    "a plain function as a worker": (lambda: made(plain), (rf"'plain' is a plain function .*{HERE}:\d+", "@task or @flow")),
    "a name as a worker": (lambda: made("hello"), ("not 'hello'", "give the function itself")),
    "a name as the workers": (lambda: Engine(workers="hello"), ("not 'hello'", "give the function itself")),
    "a module as a worker": (lambda: made(os), ("workers are Workers, tasks and flows, not <module 'os'",)),
    "a plain function is started": (
        lambda: made().start(plain, name="x"),
        (rf"plain function .*{HERE}:\d+", "decorate it with @flow"),
    ),
    "a task is started": (lambda: made().start(greet, name="x"), ("<task greet>", r"run_task\(\) starts a task alone")),
    "a flow is run as a task": (lambda: made().run_task(hello, name="x"), ("<flow hello>", r"start\(\) starts a flow")),
    "a flow is called": (lambda: hello(name="x"), ("hello: a flow is started by an engine", r"engine\.start\(hello")),
    "a flow is registered": (lambda: made().register(hello), ("<flow hello>", "not WorkflowDef", r"give its `\.definition`")),
    "a flow is saved as a schedule": (lambda: made().schedules.save(hello), ("<flow hello>", r"hello\.schedule\(…\) makes one")),
    "a run of another flow": (_other_run, ("is an execution of 'hello', and not of the flow 'other'",)),
    # engines
    "a closed engine": (_closed, ("the engine was closed", "inside its `with` block")),
    "an engine entered by async with": (lambda: asyncio.run(_enter_async()), ("an Engine is entered by `with`", "AsyncEngine")),
    "an AsyncEngine entered by with": (_enter_sync, ("an AsyncEngine is entered by `async with`",)),
    "an engine driven by its worker": (
        lambda: _result_of(drives),
        ("inside worker 'drives' would wait for itself", "call it outside"),
    ),
    "a real clock is moved": (lambda: Engine(workers=[hello]).advance("1s"), ("advance needs a virtual clock",)),
    "the clock goes back": (lambda: made().advance(to="1960-01-01T00:00:00Z"), ("time cannot go back",)),
    # durations and instants
    "a timeout without a unit": (
        lambda: begun(ask, name="x").result(timeout=5),
        ("5 is a length of time without a unit", "write '5s'"),
    ),
    "a timeout in words": (
        lambda: begun(ask, name="x").result(timeout="5 sekunden"),
        ("'5 sekunden' is not a length", "such as '90s'"),
    ),
    "a timeout of @task without a unit": (lambda: task(timeout=30), ("30 is a length of time without a unit", "write '30s'")),
    "a timeout of @flow without a unit": (lambda: flow(timeout=30), ("30 is a length of time without a unit", "write '30s'")),
    "a backoff without a unit": (
        lambda: task(retry=Backoff(3, first=10)),
        ("10 is a length of time without a unit", "write '10s'"),
    ),
    "a person's time without a unit": (lambda: compiled(_waits_for_a_number), ("write '5s'", HERE, "line ")),
    "a wait in words": (lambda: compiled(_waits_soon), ("'soon' is not a length of time", HERE, "line ")),
    "an instant in words": (
        lambda: made().start(hello.options(at="tomorrow"), name="x"),
        ("'tomorrow' is not a point in time", "ISO 8601"),
    ),
    "an instant without a zone": (
        lambda: made().start(hello.options(at=dt.datetime(2030, 1, 1)), name="x"),
        ("names no point in time", "no time zone", r"datetime\.now\(UTC\)"),
    ),
    "a cron expression in words": (
        lambda: made().schedules.save(hello.schedule("every day", input={"name": "x"})),
        ("'every day'", "expected six"),
    ),
    "a zone that there is not": (
        lambda: made().schedules.save(hello.schedule("0 9 * * MON", input={"name": "x"}, zone_id="Europa/Rome")),
        (r"\$\.zoneId: there is no time zone 'Europa/Rome'",),
    ),
    "a priority out of range": (lambda: made().start(hello.options(priority=200), name="x"), ("priority 200", "between 0 and 99")),
    # flows
    "no step": (lambda: compiled(_no_step), ("_no_step: calls no task", "decorated with @task", rf"{HERE}:\d+")),
    "print": (
        lambda: compiled(_prints),
        ("`print` would be called while the flow is compiled", "decorate it with @task", HERE, "line "),
    ),
    "a plain function is called": (
        lambda: compiled(_calls_plain),
        ("`plain` would be called while", "decorate it with @task", HERE),
    ),
    "time.sleep": (lambda: compiled(_sleeps), (r"`time\.sleep` would be called while", HERE, "line ")),
    "asyncio.sleep": (lambda: compiled(_sleeps_async), (r"`asyncio\.sleep` would be called while", HERE, "line ")),
    "datetime.now": (lambda: compiled(_reads_the_clock), (r"`dt\.datetime\.now` would be called while", HERE, "line ")),
    "open": (lambda: compiled(_opens), ("`with` is not part of a flow", "do it in a @task", HERE, "line ")),
    "global": (lambda: compiled(_global), ("a flow has no global variables", "return the value", HERE, "line ")),
    "a task's argument is misspelt": (
        lambda: compiled(_misnamed),
        ("greet: there is no argument 'nme'; did you mean 'name'", HERE, "line "),
    ),
    "a task's argument is missing": (
        lambda: compiled(_gives_nothing),
        ("greet: missing a required argument: 'name'", HERE, "line "),
    ),
    "a plain function for each item": (lambda: compiled(_each_plain), ("the second argument is a task or a flow", HERE, "line ")),
    "human outside of a flow": (lambda: human("ok"), (r"human\(\) is part of a flow", "decorated with @flow")),
    # what has begun
    "an answer to nobody": (
        lambda: begun(ask, name="x").signal({}, task="aproval"),
        ("no open task 'aproval'", "did you mean 'approval'"),
    ),
    "an answer to what has ended": (lambda: begun(hello, name="x").signal({}), ("a COMPLETED workflow waits for no signal",)),
    "a retry of what runs": (lambda: begun(ask, name="x").retry(), ("a RUNNING workflow cannot be retried",)),
    "a bug": (lambda: _result_of(fails), (rf"single › fails \({HERE}:\d+\): ValueError: a bug", rf'{HERE}", line \d+, in fails')),
    # definitions from JSON
    "a field is misspelt": (
        lambda: json({"name": "a", "taskReferenceNam": "a"}),
        (r"\$\.tasks\[0\]\.taskReferenceName: is missing",),
    ),
    "a reference name twice": (
        lambda: made().start(json(*[{"name": "a", "taskReferenceName": "a"}] * 2)),
        (r"\$\.tasks\[1\]\.taskReferenceName: 'a' is already",),
    ),
    "a reference to no task": (
        lambda: made().start(json({"name": "a", "taskReferenceName": "a", "inputParameters": {"x": "${b.output.x}"}})),
        (r"\$\.tasks\[0\]\.inputParameters\.x: ", "names neither the workflow nor a task"),
    ),
}


def plain_flow(name: str) -> str:
    """A function for a flow."""
    return greet(name)


def _generator() -> Any:
    yield 1


def _any_number(*names: str) -> None:
    greet(names)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_what_to_do(mistake: str) -> None:
    """The message has what is wrong, where, and what to do; it is not longer than a person reads."""
    do, expected = MISTAKES[mistake]
    with pytest.raises(Exception) as raised:
        do()
    text = str(raised.value)
    assert [one for one in expected if not re.search(one, text)] == [], text
    assert "object at 0x" not in text


FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a folder that there is not": (lambda path: path / "no" / "x.db", r"no/x\.db: the folder .*/no does not exist"),
    "a folder": (lambda path: path, "this is a folder, not a database file"),
    "a text": (lambda path: _written(path / "x.txt"), r"x\.txt: this is not a SQLite database"),
}


def _written(path: Path) -> Path:
    path.write_text("hello, this is no database" * 100)
    return path


@pytest.mark.parametrize("mistake", FILES)
def test_a_wrong_path_is_named(mistake: str, tmp_path: Path) -> None:
    """The path, and what is wrong with it."""
    do, expected = FILES[mistake]
    with pytest.raises(Exception, match=expected):
        Engine(do(tmp_path))


LOGGED: dict[str, tuple[Callable[[Engine], Any], tuple[str, ...]]] = {
    "a schedule of no flow": (
        lambda engine: engine.schedules.save(
            WorkflowSchedule(name="n", cron_expression="0 9 * * MON", start_workflow_request=StartWorkflowRequest(name="helo"))
        ),
        ("n: the schedule starts workflow 'helo', which is not registered yet; did you mean 'hello'",),
    ),
    "a task type is misspelt": (
        lambda engine: engine.start(json({"name": "a", "taskReferenceName": "a", "type": "SIMPEL"})),
        ("w: no worker here for", "did you mean 'SIMPLE'"),
    ),
    "a worker is missing": (
        lambda engine: engine.start(json({"name": "gret", "taskReferenceName": "a"})),
        ("w: no worker here for 'gret'", "did you mean 'greet'"),
    ),
}


@pytest.mark.parametrize("mistake", LOGGED)
def test_what_may_be_meant_is_logged(mistake: str, caplog: pytest.LogCaptureFixture) -> None:
    """What another process may put right is a warning, once."""
    do, expected = LOGGED[mistake]
    with made() as engine:
        do(engine)
        engine.settle()
    lines = "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert [one for one in expected if one not in lines] == [], lines


def test_two_engines_on_one_file_share_it(tmp_path: Path) -> None:
    """That is no mistake: what one has started the other one goes on with."""
    with Engine(tmp_path / "x.db", workers=[hello]) as one, Engine(tmp_path / "x.db", workers=[hello]) as two:
        run = one.start(hello, name="x")
        assert two.run(hello, run.workflow_id).result() == "hello x"
