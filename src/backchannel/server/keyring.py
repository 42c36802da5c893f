"""What seals a requestState: the key ring, or a codec of the author's, such as one whose keys a KMS keeps.

How it works: sealed bytes are format | key id | nonce | AES-256-GCM(plain), and format and key id are the associated
data. Key and key id come from a secret by HKDF, so the id tells nothing about the key. The nonce is random, which is
sound for about 2^32 tokens a key; rotate a key that nears that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ENVIRONMENT = "BACKCHANNEL_STATE_KEY"
UNKNOWN_KEY = "unknown key"
RECIPE = 'Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
_FORMAT = b"\x01"
_HEADER, _NONCE, _TAG = 9, 12, 16  # bytes; the header is format and key id


class NotSealed(Exception):
    """Bytes that a codec did not seal. The text is the reason, for the log."""


class Codec(Protocol):
    """Makes bytes unreadable and unforgeable for clients. It is called on the event loop: with a KMS, fetch a data key
    when the server starts, and seal with that."""

    def seal(self, plain: bytes) -> bytes:
        """The sealed form, which should be another each time."""

    def open(self, sealed: bytes) -> bytes:
        """What was sealed. Raises: any exception for what this codec, or another instance's, did not seal."""


class KeyRing:
    """The codec that there is anyway. The first secret seals, every one opens; see RequestState for `keys`.

    Raises: ConfigurationError for a secret of fewer than 32 bytes.
    """

    def __init__(self, keys: Sequence[bytes | str] | None = None):
        self._secrets = _secrets(keys)
        self._ring: dict[bytes, AESGCM] = {}
        self._forged: type[Exception] = NotSealed  # what the ciphers raise, once they are imported
        self._lock = threading.Lock()

    def seal(self, plain: bytes) -> bytes:
        header, cipher = next(iter((self._ring or self._keys()).items()))
        nonce = os.urandom(_NONCE)
        return header + nonce + cipher.encrypt(nonce, plain, header)

    def open(self, sealed: bytes) -> bytes:
        if len(sealed) < _HEADER + _NONCE + _TAG or not sealed.startswith(_FORMAT):
            raise NotSealed("unknown format")
        header, nonce, text = sealed[:_HEADER], sealed[_HEADER : _HEADER + _NONCE], sealed[_HEADER + _NONCE :]
        if (cipher := (self._ring or self._keys()).get(header)) is None:
            raise NotSealed(UNKNOWN_KEY)
        try:
            return cipher.decrypt(nonce, text, header)
        except self._forged:
            raise NotSealed("forged") from None

    def _keys(self) -> dict[bytes, AESGCM]:
        """The ring, made when first needed: header of a token -> cipher, the one that seals first."""
        from cryptography.exceptions import InvalidTag

        with self._lock:
            if not self._ring:
                self._forged = InvalidTag
                self._secrets = self._secrets or _secrets(None) or [os.urandom(32)]
                self._ring = dict(map(_derive, self._secrets))
        return self._ring


def _derive(secret: bytes) -> tuple[bytes, AESGCM]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key = HKDF(SHA256(), 32, None, b"backchannel requestState 1: AES-256-GCM key").derive(secret)
    return _FORMAT + HKDF(SHA256(), 8, None, b"backchannel requestState 1: key id").derive(secret), AESGCM(key)


def _secrets(keys: Sequence[bytes | str] | None) -> list[bytes]:
    """The secrets of a ring, from the environment for None. An error says which one is wrong, never what it is."""
    what = "requestState key"
    if keys is None:
        what = f"{ENVIRONMENT}: key"
        keys = [key.strip() for key in os.environ.get(ENVIRONMENT, "").split(",") if key.strip()]
    elif isinstance(keys, str | bytes) or not keys:
        raise ConfigurationError("keys of a RequestState is a list of secrets, or left out for a random one")
    secrets = [key.encode() if isinstance(key, str) else key for key in keys]
    for place, secret in enumerate(secrets):
        if not isinstance(secret, bytes) or len(secret) < 32:
            raise ConfigurationError(f"{what} {place} is no secret of at least 32 bytes. {RECIPE}")
    return secrets
