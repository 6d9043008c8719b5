"""What all commands have: `--db`, `--payloads`, `--json`, `--debug`, before or after their names; one line for every error."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import attrs
import click
from click.core import ParameterSource

from conductorlite.cli.exits import Exit, exit_code
from conductorlite.cli.showing import Screen, one_line
from conductorlite.driver import Engine
from conductorlite.errors import ConductorliteError, NotFound
from conductorlite.ports import SecretProvider
from conductorlite.worker import Workers

__all__ = ["DATABASE", "OutputClosed", "Setting", "SharedGroup", "command_options", "guarded"]

#: The database when `--db` is not given, in the current folder.
DATABASE = "conductorlite.db"

#: Options of every command and of the groups above it.
_DATABASE_OPTIONS = (
    click.option(
        "--db",
        metavar="FILE",
        default=DATABASE,
        show_default=True,
        envvar="CONDUCTORLITE_DB",
        show_envvar=True,
        help="The SQLite database.",
    ),
    click.option(
        "--payloads",
        metavar="FOLDER|URL",
        envvar="CONDUCTORLITE_PAYLOADS",
        show_envvar=True,
        help="The payload storage; by default beside the database.",
    ),
)
_OPTIONS = (
    click.option("--json", "as_json", is_flag=True, help="Answer with JSON on standard output."),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
)

F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen(kw_only=True)
class Setting:
    """The options every command shares, and where its answer goes."""

    db: Path
    json: bool
    debug: bool
    screen: Screen
    payloads: str | None = None

    @property
    def index(self) -> Path:
        """Where the index lies that goes with the database, if there is one."""
        return self.db.with_suffix(f".index{self.db.suffix}")

    @contextmanager
    def engine(
        self,
        *,
        create: bool = False,
        workers: Workers | None = None,
        index: bool = False,
        secrets: SecretProvider | None = None,
        name: str | None = None,
    ) -> Iterator[Engine]:
        """The engine on the database, with a name one that keeps to its own; only commands that start something make a file."""
        if not create and not self.db.exists():
            raise NotFound(f"there is no database {str(self.db)!r}; name it with --db")
        allocation: Literal["shared", "local"] = "shared" if name is None else "local"
        owned: dict[str, Any] = {"name": name, "allocation": allocation}
        kind = _Looking if workers is None else Engine
        with kind(self.db, workers=workers, payloads=self.payloads, index=index, secrets=secrets, **owned) as engine:
            yield engine


class _Looking(Engine):
    """An engine that drives nothing: what dead processes had in hand it leaves to those that do."""

    _gives_back = False


def command_options(database: bool = True) -> Callable[[F], F]:
    """Decorator: adds the shared options; the command gets one `Setting` for them as its first argument."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> None:
            context = click.get_current_context()
            shared = {name: _nearest(context, name, options.pop(name, None)) for name in ("db", "payloads", "as_json", "debug")}
            as_json, debug = bool(shared["as_json"]), bool(shared["debug"])
            screen = Screen.standard(as_json)
            setting = Setting(
                db=Path(shared["db"] or DATABASE), json=as_json, debug=debug, screen=screen, payloads=shared["payloads"]
            )
            with guarded(debug):
                code = function(setting, *arguments, **options)
            context.exit(int(code or Exit.OK))

        return cast(F, _with_options(call, (*_DATABASE_OPTIONS, *_OPTIONS) if database else _OPTIONS))

    return decorate


class OutputClosed(Exception):
    """Internal: whoever reads the answer has closed it; becomes an exit code and never leaves the command line."""


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

        def call(db: str, payloads: str | None, as_json: bool, debug: bool, **others: Any) -> None:
            if function is not None:
                function(**others)

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
    """What was given for an option: after the command, else before it, else in the environment or by default."""
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
