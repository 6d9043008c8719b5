"""Start-time fair queueing: the tags by which members of one line take turns, key by key.

Who joins is given a start tag: the virtual time of the line, or the finish tag of its key if that is later. The finish tag of the
key is then `cost` later, which is less for a higher weight. The lowest start tag goes first, and the virtual time is the start tag
of the last that went. So each key that has members in line goes as often as its weight says, and a key that had none for a while
saves nothing up. Each priority has tags of its own. One that leaves the line without having gone gives its cost back.

Tags are whole numbers: a key of weight 1 pays `SCALE`. The text of the tags lists, for each priority, the virtual time and the
finish tags that are later than it.

Source of the rules: Goyal, Vin, Cheng, "Start-time Fair Queuing", SIGCOMM 1996.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from conductorlite.model.errors import StorageCorrupt

__all__ = ["SCALE", "charge", "cost_of", "pay_back", "spend", "unpaid"]

#: What weight 1 pays; a multiple of every weight up to 16, and of the round ones up to 1,000.
SCALE: Final = 720_720_000

#: By priority: the virtual time, and the finish tags of keys.
_Levels = dict[str, tuple[int, dict[str, int]]]


def cost_of(weight: int) -> int:
    """How much later the finish tag of a key becomes by one member."""
    return SCALE // weight


def charge(tags: str, priority: int, key: str, cost: int) -> tuple[int, str]:
    """Return the start tag of a member that joins, and the tags with its cost."""
    levels = _read(tags)
    now, finish = levels.get(str(priority), (0, {}))
    start = max(now, finish.get(key, 0))
    return start, _written({**levels, str(priority): (now, {**finish, key: start + cost})})


def spend(tags: str, priority: int, start: int) -> str:
    """Return the tags once a member with a start tag has gone."""
    levels = _read(tags)
    now, finish = levels.get(str(priority), (0, {}))
    now = max(now, start)
    return _written({**levels, str(priority): (now, {key: at for key, at in finish.items() if at > now})})


def pay_back(tags: str, priority: int, key: str, cost: int) -> str:
    """Return the tags once a member has left the line and not gone."""
    levels = _read(tags)
    now, finish = levels.get(str(priority), (0, {}))
    at = finish.get(key, now) - cost
    rest = {one: tag for one, tag in finish.items() if one != key}
    return _written({**levels, str(priority): (now, {**rest, key: at} if at > now else rest)})


def unpaid(tags: str, waiting: Iterable[tuple[int, str, int]]) -> list[str]:
    """Return what the tags do not account for: of members that wait, each with its priority, key and cost, the key has paid."""
    try:
        levels, owed = _read(tags), dict[tuple[int, str], int]()
    except StorageCorrupt as error:
        return [str(error)]
    for priority, key, cost in waiting:
        owed[(priority, key)] = owed.get((priority, key), 0) + cost
    found = [
        f"has a finish tag before its virtual time {now}" for now, keys in levels.values() for at in keys.values() if at <= now
    ]
    for (priority, key), cost in sorted(owed.items()):
        now, finish = levels.get(str(priority), (0, {}))
        if max(now, finish.get(key, 0)) < cost:
            found.append(f"has members of {key!r} wait that have not paid: {cost} is owed, its finish tag is {finish.get(key)}")
    return found


def _read(tags: str) -> _Levels:
    """Return the tags by priority; raises StorageCorrupt for a text that holds none."""
    if not tags:
        return {}
    try:
        levels = {str(int(priority)): (now, finish) for priority, (now, finish) in json.loads(tags).items()}
        numbers = [number for now, finish in levels.values() for number in (now, *finish.values())]
    except (AttributeError, TypeError, ValueError) as error:
        raise StorageCorrupt(f"has tags of fairness that cannot be read: {tags!r:.80}") from error
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise StorageCorrupt(f"has tags of fairness that are no whole numbers from 0 on: {tags!r:.80}")
    return levels


_encoded: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def _written(levels: _Levels) -> str:
    return _encoded(levels)
