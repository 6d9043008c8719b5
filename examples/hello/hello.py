"""The example of the README: one workflow of one task, kept in a SQLite file."""

from conductorlite import Engine, flow, task
from conductorlite.flows import Backoff


@task(retry=Backoff(3, first="1s"))
def greet(name: str) -> str:
    return f"Hello, {name}!"


@flow
def hello(name: str) -> str:
    return greet(name)


with Engine("hello.db") as engine:
    run = engine.start(hello, name="world")
    print(run.result(timeout="30s"))
