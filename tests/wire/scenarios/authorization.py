"""Authorization: what a client learns from being refused (basic/authorization)."""

from __future__ import annotations

from backchannel import BearerAuth, Principal, Server
from tests.server.http.wire import call, modern, request

from ..recorder import Recorder
from ..scenario import MODERN, STREAMABLE, scenario

SCOPES = {"ada-1234": {"read"}, "ada-5678": {"read", "pay"}}


@scenario(
    "http-step-up",
    """A tool that needs more than the rest of its server. Who comes without a token learns where to get one, and who
    comes with one that may too little, which scopes it takes.""",
    [*STREAMABLE, *MODERN],
)
async def http_step_up(wire: Recorder) -> None:
    server = Server("bank")

    @server.tool(scopes=["pay"])
    async def pay() -> str:
        return "paid"

    async def verify(token: str) -> Principal | None:
        return Principal("ada", scopes=frozenset(SCOPES[token])) if token in SCOPES else None

    auth = BearerAuth(issuer="https://auth.test", verify=verify, resource="https://bank.test/mcp", scopes=["read"])
    async with wire.http(server, auth=auth) as (there, _):
        if wire.modern:
            message, headers = modern(call("pay"))
            await (await there.post(message, **headers)).body()
            await (await there.post(message, authorization="Bearer ada-1234", **headers)).body()
            wire.note("With a token of which more was asked.")
            await (await there.post(message, authorization="Bearer ada-5678", **headers)).body()
            return
        await (await there.post(wire.initialize(0))).body()
        with wire.hidden():
            session = await there.session(version=wire.version.value, authorization="Bearer ada-1234")
        wire.note("A session was opened.")
        assert (await (await session.post(request("tools/list", id=2))).json())["result"]
        await (await session.post(call("pay", 3))).body()
        wire.note("With a token of which more was asked.")
        await (await session.post(call("pay", 4), authorization="Bearer ada-5678")).body()
