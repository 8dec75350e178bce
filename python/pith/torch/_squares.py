"""Running means of squares, by whose roots gradients are divided while they travel.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from .._core import ffi, lib
from ..errors import ArgumentError
from . import _group

_CHUNK = 1 << 16  # elements that are widened at a time
_CHUNK_ON_DEVICE = 1 << 24  # elements of which a device has copies at a time
_LEAST = 1e-3  # a divisor has at least this part of the largest one
_CPU = torch.device("cpu")


class Squares:
    """The running means of the squares of a flat tensor's elements.

    Optimizers such as Adam divide each element of a gradient by the root of such a mean. A group of
    a codec has one scale, so what rounding does to its small elements is large beside them, and
    their steps vanish in it. Divided before they are encoded, all elements are about as large.

    Ranks that have seen the same sums have the same means bit for bit, whatever CPU they run on.

    Args:
        count: elements
        ranges: the first element and the count of what is divided: the rest is left alone
        weight: by how much a sum is larger, at most, than the largest element of a rank
        place: whose memory the means are in

    """

    def __init__(
        self,
        count: int,
        ranges: list[tuple[int, int]],
        weight: float = 1.0,
        place: torch.device = _CPU,
    ) -> None:
        self.means = torch.zeros(count, dtype=torch.float32, device=place)
        self._ranges = ranges
        self._weight = max(weight, 1.0)
        self._largest = 0.0  # mean

    def begin(self, first: int, means: torch.Tensor) -> None:
        """Begin with these means of elements from ``first`` on, of which nothing is known yet."""
        self.means[first : first + means.numel()] = means
        if means.numel():
            self._largest = max(self._largest, float(means.max()))

    def reset(self) -> None:
        """Begin anew."""
        self.means.zero_()
        self._largest = 0.0

    def _most(self, dtype: torch.dtype) -> float:
        """Return what no divided element exceeds.

        In f16 what is far larger than ever before is cut off: as an infinity it would move no
        means, and be one again at the next step. Half of what f16 has, for what decoding adds.
        """
        return torch.finfo(dtype).max / 2 / self._weight if dtype == torch.float16 else math.inf

    def divide(self, x: torch.Tensor) -> None:
        """Divide the elements of a tensor; where nothing is known of any yet, leave them."""
        least = self._least()
        if least > 0:
            for means, piece in self._pieces(x, self._most(x.dtype)):
                lib.pithpy_squares_divide(means, least, _address(piece), piece.numel())

    def multiply(self, x: torch.Tensor, share: float) -> None:
        """Multiply what :meth:`divide` has divided, and move the means by a share to the squares.

        Elements whose squares are not finite move none.
        """
        least, largest = self._least(), 0.0
        for means, piece in self._pieces(x):
            most = lib.pithpy_squares_multiply(means, least, share, _address(piece), piece.numel())
            largest = max(largest, most)
        self._largest = largest

    def _least(self) -> float:
        """Return the smallest divisor: 0 where nothing is known of any element yet."""
        return _LEAST * math.sqrt(self._largest)

    def _pieces(
        self, x: torch.Tensor, most: float = math.inf
    ) -> Iterator[tuple[Any, torch.Tensor]]:
        """Yield the means, by their address, and the elements of x in f32, which go back to it.

        What is finite goes back as ``most`` where it is larger.
        """
        whole = x.dtype == torch.float32 and x.is_contiguous()
        for first, count in self._ranges:
            for at in range(first, first + count, max(count, 1) if whole else _CHUNK):
                piece = x[at : first + count if whole else min(at + _CHUNK, first + count)]
                floats = piece if whole else piece.to(torch.float32, copy=True)
                yield _address(self.means[at:]), floats
                if not whole:
                    if most < math.inf:
                        floats = _limited(floats, most)
                    piece.copy_(floats)


class DeviceSquares(Squares):
    """The same in the memory of a device, by operators of PyTorch; the host waits for none of them.

    Each operator is one operation of f32, rounded by itself. All elements of a chunk pass through
    them, however many ranges there are: what is in no range is divided by 1.
    """

    def __init__(
        self,
        count: int,
        ranges: list[tuple[int, int]],
        weight: float = 1.0,
        place: torch.device = _CPU,
    ) -> None:
        super().__init__(count, ranges, weight, place)
        self._is_divided = torch.zeros(count, dtype=torch.bool, device=place)
        for first, size in ranges:
            self._is_divided[first : first + size] = True
        self._largest_mean = torch.zeros((), dtype=torch.float32, device=place)

    def begin(self, first: int, means: torch.Tensor) -> None:
        self.means[first : first + means.numel()] = means
        if means.numel():
            self._largest_mean = self.means.max()

    def reset(self) -> None:
        self.means.zero_()
        self._largest_mean = torch.zeros_like(self._largest_mean)

    def divide(self, x: torch.Tensor) -> None:
        most = self._most(x.dtype)
        for at, divisors in self._divisors():
            piece = x[at]
            floats = piece.float().div(divisors)
            if most < math.inf:
                known = self._is_divided[at] & (self._largest_mean > 0)
                floats = torch.where(known, _limited(floats, most), floats)
            piece.copy_(floats)

    def multiply(self, x: torch.Tensor, share: float) -> None:
        largest = torch.zeros_like(self._largest_mean)
        for at, divisors in self._divisors():
            floats = divisors.mul_(x[at])
            x[at].copy_(floats)
            squares = floats.square_()
            moves = self._is_divided[at] & squares.isfinite()
            steps = squares.sub_(self.means[at]).mul_(share)
            means = self.means[at].add_(steps.masked_fill_(~moves, 0))
            largest = torch.maximum(largest, means.max())
        self._largest_mean = largest

    def _divisors(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield chunks of the elements, and their divisors, which the caller may overwrite."""
        least = self._largest_mean.double().sqrt().mul(_LEAST).float()
        for first in range(0, self.means.numel(), _CHUNK_ON_DEVICE):
            at = slice(first, first + _CHUNK_ON_DEVICE)
            divisors = torch.maximum(self.means[at].sqrt(), least)
            yield at, divisors.masked_fill_(~self._is_divided[at] | (least == 0), 1)


