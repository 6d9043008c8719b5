"""Scripts, paths and data meant to do harm: each ends in an error of ours or the right answer, within processor time and memory.

What is asked of which built-in function stands in `hostile_scripts.py` and `hostile_data.py`. The fast form gives a few scripts a
tenth of a second and looks at what is said; the deep one gives all of them what users' scripts have, and counts the processor time
and the memory of this process and of the helpers it started, in a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hostile_data import DATA
from hostile_scripts import RIGHT, SCRIPTS

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.language import processes
from conductorlite.language.conditions import Condition
from conductorlite.language.javascript import JavaScript
from conductorlite.language.jq import compile_jq
from conductorlite.language.processes import Limits
from conductorlite.language.python import PythonLimits, compile_python

HERE = Path(__file__).parent
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the peak is told in other units, and memory is not bounded")
SOME = [(kind, text) for kind, texts in SCRIPTS.items() for text in texts[:: len(texts) // 3] if text not in RIGHT]

_RUN = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from conductorlite.errors import ExpressionFailed, InvalidExpression, InvalidInput
from conductorlite.language.templates import compile_template
from conductorlite.language.conditions import compile_condition
from conductorlite.language.jq import compile_jq
from conductorlite.language.regexes import bounded_pattern
from conductorlite.language.values import MappingSource
from conductorlite.language import processes
from hostile_data import DOCUMENTS
kind, text, given = json.loads(sys.stdin.read())
values = eval(DOCUMENTS.get(given, given))
def used():
    taken = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in taken), max(each.ru_maxrss for each in taken) / 1024
before, _ = used()
try:
    if kind in ("path", "template"):
        answer = compile_template("${" + text + "}" if kind == "path" else text).render(MappingSource(whole=values))
    elif kind == "pattern":
        answer = bounded_pattern(text).search(values)
    else:
        answer = (compile_jq(text) if kind == "jq" else compile_condition(text, kind)).evaluate(values)
    said = None
except (ExpressionFailed, InvalidExpression, InvalidInput) as error:
    said = ["error", f"{type(error).__name__}: {error}"]
processes._end_all()
if kind == "python":
    from conductorlite.language import python as monty
    monty._pools.close()
after, megabytes = used()
if said is None:  # looked at when all is measured: to print it may cost more than to find it
    said = ["answer", answer if len(str(answer)) < 200 else None]
print(json.dumps([said, after - before, megabytes]))
"""


def _compiled(kind: str, text: str, seconds: float = 0.1) -> Condition:
    if kind == "python":
        return compile_python(text, PythonLimits(seconds=seconds))
    limits = Limits(seconds=seconds)
    return compile_jq(text, limits) if kind == "jq" else JavaScript(limits=limits).compile(text)


def _installed(kind: str) -> bool:
    return importlib.util.find_spec({"python": "pydantic_monty", "jq": "jq"}.get(kind, "json")) is not None


def _cost(kind: str, text: str, values: str = "{}") -> Any:
    if not _installed(kind):
        pytest.skip(f"needs the extra {kind}")
    command, given = [sys.executable, "-c", _RUN, str(HERE)], json.dumps([kind, text, values])
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=120)
    (what, said), seconds, megabytes = json.loads(done.stdout)
    assert seconds < 2.0, (said, seconds)
    assert megabytes < 256, (said, megabytes)
    return what, said


def test_there_are_sixty_of_each() -> None:
    """Scripts and data sets, none twice."""
    for table in (SCRIPTS, DATA):
        for kind, rows in table.items():
            assert len(set(rows)) == len(rows) >= 60, kind
    assert all(any(text in texts for texts in SCRIPTS.values()) for text in RIGHT)


@pytest.mark.parametrize(("kind", "text"), SOME, ids=lambda value: value[:40])
def test_hostile_scripts_end_in_an_error(kind: str, text: str) -> None:
    """A named error, and the next script runs."""
    if not _installed(kind):
        pytest.skip(f"needs the extra {kind}")
    with pytest.raises((ExpressionFailed, InvalidExpression)):
        _compiled(kind, text).evaluate({})
    assert JavaScript().compile("/a/.test('a')").evaluate({}) is True


@pytest.mark.parametrize(
    ("kind", "text"), [("javascript", "for (;;);"), ("jq", "repeat(1) | empty"), ("python", "while True: pass")]
)
def test_an_unrelated_execution_goes_on(kind: str, text: str) -> None:
    """While a script without an end is in its helper, another execution evaluates scripts of every language and completes."""
    if not _installed(kind):
        pytest.skip(f"needs the extra {kind}")
    seconds = 0.4 if kind == "python" else 600.0  # no test can end Monty's workers before their time
    errors: list[Exception] = []

    def run() -> None:
        try:
            _compiled(kind, text, seconds).evaluate({"kind": kind})
        except ExpressionFailed as error:
            errors.append(error)

    started: list[Any] = []
    start = processes._start

    def starts(*given: Any) -> Any:
        started.append(start(*given))
        return started[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_start", starts)
        endless = threading.Thread(target=run)
        endless.start()
        tasks = [
            WorkflowTask(
                name=each,
                task_reference_name=each,
                type="INLINE",
                input_parameters={"evaluatorType": each, "expression": script},
            )
            for each, script in [("javascript", "new Date().getTime()"), ("python", "1 + 1")]
            if _installed(each)
        ]
        with Engine(clock=VirtualClock()) as engine:
            begun = engine.start(WorkflowDef(name="unrelated", tasks=tasks))
            engine.run_until_idle()
            assert engine.get(begun.workflow_id).status == "COMPLETED"
        assert endless.is_alive() or kind == "python"
        while endless.is_alive():
            for helper in started:
                helper.process.kill()
            endless.join(0.1)
    assert len(errors) == 1


@pytest.mark.deep
@LINUX
@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind in SCRIPTS for text in SCRIPTS[kind]], ids=lambda value: value[:40]
)
def test_what_hostile_scripts_cost(kind: str, text: str) -> None:
    """At most two seconds of processor time and 256 MB, all processes together; an error, or the right answer."""
    what, said = _cost(kind, text)
    assert (what == "error") is (text not in RIGHT), said
    assert what == "error" or said == RIGHT[text]


@pytest.mark.deep
@LINUX
@pytest.mark.parametrize(
    ("kind", "text", "values"), [(kind, *row) for kind, rows in DATA.items() for row in rows], ids=lambda value: value[:40]
)
def test_what_hostile_data_cost(kind: str, text: str, values: str) -> None:
    """An answer or a named error, within two seconds of processor time and 256 MB."""
    _cost(kind, text, values)
