"""A definition, or an execution of it, as a Mermaid flowchart.

Nodes are numbered in the order of the definition (`t1`, `t2` …; `u2` is what undoes `t2`), so that no text of a user ever
becomes an identifier; labels hold that text, and everything in it that Mermaid, its Markdown or its HTML could take for more
than an event is written as a character code. The same definition and rows give the same text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

import attrs

from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.later import pattern
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.grafts import unfolded
from conductorlite.plan.tree import python_of

__all__ = ["kind_and_subject", "mermaid", "state_in_words"]

#: Longest piece of a user's text in a label.
_LONGEST: Final = 80

#: Where an arrow comes from: a node, and the label the arrow gets.
_Exit = tuple[str, str | None]

_SHAPES: Final = {
    TaskType.FORK_JOIN: ('{{"', '"}}'),
    TaskType.FORK_JOIN_DYNAMIC: ('{{"', '"}}'),
    TaskType.JOIN: ('{{"', '"}}'),
    TaskType.EXCLUSIVE_JOIN: ('{{"', '"}}'),
    TaskType.SWITCH: ('{"', '"}'),
    TaskType.DECISION: ('{"', '"}'),
    TaskType.DO_WHILE: ('[/"', '"/]'),
    TaskType.SUB_WORKFLOW: ('[["', '"]]'),
    TaskType.START_WORKFLOW: ('[["', '"]]'),
    TaskType.WAIT: ('(["', '"])'),
    TaskType.HUMAN: ('(["', '"])'),
    TaskType.PULL_WORKFLOW_MESSAGES: ('(["', '"])'),
}

_COLOURS: Final = {
    "pending": "fill:#e8eef7,stroke:#5b7aa8,color:#1d2b40,stroke-dasharray:4 3",
    "scheduled": "fill:#e8eef7,stroke:#5b7aa8,color:#1d2b40",
    "inProgress": "fill:#cfe2ff,stroke:#0b5ed7,color:#062c65",
    "completed": "fill:#d1e7dd,stroke:#198754,color:#0a3622",
    "completedWithErrors": "fill:#fff3cd,stroke:#b58105,color:#4d3800",
    "failed": "fill:#f8d7da,stroke:#dc3545,color:#58151c",
    "failedWithTerminalError": "fill:#f8d7da,stroke:#842029,color:#58151c,stroke-width:3px",
    "timedOut": "fill:#ffe5d0,stroke:#fd7e14,color:#653208",
    "canceled": "fill:#e2e3e5,stroke:#6c757d,color:#2b2f32",
    "skipped": "fill:#e2e3e5,stroke:#6c757d,color:#2b2f32",
    "notRun": "fill:#ffffff,stroke:#adb5bd,color:#6c757d,stroke-dasharray:4 3",
}


def mermaid(definition: WorkflowDef, workflow: Workflow | None = None) -> str:
    """The flowchart of a definition; with an execution of it (as `Engine.get` returns it) each node shows how it went.

    A node then has its last status as text and colour, the number of attempts when there was more than one, and the rounds of
    loops. What was made at run time (the branches of a dynamic fork, what a DYNAMIC stands for) is drawn in its place; of a
    loop's rounds, that of the newest. Tasks that are in none of these stand apart, in a box of their own.
    """
    whole = unfolded(workflow) if workflow is not None and workflow.made else None
    return _Chart(whole or definition, workflow).text()


@attrs.define(slots=True)
class _Chart:
    definition: WorkflowDef
    workflow: Workflow | None
    nodes: dict[str, str] = attrs.field(factory=dict)
    lines: list[str] = attrs.field(factory=list)
    arrows: list[str] = attrs.field(factory=list)
    rows: dict[str, list[Task]] = attrs.field(factory=dict)
    classes: dict[str, list[str]] = attrs.field(factory=dict)
    forks: set[str] = attrs.field(factory=set)
    drawn: int = 0

    def text(self) -> str:
        for task in () if self.workflow is None else self.workflow.tasks:
            self.rows.setdefault(task.base_ref, []).append(task)
        title = f"{_safe(self.definition.name)} v{self.definition.version}"
        self.lines.append(f'  start(["{title}"])')
        for source, label in self.sequence(self.definition.tasks, [("start", None)], "  "):
            self.arrow(source, label, "finish")
        last = "end" if self.workflow is None else str(self.workflow.status)
        if self.workflow is not None and self.workflow.parked is not None:
            last += ", parked"
        if self.workflow is not None and self.workflow.compensating is not None:
            last += f", compensating, then {self.workflow.compensating}"
        self.lines.append(f'  finish(["{last}"])')
        self.stale_holders()
        styles = [f"  classDef {name} {_COLOURS[name]}" for name in _COLOURS if name in self.classes]
        styles += [f"  class {','.join(self.classes[name])} {name}" for name in _COLOURS if name in self.classes]
        return "\n".join(["flowchart TD", *self.lines, *self.arrows, *styles]) + "\n"

    def sequence(self, tasks: Sequence[WorkflowTask], entries: list[_Exit], indent: str) -> list[_Exit]:
        """Draw a list of tasks one after another; returns where it is left."""
        for task in tasks:
            entries = self.task(task, entries, indent)
        return entries

    def task(self, task: WorkflowTask, entries: list[_Exit], indent: str) -> list[_Exit]:
        self.drawn += 1
        node = f"t{self.drawn}"
        self.nodes.setdefault(task.task_reference_name, node)
        if task.fork_tasks:
            self.forks.add(node)
        if task.type == TaskType.DO_WHILE:
            return self.loop(task, node, entries, indent)
        self.node(task, node, indent)
        if task.type in (TaskType.JOIN, TaskType.EXCLUSIVE_JOIN):
            joined: list[_Exit] = [(self.nodes[ref], None) for ref in dict.fromkeys(task.join_on) if ref in self.nodes]
            # The fork before it is left through its branches.
            entries = [one for one in entries if not joined or one[0] not in self.forks]
            entries += [one for one in joined if one not in entries]
        for source, label in entries:
            self.arrow(source, label, node)
        if task.fork_tasks:
            for branch in task.fork_tasks:
                self.sequence(branch, [(node, None)], indent)
            return [(node, None)]
        if task.type in (TaskType.SWITCH, TaskType.DECISION):
            left: list[_Exit] = []
            for case, inner in task.decision_cases.items():
                left += self.sequence(inner, [(node, case)], indent)
            return [*left, *self.sequence(task.default_case, [(node, "default")], indent)]
        if task.type == TaskType.TERMINATE:
            self.arrow(node, "ends the workflow", "finish")
            return []
        return [(node, None)]

    def loop(self, task: WorkflowTask, node: str, entries: list[_Exit], indent: str) -> list[_Exit]:
        """The loop's node and its body in a box; an arrow back with the condition under which it is taken."""
        self.lines.append(f'{indent}subgraph loop_{node} ["loop {_safe(task.task_reference_name)}"]')
        self.node(task, node, indent + "  ")
        for source, label in entries:
            self.arrow(source, label, node)
        for source, label in self.sequence(task.loop_over, [(node, "round")], indent + "  "):
            self.arrow(source, label, node)
        self.lines.append(f"{indent}end")
        return [(node, "done")]

    def node(self, task: WorkflowTask, node: str, indent: str) -> None:
        kind = " ".join(_safe(part) for part in kind_and_subject(task) if part)
        parts = list(dict.fromkeys([_safe(task.task_reference_name), kind]))
        if task.type == TaskType.DO_WHILE:
            over = task.items if (task.items or "").strip() else None
            parts += [f"for each of {_safe(over)}"] if over is not None else []
            condition = python_of(task) or task.loop_condition or ""
            parts += [f"while {_safe(condition)}"] if condition.strip() else []
        if self.workflow is not None:
            rows = self.rows.pop(task.task_reference_name, [])
            parts.append(state_in_words(rows))
            self.colour(node, rows[-1].status if rows else None)
        opening, closing = _SHAPES.get(task.type, ('["', '"]'))  # type: ignore[call-overload]
        self.lines.append(f"{indent}{node}{opening}{'<br/>'.join(parts)}{closing}")
        if task.compensation is not None and node.startswith("t"):
            undoing = f"u{node[1:]}"
            self.node(task.compensation, undoing, indent)
            self.arrows.append(f'  {node} -. "compensate" .-> {undoing}')

    def arrow(self, source: str, label: str | None, target: str) -> None:
        middle = "-->" if label is None else f'-- "{_safe(label) or "#32;"}" -->'
        self.arrows.append(f"  {source} {middle} {target}")

    def colour(self, node: str, status: TaskStatus | None) -> None:
        head, *rest = ("not", "run") if status is None else status.value.lower().split("_")
        self.classes.setdefault(head + "".join(word.capitalize() for word in rest), []).append(node)

    def stale_holders(self) -> None:
        """Rows of no node of the definition."""
        if not self.rows:
            return
        self.lines.append('  subgraph dynamic ["scheduled at run time"]')
        for number, (ref, rows) in enumerate(self.rows.items(), 1):
            self.lines.append(f'    d{number}["{_safe(ref)}<br/>{_safe(rows[-1].task_type)}<br/>{state_in_words(rows)}"]')
            self.colour(f"d{number}", rows[-1].status)
        self.lines.append("  end")


