"""One call of one worker function: input to keyword arguments, return value or exception to a report.

Whatever the function does, the result is a `TaskResult`: nothing it raises gets past here.

The task that a worker function carries out, known to whatever it calls: for its own log lines above all.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import islice, pairwise
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.engine.config import intercepted
from conductorlite.engine.logs import about_task
from conductorlite.engine.reports import RAW_LENGTH, TYPE_LENGTH, TYPES, kept_result
from conductorlite.engine.transactions import OwnTransaction
from conductorlite.engine.turn_types import Caller, callers
from conductorlite.engine.verbs import Verbs
from conductorlite.model.canonical import EMPTY, Document, Payload
from conductorlite.model.errors import ConductorliteError, InvalidInput, TaskFailedTerminally
from conductorlite.model.executions import Task, TaskResult
from conductorlite.model.later import functions, inspect, traceback
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import class_name, cut, error_text, printable, type_name
from conductorlite.model.threads import Cache
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.registry import Worker

if TYPE_CHECKING:
    from conductorlite.engine.streams import Emitting
    from conductorlite.model.typed import plain
else:
    (plain,) = functions("conductorlite.model.typed", "plain")

__all__ = [
    "Deferred",
    "FunctionCaller",
    "call",
    "call_async",
    "call_committing",
    "carried_headers",
    "current_context",
    "current_task",
    "raised",
    "refused",
    "returned_value",
]


@attrs.define(slots=True, eq=False, repr=False)
class FunctionCaller(Caller):
    """A worker's function that has not returned yet."""

    context: TaskContext = attrs.field(kw_only=True)


def current_context() -> TaskContext | None:
    """The context of the call that the calling worker function carries out."""
    for caller in reversed(callers()):
        if isinstance(caller, FunctionCaller):
            return caller.context
    return None


def current_task() -> Task | None:
    """The attempt that the calling worker function carries out; None outside of one.

    Known in the function's thread or coroutine, and in what inherits its context (`asyncio.create_task`, `asyncio.to_thread`);
    a thread started by hand knows nothing of it.
    """
    context = current_context()
    return None if context is None else context.task


@contextmanager
def _observed(context: TaskContext) -> Iterator[None]:
    """With what the observers put around a function."""
    with ExitStack() as stack:
        for observer in tuple(context.observers):
            try:
                stack.enter_context(observer.working(context.task))
            except Exception as error:
                about_task(context.task, f"an observer raised {error_text(error)}")
        yield


def carried_headers() -> dict[str, str]:
    """Return the headers for a request of the calling worker function, so that its trace goes on elsewhere."""
    context = current_context()
    observers = () if context is None else context.observers
    return {name: value for observer in tuple(observers) for name, value in observer.headers().items()}


#: Types of values that are no report and nothing to await.
_PLAIN: Final = frozenset({dict, list, str, int, float, bool, type(None)})

#: Members of an exception group that are looked at.
_GROUPED: Final = 10_000

#: What an error was raised from, and while which one was handled, whatever its class says.
_CAUSE: Final = BaseException.__dict__["__cause__"]
_CONTEXT: Final = BaseException.__dict__["__context__"]

#: How a class is called, and where it stands.
_MRO: Final = type.__dict__["__mro__"]
_QUALNAME: Final = type.__dict__["__qualname__"]
_MODULE: Final = type.__dict__["__module__"]


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Deferred:
    """Returned by a scripted worker on a virtual clock: the call takes `after_ms` of virtual time (None: for ever).

    `outcome` is what it then returns, or the exception it raises, and is reported `reports` times. While the call lasts,
    its lease is extended like any other's, unless it is `silent`: that one's lease runs out.
    """

    after_ms: int | None
    outcome: Any = None
    silent: bool = False
    reports: int = 1


def call(worker: Worker, context: TaskContext, transaction: OwnTransaction | None = None) -> TaskResult | Deferred:
    """Run the function on a polled task and say what to report. (KeyboardInterrupt passes: it may be the user's.)"""
    task = context.row
    outside = sys.exception()
    try:
        arguments = _arguments(worker, context)
        if isinstance(arguments, TaskResult):
            return arguments
        if worker.signature.transaction is not None:
            arguments[worker.signature.transaction] = transaction
        returned: Any = None
        if context.observers or context.interceptors or worker.interceptors:
            with _observed(context), intercepted((*context.interceptors, *worker.interceptors), context):
                returned = worker.function(**arguments)
        else:
            returned = worker.function(**arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if outside is not None:
            _cut_off(error, outside)
        return _with_rest(context, raised(task, error))
    # Not isinstance: an object may answer that by methods of its own.
    result = returned if type(returned) is Deferred else returned_value(task, returned)
    return _with_rest(context, result) if context.notes or context.emitting is not None else result


#: With what the rows of a function are committed.
_KEPT: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.IN_PROGRESS})


