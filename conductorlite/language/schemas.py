"""JSON Schema behind one function: needs the extra `schema`, and the only importer of jsonschema.

A schema comes with a definition, and what it checks comes from outside: neither may cost without bound. Keywords are counted and
nested only so deep, regular expressions are bounded as everywhere (`language.regexes`), and nothing is fetched: `$ref` stays
in its document. `format` is an annotation and is not checked. What is wrong is reported by path and rule, never by value: a value
may be masked.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final

import attrs

from conductorlite.language.regexes import BoundedPattern, bounded_pattern
from conductorlite.model.canonical import canonical
from conductorlite.model.definitions import SchemaDef
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, MissingExtra
from conductorlite.model.later import module
from conductorlite.model.scalars import step_path

__all__ = ["SchemaCheck", "compile_schema"]

#: Keywords that one check may look at, weighed by the size of what they look at.
_STEPS: Final = 500_000
#: What following a reference counts as: it takes as long.
_REFERENCE_STEPS: Final = 10
#: Keywords within keywords.
_DEPTH: Final = 100
#: Findings of one keyword that are kept, and those that are reported.
_KEPT: Final = 20
_SHOWN: Final = 3
#: Characters of a report.
_LENGTH: Final = 400

#: Keywords whose values are data, not schemas.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


#: Imported with the first schema that is compiled: it costs more than most programs' whole engine.
exceptions: Final = module("jsonschema.exceptions")


class _TooMuch(Exception):
    """A check has reached a bound; never leaves this module."""


@attrs.define(slots=True)
class _Spent:
    """Amount that one check has spent so far. It travels in a validator's `format_checker`, which goes down to every subschema."""

    steps: int = 0
    depth: int = 0


@attrs.frozen(kw_only=True, slots=True)
class SchemaCheck:
    """A compiled schema."""

    name: str
    _root: Any = attrs.field(repr=False, eq=False)

    def violation(self, value: Any) -> str | None:
        """Return what of a JSON value breaks the schema: paths and rules, shortened; None when nothing does."""
        try:
            found = list(islice(self._root.evolve(format_checker=_Spent()).iter_errors(value), _KEPT))
        except (_TooMuch, ExpressionFailed) as error:
            return f"it cannot be checked against schema {self.name!r}: {error}"[:_LENGTH]
        except Exception as error:
            # Unresolvable references, numbers past floating point: whatever the library stumbles over, the value is not valid.
            return f"it cannot be checked against schema {self.name!r}: {type(error).__name__}"
        if not found:
            return None
        texts = [_described(error) for error in sorted(found, key=lambda error: [str(step) for step in error.absolute_path])]
        more = f" (and {len(texts) - _SHOWN} more)" if len(texts) > _SHOWN else ""
        text = "; ".join(texts[:_SHOWN])
        return (text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…") + more


def compile_schema(schema: SchemaDef) -> SchemaCheck:
    """Compile a schema of type JSON; raises InvalidExpression with what is wrong with it, MissingExtra without the extra."""
    if importlib.util.find_spec("jsonschema") is None:
        raise MissingExtra("schema", "enforcing a schema")
    from referencing import Registry

    document = json.loads(canonical(dict(schema.data or {})))
    name = schema.name or str(document.get("title") or "schema")[:60]
    dialect = _dialects().get(str(document.get("$schema", _LATEST)).rstrip("#"))
    if dialect is None:
        raise InvalidExpression(f"$.$schema: {str(document['$schema'])[:80]!r} is not a dialect that is known")
    _look_through(document)
    try:
        dialect.check_schema(document)
    except exceptions.SchemaError as error:
        raise InvalidExpression(f"{_path(error.absolute_path)}: {error.message[:200]}") from None
    except RecursionError:
        raise InvalidExpression("$: the schema is nested too deeply") from None
    except (ValueError, ArithmeticError) as error:
        raise InvalidExpression(f"$: {str(error)[:200]}") from None
    # It would call the library's own class back, with its unbounded keywords.
    document.pop("$schema", None)
    return SchemaCheck(name=name, root=_bounded(dialect)(document, registry=Registry()))


_LATEST: Final = "https://json-schema.org/draft/2020-12/schema"


@cache
def _dialects() -> Mapping[str, Any]:
    # Here, because it costs more to import than most programs' whole engine.
    import jsonschema

    known = (
        jsonschema.Draft4Validator,
        jsonschema.Draft6Validator,
        jsonschema.Draft7Validator,
        jsonschema.Draft201909Validator,
        jsonschema.Draft202012Validator,
    )
    return {str(dialect.ID_OF(dialect.META_SCHEMA)).rstrip("#"): dialect for dialect in known}


@cache
def _bounded(dialect: Any) -> Any:
    """The dialect with each keyword counted, and with our own for those that could run away."""
    from jsonschema import validators

    ours: dict[str, Any] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "format": lambda *_: (),
    }
    keywords = {name: ours.get(name, function) for name, function in dialect.VALIDATORS.items()}
    return validators.extend(dialect, {name: _counted(name, function) for name, function in keywords.items()})


