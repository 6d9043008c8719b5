"""Definitions made from the tables of fields: every field, every type that runs, and the usual ways to combine them."""

from __future__ import annotations

from typing import Any

from leaves import of_leaves
from make import J, child, entry, flow, fork, given, inline, loop, node, seq, sub, switch


def tuned(ref: str, node_fields: J | None = None, **fields: Any) -> J:
    """A task with an embedded definition."""
    return node(ref, taskDefinition={"name": ref, **fields}, **(node_fields or {}))


def of_workflows() -> list[J]:
    """Every field of a workflow definition."""
    schema = {"name": "order", "version": 2, "type": "JSON", "data": {"type": "object", "required": ["id"]}}
    avro = {"name": "bill", "version": 1, "type": "AVRO", "externalRef": "registry:bill"}
    one = seq("only")
    wait = given("long", "WAIT", duration="2 hours")
    return [
        entry("nothing but what must be there", {"name": "bare", "tasks": one}),
        entry(
            "who made it and when",
            flow(
                "audited",
                one,
                description="Ships an order.",
                ownerApp="shop",
                ownerEmail="shop@example.org",
                createTime=1_700_000_000_000,
                updateTime=1_700_000_000_001,
                createdBy="ada",
                updatedBy="bob",
            ),
        ),
        entry(
            "declared inputs with a template behind them",
            flow(
                "templated",
                [given("only", who="${workflow.input.who}", n="${workflow.input.n}")],
                inputParameters=["who", "n"],
                inputTemplate={"who": "nobody", "n": 1, "deep": {"x": [1, None]}},
            ),
            input={"n": 7},
        ),
        entry(
            "outputs nested in maps and lists",
            flow(
                "outputs",
                one,
                outputParameters={
                    "flat": "${only.output.a}",
                    "all": ["${only.output.a}", {"again": "${only.output}"}],
                    "text": "a=${only.output.a}!",
                    "none": None,
                },
            ),
            outputs={"only": {"a": 5}},
        ),
        entry(
            "variables of every JSON type",
            flow(
                "variables",
                [given("only", all="${workflow.variables}")],
                variables={
                    "text": "x",
                    "whole": 1,
                    "part": 1.5,
                    "yes": True,
                    "none": None,
                    "list": [1, [2]],
                    "map": {"a": {"b": "c"}},
                },
            ),
        ),
        entry("a timeout that only alerts", flow("alerts", [wait], timeoutPolicy="ALERT_ONLY", timeoutSeconds=60)),
        entry(
            "a timeout that ends it", flow("times_out", [wait], timeoutPolicy="TIME_OUT_WF", timeoutSeconds=60), ends="TIMED_OUT"
        ),
        entry(
            "switches of the listener and of restarting",
            flow("listened", one, restartable=False, workflowStatusListenerEnabled=True, workflowStatusListenerSink="kafka:ends"),
        ),
        entry(
            "a rate limit per key",
            flow(
                "limited",
                one,
                rateLimitConfig={"rateLimitKey": "${workflow.input.who}", "concurrentExecLimit": 3, "policy": "QUEUE"},
            ),
            input={"who": "ada"},
        ),
        entry(
            "schemas of what goes in and out",
            flow("schemas", one, inputSchema=schema, outputSchema=avro, enforceSchema=False),
            input={"id": 1},
        ),
        entry(
            "metadata, a cache and masked fields",
            flow(
                "masked",
                one,
                metadata={"classifier": "batch", "team": {"id": 3}},
                cacheConfig={"key": "${workflow.input.id}", "ttlInSecond": 60},
                maskedFields=["card", "pin"],
            ),
        ),
        entry("a later version", {**flow("later", one), "version": 7}),
        entry(
            "a compensation by name and version",
            flow("compensated", seq("charge"), failureWorkflow="refund", failureWorkflowVersion=2),
            registers=[{**child("refund", given("undo", of="${workflow.input.workflowId}")), "version": 2}],
            fails=["charge"],
            ends="FAILED",
        ),
        entry(
            "a compensation named by the input",
            flow("compensated_by_input", seq("charge"), failureWorkflow="$workflow.input.plan"),
            registers=[child("plan_b", given("undo", why="${workflow.input.reason}"))],
            input={"plan": "plan_b"},
            fails=["charge"],
            ends="FAILED",
        ),
        entry(
            "a compensation that does not exist",
            flow("uncompensated", seq("charge"), failureWorkflow="nobody"),
            fails=["charge"],
            ends="FAILED",
        ),
        entry(
            "names in other scripts, with blanks and signs",
            flow("Köln → 東京 <v1> {x}#", [given("größe", ort="${workflow.input['straße']}")]),
            input={"straße": "Ring"},
        ),
        entry(
            "numbers and booleans written as text",
            flow(
                "coerced",
                [{**node("only"), "startDelay": "1", "optional": "true", "retryCount": "2"}],
                timeoutSeconds="3600",
                restartable="false",
            ),
        ),
    ]


