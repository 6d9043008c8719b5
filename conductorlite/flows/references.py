"""References: what stands for a value while a flow is built.

A call of a task, of another flow, or of a form such as `human` gives a `Reference` where the running workflow will have a value.
Its attributes and items are references too; as a text it is Conductor's `${...}`. Compared, it gives a `Comparison`, which
`when`, `match` and loops take. It has no value of its own: what would need one (`if`, a loop, arithmetic) raises BuildError,
which says what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from conductorlite.model import attrs
from conductorlite.model.errors import BuildError
from conductorlite.runtime.values import plain

__all__ = ["Comparison", "Reference", "Step", "names_of"]


@attrs.define(slots=True, eq=False)
class Step:
    """One node of a flow that is being built, as references see it: its reference name, and the block it stands in."""

    ref: str
    block: Any


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

    def __eq__(self, other: object) -> Any:
        return Comparison.of(self, "==", other)

    def __ne__(self, other: object) -> Any:
        return Comparison.of(self, "!=", other)

    def __lt__(self, other: object) -> Any:
        return Comparison.of(self, "<", other)

    def __le__(self, other: object) -> Any:
        return Comparison.of(self, "<=", other)

    def __gt__(self, other: object) -> Any:
        return Comparison.of(self, ">", other)

    def __ge__(self, other: object) -> Any:
        return Comparison.of(self, ">=", other)

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
