"""Index Python's standard library: modules, classes, functions and how many of them have a docstring.

A durable batch job. Stop it with Ctrl-C, or kill it; run it again, and it goes on where it was. Packages are listed, four branches
parse them file by file, what is broken is recorded, a report is written: `index_stdlib`, in `job_for`.
"""

import argparse
import ast
import io
import os
import shutil
import signal
import sqlite3
import sys
import sysconfig
import threading
import time
import tokenize
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from conductorlite import Engine, HistoryEvent, TaskContext, TaskResult, TaskStatus, Workers, Workflow, WorkflowStatus, flow, task
from conductorlite.flows import Backoff, Flow, match, over, parallel, reason

HERE = Path(__file__).parent
JOB = "index_stdlib"  # the id of the one execution in a work directory
NOT_INDEXED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
PROBLEMS = [
    ("SyntaxError", "syntax", "is not valid Python"),
    ("UnicodeDecodeError", "encoding", "is not in the encoding it claims"),
    ("FileNotFoundError", "vanished", "vanished while it was indexed"),
    ("", "other", "could not be indexed"),
]
TABLES = """
CREATE TABLE IF NOT EXISTS modules (file TEXT PRIMARY KEY, package, lines, classes, functions, documented, coverage);
CREATE TABLE IF NOT EXISTS definitions (file, line, kind, name, documented, PRIMARY KEY (file, line, kind, name));
CREATE TABLE IF NOT EXISTS broken (file TEXT PRIMARY KEY, problem, reason);
"""


