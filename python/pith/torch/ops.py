"""Operators that ``torch.compile`` keeps in its graphs: encode, decode, decode_add.

SPDX-License-Identifier: Apache-2.0

    frame = torch.ops.pith.encode(x, "grad:bits=4")              # uint8
    y = torch.ops.pith.decode(frame, "grad:bits=4", x.numel(), x.dtype)
    torch.ops.pith.decode_add(frame, "grad:bits=4", y)           # y += what the frame holds

``encode_out`` and ``decode_out`` write to tensors of yours. A tensor is taken flat, and must be in
the memory of the CPU and contiguous. Nothing is remembered: error feedback is the channels' (ddp,
optim). None of it is differentiable.

Specs are of fixed rate (codecs raw, grad, kv and wdiff, without entropy), so that a frame's bytes
follow from the shape, without error feedback, and frames have no base. For the others there are,
outside of graphs, :func:`pith.compress` and :class:`pith.Stream`.
"""

# Not postponed: torch.library makes schemas of the annotations.

import functools
from typing import Any

import torch

from .. import dtypes
from ..errors import (
    ArgumentError,
    DtypeError,
    MismatchError,
    ShapeError,
    StateError,
    UnsupportedError,
    numbered,
)
from ..frames import codecs, inspect
from ..plan import Plan
from ..stream import Stream
from . import _group

__all__ = ["decode", "decode_add", "decode_out", "encode", "encode_out", "frame_bytes"]


@functools.lru_cache(maxsize=256)
def _plan(spec: str, count: int, number: int) -> Plan:
    plan = Plan(spec, shape=count, dtype=dtypes.NAMES[number])
    if not plan.sizes.fixed:
        fixed = " ".join(codec.name for codec in codecs() if codec.fixed_rate)
        raise UnsupportedError(
            f"spec: {spec!r} is of variable rate, and operators take those of fixed rate alone, for"
            f" the bytes of a frame must follow from the shape: of {fixed}, without entropy;"
            " pith.compress and pith.Stream, outside of a graph, take any"
        )
    return plan


def _plan_of(spec: str, count: int, dtype: torch.dtype) -> Plan:
    return _plan(spec, int(count), dtypes.number_of(dtype))


def frame_bytes(spec: str, count: int, dtype: torch.dtype) -> int:
    """Return the bytes of the frame of ``count`` elements of a dtype.

    Raises:
        SpecError, DtypeError: the spec does not parse, or does not take the dtype
        UnsupportedError: it is of variable rate

    """
    return _plan_of(spec, count, dtype).frame_bytes()


def _check_bytes(x: torch.Tensor, what: str, count: int | None = None) -> None:
    if x.dtype != torch.uint8:
        raise DtypeError(f"{what}: found {x.dtype}, expected uint8")
    if x.dim() != 1:
        raise ShapeError(f"{what}: found {numbered(x.dim(), 'dimensions')}, expected 1")
    if count is not None and x.numel() != count:
        raise ShapeError(f"{what}: found {numbered(x.numel(), 'bytes')}, expected {count}")


def _check_dense(x: torch.Tensor, what: str) -> None:
    if not x.is_contiguous():
        raise ArgumentError(f"{what}: expected a contiguous tensor, found strides {x.stride()}")


@functools.lru_cache(maxsize=256)
def _check_feedback(spec: str) -> None:
    if _group.has_feedback(spec):
        raise StateError(
            f"spec: {spec!r} has error feedback, and operators remember nothing: leave ef= out, or"
            " call a pith.Stream outside of a graph"
        )


def _encode(
    x: torch.Tensor, spec: str, out: torch.Tensor, step: int, seed: int, rng_stream: int
) -> None:
    _check_feedback(spec)
    plan = _plan_of(spec, x.numel(), x.dtype)
    _check_bytes(out, "out", plan.frame_bytes())
    _check_dense(x, "x")
    stream = Stream(plan, seed=seed, rng_stream=rng_stream, step=step)
    stream.encode(x.detach().view(-1), out=out)


