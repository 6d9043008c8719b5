"""Expressions of Python over JSON values, beside Python itself and their JavaScript; what is refused, and what is bounded."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from made_expressions import (
    NAMES,
    ExpressionMaker,
    answer_of_python,
    answers_of_javascript,
    hostile_values,
    is_portable,
)

from conductorlite.language.expressions import (
    ExpressionRaised,
    ExpressionRefused,
    closures,
    evaluate,
    expression,
    javascript,
    operations,
    render,
    truth,
)
from conductorlite.language.expressions.expression import compile_expression
from conductorlite.model.errors import ExpressionFailed, InvalidExpression

#: Scripts of JavaScript that are carried out in one run.
_TOGETHER = 60


def node_of(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def typed(value: Any) -> Any:
    """A value with its types: 1, True and 1.0 differ, and so do 0.0 and -0.0."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return [(key, typed(item)) for key, item in value.items()]
    return type(value).__name__, repr(value)


def ours(text: str, values: Mapping[str, Any]) -> tuple[str, Any] | None:
    """What this package answers, as `answer_of_python` says it; None when the budget was spent."""
    try:
        return "=", evaluate(text, values)
    except ExpressionRaised as error:
        return "!", [error.error_types[0], str(error).partition(": ")[2]]
    except ExpressionFailed:
        return None


class Comparison:
    """Random expressions by three: here, Python, JavaScript."""

    def __init__(self, seed: int, *, portable: bool = False) -> None:
        self._values = portable
        self.maker = ExpressionMaker(Random(seed), portable=portable)
        self.counted: Counter[str] = Counter()
        self._portable: list[tuple[Any, dict[str, Any], Any]] = []

    def differences(self, count: int, *, scripts: bool = True) -> Iterator[str]:
        """Where they differ, of so many expressions."""
        for _ in range(count):
            try:
                made = render(self.maker.make(self.maker.random.choice([1, 2, 2, 3, 4])), NAMES)
            except ExpressionRefused as error:
                self.counted[f"refused: {error.reason[:30]}"] += 1
                continue
            values = hostile_values(self.maker.random, portable=self._values)
            found = ours(made.python, values)
            if found is None:
                self.counted["spent"] += 1
                continue
            sign, answer, portable = answer_of_python(made.python, values)
            self.counted[sign] += 1
            if found[0] != sign or typed(found[1])[:200] != typed(answer)[:200]:
                yield f"{made.python}\n  {values}\n  here   {found}\n  Python {sign, answer}"
            if scripts and portable and all(is_portable(values[name]) for name in made.names):
                self._portable.append((made, values, (sign, answer)))
            if len(self._portable) >= _TOGETHER:
                yield from self._scripts()
        yield from self._scripts()

    def _scripts(self) -> Iterator[str]:
        answers = answers_of_javascript([(made.javascript, values) for made, values, _ in self._portable])
        for (made, values, (sign, answer)), (got, said) in zip(self._portable, answers, strict=True):
            self.counted["script"] += 1
            if got == "!" and said.startswith("NotImplementedError"):
                self.counted["unknown"] += 1
            elif got != sign or (typed(said) != typed(answer) if got == "=" else said.partition(":")[0] != answer[0]):
                yield f"{made.python}\n  {values}\n  JavaScript {got, said}\n  Python {sign, answer}"
        self._portable.clear()


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_answer_as_python_and_javascript_do(seed: int) -> None:
    """The same value of the same type, or the same exception with the same text."""
    comparison = Comparison(seed, portable=seed % 2 == 1)
    assert list(comparison.differences(100)) == []
    assert comparison.counted["="] > 30
    assert comparison.counted["!"] > 15
    assert comparison.counted["script"] > 30
    assert comparison.counted["unknown"] <= 4
    assert comparison.counted["spent"] <= 2