def _limited(x: torch.Tensor, most: float) -> torch.Tensor:
    return x.where(x.isinf(), x.clamp(-most, most))


def _address(x: torch.Tensor) -> Any:
    return ffi.cast("float *", x.data_ptr())


class Bucket(Protocol):
    """What a hook's state keeps for a bucket."""

    pieces: dict[str, tuple[int, int]]
    """Of each parameter that is in it the first element and the count."""
    squares: Squares | None


class Means:
    """The means of all parameters of a model that has a hook, whatever buckets they are in.

    Args:
        kept: how much of itself a mean keeps at every step; None: there are none
        parameters: by name
        is_exempt: whether the parameter of a name is not divided

    """

    def __init__(
        self,
        kept: float | None,
        parameters: dict[str, torch.nn.Parameter],
        is_exempt: Callable[[str], bool],
    ) -> None:
        self._kept, self._parameters, self._is_exempt = kept, parameters, is_exempt
        self._forgotten = 1.0  # how much means have still of what they began with, of nothing
        self.share = 1.0  # that a step has in the means; of the first all, so that nothing is 0
        self._apart: dict[str, torch.Tensor] = {}  # of parameters that have no bucket now

    def age(self) -> None:
        """Begin a step."""
        if self._kept is not None:
            self._forgotten *= self._kept
            self.share = (1 - self._kept) / (1 - self._forgotten)

    def squares(
        self,
        pieces: dict[str, tuple[int, int]],
        weight: float,
        place: torch.device | None = None,
    ) -> Squares | None:
        """Return the means of a new bucket, with what is known of its parameters.

        Args:
            pieces: of each parameter the first element and the count
            weight: as :class:`Squares` takes it
            place: the device whose memory they are in; None: the CPU's

        """
        if self._kept is None:
            return None
        count = sum(size for _, size in pieces.values())
        ranges = [piece for name, piece in pieces.items() if not self._is_exempt(name)]
        made = (
            Squares(count, ranges, weight)
            if place is None
            else DeviceSquares(count, ranges, weight, place)
        )
        self._begin(made, pieces)
        return made

    def _begin(self, squares: Squares, pieces: dict[str, tuple[int, int]]) -> None:
        for name, (first, _) in pieces.items():
            if name in self._apart:
                squares.begin(first, self._apart.pop(name))

    def keep(self, bucket: Bucket) -> None:
        """Take the means of a bucket that is given up."""
        self._apart.update(self._of(bucket))

    def _of(self, bucket: Bucket) -> dict[str, torch.Tensor]:
        if bucket.squares is None:
            return {}
        means = bucket.squares.means.cpu()
        return {
            name: means[first : first + count].clone()
            for name, (first, count) in bucket.pieces.items()
            if not self._is_exempt(name)
        }

    def state(self, buckets: Iterable[Bucket]) -> dict[str, Any]:
        """Return the parts of a state that have the means; they are the same on every rank."""
        if self._kept is None:
            return {}
        means = dict(self._apart)
        for bucket in buckets:
            means.update(self._of(bucket))
        return {"forgotten": self._forgotten, "means": means}

    def check(self, parts: dict[str, Any]) -> tuple[float, dict[str, torch.Tensor]]:
        """Return what :meth:`load` takes of the parts of a state.

        Raises:
            ArgumentError: a mean fits no parameter, or is none

        """
        means = _group.tensors_of(parts.get("means", {}), "means", self._parameters)
        for name, one in means.items():
            if bool((one < 0).any()):
                raise ArgumentError(f"means: {name!r}: expected 0 or more")
        forgotten = parts.get("forgotten", 1.0)
        if not isinstance(forgotten, float) or not 0 <= forgotten <= 1:
            raise ArgumentError(f"forgotten: found {forgotten!r}, expected between 0 and 1")
        return forgotten, means

    def load(
        self, checked: tuple[float, dict[str, torch.Tensor]], buckets: Iterable[Bucket]
    ) -> None:
        """Take up what :meth:`check` has returned, also in buckets."""
        forgotten, self._apart = checked if self._kept is not None else (1.0, {})
        self._forgotten = forgotten if self._apart else 1.0
        for bucket in buckets:
            if bucket.squares is not None:
                bucket.squares.reset()
                self._begin(bucket.squares, bucket.pieces)


def check_kept(normalize: Any, spec: str) -> None:
    """Raise unless what a hook takes as ``normalize`` is one, and goes with its first spec.

    Raises:
        ArgumentError: as said

    """
    if normalize is None:
        return
    if not isinstance(normalize, float) or not 0 < normalize < 1:
        raise ArgumentError(f"normalize: found {normalize!r}, expected None or between 0 and 1")
    if _group.has_feedback(spec):
        raise ArgumentError(
            f"normalize: found {normalize}, and {spec!r} has error feedback, of which every step"
            " would have other units"
        )