def of_retries() -> list[J]:
    """Retries and timeouts."""

    def one(name: str, says: str, how: J | None = None, node_fields: J | None = None, **fields: Any) -> J:
        return entry(says, flow(name, [tuned("job", node_fields, **fields), node("after")]), **(how or {"fails_once": ["job"]}))

    dies: J = {"dies_once": ["job"]}
    return [
        one("retry_fixed", "a fixed delay", retryCount=2, retryLogic="FIXED", retryDelaySeconds=5),
        one(
            "retry_linear",
            "a delay that grows by steps",
            retryCount=2,
            retryLogic="LINEAR_BACKOFF",
            retryDelaySeconds=2,
            backoffScaleFactor=3,
        ),
        one(
            "retry_exponential",
            "a delay that doubles, with a cap",
            retryCount=9,
            retryLogic="EXPONENTIAL_BACKOFF",
            retryDelaySeconds=1,
            backoffScaleFactor=2,
            maxRetryDelaySeconds=30,
        ),
        one("retry_jitter", "a delay with jitter", retryCount=1, retryDelaySeconds=1, backoffJitterMs=500),
        one("retry_of_node", "the task's own count wins", None, {"retryCount": 1}, retryCount=0, retryDelaySeconds=0),
        one("retry_none", "no retry at all", {"fails_once": ["job"], "ends": "FAILED"}, retryCount=0),
        one("terminal", "a failure that no retry helps", {"fails": ["job"], "ends": "FAILED"}, retryCount=5),
        one("optional", "a failure that is borne", {"fails": ["job"]}, {"optional": True}, retryCount=0),
        one("lost", "a worker that dies", dies, retryCount=1, responseTimeoutSeconds=10, timeoutSeconds=100, timeoutPolicy="RETRY"),
        one(
            "too_long",
            "a worker that dies, and the end of the workflow",
            {**dies, "ends": "TIMED_OUT"},
            timeoutSeconds=10,
            responseTimeoutSeconds=10,
            timeoutPolicy="TIME_OUT_WF",
        ),
        one(
            "total",
            "a bound on all attempts together",
            dies,
            retryCount=2,
            retryDelaySeconds=1,
            timeoutSeconds=20,
            responseTimeoutSeconds=20,
            totalTimeoutSeconds=200,
            timeoutPolicy="RETRY",
        ),
        entry(
            "nobody polls in time",
            flow(
                "unpolled",
                [
                    node(
                        "nobody",
                        taskDefinition={"name": "nobody", "pollTimeoutSeconds": 5, "retryCount": 0, "timeoutPolicy": "TIME_OUT_WF"},
                    )
                ],
            ),
            idle=["nobody"],
            ends="TIMED_OUT",
        ),
        one("delayed", "a start delay", {}, {"startDelay": 30}, timeoutSeconds=60, responseTimeoutSeconds=60),
    ]