def _look_through(document: Any) -> None:
    """Refuse what would leave the document, or the bounds."""
    pending: list[tuple[Any, str]] = [(document, "$")]
    unevaluated = patterned = ""
    while pending:
        item, at = pending.pop()
        if isinstance(item, list):
            pending.extend((entry, step_path(at, index)) for index, entry in enumerate(item))
        if not isinstance(item, dict):
            continue
        for key, value in item.items():
            where = step_path(at, key)
            if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
                raise InvalidExpression(f"{where}: {value[:80]!r} leaves the document: only '#…' is followed")
            if key == "$schema" and at != "$" and isinstance(value, str):
                raise InvalidExpression(f"{where}: only the whole document may name a dialect")
            if key == "pattern" and isinstance(value, str):
                _regex(value, where)
            if key == "patternProperties" and isinstance(value, dict):
                patterned = where
                for pattern in value:
                    _regex(pattern, where)
            if key == "unevaluatedProperties":
                unevaluated = where
            if key not in _DATA:
                pending.append((value, where))
    if unevaluated and patterned:
        raise InvalidExpression(f"{unevaluated}: cannot be checked in bounded time beside patternProperties")


def _regex(text: str, where: str) -> BoundedPattern:
    try:
        return _searched(text)
    except InvalidExpression as error:
        raise InvalidExpression(f"{where}: {error}") from None


@lru_cache(maxsize=1024)
def _searched(text: str) -> BoundedPattern:
    # In JavaScript a `$` is the end of the text, never what is before a last line break; and its classes are ASCII.
    ends = re.sub(r"(\\.|\[(?:\\.|[^\]\\])*\])|\$", lambda found: found.group(1) or r"\Z", text, flags=re.DOTALL)
    return bounded_pattern(ends, re.ASCII)


# ---------------------------------------------------------------------- keywords

Keyword = Callable[[Any, Any, Any, Any], Any]


def _counted(name: str, keyword: Keyword) -> Keyword:
    def count(validator: Any, value: Any, instance: Any, schema: Any) -> list[Any]:
        spent: _Spent = validator.format_checker
        whole = name in _DATA
        spent.steps += (_REFERENCE_STEPS if name in _REFERENCES else 1) + _size(value, whole) + _size(instance, whole)
        if spent.steps > _STEPS:
            raise _TooMuch(f"that takes more than {_STEPS:,} steps")
        if spent.depth >= _DEPTH:
            raise _TooMuch(f"it goes deeper than {_DEPTH} keywords in one another")
        spent.depth += 1
        try:
            return list(islice(keyword(validator, value, instance, schema) or (), _KEPT))
        finally:
            spent.depth -= 1

    return count


def _size(value: Any, whole: bool) -> int:
    """Return how much there is to look at: the entries of a map or list, all the way down for what is compared as a whole."""
    if not isinstance(value, dict | list):
        return 0
    return len(json.dumps(value)) // 16 if whole else len(value)


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _searched(pattern).search(instance):
        yield exceptions.ValidationError("does not match")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for key, entry in instance.items():
                if _searched(pattern).search(key):
                    yield from validator.descend(entry, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [key for key in instance if key not in known and not any(_searched(p).search(key) for p in patterns)]
    if validator.is_type(allowed, "object"):
        for extra in extras:
            yield from validator.descend(instance[extra], allowed, path=extra)
    elif not allowed and extras:
        yield exceptions.ValidationError(f"{', '.join(map(repr, extras[:_SHOWN]))} not foreseen")


def _unique_items(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not unique or not validator.is_type(instance, "array"):
        return
    if len({json.dumps(_same(item), sort_keys=True) for item in instance}) < len(instance):
        yield exceptions.ValidationError("has an entry twice")


def _same(value: Any) -> Any:
    """A value in the form in which equal ones look alike: 1 and 1.0 are one number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _same(entry) for key, entry in value.items()}
    return [_same(entry) for entry in value] if isinstance(value, list) else value


# ---------------------------------------------------------------------- reporting


def _path(steps: Iterable[str | int]) -> str:
    path = "$"
    for step in steps:
        path = step_path(path, step)
    return path


def _described(error: Any) -> str:
    path, rule, wanted = _path(error.absolute_path)[:200], error.validator, error.validator_value
    if rule == "required" and isinstance(wanted, list) and isinstance(error.instance, dict):
        return f"{path}: required: {', '.join(repr(name) for name in wanted if name not in error.instance)} missing"
    if rule == "additionalProperties" and wanted is False:
        return f"{path}: {rule}: {error.message}"
    simple = not any(isinstance(one, dict | list) for one in (wanted if isinstance(wanted, list) else [wanted]))
    shown = json.dumps(wanted, ensure_ascii=False) if simple else ""
    return f"{path}: breaks {rule}" + (f" {shown if len(shown) <= 80 else shown[:79] + '…'}" if shown else "")
