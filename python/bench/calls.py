#!/usr/bin/env python3
"""What a call costs from Python, beside what it costs in C, measured in one run.

SPDX-License-Identifier: Apache-2.0

    python python/bench/calls.py [ROUNDS]

C: pith_encode or pith_decode through the module with everything prepared, less what a call that
does nothing costs there. Python: the method of a stream on a tensor. Times are the least of many
rounds, 500 unless told otherwise, an eighth of lists and a fortieth of large tensors, in which
calls of both take turns, so that load on the machine falls on both.
"""

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


def least(call, number=300):
    """Return the nanoseconds of a call."""
    return min(timeit.repeat(call, number=number, repeat=ROUNDS)) / number * 1e9


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


def single_calls():
    """Print what one tensor a call costs."""
    kinds = tensors()
    nothing = least(lib.pith_cpu_features)
    print(f"{ELEMENTS} elements of f32, ns per call (a call that does nothing: {nothing:.0f})")
    print("| codec | call | C | " + " | ".join(f"{kind}: more" for kind in kinds) + " |")
    print("|---|---|---|" + "---|" * len(kinds))
    for spec in ("raw", "grad:bits=8"):
        plan = pith.Plan(spec, like=kinds["NumPy"])
        end = pith.Stream(plan)
        out = bytearray(plan.sizes.slot_bytes)
        held = stream._Call()
        work, memory = held.work_for(end._work_bytes, 1), held.frame_memory(len(out))
        item = held.item
        item.stream, item.frame, item.capacity = end._stream, memory, len(out)
        keep = views.fill(ffi.addressof(item, "view"), kinds["NumPy"])
        encode = least(lambda w=work, i=item: lib.pith_encode(w, i, 1, 0)) - nothing
        frame = end.encode(kinds["NumPy"])
        into = ffi.from_buffer(frame)
        item.frame, item.length = into, len(frame)
        decode = least(lambda w=work, i=item: lib.pith_decode(w, i, 1, 0)) - nothing
        del keep
        rows = {
            "encode": (encode, lambda x, e=end: e.encode(x)),
            "encode, out=": (encode, lambda x, e=end, r=out: e.encode(x, out=r)),
            "decode, out=": (decode, lambda x, e=end, f=frame: e.decode(f, x)),
        }
        for name, (c, call) in rows.items():
            more = [least(lambda x=x, f=call: f(x)) - c for x in kinds.values()]
            print(f"| `{spec}` | {name} | {c:.0f} | " + " | ".join(f"{n:.0f}" for n in more) + " |")


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
