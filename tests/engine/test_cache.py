"""What an engine remembers is bounded, in number and in weight."""

from __future__ import annotations

from conductorlite.model.threads import Cache


def test_bounded_in_number_and_weight() -> None:
    """What was not used for longest is forgotten; a value heavier than all it may hold is held alone."""
    cache: Cache[str, str] = Cache(3, weigh=len, budget=10)
    for key, value in (("a", "xxxx"), ("b", "xxxx"), ("a", "xx"), ("c", "xxxx")):
        cache.put(key, value)
    assert [cache.get(key) for key in "abc"] == ["xx", "xxxx", "xxxx"]
    cache.put("d", "x")
    assert [cache.get(key) for key in "abcd"] == [None, "xxxx", "xxxx", "x"]
    cache.put("e", "x" * 100)
    assert [cache.get(key) for key in "bcde"] == [None, None, None, "x" * 100]
    cache.put("f", "x")
    assert [cache.get(key) for key in "ef"] == [None, "x"]


def test_without_weights_only_the_number_counts() -> None:
    """Values that are not weighed are held up to their number."""
    cache: Cache[int, str] = Cache(2)
    for number in range(3):
        cache.put(number, "x" * 1_000)
    assert [cache.get(number) for number in range(3)] == [None, "x" * 1_000, "x" * 1_000]
