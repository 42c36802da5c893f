"""What is measured: one path is one kind of load, and gives some figures for each contender."""

from collections.abc import Callable
from dataclasses import dataclass

from ..contenders import ALL, Contender
from ..process import Fleet


@dataclass(frozen=True)
class Plan:
    """How long to measure.

    seconds: for one run of a load.  repeats: how often each contender has its turn.  count: sessions, streams and
    parked calls.  listeners: that hear of a change.
    """

    seconds: float
    repeats: int
    count: int
    listeners: int


Figures = dict[str, float]


@dataclass(frozen=True)
class Path:
    """measure: one turn of one contender.  who: those that can do it.  most: repeats that are enough."""

    key: str
    measure: Callable[[Contender, Fleet, Plan], Figures]
    who: tuple[Contender, ...] = ALL
    most: int = 99
