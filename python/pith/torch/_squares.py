"""Running means of squares, by whose roots gradients are divided while they travel.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from .._core import ffi, lib

_CHUNK = 1 << 16  # elements that are widened at a time
_LEAST = 1e-3  # a divisor has at least this part of the largest one


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

    """

    def __init__(self, count: int, ranges: list[tuple[int, int]], weight: float = 1.0) -> None:
        self.means = torch.zeros(count, dtype=torch.float32, device="cpu")
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
                        floats = floats.where(floats.isinf(), floats.clamp(-most, most))
                    piece.copy_(floats)

    def divide(self, x: torch.Tensor) -> None:
        """Divide the elements of a tensor; where nothing is known of any yet, leave them.

        In f16 what is far larger than ever before is cut off: as an infinity it would move no
        means, and be one again at the next step.
        """
        least = self._least()
        if least > 0:
            # Half of what f16 has, for what decoding adds.
            f16 = x.dtype == torch.float16
            most = torch.finfo(x.dtype).max / 2 / self._weight if f16 else math.inf
            for means, piece in self._pieces(x, most):
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


def _address(x: torch.Tensor) -> Any:
    return ffi.cast("float *", x.data_ptr())