def _decode(frame: torch.Tensor, spec: str, out: torch.Tensor, add: bool) -> None:
    _check_bytes(frame, "frame")
    _check_dense(out, "out")
    stream = Stream(_plan_of(spec, out.numel(), out.dtype))
    flat = out.detach().view(-1)
    try:
        if add:
            stream.decode_add(frame, flat)
        else:
            stream.decode(frame, flat)
    except MismatchError:
        if inspect(frame).base_dtype is None:
            raise
        raise MismatchError(
            "the frame was made against a base, which operators do not have: outside of a graph"
            " pith.Stream and pith.decompress(base=) decode it"
        ) from None


@torch.library.custom_op("pith::encode", mutates_args=(), device_types="cpu")
def encode(
    x: torch.Tensor, spec: str, step: int = 0, seed: int = 0, rng_stream: int = 0
) -> torch.Tensor:
    """Return the frame of a tensor, as uint8; step, seed and rng_stream choose random bits.

    Raises:
        StateError: the spec has error feedback
        Error: as :func:`frame_bytes`, and where x is not contiguous

    """
    out = torch.empty(frame_bytes(spec, x.numel(), x.dtype), dtype=torch.uint8, device="cpu")
    _encode(x, spec, out, step, seed, rng_stream)
    return out


@encode.register_fake
def _(x: torch.Tensor, spec: str, step: int = 0, seed: int = 0, rng_stream: int = 0) -> Any:
    _check_feedback(spec)
    return x.new_empty(frame_bytes(spec, x.numel(), x.dtype), dtype=torch.uint8)


@torch.library.custom_op("pith::encode_out", mutates_args={"out"}, device_types="cpu")
def encode_out(
    x: torch.Tensor,
    spec: str,
    out: torch.Tensor,
    step: int = 0,
    seed: int = 0,
    rng_stream: int = 0,
) -> None:
    """Write the frame of a tensor to ``out``, uint8, of exactly :func:`frame_bytes` bytes."""
    _encode(x, spec, out, step, seed, rng_stream)


@encode_out.register_fake
def _(
    x: torch.Tensor,
    spec: str,
    out: torch.Tensor,
    step: int = 0,
    seed: int = 0,
    rng_stream: int = 0,
) -> None:
    _check_feedback(spec)
    # To compare sizes that are symbols would compile the graph anew for every size.
    known = isinstance(x.numel(), int)
    _check_bytes(out, "out", frame_bytes(spec, x.numel(), x.dtype) if known else None)


@torch.library.custom_op("pith::decode", mutates_args=(), device_types="cpu")
def decode(frame: torch.Tensor, spec: str, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the ``count`` elements that a frame of this spec and dtype holds.

    Raises:
        FrameError: the bytes are no such frame; NewerError for those of a newer pith

    """
    if count < 0:
        raise ShapeError(f"count: found {count}, expected 0 or more")
    out = torch.empty(count, dtype=dtype, device="cpu")
    _decode(frame, spec, out, False)
    return out


@decode.register_fake
def _(frame: torch.Tensor, spec: str, count: int, dtype: torch.dtype) -> Any:
    _check_bytes(frame, "frame")
    return frame.new_empty(count, dtype=dtype)


@torch.library.custom_op("pith::decode_out", mutates_args={"out"}, device_types="cpu")
def decode_out(frame: torch.Tensor, spec: str, out: torch.Tensor) -> None:
    """Write what a frame holds to a tensor of its dtype and count, of any shape."""
    _decode(frame, spec, out, False)


@decode_out.register_fake
def _(frame: torch.Tensor, spec: str, out: torch.Tensor) -> None:
    _check_bytes(frame, "frame")


@torch.library.custom_op("pith::decode_add", mutates_args={"out"}, device_types="cpu")
def decode_add(frame: torch.Tensor, spec: str, out: torch.Tensor) -> None:
    """Add what a frame holds to a tensor of its dtype and count, of any shape."""
    _decode(frame, spec, out, True)


@decode_add.register_fake
def _(frame: torch.Tensor, spec: str, out: torch.Tensor) -> None:
    _check_bytes(frame, "frame")
