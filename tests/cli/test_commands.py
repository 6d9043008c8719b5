"""Each command on a real database: what a person reads, what a program reads, and the exit code."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from cli_kit import Shell

from conductorlite import Engine, Workers, WorkflowDef
from conductorlite.testing import replay


def test_run_drives_to_the_end(shell: Shell) -> None:
    """`run` starts an execution, runs the workers and prints the output."""
    said = shell.hello()
    assert (said.code, said.err) == (0, "")
    assert said.out == 'workflowId  h1\nstatus      COMPLETED\noutput      {"text":"Hello, Ada!"}\n'


def test_run_as_json(shell: Shell) -> None:
    """`run --json` prints Conductor's workflow without its tasks and definition."""
    said = shell("run", "hello.json", "--workers", "crew:workers", "--id", "h1", "--json")
    assert said.code == 0
    assert said.json["status"] == "COMPLETED"
    assert said.json["workflowName"] == "hello"
    assert not {"tasks", "workflowDefinition"} & said.json.keys()


def test_run_again_changes_nothing(shell: Shell) -> None:
    """`run` with the id of a finished execution reports it, and runs nothing again."""
    first = shell.hello()
    with shell.engine() as engine:
        before = engine.history("h1")
    assert shell.hello() == first
    with shell.engine() as engine:
        assert engine.history("h1") == before


def test_run_of_a_failing_execution(shell: Shell) -> None:
    """`run` ends with 1 and says on stderr which task failed, at which attempt, why, and what never ran."""
    said = shell.failed()
    assert said.code == 1
    assert "status      FAILED" in said.out
    assert 'boom (explode) is FAILED at attempt 1 of 1 with "' in said.err
    assert "Never scheduled: after." in said.err


def test_run_goes_on_with_what_start_began(shell: Shell) -> None:
    """`start` drives nothing; `run --id` needs no definition to go on."""
    assert shell("start", "hello.json", "--id", "h1", "--input", '{"name": "Bo"}').out == "h1\n"
    said = shell("run", "--id", "h1", "--workers", "crew:workers", "--json")
    assert (said.code, said.json["output"]) == (0, {"text": "Hello, Bo!"})


def test_start_as_json(shell: Shell) -> None:
    """`start --json` prints id and status; the input may come from a file."""
    (shell.folder / "in.json").write_text('{"name": "Zoë"}', encoding="utf-8")
    said = shell("start", "hello.json", "--id", "h1", "--input", "@in.json", "--json")
    assert (said.code, said.json) == (0, {"workflowId": "h1", "status": "RUNNING"})
    assert shell("show", "h1", "--json").json["input"] == {"name": "Zoë"}


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no file names a pipe here")
def test_an_input_may_come_from_a_pipe(shell: Shell) -> None:
    """It is read once: what a pipe has given it does not give again."""
    reading, writing = os.pipe()
    os.write(writing, b'{"name": "Bo"}')
    os.close(writing)
    assert shell("start", "hello.json", "--id", "h1", "--input", f"@/dev/fd/{reading}").out == "h1\n"
    os.close(reading)
    assert shell("show", "h1", "--json").json["input"] == {"name": "Bo"}


def test_start_with_an_uploaded_input(shell: Shell) -> None:
    """`--input-path` names what was uploaded where the engine said; not together with `--input`."""
    with Engine(shell.folder / "conductorlite.db", payloads=shell.folder / "payloads") as engine:
        found = engine.payloads.location("", "WRITE", "WORKFLOW_INPUT")
        Path(unquote(urlsplit(found.uri).path)).write_text('{"name": "Zoë"}', encoding="utf-8")
    for command in ("start", "run"):
        options = ("--payloads", "payloads", "--workers", "crew:workers") if command == "run" else ("--payloads", "payloads")
        assert shell(command, "hello.json", "--id", command, "--input-path", found.path, *options).code == 0
        assert shell("show", command, "--payloads", "payloads", "--json").json["input"] == {"name": "Zoë"}
    said = shell("start", "hello.json", "--input", '{"name": "Bo"}', "--input-path", found.path)
    assert (said.code, "not both" in said.err) == (2, True)


