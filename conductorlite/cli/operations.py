"""The commands that change executions: pause, resume, end, run again, skip, signal, set variables, remove.

The commands about events: handlers registered and listed, messages published, records of what they did.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from conductorlite.cli.output import instant
from conductorlite.cli.shared import (
    Exit,
    Setting,
    command_options,
    exit_code,
    read_definition,
    read_event_handler,
    read_input,
    read_json,
)
from conductorlite.model.errors import InvalidInput
from conductorlite.model.statuses import REPORTABLE, TaskStatus
from conductorlite.runtime.engine import Engine

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventExecution

__all__ = ["CHANGING", "MESSAGES"]


@click.command("handlers")
@click.option("--event", metavar="EVENT", help="Only handlers of this event.")
@click.option("--active", is_flag=True, help="Only active ones.")
@click.option("--register", "files", metavar="FILE", multiple=True, help="Event handlers to register first.")
@click.option("--remove", "names", metavar="NAME", multiple=True, help="Event handlers to delete first.")
@command_options()
def handlers(setting: Setting, event: str | None, active: bool, files: tuple[str, ...], names: tuple[str, ...]) -> None:
    """List event handlers, after registering or deleting some."""
    given = [read_event_handler(file) for file in files]
    with setting.engine(create=bool(given)) as engine:
        for name in names:
            engine.events.unregister(name)
        for handler in given:
            engine.events.register(handler)
        found = engine.events.all(event, active_only=active)
    setting.screen.answer_rows(
        [handler.to_json() for handler in found],
        ("NAME", "EVENT", "ACTIVE", "CONDITION", "ACTIONS"),
        [
            (
                handler.name,
                handler.event,
                "yes" if handler.active else "no",
                handler.condition,
                ", ".join(action.action for action in handler.actions),
            )
            for handler in found
        ],
    )


@click.command("publish")
@click.argument("event", metavar="EVENT")
@click.argument("payload", metavar="JSON|@FILE", default="null")
@click.option("--message-id", metavar="ID", help="Published again with the same id, it acts no second time.")
@command_options()
def publish(setting: Setting, event: str, payload: str, message_id: str | None) -> None:
    """Publish a message to the active handlers of an event, and show the outcomes."""
    given = read_json(payload, "JSON")
    with setting.engine() as engine:
        _show(setting, engine.events.publish(event, given, message_id=message_id))


@click.command("events")
@click.option("--handler", "name", metavar="NAME", help="Only records of this event handler.")
@click.option("--message-id", metavar="ID", help="Only records of this message.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, newest first.")
@command_options()
def events(setting: Setting, name: str | None, message_id: str | None, limit: int) -> None:
    """List what event handlers did, newest first."""
    with setting.engine() as engine:
        _show(setting, engine.events.executions(name, message_id=message_id, limit=limit))


def _show(setting: Setting, found: list[EventExecution]) -> None:
    setting.screen.answer_rows(
        [one.to_json() for one in found],
        ("TIME", "EVENT", "HANDLER", "ID", "ACTION", "STATUS", "WHAT"),
        [(instant(one.created), one.event, one.name, one.id, one.action, one.status, _described(one)) for one in found],
    )


def _described(one: EventExecution) -> str | None:
    output = one.output_data
    said = next((output[key] for key in ("exception", "error", "workflowId", "condition") if key in output), None)
    return None if said is None else str(said)


#: The commands of this module, in the order of the help.
MESSAGES = (publish, events, handlers)


_IDS = click.argument("workflow_ids", metavar="ID...", nargs=-1, required=True)
_ID = click.argument("workflow_id", metavar="ID")
_TASK_INPUT = click.option("--task-input", metavar="JSON|@FILE", help="The input of the task it is run from.")


def _json(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", metavar="JSON|@FILE", help=help)


@click.command("retry")
@_IDS
@click.option("--resume-subworkflow-tasks", is_flag=True, help="Retry the executions that failed SUB_WORKFLOW tasks have started.")
@command_options()
def retry(setting: Setting, workflow_ids: tuple[str, ...], resume_subworkflow_tasks: bool) -> Exit:
    """Reopen executions that FAILED, TIMED_OUT or were TERMINATED, where they failed."""
    return _change(setting, partial(Engine.retry, resume_subworkflow_tasks=resume_subworkflow_tasks), workflow_ids)


@click.command("restart")
@_IDS
@click.option("--latest", is_flag=True, help="On the highest version registered now, instead of the one they ran on.")
@command_options()
def restart(setting: Setting, workflow_ids: tuple[str, ...], latest: bool) -> Exit:
    """Run ended executions again from the start, with the same input."""
    return _change(setting, partial(Engine.restart, use_latest_definitions=latest), workflow_ids)


@click.command("rerun")
@_IDS
@click.option("--from", "from_task", metavar="TASK", help="A reference, such as x or x__2, or a task id (default: the start).")
@_json("input", "Another input for the workflow.")
@_TASK_INPUT
@click.option("--correlation-id", metavar="TEXT", help="Another correlation id.")
@command_options()
def rerun(setting: Setting, workflow_ids: tuple[str, ...], from_task: str | None, input: str | None,
          task_input: str | None, correlation_id: str | None) -> Exit:  # fmt: skip
    """Run executions again from a task, or from the start.

    What comes after the task in the flow is taken back; other branches of forks stay. Running executions too.
    """
    if task_input is not None and from_task is None:
        raise click.UsageError("--task-input needs --from")
    verb = partial(
        Engine.rerun,
        from_task=from_task,
        input=_given(input),
        task_input=_given(task_input),
        correlation_id=correlation_id,
    )
    return _change(setting, verb, workflow_ids)


@click.command("fork")
@_ID
@click.option("--at", metavar="TASK", required=True, help="A reference, such as x or x__2, or a task id.")
@_json("input", "Another input for the workflow.")
@_TASK_INPUT
@click.option("--definition", metavar="FILE", help="Another definition, on which the new execution goes on.")
@click.option("--id", "new_id", metavar="ID", help="The id of the new execution (default: one that nobody has).")
@click.option("--correlation-id", metavar="TEXT", help="Another correlation id.")
@click.option("--idempotency-key", metavar="KEY", help="A key of the new execution.")
@click.option("--dry-run", is_flag=True, help="Say what would be kept and what would run, and change nothing.")
@command_options()
def fork(setting: Setting, workflow_id: str, at: str, definition: str | None, new_id: str | None, dry_run: bool,
         correlation_id: str | None, idempotency_key: str | None, input: str | None, task_input: str | None) -> None:  # fmt: skip
    """Start a new execution from a task of an old one, which stays as it is.

    The new one has the old one's input, variables and what was done before the task, and goes on from there.
    """
    other = None if definition is None else read_definition(definition)
    given: dict[str, Any] = {"input": _given(input), "task_input": _given(task_input), "definition": other}
    with setting.engine() as engine:
        plan = engine.plan_fork(workflow_id, at=at, **given)
        if dry_run:
            if setting.json:
                setting.screen.document(plan.to_json())
            else:
                setting.screen.lines(str(plan))
            return
        run = engine.fork(
            workflow_id, at=at, new_id=new_id, correlation_id=correlation_id, idempotency_key=idempotency_key, **given
        )
        status = str(run.status)
    setting.screen.answer({"workflowId": run.workflow_id, "status": status}, f"{run.workflow_id} is {status}")


@click.command("pause")
@_IDS
@command_options()
def pause(setting: Setting, workflow_ids: tuple[str, ...]) -> Exit:
    """Schedule nothing more in executions until they are resumed."""
    return _change(setting, Engine.pause, workflow_ids)


@click.command("resume")
@_IDS
@command_options()
def resume(setting: Setting, workflow_ids: tuple[str, ...]) -> Exit:
    """Continue paused or parked executions."""
    return _change(setting, Engine.resume, workflow_ids)


@click.command("terminate")
@_IDS
@click.option("--reason", metavar="TEXT", help="Why; shown by show and explain.")
@click.option(
    "--trigger-failure-workflow", "trigger", is_flag=True, help="End them as if they had failed: start their failure workflows."
)
@command_options()
def terminate(setting: Setting, workflow_ids: tuple[str, ...], reason: str | None, trigger: bool) -> Exit:
    """End executions: they are TERMINATED, their open tasks are CANCELED."""
    if reason is not None and not reason.strip():
        raise InvalidInput("--reason is empty")
    return _change(setting, partial(Engine.terminate, reason=reason, trigger_failure_workflow=trigger), workflow_ids)


@click.command("remove")
@_IDS
@command_options()
def remove(setting: Setting, workflow_ids: tuple[str, ...]) -> Exit:
    """Delete ended executions with everything that belongs to them."""
    return _change(setting, lambda engine, one: engine.admin.remove(one), workflow_ids, removed=True)


@click.command("sweep-payloads")
@click.option("--grace", metavar="SPAN", default="1d", show_default=True, help="How long what nothing refers to is kept.")
@command_options()
def sweep_payloads(setting: Setting, grace: str) -> None:
    """Delete payloads that no execution refers to."""
    with setting.engine() as engine:
        swept = engine.payloads.sweep(grace)
    setting.screen.answer(
        {"deleted": swept.deleted, "found": swept.found},
        f"{swept.deleted} deleted; {swept.found} that nothing knew of will be, once they are old enough",
    )


@click.command("skip")
@_ID
@click.argument("task", metavar="TASK")
@_json("input", "What stands for the task's input.")
@_json("output", "What stands for the task's output.")
@command_options()
def skip(setting: Setting, workflow_id: str, task: str, input: str | None, output: str | None) -> None:
    """Skip a task that the execution has not reached yet.

    TASK is a reference of the definition; of a task inside loops, that of a round (x__2). A fork goes with its JOIN.
    """
    with setting.engine() as engine:
        engine.skip_task(workflow_id, task, input=_given(input), output=_given(output))
    setting.screen.answer(
        {"workflowId": workflow_id, "referenceTaskName": task, "status": str(TaskStatus.SKIPPED)},
        f"{workflow_id}: {task} is {TaskStatus.SKIPPED}",
    )


@click.command("send")
@_ID
@click.argument("topic", metavar="TOPIC")
@click.argument("value", metavar="JSON|@FILE", default="null")
@click.option("--key", metavar="KEY", help="A message of the topic with this key is sent once.")
@command_options()
def send(setting: Setting, workflow_id: str, topic: str, value: str, key: str | None) -> None:
    """Send a message to an execution, on a topic."""
    with setting.engine() as engine:
        message = engine.send(workflow_id, topic, read_json(value, "VALUE"), key=key)
    names = {"workflowId": workflow_id, "topic": topic, "key": message.key, "number": message.number}
    waits = "kept until a task receives it" if message.receiver is None else f"received by {message.receiver}"
    setting.screen.answer({**names, "receiver": message.receiver}, f"{workflow_id}: message {message.number} of {topic}: {waits}")


@click.command("signal")
@_ID
@click.option("--task", metavar="TASK", help="A reference or task id (default: the first WAIT or HUMAN, also of children).")
@click.argument("output", metavar="[JSON|@FILE]", required=False)
@click.option(
    "--status",
    type=click.Choice(sorted(REPORTABLE), case_sensitive=False),
    default=TaskStatus.COMPLETED,
    show_default=True,
    help="What becomes of the task.",
)
@click.option("--reason", metavar="TEXT", help="Why, if it failed.")
@command_options()
def signal(setting: Setting, workflow_id: str, task: str | None, output: str | None, status: str,
           reason: str | None) -> None:  # fmt: skip
    """Signal a task that waits to continue, with what is merged into its output; one to a WAIT or HUMAN to come is kept for it."""
    with setting.engine() as engine:
        answer = engine.signal(workflow_id, _given(output), task=task, status=TaskStatus(status), reason=reason)
    if answer is None:
        if setting.json:
            setting.screen.document({"workflowId": workflow_id, "referenceTaskName": task, "kept": True})
        else:
            setting.screen.line(f"{workflow_id}: kept for {task}, which has not begun")
    elif setting.json:
        names = {"workflowId": answer.workflow_id, "referenceTaskName": answer.ref, "taskId": answer.task_id}
        setting.screen.document({**names, "status": str(answer.status)})
    else:
        setting.screen.line(f"{answer.workflow_id}: {answer.ref} is {answer.status}")


@click.command("set-variables")
@_ID
@click.argument("variables", metavar="JSON|@FILE")
@command_options()
def set_variables(setting: Setting, workflow_id: str, variables: str) -> None:
    """Set variables of an execution; others stay."""
    given = read_input(variables)
    with setting.engine() as engine:
        engine.update_variables(workflow_id, given)
        now = engine.get(workflow_id, masked=True).variables
    setting.screen.answer({"workflowId": workflow_id, "variables": now.value}, now.text or "{}")


def _given(text: str | None) -> dict[str, Any] | None:
    return None if text is None else read_input(text)


def _change(
    setting: Setting, verb: Callable[[Engine, str], object], workflow_ids: tuple[str, ...], *, removed: bool = False
) -> Exit:
    """Use a verb on one execution, or on several; the first error among several gives the exit code."""
    with setting.engine() as engine:
        if len(workflow_ids) == 1:
            verb(engine, workflow_ids[0])
            from conductorlite.engine.admin import BulkReport

            done = BulkReport(succeeded=workflow_ids)
        else:
            done = engine.admin.bulk(lambda one: verb(engine, one), workflow_ids)
        stands = {one: "removed" if removed else str(engine.status(one)) for one in done.succeeded}
    answer = [{"workflowId": one, **({"removed": True} if removed else {"status": how})} for one, how in stands.items()]
    for error in done.failed.values():
        setting.screen.note(f"conductorlite: {error}")
    if not setting.json:
        for one, how in stands.items():
            setting.screen.line(f"{one} is {how}")
    elif len(workflow_ids) == 1:
        setting.screen.document(answer[0])
    else:
        errors = {one: str(error) for one, error in done.failed.items()}
        setting.screen.document({"bulkSuccessfulResults": answer, "bulkErrorResults": errors})
    return next((exit_code(error) for error in done.failed.values()), Exit.OK)


#: The commands of this module, in the order of the help.
CHANGING = (retry, restart, rerun, fork, skip, send, signal, set_variables, pause, resume, terminate, remove, sweep_payloads)
