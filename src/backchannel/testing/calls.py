"""Which calls a handler makes, and how often: the difference between two runs is what a replay does again.

How it works: a profile function, which Python calls for every call in a thread, counts those that the handler's own
code makes, or a function in the same file through which it asks. The handler of a synchronous tool is profiled in its
thread. A coroutine that goes on is no new call. What cannot do harm is left out: printing and logging, filling a
container of the function's own, pure methods of plain values, constructors, and everything that is backchannel's.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

from ..server.advice import FILLS, HARMLESS
from ..server.context import Context

Call = tuple[str, int, str]
"""File and line of a call, and what is called."""
_PACKAGE = __name__.partition(".")[0]
_PLAIN = (str, bytes, int, float, bool, complex, list, dict, set, frozenset, tuple, type, type(None))
_ASKS = {getattr(Context, name).__code__ for name in "ask elicit elicit_url confirm sample roots step".split()}
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_OUTSIDE = frozenset({"open", "input", "exec", "eval"})


class Calls:
    """Counts the calls of one handler. function: the handler."""

    def __init__(self, function: Callable[..., Any]):
        self._own = set(_codes(_code_of(function)))
        self._files = {code.co_filename for code in self._own}
        self._asking: set[CodeType] = set()
        self._counts: Counter[tuple[CodeType, Call, CodeType | None]] = Counter()
        self._known: set[FrameType] = set()
        self._printing: set[FrameType] = set()  # where sys.stdout may be written in Python

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what this thread does."""
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def threaded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A synchronous function that counts in the thread that it runs in."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.counting():
                return function(*args, **kwargs)

        return counted

    @property
    def counts(self) -> Counter[Call]:
        """How often each call was made, by the handler or a function through which it asks."""
        found: Counter[Call] = Counter()
        for (maker, call, callee), count in self._counts.items():
            if (maker in self._own or maker in self._asking) and callee not in self._asking:
                found[call] += count
        return found

    def _profile(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            self._called(frame)
        elif event == "c_call" and self._is_authors(frame):
            if function is print:
                self._printing.add(frame)
            elif _matters(function, frame):
                self._count(frame, getattr(function, "__qualname__", str(function)), None)
        elif function is print and event != "return":
            self._printing.discard(frame)

    def _called(self, frame: FrameType) -> None:
        maker = frame.f_back
        if maker is None or not self._is_authors(maker) or maker in self._printing or frame in self._known:
            return
        if frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
            self._known.add(frame)
        if _module(frame).partition(".")[0] == _PACKAGE:
            if frame.f_code in _ASKS:
                self._asks(maker)
        elif not frame.f_code.co_name.startswith(("<", "__")) and frame.f_code.co_name not in HARMLESS:
            self._count(maker, frame.f_code.co_qualname, frame.f_code)

    def _asks(self, frame: FrameType | None) -> None:
        """The functions from here up to the handler's have to run again, to ask again."""
        chain = []
        while frame is not None and frame.f_code not in self._own and self._is_authors(frame):
            chain.append(frame.f_code)
            frame = frame.f_back
        if frame is not None and frame.f_code in self._own:
            self._asking.update(chain)

    def _count(self, maker: FrameType, what: str, callee: CodeType | None) -> None:
        self._counts[maker.f_code, (maker.f_code.co_filename, maker.f_lineno, what), callee] += 1

    def _is_authors(self, frame: FrameType) -> bool:
        """Whether it may be the handler's, or a helper of its: what was written beside it."""
        return frame.f_code.co_filename in self._files


def _matters(function: Any, frame: FrameType) -> bool:
    """Whether a function in C can have an effect that somebody sees."""
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if name in HARMLESS or not isinstance(function, BuiltinFunctionType):
        return False
    if owner is builtins:
        return name in _OUTSIDE
    if name in FILLS and isinstance(owner, _PLAIN):
        local = {id(frame.f_locals[known]) for known in frame.f_code.co_varnames if known in frame.f_locals}
        return isinstance(owner, list | dict | set) and id(owner) not in local
    return not isinstance(owner, _PLAIN)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    function = inspect.unwrap(function)
    code: CodeType | None = getattr(getattr(function, "__func__", function), "__code__", None)
    return code


def _codes(code: CodeType | None) -> Iterator[CodeType]:
    """The code of a function, with that of its comprehensions. What else is defined in it is not its own."""
    if code is not None:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType) and constant.co_name in _COMPREHENSIONS:
                yield from _codes(constant)
