#!/usr/bin/env python3
"""Print what zstd and rANS save: the section Entropy of codes of doc/RESULTS.md.

SPDX-License-Identifier: Apache-2.0

    tools/entropy_quality.py LIBPITH_SO DATA [FILE | BEFORE:AFTER]...

DATA is tests/data: keys and values of a small model, steps of weights, and what lossless and the
codecs with a bound are for. More files, .safetensors: of one the tensors [layer, head, token, dim]
go through kv, of two what differs through wdiff.
Needs numpy.
"""
import json
import pathlib
import struct
import sys

import numpy as np

sys.dont_write_bytecode = True
import kv_model

HEADER = 64
BLOCK = 16384
PAGE = 128


def tensors(path):
    """All tensors of floats of a .safetensors file, as float32."""
    raw = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", raw)
    dtypes = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
    for name, entry in sorted(json.loads(raw[8:8 + n]).items()):
        if entry.get("dtype") in dtypes:
            begin, end = (8 + n + at for at in entry["data_offsets"])
            flat = np.frombuffer(raw[begin:end], dtypes[entry["dtype"]]).reshape(entry["shape"])
            yield name, (kv_model.from_bf16(flat) if entry["dtype"] == "BF16"
                         else flat.astype(np.float32))


def everything(path):
    return np.concatenate([x.ravel() for _, x in tensors(path)])


def pad(count):
    return (count + 15) // 16 * 16


def unpacked(strings, count, bits):
    """Code strings, one a row, as arrays of codes."""
    flat = np.unpackbits(strings, -1, bitorder="little")[..., :count * bits]
    return flat.reshape(*strings.shape[:-1], count, bits) @ (1 << np.arange(bits))


def entropy(strings):
    """Bits a code of a coder that knows how often each comes in its string, and their number."""
    total, count = 0.0, 0
    for codes in strings:
        share = np.bincount(codes) / len(codes)
        share = share[share > 0]
        total -= len(codes) * (share * np.log2(share)).sum()
        count += len(codes)
    return total / count


