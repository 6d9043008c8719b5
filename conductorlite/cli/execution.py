"""Drives one execution to its end: the engine in a thread of its own, the main thread shows progress and listens to signals."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import attrs

from conductorlite.cli.output import Screen, console_of, instant, one_line
from conductorlite.cli.shared import Exit
from conductorlite.model.clock import Deadline
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import NoThread
from conductorlite.model.executions import HistoryEvent, HistoryKind, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.threads import Waiter

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from conductorlite.runtime.engine import Engine

__all__ = ["drive_to_end", "driven", "follow", "history_line"]

#: Seconds between looks at what other processes may have done.
_GLANCE = 0.2

_ENDS = frozenset(status.value for status in TaskStatus if status.terminal)


def history_line(line: HistoryEvent) -> str:
    """One line of the journal for a person."""
    return f"{instant(line.at)}  {line.words}"


def drive_to_end(engine: Engine, workflow_id: str, screen: Screen, *, timeout_ms: int | None, watch: bool) -> Exit:
    """Drive until the execution has ended, or is parked or paused, or a signal or the timeout comes.

    A first Ctrl-C takes no more tasks and waits for those that run, up to the workers' drain time; a second abandons them.
    Raises ResultTimeout, and whatever stopped the engine.
    """
    try:
        return _drive(engine, workflow_id, screen, timeout_ms, watch)
    except KeyboardInterrupt:
        # The second signal: closing the engine would wait for what is to be abandoned. The store survives this by design.
        from conductorlite.engine.holders import leave_all

        leave_all()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(Exit.INTERRUPTED)


def _drive(engine: Engine, workflow_id: str, screen: Screen, timeout_ms: int | None, watch: bool) -> Exit:
    deadline = None if timeout_ms is None else Deadline(engine.clock, timeout_ms)
    look = _Look(engine, workflow_id)
    with ExitStack() as stack:
        show = stack.enter_context(_shown(engine.get(workflow_id), screen, watch))
        stack.callback(lambda: show(look.taken()))
        stack.callback(engine.listen(look.committed))
        stop, thread = stack.enter_context(driven(engine, screen))
        while not (look.over() or stop or thread.failed or (deadline is not None and deadline.passed)):
            look.stopped.wait(_GLANCE)
            show(look.taken())
    if thread.error is not None:
        raise thread.error
    if look.over():
        return Exit.OK
    if stop:
        return Exit.INTERRUPTED if stop[0] == signal.SIGINT else Exit.TERMINATED
    from conductorlite.runtime.result_errors import late

    raise late(engine, workflow_id)


@contextmanager
def driven(engine: Engine, screen: Screen) -> Iterator[tuple[list[int], _Thread]]:
    """Drive in a thread while the block lasts, then wait for its tasks; the signals that came meanwhile, and the thread.

    Raises NoThread, and KeyboardInterrupt when a second signal comes during the wait.
    """
    with _signals(screen) as stop:
        thread = _Thread(engine)
        try:
            thread.start()
        except RuntimeError as error:
            raise NoThread(f"nothing can be driven: {error}") from None
        try:
            yield stop, thread
        finally:
            engine.stop()
            thread.finish(stop)


def follow(
    engine: Engine, workflow_id: str, screen: Screen, after: int, document: Callable[[HistoryEvent], dict[str, Any]] | None
) -> WorkflowStatus:
    """Show what happens to an execution, without driving it, until it has ended; with `document` as JSON, a line each.

    Raises ExecutionNotFound.
    """
    with _shown(engine.get(workflow_id), screen, True) as show:
        seen: object = None
        while True:
            now = engine.backend.data_version()
            if now != seen:
                seen = now
                row = engine.core.queries.execution(workflow_id)
                lines, over = engine.core.queries.following(workflow_id, after, masked=True)
                after = lines[-1].n if lines else after
                if document is None:
                    show([(row, lines)])
                else:
                    for line in lines:
                        screen.text(json.dumps(document(line), ensure_ascii=False) + "\n")
                if over:
                    return engine.status(workflow_id)
            engine.clock.wait(Waiter(), engine.clock.now() + int(_GLANCE * 1_000))


@attrs.define(slots=True)
class _Look:
    """The state of the execution: after own commits at once, after commits of other processes by a look at the store."""

    engine: Engine
    workflow_id: str
    stopped: threading.Event = attrs.field(factory=threading.Event)
    seen: list[tuple[Workflow, Sequence[HistoryEvent]]] = attrs.field(factory=list)

    def committed(self, workflow: Workflow, history: Sequence[HistoryEvent]) -> None:
        if workflow.workflow_id == self.workflow_id:
            self.seen.append((workflow, history))
            if workflow.status is not WorkflowStatus.RUNNING:
                self.stopped.set()

    def taken(self) -> list[tuple[Workflow, Sequence[HistoryEvent]]]:
        taken, self.seen = self.seen, []
        return taken

    def over(self) -> bool:
        """Return True if nothing more will happen to it here: it has ended, or was paused or parked, or was removed."""
        with self.engine.backend.reading() as view:
            row = view.executions.workflow(self.workflow_id)
        return row is None or row.status is not WorkflowStatus.RUNNING or row.parked is not None


class _Thread(threading.Thread):
    """Drives the engine until it is stopped; keeps what it raises."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(name="conductorlite-driver", daemon=True)
        self.engine = engine
        self.error: BaseException | None = None

    def run(self) -> None:
        """Take turns until `Engine.stop`."""
        try:
            self.engine.run_forever()
        except BaseException as error:
            self.error = error

    @property
    def failed(self) -> bool:
        """True if the engine stopped by itself."""
        return not self.is_alive()

    def finish(self, stop: Sequence[int]) -> None:
        """Wait for running tasks; a second signal cuts the wait short."""
        while self.is_alive() and len(stop) < 2:
            self.join(_GLANCE)
        if self.is_alive():
            raise KeyboardInterrupt


