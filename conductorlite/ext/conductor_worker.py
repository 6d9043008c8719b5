"""The worker functions of a process, on the tasks of a Conductor server: one poll loop for each queue.

As Conductor's own clients do it: a batch is polled for the room that there is, each function runs in a thread or as a coroutine,
its lease is extended while it runs, its report is sent until the server has it. What a function may know is what the polled task
says; what it returns or raises becomes the same report as in an engine. A server that is away is asked again, ever less often, and
nothing is lost but time.

Source of the rules: the types `Task` and `TaskResult` of Conductor's OpenAPI document.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import attrs

from conductorlite.model.canonical import Payload, canonical, parse
from conductorlite.model.clock import SystemClock
from conductorlite.model.definitions import LOOP_DELIMITER
from conductorlite.model.errors import ConductorliteError, ConductorServerError, InvalidInput, MissingExtra, NotFound
from conductorlite.model.executions import Task, TaskResult, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import error_text
from conductorlite.runtime.calls import Deferred, call, call_async, raised
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.pool import Pool
from conductorlite.runtime.registry import Worker, Workers
from conductorlite.runtime.workshop import COROUTINES, THREADS

if TYPE_CHECKING:
    import httpx

    from conductorlite.engine.streams import Emitting

__all__ = ["Polling", "Server", "storage_place"]

logger = logging.getLogger(__name__)

_CLOCK: Final = SystemClock()

#: Tasks that one poll takes at most.
_BATCH: Final = 20

#: How long the server may hold a poll that finds nothing, ms.
_LONG_POLL_MS: Final = 1_000

#: Seconds before something is asked again that failed: the first and the longest.
_FIRST, _LONGEST = 0.1, 10.0

#: Statuses of refusals that may be over another time, and of those of a poll that will not be.
_PASSING: Final = (408, 429)
_FINAL: Final = (401, 403)

#: Part of a response timeout after which a lease is extended.
_BEAT: Final = 0.5


@attrs.frozen(slots=True)
class Server:
    """How a server is asked; `headers` are in no message. Raises as `ConductorClient` says."""

    url: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    #: Seconds that one request may take.
    timeout: float

    def connected(self) -> httpx.AsyncClient:
        """A client for `ask_async`, to be closed."""
        client: httpx.AsyncClient = _library().AsyncClient(headers=self.headers, timeout=self.timeout, trust_env=False)
        return client

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request, in this thread."""
        with _library().Client(headers=self.headers, timeout=self.timeout, trust_env=False) as http:
            try:
                reply = http.request(method, self.url + path, **_written(body))
            except _library().HTTPError as error:
                raise self._unreachable(error) from None
        return self.answer(reply)

    async def ask_async(self, http: httpx.AsyncClient, method: str, path: str, body: object = None) -> Any:
        """One request on the caller's loop."""
        try:
            reply = await http.request(method, self.url + path, **_written(body))
        except _library().HTTPError as error:
            raise self._unreachable(error) from None
        return self.answer(reply)

    def exchange(self, uri: str, method: str, text: str | None = None) -> str:
        """Read or write a document in a storage, whose signed URI is all that it takes; raises ConductorServerError."""
        with _library().Client(timeout=self.timeout, trust_env=False) as http:
            try:
                return _stored(http.request(method, uri, content=None if text is None else text.encode()))
            except _library().HTTPError as error:
                raise _storage_away(error) from None

    async def exchange_async(self, uri: str, method: str, text: str | None = None) -> str:
        """As `exchange`, on the caller's loop."""
        async with _library().AsyncClient(timeout=self.timeout, trust_env=False) as http:
            try:
                return _stored(await http.request(method, uri, content=None if text is None else text.encode()))
            except _library().HTTPError as error:
                raise _storage_away(error) from None

    def answer(self, reply: httpx.Response) -> Any:
        """Return the content of a reply: JSON, text, or None for an empty one."""
        text = reply.text
        if reply.is_success:
            try:
                return None if not text else parse(text) if "json" in reply.headers.get("content-type", "") else text
            except InvalidInput as error:
                raise ConductorServerError(reply.status_code, f"{reply.request.method} {reply.request.url.path}: {error}") from None
        said = text
        with suppress(InvalidInput, AttributeError):
            said = parse(text).get("message") or text
        message = f"{reply.request.method} {reply.request.url.path}: {reply.status_code} {said:.500}".rstrip()
        if reply.status_code == 404:
            raise NotFound(message)
        raise ConductorServerError(reply.status_code, message)

    def _unreachable(self, error: Exception) -> ConductorServerError:
        return ConductorServerError(0, f"{self.url} cannot be reached: {type(error).__name__}: {error}")


