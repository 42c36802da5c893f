"""Advice for authors: a handler that suspends runs from the top again, so what it does before a question is done again.

How it works: when a function suspends for the first time, its source is read, once. A statement before the line that
asks which is nothing but a call, and not one on the context, is there for its effect. Calls that only print, log, wait,
start a task, or fill a container of the function itself do no harm.
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
HARMLESS = frozenset(
    "print sleep checkpoint debug info warning error exception log start_soon create_task warn".split()
)
FILLS = frozenset("append extend insert add update setdefault pop remove discard clear sort reverse".split())
_seen: weakref.WeakSet[Any] = weakref.WeakSet()


def advise(function: Callable[..., Any], context: str | None, stopped_at: Where) -> None:
    """Log one WARNING, once for each function, if it does something before it asks that each round does again.

    context: the name of its context parameter.  stopped_at: the line that asks; where that is not in the function
    itself, nothing is said.
    """
    if _was_seen(function):
        return
    given, function = function, inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function) or (function is not given and _was_seen(function)):
        return
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, ValueError, RecursionError, SystemError):
        # No source, or none that can be parsed. SystemError is Python 3.11's, whose parser does not take it when the
        # garbage collector runs code in the middle that parses too, such as to show a traceback.
        return
    file, line = stopped_at
    if file != function.__code__.co_filename or not first <= line < first + len(lines):
        return
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for call in _statements(tree.body[0]):
        *root, name = ast.unparse(call.func).split(".")
        harmless = name in HARMLESS or root[:1] == [context] or (name in FILLS and root[:1] and root[0] in own)
        if not harmless and (call.end_lineno or 0) + first - 1 < line:
            logger.warning(
                "%s:%d: %s(...) runs again in each round of the call, as it comes before the question in line %d. If "
                "that does harm, make it a step, which is done once: await ctx.step(%r, %s, ...)",
                file,
                call.lineno + first - 1,
                name,
                line,
                name,
                ast.unparse(call.func),
            )
            return


def _was_seen(function: Callable[..., Any]) -> bool:
    try:
        if function in _seen:
            return True
        _seen.add(function)
    except TypeError:  # an object that cannot be kept in a set
        pass
    return False


def _statements(node: ast.AST) -> Iterator[ast.Call]:
    """The calls, awaited or not, that are statements of a function, and not of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.Expr):
            value = child.value.value if isinstance(child.value, ast.Await) else child.value
            if isinstance(value, ast.Call):
                yield value
        else:
            yield from _statements(child)
