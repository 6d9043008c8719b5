"""`lint`: what is wrong with definitions, and what cannot be meant, for people, programs and code hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from conductorlite.cli.shared import Exit, Setting, command_options, load_attribute, read_definition, read_workers
from conductorlite.flows import Flow
from conductorlite.flows.contracts import contracts_of
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem, Severity
from conductorlite.plan.lint import lint as problems_of
from conductorlite.runtime.registry import Workers

__all__ = ["lint"]

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


@click.command("lint")
@click.argument("sources", metavar="DEFINITION...", nargs=-1, required=True)
@click.option("--workers", metavar="MODULE:ATTR", multiple=True, help="What carries out the tasks: types of arguments and fields.")
@click.option("--for", "server", type=click.Choice(["conductor"]), help="Refuse what this server would silently ignore.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", show_default=True)
@command_options(database=False)
def lint(setting: Setting, sources: tuple[str, ...], workers: tuple[str, ...], server: str | None, form: str) -> Exit:
    """Follow every reference of definitions over all paths; exit code 1 when anything is found.

    A DEFINITION is a JSON file, or MODULE:ATTR of a flow, whose tasks are known. Definitions that run each other by name are looked
    at together.
    """
    found: list[tuple[str, Problem]] = []
    known: dict[str, WorkflowDef] = {}
    crew = read_workers(workers) if workers else Workers()
    for source in sources:
        try:
            known[source] = _definition(source, crew)
        except InvalidDefinition as error:
            found += [(source, problem) for problem in error.problems]
    contracts = contracts_of(crew) if [*crew] else None
    others = {definition.name: definition for definition in known.values()}
    for source, definition in known.items():
        problems = problems_of(definition, contracts=contracts, others=others, conductor=server is not None)
        found += [(source, problem) for problem in problems]
    if form == "sarif":
        setting.screen.document(_sarif(found))
    elif form == "json" or setting.json:
        setting.screen.document([{"source": source, **_document(one)} for source, one in found])
    elif found:
        setting.screen.table(("SOURCE", "SEVERITY", "PATH", "PROBLEM"), list(_rows(found)))
    else:
        setting.screen.line(f"nothing found in {len(sources)} definition{'s' if len(sources) > 1 else ''}")
    return Exit.FAILED if found else Exit.OK


def _definition(source: str, crew: Workers) -> WorkflowDef:
    """The definition in a file, or of a flow, whose workers join the others."""
    if ":" not in source or Path(source).is_file():
        return read_definition(source)
    value = load_attribute(source, "lint")
    if not isinstance(value, Flow):
        raise InvalidInput(f"lint {source!r} is a {type(value).__name__}, not a flow")
    crew.include(value)
    definition: WorkflowDef = value.definition
    return definition


def _document(problem: Problem) -> dict[str, str]:
    return {"path": problem.path, "message": problem.message, "severity": str(problem.severity)}


def _rows(found: Sequence[tuple[str, Problem]]) -> Iterator[Sequence[object]]:
    for source, one in found:
        yield source, one.severity, one.path, one.message


def _sarif(found: Sequence[tuple[str, Problem]]) -> dict[str, Any]:
    """What code hosts show beside a change: SARIF 2.1.0."""
    results = [
        {
            "ruleId": "definition",
            "level": "error" if one.severity is Severity.ERROR else "warning",
            "message": {"text": f"{one.path}: {one.message}"},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": Path(source).as_posix()}, "region": {"startLine": 1}},
                    "logicalLocations": [{"fullyQualifiedName": one.path}],
                }
            ],
        }
        for source, one in found
    ]
    rule = {"id": "definition", "shortDescription": {"text": "A workflow definition that is wrong, or cannot be meant."}}
    driver = {"name": "conductorlite", "rules": [rule]}
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
