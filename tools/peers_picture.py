"""doc/peers_*.svg: ratio against speed, a panel for each set of data, a color for each program.

SPDX-License-Identifier: Apache-2.0
"""
import math

from training_page import COLORS, svg_text

WIDE, HIGH, COLUMNS = 300, 240, 3
LEFT, TOP, RIGHT, BOTTOM, LEGEND = 46, 30, 12, 40, 34


class Axis:
    """Logarithmic, over all values and a little more."""

    def __init__(self, values, first, last):
        low, high = math.log(min(values)), math.log(max(values))
        margin = 0.06 * (high - low) + 0.02
        self.low, self.high, self.first, self.last = low - margin, high + margin, first, last

    def place(self, value):
        part = (math.log(value) - self.low) / (self.high - self.low)
        return self.first + (self.last - self.first) * part

    def ticks(self):
        """Three to eight round numbers."""
        low, high = math.exp(self.low), math.exp(self.high)
        for factors in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
            decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            found = [f * 10.0**d for d in decades for f in factors]
            found = [t for t in found if low <= t <= high]
            if len(found) >= 3:
                return found
        step = 10.0 ** math.floor(math.log10((high - low) / 3))
        step *= max(f for f in (1, 2, 2.5, 5) if f * step <= (high - low) / 3)
        return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def mark(x, y, color, filled):
    return (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" stroke="{color}" stroke-width="1.5" '
            f'fill="{color if filled else "white"}"/>')


def panel(title, programs, left, top):
    """programs: by name, a list of (ratio, speed in, speed out)."""
    points = [p for each in programs.values() for p in each]
    xs = Axis([s for p in points for s in p[1:]], left + LEFT, left + WIDE - RIGHT)
    ys = Axis([p[0] for p in points], top + HIGH - BOTTOM, top + TOP)
    yield svg_text((xs.first + xs.last) / 2, top + TOP - 10, title)
    for t in xs.ticks():
        x = xs.place(t)
        yield f'<path d="M{x:.1f} {ys.first:.1f}V{ys.last:.1f}" stroke="#ddd"/>'
        yield svg_text(x, ys.first + 16, f"{t:g}")
    for t in ys.ticks():
        y = ys.place(t)
        yield f'<path d="M{xs.first:.1f} {y:.1f}H{xs.last:.1f}" stroke="#ddd"/>'
        yield svg_text(xs.first - 5, y + 4, f"{t:.4g}", "end")
    for color, each in zip(COLORS, programs.values()):
        for way in (1, 2):
            places = [(xs.place(p[way]), ys.place(p[0])) for p in each]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            dashes = "" if way == 1 else ' stroke-dasharray="4 4"'
            yield f'<polyline points="{line}" fill="none" stroke="{color}"{dashes}/>'
            yield from (mark(x, y, color, way == 1) for x, y in places)


def draw(path, panels):
    """panels: by title, by name of a program, a list of (ratio, speed in, speed out)."""
    rows = -(-len(panels) // COLUMNS)
    wide, high = COLUMNS * WIDE, rows * HIGH + LEGEND
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{wide}" height="{high}" fill="white"/>']
    for i, (title, programs) in enumerate(panels.items()):
        lines += panel(title, programs, i % COLUMNS * WIDE, i // COLUMNS * HIGH)
    names = list(next(iter(panels.values())))
    for i, (color, name) in enumerate(zip(COLORS, names)):
        lines.append(mark(20 + i * 150, high - 16, color, True))
        lines.append(svg_text(30 + i * 150, high - 12, name, "start"))
    lines.append(svg_text(wide - 10, high - 12, "ratio over GB/s; filled: in, hollow: out", "end"))
    path.write_text("\n".join(lines) + "\n</svg>\n", encoding="ascii")
