"""A started server: takes an exchange, gives its response.

How it works: the method table says what exists. For a method that may ask, the inputs are chosen here and nowhere else,
and here alone the suspension of a handler is known: when the handler has ended, in whatever way, the state of its
inputs says whether the round is over, never the exception that came out. Middleware is an onion around all that and
sees a suspended round as the result that goes on the wire.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import msgspec

from ..errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallFinished,
    CannotAskHere,
    LocalProtocolError,
    StateRejected,
    ToolError,
    UrlRequired,
)
from ..nursery import Nursery, current_task
from ..one_line import one_line
from ..protocol.journal import Journal
from ..protocol.jsonrpc import ErrorObject, ErrorResponse, Outcome, Response
from ..protocol.types.base import Wire
from ..protocol.types.mrtr import InputRequiredResult
from ..protocol.types.requests import LEVELS
from ..protocol.versions import finish
from .advice import advise
from .context import Context
from .direct import DirectInputs
from .exchange import Exchange
from .explicit import InputRequired
from .failures import describe
from .gauges import Tally
from .handler import Handler
from .inputs import Inputs
from .journaled import JournaledInputs
from .lookout import POLL_INTERVAL
from .middleware import CallNext, layer
from .options import called
from .pages import Page
from .question import Suspend
from .results import to_result
from .simple import simple_methods
from .single_use import serve_once
from .state import Binding, Flow, digest
from .threads import Threads
from .visits import visit

if TYPE_CHECKING:
    from .server import Server

logger = logging.getLogger("backchannel.server")


@asynccontextmanager
async def start(server: Server) -> AsyncIterator[Dispatcher]:
    """Start a server: enter its lifespan, and own its tasks until the end.

    Raises: ConfigurationError for a completion of what was never registered; what the lifespan raises.
    """
    server.completions.check(server.completable())
    nursery = Nursery()
    async with AsyncExitStack() as stack:
        lifespan = None
        if server.lifespan is not None:
            lifespan = await stack.enter_async_context(server.lifespan(server))
        dispatcher = Dispatcher(server, nursery, lifespan)
        stack.enter_context(server.counted(dispatcher.tally))
        stack.push_async_callback(dispatcher.threads.close)
        stack.push_async_callback(nursery.close)  # before the lifespan ends, whose value its tasks use
        stack.push_async_callback(nursery.settle, server.limits.grace)
        try:
            yield dispatcher
        finally:
            dispatcher.closing.set()


class Dispatcher:
    """Serves exchanges, from any transport."""

    def __init__(self, server: Server, nursery: Nursery, lifespan: Any):
        self.server = server
        self.nursery = nursery
        self.lifespan = lifespan
        self.tally = Tally(nursery)
        self.threads = Threads(server.limits.threads)
        self.closing = anyio.Event()
        self._scope = type(anyio.CancelScope())  # this event loop's, which anyio looks for anew each time
        self._askable: dict[str, Callable[[Exchange], Handler]] = {
            "tools/call": server.tools.find,
            "prompts/get": server.prompts.find,
            "resources/read": server.resources.find,
        }
        self._simple = simple_methods(server, self.threads.seats, self.closing, nursery, lifespan)

    async def __call__(self, exchange: Exchange) -> Outcome:
        """Serve one request. Never raises, but for cancellation and the end of the program."""
        store = self.server.state.store
        counts = not (exchange.claimed or exchange.method.standing)
        self.tally.calls += counts
        try:
            if store is not None and (state := self._claimed(exchange)):
                return await serve_once(self.server.state, state, exchange, self)
            result = await (self._through(exchange) if self.server.middlewares else self._core(exchange))
            return Response(exchange.request.id, self._finish(exchange, result))
        except BaseException as error:
            if _is_final(error):
                raise
            return self._failed(exchange, error)
        finally:
            exchange.finished, exchange.inputs = True, None
            self.tally.calls -= counts

    def at_once(self, exchange: Exchange) -> Outcome | None:
        """The response to a request whose handler is done when it is called, as it waits for nothing and has nobody to
        ask: there is nothing that could be cancelled, and no stream. None for any other, which is to be called. Raises
        nothing."""
        find, params = self._askable.get(exchange.name), exchange.params
        if find is None or params.request_state is not None or params.input_responses or self.server.middlewares:
            return None
        if exchange.cancelled or ((level := params.meta.log_level) is not None and level not in LEVELS):
            return None
        self.tally.calls += 1
        try:
            handler = exchange.handler = find(exchange)
            result = handler.now(exchange) if handler.at_once else None
            if result is None:
                return None
            outcome: Outcome = Response(exchange.request.id, self._finish(exchange, result))
        except Exception as error:
            outcome = self._failed(exchange, error)
        finally:
            self.tally.calls -= 1
        exchange.finished = True
        return outcome

    async def restore(self, exchange: Exchange) -> None:
        """Bring a session up in this place too, with the `initialize` that began it in another."""
        await self._simple["initialize"](exchange)

    def _claimed(self, exchange: Exchange) -> str:
        """What names the genuine state of a later round, which is to be used once; else ""."""
        token = getattr(exchange.params, "request_state", None)
        if exchange.claimed or token is None or not exchange.version.is_modern:
            return ""
        exchange.claimed = True
        exchange.flow, identity = self.server.state.claim(token, self._binding(exchange), self.server.name)
        return identity

    def _failed(self, exchange: Exchange, error: BaseException) -> Outcome:
        answer = describe(error, exchange, self.server.debug)
        if isinstance(answer, ErrorObject):
            return ErrorResponse(exchange.request.id, answer)
        return Response(exchange.request.id, self._finish(exchange, answer))

    def _finish(self, exchange: Exchange, result: Any) -> Any:
        """The result as it goes on the wire."""
        if isinstance(result, Page):
            return result.encoded
        if exchange.name == "tools/call" and not isinstance(result, Wire):
            result = to_result(result, None)
        given = result if isinstance(result, Wire) else dict(result)
        return finish(exchange.version, exchange.name, given, self.server.info)

    async def _through(self, exchange: Exchange) -> Any:
        """The result by way of the onion of middleware around the core; first registered is outermost."""
        call: CallNext = self._inmost
        for middleware in reversed(self.server.middlewares):
            call = layer(middleware, call)
        with self._scope() as exchange.around:
            if exchange.cancelled:
                exchange.around.cancel()
            return _kept(exchange, await call(Context(exchange, self.lifespan)))
        raise CallFinished("the client cancelled the request")

    async def _inmost(self, context: Context) -> Any:
        return await self._core(context.exchange)

    def _core(self, exchange: Exchange) -> Awaitable[Any]:
        """What gives the result."""
        level = exchange.params.meta.log_level
        if level is not None and level not in LEVELS:
            raise LocalProtocolError(INVALID_PARAMS, f"Invalid params: unknown log level {level[:50]!r}")
        find = self._askable.get(exchange.name)
        if find is not None:
            return self._ask(exchange, exchange.handler or find(exchange))
        simple = self._simple.get(exchange.name)
        if simple is not None:
            return simple(exchange)
        raw = self.server.raw.get(exchange.name)
        if raw is None:
            raise LocalProtocolError(METHOD_NOT_FOUND, f"Method not found: {exchange.name}")
        return self._raw(exchange, raw)

    async def _raw(self, exchange: Exchange, raw: Callable[..., Awaitable[Any]]) -> Any:
        context = Context(exchange, self.lifespan)
        params = msgspec.json.decode(exchange.request.params or b"{}")
        result = await exchange.unless_cancelled(raw(context, params))
        if result is None:
            raise TypeError(f"{called(raw)} returned None: a method returns a dict, which may be empty")
        return _kept(exchange, result)

    async def _ask(self, exchange: Exchange, handler: Handler) -> Any:
        """Run a handler that may ask, under the limit of its time, until it ends or its round does."""
        timeout = handler.timeout
        inputs = self._inputs(exchange, handler.threaded) or await self._later_round(exchange, handler.threaded)
        deadline = anyio.current_time() + timeout if timeout is not None else math.inf
        with self._scope(deadline=deadline) as scope:
            exchange.scope = scope
            if exchange.cancelled:
                scope.cancel()
                await anyio.lowlevel.checkpoint_if_cancelled()  # so that the handler does not even begin
            while True:
                exchange.inputs, inputs.sampler, inputs.within = inputs, self.server.sampler, self.server.roots
                try:
                    result = await self._handle(exchange, inputs, handler)
                finally:
                    inputs.close()
                if not inputs.suspended or exchange.version.is_modern:
                    return result
                inputs = await self._answered(exchange, inputs, handler.threaded)
        if exchange.cancelled:
            raise CallFinished("the client cancelled the request")
        raise ToolError(f"the tool took longer than its limit of {timeout:g} s")

    async def _handle(self, exchange: Exchange, inputs: Inputs, handler: Handler) -> Any:
        """One run of a handler. Once its inputs are stopped, they say how the round ends, and the handler does not."""
        result: Any = None
        how = "returned"
        try:
            context = Context(exchange, self.lifespan, inputs)
            if self.server.ask_middlewares:
                inputs.around = [partial(middleware, context) for middleware in self.server.ask_middlewares]
            result = await handler.answer(context, exchange, self.threads)
        except BaseException as error:
            if isinstance(error, UrlRequired) and not inputs.stopped:
                result = await visit(error, inputs, self.nursery)
            elif not inputs.stopped or (type(error) is not Suspend and _is_final(error)):
                raise
            how = "" if type(error) is Suspend or _holds(error, Suspend) else f"raised {type(error).__name__}"
        if inputs.suspended:
            self._look_back(inputs, handler, how)
        elif inputs.failure is None:
            await inputs.settle()
            if isinstance(result, InputRequired):
                inputs.require(result)
        if inputs.failure is not None:
            raise inputs.failure
        if not inputs.suspended:
            return result
        for step in inputs.steps:  # so that it is recorded
            await step.wait()
        if exchange.version.is_modern:
            inputs.asked = await self._question(exchange, inputs)
        return inputs.asked

    async def _answered(self, exchange: Exchange, inputs: Inputs, threaded: bool) -> Inputs:
        """The next round where the session can be asked directly: here the server asks, by reverse calls, and enters
        the handler again."""
        state = self.server.state
        state.check_round(inputs.round)
        journal = Journal.load(inputs.dump())
        timeout, number = self.server.limits.ask_timeout, inputs.round + 1
        direct = DirectInputs(exchange, self.nursery, threaded, timeout, journal, inputs.call_id)
        if inputs.asks:
            await direct.fetch(inputs.asks, state.clock())
        else:
            await anyio.sleep(POLL_INTERVAL)
        following = JournaledInputs(exchange, self.nursery, threaded, inputs.call_id, journal, number, state.clock)
        following.asking = direct.reach
        return following

    def _inputs(self, exchange: Exchange, threaded: bool) -> Inputs | None:
        """The one place that chooses how a handler's questions get to the client. None for a later round."""
        params, state = exchange.params, self.server.state
        if not exchange.version.is_modern:
            direct = DirectInputs(exchange, self.nursery, threaded, self.server.limits.ask_timeout)
            if not self.server.always_replay:
                return direct
            inputs = JournaledInputs(exchange, self.nursery, threaded, clock=state.clock)
            inputs.asking = direct.reach
            return inputs
        if params.request_state is not None:
            return None
        inputs = JournaledInputs(exchange, self.nursery, threaded, clock=state.clock)
        if params.input_responses:
            inputs.loose = params.input_responses
        return inputs

    async def _later_round(self, exchange: Exchange, threaded: bool) -> Inputs:
        """The inputs of a round that brings its state."""
        params, state = exchange.params, self.server.state
        flow = exchange.flow or state.open(params.request_state, self._binding(exchange), self.server.name)
        if flow.stored:
            exchange.unused = True  # unless the journal is there
            flow = await state.fetched(flow)
            exchange.unused = False
        try:
            journal = Journal.load(flow.journal)
            inputs = JournaledInputs(
                exchange, self.nursery, threaded, flow.call_id, journal, flow.round + 1, clock=state.clock
            )
        except msgspec.DecodeError:
            raise StateRejected from None
        inputs.started = flow.started
        inputs.answer(params.input_responses or {})
        return inputs

    async def _question(self, exchange: Exchange, inputs: Inputs) -> InputRequiredResult:
        """The result that asks: the open questions, and the journal sealed."""
        assert isinstance(inputs, JournaledInputs)
        flow = Flow(inputs.call_id, inputs.round, inputs.started, inputs.dump())
        exchange.unused = True  # unless the next state is made
        token = await self.server.state.pack(flow, self._binding(exchange), self.server.info.name)
        exchange.unused = False
        return InputRequiredResult(
            result_type="input_required", input_requests=inputs.requests or None, request_state=token
        )

    def _binding(self, exchange: Exchange) -> Binding:
        principal, arguments = exchange.principal, getattr(exchange.params, "arguments", None)
        raw = arguments if type(arguments) is msgspec.Raw else msgspec.json.encode(arguments) if arguments else None
        return Binding(exchange.name, exchange.target, digest(raw), principal.key if principal else None)

    def _look_back(self, inputs: Inputs, handler: Handler, how: str) -> None:
        """Tell the author what the handler does around its questions that it should not. how: it ended, if not by the
        suspension."""
        assert isinstance(inputs, JournaledInputs)
        if not handler.advised:
            handler.advised = True
            advise(handler.function, handler.signature.context, inputs.stopped_at)
        if how:
            logger.warning(
                "%s:%d: the handler %s although its question was not answered yet; that was discarded. Something "
                "around this line caught the signal that suspends the call: catch Exception instead of BaseException, "
                "do not return from a finally block, and do not gather with return_exceptions=True",
                *inputs.stopped_at,
                how,
            )


