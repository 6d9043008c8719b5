"""Messages, values, the origin of a fork and a task alone, on the pages, in a notebook and at the command line."""

from __future__ import annotations

import pytest
from page_kit import Element, read

from conductorlite import Engine, TaskContext, VirtualClock, WorkflowDef
from conductorlite import task as as_task
from conductorlite.engine.pages import Pages
from conductorlite.runtime.notebook import html_of

T0 = 1_900_000_000_000

TALK = WorkflowDef.from_json({
    "name": "talk",
    "maskedFields": ["card"],
    "tasks": [
        {"name": "e", "taskReferenceName": "e", "type": "EMIT", "inputParameters": {"value": "<b>begun</b>", "stream": "state"}},
        {"name": "p", "taskReferenceName": "p", "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": {"topic": "paid"}},
        {"name": "q", "taskReferenceName": "q", "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": {"topic": "sent"}},
    ],
})  # fmt: skip


def rows(page: Element, section: str) -> list[list[str]]:
    """The cells of the tables in a section."""
    return [[cell.text for cell in row.content if isinstance(cell, Element)] for row in page.by_id(section).all("tr")]


@pytest.fixture
def engine() -> Engine:
    """With an execution `one` that has received a message, waits for another, and has a third that nobody asks for."""
    engine = Engine(clock=VirtualClock(T0))
    engine.start(TALK, workflow_id="one")
    engine.send("one", "paid", {"card": "4711", "amount": 5})
    engine.send("one", "other", "<i>hello</i>")
    engine.streams.set_value("one", "mood", {"card": "4711"})
    return engine


@pytest.mark.parametrize("archived", [False, True])
def test_messages_and_values_are_on_the_page(engine: Engine, archived: bool) -> None:
    """With who has received them; hidden fields are hidden, texts are texts; also once it is archived."""
    if archived:
        engine.terminate("one")
        engine.admin.archive("one")
    text = engine.admin.page("one")
    assert "4711" not in text
    assert "<i>hello" not in text
    page = read(text)
    first, second = rows(page, "messages")[1:]
    assert (first[0], first[1], first[3], first[4]) == ("1", "paid", "p", '{"card":"***","amount":5}')
    assert (second[0], second[1], second[3], second[4]) == ("2", "other", "not received", '"<i>hello</i>"')
    (receiver,) = page.by_id("messages").all("a")
    assert page.by_id(receiver.attributes["href"].removeprefix("#")).all(kind="ref")[0].text == "p"
    cells = rows(page, "values")
    assert next(cell for cell in cells if cell[0] == "mood")[3] == '{"card":"***"}'
    assert next(cell for cell in cells if cell[0] == "1")[1:4] == ["state", "e", "kept"]
    assert next(cell for cell in cells if cell[0] == "1")[5] == "<b>begun</b>"
    if not archived:
        assert "waits for a message of topic sent" in page.by_id("why").text


def test_the_page_of_a_store_shows_mailboxes(engine: Engine) -> None:
    """Steps that wait for a message, with their topic, and executions with messages that no step has received."""
    page = read(engine.admin.page())
    waits, kept = (row for row in rows(page, "messages") if row[0] == "one")
    assert waits[:4] == ["one", "talk v1", "q", "sent"]
    assert kept == ["one", "talk v1", "RUNNING", "1"]


def test_a_fork_names_its_origin(engine: Engine) -> None:
    """As a link where there is a page of it."""
    engine.fork("one", at="p", new_id="two")
    core = engine.core
    made = Pages(core.turns, engine.config, core.queries, core.control).execution("two", "/executions/").html()
    assert [one.attributes["href"] for one in read(made).all("a") if one.text == "one"] == ["/executions/one"]
    assert "Forked from" in read(engine.admin.page("two")).text
    assert "Forked from" not in read(engine.admin.page("one")).text


@as_task
def count(n: int, context: TaskContext) -> int:
    context.set_value("last", n)
    return n


def test_a_task_alone_is_shown_as_one(engine: Engine) -> None:
    """On its page and in a notebook, and so is a task for each row."""
    alone, each = engine.run_task(count, 3), count.map(engine, [1, 2])
    assert alone.result() == 3
    assert "the task count alone" in alone.page()
    assert "the task count for each row" in each.page()
    shown = html_of(alone)
    assert shown is not None
    assert "the task count alone" in shown
    assert "last" in shown
    talk = html_of(engine.run("one"))
    assert talk is not None
    assert "4711" not in talk
    assert "&lt;i&gt;hello" in talk
