"""Flows as a beginner writes them wrong: the error says the line, what is wrong with it, and what to write instead."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import linecache
import math
import os
import random
import sys
import time
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import BuildError
from conductorlite.flows import now, parallel, receive, terminate, wait

from trips import Flight, book_flight, list_rooms, notify, payment, quote  # isort: skip

_numbers = itertools.count()
sent: list[str] = []


def send_mail(text: str) -> None:
    """Is no task."""
    sent.append(text)


def load_rates() -> dict[str, float]:
    """Is no task either."""
    return {"eur": 1.0}


@task
def unannotated(x: int):  # type: ignore[no-untyped-def]
    """Does not say what it returns."""
    return x


@task
def maybe(x: int) -> dict[str, int] | None:
    """Returns a map or nothing."""
    return {"x": x} if x else None


@task
def rates_of(text: str) -> dict[str, str]:
    """Returns a map."""
    return {"usd": text}


def tells(text: str) -> str:
    """Is no flow, and calls a task."""
    return notify(text)


@attrs.define
class Opened:
    """What is no JSON."""

    file: Any


NAMES: dict[str, Any] = {
    "book_flight": book_flight, "datetime": datetime, "dt": dt, "Flight": Flight, "json": json,
    "list_rooms": list_rooms, "math": math, "maybe": maybe, "rates_of": rates_of, "RATES": {"eur": 1.0}, "tells": tells,
    "load_rates": load_rates, "notify": notify, "now": now, "Opened": Opened, "os": os, "parallel": parallel,
    "payment": payment, "quote": quote,
    "receive": receive, "terminate": terminate, "random": random, "send_mail": send_mail, "sys": sys, "time": time,
    "unannotated": unannotated, "uuid": uuid, "wait": wait,
}  # fmt: skip


def function_of(body: str, head: str = "def wrong(order: str, number: int, items: list[str]) -> str:") -> Any:
    """A function with a source that can be read."""
    file = f"<wrong {next(_numbers)}>"
    source = "\n".join((head, *(f"    {line}" for line in body.splitlines()), ""))
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = dict(NAMES)
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names["wrong"]


#: What is wrong, the body with `#!` on the line that is named, and words of the cause and of the remedy.
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "a plain call": ("notify(order)\nsend_mail(order)  #!", ("`send_mail` would be called while the flow is compiled", "@task")),
    "a plain call assigned": ("rates = load_rates()  #!\nnotify(order)", ("`load_rates`", "now(load_rates(...))")),
    "a plain call within a text": ("notify(f'{load_rates()}')  #!", ("`load_rates`", "@task")),
    "print": ("notify(order)\nprint('done')  #!", ("`print` would be called while the flow is compiled", "@task")),
    "open": ("text = open('x').read()  #!\nnotify(text)", ("`open", "@task")),
    "the clock": ("notify(str(datetime.now()))  #!", ("`datetime.now`", "@task")),
    "the clock by time": ("began = time.time()  #!\nnotify(order)", ("`time.time`", "@task")),
    "today": ("notify(str(dt.date.today()))  #!", ("`dt.date.today`", "@task")),
    "sleep": ("time.sleep(5)  #!\nnotify(order)", ("`time.sleep`", "@task")),
    "chance": ("if random.random() < 0.5:  #!\n    notify(order)", ("`random.random`", "@task")),
    "an id": ("notify(str(uuid.uuid4()))  #!", ("`uuid.uuid4`", "@task")),
    "the environment": ("notify(os.environ['HOME'])  #!", ("`os.environ`", "give it as an argument")),
    "getenv": ("notify(os.getenv('HOME') or '')  #!", ("`os.getenv`", "@task")),
    "the command line": ("notify(sys.argv[0])  #!", ("`sys.argv`", "give it as an argument")),
    "with": ("with open('x') as file:  #!\n    notify(order)", ("`with` is not part of a flow", "@task")),
    "a function": ("def inner():  #!\n    return 1\nnotify(order)", ("a function in a flow", "define it outside")),
    "a class": ("class Inner:  #!\n    pass\nnotify(order)", ("a class in a flow", "define it outside")),
    "import": ("import math  #!\nnotify(order)", ("import outside",)),
    "global": ("global x  #!\nnotify(order)", ("global variables", "return the value")),
    "del": ("x = 1\ndel x  #!\nnotify(order)", ("does not delete names",)),
    "a bare raise": ("notify(order)\nraise  #!", ("stands in an `except`", "raise ValueError(reason)")),
    "raise of a value": ("raise order  #!", ("class of exceptions", "raise ValueError(reason)")),
    "raise from": ("raise ValueError('x') from KeyError('y')  #!", ("`from` is not part of a flow",)),
    "raise of two values": ("raise ValueError(order, number)  #!", ("given its text and nothing else",)),
    "raise of a task's error": ("raise UnicodeDecodeError('x')  #!", ("makes its text by code of its own", "@task")),
    "except of what is no class": (
        "try:\n    notify(order)\nexcept notify:  #!\n    pass",
        ("handles classes of exceptions", "`except ValueError:`"),
    ),
    "except of the end": (
        "try:\n    notify(order)\nexcept KeyboardInterrupt:  #!\n    pass",
        ("no step raises KeyboardInterrupt", "`except Exception:`"),
    ),
    "an exception as a value": (
        "try:\n    notify(order)\nexcept Exception as error:\n    notify(error)  #!",
        ("'error' is an exception, which is no JSON", "`str(error)`"),
    ),
    "an exception after its handler": (
        "error = None\ntry:\n    notify(order)\nexcept Exception as error:\n    pass\nnotify(str(error))  #!",
        ("'error' is gone after its `except`", "assign what is needed of it"),
    ),
    "a name that the try may not assign": (
        "try:\n    sent = notify(order)\n    notify(sent)\nexcept Exception:\n    pass\nnotify(sent)  #!",
        ("'sent' may be unassigned here", "assign it before the `try`"),
    ),
    "a message within a try": (
        "try:\n    if number:  #!\n        notify(receive('news', str))\nexcept Exception:\n    pass",
        ("which gets none", "receive it before"),
    ),
    "terminate within a try": (
        "try:\n    if number:  #!\n        terminate('FAILED', 'no')\nexcept Exception:\n    pass",
        ("would end those statements alone", "write it after the `try`"),
    ),
    "except star": ("try:\n    notify(order)\nexcept* ValueError:\n    pass", ("`except*` is not part of a flow", "`except`")),
    "yield": ("yield notify(order)  #!", ("does not yield", "return the values")),
    "walrus": ("if (x := notify(order)) == 'a':  #!\n    notify(x)", ("`:=`", "assign the name in a statement")),
    "a lambda that calls": ("xs = sorted(items, key=lambda x: notify(x))  #!\nnotify(xs[0])", ("lambda", "in a statement")),
    "a name of one branch": (
        "if number > 3:\n    sent = notify(order)\nnotify(sent)  #!",
        ("'sent' may be unassigned", "assign it in each, or before"),
    ),
    "a name of a loop": (
        "for item in items:\n    sent = notify(item)\nnotify(sent)  #!",
        ("'sent' may be unassigned", "assign it before the loop"),
    ),
    "a name that a break leaves out": (
        "while True:\n    sent = notify(order)\n    if sent == order:\n        found = sent\n        break\n"
        "    if sent == '':\n        break\nnotify(found)  #!",
        ("'found' may be unassigned", "left by a `break` before"),
    ),
    "the item after the loop": (
        "for item in items:\n    notify(item)\nnotify(item)  #!",
        ("'item' may be unassigned", "before the loop"),
    ),
    "a name before": ("notify(sent)  #!\nsent = order", ("'sent' is read before it is assigned",)),
    "a misspelt name": ("notify(ordr)  #!", ("'ordr' is not defined", "did you mean 'order'?")),
    "a misspelt task": ("notifi(order)  #!", ("'notifi' is not defined",)),
    "a misspelt field": ("notify(book_flight(order).saet)  #!", ("Flight has no field 'saet'", "did you mean 'seat'?")),
    "a misspelt argument": ("notify(txt=order)  #!", ("no argument 'txt'", "did you mean 'text'?")),
    "a missing argument": ("notify()  #!", ("missing a required argument: 'text'",)),
    "too many arguments": ("notify(order, order)  #!", ("too many positional arguments",)),
    "stars": ("notify(*items)  #!", ("write out each argument",)),
    "two stars": ("notify(**{'text': order})  #!", ("write out each argument", "**")),
    "options of a later value": (
        "notify.options(name=order)(order)  #!",
        ("options of a call are known when the flow is compiled",),
    ),
    "a field assigned": (
        "flight = book_flight(order)\nflight.seat = order  #!",
        ("a field cannot be assigned", "have a task return"),
    ),
    "a slice assigned": ("items[1:] = [order]  #!\nnotify(order)", ("a slice cannot be assigned", "make a new list")),
    "a part of a call assigned": ("list_rooms(order)[0] = 1  #!", ("where a name has the value", "give it a name before")),
    "a change within an expression": ("notify(items.pop())  #!", ("pop", "statement of its own")),
    "a change with a name": ("items.insert(0, object=order)  #!\nnotify(order)", ("write out each argument",)),
    "a part that another name has": (
        "kept = {'a': items}\nkept['a'][0] = notify(order)  #!",
        ("'kept' may be a list or dict that 'items' has too", "copy it"),
    ),
    "what is returned": (
        "try:\n    notify(order)\n    return items\nfinally:\n    items.append(order)  #!",
        ("'items' may be what is returned", "return a copy"),
    ),
    "a list that the rounds share": (
        "rows = []\nrow: list[str] = []\nfor item in items:\n    row.append(item)  #!\n    rows.append(row)\nnotify(str(rows))",
        ("'row' may be a list or dict that 'rows' has too", "copy it"),
    ),
    "a shared list": (
        "one = list_rooms(order)\nother = one\nother += list_rooms(order)  #!\nnotify(str(one))",
        ("'other' may be a list or dict that 'one' has too", "list(other)"),
    ),
    "a list of all rounds that another name has": (
        "kept = items\nwhile number > 0:\n    number -= 1\n    items.append(notify(order))  #!\nnotify(str([items, kept]))",
        ("'items' may be a list or dict that 'kept' has too", "list(items)"),
    ),
    "a list of all rounds that another value holds": (
        "kept = [items]\nfor number in range(number):\n    items.extend([notify(order)])  #!\nnotify(str([items, kept]))",
        ("'items' may be a list or dict that 'kept' has too", "list(items)"),
    ),
    "a list that grows": (
        "found = ['a']\nfor item in found:\n    found.append(notify(item))  #!",
        ("'found' would change while the loop goes over it", "list(found)"),
    ),
    "an endless loop": ("while True:  #!\n    notify(order)", ("never ends", "`break` or `return`")),
    "a list that grows without end": (
        "seen = ['a']\nwhile True:\n    found = notify(order)\n    if found in seen:\n        break\n    seen.append(found)  #!\n"
        "notify(order)",
        ("'seen' grows in each round", "256 KB", "`for _ in range(1000):`"),
    ),
    "a text that grows without end": (
        "text = ''\nwhile notify(text) != 'end':\n    text = text + 'x'  #!\nnotify(order)",
        ("'text' grows in each round", "limit the rounds"),
    ),
    "a list written again that grows without end": (
        "seen = ['a']\nwhile notify(seen[-1]) != 'end':\n    seen = [*seen, order]  #!\nnotify(order)",
        ("'seen' grows in each round",),
    ),
    "a dict that grows without end": (
        "seen: dict[str, int] = {}\nwhile True:\n    key = notify(order)\n    if key in seen:\n        break\n"
        "    seen[key] = 1  #!\nnotify(order)",
        ("'seen' grows in each round",),
    ),
    "a module's function": (
        "x = math.sqrt(quote(1))  #!\nnotify(str(x))",
        ("`math.sqrt`", "in a function of yours, and decorate it with @task"),
    ),
    "a module's function of text": (
        "notify(json.dumps(items))  #!",
        ("`json.dumps`", "in a function of yours, and decorate it with @task"),
    ),
    "a function that calls a task": ("tells(order)  #!", ("`tells` would be called", "decorate it with @flow")),
    "map": ("found = list(map(notify, items))  #!\nnotify(order)", ("`map`", "[task(x) for x in values]")),
    "filter": ("found = list(filter(None, items))  #!\nnotify(order)", ("`filter`", "[x for x in values if ...]")),
    "isinstance": ("if isinstance(quote(1), int):  #!\n    notify(order)", ("`isinstance`", "what it returns")),
    "divmod": ("x = divmod(quote(1), 2)  #!\nnotify(str(x))", ("`divmod`", "`//` and `%`")),
    "next": ("notify(next(iter(items)))  #!", ("`next`", "`for`")),
    "a dict of tasks": ("{'a': notify}['a'](order)  #!\nnotify(order)", ("is called", "by its name")),
    "a dict of the module changed": ("RATES['usd'] = 1.0  #!\nnotify(order)", ("'RATES' stands around the flow", "in a @task")),
    "a dict of the module updated": ("RATES.update(usd=1.0)  #!\nnotify(order)", ("'RATES' stands around the flow", "in a @task")),
    "a method of a record": (
        "flight = book_flight(order)\nflight.update(order)  #!\nnotify(order)",
        ("`flight.update` is a method of a record", "returns the record"),
    ),
    "a property of a record": ("notify(book_flight(order).__doc__)  #!", ("Flight has no field '__doc__'", "in a @task")),
    "an attribute of a dict": ("notify(rates_of(order).usd)  #!", ("a value of the type dict has no attribute 'usd'", "['usd']")),
    "a task that is not called": ("notify(order)\nreturn notify  #!", ("'notify' is not called", "`notify(...)`")),
    "a change of what has no name": (
        "list_rooms(order).append(notify(order))  #!",
        ("`append` changes a value that has no name", "assign it to one"),
    ),
    "parallel of a list of calls": ("parallel(*[notify(item) for item in items])  #!", ("all at once", "[task(x) for x in xs]")),
    "a wrong length of time": ("wait('3 dayz')  #!\nnotify(order)", ("'3 dayz' is not a length of time", "'5m'")),
    "a set of calls": ("found = {notify(item) for item in items}  #!", ("made in a list", "[...]")),
    "a generator of calls": ("found = sum(quote(1) for item in items)  #!", ("made in a list", "[...]")),
    "two loops of calls": ("found = [notify(a) for a in items for b in items]  #!", ("one `for`",)),
    "more than a call of each": ("found = [notify(item) + '!' for item in items]  #!", ("one call", "write a flow")),
    "parallel of a value": ("parallel(notify(order), order)  #!", ("takes calls of tasks and flows",)),
    "a value called": ("order(1)  #!\nnotify(order)", ("'order' is a value of a step, which cannot be called",)),
    "what is not annotated": (
        "x = unannotated(number)\nnotify(str(x + 1))  #!",
        ("unannotated does not say what it returns", "-> int:"),
    ),
    "a map or nothing": (
        "x = maybe(number)\nif x is None:  #!\n    notify(order)",
        ("is a map or None", "return a record or None"),
    ),
    "a case with a part": ("match order:\n    case [a, b]:  #!\n        notify(a)", ("a case of a flow is a value", "`1 | 2`")),
    "a starred name": ("a, *b = items  #!\nnotify(a)", ("starred name", "values[1:]")),
    "too few names": ("a, b = 1, 2, 3  #!\nnotify(order)", ("2 names are assigned 3 values",)),
    "now of a later value": ("notify(now(order))  #!", ("'order' is known when the flow runs",)),
    "now that raises": ("notify(str(now(1 / 0)))  #!", ("ZeroDivisionError",)),
    "no JSON": ("kept = {1: object}\nif number:\n    kept = {2: order}\nnotify(str(kept))  #!", ("no JSON", "read it in each")),
}


@pytest.mark.parametrize(("body", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_flow(body: str, words: tuple[str, ...]) -> None:
    """The error names the line, shows it with a caret, and says cause and remedy."""
    before = list(sent)
    line = next((number for number, text in enumerate(body.splitlines(), 2) if "#!" in text), None)
    with pytest.raises(BuildError) as raised:
        flow(function_of(body)).definition  # noqa: B018
    text = str(raised.value)
    assert [word for word in words if word not in text] == [], text
    assert line is None or f"line {line}\n" in text, text
    assert "^" in text.splitlines()[-1]
    assert sent == before


def test_a_file_that_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow is not compiled from a text that is not what the program runs."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "changing.py"
    text = (
        "from conductorlite import flow\nfrom trips import notify\n@flow\ndef wrong(order: str) -> str:\n    return notify(order)\n"
    )
    file.write_text(text, encoding="utf-8")
    import changing  # type: ignore[import-not-found]

    file.write_text(text.replace("notify(order)", "notify(order + '!')"), encoding="utf-8")
    linecache.checkcache(str(file))
    with pytest.raises(BuildError, match="changed since import"):
        changing.wrong.definition  # noqa: B018


def test_no_source() -> None:
    """Control flow cannot be read where there is no text; calls alone mean the same without."""
    names = dict(NAMES)
    exec("def wrong(order: str) -> str:\n    if order:\n        notify(order)\n    return order", names)
    with pytest.raises(BuildError, match="has no source here") as raised:
        flow(names["wrong"]).definition  # noqa: B018
    assert "by_calls=True" in str(raised.value)
    exec("def wrong(order: str) -> str:\n    return notify(order)", names)
    assert [one.name for one in flow(names["wrong"]).definition.tasks] == ["notify"]


def test_now_is_computed_once() -> None:
    """What is meant to be computed when the flow is compiled is, with what it then has."""
    made = flow(function_of("rates = now(load_rates())\nreturn notify(f\"{rates['eur'] * number}\")"))
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, order="", number=3, items=[])
        engine.run_until_idle()
        assert run.result() == "3.0"


@task
def found(number: int) -> Flight | None:
    """A flight, or none."""
    return Flight(seat="1A", airport="FCO") if number else None


@flow
def looked_up(number: int) -> str:
    """None is None, although Conductor has an empty map for it."""
    flight = found(number)
    if flight is None:
        return "none"
    return flight.seat


@pytest.mark.parametrize(("number", "seat"), [(0, "none"), (1, "1A")])
def test_a_record_or_none(number: int, seat: str) -> None:
    """What a task without a result puts out is read as None."""
    with Engine(workers=[looked_up], clock=VirtualClock(0)) as engine:
        run = engine.start(looked_up, number=number)
        engine.run_until_idle()
        assert run.result() == seat
