"""HTML by function calls: `element("p", text, class_="x")` escapes every text, so that no page can forget to.

`Html` is text that is markup already, made here only. What no reader should obey is shown as U+FFFD: control characters, lone
surrogates, and what turns the direction of writing.

Forms for what may be done with an execution: each verb that its status allows, as docs/reference/verbs-by-status.md has them.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from typing import Final, TypeVar
from urllib.parse import quote

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "PROOF",
    "Document",
    "Html",
    "actions",
    "badge",
    "chunks",
    "element",
    "join",
    "linked",
    "look",
    "packaged",
    "pairs",
    "payload_text",
    "search_form",
    "section",
    "table",
    "table_row",
    "whole_page",
]

_SIGNS: Final = re.compile(
    "[&<>\"'\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufff9-\uffff]"
)
T = TypeVar("T")

_VOID: Final = frozenset({"input", "meta"})


class Html(str):
    """Text that is markup: whatever of a user's is in it has been escaped."""

    __slots__ = ()


def _escaped(value: object) -> str:
    return value if isinstance(value, Html) else _SIGNS.sub(_shown, str(value))


def _shown(sign: re.Match[str]) -> str:
    return html.escape(sign[0]) if sign[0] in "&<>\"'" else "\ufffd"


def element(tag: str, /, *content: object, **attributes: object) -> Html:
    """An element; `class_` and `aria_label` are the attributes `class` and `aria-label`, and one that is None is left out."""
    given = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(value)}"')
        for name, value in attributes.items()
        if value is not None
    )
    return Html(f"<{tag}{given}>" if tag in _VOID else f"<{tag}{given}>{''.join(map(_escaped, content))}</{tag}>")


def join(parts: Iterable[object], between: str = "") -> Html:
    """One after another."""
    return Html(_escaped(between).join(map(_escaped, parts)))


# ---------------------------------------------------------------------- what both pages are made of

#: How each status looks: a group, which has a colour, and a sign, for colour alone says nothing to some.
_LOOKS: Final = {
    "COMPLETED": ("ok", "✓"), "COMPLETED_WITH_ERRORS": ("warn", "!"), "FAILED": ("bad", "✗"),
    "FAILED_WITH_TERMINAL_ERROR": ("bad", "✗"), "TIMED_OUT": ("bad", "✗"), "TERMINATED": ("bad", "■"), "RUNNING": ("busy", "▸"),
    "IN_PROGRESS": ("busy", "▸"), "SCHEDULED": ("idle", "○"), "PENDING": ("idle", "○"), "PAUSED": ("warn", "‖"),
    "UNDONE": ("off", "↶"), "CANCELED": ("off", "⊘"), "SKIPPED": ("off", "»"),
}  # fmt: skip


def look(status: str) -> tuple[str, str]:
    """The group and the sign of a status; of what has none those of what has not run."""
    return _LOOKS.get(status, ("off", "·"))


def badge(status: str) -> Html:
    """A status with its sign and colour."""
    group, sign = look(status)
    return element("span", element("span", sign, aria_hidden="true"), f" {status}", class_=f"badge {group}")


def linked(workflow_id: str | None, address: str | None) -> object:
    """An execution's id, as a link where there is a page of it: `address` is what those of all begin with."""
    if workflow_id is None or address is None:
        return workflow_id
    return element("a", workflow_id, href=_page_of(workflow_id, address))


def section(name: str, title: str, *content: object) -> Html:
    """A landmark with a heading, which the page's navigation leads to."""
    return element("section", element("h2", title, id=f"{name}-title"), *content, id=name, aria_labelledby=f"{name}-title")


