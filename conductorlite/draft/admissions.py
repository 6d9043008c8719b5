"""A turn's dealings with limits: who asks for a slot, who gives one back, and who goes next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

import attrs

from conductorlite.canonical import Payload
from conductorlite.decisions import Admission, Event, EventKind, Need, NotLoaded
from conductorlite.draft.mailboxes import Mailboxes
from conductorlite.errors import InvariantBroken
from conductorlite.limits import Limit, LimitChange, Line, Member, MemberState, Terms, admission

__all__ = ["Admissions"]


class Admissions(Mailboxes):
    """What a turn asks of limits. A slot that becomes free goes to the head of the line before anything else is looked at."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._limits: dict[str, Limit] = {}
        #: Members as this turn leaves them; None: gone.
        self._members: dict[tuple[str, str], Member | None] = {}
        #: Heads as they were loaded, and who joined the line in this turn, by key.
        self._heads: dict[str, deque[Member]] = {}
        self._joined: dict[str, list[tuple[tuple[Any, ...], str]]] = {}
        self._alarms: dict[str, Event] = {}
        told = self.snapshot.admissions
        #: What limits have answered when a recorded turn is lived again; None: they are asked.
        self._told: list[Admission] | None = None if told is None else list(told)

    # ------------------------------------------------------------------ what a turn asks

    def ask(self, key: str, holder: str, terms: Terms, *, ref: str | None = None, attempt: int = 0, wait: bool = True) -> bool:
        """Ask for a slot: whether it is there; if not, `holder` joins the line, unless it is not to `wait`."""
        act = f"ask {ref or ''}"
        if self._told is not None:
            return self._lived(act)
        limit = self._limit(key)
        rate, span = max(limit.depth, terms.rate), max(limit.span_ms, terms.window_ms)
        self._limits[key] = attrs.evolve(limit, depth=rate, span_ms=span)
        member = Member(
            key=key,
            holder=holder,
            workflow_id=self.workflow.workflow_id,
            ref=ref,
            attempt=attempt,
            generation=self.field("generation"),
            state=MemberState.WAITING,
            priority=self.workflow.priority,
            asked_at=self.now,
            created_at=self.workflow.created_at,
            seq=self._task_seq + 1,
            **attrs.asdict(terms),
        )
        others = self._grant(key)  # a window may have moved, and nobody has looked yet
        head = self._head(key)
        first = head is None or member.place < head.place
        admitted = first and admission(self._limit(key), terms, self.now) == self.now
        if admitted:
            self._admit(member)
        elif wait:
            self._members[(key, holder)] = member
            heappush(self._joined.setdefault(key, []), (member.place, holder))
        self._watch(key)
        self._tell(act, admitted, others)
        return admitted

    def give_back(self, key: str, holders: Iterable[str], *, of: str = "") -> None:
        """Leave the line, or free a slot; who is next has it at once. `of` tells whose it was in the journal."""
        act = f"give {of}"
        if self._told is not None:
            self._lived(act)
            return
        for holder in holders:
            member = self._member(key, holder)
            if member is None:
                continue
            self._members[(key, holder)] = None
            limit = self._limit(key)
            if not member.waits and member.concurrent:
                limit = attrs.evolve(limit, in_use=limit.in_use - 1)
            if member.state is MemberState.RESERVED:
                limit = attrs.evolve(limit, reserved=limit.reserved - 1)
            if limit.in_use < 0 or limit.reserved < 0:
                raise InvariantBroken(f"limit {key!r}: counts {limit.in_use} in use, {limit.reserved} reserved")
            self._limits[key] = limit
        self._tell(act, False, self._grant(key))
        self._watch(key)

    def take_up(self, key: str, holder: str, number: int, *, of: str = "") -> bool:
        """Take up a slot that another execution has given; False when that admission is void."""
        act = f"take {of}"
        if self._told is not None:
            return self._lived(act)
        member = self._member(key, holder)
        if member is None or member.number != number or member.waits:
            return False
        if member.state is MemberState.RESERVED:
            limit = self._limit(key)
            self._limits[key] = self._dated(attrs.evolve(limit, reserved=limit.reserved - 1))
            self._keep(member)
        own = self._grant(key)
        self._watch(key)
        self._tell(act, True, own)
        return True

    def look_again(self, key: str) -> None:
        """Let in whom a window that has moved lets in."""
        act = f"look {key}"
        if self._told is not None:
            self._lived(act)
            return
        # Whatever letter this is, it may have taken the place of the one that is dated right: that one is written again.
        self._limits[key] = attrs.evolve(self._limit(key), alarm=None, alarm_at=None)
        own = self._grant(key)
        self._watch(key)
        self._tell(act, False, own)

    def was_let_in(self) -> None:
        """Have the journal tell that the execution has a slot, which it was given before."""
        self._tell("ask ", True, ())

    def stands(self, key: str, holder: str, number: int, asker: str, *, of: str = "") -> bool:
        """Whether a slot this execution has given to itself is its `asker`'s still: much may lie between, even a pause.

        `of` tells whose it was in the journal.
        """
        act = f"stands {of}"
        if self._told is not None:
            return self._lived(act)
        member = self._member(key, holder)
        found = asker == holder and (member is None or (member.number, member.waits) == (number, False))
        self._tell(act, found, ())
        return found

    def rename_member(self, key: str, holder: str, new_ref: str) -> None:
        """Have who waits for a slot be found under another reference."""
        member = None if self._told is not None else self._member(key, holder)
        if member is not None:
            self._limits[key] = self._limit(key)
            self._members[(key, holder)] = attrs.evolve(member, ref=new_ref)
            if member.waits:
                heappush(self._joined.setdefault(key, []), (member.place, holder))

    # ------------------------------------------------------------------ the aggregate

    def _limit(self, key: str) -> Limit:
        found = self._limits.get(key)
        return self.snapshot.line(key).limit if found is None else found

    def _member(self, key: str, holder: str) -> Member | None:
        place = (key, holder)
        return self._members[place] if place in self._members else self.snapshot.member(key, holder)

    def _head(self, key: str) -> Member | None:
        line: Line = self.snapshot.line(key)
        heads = self._heads.setdefault(key, deque(line.heads))
        while heads and (key, heads[0].holder) in self._members:
            heads.popleft()
        if not heads and not line.whole:
            raise NotLoaded(Need(limits={key: 4 * len(line.heads)}))
        joined = self._joined.get(key, [])
        while joined and not self._is_waiting(key, joined[0]):
            heappop(joined)
        found = [heads[0]] if heads else []
        if joined:
            member = self._members[(key, joined[0][1])]
            found += [member] if member is not None else []
        return min(found, key=lambda member: member.place, default=None)

    def _is_waiting(self, key: str, entry: tuple[tuple[Any, ...], str]) -> bool:
        member = self._members.get((key, entry[1]))
        return member is not None and member.waits and member.place == entry[0]

    def _grant(self, key: str) -> tuple[str | None, ...]:
        """Admit heads of the line as long as the limit lets them in; which of them are of this execution."""
        own: list[str | None] = []
        while (head := self._head(key)) is not None and admission(self._limit(key), head.terms, self.now) == self.now:
            self._admit(head)
            if head.workflow_id == self.workflow.workflow_id:
                own.append(head.ref)
                self.queue.append(("admitted", head.ref or "", key, head.holder, self._limit(key).number))
        return tuple(own)

    def _admit(self, member: Member) -> None:
        limit = self._limit(member.key)
        limit = attrs.evolve(limit, number=limit.number + 1, in_use=limit.in_use + (member.concurrent > 0))
        own = member.workflow_id == self.workflow.workflow_id
        if member.rate and own:
            limit = self._dated(limit)
        elif member.rate:
            limit = attrs.evolve(limit, reserved=limit.reserved + 1)
        self._limits[member.key] = limit
        member = attrs.evolve(member, number=limit.number)
        if own or not member.rate:
            self._keep(member)
        else:
            self._members[(member.key, member.holder)] = attrs.evolve(member, state=MemberState.RESERVED)
        if not own:
            self._posted.append(self._letter(member, EventKind.GRANTED, f":{member.holder}", self.clock))

    def _keep(self, member: Member) -> None:
        """One that holds a slot stays until it is given back; one that only had to be dated is done."""
        held = attrs.evolve(member, state=MemberState.HELD) if member.concurrent else None
        self._members[(member.key, member.holder)] = held

    def _dated(self, limit: Limit) -> Limit:
        # None is left out for its age alone: another machine's clock may be behind, and its window begin earlier.
        return attrs.evolve(limit, log=tuple(sorted((*limit.log, self.now))[-limit.depth :]))

    def _watch(self, key: str) -> None:
        """Have the head of the line look again when the window has moved, if that is what it waits for."""
        head = self._head(key)
        at = None if head is None else admission(self._limit(key), head.terms, self.now)
        limit = self._limit(key)
        if head is None or at is None:
            return
        if (limit.alarm, limit.alarm_at) != (head.holder, at):
            self._limits[key] = attrs.evolve(limit, alarm=head.holder, alarm_at=at)
            self._alarms[key] = self._letter(head, EventKind.WINDOW_MOVES, "", at)

    def _letter(self, member: Member, kind: EventKind, suffix: str, at: int) -> Event:
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
            posted_at=self.now,
            sender=member.key,
            sender_seq=self._limit(member.key).number,
            data=Payload.of(about),
            **fields,
        )

    # ------------------------------------------------------------------ what the journal tells

    def _tell(self, act: str, admitted: bool, own: tuple[str | None, ...]) -> None:
        """Have the journal tell what came of an act, if anything did."""
        if admitted or own:
            self._tell_more("slots", [act, int(admitted), *(ref or "" for ref in own)])

    def _lived(self, act: str) -> bool:
        """What came of an act when this turn was taken first; what the journal does not tell led to nothing."""
        told = self._told or []
        found = next((answer for answer in told if answer[0] == act), None)
        if found is None:
            return False
        told.remove(found)
        _, admitted, *own = found
        self.queue.extend(("admitted", ref, "", "", 0) for ref in own)
        self._tell(act, bool(admitted), tuple(own))
        return bool(admitted)

    def limit_changes(self) -> tuple[LimitChange, ...]:
        """What the turn does to limits, under the fences that were read."""
        members: dict[str, dict[str, Member | None]] = {key: {} for key in self._limits}
        for (key, holder), member in self._members.items():
            members.setdefault(key, {})[holder] = member
        return tuple(
            LimitChange(
                limit=self._limit(key),
                put=tuple(member for member in found.values() if member is not None),
                gone=tuple(holder for holder, member in found.items() if member is None),
            )
            for key, found in members.items()
        )
