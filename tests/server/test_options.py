"""What an author gives to options, and what is said of what cannot work."""

import math
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from backchannel import ConfigurationError, Context, Limits, MemoryStateStore, RequestState, Sample, Server
from backchannel.server.http.security import Guard
from backchannel.server.options import known, listed, number, takes


async def async_generator(ctx: Any) -> AsyncIterator[None]:
    yield


def tool_with(**options: Any) -> Any:
    return Server("s").tool(**options)


WRONG: list[tuple[Any, str]] = [
    (lambda: Server("s", roots="/srv"), "roots is a list, such as ['/srv']"),
    (lambda: Server("s", roots=[5]), "roots is a list of str or PathLike, not [5]"),
    (lambda: Server("s", roots=5), "roots is a list of str or PathLike, not 5"),
    (lambda: Server("s", icons="icon.png"), "icons is a list, such as ['icon.png']"),
    (lambda: Server("s", limits={"threads": 1}), "limits is a Limits, not dict: write limits=Limits(...)"),
    (lambda: Server("s", limits=Limits), "limits is a Limits, not the class itself"),
    (lambda: Server("s", state="k" * 32), "state is a RequestState, not str"),
    (lambda: Server("s", lifespan=async_generator), "write @asynccontextmanager above it"),
    (lambda: Server("s", sampler="gpt"), "sampler is a function, not str"),
    (lambda: Server("s", extensions="acme/x"), "extensions is a dict, not str"),
    (lambda: Server(5), "a server's name is a str, not 5"),
    (lambda: Server("s", ttl="5"), "ttl is a number of at least 0, not '5'"),
    (lambda: Limits(threads=-1), "Limits(threads=) is a whole number above 0, not -1"),
    (lambda: Limits(threads=2.5), "Limits(threads=) is a whole number above 0, not 2.5"),
    (lambda: Limits(grace=math.nan), "Limits(grace=) is a number of at least 0, not nan"),
    (lambda: Limits(grace=None), "Limits(grace=) is a number"),
    (lambda: Limits(keep_alive=0), "Limits(keep_alive=) is a number above 0"),
    (lambda: Limits(message="1 MB"), "Limits(message=)"),
    (lambda: Limits(sessions=True), "Limits(sessions=)"),
    (lambda: RequestState(ttl="1h"), "RequestState(ttl=) is a number above 0, not '1h'"),
    (lambda: RequestState(store={}), "store has the methods add, put, get, delete; dict has no add, put, delete"),
    (
        lambda: RequestState(store=MemoryStateStore),
        "store is an object, not a class: write store=MemoryStateStore(...)",
    ),
    (lambda: RequestState(codec=object()), "codec has the methods seal, open; object has no seal, open"),
    (lambda: Sample("Hi", stop_sequences="END"), "stop_sequences is a list, such as ['END']"),
    (lambda: tool_with(titel="x"), "a tool has no option 'titel'; it has name, title, description"),
    (lambda: Server("s").prompt(titel="x"), "a prompt has no option 'titel'; it has name, title"),
    (lambda: Server("s").resource("a://b", titel="x"), "a resource has no option 'titel'; it has name, title"),
    (lambda: Server("s").add_tool(len, titel="x"), "a tool has no option 'titel'"),
    (lambda: tool_with(timeout="5")(lambda: ""), "timeout is a number above 0, not '5'"),
    (lambda: tool_with(name="t", timeout="5")(lambda: ""), "timeout is a number above 0, not '5'"),
    (lambda: tool_with(name="t", visible=True)(lambda: ""), "visible is a function, not bool"),
    (lambda: Server("s").tool(async_generator_tool), "async_generator_tool() is an async generator"),
    (lambda: Server("s").method("a/b")(lambda ctx: {}), "the method 'a/b' has to take (ctx, params)"),
    (lambda: Guard("mcp.example.com"), "allowed_hosts is a list, such as ['mcp.example.com']"),
    (lambda: Guard(["https://mcp.example.com"]), "allowed_hosts has names without scheme and path"),
    (lambda: Guard(["mcp.example.com/mcp"]), "not 'mcp.example.com/mcp'"),
    (
        lambda: Guard(None, ["app.example.com"]),
        "allowed_origins has a scheme and a host, such as https://app.example.com",
    ),
    (lambda: Guard(None, ["https://app.example.com/x"]), "and no path: not 'https://app.example.com/x'"),
]


async def async_generator_tool(ctx: Context) -> AsyncIterator[str]:
    yield "x"


@pytest.mark.parametrize(("make", "wanted"), WRONG, ids=[wanted for _, wanted in WRONG])
def test_what_cannot_work_is_told_where_it_is_given(make: Any, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(wanted)) as caught:
        make()
    assert "Handler" not in str(caught.value) and "__init__" not in str(caught.value)


def test_what_can_work() -> None:
    Limits(ask_timeout=None, away=None, page=None, sessions=0, listeners=0, grace=0, session_idle=math.inf)
    Limits(threads=math.inf, in_flight=1)  # type: ignore[arg-type]
    assert listed("names", ("a", "b")) == ["a", "b"]
    number("n", 0)
    takes("f", len, "it")
    takes("f", lambda *args: None, "a", "b")
    takes("f", dict.fromkeys, "a", "b")
    known("f", {}, lambda: None)
    Guard(["*", "[::1]:80"], ["*", "null", "https://app.example.com/", "vscode-webview://abc"])
