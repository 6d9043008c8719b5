"""Paths, filters and functions of Jayway's JSONPath, as `${…}` reads them, and templates around them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from cases import Case, batches, inline, task, workflow

DATA: Final[dict[str, Any]] = {
    "store": {
        "book": [
            {"category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century", "price": 8.95},
            {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99},
            {"category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553-21311-3", "price": 8.99},
            {"category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord", "isbn": "0-395-19395-8", "price": 22.99},
        ],
        "bicycle": {"color": "red", "price": 19.95},
    },
    "expensive": 10,
    "n": [3, 1, 2],
    "ap": [1],
    "f": [1.5, 2.5],
    "m": [1, "a", None, True, {"x": 1}, [1]],
    "s": "text",
    "e": "",
    "z": [],
    "o": {},
    "nil": None,
    "yes": True,
    "no": False,
    "i": 7,
    "d": 1.5,
    "neg": -3,
    "big": 12345678901234,
    "t": ["b", "a"],
    "deep": {"a": {"b": {"c": [1, {"d": 2}]}}},
    "rows": [
        {"id": 1, "p": 1, "q": "1", "l": [1, 2], "b": True, "o": {"k": 1}},
        {"id": 2, "p": None, "q": "a", "l": [], "b": False, "o": {}},
        {"id": 3, "q": "abc", "l": [1, 2, 3], "o": {"k": 2}},
        {"id": 4, "p": 2.5, "q": "", "l": ["a", "b"], "b": None},
        {"id": 5, "p": -1, "q": "ABC", "l": None},
    ],
    "ü": {"ß": 1},
    "with space": 1,
    "a.b": 2,
    "a-b": 3,
    "quote'd": 4,
    "0": "zero",
    "$x": 5,
    "@y": 6,
}

PLAIN: Final = """
store.book[*].author|store..price|..author|store.*|store.book[2]|store.book[-1]|store.book[-1].title|store.book[0,1].title|store.book[:2].title
store.book[1:3].title|store.book[-2:].title|store.book[1:].title|store.book[0:4:2].title|store.book[::2].title|store.book[9]|store.book[9].title
store.book[*]|store.book..title|store['bicycle']['color']|store['book'][0]['title']|store['bicycle'].price|store.bicycle['color','price']
store.book[0]['title','price']|store.book[*]['title','isbn']|store.book.length()|store.book.title|store.book[*].isbn|store.nothing|store.nothing.more
n|n[0]|n[-1]|n[5]|n[0,2]|n[*]|n[0:1]|n[1:1]|n[5:9]|n[-9:2]|n[*].x|n.x|n['0']|n.0|m|m[2]|m[3]|m[4].x|m[5][0]|m[*].x|s|s.x|s[0]|s.length()|e|e.length()
z|z[0]|z[*]|z.length()|o|o.x|o.*|o.length()|nil|nil.x|nil.length()|yes|no|i|d|neg|big|deep.a.b.c[1].d|deep..d|deep..c|deep..*|deep.*.*|..d|deep['a']['b']
n.min()|n.max()|n.avg()|n.sum()|n.stddev()|n.length()|n.first()|n.last()|n.index(0)|n.index(-1)|n.index(9)|n.concat()|n.append(4)|n.size()|n.keys()
f.min()|f.max()|f.avg()|f.sum()|f.stddev()|t.min()|t.max()|t.sum()|t.concat()|t.first()|t.last()|m.sum()|m.max()|m.length()|z.min()|z.sum()|z.avg()|z.first()
z.last()|o.keys()|deep.keys()|deep.a.keys()|store.keys()|s.keys()|n[*].sum()|n[*].length()|rows[*].p.sum()|rows[*].p.max()|rows[*].p.length()|rows.length()
rows[*].id.min()|rows[*].id.avg()|rows[*].l.length()|rows[0].l.sum()|rows..k.sum()|rows..id.max()|rows..id|rows[*].length()|store.book[*].price.sum()|store.book[*].price.avg()
store.book[*].price.min()|store.book[*].title.concat()|store.book.size()|store.length()|s.concat(\"x\")|s.concat(\"x\", \"y\")|n.concat(\"x\")|s.upper()|s.lower()|n.sort()
n.nothing()|n.append(\"x\")|t.append(\"c\")|rows[0].append(1)|min(1,2)|max()|length()|n.sum().x|n.max(9)|n.min($.i)|s.length|n.length|rows.size|o.isEmpty()
rows[*].o.k|rows[*]['id','p']|rows[0,1,9].id|rows[0:9].id|rows[-3:-1].id|rows[::-1].id|rows[?(@.id)]|rows[1].p|rows[2].p|rows[*].p|rows[*].b|rows[-9].id|rows[].id
ü.ß|['ü']['ß']|['with space']|['a.b']|a-b|['a-b']|[\"a-b\"]|['quote\\'d']|['0']|['$x']|['@y']|$x|@y|n[ 0 ]|n[0 , 1]|store . book|n[*|n]|n[a]|n[0:1:0]|n[1.5]|n[+1]|n[00]
store.book[?(@.price<10)].title.length()|deep.a..length()|..length()|...|*|..|.n|n.|n..|n..0|['n']|['n'][0]|['n','t']|['store']['bicycle','book']|store['*']|..['id']|..[0]|..book[0].title|..book[*].title|..price.sum()
"""

OPERANDS: Final = (
    "@.p",
    "@.q",
    "@.l",
    "@.b",
    "@.o",
    "@.o.k",
    "@.nothing",
    "@.id",
    "@",
    "@.l[0]",
    "@['p']",
    "@.l.length()",
    "@.q.length()",
)
VALUES: Final = (
    "1",
    "2.5",
    "-1",
    "'1'",
    "'a'",
    '"abc"',
    "''",
    "null",
    "true",
    "false",
    "[1, 2]",
    "[]",
    "['a', 'b']",
    "{}",
    "{'k': 1}",
    "$.i",
    "$.yes",
    "@.id",
    "'null'",
    "/a.*/",
    "undefined",
    "1.0",
    "'2.5'",
)
RELATIONS: Final = (
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "=~",
    "in",
    "nin",
    "subsetof",
    "anyof",
    "noneof",
    "allof",
    "contains",
    "size",
    "empty",
    "===",
    "!==",
    "type",
    "exists",
    "matches",
    "<>",
)

FILTERS: Final = """
@.price < 10|@.price < $['expensive']|@.price <= $.expensive|@.isbn|!@.isbn|!(@.isbn)|@.author =~ /.*REES/i|@.author =~ /.*rees/|@.author =~ /Rees/|@.title =~ /^S.*/
@.category == 'fiction' && @.price < 10|@.category == 'fiction' || @.price < 10|(@.category == 'fiction' || @.price < 10) && @.isbn|!(@.category == 'fiction')
@.category in ['fiction','x']|@.category nin ['fiction']|'fiction' == @.category|10 > @.price|@.price > 8.95 && @.price < 20 && @.isbn|@.title size 9|@.title empty true
@.title empty false|@.isbn empty true|@.isbn == null|@.isbn != null|@.isbn exists|@.title.length() > 10|@.price == 8.95|@.price == '8.95'|@['price'] > 10|@.['price'] > 10
@.title == \"Moby Dick\"|@.title == 'moby dick'|@.title > 'N'|@.title contains 'of'|1 == 1|true|false|@|@.*|@..price|@.price + 1 > 10|@.price*2 > 20|@.price = 8.95
@.price < 10 and @.isbn|@.price < 10 or @.isbn|not @.isbn|@.category == 'fiction' && !(@.isbn)|@.category=='fiction'&&@.price>10|@.price > 10 &&|(@.price > 10|@.price >|'' == ''
@.category anyof ['fiction']|@.category subsetof ['fiction']|@.author in $.t|@.price in [8.95, 12.99]|@.price in ['8.95']|@.isbn nin [null]|@.isbn in [null]|@.category in []
$.expensive == 10|$.yes == true|$.nothing|$.nil|$.nil == null|@.price == @.price|@.title == @.title|@.category == @.category && @.isbn == @.isbn|@.isbn =~ /0-5.*/|@.isbn =~ /\\d.*/
@.author == 'Nigel Rees' || @.author == 'Evelyn Waugh' && @.price > 100|@.price > -1|@.price > 1e1|@.price > .5|@.price < 1E2|@.title == 'Moby\\x20Dick'|@.author =~ /[A-Z]\\. .*/
"""

TEMPLATES: Final = (
    "<${x.s}>",
    "${x.s}${x.s}",
    "${x.s} ${x.n}",
    "<${x.n}>",
    "<${x.o}>",
    "<${x.rows[0]}>",
    "<${x.nil}>",
    "<${x.nothing}>",
    "<${x.yes}>",
    "<${x.d}>",
    "<${x.big}>",
    "<${x.neg}>",
    "<${x.e}>",
    "<${x.z}>",
    "<${x.m}>",
    "<${x.deep}>",
    "$${x.s}",
    "$$${x.s}",
    "$ {x.s}",
    "${ x.s}",
    "${x.s }",
    "${ x.s }",
    "${x.s",
    "x.s}",
    "${}",
    "${x}",
    "${x.}",
    "${.s}",
    "${x..s}",
    "${x.s.}",
    "${{x.s}}",
    "${${x.s}}",
    "${x.${x.s}}",
    "${x.s}}",
    "{${x.s}}",
    "${x.s}\n${x.i}",
    "a ${x.i} b ${x.i} c",
    "${x['s']}",
    '${x["s"]}',
    "${x.n[0]} and ${x.n[1]}",
    "${nothing}",
    "${nothing.output.x}",
    "<${nothing.x}>",
    "${x.store.book[?(@.price < 10)].title}",
    "<${x.store.book[?(@.price < 10)].title}>",
    "${x.store.book[?(@.price > 100)].title}",
    "${x.n.sum()}",
    "<${x.n.sum()}>",
    "<${x.n.avg()}>",
    "${x.s}$",
    "$",
    "$$",
    "${",
    "}",
    "\\${x.s}",
    "${x.ü.ß}",
    "${x['with space']}",
    "<${x['a.b']}>",
    "${x.s}€",
    "#{x.s}",
    "%{x.s}",
    "${x.s:default}",
    "${x.nothing:-d}",
    "<${x.f}>",
    "<${x.t}>",
    "<${x.rows[*].q}>",
    "<${x.rows[3].p}>",
    "${X.S}",
    "${workflow}",
)

LENGTHS: Final = (0, 1, 2, 3, -1, "'2'", "null", "true", "[1]")


def _root(text: str, root: str = "workflow.input") -> str:
    joint = "" if text.startswith("[") else "."
    return f"${{{root}{joint}{text}}}"


def plain() -> list[str]:
    return list(
        dict.fromkeys(
            each.strip() for line in PLAIN.strip().splitlines() for each in line.replace('\\"', '"').split("|") if each.strip()
        )
    )


def filters() -> list[str]:
    listed = (each.strip() for line in FILTERS.strip().splitlines() for each in line.replace('\\"', '"').split("|") if each.strip())
    drawn = (f"{one} {relation} {value}" for one, relation, value in itertools.product(OPERANDS, RELATIONS, VALUES))
    sizes = (f"@.l size {length}" for length in LENGTHS)
    return [
        *(f"store.book[?({each})].title" for each in dict.fromkeys(listed)),
        *(f"rows[?({each})].id" for each in (*drawn, *sizes)),
        *(
            f"{each}[?(@ {relation} {value})]"
            for each in ("n", "t", "m", "f")
            for relation in ("==", "!=", ">", "<=", "in", "nin", "=~")
            for value in ("1", "'a'", "null", "true", "[1, 'a']", "/a/")
        ),
        "o[?(@.k)]",
        "rows[?(@.id > 1)][?(@.id < 4)].id",
        "rows[?(@.o.k == 1)].o",
        "rows[?(@.id > 1)].l[0]",
        "rows[?(@.id > 1)].length()",
        "..[?(@.k)]",
        "rows[?].id",
        "rows[?()].id",
        "rows[?(@.id==1)]",
        "rows[(@.length-1)].id",
        "rows[?(@.id==1)].q.length()",
        "deep[?(@.b)]",
        "deep.a[?(@.c)]",
        "store[?(@.color)].price",
    ]


def _outputs(name: str, texts: Sequence[str]) -> Case:
    """Each as a parameter of the workflow's output."""
    parameters = {f"v{index}": text for index, text in enumerate(texts)}
    return Case(
        name=name,
        workflows=[workflow(task("n", "NOOP"), outputParameters=parameters)],
        input=DATA,
        parts={f"output.v{index}": text for index, text in enumerate(texts)},
        items=texts,
        made_of=_outputs,
    )


def _inputs(name: str, texts: Sequence[str]) -> Case:
    """Each in the input of a task, behind a task whose output is the data."""
    given = {"given": "${workflow.input}", **{f"v{index}": text for index, text in enumerate(texts)}}
    return Case(
        name=name,
        workflows=[workflow(inline("x", "$.given", given="${workflow.input}"), task("n", "SET_VARIABLE", inputParameters=given))],
        input=DATA,
        parts={
            f"{place}.v{index}": f"{text} ({at})"
            for index, text in enumerate(texts)
            for place, at in (("variables", "variable"), ("tasks.n#0.inputData", "input"))
        },
        items=texts,
        made_of=_inputs,
    )


def cases() -> list[Case]:
    """Paths and filters in outputs, templates in inputs, paths of a task's output."""
    return [
        *batches("paths/plain", [_root(each) for each in plain() if "append" not in each], 60, _outputs),
        *batches("paths/append", [_root(each) for each in plain() if "append" in each], 1, _outputs),
        *batches("paths/filter", [_root(each) for each in filters()], 120, _outputs),
        *batches("paths/template", [each.replace("${x", "${workflow.input") for each in TEMPLATES], 30, _outputs),
        *batches("paths/of_a_task", [_root(each, "x.output.result") for each in plain()[::4]], 40, _inputs),
    ]
