"""Burr: a state machine in memory; nothing is kept."""
# mypy: ignore-errors

from __future__ import annotations

from burr.core import ApplicationBuilder, State, action
from burr.core.graph import GraphBuilder
from contest import Contest, step

given = Contest()


def made(n: int):
    """An action."""

    @action(reads=[], writes=["r"])
    def act(state: State) -> State:
        return state.update(r=step(n))

    return act


def run(length: int, times: int) -> None:
    """So many runs of a chain."""
    actions = {f"s{n}": made(n) for n in range(length)}
    edges = [(f"s{n}", f"s{n + 1}") for n in range(length - 1)]
    graph = GraphBuilder().with_actions(**actions).with_transitions(*edges).build()
    for n in range(times):
        builder = ApplicationBuilder().with_graph(graph).with_state(r={}).with_entrypoint("s0")
        builder.with_identifiers(app_id=f"w{n}").build().run(halt_after=[f"s{length - 1}"])


if given.work == "chains":
    run(10, 1)
    with given.measured(given.count * 10):
        run(10, given.count)
elif given.work == "cold":
    run(1, 1)
given.tell()