@pytest.mark.deep
def test_ten_thousand_random_expressions() -> None:
    """As above, over the whole grammar: every kind of node inside nearly every other that can hold it."""
    comparison = Comparison(10_000)
    assert list(comparison.differences(10_000)) == []
    assert list(Comparison(20_000, portable=True).differences(2_000)) == []
    kinds = {outer for outer, _ in comparison.maker.nested}
    assert {
        "BinOp",
        "BoolOp",
        "Call",
        "Compare",
        "Dict",
        "DictComp",
        "FormattedValue",
        "GeneratorExp",
        "IfExp",
        "JoinedStr",
    } <= kinds
    assert {
        "Lambda",
        "List",
        "ListComp",
        "Set",
        "SetComp",
        "Slice",
        "Starred",
        "Subscript",
        "Tuple",
        "UnaryOp",
        "Attribute",
    } <= kinds
    assert len(comparison.maker.nested) > 330


def _swapped(table: Mapping[Any, Any], one: Any, other: Any) -> dict[Any, Any]:
    return {**table, one: table[other], other: table[one]}


def _plain_remainder(budget: Any, left: Any, right: Any) -> Any:
    return left % right if isinstance(left, str) else left - right * int(left / right)


#: Mistakes in what carries out an expression: the module, what of it, and what stands there instead.
_IN_PYTHON: Sequence[tuple[Any, str, Callable[[], Any]]] = [
    (closures, "BINARY", lambda: _swapped(closures.BINARY, "Add", "Sub")),
    (closures, "BINARY", lambda: {**closures.BINARY, "Div": closures.BINARY["FloorDiv"]}),
    (closures, "BINARY", lambda: {**closures.BINARY, "Mod": _plain_remainder}),
    (closures, "COMPARISONS", lambda: _swapped(closures.COMPARISONS, "Lt", "LtE")),
    (closures, "COMPARISONS", lambda: {**closures.COMPARISONS, "NotIn": closures.COMPARISONS["In"]}),
    (closures, "COMPARISONS", lambda: {**closures.COMPARISONS, "Eq": lambda budget, left, right: repr(left) == repr(right)}),
    (closures, "starred", lambda: lambda budget, value: list(value)[:2]),
    (closures, "formatted", lambda: lambda budget, value, spec="": format(value, spec).lower()),
    (closures, "unpacked", lambda: lambda budget, value, before, after=None: [*value, None, None, None][:before]),
    (closures, "item_of", lambda: lambda budget, value, index: value.get(index) if isinstance(value, dict) else value[index]),
    (expression, "_json", lambda: lambda value, budget, depth: list(value) if isinstance(value, tuple) else value),
    (operations, "_extreme", lambda: lambda choose, budget, given, options: choose(*given, **{**options, "key": None})),
]
#: The same in what writes the JavaScript.
_IN_JAVASCRIPT: Sequence[tuple[str, Callable[[], Any]]] = [
    ("_BINARY", lambda: _swapped(javascript._BINARY, ast.Add, ast.Sub)),
    ("_BINARY", lambda: {**javascript._BINARY, ast.FloorDiv: "div"}),
    ("_SIGNS", lambda: _swapped(javascript._SIGNS, ast.Lt, ast.LtE)),
    ("_METHODS", lambda: {**javascript._METHODS, "items": "keys"}),
    ("_FUNCTIONS", lambda: {**javascript._FUNCTIONS, "repr": "str"}),
    ("_PARAMETERS", lambda: {**javascript._PARAMETERS, "sorted": ("iterable", "reverse", "key")}),
    ("_later", lambda: lambda value: f"(value => () => value)({value})"),
    ("kind_of", lambda: lambda node: "bool"),
]


