"""Rule P8: the sealed requestState. No event loop, and a clock that the test turns."""

import base64
import hmac
import json
import logging
import random
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import ConfigurationError, StateRejected, StateTooLarge, TooManyRounds
from backchannel.server import state
from backchannel.server.keyring import ENVIRONMENT, KeyRing
from backchannel.server.state import Binding, Flow, RequestState, digest

NOW = 1_800_000_000.0
URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
KEY, OTHER = "first secret: 0123456789abcdef0123456789", b"\xff second secret: 0123456789abcdef"
BINDING = Binding("tools/call", "pay", digest(b'{"amount":10}'), "alice")
FLOW = Flow("call-1", 2, NOW, b'[{"answer":"tell nobody"}]')
FROZEN = "Invalid or expired requestState"
WRONG_BINDINGS = {
    "method": Binding("prompts/get", BINDING.target, BINDING.arguments, BINDING.principal),
    "target": Binding(BINDING.method, "refund", BINDING.arguments, BINDING.principal),
    "arguments": Binding(BINDING.method, BINDING.target, digest(b'{"amount":99}'), BINDING.principal),
    "principal": Binding(BINDING.method, BINDING.target, BINDING.arguments, "mallory"),
    "no principal": Binding(BINDING.method, BINDING.target, BINDING.arguments, None),
    "empty principal": Binding(BINDING.method, BINDING.target, BINDING.arguments, ""),
}


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make(*keys: bytes | str, **options: Any) -> RequestState:
    return RequestState(keys or [KEY], **{"clock": Clock(), **options})


def opened(token: str, states: RequestState | None = None, binding: Binding = BINDING, audience: str = "shop") -> Flow:
    return (states or make()).open(token, binding, audience)


def refused(token: str, *args: Any, **options: Any) -> str:
    with pytest.raises(StateRejected) as caught:
        opened(token, *args, **options)
    error = caught.value
    assert error.__cause__ is None and error.__context__ is None and error.data is None
    return str(error)


def raw(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


TOKEN = make().seal(FLOW, BINDING, "shop")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


# Sealing and opening


@pytest.mark.rule("R104")
def test_a_fresh_process_with_the_same_keys_opens_it():
    assert opened(TOKEN, make()) == FLOW


@given(
    st.builds(Flow, st.text(), st.integers(1, 32), st.floats(NOW - 1000, NOW), st.binary() | st.just(b"x" * 1000)),
    st.builds(Binding, st.text(), st.text(), st.binary(max_size=32), st.none() | st.text()),
    st.text(min_size=1),
)
def test_what_is_sealed_is_what_is_opened(flow: Flow, binding: Binding, audience: str):
    token = make().seal(flow, binding, audience)
    assert opened(token, make(), binding, audience) == flow
    assert token.isascii() and set(token) <= set(URL_SAFE)


@pytest.mark.rule("R108")
def test_tokens_of_two_rounds_differ():
    states = make()
    assert len({states.seal(FLOW, BINDING, "shop") for _ in range(100)}) == 100


@pytest.mark.rule("R113", "P8")
def test_a_token_shows_nothing_but_format_and_key_id():
    one, two = raw(TOKEN), raw(make().seal(FLOW, BINDING, "shop"))
    assert one[:9] == two[:9] and one[9:] != two[9:]
    for member in (b"tell nobody", b"call-1", b"pay", b"alice", b"shop", b"tools/call", BINDING.arguments):
        assert member not in one


def test_importing_it_does_not_import_cryptography():
    env = {"PYTHONPATH": str(Path(state.__file__).parents[2])}
    code = "import backchannel.server.state, sys; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0


# Rejection


@pytest.mark.rule("R109", "R112")
def test_every_flip_of_one_byte_is_rejected():
    for place in range(len(TOKEN)):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128):
            refused(TOKEN[:place] + chr(ord(TOKEN[place]) ^ mask) + TOKEN[place + 1 :])


