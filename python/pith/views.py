"""Where tensors lie in memory: NumPy arrays, PyTorch tensors, DLPack, buffers, without a copy.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from . import _core, dtypes
from ._core import ffi, lib
from .errors import (
    ArgumentError,
    BaseMismatchError,
    DtypeError,
    Error,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
    made,
    numbered,
)

Tensor: TypeAlias = Any
"""A NumPy array, a PyTorch tensor, anything with ``__dlpack__`` or the buffer protocol."""

Buffer: TypeAlias = Any
"""Contiguous bytes: bytes, bytearray, memoryview, or a dense tensor."""

Source: TypeAlias = tuple[int, int, int, Any]
"""What helpers.h takes for a tensor: kind, object, more; and what must be kept for the call."""

_CUDA = 2  # DLPack's device type
_NUMPY, _DLPACK, _EXCHANGE = lib.PITHPY_NUMPY, lib.PITHPY_DLPACK, lib.PITHPY_EXCHANGE
_number_of = dtypes._number_of

sources: dict[type, Callable[[Tensor], Source]] = {}
"""By type of tensor: what makes a :data:`Source` of one. :func:`source_for` adds to it."""

direct: dict[type, tuple[Any, ...]] = {np.ndarray: (_NUMPY, _number_of)}
"""By type of tensor, for helpers.c, which looks into these by itself: kind and more, and PyTorch's
``is_grad_enabled``. Whatever it cannot take at once goes the way through :func:`source_of`."""


def source_for(x: Tensor) -> Callable[[Tensor], Source]:
    """Return, and remember, what makes a :data:`Source` of tensors of this type."""
    source = _source_for(x)
    sources[type(x)] = source
    return source


def _source_for(x: Tensor) -> Callable[[Tensor], Source]:
    # Where nobody has imported this part of NumPy there are no masks. To import it in a call takes
    # time, and a process that another thread forks meanwhile would wait for the import for ever.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(x, masked):
        return _refuse_masked
    if isinstance(x, np.ndarray):
        return _from_numpy
    if isinstance(x, np.generic):
        return _from_scalar
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _torch_source(torch, type(x))
    if hasattr(x, "__dlpack__"):
        return _from_dlpack
    return _from_buffer


def source_of(x: Tensor, write: bool) -> Source:
    """Return what helpers.h takes for a tensor that is read, or written."""
    if write:
        check_autograd(x)
    return (sources.get(type(x)) or source_for(x))(x)


def _from_numpy(x: Any) -> Source:
    try:
        number = _number_of[x.dtype]
    except KeyError:
        number = dtypes.number_of(x.dtype)
    interface = x.__array_struct__
    return _NUMPY, id(interface), number, interface


def _from_scalar(x: Any) -> Source:
    """Return a source of a scalar of NumPy: those of bf16 and fp8 export no buffer as others do."""
    array = np.asarray(x)
    array.flags.writeable = False  # it is a copy, in which what is written would be lost
    return _from_numpy(array)


def _torch_source(torch: Any, cls: type) -> Callable[[Tensor], Source]:
    """Return what makes a source of PyTorch's tensors of a type; C functions where it has them."""
    plain = cls in (torch.Tensor, torch.nn.Parameter)
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None) if plain else None
    exchange = lib.pithpy_exchange(id(capsule)) if capsule is not None else 0
    if exchange:

        def from_torch(x: Any) -> Source:
            if x.is_neg():
                raise UnsupportedError("PyTorch's negative bit is set: call resolve_neg()")
            return _EXCHANGE, id(x), exchange, x

        direct[cls] = _EXCHANGE, exchange, torch.is_grad_enabled
        return from_torch
    strided, to_dlpack = torch.strided, torch.utils.dlpack.to_dlpack

    def from_any_torch(x: Any) -> Source:
        if x.layout is not strided:
            raise UnsupportedError(_other_layout(x))
        if x.is_neg():
            raise UnsupportedError("PyTorch's negative bit is set: call resolve_neg()")
        if hasattr(x, "fake_mode"):
            raise UnsupportedError(
                "a FakeTensor has no values: inside a trace of PyTorch use torch.ops.pith"
            )
        try:
            capsule = to_dlpack(x)
        except (RuntimeError, BufferError, NotImplementedError) as error:
            raise UnsupportedError(f"a {type(x).__name__} that has no memory: {error}") from None
        return _DLPACK, id(capsule), 0, (x, capsule)

    return from_any_torch


def _from_dlpack(x: Any) -> Source:
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # as it was before version 1
        capsule = x.__dlpack__()
    return _DLPACK, id(capsule), 0, capsule


def _from_buffer(x: Any) -> Source:
    try:
        array = np.asarray(memoryview(x))
    except (TypeError, ValueError) as error:
        listed = isinstance(x, (list, tuple))
        why = "pith.Bucket takes lists of tensors, numpy.asarray those of numbers"
        raise DtypeError(
            "expected a NumPy array, a PyTorch tensor, or an object with __dlpack__ or the buffer"
            f" protocol, found {type(x).__name__}: {why if listed else error}"
        ) from None
    return _from_numpy(array)


