"""A small language model whose keys, values and layer inputs go through pith; needs numpy.

SPDX-License-Identifier: Apache-2.0

For tools/kv_quality.py: the library through ctypes, the forward pass, and what came back.
"""
import ctypes
import json
import struct

import numpy as np

DTYPES = {"f32": 1, "bf16": 2, "f16": 3}
EXTERNAL_BASE = 2
MAX_NDIM = 8


# ---- The library ---------------------------------------------------------------------------------

class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_uint32), ("ndim", ctypes.c_uint32),
                ("shape", ctypes.c_uint64 * MAX_NDIM), ("stride", ctypes.c_int64 * MAX_NDIM)]


class Layout(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("dtype", ctypes.c_uint32),
                ("base_dtype", ctypes.c_uint32), ("ndim", ctypes.c_uint32),
                ("flags", ctypes.c_uint32), ("shape", ctypes.c_uint64 * MAX_NDIM),
                ("slots", ctypes.c_uint64), ("slot_count", ctypes.c_uint64),
                ("slot_counts", ctypes.c_void_p), ("source", ctypes.c_void_p),
                ("source_bytes", ctypes.c_size_t), ("exempt", ctypes.c_void_p),
                ("exempt_count", ctypes.c_size_t)]


class Error(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("offset", ctypes.c_uint64), ("item", ctypes.c_uint64),
                ("text", ctypes.c_char * 232)]


class Sizes(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t),
                *((name, ctypes.c_uint64) for name in
                  ("slot_bytes", "frame_bytes", "key_bytes", "stream_bytes", "save_bytes",
                   "alignment", "slots")),
                ("fixed", ctypes.c_uint32)]


class Item(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("slot", ctypes.c_uint64),
                ("view", View), ("frame", ctypes.c_void_p), ("capacity", ctypes.c_size_t),
                ("length", ctypes.c_size_t), ("status", ctypes.c_int)]


def sized(struct, **fields):
    """Structs that callers or calls fill in begin with their size."""
    return struct(size=ctypes.sizeof(struct), **fields)


class Pith:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.pith_work_bytes.restype = ctypes.c_uint64
        self.lib.pith_work_error.restype = ctypes.POINTER(Error)
        self.plans = {}

    def plan(self, spec, shape, dtype="f32", base=None):
        key = (spec, shape, dtype, base)
        if key not in self.plans:
            self.plans[key] = Plan(self.lib, *key)
        return self.plans[key]

    def knows(self, spec):
        return self.lib.pith_spec_check(spec.encode(), None, ctypes.c_size_t(0), None) == 0

    def trip(self, spec, values):
        """What float32 values decode to, and the bytes of their frame."""
        plan = self.plan(spec, values.shape)
        frame = plan.encode(values)
        return plan.decode(frame), len(frame)


class Plan:
    """One frame: a plan with a work and a stream of its own.

    With a base, which is the caller's array of that dtype: see bind.
    """

    def __init__(self, lib, spec, shape, dtype, base):
        self.lib, self.spec, self.shape, self.dtype = lib, spec, shape, dtype
        self.plan, self.work, self.stream = (ctypes.c_void_p() for _ in range(3))
        layout = sized(Layout, dtype=DTYPES[dtype], ndim=len(shape),
                       base_dtype=DTYPES[base] if base else 0,
                       flags=EXTERNAL_BASE if base else 0)
        layout.shape[:len(shape)] = shape
        error, sizes = sized(Error), sized(Sizes)
        self.check(lib.pith_plan_create(
            ctypes.byref(self.plan), spec.encode(), ctypes.byref(layout), None,
            ctypes.byref(error)), error)
        lib.pith_plan_sizes(self.plan, ctypes.byref(sizes))
        self.frame = np.empty(sizes.slot_bytes, np.uint8)
        self.memory = [
            np.empty(count, np.uint8) for count in
            (lib.pith_work_bytes(ctypes.byref(self.plan), ctypes.c_size_t(1), ctypes.c_uint32(1)),
             sizes.stream_bytes)]
        work_memory, stream_memory = ((m.ctypes, ctypes.c_size_t(len(m))) for m in self.memory)
        self.check(lib.pith_work_init(*work_memory, None, ctypes.byref(self.work),
                                      ctypes.byref(error)), error)
        self.check(lib.pith_stream_init(self.plan, *stream_memory, None,
                                        ctypes.byref(self.stream), ctypes.byref(error)), error)

    def check(self, status, error=None):
        if status:
            error = error or self.lib.pith_work_error(self.work).contents
            raise SystemExit(f"{self.spec}: status {status}: {error.text.decode()}")

    def view(self, values):
        assert values.flags.c_contiguous and values.shape == self.shape
        view = View(data=values.ctypes.data, dtype=DTYPES[self.dtype], ndim=values.ndim)
        view.shape[:values.ndim] = values.shape
        view.stride[:values.ndim] = [s // values.itemsize for s in values.strides]
        return view

    def bind(self, base):
        self.check(self.lib.pith_stream_bind_base(self.work, self.stream, base.ctypes,
                                                  ctypes.c_uint64(0)))

    def call(self, function, item):
        self.check(function(self.work, ctypes.byref(item), ctypes.c_size_t(1), ctypes.c_uint32(0)))

    def encode(self, values):
        item = sized(Item, stream=self.stream, view=self.view(values),
                     frame=self.frame.ctypes.data, capacity=len(self.frame))
        self.call(self.lib.pith_encode, item)
        return self.frame[:item.length].tobytes()

    def decode(self, frame):
        out = np.empty(self.shape, {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}
                       [self.dtype])
        item = sized(Item, stream=self.stream, view=self.view(out),
                     frame=ctypes.cast(frame, ctypes.c_void_p), length=len(frame))
        self.call(self.lib.pith_decode, item)
        return out


# ---- Values --------------------------------------------------------------------------------------

def to_bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def load(path):
    """Metadata and tensors of a .safetensors file; those of bf16 as float32."""
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + length])
    metadata, out = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        begin, end = (8 + length + at for at in entry["data_offsets"])
        data = np.frombuffer(raw[begin:end], {"U16": "<u2", "BF16": "<u2", "F32": "<f4"}
                             [entry["dtype"]]).reshape(entry["shape"])
        out[name] = from_bf16(data) if entry["dtype"] == "BF16" else data
    return metadata, out