def of_tasks() -> list[J]:
    """Every field of a task and of its definition, and every type a worker carries out."""
    http = {
        "uri": "http://example.org/${workflow.input.id}",
        "method": "POST",
        "headers": {"x": "1"},
        "body": {"id": "${workflow.input.id}"},
        "accept": ["application/json"],
        "contentType": "application/json",
        "connectionTimeOut": 3000,
        "readTimeOut": "3000",
    }
    return [
        entry(
            "the whole definition of a task",
            flow(
                "whole_definition",
                [
                    tuned(
                        "job",
                        None,
                        description="Does it.",
                        ownerEmail="x@example.org",
                        inputKeys=["a"],
                        outputKeys=["b"],
                        runtimeMetadata=["TOKEN"],
                        inputTemplate={"a": 1, "nested": {"k": ["v"]}},
                        isolationGroupId="blue",
                        executionNameSpace="space",
                        baseType="SIMPLE",
                        concurrentExecLimit=2,
                        rateLimitPerFrequency=10,
                        rateLimitFrequencyInSeconds=60,
                        taskStatusListenerEnabled=False,
                        enforceSchema=True,
                        inputSchema={"name": "in", "version": 1, "type": "PROTOBUF"},
                    )
                ],
            ),
        ),
        entry(
            "what has no effect is kept",
            flow(
                "kept_fields",
                [
                    node(
                        "job",
                        description="first",
                        joinStatus="DONE",
                        rateLimited=True,
                        cacheConfig={"key": "k", "ttlInSecond": 5},
                        metadata={"icon": "truck"},
                        onStateChange={"onStart": [{"type": "event", "payload": {"a": "${workflow.input}"}}], "onSuccess": []},
                    )
                ],
            ),
        ),
        entry(
            "the type under its old name",
            flow("old_type", [{"name": "job", "taskReferenceName": "job", "workflowTaskType": "SIMPLE"}]),
        ),
        entry(
            "a type of the user's own",
            flow("own_type", [given("job", "RESIZE_IMAGE", width="${workflow.input.w}")]),
            input={"w": 640},
        ),
        entry(
            "a type the server knows only by its form",
            flow(
                "form_type",
                [
                    given("hook", "WAIT_FOR_WEBHOOK", matches={"$['id']": "1"}),
                    given("rule", "BUSINESS_RULE", file="x.csv"),
                    given("poll", "HTTP_POLL", terminationCondition="true"),
                ],
            ),
        ),
        entry("USER_DEFINED", flow("user_defined", [given("job", "USER_DEFINED", a=1)])),
        entry(
            "HTTP with a request",
            flow("http_request", [given("call", "HTTP", http_request=http)]),
            input={"id": 3},
            outputs={"HTTP": {"response": {"statusCode": 200, "body": {"ok": True}}}},
        ),
        entry(
            "HTTP with its fields at the top, answered later",
            flow(
                "http_later",
                [
                    node(
                        "call",
                        "HTTP",
                        inputParameters=http,
                        asyncComplete=True,
                        taskDefinition={"name": "call", "timeoutSeconds": 0},
                    ),
                    given("next", code="${call.output.response.statusCode}"),
                ],
            ),
        ),
        entry(
            "JSON_JQ_TRANSFORM",
            flow(
                "jq",
                [
                    given(
                        "jq",
                        "JSON_JQ_TRANSFORM",
                        queryExpression=".list | map(select(.a > 1)) | length",
                        list="${workflow.input.list}",
                    )
                ],
            ),
            input={"list": [{"a": 1}, {"a": 2}]},
        ),
        entry(
            "KAFKA_PUBLISH",
            flow(
                "kafka",
                [
                    given(
                        "out",
                        "KAFKA_PUBLISH",
                        kafka_request={
                            "topic": "t",
                            "value": {"a": 1},
                            "bootStrapServers": "h:1",
                            "key": "k",
                            "headers": {"h": "1"},
                            "requestTimeoutMs": 100,
                            "maxBlockMs": 500,
                        },
                    )
                ],
            ),
        ),
        entry(
            "EVENT with a sink",
            flow(
                "event",
                [
                    node("say", "EVENT", sink="conductor:internal", inputParameters={"what": "done"}),
                    node(
                        "say_later",
                        "EVENT",
                        sink="sqs:${workflow.input.queue}",
                        asyncComplete=True,
                        taskDefinition={"name": "say_later", "timeoutSeconds": 0},
                    ),
                ],
            ),
            input={"queue": "q"},
        ),
        entry(
            "START_WORKFLOW and PULL_WORKFLOW_MESSAGES",
            flow(
                "others",
                [
                    given(
                        "go",
                        "START_WORKFLOW",
                        startWorkflow={"name": "x", "version": 1, "input": {"a": "${workflow.input.a}"}, "correlationId": "c"},
                    ),
                    given("pull", "PULL_WORKFLOW_MESSAGES", batchSize=5, blocking=False),
                ],
            ),
            registers=[child("x")],
        ),
        entry(
            "tasks of models and agents",
            flow(
                "agents",
                [
                    given("ask", "LLM_CHAT_COMPLETE", messages=[{"role": "user", "message": "hi"}]),
                    given("draw", "GENERATE_IMAGE", prompt="${ask.output.result}"),
                    given("tool", "CALL_MCP_TOOL", method="m", arguments={}),
                ],
            ),
            outputs={"LLM_CHAT_COMPLETE": {"result": "a cat"}},
        ),
        entry("NOOP between workers", flow("noops", [node("a"), node("n1", "NOOP"), node("b"), node("n2", "NOOP")])),
        entry("one worker many times", flow("same_worker", [given(f"t{n}", name="same", n=n) for n in range(12)])),
    ]


