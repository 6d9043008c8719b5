"""No failure is swallowed without a word: a handler that neither raises, nor passes on, nor logs what it caught is listed here.

A failure is every exception but the outcomes below, which are answers of what was asked ("there is none", "somebody was first").
Each place on the list has its reason beside it in the source, as a comment.
"""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from house import PACKAGE, Function, named, nodes_of, python_files, tree_of

#: Rooms whose failures somebody must hear of.
ROOMS = ("decide", "engine", "store", "runtime", "ext", "server")

#: Exceptions that answer a question of the code that catches them.
OUTCOMES = frozenset(
    {
        # Python's and the standard library's: a value is of another form, or not there, or it is too late
        "AttributeError", "BlockingIOError", "FileExistsError", "FileNotFoundError", "ImportError", "IndexError", "KeyError",
        "LookupError", "OverflowError", "StopIteration", "TimeoutError", "TypeError", "UnicodeEncodeError", "ValueError",
        "decimal.InvalidOperation",
        # ours: there is none, somebody was first, input is refused, time for another way
        "AlreadyExists", "Conflict", "EngineClosed", "ExecutionNotFound", "ExpressionFailed", "FencedOut", "InvalidDefinition",
        "InvalidExpression", "InvalidInput", "KeyTaken", "MissingExtra", "NoHelper", "NoThread", "NotFound", "Outside", "Parked",
        "PayloadsRequired", "Refused", "ScheduleNotFound", "StaleLease", "TakesLong", "TaskNotFound", "Unusual", "_TooLong",
        # of others
        "httpx.ConnectTimeout", "httpx.ReadTimeout", "self._errors.BadVersionError", "self._errors.NoNodeError",
        "self._errors.NodeExistsError",
    }
)  # fmt: skip

#: Functions that log what they are called about, beside the methods of a logger.
LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "handleError", "print_exc", "record_failure"})