def snr(values, back):
    error = np.square(back.astype(np.float64) - values).sum()
    return 10 * np.log10(np.square(values.astype(np.float64)).sum() / error) if error else np.inf


# ---- The model -----------------------------------------------------------------------------------

def gelu(x):
    inner = np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)
    return 0.5 * x * (1 + np.tanh(inner))


class Model:
    """Kinds of tensors that a caller may replace, one of each a layer, all segments in one array:

    k_pre, k_post, v      [segment, token, head, dim]: keys before and after rotary embedding
    x_postnorm, x_prenorm [segment, token, width]: layer inputs after and before the norm; keys and
                          values are made of what is given back, queries of what was there
    """

    def __init__(self, data):
        self.weights = load(data + "/ckpt_prev_bf16.safetensors")[1]
        meta, tensors = load(data + "/heldout_tokens.safetensors")
        self.heads, self.eps = int(meta["heads"]), float(meta["norm_eps"])
        segments, context = int(meta["eval_segments"]), int(meta["context"])
        tokens = tensors["tokens"].astype(np.int64)
        self.tokens = tokens[:segments * context].reshape(segments, context)
        self.wanted = tokens[1:segments * context + 1].reshape(segments, context)
        self.layers = 1 + max(int(name.split(".")[1]) for name in self.weights if "layers." in name)
        half = self.weight("layers.0.attn.wk.bias").size // self.heads // 2
        speed = float(meta["rope_theta"]) ** (-np.arange(half) / half)
        angle = (np.arange(context)[:, None] * speed)[:, None, :]
        self.cos, self.sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        self.mask = np.triu(np.full((context, context), -np.inf, np.float32), 1)

    def weight(self, name):
        return self.weights[name]

    def linear(self, name, x):
        return x @ self.weight(name + ".weight").T + self.weight(name + ".bias")

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(self.eps))
        return centred / scale * self.weight(name + ".gain") + self.weight(name + ".bias")

    def split(self, x):
        return np.ascontiguousarray(x.reshape(*x.shape[:-1], self.heads, -1))

    def rotate(self, x):
        a, b = np.split(x, 2, -1)
        return np.concatenate((a * self.cos - b * self.sin, a * self.sin + b * self.cos), -1)

    def attend(self, q, k, v):
        q, k, v = (z.transpose(0, 2, 1, 3) for z in (q, k, v))
        score = q @ k.swapaxes(-1, -2)
        score *= np.float32(q.shape[-1] ** -0.5)
        score += self.mask
        score -= score.max(-1, keepdims=True)
        np.exp(score, out=score)
        out = (score @ v) / score.sum(-1, keepdims=True)
        return out.transpose(0, 2, 1, 3).reshape(*self.tokens.shape, -1)

    def keys_and_values(self, layer, x, replace):
        """Of a layer's input, which is the residual stream."""
        name = f"layers.{layer}."
        back = replace("x_prenorm", layer, x)
        h = replace("x_postnorm", layer, self.norm(name + "ln1", back))
        k = replace("k_pre", layer, self.split(self.linear(name + "attn.wk", h)))
        k = replace("k_post", layer, self.rotate(k))
        return k, replace("v", layer, self.split(self.linear(name + "attn.wv", h)))

    def layer(self, layer, x, replace):
        name = f"layers.{layer}."
        k, v = self.keys_and_values(layer, x, replace)
        q = self.split(self.linear(name + "attn.wq", self.norm(name + "ln1", x)))
        x = x + self.linear(name + "attn.wo", self.attend(self.rotate(q), k, v))
        h = self.linear(name + "mlp.w_in", self.norm(name + "ln2", x))
        return x + self.linear(name + "mlp.w_out", gelu(h))

    def loss(self, replace=lambda kind, layer, x: x):
        """Nats a token."""
        x = self.weight("tok_emb.weight")[self.tokens]
        for layer in range(self.layers):
            x = self.layer(layer, x, replace)
        logits = self.norm("ln_f", x) @ self.weight("tok_emb.weight").T
        logits = logits - logits.max(-1, keepdims=True)
        total = np.log(np.exp(logits).sum(-1, dtype=np.float64))
        found = np.take_along_axis(logits, self.wanted[..., None], -1)[..., 0]
        return float((total - found).mean())
