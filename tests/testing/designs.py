"""Workflows with a planted mistake of design, each with its corrected twin: what `explore` must find, and must not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from conductorlite import Engine, TaskDef, TimeoutPolicy, WorkflowDef, WorkflowTask
from conductorlite.model.definitions import StartWorkflowRequest, SubWorkflowParams
from conductorlite.model.schedules import WorkflowSchedule
from conductorlite.testing import RunState, conserved, in_order, never, whenever
from conductorlite.testing.exploration.invariants import Invariant

FAILS = ["ok", "fails_for_good"]


def work(name: str, ref: str | None = None, *, task: Mapping[str, Any] | None = None, **fields: Any) -> WorkflowTask:
    """A worker's task, tried three times, whose worker is missed after 10 s."""
    options = {"retry_count": 2, "retry_delay_ms": 1_000, "response_timeout_ms": 10_000, "timeout_policy": TimeoutPolicy.RETRY}
    definition = TaskDef(name=name, **{**options, **(task or {})})
    return WorkflowTask(name=name, task_reference_name=ref or name, task_definition=definition, **fields)


def node(kind: str, ref: str, **fields: Any) -> WorkflowTask:
    """A task of the decider's own."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=kind, **fields)


def fork(ref: str, *branches: Sequence[WorkflowTask], on: Sequence[str]) -> list[WorkflowTask]:
    """Branches side by side, and the JOIN of what is named."""
    forked = node("FORK_JOIN", ref, fork_tasks=[list(branch) for branch in branches])
    return [forked, node("JOIN", f"{ref}_join", join_on=list(on))]


def switch(ref: str, on: str, cases: Mapping[str, Sequence[WorkflowTask]], default: Sequence[WorkflowTask] = ()) -> WorkflowTask:
    """A choice by a value."""
    given = {key: list(tasks) for key, tasks in cases.items()}
    options: dict[str, Any] = {"evaluator_type": "value-param", "expression": "on", "input_parameters": {"on": on}}
    return node("SWITCH", ref, decision_cases=given, default_case=list(default), **options)


def steps(*names: str) -> list[WorkflowTask]:
    """Tasks one after another."""
    return [work(name) for name in names]


def terminate(ref: str, status: str) -> WorkflowTask:
    """The end of the workflow."""
    return node("TERMINATE", ref, input_parameters={"terminationStatus": status, "terminationReason": ref})


def flow(name: str, tasks: Sequence[WorkflowTask]) -> WorkflowDef:
    """A workflow."""
    return WorkflowDef(name=name, tasks=list(tasks))


@attrs.frozen(kw_only=True)
class Design:
    """A definition with a mistake, its twin without, and what is asked of both."""

    wrong: WorkflowDef
    right: WorkflowDef
    may: Mapping[str, Any] = attrs.field(factory=dict)
    invariants: Sequence[Invariant] = ()
    #: Options of the search, and those that are others for the twin.
    more: Mapping[str, Any] = attrs.field(factory=dict)
    instead: Mapping[str, Any] = attrs.field(factory=dict)


def lost_compensation() -> Design:
    """What was charged is given back when the parcel cannot be shipped, but not when the label cannot be printed."""

    def made(undo: bool) -> WorkflowDef:
        charge = work("charge", compensate="refund" if undo else None)
        gives_back = [work("refund"), terminate("unshipped", "FAILED")]
        shipped = switch("shipped", "${ship.status}", {"COMPLETED": []}, [] if undo else gives_back)
        ship = [work("ship", optional=not undo), shipped]
        return flow("order", [*steps("check", "reserve", "quote"), charge, *steps("pack", "label"), *ship, *steps("mail", "close")])

    may = {"ship": FAILS, "label": FAILS, "check": FAILS}
    rule = [whenever("charge").and_run_fails().then("refund")]
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"others": ["ok"]})


def join_that_hangs() -> Design:
    """A JOIN waits for a task of one case only."""

    def made(on: str) -> WorkflowDef:
        chosen = switch("speed", "${quote.output.speed}", {"express": steps("courier")}, steps("post"))
        legs = fork(
            "legs", [work("invoice")], [work("pack"), chosen, work("hand_over")], [work("mail")], on=["invoice", on, "mail"]
        )
        return flow("parcel", [*steps("check", "quote", "reserve"), *legs, *steps("close")])

    may = {"quote": [{"speed": "express"}, {"speed": "normal"}]}
    return Design(wrong=made("courier"), right=made("hand_over"), may=may)


def double_charge() -> Design:
    """A charge that reports late is tried again, and the bank is not told that it is the same."""
    order = flow("order", steps("check", "reserve", "quote", "charge", "pack", "ship", "mail", "close"))
    rule = [never(lambda run: run.acts("charge") > 1)]
    may = {"charge": ["ok", "late"]}
    return Design(wrong=order, right=order, may=may, invariants=rule, instead={"idempotent": ["charge"]})


def approval_after_expiry() -> Design:
    """An approval that comes after the offer has expired still buys."""

    def made(asks: bool) -> WorkflowDef:
        expiry = [node("WAIT", "expiry", input_parameters={"duration": "3 days"})]
        expired = [node("SET_VARIABLE", "expired", input_parameters={"expired": "yes"}), work("tell_expired")]
        both = fork("open", [node("HUMAN", "approval"), work("note")], [*expiry, *expired], on=["note"])
        buy = steps("buy", "book", "mail")
        late = [switch("in_time", "${workflow.variables.expired}", {"yes": steps("withdraw")}, buy)]
        return flow("offer", [*steps("check", "quote", "offer"), *both, *(late if asks else buy)])

    def buys(run: RunState) -> bool:
        return run.status_of("expired") == "COMPLETED" and run.status_of("buy") == "SCHEDULED"

    more = {"signals": {"approval": [{}, "after offer"]}, "others": ["ok"]}
    return Design(wrong=made(False), right=made(True), invariants=[never(buys)], more=more)


def retried_step() -> Design:
    """A transfer that fails after the money has gone is tried again."""

    def made(retries: int) -> WorkflowDef:
        transfer = work("transfer", task={"retry_count": retries})
        return flow("payout", [*steps("check", "limit", "quote", "hold"), transfer, *steps("book", "mail", "archive")])

    rule = [never(lambda run: run.acts("transfer") > 1)]
    return Design(wrong=made(2), right=made(0), may={"transfer": ["ok", "fails", "acts_then_fails"]}, invariants=rule)


def starvation() -> Design:
    """A worker that hangs keeps the only slot, and every other execution waits for it."""

    def made(timeout: int) -> WorkflowDef:
        render = work("render", task={"concurrent_exec_limit": 1, "timeout_ms": timeout})
        return flow("video", [*steps("fetch", "cut", "mix"), render, *steps("check", "upload", "tell", "archive")])

    return Design(wrong=made(0), right=made(600_000), may={"render": ["ok", "never"]}, more={"executions": 2, "others": ["ok"]})


def overlap() -> Design:
    """A nightly job that takes long runs beside its next start."""
    job = flow("nightly", steps("lock", "fetch", "clean", "load", "check", "index", "report", "unlock"))

    def scheduled(policy: str) -> Callable[[Engine], object]:
        request = StartWorkflowRequest(name="nightly")
        schedule = WorkflowSchedule(name="night", start_workflow_request=request, interval_ms=3_600_000, overlap_policy=policy)
        return lambda engine: engine.schedules.save(schedule)

    rule = [never(lambda run: sum(one.running for one in run.all) > 1, "two at once")]
    more = {"executions": 0, "until": "3h", "setup": scheduled("ALLOW_ALL"), "others": ["ok"]}
    may = {"load": ["ok", "takes 90m"]}
    return Design(wrong=job, right=job, may=may, invariants=rule, more=more, instead={"setup": scheduled("SKIP")})


def unanswered() -> Design:
    """The customer is asked, and may never answer."""

    def made(bounded: bool) -> WorkflowDef:
        week = TaskDef(name="answer", timeout_ms=604_800_000) if bounded else None
        asks = node("HUMAN", "answer", task_definition=week)
        return flow("pickup", [*steps("tell", "pack", "label"), asks, *steps("reserve", "ship", "mail", "close")])

    return Design(wrong=made(False), right=made(True), more={"signals": {"answer": [{}, "never"]}, "others": ["ok"]})


def stale_data() -> Design:
    """A price that is kept in a variable once is charged after the quote was made again."""

    def made(price: str) -> WorkflowDef:
        keep = node("SET_VARIABLE", "keep", input_parameters={"price": "${quote.output.price}"})
        kept = switch("kept", "${workflow.variables.price}", {"7": [], "9": []}, [keep])
        charge = work("charge", input_parameters={"price": price})
        return flow("order", [*steps("check", "quote"), kept, *steps("reserve", "pack"), charge, *steps("ship", "mail")])

    def stale(run: RunState) -> bool:
        task = run.task("charge")
        return task is not None and task.input_data["price"] != run.output("quote")["price"]

    more = {"verbs": ["rerun from quote"], "others": ["ok"]}
    may = {"quote": [{"price": 7}, {"price": 9}]}
    right = made("${quote.output.price}")
    return Design(wrong=made("${workflow.variables.price}"), right=right, may=may, invariants=[never(stale)], more=more)


def orphan() -> Design:
    """A shipment that was only set going goes on when its order is terminated."""
    shipment = flow("shipment", steps("pick", "pack", "hand_over", "track"))

    def made(kind: str) -> WorkflowDef:
        if kind == "START_WORKFLOW":
            child = node(kind, "shipment", input_parameters={"startWorkflow": {"name": "shipment"}})
        else:
            child = node(kind, "shipment", sub_workflow_param=SubWorkflowParams(name="shipment"))
        return flow("order", [*steps("check", "reserve", "charge"), child, *steps("invoice", "book", "mail", "close")])

    def outlives(run: RunState) -> bool:
        return bool(run.name == "order" and run.status == "TERMINATED" and any(one.running for one in run.all))

    more = {"verbs": ["terminate"], "registered": [shipment], "others": ["ok"]}
    return Design(wrong=made("START_WORKFLOW"), right=made("SUB_WORKFLOW"), invariants=[never(outlives)], more=more)


def endless_loop() -> Design:
    """A loop ends when it has come to a number of pages that may be null."""

    def made(sign: str) -> WorkflowDef:
        go_on = f"$.pages['iteration'] {sign} $.count['pages']"
        given = {"count": "${count.output}"}
        pages = node("DO_WHILE", "pages", loop_condition=go_on, loop_over=steps("fetch", "store"), input_parameters=given)
        return flow("crawl", [*steps("login", "count"), pages, *steps("check", "index", "report", "logout")])

    may = {"count": [{"pages": 3}, {"pages": None}]}
    return Design(wrong=made("!="), right=made("<"), may=may, more={"others": ["ok"]})


def undone_in_disorder() -> Design:
    """The stock is released while the money is being given back; it must not be sold again before."""

    def made(beside: bool) -> WorkflowDef:
        undo = fork("undo", [work("refund")], [work("release")], on=["refund", "release"]) if beside else steps("refund", "release")
        shipped = switch("shipped", "${ship.status}", {"COMPLETED": steps("mail")}, undo)
        ship = work("ship", optional=True)
        return flow("order", [*steps("check", "reserve", "charge", "pack"), ship, shipped, *steps("close", "archive")])

    rule = [in_order("refund", "release"), conserved({"charge": 1, "refund": -1}, completed=(0, 1), failed=None)]
    return Design(wrong=made(True), right=made(False), may={"ship": FAILS}, invariants=rule, more={"others": ["ok"]})


DESIGNS: dict[str, Callable[[], Design]] = {
    made.__name__: made
    for made in (
        *(lost_compensation, join_that_hangs, double_charge, approval_after_expiry, retried_step, starvation),
        *(overlap, unanswered, stale_data, orphan, endless_loop, undone_in_disorder),
    )
}
