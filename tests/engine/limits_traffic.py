"""Random traffic under limits: several definitions, verbs, failing and dying workers, clock steps; every law after every commit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from engine_kit import T0, fork, join, rounds
from limits_kit import Broken, definition, keyed, limited, occupied, past_their_limits, verify

from conductorlite import (
    Engine,
    EngineConfig,
    HistoryEvent,
    SubWorkflowParams,
    Task,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workflow,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import Conflict, NotFound, StaleLease
from conductorlite.model.limits import Terms
from conductorlite.plan.compile import compile_plan
from conductorlite.store.ports import Backend

__all__ = ["OPERATIONS", "Traffic"]

_RETRIED: Final = {"retry_count": 1, "retry_delay_s": 3, "response_timeout_s": 8, "poll_timeout_s": 40}


def _two(ref: str) -> WorkflowTask:
    return limited(ref, "two", k=2, **_RETRIED)


def _paced(ref: str) -> WorkflowTask:
    return limited(ref, "paced", rate=3, per_s=10, **_RETRIED)


def _both(ref: str) -> WorkflowTask:
    return limited(ref, "both", k=2, rate=4, per_s=7, **_RETRIED)


def _mixed(ref: str, *, wide: bool) -> WorkflowTask:
    """Two definitions of one name, which share a limit and differ in what they allow."""
    terms: dict[str, Any] = {"k": 3, "rate": 5, "per_s": 5} if wide else {"k": 1, "rate": 2, "per_s": 9}
    return limited(ref, "mixed", **terms, **_RETRIED)


_CHILD: Final = definition("child", _both("b"), _two("c"), limit=keyed(2, "shared"))

DEFINITIONS: Final = (
    definition("wide", fork("f", [_two("a")], [_paced("b")], [_both("c")]), join("j", "a", "b", "c")),
    definition("chain", _two("a"), _mixed("b", wide=False)),
    definition("loop", rounds("l", [_mixed("a", wide=True)]), limit=keyed(2, "shared")),
    definition("who", _paced("a"), _both("b"), limit=keyed(1, "${workflow.input.who}")),
    definition("picky", _two("a"), limit=keyed(1, "picky", "REJECT")),
    definition(
        "parent",
        _mixed("a", wide=False),
        WorkflowTask(
            name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(workflow_definition=_CHILD)
        ),
        limit=keyed(2, "parents"),
    ),
    definition(
        "twins",
        fork("f", [_mixed("a", wide=True)], [_mixed("b", wide=False)], [_mixed("c", wide=True)]),
        join("j", "a", "b", "c"),
    ),
)

_NAMES: Final = ("two", "paced", "both", "mixed")
_ROUND: Final = re.compile(r"(__\d+)+$")
_TERMS: Final[dict[tuple[str, str], tuple[str, Terms]]] = {
    (one.name, ref): (node.task.name, node.limit)
    for one in (*DEFINITIONS, _CHILD)
    for ref, node in compile_plan(one).nodes.items()
    if node.limit
}

#: Keys of the limits on executions, by name of the definition; $ is who the input names.
_KEYS: Final = {"child": "shared", "loop": "shared", "who": "$", "picky": "picky", "parent": "parents"}

#: What may happen, as often as it stands here. The others are methods of Traffic of that name.
OPERATIONS: Final = (
    *("start", "start", "start", "poll", "poll", "poll", "report", "report", "report", "let_pass", "let_pass", "settle"),
    *("die", "outside", "pause", "resume", "terminate", "retry", "rerun", "restart", "remove", "skip", "later"),
)

_REPORTS: Final = ("COMPLETED", "COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "IN_PROGRESS", "IN_PROGRESS")


class Traffic:
    """Engines on one store, driven by hand; the second one's clock is ahead by `skew_ms`."""

    def __init__(self, store: Backend, *, skew_ms: int = 0, settles: bool = True, begins: int = T0) -> None:
        self.store = store
        self.settles = settles
        numbers = iter(range(1, 1_000_000))
        self.engines: list[Engine] = []
        for ahead in (0, skew_ms) if skew_ms else (0,):
            engine = Engine(store, clock=VirtualClock(begins + ahead), config=EngineConfig(ids=lambda: f"w{next(numbers)}"))
            engine.listen(self._committed)
            self.engines.append(engine)
        self.skew_ms = skew_ms
        #: Whether instants tell who was first; else only windows that are the same for all say something.
        self.exact = not skew_ms
        self.held: list[Task] = []
        self.names: dict[str, str] = {}
        self.histories: dict[str, list[HistoryEvent]] = defaultdict(list)
        self.commits = 0
        #: After how many commits the laws are looked at.
        self.every = 1
        self.most_waiting = 0
        #: Laws that did not hold right after a commit.
        self.broken: list[Exception] = []

    # -- laws ----------------------------------------------------------------------------------------------------------

    def _committed(self, workflow: Workflow, history: Sequence[HistoryEvent]) -> None:
        try:
            self._heard(workflow, history)
        except Exception as broken:  # what a listener raises is only logged
            self.broken.append(broken)

    def _heard(self, workflow: Workflow, history: Sequence[HistoryEvent]) -> None:
        self.commits += 1
        self.names[workflow.workflow_id] = workflow.name
        self.histories[workflow.workflow_id].extend(history)
        if workflow.parked is not None:
            raise Broken(f"{workflow.workflow_id} is parked: {workflow.parked}")
        runs = workflow.started_at and not (workflow.status.terminal or workflow.rate_limited)
        wanted = _KEYS.get(workflow.name)
        if runs and wanted and workflow.rate_limit_key != f"workflow:{wanted}".replace("$", workflow.input.value.get("who", "")):
            raise Broken(f"{workflow.workflow_id} {workflow.name} runs without a slot of its limit: {workflow.rate_limit_key}")
        if self.commits % self.every == 0:
            self.look()

    def look(self) -> None:
        """Check every law of the store as it is now, and was after each commit; raises Broken."""
        if self.broken:
            raise self.broken[0]
        waiting = verify(self.store, self.engines[0].clock.now())
        self.most_waiting = max(self.most_waiting, waiting)

    def _terms_of(self, workflow_id: str, ref: str) -> tuple[str, Terms] | None:
        return _TERMS.get((self.names[workflow_id], _ROUND.sub("", ref)))

    # -- what happens --------------------------------------------------------------------------------------------------

    def do(self, operation: str, a: int, b: int) -> None:
        """One thing that happens; what does not fit where things stand changes nothing."""
        with suppress(Conflict, NotFound):
            getattr(self, operation)(a, b)
        if self.settles:
            self.settle(0, 0)
        self.look()

    def _engine(self, number: int) -> Engine:
        return self.engines[number % len(self.engines)]

    def _one(self, number: int) -> str | None:
        found = list(self.engines[0].admin.workflow_ids())
        return found[number % len(found)] if found else None

    def start(self, a: int, b: int) -> None:
        """Start an execution."""
        self._engine(b).start(DEFINITIONS[a % len(DEFINITIONS)], {"who": f"who{b % 2}"}, priority=b % 3)

    def later(self, a: int, b: int) -> None:
        """Start an execution that begins later."""
        wanted = DEFINITIONS[a % len(DEFINITIONS)]
        self._engine(b).start(wanted, {"who": f"who{b % 2}"}, priority=b % 3, delay=f"{1 + b % 7}s")

    def poll(self, a: int, b: int) -> None:
        """A worker takes some tasks of a name."""
        self.held += self._engine(b).poll(_NAMES[a % len(_NAMES)], worker_id="w", count=1 + b % 3)

    def report(self, a: int, b: int) -> None:
        """A worker reports."""
        if self.held:
            self._report(self._engine(a), self.held.pop(a % len(self.held)), _REPORTS[b % len(_REPORTS)], b, lease=True)

    def _report(self, engine: Engine, task: Task, status: str, b: int, *, lease: bool) -> None:
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=TaskStatus(status),
            lease=task.lease if lease else None,
            callback_after_ms=4_000 * (b % 2),
        )
        with suppress(StaleLease):
            engine.update_task(result)

    def die(self, a: int, _: int) -> None:
        """A worker dies with a task."""
        if self.held:
            self.held.pop(a % len(self.held))

    def outside(self, a: int, b: int) -> None:
        """Somebody who is no worker reports on whatever is open."""
        each = self._one(a)
        rows = [] if each is None else [task for task in self.engines[0].get(each).tasks if not task.status.terminal]
        if rows:
            self._report(self._engine(a), rows[b % len(rows)], _REPORTS[b % len(_REPORTS)], b, lease=False)

    def let_pass(self, a: int, b: int) -> None:
        """Time passes; with clocks apart, each is driven to its own instant."""
        to = self.engines[0].clock.now() + 250 * (1 + a) * (1 + b % 3)
        for number, engine in enumerate(self.engines):
            engine.advance(to=to + number * self.skew_ms)

    def settle(self, a: int, _: int) -> None:
        """All that is due is done."""
        self._engine(a).settle()

    def pause(self, a: int, b: int) -> None:
        """Pause an execution."""
        self._verb(a, b, Engine.pause)

    def resume(self, a: int, b: int) -> None:
        """Resume an execution."""
        self._verb(a, b, Engine.resume)

    def terminate(self, a: int, b: int) -> None:
        """Terminate an execution."""
        self._verb(a, b, Engine.terminate)

    def restart(self, a: int, b: int) -> None:
        """Restart an execution."""
        self._verb(a, b, Engine.restart)

    def remove(self, a: int, b: int) -> None:
        """Remove an execution."""
        self._verb(a, b, lambda engine, one: engine.admin.remove(one))

    def retry(self, a: int, b: int) -> None:
        """Retry an execution, its children in place or anew."""
        self._verb(a, b, lambda engine, each: engine.retry(each, resume_subworkflow_tasks=b % 2 == 0))

    def rerun(self, a: int, b: int) -> None:
        """Rerun an execution from one of its tasks on, or from the start."""
        each = self._one(a)
        refs = [] if each is None else [task.ref for task in self.engines[0].get(each).tasks]
        self._verb(a, b, lambda engine, one: engine.rerun(one, from_task=refs[b % len(refs)] if refs and b % 4 else None))

    def skip(self, a: int, b: int) -> None:
        """Skip a task."""
        self._verb(a, b, lambda engine, each: engine.skip_task(each, "abcs"[b % 4]))

    def _verb(self, a: int, b: int, verb: Callable[[Engine, str], object]) -> None:
        each = self._one(a)
        if each is not None:
            verb(self._engine(b), each)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Have willing workers do all there is to do; then nobody waits, nothing is in use, and the journals tell of no excess."""
        engine = self.engines[-1]
        for each in list(engine.admin.workflow_ids()):
            with suppress(Conflict):
                engine.resume(each)
        self.held.clear()
        for _ in range(2_000 + 50 * len(self.names)):
            engine.settle()
            taken = [task for name in _NAMES for task in engine.poll(name, worker_id="w", count=100)]
            for task in taken:
                self._report(engine, task, "COMPLETED", 0, lease=True)
            at = None if taken else engine.driver.instants.next()
            if at is not None:
                engine.advance(to=max(at, engine.clock.now()))
            elif not taken:
                break
        else:
            raise Broken("it never ends")
        self._nothing_is_left(engine)

    def _nothing_is_left(self, engine: Engine) -> None:
        if self.broken:
            raise self.broken[0]
        for each in list(engine.admin.workflow_ids()):
            run = engine.get(each)
            if not run.status.terminal or run.rate_limited:
                raise Broken(f"{each} {run.name} is {run.status}, and nothing will move it: {run.tasks}")
        with self.store.reading() as view:
            for limit in view.limits.page("", 1_000):
                if limit.in_use or limit.reserved or view.limits.members(limit.key):
                    raise Broken(f"nothing is left to do, but {limit} has {view.limits.members(limit.key)}")
        offered = occupied(self.histories, self._terms_of)
        if not self.exact:
            offered = [one for one in offered if one.name != "mixed"]
        found = past_their_limits(offered, beside=self.exact)
        if found:
            raise Broken("\n".join(found))
        broken = [str(finding) for finding in engine.admin.check()]
        if broken:
            raise Broken("\n".join(broken))

    def completed(self) -> int:
        """How many executions are COMPLETED."""
        engine = self.engines[0]
        return sum(engine.status(each) is WorkflowStatus.COMPLETED for each in engine.admin.workflow_ids())