def _refuse_masked(x: Any) -> Source:
    raise DtypeError("a masked array: pith keeps no masks; give its data, or filled()")


def _other_layout(x: Any) -> str:
    if x.is_nested:  # of layout strided or jagged; neither has to_dense()
        return "expected a plain tensor, found a nested one: give its unbind()"
    return f"expected a strided tensor, found one of layout {x.layout}: give its to_dense()"


def check_apart(share: int) -> None:
    """Raise where a call's frames and tensors share memory.

    Args:
        share: what one of the helpers found that look for it

    Raises:
        ArgumentError: they do
        OutOfMemoryError: there is no memory to see it

    """
    if share < 0:
        raise OutOfMemoryError("frames and tensors: no memory to look whether they share some")
    if share:
        raise ArgumentError("a frame and a tensor share memory")


def refused(refusal: int, x: Tensor) -> Error:
    """Return the exception for a refusal of helpers.h."""
    why, found = refusal & 255, refusal >> 8
    if why == lib.PITHPY_READ_ONLY:
        return ArgumentError("the tensor is read-only, and its values are to be written")
    if why == lib.PITHPY_STRIDES:
        return ShapeError(
            f"a stride of {numbered(found, 'bytes')}, expected a multiple of {x.itemsize}"
        )
    if why == lib.PITHPY_NDIM:
        return ShapeError(f"found {found} dimensions, expected at most {lib.PITH_MAX_NDIM}")
    if why == lib.PITHPY_DEVICE:
        place = getattr(x, "device", f"device type {found} of DLPack")
        text = f"expected a tensor in the memory of the CPU, found one on {place}: give its cpu()"
        if found == _CUDA:
            text += ", or make its frames there with pith.cuda.DeviceStream"
        return UnsupportedError(text)
    if why == lib.PITHPY_DTYPE:
        code, bits, lanes = found & 255, found >> 8 & 255, found >> 16
        dtype = getattr(x, "dtype", f"DLPack's code {code} with {bits} bits and {lanes} lanes")
        return DtypeError(f"dtype: found {dtype}, expected one of {' '.join(dtypes.NAMES[1:])}")
    text = f"a {type(x).__name__} that does not say where it lies"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        if x.is_nested or x.layout is not torch.strided:
            text = _other_layout(x)
        elif x.device.type == "meta":
            text = "expected a tensor in memory, found one on device meta, which has no values"
        elif x.is_quantized:
            text = (
                f"expected a plain tensor, found a quantized one of {x.dtype}: give its int_repr()"
            )
        else:  # inside torch.vmap, torch.func.grad or a trace
            text += ": inside a transform or a trace of PyTorch use torch.ops.pith"
    return UnsupportedError(text)


def fill(view: Any, x: Tensor, write: bool = False) -> Any:
    """Fill a ``pith_view`` from a tensor without copying it.

    Args:
        view: ``pith_view *``
        x: the tensor, of up to 8 dimensions, with any strides
        write: whether the call that it is filled for writes the values

    Returns:
        What must be kept as long as the view is used.

    Raises:
        DtypeError: not a tensor, or of a dtype that pith does not have
        ShapeError: more than 8 dimensions, or strides that are no multiple of an element
        ArgumentError: write, and the tensor is read-only, or autograd records what becomes of it
        UnsupportedError: the tensor is not in the memory of the CPU, or not strided

    """
    return _fill(view, x, write, source_of(x, write))


def _fill(view: Any, x: Tensor, write: bool, source: Source) -> Any:
    kind, object_, more, keep = source
    refusal = lib.pithpy_view(view, kind, object_, more, write)
    if refusal:
        raise refused(refusal, x)
    return keep


def check_autograd(x: Tensor) -> None:
    """Refuse to write where autograd would not see it, as PyTorch refuses to change a leaf."""
    if getattr(x, "requires_grad", False):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(x, torch.Tensor) and torch.is_grad_enabled():
            raise ArgumentError(
                "the tensor requires grad, and its values are to be written: do it inside"
                " torch.no_grad(), or give its detach()"
            )


def new(x: Tensor, write: bool = False) -> tuple[Any, Any]:
    """Return a new ``pith_view *`` of a tensor, and what must be kept beside it."""
    view = ffi.new("pith_view *")
    return view, fill(view, x, write)


def new_base(x: Tensor) -> tuple[Any, Any]:
    """Return what :func:`new` does of a tensor that later calls write, as their own base.

    It may require grad: weights do, and optimizers write them where autograd does not look.
    """
    view = ffi.new("pith_view *")
    return view, _fill(view, x, True, source_of(x, False))


