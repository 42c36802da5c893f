"""The sealed requestState: what a multi round-trip call has done so far, in a token that the client carries from round
to round but can neither read nor change (basic/patterns/mrtr, Server Requirements).

How it works: a token is the sealed claims in Base64. The claims name the one request that the state is for. With a
StateStore a long journal stays there, sealed too, and the claims have its key.
"""

from __future__ import annotations

import binascii
import copy
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import anyio
import msgspec

from ..errors import INTERNAL_ERROR, ConfigurationError, LocalProtocolError, StateRejected, StateTooLarge, TooManyRounds
from .keyring import RECIPE, UNKNOWN_KEY, Codec, KeyRing, NotSealed
from .options import number, offers
from .state_store import StateStore

_ADVICE = {  # for reasons that hint at the server's set-up: a warning, once, with what to do
    UNKNOWN_KEY: "key not shared: a state was sealed with a key that is not here. Instances, and restarts of one, "
    f"need the same RequestState(keys=[...]), in which an old key stays until its states expire. {RECIPE}",
    "not stored": "a journal is not in the StateStore: instances have to share one, and one in memory forgets the "
    "oldest when it is full, and all with its process",
    "other audience": "instances share a key but not a name; give each the same RequestState(audience=...)",
}
PATIENCE = 5.0
"""Seconds for the store to do one thing."""
MOST_STORED = 4 * 1024 * 1024
"""Bytes of one journal in a StateStore."""
logger = logging.getLogger("backchannel.state")


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """The request that a state is for: method, tool or prompt name or URI, digest of the arguments, principal."""

    method: str
    target: str
    arguments: bytes
    principal: str | None


class Flow(msgspec.Struct, array_like=True):
    """One call over its rounds: its id, the round, when it started (seconds since the epoch), the journal as JSON, and
    where that is if it is in a StateStore."""

    call_id: str
    round: int
    started: float
    journal: bytes
    stored: str = ""


_Claims = tuple[msgspec.Raw, str, Flow, float, float, float]
"""The Binding as it was encoded, audience, flow, and the times of issue, expiry, and expiry of the flow."""


def _number(text: str) -> int | float:
    """A JSON number with a fraction or an exponent; an integral one as an int, to where doubles hold powers of ten."""
    value = msgspec.json.decode(text, type=float)  # float() would make 1e400 infinite, which is written as null
    return int(value) if value.is_integer() and abs(value) <= 1e22 else value


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Claims).decode
_decode_binding = msgspec.msgpack.Decoder(Binding).decode
_read = msgspec.json.Decoder(float_hook=_number).decode
_write = msgspec.json.Encoder(order="deterministic").encode