@pytest.fixture
def forgetful() -> Iterator[None]:
    """Compiled expressions are forgotten before the test and behind it."""
    compile_expression.cache_clear()
    yield
    compile_expression.cache_clear()


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("at", range(len(_IN_PYTHON)))
def test_planted_mistakes_are_found(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them makes the comparison with Python fail."""
    module, name, wrong = _IN_PYTHON[at]
    monkeypatch.setattr(module, name, wrong())
    assert next(Comparison(1).differences(900, scripts=False), None) is not None


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("at", range(len(_IN_JAVASCRIPT)))
def test_planted_mistakes_of_javascript_are_found(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them makes the comparison with JavaScript fail."""
    name, wrong = _IN_JAVASCRIPT[at]
    monkeypatch.setattr(javascript, name, wrong())
    with suppress(InvalidExpression):  # what is written may be no JavaScript at all
        assert next(Comparison(2, portable=True).differences(600), None) is not None


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("offer.price < 10 and offer.items", {"offer": {"price": 3, "items": [1]}}, [1]),
        ("order.items()", {"order": {}}, None),
        ("[line.sku for line in order.items if line.count > 1]", {"order": {"items": [{"sku": "a", "count": 2}]}}, ["a"]),
        ("(1, 2)", {}, [1, 2]),
        ("f'${price:,.2f}'", {"price": 1234.5}, "$1,234.50"),
        ("f'{{{x}}}' + '${' + x", {"x": "y"}, "{y}${y"),
        ("sorted(xs, key=lambda x: (-x['n'], x['s']))",
         {"xs": [{"n": 1, "s": "b"}, {"n": 2, "s": "a"}]}, [{"n": 2, "s": "a"}, {"n": 1, "s": "b"}]),
        ("{**d, 'k': len(d)}", {"d": {"a": 1}}, {"a": 1, "k": 1}),
        ("[(i, x) for i, x in enumerate(xs, 1)]", {"xs": ["a"]}, [[1, "a"]]),
        ("{k: v for k, v in d.items() if v is not None}", {"d": {"a": None, "b": 0}}, {"b": 0}),
        ("'b' in {'a', s}", {"s": "b"}, True),
        ("10 ** 30 // 7", {}, 10**30 // 7),
        ("unpack(x, 2)", {"x": "ab"}, ["a", "b"]),
        ("unpack(x, 1, 1)", {"x": [1, 2, 3]}, [1, [2], 3]),
        ("any(1 / x for x in xs)", {"xs": [1, 0]}, True),
        ("changed(x, '[]=', -1, 'c')", {"x": ["a", "b"]}, [None, ["a", "c"]]),
        ("changed(x, '[]=', 'k', [1])", {"x": {"a": 1, "k": 2}}, [None, {"a": 1, "k": [1]}]),
        ("changed(x, 'del', 0)", {"x": ["a", "b"]}, [None, ["b"]]),
        ("changed(x, 'del', 'a')", {"x": {"a": 1, "k": 2}}, [None, {"k": 2}]),
        ("changed(x, '+=', 'ab')", {"x": [1]}, [None, [1, "a", "b"]]),
        ("changed(x, '+=', 2)", {"x": 1}, [None, 3]),
        ("changed(x, 'append', 2)", {"x": [1]}, [None, [1, 2]]),
        ("changed(x, 'extend', {'k': 1})", {"x": [1]}, [None, [1, "k"]]),
        ("changed(x, 'insert', -1, 9)", {"x": [1, 2]}, [None, [1, 9, 2]]),
        ("changed(x, 'insert', 7, 9)", {"x": [1, 2]}, [None, [1, 2, 9]]),
        ("changed(x, 'pop')", {"x": [1, 2]}, [2, [1]]),
        ("changed(x, 'pop', -2)", {"x": [1, 2]}, [1, [2]]),
        ("changed(x, 'remove', 2)", {"x": [1, 2, 2]}, [None, [1, 2]]),
        ("changed(x, 'reverse')", {"x": [1, 2]}, [None, [2, 1]]),
        ("changed(x, 'clear')", {"x": [1, 2]}, [None, []]),
        ("changed(x, 'clear')", {"x": {"a": 1}}, [None, {}]),
        ("changed(x, 'pop', 'a')", {"x": {"a": 1, "b": 2}}, [1, {"b": 2}]),
        ("changed(x, 'pop', 'z', 5)", {"x": {"a": 1}}, [5, {"a": 1}]),
        ("changed(x, 'popitem')", {"x": {"a": 1, "b": 2}}, [["b", 2], {"a": 1}]),
        ("changed(x, 'setdefault', 'b', [])", {"x": {"a": 1}}, [[], {"a": 1, "b": []}]),
        ("changed(x, 'setdefault', 'a')", {"x": {"a": 1}}, [1, {"a": 1}]),
        ("changed(x, 'update', {'a': 2, 'c': 3})", {"x": {"a": 1}}, [None, {"a": 2, "c": 3}]),
    ],
)  # fmt: skip
def test_what_people_write(text: str, values: dict[str, Any], expected: Any) -> None:
    """Records, displays, comprehensions and texts; the JavaScript answers the same where it has such numbers."""
    if text == "order.items()":
        with pytest.raises(ExpressionRefused, match="a view of a dict is no JSON value"):
            render(node_of(text), values)
        return
    tree = node_of(text)
    made = render(tree, values)
    assert "${" not in made.python + made.javascript
    assert typed(evaluate(made.python, values)) == typed(expected)
    if is_portable(expected):
        assert answers_of_javascript([(made.javascript, values)]) == [["=", expected]]


