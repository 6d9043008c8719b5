"""Readers for tests of `decide`: rows given by hand, answers recorded and given again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from conductorlite.decide.changeset.reader import Reader
from conductorlite.language.values import Json
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Embedding, Event
from conductorlite.model.errors import ConductorliteError
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.limits import Limit, Line, Member
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.plan.compile import Plan

__all__ = ["NotRecorded", "RecordingReader", "ReplayReader", "RowsReader"]

V = TypeVar("V")

_NONE: Final[Mapping[Any, Any]] = {}


class RowsReader:
    """Answers from rows in memory: `tasks` by printed reference are all the last attempts there are.

    `scripts` are answers by seed; a script that has none is carried out. `plans` are by hash, and by the hashes of what has grown
    into them: `(hash, *grafts)`. What was not given does not exist: a limit has no members, a definition cannot be found.
    """

    #: It is asked for all the same, as a test may look at that.
    at_hand = False

    def __init__(
        self,
        workflow: Workflow,
        tasks: Mapping[str, Task] = _NONE,
        *,
        payloads: Iterable[Payload] = (),
        inbox: Sequence[Event] = (),
        messages: Sequence[WorkflowMessage] = (),
        limits: Mapping[str, Line] = _NONE,
        members: Iterable[Member] = (),
        polls: Mapping[str, Mapping[str, int]] = _NONE,
        definitions: Mapping[tuple[str, int | None], str] = _NONE,
        plans: Mapping[tuple[str, ...], Plan] = _NONE,
        scripts: Mapping[str, Json] = _NONE,
    ) -> None:
        self.workflow = workflow
        self._tasks = dict(tasks)
        self._payloads = {payload.digest: payload for payload in payloads}
        self._inbox = tuple(inbox)
        self._messages = tuple(messages)
        self._limits = dict(limits)
        self._members = {(member.key, member.holder): member for member in members}
        self._polls = dict(polls)
        self._definitions = dict(definitions)
        self._plans = dict(plans)
        self._scripts = dict(scripts)

    def prefetch(self, **wanted: object) -> None:
        """Nothing: everything is at hand."""

    def task(self, ref: str) -> Task | None:
        """See `Reader.task`."""
        return self._tasks.get(ref)

    def tasks(self, refs: Sequence[str]) -> Sequence[Task | None]:
        """See `Reader.tasks`."""
        return [self._tasks.get(ref) for ref in refs]

    def latest(self, base_ref: str) -> Task | None:
        """See `Reader.latest`."""
        return max((task for task in self._tasks.values() if task.base_ref == base_ref), key=lambda task: task.seq, default=None)

    def ref_of(self, task_id: str) -> str | None:
        """See `Reader.ref_of`."""
        return next((ref for ref, task in self._tasks.items() if task.task_id == task_id), None)

    def live(self) -> Sequence[Task]:
        """See `Reader.live`."""
        return [task for task in self._tasks.values() if task.live]

    def failed(self) -> Sequence[Task]:
        """See `Reader.failed`."""
        return [task for task in self._tasks.values() if task.failed]

    def everything(self) -> Sequence[Task]:
        """See `Reader.everything`."""
        return list(self._tasks.values())

    def payload(self, payload: Payload) -> Payload:
        """See `Reader.payload`; raises KeyError for one that was not given."""
        return payload if payload.text is not None else self._payloads[payload.digest]

    def inbox(self) -> Sequence[Event]:
        """See `Reader.inbox`."""
        return self._inbox

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        """See `Reader.message`."""
        return next((one for one in self._messages if (one.topic, one.key) == (topic, key)), None)

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        """See `Reader.unreceived`."""
        return [one for one in self._messages if one.topic == topic and one.receiver is None][:limit]

    def messages(self) -> Sequence[WorkflowMessage]:
        """See `Reader.messages`."""
        return self._messages

    def left(self, event: Event) -> int:
        """0: every timeout counts by the clock."""
        return 0

    def limit(self, key: str, heads: int) -> Line:
        """See `Reader.limit`."""
        return self._limits.get(key) or Line(limit=Limit(key=key))

    def member(self, key: str, holder: str) -> Member | None:
        """See `Reader.member`."""
        return self._members.get((key, holder))

    def polls(self, task_type: str) -> Mapping[str, int]:
        """See `Reader.polls`."""
        return self._polls.get(task_type, _NONE)

    def definition(self, name: str, version: int | None) -> str | None:
        """See `Reader.definition`."""
        return self._definitions.get((name, version))

    def embedding(self, name: str, definition: object) -> Embedding:
        """Return an embedding that says that nothing embeds it."""
        return Embedding(problem="nothing embeds definitions")

    def plan(self, definition_hash: str, grafts: tuple[str, ...] = ()) -> Plan:
        """See `Reader.plan`; raises KeyError for one that was not given."""
        return self._plans[(definition_hash, *grafts)]

    def script(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """See `Reader.script`."""
        return self._scripts[seed] if seed in self._scripts else ask()


class NotRecorded(LookupError):
    """A replayed reader was asked what the recorded one was not."""


#: What was asked: the call, and what names the answer.
_Asked = tuple[str, *tuple[Any, ...]]


class _Answers:
    """Every call of a `Reader` as one question."""

    workflow: Workflow
    at_hand = False

    def _answer(self, asked: _Asked, ask: Callable[[Reader], V]) -> V:
        raise NotImplementedError

    def task(self, ref: str) -> Task | None:
        """See `Reader.task`."""
        return self._answer(("task", ref), lambda reader: reader.task(ref))

    def tasks(self, refs: Sequence[str]) -> Sequence[Task | None]:
        """See `Reader.tasks`."""
        return [self.task(ref) for ref in refs]

    def latest(self, base_ref: str) -> Task | None:
        """See `Reader.latest`."""
        return self._answer(("latest", base_ref), lambda reader: reader.latest(base_ref))

    def ref_of(self, task_id: str) -> str | None:
        """See `Reader.ref_of`."""
        return self._answer(("ref_of", task_id), lambda reader: reader.ref_of(task_id))

    def live(self) -> Sequence[Task]:
        """See `Reader.live`."""
        return self._answer(("live",), lambda reader: tuple(reader.live()))

    def failed(self) -> Sequence[Task]:
        """See `Reader.failed`."""
        return self._answer(("failed",), lambda reader: tuple(reader.failed()))

    def everything(self) -> Sequence[Task]:
        """See `Reader.everything`."""
        return self._answer(("everything",), lambda reader: tuple(reader.everything()))

    def payload(self, payload: Payload) -> Payload:
        """See `Reader.payload`."""
        if payload.text is not None:
            return payload
        return self._answer(("payload", payload.digest), lambda reader: reader.payload(payload))

    def inbox(self) -> Sequence[Event]:
        """See `Reader.inbox`."""
        return self._answer(("inbox",), lambda reader: tuple(reader.inbox()))

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        """See `Reader.message`."""
        return self._answer(("message", topic, key), lambda reader: reader.message(topic, key))

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        """See `Reader.unreceived`."""
        return self._answer(("unreceived", topic, limit), lambda reader: tuple(reader.unreceived(topic, limit)))

    def messages(self) -> Sequence[WorkflowMessage]:
        """See `Reader.messages`."""
        return self._answer(("messages",), lambda reader: tuple(reader.messages()))

    def left(self, event: Event) -> int:
        """See `Reader.left`."""
        return self._answer(("left", event.event_id), lambda reader: reader.left(event))

    def limit(self, key: str, heads: int) -> Line:
        """See `Reader.limit`."""
        return self._answer(("limit", key, heads), lambda reader: reader.limit(key, heads))

    def member(self, key: str, holder: str) -> Member | None:
        """See `Reader.member`."""
        return self._answer(("member", key, holder), lambda reader: reader.member(key, holder))

    def polls(self, task_type: str) -> Mapping[str, int]:
        """See `Reader.polls`."""
        return self._answer(("polls", task_type), lambda reader: reader.polls(task_type))

    def definition(self, name: str, version: int | None) -> str | None:
        """See `Reader.definition`."""
        return self._answer(("definition", name, version), lambda reader: reader.definition(name, version))

    def embedding(self, name: str, definition: object) -> Embedding:
        """See `Reader.embedding`."""
        return self._answer(("embedding", name), lambda reader: reader.embedding(name, definition))

    def plan(self, definition_hash: str, grafts: tuple[str, ...] = ()) -> Plan:
        """See `Reader.plan`."""
        return self._answer(("plan", definition_hash, grafts), lambda reader: reader.plan(definition_hash, grafts))

    def script(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """See `Reader.script`."""
        return self._answer(("script", seed), lambda reader: reader.script(seed, values, now, ask))


class RecordingReader(_Answers):
    """Asks another reader, and keeps what it answered, refusals included: `answers`, by what was asked."""

    def __init__(self, reader: Reader) -> None:
        self.workflow = reader.workflow
        self.answers: dict[_Asked, Any] = {}
        self._reader = reader

    def prefetch(self, **wanted: Any) -> None:
        """Passed on, and not kept: it answers nothing."""
        self._reader.prefetch(**wanted)

    def tasks(self, refs: Sequence[str]) -> Sequence[Task | None]:
        """See `Reader.tasks`."""
        found = self._reader.tasks(refs)
        self.answers.update((("task", ref), task) for ref, task in zip(refs, found, strict=True))
        return found

    def _answer(self, asked: _Asked, ask: Callable[[Reader], V]) -> V:
        try:
            self.answers[asked] = found = ask(self._reader)
        except ConductorliteError as error:
            self.answers[asked] = error
            raise
        return found

    @property
    def rows(self) -> int:
        """Number of rows of tasks that the answers hold, each once, and how often there was none."""
        held: set[str] = set()
        absent = 0
        for (call, *_), answer in self.answers.items():
            if call in ("task", "latest"):
                if answer is None:
                    absent += 1
                else:
                    held.add(answer.ref)
            elif call in ("live", "failed", "everything") and not isinstance(answer, ConductorliteError):
                held.update(task.ref for task in answer)
        return len(held) + absent

    def replay(self) -> ReplayReader:
        """A reader that knows these answers, and nothing else."""
        return ReplayReader(self.workflow, self.answers)


class ReplayReader(_Answers):
    """Gives recorded answers again; raises NotRecorded for everything else."""

    def __init__(self, workflow: Workflow, answers: Mapping[_Asked, Any]) -> None:
        self.workflow = workflow
        self._known = dict(answers)

    def prefetch(self, **wanted: object) -> None:
        """Nothing: what is known is at hand."""

    def _answer(self, asked: _Asked, ask: Callable[[Reader], V]) -> V:
        try:
            found: V | ConductorliteError = self._known[asked]
        except KeyError:
            raise NotRecorded(f"it was not asked before: {asked}") from None
        if isinstance(found, ConductorliteError):
            raise found.with_traceback(None)
        return found
