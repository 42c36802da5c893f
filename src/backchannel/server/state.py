"""The sealed requestState: what a multi round-trip call has done so far, in a token that the client carries from round
to round but can neither read nor change (basic/patterns/mrtr, Server Requirements).

How it works: a token is Base64(format | key id | nonce | AES-256-GCM(claims)), and format and key id are the associated
data. Key and key id come from a secret by HKDF, so the id tells nothing about the key. The claims name the one request
that the state is for. The nonce is random, which is sound for about 2^32 tokens a key; rotate a key that nears that.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..errors import ConfigurationError, StateRejected, StateTooLarge, TooManyRounds

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ENVIRONMENT = "BACKCHANNEL_STATE_KEY"
_FORMAT = b"\x01"
_HEADER, _NONCE, _TAG = 9, 12, 16  # bytes; the header is format and key id
_RECIPE = 'Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
_ADVICE = {  # for reasons that hint at the server's set-up: a warning, once, with what to do
    "unknown key": "key not shared: a state was sealed with a key that is not here. Instances, and restarts of one, "
    f"need the same RequestState(keys=[...]), in which an old key stays until its states expire. {_RECIPE}",
    "other audience": "instances share a key but not a name; give each the same RequestState(audience=...)",
}
logger = logging.getLogger("backchannel.state")


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """The request that a state is for: method, tool or prompt name or URI, digest of the arguments, principal."""

    method: str
    target: str
    arguments: bytes
    principal: str | None


class Flow(msgspec.Struct, array_like=True):
    """One call over its rounds: its id, the round, when it started (seconds since the epoch), the journal as JSON."""

    call_id: str
    round: int
    started: float
    journal: bytes


_Claims = tuple[Binding, str, Flow, float, float, float]  # audience is the string; issue, expiry, expiry of the flow


def _number(text: str) -> int | float:
    """A JSON number with a fraction or an exponent; an integral one as an int, to where doubles hold powers of ten."""
    value = msgspec.json.decode(text, type=float)  # float() would make 1e400 infinite, which is written as null
    return int(value) if value.is_integer() and abs(value) <= 1e22 else value


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Claims).decode
_read = msgspec.json.Decoder(float_hook=_number).decode
_write = msgspec.json.Encoder(order="deterministic").encode


def digest(raw_json: bytes | None) -> bytes:
    """SHA-256 of arguments in canonical form, so that a gateway which writes the same JSON differently does no harm.

    The order of members, white space, escapes, and 1, 1.0 or 1e0 make no difference, and None, null and {} agree. What
    cannot be read as JSON is digested as it is (basic/patterns/mrtr, "a digest of its salient parameters").
    """
    try:
        value = None if raw_json is None else _read(raw_json)
        canonical = _write({} if value is None else value)
    except (msgspec.DecodeError, RecursionError, OverflowError):
        canonical = raw_json or b""
    return hashlib.sha256(canonical).digest()


class RequestState:
    """Seals and opens requestStates; any instance with the same keys serves any round.

    The first of `keys`, secrets of at least 32 bytes, seals, every one opens. Without keys, those in the environment
    variable BACKCHANNEL_STATE_KEY (separated by commas), else a random one. A state lives `ttl` seconds, a call
    `max_age` seconds, `max_rounds` rounds; a token has at most `max_size` bytes; `audience` replaces the server name.

    Raises: ConfigurationError for keys or limits that cannot work.
    """

    def __init__(
        self,
        keys: Sequence[bytes | str] | None = None,
        *,
        ttl: float = 3600.0,
        max_age: float = 86400.0,
        max_size: int = 65536,
        max_rounds: int = 32,
        audience: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not all(limit > 0 for limit in (ttl, max_age, max_size, max_rounds)):
            raise ConfigurationError("ttl, max_age, max_size and max_rounds of a RequestState must be positive")
        self.ttl, self.max_age, self.max_size, self.max_rounds = ttl, max_age, max_size, max_rounds
        self.audience, self.clock = audience, clock
        self._secrets = _secrets(keys)
        self._ring: dict[bytes, AESGCM] = {}
        self._lock, self._advice = threading.Lock(), dict(_ADVICE)

    def seal(self, flow: Flow, binding: Binding, audience: str) -> str:
        """Make the token that takes a call into its next round: URL-safe Base64, different each time.

        Raises: StateTooLarge, TooManyRounds (basic/patterns/mrtr, "MUST protect its integrity (e.g. HMAC or AEAD)").
        """
        if flow.round > self.max_rounds:
            raise TooManyRounds(f"round {flow.round}, limit {self.max_rounds}: ask for more at once with ctx.gather")
        now = self.clock()
        text = _encode((binding, self.audience or audience, flow, now, now + self.ttl, flow.started + self.max_age))
        size = ((_HEADER + _NONCE + len(text) + _TAG) * 4 + 2) // 3
        if size > self.max_size:
            raise StateTooLarge(
                f"the requestState has {size} bytes, the limit is {self.max_size}: return less from steps or ask for "
                "less. A StateStore, which would keep it on the server, comes in a later version."
            )
        header, cipher = next(iter(self._keys().items()))
        nonce = os.urandom(_NONCE)
        return _to_text(header + nonce + cipher.encrypt(nonce, text, header))

    def open(self, token: str, binding: Binding, audience: str) -> Flow:
        """Verify the token that came with the request `binding`, and give back what was sealed.

        Raises: StateRejected, whatever the cause (basic/patterns/mrtr, "MUST reject state that fails verification").
        """
        claims = self._unseal(token)
        reason = claims if isinstance(claims, str) else self._objection(claims, binding, self.audience or audience)
        if not isinstance(claims, str) and not reason:
            return claims[2]
        advice = self._advice.pop(reason, "")
        level = logging.WARNING if advice else logging.DEBUG if reason in _ADVICE else logging.INFO
        logger.log(level, "requestState rejected: %s", f"{reason}: {advice}" if advice else reason)
        raise StateRejected

    def _unseal(self, token: str) -> _Claims | str:
        """The claims of a token that one of our keys sealed, or the reason why it is none."""
        if len(token) > self.max_size:
            return "too large"
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            raw = b""
        if _to_text(raw) != token:  # one spelling only: the last character may have bits that do not count
            return "not Base64"
        if len(raw) < _HEADER + _NONCE + _TAG or not raw.startswith(_FORMAT):
            return "unknown format"
        header, nonce, sealed = raw[:_HEADER], raw[_HEADER : _HEADER + _NONCE], raw[_HEADER + _NONCE :]
        if (cipher := self._keys().get(header)) is None:
            return "unknown key"
        from cryptography.exceptions import InvalidTag

        try:
            return _decode(cipher.decrypt(nonce, sealed, header))
        except (InvalidTag, msgspec.DecodeError):
            return "forged"

    def _objection(self, claims: _Claims, binding: Binding, audience: str) -> str:
        """Why a genuine state does not count for this request now, else "" (basic/patterns/mrtr, To prevent replay)."""
        sealed_binding, sealed_audience, flow, issued, expires, flow_expires = claims
        sealed = {**msgspec.structs.asdict(sealed_binding), "audience": sealed_audience}
        ours = {**msgspec.structs.asdict(binding), "audience": audience}
        for member, value in ours.items():
            if not hmac.compare_digest(_encode(value), _encode(sealed[member])):
                return f"other {member}"
        now = self.clock()
        checks = {
            "issued in the future": issued > now + 60.0,  # the clock of another instance may be a little ahead
            "expired": now >= expires,
            "flow expired": now >= flow_expires,
            "too many rounds": flow.round > self.max_rounds,
        }
        return next((reason for reason, failed in checks.items() if failed), "")

    def _keys(self) -> dict[bytes, AESGCM]:
        """The ring, made when first needed: header of a token -> cipher, the one that seals first."""
        with self._lock:
            if not self._ring:
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
    if keys is None:
        keys = [key.strip() for key in os.environ.get(ENVIRONMENT, "").split(",") if key.strip()]
    elif isinstance(keys, str | bytes) or not keys:
        raise ConfigurationError("keys of a RequestState is a list of secrets, or left out for a random one")
    secrets = [key.encode() if isinstance(key, str) else key for key in keys]
    for place, secret in enumerate(secrets):
        if not isinstance(secret, bytes) or len(secret) < 32:
            raise ConfigurationError(f"requestState key {place} is no secret of at least 32 bytes. {_RECIPE}")
    return secrets


def _to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
