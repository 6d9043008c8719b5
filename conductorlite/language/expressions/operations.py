"""Python's operators, functions and methods on JSON values, each bounded before it is carried out.

Everything here is carried out by Python itself, so that answers and errors are Python's. What is added is the counting: before a
text, a list or a whole number is made that may be much larger than what it is made of, the budget is asked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from conductorlite.language.expressions.budget import CONTAINERS, Budget
from conductorlite.model.later import pattern

__all__ = [
    "BINARY",
    "COMPARISONS",
    "FUNCTIONS_CARRIED_OUT",
    "Raised",
    "contains",
    "formatted",
    "item_of",
    "merged",
    "method_of",
    "starred",
    "text_of",
    "unpacked",
]

Operation = Callable[[Budget, Any, Any], Any]

_NUMBERS: Final = frozenset({int, float, bool})
_DIGITS: Final = pattern(r"\d+")
#: Whole numbers up to here are multiplied without being counted, in bits.
_SMALL: Final = 512
#: More digits than any width or precision that is meant has.
_MOST_DIGITS: Final = 9


class Raised(Exception):
    """Exception that `fail` raises: the types of an exception by name, its text, and the classes above the first type; internal."""

    def __init__(self, types: tuple[str, ...], text: str, bases: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.types, self.text, self.bases = types, text, bases


def _add(budget: Budget, left: Any, right: Any) -> Any:
    if type(left) in _NUMBERS:
        return left + right
    if type(left) is str and type(right) is str:
        budget.take(len(left) + len(right))
    elif (type(left) is list or type(left) is tuple) and type(left) is type(right):
        budget.entries(len(left) + len(right))
    return left + right


def _subtract(budget: Budget, left: Any, right: Any) -> Any:
    return left - right


def _multiply(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() + right.bit_length()
        if bits > _SMALL:
            budget.number(bits)
    elif isinstance(right, int):
        _repeat(budget, left, right)
    elif isinstance(left, int):
        _repeat(budget, right, left)
    return left * right


def _repeat(budget: Budget, value: Any, count: int) -> None:
    if type(value) is str:
        budget.take(len(value) * max(0, count))
    elif type(value) is list or type(value) is tuple:
        budget.entries(len(value) * max(0, count))


def _divide(budget: Budget, left: Any, right: Any) -> Any:
    return left / right


def _floor_divide(budget: Budget, left: Any, right: Any) -> Any:
    return left // right


def _remainder(budget: Budget, left: Any, right: Any) -> Any:
    if type(left) is str and "%" in left:
        budget.take(_widths(left) + left.count("%") * budget.weigh(right))
        if type(right) is tuple and "*" in left:
            budget.take(sum(abs(item) for item in right if isinstance(item, int)))
    return left % right


def _widths(spec: str) -> int:
    """The sum of the numbers in a format: at least as long as what it makes of a short value."""
    return sum(int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS for digits in _DIGITS.findall(spec))


def _power(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and right > 1 and not -2 < left < 2:
        budget.number(left.bit_length() * right)
    return left**right


#: By the name of the node of the operator.
BINARY: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "Add": _add,
        "Sub": _subtract,
        "Mult": _multiply,
        "Div": _divide,
        "FloorDiv": _floor_divide,
        "Mod": _remainder,
        "Pow": _power,
    }
)


def _comparison(compare: Callable[[Any, Any], Any]) -> Operation:
    def compared(budget: Budget, left: Any, right: Any) -> Any:
        if type(left) in CONTAINERS and type(right) in CONTAINERS:
            budget.weigh(left)
            budget.weigh(right)
        return compare(left, right)

    return compared


def contains(budget: Budget, left: Any, right: Any) -> bool:
    """Return True if `left in right` holds."""
    if type(left) in CONTAINERS:
        budget.weigh(left)
        if hasattr(right, "__iter__"):  # else Python refuses it in its own words
            right = budget.compared(right)
    elif type(right) is range:
        if type(left) not in (int, bool):
            budget.spend(len(right))
    elif type(right) is not str and type(right) is not dict:
        right = budget.all_of(right)
    return left in right


def _excludes(budget: Budget, left: Any, right: Any) -> bool:
    return not contains(budget, left, right)


COMPARISONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "Eq": _comparison(operator.eq),
        "NotEq": _comparison(operator.ne),
        "Lt": _comparison(operator.lt),
        "LtE": _comparison(operator.le),
        "Gt": _comparison(operator.gt),
        "GtE": _comparison(operator.ge),
        "In": contains,
        "NotIn": _excludes,
        "Is": lambda budget, left, right: left is right,
        "IsNot": lambda budget, left, right: left is not right,
    }
)


def item_of(budget: Budget, value: Any, index: Any) -> Any:
    """`value[index]`, where the index may be a slice."""
    if type(index) is tuple:
        budget.weigh(index)
    found = value[index]
    if type(index) is slice:
        _made(budget, found)
    return found


def _made(budget: Budget, value: Any) -> Any:
    """Count a text or list that was made, at most some times as large as what it was made of."""
    if type(value) is str:
        budget.take(len(value))
    elif type(value) in CONTAINERS:
        budget.entries(len(value))
    return value


def starred(budget: Budget, value: Any) -> Any:
    """The items of `*value` in a display."""
    if not hasattr(type(value), "__iter__"):
        raise TypeError(f"Value after * must be an iterable, not {type(value).__name__}")
    items = list(budget.one_by_one(value)) if type(value) is range else list(budget.all_of(value))
    _made(budget, items)
    return items


def merged(budget: Budget, into: dict[Any, Any], value: Any) -> None:
    """Put the entries of `**value` into a dict."""
    if type(value) is not dict:
        raise TypeError(f"'{type(value).__name__}' object is not a mapping")
    budget.entries(len(value))
    into.update(value)


def text_of(budget: Budget, value: Any, write: Callable[[Any], str] = str) -> str:
    """A value as text, by str, repr or ascii."""
    if type(value) is str and write is str:
        return value
    if type(value) in CONTAINERS:
        budget.take(budget.weigh(value))
    text = write(value)
    budget.take(len(text))
    return text


def formatted(budget: Budget, value: Any, spec: Any = "") -> str:
    """`format(value, spec)`, as f-strings have it."""
    if spec == "" and type(spec) is str:
        return text_of(budget, value)
    if type(spec) is str:
        if spec.endswith("n") and type(value) in _NUMBERS:
            raise ValueError("the format n depends on the locale of the machine; write d, f or ,")
        budget.take(_widths(spec))
    text = format(value, spec)
    budget.take(len(text))
    return text


def unpacked(budget: Budget, value: Any, before: int, after: int | None = None) -> list[Any]:
    """The values of `a, b = value`; with `after`, those of `a, *b, c = value`."""
    if not hasattr(type(value), "__iter__"):
        raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object")
    if after is not None:
        items = list(budget.one_by_one(value))
        if len(items) < before + after:
            raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
        end = len(items) - after
        return [*items[:before], items[before:end], *items[end:]]
    rest = budget.one_by_one(value)
    items = list(islice(rest, before))
    if len(items) < before:
        raise ValueError(f"not enough values to unpack (expected {before}, got {len(items)})")
    for _ in rest:
        got = f", got {len(value)}" if _says_how_many() and type(value) in (list, tuple, dict) else ""
        raise ValueError(f"too many values to unpack (expected {before}{got})")
    return items


@cache
def _says_how_many() -> bool:
    """Return True if this Python names the number of values where there are too many, as it does since 3.14."""
    try:
        (_,) = list(range(2))
    except ValueError as error:
        return "got" in str(error)
    return False


# Functions -----------------------------------------------------------------------------------------------------------------------


def _int(budget: Budget, value: Any = 0, *base: Any) -> int:
    if type(value) is str and base:
        budget.number(len(value) * 6)
    return int(value, *base)


def _round(budget: Budget, value: Any, *digits: Any) -> Any:
    if isinstance(value, int) and digits and type(digits[0]) is int and digits[0] < -value.bit_length() - 2:
        return 0  # which Python works out by a power of ten, however large
    return round(value, *digits)


def _sum(budget: Budget, items: Any, start: Any = 0) -> Any:
    if type(start) not in (list, tuple):
        return sum(budget.all_of(items), start)
    for item in budget.one_by_one(items):
        start = _add(budget, start, item)
    return start


def _sorted(budget: Budget, items: Any, **options: Any) -> list[Any]:
    found = sorted(budget.compared(items), **_options(budget, options))
    _made(budget, found)
    return found


def _min(budget: Budget, *given: Any, **options: Any) -> Any:
    return _extreme(min, budget, given, options)


def _max(budget: Budget, *given: Any, **options: Any) -> Any:
    return _extreme(max, budget, given, options)


def _extreme(choose: Callable[..., Any], budget: Budget, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if len(given) == 1:
        return choose(budget.compared(given[0]), **_options(budget, options))
    budget.weigh(given)
    return choose(*given, **_options(budget, options))


def _options(budget: Budget, options: dict[str, Any]) -> dict[str, Any]:
    key = options.get("key")
    if key is None:
        return options

    def counted(item: Any) -> Any:
        budget.spend(1)
        found = key(item)
        if type(found) in CONTAINERS:
            budget.weigh(found)
        return found

    return {**options, "key": counted}


def _list(budget: Budget, *items: Any) -> list[Any]:
    return list(_counted(budget, items[0])) if items else []


def _tuple(budget: Budget, *items: Any) -> tuple[Any, ...]:
    return tuple(_counted(budget, items[0])) if items else ()


def _set(budget: Budget, *items: Any) -> set[Any]:
    return set(_counted(budget, items[0])) if items else set()


def _counted(budget: Budget, value: Any) -> Any:
    """Count the entries of what is about to be copied into a new list, and return it."""
    if type(value) is str or type(value) is range or type(value) in CONTAINERS:
        budget.entries(len(value))
    return value


def _dict(budget: Budget, *given: Any, **entries: Any) -> dict[Any, Any]:
    if given:
        _counted(budget, given[0])
    return dict(*given, **entries)


def _enumerate(budget: Budget, items: Any, start: Any = 0) -> Iterator[Any]:
    return enumerate(_lazily(budget, items), start)


def _zip(budget: Budget, *given: Any, **options: Any) -> Iterator[Any]:
    return zip(*[_lazily(budget, items) for items in given], strict=options.get("strict", False))


def _lazily(budget: Budget, value: Any) -> Any:
    return budget.one_by_one(value) if hasattr(type(value), "__iter__") else value


def _reversed(budget: Budget, value: Any) -> Iterator[Any]:
    return budget.one_by_one(reversed(value))


def _fail(budget: Budget, types: list[str], message: Any, bases: Sequence[str] = ()) -> Any:
    raise Raised(tuple(types), text_of(budget, message), tuple(bases))


def _reraise(budget: Budget, error: Any, reason: Any) -> Any:
    """Raise what a task has raised, as `${task.error}` has it; where there is nothing of the kind, its reason."""
    if not isinstance(error, dict) or not {"types", "classes", "text"} <= error.keys():
        raise Raised(("Exception",), text_of(budget, reason))
    bases = [one for one in error["classes"][1:] if one not in ("Exception", "BaseException")]
    raise Raised(tuple(error["types"]), text_of(budget, error["text"]), tuple(bases))


#: Methods of `changed` by the type that has them.
_CHANGES: Final[Mapping[type, frozenset[str]]] = {
    list: frozenset({"append", "clear", "extend", "insert", "pop", "remove", "reverse"}),
    dict: frozenset({"clear", "pop", "popitem", "setdefault", "update"}),
}


def _changed(budget: Budget, value: Any, method: str, *given: Any) -> list[Any]:
    """Return what a method, or `x[k] = v`, `del x[k]`, `x += v`, gives, and the list or dict afterwards: a copy is changed."""
    kind = type(value)
    if method == "+=":
        return [None, _add(budget, value, _list(budget, given[0]) if kind is list else given[0])]
    if method in ("[]=", "del"):
        if kind is not list and kind is not dict:
            said = "does not support item assignment" if method == "[]=" else "doesn't support item deletion"
            raise TypeError(f"'{kind.__name__}' object {said}")
    elif method not in _CHANGES.get(kind, ()):
        raise AttributeError(f"'{kind.__name__}' object has no attribute '{method}'")
    budget.entries(len(value))
    made = value.copy()
    if method == "[]=":
        made[given[0]] = given[1]
        return [None, made]
    if method == "del":
        del made[given[0]]
        return [None, made]
    if method == "remove":
        budget.compared(value)
    result = getattr(made, method)(*[budget.all_of(one) if method in ("extend", "update") else one for one in given])
    budget.entries(len(made) - len(value))
    return [result, made]


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda budget, *given, **options: function(*given, **options)


#: The functions of the grammar by name, each given the budget first.
FUNCTIONS_CARRIED_OUT: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "abs": _plain(abs),
        "all": lambda budget, items: all(budget.all_of(items)),
        "any": lambda budget, items: any(budget.all_of(items)),
        "ascii": lambda budget, value: text_of(budget, value, ascii),
        "bool": _plain(bool),
        "changed": _changed,
        "dict": _dict,
        "enumerate": _enumerate,
        "fail": _fail,
        "float": _plain(float),
        "format": formatted,
        "int": _int,
        "len": _plain(len),
        "list": _list,
        "max": _max,
        "min": _min,
        "range": _plain(range),
        "reraise": _reraise,
        "repr": lambda budget, value: text_of(budget, value, repr),
        "reversed": _reversed,
        "round": _round,
        "set": _set,
        "sorted": _sorted,
        "str": lambda budget, *given: text_of(budget, *given) if given else "",
        "sum": _sum,
        "tuple": _tuple,
        "unpack": unpacked,
        "zip": _zip,
    }
)


# Methods -------------------------------------------------------------------------------------------------------------------------


def _padded(name: str) -> Callable[..., str]:
    method = getattr(str, name)

    def padded(budget: Budget, value: str, *given: Any) -> str:
        if given and isinstance(given[0], int):
            budget.take(max(0, given[0]))
        text: str = method(value, *given)
        budget.take(len(text))
        return text

    return padded


def _replace(budget: Budget, value: str, *given: Any) -> str:
    old, new = given[:2]
    if type(old) is str and type(new) is str:
        budget.take(len(value) + len(new) * (value.count(old) if old else len(value) + 1))
    return value.replace(*given)


def _join(budget: Budget, value: str, items: Any) -> str:
    held = items if type(items) is list or type(items) is tuple else list(budget.one_by_one(items)) if _iterable(items) else items
    if type(held) is list or type(held) is tuple:
        budget.entries(len(held))
        budget.take(len(value) * len(held) + sum([len(item) for item in held if type(item) is str]))
    return value.join(held)


def _iterable(value: Any) -> bool:
    return hasattr(type(value), "__iter__")


def _usual(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose answer is at most some times as large as its value."""
    return lambda budget, value, *given, **options: _made(budget, method(value, *given, **options))


