"""Where tensors lie in memory: NumPy arrays, PyTorch tensors, DLPack, buffers, without a copy.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from . import dtypes
from ._core import ffi, lib
from .errors import ArgumentError, DtypeError, ShapeError, SpaceError, UnsupportedError

Tensor: TypeAlias = Any
"""A NumPy array, a PyTorch tensor, anything with ``__dlpack__`` or the buffer protocol."""

Buffer: TypeAlias = Any
"""Contiguous bytes: bytes, bytearray, memoryview, or a dense tensor."""

_Filler: TypeAlias = Callable[[Any, Any, bool], Any]

_number_of = dtypes._number_of

# By type of tensor: what fills a pith_view from one. Each returns what must live as long as the view.
_fillers: dict[type, _Filler] = {}


def fill(view: Any, x: Tensor, write: bool = False) -> Any:
    """Fill a ``pith_view`` from a tensor without copying it.

    Args:
        view: ``pith_view *``
        x: the tensor, of up to 8 dimensions, with any strides
        write: whether its values are going to be written

    Returns:
        What must be kept as long as the view is used.

    Raises:
        DtypeError: not a tensor, or of a dtype that pith does not have
        ShapeError: more than 8 dimensions, or strides that are no multiple of an element
        ArgumentError: write, and the tensor is read-only
        UnsupportedError: the tensor is not in the memory of the CPU, or not strided

    """
    try:
        filler = _fillers[type(x)]
    except KeyError:
        filler = _fillers[type(x)] = _filler_for(x)
    return filler(view, x, write)


def _filler_for(x: Tensor) -> _Filler:
    if isinstance(x, np.ma.MaskedArray):
        return _refuse_masked
    if isinstance(x, np.ndarray):
        return _fill_numpy
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _fill_torch
    if hasattr(x, "__dlpack__"):
        return _fill_dlpack
    return _fill_buffer


def _fill_numpy(view: Any, x: Any, write: bool) -> Any:
    try:
        number = _number_of[x.dtype]
    except KeyError:
        number = dtypes.number_of(x.dtype)
    interface = x.__array_struct__
    why = lib.pithpy_view_numpy(view, id(interface), number, write)
    if why:
        raise _no_view(why, x)
    return interface


def _fill_torch(view: Any, x: Any, write: bool) -> Any:
    if not x.is_cpu or x.layout is not sys.modules["torch"].strided:
        place = f"on {x.device}" if not x.is_cpu else f"of layout {x.layout}"
        raise UnsupportedError(
            f"expected a dense tensor in the memory of the CPU, found one {place}"
            + ("; pith.cuda has streams for it" if x.is_cuda else "")
        )
    if x.is_neg():
        raise UnsupportedError("a tensor with PyTorch's negative bit: call its resolve_neg()")
    try:
        number = _number_of[x.dtype]
    except KeyError:
        number = dtypes.number_of(x.dtype)
    data, shape = x.data_ptr(), x.shape
    if len(shape) > lib.PITH_MAX_NDIM:
        raise _too_many(len(shape))
    if not data and x.numel():
        raise UnsupportedError(f"a {type(x).__name__} without memory of its own")
    strides = ffi.NULL if x.is_contiguous() else x.stride()
    lib.pithpy_view_set(view, data, number, len(shape), shape, strides)
    return x


def _fill_dlpack(view: Any, x: Any, write: bool) -> Any:
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # as it was before version 1
        capsule = x.__dlpack__()
    why = lib.pithpy_view_dlpack(view, id(capsule), write)
    if why:
        raise _no_view(why, x)
    return capsule


def _fill_buffer(view: Any, x: Any, write: bool) -> Any:
    try:
        array = np.asarray(memoryview(x))
    except (TypeError, ValueError) as error:
        raise DtypeError(
            "expected a NumPy array, a PyTorch tensor, or an object with __dlpack__ or the buffer"
            f" protocol, found {type(x).__name__}: {error}"
        ) from None
    return _fill_numpy(view, array, write), array


def _refuse_masked(view: Any, x: Any, write: bool) -> Any:
    raise DtypeError("a masked array: pith keeps no masks; give its data, or filled()")


def _too_many(ndim: int) -> ShapeError:
    return ShapeError(f"a tensor of {ndim} dimensions, expected at most {lib.PITH_MAX_NDIM}")


def _no_view(refusal: int, x: Any) -> Exception:
    why, found = refusal & 255, refusal >> 8
    if why == lib.PITHPY_READ_ONLY:
        return ArgumentError("the tensor is read-only, and its values are to be written")
    if why == lib.PITHPY_STRIDES:
        return ShapeError(f"strides of {x.strides} bytes, expected multiples of {x.itemsize}")
    if why == lib.PITHPY_NDIM:
        return _too_many(found)
    if why == lib.PITHPY_DEVICE:
        return UnsupportedError(
            f"expected a tensor in the memory of the CPU, found one on device type {found} of DLPack"
        )
    if why == lib.PITHPY_DTYPE:
        return DtypeError(
            f"dtype: DLPack's code {found & 255} with {found >> 8 & 255} bits and"
            f" {found >> 16} lanes is none of pith's"
        )
    return DtypeError(f"{type(x).__name__} gave no capsule that pith knows")


def new(x: Tensor, write: bool = False) -> tuple[Any, Any]:
    """Return a new ``pith_view *`` of a tensor, and what must be kept beside it."""
    view = ffi.new("pith_view *")
    return view, fill(view, x, write)


def shape_of(view: Any) -> tuple[int, ...]:
    """Return the shape of a ``pith_view``, or of any struct with ``ndim`` and ``shape``."""
    return tuple(view.shape[i] for i in range(view.ndim))


def empty(shape: tuple[int, ...], dtype: Any, number: int) -> Tensor:
    """Return a new tensor: of PyTorch when dtype is one of its dtypes, else a NumPy array."""
    if dtypes.is_torch(dtype):
        return sys.modules["torch"].empty(shape, dtype=dtype)
    return np.empty(shape, dtypes.numpy_dtype(number))


def bytes_of(x: Buffer, what: str, write: bool = False) -> tuple[Any, int, Any]:
    """Return address, length in bytes and what must be kept of contiguous bytes.

    Args:
        x: bytes, bytearray, memoryview, or a dense tensor of any dtype
        what: the argument's name, for errors
        write: whether they are going to be written

    Raises:
        DtypeError: not bytes
        ArgumentError: not contiguous, or write and read-only

    """
    try:
        buffer = ffi.from_buffer(x, require_writable=write)
    except (TypeError, BufferError, ValueError):
        pass
    else:
        return buffer, len(buffer), buffer
    view, keep = new(x, write)
    dense = lib.pith_view_dense(view.data, view.dtype, view.ndim, view.shape)
    for i in range(view.ndim):
        if view.shape[i] > 1 and view.stride[i] != dense.stride[i]:
            raise ArgumentError(f"{what}: expected contiguous bytes, found strides")
    count = lib.pith_view_count(view)
    return ffi.cast("char *", view.data), count * dtypes.BYTES[view.dtype], keep


_uninitialized = ffi.new_allocator(should_clear_after_alloc=False)


def memory(bytes_: int) -> Any:
    """Return ``char[bytes_]`` whose contents are unspecified."""
    try:
        return _uninitialized("char[]", max(bytes_, 1))
    except (MemoryError, OverflowError):
        raise SpaceError(f"no memory for {bytes_} bytes") from None
