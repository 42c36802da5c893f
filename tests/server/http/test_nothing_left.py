"""A platform may freeze the process between two requests: nothing of a modern request goes on after its response."""

import asyncio
import json
from typing import Any

import pytest

from backchannel import Context, Server, http_app
from tests.server.http.wire import ASKS, Asgi, accept, call, modern, request

pytestmark = pytest.mark.anyio


def serverless() -> Server:
    server = Server("test")

    @server.tool
    async def plain() -> str:
        return "done"

    @server.tool
    def in_a_thread() -> str:
        return "done"

    @server.tool
    async def tells(ctx: Context) -> str:
        await ctx.progress(1)
        await ctx.progress(2)
        return "done"

    @server.tool
    async def asks(ctx: Context) -> str:
        await ctx.step("before", lambda: 1)
        size, slogan = await ctx.gather(ctx.elicit("Which size?", str), ctx.sample("A slogan"))
        return f"{size.unwrap()} {slogan.text}"

    @server.tool
    async def fails() -> str:
        raise ValueError("no")

    @server.prompt
    async def prompt(ctx: Context) -> str:
        return (await ctx.elicit("Which size?", str)).unwrap()

    return server


async def answered(app: Any, message: dict[str, Any]) -> tuple[dict[str, Any], set[Any]]:
    """The response to one request, and the tasks that are left the moment it has been sent."""
    before = asyncio.all_tasks()
    body, headers = modern(message, ASKS)
    one = Asgi(app, body, headers)
    await one.done
    left = asyncio.all_tasks() - before - {one.done}
    last = one.body.decode().strip().rpartition("data: ")[2]
    return json.loads(last), {task.get_coro() for task in left if not task.done()}


@pytest.mark.rule("R168")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_task_outlives_a_request(anyio_backend: str) -> None:
    app = http_app(serverless())
    sample = {"role": "assistant", "content": {"type": "text", "text": "Go"}, "model": "m"}
    async with app.running():
        for tool in ("asks", "in_a_thread"):  # after which the app has what it keeps: tasks that wait, and a thread
            await answered(app, call(tool, token="t"))
        for tool in ("plain", "in_a_thread", "tells", "fails"):
            response, left = await answered(app, call(tool, token="t"))
            assert "result" in response and left == set(), tool
        for message in (call("asks"), request("prompts/get", {"name": "prompt"}), request("tools/list")):
            response, left = await answered(app, message)
            assert left == set(), message
            if response["result"]["resultType"] != "input_required":
                continue
            answers = {
                key: sample if one["method"].startswith("sampling") else accept(value="large")
                for key, one in response["result"]["inputRequests"].items()
            }
            message["params"] |= {"inputResponses": answers, "requestState": response["result"]["requestState"]}
            response, left = await answered(app, message)
            assert response["result"]["resultType"] == "complete" and left == set(), response
