"""The stateful machine, on a workflow with a person in it."""

from __future__ import annotations

import pytest
from designs import flow, node, work
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, run_state_machine_as_test

from conductorlite.errors import InvalidInput
from conductorlite.testing import WorkflowMachine

ORDER = flow("order", [work("charge", compensate="refund"), node("HUMAN", "approval"), work("ship")])
QUICK = settings(max_examples=4, stateful_step_count=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))


class Orders(WorkflowMachine):
    """Orders are started, answered, signaled and stopped in any order."""

    definitions = (ORDER,)
    signals = ("approval",)
    outputs = st.fixed_dictionaries({"id": st.integers(0, 3)})


@pytest.mark.slow
def test_the_laws_hold() -> None:
    """Whatever comes in whichever order."""
    run_state_machine_as_test(Orders, settings=QUICK)


class Approved(Orders):
    """With a wrong invariant of its own."""

    @invariant()
    def never_started(self) -> None:
        """No execution is ever there."""
        assert not self.ids()


def test_an_invariant_of_ones_own_is_looked_at() -> None:
    """One that does not hold is found."""
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Approved, settings=settings(QUICK, max_examples=50))


@pytest.mark.parametrize("said", [{"signals": "approval"}, {"verbs": "pause"}, {"verbs": ["explode"]}])
def test_what_is_no_list_of_names_is_refused(said: dict[str, object]) -> None:
    """A text would be taken letter by letter, and nothing would ever be signalled."""
    with pytest.raises(InvalidInput, match="a list of references"):
        type("Wrong", (WorkflowMachine,), said)()
