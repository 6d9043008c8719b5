"""The log, errors, `explain` and pages say in which line of the flow a step is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import WorkflowFailed
from conductorlite.flows import attempt, each, human

FILE = Path(__file__).name
TEXT = Path(__file__).read_text(encoding="utf-8").splitlines()


def line(mark: str) -> str:
    """The place of the line that ends with a mark."""
    (number,) = [number for number, text in enumerate(TEXT, 1) if text.endswith(f"# {mark}")]
    return f"{FILE}:{number}"


@task(retry=0)
def charge(amount: int) -> int:
    """Fails always."""
    raise ValueError("a bug")


@flow
def pay(amount: int) -> int:
    """A flow that is read, with a case."""
    if amount > 3:
        paid = charge(amount)  # in a case
    else:
        paid = 0
    return paid


@flow
def order(amount: int) -> int:
    """Calls another flow."""
    return pay(amount)  # a flow


@flow
def many(amounts: list[int]) -> list[int]:
    """A task for each item."""
    return each(amounts, charge)  # for each


@flow
def ask() -> None:
    """Built by calls, with a step in an attempt."""
    with attempt():
        human("approval")  # in an attempt


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on each store."""
    store = tmp_path / "runs.db" if request.param == "sqlite" else None
    with Engine(store, workers=[order, ask, many], clock=VirtualClock(0)) as made:
        yield made


def test_a_failure(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The exception, `explain`, the page and the log name the line of the step that failed, also in a flow below."""
    run = engine.start(order, amount=10)
    with pytest.raises(WorkflowFailed) as raised:
        run.result()
    place = line("in a case")
    assert str(raised.value).startswith(f"order › pay › charge ({place}): ValueError: a bug")
    assert raised.value.causes[0].line == place
    (child,) = engine.admin.children(run.workflow_id)
    assert f"charge ({place}) is FAILED" in str(engine.explain(child.workflow_id))
    assert f"pay (SUB_WORKFLOW, {line('a flow')}) is FAILED" in str(run.explain())
    assert f"charge ({place})" in engine.admin.page(run.workflow_id)
    assert place in engine.admin.page(child.workflow_id)
    assert f"charge ({place}), attempt 1, FAILED: ValueError: a bug" in caplog.text


def test_what_waits(engine: Engine) -> None:
    """A step of a flow that is built by calls, in an attempt."""
    run = engine.start(ask)
    engine.settle()
    assert f"approval (HUMAN, {line('in an attempt')}) waits for somebody" in str(run.explain())


def test_an_item(engine: Engine) -> None:
    """The line is that of the `each`."""
    with pytest.raises(WorkflowFailed, match=rf"many › _charge_0 \({line('for each')}\): ValueError"):
        engine.start(many, amounts=[1]).result()


def test_another_process(engine: Engine, tmp_path: Path) -> None:
    """An engine that does not have the flow knows no line, and says nothing of it."""
    run = engine.start(ask)
    engine.settle()
    with Engine(engine.backend) as other:
        said = str(other.explain(run.workflow_id))
    assert "approval (HUMAN) waits" in said
    assert not re.search(r"\.py:\d", said)
