"""Walks the syntax tree of one condition on one set of values, within a budget of steps, depth and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from conductorlite.errors import ExpressionFailed
from conductorlite.expressions.conditions.methods import GLOBALS, Builtin, Namespace, call_method
from conductorlite.expressions.conditions.nodes import (
    Access,
    ArrayLiteral,
    Assign,
    Block,
    Break,
    Call,
    Chain,
    Choice,
    Declare,
    Evaluate,
    Function,
    If,
    Literal,
    Member,
    Name,
    Node,
    ObjectLiteral,
    Return,
    Root,
    Statement,
    Switch,
    Unary,
)
from conductorlite.expressions.conditions.parser import Script
from conductorlite.expressions.conditions.seam import BeyondSubset
from conductorlite.expressions.conditions.values import (
    MAX_STRING,
    UNDEFINED,
    ScriptList,
    ScriptMap,
    Undefined,
    is_number,
    length_of,
    less,
    loosely_equal,
    strictly_equal,
    text_of,
    to_json,
    to_number,
    truthy,
    type_name,
)
from conductorlite.expressions.sources import Json

__all__ = ["MAX_STEPS", "run"]

#: Steps one evaluation may take: a condition of the usual size takes about ten.
MAX_STEPS: Final = 10_000
#: Deepest nesting of evaluations, functions that call functions included.
_MAX_DEPTH: Final = 150


class _Scope:
    """The variables of one block or function."""

    __slots__ = ("constants", "outer", "values")

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.values: dict[str, Json] = {}
        self.constants: set[str] = set()

    def holder(self, name: str) -> _Scope | None:
        scope: _Scope | None = self
        while scope is not None and name not in scope.values:
            scope = scope.outer
        return scope


@attrs.frozen(kw_only=True, eq=False)
class _Closure:
    """A function value: its code and the scope it was made in."""

    code: Function
    scope: _Scope


class _ReturnSignal(Exception):
    def __init__(self, value: Json) -> None:
        self.value = value


class _BreakSignal(Exception):
    def __init__(self) -> None:
        self.value: Json | _Empty = _EMPTY


class _Empty:
    """The completion of a statement that has no value, such as a declaration."""


_EMPTY: Final = _Empty()


def run(script: Script, values: Mapping[str, Json], max_steps: int = MAX_STEPS) -> Json:
    """The completion value of the script as JSON; raises ExpressionFailed as `Condition.evaluate` says."""
    interpreter = _Interpreter(values, max_steps)
    try:
        return interpreter.script(script)
    except RecursionError:
        raise BeyondSubset("the evaluation is nested too deeply") from None


class _Interpreter:
    """One evaluation; implements `methods.Host`."""

    def __init__(self, values: Mapping[str, Json], max_steps: int) -> None:
        self._root = values if isinstance(values, dict) else dict(values)
        self._left = max_steps
        self._limit = max_steps
        self._depth = 0

    def script(self, script: Script) -> Json:
        scope = _Scope(None)
        scope.values = dict.fromkeys(script.variables, UNDEFINED)
        result = self._statements(script.body, scope)
        return None if isinstance(result, _Empty) else to_json(result, self.charge)

    def charge(self, steps: int) -> None:
        """Spend steps; raises ExpressionFailed when they are used up."""
        self._left -= steps
        if self._left < 0:
            raise BeyondSubset(f"the condition takes more than {self._limit:,} steps")

    def call(self, function: Json, arguments: Sequence[Json]) -> Json:
        """Call a function value; raises ExpressionFailed when it is none."""
        self.charge(1)
        if isinstance(function, Builtin):
            return function.run(self, arguments)
        if not isinstance(function, _Closure):
            raise ExpressionFailed(f"TypeError: {text_of(function, self.charge)[:80]} is not a function")
        code = function.code
        scope = _Scope(function.scope)
        if code.name is not None:
            scope.values[code.name] = function
        scope.values.update(dict.fromkeys(code.variables, UNDEFINED))
        for index, name in enumerate(code.parameters):
            scope.values[name] = arguments[index] if index < len(arguments) else UNDEFINED
        try:
            self._statements(code.body, scope)
        except _ReturnSignal as returned:
            return returned.value
        return UNDEFINED

    # -- statements -----------------------------------------------------------------------------------------------

    def _statements(self, body: Sequence[Statement], scope: _Scope) -> Json | _Empty:
        for statement in body:
            if isinstance(statement, Function) and statement.name is not None:
                scope.values[statement.name] = _Closure(code=statement, scope=scope)
        result: Json | _Empty = _EMPTY
        try:
            for statement in body:
                value = self._statement(statement, scope)
                if value is not _EMPTY:
                    result = value
        except _BreakSignal as broken:
            if broken.value is _EMPTY:
                broken.value = result
            raise
        return result

    def _statement(self, statement: Statement, scope: _Scope) -> Json | _Empty:
        self.charge(1)
        if isinstance(statement, Evaluate):
            return self._value(statement.value, scope)
        if isinstance(statement, If):
            return self._if(statement, scope)
        if isinstance(statement, Return):
            raise _ReturnSignal(UNDEFINED if statement.value is None else self._value(statement.value, scope))
        if isinstance(statement, Block):
            return self._statements(statement.body, _Scope(scope) if statement.scoped else scope)
        if isinstance(statement, Declare):
            self._declare(statement, scope)
        elif isinstance(statement, Switch):
            return self._switch(statement, scope)
        elif isinstance(statement, Break):
            raise _BreakSignal
        return _EMPTY

    def _if(self, statement: If, scope: _Scope) -> Json:
        for condition, branch in statement.arms:
            if truthy(self._value(condition, scope)):
                result = self._statement(branch, scope)
                break
        else:
            result = _EMPTY if statement.otherwise is None else self._statement(statement.otherwise, scope)
        return UNDEFINED if isinstance(result, _Empty) else result

    def _declare(self, statement: Declare, scope: _Scope) -> None:
        for name, node in statement.entries:
            if statement.kind == "var":
                holder = scope.holder(name) or scope
                if node is not None:
                    holder.values[name] = self._value(node, scope)
            else:
                scope.values[name] = UNDEFINED if node is None else self._value(node, scope)
                if statement.kind == "const":
                    scope.constants.add(name)

    def _switch(self, statement: Switch, outer: _Scope) -> Json:
        subject = self._value(statement.subject, outer)
        scope = _Scope(outer)
        start: int | None = None
        for index, (test, _) in enumerate(statement.cases):
            if test is not None and strictly_equal(subject, self._value(test, scope)):
                start = index
                break
        if start is None:
            start = next((index for index, (test, _) in enumerate(statement.cases) if test is None), None)
        if start is None:
            return UNDEFINED
        try:
            result = self._statements([item for _, body in statement.cases[start:] for item in body], scope)
        except _BreakSignal as broken:
            result = broken.value
        return UNDEFINED if isinstance(result, _Empty) else result

    # -- expressions ----------------------------------------------------------------------------------------------

    def _value(self, node: Node, scope: _Scope) -> Json:
        self.charge(1)
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Root):
            return self._root
        if self._depth >= _MAX_DEPTH:
            raise BeyondSubset(f"the evaluation is nested deeper than {_MAX_DEPTH} levels")
        self._depth += 1
        try:
            return _HANDLERS[type(node)](self, node, scope)
        finally:
            self._depth -= 1

    def _name(self, node: Name, scope: _Scope) -> Json:
        holder = scope.holder(node.name)
        if holder is not None:
            return holder.values[node.name]
        if node.name in GLOBALS:
            return GLOBALS[node.name]
        raise ExpressionFailed(f"ReferenceError: {node.name} is not defined")

    def _array(self, node: ArrayLiteral, scope: _Scope) -> Json:
        return ScriptList([self._value(item, scope) for item in node.items])

    def _object(self, node: ObjectLiteral, scope: _Scope) -> Json:
        return ScriptMap({key: self._value(item, scope) for key, item in node.entries})

    def _function(self, node: Function, scope: _Scope) -> Json:
        return _Closure(code=node, scope=scope)

    def _assign(self, node: Assign, scope: _Scope) -> Json:
        value = self._value(node.value, scope)
        holder = scope.holder(node.name)
        if holder is None:
            raise ExpressionFailed(f"ReferenceError: {node.name} is not defined")
        if node.name in holder.constants:
            raise ExpressionFailed(f"TypeError: assignment to the constant {node.name}")
        holder.values[node.name] = value
        return value

    def _choice(self, node: Choice, scope: _Scope) -> Json:
        for condition, then in node.arms:
            if truthy(self._value(condition, scope)):
                return self._value(then, scope)
        return self._value(node.otherwise, scope)

    def _unary(self, node: Unary, scope: _Scope) -> Json:
        operators = node.operators
        operand = node.operand
        if operators[-1] == "typeof" and isinstance(operand, Name) and operand.name not in GLOBALS:
            value = UNDEFINED if scope.holder(operand.name) is None else self._value(operand, scope)
        else:
            value = self._value(operand, scope)
        for operator in reversed(operators):
            self.charge(1)
            if operator == "!":
                value = not truthy(value)
            elif operator == "typeof":
                value = type_name(value)
            else:
                number = to_number(value, self.charge)
                value = -number if operator == "-" else number
        return value

    def _chain(self, node: Chain, scope: _Scope) -> Json:
        value = self._value(node.first, scope)
        for operator, operand in node.rest:
            if operator == "&&":
                if truthy(value):
                    value = self._value(operand, scope)
            elif operator == "||":
                if not truthy(value):
                    value = self._value(operand, scope)
            elif operator == "??":
                if value is None or value is UNDEFINED:
                    value = self._value(operand, scope)
            else:
                value = self._binary(operator, value, self._value(operand, scope))
        return value

    def _binary(self, operator: str, left: Json, right: Json) -> Json:
        charge = self.charge
        if operator == "===":
            return strictly_equal(left, right)
        if operator == "!==":
            return not strictly_equal(left, right)
        if operator == "==":
            return loosely_equal(left, right, charge)
        if operator == "!=":
            return not loosely_equal(left, right, charge)
        if operator == "<":
            return less(left, right, charge) is True
        if operator == ">":
            return less(right, left, charge) is True
        if operator == "<=":
            return less(right, left, charge) is False
        if operator == ">=":
            return less(left, right, charge) is False
        if operator == "+" and not (_counts(left) and _counts(right)):
            return self._concatenate(text_of(left, charge), text_of(right, charge))
        return _arithmetic(operator, to_number(left, charge), to_number(right, charge))

    def _concatenate(self, left: str, right: str) -> str:
        length = len(left) + len(right)
        if length > MAX_STRING:
            raise BeyondSubset(f"a text longer than {MAX_STRING:,} characters")
        self.charge(length // 1000)
        return left + right

    # -- access ---------------------------------------------------------------------------------------------------

    def _access(self, node: Access, scope: _Scope) -> Json:
        value = self._value(node.base, scope)
        steps = node.steps
        index = 0
        while index < len(steps):
            self.charge(1)
            step = steps[index]
            index += 1
            if isinstance(step, Call):
                value = self.call(value, [self._value(argument, scope) for argument in step.arguments])
                continue
            if step.optional and (value is None or value is UNDEFINED):
                return UNDEFINED
            key = step.name if isinstance(step, Member) else self._value(step.key, scope)
            following = steps[index] if index < len(steps) else None
            if isinstance(following, Call) and not isinstance(value, Namespace):
                _readable(value, key, self.charge)
                index += 1
                arguments = [self._value(argument, scope) for argument in following.arguments]
                value = call_method(self, value, str(key), arguments)
            else:
                value = self._property(value, key)
        return value

    def _property(self, value: Json, key: Json) -> Json:
        _readable(value, key, self.charge)
        if isinstance(value, dict):
            return value.get(key if isinstance(key, str) else text_of(key, self.charge), UNDEFINED)
        if isinstance(value, list | str):
            if key == "length":
                return length_of(value) if isinstance(value, str) else len(value)
            number = to_number(key, self.charge) if is_number(key) or _is_index(key) else math.nan
            return value[int(number)] if 0 <= number < len(value) and number.is_integer() else UNDEFINED
        if isinstance(value, Namespace):
            return value.members.get(str(key), UNDEFINED)
        return UNDEFINED


def _is_index(key: Json) -> bool:
    return isinstance(key, str) and len(key) <= 15 and key.isascii() and key.isdigit() and (key == "0" or key[0] != "0")


def _readable(value: Json, key: Json, charge: Callable[[int], None]) -> None:
    if value is None or isinstance(value, Undefined):
        name = text_of(key, charge)[:80]
        what = "null" if value is None else "undefined"
        raise ExpressionFailed(f"TypeError: Cannot read property '{name}' of {what}")


def _counts(value: Json) -> bool:
    """Whether `+` adds it, rather than joining texts."""
    return value is None or value is UNDEFINED or isinstance(value, int | float)


def _arithmetic(operator: str, left: float, right: float) -> float:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        if right != 0:
            return left / right
        if left == 0 or math.isnan(left) or math.isnan(right):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    if right == 0 or not math.isfinite(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


_HANDLERS: Final[Mapping[type, Callable[[_Interpreter, Json, _Scope], Json]]] = {
    Name: _Interpreter._name,
    ArrayLiteral: _Interpreter._array,
    ObjectLiteral: _Interpreter._object,
    Access: _Interpreter._access,
    Unary: _Interpreter._unary,
    Chain: _Interpreter._chain,
    Choice: _Interpreter._choice,
    Assign: _Interpreter._assign,
    Function: _Interpreter._function,
}
