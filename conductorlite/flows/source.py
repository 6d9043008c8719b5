"""Python source of a definition: a flow that builds the same JSON, to the byte.

Each task is written with the form that makes it: a call of a `@task` stub, `parallel`, `when`, `wait` and so on. A definition
that no flow can build, such as one with two steps of one name, is written out whole, in options of its `@flow`.
"""

from __future__ import annotations

import inspect
import textwrap
import unicodedata
from collections.abc import Mapping
from typing import Any

from conductorlite.flows.literals import PUBLIC, WIDTH, Code, Group, Names, Plain, Stub, Text, inner_definitions, quoted, span
from conductorlite.flows.writer import FlowWriter
from conductorlite.flows.writers import WRITERS
from conductorlite.model import attrs
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import BuildError, InvalidDefinition, Problem

__all__ = ["to_python"]


def to_python(definition: WorkflowDef) -> str:
    """A module in which a flow builds the definition: its `definition.to_json()` is the same, to the byte.

    The functions of its tasks are stubs without bodies. Raises InvalidDefinition for definitions within each other that exhaust the
    stack.
    """
    try:
        return _Module(definition).text()
    except RecursionError:
        raise InvalidDefinition([Problem(path="$", message="nested too deeply to be written")]) from None


class _Module:
    """The source of a definition, and of those in it."""

    def __init__(self, definition: WorkflowDef) -> None:
        self._names = Names(definition)
        self._definitions = list(inner_definitions(definition))
        self._written: dict[int, tuple[Stub, str]] = {}
        self._imports = {"flow"}
        self._stubs: set[str] = set()

    def text(self) -> str:
        """The whole module."""
        main = self._flow(self._definitions[0])
        stubs = [
            f"@task\n{text}" if stub.name == name else f"@task({quoted(name)})\n{text}" for name, stub, text in self._stub_texts()
        ]
        if stubs:
            self._imports.add("task")
        flows = [text for _, text in self._written.values()]
        head = f'"""The workflow {main.name} as a flow; the functions of its tasks want bodies."""'
        whole = "\n\n\n".join([f"{head}\n\n{self._import_lines()}", *stubs, *flows]) + "\n"
        wide = any(len(line) + sum(unicodedata.east_asian_width(c) in "WF" for c in line) > WIDTH for line in whole.splitlines())
        return f"# ruff: noqa: E501\n{whole}" if wide else whole

    def _stub_texts(self) -> list[tuple[str, Stub, str]]:
        found = [(name, self._names.stub(name)) for name in sorted(self._stubs)]
        return [(name, stub, _function(stub)) for name, stub in found if stub is not None]

    def _import_lines(self) -> str:
        modules: dict[str, list[str]] = {}
        for name in sorted(self._imports - {"json"}):
            modules.setdefault(PUBLIC.get(name, "conductorlite.flows"), []).append(name)
        lines = ["import json\n"] if "json" in self._imports else []
        for module, names in sorted(modules.items()):
            line = f"from {module} import {', '.join(names)}"
            lines.append(line if len(line) <= WIDTH else f"from {module} import (\n    {(',' + chr(10) + '    ').join(names)},\n)")
        return "\n".join(lines)

    def _flow(self, definition: WorkflowDef) -> Stub:
        """The flow of a definition, which is written before that of the one it is in."""
        at = self._definitions.index(definition)
        if at not in self._written:
            name, given = self._names.flows[at], self._names.inputs(definition)
            template = definition.input_template
            required = [one for one, declared in given.items() if declared and one not in template]
            stub = Stub(name, tuple(given), required)
            self._written[at] = (stub, self._source(definition, stub, given))
        return self._written[at][0]

    def _source(self, definition: WorkflowDef, stub: Stub, given: Mapping[str, bool]) -> str:
        writer = FlowWriter(self._names, definition, self._flow, WRITERS)
        try:
            body = writer.body(definition) if definition.tasks else None
        except BuildError:
            body, writer = None, FlowWriter(self._names, definition, self._flow, WRITERS)
        described = _docstring(definition.description)
        says: list[tuple[str, Code]] = [] if definition.name == stub.name else [("", Text(definition.name))]
        says += _options(definition, given, described is not None, body is not None, writer)
        decorator = Group("@flow(", says, ")").lines(0, 0) if says else "@flow"
        head = Group(f"def {stub.name}(", _parameters(definition, given, writer), "):").lines(0, 0)
        self._imports |= writer.imports
        self._stubs |= writer.stubs
        statements = [one for one in (described, body) if one]
        return "\n".join([decorator, head, *(statements or ["    pass"])])


def _options(
    definition: WorkflowDef, given: Mapping[str, bool], described: bool, written: bool, writer: FlowWriter
) -> list[tuple[str, Code]]:
    """The options of `@flow` for what its function does not say."""
    template = {key: definition.input_template[key] for key in given if definition.input_template.get(key) is not None}
    said: dict[str, Any] = {"name": definition.name, "input_parameters": tuple(given), "input_template": template}
    if described:
        said["description"] = definition.description
    if written:
        said |= {"tasks": definition.tasks, "output_parameters": definition.output_parameters}
    found: list[tuple[str, Code]] = []
    plain = WorkflowDef(name=definition.name)
    for field in attrs.fields(WorkflowDef):
        value, has = getattr(definition, field.name), said.get(field.name, getattr(plain, field.name))
        if value == has and repr(value) == repr(has) and (written or field.name != "tasks"):
            continue
        length = span(value) if field.name == "timeout_ms" else None
        found.append(("timeout=", Text(length)) if length else (f"{field.name}=", writer.literal(value)))
    return found


def _parameters(definition: WorkflowDef, given: Mapping[str, bool], writer: FlowWriter) -> list[tuple[str, Code]]:
    """Inputs with their defaults; one that is read and not declared may be left out."""
    values = {name: definition.input_template.get(name) for name in given}
    bare = [name for name, declared in given.items() if declared and values[name] is None]
    parts: list[tuple[str, Code]] = [] if bare == [*given][: len(bare)] else [("", Plain("*"))]
    for name, value in values.items():
        parts.append((name, Plain("")) if name in bare else (f"{name}=", writer.literal(value)))
    return parts


def _docstring(description: str | None) -> str | None:
    """A description as the first paragraph of a docstring; None where it would be another text there."""
    if not description or not description.isprintable() or '"""' in description or "\\" in description or description.endswith('"'):
        return None
    for lines in ([description], textwrap.wrap(description, WIDTH - 12, break_long_words=False, break_on_hyphens=False)):
        text = '    """' + "\n    ".join(lines)
        text += '"""' if len(lines) == 1 else '\n    """'
        plain = inspect.cleandoc("\n    ".join(lines))
        if plain.partition("\n\n")[0].replace("\n", " ") == description and max(map(len, text.split("\n"))) <= WIDTH:
            return text
    return None


def _function(stub: Stub) -> str:
    parameters = [("", Plain(name if name in stub.required else f"{name}=None")) for name in stub.parameters]
    return Group(f"def {stub.name}(", [("**", Plain("given"))] if stub.anything else parameters, "): ...").lines(0, 0)
