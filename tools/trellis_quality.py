#!/usr/bin/env python3
"""Print what codebook=trellis gains: the section Trellis of doc/RESULTS.md; needs numpy.

SPDX-License-Identifier: Apache-2.0

    tools/trellis_quality.py LIBPITH_SO DATA

DATA is tests/data: keys and values of a small model, gradients, steps of weights.
"""
import json
import pathlib
import struct
import sys

import numpy as np

sys.dont_write_bytecode = True
import kv_model

GROUP = 128


def tensors(path):
    """All tensors of a .safetensors file of f32 and bf16, widened."""
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    for name, entry in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + n + at for at in entry["data_offsets"])
        if entry["dtype"] == "F32":
            yield name, np.frombuffer(raw[begin:end], np.float32)
        elif entry["dtype"] == "BF16":
            yield name, kv_model.from_bf16(np.frombuffer(raw[begin:end], np.uint16))


def everything(path):
    return np.concatenate([values.ravel() for _, values in sorted(tensors(path))])


def keys_and_values(data):
    seen = {"k_post": [], "v": []}

    def keep(kind, layer, x):
        if kind in seen:
            seen[kind].append(x)
        return x
    kv_model.Model(str(data)).loss(keep)
    return {kind: np.concatenate([x.reshape(-1, *x.shape[-2:]) for x in xs])
            for kind, xs in seen.items()}


def samples(data):
    """Names, values, and what a spec of codec kv says besides."""
    kv = keys_and_values(data)
    row = {kind: x.reshape(1, len(x), 1, -1) for kind, x in kv.items()}
    yield "keys, by channel", row["k_post"], "axis=channel"
    yield "keys, by token", row["k_post"], ""
    yield "values, by token", row["v"], ""
    for when in ("early", "late"):
        flat = everything(data / f"grads_{when}.safetensors")
        rows = flat[:len(flat) // GROUP * GROUP].reshape(1, -1, 1, GROUP)
        yield f"gradients, {when}, rotated", rows, "rotate_heads=on"
    steps = [everything(data / f"wo_t{t}.safetensors") for t in range(9)]
    moved = np.concatenate([b - a for a, b in zip(steps, steps[1:])])
    yield "steps of weights", moved[:len(moved) // GROUP * GROUP].reshape(1, -1, 1, GROUP), ""
    normal = np.random.default_rng(1).standard_normal(1 << 18).astype(np.float32)
    yield "normal distribution", normal.reshape(1, -1, 1, GROUP), ""


def main():
    pith, data = kv_model.Pith(sys.argv[1]), pathlib.Path(sys.argv[2])
    least = {}
    print("| values | bits | steps, searched | `nf` | `lloyd` | `trellis` | over `lloyd` |")
    print("|---|---|---|---|---|---|---|")
    everything_else = list(samples(data))
    for bits in (4, 3, 2):
        for name, x, more in everything_else:
            def snr(spec):
                back, _ = pith.trip(f"kv:bits={bits},group={GROUP},{spec}" +
                                    ("," + more if more else ""), np.ascontiguousarray(x))
                return kv_model.snr(x, back)
            cells = [snr(spec) for spec in ("symmetric=on,search=mse", "codebook=nf",
                                            "codebook=lloyd", "codebook=trellis")]
            gain = cells[3] - cells[2]
            least[bits] = min(gain, least.get(bits, gain))
            print(f"| {name} | {bits} | " + " | ".join(f"{c:.2f}" for c in cells) +
                  f" | {gain:+.2f} |")
    print()
    print("| codec | values | bits | SNR without, dB | with `codebook=trellis` | gain |")
    print("|---|---|---|---|---|---|")
    rows = [("grad:group=128,search=mse", "grad:group=128,codebook=trellis", "gradients, late"),
            ("wdiff:group=128", "wdiff:group=128,codebook=trellis", "steps of weights"),
            ("wdiff", "wdiff:codebook=trellis", "steps of weights")]
    for bits in (4, 3, 2):
        for plain, trellis, name in rows:
            x = next(x for n, x, _ in everything_else if n.startswith(name)).reshape(-1)
            cells = []
            for spec in (plain, trellis):
                back, _ = pith.trip(spec + ("," if ":" in spec else ":") + f"bits={bits}", x)
                cells.append(kv_model.snr(x, back))
            print(f"| `{plain}` | {name} | {bits} | {cells[0]:.2f} | {cells[1]:.2f} | "
                  f"{cells[1] - cells[0]:+.2f} |")
    print()
    print("Trellis codes gain at least " +
          ", ".join(f"{least[b]:.2f} dB at {b} bits" for b in (4, 3, 2)) + " over `lloyd`.")


if __name__ == "__main__":
    main()
