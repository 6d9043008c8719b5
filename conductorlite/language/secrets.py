"""Secrets: filled in where a definition names them, and taken out of whatever is about to be stored.

`${workflow.secrets.NAME}` in a task's input is filled in only in the copy that a worker receives; what is stored keeps the name.
Only what the *definition* names, at the place where it names it, is filled in: text of that form that came in with the data is
data. (Conductor fills in whatever looks like a secret, so anyone who writes an input can read any.) `NAME.path` reads a secret that
is JSON. Source of the rest of the rule: Conductor's `ParametersUtils.substituteSecrets`.

The `Scrubber` looks for a value as it is and as programs hand it on. Each sign may be written in any of its usual renderings, mixed
and nested: escaped as in JSON, in `repr` of text and of bytes (UTF-8 or Latin-1), in C, JavaScript, shells and SQL; percent-encoded
for a URL; an entity of HTML or XML; UTF-8 read as Latin-1. The whole may be in hex, or in base64 at any offset
(`Authorization: Basic …` holds it behind a user's name), one base64 deep. A value that is JSON itself is also looked for by its
leaves. Reasons, tracebacks and log lines quote things cut short: there, a long value's beginning and end count too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final

import attrs

from conductorlite.language.jsonpath import compile_path
from conductorlite.language.values import Json, to_text
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidExpression

__all__ = ["MASK", "SECRETS", "Scrubber", "SecretSite", "filled_in", "secret_names", "secret_value"]

#: What an expression that names a secret begins with.
SECRETS: Final = "workflow.secrets."


@attrs.frozen(kw_only=True, slots=True, repr=False)
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
    """Return what is at a key; None where the rendered input has another shape than the template."""
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
        long = sorted((text for text in texts if len(text) >= _SHORT), key=lambda text: (-len(text), text))  # the longest first
        self._short = frozenset(text for text in texts if len(text) < _SHORT)
        self._any = re.compile("|".join(form for text in long for form in _forms(text))) if long else None
        self._quoted = [_Quoted(text) for text in long if len(text) >= _LONG]

    def text(self, text: str) -> str:
        """A text for people (a reason, a traceback, a line of a log) without the values, quotations of them included."""
        text = self._whole(text)
        for value in self._quoted:
            text = value.out_of(text)
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
    """Patterns of what a value is written as."""
    from base64 import b64encode

    yield "".join(_signs(text))
    raw = text.encode("utf-8", "surrogatepass")
    yield f"(?i:{raw.hex()})"
    whole = b64encode(raw).decode().rstrip("=")
    if len(whole) >= _RUN:  # encoded by itself, to its end
        yield f"{_base64(whole)}(?![0-9A-Za-z+/_-])"
    for offset in range(3):
        # Of what is before and behind the value, the first and last characters reveal something too: they are left out.
        signs = b64encode(bytes(offset) + raw).decode().rstrip("=")
        run = signs[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6]
        if len(run) >= _RUN:
            yield _base64(run)


def _base64(signs: str) -> str:
    """The pattern of signs of base64, of either alphabet, perhaps in a URL."""
    return "".join({"+": f"(?:-|{_sign('+')})", "/": f"(?:_|{_sign('/')})"}.get(sign, sign) for sign in signs)


#: What begins an escape: backslashes, doubled by each further quoting, perhaps percent-encoded; a percent sign; an ampersand.
_BACKSLASH: Final = r"(?:\\|%(?:25){0,3}5[cC]){1,8}+"
_PERCENT: Final = "%(?:25){0,3}"
_ENTITY: Final = "&(?:amp;){0,3}"

#: Escapes of one character, and entities with a name.
_SHORT_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a", "\0": "0"}
_NAMES: Final = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos", "\xa0": "nbsp"}


def _signs(text: str) -> list[str]:
    """The pattern of each sign of a text, of each run of backslashes as a whole: which of those is meant is not to be known."""
    found = re.findall(r"\\+|[^\\]", text, re.DOTALL)
    return [_backslashes(len(sign)) if sign[0] == "\\" else _sign(sign) for sign in found]


def _backslashes(count: int) -> str:
    times = f"{{{count},{8 * count}}}"
    return rf"(?:\\{times}|(?:{_PERCENT}(?i:5c)|{_ENTITY}(?i:#0*92;|#x0*5c;)|{_BACKSLASH}(?i:x5c|134|u005c|u\{{5c\}})){times})"


@cache
def _sign(sign: str) -> str:
    """The pattern of one sign, written in any way; what is alphanumeric in ASCII is written as it is."""
    if sign.isascii() and sign.isalnum():
        return sign
    code, raw, wide = ord(sign), sign.encode("utf-8", "surrogatepass"), sign.encode("utf-16-be", "surrogatepass").hex()
    latin = 0x80 <= code < 0x100
    plain = [re.escape(sign), *([] if sign.isascii() else [re.escape(raw.decode("latin-1"))]), *([r"\+"] if sign == " " else [])]
    escapes = [
        *(_BACKSLASH.join(form % byte for byte in raw) for form in ("x%02x", "u%04x", "%03o")),
        _BACKSLASH.join(f"u{wide[at : at + 4]}" for at in range(0, len(wide), 4)),
        rf"u\{{0*{code:x}\}}",
        f"U{code:08x}",
        *([f"x{code:02x}"] if latin else []),
        *([_SHORT_ESCAPES[sign]] if sign in _SHORT_ESCAPES else []),
    ]
    percents = [_PERCENT.join(f"{byte:02x}" for byte in raw), *([f"{code:02x}"] if latin else [])]
    entities = [f"#0*{code};", f"#x0*{code:x};", *([f"{_NAMES[sign]};"] if sign in _NAMES else [])]
    entity = f"{_ENTITY}(?i:{'|'.join(entities)})"
    escaped = f"(?:{'|'.join(plain)}|(?i:{'|'.join(escapes)})|{_PERCENT}(?i:{'|'.join(percents)})|{entity})"
    first = _BACKSLASH.replace("{1,", "{0,")  # after the first, which the search looks for
    ways = [*plain, rf"\\{first}{escaped}", f"{_PERCENT}(?:(?i:{'|'.join(percents)})|5[cC]{first}{escaped})", entity]
    if sign in "'\"":  # quoted again in a shell, doubled in SQL
        ways = [r"""'(?:\\'|"'")'""", re.escape(sign * 2), *ways]
    return f"(?:{'|'.join(ways)})"


