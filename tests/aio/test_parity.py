"""The verbs that are awaited are generated from those that are not."""

from __future__ import annotations

import inspect

import pytest

from conductorlite import Engine, Run
from conductorlite.runtime import aio as generated
from conductorlite.runtime.aio import AsyncEngine, AsyncRun

from generate import TARGET, Writer, faces, verbs  # isort: skip

#: Where there is an `async` in the words for what is returned.
TWINS = {
    **{f"Run[{given}]": f"AsyncRun[{given}]" for given in ("R", "Any", "dict[str, Any]")},
    "Iterator[str]": "AsyncIterator[str]",
}
TWINS["Iterator[HistoryEvent]"] = "AsyncIterator[HistoryEvent]"
TWINS["Iterator[StreamItem | Dropped]"] = "AsyncIterator[StreamItem | Dropped]"

FACES = {Engine: AsyncEngine} | {service: getattr(generated, f"Async{service.__name__}") for service in faces().values()}
VERBS = [(face, twin, name) for face, twin in FACES.items() for name in verbs(face)]


def test_the_module_is_what_the_generator_writes() -> None:
    """`python tests/aio/generate.py` changes nothing."""
    assert TARGET.read_text(encoding="utf-8") == Writer().module()


@pytest.mark.parametrize(("face", "twin"), FACES.items())
def test_the_same_verbs(face: type, twin: type) -> None:
    """Whatever an Engine and its services do, an AsyncEngine and its do; only `background` is its own."""
    assert set(verbs(twin)) - {"background"} == set(verbs(face))


@pytest.mark.parametrize(("face", "twin", "name"), [*VERBS, (Engine, AsyncEngine, "__init__")])
def test_the_same_signature(face: type, twin: type, name: str) -> None:
    """Parameters, defaults and annotations are equal, and what is returned has its asynchronous twin; all is awaited."""
    sync, awaited = inspect.signature(getattr(face, name)), inspect.signature(getattr(twin, name))
    assert list(awaited.parameters.values()) == list(sync.parameters.values())
    assert awaited.return_annotation == TWINS.get(sync.return_annotation, sync.return_annotation)
    assert (
        name == "__init__"
        or inspect.iscoroutinefunction(getattr(twin, name))
        or awaited.return_annotation.startswith("AsyncIterator")
    )


def test_the_same_handle() -> None:
    """Run and AsyncRun have the same names; properties stay properties, awaited."""
    public = {name for name in vars(Run) if not name.startswith("_")}
    assert {name for name in vars(AsyncRun) if not name.startswith("_")} == public
    for name in public:
        one, other = getattr(Run, name), getattr(AsyncRun, name)
        assert type(one) is type(other), name
        if isinstance(one, property):
            assert inspect.iscoroutinefunction(other.fget)
            one, other = one.fget, other.fget
        if callable(one):
            returned = inspect.signature(one).return_annotation
            assert inspect.signature(one).replace(return_annotation=TWINS.get(returned, returned)) == inspect.signature(other)