def storage_place(noun: str, operation: str, payload_type: str, path: str = "") -> str:
    """The request for where a server keeps a large document: of a `workflow`, or of `tasks`."""
    return f"/{noun}/externalstoragelocation?{urlencode({'path': path, 'operation': operation, 'payloadType': payload_type})}"


def _stored(reply: httpx.Response) -> str:
    if not reply.is_success:
        said = f"the payload storage answers {reply.status_code} to {reply.request.method}"
        raise ConductorServerError(reply.status_code, said)
    return str(reply.text)


def _storage_away(error: Exception) -> ConductorServerError:
    return ConductorServerError(0, f"the payload storage cannot be reached: {type(error).__name__}")


def _library() -> Any:
    try:
        import httpx
    except ImportError:
        raise MissingExtra("http", "a Conductor server") from None
    return httpx


def _written(body: object) -> dict[str, Any]:
    if body is None:
        return {}
    text = body if isinstance(body, str) else canonical(body)
    return {"content": text.encode(), "headers": {"content-type": "application/json"}}


class Polling:
    """The poll loops of one set of workers, and the calls that run."""

    def __init__(
        self, server: Server, http: httpx.AsyncClient, workers: Workers, stop: asyncio.Event, upload_from: int | None
    ) -> None:
        self._server = server
        self._http = http
        self._upload_from = upload_from
        self._workers = workers
        self._stop = stop
        self._id = workers.worker_id or f"{socket.gethostname()}-{os.getpid()}"
        threads, coroutines = workers.concurrency or THREADS, workers.concurrency or COROUTINES
        self._room = {False: asyncio.Semaphore(threads), True: asyncio.Semaphore(coroutines)}
        self._pool: Pool[None] = Pool(threads, lambda: None)
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Poll and carry out until it is to stop; then wait for what runs."""
        polling = [asyncio.create_task(self._poll(worker)) for worker in self._workers]
        ending = asyncio.create_task(self._stop.wait())
        try:
            done, _ = await asyncio.wait([*polling, ending], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a server that refuses a poll for good ends it all
        finally:
            self._stop.set()
            for task in (ending, *polling):
                task.cancel()
            await asyncio.wait([ending, *polling])  # asyncio logs what a further one has raised
            if self._calls:
                await asyncio.wait(self._calls, timeout=self._workers.drain_ms / 1000)
            for call_ in tuple(self._calls):
                call_.cancel()
            self._pool.close()

    async def _poll(self, worker: Worker) -> None:
        """Ask for tasks of one queue, for as many as may run."""
        own = asyncio.Semaphore(worker.concurrency or COROUTINES)
        pauses = _Pauses(worker.queue)
        named = {"workerid": self._id, "timeout": _LONG_POLL_MS, **({"domain": worker.domain} if worker.domain else {})}
        path = f"/tasks/poll/batch/{quote(worker.task_type, safe='')}?{urlencode(named)}"
        answered = False
        while not self._stop.is_set():
            taken = await _taken(own, self._room[worker.is_async])
            found: list[dict[str, Any]] = []
            try:
                # A poll that was sent is waited for: the tasks of an answer that nobody reads would wait for their time-out.
                asked = asyncio.ensure_future(self._offered(f"{path}&count={taken}"))
                try:
                    found = await asyncio.shield(asked)
                except asyncio.CancelledError:
                    found = await asked
                    raise
                pauses.over()
                answered = True
            except NotFound as error:  # a wrong address; or what is before the server has lost it for a while
                if not answered:
                    raise
                pauses.failed(error)
            except ConductorServerError as error:
                if error.status in _FINAL:
                    raise
                pauses.failed(error)
            finally:
                for document in found:
                    self._begin(worker, document, own)
                for _ in range(taken - len(found)):
                    own.release()
                    self._room[worker.is_async].release()
            if not found:
                await pauses.wait()

    async def _offered(self, path: str) -> list[dict[str, Any]]:
        answer = await self._server.ask_async(self._http, "GET", path) or []
        if not isinstance(answer, list):
            raise ConductorServerError(200, f"GET {path}: the answer is no list of tasks: {answer!r:.200}")
        return answer

    def _begin(self, worker: Worker, document: dict[str, Any], own: asyncio.Semaphore) -> None:
        running = asyncio.ensure_future(self._carry_out(worker, document))
        self._calls.add(running)

        def ended(task: asyncio.Task[None]) -> None:
            self._calls.discard(task)
            own.release()
            self._room[worker.is_async].release()

        running.add_done_callback(ended)

    async def _carry_out(self, worker: Worker, document: dict[str, Any]) -> None:
        context = _RemoteContext(_task_from_json(document), document, self._server)
        beating = asyncio.ensure_future(self._beat(worker, context, document.get("responseTimeoutSeconds") or 0))
        try:
            await self._fetch_input(context)
            result = await self._called(worker, context)
        except Exception as error:  # whatever it is: without a report the task would stay until its timeout
            result = raised(context.task, error)
        finally:
            beating.cancel()
        report = {**_report_to_json(result, self._id), "logs": context.lines(result)}
        await self._until_taken(f"the report on {result.task_id}", partial(self._send, report))

    async def _fetch_input(self, context: _RemoteContext) -> None:
        """Read a large input from where the server has put it."""
        path = context.document.get("externalInputPayloadStoragePath")
        if path:
            place = await self._storage("READ", "TASK_INPUT", path)
            found = await self._server.exchange_async(place["uri"], "GET")
            context.row = attrs.evolve(context.row, input=Payload.of(parse(found), where="inputData"))

    async def _send(self, report: dict[str, Any]) -> None:
        """Send a report; a large output goes where the server says first."""
        if self._upload_from is not None and len((text := canonical(report["outputData"])).encode()) > self._upload_from:
            place = await self._storage("WRITE", "TASK_OUTPUT", "")
            await self._server.exchange_async(place["uri"], "PUT", text)
            report |= {"outputData": {}, "externalOutputPayloadStoragePath": place["path"]}
        await self._server.ask_async(self._http, "POST", "/tasks", report)

    async def _storage(self, operation: str, payload_type: str, path: str) -> Any:
        """Return the location at which the server keeps a large document."""
        return await self._server.ask_async(self._http, "GET", storage_place("tasks", operation, payload_type, path))

    async def _called(self, worker: Worker, context: _RemoteContext) -> TaskResult:
        if worker.is_async:
            returned = await call_async(worker, context)
        else:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[TaskResult | Deferred] = loop.create_future()
            self._pool.submit(partial(_in_thread, worker, context, loop, ended))
            returned = await ended
        if isinstance(returned, TaskResult):
            return returned
        return raised(context.task, TypeError("a scripted worker's call takes virtual time, which a server does not have"))

    async def _beat(self, worker: Worker, context: _RemoteContext, timeout: int) -> None:
        """Extend the lease of a task while its function runs."""
        while worker.heartbeat and timeout > 0 and not context.lost:
            await asyncio.sleep(timeout * _BEAT)
            with suppress(ConductorServerError):  # the next one may get through
                try:
                    await self._server.ask_async(self._http, "POST", "/tasks", context.beat)
                except NotFound:
                    context.lost = True

    async def _until_taken(self, what: str, send: Callable[[], Awaitable[None]]) -> None:
        """Send something until the server has it; what it refuses is logged, and the task's timeout decides."""
        pauses = _Pauses(what)
        while True:
            try:
                return await send()
            except NotFound as error:
                return logger.warning("%s is dropped: %s", what, error)
            except ConductorServerError as error:
                if 400 <= error.status < 500 and error.status not in _PASSING:
                    return logger.error("%s is refused: %s", what, error)
                pauses.failed(error)
            except (KeyError, TypeError, ConductorliteError) as error:
                return logger.error("%s cannot be sent: the server's answer makes no sense (%s)", what, error_text(error))
            await pauses.wait()


