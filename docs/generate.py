"""Writes the pages of the reference that follow from the code: `python docs/generate.py`.

A test compares what is committed with what this writes, so the pages cannot grow old.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import pkgutil
import re
import runpy
import textwrap
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, get_overloads

import attrs

import conductorlite
from conductorlite import (
    AsyncEngine,
    AsyncRun,
    Engine,
    EngineConfig,
    EnvironmentSecrets,
    Run,
    TaskContext,
    Transaction,
    VirtualClock,
    Workers,
    WorkflowDef,
    errors,
)
from conductorlite.engine.config import services
from conductorlite.flows import Flow
from conductorlite.model import definitions, handlers
from conductorlite.model.canonical import canonical
from conductorlite.model.scalars import json_names
from conductorlite.model.statuses import (
    TASK_TRANSITIONS,
    TASK_VERB_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    WORKFLOW_VERB_TRANSITIONS,
    TaskStatus,
    WorkflowStatus,
)
from conductorlite.model.typed import TABLE, plain
from conductorlite.pages.graph import picture
from conductorlite.plan.tree import OPERATOR_TYPES

FOLDER: Final = Path(__file__).parent / "reference"
PACKAGE_SCHEMAS: Final = Path(__file__).parents[1] / "conductorlite" / "schemas"

_NOTE: Final = "<!-- Written by docs/generate.py: change the code, then run it. -->\n"

# ---------------------------------------------------------------------- types


def types_page() -> str:
    """How typed values are carried as JSON, each with an example."""
    known = runpy.run_path(str(Path(__file__).parent / "types_of_examples.py"))
    rows = []
    for form in TABLE:
        value = eval(form.example, known)
        written = canonical(plain(value))
        rows.append(f"| {form.annotation.replace('|', _BAR)} | {form.json} | `{form.example.replace('|', _BAR)}` | `{written}` |")
    return "\n".join(
        [
            "# Types",
            "",
            _NOTE,
            "This page lists how Python values become JSON and back. The table applies to parameters and results of worker",
            "functions and tasks, arguments and results of flows, a person's answer (`human`), and every value you pass to a verb.",
            "",
            "| annotation | in JSON | example | its JSON |",
            "|---|---|---|---|",
            *rows,
            "",
            "A value comes back equal and of the same type. `int | None` allows null. In a union, the type that accepts the JSON",
            "value unchanged wins, then the first that loses nothing: a text stays a text if the union has `str`. Keys of a `dict`",
            "become texts: of `str`, numbers, `bool`, dates, `UUID`, enums.",
            "",
            "## What is refused, and where",
            "",
            "| what | when it is refused |",
            "|---|---|",
            "| an annotation that JSON cannot carry (`complex`, a class without fields, `set[list[int]]`) | at the decorator |",
            "| an unresolvable annotation: a name imported only under `if TYPE_CHECKING:` | at the decorator |",
            "| a missing argument of a flow, or one of the wrong type | at the start; nothing is stored |",
            "| an input of a task with the wrong type | when the task runs: it fails permanently, and the function is not called |",
            "| a person's answer with the wrong type or an unknown entry | when it is sent; the step keeps waiting |",
            "",
            "Each error is an `InvalidInput` that names the field's path (`order.items[2].price`).",
            "",
            "## A class of your own",
            "",
            "Register hooks of [cattrs](https://catt.rs) before you annotate a function with your class:",
            "",
            "```python",
            "from conductorlite import task",
            "from conductorlite.flows import converter",
            "",
            "",
            "class Money:",
            "    def __init__(self, cents: int) -> None:",
            "        self.cents = cents",
            "",
            "",
            "converter().register_unstructure_hook(Money, lambda money: money.cents)",
            "converter().register_structure_hook(Money, lambda cents, _: Money(cents))",
            "",
            "",
            "@task",
            "def pay(price: Money) -> Money:",
            "    return Money(price.cents + 5)",
            "```",
            "",
        ]
    )


#: What a `|` is in a cell of a table.
_BAR: Final = "\\|"


# ---------------------------------------------------------------------- statuses


def statuses() -> str:
    """Transition tables and diagrams of tasks and workflows."""
    return "\n".join(
        [
            "# Statuses",
            "",
            _NOTE,
            "This page lists which status can follow which. The engine consults these tables at every change, and",
            "`Engine.admin.check` replays the journal of an execution against them.",
            "",
            "## Tasks",
            "",
            "One attempt at one task of a workflow. A retry is a new attempt with a row of its own.",
            "",
            *_diagram(TASK_TRANSITIONS),
            "",
            *_table(TaskStatus, TASK_TRANSITIONS, TASK_VERB_TRANSITIONS, _TASK_MEANING),
            "",
            "PENDING is Orkes' status. With `Semantics.OSS`, such a task is shown as SCHEDULED in JSON and in expressions; see",
            "[Limit what runs](../how-to/limit-what-runs.md).",
            "",
            "The failure of an `optional` task becomes COMPLETED_WITH_ERRORS.",
            "",
            "## Workflows",
            "",
            *_diagram(WORKFLOW_TRANSITIONS),
            "",
            *_table(WorkflowStatus, WORKFLOW_TRANSITIONS, WORKFLOW_VERB_TRANSITIONS, _WORKFLOW_MEANING),
            "",
            "Only `retry`, `restart` and `rerun` make the transitions *by a verb*: they reopen an ended execution, with its",
            "JOINs, loops and sub-workflow tasks, in place. A *parked* workflow keeps its status; see",
            "[Guarantees](../explanation/guarantees.md).",
            "",
        ]
    )


_TASK_MEANING: Final[Mapping[str, str]] = {
    "PENDING": "waits for a slot of a limit; not offered to workers",
    "SCHEDULED": "offered to workers from `due_at` on",
    "IN_PROGRESS": "held by a worker under a lease, or an open operator (WAIT, HUMAN, JOIN, DO_WHILE, SUB_WORKFLOW …)",
    "COMPLETED": "succeeded",
    "COMPLETED_WITH_ERRORS": "failed permanently, but optional: the workflow continues",
    "FAILED": "failed; retried while retries are left",
    "FAILED_WITH_TERMINAL_ERROR": "failed; not retried automatically",
    "TIMED_OUT": "a deadline passed; retried while retries are left, unless the policy is TIME_OUT_WF",
    "CANCELED": "ended because its workflow ended, or by a report",
    "SKIPPED": "skipped by `skip_task`, or with its fork",
}

_WORKFLOW_MEANING: Final[Mapping[str, str]] = {
    "RUNNING": "tasks are scheduled as others end",
    "PAUSED": "reports are accepted, nothing new is scheduled",
    "COMPLETED": "every task has ended, or a TERMINATE completed it",
    "FAILED": "a task failed permanently, or a TERMINATE failed it",
    "TIMED_OUT": "the workflow's own timeout, or a task's with the policy TIME_OUT_WF",
    "TERMINATED": "ended by `terminate`, a TERMINATE, the end of its parent, or a task that was CANCELED by a report",
}


def _diagram(table: Mapping[Any, frozenset[Any]]) -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    for before, after in table.items():
        if before is None:
            continue
        for status in sorted(after):
            yield f"    {before} --> {status}"
    yield "```"


def _table(
    kind: type[Enum],
    table: Mapping[Any, frozenset[Any]],
    verbs: Mapping[Any, frozenset[Any]],
    meaning: Mapping[str, str],
) -> Iterator[str]:
    yield "| status | meaning | may become | by a verb |"
    yield "|---|---|---|---|"
    for status in kind:
        after = ", ".join(sorted(table[status])) or "–"
        by_verb = ", ".join(sorted(verbs.get(status, ()))) or "–"
        yield f"| {status.value} | {meaning[status.value]} | {after} | {by_verb} |"


# ---------------------------------------------------------------------- errors


def errors_page() -> str:
    """Every exception with its docstring, and the tree."""
    doc = inspect.cleandoc(errors.__doc__ or "")
    tree = textwrap.dedent(doc.partition("::\n\n")[2])
    lines = [
        "# Errors",
        "",
        _NOTE,
        "This page lists every exception of `conductorlite.errors`. `except ConductorliteError` catches all of them. Each",
        "[verb](verbs.md) lists those it raises.",
        "",
        "```text",
        tree.rstrip(),
        "```",
        "",
    ]
    for name in sorted(errors.__all__):
        error = getattr(errors, name)
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__ if issubclass(base, BaseException))
        lines += [f"## {name}", "", f"A kind of {bases}. {_flat(error.__doc__)}", ""]
    return "\n".join(lines)


def _flat(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split())


# ---------------------------------------------------------------------- definitions

_KEPT: Final = "kept"
_AS_THERE: Final = "kept, as in Conductor"

#: What the engine does with each field. "kept": stored and written back, without effect.
EFFECTS: Final[Mapping[str, Mapping[str, str]]] = {
    "WorkflowDef": {
        "name": "the name to register and start it by",
        "version": "versions are registered separately; the highest is the default",
        "description": _KEPT,
        "tasks": "carried out in order",
        "input_parameters": f"{_KEPT}: names for people, as in Conductor",
        "output_parameters": "rendered at the end; by default the output of the task scheduled last",
        "input_template": "fills absent and null keys of the input",
        "variables": "`${workflow.variables.x}`",
        "failure_workflow": "started when the execution ends FAILED, TIMED_OUT or by a TERMINATE: a name or an expression",
        "failure_workflow_version": "its version; the highest if not given",
        "schema_version": "must be 2",
        "restartable": "`restart` of a COMPLETED execution is refused when false",
        "workflow_status_listener_enabled": f"{_KEPT}: `Engine.listen` needs no permission",
        "workflow_status_listener_sink": f"{_KEPT}: nothing is published",
        "owner_email": _KEPT,
        "timeout_policy": "TIME_OUT_WF ends the execution; ALERT_ONLY (the default) writes one line of history",
        "timeout_ms": "from the start, the last `resume`, or the last verb that reopened it; 0: none",
        "rate_limit_config": "limits concurrent executions with one key; see [RateLimitConfig](#ratelimitconfig)",
        "input_schema": "enforced at the start: InvalidInput, or a child that FAILED (extra `schema`)",
        "output_schema": "enforced when it completes: it is FAILED instead",
        "enforce_schema": "false: schemas are kept and nothing is checked",
        "metadata": _KEPT,
        "cache_config": _AS_THERE,
        "masked_fields": "keys whose values are `***` in what is shown: `get(masked=True)`, `explain`, the command line",
        "owner_app": _KEPT,
        "create_time": _KEPT,
        "update_time": _KEPT,
        "created_by": _KEPT,
        "updated_by": _KEPT,
        "extra": "unknown properties: kept and written back",
    },
    "WorkflowTask": {
        "name": "the task definition's name; for SIMPLE also what workers poll for",
        "task_reference_name": "unique in the workflow: `${ref.output.x}`",
        "type": "an operator, or a worker's task type",
        "description": _KEPT,
        "input_parameters": "rendered when the task is scheduled; for operators see [task types](task-types.md)",
        "optional": "a failure becomes COMPLETED_WITH_ERRORS and the workflow continues",
        "permissive": "a failure lets the other tasks finish; the workflow then ends FAILED",
        "start_delay_ms": "delay before the task is offered",
        "retry_count": "overrides the task definition's",
        "async_complete": "not for SIMPLE: the worker's COMPLETED leaves the task open until a report on it arrives",
        "task_definition": "embedded; overrides a registered one",
        "sub_workflow_param": "SUB_WORKFLOW: which workflow, see [SubWorkflowParams](#subworkflowparams)",
        "dynamic_task_name_param": "DYNAMIC: the input that holds the name",
        "dynamic_fork_tasks_param": "FORK_JOIN_DYNAMIC: the input that holds the branches",
        "dynamic_fork_tasks_input_param_name": "FORK_JOIN_DYNAMIC: the input that holds their inputs by reference",
        "dynamic_fork_join_tasks_param": "FORK_JOIN_DYNAMIC: the input that holds `dynamicTasks`, the older shape",
        "case_value_param": "DECISION: the name of the input parameter that selects the case",
        "case_expression": "DECISION: JavaScript that selects the case, instead of caseValueParam",
        "evaluator_type": "SWITCH, DO_WHILE: the [language](expressions.md#scripts) (INLINE has it in its input)",
        "expression": "SWITCH: what selects the case",
        "decision_cases": "SWITCH, DECISION: the tasks of each case",
        "default_case": "SWITCH, DECISION: the tasks for a key that is not listed; DECISION: or whose case is empty",
        "fork_tasks": "FORK_JOIN: the branches",
        "join_on": "JOIN: the references it waits for, at least one. EXCLUSIVE_JOIN: it ends with the first of these to end",
        "join_mode": f"{_KEPT}: every JOIN is driven by events",
        "join_status": _KEPT,
        "default_exclusive_join_task": "EXCLUSIVE_JOIN: used if none of joinOn is scheduled",
        "loop_over": "DO_WHILE: the body",
        "loop_condition": "DO_WHILE: evaluated after each round",
        "items": "DO_WHILE: one round per item",
        "script_expression": f"{_KEPT}: LAMBDA has it in its input",
        "sink": "EVENT: the destination; see [Call HTTP services and publish events](../how-to/call-http-and-publish-events.md)",
        "rate_limited": _AS_THERE,
        "cache_config": _AS_THERE,
        "on_state_change": _AS_THERE,
        "metadata": _KEPT,
        "compensate": "the task that undoes it when the execution fails later, or its name; see "
        "[Undo completed steps](../how-to/undo-what-was-done.md)",
        "extra": "unknown properties: kept and written back",
    },
    "SubWorkflowParams": {
        "name": "a registered workflow; only for display with an inline definition",
        "version": "default: the highest; pinned when the parent starts",
        "task_to_domain": "the child's domains; default: the parent's ([domains](../how-to/route-work-with-domains.md))",
        "workflow_definition": "an inline definition, instead of a registered one",
        "idempotency_key": "the child's key, if it has a value; see [Start once](../how-to/start-once.md#sub-workflows)",
        "idempotency_strategy": "what happens when another execution has the key (default FAIL)",
        "priority": "the child's priority; default: the parent's",
        "extra": "unknown properties: kept and written back",
    },
    "RateLimitConfig": {
        "rate_limit_key": "the key that executions share: a constant or an expression; default: the workflow's name",
        "concurrent_exec_limit": "executions at once, at least 1",
        "policy": "QUEUE (default): RUNNING with the first task PENDING; REJECT: `LimitReached`. "
        "See [Limit what runs](../how-to/limit-what-runs.md)",
        "extra": "unknown properties: kept and written back",
    },
    "TaskDef": {
        "name": "the tasks it applies to",
        "description": _KEPT,
        "retry_count": "automatic retries (default 3; without a definition 3 for SIMPLE, else 0)",
        "retry_logic": "how the delay grows (default FIXED)",
        "retry_delay_ms": "before a retry (default 60 s)",
        "backoff_scale_factor": "factor or base of the growth (default 1)",
        "max_retry_delay_ms": "cap on the delay; 0: none",
        "backoff_jitter_ms": "added after the cap: from 0 up to this, derived from the attempt's identity",
        "timeout_ms": "from the first poll to the end (default by the semantics: 3600 s or none)",
        "total_timeout_ms": "for all attempts together, from the first scheduling; 0: none",
        "response_timeout_ms": "from a poll to the next heartbeat (default 600 s or 3600 s); only for workers' tasks",
        "poll_timeout_ms": "from the instant it is offered to the poll (default 3600 s or none)",
        "timeout_policy": "RETRY, TIME_OUT_WF (default) or ALERT_ONLY, for all but the response timeout",
        "concurrent_exec_limit": "tasks of this name at once, across all executions; others are PENDING; 0: no limit",
        "rate_limit_per_frequency": "tasks that may begin within the window; others are PENDING; 0: no limit",
        "rate_limit_frequency_ms": "the window (default 1 s; 0: no rate limit)",
        "fairness_key": "the template of the key by which tasks that wait for the limit take turns; "
        "see [Share a limit fairly](../how-to/limit-what-runs.md#share-a-limit-fairly)",
        "fairness_weights": "how often a key has its turn: 1 (default) to 1,000 times",
        "input_keys": _KEPT,
        "output_keys": _KEPT,
        "runtime_metadata": "names of secrets that `poll` adds to the task (`Task.runtime_metadata`)",
        "input_template": "fills absent keys before, and null ones after, rendering the input",
        "isolation_group_id": _KEPT,
        "execution_name_space": _KEPT,
        "base_type": _KEPT,
        "owner_email": _KEPT,
        "task_status_listener_enabled": f"{_KEPT}: `Engine.listen` needs no permission",
        "input_schema": "with enforceSchema: an input that violates it fails the task permanently",
        "output_schema": "with enforceSchema: a COMPLETED report that violates it fails the task permanently",
        "enforce_schema": "true: schemas are enforced",
        "owner_app": _KEPT,
        "create_time": _KEPT,
        "update_time": _KEPT,
        "created_by": _KEPT,
        "updated_by": _KEPT,
        "extra": "unknown properties: kept and written back",
    },
    "EventHandler": {
        "name": "the name to register it by; handlers of an event run in order of names",
        "event": "the full name of its messages",
        "condition": "selects messages; default: all ([conditions](../how-to/react-to-events.md#conditions))",
        "evaluator_type": "the condition's [language](expressions.md#scripts); default: JavaScript",
        "actions": "the actions, in order, each once for a message",
        "active": "if false, nothing is done",
        "extra": "unknown properties: kept and written back",
    },
    "EventAction": {
        "action": "the name of the body to use",
        "start_workflow": "see [StartWorkflow](#startworkflow)",
        "complete_task": "see [TaskDetails](#taskdetails)",
        "fail_task": "see [TaskDetails](#taskdetails)",
        "terminate_workflow": "see [TerminateWorkflow](#terminateworkflow)",
        "update_workflow_variables": "see [UpdateWorkflowVariables](#updateworkflowvariables)",
        "send": "see [SendMessage](#sendmessage)",
        "expand_inline_json": "parses texts in the payload that are JSON objects or lists",
        "extra": "unknown properties: kept and written back",
    },
    "StartWorkflow": {
        "name": "a registered workflow",
        "version": "default: the highest",
        "correlation_id": "the execution's; `${…}` reads the payload",
        "input": "the execution's, with `conductor.event.messageId` and `conductor.event.name`; `${…}` reads the payload",
        "task_to_domain": "the execution's; default: that of the payload",
        "idempotency_key": "one execution of the workflow holds it; `${…}` reads the payload",
        "idempotency_strategy": "`FAIL` (the default): the action fails when the key is taken; `FAIL_ON_RUNNING`: only while that "
        "execution runs; `RETURN_EXISTING`: the action names that execution",
        "extra": "unknown properties: kept and written back",
    },
    "TaskDetails": {
        "workflow_id": "the execution, with a reference; `${…}` reads the payload",
        "task_ref_name": "a reference; inside a loop, the definition's is the round scheduled last; `${…}` reads the payload",
        "task_id": "instead of both; `${…}` reads the payload",
        "output": "the task's, with `conductor.event.messageId` and `conductor.event.name`; `${…}` reads the payload",
        "reason_for_incompletion": "the task's; `${…}` reads the payload",
        "extra": "unknown properties: kept and written back",
    },
    "TerminateWorkflow": {
        "workflow_id": "the execution; `${…}` reads the payload",
        "termination_reason": "why; `${…}` reads the payload",
        "extra": "unknown properties: kept and written back",
    },
    "UpdateWorkflowVariables": {
        "workflow_id": "the execution; `${…}` reads the payload",
        "variables": "variables to set; others stay; `${…}` reads the payload",
        "append_array": "appends a list to the existing list",
        "extra": "unknown properties: kept and written back",
    },
    "SendMessage": {
        "workflow_id": "the execution; `${…}` reads the payload",
        "topic": "default: `messages`, that of tasks which name none; `${…}` reads the payload",
        "key": "a message with this key is sent once on the topic; default: one key for each message id; `${…}` reads the payload",
        "value": "any JSON value; `${…}` reads the payload",
        "extra": "unknown properties: kept and written back",
    },
}


def _class_of(name: str) -> Any:
    return getattr(definitions, name, None) or getattr(handlers, name)


#: Definitions that are kept whole, without effect.
_OTHERS: Final = ("SchemaDef", "CacheConfig", "StateChangeEvent")


def unexplained() -> list[str]:
    """Fields without a word on their effect, and words on fields that no longer exist."""
    found = []
    for name, effects in EFFECTS.items():
        fields = {field.name for field in attrs.fields(_class_of(name))}
        found += [f"{name}.{field}" for field in sorted(fields ^ effects.keys())]
    return found


def definitions_page() -> str:
    """Every field of the definitions: JSON name, Python name, type, default, effect."""
    lines = [
        "# Definitions",
        "",
        _NOTE,
        "This page lists every field of a definition and its effect. A definition is a frozen attrs object, or Conductor's",
        "JSON: `WorkflowDef.from_json` reads text, bytes, a mapping or a path, and `to_json` writes it back without loss. Times",
        "are seconds in JSON and milliseconds in Python. `None` means *not given*. **kept** means stored and written back,",
        "without effect.",
        "",
        f"The engine carries out {', '.join(sorted(OPERATOR_TYPES))}",
        "itself ([task types](task-types.md)). Workers carry out all other types: SIMPLE under its name, the rest under their",
        "type. Include the workers for HTTP, EVENT and KAFKA_PUBLISH",
        "([Call HTTP services](../how-to/call-http-and-publish-events.md)).",
        "",
    ]
    for name, effects in EFFECTS.items():
        cls = _class_of(name)
        lines += [f"## {name}", "", _flat(cls.__doc__), ""]
        lines += ["| JSON | Python | type | default | effect |", "|---|---|---|---|---|"]
        for field in attrs.fields(cls):
            json_name = "–" if field.name == "extra" else f"`{json_names(cls)[field.name]}`"
            # Not `field.type`: the codec resolves that, in whatever process has used it.
            kind = re.sub("DurationMs|InstantMs", "int", inspect.get_annotations(cls)[field.name]).replace("|", "\\|")
            lines.append(f"| {json_name} | `{field.name}` | `{kind}` | {_default(field)} | {effects[field.name]} |")
        lines.append("")
    kept = "Read, checked for their types, stored and written back whole, without effect, as in Conductor"
    lines += ["## Kept whole", "", f"{kept} ([every field](compatibility-fields.md)).", ""]
    for name in _OTHERS:
        cls = getattr(definitions, name)
        names = ", ".join(f"`{name}`" for name in json_names(cls).values())
        lines.append(f"- **{name}**: {names}. {_flat(cls.__doc__)}")
    return "\n".join([*lines, ""])


def _default(field: attrs.Attribute[Any]) -> str:
    if field.default is attrs.NOTHING:
        return "required"
    if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
        return "`{}`"
    if isinstance(field.default, Enum):
        return f"`{field.default.value}`"
    return f"`{field.default!r}`"


# ---------------------------------------------------------------------- verbs


#: The pages of the API beside that of Engine: file, title, and what is on it.
_CLASSES: Final = {
    "async-engine": (AsyncEngine,),
    "run": (Run, AsyncRun),
    "workers": (Workers, TaskContext, Transaction),
    "clocks-and-secrets": (VirtualClock, EnvironmentSecrets),
}


def verbs() -> str:
    """Signatures and docstrings of the engine's verbs."""
    others = [f"[`engine.{noun}`](api/{noun}.md)" for noun in _nouns()]
    others += [", ".join(f"[`{cls.__name__}`](api/{name}.md)" for cls in classes) for name, classes in _CLASSES.items()]
    lines = [
        "# Verbs",
        "",
        _NOTE,
        "This page lists every operation of the engine. `Instant` is epoch milliseconds, a `datetime` with a time zone or ISO 8601",
        "text with an offset. `Span` is a `timedelta`",
        'or text such as `"90s"`, `"5m"`, `"1d 2h"`. Every verb may raise a [StorageError](errors.md#storageerror).',
        "",
        f"The everyday verbs are below. Others: {', '.join(others)}.",
        "",
        "## Engine",
        "",
        *_entry("Engine", Engine.__init__, Engine.__doc__),
        *_entry("EngineConfig", EngineConfig.__init__, EngineConfig.__doc__),
        *_methods("engine", Engine),
    ]
    pages = [*map(_service_page, _nouns()), *map(_class_page, _CLASSES)]
    text = "\n".join([*lines, *pages])
    signatures = " ".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    lines += ["## Where the names are", "", "Import these names of the signatures from their modules:", ""]
    lines += [f"- `{name}`: `{module}`" for name, module in _homes(signatures)]
    return "\n".join(lines)


