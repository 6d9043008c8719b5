"""The mapping of tasks to the functions that carry them out. No global registry: a `Workers` is an object, given to an engine.

What a worker function takes, read once when it is registered.

What an engine starts beside definitions: flows, which are made above it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeAlias, TypeVar, get_type_hints, overload
from weakref import WeakKeyDictionary

import attrs

from conductorlite.engine.config import Interceptor
from conductorlite.engine.config import interceptors as checked_interceptors
from conductorlite.engine.transactions import OwnTransaction
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import queue_name, version_domain
from conductorlite.model.definitions import RetryLogic, TaskDef, TaskType, TimeoutPolicy, WorkflowDef
from conductorlite.model.errors import AlreadyExists, InvalidInput, Severity
from conductorlite.model.executions import TaskResult, Workflow
from conductorlite.model.later import functions, inspect
from conductorlite.model.pickling import Shared, find_object, function_name
from conductorlite.model.texts import Span, did_you_mean, to_seconds, to_span
from conductorlite.model.threads import Mutex
from conductorlite.plan.validate import validate_task_def
from conductorlite.runtime.context import TaskContext

if TYPE_CHECKING:
    from conductorlite.model.typed import Reader, is_record, reader, refusal
else:
    is_record, reader, refusal = functions("conductorlite.model.typed", "is_record", "reader", "refusal")

__all__ = [
    "HasId",
    "HasWorkers",
    "Runnable",
    "Signature",
    "Startable",
    "Worker",
    "Workers",
    "all_workers",
    "annotations_of",
    "checked_type",
    "id_of",
    "own_name",
    "refuse_uncarried",
    "signature",
]

#: Annotations that are most frequent, and carried for certain.
_CARRIED: Final = frozenset({str, int, float, bool, dict, list, None, type(None), object})

#: Flags of code, as in `inspect`; the last one is of generators of both kinds.
_OPTIMIZED: Final = 0x01
_VARARGS: Final = 0x04
_VARKEYWORDS: Final = 0x08
_COROUTINE: Final = 0x80
_GENERATOR: Final = 0x220

#: A version of workers.
_VERSION: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

#: Types that have neither domain nor version: their tasks are the same for every worker.
_UNVERSIONED: Final = frozenset(TaskType) - {TaskType.SIMPLE, TaskType.DYNAMIC, TaskType.USER_DEFINED}

#: Says why a map does not fit what a person was asked for, given what the task has put out before; None when it does.
AnswerProblem: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], str | None]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class HasStart(Protocol[P, R_co]):
    """Something that an engine starts: a flow, or a task alone."""

    @property
    def workers(self) -> Workers:
        """The workers that carry out its tasks."""

    @property
    def definitions(self) -> Sequence[WorkflowDef]:
        """The definitions to register before it starts."""

    def starting(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, Any]:
        """The arguments with which `Engine.start` starts its definition; raises BuildError for wrong ones."""

    def read(self, output: Mapping[str, Any], /) -> R_co:
        """An execution's output as what the flow or the task returns."""