def _in_thread(
    worker: Worker, context: TaskContext, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[TaskResult | Deferred]
) -> None:
    result: TaskResult | Deferred
    try:
        result = call(worker, context)
    except BaseException as error:
        result = raised(context.task, error)
    with suppress(RuntimeError):  # the loop has gone: nobody waits
        loop.call_soon_threadsafe(_give, ended, result)


def _give(ended: asyncio.Future[TaskResult | Deferred], result: TaskResult | Deferred) -> None:
    if not ended.done():
        ended.set_result(result)


async def _taken(own: asyncio.Semaphore, room: asyncio.Semaphore) -> int:
    """Room for a poll: one place at least, and as many more as are free."""
    await own.acquire()
    try:
        await room.acquire()
    except BaseException:
        own.release()
        raise
    taken = 1
    while taken < _BATCH and not own.locked() and not room.locked():
        await own.acquire()
        await room.acquire()
        taken += 1
    return taken


class _Pauses:
    """How long to wait before something is asked again; a server that is away is reported once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._seconds = 0.0
        self._away = False

    def failed(self, error: ConductorServerError | NotFound) -> None:
        """Wait longer."""
        if not self._away:
            logger.warning("%s: asked again and again, since %s", self._what, error)
        self._away = True
        self._seconds = min(max(_FIRST, self._seconds * 2), _LONGEST)

    def over(self) -> None:
        """Ask at once again."""
        if self._away:
            logger.info("%s: the server answers again", self._what)
        self._away, self._seconds = False, 0.0

    async def wait(self) -> None:
        """Wait as long as it takes after what has failed, or a moment: a server may not hold a poll that finds nothing."""
        await asyncio.sleep(self._seconds or _FIRST)


class _RemoteContext(TaskContext):
    """The context of a function whose task is on a server."""

    __slots__ = ("_lines", "_server", "document")

    def __init__(self, task: Task, document: Mapping[str, Any], server: Server) -> None:
        self.row = task
        self.lost = False
        self.notes, self._noted, self.observers, self.interceptors, self.emitting = None, 0, (), (), None
        self.document = document
        self._server = server
        self._lines: list[tuple[int, str]] = []

    @property
    def first_task_id(self) -> str:
        """Id of the attempt of which this one is an automatic retry; its own for the first. Asked of the server."""
        document = self.document
        while document.get("retryCount") and document.get("retriedTaskId"):
            document = self._server.ask("GET", f"/tasks/{document['retriedTaskId']}")
        return str(document["taskId"])

    @property
    def workflow(self) -> Workflow:
        """The execution as it is now, without its tasks. Asked of the server."""
        document = self._server.ask("GET", f"/workflow/{quote(self.task.workflow_id, safe='')}?includeTasks=false")
        return Workflow(
            workflow_id=document["workflowId"],
            name=document.get("workflowName") or document.get("workflowType") or "",
            version=document.get("workflowVersion") or document.get("version") or 1,
            definition_hash="",
            status=WorkflowStatus(document["status"]),
            created_at=document.get("createTime") or 0,
            correlation_id=document.get("correlationId"),
            priority=document.get("priority") or 0,
            input=Payload.of(document.get("input") or {}, where="input"),
            variables=Payload.of(document.get("variables") or {}, where="variables"),
        )

    @property
    def beat(self) -> dict[str, Any]:
        """The report that extends the lease."""
        ids = {"workflowInstanceId": self.task.workflow_id, "taskId": self.task.task_id}
        return {**ids, "status": TaskStatus.IN_PROGRESS.value, "extendLease": True}

    def heartbeat(self) -> bool:
        """Say that the function is alive; False when the task is not there any more."""
        try:
            self._server.ask("POST", "/tasks", self.beat)
        except NotFound:
            self.lost = True
        return not self.lost

    def publish(self, event: str, payload: Any, *, message_id: str) -> Any:
        """A server's event handlers listen to queues; raises InvalidInput."""
        raise InvalidInput("a Conductor server takes messages from its queues only: use an EVENT task, or publish to the queue")

    def _emitting(self) -> Emitting:
        """A server keeps no values of a running task; raises InvalidInput."""
        raise InvalidInput("a Conductor server has no streams and no latest values: log a line, or return the values")

    def log(self, text: str) -> None:
        """Keep a line of text with the task; sent with its report."""
        self._lines.append((_CLOCK.now(), text))

    def lines(self, result: TaskResult) -> list[dict[str, Any]]:
        """The log lines of a report; the traceback is the last one, because Conductor's report has no place for it."""
        now = _CLOCK.now()
        added = [(now, text) for text in (*result.logs, result.traceback) if text]
        return [{"taskId": self.task.task_id, "createdTime": at, "log": text} for at, text in (*self._lines, *added)]


