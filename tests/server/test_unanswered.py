"""A client that says it can answer, and never does."""

import time
from typing import Any

import pytest
from trio.testing import MockClock

from backchannel import AskTimeout, Context, Limits, Server
from tests.server.replay import LEGACY, MODERN, YES, driver, failed, retry, text

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})]),
]
KINDS = ["elicit", "confirm", "sample"]
ABLE = {"elicitation": {}, "sampling": {}}


def asking(timeout: float | None = 2, **options: Any) -> Server:
    server = Server("test", **options)

    @server.tool
    async def tool(ctx: Context, kind: str, falls_back: bool = True) -> str:
        asks: dict[str, Any] = {
            "elicit": lambda: ctx.elicit("Who?", str, timeout=timeout),
            "confirm": lambda: ctx.confirm("Sure?", timeout=timeout),
            "sample": lambda: ctx.sample("A slogan", timeout=timeout),
        }
        try:
            return f"answered with {await asks[kind]()!r}"
        except AskTimeout as error:
            if not falls_back:
                raise
            return f"fell back: {error}"

    return server


@pytest.mark.case("A18")
@pytest.mark.parametrize("kind", KINDS)
async def test_after_its_time_the_question_is_withdrawn_and_the_fallback_runs(anyio_backend: Any, kind: str) -> None:
    async with driver(asking(), LEGACY, ABLE) as wire:
        for _ in range(2):
            await wire.serve(wire.tool("tool", {"kind": kind}))
            question, cancelled, response = [await wire.next() for _ in range(3)]
            assert cancelled["method"] == "notifications/cancelled"
            assert cancelled["params"]["requestId"] == question["id"]
            assert text(response) == f"fell back: the client did not answer {question['method']} in time"
        await wire.idle()
        wire.answer(question, YES)  # too late, and no harm
        assert "did not answer" in failed(await wire.call("tool", {"kind": kind, "falls_back": False}))


@pytest.mark.case("A18")
async def test_a_question_without_a_time_of_its_own_has_that_of_the_server(anyio_backend: Any) -> None:
    async with driver(asking(None, limits=Limits(ask_timeout=5)), LEGACY, ABLE) as wire:
        await wire.serve(wire.tool("tool", {"kind": "elicit"}))
        assert "fell back" in text([await wire.next() for _ in range(3)][-1])


@pytest.mark.case("A18")
@pytest.mark.parametrize("kind", ["elicit", "confirm"])
async def test_an_answer_after_its_time_is_none_on_the_stateless_protocol_too(
    anyio_backend: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    server = asking()
    monkeypatch.setattr(server.state, "clock", lambda: now)
    async with driver(server, MODERN) as wire:
        first = await wire.call("tool", {"kind": kind})
        now += 3
        assert "fell back" in text(await wire.call("tool", {"kind": kind}, **retry(first, **{_key(first): YES})))


def _key(response: dict[str, Any]) -> str:
    [key] = response["result"]["inputRequests"]
    return str(key)
