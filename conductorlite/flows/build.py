"""The flow that is being built: what stands for a value meanwhile, its blocks of steps, their names, and what may be read where.

A call of a task, of another flow, or of a form such as `human` gives a `Reference` where the running workflow will have a value.
Its attributes and items are references too; as a text it is Conductor's `${...}`. Compared, it gives a `Comparison`, which
`when`, `match` and loops take. It has no value of its own: what would need one (`if`, a loop, arithmetic) raises BuildError,
which says what to write instead.

A block is a sequence of tasks: the flow's own, a branch of a fork, a case, the body of a loop. A `with` of a form opens one
inside its task, and puts it into that task when it closes. Names are those of what is called (`book_flight`); a second step of
one name is called after the variable it is assigned to as well (`book_flight_back`), so that no name hangs on what stands
elsewhere.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NoReturn, TypeAlias

import attrs

from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import BuildError
from conductorlite.model.syntax import parse_module
from conductorlite.model.texts import did_you_mean
from conductorlite.model.threads import carried
from conductorlite.model.typed import plain
from conductorlite.runtime.registry import Workers

__all__ = [
    "Block",
    "Build",
    "Comparison",
    "More",
    "Reference",
    "Step",
    "as_is",
    "building",
    "called_as",
    "current",
    "names_of",
    "needed",
]


@attrs.define(slots=True, eq=False, repr=False)
class Step:
    """One node of a flow that is being built, as references see it: its reference name, and the block it stands in."""

    ref: str
    block: Any


def _compared(operator: str) -> Any:
    return lambda reference, other: Comparison.of(reference, operator, other)


class Reference:
    """A path into what the running workflow knows: `${book.output.airport}`; `step` is None for the workflow's own values."""

    __slots__ = ("_path", "_step", "_whole")

    _path: str
    _step: Step | None
    _whole: bool

    def __init__(self, path: str, step: Step | None, whole: bool = True) -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_step", step)
        #: Whether it stands for one value; a path with a wildcard gives a list, of which no part can be named.
        object.__setattr__(self, "_whole", whole)

    def __getattr__(self, name: str) -> Reference:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._below(f".{name}" if name.isidentifier() and name.isascii() else f"[{_quoted(name)}]", name)

    def __getitem__(self, key: str | int) -> Reference:
        if isinstance(key, Reference):
            raise BuildError(f"{self}[{key}]: a key is known when the flow is built; look it up in a task")
        if isinstance(key, int) and not isinstance(key, bool):
            return self._below(f"[{key}]", key)
        if isinstance(key, str):
            return self._below(f".{key}" if key.isidentifier() and key.isascii() else f"[{_quoted(key)}]", key)
        raise BuildError(f"{self}[{key!r}]: a key is a text or a number; cut lists in a task")

    def _below(self, step: str, key: object) -> Reference:
        if not self._whole:
            raise BuildError(f"{self}: is one list of results; give it whole to a task, which picks {key!r}")
        return Reference(self._path + step, self._step)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BuildError(f"{self}.{name}: what a step gives cannot be changed; return another value from a task")

    def __str__(self) -> str:
        return f"${{{self._path}}}"

    def __format__(self, spec: str) -> str:
        if spec:
            raise BuildError(f"{self}: cannot be formatted as {spec!r} while the flow is built; format it in a task")
        return str(self)

    def __repr__(self) -> str:
        return f"<reference {self}>"

    def __hash__(self) -> int:
        return hash((self._path, id(self._step)))

    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = map(_compared, ("==", "!=", "<", "<=", ">", ">="))

    def __invert__(self) -> Any:
        return ~Comparison.of(self, "==", True)

    def __and__(self, other: object) -> Any:
        return Comparison.of(self, "==", True) & other

    def __or__(self, other: object) -> Any:
        return Comparison.of(self, "==", True) | other

    __rand__, __ror__ = __and__, __or__

    def __bool__(self) -> NoReturn:  # noqa: PLE0304
        _no_truth(self)

    def __iter__(self) -> NoReturn:
        raise BuildError(f"{self}: has no items while the flow is built; write `each(items, task)`, or `with over(items) as item:`")

    def __len__(self) -> NoReturn:
        raise BuildError(f"{self}: has no length while the flow is built; count in a task")

    def __contains__(self, item: object) -> NoReturn:
        raise BuildError(f"{self}: has no items while the flow is built; look in a task, and write `when(task(...))`")

    def __call__(self, *given: object, **named: object) -> NoReturn:
        raise BuildError(f"{self}: a value of a step has no methods while the flow is built; call them in a task")

    def __await__(self) -> NoReturn:
        raise BuildError(f"{self}: a flow awaits nothing, each step waits for those it takes values from; remove `await`")

    def _computed(self, *_: object) -> NoReturn:
        raise BuildError(f"{self}: cannot be computed with while the flow is built; write a task, or `inline(...)`")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = (
        _computed
    )
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __int__ = __float__ = __index__ = __round__ = _computed