def test_start_of_a_registered_name(shell: Shell) -> None:
    """A DEFINITION that is no file is the name of a registered definition."""
    with shell.engine() as engine:
        engine.register(WorkflowDef.from_json(shell.folder / "hello.json"))
    assert shell("start", "hello", "--id", "h1").code == 0


def test_task_definitions_are_registered_first(shell: Shell) -> None:
    """`--task-defs` counts for the execution that is started with it."""
    (shell.folder / "tasks.json").write_text('[{"name": "greet", "retryCount": 7}]', encoding="utf-8")
    shell("start", "hello.json", "--id", "h1", "--task-defs", "tasks.json")
    task = shell("show", "h1", "--json").json["tasks"][0]
    assert task["taskDefinition"]["retryCount"] == 7


def test_watch_shows_the_journal(shell: Shell) -> None:
    """`run --watch` prints each line of history before the result."""
    said = shell("run", "hello.json", "--workers", "crew:workers", "--id", "h1", "--watch")
    lines = said.out.splitlines()
    assert [line.split("  ", 1)[1] for line in lines[:-3]][-2:] == ["greet  COMPLETED", "workflow  COMPLETED"]


def test_a_timeout_leaves_the_execution_running(shell: Shell) -> None:
    """`run --timeout` ends with 6, says what is waited for, and the execution is still RUNNING."""
    said = shell("run", "waiting.json", "--id", "w1", "--timeout", "300ms")
    assert said.code == 6
    assert said.err.startswith("conductorlite: waiting › ")
    assert "w1 did not end in time: RUNNING" in said.err
    assert shell("explain", "w1").out.split(" RUNNING ")[0] in said.err
    assert shell("list", "--json").json["results"][0]["status"] == "RUNNING"


