"""What can still run, from what is live now: the nodes that follow, and what they will read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from conductorlite.executions import Task, printed_ref
from conductorlite.expressions import Reads
from conductorlite.plan import Node, Plan

__all__ = ["Place", "following", "reads_of", "starts_of"]

#: A node at the rounds of the loops around it; None for rounds that have not begun, of which no row can exist.
Place = tuple[str, tuple[int, ...] | None]


def starts_of(plan: Plan, node: Node, task: Task, begun: Mapping[str, Task]) -> Iterator[Place]:
    """The nodes that come directly after a live task; `begun` are the rows by printed reference."""
    kind, at = node.task.type, task.iterations
    if kind == "DO_WHILE" and not task.status.terminal and node.body:
        yield node.body, None
    heads: tuple[str | None, ...] = ()
    if kind == "FORK_JOIN":
        heads = node.heads
    elif kind == "SWITCH" and not any(printed_ref(head, at) in begun for head in _heads(node)):
        heads = tuple(_heads(node))
    yield from ((head, at) for head in heads if head is not None and printed_ref(head, at) not in begun)
    if node.successor is not None and not task.succeeded_before:
        yield node.successor, at


def _heads(node: Node) -> list[str]:
    return [head for head in (*node.cases.values(), node.default_case) if head is not None]


def following(plan: Plan, starts: Iterable[Place]) -> set[Place]:
    """Those places and all that can come after them."""
    found: set[Place] = set()
    pending = [place for place in starts if place[0] in plan.nodes]
    while pending:
        place = pending.pop()
        if place in found:
            continue
        found.add(place)
        node, at = plan.nodes[place[0]], place[1]
        pending += [(ref, at) for ref in (node.successor, node.join, *node.heads, *_heads(node)) if ref is not None]
        if node.body is not None:
            pending.append((node.body, None))
    return found


def reads_of(node: Node) -> tuple[Reads, frozenset[str]]:
    """What a node's expressions read, and the names that occur in its condition."""
    reads = node.template.reads if node.items is None else node.template.reads.union(node.items.reads)
    return reads, frozenset() if node.condition is None else frozenset(node.condition.names)
