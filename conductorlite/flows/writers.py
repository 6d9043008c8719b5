"""Python forms of each type of task, and what is in them.

Python source of a definition: a flow that builds the same JSON, to the byte.

Each task is written with the form that makes it: a call of a `@task` stub, `parallel`, `when`, `wait` and so on. A definition
that no flow can build, such as one with two steps of one name, is written out whole, in options of its `@flow`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.flows.build import names_of
from conductorlite.flows.flow import node
from conductorlite.flows.forms import match, over, parallel, repeat, when
from conductorlite.flows.literals import PUBLIC, WIDTH, Code, Group, Names, Plain, Stub, Text, inner_definitions, quoted, span
from conductorlite.flows.writer import FlowWriter, Local, Written
from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import BuildError, InvalidDefinition, Problem

__all__ = ["WRITERS", "to_python"]

# ---------------------------------------------------------------------- tasks without tasks in them


def _call(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None = None) -> int:
    code = writer.called(task)
    if code is None:
        return 0
    writer.emit(code, writer.place(task))
    return 1


def _sub_workflow(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    params = task.sub_workflow_param
    if params is None or params.name is None:
        return 0
    if params.workflow_definition is not None:
        return _call(writer, task)
    named = {} if params.version is None else {"version": params.version}
    return writer.leaf(task, "sub", [params.name], named, params.name, given=task.input_parameters)


def _wait(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    given = dict(task.input_parameters)
    duration = [given.pop("duration")] if "duration" in given else []
    return writer.leaf(task, "wait", duration, given, "wait") if given.keys() <= {"until"} else 0


def _terminate(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    given = dict(task.input_parameters)
    said = [given.pop(key) for key in ("terminationStatus", "terminationReason") if key in given]
    if not said or not isinstance(said[0], str) or given.keys() - {"workflowOutput"}:
        return 0
    named = {"output": given["workflowOutput"]} if given else {}
    return writer.leaf(task, "terminate", said, named, f"terminate_{said[0].lower()}", free=True, path=None)


def _set_variable(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    given = task.input_parameters
    return writer.leaf(task, "set_variables", [], {}, f"set_{'_'.join(given)}", given=given, free=True, path=None)


def _event(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    if task.sink is None:
        return 0
    base = f"event_{''.join(c if c.isalnum() else '_' for c in task.sink)}"
    return writer.leaf(task, "event", [task.sink], {}, base, given=task.input_parameters)


def _emit(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    given = dict(task.input_parameters)
    if not {"value"} <= given.keys() <= {"value", "stream"}:
        return 0
    stream = {"stream": given["stream"]} if "stream" in given else {}
    return writer.leaf(task, "emit", [given["value"]], stream, "emit", path=None)


def _inline(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    given = dict(task.input_parameters)
    how, what = given.pop("evaluatorType", None), given.pop("expression", None)
    named = {} if how == "javascript" else {"evaluator": how}
    return writer.leaf(task, "inline", [what], named, "inline", given=given, path=".output.result")


def _start_workflow(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    request = task.input_parameters.get("startWorkflow")
    if not isinstance(request, dict) or not isinstance(request.get("name"), str) or not isinstance(request.get("input"), dict):
        return 0
    named = {} if request.get("version") is None else {"version": request["version"]}
    return writer.leaf(task, "start", [request["name"]], named, f"start_{request['name']}", given=request["input"])


# ---------------------------------------------------------------------- tasks with tasks in them


def _header(
    writer: FlowWriter,
    form: str,
    task: WorkflowTask,
    base: str,
    made: Callable[[], object],
    positional: Sequence[Any] = (),
    given: Mapping[str, Any] | None = None,
    *,
    free: bool = False,
    more: Sequence[tuple[str, Code]] = (),
) -> Group | None:
    """The call of a form that opens a block."""
    diff = writer.scratch(task, made)
    if diff is None:
        return None
    ref = task.task_reference_name
    named: list[tuple[str, Code]] = [] if writer.unnamed(base, ref, free) else [("name=", Text(ref))]
    if diff:
        named.append(("fields=", Group("{", [(f"{quoted(key)}: ", writer.field(key, value)) for key, value in diff.items()], "}")))
    return writer.form(form, [writer.value(one) for one in positional], [*writer.arguments(given or {}), *named, *more])


def _switch(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    cases: list[tuple[str | None, Sequence[WorkflowTask]]] = [*task.decision_cases.items()]
    if task.default_case:
        cases.append((None, task.default_case))
    if not any(tasks for _, tasks in cases):
        return 0
    ref, given = task.task_reference_name, task.input_parameters
    value = next(iter(given.values()), None) if len(given) == 1 and task.evaluator_type == "value-param" else None
    plain = writer.reference(value)
    word = next(iter(names_of((plain,)).values())) if plain is not None else None
    whole = word is not None and word == task.expression == next(iter(given))
    script = task.evaluator_type != "value-param"
    only = [*task.decision_cases] == ["true"] and all(tasks for _, tasks in cases)
    form = "when" if only and task.type == TaskType.SWITCH and (whole or script) else "match"
    if given.keys() & {"value", "condition", "name", "fields"} or not (whole or script or len(given) == 1):
        whole, script, given = False, True, {}
    positional = [value] if whole else [task.expression or ""] if script else []
    inputs = {} if whole else given
    words = word if whole else "_".join(inputs)

    def made() -> None:
        said = plain if whole else positional[0] if script else None
        if form == "when":
            with when(said, name=ref, **inputs):
                node(_INNER)
        else:
            match(said, name=ref, **inputs)

    code = _header(writer, form, task, f"{form}_{words}", made, positional, inputs, free=form == "when")
    if code is None:
        return 0
    step = writer.placed(task)
    chosen = writer.unread(step)
    if form == "match" and len(cases) > 1:
        writer.emit(code, chosen)
    for key, tasks in cases:
        if not tasks:
            writer.emit(writer.method(chosen, Group(".nothing(", [("", Text(key or ""))], ")")))
            continue
        if form == "when":
            opens: Code = code if key is not None else writer.form("otherwise")
        else:
            said = Group(".otherwise(", [], ")") if key is None else Group(".case(", [("", Text(key))], ")")
            opens = writer.method(code if len(cases) == 1 else chosen, said)
        with writer.opened(opens, step):
            writer.tasks(tasks)
    return 1


#: A task for the body of a form that is called to see what it makes.
_INNER: Final = WorkflowTask(name="inner", task_reference_name=" inner")


def _loop(writer: FlowWriter, task: WorkflowTask, _: WorkflowTask | None) -> int:
    ref, given, condition = task.task_reference_name, task.input_parameters, task.loop_condition
    if not task.loop_over or (task.items is None and condition is None):
        return 0
    if task.items is not None:
        return _over(writer, task)
    counted = re.fullmatch(r"\$\.(.*)\['iteration'\] < ([1-9][0-9]{0,8})", condition or "", re.DOTALL)
    times = int(counted[2]) if counted and counted[1] == ref else None
    said = not given.keys() & {"self", "condition"} and times is None

    def made() -> None:
        with repeat(times, name=ref) as loop:
            node(_INNER)
            if said:
                loop.again_if(condition, **given)
            elif times is None:
                loop.again_if(condition)

    code = _header(writer, "repeat", task, "repeat", made, [] if times is None else [times], free=True)
    if code is None:
        return 0
    step = writer.placed(task)
    loop = writer.unread(step, "loop")
    writer.local(step, ".output.iteration", of=loop, below=".round")
    with writer.opened(code, step, loop):
        writer.tasks(task.loop_over)
        if times is None:
            loop.used = True
            values = writer.arguments(given) if said else []
            writer.emit(Group(f"{loop.name}.again_if(", [("", Text(condition or "")), *values], ")"))
    return 1


def _over(writer: FlowWriter, task: WorkflowTask) -> int:
    def made() -> None:
        with over(task.items or "", name=task.task_reference_name, again_if=task.loop_condition):
            node(_INNER)

    more: list[tuple[str, Code]] = [] if task.loop_condition == "true" else [("again_if=", writer.literal(task.loop_condition))]
    code = _header(writer, "over", task, "over", made, [task.items], free=True, more=more)
    if code is None:
        return 0
    step = writer.placed(task)
    item = writer.local(step, ".output.loopItem", name="item")
    with writer.opened(code, step, item):
        writer.tasks(task.loop_over)
    return 1


def _fork(writer: FlowWriter, task: WorkflowTask, following: WorkflowTask | None) -> int:
    if not task.fork_tasks or not all(task.fork_tasks):
        return 0
    ref = task.task_reference_name
    end = None if following is None else following.task_reference_name
    ends = [tasks[-1].task_reference_name for tasks in task.fork_tasks]
    joined = end is not None and following == WorkflowTask(name=end, task_reference_name=end, type=TaskType.JOIN, join_on=ends)
    more: list[tuple[str, Code]] = [] if end == f"{ref}_join" else [("join=", Text(end or ""))]
    more = more if joined else [("join=", Plain("False"))]

    def made() -> None:
        with parallel(name=ref) as fork, fork.branch():
            node(_INNER)

    code = _header(writer, "parallel", task, "parallel", made, more=more)
    if code is None:
        return 0
    calls = _calls(writer, task) if joined else None
    step = writer.placed(task)
    if calls is not None:
        locals_: list[Local | None] = []
        for [inner] in task.fork_tasks:
            with writer.within(step):
                locals_.append(writer.place(inner))
        writer.emit(Group(code.head, [*(("", one) for one in calls), *code.parts], code.tail), *locals_)
    else:
        fork = writer.unread(step, "fork")
        fork.used = True
        with writer.opened(code, None, fork):
            for tasks in task.fork_tasks:
                with writer.opened(Plain(f"{fork.name}.branch()"), step):
                    writer.tasks(tasks)
    if joined and following is not None:
        writer.place(following, None)
    return 2 if joined else 1


def _calls(writer: FlowWriter, task: WorkflowTask) -> list[Code] | None:
    """The branches of a fork, if each is one call."""
    if len(task.fork_tasks) < 2 or any(len(tasks) != 1 or ".output" in tasks[0].task_reference_name for tasks in task.fork_tasks):
        return None
    if not all(writer.callable(tasks[0]) for tasks in task.fork_tasks):
        return None
    found = [writer.called(tasks[0]) for tasks in task.fork_tasks]
    return [code for code in found if code is not None]


def _dynamic_fork(writer: FlowWriter, task: WorkflowTask, following: WorkflowTask | None) -> int:
    given, ref = task.input_parameters, task.task_reference_name
    stub = writer.names.stub(given["forkTaskName"]) if isinstance(given.get("forkTaskName"), str) else None
    if stub is None or following is None or [*given] != ["forkTaskName", "forkTaskInputs"]:
        return 0
    end = following.task_reference_name
    made = WorkflowTask(name=ref, task_reference_name=ref, type=TaskType.FORK_JOIN_DYNAMIC, input_parameters=given)
    join = WorkflowTask(name=end, task_reference_name=end, type=TaskType.JOIN)
    if task != made or following != join:
        return 0
    base = f"each_{given['forkTaskName']}"
    says: list[tuple[str, Code]] = [] if writer.unnamed(base, ref, False) else [("name=", Text(ref))]
    says += [] if end == f"{ref}_join" else [("join=", Text(end))]
    writer.stubs.add(given["forkTaskName"])
    code = writer.form("each", [writer.value(given["forkTaskInputs"]), Plain(stub.name)], says)
    writer.place(task, None)
    writer.emit(code, writer.place(following, ".output[*]"))
    return 2


WRITERS: Final[Mapping[str, Written]] = {
    TaskType.SIMPLE: _call,
    TaskType.SUB_WORKFLOW: _sub_workflow,
    TaskType.START_WORKFLOW: _start_workflow,
    TaskType.WAIT: _wait,
    TaskType.HUMAN: lambda writer, task, _: writer.leaf(
        task, "human", [task.task_reference_name], {}, None, given=task.input_parameters
    ),
    TaskType.TERMINATE: _terminate,
    TaskType.SET_VARIABLE: _set_variable,
    TaskType.EVENT: _event,
    TaskType.EMIT: _emit,
    TaskType.INLINE: _inline,
    TaskType.JOIN: lambda writer, task, _: writer.leaf(task, "join", task.join_on, {}, "join"),
    TaskType.SWITCH: _switch,
    TaskType.DECISION: _switch,
    TaskType.DO_WHILE: _loop,
    TaskType.FORK_JOIN: _fork,
    TaskType.FORK_JOIN_DYNAMIC: _dynamic_fork,
}


def to_python(definition: WorkflowDef) -> str:
    """A module in which a flow builds the definition: its `definition.to_json()` is the same, to the byte.

    The functions of its tasks are stubs without bodies. Raises InvalidDefinition for definitions within each other that exhaust the
    stack.
    """
    try:
        return _Module(definition).text()
    except RecursionError:
        raise InvalidDefinition([Problem(path="$", message="nested too deeply to be written")]) from None


class _Module:
    """The source of a definition, and of those in it."""

    def __init__(self, definition: WorkflowDef) -> None:
        self._names = Names(definition)
        self._definitions = list(inner_definitions(definition))
        self._written: dict[int, tuple[Stub, str]] = {}
        self._imports = {"flow"}
        self._stubs: set[str] = set()

    def text(self) -> str:
        """The whole module."""
        main = self._flow(self._definitions[0])
        stubs = [
            f"@task\n{text}" if stub.name == name else f"@task({quoted(name)})\n{text}" for name, stub, text in self._stub_texts()
        ]
        if stubs:
            self._imports.add("task")
        flows = [text for _, text in self._written.values()]
        head = f'"""The workflow {main.name} as a flow; the functions of its tasks want bodies."""'
        whole = "\n\n\n".join([f"{head}\n\n{self._import_lines()}", *stubs, *flows]) + "\n"
        wide = any(len(line) + sum(unicodedata.east_asian_width(c) in "WF" for c in line) > WIDTH for line in whole.splitlines())
        return f"# ruff: noqa: E501\n{whole}" if wide else whole

    def _stub_texts(self) -> list[tuple[str, Stub, str]]:
        found = [(name, self._names.stub(name)) for name in sorted(self._stubs)]
        return [(name, stub, _function(stub)) for name, stub in found if stub is not None]

    def _import_lines(self) -> str:
        modules: dict[str, list[str]] = {}
        for name in sorted(self._imports - {"json"}):
            modules.setdefault(PUBLIC.get(name, "conductorlite.flows"), []).append(name)
        lines = ["import json\n"] if "json" in self._imports else []
        for module, names in sorted(modules.items()):
            line = f"from {module} import {', '.join(names)}"
            lines.append(line if len(line) <= WIDTH else f"from {module} import (\n    {(',' + chr(10) + '    ').join(names)},\n)")
        return "\n".join(lines)

    def _flow(self, definition: WorkflowDef) -> Stub:
        """The flow of a definition, which is written before that of the one it is in."""
        at = self._definitions.index(definition)
        if at not in self._written:
            name, given = self._names.flows[at], self._names.inputs(definition)
            template = definition.input_template
            required = [one for one, declared in given.items() if declared and one not in template]
            stub = Stub(name, tuple(given), required)
            self._written[at] = (stub, self._source(definition, stub, given))
        return self._written[at][0]

    def _source(self, definition: WorkflowDef, stub: Stub, given: Mapping[str, bool]) -> str:
        writer = FlowWriter(self._names, definition, self._flow, WRITERS)
        try:
            body = writer.body(definition) if definition.tasks else None
        except BuildError:
            body, writer = None, FlowWriter(self._names, definition, self._flow, WRITERS)
        described = _docstring(definition.description)
        says: list[tuple[str, Code]] = [] if definition.name == stub.name else [("", Text(definition.name))]
        says += _options(definition, given, described is not None, body is not None, writer)
        says.append(("by_calls=", Plain("True")))  # what is written here is calls; it is not to be read as ordinary Python
        decorator = Group("@flow(", says, ")").lines(0, 0) if says else "@flow"
        head = Group(f"def {stub.name}(", _parameters(definition, given, writer), "):").lines(0, 0)
        self._imports |= writer.imports
        self._stubs |= writer.stubs
        statements = [one for one in (described, body) if one]
        return "\n".join([decorator, head, *(statements or ["    pass"])])


def _options(
    definition: WorkflowDef, given: Mapping[str, bool], described: bool, written: bool, writer: FlowWriter
) -> list[tuple[str, Code]]:
    """The options of `@flow` for what its function does not say."""
    template = {key: definition.input_template[key] for key in given if definition.input_template.get(key) is not None}
    said: dict[str, Any] = {"name": definition.name, "input_parameters": tuple(given), "input_template": template}
    if described:
        said["description"] = definition.description
    if written:
        said |= {"tasks": definition.tasks, "output_parameters": definition.output_parameters}
    found: list[tuple[str, Code]] = []
    plain = WorkflowDef(name=definition.name)
    for field in attrs.fields(WorkflowDef):
        value, has = getattr(definition, field.name), said.get(field.name, getattr(plain, field.name))
        if value == has and repr(value) == repr(has) and (written or field.name != "tasks"):
            continue
        length = span(value) if field.name == "timeout_ms" else None
        found.append(("timeout=", Text(length)) if length else (f"{field.name}=", writer.literal(value)))
    return found


def _parameters(definition: WorkflowDef, given: Mapping[str, bool], writer: FlowWriter) -> list[tuple[str, Code]]:
    """Inputs with their defaults; one that is read and not declared may be left out."""
    values = {name: definition.input_template.get(name) for name in given}
    bare = [name for name, declared in given.items() if declared and values[name] is None]
    parts: list[tuple[str, Code]] = [] if bare == [*given][: len(bare)] else [("", Plain("*"))]
    for name, value in values.items():
        parts.append((name, Plain("")) if name in bare else (f"{name}=", writer.literal(value)))
    return parts


def _docstring(description: str | None) -> str | None:
    """A description as the first paragraph of a docstring; None where it would be another text there."""
    if not description or not description.isprintable() or '"""' in description or "\\" in description or description.endswith('"'):
        return None
    for lines in ([description], textwrap.wrap(description, WIDTH - 12, break_long_words=False, break_on_hyphens=False)):
        text = '    """' + "\n    ".join(lines)
        text += '"""' if len(lines) == 1 else '\n    """'
        plain = inspect.cleandoc("\n    ".join(lines))
        if plain.partition("\n\n")[0].replace("\n", " ") == description and max(map(len, text.split("\n"))) <= WIDTH:
            return text
    return None


def _function(stub: Stub) -> str:
    parameters = [("", Plain(name if name in stub.required else f"{name}=None")) for name in stub.parameters]
    return Group(f"def {stub.name}(", [("**", Plain("given"))] if stub.anything else parameters, "): ...").lines(0, 0)
