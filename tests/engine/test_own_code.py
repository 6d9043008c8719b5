"""Code of the user's that the driver calls: whatever it raises, wherever, is logged, and the driver goes on.

Listeners, sources of messages, indexes, locks, payload storages and codecs, providers of secrets, handlers and filters of logging.
Worker functions are in `test_workers.py`, the store itself in `test_outages.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from engine_kit import flow, simple

from conductorlite import (
    Barriers,
    Engine,
    EngineConfig,
    EventAction,
    EventHandler,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.errors import EngineClosed, StorageCorrupt, WouldDeadlock
from conductorlite.ext.sinks import MemoryQueue
from conductorlite.model.handlers import StartWorkflow
from conductorlite.store.locks import InProcessLock
from conductorlite.store.payloads import MemoryPayloads
from conductorlite.store.ports import EventMessage
from conductorlite.testing import MemoryIndex


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


#: What it raises: of any kind, of ours that would end a driver if it came from the store, and without a text.
ERRORS = (ZeroDivisionError("own"), EngineClosed("own"), StorageCorrupt("own"), WouldDeadlock("own"), Unprintable())

#: How often each is raised before it works again.
TIMES = 2


class Raising:
    """Something of the user's whose one method raises errors at first. Everything else is that of what it wraps."""

    def __init__(self, inner: object, method: str, errors: tuple[Exception, ...]) -> None:
        self._inner = inner
        self._method = method
        self._errors = list(errors)
        self._good = 0
        self.raised = 0

    def fail(self, errors: tuple[Exception, ...], after: int) -> None:
        """Raise these errors, after so many calls that are good."""
        self._errors, self._good = list(errors), after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._method:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._good -= 1
            if self._errors and self._good < 0:
                self.raised += 1
                raise self._errors.pop()
            return found(*args, **kwargs)

        return call


class Source(Raising):
    """A protocol that is looked at while it runs wants to see its methods."""

    def poll(self, limit: int) -> Any:
        return self.__getattr__("poll")(limit)

    def ack(self, message: EventMessage) -> None:
        self.__getattr__("ack")(message)

    def reject(self, message: EventMessage, reason: str) -> None:
        self.__getattr__("reject")(message, reason)


class Codec:
    key_id = "k"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes, key_id: str) -> bytes:
        return data[::-1]


