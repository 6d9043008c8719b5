"""`pytest --workflow-mutate NAME`: whether a test fails for each small mistake in a definition.

After the tests have passed, those that have embedded the definition run again with each mutant in its place, quickest first, until
one fails. A test with a mutant is ended when it has taken twenty times as many turns as without, or ten times as long.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from _pytest.runner import runtestprotocol

from conductorlite.engine.registry import Embedded, Registry
from conductorlite.engine.turns import Turns
from conductorlite.flows import Flow
from conductorlite.model.clock import SystemClock
from conductorlite.model.codec import definition_text
from conductorlite.model.decisions import Decision
from conductorlite.model.definitions import Semantics, WorkflowDef
from conductorlite.model.texts import did_you_mean
from conductorlite.plan.compile import Plan, known_plan
from conductorlite.plan.tree import walk
from conductorlite.store.ports import ReadingTransaction
from conductorlite.testing.mutants import Mutant, mutants_of

__all__ = ["MutationRun"]

_CLOCK: Final = SystemClock()

_TURNS: Final = 20
_TIMES: Final = 10


class RanAway(BaseException):
    """Internal: a test with a mutant does not come to an end; no program's `except Exception` may hide it."""


@attrs.define
class _Run:
    """Record of what a test did without mutants."""

    item: pytest.Item
    names: set[str] = attrs.field(factory=set)
    turns: int = 0
    seconds: float = 0.0


