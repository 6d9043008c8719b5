"""More, planted after the search was thought to be done: what several parts of a workflow do wrong only together, each with its
corrected twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from designs import FAILS, Design, flow, fork, node, steps, switch, terminate, work

from conductorlite import Engine, EventHandler, TaskDef, WorkflowDef, WorkflowTask
from conductorlite import flow as as_flow
from conductorlite import task as as_task
from conductorlite.flows import attempt, otherwise
from conductorlite.flows import terminate as end
from conductorlite.model.definitions import RateLimitConfig, StartWorkflowRequest, SubWorkflowParams, WorkflowTimeoutPolicy
from conductorlite.model.schedules import WorkflowSchedule
from conductorlite.testing import RunState, conserved, eventually, never, whenever


def child(ref: str, below: WorkflowDef, **fields: Any) -> WorkflowTask:
    """A child of that definition."""
    return node("SUB_WORKFLOW", ref, sub_workflow_param=SubWorkflowParams(name=below.name, workflow_definition=below), **fields)


def half_a_fork() -> Design:
    """Rooms are held side by side, as many as the plan says; the JOIN undoes all of them, but only if it has them all."""

    def made(whole: bool) -> WorkflowDef:
        rooms = node(
            "FORK_JOIN_DYNAMIC",
            "rooms",
            dynamic_fork_tasks_param="tasks",
            dynamic_fork_tasks_input_param_name="inputs",
            input_parameters={"tasks": "${plan.output.tasks}", "inputs": {}},
        )
        held = node("JOIN", "held", compensate="release_all" if whole else None)
        return flow("congress", [*steps("ask", "plan"), rooms, held, *steps("speakers", "print", "invite", "pay", "close")])

    def planned(undo: bool) -> Mapping[str, Any]:
        rooms: list[dict[str, Any]] = [{"name": "hold", "taskReferenceName": f"hold_{at}", "type": "SIMPLE"} for at in "ab"]
        return {"tasks": [{**one, "compensate": "release", "permissive": True} if undo else one for one in rooms]}

    rule = [conserved({"hold": 1, "release": -1, "release_all": -2}, completed=2, failed=0)]
    may = {"hold": ["ok", "fails_for_good"], "pay": ["ok", "fails_for_good"]}
    return Design(
        wrong=made(True),
        right=made(False),
        may={**may, "plan": [planned(False)]},
        invariants=rule,
        more={"others": ["ok"]},
        instead={"may": {**may, "plan": [planned(True)]}},
    )


def lost_update() -> Design:
    """Two branches add to one variable: what each adds to was read before somebody else's work in between."""

    def made(after: bool) -> WorkflowDef:
        def branch(who: str) -> list[WorkflowTask]:
            given = {"before": "${workflow.variables.points}", "n": f"${{count_{who}.output.n}}"}
            add = node("INLINE", f"add_{who}", input_parameters={**given, "expression": "($.before || 0) + $.n"})
            keep = node("SET_VARIABLE", f"keep_{who}", input_parameters={"points": f"${{add_{who}.output.result}}"})
            return (
                [work(f"count_{who}"), work(f"check_{who}")] if after else [work(f"count_{who}"), add, work(f"check_{who}"), keep]
            )

        given = {"a": "${count_a.output.n}", "b": "${count_b.output.n}", "expression": "$.a + $.b"}
        total = node("INLINE", "total", input_parameters=given)
        keep = node("SET_VARIABLE", "keep", input_parameters={"points": "${total.output.result}"})
        last = ["check_a", "check_b"] if after else ["keep_a", "keep_b"]
        both = fork("count", branch("a"), branch("b"), on=last)
        return flow("poll", [*steps("open", "shut"), *both, *([total, keep] if after else []), *steps("tell", "archive")])

    def wrong(run: RunState) -> bool:
        return run.status == "COMPLETED" and run.variables["points"] != 12

    may = {"count_a": [{"n": 5}, "takes 1m"], "count_b": [{"n": 7}, "takes 1m"]}
    return Design(
        wrong=made(False), right=made(True), may=may, invariants=[never(wrong, "points are lost")], more={"others": ["ok"]}
    )


