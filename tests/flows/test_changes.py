"""What a flow changes of lists and dicts: as in Python, and refused where another name has the same one."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, flow, task

from programs import Program, as_flow, as_python, compiled  # isort: skip

GIVEN: dict[str, Any] = {"a": 2, "b": 3, "s": "q", "xs": [3, 1, 2], "d": {"k": 1}}

BODIES = {
    "entries": "d['b'] = 2\nd['k'] = plus(3)\nxs[0] = 5\nxs[-1] += plus(2)\nreturn [d, xs]",
    "entries of entries": "m = {'n': {'k': 1}}\nm['n']['z'] = plus(a)\nm['n']['k'] += 1\nreturn m",
    "in a loop": "n: dict[str, int] = {}\nfor x in xs:\n    n[str(x)] = plus(x)\n    n['all'] = len(n)\nreturn n",
    "counting": "n: dict[str, int] = {}\nfor x in said(s + s):\n    n[x] = n.get(x, 0) + 1\nreturn n",
    "a queue": "e = []\nwhile xs:\n    x = xs.pop(0)\n    if x == 3:\n        xs.append(7)\n    e.append(plus(x))\nreturn e",
    "methods": "xs.insert(1, plus(4))\nxs.sort()\nxs.reverse()\nxs.remove(1)\nys = xs.copy()\nys.clear()\nreturn [xs, ys]",
    "sorted by a key": "xs.sort(key=lambda x: -x)\nplus(1)\nreturn xs",
    "of dicts": "d.update({'z': plus(1)})\nv = d.setdefault('n', 5)\nw = d.pop('k')\nu = d.pop('k', 8)\nreturn [d, u, v, w]",
    "deleted": "del d['k'], xs[0]\nplus(1)\nreturn [d, xs]",
    "more of a tuple": "xs += (plus(1), 2)\nreturn xs",
    "more of a text": "xs.extend(said(s))\nreturn xs",
    "what is popped is returned": "plus(1)\nreturn xs.pop()",
    "beyond the end": "xs[3] = plus(1)\nreturn xs",
    "no such key": "plus(1)\ndel d['z']\nreturn d",
    "no such key to add to": "d['z'] += plus(1)\nreturn d",
    "nothing to pop": "xs.clear()\nplus(1)\nreturn xs.pop()",
    "handled": (
        "try:\n    d['z'] = 1\n    xs[9] = plus(1)\nexcept IndexError as e:\n    d['e'] = 2\n    s = str(e)\nreturn [d, xs, s]"
    ),
    "a copy": "ys = list(xs)\nys.append(plus(1))\nzs = [*ys]\nzs.pop()\nreturn [xs, ys, zs]",
    "a list made anew in each round": (
        "rows = []\nfor x in xs:\n    row: list[int] = []\n    row.append(x)\n    rows.append(row)\nplus(1)\nreturn rows"
    ),
    "in a branch": "if a > plus(0):\n    xs.append(9)\nelse:\n    d['e'] = 1\nreturn [xs, d]",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_change(body: str) -> None:
    """The same value, or exception, as in Python."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    made = Program(f"def program(a: int, b: int, s: str, xs: list[int], d: dict[str, int]) -> Anything:\n{lines}", GIVEN)
    flow = compiled(made)
    assert as_flow(made, flow) == as_python(made)


@task
def paragraph(number: int) -> str:
    """A long text."""
    return f"{number}" * 4_000


@flow
def book(size: int) -> list[int]:
    """Appends to a list, which is more than the variables of an execution may be."""
    texts: list[str] = []
    for number in range(10, size):
        if number % 7:
            texts.append(paragraph(number))
    return [len(texts), len(texts[-1])]


def test_a_list_to_which_a_loop_only_appends() -> None:
    """It is what the rounds put out: no round copies it, and it may be long."""
    with Engine(workers=[book], clock=VirtualClock(0)) as engine:
        run = engine.start(book, size=70)
        engine.run_until_idle()
        assert run.result() == [52, 8_000]
        assert run.workflow.variables.value == {}


BODIES_OF_LOOPS = {
    "in a branch": "for x in xs:\n    if x == 3:\n        continue\n    e.append(plus(x))\n    if x > 1:\n        break",
    "in a while": "while a < 6:\n    a += 1\n    if a % 2:\n        e.append(a)\n    else:\n        e.extend([a, b])",
    "with something before": "e.append(7)\nfor x in xs:\n    e.append(x)\ne.append(len(e))\nfor x in listed(2):\n    e.append(x)",
    "in a loop in a loop": "for x in listed(3):\n    for y in listed(x + 1):\n        e.append(plus(y))",
    "in a try": "try:\n    for x in xs:\n        e.append(picky(x + 1))\nexcept ValueError:\n    e.append(99)",
    "and read in it": "for x in xs:\n    e.append(plus(x))\n    a = len(e)\ne.append(a)",
    "and read in its else": "for x in xs:\n    e.append(plus(x))\nelse:\n    e.append(len(e))",
    "and returned in it": "for x in listed(3):\n    e.append(plus(x))\n    if x == 1:\n        return e",
}


@pytest.mark.parametrize("body", BODIES_OF_LOOPS.values(), ids=BODIES_OF_LOOPS)
def test_appended_in_a_loop(body: str) -> None:
    """The same list as in Python."""
    lines = "".join(f"    {line}\n" for line in ["e: list[int] = []", *body.splitlines(), "return e"])
    made = Program(f"def program(a: int, b: int, s: str, xs: list[int], d: dict[str, int]) -> Anything:\n{lines}", GIVEN)
    flow = compiled(made)
    assert as_flow(made, flow) == as_python(made)
