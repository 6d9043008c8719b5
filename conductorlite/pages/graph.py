"""The picture of an execution as SVG: what contains something is a box around it, one after another from top to bottom.

Places of the same form are drawn as one: the 2,000 branches of a fork that all call `transform` are one box with their counts. So
the picture stays small however wide an execution is. Each place that was tried links to its attempts on the page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from typing import Final

import attrs

from conductorlite.model.definitions import WorkflowDef, WorkflowTask
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.texts import span_in_words
from conductorlite.pages.markup import Html, element, join, look, packaged
from conductorlite.plan.diagrams import kind_and_subject, state_in_words
from conductorlite.plan.grafts import unfolded
from conductorlite.plan.tree import Branch, attempt_in, branches

__all__ = ["Graph", "Place", "attempts_of", "picture", "took"]

#: So many branches stand beside each other, and so many tasks below each other, before some are drawn as one.
_WIDE: Final = 6
_LONG: Final = 30

#: Sizes in pixels: a place, the space between places and around them, the characters of a line.
_WIDTH: Final = 232
_HEIGHT: Final = 60
_GAP: Final = 22
_PAD: Final = 12

#: What fits on a phone, pixels.
_PHONE: Final = 340
_CHARACTERS: Final = 30


def lists_of(task: WorkflowTask) -> Iterator[tuple[Branch, str, Sequence[WorkflowTask]]]:
    """The lists of tasks that stand in one: as `branches`, and the steps of an attempt."""
    yield from branches(task)
    inner = attempt_in(task)
    if inner is not None:
        yield Branch(ref=task.task_reference_name, kind="attempt"), "", inner.tasks


def attempts_of(workflow: Workflow | None) -> dict[str, list[Task]]:
    """The attempts of an execution by the reference in its definition."""
    rows: dict[str, list[Task]] = {}
    for task in () if workflow is None else workflow.tasks:
        rows.setdefault(task.base_ref, []).append(task)
    return rows


def picture(definition: WorkflowDef, workflow: Workflow | None = None, *, now: int = 0) -> str:
    """A definition, or where an execution of it stands, as one SVG file: light and dark, without a script or a network.

    `now` (epoch ms) is the instant up to which what runs has taken its time.
    """
    rows = attempts_of(workflow)
    links = {task.task_id: "" for some in rows.values() for task in some}
    shown = definition if workflow is None else unfolded(workflow) or definition
    now = max(now, 0 if workflow is None else workflow.updated_at)
    graph = Graph(definition=shown, rows=rows, links=links, now=now, plain=workflow is None)
    return str(graph.drawn(_style()))


@cache
def _style() -> Html:
    """Return the rules of the page's style that the picture needs, as it may stand in another page."""
    lines = packaged("page.css").splitlines()
    colors = "\n".join(lines[: lines.index("* { box-sizing: border-box; }")]).replace(":root", _SCOPE)
    groups = [f"{_SCOPE} {line}" for line in lines if _GROUP.match(line)]
    return Html("\n".join([colors, *groups, *(line.replace("svg ", f"{_SCOPE} ") for line in lines if line.startswith("svg "))]))


#: The picture that stands alone; what says the colours of a status.
_SCOPE: Final = "svg.conductorlite"
_GROUP: Final = re.compile(r"\.(ok|bad|warn|busy|idle|off) ")


def took(task: Task, now: int) -> int:
    """How long an attempt took, or has taken, from when it was scheduled (ms)."""
    begun = task.started_at or task.scheduled_at
    return max(0, (task.ended_at or now) - begun) if begun else 0


@attrs.frozen(kw_only=True, slots=True)
class Place:
    """One box: a task, or several of the same form; `refs` are those of the definition that it stands for."""

    number: int
    refs: tuple[str, ...]
    title: str
    kind: str
    #: What is inside: each list with its label.
    lists: tuple[tuple[str, tuple[Place, ...]], ...] = ()
    undo: Place | None = None


@attrs.frozen(slots=True)
class _Drawn:
    """A piece of the picture: its size, where the line from above meets it, and its markup."""

    width: int
    height: int
    middle: int
    markup: Html


