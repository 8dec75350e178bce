"""Plans: a spec and a layout, checked, with every size known before any data exists.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from operator import index
from typing import Any, NamedTuple

from . import dtypes, views
from ._core import ffi, lib
from .errors import (
    ArgumentError,
    DtypeError,
    Error,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
    _string,
    check_new,
    from_status,
    numbered,
)
from .views import Buffer, Tensor

EXEMPT = {"16": 1, "exact": 2}
_HOW = {number: how for how, number in EXEMPT.items()}
"""How elements that go around the codec are kept: as 16 bits, or in the tensor's dtype."""


class Sizes(NamedTuple):
    """Sizes of a plan, in bytes but for ``fixed``."""

    slot_bytes: int
    """Largest frame that ``encode`` makes of any slot at any step."""
    frame_bytes: int
    """Largest frame that is no key frame."""
    key_bytes: int
    """Largest key frame; 0: the plan makes none."""
    stream_bytes: int
    """What a stream takes in memory."""
    save_bytes: int
    """What ``Stream.save`` returns at most."""
    alignment: int
    """Of tensors and frames, for the fast path; any works."""
    fixed: bool
    """Every frame of a slot has exactly ``frame_bytes(slot)``."""


def c_spec(spec: str) -> bytes:
    """Return a spec as C takes it.

    Raises:
        DtypeError: it is not a str
        ArgumentError: it is not ASCII

    """
    if not isinstance(spec, str):
        raise DtypeError(f"spec: expected a str, found {type(spec).__name__}")
    if not spec.isascii() or "\0" in spec:
        raise ArgumentError(f"spec: expected ASCII without zeros, found {spec!r}")
    return spec.encode("ascii")


def integer(name: str, value: Any, hint: str = "") -> int:
    """Return the number that an argument is.

    Raises:
        TypeError: it is no integer

    """
    try:
        return index(value)
    except TypeError:
        found = repr(value)
        found = found if len(found) < 40 else f"a {type(value).__name__}"
        raise TypeError(f"{name}: expected an integer, found {found}{hint}") from None


def unsigned(name: str, value: Any, bits: int = 64, hint: str = "") -> int:
    """Return the number that an argument is, as C takes it.

    Raises:
        ArgumentError: it is negative, or has more bits
        TypeError: it is no integer

    """
    number = integer(name, value, hint)
    if not 0 <= number < 1 << bits:
        raise ArgumentError(f"{name}: found {number}, expected 0 to 2**{bits} - 1")
    return number


def set_exempt(layout: Any, exempt: Iterable[tuple[int, int, str]]) -> Any:
    """Put exempt ranges into a ``pith_layout``; return what must be kept for the call."""
    ranges, count = c_exempt(exempt)
    layout.exempt, layout.exempt_count = ranges, count
    return ranges


