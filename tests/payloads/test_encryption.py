"""The codec that encrypts: what lies in the payload storage cannot be read without the key, and keys can be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="the extra encryption is not installed")

from cryptography.exceptions import InvalidTag

from conductorlite import Barriers, Bounds, Engine, EngineConfig, VirtualClock, WorkflowDef
from conductorlite.errors import InvalidInput, PayloadLost, PayloadUnavailable
from conductorlite.ext.encryption import Encryption, new_key

CANARY = "the canary sings "
STEP = {"name": "a", "taskReferenceName": "a", "inputParameters": {"x": "${workflow.input.x}"}}
DEFINITION = WorkflowDef.from_json({"name": "w", "tasks": [STEP], "outputParameters": {"x": "${a.output.x}"}})


def engine_with(folder: Path, codec: Encryption | None) -> Engine:
    """An engine whose payload storage takes all that is longer than a kilobyte."""
    barriers = Barriers(
        workflow_input_payload_size_threshold=1,
        workflow_output_payload_size_threshold=1,
        task_input_payload_size_threshold=1,
        task_output_payload_size_threshold=1,
    )
    config = EngineConfig(bounds=Bounds(barriers=barriers), payload_codec=codec)
    return Engine(folder / "e.db", clock=VirtualClock(0), config=config)


def started(engine: Engine, workflow_id: str) -> None:
    """An execution that has ended, with a large input, task input, task output and output."""
    if not engine.workers.by_queue:
        engine.workers.add("a", lambda x: {"x": x[::-1]})
    engine.start(DEFINITION, {"x": CANARY * 200}, workflow_id=workflow_id)
    engine.run_until_idle()


def stored(folder: Path) -> bytes:
    """All bytes of all files."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("encrypted", [True, False])
def test_no_byte_of_a_large_payload_stands_plain(tmp_path: Path, encrypted: bool) -> None:
    """In the database and the storage beside it; without the codec the canary is found: the test looks in the right place."""
    with engine_with(tmp_path, Encryption({"k": new_key()}) if encrypted else None) as engine:
        started(engine, "w")
        assert engine.get("w").output_data == {"x": (CANARY * 200)[::-1]}
    found = stored(tmp_path)
    for canary in (CANARY, CANARY[::-1]):
        assert (canary.encode() in found) is not encrypted


def test_keys_are_changed(tmp_path: Path) -> None:
    """Old payloads are read as long as their key is among those given; new ones are encrypted by the first."""
    old, new = new_key(), new_key()
    with engine_with(tmp_path, Encryption({"2025": old})) as engine:
        started(engine, "first")
    with engine_with(tmp_path, Encryption({"2026": new, "2025": old})) as engine:
        started(engine, "second")
        for workflow_id in ("first", "second"):
            assert engine.get(workflow_id).input_data == {"x": CANARY * 200}
        keys = [engine.get(one).input.external.key for one in ("first", "second")]  # type: ignore[union-attr]
        assert [key.rpartition(".")[2] for key in keys] == ["2025", "2026"]
    with pytest.raises(PayloadUnavailable, match="'2025' is not among those given to Encryption: 2026"):
        engine_with(tmp_path, Encryption({"2026": new}))


def test_what_was_changed_is_lost_and_not_read_wrongly(tmp_path: Path) -> None:
    """A flipped bit, a cut, another key of the same id."""
    key = new_key()
    with engine_with(tmp_path, Encryption({"k": key})) as engine:
        started(engine, "w")
    with engine_with(tmp_path, Encryption({"k": key})) as engine:
        external = engine.get("w").input.external
    assert external is not None
    path = tmp_path / "e.db.payloads" / external.key
    whole = path.read_bytes()
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:20], b"", whole):
        path.write_bytes(damaged)
        with engine_with(tmp_path, Encryption({"k": key})) as engine:
            if damaged == whole:
                assert engine.get("w").input_data == {"x": CANARY * 200}
            else:
                with pytest.raises(PayloadLost):
                    _ = engine.get("w").input_data
    with pytest.raises(PayloadUnavailable, match="that the key 'k' has sealed, and the payload codec cannot open them"):
        engine_with(tmp_path, Encryption({"k": new_key()}))


def test_each_encryption_differs_and_is_bound_to_its_key_id() -> None:
    """The same bytes twice; the same key under another id."""
    key = new_key()
    codec = Encryption({"a": key, "b": key})
    assert codec.encode(b"x") != codec.encode(b"x")
    assert codec.decode(codec.encode(b"x"), "a") == b"x"
    with pytest.raises(InvalidTag):
        codec.decode(codec.encode(b"x"), "b")


def test_wrong_keys_are_refused_and_never_shown() -> None:
    """When the codec is made."""
    with pytest.raises(InvalidInput, match="there is no key"):
        Encryption({})
    with pytest.raises(InvalidInput, match="the id of a key is a text"):
        Encryption({"a.b": new_key()})
    for bad in ("secret", b"secret", "é" * 44, new_key()[:-5], 32):
        with pytest.raises(InvalidInput, match=r"key 'k' is neither 32 bytes nor a text that new_key\(\) made") as refused:
            Encryption({"k": bad})  # type: ignore[dict-item]
        assert "secret" not in str(refused.value)
    key = new_key()
    assert key not in repr(Encryption({"k": key}))
    assert repr(Encryption({"k": key, "old": key})) == "<Encryption by 'k' of k, old>"
