"""A connection to a server, and what a transaction on it has to know of itself."""

from __future__ import annotations

from typing import Final, cast

from conductorlite.ext.postgres.presence import Peers
from conductorlite.ext.postgres.schema import guarded
from conductorlite.ext.postgres.wire import Connection, Cursor
from conductorlite.model.errors import ConductorliteError
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.rows import Row, Session

__all__ = ["PostgresSession"]

#: Numbers of so many executions are remembered.
_NUMBERS: Final = 10_000


class PostgresSession(Session):
    """A connection, what a transaction on it has to know of itself, and what came before it was asked for."""

    def __init__(
        self, connection: Connection, path: str, numbers: dict[str, int], peers: Peers, *, ahead: bool, alone: bool = True
    ) -> None:
        super().__init__(connection, path)  # type: ignore[arg-type]
        self.wire, self.peers, self.shares = connection, peers, peers.share.count
        #: Whether answers stay true as long as the block lasts; whether nobody else has written of late.
        self.ahead, self.alone = ahead, alone
        #: Numbers of executions as they were once: each is compared before it is used.
        self._numbers = numbers
        #: The execution that was asked for first, with its first events and its first tasks, which came with its row.
        self.asked: tuple[str, Cursor, Cursor] | None = None
        #: Whether what refuses a decision is raised when the block ends.
        self.late = False

    def sent(self, statement: str, row: Row) -> Cursor:
        """Send a statement; what became of it is looked at later."""
        return cast("Cursor", self.execute(statement, row))

    def change(self, statement: str, row: Row, refusal: ConductorliteError) -> None:
        """Write a row under its fence; raises `refusal` when there is none to be written, at once or when the block ends."""
        self.dirty = True
        if self.late:
            self.sent(guarded(statement), row).refusal = refusal
        elif not self.sent(statement, row).rowcount:  # refused, it refuses itself only: the transaction goes on
            raise refusal

    def remember(self, workflow_id: str, number: int) -> None:
        """Keep the number of an execution."""
        if len(self._numbers) >= _NUMBERS:
            self._numbers.clear()
        self._numbers[workflow_id] = number

    def number(self, workflow_id: str) -> int:
        """The number of an execution, as it was when it was looked at last."""
        return self._numbers.get(workflow_id) or self.present_number(workflow_id)

    def present_number(self, workflow_id: str) -> int:
        """The number of an execution; 0 where there is none."""
        row = self.execute(sql.NUMBER, (workflow_id,)).fetchone()
        return 0 if row is None else int(row[0])