def _task_from_json(document: Mapping[str, Any]) -> Task:
    """The part of Conductor's `Task` that a worker function can see."""
    ref = str(document["referenceTaskName"])
    return Task(
        workflow_id=document["workflowInstanceId"],
        ref=ref,
        base_ref=ref.split(LOOP_DELIMITER)[0],
        task_id=document["taskId"],
        task_type=document["taskType"],
        name=document.get("taskDefName") or document["taskType"],
        status=TaskStatus.IN_PROGRESS,
        attempt=document.get("retryCount") or 0,
        seq=document.get("seq") or 0,
        input=Payload.of(document.get("inputData") or {}, where="inputData"),
        output=Payload.of(document.get("outputData") or {}, where="outputData"),
        worker_id=document.get("workerId"),
        domain=document.get("domain"),
        poll_count=document.get("pollCount") or 0,
        scheduled_at=document.get("scheduledTime") or 0,
        started_at=document.get("startTime") or 0,
        retried_task_id=document.get("retriedTaskId"),
    )


def _report_to_json(result: TaskResult, worker_id: str) -> dict[str, Any]:
    """A report as Conductor's `TaskResult`."""
    document: dict[str, Any] = {
        "workflowInstanceId": result.workflow_id,
        "taskId": result.task_id,
        "workerId": result.worker_id or worker_id,
        "status": result.status.value,
        "outputData": dict(result.output_data),
        "reasonForIncompletion": result.reason,
        "callbackAfterSeconds": -(-result.callback_after_ms // 1000),
        "externalOutputPayloadStoragePath": result.external_output_payload_storage_path,
    }
    return {name: value for name, value in document.items() if value is not None}
