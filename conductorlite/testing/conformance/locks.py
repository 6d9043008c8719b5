"""Tests of every lock, for the author of another one."""

from __future__ import annotations

from conductorlite.store.ports import Lock

__all__ = ["LockConformance"]


class LockConformance:
    """Subclass it, and return two locks that share what they lock from `make_locks`: as of two engines, or of two processes.

    `lease_ms` is the lease they were made with. For a lock with a time of its own (`Lock.own_time`) implement `end_leases` too.
    """

    lease_ms = 1_000

    def make_locks(self) -> tuple[Lock, Lock]:
        """Two locks on the same turns."""
        raise NotImplementedError

    def end_leases(self, lock: Lock) -> None:
        """Have the server end the leases of all that a lock holds, as when they were over."""
        raise NotImplementedError

    def after_the_lease(self, lock: Lock) -> int:
        """An instant at which what the lock took at instant 0 is lost."""
        if not lock.own_time:
            return self.lease_ms
        self.end_leases(lock)
        return 0

    def test_one_at_a_time(self) -> None:
        """A turn that is held is no other's, not even its holder's; another execution's is free."""
        one, other = self.make_locks()
        token = one.try_acquire("w", 0)
        assert token is not None
        assert other.try_acquire("w", 0) is None
        assert one.try_acquire("w", 0) is None
        elsewhere = other.try_acquire("v", 0)
        assert elsewhere is not None

    def test_given_back(self) -> None:
        """A turn that was given back is free; to give it back twice is harmless."""
        one, other = self.make_locks()
        token = one.try_acquire("w", 0)
        assert token is not None
        one.release("w", token)
        one.release("w", token)
        assert other.try_acquire("w", 0) is not None

    def test_lease(self) -> None:
        """A turn is lost when its lease is over, not a millisecond before; where a server keeps the time, whatever others say."""
        one, other = self.make_locks()
        assert one.try_acquire("w", 0) is not None
        assert other.try_acquire("w", 2**53 if one.own_time else self.lease_ms - 1) is None
        assert other.try_acquire("w", self.after_the_lease(one)) is not None

    def test_renewed(self) -> None:
        """A lease that is renewed begins again, for its holder alone; what was lost or given back cannot be renewed."""
        one, other = self.make_locks()
        token = one.try_acquire("w", 0)
        assert token is not None
        assert one.renew("w", token, self.lease_ms - 1)
        assert other.try_acquire("w", self.lease_ms) is None
        assert not other.renew("w", token + 1, self.lease_ms)
        assert not one.renew("v", token, self.lease_ms)
        one.release("w", token)
        assert not one.renew("w", token, self.lease_ms)

    def test_a_lost_turn_cannot_be_renewed(self) -> None:
        """An owner that comes back after its lease, and finds that another one has the turn, has lost it."""
        one, other = self.make_locks()
        token = one.try_acquire("w", 0)
        assert token is not None
        later = self.after_the_lease(one)
        held = other.try_acquire("w", later)
        assert held is not None
        assert not one.renew("w", token, later)
        assert other.renew("w", held, later)

    def test_who_lost_a_turn_cannot_give_it_back(self) -> None:
        """The token of a holding that was lost frees nothing, in the hands of either."""
        one, other = self.make_locks()
        lost = one.try_acquire("w", 0)
        assert lost is not None
        later = self.after_the_lease(one)
        held = other.try_acquire("w", later)
        assert held is not None
        one.release("w", lost)
        assert one.try_acquire("w", later) is None
        other.release("w", held)
        assert one.try_acquire("w", later) is not None

    def test_own_lost_turn_taken_again(self) -> None:
        """An engine that takes a turn again that it had lost holds it under another token."""
        one, other = self.make_locks()
        lost = one.try_acquire("w", 0)
        assert lost is not None
        later = self.after_the_lease(one)
        again = one.try_acquire("w", later)
        assert again is not None
        one.release("w", lost)
        assert other.try_acquire("w", later) is None

    def test_nothing_to_give_back(self) -> None:
        """To give back what was never taken is harmless."""
        one, other = self.make_locks()
        one.release("w", 7)
        assert other.try_acquire("w", 0) is not None

    def test_names(self) -> None:
        """Any execution id is one turn of its own, whatever its characters."""
        one, other = self.make_locks()
        names = ["", "w", "W", "w ", "ü", "u\u0308", "a'b", "x" * 500, "%", "_"]
        assert all(one.try_acquire(name, 0) is not None for name in names)
        assert all(other.try_acquire(name, 0) is None for name in names)

    def test_close(self) -> None:
        """To close twice is harmless."""
        one, other = self.make_locks()
        other.close()
        other.close()
        one.close()
