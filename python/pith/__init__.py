"""Codecs for the tensors that machine-learning systems move and store.

SPDX-License-Identifier: Apache-2.0

One call, without anything to keep:

    frame = pith.compress(x, "eb:rel=0.001")
    y = pith.decompress(frame)

Sequences of frames (weights against the step before, gradients with error feedback) have a
:class:`Plan` and at each end a :class:`Stream`; many tensors in one call are a :class:`Bucket`.
Caches of keys and values are in :mod:`pith.kv`, plans of sparse sums in :mod:`pith.sparse`, classes
of bounds in :mod:`pith.bounds`, device memory in :mod:`pith.cuda`.

Tensors are NumPy arrays, PyTorch tensors, or anything with ``__dlpack__`` or the buffer protocol:
of any strides, never copied. Frames are bytes. What the library refuses is an :class:`Error`; an
argument of a type that it cannot take is a TypeError. A number that its C integer cannot hold is an
:class:`ArgumentError` in what makes plans, streams and caches, and in their steps and tokens, and
Python's OverflowError elsewhere. Calls release the interpreter's lock, but for those on one tensor
of up to 1024 elements; different streams may be used from any threads at once.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from . import bounds, kv, sparse
from ._core import lib as _lib
from .errors import (
    ArgumentError,
    BaseMismatchError,
    BusyError,
    ChecksumError,
    CorruptError,
    DeviceError,
    DtypeError,
    Error,
    FrameError,
    InternalError,
    LimitError,
    MagicError,
    MismatchError,
    NewerError,
    OutOfMemoryError,
    RunnerError,
    ShapeError,
    SpaceError,
    SpecError,
    StateError,
    StepError,
    TruncatedError,
    UnsupportedError,
)
from .frames import (
    Codec,
    Info,
    Key,
    check_spec,
    codecs,
    compress,
    decode_range,
    decompress,
    error_bound,
    inspect,
    verify,
)
from .plan import Plan, Sizes, Work, slot_order
from .stream import Bucket, SparseState, Stats, Stream

_version = _lib.pith_version()
version = f"{_version // 1000000}.{_version // 1000 % 1000}.{_version % 1000}"
"""Version of the library, such as ``"0.1.0"``."""
__version__ = version
format_version = int(_lib.pith_format_version())
"""Newest version of the frame format that this library reads and writes."""


def __getattr__(name: str) -> _Any:
    """Load :mod:`pith.cuda` when it is asked for."""
    if name == "cuda":
        return _import_module(".cuda", __name__)
    text = f"module {__name__!r} has no attribute {name!r}"
    if name in ("collective", "torch"):
        text += f": import {__name__}.{name}"
    raise AttributeError(text)


__all__ = [
    "ArgumentError",
    "BaseMismatchError",
    "Bucket",
    "BusyError",
    "ChecksumError",
    "Codec",
    "CorruptError",
    "DeviceError",
    "DtypeError",
    "Error",
    "FrameError",
    "Info",
    "InternalError",
    "Key",
    "LimitError",
    "MagicError",
    "MismatchError",
    "NewerError",
    "OutOfMemoryError",
    "Plan",
    "RunnerError",
    "ShapeError",
    "Sizes",
    "SpaceError",
    "SparseState",
    "SpecError",
    "StateError",
    "Stats",
    "StepError",
    "Stream",
    "TruncatedError",
    "UnsupportedError",
    "Work",
    "bounds",
    "check_spec",
    "codecs",
    "compress",
    "decode_range",
    "decompress",
    "error_bound",
    "format_version",
    "inspect",
    "kv",
    "slot_order",
    "sparse",
    "verify",
    "version",
]
