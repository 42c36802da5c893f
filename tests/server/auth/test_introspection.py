"""Tokens that the authorization server is asked about."""

import base64
from typing import Any
from urllib.parse import parse_qs

import anyio
import anyio.lowlevel
import pytest

from backchannel import ConfigurationError, Principal
from backchannel.server.auth.fetch import Fetched
from backchannel.server.auth.introspection import Introspection
from backchannel.server.auth.refusal import Denied
from tests.server.auth.issuing import INTROSPECT, METADATA, NOW, AuthorizationServer, challenges, request

pytestmark = pytest.mark.anyio


def server(**answer: Any) -> AuthorizationServer:
    there = AuthorizationServer()
    there.documents[INTROSPECT] = {"active": True, **there.claims(**answer)}
    return there


def asking(**options: Any) -> Introspection:
    return Introspection("me:1", "s3 cr/et", **options)


async def test_the_server_is_asked_as_it_wants_it() -> None:
    there = server()
    principal = await there.auth(introspection=asking()).admit(*request("opaque+token"))
    assert isinstance(principal, Principal) and (principal.subject, principal.client) == ("ada", "app")
    assert there.asked == [f"GET {METADATA}", f"POST {INTROSPECT}"]
    assert parse_qs(there.bodies[1].decode()) == {"token": ["opaque+token"], "token_type_hint": ["access_token"]}
    scheme, _, pair = there.headers[1]["authorization"].partition(" ")
    assert (scheme, base64.b64decode(pair)) == ("Basic", b"me%3A1:s3%20cr%2Fet")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({}, 200),
        ({"iss": None, "exp": None}, 200),
        ({"active": False}, 401),
        ({"active": "true"}, 401),
        ({"active": 1}, 401),
        ({"aud": "https://other.test"}, 401),
        ({"aud": None}, 401),
        ({"iss": "https://other.test"}, 401),
        ({"exp": NOW - 31}, 401),
        ({"nbf": NOW + 31}, 401),
        ({"sub": None, "client_id": None}, 401),
    ],
)
async def test_what_it_may_answer(answer: dict[str, Any], status: int) -> None:
    principal = await server(**answer).auth(introspection=asking()).admit(*request("t"))
    assert (principal.status if isinstance(principal, Denied) else 200) == status


async def test_an_answer_without_an_audience_is_taken_on_demand_and_one_with_another_never() -> None:
    options = {"introspection": asking(audience_required=False)}
    assert isinstance(await server(aud=None).auth(**options).admit(*request("t")), Principal)
    assert isinstance(await server(aud="https://other.test").auth(**options).admit(*request("t")), Denied)


@pytest.mark.parametrize("document", [Fetched(401, b""), Fetched(200, b"[]"), Fetched(200, b"{"), Fetched(302, b"")])
async def test_no_answer_is_no_refusal(document: Fetched) -> None:
    there = server()
    there.documents[INTROSPECT] = document
    denied = await there.auth(introspection=asking()).admit(*request("t"))
    assert isinstance(denied, Denied) and denied.status == 503


async def test_an_answer_is_good_for_a_while_and_no_longer_than_its_token() -> None:
    there = server()
    auth = there.auth(introspection=asking(endpoint=INTROSPECT, cache=30), leeway=0)

    async def asked() -> int:
        await auth.admit(*request("t"))
        return len(there.asked)

    assert [await asked(), await asked()] == [1, 1]
    there.clock.now += 29
    assert await asked() == 1
    there.clock.now += 1
    there.documents[INTROSPECT] = {"active": True, **there.claims(exp=there.clock.now + 10)}
    assert await asked() == 2
    there.clock.now += 10
    assert await asked() == 3


async def test_what_many_need_at_a_time_is_asked_once() -> None:
    there = server()
    auth = there.auth(introspection=asking(endpoint=INTROSPECT))
    found: list[object] = []

    async def ask(token: str) -> None:
        found.append(await auth.admit(*request(token)))

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, f"t{number % 2}")
    assert len(there.asked) == 2 and {type(one) for one in found} == {Principal} and len(found) == 20


