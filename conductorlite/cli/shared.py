"""What all commands have: `--db`, `--payloads`, `--json`, `--debug`, and one line on stderr for every error."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs
import click

from conductorlite.cli.exits import Exit, exit_code
from conductorlite.cli.showing import Screen, one_line
from conductorlite.driver import Engine
from conductorlite.errors import ConductorliteError, NotFound
from conductorlite.ports import SecretProvider
from conductorlite.worker import Workers

__all__ = ["DATABASE", "Setting", "command_options", "guarded"]

#: The database when `--db` is not given, in the current folder.
DATABASE = "conductorlite.db"

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
        with Engine(self.db, workers=workers, payloads=self.payloads, index=index, secrets=secrets, **owned) as engine:
            yield engine


def command_options(database: bool = True) -> Callable[[F], F]:
    """Decorator: adds the shared options; the command gets one `Setting` for them as its first argument."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(
            *arguments: Any, db: str = DATABASE, payloads: str | None = None, as_json: bool, debug: bool, **options: Any
        ) -> None:
            setting = Setting(db=Path(db), json=as_json, debug=debug, screen=Screen.standard(as_json), payloads=payloads)
            with guarded(debug):
                code = function(setting, *arguments, **options)
            click.get_current_context().exit(int(code or Exit.OK))

        decorated: Any = click.option("--debug", is_flag=True, help="Show the traceback of an error.")(call)
        decorated = click.option("--json", "as_json", is_flag=True, help="Answer with JSON on standard output.")(decorated)
        if database:
            decorated = click.option(
                "--payloads",
                metavar="FOLDER|URL",
                help="The payload storage; by default beside the database.",
            )(decorated)
            decorated = click.option("--db", metavar="FILE", default=DATABASE, show_default=True, help="The SQLite database.")(
                decorated
            )
        return decorated  # type: ignore[no-any-return]

    return decorate


@contextmanager
def guarded(debug: bool) -> Iterator[None]:
    """Errors raised on purpose, and files that cannot be read, become a line on stderr and an exit code."""
    try:
        yield
    except (click.exceptions.Exit, click.ClickException, click.Abort):
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
