"""The flat walk over a definition's tasks."""

from __future__ import annotations

from conductorlite.model.definitions import WorkflowDef, WorkflowTask
from conductorlite.plan.tree import LEVEL, Branch, levels, walk, where_parted


def task(ref: str, **fields: object) -> WorkflowTask:
    """A task of that reference."""
    return WorkflowTask(name=ref, task_reference_name=ref, **fields)  # type: ignore[arg-type]


TREE = WorkflowDef(
    name="w",
    tasks=[
        task("s", type="SWITCH", decision_cases={"b c": [task("a")], "a": []}, default_case=[task("d")]),
        task("l", type="DO_WHILE", loop_over=[task("f", fork_tasks=[[task("x")], [task("m", loop_over=[task("y")])]])]),
        task("z"),
    ],
)


def test_tasks_come_in_document_order_with_their_paths() -> None:
    """Each task precedes what it contains; cases, default, branches and bodies follow in that order."""
    assert [(place.task.name, place.path) for place in walk(TREE)] == [
        ("s", "$.tasks[0]"),
        ("a", "$.tasks[0].decisionCases['b c'][0]"),
        ("d", "$.tasks[0].defaultCase[0]"),
        ("l", "$.tasks[1]"),
        ("f", "$.tasks[1].loopOver[0]"),
        ("x", "$.tasks[1].loopOver[0].forkTasks[0][0]"),
        ("m", "$.tasks[1].loopOver[0].forkTasks[1][0]"),
        ("y", "$.tasks[1].loopOver[0].forkTasks[1][0].loopOver[0]"),
        ("z", "$.tasks[2]"),
    ]


def test_a_place_knows_its_surroundings() -> None:
    """Loops from the outside in, the parent, the siblings on either side, and the depth."""
    places = {place.task.name: place for place in walk(TREE)}
    assert list(places["y"].loops) == ["l", "m"]
    assert list(places["l"].loops) == []
    assert places["y"].parent is places["m"]
    assert (places["s"].previous, places["l"].previous) == (None, places["s"].task)
    assert (places["l"].following, places["z"].following) == (places["z"].task, None)
    assert [places[name].depth for name in ("z", "l", "f", "m", "y")] == [1, 1, 2, 3, 4]
    assert places["x"].around == (Branch(ref="l", kind="body"), Branch(ref="f", kind="branch", key=0))


def test_where_two_ways_part_is_the_first_level_in_which_they_differ() -> None:
    """Of any two tasks, of one walk or of two: the lists differ, or the places in one list; one may be in the other, or itself."""
    for one in walk(TREE):
        for other in walk(TREE):
            mine, its = where_parted(one, other)
            pairs = zip(levels(one.route), levels(other.route), strict=False)
            same = next((number for number, (this, that) in enumerate(pairs) if this != that), min(one.depth, other.depth) - 1)
            assert (mine.depth, its.depth) == (same + 1, same + 1)
            assert mine.route == one.route[: LEVEL * (same + 1)]
            assert its.route == other.route[: LEVEL * (same + 1)]


def test_the_walk_stops_one_level_below_the_deepest() -> None:
    """The caller sees that it went too deep, and no more than that."""
    assert max(place.depth for place in walk(TREE, deepest=2)) == 3
