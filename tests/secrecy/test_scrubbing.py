"""What is taken out of what workers say: in every form, cut short or whole, and nothing else."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conductorlite.language.secrets import Scrubber

_TEXTS = st.text(st.characters(codec="utf-8"), min_size=4, max_size=30)
_FORMS = (
    lambda text: text,
    lambda text: json.dumps(text),
    lambda text: json.dumps({text: [text]}, ensure_ascii=False),
    lambda text: repr(text),
    lambda text: quote(text),
    lambda text: quote(text, safe=""),
    lambda text: quote_plus(text),
    lambda text: text.encode().hex(),
)


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
