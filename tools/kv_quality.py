#!/usr/bin/env python3
"""Print what codec kv does to a language model: the section KV of doc/RESULTS.md; needs numpy.

SPDX-License-Identifier: Apache-2.0

    tools/kv_quality.py LIBPITH_SO DATA

DATA is tests/data: a small model and text that it was not trained on. Its keys and values, or what
they are made of, go through the library and back while the model reads the text.
"""
import sys

import numpy as np

sys.dont_write_bytecode = True
import kv_model

KEYS, VALUES, INPUTS = "k_post", "v", "x_postnorm"
OFFLOADS = 100


def nothing(kind, layer, x):
    return x


class Bench:
    def __init__(self, library, data):
        self.pith = kv_model.Pith(library)
        self.model = kv_model.Model(data)
        self.exact = self.model.loss()
        self.seen = {}
        self.claims = []

    def tensors(self, kind):
        """What the model made of the text, one array a layer."""
        if not self.seen:
            def keep(kind, layer, x):
                self.seen.setdefault(kind, []).append(x)
                return x
            self.model.loss(keep)
        return self.seen[kind]

    def claim(self, what, holds, figures):
        self.claims.append((what, "yes" if holds else "**no**", figures))


class Run:
    """One reading of the text with kinds of tensors replaced: {kind: f(layer, x) -> (x', bytes)}"""

    def __init__(self, bench, replacements):
        self.snr = {kind: [] for kind in replacements}
        self.bytes = dict.fromkeys(replacements, 0)
        self.values = dict.fromkeys(replacements, 0)
        self.replacements = replacements
        self.loss = bench.model.loss(self.replace)
        self.change = 100 * (self.loss / bench.exact - 1)

    def replace(self, kind, layer, x):
        if kind not in self.replacements:
            return x
        back, length = self.replacements[kind](layer, x)
        self.snr[kind].append(kv_model.snr(x, back))
        self.bytes[kind] += length
        self.values[kind] += x.size
        return back

    def rate(self, kind):
        return 8 * self.bytes[kind] / self.values[kind]

    def mean(self, kind):
        return float(np.mean(self.snr[kind]))


def through(bench, spec, rows=False):
    """rows: heads side by side, as one head."""
    def replace(layer, x):
        batch, tokens = x.shape[:2]
        flat = rows or x.ndim == 3
        back, length = bench.pith.trip(spec, x.reshape(batch, tokens, 1, -1) if flat else x)
        return back.reshape(x.shape), length
    return replace


def decibels(values):
    return " ".join(f"{v:.1f}" for v in values)


def loss_cells(run):
    return f"{run.loss:.4f} | {run.change:+.2f} %"


# ---- Presets -------------------------------------------------------------------------------------

# What goes through which setting.
PRESETS = (
    ("kivi4", {KEYS: "kivi4", VALUES: "kivi4,axis=token"}),
    ("kivi2", {KEYS: "kivi2", VALUES: "kivi2,axis=token"}),
    ("kvquant-lite", {"k_pre": "kvquant-lite", VALUES: "kvquant-lite,axis=token"}),
    ("quarot4", {KEYS: "quarot4", VALUES: "quarot4"}),
    ("trellis4", {KEYS: "trellis4", VALUES: "trellis4"}),
    ("trellis3", {KEYS: "trellis3", VALUES: "trellis3"}),
    ("trellis2", {KEYS: "trellis2", VALUES: "trellis2"}),
    ("q8", {KEYS: "q8", VALUES: "q8"}),
    ("q4", {KEYS: "q4", VALUES: "q4"}),
    ("xquant4", {INPUTS: "xquant4"}),
    ("xquant3", {INPUTS: "xquant3"}),
    ("xquant2", {INPUTS: "xquant2"}),
)
# In WIDE heads lie side by side, as one.
WIDE = "trellis2,group=32"
MIXES = (
    ("3 and 2", {KEYS: "trellis3", VALUES: "trellis2"}),
    ("wide", {"k_pre": WIDE, VALUES: "trellis2"}),
)
NAMES = {KEYS: "keys", "k_pre": "keys before RoPE", VALUES: "values", INPUTS: "layer inputs"}


