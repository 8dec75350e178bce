"""Golden frames: decoded to the bytes that stand beside them, and made again from these.

SPDX-License-Identifier: Apache-2.0
"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import GOLDEN, same

import pith
from pith import dtypes

FOLDER = GOLDEN / "golden" / "v1"
NAMES = sorted(path.stem for path in FOLDER.glob("*.pith"))


def load(name):
    frame = (FOLDER / f"{name}.pith").read_bytes()
    info = pith.inspect(frame)
    dtype = dtypes.numpy_dtype(dtypes.number_of(info.dtype))
    raw = np.frombuffer((FOLDER / f"{name}.raw").read_bytes(), dtype).reshape(info.shape)
    base = None
    if info.base_dtype and not info.is_key:
        dtype = dtypes.numpy_dtype(dtypes.number_of(info.base_dtype))
        base = np.frombuffer((FOLDER / f"{name}.base").read_bytes(), dtype)
    return frame, info, raw, base


def test_there_are_frames():
    assert len(NAMES) > 100
    assert {name.split("-")[0] for name in NAMES} >= {c.name for c in pith.codecs()}


@pytest.mark.parametrize("name", NAMES)
def test_decode(name, ml_dtypes):
    frame, info, raw, base = load(name)
    out = pith.decompress(frame, base=base) if not info.is_key else decode_key(frame, info)
    if out.dtype != raw.dtype:  # with a base of another dtype the result is rounded to it
        raw = raw.ravel().view(out.dtype).reshape(info.shape)
    assert same(out, raw)
    count = info.count
    if not info.is_key:
        part = pith.decode_range(frame, count // 3, count // 2, base=base)
        assert same(part, out.ravel()[count // 3 : count // 3 + count // 2])


def decode_key(frame, info):
    plan = pith.Plan(info.spec, shape=info.shape, dtype=info.dtype, base_dtype=info.base_dtype)
    stream = pith.Stream(plan, step=info.step)
    return stream.decode(frame)


def exact(name):
    frame = (FOLDER / f"{name}.pith").read_bytes()
    info = pith.inspect(frame)
    return info.codec in ("raw", "lossless") and "entropy" not in name


@pytest.mark.parametrize("name", [name for name in NAMES if exact(name)])
def test_encode(name, ml_dtypes):
    frame, info, raw, base = load(name)
    if info.base_dtype:
        plan = pith.Plan(
            info.spec,
            shape=info.shape,
            dtype=info.dtype,
            base_dtype=info.base_dtype,
            checksums=info.checksums,
            source=info.source or b"",
        )
        stream = pith.Stream(plan, step=info.step or 0)
        if base is not None:
            stream.set_base(base, step=info.step or 0)
        made = stream.encode(raw, key_frame=info.is_key)
    else:
        made = pith.compress(raw, info.spec, checksums=info.checksums, source=info.source or b"")
    if info.codec == "raw":
        assert made == frame
    else:  # the version of zstd may be another
        assert replace(pith.inspect(made), frame_bytes=0) == replace(info, frame_bytes=0)
