"""Secrets of one engine: filled in when a task is handed to a worker, taken out of all that comes back.

Source of the rule: Conductor's `ExecutionService.poll`, which resolves them in the returned copy only, and lets what the worker
makes of them be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.engine.cache import Cache
from conductorlite.language.secrets import Scrubber, filled_in, secret_names, secret_value
from conductorlite.model.canonical import Revealed, canonical
from conductorlite.model.errors import InvalidInput, SecretsUnavailable
from conductorlite.model.executions import Task, TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node
from conductorlite.store.ports import SecretProvider

__all__ = ["Secrecy"]

#: Attempts at a time whose values are remembered; for another one they are looked up again when it reports.
_HELD: Final = 10_000


class _Unavailable(Exception):
    """A secret could not be looked up; its text names it and holds no value. Never leaves this module."""


class Secrecy:
    """What an engine knows of secrets: where to ask, and what it has handed out to attempts that are not over."""

    def __init__(self, provider: SecretProvider, environment: Mapping[str, str]) -> None:
        self._provider = provider
        self._environment = environment
        self._held: Cache[str, tuple[Any, ...]] = Cache(_HELD)

    def handed(self, task: Task, node: Node) -> Task | TaskResult:
        """A polled task as its worker receives it, or the report of why it cannot be carried out."""
        sites, metadata_names = node.template.secrets, _metadata_names(node)
        self._held.put(task.task_id, ())  # as long as it has none, its report need not look for any
        if not sites and not metadata_names:
            return task
        try:
            values = {name: secret_value(name, self._text) for name in secret_names(sites)}
            named = {name: self._text(name) for name in metadata_names}
            # What is no secret may be a variable of the engine's environment, as in Conductor; it is not kept secret then.
            metadata = {name: self._environment[name] if text is None else text for name, text in named.items()}
            text = canonical(filled_in(task.input_data, sites, values))
        except KeyError as missing:
            return _refused(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, f"there is no secret {missing.args[0]!r}")
        except _Unavailable as error:
            return _refused(task, TaskStatus.FAILED, str(error))
        except InvalidInput:  # which may quote a value
            reason = "with its secrets filled in, the input cannot be kept as JSON"
            return _refused(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason)
        secrets = (*values.values(), *(text for text in named.values() if text is not None))
        self._held.put(task.task_id, secrets)
        return attrs.evolve(task, input=Revealed(text, secrets, metadata))

    def _text(self, name: str) -> str | None:
        try:
            text = self._provider.get(name)
        except Exception as error:
            # Whatever it says of it: whether that holds a value is not ours to know.
            raise _Unavailable(f"the secret {name!r} could not be looked up: {type(error).__name__}") from None
        if text is not None and not isinstance(text, str):
            raise _Unavailable(f"the secret {name!r} is not text, but of type {type(text).__name__}")
        return text

    def scrubber(self, task: Task, node: Callable[[], Node | None]) -> Scrubber | None:
        """What takes the secrets of a task out of what its worker says; None when it has none.

        What was handed out by another process is looked up again. Raises SecretsUnavailable: nothing is stored then.
        """
        secrets = task.input.secrets if isinstance(task.input, Revealed) else self._held.get(task.task_id)
        if secrets is None:
            of = node()
            names = () if of is None else (*secret_names(of.template.secrets), *_metadata_names(of))
            try:
                secrets = tuple(text for name in names if (text := self._text(name.partition(".")[0])) is not None)
            except _Unavailable as error:
                raise SecretsUnavailable(f"task {task.ref!r}: {error}; the report is not stored") from None
        return Scrubber(secrets) if secrets else None

    def forget(self, task: Task) -> None:
        """Forget what an attempt was given: it is over."""
        self._held.drop(task.task_id)


def _metadata_names(node: Node) -> Sequence[str]:
    definition = node.task.task_definition
    return () if definition is None else definition.runtime_metadata


def _refused(task: Task, status: TaskStatus, reason: str) -> TaskResult:
    text = f"task {task.ref!r}: {reason}"
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status, reason=text, lease=task.lease)
