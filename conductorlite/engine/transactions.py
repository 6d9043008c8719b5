"""One commit of an application's own rows and of what it has the engine do.

What it guarantees. All that is written in the block is committed at its end or, when the block raises, none of it; what is heard of
it (listeners, waiting threads, the log) comes after the commit. A verb that raises is undone by itself, and the block may go on.

How it works. The store's write transaction is open from the beginning of the block, and every change of its thread is a part of it.
So nobody can be first, no turn is fenced out, and others wait. What the engine remembers of its turns is neither used nor kept.

Source of the rule: DBOS has it (a step in the application's own transaction); Conductor's server cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeVar

from conductorlite.engine.turns import Turns
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import EngineClosed, MissingCapability
from conductorlite.model.pickling import stays_here
from conductorlite.model.threads import Enclosing, within
from conductorlite.store.ports import Capability, JoinableBackend, JoinedTransaction
from conductorlite.store.tables import Parameters, Rows

__all__ = ["OwnTransaction", "joined"]

T = TypeVar("T", bound="OwnTransaction")


@stays_here("it is one block of one thread; send the values to be written")
class OwnTransaction:
    """The writes of an application within a transaction; see `Engine.transaction`."""

    __slots__ = ("_turns", "_within")

    def __init__(self, turns: Turns, within: JoinedTransaction) -> None:
        self._turns = turns
        self._within = within

    def execute(self, statement: str, parameters: Parameters = ()) -> Rows:
        """Carry out one SQL statement on tables of your own, and return the rows it gives: all of them, a list of tuples.

        Raises InvalidInput for what ends a transaction or changes a table of the engine's, and in a store without tables;
        EngineClosed after the block and in other threads than the block's; and what sqlite3 raises, when only this statement is
        undone.
        """
        return self._joined().own_rows().execute(statement, parameters)

    def executemany(self, statement: str, parameters: Iterable[Parameters]) -> Rows:
        """Carry out one statement for each of several parameters; raises as `execute` does."""
        return self._joined().own_rows().executemany(statement, parameters)

    def _joined(self) -> JoinedTransaction:
        if self._turns.joined.within is not self._within:
            raise EngineClosed("this transaction has ended, or is another thread's")
        return self._within


def joined(turns: Turns, make: Callable[[JoinedTransaction], T]) -> AbstractContextManager[T]:
    """Return the block of a transaction, or inside one, of a part of it; `make` makes what the block is given.

    Raises MissingCapability when the store has no such transactions.
    """
    backend = turns.backend
    if not isinstance(backend, JoinableBackend):
        raise MissingCapability(Capability.TRANSACTIONS, f"{type(backend).__name__} takes no transactions of an application")
    return within(_JoinedBlock(turns, backend, make))


class _JoinedBlock(Enclosing[T, JoinedTransaction]):
    """The store's block of a transaction, in which the engine's changes of this thread are parts."""

    __slots__ = ("_backend", "_before", "_make", "_mine", "_outer", "_turns")

    def __init__(self, turns: Turns, backend: JoinableBackend, make: Callable[[JoinedTransaction], T]) -> None:
        super().__init__()
        self._turns, self._backend, self._make = turns, backend, make
        #: Decisions of the engine in this block; those of the block around it, and its transaction, or None.
        self._mine: list[Decision] = []
        self._outer: list[Decision] | None = None
        self._before: object = None

    def begin(self) -> T:
        """Open the store's transaction."""
        thread = self._turns.joined
        found = self.enter(self._backend.transaction)
        self._outer, self._before = thread.decisions, thread.within
        thread.decisions, thread.within = self._mine, found
        return self._make(found)

    def end(self, error: BaseException | None) -> None:
        """Commit it, or undo it for an error; then announce what the engine has decided in it."""
        try:
            self.leave(error)
        finally:
            self.undo()
        if error is not None:
            return
        if self._outer is not None:
            self._outer += self._mine
            return
        self._turns.committed.wake()
        for decision in self._mine:
            self._turns.announce(decision)

    def undo(self, error: BaseException | None = None) -> None:
        """Undo what is not committed, and let changes of this thread be their own again."""
        thread = self._turns.joined
        if thread.decisions is self._mine:
            thread.decisions, thread.within = self._outer, self._before
        super().undo(error)
