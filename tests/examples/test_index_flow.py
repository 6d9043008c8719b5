"""The flow of the index job, with scripted workers in virtual time: every way through it, in each of its four branches."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from scripts import load

from conductorlite import Engine, Run, TaskContext, TaskResult, TaskStatus, WorkflowStatus
from conductorlite.testing import ScriptedWorkers

INDEX = load("index_stdlib/index_stdlib.py")
pytestmark = pytest.mark.parametrize("engine_store", ["memory"], indirect=True)

#: By file: the outcome of its parse, and what is recorded of it.
PROBLEMS = {
    "syntax": ("SyntaxError", "is not valid Python"),
    "encoding": ("UnicodeDecodeError", "is not in the encoding it claims"),
    "gone": ("FileNotFoundError", "vanished while it was indexed"),
    "odd": ("PermissionError", "could not be indexed"),
}
GIVEN = {"source": "s", "broken": "b", "limit": 7}
RETRIES = 5

#: By branch and file, which record is made.
NAMES = ("syntax", "encoding", "vanished", "other")
RECORDS = [(n, file, f"{name}_{n}") for n in range(4) for file, name in zip(PROBLEMS, NAMES, strict=True)]


def scripted(workers: ScriptedWorkers, tmp_path: Path, shares: list[list[dict[str, object]]]) -> None:
    """Scripts for all steps; a file is parsed as its name says."""
    workers.include(INDEX.job_for(tmp_path))
    workers.list_packages.returns(listed(shares)).optional()
    workers.vanish.returns({}).optional()
    workers.parse_file.returns({"outcome": "indexed"}).optional()
    for file in PROBLEMS:
        workers.parse_file.when(input={"file": file}).does(failing).optional()
    workers.record_broken.returns({}).optional()
    workers.write_report.returns({"summary": "done"}).optional()


def listed(shares: list[list[dict[str, object]]]) -> dict[str, object]:
    """What `list_packages` puts out."""
    return {"shares": shares, "files": 9, "vanishing": "v"}


def failing(context: TaskContext, file: str, **_: object) -> TaskResult:
    """What `parse_file` reports of a file that cannot be read: one that is not there may come yet."""
    outcome, problem = PROBLEMS[file]
    status = TaskStatus.FAILED if file == "gone" else TaskStatus.FAILED_WITH_TERMINAL_ERROR
    return TaskResult(
        workflow_id=context.workflow_id,
        task_id=context.task_id,
        status=status,
        output_data={"outcome": outcome},
        reason=f"because it {problem}",
    )


def begun(engine: Engine, tmp_path: Path, **given: object) -> Run[object]:
    """One run of the job."""
    return engine.start(INDEX.job_for(tmp_path), **{**GIVEN, **given})


def only(n: int, *files: str) -> list[list[dict[str, object]]]:
    """Shares of which one branch alone has anything."""
    return [[share(n, *files)] if branch == n else [] for branch in range(4)]


def share(n: int, *files: str) -> dict[str, object]:
    """A package of a branch."""
    return {"package": f"p{n}", "root": f"r{n}", "files": list(files)}


def test_files_of_every_branch_are_parsed_in_their_order(engine: Engine, workers: ScriptedWorkers, tmp_path: Path) -> None:
    """With the package and root of each; none is broken."""
    scripted(workers, tmp_path, [[share(n, "a", "b"), share(n + 4, "c")] for n in range(4)])
    run = begun(engine, tmp_path)
    assert run.result() == {"summary": "done"}
    assert workers.list_packages.inputs == [{**GIVEN, "branches": 4}]
    assert workers.vanish.inputs == [{"path": "v"}]
    assert workers.write_report.inputs == [{"listed": 9}]
    for n in range(4):
        mine = [one.input for one in workers.parse_file.calls if one.ref.startswith(f"parse_{n}__")]
        assert [(one["package"], one["root"], one["file"]) for one in mine] == [
            (f"p{n}", f"r{n}", "a"),
            (f"p{n}", f"r{n}", "b"),
            (f"p{n + 4}", f"r{n + 4}", "c"),
        ]
    assert workers.record_broken.calls == []
    order = [one.task_type for one in workers.calls]
    assert (order[:2], order[-1]) == (["list_packages", "vanish"], "write_report")


def test_what_is_broken_is_recorded_and_the_job_goes_on(engine: Engine, workers: ScriptedWorkers, tmp_path: Path) -> None:
    """By what was wrong with it, in each branch; what is not there is tried six times, everything else once."""
    scripted(workers, tmp_path, [[share(n, "a", *PROBLEMS), share(n, "c")] for n in range(4)])
    run = begun(engine, tmp_path)
    assert run.result() == {"summary": "done"}
    for n in range(4):
        mine = [one for one in workers.record_broken.calls if one.ref.partition("__")[0].endswith(f"_{n}")]
        wanted = [{"file": file, "problem": problem, "reason": f"because it {problem}"} for file, (_, problem) in PROBLEMS.items()]
        assert [one.input for one in mine] == wanted
        refs = [one.ref.partition("__")[0] for one in mine]
        assert refs == [f"{name}_{n}" for name in NAMES]
        parsed = [one.input["file"] for one in workers.parse_file.calls if one.ref.startswith(f"parse_{n}__")]
        assert parsed == ["a", "syntax", "encoding", *["gone"] * (RETRIES + 1), "odd", "c"]


def test_whoever_parses_or_records_may_die(engine: Engine, workers: ScriptedWorkers, tmp_path: Path) -> None:
    """Who dies is missed after two seconds, who fails is asked again, in each branch; nothing is lost."""
    scripted(workers, tmp_path, [[share(n, "slow", *PROBLEMS)] for n in range(4)])
    workers.parse_file.when(input={"file": "slow"}).crashes(4).then.returns({"outcome": "indexed"})
    refs = [f"{name}_{n}" for n in range(4) for name in NAMES]
    for ref in refs:
        workers.record_broken.when(ref=ref).crashes(1).then.fails(1).then.returns({})
    assert begun(engine, tmp_path).result() == {"summary": "done"}
    slow = [one for one in workers.parse_file.calls if one.input["file"] == "slow"]
    for n in range(4):
        at = [one.at for one in slow if one.ref.startswith(f"parse_{n}__")]
        assert [after - before for before, after in pairwise(at)] == [2_200] * (len(at) - 1)
    for ref in refs:
        first, second, third = (one.at for one in workers.record_broken.calls if one.ref.partition("__")[0] == ref)
        assert (second - first, third - second) == (2_200, 200)


@pytest.mark.parametrize("step", ["list_packages", "vanish", "record_broken", "write_report"])
def test_a_step_that_cannot_be_done_fails_the_job(engine: Engine, workers: ScriptedWorkers, tmp_path: Path, step: str) -> None:
    """At once, when it fails for good; it is the last step there is."""
    scripted(workers, tmp_path, [[share(0, "odd" if step == "record_broken" else "a")], [], [], []])
    workers[step].forget().fails_terminally("no")
    run = begun(engine, tmp_path)
    engine.run_until_idle()
    assert run.status is WorkflowStatus.FAILED
    assert len(workers[step].calls) == 1
    assert workers.calls[-1].task_type == step


@pytest.mark.parametrize(("step", "tries"), [("list_packages", 11), ("vanish", 11), ("record_broken", 11), ("write_report", 11)])
def test_what_fails_is_tried_again(engine: Engine, workers: ScriptedWorkers, tmp_path: Path, step: str, tries: int) -> None:
    """Ten times, 200 ms apart; the last of them may still succeed. A worker that dies is missed after two seconds."""
    shares = [[share(0, "odd" if step == "record_broken" else "a")], [], [], []]
    scripted(workers, tmp_path, shares)
    good = listed(shares) if step == "list_packages" else {"summary": "done"}
    workers[step].forget().crashes(1).then.fails(tries - 2).then.returns(good)
    run = begun(engine, tmp_path)
    assert run.result() == {"summary": "done"}
    at = [one.at for one in workers[step].calls]
    assert [after - before for before, after in pairwise(at)] == [2_200, *[200] * (tries - 2)]


@pytest.mark.parametrize("step", ["list_packages", "vanish", "write_report"])
def test_what_fails_again_and_again_fails_the_job(engine: Engine, workers: ScriptedWorkers, tmp_path: Path, step: str) -> None:
    """After ten retries, not before and not later."""
    scripted(workers, tmp_path, only(0, "a"))
    workers[step].forget().fails()
    run = begun(engine, tmp_path)
    engine.run_until_idle()
    assert (run.status, len(workers[step].calls)) == (WorkflowStatus.FAILED, 11)


def test_a_record_that_is_never_made_fails_the_job(engine: Engine, workers: ScriptedWorkers, tmp_path: Path) -> None:
    """After ten retries, whichever of the sixteen it is: a report without it would be wrong."""
    scripted(workers, tmp_path, [])
    for n, file, ref in RECORDS:
        workers.list_packages.when(input={"source": ref}).returns(listed(only(n, file)))
    workers.record_broken.forget().fails()
    runs = [begun(engine, tmp_path, source=ref) for _, _, ref in RECORDS]
    engine.run_until_idle()
    assert [run.status for run in runs] == [WorkflowStatus.FAILED] * len(RECORDS)
    tried = Counter(one.ref.partition("__")[0] for one in workers.record_broken.calls)
    assert tried == dict.fromkeys((ref for _, _, ref in RECORDS), 11)


def test_the_report_waits_for_every_branch(engine: Engine, workers: ScriptedWorkers, tmp_path: Path) -> None:
    """Whichever is the last: its file takes five seconds, and the others have none."""
    scripted(workers, tmp_path, [])
    for n in range(4):
        workers.list_packages.when(input={"source": f"s{n}"}).returns(listed(only(n, "long")))
    workers.parse_file.when(input={"file": "long"}).takes("5s").returns({"outcome": "indexed"})
    runs = [begun(engine, tmp_path, source=f"s{n}") for n in range(4)]
    assert [run.result() for run in runs] == [{"summary": "done"}] * 4
    assert [one.at - engine.get(runs[0].workflow_id).created_at for one in workers.write_report.calls] == [5_000] * 4
