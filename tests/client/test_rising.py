"""Progress that never goes back."""

import pytest

from backchannel.client.rising import Rising
from backchannel.types import ProgressParams


def told(*rounds: list[float]) -> list[float]:
    """What the callback sees of the progress of these rounds."""
    seen: list[float] = []
    rising = Rising(lambda params: seen.append(params.progress))
    for round in rounds:
        rising.again()
        for value in round:
            rising(ProgressParams("t", value))
    return seen


@pytest.mark.rule("R140")
@pytest.mark.parametrize(
    ("rounds", "seen"),
    [
        ([[1, 2, 3]], [1, 2, 3]),
        ([[0], [0], [1]], [0, 1]),
        ([[1, 2, 3], [1, 2, 3, 4]], [1, 2, 3, 4]),
        ([[50], [1, 49.5, 51], [2, 51, 100]], [50, 51, 100]),
        ([[1, 3, 2, 3, 4]], [1, 3, 3, 4]),
        ([[-5, -4], [-4, 0]], [-5, -4, 0]),
        ([[], [1], [], [2]], [1, 2]),
    ],
)
def test_what_is_seen(rounds: list[list[float]], seen: list[float]) -> None:
    assert told(*rounds) == seen


def test_what_the_callback_returns_is_given_back() -> None:
    """It may be something to await."""
    rising = Rising(lambda params: params.message)
    assert rising(ProgressParams("t", 1, message="first")) == "first"
    assert rising(ProgressParams("t", 0.5, message="back")) is None