def kind_and_subject(task: WorkflowTask) -> tuple[str, str]:
    """Return a task's type, or of a worker's the name of its definition; and what it is about, if that is not all."""
    if task.type == TaskType.SIMPLE:
        return task.name, ""
    about: str | None = None
    if task.type == TaskType.SUB_WORKFLOW and task.sub_workflow_param is not None:
        inline = task.sub_workflow_param.workflow_definition
        about = inline.name if isinstance(inline, WorkflowDef) else task.sub_workflow_param.name
        if task.sub_workflow_param.version is not None:
            about = f"{about} v{task.sub_workflow_param.version}"
    elif task.type in (TaskType.SWITCH, TaskType.DECISION):
        about = python_of(task) or task.expression or task.case_expression or task.case_value_param
    return task.type, about or ""


def state_in_words(rows: Sequence[Task]) -> str:
    """Return the status of the newest row of a node, how often it was tried, and in how many rounds."""
    if not rows:
        return "not run"
    last = rows[-1]
    words = [str(last.status)]
    attempts = sum(row.ref == last.ref for row in rows)
    if attempts > 1:
        words.append(f"{attempts} attempts")
    rounds = last.round or (len({row.ref for row in rows}) if last.iterations else 0)
    if rounds:
        words.append(f"{rounds} round{'s' if rounds != 1 else ''}")
    return ", ".join(words)


#: What stays as it is: word characters, a few signs, and `_`, `-`, `.` between letters or digits.
_PLAIN: Final = pattern(r"[^\W_]|[ ,'/=!?]|(?<=[^\W_])[_.\-](?=[^\W_])")


def _safe(text: str | None) -> str:
    """A user's text as a piece of a label: one line, not too long, and nothing in it means anything to Mermaid."""
    words = " ".join((text or "").split())
    shown = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    shown = "".join("\ufffd" if unicodedata.category(sign).startswith("C") else sign for sign in shown)
    plain = {match.start() for match in _PLAIN.finditer(shown)}
    return "".join(sign if place in plain else f"#{ord(sign)};" for place, sign in enumerate(shown))