@cache
def _nouns() -> Mapping[str, type]:
    with Engine() as engine:
        return {noun: type(service) for noun, service in services(engine).items()}


def _service_page(noun: str) -> str:
    service = _nouns()[noun]
    head = [f"# engine.{noun}", "", _NOTE, _paragraphs(service.__doc__), ""]
    return "\n".join([*head, *_methods(f"engine.{noun}", service, "##")])


def _class_page(name: str) -> str:
    title = ", ".join(cls.__name__ for cls in _CLASSES[name])
    lines = [f"# {title}", "", _NOTE]
    for cls in _CLASSES[name]:
        if len(_CLASSES[name]) > 1:
            lines += [f"## {cls.__name__}", ""]
        lines += [_paragraphs(cls.__doc__), ""]
        if cls is AsyncEngine:
            lines += _entry("asyncengine.background", AsyncEngine.background, AsyncEngine.background.__doc__, "##")
            continue
        own = [base for base in reversed(cls.__mro__) if base.__module__.startswith("conductorlite")]
        for one, value in {name: value for base in own for name, value in vars(base).items()}.items():
            if one.startswith("_"):
                continue
            if isinstance(value, property):
                lines += [f"### {cls.__name__.lower()}.{one}", "", _flat(value.__doc__), ""]
            elif inspect.isfunction(value):
                lines += _entry(f"{cls.__name__.lower()}.{one}", value, value.__doc__)
    return "\n".join(lines)


