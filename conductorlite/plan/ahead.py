"""What a turn will read when a node has ended: found out when it is first asked for, and kept with the plan.

Most nodes of a large definition of operators are never asked about, and each looks many nodes ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from conductorlite.definitions import TaskType
from conductorlite.expressions import Reads, Template
from conductorlite.expressions.reads import NOTHING

if TYPE_CHECKING:
    from conductorlite.plan.compile import Node

__all__ = ["Ahead"]

#: How many nodes ahead are looked at.
_FAR: Final = 64


class Ahead(Mapping[str, "Reads"]):
    """Per reference the reads of what is scheduled next, through tasks that end at once.

    Threads may ask at the same time: they find the same.
    """

    def __init__(self, nodes: Mapping[str, Node], output: Template | None, branches: frozenset[str]) -> None:
        self._nodes = nodes
        self._output = output
        #: Nodes inside forks: their end is not that of the workflow.
        self._branches = branches
        self._found: dict[str, Reads] = {}

    def __getitem__(self, ref: str) -> Reads:
        found = self._found.get(ref)
        if found is None:
            found = self._found[ref] = self._look(self._nodes[ref])
        return found

    def __contains__(self, ref: object) -> bool:
        return ref in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def _look(self, node: Node) -> Reads:
        found: list[Reads] = []
        pending = [node.successor] if node.successor else [node.loops[-1]] if node.loops else []
        if not pending and self._output is not None and node.ref not in self._branches:
            found.append(self._output.reads)
        seen: set[str] = set()
        for ref in pending:
            if ref in seen:
                continue
            if len(seen) == _FAR:
                break
            seen.add(ref)
            following = self._nodes[ref]
            found.append(following.template.reads)
            if following.items is not None:
                found.append(following.items.reads)
            if following.task.type == TaskType.FORK_JOIN:
                pending.extend(following.heads)
            elif following.task.type == TaskType.DO_WHILE and following.body:
                pending.append(following.body)
            elif following.task.type == TaskType.NOOP and following.successor:
                pending.append(following.successor)
        return NOTHING.union(*found)
