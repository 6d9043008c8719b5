"""Scripts meant to do harm: each ends in an error of ours, within processor time and memory, and the next script runs.

The fast form gives them a tenth of a second and looks at what is said; the deep one gives them what users' scripts have, and counts
the processor time and the memory of this process and of the helpers it started, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.expressions.conditions import Condition, compile_condition
from conductorlite.expressions.javascript import JavaScript
from conductorlite.expressions.python import compile_python
from conductorlite.sandbox import Limits
from conductorlite.sandbox.monty import PythonLimits

#: Language and text.
HOSTILE: list[tuple[str, str]] = [
    ("javascript", "while(1);"),
    ("javascript", "for(;;){try{throw 1}catch(e){}finally{continue}}"),
    ("javascript", "/^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(50))"),
    ("javascript", "/(?<=a*)b/.test('a'.repeat(1e5))"),
    ("javascript", "let a=[];while(1)a.push('x'.repeat(1000)+a.length)"),
    ("javascript", "let s='a';while(1)s+=s"),
    ("javascript", "new Array(1e9).fill(0)"),
    ("javascript", "let s=new Set();while(1)s.add(s.size)"),
    ("javascript", "var a=[];a.length=4294967295;a.reverse()"),
    ("javascript", "'a'.repeat(1e7).indexOf('a'.repeat(5e6)+'b')"),
    ("javascript", "(function f(){f();return new Date()})()"),
    ("javascript", "let a=[];a[0]=a;a"),
    ("javascript", "let a=[];for(let i=0;i<1e5;i++)a=[a];a"),
    ("javascript", "(1n<<1000000n).toString()"),
    ("javascript", "new RegExp('a|'.repeat(1e6)).test('x')"),
    ("javascript", "throw {get stack(){for(;;);}}"),
    ("javascript", "[" * 100_000),
    ("javascript", "BigInt('9'.repeat(1e6)) ** 99n"),
    ("javascript", "'x'.padEnd(2 ** 29).split('')"),
    ("javascript", "Array.from({length: 1e9})"),
    ("javascript", "JSON.stringify(Array(1e7).fill('x'.repeat(99)))"),
    ("python", "while True: pass"),
    ("python", "a = 'x'\nwhile True: a = a + a"),
    ("python", "a = [1]\nwhile True: a = [a, a]"),
    ("python", "9 ** 9 ** 9"),
    ("python", "'x' * 10 ** 9"),
    ("python", "list(range(10 ** 12))"),
    ("python", "f = lambda g: g(g)\nreturn f(f)"),
    ("python", "f'{1:>999999999}'"),
    ("python", "int('9' * 4000) ** 4000"),
    ("python", "sum(range(10 ** 10))"),
    ("python", "[1] * 10 ** 10"),
    ("python", "(" * 20_000),
    ("python", "().__class__.__bases__[0].__subclasses__()"),
]

#: Honest scripts, and data that make a built-in function work hard: language, text, how the values are made.
DATA: list[tuple[str, str, str]] = [
    ("javascript", "$.x.lastIndexOf($.p)", "{'x': 'a' * 800_000, 'p': 'ab' + 'a' * 200_000}"),
    ("javascript", "$.l.map(i => $.b)", "{'l': list(range(2000)), 'b': 'x' * 900_000}"),
    ("javascript", "$.s.replace(/(a+)+$/, '')", "{'s': 'a' * 40 + 'b'}"),
    ("javascript", "$.l.sort((a, b) => a - b).indexOf(-1)", "{'l': list(range(200_000, 0, -1))}"),
    ("python", "len(set(xs))", "{'xs': [i * (2**61 - 1) for i in range(60_000)]}"),
    ("python", "len({x: 1 for x in xs})", "{'xs': [i * (2**61 - 1) for i in range(60_000)]}"),
    ("python", "s.replace('a', s)", "{'s': 'a' * 20_000}"),
]

_RUN = """
import json, resource, sys
from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.expressions.conditions import compile_condition
from conductorlite.sandbox import processes
kind, text, given = json.loads(sys.stdin.read())
values = eval(given)
try:
    said = f"no error: {str(compile_condition(text, kind).evaluate(values))[:60]}"
except (ExpressionFailed, InvalidExpression) as error:
    said = f"{type(error).__name__}: {error}"
assert compile_condition("/a/.test('a')").evaluate({}) is True
processes._end_all()
if kind == "python":
    from conductorlite.sandbox import monty
    monty._pools.close()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([said, sum(each.ru_utime + each.ru_stime for each in used), max(each.ru_maxrss for each in used) / 1024]))
"""


def _python(text: str) -> Condition:
    return compile_python(text, PythonLimits(seconds=0.1))


def _cost(kind: str, text: str, values: str = "{}") -> Any:
    given = json.dumps([kind, text, values])
    done = subprocess.run([sys.executable, "-c", _RUN], input=given, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("kind", "text"), HOSTILE, ids=lambda value: value[:40])
def test_hostile_scripts_end_in_an_error(kind: str, text: str) -> None:
    """A named error, and the next script runs."""
    compiler = _python if kind == "python" else JavaScript(limits=Limits(seconds=0.1)).compile
    with pytest.raises((ExpressionFailed, InvalidExpression)):
        compiler(text).evaluate({})
    assert compile_condition("/a/.test('a')").evaluate({}) is True


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told in other units, and memory is not bounded")
@pytest.mark.parametrize(("kind", "text"), HOSTILE, ids=lambda value: value[:40])
def test_what_hostile_scripts_cost(kind: str, text: str) -> None:
    """At most two seconds of processor time and 256 MB, all processes together."""
    said, seconds, megabytes = _cost(kind, text)
    assert not said.startswith("no error"), said
    assert seconds < 2.0, (said, seconds)
    assert megabytes < 256, (said, megabytes)


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told in other units, and memory is not bounded")
@pytest.mark.parametrize(("kind", "text", "values"), DATA, ids=lambda value: value[:40])
def test_what_hostile_data_cost(kind: str, text: str, values: str) -> None:
    """The right answer or a named error, within two seconds of processor time and 256 MB."""
    said, seconds, megabytes = _cost(kind, text, values)
    assert seconds < 2.0, (said, seconds)
    assert megabytes < 256, (said, megabytes)