def both_answers() -> Design:
    """Of two people one may agree, the other call it off; the first answer goes on, and the second one is still taken."""

    def made(one: bool) -> WorkflowDef:
        agreed, off = steps("ship", "tell_shipped"), steps("refund", "tell_off")
        if one:
            answers = [node("HUMAN", "agree"), switch("agreed", "${agree.output.yes}", {"true": agreed}, off)]
        else:
            week = TaskDef(name="call_off", timeout_ms=7 * 86_400_000)
            called_off = switch("called_off", "${call_off.status}", {"COMPLETED": off})
            calls = [node("HUMAN", "call_off", task_definition=week, optional=True), called_off]
            answers = fork("answers", [node("HUMAN", "agree"), *agreed], calls, on=["tell_shipped"])
        return flow("order", [*steps("check", "charge", "ask"), *answers, *steps("close", "archive")])

    rule = [never(lambda run: run.acts("ship") > 0 and run.acts("refund") > 0, "shipped and refunded")]
    answered: Mapping[str, Any] = {"agree": [{"yes": True}, "after ask"]}
    return Design(
        wrong=made(False),
        right=made(True),
        invariants=rule,
        more={"signals": {**answered, "call_off": [{}, "never", "after ask"]}, "others": ["ok"]},
        instead={"signals": {"agree": [{"yes": True}, {"yes": False}, "after ask"]}},
    )


def refunded_twice() -> Design:
    """The charge has its refund, and so has the failure workflow, from before there were compensations."""

    def made(both: bool) -> tuple[WorkflowDef, WorkflowDef]:
        clean = flow("clean_up", steps("log", "refund", "tell") if both else steps("log", "tell"))
        charge = work("charge", compensate="refund")
        tasks = [*steps("check", "reserve", "quote"), charge, *steps("pack", "label", "ship", "close")]
        return WorkflowDef(name="order", tasks=tasks, failure_workflow="clean_up"), clean

    (wrong, twice), (right, once) = made(True), made(False)
    return Design(
        wrong=wrong,
        right=right,
        may={"ship": ["ok", "fails_for_good"]},
        invariants=[conserved({"charge": 1, "refund": -1})],
        more={"registered": [twice], "others": ["ok"]},
        instead={"registered": [once]},
    )


def mailed_again() -> Design:
    """A campaign is set going by an order; when the order is rerun from before, it is set going once more."""
    campaign = flow("campaign", steps("select", "send", "count"))

    def made(key: str | None) -> WorkflowDef:
        request: dict[str, Any] = {"name": "campaign"}
        if key is not None:
            request |= {"idempotencyKey": key, "idempotencyStrategy": "RETURN_EXISTING"}
        begin = node("START_WORKFLOW", "begin", input_parameters={"startWorkflow": request})
        return flow("launch", [*steps("text", "images", "approve", "budget"), begin, *steps("watch", "report", "close")])

    rule = [never(lambda run: sum(one.name == "campaign" and one.acts("send") for one in run.all) > 1, "sent twice")]
    more = {"verbs": ["rerun from budget"], "registered": [campaign], "others": ["ok"]}
    return Design(wrong=made(None), right=made("${workflow.workflowId}"), invariants=rule, more=more)


def ended_by_a_branch() -> Design:
    """A branch that finds the customer well known ends everything as done, also the charge that is on its way beside it."""

    def made(ends: bool) -> WorkflowDef:
        known = switch("known", "${look_up.output.known}", {"yes": [terminate("done", "COMPLETED")] if ends else steps("greet")})
        both = fork("both", [*steps("charge", "book")], [*steps("look_up"), known, work("score")], on=["book", "score"])
        return flow("order", [*steps("check", "reserve"), *both, *steps("ship", "mail", "close")])

    rule = [whenever("charge", "ACTED").and_run_completes().then("book")]
    may = {"look_up": [{"known": "no"}, {"known": "yes"}]}
    return Design(wrong=made(True), right=made(False), may=may, invariants=rule, more={"others": ["ok"]})


def waits_for_itself() -> Design:
    """One import of a customer at a time; a large one is cut, and its parts are imports of the same customer."""

    def made(key: str) -> WorkflowDef:
        limit = RateLimitConfig(rate_limit_key=key, concurrent_exec_limit=1)
        part = WorkflowDef(name="part", tasks=steps("read", "map", "load"), rate_limit_config=limit)
        given = {"customer": "${workflow.input.customer}"}
        parts = [child("first", part, input_parameters=given), child("second", part, input_parameters=given)]
        large = switch("large", "${measure.output.size}", {"large": [*steps("cut"), *parts]})
        tasks = [*steps("open", "measure"), large, *steps("index", "check", "shut")]
        whole = RateLimitConfig(rate_limit_key="${workflow.input.customer}", concurrent_exec_limit=1)
        return WorkflowDef(name="import", tasks=tasks, rate_limit_config=whole)

    more = {"input": {"customer": "acme"}, "others": ["ok"], "executions": 2}
    return Design(
        wrong=made("${workflow.input.customer}"),
        right=made("parts of ${workflow.input.customer}"),
        may={"measure": [{"size": "small"}, {"size": "large"}]},
        invariants=[eventually(lambda run: run.status == "COMPLETED", "it is imported")],
        more=more,
    )