@pytest.mark.rule("R113")
def test_every_flip_of_one_bit_under_the_base64_is_rejected():
    for bit in range(len(raw(TOKEN)) * 8):
        forged = bytearray(raw(TOKEN))
        forged[bit // 8] ^= 1 << bit % 8
        refused(base64.urlsafe_b64encode(forged).rstrip(b"=").decode())


@pytest.mark.parametrize("journal", [b"", b"1", b"12"])
def test_a_token_has_one_spelling(journal: bytes):
    token = make().seal(Flow("call-1", 2, NOW, journal), BINDING, "shop")
    for last in set(URL_SAFE) - {token[-1]}:
        refused(token[:-1] + last)
    for other in (token + "=", token + "==", token + "\n", " " + token, token[:9] + "\n" + token[9:], token + "A"):
        refused(other)
    for safe, standard in ("-+", "_/"):
        if safe in token:
            refused(token.replace(safe, standard))


@pytest.mark.rule("R110")
@pytest.mark.parametrize("member", WRONG_BINDINGS)
def test_it_is_bound_to_each_member_of_the_request(member: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        refused(TOKEN, binding=WRONG_BINDINGS[member])
    assert caplog.messages == [f"requestState rejected: other {member.split()[-1]}"]


@pytest.mark.rule("R110")
def test_it_is_bound_to_the_audience():
    refused(TOKEN, audience="warehouse")
    anonymous = Binding("tools/call", "pay", digest(None), None)
    token = make().seal(FLOW, anonymous, "shop")
    assert opened(token, binding=anonymous) == FLOW
    refused(token, binding=Binding("tools/call", "pay", digest(None), "alice"))


GARBAGE = ["", "=", "é", "\ud800", "\x00", "A" * 65537, TOKEN[:-1], TOKEN[:20], TOKEN[1:], TOKEN * 2, "AQ", "a.b.c"]


@pytest.mark.rule("R112")
@pytest.mark.parametrize("token", GARBAGE, ids=lambda token: ascii(token[:8]))
def test_garbage_is_answered_like_a_forgery(token: str):
    assert refused(token) == FROZEN


@pytest.mark.rule("R112")
def test_a_thousand_garbage_tokens_are_rejected():
    chance = random.Random(8)
    header = raw(TOKEN)[:9]
    for _ in range(1000):
        noise = chance.randbytes(chance.randrange(120))
        for text in (noise, b"\x01" + noise, header + noise):
            refused(base64.urlsafe_b64encode(text).rstrip(b"=").decode())
        refused(noise.decode("latin-1"))


@given(st.text())
def test_any_text_is_rejected(token: str):
    refused(token)


def test_a_genuine_seal_of_other_claims_is_rejected():
    states = make()
    keys = KeyRing([KEY])
    for text in (
        b"",
        b"\xc1",
        msgspec.msgpack.encode([BINDING, "shop", FLOW]),
        msgspec.msgpack.encode({"role": "admin"}),
    ):
        refused(base64.urlsafe_b64encode(keys.seal(text)).rstrip(b"=").decode(), states)


def test_a_huge_token_is_rejected_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(state, "_to_bytes")
    refused("A" * 65537)


CAUSES: dict[str, Callable[[], str]] = {
    "garbage": lambda: refused("garbage"),
    "huge": lambda: refused("A" * 10**6),
    "forged": lambda: refused(TOKEN[:30] + "AAAA" + TOKEN[34:]),
    "unknown key": lambda: refused(TOKEN, make(OTHER)),
    "expired": lambda: refused(TOKEN, make(clock=Clock(NOW + 3600))),
    "flow expired": lambda: refused(make(ttl=1e9).seal(FLOW, BINDING, "shop"), make(clock=Clock(NOW + 86400))),
    "future": lambda: refused(TOKEN, make(clock=Clock(NOW - 61))),
    "audience": lambda: refused(TOKEN, audience="warehouse"),
    "rounds": lambda: refused(TOKEN, make(max_rounds=1)),
    **{name: lambda wrong=wrong: refused(TOKEN, binding=wrong) for name, wrong in WRONG_BINDINGS.items()},
}


@pytest.mark.rule("R109", "P8")
@pytest.mark.parametrize("cause", CAUSES)
def test_one_frozen_text_and_a_quiet_log(cause: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        assert CAUSES[cause]() == FROZEN
    (record,) = caplog.records
    assert record.name == "backchannel.state" and record.exc_info is None
    for secret in (KEY, str(OTHER), TOKEN, TOKEN[:24], "tell nobody", "call-1", "alice", "mallory", "refund"):
        assert secret not in caplog.text


# Time


@pytest.mark.rule("R111")
@pytest.mark.parametrize(
    ("options", "started", "later", "good"),
    [
        ({}, 0, 3599, True),
        ({}, 0, 3600, False),
        ({"ttl": 60}, 0, 59, True),
        ({"ttl": 60}, 0, 60, False),
        ({"ttl": 30 * 86400, "max_age": 30 * 86400}, 0, 30 * 86400 - 1, True),
        ({"ttl": 30 * 86400, "max_age": 30 * 86400}, 0, 30 * 86400, False),
        ({"ttl": float("inf"), "max_age": float("inf")}, 0, 1e9, True),
        ({}, -86000, 399, True),
        ({}, -86000, 400, False),
        ({"max_age": 90}, -60, 29, True),
        ({"max_age": 90}, -60, 30, False),
        ({}, 0, -60, True),
        ({}, 0, -61, False),
    ],
)
def test_expiry_of_a_round_and_of_the_flow(options: dict[str, float], started: float, later: float, good: bool):
    clock = Clock()
    states = make(clock=clock, **options)
    flow = Flow("call-1", 2, NOW + started, b"[]")
    token = states.seal(flow, BINDING, "shop")
    clock.now += later
    if good:
        assert opened(token, states) == flow
    else:
        refused(token, states)


# Keys


@pytest.mark.rule("R120", "P8")
def test_rotation():
    old, both, new = make(KEY), make(OTHER, KEY), make(OTHER)
    before, after = old.seal(FLOW, BINDING, "shop"), both.seal(FLOW, BINDING, "shop")
    assert opened(before, both) == opened(after, both) == opened(after, new) == FLOW
    refused(before, new)
    refused(after, old)
    assert raw(before)[:9] == raw(old.seal(FLOW, BINDING, "shop"))[:9] != raw(after)[:9]


FORMAT_1 = (
    "AYhoRjWoiG9kzfqMyDSUMvKEe9gZZZKuFZS5c2OG02IsXOIW_yjjhsdjrBVhSjbX8OxVd4mWpa_TSWuBU-PID2qqPQkJmCnjNAaU"
    "_iPVxXDD-5FSctISiqnbu5ZICj7UFEWQAoWy7XRMhJ5vdyzcCLb3VOTmivGudun893hYLlXF0AqNzEEyphrDkrxHdfu8MB536esO"
    "2FI98gLmYNrpmCuERFzEoelGPoOjaA"
)


def hkdf(secret: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 without salt, for one block."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:length]


@pytest.mark.rule("R104", "P8")
def test_a_token_of_an_earlier_release_opens():
    """Change the format byte with the format: instances of two releases serve one call during a roll-out."""
    assert opened(FORMAT_1) == FLOW
    text, secret = raw(FORMAT_1), KEY.encode()
    assert text[:9] == b"\x01" + hkdf(secret, b"backchannel requestState 1: key id", 8)
    key = hkdf(secret, b"backchannel requestState 1: AES-256-GCM key", 32)
    claims = msgspec.msgpack.decode(AESGCM(key).decrypt(text[9:21], text[21:], text[:9]))
    binding = ["tools/call", "pay", BINDING.arguments, "alice"]
    assert claims == [binding, "shop", ["call-1", 2, NOW, FLOW.journal], NOW, NOW + 3600, NOW + 86400]


def test_a_secret_is_the_same_as_text_and_as_bytes():
    assert opened(TOKEN, make(KEY.encode())) == FLOW


def test_no_key_is_derived_by_cutting_the_secret_off():
    refused(TOKEN, make(KEY[:32]))


@pytest.mark.case("A06")
@pytest.mark.rule("P8")
def test_a_key_that_is_not_shared_is_told_once(caplog: pytest.LogCaptureFixture):
    """The part of A06 that lies here: no key (told once), one key and two names, a restart with the same key."""
    a, b = RequestState(clock=Clock()), RequestState(clock=Clock())
    token = a.seal(FLOW, BINDING, "app-a")
    assert opened(token, a, audience="app-a") == FLOW
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            refused(token, b, audience="app-a")
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG", "DEBUG"]
    assert caplog.messages[0].startswith("requestState rejected: key not shared: a state")
    assert "RequestState(keys=[...])" in caplog.messages[0]

    a, b = make(audience="app"), make(audience="app")
    token = a.seal(FLOW, BINDING, "app-a")
    assert opened(token, b, audience="app-b") == FLOW
    del a
    assert opened(token, make(audience="app"), audience="app-a") == FLOW


def test_a_name_that_is_not_shared_is_told_once(caplog: pytest.LogCaptureFixture):
    states = make()
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            refused(TOKEN, states, audience="app-b")
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]
    assert "RequestState(audience=...)" in caplog.messages[0]


@pytest.mark.rule("P8")
def test_the_environment_gives_the_ring_that_workers_share(monkeypatch: pytest.MonkeyPatch):
    imported_before = RequestState(clock=Clock())
    monkeypatch.setenv(ENVIRONMENT, f" {KEY} , {'n' * 32},")
    token = imported_before.seal(FLOW, BINDING, "shop")
    assert opened(token, RequestState(clock=Clock())) == opened(token, make()) == FLOW
    assert opened(make("n" * 32).seal(FLOW, BINDING, "shop"), RequestState(clock=Clock())) == FLOW
    refused(token, make(OTHER))  # given keys win


@pytest.mark.parametrize("value", ["", " , "])
def test_an_empty_environment_variable_means_a_random_key(monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv(ENVIRONMENT, value)
    states = RequestState(clock=Clock())
    assert opened(states.seal(FLOW, BINDING, "shop"), states) == FLOW


@pytest.mark.parametrize("keys", [["k" * 31], [KEY, b"k" * 31], [""], ["é" * 15], [None], [123]])
def test_a_weak_secret_is_refused_with_the_way_to_make_one(keys: Any):
    with pytest.raises(ConfigurationError, match=r'32 bytes.*python -c "import secrets; ') as caught:
        RequestState(keys)
    assert f"key {len(keys) - 1} " in str(caught.value) and "kkk" not in str(caught.value)


def test_a_weak_secret_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ENVIRONMENT, f"{KEY},hunter2")
    with pytest.raises(ConfigurationError, match=f"{ENVIRONMENT}: key 1 ") as caught:
        RequestState()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("keys", [[], (), KEY, OTHER])
def test_keys_are_a_list_with_something_in_it(keys: Any):
    with pytest.raises(ConfigurationError, match="list of secrets"):
        RequestState(keys)


@pytest.mark.parametrize("limit", ["ttl", "max_age", "max_size", "max_rounds"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_are_positive(limit: str, value: float):
    with pytest.raises(ConfigurationError, match=f"{limit}=.*above 0"):
        make(**{limit: value})


def test_repr_shows_no_secret():
    states = make(KEY, OTHER)
    states.seal(FLOW, BINDING, "shop")
    assert "secret" not in repr(states) and "0123456789" not in repr(states)


# Caps


@pytest.mark.rule("P8")
def test_the_size_counts_as_sealed():
    exact = len(TOKEN)
    assert len(make(max_size=exact).seal(FLOW, BINDING, "shop")) == exact
    with pytest.raises(StateTooLarge, match=rf"{exact} bytes.*limit is {exact - 1}.*less from steps.*store"):
        make(max_size=exact - 1).seal(FLOW, BINDING, "shop")
    with pytest.raises(StateTooLarge, match="65536") as caught:
        make().seal(Flow("call-1", 2, NOW, b"tell nobody " * 5000), BINDING, "shop")
    assert "tell nobody" not in str(caught.value)


@given(st.integers(0, 400))
def test_the_size_is_foretold_exactly(length: int):
    flow = Flow("call-1", 2, NOW, b"j" * length)
    size = len(make().seal(flow, BINDING, "shop"))
    make(max_size=size).seal(flow, BINDING, "shop")
    with pytest.raises(StateTooLarge, match=f" {size} bytes"):
        make(max_size=size - 1).seal(flow, BINDING, "shop")


@pytest.mark.rule("P8")
def test_rounds_are_counted():
    make().seal(Flow("call-1", 32, NOW, b"[]"), BINDING, "shop")
    with pytest.raises(TooManyRounds, match="round 33, limit 32") as caught:
        make().seal(Flow("call-1", 33, NOW, b"tell nobody"), BINDING, "shop")
    assert "tell nobody" not in str(caught.value)


# Cases


@pytest.mark.case("A13")
@pytest.mark.rule("R110", "R113")
def test_the_final_request_of_one_user_is_of_no_use_elsewhere():
    """Parts 1 to 4 of A13; the fifth, a verbatim repetition, needs the store."""
    assert opened(TOKEN) == FLOW
    for wrong in ("principal", "arguments", "target"):
        assert refused(TOKEN, binding=WRONG_BINDINGS[wrong]) == FROZEN
    assert refused(TOKEN[:50] + ("A" if TOKEN[50] != "A" else "B") + TOKEN[51:]) == FROZEN
    assert StateRejected.code == -32602


# The digest


SAME = [
    [None, b"{}", b" { } ", b"null"],
    [b'{"a":1}', b'{"a":1.0}', b'{"a":1e0}', b'{ "a" : 10E-1 }', b'{"a":0.1e1}', b'{"\\u0061":1}'],
    [b'{"a":1,"b":2}', b'{"b":2,"a":1}', b'{\n"b": 2.0, "a": 1}'],
    [b'{"a":0}', b'{"a":-0}', b'{"a":-0.0}', b'{"a":0e9}'],
    [b'{"a":0.1}', b'{"a":1e-1}', b'{"a":0.10}'],
    [b'{"a":1e22}', b'{"a":10000000000000000000000}'],
    ['{"a":"é"}'.encode(), b'{"a":"\\u00e9"}', b'{"a":"\\u00E9"}'],
    [b'{"a":"\\/"}', b'{"a":"/"}'],
    [b'{"a":{"x":[1,{"d":1,"c":2}]}}', b'{"a":{"x":[1.0,{"c":2,"d":1}]}}'],
]
DIFFERENT = [
    *(group[0] for group in SAME),
    *(
        b'{"a":null}',
        b'{"a":"1"}',
        b'{"a":true}',
        b'{"a":[1]}',
        b'{"a":[]}',
        b'{"a":{}}',
        b'{"a":2}',
        b"[]",
        b"0",
        b'""',
    ),
    *(
        b'{"a":9007199254740992}',
        b'{"a":9007199254740993}',
        b'{"a":18446744073709551616}',
        b'{"a":1e400}',
        b'{"a":1e308}',
    ),
    *(b"{", b"", b'{"a":"\xff"}', b'{"a":"\\ud800"}', b"[" * 100_000 + b"]" * 100_000, b"9" * 5000, b'{"a":NaN}'),
    *('{"a":"e\u0301"}'.encode(), b'{"a":[1,2]}', b'{"a":[2,1]}', b"false"),
]


@pytest.mark.rule("R110", "P8")
@pytest.mark.parametrize("group", SAME, ids=lambda group: str(group[-1]))
def test_the_same_arguments_have_one_digest(group: list[bytes | None]):
    assert len({digest(text) for text in group}) == 1


@pytest.mark.rule("R110")
def test_other_arguments_have_another_digest():
    assert len({digest(text) for text in DIFFERENT}) == len(DIFFERENT)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
arguments = st.dictionaries(st.text(), values)


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value as a gateway may write it: other order, integers as doubles where nothing is lost."""
    if isinstance(value, dict):
        members = [(name, shuffled(member, chance)) for name, member in value.items()]
        chance.shuffle(members)
        return dict(members)
    if isinstance(value, list):
        return [shuffled(member, chance) for member in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value


@given(arguments, st.randoms())
def test_a_gateway_that_writes_it_differently_does_no_harm(value: dict[str, Any], chance: random.Random):
    other = json.dumps(shuffled(value, chance), ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 2]))
    assert digest(json.dumps(value).encode()) == digest(other.encode())


def exact(value: Any) -> Any:
    """Equal exactly where the JSON values are the same: numbers by value, and True is not 1."""
    if isinstance(value, dict):
        return {name: exact(member) for name, member in value.items()}
    if isinstance(value, list):
        return [exact(member) for member in value]
    return (isinstance(value, bool), Fraction(value) if isinstance(value, int | float) else value)


@given(arguments, arguments)
def test_different_arguments_differ(one: dict[str, Any], two: dict[str, Any]):
    if exact(one) != exact(two):
        assert digest(json.dumps(one).encode()) != digest(json.dumps(two).encode())
