"""Twenty more workflows with a planted mistake, of other kinds: messages and streams, forks and migrations, versions and schedules,
limits, joins and failures of what undoes; each with its corrected twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from designs import FAILS, Design, flow, fork, node, steps, switch, terminate, work

from conductorlite import Engine, EventHandler, TaskDef, TimeoutPolicy, WorkflowDef, WorkflowTask
from conductorlite.model.definitions import WorkflowTimeoutPolicy
from conductorlite.testing import RunState, conserved, eventually, never, whenever

HOUR = 3_600_000


def receive(ref: str, topic: str, **given: Any) -> WorkflowTask:
    """A wait for a message to the execution."""
    return node("PULL_WORKFLOW_MESSAGES", ref, input_parameters={"topic": topic, **given})


def received(run: RunState, ref: str) -> Any:
    """What the message of a step says, None without one."""
    messages = run.output(ref).get("messages") or [{"payload": None}]
    return messages[0]["payload"]


def payment_counted_twice() -> Design:
    """An order waits for two payments; a bank that tells of the first one twice has paid it, as far as the order knows."""

    def made(asks: bool) -> WorkflowDef:
        parts = [receive("first", "paid"), work("book_first"), receive("second", "paid")]
        given = {"a": "${first.output.messages[0].payload.part}", "b": "${second.output.messages[0].payload.part}"}
        more = {"evaluator_type": "javascript", "expression": "$.a == $.b ? 'same' : 'other'", "input_parameters": given}
        same = node("SWITCH", "same", decision_cases={"same": [receive("third", "paid")]}, **more)
        return flow("sale", [*steps("offer", "bill"), *parts, *([same] if asks else []), *steps("ship", "mail", "close")])

    def unpaid(run: RunState) -> bool:
        parts = {(received(run, ref) or {}).get("part") for ref in ("first", "second", "third")}
        return run.acts("ship") > 0 and not {1, 2} <= parts

    paid = {"paid": [{"part": 1}, {"part": 1}, {"part": 2}, "after bill"]}
    return Design(
        wrong=made(False), right=made(True), invariants=[never(unpaid, "shipped unpaid")], more={"sends": paid, "others": ["ok"]}
    )


def nothing_received() -> Design:
    """The wait for an address ends after a day, with a message or without one; the parcel goes to nobody."""

    def made(asks: bool) -> WorkflowDef:
        ship = work("ship", input_parameters={"to": "${address.output.messages[0].payload}"})
        known = switch("known", "${address.output.count}", {"1": [ship]}, steps("send_back"))
        wait = receive("address", "address", duration="1 day")
        return flow("parcel", [*steps("take", "weigh", "ask"), wait, known if asks else ship, *steps("mail", "close")])

    def nobody(run: RunState) -> bool:
        task = run.task("ship")
        return task is not None and task.input_data["to"] is None

    return Design(
        wrong=made(False),
        right=made(True),
        invariants=[never(nobody, "shipped to nobody")],
        more={"sends": {"address": ["Rome", "after ask"]}, "others": ["ok"]},
    )


def undo_lost_by_a_move() -> Design:
    """The new definition of an order has a gift, and has forgotten that a charge is given back."""

    def made(version: int, undo: bool) -> WorkflowDef:
        charge = work("charge", compensate="refund" if undo else None)
        more = steps("gift") if version > 1 else []
        tasks = [*steps("check", "quote"), charge, *steps("pack"), *more, *steps("ship", "mail", "close")]
        return WorkflowDef(name="order", version=version, tasks=tasks)

    return Design(
        wrong=made(1, True),
        right=made(1, True),
        may={"ship": FAILS},
        invariants=[conserved({"charge": 1, "refund": -1})],
        more={"migrations": [made(2, False)], "others": ["ok"]},
        instead={"migrations": [made(2, True)]},
    )


def two_versions_of_a_child() -> Design:
    """A tariff is asked for at the begin and at the end; a new one may come between, and the two do not go together."""
    first, second = (WorkflowDef(name="tariff", version=version, tasks=steps(f"rate_{version}")) for version in (1, 2))

    def made(version: int | None) -> WorkflowDef:
        begins = {"name": "tariff"} if version is None else {"name": "tariff", "version": version}
        asks = [node("START_WORKFLOW", ref, input_parameters={"startWorkflow": begins}) for ref in "ab"]
        return flow("rental", [*steps("pick", "sign"), asks[0], *steps("drive", "return"), asks[1], *steps("bill", "close")])

    rule = [never(lambda run: run.acts("rate_1") > 0 and run.acts("rate_2") > 0, "two tariffs")]
    more = {"registered": [first], "registrations": [second], "others": ["ok"]}
    return Design(wrong=made(None), right=made(1), invariants=rule, more=more)


def forked_and_undone_twice() -> Design:
    """An operator forks a failed order before its shipment; when the fork fails as well, the charge is given back again."""
    charge = work("charge", compensate="refund")
    order = flow("order", [*steps("check", "quote"), charge, *steps("pack", "label", "ship", "mail", "close")])

    def refunded(run: RunState) -> bool:
        return sum(one.acts("refund") for one in run.all) > sum(one.acts("charge") for one in run.all)

    more = {"verbs": ["fork from pack"], "others": ["ok"]}
    return Design(
        wrong=order,
        right=order,
        may={"ship": FAILS},
        invariants=[never(refunded, "refunded twice")],
        more=more,
        instead={"verbs": ["rerun from check"]},
    )


def too_slow_for_its_limit() -> Design:
    """A partner takes one call an hour; the second order of that hour is over before it is its turn."""

    def made(hours: float) -> WorkflowDef:
        call = work("call", task={"rate_limit_per_frequency": 1, "rate_limit_frequency_ms": HOUR})
        ends = {"timeout_ms": int(hours * HOUR), "timeout_policy": WorkflowTimeoutPolicy.TIME_OUT_WF}
        return WorkflowDef(name="order", tasks=[*steps("check", "quote"), call, *steps("pack", "ship", "close")], **ends)

    rule = [eventually(lambda run: run.status == "COMPLETED", "it is delivered")]
    return Design(wrong=made(0.5), right=made(3), invariants=rule, more={"executions": 2, "others": ["ok"]})


def undo_that_fails() -> Design:
    """The bank is down when the charge is given back, and nobody hears of it."""
    tells = flow("tidy", steps("tell_bank"))

    def made(told: bool) -> WorkflowDef:
        charge = work("charge", compensate="refund")
        tasks = [*steps("check", "reserve", "quote"), charge, *steps("pack", "ship", "mail", "close")]
        return WorkflowDef(name="order", tasks=tasks, failure_workflow="tidy" if told else None)

    return Design(
        wrong=made(False),
        right=made(True),
        may={"ship": FAILS, "refund": FAILS},
        invariants=[conserved({"charge": 1, "refund": -1, "tell_bank": -1}, failed=(0, -1))],
        more={"registered": [tells], "others": ["ok"]},
    )


def reserved_for_nobody() -> Design:
    """The answer must come within an hour; when it does not, the room stays reserved."""

    def made(undo: bool) -> WorkflowDef:
        sure = TaskDef(name="sure", timeout_ms=HOUR, timeout_policy=TimeoutPolicy.TIME_OUT_WF)
        room = work("room", compensate="free_room" if undo else None)
        return flow("stay", [*steps("look", "quote"), room, node("HUMAN", "sure", task_definition=sure), *steps("pay", "close")])

    rule = [conserved({"room": 1, "free_room": -1})]
    more = {"signals": {"sure": [{}, "after room"]}, "others": ["ok"]}
    return Design(wrong=made(False), right=made(True), invariants=rule, more=more)


def placed_twice() -> Design:
    """The shop tells of an order twice, as a queue may, and each time one is started."""
    order = flow("order", steps("check", "reserve", "charge", "ship"))

    def starts(key: Mapping[str, str]) -> Callable[[Engine], object]:
        started = {"name": "order", "input": {}, **key}
        actions = [{"action": "start_workflow", "start_workflow": started}]
        document = {"name": "starts", "event": "shop:placed", "active": True, "actions": actions}
        return lambda engine: engine.events.register(EventHandler.from_json(document))

    rule = [never(lambda run: sum(one.acts("charge") for one in run.all) > 1, "charged twice")]
    more = {"executions": 1, "registered": [order], "messages": {"shop:placed": [{"id": "o-1"}, {"id": "o-1"}]}, "others": ["ok"]}
    tells = flow("shop", steps("open"))
    once = {"idempotencyKey": "${id}", "idempotencyStrategy": "RETURN_EXISTING"}
    return Design(wrong=tells, right=tells, invariants=rule, more={**more, "setup": starts({})}, instead={"setup": starts(once)})


def join_without_the_slow_one() -> Design:
    """The JOIN waits for the fast price only, and what comes after it reads the slow one."""

    def made(on: Sequence[str]) -> WorkflowDef:
        prices = fork("prices", [*steps("ask_fast", "fast")], [*steps("ask_slow", "slow")], on=on)
        buy = work("buy", input_parameters={"price": "${slow.output.price}"})
        return flow("deal", [*steps("open"), *prices, buy, *steps("book", "mail", "close")])

    def blind(run: RunState) -> bool:
        task = run.task("buy")
        return task is not None and task.input_data["price"] is None

    may = {"slow": [{"price": 7}, "takes 5m"]}
    return Design(wrong=made(["fast"]), right=made(["fast", "slow"]), may=may, invariants=[never(blind)], more={"others": ["ok"]})


def shipped_unchecked() -> Design:
    """The check of a parcel is optional, so that its branch does not stop the other; the parcel goes out whatever it says."""

    def made(asks: bool) -> WorkflowDef:
        scan = work("scan", optional=True)
        both = fork("both", [scan], [*steps("label", "print")], on=["scan", "print"])
        checked = switch("checked", "${scan.status}", {"COMPLETED": steps("ship")}, steps("open_again"))
        return flow("parcel", [*steps("take", "weigh"), *both, *([checked] if asks else steps("ship")), *steps("close")])

    rule = [never(lambda run: run.acts("ship") > 0 and run.status_of("scan") != "COMPLETED", "shipped unchecked")]
    return Design(wrong=made(False), right=made(True), may={"scan": FAILS}, invariants=rule, more={"others": ["ok"]})


def nothing_to_join() -> Design:
    """As many rooms as the plan says; a plan without any is paid all the same."""

    def made(asks: bool) -> WorkflowDef:
        rooms = node(
            "FORK_JOIN_DYNAMIC", "rooms", dynamic_fork_tasks_param="tasks", dynamic_fork_tasks_input_param_name="inputs",
            input_parameters={"tasks": "${plan.output.tasks}", "inputs": {}},
        )  # fmt: skip
        pays = [switch("any", "${plan.output.any}", {"yes": steps("pay")}, steps("tell"))] if asks else steps("pay")
        return flow("congress", [*steps("ask", "plan"), rooms, node("JOIN", "held"), *pays, *steps("invite", "close")])

    room = {"name": "hold", "taskReferenceName": "hold_a", "type": "SIMPLE"}
    may = {"plan": [{"tasks": [room], "any": "yes"}, {"tasks": [], "any": "no"}]}
    rule = [never(lambda run: run.acts("pay") > run.acts("hold"), "paid for nothing")]
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"others": ["ok"]})


def moved_past_the_check() -> Design:
    """A check is put before the charge; orders that are moved after it are charged unchecked."""

    def made(version: int, late: bool) -> WorkflowDef:
        check = steps("vet") if version > 1 else []
        tasks = [*steps("take", "quote"), *([] if late else check), *steps("reserve", "pack"), *(check if late else [])]
        return WorkflowDef(name="order", version=version, tasks=[*tasks, *steps("charge", "ship", "mail")])

    def unvetted(run: RunState) -> bool:
        return run.workflow.version == 2 and run.status == "COMPLETED" and run.acts("vet") == 0

    late = WorkflowDef(name="order", version=2, tasks=[*steps("take", "quote", "reserve", "pack", "charge", "ship", "mail", "vet")])
    return Design(
        wrong=made(1, False),
        right=made(1, False),
        invariants=[never(unvetted, "never vetted")],
        more={"migrations": [made(2, False)], "others": ["ok"]},
        instead={"migrations": [late]},
    )


def only_an_alert() -> Design:
    """The time limit of a person's step tells of itself, and then waits on."""

    def made(policy: TimeoutPolicy) -> WorkflowDef:
        limit = TaskDef(name="sign", timeout_ms=HOUR, timeout_policy=policy)
        return flow("contract", [*steps("draft", "check"), node("HUMAN", "sign", task_definition=limit), *steps("file", "close")])

    more = {"signals": {"sign": [{}, "never"]}, "others": ["ok"]}
    return Design(wrong=made(TimeoutPolicy.ALERT_ONLY), right=made(TimeoutPolicy.TIME_OUT_WF), more=more)