@pytest.mark.parametrize(
    ("text", "value", "raised"),
    [
        ("changed(x, '[]=', 2, 0)", [1, 2], "IndexError: list assignment index out of range"),
        ("changed(x, '[]=', 'a', 0)", [1], "TypeError: list indices must be integers or slices, not str"),
        ("changed(x, '[]=', 0, 'b')", "a", "TypeError: 'str' object does not support item assignment"),
        ("changed(x, 'del', 'a')", {}, "KeyError: 'a'"),
        ("changed(x, 'del', 0)", "a", "TypeError: 'str' object doesn't support item deletion"),
        ("changed(x, 'pop')", [], "IndexError: pop from empty list"),
        ("changed(x, 'pop', 3)", [1], "IndexError: pop index out of range"),
        ("changed(x, 'pop', 'a')", {}, "KeyError: 'a'"),
        ("changed(x, 'popitem')", {}, "KeyError: 'popitem(): dictionary is empty'"),
        ("changed(x, 'remove', 3)", [1], "ValueError: list.remove(x): x not in list"),
        ("changed(x, 'append', 3)", {}, "AttributeError: 'dict' object has no attribute 'append'"),
        ("changed(x, 'update', {})", [], "AttributeError: 'list' object has no attribute 'update'"),
        ("changed(x, 'pop')", None, "AttributeError: 'NoneType' object has no attribute 'pop'"),
        ("changed(x, '+=', 1)", "a", 'TypeError: can only concatenate str (not "int") to str'),
    ],
)
def test_what_a_change_raises(text: str, value: Any, raised: str) -> None:
    """What Python raises, and its JavaScript too; the value is not changed by it."""
    made = render(node_of(text), ["x"])
    with pytest.raises(ExpressionRaised) as found:
        evaluate(made.python, {"x": value})
    assert str(found.value) == raised
    [[sign, said]] = answers_of_javascript([(made.javascript, {"x": value})])
    assert sign != "="
    assert str(said).split(":")[0] == raised.split(":")[0]


def test_what_raises_says_what_python_says() -> None:
    """The type of the exception and its text; a failure that is meant has the types that it names."""
    with pytest.raises(ExpressionRaised, match=r"KeyError: 'a'") as missing:
        evaluate("d['a']", {"d": {}})
    assert missing.value.error_types == ("KeyError",)
    with pytest.raises(ExpressionRaised, match="OrderError: too late") as meant:
        evaluate("fail(['shop.OrderError'], 'too ' + x)", {"x": "late"})
    assert meant.value.error_types == ("shop.OrderError",)
    with pytest.raises(ExpressionRaised, match="ValueError: too many values to unpack"):
        evaluate("unpack(x, 1)", {"x": [1, 2]})
    with pytest.raises(ExpressionRaised, match="NameError: name 'x' is not defined"):
        evaluate("x", {})
    with pytest.raises(ExpressionRaised, match="TypeError: keys must be str, not int"):
        evaluate("dict(zip(xs, xs))", {"xs": [1]})


