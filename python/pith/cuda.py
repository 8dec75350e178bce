"""The same frames in device memory, made on the current CUDA stream of PyTorch.

SPDX-License-Identifier: Apache-2.0

A :class:`DevicePlan` is the device side of a :class:`pith.Plan`, a :class:`DeviceStream` one end
of a sequence. Calls put work on ``torch.cuda.current_stream()`` and return without waiting for it.
Where ``slots=`` are not neighbours in order, or tensors come in a list, numbers or addresses are
copied from pageable memory to the device, for which the calling thread waits. What is wrong with
arguments is raised; what is wrong with data is in a status for each frame, on the device, of which
:func:`check` makes an exception and for which it waits. Tensors are PyTorch's,
dense, and on the plan's device. Bytes are those of the CPU. ``doc/CUDA.md`` says which codecs there
are, and ``pith_cuda.h`` the rest of the contract.

Everything handed in belongs to a call until its work is done: a tensor that was allocated on
another CUDA stream needs ``record_stream``.

The library for devices is loaded with this module, when ``pith.cuda`` is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from . import _cuda, dtypes, views
from .errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    Error,
    ShapeError,
    StateError,
    UnsupportedError,
    check_new,
    from_status,
    numbered,
    of_each,
)
from .plan import Plan, check_scale, limit_of
from .stream import SETS, Stream, encode_flags
from .views import Tensor

_ffi, _lib = _cuda.ffi, _cuda.lib
DEVICE = "cuda"


class Frames(NamedTuple):
    """Frames in device memory."""

    frames: Tensor
    """u8, ``[count, capacity]``: one frame in each row."""
    lengths: Tensor
    """i64, ``[count]``: bytes of each; 0 where it failed."""
    status: Tensor
    """i32, ``[count]``: 0, or what :func:`check` raises."""


class Values(NamedTuple):
    """Values at the elements of sets, in device memory."""

    values: Tensor
    """f32, bf16 or f16, ``[count, capacity]``: those of one slot in each row, by ascending
    elements."""
    lengths: Tensor
    """i64, ``[count]``: bytes of each; 0 where it failed."""
    status: Tensor
    """i32, ``[count]``: 0, or what :func:`check` raises."""


class SparseStates(NamedTuple):
    """What the last encodes of slots of codec topk did, and the sets that they hold; in elements.

    Every field is a tensor ``[count]`` on the device, i64 where it says nothing else.
    """

    k: Tensor
    """That the spec asks for."""
    most: Tensor
    """The spec's hard limit (``cap``)."""
    sent: Tensor
    """Of the last frame that was encoded."""
    overflowed: Tensor
    """That reached the threshold beyond the limit: they stay in the residual, if there is one."""
    held: Tensor
    """Of the set that the slot holds."""
    threshold: Tensor
    """f32, of the last encode: magnitudes from it on were chosen; 0: none yet."""
    holds: Tensor
    """i32, 1: the slot holds a set."""
    status: Tensor
    """i32: 0, or what :func:`check` raises."""


def _check_kind(x: Any, kind: type, what: str) -> None:
    if not isinstance(x, kind):
        module = __name__ if kind.__module__ == __name__ else "pith"
        found = type(x).__name__
        raise TypeError(f"{what}: expected a {module}.{kind.__name__}, found {found}")


def _torch() -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        raise UnsupportedError("pith.cuda takes tensors of PyTorch: import torch first")
    return torch


def _current_stream(device: Any) -> Any:
    return _ffi.cast("void *", _torch().cuda.current_stream(device).cuda_stream)


def _error() -> Any:
    return _ffi.new("pith_error *", {"size": _ffi.sizeof("pith_error")})


def available(device: int = 0) -> str:
    """Return why a device cannot be used, or the empty string when it can."""
    error = _error()
    status = _lib.pith_cuda_available(device, error)
    return "" if status == 0 else str(from_status(status, error))


def check(status: Tensor) -> None:
    """Wait for the status of frames, and raise the first that is none of success.

    Raises:
        Error: of the class that a call on the CPU raises; ``item`` is its number

    """
    for i, number in enumerate(status.tolist()):
        if number:
            error = from_status(number)
            error.item = i
            raise error


