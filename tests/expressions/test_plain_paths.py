"""Paths of plain names are split without the grammar of paths, and mean what that makes of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conductorlite.language import jsonpath, templates
from conductorlite.model.errors import InvalidExpression

#: Names, and what is no name but looks like one.
TEXTS = st.text(alphabet=st.sampled_from("ab_1-é.$[] ("), min_size=1, max_size=8)
NEVER = re.compile(r"(?!)")


def outcome(text: str) -> object:
    """The path, or what is wrong with it; what a template reads that names it, and what of it is wrong."""
    jsonpath.compile_path.cache_clear()
    templates._static.cache_clear()
    template = templates._compile_string("${" + text + "}")
    found = (template.reads, template.problems, template.as_json, template.secrets, template.buried)
    try:
        return jsonpath.compile_path(text), found
    except InvalidExpression as error:
        return str(error), found


@given(TEXTS)
@example("workflow.input.i")
@example("a" * 5_000)
@example(".".join("a" * 300))
@example("workflow.secrets.key")
@example("workflow.env.HOME")
@example("NETFLIX_ENV")
def test_a_plain_path_is_what_the_grammar_makes_of_it(text: str) -> None:
    """Whatever looks like names."""
    with pytest.MonkeyPatch.context() as patch:
        found = outcome(text)
        patch.setattr(jsonpath, "_NAMES", NEVER)
        patch.setattr(templates, "_LONE", NEVER)
        assert outcome(text) == found
