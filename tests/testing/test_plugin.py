"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import pytest

# A run of pytest in this process forgets the modules that it was the first to import, but not what others keep of them.
import conductorlite.runtime.engine
import conductorlite.testing.faults
import conductorlite.testing.scripted
import conductorlite.testing.steps  # noqa: F401

pytest_plugins = ["pytester"]

HEAD = """
import pytest
from conductorlite import EngineConfig, Engine, WorkflowDef, WorkflowTask
from conductorlite.testing import FaultyBackend

ONE = WorkflowDef(name="one", tasks=[WorkflowTask(name="charge", task_reference_name="charge")])
"""


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """The result of running these tests."""
    pytester.makepyfile(HEAD + tests)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


def test_nothing_to_configure(pytester: pytest.Pytester) -> None:
    """The fixtures are there, in memory and on SQLite, on one virtual clock, with counted ids."""
    result = run(
        pytester,
        """
def test_it(engine, workers, clock):
    workers.charge.takes("90s").returns({"id": 1})
    before = clock.now()
    run = engine.start(ONE)
    assert run.workflow_id == "wf-1"
    assert run.result() == {"id": 1}
    assert clock.now() - before == 90_000
    assert engine.start(ONE).workflow_id == "wf-2"
""",
        "-v",
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_it?memory?*", "*test_it?sqlite?*"])


def test_ids_go_on_when_the_store_is_reopened(pytester: pytest.Pytester) -> None:
    """A second engine on the store finds what the first one stored, and counts on, gaps or not."""
    result = run(
        pytester,
        """
@pytest.mark.parametrize("engine_store", ["memory", "relay", "sqlite"], indirect=True)
def test_it(make_engine):
    with make_engine() as first:
        assert [first.start(ONE).workflow_id for _ in range(11)][-1] == "wf-11"
        first.start(ONE, workflow_id="mine")
    second = make_engine(config=EngineConfig(seed="another"))
    assert len(list(second.admin.workflow_ids())) == 12
    assert second.start(ONE).workflow_id == "wf-12"
    second.start(ONE, workflow_id="wf-13")
    assert second.start(ONE).workflow_id == "wf-14"
""",
    )
    result.assert_outcomes(passed=3)


def test_one_store_can_be_chosen(pytester: pytest.Pytester) -> None:
    """By a mark on the test, or by a fixture of one's own."""
    result = run(
        pytester,
        """
@pytest.mark.parametrize("engine_store", ["sqlite"], indirect=True)
def test_marked(engine, tmp_path):
    assert [path.name for path in tmp_path.glob("*.db")] == ["store.db"]

class TestOwn:
    @pytest.fixture
    def engine_store(self):
        return "memory"

    def test_it(self, engine, engine_store):
        assert engine_store == "memory"
""",
    )
    result.assert_outcomes(passed=2)


def test_a_broken_law_fails_the_test(pytester: pytest.Pytester) -> None:
    """A passed test whose store breaks a law has failed, and says which law."""
    result = run(
        pytester,
        """
def test_it(engine):
    engine.start(ONE)
    with engine.backend.writing() as tx:
        tx.queue.discard(tx.queue.messages(1))
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*laws of the engine do not hold*", "*wf-1: open_tasks_are_reachable: charge is SCHEDULED*"])


def test_a_failure_shows_timelines(pytester: pytest.Pytester) -> None:
    """A failed test's report holds the history of its executions; a passed one's does not."""
    result = run(
        pytester,
        """
@pytest.fixture
def engine_store():
    return "memory"

def test_fails(engine, workers):
    workers.charge.fails(1, reason="503").then.returns()
    engine.start(ONE).result()
    assert 1 == 2

def test_passes(engine):
    engine.start(ONE)
""",
        "-rA",
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*conductorlite timeline*", "wf-1", "+0s *workflow RUNNING", "+0s *charge #1 FAILED: 503"])
    assert str(result.stdout).count("conductorlite timeline") == 1


def test_closed_engines_are_left_alone(pytester: pytest.Pytester) -> None:
    """An engine that the test closed is neither checked nor shown."""
    result = run(
        pytester,
        """
def test_it(engine):
    engine.start(ONE)
    engine.close()
    assert 1 == 2
""",
    )
    result.assert_outcomes(failed=2)
    assert "timeline" not in str(result.stdout)


def test_a_test_that_is_over_holds_nothing(pytester: pytest.Pytester) -> None:
    """pytest keeps tests to the end of the run; their engines, and what these have stored, go at once."""
    result = run(
        pytester,
        """
import gc, weakref
seen = []

@pytest.mark.parametrize("engine_store", ["memory"], indirect=True)
def test_one(engine, make_engine, conductor_server):
    seen.extend(weakref.ref(one) for one in (engine, engine.backend, make_engine(), conductor_server.engine))

def test_another():
    gc.collect()
    assert [ref() for ref in seen] == [None] * 4
""",
    )
    result.assert_outcomes(passed=2)


def test_what_a_test_stored_in_memory_goes_with_it(pytester: pytest.Pytester) -> None:
    """It is not left to the garbage collector, which would look at all of it first. A fixture that ends before may read it."""
    result = run(
        pytester,
        """
import gc
from conductorlite.errors import EngineClosed
from conductorlite.model.executions import Workflow
gc.disable()

def rows():
    return [row for row in gc.get_objects() if isinstance(row, Workflow) and row.name == ONE.name]

BEFORE = rows()  # of other tests in this process, held

def stored():
    return len(rows()) - len(BEFORE)

@pytest.fixture
def late(make_engine):
    yield
    assert len(make_engine().get("wf-1").tasks) == 1

@pytest.mark.parametrize("engine_store", ["memory", "relay"], indirect=True)
def test_one(engine, late):
    assert not stored()
    engine.start(ONE)
    assert stored()

def test_another():
    assert not stored()
    gc.enable()
""",
    )
    result.assert_outcomes(passed=3)


def test_nobody_is_surprised(pytester: pytest.Pytester) -> None:
    """Fixtures of the same names win over the plugin's, and tests without them are untouched."""
    result = run(
        pytester,
        """
@pytest.fixture
def engine():
    return "a database"

@pytest.fixture
def clock():
    return "on the wall"

def test_theirs(engine, clock):
    assert (engine, clock) == ("a database", "on the wall")

def test_none():
    assert 1 == 2
""",
    )
    result.assert_outcomes(passed=1, failed=1)
    assert "timeline" not in str(result.stdout)


def test_a_run_that_uses_nothing_of_it_imports_nothing(pytester: pytest.Pytester) -> None:
    """The plugin is loaded wherever the package is installed: it must cost those who test something else nothing."""
    pytester.makepyfile(
        """
        import pytest

        def test_something(): pass

        def test_wrong(): assert not 1
        """
    )
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("loaded:", *sorted(one for one in sys.modules if one.startswith("conductorlite")))
        """
    )
    # Hypothesis' own plugin loads what is registered with it, ours too.
    run = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-s")
    run.assert_outcomes(passed=1, failed=1)
    run.stdout.fnmatch_lines(["loaded: conductorlite conductorlite.testing conductorlite.testing.plugin"])


@pytest.mark.parametrize("how", ["--workflow-replay", "-oworkflow_replay=true"])
def test_executions_are_replayed_after_each_test(pytester: pytest.Pytester, how: str) -> None:
    """An execution whose history is not what its decider makes of it fails its test, and only if it was asked for."""
    tests = """
@pytest.mark.parametrize("engine_store", ["memory"], indirect=True)
def test_it(engine, workers):
    workers.charge.fails(1).then.returns({"id": 1})
    engine.start(ONE)
    assert engine.start(ONE, {"odd": True}).result() == {"id": 1}

@pytest.mark.parametrize("engine_store", ["memory"], indirect=True)
def test_altered(engine, workers, monkeypatch):
    workers.charge.returns({"id": 1})
    run = engine.start(ONE)
    run.result()
    export = engine.admin.export
    def altered(workflow_id):
        return eval(repr(export(workflow_id)).replace("'id': 1", "'id': 2", 1))
    monkeypatch.setattr(engine.admin, "export", altered)
"""
    run(pytester, tests).assert_outcomes(passed=2)
    result = run(pytester, tests, how)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*wf-1 is decided differently when it is replayed*"])
