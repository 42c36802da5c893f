"""The official SDK's client (mcp 2.3.0) with a handler that frees the connection of its call: it comes back."""

from __future__ import annotations

import anyio
import pytest
from mcp.client import Client

from tests.peers.test_sdk_client import DEPRECATED, LEGACY, Host, accept, text
from tests.server.http.away import Away, told
from tests.server.http.wire import serving

pytestmark = pytest.mark.anyio


@pytest.mark.filterwarnings(DEPRECATED)
@pytest.mark.rule("R49", "R52", "R90")
async def test_it_comes_back_answers_and_hears_everything_once() -> None:
    away, host = Away(), Host({"Who?": accept(value="Ada")})
    with anyio.fail_after(20):
        async with serving(away) as port:
            client = Client(
                f"http://127.0.0.1:{port}/mcp",
                mode="legacy",
                elicitation_callback=host.elicit,
                logging_callback=host.log,
            )
            async with client:
                assert client.protocol_version == LEGACY
                await client.set_logging_level("info")
                result = await client.call_tool("trip", progress_callback=host.progressed)
    assert text(result) == "back, Ada"
    assert host.asked == ["Who?"]
    assert [message for _, _, message in host.progress] == [told(1), told(3), told(4)]
    assert [data for _, _, data in host.logged] == [told(2), told(5)]
    assert away.runs == 1
    assert away.resumed == ["1-1", "1-5"]