def forgotten_rounds() -> Design:
    """Each round of a loop reserves a line of the order; to save space only the last round is kept, so only it is undone."""

    def made(keep: int | None) -> WorkflowDef:
        given = {} if keep is None else {"keepLastN": keep}
        body = [work("look"), work("reserve", compensate="release")]
        lines = node("DO_WHILE", "lines", loop_condition="$.lines['iteration'] < 3", loop_over=body, input_parameters=given)
        return flow("order", [*steps("check", "quote"), lines, *steps("pack", "charge", "ship", "mail")])

    rule = [conserved({"reserve": 1, "release": -1}, completed=3, failed=0)]
    return Design(
        wrong=made(1), right=made(None), may={"charge": ["ok", "fails_for_good"]}, invariants=rule, more={"others": ["ok"]}
    )


def skipped_and_shipped() -> Design:
    """An operator skips the charge that hangs, and the parcel goes out for nothing."""

    def made(asks: bool) -> WorkflowDef:
        go = steps("pack", "ship")
        sends = [switch("paid", "${charge.status}", {"COMPLETED": go}, steps("ask_again"))] if asks else go
        return flow("order", [*steps("check", "reserve", "quote", "charge"), *sends, *steps("mail", "close", "archive")])

    rule = [never(lambda run: run.acts("ship") > run.acts("charge"), "shipped for nothing")]
    return Design(wrong=made(False), right=made(True), invariants=rule, more={"verbs": ["skip charge"], "others": ["ok"]})


def fulfilled_twice() -> Design:
    """The shop says that an order is paid, and so does the bank: a handler starts what the order itself starts too."""
    fulfil = flow("fulfil", steps("pick", "pack", "ship", "track"))

    def made(own: bool) -> WorkflowDef:
        begins = [node("START_WORKFLOW", "fulfil", input_parameters={"startWorkflow": {"name": "fulfil"}})] if own else []
        event = node("EVENT", "paid", sink="conductor:paid")
        return flow("order", [*steps("check", "reserve", "charge", "book"), event, *begins, *steps("thank", "close", "archive")])

    def setup(engine: Engine) -> None:
        actions = [{"action": "start_workflow", "start_workflow": {"name": "fulfil"}}]
        document = {"name": "ships", "event": "conductor:order:paid", "active": True, "actions": actions}
        engine.events.register(EventHandler.from_json(document))

    rule = [never(lambda run: sum(one.acts("ship") for one in run.all if one.name == "fulfil") > 1, "shipped twice")]
    more = {"setup": setup, "registered": [fulfil], "others": ["ok"]}
    return Design(wrong=made(True), right=made(False), invariants=rule, more=more)


def charged_too_late() -> Design:
    """An order is given up after an hour; a bank that takes two has the money all the same, and only what completed is undone."""

    def made(voids: bool) -> WorkflowDef:
        tasks = [*steps("check", "reserve", "quote"), work("charge", compensate="refund"), *steps("pack", "ship", "mail", "close")]
        more: dict[str, Any] = {"failure_workflow": "void"} if voids else {}
        return WorkflowDef(
            name="order", tasks=tasks, timeout_ms=3_600_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF, **more
        )

    rule = [whenever("charge", "ACTED").and_run("TIMED_OUT").then("void", "ACTED")]
    void = flow("void", [work("void"), work("tell")])
    return Design(
        wrong=made(False),
        right=made(True),
        may={"charge": ["ok", "takes 2h"]},
        invariants=rule,
        more={"others": ["ok"], "registered": [void]},
    )


def half_a_child() -> Design:
    """A band is wished for, not needed: its child may fail; the deposit that it has paid by then is gone."""

    def made(undo: bool) -> WorkflowDef:
        band = flow(
            "band", [*steps("ask", "listen"), work("deposit", compensate="take_back" if undo else None), *steps("sign", "note")]
        )
        return flow("party", [*steps("date", "place"), child("band", band, optional=True), *steps("food", "invite", "thank")])

    rule = [whenever("deposit").and_run_fails().then("take_back", "ACTED")]
    may = {"sign": ["ok", "fails_for_good"], "listen": ["ok", "fails_for_good"]}
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"others": ["ok"]})


