"""How long a `wait` lasts, by what it is given."""

from datetime import timedelta
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, flow
from conductorlite.errors import BuildError, InvalidDefinition
from conductorlite.flows import wait


def of(duration: Any) -> Any:
    """A flow that waits so long."""

    @flow(by_calls=True)
    def rest() -> None:
        wait(duration)

    return rest


@pytest.mark.parametrize(
    ("duration", "written", "seconds"),
    [
        ("30 days", "30 days", 2_592_000),
        ("1h30m", "1h30m", 5_400),
        (timedelta(days=30), "2592000 seconds", 2_592_000),
        (timedelta(seconds=90), "90 seconds", 90),
        ("2000ms", "2 seconds", 2),
    ],
)
def test_a_duration(duration: Any, written: str, seconds: int) -> None:
    """Conductor's own form stays; each other one becomes whole seconds."""
    rest, clock = of(duration), VirtualClock(0)
    assert rest.definition.tasks[0].input_parameters["duration"] == written
    with Engine(workers=[rest], clock=clock) as engine:
        engine.start(rest)
        engine.run_until_idle()
        assert clock.now() == seconds * 1000


@pytest.mark.parametrize(
    ("duration", "text"),
    [("300ms", "'300ms' is no whole number of seconds"), ("soon", "'soon'"), (5, "'5s'"), (timedelta(seconds=-1), "negative")],
)
def test_a_wrong_duration(duration: Any, text: str) -> None:
    """It is refused when the flow is compiled, with what it is."""
    with pytest.raises(BuildError, match=f"rest: .*{text}"):
        of(duration).definition  # noqa: B018


def test_an_engine_that_cannot_register_a_flow_says_why() -> None:
    """The error is the definition's own, and the store is closed."""

    @flow(by_calls=True, name="")
    def nameless() -> None:
        wait("1s")

    with pytest.raises(InvalidDefinition) as raised:
        Engine(workers=[nameless])
    assert "name: is empty" in str(raised.value)