def of_templates() -> list[J]:
    """Expressions."""

    def read(name: str, says: str, input: J, output: J | None = None, **inputs: Any) -> J:
        return entry(
            says,
            # A secret is for the worker alone.
            flow(
                name,
                [node("first"), given("second", **inputs)],
                outputParameters={key: value for key, value in inputs.items() if "workflow.secrets" not in str(value)},
            ),
            input=input,
            outputs={"first": output or {}},
        )

    people = {"people": [{"name": "ada", "age": 36}, {"name": "bob", "age": 17}], "i": 1, "key": "people", "odd key": {"a.b": 1}}
    return [
        read(
            "types",
            "whole values keep their type",
            {"n": 1, "f": 2.5, "b": False, "x": None, "m": {}, "l": []},
            **{key: f"${{workflow.input.{key}}}" for key in "nfbxml"},
        ),
        read(
            "mixed",
            "text around values",
            {"n": 1, "m": {"a": 1}},
            a="n=${workflow.input.n}, m=${workflow.input.m}",
            b="${workflow.input.n}${workflow.input.n}",
        ),
        read("escaped", "a doubled dollar is one", {}, a="$${not.read}", b="cost: $5", c="${", d="}"),
        read(
            "nested",
            "expressions in expressions",
            people,
            a="${workflow.input.people[${workflow.input.i}].name}",
            b="${workflow.input.${workflow.input.key}}",
        ),
        read(
            "paths",
            "slices, wildcards and scans",
            people,
            a="${workflow.input.people[*].name}",
            b="${workflow.input.people[-1:]}",
            c="${$..name}",
            d="${workflow.input['odd key']['a.b']}",
        ),
        read(
            "filters",
            "filters by comparison and by pattern",
            people,
            a="${workflow.input.people[?(@.age > 18)].name}",
            b="${workflow.input.people[?(@.name =~ /a.*/)]}",
        ),
        read(
            "absent",
            "what is not there is null",
            {},
            a="${workflow.input.no.such}",
            b="${first.output.gone.x}",
            c="is ${workflow.input.no}",
        ),
        read(
            "itself",
            "everything the workflow and a task know of themselves",
            {},
            {"o": 1},
            a="${workflow.workflowId}",
            b="${workflow.status}",
            c="${workflow.workflowType}.${workflow.version}",
            d="${workflow.correlationId}",
            e="${first.status}",
            f="${first.input}",
            g="${first.taskId}",
            h="${first.startTime}",
            i="${first.retryCount}",
            j="${CPEWF_TASK_ID}",
        ),
        read(
            "deep",
            "templates deep in maps and lists",
            {"x": 1},
            a={"b": [{"c": ["${workflow.input.x}", "${first.output.y}"]}, [[["${workflow.input}"]]]]},
        ),
        read(
            "environment",
            "the environment and secrets",
            {},
            a="${workflow.env.HOME_TOWN}",
            b="${workflow.secrets.key}",
            c="${NETFLIX_STACK}",
        ),
        read("unicode", "texts of every plane", {"ö": "ä", "emoji": "🜁"}, a="${workflow.input.emoji}→${workflow.input['ö']}"),
    ]


