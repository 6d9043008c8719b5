"""maskedFields: hidden in what is shown, there for whoever works with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.engine.queries import masked_value
from conductorlite.store.ports import Backend

CARD = "4711-0815"

DEFINITION = WorkflowDef(
    name="flow",
    tasks=[
        WorkflowTask(
            name="t", task_reference_name="t", input_parameters={"card": "${workflow.input.card}", "all": "${workflow.input}"}
        ),
        WorkflowTask(name="v", task_reference_name="v", type="SET_VARIABLE", input_parameters={"card": "${t.output.deep[0].card}"}),
    ],
    output_parameters={"card": "${workflow.variables.card}", "other": "${t.output.other}"},
    masked_fields=["card"],
)


def _run(engine: Engine) -> None:
    engine.start(DEFINITION, {"card": CARD, "n": 1}, workflow_id="w")
    engine.settle()
    (task,) = engine.poll("t")
    assert task.input_data == {"card": CARD, "all": {"card": CARD, "n": 1}}
    output = {"deep": [{"card": CARD}], "other": "seen"}
    engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, output_data=output))
    engine.settle()


def test_workers_expressions_and_programs_get_the_values(backend: Backend) -> None:
    """Nothing is masked in what is computed with."""
    with Engine(backend, clock=VirtualClock(0)) as engine:
        _run(engine)
        assert engine.get("w").output_data == {"card": CARD, "other": "seen"}
        assert engine.admin.check() == []


@pytest.mark.trap("core-50")
def test_what_is_shown_is_masked(backend: Backend) -> None:
    """`masked=True`, and `explain`: inputs, outputs and variables of the workflow and its tasks, at any depth."""
    with Engine(backend, clock=VirtualClock(0)) as engine:
        _run(engine)
        shown = engine.get("w", masked=True)
        assert shown.input_data == {"card": "***", "n": 1}
        assert (shown.output_data, shown.variables.value) == ({"card": "***", "other": "seen"}, {"card": "***"})
        assert shown.task("t").output_data == {"deep": [{"card": "***"}], "other": "seen"}
        assert shown.task("t").input_data == {"card": "***", "all": {"card": "***", "n": 1}}
        assert CARD in repr(engine.history("w"))
        assert CARD not in repr(engine.history("w", masked=True)) + repr(shown) + str(engine.explain("w"))


def test_the_command_line_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`show`, `history`, `set-variables` and `run`, as text and as JSON; an export is whole: it is to be lived again."""
    pytest.importorskip("click")
    pytest.importorskip("rich")
    from conductorlite.cli import main

    path = str(tmp_path / "store.db")
    with Engine(path, clock=VirtualClock(0)) as engine:
        _run(engine)
    for command in (["show", "w"], ["history", "w"], ["explain", "w"], ["run", "--id", "w"]):
        for how in ([], ["--json"]):
            main([*command, "--db", path, *how])
            said = capsys.readouterr()
            assert CARD not in said.out + said.err, command
    main(["export", "w", "--db", path])
    assert CARD in json.dumps(json.loads(capsys.readouterr().out))


_JSON = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner)
)


@given(_JSON)
def test_a_mask_hides_its_fields_and_nothing_else(value: object) -> None:
    """Without fields the value is the same; with all of them no entry is left to see; masking twice is masking once."""
    assert masked_value(value, ()) == value
    once = masked_value(value, {"a"})
    assert masked_value(once, {"a"}) == once
    everything = masked_value({"x": value}, {"x"})
    assert everything == {"x": "***"}