class Startable(HasStart[P, R_co], Protocol[P, R_co]):
    """A flow: what `Engine.start` takes besides a name or a definition."""

    @property
    def definition(self) -> WorkflowDef:
        """The definition that is carried out."""

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise InvalidInput for an input that its parameters do not take."""


class Runnable(Protocol[P, R_co]):
    """A task function: what `Engine.run_task` takes."""

    @property
    def alone(self) -> HasStart[P, R_co]:
        """The task as an execution of its own."""


class HasId(Protocol):
    """A handle on an execution, of any engine."""

    workflow_id: str


def id_of(execution: str | HasId) -> str:
    """The id of an execution that is given by that or by a handle."""
    return execution if isinstance(execution, str) else execution.workflow_id


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Signature:
    """Names a function takes (None: any), those it must get, and how each is read.

    `context` is the parameter that is given the context, `transaction` the one that is given the transaction, `whole` the one that
    is given the whole input: a parameter called `input`, annotated with a record (dataclass, TypedDict, attrs class, pydantic
    model), with none beside it but these two.
    `item` is the only parameter of a function, called otherwise: where the input does not name it, it is given the item of a list
    that a dynamic fork ran over, which Conductor calls `input`, or spreads if it is a map.
    """

    parameters: frozenset[str] | None
    required: frozenset[str]
    context: str | None = None
    transaction: str | None = None
    whole: str | None = None
    item: str | None = None
    readers: Mapping[str, Reader] = attrs.field(factory=dict, eq=False)
    is_async: bool = False

    def named(self, given: dict[str, Any]) -> dict[str, Any]:
        """An input by the names of the parameters: the item of a list that a dynamic fork runs over goes to `item`."""
        if self.item is None or self.item in given or "__index" not in given:
            return given
        return {self.item: given["input"] if "input" in given else {k: v for k, v in given.items() if k != "__index"}}

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments made of a task's input, without the context; raises InvalidInput naming every field."""
        if self.whole is not None:
            return {self.whole: self.readers[self.whole](given, self.whole)}
        arguments, takes = given, self.parameters
        if takes is not None and not takes.issuperset(given):
            arguments = {k: v for k, v in given.items() if k in takes}
        problems: list[str] = []
        for name, read in self.readers.items():
            if name not in arguments:
                continue
            if arguments[name] is None and name not in self.required and not _takes_null(read):
                # A reference to nothing is null in Conductor; a parameter with a default has said what nothing means.
                del arguments[name]
                continue
            try:
                arguments[name] = read(arguments[name], name)
            except InvalidInput as error:
                problems.append(str(error))
        if problems:
            raise InvalidInput("; ".join(problems))
        return arguments


def checked_type(task_type: str) -> str:
    """The type of tasks that a worker carries out; raises InvalidInput for what is no text."""
    if not isinstance(task_type, str) or not task_type.strip():
        raise InvalidInput(f"a worker's task type is a text, not {task_type!r:.80}")
    return task_type


def signature(function: Callable[..., Any]) -> Signature:
    """Read a function's parameters; raises InvalidInput for one that cannot be given by name, and for what is no function.

    Also for an annotation that cannot be resolved, and for one whose values cannot be carried as JSON.
    """
    inner = _checked(function)
    names: dict[str, Any] = {}
    required: set[str] = set()
    context, transaction, anything = None, None, False
    for name, kind, needed, hint in _parameters(function):
        if hint is TaskContext or hint in ("TaskContext", "conductorlite.TaskContext"):
            context = name
        elif hint == "Transaction" or (isinstance(hint, type) and issubclass(hint, OwnTransaction)):
            transaction = name
        elif kind == "VAR_KEYWORD":
            anything = True
        elif kind in ("POSITIONAL_ONLY", "VAR_POSITIONAL"):
            if kind == "POSITIONAL_ONLY" and needed:
                raise InvalidInput(f"parameter {name!r} is positional-only, but inputs are given by name")
        else:
            names[name] = hint
            if needed:
                required.add(name)
    refuse_uncarried(function, names)
    whole = "input" if list(names) == ["input"] and not anything and is_record(names["input"]) else None
    is_async = _is(_COROUTINE, inner)
    if transaction is not None and is_async:
        raise InvalidInput(f"{_shown(function)} takes a Transaction, which is its thread's: it cannot be a coroutine function")
    readers = {name: read for name, hint in names.items() if (read := reader(hint)) is not None}
    return Signature(
        parameters=None if anything else frozenset(names),
        required=frozenset(required) if whole is None else frozenset(),
        context=context,
        transaction=transaction,
        whole=whole,
        item=next(iter(names)) if len(names) == 1 and whole is None and not anything else None,
        readers=readers,
        is_async=is_async,
    )


def _parameters(function: Any) -> Iterator[tuple[str, str, bool, Any]]:
    """Yield the parameters of a function.

    Each is a name, kind as `inspect` calls it, whether it must be given, its type as far as that is known.
    """
    hints = annotations_of(function)
    if _is_plain(function):
        yield from _plain_parameters(function, hints)
        return
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        raise InvalidInput(f"{_shown(function)} does not show what it takes; wrap it in a function") from None
    for one in parameters:
        hint = hints.get(one.name, one.annotation)
        yield one.name, one.kind.name, one.default is one.empty, Any if hint is one.empty else hint


