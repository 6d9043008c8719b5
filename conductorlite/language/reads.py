"""What a template reads, known before it is rendered: lets the engine load no more than that."""

from __future__ import annotations

import attrs

from conductorlite.language.jsonpath import Path, compile_path
from conductorlite.model.errors import InvalidExpression

__all__ = ["NOTHING", "Reads", "reads_of_path", "reads_of_prefix"]


@attrs.frozen(kw_only=True)
class Reads:
    """The parts of the document that templates read.

    `members` are (root, member) pairs; `steps` adds to each the first key below the member, None when the whole member
    or a place that is not a plain key is read. `roots` are needed whole, `everything` means all of them. `dynamic` says
    that a nested expression builds the start of a path, so that more is found out while rendering, through the Source.
    """

    members: frozenset[tuple[str, str]] = frozenset()
    steps: frozenset[tuple[str, str, str | None]] = frozenset()
    roots: frozenset[str] = frozenset()
    everything: bool = False
    dynamic: bool = False

    def union(self, *others: Reads) -> Reads:
        """What this or any of the others reads."""
        every = [reads for reads in (self, *others) if reads is not NOTHING]
        if len(every) < 2:
            return every[0] if every else NOTHING
        return Reads(
            members=frozenset().union(*(reads.members for reads in every)),
            steps=frozenset().union(*(reads.steps for reads in every)),
            roots=frozenset().union(*(reads.roots for reads in every)),
            everything=any(reads.everything for reads in every),
            dynamic=any(reads.dynamic for reads in every),
        )


NOTHING = Reads()


def reads_of_path(path: Path) -> Reads:
    """What one path reads."""
    plain = path.plain
    if path.reads_document or not plain or not isinstance(plain[0], str):
        return Reads(everything=True)
    if len(plain) < 2 or not isinstance(plain[1], str):
        return Reads(roots=frozenset((plain[0],)))
    key = plain[2] if len(plain) > 2 and isinstance(plain[2], str) else None
    return Reads(members=frozenset(((plain[0], plain[1]),)), steps=frozenset(((plain[0], plain[1], key),)))


def reads_of_prefix(text: str) -> Reads:
    """What a path reads of which only the start is known: `workflow.input.` in `${workflow.input.${x}}`."""
    end = max(text.rfind("."), text.rfind("["))
    known = text[:end] if end > 0 else ""
    if known.strip(" ") in ("", "$", "@"):
        return Reads(dynamic=True)
    try:
        reads = reads_of_path(compile_path(known))
    except InvalidExpression:
        return Reads(dynamic=True)
    return attrs.evolve(reads, dynamic=reads.everything)
