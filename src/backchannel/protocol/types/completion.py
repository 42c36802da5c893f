"""Completion of the arguments of prompts and resource templates (server/utilities/completion)."""

from __future__ import annotations

from typing import Literal

from .base import Meta, Wire, meta
from .requests import RequestParams

MOST_VALUES = 100
"""The most values in one result."""


class Reference(Wire):
    """What is completed: a prompt by its name, or a resource template by its URI."""

    type: Literal["ref/prompt", "ref/resource"]
    name: str | None = None
    uri: str | None = None
    title: str | None = None


class CompletedArgument(Wire):
    """The argument that is typed, as far as it is."""

    name: str
    value: str


class CompletionContext(Wire):
    """The arguments that are known already."""

    arguments: dict[str, str] | None = None


class CompleteParams(RequestParams, kw_only=True):
    """Params of `completion/complete`."""

    ref: Reference
    argument: CompletedArgument
    context: CompletionContext | None = None


class Completion(Wire):
    """Suggestions, best first, 100 at the most. `total`: how many there are in all."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Wire):
    """The answer to `completion/complete`."""

    completion: Completion
    meta: Meta | None = meta()
