"""Names, ids and queries meant to be taken for something else: SQL, paths, text that looks like other text.

Each attack puts one text into every place that takes one: names, ids, references, queues, domains, keys, inputs, lines of logs.
Then everything is looked up by that text, and it must be found as it was given, alone, with nothing else touched.
"""

from __future__ import annotations

from collections.abc import Callable

from attacks import Engine, J, Run, flow, given, inline, node, read, start

from conductorlite import TaskResult, TaskStatus, WorkflowDef
from conductorlite.errors import ConductorliteError, NotFound

__all__ = ["PATHS", "SQL", "UNICODE"]

SQL_TEXTS = {
    "a statement behind a quote": "'; DROP TABLE workflows; --",
    "a condition that holds": "' OR '1'='1",
    "a condition behind a double quote": '" OR ""="',
    "a second statement": "x'); DELETE FROM tasks; SELECT ('",
    "a union": "' UNION SELECT text FROM definitions --",
    "wildcards": "%",
    "a wildcard for one": "_",
    "an escape": "\\",
    "parameters": "?1 :x @y $z",
    "a comment": "/* x */ -- y",
    "a large payload's mark": "#" + "0" * 64,
    "a pragma": "x; PRAGMA user_version = 99",
    "a blob": "x'00'",
    "a name of ours": "sqlite_master",
}
UNICODE_TEXTS = {
    "from right to left": "\u202egpj.exe",
    "zero width": "a\u200b\u200d\ufeffb",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "a hundred accents": "a" + "\u0301" * 100,
    "a family": "👩‍👩‍👧‍👦",
    "events of mathematics": "𝒳𝔶",
    "a dotted capital": "İıſß",
    "no character": "\ufffe\uffff\U0010ffff",
    "a zero": "a\x00b",
    "lines": "a\nb\r\tc\x1b[31m",
    "another kind of line": "a\u2028b\u2029c\x85d",
    "nothing but space": "\u3000\u00a0",
    "100,000 events": "é" * 100_000,
    "an emoji 10,000 times": "🧨" * 10_000,
}


def _everywhere(text: str) -> Callable[[Engine], Run]:
    """The text in each place in turn; what is refused is refused by name and stores nothing."""

    def attack(engine: Engine) -> Run:
        normal = start(engine, {**flow(given("t")), "name": "beside"})
        before = engine.get(normal.workflow_id)
        refused = [place for place in _PLACES if not _taken(engine, place, text)]
        _look_up(engine, text)
        if engine.get(normal.workflow_id) != before:
            raise AssertionError("another execution was touched")
        broken = engine.admin.check()
        if broken:
            raise AssertionError(str(broken))
        if refused == list(_PLACES):
            raise AssertionError("refused everywhere")
        return normal

    return attack


def _named(engine: Engine, text: str) -> None:
    document = {**flow(given("t")), "name": text}
    engine.register(WorkflowDef.from_json(document))
    run = engine.start(text, {"x": 1})
    found = engine.executions(text)
    if [one.workflow_id for one in found] != [run.workflow_id] or found[0].name != text:
        raise AssertionError("not found by its name")


def _by_id(engine: Engine, text: str) -> None:
    run = engine.start(WorkflowDef.from_json(flow(given("t"))), workflow_id=text)
    if engine.get(text).workflow_id != text or run.workflow_id != text:
        raise AssertionError("not found by its id")
    engine.terminate(text, text)
    engine.admin.remove(text)
    try:
        engine.get(text)
    except NotFound:
        return
    raise AssertionError("it was not removed")


def _correlated(engine: Engine, text: str) -> None:
    document = {**flow(given("t")), "name": "correlated"}
    run = engine.start(WorkflowDef.from_json(document), correlation_id=text, created_by=text, idempotency_key=text[:255])
    if [one.workflow_id for one in engine.executions(correlation_id=text)] != [run.workflow_id]:
        raise AssertionError("not found by its correlation id")
    if [one.workflow_id for one in engine.admin.correlated("correlated", text)] != [run.workflow_id]:
        raise AssertionError("not found with its name")


def _worked_on(engine: Engine, text: str) -> None:
    tasks: list[J] = [{**node("t", inputParameters={text: text}), "name": text}]
    run = start(engine, {**flow(*tasks), "name": "worked on"}, {text: [text]})
    (task,) = engine.poll(text, worker_id=text)
    engine.tasks.log(task, text)
    done = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED,
                      output_data={text: text}, reason=text, lease=task.lease)  # fmt: skip
    engine.update_task(done)
    row = engine.get(run.workflow_id)
    (line,) = [line.text for line in engine.tasks.logs(task.task_id)]
    # A line of the log is for people: cut when it is long, and without what no terminal takes.
    logged = f" … {len(text)} characters in all … " in line or line == text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if row.input_data != {text: [text]} or row.tasks[0].output_data != {text: text} or not logged:
        raise AssertionError("something was changed on its way")


def _in_a_domain(engine: Engine, text: str) -> None:
    # A type that nobody else has: a text that is all space is no domain, and would take whatever is offered.
    start_def = WorkflowDef.from_json({**flow(node("of_a_domain")), "name": "of a domain"})
    run = engine.start(start_def, task_to_domain={"of_a_domain": text})
    # Domains are a list with commas, and space around them is none of theirs.
    taken = engine.poll("of_a_domain", domain=text.strip() or None, worker_id=text)
    if [task.workflow_id for task in taken] != [run.workflow_id] or engine.poll("of_a_domain", domain=f"{text}x"):
        raise AssertionError("not offered in its domain alone")