@pytest.mark.parametrize(
    "text",
    [
        "'x' * 10 ** 10", "[0] * 10 ** 9", "sum(range(10 ** 12))", "10 ** 10 ** 10", "2 ** 10 ** 9", "f'{x:>{10 ** 9}}'",
        "'%0999999999d' % x + s", "s.ljust(10 ** 9)",
        "(s * 10 ** 6).replace('', s * 10 ** 6)", "[1 for i in range(10 ** 7)]",
        "len([[i for i in range(1000)] for j in range(10 ** 6)])", "max(range(10 ** 10))",
        "0.5 in range(10 ** 12)", "[[0] * 1000] * 2000 == [[0] * 1000] * 2000", "str([[0] * 1000] * 2000)",
        "all(zip(range(10 ** 12), range(1, 10 ** 12)))",
        "s.zfill(10 ** 10)", "list(range(10 ** 8))", "sorted(range(10 ** 8))", "format(x, '0999999999')",
        "sum([xs for i in range(10 ** 5)], xs)", "s.join([s * 1000] * 10 ** 5)",
        "int('1' * 10 ** 6, 2)", "round(x, -10 ** 9) + (10 ** 50000) * (10 ** 50000)", "min([[0] * 1000] * 2000)",
        "(s * 2000000).split('a')",
    ],
)  # fmt: skip
def test_what_takes_too_much_is_ended(text: str) -> None:
    """Steps, sizes and digits are counted before they are taken."""
    if text.startswith("'%"):
        text = "(s + '%0999999999d')[1:] % x"
    with pytest.raises(ExpressionFailed, match=r"more than (1,000,000 steps|16 MB|100,000 bits)") as spent:
        evaluate(text, {"x": 5, "s": "a", "xs": [1, 2, 3] * 10})
    assert spent.value.error_types == ()


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        ("lambda: 1", "a lambda stands outside key=", "comprehension"),
        ("(y := x)", "assignment within an expression", "on a line before"),
        ("x | y", "| is not part", "{**a, **b}"),
        ("x << 1", "<< is not part", "2 ** n"),
        ("~x", "~ is not part", "not x"),
        ("x @ y", "@ is not part", "in a task"),
        ("x is y", "compares with something else than None", "=="),
        ("'%s' % x", "% formats a text", "f-string"),
        ("x.format(1)", "method format is not part", "f-string"),
        ("x.append(1)", "changes its list or dict", "[*a, b]"),
        ("x.encode()", "method encode is not part", "in a task"),
        ("print(x)", "function print is not part", "log it in a task"),
        ("datetime.now()", "method now is not part", "in a task"),
        ("open('f')", "function open is not part", "in a task"),
        ("map(len, x)", "function map is not part", "[f(x) for x in xs]"),
        ("f(*x)", "function f is not part", "now(…)"),
        ("max(*x)", "arguments are unpacked", "by itself"),
        ("dict(**x)", "arguments are unpacked", "by itself"),
        ("x()", "function x is not part", "in a task"),
        ("x[0](1)", "neither a function nor a method", "by its name"),
        ("len", "stands here without being called", "len(…)"),
        ("unheard", "has no value here", "assign it before"),
        ("zip(x, y)", "an iterator is no JSON value", "list(…)"),
        ("[zip(x, y)]", "an iterator is no JSON value", "list(…)"),
        ("(i for i in x)", "an iterator is no JSON value", "list(…)"),
        ("{1, 2}", "a set is no JSON value", "sorted(set(…))"),
        ("list({1, 2})", "a set is no JSON value", "sorted(set(…))"),
        ("sorted({1, 2}, key=len)", "a set is no JSON value", "sorted(set(…))"),
        ("range(3)", "a range is no JSON value", "list(range(…))"),
        ("x.keys()", "a view of a dict is no JSON value", "list(…)"),
        ("{1: 2}", "a key of a JSON object is a text", "as a text"),
        ("b'x'", "bytes are no JSON value", "a text"),
        ("1j", "no JSON value", "a number"),
        ("...", "no JSON value", "a number"),
        ("1e999", "inf is no JSON value", "a float can hold"),
        ("'\\ud800'", "half of a surrogate pair", "whole characters"),
        ("x.__class__", "Python's own", "a field"),
        ("[i async for i in x]", "asynchronous", "without async"),
        ("[i for x[0] in y]", "binds something else than names", "for name in"),
        ("[i for i in x for j in j]", "read before the comprehension binds it", "another name"),
        ("f'{x:n}'", "depends on the locale", "the format d"),
        ("round(x, 1, 2)", "is given 3 arguments", "takes 1 to 2"),
        ("sorted(x, cmp=1)", "does not take cmp=", "key, reverse"),
        ("sorted(x, key=lambda a, b: a)", "a lambda of one argument", "lambda x"),
        ("fail(x, 'a')", "compiler of flows only", "raise an exception"),
        ("*x", "outside a list or tuple", "[*a, *b]"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_to_write(text: str, reason: str, remedy: str) -> None:
    """Each with the reason, the remedy and the position of the node."""
    wrapped = f"async def f():\n    return {text}" if "async" in text else f"[{text}]" if text == "*x" else text
    tree = ast.parse(wrapped).body[0]
    node: Any = tree.body[0].value if isinstance(tree, ast.AsyncFunctionDef) else tree.value  # type: ignore[attr-defined]
    if text == "*x":
        node = node.elts[0]
    with pytest.raises(ExpressionRefused) as refused:
        render(node, ["x", "y"])
    assert reason in refused.value.reason
    assert remedy in refused.value.remedy + refused.value.reason
    assert refused.value.lineno is not None
    assert refused.value.col_offset is not None
    assert refused.value.end_col_offset is not None


def test_values_with_the_names_of_functions_cannot_be_called() -> None:
    """A name that is read is the value; one that is called would be the function."""
    assert evaluate(render(node_of("[max, min]"), ["max", "min"]).python, {"max": 3, "min": 1}) == [3, 1]
    for text in ("max(1, 2)", "[max(x) for max in x]", "sorted(x, key=max)"):
        with pytest.raises(ExpressionRefused, match="max is a value here"):
            render(node_of(text), ["max", "x"])


def test_constants_that_stand_for_values_are_written_as_parsed() -> None:
    """Trees that no parser makes: negative numbers, f-strings with texts that need a backslash, in any place."""
    power = ast.BinOp(left=ast.Constant(value=-2), op=ast.Pow(), right=ast.Constant(value=2))
    assert evaluate(render(power, []).python, {}) == 4
    part = ast.FormattedValue(value=ast.Constant(value="a'\"\\\n${b"), conversion=114, format_spec=None)
    joined = ast.JoinedStr(values=[ast.Constant(value="$"), part, ast.Constant(value="")])
    made = render(joined, [])
    assert evaluate(made.python, {}) == "$" + repr("a'\"\\\n${b")
    assert "${" not in made.python
    assert answers_of_javascript([(made.javascript, {})]) == [["=", "$" + repr("a'\"\\\n${b")]]


def test_truth_is_asked_only_where_it_is_not_certain() -> None:
    """A comparison stays as it is, a value is put into bool()."""
    assert ast.unparse(truth(node_of("x > 1"))) == "x > 1"
    assert ast.unparse(truth(node_of("x > 1 and not y"))) == "x > 1 and (not y)"
    assert ast.unparse(truth(node_of("x and y > 1"))) == "bool(x and y > 1)"


def test_deep_expressions_are_refused_before_they_are_written() -> None:
    """A tree of any depth ends in a refusal, not in Python's own limit."""
    node: ast.expr = ast.Constant(value=1)
    for _ in range(100_000):
        node = ast.UnaryOp(op=ast.Not(), operand=node)
    with pytest.raises(ExpressionRefused, match="nested deeper than"):
        render(node, [])
    for text in ("not " * 50_000 + "1", "(" * 5_000 + ")" * 5_000, "x." + "a." * 200 + "b"):
        with pytest.raises(InvalidExpression):
            compile_expression(text)


@pytest.mark.parametrize("right", ["True", "None", "5", "1.5"])
@pytest.mark.parametrize("left", ["[1]", "{'a': 1}", "(1,)", "1", "'a'"])
def test_what_holds_nothing_is_refused_as_in_python(left: str, right: str) -> None:
    """The text of the error is Python's, whatever is looked for."""
    assert ours(f"{left} in {right}", {})[:2] == answer_of_python(f"{left} in {right}", {})[:2]


def test_an_expression_has_so_many_parts_at_most() -> None:
    """A wide one is refused like a deep one, with the remedy."""
    node = ast.List(elts=[ast.Constant(value=1)] * 4_000, ctx=ast.Load())
    with pytest.raises(ExpressionRefused, match=r"more than 4,000 parts.*assign a part of it to a name before"):
        render(node, [])
