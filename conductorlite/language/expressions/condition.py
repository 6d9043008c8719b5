"""An expression that is stored in a task, read back and compiled; whether its JavaScript is the one that belongs to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import attrs

from conductorlite.language.expressions.expression import CompiledExpression, compile_expression, javascript_of
from conductorlite.language.expressions.fields import GENERATOR
from conductorlite.language.expressions.keys import input_key
from conductorlite.language.values import SAFE_LIMIT, AtOnce, Json
from conductorlite.model.definitions import PYTHON_KEY
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.scalars import shown

__all__ = ["StoredExpression", "compile_stored", "not_portable", "refuse_mismatch"]

#: Conditions that are kept, as many as expressions are.
_KEPT: Final = 2_048


@attrs.frozen(kw_only=True)
class StoredExpression:
    """A Condition whose names are keys of inputParameters, see `input_key`."""

    text: str
    names: frozenset[str]
    #: What its answer is, where that is certain.
    kind: str | None
    at_once: AtOnce = attrs.field(eq=False, repr=False)
    #: Whether it goes through lists, which may be long.
    foreign: bool
    everything: bool = False

    def keys_of(self, name: str) -> frozenset[str] | None:
        """See `Condition.keys_of`."""
        return None if name in self.names else frozenset()

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        """See `CompiledExpression.evaluate`; it knows of no time and no chance."""
        return self.at_once(values)


def compile_stored(entry: Json) -> StoredExpression:
    """The condition of what stands under `@python`.

    Raises InvalidExpression when it is not what `fields` writes, when its generator is not known, or when its text cannot be
    compiled.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str) or entry.keys() - {"text", "generator"}:
        raise InvalidExpression(f'{PYTHON_KEY} must be {{"text": …, "generator": …}}')
    generator = entry.get("generator")
    if type(generator) is not int or not 1 <= generator <= GENERATOR:
        raise InvalidExpression(
            f"{PYTHON_KEY} was written by the generator {generator!r}, and this version of conductorlite knows 1 to {GENERATOR}: "
            "update conductorlite, or compile the flow again with this version"
        )
    if "${" in entry["text"]:
        raise InvalidExpression(f"the text under {PYTHON_KEY} holds ${{, which Conductor would replace: write \\x24{{ in a text")
    return _stored(entry["text"])


@lru_cache(maxsize=_KEPT)
def _stored(text: str) -> StoredExpression:
    compiled = compile_expression(text)
    keys = {name: input_key(name) for name in compiled.names}
    same = all(name == key for name, key in keys.items())
    return StoredExpression(
        text=text,
        names=frozenset(keys.values()),
        kind=compiled.kind,
        foreign=compiled.repeats,
        at_once=compiled.evaluate if same else _by_keys(compiled, keys),
    )


def _by_keys(compiled: CompiledExpression, keys: Mapping[str, str]) -> AtOnce:
    return lambda values: compiled.evaluate({name: values[key] for name, key in keys.items() if key in values})


def not_portable(condition: StoredExpression) -> Iterator[str]:
    """Yield what of an expression a Conductor server answers otherwise, as far as the text shows."""
    for node in ast.walk(compile_expression(condition.text).tree):
        match node:
            case ast.Constant(value=int(number)) if abs(number) > SAFE_LIMIT:
                yield f"holds {shown(number)}, a whole number beyond 2^53, which fails on a Conductor server"
            case ast.Constant(value=float(number)) if number.is_integer():
                yield f"holds {number!r}, which is the whole number {number:.0f} on a Conductor server"
            case ast.Call(func=ast.Name(id="float")):
                yield "calls float(), and a Conductor server has no float that is integral: float(2) is 2 there"


def refuse_mismatch(condition: StoredExpression, javascript: str) -> None:
    """Compare the JavaScript beside a stored expression with what is made of it; raises InvalidExpression when they differ."""
    if javascript_of(compile_expression(condition.text)) != javascript:
        raise InvalidExpression(
            f"the JavaScript is not what is made of the Python {condition.text[:200]!r}, so a Conductor server and this engine "
            f"would answer differently: change the flow and compile it again, or remove {PYTHON_KEY} to keep the JavaScript"
        )
