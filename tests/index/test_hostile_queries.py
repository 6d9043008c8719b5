"""Searches and documents that mean harm: each search ends with the right answer or a named error, within time and memory.

What is asked and of what stands in `hostile_queries.py`. The right answer is that of the other way to find it: with an index, and
without one. The fast form asks everything of small documents; the slow one asks of the hostile ones, in processes of their own,
which count the processor's time of each search and the memory of them all.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_queries import DOCUMENTS, SEARCHES

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import InvalidInput, InvalidQuery
from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Workflow
from conductorlite.store.documents import WORKFLOWS, Document, words_of, workflow_document
from conductorlite.store.search import answer, asked
from conductorlite.testing import MemoryIndex

HERE = Path(__file__).parent
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read in /proc")
WAITING = WorkflowDef(name="waiting", tasks=[WorkflowTask(name="w", task_reference_name="w", type="WAIT")])

_RUN = """
import json, sys, time
from pathlib import Path
from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import InvalidInput, InvalidQuery
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import MemoryIndex
sys.path.insert(0, sys.argv[1])
from hostile_queries import DOCUMENTS, SEARCHES
folder, indexed, every = sys.argv[2], sys.argv[3] == "index", int(sys.argv[4])
waiting = WorkflowDef(name="waiting", tasks=[WorkflowTask(name="w", task_reference_name="w", type="WAIT")])
unrelated = WorkflowDef(name="unrelated", tasks=[WorkflowTask(name="s", task_reference_name="s", type="NOOP")])
found = {}
index = MemoryIndex() if indexed and not folder else None
with Engine(SQLiteBackend(Path(folder, "store.db")) if folder else None, clock=VirtualClock(), index=index) as engine:
    if not indexed:
        engine.core.searching._own_found = lambda ask, look: look()
    for name, document in DOCUMENTS.items():
        began = time.process_time()
        engine.start(waiting, document(), correlation_id=name)
        engine.run_until_idle()
        engine.admin.relay()
        found[f"document: {name}"] = ["kept", time.process_time() - began]
    for name, search in list(SEARCHES.items())[::every]:
        for verb in (engine.search, engine.tasks.search, engine.tasks.search_workflows):
            began = time.process_time()
            try:
                result = verb(**search)
                said = [result.total_hits, sorted(str(one.correlation_id) for one in result.results)]
            except (InvalidQuery, InvalidInput) as error:
                said = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode()
            took = time.process_time() - began
            health = engine.admin.index_health()
            if indexed and (not health.complete or health.error):
                said = f"the index is not well: {health}"
            found[f"{verb.__qualname__}: {name}"] = [said, took]
        run = engine.start(unrelated)
        engine.run_until_idle()
        if engine.get(run.workflow_id).status != "COMPLETED":
            found[f"unrelated after {name}"] = ["stuck", 1000.0]
        engine.admin.remove(run.workflow_id)
