"""The states of a legacy session and what may happen in each, as a table (2025-11-25 basic/lifecycle)."""

from __future__ import annotations

import enum

from ..errors import INVALID_REQUEST, LocalProtocolError


class State(enum.Enum):
    """Where a session is."""

    NEW = "new"
    INITIALIZING = "initializing"
    READY = "ready"
    CLOSED = "closed"


class Step(enum.Enum):
    """What happens to a session."""

    INITIALIZE = "initialize"
    INITIALIZED = "notifications/initialized"
    REQUEST = "request"
    CLOSE = "close"


_TRANSITIONS: dict[tuple[State, Step], State] = {
    (State.NEW, Step.INITIALIZE): State.INITIALIZING,
    (State.NEW, Step.CLOSE): State.CLOSED,
    # A notification cannot be refused: one that comes too early or too late changes nothing.
    (State.NEW, Step.INITIALIZED): State.NEW,
    # Requests pipelined behind `initialize` are served before `initialized` arrives.
    (State.INITIALIZING, Step.REQUEST): State.INITIALIZING,
    (State.INITIALIZING, Step.INITIALIZED): State.READY,
    (State.INITIALIZING, Step.CLOSE): State.CLOSED,
    (State.READY, Step.REQUEST): State.READY,
    (State.READY, Step.INITIALIZED): State.READY,
    (State.READY, Step.CLOSE): State.CLOSED,
    (State.CLOSED, Step.INITIALIZED): State.CLOSED,
    (State.CLOSED, Step.CLOSE): State.CLOSED,
}

_HINTS = {
    (State.NEW, Step.REQUEST): "send initialize first",
    (State.INITIALIZING, Step.INITIALIZE): "a session is initialized once; open a new one",
    (State.READY, Step.INITIALIZE): "a session is initialized once; open a new one",
}


def advance(role: str, state: State, step: Step) -> State:
    """The state after `step`.

    Raises: LocalProtocolError (-32600) that names role, state and step, if the step is not possible there.
    """
    after = _TRANSITIONS.get((state, step))
    if after is None:
        hint = _HINTS.get((state, step), "")
        text = f"{role}: {step.value} is not possible while the session is {state.value}"
        raise LocalProtocolError(INVALID_REQUEST, f"{text}: {hint}" if hint else text)
    return after
