"""What all commands share: options, exit codes, and reading what stands on the command line.

Exit codes: what each means, and which error ends with which.

From the texts of a command line to objects: definitions, `--input`, `--workers`.

What all commands have: `--db`, `--payloads`, `--codec`, `--json`, `--debug`, before or after their names; one line for every error.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import attrs
import click
from click.core import ParameterSource

from conductorlite.cli.output import Screen, one_line
from conductorlite.errors import ResultTimeout, WorkflowFailed
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.definitions import Semantics, TaskDef, WorkflowDef
from conductorlite.model.errors import (
    ConductorliteError,
    Conflict,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    MissingExtra,
    NotFound,
    StorageError,
)

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventHandler
    from conductorlite.runtime.engine import Engine
    from conductorlite.runtime.registry import Workers
    from conductorlite.store.ports import PayloadCodec, SecretProvider

__all__ = [
    "CODEC_OPTION",
    "DATABASE",
    "Exit",
    "OutputClosed",
    "Setting",
    "SharedGroup",
    "command_options",
    "exit_code",
    "guarded",
    "payload_codec",
    "read_definition",
    "read_document",
    "read_event_handler",
    "read_input",
    "read_json",
    "read_task_defs",
    "read_workers",
    "with_system_workers",
]


class Exit(IntEnum):
    """The exit code of the process."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORAGE = 5
    TIMEOUT = 6
    INTERNAL = 70
    INTERRUPTED = 130
    PIPE = 141
    TERMINATED = 143

    @property
    def meaning(self) -> str:
        """In words, for the documentation."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "done; `run`: the execution is COMPLETED",
    Exit.FAILED: "the execution ended FAILED, TIMED_OUT or TERMINATED; `check`, `validate`, `diff` or `import` found something",
    Exit.USAGE: "wrong arguments, an unreadable or invalid file or definition, or a missing extra",
    Exit.NOT_FOUND: "no such execution, task, definition or database",
    Exit.CONFLICT: "the command does not fit the status, the id or the idempotency key is taken, or `migrate` is blocked",
    Exit.STORAGE: "the database is busy, full, read-only, damaged or too new",
    Exit.TIMEOUT: "`run --timeout`: the execution did not end in time; it goes on with the next `run`",
    Exit.INTERNAL: "an error that should not happen; `--debug` shows where",
    Exit.INTERRUPTED: "Ctrl-C; running tasks were finished, the execution goes on with the next `run`",
    Exit.PIPE: "the reader of the answer has closed it, as `head` does; what a command changes is done",
    Exit.TERMINATED: "SIGTERM; likewise",
}

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (NotFound, Exit.NOT_FOUND),
    (Conflict, Exit.CONFLICT),
    (StorageError, Exit.STORAGE),
    (ResultTimeout, Exit.TIMEOUT),
    (WorkflowFailed, Exit.FAILED),
    (InvalidDefinition, Exit.USAGE),
    (InvalidInput, Exit.USAGE),
    (InvalidExpression, Exit.USAGE),
    (MissingExtra, Exit.USAGE),
    (OSError, Exit.USAGE),
)


def exit_code(error: ConductorliteError | OSError) -> Exit:
    """The exit code an error ends the process with."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.INTERNAL)


def read_definition(file: str) -> WorkflowDef:
    """The workflow definition in a file; raises InvalidDefinition, InvalidInput and OSError, each naming the file."""
    return WorkflowDef.from_json(read_document(Path(file), file))


def read_task_defs(file: str) -> tuple[TaskDef, ...]:
    """The task definitions in a file, a list or one; raises likewise."""
    from conductorlite.model.codec import several_from_json

    return several_from_json(TaskDef, read_document(Path(file), file))


def read_event_handler(file: str) -> EventHandler:
    """The event handler in a file; raises likewise."""
    from conductorlite.model.handlers import EventHandler

    return EventHandler.from_json(read_document(Path(file), file))


def read_json(text: str, name: str) -> Any:
    """A JSON value, or that in `@file`; raises InvalidInput."""
    return read_document(Path(text[1:]), text[1:]) if text.startswith("@") else _checked(text, name)