def test_types_nobody_works_for_are_named(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    """`run` without a worker for a type says that such tasks wait for another process; nothing that is logged says it again."""
    said = shell("run", "hello.json", "--timeout", "100ms")
    assert said.err.splitlines()[0] == "no worker here for greet: such tasks wait for another process"
    assert "no worker here" not in caplog.text


def test_list(shell: Shell) -> None:
    """`list` has a row per execution, and only those of a status when asked."""
    shell.hello()
    shell.failed()
    assert shell("list").out.splitlines()[0].split() == ["ID", "WORKFLOW", "STATUS", "STARTED", "ENDED", "TASKS", "REASON"]
    assert len(shell("list").out.splitlines()) == 3
    only = shell("list", "--status", "failed").out.splitlines()
    assert [line.split()[0] for line in only] == ["ID", "f1"]


def test_list_as_json(shell: Shell) -> None:
    """`list --json` is a search result of Conductor's summaries; --limit cuts it and leaves the total."""
    shell.hello()
    shell.failed()
    said = shell("list", "--json", "--limit", "1").json
    assert said["totalHits"] == 2
    assert {"workflowType", "workflowId", "version", "status", "startTime"} <= said["results"][0].keys()
    assert said["results"][0]["startTime"].endswith("Z")


def test_list_by_name_and_correlation_id(shell: Shell) -> None:
    """`list --name` and `--correlation-id` narrow it down; what is beyond the limit is counted in a remark."""
    shell.hello("h1")
    shell.hello("h2")
    shell.failed()
    with shell.engine() as engine:
        engine.start(engine.get("h1").definition or "", workflow_id="h3", correlation_id="c")
    assert {row["workflowId"] for row in shell("list", "--name", "hello", "--json").json["results"]} == {"h1", "h2", "h3"}
    assert [row["workflowId"] for row in shell("list", "--correlation-id", "c", "--json").json["results"]] == ["h3"]
    said = shell("list", "--limit", "1")
    assert len(said.out.splitlines()) == 2
    assert said.err == "3 more; see --limit\n"


def test_start_once(shell: Shell) -> None:
    """A second start with an idempotency key is a conflict, or names the execution there is if that was asked for."""
    first = shell("start", "hello.json", "--idempotency-key", "k").out.strip()
    refused = shell("start", "hello.json", "--idempotency-key", "k")
    assert refused.code == 4
    assert f"belongs to execution '{first}', which is RUNNING" in refused.err
    again = shell("start", "hello.json", "--idempotency-key", "k", "--idempotency-strategy", "return_existing")
    assert (again.code, again.out.strip()) == (0, first)


def test_remove(shell: Shell) -> None:
    """`remove` deletes what has ended; what has not is a conflict, what is not there is not found."""
    shell.hello("h1")
    shell.hello("h2")
    assert shell("remove", "h1").out == "h1 is removed\n"
    assert shell("remove", "h1").code == 3
    assert shell("remove", "h2", "--json").json == {"workflowId": "h2", "removed": True}
    shell("start", "hello.json", "--id", "w1")
    assert shell("remove", "w1").code == 4


def test_a_page(shell: Shell) -> None:
    """`show --html` writes a page, to standard output or to a file; one that cannot be written is an error, as is an unknown id."""
    shell.hello()
    text = shell("show", "h1", "--html").out
    assert text.startswith("<!doctype html>")
    said = shell("show", "h1", "--html", "h1.html", "--json")
    assert said.json == {"workflowId": "h1", "file": "h1.html"}
    assert (shell.folder / "h1.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert shell("show", "h1", "--html", "no/h1.html").code == 2
    assert "h1" in shell("list", "--html").out
    assert shell("list", "--html", "all.html", "--limit", "1", "--json").json == {"file": "all.html"}
    assert shell("list", "--html", "all.html", "--name", "hello").code == 2
    assert shell("show", "h9", "--html").code == 3


def test_show(shell: Shell) -> None:
    """`show` has the execution and its tasks, as text and as Conductor's JSON; a terminal is told nothing by a reason."""
    shell.failed()
    said = shell("show", "f1")
    assert "status      FAILED" in said.out
    assert "explode" in said.out
    assert "\x1b" not in said.out
    whole = shell("show", "f1", "--json").json
    assert [task["referenceTaskName"] for task in whole["tasks"]] == ["boom"]
    assert whole["failedReferenceTaskNames"] == ["boom"]


def test_history(shell: Shell) -> None:
    """`history` is the journal, a line or an object for each event."""
    shell.hello()
    said = shell("history", "h1")
    assert said.out.splitlines()[-1].endswith("  workflow  COMPLETED")
    lines = shell("history", "h1", "--json").json
    assert len(lines) == len(said.out.splitlines())
    assert lines[0]["n"] == 1
    assert {"time", "kind", "status"} <= lines[0].keys()


def test_explain(shell: Shell) -> None:
    """`explain` says what is waited for, for the execution or one task; --json wraps the same text."""
    shell("start", "hello.json", "--id", "h1")
    said = shell("explain", "h1")
    assert "greet waits for a worker of type greet" in said.out
    assert shell("explain", "h1", "--json").json.keys() == {"workflowId", "status", "text"}
    shell.failed()
    assert shell("explain", "f1", "--task", "after").out.startswith("after never ran: boom, before it, is FAILED")


def test_agenda(shell: Shell) -> None:
    """`agenda` lists what will happen by itself."""
    shell("start", "hello.json", "--id", "h1")
    assert "POLL_TIMEOUT" in shell("agenda").out
    (entry,) = shell("agenda", "--json").json
    assert {key: entry[key] for key in ("kind", "workflowId", "referenceTaskName")} == {
        "kind": "POLL_TIMEOUT",
        "workflowId": "h1",
        "referenceTaskName": "greet",
    }


def test_retry(shell: Shell) -> None:
    """`retry` reopens what failed; `run --id` then goes on, and fails again."""
    shell.failed()
    assert shell("retry", "f1").out == "f1 is RUNNING\n"
    assert shell("run", "--id", "f1", "--workers", "crew:more", "--workers", "crew:workers").code == 1


def test_pause_and_resume(shell: Shell) -> None:
    """`pause` holds an execution, so that `run` refuses it; `resume` lets it go."""
    shell("start", "hello.json", "--id", "h1")
    assert shell("pause", "h1", "--json").json == {"workflowId": "h1", "status": "PAUSED"}
    refused = shell("run", "--id", "h1", "--workers", "crew:workers")
    assert (refused.code, refused.err) == (4, "conductorlite: h1 is PAUSED; `conductorlite resume h1` first\n")
    assert shell("resume", "h1").out == "h1 is RUNNING\n"


def test_terminate(shell: Shell) -> None:
    """`terminate` ends an execution with a reason that `explain` tells."""
    shell("start", "hello.json", "--id", "h1")
    assert shell("terminate", "h1", "--reason", "no need").out == "h1 is TERMINATED\n"
    assert "no need" in shell("explain", "h1").out


def test_check(shell: Shell) -> None:
    """`check` ends with 0 when every law holds, on all or on one."""
    shell.hello()
    assert (shell("check").code, shell("check").out) == (0, "1 checked, 0 findings\n")
    assert shell("check", "h1", "--json").json == {"checked": 1, "findings": []}


def test_check_finds(shell: Shell) -> None:
    """`check` ends with 1 and names the law when a counter does not match the rows."""
    shell("start", "hello.json", "--id", "h1")
    with sqlite3.connect(shell.folder / "conductorlite.db") as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = next(n for n in tables if "open" in {row[1] for row in connection.execute(f"PRAGMA table_info({n})")}
                     and "history_seq" in {row[1] for row in connection.execute(f"PRAGMA table_info({n})")})  # fmt: skip
        connection.execute(f"UPDATE {table} SET open = 5")
    connection.close()
    said = shell("check", "--json")
    assert said.code == 1
    assert said.json["findings"][0]["workflowId"] == "h1"
    assert shell("check").out.splitlines()[0].split() == ["LAW", "ID", "FINDING"]


def test_diagram(shell: Shell) -> None:
    """`diagram` draws a file, and an execution with its statuses."""
    assert shell("diagram", "hello.json").out.startswith("flowchart TD\n")
    shell.hello()
    assert "COMPLETED" in shell("diagram", "h1").out
    assert shell("diagram", "h1", "--json").json == {"mermaid": shell("diagram", "h1").out}


def test_validate(shell: Shell) -> None:
    """`validate` ends with 0 for a good definition and needs no database."""
    assert shell("validate", "hello.json").out == "hello.json is valid\n"
    assert shell("validate", "hello.json", "--json").json == {"valid": True, "problems": []}
    assert not (shell.folder / "conductorlite.db").exists()


def test_validate_lists_all_problems(shell: Shell) -> None:
    """`validate` ends with 1 and lists every problem with its path."""
    said = shell("validate", "invalid.json", "--json")
    assert said.code == 1
    assert {"$.name", "$.tasks[1].taskReferenceName"} <= {problem["path"] for problem in said.json["problems"]}
    assert len(shell("validate", "invalid.json").out.splitlines()) == 1 + len(said.json["problems"])


def test_json_answers_are_one_document(shell: Shell) -> None:
    """With --json, standard output is one JSON document for every command that looks."""
    shell.hello()
    for command in (["list"], ["show", "h1"], ["history", "h1"], ["explain", "h1"], ["agenda"], ["check"], ["diagram", "h1"]):
        said = shell(*command, "--json")
        assert said.code == 0, command
        json.loads(said.out)


def test_export(shell: Shell) -> None:
    """`export` prints the document, or writes it to a file that can be replayed; a file that cannot be written is an error."""
    shell.hello()
    document = shell("export", "h1").json
    assert (document["format"], document["workflowId"]) == ("conductorlite/execution", "h1")
    said = shell("export", "h1", "-o", "h1.json")
    assert (said.code, said.out, said.err) == (0, "", "h1.json: 1 execution(s)\n")
    replayed = replay((shell.folder / "h1.json").read_text(encoding="utf-8"))
    assert replayed.engine.get("h1").output_data == {"text": "Hello, Ada!"}
    assert shell("export", "h1", "-o", "h1.json", "--json").json == {"workflowId": "h1", "file": "h1.json", "executions": 1}
    refused = shell("export", "h1", "-o", "missing/h1.json")
    assert refused.code != 0
    assert "missing/h1.json: No such file or directory" in refused.err


def test_logs_of_workers(shell: Shell) -> None:
    """`logs` prints what workers have logged with each attempt, of one task with --task, also once it is archived."""
    shell.hello()
    with shell.engine() as engine:
        [task] = engine.get("h1").tasks
        engine.tasks.log(task, "first", "second \x1b[31m")
    for archived in (False, True):
        if archived:
            with shell.engine() as engine:
                engine.admin.archive("h1")
        rows = [line.split("  ", 1)[1].strip() for line in shell("logs", "h1").out.splitlines()]
        assert [" ".join(row.split()) for row in rows[1:]] == [f"{task.ref} 1 first", f"{task.ref} 1 second \ufffd[31m"]
        assert [line["log"] for line in shell("logs", "h1", "--task", task.ref, "--json").json] == ["first", "second \x1b[31m"]
        assert shell("logs", "h1", "--task", "other", "--json").json == []
    assert shell("logs", "nobody").code == 3


def test_watch_follows_what_others_drive(shell: Shell) -> None:
    """`watch` prints the journal until the execution has ended, driven by another process; its exit code says how it ended."""
    assert shell("start", "hello.json", "--id", "h1").code == 0
    workers = Workers()
    workers.task("greet")(lambda name="you": {"text": name})
    with Engine(shell.folder / "conductorlite.db", workers=workers) as engine:
        driver = threading.Thread(target=engine.run_until_idle)
        driver.start()
        said = shell("watch", "h1", "--after", "0")
        driver.join(20)
    assert (said.code, said.err) == (0, "")
    assert said.out == shell("history", "h1").out
    assert shell("watch", "h1").out == said.out.splitlines(keepends=True)[-1]  # it begins now: the end is all there is
    after = [json.loads(line) for line in shell("watch", "h1", "--after", "2", "--json").out.splitlines()]
    assert after == shell("history", "h1", "--json").json[2:]
    shell.failed()
    assert shell("watch", "f1").code == 1


def test_start_of_a_burst(shell: Shell) -> None:
    """Starts with one debounce key are one execution, with the last one's input; `explain` says when it begins."""
    options = ("--debounce", "1h", "--debounce-key", "f7", "--max-wait", "2h")
    first = shell("start", "hello.json", "--input", '{"name": "Bo"}', *options)
    again = shell("start", "hello.json", "--input", '{"name": "Cy"}', *options)
    assert (first.code, first.out) == (0, again.out)
    said = shell("show", first.out.strip(), "--json").json
    assert (said["input"], said["idempotencyKey"]) == ({"name": "Cy"}, "debounce:f7")
    assert "unless it is started again with the key 'f7'" in shell("explain", first.out.strip()).out
    wrong = ((options[:2], "go together"), (("--max-wait", "1h"), "go together"), ((*options, "--id", "w"), "workflow_id"))
    for given, problem in wrong:
        refused = shell("start", "hello.json", *given)
        assert refused.code != 0
        assert problem in refused.err


def test_a_task_alone(shell: Shell) -> None:
    """`run --task` and `start --task` take a task type instead of a definition; `show` says what it is."""
    said = shell("run", "greet", "--task", "--input", '{"name": "Ada"}', "--workers", "crew:workers", "--id", "t1")
    assert (said.code, shell("show", "t1", "--json").json["workflowName"]) == (0, "task:greet")
    assert "the task greet alone" in shell("show", "t1").out
    assert shell("run", "greet", "--task", "--id", "t1", "--workers", "crew:workers").code == 0
    assert shell("start", "greet", "--task", "--id", "t2").out == "t2\n"
    assert shell("show", "t2", "--json").json["workflowName"] == "task:greet"
    assert shell("start", " ", "--task").code == 2
