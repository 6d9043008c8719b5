"""A report every night at two, by the clock in Rome; nights that were slept through are made up for, each once."""

from conductorlite import (
    CronSchedule,
    Engine,
    OverlapPolicy,
    StartWorkflowRequest,
    VirtualClock,
    WorkflowSchedule,
    flow,
    task,
)
from conductorlite.flows import Backoff

EVERY_NIGHT = WorkflowSchedule(
    name="every-night",
    cron_schedules=[CronSchedule(cron_expression="0 0 2 * * *", zone_id="Europe/Rome")],
    start_workflow_request=StartWorkflowRequest(name="nightly_report", input={"shop": "Rome"}),
    run_catchup_schedule_instances=True,
    overlap_policy=OverlapPolicy.BUFFER_ALL,
)


@task(retry=Backoff(5, first="10m"))
def count_sales(shop: str) -> int:
    return len(shop) * 100


@task(retry=Backoff(5, first="10m"))
def send(text: str) -> str:
    return text


@flow
def nightly_report(shop: str) -> str:
    """Counts what was sold and sends it."""
    sold = count_sales(shop)
    return send(f"{shop} sold {sold}")


def main(store: str | None = None) -> None:
    """Two nights, three nights with no process at all, and the morning after; in one of them the clocks change."""
    clock = VirtualClock("2030-03-28T12:00:00Z")
    with Engine(store, workers=[nightly_report], clock=clock) as engine:
        engine.register(nightly_report.definition)
        engine.schedules.save(EVERY_NIGHT)
        engine.advance("2d")
        clock.move_to(clock.now() + 3 * 86_400_000)
        engine.settle()
        for row in sorted(engine.executions("nightly_report"), key=lambda one: one.workflow_id):
            print(row.workflow_id.rpartition("-")[2], engine.result(row.workflow_id)["result"])


if __name__ == "__main__":
    main()