def exempt_list(exempt: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return exempt ranges as a list.

    Raises:
        TypeError: they are none

    """
    try:
        return list(exempt)
    except TypeError:
        raise TypeError(
            f"exempt: expected a list of (first, count, how), found {exempt!r}"
        ) from None


def c_exempt(exempt: Iterable[tuple[int, int, str]]) -> tuple[Any, int]:
    """Return exempt ranges as an array of C, and their number.

    Raises:
        DtypeError: one is no tuple of three
        ArgumentError: one is outside what C takes
        TypeError: not a list

    """
    ranges = exempt_list(exempt)
    if not ranges:
        return ffi.NULL, 0
    array = ffi.new("pith_exempt[]", len(ranges))
    for i, one in enumerate(ranges):
        if not isinstance(one, (tuple, list)) or len(one) != 3:
            raise DtypeError(f"exempt[{i}]: expected (first, count, how), found {one!r}")
        first, count, how = one
        if not isinstance(how, str) or how not in EXEMPT:
            raise ArgumentError(f"exempt[{i}]: expected '16' or 'exact', found {how!r}")
        array[i].first = unsigned(f"exempt[{i}]: first", first)
        array[i].count = unsigned(f"exempt[{i}]: count", count)
        array[i].how = EXEMPT[how]
    return array, len(ranges)


class Plan:
    """A spec and a layout, checked. Nothing in it changes; any number of threads may use it.

    Args:
        spec: codec and keys, such as ``"wdiff:bits=4,group=2048"`` (``pith codecs`` lists them)
        like: a tensor whose shape and dtype are taken; its data is not used
        shape: elements along each of up to 8 dimensions, or one number
        dtype: of the values (``pith.dtypes``)
        base_dtype: of the base that frames are differences to; None: no base
        slots: pieces that the tensor, taken flat, is cut into, with one frame each
        slot_count: elements of a slot; 0: count / slots, rounded up
        slot_counts: or: the elements of every slot
        checksums: a checksum for every block, in every frame
        external_base: the base is memory of yours: ``Stream.bind_base``
        check_base: encode compares every byte of the base with what the last call left
        trust_base: encode does not look whether an external base was changed
        source: up to 1 MiB that frames carry and that is not interpreted
        exempt: ``(first, count, how)`` of elements that go around the codec, ascending; how is
            ``"16"`` (kept in 16 bits) or ``"exact"``

    Raises:
        SpecError: the spec does not parse; ``offset`` says where
        DtypeError: the codec does not take the dtype or base dtype
        ShapeError, ArgumentError, UnsupportedError: the layout is none, or not one for this codec

    """

    def __init__(
        self,
        spec: str,
        *,
        like: Tensor | None = None,
        shape: int | Sequence[int] | None = None,
        dtype: Any = None,
        base_dtype: Any = None,
        slots: int = 0,
        slot_count: int = 0,
        slot_counts: Sequence[int] | None = None,
        checksums: bool = False,
        external_base: bool = False,
        check_base: bool = False,
        trust_base: bool = False,
        source: Buffer = b"",
        exempt: Iterable[tuple[int, int, str]] = (),
    ) -> None:
        check_new(self, "_plan")
        if like is not None:
            shape = like_shape(like) if shape is None else shape
            dtype = like_dtype(like) if dtype is None else dtype
        if shape is None or dtype is None:
            raise ArgumentError("a plan needs like=, or shape= and dtype=")
        if isinstance(shape, (int, Integral)):
            shape = (int(shape),)
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise TypeError(f"shape: expected integers, found {shape!r}")
        dims = tuple(integer("shape", n) for n in shape)
        if len(dims) > lib.PITH_MAX_NDIM:
            raise ShapeError(
                f"shape: found {len(dims)} dimensions, expected at most {lib.PITH_MAX_NDIM}"
            )
        if min(dims, default=0) < 0:
            raise ShapeError(f"shape: found {dims}, expected no negative number")
        if max(dims, default=0) >= 1 << 64:
            raise ShapeError(f"shape: found {dims}, expected numbers below 2**64")
        exempt = exempt_list(exempt)
        layout = ffi.new("pith_layout *", {"size": ffi.sizeof("pith_layout")})
        layout.dtype = dtypes.number_of(dtype)
        layout.base_dtype = 0 if base_dtype is None else dtypes.number_of(base_dtype)
        layout.ndim = len(dims)
        layout.shape[0 : len(dims)] = dims
        layout.flags = (
            lib.PITH_LAYOUT_CHECKSUMS * bool(checksums)
            | lib.PITH_LAYOUT_EXTERNAL_BASE * bool(external_base)
            | lib.PITH_LAYOUT_CHECK_BASE * bool(check_base)
            | lib.PITH_LAYOUT_TRUST_BASE * bool(trust_base)
        )
        hint = ": slot_counts= takes the elements of every slot"
        slots, slot_count = unsigned("slots", slots, hint=hint), unsigned("slot_count", slot_count)
        layout.slots, layout.slot_count = slots, slot_count
        counts = ffi.NULL
        if slot_counts is not None:
            slot_counts = [unsigned(f"slot_counts[{i}]", n) for i, n in enumerate(slot_counts)]
            if slots not in (0, len(slot_counts)):
                raise ArgumentError(
                    f"slot_counts: found {numbered(len(slot_counts), 'numbers')} for"
                    f" {numbered(slots, 'slots')}"
                )
            layout.slots = len(slot_counts)
            counts = layout.slot_counts = ffi.new("uint64_t[]", slot_counts)
        self._source = views.copy_of(source, "source")
        keep = ffi.from_buffer(self._source)
        layout.source, layout.source_bytes = keep, len(self._source)
        ranges = set_exempt(layout, exempt)
        made = ffi.new("const pith_plan **")
        error = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
        status = lib.pith_plan_create(made, c_spec(spec), layout, ffi.NULL, error)
        del counts, ranges
        if status:
            raise from_status(status, error)
        self._plan = ffi.gc(ffi.cast("pith_plan *", made[0]), lib.pith_plan_destroy)
        self._keep = keep
        self._arguments = {
            "spec": spec,
            "shape": dims,
            "dtype": dtypes.NAMES[layout.dtype],
            "base_dtype": dtypes.NAMES[layout.base_dtype] if layout.base_dtype else None,
            "slots": slots,
            "slot_count": slot_count,
            "slot_counts": slot_counts,
            "checksums": checksums,
            "external_base": external_base,
            "check_base": check_base,
            "trust_base": trust_base,
            "source": self._source,
            "exempt": exempt,
        }
        sizes = ffi.new("pith_sizes *", {"size": ffi.sizeof("pith_sizes")})
        lib.pith_plan_sizes(self._plan, sizes)
        self._slots = int(sizes.slots)
        self._sizes = Sizes(
            sizes.slot_bytes,
            sizes.frame_bytes,
            sizes.key_bytes,
            sizes.stream_bytes,
            sizes.save_bytes,
            sizes.alignment,
            bool(sizes.fixed),
        )
        self._number, self._base_number = int(layout.dtype), int(layout.base_dtype)
        self._shape = dims
        text = ffi.new("char[]", lib.PITH_SPEC_MAX)
        lib.pith_plan_spec(self._plan, text, lib.PITH_SPEC_MAX)
        self._spec = _string(text)

    @property
    def spec(self) -> str:
        """The canonical spec: the codec, then every key that differs from its default."""
        return self._spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return self._shape

    @property
    def dtype(self) -> str:
        """Name of the values' dtype, such as ``"bf16"``."""
        return dtypes.NAMES[self._number]

    @property
    def base_dtype(self) -> str | None:
        """Name of the base's dtype; None without a base."""
        return dtypes.NAMES[self._base_number] if self._base_number else None

    @property
    def count(self) -> int:
        """Elements of the tensor."""
        return sum(self.slot(self._slots - 1))

    @property
    def slots(self) -> int:
        """Number of slots, at least 1."""
        return self._slots

    @property
    def exempt(self) -> list[tuple[int, int, str]]:
        """Exempt ranges, ``(first, count, how)`` each, as they were given."""
        count = lib.pith_plan_exempt(self._plan, ffi.NULL, 0)
        ranges = ffi.new("pith_exempt[]", count)
        lib.pith_plan_exempt(self._plan, ranges, count)
        return [(int(r.first), int(r.count), _HOW[int(r.how)]) for r in ranges]

    @property
    def sizes(self) -> Sizes:
        """Sizes of frames and streams."""
        return self._sizes

    @property
    def fingerprint(self) -> int:
        """Equal for two plans only where each takes the other's frames, on every machine."""
        return int(lib.pith_plan_fingerprint(self._plan))

    def slot(self, slot: int) -> tuple[int, int]:
        """Return first element and element count of a slot.

        Raises:
            ArgumentError: there is no such slot

        """
        out = ffi.new("uint64_t[2]")
        if not 0 <= integer("slot", slot) < self._slots:
            raise ArgumentError(f"slot: found {slot}, expected 0 to {self._slots - 1}")
        lib.pith_plan_slot(self._plan, slot, out, out + 1)
        return int(out[0]), int(out[1])

    def frame_bytes(self, slot: int = 0, key_frame: bool = False) -> int:
        """Return the bytes of a slot's frame: exact where ``sizes.fixed``, else a bound."""
        self.slot(slot)
        return int(lib.pith_plan_frame_bytes(self._plan, slot, key_frame))

    def is_key(self, step: int) -> bool:
        """Whether the spec makes the frame of a step a key frame (``key_every=N``)."""
        return bool(lib.pith_plan_is_key(self._plan, unsigned("step", step)))

    def __repr__(self) -> str:
        return f"<pith.Plan {self._spec!r} {self.dtype} {list(self._shape)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._arguments,)


def slot_order(nodes: int, per_node: int) -> list[int]:
    """Return the slots in the order in which an exchange inside nodes sends them.

    Entry ``j * nodes + m`` is ``m * per_node + j``: the slot of local rank j on node m, where ranks
    are numbered node by node. For ranks that are numbered the other way swap the arguments.

    Args:
        nodes: their number
        per_node: ranks of each

    Returns:
        ``nodes * per_node`` numbers.

    Raises:
        ArgumentError: one of them is negative, or there are more than 2**32 slots

    """
    count = integer("nodes", nodes) * integer("per_node", per_node)
    if nodes < 0 or per_node < 0 or count > 2**32:
        raise ArgumentError(
            f"nodes, per_node: found {nodes} and {per_node}, expected numbers from 0 and at most"
            " 2**32 slots"
        )
    slots = ffi.new("uint64_t[]", count)
    if count:
        lib.pith_slot_order(nodes, per_node, slots)
    return list(slots)


def _make(arguments: dict[str, Any]) -> Plan:
    return Plan(**arguments)


def like_shape(x: Tensor) -> tuple[int, ...]:
    """Return a tensor's shape, wherever it lies."""
    if getattr(x, "is_nested", False):
        raise UnsupportedError(
            "like: expected a plain tensor, found a nested one: give its unbind()"
        )
    if hasattr(x, "shape"):
        return tuple(int(n) for n in x.shape)
    return views.shape_of(views.new(x)[0])


def like_dtype(x: Tensor) -> Any:
    """Return a tensor's dtype, wherever it lies."""
    try:
        return dtypes.NAMES[dtypes.number_of(x.dtype)]
    except (AttributeError, TypeError):
        return dtypes.NAMES[views.new(x)[0].dtype]


# ---- Work ---------------------------------------------------------------------------------------


class Work:
    """Scratch memory and threads for calls, which without one take what they need by themselves.

    Make one to share threads or a limit among streams, or to allocate before a loop. It serves one
    call at a time: a second one is answered with :class:`~pith.errors.BusyError`.

    Args:
        plans: the plans whose calls it serves, one or several
        threads: threads of a call; the bytes do not depend on it
        max_output: decoding refuses frames of more bytes of values; None: no limit

    Raises:
        UnsupportedError: threads in a build without OpenMP

    """

    def __init__(
        self,
        plans: Plan | Iterable[Plan],
        *,
        threads: int = 1,
        max_output: int | None = None,
    ) -> None:
        check_new(self, "_work")
        threads = check_threads(threads)
        self._plans = (plans,) if isinstance(plans, Plan) else tuple(plans)
        self._threads, self._max_output = threads, max_output
        bytes_ = bytes_for(self._plans, threads)
        self._memory, self._work = make_work(bytes_, threads, max_output)

    @property
    def threads(self) -> int:
        """Threads of a call."""
        return self._threads

    def __reduce__(self) -> tuple[Any, ...]:
        # Another one for the same calls: nothing in its memory outlives a call.
        return _make_work, (self._plans, self._threads, self._max_output)

    def __repr__(self) -> str:
        return f"<pith.Work for {len(self._plans)} plans, {self._threads} threads>"


def _make_work(plans: tuple[Plan, ...], threads: int, max_output: int | None) -> Work:
    return Work(plans, threads=threads, max_output=max_output)


def check_work(work: Any) -> None:
    """Raise unless this is a work, or None.

    Raises:
        TypeError: it is not

    """
    if work is not None and not isinstance(work, Work):
        raise TypeError(f"work: expected a pith.Work, found a {type(work).__name__}")


def make_work(bytes_: int, threads: int, max_output: int | None) -> tuple[Any, Any]:
    """Return the memory of a new work and its ``pith_work *``.

    Raises:
        UnsupportedError: threads in a build without OpenMP

    """
    env, memory = environment(threads, max_output), views.memory(bytes_)
    made, error = ffi.new("pith_work **"), ffi.new("pith_error *")
    error.size = ffi.sizeof("pith_error")
    status = lib.pith_work_init(memory, bytes_, env, made, error)
    if status:
        raise from_status(status, error)
    return memory, made[0]


def error_of(status: int, work: Any) -> Error:
    """Return the exception for a status of a call with this ``pith_work *``."""
    if status == lib.PITH_ERR_MEMORY:  # of helpers.c: the library's calls do not allocate
        return OutOfMemoryError("no memory for a frame")
    # A work that is busy has the text of another call.
    busy = status == lib.PITH_ERR_BUSY
    return from_status(status, None if busy else lib.pith_work_error(work))


def check_status(status: int, work: Any) -> None:
    """Raise the exception for a status of a call with this ``pith_work *``, unless it is 0."""
    if status:
        raise error_of(status, work)


def bytes_for(plans: Iterable[Plan], threads: int) -> int:
    """Return the bytes of a work with which calls of these plans run on so many threads."""
    handles = [plan._plan for plan in plans]
    array = ffi.new("const pith_plan *[]", handles)
    return int(lib.pith_work_bytes(array, len(handles), max(threads, 1)))


def check_threads(threads: int) -> int:
    """Return a number of threads as an integer.

    Raises:
        ArgumentError: it is not 1 to 1024
        TypeError: it is no integer

    """
    number = integer("threads", threads)
    if not 1 <= number <= 1024:
        raise ArgumentError(f"threads: found {number}, expected 1 to 1024")
    return number


def check_scale(scale: float) -> float:
    """Return what a sum is multiplied by, unless C would take it for 1, which 0 in f32 stands for.

    Raises:
        ArgumentError: it is 0 in f32
        TypeError: it is no number

    """
    if not hasattr(scale, "__float__"):
        raise TypeError(f"scale: expected a number, found {scale!r}")
    if abs(scale) <= 2.0**-150:
        raise ArgumentError(f"scale: found {scale}, expected a number that is not 0 in f32")
    return scale


def limit_of(max_output: int | None) -> int:
    """Return the limit on decoded bytes as C takes it, where 0 is none.

    Raises:
        ArgumentError: max_output is not above 0
        TypeError: it is no integer

    """
    if max_output is None:
        return 0
    if not hasattr(max_output, "__index__"):
        raise TypeError(f"max_output: expected bytes or None, found {max_output!r}")
    number = index(max_output)
    if number < 1:
        raise ArgumentError(f"max_output: found {number}, expected 1 or more, or None")
    return min(number, (1 << 64) - 1)


def environment(threads: int, max_output: int | None) -> Any:
    """Return a ``pith_env *``.

    Raises:
        ArgumentError: threads is not 1 to 1024, or max_output is not above 0
        TypeError: one is no integer

    """
    threads = check_threads(threads)
    return ffi.new(
        "pith_env *",
        {
            "size": ffi.sizeof("pith_env"),
            "threads": threads,
            "max_output_bytes": limit_of(max_output),
        },
    )
