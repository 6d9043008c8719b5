"""The statements of a flow's function, for the tasks of a definition.

What a form would write is found by calling it. Where a task differs, the form's `fields` say how; where it differs in what it
reads, the task is written out, in `node(WorkflowTask(...))`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from conductorlite.flows.build import Block, Build, Reference, Step, needed
from conductorlite.flows.flow import event, human, inline, join, set_variables, start, sub, terminate, wait
from conductorlite.flows.literals import WIDTH, Call, Code, Group, Names, Plain, Stub, Text, quoted, span
from conductorlite.model.definitions import SubWorkflowParams, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import BuildError, ConductorliteError

__all__ = ["FlowWriter", "Local", "Written"]

#: `${...}` without another in it, and the steps of a path below what a variable stands for.
_WHOLE: Final = re.compile(r"\$\{([^${}]+)\}")
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]{1,9})\]|\['([^'\\]*)'\]")

#: What is read of a step beside its output, with which form.
_MEMBERS: Final = {".status": "status", ".reasonForIncompletion": "reason"}

#: Blocks in blocks that Python takes, which are 20; a fork needs two.
_DEEPEST: Final = 16

#: Fields of a task that hold other tasks.
_CHILDREN: Final = frozenset({"decision_cases", "default_case", "fork_tasks", "loop_over"})

#: Types whose forms have steps in them.
_HOLDERS: Final = frozenset({"SWITCH", "DECISION", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "DO_WHILE"})

#: Fields that, where a form gets them wrong, are reason enough to write the task out.
_READ: Final = frozenset({"input_parameters", "sub_workflow_param", "type", "join_on", "sink"})

#: The forms without steps in them, by name.
_LEAVES: Final[dict[str, Callable[..., Any]]] = {
    form.__name__: form for form in (event, human, inline, join, set_variables, start, sub, terminate, wait)
}


@attrs.define(slots=True, eq=False)
class Local:
    """Meaning of a variable of the flow's function; a variable that nothing reads is not assigned."""

    name: str
    source: str
    reference: Reference
    used: bool = False
    #: The variable of which it is an attribute.
    of: Local | None = None


@attrs.frozen(slots=True)
class _Read:
    """Expression that reads a path: its source, the variable in it, and the form that is to be imported."""

    text: str
    local: Local | None = None
    form: str | None = None


@attrs.frozen(slots=True)
class _Line:
    """A statement: `code`, or `with code:`, whose value goes to variables."""

    indent: int
    code: Code
    opens: bool = False
    into: Sequence[Local | None] = ()

    def text(self) -> str:
        names = [one.name if one is not None and one.used else "_" for one in self.into]
        target = ", ".join(names) if any(name != "_" for name in names) else ""
        head, tail = f"{target} = " if target else "", ""
        if self.opens:
            head, tail = "with ", f" as {target}:" if target else ":"
        return f"{' ' * self.indent}{head}{self.code.lines(self.indent, self.indent + len(head) + len(tail))}{tail}"


#: Writes a task, and perhaps the one after it, with a form; gives how many it has written.
Written: TypeAlias = "Callable[[FlowWriter, WorkflowTask, WorkflowTask | None], int]"


