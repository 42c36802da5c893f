"""Tokens over HTTP that nobody was asked for, and that are bound to a key: client, resource server and authorization
server together."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from backchannel import BearerAuth, Client, ClientCredentials, Context, DPoP, Loopback, OAuth, Server, http_app
from backchannel.client.auth.stores import MemoryStore
from backchannel.errors import LoginFailed
from backchannel.server.http.listen import bind
from backchannel.testing.auth import AuthServer
from backchannel.testing.auth.misbehaviour import Misbehaviour
from backchannel.testing.serving import origin, serving
from tests.client.auth.guarded import Person

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Recorder:
    """Keeps the proofs that reach the MCP server, and how tokens are shown to it. `nonce`: that each answer has."""

    def __init__(self, app: Any):
        self._app = app
        self.proofs: list[dict[str, Any]] = []
        self.schemes: set[str] = set()
        self.nonce = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if proof := headers.get(b"dpop"):
            self.proofs.append(json.loads(base64.urlsafe_b64decode(proof.split(b".")[1] + b"==")))
        if credentials := headers.get(b"authorization"):
            self.schemes.add(credentials.decode().partition(" ")[0])

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start" and self.nonce:
                message["headers"] = [*message["headers"], (b"dpop-nonce", self.nonce.encode())]
            await send(message)

        await self._app(scope, receive, answer)

    async def close(self) -> None:
        await self._app.close()


class Place:
    """An authorization server that knows a robot, and an MCP server that takes bound tokens only."""

    def __init__(self, auth: AuthServer, url: str, seen: Recorder):
        self.auth, self.url, self.seen = auth, url, seen


@pytest.fixture(params=[None, 300.0], ids=["without nonces", "nonces"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    auth = AuthServer(dpop_nonces=request.param is not None)
    auth.add_client("robot", "s3cret")
    server = Server("bound")

    @server.tool
    def whose(ctx: Context) -> str:
        assert ctx.principal is not None
        return ctx.principal.subject

    async with auth.running() as issuer:
        listener = bind("127.0.0.1", 0)
        url = f"{origin(listener)}/mcp"
        dpop = DPoP(required=True, nonces=request.param)
        seen = Recorder(http_app(server, auth=BearerAuth(issuer=issuer, resource=url, dpop=dpop)))
        async with serving(seen, listener):
            yield Place(auth, url, seen)


async def test_every_request_has_a_proof_of_its_own(place: Place) -> None:
    async with Client(place.url, auth=ClientCredentials("robot", "s3cret", dpop=True)) as client:
        assert (await client.call_tool("whose")).text == "robot"
        assert (await client.call_tool("whose")).text == "robot"
    assert place.seen.schemes == {"DPoP"}
    names = [proof["jti"] for proof in place.seen.proofs]
    assert len(names) == len(set(names)) >= 3
    assert {(proof["htm"], proof["htu"]) for proof in place.seen.proofs} == {("POST", place.url)}


async def test_nonces_are_taken_up_on_both_sides(place: Place) -> None:
    async with Client(place.url, auth=ClientCredentials("robot", "s3cret", dpop=True)) as client:
        await client.call_tool("whose")
        before, tokens = len(place.seen.proofs), place.auth.count("token")
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(client.call_tool, "whose")
        assert len(place.seen.proofs) == before + 20  # the nonce is known, so no request is sent twice
        assert place.auth.count("token") == tokens


@pytest.mark.parametrize("place", [None], indirect=True, ids=["without nonces"])
async def test_the_next_nonce_comes_with_any_answer(place: Place) -> None:
    async with Client(place.url, auth=ClientCredentials("robot", "s3cret", dpop=True)) as client:
        for place.seen.nonce in ("first", "second"):
            before = len(place.seen.proofs)
            await client.call_tool("whose")
            await client.call_tool("whose")
            assert len(place.seen.proofs) == before + 2
            assert place.seen.proofs[-1]["nonce"] == place.seen.nonce


async def test_calls_that_all_learn_of_a_nonce_at_once_need_no_new_token(place: Place) -> None:
    auth = ClientCredentials("robot", "s3cret", dpop=True)
    async with Client(place.url, auth=auth) as client:
        tokens = place.auth.count("token")
        assert auth._prover is not None
        auth._prover._nonces.clear()
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(client.call_tool, "whose")
        assert place.auth.count("token") == tokens


async def test_a_person_gets_bound_tokens_that_are_refreshed_with_the_same_key(place: Place) -> None:
    person, store = Person(), MemoryStore()
    for _ in range(2):  # as after a restart
        auth = OAuth(store=store, redirect=Loopback(show=person.show), dpop=True)
        async with Client(place.url, auth=auth) as client:
            assert (await client.call_tool("whose")).text == "alice"
            token = (await store.load(f"token {place.url}")) or b""
            kept = json.loads(token) | {"expires_at": 1.0}
            await store.save(f"token {place.url}", json.dumps(kept).encode())
    assert len(person.visits) == 1
    refreshed = place.auth.seen("token", grant_type="refresh_token")  # twice, where a nonce was wanted
    assert len({sent["refresh_token"] for sent in refreshed}) == 1


async def test_a_server_that_binds_nothing_is_not_trusted_with_it(place: Place) -> None:
    place.auth.misbehaviour = Misbehaviour(token_type="Bearer")
    with pytest.raises(LoginFailed, match="binds no tokens"):
        async with Client(place.url, auth=ClientCredentials("robot", "s3cret", dpop=True)):
            raise AssertionError("it was let in")
