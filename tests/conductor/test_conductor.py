"""The comparison itself, without a server: bindings name rows that there are, and a planted difference is found."""

from __future__ import annotations

from typing import Any

import bindings
import catalog
import compare
import rest
import rest_stories
from cases import Case, task, workflow
from comparison import Comparison
from sides import DONE, Here

from conductorlite import WorkflowStatus
from conductorlite.server.rest.routes import OPERATIONS

FLOW = workflow(task("a"), task("n", "NOOP"), outputParameters={"got": "${a.output.value}"})
CASE = Case(name="fast/line", workflows=[FLOW], input={"x": 1}, steps=[{"do": "drive"}], parts={"output.got": "what a put out"})


class Twin(Here):
    """An engine of ours that stands for the server, with one field of its answers changed."""

    def __init__(self, own: str, **planted: Any) -> None:
        super().__init__(own)
        self._planted = planted

    def fetch(self, workflow_id: str) -> Any:
        document = super().fetch(workflow_id)
        if document and document["status"] == WorkflowStatus.COMPLETED:
            return {**document, **self._planted}
        return document

    def poll(self, kind: str, domain: str | None, *rest: Any) -> set[tuple[str, str]]:
        return super().poll(kind, domain, rest[-1])


def _compared(known: str = "", **planted: Any) -> list[Any]:
    there, here = Twin("k1x", **planted), Here("k1x")
    comparison = Comparison(CASE, there, here, "k1x", bindings.read(known), patience=0)
    found = comparison.run()
    assert here.engine.get(here.root).status is WorkflowStatus.COMPLETED
    return found


def test_bindings_name_rows_that_there_are() -> None:
    """Each binding has a row of the pages or a defect that is described; none has both."""
    assert bindings.read(bindings.FILE.read_text(encoding="utf-8")).faults(bindings.rows()) == []


def test_faults_of_bindings_are_told() -> None:
    """A row that is gone, a defect without a text or a binding, a binding to neither."""
    bound = ('row = "gone"\nwhy = ""', 'defect = "e"\nwhy = ""', 'why = "w"')
    text = '[defects]\nd = "x"\n' + "".join(f"[[difference]]\n{each}\n" for each in bound)
    faults = bindings.read(text).faults(["there"])
    assert faults == [
        "no page has the row 'gone'",
        "'e' is not described",
        "'w' is bound to both or neither",
        "nothing is bound to 'd'",
    ]


def test_equal_executions_have_no_difference() -> None:
    """Driven alike, an engine agrees with itself, whatever ids it draws."""
    assert _compared() == []


def test_a_planted_difference_is_found() -> None:
    """A difference is found at its place, in its part, and is unbound until something binds it."""
    (found,) = _compared(output={"got": 2})
    assert (found.shown, str(found.difference), found.binding) == ("what a put out", "output.got: server 2, here 1", None)
    (bound,) = _compared('[[difference]]\nrow = "r"\npath = "^output"\nserver = "^2$"\nwhy = ""', output={"got": 2})
    assert bound.binding.row == "r"
    (other,) = _compared('[[difference]]\nrow = "r"\npath = "^output"\nserver = "^3$"\nwhy = ""', output={"got": 2})
    assert other.binding is None
    assert [each.difference.path for each in _compared(status="FAILED", variables={"v": None})] == ["status", "variables.v"]


def test_what_follows_from_a_bound_difference() -> None:
    """One that spreads binds what else differs after the same verb, where it says; another does not."""
    text = '[[difference]]\nrow = "r"\npath = "^status"\nwhy = ""\n'
    assert {bool(each.binding) for each in _compared(text, status="FAILED", variables={"v": 1})} == {True, False}
    spread = f"{text}spreads = '^variables'\n"
    assert {bool(each.binding) for each in _compared(spread, status="FAILED", variables={"v": 1})} == {True}
    assert {bool(each.binding) for each in _compared(spread, status="FAILED", output={"got": 2})} == {True, False}


def test_a_verb_that_one_side_refuses_is_a_difference() -> None:
    """Both must take it, or both refuse it."""
    comparison = Comparison(CASE, Twin("k1x"), Here("k1x"), "k1x", bindings.read(""), patience=0)
    assert comparison._answers("1 retry", DONE, DONE)
    assert comparison._answers("1 retry", "refused: a", "refused: b")
    assert not comparison._answers("1 retry", DONE, "refused: b")
    assert [each.difference.path for each in comparison.findings] == ["answer"]


def test_cases_are_counted_by_part() -> None:
    """Each part of a case counts for one, in the worst of its differences."""
    counts, unbound = compare.counted([CASE], {CASE.name: _compared(output={"got": 2})})
    assert dict(counts["fast"]) == {"cases": 1, "unbound": 1, "equal": 0}
    assert len(unbound) == 1


def test_the_catalog() -> None:
    """Thousands of cases, each of a name of its own, the same for the same seed."""
    cases = catalog.cases(3, 7, None)
    assert len({case.name for case in cases}) == len(cases)
    assert sum(case.weight for case in cases) > 2000
    kinds = {
        "paths",
        "javascript",
        "jq",
        "operators",
        "verbs",
        "families",
        "bulk",
        "timing",
        "domains",
        "http",
        "event",
        "compositions",
        "idioms",
    }
    assert {case.kind for case in cases} == kinds
    assert [case.workflows for case in catalog.cases(3, 7, None)[-3:]] == [case.workflows for case in cases[-3:]]


def test_requests_over_rest() -> None:
    """More than 500 requests, every operation among them; their bindings have rows; what differs between two answers is found."""
    told = rest_stories.stories()
    assert sum(len(story.requests) for story in told) > 500
    assert {each.operation for story in told for each in story.requests} >= {one.path for one in OPERATIONS} - {"/api/version"}
    assert bindings.read(rest.FILE.read_text(encoding="utf-8")).faults(bindings.rows()) == []
    one = rest.Answer(200, "application/json", {"a": None, "b": [1, True]})
    other = rest.Answer(200, "application/json", {"b": [1, 1], "c": ""})
    assert [each.path for each in rest.compared(one, other)] == ["body.a", "body.b[1]", "body.c"]
    assert rest.compared(one, one) == []
    assert [each.path for each in rest.compared(one, rest.Answer(404, "", {"message": "no"}))] == ["status"]
