"""A workflow changes while executions of it run: what began with the old version goes on in the new one, where it stands."""

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import wait


@task
def write(topic: str) -> str:
    return f"a page about {topic}"


@task
def proofread(text: str) -> str:
    return text.replace("page", "fine page")


@task
def publish(text: str) -> str:
    return f"published: {text}"


@flow(name="article", version=1)
def first(topic: str) -> str:
    """Written, looked at, published."""
    text = write(topic)
    wait("30 days", name="look")
    return publish(text)


@flow(name="article", version=2)
def second(topic: str) -> str:
    """From now on it is proofread before it is published."""
    text = write(topic)
    wait("30 days", name="look")
    return publish(proofread(text))


def main(store: str | None = None) -> None:
    """One article waits to be looked at while the second version comes."""
    with Engine(store, workers=[first], clock=VirtualClock(0)) as engine:
        run = engine.start(first.options(workflow_id="article-1"), topic="rain")
        engine.settle()
        engine.workers.include(second)
        engine.register(second.definition)
        print(engine.definitions.migrate(run.workflow_id, 2))
        run.signal()
        print(run.result(), f"(version {run.workflow.version})")


if __name__ == "__main__":
    main()