#: Annotations of functions some of which are known only where the functions were defined, by function.
_annotations: Final[WeakKeyDictionary[Any, Mapping[str, Any]]] = WeakKeyDictionary()

#: Annotations that are known by their names: who writes them may import them for type checkers only.
_BY_NAME: Final = frozenset({"TaskContext", "conductorlite.TaskContext", "Transaction", "conductorlite.Transaction"})


def annotations_of(function: Any) -> Mapping[str, Any]:
    """A function's annotations by the names of its parameters, and `return`.

    Raises InvalidInput for one that cannot be resolved, as when its name is imported for type checkers only.
    """
    routine = _is_plain(function) or inspect.isroutine(function)
    owner = function if routine else getattr(function, "__call__", function)  # noqa: B004
    try:
        return get_type_hints(owner)
    except Exception:
        try:
            known = _annotations.get(_inner(function))
        except TypeError:  # what cannot be referred to weakly
            known = None
    return _resolved(function, owner) if known is None else known


def _resolved(function: Any, owner: Any) -> Mapping[str, Any]:
    """The annotations one by one, also by what is known in the function that defines this one."""
    inner = inspect.unwrap(_inner(owner))
    inner = getattr(inner, "__func__", inner)
    local = _defining_locals(getattr(inner, "__code__", None))
    hints: dict[str, Any] = {}
    for name, annotation in getattr(inner, "__annotations__", {}).items():
        if isinstance(annotation, str) and annotation in _BY_NAME:
            hints[name] = annotation
            continue

        def holder() -> None: ...

        holder.__annotations__ = {name: annotation}
        try:
            hints |= get_type_hints(holder, getattr(inner, "__globals__", {}), local)
        except Exception as error:
            why = f"{error.name!r} is not known there" if isinstance(error, NameError) else str(error)
            raise InvalidInput(
                f"the annotation {annotation!r} of {_of_function(function, name)} cannot be resolved: {why}; "
                "import it at the top of the module, and not under `if TYPE_CHECKING:`"
            ) from None
    with suppress(TypeError):
        _annotations[_inner(function)] = hints
    return hints


def _defining_locals(code: object) -> dict[str, Any]:
    """The local names around a function that is being defined in another one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if code in frame.f_code.co_consts:
            found: dict[str, Any] = {}
            while frame is not None and frame.f_code.co_flags & _OPTIMIZED:
                found = {**frame.f_locals, **found}
                frame = frame.f_back
            return found
        frame = frame.f_back
    return {}


def refuse_uncarried(function: Any, kinds: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a parameter, or a result, whose values cannot be carried as JSON."""
    returns = annotations_of(function).get("return", Any)
    for name, kind in (*kinds.items(), ("return", Any if returns is TaskResult else returns)):
        if kind is Any or kind in _CARRIED or (said := refusal(kind)) is None:
            continue
        what = _of_function(function, name)
        raise InvalidInput(
            f"{what} cannot be carried as JSON: {said}. Annotate it with a type that can, say how the class is written and read by "
            "hooks of `conductorlite.converter()`, or write Any where it is JSON"
        )


def _of_function(function: Any, name: str) -> str:
    place = defined_at(_inner(function))
    return f"what {place} returns" if name == "return" else f"parameter {name!r} of {place}"


def _is_plain(function: object) -> bool:
    """Return True if a function shows all about itself, and `inspect` need not be imported (as slow as fifty other modules)."""
    return type(function) is FunctionType and not vars(function)