@attrs.define(slots=True)
class Graph:
    """The places of a definition and the attempts at them.

    `rows` are the attempts by the reference in the definition; those of references that are not in it have places of their own,
    last. `numbers` say which place each reference is in, `links` where on the page each attempt is, by its id.
    """

    definition: WorkflowDef
    rows: Mapping[str, Sequence[Task]]
    links: Mapping[str, str]
    now: int
    #: Whether it is a definition by itself, of which nothing stands anywhere.
    plain: bool = False
    numbers: dict[str, int] = attrs.field(factory=dict)
    places: tuple[Place, ...] = ()
    elsewhere: tuple[Place, ...] = ()
    _forms: dict[object, int] = attrs.field(factory=dict)
    #: By the identity of a task, which is kept: one that is made on demand must not leave its place to another.
    _formed: dict[int, tuple[WorkflowTask, int]] = attrs.field(factory=dict)
    _count: int = 0
    #: How wide the picture is, pixels; 0 until it is drawn.
    width: int = 0

    def __attrs_post_init__(self) -> None:
        self.places = self._series([self.definition.tasks])
        others = [ref for ref in self.rows if ref not in self.numbers]
        self.elsewhere = tuple(self._place_of((ref,), ref, self.rows[ref][-1].task_type) for ref in others[:_LONG])
        if others[_LONG:]:
            self.elsewhere += (self._place_of(tuple(others[_LONG:]), f"{len(others) - _LONG:,} others", ""),)

    # ------------------------------------------------------------------ which places there are

    def _form(self, task: WorkflowTask) -> int:
        """A number that tasks have in common which look alike: the same kind with the same inside, whatever their references."""
        known = self._formed.get(id(task))
        if known is not None:
            return known[1]
        inside = tuple((one.kind, one.key, *map(self._form, tasks)) for one, _, tasks in lists_of(task))
        undo = None if task.compensation is None else self._form(task.compensation)
        parts = (task.type, task.name if not inside else "", kind_and_subject(task)[1], inside, undo)
        form = self._forms.setdefault(parts, len(self._forms))
        self._formed[id(task)] = task, form
        return form

    def _series(self, lists: Sequence[Sequence[WorkflowTask]]) -> tuple[Place, ...]:
        """The places of lists of the same form, drawn as one."""
        steps = [list(step) for step in zip(*lists, strict=True)]
        if len(steps) > _LONG:
            steps = [[task for step in run for task in step] for _, run in groupby(steps, lambda step: self._form(step[0]))]
        if len(steps) <= _LONG:
            return tuple(map(self._place, steps))
        half = _LONG // 2
        between = steps[half:-half]
        rest = self._place_of(tuple(_refs(between)), f"{sum(map(len, between)):,} tasks between", "")
        return (*map(self._place, steps[:half]), rest, *map(self._place, steps[-half:]))

    def _place(self, tasks: Sequence[WorkflowTask]) -> Place:
        first, many = tasks[0], len(tasks)
        title = first.task_reference_name if many == 1 else f"{many:,} × {first.name or first.type}"
        kind = " ".join(filter(None, kind_and_subject(first)))
        place = self._place_of(tuple(task.task_reference_name for task in tasks), title, kind)
        columns = [(_label(some[0][0]), [inner for _, _, inner in some]) for some in zip(*map(lists_of, tasks), strict=True)]
        rest: list[_Column] = []
        if len(columns) > _WIDE:
            columns, rest = self._gathered(columns)
        lists = [(label, self._series(some)) for label, some in columns if some[0]]
        if rest:
            refs = tuple(_refs(inner for _, some in rest for inner in some))
            lists.append(("", (self._place_of(refs, f"{sum(len(some) for _, some in rest):,} more branches", ""),)))
        undo = [task.compensation for task in tasks if task.compensation is not None]
        return attrs.evolve(place, lists=tuple(lists), undo=self._place(undo) if undo else None)

    def _gathered(self, columns: Sequence[_Column]) -> tuple[list[_Column], list[_Column]]:
        """Branches of the same form as one; of what is still too many, those that were tried before others, and the rest."""
        alike: dict[object, list[Sequence[WorkflowTask]]] = {}
        for label, lists in columns:
            alike.setdefault((label, *map(self._form, lists[0])), []).extend(lists)
        found = [(str(key[0]), lists) for key, lists in alike.items() if isinstance(key, tuple)]
        if len(found) <= _WIDE:
            return found, []
        tried = [any(ref in self.rows for ref in _refs(lists)) for _, lists in found]
        kept = sorted(sorted(range(len(found)), key=lambda place: not tried[place])[: _WIDE - 1])
        return [found[place] for place in kept], [one for place, one in enumerate(found) if place not in kept]

    def _place_of(self, refs: tuple[str, ...], title: str, kind: str) -> Place:
        self._count += 1
        self.numbers.update((ref, self._count) for ref in refs)
        return Place(number=self._count, refs=refs, title=title, kind=kind if kind != title else "")

    # ------------------------------------------------------------------ how they are drawn

    def svg(self) -> Html:
        """The picture; it scrolls by itself where it is wider than the page."""
        whole = self.drawn()
        picture = element("div", whole, class_="scroll", tabindex="0", role="group", aria_label="Graph")
        if self.width <= _PHONE:
            return picture
        return join([element("p", "Where the graph is wider than the screen, it scrolls sideways.", class_="note"), picture])

    def drawn(self, style: Html | None = None) -> Html:
        """The picture; with a `style` it stands alone."""
        columns = [self._column("", self.places)]
        if self.elsewhere:
            columns.append(self._column("not in the definition now", self.elsewhere))
        width, height = sum(one.width + _GAP for one in columns), max(one.height for one in columns)
        self.width = width
        drawn, left = [], 1
        for one in columns:
            drawn.append(_moved(left, 1, one.markup))
            left += one.width + _GAP
        name = f"The steps of {self.definition.name}, from top to bottom"
        box = {"viewBox": f"0 0 {width} {height + 2}", "width": width, "height": height + 2, "role": "group", "aria_label": name}
        if style is not None:
            drawn.insert(0, element("style", style))
            box |= {"xmlns": "http://www.w3.org/2000/svg", "class_": "conductorlite"}
        return element("svg", *drawn, **box)

    def _column(self, label: str, places: Sequence[Place]) -> _Drawn:
        """Places from top to bottom, with lines between them: thick where the flow has come along."""
        drawn = [self._whole(place) for place in places]
        left = max((one.middle for one in drawn), default=_WIDTH // 2)
        width = left + max((one.width - one.middle for one in drawn), default=_WIDTH // 2)
        parts, top = [], 0
        if label:
            top = 18
            parts.append(_text(left, 12, label, "label"))
        for number, (place, one) in enumerate(zip(places, drawn, strict=True)):
            if number:
                parts.append(self._line(left, top, left, top + _GAP, place))
                top += _GAP
            parts.append(_moved(left - one.middle, top, one.markup))
            top += one.height
        return _Drawn(width, top, left, join(parts))

    def _line(self, from_x: int, from_y: int, to_x: int, to_y: int, place: Place) -> Html:
        taken = any(ref in self.rows for ref in place.refs)
        between = from_y + _GAP // 3
        path = f"M{from_x} {from_y}V{between}H{to_x}V{to_y}" if from_x != to_x else f"M{from_x} {from_y}V{to_y}"
        return element("path", d=path, class_="line taken" if taken else "line")

    def _whole(self, place: Place) -> _Drawn:
        """A place with what is inside it, and what undoes it beside it."""
        one = self._container(place) if place.lists else _Drawn(_WIDTH, _HEIGHT, _WIDTH // 2, self._box(place))
        if place.undo is None:
            return one
        undo, left = self._box(place.undo), one.width + _GAP + 36
        line = element("path", d=f"M{one.width} {_HEIGHT // 2}H{left}", class_="line undo")
        note = _text(one.width + (left - one.width) // 2, _HEIGHT // 2 - 4, "undo", "label")
        return _Drawn(left + _WIDTH, one.height, one.middle, join([one.markup, line, note, _moved(left, 0, undo)]))

    def _container(self, place: Place) -> _Drawn:
        columns = [self._column(label, places) for label, places in place.lists]
        inside = sum(one.width for one in columns) + _GAP * (len(columns) - 1)
        width = max(inside, _WIDTH) + 2 * _PAD
        middle, top = width // 2, _PAD + _HEIGHT + _GAP
        parts = [_moved(middle - _WIDTH // 2, _PAD, self._box(place))]
        left = (width - inside) // 2
        for (label, places), one in zip(place.lists, columns, strict=True):
            parts.append(self._line(middle, _PAD + _HEIGHT, left + one.middle, top + (18 if label else 0), places[0]))
            parts.append(_moved(left, top, one.markup))
            left += one.width + _GAP
        height = top + max(one.height for one in columns) + _PAD
        frame = element("rect", width=width, height=height, rx=10, class_="frame")
        return _Drawn(width, height, middle, join([frame, *parts]))

    def _box(self, place: Place) -> Html:
        rows = [task for ref in place.refs for task in self.rows.get(ref, ())]
        words, status = self.state(place, rows)
        group, sign = look(status)
        said = (("name", place.title), ("kind", place.kind), ("state", "" if self.plain else f"{sign} {words}"))
        lines = [(kind, text) for kind, text in said if text]
        box = join(
            [
                element("title", " · ".join(filter(None, (place.title, place.kind, "" if self.plain else words)))),
                element("rect", width=_WIDTH, height=_HEIGHT, rx=7),
                *(_text(_PAD, 20 + 16 * number, text, kind) for number, (kind, text) in enumerate(lines)),
            ]
        )
        many = len(place.refs) > 1
        data = {"class_": f"place {group}" + (" many" if many else ""), "data_n": place.number}
        if not rows:
            return element("g", box, **data)
        typical = next((task for task in rows if many and str(task.status) == status), rows[-1])
        link = self.links.get(typical.task_id)
        return element("a", box, href=f"#{link}" if link else None, **data)

    def state(self, place: Place, rows: Sequence[Task]) -> tuple[str, str]:
        """Return the state of a place in words, and the status that gives its color: the worst of them."""
        if len(place.refs) == 1 or not rows:
            if not rows:
                return "not run", ""
            words = [state_in_words(rows).lower().replace("_", " "), span_in_words(took(rows[-1], self.now))]
            undone = place.undo is not None and any(
                task.status.successful for ref in place.undo.refs for task in self.rows.get(ref, ())
            )
            return ", ".join(words + (["undone"] if undone else [])), "UNDONE" if undone else str(rows[-1].status)
        last = {task.ref: task for task in rows}
        counts = Counter(str(task.status) for task in last.values())
        missing = len(place.refs) - len({task.base_ref for task in rows})
        words = [f"{number:,} {status.lower().replace('_', ' ')}" for status, number in counts.most_common()]
        worst = min(counts, key=lambda status: _WORST.index(look(status)[0]))
        return ", ".join(words + ([f"{missing:,} not run"] if missing else [])), worst


#: Lists of tasks of the same form, with the label of all of them.
_Column = tuple[str, list[Sequence[WorkflowTask]]]

_WORST: Final = ("bad", "busy", "idle", "warn", "off", "ok")


def _label(branch: Branch) -> str:
    return f"case {branch.key}" if branch.kind == "case" else "default" if branch.kind == "default" else ""


def _refs(lists: Iterable[Sequence[WorkflowTask]]) -> Iterator[str]:
    """The references of whatever is in some lists, with what undoes it."""
    for task in chain.from_iterable(lists):
        yield task.task_reference_name
        yield from _refs(inner for _, _, inner in lists_of(task))
        if task.compensation is not None:
            yield task.compensation.task_reference_name


def _text(left: int, top: int, text: str, kind: str) -> Html:
    shown = text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"
    return element("text", shown, x=left, y=top, class_=kind)


def _moved(left: int, top: int, markup: Html) -> Html:
    return element("g", markup, transform=f"translate({left} {top})")