class DevicePlan:
    """The device side of a plan. Immutable; any number of threads and CUDA streams use it.

    Args:
        plan: what is encoded, and how
        device: a ``torch.device`` or its number; None: the current one
        max_output: calls that read frames refuse plans with larger slots, in bytes; None: no limit

    Raises:
        UnsupportedError: the codec or setting has no kernels, or this build has none at all
        DeviceError: there is no such device

    """

    def __init__(self, plan: Plan, device: Any = None, *, max_output: int | None = None) -> None:
        check_new(self, "_cuda")
        _check_kind(plan, Plan, "plan")
        sizes = _ffi.new("pith_cuda_sizes *", {"size": _ffi.sizeof("pith_cuda_sizes")})
        error = _error()
        _raise(_lib.pith_cuda_plan_sizes(plan._plan, sizes, error), error)
        self._plan = plan
        self.device = _device(device)
        self._stream_bytes = int(sizes.stream_bytes)
        self._workspace_bytes = int(sizes.workspace_bytes)
        self._sum_bytes = int(sizes.sum_bytes)
        self._set_bytes = int(sizes.set_bytes)
        self._alignment = int(sizes.alignment)
        self._memory = self._bytes(sizes.plan_bytes)
        self._env = _ffi.new("pith_env *", {"size": _ffi.sizeof("pith_env")})
        self._env.max_output_bytes = limit_of(max_output)
        made = _ffi.new("const pith_cuda_plan **")
        status = _lib.pith_cuda_plan_create(
            made,
            plan._plan,
            self._env,
            self.device.index or 0,
            _pointer(self._memory),
            sizes.plan_bytes,
            _current_stream(self.device),
            error,
        )
        _raise(status, error)
        self._cuda = _ffi.gc(_ffi.cast("pith_cuda_plan *", made[0]), _lib.pith_cuda_plan_destroy)

    @property
    def plan(self) -> Plan:
        """The plan that this is the device side of."""
        return self._plan

    def _bytes(self, bytes_: int) -> Tensor:
        """Return memory on the device, aligned as the library wants it."""
        torch, bytes_ = _torch(), max(int(bytes_), 1)
        memory = torch.empty(bytes_ + self._alignment, dtype=torch.uint8, device=self.device)
        begin = -memory.data_ptr() % self._alignment
        return memory[begin : begin + bytes_]

    def _tensor(
        self, x: Tensor, what: str, number: int | None = None, *, write: bool = False
    ) -> Any:
        """Return the address of a dense tensor on the plan's device, which a call may write."""
        torch = _torch()
        if not isinstance(x, torch.Tensor):
            raise DtypeError(f"{what}: expected a tensor of PyTorch, found {type(x).__name__}")
        if x.device != self.device:
            raise ArgumentError(f"{what}: found a tensor on {x.device}, expected {self.device}")
        if x.layout is not torch.strided or not x.is_contiguous() or x.is_neg():
            raise ShapeError(f"{what}: expected a dense tensor, found strides or another layout")
        if number is not None and dtypes.number_of(x.dtype) != number:
            raise DtypeError(f"{what}: found {x.dtype}, expected {dtypes.NAMES[number]}")
        if write:
            views.check_autograd(x)
        return _pointer(x)

    def __repr__(self) -> str:
        return f"<pith.cuda.DevicePlan {self._plan._spec!r} on {self.device}>"


def _device(device: Any) -> Any:
    torch = _torch()
    if device is None or isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != DEVICE:
            raise UnsupportedError(f"device: found {device}, expected {DEVICE}")
        index = device.index
    if index is None and DEVICE == "cuda":
        try:
            index = torch.cuda.current_device()
        except (RuntimeError, AssertionError) as error:
            raise DeviceError(f"PyTorch has no CUDA device: {error}") from None
    return torch.device(DEVICE, index) if DEVICE == "cuda" else torch.device(DEVICE)


def _raise(status: int, error: Any) -> None:
    if status:
        raise from_status(status, error)


def _pointer(x: Tensor | None) -> Any:
    return _ffi.NULL if x is None else _ffi.cast("void *", x.data_ptr())