#: Places that swallow a failure on purpose: file, function, what is caught. The reason is a comment in the handler or above it.
SILENT: dict[str, tuple[str, ...]] = {
    "engine/audits.py": ("Audits._indexes_rebuilt: StorageCorrupt, InvariantBroken",),
    "engine/clock_watch.py": ("ClockWatch.give_back: NotFound, InvariantBroken",),
    "engine/decisions.py": ("TurnDecider.on_residents: ConductorliteError, PayloadsRequired, NoHelper",),
    "engine/groups.py": (
        "Groups._applied: KeyTaken, AlreadyExists, InvariantBroken",
        "Groups._committed_together: KeyTaken, AlreadyExists, InvariantBroken",
        "Groups._or_alone: ConductorliteError, PayloadsRequired, NoHelper, Deadly",
        "Groups._stored_apart: ConductorliteError",
        "Groups.run: ConductorliteError",
    ),
    "engine/holders.py": (
        "Holding._follow: StorageError",
        "Holding.give_back: NotFound, InvariantBroken",
        "Holding.look: StorageError",
    ),
    "engine/polling.py": (
        "Polling._at_hand: PayloadUnavailable",
        "Polling._polled: ExecutionNotFound, InvariantBroken",
        "Polling._record: StorageBusy, StorageFull",
        "Polling.give_up: ConductorliteError",
        "Polling.take_first: InvariantBroken, FencedOut, StorageBusy, StorageFull",
    ),
    "engine/residents.py": ("Residents._make_room: KeyError, RuntimeError, StopIteration, ZeroDivisionError",),
    "engine/retention.py": ("Retention._prune_page: StorageFull",),
    "engine/schedules.py": ("Timetable._give_way: Conflict, NotFound, InvariantBroken",),
    "engine/search.py": (
        "Library._archived: StorageCorrupt",
        "Library._texts: StorageCorrupt",
        "Search._own_found: StorageError",
        "Search._rebuilt: StorageCorrupt, InvariantBroken",
    ),
    "engine/starts.py": ("Starts._begin_coming: ConductorliteError",),
    "engine/turn_lock.py": ("TurnLock._answers: Exception",),
    "engine/turns.py": ("Turns.run_related: InvariantBroken",),
    "engine/verbs.py": ("Verbs.close.note: StorageError, EngineClosed",),
    "ext/amqp.py": (
        "_Link.channel: AMQPError",
        "_Link.close: AMQPError",
    ),
    "ext/cassandra/backend.py": (
        "SplitBackend._settle: ConductorliteError",
        "_Split._alone: StorageError",
    ),
    "ext/cassandra/rows.py": ("Memory.keep: KeyError, RuntimeError, StopIteration",),
    "ext/cassandra/server.py": ("CassandraPartitions._taken: OperationTimedOut, WriteTimeout",),
    "ext/conductor.py": ("ConductorClient._work: ValueError, RuntimeError, NotImplementedError",),
    "ext/conductor_worker.py": (
        "Polling._beat: ConductorServerError",
        "_in_thread: RuntimeError",
    ),
    "ext/fsspec.py": ("FsspecPayloads.location: NotImplementedError",),
    "ext/otel.py": (
        "_Telemetry._depths: EngineClosed, StorageError",
        "_Telemetry._lag: EngineClosed, StorageError",
        "_Telemetry._queues: EngineClosed, StorageError",
    ),
    "ext/postgres/backend.py": (
        "PostgresBackend.data_version: StorageError",
        "_Transaction._over: StorageError",
    ),
    "ext/postgres/presence.py": (
        "PostgresPresence._end: StorageError",
        "Presences._asked: StorageError",
    ),
    "ext/postgres/wire.py": ("Connection.usable: psycopg.Error, OSError, ValueError",),
    "ext/mcp.py": ("add_workflows.workflow_result: ResultTimeout",),
    "ext/search_server.py": ("SearchServerIndex.__init__: StorageCorrupt",),
    "runtime/beginnings.py": ("Beginnings._take: StorageError",),
    "runtime/bridge.py": (
        "Bridge._glance_while_awaited: EngineClosed, StorageError",
        "_post: RuntimeError",
    ),
    "runtime/calls.py": ("_last_lines: Exception",),
    "runtime/external.py": ("Feeding._ask: RuntimeError",),
    "runtime/handout.py": (
        "HandOut.give_back: StorageError",
        "Reports.together: ConductorliteError",
        "Reports.together: StorageError, InvalidInput",
    ),
    "runtime/idle.py": (
        "Rest._watches: NoThread, StorageError",
        "Rest.span: StorageError",
    ),
    "runtime/loop.py": (
        "Driver._drain: StorageError",
        "Driver.close: ConductorliteError",
    ),
    "runtime/pool.py": (
        "Coroutines.abandon: RuntimeError",
        "Coroutines.close: RuntimeError",
    ),
    "runtime/registry.py": ("annotations_of: Exception",),
    "runtime/result_errors.py": (
        "_child: ExecutionNotFound, StorageError",
        "late: ConductorliteError",
    ),
    "runtime/work.py": ("DueTurns._turn: InvariantBroken",),
    "server/pages.py": (
        "Feed.run: EngineClosed, StorageError",
        "Feeds._committed: RuntimeError",
        "Feeds._glance: EngineClosed, StorageError",
    ),
    "server/rest/routes.py": ("health: StorageError",),
    "server/running.py": ("served.run: SystemExit",),
    "server/streams.py": ("_moved.wake: RuntimeError",),
    "server/waiting.py": (
        "Groups._carry_out: RuntimeError",
        "Waiting._committed: RuntimeError",
        "Waiting._look_on: EngineClosed, StorageError",
        "_wake: RuntimeError",
    ),
    "store/payloads.py": (
        "LocalPayloads.put: OSError",
        "make_private: OSError",
    ),
    "store/places.py": ("_refuse_sealed: StorageCorrupt",),
    "store/sqlite/access.py": (
        "Reading.end: *FAILURES",
        "Writing._commit: sqlite3.Error",
    ),
    "store/sqlite/backend.py": (
        "SQLiteBackend.close: StorageError",
        "SQLiteBackend.close: StorageReplaced",
        "SQLiteBackend.close: sqlite3.Error",
    ),
    "store/sqlite/connections.py": (
        "_holder: OSError, ValueError, IndexError",
        "_Opened.add: OSError",
        "_Opened.has: OSError",
        "_is_out_of_files: OSError",
        "_unborn: OSError",
        "ended: sqlite3.Error",
    ),
    "store/sqlite/disk.py": (
        "Log.grow: OSError",
        "Log.grow: OSError",
        "Reserve._held: OSError",
        "Reserve.keep: OSError",
        "Reserve.keep: OSError",
        "Reserve.look: OSError, sqlite3.Error",
        "Reserve.lower: OSError",
        "Reserve.opened: sqlite3.Error",
        "Reserve.release: OSError",
        "_copy_documents: PayloadLost",
        "_free: OSError",
        "copy: OSError",
        "copy: OSError",
    ),
    "store/sqlite/identity.py": (
        "OpenFiles._fail: Exception",
        "OpenFiles.check: FileNotFoundError, NotADirectoryError",
        "OpenFiles.check: OSError",
        "OpenFiles.check_folder: OSError",
        "_id: FileNotFoundError, NotADirectoryError",
        "_id: OSError",
    ),
    "runtime/missing.py": ("WaitNews.look: ConductorliteError",),
    "store/sqlite/soundness.py": ("_alarms: StorageCorrupt",),
    "store/sqlite/processes.py": (
        "FileMarks._dead: OSError",
        "FileMarks._names: OSError",
        "FileMarks._ready: Exception",
        "FileMarks._sweep: OSError",
        "FileMarks._write: OSError",
        "FileMarks.close: OSError",
        "FileMarks.close: OSError",
        "FileMarks.forget: OSError",
        "Presences.look: OSError",
        "Presences.look: OSError",
        "SQLitePresence.__init__: OSError",
        "SQLitePresence.leave: OSError",
        "_boot_session: OSError, AttributeError",
        "_locked: OSError",
        "_process: OSError, IndexError",
        "_removed: OSError",
        "this_kernel: OSError",
    ),
}


