"""Reading what is stored page by page, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from conductorlite.executions import Workflow
from conductorlite.ports import Backend, ExecutionFilter, ReadingTransaction

__all__ = ["PAGE", "execution_pages", "pages", "stored_pages"]

K = TypeVar("K")
T = TypeVar("T")

#: Entries of a page where nothing is said of it.
PAGE: Final = 500


def pages(read: Callable[[K, int], Sequence[T]], start: K, key: Callable[[T], K], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Pages of at most `size` entries, each read after the key of the last entry before; none of them is empty."""
    after = start
    while page := read(after, size):
        yield page
        if len(page) < size:
            return
        after = key(page[-1])


def stored_pages(
    backend: Backend,
    read: Callable[[ReadingTransaction, K, int], Sequence[T]],
    start: K,
    key: Callable[[T], K],
    size: int = PAGE,
) -> Iterator[Sequence[T]]:
    """`pages` of a store; while the caller is at work on one no transaction is open."""

    def one(after: K, size: int) -> Sequence[T]:
        with backend.reading() as view:
            return read(view, after, size)

    return pages(one, start, key, size)


def execution_pages(
    backend: Backend, wanted: ExecutionFilter, start: tuple[int, str] | None = None, size: int = PAGE
) -> Iterator[Sequence[Workflow]]:
    """Rows of executions, from an instant and an id on, newest first."""
    return stored_pages(
        backend,
        lambda view, after, size: view.executions(wanted, after, size),
        start,
        lambda row: (row.created_at, row.workflow_id),
        size,
    )