def _no_truth(what: object) -> NoReturn:
    raise BuildError(
        f"{what}: is neither true nor false while the flow is built; write `with when(...):` instead of `if`, and `&`, `|`, `~` "
        "instead of `and`, `or`, `not`"
    )


def _quoted(name: str) -> str:
    if "'" in name or "\\" in name:
        raise BuildError(f"{name!r}: cannot be written in a reference; rename the field in a task")
    return f"'{name}'"


@attrs.frozen(slots=True, eq=False, repr=False)
class Comparison:
    """A condition as JavaScript, in which references stand as numbered places: {0}, {1}."""

    script: str
    references: tuple[Reference, ...]

    @classmethod
    def of(cls, left: Reference, operator: str, right: object) -> Comparison:
        """`left operator right`; null is compared loosely, so that nothing found is null."""
        if isinstance(right, Comparison):
            raise BuildError(f"{left} {operator} ({right}): put brackets around each comparison: (a == 1) & (b == 2)")
        strict = f"{operator}=" if operator in ("==", "!=") and right is not None else operator
        if isinstance(right, Reference):
            return cls(f"{{0}} {strict} {{1}}", (left, right))
        return cls(f"{{0}} {strict} {_literal(left, right)}", (left,))

    def _joined(self, operator: str, other: object) -> Comparison:
        if isinstance(other, Reference):
            other = Comparison.of(other, "==", True)
        if not isinstance(other, Comparison):
            raise BuildError(f"{self} {operator} {other!r}: is no condition of references")
        shift = len(self.references)
        there = _replaced(other.script, lambda place: f"{{{place + shift}}}")
        return Comparison(f"({self.script}) {operator} ({there})", self.references + other.references)

    def __and__(self, other: object) -> Comparison:
        return self._joined("&&", other)

    def __or__(self, other: object) -> Comparison:
        return self._joined("||", other)

    def __eq__(self, other: object) -> NoReturn:
        raise BuildError(f"{self}: is compared with another condition; join conditions with `&` and `|`")

    def __invert__(self) -> Comparison:
        return Comparison(f"!({self.script})", self.references)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304
        _no_truth(self)

    def __str__(self) -> str:
        return _replaced(self.script, lambda place: str(self.references[place]))

    def written(self, names: Mapping[str, str], prefix: str = "$.") -> str:
        """The script, each reference replaced by its name in `names`, by path."""
        return _replaced(self.script, lambda place: prefix + names[self.references[place]._path])


def _literal(left: Reference, value: object) -> str:
    made = plain(value)
    if not isinstance(made, str | int | float | bool | type(None)):
        raise BuildError(
            f"{left}: is compared with {value!r:.60}; compare with a text, a number, true, false or None, or in a task"
        )
    return json.dumps(made).replace("{", "\\u007b").replace("}", "\\u007d")


def _replaced(script: str, made: Any) -> str:
    parts = script.split("{")
    return parts[0] + "".join(made(int(part.split("}", 1)[0])) + part.split("}", 1)[1] for part in parts[1:])


_NOT_IN_NAMES: Final = frozenset({"output", "input", "workflow", "result"})