def test_each_silent_handler_is_listed() -> None:
    """One that is not on the list must raise, pass on or log; one that is gone is taken from the list."""
    found = Counter(f"{path.relative_to(PACKAGE).as_posix()} {place}" for path in _files() for place, _ in _silent(path))
    listed = Counter(f"{file} {place}" for file, places in SILENT.items() for place in places)
    assert (sorted((found - listed).elements()), sorted((listed - found).elements())) == ([], [])


def test_each_silent_handler_has_its_reason() -> None:
    """A comment in it, or directly above it."""
    bare = [f"{named(path)}:{lines[0]}" for path in _files() for _, lines in _silent(path) if not _comments(path) & {*lines}]
    assert bare == []


def test_nothing_else_ends_an_exception() -> None:
    """No jump out of a `finally`, no block whose end answers True, no `suppress` by another name, no results among errors."""
    found = []
    for path in _files():
        for node in nodes_of(path):
            if isinstance(node, ast.Try | ast.TryStar):
                found += [f"{named(path)}:{one.lineno} leaves a finally" for one in _jumps(node.finalbody)]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in ("__exit__", "__aexit__"):
                found += [
                    f"{named(path)}:{one.lineno} answers {ast.unparse(one.value)}"
                    for one in _own(node.body)
                    if isinstance(one, ast.Return) and one.value is not None and not _is_false(one.value)
                ]
            elif isinstance(node, ast.ImportFrom) and node.module == "contextlib":
                found += [f"{named(path)}:{node.lineno}" for one in node.names if one.name == "suppress" and one.asname]
            elif isinstance(node, ast.keyword) and node.arg == "return_exceptions":
                found.append(f"{named(path)}:{node.value.lineno} collects exceptions")
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "try: act()\nexcept: pass",
        "try: act()\nexcept Exception: pass",
        "try: act()\nexcept BaseException: result = None",
        "try: act()\nexcept (ValueError, Exception): pass",
        "try: act()\nexcept ((KeyError, StorageError), ValueError): pass",
        "try: act()\nexcept FAILURES: pass",
        "try: act()\nexcept errors.StorageError: pass",
        "try: act()\nexcept* OSError: pass",
        "try: act()\nexcept Exception as error: del error",
        "try: act()\nexcept Exception as error: known = isinstance(error, OSError)",
        "try: act()\nexcept OSError as error: known = error.errno == 2",
        "try: act()\nexcept Exception:\n    def later(): raise",
        "for one in all():\n    try: act()\n    except InvariantBroken: continue",
        "with suppress(Exception): act()",
        "with suppress(KeyError, OSError): act()",
        "with contextlib.suppress(BaseException): act()",
        "with opened(), suppress(StorageError): act()",
        "with suppress(*FAILURES): act()",
        "async def f():\n    async with suppress(Exception): act()",
    ],
)
def test_a_silent_handler_is_found_by_any_spelling(text: str, tmp_path: Path) -> None:
    """Each of them swallows a failure, and is found once."""
    path = tmp_path / "module.py"
    path.write_text(text)
    assert len(list(_silent(path))) == 1
    assert not _comments(path)


