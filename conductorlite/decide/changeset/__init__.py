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

It is one class on another, by what they write: `view.View` reads and has the work list, `mailboxes` adds events and messages,
`admissions` adds limits, `rows.Changeset` adds tasks and makes the Decision.

The work list has two ends. `schedule` items are a stack, so that what a fork schedules comes out in Conductor's order (heads
depth first, then the JOIN); `advance` items are a queue, handled in the order in which tasks ended.

What is not pretty: verbs that move rows about (retry, rerun, migrate) switch the counting off, and must count again at their end
(`recount`); and some state is set for the time of one call only (`strict`, `standpoint`, `beginning`), because what reads it is
deep in the rendering of a template.
"""