def preset_table(bench):
    print("| preset | tensor | bits per value | SNR by layer, dB | loss | change |")
    print("|---|---|---|---|---|---|")
    print(f"| none | | 32 | | {bench.exact:.4f} | |")
    changes = {}
    for name, targets in PRESETS + MIXES:
        run = Run(bench, {kind: through(bench, "kv:preset=" + preset, preset == WIDE)
                          for kind, preset in targets.items()})
        changes[name] = run.change
        for i, (kind, preset) in enumerate(targets.items()):
            side = ", heads side by side" if preset == WIDE else ""
            shown = f"| `{preset}` | {NAMES[kind]}{side} | {run.rate(kind):.2f} | " \
                f"{decibels(run.snr[kind])} | "
            print(shown + (loss_cells(run) if i == 0 else " |") + " |")
    four = [name for name, _ in PRESETS if name.endswith("4") or name == "kvquant-lite"]
    worst = max(four, key=changes.get)
    bench.claim("presets of 4 bits lose at most 0.5 % of the loss", changes[worst] <= 0.5,
                f"`{worst}` {changes[worst]:+.2f} %")
    bench.claim("codes of 2 bits along trellises lose at most 0.67 of what `kivi2` does",
                changes["wide"] <= 0.67 * changes["kivi2"],
                f"{changes['wide']:+.2f} % : {changes['kivi2']:+.2f} %")


# ---- Layer inputs --------------------------------------------------------------------------------

class CrossLayer:
    """XQuant-CL: the difference from an accumulator, which becomes what the receiver has."""

    def __init__(self, bench, bits, coarse=False):
        self.bench, self.bits, self.coarse = bench, bits, coarse

    def __call__(self, layer, x):
        shape = (*x.shape[:2], 1, x.shape[2])
        if layer == 0:
            self.sent = np.zeros(shape, np.float32)
            self.received = np.zeros(shape, np.float32)
        elif self.coarse:
            self.sent, _ = self.bench.pith.trip("kv:preset=xquant4", self.sent)
            self.received = self.sent.copy()
        plan = self.bench.pith.plan(f"kv:preset=xquant{4 if layer == 0 else self.bits}", shape,
                                    base="f32")
        plan.bind(self.sent)
        frame = plan.encode(x.reshape(shape))
        plan.bind(self.received)
        back = plan.decode(frame)
        if not np.array_equal(self.sent.view(np.uint32), back.view(np.uint32)):
            raise SystemExit("XQuant-CL: sender and receiver differ")
        return back.reshape(x.shape), len(frame)


def plain_layers(bench, bits):
    """The first layer at 4 bits, as with XQuant-CL."""
    first, later = (through(bench, f"kv:preset=xquant{b}") for b in (4, bits))
    return lambda layer, x: (later if layer else first)(layer, x)


class Latents:
    """Keys and values from X U of thin decompositions, W = U S V^T (XQuant, section 3.3.1)."""

    def __init__(self, bench, bits):
        self.bench, self.model = bench, bench.model
        self.keys = through(bench, f"kv:preset=xquant{bits},axis=channel")
        self.values = through(bench, f"kv:preset=xquant{bits}")

    def part(self, layer, name, trip, shape):
        name = f"layers.{layer}.attn.{name}"
        u, s, vt = np.linalg.svd(self.model.weight(name + ".weight").T, full_matrices=False)
        back, length = trip(layer, np.ascontiguousarray(self.input @ u))
        made = back @ (s[:, None] * vt) + self.model.weight(name + ".bias")
        return made.reshape(shape), length

    def replacements(self):
        def see(layer, x):
            self.input = x
            return x, 0
        return {INPUTS: see, "k_pre": lambda layer, k: self.part(layer, "wk", self.keys, k.shape),
                VALUES: lambda layer, v: self.part(layer, "wv", self.values, v.shape)}