class Bound:
    """A tensor whose memory the library goes on using after the call that was given it.

    Of a tensor of PyTorch the memory can be replaced while the tensor lives on: its storage is kept
    alive, and :meth:`check` compares where the tensor lies now.
    """

    __slots__ = ("_address", "_keep", "_x")

    def __init__(self, x: Tensor, keep: Any) -> None:
        """Take a tensor, and what must be kept as long as its memory is used."""
        torch = sys.modules.get("torch")
        self._x, self._keep, self._address = None, (x, keep), 0
        if torch is not None and isinstance(x, torch.Tensor):
            self._x, self._keep = x, (keep, x.untyped_storage())
            self._address = x.data_ptr()

    @property
    def tensor(self) -> Any:
        """The tensor of PyTorch; None: of another kind."""
        return self._x

    def check(self) -> None:
        """Raise unless the memory is still the tensor's.

        Raises:
            BaseMismatchError: it is not

        """
        if self._x is not None and self._x.data_ptr() != self._address:
            raise BaseMismatchError(
                "the tensor that was bound as base lies in other memory now (.data was replaced, or"
                " its storage resized): bind it again, on both sides with one base and step"
            )


def shape_of(view: Any) -> tuple[int, ...]:
    """Return the shape of a ``pith_view``, or of any struct with ``ndim`` and ``shape``."""
    return tuple(view.shape[i] for i in range(view.ndim))


def is_dense(view: Any) -> bool:
    """Whether the elements of a ``pith_view`` follow each other."""
    dense = lib.pith_view_dense(view.data, view.dtype, view.ndim, view.shape)
    return all(view.shape[i] <= 1 or view.stride[i] == dense.stride[i] for i in range(view.ndim))


def empty(shape: tuple[int, ...], dtype: Any, number: int) -> Tensor:
    """Return a new tensor: of PyTorch when dtype is one of its dtypes, else a NumPy array."""
    if dtypes.is_torch(dtype):
        return sys.modules["torch"].empty(shape, dtype=dtype, device="cpu")
    return np.empty(shape, dtypes.numpy_dtype(number))


_NO_BYTES = ffi.new("char[1]")


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
        buffer = ffi.from_buffer("char[]", x, write)
    except (TypeError, BufferError, ValueError):
        pass
    else:
        return buffer, len(buffer), buffer
    _check_bytes(x, what)
    view, keep = new(x, write)
    if not is_dense(view):
        raise ArgumentError(f"{what}: expected contiguous bytes, found strides")
    count = lib.pith_view_count(view)
    # PyTorch gives tensors without elements no address, and C takes NULL for no argument at all.
    data = ffi.cast("char *", view.data) if count else _NO_BYTES
    return data, count * dtypes.BYTES[view.dtype], keep


def bytes_at(x: Buffer, write: bool) -> tuple[int, int, Any]:
    """Return what :func:`bytes_of` does with the address as a number: of ``out``, or of a frame."""
    data, length, keep = bytes_of(x, "out" if write else "frame", write)
    return address(data), length, keep


def address(data: Any) -> int:
    """Return the address that a pointer or an array of C has."""
    return int(ffi.cast("uintptr_t", data))


def _check_bytes(x: Any, what: str) -> None:
    """Raise where an object has no memory at all: a path, or a text."""
    if sources.get(type(x), _from_buffer) is not _from_buffer or hasattr(x, "__dlpack__"):
        return
    try:
        memoryview(x).release()
    except TypeError:
        more = ": read the file first" if isinstance(x, (str, os.PathLike)) else ""
        if isinstance(x, (list, tuple)):
            more = ": pith.Bucket takes lists"
        raise DtypeError(
            f"{what}: expected bytes, a bytearray, a memoryview or a dense tensor, found a"
            f" {type(x).__name__}{more}"
        ) from None


def copy_of(x: Buffer, what: str) -> bytes:
    """Return contiguous bytes as ``bytes``; as :func:`bytes_of`."""
    data, length, keep = bytes_of(x, what)
    copy = bytes(ffi.buffer(data, length))
    del keep
    return copy


_uninitialized = ffi.new_allocator(should_clear_after_alloc=False)


def memory(bytes_: int) -> Any:
    """Return ``char[bytes_]`` whose contents are unspecified."""
    try:
        return _uninitialized("char[]", max(bytes_, 1))
    except (MemoryError, OverflowError):
        raise OutOfMemoryError(f"no memory for {bytes_} bytes") from None


def expect(bytes_: int) -> None:
    """Prepare the allocator for objects of so many bytes in all that each call makes anew.

    glibc gives free memory back to the system from twice the largest block on that it has seen
    come and go, 128 KiB at first, 64 MiB at most. Frames would have fresh pages then in every call,
    which take longer than encoding does. So a block of their size, in which nothing is written,
    comes and goes here, as a tensor would.
    """
    memory(min(bytes_, (32 << 20) - (64 << 10)))


_for_c = (direct, source_of, bytes_at, refused, made)
if lib.pithpy_add_functions(id(_core), id(_for_c)):
    raise MemoryError("no memory for the functions of pith._core")