class _Quoted:
    """A long value, of which the beginning or the end alone is taken out too."""

    __slots__ = ("_head", "_head_signs", "_signs", "_tail", "_tail_signs")

    def __init__(self, value: str) -> None:
        self._signs = _signs(value)
        self._head_signs, self._tail_signs = len(_signs(value[:_QUOTED])), len(_signs(value[-_QUOTED:]))
        self._head = re.compile("".join(self._signs[: self._head_signs]))
        self._tail = re.compile("".join(self._signs[-self._tail_signs :]))

    def out_of(self, text: str) -> str:
        """The text with each run of signs that begins like the value, or ends like it, replaced."""
        at = 0
        while (found := self._head.search(text, at)) is not None:
            end = found.end()
            for sign in self._signs[self._head_signs :]:
                if (following := re.compile(sign).match(text, end)) is None:
                    break
                end = following.end()
            text, at = text[: found.start()] + MASK + text[end:], found.start() + len(MASK)
        at = 0
        while (found := self._tail.search(text, at)) is not None:
            start = found.start()
            for sign in reversed(self._signs[: -self._tail_signs]):
                before = re.compile(rf"(?:{sign})\Z").search(text[max(0, start - 100) : start])
                if before is None:
                    break
                start -= before.end() - before.start()
            text, at = text[:start] + MASK + text[found.end() :], start + len(MASK)
        return text
