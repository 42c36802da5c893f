"""What a call leaves behind, on every wire: work in the background, and a context that has ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import CallFinished, Context, Limits, NoBackChannel, Server
from backchannel.testing import connect
from tests.server.http.wire import FORMS, accept, call, text, wire

pytestmark = pytest.mark.anyio
WIRES = [(era, wire) for era in ("legacy", "modern") for wire in ("memory", "stdio", "http")]
wires = pytest.mark.parametrize("era, wire", WIRES, ids=["-".join(one) for one in WIRES])


def skips(wire: str, anyio_backend: str) -> bool:
    return wire == "http" and anyio_backend == "trio"  # HTTP is asyncio only


class Work:
    """A job that waits for its call to end, and writes a file."""

    def __init__(self, path: Path, grace: float = 5.0):
        self.path = path
        self.server = Server("shop", limits=Limits(grace=grace))
        self.go_on, self.begun, self.ended = anyio.Event(), anyio.Event(), anyio.Event()
        self.server.tool(self.start)

    async def start(self, ctx: Context, fails: bool = False) -> str:
        ctx.background("job", self.job)
        if fails:
            raise ValueError
        return "started"

    async def job(self) -> None:
        self.begun.set()
        try:
            await self.go_on.wait()
            self.path.write_text("done")
        finally:
            self.ended.set()


@wires
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.case("E01")
async def test_background_work_outlives_its_call(
    era: str, wire: str, fails: bool, tmp_path: Path, anyio_backend: str
) -> None:
    if skips(wire, anyio_backend):
        return
    work = Work(tmp_path / "file")
    with anyio.fail_after(30):
        async with connect(work.server, era=era, wire=wire) as client:
            result = await client.call_tool("start", {"fails": fails})
            assert result.is_error == fails
            await work.begun.wait()
            assert not work.path.exists()
            work.go_on.set()
            await work.ended.wait()
            assert work.path.read_text() == "done"


@wires
@pytest.mark.parametrize("how", ["cancelled", "client closed"])
@pytest.mark.case("E01")
async def test_background_work_outlives_a_call_that_is_cancelled_and_a_client_that_leaves(
    era: str, wire: str, how: str, tmp_path: Path, anyio_backend: str
) -> None:
    """Over HTTP the server goes on without the client; on a pipe its end is that of the server, which waits a while."""
    if skips(wire, anyio_backend):
        return
    work = Work(tmp_path / "file")
    waits = anyio.Event()

    @work.server.tool
    async def start_and_wait(ctx: Context) -> str:
        ctx.background("job", work.job)
        waits.set()
        await anyio.sleep_forever()
        return ""

    with anyio.fail_after(30):
        async with connect(work.server, era=era, wire=wire) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "start_and_wait")
            await waits.wait()
            await work.begun.wait()
            group.cancel_scope.cancel()
            if how == "cancelled":
                with anyio.CancelScope(shield=True):
                    await client.call_tool("start")  # the connection goes on
            work.go_on.set()
        await work.ended.wait()
        assert work.path.read_text() == "done"


@wires
@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.case("E01")
async def test_background_work_at_the_end_of_the_server(
    era: str, wire: str, in_time: bool, tmp_path: Path, anyio_backend: str
) -> None:
    """It gets `Limits.grace` to end, and is cancelled then."""
    if skips(wire, anyio_backend):
        return
    work = Work(tmp_path / "file", grace=20.0 if in_time else 0.0)
    with anyio.fail_after(30):
        async with connect(work.server, era=era, wire=wire) as client:
            await client.call_tool("start")
            await work.begun.wait()
            if in_time:
                work.go_on.set()
        assert work.ended.is_set()
        assert work.path.exists() == in_time


USES: dict[str, Callable[[Context], Any]] = {
    "progress": lambda ctx: ctx.progress(1),
    "log": lambda ctx: ctx.log("error", "x"),
    "elicit": lambda ctx: ctx.elicit("Who?", str),
    "elicit with a key": lambda ctx: ctx.elicit("Who?", str, key="who"),
    "elicit_url": lambda ctx: ctx.elicit_url("Sign in", "https://example.com"),
    "confirm": lambda ctx: ctx.confirm("Sure?"),
    "sample": lambda ctx: ctx.sample("A slogan"),
    "roots": lambda ctx: ctx.roots(),
    "step": lambda ctx: ctx.step("step", lambda: 1),
    "background": lambda ctx: ctx.background("more", lambda: None),
    "disconnect": lambda ctx: ctx.disconnect(),
}


@wires
@pytest.mark.case("E02")
@pytest.mark.rule("R43", "R44", "R46")
async def test_contexts_after_the_call(era: str, wire: str, anyio_backend: str) -> None:
    """A detached one goes on where there is a session. The call's own one has ended, and says so each time."""
    if skips(wire, anyio_backend):
        return
    server = Server("shop")
    go_on, ended, outcome = anyio.Event(), anyio.Event(), dict[str, Any]()

    async def use(name: str, ctx: Context) -> None:
        try:
            made = USES[name](ctx)
            outcome[name] = await made if made is not None else None
        except Exception as error:
            outcome[name] = error

    async def job(ctx: Context, later: Context | None) -> None:
        await go_on.wait()
        for name in USES:
            await use(name, ctx)
        if later is not None:
            await later.log("error", "still here")
            one, two = await later.gather(later.elicit("Who?", str), later.sample("A slogan"))
            outcome["later"] = (one.unwrap(), two.text)
        ended.set()

    @server.tool
    async def start(ctx: Context) -> str:
        try:
            later: Context | None = ctx.detach()
        except NoBackChannel as error:
            later = None
            outcome["detach"] = str(error)
        ctx.background("job", job, ctx, later)
        return "started"

    logged: list[Any] = []
    handlers: dict[str, Any] = {
        "elicit": lambda question: {"value": "Ann"},
        "elicit_url": lambda question: True,
        "sample": lambda question: "Buy!",
        "roots": ["/tmp"],
        "log": lambda message: logged.append(message.data),
        "log_level": "debug",
    }
    with anyio.fail_after(30):
        async with connect(server, era=era, wire=wire, **handlers) as client:
            assert (
                await client.call_tool("start", progress=lambda progress: logged.append("progress"))
            ).text == "started"
            go_on.set()
            await ended.wait()
            await client.ping()
    assert {name for name in USES if not isinstance(outcome[name], CallFinished)} == set()
    if era == "legacy":
        assert outcome["later"] == ("Ann", "Buy!") and logged == ["still here"]
    else:
        assert logged == []
        for way_out in ("in the call", "ctx.background", "server.notify"):
            assert way_out in outcome["detach"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.case("E02")
@pytest.mark.rule("R18", "R44")
async def test_a_server_without_sessions_has_nothing_to_detach(anyio_backend: str) -> None:
    server = Server("shop")

    @server.tool
    async def start(ctx: Context) -> str:
        try:
            ctx.detach()
        except NoBackChannel as error:
            return str(error)
        return "detached"

    async with wire(server, sessions=False) as there:
        response = await there.post(call("start"), mcp_protocol_version="2025-11-25")
        assert "sessions" in text(await response.json())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.case("E02")
@pytest.mark.rule("R49")
async def test_what_a_detached_context_says_waits_for_the_stream(anyio_backend: str) -> None:
    """No silent drop: a client that does not listen yet finds it when it does."""
    server = Server("shop")
    answered = anyio.Event()
    answers: list[str] = []

    async def job(later: Context) -> None:
        answers.append((await later.elicit("Who?", str)).unwrap())
        answered.set()

    @server.tool
    async def start(ctx: Context) -> str:
        ctx.background("job", job, ctx.detach())
        return "started"

    async with wire(server) as there:
        session = await there.session(FORMS)
        assert text((await (await session.post(call("start"))).messages())[-1]) == "started"
        get = await session.http("GET")
        question = await get.message()
        assert question["method"] == "elicitation/create"
        await session.answer(question, accept(value="Ann"))
        await answered.wait()
        assert answers == ["Ann"]