async def test_where_nothing_is_remembered_each_asks_at_once() -> None:
    there, begun, all_begun = server(), [0], anyio.Event()

    async def slow(*given: Any) -> Fetched:
        begun[0] += 1
        if begun[0] == 3:
            all_begun.set()
        await all_begun.wait()
        return await there.fetch(*given)

    auth = there.auth(introspection=asking(endpoint=INTROSPECT, cache=0), fetch=slow)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(auth.admit, *request("t"))
    assert begun == [3]


async def test_who_asks_may_be_cancelled_and_another_takes_over() -> None:
    there, begun, go = server(), [0], anyio.Event()

    async def slow(*given: Any) -> Fetched:
        begun[0] += 1
        await go.wait()
        return await there.fetch(*given)

    auth = there.auth(introspection=asking(endpoint=INTROSPECT), fetch=slow)
    found: list[object] = []

    async def ask(scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await auth.admit(*request("t")))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            first = anyio.CancelScope()
            for scope in (first, anyio.CancelScope(), anyio.CancelScope()):
                group.start_soon(ask, scope)
            while begun[0] < 1:
                await anyio.lowlevel.checkpoint()
            first.cancel()
            go.set()
    assert [type(one) for one in found] == [Principal, Principal] and begun == [2]


async def test_after_a_failure_nobody_waits_for_another_at_once() -> None:
    there = server()
    auth, there.down = there.auth(introspection=asking(endpoint=INTROSPECT)), True
    for seconds, asked in ((0.0, 1), (0.9, 1), (0.2, 2)):
        there.clock.now += seconds
        assert isinstance(await auth.admit(*request("t")), Denied)
        assert len(there.asked) == asked


async def test_a_refusal_is_remembered_for_a_moment() -> None:
    there = server(active=False)
    auth = there.auth(introspection=asking(endpoint=INTROSPECT))
    for _ in range(3):
        denied = await auth.admit(*request("t"))
        assert isinstance(denied, Denied) and "The token is not active" in challenges(denied.headers)[0]
    assert len(there.asked) == 1
    there.clock.now += 5
    there.documents[INTROSPECT] = {"active": True, **there.claims()}
    assert isinstance(await auth.admit(*request("t")), Principal)
    assert isinstance(await auth.admit(*request("t")), Principal)


async def test_there_are_never_too_many_to_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.auth.remembered._MOST", 10)
    there = server(active=False)
    auth = there.auth(introspection=asking(endpoint=INTROSPECT))
    for number in range(30):
        await auth.admit(*request(f"t{number}"))
    assert len(auth._find._remembered._verdicts) == 10  # type: ignore[attr-defined]


def test_its_secret_is_not_shown() -> None:
    assert "s3" not in repr(asking())
    for wrong in ({"client_id": "", "client_secret": "x"}, {"client_id": "x", "client_secret": ""}):
        with pytest.raises(ConfigurationError):
            Introspection(**wrong)
    there = AuthorizationServer()
    with pytest.raises(ConfigurationError, match="https"):
        there.auth(introspection=asking(endpoint="http://as.test"))


async def test_a_token_that_the_issuer_chokes_on_stops_no_other() -> None:
    """Else anybody who finds one shuts all others out."""
    there = server()

    async def choking(*given: Any) -> Fetched:
        if b"token=odd" in given[3]:
            there.asked.append("odd")
            return Fetched(400, b"")
        return await there.fetch(*given)

    auth = there.auth(introspection=asking(endpoint=INTROSPECT), fetch=choking)
    for _ in range(3):
        denied = await auth.admit(*request("odd"))
        assert isinstance(denied, Denied) and denied.status == 503
        assert isinstance(await auth.admit(*request("t")), Principal)
    assert there.asked == ["odd", f"POST {INTROSPECT}"]


async def test_tokens_that_are_made_up_drive_out_none_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.auth.remembered._MOST", 3)
    there = server()
    auth = there.auth(introspection=asking(endpoint=INTROSPECT))
    for number in range(10):
        assert isinstance(await auth.admit(*request("used")), Principal)
        await auth.admit(*request(f"t{number}"))
    assert len(there.asked) == 11
