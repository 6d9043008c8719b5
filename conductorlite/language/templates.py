"""The `${…}` language: JSON with expressions in its strings, compiled once, rendered on a Source.

A string that is one expression renders to the value it names, typed and by reference; in any other string each expression becomes
text. Nothing is scanned twice: text that comes out of the data is data. Source of the rule: Conductor's ParametersUtils, without
its reach into the process environment and system properties, which resolve only if the Source hands them out.

`expanded` reads texts that are JSON objects or lists as what they are, for messages that carry JSON in texts. Source of the rule:
Conductor's JsonUtils.expand, which forgets texts that are entries of a list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, TypeAlias

import attrs

from conductorlite.language.jsonpath import NOTHING, Path, Reads, compile_path, reads_of_path, reads_of_prefix
from conductorlite.language.paths import MAX_PATH
from conductorlite.language.secrets import SECRETS, SecretSite
from conductorlite.language.values import MISSING, Json, Source, json_text, to_text
from conductorlite.model.canonical import parse
from conductorlite.model.errors import InvalidExpression, InvalidInput
from conductorlite.model.later import pattern
from conductorlite.model.scalars import MAX_DEPTH, MAX_SIZE

__all__ = [
    "SYSTEM_PARAMETERS",
    "Compiled",
    "InputTemplate",
    "Template",
    "apply_workflow_input_template",
    "compile_input",
    "compile_template",
    "compiled_text",
    "expanded",
]

#: Names that stay as they are written when the Source has no value for them.
SYSTEM_PARAMETERS: Final = frozenset(("CPEWF_TASK_ID", "NETFLIX_ENV", "NETFLIX_STACK"))

#: Deepest nesting of one `${…}` in another.
MAX_EXPRESSION_NESTING: Final = 16
#: Longest string whose compiled form is kept for the next template that holds it, and most of them in an input that is.
_CACHED_LENGTH: Final = 1000
_CACHED_ENTRIES: Final = 8

_ENV: Final = "workflow.env."
_BRACE: Final = pattern(r"[{}]")
#: One expression that names a place by plain names.
_LONE: Final = pattern(r"\$\{[\w.-]{1,1000}\}")

#: Types of values that hold nothing.
_PLAIN: Final = frozenset({int, float, bool, type(None)})

_Render: TypeAlias = Callable[[Source], Json]


@attrs.frozen(kw_only=True, repr=False)
class Template:
    """A compiled template; `problems` are (JSON path in the template, message) of expressions that always give null.

    `secrets` are the places that name secrets; `buried` those where one is inside another expression, or has no name of its own.
    """

    reads: Reads
    problems: tuple[tuple[str, str], ...]
    _render: _Render = attrs.field(repr=False, eq=False)
    secrets: tuple[SecretSite, ...] = ()
    buried: tuple[str, ...] = ()

    def render(self, source: Source) -> Json:
        """The value: maps and lists of the template are fresh, values that an expression names are the Source's own."""
        return self._render(source)


@attrs.frozen(kw_only=True, repr=False)
class InputTemplate(Template):
    """A task's inputParameters with its TaskDef's inputTemplate merged in; `secrets` are those of the fallbacks too."""

    fallbacks: tuple[tuple[str, _Render], ...] = attrs.field(repr=False, eq=False)

    def render(self, source: Source) -> dict[str, Json]:
        """The input; a top-level key that comes out null has the inputTemplate's value, as written, expressions too."""
        rendered: dict[str, Json] = self._render(source)
        for key, fallback in self.fallbacks:
            if rendered[key] is None:
                rendered[key] = fallback(source)
        return rendered


def compile_template(template: Json) -> Template:
    """Compile any JSON value; keys of maps are never substituted.

    Raises InvalidExpression when values are nested deeper than `canonical.MAX_DEPTH`, or expressions deeper than 16.
    """
    return Template(**_compiled(template))


def _compiled(template: Json) -> dict[str, Any]:
    compiler = _Compiler()
    render = compiler.value(template, "$", ())
    secrets, buried = tuple(compiler.secrets), tuple(compiler.buried)
    reads, problems = NOTHING.union(*compiler.reads), tuple(compiler.problems)
    return {"reads": reads, "problems": problems, "render": render, "secrets": secrets, "buried": buried}


def compiled_text(text: str) -> Compiled:
    """Compile one text, with what it reads and what is wrong with it; raises as `compile_template` does."""
    return _cached_string(text) if len(text) <= _CACHED_LENGTH else _compile_string(text)