def gone_on_unready() -> Design:
    """A report is asked for at most three times; then it is fetched, whether it was ready or not."""

    def made(asks: bool) -> WorkflowDef:
        rest = node("WAIT", "rest", input_parameters={"duration": "1 minute"})
        until = "$.ready != true && $.polls['iteration'] < 3"
        given = {"ready": "${ask.output.ready}"}
        polls = node("DO_WHILE", "polls", loop_condition=until, loop_over=[rest, work("ask")], input_parameters=given)
        fetch = steps("fetch", "parse")
        go_on = [switch("was_ready", "${ask.output.ready}", {"true": fetch}, steps("complain"))] if asks else fetch
        return flow("report", [*steps("login", "begin"), polls, *go_on, *steps("store", "logout")])

    rule = [never(lambda run: run.acts("fetch") > 0 and run.output("ask").get("ready") is not True, "fetched unready")]
    may = {"ask": [{"ready": True}, {"ready": False}]}
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"others": ["ok"]})


def paid_while_waiting() -> Design:
    """Orders are charged, then wait in line for the one machine, and some are given up before it is their turn."""

    def made(first: bool) -> WorkflowDef:
        mill, charge = work("mill", task={"concurrent_exec_limit": 1}), work("charge", compensate=None if not first else "refund")
        middle = [mill, charge] if first else [charge, mill]
        return WorkflowDef(
            name="part",
            tasks=[*steps("check", "draw"), *middle, *steps("clean", "pack", "ship", "close")],
            timeout_ms=3_600_000,
            timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF,
        )

    rule = [conserved({"charge": 1, "refund": -1})]
    more = {"executions": 2, "others": ["ok"]}
    return Design(wrong=made(False), right=made(True), may={"mill": ["ok", "takes 50m"]}, invariants=rule, more=more)


@as_task
def check() -> None: ...


@as_task
def refund() -> None: ...


@as_task
def charge() -> None: ...


@as_task
def pack() -> None: ...


@as_task
def ship() -> None: ...


@as_task
def apologize() -> None: ...


@as_task
def thank() -> None: ...


@as_task
def close() -> None: ...


def swallowed() -> Design:
    """A flow catches what goes wrong and says sorry; so it ends well, and nothing that was done before is undone."""

    def made(ends: bool) -> Any:
        @as_flow(name="order")
        def order() -> None:
            check()
            charge.options(undo=refund)()
            with attempt() as tried:
                pack()
                ship()
            with tried.failed:
                apologize()
                if ends:
                    end("FAILED", "not shipped")
            with otherwise():
                thank()
            close()

        return order

    rule = [conserved({"charge": 1, "refund": -1, "ship": -1}, completed=0, failed=0)]
    return Design(wrong=made(False), right=made(True), may={"ship": FAILS, "pack": FAILS}, invariants=rule, more={"others": ["ok"]})


def gave_up_but_had_it() -> Design:
    """The bank is told the key of a charge, so trying again does no harm; but the last try had worked when it was given up."""

    def made(asks: bool) -> WorkflowDef:
        charge = work("charge", compensate=None if asks else "refund", optional=asks)
        gives_back = [work("ask_bank"), work("refund"), terminate("unpaid", "FAILED")]
        charged = [switch("charged", "${charge.status}", {"COMPLETED": []}, gives_back)] if asks else []
        return flow("order", [*steps("check", "reserve", "quote"), charge, *charged, *steps("pack", "ship", "mail", "close")])

    may = {"charge": ["ok", "fails", "acts_then_crashes"]}
    rule = [whenever("charge", "ACTED").and_run_fails().then("refund")]
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"idempotent": ["charge"], "others": ["ok"]})


def overbooked() -> Design:
    """Two guests look whether the last room is free, and both book it: it was taken between the look and the booking."""

    def made(at_once: bool) -> WorkflowDef:
        taken = [switch("got_it", "${book.output.got}", {"true": steps("pay", "mail")}, steps("sorry"))]
        looks = [
            work("look"),
            switch("free", "${look.output.free}", {"true": [work("think"), work("book"), *taken]}, steps("full")),
        ]
        return flow("stay", [*steps("greet", "ask"), *([work("book"), *taken] if at_once else looks), *steps("close")])

    def booked(run: RunState) -> int:
        return sum(one.acts("book") for one in run.all)

    may = {"look": [lambda run: {"free": not booked(run)}], "book": [{"got": True}], "think": ["ok", "takes 5m"]}
    both = never(lambda run: sum(one.acts("pay") for one in run.all) > 1, "one room, sold twice")
    return Design(
        wrong=made(False),
        right=made(True),
        may=may,
        invariants=[both],
        more={"executions": 2, "others": ["ok"]},
        instead={"may": {**may, "book": [lambda run: {"got": not booked(run)}]}},
    )


