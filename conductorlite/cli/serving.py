"""The command that serves a store: its pages with their verbs, Conductor's API."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from conductorlite.cli.shared import Exit, Setting, command_options, read_workers, with_system_workers
from conductorlite.model import attrs
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import InvalidInput
from conductorlite.model.threads import started
from conductorlite.runtime.engine import Engine

__all__ = ["SERVING"]

#: Seconds that functions of workers may take to end when the server stops.
_PATIENCE_S = 60.0


@click.command("serve")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Listen at this address.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8_400, show_default=True, help="At this port; 0: a free one.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="Answer to this name too, besides localhost.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The token, in a file, that may do everything; by default one is made and printed.",
)
@click.option("--read-only", is_flag=True, help="Nobody may change anything.")
@click.option("--workers", metavar="MODULE:ATTR", multiple=True, help="Drive the store meanwhile, with this Workers object.")
@click.option("--api", is_flag=True, help="Answer Conductor's clients too, under /api, and drive the store meanwhile.")
@click.option("--grpc-port", type=click.IntRange(0, 65_535), help="With --api: answer Conductor's gRPC clients at this port too.")
@click.option("--certificate", metavar="FILE", help="A certificate, for TLS.")
@click.option("--key", metavar="FILE", help="Its key.")
@command_options()
def serve(setting: Setting, host: str, port: int, hosts: tuple[str, ...], token_file: Path | None,
          read_only: bool, workers: tuple[str, ...], api: bool, grpc_port: int | None, certificate: str | None,
          key: str | None) -> Exit:  # fmt: skip
    """Serve the pages of the store, live, with the verbs for its executions, until Ctrl-C.

    On this machine everybody may look; a verb needs the token. Needs the extra `server`. The token may also stand in the
    environment variable CONDUCTORLITE_TOKEN. Without --workers nothing is driven: another process does that.

    With --api it is a Conductor server as well, which makes the store if there is none, and starts executions with the semantics of
    Conductor's open-source server. Programs on this machine need no token for it.
    """
    # Most commands need none of it.
    from conductorlite.server.pages import engine_app
    from conductorlite.server.rest.app import beside, rest_app
    from conductorlite.server.running import serve as serve_app
    from conductorlite.server.safety import Role, Safety, is_loopback, new_token

    token = os.environ.get("CONDUCTORLITE_TOKEN") if token_file is None else token_file.read_text(encoding="utf-8").strip()
    made = None if token or (read_only and is_loopback(host)) else new_token()
    names = [*hosts, *([] if host in ("0.0.0.0", "::") else [host])]
    safety = Safety(token=token or made, hosts=frozenset(names), read_only=read_only)
    if not hosts and host in ("0.0.0.0", "::"):
        raise InvalidInput(f"{host} is every address of this machine: --allow-host says by which names it may be called")
    if grpc_port is not None and not api:
        raise InvalidInput("--grpc-port is for --api")
    sets = with_system_workers(read_workers(workers)) if workers or api else None
    semantics = Semantics.OSS if api else Semantics.ORKES
    with (
        setting.engine(create=sets is not None, workers=sets, semantics=semantics) as engine,
        _driven(engine, drives=sets is not None),
        ExitStack() as others,
    ):
        pages = engine_app(engine, safety)
        # Programs of Conductor's know no token where they need none.
        local = attrs.evolve(safety, anonymous=Role.ADMIN)
        app = beside(rest_app(engine, safety=local), pages) if api else pages
        calls = None
        if grpc_port is not None:
            from conductorlite.server.grpc.app import grpc_served

            address = f"{host}:{grpc_port}"
            number = others.enter_context(grpc_served(engine, address, safety=local, certificate=certificate, key=key))
            calls = f"{host}:{number}"

        def listening(url: str) -> None:
            shown = f"{url}/login#token={made}" if made is not None else f"{url}/"
            if setting.json:
                setting.screen.document({"url": url, "token": made, **({} if calls is None else {"grpc": calls})})
            else:
                setting.screen.line(shown if calls is None else f"{shown}\ngRPC at {calls}")

        serve_app(
            app, safety, host=host, port=port, certificate=certificate, key=key, listening=listening, ending=pages.end_streams
        )
    return Exit.OK


@contextmanager
def _driven(engine: Engine, *, drives: bool) -> Iterator[None]:
    """Drive the engine in a thread of its own while the block lasts."""
    if not drives:
        yield
        return
    thread: threading.Thread = started(engine.run_forever, name="conductorlite-driver")
    try:
        yield
    finally:
        engine.stop()
        thread.join(_PATIENCE_S)


SERVING = (serve,)