def input_table(bench):
    print("| bits | layer inputs | method | bits per value | SNR by layer, dB | loss | change |")
    print("|---|---|---|---|---|---|---|")
    losses = {}
    for bits in (4, 3, 2):
        for kind, shown in (("x_prenorm", "before the norm"), (INPUTS, "after the norm")):
            for method, replacement in (
                    ("XQuant", plain_layers(bench, bits)),
                    ("XQuant-CL", CrossLayer(bench, bits)),
                    ("XQuant-CL, accumulator at 4 bits", CrossLayer(bench, bits, True))):
                run = Run(bench, {kind: replacement})
                losses[bits, kind, method] = run.loss
                print(f"| {bits} | {shown} | {method} | {run.rate(kind):.2f} | "
                      f"{decibels(run.snr[kind])} | {loss_cells(run)} |")
        run = Run(bench, Latents(bench, bits).replacements())
        for kind, shown in (("k_pre", "latents of keys"), (VALUES, "latents of values")):
            cells = loss_cells(run) if kind == "k_pre" else "|"
            print(f"| {bits} | {shown} | XQuant | {run.rate(kind):.2f} | "
                  f"{decibels(run.snr[kind])} | {cells} |")
    for kind, shown in (("x_prenorm", "before"), (INPUTS, "after")):
        pairs = [(losses[b, kind, "XQuant-CL"], losses[b, kind, "XQuant"]) for b in (4, 3, 2)]
        bench.claim(f"XQuant-CL loses no more than XQuant at equal bits, inputs {shown} the norm",
                    all(a <= b for a, b in pairs),
                    ", ".join(f"{a:.4f} : {b:.4f}" for a, b in pairs) + " (4, 3, 2 bits)")


# ---- Settings at equal bits ----------------------------------------------------------------------

SETTINGS = (
    ("plain", "", ""),
    ("`search=mse`", "search=mse", "search=mse"),
    ("`rotate_heads=on`", "rotate_heads=on", "rotate_heads=on"),
    ("`rotate_heads=on,search=mse`", "rotate_heads=on,search=mse", "rotate_heads=on,search=mse"),
    ("`codebook=nf`", "codebook=nf", "codebook=nf"),
    ("`codebook=lloyd`", "codebook=lloyd", "codebook=lloyd"),
    ("`codebook=lloyd,rotate_heads=on`", *["codebook=lloyd,rotate_heads=on"] * 2),
    ("`codebook=trellis`", "codebook=trellis", "codebook=trellis"),
    ("`codebook=trellis,rotate_heads=on`", *["codebook=trellis,rotate_heads=on"] * 2),
    ("`outliers=0.01`", "outliers=0.01", "outliers=0.01"),
    ("keys `axis=channel`", "axis=channel", ""),
    ("keys `axis=channel`, both `search=mse`", "axis=channel,search=mse", "search=mse"),
)


def setting_table(bench):
    print("| setting | bits | bits per value | SNR of keys, dB | of values | loss | change |")
    print("|---|---|---|---|---|---|---|")
    runs = {}
    for bits in (4, 3, 2):
        for shown, keys, values in SETTINGS:
            run = Run(bench, {kind: through(bench, f"kv:bits={bits}" + ("," + more if more else ""),
                                            rows=True)
                              for kind, more in ((KEYS, keys), (VALUES, values))})
            runs[bits, shown] = run
            print(f"| {shown} | {bits} | {run.rate(KEYS):.2f} | {run.mean(KEYS):.2f} | "
                  f"{run.mean(VALUES):.2f} | {loss_cells(run)} |")

    def compare(what, better, worse, kinds, bits=(4, 3, 2)):
        pairs = [(runs[b, better].mean(k), runs[b, worse].mean(k)) for b in bits for k in kinds]
        bench.claim(what, all(a >= b for a, b in pairs),
                    ", ".join(f"{a:.1f} : {b:.1f}" for a, b in pairs) + " dB")

    compare("keys per channel are better than per token (4, 3, 2 bits)", "keys `axis=channel`",
            "plain", (KEYS,))
    compare("`search=mse` is better than plain (keys, values)", "`search=mse`", "plain",
            (KEYS, VALUES))
    compare("rotation is better than plain (keys, values)", "`rotate_heads=on`", "plain",
            (KEYS, VALUES))
    compare("`lloyd` after rotation is better than uniform codes after rotation, 2 and 3 bits",
            "`codebook=lloyd,rotate_heads=on`", "`rotate_heads=on`", (KEYS, VALUES), (3, 2))
    compare("`trellis` is better than `lloyd` (keys, values)", "`codebook=trellis`",
            "`codebook=lloyd`", (KEYS, VALUES))


