"""From the texts of a command line to objects: definitions, `--input`, `--workers`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from conductorlite.canonical import canonical, parse
from conductorlite.definitions import TaskDef, WorkflowDef
from conductorlite.errors import InvalidInput
from conductorlite.handlers import EventHandler
from conductorlite.system import system_workers
from conductorlite.worker import Workers

__all__ = [
    "read_definition",
    "read_document",
    "read_event_handler",
    "read_input",
    "read_json",
    "read_task_defs",
    "read_workers",
    "with_system_workers",
]


def read_definition(file: str) -> WorkflowDef:
    """The workflow definition in a file; raises InvalidDefinition, InvalidInput and OSError, each naming the file."""
    return WorkflowDef.from_json(read_document(Path(file), file))


def read_task_defs(file: str) -> tuple[TaskDef, ...]:
    """The task definitions in a file, a list or one; raises likewise."""
    from conductorlite.codec import task_defs_from_json

    return task_defs_from_json(read_document(Path(file), file))


def read_event_handler(file: str) -> EventHandler:
    """The event handler in a file; raises likewise."""
    return EventHandler.from_json(read_document(Path(file), file))


def read_json(text: str, name: str) -> Any:
    """A JSON value, or that in `@file`; raises InvalidInput."""
    return read_document(Path(text[1:]), text[1:]) if text.startswith("@") else _checked(text, name)


def read_input(text: str) -> dict[str, Any]:
    """The value of `--input`: JSON, or `@file`; raises InvalidInput unless it is an object."""
    value = read_json(text, "--input")
    value = read_document(Path(text[1:]), text[1:]) if text.startswith("@") else _checked(text, "--input")
    if not isinstance(value, dict):
        raise InvalidInput(f"--input is a {type(value).__name__}, not a JSON object")
    return value


def read_document(path: Path, name: str) -> Any:
    """The JSON value in a file; raises InvalidInput and OSError, each naming the file."""
    return _checked(path.read_bytes(), name)


def _checked(text: str | bytes, name: str) -> Any:
    value = parse(text, where=name)
    canonical(value, where=name)
    return value


def read_workers(texts: tuple[str, ...]) -> Workers:
    """The values of `--workers`, each `module:attribute`, as one set. Modules are looked for in the current folder first.

    Raises InvalidInput when there is no such module or attribute, or it is no `Workers`, and AlreadyExists when two sets
    have a function for the same type.
    """
    found = [_workers(text) for text in texts]
    return found[0] if len(found) == 1 else Workers().include(*found)


def with_system_workers(workers: Workers) -> Workers:
    """Add the system workers whose types the set has no function for; events of the scheme `conductor` go to the event handlers."""
    shipped = system_workers()
    for worker in shipped:
        if workers.get(worker.queue) is None:
            workers.add(worker.task_type, worker.function)
    return workers


def _workers(text: str) -> Workers:
    module_name, colon, attribute = text.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidInput(f"--workers {text!r} is not module:attribute")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"--workers {text!r}: {error}") from error
    except Exception as error:  # the user's module runs here, and may raise anything
        raise InvalidInput(f"--workers {text!r}: {type(error).__name__} while it was imported: {error}") from error
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise InvalidInput(f"--workers {text!r}: there is no {name!r} in {module_name}")
        value = getattr(value, name)
    if not isinstance(value, Workers):
        raise InvalidInput(f"--workers {text!r} is a {type(value).__name__}, not a conductorlite.Workers")
    return value