def _homes(text: str) -> Iterator[tuple[str, str]]:
    """The public names of the package in a text that are not in its root, with their modules."""
    root = set(conductorlite.__all__)
    # No signature of a verb names what an adapter needs, and the servers' clients may not be installed.
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(conductorlite.__path__, "conductorlite.")
               if not any(part in found.name for part in ("__main__", ".testing", ".ext."))]  # fmt: skip
    homes = {name: module.__name__ for module in modules for name in getattr(module, "__all__", ()) if hasattr(module, name)}
    for name in sorted(set(re.findall(r"\b[A-Z]\w+", text)) - root):
        if name in homes:
            yield name, homes[name]


def _methods(owner: str, cls: type, level: str = "###") -> Iterator[str]:
    """Entries of the public methods of a class, in order of their definition, those of its bases first."""
    found: dict[str, Callable[..., Any]] = {}
    for one in reversed(cls.__mro__):
        found |= {name: method for name, method in vars(one).items() if inspect.isfunction(method) and not name.startswith("_")}
    for name, method in found.items():
        yield from _entry(f"{owner}.{name}", method, method.__doc__, level)


def _entry(name: str, function: Callable[..., Any], doc: str | None, level: str = "###") -> list[str]:
    return [f"{level} {name}", "", "```text", f"{name}{_signature(function)}", "```", "", _paragraphs(doc), ""]