def of_branches() -> list[J]:
    """SWITCH, FORK_JOIN and JOIN."""
    python = {"evaluatorType": "python", "expression": "return 'big' if n > 10 else 'small'", "inputParameters": {"n": 11}}
    both = fork("f", [seq("a"), seq("b")], "j", ["a", "b"])
    return [
        entry(
            "no case fits and there is no default", flow("no_case", [switch("s", {"x": seq("a")}), *seq("z")]), input={"case": "y"}
        ),
        entry(
            "an empty case is not the default",
            flow("empty_case", [switch("s", {"x": []}, seq("d")), *seq("z")]),
            input={"case": "x"},
        ),
        entry(
            "cases by number and by boolean",
            flow("typed_cases", [switch("s", {"1": seq("a")}, seq("d"), case=1), switch("s2", {"true": seq("b")}, case=True)]),
        ),
        entry(
            "a case by Python",
            flow("python_case", [node("s", "SWITCH", decisionCases={"big": seq("a")}, defaultCase=seq("b"), **python)]),
        ),
        entry(
            "switches in switches",
            flow(
                "switches",
                [
                    switch("s1", {"x": [switch("s2", {"x": [switch("s3", {}, seq("a")) | {"decisionCases": {"y": seq("b")}}]})]}),
                    *seq("z"),
                ],
            ),
            input={"case": "x"},
        ),
        entry(
            "a switch that cannot be decided", flow("undecided", [switch("s", {"x": seq("a")}, script="$.a.b.c")]), ends="FAILED"
        ),
        entry(
            "an optional switch that cannot be decided",
            flow("undecided_optional", [switch("s", {"x": seq("a")}, script="$.a.b.c") | {"optional": True}, *seq("z")]),
        ),
        entry("a fork whose JOIN waits for some", flow("some", [*fork("f", [seq("a"), seq("b")], "j", ["a"]), *seq("z")])),
        entry("a fork of one branch", flow("one_branch", fork("f", [seq("a b c")], "j", ["c"]))),
        entry(
            "modes of a JOIN",
            flow(
                "modes",
                [
                    *fork("f", [seq("a"), seq("b")], "j", ["a", "b"], joinMode="SYNC"),
                    *fork("f2", [seq("a2"), seq("b2")], "j2", ["a2", "b2"], joinMode="ASYNC", joinStatus="x"),
                ],
            ),
        ),
        entry(
            "a JOIN later on",
            flow("later_join", [*fork("f", [seq("a"), seq("b")], "j", ["a"]), *seq("m"), node("j2", "JOIN", joinOn=["b", "m"])]),
        ),
        entry(
            "a permissive branch that fails",
            flow("permissive", fork("f", [[node("a", permissive=True, retryCount=0)], seq("b")], "j", ["a", "b"])),
            fails=["a"],
            ends="FAILED",
        ),
        entry(
            "an optional branch that fails",
            flow("optional_branch", fork("f", [[node("a", optional=True)], seq("b")], "j", ["a", "b"])),
            fails=["a"],
        ),
        entry(
            "a failure cancels the other branch",
            flow("cancels", fork("f", [seq("a"), [node("w", "WAIT")]], "j", ["a", "w"])),
            fails=["a"],
            ends="FAILED",
        ),
        entry(
            "a fork of twenty",
            flow("twenty", fork("f", [[given(f"b{n}", name="b", n=n)] for n in range(20)], "j", [f"b{n}" for n in range(20)])),
        ),
        entry(
            "the output of a JOIN is read",
            flow("joined", [*both, given("z", all="${j.output}", a="${j.output.a}")]),
            outputs={"a": {"v": 1}},
        ),
    ]