class MutationRun:
    """A plugin that is there only with `--workflow-mutate`."""

    def __init__(self, config: pytest.Config) -> None:
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError("--workflow-mutate runs the tests in this process, not with -n")
        self._config = config
        self._failed = False
        self._wanted = set(str(config.getoption("workflow_mutate")).split(","))
        self._definitions: dict[str, WorkflowDef] = {}
        self._flows: dict[str, Flow[..., Any]] = {}
        self._runs: dict[str, _Run] = {}
        self._run: _Run | None = None
        self._mutant: tuple[str, Mutant] | None = None
        self._left = 0
        self._seconds = 0.0
        self.killed = 0
        self.survivors: list[tuple[str, Mutant]] = []

    # ------------------------------------------------------------------ the engine under it

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Put the mutant into what engines embed, and count their turns."""
        embed, announce, starting = Registry._embed, Turns.announce, Flow.starting

        def embedded(
            registry: Registry,
            view: ReadingTransaction,
            plan: Plan,
            semantics: Semantics,
            chain: tuple[str, ...] = (),
            *,
            named: bool = False,
            **options: Any,
        ) -> Embedded:
            found = embed(registry, view, plan, semantics, chain, named=named, **options)
            made = self._seen(found)
            if made is None:
                return found
            return embed(registry, view, known_plan(definition_text(made), semantics)[0], semantics, chain, named=named)

        def announced(turns: Turns, decision: Decision) -> None:
            self._count()
            announce(turns, decision)

        def started(flow: Flow[..., Any], *given: Any, **options: Any) -> dict[str, Any]:
            self._flows[flow.definition.name] = flow
            return starting(flow, *given, **options)

        patches = (
            (Registry, "_embed", embedded, embed),
            (Turns, "announce", announced, announce),
            (Flow, "starting", started, starting),
        )
        for owner, name, wrapped, _ in patches:
            setattr(owner, name, wrapped)
        try:
            yield
        finally:
            for owner, name, _, real in patches:
                setattr(owner, name, real)

    def _seen(self, found: Embedded) -> WorkflowDef | None:
        """Note a definition that a test embeds; what is to be embedded instead, if anything."""
        if self._run is not None:
            self._run.names.add(found.name)
        self._definitions.setdefault(found.name, found.plan.definition)
        if self._mutant is None or self._mutant[0] != found.name:
            return None
        return self._mutant[1].made_of(found.plan.definition)

    def _count(self) -> None:
        if self._run is not None:
            self._run.turns += 1
        elif self._left:
            self._left -= 1
            if not self._left:
                raise RanAway

    # ------------------------------------------------------------------ running

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note what a test does without mutants."""
        run = self._run = self._runs[item.nodeid] = _Run(item)
        began = _CLOCK.now()
        answer = yield
        run.seconds = (_CLOCK.now() - began) / 1000
        self._run = None
        return answer

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """The tests as ever; then, if they pass, with each mutant."""
        with self._watching():
            answer = yield
            self._failed = bool(session.testsfailed)
            if not self._failed and not self._config.option.collectonly:
                # Nobody reads how each fails, and to print it takes longer than most tests.
                shown, self._config.option.tbstyle = self._config.option.tbstyle, "line"
                for name in sorted(self._definitions):
                    if "all" in self._wanted or name in self._wanted:
                        self._mutate(name)
                self._config.option.tbstyle = shown
        return answer

    def _mutate(self, name: str) -> None:
        runs = sorted((run for run in self._runs.values() if name in run.names), key=lambda run: run.seconds)
        # What is tried on two stores does the same on both.
        twins = {_bare(run.item) for run in runs if "sqlite" not in _store(run.item)}
        runs = [run for run in runs if "sqlite" not in _store(run.item) or _bare(run.item) not in twins]
        for mutant in mutants_of(self._definitions[name]):
            self._mutant = name, mutant
            killer = next((run for run in runs if self._fails(run)), None)
            self._mutant = None
            if killer is None:
                self.survivors.append((name, mutant))
            else:
                # The same mistake is often found by the same test.
                self.killed += 1
                runs.remove(killer)
                runs.insert(0, killer)

    def _fails(self, run: _Run) -> bool:
        item: Any = run.item
        item._initrequest()
        self._left = _TURNS * run.turns + 100
        self._seconds = 1 + _TIMES * run.seconds
        reports = runtestprotocol(item, log=False, nextitem=None)
        self._left = 0
        return any(report.failed for report in reports)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """See `pytest_runtest_call`."""
        with _at_most(self._seconds if self._mutant else 0):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """A test with a mutant has its time; what pytest does around it, such as reporting a failure, must not be broken off."""
        with _at_most(self._seconds if self._mutant else 0):
            return (yield)

    # ------------------------------------------------------------------ reporting

    @property
    def percent(self) -> float:
        """Share of the mutants that were killed, in percent."""
        made = self.killed + len(self.survivors)
        return 100.0 * self.killed / made if made else 0.0

    @property
    def _unknown(self) -> list[str]:
        """Workflows that no test has started."""
        return [] if self._config.option.collectonly else sorted(self._wanted - {"all"} - self._definitions.keys())

    @property
    def _floor(self) -> float:
        return 0.0 if self._config.option.collectonly else float(self._config.getoption("workflow_mutate_fail_under") or 0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run below the floor has failed, and one for a workflow that there is not."""
        if (self.percent < self._floor or self._unknown) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The survivors, each with its place and what a test could look at."""
        terminalreporter.section("workflow mutation")
        if self._failed:
            terminalreporter.write_line("no mistake was planted: tests fail without one")
            return
        for name in self._unknown:
            hint = did_you_mean(name, self._definitions)
            terminalreporter.write_line(f"FAIL no test starts a workflow {name!r}{hint}", red=True)
        for name, mutant in self.survivors:
            terminalreporter.write_line(
                f"survived: {self._place(name, mutant)}: {mutant.ref or name}: {mutant.place} {mutant.what}"
            )
            terminalreporter.write_line(f"          {mutant.try_this}")
        made = self.killed + len(self.survivors)
        terminalreporter.write_line(f"{self.killed} of {made} mutants killed ({self.percent:.0f}%)")
        if self.percent < self._floor:
            terminalreporter.write_line(f"FAIL {self.percent:.0f}% is below {self._floor:g}%", red=True)

    def _place(self, name: str, mutant: Mutant) -> str:
        """File and line of the definition, as far as it is known: of a flow, of a JSON file below the folder of the run, or of the
        module that makes it."""
        root = Path(self._config.rootpath)
        flow = self._flows.get(name)
        if flow is not None:
            code = flow.function.__code__
            file, first = Path(code.co_filename), code.co_firstlineno
            ref, task = re.escape(mutant.ref or name), re.escape(self._type(name, mutant.ref))
            forms = [rf"name=.{ref}\b", rf"\b{ref} = ", rf"\b{ref}\b.*\(", rf"\b{task}\b.*\("]
            return f"{_relative(file, root)}:{_line(file, forms, first)}"
        for file in sorted(root.rglob("*.json")):
            text = file.read_text(encoding="utf-8", errors="replace")
            if re.search(rf'"name"\s*:\s*"{re.escape(name)}"', text) and '"tasks"' in text:
                return f"{_relative(file, root)}:{_line(file, [re.escape(mutant.ref or name)], 1)}"
        called = rf"""(\bname\s*=|["']name["']\s*:|\(|,)\s*["']{re.escape(name)}["']"""
        for file in self._modules(name, root):
            if re.search(called, file.read_text(encoding="utf-8", errors="replace")):
                first = _line(file, [called], 1)
                ref = rf"""["']{re.escape(mutant.ref or name)}["']"""
                line = _line(file, [rf"""\b(task_reference_name=|taskReferenceName["']\s*:\s*){ref}""", ref], 1, first)
                return f"{_relative(file, root)}:{line if mutant.ref else first}"
        return name

    def _modules(self, name: str, root: Path) -> Iterator[Path]:
        """Modules that may make a definition: those of the tests that start it, then others below the folder of the run."""
        yield from dict.fromkeys(run.item.path for run in self._runs.values() if name in run.names)
        files = [getattr(one, "__file__", None) for one in [*sys.modules.values()]]
        yield from sorted(Path(one) for one in files if one is not None and one.endswith(".py") and Path(one).is_relative_to(root))

    def _type(self, name: str, ref: str) -> str:
        return next((one.task.name for one in walk(self._definitions[name]) if one.ref == ref), ref)


def _relative(file: Path, root: Path) -> Path:
    return file.relative_to(root) if file.is_relative_to(root) else file


def _line(file: Path, forms: list[str], first: int, otherwise: int | None = None) -> int:
    """The first line from `first` on in which one of these is found, the first form before others; else `otherwise`, or `first`."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    for form in forms:
        for number, line in enumerate(lines[first - 1 :], first):
            if re.search(form, line):
                return number
    return first if otherwise is None else otherwise


def _store(item: pytest.Item) -> str:
    spec = getattr(item, "callspec", None)
    return "" if spec is None else str(spec.params.get("engine_store", ""))


def _bare(item: pytest.Item) -> str:
    """The id of a test without its store."""
    return re.sub(r"(memory|sqlite|relay)", "", item.nodeid)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End what takes longer (0: nothing), where the system can: in the main thread of Unix."""
    if not (seconds and hasattr(signal, "setitimer")):
        yield
        return

    def ran_away(*_: object) -> None:
        raise RanAway

    before = signal.signal(signal.SIGALRM, ran_away)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
