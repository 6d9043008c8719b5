"""What more than one thread may write, and how it is kept whole: each class that changes its attributes is on the list.

A class that is new here fails the test until it is listed. Before you list one as `STEP`, see that nothing is decided by one read
and done by a later write, and that who iterates takes a copy first: `tuple(found)`, `found.copy()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "conductorlite"

#: The rooms whose objects threads share; what the logic makes belongs to one turn.
ROOMS: Final = ("engine", "runtime", "store", "ext", "server")

#: Methods that change what they are called on.
CHANGES: Final = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem", "popleft", "remove"}
    | {"setdefault", "subtract", "update"}
)

CALL: Final = "it belongs to one call, turn, view or write, and no other thread knows it"
DRIVER: Final = "the thread that drives, which holds `Driver.driving`; one that stands by drives in its place only (`Standby`)"
LOOP: Final = "the thread of the event loop; other threads post to it"
MUTEX: Final = "with its mutex held, or before another thread knows it"
STEP: Final = "single steps of a dict, list, deque or set, or a value that is replaced; readers take a copy"
STORE: Final = "the thread that has the store's write, which the backend's mutex gives to one at a time"
OWNER: Final = "the one thread it is made for, or its user, who is one thread"

#: How each class is kept whole, by its file.
KEPT: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    CALL: {
        "engine/invariants.py": ("_Journal",),
        "engine/keys.py": ("PollWrite",),
        "engine/loading.py": ("_Loading",),
        "engine/reader.py": ("StoreReader",),
        "engine/records.py": ("_Attempt", "_Journal"),
        "engine/repairs.py": ("_Mending",),
        "engine/search.py": ("Comparison",),
        "engine/transactions.py": ("_JoinedBlock",),
        "engine/turn_types.py": ("Taking", "_Called"),
        "runtime/beginnings.py": ("_Lent",),
        "runtime/loop.py": ("_Driving",),
        "store/memory/backend.py": ("_Writing",),
        "store/query.py": ("_Parser",),
        "store/sqlite/access.py": ("Reading", "Writing"),
        "store/sqlite/own_rows.py": ("OwnRows", "Part"),
        "store/sqlite/search.py": ("Rendered", "SQLiteIndex"),
        "ext/cassandra/backend.py": ("_Split",),
        "ext/cassandra/changes.py": ("Change", "SplitChanges", "SplitDecisions", "_Made"),
        "ext/cassandra/rows.py": ("Parts", "SplitExecutions"),
        "ext/postgres/backend.py": ("_Reading", "_Transaction", "_Writing"),
        "ext/postgres/rows.py": ("Part", "PostgresDecisions", "PostgresFeeds", "PostgresQueue"),
        "ext/postgres/search.py": ("PostgresIndex", "Rendered"),
        "ext/postgres/session.py": ("PostgresSession",),
        "ext/postgres/wire.py": ("Connection", "Cursor"),
        "ext/pydantic_ai.py": ("_Elsewhere",),
        "ext/rounds.py": ("Calls",),
        "server/running.py": ("_HeadInTime", "_HttpTools", "_Parser"),
        "server/safety.py": ("_Sending",),
    },
    DRIVER: {
        "runtime/external.py": ("MessageSources",),
        "runtime/handout.py": ("Reports",),
        "runtime/idle.py": ("Rest",),
        "runtime/loop.py": ("Driver",),
        "runtime/signals.py": ("Outages",),
        "runtime/work.py": ("DueTurns", "Instants", "SignsOfLife", "Timeline"),
        "runtime/workshop.py": ("Workshop",),
        "ext/amqp.py": ("AmqpSource",),
        "ext/kafka.py": ("KafkaSource",),
        "ext/sqs.py": ("SqsSource",),
    },
    LOOP: {
        "runtime/bridge.py": ("Bridge",),
        "ext/conductor_worker.py": ("Polling", "_Pauses", "_RemoteContext"),
        "server/pages.py": ("EnginePages", "Feed", "Feeds"),
        "server/running.py": ("_Server",),
        "server/safety.py": ("Guard",),
        "server/waiting.py": ("Waiting",),
    },
    MUTEX: {
        "engine/aside.py": ("Aside",),
        "engine/awaited.py": ("Awaited", "Awaiting", "_Place"),
        "engine/clock_watch.py": ("ClockWatch",),
        "engine/driven_time.py": ("Driven",),
        "engine/holders.py": ("Holding",),
        "engine/index_feed.py": ("Feeder", "OwnFeeder"),
        "engine/logs.py": ("FailureLog",),
        "engine/starts.py": ("Starts",),
        "runtime/beginnings.py": ("Beginnings",),
        "runtime/call_rates.py": ("CallRates",),
        "runtime/external.py": ("Feeding",),
        "runtime/handout.py": ("HandOut",),  # `Beginnings` has it while the driver rests
        "runtime/idle.py": ("Standby", "WaitGraph"),
        "runtime/missing.py": ("WaitNews", "WarnOnce"),
        "runtime/pool.py": ("Coroutines",),
        "runtime/registry.py": ("Workers",),
        "store/locks.py": ("InProcessLock",),
        "store/places.py": ("LateLock",),
        "ext/amqp.py": ("_Link",),  # of a sink; a source has one of its own, and one thread
        "ext/postgres/backend.py": ("PostgresBackend",),
        "ext/postgres/lock.py": ("PostgresLock",),
        "ext/postgres/presence.py": ("Peers", "Presences"),
        "ext/redis_lock.py": ("RedisLock", "_Round", "_Server"),
        "ext/sinks.py": ("MemoryQueue", "MemorySink"),
    },
    STEP: {
        "engine/admin.py": ("Admin",),  # `remove` is its verb
        "ext/sqs.py": ("SqsSink",),
        "engine/control.py": ("Control", "_Chance"),
        "engine/commits.py": ("Committer",),
        "engine/groups.py": ("Groups",),
        "engine/keys.py": ("Polls",),
        "engine/parking.py": ("Parking",),
        "engine/polling.py": ("Polling",),
        "engine/registry.py": ("Plans", "Registry"),
        "engine/residents.py": ("Residents",),
        "engine/search.py": ("Search",),
        "engine/streams.py": ("Emitting",),  # values are added by one step, and handed over under its lock
        "engine/turn_lock.py": ("TurnLock",),
        "engine/turn_types.py": ("Commits",),
        "engine/turns.py": ("Turns",),
        "engine/verbs.py": ("Verbs",),
        "runtime/bridge.py": ("_Order",),
        "runtime/context.py": ("TaskContext",),
        "runtime/engine.py": ("Engine",),
        "runtime/missing.py": ("MissingWorkers",),
        "runtime/pool.py": ("Pool",),
        "store/memory/limits.py": ("MemoryPresence",),
        "store/payloads.py": ("MemoryPayloads",),
        "ext/cassandra/backend.py": ("SplitBackend",),
        "ext/cassandra/rows.py": ("Memory",),
        "ext/cassandra/server.py": ("CassandraPartitions",),
        "ext/otel.py": ("_Telemetry",),
        "ext/postgres/presence.py": ("PostgresPresence",),
        "ext/search_server.py": ("SearchServerIndex",),
        "ext/zookeeper_lock.py": ("ZooKeeperLock",),
        "server/waiting.py": ("Groups",),
    },
    STORE: {
        "engine/residents.py": ("Quiet",),  # what others read says after which commit it holds
        "store/memory/backend.py": ("MemoryBackend",),
        "store/memory/decisions.py": ("MemoryDecisions",),
        "store/memory/rows.py": ("Ordered", "Store"),
        "store/sqlite/access.py": ("Connections", "SQLiteTransaction"),
        "store/sqlite/backend.py": ("SQLiteBackend",),
        "store/sqlite/connections.py": ("_Opened",),
        "store/sqlite/decisions.py": ("GroupRows", "SQLiteDecisions"),
        "store/sqlite/disk.py": ("Log", "Reserve"),
        "store/sqlite/identity.py": ("OpenFiles",),
        "store/sqlite/limits.py": ("RowLimits",),
        "store/sqlite/rows.py": ("Session",),
        "store/sqlite/statements.py": ("Counts",),
        "store/sqlite/tables.py": ("RowArchive", "RowDocuments", "RowFeeds"),
    },
    OWNER: {
        "store/sqlite/processes.py": ("FileMarks", "Presences", "SQLitePresence", "_Own"),
    },
}


def test_each_class_that_changes_is_on_the_list_with_what_keeps_it_whole() -> None:
    """Those that change an attribute after their beginning are those of the list, each once."""
    listed = [f"{file}:{name}" for by_file in KEPT.values() for file, names in by_file.items() for name in names]
    assert len(listed) == len(set(listed))
    found = {f"{path.relative_to(PACKAGE).as_posix()}:{name}" for path in _files() for name in _that_change(path)}
    assert (sorted(found - set(listed)), sorted(set(listed) - found)) == ([], [])


def _files() -> Iterator[Path]:
    return (path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py")))


def _that_change(path: Path) -> Iterator[str]:
    for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(kind, ast.ClassDef):
            methods = [one for one in kind.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            later = [one for one in methods if one.name not in ("__init__", "__attrs_post_init__")]
            if any(_is_own(target) for one in later for node in ast.walk(one) for target in _changed(node)):
                yield kind.name


def _changed(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement or a call changes."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else (target,)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target
    elif isinstance(node, ast.Delete):
        yield from node.targets
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        yield node.func.value


def _is_own(target: ast.expr) -> bool:
    """True for `self.name`, `self.name.other` and an entry of them."""
    attributes = 0
    while isinstance(target, ast.Attribute | ast.Subscript):
        attributes += isinstance(target, ast.Attribute)
        target = target.value
    return attributes > 0 and isinstance(target, ast.Name) and target.id == "self"