def of_loops() -> list[J]:
    """DO_WHILE."""
    items = {"list": [{"id": 1}, {"id": 2}, {"id": 3}]}
    each = given("each", id="${l.output.loopItem.id}", at="${l.output.loopIndex}")
    return [
        entry("a loop over a list", flow("items", [loop("l", [each], "", items="${workflow.input.list}")]), input=items),
        entry(
            "a loop over a list, without a condition",
            flow(
                "items_only", [{k: v for k, v in loop("l", [each], items="${workflow.input.list}").items() if k != "loopCondition"}]
            ),
            input=items,
        ),
        entry(
            "a loop over a list given as an input",
            flow("items_input", [loop("l", [each], "", inputParameters={"_items": "${workflow.input.list}"})]),
            input=items,
        ),
        entry("a loop over nothing", flow("no_items", [loop("l", [each], "", items="${workflow.input.none}"), *seq("z")])),
        entry("a loop over one thing", flow("one_item", [loop("l", [each], "", items="${workflow.input.list[0]}")]), input=items),
        entry(
            "a loop that keeps its last round",
            flow("keeps", [loop("l", seq("a"), "$.l['iteration'] < 5", inputParameters={"keepLastN": 1})]),
        ),
        entry(
            "a loop with a Python condition",
            flow("python_loop", [loop("l", seq("a"), "return l['iteration'] < 3", evaluatorType="python")]),
        ),
        entry("a loop whose condition fails", flow("bad_condition", [loop("l", seq("a"), "$.l.no.such.thing < 3")]), ends="FAILED"),
        entry(
            "a loop with everything in it",
            flow(
                "everything",
                [
                    loop(
                        "l",
                        [
                            *seq("a"),
                            switch("s", {"1": seq("once")}, seq("again"), case="${l.output.iteration}"),
                            *fork("f", [seq("b"), [loop("m", seq("c"))]], "j", ["b", "m"]),
                            given("v", "SET_VARIABLE", last="${l.output.iteration}"),
                            given("w", "WAIT", duration="1s"),
                        ],
                    )
                ],
            ),
        ),
        entry(
            "three loops deep", flow("three_loops", [loop("l", [loop("m", [loop("n", [given("x", i="${n.output.iteration}")])])])])
        ),
        entry(
            "a loop that ends the workflow",
            flow(
                "way_out",
                [
                    loop(
                        "l",
                        [
                            switch(
                                "s",
                                {
                                    "3": [
                                        given(
                                            "t", "TERMINATE", terminationStatus="COMPLETED", workflowOutput="${l.output.iteration}"
                                        )
                                    ]
                                },
                                case="${l.output.iteration}",
                            )
                        ],
                        "true",
                    )
                ],
            ),
        ),
        entry(
            "a round that fails once",
            flow("round_retry", [loop("l", [tuned("a", retryCount=1, retryDelaySeconds=1)])]),
            fails_once=["a"],
        ),
        entry(
            "what a loop put out is read after it",
            flow(
                "after_loop",
                [loop("l", seq("a")), given("z", one="${l.output.1.a}", last="${a.output}", n="${l.output.iteration}")],
            ),
            outputs={"a": {"k": 1}},
        ),
    ]