def _plain_parameters(function: FunctionType, hints: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, Any]]:
    code, defaults = function.__code__, function.__kwdefaults__ or {}
    count, optional = code.co_argcount, len(function.__defaults__ or ())
    whole = count + code.co_kwonlyargcount
    for at, name in enumerate(code.co_varnames[:whole]):
        kind = "POSITIONAL_ONLY" if at < code.co_posonlyargcount else "KEYWORD_ONLY" if at >= count else "POSITIONAL_OR_KEYWORD"
        yield name, kind, name not in defaults if at >= count else at < count - optional, hints.get(name, Any)
    more = [kind for flag, kind in ((_VARARGS, "VAR_POSITIONAL"), (_VARKEYWORDS, "VAR_KEYWORD")) if code.co_flags & flag]
    for name, kind in zip(code.co_varnames[whole:], more, strict=False):
        yield name, kind, True, hints.get(name, Any)


def _is(flag: int, function: Any) -> bool:
    """Return True if what is called is a coroutine function, or a generator."""
    if _is_plain(function):
        return bool(function.__code__.co_flags & flag)
    tests = (inspect.iscoroutinefunction,) if flag == _COROUTINE else (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(test(kind) for kind in (function, _called(function)) for test in tests)


def own_name(function: Callable[..., Any]) -> str:
    """The name a function was defined under; raises InvalidInput for what has none: a lambda, a partial, an object."""
    name = getattr(_inner(function), "__name__", None) if not isinstance(function, partial) else None
    if not isinstance(name, str) or name == "<lambda>":
        raise InvalidInput(f"{_shown(function)} has no name: give the task's type, as in @workers.task('charge')")
    return name


def _inner(function: Any) -> Any:
    """Return what is called in the end: below partials and a staticmethod."""
    while isinstance(function, partial | staticmethod):
        function = function.func if isinstance(function, partial) else function.__func__
    return function


def _called(function: Any) -> Any:
    return getattr(function, "__call__", None)  # noqa: B004


def _checked(function: Any) -> Any:
    """Return what is called in the end, if that is a function that an input can be given to."""
    inner = _inner(function)
    if isinstance(inner, type):
        raise InvalidInput(f"{_shown(inner)} is a class: register a function, or a method of an object of it")
    if isinstance(inner, classmethod) or not callable(inner):
        raise InvalidInput(f"{_shown(inner)} cannot be called: register a function")
    if _is(_GENERATOR, inner):
        raise InvalidInput(f"{_shown(inner)} is a generator function: return a list instead of yielding")
    if inner is function and isinstance(inner, FunctionType) and _is_method(inner):
        text = f"{_shown(inner)} is a method without its object: register the bound one, as in workers.add('charge', shop.charge)"
        raise InvalidInput(text)
    return inner


def _is_method(function: Any) -> bool:
    """Return True if a function is one of a class that is called with an object: by its qualified name and first parameter."""
    within = function.__qualname__.rpartition(".")[0]
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return bool(within) and not within.endswith("<locals>") and names[:1] in (("self",), ("cls",))


def _shown(function: Any) -> str:
    return f"{getattr(function, '__qualname__', function)!r:.120}"


def _takes_null(read: Reader) -> bool:
    try:
        read(None, "")
    except InvalidInput:
        return False
    return True


F = TypeVar("F", bound=Callable[..., Any])

#: Options of the decorator that are fields of a task definition, under Conductor's names.
_SECONDS: Final = {
    "rate_limit_frequency_seconds": "rate_limit_frequency_ms",
    "retry_delay_seconds": "retry_delay_ms",
    "max_retry_delay_seconds": "max_retry_delay_ms",
    "timeout_seconds": "timeout_ms",
    "total_timeout_seconds": "total_timeout_ms",
    "response_timeout_seconds": "response_timeout_ms",
    "poll_timeout_seconds": "poll_timeout_ms",
}

_CHOICES: Final[dict[str, Callable[[Any], Any]]] = {"retry_logic": RetryLogic, "timeout_policy": TimeoutPolicy}


@attrs.frozen(kw_only=True, slots=True)
class Worker(Shared):
    """One function for one task type."""

    task_type: str
    function: Callable[..., Any]
    signature: Signature
    concurrency: int | None = None
    heartbeat: bool = True
    domain: str | None = None
    task_def: TaskDef | None = None
    interceptors: tuple[Interceptor, ...] = ()

    #: Whether it is a coroutine function, which runs on an event loop instead of in a thread.
    is_async: bool = attrs.field(init=False, eq=False, repr=False)
    #: Where its tasks are offered.
    queue: str = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "is_async", self.signature.is_async)
        object.__setattr__(self, "queue", queue_name(self.task_type, self.domain))

    def __reduce__(self) -> tuple[Any, ...]:
        given = {
            name: getattr(self, name) for name in ("task_type", "concurrency", "heartbeat", "domain", "task_def", "interceptors")
        }
        if type(self.function) is FunctionType:
            return _worker_again, (given, function_name(self.function, f"the worker for {self.task_type!r}"))
        return _worker_again, (given, self.function)


