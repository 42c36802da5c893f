"""What a client says to its developer: answers that do not fit, handlers that are missing, arguments that are none."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from backchannel import Client, ConfigurationError, Context, RemoteProtocolError, Server
from backchannel.client.refusal import error_of
from backchannel.protocol.jsonrpc import ErrorObject, ErrorResponse

pytestmark = pytest.mark.anyio
server = Server("cafe")


@server.tool
async def order(ctx: Context) -> str:
    return str((await ctx.elicit("Which size?", Literal["S", "M"])).unwrap())


@server.tool
async def page(ctx: Context) -> str:
    return repr(await ctx.elicit_url("Sign in", "https://example.com"))


@server.tool
async def roots(ctx: Context) -> int:
    return len(await ctx.roots())


async def said(version: str, tool: str, **handlers: Any) -> str:
    """What there is to read of a call that fails, at the client or in the server's log."""
    async with Client(server, version=version, **handlers) as client:
        try:
            return (await client.call_tool(tool)).text
        except Exception as error:
            return str(error)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "the answer to 'Which size?' breaks the schema: value: is required"),
        ({"size": "M"}, "the answer to 'Which size?' breaks the schema: "),
        ("M", "not str"),
        (3, "not int"),
    ],
)
async def test_an_answer_that_does_not_fit(value: Any, why: str, caplog: pytest.LogCaptureFixture) -> None:
    modern = await said("modern", "order", elicit=lambda question: value)
    await said("legacy", "order", elicit=lambda question: value)
    for text in (modern, caplog.text):
        assert why in text
        assert 'the Client\'s elicit returned it: return {"value": ...}, False or None' in text


async def test_an_answer_to_a_page_that_does_not_fit() -> None:
    text = await said("modern", "page", elicit_url=lambda question: 3)
    assert "the Client's elicit_url returned it: return True, False or None" in text


@pytest.mark.parametrize(
    ("tool", "give"),
    [("order", "Client(elicit=...)"), ("page", "Client(elicit_url=...)"), ("roots", "Client(roots=[...])")],
)
async def test_a_client_that_cannot_be_asked_hears_what_it_lacks(tool: str, give: str) -> None:
    assert f"to answer such questions give {give}" in await said("modern", tool)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"requiredCapabilities": {"sampling": {}}}, "; to answer such questions give Client(sample=...)"),
        (
            {"requiredCapabilities": {"sampling": {"tools": {}}, "elicitation": {}}},
            "; to answer such questions give Client(elicit=..., sample=..., sample_tools=True)",
        ),
        ({"requiredCapabilities": {"acme": {}}}, ""),
        (
            {"requiredCapabilities": {"roots": None, "sampling": 3}},
            "; to answer such questions give Client(sample=..., roots=[...])",
        ),
        ({"requiredCapabilities": []}, ""),
        (None, ""),
    ],
)
def test_what_a_capability_takes(data: Any, hint: str) -> None:
    error = error_of(ErrorResponse(1, ErrorObject(-32021, "missing", data)))
    assert (str(error), error.data) == (f"missing{hint}", data)
    assert str(error_of(ErrorResponse(1, ErrorObject(-32020, "missing", data)))) == "missing"


async def test_lists_can_be_awaited() -> None:
    async with Client(server) as client:
        assert [tool.name for tool in await client.tools()] == ["order", "page", "roots"]
        assert [tool.name async for tool in client.tools()] == ["order", "page", "roots"]


async def test_resume_takes_a_pending() -> None:
    async with Client(server) as client:
        with pytest.raises(ConfigurationError, match="resume goes on with a Pending, .* not with dict"):
            await client.resume({}, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Client(server, elicit="yes"), "elicit is a function that takes a question .*, not 'yes'"),  # type: ignore[arg-type]
        (lambda: Client(server, elicit_url=True), "elicit_url is a function"),  # type: ignore[arg-type]
        (lambda: Client(server, sample="Hello"), "sample is a function"),  # type: ignore[arg-type]
        (lambda: Client(server, version="new"), "there is no version 'new': give one of auto, modern, legacy, 2026"),
        (lambda: Client(server, version=2026), "there is no version 2026"),  # type: ignore[arg-type]
    ],
)
def test_a_client_that_cannot_work_is_not_made(make: Callable[[], Client], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


async def test_the_error_is_the_servers() -> None:
    async with Client(server, version="modern") as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.call_tool("order")
    assert caught.value.code == -32021
