"""What is fetched once and kept: keys, mostly."""

import json
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from backchannel import Principal
from backchannel.server.auth.bearer import BearerAuth
from backchannel.server.auth.fetch import Fetched
from backchannel.server.auth.kept import Kept
from backchannel.server.auth.refusal import Denied, Unavailable
from tests.server.auth.issuing import JWKS, METADATA, AuthorizationServer, Clock, key, request

pytestmark = pytest.mark.anyio


async def status(auth: BearerAuth, token: str) -> int:
    answer = await auth.admit(*request(token))
    return answer.status if isinstance(answer, Denied) else 200


async def test_keys_are_fetched_once_for_many_requests_at_a_time() -> None:
    there = AuthorizationServer()
    auth = there.auth()
    tokens = [there.token(sub=f"user {number}") for number in range(20)]
    async with anyio.create_task_group() as group:
        for token in tokens:
            group.start_soon(status, auth, token)
    assert there.asked == [f"GET {METADATA}", f"GET {JWKS}"]


async def test_a_new_key_is_found_at_once_and_what_strangers_make_up_costs_little() -> None:
    there = AuthorizationServer()
    auth = there.auth()
    assert await status(auth, there.token()) == 200
    there.publish("two", "one")
    assert await status(auth, there.token("two")) == 200  # at once
    assert await status(auth, there.token(sub="bob")) == 200
    fetches = len(there.asked)
    for number in range(20):
        assert await status(auth, there.token(header={"kid": f"made up {number}"})) == 401
    assert len(there.asked) == fetches
    there.clock.now += 10
    assert await status(auth, there.token(header={"kid": "made up"})) == 401
    assert len(there.asked) == fetches + 1
    there.publish("three")
    there.clock.now += 10
    assert await status(auth, there.token("three")) == 200


async def test_a_key_that_was_withdrawn_is_no_good_any_more() -> None:
    there = AuthorizationServer()
    auth = there.auth()
    assert await status(auth, there.token()) == 200
    there.publish("two")
    there.clock.now += 601
    assert await status(auth, there.token()) == 401


async def test_how_long_keys_are_kept_is_for_the_server_to_say_within_bounds() -> None:
    there = AuthorizationServer()
    public = there.documents[JWKS]
    for said, kept in ((5.0, 60.0), (1200.0, 1200.0), (1e8, 3600.0)):
        there.documents[JWKS] = Fetched(200, json.dumps(public).encode(), max_age=said)
        there.documents[METADATA] = Fetched(
            200, json.dumps({"issuer": "https://as.test", "jwks_uri": JWKS}).encode(), 1e8
        )
        auth, there.asked = there.auth(), []
        await status(auth, there.token(sub="1"))
        there.clock.now += kept - 1
        await status(auth, there.token(sub="2"))
        assert there.asked.count(f"GET {JWKS}") == 1
        there.clock.now += 1
        await status(auth, there.token(sub="3"))
        assert there.asked.count(f"GET {JWKS}") == 2


async def test_after_a_failure_nobody_tries_for_a_while_and_for_longer_each_time() -> None:
    there = AuthorizationServer()
    auth, there.down = there.auth(), True
    tries = []
    for second in range(130):
        before = len(there.asked)
        assert await status(auth, there.token()) == 503
        if len(there.asked) > before:
            tries.append(second)
        there.clock.now += 1
    assert tries == [0, 1, 3, 7, 15, 31, 63, 123]
    there.down = False
    there.clock.now += 60
    assert await status(auth, there.token()) == 200


async def test_old_keys_serve_while_the_server_is_down_but_not_for_ever() -> None:
    there = AuthorizationServer()
    auth = there.auth()
    assert await status(auth, there.token()) == 200
    there.down = True
    there.clock.now += 86000
    assert await status(auth, there.token()) == 200
    there.clock.now += 401
    assert await status(auth, there.token()) == 503


@pytest.mark.parametrize(
    "keys",
    [
        {"keys": "none"},
        {},
        {"keys": [7, {"kty": "oct", "k": "AAAA"}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]},
    ],
)
async def test_what_is_no_key_is_not_taken_for_one(keys: object) -> None:
    there = AuthorizationServer()
    there.documents[JWKS] = keys
    assert await status(there.auth(), there.token()) in (401, 503)


async def test_keys_that_are_unknown_or_too_small_leave_the_others_alone() -> None:
    there = AuthorizationServer()
    small = {"kty": "RSA", "kid": "small", "n": "A" * 171, "e": "AQAB"}
    strange = [
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
        {"kty": "EC", "crv": "P-1", "x": "AA", "y": "AA"},
        small,
    ]
    there.documents[JWKS] = {"keys": [*strange, key("one").as_dict(private=True)]}
    assert await status(there.auth(), there.token()) == 200


class Slow:
    """Loads when it is let, and says whether it began."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = anyio.Event()

    async def __call__(self) -> tuple[int, float | None]:
        self.begun += 1
        await self.go.wait()
        return self.begun, None


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.lowlevel.checkpoint()


async def test_who_loads_may_be_cancelled_and_another_takes_over() -> None:
    load, found = Slow(), []
    kept = Kept(load, Clock())

    async def need() -> None:
        found.append(await kept.get())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def hold() -> None:
                with scope:
                    await kept.get()

            group.start_soon(hold)
            await until(lambda: load.begun == 1)
            group.start_soon(need)
            group.start_soon(need)
            await anyio.lowlevel.checkpoint()
            scope.cancel()
            await until(lambda: load.begun == 2)
            load.go.set()
    assert found == [2, 2]


async def test_who_comes_while_an_old_one_is_renewed_takes_the_old_one() -> None:
    load, clock = Slow(), Clock()
    kept = Kept(load, clock)
    load.go.set()
    assert await kept.get() == 1
    clock.now += 601
    load.go = anyio.Event()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(kept.get)
            await until(lambda: load.begun == 2)
            assert await kept.get() == 1
            load.go.set()
    assert await kept.get() == 2


async def test_of_many_that_want_a_newer_one_one_asks() -> None:
    load, clock = Slow(), Clock()
    load.go.set()
    kept = Kept(load, clock)
    old = await kept.get()
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(kept.renew, old)
    assert load.begun == 2
    assert await kept.renew(old) == 2


async def test_who_asks_for_a_newer_one_than_an_old_one_that_was_replaced_has_it() -> None:
    load, clock = Slow(), Clock()
    load.go.set()
    kept = Kept(load, clock)
    old = await kept.get()
    clock.now += 601
    assert await kept.get() == 2
    assert await kept.renew(old) == 2


async def test_os_errors_of_a_fetch_are_failures_too() -> None:
    async def load() -> tuple[int, float | None]:
        raise ConnectionResetError("gone")

    with pytest.raises(Unavailable):
        await Kept(load, Clock()).get()


async def test_a_principal_comes_of_it() -> None:
    there = AuthorizationServer()
    assert isinstance(await there.auth().admit(*request(there.token())), Principal)


async def test_but_not_one_that_is_too_old_for_that() -> None:
    """A key that was withdrawn long ago does not come back for as long as new ones are on their way."""
    load, clock, found = Slow(), Clock(), []
    kept = Kept(load, clock)
    load.go.set()
    assert await kept.get() == 1
    clock.now += 86_400
    load.go = anyio.Event()

    async def need() -> None:
        found.append(await kept.get())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(kept.get)
            await until(lambda: load.begun == 2)
            group.start_soon(need)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            assert found == []
            load.go.set()
    assert found == [2]
