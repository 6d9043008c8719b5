"""Calls and answers of workers: assertions on calls, workers that stand still, and recorded answers.

assert_calls(workers, '''
    +0s   reserve
    +0s   charge
    +20s  charge
''')
"""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidInput, TaskFailedTerminally
from conductorlite.model.executions import TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import did_you_mean
from conductorlite.runtime.calls import Deferred, call
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import HasWorkers, Worker, Workers
from conductorlite.testing.scripted import ScriptedWorkers, alone, around

__all__ = ["Cassette", "assert_calls", "freeze_workers"]


def assert_calls(workers: ScriptedWorkers, expected: str, *, inputs: bool = False) -> None:
    """Fail with a readable difference unless scripted workers were called so: a line for each call, in order, spaces aside.

    A line is the virtual time since the first call and the task type, with `inputs` the input as JSON too.
    """
    first = workers.calls[0].at if workers.calls else 0
    found = []
    for one in workers.calls:
        at = f"{(one.at - first) / 1000:.3f}".rstrip("0").rstrip(".")
        line = f"+{at}s {one.task_type}" + (f" {canonical(dict(one.input))}" if inputs else "")
        found.append(" ".join(line.split()))
    wanted = [" ".join(line.split()) for line in expected.split("\n") if line.strip()]
    if found != wanted:
        raise AssertionError("\n".join(difflib.unified_diff(wanted, found, "expected", "calls", lineterm="", n=3)))


@contextmanager
def freeze_workers(engine: Engine, *task_types: str) -> Iterator[None]:
    """While inside, no worker of the engine takes anything; with `task_types`, none of these. Tasks stay in their queues.

    Raises InvalidInput for a task type that no worker of the engine carries out.
    """
    kept, known = dict(engine.workers.by_queue), engine.workers.task_types
    for name in task_types:
        if name not in known:
            raise InvalidInput(f"no worker carries out {name!r}{did_you_mean(name, known)}")
    for name in [name for name, one in kept.items() if not task_types or one.task_type in task_types]:
        del engine.workers.by_queue[name]
    try:
        yield
    finally:
        engine.workers.by_queue.update(kept)


class Cassette:
    """Answers of real workers, recorded in a file: `Engine(workers=Cassette(path).over(order_flow))`.

    As long as there is no file, the workers are called, and `save` (or leaving a `with` block) writes what they answered. Once
    there is one, they are not called: a call is answered as the one of that task type with the same input was, in the order of the
    record. A call that is not in it fails its task for good.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.recording = not self._path.exists()
        self._answers: dict[str, list[dict[str, Any]]] = defaultdict(list)
        if not self.recording:
            found = parse(self._path.read_bytes())
            entries = [one for said in found.values() for one in said] if isinstance(found, dict) else [None]
            if not all(isinstance(one, dict) and {"status", "output", "reason"} <= one.keys() for one in entries):
                raise InvalidInput(f"{path} holds no answers of workers")
            self._answers.update(found)

    def over(self, *others: HasWorkers) -> Workers:
        """Return the workers with their calls recorded or replayed. Raises InvalidInput for a coroutine, which is not recorded."""
        made = Workers()
        for worker in [one for other in others for one in other.workers]:
            if worker.is_async:
                raise InvalidInput(f"worker {worker.task_type!r} is a coroutine; only plain functions are recorded")
            made.include(alone(around(worker, self._answering(worker))))
        return made

    def _answering(self, worker: Worker) -> Callable[..., Any]:
        def answered(context: TaskContext, **given: Any) -> TaskResult | Deferred:
            task = context.task
            key = f"{task.task_type} {canonical(task.input_data)}"
            if not self.recording:
                answers = self._answers.get(key)
                if not answers:
                    raise TaskFailedTerminally(f"{self._path.name} has no answer of {key}")
                said = answers.pop(0) if len(answers) > 1 else answers[0]
                status = TaskStatus(said["status"])
                known = {"status": status, "output_data": said["output"], "reason": said["reason"]}
                known |= {"callback_after_ms": said.get("callbackAfterMs", 0), "error_types": said.get("errorTypes", ())}
                known |= {"error_bases": said.get("errorBases", ())}
                return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, **known)
            result = call(worker, context)
            if isinstance(result, TaskResult):
                said = {"status": str(result.status), "output": dict(result.output_data), "reason": result.reason}
                more = {"callbackAfterMs": result.callback_after_ms, "errorTypes": list(result.error_types)}
                more |= {"errorBases": list(result.error_bases)}
                self._answers[key].append(said | {name: value for name, value in more.items() if value})
            return result

        return answered

    def save(self) -> None:
        """Write what was recorded; nothing when the answers came from the file."""
        if self.recording:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._answers, indent=1, sort_keys=True), encoding="utf-8")

    def __enter__(self) -> Cassette:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()
