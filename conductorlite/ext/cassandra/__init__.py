"""Executions in Cassandra, their queue in an ordered store: `Engine("cassandra://host/keyspace", queue="postgresql://…")`.

The seeds: "a `workflows` table houses all the information for a workflow execution including all its tasks and is the source of
truth"; "we envision using the Cassandra DAO with an external queue implementation, since implementing a queuing recipe on top of
Cassandra is an anti-pattern". So Cassandra is asked for nothing but rows by their keys and lightweight transactions on one
partition; whatever needs an order among executions is in a store of ours that has one (`queue`): SQLite, PostgreSQL, memory.

**The design in one breath.** A decision is stored twice over: its rows in the partition of the execution, by one lightweight
transaction that compares the fence; and all the rest of it, as a decision of its own, without rows of tasks, payloads or lines (the
*thin* decision), in the queue store, by that store's own `apply`. So inboxes, timers, messages, limits, idempotency keys, lists and
feeds are the ones that are there already: this is a composition, no third implementation.

    writing()      a change of the queue store is opened
      apply        the thin decision is tried there: its fence and its key are compared; its rows are made
      end          1. the trial is undone: from here on nothing of the queue store is held, and others write to it
                   2. texts that never change (large payloads), and parts of a very large decision: plain writes, idempotent
                   3. LWT on the execution's partition: rows, journal, and the *outbox*: the thin decision as a cell of the head row
                      IF fence = the one that was read; refused → FencedOut, which says what else of the change is stored
                   4. rows of other partitions (an execution that is wide has sixteen shards): plain, dated by the fence
                   5. the thin decision is carried out in the queue store, in a commit of its own
      death        after 3, before 5: the head is ahead of what the queue store has got. The next look at the execution, or the
                   sweep after a death, sees that, and *delivers*: 4 and 5 from the outbox. The queue store's row says which turn it
                   has got last (`delivered`): at least once delivered, once acted upon. A task that was given to one who has died
                   since is given back then.

There is one outbox cell, overwritten by the next turn, because no turn can be taken before the last one was delivered: what was
tried would be refused. So nothing is deleted, nothing is scanned, and there are no tombstones.

**What needs the queue store's lock throughout.** A turn that changes a limit, advances a schedule, or removes an execution holds it
during its transaction, as what it has compared must still be so. A limit's slot is taken in the partition first: `limits` says how
no death in between lets in one too many.

**Which of the two is believed.** The partition: for what has happened. The queue store: for whose the execution is, and whether it
is parked; its fence may be ahead (parked, taken over), never behind but by the turn in the outbox.

**A lost queue store** is rebuilt (`Engine.admin.repair` on an empty one): every partition is walked once, by token ranges,
its row goes back into the list with its key, what it has sent goes out again, and `repair` makes timers and messages follow from
rows, as it does anywhere. What only the queue store had is gone: see docs/how-to/use-cassandra.md.

Files: `partitions` is what is asked of Cassandra, as rows of text by key, and how a decision is written; `server` asks
cassandra-driver for it, and is its only importer; `rows` is a view, `changes` a change; `delivery` is what a turn sends, carried
out; `limits` announces who changes one; `backend` is the blocks, deliveries by others, and the sweep.
"""

from typing import TYPE_CHECKING

from conductorlite.ext import names_of

if TYPE_CHECKING:
    from conductorlite.ext.cassandra.server import CassandraBackend

__all__ = ["CassandraBackend"]

__getattr__ = names_of(
    *("conductorlite.ext.cassandra.server", *__all__), extra="cassandra", purpose="a store in Cassandra", library="cassandra"
)
