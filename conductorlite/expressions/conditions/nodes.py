"""The syntax tree of a condition: what the parser builds and the interpreter walks."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from conductorlite.expressions.sources import Json

__all__ = [
    "Access",
    "ArrayLiteral",
    "Assign",
    "Block",
    "Break",
    "Call",
    "Chain",
    "Choice",
    "Computed",
    "Declare",
    "Evaluate",
    "Function",
    "If",
    "Literal",
    "Member",
    "Name",
    "Node",
    "ObjectLiteral",
    "Return",
    "Root",
    "Statement",
    "Step",
    "Switch",
    "Unary",
]


@attrs.frozen(kw_only=True)
class Literal:
    """A number, text, true, false, null or undefined."""

    value: Json


@attrs.frozen(kw_only=True)
class Root:
    """`$`."""


@attrs.frozen(kw_only=True)
class Name:
    """A variable, a function or one of the few globals."""

    name: str


@attrs.frozen(kw_only=True)
class ArrayLiteral:
    """`[a, b]`."""

    items: tuple[Node, ...]


@attrs.frozen(kw_only=True)
class ObjectLiteral:
    """`{a: 1, 'b c': 2, d}`."""

    entries: tuple[tuple[str, Node], ...]


@attrs.frozen(kw_only=True)
class Member:
    """`.name`; `optional` for `?.name`."""

    name: str
    optional: bool


@attrs.frozen(kw_only=True)
class Computed:
    """`[expression]`."""

    key: Node
    optional: bool


@attrs.frozen(kw_only=True)
class Call:
    """`(arguments)`."""

    arguments: tuple[Node, ...]


Step: TypeAlias = Member | Computed | Call


@attrs.frozen(kw_only=True)
class Access:
    """A value and the steps taken from it: flat, so that a long chain is not a deep tree."""

    base: Node
    steps: tuple[Step, ...]


@attrs.frozen(kw_only=True)
class Unary:
    """Prefix operators, the innermost last."""

    operators: tuple[str, ...]
    operand: Node


@attrs.frozen(kw_only=True)
class Chain:
    """Operators of one precedence applied from left to right."""

    level: int
    first: Node
    rest: tuple[tuple[str, Node], ...]


@attrs.frozen(kw_only=True)
class Choice:
    """`a ? b : c ? d : e`: the pairs in order, then what is left."""

    arms: tuple[tuple[Node, Node], ...]
    otherwise: Node


@attrs.frozen(kw_only=True)
class Assign:
    """`name = value`."""

    name: str
    value: Node


@attrs.frozen(kw_only=True)
class Function:
    """A function or arrow function; `variables` are its hoisted `var` names."""

    name: str | None
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    variables: frozenset[str]


Node: TypeAlias = Literal | Root | Name | ArrayLiteral | ObjectLiteral | Access | Unary | Chain | Choice | Assign | Function


@attrs.frozen(kw_only=True)
class Evaluate:
    """An expression as a statement."""

    value: Node


@attrs.frozen(kw_only=True)
class Declare:
    """`var`, `let`, `const` (`kind`), each name with its value; None without one."""

    kind: str
    entries: tuple[tuple[str, Node | None], ...]


@attrs.frozen(kw_only=True)
class Block:
    """`{ … }`, or a lone `;` when it is empty and not `scoped`."""

    body: tuple[Statement, ...]
    scoped: bool = True


@attrs.frozen(kw_only=True)
class If:
    """`if … else if … else …`, flat."""

    arms: tuple[tuple[Node, Statement], ...]
    otherwise: Statement | None


@attrs.frozen(kw_only=True)
class Switch:
    """`switch`; a case without a test is `default`."""

    subject: Node
    cases: tuple[tuple[Node | None, tuple[Statement, ...]], ...]


@attrs.frozen(kw_only=True)
class Return:
    """`return`, with or without a value."""

    value: Node | None


@attrs.frozen(kw_only=True)
class Break:
    """`break` out of a switch."""


Statement: TypeAlias = Evaluate | Declare | Block | If | Switch | Return | Break | Function
