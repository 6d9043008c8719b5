"""HTTP tasks, against a service that both sides call; EVENT tasks, and the handlers that act upon what they publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cases import OWN, SERVICE, Case, inline, task, workflow
from service import ANSWERS

#: The server looks once a minute which events there are handlers for.
HEARD: Final = 100.0
NO_RETRY: Final = {"retryCount": 0, "responseTimeoutSeconds": 600, "timeoutSeconds": 0}


def _call(name: str, request: Mapping[str, Any] | None, *, wrapped: bool = True, given: Any = None, **more: Any) -> Case:
    inputs = request if request is None or not wrapped else {"http_request": request}
    parameters = {} if inputs is None else {"inputParameters": inputs}
    call = task("h", "HTTP", taskDefinition={"name": f"{OWN}h", **NO_RETRY}, **parameters, **more)
    output = {"r": "${h.output.response}", "body": "${h.output.response.body}", "code": "${h.output.response.statusCode}"}
    flow = workflow(call, inline("z", "$.s", s="${h.status}"), outputParameters=output)
    return Case(name=f"http/{name}", workflows=[flow], input=given or {}, steps=[{"do": "drive"}], patience=12)


def _http() -> list[Case]:
    at = f"{SERVICE}/"
    found = [_call(f"answer-{path[1:]}", {"uri": f"{SERVICE}{path}", "method": "GET"}) for path in ANSWERS]
    found += [
        _call(f"method-{method}", {"uri": f"{at}echo", "method": method, **({} if method in "GET HEAD" else {"body": {"a": "x"}})})
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get", "FETCH")
    ]
    bodies: dict[str, Any] = {
        "list": ["x"],
        "text": "text",
        "number": 5,
        "null": None,
        "empty": {},
        "deep": {"a": {"b": ["c", None, True, 1]}},
    }
    found += [_call(f"body-{name}", {"uri": f"{at}echo", "method": "POST", "body": body}) for name, body in bodies.items()]
    requests: dict[str, dict[str, Any]] = {
        "query": {"uri": f"{at}echo?a=x&b=y", "method": "GET"},
        "typed": {"uri": f"{at}typed", "method": "GET"},
        "blank": {"uri": f"{at}echo?a=x y", "method": "GET"},
        "encoded": {"uri": f"{at}echo?a=x%20y", "method": "GET"},
        "braces": {"uri": f"{at}echo?a={{x}}", "method": "GET"},
        "header": {"uri": f"{at}echo", "method": "GET", "headers": {"X-Given": "one"}},
        "header_number": {"uri": f"{at}echo", "method": "GET", "headers": {"X-Given": 5}},
        "header_null": {"uri": f"{at}echo", "method": "GET", "headers": {"X-Given": None}},
        "type_text": {"uri": f"{at}echo", "method": "POST", "contentType": "text/plain", "body": "plain"},
        "type_form": {
            "uri": f"{at}echo",
            "method": "POST",
            "contentType": "application/x-www-form-urlencoded",
            "body": {"a": ["x"]},
        },
        "accept_text": {"uri": f"{at}text", "method": "GET", "accept": "text/plain"},
        "accept_list": {"uri": f"{at}object", "method": "GET", "accept": ["application/json", "text/plain"]},
        "expression": {"uri": f"{at}${{workflow.input.p}}", "method": "${workflow.input.m}", "body": "${workflow.input.b}"},
        "no_method": {"uri": f"{at}object"},
        "no_uri": {"method": "GET"},
        "null_uri": {"uri": None, "method": "GET"},
        "no_host": {"uri": "nothing", "method": "GET"},
        "refused": {"uri": "http://127.0.0.1:9/", "method": "GET"},
        "slow": {"uri": f"{at}slow", "method": "GET", "readTimeOut": 200},
        "unknown": {"uri": f"{at}object", "method": "GET", "unknown": 1},
        "wrong_type": {"uri": f"{at}object", "method": "GET", "readTimeOut": "x"},
    }
    given = {"p": "echo", "m": "POST", "b": {"k": ["v"]}}
    found += [_call(f"request-{name}", request, given=given) for name, request in requests.items()]
    found += [
        _call("flat", {"uri": f"{at}object", "method": "GET"}, wrapped=False),
        _call("flat_no_uri", {"method": "GET"}, wrapped=False),
        _call("no_input", None),
        _call("async", {"uri": f"{at}object", "method": "GET"}, asyncComplete=True),
        _call("optional", {"uri": f"{at}fails", "method": "GET"}, optional=True),
    ]
    return found


def _handler(name: str, *actions: Mapping[str, Any], event: str = "say", **more: Any) -> dict[str, Any]:
    of, _, what = event.rpartition(":")
    address = f"conductor:{OWN}{of or 'flow'}:{what}"
    return {"name": f"{OWN}{name}", "event": address, "actions": list(actions), "active": True, **more}


def _complete(ref: str, action: str = "complete_task", **output: Any) -> dict[str, Any]:
    return {"action": action, action: {"workflowId": "${workflowInstanceId}", "taskRefName": ref, "output": output}}


def _events() -> list[Case]:
    say = task("e", "EVENT", sink="conductor:say", inputParameters={"k": "${workflow.input.k}", "l": ["x", {"m": 1}]})
    wait = [task("w", "WAIT")]
    started = {
        "action": "start_workflow",
        "start_workflow": {"name": f"{OWN}other", "version": 1, "input": {"parent": "${workflowInstanceId}", "k": "${k}"}},
    }
    other = workflow(
        task(
            "a", "EVENT", sink="conductor:back", inputParameters={"parent": "${workflow.input.parent}", "k": "${workflow.input.k}"}
        ),
        name="other",
    )
    back = {
        "action": "complete_task",
        "complete_task": {"workflowId": "${parent}", "taskRefName": "w", "output": {"k": "${k}", "of": "${workflowType}"}},
    }
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "complete": (say, [_handler("h", _complete("w", k="${k}", whole="${l}", deep="${l[1].m}", none="${x.y}"))]),
        "fail": (say, [_handler("h", _complete("w", "fail_task", k="${k}"))]),
        "condition": (
            say,
            [
                _handler("no", _complete("w", "fail_task"), condition="$.k == 'other'", evaluatorType="javascript"),
                _handler("yes", _complete("w", by="yes"), condition="$.k == 'v'", evaluatorType="javascript"),
            ],
        ),
        "condition_default": (
            say,
            [
                _handler("no", _complete("w", "fail_task"), condition="$.k == 'x'"),
                _handler("yes", _complete("w"), condition="$.k == 'v'"),
            ],
        ),
        "inactive": (
            say,
            [_handler("no", _complete("w", "fail_task"), active=False), _handler("yes", _complete("w", by="yes"))],
        ),
        "start": (say, [_handler("h", started), _handler("back", back, event="other:back")]),
        "inline_json": (
            task("e", "EVENT", sink="conductor:say", inputParameters={"k": '{"a": {"b": "c"}}'}),
            [_handler("h", {**_complete("w", k="${k.a.b}"), "expandInlineJSON": True})],
        ),
        "by_reference": (task("e", "EVENT", sink="conductor"), [_handler("h", _complete("w"), event="flow:e")]),
    }
    found = [
        Case(
            name=f"event/{name}",
            workflows=[
                workflow(
                    task("f", "FORK_JOIN", forkTasks=[wait, [said]]),
                    task("j", "JOIN", joinOn=["w", "e"]),
                    outputParameters={"w": "${w.output}", "e": "${e.output}"},
                ),
                other,
            ],
            handlers=handlers,
            input={"k": "v"},
            options={"correlationId": "c"},
            patience=HEARD,
        )
        for name, (said, handlers) in kinds.items()
    ]
    bare = {
        "unheard": say,
        "no_input": task("e", "EVENT", sink="conductor:say"),
        "sink_expression": task("e", "EVENT", sink="conductor:${workflow.input.k}"),
        "async": task("e", "EVENT", sink="conductor:say", asyncComplete=True),
        "sink_in_input": task(
            "e", "EVENT", sink="conductor:say", inputParameters={"sink": "conductor:other", "event_produced": "x"}
        ),
        "unknown_sink": task("e", "EVENT", sink="pigeon:x", taskDefinition={"name": f"{OWN}e", **NO_RETRY}),
        "no_sink": task("e", "EVENT", taskDefinition={"name": f"{OWN}e", **NO_RETRY}),
        "optional": task("e", "EVENT", sink="pigeon:x", optional=True, taskDefinition={"name": f"{OWN}e", **NO_RETRY}),
    }
    found += [
        Case(
            name=f"event/{name}",
            workflows=[workflow(each, task("n", "NOOP"), outputParameters={"e": "${e.output}"})],
            input={"k": "v"},
            options={"correlationId": "c"},
            patience=8,
        )
        for name, each in bare.items()
    ]
    return found


def cases() -> list[Case]:
    """HTTP and EVENT."""
    return [*_http(), *_events()]
