"""Twelve more workflows with a planted mistake, of the same kinds and other shapes: JSON and a flow, loops, children, schedules,
people, limits, compensations and verbs; each with its corrected twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from designs import Design, flow, fork, node, steps, switch, work

from conductorlite import Engine, TaskDef, WorkflowDef
from conductorlite import flow as as_flow
from conductorlite import task as as_task
from conductorlite.flows import human, join, otherwise, parallel, wait, when
from conductorlite.model.definitions import RateLimitConfig, StartWorkflowRequest, SubWorkflowParams, WorkflowTimeoutPolicy
from conductorlite.model.schedules import WorkflowSchedule
from conductorlite.testing import RunState, conserved, never


def child_not_undone() -> Design:
    """A flight is booked by a child that has ended well; when the hotel fails after it, nobody cancels the flight."""

    def made(undo: bool) -> WorkflowDef:
        fly = flow("fly", [*steps("find", "seat", "book", "ticket")])
        param = SubWorkflowParams(name="fly", workflow_definition=fly)
        child = node("SUB_WORKFLOW", "fly", sub_workflow_param=param, compensate="unbook" if undo else None)
        stay = fork("stay", steps("rooms", "hotel"), steps("car"), on=["hotel", "car"])
        return flow("trip", [*steps("ask", "plan"), child, *stay, *steps("insure", "send")])

    may = {"hotel": ["ok", "fails_for_good"], "insure": ["ok", "fails_for_good"]}
    rule = [conserved({"book": 1, "unbook": -1}, completed=1, failed=0)]
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"others": ["ok"]})


def join_in_a_loop() -> Design:
    """In each round either a mail or a call; the JOIN waits for the mail."""

    def made(on: str) -> WorkflowDef:
        how = {
            "name": "how", "taskReferenceName": "how", "type": "SWITCH", "evaluatorType": "javascript",
            "expression": "$.at == 'phone' ? 'call' : 'mail'", "inputParameters": {"at": "${lookup.output.at}"},
            "decisionCases": {"call": [{"name": "call", "taskReferenceName": "call", "type": "SIMPLE"}]},
            "defaultCase": [{"name": "mail", "taskReferenceName": "mail", "type": "SIMPLE"}],
        }  # fmt: skip

        def simple(name: str) -> Mapping[str, Any]:
            return {"name": name, "taskReferenceName": name, "type": "SIMPLE"}

        both = {
            "name": "both",
            "taskReferenceName": "both",
            "type": "FORK_JOIN",
            "forkTasks": [[how, simple("note")], [simple("log")]],
        }
        body = [simple("lookup"), both, {"name": "met", "taskReferenceName": "met", "type": "JOIN", "joinOn": [on, "log"]}]
        loop = {
            "name": "people", "taskReferenceName": "people", "type": "DO_WHILE", "loopCondition": "$.people['iteration'] < 2",
            "loopOver": body,
        }  # fmt: skip
        document = {"name": "reach", "version": 1, "schemaVersion": 2, "tasks": [simple("load"), loop, simple("report")]}
        return WorkflowDef.from_json(document)

    may = {"lookup": [{"at": "desk"}, {"at": "phone"}]}
    return Design(wrong=made("mail"), right=made("note"), may=may, more={"others": ["ok"]})


def paid_in_both_branches() -> Design:
    """A customer may pay now, or is invoiced after three days; the invoice does not ask whether it was paid."""

    def made(one_wait: bool) -> WorkflowDef:
        invoice, grace = [work("invoice"), work("collect", "collect_later")], {"duration": "3 days"}
        if one_wait:
            answered = switch("answered", "${pays.output.paid}", {"yes": [work("collect", "collect_now")]}, invoice)
            money = [node("WAIT", "pays", input_parameters=grace), answered]
        else:
            now = [node("HUMAN", "pays"), work("collect", "collect_now")]
            money = fork(
                "money", now, [node("WAIT", "grace", input_parameters=grace), *invoice], on=["collect_now", "collect_later"]
            )
        return flow("sale", [*steps("cart", "reserve", "address"), *money, *steps("ship", "mail")])

    rule = [never(lambda run: run.acts("collect") > 1, "collected twice")]
    more = {"signals": {"pays": [{"paid": "yes"}, "after address"]}, "others": ["ok"]}
    return Design(wrong=made(False), right=made(True), invariants=rule, more=more)


@as_task
def rate() -> None: ...


@as_task
def still_valid() -> dict[str, Any]:
    """Whether the rate still holds."""
    return {}


@as_task
def lock_rate() -> None: ...


@as_task
def exchange() -> None: ...


@as_task
def note_expired() -> None: ...


@as_task
def tell() -> None: ...


@as_task
def book_entry() -> None: ...


@as_task
def decline() -> None: ...


def _exchange(check_after: bool) -> Any:
    @as_flow(name="fx")
    def fx() -> None:
        rate()
        lock_rate()
        with parallel(join=False) as fork:
            with fork.branch():
                told = tell.options(name="tell_offer")()
            with fork.branch():
                wait("1h", name="validity")
                note_expired()
            with fork.branch():
                human("agree")
                if check_after:
                    valid = still_valid()
                    with when(valid["result"] == "yes"):
                        exchange()
                        book_entry()
                    with otherwise():
                        decline()
                else:
                    exchange()
                    book_entry()
        join(told)
        tell.options(name="tell_end")()

    return fx


def retried_child() -> Design:
    """A child that pays and then fails is tried again as a whole."""

    def made(retries: int) -> WorkflowDef:
        pays = flow(
            "payment", [*steps("quote"), work("transfer", task={"retry_count": 0}), work("receipt", task={"retry_count": 0})]
        )
        param = SubWorkflowParams(name="payment", workflow_definition=pays)
        child = node(
            "SUB_WORKFLOW",
            "payment",
            sub_workflow_param=param,
            task_definition=TaskDef(name="payment", retry_count=retries, retry_delay_ms=1000),
        )
        return flow("salary", [*steps("hours", "sum", "tax"), child, *steps("slip", "archive")])

    rule = [never(lambda run: run.acts("transfer") > 1, "paid twice")]
    may = {"receipt": ["ok", "fails_for_good", "times_out"]}
    return Design(wrong=made(2), right=made(0), may=may, invariants=rule, more={"others": ["ok"]})


def held_by_people() -> Design:
    """A workflow of which one may run at a time waits for a person for ever; every other one of its customer waits too."""

    def made(most: str | None) -> WorkflowDef:
        limit = TaskDef(name="sign", timeout_ms=0 if most is None else 3_600_000)
        sign = node("HUMAN", "sign", task_definition=limit, optional=most is not None)
        tasks = [*steps("draft", "check"), sign, *steps("file", "mail", "copy", "archive", "close")]
        return WorkflowDef(
            name="contract", tasks=tasks, rate_limit_config=RateLimitConfig(rate_limit_key="all", concurrent_exec_limit=1)
        )

    more = {"executions": 2, "signals": {"sign": [{}, "never", "after check"]}, "others": ["ok"]}
    return Design(wrong=made(None), right=made("1h"), more=more)


def overlapping_child() -> Design:
    """A schedule skips while the last one runs, but the job only starts its work and ends."""
    load = flow("load", steps("open", "copy", "index", "shut"))

    def made(kind: str) -> WorkflowDef:
        if kind == "START_WORKFLOW":
            child = node(kind, "load", input_parameters={"startWorkflow": {"name": "load"}})
        else:
            child = node(kind, "load", sub_workflow_param=SubWorkflowParams(name="load"))
        return flow("hourly", [*steps("list", "sort", "plan"), child, *steps("note")])

    def setup(engine: Engine) -> None:
        request = StartWorkflowRequest(name="hourly")
        engine.schedules.save(
            WorkflowSchedule(name="h", start_workflow_request=request, interval_ms=3_600_000, overlap_policy="SKIP")
        )

    rule = [never(lambda run: sum(one.running and one.name == "load" for one in run.all) > 1, "two loads at once")]
    more = {"executions": 0, "until": "3h", "setup": setup, "registered": [load], "others": ["ok"]}
    may = {"copy": ["ok", "takes 90m"]}
    return Design(wrong=made("START_WORKFLOW"), right=made("SUB_WORKFLOW"), may=may, invariants=rule, more=more)


def stale_after_retry() -> Design:
    """A list of recipients is put into a variable only the first time; after a retry the mail goes to the old ones."""

    def made(again: bool) -> WorkflowDef:
        keep = node("SET_VARIABLE", "keep", input_parameters={"to": "${recipients.output.to}"})
        kept = switch("kept", "${workflow.variables.to}", {"ada": [], "bob": []}, [keep])
        send = work("send", input_parameters={"to": "${workflow.variables.to}"}, task={"retry_count": 0})
        return flow(
            "letter",
            [*steps("load", "recipients"), *([keep] if again else [kept]), *steps("render", "check"), send, *steps("log", "close")],
        )

    def stale(run: RunState) -> bool:
        sent = run.task("send")
        return sent is not None and sent.input_data["to"] != run.output("recipients").get("to")

    may = {"recipients": [{"to": "ada"}, {"to": "bob"}], "send": ["ok", "fails_for_good"]}
    more = {"verbs": ["rerun from recipients", "retry"], "others": ["ok"]}
    return Design(wrong=made(False), right=made(True), may=may, invariants=[never(stale)], more=more)


def child_outlives_timeout() -> Design:
    """A parent times out; what it has only started goes on reserving stock."""
    stock = flow(
        "stock", [*steps("count"), node("WAIT", "delivery", input_parameters={"duration": "10 days"}), *steps("put", "mark")]
    )

    def made(kind: str) -> WorkflowDef:
        if kind == "START_WORKFLOW":
            child = node(kind, "stock", input_parameters={"startWorkflow": {"name": "stock"}})
        else:
            child = node(kind, "stock", sub_workflow_param=SubWorkflowParams(name="stock"))
        tasks = [*steps("check", "order"), child, node("HUMAN", "signature"), *steps("pay", "mail", "close")]
        return WorkflowDef(name="supply", tasks=tasks, timeout_ms=3 * 86_400_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF)

    def outlives(run: RunState) -> bool:
        return run.name == "supply" and not run.running and run.status != "COMPLETED" and any(one.running for one in run.all)

    more = {"signals": {"signature": [{}, "never", "after order"]}, "registered": [stock], "others": ["ok"]}
    return Design(wrong=made("START_WORKFLOW"), right=made("SUB_WORKFLOW"), invariants=[never(outlives)], more=more)


def cursor_without_end() -> Design:
    """Pages are fetched until the cursor is the empty text; the last page of some servers has null."""

    def made(condition: str) -> WorkflowDef:
        fetch = work("fetch", input_parameters={"cursor": "${fetch.output.cursor}"})
        loop = node(
            "DO_WHILE",
            "paging",
            loop_condition=condition,
            loop_over=[fetch, work("save")],
            input_parameters={"cursor": "${fetch.output.cursor}"},
        )
        return flow("export", [*steps("login", "begin"), loop, *steps("sum", "zip", "upload", "logout")])

    may = {"fetch": [{"cursor": ""}, {"cursor": "x"}, {"cursor": None}]}
    wrong, right = (
        "$.cursor !== '' && $.paging['iteration'] < 1000000",
        "$.cursor != null && $.cursor !== '' && $.paging['iteration'] < 5",
    )
    return Design(
        wrong=made(wrong), right=made(right), may={**may, "fetch": [{"cursor": ""}, {"cursor": None}]}, more={"others": ["ok"]}
    )


def undone_by_failure_workflow() -> Design:
    """What was rented is returned before it was emptied: the failure workflow does both side by side."""

    def made(beside: bool) -> tuple[WorkflowDef, WorkflowDef]:
        undo = (
            fork("undo", [work("empty")], [work("give_back")], on=["empty", "give_back"]) if beside else steps("empty", "give_back")
        )
        clean = flow("clean_up", undo)
        tasks = [
            *steps("ask", "rent", "load"),
            work("drive"),
            work("unload", task={"retry_count": 0}),
            *steps("return", "pay", "rate"),
        ]
        return WorkflowDef(name="moving", tasks=tasks, failure_workflow="clean_up"), clean

    (wrong, beside), (right, after) = made(True), made(False)
    rule = [never(lambda run: any(_wrong(one) for one in run.all), "given back before it was empty")]
    may = {"unload": ["ok", "fails_for_good"]}
    return Design(
        wrong=wrong,
        right=right,
        may=may,
        invariants=rule,
        more={"registered": [beside], "others": ["ok"]},
        instead={"registered": [after]},
    )


def _wrong(run: RunState) -> bool:
    order = [one for one in run.order if one in ("empty", "give_back")]
    return order != sorted(order)


def fx() -> Design:
    """An agreement after the rate has expired still exchanges."""

    def expired(run: RunState) -> bool:
        return run.status_of("note_expired") == "COMPLETED" and run.status_of("exchange") == "SCHEDULED"

    more = {"signals": {"agree": [{}, "after lock_rate"]}, "others": ["ok"]}
    return Design(
        wrong=_exchange(False),
        right=_exchange(True),
        invariants=[never(expired)],
        may={"still_valid": [{"result": "no"}]},
        more=more,
    )


DESIGNS: dict[str, Callable[[], Design]] = {
    made.__name__: made
    for made in (
        *(child_not_undone, join_in_a_loop, paid_in_both_branches, fx, retried_child, held_by_people, overlapping_child),
        *(stale_after_retry, child_outlives_timeout, cursor_without_end, undone_by_failure_workflow),
    )
}
