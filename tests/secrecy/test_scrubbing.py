"""What is taken out of what workers say: in every form, cut short or whole, and nothing else."""

from __future__ import annotations

import base64
import html
import json
import shlex
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conductorlite.language.secrets import Scrubber

_TEXTS = st.text(st.characters(codec="utf-8"), min_size=4, max_size=30)


def _each(write: Callable[[str], str]) -> Callable[[str], str]:
    """Write each sign but what is alphanumeric in ASCII in some way."""
    return lambda text: "".join(sign if sign.isascii() and sign.isalnum() else write(sign) for sign in text)


#: How programs write a text when they hand it on or quote it.
_QUOTINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON, not ASCII": lambda text: json.dumps({text: [text]}, ensure_ascii=False),
    "repr": repr,
    "ascii": ascii,
    "bytes": lambda text: str(text.encode()),
    "bytearray": lambda text: repr(bytearray(text.encode())),
    "Latin-1": lambda text: str(text.encode("latin-1", "backslashreplace")),
    "unicode_escape": lambda text: text.encode("unicode_escape").decode(),
    "backslashreplace": lambda text: text.encode("ascii", "backslashreplace").decode(),
    "path": quote,
    "query": lambda text: quote(text, safe=""),
    "form": quote_plus,
    "encodeURIComponent": lambda text: quote(text, safe="!'()*~"),
    "lower case": _each(lambda sign: "".join(f"%{byte:02x}" for byte in sign.encode())),
}
_OTHERS: dict[str, Callable[[str], str]] = {
    "C": _each(lambda sign: "".join(f"\\{byte:03o}" for byte in sign.encode())),
    "JavaScript": _each(lambda sign: f"\\u{{{ord(sign):X}}}"),
    "HTML": html.escape,
    "XML": escape,
    "references": lambda text: text.encode("ascii", "xmlcharrefreplace").decode(),
    "hex references": _each(lambda sign: f"&#x{ord(sign):X};"),
    "shell": shlex.quote,
    "SQL": lambda text: "'" + text.replace("'", "''") + "'",
    "UTF-8 read as Latin-1": lambda text: text.encode().decode("latin-1"),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "base64 in a URL": lambda text: quote(b64encode(text.encode()), safe=""),
}
_FORMS = tuple((_QUOTINGS | _OTHERS).values())

#: Values with whatever is quoted somewhere.
_SECRETS = (
    "pa\\ssw\u00e9rd-4711",
    'q"u\'o\\"te d&<b>/+=%25\n\ttab',
    "\U0001f600 smile\u20ac5",
    "C:\\\\share\\new",
    "'''\"\"\"\\\\\\abc",
    "\x85\x00\x7f control",
    "a b%20c&amp;d+e",
)


@pytest.mark.parametrize("form", _QUOTINGS | _OTHERS)
def test_a_value_that_is_quoted(form: str) -> None:
    """In any usual way, whatever its signs are."""
    for secret in _SECRETS:
        said = (_QUOTINGS | _OTHERS)[form](secret)
        kept = Scrubber([secret]).text(f"login refused for {said} by the bank")
        assert "***" in kept, said
        left = kept.removeprefix("login refused for ").removesuffix(" by the bank").replace("***", "")
        assert len([sign for sign in left.replace("bytearray", "b") if sign.isalnum()]) <= 4, kept


@pytest.mark.parametrize("outer", _QUOTINGS)
def test_a_value_that_is_quoted_twice(outer: str) -> None:
    """An error that quotes an error, a JSON document in a URL, the repr of a line that holds bytes."""
    for secret in _SECRETS:
        for inner in ("JSON", "repr", "bytes", "Latin-1", "query"):
            said = _QUOTINGS[outer](_QUOTINGS[inner](secret))
            assert "***" in Scrubber([secret]).text(said), said


@given(st.text(st.characters(codec="utf-8"), min_size=24, max_size=60), st.sampled_from([*_QUOTINGS.values()]), st.data())
def test_quoted_and_cut_short(secret: str, form: Callable[[str], str], data: st.DataObject) -> None:
    """A long value's beginning is taken out of whatever quotes it."""
    assume("*" not in secret)
    said, least = form(secret), len(form(secret[:18])) + 12
    cut = data.draw(st.integers(least, max(len(said), least)))
    scrubber = Scrubber([secret])
    assert "***" in scrubber.text(said[:cut])
    assert "***" in scrubber.text(said)


