"""One case on both sides: everything done to the server's execution is done to ours, and after each verb the two are compared."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from bindings import Binding, Bindings
from cases import OWN, SERVICE, Case, Step
from service import address
from sides import DONE, Here, Server
from snapshots import Difference, Snapshot, compared

from conductorlite import WorkflowStatus

#: How long the server is given to become what ours is, in seconds; and how long it must have ended not to be waited for.
PATIENCE: Final = 5.0
ENDED: Final = 0.7

_OVER: Final = frozenset(status.value for status in WorkflowStatus if status.terminal)


@attrs.frozen(kw_only=True)
class Finding:
    """A difference, after which verb and in which part it was found, and what it is bound to."""

    case: str
    shown: str
    step: str
    difference: Difference
    binding: Binding | None


@attrs.define
class Comparison:
    """A case being compared."""

    case: Case
    server: Server
    here: Here
    own: str
    bindings: Bindings
    patience: float = PATIENCE
    findings: list[Finding] = attrs.field(factory=list)
    _seen_here: Snapshot = attrs.field(factory=lambda: Snapshot({}, {}), init=False)
    _seen_there: Snapshot = attrs.field(factory=lambda: Snapshot({}, {}), init=False)

    def run(self) -> list[Finding]:
        """Do all of it, up to a difference after which the two are not in the same state any more."""
        case = self.case
        workflows, given, options, steps = self._owned([case.workflows, case.input, case.options, case.steps])
        known = (workflows, *self._owned([case.task_defs, case.handlers]))
        if not self._answers("register", self.server.register(*known), self.here.register(*known)):
            return self.findings
        name = workflows[0]["name"]
        if not self._answers("start", self.server.start(name, given, options), self.here.start(name, given, options)):
            return self.findings
        if self._agree("start"):
            for number, step in enumerate(steps, 1):
                if not all(self._step(f"{number} {step['do']}", each) for each in self._unfolded(step)):
                    break
        return self.findings

    def _owned(self, value: Any) -> Any:
        text = json.dumps(value, ensure_ascii=False).replace(OWN, self.own)
        return json.loads(text.replace(SERVICE, address()) if SERVICE in text else text)

    # ---------------------------------------------------------------- steps

    def _unfolded(self, step: Step) -> Iterator[Step]:
        """A drive is a report on one open task after the other, whichever is open here."""
        if step["do"] != "drive":
            yield step
            return
        chance = random.Random(self.case.name)
        for _ in range(step.get("times", 60)):
            open_tasks = sorted(_open(self._seen_here.document, ""))
            if not open_tasks:
                return
            place, ref, kind, attempt, domain = chance.choice(open_tasks)
            if kind in ("WAIT", "HUMAN"):
                yield {"do": "signal", "of": place, "ref": ref, "status": "COMPLETED", "output": {"case": "b"}}
                continue
            name = kind.removeprefix(OWN)
            outcomes = step.get("outcomes", {}).get(ref) or step.get("outcomes", {}).get(name) or [{}]
            outcome = outcomes[min(attempt, len(outcomes) - 1)]
            worker = {"type": self._owned(kind), "domain": domain}
            yield {"do": "report", "of": place, "ref": ref, **worker, "status": "COMPLETED", **outcome}

    def _step(self, label: str, step: Step) -> bool:
        place = f"<workflow {step.get('of', '')}>"
        there, ours = self._seen_there.ids.get(place, ""), self._seen_here.ids.get(place, "")
        did = step["do"]
        if did == "report":
            label = f"{label} {step['ref']} {step['status']}"
            if (ours, step["ref"]) not in self.here.held:
                self._poll(step["type"], step.get("domain"))
            output = step.get("output", {"value": 1, "case": "a"} if step["status"] == "COMPLETED" else {})
            more = {name: step[name] for name in ("reasonForIncompletion", "callbackAfterSeconds") if name in step}
            if step["status"].startswith("FAILED"):
                more.setdefault("reasonForIncompletion", "it failed")
            said = [
                side.report(each, step["ref"], step["status"], output, more)
                for side, each in ((self.server, there), (self.here, ours))
            ]
        elif did == "signal":
            status, output = step.get("status", "COMPLETED"), step.get("output", {})
            said = [side.signal(each, step["ref"], status, output) for side, each in ((self.server, there), (self.here, ours))]
        elif did == "take":
            return self._take(label, step)
        elif did == "pass":
            self.here.pass_time(step["seconds"])
            time.sleep(step["seconds"])
            self.server.decide(each for label, each in self._seen_there.ids.items() if label.startswith("<workflow"))
            said = [DONE, DONE]
        else:
            said = [
                side.verb(each, step, _newest(seen, step))
                for side, each, seen in ((self.server, there, self._seen_there), (self.here, ours, self._seen_here))
            ]
        return self._answers(label, said[0], said[1]) and self._agree(label)

    def _take(self, label: str, step: Step) -> bool:
        """Take all tasks of a type: as many there as here, whichever they are."""
        ours = self.here.poll(step["type"], step.get("domain"), self._seen_here.label)
        there = self.server.poll(step["type"], step.get("domain"), len(ours), self._seen_there.label)
        if len(ours) != len(there):
            self._note(label, [Difference("taken", len(there), len(ours))])
        return len(ours) == len(there)

    def _poll(self, kind: str, domain: str | None) -> None:
        ours = self.here.poll(kind, domain, self._seen_here.label)
        there = self.server.poll(kind, domain, len(ours), self._seen_there.label)
        if there != ours:
            self._note(f"poll {kind.replace(self.own, OWN)}", [Difference("polled", sorted(there), sorted(ours))])

    # ---------------------------------------------------------------- comparing

    def _answers(self, label: str, server: str, here: str) -> bool:
        """Whether both did it; one alone is a difference, both refusing it is none."""
        if (server == DONE) != (here == DONE):
            self._note(label, [Difference("answer", server, here)])
        return server == here == DONE or (server != DONE and here != DONE and label not in ("register", "start"))

    def _agree(self, label: str) -> bool:
        """Wait until the server's execution is what ours is; whether one can go on from there."""
        self._seen_here = self.here.snapshot()
        patience = max(self.patience, self.case.patience)
        until, ended, pause = time.monotonic() + patience, None, 0.03
        while True:
            self._seen_there = self.server.snapshot()
            found = compared(self._seen_there, self._seen_here)
            now = time.monotonic()
            if all(self._bound(found)) or now > until:
                break
            if self._seen_there.document["status"] in _OVER:
                ended = ended or now
                if now - ended > ENDED:
                    break
            time.sleep(pause)
            pause = min(0.3, pause * 1.5)
        self._note(label, found)
        apart = any(each.path.endswith((".status", "order")) or each.path == "status" for each in found)
        return not apart and all(self._bound(found))

    def _bound(self, found: Sequence[Difference]) -> list[Binding | None]:
        """What each is bound to; what spreads binds whatever nothing else does."""
        bound = [self._binding(each) for each in found]
        spreading = [each for each in bound if each is not None and each.spreads]
        return [
            one or next((each for each in spreading if each.spreads and each.spreads.search(found_at.path)), None)
            for one, found_at in zip(bound, found, strict=True)
        ]

    def _binding(self, each: Difference) -> Binding | None:
        return self.bindings.find(self.case.name, self._shown(each), each)

    def _shown(self, each: Difference) -> str:
        begins = [path for path in self.case.parts if each.path == path or each.path.startswith((f"{path}.", f"{path}["))]
        return self.case.parts[max(begins, key=len)] if begins else ""

    def _note(self, label: str, found: list[Difference]) -> None:
        self.findings += [
            Finding(case=self.case.name, shown=self._shown(each), step=label, difference=each, binding=binding)
            for each, binding in zip(found, self._bound(found), strict=True)
        ]


def _open(document: Mapping[str, Any], place: str) -> Iterator[tuple[str, str, str, int, str]]:
    """(execution, reference, type, attempt, domain) of what waits for somebody outside, in an execution and those below it."""
    if document.get("status") in _OVER:
        return
    for key, row in document.get("tasks", {}).items():
        if row["status"] in ("SCHEDULED", "IN_PROGRESS"):
            worker = row["taskType"].startswith(OWN)
            if worker and row["status"] == "SCHEDULED" and row["callbackAfterSeconds"]:
                continue
            if worker or row["taskType"] in ("WAIT", "HUMAN"):
                yield place, row["referenceTaskName"], row["taskType"], row["retryCount"] or 0, row["domain"] or ""
            elif key in document["children"]:
                yield from _open(document["children"][key], f"{place}{key}/")


def _newest(seen: Snapshot, step: Step) -> str | None:
    """The id of the newest attempt at the step's reference."""
    if step["do"] != "rerun" or "ref" not in step:
        return None
    wanted = re.compile(re.escape(f"<task {step.get('of', '')}{step['ref']}#") + r"\d+'*>")
    return next((seen.ids[label] for label in reversed(list(seen.ids)) if wanted.fullmatch(label)), "no-such-task")
