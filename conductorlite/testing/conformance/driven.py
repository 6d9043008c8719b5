"""The contract of what a store keeps of when it was driven."""

from __future__ import annotations

from conductorlite.ports import Backend

__all__ = ["DrivenConformance"]


class DrivenConformance:
    """Stretches of driven time."""

    def test_driven(self, backend: Backend) -> None:
        """Stretches are kept by owner and beginning, the longest of one beginning, and found by their ends."""
        with backend.writing() as tx:
            for owner, begin, end in (("", 5, 9), ("", 1, 4), ("a", 1, 100), ("", 5, 7), ("", 1, 6)):
                tx.note_driven(owner, begin, end)
        with backend.reading() as view:
            assert list(view.driven("", 0)) == [(1, 6), (5, 9)]
            assert list(view.driven("", 6)) == [(5, 9)]
            assert (list(view.driven("a", 99)), list(view.driven("a", 100)), list(view.driven("b", 0))) == ([(1, 100)], [], [])

    def test_the_oldest_stretches_are_forgotten(self, backend: Backend) -> None:
        """The newest of an owner stay, and those of others."""
        with backend.writing() as tx:
            tx.note_driven("a", 0, 1)
            for begin in range(0, 30, 3):
                tx.note_driven("", begin, begin + 1)
            tx.forget_driven("", 10)
            assert len(tx.driven("", 0)) == 10
            tx.forget_driven("", 4)
        with backend.reading() as view:
            assert list(view.driven("", 0)) == [(18, 19), (21, 22), (24, 25), (27, 28)]
            assert list(view.driven("a", 0)) == [(0, 1)]
