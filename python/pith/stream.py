"""Streams: what one end of a sequence of frames remembers, and the calls that make and read frames.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, overload

import numpy as np

from . import dtypes, views
from ._core import decode as _decode
from ._core import direct as _direct
from ._core import encode as _encode
from ._core import ffi, lib
from .errors import (
    ArgumentError,
    BaseMismatchError,
    DtypeError,
    Error,
    MismatchError,
    ShapeError,
    SpaceError,
    StateError,
    UnsupportedError,
    check_new,
    from_status,
    numbered,
    of_each,
)
from .plan import (
    Plan,
    Work,
    bytes_for,
    check_scale,
    check_status,
    check_threads,
    check_work,
    error_of,
    make_work,
    unsigned,
)
from .views import Buffer, Tensor

_ITEM_BYTES = ffi.sizeof("pith_item")
_SUM_BYTES = ffi.sizeof("pith_sum")
SETS = {"union": lib.PITH_SET_UNION, "intersection": lib.PITH_SET_INTERSECTION}


class Stats(NamedTuple):
    """What a stream has counted since it was made."""

    frames: int
    """Frames encoded, decoded or reduced."""
    key_frames: int
    """Of them, key frames."""
    saturated: int
    """Results that overflowed and were set to the largest value."""
    poisoned: int
    """Groups that decode to NaN, since they held a value that is not finite."""
    exact: int
    """Values stored as they are because of the bound; not saved."""
    nonzero: int
    """Codec act: values that do not decode to 0; embed: those of rows coded in full; not saved."""


class SparseState(NamedTuple):
    """What the last call of a slot of codec topk did, and the set that it holds; in elements."""

    k: int
    """That the spec asks for."""
    most: int
    """The spec's hard limit (``cap``)."""
    sent: int
    """Of the last frame that was encoded or decoded."""
    overflowed: int
    """That reached the threshold beyond the limit: they stay in the residual, if there is one."""
    held: int
    """Of the set that the slot holds."""
    threshold: float
    """Of the last encode: magnitudes from it on were chosen; 0: none yet."""
    holds: bool
    """Whether the slot holds a set."""


def _frame_bytes(frame: Buffer) -> tuple[Any, int, Any]:
    return views.bytes_of(frame, "frame")


# ---- What a call needs besides its arguments -----------------------------------------------------


_KEPT_BYTES = 64 << 20
"""Memory for larger frames is given back after every call."""


class _Call:
    """Scratch memory of one call: a work, and memory for frames. Calls at once have one each."""

    __slots__ = ("address", "bytes", "capacity", "memory", "work", "work_address", "work_memory")

    def __init__(self) -> None:
        self.capacity, self.memory = 0, views.memory(0)
        self.address = views.address(self.memory)
        self.bytes, self.work, self.work_address = 0, ffi.NULL, 0

    def frame_memory(self, bytes_: int) -> Any:
        """Return memory for a frame of so many bytes."""
        if bytes_ > _KEPT_BYTES:
            memory = views.memory(bytes_)
            lib.pithpy_ask_for_huge_pages(memory, bytes_)
            return memory
        if self.capacity < bytes_:
            self.memory = views.memory(bytes_)
            self.capacity, self.address = bytes_, views.address(self.memory)
        return self.memory

    def work_for(self, bytes_: int, threads: int) -> Any:
        """Return a work of at least so many bytes; the threads are always the same."""
        if self.bytes < bytes_:
            self.work_memory, self.work = make_work(bytes_, threads, None)
            self.bytes, self.work_address = bytes_, views.address(self.work)
        return self.work


# By number of threads: those that no call is using. A list's append and pop are atomic, so that
# threads take and give them without a lock; a call that failed in Python gives nothing back.
_idle: dict[int, list[_Call]] = {}


def idle_calls(threads: int) -> list[_Call]:
    """Return the list from which calls with so many threads take their memory."""
    return _idle.setdefault(threads, [])


class _Borrowed:
    """A work for the duration of a ``with``: the given one, or one that no call is using."""

    __slots__ = ("_bytes", "_call", "_given", "_idle", "_threads")

    def __init__(self, given: Work | None, bytes_: int, threads: int) -> None:
        self._given, self._bytes, self._threads = given, bytes_, threads
        self._idle = idle_calls(threads)

    def __enter__(self) -> Any:
        if self._given is not None:
            return self._given._work
        try:
            self._call = self._idle.pop()
        except IndexError:
            self._call = _Call()
        return self._call.work_for(self._bytes, self._threads)

    def __exit__(self, *_: object) -> None:
        if self._given is None:
            self._idle.append(self._call)


def borrow(work: Work | None, plans: Iterable[Plan], threads: int = 1) -> _Borrowed:
    """Return what gives a work for calls of these plans to a ``with`` statement."""
    if work is not None:
        check_work(work)
    return _Borrowed(work, 0 if work is not None else bytes_for(plans, threads), threads)


def marks_of(marks: Iterable[Any]) -> tuple[Any, int]:
    """Return marks, one of them several times maybe, as functions of helpers.h take them."""
    unique = list(dict.fromkeys(marks))
    return ffi.new("intptr_t *[]", unique), len(unique)


# ---- Streams ------------------------------------------------------------------------------------