class DeviceStream:
    """One end of a sequence of frames in device memory; see :class:`pith.Stream`.

    Args:
        plan: the device side of a plan
        seed, rng_stream, rank, ranks, step: as for :class:`pith.Stream`

    """

    def __init__(
        self,
        plan: DevicePlan,
        *,
        seed: int = 0,
        rng_stream: int = 0,
        rank: int = 0,
        ranks: int = 0,
        step: int = 0,
    ) -> None:
        check_new(self, "_stream")
        _check_kind(plan, DevicePlan, "plan")
        self._plan = plan
        self._memory = plan._bytes(plan._stream_bytes)
        self._base: views.Bound | None = None
        options = self._options(seed, rng_stream, rank, ranks, step)
        error = _error()
        status = _lib.pith_cuda_stream_init(
            plan._cuda,
            _pointer(self._memory),
            plan._stream_bytes,
            options,
            _current_stream(plan.device),
            error,
        )
        _raise(status, error)
        self._stream = _ffi.cast("pith_cuda_stream *", self._memory.data_ptr())

    @property
    def plan(self) -> DevicePlan:
        """The plan that the stream was made for."""
        return self._plan

    def _options(self, seed: int, rng_stream: int, rank: int, ranks: int, step: int) -> Any:
        return _ffi.new(
            "pith_stream_options *",
            {
                "size": _ffi.sizeof("pith_stream_options"),
                "seed": seed,
                "rng_stream": rng_stream,
                "rank": rank,
                "ranks": ranks,
                "step": step,
            },
        )

    def _do(self, call: Any, *arguments: Any) -> None:
        """Make a call that takes this stream, on the current CUDA stream."""
        if self._base is not None:
            self._base.check()
        error, cuda = _error(), self._plan._cuda
        on = _current_stream(self._plan.device)
        _raise(call(cuda, self._stream, *arguments, on, error), error)

    # ---- The base, steps, random bits ----

    def set_base(self, x: Tensor, step: int = 0) -> None:
        """Copy a base, f32, bf16 or f16 and of the plan's shape, into the stream."""
        address = self._plan._tensor(x, "base")
        self._whole(x, "base")
        self._do(_lib.pith_cuda_stream_set_base, address, dtypes.number_of(x.dtype), step)

    def bind_base(self, x: Tensor, step: int = 0) -> None:
        """Use a tensor of yours as the base, as :meth:`pith.Stream.bind_base` does.

        Memory that is replaced afterwards (``x.data = ...``) is noticed by the next call.
        """
        address = self._plan._tensor(x, "base", self._plan._plan._base_number)
        self._whole(x, "base")
        bound, before = views.Bound(x, None), self._base
        self._bases = (before, bound)  # whatever happens now, the stream may use one of them
        self._base = None
        try:
            self._do(_lib.pith_cuda_stream_bind_base, address, step)
        except Error:
            self._base = before
            raise
        self._base = bound

    def get_base(self) -> Tensor:
        """Return a copy of the base, of the plan's shape.

        Raises:
            StateError: the plan has none, or none is bound

        """
        plan = self._plan._plan
        if self._base is not None:
            self._base.check()
            return self._base.tensor.clone().reshape(plan.shape)
        inside = _lib.pith_cuda_stream_base(self._plan._cuda, self._stream)
        if inside == _ffi.NULL:
            raise StateError("the stream has no base")
        first = int(_ffi.cast("uintptr_t", inside)) - self._memory.data_ptr()
        bytes_ = self._memory[first : first + plan.count * dtypes.BYTES[plan._base_number]]
        return bytes_.clone().view(dtypes.torch_dtype(plan._base_number)).reshape(plan.shape)

    def verify(self) -> Tensor:
        """Compare the base with its hash: a status for each slot, on the device."""
        torch = _torch()
        status = torch.zeros(self._plan._plan.slots, dtype=torch.int32, device=self._plan.device)
        self._do(_lib.pith_cuda_stream_verify, _ffi.cast("int32_t *", status.data_ptr()))
        return status

    def rollback(self, step: int) -> None:
        """Take back what encoding a step did."""
        self._do(_lib.pith_cuda_stream_rollback, step)

    def set_step(self, step: int, slot: int = 0) -> None:
        """Set the step of a slot's next frame."""
        self._do(_lib.pith_cuda_stream_set_step, slot, step)

    def set_random(
        self, *, seed: int = 0, rng_stream: int = 0, rank: int = 0, ranks: int = 0
    ) -> None:
        """Set seed, rng_stream, rank and ranks from now on."""
        self._do(_lib.pith_cuda_stream_set_random, self._options(seed, rng_stream, rank, ranks, 0))

    def load(self, host: Stream) -> None:
        """Take up what a stream on the CPU remembers, of the same spec and layout; it waits."""
        _check_kind(host, Stream, "host")
        torch, bytes_ = _torch(), self._plan._stream_bytes
        copy = torch.empty(bytes_, dtype=torch.uint8, device="cpu")
        error = _error()
        with host._borrow() as work:
            status = _lib.pithpy_cuda_pack(
                self._plan._cuda, work, host._stream, host._mark, _pointer(copy), bytes_, error
            )
        _raise(status, error)
        self._memory.copy_(copy)

    def save(self, host: Stream) -> None:
        """Give a stream on the CPU what this one remembers; it waits."""
        _check_kind(host, Stream, "host")
        copy = self._memory.cpu()
        error = _error()
        with host._borrow() as work:
            status = _lib.pithpy_cuda_unpack(
                self._plan._cuda, work, host._stream, host._mark, _pointer(copy), len(copy), error
            )
        _raise(status, error)

    # ---- Frames ----

    def encode(
        self,
        x: Tensor | Sequence[Tensor],
        *,
        slots: Iterable[int] | None = None,
        key_frame: bool = False,
        same_set: bool = False,
        held_set: bool = False,
        same_blocks: bool = False,
        out: Frames | None = None,
    ) -> Frames:
        """Encode slots of a tensor, and advance the stream.

        Args:
            x: the whole tensor, of the plan's dtype, or a piece for each slot
            slots: which, none twice; None: all
            key_frame: make key frames
            same_set: codec topk: send the values of the sets that the slots hold, without indices
            held_set: the same with their indices, for receivers that do not hold them
            same_blocks: codec topk: send no indices of blocks whose sets the slots hold
            out: where they go; None: new memory, which may be too little for the frame of a held
                set of more elements than the plan's hard limit

        Returns:
            The frames; their status is to be looked at with :func:`check` before they are used.

        Raises:
            DtypeError, ShapeError, ArgumentError: tensors that are not the plan's

        """
        plan, listed = self._plan._plan, self._slots(slots)
        items, keep = self._items(x, listed, plan._number, "x")
        key = plan.sizes.key_bytes if key_frame else 0
        out = self._room(len(listed), max(plan.sizes.slot_bytes, key)) if out is None else out
        scratch = self._plan._workspace_bytes
        scratch += self._plan._sum_bytes if same_set or held_set else 0
        scratch += self._plan._set_bytes if same_blocks else 0
        keep += self._put(items, out, len(listed), scratch)
        if listed:
            flags = encode_flags(key_frame, same_set, held_set, same_blocks)
            self._do(_lib.pith_cuda_encode, items, flags)
        del keep
        return out

    def decode(
        self,
        frames: Frames | Tensor,
        out: Tensor | Sequence[Tensor] | None,
        *,
        slots: Iterable[int] | None = None,
        add: bool = False,
    ) -> Tensor:
        """Decode frames; with a base, move it on.

        Args:
            frames: of :meth:`encode`, or u8 ``[count, capacity]``, whole rows
            out: the whole tensor, or a piece for each slot; None, with a base: the base only
            slots: which the frames are of, none twice; None: all
            add: add to what is there instead

        Returns:
            A status for each frame, i32 on the device: :func:`check`.

        Raises:
            DtypeError, ShapeError, ArgumentError: tensors that are not the plan's

        """
        listed = self._slots(slots)
        frames = self._given(frames)
        items, keep = self._items(out, listed, None, "out")
        keep += self._put(items, frames, len(listed), self._plan._workspace_bytes)
        if listed:
            self._do(_lib.pith_cuda_decode, items, _lib.PITH_ADD if add else 0)
        del keep
        return frames.status

    def decode_range(
        self,
        frames: Frames | Tensor,
        out: Tensor | Sequence[Tensor],
        first: int,
        count: int,
        *,
        slots: Iterable[int] | None = None,
    ) -> Tensor:
        """Decode elements ``[first, first + count)`` of slots, cut to each; the stream stays.

        Args:
            frames: of :meth:`encode`, or u8 ``[count, capacity]``, whole rows
            out: the whole tensor, of which their places are written, or for each slot a tensor of
                as many elements as it has there
            first: first element of each slot
            count: number of elements
            slots: which the frames are of, none twice; None: all

        Returns:
            A status for each frame, i32 on the device: :func:`check`. With a base, values are those
            of the base that :meth:`decode` would make.

        Raises:
            DtypeError, ShapeError, ArgumentError: tensors that are not the plan's; a negative range

        """
        if min(first, count) < 0:
            raise ArgumentError(f"range: found [{first}, {first + count}), expected one from 0")
        listed = self._slots(slots)
        frames = self._given(frames)
        sizes = [self._plan._plan.slot(slot)[1] for slot in listed]
        sizes = [min(first + count, size) - min(first, size) for size in sizes]
        items, keep = self._items(out, listed, None, "out", sizes)
        keep += self._put(items, frames, len(listed), self._plan._workspace_bytes)
        if listed:
            self._do(_lib.pith_cuda_decode_range, items, first, count)
        del keep
        return frames.status

    def verify_frames(
        self, frames: Frames | Tensor, *, slots: Iterable[int] | None = None
    ) -> Tensor:
        """Check all of frames that :meth:`decode` would: headers, checksums, steps, bases, sets.

        Args:
            frames: of :meth:`encode`, or u8 ``[count, capacity]``, whole rows
            slots: which they are of, none twice; None: all

        Returns:
            A status for each frame, i32 on the device: :func:`check`. Nothing else is written.

        Raises:
            ShapeError, ArgumentError: frames are not that

        """
        listed = self._slots(slots)
        frames = self._given(frames)
        items, keep = self._items(None, listed, None, "")
        keep += self._put(items, frames, len(listed), self._plan._workspace_bytes)
        if listed:
            self._do(_lib.pith_cuda_verify, items)
        del keep
        return frames.status

    def reduce(
        self,
        frames: Frames | Tensor,
        out: Tensor | Sequence[Tensor],
        *,
        slots: Iterable[int] | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        """Write ``scale`` times the sum of what the frames of each slot hold.

        Args:
            frames: those of the first slot, then those of the second, as many for each
            out: the whole tensor, or a piece for each slot, of dtype f32, bf16 or f16
            slots: which, none twice; None: all
            scale: what sums are multiplied by, not 0

        Returns:
            A status for each frame.

        Raises:
            As :meth:`decode`.

        """
        listed = self._slots(slots)
        frames = self._given(frames)
        per_item = self._per_item(frames, listed)
        items, keep = self._items(out, listed, None, "out")
        scratch = self._plan._workspace_bytes * per_item
        scratch += self._plan._sum_bytes if items.dtype != _lib.PITH_F32 else 0
        keep += self._put(items, frames, len(listed), scratch, per_item)
        if listed:
            self._do(_lib.pith_cuda_reduce, items, per_item, check_scale(scale))
        del keep
        return frames.status

    def reduce_encode(
        self,
        frames: Frames | Tensor,
        to: DeviceStream,
        *,
        slots: Iterable[int] | None = None,
        to_slots: Iterable[int] | None = None,
        scale: float = 1.0,
        out: Frames | None = None,
    ) -> Frames:
        """Encode the sums that :meth:`reduce` makes; codec topk chooses from them again.

        Args:
            frames: those of the first slot, then those of the second, as many for each
            to: the stream of the frames that are made: another than this one
            slots: which slots the frames are of, none twice; None: all
            to_slots: which slots of ``to`` the sums are, none twice; None: all
            scale: what sums are multiplied by, not 0
            out: where the frames go; None: new memory

        Returns:
            The frames; a status that is none of success is the first of what was summed, too.

        Raises:
            As :meth:`decode`.

        """
        _check_kind(to, DeviceStream, "to")
        listed, written = self._slots(slots), to._slots(to_slots)
        if len(listed) != len(written):
            raise ArgumentError(f"to_slots: found {len(written)}, expected {len(listed)}")
        frames = self._given(frames)
        per_item = self._per_item(frames, listed)
        items, keep = self._items(None, listed, None, "")
        scratch = self._plan._workspace_bytes * per_item + self._plan._sum_bytes
        keep += self._put(items, frames, len(listed), scratch, per_item)
        out_items, more = to._items(None, written, None, "")
        if out is None:
            out = to._room(len(written), to._plan._plan.sizes.slot_bytes)
        keep += more + to._put(out_items, out, len(written), to._plan._workspace_bytes)
        if listed:
            error = _error()
            status = _lib.pith_cuda_reduce_encode(
                self._plan._cuda,
                self._stream,
                items,
                per_item,
                check_scale(scale),
                to._plan._cuda,
                to._stream,
                out_items,
                _current_stream(self._plan.device),
                error,
            )
            _raise(status, error)
        del keep
        return out

    # ---- Sets of elements: codec topk ----

    def hold(
        self, frames: Frames | Tensor, how: str = "union", *, slots: Iterable[int] | None = None
    ) -> Tensor:
        """Make slots hold the union or the intersection of the sets of frames.

        Args:
            frames: those of the first slot, then those of the second, as many for each. One made
                with ``same_blocks`` is the only one of its slot, and decoded before: its blocks
                without indices have the set that the slot holds
            how: ``"union"`` or ``"intersection"``
            slots: which, none twice; None: all

        Returns:
            A status for each frame; where one of a slot is not 0 the slot holds what it held.

        Raises:
            ArgumentError, ShapeError, DtypeError: frames are not that
            UnsupportedError: another codec

        """
        if how not in SETS:
            raise ArgumentError(f"how: expected 'union' or 'intersection', found {how!r}")
        listed = self._slots(slots)
        frames = self._given(frames)
        per_item = self._per_item(frames, listed)
        items, keep = self._items(None, listed, None, "")
        intersects = SETS[how] == _lib.PITH_SET_INTERSECTION
        scratch = self._plan._workspace_bytes * per_item + self._plan._set_bytes * intersects
        keep += self._put(items, frames, len(listed), scratch, per_item)
        if listed:
            self._do(_lib.pith_cuda_sparse_hold, items, per_item, SETS[how])
        del keep
        return frames.status

    def hold_elements(
        self,
        elements: Tensor | Sequence[Tensor],
        run: int = 1,
        *,
        slots: Iterable[int] | None = None,
    ) -> Tensor:
        """Make slots hold sets that you chose; ``encode(x, held_set=True)`` sends them.

        Args:
            elements: i64 on the device, in any order: of the only slot, or a tensor for each; a
                negative number is outside the slot
            run: of each number i the elements ``[i * run, (i + 1) * run)``
            slots: which, none twice; None: all

        Returns:
            A status for each slot; where it is not 0 the slot holds what it held.

        Raises:
            ArgumentError, ShapeError, DtypeError: elements are not that
            UnsupportedError: another codec

        """
        torch, device = _torch(), self._plan.device
        listed = self._slots(slots)
        lists: list[Any] = [elements]
        if isinstance(elements, (list, tuple)):
            lists = list(elements)
        if len(lists) != len(listed):
            raise ArgumentError(f"elements: found {len(lists)} lists, expected {len(listed)}")
        for each in lists:
            self._plan._tensor(each, "elements", _lib.PITH_I64)
        items, keep = self._items(None, listed, None, "")
        bytes_ = [8 * each.numel() for each in lists]
        addresses = torch.tensor([each.data_ptr() for each in lists], dtype=torch.int64)
        lengths = torch.tensor(bytes_, dtype=torch.int64)
        keep += [lists, addresses := addresses.to(device), lengths := lengths.to(device)]
        items.frames = _ffi.cast("void **", addresses.data_ptr())
        status = torch.zeros(len(listed), dtype=torch.int32, device=device)
        keep += self._rows(items, lengths, status, max(bytes_, default=0))
        if listed:
            self._do(_lib.pith_cuda_sparse_hold_elements, items, run)
        del keep
        return status

    def gather(
        self,
        x: Tensor | Sequence[Tensor] | None = None,
        *,
        capacity: int,
        slots: Iterable[int] | None = None,
        dtype: Any = "f32",
    ) -> Values:
        """Return values at the elements of the sets that slots hold.

        Args:
            x: the whole tensor, f32, bf16 or f16, or a piece for each slot; None: the residual
            capacity: values of a row at most, at least 1; a set of more is SpaceError
            slots: which, none twice; None: all
            dtype: of the values: f32, bf16 or f16

        Returns:
            The values; their status is to be looked at with :func:`check`.

        Raises:
            StateError: without x: the stream has no error feedback
            ArgumentError, ShapeError, DtypeError: x, capacity or dtype is not that
            UnsupportedError: another codec

        """
        if capacity < 1:
            raise ArgumentError(f"capacity: found {capacity}, expected at least 1")
        torch, device = _torch(), self._plan.device
        number = dtypes.number_of(dtype)
        listed = self._slots(slots)
        items, keep = self._items(x, listed, None, "x")
        made = Values(
            torch.empty((len(listed), capacity), dtype=dtypes.torch_dtype(number), device=device),
            torch.zeros(len(listed), dtype=torch.int64, device=device),
            torch.zeros(len(listed), dtype=torch.int32, device=device),
        )
        keep += self._compact(items, made)
        if listed:
            self._do(_lib.pith_cuda_sparse_gather, items, number)
        del keep
        return made

    def scatter(
        self,
        values: Values,
        out: Tensor | Sequence[Tensor],
        *,
        scale: float = 1.0,
        slots: Iterable[int] | None = None,
    ) -> Tensor:
        """Add ``scale * values`` to a tensor at the elements of the sets that slots hold, in f32.

        Args:
            values: as :meth:`gather` returns them, of as many slots
            out: the whole tensor, f32, bf16 or f16, or a piece for each slot
            scale: rounded to f32
            slots: which, none twice; None: all

        Returns:
            A status for each slot.

        Raises:
            ArgumentError, ShapeError, DtypeError: values or out is not that
            UnsupportedError: another codec

        """
        listed = self._slots(slots)
        values = values._replace(status=_torch().zeros_like(values.status))
        items, keep = self._items(out, listed, None, "out")
        keep += self._compact(items, values)
        number = dtypes.number_of(values.values.dtype)
        if listed:
            self._do(_lib.pith_cuda_sparse_scatter, items, number, scale)
        del keep
        return values.status

    def clear(self, *, slots: Iterable[int] | None = None) -> Tensor:
        """Set the residual to 0 at the elements of the sets that slots hold (``clear=call``).

        Returns:
            A status for each slot.

        Raises:
            StateError: the stream has no error feedback
            UnsupportedError: another codec

        """
        return self._about(self._slots(slots), _lib.pith_cuda_sparse_clear)

    def request(
        self,
        first: int = 0,
        count: int | None = None,
        *,
        k: int = 0,
        threshold: float = 0.0,
        slots: Iterable[int] | None = None,
    ) -> Tensor:
        """Say what later encodes of slots choose from; without arguments: as the spec says.

        Args:
            first: first element of each slot that may be chosen; those outside the range only add
                to the residual
            count: number of elements that may be chosen; None: to the end
            k: elements to choose, at most the spec's hard limit; 0: as the spec says, of a range
                the share that it has of the slot
            threshold: choose magnitudes from it on, rounded to f32; 0: the controller finds one
            slots: which, none twice; None: all

        Returns:
            A status for each slot; where it is not 0 what was requested before stays.

        Raises:
            UnsupportedError: another codec

        """
        torch, device = _torch(), self._plan.device
        listed = self._slots(slots)
        requests = _ffi.new("pith_sparse_request[]", len(listed))
        size = _ffi.sizeof("pith_sparse_request")
        for i, slot in enumerate(listed):
            n = self._plan._plan.slot(slot)[1]
            # A count of 0 stands for all from `first` on.
            begin = max(first, n) if count == 0 else first
            requests[i] = (size, begin, count or 0, k, threshold)
        given = torch.frombuffer(bytearray(_ffi.buffer(requests) or bytes(1)), dtype=torch.uint8)
        on_device = given.to(device)
        address = _ffi.cast("pith_sparse_request *", on_device.data_ptr())
        status = self._about(listed, _lib.pith_cuda_sparse_set_request, address)
        del on_device
        return status

    def report(self, chosen: Tensor | int, *, slots: Iterable[int] | None = None) -> Tensor:
        """Say how many elements all ranks chose together in the last step of each slot.

        Args:
            chosen: i64 on the device, one for each slot; or a number for all of them
            slots: which, none twice; None: all

        Returns:
            A status for each slot.

        Raises:
            ArgumentError, ShapeError, DtypeError: chosen is not that
            UnsupportedError: another codec

        """
        torch, device = _torch(), self._plan.device
        listed = self._slots(slots)
        if isinstance(chosen, int):
            chosen = torch.full((len(listed),), chosen, dtype=torch.int64, device=device)
        self._plan._tensor(chosen, "chosen", _lib.PITH_I64)
        if chosen.numel() != len(listed):
            raise ShapeError(f"chosen: found {chosen.numel()} numbers, expected {len(listed)}")
        address = _ffi.cast("uint64_t *", chosen.data_ptr())
        return self._about(listed, _lib.pith_cuda_sparse_report, address)

    def sparse_states(self, *, slots: Iterable[int] | None = None) -> SparseStates:
        """Return what the last encodes of slots did, and the sets that they hold.

        Raises:
            UnsupportedError: another codec

        """
        torch, device = _torch(), self._plan.device
        listed = self._slots(slots)
        words = _ffi.sizeof("pith_sparse_state") // 8
        made = torch.zeros((len(listed), words), dtype=torch.int64, device=device)
        address = _ffi.cast("pith_sparse_state *", made.data_ptr())
        status = self._about(listed, _lib.pith_cuda_sparse_get_state, address)
        threshold, holds = made.view(torch.float32)[:, 12], made.view(torch.int32)[:, 13]
        k, most, sent, overflowed, held = (made[:, i] for i in range(1, 6))
        return SparseStates(k, most, sent, overflowed, held, threshold, holds, status)

    def _about(self, listed: list[int], call: Callable[..., int], *arguments: Any) -> Tensor:
        """Make a call that looks at nothing of items but slots and status; return the latter."""
        items, keep = self._items(None, listed, None, "")
        status = _torch().zeros(len(listed), dtype=_torch().int32, device=self._plan.device)
        items.status = _ffi.cast("int32_t *", status.data_ptr())
        if listed:
            self._do(call, items, *arguments)
        del keep
        return status

    # ---- Items ----

    def _slots(self, slots: Iterable[int] | None) -> list[int]:
        count = self._plan._plan.slots
        listed = list(range(count)) if slots is None else list(slots)
        for slot in listed:
            if not 0 <= slot < count:
                raise ArgumentError(f"slots: found {slot}, expected 0 to {count - 1}")
        if len(set(listed)) < len(listed):
            raise ArgumentError(f"slots: found {listed}, in which one comes twice")
        return listed

    def _whole(self, x: Tensor, what: str) -> None:
        if x.numel() != self._plan._plan.count:
            expected = self._plan._plan.count
            raise ShapeError(
                f"{what}: found {numbered(x.numel(), 'elements')}, expected {expected}"
            )

    def _items(
        self,
        x: Tensor | Sequence[Tensor] | None,
        slots: list[int],
        number: int | None,
        what: str,
        sizes: list[int] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Return ``pith_cuda_items`` with slots and tensors, and what must be kept for the call."""
        torch, device = _torch(), self._plan.device
        items = _ffi.new("pith_cuda_items *", {"size": _ffi.sizeof("pith_cuda_items")})
        items.count = len(slots)
        keep: list[Any] = []
        first = slots[0] if slots else 0
        if slots == list(range(first, first + len(slots))):
            items.first_slot = first
        else:
            keep.append(torch.tensor(slots, dtype=torch.int64, device=device))
            items.slots = _ffi.cast("uint64_t *", keep[-1].data_ptr())
        if x is None:
            return items, keep
        if not isinstance(x, (list, tuple)):
            whole: Tensor = x
            items.tensor = self._plan._tensor(whole, what, number, write=what == "out")
            self._whole(whole, what)
            items.dtype = dtypes.number_of(whole.dtype)
            return items, keep
        pieces = list(x)
        if len(pieces) != len(slots):
            raise ArgumentError(
                f"{what}: found {numbered(len(pieces), 'tensors')}, expected {len(slots)}"
            )
        if sizes is None:
            sizes = [self._plan._plan.slot(slot)[1] for slot in slots]
        of_each(lambda x: self._plan._tensor(x, what, number, write=what == "out"), pieces)
        for piece, count in zip(pieces, sizes, strict=True):
            if piece.numel() != count:
                raise ShapeError(
                    f"{what}: found {numbered(piece.numel(), 'elements')}, expected {count}"
                )
            if piece.dtype != pieces[0].dtype:
                raise DtypeError(f"{what}: found {piece.dtype} beside {pieces[0].dtype}")
        # PyTorch gives tensors without elements no address, and the library asks for one.
        addresses = [piece.data_ptr() or self._memory.data_ptr() for piece in pieces]
        keep.append(torch.tensor(addresses, dtype=torch.int64, device=device))
        items.tensors = _ffi.cast("void **", keep[-1].data_ptr())
        items.dtype = dtypes.number_of(pieces[0].dtype) if pieces else 0
        return items, keep

    def _room(self, count: int, capacity: int) -> Frames:
        torch, device = _torch(), self._plan.device
        capacity = -(-capacity // 16) * 16
        return Frames(
            torch.empty((count, capacity), dtype=torch.uint8, device=device),
            torch.zeros(count, dtype=torch.int64, device=device),
            torch.zeros(count, dtype=torch.int32, device=device),
        )

    def _given(self, frames: Frames | Tensor) -> Frames:
        torch, device = _torch(), self._plan.device
        if isinstance(frames, Frames):
            return frames._replace(status=torch.zeros_like(frames.status))
        if not isinstance(frames, torch.Tensor) or frames.dim() != 2:
            raise ShapeError("frames: expected u8 [count, capacity]")
        count, capacity = frames.shape
        return Frames(
            frames,
            torch.full((count,), capacity, dtype=torch.int64, device=device),
            torch.zeros(count, dtype=torch.int32, device=device),
        )

    def _per_item(self, frames: Frames, slots: list[int]) -> int:
        count = len(frames.lengths)
        if slots and (count % len(slots) or not count):
            raise ArgumentError(f"frames: found {count} for {numbered(len(slots), 'slots')}")
        return count // len(slots) if slots else 0

    def _put(
        self, items: Any, frames: Frames, count: int, workspace: int, per_item: int = 1
    ) -> list[Any]:
        """Put frames and workspace into the items; return what must be kept for the call."""
        bytes_ = self._plan._tensor(frames.frames, "frames", _lib.PITH_U8)
        _same_rows(frames, count * per_item)
        items.frame, items.frame_stride = bytes_, frames.frames.shape[1]
        capacity = frames.frames.shape[1]
        return [frames, *self._rows(items, frames.lengths, frames.status, capacity, workspace)]

    def _compact(self, items: Any, values: Values) -> list[Any]:
        """Put values in place of frames into the items."""
        address = self._plan._tensor(values.values, "values")
        if values.values.dim() != 2:
            raise ShapeError("values: expected [count, capacity]")
        _same_rows(values, items.count)
        stride = values.values.shape[1] * values.values.element_size()
        items.frame, items.frame_stride = address, stride
        return [values, *self._rows(items, values.lengths, values.status, stride)]

    def _rows(
        self,
        items: Any,
        lengths: Tensor,
        status: Tensor,
        capacity: int,
        workspace: int | None = None,
    ) -> list[Any]:
        """Put lengths, status and workspace (bytes an item) into the items."""
        plan = self._plan
        items.capacity = capacity
        items.lengths = _ffi.cast("uint64_t *", plan._tensor(lengths, "lengths", _lib.PITH_I64))
        items.status = _ffi.cast("int32_t *", plan._tensor(status, "status", _lib.PITH_I32))
        bytes_ = (plan._workspace_bytes if workspace is None else workspace) * int(items.count)
        if not bytes_:
            return []
        space = plan._bytes(bytes_)
        items.workspace, items.workspace_bytes = _pointer(space), bytes_
        return [space]


def _same_rows(parts: Frames | Values, expected: int) -> None:
    for part, what in zip(parts, parts._fields, strict=True):
        if part.shape[0] != expected:
            raise ShapeError(f"{what}: found {part.shape[0]} rows, expected {expected}")


# ---- Pages --------------------------------------------------------------------------------------


def encode_pages(
    plan: DevicePlan, pool: Tensor, block_ids: Tensor, out: Tensor, *, tokens: Tensor | None = None
) -> Tensor:
    """Encode blocks of a pool as pages; see :func:`pith.kv.encode_pages`.

    Args:
        plan: the device side of the pages' plan
        pool: ``[blocks, page tokens, heads, dim]`` on the device; the last stride is 1
        block_ids: i64 on the device, in range, which is not looked at
        out: u8 ``[len(block_ids), page bytes]``, dense
        tokens: i64 of every page, 1 to the page's, else its status is that of an ArgumentError;
            None: all

    Returns:
        A status for each page. One that is not 0 has not been written.

    Raises:
        DtypeError, ShapeError, ArgumentError: tensors that are not the plan's

    """
    return _pages(plan, pool, block_ids, out, tokens, _lib.pith_cuda_kv_encode_pages)


def decode_pages(
    plan: DevicePlan,
    pages: Tensor,
    pool: Tensor,
    block_ids: Tensor,
    *,
    tokens: Tensor | None = None,
) -> Tensor:
    """Decode pages into blocks of a pool, the reverse of :func:`encode_pages`.

    Args:
        plan: the device side of the pages' plan
        pages: u8 ``[len(block_ids), page bytes]``, dense
        pool: ``[blocks, page tokens, heads, dim]`` of dtype f32, bf16 or f16; the last stride is 1
        block_ids: i64 on the device, none twice, in range, which is not looked at
        tokens: i64 of every page, as there; None: all

    Returns:
        A status for each page. Nothing of a block is written where it is not 0.

    Raises:
        As :func:`encode_pages`.

    """
    views.check_autograd(pool)
    return _pages(plan, pool, block_ids, pages, tokens, _lib.pith_cuda_kv_decode_pages)


def _pages(
    plan: DevicePlan, pool: Tensor, block_ids: Tensor, pages: Tensor, tokens: Any, call: Any
) -> Tensor:
    torch = _torch()
    _check_kind(plan, DevicePlan, "plan")
    plan._tensor(block_ids, "block_ids", _lib.PITH_I64)
    if block_ids.dim() != 1:
        raise ShapeError(f"block_ids: found shape {list(block_ids.shape)}, expected [count]")
    n = len(block_ids)
    plan._tensor(pages, "pages", _lib.PITH_U8)
    page_tokens = _lib.pith_kv_page_tokens(plan._plan._plan)
    bytes_ = _lib.pith_kv_page_bytes(plan._plan._plan, page_tokens)
    if pages.dim() != 2 or pages.shape[0] != n or pages.shape[1] < bytes_:
        found = list(pages.shape)
        raise ShapeError(f"pages: found shape {found}, expected [{n}, {bytes_}] or wider")
    if not isinstance(pool, torch.Tensor):
        raise DtypeError(f"pool: expected a tensor of PyTorch, found {type(pool).__name__}")
    if pool.device != plan.device or pool.dim() not in (3, 4):
        raise ShapeError(f"pool: expected [blocks, tokens, heads, dim] on {plan.device}")
    if pool.layout is not torch.strided or pool.is_neg():
        raise UnsupportedError(
            "pool: expected a strided tensor without PyTorch's negative bit: give its to_dense() or"
            " resolve_neg()"
        )
    like = _ffi.new("pith_view *")
    like.dtype, like.ndim = dtypes.number_of(pool.dtype), pool.dim() - 1
    like.shape[0 : like.ndim] = list(pool.shape[1:])
    like.stride[0 : like.ndim] = list(pool.stride()[1:])
    pairs = torch.zeros((n, 3), dtype=torch.int64, device=plan.device)
    pairs[:, 0] = block_ids * (pool.stride(0) * pool.element_size()) + pool.data_ptr()
    rows = torch.arange(n, dtype=torch.int64, device=plan.device)
    pairs[:, 1] = rows * pages.shape[1] + pages.data_ptr()
    if tokens is not None:
        plan._tensor(tokens, "tokens", _lib.PITH_I64)
        if tokens.shape != block_ids.shape:
            raise ShapeError(f"tokens: found shape {list(tokens.shape)}, expected [{n}]")
        # A pair has 32 bits for them, of which 0 says all of a page.
        page = int(page_tokens)
        pairs[:, 2] = torch.where((tokens < 1) | (tokens > page), page + 1, tokens)
    status = torch.zeros(n, dtype=torch.int32, device=plan.device)
    if n:
        error = _error()
        code = call(
            plan._cuda,
            like,
            _ffi.cast("pith_kv_pair *", pairs.data_ptr()),
            n,
            _ffi.cast("int32_t *", status.data_ptr()),
            _current_stream(plan.device),
            error,
        )
        _raise(code, error)
    return status
