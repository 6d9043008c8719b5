"""One commit of an application's own rows and of what it has the engine do.

What it guarantees. All that is written in the block is committed at its end or, when the block raises, none of it; what is heard of
it (listeners, waiting threads, the log) comes after the commit. A verb that raises is undone by itself, and the block may go on.

How it works. The store's write transaction is open from the beginning of the block, and every change of its thread is a part of it.
So nobody can be first, no turn is fenced out, and others wait. What the engine remembers of its turns is neither used nor kept.

Source of the rule: DBOS has it (a step in the application's own transaction); Conductor's server cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from conductorlite.engine.turns import Turns
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import EngineClosed, MissingCapability
from conductorlite.model.pickling import stays_here
from conductorlite.store.ports import Capability, JoinableBackend, JoinedTransaction
from conductorlite.store.tables import Parameters, Rows

__all__ = ["OwnTransaction", "joined"]


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


@contextmanager
def joined(turns: Turns) -> Iterator[JoinedTransaction]:
    """The block of a transaction, or inside one, of a part of it; raises MissingCapability when the store has none."""
    backend, thread = turns.backend, turns.joined
    if not isinstance(backend, JoinableBackend):
        raise MissingCapability(Capability.TRANSACTIONS, f"{type(backend).__name__} takes no transactions of an application")
    outer, before = thread.decisions, thread.within
    mine: list[Decision] = []
    try:
        with backend.transaction() as within:
            thread.decisions, thread.within = mine, within
            yield within
    finally:
        thread.decisions, thread.within = outer, before
    if outer is not None:
        outer += mine
        return
    turns.committed.wake()
    for decision in mine:
        turns.announce(decision)
