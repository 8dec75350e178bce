#!/usr/bin/env python3
"""Draw doc/quantizers.svg, rate against distortion of every quantizer, and print what it shows.

SPDX-License-Identifier: Apache-2.0

    tools/quantizers_picture.py LIBPITH_SO

Of values of a normal distribution, all bytes of a frame counted, scales too: how far the SNR is
below the limit, 20 log10(2) dB for each bit. Needs numpy.
"""
import math
import pathlib
import sys

import numpy as np

sys.dont_write_bytecode = True
import kv_model
from training_page import COLORS, svg_text

DOC = pathlib.Path(__file__).resolve().parent.parent / "doc"
COUNT, GROUP = 1 << 18, 128
WIDE, HIGH, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 20, 230, 50
MOST_BITS, MOST_LOSS = 9, 12

NARROW, ALL = (2, 3, 4), (2, 3, 4, 5, 6, 8)
KV, WDIFF = f"kv:group={GROUP},bits=%s,", "wdiff:bits=%s,"
QUANTIZERS = (
    ("steps, asymmetric", KV + "search=none", ALL),
    ("steps, symmetric", KV + "symmetric=on", ALL),
    ("symmetric, searched", KV + "symmetric=on,search=mse", (2, 3, 4, 5, 6)),
    ("nf", KV + "codebook=nf", NARROW),
    ("lloyd", KV + "codebook=lloyd", NARROW),
    ("trellis", KV + "codebook=trellis", NARROW),
    ("steps in groups of 2048", WDIFF + "group=2048", (2, 3, 4, 6, 8)),
    ("the same, entropy=rans", WDIFF + "group=2048,entropy=rans", (2, 3, 4, 6, 8)),
    ("eb:mode=ratio", "eb:mode=ratio,entropy=rans,abs=%s",
     ("1.5", "1", "0.6", "0.3", "0.15", "0.07", "0.03", "0.015")),
)


def points(pith, values, spec, settings):
    """Bits a value, and dB below the limit."""
    shape = (1, -1, 1, GROUP) if spec.startswith("kv") else (-1,)
    for setting in settings:
        back, length = pith.trip((spec % setting).rstrip(","), values.reshape(shape))
        bits = 8 * length / COUNT
        yield bits, 20 * math.log10(2) * bits - kv_model.snr(values, back.reshape(-1))


def place(bits, loss):
    return (LEFT + (WIDE - LEFT - RIGHT) * bits / MOST_BITS,
            TOP + (HIGH - TOP - BOTTOM) * loss / MOST_LOSS)


def axes():
    yield f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>'
    for bits in range(MOST_BITS + 1):
        x, y = place(bits, MOST_LOSS)
        yield f'<path d="M{x:.1f} {y:.1f}V{TOP}" stroke="#ddd"/>'
        yield svg_text(x, y + 18, str(bits))
    for loss in range(0, MOST_LOSS + 1, 2):
        x, y = place(0, loss)
        yield f'<path d="M{x:.1f} {y:.1f}H{WIDE - RIGHT}" stroke="#ddd"/>'
        yield svg_text(x - 6, y + 4, str(-loss), "end")
    yield svg_text((WIDE + LEFT - RIGHT) / 2, HIGH - 10,
                   "bits a value; SNR of a normal distribution, less its limit, in dB")


def draw(curves):
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{HIGH}" '
             'font-family="sans-serif" font-size="13">', *axes()]
    for at, (name, curve) in enumerate(curves):
        inside = [place(*p) for p in curve if p[0] <= MOST_BITS and p[1] <= MOST_LOSS]
        color, y = COLORS[at], TOP + 10 + 22 * at
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in inside)
        lines.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, y_of in inside + [(WIDE - RIGHT + 25, y)]:
            lines.append(f'<circle cx="{x:.1f}" cy="{y_of:.1f}" r="3.5" fill="{color}"/>')
        lines.append(svg_text(WIDE - RIGHT + 36, y + 4, name, "start"))
    (DOC / "quantizers.svg").write_text("\n".join(lines) + "\n</svg>\n", encoding="ascii")


def main():
    pith = kv_model.Pith(sys.argv[1])
    values = np.random.default_rng(1).standard_normal(COUNT).astype(np.float32)
    curves = [(name, list(points(pith, values, spec, settings)))
              for name, spec, settings in QUANTIZERS]
    draw(curves)
    print("| quantizer | bits a value: dB below the limit |\n|---|---|")
    for name, curve in curves:
        print(f"| {name} | " + ", ".join(f"{bits:.2f}: {loss:.2f}" for bits, loss in curve) + " |")


if __name__ == "__main__":
    main()