def restarted_and_charged() -> Design:
    """An order that has failed is restarted from its beginning, and the bank is not told that the charge is the same."""
    order = flow("order", steps("check", "reserve", "charge", "pack", "ship", "mail"))
    rule = [never(lambda run: run.acts("charge") > 1, "charged twice")]
    more = {"verbs": ["restart"], "others": ["ok"]}
    return Design(wrong=order, right=order, may={"ship": FAILS}, invariants=rule, more=more, instead={"idempotent": ["charge"]})


def failure_that_starts_again() -> Design:
    """The failure workflow of an order starts it once more; what is wrong for good is wrong the next time, too."""

    def made(again: bool) -> tuple[WorkflowDef, WorkflowDef]:
        begin = node("START_WORKFLOW", "begin", input_parameters={"startWorkflow": {"name": "order"}})
        tidy = flow("tidy", [work("note"), *([begin] if again else steps("tell"))])
        return WorkflowDef(name="order", tasks=steps("check", "charge", "ship"), failure_workflow="tidy"), tidy

    (wrong, again), (right, tells) = made(True), made(False)
    more = {"registered": [again], "others": ["ok"]}
    return Design(wrong=wrong, right=right, may={"charge": FAILS}, more=more, instead={"registered": [tells]})


def out_of_time_for_plan_b() -> Design:
    """Five tries an hour apart, then the other carrier; but the order is over after three hours."""

    def made(retries: int) -> WorkflowDef:
        call = work("call", task={"retry_count": retries, "retry_delay_ms": HOUR}, optional=True)
        taken = switch("taken", "${call.status}", {"COMPLETED": []}, steps("other_carrier"))
        ends = {"timeout_ms": 3 * HOUR, "timeout_policy": WorkflowTimeoutPolicy.TIME_OUT_WF}
        return WorkflowDef(name="order", tasks=[*steps("check", "pack"), call, taken, *steps("mail", "close")], **ends)

    rule = [eventually(lambda run: run.acts("call") + run.acts("other_carrier") > 0, "somebody takes it")]
    may = {"call": ["ok", "fails_always"]}
    return Design(wrong=made(5), right=made(1), may=may, invariants=rule, more={"others": ["ok"]})


