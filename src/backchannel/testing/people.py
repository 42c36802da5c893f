"""People who answer by a script, and notice where what is asked is not what the script has.

How it works: `handlers` answer the questions of one Client, and the object itself is a middleware around its answers,
without which `garbage()` would not get past the client's checks. A server hears of what the script does not have as an
error, and may make anything of it; so the first fault is kept, and raised at the end of the `with` block.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

from ..client.asked import Asked
from ..errors import INTERNAL_ERROR, INVALID_PARAMS, ConfigurationError, LocalProtocolError
from ..protocol.types.content import TextContent
from ..protocol.types.elicitation import ElicitParams
from ..protocol.types.sampling import CreateMessageParams
from .answer import ELICIT, ROOTS, SAMPLE, Answer, as_answer

Script = Sequence[Any] | Mapping[str | re.Pattern[str], Any]
"""Answers in order; or by a part of the question's text, or a pattern for it. There an answer serves as often as it is
asked for, and a list of answers in order."""
_OURS = f"{__name__.partition('.')[0]}."
_METHOD_OF = {"elicit": ELICIT, "elicit_url": ELICIT, "sample": SAMPLE, "roots": ROOTS}


class ScriptError(LocalProtocolError, AssertionError):
    """What was asked is not what the script has answers for, or the other way round."""

    def __init__(self, message: str):
        super().__init__(INTERNAL_ERROR, message)


class People:
    """The person, and the model, at one client.

    script: answers, or what `as_answer` takes for one.  In a list each question takes the first one left that is of its
    kind. A mapping has answers by a part of the question's text, or a pattern.  without: handlers that somebody else
    gives, such as "elicit".

    `with` it around the client's life: at the end it raises ScriptError for a question that it had no answer for, and
    for answers that are left over.

    Raises: ConfigurationError for what is no script.
    """

    def __init__(self, script: Script, *, without: Collection[str] = ()):
        self.failure: ScriptError | None = None
        self._without = without
        self._queues: list[tuple[str | re.Pattern[str] | None, list[Answer], bool]] = []
        self._used: set[int] = set()
        if isinstance(script, Mapping):
            for key, value in script.items():
                many = isinstance(value, list)
                self._queues.append((key, [as_answer(one) for one in (value if many else [value])], many))
        elif isinstance(script, Sequence) and not isinstance(script, str | bytes):
            self._queues.append((None, [as_answer(value) for value in script], True))
        else:
            raise ConfigurationError(f"people is a list of answers, or a dict of them: write people=[{script!r}]")

    def handlers(self) -> dict[str, Any]:
        """The keyword arguments of a Client whose questions they answer. Forms and pages always; completions and roots
        if there is an answer that could be one."""
        methods = {method for _, answers, _ in self._queues for answer in answers for method in answer.methods}
        roots = any(answer.methods == {ROOTS} for _, answers, _ in self._queues for answer in answers)
        given: dict[str, Any] = {"elicit": self._elicit, "elicit_url": self._elicit}
        if SAMPLE in methods:
            given |= {"sample": self._sample, "sample_tools": True, "sample_context": True}
        if roots:
            given["roots"] = self._roots
        return {name: handler for name, handler in given.items() if name not in self._without}

    async def __call__(self, asked: Asked, call_next: Callable[[Asked], Awaitable[Any]]) -> Any:
        """The middleware: `client.answer_middleware(people)`."""
        method, question = asked.method, asked.params
        if method not in {_METHOD_OF[name] for name in self.handlers() if name in _METHOD_OF}:
            return await call_next(asked)
        found = self._find(method, _text(question))
        if found is not None and found[1].raw:
            return await self._take(method, question).answer(question)
        try:
            return await call_next(asked)
        except LocalProtocolError as error:
            if found is None or isinstance(error, ScriptError) or error.code not in (INVALID_PARAMS, INTERNAL_ERROR):
                raise
            text = f"{found[1]!r} is no answer to {_shown(method, question)}: {error.__cause__ or error}"
            raise self._fail(f"{text}{self._taken_for(method)}") from error

    async def _elicit(self, question: ElicitParams) -> Any:
        return await self._take(ELICIT, question)(question)

    async def _sample(self, question: CreateMessageParams) -> Any:
        return await self._take(SAMPLE, question)(question)

    async def _roots(self) -> Any:
        return await self._take(ROOTS, None)(None)

    def _find(self, method: str, text: str) -> tuple[int, Answer] | None:
        """The next answer for a question, and where it is."""
        for place, (key, answers, _) in enumerate(self._queues):
            matches = key is None or (key in text if isinstance(key, str) else key.search(text) is not None)
            answer = next((answer for answer in answers if method in answer.methods), None) if matches else None
            if answer is not None:
                return place, answer
        return None

    def _take(self, method: str, question: Any) -> Answer:
        found = self._find(method, _text(question))
        if found is None:
            left = self._left()
            which = f"; what is left: {left}" if left else ""
            raise self._fail(f"the script has no answer to {_shown(method, question)}{which}{self._taken_for(method)}")
        place, answer = found
        self._used.add(place)
        _, answers, many = self._queues[place]
        if many:
            answers.remove(answer)
        return answer

    def _fail(self, text: str) -> ScriptError:
        error = ScriptError(text)
        self.failure = self.failure or error
        return error

    def _taken_for(self, method: str) -> str:
        """What answers that are left count as, where the person who wrote them may have meant a form."""
        left = [answer for _, answers, _ in self._queues for answer in answers] if method == ELICIT else []
        for kind, what in ((SAMPLE, "a text counts as say(...), for a model"), (ROOTS, "a list counts as roots")):
            if (answer := next((one for one in left if one.methods == {kind}), None)) is not None:
                return f"; {what}: for a form write accept({answer.shown.partition('(')[2]}"
        return ""

    def _left(self) -> str:
        left = []
        for place, (key, answers, many) in enumerate(self._queues):
            if answers and (many or place not in self._used):
                where = "" if key is None else f"{key if isinstance(key, str) else key.pattern!r}: "
                left += [f"{where}{answer!r}" for answer in answers]
        return ", ".join(left)

    def finish(self) -> None:
        """Raises: ScriptError for a question that had no answer, and for answers that nobody asked for."""
        if self.failure is not None:
            raise ScriptError(self.failure.message)  # without the frames of the client's tasks
        if left := self._left():
            raise ScriptError(f"the script has answers that nobody asked for: {left}")

    def __enter__(self) -> People:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True  # for pytest
        if error is None:
            self.finish()
        elif isinstance(error, ScriptError):
            raise ScriptError(error.message).with_traceback(_outside(trace)) from None
        elif self.failure is not None and isinstance(error, Exception):
            first = ScriptError(self.failure.message)
            first.add_note(f"After that the test failed: {type(error).__name__}: {error}")
            raise first.with_traceback(_outside(trace)) from None


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames from where this package is entered on, which say nothing about the test."""
    frames = []
    while trace is not None:
        if not str(trace.tb_frame.f_globals.get("__name__", "")).startswith(_OURS):
            frames.append(trace)
        elif frames:
            break
        trace = trace.tb_next
    kept: TracebackType | None = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _text(question: Any) -> str:
    """What a question says."""
    if isinstance(question, ElicitParams):
        return f"{question.message} {question.url}" if question.url else question.message
    if isinstance(question, CreateMessageParams) and question.messages:
        content = question.messages[-1].content
        blocks = content if isinstance(content, list) else [content]
        return "\n".join(block.text for block in blocks if isinstance(block, TextContent))
    return ""


def _shown(method: str, question: Any) -> str:
    text = _text(question)
    return f"{method} {text!r}" if text else method
