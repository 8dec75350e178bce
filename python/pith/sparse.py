"""Planning of sparse sums: which rank chooses from which elements, and how many.

SPDX-License-Identifier: Apache-2.0

Every rank computes the same from what all know, without a message. :class:`~pith.Stream` has the
calls on sets of elements: what a rank may choose from goes to ``Stream.request``.

Elements are those of a tensor, or of all tensors one behind the other. A range is ``(first,
count)``: elements ``[first, first + count)``. Arguments that a plan cannot have raise
:class:`~pith.errors.ArgumentError`, and numbers that its C integers cannot hold OverflowError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from . import views
from ._core import ffi, lib
from .errors import ArgumentError, from_status, numbered
from .views import Tensor

_INDEX = {"small": lib.PITH_SPARSE_SMALL, "fast": lib.PITH_SPARSE_FAST}


def _check(call: Callable[..., int], *arguments: Any) -> None:
    """Make a call of the library whose last argument is a ``pith_error *``."""
    error = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
    status = call(*arguments, error)
    if status:
        raise from_status(status, error)


def _find_range(call: Callable[..., int], *arguments: Any) -> tuple[int, int]:
    """Make a call that finds the first element of a range and its count."""
    found = ffi.new("uint64_t[2]")
    _check(call, *arguments, found, found + 1)
    return int(found[0]), int(found[1])


def _elements(pieces: Iterable[tuple[int, int]]) -> Any:
    """Return an array of the elements of each piece."""
    return ffi.new("uint64_t[]", [count for _, count in pieces])


def _as_many(numbers: Iterable[Any], what: str, count: int) -> list[Any]:
    listed = list(numbers)
    if len(listed) != count:
        raise ArgumentError(f"{what}: found {len(listed)} numbers, expected {count}")
    return listed


def _index(index: str) -> int:
    if index not in _INDEX:
        raise ArgumentError(f"index: expected 'small' or 'fast', found {index!r}")
    return int(_INDEX[index])


# ---- Partitions ----------------------------------------------------------------------------------


def part(ranks: int, rank: int, step: int) -> int:
    """Return the part that a rank takes at a step when parts go round: (step + rank) mod ranks."""
    return int(lib.pith_sparse_part(ranks, rank, step))


def partition(n: int, ranks: int, rank: int, step: int = 0) -> tuple[int, int]:
    """Return the range from which a rank chooses when even parts of n go round (MiCRO).

    Raises:
        ArgumentError: rank is not below ranks

    """
    return _find_range(lib.pith_sparse_partition, n, ranks, rank, step)


def imbalance(counts: Iterable[int]) -> float:
    """Return how much more the rank with the most elements has than the mean.

    That is ``max * ranks / sum - 1``, which is what messages of one length waste; 0 when all are 0.
    """
    listed = list(counts)
    return float(lib.pith_sparse_imbalance(ffi.new("uint64_t[]", listed), len(listed)))


class ExDyna:
    """Partitions of whole blocks that move with what was chosen, so that ranks choose alike many.

    Every rank has one and updates it with the same counts. It can be copied and pickled.

    Args:
        n: elements that are partitioned
        ranks: 1 to 256

    """

    def __init__(self, n: int, ranks: int) -> None:
        self._plan = ffi.new("pith_exdyna *", {"size": ffi.sizeof("pith_exdyna")})
        _check(lib.pith_exdyna_init, self._plan, n, ranks)

    @property
    def n(self) -> int:
        """Elements that are partitioned."""
        return int(self._plan.n)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return int(self._plan.ranks)

    @property
    def step(self) -> int:
        """Steps that were updated from."""
        return int(self._plan.step)

    def range(self, rank: int) -> tuple[int, int]:
        """Return the range from which a rank chooses at this step.

        Raises:
            ArgumentError: rank is not below ranks
            StateError: what was unpickled is no such plan

        """
        return _find_range(lib.pith_exdyna_range, self._plan, rank)

    def update(self, counts: Iterable[int]) -> None:
        """Go on to the next step.

        Args:
            counts: how many elements each rank chose in this one

        Raises:
            ArgumentError: not as many counts as ranks, or more elements than there are
            StateError: what was unpickled is no such plan

        """
        listed = _as_many(counts, "counts", self.ranks)
        _check(lib.pith_exdyna_update, self._plan, ffi.new("uint64_t[]", listed))

    def __getstate__(self) -> bytes:
        return bytes(ffi.buffer(self._plan))

    def __setstate__(self, state: bytes) -> None:
        if len(state) != ffi.sizeof("pith_exdyna"):
            raise ArgumentError(f"state: found {numbered(len(state), 'bytes')}, no plan of ExDyna")
        self._plan = ffi.new("pith_exdyna *")
        ffi.memmove(self._plan, state, len(state))

    def __repr__(self) -> str:
        return f"<pith.sparse.ExDyna of {self.n} elements, {self.ranks} ranks, step {self.step}>"


# ---- DEFT ----------------------------------------------------------------------------------------


def deft_pieces(sizes: Iterable[int], ranks: int) -> list[tuple[int, int]]:
    """Return the ranges of the pieces of tensors, each of which gets a k of its own.

    A tensor of more than all elements / ranks is cut into ``ranks`` pieces, of which the first ones
    have one element more; pieces that would be empty are left out.

    Args:
        sizes: elements of each tensor
        ranks: at least 1

    Raises:
        ArgumentError: no ranks, or 2**64 elements or more

    """
    listed = list(sizes)
    if ranks < 1 or sum(listed) >= 2**64:
        raise ArgumentError(
            f"found {ranks} ranks and {sum(listed)} elements, expected at least 1 and below 2**64"
        )
    array, tensors = ffi.new("uint64_t[]", listed), len(listed)
    count = lib.pith_deft_pieces(array, tensors, ranks, ffi.NULL, 0)
    pieces = ffi.new("uint64_t[]", max(count, 1))
    lib.pith_deft_pieces(array, tensors, ranks, pieces, count)
    elements = ffi.unpack(pieces, count) if count else []
    return list(zip(accumulate(elements, initial=0), elements, strict=False))


def norm(x: Tensor) -> float:
    """Return the 2-norm of the finite values of a tensor, the same on every machine.

    Args:
        x: f32, bf16 or f16, of any strides; squares are summed in f64

    Raises:
        DtypeError: another dtype

    """
    view, keep = views.new(x)
    made = ffi.new("double *")
    _check(lib.pith_sparse_norm, view, made)
    del keep
    return float(made[0])


def deft_counts(pieces: Sequence[tuple[int, int]], norms: Iterable[float], k: int) -> list[int]:
    """Return k of every piece, by its share of the norms: at least 1, at most the piece.

    Args:
        pieces: as :func:`deft_pieces` returns them
        norms: of the values of each piece
        k: about the sum of what is returned, which is never below the number of pieces

    Raises:
        ArgumentError: a norm that is negative or not finite, a piece without elements, not as many
            norms as pieces

    """
    count = len(pieces)
    given = ffi.new("double[]", _as_many(norms, "norms", count))
    ks = ffi.new("uint64_t[]", max(count, 1))
    bytes_ = lib.pith_deft_bytes(count, 0)
    memory = views.memory(bytes_)
    _check(lib.pith_deft_counts, _elements(pieces), given, count, k, memory, bytes_, ks)
    return list(ffi.unpack(ks, count)) if count else []


def deft_pack(pieces: Sequence[tuple[int, int]], ks: Iterable[int], ranks: int) -> list[int | None]:
    """Return the bin of every piece, of like cost together; None: every rank sends all of it.

    At a step rank r chooses from the pieces of bin ``part(ranks, r, step)``, from each its k.

    Args:
        pieces: as :func:`deft_pieces` returns them
        ks: k of every piece, as :func:`deft_counts` returns them
        ranks: number of bins, at least 1

    Raises:
        ArgumentError: a k that is not 1 to the piece's elements, not as many as pieces; no ranks

    """
    count = len(pieces)
    given = ffi.new("uint64_t[]", _as_many(ks, "ks", count))
    bins = ffi.new("uint32_t[]", max(count, 1))
    bytes_ = lib.pith_deft_bytes(count, ranks)
    memory = views.memory(bytes_)
    _check(lib.pith_deft_pack, _elements(pieces), given, count, ranks, memory, bytes_, bins)
    found = ffi.unpack(bins, count) if count else []
    return [None if each == lib.PITH_DEFT_COMMON else each for each in found]


# ---- Bytes of frames -----------------------------------------------------------------------------


def _bytes(n: int, k: int, value_bits: int, block: int, found: int) -> int:
    if not found:
        raise ArgumentError(
            f"no frame of codec topk has {n} elements, {k} values of {value_bits} bits and blocks"
            f" of {block} elements"
        )
    return found


def expected_bytes(
    n: int, k: int, *, value_bits: int = 32, index: str = "small", block: int = 0
) -> int:
    """Return about how many bytes a frame of codec topk has; clustered elements take fewer.

    Args:
        n: elements of the tensor
        k: elements that are sent, at random places
        value_bits: 32, 16, 8 (``values=int8``) or 0 (``values=none``)
        index: ``"small"`` or ``"fast"``, the key of the spec
        block: elements of a block, a power of two from 64 to 2**24; 0: what the spec takes for
            density k / n

    """
    found = lib.pith_sparse_expected_bytes(n, k, value_bits, _index(index), block)
    return _bytes(n, k, value_bits, block, int(found))


def largest_bytes(n: int, k: int, *, value_bits: int = 32, block: int = 0) -> int:
    """Return the bytes that no frame with at most k values exceeds.

    Args:
        n: elements of the tensor
        k: elements that are sent
        value_bits: as of :func:`expected_bytes`
        block: as of :func:`expected_bytes`

    """
    found = lib.pith_sparse_largest_bytes(n, k, value_bits, block)
    return _bytes(n, k, value_bits, block, int(found))


# ---- AdaTopK -------------------------------------------------------------------------------------


class Link(NamedTuple):
    """A link that waits for others."""

    n: int
    """Elements of the tensor that goes over it."""
    bytes_per_second: float
    """Above 0."""


def _links(links: Iterable[tuple[int, float]]) -> tuple[Any, int]:
    listed = [tuple(link) for link in links]
    return ffi.new("pith_sparse_link[]", listed), len(listed)


def link_seconds(
    links: Iterable[tuple[int, float]], ratio: float, *, value_bits: int = 32
) -> float:
    """Return the seconds in which the slowest link sends its tensor, compressed ``ratio`` times.

    Args:
        links: :class:`Link`, or ``(n, bytes_per_second)``
        ratio: above 0
        value_bits: as of :func:`expected_bytes`

    """
    array, count = _links(links)
    seconds = float(lib.pith_sparse_link_seconds(array, count, value_bits, ratio))
    if seconds != seconds:
        raise ArgumentError("links: a speed, a ratio or value_bits that no link has")
    return seconds


def link_counts(
    links: Iterable[tuple[int, float]],
    seconds: float,
    *,
    value_bits: int = 32,
    index: str = "small",
) -> list[int]:
    """Return for every link the largest k whose expected bytes take no longer than ``seconds``.

    Args:
        links: :class:`Link`, or ``(n, bytes_per_second)``
        seconds: above 0
        value_bits: as of :func:`expected_bytes`
        index: as of :func:`expected_bytes`

    Returns:
        At least 1 for each link, and n where the whole tensor takes no longer.

    """
    array, count = _links(links)
    ks = ffi.new("uint64_t[]", max(count, 1))
    _check(lib.pith_sparse_link_counts, array, count, value_bits, _index(index), seconds, ks)
    return list(ffi.unpack(ks, count)) if count else []
