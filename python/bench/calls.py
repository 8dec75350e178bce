#!/usr/bin/env python3
"""What a call costs from Python, beside what it costs in C, measured in one run.

SPDX-License-Identifier: Apache-2.0

    python python/bench/calls.py [ROUNDS]

C: pith_encode, pith_decode, pith_compress or pith_decompress through the module with everything
prepared, less what a call that does nothing costs there. Python: the method of a stream, or the
function, on a tensor. Times are the least of many rounds, 500 unless told otherwise, an eighth of
lists and a fortieth of large tensors, in which calls of both take turns, so that load on the
machine falls on both.
"""

import math
import sys
import time
import timeit

import numpy as np

import pith
from pith import stream, views
from pith._core import ffi, lib

ELEMENTS = 256
TENSORS, BYTES, LARGE = 300, 25 << 20, 100 << 20
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 500


class OnlyDlpack:
    """An array of which nothing is known but DLPack's methods."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **keys):
        """Return the capsule."""
        return self.x.__dlpack__(**keys)

    def __dlpack_device__(self):
        """Return the device."""
        return self.x.__dlpack_device__()


def least(*calls, number=300):
    """Return the nanoseconds of each of these calls, which take turns."""
    seconds = [math.inf] * len(calls)
    for _ in range(ROUNDS):
        for i, call in enumerate(calls):
            seconds[i] = min(seconds[i], timeit.timeit(call, number=number))
    return [each / number * 1e9 for each in seconds]


def tensors():
    """Return one small tensor of each kind that is here."""
    x = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)
    kinds = {"NumPy": x}
    try:
        import torch

        kinds["PyTorch"] = torch.from_numpy(x)
    except ImportError:
        print("PyTorch is not installed")
    kinds["DLPack"] = OnlyDlpack(x)
    return kinds


def item(stream, view, frame, **keys):
    """Return a ``pith_item *`` of a view and memory of C."""
    given = {"size": ffi.sizeof("pith_item"), "stream": stream, "view": view[0], "frame": frame}
    return ffi.new("pith_item *", {**given, **keys})


def single_calls():
    """Print what one tensor a call costs."""
    kinds = tensors()
    nothing = least(lib.pith_cpu_features)[0]
    print(f"{ELEMENTS} elements of f32, ns per call (a call that does nothing: {nothing:.0f})")
    print("| codec | call | C | " + " | ".join(f"{kind}: more" for kind in kinds) + " |")
    print("|---|---|---|" + "---|" * len(kinds))
    x = kinds["NumPy"]
    view, keep = views.new(x, True)
    for spec in ("raw", "grad:bits=8"):
        end = pith.Stream(pith.Plan(spec, like=x))
        frame, once = end.encode(x), pith.compress(x, spec)
        out = bytearray(2 * len(once))
        held, none = stream._Call(), ffi.NULL
        work, memory = held.work_for(end._work_bytes, 1), views.memory(len(out))
        to = item(end._stream, view, memory, capacity=len(out))
        bytes_, once_bytes = ffi.from_buffer(frame), ffi.from_buffer(once)
        of = item(end._stream, view, bytes_, length=len(frame))
        text, written = ffi.new("char[]", spec.encode()), ffi.new("size_t *")
        layout = ffi.new("pith_layout *", {"size": ffi.sizeof("pith_layout")})
        layout.flags = lib.PITH_LAYOUT_CHECKSUMS
        to_once = text, view, none, layout, none, memory, len(out), written, none
        of_once = once_bytes, len(once), none, none, view, none

        def encode(work=work, to=to):
            return lib.pith_encode(work, to, 1, 0)

        rows = {
            "encode": (encode, lambda x, e=end: e.encode(x)),
            "encode, out=": (encode, lambda x, e=end, o=out: e.encode(x, out=o)),
            "decode, out=": (
                lambda work=work, of=of: lib.pith_decode(work, of, 1, 0),
                lambda x, e=end, f=frame: e.decode(f, x),
            ),
            "compress, out=": (
                lambda a=to_once: lib.pith_compress(*a),
                lambda x, s=spec, o=out: pith.compress(x, s, out=o),
            ),
            "decompress, out=": (
                lambda a=of_once: lib.pith_decompress(*a),
                lambda x, f=once: pith.decompress(f, out=x),
            ),
        }
        for name, (in_c, call) in rows.items():
            assert in_c() == 0
            c, *python = least(in_c, *(lambda x=x, f=call: f(x) for x in kinds.values()))
            more = " | ".join(f"{n - c + nothing:.0f}" for n in python)
            print(f"| `{spec}` | {name} | {c - nothing:.0f} | {more} |")
    del keep


def lists():
    """Print what a bucket costs."""
    count = BYTES // 4 // TENSORS
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(count).astype(np.float32) for _ in range(TENSORS)]
    print(f"\n{TENSORS} tensors of {count} elements of f32 in a call, C's speed is 1")
    print("| codec | encode, out= | encode | decode, out= |\n|---|---|---|---|")
    for spec in ("raw", "lossless", "wdiff", "grad", "eb:rel=1e-3"):
        plan = pith.Plan(spec, shape=count, dtype="f32")
        bucket = pith.Bucket([pith.Stream(plan) for _ in arrays])
        out = np.zeros(bucket.nbytes, np.uint8)
        frames = bucket.encode(arrays)
        outs = [np.empty_like(x) for x in arrays]
        held = bucket._items()
        items, each = held
        keep = [bucket._fill(items, arrays, False)]
        scratch = stream._Call()
        work = scratch.work_for(bucket._work_bytes, 1)
        base = ffi.cast("char *", out.ctypes.data)
        for item, at, end in zip(each, bucket.offsets, bucket.offsets[1:], strict=False):
            item.frame, item.capacity = base + at, end - at
        each[-1].frame, each[-1].capacity = base + bucket.offsets[-1], plan.sizes.slot_bytes
        decoded = ffi.new("pith_item[]", TENSORS)
        for i, (frame, to) in enumerate(zip(frames, outs, strict=True)):
            decoded[i].size, decoded[i].stream = each[i].size, each[i].stream
            keep += [frame, views.fill(ffi.addressof(decoded[i], "view"), to, True)]
            decoded[i].frame, decoded[i].length = ffi.from_buffer(frame), len(frame)
        calls = (
            (lambda w=work, i=items: lib.pith_encode(w, i, TENSORS, 0)),
            (lambda b=bucket, r=out: b.encode(arrays, out=r)),
            (lambda b=bucket: b.encode(arrays)),
            (lambda w=work, i=decoded: lib.pith_decode(w, i, TENSORS, 0)),
            (lambda b=bucket, f=frames, o=outs: b.decode(f, o)),
        )
        seconds = [[] for _ in calls]
        assert not calls[0]() and not calls[3]()
        for _ in range(max(ROUNDS // 8, 1)):
            for call, found in zip(calls, seconds, strict=True):
                begin = time.perf_counter()
                call()
                found.append(time.perf_counter() - begin)
        pairs = ((0, 1), (0, 2), (3, 4))
        speed = [min(seconds[a]) / min(seconds[b]) for a, b in pairs]
        print(f"| `{spec}` | " + " | ".join(f"{s:.2f}" for s in speed) + " |")
        del keep, scratch


def large():
    """Print what a new frame costs whose memory malloc maps anew each time."""
    x = np.random.default_rng(0).standard_normal(LARGE // 4).astype(np.float32)
    print(f"\na tensor of {LARGE >> 20} MiB, encode into new bytes, the speed with out= is 1")
    for spec in ("raw", "grad", "eb:rel=1e-3"):
        end = pith.Stream(pith.Plan(spec, like=x))
        out = bytearray(end.plan.sizes.slot_bytes)
        seconds = [[], []]
        for _ in range(max(ROUNDS // 40, 1)):
            for keys, found in zip(({"out": out}, {}), seconds, strict=True):
                begin = time.perf_counter()
                end.encode(x, **keys)
                found.append(time.perf_counter() - begin)
        print(f"`{spec}` {min(seconds[0]) / min(seconds[1]):.2f}")


single_calls()
lists()
large()