def said_before_done() -> Design:
    """The page hears on a stream that the money is there, beside the charge and not after it."""

    def made(after: bool) -> WorkflowDef:
        says = node("EMIT", "says", input_parameters={"stream": "state", "value": "paid"})
        both = [work("charge"), says] if after else fork("both", [work("charge")], [says], on=["charge", "says"])
        return flow("order", [*steps("check", "reserve", "quote"), *both, *steps("ship", "mail", "close")])

    rule = [never(lambda run: run.status_of("says") == "COMPLETED" and run.acts("charge") == 0, "said before it is done")]
    return Design(wrong=made(False), right=made(True), invariants=rule, more={"others": ["ok"]})


def no_worker_on_sunday() -> Design:
    """Nobody takes the shipment for an hour, so the order is over; the money stays."""

    def made(undo: bool) -> WorkflowDef:
        ship = work("ship", task={"poll_timeout_ms": HOUR, "timeout_policy": TimeoutPolicy.TIME_OUT_WF})
        charge = work("charge", compensate="refund" if undo else None)
        return flow("order", [*steps("check", "reserve"), charge, work("pack"), ship, *steps("mail", "close")])

    rule = [conserved({"charge": 1, "refund": -1})]
    may = {"ship": ["ok", "unpolled"]}
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"others": ["ok"]})