def _referred_to(engine: Engine, text: str) -> None:
    run = start(engine, {**flow({**node(text), "name": "t"}, given("z", x=f"${{{text}.output.x}}")), "name": "referred to"})
    if engine.get(run.workflow_id).tasks[0].ref != text:
        raise AssertionError("not called by its reference")


def _queried(engine: Engine, text: str) -> None:
    start(engine, {**flow(given("t", x=f"${{workflow.input['{text}']}}", y=text)), "name": "queried"}, {text: 1})


_PLACES: dict[str, Callable[[Engine, str], None]] = {
    "name": _named,
    "id": _by_id,
    "correlation": _correlated,
    "worker": _worked_on,
    "domain": _in_a_domain,
    "reference": _referred_to,
    "query": _queried,
}


def _taken(engine: Engine, place: str, text: str) -> bool:
    count = sum(1 for _ in engine.admin.workflow_ids())
    try:
        _PLACES[place](engine, text)
    except ConductorliteError as error:
        if sum(1 for _ in engine.admin.workflow_ids()) != count:
            raise AssertionError(f"refused as {place}, and stored: {error}") from error
        return False
    return True


def _look_up(engine: Engine, text: str) -> None:
    """Ask for what does not exist by the text, in every verb that takes one; and for a text that only looks like it."""
    like = f"{text} "
    for ask in (
        engine.get,
        engine.explain,
        engine.tasks.get,
        engine.definitions.workflow,
        engine.definitions.task,
        engine.resume,
        engine.admin.export,
    ):
        try:
            ask(like)
        except ConductorliteError:
            continue
        raise AssertionError(f"{ask.__name__} found {like!r}")
    if engine.executions(like) or engine.executions(correlation_id=like) or engine.executions(parent_workflow_id=text):
        raise AssertionError("found what was never stored")
    if engine.poll(like) or engine.tasks.logs(like) or engine.tasks.poll_data(f"{like} "):
        raise AssertionError("found what was never offered")


def _two_names(one: str, other: str) -> Callable[[Engine], Run]:
    """Two texts that look the same are two."""

    def attack(engine: Engine) -> Run:
        for version, text in enumerate((one, other)):
            engine.register(WorkflowDef.from_json({**flow(given("t", x=version)), "name": text}))
        runs = [engine.start(text, workflow_id=text, correlation_id=text) for text in (one, other)]
        for text in (one, other):
            found = [row.workflow_id for row in engine.executions(text)], engine.get(text).tasks[0].input_data["x"]
            if found != ([text], (one, other).index(text)):
                raise AssertionError(f"{found} for {text!r}")
        return runs[0]

    return attack


SQL = {f"SQL: {name}": _everywhere(text) for name, text in SQL_TEXTS.items()}
UNICODE = {
    **{f"names: {name}": _everywhere(text) for name, text in UNICODE_TEXTS.items()},
    "two names: composed and not": _two_names("\u00e9", "e\u0301"),
    "two names: capitals": _two_names("STRASSE", "straße"),
    "two names: with and without a space": _two_names("a", "a\u200b"),
}
#: Paths into payloads, and paths of files where a payload could be meant.
PATHS = {
    "path to the class": read("${workflow.input.__class__.__mro__[1].__subclasses__}", {"x": 1}),
    "path to the globals": read("${workflow.__init__.__globals__}", {"x": 1}),
    "path to a prototype": read("${workflow.input.constructor.constructor} ${workflow.input.__proto__}", {"x": {}}),
    "path to a prototype, script": inline("({}).constructor.constructor('return this')().process.exit(1)"),
    "path to a file": read("${workflow.input['../../../../etc/passwd']}", {"x": 1}),
    "path to a file, script": inline("std.loadFile('/etc/passwd') + os.getcwd()"),
    "path to a file, python": inline("return open('/etc/passwd').read()", "python"),
    "path to the environment": read("${PATH} ${workflow.env.PATH} ${HOME}"),
    "payload in a file": lambda engine: start(
        engine,
        {**flow(given("t", externalInputPayloadStoragePath="/etc/passwd")), "externalInputPayloadStoragePath": "/etc/passwd"},
    ),
    "payload by reference": read("${workflow.input.x}", {"x": {"$ref": "file:///etc/passwd", "@type": "java.io.File"}}),
    "path of 100,000 parts": read("${workflow.input" + ".a" * 100_000 + "}", {"a": 1}),
    "path of 100,000 indexes": read("${workflow.input" + "[0]" * 100_000 + "}", {"a": 1}),
    "a name of a megabyte": read("${workflow.input." + "a" * 2**20 + "}", {"a": 1}),
    "a union of 100,000": read("${$.workflow.input[" + ",".join(["'a'"] * 100_000) + "]}", {"a": 1}),
    "a slice without an end": read("${$.workflow.input.l[0:9223372036854775807:1]}", {"l": [1]}),
    "a slice of no steps": read("${$.workflow.input.l[::0]}", {"l": [1]}),
    "an index past everything": read("${workflow.input.l[99999999999999999999999]}", {"l": [1]}),
    "an index before everything": read("${workflow.input.l[-99999999999999999999999]}", {"l": [1]}),
    "a filter 1,000 deep": read("${$.workflow.input.l[?(" + "(" * 1_000 + "@" + ")" * 1_000 + ")]}", {"l": [1]}),
    "a filter of filters": read("${$..[?(@..[?(@..[?(@..x)])])]}", {"l": [[[1] * 9] * 9] * 9}),
    "a filter that compares all": read("${$..[?(@ == $..x)]}", {"l": [[1] * 40] * 40}),
    "an unclosed filter": read("${$.workflow.input.l[?(@.x}", {"l": [1]}),
}