def of_families() -> list[J]:
    """SUB_WORKFLOW, SET_VARIABLE, TERMINATE, INLINE and WAIT."""
    deep = child("level_3")
    for level in (2, 1):
        deep = child(f"level_{level}", sub("down", {"name": deep["name"], "workflowDefinition": deep}))
    named = [child("named"), {**child("named", *seq("newer")), "version": 2}]
    fails = child("fails", node("bad", retryCount=0))
    return [
        entry(
            "a sub-workflow by name, the latest",
            flow("sub_latest", [sub("c", {"name": "named"}, inputParameters={"n": 1})]),
            registers=named,
        ),
        entry(
            "a sub-workflow by name and version",
            flow(
                "sub_version",
                [sub("c", {"name": "named", "version": 1}, inputParameters={"n": "${workflow.input.n}"}, startDelay=5)],
            ),
            registers=named,
            input={"n": 2},
        ),
        entry(
            "a sub-workflow with all its parameters",
            flow(
                "sub_params",
                [
                    sub(
                        "c",
                        {
                            "name": "named",
                            "version": "2",
                            "priority": 5,
                            "taskToDomain": {},
                            "idempotencyKey": "k-${workflow.input.n}",
                            "idempotencyStrategy": "FAIL",
                        },
                    )
                ],
            ),
            registers=named,
            input={"n": 2},
        ),
        entry("three levels, all inline", flow("sub_deep", [sub("c", {"workflowDefinition": deep, "name": "x"})])),
        entry(
            "children side by side and in a loop",
            flow(
                "sub_many",
                [
                    *fork(
                        "f",
                        [[sub("c1", {"workflowDefinition": child("k1")})], [sub("c2", {"workflowDefinition": child("k2")})]],
                        "j",
                        ["c1", "c2"],
                    ),
                    loop("l", [sub("c3", {"workflowDefinition": child("k3")})]),
                ],
            ),
        ),
        entry(
            "a child that fails is repeated",
            flow(
                "sub_retry",
                [sub("c", {"workflowDefinition": fails}, retryCount=1, taskDefinition={"name": "c", "retryDelaySeconds": 1})],
            ),
            fails_once=["bad"],
        ),
        entry(
            "a child that fails, borne",
            flow("sub_optional", [sub("c", {"workflowDefinition": fails}, optional=True), *seq("z")]),
            fails=["bad"],
        ),
        entry(
            "a child that is terminated",
            flow(
                "sub_terminated",
                [sub("c", {"workflowDefinition": child("ends", given("t", "TERMINATE", terminationStatus="TERMINATED"))})],
            ),
            ends="TERMINATED",
        ),
        entry(
            "a child with a compensation",
            flow("sub_saga", [sub("c", {"workflowDefinition": {**fails, "failureWorkflow": "named"}})]),
            registers=named,
            fails=["bad"],
            ends="FAILED",
        ),
        entry(
            "a child's output is read",
            flow(
                "sub_output",
                [sub("c", {"workflowDefinition": child("answers", node("work"), outputParameters={"a": "${work.output.a}"})})],
                outputParameters={"a": "${c.output.a}", "id": "${c.output.subWorkflowId}"},
            ),
            outputs={"work": {"a": 42}},
        ),
        entry(
            "variables set, replaced and read",
            flow(
                "set",
                [
                    given("v1", "SET_VARIABLE", a=1, b={"c": [1]}),
                    given("v2", "SET_VARIABLE", b="${workflow.variables.a}", n=None),
                    given("z", all="${workflow.variables}"),
                ],
                variables={"given": True},
            ),
        ),
        *(
            entry(
                f"TERMINATE as {status}",
                flow(
                    f"terminate_{status.lower()}",
                    [
                        node("a"),
                        given(
                            "t",
                            "TERMINATE",
                            terminationStatus=status,
                            terminationReason="because ${workflow.input.why}",
                            workflowOutput={"a": "${a.output}"},
                        ),
                        node("z"),
                    ],
                    outputParameters={"not": "used"},
                ),
                input={"why": "so"},
                ends=status,
            )
            for status in ("COMPLETED", "FAILED", "TERMINATED")
        ),
        entry(
            "TERMINATE by an expression, with a plain output",
            flow("terminate_by", [given("t", "TERMINATE", terminationStatus="${workflow.input.how}", workflowOutput=3)]),
            input={"how": "COMPLETED"},
        ),
        entry(
            "Python inline",
            flow(
                "python_inline",
                [inline("i", "total = 0\nfor x in list:\n    total += x\nreturn {'total': total}", "python", list=[1, 2, 3])],
            ),
        ),
        entry("a script that throws", flow("throws", [inline("i", "$.a.b.c")]), ends="FAILED"),
        entry(
            "a script that throws, borne",
            flow("throws_optional", [inline("i", "$.a.b.c") | {"optional": True}, given("z", why="${i.output.error}")]),
        ),
        entry(
            "waits by an expression",
            flow(
                "waits",
                [given("w1", "WAIT", duration="${workflow.input.for}"), given("w2", "WAIT", until="${workflow.input.until}")],
            ),
            input={"for": "3 minutes", "until": "2099-01-01 00:00 UTC"},
        ),
        entry(
            "waits for somebody",
            flow(
                "waits_for",
                [node("w1", "WAIT"), *fork("f", [[node("w2", "WAIT")], [loop("l", [given("w3", "WAIT")])]], "j", ["w2", "l"])],
            ),
        ),
        entry(
            "a wait that cannot be read",
            flow("bad_wait", [given("w", "WAIT", duration="${workflow.input.x}")]),
            input={"x": "soon"},
            ends="FAILED",
        ),
    ]