class _Undone(Exception):
    """Internal: a function has failed, and its rows are undone."""

    def __init__(self, result: TaskResult | Deferred) -> None:
        super().__init__()
        self.result = result


def call_committing(worker: Worker, context: TaskContext, engine: Verbs) -> tuple[TaskResult | Deferred, bool]:
    """As `call`, for a function that is given a transaction; and whether its report was committed with its rows.

    That of a failure is not: what the function wrote is undone.
    """
    try:
        with engine.transaction() as transaction:
            result = call(worker, context, transaction)
            if isinstance(result, Deferred) or result.status not in _KEPT:
                raise _Undone(result)
            engine.core.reports.report(context.row, result)
        return result, True
    except _Undone as undone:
        return undone.result, False
    except ConductorliteError as error:
        return raised(context.row, error), False


async def call_async(worker: Worker, context: TaskContext) -> TaskResult | Deferred:
    """As `call`, for a coroutine function; what ends a loop or cancels passes, and its host makes a report of it."""
    task = context.row
    try:
        arguments = _arguments(worker, context)
        if isinstance(arguments, TaskResult):
            return arguments
        returned: Any = None
        with _observed(context), intercepted((*context.interceptors, *worker.interceptors), context):
            returned = await worker.function(**arguments)
    except Exception as error:
        return _with_rest(context, raised(task, error))
    # Not isinstance: an object may answer that by methods of its own.
    return _with_rest(context, returned if type(returned) is Deferred else returned_value(task, returned))


def _with_rest(context: TaskContext, result: TaskResult | Deferred) -> TaskResult | Deferred:
    """Return the result with what was emitted and logged last; that of a call that takes virtual time is stored at once."""
    if context.emitting is not None:
        result = _with_emitted(context.emitting, result)
    if not context.notes:
        return result
    lines = context.noted()
    if lines and type(result) is TaskResult:
        return attrs.evolve(result, logs=(*result.logs, *lines))
    for line in lines:
        context.log(line)
    return result


def _with_emitted(emitting: Emitting, result: TaskResult | Deferred) -> TaskResult | Deferred:
    if type(result) is not TaskResult:
        emitting.hand_over()
        return result
    rest = emitting.take()
    return attrs.evolve(result, emitted=rest) if rest is not None and result.status in _KEPT else result


def _arguments(worker: Worker, context: TaskContext) -> dict[str, Any] | TaskResult:
    """Keyword arguments, or the report of what is wrong with the input: trying again would not repair it."""
    task = context.row
    takes = worker.signature
    given: dict[str, Any] = task.input.fresh()
    if takes.item is not None and "__index" in given:
        given = takes.named(given)
    missing = takes.required and takes.required - given.keys()
    if missing:
        names = ", ".join(repr(name) for name in sorted(missing))
        return _never(task, f"the input has no {names}, which worker {worker.task_type!r} needs", sep=": ")
    try:
        arguments = takes.arguments(given) if takes.parameters is not None or takes.readers or takes.whole is not None else given
    except InvalidInput as error:
        return _never(task, printable(error, RAW_LENGTH), sep=": ")
    if takes.context is not None:
        arguments[takes.context] = context
    return arguments


def returned_value(task: Task, returned: Any) -> TaskResult:
    """The report for what a function returned: a dict or a record is the output, another value goes under "result".

    What is reported is a copy: whatever the function does to its value later, and however the value's own methods behave.
    """
    try:
        if type(returned) in _PLAIN:
            output = _kept(returned)
            return TaskResult(
                workflow_id=task.workflow_id,
                task_id=task.task_id,
                status=TaskStatus.COMPLETED,
                lease=task.lease,
                output_data=output,
            )
        if isinstance(returned, TaskResult):
            return _own_report(task, returned)
        if inspect.iscoroutine(returned):
            returned.close()
            return _never(task, "returned a coroutine that nobody awaits: write `async def`, or await it")
        if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            return _never(task, f"returned a {type_name(returned)}: return what it gives instead")
        return _result(task, TaskStatus.COMPLETED, output_data=_kept(returned))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, MemoryError):
            return raised(task, error)  # another time there may be more of it
        text = printable(error, RAW_LENGTH) if isinstance(error, InvalidInput) else error_text(error)
        what = "too much" if "larger than" in text else "something that is not JSON"
        return _never(task, f"returned {what}: {text}")