def read_input(text: str) -> dict[str, Any]:
    """The value of `--input`: JSON, or `@file`; raises InvalidInput unless it is an object."""
    value = read_json(text, "--input")
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
    from conductorlite.runtime.registry import Workers

    found = [_workers(text) for text in texts]
    return found[0] if len(found) == 1 else Workers().include(*found)


def with_system_workers(workers: Workers) -> Workers:
    """Add the system workers whose types the set has no function for; events of the scheme `conductor` go to the event handlers."""
    from conductorlite.ext.workers import system_workers

    shipped = system_workers()
    for worker in shipped:
        if workers.get(worker.queue) is None:
            workers.add(worker.task_type, worker.function)
    return workers


def load_attribute(text: str, what: str) -> Any:
    """The value of `module:attribute`, for the option or command `what`; modules are looked for in the current folder first.

    Raises InvalidInput when there is none.
    """
    module_name, colon, attribute = text.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidInput(f"{what} {text!r} is not module:attribute")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{what} {text!r}: {error}") from error
    except Exception as error:  # the user's module runs here, and may raise anything
        raise InvalidInput(f"{what} {text!r}: {type(error).__name__} while it was imported: {error}") from error
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise InvalidInput(f"{what} {text!r}: there is no {name!r} in {module_name}")
        value = getattr(value, name)
    return value


def payload_codec(text: str | None) -> PayloadCodec | None:
    """The codec at `module:attribute`; raises InvalidInput when it is none."""
    found = None if text is None else load_attribute(text, "--codec")
    if found is not None and not all(hasattr(found, name) for name in ("key_id", "encode", "decode")):
        raise InvalidInput(f"--codec {text!r} is a {type(found).__name__}, not a payload codec")
    codec: PayloadCodec | None = found
    return codec


def _workers(text: str) -> Workers:
    from conductorlite.runtime.registry import Workers

    value = load_attribute(text, "--workers")
    found = getattr(value, "workers", None)  # of a flow, a task, or a set itself
    if not isinstance(found, Workers):
        raise InvalidInput(f"--workers {text!r} is a {type(value).__name__}, not a conductorlite.Workers or a flow")
    return found


#: The database when `--db` is not given, in the current folder.
DATABASE = "conductorlite.db"

CODEC_OPTION = click.option(
    "--codec",
    metavar="MODULE:ATTRIBUTE",
    envvar="CONDUCTORLITE_CODEC",
    show_envvar=True,
    help="The payload codec of a sealed store, such as an Encryption in a module of yours.",
)
#: Options of every command and of the groups above it.
_DATABASE_OPTIONS = (
    click.option(
        "--db",
        "--store",
        "db",
        metavar="FILE|URL",
        default=DATABASE,
        show_default=True,
        envvar="CONDUCTORLITE_DB",
        show_envvar=True,
        help="The SQLite database, or the URL of a store (postgresql://…).",
    ),
    click.option(
        "--payloads",
        metavar="FOLDER|URL",
        envvar="CONDUCTORLITE_PAYLOADS",
        show_envvar=True,
        help="The payload storage; by default beside the database.",
    ),
    CODEC_OPTION,
)
#: Of the commands that search, or feed what is searched; others need no server of it.
_INDEX_OPTION = click.option(
    "--index",
    metavar="URL",
    envvar="CONDUCTORLITE_INDEX",
    show_envvar=True,
    help="The index that is searched and fed: elasticsearch://… or opensearch://…; by default the database's own.",
)
_OPTIONS = (
    click.option("--json", "as_json", is_flag=True, help="Answer with JSON on standard output."),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
)

#: Names of the options that may stand before the name of a command.
_SHARED = ("db", "payloads", "codec", "as_json", "debug")

