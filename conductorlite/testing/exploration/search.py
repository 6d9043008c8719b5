"""`explore`: what may happen to a workflow, searched for what must not.

A schedule is the ordinary course with some choices out of the ordinary. Those with fewest are tried first; then by turns one that
ends in a choice nobody has come to before, which may be deep in cases of cases, and one that puts together what was tried alone;
among equals the order is drawn by the seed. So a small scope is searched whole, and of a large one what is near the ordinary
course, what a chain of mishaps leads to, then a sample. Nothing hangs on the machine: a seed finds the same. Where a loop begins
another round, what was chosen in the last ones is tried in all that follow (`rounds`).

"Exhausted" is a proof: no schedule breaks a rule in a way that was not found. It rests on two reductions. Two moments with the same
key have the same future, so the second one is not searched again: the key holds everything a decision can read, and everything that
definitions and rules did read (`reads`, `content`). When something is read for the first time that the key left out, the search
starts again. And tasks are first picked up in the order in which they are offered; once that is searched, the search starts again
with every order, if more than one task was ever offered at once. The report names what was not searched.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import attrs

from conductorlite.language.processes import remembering
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import InvalidInput, InvariantBroken
from conductorlite.model.policies import derive_id
from conductorlite.model.texts import span_in_words, to_span
from conductorlite.plan.tree import walk
from conductorlite.runtime.engine import Engine
from conductorlite.testing.exploration.cases import END, ROOT, Action, Case, Endless, before
from conductorlite.testing.exploration.invariants import Invariant, RunState, rules_of
from conductorlite.testing.exploration.outcomes import check_names, named_by, outcomes_of, verb_names
from conductorlite.testing.exploration.reads import Read
from conductorlite.testing.exploration.report import ExplorationFailed, Explored, Problem, paste
from conductorlite.testing.exploration.rounds import Lasting, Marks, repeated, skeleton
from conductorlite.testing.exploration.sandbox import Sandbox, Snapshot
from conductorlite.testing.steps import render_history, starting

__all__ = ["explore"]

#: What a task may come to that nothing was said of.
_OTHERS: Final = ("ok", "fails_for_good")

#: What was remembered so far: the place of an invariant, and an execution.
_Held = frozenset[tuple[int, str]]
_NOTHING: Final[_Held] = frozenset()
_NO_MARKS: Final[Marks] = ()

#: What the key of a moment leaves out until something reads it.
_ABSTRACTED: Final = (Read.TIMES, Read.COUNTERS, Read.ORDER)

#: Lines of the timeline of what has no end.
_SHOWN: Final = 40

#: Moments kept to return to, for each schedule that may be tried.
_KEPT: Final = 30


def explore(
    workflow: Any,
    input: Mapping[str, Any] | None = None,
    *,
    may: Mapping[str, Any] | None = None,
    others: Sequence[Any] = _OTHERS,
    signals: Mapping[str, Any] | None = None,
    verbs: Sequence[str] = (),
    migrations: Sequence[WorkflowDef] = (),
    registrations: Sequence[WorkflowDef] = (),
    messages: Mapping[str, Any] | None = None,
    sends: Mapping[str, Any] | None = None,
    invariants: Sequence[Invariant] = (),
    idempotent: Sequence[str] = (),
    executions: int = 1,
    registered: Sequence[WorkflowDef] = (),
    setup: Callable[[Engine], object] | None = None,
    until: str | None = None,
    schedules: int = 500,
    steps: int = 300,
    seed: int = 0,
    enough: int = 1,
    schedule: Sequence[str] | None = None,
    check: bool = True,
) -> Explored:
    """Search what may happen to a workflow (a definition or a flow, with its input) for what must not.

    `may` says what calls of a task may come to, by reference or task type: a list of outputs, of functions of a `RunState` that
    give one, and of names (`OUTCOMES`, "takes 2h"), the ordinary one first; `others` of every other task. `signals` says what a
    WAIT or HUMAN is sent, by reference: a list of outputs, and "never", "twice", "after REF" for one that cannot come before
    another task is done. `verbs` ("pause", "terminate", "retry", "restart", "rerun", "rerun from REF", "fork from REF", "skip REF",
    "set_value NAME", "emit from REF" by a worker, "terminate REF" of a child) are used once each, at any moment; so are the
    `migrations` of the first execution that are not blocked, and the `registrations`. `messages` to the event handlers that `setup`
    registers (a payload by event, or a list of them and of "after REF"), and `sends` to the mailbox of each execution (values by
    topic), come once each, at the latest when nothing else is left to do. Effects of `idempotent` tasks happen once however often
    they are tried. So many `executions` are started; `setup(engine)` may add more, then a search ends `until` a virtual time.

    Looked for, besides the `invariants`: executions that can never end, and those that never come to rest in so many `steps`. At
    most so many `schedules` are tried, drawn by `seed`, until `enough` problems of different kinds were found. Raises
    ExplorationFailed with what was found, shrunk, unless `check` is false; InvalidInput for what cannot happen. With a `schedule`,
    as a failure printed it, only that is run.
    """
    said: dict[str, Any] = {"may": may, "signals": signals, "verbs": verbs, "messages": messages, "sends": sends}
    said |= {"others": None if others is _OTHERS else others, "idempotent": idempotent, "until": until, "input": input}
    said["executions"] = executions - 1 and executions
    rules = rules_of(invariants)
    changes = {"migrations": _changes(migrations, "migrations"), "registrations": _changes(registrations, "registrations")}
    case = _having(_case(workflow, input, registered, executions, setup), said | changes, rules)
    named = [name for name, one in (("registered", registered), ("setup", setup), *changes.items()) if one]
    if any(one.answers is not None for all_ in case.may.values() for one in all_):
        named, said["may"] = ["may", *named], None
    search = _Search(case, rules, steps=steps, seed=seed, paste=lambda found: paste(_name(workflow), said, named, found))
    with closing(search.box), remembering():
        search.run(schedules, enough) if schedule is None else search.rerun(schedule, enough)
        explored = search.explored(exhausted=schedule is None)
    if check and explored.problems:
        raise ExplorationFailed(explored)
    return explored


def _having(case: Case, said: Mapping[str, Any], invariants: Sequence[Invariant]) -> Case:
    """Return the case with what may happen in it, as it was said; raises InvalidInput for a name that is none of a task."""
    made = attrs.evolve(
        case,
        may={task: outcomes_of(one, task) for task, one in (said["may"] or {}).items()},
        others=outcomes_of(_OTHERS if said["others"] is None else said["others"], "others"),
        signals={ref: _signals(one, ref) for ref, one in (said["signals"] or {}).items()},
        verbs=verb_names(_listed(said["verbs"], "verbs")),
        migrations=said["migrations"],
        registrations=said["registrations"],
        messages={event: _messages(one, event) for event, one in (said["messages"] or {}).items()},
        sends={topic: one if isinstance(one, list) else [one] for topic, one in (said["sends"] or {}).items()},
        idempotent=frozenset(_listed(said["idempotent"], "idempotent")),
        until_ms=None if said["until"] is None else to_span(said["until"]),
    )
    outcomes = [one for all_ in made.may.values() for one in all_] + [*made.others]
    orders = any(one.answers is not None for one in outcomes) or any(
        map(_limited, (*case.definitions, *made.migrations, *made.registrations))
    )
    made = attrs.evolve(made, orders=orders)
    if case.setup is None:
        given = [one for all_ in (*made.signals.values(), *made.messages.values(), *made.sends.values()) for one in all_]
        froms = [ref for ref in map(named_by, made.verbs) if ref]
        ruled = [task for one in invariants for task in one.tasks]
        check_names(
            [*case.definitions, *made.migrations, *made.registrations],
            [*made.signals, *before(given), *froms, *made.idempotent, *ruled],
        )
    return made


def _listed(said: Any, what: str) -> list[Any]:
    if isinstance(said, str | Mapping) or not isinstance(said, Iterable):
        raise InvalidInput(f"{what}: a list is needed, not {said!r:.80}")
    return list(said)


def _changes(said: Any, what: str) -> tuple[WorkflowDef, ...]:
    """Definitions to move to or to register; raises InvalidInput for two that a schedule could not name apart."""
    listed = _listed(said, what)
    if not all(isinstance(one, WorkflowDef) for one in listed):
        raise InvalidInput(f"{what} are definitions (WorkflowDef)")
    if len({(one.name, one.version) for one in listed}) < len(listed):
        raise InvalidInput(f"{what}: two definitions have the same name and version; give each a version of its own")
    return tuple(listed)


def _signals(said: Any, ref: str) -> list[object]:
    listed = [said] if isinstance(said, str | Mapping) else _listed(said, f"signals to {ref!r}")
    for one in listed:
        if not isinstance(one, Mapping) and one not in ("never", "twice") and not str(one).startswith("after "):
            raise InvalidInput(f"a signal to {ref!r} is an output, 'never', 'twice' or 'after REF', not {one!r:.80}")
    return listed


def _messages(said: Any, event: str) -> list[object]:
    listed = said if isinstance(said, list) else [said]
    for one in listed:
        if not isinstance(one, Mapping) and not str(one).startswith("after "):
            raise InvalidInput(f"a message {event!r} is a payload or 'after REF', not {one!r:.80}")
    return listed


def _name(workflow: Any) -> str:
    return workflow.name if isinstance(workflow, WorkflowDef) else getattr(workflow, "__name__", "workflow")


def _case(
    workflow: Any,
    input: Mapping[str, Any] | None,
    registered: Sequence[WorkflowDef],
    executions: int,
    setup: Callable[[Engine], object] | None,
) -> Case:
    """Return the case of a search: how it starts, and its definitions."""
    if executions < 0 or (executions == 0 and setup is None):
        raise InvalidInput("a search needs an execution")
    given, below = starting(workflow, input)
    definitions = [*_listed(registered, "registered"), *below]

    def start(engine: Engine, workflow_id: str) -> object:
        options = dict(given)
        return engine.start(options.pop("workflow"), options.pop("input"), **{**options, "workflow_id": workflow_id})

    return Case(start=start, definitions=(*definitions, given["workflow"]), executions=executions, setup=setup)


def _limited(definition: WorkflowDef) -> bool:
    limits = [one.task.task_definition for one in walk(definition) if one.task.task_definition is not None]
    tasks = any((one.concurrent_exec_limit or 0) > 0 or (one.rate_limit_per_frequency or 0) > 0 for one in limits)
    return tasks or getattr(definition, "rate_limit_config", None) is not None


@attrs.frozen(kw_only=True, slots=True)
class _Branch:
    """A moment to return to, with the choice that is to be made there."""

    chosen: tuple[str, ...]
    snapshot: Snapshot
    held: _Held
    action: Action
    moment: int
    steps: int
    marks: Marks


class _Wrong(NamedTuple):
    """Broken rule: what broke it, and in which execution."""

    name: str
    text: str
    workflow_id: str
    #: Whether nothing can be said of what follows.
    last: bool = False


class _Search:
    """One search: what is left to try, what was seen, what was found."""

    def __init__(
        self, case: Case, invariants: Sequence[Invariant], *, steps: int, seed: int, paste: Callable[[Problem], str]
    ) -> None:
        self.case, self.invariants, self.seed, self._steps, self._paste = case, tuple(invariants), seed, steps, paste
        self.box = Sandbox(case)
        self.reader = self.box.reader
        self._watched = [one for one in self.invariants if type(one).moment is not Invariant.moment]
        self._remembering = [(at, one) for at, one in enumerate(self.invariants) if type(one).remembers is not Invariant.remembers]
        #: What is left to try: that ends in a choice nobody has come to before, and what was made before in other courses.
        self._new: list[tuple[int, str, int, _Branch]] = []
        self._left: list[tuple[int, str, int, _Branch]] = []
        self._seen: dict[tuple[object, ...], int] = {}
        self._count = count()
        self._edges: dict[int, set[tuple[int, int, int]]] = {}
        #: Choices that were tried somewhere, and whole schedules that go on in every round (see `rounds.skeleton`).
        self._tried: set[str] = set()
        self._schedules = self._moments = 0
        self._enough = 1
        self._reached: set[str] = set()
        #: What was not searched, in words; and of how far the search had come before it began again, the longest and the most.
        self._bounds: list[str] = []
        self._extent: list[tuple[int | None, int | None]] = []
        self.problems: dict[str, Problem] = {}
        self._started = self.box.snapshot()

    # ------------------------------------------------------------------ searching

    def run(self, schedules: int, enough: int) -> None:
        """Try so many schedules, the ordinary course first, until enough was found."""
        self._schedules, self._enough = 1, enough
        self._follow((), _NOTHING, None)
        while len(self.problems) < enough:
            if self.reader.changed or (not self._open and self.box.passed_over):
                self._begin_again()
                continue
            if not self._open or self._schedules >= schedules:
                break
            branch = self._next()
            self.box.restore(branch.snapshot)
            self._schedules += 1
            self._follow(branch.chosen, branch.held, branch)
        if self._open and self._schedules >= schedules:
            self._bounds.append(f"schedules after the first {schedules:,} (schedules=)")

    @property
    def _open(self) -> bool:
        return bool(self._new or self._left)

    def _next(self) -> _Branch:
        first, other = (self._new, self._left) if self._schedules % 2 else (self._left, self._new)
        # What is new and no further from the ordinary course goes before what is known.
        if self._new and (not self._left or self._new[0][0] <= self._left[0][0]):
            first = self._new
        return heapq.heappop(first or other)[-1]

    def _begin_again(self) -> None:
        """Start from the beginning: the key of a moment holds more from now on, or tasks may be picked up in every order."""
        if not self.reader.changed:
            self._extent.append(_longest(self._edges))
            self.box.orders, self.box.passed_over = True, False
        self.reader.changed = False
        self._moments = max(self._moments, len(self._seen))
        for known in (self._new, self._left, self._seen, self._edges, self._tried, self._bounds):
            known.clear()
        self.box.restore(self._started)
        self._follow((), _NOTHING, None)

    def _follow(self, chosen: tuple[str, ...], held: _Held, branch: _Branch | None) -> None:
        """Go on from here in the ordinary course, after a first choice; note each moment that was not seen before."""
        action, moment, steps, marks = None, -1, 0, _NO_MARKS
        if branch is not None:
            action, moment, steps, marks = branch.action, branch.moment, branch.steps, branch.marks
        while True:
            if action is not None:
                before = self.box.elapsed, self.box.picked
                wrong, held = self._step(action, held)
                if wrong and not self._goes_on(wrong, chosen):
                    return None
                steps += 1
                marks = self._rounds(marks, chosen)
            last, known = moment, self._moment(held)
            moment, fresh = known
            if action is not None:
                self._edges.setdefault(last, set()).add((moment, self.box.elapsed - before[0], self.box.picked - before[1]))
            if not fresh or self.reader.changed:
                return None
            if steps >= self._steps:
                self._bound(f"steps after the first {self._steps:,} of a schedule (steps=)")
                return self._found([_Wrong("no end", f"no end in {self._steps} steps", ROOT)], chosen)
            choices = self.box.choices()
            self._branch(choices, chosen, held, moment, steps, marks)
            action = choices[0]
            if action is END:
                return self._found(self._at_end(held), chosen)

    def _goes_on(self, wrong: Sequence[_Wrong], chosen: tuple[str, ...]) -> bool:
        """Keep what was found. True if the search goes on behind it: other rules may be broken there."""
        new = any(one.name not in self.problems for one in wrong)
        if new:
            here = self.box.snapshot()
            self._found(wrong, chosen)
            self.box.restore(here)
        if any(one.last for one in wrong):
            self._bound("steps after " + " or ".join(dict.fromkeys(one.name for one in wrong if one.last)))
            return False
        return len(self.problems) < self._enough

    def _rounds(self, marks: Marks, chosen: tuple[str, ...]) -> Marks:
        """Where another round has begun, try once what happens if it goes on and on like those before."""
        for loop in self.box.rounds:
            new = [one for one in repeated(marks, loop, chosen) if skeleton(one) not in self._tried]
            self._tried.update(map(skeleton, new))
            if new:
                here = self.box.snapshot()
                for one in new:
                    self._try(one)
                self.box.restore(here)
            marks = (*marks, (loop, len(chosen)))
        return marks

    def _try(self, schedule: tuple[str, ...]) -> None:
        """Run one schedule from the start, and keep what is wrong in it."""
        self._schedules += 1
        while len(self.problems) < self._enough:
            steps = self._replay(schedule)
            found = next((wrong for _, wrong in steps if any(one.name not in self.problems for one in wrong)), None)
            if found is None:
                return
            self._found(found, schedule)

    def _bound(self, text: str) -> None:
        if text not in self._bounds:
            self._bounds.append(text)

    def _moment(self, held: _Held) -> tuple[int, bool]:
        number = len(self._seen)
        # A rule that reads the engine may read anything.
        key = (number,) if Read.ENGINE in self.reader.found else (held, *self.box.key())
        known = self._seen.setdefault(key, number)
        return known, known == number

    def _branch(self, choices: list[Action], chosen: tuple[str, ...], held: _Held, moment: int, steps: int, marks: Marks) -> None:
        snapshot: Snapshot | None = None
        for action in choices[1:]:
            text = _choice(action, choices[0])
            new = text not in self._tried
            self._tried.add(text)
            if len(self._left) > _KEPT * 500 and not new:
                self._bound(f"choices beyond {_KEPT * 500:,} that were left to try at once")
                continue
            snapshot = snapshot or self.box.snapshot()
            made = _Branch(
                chosen=(*chosen, text), snapshot=snapshot, held=held, action=action, moment=moment, steps=steps, marks=marks
            )
            place = derive_id("explore", self.seed, len(self._tried), *made.chosen)
            kept = self._new if new else self._left
            heapq.heappush(kept, (len(made.chosen), place, next(self._count), made))

    def _step(self, action: Action, held: _Held) -> tuple[list[_Wrong], _Held]:
        """Have an action happen, and look at what must hold at every moment."""
        try:
            self.box.do(action)
        except Endless as error:
            return [_Wrong("no end", str(error), ROOT, last=True)], held
        except InvariantBroken as error:
            return [_Wrong("a law of the engine", str(error), ROOT, last=True)], held
        for _, lines in self.box.history:
            self._reached.update(line.ref for line in lines if line.ref is not None)
        wrong: list[_Wrong] = []
        for run in self._runs():
            said = [(one.name, one.moment(run)) for one in self._watched]
            wrong += [_Wrong(name, text, run.workflow_id) for name, text in said if text is not None]
            found = [(at, run.workflow_id) for at, one in self._remembering if one.remembers(run)]
            held = held.union(found) if found else held
        return wrong, held

    def _runs(self) -> list[RunState]:
        if not self.invariants:
            return []
        with self.box.engine.backend.reading() as view:
            ids = view.executions.workflow_ids(None, "", 1_000)
        return [RunState(self.box.engine, one, self.box.acts, self.reader) for one in ids]

    def _at_end(self, held: _Held) -> list[_Wrong]:
        """Return what is wrong when nothing is left to happen."""
        engine = self.box.engine
        wrong = [
            _Wrong("never ends", f"{one} can never end: {engine.explain(one)}", one)
            for one in engine.admin.workflow_ids()
            if self.case.until_ms is None and not engine.status(one).terminal
        ]
        found = [(one.name, one.end(run), run.workflow_id) for run in self._runs() for one in self.invariants]
        found += [
            (one.name, one.forgotten(), run.workflow_id)
            for at, one in self._remembering
            for run in self._runs()
            if (at, run.workflow_id) not in held and not run.is_begun
        ]
        return wrong + [_Wrong(name, text, owner) for name, text, owner in found if text is not None]

    # ------------------------------------------------------------------ what is found

    def _found(self, wrong: Sequence[_Wrong], chosen: tuple[str, ...]) -> None:
        """Keep the first of each kind, with the fewest choices that lead to it."""
        for name in dict.fromkeys(one.name for one in wrong):
            if name not in self.problems and len(self.problems) < self._enough:
                breaks = partial(self._breaks, name=name)
                self._breaks(once(shortest(chosen, breaks), breaks), name, keep=True)

    def _breaks(self, schedule: tuple[str, ...], name: str, *, keep: bool = False) -> bool:
        """Return True if a schedule leads to a problem; `keep`: and note it."""
        lines: list[str] = []
        for _, wrong in self._replay(schedule, lines if keep else None):
            for one in wrong:
                if one.name == name:
                    if keep:
                        self._keep(one, schedule, lines)
                    return True
        return False

    def _keep(self, wrong: _Wrong, schedule: tuple[str, ...], lines: Sequence[str]) -> None:
        shown = lines[:_SHOWN] if wrong.name == "no end" else lines
        made = Problem(
            name=wrong.name,
            text=wrong.text,
            workflow_id=wrong.workflow_id,
            schedule=schedule,
            timeline="\n".join(shown),
            number=self._schedules,
        )
        self.problems[wrong.name] = attrs.evolve(made, test=self._paste(made))

    def rerun(self, schedule: Sequence[str], enough: int) -> None:
        """Run one schedule until enough was found; raises InvalidInput when one of its choices never can be made."""
        self._schedules, self.box.orders = 1, True
        lines: list[str] = []
        for held, wrong in self._replay(tuple(schedule), lines, strict=True):
            self._moment(held)
            self._extent = [(self.box.elapsed, self.box.picked)]
            for one in wrong:
                if one.name not in self.problems and len(self.problems) < enough:
                    self._keep(one, tuple(schedule), lines)
            if len(self.problems) >= enough:
                return

    def _replay(
        self, schedule: tuple[str, ...], lines: list[str] | None = None, *, strict: bool = False
    ) -> Iterator[tuple[_Held, list[_Wrong]]]:
        """The ordinary course from the start with these choices, in their order; what is wrong after each step.

        Its timeline is added to `lines`.
        """
        self.box.restore(self._started)
        held, left, lasting = _NOTHING, list(schedule), Lasting()
        for _ in range(self._steps):
            choices = self.box.choices()
            action = choices[0]
            texts = {_choice(one, action): one for one in choices[1:]}
            if left and lasting.plain(left[0]) in texts:
                action = texts[lasting.plain(left[0])]
                lasting.begin(left.pop(0), action)
            elif (again := lasting.next(texts)) is not None:
                action = texts[again]
            mark = "" if action is choices[0] else "   <-- out of the ordinary"
            if action is END:
                if strict and left:
                    raise InvalidInput(
                        f"it never comes to {left[0]!r}; there it could be any of {', '.join(sorted(texts)) or 'nothing'}"
                    )
                yield held, self._at_end(held)
                return
            wrong, held = self._step(action, held)
            if lines is not None:
                lines += self._lines_of(action.label + mark)
            yield held, wrong
            if any(one.last for one in wrong):
                return
        yield held, [_Wrong("no end", f"no end in {self._steps} steps", ROOT)]

    def _lines_of(self, action: str) -> list[str]:
        """The lines of a timeline for the last step."""
        at = f"+{self.box.elapsed / 1000:.3f}".rstrip("0").rstrip(".") + "s"
        return [
            f"{at:<10} {action}",
            *(
                f"             {'' if owner == ROOT else owner + ' '}{text[11:]}"
                for owner, history in self.box.history
                for text in render_history(history).splitlines()
            ),
        ]

    def explored(self, *, exhausted: bool) -> Explored:
        """Return what the search has come to."""
        refs = [one.ref for one in walk(self.case.definitions[-1])]
        unreached = [ref for ref in refs if not any(found == ref or found.startswith(f"{ref}__") for found in self._reached)]
        extents = [*self._extent, _longest(self._edges)]
        longest, most = (None if None in found else max(filter(None, found), default=0) for found in zip(*extents, strict=True))
        if not exhausted:
            self._bounds.append("every other schedule (schedule=)")
        bounds = list(self._bounds)
        if self._open and len(self.problems) >= self._enough:
            bounds.append(f"schedules after {self._enough} problem{'s' if self._enough > 1 else ''} (enough=)")
        elif self.box.passed_over and not self.box.orders:
            bounds.append("other orders in which tasks are picked up")
        ends = [f"time after {span_in_words(self.case.until_ms or 0)} (until=)"] if self.box.cut else []
        read = self.reader.found
        unread = () if not exhausted or Read.ENGINE in read else tuple(str(one) for one in _ABSTRACTED if one not in read)
        return Explored(
            schedules=self._schedules,
            moments=max(self._moments, len(self._seen)),
            exhausted=exhausted and not bounds and not self._open,
            unreached=tuple(unreached),
            longest_ms=longest,
            most_calls=most,
            problems=tuple(self.problems.values()),
            bounds=(*bounds, *ends),
            merged=unread,
        )


def shortest(chosen: tuple[str, ...], breaks: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """The choices without those that are not needed: all of them are left out first, then halves, smaller parts, single ones."""
    size = len(chosen)
    while size:
        at, before = len(chosen), len(chosen)
        while at > 0:
            candidate = (*chosen[: max(0, at - size)], *chosen[at:])
            if breaks(candidate):
                chosen = candidate
            at -= size
        if size > 1 or len(chosen) == before:
            size //= 2
        size = min(size, len(chosen))
    return chosen


def once(chosen: tuple[str, ...], breaks: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """The choices without what makes them again in later rounds, where once is enough."""
    for at, choice in enumerate(chosen):
        plain = Lasting.plain(choice)
        if plain != choice and breaks(candidate := (*chosen[:at], plain, *chosen[at + 1 :])):
            chosen = candidate
    return chosen


def _choice(action: Action, usual: Action) -> str:
    """Return how a schedule names a choice: what becomes of a call by itself, everything else with what it came before."""
    if action.message is not None and action.message == usual.message:
        return action.label
    return f"{action.label}, before {usual.label}"


def _longest(edges: Mapping[int, set[tuple[int, int, int]]]) -> tuple[int | None, int | None]:
    """The longest time and the most calls along any way from the first moment; None for a way without an end."""
    best: dict[int, tuple[int, int]] = {}
    open_: set[int] = set()
    stack = [(0, False)]
    while stack:
        at, done = stack.pop()
        if done:
            open_.discard(at)
            ways = [(ms + best[to][0], calls + best[to][1]) for to, ms, calls in edges.get(at, ()) if to in best]
            best[at] = max((ms for ms, _ in ways), default=0), max((calls for _, calls in ways), default=0)
        elif at in open_:
            return None, None
        elif at not in best:
            open_.add(at)
            stack.append((at, True))
            stack += [(to, False) for to, _, _ in edges.get(at, ()) if to not in best]
    return best.get(0, (0, 0))
