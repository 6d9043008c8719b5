"""What workers take and give, by their annotations: what `lint` follows references with."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from conductorlite.flows.flow import fields_of
from conductorlite.flows.schemas import hints, is_whole, returnable, returned
from conductorlite.model.executions import TaskResult
from conductorlite.plan.lint import Contract
from conductorlite.runtime.registry import Worker, Workers
from conductorlite.runtime.values import plain

__all__ = ["contracts_of"]


def contracts_of(workers: Workers) -> dict[str, Contract]:
    """A contract for each task type that a set of workers carries out."""
    return {worker.task_type: _contract(worker) for worker in workers}


def _contract(worker: Worker) -> Contract:
    signature = worker.signature
    kind = returned(worker.function)
    anything = signature.whole is not None or signature.parameters is None
    fields = _fields(kind)
    return Contract(
        takes=None if anything else sorted(signature.parameters or ()),
        required=sorted(signature.required),
        readers=signature.readers if signature.whole is None else {},
        gives=None if fields is None else list(fields),
        choices={name: found for name, kind in (fields or {}).items() if (found := _choices(kind)) is not None},
        task_def=worker.task_def,
    )


def _fields(kind: Any) -> dict[str, Any] | None:
    """The fields of an output and their kinds; None where there may be any."""
    if kind is type(None):
        return {}
    if kind is Any or TaskResult in (kind, *get_args(kind)):
        return None
    if not is_whole(kind):
        return {"result": kind}
    fields: dict[str, Any] = {}
    for arm in returnable(kind):
        names = None if arm is Any else fields_of(arm)
        if names is None:
            return None
        fields |= {name: hints(arm).get(name, Any) for name in names}
    return fields


def _choices(kind: Any) -> Collection[str] | None:
    """The texts by which a SWITCH knows the values of a kind; None where there are too many."""
    found: list[str] = []
    for arm in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        if arm is bool:
            found += ["true", "false"]
        elif arm is type(None):
            found.append("null")
        elif get_origin(arm) is Literal:
            found += [str(plain(value)) for value in get_args(arm)]
        elif isinstance(arm, type) and issubclass(arm, Enum):
            found += [str(plain(value)) for value in arm]
        else:
            return None
    return found
