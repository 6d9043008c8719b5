"""What threads and clients do at once: every verb of an engine, each thread on its own definitions; each answer is compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from conductorlite import (
    Engine,
    EventHandler,
    IdempotencyStrategy,
    SchemaDef,
    StartWorkflowRequest,
    TaskDef,
    TaskResult,
    TaskStatus,
    WorkflowDef,
    WorkflowSchedule,
    flow,
    task,
)
from conductorlite.errors import AlreadyExists, Conflict, InvalidInput, MissingCapability, StorageBusy

#: Verbs that drive, which one thread has at a time; they have a test of their own.
DRIVING: Final = frozenset({"tick", "settle", "advance", "run_until_idle", "run_forever", "stop", "close"})

PATIENCE: Final = "60s"


@task
def echo(me: str) -> str:
    """A task alone."""
    return me


class Recorder:
    """An engine, or a service of one, that notes which of its verbs are called."""

    def __init__(self, of: Any, called: set[str], services: Iterable[str] = (), prefix: str = "") -> None:
        self._of, self._called, self._services, self._prefix = of, called, frozenset(services), prefix

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name in self._services:
            return Recorder(found, self._called, prefix=f"{name}.")
        self._called.add(f"{self._prefix}{name}")
        return found


def definition(me: str, version: int = 1) -> WorkflowDef:
    """A workflow of one thread: a task for whoever polls, and a WAIT."""
    return WorkflowDef.from_json(
        {
            "name": f"flow-{me}",
            "version": version,
            "tasks": [
                {"name": f"work-{me}", "taskReferenceName": "work"},
                {"name": "hold", "taskReferenceName": "hold", "type": "WAIT"},
            ],
        }
    )


def use_definitions(engine: Any, me: str) -> None:
    """Register, read and unregister."""
    schema, other = SchemaDef(name=f"schema-{me}", type="JSON", data={"type": "object"}), f"other-{me}"
    engine.register(definition(me), TaskDef(name=f"work-{me}", retry_count=0))
    assert engine.definitions.workflow(f"flow-{me}").tasks == definition(me).tasks
    assert (f"flow-{me}", 1) in engine.definitions.workflows()
    assert engine.definitions.task(f"work-{me}").retry_count == 0
    engine.register(TaskDef(name=other), WorkflowDef.from_json({**definition(me).to_json(), "name": other}))
    assert other in engine.definitions.tasks()
    engine.definitions.unregister(other, 1)
    engine.definitions.unregister_task(other)
    assert (other, 1) not in engine.definitions.workflows()
    assert other not in engine.definitions.tasks()
    engine.definitions.register_schema(schema)
    assert engine.definitions.schema(schema.name).data == schema.data
    assert (schema.name, 1) in engine.definitions.schemas()


def work_off(engine: Any, me: str, workflow_id: str, status: TaskStatus = TaskStatus.COMPLETED) -> None:
    """Poll for the task of one execution and report on it; others of this thread get theirs too."""
    tasks = engine.poll(f"work-{me}", count=8, timeout=PATIENCE)
    assert tasks
    for held in tasks:
        assert engine.tasks.extend_lease(held) is True
        engine.tasks.log(held, f"line of {me}")
        assert [line.text for line in engine.tasks.logs(held.task_id)] == [f"line of {me}"]
        engine.streams.emit(held, me)
        assert me in [item.value for item in engine.streams.items(held.workflow_id)]
        assert engine.tasks.get(held.task_id).status is TaskStatus.IN_PROGRESS
    results = [
        TaskResult(workflow_id=held.workflow_id, task_id=held.task_id, status=status, lease=held.lease, output_data={"by": me})
        for held in tasks
    ]
    assert engine.update_task(results[0]).status is status
    assert all(reported.status is status for reported in engine.update_tasks(results[1:]))
    assert workflow_id in {held.workflow_id for held in tasks}


def use_executions(engine: Any, me: str) -> Counter[str]:
    """Start, control, look at; how the executions of this thread have ended."""
    name, ended = f"flow-{me}", Counter[str]()
    first = engine.start(name, {"me": me}, correlation_id=me, idempotency_key=f"key-{me}").workflow_id
    again = engine.start(name, idempotency_key=f"key-{me}", idempotency_strategy=IdempotencyStrategy.RETURN_EXISTING)
    assert again.workflow_id == first
    work_off(engine, me, first)
    with suppress(Conflict):  # it stops when another one is in the way; then there is none to wait for
        assert not engine.definitions.migrate(first, definition(me, 2), dry_run=True).blocked
    engine.pause(first)
    assert engine.status(first) == "PAUSED"
    engine.resume(first)
    engine.update_variables(first, {"seen": me})
    assert engine.get(first).variables.value == {"seen": me}
    assert engine.send(first, "news", me) == engine.messages(first)[0]
    engine.streams.set_value(first, "seen", me)
    found = engine.streams.value(first, "seen")
    assert found is not None
    assert engine.streams.values(first) == [found]
    assert engine.explain(first).reasons
    assert not engine.definitions.migrate_all(name, 7, definition(me, 2))
    assert [row.workflow_id for row in engine.admin.correlated(name, me)] == [first]
    assert engine.signal(first, {"go": me}).output_data == {"go": me}
    assert engine.result(first, PATIENCE) == {"go": me}
    assert engine.run(first).status == "COMPLETED"
    ended["COMPLETED"] += 1

    several = engine.start_many(name, [{"n": n} for n in range(3)])
    assert len(set(several)) == 3
    work_off(engine, me, several[0], TaskStatus.FAILED)
    engine.retry(several[0])
    work_off(engine, me, several[0])
    report = engine.admin.bulk(engine.terminate, several, "enough")
    assert set(report.succeeded) | set(report.failed) == set(several)
    ended.update(str(engine.status(one)) for one in several)

    skipped = engine.start(name, delay="1h").workflow_id
    engine.skip_task(skipped, "hold", output={"skipped": me})
    engine.terminate(skipped)
    engine.restart(skipped)
    engine.terminate(skipped)
    engine.rerun(skipped)
    engine.terminate(skipped)
    ended["TERMINATED"] += 1
    with engine.transaction() as tx:
        inside = tx.engine.start(name).workflow_id
    engine.admin.decide(inside)
    engine.terminate(inside)
    assert engine.in_transaction(lambda tx: tx.engine.status(inside)) == "TERMINATED"
    ended["TERMINATED"] += 1
    answer = engine.start_and_wait("instant", {"me": me}, timeout=PATIENCE)
    assert answer == {"result": me}
    alone = engine.run_task(echo, me).workflow_id
    assert engine.result(alone, PATIENCE) == {"result": me}
    assert engine.plan_fork(alone, at="echo").again == ("echo",)
    assert engine.result(engine.fork(alone, at="echo").workflow_id, PATIENCE) == {"result": me}
    assert engine.messages(alone) == []
    ended["COMPLETED"] += 2
    heard: list[str] = []
    stop = engine.listen(lambda workflow, _: heard.append(workflow.workflow_id))
    last = engine.start("instant", {"me": me}, correlation_id=me).workflow_id
    stop()
    assert last in heard
    ended["COMPLETED"] += 2
    assert [row.workflow_id for row in engine.executions(name=name, correlation_id=me)] == [first]
    assert engine.search(f"workflowType = '{name}'").total_hits == sum(ended.values()) - 4
    assert engine.tasks.search(f"workflowType = '{name}'").total_hits
    assert engine.tasks.search_workflows(f"workflowType = '{name}'").total_hits
    assert any(poll.queue_name == f"work-{me}" for poll in engine.tasks.poll_data())
    assert not engine.tasks.queue_sizes().get(f"work-{me}")
    assert f"work-{me}" not in [depth.queue for depth in engine.tasks.queues()]
    assert [line.n for line in engine.history(first)] == list(range(1, len(engine.history(first)) + 1))
    return ended


def use_the_rest(engine: Any, me: str, folder: Path, *, on_disk: bool) -> Counter[str]:
    """Schedules, events, limits, payloads, and the store as a whole; what has ended and is gone then."""
    ended = Counter[str]()
    plan = WorkflowSchedule(
        name=f"plan-{me}", cron_expression="0 0 9 * * ?", start_workflow_request=StartWorkflowRequest(name="instant")
    )
    engine.schedules.save(plan)
    assert engine.schedules.get(plan.name).definition.cron_expression == plan.cron_expression
    assert plan.name in {one.definition.name for one in engine.schedules.all()}
    engine.schedules.pause(plan.name)
    engine.schedules.resume(plan.name)
    assert len(engine.schedules.preview(plan.name, 3)) == 3
    assert engine.schedules.backfill(plan.name, 0, 1) == 0
    assert engine.schedules.executions(plan.name) == []
    engine.schedules.remove_executions(0)
    engine.schedules.remove(plan.name)
    action = {"action": "start_workflow", "start_workflow": {"name": "instant", "input": {"me": me}}}
    engine.events.register(EventHandler.from_json({"name": f"on-{me}", "event": f"e:{me}", "active": True, "actions": [action]}))
    assert engine.events.get(f"on-{me}").event == f"e:{me}"
    assert [one.name for one in engine.events.all(f"e:{me}")] == [f"on-{me}"]
    published = engine.events.publish(f"e:{me}", {}, message_id=me)
    assert [str(one.status) for one in published] == ["COMPLETED"]
    assert engine.result(published[0].output.value["workflowId"], PATIENCE) == {"result": me}
    assert len(engine.events.executions(f"on-{me}")) == 1
    engine.events.remove_executions(0)
    engine.events.unregister(f"on-{me}")
    assert not [use for use in engine.limits.all() if use.key.endswith(me)]
    assert engine.limits.get(f"task:work-{me}").waiting == 0
    engine.payloads.sweep()
    assert engine.payloads.location(me).path.endswith(me)
    gone = engine.start("instant", {"me": me}).workflow_id
    engine.result(gone, PATIENCE)
    assert gone in set(engine.admin.workflow_ids())
    assert engine.admin.children(gone) == []
    assert engine.admin.export(gone)
    assert gone in engine.admin.page(gone)
    engine.admin.agenda()
    engine.admin.next_wakeup()
    assert engine.admin.check(gone) == []
    assert engine.admin.repair(gone).done == ()
    assert engine.admin.engines() == []
    assert engine.admin.take_over(f"nobody-{me}") == 0
    assert engine.admin.size_report()
    engine.admin.relay()
    loaded = folder / me
    loaded.mkdir()
    (loaded / "loaded.json").write_text(json.dumps({**definition(me).to_json(), "name": f"loaded-{me}"}), encoding="utf-8")
    engine.definitions.load(loaded)
    assert (f"loaded-{me}", 1) in engine.definitions.workflows()
    engine.admin.index_health()
    for rebuild in (engine.admin.rebuild_index, engine.admin.forget_index):
        with suppress(InvalidInput, StorageBusy):  # a store in memory has no index
            rebuild()
    with suppress(InvalidInput):  # without a codec
        engine.admin.reseal()
    with suppress(StorageBusy):
        engine.admin.compact()
    with suppress(MissingCapability, InvalidInput, AlreadyExists):
        engine.admin.backup(folder / f"{me}.copy")
        assert on_disk
    engine.admin.archive(gone)
    assert gone in set(engine.admin.archived_ids())
    engine.admin.remove(gone)
    assert gone not in set(engine.admin.archived_ids())
    assert engine.admin.prune("1d", name=f"flow-{me}").removed == ()
    ended["COMPLETED"] += 1  # what the message began
    return ended


def use_a_flow(engine: Any, me: str) -> Counter[str]:
    """Start a flow whose task no other thread has: what carries it out is added to the engine's workers meanwhile."""

    @task(name=f"own-{me}")
    def own(text: str) -> str:
        return text * 2

    @flow(name=f"own-flow-{me}")
    def doubled(text: str) -> str:
        return own(text)

    assert engine.start(doubled, me).result(PATIENCE) == me * 2
    return Counter(COMPLETED=1)


INSTANT: Final = WorkflowDef.from_json(
    {
        "name": "instant",
        "tasks": [
            {
                "name": "set",
                "taskReferenceName": "set",
                "type": "SET_VARIABLE",
                "inputParameters": {"me": "${workflow.input.me}"},
            }
        ],
        "outputParameters": {"result": "${workflow.variables.me}"},
    }
)


def live(engine: Any, me: str, folder: Path, *, on_disk: bool) -> Counter[str]:
    """Every verb that drives nothing; how the executions that are left have ended."""
    use_definitions(engine, me)
    ended = use_executions(engine, me) + use_a_flow(engine, me)
    return ended + use_the_rest(engine, me, folder, on_disk=on_disk)


def stored(engine: Engine) -> Counter[str]:
    """The executions in the store, by status."""
    return Counter(str(engine.status(one)) for one in engine.admin.workflow_ids())
