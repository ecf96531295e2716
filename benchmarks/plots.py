"""Lines of points -> a small SVG chart with logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_COLORS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b", "#222222",
)  # fmt: skip
_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 40, 50


@dataclass(frozen=True)
class Line:
    label: str
    points: tuple[tuple[float, float], ...]
    color: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class _Axis:
    """Powers of ten that hold all values, laid over a stretch of the picture."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def at(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        return [10.0**n for n in range(self.low, self.high + 1)]


def chart(title: str, x_name: str, y_name: str, lines: Sequence[Line]) -> str:
    points = [p for line in lines for p in line.points]
    x = _Axis.over([p[0] for p in points], _LEFT, _WIDTH - _RIGHT)
    y = _Axis.over([p[1] for p in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text((x.start + x.end) / 2, 22, title, "middle", size=14),
        _text((x.start + x.end) / 2, _HEIGHT - 10, x_name, "middle"),
        f'<g transform="rotate(-90 16 {_HEIGHT / 2})">{_text(16, _HEIGHT / 2, y_name, "middle")}</g>',
    ]
    for tick in x.ticks:
        parts.append(_rule(x.at(tick), y.start, x.at(tick), y.end))
        parts.append(_text(x.at(tick), y.start + 18, f"{tick:,g}", "middle"))
    for tick in y.ticks:
        parts.append(_rule(x.start, y.at(tick), x.end, y.at(tick)))
        parts.append(_text(x.start - 8, y.at(tick) + 4, f"{tick:,g}", "end"))
    for number, line in enumerate(lines):
        parts += _drawn(line, x, y)
        place = _TOP + 14 * number
        parts.append(_text(_WIDTH - _RIGHT + 16, place + 4, line.label, "start", _COLORS[line.color % 9]))
    return "\n".join([*parts, "</svg>", ""])


def _drawn(line: Line, x: _Axis, y: _Axis) -> list[str]:
    color = _COLORS[line.color % len(_COLORS)]
    places = [(x.at(a), y.at(b)) for a, b in line.points]
    path = " ".join(f"{a},{b}" for a, b in places)
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    dots = [f'<circle cx="{a}" cy="{b}" r="3" fill="{color}"/>' for a, b in places]
    return [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dash}/>', *dots]


def _text(x: float, y: float, text: str, anchor: str, color: str = "#333", size: int = 12) -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} fill="{color}" font-size="{size}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#ddd"/>'
