"""doc/TRAINING.md has a part of each of tools/train.py and train_torch.py; and their pictures.

SPDX-License-Identifier: Apache-2.0
"""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOC = os.path.join(ROOT, "doc")
PAGE = os.path.join(DOC, "TRAINING.md")
WIDE, HIGH, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 20, 20, 50
COLORS = ("#1f4e9c", "#d1491b", "#2f8f3f", "#8a4fb3", "#b58900", "#3aa6a6", "#888888", "#c2185b",
          "#5b3a1e", "#6b8e23", "#00796b",
          "#4a148c", "#827717", "#d81b60", "#37474f", "#ef6c00", "#0b7285",
          "#9e9d24", "#ad1457", "#00a844")


def read_parts():
    """The page's parts, each a list of lines, of which the first is its heading."""
    parts = []
    if os.path.exists(PAGE):
        with open(PAGE, encoding="ascii") as file:
            for line in file.read().splitlines():
                if line.startswith("# "):
                    parts.append([])
                parts[-1].append(line)
    return parts


def read_part(heading):
    """The text of the part with this heading, or nothing."""
    return "".join("\n".join(part) for part in read_parts() if part[0] == heading)


def write_part(text):
    """Puts the text, which begins with its heading, in place of the part with that heading."""
    parts, new = read_parts(), text.rstrip("\n").splitlines()
    at = [i for i, part in enumerate(parts) if part[0] == new[0]]
    if at:
        parts[at[0]] = new
    else:
        parts.append(new)
    with open(PAGE, "w", encoding="ascii") as file:
        file.write("\n\n".join("\n".join(part).rstrip("\n") for part in parts) + "\n")


def svg_text(x, y, text, anchor="middle"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>' % (x, y, anchor, text)


def svg_axes(most, low, high, place, caption):
    yield '<rect width="%d" height="%d" fill="white"/>' % (WIDE, HIGH)
    for i in range(6):
        x, y = place(most * i / 5, low)
        yield '<path d="M%.1f %.1fV%.1f" stroke="#ddd"/>' % (x, y, TOP)
        yield svg_text(x, y + 18, "%.4g" % (most * i / 5))
        value = low + (high - low) * i / 5
        x, y = place(0, value)
        yield '<path d="M%.1f %.1fH%d" stroke="#ddd"/>' % (x, y, WIDE - RIGHT)
        yield svg_text(x - 6, y + 4, "%.2f" % value, "end")
    yield svg_text((WIDE + LEFT) / 2, HIGH - 10, caption)


def draw(name, caption, kinds):
    """Curves over steps or seconds. kinds: (legend, list of curves, each a list of points)."""
    points = [p for _, curves in kinds for curve in curves for p in curve]
    most = max(p[0] for p in points)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)

    def place(x, y):
        return (LEFT + (WIDE - LEFT - RIGHT) * x / most,
                TOP + (HIGH - TOP - BOTTOM) * (high - y) / (high - low))

    lines = list(svg_axes(most, low, high, place, caption))
    for at, (legend, curves) in enumerate(kinds):
        look = 'stroke="%s" stroke-width="2"%s' % (COLORS[at], ' stroke-dasharray="7 5"' * (at % 2))
        for curve in curves:
            places = " ".join("%.1f,%.1f" % place(*p) for p in curve)
            lines.append('<polyline points="%s" fill="none" %s/>' % (places, look))
        y = TOP + 20 + 22 * at
        lines.append('<path d="M%d %dh40" %s/>' % (WIDE - 220, y, look))
        lines.append(svg_text(WIDE - 170, y + 4, legend, "start"))
    with open(os.path.join(DOC, name), "w", encoding="ascii") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
                   'font-family="sans-serif" font-size="13">\n' % (WIDE, HIGH))
        file.write("\n".join(lines) + "\n</svg>\n")
