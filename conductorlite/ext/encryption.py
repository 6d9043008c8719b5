"""A payload codec that encrypts with AES-256-GCM, and keys that can be changed. The one importer of cryptography."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final, final

from conductorlite.model.errors import InvalidInput, MissingExtra, PayloadUnavailable

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise MissingExtra("encryption", "Encryption of payloads") from error

__all__ = ["Encryption", "new_key"]

#: Bytes of a key, and of the number that is used once with it.
_KEY, _NONCE = 32, 12

_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def new_key() -> str:
    """A random key, as text of 44 characters that `Encryption` takes."""
    return urlsafe_b64encode(os.urandom(_KEY)).decode()


@final
class Encryption:
    """A codec with keys by their ids: `EngineConfig(payload_codec=Encryption({"2026": key, "2025": old_key}))`.

    The first one encrypts, all of them decrypt: a new key goes in front, and an old one stays as long as payloads are kept that it
    has encrypted. A key is 32 bytes, or text from `new_key`. What is stored says by its id with which key it was encrypted; a
    payload whose id was changed, or any of its bytes, is lost and not read wrongly. With one key at most 2^32 payloads are to be
    encrypted.

    Raises InvalidInput for no key, for an id that is not 1 to 64 letters, digits, `-` or `_`, and for what is no key.
    """

    def __init__(self, keys: Mapping[str, bytes | str]) -> None:
        if not keys:
            raise InvalidInput("there is no key: Encryption({'2026': new_key()})")
        self._ciphers = {key_id: AESGCM(_checked(key_id, key)) for key_id, key in keys.items()}
        self.key_id = next(iter(self._ciphers))

    def encode(self, data: bytes) -> bytes:
        """The bytes encrypted by the first key, each time differently."""
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers[self.key_id].encrypt(nonce, data, self.key_id.encode())

    def decode(self, data: bytes, key_id: str) -> bytes:
        """The bytes as they were; raises PayloadUnavailable when the key is not among these, InvalidTag when they are damaged."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise PayloadUnavailable(f"the key {key_id!r} is not among those given to Encryption: {', '.join(self._ciphers)}")
        return cipher.decrypt(data[:_NONCE], data[_NONCE:], key_id.encode())

    def __repr__(self) -> str:
        return f"<Encryption by {self.key_id!r} of {', '.join(self._ciphers)}>"


def _checked(key_id: str, key: bytes | str) -> bytes:
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise InvalidInput(f"the id of a key is a text of 1 to 64 letters, digits, '-' or '_', not {key_id!r:.80}")
    refusal = f"key {key_id!r} is neither {_KEY} bytes nor a text that new_key() made"  # the key itself is not shown
    try:
        found = urlsafe_b64decode(key) if isinstance(key, str) else key
    except ValueError:
        raise InvalidInput(refusal) from None
    if not isinstance(found, bytes) or len(found) != _KEY:
        raise InvalidInput(refusal)
    return found