class Handler(logging.Handler):
    """One that raises out of `emit`, as one of the user's own may."""

    raised = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.raised += 1
        raise ZeroDivisionError("handler")


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> VirtualClock | None:
    """Real time or virtual time."""
    return VirtualClock(0) if request.param == "virtual" else None


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What is logged, as text."""

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(f"{record.name}: {self.format(record)}")

    texts: list[str] = []
    logger, handler = logging.getLogger("conductorlite"), Keeping()
    logger.addHandler(handler)
    yield texts
    logger.removeHandler(handler)


CLOCKS = pytest.mark.parametrize("clock", ["real", "virtual"], indirect=True)
EACH = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)

LATER = WorkflowDef(name="later", tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP")])


def goes_on(clock: VirtualClock | None, begun: Callable[[], None] | None = None, **options: Any) -> None:
    """An execution of two tasks comes to its end, without a task being called twice; `begun` is called in the first one."""
    workers, called = Workers(), []

    @workers.task()
    def a() -> dict[str, str]:
        called.append("a")
        if begun is not None:
            begun()
        return {"large": "x" * 4_000}

    @workers.task()
    def b(large: str) -> None:
        called.append(large[:1])

    with Engine(workers=workers, clock=clock, **options) as engine:
        run = engine.start(flow(simple("a"), simple("b", input_parameters={"large": "${a.output.large}"})))
        assert engine.run_until_idle("1m")
        assert (str(run.status), called, engine.admin.check()) == ("COMPLETED", ["a", "x"], [])


@CLOCKS
@EACH
def test_a_listener(clock: VirtualClock | None, error: Exception, told: list[str]) -> None:
    """It is told with its traceback each time, the verb returns, the driver goes on, and the next listener hears it too."""
    workers, heard = Workers(), []
    workers.add("a", lambda: None)

    def raises(*_: object) -> None:
        raise error

    with Engine(workers=workers, clock=clock) as engine:
        engine.listen(raises)
        engine.listen(lambda workflow, _: heard.append(str(workflow.status)))
        run = engine.start(flow(simple("a")), workflow_id="w")
        assert engine.run_until_idle("1m")
        assert (str(run.status), heard[-1], len(heard) > 1) == ("COMPLETED", "COMPLETED", True)
    ours = [text for text in told if text.startswith("conductorlite.listeners: flow (w): a listener raised ")]
    assert len(ours) == len(heard)
    assert all(type(error).__name__ in text and "in raises" in text for text in ours)


def test_an_interruption_of_a_listener_is_one() -> None:
    """KeyboardInterrupt and the like reach whoever drives."""

    def raises(*_: object) -> None:
        raise KeyboardInterrupt

    with Engine(clock=VirtualClock(0)) as engine:
        engine.listen(raises)
        with pytest.raises(KeyboardInterrupt):
            engine.start(LATER)


@pytest.mark.parametrize("method", ["poll", "ack", "reject"])
@EACH
def test_a_source(method: str, error: Exception, told: list[str]) -> None:
    """It is left alone for a second; its messages act once, and those of others come meanwhile."""
    queue, other = MemoryQueue(), MemoryQueue()
    source = Source(queue, method, (error,) * TIMES)
    with Engine(clock=VirtualClock(0), config=EngineConfig(event_sources=[source, other])) as engine:
        engine.register(LATER)
        action = EventAction(action="start_workflow", start_workflow=StartWorkflow(name="later", input={}))
        engine.events.register(EventHandler(name="h", event="e", actions=[action], active=True))
        queue.publish("e", {}, message_id="")
        queue.publish("e", {}, message_id="m1")
        other.publish("e", {}, message_id="m2")
        engine.settle()
        assert other.messages == ()
        for _ in range(TIMES):
            engine.advance("1s")
        assert (source.raised, queue.messages, len(engine.executions("later"))) == (TIMES, (), 2)
    ours = [text for text in told if text.startswith("conductorlite.store: event source Source: ")]
    assert len(ours) == TIMES
    assert all(type(error).__name__ in text for text in ours)


def test_a_source_of_something_else(told: list[str]) -> None:
    """What is no message is told like a source that is away."""

    class Odd(MemoryQueue):
        def poll(self, limit: int) -> Any:
            return [{"event": "e"}]

    with Engine(clock=VirtualClock(0), config=EngineConfig(event_sources=[Odd()])) as engine:
        engine.settle()
    assert "poll() gave a dict among its messages, not an EventMessage" in told[0]


@CLOCKS
@EACH
def test_an_index(clock: VirtualClock | None, error: Exception) -> None:
    """Executions go on without it."""
    goes_on(clock, index=Raising(MemoryIndex(), "changing", (error,) * TIMES))


@pytest.mark.parametrize("method", ["try_acquire", "release"])
@CLOCKS
def test_a_lock(clock: VirtualClock | None, method: str) -> None:
    """Turns are taken under the fence."""
    errors = tuple(error for error in ERRORS if not isinstance(error, EngineClosed)) * TIMES
    goes_on(clock, config=EngineConfig(lock=Raising(InProcessLock(), method, errors)))


SMALL = Barriers(task_input_payload_size_threshold=1, task_output_payload_size_threshold=1)

#: Of these errors the storage may raise some that say of a document what they say of any: that it is damaged.
PASSING = tuple(error for error in ERRORS if isinstance(error, ZeroDivisionError | Unprintable))


@pytest.mark.parametrize("method", ["put", "get"])
def test_a_payload_storage(method: str) -> None:
    """It is asked again as long as it says nothing that lasts."""
    goes_on(None, payloads=Raising(MemoryPayloads(), method, PASSING), config=EngineConfig(bounds=Bounds(barriers=SMALL)))


@pytest.mark.parametrize("after", range(4))
def test_a_payload_codec(after: int) -> None:
    """The same when a row or a document cannot be encoded, once the execution was started."""
    codec = Raising(Codec(), "encode", ())
    config = EngineConfig(payload_codec=codec, bounds=Bounds(barriers=SMALL))
    goes_on(None, lambda: codec.fail(PASSING, after), payloads=MemoryPayloads(), config=config)
    assert codec.raised == len(PASSING)


@CLOCKS
def test_a_provider_of_secrets(clock: VirtualClock | None) -> None:
    """The attempt fails, and is tried again."""
    workers, seen = Workers(), []
    workers.add("a", lambda key: seen.append(key))
    secrets = Raising({"K": "value"}, "get", ERRORS)
    with Engine(workers=workers, clock=clock, secrets=secrets) as engine:  # type: ignore[arg-type]
        run = engine.start(
            flow(simple("a", {"retry_count": 9, "retry_delay_ms": 0}, input_parameters={"key": "${workflow.secrets.K}"}))
        )
        assert engine.run_until_idle("1m")
        assert (str(run.status), seen, len(run.workflow.tasks)) == ("COMPLETED", ["value"], len(ERRORS) + 1)


def _fails(engine: Engine) -> None:
    engine.start(flow(simple("gone", {"retry_count": 0})))


@pytest.mark.parametrize("kind", ["handler", "filter"])
@CLOCKS
def test_a_handler_of_logging(clock: VirtualClock | None, kind: str) -> None:
    """Whatever is told at whatever place: turns, failures, listeners, sources, a lock and an index that fail."""
    handler = Handler()
    logger = logging.getLogger("conductorlite")
    keep: Callable[[logging.LogRecord], bool] = lambda record: handler.emit(record) is None  # noqa: E731
    level = logger.level
    logger.setLevel(logging.DEBUG)
    handlers: Any = (logger.addHandler, logger.removeHandler, handler) if kind == "handler" else None
    add, remove, what = handlers or (logger.addFilter, logger.removeFilter, keep)
    add(what)
    try:
        lock = Raising(InProcessLock(), "try_acquire", (ZeroDivisionError(),))
        source = Source(MemoryQueue(), "poll", (ZeroDivisionError(),))
        goes_on(clock, config=EngineConfig(lock=lock, event_sources=[source]))
    finally:
        remove(what)
        logger.setLevel(level)
    assert handler.raised
