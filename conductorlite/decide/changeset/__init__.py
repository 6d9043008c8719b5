"""The scratchpad that grows into one Decision: a changeset over what a `Reader` answers.

A changeset is the only writer of rows, and keeps what belongs to a row beside it: its line in the journal, its timers, its message
in the queue, the counters of the scope it lives in. Operators and verbs say *what* happens to a task, `decide.transitions` which
fields that writes. What follows from it is settled here, once:

* every change of status is checked against the transition tables, and journalled;
* a row that becomes or ceases to be live moves the `open` counter of its scope (the workflow, or the DO_WHILE around it);
* a task that ends gives up its message and its slot, and what follows from it goes on the work list;
* at the end of the turn each row's timers are set or canceled by its deadlines, as they were read and as they are.

What is read is the changeset's own row if the turn has changed it, else the reader's: no code sees a row in two states. A row is
copied when the turn first changes it, and the copy is written until the turn has decided: what the reader has answered stays.

`changeset.Changeset` is one turn. It holds parts, each for what it writes, and none of them knows the changeset:

| part | file | what it writes |
|---|---|---|
| `moment` | `moment` | the instants of the turn |
| `rows` | `rows` | attempts: which the turn has made, changed and deleted; the plan's node of each |
| `journal` | `journal` | lines of the journal, and what led to them |
| `events` | `events` | timers, and events to other executions. `deadlines` has the timers follow from the rows |
| `queues` | `queues` | messages to workers |
| `mailbox` | `mailbox` | messages to the execution |
| `emissions` | `emissions` | values that attempts emit, and latest values |
| `limits` | `admissions` | slots of limits, and who is next |
| `documents` | `documents` | payloads, definitions found at run time, what scripts answer |
| `work` | `work_list` | what is left to do |

What a `Reader` must answer, and the bounds of a turn, are in `reader`. What stays in `Changeset` touches several parts: a task that
ends leaves its queue and its limit, sets its row, writes its line and goes on the work list.

The work list has two ends. `schedule` items are a stack, so that what a fork schedules comes out in Conductor's order (heads
depth first, then the JOIN); `advance` items are a queue, handled in the order in which tasks ended.

What is not pretty: verbs that move rows about (retry, rerun, migrate) switch the counting off, and must count again at their end
(`recount`); and some state is set for the time of one call only (`documents.strict`, `rows.standpoint`, `beginning`), because what
reads it is deep in the rendering of a template.
"""
