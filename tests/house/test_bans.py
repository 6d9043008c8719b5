"""What must not be where: time, chance, processes and asserts, each kept behind its door."""

from __future__ import annotations

import ast
import re

from house import PACKAGE, docstrings_of, imports_of, logic_files, named, nodes_of, python_files, tree_of

#: What the logic may not know of: it would make a decision depend on more than its arguments.
IMPURE = frozenset(
    {
        "time", "random", "uuid", "secrets", "threading", "asyncio", "concurrent", "multiprocessing", "subprocess",
        "os", "sys", "pathlib", "io", "socket", "logging", "sqlite3", "sqlite_utils",
    }
)  # fmt: skip

#: The only files that import a third party.
IMPORTERS = {
    "apscheduler": {"language/triggers.py"},
    "cattrs": {"model/codec.py", "model/typed.py"},
    "click": {"cli"},
    "fsspec": {"ext/fsspec.py"},
    "httpx": {"ext/conductor_worker.py", "ext/http.py"},
    "jsonschema": {"language/schemas.py"},
    "kazoo": {"ext/zookeeper_lock.py"},
    "psycopg": {"ext/postgres"},
    "redis": {"ext/redis_lock.py"},
    "opentelemetry": {"ext/otel.py"},
    "referencing": {"language/schemas.py"},
    "rich": {"cli"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "sqlite_utils": {"store/index", "store/sqlite"},
}

#: The only file that makes trees of Python source: one thread at a time.
PARSER = "conductorlite/model/syntax.py"

#: Calls that read a clock or draw by chance.
READS_TIME = frozenset({"now", "utcnow", "today"})

#: SQL that asks the database for the time.
SQL_TIME = re.compile(
    r"\bCURRENT_(TIME|DATE|TIMESTAMP)\b|\b(strftime|julianday|unixepoch|datetime|timediff|random|randomblob)\s*\(|'now'",
    re.IGNORECASE,
)

#: What is imported inside functions, with the first call: a definition knows nothing of the codec until somebody asks for JSON, and
#: libraries that cost more to import than all of conductorlite.
DOORS = {
    ("language/secrets.py", "base64"),
    ("language/secrets.py", "urllib"),
    ("language/processes.py", "importlib"),
    ("model/clock.py", "pathlib"),
    ("model/codec.py", "cattrs"),
    ("model/codec.py", "conductorlite"),
    ("model/codec.py", "pathlib"),
    ("model/definitions.py", "conductorlite"),
    ("model/handlers.py", "conductorlite"),
    ("model/schedules.py", "conductorlite"),
    ("model/texts.py", "difflib"),
    ("model/typed.py", "base64"),
    ("model/typed.py", "cattrs"),
    ("model/typed.py", "conductorlite"),
    ("language/conditions.py", "conductorlite"),
    ("language/schemas.py", "jsonschema"),
    ("language/schemas.py", "referencing"),
}


def test_logic_imports_nothing_impure() -> None:
    """No file of the logic imports time, chance, a process or a store, not even inside a function."""
    found = [
        f"{named(path)}:{line} imports {name}"
        for path in logic_files()
        for line, name in imports_of(path)
        if any(name == banned or name.startswith(banned + ".") for banned in IMPURE)
    ]
    assert found == []


def test_each_third_party_has_one_door() -> None:
    """A library is imported where its room keeps it, and nowhere else."""
    found = [
        f"{named(path)}:{line} imports {name}"
        for path in python_files()
        for line, name in imports_of(path)
        if name.split(".")[0] in IMPORTERS
        if not {path.relative_to(PACKAGE).as_posix(), *(up.as_posix() for up in path.relative_to(PACKAGE).parents)}
        & IMPORTERS[name.split(".")[0]]
        if PACKAGE / "testing" not in path.parents
    ]
    assert found == []


def test_the_table_of_libraries_is_kept() -> None:
    """ARCHITECTURE.md says where each library that comes with the package stands."""
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("| library |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    said = {row[0].strip("`"): set(re.findall(r"`([^`]+)`", row[1])) for row in rows}
    assert said == {name: IMPORTERS.get(name, {"every room"}) for name in ("attrs", "cattrs", "sqlite_utils", "apscheduler")}


def test_only_the_clock_reads_time() -> None:
    """`time` is imported, and a datetime asked for the present, in clock.py and nowhere else."""
    found: list[str] = []
    for path in python_files():
        if path == PACKAGE / "model" / "clock.py":
            continue
        found += [f"{named(path)}:{line} imports time" for line, name in imports_of(path) if name.split(".")[0] == "time"]
        found += [
            f"{named(path)}:{node.lineno} calls {ast.unparse(node.func)}"
            for node in nodes_of(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS_TIME
            if ast.unparse(node.func.value).split(".")[-1] in ("datetime", "date")
        ]
    assert found == []


def test_only_the_sandbox_starts_processes() -> None:
    """A process is started for code that cannot be bounded in this one, in language/processes.py and nowhere else."""
    found = [
        f"{named(path)}:{line} imports {name}"
        for path in python_files()
        for line, name in imports_of(path)
        if name.split(".")[0] in ("subprocess", "multiprocessing") and path != PACKAGE / "language" / "processes.py"
    ]
    assert found == []


def test_the_interpreter_is_not_asked_for_its_threads() -> None:
    """What lists all threads locks the list, and may collect garbage meanwhile: a finalizer may then wait for ever."""
    found = [
        f"{named(path)}:{node.lineno} uses {node.attr}"
        for path in python_files()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in ("_current_frames", "_current_exceptions")
    ]
    assert found == []


def test_nothing_is_drawn_by_chance() -> None:
    """Ids and jitter are derived: only the id of a start, the path of an upload, who holds what and secrets are drawn."""
    homes = ("engine/control", "engine/payloads", "engine/holders", "store/locks", "server/safety")
    drawn = [PACKAGE / f"{name}.py" for name in homes]
    found = [
        f"{named(path)}:{line} imports {name}"
        for path in python_files()
        for line, name in imports_of(path)
        if name.split(".")[0] in ("random", "uuid", "secrets") and path not in drawn
    ]
    assert found == []


def test_no_assert_statements() -> None:
    """A broken law raises InvariantBroken: an assert would vanish under -O. Only the test kit may assert."""
    found = [
        f"{named(path)}:{node.lineno}"
        for path in python_files()
        if PACKAGE / "testing" not in path.parents
        for node in nodes_of(path)
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_sql_never_computes_now() -> None:
    """Every instant in a statement is a parameter; the database is never asked for the time or for chance."""
    found = []
    for path in python_files(PACKAGE / "store"):
        skip = docstrings_of(path)
        found += [
            f"{named(path)}:{node.lineno} {node.value!r}"
            for node in nodes_of(path)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in skip and SQL_TIME.search(node.value)
        ]
    assert found == []


def test_json_only() -> None:
    """Nothing is pickled, marshalled or evaluated, but for what a flow says of values that are known when it is compiled."""
    found: list[str] = []
    for path in python_files():
        found += [
            f"{named(path)}:{line} imports {name}"
            for line, name in imports_of(path)
            if name.split(".")[0] in ("pickle", "marshal", "shelve", "dill")
        ]
        found += [
            f"{named(path)}:{node.lineno} calls {node.func.id}"
            for node in nodes_of(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec")
            if named(path) != "conductorlite/flows/reading/expressions.py"
        ]
    assert found == []


def test_no_class_is_made_or_changed_by_a_trick() -> None:
    """attrs makes the classes: no object gets another class, and no function or class is put together at run time.

    But for the explorer, which notes what a rule reads of a row by a class whose fields say so.
    """
    found: list[str] = []
    for path in python_files():
        if named(path) == "conductorlite/testing/exploration/reads.py":
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and node.attr == "__class__" and isinstance(node.ctx, ast.Store):
                found.append(f"{named(path)}:{node.lineno} assigns a class")
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "FunctionType",
                "CodeType",
                "make_class",
            ):
                found.append(f"{named(path)}:{node.lineno} calls {ast.unparse(node.func)}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "type" and len(node.args) > 1:
                found.append(f"{named(path)}:{node.lineno} makes a class")
    assert found == []


def test_imports_inside_functions_are_doors_on_purpose() -> None:
    """The logic imports at the top of its files, save for what is told above."""
    found = []
    for path in logic_files():
        tree = tree_of(path)
        top = {id(node) for node in tree.body}
        found += [
            f"{named(path)}:{node.lineno} imports {node.module}"
            for node in nodes_of(path)
            if isinstance(node, ast.ImportFrom) and id(node) not in top and not _type_checking(tree, node)
            if (path.relative_to(PACKAGE).as_posix(), (node.module or "").split(".")[0]) not in DOORS
        ]
    assert found == []


def _type_checking(tree: ast.Module, wanted: ast.ImportFrom) -> bool:
    guards = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return any(wanted in guard.body for guard in guards)


def test_no_name_is_defined_twice() -> None:
    """A second definition at the top of a module, or in a class, would take the place of the first; elsewhere ruff says so."""
    found = []
    for path in python_files():
        tree = tree_of(path)
        for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            names = [name for node in owner.body for name in _defined(node)]
            found += [f"{named(path)} {name}" for name in sorted(set(names)) if names.count(name) > 1]
    assert found == []


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement defines; not the further faces of one: overloads, and what belongs to a property."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        faces = ("overload", "setter", "getter", "deleter", "default", "validator", "register")
        return [] if any(ast.unparse(one).split("(")[0].split(".")[-1] in faces for one in node.decorator_list) else [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_source_is_parsed_by_one_thread_at_a_time() -> None:
    """`ast.parse` in two threads at once raises SystemError before Python 3.13."""
    found = {
        named(path)
        for path in python_files()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr in ("parse", "literal_eval")
        and isinstance(node.value, ast.Name)
        and node.value.id == "ast"
    }
    assert found == {PARSER}