@pytest.mark.parametrize(
    "text",
    [
        "try: act()\nexcept KeyError: pass",
        "try: act()\nexcept Exception: raise",
        "try: act()\nexcept Exception as error: raise Other(str(error)) from error",
        "try: act()\nexcept Exception as error: self.error = error",
        "try: act()\nexcept Exception: log.exception('it failed')",
        "try: act()\nexcept StorageError as error: log_store('it failed', error)",
        "with suppress(FileNotFoundError): act()",
    ],
)
def test_a_failure_that_is_heard_is_no_silent_handler(text: str, tmp_path: Path) -> None:
    """It raises, passes on or logs, or what it catches is an answer."""
    path = tmp_path / "module.py"
    path.write_text(text)
    assert list(_silent(path)) == []


def _files() -> Iterator[Path]:
    return (path for room in ROOMS for path in python_files(PACKAGE / room))


def _silent(path: Path) -> Iterator[tuple[str, range]]:
    """The silent handlers of a file, as they are listed, with the lines on which a reason may stand."""
    owners = _owners(path)
    for node in nodes_of(path):
        if isinstance(node, ast.Try | ast.TryStar):
            for handler in node.handlers:
                if not _is_outcome(handler.type) and not _is_heard(handler):
                    yield _place(owners[node], handler.type), range(handler.lineno - 1, _end(handler.body) + 1)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and ast.unparse(call.func) in ("suppress", "contextlib.suppress"):
                    caught = ast.Tuple(elts=call.args)
                    if not _is_outcome(caught):
                        yield _place(owners[node], caught), range(node.lineno - 1, node.body[0].lineno + 1)


def _place(owner: str, caught: ast.expr | None) -> str:
    return f"{owner}: {', '.join(_names(caught))}"


def _owners(path: Path) -> dict[ast.AST, str]:
    """The function that each node stands in, by its qualified name."""
    found: dict[ast.AST, str] = {}

    def visit(node: ast.AST, owner: str) -> None:
        found[node] = owner
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            owner = f"{owner}.{node.name}".lstrip(".")
        for child in ast.iter_child_nodes(node):
            visit(child, owner)

    visit(tree_of(path), "")
    return found


def _names(caught: ast.expr | None) -> list[str]:
    if caught is None:
        return ["everything"]
    return [name for one in caught.elts for name in _names(one)] if isinstance(caught, ast.Tuple) else [ast.unparse(caught)]


def _is_outcome(caught: ast.expr | None) -> bool:
    return set(_names(caught)) <= OUTCOMES


def _is_heard(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises, logs, or hands on what it caught: to ask for its class or its number is not enough."""
    own = list(_own(handler.body))
    asked = {id(inside) for one in own if isinstance(one, ast.Call | ast.Compare) and _asks(one) for inside in ast.walk(one)}
    return any(
        isinstance(one, ast.Raise)
        or (isinstance(one, ast.Call) and _logs(one))
        or (isinstance(one, ast.Name) and one.id == handler.name and isinstance(one.ctx, ast.Load) and id(one) not in asked)
        for one in own
    )


def _asks(node: ast.Call | ast.Compare) -> bool:
    return isinstance(node, ast.Compare) or ast.unparse(node.func) in ("isinstance", "type")


def _logs(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    return name in LOGGING or name.startswith("log_") or name == "about_task"


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """What stands in statements, but not in functions that are defined there."""
    waiting: list[ast.AST] = list(body)
    for node in waiting:
        yield node
        if not isinstance(node, Function | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _jumps(body: list[ast.stmt]) -> list[ast.stmt]:
    return [one for one in _own(body) if isinstance(one, ast.Return | ast.Break | ast.Continue)]


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _end(body: list[ast.stmt]) -> int:
    return max(one.end_lineno or one.lineno for one in body)


@cache
def _comments(path: Path) -> frozenset[int]:
    """The lines of a file that have a comment, other than for a checker."""
    with path.open("rb") as file:
        return frozenset(
            token.start[0]
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:", "# pragma"))
        )