def _own_report(task: Task, result: TaskResult) -> TaskResult:
    """A report that a function made itself, with texts for texts; one that cannot be kept fails the task as `refused` says."""
    try:
        kept = kept_result(result)
        output = _kept(kept.output_data)
    except InvalidInput as error:
        return refused(task, result, error)
    if type(result) is not TaskResult:  # a class of the user's may need its own way of making a copy, which takes longer
        return attrs.evolve(kept, workflow_id=task.workflow_id, task_id=task.task_id, lease=task.lease, output_data=output)
    return TaskResult(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        status=kept.status,
        output_data=output,
        reason=kept.reason,
        traceback=kept.traceback,
        error_types=kept.error_types,
        error_bases=kept.error_bases,
        callback_after_ms=kept.callback_after_ms,
        worker_id=kept.worker_id,
        lease=task.lease,
        logs=kept.logs,
        external_output_payload_storage_path=kept.external_output_payload_storage_path,
    )


def refused(task: Task, result: TaskResult, error: Exception) -> TaskResult:
    """The report in place of one that cannot be kept: a failure that may be retried stays one, anything else fails for good."""
    text = f"task {task.ref!r} reported something that cannot be kept: {printable(error, RAW_LENGTH)}"
    if not isinstance(result.status, str) or result.status != TaskStatus.FAILED:
        return _result(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=text)
    said = f"{printable(result.reason, RAW_LENGTH)} ({text})" if result.reason else text
    trace = None if result.traceback is None else printable(result.traceback, RAW_LENGTH)
    return _result(task, TaskStatus.FAILED, reason=said, traceback=trace)


def _kept(returned: Any) -> Document:
    """The output that a returned value is; raises InvalidInput when it cannot be made JSON, and what its own methods raise."""
    output = returned if type(returned) is dict else _output(returned)
    return Document(Payload.of(output, where="output"))


def _output(returned: Any) -> dict[str, Any]:
    if returned is None or isinstance(returned, dict):
        return returned or {}
    made = returned if type(returned) in _PLAIN else plain(returned)
    return made if isinstance(made, dict) else {"result": made}


#: What a function that has raised gives.
_NOTHING: Final = Document(EMPTY)


def raised(task: Task, error: BaseException) -> TaskResult:
    """The report for what a function raised, with its traceback."""
    single, text = _is_single(error), printable(error, RAW_LENGTH)
    kind: type = type(error)
    said = isinstance(error, TaskFailedTerminally)
    terminal = said or (not single and _is_terminal(error))
    # A class of another metaclass may answer anything when it is looked up.
    name, shown = _names_known(kind) if type(kind) is type else _names(kind)
    types = (name,) if single else tuple([_name(type(one)) for one in islice(_chain(error), TYPES)])
    return TaskResult(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        status=TaskStatus.FAILED_WITH_TERMINAL_ERROR if terminal else TaskStatus.FAILED,
        lease=task.lease,
        output_data=_NOTHING,
        reason=text if said else f"{shown}: {text}",
        traceback=_traceback(error, single=single),
        error_types=types,
        error_bases=_bases(kind),
    )


def _is_single(error: BaseException) -> bool:
    """Return True if an error is no group, and was raised from no other one, nor while one was handled."""
    cause, context = _CAUSE.__get__(error), _CONTEXT.__get__(error)
    return cause is None and context is None and not isinstance(error, BaseExceptionGroup)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, the members of a group, and what each was raised from, as a traceback shows them."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending and len(seen) < _GROUPED:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        cause, context = _CAUSE.__get__(one), _CONTEXT.__get__(one)
        hidden = BaseException.__dict__["__suppress_context__"].__get__(one)
        pending.append(cause if cause is not None or hidden else context)
        if isinstance(one, BaseExceptionGroup):
            pending.extend(reversed(BaseExceptionGroup.exceptions.__get__(one)))