def wdiff_strings(frame, count, bits, group):
    """Codes of every block."""
    at = HEADER
    for first in range(0, count, BLOCK):
        n = min(BLOCK, count - first)
        at += pad(-(-n // group) * 4)
        length = (n * bits + 7) // 8
        yield unpacked(np.frombuffer(frame, np.uint8, length, at), n, bits)
        at += pad(length)


def kv_strings(frame, shape, bits, scales):
    """Codes of every head; pages are whole, and a block has all of them that a sequence has."""
    batch, tokens, heads, dim = shape
    length = PAGE * heads * dim * bits // 8
    pages = np.frombuffer(frame, np.uint8, offset=HEADER).reshape(batch, tokens // PAGE, -1)
    codes = pages[..., pad(scales):pad(scales) + length]
    for sequence in unpacked(codes.reshape(batch, tokens, heads, -1), dim, bits):
        for head in sequence.transpose(1, 0, 2):
            yield head.ravel()


def row(pith, spec, name, x, strings):
    """A row of the table: `strings` finds the codes in a frame without entropy coding."""
    frame = pith.plan(spec, x.shape).encode(x)
    rates = [8 * len(frame) / x.size]
    plain, _ = pith.trip(spec, x)
    for coder in ("zstd", "rans"):
        back, length = pith.trip(f"{spec},entropy={coder}", x)
        if back.tobytes() != plain.tobytes():
            raise SystemExit(f"{spec}: entropy={coder} changes what is decoded")
        rates.append(8 * length / x.size)
    print(f"| `{spec}` | {name} | " + " | ".join(f"{r:.3f}" for r in rates) +
          f" | {entropy(strings(frame)):.3f} |")


def wdiff_rows(pith, name, x):
    for group in (2048, 128):
        for bits in (4, 3):
            spec = f"wdiff:bits={bits}" + (f",group={group}" if group != 2048 else "")
            row(pith, spec, name, x,
                lambda frame, bits=bits, group=group: wdiff_strings(frame, x.size, bits, group))


def kv_rows(pith, name, x, axis, group):
    batch, tokens, heads, dim = x.shape
    groups = PAGE // group * heads * dim if axis == "channel" else \
        PAGE * heads * -(-dim // group)
    for bits in (4, 2):
        spec = f"kv:bits={bits},group={group}" + (",axis=channel" if axis == "channel" else "")
        row(pith, spec, name, x, lambda frame, bits=bits: kv_strings(frame, x.shape, bits,
                                                                      4 * groups))


# What codecs that take rANS and zstd by themselves are for: file of DATA, its base, what it holds.
STRINGS = {
    "lossless": (("ckpt_next_bf16", None, "a checkpoint, bf16"),
                 ("ckpt_next_bf16", "ckpt_prev_bf16", "the same, over the one before"),
                 ("wo_t0", None, "a layer's weights, f32"),
                 ("grads_late", None, "gradients, bf16"),
                 ("dlrm_lookup", None, "looked-up rows, f32"),
                 ("dlrm_lookup_grad", None, "gradients of these, f32"),
                 ("adam_late", None, "what AdamW keeps, f32"),
                 ("cnn_act", None, "activations, f32")),
    "eb:mode=ratio,rel=0.001": (("field64", None, "a smooth field, f32"),
                                ("ckpt_next_bf16", None, "a checkpoint, bf16"),
                                ("wo_t0", None, "a layer's weights, f32"),
                                ("dlrm_lookup", None, "looked-up rows, f32")),
    "act:mode=ratio,rel=0.001": (("cnn_act", None, "activations, f32"),
                                 ("cnn_act_grad", None, "gradients of these, bf16")),
    "embed:rel=0.01": (("dlrm_lookup", None, "looked-up rows, f32"),
                       ("dlrm_lookup_grad", None, "gradients of these, f32")),
}
VARIANTS = ("revision=1", "revision=2", "", "entropy=rans")


def natively(path):
    """All tensors of a .safetensors file of f32 and bf16 by name: dtype, bits or values."""
    raw = path.read_bytes()
    (n,) = struct.unpack_from("<Q", raw)
    found = {}
    for name, entry in sorted(json.loads(raw[8:8 + n]).items()):
        if entry.get("dtype") in ("F32", "BF16"):
            begin, end = (8 + n + at for at in entry["data_offsets"])
            numpy_dtype = np.float32 if entry["dtype"] == "F32" else np.uint16
            found[name] = (entry["dtype"].lower(),
                           np.frombuffer(raw[begin:end], numpy_dtype).reshape(entry["shape"]))
    return found


def frame_bytes(pith, spec, dtype, x, base):
    """Bytes of a frame of x over the base, which the encoder makes x."""
    plan = pith.plan(spec, x.shape, dtype, dtype if base is not None else None)
    if base is not None:
        kept = base.copy()
        plan.bind(kept)
    return len(plan.encode(x))


def string_rows(pith, data):
    for spec, files in STRINGS.items():
        for file, before, what in files:
            found = natively(data / f"{file}.safetensors")
            bases = natively(data / f"{before}.safetensors") if before else {}
            rates = []
            for variant in VARIANTS:
                full = spec + (("," if ":" in spec else ":") + variant if variant else "")
                total = sum(frame_bytes(pith, full, dtype, x, bases.get(name, (None, None))[1])
                            for name, (dtype, x) in found.items())
                rates.append(8 * total / sum(x.size for _, x in found.values()))
            print(f"| `{spec}` | {what} | " + " | ".join(f"{r:.3f}" for r in rates) + " |")


def model_tensors(data):
    seen = {}

    def keep(kind, layer, x):
        seen.setdefault(kind, []).append(x)
        return x
    kv_model.Model(str(data)).loss(keep)
    return {kind: np.concatenate(layers) for kind, layers in seen.items()}


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    pith, data = kv_model.Pith(sys.argv[1]), pathlib.Path(sys.argv[2])
    print("| setting | values | packed | `zstd` | `rans` | entropy of the codes |")
    print("|---|---|---|---|---|---|")
    steps = [everything(data / f"wo_t{t}.safetensors") for t in range(9)]
    wdiff_rows(pith, "eight steps of a layer, f32",
               np.concatenate([b - a for a, b in zip(steps, steps[1:])]))
    wdiff_rows(pith, "a step of all weights, bf16",
               everything(data / "ckpt_next_bf16.safetensors") -
               everything(data / "ckpt_prev_bf16.safetensors"))
    seen = model_tensors(data)
    kv_rows(pith, "keys, by channel", seen["k_post"], "channel", 32)
    kv_rows(pith, "values, by token", seen["v"], "token", 32)
    kv_rows(pith, "layer inputs, by token", seen["x_postnorm"][:, :, None, :], "token", 128)
    for extra in sys.argv[3:]:
        before, _, after = extra.partition(":")
        if after:
            wdiff_rows(pith, pathlib.Path(after).name, everything(after) - everything(before))
            continue
        for name, x in tensors(before):
            if x.ndim == 4 and x.shape[2] % PAGE == 0:
                x = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
                kv_rows(pith, f"{name}, by channel", x, "channel", 32)
                kv_rows(pith, f"{name}, by token", x, "token", 32)
    print("\n| setting | values | `revision=1` | `revision=2` | default | `entropy=rans` |")
    print("|---|---|---|---|---|---|")
    string_rows(pith, data)


if __name__ == "__main__":
    main()