def digest(raw_json: bytes | msgspec.Raw | None) -> bytes:
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
    variable BACKCHANNEL_STATE_KEY (separated by commas), else a random one; `codec` seals in place of keys. A state
    lives `ttl` seconds, a call `max_age` seconds, both from seconds to weeks, and `max_rounds` rounds; a token has at
    most `max_size` bytes; `audience` replaces the server name. store: makes each state usable once, and keeps journals
    of more than `store_above` bytes.

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
        codec: Codec | None = None,
        store: StateStore | None = None,
        store_above: int = 2048,
        clock: Callable[[], float] = time.time,
    ) -> None:
        limits = {"ttl": ttl, "max_age": max_age, "max_size": max_size, "max_rounds": max_rounds}
        for name, limit in limits.items():
            number(f"RequestState({name}=)", limit, positive=True)
        number("RequestState(store_above=)", store_above)
        self.ttl, self.max_age, self.max_size, self.max_rounds = ttl, max_age, max_size, max_rounds
        self.audience, self.clock = audience, clock
        if codec is not None and keys is not None:
            raise ConfigurationError("a RequestState is sealed with keys or by a codec, not both")
        if codec is not None:
            offers("codec", codec, "seal", "open")
        if store is not None:
            offers("store", store, "add", "put", "get", "delete")
        self.store, self.store_above = store, store_above
        self._codec: Codec = codec if codec is not None else KeyRing(keys)
        self._advice = dict(_ADVICE)

    def seal(self, flow: Flow, binding: Binding, audience: str) -> str:
        """Make the token that takes a call into its next round: URL-safe Base64, different each time.

        Raises: StateTooLarge, TooManyRounds (basic/patterns/mrtr, "MUST protect its integrity (e.g. HMAC or AEAD)").
        """
        self.check_round(flow.round)
        now = self.clock()
        text = _encode((binding, self.audience or audience, flow, now, now + self.ttl, flow.started + self.max_age))
        token = _to_text(self._codec.seal(text))
        if len(token) > self.max_size:
            raise StateTooLarge(
                f"the requestState has {len(token)} bytes, the limit is {self.max_size}: return less from steps, ask "
                "for less, or give RequestState a store, which keeps it on the server"
            )
        return token

    def check_round(self, round: int) -> None:
        """Raises: TooManyRounds if a call may not have another round after this one."""
        if round > self.max_rounds:
            raise TooManyRounds(
                f"round {round}, limit {self.max_rounds}: the handler keeps asking, or returning questions; ask for "
                "more at once (ctx.gather, or several in one InputRequired), and return a result once they are answered"
            )

    def open(self, token: str, binding: Binding, audience: str) -> Flow:
        """Verify the token that came with the request `binding`, and give back what was sealed.

        Raises: StateRejected, whatever the cause (basic/patterns/mrtr, "MUST reject state that fails verification").
        """
        return self._verified(token, binding, audience)[0]

    def claim(self, token: str, binding: Binding, audience: str) -> tuple[Flow, str]:
        """As `open`, with what names the state, however its token is spelled."""
        flow, plain = self._verified(token, binding, audience)
        return flow, hashlib.sha256(plain).hexdigest()

    def _verified(self, token: str, binding: Binding, audience: str) -> tuple[Flow, bytes]:
        plain = self._unseal(token)
        if isinstance(plain, str):
            raise self._rejected(plain)
        try:
            claims = _decode(plain)
            reason = self._objection(claims, binding, self.audience or audience)
        except msgspec.DecodeError:
            reason = "forged"
        if reason:
            raise self._rejected(reason)
        return claims[2], plain

    async def pack(self, flow: Flow, binding: Binding, audience: str) -> str:
        """As `seal`, with a long journal in the store."""
        if self.store is not None and len(flow.journal) > self.store_above:
            sealed, key = self.lock(flow.journal), f"journal:{secrets.token_hex(16)}"
            if len(sealed) > MOST_STORED:
                raise StateTooLarge(
                    f"the state of the call has {len(sealed)} bytes, the limit is {MOST_STORED}: return less from steps"
                )
            await self.reach("put", key, sealed, self.ttl)
            flow = msgspec.structs.replace(flow, journal=b"", stored=key)
        return self.seal(flow, binding, audience)

    async def unpack(self, token: str, binding: Binding, audience: str) -> Flow:
        """As `open`, with the journal from where it is."""
        return await self.fetched(self.open(token, binding, audience))

    async def fetched(self, flow: Flow) -> Flow:
        """The same, with its journal if that is in the store. Raises: StateRejected."""
        if not flow.stored:
            return flow
        sealed: bytes | None = await self.reach("get", flow.stored) if self.store is not None else None
        if sealed is None:
            raise self._rejected("not stored")
        return msgspec.structs.replace(flow, journal=self.unlock(sealed))

    async def reach(self, action: Literal["add", "put", "get", "delete"], key: str, *args: Any) -> Any:
        """Do something with the store.

        Raises: LocalProtocolError if it fails, or takes more than `PATIENCE`.
        """
        try:
            with anyio.fail_after(PATIENCE):
                return await getattr(self.store, action)(key, *args)
        except Exception as error:
            logger.error("the state store failed at %s", action, exc_info=error)
            raise LocalProtocolError(INTERNAL_ERROR, "the server cannot reach its state store; try again") from error

    def lock(self, plain: bytes) -> bytes:
        """What the store keeps of `plain`."""
        return self._codec.seal(plain)

    def unlock(self, sealed: bytes) -> bytes:
        """What was locked. Raises: StateRejected."""
        plain = self._opened(sealed)
        if isinstance(plain, str):
            raise self._rejected(plain)
        return plain

    def _rejected(self, reason: str) -> StateRejected:
        """For the log why, and for the wire one error."""
        advice = self._advice.pop(reason, "")
        level = logging.WARNING if advice else logging.DEBUG if reason in _ADVICE else logging.INFO
        logger.log(level, "requestState rejected: %s", advice or reason)
        return StateRejected()

    def _unseal(self, token: str) -> bytes | str:
        """What was sealed in a token, or the reason why one of our keys did not."""
        if len(token) > self.max_size:
            return "too large"
        raw = _to_bytes(token)
        return self._opened(raw) if raw else "not Base64"

    def _opened(self, sealed: bytes) -> bytes | str:
        """What the codec makes of it, or the reason why it refuses; a foreign one's own may tell too much."""
        try:
            return self._codec.open(sealed)
        except NotSealed as error:
            return str(error)
        except Exception:
            return "refused by the codec"

    def _objection(self, claims: _Claims, binding: Binding, audience: str) -> str:
        """Why a genuine state does not count for this request now, else "" (basic/patterns/mrtr, To prevent replay)."""
        sealed, sealed_audience, flow, issued, expires, flow_expires = claims
        if not hmac.compare_digest(_encode(binding), sealed):
            other = _decode_binding(sealed)
            members = [name for name in Binding.__struct_fields__ if getattr(binding, name) != getattr(other, name)]
            return f"other {members[0] if members else 'encoding'}"
        if audience != sealed_audience:
            return "other audience"
        now = self.clock()
        if issued > now + 60.0:  # the clock of another instance may be a little ahead
            return "issued in the future"
        if now >= expires:
            return "expired"
        if now >= flow_expires:
            return "flow expired"
        return "too many rounds" if flow.round > self.max_rounds else ""

    def twin(self, clock: Callable[[], float] | None = None) -> RequestState:
        """Another one with the same keys, store and limits, as another instance has it. clock: for it, instead of this
        one's."""
        other = copy.copy(self)
        other._advice = dict(_ADVICE)
        other.clock = clock if clock is not None else self.clock
        return other


_SWAP = bytes.maketrans(b"+/-_=", b"-_+/!")
"""Between the two alphabets of Base64, in both directions; what is of the wrong one is of none then."""


def _to_text(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).rstrip(b"=").translate(_SWAP).decode("ascii")


def _to_bytes(token: str) -> bytes:
    """What was written as this token; b"" for any other spelling of it, such as with other bits that do not count in
    the last character, and for what is none."""
    try:
        text = token.encode("ascii").translate(_SWAP) + b"=" * (-len(token) % 4)
        raw = binascii.a2b_base64(text)
    except ValueError:
        return b""
    return raw if binascii.b2a_base64(raw, newline=False) == text else b""
