"""A started server: takes an exchange, gives its response.

How it works: the method table says what exists. For a method that may ask, the inputs are chosen here and nowhere else,
and here alone the suspension of a handler is known: when the handler has ended, in whatever way, the state of its
inputs says whether the round is over, never the exception that came out. Middleware is an onion around all that and
sees a suspended round as the result that goes on the wire.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallFinished,
    LocalProtocolError,
    StateRejected,
    ToolError,
)
from ..nursery import Nursery
from ..protocol.journal import Journal
from ..protocol.jsonrpc import ErrorObject, ErrorResponse, Outcome, Response
from ..protocol.types.base import Wire
from ..protocol.types.bringup import DiscoverResult, InitializeParams, InitializeResult
from ..protocol.types.mrtr import InputRequiredResult
from ..protocol.types.requests import LEVELS, SetLevelParams
from ..protocol.versions import SUPPORTED, finish
from .context import Context
from .exchange import Exchange
from .failures import describe
from .inputs import DirectInputs, Inputs
from .journaled import JournaledInputs
from .question import Suspend
from .results import to_result
from .state import Binding, Flow, digest
from .tools import ToolHandler

if TYPE_CHECKING:
    from .server import Server

logger = logging.getLogger("backchannel.server")
Next = Callable[[Context], Awaitable[Any]]


@asynccontextmanager
async def start(server: Server) -> AsyncIterator[Dispatcher]:
    """Start a server: enter its lifespan, and own its tasks until the end."""
    nursery = Nursery()
    async with AsyncExitStack() as stack:
        lifespan = None
        if server.lifespan is not None:
            lifespan = await stack.enter_async_context(server.lifespan(server))
        stack.push_async_callback(nursery.close)  # before the lifespan ends, whose value its tasks use
        yield Dispatcher(server, nursery, lifespan)


class Dispatcher:
    """Serves exchanges, from any transport."""

    def __init__(self, server: Server, nursery: Nursery, lifespan: Any):
        self.server = server
        self.nursery = nursery
        self.lifespan = lifespan
        self._limiter = anyio.CapacityLimiter(server.limits.threads)
        self._simple: dict[str, Callable[[Exchange], Awaitable[Wire | dict[str, Any]]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "logging/setLevel": self._set_level,
        }

    async def __call__(self, exchange: Exchange) -> Outcome:
        """Serve one request. Never raises, but for cancellation."""
        try:
            result = await self._through(Context(exchange, self.lifespan))
            return Response(exchange.request.id, self._finish(exchange, result))
        except Exception as error:
            answer = describe(error, exchange, self.server.debug)
        finally:
            exchange.finished = True
            if exchange.inputs is not None:
                exchange.inputs.close()
        if isinstance(answer, ErrorObject):
            return ErrorResponse(exchange.request.id, answer)
        return Response(exchange.request.id, self._finish(exchange, answer))

    def _finish(self, exchange: Exchange, result: Any) -> dict[str, Any]:
        """The result as it goes on the wire. The state of the inputs has the last word: middleware cannot replace
        questions."""
        inputs = exchange.inputs
        if inputs is not None and inputs.suspended and not isinstance(result, InputRequiredResult):
            logger.warning("middleware replaced the questions of %s; they were sent as they were", exchange.target)
            result = self._question(exchange, inputs)
        if exchange.name == "tools/call" and not isinstance(result, Wire):
            result = to_result(result, None)
        members = result.members() if isinstance(result, Wire) else dict(result)
        return finish(exchange.version, exchange.name, members, self.server.info)

    @property
    def _through(self) -> Next:
        """The onion of middleware around the core; first registered is outermost."""
        call: Next = self._core
        for middleware in reversed(self.server.middlewares):
            call = _layer(middleware, call)
        return call

    async def _core(self, context: Context) -> Any:
        exchange = context.exchange
        level = exchange.params.meta.log_level
        if level is not None and level not in LEVELS:
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: unknown log level {level[:50]!r}")
        if exchange.name == "tools/call":
            return await self._ask(exchange, self.server.tools.find(exchange))
        simple = self._simple.get(exchange.name)
        if simple is None:
            raise LocalProtocolError(METHOD_NOT_FOUND, f"Method not found: {exchange.name}")
        return await simple(exchange)

    async def _ask(self, exchange: Exchange, handler: ToolHandler) -> Any:
        """Run a handler that may ask, under the limit of its time, until it ends or its round does."""
        timeout = handler.timeout
        inputs = exchange.inputs = self._inputs(exchange, handler.threaded)
        context = Context(exchange, self.lifespan, handler.threaded)
        deadline = anyio.current_time() + timeout if timeout is not None else math.inf
        with anyio.CancelScope(deadline=deadline) as scope:
            exchange.scope = scope
            if exchange.cancelled:
                scope.cancel()
            result = await self._handle(exchange, inputs, handler, context)
        if scope.cancelled_caught:
            if exchange.cancelled:
                raise CallFinished("the client cancelled the request")
            raise ToolError(f"the tool took longer than its limit of {timeout:g} s")
        return result

    async def _handle(self, exchange: Exchange, inputs: Inputs, handler: ToolHandler, context: Context) -> Any:
        ended_by: BaseException | None = None
        result: Any = None
        try:
            result = await self.server.tools.call(handler, context, exchange.params, self._limiter)
            await inputs.settle()
        except BaseException as error:
            ended_by = error
            if _is_final(error, exchange) or not _is_stopped(inputs):
                raise
        if not _is_stopped(inputs):
            return result
        assert isinstance(inputs, JournaledInputs)
        if inputs.failure is not None:
            raise inputs.failure
        await inputs.finish_steps()
        if not _contains_suspend(ended_by) and inputs.journal.frontier != "\n":
            self._complain(inputs, ended_by)
        return self._question(exchange, inputs)

    def _inputs(self, exchange: Exchange, threaded: bool) -> Inputs:
        """The one place that chooses how a handler's questions get to the client."""
        if not exchange.version.is_modern:
            return DirectInputs(
                exchange, self.nursery, uuid.uuid4().hex, threaded, timeout=self.server.limits.ask_timeout
            )
        params, state = exchange.params, self.server.state
        if params.request_state is None:
            return JournaledInputs(exchange, self.nursery, uuid.uuid4().hex, threaded, clock=state.clock)
        flow = state.open(params.request_state, self._binding(exchange), self.server.name)
        try:
            journal = Journal.load(flow.journal)
        except msgspec.DecodeError:
            raise StateRejected from None
        inputs = JournaledInputs(
            exchange, self.nursery, flow.call_id, threaded, journal, flow.round + 1, clock=state.clock
        )
        inputs.started = flow.started
        inputs.answer(params.input_responses or {})
        return inputs

    def _question(self, exchange: Exchange, inputs: Inputs) -> InputRequiredResult:
        """The result that asks: the open questions, and the journal sealed."""
        assert isinstance(inputs, JournaledInputs)
        flow = Flow(inputs.call_id, inputs.round, inputs.started, inputs.journal.dump())
        token = self.server.state.seal(flow, self._binding(exchange), self.server.name)
        return InputRequiredResult(
            result_type="input_required", input_requests=inputs.requests or None, request_state=token
        )

    def _binding(self, exchange: Exchange) -> Binding:
        principal = exchange.principal
        arguments = digest(getattr(exchange.params, "arguments", None) or None)
        return Binding(exchange.name, exchange.target, arguments, principal.key if principal else None)

    def _complain(self, inputs: JournaledInputs, ended_by: BaseException | None) -> None:
        file, line = inputs.stopped_at
        what = f"raised {type(ended_by).__name__}" if ended_by is not None else "returned"
        logger.warning(
            "%s:%d: the handler %s although its question was not answered yet; that was discarded. Something around "
            "this line caught the signal that suspends the call: catch Exception instead of BaseException, and do not "
            "return from a finally block",
            file,
            line,
            what,
        )

    # The methods that ask nothing.

    async def _initialize(self, exchange: Exchange) -> InitializeResult:
        params: InitializeParams = exchange.params
        assert exchange.session is not None
        exchange.version = exchange.session.initialize(params)
        server = self.server
        return InitializeResult(exchange.version, server.capabilities(), server.info, server.instructions)

    async def _discover(self, exchange: Exchange) -> DiscoverResult:
        server = self.server
        return DiscoverResult([version.value for version in SUPPORTED], server.capabilities(), server.instructions)

    async def _list_tools(self, exchange: Exchange) -> Wire:
        return await self.server.tools.list(exchange.params)

    async def _set_level(self, exchange: Exchange) -> dict[str, Any]:
        params: SetLevelParams = exchange.params
        if params.level not in LEVELS:
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: unknown log level {params.level[:50]!r}")
        if exchange.session is None:
            raise LocalProtocolError(INTERNAL_ERROR, "a log level needs a session to be kept in")
        exchange.session.log_level = params.level
        return {}


def _layer(middleware: Callable[[Context, Next], Awaitable[Any]], inner: Next) -> Next:
    async def call(context: Context) -> Any:
        return await middleware(context, inner)

    return call


def _is_stopped(inputs: Inputs) -> bool:
    return inputs.suspended or getattr(inputs, "failure", None) is not None


def _is_final(error: BaseException, exchange: Exchange) -> bool:
    """Exceptions that win over a suspension: the end of the program, and of the call."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return True
    cancelled = exchange.scope is not None and exchange.scope.cancel_called
    return cancelled or (isinstance(error, anyio.get_cancelled_exc_class()) and not isinstance(error, Suspend))


def _contains_suspend(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_contains_suspend(inner) for inner in error.exceptions)
    return isinstance(error, Suspend)
