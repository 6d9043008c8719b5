"""The pytest plugin: fixtures `clock`, `workers`, `engine`, `make_engine`, `engine_store` and `conductor_server`, with
nothing to configure.

    def test_retry(engine, workers):
        workers.charge.fails(2).then.returns({"id": 1})
        assert engine.start(ORDER).result() == {"id": 1}

A test that uses `engine` runs once in memory and once on SQLite; `@pytest.mark.parametrize("engine_store",
["memory"], indirect=True)`, or a fixture `engine_store` of your own that returns a name, chooses. When such a test
has passed, every law of `Engine.admin.check` is looked at, and one that does not hold fails it; when it has failed, the
report shows the timeline of each execution.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from conductorlite.model.clock import Clock, VirtualClock
    from conductorlite.runtime.engine import Engine
    from conductorlite.runtime.registry import Workers
    from conductorlite.testing.scripted import ScriptedWorkers
    from conductorlite.testing.server import ConductorServer
    from conductorlite.testing.snapshots import WorkflowSnapshot

# Everything else is imported by the fixtures: this module is loaded in every pytest run where the package is installed.

__all__: list[str] = []

_ENGINES: Final = pytest.StashKey[list["Engine"]]()

#: Options that belong to another one.
_NEEDS: Final = {
    **dict.fromkeys(("workflow_cov_html", "workflow_cov_append", "workflow_cov_fail_under"), "workflow_cov"),
    "workflow_mutate_fail_under": "workflow_mutate",
    "conductorlite_replay_with": "conductorlite_replay",
}

#: Executions whose timeline is shown when a test fails.
_SHOWN: Final = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """The kit's options; without them nothing of what they ask for is imported."""
    group = parser.getgroup("conductorlite", "workflows")
    group.addoption("--workflow-cov", action="store_true", help="report which parts of workflows the tests have come to")
    group.addoption("--workflow-cov-html", metavar="FILE", help="write it as a page, over the pictures of the definitions")
    group.addoption("--workflow-cov-append", action="store_true", help="add to what earlier runs have counted")
    group.addoption("--workflow-cov-fail-under", metavar="PERCENT", type=float, help="fail when less was come to")
    text = "run the tests again with mistakes in these workflows (names with commas between, or all): does one fail?"
    group.addoption("--workflow-mutate", metavar="NAMES", help=text)
    group.addoption("--workflow-mutate-fail-under", metavar="PERCENT", type=float, help="fail when fewer mistakes are noticed")
    text = "after each test, decide its executions again from their histories, and fail the test where one differs"
    group.addoption("--workflow-replay", action="store_true", help=text)
    parser.addini("workflow_replay", type="bool", default=False, help=text)
    group.addoption("--workflow-snapshot-update", action="store_true", help="write the files of `workflow_snapshot`")
    text = "live the exported executions in this folder again, one test each"
    group.addoption("--conductorlite-replay", metavar="FOLDER", help=text)
    text = "a flow, a definition or workers of today, to replay against"
    group.addoption("--conductorlite-replay-with", metavar="MODULE:ATTR", action="append", default=[], help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Coverage, mutation and replay, where they are asked for; an option that would say nothing without its owner is refused."""
    for option, owner in _NEEDS.items():
        if config.getoption(option) and not config.getoption(owner):
            said, needed = (f"--{name.replace('_', '-')}" for name in (option, owner))
            raise pytest.UsageError(f"{said} says nothing without {needed}")
    if config.getoption("workflow_cov"):
        from conductorlite.testing.coverage_options import CoverageRun

        config.pluginmanager.register(CoverageRun(config), "conductorlite-workflow-coverage")
    if config.getoption("workflow_mutate"):
        from conductorlite.testing.mutation_options import MutationRun

        config.pluginmanager.register(MutationRun(config), "conductorlite-workflow-mutation")
    if config.getoption("conductorlite_replay"):
        from conductorlite.testing.replay_options import ReplayRun

        config.pluginmanager.register(ReplayRun(config), "conductorlite-replay")


@pytest.fixture
def clock() -> VirtualClock:
    """A virtual clock at 2030-01-01T00:00:00Z."""
    from conductorlite.model.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def workers() -> ScriptedWorkers:
    """Scripted workers: `workers.charge` is the script of the task type `charge`."""
    from conductorlite.testing.scripted import ScriptedWorkers

    return ScriptedWorkers()


@pytest.fixture(params=["memory", "sqlite"])
def engine_store(request: pytest.FixtureRequest) -> str:
    """The kind of store `engine` is on: "memory", "relay" or "sqlite"."""
    kind: str = request.param
    return kind


@pytest.fixture
def make_engine(
    request: pytest.FixtureRequest, engine_store: str, clock: Clock, workers: Workers
) -> Iterator[Callable[..., Engine]]:
    """Opens one more engine on the test's store; options as for `Engine`. What an earlier one stored is there.

    Ids of executions are wf-1, wf-2, … All engines are checked after the test, and closed.
    """
    from conductorlite.runtime.engine import Engine
    from conductorlite.testing.faults import Store, counted

    opened = request.node.stash.setdefault(_ENGINES, [])
    store = Store(engine_store, lambda: request.getfixturevalue("tmp_path"))

    def make(**options: Any) -> Engine:
        backend = store.open()
        config = counted(backend, options.pop("config", None))
        made = Engine(backend, **{"clock": clock, "workers": workers, "config": config, **options})
        opened.append(made)
        return made

    # The folder has to be made before the test, not when its fixtures are being torn down.
    if engine_store == "sqlite":
        request.getfixturevalue("tmp_path")
    yield make
    for made in opened:
        made.close()
    store.close()


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    """An engine on the test's store, with the fixtures `clock` and `workers`."""
    return make_engine()


@pytest.fixture
def conductor_server(request: pytest.FixtureRequest, clock: Clock) -> Iterator[ConductorServer]:
    """A Conductor server at a port of this machine, on the fixture `clock`: time moves by `conductor_server.advance`."""
    from conductorlite.testing.server import ConductorServer

    with ConductorServer(clock=clock) as server:
        request.node.stash.setdefault(_ENGINES, []).append(server.engine)
        yield server


@pytest.fixture
def workflow_snapshot(request: pytest.FixtureRequest) -> WorkflowSnapshot:
    """`workflow_snapshot(run)` compares an execution's history with a file in `__snapshots__` beside the test."""
    from conductorlite.testing.snapshots import WorkflowSnapshot

    return WorkflowSnapshot(request.node, update=request.config.getoption("workflow_snapshot_update"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After a test with engines: their laws when it passed, their timelines when it failed."""
    try:
        answer = yield
        if problems := [text for workers in _scripted(item) for text in (*workers.unscripted.values(), *workers.unused())]:
            pytest.fail("\n".join(["the scripts of the test do not fit its workflows:", *problems]), pytrace=False)
        broken = [str(finding) for engine in _open(item) for finding in engine.core.audits.broken_laws()]
        if broken:
            pytest.fail("\n".join(["laws of the engine do not hold after the test:", *broken]), pytrace=False)
        if item.config.getoption("workflow_replay") or item.config.getini("workflow_replay"):
            for engine in _open(item):
                _replay(engine)
    except (Exception, pytest.fail.Exception):
        if text := _timelines(item):
            item.add_report_section("call", "conductorlite timeline", text)
        raise
    return answer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test's engines go: pytest keeps every test to its end, and the garbage collector would look at all that they hold."""
    try:
        return (yield)
    finally:
        if _ENGINES in item.stash:
            del item.stash[_ENGINES]


def _replay(engine: Engine) -> None:
    """Replay each execution that no other one has started, with those below it; fail where its history comes out differently."""
    from conductorlite.model.errors import ReplayDiverged
    from conductorlite.testing.replaying import replay

    for workflow_id in engine.admin.workflow_ids():
        if engine.core.queries.execution(workflow_id).parent_workflow_id is None:
            document = engine.admin.export(workflow_id)
            try:
                replay(document, environment=engine.core.turns.lookups.environment).engine.close()
            except ReplayDiverged as error:
                pytest.fail(f"the execution {workflow_id} is decided differently when it is replayed:\n{error}", pytrace=False)


def _scripted(item: pytest.Item) -> list[ScriptedWorkers]:
    """The scripted workers of the engines of a test, and its fixture `workers`."""
    if _ENGINES not in item.stash:
        return []
    from conductorlite.testing.scripted import ScriptedWorkers

    found = [engine.workers for engine in item.stash[_ENGINES]]
    return [workers for at, workers in enumerate(found) if isinstance(workers, ScriptedWorkers) and workers not in found[:at]]


def _open(item: pytest.Item) -> list[Engine]:
    """The engines of a test that were not closed by it."""
    engines = item.stash.get(_ENGINES, ())
    if not engines:
        return []
    from conductorlite.model.errors import EngineClosed

    found = []
    for engine in engines:
        try:
            with engine.backend.reading():
                found.append(engine)
        except EngineClosed:
            continue
    return found


def _timelines(item: pytest.Item) -> str:
    if _ENGINES not in item.stash:
        return ""
    from conductorlite.testing.steps import timeline

    texts: dict[str, str] = {}
    try:
        for engine in _open(item):
            for workflow_id in engine.admin.workflow_ids():
                if len(texts) < _SHOWN:
                    texts[workflow_id] = timeline(engine, workflow_id)
    except Exception as error:
        # The test's own failure must not be hidden by a store that cannot be read any more.
        texts[""] = f"the timelines cannot be read: {type(error).__name__}: {error}"
    return "\n\n".join(f"{workflow_id}\n{text}" for workflow_id, text in texts.items())