def compile_input(parameters: Mapping[str, Json], input_template: Mapping[str, Json] | None = None) -> InputTemplate:
    """Merge and compile: keys that `parameters` lacks, or has as null, are added before rendering."""
    if not input_template:
        if len(parameters) <= _CACHED_ENTRIES and all(
            type(one) is str and len(one) <= _CACHED_LENGTH for one in parameters.values()
        ):
            return _input_of_texts(tuple(parameters.items()))
        return InputTemplate(fallbacks=(), **_compiled(dict(parameters)))
    merged = dict(parameters)
    for key, value in input_template.items():
        if merged.get(key) is None:
            merged[key] = value
    fallbacks = tuple((key, _verbatim(value, 0)) for key, value in input_template.items() if value is not None)
    fields = _compiled(merged)
    spare = compile_template({key: input_template[key] for key, _ in fallbacks}).secrets if fallbacks else ()
    fields["secrets"] = tuple(dict.fromkeys((*fields["secrets"], *spare)))
    return InputTemplate(fallbacks=fallbacks, **fields)


@lru_cache(maxsize=4096)
def _input_of_texts(entries: tuple[tuple[str, str], ...]) -> InputTemplate:
    """The input of tasks that have the same few texts, as the branches of a wide fork."""
    return InputTemplate(fallbacks=(), **_compiled(dict(entries)))


def apply_workflow_input_template(given: Mapping[str, Json], template: Mapping[str, Json]) -> dict[str, Json]:
    """A workflow's input with the definition's inputTemplate filled in where a key is absent or null, unresolved.

    Conductor skips this for an empty input; here the template counts then too.
    """
    merged = dict(given)
    for key, value in template.items():
        if merged.get(key) is None:
            merged[key] = value
    return merged


class _Compiler:
    """Walks one template, gathering reads and problems."""

    def __init__(self) -> None:
        self.reads: list[Reads] = []
        self.problems: list[tuple[str, str]] = []
        self.secrets: list[SecretSite] = []
        self.buried: list[str] = []

    def value(self, value: Json, where: str, steps: tuple[str | int, ...]) -> _Render:
        if isinstance(value, str):
            return self.text(value, where, steps)
        if type(value) in _PLAIN or not isinstance(value, Mapping | list | tuple):
            return _constant(value)
        if len(steps) >= MAX_DEPTH:
            raise InvalidExpression(f"{where[:200]}: a template nested deeper than {MAX_DEPTH} levels")
        if all(map(_is_constant, value.values() if isinstance(value, Mapping) else value)):
            return _copied(dict(value) if isinstance(value, Mapping) else list(value))
        if isinstance(value, Mapping):
            return _render_map([(key, self._entry(item, where, key, steps)) for key, item in value.items()])
        return _render_list([self.value(item, f"{where}[{index}]", (*steps, index)) for index, item in enumerate(value)])

    def _entry(self, value: Json, where: str, key: str, steps: tuple[str | int, ...]) -> _Render:
        return _constant(value) if _is_constant(value) else self.value(value, f"{where}.{key}", (*steps, key))

    def text(self, text: str, where: str, steps: tuple[str | int, ...]) -> _Render:
        if "${" not in text:
            return _constant(text)
        compiled = compiled_text(text)
        self.reads.append(compiled.reads)
        if compiled.problems:
            self.problems += [(where, problem) for problem in compiled.problems]
        if compiled.secrets:
            self.secrets.append(SecretSite(steps=steps, names=compiled.secrets))
        if compiled.buried:
            self.buried.append(where)
        return compiled.render


# What a function renders is the default of a parameter: of a variable around it there would be a cell, which the garbage collector
# looks at again and again where a definition has thousands of tasks.


def _constant(value: Json) -> _Render:
    return lambda source, value=value: value  # type: ignore[misc]


def _is_constant(value: Json) -> bool:
    return type(value) in _PLAIN or (type(value) is str and "${" not in value)


def _copied(constant: dict[str, Json] | list[Json]) -> _Render:
    """A map or list without anything to render in it, and nothing in it that could be changed."""
    return lambda source: constant.copy()


def _render_map(pairs: list[tuple[str, _Render]]) -> _Render:
    if len(pairs) == 1:
        ((only, value),) = pairs
        return lambda source, only=only, value=value: {only: value(source)}  # type: ignore[misc]
    return lambda source: {key: render(source) for key, render in pairs}


def _render_list(items: list[_Render]) -> _Render:
    return lambda source: [render(source) for render in items]