@contextmanager
def _signals(screen: Screen) -> Iterator[list[int]]:
    """The signals that came, in order; outside the main thread none can be listened to."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            screen.note("stopping: running tasks are finished; once more to abandon them")

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before: dict[int, Any] = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_News = Sequence[tuple[Workflow, Sequence[HistoryEvent]]]


@contextmanager
def _shown(workflow: Workflow, screen: Screen, watch: bool) -> Iterator[Callable[[_News], None]]:
    """A function that shows what happened: lines when watching, a bar on a terminal, else nothing."""
    # The answer goes to stdout, so what is shown on the way must not.
    console = console_of(sys.stderr, stderr=True) if screen.json else screen.console
    if console is None:
        yield lambda news: _lines(news, screen) if watch else None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        nodes = _count(workflow.definition)
        ended = sum(task.status.terminal for task in workflow.tasks)
        bar = progress.add_task(one_line(workflow.name), total=max(nodes, workflow.task_seq, 1), completed=ended)

        def show(news: _News) -> None:
            if watch:
                for _, history in news:
                    for line in history:
                        progress.console.print(Text(one_line(history_line(line))))
            _advance(progress, bar, news, nodes)

        yield show


def _advance(progress: Progress, bar: TaskID, news: _News, nodes: int) -> None:
    for workflow, history in news:
        tasks = [line for line in history if line.kind is HistoryKind.TASK]
        progress.advance(bar, sum(line.status in _ENDS for line in tasks))
        progress.update(bar, total=max(nodes, workflow.task_seq, 1))
        if tasks:
            progress.update(bar, description=one_line(f"{workflow.name}: {tasks[-1].ref} {tasks[-1].status}"))


def _lines(news: _News, screen: Screen) -> None:
    for _, history in news:
        for line in history:
            if screen.json:
                screen.note(history_line(line))
            else:
                screen.line(history_line(line))


def _count(definition: WorkflowDef | None) -> int:
    from conductorlite.plan.tree import walk

    return 0 if definition is None else sum(place.compensates is None for place in walk(definition))
