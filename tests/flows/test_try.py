"""`try` of flows: types of exceptions, names in and out, how statements are left, `finally`, time that runs out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import Engine, VirtualClock, WorkflowFailed, flow, task
from conductorlite.errors import TimedOut
from conductorlite.flows import Flow, human, receive, wait
from conductorlite.plan.lint import lint

done: list[str] = []


class OutOfStock(LookupError):
    """Raised by a worker."""


class Forbidden(Exception):
    """Raised by a worker."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    done.clear()
    with caplog.at_level(logging.CRITICAL, logger="conductorlite"):
        yield


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the engine keeps its executions; None: in memory."""
    return tmp_path / "flows.db" if request.param == "sqlite" else None


@task(retry=0)
def reserve(item: str) -> int:
    """Raises what it is told."""
    done.append(f"reserve {item}")
    raised: dict[str, Exception] = {"gone": OutOfStock("gone"), "odd": ValueError("odd"), "forbidden": Forbidden("no")}
    if item in raised:
        raise raised[item]
    return len(item)


@task(retry=0)
def note(text: str) -> str:
    """Takes note."""
    done.append(text)
    return text


@flow
def by_type(item: str) -> str:
    """The first handler whose class is the exception's, or above it, takes it."""
    try:
        size = reserve(item)
        note(f"reserved {size}")
    except (KeyError, ValueError) as error:
        return f"value: {error}"
    except LookupError as error:
        return note(f"{type(error).__name__} {error}")
    else:
        note("else")
    finally:
        note("finally")
    return f"size {size}"


@flow
def one_call(item: str) -> str:
    """Around one call there is no child."""
    try:
        reserve(item)
    except OutOfStock:
        return "gone"
    except LookupError:
        return "never"
    return "ok"


@flow
def again(item: str) -> int:
    """A `raise` by itself keeps type and text."""
    try:
        size = reserve(item)
        return size + 1
    except OutOfStock:
        note("handled")
        raise
    except ValueError as error:
        raise error


@flow
def inner(item: str) -> int:
    """Called by another flow."""
    return reserve(item) + 1


@flow
def of_a_flow(item: str) -> str:
    """What a flow raises is what its task has raised."""
    try:
        total = 1
        total += inner(item)
        note(f"{total}")
    except OutOfStock as error:
        return f"{error} after {total}"
    return f"{total}"


@flow
def left_in_a_loop(items: list[str]) -> list[int]:
    """`continue`, `break` and `return` within a `try` are Python's."""
    sizes: list[int] = []
    for item in items:
        try:
            if item == "skip":
                continue
            if item == "end":
                break
            size = reserve(item)
            if size > 5:
                return [size]
            sizes.append(size)
        except LookupError:
            sizes.append(-1)
        finally:
            note(f"after {item}")
    return sizes


@flow
def nested(item: str) -> str:
    """An exception that the inner one does not handle is the outer one's."""
    steps = "a"
    try:
        steps += "b"
        try:
            steps += "c"
            reserve(item)
            steps += "d"
        except ValueError:
            steps += "v"
        finally:
            steps += "f"
        steps += "e"
    except LookupError:
        steps += "l"
    return steps


@flow
def side_by_side(items: list[str]) -> str:
    """A fork within a `try`."""
    try:
        sizes = [reserve(item) for item in items]
        return f"{sum(sizes)}"
    except LookupError as error:
        return str(error)