def names_of(references: tuple[Reference, ...]) -> dict[str, str]:
    """A short name for each path, for the input of the task that evaluates a condition: `amount` for `${workflow.input.amount}`."""
    names: dict[str, str] = {}
    for reference in references:
        if reference._path in names:
            continue
        words = ["".join(c for c in word if c.isalnum() or c == "_") for word in reference._path.replace("[", ".").split(".")]
        good = [word for word in words if word.isidentifier() and word.isascii() and word not in _NOT_IN_NAMES] or ["value"]
        name, more = good[-1], 2
        while name in names.values():
            name, more = f"{good[-1]}_{more}", more + 1
        names[reference._path] = name
    return names


_CURRENT: Final[ContextVar[Build | None]] = ContextVar("conductorlite_flow", default=None)

#: The roots of `${...}` within a text.
_ROOT: Final = re.compile(r"\$\{([A-Za-z_]\w*)")


#: What all forms take as `fields`: further fields of their task, by the names of `WorkflowTask`, which win over the form's own.
More: TypeAlias = Mapping[str, Any] | None


@attrs.frozen(slots=True, repr=False)
class _AsIs:
    """A value whose texts nobody looks at."""

    value: Any


def as_is(value: Any) -> Any:
    """A value with `${...}` in its texts as they stand, unchecked: a loop may read a step of another case."""
    return _AsIs(value)


@attrs.define(slots=True, eq=False, repr=False)
class Block:
    """A sequence of steps within `owner`, the step whose form opened it; None for a flow's own."""

    owner: Step | None = None
    tasks: list[WorkflowTask] = attrs.field(factory=list)
    steps: list[Step] = attrs.field(factory=list)