def _paragraphs(doc: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", inspect.cleandoc(doc or "")))


def _signature(function: Callable[..., Any]) -> str:
    """The signature as it is written, one parameter a line when it is long: the same on every version of Python."""
    # A verb with overloads is shown as the one that takes a name or a definition: its last.
    signature = inspect.signature([function, *get_overloads(inspect.unwrap(function))][-1])
    parts: list[str] = []
    starred = False
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        prefix = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        prefix = "**" if parameter.kind is parameter.VAR_KEYWORD else prefix
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        text = prefix + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {parameter.annotation}"
        if parameter.default is not parameter.empty:
            default = parameter.default
            text += f" = {default.value if isinstance(default, Enum) else repr(default)}"
        parts.append(text)
    result = "" if signature.return_annotation in (signature.empty, "None") else f" -> {signature.return_annotation}"
    line = f"({', '.join(parts)}){result}"
    if len(line) <= 88:
        return line
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


# ---------------------------------------------------------------------- verbs by status


def verbs_by_status() -> str:
    """What each verb does to an execution in each status, from the table that a test performs."""
    table = runpy.run_path(str(Path(__file__).with_name("verbs_by_status.py")))
    statuses = list(table["STATUSES"])
    return "\n".join(
        [
            "# Verbs by status",
            "",
            _NOTE,
            "This table shows the effect of each [verb](verbs.md) on an execution in each status. A test performs every cell on",
            "every store. Names in capitals are [exceptions](errors.md); after one, nothing has changed.",
            "",
            f"| verb | {' | '.join(statuses)} |",
            "|---" * (len(statuses) + 1) + "|",
            *(f"| {verb} | {' | '.join(cells)} |" for verb, cells in table["CELLS"].items()),
            "",
            "## The statuses",
            "",
            *(f"- **{status}**: {meaning}." for status, meaning in table["STATUSES"].items()),
            "",
            "## The words",
            "",
            *(f"- *{word}*: {meaning}." for word, meaning in table["WORDS"].items()),
            "",
            "`skip_task` skips a task that the flow has not reached; `signal`, without a task, completes the waiting HUMAN;",
            "`update_task`, `extend_lease` and `log` concern a task that a worker already holds. While an execution is parked,",
            "nothing in it times out. `terminate` ends it, `resume` tries again from the last good turn.",
            "",
        ]
    )


#: The published schemas, and what each is of.
_SCHEMAS: Final = {
    "workflow-def": "a `WorkflowDef`, with all its tasks",
    "task-def": "a `TaskDef`",
    "event-handler": "an `EventHandler`",
    "schedule": "a `WorkflowSchedule`",
    "schema-def": "a `SchemaDef`",
    "export": "what `engine.admin.export` gives and `replay` takes",
}


@cache
def _schema_texts() -> dict[str, str]:
    made: dict[str, str] = runpy.run_path(str(Path(__file__).parent / "schemas.py"))["schemas"](EFFECTS)
    return made


def _schema(name: str) -> str:
    return _schema_texts()[f"schemas/{name}.json"]


def schemas_page() -> str:
    """Where the JSON Schemas are, and how an editor uses them."""
    return "\n".join(
        [
            "# JSON Schemas",
            "",
            _NOTE,
            "Use these JSON Schemas (2020-12) to check documents in an editor. The description of each field is its effect.",
            "",
            *(f"- [{name}.json](schemas/{name}.json): {what}" for name, what in _SCHEMAS.items()),
            "",
            'They accept what `from_json` reads, including `"5"` for 5, and refuse wrong types and missing fields; a test compares',
            "both on random documents. Use `conductorlite lint` for mistakes that depend on several places, such as a JOIN that",
            "waits for a missing task.",
            "",
            "## In an editor",
            "",
            "The schemas are in the package. Copy them beside your definitions:",
            "",
            "```python",
            "import shutil",
            "from importlib.resources import as_file, files",
            "",
            'with as_file(files("conductorlite") / "schemas") as folder:',
            '    shutil.copytree(folder, "schemas", dirs_exist_ok=True)',
            "```",
            "",
            "In Visual Studio Code, add this to `.vscode/settings.json`:",
            "",
            "```json",
            "{",
            '  "json.schemas": [',
            '    {"fileMatch": ["*.workflow.json"], "url": "./schemas/workflow-def.json"},',
            '    {"fileMatch": ["*.task.json"], "url": "./schemas/task-def.json"},',
            '    {"fileMatch": ["*.handler.json"], "url": "./schemas/event-handler.json"},',
            '    {"fileMatch": ["*.schedule.json"], "url": "./schemas/schedule.json"}',
            "  ]",
            "}",
            "```",
            "",
            "In PyCharm, add them under *Settings, Languages & Frameworks, Schemas and DTDs, JSON Schema Mappings*.",
            "",
        ]
    )


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "types.md": types_page,
    "statuses.md": statuses,
    "errors.md": errors_page,
    "definitions.md": definitions_page,
    "verbs.md": verbs,
    "verbs-by-status.md": verbs_by_status,
    **{f"api/{noun}.md": partial(_service_page, noun) for noun in _nouns()},
    **{f"api/{name}.md": partial(_class_page, name) for name in _CLASSES},
    "schemas.md": schemas_page,
    **{f"schemas/{name}.json": partial(_schema, name) for name in _SCHEMAS},
}


