"""Verbs on a child and on its parent, one after the other; bulk verbs."""

from __future__ import annotations

from typing import Any, Final

from cases import OWN, Case, task, workflow
from verbs import CHILD, DEFS

PARENT: Final = "s#0/"
GRANDCHILD: Final = "s#0/m#0/"
FAILS: Final = [{"status": "FAILED"}, {}]


def _sub(ref: str, name: str, **more: Any) -> dict[str, Any]:
    return task(ref, "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}{name}", "version": 1}, **more)


def _one(did: str, of: str = "", **more: Any) -> dict[str, Any]:
    return {"do": did, **({"of": of} if of else {}), **more}


STATES: Final[dict[str, list[dict[str, Any]]]] = {
    "begun": [{"do": "drive", "times": 1}],
    "midway": [{"do": "drive", "times": 2}],
    "c1_fails": [{"do": "drive", "outcomes": {"c1": FAILS}}],
    "c2_fails": [{"do": "drive", "outcomes": {"c2": FAILS}}],
    "b_fails": [{"do": "drive", "outcomes": {"b": FAILS}}],
    "good": [{"do": "drive"}],
}

VERBS: Final[dict[str, list[dict[str, Any]]]] = {
    "pause_child": [_one("pause", PARENT)],
    "pause_resume_child": [_one("pause", PARENT), _one("resume", PARENT)],
    "pause_child_resume_parent": [_one("pause"), _one("pause", PARENT), _one("resume"), _one("resume", PARENT)],
    "terminate_child": [_one("terminate", PARENT, reason="enough")],
    "terminate_child_retry_parent": [_one("terminate", PARENT, reason="enough"), _one("retry")],
    "terminate_parent_retry_child": [_one("terminate", reason="enough"), _one("retry", PARENT)],
    "retry_child": [_one("retry", PARENT)],
    "retry_parent": [_one("retry")],
    "retry_parent_resume": [_one("retry", resume=True)],
    "retry_child_retry_parent": [_one("retry", PARENT), _one("retry")],
    "restart_child": [_one("restart", PARENT)],
    "restart_parent": [_one("restart")],
    "rerun_child": [_one("rerun", PARENT)],
    "rerun_child_c1": [_one("rerun", PARENT, ref="c1")],
    "rerun_child_c2": [_one("rerun", PARENT, ref="c2")],
    "rerun_parent_s": [_one("rerun", ref="s")],
    "rerun_parent_b": [_one("rerun", ref="b")],
    "skip_child_c2": [_one("skip", PARENT, ref="c2")],
}

DEEP: Final[dict[str, list[dict[str, Any]]]] = {
    "retry_root": [_one("retry")],
    "retry_root_resume": [_one("retry", resume=True)],
    "retry_middle": [_one("retry", PARENT)],
    "retry_middle_resume": [_one("retry", PARENT, resume=True)],
    "retry_grandchild": [_one("retry", GRANDCHILD)],
    "restart_middle": [_one("restart", PARENT)],
    "restart_grandchild": [_one("restart", GRANDCHILD)],
    "rerun_grandchild_c1": [_one("rerun", GRANDCHILD, ref="c1")],
    "terminate_root": [_one("terminate", reason="enough")],
    "terminate_grandchild": [_one("terminate", GRANDCHILD, reason="enough")],
    "pause_root": [_one("pause")],
}


def _families() -> list[Case]:
    shapes = {
        "plain": [task("a"), _sub("s", "child"), task("b")],
        "optional": [task("a"), _sub("s", "child", optional=True), task("b")],
    }
    found = []
    for shape, tasks in shapes.items():
        for state, before in STATES.items():
            for verb, steps in VERBS.items():
                if shape == "optional" and state not in ("c1_fails", "begun"):
                    continue
                found.append(
                    Case(
                        name=f"families/{shape}/{state}/{verb}",
                        workflows=[workflow(*tasks), CHILD],
                        task_defs=DEFS,
                        steps=[*before, *steps, {"do": "drive", "times": 12}],
                    )
                )
    middle = workflow(_sub("m", "child"), name="middle")
    for state, before in {"begun": [], "c1_fails": [{"do": "drive", "outcomes": {"c1": FAILS}}]}.items():
        for verb, steps in DEEP.items():
            found.append(
                Case(
                    name=f"families/deep/{state}/{verb}",
                    workflows=[workflow(_sub("s", "middle"), task("b")), middle, CHILD],
                    task_defs=DEFS,
                    steps=[*before, *steps, {"do": "drive", "times": 12}],
                )
            )
    return found


def _bulks() -> list[Case]:
    states: dict[str, list[dict[str, Any]]] = {
        "running": [],
        "paused": [_one("pause")],
        "failed": [{"do": "drive", "outcomes": {"a": FAILS}}],
        "good": [{"do": "drive"}],
        "terminated": [_one("terminate", reason="enough")],
    }
    return [
        Case(
            name=f"bulk/{state}/{verb}",
            workflows=[workflow(task("a"), task("b"))],
            task_defs=DEFS,
            steps=[*before, _one("bulk", verb=verb), {"do": "drive", "times": 5}],
        )
        for state, before in states.items()
        for verb in ("pause", "resume", "restart", "retry", "terminate")
    ]


def cases() -> list[Case]:
    """Children and parents, and bulk verbs."""
    return [*_families(), *_bulks()]
