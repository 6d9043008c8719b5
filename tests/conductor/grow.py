"""The same flows and worker functions on a real Conductor server, through `conductorlite.ext.conductor`, and in an engine here.

    python tests/conductor/grow.py [--server URL]

Two of the examples, with a task that fails at first in one of them. Their executions are compared row by row, as in compare.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import bindings
from server import running
from snapshots import Snapshot, compared, snapshot

from conductorlite import Engine
from conductorlite.errors import NotFound
from conductorlite.ext.conductor import ConductorClient
from conductorlite.model.documents import workflow_to_json

ROOT = Path(__file__).resolve().parents[2]
#: Seconds a server may take for one execution.
PATIENCE = 120


@contextmanager
def _folder() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sales-2026-03-01.csv").write_text("tea,3\ncoffee,2\ntea,1\n", encoding="utf-8")
        yield {"day": "2026-03-01", "folder": folder}


def _on_server(client: ConductorClient, flow: Any, given: dict[str, Any]) -> Snapshot:
    client.register(flow)
    workflow_id = client.start(flow, given)
    until = time.monotonic() + PATIENCE
    client.work(flow, until=lambda: client.get(workflow_id)["status"] != "RUNNING" or time.monotonic() > until)

    def fetch(found: str) -> dict[str, Any] | None:
        try:
            return client.get(found)
        except NotFound:
            return None

    return snapshot(workflow_id, fetch, "no-name-of-its-own")


def _here(flow: Any, given: dict[str, Any]) -> Snapshot:
    with Engine(workers=flow) as engine:
        run = engine.start(flow, **given)
        assert engine.run_until_idle(f"{PATIENCE}s")
        return snapshot(run.workflow_id, lambda found: workflow_to_json(engine.get(found)), "no-name-of-its-own")


def main() -> int:
    """Run, print what differs, and return 1 if a difference is bound to no row of the compatibility page."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--server", metavar="URL", help="the API of a server that runs already")
    given = arguments.parse_args()
    for example in ("etl", "nightly_batch"):
        sys.path.insert(0, str(ROOT / "examples" / example))
    from etl import etl
    from nightly_batch import nightly_batch

    known = bindings.read((Path(__file__).parent / "differences.toml").read_text(encoding="utf-8"))
    unbound = 0
    with nullcontext(given.server) if given.server else running() as url, _folder() as day:
        client = ConductorClient(url)
        for name, flow, what in (("etl", etl, {"count": 5}), ("nightly_batch", nightly_batch, day)):
            server, here = _on_server(client, flow, what), _here(flow, what)
            print(f"{name}: {server.document['status']} there, {here.document['status']} here: {here.document['output']}")
            for found in compared(server, here):
                bound = known.find(f"grow/{name}", "", found)
                unbound += bound is None
                if bound is None:
                    print(f"  {found}")
    print(f"differences without a row: {unbound}")
    return 1 if unbound else 0


if __name__ == "__main__":
    sys.exit(main())
