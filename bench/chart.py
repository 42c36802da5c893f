"""A curve as a picture: SVG, both axes logarithmic, so that a straight line of slope 1 is linear cost."""

import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 48
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
Points = list[tuple[float, float]]


@dataclass
class Chart:
    """name: of the file.  series: points by what they are of, in the order of the legend."""

    name: str
    title: str
    x: str
    y: str
    series: dict[str, Points] = field(default_factory=dict)

    def svg(self) -> str:
        """The picture."""
        points = [point for line in self.series.values() for point in line]
        across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
        up = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12" role="img" aria-label="{escape(self.title)}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            _text(LEFT, 20, self.title, weight="bold"),
            _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.x, anchor="middle"),
            _text(LEFT, TOP - 8, self.y, fill="#555"),
        ]
        for value in across.ticks:
            at = across.place(value)
            parts.append(_line(at, TOP, at, HEIGHT - BOTTOM))
            parts.append(_text(at, HEIGHT - BOTTOM + 16, short(value), anchor="middle"))
        for value in up.ticks:
            at = up.place(value)
            parts.append(_line(LEFT, at, WIDTH - RIGHT, at))
            parts.append(_text(LEFT - 6, at + 4, short(value), anchor="end"))
        for number, (title, line) in enumerate(self.series.items()):
            parts += self._curve(number, title, [(across.place(x), up.place(y)) for x, y in line])
        return "\n".join([*parts, "</svg>", ""])

    @staticmethod
    def _curve(number: int, title: str, line: Points) -> list[str]:
        color = COLORS[number % len(COLORS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in line]
        curve = f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        at = TOP + 14 + 18 * number
        return [curve, *dots, _text(WIDTH - RIGHT + 12, at, title, fill=color, weight="bold")]


class _Axis:
    """From values to places, by powers of ten. It goes over at least one of them."""

    def __init__(self, values: list[float], begin: float, end: float):
        self._low = math.floor(math.log10(min(values)))
        self._high = max(math.ceil(math.log10(max(values))), self._low + 1)
        self._begin, self._end = begin, end
        self.ticks = [10.0**power for power in range(self._low, self._high + 1)]

    def place(self, value: float) -> float:
        part = (math.log10(value) - self._low) / (self._high - self._low)
        return self._begin + part * (self._end - self._begin)


def short(value: float) -> str:
    """A tick: 0.1, 10, 1k, 1M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#222", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" fill="{fill}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
