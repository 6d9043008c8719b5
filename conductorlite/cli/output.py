"""Answers: tables on a terminal, aligned text elsewhere, JSON on request. The only importer of rich, with `driving`: both
import it when there is a terminal."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TextIO

import attrs
import click

from conductorlite.model.later import module

if TYPE_CHECKING:
    from rich import table as tables
    from rich import text as texts
    from rich.console import Console
else:
    tables, texts = module("rich.table"), module("rich.text")

__all__ = ["Screen", "console_of", "discard_output", "instant", "iso", "one_line"]

#: By which rich paints where it sees no terminal.
_MAY_PAINT = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_COLOURS = {
    "COMPLETED": "green",
    "RUNNING": "blue",
    "IN_PROGRESS": "blue",
    "SCHEDULED": "cyan",
    "PENDING": "magenta",
    "PAUSED": "yellow",
    "COMPLETED_WITH_ERRORS": "yellow",
    "TIMED_OUT": "red",
    "TERMINATED": "red",
    "FAILED": "bold red",
    "FAILED_WITH_TERMINAL_ERROR": "bold red",
    "CANCELED": "bright_black",
    "SKIPPED": "bright_black",
    "error": "red",
    "warning": "yellow",
}


def discard_output() -> None:
    """Have what no reader takes go nowhere: the interpreter flushes its streams at its end, and would report a closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            with suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def one_line(text: object) -> str:
    """A text from anywhere as one line without anything a terminal would obey."""
    shown = "".join(" " if sign.isspace() else sign for sign in str(text))
    return "".join("\ufffd" if unicodedata.category(sign)[0] == "C" else sign for sign in shown)


def instant(at: int) -> str:
    """An instant for a person, UTC to the second; empty when it has not come."""
    moment = _moment(at)
    return "" if not at else f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else str(at)


def iso(at: int) -> str | None:
    """An instant as Conductor's summaries write it; None when it has not come."""
    moment = _moment(at)
    return None if not at or moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def _moment(at: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=at)
    except OverflowError:
        return None


def console_of(stream: TextIO | None, *, stderr: bool = False) -> Console | None:
    """Return the console of a stream if a person looks at it, or the environment says so."""
    if not (stream is not None and stream.isatty()) and not _MAY_PAINT & os.environ.keys():
        return None
    from rich.console import Console

    class Painting(Console):
        """A console that reports a closed pipe like every other stream."""

        def on_broken_pipe(self) -> None:
            """Raise BrokenPipeError: rich ends the process."""
            raise BrokenPipeError

    console = Painting(highlight=False, soft_wrap=True, stderr=stderr)
    return console if console.is_terminal else None


@attrs.frozen(kw_only=True)
class Screen:
    """The output of answers: to the console of a terminal, if there is one. `json` is the option of the command line."""

    console: Console | None
    json: bool = False

    @classmethod
    def standard(cls, as_json: bool) -> Screen:
        """Standard output."""
        return cls(console=console_of(sys.stdout), json=as_json)

    def document(self, value: Any) -> None:
        """JSON: indented for a reader, every character written as it is."""
        click.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))

    def line(self, text: str) -> None:
        """One line that may hold a user's text."""
        if self.console is not None and not self.json:
            self.console.print(texts.Text(one_line(text)))
        else:
            click.echo(one_line(text))

    def answer(self, document: Any, line: str) -> None:
        """A document where JSON was asked for, else a line."""
        if self.json:
            self.document(document)
        else:
            self.line(line)

    def answer_rows(self, documents: Any, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Documents where JSON was asked for, else a table."""
        if self.json:
            self.document(documents)
        else:
            self.table(headings, rows)

    def text(self, text: str) -> None:
        """Lines of our own making, as they are."""
        click.echo(text, nl=False)

    def lines(self, text: str) -> None:
        """Lines that may hold a user's text, each with its indentation, and nothing that a terminal would obey."""
        for line in text.split("\n"):
            self.text(" " * (len(line) - len(line.lstrip(" "))) + one_line(line.lstrip(" ")) + "\n")

    def note(self, text: str) -> None:
        """A remark beside the answer, on stderr."""
        click.echo(one_line(text), err=True)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table; of the cells, statuses are coloured."""
        cells = [[one_line("" if cell is None else cell) for cell in row] for row in rows]
        if self.console is None or self.json:
            everything = [list(headings), *cells]
            widths = [max(len(row[column]) for row in everything) for column in range(len(headings))]
            for row in everything:
                click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
            return
        table = tables.Table(box=None, header_style="bold", pad_edge=False)
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for row in cells:
            table.add_row(*(texts.Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
        self.console.print(table, soft_wrap=False)

    def pairs(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Names and values, those without a value left out."""
        shown = [(name, one_line(value)) for name, value in pairs if value not in (None, "", {}, [])]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            if self.console is not None and not self.json:
                self.console.print(texts.Text.assemble((name.ljust(width), "bold"), "  ", (value, _COLOURS.get(value, ""))))
            else:
                click.echo(f"{name.ljust(width)}  {value}")