F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen(kw_only=True)
class Setting:
    """The options every command shares, and where its answer goes."""

    db: str
    json: bool
    debug: bool
    screen: Screen
    payloads: str | None = None
    index: str | None = None
    codec: str | None = None

    @property
    def payload_codec(self) -> PayloadCodec | None:
        """The codec that is named; raises InvalidInput for what is none."""
        return payload_codec(self.codec)

    @property
    def place(self) -> Path | str:
        """The file, or the URL."""
        return self.db if "://" in self.db else Path(self.db)

    @contextmanager
    def engine(
        self,
        *,
        create: bool = False,
        workers: Workers | None = None,
        secrets: SecretProvider | None = None,
        name: str | None = None,
        lock: str | None = None,
        semantics: Semantics = Semantics.ORKES,
    ) -> Iterator[Engine]:
        """The engine on the database, with a name one that keeps to its own; only commands that start something make a file."""
        # Imported when there is something to open: `--help` and `--version` need no engine.
        from conductorlite.engine.config import EngineConfig
        from conductorlite.runtime.engine import Engine

        if not create and isinstance(self.place, Path) and not self.place.exists():
            raise NotFound(f"there is no database {self.db!r}; name it with --db")
        allocation: Literal["shared", "local"] = "shared" if name is None else "local"
        # A command that only looks does not write: what dead processes held it leaves to those that drive.
        config = EngineConfig(
            name=name,
            allocation=allocation,
            give_back=workers is not None,
            semantics=semantics,
            lock=lock,
            payload_codec=self.payload_codec,
        )
        with Engine(
            self.place, workers=workers, payloads=self.payloads, index=self.index, secrets=secrets, config=config
        ) as engine:
            yield engine


def command_options(database: bool = True, index: bool = False) -> Callable[[F], F]:
    """Decorator: adds the shared options; the command gets one `Setting` for them as its first argument."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> None:
            context = click.get_current_context()
            shared = {name: _nearest(context, name, options.pop(name, None)) for name in _SHARED}
            as_json, debug = bool(shared["as_json"]), bool(shared["debug"])
            screen = Screen.standard(as_json)
            setting = Setting(
                db=shared["db"] or DATABASE,
                json=as_json,
                debug=debug,
                screen=screen,
                payloads=shared["payloads"],
                codec=shared["codec"],
                index=options.pop("index") if index else None,
            )
            with guarded(debug):
                code = function(setting, *arguments, **options)
            context.exit(int(code or Exit.OK))

        own = (_INDEX_OPTION,) if index else ()
        return cast(F, _with_options(call, (*_DATABASE_OPTIONS, *own, *_OPTIONS) if database else _OPTIONS))

    return decorate


class OutputClosed(Exception):
    """Internal: the reader of the answer has closed it; becomes an exit code and never leaves the command line."""


@contextmanager
def _pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosed from error


class SharedGroup(click.Group):
    """A group that takes the shared options before the name of the command, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        made = _with_options(lambda: None, (*_DATABASE_OPTIONS, *_OPTIONS))
        self.params += reversed(made.__click_params__)
        function = self.callback

        def call(**given: Any) -> None:
            if function is not None:
                function(**{name: value for name, value in given.items() if name not in _SHARED})

        self.callback = call

    def main(self, *arguments: Any, **options: Any) -> Any:
        """As any program's, but a closed pipe leaves it as OutputClosed: click would end the process."""
        with _pipes():
            return super().main(*arguments, **options)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the command line; `--help` answers here."""
        with _pipes():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry out the command."""
        with _pipes():
            return super().invoke(ctx)


def _with_options(function: Any, options: Sequence[Callable[[Any], Any]]) -> Any:
    for option in reversed(options):
        function = option(function)
    return function


def _nearest(context: click.Context, name: str, value: Any) -> Any:
    """Return the value of an option: after the command, else before it, else in the environment or by default."""
    above: click.Context | None = context
    while above is not None:
        if above.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            return above.params[name]
        above = above.parent
    return value


@contextmanager
def guarded(debug: bool) -> Iterator[None]:
    """Errors raised on purpose, and files that cannot be read, become a line on stderr and an exit code."""
    try:
        yield
    except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError, OutputClosed):
        raise
    except (ConductorliteError, OSError) as error:
        _complain(error, debug)
        raise click.exceptions.Exit(int(exit_code(error))) from error
    except Exception as error:
        _complain(error, debug)
        raise click.exceptions.Exit(int(Exit.INTERNAL)) from error


def _complain(error: Exception, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    text = str(error) or type(error).__name__
    if not isinstance(error, ConductorliteError | OSError):
        text = f"{type(error).__name__}: {text} (this should not happen; --debug shows where)"
    # The problems of a definition have a line each; every other message is one.
    lines = text.splitlines() if hasattr(error, "problems") else [text]
    click.echo("\n".join([f"conductorlite: {one_line(lines[0])}", *(f"  {one_line(line)}" for line in lines[1:])]), err=True)
