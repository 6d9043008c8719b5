"""Transform every item of a list, eight at a time, with retries; one that stays broken does not keep the others from their end."""

import hashlib
import sys

from conductorlite import Engine, TaskContext, flow, task
from conductorlite.flows import Backoff, each


@task
def list_items(count: int) -> list[str]:
    return [f"item-{number:05}" for number in range(count)]


@task(retry=Backoff(4, first="200ms", factor=2), limit=8)
def transform(key: str, context: TaskContext) -> str:
    if key.endswith("3") and context.attempt < 2:
        raise ConnectionError("upstream hiccup")
    return hashlib.sha256(key.encode()).hexdigest()[:8]


@task
def count_up(digests: list[str | None]) -> dict[str, int]:
    return {"good": len(digests) - digests.count(None), "broken": digests.count(None)}


@flow
def one(key: str) -> str:
    return transform.options(optional=True)(key)


@flow
def etl(count: int) -> dict[str, int]:
    counts = count_up(each(list_items(count), one))
    return {"good": counts["good"], "broken": counts["broken"]}


if __name__ == "__main__":
    with Engine("etl.db", workers=[etl]) as engine:
        job = etl.options(idempotency_key=sys.argv[1], idempotency_strategy="RETURN_EXISTING")
        run = engine.start(job, count=int(sys.argv[2]))
        while not engine.run_until_idle("1s"):
            print(run.progress())
        print(run.result())
