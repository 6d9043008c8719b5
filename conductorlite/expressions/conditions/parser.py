"""From text to syntax tree: the JavaScript that Conductor's loop conditions and SWITCH scripts are written in."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NoReturn

import attrs

from conductorlite.errors import InvalidExpression
from conductorlite.expressions.conditions.lexer import (
    OTHER_OPERATORS,
    OTHER_WORDS,
    RESERVED,
    Token,
    syntax_error,
    tokenize,
    unsupported,
)
from conductorlite.expressions.conditions.methods import GLOBALS, METHODS, Namespace
from conductorlite.expressions.conditions.nodes import (
    Access,
    ArrayLiteral,
    Assign,
    Block,
    Break,
    Call,
    Chain,
    Choice,
    Computed,
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
    Step,
    Switch,
    Unary,
)
from conductorlite.expressions.conditions.values import UNDEFINED

__all__ = ["Script", "parse"]

#: Deepest nesting of statements, brackets and functions in one another.
_MAX_NESTING: Final = 40

_LEVELS: Final = {
    "??": 1, "||": 2, "&&": 3, "==": 4, "!=": 4, "===": 4, "!==": 4,
    "<": 5, "<=": 5, ">": 5, ">=": 5, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7,
}  # fmt: skip
_PREFIXES: Final = ("!", "-", "+", "typeof")
_LITERALS: Final = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}


@attrs.frozen(kw_only=True)
class Script:
    """A parsed condition; `names` are the first-level properties of `$` in it, `everything` is for `$` used whole."""

    body: tuple[Statement, ...]
    variables: frozenset[str]
    names: frozenset[str]
    everything: bool


def parse(text: str) -> Script:
    """Parse a condition; raises InvalidExpression with the place, for broken text and for what the subset lacks."""
    try:
        return _Parser(text).script()
    except RecursionError:
        # Only when the caller's own stack left too little room: the nesting limit is far below Python's.
        raise InvalidExpression("the condition is nested too deeply") from None


class _Parser:
    """Recursive descent over the tokens of one text; what repeats without nesting is a loop, so long is never deep."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0
        self._functions: list[set[str]] = [set()]
        self._switches = 0
        self._names: set[str] = set()
        self._everything = False

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _is(self, *texts: str) -> bool:
        token = self._tokens[self._index]
        return token.text in texts and token.kind in ("punctuation", "name")

    def _next(self) -> Token:
        token = self._tokens[self._index]
        if token.kind != "end":
            self._index += 1
        return token

    def _take(self, text: str) -> bool:
        if self._is(text):
            self._index += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._unexpected(f", {text!r} expected")

    def _unexpected(self, more: str = "") -> NoReturn:
        raise self._surprise(more)

    def _surprise(self, more: str = "") -> InvalidExpression:
        token = self._token
        if token.kind == "punctuation" and token.text.endswith("=") and token.text not in ("=", "<=", ">="):
            self._refuse(f"the assignment {token.text}", token)
        if token.kind != "text" and token.text in OTHER_OPERATORS:
            self._refuse(OTHER_OPERATORS[token.text], token)
        if token.kind == "name" and token.text in OTHER_WORDS:
            self._refuse(f"`{token.text}`", token)
        shown = "the end of the text" if token.kind == "end" else repr(token.text)
        return syntax_error(self._text, token.position, f"unexpected {shown}{more}")

    def _refuse(self, construct: str, token: Token) -> NoReturn:
        raise unsupported(self._text, token.position, construct)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise syntax_error(self._text, self._token.position, f"nesting deeper than {_MAX_NESTING} levels")

    def _end_statement(self) -> None:
        if not self._take(";") and not self._is("}") and self._token.kind != "end" and not self._token.newline:
            self._unexpected()

    def _identifier(self) -> str:
        token = self._token
        if token.kind != "name" or token.text in RESERVED or token.text in _LITERALS or token.text in OTHER_WORDS:
            if self._is("{", "[", "..."):
                self._refuse("destructuring", token)
            self._unexpected(", a name expected")
        if token.text == "$":
            self._refuse("a variable named $", token)
        self._index += 1
        return token.text

    def script(self) -> Script:
        body: list[Statement] = []
        while self._token.kind != "end":
            body.append(self._statement())
        return Script(
            body=tuple(body),
            variables=frozenset(self._functions[0]),
            names=frozenset(self._names),
            everything=self._everything,
        )

    def _statement(self) -> Statement:
        self._enter()
        try:
            return self._statement_inner()
        finally:
            self._depth -= 1

    def _statement_inner(self) -> Statement:
        if self._take(";"):
            return Block(body=(), scoped=False)
        if self._is("{"):
            return Block(body=self._braces())
        if self._take("if"):
            return self._if()
        if self._is("var", "let", "const"):
            return self._declare()
        if self._take("function"):
            return self._function(self._identifier())
        if self._take("switch"):
            return self._switch()
        if self._is("return"):
            return self._return()
        if self._is("break"):
            token = self._next()
            if not self._switches:
                raise syntax_error(self._text, token.position, "`break` outside a switch")
            self._end_statement()
            return Break()
        if self._token.kind == "name" and self._tokens[self._index + 1].text == ":":
            self._refuse("a label (an object literal needs parentheses around it)", self._token)
        value = self._expression()
        self._end_statement()
        return Evaluate(value=value)

    def _braces(self) -> tuple[Statement, ...]:
        self._expect("{")
        body: list[Statement] = []
        while not self._take("}"):
            if self._token.kind == "end":
                self._unexpected(", '}' expected")
            body.append(self._statement())
        return tuple(body)

    def _parenthesised(self) -> Node:
        self._expect("(")
        return self._rest_of_parentheses()

    def _if(self) -> Statement:
        arms: list[tuple[Node, Statement]] = []
        otherwise: Statement | None = None
        while True:
            condition = self._parenthesised()
            arms.append((condition, self._statement()))
            if not self._take("else"):
                break
            if not self._take("if"):
                otherwise = self._statement()
                break
        return If(arms=tuple(arms), otherwise=otherwise)

    def _declare(self) -> Statement:
        kind = self._next().text
        entries: list[tuple[str, Node | None]] = []
        while True:
            token = self._token
            name = self._identifier()
            if self._is("in", "of"):
                self._unexpected()
            value = self._assignment() if self._take("=") else None
            if value is None and kind == "const":
                raise syntax_error(self._text, token.position, "a const without a value")
            if kind == "var":
                self._functions[-1].add(name)
            entries.append((name, value))
            if not self._take(","):
                break
        self._end_statement()
        return Declare(kind=kind, entries=tuple(entries))

    def _switch(self) -> Statement:
        subject = self._parenthesised()
        self._expect("{")
        self._switches += 1
        cases: list[tuple[Node | None, tuple[Statement, ...]]] = []
        while not self._take("}"):
            test: Node | None = None
            if self._take("case"):
                test = self._expression()
            else:
                self._expect("default")
            self._expect(":")
            body: list[Statement] = []
            while not self._is("case", "default", "}"):
                if self._token.kind == "end":
                    self._unexpected(", '}' expected")
                body.append(self._statement())
            cases.append((test, tuple(body)))
        self._switches -= 1
        if sum(test is None for test, _ in cases) > 1:
            raise syntax_error(self._text, self._token.position, "a switch with two defaults")
        return Switch(subject=subject, cases=tuple(cases))

    def _return(self) -> Statement:
        token = self._next()
        if len(self._functions) == 1:
            raise syntax_error(self._text, token.position, "`return` outside a function")
        bare = self._is(";", "}") or self._token.kind == "end" or self._token.newline
        value = None if bare else self._expression()
        self._end_statement()
        return Return(value=value)

    def _function(self, name: str | None) -> Function:
        if self._is("*"):
            self._refuse("a generator", self._token)
        self._expect("(")
        parameters = self._parameters()
        return self._body(name, parameters)

    def _parameters(self) -> tuple[str, ...]:
        names: list[str] = []
        while not self._take(")"):
            names.append(self._identifier())
            if self._is("="):
                self._refuse("a default value of a parameter", self._token)
            if not self._is(")"):
                self._expect(",")
        return tuple(names)

    def _body(self, name: str | None, parameters: tuple[str, ...]) -> Function:
        self._functions.append(set())
        switches, self._switches = self._switches, 0
        body = self._braces() if self._is("{") else (Return(value=self._assignment()),)
        self._switches = switches
        return Function(name=name, parameters=parameters, body=body, variables=frozenset(self._functions.pop()))

    def _expression(self) -> Node:
        value = self._assignment()
        if self._is(","):
            self._refuse("the comma operator", self._token)
        return value

    def _assignment(self) -> Node:
        self._enter()
        try:
            token, following = self._token, self._tokens[min(self._index + 1, len(self._tokens) - 1)]
            if token.kind == "name" and following.kind == "punctuation" and following.text in ("=", "=>"):
                name = self._identifier()
                self._index += 1
                if following.text == "=>":
                    return self._body(None, (name,))
                return Assign(name=name, value=self._assignment())
            value = self._choice()
            if self._is("="):
                self._refuse("an assignment to a property", self._token)
            return value
        finally:
            self._depth -= 1

    def _choice(self) -> Node:
        arms: list[tuple[Node, Node]] = []
        while True:
            value = self._binary()
            if not self._take("?"):
                return Choice(arms=tuple(arms), otherwise=value) if arms else value
            then = self._assignment()
            self._expect(":")
            arms.append((value, then))

    def _binary(self) -> Node:
        operands = [self._unary()]
        operators: list[str] = []
        while self._token.kind == "punctuation" and self._token.text in _LEVELS:
            operator = self._next().text
            while operators and _LEVELS[operators[-1]] >= _LEVELS[operator]:
                _fold(operands, operators)
            operators.append(operator)
            operands.append(self._unary())
        if self._token.kind != "text" and self._token.text in OTHER_OPERATORS:
            self._unexpected()
        while operators:
            _fold(operands, operators)
        return operands[0]

    def _unary(self) -> Node:
        operators: list[str] = []
        while self._is(*_PREFIXES):
            operators.append(self._next().text)
        operand = self._postfix()
        return Unary(operators=tuple(operators), operand=operand) if operators else operand

    def _postfix(self) -> Node:
        start = self._token
        base = self._primary()
        steps: list[Step] = []
        while True:
            token = self._token
            if self._take(".") or self._take("?."):
                optional = token.text == "?."
                if optional and self._is("["):
                    self._next()
                    steps.append(self._computed(optional=True))
                    continue
                if optional and self._is("("):
                    self._refuse("an optional call", token)
                name = self._next()
                if name.kind != "name":
                    self._index -= name.kind != "end"
                    self._unexpected(", a property name expected")
                steps.append(Member(name=name.text, optional=optional))
            elif self._take("["):
                steps.append(self._computed(optional=False))
            elif self._is("("):
                self._check_call(base, steps, token)
                self._next()
                steps.append(Call(arguments=self._items(")")))
            else:
                break
        self._note(base, steps, start)
        return Access(base=base, steps=tuple(steps)) if steps else base

    def _computed(self, *, optional: bool) -> Step:
        key = self._expression()
        self._expect("]")
        if isinstance(key, Literal) and isinstance(key.value, str):
            return Member(name=key.value, optional=optional)
        return Computed(key=key, optional=optional)

    def _check_call(self, base: Node, steps: list[Step], token: Token) -> None:
        """What is called must be known now: nothing in JSON data is a function, so a surprise later helps nobody."""
        if not steps:
            if isinstance(base, Name | Function):
                return
            self._refuse("a call of something that is not a function", token)
        last = steps[-1]
        if isinstance(last, Computed):
            self._refuse("a call of a computed name", token)
        if isinstance(last, Member) and last.name not in METHODS and not isinstance(base, Name):
            self._refuse(f"the method .{last.name}()", token)

    def _note(self, base: Node, steps: list[Step], start: Token) -> None:
        """Keep account of what is read from `$`, and refuse what the few globals do not have."""
        first = steps[0] if steps else None
        if isinstance(base, Root):
            called = len(steps) > 1 and isinstance(steps[1], Call)
            if isinstance(first, Member) and not called:
                self._names.add(first.name)
            else:
                self._everything = True
        elif isinstance(base, Name) and isinstance(GLOBALS.get(base.name), Namespace):
            members = GLOBALS[base.name].members
            if not isinstance(first, Member) or first.name not in members:
                self._refuse(f"{base.name}{'.' + first.name if isinstance(first, Member) else ' by itself'}", start)
        elif isinstance(base, Name):
            for step, following in pairwise(steps):
                if isinstance(following, Call) and isinstance(step, Member) and step.name not in METHODS:
                    self._refuse(f"the method .{step.name}()", start)

    def _items(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._take(end):
            if self._is(","):
                self._unexpected()
            items.append(self._assignment())
            if not self._is(end):
                self._expect(",")
        return tuple(items)

    def _primary(self) -> Node:
        token = self._next()
        if token.kind in ("number", "text"):
            return Literal(value=token.value)
        if token.kind == "name" and token.text not in RESERVED | OTHER_WORDS:
            if token.text == "$":
                return Root()
            return Literal(value=_LITERALS[token.text]) if token.text in _LITERALS else Name(name=token.text)
        if token.text == "function":
            return self._function(None if self._is("(", "*") else self._identifier())
        if token.text == "(":
            if not self._is_arrow():
                return self._rest_of_parentheses()
            parameters = self._parameters()
            self._expect("=>")
            return self._body(None, parameters)
        if token.text == "[":
            return ArrayLiteral(items=self._items("]"))
        if token.text == "{":
            return self._object()
        if token.text in ("/", "/="):
            self._refuse("a regular expression", token)
        self._index -= token.kind != "end"
        raise self._surprise()

    def _rest_of_parentheses(self) -> Node:
        value = self._expression()
        self._expect(")")
        return value

    def _is_arrow(self) -> bool:
        depth = 1
        for index in range(self._index, len(self._tokens)):
            token = self._tokens[index]
            if token.kind == "punctuation":
                depth += (token.text == "(") - (token.text == ")")
                if depth == 0:
                    return self._tokens[index + 1].text == "=>"
        return False

    def _object(self) -> Node:
        entries: list[tuple[str, Node]] = []
        while not self._take("}"):
            token = self._next()
            if token.kind not in ("name", "text", "number"):
                self._refuse("this kind of property in an object literal", token)
            key = str(token.value) if token.kind == "text" else token.text
            if self._take(":"):
                entries.append((key, self._assignment()))
            elif token.kind == "name" and self._is(",", "}"):
                self._index -= 1
                entries.append((key, self._postfix()))
            else:
                self._refuse("this kind of property in an object literal", token)
            if not self._is("}"):
                self._expect(",")
        return ObjectLiteral(entries=tuple(entries))


def _fold(operands: list[Node], operators: list[str]) -> None:
    right, operator = operands.pop(), operators.pop()
    left = operands.pop()
    level = _LEVELS[operator]
    if isinstance(left, Chain) and left.level == level:
        operands.append(Chain(level=level, first=left.first, rest=(*left.rest, (operator, right))))
    else:
        operands.append(Chain(level=level, first=left, rest=((operator, right),)))
