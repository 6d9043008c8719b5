"""A pipeline: build, test on three systems at once, deploy to one place after the other, and roll back if the last one fails."""

import logging

from conductorlite import Engine, TaskFailedTerminally, VirtualClock, flow, task
from conductorlite.flows import Backoff, each, parallel


@task(timeout="10m", retry=1)
def build(commit: str) -> str:
    return f"app-{commit}.tar"


@task(timeout="20m", limit=2, retry=Backoff(1, first="10s"))
def test_on(system: str) -> str:
    return f"{system} is green"


@task
def scan(artifact: str) -> int:
    return 0


@task
def roll_back(place: str) -> None:
    print(f"{place} is as it was")


@task(retry=0)
def deploy(place: str, artifact: str) -> str:
    """A bad build does not start in production."""
    if place == "production" and "bad" in artifact:
        raise TaskFailedTerminally("it does not start")
    return place


@flow
def test_all(systems: list[str]) -> list[str]:
    """Tests on every system at once."""
    return each(systems, test_on)


@flow(timeout="2h")
def pipeline(commit: str) -> str:
    """From a commit to production, or back."""
    artifact = build(commit)
    parallel(test_all(["linux", "macos", "windows"]), scan(artifact))
    deploy.options(name="staging", undo=roll_back)("staging", artifact)
    deploy.options(name="production")("production", artifact)
    return artifact


def main(store: str | None = None) -> None:
    """A good commit, and one that is rolled back."""
    with Engine(store, workers=[pipeline], clock=VirtualClock(0)) as engine:
        for commit in ("f00d", "bad1"):
            run = engine.start(pipeline, commit=commit)
            engine.run_until_idle()
            print(f"{commit}: {run.status}")


if __name__ == "__main__":
    logging.getLogger("conductorlite").setLevel(logging.ERROR)  # what fails is meant to
    main("pipeline.db")