# Not ru_maxrss: a process that was begun by a larger one tells what that one had.
peak = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
print(json.dumps([found, peak / 1024]))
"""


def told(folder: Path | str, indexed: bool, every: int) -> dict[str, Any]:
    """What each search answers, having judged what it took."""
    command = [sys.executable, "-c", _RUN, str(HERE), str(folder), "index" if indexed else "", str(every)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2_000:]
    found, megabytes = json.loads(done.stdout)
    for name, (said, seconds) in found.items():
        assert seconds < 2.0, (name, said, seconds)
    assert megabytes < 256
    return {name: said for name, (said, _) in found.items()}


@LINUX
@pytest.mark.parametrize("every", [pytest.param(16, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_what_hostile_searches_cost(store: str, every: int, tmp_path: Path) -> None:
    """At most two seconds of processor time each and 256 MB in all; the same answer or error with an index and without."""
    folders = [tmp_path / "with", tmp_path / "without"]
    for folder in folders:
        folder.mkdir()
    indexed = told(folders[0] if store == "sqlite" else "", True, every)
    looked = told(folders[1] if store == "sqlite" else "", False, every)
    assert indexed == looked


def test_there_are_sixty() -> None:
    """Searches, and documents of many kinds."""
    assert len(SEARCHES) >= 60
    assert len(DOCUMENTS) >= 15


def test_a_named_error_or_an_answer(tmp_path: Path) -> None:
    """Nothing else comes of a hostile search, and the index stays well; the slow form asks them all."""
    answers = refusals = 0
    with Engine(tmp_path / "s.db", clock=VirtualClock()) as engine:
        engine.start(WAITING, {"l": ["a", 1, {"l": [2]}], "s": "b", "n": 7}, workflow_id="one")
        for search in list(SEARCHES.values())[::4]:
            try:
                answers += engine.search(**search).total_hits < 2
            except (InvalidQuery, InvalidInput):
                refusals += 1
        health = engine.admin.index_health()
        assert health is not None
        assert (health.complete, health.error) == (True, None)
    assert min(answers, refusals) >= 10


@pytest.mark.parametrize(
    "bad", [{"start": 1.5}, {"size": "1"}, {"query": None}, {"free_text": b"a"}, {"sort": 1}, {"start": 10**5_000}]
)
def test_what_is_no_text_or_number_is_refused(bad: dict[str, Any]) -> None:
    """A start that is no whole number had an external index set aside as damaged."""
    with Engine(clock=VirtualClock(), index=MemoryIndex()) as engine:
        for verb in (engine.search, engine.tasks.search, engine.tasks.search_workflows):
            with pytest.raises(InvalidInput):
                verb(**bad)
        health = engine.admin.index_health()
        assert health is not None
        assert health.error is None


def _document(number: int, **given: Any) -> Document:
    payload = Payload.of(given)
    return workflow_document(Workflow(workflow_id=f"w{number:05}", name="w", version=1, definition_hash="", input=payload))


def test_a_long_name_is_not_repeated_for_each_value_below_it() -> None:
    """Paths of more than 1,024 characters are not looked into: 120 KB of input made 60 MB of paths."""
    for name in ("a long name", "long names"):
        document = _document(1, **DOCUMENTS[name]())
        assert sum(len(path) for path, _ in document.values) < 300_000
    kept = _document(1, **{"k" * 1_000: {"a": 1, "b" * 30: 1}, "k" * 1_100: 1})
    assert [path for path, _ in kept.values] == [f"input.{'k' * 1_000}", f"input.{'k' * 1_000}.a"]


def test_a_search_keeps_no_more_than_its_page() -> None:
    """Whatever answers: without an index, memory does not grow with the store."""

    def documents() -> Iterator[Document]:
        for number in range(3_000):
            name, words = f"w{number:05}", "x" * 20_000
            yield Document(workflow_id=name, fields={"workflowId": name}, values=(), words=words, input=None, output=None)

    wanted = asked(WORKFLOWS, "", "*", 2, 10, "workflowId:DESC")
    tracemalloc.start()
    total, page = answer(documents(), wanted)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (total, [one.workflow_id for one in page]) == (3_000, [f"w{number:05}" for number in range(2_997, 2_987, -1)])
    assert peak < 30 * 1024 * 1024


def test_accents_are_not_sorted() -> None:
    """A text of accents alone took time that grew with the square of its length."""
    began = time.process_time()
    assert words_of("a" + "\u0301\u0327" * 60_000 + "B É") == ["ab", "e"]
    assert words_of("東" * 80_000, 3) == ["z6771z"] * 3
    assert time.process_time() - began < 2


def test_an_unrelated_execution_goes_on() -> None:
    """While others search without an index, in threads of their own."""
    over = threading.Event()
    searched = threading.Semaphore(0)
    unrelated = WorkflowDef(name="unrelated", tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP")])
    with Engine(clock=VirtualClock()) as engine:
        for name in ("words", "texts"):
            engine.start(WAITING, DOCUMENTS[name]())

        def search() -> None:
            while not over.is_set():
                engine.search(**SEARCHES["a hundred patterns"])
                searched.release()

        searching = threading.Thread(target=search)
        searching.start()
        try:
            for _ in range(3):
                assert searched.acquire(timeout=60)
                run = engine.start(unrelated)
                engine.run_until_idle()
                assert engine.get(run.workflow_id).status == "COMPLETED"
        finally:
            over.set()
            searching.join()