def test_the_end_of_a_value_that_is_quoted() -> None:
    """As much of it as there is, back to where the text was cut."""
    secret = "0123456789\\" + 'ab\u00e9c"d-ef' * 4
    for form in (repr, json.dumps, lambda text: str(text.encode()), quote):
        said = form(secret)
        kept = Scrubber([secret]).text("\u2026" + said[len(said) // 2 :])
        assert "***" in kept
        assert not {sign for sign in kept if sign.isalnum()} & set("cdf"), kept


@given(_TEXTS, st.text("xyz ü", max_size=10), st.text("xyz ü", max_size=10), st.sampled_from(_FORMS))
def test_no_form_of_a_secret_is_left(secret: str, before: str, after: str, form: Any) -> None:
    """In a document's texts, keys and lists, and in a line: what was written there is not there any more."""
    assume("*" not in secret)
    said = form(secret)
    scrubber = Scrubber([secret])
    document = scrubber.document({"text": before + said + after, before + said: [[said]], "n": 1})
    assert said not in json.dumps(document, ensure_ascii=False)
    assert secret not in str(document.get("text"))
    assert document["n"] == 1
    assert said not in scrubber.text(before + said + after)


@given(st.binary(min_size=6, max_size=40), st.binary(max_size=5), st.binary(max_size=5), st.booleans())
def test_base64_at_any_offset(secret: bytes, before: bytes, after: bytes, url: bool) -> None:
    """However long what stands before it is: the signs that only the secret determines are gone."""
    text = secret.hex()
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    said = encode(before + text.encode() + after).decode()
    kept = Scrubber([text]).text(said)
    assert "***" in kept
    assert len(kept) <= len(said) - len(text) * 8 // 6 + 8


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none() | st.booleans(), max_size=5))
def test_what_holds_no_secret_is_left_alone(document: dict[str, Any]) -> None:
    """The document itself is returned."""
    assert Scrubber(["sEcReT-sEcReT"]).document(document) == document


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"n": 123456}, {"n": "***"}),
        ({"n": 12345.6}, {"n": 12345.6}),
        ({"n": -1234567}, {"n": "***"}),
        ({"pin": "07", "time": "07:30"}, {"pin": "***", "time": "07:30"}),
        ({"07": 1}, {"***": 1}),
        ({"ok": True, "no": None}, {"ok": True, "no": None}),
    ],
)
def test_numbers_and_short_secrets(said: Any, kept: Any) -> None:
    """A number that holds one is replaced; one of fewer than four signs only where it is all there is."""
    assert Scrubber(["123456", "07", ""]).document(said) == kept


def test_the_leaves_of_a_secret_that_is_json() -> None:
    """A worker that takes such a secret apart and hands on a piece."""
    scrubber = Scrubber(['{"user": "bob-bobson", "keys": ["k-1234567"], "port": 54321}', {"deep": ["d-987654"]}])
    said = "bob-bobson used k-1234567 on 54321 with d-987654"
    assert scrubber.text(said) == "*** used *** on *** with ***"


@pytest.mark.parametrize("said", ["cannot use {:.30}", "input_value='{:.20}…{}'", "got {:.17}", "…{}"])
def test_quotations_cut_short(said: str) -> None:
    """Reasons and lines quote the beginning and the end of what they complain of."""
    secret = "0123456789abcdefghijklmnopqrstuvwxyz-long-secret"
    kept = Scrubber([secret]).text(said.format(secret, secret[-20:]) if said.count("{") > 1 else said.format(secret))
    assert not any(secret[n : n + 16] in kept for n in range(len(secret) - 16))
    assert "***" in kept


def test_the_longest_is_taken_first() -> None:
    """One secret that begins like another leaves no tail behind."""
    assert Scrubber(["abcd", "abcdefgh"]).text("x abcdefgh abcd y") == "x *** *** y"