def speed_that_nobody_knows() -> Design:
    """A choice by the speed of a parcel knows two, and the shop has come to offer a third."""

    def made(default: bool) -> WorkflowDef:
        speeds = {"normal": [work("ship", "by_post")], "express": [work("ship", "by_courier")]}
        ends = [terminate("unknown", "FAILED")] if default else []
        chosen = switch("speed", "${quote.output.speed}", speeds, ends)
        charge = work("charge", compensate="refund")
        return flow("order", [*steps("check", "quote"), charge, work("pack"), chosen, *steps("mail", "close")])

    may = {"quote": [{"speed": "normal"}, {"speed": "express"}, {"speed": "today"}]}
    rule = [whenever("charge").and_run_completes().then("ship"), conserved({"charge": 1, "refund": -1})]
    return Design(wrong=made(False), right=made(True), may=may, invariants=rule, more={"others": ["ok"]})


DESIGNS: dict[str, Callable[[], Design]] = {
    made.__name__: made
    for made in (
        *(payment_counted_twice, nothing_received, undo_lost_by_a_move, two_versions_of_a_child, forked_and_undone_twice),
        *(too_slow_for_its_limit, undo_that_fails, reserved_for_nobody, placed_twice, join_without_the_slow_one),
        *(shipped_unchecked, nothing_to_join, moved_past_the_check, only_an_alert, restarted_and_charged),
        *(failure_that_starts_again, out_of_time_for_plan_b, said_before_done, no_worker_on_sunday, speed_that_nobody_knows),
    )
}