def job_for(work: Path) -> Flow:
    """The job. Each function may be called twice for the same task, so what each writes replaces what it wrote before."""
    # A killed worker is missed after two seconds, and its task goes to another. While one runs, the engine says so for it.
    # What no worker has polled may wait (poll timeout 0): the job may be continued tomorrow.
    durable = task(response_timeout="2s", poll_timeout="0s", retry=Backoff(10, first="200ms"))
    results = sqlite3.connect(work / "index.db", check_same_thread=False, timeout=30)
    results.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + TABLES)
    one_writer = threading.Lock()

    def note(context: TaskContext) -> None:
        """One line per call: tests read here that no finished task is called again."""
        with (work / "calls.log").open("a", encoding="utf-8") as log:
            log.write(f"{context.ref} {context.attempt}\n")

    @durable
    def list_packages(source: str, broken: str, branches: int, limit: int | None, context: TaskContext) -> dict:
        note(context)
        root = Path(source)
        files = sorted(path.relative_to(root) for path in root.rglob("*.py"))
        files = [path for path in files if not NOT_INDEXED & set(path.parts)][:limit]
        scratch = work / "broken"
        scratch.mkdir(exist_ok=True)
        for path in Path(broken).glob("*.py.txt"):  # .txt keeps them from every other tool that reads .py files
            shutil.copy(path, scratch / path.stem)
        packages: dict[tuple[str, str], list[str]] = {("broken", str(work)): sorted(f"broken/{p.name}" for p in scratch.iterdir())}
        for path in files:
            package = path.parts[0] if len(path.parts) > 1 else "(modules)"
            packages.setdefault((package, source), []).append(path.as_posix())
        shares: list[list[dict]] = [[] for _ in range(branches)]
        load = [0] * branches
        for (package, root_of), names in sorted(packages.items(), key=lambda item: (-len(item[1]), item[0])):
            lightest = load.index(min(load))
            load[lightest] += len(names)
            shares[lightest].append({"package": package, "root": root_of, "files": names})
        return {"shares": shares, "files": sum(load), "vanishing": str(scratch / "vanishes.py")}

    @durable
    def vanish(path: str, context: TaskContext) -> None:
        note(context)
        Path(path).unlink(missing_ok=True)

    @durable
    def parse_file(root: str, package: str, file: str, context: TaskContext) -> dict | TaskResult:
        note(context)
        try:
            source = (Path(root) / file).read_bytes()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
            tree = ast.parse(source.decode(encoding), file)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            # A file that is not there may be on its way, so that is tried again; the others stay as they are.
            again = isinstance(error, OSError)
            return TaskResult(
                workflow_id=context.workflow_id,
                task_id=context.task_id,
                status=TaskStatus.FAILED if again else TaskStatus.FAILED_WITH_TERMINAL_ERROR,
                reason=f"{type(error).__name__}: {error}".replace(f"{root}{os.sep}", ""),
                output_data={"outcome": type(error).__name__},
            )
        found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
        rows = [
            (file, node.lineno, "class" if isinstance(node, ast.ClassDef) else "function", node.name, bool(ast.get_docstring(node)))
            for node in found
        ]
        kinds = Counter(kind for _, _, kind, _, _ in rows)
        documented = sum(row[-1] for row in rows) + bool(ast.get_docstring(tree))
        lines, coverage = source.count(b"\n"), round(documented / (len(rows) + 1), 3)
        counts = (lines, kinds["class"], kinds["function"], documented, coverage)
        with one_writer, results:
            results.execute("INSERT OR REPLACE INTO modules VALUES (?, ?, ?, ?, ?, ?, ?)", (file, package, *counts))
            results.executemany("INSERT OR REPLACE INTO definitions VALUES (?, ?, ?, ?, ?)", rows)
        return {"outcome": "indexed"}

    @durable
    def record_broken(file: str, problem: str, reason: str, context: TaskContext) -> None:
        note(context)
        with one_writer, results:
            results.execute("INSERT OR REPLACE INTO broken VALUES (?, ?, ?)", (file, problem, reason))

    @durable
    def write_report(listed: int, context: TaskContext) -> dict:
        note(context)
        with one_writer:
            (work / "summary.txt").write_text(summary(results, listed), encoding="utf-8")
        return {"summary": str(work / "summary.txt")}

    @flow
    def index_stdlib(source: str, broken: str, limit: int | None) -> dict:
        """Lists the packages of the standard library, parses every file in four branches, and writes a report."""
        dealt = "Deals the packages out to the four branches; a copy of the broken folder is one of them."
        listed = list_packages.options(name="list", description=dealt)(source=source, broken=broken, limit=limit, branches=4)
        gone = "What happens on any disk in use: a file that was listed is gone when its turn comes."
        vanish.options(description=gone)(path=listed["vanishing"])
        with parallel(name="fork", join="join") as fork:
            for n in range(4):
                with (
                    fork.branch(),
                    over(listed["shares"][n], again_if=None, name=f"packages_{n}", fields={"name": "packages"}) as package,
                    over(package["files"], again_if=None, name=f"files_{n}", fields={"name": "files"}) as file,
                ):
                    parsed = parse_file.options(name=f"parse_{n}", optional=True, retry=5)(
                        root=package["root"], package=package["package"], file=file
                    )
                    failed = match(parsed["outcome"], name=f"what_failed_{n}", fields={"name": "what_failed"})
                    failed.nothing("indexed")
                    for outcome, name, problem in PROBLEMS:
                        with failed.case(outcome) if outcome else failed.otherwise():
                            record_broken.options(name=f"{name}_{n}")(file=file, problem=problem, reason=reason(parsed))
        written = write_report.options(name="report")(listed=listed["files"])
        return {"summary": written["summary"]}

    return index_stdlib


def summary(results: sqlite3.Connection, listed: int) -> str:
    """What a person reads."""
    table = "SELECT {}, count(*), sum(lines), sum(classes), sum(functions), sum(documented) FROM modules {}"
    largest = results.execute(table.format("package", "GROUP BY package ORDER BY sum(lines) DESC, package LIMIT 15")).fetchall()
    total = results.execute(table.format("'all packages'", "")).fetchone()
    broken = results.execute("SELECT file, problem, reason FROM broken ORDER BY file").fetchall()
    lines = [f"{'largest packages':<18}{'modules':>9}{'lines':>10}{'classes':>9}{'functions':>11}{'documented':>12}"]
    for name, modules, size, classes, functions, documented in [*largest, total] if total[1] else []:
        share = documented / (modules + classes + functions)
        lines.append(f"{name:<18}{modules:>9,}{size:>10,}{classes:>9,}{functions:>11,}{share:>12.0%}")
    lines += ["", f"{total[1]} of {listed} files are indexed, {len(broken)} are broken:"]
    lines += [f"  {file} {problem}\n    {reason}" for file, problem, reason in broken]
    return "\n".join(lines) + "\n"


