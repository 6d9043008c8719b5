"""`pytest --conductorlite-replay FOLDER`: every exported execution in a folder is a test, lived again against today's code.

Without more, against today's engine, on the definitions in the export. With `--conductorlite-replay-with shop.flows:order` (a flow,
a definition, `Workers`, a task function) against today's definition of that name, and each recorded input must be one that today's
worker takes. No worker is called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conductorlite.model.canonical import parse
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import ConductorliteError, InvalidInput, ReplayDiverged
from conductorlite.plan.tree import walk
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Workers
from conductorlite.testing.reenacting import export_from_json
from conductorlite.testing.replaying import replay
from conductorlite.testing.steps import base_ref

__all__ = ["ReplayRun"]


class ReplayRun:
    """A plugin that is there only with `--conductorlite-replay`."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(config.getoption("conductorlite_replay")).resolve()
        if not self._folder.is_dir():
            raise pytest.UsageError(f"--conductorlite-replay: there is no folder {self._folder}")
        try:
            self.today = Today([_loaded(name) for name in config.getoption("conductorlite_replay_with")])
        except ConductorliteError as error:
            raise pytest.UsageError(f"--conductorlite-replay-with: {error}") from error
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args[:] = []
        config.args.append(str(self._folder))

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Every JSON file of the folder."""
        if file_path.suffix != ".json" or not file_path.resolve().is_relative_to(self._folder):
            return None
        made: ReplayFile = ReplayFile.from_parent(parent, path=file_path)
        made.today = self.today
        return made


class ReplayFile(pytest.File):
    """One exported execution."""

    today: Today

    def collect(self) -> Iterator[pytest.Item]:
        """One test for it."""
        item: ReplayItem = ReplayItem.from_parent(self, name="replay")
        item.today = self.today
        yield item


class ReplayItem(pytest.Item):
    """The test: the execution is lived again, and comes out as it was recorded."""

    today: Today

    def runtest(self) -> None:
        """Raises ReplayDiverged at the first line that differs, InvalidInput for an input that today's worker does not take."""
        document = parse(self.path.read_bytes())
        self.today.check_inputs(document)
        replay(self.today.put_into(document)).engine.close()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return what differs, in words."""
        error = excinfo.value
        if isinstance(error, ReplayDiverged):
            recorded, now = _words(error.expected), _words(error.actual)
            return f"{error.workflow_id} came out otherwise:\n  recorded: {recorded}\n  today:    {now}\n\n{error}"
        return str(error) if isinstance(error, ConductorliteError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the execution is."""
        return self.path, None, f"replay of {self.path.name}"


class Today:
    """Definitions by name, and workers, that replace what was recorded."""

    def __init__(self, given: Sequence[Any]) -> None:
        self._workers = Workers()
        self._texts: dict[str, tuple[str, dict[str, Any]]] = {}
        for one in given:
            if hasattr(one, "workers"):
                self._workers.include(one)
            elif not isinstance(one, WorkflowDef):
                raise pytest.UsageError(f"--conductorlite-replay-with takes a flow, a definition or workers, not {one!r:.80}")
        with Engine(workers=self._workers) as engine:
            for one in given:
                if isinstance(one, WorkflowDef) or hasattr(one, "definition"):
                    self._embed(engine, one if isinstance(one, WorkflowDef) else one.definition, getattr(one, "definitions", ()))

    def _embed(self, engine: Engine, definition: WorkflowDef, others: Sequence[WorkflowDef]) -> None:
        engine.register(*others)
        with engine.backend.reading() as view:
            found = engine.core.turns.lookups.registry.embedded(view, definition, None)
        texts = {digest: json.loads(text) for digest, text in found.texts.items()}
        self._texts[definition.name] = found.digest, texts

    def put_into(self, document: dict[str, Any]) -> dict[str, Any]:
        """The export with today's definitions in the place of those it was recorded with."""
        for one in document.get("executions", ()):
            if one["workflowName"] in self._texts and one["definitionHash"] != self._texts[one["workflowName"]][0]:
                digest, texts = self._texts[one["workflowName"]]
                document = json.loads(json.dumps(document).replace(one["definitionHash"], digest))
                document["definitions"] |= texts
        return document

    def check_inputs(self, document: Mapping[str, Any]) -> None:
        """Raises InvalidInput for the first recorded input that today's worker does not take."""
        exported = export_from_json(document)
        for workflow_id, row in exported.executions.items():
            names = {one.ref: one.task.name for one in walk(WorkflowDef.from_json(exported.definitions[row.definition_hash]))}
            for line in exported.histories[workflow_id]:
                ref = base_ref(line.ref or "")
                if line.status != "SCHEDULED" or line.payload is None or ref not in names:
                    continue
                worker = next((one for one in self._workers if one.task_type == names[ref]), None)
                problem = None if worker is None else _refused(worker, line.payload.value)
                if problem is not None:
                    text = f"today's worker {names[ref]!r} does not take the input of {line.ref}"
                    raise InvalidInput(f"{workflow_id}: {text}: {problem}")


def _refused(worker: Any, value: Any) -> str | None:
    given = worker.signature.named(value)
    missing = worker.signature.required - given.keys()
    if missing:
        return f"it needs {', '.join(sorted(missing))}"
    try:
        worker.signature.arguments(given)
    except InvalidInput as error:
        return str(error)
    return None


def _words(line: str | None) -> str:
    if line is None:
        return "nothing more"
    found = json.loads(line)
    attempt = f"#{found['attempt'] + 1}" if "attempt" in found else ""
    reason = f": {found['reason']}" if found.get("reason") else ""
    return f"line {found['n']}, {found.get('ref', 'workflow')}{attempt} {found['status']}{reason}"


def _loaded(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not colon:
        raise pytest.UsageError(f"--conductorlite-replay-with takes MODULE:ATTR, not {name!r}")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"--conductorlite-replay-with {name}: {error}") from error
