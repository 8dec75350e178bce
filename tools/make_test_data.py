#!/usr/bin/env python3
"""Make tests/data from float32 tensors of training runs and a simulation; standard library only.

SPDX-License-Identifier: Apache-2.0

    tools/make_test_data.py RUN [OUT]

RUN holds gpt_weights_t0.safetensors .. gpt_weights_t8.safetensors, nine successive optimizer steps
of one run: t0 and t1 with all tensors, t2 .. t8 with the two tensors named in CHAIN; and
gpt_grads_early_rank0.safetensors .. rank7, the gradients of eight data-parallel ranks, and the same
late in the run, with the tensor named in GRADIENT. And of other models: cnn_act_late.safetensors
and cnn_act_grad_late.safetensors, activations and their gradients; dlrm_lookup_late.safetensors and
dlrm_lookup_grad_late.safetensors, rows looked up in embedding tables and their gradients;
field_grayscott_64x64x64.npy, a smooth field. And what the run's held-out loss is made of:
gpt_eval_tokens.npy and gpt_meta.json. OUT is tests/data unless given.
"""
import array
import json
import os
import struct
import sys

CHAIN = ("layers.2.attn.wo.weight", "layers.2.ln1.gain")
GRADIENT = "layers.1.attn.wv.weight"
RANKS = 8
# What a forward pass needs to know besides the shapes of the parameters.
MODEL = ("heads", "rope_theta", "norm_eps", "context", "eval_segments", "heldout_loss_t0")


def load(path):
    """The file's metadata, and [(name, entry, bytes)] in the order of its data."""
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack_from("<Q", raw)
    data = memoryview(raw)[8 + length:]
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", None)
    rows = sorted(header.items(), key=lambda row: row[1]["data_offsets"])
    return metadata, [(name, entry, data[slice(*entry["data_offsets"])]) for name, entry in rows]


def save(path, metadata, tensors):
    """tensors: [(name, dtype, shape, bytes)], written without gaps in this order."""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            f.write(tensor[3])


def words(code, data):
    out = array.array(code, bytes(data))
    if sys.byteorder == "big":
        out.byteswap()
    return out


def to_bf16(data):
    """Round to nearest, ties to even. The checkpoints are finite, so NaN needs no care."""
    values = words("I", data)
    if any(u & 0x7F800000 == 0x7F800000 for u in values):
        raise SystemExit("a checkpoint holds a value that is not finite")
    out = array.array("H", ((u + 0x7FFF + (u >> 16 & 1)) >> 16 for u in values))
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def make_bf16(src, dst):
    metadata, tensors = load(src)
    save(dst, metadata, [(n, "BF16", e["shape"], to_bf16(d)) for n, e, d in tensors])


def make_chain(src, dst):
    metadata, tensors = load(src)
    save(dst, metadata, [(n, e["dtype"], e["shape"], d) for n, e, d in tensors if n in CHAIN])


def make_gradients(sources, dst):
    rows = []
    for rank, src in enumerate(sources):
        for name, entry, data in load(src)[1]:
            if name == GRADIENT:
                rows.append((f"rank{rank}", "BF16", entry["shape"], to_bf16(data)))
    save(dst, None, rows)


def make_floats(src, dst, dtype):
    rows = [(n, e, d) for n, e, d in load(src)[1] if e["dtype"] == "F32"]
    save(dst, None, [(n, dtype, e["shape"], to_bf16(d) if dtype == "BF16" else d)
                     for n, e, d in rows])


def load_npy(path, kind):
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack_from("<H", raw, 8)
    if raw[:8] != b"\x93NUMPY\x01\x00" or f"'<{kind}'".encode() not in raw[10:10 + length]:
        raise SystemExit(f"{path} is not an array of little-endian {kind} of npy version 1")
    return raw[10 + length:]


def make_field(src, dst):
    save(dst, None, [("field", "F32", [64, 64, 64], load_npy(src, "f4"))])


def make_tokens(run, dst):
    """The vocabulary is small: 16 bits hold a token."""
    with open(os.path.join(run, "gpt_meta.json")) as f:
        meta = json.load(f)
    tokens = words("i", load_npy(os.path.join(run, "gpt_eval_tokens.npy"), "i4"))
    out = array.array("H", tokens)
    if sys.byteorder == "big":
        out.byteswap()
    save(dst, {key: str(meta[key]) for key in MODEL},
         [("tokens", "U16", [len(out)], out.tobytes())])


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[2] if len(sys.argv) == 3 else os.path.join(here, "..", "tests", "data")
    os.makedirs(out, exist_ok=True)

    def source(step):
        return os.path.join(sys.argv[1], f"gpt_weights_t{step}.safetensors")

    make_bf16(source(0), os.path.join(out, "ckpt_prev_bf16.safetensors"))
    make_bf16(source(1), os.path.join(out, "ckpt_next_bf16.safetensors"))
    for step in range(9):
        make_chain(source(step), os.path.join(out, f"wo_t{step}.safetensors"))
    for phase in ("early", "late"):
        ranks = [os.path.join(sys.argv[1], f"gpt_grads_{phase}_rank{r}.safetensors")
                 for r in range(RANKS)]
        make_gradients(ranks, os.path.join(out, f"grads_{phase}.safetensors"))

    def copy(make, name, to, *how):
        make(os.path.join(sys.argv[1], name), os.path.join(out, to + ".safetensors"), *how)

    copy(make_floats, "cnn_act_late.safetensors", "cnn_act", "F32")
    copy(make_floats, "cnn_act_grad_late.safetensors", "cnn_act_grad", "BF16")
    copy(make_floats, "dlrm_lookup_late.safetensors", "dlrm_lookup", "F32")
    copy(make_floats, "dlrm_lookup_grad_late.safetensors", "dlrm_lookup_grad", "F32")
    copy(make_field, "field_grayscott_64x64x64.npy", "field64")
    make_tokens(sys.argv[1], os.path.join(out, "heldout_tokens.safetensors"))


if __name__ == "__main__":
    main()
