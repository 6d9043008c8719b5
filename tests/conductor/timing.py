"""Timeouts, delays and limits, in seconds as few as the server can tell apart; task domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cases import OWN, Case, task, workflow

DRIVE: Final = {"do": "drive"}
POLL: Final = {"do": "take", "type": f"{OWN}a"}
PASS: Final = {"do": "pass", "seconds": 4}
BASE: Final = {"name": f"{OWN}a", "retryCount": 1, "retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 3600}
POLICIES: Final = ("RETRY", "TIME_OUT_WF", "ALERT_ONLY")


def _case(name: str, steps: Any, *, tasks: Any = None, definition: Any = None, more: Any = None, options: Any = None) -> Case:
    flow = workflow(*(tasks or [task("a"), task("z", "NOOP")]), outputParameters={"s": "${a.status}"}, **(more or {}))
    defs = [] if definition is None else [{**BASE, **definition}]
    return Case(name=f"timing/{name}", workflows=[flow], task_defs=defs, steps=steps, options=options or {}, patience=8)


def _report(status: str, **more: Any) -> dict[str, Any]:
    return {"do": "report", "ref": "a", "type": f"{OWN}a", "status": status, **more}


def _timeouts() -> list[Case]:
    found = []
    kinds: dict[str, tuple[Mapping[str, Any], list[Any]]] = {
        "response": ({"responseTimeoutSeconds": 1}, [POLL, PASS]),
        "poll": ({"pollTimeoutSeconds": 1}, [PASS]),
        "task": ({"timeoutSeconds": 1, "responseTimeoutSeconds": 1}, [POLL, PASS]),
        "task_alone": ({"timeoutSeconds": 1}, [POLL, PASS]),
        "task_not_polled": ({"timeoutSeconds": 1, "responseTimeoutSeconds": 1}, [PASS]),
        "response_not_polled": ({"responseTimeoutSeconds": 1}, [PASS]),
        "total": ({"totalTimeoutSeconds": 2, "responseTimeoutSeconds": 2}, [POLL, PASS]),
        "response_in_time": ({"responseTimeoutSeconds": 30}, [POLL, _report("IN_PROGRESS"), PASS]),
    }
    for name, (definition, steps) in kinds.items():
        for policy in POLICIES:
            for retries in (0, 1):
                found.append(
                    _case(
                        f"{name}-{policy}-{retries}",
                        [*steps, DRIVE],
                        definition={**definition, "timeoutPolicy": policy, "retryCount": retries},
                    )
                )
    for policy in ("TIME_OUT_WF", "ALERT_ONLY"):
        more = {"timeoutSeconds": 2, "timeoutPolicy": policy}
        found += [
            _case(f"workflow-{policy}", [PASS, DRIVE], more=more),
            _case(f"workflow-{policy}-at_work", [POLL, PASS, DRIVE], more=more),
            _case(f"workflow-{policy}-paused", [{"do": "pause"}, PASS, {"do": "resume"}, DRIVE], more=more),
            _case(f"workflow-{policy}-waiting", [PASS, DRIVE], tasks=[task("a", "WAIT"), task("z", "NOOP")], more=more),
        ]
    for how in ("optional", "permissive"):
        one = [task("a", **{how: True}), task("z", "NOOP")]
        definition = {"responseTimeoutSeconds": 1, "timeoutPolicy": "RETRY", "retryCount": 0}
        found.append(_case(f"response-{how}", [POLL, PASS, DRIVE], tasks=one, definition=definition))
    return found


def _delays() -> list[Case]:
    found = []
    fail = _report("FAILED")
    for logic in ("FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"):
        for seconds in (0, 1):
            for scale in (1, 2):
                definition = {"retryLogic": logic, "retryDelaySeconds": seconds, "backoffScaleFactor": scale, "retryCount": 3}
                steps = [fail, {"do": "pass", "seconds": 3}, fail, {"do": "pass", "seconds": 5}, fail]
                found.append(_case(f"delay-{logic}-{seconds}-{scale}", steps, definition=definition))
        for longest in (0, 1, 5):
            definition = {"retryLogic": logic, "retryDelaySeconds": 3, "maxRetryDelaySeconds": longest, "retryCount": 3}
            found.append(_case(f"delay-longest-{logic}-{longest}", [fail, DRIVE], definition=definition))
    found += [
        _case(
            "delay-start", [{"do": "pass", "seconds": 3}, DRIVE], tasks=[task("a", startDelay=2), task("z", "NOOP")], definition={}
        ),
        _case("delay-start-retry", [{"do": "pass", "seconds": 3}, fail, DRIVE], tasks=[task("a", startDelay=2)], definition={}),
        _case(
            "delay-callback", [_report("IN_PROGRESS", callbackAfterSeconds=2), {"do": "pass", "seconds": 3}, DRIVE], definition={}
        ),
        _case("delay-fatal", [_report("FAILED_WITH_TERMINAL_ERROR"), DRIVE], definition={"retryDelaySeconds": 1}),
        _case("delay-wait", [{"do": "pass", "seconds": 3}, DRIVE], tasks=[task("a", "WAIT", inputParameters={"duration": "2s"})]),
    ]
    return found


def _limits() -> list[Case]:
    branches = [[task(f"b{number}", name=f"{OWN}a")] for number in range(4)]
    fork = [
        task("f", "FORK_JOIN", forkTasks=branches),
        task("j", "JOIN", joinOn=[branch[0]["taskReferenceName"] for branch in branches]),
    ]
    done = {**_report("COMPLETED"), "ref": "b0"}
    return [
        _case("limit-concurrent-0", [POLL, POLL], tasks=fork, definition={"concurrentExecLimit": 0}),
        _case("limit-concurrent-1", [POLL], tasks=[task("a")], definition={"concurrentExecLimit": 1}),
        _case("limit-concurrent-2", [POLL], tasks=fork, definition={"concurrentExecLimit": 2}),
        _case("limit-concurrent-4", [POLL, done], tasks=fork, definition={"concurrentExecLimit": 4}),
        _case("limit-rate-0", [POLL], tasks=fork, definition={"rateLimitPerFrequency": 0, "rateLimitFrequencyInSeconds": 60}),
        _case("limit-rate-2", [POLL], tasks=fork, definition={"rateLimitPerFrequency": 2, "rateLimitFrequencyInSeconds": 60}),
        _case("limit-rate-4", [POLL], tasks=fork, definition={"rateLimitPerFrequency": 4, "rateLimitFrequencyInSeconds": 60}),
    ]


def _domains() -> list[Case]:
    two = [task("a"), task("b"), task("n", "NOOP")]
    known: dict[str, dict[str, str]] = {
        "one": {f"{OWN}a": "d"},
        "all": {"*": "d"},
        "both": {"*": "d", f"{OWN}b": "e"},
        "none": {f"{OWN}a": "NO_DOMAIN"},
        "fallback": {f"{OWN}a": "d,e"},
        "fallback_none": {f"{OWN}a": "d,NO_DOMAIN"},
        "all_fallback_none": {"*": "d,NO_DOMAIN"},
        "empty": {f"{OWN}a": ""},
        "other": {f"{OWN}c": "d"},
        "blanks": {f"{OWN}a": " d , e "},
        "by_reference": {"a": "d"},
    }
    child = workflow(task("a"), task("b"), name="child")
    sub = task("s", "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}child", "version": 1})
    own = task("s", "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}child", "version": 1, "taskToDomain": {"*": "mine"}})
    found = []
    for name, domains in known.items():
        options = {"taskToDomain": domains}
        found.append(Case(name=f"domains/{name}", workflows=[workflow(*two)], options=options, steps=[DRIVE]))
        polled = [{"do": "take", "type": f"{OWN}a", "domain": "e"}, {"do": "restart"}, DRIVE]
        found.append(Case(name=f"domains/{name}-polled", workflows=[workflow(*two)], options=options, steps=polled))
        if name in ("one", "all", "both", "fallback_none"):
            for label, each in {"child": sub, "own": own}.items():
                flow = workflow(each, task("z", "NOOP"))
                found.append(
                    Case(name=f"domains/{name}-{label}", workflows=[flow, child], options=options, steps=[DRIVE], patience=8)
                )
    return found


def cases() -> list[Case]:
    """Timeouts, delays, limits, domains."""
    return [*_timeouts(), *_delays(), *_limits(), *_domains()]
