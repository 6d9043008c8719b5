"""Executions whose foreign code takes long are put aside while others go on: scripts of every language, and paths."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, TaskResult, TaskStatus, Workers, WorkflowDef
from conductorlite.engine.bulk import Exchange, exchange
from conductorlite.errors import WorkflowFailed
from conductorlite.language import processes
from conductorlite.language.conditions import compile_condition
from conductorlite.language.haste import LATER_S, SOON_S, Haste, in_haste
from conductorlite.language.processes import ScriptTimedOut
from conductorlite.language.python import python_installed
from conductorlite.language.templates import compile_template
from conductorlite.language.values import MappingSource
from conductorlite.model.errors import TakesLong

NO_RETRY: dict[str, Any] = {"taskDefinition": {"name": "x", "retryCount": 0}}
ENDLESS = "(function () { for (;;); })()"


def _task(ref: str, kind: str = "SIMPLE", inputs: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": inputs or {}} | fields


def _inline(ref: str, script: str, evaluator: str = "javascript", **inputs: Any) -> dict[str, Any]:
    inputs |= {"evaluatorType": evaluator, "expression": script}
    return _task(ref, "INLINE", inputs, **NO_RETRY)


def _flow(name: str, *tasks: dict[str, Any], **fields: Any) -> WorkflowDef:
    return WorkflowDef.from_json({"name": name, "tasks": list(tasks), **fields})


ROWS = [{"a": number, "b": number} for number in range(20_000)]
#: A text of many paths, each of which looks at every row.
FILTERS = " ".join(f"${{workflow.input.rows[?(@.a > {number} && @.b < {number})].a}}" for number in range(20))
#: What takes long, by what it is: a task behind one of a worker.
LONG: dict[str, dict[str, Any]] = {
    "javascript": _inline("x", ENDLESS),
    "a built-in function": _inline("x", "'a'.repeat(4e5).indexOf('a'.repeat(2e5) + 'b')"),
    "jq": _task("x", "JSON_JQ_TRANSFORM", {"queryExpression": "def f: f; f", "id": "${workflow.workflowId}"}, **NO_RETRY),
    "a switch": _task("x", "SWITCH", evaluatorType="javascript", expression=ENDLESS, decisionCases={"a": [_task("n", "NOOP")]}),
    "a lambda": _task("x", "LAMBDA", {"scriptExpression": "for (;;);"}, **NO_RETRY),
    "a loop": _task("x", "DO_WHILE", loopCondition=ENDLESS, loopOver=[_task("n", "NOOP")]),
    "a path": _task("x", "SET_VARIABLE", {"found": FILTERS}),
}


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    """Nothing is known of the scripts of other tests."""
    for known in (processes._slow, processes._swift, processes._answers):
        known.clear()


@contextmanager
def _driven(engine: Engine) -> Iterator[None]:
    driver = threading.Thread(target=engine.run_forever)
    driver.start()
    try:
        yield
    finally:
        engine.stop()
        driver.join(30)
        assert not driver.is_alive()


@pytest.fixture
def workers() -> Workers:
    """One that has nothing to do."""
    made = Workers(concurrency=4)
    made.add("a", lambda: {"n": 1})
    return made


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, workers: Workers, tmp_path: Path) -> Iterator[Engine]:
    """An engine on the system's clock."""
    stores = [str(tmp_path / "aside.db")] if request.param == "sqlite" else []
    with Engine(*stores, workers=workers) as made:
        yield made


@pytest.mark.parametrize("kind", [next(iter(LONG)), *(pytest.param(one, marks=pytest.mark.slow) for one in list(LONG)[1:])])
def test_others_go_on(engine: Engine, kind: str) -> None:
    """One that only has a worker, and one that also has a script, end while nearly all of twenty wait for theirs."""
    _goes_on_beside(engine, LONG[kind])


@pytest.mark.slow
@pytest.mark.skipif(not python_installed(), reason="needs the extra python")
def test_others_go_on_beside_python(engine: Engine) -> None:
    """The same where the processes are not ours."""
    _goes_on_beside(engine, _inline("x", "while True: pass", "python"))