class Progress:
    """How far the job is: one line that moves on a terminal, a line every two seconds elsewhere."""

    ENDED = (TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS)

    def __init__(self, engine: Engine) -> None:
        self.done = sum(task.task_type == "parse_file" and task.status in self.ENDED for task in engine.get(JOB).tasks)
        self.before, self.began, self.shown, self.total, self.engine = self.done, time.monotonic(), 0.0, 0, engine
        engine.listen(self.heard)

    def heard(self, workflow: Workflow, history: Sequence[HistoryEvent]) -> None:
        """Called by the engine after each commit."""
        parsed = sum((line.ref or "").startswith("parse_") and line.status in self.ENDED for line in history)
        self.done += parsed
        if not parsed:
            return
        self.total = self.total or self.engine.get(JOB).task("list").output_data["files"]
        live, now, last = sys.stdout.isatty(), time.monotonic(), self.done == self.total
        if last or now - self.shown > (0.05 if live else 2):
            self.shown, share = now, self.done / self.total
            line = f"{share:4.0%}  {self.done} of {self.total} files, {(self.done - self.before) / (now - self.began):.0f} a second"
            start = f"\r[{'█' * int(30 * share):<30}]" if live else ""
            print(start + line, end=" " if live and not last else "\n", flush=True)


def main() -> int:
    """Run the job, or go on with it; 0 when it is done, 130 when it was interrupted, 1 when it failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/index_stdlib"), help="where everything is kept (%(default)s)")
    parser.add_argument("--store", help="the engine's store, such as postgresql://user@host/database (jobs.db in the work folder)")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    parser.add_argument("--limit", type=int, help="index so many files of the library only")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        for path in [*work.glob("jobs.db*"), *work.glob("index.db*"), work / "calls.log", work / "summary.txt"]:
            path.unlink(missing_ok=True)
    warnings.simplefilter("ignore")  # of the modules that are parsed

    job = job_for(work)
    with Engine(options.store or work / "jobs.db", workers=Workers(concurrency=4).include(job)) as engine:
        if options.fresh and JOB in engine.admin.workflow_ids():
            if engine.status(JOB) is WorkflowStatus.RUNNING:
                engine.terminate(JOB)
            engine.admin.remove(JOB)
        if JOB not in engine.admin.workflow_ids():
            source, broken = sysconfig.get_path("stdlib"), str(HERE / "broken")
            engine.start(job.options(workflow_id=JOB), source=source, broken=broken, limit=options.limit)
            print(f"Indexing {source}")
        elif engine.status(JOB) is WorkflowStatus.COMPLETED:
            print("Done already; --fresh starts from nothing.")
        else:
            print("Going on where it was.")
            if engine.status(JOB) is WorkflowStatus.FAILED:
                engine.retry(JOB)
        print(f"Working in {os.path.relpath(work)}", flush=True)
        progress = Progress(engine)
        interrupted = threading.Event()

        def on_ctrl_c(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one does not wait
            interrupted.set()
            engine.stop()  # takes no more tasks, and waits for those that run

        signal.signal(signal.SIGINT, on_ctrl_c)
        while engine.status(JOB) is WorkflowStatus.RUNNING and not interrupted.is_set():
            engine.run_until_idle()
        if engine.status(JOB) is WorkflowStatus.RUNNING:
            print(f"\nInterrupted after {progress.done} files. Run it again to go on.")
            return 130
        if engine.status(JOB) is not WorkflowStatus.COMPLETED:
            print(f"\nThe job failed: {engine.get(JOB).reason}\nRun it again to try again, or with --fresh to start from nothing.")
            return 1
    print((work / "summary.txt").read_text(encoding="utf-8"))
    print(f"All of it: sqlite3 {os.path.relpath(work / 'index.db')} 'SELECT * FROM modules'")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted at once. Run it again to go on.")
        sys.exit(130)
