"""conductorlite: scripted workers and a virtual clock, on the engine itself; crashes on its own stores."""
# mypy: ignore-errors

from parts import part

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import Backoff, otherwise, wait, when
from conductorlite.testing import ScriptedWorkers, crash_everywhere, deliver_twice, start_once


@task(retry=Backoff(20, first="2s", factor=2, longest="1h"))
def charge(order: str): ...


@task(response_timeout="5m", on_timeout="RETRY", retry=Backoff(2, first="60s"))
def ship(order: str): ...


@task
def cancel(order: str): ...


@flow
def order_flow(order: str):
    charge(order)
    wait("30 days")
    approval = wait("7 days", name="approval")
    with when(approval.approved):
        ship(order)
    with otherwise():
        cancel(order)


DAY_33 = VirtualClock().now() + 33 * 86_400_000


def script(workers):
    workers.charge.fails(20).then.returns()
    workers.ship.returns()
    workers.cancel.returns()


def opened():
    workers = ScriptedWorkers()
    script(workers)
    engine = Engine(workers=workers, clock=VirtualClock())
    return workers, engine, engine.start(order_flow, order="o-1")


def scenario(engine):
    run = start_once(engine, order_flow, {"order": "o-1"}, workflow_id="o-1")
    if engine.clock.now() < DAY_33:
        engine.advance(to=DAY_33)
    if run.status == "RUNNING" and not run.workflow.task("approval").status.terminal:
        run.signal({"approved": True}, task="approval")
    run.result()


@part
def retries():
    workers, engine, _ = opened()
    engine.advance("20h")
    first, *_, last = [call.at for call in workers.charge.calls]
    assert len(workers.charge.calls) == 21
    assert (last - first) / 1000 == sum(min(2**n, 3600) for n in range(1, 21))


@part
def month():
    workers, engine, run = opened()
    workers.charge.forget().returns()
    engine.advance("29d 23h 59m")
    assert run.tasks[-1].ref == "wait"
    engine.advance("1m")
    assert run.tasks[-1].ref == "approval"


@part
def race():
    workers, engine, run = opened()
    engine.advance("34d")
    run.signal({"approved": True}, task="approval")
    run.result()
    assert (len(workers.ship.calls), len(workers.cancel.calls)) == (1, 0)
    workers, engine, run = opened()
    run.result()
    assert (len(workers.ship.calls), len(workers.cancel.calls)) == (0, 1)


@part
def lost_worker():
    workers, engine, run = opened()
    workers.ship.forget().crashes(1).then.returns()
    engine.advance("34d")
    run.signal({"approved": True}, task="approval")
    run.result()
    first, second = workers.ship.calls
    assert second.at - first.at == (5 + 1) * 60_000


@part
def crash():
    assert crash_everywhere(scenario, script, stores=["memory"], every=5) > 20


@part
def twice():
    assert deliver_twice(scenario, script, stores=["memory", "sqlite"]) > 20
