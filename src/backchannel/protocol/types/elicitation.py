"""Elicitation: questions to the person at the client (client/elicitation)."""

from __future__ import annotations

from typing import Any, Literal

from .base import Meta, Wire, meta


class ElicitParams(Wire):
    """Parameters of `elicitation/create`, form and URL mode in one. `mode` absent means form."""

    message: str
    mode: Literal["form", "url"] | None = None
    requested_schema: dict[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    meta: Meta | None = meta()


class ElicitResult(Wire):
    """The person's answer. `content` only with `accept` in form mode."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    meta: Meta | None = meta()


class ElicitationCompleteParams(Wire):
    """Parameters of `notifications/elicitation/complete`: what the person did on a page is completed."""

    elicitation_id: str
    meta: Meta | None = meta()