def _verbatim(value: Json, depth: int) -> _Render:
    if depth >= MAX_DEPTH:
        raise InvalidExpression(f"an inputTemplate nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _render_map([(key, _verbatim(item, depth + 1)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return _render_list([_verbatim(item, depth + 1) for item in value])
    return _constant(value)


@attrs.frozen(kw_only=True, repr=False)
class Compiled:
    """One string or one expression in it; `as_json` says that its value prints as JSON instead of Java's way.

    `secrets` are what is written behind `workflow.secrets.`; `buried` says that one is where it can never be filled in.
    """

    render: _Render
    reads: Reads = NOTHING
    problems: tuple[str, ...] = ()
    as_json: bool = False
    secrets: tuple[str, ...] = ()
    buried: bool = False

    def text(self, source: Source) -> str:
        """Its value where it is a part of a text."""
        value = self.render(source)
        if type(value) is str:
            return value
        return json_text(value) if self.as_json and isinstance(value, list) else to_text(value)


def _compile_string(text: str) -> Compiled:
    if _LONE.fullmatch(text) is not None:  # as most are
        return _static(text[2:-1])
    parts = _split(text, 0)
    if len(parts) == 1 and isinstance(parts[0], Compiled):
        return parts[0]
    inner = [part for part in parts if isinstance(part, Compiled)]
    reads = NOTHING.union(*(part.reads for part in inner))
    problems = tuple(problem for part in inner for problem in part.problems)
    secrets = tuple(dict.fromkeys(name for part in inner for name in part.secrets))
    if not inner:
        return Compiled(render=_constant(text.replace("$${", "${")))

    def render(source: Source) -> str:
        # The escape is undone last, so it also hits text that a value brought in: Conductor's users rely on either.
        return _join(parts, source).replace("$${", "${")

    return Compiled(render=render, reads=reads, problems=problems, secrets=secrets, buried=any(part.buried for part in inner))


_cached_string = lru_cache(maxsize=16384)(_compile_string)


def _join(parts: list[str | Compiled], source: Source) -> str:
    texts, size = [], 0
    said: dict[int, str] = {}  # the same expression several times is one piece of work
    for part in parts:
        if isinstance(part, str):
            text = part
        elif id(part) in said:
            text = said[id(part)]
        else:
            text = said[id(part)] = part.text(source)
        size += len(text)
        if size > MAX_SIZE:
            raise InvalidInput(f"a text made of expressions is larger than {MAX_SIZE // 1024 // 1024} MB")
        texts.append(text)
    return "".join(texts)


def _split(text: str, depth: int) -> list[str | Compiled]:
    """Literal text and expressions, in order; from an unclosed `${` on, all is literal."""
    if depth > MAX_EXPRESSION_NESTING:
        raise InvalidExpression(f"expressions nested deeper than {MAX_EXPRESSION_NESTING}: {text[:60]!r}")
    parts: list[str | Compiled] = []
    position = search = 0
    while (start := text.find("${", search)) >= 0:
        if start and text[start - 1] == "$":
            search = start + 2
            continue
        end = _closing(text, start + 1)
        if end < 0:
            break
        if start > position:
            parts.append(text[position:start])
        parts.append(_expression(text[start + 2 : end], depth))
        position = search = end + 1
    if position < len(text):
        parts.append(text[position:])
    return parts


def _closing(text: str, opening: int) -> int:
    depth = 0
    for brace in _BRACE.finditer(text, opening):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return -1


def _expression(inside: str, depth: int) -> Compiled:
    parts = _split(inside, depth + 1)
    if all(isinstance(part, str) for part in parts):
        return _static(inside) if len(inside) <= MAX_PATH else _long(inside)
    first = parts[0]
    nested = [part for part in parts if isinstance(part, Compiled)]
    prefix = reads_of_prefix(first) if isinstance(first, str) else Reads(dynamic=True)

    def found(source: Source) -> Compiled:
        path = _join(parts, source)
        return _static(path) if len(path) <= MAX_PATH else _long(path)

    return _Dynamic(
        render=lambda source: found(source).render(source),
        found=found,
        reads=prefix.union(*(part.reads for part in nested)),
        problems=tuple(problem for part in nested for problem in part.problems),
        buried=any(part.secrets or part.buried for part in nested) or (isinstance(first, str) and first.startswith(SECRETS)),
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Dynamic(Compiled):
    """An expression whose path is put together while rendering."""

    found: Callable[[Source], Compiled]

    def text(self, source: Source) -> str:
        return self.found(source).text(source)


def _long(inside: str) -> Compiled:
    if not inside.strip():
        return Compiled(render=_constant(""))
    if inside.startswith(SECRETS):
        return Compiled(render=_constant(f"${{{inside}}}"), buried=True)
    return Compiled(render=_constant(None), problems=(f"path longer than {MAX_PATH} characters: {inside[:40]}…",))


@lru_cache(maxsize=4096)
def _static(inside: str) -> Compiled:
    """One expression whose text is known."""
    if not inside.strip():
        return Compiled(render=_constant(""))
    if inside.startswith(SECRETS):
        return Compiled(render=_constant(f"${{{inside}}}"), secrets=(inside[len(SECRETS) :],))
    if inside.startswith(_ENV):
        return Compiled(render=_render_env(inside))
    if inside in SYSTEM_PARAMETERS:
        return Compiled(render=_render_variable(inside, f"${{{inside}}}"))
    try:
        path = compile_path(inside)
    except InvalidExpression as error:
        return Compiled(render=_render_variable(inside, None), problems=(str(error),))
    render = _render_plain(inside, path) if not path.steps else _render_path(inside, path)
    return Compiled(render=render, reads=reads_of_path(path), as_json=path.answers_list)


def _render_variable(name: str, otherwise: str | None) -> _Render:
    def render(source: Source) -> str | None:
        value = source.variable(name)
        return otherwise if value is None else value

    return render


def _render_env(inside: str) -> _Render:
    name, _, path = inside[len(_ENV) :].partition(".")

    def render(source: Source) -> Json:
        if not source.has_env:
            return source.variable(inside)
        text = source.env(name)
        if text is None or not path:
            return text
        try:
            document = json.loads(text)
            return compile_path(path).evaluate(document, 0, lambda: document)
        except (InvalidExpression, ValueError, RecursionError):
            return None

    return render


def _render_plain(inside: str, path: Path) -> _Render:
    if len(path.plain) < 2:
        return _render_path(inside, path)
    root, member, *steps = path.plain
    if not isinstance(root, str) or not isinstance(member, str):
        return _render_path(inside, path)

    # The most frequent expression by far, so it is written out: no calls but the two into the Source.
    def render(
        source: Source, inside: str = inside, root: str = root, member: str = member, rest: tuple[str | int, ...] = tuple(steps)
    ) -> Json:
        value: Json = source.variable(inside)
        if value is not None:
            return value
        value = source.member(root, member)
        if value is MISSING:
            return None
        for step in rest:
            if isinstance(step, str):
                if type(value) is not dict and not isinstance(value, dict):
                    return None
                value = value.get(step)
            elif isinstance(value, list) and -len(value) <= step < len(value):
                value = value[step]
            else:
                return None
        return value

    return render


def _render_path(inside: str, path: Path) -> _Render:
    plain = path.plain
    keys = 0 if path.reads_document else sum(1 for _ in takewhile(lambda step: isinstance(step, str), plain[:2]))

    def render(source: Source) -> Json:
        value: Json = source.variable(inside)
        if value is not None:
            return value
        if keys == 2:
            value = source.member(str(plain[0]), str(plain[1]))
        elif keys == 1:
            value = source.root(str(plain[0]))
        else:
            value = source.document()
        return path.evaluate(value, keys, source.document)

    return render


def expanded(value: Json) -> Json:
    """A copy in which every text that begins with `{` or `[` is read as JSON, and a text at the top whatever it is.

    Once: texts in what was read stay texts. A text that is no JSON stays as it is, and so does one whose JSON would be deeper
    than `canonical.MAX_DEPTH`.
    """
    return _read(value, 0) if isinstance(value, str) else _entries(value, 0)


def _entries(value: Json, depth: int) -> Json:
    if isinstance(value, dict):
        return {key: _entry(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_entry(item, depth + 1) for item in value]
    return value


def _entry(value: Json, depth: int) -> Json:
    if isinstance(value, str):
        return _read(value, depth) if value.lstrip().startswith(("{", "[")) else value
    return _entries(value, depth)


def _read(text: str, depth: int) -> Json:
    try:
        found = parse(text)
    except InvalidInput:
        return text
    return text if depth + _depth(found) > MAX_DEPTH else found


def _depth(value: Json) -> int:
    deepest = 0
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        entries = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack.extend((entry, depth + 1) for entry in entries)
    return deepest