def _cut_off(error: BaseException, outside: BaseException) -> None:
    """Have an error say nothing of what the caller of the engine was handling when the function was called."""
    for one in _chain(error):
        if _CONTEXT.__get__(one) is outside:
            _CONTEXT.__set__(one, None)


def _name(kind: type) -> str:
    """The name of a class, cut to its length, whatever its metaclass says."""
    name: str = _QUALNAME.__get__(kind)
    try:
        module = _MODULE.__get__(kind)
    except AttributeError:
        return printable(name, TYPE_LENGTH)
    if type(module) is str and module in ("builtins", "__main__"):
        return printable(name, TYPE_LENGTH)
    return printable(f"{printable(module, RAW_LENGTH)}.{name}", TYPE_LENGTH)


@lru_cache(maxsize=256)
def _bases(kind: type) -> tuple[str, ...]:
    """The names of the classes above that of an exception; of one of Python's own they are known by its name."""
    if getattr(builtins, _name(kind), None) is kind:
        return ()
    above = [one for one in _MRO.__get__(kind)[1:] if issubclass(one, BaseException) and one not in (Exception, BaseException)]
    return tuple([_name(one) for one in above[:TYPES]])


def _names(kind: type) -> tuple[str, str]:
    """Return the names of a class in error types, and in reasons."""
    return _name(kind), class_name(kind)


_names_known: Final = lru_cache(maxsize=256)(_names)


def _is_terminal(error: BaseException) -> bool:
    """Return True if a function has said that there is no use in trying again: by itself, or by one of a group."""
    pending, seen = [error], 0
    while pending and seen < _GROUPED:
        one, seen = pending.pop(), seen + 1
        if isinstance(one, TaskFailedTerminally):
            return True
        if isinstance(one, BaseExceptionGroup):
            pending.extend(BaseExceptionGroup.exceptions.__get__(one))
    return False


#: The places that an error has passed, and what a traceback shows of them: the same in every failure there, and slow to find out,
#: for their source is parsed.
_PLACES: Final[Cache[tuple[tuple[str, CodeType, int], ...], str]] = Cache(256)

#: So many of them at most are known together.
_DEEP: Final = 32

#: Errors with more to say than their text and the places they have passed: names that were meant, lines of a source, members.
_SAYING_MORE: Final = (AttributeError, BaseExceptionGroup, ImportError, NameError, SyntaxError)


def _lines(error: BaseException, *, single: bool) -> list[str]:
    """As `traceback.format_exception` has it."""
    if not single or isinstance(error, _SAYING_MORE):
        return traceback.format_exception(error)
    place, passed = error.__traceback__, []
    while place is not None:
        code = place.tb_frame.f_code
        passed.append((code.co_filename, code, place.tb_lasti))
        place = place.tb_next
    head = _PLACES.get(tuple(passed)) if 0 < len(passed) <= _DEEP else None
    if head is None:
        shown = traceback.extract_tb(error.__traceback__)
        same = [(one.filename, one.lineno, one.name) for one in shown]
        if not same or any(one == following for one, following in pairwise(same)):  # of many repetitions it gives the number
            return traceback.format_exception(error)
        head = "".join(["Traceback (most recent call last):\n", *shown.format()])
        if len(passed) <= _DEEP:
            _PLACES.put(tuple(passed), head)
    return [head, *_last_lines(error)]


def _last_lines(error: BaseException) -> list[str]:
    """As `traceback.format_exception_only` has it, of one of `_is_single`."""
    kind = type(error)
    if type(kind) is type and type(kind.__module__) is str and getattr(error, "__notes__", None) is None:
        name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
        try:
            text = str(error)
        except Exception:  # `traceback` knows what it says then
            return traceback.format_exception_only(error)
        return [f"{name}: {text}\n" if text else f"{name}\n"]
    return traceback.format_exception_only(error)


def _traceback(error: BaseException, *, single: bool) -> str:
    try:
        lines = _lines(error, single=single)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        lines = [f"{error_text(error, RAW_LENGTH)}\n(no traceback: {type_name(problem)} while it was made)\n"]
    return cut("".join(lines), RAW_LENGTH)


def _never(task: Task, problem: str, *, sep: str = " ") -> TaskResult:
    return _result(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=cut(f"task {task.ref!r}{sep}{problem}", RAW_LENGTH))


def _result(task: Task, status: TaskStatus, **fields: Any) -> TaskResult:
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status, lease=task.lease, **fields)