# ---- Eight bits ----------------------------------------------------------------------------------

def e4m3(x):
    """The nearest number of 4 exponent and 3 mantissa bits, of which the largest is 448."""
    exponent = np.maximum(np.frexp(np.abs(x))[1], -5)
    step = np.ldexp(np.float32(1), exponent - 4)
    return np.clip(np.round(x / step) * step, -448, 448).astype(np.float32)


def float8(scaled):
    def replace(layer, x):
        if not scaled:
            return e4m3(x), x.size
        scale = np.abs(x).max(-1, keepdims=True).astype(np.float16).astype(np.float32) / 448
        scale[scale == 0] = 1
        return e4m3(x / scale) * scale, x.size + 2 * scale.size
    return replace


def eight_bit_table(bench):
    print("| 8 bits | bits per value | SNR of keys, dB | of values | loss | change |")
    print("|---|---|---|---|---|---|")
    means = []
    for shown, replacement in (
            ("`bits=8,symmetric=on`: INT8, a scale for each token and head",
             through(bench, "kv:bits=8,symmetric=on")),
            ("FP8 e4m3, a scale for each token and head", float8(True)),
            ("FP8 e4m3, no scales", float8(False))):
        run = Run(bench, {KEYS: replacement, VALUES: replacement})
        means.append((run.mean(KEYS), run.mean(VALUES)))
        print(f"| {shown} | {run.rate(KEYS):.2f} | {means[-1][0]:.2f} | {means[-1][1]:.2f} | "
              f"{loss_cells(run)} |")
    bench.claim("INT8 with scales is better than FP8 with scales (keys, values)",
                all(a > b for a, b in zip(means[0], means[1])),
                ", ".join(f"{a:.1f} : {b:.1f}" for a, b in zip(means[0], means[1])) + " dB")


# ---- Repeated offloads ---------------------------------------------------------------------------

def offload(plan, page, widen):
    """Error after one and after OFFLOADS trips, and how many made a frame unlike the one before."""
    frame = plan.encode(page)
    now = plan.decode(frame)
    first, changed = kv_model.snr(widen(page), widen(now)), 0
    for _ in range(OFFLOADS - 1):
        again = plan.encode(now)
        if again == frame:
            break
        frame, changed = again, changed + 1
        now = plan.decode(frame)
    return first, kv_model.snr(widen(page), widen(now)), changed


def offload_table(bench):
    narrow = {"f32": (lambda x: x, lambda x: x), "bf16": (kv_model.to_bf16, kv_model.from_bf16),
              "f16": (lambda x: x.astype(np.float16), lambda x: x.astype(np.float32))}
    print("| preset | tensor | " + " | ".join(narrow) + " |\n|---|---|---|---|---|")
    drift, changed = {}, 0
    for name, targets in PRESETS:
        for kind, preset in targets.items():
            pages = bench.tensors(kind)[-1][:4]
            if pages.ndim == 3:
                pages = pages[:, :, None, :]
            cells = []
            for dtype, (to, widen) in narrow.items():
                plan = bench.pith.plan("kv:preset=" + preset, pages.shape, dtype)
                once, often, different = offload(plan, np.ascontiguousarray(to(pages)), widen)
                drift[f"`{preset}`, {dtype}"] = once - often
                changed += different if dtype == "f32" else 0
                cells.append(f"{once:.3f}, {often:.3f} ({different})")
            print(f"| `{preset}` | {NAMES[kind]} | " + " | ".join(cells) + " |")
    for rotated, which in ((False, "presets that do not rotate"), (True, "presets that rotate")):
        some = {k: v for k, v in drift.items() if ("quarot" in k or "trellis" in k) == rotated}
        worst = max(some, key=some.get)
        bench.claim(f"{OFFLOADS} offloads cost no more than one at 16 bits, {which}",
                    some[worst] < 0.0005, f"{worst}: {some[worst]:.4f} dB")
    bench.claim("a page that was decoded to f32 encodes to itself", changed == 0,
                f"{changed} frames changed")


