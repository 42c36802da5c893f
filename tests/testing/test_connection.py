"""`connect`: one line for any wire, era, replay and number of instances."""

import sys
from pathlib import Path
from typing import Any

import pytest

from backchannel import (
    AuthRequired,
    ConfigurationError,
    ConnectionFailed,
    Context,
    Principal,
    RemoteProtocolError,
    Server,
    StdioServer,
)
from backchannel.testing import Transcript, accept, connect, decline
from tests.testing.shop import charged, server

M = accept({"size": "M"})
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.mark.anyio
@pytest.mark.parametrize("wire", ["memory", "stdio"])
@pytest.mark.parametrize("era", ["legacy", "modern", "auto", "2025-06-18"])
@pytest.mark.parametrize("more", [{}, {"replay": "always"}, {"replicas": 3}], ids=str)
@pytest.mark.rule("P10")
async def test_a_call_with_two_questions(wire: str, era: str, more: dict[str, Any]) -> None:
    charged.clear()
    async with connect(server, era=era, wire=wire, people=[M, True], **more) as client:
        assert (await client.call_tool("order", {"name": "Ada"})).text == "Ada: M"
    assert charged == [42]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_the_same_over_a_socket(era: str, replicas: int) -> None:
    charged.clear()
    async with connect(server, era=era, wire="http", replicas=replicas, people=[M, True]) as client:
        assert (await client.call_tool("order", {"name": "Ada"})).text == "Ada: M"
    assert charged == [42]


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize("wire", ["memory", "stdio", "http"])
@pytest.mark.case("A06")
async def test_each_round_lands_on_another_instance_with_a_lifespan_of_its_own(wire: str) -> None:
    transcript = Transcript()
    async with connect(
        server, era="modern", wire=wire, replicas=3, people={"Go": True}, transcript=transcript
    ) as client:
        lives = {(await client.call_tool("life_of")).text for _ in range(3)}
    assert len(lives) == 3
    served = [one.instance for one in transcript.messages if one.sender == "client"]
    assert served == ["A", "B", "C", "A", "B", "C", "A"]  # server/discover comes first


@pytest.mark.anyio
async def test_a_session_stays_with_one_instance() -> None:
    async with connect(server, era="legacy", replicas=3, people={"Go": True}) as client:
        assert len({(await client.call_tool("life_of")).text for _ in range(3)}) == 1


@pytest.mark.anyio
async def test_what_a_client_gives_itself_is_not_scripted() -> None:
    async with connect(server, people=[M], sample=lambda _: "Nice", roots=["/tmp"]) as client:
        assert (await client.call_tool("describe")).text == "M Nice 1"


@pytest.mark.anyio
async def test_without_people_nobody_can_be_asked() -> None:
    async with connect(server, era="modern") as client:
        with pytest.raises(Exception, match="elicitation"):
            await client.call_tool("order_in_a_thread")


@pytest.mark.anyio
@on_asyncio
async def test_a_child_process_is_a_target_too(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from backchannel import run\nfrom tests.testing.shop import server\nrun(server)\n")
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    target = StdioServer(sys.executable, program, env=environment)
    async with connect(target, era="modern", people=[M, decline()]) as client:
        assert (await client.call_tool("order", {"name": "Ada"})).text == "changed their mind"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"wire": "pigeon"}, "no wire 'pigeon'"),
        ({"replay": "sometimes"}, 'replay is "wire" or "always"'),
        ({"replicas": 0}, "at least 1"),
    ],
)
async def test_what_cannot_be(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        async with connect(server, **options):
            pass


@pytest.mark.anyio
async def test_a_server_that_is_somewhere_already_has_its_wire() -> None:
    with pytest.raises(ConfigurationError, match="for a Server object"):
        async with connect("http://127.0.0.1:1/mcp", replicas=2):
            pass


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_http_on_trio() -> None:
    with pytest.raises(ConfigurationError, match="asyncio only"):
        async with connect(server, wire="http"):
            pass


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize("wire", ["memory", "stdio", "http"])
async def test_a_lifespan_that_fails(wire: str) -> None:
    def fail(_: Server) -> Any:
        raise OSError("no database")

    with pytest.raises((ConnectionFailed, OSError), match="no database"):
        async with connect(Server("broken", lifespan=fail), wire=wire):
            pass


ADA = Principal("ada", scopes=frozenset({"write"}))
vault = Server("vault")


@vault.tool(scopes=["write"])
async def seal(ctx: Context) -> str:
    await ctx.confirm("Really?")
    return f"sealed for {ctx.principal.subject}" if ctx.principal is not None else "sealed for nobody"


@vault.tool(visible=lambda principal: principal is not None and principal.subject == "ada")
def of_ada(ctx: Context) -> str:
    return ctx.principal.subject if ctx.principal is not None else ""


@pytest.mark.anyio
@pytest.mark.parametrize("more", [{}, {"replay": "always"}, {"replicas": 2}], ids=str)
async def test_who_calls(connected: Any, more: dict[str, Any]) -> None:
    async with connected(vault, people=[True], principal=ADA, **more) as client:
        assert (await client.call_tool("of_ada")).text == "ada"  # without a question, and with one
        assert (await client.call_tool("seal")).text == "sealed for ada"


@pytest.mark.anyio
async def test_somebody_else_sees_and_may_do_less(connected: Any) -> None:
    async with connected(vault, people=[], principal=Principal("bob")) as client:
        assert [tool.name for tool in await client.tools()] == ["seal"]
        with pytest.raises((RemoteProtocolError, AuthRequired), match="write"):
            await client.call_tool("seal")


@pytest.mark.anyio
async def test_nobody_calls_where_nobody_is_given(connected: Any) -> None:
    async with connected(vault) as client:
        assert [tool.name for tool in await client.tools()] == ["seal"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("target", "principal", "why"),
    [
        (StdioServer("x"), ADA, "replicas, clock and principal are for a Server object"),
        (vault, "ada", r"principal is a Principal, not str: write principal=Principal\(...\)"),
    ],
)
async def test_what_is_no_principal_and_where_there_is_none(target: Any, principal: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        async with connect(target, principal=principal):
            pass