def _searching(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that compares its argument with each item."""

    def searching(budget: Budget, value: Any, *given: Any) -> Any:
        if type(given[0]) in CONTAINERS:
            budget.weigh(given[0])
            budget.compared(value)
        elif type(value) is not range or type(given[0]) not in (int, bool):
            budget.spend(len(value))
        return method(value, *given)

    return searching


def _get(budget: Budget, value: dict[Any, Any], *given: Any) -> Any:
    if type(given[0]) is tuple:
        budget.weigh(given[0])
    return value.get(*given)


_OF_STR: Final = (
    "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
    "islower", "isnumeric", "isspace", "isupper", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rfind",
    "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper",
)  # fmt: skip

#: By type, the methods that its values have.
_METHODS: Final[Mapping[type, Mapping[str, Callable[..., Any]]]] = MappingProxyType(
    {
        str: {
            **{name: _usual(getattr(str, name)) for name in _OF_STR},
            **{name: _padded(name) for name in ("center", "ljust", "rjust", "zfill")},
            "replace": _replace,
            "join": _join,
        },
        list: {"copy": _usual(list.copy), "count": _searching(list.count), "index": _searching(list.index)},
        tuple: {"count": _searching(tuple.count), "index": _searching(tuple.index)},
        range: {"count": _searching(range.count), "index": _searching(range.index)},
        dict: {
            "copy": _usual(dict.copy),
            "get": _get,
            **{name: _plain(getattr(dict, name)) for name in ("items", "keys", "values")},
        },
    }
)


def method_of(value: Any, name: str) -> Callable[..., Any]:
    """The method of that name, which is called with the budget, the value and the arguments; raises AttributeError."""
    found = _METHODS.get(type(value), _NO_METHODS).get(name)
    if found is None:
        raise AttributeError(f"'{type(value).__name__}' object has no attribute '{name}'")
    return found


_NO_METHODS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType({})
