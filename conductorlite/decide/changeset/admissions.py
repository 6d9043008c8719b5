"""Operations of a turn on limits: ask for a slot, give one back, and choose the next member."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.decide.changeset.events import Events
from conductorlite.decide.changeset.journal import Journal
from conductorlite.decide.changeset.reader import Reader
from conductorlite.decide.changeset.work_list import WorkList
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Admission, Event, EventKind
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import Workflow
from conductorlite.model.later import functions
from conductorlite.model.limits import Limit, LimitChange, Line, Member, MemberState, Terms, admission
from conductorlite.model.threads import cached_property

if TYPE_CHECKING:
    from conductorlite.model.fairness import charge, pay_back, spend
else:
    charge, pay_back, spend = functions("conductorlite.model.fairness", "charge", "pay_back", "spend")

__all__ = ["Admissions"]

#: Heads of each lane of a line that are read at first; four times as many when they do not suffice.
_HEADS: Final = 4


class _Books:
    """Data that a turn which has asked limits for something knows of them."""

    def __init__(self) -> None:
        #: Members as this turn leaves them; None: removed.
        self.members: dict[tuple[str, str], Member | None] = {}
        #: Heads as they were loaded, and who joined the line in this turn, by key and lane.
        self.heads: dict[str, dict[str, deque[Member]]] = {}
        self.lines: dict[str, Line] = {}
        self.joined: dict[str, dict[str, list[tuple[tuple[Any, ...], str]]]] = {}
        self.alarms: dict[str, Event] = {}
        #: Limits whose windows count a member that began in this turn.
        self.began: set[str] = set()


class Admissions:
    """Requests of a turn to limits. A slot that becomes free goes to the head of the line before anything else is looked at."""

    #: What limits have answered when a recorded turn is replayed; None: they are asked.
    recorded: list[Admission] | None = None

    def __init__(self, workflow: Workflow, reader: Reader, journal: Journal, events: Events, work: WorkList) -> None:
        self._workflow = workflow
        self._reader = reader
        self._journal = journal
        self._moment = journal.moment
        self._events = events
        self._work = work
        #: Limits as this turn leaves them.
        self.limits: dict[str, Limit] = {}

    @cached_property
    def _books(self) -> _Books:
        return _Books()

    @property
    def alarms(self) -> Iterable[Event]:
        """Events that have the heads of lines look again, for their executions."""
        return self._books.alarms.values()

    # ------------------------------------------------------------------ what a turn asks

    def ask(
        self,
        key: str,
        holder: str,
        terms: Terms,
        *,
        ref: str | None = None,
        attempt: int = 0,
        wait: bool = True,
        lane: str = "",
        asked_at: int | None = None,
        share: tuple[str, int] | None = None,
    ) -> bool:
        """Ask for a slot: whether it is there; if not, `holder` joins the line, unless it is not to `wait`.

        Where keys take turns, `share` is its key and what one of this key pays.

        One that has asked before, at `asked_at`, asks again: it has its old place, and the journal says when it has to wait.
        """
        act = f"ask {ref or ''}"
        again = asked_at is not None
        if self.recorded is not None:
            return not self._lived(f"wait {ref}") if again else self._lived(act)
        before = self._member(key, holder) if again else None
        if before is not None:
            self._leave(before)
        limit = self._limit(key)
        rate, span = max(limit.depth, terms.rate), max(limit.span_ms, terms.window_ms)
        self.limits[key] = attrs.evolve(limit, depth=rate, span_ms=span)
        member = Member(
            key=key,
            holder=holder,
            workflow_id=self._workflow.workflow_id,
            ref=ref,
            attempt=attempt,
            generation=self._workflow.generation,
            state=MemberState.WAITING,
            priority=self._workflow.priority,
            asked_at=before.asked_at if before is not None else self._moment.now if asked_at is None else asked_at,
            created_at=self._workflow.created_at,
            seq=before.seq if before is not None else self._workflow.task_seq + 1,
            lane=lane if terms.rate else "",
            **attrs.asdict(terms),
        )
        # A window may have moved, and no turn has looked yet. A member that asks again goes first: its slot is no other's yet.
        others = () if again else self._grant(key)
        if share is not None:
            member = self._tagged(member, share, before)
        head = self._head(key)
        first = (head is None or member.place < head.place) and member.lane not in self._limit(key).unpolled
        admitted = first and admission(self._limit(key), terms, self._moment.clock) == self._moment.clock
        if admitted:
            self._admit(member)
        elif wait:
            self._join(member)
        if again:
            others = self._grant(key)
        self._watch(key)
        self._record(f"wait {ref}" if again else act, admitted is not again, others)
        return admitted

    def give_back(self, key: str, holders: Iterable[str], *, of: str = "") -> None:
        """Leave the line, or free a slot; who is next has it at once. `of` names its holder in the journal."""
        act = f"give {of}"
        if self.recorded is not None:
            self._lived(act)
            return
        for holder in holders:
            member = self._member(key, holder)
            if member is None:
                continue
            self._leave(member)
        self._record(act, False, self._grant(key))
        self._watch(key)

    def take_up(self, key: str, holder: str, number: int, *, of: str = "") -> bool:
        """Take up a slot that another execution has given; False when that admission is void."""
        act = f"take {of}"
        if self.recorded is not None:
            return self._lived(act)
        member = self._member(key, holder)
        if member is None or member.number != number or member.waits:
            return False
        own = self._grant(key)
        self._watch(key)
        self._record(act, True, own)
        return True

    def begins(self, key: str, holder: str, *, of: str) -> bool:
        """Date who begins now, and has been let in; False when it has not: then it has to ask."""
        act = f"begin {of}"
        if self.recorded is not None:
            self._lived(act)
            return f"wait {of}" not in (answer[0] for answer in self.recorded)
        member = self._member(key, holder)
        if member is None or member.state is not MemberState.RESERVED:
            return False
        limit = self._limit(key)
        self.limits[key] = self._dated(attrs.evolve(limit, reserved=limit.reserved - 1))
        self._books.began.add(key)
        self._books.members[(key, holder)] = attrs.evolve(member, state=MemberState.HELD) if member.concurrent else None
        own = self._grant(key)
        self._watch(key)
        self._record(act, False, own)
        return True

    def not_taken(self, key: str, holder: str, lane: str, *, of: str) -> bool:
        """Send an offer that no worker took back to its place in the line, which skips its lane from now on; False when void."""
        act = f"pass {of}"
        if self.recorded is not None:
            return self._lived(act)
        member = self._member(key, holder)
        if member is None or member.state is not MemberState.RESERVED:
            return False
        self._leave(member)
        self._join(attrs.evolve(member, state=MemberState.WAITING, lane=lane))
        limit = self._limit(key)
        self.limits[key] = attrs.evolve(limit, unpolled=tuple(sorted({*limit.unpolled, lane})))
        own = self._grant(key)
        self._watch(key)
        self._record(act, True, own)
        return True

    def is_unpolled(self, key: str, lane: str, *, of: str) -> bool:
        """Return True if no worker has polled a lane since an offer in it was not taken."""
        act = f"unpolled {of}"
        if self.recorded is not None:
            return self._lived(act)
        found = lane in self._limit(key).unpolled
        self._record(act, found, ())
        return found

    def look_again(self, key: str, polled: str | None = None) -> None:
        """Let in those that a window that has moved lets in, or those of a lane that was `polled`."""
        act = f"look {key}"
        if self.recorded is not None:
            self._lived(act)
            return
        # Whatever event this is, it may have taken the place of the one that is dated right: that one is written again.
        limit = self._limit(key)
        unpolled = tuple(lane for lane in limit.unpolled if lane != polled)
        self.limits[key] = attrs.evolve(limit, alarm=None, alarm_at=None, unpolled=unpolled)
        own = self._grant(key)
        self._watch(key)
        self._record(act, False, own)

    def was_let_in(self) -> None:
        """Have the journal record that the execution has a slot, which it was given before."""
        self._record("ask ", True, ())

    def stands(self, key: str, holder: str, number: int, asker: str, *, of: str = "") -> bool:
        """Return True if a slot this execution has given to itself is its `asker`'s still: much may happen between, even a pause.

        `of` names its holder in the journal.
        """
        act = f"stands {of}"
        if self.recorded is not None:
            return self._lived(act)
        member = self._member(key, holder)
        found = asker == holder and (member is None or (member.number, member.waits) == (number, False))
        self._record(act, found, ())
        return found

    def rename(self, key: str, holder: str, new_ref: str) -> None:
        """Have who waits for a slot be found under another reference."""
        member = None if self.recorded is not None else self._member(key, holder)
        if member is not None:
            self.limits[key] = self._limit(key)
            self._books.members[(key, holder)] = attrs.evolve(member, ref=new_ref)
            if member.waits:
                self._join(attrs.evolve(member, ref=new_ref))

    # ------------------------------------------------------------------ the aggregate

    def _limit(self, key: str) -> Limit:
        found = self.limits.get(key)
        return self._reader.limit(key, _HEADS).limit if found is None else found

    def _member(self, key: str, holder: str) -> Member | None:
        place = (key, holder)
        return self._books.members[place] if place in self._books.members else self._reader.member(key, holder)

    def _tagged(self, member: Member, share: tuple[str, int], before: Member | None) -> Member:
        """The member with a start tag: what it had `before`, if it had its turn then, or one it pays for."""
        if before is not None and before.cost and not before.waits:
            return attrs.evolve(member, fairness_key=before.fairness_key, start_tag=before.start_tag, cost=before.cost)
        limit, (key, cost) = self._limit(member.key), share
        start, tags = charge(limit.tags, member.priority, key, cost)
        self.limits[member.key] = attrs.evolve(limit, tags=tags)
        return attrs.evolve(member, fairness_key=key, start_tag=start, cost=cost)

    def _join(self, member: Member) -> None:
        """Put a member into the line, at its place."""
        self._books.members[(member.key, member.holder)] = member
        heappush(self._books.joined.setdefault(member.key, {}).setdefault(member.lane, []), (member.place, member.holder))

    def _leave(self, member: Member) -> None:
        """Take a member out of a limit, with what it holds of it."""
        limit = self._limit(member.key)
        if not member.waits and member.concurrent:
            limit = attrs.evolve(limit, in_use=limit.in_use - 1)
        if member.state is MemberState.RESERVED:
            limit = attrs.evolve(limit, reserved=limit.reserved - 1)
        if member.cost and member.waits:
            limit = attrs.evolve(limit, tags=pay_back(limit.tags, member.priority, member.fairness_key, member.cost))
        if limit.in_use < 0 or limit.reserved < 0:
            raise InvariantBroken(f"limit {member.key!r}: counts {limit.in_use} in use, {limit.reserved} reserved")
        self.limits[member.key] = limit
        self._books.members[(member.key, member.holder)] = None

    def _head(self, key: str) -> Member | None:
        """The first of the line that is not passed over."""
        heads = self._books.heads.get(key)
        if heads is None:
            heads = self._read_heads(key, _HEADS)
        joined = self._books.joined.get(key, {})
        found: list[Member] = []
        for lane in (heads | joined).keys() - set(self._limit(key).unpolled):
            loaded, came = self._left_of(key, lane), joined.get(lane, [])
            while came and not self._is_waiting(key, came[0]):
                heappop(came)
            newest = self._books.members[(key, came[0][1])] if came else None
            found += [*([loaded[0]] if loaded else []), *([] if newest is None else [newest])]
        return min(found, key=lambda member: member.place, default=None)

    def _left_of(self, key: str, lane: str) -> deque[Member]:
        """The stored heads of a lane that this turn has not changed; more are read when none of those is left."""
        while True:
            heads = self._books.heads[key].get(lane, deque())
            while heads and (key, heads[0].holder) in self._books.members:
                heads.popleft()
            line = self._books.lines[key]
            if heads or lane not in line.more:
                return heads
            self._read_heads(key, 4 * max(Counter(member.lane for member in line.heads).values()))

    def _read_heads(self, key: str, count: int) -> dict[str, deque[Member]]:
        line = self._books.lines[key] = self._reader.limit(key, count)
        heads = self._books.heads[key] = {}
        for member in line.heads:
            heads.setdefault(member.lane, deque()).append(member)
        return heads

    def _is_waiting(self, key: str, entry: tuple[tuple[Any, ...], str]) -> bool:
        member = self._books.members.get((key, entry[1]))
        return member is not None and member.waits and member.place == entry[0]

    def _grant(self, key: str) -> tuple[str | None, ...]:
        """Admit heads of the line as long as the limit lets them in; which of them are of this execution."""
        own: list[str | None] = []
        now = self._moment.clock
        while (head := self._head(key)) is not None and admission(self._limit(key), head.terms, now) == now:
            self._admit(head)
            if head.workflow_id == self._workflow.workflow_id:
                own.append(head.ref)
                self._work.queue.append(("admitted", head.ref or "", key, head.holder, self._limit(key).number))
        return tuple(own)

    def _admit(self, member: Member) -> None:
        limit = self._limit(member.key)
        tags = spend(limit.tags, member.priority, member.start_tag) if member.cost else limit.tags
        limit = attrs.evolve(limit, number=limit.number + 1, in_use=limit.in_use + (member.concurrent > 0), tags=tags)
        if member.rate:
            limit = attrs.evolve(limit, reserved=limit.reserved + 1)
        self.limits[member.key] = limit
        member = attrs.evolve(member, number=limit.number, state=MemberState.RESERVED if member.rate else MemberState.HELD)
        self._books.members[(member.key, member.holder)] = member
        if member.workflow_id != self._workflow.workflow_id:
            self._events.posted.append(self._event(member, EventKind.GRANTED, f":{member.holder}", self._moment.clock))

    def _dated(self, limit: Limit) -> Limit:
        # None is left out for its age alone: another machine's clock may be behind, and its window begin earlier.
        return attrs.evolve(limit, log=tuple(sorted((*limit.log, self._moment.clock))[-limit.depth :]))

    def _watch(self, key: str) -> None:
        """Have the head of the line look again when the window has moved, if that is what it waits for."""
        head = self._head(key)
        at = None if head is None else admission(self._limit(key), head.terms, self._moment.clock)
        limit = self._limit(key)
        if limit.tags and head is None and not (limit.in_use or limit.reserved or limit.unpolled):
            self.limits[key] = attrs.evolve(limit, tags="")  # nothing to remember
        if head is None or at is None:
            return
        if (limit.alarm, limit.alarm_at) != (head.holder, at):
            self.limits[key] = attrs.evolve(limit, alarm=head.holder, alarm_at=at)
            self._books.alarms[key] = self._event(head, EventKind.WINDOW_MOVES, "", at)

    def _event(self, member: Member, kind: EventKind, suffix: str, at: int) -> Event:
        about: dict[str, Any] = {"key": member.key}
        fields: dict[str, Any] = {}
        if kind is EventKind.GRANTED:
            about |= {"holder": member.holder, "number": member.number}
            fields = {"ref": member.ref, "attempt": member.attempt, "generation": member.generation}
        return Event(
            workflow_id=member.workflow_id,
            event_id=f"{kind}:{member.key}{suffix}",
            kind=kind,
            due_at=at,
            posted_at=self._moment.now,
            sender=member.key,
            sender_seq=self._limit(member.key).number,
            data=Payload.of(about),
            **fields,
        )

    # ------------------------------------------------------------------ what the journal records

    def _record(self, act: str, admitted: bool, own: tuple[str | None, ...]) -> None:
        """Have the journal record what came of an act, if anything did."""
        if admitted or own:
            self._journal.append("slots", [act, int(admitted), *(ref or "" for ref in own)])

    def _lived(self, act: str) -> bool:
        """Return the result of an act when this turn was taken first; an act the journal does not record led to nothing."""
        recorded = self.recorded or []
        found = next((answer for answer in recorded if answer[0] == act), None)
        if found is None:
            return False
        recorded.remove(found)
        _, admitted, *own = found
        self._work.queue.extend(("admitted", ref, "", "", 0) for ref in own)
        self._record(act, bool(admitted), tuple(own))
        return bool(admitted)

    def changes(self) -> tuple[LimitChange, ...]:
        """Return the changes that the turn makes to limits, under the fences that were read."""
        members: dict[str, dict[str, Member | None]] = {key: {} for key in self.limits}
        for (key, holder), member in self._books.members.items():
            members.setdefault(key, {})[holder] = member
        return tuple(
            LimitChange(
                limit=self._limit(key),
                put=tuple(member for member in found.values() if member is not None),
                gone=tuple(holder for holder, member in found.items() if member is None),
                dated=self._moment.clock if key in self._books.began else None,
            )
            for key, found in members.items()
        )
