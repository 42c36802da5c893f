"""The states of a legacy session: the whole table, and every sequence of steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import INVALID_REQUEST, LocalProtocolError
from backchannel.protocol.lifecycle import State, Step, advance

NEW, INITIALIZING, READY, CLOSED = State
INITIALIZE, INITIALIZED, REQUEST, CLOSE = Step
TABLE = {
    NEW: {INITIALIZE: INITIALIZING, INITIALIZED: NEW, REQUEST: None, CLOSE: CLOSED},
    INITIALIZING: {INITIALIZE: None, INITIALIZED: READY, REQUEST: INITIALIZING, CLOSE: CLOSED},
    READY: {INITIALIZE: None, INITIALIZED: READY, REQUEST: READY, CLOSE: CLOSED},
    CLOSED: {INITIALIZE: None, INITIALIZED: CLOSED, REQUEST: None, CLOSE: CLOSED},
}
CASES = [(state, step, after) for state, steps in TABLE.items() for step, after in steps.items()]


@pytest.mark.parametrize(("state", "step", "after"), CASES)
def test_every_step_in_every_state(state: State, step: Step, after: State | None) -> None:
    if after is not None:
        assert advance("server", state, step) is after
        return
    with pytest.raises(LocalProtocolError) as caught:
        advance("server", state, step)
    assert caught.value.code == INVALID_REQUEST
    assert all(word in str(caught.value) for word in ("server", step.value, state.value))


def test_the_table_is_whole() -> None:
    assert {(state, step) for state, step, _ in CASES} == {(state, step) for state in State for step in Step}


@pytest.mark.rule("R96")
def test_requests_pipelined_behind_initialize_are_served() -> None:
    state = NEW
    for step in (INITIALIZE, REQUEST, REQUEST, INITIALIZED, REQUEST):
        state = advance("server", state, step)
    assert state is READY


def test_a_notification_out_of_its_place_changes_nothing() -> None:
    """It cannot be answered, so it must not raise."""
    assert advance("server", NEW, INITIALIZED) is NEW
    assert advance("server", CLOSED, INITIALIZED) is CLOSED


def test_a_session_is_initialized_once_and_told_what_to_do() -> None:
    with pytest.raises(LocalProtocolError, match="open a new one"):
        advance("server", READY, INITIALIZE)
    with pytest.raises(LocalProtocolError, match="send initialize first"):
        advance("server", NEW, REQUEST)


@given(st.lists(st.sampled_from(Step)))
def test_no_sequence_leads_out_of_closed_or_to_ready_without_initialize(steps: list[Step]) -> None:
    state, initialized, closed = NEW, 0, False
    for step in steps:
        try:
            state = advance("server", state, step)
        except LocalProtocolError:
            continue
        initialized += step is INITIALIZE
        closed = closed or step is CLOSE
        assert (state is CLOSED) == closed
    assert initialized <= 1
    assert state in (NEW, CLOSED) or initialized == 1
