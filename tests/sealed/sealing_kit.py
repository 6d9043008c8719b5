"""A codec without a library, and a canary that is looked for in bytes."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conductorlite.errors import PayloadUnavailable

#: It has no digit of a hash, and no sign that any form of a text writes otherwise.
CANARY: Final = "THECANARYSINGS"


class Codec:
    """Hides bytes under a key, each time differently, and notices a change; the last key hides, all of them show."""

    def __init__(self, *keys: str) -> None:
        self.key_id = keys[-1].partition("=")[0]
        self._keys = {key_id: (value or key_id).encode() for key_id, _, value in (key.partition("=") for key in keys)}

    def encode(self, data: bytes) -> bytes:
        """The bytes hidden by the last key."""
        nonce = os.urandom(8)
        return nonce + self._mixed(self._keys[self.key_id], nonce, data + zlib.crc32(data).to_bytes(4))

    def decode(self, data: bytes, key_id: str) -> bytes:
        """The bytes as they were."""
        if key_id not in self._keys:
            raise PayloadUnavailable(f"there is no key {key_id!r}")
        found = self._mixed(self._keys[key_id], data[:8], data[8:])
        if zlib.crc32(found[:-4]).to_bytes(4) != found[-4:]:
            raise ValueError("another key, or damaged")
        return found[:-4]

    @staticmethod
    def _mixed(key: bytes, nonce: bytes, data: bytes) -> bytes:
        mask = hashlib.shake_256(key + nonce).digest(len(data))
        return (int.from_bytes(data) ^ int.from_bytes(mask)).to_bytes(len(data)) if data else b""


def plain_in(folder: Path, *canaries: str) -> Iterator[str]:
    """Names of the files in which a canary stands plain, or as UTF-16, base64 or hex would show it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found = path.read_bytes()
            for canary in canaries or (CANARY,):
                if any(form in found for form in (canary.encode(), canary.encode("utf-16-le"), canary.encode().hex().encode())):
                    yield str(path.relative_to(folder))