def _kept(exchange: Exchange, result: Any) -> Any:
    """What middleware made of a result. It cannot replace questions, which the client would not see, nor ask any.

    Raises: CannotAskHere.
    """
    asked = exchange.inputs.asked if exchange.inputs is not None else None
    if asked is None and isinstance(result, InputRequired):
        raise CannotAskHere(
            f"{exchange.name} cannot ask the client here: only the handlers of tools, prompts and resources can return "
            "InputRequired"
        )
    if asked is None or isinstance(result, InputRequiredResult):
        return result
    logger.warning("middleware replaced the questions of %s; they were sent as they were", one_line(exchange.target))
    return asked


def _is_final(error: BaseException) -> bool:
    """Whether an exception ends more than its handler: the program, or the task, because of somebody outside. What only
    looks like a cancellation does not, such as that of another task, which the handler awaited."""
    if _holds(error, KeyboardInterrupt, SystemExit):
        return True
    if not _holds(error, anyio.get_cancelled_exc_class()):
        return False
    cancelling = getattr(current_task(), "cancelling", None)  # asyncio's own cancellation, which no scope knows of
    return anyio.current_effective_deadline() == -math.inf or (cancelling is not None and cancelling() > 0)


def _holds(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_holds(inner, *kinds) for inner in error.exceptions)
    return isinstance(error, kinds)