#: The schemas once more, for programs that have the package and not its documentation.
IN_PACKAGE: Final = {f"{name}.json": partial(_schema, name) for name in _SCHEMAS}


def llms() -> Iterator[tuple[str, str]]:
    """Names and texts of the files for language models; they are not kept in the repository."""
    made = runpy.run_path(str(Path(__file__).parent / "llms.py"))
    yield "llms.txt", made["index"]()
    yield "llms-full.txt", made["full"]()


def home_picture() -> str:
    """The picture of the home page: the flow of its code."""
    text = (FOLDER.parent / "index.md").read_text(encoding="utf-8")
    return picture(_flow_of(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])) + "\n"


def _flow_of(code: str) -> WorkflowDef:
    known: dict[str, Any] = {}
    source = code.partition("with Engine")[0]
    linecache.cache["index.md.py"] = (len(source), None, source.splitlines(keepends=True), "index.md.py")  # flows are read
    exec(compile(source, "index.md.py", "exec", dont_inherit=True), known)
    return next(value.definition for value in known.values() if isinstance(value, Flow))


def main() -> None:
    """Write every generated page."""
    (FOLDER.parent / "assets" / "trip.svg").write_text(home_picture(), encoding="utf-8")
    for folder in ("api", "schemas"):
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    for name, write in PAGES.items():
        (FOLDER / name).write_text(write(), encoding="utf-8")
    PACKAGE_SCHEMAS.mkdir(exist_ok=True)
    for name, write in IN_PACKAGE.items():
        (PACKAGE_SCHEMAS / name).write_text(write(), encoding="utf-8")
    for name, text in llms():
        (FOLDER.parent / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