# ---- Entropy -------------------------------------------------------------------------------------

PAGE = 128


def pad(count):
    return (count + 15) // 16 * 16


def codes_of(frame, shape, bits, scale_bytes):
    """[token, head, dim] of a frame of whole pages without outliers (doc/FORMAT.md, Codec 8)."""
    batch, tokens, heads, dim = shape
    pages = batch * tokens // PAGE
    width = (dim * bits + 7) // 8
    code_bytes = PAGE * heads * width
    page = pad(scale_bytes) + pad(code_bytes)
    payload = np.frombuffer(frame, np.uint8)[-pages * page:].reshape(pages, page)
    codes = payload[:, pad(scale_bytes):pad(scale_bytes) + code_bytes].reshape(-1, heads, width)
    flat = np.unpackbits(codes, -1, bitorder="little")[..., :dim * bits]
    return flat.reshape(-1, heads, dim, bits) @ (1 << np.arange(bits))


def entropy(codes):
    """Bits per code of a coder that knows how often each comes in its column."""
    total = 0.0
    columns = codes.reshape(len(codes), -1).T
    for column in columns:
        share = np.bincount(column) / len(column)
        share = share[share > 0]
        total -= (share * np.log2(share)).sum()
    return total / len(columns)


def entropy_table(bench):
    print("| setting | tensor | bits per value | scales | codes, limit by head | by channel | "
          "`entropy=zstd` | over the limit by head |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, axis, group in ((KEYS, "channel", 32), (KEYS, "channel", 128), (KEYS, "token", 32),
                              (VALUES, "token", 32), (INPUTS, "token", 128)):
        for bits in (8, 4, 2):
            x = bench.tensors(kind)[-1]
            x = x if x.ndim == 4 else x[:, :, None, :]
            spec = f"kv:bits={bits},group={group}" + (",axis=channel" if axis == "channel" else "")
            rows = x.shape[2] * x.shape[3]
            groups = PAGE // group * rows if axis == "channel" else \
                PAGE * x.shape[2] * -(-x.shape[3] // group)
            plain = bench.pith.plan(spec, x.shape).encode(x)
            codes = codes_of(plain, x.shape, bits, groups * 4)
            scales = 32 * groups / (PAGE * rows)
            heads = entropy(codes.transpose(0, 2, 1).reshape(-1, codes.shape[1]))
            coded = " | |"  # the goal stays in sight where the library has no such key
            if bench.pith.knows(spec + ",entropy=zstd"):
                rate = 8 * bench.pith.trip(spec + ",entropy=zstd", x)[1] / x.size
                coded = f" {rate:.3f} | {rate - scales - heads:+.3f} |"
            print(f"| `{spec}` | {NAMES[kind]} | {8 * len(plain) / x.size:.3f} | {scales:.3f} | "
                  f"{heads:.3f} | {entropy(codes):.3f} |{coded}")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    bench = Bench(*sys.argv[1:])
    tables = (
        (preset_table, "Held-out loss of the model with its keys and values, or the layer inputs "
         "that they are made of,\nreplaced by their round trip."),
        (input_table, "Layer inputs: each layer for itself (XQuant) and as the difference from "
         "what the receiver has of\nthe layer before (XQuant-CL); the first layer at 4 bits."),
        (setting_table, "Settings at equal bits: groups of 128 per token, heads side by side."),
        (eight_bit_table, "Eight bits, heads of 32."),
        (offload_table, f"Out of memory and back, the last layer's tensors: SNR in dB after one "
         f"trip and after {OFFLOADS}, and\nhow many of the later trips gave a frame that was not "
         "the one before."),
        (entropy_table, "Codes of the last layer through an entropy coder, bits per value, beside "
         "what their frequencies\nallow a coder that takes codes one by one."),
    )
    for table, title in tables:
        print(title + "\n")
        table(bench)
        print()
    print("What the literature says, and here:\n\n| claim | holds | figures |\n|---|---|---|")
    for row in bench.claims:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
