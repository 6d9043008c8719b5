"""Writes the corpus: `python tests/corpus/make.py` makes quoted.json and written.json beside this file.

An entry is a definition in Conductor's JSON with what it takes to run it:

* `says`: what it is there for;
* `input`, `registers` (other definitions it refers to by name);
* `outputs`: what the worker of a type returns, `{}` for all others;
* `calls`: types of workers that are known only at run time;
* `fails`, `fails_once`, `dies_once`: types of workers that fail for good, fail once, or never report once;
* `ends`: the status it ends with, COMPLETED unless given.

`quoted` are the trees, scripts, durations and dates that the documents on Conductor's behaviour quote, each in a definition of
its own or with its like. `written` are made from the tables of fields, so that every field, every type that runs and the usual
ways to combine them occur.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

J = dict[str, Any]
HERE = Path(__file__).parent


def node(ref: str, type: str = "SIMPLE", name: str | None = None, **fields: Any) -> J:
    """A task."""
    return {"name": name or ref, "taskReferenceName": ref, "type": type, **fields}


def given(ref: str, type: str = "SIMPLE", name: str | None = None, **inputs: Any) -> J:
    """A task with input parameters."""
    return node(ref, type, name, inputParameters=inputs)


def seq(text: str) -> list[J]:
    """Tasks by reference: `a b c`."""
    return [node(ref) for ref in text.split()]


def switch(ref: str, cases: dict[str, list[J]], default: list[J] | None = None, script: str | None = None, **inputs: Any) -> J:
    """A SWITCH on a value, or by a script."""
    how = (
        {"evaluatorType": "javascript", "expression": script} if script else {"evaluatorType": "value-param", "expression": "case"}
    )
    fields = {"defaultCase": default} if default is not None else {}
    return node(ref, "SWITCH", inputParameters=inputs or {"case": "${workflow.input.case}"}, decisionCases=cases, **how, **fields)


def fork(ref: str, branches: list[list[J]], join: str, on: list[str], **fields: Any) -> list[J]:
    """A FORK_JOIN and its JOIN."""
    return [node(ref, "FORK_JOIN", forkTasks=branches), node(join, "JOIN", joinOn=on, **fields)]


def loop(ref: str, body: list[J], condition: str | None = None, **fields: Any) -> J:
    """A DO_WHILE, of two rounds unless told."""
    condition = f"if ($.{ref}['iteration'] < 2) {{ true; }} else {{ false; }}" if condition is None else condition
    return node(ref, "DO_WHILE", loopCondition=condition, loopOver=body, **fields)


def sub(ref: str, params: J, **fields: Any) -> J:
    """A SUB_WORKFLOW."""
    return node(ref, "SUB_WORKFLOW", subWorkflowParam=params, **fields)


def inline(ref: str, script: str, evaluator: str = "javascript", **inputs: Any) -> J:
    """An INLINE."""
    return given(ref, "INLINE", evaluatorType=evaluator, expression=script, **inputs)


def flow(name: str, tasks: list[J], **fields: Any) -> J:
    """A definition."""
    return {"name": name, "version": 1, "schemaVersion": 2, "tasks": tasks, **fields}


def entry(says: str, definition: J, **how: Any) -> J:
    """One line of the corpus."""
    return {"says": says, "definition": definition, **how}


def child(name: str, *tasks: J, **fields: Any) -> J:
    """A small definition for sub-workflows."""
    return flow(name, list(tasks) or [given("work", n="${workflow.input.n}")], **fields)


def write(name: str, entries: list[J]) -> None:
    """One file."""
    names = [one["definition"]["name"] for one in entries]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    (HERE / f"{name}.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Both files."""
    from quoted import quoted
    from written import written

    for name, entries in (("quoted", quoted()), ("written", written())):
        write(name, entries)
        print(f"{name}.json: {len(entries)} definitions")


if __name__ == "__main__":
    main()
