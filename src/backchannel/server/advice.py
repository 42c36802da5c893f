"""Advice for authors: a handler that suspends runs from the top again, so what it does before a question is done again.

How it works: when a function suspends for the first time, its source is read, once. A statement before the asking line
that is nothing but a call, and not one on the context, is there for its effect.
"""

from __future__ import annotations

import ast
import inspect
import logging
import textwrap
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .question import Where

logger = logging.getLogger("backchannel.server")
_HARMLESS = {"print", "sleep", "checkpoint", "debug", "info", "warning", "error", "exception", "log"}
_seen: weakref.WeakSet[Any] = weakref.WeakSet()


def advise(function: Callable[..., Any], context: str | None, stopped_at: Where) -> None:
    """Log one WARNING, once for each function, if it does something before it asks that each round does again.

    context: the name of its context parameter.  stopped_at: the line that asks; elsewhere than in the function itself
    it says nothing.
    """
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function) or function in _seen:
        return
    _seen.add(function)
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return
    file, line = stopped_at
    if file != function.__code__.co_filename or not first <= line < first + len(lines):
        return
    for call in _bare_calls(tree.body[0]):
        at, name = call.lineno + first - 1, ast.unparse(call.func)
        if (call.end_lineno or 0) + first - 1 < line and name.split(".")[0] != context:
            if name.split(".")[-1] not in _HARMLESS:
                logger.warning(
                    "%s:%d: %s(...) runs again in each round of the call, as it comes before the question in line %d. "
                    "If that does harm, make it a step, which is done once: await ctx.step(%r, %s, ...)",
                    file,
                    at,
                    name,
                    line,
                    name.split(".")[-1],
                    name,
                )
                return


def _bare_calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls, awaited or not, that are statements of a function, not of those inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.Expr):
            value = child.value.value if isinstance(child.value, ast.Await) else child.value
            if isinstance(value, ast.Call):
                yield value
        else:
            yield from _bare_calls(child)
