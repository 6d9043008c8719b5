"""Partitions in dicts: what a cluster of Cassandra answers, for tests that need no server. The server's answer in tests/servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from conductorlite.ext.cassandra.partitions import REMOVED, Asked, Cell, Head, Turn
from conductorlite.model.errors import StorageUnavailable


class MemoryPartitions:
    """Rows in dicts; `down`: nothing can be reached. `asked` and `wrote` count questions and transactions."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, int], dict[tuple[str, str], Cell]] = {}
        self.head_rows: dict[str, Head] = {}
        self.heads_of: dict[str, set[str]] = {}
        self.tables: dict[str, dict[str, str]] = {"definitions": {}, "event_executions": {}}
        self.down = False
        self.calls: list[tuple[str, int]] = []
        #: Called before a transaction, and after it.
        self.before: Callable[[], Any] = lambda: None
        self.after: Callable[[], Any] = lambda: None
        self._lock = threading.Lock()

    def _counted(self, name: str, statements: int) -> None:
        if self.down:
            raise StorageUnavailable("the cluster cannot be reached")
        self.calls.append((name, statements))

    def heads(self, workflow_ids: Sequence[str], *, items: bool = False) -> Mapping[str, Head]:
        self._counted("heads", len(workflow_ids))
        found = {one: self.head_rows[one] for one in workflow_ids if one in self.head_rows}
        return found if items else {one: attrs.evolve(head, item="") for one, head in found.items()}

    def read(self, asked: Sequence[Asked]) -> Sequence[Sequence[Cell]]:
        self._counted("read", len(asked))
        return [self._answer(one) for one in asked]

    def _answer(self, asked: Asked) -> list[Cell]:
        rows = self.table.get((asked.workflow_id, asked.shard), {})
        if asked.keys:
            return [rows[key] for key in asked.keys if key in rows]
        found = [rows[key] for key in sorted(rows) if key[0] == asked.entity and asked.begin <= key[1] < asked.end]
        return found[-1:] if asked.last else found

    def take(self, turns: Sequence[Turn]) -> Sequence[bool]:
        self._counted("take", len(turns))
        self.before()
        with self._lock:
            answers = [self._taken(turn) for turn in turns]
        self.after()
        return answers

    def _taken(self, turn: Turn) -> bool:
        stored = self.head_rows.get(turn.workflow_id)
        if (None if stored is None else stored.fence) != turn.expected:
            return False
        json.loads(turn.head.item or "[]")
        self.head_rows[turn.workflow_id] = turn.head
        rows = self.table.setdefault((turn.workflow_id, 0), {})
        for cell in turn.cells:
            if cell.text is None:
                rows.pop((cell.entity, cell.key), None)
            else:
                rows[cell.entity, cell.key] = cell
        return True

    def write(self, workflow_id: str, cells: Iterable[tuple[int, Cell]]) -> None:
        rows = list(cells)
        self._counted("write", len({shard for shard, _ in rows}))
        for shard, cell in rows:
            known = self.table.setdefault((workflow_id, shard), {})
            old = known.get((cell.entity, cell.key))
            if old is None or old.fence <= cell.fence:
                known[cell.entity, cell.key] = cell

    def forget(self, workflow_id: str, fence: int) -> None:
        self._counted("forget", 1)
        if (head := self.head_rows.get(workflow_id)) is not None and head.turn == REMOVED:
            del self.head_rows[workflow_id]
            for place in [place for place in self.table if place[0] == workflow_id]:
                del self.table[place]

    def whole(self, workflow_id: str, head: Head) -> str:
        return head.item

    def identity(self) -> str:
        return f"cluster-{id(self)}"

    def register(self, head: str, workflow_id: str) -> None:
        self._counted("register", 1)
        self.heads_of.setdefault(head, set()).add(workflow_id)

    def registered(self, head: str) -> Sequence[str]:
        self._counted("registered", 1)
        return sorted(self.heads_of.get(head, ()))

    def walk(self) -> Iterator[str]:
        self._counted("walk", 1)
        return iter(list(self.head_rows))

    def keep(self, table: str, key: str, text: str | None) -> None:
        self._counted("keep", 1)
        if text is None:
            self.tables[table].pop(key, None)
        else:
            self.tables[table][key] = text

    def kept(self, table: str) -> Iterator[tuple[str, str]]:
        self._counted("kept", 1)
        return iter(list(self.tables[table].items()))

    def close(self) -> None:
        pass