class Build:
    """One run of a flow's function, with references in place of values."""

    def __init__(self, name: str, code: CodeType | None) -> None:
        self.name = name
        #: Of a flow that is read: repeated steps are numbered, and `target` is the variable that is assigned.
        self.reads = False
        self.target: str | None = None
        self._variables: set[str] = set()
        self.workers = Workers()
        #: Definitions that are found by their names when the workflow runs.
        self.definitions: dict[str, WorkflowDef] = {}
        #: Flows that are called by their names, as they call this one.
        self.again: list[Any] = []
        #: What people are asked for, by the steps' reference names.
        self.asked: dict[str, Any] = {}
        #: The line that is compiled, of a flow that is read; and in which line each step is written, by its reference name.
        self.line: int | None = None
        self.lines: dict[str, int] = {}
        self.blocks = [Block()]
        self._steps: dict[str, Step] = {}
        self._code = code
        self._assigned: dict[tuple[int, int], str] | None = None

    @property
    def block(self) -> Block:
        """Block in which the next step goes."""
        return self.blocks[-1]

    # ------------------------------------------------------------------ steps

    def place(self, task: WorkflowTask, *, asked: str | None = None) -> Step:
        """Add a task to the open block, named `asked`, or after its reference name so far; raises BuildError for a name in use."""
        ref = self.named(task.task_reference_name, asked)
        step = Step(ref, self.block)
        self._steps[ref] = step
        line = self.line if self.reads else self._called_in()
        if line is not None:
            self.lines[ref] = line
        self.block.tasks.append(task if task.task_reference_name == ref else attrs.evolve(task, task_reference_name=ref))
        self.block.steps.append(step)
        return step

    def operator(self, kind: TaskType, base: str, name: str | None, more: More = None, **fields: Any) -> Step:
        """Add a task of a type of Conductor's own, called as its reference is; `more` are fields that win over its own."""
        ref = self.named(base, name)
        task = WorkflowTask(name=ref, task_reference_name=ref, type=kind, **fields)
        return self.place(attrs.evolve(task, **self.more(ref, more)) if more else task)

    def each(self, what: str, given: Mapping[str, Any], *, whole: bool, name: str | None, join: str | None = None) -> Reference:
        """Add a dynamic fork and its JOIN; gives the list of outputs, or of results where an output is not a value as a whole."""
        fork = self.operator(TaskType.FORK_JOIN_DYNAMIC, f"each_{what}", name, input_parameters=self.written(given))
        end = self.operator(TaskType.JOIN, f"{fork.ref}_join", join)
        return Reference(f"{end.ref}.output[*]" if whole else f"{end.ref}.output[*].result", end, whole=False)

    def more(self, ref: str, fields: More) -> dict[str, Any]:
        """Further fields of a step's task, as they were given; raises BuildError for what is none."""
        known = attrs.fields_dict(WorkflowTask)
        for field in fields or ():
            if field not in known:
                raise BuildError(f"{ref}: there is no option {field!r}{did_you_mean(field, known)}")
        return {key: self.written(value) if key == "input_parameters" else value for key, value in (fields or {}).items()}

    def has(self, name: str) -> bool:
        """Return True if a step has that name."""
        return name in self._steps

    def variable(self, name: str) -> str:
        """A variable of the workflow for a variable of the function, in one of its loops."""
        key, more = f"_{name}", 2
        while key in self._variables:
            key, more = f"_{name}_{more}", more + 1
        self._variables.add(key)
        return key

    def free(self, base: str) -> str:
        """A name that no step has yet: cases and loops have no variable to be called after."""
        name, more = base, 2
        while name in self._steps:
            name, more = f"{base}_{more}", more + 1
        return name

    def named(self, base: str, asked: str | None) -> str:
        """The reference name of a new step."""
        if asked is not None:
            if not isinstance(asked, str) or not asked.strip() or "${" in asked:
                raise BuildError(f"{self.name}: {asked!r} is no name for a step")
            if asked in self._steps:
                raise BuildError(f"{self.name}: two steps are called {asked!r}")
            return asked
        if base not in self._steps:
            return base
        variable = self._variable()
        if variable is not None and f"{base}_{variable}" not in self._steps:
            return f"{base}_{variable}"
        if self.reads:
            return self.free(base)
        raise BuildError(
            f"{self.name}: there is a step {base!r} already; assign this one to a variable of its own, or name it: "
            f"`.options(name=...)` before the call, or `name=...`"
        )

    def replace(self, step: Step, **fields: Any) -> None:
        """Change fields of a step's task."""
        place = step.block.steps.index(step)
        step.block.tasks[place] = attrs.evolve(step.block.tasks[place], **fields)

    def remove(self, step: Step) -> None:
        """Take a step out again that turned out to have nothing to do."""
        place = step.block.steps.index(step)
        del step.block.steps[place], step.block.tasks[place], self._steps[step.ref]

    def steps_of(self, block: Block) -> Iterator[str]:
        """The names of all steps in a block, and in the blocks below."""
        for ref, step in self._steps.items():
            above: Block | None = step.block
            while above is not None and above is not block:
                above = None if above.owner is None else above.owner.block
            if above is block:
                yield ref

    def task_of(self, step: Step) -> WorkflowTask:
        """A step's task as it is so far."""
        found: WorkflowTask = step.block.tasks[step.block.steps.index(step)]
        return found

    def take(self, given: Reference, form: str) -> tuple[list[WorkflowTask], list[Step]]:
        """Take the step that gave a reference out of the open block, for a form to put elsewhere, with the fork before a JOIN."""
        step = given._step if isinstance(given, Reference) else None
        if step is None or step not in self.block.steps or given._path.split(".output")[0] != step.ref:
            raise BuildError(f"{self.name}: {form} takes calls of tasks and flows, made in its brackets: not {given!r}")
        at = self.block.steps.index(step)
        first = at - 1 if self.block.tasks[at].type == "JOIN" and at else at
        tasks, steps = self.block.tasks[first : at + 1], self.block.steps[first : at + 1]
        del self.block.tasks[first : at + 1], self.block.steps[first : at + 1]
        return tasks, steps

    @contextmanager
    def within(self, block: Block) -> Iterator[Block]:
        """Put the steps of a `with` into another block."""
        depth = len(self.blocks)
        self.blocks.append(block)
        try:
            yield block
        finally:
            del self.blocks[depth:]

    # ------------------------------------------------------------------ values

    def written(self, value: object) -> Any:
        """A value as JSON, each reference as `${...}`; raises BuildError for one that cannot be read here."""
        if isinstance(value, Reference):
            step = value._step
            if step is not None:
                if self._steps.get(step.ref) is not step:
                    raise BuildError(f"{self.name}: {value} is a value of another flow; give it as an argument")
                self._visible(step, value)
            return str(value)
        if isinstance(value, _AsIs):
            return value.value
        if isinstance(value, Comparison):
            raise BuildError(f"{self.name}: {value} is a condition, not a value; compute it in a task")
        if isinstance(value, str):
            for root in _ROOT.findall(value):
                if root in self._steps:
                    self._visible(self._steps[root], value)
            return value
        if isinstance(value, Mapping):
            return {str(key): self.written(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.written(entry) for entry in value]
        made = plain(value)
        return made if made is value else self.written(made)

    def _visible(self, step: Step, what: object) -> None:
        """Refuse a step of a block beside the open ones: of another branch, or of a case that is not this one."""
        block: Block = step.block
        while block not in self.blocks:
            owner = block.owner
            if owner is None or any(open_block.owner is owner for open_block in self.blocks):
                raise BuildError(f"{self.name}: {what} is read in another branch than the one in which its step runs")
            block = owner.block

    # ------------------------------------------------------------------ lines

    def _called_in(self) -> int | None:
        frame = None if self._code is None else self._frame()
        return None if frame is None else frame.f_lineno

    @property
    def file(self) -> str:
        """The name of the file in which the flow is written."""
        return "" if self._code is None else Path(self._code.co_filename).name

    def _frame(self) -> FrameType | None:
        """The frame of the flow's function, which is called; None where it is not."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        return frame

    # ------------------------------------------------------------------ names of variables

    def _variable(self) -> str | None:
        """The variable to which the flow's function assigns what it is calling now; None when there is none, or no source."""
        if self.reads:
            return self.target
        frame = self._frame()
        if frame is None or self._code is None:
            return None
        if self._assigned is None:
            self._assigned = _assignments(self._code)
        positions = list(self._code.co_positions())
        line, _, column, _ = positions[frame.f_lasti // 2]
        return None if line is None or column is None else self._assigned.get((line, column))


def _assignments(code: CodeType) -> dict[tuple[int, int], str]:
    """(line, column) of each call in a function's source → the single variable its value goes to."""
    try:
        lines, first = inspect.getsourcelines(code)
        source = "".join(lines)
        tree = parse_module(textwrap.dedent(source))
    except (OSError, TypeError, SyntaxError):
        return {}
    indent = len(lines[0]) - len(lines[0].lstrip())
    found: dict[tuple[int, int], str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            name, value = node.target.id, node.value
        elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            name, value = node.optional_vars.id, node.context_expr
        else:
            continue
        if isinstance(value, ast.Call):
            found[value.lineno + first - 1, value.col_offset + indent] = name
    return found


def current(what: str) -> Build:
    """The flow that is being built; raises BuildError when there is none."""
    build = _CURRENT.get()
    if build is None:
        raise BuildError(f"{what} is part of a flow: write it in a function decorated with @flow")
    return build


def building() -> Build | None:
    """The flow that is being built, if there is one."""
    return _CURRENT.get()


def needed(build: Build | None) -> AbstractContextManager[None]:
    """Have steps go to a build; None: to none, so that tasks are plain functions again."""
    return carried(_CURRENT, build)


def called_as(name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, in the order of the call; raises BuildError for what is missing, or what there is not."""
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in signature.parameters.values())
    if not takes_any and (wrong := [key for key in kwargs if key not in signature.parameters]):
        raise BuildError(f"{name}: there is no argument {wrong[0]!r}{did_you_mean(wrong[0], signature.parameters)}")
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise BuildError(f"{name}: {error}") from None
    return {**signature.bind_partial(*args).arguments, **kwargs}
