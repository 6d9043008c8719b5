"""A store in PostgreSQL, for engines on several hosts: `Engine("postgresql://user@host/database")`. The only importer of psycopg.

What it guarantees. A change is committed whole or not at all; a view is one state of the store, however long it is read; two turns
never overwrite each other, because the fence of an execution is compared and raised by one UPDATE. What was committed survives
what the server's own settings promise (`synchronous_commit`).

How it works. `backend` keeps connections, of which each block of a thread has one; writers take turns under an advisory lock of
the server, which ends with their transaction or their connection. `wire` sends statements in pipeline mode and awaits answers
only where they are looked at: a turn and its commit are awaited once. Both stores keep the same rows, and share the statements
that both understand; `statements` has those of PostgreSQL's own. `rows` is a view and a change, noun by noun, over a `session`;
`search` is the index; `schema` makes the tables. Of several processes each looks first at its own share of what is due or offered
(`peers`).
"""

from typing import TYPE_CHECKING

from conductorlite.ext import names_of

if TYPE_CHECKING:
    from conductorlite.ext.postgres.backend import PostgresBackend
    from conductorlite.ext.postgres.lock import PostgresLock

__all__ = ["PostgresBackend", "PostgresLock"]

__getattr__ = names_of(
    *("conductorlite.ext.postgres.backend", *__all__), extra="postgres", purpose="a store in PostgreSQL", library="psycopg"
)
