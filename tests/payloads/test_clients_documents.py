"""A client and a worker outside: large documents go to the storage and come from there, by URIs that the server has signed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from payload_kit import KB, SMALL, flow, simple, sized

from conductorlite import Barriers, Engine, EngineConfig, VirtualClock, Workers
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.errors import ConductorServerError
from conductorlite.ext.conductor import ConductorClient
from conductorlite.ext.fsspec import FsspecPayloads

pytest.importorskip("uvicorn", reason="needs the extra server")
from conductorlite.testing.server import ConductorServer

pytestmark = pytest.mark.slow

BARRIERS = Bounds(barriers=Barriers(**SMALL))
FLOW = flow(
    simple("double", input_parameters={"x": "${workflow.input.x}"}),
    name="doubling",
    output_parameters={"y": "${double.output.y}"},
)


def workers() -> Workers:
    """What makes a large output of a large input."""
    made = Workers()
    made.add("double", lambda x: {"y": x.upper()})
    return made


def carried_out(client: ConductorClient, workflow_id: str) -> dict[str, Any]:
    """Work for the server until the execution has ended."""

    async def main() -> dict[str, Any]:
        stop = asyncio.Event()
        working = asyncio.create_task(client.work_async(workers(), stop=stop))
        for _ in range(1_000):
            found = await asyncio.to_thread(client.get, workflow_id)
            if found["status"] != "RUNNING" or working.done():
                break
            await asyncio.sleep(0)
        stop.set()
        await working
        return found

    return asyncio.run(main())


def test_both_directions(s3: Callable[[], FsspecPayloads]) -> None:
    """An input is uploaded and an output downloaded past the server: its own requests are small, what comes back is whole."""
    storage = s3()
    large, small = sized(3 * KB), {"x": "é"}
    engine = Engine(clock=VirtualClock(), payloads=storage, config=EngineConfig(bounds=BARRIERS))
    engine.register(FLOW)
    with engine, ConductorServer(engine) as server:
        client = ConductorClient(server.api, upload_from=KB)
        assert isinstance(client.start("doubling", small), str)
        assert [one.key for one in storage.list()] == []
        workflow_id = client.start("doubling", large)
        assert [one.key.rpartition("/")[0] for one in storage.list() if "/input/" in one.key] == ["workflow/input"]
        found = carried_out(client, workflow_id)
        assert found["status"] == "COMPLETED"
        assert found["input"] == large
        assert found["output"] == {"y": large["x"].upper()}
        (task,) = found["tasks"]
        assert (task["inputData"], task["outputData"]) == (large, found["output"])
        assert "PayloadStoragePath" not in str(found)
        assert any(one.key.startswith("task/output/") for one in storage.list())
        row = engine.get(workflow_id)
        assert row.input.external is not None
        assert row.output.external is not None


def test_a_storage_that_refuses(s3: Callable[[], FsspecPayloads]) -> None:
    """A document that is gone from the storage is an error that says so, and nothing is started whose input is not there."""
    storage = s3()
    engine = Engine(clock=VirtualClock(), payloads=storage, config=EngineConfig(bounds=BARRIERS))
    engine.register(FLOW)
    with engine, ConductorServer(engine) as server:
        client = ConductorClient(server.api, upload_from=KB)
        workflow_id = client.start("doubling", sized(3 * KB))
        external = engine.get(workflow_id).input.external
        assert external is not None
        storage.delete(external.key)
        with pytest.raises(ConductorServerError, match="the payload storage answers 404 to GET"):
            client.get(workflow_id)
        storage._fs.rm(storage._root.partition("/")[0], recursive=True)
        with pytest.raises(ConductorServerError, match="the payload storage answers 404 to PUT"):
            client.start("doubling", sized(3 * KB))
        assert list(engine.admin.workflow_ids()) == [workflow_id]