def pairs(entries: Iterable[tuple[str, object]]) -> Html:
    """Names and values; those without a value are left out."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in entries if value not in (None, "", ()))
    )


def table_row(first: object, *others: object, **attributes: object) -> Html:
    """A row of a table, which its first cell names."""
    cells = (element("td", "" if cell is None else cell) for cell in others)
    return element("tr", element("th", first, scope="row"), *cells, **attributes)


def table(caption: str, headings: Sequence[str], rows: Iterable[Html]) -> Html:
    """A table; it scrolls by itself where it is wider than the page. Empty without a row."""
    body = element("tbody", *rows)
    head = element("thead", element("tr", *(element("th", heading, scope="col") for heading in headings)))
    whole = element("table", element("caption", caption), head, body)
    return element("div", whole, class_="scroll", tabindex="0", role="group", aria_label=caption) if "<tr" in body else Html()


def search_form(scope: str, statuses: Iterable[object]) -> Html:
    """Return the form that finds rows in a section, by their text and status; only the script shows it, as only the script can use
    it.
    """
    options = [
        element("option", "any status", value=""),
        *(element("option", status) for status in sorted(set(map(str, statuses)))),
    ]
    return element(
        "form",
        element("label", "Find ", element("input", type="search", name="text", autocomplete="off")),
        element("label", "Status ", element("select", *options, name="status")),
        element("button", "Show all", type="reset"),
        element("output", aria_live="polite"),
        class_="filter",
        hidden=True,
        data_of=scope,
    )


def chunks(parts: Iterable[T], size: int, noun: str, whole: Callable[[Sequence[T]], Html]) -> Html:
    """Many parts in folds of `size`, each made `whole`, the first one open.

    The others are in `noscript`: one text to a browser that runs the script, which makes elements of it when a fold is opened, and
    elements to any other.
    """
    made: list[Html] = []
    waiting, first = iter(parts), 1
    while some := list(islice(waiting, size)):
        summary = element("summary", f"{noun} {first:,} to {first + len(some) - 1:,}")
        content = whole(some) if first == 1 else element("noscript", whole(some))
        made.append(element("details", summary, content, class_="chunk", open=True if first == 1 else None))
        first += len(some)
    return join(made)


def payload_text(payload: Payload, limit: int) -> Html:
    """A document of a user's, cut to `limit` characters with its whole length."""
    text = payload.shown
    note = element("p", f"Cut here: {len(text):,} characters in all", class_="note") if len(text) > limit else ""
    return join([element("pre", text[:limit], tabindex="0"), note])


