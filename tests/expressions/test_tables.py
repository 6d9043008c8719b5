"""The tables of expected answers: every row passes, deviates for a stated reason, or belongs to a later release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conductorlite.errors import InvalidExpression
from conductorlite.language.durations import parse_duration, parse_until
from conductorlite.language.templates import apply_workflow_input_template, compile_input, compile_template, expanded
from conductorlite.language.values import MappingSource
from conductorlite.model.scalars import MAX_DEPTH

_DATA = Path(__file__).parent / "data"
PARAMS: dict[str, Any] = json.loads((_DATA / "params.json").read_text())
WAIT: dict[str, Any] = json.loads((_DATA / "wait_parse.json").read_text())

#: Rows that we answer otherwise, on purpose.
DEVIATIONS = {
    "99999999999s": "an error as well, but with the text quoted instead of a bare NumberFormatException",
    "30000d": "Conductor wraps at 32 bits and waits a negative time; here it is 30000 days",
    "24856d": "Conductor wraps at 32 bits and waits a negative time; here it is 24856 days",
    "string_directly_in_list_not_expanded": "a text in a list is expanded, as in a map",
}

#: Sections of params.json that are not about templates.
EXCLUDED_SECTIONS = {
    "task_input_schema_v1": "schemaVersion 1 cannot be registered any more",
    "substitute_secrets": "secrets are a feature of a later release; templates leave them literal",
}

#: wait_parse.json's mapping section is the WAIT operator's; only its texts are parsed here.
EXCLUDED_MAPPINGS = {
    "no_input": "nothing to parse",
    "both": "the operator's check",
    "duration_blank": "blank counts as not given: the operator's check",
}


def test_every_section_is_accounted_for() -> None:
    """No section of the table is skipped in silence."""
    tested = {"description", "sources", "rules", "replace", "task_input_template", "workflow_input_template", "json_expand"}
    assert set(PARAMS) == tested | set(EXCLUDED_SECTIONS)


@pytest.mark.parametrize("row", PARAMS["replace"], ids=lambda row: row["id"])
def test_replace(row: dict[str, Any]) -> None:
    """A template renders to the value, the types and the key order of the table, and is not changed by it."""
    variables = dict(row.get("systemProperties", {}))
    if "taskId" in row:
        variables["CPEWF_TASK_ID"] = row["taskId"]
    before = json.dumps([row["template"], row["context"]])
    source = MappingSource(whole=row["context"], variables=variables, environment=row.get("env"))
    assert json.dumps(compile_template(row["template"]).render(source)) == json.dumps(row["expected"])
    assert json.dumps([row["template"], row["context"]]) == before


@pytest.mark.trap("tasks-66")
@pytest.mark.parametrize("row", PARAMS["task_input_template"], ids=lambda row: row["id"])
def test_task_input_template(row: dict[str, Any]) -> None:
    """A TaskDef's inputTemplate fills absent keys before, and null ones after, rendering."""
    source = MappingSource(whole={"workflow": {"input": row["workflowInput"]}})
    assert compile_input(row["inputParameters"], row["inputTemplate"]).render(source) == row["expected"]


@pytest.mark.parametrize("row", PARAMS["workflow_input_template"], ids=lambda row: row["id"])
def test_workflow_input_template(row: dict[str, Any]) -> None:
    """A definition's inputTemplate fills absent and null keys of the workflow input."""
    assert apply_workflow_input_template(row["input"], row["inputTemplate"]) == row["expected"]


@pytest.mark.parametrize("row", PARAMS["json_expand"], ids=lambda row: row["id"])
def test_json_expand(row: dict[str, Any]) -> None:
    """Texts that are JSON are read as such, once, and the value is not changed by it; in lists too, unlike there."""
    before = json.dumps(row["input"])
    found = expanded(row["input"])
    assert json.dumps(row["input"]) == before
    if row["id"] in DEVIATIONS:
        assert found == [{"a": 1}, {"b": [1]}] != row["expected"]
    elif "expected" in row:
        assert json.dumps(found) == json.dumps(row["expected"])
    else:
        assert found == row["input"]


@pytest.mark.parametrize("text", ["[" * 300 + "]" * 300, '{"a": NaN}', "  [1", "[1]]"])
def test_json_expand_leaves_what_is_no_json_to_be_kept(text: str) -> None:
    """What could not be stored stays a text, at the top and below; so does what would lie too deep."""
    assert expanded(text) == text
    assert expanded({"a": [text]}) == {"a": [text]}
    nested: Any = "[1]"
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert expanded(nested) == nested