def _goes_on_beside(engine: Engine, task: dict[str, Any]) -> None:
    small = _flow("small", _task("a"), _inline("i", "[$.n].map(n => n + 1)[0]", n="${a.output.n}"))
    engine.register(small, _flow("long", _task("a"), task))
    with _driven(engine):
        assert engine.start("small").result("60s") == {"result": 2}
        long = [engine.start("long", {"rows": ROWS}) for _ in range(20)]
        assert [engine.start("small").result("60s") for _ in range(3)] == [{"result": 2}] * 3
        assert sum(not run.workflow.status.terminal for run in long) >= 10
    assert engine.admin.check() == []


def test_each_is_cut_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often its turn is decided, and whoever waited first."""
    cut: list[str] = []
    late = processes._late
    monkeypatch.setattr(processes, "_late", lambda limits, where: cut.append(where) or late(limits, where))
    engine.register(_flow("long", _task("a"), _inline("x", ENDLESS)))
    runs = [engine.start("long") for _ in range(2)]
    engine.run_until_idle()
    assert [str(run.status) for run in runs] == ["FAILED"] * 2
    assert ["longer than 0.6 seconds" in (run.workflow.task("x").reason or "") for run in runs] == [True] * 2
    assert len(cut) == 2
    assert engine.admin.check() == []


def test_definitions_take_turns(engine: Engine) -> None:
    """One execution of a definition does not wait for ten of another."""
    many, few = _flow("many", _task("a"), _inline("x", ENDLESS)), _flow("few", _task("a"), _inline("x", f"1; {ENDLESS}"))
    engine.register(many, few)
    others = [engine.start("many") for _ in range(6)]
    run = engine.start("few")
    with _driven(engine), pytest.raises(WorkflowFailed):
        run.result("60s")
    assert sum(one.status.terminal for one in others) <= 4


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_tasks_of_the_same_execution_are_handed_out(store: str, tmp_path: Path) -> None:
    """Those that were offered before; what is reported of them waits with it."""
    with Engine(*([] if store == "memory" else [str(tmp_path / "fork.db")])) as engine:
        branches = [[_task("a"), _inline("x", ENDLESS)], [_task("b"), _task("c")]]
        engine.register(_flow("w", _task("f", "FORK_JOIN", forkTasks=branches), _task("j", "JOIN", joinOn=["x", "c"])))
        run, reports = engine.start("w"), engine.core.reports
        (first,) = engine.poll("a")
        report = reports.prepared(
            first, TaskResult(workflow_id=run.workflow_id, task_id=first.task_id, status=TaskStatus.COMPLETED)
        )
        assert reports.taken([report], None, Haste()).posted
        assert [task.ref for task in engine.poll("b")] == ["b"]
        engine.run_until_idle()
        statuses = [(task.ref, str(task.status)) for task in run.tasks]
        assert statuses[1:] == [("a", "COMPLETED"), ("b", "CANCELED"), ("j", "CANCELED"), ("x", "FAILED")]
        assert engine.admin.check() == []


def test_clients_that_report_together_do_not_wait(engine: Engine) -> None:
    """As a server takes their reports: one is followed by a script without an end, the others by none."""
    engine.register(_flow("long", _task("b"), _inline("x", ENDLESS)), _flow("small", _task("b")))
    runs = [engine.start(name) for name in ("long", "small", "small")]
    tasks = engine.poll("b", count=3)
    done = [TaskResult(workflow_id=t.workflow_id, task_id=t.task_id, lease=t.lease, status=TaskStatus.COMPLETED) for t in tasks]
    asks = [Exchange(result=result) for result in done]
    exchange(engine.core, asks, Haste())
    assert [ask.error for ask in asks] == [None] * 3
    assert [str(run.status) for run in runs] == ["RUNNING", "COMPLETED", "COMPLETED"]
    assert "waits for a script or a path that takes long" in str(engine.explain(runs[0].workflow_id))
    engine.run_until_idle()
    assert str(runs[0].status) == "FAILED"
    assert engine.admin.check() == []


def test_a_parent_that_waits_for_its_script(engine: Engine) -> None:
    """Its turn follows from that of its child, and is put aside too."""
    child, small = _flow("child", _task("a")), _flow("small", _task("a"))
    sub = _task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "child", "version": 1})
    engine.register(child, small, _flow("parent", sub, _inline("x", ENDLESS)))
    with _driven(engine):
        parents = [engine.start("parent") for _ in range(10)]
        assert engine.start("small").result("60s") == {"n": 1}
        assert sum(not run.workflow.status.terminal for run in parents) >= 5
    assert engine.admin.check() == []


def test_what_was_put_aside_is_taken_when_the_store_is_opened_again(workers: Workers, tmp_path: Path) -> None:
    """Closing does not wait for all of them, and no report is lost."""
    path = tmp_path / "closed.db"
    with Engine(path, workers=workers) as engine:
        engine.register(_flow("long", _task("a"), _inline("x", ENDLESS)))
        ids = [engine.start("long").workflow_id for _ in range(2)]
        seen = threading.Event()
        engine.listen(lambda workflow, lines: seen.set())
        with _driven(engine):
            assert seen.wait(30)
    with Engine(path, workers=workers) as engine:
        engine.run_until_idle()
        found = [engine.get(one) for one in ids]
        assert [(str(one.status), str(one.task("a").status)) for one in found] == [("FAILED", "COMPLETED")] * 2
        assert engine.admin.check() == []


def test_in_haste_nobody_waits() -> None:
    """For a helper that has to start, for a script, and for a script that took long before."""
    quick, endless = compile_condition("[$.a].map(a => a + 1)[0]"), compile_condition(ENDLESS)
    processes._end_all()
    with in_haste(Haste()), pytest.raises(TakesLong) as caught:
        quick.evaluate({"a": 1}, seed="haste")
    assert not caught.value.tried
    with in_haste(Haste(starts=True)):
        assert quick.evaluate({"a": 2}) == 3
    with in_haste(Haste()):
        assert quick.evaluate({"a": 3}) == 4
        for seed in ("haste 1", "haste 2"):
            with pytest.raises(TakesLong) as caught:
                endless.evaluate({}, seed=seed)
            assert caught.value.tried
    assert len(processes._unfinished) == 1
    with pytest.raises(ScriptTimedOut):  # it has gone on meanwhile
        endless.evaluate({}, seed="haste 1")
    assert not processes._unfinished


def test_a_script_that_was_soon_done_is_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is the machine that is slow; one that took long is not tried until somebody has waited for it."""
    waited: list[float] = []
    answers = processes._Helper.answers_within
    monkeypatch.setattr(processes._Helper, "answers_within", lambda self, seconds: waited.append(seconds) or answers(self, seconds))
    quick, endless = compile_condition("[$.a].map(a => a + 3)[0]"), compile_condition(f"2; {ENDLESS}")
    with in_haste(Haste(starts=True)):
        assert [quick.evaluate({"a": number}) for number in range(3)] == [3, 4, 5]
        for seed in ("1", "2"):
            with pytest.raises(TakesLong):
                endless.evaluate({}, seed=seed)
    assert waited[-4:] == [SOON_S, LATER_S, LATER_S, SOON_S]


def test_a_path_in_haste_looks_at_less() -> None:
    """All paths of a turn together."""
    source = MappingSource(whole={"rows": ROWS[:1_000]})
    whole = compile_template("${rows[?(@.a > 990)].a}")
    assert whole.render(source) == [991, 992, 993, 994, 995, 996, 997, 998, 999]
    with in_haste(Haste()):
        assert len(whole.render(source)) == 9
        with pytest.raises(TakesLong):
            compile_template(["${rows[?(@.a > 990)].a}"] * 50).render(source)
