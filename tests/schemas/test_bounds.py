"""Schemas and values made to cost: each is refused, or told after a bounded number of steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import SchemaDef
from conductorlite.errors import InvalidExpression
from conductorlite.language.schemas import SchemaCheck, compile_schema

jsonschema = pytest.importorskip("jsonschema")


def check(document: dict[str, Any]) -> SchemaCheck:
    """A schema, compiled."""
    return compile_schema(SchemaDef(name="s", data=document))


def doubling(levels: int, **fields: Any) -> dict[str, Any]:
    """Each level tries the next one twice: 2 to the power of `levels` ways to fail."""
    defs: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**defs, f"d{levels}": False}, "$ref": "#/$defs/d0", **fields}


@pytest.mark.parametrize(
    ("document", "value", "said"),
    [
        pytest.param(doubling(30), 1, "steps", marks=pytest.mark.slow),
        pytest.param(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **doubling(30)}, 1, "steps", marks=pytest.mark.deep
        ),
        ({"$ref": "#"}, 1, "deeper"),
        ({"$ref": "#/nowhere"}, 1, "cannot be checked"),
        ({"$dynamicRef": "#gone"}, 1, "cannot be checked"),
        ({"items": {"enum": [list(range(5_000))]}}, [list(range(5_000))] * 1_000, "steps"),
        ({"pattern": "[a-z]+[0-9]*$"}, "a" * 5_000, "too long"),
        ({"multipleOf": 0.1}, 10**400, "cannot be checked"),
    ],
)
def test_what_would_take_for_ever_is_told(document: dict[str, Any], value: Any, said: str) -> None:
    """The value counts as broken, and the reason says what was too much."""
    assert said in (check(document).violation(value) or "")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"$ref": "https://example.com/schema"}, "leaves the document"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "leaves the document"),
        ({"allOf": [{"$dynamicRef": "other.json#x"}]}, "leaves the document"),
        ({"pattern": "(a+)+$"}, "repeats a group"),
        ({"patternProperties": {"(.*)*": True}}, "repeats a group"),
        ({"pattern": "(?<!x)"}, "uses a group"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "only the whole document"),
        ({"$schema": "https://example.com/my-draft"}, "not a dialect that is known"),
        ({"unevaluatedProperties": False, "patternProperties": {"a": True}}, "bounded time"),
        ({"type": "strange"}, "'strange'"),
        ({"minLength": -1}, "minimum of 0"),
    ],
)
def test_what_leaves_the_document_or_the_bounds_is_refused(document: dict[str, Any], said: str) -> None:
    """When it is compiled, which is when a definition is validated."""
    with pytest.raises(InvalidExpression, match=said.replace("(", r"\(")):
        check(document)


def test_data_that_looks_like_a_reference_is_data() -> None:
    """In a constant, an enumeration, a default, and as the name of a property."""
    document = {"const": {"$ref": "http://x"}, "default": {"$ref": "http://x"}, "properties": {"$ref": {"type": "string"}}}
    assert check(document).violation({"$ref": "http://x"}) is None


@pytest.mark.parametrize(
    ("document", "value", "said"),
    [
        ({"required": ["a", "b"]}, {"a": 1}, "$: required: 'b' missing"),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"b": 1}, "$: additionalProperties: 'b' not foreseen"),
        ({"additionalProperties": {"type": "string"}}, {"b": 1}, '$.b: breaks type "string"'),
        ({"items": {"properties": {"x y": {"maximum": 3}}}}, [{}, {"x y": 4}], "$[1]['x y']: breaks maximum 3"),
        ({"enum": ["a", "b"]}, "c", '$: breaks enum ["a", "b"]'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "$: breaks anyOf"),
        ({"const": "s3cret"}, "other", '$: breaks const "s3cret"'),
        ({"items": {"type": "string"}}, list(range(9)), '$[0]: breaks type "string"; $[1]: breaks type "string"; '
         '$[2]: breaks type "string" (and 6 more)'),
        ({"pattern": "^a$"}, "a\n", '$: breaks pattern "^a$"'),
        ({"pattern": r"^\d$"}, "\u0663", '$: breaks pattern "^\\\\d$"'),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], "$: breaks uniqueItems true"),
        ({"uniqueItems": True}, [1, True, "1"], None),
        ({"format": "date"}, "no date", None),
        ({}, None, None),
    ],
)  # fmt: skip
def test_what_is_told(document: dict[str, Any], value: Any, said: str | None) -> None:
    """Path and rule; never the value that broke it."""
    assert check(document).violation(value) == said


def test_what_is_told_is_short() -> None:
    """However wide the value, long its keys and large the rule."""
    found = check({"additionalProperties": {"enum": ["e" * 500]}}).violation({"k" * 900 + str(n): n for n in range(50)})
    assert found is not None
    assert len(found) < 450


_SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2)
_KEYS = st.text(max_size=2)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3))
_SCHEMAS = st.recursive(
    st.sampled_from(
        [{}, True, False, {"type": "string"}, {"type": ["integer", "null"]}, {"minimum": 0}, {"maxLength": 1},
         {"uniqueItems": True}, {"enum": [1, "a", None]}, {"pattern": "^a"}, {"required": ["a"]}, {"const": []},
         {"minProperties": 1}]
    ),
    lambda inner: st.one_of(
        st.builds(lambda one: {"items": one}, inner),
        st.builds(lambda one: {"not": one}, inner),
        st.builds(lambda one: {"additionalProperties": one}, inner),
        st.builds(lambda one, two: {"properties": {"a": one}, "additionalProperties": two}, inner, inner),
        st.builds(lambda one, two: {"patternProperties": {"a": one}, "additionalProperties": two}, inner, inner),
        st.builds(lambda ones: {"anyOf": ones}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda ones: {"oneOf": ones}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one, two: {"if": one, "then": two, "else": False}, inner, inner),
        st.builds(lambda one: {"dependentSchemas": {"a": one}}, inner),
    ),
    max_leaves=6,
)  # fmt: skip


@given(_SCHEMAS, _VALUES)
def test_the_verdict_is_the_librarys(document: Any, value: Any) -> None:
    """Counting, bounding and our own keywords change no answer."""
    whole = {"allOf": [document]}
    theirs = jsonschema.Draft202012Validator(json.loads(json.dumps(whole))).is_valid(value)
    assert (check(whole).violation(value) is None) == theirs
