"""Executions in Cassandra, their queue in an ordered store: `Engine("cassandra://host/keyspace", queue="postgresql://…")`.

The seeds: "a `workflows` table houses all the information for a workflow execution including all its tasks and is the source of
truth"; "we envision using the Cassandra DAO with an external queue implementation, since implementing a queuing recipe on top of
Cassandra is an anti-pattern". So Cassandra is asked for nothing but rows by their keys and lightweight transactions on one
partition; whatever needs an order among executions is in a store of ours that has one (`queue`): SQLite, PostgreSQL, memory.

**The design in one breath.** A decision is stored twice over: its rows in the partition of the execution, by one lightweight
transaction that compares the fence; and all the rest of it, as a decision of its own, without rows of tasks, payloads or lines (the
*thin* decision), in the queue store, by that store's own `apply`. So inboxes, timers, messages, limits, idempotency keys, lists and
feeds are the ones that are there already: this is a composition, no third implementation.

    writing()      the queue store's write is opened: one writer at a time
      apply        thin decision applied there: its fence, the keys and limits are compared, nothing is committed
      end          1. texts that never change (large payloads), and parts of a very large decision: plain writes, idempotent
                   2. LWT on the execution's partition: rows, journal, and the *outbox*: the thin decision as a cell of the head row
                      IF fence < that of this turn; refused → FencedOut, and the queue store's write is undone
                   3. rows of other partitions (an execution that is wide has sixteen shards): plain, dated by the fence
                   4. the queue store commits
      death        after 2, before 4: the head is ahead of the queue store's row by one. The next look at the execution, the
                   turn that the death of its holder causes, or the sweep after a death sees that, and *delivers*: 3 and 4 from the
                   outbox. The queue store's fence says what was delivered: at least once delivered, once acted upon.

There is one outbox cell, overwritten by the next turn, because no turn can be taken before the last one was delivered: its thin
decision would be fenced out. So nothing is deleted, nothing is scanned, and there are no tombstones.

**Which of the two is believed.** The partition: for what has happened. The queue store: for whose the execution is, and whether it
is parked; its fence may be ahead (parked, taken over), never behind but by the turn in the outbox.

**A lost queue store** is rebuilt (`Engine.admin.repair` on an empty one): every partition is walked once, by token ranges,
its row goes back into the list with its key, what it has sent goes out again, and `repair` makes timers and messages follow from
rows, as it does anywhere. What only the queue store had is gone: see docs/how-to/use-cassandra.md.

Files: `partitions` is what is asked of Cassandra, as rows of text by key, and how a decision is written; `server` asks
cassandra-driver for it, and is its only importer; `rows` is a view, `changes` a change; `backend` is the blocks, delivery and the
sweep.
"""

from typing import TYPE_CHECKING

from conductorlite.ext.extras import names_of

if TYPE_CHECKING:
    from conductorlite.ext.cassandra.server import CassandraBackend

__all__ = ["CassandraBackend"]

__getattr__ = names_of(
    *("conductorlite.ext.cassandra.server", *__all__), extra="cassandra", purpose="a store in Cassandra", library="cassandra"
)