class Stream:
    """One end of a sequence of frames: base or residual, steps, seed, statistics.

    Sender and receiver each have one, of plans with equal fingerprints. One call at a time: a
    second one, from another thread, raises :class:`~pith.errors.BusyError` and changes nothing.

    Tensors are NumPy arrays, PyTorch tensors, or anything with DLPack or the buffer protocol, of
    any strides, and are not copied. What is written into a tensor is not seen by autograd.

    Args:
        plan: what is encoded, and how
        seed: of the random bits
        rng_stream: ranks that round independently take different ones
        rank, ranks: with ``round=antithetic``: this rank of so many, whose errors cancel
        step: of the first frame
        threads: threads of a call; the bytes do not depend on it
        work: scratch memory and threads to use instead

    Raises:
        ArgumentError: a number is out of range, or rank is not below ranks
        TypeError: an argument is of another type

    """

    def __init__(
        self,
        plan: Plan,
        *,
        seed: int = 0,
        rng_stream: int = 0,
        rank: int = 0,
        ranks: int = 0,
        step: int = 0,
        threads: int = 1,
        work: Work | None = None,
    ) -> None:
        check_new(self, "_stream")
        if not isinstance(plan, Plan):
            raise TypeError(f"a stream needs a pith.Plan, found {type(plan).__name__}")
        threads = check_threads(threads)
        check_work(work)
        self._plan = plan
        self._work = work
        self._threads = threads
        self._base: views.Bound | None = None
        self._mark = ffi.new("intptr_t *")
        self._given = {
            "seed": seed,
            "rng_stream": rng_stream,
            "rank": rank,
            "ranks": ranks,
            "step": step,
        }
        options = _options(**self._given)
        bytes_ = plan.sizes.stream_bytes
        self._memory = views.memory(bytes_)
        made = ffi.new("pith_stream **")
        error = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
        status = lib.pith_stream_init(plan._plan, self._memory, bytes_, options, made, error)
        if status:
            raise from_status(status, error)
        self._stream = made[0]
        brief = plan.count <= lib.PITHPY_BRIEF
        self._end = ffi.new("pithpy_end *", (self._stream, self._mark, brief))
        self._end_address = views.address(self._end)
        self._work_address = 0 if work is None else views.address(work._work)
        self._work_bytes = 0 if work is not None else bytes_for((plan,), threads)
        self._capacity = max(plan.sizes.slot_bytes, plan.sizes.key_bytes)
        # For frames that are not encoded where they stay: helpers.h says which do.
        self._scratch = 0 if plan.sizes.fixed else self._capacity
        self._idle = idle_calls(threads)

    def _capacity_for(self, slot: int, flags: int) -> int:
        """Return in how many bytes every frame has space that ``pith_encode`` makes of a slot now.

        A set that is held may have more elements than the hard limit, of which the sizes of the
        plan are: each of these takes up to 4 bytes of index, 4 of value and 4 of a group's scale.
        """
        if not flags & (_SAME_SET | _HELD_SET):
            return self._capacity
        state = ffi.new("pith_sparse_state *", {"size": ffi.sizeof("pith_sparse_state")})
        if lib.pithpy_sparse_get_state(self._stream, self._mark, slot, state):
            return self._capacity  # encoding says what is wrong
        return self._capacity + 12 * max(int(state.held) - int(state.most), 0) + 4

    def _borrow(self) -> _Borrowed:
        return _Borrowed(self._work, self._work_bytes, self._threads)

    def _do(self, call: Callable[..., int], *arguments: Any) -> None:
        """Make a call of helpers.h that takes a work and this stream."""
        if self._base is not None:
            self._base.check()
        with self._borrow() as work:
            check_status(call(work, self._stream, self._mark, *arguments), work)

    def _ask(self, call: Callable[..., int], *arguments: Any) -> None:
        """Make a call of helpers.h that takes this stream alone."""
        status = call(self._stream, self._mark, *arguments)
        if status:
            raise from_status(status)

    @property
    def plan(self) -> Plan:
        """The plan that the stream was made for."""
        return self._plan

    # ---- Frames ----

    @overload
    def encode(
        self,
        x: Tensor,
        *,
        slot: int = 0,
        key_frame: bool = False,
        same_set: bool = False,
        held_set: bool = False,
        same_blocks: bool = False,
        out: None = None,
    ) -> bytes: ...
    @overload
    def encode(
        self,
        x: Tensor,
        *,
        slot: int = 0,
        key_frame: bool = False,
        same_set: bool = False,
        held_set: bool = False,
        same_blocks: bool = False,
        out: Buffer,
    ) -> int: ...
    def encode(
        self,
        x: Tensor,
        *,
        slot: int = 0,
        key_frame: bool = False,
        same_set: bool = False,
        held_set: bool = False,
        same_blocks: bool = False,
        out: Buffer | None = None,
    ) -> bytes | int:
        """Encode a tensor and advance the stream by one step.

        Args:
            x: the slot's piece, or the whole tensor, of which the slot is taken
            slot: which piece
            key_frame: make a key frame, from which a receiver can start (streams with a base)
            same_set: codec topk: send the values of the set that the slot holds, without indices
            held_set: the same with its indices, for receivers that do not hold it
            same_blocks: codec topk: send no indices of blocks whose chosen set is the one that the
                slot holds of them, to a receiver that holds it
            out: where the frame goes: writable bytes, ``plan.sizes.slot_bytes`` always suffice, for
                key frames ``plan.sizes.key_bytes``, but for a held set of more elements than the
                hard limit (``sparse_state().most``), which takes up to 12 bytes more for each.
                Faster from 32 MiB on, where each new frame has fresh memory: with that ``raw``
                takes 1.4 to 1.8 times as long where the kernel has huge pages, 6 times without

        Returns:
            The frame, or with ``out`` its length in bytes.

        Raises:
            DtypeError, ShapeError: x is not what the plan says
            SpaceError: out is too small
            BaseMismatchError: others have changed the base; there is no frame to send
            StateError: the slot's base is not valid after a call that failed, or not bound yet;
                same_set or held_set, and the slot holds no set
            UnsupportedError: key_frame without a base, or sets of another codec
            ArgumentError: out shares memory with x
            BusyError: another call is using the stream

        """
        flags, capacity = 0, self._scratch
        if key_frame or same_set or held_set or same_blocks:
            flags = encode_flags(key_frame, same_set, held_set, same_blocks)
            if same_set or held_set:
                capacity = self._capacity_for(slot, flags)
        try:
            call = self._idle.pop()
        except IndexError:
            call = _Call()
        if call.bytes < self._work_bytes:
            call.work_for(self._work_bytes, self._threads)
        scratch, memory = call.address, None
        if call.capacity < capacity and out is None:
            memory = call.frame_memory(capacity)
            scratch = views.address(memory)
        if self._base is not None:
            self._base.check()
        work = self._work_address or call.work_address
        made: bytes | int = _encode(self._end_address, work, x, out, slot, flags, scratch, capacity)
        del memory
        self._idle.append(call)
        return made

    def decode(
        self, frame: Buffer, out: Tensor | None = None, *, slot: int = 0, dtype: Any = None
    ) -> Tensor:
        """Decode a frame; with a base, move the base on and return it.

        Args:
            frame: the bytes of the frame; bytes behind its end are ignored
            out: where the values go: the slot's piece, or the whole tensor, in memory that the
                frame is not in
            slot: which piece the frame is of
            dtype: of the new tensor when out is None: the plan's, or of lossy codecs in f32, bf16
                or f16 any of these; a dtype of PyTorch makes a PyTorch tensor

        Returns:
            out, or a new tensor: of the plan's shape, or flat when there are slots.

        Raises:
            StepError: the frame is not the stream's next one
            BaseMismatchError: it was made against another base, or has the values of another set
                than the slot holds
            StateError: it has the values of a set, and the slot holds none
            MismatchError: it is of another plan
            FrameError: the bytes are no frame
            DtypeError, ShapeError: out is not that
            ArgumentError: out is read-only, or shares memory with the frame

        """
        if out is None:
            out = self._new(slot, dtype)
        self._decode(frame, out, slot, 0)
        return out

    def decode_add(self, frame: Buffer, out: Tensor, *, slot: int = 0) -> Tensor:
        """Add what a frame holds to a tensor, ``out += decoded``; the stream stays as it is.

        With a base, ``out`` is the base, in its dtype: its hash is compared first.

        Returns:
            out

        Raises:
            As :meth:`decode`.

        """
        if out is None:
            raise DtypeError("out: expected the tensor that is added to, found None")
        self._decode(frame, out, slot, lib.PITH_ADD)
        return out

    def advance(self, frame: Buffer, *, slot: int = 0) -> None:
        """Decode a frame into the stream's base only.

        Raises:
            StateError: the stream has no base
            As :meth:`decode`.

        """
        if not self._plan._base_number:
            raise StateError("the stream has no base to advance: decode() returns what a frame has")
        self._decode(frame, None, slot, 0)

    def _decode(self, frame: Buffer, out: Tensor, slot: int, flags: int) -> None:
        try:
            call = self._idle.pop()
        except IndexError:
            call = _Call()
        if call.bytes < self._work_bytes:
            call.work_for(self._work_bytes, self._threads)
        if self._base is not None:
            self._base.check()
        work = self._work_address or call.work_address
        _decode(self._end_address, work, frame, out, slot, flags)
        self._idle.append(call)

    def reduce(
        self,
        frames: Iterable[Buffer],
        out: Tensor | None = None,
        *,
        slot: int = 0,
        scale: float = 1.0,
        dtype: Any = None,
    ) -> Tensor:
        """Return ``scale`` times the sum of what frames of one slot hold, added in f32, in order.

        Args:
            frames: frames without a base, of fixed rate or of codec topk
            out: where the sum goes, of dtype f32, bf16 or f16
            slot: which piece they are of
            scale: what the sum is multiplied by, not 0
            dtype: of the new tensor when out is None

        Raises:
            UnsupportedError: the plan has a base, or its frames have no sums
            As :meth:`decode`.

        """
        if out is None:
            out = self._new(slot, dtype)
        Bucket([(self, slot)], threads=self._threads, work=self._work).reduce(
            [frames], [out], scale=scale
        )
        return out

    def reduce_encode(
        self,
        frames: Iterable[Buffer],
        to: Stream,
        *,
        slot: int = 0,
        to_slot: int = 0,
        scale: float = 1.0,
    ) -> bytes:
        """Encode the sum that :meth:`reduce` makes, without writing the tensor in between.

        Args:
            frames: frames without a base, of fixed rate or of codec topk
            to: the stream of the frame that is made: another than this one, of dtype f32
            slot: which piece the frames are of
            to_slot: which piece of ``to`` the sum is
            scale: what the sum is multiplied by, not 0

        Returns:
            The frame.

        Raises:
            UnsupportedError: ``to`` is not of dtype f32, or either side has no such sums
            As :meth:`decode` and :meth:`encode`.

        """
        ends = Bucket([(self, slot)], threads=self._threads, work=self._work)
        return ends.reduce_encode([frames], Bucket([(to, to_slot)]), scale=scale)[0]

    def _new(self, slot: int, dtype: Any) -> Tensor:
        number = self._plan._number if dtype is None else dtypes.number_of(dtype)
        shape = self._plan._shape if self._plan._slots == 1 else (self._plan.slot(slot)[1],)
        return views.empty(shape, dtype, number)

    # ---- The base ----

    def set_base(self, x: Tensor, step: int = 0) -> None:
        """Copy a base into the stream, rounded to the base dtype, and set the next step.

        Raises:
            DtypeError: x is of another dtype than the base, and one of them not f32, bf16 or f16
            ShapeError: x has not as many elements as the plan
            StateError: the plan has no base, or an external one that is not bound

        """
        step = unsigned("step", step)
        view, keep = views.new(x)
        self._do(lib.pithpy_stream_set_base, view, step)
        del keep

    def bind_base(self, x: Tensor, step: int = 0) -> None:
        """Use a tensor of yours as the base: encode and decode write to it from now on.

        The stream keeps its memory alive; nobody else may change it between calls. The plan was
        made with ``external_base=True``. A tensor of PyTorch whose memory is replaced afterwards
        (``x.data = ...``, and so ``module.to()`` and ``module.half()``; its storage resized) is not
        the base any more: calls raise :class:`~pith.errors.BaseMismatchError` until it, or another
        one, is bound.

        Args:
            x: dense, writable, of the base dtype and the plan's element count
            step: the next step

        Raises:
            DtypeError, ShapeError, ArgumentError: it is not that
            StateError: the plan has no external base

        """
        step = unsigned("step", step)
        view, keep = views.new_base(x)
        count = lib.pith_view_count(view)
        if view.dtype != self._plan._base_number:
            found, expected = dtypes.NAMES[view.dtype], self._plan.base_dtype or "no base"
            raise DtypeError(f"base: found dtype {found}, expected {expected}")
        if count != self._plan.count:
            raise ShapeError(
                f"base: found {numbered(count, 'elements')}, expected {self._plan.count}"
            )
        if not views.is_dense(view):
            raise ShapeError("base: expected a dense tensor, found strides")
        bound = views.Bound(x, keep)
        with self._borrow() as work:
            status = lib.pithpy_stream_bind_base(
                work, self._stream, self._mark, view.data, step, id(self), id(bound)
            )
            check_status(status, work)

    def get_base(
        self, out: Tensor | None = None, *, slot: int | None = None, dtype: Any = None
    ) -> Tensor:
        """Return a copy of the base.

        Args:
            out: where it goes, of a float dtype, to which it is rounded
            slot: only this slot's; None: of the whole tensor
            dtype: of the new tensor when out is None; the base's

        Raises:
            ShapeError: out has another element count
            StateError: there is no base, or it is not valid

        """
        plan = self._plan
        if out is None:
            number = dtypes.number_of(dtype) if dtype is not None else plan._base_number
            shape = plan._shape if slot is None else (plan.slot(slot)[1],)
            out = views.empty(shape, dtype, number or plan._number)
        view, keep = views.new(out, write=True)
        # The library tells the whole tensor from a slot's piece by the element count alone.
        expected = plan.count if slot is None else plan.slot(slot)[1]
        if lib.pith_view_count(view) != expected:
            found = lib.pith_view_count(view)
            raise ShapeError(f"out: found {numbered(found, 'elements')}, expected {expected}")
        self._do(lib.pithpy_stream_get_base, slot or 0, view)
        del keep
        return out

    def base_hash(self, slot: int = 0) -> int:
        """Return the hash of a slot's base: equal on every replica; 0 without one."""
        self._plan.slot(slot)
        answer = ffi.new("uint64_t *")
        self._ask(lib.pithpy_stream_base_hash, slot, answer)
        return int(answer[0])

    def verify(self) -> None:
        """Read the base and compare its hash.

        Raises:
            BaseMismatchError: the memory was changed by others
            StateError: there is no base
            UnsupportedError: ``base_hash=off``

        """
        self._do(lib.pithpy_stream_verify)

    # ---- Steps and random bits ----

    def step(self, slot: int = 0) -> int:
        """Return the step of a slot's next frame."""
        self._plan.slot(slot)
        answer = ffi.new("uint64_t *")
        self._ask(lib.pithpy_stream_step, slot, answer)
        return int(answer[0])

    def set_step(self, step: int, slot: int = 0) -> None:
        """Set the step of a slot's next frame."""
        self._do(lib.pithpy_stream_set_step, slot, unsigned("step", step))

    def set_random(
        self, *, seed: int = 0, rng_stream: int = 0, rank: int = 0, ranks: int = 0
    ) -> None:
        """Set seed, rng_stream, rank and ranks from now on."""
        self._do(lib.pithpy_stream_set_random, _options(seed, rng_stream, rank, ranks, 0))

    def reset(self) -> None:
        """Make the stream as it was when it was made; an external base is set to 0."""
        self._do(lib.pithpy_stream_reset)

    def rollback(self, step: int) -> None:
        """Take back what encoding a step did, in every slot whose last encode was of that step.

        Raises:
            StateError: the stream has a base

        """
        self._do(lib.pithpy_stream_rollback, unsigned("step", step))

    # ---- The residual ----

    def get_residual(
        self, out: Tensor | None = None, *, first: int = 0, count: int | None = None
    ) -> Tensor:
        """Return what encoding has lost so far, of a range of the tensor taken flat.

        Args:
            out: where it goes, f32, bf16 or f16; its element count is the range's
            first: first element
            count: number of elements when out is None; None: to the end

        Raises:
            StateError: the stream has no error feedback
            ArgumentError: the range does not lie in the tensor

        """
        if out is None:
            out = views.empty((self._range(first, count),), None, lib.PITH_F32)
        view, keep = views.new(out, write=True)
        self._do(lib.pithpy_stream_get_residual, first, view)
        del keep
        return out

    def set_residual(self, x: Tensor, *, first: int = 0) -> None:
        """Replace the residual of a range.

        Raises:
            StateError: the stream has no error feedback
            ArgumentError: a value is not finite, or the range does not lie in the tensor

        """
        view, keep = views.new(x)
        self._do(lib.pithpy_stream_set_residual, first, view)
        del keep

    def _range(self, first: int, count: int | None) -> int:
        if not 0 <= first <= self._plan.count:
            raise ArgumentError(f"first: found {first}, expected 0 to {self._plan.count}")
        if count is None:
            return self._plan.count - first
        if count < 0:
            raise ArgumentError(f"count: found {count}, expected no negative number")
        return count

    # ---- Sets of elements: codec topk ----

    def hold(self, frames: Iterable[Buffer], how: str = "union", *, slot: int = 0) -> None:
        """Make the slot hold the union or the intersection of the sets of frames.

        Args:
            frames: of codec topk, with or without values, of any setting, in any order; of the
                slot's element count and block size
            how: ``"union"`` or ``"intersection"``
            slot: which piece

        Raises:
            MismatchError: a frame of another codec, element count or block size
            UnsupportedError: a frame without indices, or of some blocks; another codec
            FrameError: a frame is damaged; the slot then holds no set
            ArgumentError: no frames

        """
        if how not in SETS:
            raise ArgumentError(f"how: expected 'union' or 'intersection', found {how!r}")
        parts = of_each(_frame_bytes, frames)
        data = ffi.new("const void *[]", [part[0] for part in parts])
        lengths = ffi.new("size_t[]", [part[1] for part in parts])
        self._do(lib.pithpy_sparse_hold, slot, data, lengths, len(parts), SETS[how])

    def hold_elements(self, elements: Any, run: int = 1, *, slot: int = 0) -> None:
        """Make the slot hold a set that you chose; ``encode(x, held_set=True)`` sends it.

        Args:
            elements: whole numbers in any order: a NumPy array, a PyTorch tensor or a list
            run: of each number i the elements ``[i * run, (i + 1) * run)``: the length of a row
                holds rows
            slot: which piece

        Raises:
            ArgumentError: a run that begins outside the slot; the slot holds what it held
            DtypeError: elements are no whole numbers
            UnsupportedError: another codec

        """
        array = np.asarray(elements)
        if array.size and array.dtype.kind not in "iu":
            raise DtypeError(f"elements: expected whole numbers, found {array.dtype}")
        if array.size and array.min() < 0:
            raise ArgumentError(f"elements: found {array.min()}, expected no negative number")
        numbers = np.ascontiguousarray(array, np.uint64).ravel()
        data = ffi.from_buffer("uint64_t[]", numbers)
        self._do(lib.pithpy_sparse_hold_elements, slot, data, len(numbers), run)

    def gather(
        self,
        x: Tensor | None = None,
        out: Tensor | None = None,
        *,
        slot: int = 0,
        dtype: Any = "f32",
    ) -> Tensor:
        """Return values at the held set's elements, in ascending order of the elements.

        Args:
            x: the slot's piece, or the whole tensor, f32, bf16 or f16; None: the residual, which
                after an encode with ``clear=call`` is residual + tensor (the accumulator)
            out: where they go, of as many elements as the set (``sparse_state().held``), f32, bf16
                or f16, to which values are rounded
            slot: which piece
            dtype: of the new tensor when out is None

        Returns:
            out, or a new flat tensor.

        Raises:
            StateError: the slot holds no set; without x: the stream has no error feedback
            ShapeError, DtypeError: x or out is not that
            UnsupportedError: another codec

        """
        if out is None:
            held = self.sparse_state(slot).held
            out = views.empty((held,), dtype, dtypes.number_of(dtype))
        source, keep = (ffi.NULL, None) if x is None else views.new(x)
        values, keep_out = views.new(out, write=True)
        self._do(lib.pithpy_sparse_gather, slot, source, values)
        del keep, keep_out
        return out

    def scatter(self, values: Tensor, out: Tensor, *, scale: float = 1.0, slot: int = 0) -> Tensor:
        """Add ``scale * values`` to a tensor at the held set's elements, in f32.

        Args:
            values: in ascending order of the elements, as :meth:`gather` returns them
            out: the slot's piece, or the whole tensor, f32, bf16 or f16; its other elements are
                neither read nor written
            scale: rounded to f32
            slot: which piece

        Returns:
            out

        Raises:
            StateError: the slot holds no set
            ShapeError, DtypeError: values or out is not that
            UnsupportedError: another codec

        """
        source, keep = views.new(values)
        view, keep_out = views.new(out, write=True)
        self._do(lib.pithpy_sparse_scatter, slot, source, scale, view)
        del keep, keep_out
        return out

    def clear(self, *, slot: int = 0) -> None:
        """Set the residual to 0 at the held set's elements (``clear=call``).

        Raises:
            StateError: the slot holds no set, or the stream has no error feedback
            UnsupportedError: another codec

        """
        self._do(lib.pithpy_sparse_clear, slot)

    def request(
        self,
        first: int = 0,
        count: int | None = None,
        *,
        k: int = 0,
        threshold: float = 0.0,
        slot: int = 0,
    ) -> None:
        """Say what later encodes of a slot choose from; without arguments: as the spec says.

        Args:
            first: first element of the slot that may be chosen; those outside the range only add
                to the residual
            count: number of elements that may be chosen; None: to the end
            k: elements to choose, at most the spec's hard limit; 0: as the spec says, of a range
                the share that it has of the slot
            threshold: choose magnitudes from it on, rounded to f32; 0: the controller finds one
            slot: which piece

        Raises:
            ArgumentError: a range that is not inside the slot, a threshold that is negative or not
                finite
            UnsupportedError: another codec

        """
        n = self._plan.slot(slot)[1]
        if count == 0:  # for the library: all from `first` on
            first = max(first, n)
        request = {"first": first, "count": count or 0, "k": k, "threshold": threshold}
        size = ffi.sizeof("pith_sparse_request")
        made = ffi.new("pith_sparse_request *", {"size": size, **request})
        self._do(lib.pithpy_sparse_set_request, slot, made)

    def report(self, chosen: int, *, slot: int = 0) -> None:
        """Say how many elements all ranks chose together in the slot's last step.

        Controllers that steer the number of a group (micro, prop) go on from it.

        Raises:
            StateError: the slot has chosen nothing yet
            UnsupportedError: another codec

        """
        self._do(lib.pithpy_sparse_report, slot, chosen)

    def sparse_state(self, slot: int = 0) -> SparseState:
        """Return what a slot's last encode or decode did, and the set that it holds.

        Raises:
            ArgumentError: there is no such slot
            UnsupportedError: another codec

        """
        out = ffi.new("pith_sparse_state *", {"size": ffi.sizeof("pith_sparse_state")})
        self._plan.slot(slot)
        status = lib.pithpy_sparse_get_state(self._stream, self._mark, slot, out)
        if status == lib.PITH_ERR_UNSUPPORTED:
            raise UnsupportedError("the codec sends no sets")
        if status:
            raise from_status(status)
        return SparseState(
            k=int(out.k),
            most=int(out.most),
            sent=int(out.sent),
            overflowed=int(out.overflowed),
            held=int(out.held),
            threshold=float(out.threshold),
            holds=bool(out.holds),
        )

    # ---- Bounds ----

    def set_bound(self, bound: float, slot: int = 0) -> None:
        """Set the bound on the absolute error of a slot; 0: as the spec says.

        Raises:
            UnsupportedError: the codec promises no bound

        """
        self._do(lib.pithpy_stream_set_bound, slot, bound)

    def scale_bound(self, factor: float, slot: int = 0) -> None:
        """Set the bound of a slot to the spec's times a factor above 0.

        Raises:
            UnsupportedError: the codec promises no bound

        """
        self._do(lib.pithpy_stream_scale_bound, slot, factor)

    def adapt(
        self,
        *,
        momentum: float,
        gradient: float,
        samples: float,
        share: float = 0.0,
        positions: float = 0.0,
        factor: float = 0.0,
        nonzero: float = 0.0,
        largest: float = 0.0,
        slot: int = 0,
    ) -> float:
        """Set the bound of a slot of saved activations from how much error a gradient may take.

        Args:
            momentum: mean magnitude of the optimizer's momentum over the layer's weights
            gradient: root mean square of the loss's gradient with respect to the layer's output
            samples: batch size
            share: of the momentum that the error may be; 0: 0.01
            positions: output elements per sample and channel; 0: 1
            factor: 0: ``sqrt(positions / 3)``
            nonzero: share of activations that are not 0; 0: that of the last encode, or 1 where
                that is 0
            largest: the bound is at most this; 0: no limit
            slot: which piece

        Returns:
            The bound.

        Raises:
            ArgumentError: a number is negative or not finite, or nonzero above 1
            UnsupportedError: the codec promises no bound

        """
        budget = ffi.new(
            "pith_budget *",
            {
                "size": ffi.sizeof("pith_budget"),
                "momentum": momentum,
                "share": share,
                "gradient": gradient,
                "samples": samples,
                "positions": positions,
                "factor": factor,
                "nonzero": nonzero,
                "largest": largest,
            },
        )
        bound = ffi.new("double *")
        self._do(lib.pithpy_stream_adapt, slot, budget, bound)
        return float(bound[0])

    def bound(self, slot: int = 0) -> float:
        """Return the slot's bound as it was set; 0: as the spec says."""
        self._plan.slot(slot)
        answer = ffi.new("double *")
        self._ask(lib.pithpy_stream_bound, slot, answer)
        return float(answer[0])

    def nonzero(self, slot: int = 0) -> float:
        """Return the share of a slot's values that were not 0 in its last encode."""
        self._plan.slot(slot)
        answer = ffi.new("double *")
        self._ask(lib.pithpy_stream_nonzero, slot, answer)
        return float(answer[0])

    @property
    def stats(self) -> Stats:
        """What the stream has counted."""
        out = ffi.new("pith_stats *", {"size": ffi.sizeof("pith_stats")})
        self._ask(lib.pithpy_stream_stats, out)
        return Stats(*(int(getattr(out, name)) for name in Stats._fields))

    # ---- Keeping it ----

    def save(self) -> bytes:
        """Return everything the stream remembers; the same bytes on every machine.

        That is the base or the residual, steps, what choose random bits, bounds and counters, but
        for ``stats.exact`` and ``nonzero``. Of codec topk what controllers know, and neither the
        set that a slot holds nor what was requested.
        """
        bytes_ = self._plan.sizes.save_bytes
        memory = views.memory(bytes_)
        written = ffi.new("size_t *")
        self._do(lib.pithpy_stream_save, memory, bytes_, written)
        return bytes(ffi.buffer(memory, written[0]))

    def load(self, saved: Buffer) -> None:
        """Take up what :meth:`save` returned, in a stream of the same spec and layout.

        Raises:
            FrameError: the bytes are not that
            MismatchError: they are of another plan

        """
        data, length, keep = views.bytes_of(saved, "saved")
        self._do(lib.pithpy_stream_load, data, length)
        del keep

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`load_state_dict` takes: text and bytes."""
        return {"spec": self._plan.spec, "state": self.save()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned, random bits included; on failure nothing.

        Raises:
            ArgumentError: a key is missing
            DtypeError: the state is no dict
            MismatchError: the state is of another spec or layout
            FrameError: the bytes are not a saved stream

        """
        _check_dict(state)
        missing = {"spec", "state"} - set(state)
        if missing:
            raise ArgumentError(f"state: found no {', '.join(sorted(missing))}")
        if state["spec"] != self._plan.spec:
            raise MismatchError(
                f"state: found spec {state['spec']!r}, expected {self._plan.spec!r}"
            )
        self.load(state["state"])

    def __getstate__(self) -> dict[str, Any]:
        if self._base is not None:
            raise StateError("a stream whose base is memory of others is not pickled: save() it")
        if self._work is not None:
            raise StateError("a stream with a work of its own is not pickled: save() it")
        made = {"plan": self._plan, "threads": self._threads, **self._given}
        return {"made": made, "state": self.save()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Stream.__init__(self, **state["made"])
        self.load(state["state"])

    def __repr__(self) -> str:
        return f"<pith.Stream {self._plan._spec!r} {list(self._plan._shape)}>"


def _check_dict(state: Any) -> None:
    if not isinstance(state, Mapping):
        raise DtypeError(f"state: expected a dict, found a {type(state).__name__}")


_KEY_FRAME, _SAME_SET, _HELD_SET = lib.PITH_KEY_FRAME, lib.PITH_SAME_SET, lib.PITH_HELD_SET


def encode_flags(key_frame: bool, same_set: bool, held_set: bool, same_blocks: bool) -> int:
    """Return the flags of ``pith_encode``."""
    flags = _KEY_FRAME if key_frame else 0
    if same_set:
        flags |= _SAME_SET
    if same_blocks:
        flags |= lib.PITH_SAME_BLOCKS
    return int(flags | _HELD_SET if held_set else flags)


def _options(seed: int, rng_stream: int, rank: int, ranks: int, step: int) -> Any:
    """Return a ``pith_stream_options *``."""
    return ffi.new(
        "pith_stream_options *",
        {
            "size": ffi.sizeof("pith_stream_options"),
            "seed": unsigned("seed", seed),
            "rng_stream": unsigned("rng_stream", rng_stream, 32),
            "rank": unsigned("rank", rank, 32),
            "ranks": unsigned("ranks", ranks, 32),
            "step": unsigned("step", step),
        },
    )


# ---- Lists --------------------------------------------------------------------------------------


def _offsets_of(capacities: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """Return where frames of so many bytes at most begin one behind the other, and the end."""
    end, offsets = 0, []
    for capacity in capacities:
        offsets.append(end)
        end += -(-capacity // 64) * 64
    return tuple(offsets), end


class Bucket:
    """Streams, or slots of them, whose tensors are worked on in one call.

    The bytes and values are those of a call for each. When some fail, the others are done all the
    same, and the exception has ``item``, the number of the first that failed, and ``results``: what
    was made, None where it failed.

    It can be copied and pickled where its streams can: with them, that is, and what they remember.

    Args:
        ends: a stream for each tensor, or ``(stream, slot)``; no slot twice, which calls refuse
        threads: threads of a call, across tensors and within large ones
        work: scratch memory and threads to use instead

    """

    def __init__(
        self,
        ends: Iterable[Stream | tuple[Stream, int]],
        *,
        threads: int = 1,
        work: Work | None = None,
    ) -> None:
        check_new(self, "_ends")
        threads = check_threads(threads)
        check_work(work)
        pairs = [end if isinstance(end, tuple) else (end, 0) for end in ends]
        for pair in pairs:
            if len(pair) != 2:
                raise TypeError(f"a bucket needs (stream, slot), found a tuple of {len(pair)}")
        for stream, _ in pairs:
            if not isinstance(stream, Stream):
                raise TypeError(f"a bucket needs pith.Stream, found {type(stream).__name__}")
        self._ends = pairs
        self._threads, self._work = threads, work
        self._streams = list({id(stream): stream for stream, _ in pairs}.values())
        self._marks = marks_of(stream._mark for stream in self._streams)
        self._work_bytes = bytes_for((stream._plan for stream, _ in pairs), threads)
        self._offsets, self._bytes = _offsets_of(stream._capacity for stream, _ in pairs)
        self._offsets_c = ffi.new("uint64_t[]", [*self._offsets, self._bytes])
        # Of frames that are not encoded where they stay: helpers.h says which do.
        offsets, self._scratch = _offsets_of(stream._scratch for stream, _ in pairs)
        self._scratch_c = ffi.new("uint64_t[]", [*offsets, self._scratch])
        self._free: list[tuple[Any, list[Any]]] = []
        self._expected = False
        self._idle = idle_calls(0)  # for memory alone

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each frame begins in the ``out`` of :meth:`encode`, in bytes."""
        return self._offsets

    @property
    def nbytes(self) -> int:
        """Bytes that the ``out`` of :meth:`encode` must have."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._ends)

    def _items(self) -> tuple[Any, list[Any]]:
        """Take items of these streams that no call is using, as an array and each alone."""
        try:
            return self._free.pop()
        except IndexError:
            items = ffi.new("pith_item[]", max(len(self._ends), 1))
            each = [ffi.addressof(items, i) for i in range(len(self._ends))]
            for item, (stream, slot) in zip(each, self._ends, strict=True):
                item.size, item.stream, item.slot = _ITEM_BYTES, stream._stream, slot
            return items, each

    def _borrow(self) -> _Borrowed:
        return _Borrowed(self._work, self._work_bytes, self._threads)

    def _expect(self) -> None:
        views.expect(self._bytes)
        self._expected = True

    def _check_bases(self) -> None:
        for stream in self._streams:
            if stream._base is not None:
                stream._base.check()

    def _as_many(self, things: Iterable[Any], what: str) -> list[Any]:
        listed = list(things)
        if len(listed) != len(self._ends):
            raise ArgumentError(f"{what}: found {len(listed)}, expected {len(self._ends)}")
        return listed

    @overload
    def encode(
        self,
        tensors: Iterable[Tensor],
        *,
        key_frame: bool = False,
        same_set: bool = False,
        held_set: bool = False,
        same_blocks: bool = False,
        out: None = None,
    ) -> list[bytes]: ...
    @overload
    def encode(
        self,
        tensors: Iterable[Tensor],
        *,
        key_frame: bool = False,
        same_set: bool = False,
        held_set: bool = False,
        same_blocks: bool = False,
        out: Buffer,
    ) -> list[int]: ...
    def encode(
        self,
        tensors: Iterable[Tensor],
        *,
        key_frame: bool = False,
        same_set: bool = False,
        held_set: bool = False,
        same_blocks: bool = False,
        out: Buffer | None = None,
    ) -> list[bytes] | list[int]:
        """Encode a tensor for each stream.

        Args:
            tensors: as many as there are streams
            key_frame: make key frames
            same_set: codec topk: send the values of the sets that the slots hold
            held_set: the same with their indices, for receivers that do not hold them
            same_blocks: codec topk: send no indices of blocks whose sets the slots hold
            out: :attr:`nbytes` writable bytes; frame i begins at ``offsets[i]``, where a held set
                of more elements than the hard limit may have no space. Faster where frames have
                more than 64 MiB together: glibc keeps no more for those of the next call, and
                with fresh memory ``raw`` takes 4 times as long

        Returns:
            The frames, or with ``out`` their lengths.

        Raises:
            As :meth:`Stream.encode`.

        """
        tensors = self._as_many(tensors, "tensors")
        self._check_bases()
        held = self._items()
        items, _ = held
        flags = encode_flags(key_frame, same_set, held_set, same_blocks)
        n = len(self._ends)
        try:
            call = self._idle.pop()
        except IndexError:
            call = _Call()
        kept, lengths, frames = None, ffi.NULL, 0
        if out is None:
            if not self._expected:
                self._expect()
            results: list[Any] = [None] * n
            frames, bytes_, offsets = id(results), self._scratch, self._scratch_c
            if same_set or held_set:
                at, bytes_ = _offsets_of(s._capacity_for(slot, flags) for s, slot in self._ends)
                offsets = ffi.new("uint64_t[]", [*at, bytes_])
            memory = call.frame_memory(bytes_)
        else:
            memory, capacity, kept = views.bytes_of(out, "out", write=True)
            if capacity < self._bytes:
                raise SpaceError(
                    f"out: found {numbered(capacity, 'bytes')}, expected {self._bytes}"
                )
            offsets, lengths = self._offsets_c, ffi.new("uint64_t[]", max(n, 1))
        keep = self._fill(items, tensors, False)
        if out is not None:
            views.check_apart(lib.pithpy_views_share(items, n, memory, self._bytes))
        with self._borrow() as work:
            status = lib.pithpy_encode_list(
                work, *self._marks, items, n, memory, offsets, flags, frames, lengths
            )
            if out is not None:
                results = ffi.unpack(lengths, n) if n else []
            self._finish(status, work, held, results)
        self._idle.append(call)
        del keep, kept
        return results

    def decode(
        self, frames: Iterable[Buffer], outs: Iterable[Tensor] | None = None, *, dtype: Any = None
    ) -> list[Tensor]:
        """Decode a frame for each stream.

        Args:
            frames: as many as there are streams
            outs: where the values go; None: new tensors
            dtype: of new tensors, see :meth:`Stream.decode`

        Returns:
            outs, or the new tensors.

        Raises:
            As :meth:`Stream.decode`.

        """
        if outs is None:
            outs = [stream._new(slot, dtype) for stream, slot in self._ends]
        return self._decode(frames, outs, 0)

    def decode_add(self, frames: Iterable[Buffer], outs: Iterable[Tensor]) -> list[Tensor]:
        """Add what frames hold to tensors; see :meth:`Stream.decode_add`.

        Returns:
            outs

        Raises:
            As :meth:`Stream.decode_add`.

        """
        return self._decode(frames, outs, lib.PITH_ADD)

    def _decode(self, frames: Iterable[Buffer], outs: Iterable[Tensor], flags: int) -> list[Tensor]:
        frames, outs = self._as_many(frames, "frames"), self._as_many(outs, "outs")
        self._check_bases()
        held = self._items()
        items, each = held
        keep = [self._fill(items, outs, True)]
        if not lib.pithpy_frames(items, len(frames), id(frames)):
            for item, part in zip(each, of_each(_frame_bytes, frames), strict=True):
                item.frame, item.length, kept = part
                keep.append(kept)
            views.check_apart(lib.pithpy_items_share(items, len(each)))
        with self._borrow() as work:
            status = lib.pithpy_decode_list(work, *self._marks, items, len(each), flags)
            self._finish(status, work, held, outs)
        del keep
        return outs

    def reduce(
        self,
        frames: Iterable[Iterable[Buffer]],
        outs: Iterable[Tensor] | None = None,
        *,
        scale: float = 1.0,
        dtype: Any = None,
    ) -> list[Tensor]:
        """Return for each stream ``scale`` times the sum of what its frames hold.

        Args:
            frames: for each stream the frames that are summed, in order
            outs: where the sums go; None: new tensors
            scale: what sums are multiplied by, not 0
            dtype: of new tensors, see :meth:`Stream.decode`

        Returns:
            outs, or the new tensors.

        Raises:
            As :meth:`Stream.reduce`.

        """
        if outs is None:
            outs = [stream._new(slot, dtype) for stream, slot in self._ends]
        outs = self._as_many(outs, "outs")
        lists = [list(some) for some in self._as_many(frames, "frames")]
        sums, keep = self._sums(lists, scale)
        given = [(ffi.addressof(sums[i], "view"), out, True) for i, out in enumerate(outs)]
        keep += of_each(lambda one: views.fill(*one), given)
        # No tensor is written in the memory of bytes.
        if not all(type(frame) is bytes for some in lists for frame in some):
            views.check_apart(lib.pithpy_sums_share(sums, len(outs)))
        with self._borrow() as work:
            status = lib.pithpy_reduce_list(work, *self._marks, sums, len(outs))
            if status:
                raise _list_error(status, work, [sums[i].status for i in range(len(outs))], outs)
        del keep
        return outs

    def reduce_encode(
        self, frames: Iterable[Iterable[Buffer]], to: Bucket, *, scale: float = 1.0
    ) -> list[bytes]:
        """Encode for each stream the sum that :meth:`reduce` makes, as a frame of ``to``.

        Args:
            frames: for each stream the frames that are summed, in order
            to: as many streams, others than these
            scale: what sums are multiplied by, not 0

        Returns:
            The frames.

        Raises:
            As :meth:`Stream.reduce_encode`.

        """
        if not isinstance(to, Bucket):
            raise TypeError(f"to: expected a pith.Bucket, found {type(to).__name__}")
        if len(to) != len(self):
            raise ArgumentError(f"to: found {numbered(len(to), 'streams')}, expected {len(self)}")
        lists = [list(some) for some in self._as_many(frames, "frames")]
        sums, keep = self._sums(lists, scale)
        held = to._items()
        try:
            call = to._idle.pop()
        except IndexError:
            call = _Call()
        if not to._expected:
            to._expect()
        results: list[Any] = [None] * len(to)
        plans = [stream._plan for stream, _ in self._ends + to._ends]
        marks = marks_of(stream._mark for stream in self._streams + to._streams)
        with borrow(self._work, plans, self._threads) as work:
            status = lib.pithpy_reduce_encode_list(
                *(work, *marks, sums, held[0], len(to)),
                *(call.frame_memory(to._scratch), to._scratch_c, id(results)),
            )
            to._finish(status, work, held, results)
        to._idle.append(call)
        del keep
        return results

    def _sums(self, lists: list[list[Buffer]], scale: float) -> tuple[Any, list[Any]]:
        """Return an array of ``pith_sum`` of lists of frames, and what must be kept with it."""
        check_scale(scale)
        sums = ffi.new("pith_sum[]", max(len(lists), 1))
        keep: list[Any] = []
        listed = of_each(lambda some: [_frame_bytes(frame) for frame in some], lists)
        for one, (stream, slot), parts in zip(sums, self._ends, listed, strict=False):
            data = ffi.new("const void *[]", [part[0] for part in parts])
            lengths = ffi.new("size_t[]", [part[1] for part in parts])
            keep += [parts, data, lengths]
            one.size, one.stream, one.slot = _SUM_BYTES, stream._stream, slot
            one.frames, one.lengths, one.count, one.scale = data, lengths, len(parts), scale
        return sums, keep

    # ---- Keeping it ----

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`load_state_dict` takes: the states of its streams, in order.

        Those of which it has several slots are there once, where the first of them is.
        """
        return {"streams": of_each(Stream.state_dict, self._streams)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned; on failure nothing.

        Raises:
            ArgumentError: a key is missing
            DtypeError: the state is no dict
            MismatchError: the state is of more or fewer streams, or of another spec or layout
            FrameError: the bytes of one are not a saved stream

        """
        _check_dict(state)
        if not isinstance(state.get("streams"), (list, tuple)):
            raise ArgumentError("state: found no streams")
        states, streams = list(state["streams"]), self._streams
        if len(states) != len(streams):
            raise MismatchError(
                f"state: found {numbered(len(states), 'streams')}, expected {len(streams)}"
            )
        before = of_each(_saved, streams)
        try:
            of_each(
                lambda pair: pair[0].load_state_dict(pair[1]), zip(streams, states, strict=True)
            )
        except BaseException:
            for stream, saved in zip(streams, before, strict=True):
                if saved is not None:
                    stream.load(saved)
            raise

    def __getstate__(self) -> dict[str, Any]:
        if self._work is not None:
            raise StateError(
                "a bucket with a work of its own is not pickled: save its state_dict()"
            )
        return {"ends": self._ends, "threads": self._threads}

    def __setstate__(self, made: dict[str, Any]) -> None:
        Bucket.__init__(self, **made)

    def _fill(self, items: Any, tensors: list[Tensor], write: bool) -> Any:
        """Fill the items' views; return what must be kept for the call."""
        if not tensors:
            return None
        if _direct(views.address(items), tensors, write):
            return None  # the list itself is kept
        made = of_each(lambda x: views.source_of(x, write), tensors)
        kinds, objects, more, keep = zip(*made, strict=True)
        which = ffi.new("size_t *")
        refusal = lib.pithpy_views(items, len(made), kinds, objects, more, write, which)
        if refusal:
            refused = views.refused(refusal, tensors[which[0]])
            refused.item = int(which[0])
            raise refused
        return keep

    def _finish(self, status: int, work: Any, held: Any, results: list[Any]) -> None:
        if status:
            raise _list_error(status, work, [item.status for item in held[1]], results)
        self._free.append(held)

    def __repr__(self) -> str:
        return f"<pith.Bucket of {len(self._ends)}>"


def _saved(stream: Stream) -> bytes | None:
    """Return what a stream saves; None where its base is not valid."""
    try:
        return stream.save()
    except (StateError, BaseMismatchError):
        return None


def _list_error(status: int, work: Any, statuses: list[int], results: list[Any]) -> Error:
    error = error_of(status, work)
    # A call that no item has failed in was refused as a whole.
    made = any(statuses)
    if status == lib.PITH_ERR_BUSY and not made:  # nothing was looked at
        return error
    error.results = [
        result if made and not failed else None
        for failed, result in zip(statuses, results, strict=True)
    ]
    return error