RUNS: list[tuple[Flow[..., Any], Any, Any, list[str]]] = [
    (by_type, "tea", "size 3", ["reserve tea", "reserved 3", "else", "finally"]),
    (by_type, "odd", "value: odd", ["reserve odd", "finally"]),
    (by_type, "gone", "OutOfStock gone", ["reserve gone", "OutOfStock gone", "finally"]),
    (by_type, "forbidden", Forbidden("no"), ["reserve forbidden", "finally"]),
    (one_call, "tea", "ok", ["reserve tea"]),
    (one_call, "gone", "gone", ["reserve gone"]),
    (one_call, "odd", ValueError("odd"), ["reserve odd"]),
    (again, "tea", 4, ["reserve tea"]),
    (again, "gone", OutOfStock("gone"), ["reserve gone", "handled"]),
    (again, "odd", ValueError("odd"), ["reserve odd"]),
    (of_a_flow, "tea", "5", ["reserve tea", "5"]),
    (of_a_flow, "gone", "gone after 1", ["reserve gone"]),
    (of_a_flow, "forbidden", Forbidden("no"), ["reserve forbidden"]),
    (left_in_a_loop, ["tea", "skip", "gone", "ab", "end", "x"], [3, -1, 2], [
        *("reserve tea", "after tea", "after skip", "reserve gone", "after gone", "reserve ab", "after ab", "after end"),
    ]),
    (left_in_a_loop, ["marmalade", "x"], [9], ["reserve marmalade", "after marmalade"]),
    (left_in_a_loop, ["odd"], ValueError("odd"), ["reserve odd", "after odd"]),
    (nested, "tea", "abcdfe", ["reserve tea"]),
    (nested, "gone", "abcfl", ["reserve gone"]),
    (nested, "odd", "abcvfe", ["reserve odd"]),
    (side_by_side, ["tea", "ab"], "5", ["reserve tea", "reserve ab"]),
    (side_by_side, ["tea", "gone"], "gone", ["reserve tea", "reserve gone"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "given", "wanted", "calls"), RUNS, ids=[f"{one[0].name} {one[1]}" for one in RUNS])
def test_a_try(made: Flow[..., Any], given: Any, wanted: Any, calls: list[str], store: Path | None) -> None:
    """As in Python: the same value, or the same type and text, and the same calls; and so says Python."""
    name = made.parameters[0]
    with Engine(store, workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, **{name: given})
        engine.run_until_idle()
        if isinstance(wanted, Exception):
            with pytest.raises(WorkflowFailed) as raised:
                run.result()
            cause = raised.value.causes[0]
            kind = type(wanted)
            assert cause.reason == f"{kind.__name__}: {wanted}"
            assert cause.error_types[0].rpartition(".")[2] == kind.__name__
        else:
            assert run.result() == wanted
    assert done == calls


def test_one_call_is_one_step() -> None:
    """It is optional, and no child is started."""
    assert [one.type for one in one_call.definition.tasks][:1] == ["SIMPLE"]
    assert one_call.definition.tasks[0].optional


@attrs.frozen
class Answer:
    """What a person says."""

    by: str


@flow
def approval(amount: int) -> str:
    """Asks one, then another."""
    try:
        answer = human("approval", Answer, timeout="3d")
    except TimedOut as error:
        note("reminded")
        answer = human("escalated", Answer)
        return f"{answer.by} late: {type(error).__name__}"
    reserve("gone" if amount > 5 else "ab")
    return answer.by


def test_a_person_who_does_not_answer(store: Path | None) -> None:
    """The wait raises TimedOut; what fails after an answer is no such thing."""
    with Engine(store, workers=[approval], clock=VirtualClock(0)) as engine:
        late = engine.start(approval, amount=3)
        engine.advance("4d")
        late.signal({"by": "Bo"})
        assert late.result() == "Bo late: TimedOut"
        assert done == ["reminded"]
        soon = engine.start(approval, amount=7)
        engine.settle()
        soon.signal({"by": "Ada"})
        with pytest.raises(WorkflowFailed, match="gone"):
            soon.result()
        assert done == ["reminded", "reserve gone"]


@flow
def waiting(kind: str) -> str:
    """Each of these may run out of time."""
    if kind == "receive":
        try:
            return receive("news", str, timeout="1h")
        except TimedOut:
            return "no news"
    try:
        wait(name="go", timeout="1h")
        return "went"
    except TimeoutError:
        return "no signal"


@pytest.mark.parametrize(("kind", "wanted"), [("receive", "no news"), ("wait", "no signal")])
def test_what_runs_out_of_time(kind: str, wanted: str, store: Path | None) -> None:
    """`receive` and `wait` with a timeout raise TimedOut, which is a TimeoutError."""
    with Engine(store, workers=[waiting], clock=VirtualClock(0)) as engine:
        run = engine.start(waiting, kind=kind)
        engine.advance("2h")
        assert run.result() == wanted


def test_what_does_not_run_out_of_time() -> None:
    """A message or a signal in time is received."""
    with Engine(workers=[waiting], clock=VirtualClock(0)) as engine:
        first, second = engine.start(waiting, kind="receive"), engine.start(waiting, kind="wait")
        engine.settle()
        first.send("news", "good")
        second.signal({}, task="go")
        assert (first.result(), second.result()) == ("good", "went")


@flow
def below(item: str) -> str:
    """Waits."""
    wait(name="never")
    return item


@flow
def above(item: str) -> str:
    """Tries a flow."""
    try:
        return below(item)
    except Exception:
        return "handled"


def test_a_termination_is_not_handled() -> None:
    """An execution below that is terminated fails the one above."""
    with Engine(workers=[above], clock=VirtualClock(0)) as engine:
        run = engine.start(above, item="x")
        engine.settle()
        child = next(one for one in run.tasks if one.sub_workflow_id)
        engine.terminate(str(child.sub_workflow_id), "enough")
        with pytest.raises(WorkflowFailed, match="enough"):
            run.result()


def test_what_is_not_portable() -> None:
    """`lint` for a Conductor server names what reads the type or the text of an exception; `except Exception` is portable."""
    told = [str(one) for one in lint(by_type.definition, conductor=True) if "only `except Exception` holds" in str(one)]
    told += [str(one) for one in lint(of_a_flow.definition, conductor=True) if "only `except Exception` holds" in str(one)]
    assert told != []
    assert not [one for one in lint(above.definition, conductor=True) if "only `except Exception` holds" in str(one)]
