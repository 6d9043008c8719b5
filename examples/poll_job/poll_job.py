"""A job of somebody else's: handed in once, asked after until it is done, given up after an hour.

No worker waits meanwhile: between two questions the task is a row in the store with a date.
"""

from conductorlite import Engine, TaskContext, TaskFailedTerminally, TaskResult, TaskStatus, VirtualClock, flow, task
from conductorlite.flows import Backoff

#: The service, as far as this example needs one: each job is done at the fourth question.
ASKED: dict[str, int] = {}


@task(retry=Backoff(5, first="1s", factor=2))
def hand_in(video: str, context: TaskContext = TaskContext.given) -> str:
    """The key makes it one job, however often this runs."""
    ASKED.setdefault(context.idempotency_key, 0)
    return context.idempotency_key


@task(timeout="1h", retry=3)
def rendered(job: str, context: TaskContext = TaskContext.given) -> str:
    """Where the film is; asked again half a minute later while there is none."""
    ASKED[job] += 1
    if ASKED[job] < 4:
        return TaskResult(  # type: ignore[return-value]
            workflow_id=context.workflow_id, task_id=context.task_id, status=TaskStatus.IN_PROGRESS, callback_after_ms=30_000
        )
    return f"https://films.example/{len(ASKED)}.mp4"


@task
def publish(video: str, url: str) -> str:
    if not url.startswith("https://"):
        raise TaskFailedTerminally(f"{url} is no address")
    return f"{video} is at {url}"


@flow
def render(video: str) -> str:
    """Has a video rendered elsewhere and publishes it."""
    job = hand_in(video)
    return publish(video, rendered(job))


def main(store: str | None = None) -> None:
    """One video; what it took."""
    ASKED.clear()
    clock = VirtualClock(0)
    with Engine(store, workers=[render], clock=clock) as engine:
        print(engine.start_and_wait(render, video="holidays"))
    print(f"asked {sum(ASKED.values())} times in {clock.now() // 1000} seconds")


if __name__ == "__main__":
    main("poll_job.db")
