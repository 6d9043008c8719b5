"""Searches that mean harm, and documents that do: what each construct of the language of searches is asked to carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["DOCUMENTS", "SEARCHES"]

MAX = 20_000


def _joined(sign: str, pieces: Callable[[int], str]) -> str:
    """As many pieces as a query of full length holds."""
    found, length, n = [], 0, 0
    while length + len(piece := pieces(n)) + len(sign) < MAX - 200:
        found.append(piece)
        length, n = length + len(piece) + len(sign), n + 1
    return sign.join(found)


def _lists(field: str, value: Callable[[int], str]) -> str:
    """Lists of a thousand values each, as many as there is room for."""
    values = _joined(",", value).split(",")
    parts = [f"{field} IN ({','.join(values[at : at + 1_000])})" for at in range(0, len(values), 1_000)]
    while len(query := " OR ".join(parts)) >= MAX:
        parts.pop()
    return query


def _nested(depth: int) -> str:
    query = "input.n > 1"
    for n in range(depth):
        query = f"event = A {('AND', 'OR')[n % 2]} ({query})"
    return query


def _wide() -> str:
    return " OR ".join(f"input.l[*] > {n}" for n in range(200))


#: By name: payloads that make a document large, deep or odd.
DOCUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "texts": lambda: {"l": ["a" * 1_000 for _ in range(250)], "s": "a" * 1_024},
    "short texts": lambda: {"l": ["a" * 60 for _ in range(250)], "n": 7},
    "numbers": lambda: {"l": [10**300 + n for n in range(60)] + [1e308, -1e308, 5e-324, -0.0, 2**63, -(2**63)], "n": 10**400},
    "deep": lambda: {"l": _deep(90)},
    "a long name": lambda: {"k" * 120_000: list(range(256))},
    "long names": lambda: {"k" * 9_000: {"k" * 9_000: {"k" * 9_000: {"k" * 9_000: {f"k{n}": n for n in range(250)}}}}},
    "names": lambda: {
        name: name for name in ("a.b", "a[0]", "a['b", "'", '"', "\\", "*", "%", "_", "", " ", "\u2028", "😀", "é", "NULL")
    },
    "words": lambda: {"s": "a " * 130_000, "l": ["NEAR AND OR NOT * ^ : -"] * 200},
    "signs": lambda: {"s": "\ufdfa" * 80_000},
    "marks": lambda: {"s": "a" + "\u0301\u0327" * 60_000},
    "no spaces": lambda: {"s": "東" * 80_000},
    "one word": lambda: {"s": "я" * 120_000},
    "cases": lambda: {"s": "\u0390\u0130ß" * 40_000},
    "zeros": lambda: {"s": "\0" * 30_000, "l": ["\0a", "a\0", "\ufffd"]},
    "a list": lambda: {"l": list(range(40_000))},
    "lists": lambda: {"l": [[[n] * 10] * 10 for n in range(500)]},
    "a map": lambda: {"l": {f"k{n}": n for n in range(15_000)}},
    "empty": lambda: {"l": [[], {}, None, "", False] * 6_000},
    "too long": lambda: {"s": "a b " * 200_000},
}


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"l": [value]}
    return value


def _row(query: str = "", free_text: str = "*", start: int = 0, size: int = 100, sort: str = "") -> dict[str, Any]:
    return {"query": query, "free_text": free_text, "start": start, "size": size, "sort": sort}


#: By name: searches of executions.
SEARCHES: dict[str, dict[str, Any]] = {
    "a list of a hundred patterns": _row("input.l[*] IN (" + ",".join(f"'a*{'a' * 20}*{n}*b'" for n in range(100)) + ")"),
    "a hundred patterns": _row(" OR ".join(f"input.l[*] = '*a*a*{n}*b'" for n in range(100))),
    "a hundred denied patterns": _row(" AND ".join(f"NOT input.l[*] = '*a*{n}*'" for n in range(100))),
    "lists of wildcards": _row(_lists("input.l[*]", lambda n: f"*{n % 10}")),
    "lists of patterns": _row(_lists("input.l[*]", lambda n: "a*a*a*b")),
    "lists of different patterns": _row(_lists("input.l[*]", lambda n: f"a*{n}*b")),
    "lists of numbers": _row(_lists("input.l[*]", lambda n: f"{n}")),
    "lists of texts": _row(_lists("input.l[*]", lambda n: f"'{n}'")),
    "lists of large numbers": _row(_lists("input.l[*]", lambda n: f"1e{n % 400}")),
    "lists denied": _row("NOT (" + _lists("input.l[*]", lambda n: f"x{n}") + ")"),
    "lists of a field": _row(_lists("workflowId", lambda n: f"*{n % 7}*")),
    "lists of several texts": _row(_lists("failedTaskNames", lambda n: f"*{n % 7}*")),
    "a list within lists": _row("input.l IN ((1))"),
    "a pattern of wildcards": _row("input.l[*] = '" + "*" * 19_000 + "b'"),
    "a pattern of a*": _row("input.l[*] = '" + "a*" * 9_900 + "b'"),
    "a pattern of long parts": _row("input.l[*] = '*" + "a" * 500 + "*" + "a" * 500 + "b*'"),
    "a pattern longer than any text": _row("input.s = '" + "a" * 19_000 + "*'"),
    "two hundred patterns": _row(" OR ".join(f"input.l[*] = '*a*{n}*b'" for n in range(200))),
    "two hundred denied patterns": _row(" AND ".join(f"NOT input.l[*] = '*a*{n}*'" for n in range(200))),
    "a beginning of the last sign": _row("input.s STARTS_WITH '" + "\U0010ffff" * 5_000 + "'"),
    "a beginning before surrogates": _row("input.s STARTS_WITH '\ud7ff'"),
    "beginnings": _row(" OR ".join(f"input.l[*] STARTS_WITH '{'a' * 60}'" for _ in range(200))),
    "an empty beginning": _row("input.l[*] STARTS_WITH ''"),
    "two hundred comparisons": _row(_wide()),
    "two hundred and one": _row(_wide() + " OR input.n = 1"),
    "two hundred paths": _row(" OR ".join(f"input.l[{n}].l[*].l[0] IS NULL" for n in range(200))),
    "two hundred ranges": _row(" AND ".join(f"input.l[*] BETWEEN {-n} AND 1e{n}" for n in range(200))),
    "nested twenty deep": _row(_nested(20)),
    "nested too deep": _row(_nested(21)),
    "parentheses": _row("(" * 19_999),
    "closed parentheses": _row(")" * 19_999),
    "NOT": _row("NOT " * 4_999),
    "NOT, and a name of it": _row("NOTNOT = 1 " * 1_800),
    "AND": _row("AND " * 4_999),
    "keywords for names": _row("NULL IS NULL AND IN IN (IN)"),
    "keywords for values": _row("event = AND"),
    "open quote": _row("event = '" + "\\'" * 9_900),
    "escapes at the end": _row("event = '" + "\\" * 9_999 + "'"),
    "quotes in quotes": _row("event = '" + "\\'\"" * 6_000 + "'"),
    "brackets": _row("input" + "[" * 19_000),
    "open brackets with quotes": _row("input" + "['" * 9_000),
    "closed brackets": _row("input" + "[0]" * 6_000 + " = 1"),
    "places": _row("input.l[999999999] = 1 OR input.l[000000000] = 0"),
    "a place too large": _row("input.l[" + "9" * 1_000 + "] = 1"),
    "a place below": _row("input.l[-1] = 1"),
    "a long name": _row("input." + "k" * 19_000 + " = 1"),
    "a name as long as one there is": _row("input['" + "k" * 9_000 + "'] IS NOT NULL"),
    "names in quotes": _row(" OR ".join(f"input['{name}'] IS NOT NULL" for name in ("a.b", "a[0]", "%", " ", "\\\\", "é"))),
    "steps": _row("input" + ".l" * 9_000 + " = 1"),
    "any place of any place": _row("input" + ".l[*]" * 3_000 + " IS NULL"),
    "blanks": _row(" " * 19_000 + ";"),
    "blanks of all kinds": _row("event\u2003=\u3000A\u0085AND\u2028event\x1f=\x1cB"),
    "signs": _row("<=>=<>!===" * 1_900),
    "commas": _row("event IN (" + "," * 19_000),
    "semicolons": _row("event = A;" * 1_800),
    "comments": _row("event = A -- DROP TABLE workflows"),
    "a statement": _row("workflowId = 'x') UNION SELECT sql FROM sqlite_master; --'"),
    "zeros": _row("input.s = '\0' OR input.l[*] = '\0a' OR workflowId = '\0'"),
    "zeros in patterns": _row("input.s = '\0*\0*\0'"),
    "half a pair": _row("input.s = '\ud800'"),
    "a pair": _row("input.s = '\U0010ffff' OR input.s > '\U0010ffff'"),
    "marks and their sign": _row("input.s = 'é' OR input.s = 'e\u0301'"),
    "right to left": _row("\u202eevent = A"),
    "digits of other scripts": _row("version = ٣ OR version = ３"),
    "a number of a thousand digits": _row("input.n = " + "9" * 1_000),
    "a number of more": _row("input.n = " + "9" * 19_000),
    "an exponent": _row("input.n > 1e9999 OR input.n < -1e9999 OR input.n = 1e-9999"),
    "an exponent of more": _row("input.n > 1e99999999"),
    "fractions": _row("input.n = 0." + "0" * 900 + "1"),
    "no numbers": _row("version = nan OR version = inf"),
    "numbers of Python": _row("version = 1_000"),
    "the ends of integers": _row(f"input.l[*] IN ({2**63 - 1}, {2**63}, {-(2**63)}, {-(2**63) - 1})"),
    "instants": _row("startTime > 9999-12-31T23:59:59.999999+00:00 OR startTime < 0001-01-01T00:00:00+14:00"),
    "instants that are none": _row("startTime > '" + "1" * 19_000 + "'"),
    "instants of weeks": _row("startTime > 2024-W01-1 AND startTime < '20240101T00'"),
    "ranges upside down": _row("input.n BETWEEN 1e308 AND -1e308 AND input.s BETWEEN 'z' AND ''"),
    "flags": _row("archived IN (true, FALSE, True)"),
    "empty lists": _row("event IN ()"),
    "lists of one value": _row("event IN (" + "A," * 999 + "A)"),
    "lists of too many": _row("event IN (" + "A," * 1_000 + "A)"),
    "a query that is too long": _row("event = '" + "x" * 1_000_000 + "'"),
    "a wide query and free text": _row(_wide(), " ".join(f"a{n}*" for n in range(100))),
    "words": _row("", " ".join(["a"] * 100)),
    "beginnings of words": _row("", " ".join(f"{chr(97 + n % 26)}*" for n in range(100))),
    "too many words": _row("", "a " * 4_999),
    "a phrase": _row("", '"' + "a " * 100 + '"'),
    "a phrase with an open end": _row("", '"' + "a " * 99 + '"*'),
    "a hundred phrases": _row("", '"a a a"* ' * 33),
    "free text too long": _row("", "a" * 1_000_000),
    "one long word": _row("", "a" * 9_999),
    "one sign many events": _row("", "\ufdfa" * 5),
    "signs many events": _row("", "\ufdfa" * 9_999),
    "marks": _row("", "a" + "\u0301" * 9_990),
    "marks alone": _row("", "\u0301" * 9_990),
    "a script without spaces": _row("", "東" * 100),
    "too much of it": _row("", "東" * 9_999),
    "quotes": _row("", '""' * 4_000),
    "an open phrase": _row("", '"' * 9_999),
    "stars": _row("", "* " * 4_000),
    "operators of FTS": _row("", "a AND b OR NOT c NEAR(d e, 5) words : f ^g h + i {j} -k"),
    "columns of FTS": _row("", "rowid:1 words:a rank MATCH"),
    "quotes of FTS": _row("", "a\"\" OR \"\"b"),
    "commands of FTS": _row("", "'delete' 'rebuild' optimize delete-all integrity-check"),
    "half a pair of words": _row("", "a\ud800b \udfff1"),
    "zeros in words": _row("", "a\0b"),
    "sorts": _row(sort="|".join(["workflowId:DESC", "startTime", "event", "correlationId", "priority", "version:ASC"])),
    "sorts of one field": _row(sort="|".join(["workflowId", "workflowId:DESC"] * 5)),
    "too many sorts": _row(sort="startTime|" * 100_000),
    "a sort by a statement": _row(sort="workflowId; DROP TABLE workflows"),
    "a sort by a function": _row(sort="random():ASC"),
    "a sort by a path": _row(sort="input.l[*]"),
    "a sort by a number": _row(sort="1"),
    "a long name to sort by": _row(sort="x" * 1_000_000),
    "colons": _row(sort=":" * 100_000),
    "bars": _row(sort="|" * 100_000),
    "half a pair to sort by": _row(sort="\ud800"),
    "the largest page": _row(size=5_000),
    "a larger page": _row(size=5_001),
    "an empty page": _row(size=0),
    "the last page": _row(start=2**31, size=5_000),
    "a page after it": _row(start=2**31 + 1),
    "a page before the first": _row(start=-1),
    "a page of less than none": _row(size=-1),
    "a fraction of a page": _row(start=1.5),  # type: ignore[arg-type]
    "a page of no number": _row(size=float("nan")),  # type: ignore[arg-type]
    "a page of five thousand digits": _row(start=10**5_000),
    "a page of text": _row(start="1"),  # type: ignore[arg-type]
    "a query of nothing": _row(None),  # type: ignore[arg-type]
    "a query of bytes": _row(b"event = A"),  # type: ignore[arg-type]
    "a free text of nothing": _row("", None),  # type: ignore[arg-type]
    "a sort of nothing": _row(sort=None),  # type: ignore[arg-type]
}  # fmt: skip
