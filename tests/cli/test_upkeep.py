"""`engines`, `take-over`, `backup`, `check --repair` on the command line."""

from __future__ import annotations

import csv
import json
import sqlite3

import pytest
from cli_kit import Shell

from conductorlite import Engine
from conductorlite.store.tables import FeedKind


def test_engines_and_take_over(shell: Shell) -> None:
    """What an engine has started is listed and given to another, or to all."""
    shell("start", "waiting.json", "--id", "w", "--engine", "one")
    assert shell("engines", "--json").json == [{"name": "one", "open": 1, "ended": 0, "events": 0}]
    assert "one" in shell("engines").out
    assert shell("take-over", "one", "--to", "two").out == "1 executions of one belong to two now\n"
    assert shell("take-over", "two", "--json").json == {"from": "two", "to": None, "executions": 1}
    assert shell("engines", "--json").json == []
    assert shell("take-over", "no name").code != 0


def test_running_as_an_engine(shell: Shell) -> None:
    """`run --engine` drives what belongs to that engine."""
    assert shell("run", "hello.json", "--id", "h", "--engine", "one", "--workers", "crew:workers").code == 0
    with Engine(shell.folder / "conductorlite.db") as engine:
        assert engine.get("h").owner == "one"


def test_backup(shell: Shell) -> None:
    """A copy in a new file; a second one to the same file is refused."""
    shell("start", "waiting.json", "--id", "w")
    assert shell("backup", "copy.db").out == "copy.db\n"
    assert shell("show", "w", "--db", "copy.db").code == 0
    again = shell("backup", "copy.db", "--json")
    assert again.code == 4
    assert "never replaces" in again.err


def test_check_and_repair(shell: Shell) -> None:
    """`check` tells and changes nothing, `--repair` says what it did; both exit with 1, a healthy store with 0."""
    shell("start", "hello.json", "--id", "h")
    raw = sqlite3.connect(shell.folder / "conductorlite.db")
    with raw:
        raw.execute("DELETE FROM messages")
    raw.close()
    for _ in range(2):
        answer = shell("check")
        assert answer.code == 1
        assert "is SCHEDULED but not offered" in answer.out
    repaired = shell("check", "--repair", "--json")
    assert repaired.code == 1
    assert repaired.json["findings"] == []
    assert [one["law"] for one in repaired.json["repaired"]] == ["open_tasks_are_reachable"]
    assert shell("check", "--repair").out.endswith("1 checked, 0 repaired, 0 findings\n")
    assert shell("check").code == 0


def test_check_and_repair_of_the_index(shell: Shell) -> None:
    """The index in the database is compared when there is one, and mended; before the first search nothing is made."""
    shell("run", "hello.json", "--id", "h", "--workers", "crew:workers")
    assert shell("check").code == 0
    with Engine(shell.folder / "conductorlite.db") as engine, engine.backend.writing() as tx:
        assert tx.feeds.feed(FeedKind.OWN) is None
    shell("reindex")
    assert shell("check").code == 0
    with Engine(shell.folder / "conductorlite.db") as engine, engine.backend.writing() as tx:
        index = tx.feeds.index()
        assert index is not None
        index.remove(["h"])
    for _ in range(2):
        found = shell("check", "--json")
        assert found.code == 1
        assert found.json["findings"] == [{"law": "the_index_agrees", "workflowId": "h", "text": "the index does not know it"}]
    assert shell("check", "h").code == 1
    repaired = shell("check", "--repair")
    assert (repaired.code, "it is indexed again" in repaired.out) == (1, True)
    assert shell("search", "workflowId = h", "--json").json["totalHits"] == 1
    assert shell("check").code == 0


def test_a_query(shell: Shell) -> None:
    """The views of a store are asked in SQL, and answered as a table, as CSV, as a JSON object a line or as one document."""
    for name in ("a", "b, c"):
        shell("run", "hello.json", "--id", name, "--workers", "crew:workers", "--input", '{"name": "Zoë"}')
    sql = "SELECT workflow_id AS id, status, output FROM conductor_workflows WHERE name = :name ORDER BY id"
    asked = ("query", sql, "--param", "name=hello")
    output = shell("show", "a", "--json").json["output"]
    rows = [
        {"id": name, "status": "COMPLETED", "output": json.dumps(output, ensure_ascii=False, separators=(",", ":"))}
        for name in ("a", "b, c")
    ]
    assert shell(*asked, "--json").json == rows
    assert [json.loads(line) for line in shell(*asked, "--nl").out.splitlines()] == rows
    assert [*csv.DictReader(shell(*asked, "--csv").out.splitlines())] == rows
    assert shell(*asked).out == shell(*asked, "--table").out
    assert shell(*asked).out.splitlines()[0].split() == ["id", "status", "output"]
    assert shell("query", "SELECT 1 AS n WHERE 0", "--csv").out == "n\n"
    assert shell("query", "SELECT x'00ff' AS n", "--json").json == [{"n": "00ff"}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC", "the query has no answer: near"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("DELETE FROM conductor_workflows", "cannot modify"),
        ("CREATE TABLE t (x)", "attempt to write a readonly database"),
        ("SELECT :name", "the query has no answer"),
    ],
)
def test_a_query_without_an_answer(shell: Shell, sql: str, said: str) -> None:
    """What SQLite refuses is told, and nothing can be changed."""
    shell("start", "waiting.json", "--id", "w")
    answer = shell("query", sql)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_a_query_needs_a_database(shell: Shell) -> None:
    """One that is there, in a file; and a parameter has a value."""
    assert shell("query", "SELECT 1").code == 3
    elsewhere = shell("query", "SELECT 1", "--db", "postgresql://localhost/none")
    assert shell("query", "SELECT :a", "--param", "a").code == 2
    assert (elsewhere.code, "reads a SQLite database" in elsewhere.err) == (2, True)