@pytest.mark.trap("core-26", "tasks-67")
def test_workflow_input_template_fills_an_empty_input_too() -> None:
    """Unlike Conductor, an empty input gets the template as any other."""
    assert apply_workflow_input_template({}, {"a": "${x}"}) == {"a": "${x}"}


@pytest.mark.trap("tasks-54")
@pytest.mark.parametrize(
    "row", [row for row in WAIT["durations"] if row["input"] not in DEVIATIONS], ids=lambda row: repr(row["input"])
)
def test_duration(row: dict[str, Any]) -> None:
    """A duration parses to the table's seconds, or fails with its message."""
    if "error" in row:
        with pytest.raises(InvalidExpression) as caught:
            parse_duration(row["input"])
        assert str(caught.value) == row["error"]
    else:
        assert parse_duration(row["input"]) == row["seconds"] * 1000


def test_durations_that_deviate() -> None:
    """Large day counts are exact, and numbers past 32 bits an error that quotes them."""
    assert parse_duration("30000d") == 30_000 * 86_400_000
    assert parse_duration("24856d") == 24_856 * 86_400_000
    for text in ("99999999999s", "2147483647d", "1" * 200 + "s", "5d" + " " * 100_000 + "x"):
        with pytest.raises(InvalidExpression, match="Not valid duration: "):
            parse_duration(text)


@pytest.mark.trap("tasks-54")
@pytest.mark.parametrize("row", WAIT["dates"], ids=lambda row: repr(row["input"]))
@pytest.mark.parametrize(
    ("key", "zone"), [("epochMs_defaultZoneUTC", "UTC"), ("epochMs_defaultZoneAmericaNewYork", "America/New_York")]
)
def test_until(row: dict[str, Any], key: str, zone: str) -> None:
    """A date parses to the table's instant in either default zone, or fails quoting it."""
    if "error" in row:
        with pytest.raises(InvalidExpression, match=r"Invalid/Unsupported Wait Until format\.  Provided: "):
            parse_until(row["input"], zone)
    elif key in row:
        assert parse_until(row["input"], zone) == row[key]


def test_until_at_a_change_of_clocks_is_standard_time() -> None:
    """A wall time that is skipped or repeated is read as standard time, as Java does."""
    assert parse_until("2025-03-09 02:30", "America/New_York") == parse_until("2025-03-09 02:30 EST", "UTC")
    assert parse_until("2025-11-02 01:30", "America/New_York") == parse_until("2025-11-02 01:30 EST", "UTC")


def test_until_far_away_is_exact_or_refused() -> None:
    """Years past what Python's calendar holds still parse; instants past 2^53 ms and unknown zones do not."""
    assert parse_until("10000-01-01", "UTC") == 253_402_300_800_000
    for text, zone in (("2147483647-01-01", "UTC"), ("9" * 50 + "-01-01", "UTC"), ("2025-01-01", "Nowhere/At_All")):
        with pytest.raises(InvalidExpression):
            parse_until(text, zone)


@pytest.mark.parametrize("row", [row for row in WAIT["mapping"] if row["id"] not in EXCLUDED_MAPPINGS], ids=lambda row: row["id"])
def test_wait_mapping(row: dict[str, Any]) -> None:
    """The texts in the WAIT operator's table parse to the wait it expects, as far as parsing decides it."""
    given, expect = row["input"], row["expect"]
    if "error" in expect:
        with pytest.raises(InvalidExpression) as caught:
            parse_duration(str(given["duration"]))
        assert str(caught.value) == expect["error"]
    elif "duration" in given:
        assert parse_duration(given["duration"]) == expect["callbackAfterSeconds"] * 1000
    elif expect["status"] == "FAILED_WITH_TERMINAL_ERROR":
        with pytest.raises(InvalidExpression) as caught:
            parse_until(given["until"], "UTC")
        assert str(caught.value) == expect["reasonForIncompletion"]
    else:
        now = parse_until(row["now"][:16], "UTC") + 1000 * int(row["now"][17:])
        assert max(0, parse_until(given["until"], "UTC") - now) // 1000 == expect["callbackAfterSeconds"]
