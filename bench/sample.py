"""Repeated figures: their median, and how far they scatter."""

from collections import defaultdict
from statistics import median


class Samples:
    """All figures of a run, by path, metric and contender."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, path: str, contender: str, figures: dict[str, float]) -> None:
        """The figures of one repetition, by metric."""
        for metric, value in figures.items():
            self._values[path, metric, contender].append(value)

    def median(self, path: str, metric: str, contender: str) -> float | None:
        """The median, or None if this was not measured."""
        values = self._values.get((path, metric, contender))
        return median(values) if values else None

    def spread(self, path: str, metric: str, contender: str) -> float | None:
        """From the least to the greatest, as a part of the median; None for less than two values."""
        values = self._values.get((path, metric, contender), [])
        return (max(values) - min(values)) / median(values) if len(values) > 1 and median(values) else None

    def dump(self) -> list[dict[str, object]]:
        """Everything, for a file."""
        return [
            {"path": path, "metric": metric, "contender": contender, "values": values}
            for (path, metric, contender), values in self._values.items()
        ]
