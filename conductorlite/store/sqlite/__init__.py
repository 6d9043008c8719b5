"""Rows in one SQLite file, durable.

What it guarantees. A change is committed whole or not at all, and is there after a kill (`synchronous="FULL"`: after a power cut
too). A view is one state of the file, however long it is read. Two turns never overwrite each other: the fence of an execution is
compared and raised by one UPDATE. Several processes may use the file; a writer waits for another one no longer than the busy
timeout.

How it works. `backend` has one writing connection, which its threads take in turn, and a few that read; processes take turns by
BEGIN IMMEDIATE, and in WAL mode views never wait. `transactions` is a view and a change of it, `tables` and `limits`
the parts beside executions; `rows` and `history` turn cells into frozen values and back; `statements` holds the SQL of executions,
prepared once a connection; `schema` makes the tables and migrates older ones. `search` is the index of searches, `reports` answers
queries of people. `connections` opens files and names what went wrong, `disk` keeps room for removals and makes copies, `processes`
says who is at work and who has died in what.

A turn is one INSERT or UPDATE per kind of row. What it touches is stored together, by the number of the execution, without a rowid;
an index costs a page in the log of each commit, so there are few on hot tables, and partial ones. Its history stands in the row of
the execution until it is long enough to be compressed. The first decision of a change needs no savepoint: undoing it is to roll
back and begin again. A turn does nothing for the index of searches: what changed is found by fences (`tables`).

What is not pretty. Whether a new connection is needed after an error hangs on whether the error may keep a statement open
(`_ended`). A full disk makes SQLite roll back by itself, so the commit has to look whether there is still a transaction.
An attempt that is over is found by its id through the execution whose ids begin alike, along all its attempts.

What it follows: SQLite's documentation on isolation, WAL and result codes. The rows are those of `Decision`, in no opinion on
workflows.
"""