def of_run_time() -> list[J]:
    """What is known only at run time: tasks, branches, executions."""
    joined = node("join", "JOIN")
    dynamic = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}
    given_two = {"tasks": "${workflow.input.t}", "inputs": "${workflow.input.i}"}
    same = {"forkTaskName": "resize", "forkTaskInputs": [{"w": 1}, {"w": 2}]}
    spread = {"forkTaskWorkflow": "one", "forkTaskWorkflowVersion": "1", "forkTaskInputs": "${workflow.input.all}"}
    branches = [node("x"), [node("y"), node("w", "WAIT")], fork("F", [seq("p"), seq("q")], "J", ["p", "q"])]
    legacy = {"dynamicTasks": [{"taskName": "x", "referenceName": "x1", "input": {"k": 1}}]}
    who = {"dynamicTaskNameParam": "who", "inputParameters": {"who": "${workflow.input.who}"}}
    return [
        entry("DYNAMIC", flow("dynamic", [node("d", "DYNAMIC", **who)]), input={"who": "a"}, calls=["a"]),
        entry("DYNAMIC that is a type", flow("dynamic_noop", [node("d", "DYNAMIC", **who), *seq("z")]), input={"who": "NOOP"}),
        entry("DYNAMIC that names nothing", flow("dynamic_nothing", [node("d", "DYNAMIC", **who)]), ends="FAILED"),
        entry(
            "two parameters",
            flow("fork_two", [node("f", "FORK_JOIN_DYNAMIC", inputParameters=given_two, **dynamic), joined]),
            input={"t": branches, "i": {"x": {"k": 1}, "w": {"duration": "3 s"}}},
        ),
        entry(
            "two parameters that are missing",
            flow("fork_two_missing", [node("f", "FORK_JOIN_DYNAMIC", inputParameters=given_two, **dynamic), joined]),
            ends="FAILED",
        ),
        entry(
            "the legacy parameter",
            flow(
                "fork_legacy",
                [
                    node(
                        "f", "FORK_JOIN_DYNAMIC", inputParameters={"all": "${workflow.input.all}"}, dynamicForkJoinTasksParam="all"
                    ),
                    joined,
                ],
            ),
            input={"all": legacy},
            calls=["x"],
        ),
        entry("one task many times", flow("fork_same", [given("f", "FORK_JOIN_DYNAMIC", **same), joined]), calls=["resize"]),
        entry(
            "one workflow many times",
            flow("fork_workflows", [given("f", "FORK_JOIN_DYNAMIC", **spread), joined]),
            input={"all": [{"n": 1}, 2]},
            registers=[child("one")],
        ),
        entry(
            "a dynamic fork, its JOIN and the next",
            flow("fork_then", [given("FD", "FORK_JOIN_DYNAMIC", **same), joined, *seq("z")]),
            calls=["resize"],
        ),
        entry(
            "a dynamic fork in every round of a loop",
            flow("fork_rounds", [loop("l", [given("f", "FORK_JOIN_DYNAMIC", **same), joined])]),
            calls=["resize"],
        ),
        entry(
            "START_WORKFLOW by name",
            flow("start_named", [given("s", "START_WORKFLOW", startWorkflow={"name": "one", "input": {"n": 1}}), *seq("z")]),
            registers=[child("one")],
        ),
        entry(
            "START_WORKFLOW without a request",
            flow("start_nothing", [node("s", "START_WORKFLOW")]),
            ends="FAILED",
        ),
        entry(
            "a sub-workflow whose name is an expression",
            flow("sub_named_late", [sub("c", {"name": "${workflow.input.which}"}, inputParameters={"n": 1})]),
            input={"which": "one"},
            registers=[child("one")],
        ),
        entry(
            "a sub-workflow whose definition is an expression",
            flow("sub_made_late", [sub("c", {"workflowDefinition": "${workflow.input.made}"}, inputParameters={"n": 1})]),
            input={"made": child("made")},
        ),
    ]


def written() -> list[J]:
    """All of it."""
    singly = [*of_workflows(), *of_retries(), *of_tasks(), *of_templates()]
    return [*singly, *of_branches(), *of_loops(), *of_families(), *of_leaves(), *of_run_time()]
