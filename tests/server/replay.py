"""A server driven message by message, with no client that would hide anything, on either era."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel.protocol.jsonrpc import Notification, Outcome, Request, decode, encode
from backchannel.protocol.versions import Version
from backchannel.server.channel import read
from backchannel.server.dispatch import Dispatcher, start
from backchannel.server.exchange import Exchange, Principal
from backchannel.server.server import Server
from backchannel.server.session import Session
from backchannel.server.streams import EventStream

LEGACY, MODERN = "2025-11-25", "2026-07-28"
both_eras = pytest.mark.parametrize("version", [LEGACY, MODERN])
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}}
Message = dict[str, Any]

YES = {"action": "accept", "content": {"value": True}}
DECLINED = {"action": "decline"}
ROOTS = {"roots": [{"uri": "file:///srv"}]}
SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"}


def accept(value: Any) -> Message:
    """The answer to a question for one value."""
    return {"action": "accept", "content": {"value": value}}


class Driver:
    """The client's end of a session, as messages.

    sent: all messages of the server that were read.  last: the exchange of the last request.  fetches_roots: the
    session does, once it is ready.
    """

    fetches_roots = False

    def __init__(
        self, dispatcher: Dispatcher, version: str, capabilities: dict[str, Any], principal: Principal | None = None
    ):
        self.dispatcher = dispatcher
        self.version = version
        self.capabilities = capabilities
        self.session = Session(EventStream(), principal=principal)
        self.sent: list[Message] = []
        self.last: Exchange | None = None
        self._id = 100

    @property
    def modern(self) -> bool:
        return Version(self.version).is_modern

    @property
    def told(self) -> list[tuple[str, Message]]:
        return [(m["method"], m.get("params", {})) for m in self.sent if "method" in m and "id" not in m]

    @property
    def progress(self) -> list[float]:
        return [params["progress"] for method, params in self.told if method == "notifications/progress"]

    @property
    def logged(self) -> list[Any]:
        return [params["data"] for method, params in self.told if method == "notifications/message"]

    async def bring_up(self, initialized: bool = True) -> None:
        if self.modern:
            return
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "driver", "version": "0"},
        }
        await self.serve(self.exchange("initialize", params))
        await self.next()
        if not self.fetches_roots:
            self.session.roots = None
        if initialized:
            self.tell("notifications/initialized")

    def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self.session.receive(decode(encode(Notification(method, params))))

    def answer(self, question: Message, result: Any = None, error: Any = None) -> None:
        """Answer a reverse call."""
        reply = {"result": result} if error is None else {"error": error}
        self.session.receive(decode(json.dumps({"jsonrpc": "2.0", "id": question["id"], **reply}).encode()))

    def exchange(self, method: str, params: Message, **changes: Any) -> Exchange:
        """A request, received and not yet served."""
        self._id += 1
        if self.modern:
            meta = {
                "io.modelcontextprotocol/protocolVersion": self.version,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            }
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        request = decode(encode(Request(self._id, method, params)))
        assert isinstance(request, Request)
        self.session.receive(request)
        exchange = read(request, self.session, self.session.stream, self.dispatcher.server.methods)
        for name, value in changes.items():
            setattr(exchange, name, value)
        self.session.peer.serve(request.id, exchange)
        self.last = exchange
        return exchange

    def tool(self, name: str, arguments: Message | None = None, **params: Any) -> Exchange:
        """A `tools/call`. params: further members, such as `_meta`, `requestState`, `inputResponses`."""
        return self.exchange("tools/call", {"name": name, "arguments": arguments or {}, **params})

    async def serve(self, exchange: Exchange) -> Outcome:
        """Serve a request as the channel does. The response is the last of its messages."""
        try:
            response = self.dispatcher.at_once(exchange) or await self.dispatcher(exchange)
        except BaseException:
            self.session.peer.finish(exchange.request.id, exchange)
            raise
        if self.session.peer.finish(exchange.request.id, exchange):
            self.session.stream.append(response)
        return response

    async def next(self) -> Message:
        """The next message of the server, waiting for it."""
        message = await self.session.stream.next()
        assert message is not None
        self.sent.append(json.loads(encode(message)))
        return self.sent[-1]

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        """The next message of a kind; those before it are in `sent`."""
        while True:
            message = await self.next()
            if wanted(message):
                return message

    async def call(self, name: str, arguments: Message | None = None, **params: Any) -> Message:
        """One round of a call that asks by MRTR, or by nothing at all. Returns the response."""
        exchange = self.tool(name, arguments, **params)
        await self.serve(exchange)
        return await self.until(lambda message: message.get("id") == exchange.request.id and "method" not in message)

    async def rounds(
        self, name: str, answers: Callable[[str, Message], Any], arguments: Message | None = None, **params: Any
    ) -> Message:
        """A whole call in either era. answers: takes key (modern) or "" (legacy) and the question, gives the result;
        None leaves a question of a modern round without an answer. Returns the final response."""
        if not self.modern:
            return await self._reverse(self.tool(name, arguments, **params), answers)
        retry: Message = {}
        for _ in range(33):
            response = await self.call(name, arguments, **params, **retry)
            result = response.get("result", {})
            if result.get("resultType") != "input_required":
                return response
            given = {key: answers(key, q) for key, q in result.get("inputRequests", {}).items()}
            responses = {key: value for key, value in given.items() if value is not None}
            retry = {"inputResponses": responses, "requestState": result["requestState"]}
        raise AssertionError("the rounds have no end")

    async def _reverse(self, exchange: Exchange, answers: Callable[[str, Message], Any]) -> Message:
        async with anyio.create_task_group() as group:
            group.start_soon(self.serve, exchange)
            while True:
                message = await self.next()
                if "method" in message and "id" in message:
                    self.answer(message, answers("", message))
                elif message.get("id") == exchange.request.id:
                    return message

    async def idle(self) -> None:
        """Wait until no step runs, and check that nothing is left of any call."""
        while self.dispatcher.nursery.running:
            await anyio.lowlevel.checkpoint()
        assert (self.session.peer.pending, self.session.peer.serving) == (0, 0)
        if self.last is not None:
            assert self.last.finished and (self.last.inputs is None or self.last.inputs.ended)


@asynccontextmanager
async def driver(
    server: Server,
    version: str = MODERN,
    capabilities: dict[str, Any] | None = None,
    principal: Principal | None = None,
) -> AsyncIterator[Driver]:
    """A started server with a session that is ready."""
    async with start(server) as dispatcher:
        one = Driver(dispatcher, version, ALL if capabilities is None else capabilities, principal)
        await one.bring_up()
        yield one


def text(response: Message) -> str:
    """The text of a tool's result that is no error."""
    assert not response["result"].get("isError"), response
    return str(response["result"]["content"][0]["text"])


def failed(response: Message) -> str:
    """The text of a tool's result that is an error."""
    assert response["result"].get("isError"), response
    return str(response["result"]["content"][0]["text"])


def asked(response: Message) -> Message:
    """The questions of a round, by key."""
    assert response["result"]["resultType"] == "input_required", response
    requests = response["result"]["inputRequests"]
    assert isinstance(requests, dict)
    return requests


def retry(response: Message, **answers: Any) -> Message:
    """The members that answer a round."""
    return {"requestState": response["result"]["requestState"], "inputResponses": answers}


def message_of(question: Message) -> str:
    """The text that the person sees."""
    return str(question["params"]["message"])