@cache
def packaged(name: str) -> str:
    """The text of a file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@attrs.frozen(slots=True)
class Document:
    """A page: its heading, and sections (name, title, content), of which empty ones are left out.

    `moves` says whether it shows how long something takes, and so another thing each second.
    """

    title: str
    heading: Html
    sections: Sequence[tuple[str, str, Html]]
    moves: bool = True

    def parts(self) -> dict[str, Html]:
        """Return the parts of the page by id, in order: its top with the navigation, then its sections."""
        shown = [(name, title, content) for name, title, content in self.sections if content]
        links = (element("li", element("a", title, href=f"#{name}")) for name, title, _ in shown)
        nav = element("nav", element("ul", *links), aria_label="On this page")
        return {"top": element("header", self.heading, nav, id="top")} | {one[0]: section(*one) for one in shown}

    def html(self) -> str:
        """The whole page, in one file that needs nothing."""
        return whole_page(self.title, self.parts())


def whole_page(
    title: str,
    parts: Mapping[str, Html],
    scripts: Sequence[str] = ("page.js",),
    *,
    above: Html | None = None,
    **data: str,
) -> str:
    """A page of parts, with `data` for its scripts. No script but ours may run in it, and nothing may be loaded.

    One with something `above` is served: its scripts and forms may talk to its server, and to no other.
    """
    style, texts = packaged("page.css"), [packaged(name) for name in scripts]
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts)
    talks = "form-action 'none'" if above is None else "connect-src 'self'; form-action 'self'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; base-uri 'none'; {talks}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        above or "",
        parts.get("top", ""),
        element("main", *(part for name, part in parts.items() if name != "top"), id="content", tabindex="-1"),
        *(element("script", Html(text)) for text in texts),
        **{f"data_{name}": value for name, value in data.items()},
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


#: Stands for what proves that a page of ours sent a form; what serves the page puts it there.
PROOF: Final = "{the proof of this session}"

#: Tasks that a person or another system ends.
_OPEN: Final = frozenset({TaskType.HUMAN, TaskType.WAIT})

#: Open tasks that have a form of their own.
_FORMS: Final = 20

_JSON: Final = "{}"


def actions(row: Workflow, address: str, within: Iterable[Workflow] = ()) -> Html:
    """Return the actions on an execution; `address` is the beginning of the addresses of executions' pages.

    `within` are the executions in which the steps of a `try` run: what waits in them is ended here too.
    """
    running = [one for one in (row, *within) if one.status is WorkflowStatus.RUNNING]
    waiting = [task for one in running for task in one.tasks if task.task_type in _OPEN and task.status is TaskStatus.IN_PROGRESS]
    ends = (_end_task(task, _page_of(task.workflow_id, address)) for task in waiting[:_FORMS])
    return join([*ends, *_forms(row, _page_of(row.workflow_id, address))])


def _page_of(workflow_id: str, address: str) -> str:
    return f"{address}{quote(workflow_id, safe='')}"


def _forms(row: Workflow, page: str) -> Iterator[Html]:
    status, parked = row.status, row.parked is not None
    ended = status.terminal
    failed = ended and status is not WorkflowStatus.COMPLETED
    if status is WorkflowStatus.PAUSED or parked:
        yield _form(page, "resume", "Resume")
    elif not ended:
        yield _form(page, "pause", "Pause")
    if failed:
        yield _form(page, "retry", "Retry", _check("resume_subworkflow_tasks", "the failed sub-workflow itself"))
    if ended:
        yield _form(page, "restart", "Restart", _check("use_latest_definitions", "with the newest definition"))
    if row.tasks and status is not WorkflowStatus.PAUSED:
        fields = _refs(row, "from_task", "from task"), _text("task_input", "its input, JSON")
        yield _folded("Rerun from a task", _form(page, "rerun", "Rerun", *fields))
    if status is WorkflowStatus.RUNNING:
        skip = _line("ref", "reference of the task"), _text("output", "its output, JSON")
        yield _folded("Skip a task", _form(page, "skip_task", "Skip", *skip))
    if not ended:
        yield _folded("Set variables", _form(page, "update_variables", "Set", _text("variables", "variables, JSON", _JSON)))
        yield _folded("Terminate", _form(page, "terminate", "Terminate", _line("reason", "reason")))


def _end_task(task: Task, page: str) -> Html:
    """The form of a task that waits for somebody."""
    statuses = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR)
    choices = element("label", "as ", element("select", *(element("option", one) for one in statuses), name="status"))
    fields = choices, _text("output", "output, JSON", _JSON), _line("reason", "reason")
    hidden = element("input", type="hidden", name="task", value=task.task_id)
    return _folded(f"End {task.ref} ({task.task_type})", _form(page, "signal", f"End {task.ref}", hidden, *fields), is_open=True)


def _form(page: str, verb: str, label: str, *fields: Html) -> Html:
    proof = element("input", type="hidden", name="csrf", value=PROOF)
    return element("form", proof, *fields, element("button", label), method="post", action=f"{page}/{verb}", class_="verb")


def _folded(title: str, form: Html, *, is_open: bool = False) -> Html:
    return element("details", element("summary", title), form, class_="verb", open=True if is_open else None)


def _check(name: str, label: str) -> Html:
    return element("label", element("input", type="checkbox", name=name, value="true"), f" {label}")


def _line(name: str, label: str) -> Html:
    return element("label", f"{label} ", element("input", type="text", name=name, autocomplete="off"))


def _text(name: str, label: str, value: str = "") -> Html:
    return element("label", f"{label} ", element("textarea", value, name=name, rows="2", cols="40", spellcheck="false"))


def _refs(row: Workflow, name: str, label: str) -> Html:
    refs = list(dict.fromkeys(task.ref for task in row.tasks))[-200:]
    return element("label", f"{label} ", element("select", *(element("option", ref) for ref in refs), name=name))
