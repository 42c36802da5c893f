"""Obtaining a token is cancelled at every point: others get theirs, and nothing is left."""

import anyio
import anyio.lowlevel
import pytest

from backchannel.client.auth.driver import World, drive
from backchannel.client.auth.holder import Attempt, TokenHolder
from backchannel.client.auth.loopback import Loopback
from backchannel.client.auth.steps import Fetch, Fetched, Flow, ListenForRedirect, OpenBrowser, Save, WaitForRedirect
from backchannel.client.auth.stores import MemoryStore
from tests.cancellation.stepping import MOST, by_scope, by_turns
from tests.client.auth.issuing import REFUSED, Issuing
from tests.client.auth.test_loopback import visit

pytestmark = pytest.mark.anyio
SERVER, BOUND = "https://s.test/mcp", 60
ways = pytest.mark.parametrize("way", [by_scope, by_turns])


@pytest.mark.case("G09")
@ways
async def test_a_request_that_needs_a_token(way: type) -> None:
    """Whoever is cancelled, the next has a token, and no more than one was obtained for both."""
    with anyio.fail_after(BOUND):
        for point in range(1, MOST):
            auth = Issuing()
            auth.gate = anyio.lowlevel.checkpoint
            holder = TokenHolder(auth, SERVER)

            async def request(holder: TokenHolder = holder) -> None:
                attempt = Attempt()
                await holder.headers("POST", SERVER, attempt)
                await holder.answer(REFUSED, attempt)
                await holder.headers("POST", SERVER, attempt)

            struck = await way(request, point)  # type: ignore[call-arg]
            await request()
            shown = await holder.headers("POST", SERVER, Attempt())
            # Both were refused: the second got the token of the first, or one in its place.
            assert len(auth.demands) <= 2 and shown == {"authorization": f"Bearer t{len(auth.demands)}"}
            await holder.close()
            assert not holder.busy and isinstance(auth.store, MemoryStore) and auth.store._locks == {}
            if not struck:
                return
    raise AssertionError("it has no end")


@ways
async def test_a_login(way: type) -> None:
    """Nothing listens after it."""
    uris: list[str] = []

    def flow() -> Flow[str]:
        uris.append((yield ListenForRedirect()))
        yield OpenBrowser("https://as.test")
        answer: dict[str, str] = yield WaitForRedirect(uris[-1])
        yield Save("token", answer["code"].encode())
        return answer["code"]

    async def fetch(request: Fetch) -> Fetched:
        raise AssertionError

    async def show(url: str) -> None:
        await visit(uris[-1])

    with anyio.fail_after(BOUND):
        for point in range(1, MOST):
            uris.clear()
            world = World(fetch, MemoryStore(), Loopback(show=show))

            async def login(world: World = world) -> None:
                assert await drive(flow(), world) == "c"

            struck = await way(login, point)  # type: ignore[call-arg]
            if uris:
                with pytest.raises(OSError):
                    await visit(uris[-1])
            if not struck:
                assert await world.store.load("token") == b"c"
                return
    raise AssertionError("it has no end")
