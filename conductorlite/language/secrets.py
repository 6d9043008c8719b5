"""Secrets: filled in where a definition names them, and taken out of whatever is about to be stored.

`${workflow.secrets.NAME}` in a task's input is filled in only in the copy that a worker receives; what is stored keeps the name.
Only what the *definition* names, at the place where it names it, is filled in: text of that form that came in with the data is
data. (Conductor fills in whatever looks like a secret, so anyone who writes an input can read any.) `NAME.path` reads a secret that
is JSON. Source of the rest of the rule: Conductor's `ParametersUtils.substituteSecrets`.

The `Scrubber` looks for a value as it is and in the forms in which programs hand it on: JSON, Python's repr, percent encoding, and
base64 at any offset (`Authorization: Basic …` holds it behind a user's name). A value that is JSON itself is also looked for by its
leaves. Reasons, tracebacks and log lines quote things cut short: there, a long value's beginning and end count too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from conductorlite.language.jsonpath import compile_path
from conductorlite.language.values import Json, to_text
from conductorlite.model import attrs
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidExpression

__all__ = ["MASK", "SECRETS", "Scrubber", "SecretSite", "filled_in", "secret_names", "secret_value"]

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
    """What is at a key; None where the rendered input has another shape than the template."""
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


#: What stands for a value.
MASK: Final = "***"

#: Shorter values are replaced only where they are all there is: else every "1" would vanish.
_SHORT: Final = 4
#: Shortest beginning or end of a value that is taken for a quotation of it, and the values for which that is done.
_QUOTED: Final = 16
_LONG: Final = 24
#: Shortest run of base64 that is taken for a value.
_RUN: Final = 6


class Scrubber:
    """Replaces the values of some secrets by `***`."""

    __slots__ = ("_any", "_quoted", "_short")

    def __init__(self, values: Iterable[Json]) -> None:
        texts = dict.fromkeys(text for value in values for text in _texts(value) if text)
        long = [text for text in texts if len(text) >= _SHORT]
        forms = {form for text in long for form in _forms(text)}
        forms |= {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}
        self._short = frozenset(text for text in texts if len(text) < _SHORT)
        self._any = _one_of(forms)
        self._quoted = [text for text in long if len(text) >= _LONG]

    def text(self, text: str) -> str:
        """A text for people (a reason, a traceback, a line of a log) without the values, quotations of them included."""
        text = self._whole(text)
        for value in self._quoted:
            text = _without_quotations(text, value)
        return text

    def document(self, value: Json, *, where: str = "$") -> Json:
        """A JSON document without the values, in its keys, texts and numbers; raises InvalidInput when it is not JSON."""
        text = canonical(value, where=where)
        if not self._short and (self._any is None or self._any.search(text) is None):
            return value
        return self._walked(parse(text))

    def _walked(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._whole(value)
        if isinstance(value, dict):
            return {self._whole(key): self._walked(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [self._walked(entry) for entry in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if self._whole(json.dumps(value)) == json.dumps(value) else MASK
        return value

    def _whole(self, text: str) -> str:
        if text in self._short:
            return MASK
        return text if self._any is None else self._any.sub(MASK, text)


def _texts(value: Json) -> Iterator[str]:
    """A value as text, and, if it is a map or a list or the JSON of one, its leaves."""
    if isinstance(value, str):
        yield value
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            return
        if isinstance(inner, dict | list):
            yield from _texts(inner)
    elif isinstance(value, dict | list):
        yield json.dumps(value, ensure_ascii=False)
        pending: list[Json] = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, dict):
                pending.extend(item.values())
            elif isinstance(item, list):
                pending.extend(item)
            elif isinstance(item, str):
                yield item
            elif isinstance(item, int | float) and not isinstance(item, bool):
                yield json.dumps(item)
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)


def _forms(text: str) -> Iterator[str]:
    from base64 import b64encode
    from urllib.parse import quote, quote_plus

    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    raw = text.encode("utf-8", "surrogatepass")
    yield quote(raw, safe="")
    yield quote(raw)
    yield quote_plus(raw)
    yield raw.hex()
    for offset in range(3):
        # Of what is before and behind the value, the first and last characters reveal something too: they are left out.
        signs = b64encode(bytes(offset) + raw).decode().rstrip("=")
        run = signs[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6]
        if len(run) >= _RUN:
            yield run
            yield run.replace("+", "-").replace("/", "_")


def _one_of(forms: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _without_quotations(text: str, value: str) -> str:
    """The text with each run of signs that begins like the value, or ends like it, replaced."""
    head, tail = value[:_QUOTED], value[-_QUOTED:]
    start = text.find(head)
    while start >= 0:
        end = start
        while end < len(text) and end - start < len(value) and text[end] == value[end - start]:
            end += 1
        text = text[:start] + MASK + text[end:]
        start = text.find(head, start + len(MASK))
    end = text.find(tail)
    while end >= 0:
        last = end + len(tail)
        start = last
        while start > 0 and last - start < len(value) and text[start - 1] == value[len(value) - (last - start) - 1]:
            start -= 1
        text = text[:start] + MASK + text[last:]
        end = text.find(tail, start + len(MASK))
    return text