def _worker_again(given: dict[str, Any], function: Any) -> Worker:
    function = find_object(*function) if isinstance(function, tuple) else function
    return Worker(**given, function=function, signature=signature(function))


class HasWorkers(Protocol):
    """A set of workers, a task function or a flow: what knows who carries it out."""

    @property
    def workers(self) -> Workers:
        """The functions."""


#: Held by the thread that adds to a set: of two that add at once neither must lose what the other one added.
_CHANGING: Final = Mutex()


class Workers:
    """A set of worker functions.

    `concurrency` limits how many run at once in one engine (None: 32 plain functions and 1,000 coroutines on the system clock, no
    limit on a virtual one). `worker_id` is the name on polled tasks, by default one that no other process has. `heartbeat=False`
    turns off the automatic extension of leases; a response timeout then means "took too long" instead of "is dead". `drain` is
    how long a stopping engine waits for running functions before it abandons their threads. `interceptors` wrap each call; see
    `EngineConfig`.

    With a `version` (1 to 64 letters, digits, `.`, `_`, `-`) the functions carry out the tasks of executions that an engine with
    this set has started, and of those of the versions that they `takes_over`; None among these stands for executions without a
    version. Functions with a domain of their own, and those of system types such as HTTP, have no version. A set that includes
    one with a version has that version: InvalidInput for another one.
    """

    def __init__(
        self,
        *,
        concurrency: int | None = None,
        worker_id: str | None = None,
        heartbeat: bool = True,
        drain: Span = "30s",
        interceptors: Iterable[Interceptor] = (),
        version: str | None = None,
        takes_over: Iterable[str | None] = (),
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise InvalidInput(f"concurrency {concurrency} is below 1")
        if isinstance(takes_over, str):
            raise InvalidInput(f"takes_over is a list of versions, such as [{takes_over!r}]")
        self.takes_over = tuple(takes_over)
        for one in (version, *self.takes_over):
            if one is not None and (not isinstance(one, str) or not _VERSION.fullmatch(one)):
                raise InvalidInput(f"a version of workers is a text of 1 to 64 letters, digits, '.', '_' or '-', not {one!r:.80}")
        if self.takes_over and version is None:
            raise InvalidInput("takes_over says which versions this one takes over: say the version too, Workers(version=…)")
        self.version = version
        #: What an execution is started with, so that it keeps to this version.
        self.start_domains: Mapping[str, str] = {} if version is None else {"*": version_domain(version)}
        self.concurrency = concurrency
        self.worker_id = worker_id
        self.heartbeat = heartbeat
        self.drain_ms = to_span(drain)
        self.interceptors = checked_interceptors(interceptors)
        #: Another one after each change: who reads it goes on with what it was.
        self.by_queue: dict[str, Worker] = {}
        #: The flows that were included, by name and version.
        self.flows: dict[tuple[str, int], Any] = {}
        #: The flows that were started besides, the last one of each name and version.
        self._started: dict[tuple[str, int], Any] = {}
        #: What is wrong with an answer of a person, by the names of a workflow and of a step: see `human`. None: it may be any.
        self.answers: dict[tuple[str, str], AnswerProblem | None] = {}
        #: What finds where the steps of a flow are written, `pay.py:41`, by the names of a workflow and of a step; what it found.
        self.written: tuple[Callable[[], Mapping[tuple[str, str], str]], ...] = ()
        self._lines: tuple[int, dict[tuple[str, str], str]] = (0, {})
        #: The flow that a definition was found to be that of, by the definition's hash.
        self._same: dict[str, Any] = {}

    @overload
    def task(self, name: F, /) -> F: ...

    @overload
    def task(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        heartbeat: bool = True,
        domain: str | None = None,
        **options: Any,
    ) -> Callable[[F], F]: ...

    def task(
        self,
        name: F | str | None = None,
        *,
        concurrency: int | None = None,
        heartbeat: bool = True,
        domain: str | None = None,
        **options: Any,
    ) -> F | Callable[[F], F]:
        """Decorate a function to carry out tasks of type `name` (default: its own name); parentheses are optional.

        Keyword arguments come from the task's input by name, read as their annotations say; a parameter annotated
        `TaskContext` gets the context, one annotated `Transaction` a transaction that the report belongs to. The returned
        dict or record is the output (another value is put under "result"). An
        `async def` runs on an event loop: the caller's in an AsyncEngine, a private one in an Engine. What it raises fails the
        task and is retried; `TaskFailedTerminally` is not. `options` make a task definition, used where none is registered or
        embedded: the fields of `TaskDef`, and its lengths of time under Conductor's names: retry_delay_seconds,
        max_retry_delay_seconds, timeout_seconds, total_timeout_seconds, response_timeout_seconds, poll_timeout_seconds,
        rate_limit_frequency_seconds.
        Raises InvalidInput for an unknown or wrong option, and for what is no function that can be called with an input;
        AlreadyExists for a second function of the same type.
        """
        if name is not None and not isinstance(name, str):
            return self.task()(name)

        def register(function: F) -> F:
            task_type = name or own_name(function)
            self.add(
                task_type,
                function,
                concurrency=concurrency,
                heartbeat=heartbeat,
                domain=domain,
                task_def=_task_def(task_type, options) if options else None,
            )
            return function

        return register

    def add(
        self,
        task_type: str,
        function: Callable[..., Any],
        *,
        concurrency: int | None = None,
        heartbeat: bool = True,
        domain: str | None = None,
        task_def: TaskDef | None = None,
    ) -> None:
        """Add a function that carries out tasks of a type; raises as `task` does."""
        if concurrency is not None and concurrency < 1:
            raise InvalidInput(f"worker {task_type!r}: concurrency {concurrency} is below 1")
        worker = Worker(
            task_type=checked_type(task_type),
            function=function,
            signature=signature(function),
            concurrency=concurrency,
            heartbeat=heartbeat and self.heartbeat,
            domain=domain,
            task_def=task_def,
            interceptors=self.interceptors,
        )
        self._put([worker], once=True)

    def _put(self, workers: Iterable[Worker], *, once: bool) -> None:
        with _CHANGING.held():
            for worker in (one for given in workers for one in self._of_versions(given)):
                known = self.by_queue.get(worker.queue)
                if known is not None and (once or known != worker):
                    places = f"{defined_at(known.function)} and {defined_at(worker.function)}"
                    raise AlreadyExists(f"two workers for {worker.queue!r}: {places}; give one of them another name")
                self.by_queue = {**self.by_queue, worker.queue: worker}

    def include(self, *others: HasWorkers) -> Workers:
        """Take over the functions of other sets, of tasks and of flows, and return self.

        A flow is kept too: an engine that is made with these workers registers it, so that it can be started by its name.
        Raises AlreadyExists when there is another function for the same tasks, or another flow of the same name, and InvalidInput
        for a function that is neither a task nor a flow.
        """
        for other in others:
            if isinstance(other, type) or not hasattr(other, "workers"):
                raise InvalidInput(_no_workers(other))
        for other in others:
            self._agree(other.workers)
        self._take(others)
        for other in others:
            for flow in other.flows.values() if isinstance(other, Workers) else [other] if hasattr(other, "starting") else ():
                self._keep(flow)
        return self

    def _agree(self, other: Workers) -> None:
        """Have the version of another set; the functions that are here already have it then, too."""
        if other.version is None or (other.version, other.takes_over) == (self.version, self.takes_over):
            return
        if self.version is not None:
            raise InvalidInput(f"workers of version {self.version} cannot include workers of version {other.version}")
        with _CHANGING.held():
            self.version, self.takes_over, self.start_domains = other.version, other.takes_over, other.start_domains
            self.by_queue = {one.queue: one for worker in self.by_queue.values() for one in self._of_versions(worker)}

    def _of_versions(self, worker: Worker) -> Iterator[Worker]:
        """A worker for each version that it carries out the tasks of."""
        if self.version is None or worker.domain or worker.task_type in _UNVERSIONED:
            yield worker
            return
        for version in dict.fromkeys((self.version, *self.takes_over)):
            yield worker if version is None else attrs.evolve(worker, domain=version_domain(version))

    def _take(self, others: Sequence[HasWorkers]) -> None:
        for other in others:
            if not other.workers.answers.items() <= self.answers.items():
                self.answers = {**self.answers, **other.workers.answers}
            if other.workers.written:
                self.written += tuple(one for one in other.workers.written if one not in self.written)
        new = [worker for other in others for worker in other.workers if self.by_queue.get(worker.queue) != worker]
        if self.version is not None:
            new = [one for worker in new for one in self._of_versions(worker) if self.by_queue.get(one.queue) != one]
        if new:
            self._put(new, once=False)

    def _keep(self, flow: Any) -> None:
        place = (flow.definition.name, flow.definition.version)
        with _CHANGING.held():
            _refuse_another(self.flows.get(place), flow)
            self.flows = {**self.flows, place: flow}

    def adopt(self, flow: HasWorkers) -> None:
        """Take over the functions of a flow, or of a task alone, that is started; raises AlreadyExists as `include` does.

        A function that is defined again in its place, as in a notebook, is another version of the same flow.
        """
        self._take([flow])
        definition: WorkflowDef | None = getattr(flow, "definition", None)
        if definition is None:  # a task alone, which is not read by its name
            return
        place = (definition.name, definition.version)
        known = self._started.get(place)
        if known is flow:
            return
        with _CHANGING.held():
            _refuse_another(self.flows.get(place), flow)
            if known is not None and _home(known) != _home(flow):
                _refuse_another(known, flow)
            self._started[place] = flow

    def flow_of(self, name: str, version: int) -> Startable[..., Any] | None:
        """The flow with a name and a version that was started, or included; None where there is none."""
        place = (name, version)
        found: Startable[..., Any] | None = self._started.get(place) or self.flows.get(place)
        return found

    def check_input(self, definition: WorkflowDef, digest: str, given: Payload) -> None:
        """Raise InvalidInput where a definition is that of a flow, and an input does not fit the flow's parameters."""
        place = (definition.name, definition.version)
        flow: Any = self._started.get(place) or self.flows.get(place)
        if flow is None:
            return
        if self._same.get(digest) is not flow:
            if _outline(flow.definition) != _outline(definition):
                return
            self._same = {**self._same, digest: flow}
        flow.check(given.value)

    def answer_problem(self, workflow: Workflow, ref: str, before: Mapping[str, Any], output: Mapping[str, Any]) -> str | None:
        """Why an output does not fit what a HUMAN asks for, with what was put out before; None when it does."""
        problem = self.answers.get((workflow.name, ref))
        return None if problem is None else problem(before, output)

    def line_of(self, workflow: str, ref: str) -> str | None:
        """Return where a step of a flow is written, `pay.py:41`, for an item of a list its `each`; None where that is not known."""
        written = self.written
        if self._lines[0] != len(written):
            self._lines = (len(written), {key: line for find in written for key, line in find().items()})
        lines, (base, _, number) = self._lines[1], ref.rpartition("_")
        of_items = f"each_{base.lstrip('_')}" if number.isdigit() else ref
        return lines.get((workflow, ref)) or lines.get((workflow, of_items))

    @property
    def workers(self) -> Workers:
        """This set: it is given wherever a flow or a task function can be."""
        return self

    def get(self, queue: str) -> Worker | None:
        """The worker of a queue, or None."""
        return self.by_queue.get(queue)

    def __iter__(self) -> Iterator[Worker]:
        return iter(tuple(self.by_queue.values()))

    def __len__(self) -> int:
        return len(self.by_queue)

    @property
    def task_types(self) -> frozenset[str]:
        """The task types that are carried out, in whatever domain."""
        return frozenset(worker.task_type for worker in self)

    @property
    def task_defs(self) -> dict[str, TaskDef]:
        """Task definitions the decorators gave, by name."""
        return {worker.task_type: worker.task_def for worker in self if worker.task_def is not None}


def _refuse_another(known: Any, flow: Any) -> None:
    if known is not None and known is not flow and known.definition != flow.definition:
        places = f"{defined_at(known.function)} and {defined_at(flow.function)}"
        raise AlreadyExists(
            f"two flows are called {flow.definition.name!r}: {places}; give one of them another name, @flow(name=…)"
        )


def _outline(definition: WorkflowDef) -> list[tuple[str, str, str]]:
    """The steps of a definition, without what is embedded in them when it is started."""
    return [(one.task_reference_name, one.name, str(one.type)) for one in definition.tasks]


def _home(flow: Any) -> tuple[str, str]:
    function = flow.function
    return function.__module__, function.__qualname__


def all_workers(given: HasWorkers | Iterable[HasWorkers] | None) -> Workers:
    """One set of what is given wherever workers are: a set, a flow, a task function, or several of these; raises AlreadyExists."""
    if isinstance(given, Workers):
        return given
    if isinstance(given, str):
        raise InvalidInput(_no_workers(given))
    several: Iterable[HasWorkers] = () if given is None else given if isinstance(given, Iterable) else (given,)
    return Workers().include(*several)


def defined_at(function: Callable[..., Any]) -> str:
    """Return where a function is defined, for people: its module and name, its file and line."""
    function = inspect.unwrap(function)
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def _no_workers(given: object) -> str:
    """Return what to say of something that is given as workers and has none."""
    if isinstance(given, FunctionType):
        return f"{given.__name__!r} is a plain function ({defined_at(given)}); decorate it with @task or @flow"
    itself = ": give the function itself, not its name" if isinstance(given, str) else ""
    return f"workers are Workers, tasks and flows, not {given!r:.80}{itself}"


def refuse_decorated(function: Any, decorator: str) -> None:
    """Raise InvalidInput where what a decorator is given is a task or a flow already."""
    if isinstance(getattr(function, "workers", None), Workers):
        kind = "a flow" if hasattr(function, "starting") else "a task"
        raise InvalidInput(f"{defined_at(function.function)} is {kind} already: remove {decorator}")


def not_startable(given: object) -> str:
    """Return what to say of something that `start` is given and that cannot be started."""
    if hasattr(given, "alone"):
        return f"{given!r:.80}: run_task() starts a task alone"
    if isinstance(given, FunctionType):
        return f"the plain function {defined_at(given)}: decorate it with @flow"
    return f"{given!r:.80}"


def _task_def(name: str, options: dict[str, Any]) -> TaskDef:
    fields: dict[str, Any] = {}
    known = {field.name for field in attrs.fields(TaskDef)} - {"name", "extra"}
    for option, value in options.items():
        field = _SECONDS.get(option, option)
        if field not in known:
            raise InvalidInput(f"worker {name!r}: there is no option {option!r}{did_you_mean(option, (*known, *_SECONDS))}")
        if field in fields:
            raise InvalidInput(f"worker {name!r}: {option} says what another option has said already")
        try:
            fields[field] = to_seconds(value) if option in _SECONDS else _CHOICES[option](value) if option in _CHOICES else value
        except ValueError as error:
            raise InvalidInput(f"worker {name!r}: {option}: {error}") from None
    try:
        made = TaskDef(name=name, **fields)
    except (InvalidInput, TypeError) as error:
        raise InvalidInput(f"worker {name!r}: {error}") from None
    wrong = [problem for problem in validate_task_def(made) if problem.severity is Severity.ERROR]
    if wrong:
        raise InvalidInput(f"worker {name!r}: " + "; ".join(f"{problem.path[2:]} {problem.message}" for problem in wrong))
    return made