def paid_in_part() -> Design:
    """An order waits for two payments; the bank's handler ends the wait for the first with each, so the second is never seen."""

    def made(second: str) -> tuple[WorkflowDef, Callable[[Engine], object]]:
        waits = fork("payments", [node("WAIT", "first"), work("book_first")], [node("WAIT", "second"), work("book_second")],
                     on=["book_first", "book_second"])  # fmt: skip

        def setup(engine: Engine) -> None:
            for at, ref in (("deposit", "first"), ("rest", second)):
                ends = {"workflowId": "${order}", "taskRefName": ref, "output": {}}
                document = {
                    "name": at, "event": "bank:paid", "condition": f"$.part == '{at}'", "active": True,
                    "actions": [{"action": "complete_task", "complete_task": ends}],
                }  # fmt: skip
                engine.events.register(EventHandler.from_json(document))

        return flow("sale", [*steps("offer", "sign", "bill"), *waits, *steps("ship", "mail", "close")]), setup

    (wrong, once), (right, each) = made("first"), made("second")
    paid = {"bank:paid": [*({"order": "run", "part": part} for part in ("deposit", "rest")), "after bill"]}
    return Design(wrong=wrong, right=right, more={"messages": paid, "setup": once, "others": ["ok"]}, instead={"setup": each})


def skipped_hour() -> Design:
    """Each hour is settled by the job of its hour; the hour of a start that is skipped is settled by nobody."""
    job = flow("settle", steps("open", "read", "sum", "compare", "book", "report", "sign", "shut"))

    def scheduled(policy: str) -> Callable[[Engine], object]:
        request = StartWorkflowRequest(name="settle")
        schedule = WorkflowSchedule(name="hourly", start_workflow_request=request, interval_ms=3_600_000, overlap_policy=policy)
        return lambda engine: engine.schedules.save(schedule)

    def gap(run: RunState) -> bool:
        hours = sorted(one.workflow.input_data["_scheduledTime"] for one in run.all)
        return any(later - before > 3_600_000 for before, later in pairwise(hours))

    more = {"executions": 0, "until": "4h", "others": ["ok"]}
    return Design(
        wrong=job,
        right=job,
        may={"sum": ["ok", "takes 90m"]},
        invariants=[never(gap, "an hour is missing")],
        more={**more, "setup": scheduled("SKIP")},
        instead={"setup": scheduled("BUFFER_ALL")},
    )


def last_resort() -> Design:
    """Four ways of paying, one after the other; when the last one fails too, the order goes on as if it were paid."""

    def made(ends: bool) -> WorkflowDef:
        ways = [terminate("unpaid", "FAILED")] if ends else steps("note_unpaid")
        for name in ("invoice", "transfer", "wallet", "card"):
            ways = [work(name, optional=True), switch(f"by_{name}", f"${{{name}.status}}", {"COMPLETED": []}, ways)]
        return flow("order", [*steps("check", "reserve", "quote", "address"), *ways, *steps("pack", "label", "ship", "close")])

    def paid(run: RunState) -> bool:
        return any(run.acts(name) for name in ("card", "wallet", "transfer", "invoice"))

    rule = [never(lambda run: run.acts("ship") > 0 and not paid(run), "shipped for nothing")]
    others = ["ok", "fails", "fails_for_good", "late"]
    return Design(wrong=made(False), right=made(True), invariants=rule, more={"others": others})


def called_off_below() -> Design:
    """An operator calls off the delivery, a child; it was made optional for a strike once, so the invoice is sent all the same."""
    delivery = flow("delivery", steps("route", "load", "hand_over", "sign"))

    def made(asks: bool) -> WorkflowDef:
        bill = [switch("delivered", "${deliver.status}", {"COMPLETED": steps("invoice")}, steps("credit"))]
        begins = [*steps("check", "reserve", "pack"), child("deliver", delivery, optional=True)]
        return flow("order", [*begins, *(bill if asks else steps("invoice")), *steps("mail", "close", "archive")])

    rule = [never(lambda run: run.acts("invoice") > run.acts("hand_over"), "an invoice for nothing")]
    more = {"verbs": ["terminate deliver", "pause deliver"], "others": ["ok"]}
    return Design(wrong=made(False), right=made(True), invariants=rule, more=more)


DESIGNS: dict[str, Callable[[], Design]] = {
    made.__name__: made
    for made in (
        *(half_a_fork, lost_update, both_answers, refunded_twice, mailed_again, ended_by_a_branch, waits_for_itself),
        *(forgotten_rounds, skipped_and_shipped, fulfilled_twice, charged_too_late, half_a_child, gone_on_unready),
        *(paid_while_waiting, skipped_hour, swallowed, gave_up_but_had_it, overbooked, paid_in_part),
        *(last_resort, called_off_below),
    )
}
