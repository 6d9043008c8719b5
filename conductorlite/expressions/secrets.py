"""`${workflow.secrets.NAME}`: named in a task's input, filled in only in the copy that a worker receives.

What is stored keeps the name. Only what the *definition* names, at the place where it names it, is filled in: text of that form
that came in with the data is data. (Conductor fills in whatever looks like a secret, so whoever writes an input can read any.)
`NAME.path` reads a secret that is JSON. Source of the rest of the rule: Conductor's `ParametersUtils.substituteSecrets`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from conductorlite.errors import InvalidExpression
from conductorlite.expressions.jsonpath import compile_path
from conductorlite.expressions.sources import Json
from conductorlite.expressions.text import to_text

__all__ = ["SECRETS", "SecretSite", "filled_in", "secret_names", "secret_value"]

#: What an expression that names a secret begins with.
SECRETS: Final = "workflow.secrets."


@attrs.frozen(kw_only=True, slots=True)
class SecretSite:
    """A text of a template that names secrets: the `steps` down to it, and the `names` (`NAME` or `NAME.path`)."""

    steps: tuple[str | int, ...]
    names: tuple[str, ...]


def secret_names(sites: Iterable[SecretSite]) -> tuple[str, ...]:
    """Each name the sites hold, once, in order."""
    return tuple(dict.fromkeys(name for site in sites for name in site.names))


def secret_value(name: str, lookup: Callable[[str], str | None]) -> Json:
    """The value of `NAME` or `NAME.path`; raises KeyError, naming it, when there is no such secret or nothing at the path."""
    whole, _, path = name.partition(".")
    text = lookup(whole)
    if text is None:
        raise KeyError(whole)
    if not path:
        return text
    try:
        document = json.loads(text)
        value = compile_path(path).evaluate(document, 0, lambda: document)
    except (InvalidExpression, ValueError, RecursionError):
        value = None
    if value is None:
        raise KeyError(name)
    return value


def filled_in(document: Json, sites: Iterable[SecretSite], values: Mapping[str, Json]) -> Json:
    """The rendered input with each named secret's value in its place; `document` is the caller's own, and is changed.

    A text that is nothing but one name becomes its value, typed; in a longer text values become text. What a value brings in is
    not looked through again.
    """
    for site in sites:
        holder = {"": document}
        place: Json = holder
        key: str | int = ""
        for step in site.steps:
            place, key = _entry(place, key), step
        text = _entry(place, key)
        if isinstance(text, str):
            place[key] = _replaced(text, site.names, values)
        document = holder[""]
    return document


def _entry(place: Json, key: str | int) -> Json:
    """What lies at a key; None where the rendered input has another shape than the template."""
    if isinstance(place, dict):
        return place.get(key) if isinstance(key, str) else None
    if isinstance(place, list) and isinstance(key, int) and key < len(place):
        return place[key]
    return None


def _replaced(text: str, names: tuple[str, ...], values: Mapping[str, Json]) -> Json:
    written = {f"${{{SECRETS}{name}}}": values[name] for name in names}
    if text in written:
        return written[text]
    one_of = re.compile("|".join(re.escape(form) for form in written))
    return one_of.sub(lambda found: to_text(written[found.group()]), text)
