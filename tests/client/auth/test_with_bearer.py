"""Our client, our resource server and the embedded authorization server: each as it is."""

import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from backchannel import AuthRequired, BearerAuth, Client, Context, DPoP, Server, http_app
from backchannel.server.auth.introspection import Introspection
from backchannel.server.http.listen import bind
from backchannel.testing.auth import AuthServer
from backchannel.testing.auth.misbehaviour import Misbehaviour
from backchannel.testing.serving import origin, serving
from tests.client.auth.guarded import BOUND, Clock, Person, Timed

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
ERAS = pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])


class Shop:
    """A protected server. `calls`: how often each tool ran."""

    def __init__(self, **options: Any):
        self.clock, self.person, self.calls = Clock(), Person(), Counter[str]()
        self.issuing = AuthServer(clock=self.clock, scopes=["read", "write"], **options)
        self.url = ""

    def server(self) -> Server:
        server = Server("shop")

        @server.tool
        async def who(ctx: Context) -> str:
            self.calls["who"] += 1
            assert ctx.principal is not None
            return f"{ctx.principal.subject}: {' '.join(sorted(ctx.principal.scopes))}"

        @server.tool(scopes=["write"])
        async def write(ctx: Context) -> str:
            self.calls["write"] += 1
            return "written" if await ctx.confirm("Sure?") else "not written"

        return server

    def client(self, version: str, **given: Any) -> Client:
        async def yes(*_: Any) -> bool:
            return True

        return Client(self.url, version=version, auth=Timed(self.person, self.clock, **given), elicit=yes)


@asynccontextmanager
async def open_shop(bearer: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Shop]:
    """bearer: options of the resource server.  options: of the authorization server."""
    shop = Shop(**options)
    async with shop.issuing.running() as issuer:
        with bind("127.0.0.1", 0) as listener:
            shop.url = f"{origin(listener)}/mcp"
            auth = BearerAuth(issuer=issuer, resource=shop.url, scopes=["read"], clock=shop.clock, **(bearer or {}))
            async with serving(http_app(shop.server(), auth=auth), listener):
                with anyio.fail_after(BOUND):
                    yield shop


async def text(client: Client, tool: str) -> str:
    result: Any = await client.call_tool(tool, {})
    assert not result.is_error, result
    return str(result.content[0].text)


@ERAS
async def test_a_login_a_step_up_with_a_question_and_a_refresh(version: str) -> None:
    async with open_shop() as shop:
        async with shop.client(version) as client:
            assert await text(client, "who") == "alice: read"
            assert await text(client, "write") == "written"
            shop.clock.now += 10_000
            assert await text(client, "who") == "alice: read write"
    assert [one["scope"] for one in shop.issuing.seen("authorize")] == ["read", "read write"]
    assert shop.issuing.count("token", grant_type="refresh_token") == 1 and shop.calls["write"] <= 2


async def test_no_log_has_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with open_shop() as shop:
            async with shop.client("2025-11-25") as client:
                await text(client, "write")
                shop.clock.now += 10_000
                await text(client, "who")
    sent = [*shop.issuing.seen("authorize"), *shop.issuing.seen("token")]
    names = ("state", "code", "code_verifier", "refresh_token", "client_secret")
    secrets = {one[name] for one in sent for name in names if name in one} | set(shop.issuing.tokens._access)
    assert len(secrets) >= 8 and not [one for one in secrets if one in caplog.text]


@ERAS
@pytest.mark.case("G09")
async def test_twenty_calls_with_an_expired_token_make_one_refresh(version: str) -> None:
    async with open_shop() as shop:
        async with shop.client(version) as client:
            shop.clock.now += 10_000
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(text, client, "who")
    assert shop.calls["who"] == 20
    assert shop.issuing.count("token", grant_type="refresh_token") == 1 and len(shop.person.visits) == 1


@ERAS
async def test_tokens_that_are_bound_to_a_key(version: str) -> None:
    bound = {"dpop": DPoP(required=True, nonces=300)}
    async with open_shop(bound, dpop_required=True, dpop_nonces=True) as shop:
        async with shop.client(version, dpop=True) as client:
            assert await text(client, "who") == "alice: read"
            assert await text(client, "write") == "written"
            shop.clock.now += 10_000
            assert await text(client, "who") == "alice: read write"
    assert len(shop.person.visits) == 2


async def test_a_revoked_token_is_refreshed() -> None:
    """The server asks the issuer about each token."""

    async with open_shop({"introspection": Introspection("shop", "secret", cache=0)}, opaque=True) as shop:
        shop.issuing.add_client("shop", "secret")
        async with shop.client("2026-07-28") as client:
            assert await text(client, "who") == "alice: read"
            shop.issuing.tokens._access.clear()
            assert await text(client, "who") == "alice: read"
    assert shop.issuing.count("token", grant_type="refresh_token") == 1


async def test_a_token_for_another_server_is_refused_and_the_login_ends() -> None:
    async with open_shop(misbehaviour=Misbehaviour(token_audience="https://other.test")) as shop:
        with pytest.raises(AuthRequired, match="just issued"):
            async with shop.client("2026-07-28"):
                pass
    assert len(shop.person.visits) == 2 and not shop.calls
