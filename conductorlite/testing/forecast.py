"""`what_if`: how long executions would take, how many wait and what is needed, by thousands of virtual runs on the real engine.

How long a call takes, how often it fails, and when executions arrive are drawn from distributions, by a seed: the same on every
machine. What is drawn for an attempt hangs on its execution, reference and number alone, so two simulations that differ in one
thing can be compared: all else has the same luck in both.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from math import exp, log
from statistics import NormalDist
from typing import Any, Final, TypeVar

import attrs

from conductorlite.engine.config import EngineConfig
from conductorlite.model.clock import VirtualClock
from conductorlite.model.decisions import Decision
from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.errors import Conflict, InvalidInput, NotFound
from conductorlite.model.executions import HistoryKind, Task, TaskResult
from conductorlite.model.policies import derive_id
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import Span, did_you_mean, span_in_words, to_instant, to_span
from conductorlite.plan.findings import worker_types
from conductorlite.runtime.calls import Deferred
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Workers
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.testing.exploration.outcomes import check_names
from conductorlite.testing.steps import base_ref, starting

__all__ = ["Distribution", "Forecast", "Length", "Work", "exponential", "fixed", "lognormal", "measured", "uniform", "what_if"]

_BEGIN: Final = to_instant("2030-01-01T00:00:00+00:00")
_PER: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MANY: Final = 1_000_000

#: How a call ended that went wrong. One that was called off did not.
_WRONG: Final = frozenset(
    {TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT, TaskStatus.COMPLETED_WITH_ERRORS}
)

T = TypeVar("T")


# ---------------------------------------------------------------------- distributions


@attrs.frozen(slots=True)
class Distribution:
    """A length of time that is not always the same: `at(p)` is the one below which the share `p` of them lies, ms."""

    at: Callable[[float], float]
    #: Of which all are, if there is one: then there is nothing to draw.
    length: int | None = None

    def drawn(self, *luck: object) -> int:
        """One of them, ms: always the same for the same values."""
        if self.length is not None:
            return self.length
        # A number from 0 to 1 that hangs on these values alone.
        length = round(self.at(int(derive_id("what_if", *luck)[:13], 16) / 16**13))
        return length if length > 0 else 0


def fixed(span: Span) -> Distribution:
    """Always the same."""
    length = to_span(span)
    return Distribution(lambda _: length, length)


def uniform(least: Span, most: Span) -> Distribution:
    """Any between two, each as likely."""
    low, high = to_span(least), to_span(most)
    return Distribution(lambda share: low + share * (high - low))


def exponential(mean: Span) -> Distribution:
    """Without memory, as arrivals of many who know nothing of each other."""
    length = to_span(mean)
    return Distribution(lambda share: -length * log(1 - share))


def lognormal(median: Span, p95: Span) -> Distribution:
    """Most are short and a few long, as calls of services are: by the middle, and by what one of twenty exceeds."""
    middle, long = to_span(median), to_span(p95)
    if not 0 < middle < long:
        raise InvalidInput(f"the median {median!r} must be more than nothing, and less than p95 {p95!r}")
    normal = NormalDist()
    sigma = log(long / middle) / normal.inv_cdf(0.95)

    def at(share: float) -> float:
        # A normal distribution ends nowhere.
        inside = 1e-9 if share < 1e-9 else 1 - 1e-9 if share > 1 - 1e-9 else share
        return middle * exp(sigma * normal.inv_cdf(inside))

    return Distribution(at)


def _as_distribution(value: Distribution | Span | Sequence[int]) -> Distribution:
    if isinstance(value, Distribution):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        seen = sorted(value)
        if not seen:
            raise InvalidInput("nothing was measured")
        return Distribution(lambda share: seen[min(int(share * len(seen)), len(seen) - 1)])
    return fixed(value)


# ---------------------------------------------------------------------- what is asked, and what comes out


@attrs.frozen(kw_only=True, slots=True)
class Work:
    """Model of a task: how long a call takes (a distribution, a length, or a list of measured ms), what share of calls fails, how
    many `workers` there are (None: enough), and what a call that completes puts out.
    """

    takes: Distribution = attrs.field(converter=_as_distribution)
    fails: float = 0.0
    workers: int | None = None
    output: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.fails <= 1:
            raise InvalidInput(f"the share of calls that fails is from 0 to 1, not {self.fails!r}")


class Length(int):
    """A length of time in ms that can be compared with text: `report.p99("order") < "5m"`."""

    def __lt__(self, other: object) -> bool:
        return int(self) < _ms(other)

    def __le__(self, other: object) -> bool:
        return int(self) <= _ms(other)

    def __gt__(self, other: object) -> bool:
        return int(self) > _ms(other)

    def __ge__(self, other: object) -> bool:
        return int(self) >= _ms(other)

    def __eq__(self, other: object) -> bool:
        return int(self) == (_ms(other) if isinstance(other, str | timedelta) else other)

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return span_in_words(int(self))


def _of(known: Mapping[str, T], name: str) -> T:
    """Return what is known of a workflow or a task type; raises InvalidInput when nothing is."""
    if name not in known:
        raise InvalidInput(f"there is no {name!r}{did_you_mean(name, known)}; there are {', '.join(known) or 'none'}")
    return known[name]


def _ms(value: object) -> int:
    return value if isinstance(value, int) else to_span(value)  # type: ignore[arg-type]


@attrs.frozen(kw_only=True, slots=True)
class _Load:
    """Counts of one task type: calls, those that failed, how many waited and ran at most, and the time that calls took."""

    calls: int
    failed: int
    waiting: int
    waited_ms: Sequence[int]
    running: int
    busy_ms: int


@attrs.frozen(kw_only=True, slots=True)
class Forecast:
    """Results of virtual runs. Durations are ms, sorted; `tasks` are by task type."""

    took_ms: Mapping[str, Sequence[int]]
    statuses: Mapping[str, Mapping[str, int]]
    tasks: Mapping[str, _Load]
    span_ms: int

    def percentile(self, name: str, share: float) -> Length:
        """The length below which that share (0 to 1) of a workflow's executions took; raises InvalidInput when none has ended."""
        took = self.took_ms.get(name)
        if not took:
            raise InvalidInput(f"no execution of {name!r} has ended; there are {', '.join(self.took_ms) or 'none'}")
        return Length(took[min(int(share * len(took)), len(took) - 1)])

    def p50(self, name: str) -> Length:
        """Half of the executions took less."""
        return self.percentile(name, 0.5)

    def p95(self, name: str) -> Length:
        """Nineteen of twenty executions took less."""
        return self.percentile(name, 0.95)

    def p99(self, name: str) -> Length:
        """All but one of a hundred executions took less."""
        return self.percentile(name, 0.99)

    def late(self, name: str, deadline: Span) -> float:
        """The share of executions that took longer, or did not end."""
        all_ = sum(_of(self.statuses, name).values())
        return 1 - bisect_left(self.took_ms.get(name, ()), to_span(deadline) + 1) / all_

    def queue(self, task: str) -> int:
        """Return the largest number of tasks of a type that waited for a worker."""
        return _of(self.tasks, task).waiting

    def concurrency(self, task: str) -> int:
        """Return the largest number of concurrent calls of a type."""
        return _of(self.tasks, task).running

    def __str__(self) -> str:
        lines = [f"{'workflow':<20}{'ended':>8}{'p50':>14}{'p95':>14}{'p99':>14}   statuses"]
        for name in sorted(self.took_ms):
            cells = "".join(f"{self.percentile(name, share)!r:>14}" for share in (0.5, 0.95, 0.99))
            ended = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses[name].items()))
            lines.append(f"{name:<20}{len(self.took_ms[name]):>8}{cells}   {ended}")
        lines.append(f"\n{'task':<20}{'calls':>8}{'failed':>8}{'queue':>8}{'running':>9}{'wait p95':>14}{'busy':>10}")
        for name, one in sorted(self.tasks.items()):
            wait = one.waited_ms[min(int(0.95 * len(one.waited_ms)), len(one.waited_ms) - 1)] if one.waited_ms else 0
            busy = one.busy_ms / self.span_ms if self.span_ms else 0.0
            row = f"{name:<20}{one.calls:>8}{one.failed:>8}{one.waiting:>8}{one.running:>9}{span_in_words(wait):>14}{busy:>10.2f}"
            lines.append(row)
        return "\n".join(lines)

    def plot(self, name: str, *, rows: int = 12, width: int = 60) -> str:
        """A histogram of how long a workflow's executions took, as text; the last row holds the longest hundredth."""
        if rows < 2:
            raise InvalidInput(f"a histogram has two rows at least, not {rows}")
        top = max(1, int(self.p99(name)))
        counts = Counter(min(length * (rows - 1) // top, rows - 1) for length in self.took_ms[name])
        most = max(counts.values())
        labels = [span_in_words(top * row // (rows - 1)) for row in range(rows)]
        wide = max(map(len, labels))
        return "\n".join(f"{labels[row]:>{wide}} {'█' * round(width * counts[row] / most)} {counts[row]}" for row in range(rows))

    def beside(self, other: Forecast) -> str:
        """This forecast and another one, a line for each workflow of both: what a limit or a policy costs."""
        lines = [f"{'workflow':<20}{'':>6}{'this':>14}{'other':>14}{'ratio':>8}"]
        for name in sorted({*self.took_ms} & {*other.took_ms}):
            for word, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
                one, two = self.percentile(name, share), other.percentile(name, share)
                lines.append(f"{name:<20}{word:>6}{one!r:>14}{two!r:>14}{two / one if int(one) else 0:>8.2f}")
        return "\n".join(lines)


# ---------------------------------------------------------------------- the simulation


def what_if(
    workflow: Any,
    input: Mapping[str, Any] | None = None,
    *,
    tasks: Mapping[str, Work | Distribution | Span],
    arrivals: str | Distribution,
    runs: int = 1_000,
    signals: Mapping[str, Distribution | Span] | None = None,
    registered: Sequence[WorkflowDef | TaskDef] = (),
    seed: int = 0,
) -> Forecast:
    """Start so many `runs` of a workflow (a definition or a flow, with its input), and see how long they take.

    `tasks` says how each task type is carried out: a `Work`, or how long a call takes. `arrivals` are a rate such as "50/h", at
    random instants, or a distribution of what lies between two. `signals` says after how long a WAIT or HUMAN is completed, by
    reference. Definitions that the workflow refers to are `registered`. Raises InvalidInput for what cannot be drawn, and when a
    task type is missing in `tasks`.
    """
    if runs < 1:
        raise InvalidInput(f"a forecast needs a run, not {runs}")
    works = {name: one if isinstance(one, Work) else Work(takes=_as_distribution(one)) for name, one in tasks.items()}
    between = _between(arrivals)
    workers, config = _workers(works, seed), EngineConfig(seed=str(seed))
    engine = Engine(MemoryBackend(), clock=VirtualClock(_BEGIN), workers=workers, config=config)
    with engine:
        waiting = _Signals(engine, {ref: _as_distribution(one) for ref, one in (signals or {}).items()}, seed)
        engine.core.turns.announce = waiting.announce  # type: ignore[method-assign]
        given, below = starting(workflow, input)
        definition, begin = given.pop("workflow"), given.pop("input")
        if registered or below:
            engine.register(*registered, *below)
        whole = [definition, *below, *(one for one in registered if isinstance(one, WorkflowDef))]
        at = _BEGIN
        for number in range(runs):
            engine.start(definition, begin, **{**given, "workflow_id": f"run-{number + 1}", "at": at})
            at += between.drawn(seed, "arrival", number)
        # After the starts, which say what is wrong with a definition.
        missing = [kind for one in whole for kind in worker_types(one) if kind not in tasks]
        if missing:
            raise InvalidInput(f"nothing was said of the task type {missing[0]!r}{did_you_mean(missing[0], tasks)}")
        if signals:
            check_names(whole, signals)
        waiting.drive()
        return _forecast(engine, {*tasks})


def _between(arrivals: str | Distribution) -> Distribution:
    if isinstance(arrivals, Distribution):
        return arrivals
    number, sign, unit = arrivals.partition("/") if isinstance(arrivals, str) else ("", "", "")
    if not sign or unit not in _PER or not number.replace(".", "", 1).isdecimal() or not float(number):
        raise InvalidInput(f"arrivals are a rate such as '50/h' (s, m, h, d), or a distribution, not {arrivals!r:.80}")
    mean = _PER[unit] / float(number)
    return Distribution(lambda share: -mean * log(1 - share))


def _workers(works: Mapping[str, Work], seed: int) -> Workers:
    made = Workers()
    for name, work in works.items():
        made.add(name, _carried_out(work, seed), concurrency=work.workers)
    return made


def _carried_out(work: Work, seed: int) -> Callable[..., Any]:
    output = dict(work.output)
    # 1 for a call that fails, by the same chance as ever.
    failing = Distribution(lambda share: share < work.fails)

    def call(context: TaskContext, **given: Any) -> Deferred:
        task = context.task
        luck = seed, task.workflow_id, task.ref, task.attempt
        takes, fails = work.takes.drawn("takes", *luck), work.fails > 0 and failing.drawn("fails", *luck) == 1
        result: dict[str, Any] | TaskResult = output
        if fails:
            failed = TaskStatus.FAILED
            result = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=failed, reason="drawn")
        # Signs of life cost turns, and one that reports in time needs none.
        in_time = task.response_timeout_at is None or task.updated_at + takes < task.response_timeout_at
        return Deferred(after_ms=takes, outcome=result, silent=in_time)

    return call


class _Signals:
    """People who complete what waits for them, each after a time that is drawn when it begins to wait."""

    def __init__(self, engine: Engine, after: Mapping[str, Distribution], seed: int) -> None:
        self._engine, self._after, self._seed = engine, after, seed
        self._due: list[tuple[int, str, str]] = []

    def announce(self, decision: Decision) -> None:
        """Stands for what an engine does after a commit: thousands fail here, and nothing of it is to be logged."""
        self._engine.core.turns.committed.wake()
        for line in decision.history if self._after else ():
            ref, owner = line.ref or "", decision.workflow.workflow_id
            after = self._after.get(ref) or self._after.get(base_ref(ref))
            if line.kind is HistoryKind.TASK and line.status == TaskStatus.IN_PROGRESS and after is not None:
                heapq.heappush(self._due, (line.at + after.drawn("signal", self._seed, owner, ref), owner, ref))

    def drive(self) -> None:
        """Let everything happen, each signal at its own instant."""
        engine = self._engine
        while self._after:
            engine.settle()
            at = engine.driver.instants.next()
            if self._due and (at is None or self._due[0][0] <= at):
                due, owner, ref = heapq.heappop(self._due)
                engine.advance(to=due)
                with suppress(NotFound, Conflict):
                    engine.signal(owner, task=ref)
            elif at is None:
                return
            else:
                engine.advance(to=at)
        engine.run_until_idle()


def _forecast(engine: Engine, types: Iterable[str]) -> Forecast:
    took: dict[str, list[int]] = defaultdict(list)
    statuses: dict[str, Counter[str]] = defaultdict(Counter)
    attempts: dict[str, list[Task]] = {name: [] for name in types}
    with engine.backend.reading() as view:
        for workflow_id in view.executions.workflow_ids(None, "", _MANY):
            row = view.executions.workflow(workflow_id)
            if row is None:
                continue
            statuses[row.name][str(row.status)] += 1
            if row.status.terminal:
                took[row.name].append(row.ended_at - (row.started_at or row.created_at))
            for task in view.executions.attempts(workflow_id):
                if task.task_type in attempts and task.started_at:
                    attempts[task.task_type].append(task)
    loads = {name: _load(tasks) for name, tasks in attempts.items()}
    return Forecast(
        took_ms={name: sorted(lengths) for name, lengths in took.items()},
        statuses=statuses,
        tasks=loads,
        span_ms=engine.clock.now() - _BEGIN,
    )


def _load(tasks: Sequence[Task]) -> _Load:
    waits = [(task.due_at or task.scheduled_at, task.started_at) for task in tasks]
    runs = [(task.started_at, task.ended_at or task.updated_at) for task in tasks]
    return _Load(
        calls=len(tasks),
        failed=sum([task.status in _WRONG for task in tasks]),
        waiting=_most(waits),
        waited_ms=sorted([end - begin if end > begin else 0 for begin, end in waits]),
        running=_most(runs),
        busy_ms=sum([end - begin for begin, end in runs]),
    )


def _most(spans: Iterable[tuple[int, int]]) -> int:
    """Return how many of them there were at once at most; one that ends when another begins does not meet it."""
    changes = sorted([(begin, 1) for begin, end in spans if end > begin] + [(end, -1) for begin, end in spans if end > begin])
    now = most = 0
    for _, change in changes:
        now += change
        most = now if now > most else most
    return most


def measured(engine: Engine, workflow: str, *, limit: int = 1_000) -> dict[str, Work]:
    """Measure the tasks of a workflow in a store's newest executions, as `tasks` for `what_if`."""
    seen: dict[str, list[Task]] = defaultdict(list)
    for row in engine.executions(workflow, limit=limit):
        for task in engine.get(row.workflow_id).tasks:
            ended = task.status is TaskStatus.COMPLETED or task.status in _WRONG
            if ended and task.started_at and task.ended_at and task.poll_count:
                seen[task.task_type].append(task)
    return {
        name: Work(
            takes=_as_distribution([task.ended_at - task.started_at for task in tasks]),
            fails=sum(task.status in _WRONG for task in tasks) / len(tasks),
            output=next((task.output_data for task in reversed(tasks) if task.status is TaskStatus.COMPLETED), {}),
        )
        for name, tasks in seen.items()
    }
