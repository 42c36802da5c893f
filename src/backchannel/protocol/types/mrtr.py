"""Multi round-trip requests (basic/patterns/mrtr)."""

from __future__ import annotations

from typing import Any

import msgspec

from .base import Meta, Wire, meta


class InputRequest(Wire):
    """One question inside a result. `params`: raw JSON when received, anything that encodes when sent."""

    method: str
    params: Any = None


class InputRequiredResult(Wire, kw_only=True):
    """The call is not finished: answer `input_requests` and send it again with `request_state` as it is."""

    result_type: str
    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None
    meta: Meta | None = meta()


class ReceivedInputRequest(Wire):
    """An InputRequest as the client reads it: its params still raw."""

    method: str
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class ReceivedResult(Wire, kw_only=True):
    """The members of any result that say what kind it is. An absent `resultType` means complete (basic/index)."""

    result_type: str = "complete"
    input_requests: dict[str, ReceivedInputRequest] | None = None
    request_state: str | None = None