class FlowWriter:
    """The body of one flow's function, task by task, with a build beside it that knows what may be read where."""

    def __init__(
        self, names: Names, definition: WorkflowDef, inner: Callable[[WorkflowDef], Stub], writers: Mapping[str, Written]
    ) -> None:
        self.names = names
        #: What the source needs: names to be imported, and stubs.
        self.imports: set[str] = set()
        self.stubs: set[str] = set()
        self._inner = inner
        self._writers = writers
        self._build = Build(definition.name, None)
        self._lines: list[_Line] = []
        self._indent = 4
        #: Blocks in blocks here.
        self.nested = 0
        self._taken = set(names.taken)
        self._locals: dict[str, Local] = {}
        self._steps: dict[str, Local] = {}
        for name in names.inputs(definition):
            reference = Reference(f"workflow.input.{name}", None)
            self._locals[reference._path] = Local(name, name, reference)

    def body(self, definition: WorkflowDef) -> str:
        """The statements of the function; raises BuildError where a flow cannot say what the definition does."""
        self.tasks(definition.tasks)
        if definition.output_parameters:
            self.emit(Plain(f"return {self.value(definition.output_parameters).lines(4, 11)}"))
        return "\n".join(line.text() for line in self._lines)

    # ------------------------------------------------------------------ statements

    def emit(self, code: Code, *into: Local | None) -> None:
        """Add a statement, whose value goes to variables."""
        self._lines.append(_Line(self._indent, code, into=into))

    @contextmanager
    def opened(self, code: Code, owner: Step | None, into: Local | None = None) -> Iterator[None]:
        """A `with` around statements, whose steps are within its owner's."""
        self._lines.append(_Line(self._indent, code, opens=True, into=[into] if into is not None else []))
        self._indent, self.nested = self._indent + 4, self.nested + 1
        with self.within(owner):
            yield
        self._indent, self.nested = self._indent - 4, self.nested - 1

    @contextmanager
    def within(self, owner: Step | None) -> Iterator[None]:
        """Have steps be within a step's, in a block of their own; None: where they are."""
        if owner is None:
            yield
            return
        with self._build.within(Block(owner=owner)):
            yield

    def form(self, name: str, positional: Sequence[Code] = (), named: Sequence[tuple[str, Code]] = ()) -> Group:
        """The call of a form, which is to be imported."""
        self.imports.add(name)
        return Group(f"{name}(", [*(("", code) for code in positional), *named], ")")

    def method(self, of: Group | Local, said: Group) -> Code:
        """The call of a method."""
        if isinstance(of, Local):
            of.used = True
            return Group(f"{of.name}{said.head}", said.parts, said.tail)
        return Call([of, said])

    def placed(self, task: WorkflowTask) -> Step:
        """Add the task to the build."""
        return self._build.place(task, asked=task.task_reference_name)

    def place(self, task: WorkflowTask, path: str | None = ".output") -> Local | None:
        """Add the task to the build; the variable that what it gives goes to."""
        step = self.placed(task)
        return None if path is None else self.local(step, path)

    def local(self, step: Step, path: str, *, name: str = "", of: Local | None = None, below: str = "") -> Local:
        """A variable, or an attribute of one, for a path of a step."""
        name = self.name(name or step.ref) if of is None else of.name
        local = Local(name, name + below, Reference(step.ref + path, step, "[*]" not in path), of=of)
        self._locals[step.ref + path] = local
        if of is None and path.startswith(".output") and path != ".output.loopItem":
            self._steps[step.ref] = local
        return local

    def unread(self, step: Step, name: str = "") -> Local:
        """A variable for what is no value: a loop, the cases of a match."""
        name = self.name(name or step.ref)
        return Local(name, name, Reference(step.ref, step))

    def name(self, text: str) -> str:
        """A name of a variable."""
        return self.names.fresh(text, self._taken, "_output")

    # ------------------------------------------------------------------ values

    def value(self, value: Any) -> Code:
        """A value with references in it, or anything else that a definition holds."""
        return self.names.literal(value, self._text, self.imports, self._inner)

    def literal(self, value: Any) -> Code:
        """A value in which nothing is read."""
        return self.names.literal(value, Text, self.imports, self._inner)

    def field(self, name: str, value: Any) -> Code:
        """A further field of a task; only its input may read something."""
        return self.value(value) if name == "input_parameters" else self.literal(str(value) if name == "type" else value)

    def reference(self, value: Any) -> Reference | None:
        """Return what a form is given for a value that a variable stands for; None for others."""
        whole = _WHOLE.fullmatch(value) if isinstance(value, str) else None
        return Reference(whole[1], None) if whole and self._read(whole[1]) is not None else None

    def _text(self, text: str) -> Code:
        if "${" not in text:
            return Text(text)
        found = self._format(text)
        if found is not None:
            return Plain(found)
        try:
            self._build.written(text)
        except BuildError:
            return self.form("as_is", [Text(text)])
        return Text(text)

    def _format(self, text: str) -> str | None:
        """A text as the variable it reads, or as one with variables in it; None where there is no such."""
        whole = _WHOLE.fullmatch(text)
        pieces = [(text, whole)] if whole else [(one, _WHOLE.fullmatch(one)) for one in re.split(r"(\$\{[^${}]+\})", text)]
        read = [(one, self._read(found[1]) if found else None, found) for one, found in pieces]
        if any(found and source is None for _, source, found in read) or not any(source for _, source, _ in read):
            return None
        words = "".join(f"{{{source.text}}}" if source else one.replace("{", "{{").replace("}", "}}") for one, source, _ in read)
        if not whole and (set(words) & set("\"'\\") or "$${" in text or not words.isprintable() or len(words) > WIDTH - 20):
            return None
        for _, source, _ in read:
            if source is not None and source.local is not None:
                (source.local.of or source.local).used = True
            if source is not None and source.form is not None:
                self.imports.add(source.form)
        return words[1:-1] if whole else f'f"{words}"'

    def _read(self, path: str) -> _Read | None:
        """Return what reads a path; None where nothing does but the text."""
        ends = [at for at, c in enumerate(path) if c in ".["]
        for end in (len(path), *reversed(ends)):
            prefix, rest = path[:end], path[end:]
            local = self._locals.get(prefix)
            if local is not None:
                source = self._below(local.reference, local.source, rest, path)
                return None if source is None else _Read(source, local)
            if prefix == "workflow.variables" and (first := _STEP.match(rest)) and first[2] is None:
                key = first[1] or first[3]
                source = self._below(Reference(prefix, None)[key], f"variable({quoted(key)})", rest[first.end() :], path)
                return None if source is None else _Read(source, form="variable")
            if rest in _MEMBERS and prefix in self._steps:
                step, form = self._steps[prefix], _MEMBERS[rest]
                source = self._below(Reference(path, step.reference._step), f"{form}({step.source})", "", path)
                return None if source is None else _Read(source, step, form)
        return None

    def _below(self, reference: Reference, source: str, rest: str, path: str) -> str | None:
        """Return what reads a path below a reference; None where that is another text, or may not be read here."""
        try:
            at = 0
            for step in _STEP.finditer(rest):
                if step.start() != at:
                    return None
                at = step.end()
                key: Any = int(step[2]) if step[2] is not None else step[1] if step[1] is not None else step[3]
                reference = reference[key]
                plain = isinstance(key, str) and self.names.attribute(key)
                source += f".{key}" if plain else f"[{quoted(key) if isinstance(key, str) else key}]"
            return source if at == len(rest) and self._build.written(reference) == f"${{{path}}}" else None
        except BuildError:
            return None

    # ------------------------------------------------------------------ tasks

    def tasks(self, tasks: Sequence[WorkflowTask]) -> None:
        """Write tasks, one after the other."""
        at = 0
        while at < len(tasks):
            following = tasks[at + 1] if at + 1 < len(tasks) else None
            written = self._writers.get(tasks[at].type)
            formed = written is not None and self.nested <= _DEEPEST and not _holds_oddly(tasks[at])
            done = written(self, tasks[at], following) if written is not None and formed else 0
            if not done:
                self._node(tasks[at])
            at += done or 1

    def _node(self, task: WorkflowTask) -> None:
        code = self.form("node", [self.value(task)])
        self.emit(code, self.place(task))

    def callable(self, task: WorkflowTask) -> tuple[Stub, str, dict[str, Any]] | None:
        """Return what a task calls, a stub or another flow, the name it would have, and its options; None: it is no call."""
        params = task.sub_workflow_param
        inner = None if params is None else params.workflow_definition
        if task.type == TaskType.SIMPLE:
            stub, base = self.names.stub(task.name), WorkflowTask(name=task.name, task_reference_name="")
        elif isinstance(inner, WorkflowDef):
            made = SubWorkflowParams(name=inner.name, version=inner.version, workflow_definition=inner)
            stub, base = (
                self._inner(inner),
                WorkflowTask(name=inner.name, task_reference_name="", type=task.type, sub_workflow_param=made),
            )
        else:
            return None
        ref, given = task.task_reference_name, task.input_parameters
        diff = _difference(attrs.evolve(base, task_reference_name=ref, input_parameters=given), task)
        if stub is None or not stub.takes(task.input_parameters):
            return None
        if task.type != TaskType.SIMPLE:
            known = {"optional", "retry_count"} | ({"compensate"} if self._undo(task) else set())
            if diff.keys() - known:
                return None
        return stub, base.name, diff

    def called(self, task: WorkflowTask) -> Code | None:
        """The call that a task is; None if it is none."""
        found = self.callable(task)
        if found is None:
            return None
        stub, base, diff = found
        given = self.arguments(task.input_parameters)
        says = self._options(task, base, diff)
        if task.type == TaskType.SIMPLE:
            self.stubs.add(task.name)
        if not says:
            return Group(f"{stub.name}(", given, ")")
        return Call([Group(f"{stub.name}.options(", says, ")"), Group("(", given, ")")])

    def _options(self, task: WorkflowTask, base: str, diff: dict[str, Any]) -> list[tuple[str, Code]]:
        says: list[tuple[str, Code]] = []
        if task.task_reference_name != base:
            says.append(("name=", Text(task.task_reference_name)))
        for field, value in diff.items():
            if field == "compensate" and (undo := self._undo(task)) is not None:
                says.append(("undo=", Plain(undo)))
                self.stubs.add(value.name)
            elif field == "start_delay_ms" and span(value) is not None:
                says.append(("delay=", Text(span(value) or "")))
            else:
                says.append((f"{'retry' if field == 'retry_count' else field}=", self.literal(value)))
        return says

    def _undo(self, task: WorkflowTask) -> str | None:
        """The stub that undoes a task, where that is what `undo` says."""
        undo = task.compensate
        stub = self.names.stub(undo.name) if isinstance(undo, WorkflowTask) else None
        if not isinstance(undo, WorkflowTask) or stub is None or stub.anything:
            return None
        first = next(iter(stub.parameters), None)
        ref = task.task_reference_name
        given = {} if first is None else {first: f"${{{ref}.output}}"}
        if (
            undo != WorkflowTask(name=undo.name, task_reference_name=f"{ref}_undo", input_parameters=given)
            or len(stub.required) > 1
        ):
            return None
        if stub.required and stub.required[0] != first:
            return None
        return stub.name

    def arguments(self, given: Mapping[str, Any]) -> list[tuple[str, Code]]:
        """Values by name, as arguments of a call."""
        if all(self.names.argument(key) for key in given):
            return [(f"{key}=", self.value(value)) for key, value in given.items()]
        return [("**", self.value(dict(given)))]

    def leaf(self, task: WorkflowTask, form: str, positional: Sequence[Any], named: Mapping[str, Any], base: str | None,
             *, given: Mapping[str, Any] | None = None, free: bool = False, path: str | None = ".output") -> int:  # fmt: skip
        """Write a task as a form without steps in it, with what it is `given` as its input; 0 where that would be another one."""
        function, ref, given = _LEAVES[form], task.task_reference_name, given or {}
        if given.keys() & inspect.signature(function).parameters:
            return 0
        asked = {} if base is None else {"name": ref}
        diff = self.scratch(task, lambda: function(*positional, **named, **given, **asked))
        if diff is None or diff.keys() & _READ:
            return 0
        says: list[tuple[str, Code]] = [(f"{key}=", self.value(value)) for key, value in named.items()]
        says += self.arguments(given)
        says += [] if base is None or self.unnamed(base, ref, free) else [("name=", Text(ref))]
        says += [("fields=", self.literal(diff))] if diff else []
        code = self.form(form, [self.value(one) for one in positional], says)
        self.emit(code, *filter(None, [self.place(task, path)]))
        return 1

    def scratch(self, task: WorkflowTask, made: Callable[[], Any]) -> dict[str, Any] | None:
        """The fields in which a task differs from what a form makes, those apart that hold tasks; None where it makes nothing."""
        build = Build("scratch", None)
        try:
            with needed(build):
                made()
        except (ConductorliteError, TypeError, ValueError):
            return None
        return _difference(build.block.tasks[0], task)

    def unnamed(self, base: str, ref: str, free: bool) -> bool:
        """Return True if a step is called so unasked."""
        return (self._build.free(base) if free else base) == ref


def _holds_oddly(task: WorkflowTask) -> bool:
    """Return True if a task of a type that has none has tasks in it."""
    return task.type not in _HOLDERS and any(getattr(task, name) for name in _CHILDREN)


def _difference(made: WorkflowTask, task: WorkflowTask) -> dict[str, Any]:
    """The fields of a task that are not as they were made, those apart that hold tasks. Maps differ by their order too."""
    names = [one.name for one in attrs.fields(WorkflowTask) if one.name not in _CHILDREN]
    pairs = {name: (getattr(made, name), getattr(task, name)) for name in names}
    return {
        name: wanted
        for name, (has, wanted) in pairs.items()
        # Equal values may be written otherwise: 1 and true, maps in another order.
        if has != wanted or (name != "type" and repr(has) != repr(wanted))
    }
