"""A Conductor server, over its HTTP API: where the same definitions and worker functions go on when one host is not enough.

The server keeps the executions and decides; here the functions of `Workers` run (`conductor_worker`). Definitions are registered as
they are, after `lint` has found nothing in them that a server would silently ignore.

Source of the rules: the operations under `/api/metadata`, `/api/workflow` and `/api/tasks` of Conductor's OpenAPI document.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import attrs

from conductorlite.ext.conductor_worker import Polling, Server, storage_place
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Severity
from conductorlite.model.texts import Span, to_span
from conductorlite.plan.lint import lint
from conductorlite.runtime.registry import HasWorkers, all_workers

if TYPE_CHECKING:
    from conductorlite.runtime.registry import Startable

__all__ = ["ConductorClient"]

logger = logging.getLogger(__name__)


class ConductorClient:
    """A Conductor server at `url`, such as `http://localhost:8080/api`.

    `headers` go with each request, for servers that ask for a token; they are in no message. `timeout` bounds one request. An
    input of an execution, or an output of a worker, of more than `upload_from` bytes is written to the payload storage that the
    server names (None: never), with a URI it has signed; what the server keeps there is read likewise. Every method raises
    ConductorServerError when the server refuses or cannot be reached, NotFound for what it does not know, MissingExtra without the
    extra `http`.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout: Span = "30s", upload_from: int | None = None
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"url {url!r} is not the address of a server, such as http://localhost:8080/api")
        self._upload_from = upload_from
        self._server = Server(url.rstrip("/"), dict(headers or {}), to_span(timeout) / 1000)

    def __repr__(self) -> str:
        return f"<ConductorClient {self._server.url!r}>"

    def register(self, *items: WorkflowDef | TaskDef | Startable[..., Any] | HasWorkers) -> None:
        """Register definitions, flows with all they need, and the task definitions of workers; what is there is replaced.

        A server takes whole seconds only: a shorter span of a task definition is rounded up, and a warning says so.
        Raises InvalidDefinition for what the server would silently ignore, with all problems, before anything is registered.
        """
        workflows: dict[tuple[str, int], WorkflowDef] = {}
        tasks: dict[str, TaskDef] = {}
        for item in items:
            if isinstance(item, WorkflowDef):
                workflows[item.name, item.version] = item
            elif isinstance(item, TaskDef):
                tasks[item.name] = item
            else:
                tasks |= item.workers.task_defs
                for one in (*getattr(item, "definitions", ()), *_own(item)):
                    workflows[one.name, one.version] = one
        problems = [
            problem
            for definition in workflows.values()
            for problem in lint(definition, conductor=True)
            if problem.severity is Severity.ERROR
        ]
        if problems:
            raise InvalidDefinition(problems)
        if tasks:
            self._server.ask("POST", "/metadata/taskdefs", [_in_whole_seconds(task).to_json() for task in tasks.values()])
        if workflows:
            self._server.ask("PUT", "/metadata/workflow", [definition.to_json() for definition in workflows.values()])

    def start(
        self,
        workflow: str | Startable[..., Any],
        input: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        correlation_id: str | None = None,
        priority: int = 0,
        task_to_domain: Mapping[str, str] | None = None,
    ) -> str:
        """Start an execution of a registered definition or flow and return its id."""
        given = dict(input or {})
        if not isinstance(workflow, str):
            starting = workflow.starting(**given)
            workflow, version, given = starting["workflow"].name, starting["workflow"].version, starting["input"]
        request = {
            "name": workflow,
            "version": version,
            "input": given,
            "correlationId": correlation_id,
            "priority": priority,
            "taskToDomain": dict(task_to_domain or {}),
        }
        if self._upload_from is not None and len((text := canonical(given)).encode()) > self._upload_from:
            place = self._server.ask("GET", storage_place("workflow", "WRITE", "WORKFLOW_INPUT"))
            self._server.exchange(place["uri"], "PUT", text)
            request |= {"input": {}, "externalInputPayloadStoragePath": place["path"]}
        return str(self._server.ask("POST", "/workflow", {key: value for key, value in request.items() if value is not None}))

    def get(self, workflow_id: str) -> dict[str, Any]:
        """An execution with its tasks, as Conductor's JSON; the form in which `conductorlite show --json` prints ours.

        Inputs and outputs that the server keeps in a payload storage are read from there.
        """
        found: dict[str, Any] = self._server.ask("GET", f"/workflow/{quote(workflow_id, safe='')}?includeTasks=true")
        self._complete(found, "workflow", "")
        for task in found.get("tasks", ()):
            self._complete(task, "tasks", "Data")
        return found

    def _complete(self, document: dict[str, Any], noun: str, end: str) -> None:
        """Put into a document what stands elsewhere; its path goes."""
        for which in ("input", "output"):
            path = document.pop(f"external{which.capitalize()}PayloadStoragePath", None)
            if path:
                kind = f"{'WORKFLOW' if noun == 'workflow' else 'TASK'}_{which.upper()}"
                place = self._server.ask("GET", storage_place(noun, "READ", kind, path))
                document[f"{which}{end}"] = parse(self._server.exchange(place["uri"], "GET"))

    def work(self, workers: HasWorkers | Iterable[HasWorkers], *, until: Callable[[], bool] | None = None) -> None:
        """Run worker functions on the server's tasks, until SIGTERM or Ctrl-C, or until `until()` is true; asked once a second.

        What runs then is waited for as long as `Workers(drain=…)` says; what it does not finish, the server gives to another
        worker after its response timeout. Call it in the main thread, or with `until`.
        """
        asyncio.run(self._work(workers, until))

    async def _work(self, workers: HasWorkers | Iterable[HasWorkers], until: Callable[[], bool] | None) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        with suppress(ValueError, RuntimeError, NotImplementedError):  # another thread's loop takes no signals, nor does Windows
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop.set)
        working = asyncio.create_task(self.work_async(workers, stop=stop))
        while not working.done():
            await asyncio.wait([working], timeout=1)
            if until is not None and until():
                stop.set()
        await working

    async def work_async(self, workers: HasWorkers | Iterable[HasWorkers], *, stop: asyncio.Event) -> None:
        """As `work`, on the caller's loop, until `stop` is set: coroutines run on this loop, plain functions in threads."""
        async with self._server.connected() as http:
            await Polling(self._server, http, all_workers(workers), stop, self._upload_from).run()


def _own(item: object) -> Iterable[WorkflowDef]:
    """The definition of a flow; workers and task functions have none."""
    definition = getattr(item, "definition", None)
    return [definition] if isinstance(definition, WorkflowDef) else []


def _in_whole_seconds(task: TaskDef) -> TaskDef:
    fields = [field.name for field in attrs.fields(TaskDef) if field.name.endswith("_ms") and field.name != "backoff_jitter_ms"]
    broken = {name: value for name in fields if (value := getattr(task, name)) is not None and value % 1000}
    for name, value in broken.items():
        logger.warning(
            "task %r: %s of %g s is rounded up: a Conductor server takes whole seconds", task.name, name[:-3], value / 1000
        )
    return attrs.evolve(task, **{name: -(-value // 1000) * 1000 for name, value in broken.items()})
