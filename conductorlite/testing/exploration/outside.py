"""What may come from outside at a moment of a search: signals, messages, verbs, and definitions that change."""

from __future__ import annotations

import re
from typing import Final

from conductorlite.model.executions import Task
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.memory.rows import Store
from conductorlite.testing.exploration.cases import ROOT, Action, Case, Situation, before
from conductorlite.testing.exploration.outcomes import named_by, verb_fits

__all__ = ["Outside", "execution_id"]

#: An id that is derived from another one's says nothing to people.
_DERIVED: Final = re.compile("[0-9a-f]{32}")


class Outside:
    """The world outside of one search."""

    def __init__(self, case: Case, store: Store) -> None:
        self.case, self._store = case, store

    def of(self, workflow_id: str) -> str:
        """Return what a label begins with that is about an execution: nothing for the first one."""
        if workflow_id == ROOT:
            return ""
        row = self._store.workflows.get(workflow_id)
        return f"{row.name if row is not None and _DERIVED.fullmatch(workflow_id) else workflow_id}/"

    def signals(self, now: Situation) -> tuple[list[Action], list[Action]]:
        """Signals in the ordinary course: those that are waited for; and the others."""
        usual: list[Action] = []
        early: list[Action] = []
        sent = dict(now.signaled)
        asked = [(ref, owner) for ref in self.case.signals for owner in self._owners(ref)] if now.started else []
        for ref, owner in asked:
            values, tasks = self.case.signals[ref], self._tasks(owner, ref)
            count = sent.get((owner, ref), 0)
            if not all(self._done(owner, one, count) for one in before(values)):
                continue
            waits = [one for one in tasks if one.status is TaskStatus.IN_PROGRESS]
            # In a loop it is asked for again, and may come before that as well.
            times = max(1, len(tasks) + any(one.ref != one.base_ref for one in tasks)) * (2 if "twice" in values else 1)
            called = f"signal to {self.of(owner)}{waits[0].ref if waits else ref}"
            outputs = [one for one in values if not isinstance(one, str)] or [{}]
            made = [
                Action(kind="signal", label=called + (f" ({number})" if number > 1 else ""), name=ref, value=(owner, output))
                for number, output in enumerate(outputs, 1)
            ]
            if waits and count < len(tasks):
                usual += made
                if "never" in values:
                    usual.append(Action(kind="no signal", label=f"no {called}", name=ref, value=(owner, None)))
            elif count < times:
                early += made
        return usual, early

    def _owners(self, ref: str) -> list[str]:
        """The executions in which something waits for such a signal, or did; the first one as long as there is none."""
        return [one for one in self._store.executions if self._tasks(one, ref)] or [ROOT]

    def _tasks(self, owner: str, ref: str) -> list[Task]:
        execution = self._store.executions.get(owner)
        return [] if execution is None else [one for one in execution.attempts.values() if ref in (one.ref, one.base_ref)]

    def _done(self, owner: str, ref: str, before: int) -> bool:
        """Return True if a task is done; in a loop, once more than signals were sent `before`."""
        done = [task for one in {owner: 0, ROOT: 0} for task in self._tasks(one, ref) if task.status.successful]
        return len(done) > (before if any(task.ref != task.base_ref for task in done) else 0)

    def messages(self, now: Situation) -> list[Action]:
        """Messages from outside that have not come yet."""
        if not now.started:
            return []
        left = [
            (f"message {event}" + (f" ({number})" if number > 1 else ""), event, payload)
            for event, said in self.case.messages.items()
            if all(self._done(one, ref, 0) for ref in before(said) for one in self._owners(ref)[:1])
            for number, payload in enumerate((one for one in said if not isinstance(one, str)), 1)
        ]
        comes = [Action(kind="message", label=one, name=one, value=said) for one, *said in left if one not in now.used]
        return comes + self._sends(now)

    def _sends(self, now: Situation) -> list[Action]:
        """Values that were not sent yet to executions that have not ended."""
        found = []
        for owner in [execution_id(number) for number in range(1, now.started + 1)] if self.case.sends else ():
            row = self._store.workflows.get(owner)
            if row is None or row.status.terminal:
                continue
            for topic, said in self.case.sends.items():
                if not all(any(task.status.successful for task in self._tasks(owner, ref)) for ref in before(said)):
                    continue
                for number, value in enumerate((one for one in said if not before([one])), 1):
                    label = f"{self.of(owner)}send {topic}" + (f" ({number})" if number > 1 else "")
                    if label not in now.used:
                        found.append(Action(kind="send", label=label, name=label, value=(owner, topic, value)))
        return found

    def verbs(self, now: Situation, *, busy: bool) -> tuple[list[Action], list[Action]]:
        """Return the verbs in the ordinary course (what is paused goes on), and all others, which are out of the ordinary."""
        rows = self._store.workflows
        paused = [] if busy else [one for one, row in rows.items() if row.status is WorkflowStatus.PAUSED][:1]
        usual = [Action(kind="verb", label=f"{self.of(one)}resume", name="resume", value=one) for one in paused]
        fits = []
        for verb in self.case.verbs:
            row = None if verb in now.used else rows.get(self._target(verb) or "")
            if row and verb_fits(verb, over=row.status.terminal, paused=row.status is WorkflowStatus.PAUSED):
                fits.append(Action(kind="verb", label=verb, name=verb, value=row.workflow_id))
        return usual, fits + self._changes(now)

    def _changes(self, now: Situation) -> list[Action]:
        """Definitions that the first execution may be moved to, and those that may be registered, each once."""
        root = self._store.workflows.get(ROOT)
        moves = () if root is None or root.status.terminal else self.case.migrations
        found = [("migrate", f"migrate to version {one.version}", one) for one in moves]
        if now.started:
            found += [("register", f"register {one.name} version {one.version}", one) for one in self.case.registrations]
        return [Action(kind=kind, label=said, name=said, value=one) for kind, said, one in found if said not in now.used]

    def _target(self, verb: str) -> str | None:
        """The execution that a verb is used on: the first one, or the last child that a task has begun."""
        ref = named_by(verb)
        if not ref or verb.startswith(("rerun", "fork", "skip", "emit")):
            return ROOT
        begun = [
            one.sub_workflow_id for owner in self._owners(ref) for one in self._tasks(owner, ref) if one.sub_workflow_id is not None
        ]
        return begun[-1] if begun else None


def execution_id(number: int) -> str:
    """The id of an execution that the search starts, by its number from 1."""
    return ROOT if number == 1 else f"{ROOT}-{number}"
