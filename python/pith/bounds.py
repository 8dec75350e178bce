"""Error bounds of embedding tables: which of several a table bears.

SPDX-License-Identifier: Apache-2.0

A bound that makes many different rows of a table equal harms what a model has learnt there:

    statistics = pith.bounds.RowStatistics()
    for rows in batches:
        statistics.sample(rows)
    stream.scale_bound(pith.bounds.FACTORS[statistics.choose()])

Calls of :class:`~pith.Stream` set bounds while a model trains.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from . import views
from ._core import ffi, lib
from .errors import ArgumentError, DtypeError, from_status
from .plan import c_spec
from .views import Tensor

CLASSES = ("embed:rel=0.01", "embed:rel=0.03", "embed:rel=0.05")
"""The published classes of bounds: for tables that bear small, medium and large ones."""

FACTORS = tuple(float(lib.pith_bound_factor(k)) for k in range(len(CLASSES)))
"""What ``Stream.scale_bound`` takes, of a stream of ``embed:rel=0.03``, for each of them."""


class RowStatistics:
    """How many rows of one table several error bounds make equal, from sampled batches.

    Pickled, and added up over ranks with :meth:`add`.

    Args:
        specs: one to eight of codec embed, from the smallest bound to the largest, with rows of one
            length; what they say of schedules, modes and blocks has no influence

    Raises:
        ArgumentError: there are none, or more than eight
        DtypeError: it is one spec that is in no list, or one is no str

    """

    def __init__(self, specs: Iterable[str] = CLASSES) -> None:
        if isinstance(specs, str):
            raise DtypeError(f"specs: found {specs!r} alone, expected a list of specs")
        self.specs = tuple(specs)
        """The specs, by whose number :meth:`index` and :meth:`choose` name them."""
        most = len(ffi.new("pith_row_statistics *").coded)
        if not 1 <= len(self.specs) <= most:
            raise ArgumentError(f"specs: found {len(self.specs)}, expected 1 to {most}")
        self._texts = [ffi.new("char[]", c_spec(spec)) for spec in self.specs]
        self._lock = threading.Lock()
        size = ffi.sizeof("pith_row_statistics")
        self._statistics = ffi.new("pith_row_statistics *", {"size": size})

    def sample(self, rows: Tensor) -> None:
        """Look at a batch of rows that were looked up in the table.

        Args:
            rows: ``[rows, dim]``, or of any shape where specs say ``dim=``; at most 2^24 elements

        Raises:
            SpecError, DtypeError, ShapeError: codec embed does not take that
            ArgumentError: the specs are of another codec, or differ in the length of rows

        """
        error = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
        view, keep = views.new(rows)
        texts = ffi.new("char *[]", self._texts)
        count = len(self._texts)
        with self._lock:
            status = lib.pith_row_statistics_sample(
                self._statistics, texts, count, view, ffi.NULL, error
            )
        del keep
        if status:
            raise from_status(status, error)

    def index(self, number: int) -> float:
        """Return the share of different rows that a bound makes equal; 0 without a sample.

        Raises:
            ArgumentError: there is no such spec

        """
        if not 0 <= number < len(self.specs):
            raise ArgumentError(f"number: found {number}, expected 0 to {len(self.specs) - 1}")
        return float(lib.pith_row_statistics_index(self._statistics, number))

    def choose(self, limit: float = 0.25) -> int:
        """Return the number of the loosest bound that makes no larger share equal; else 0."""
        return int(lib.pith_row_statistics_class(self._statistics, len(self.specs), limit))

    @property
    def counts(self) -> list[int]:
        """Batches, rows, different rows, and rows that differ under each spec."""
        own = self._statistics
        coded = [int(count) for count in own.coded[0 : len(self.specs)]]
        return [int(own.batches), int(own.rows), int(own.distinct), *coded]

    def add(self, counts: Iterable[int]) -> None:
        """Add the counts of another rank, of the same specs.

        Raises:
            ArgumentError: they are not as many, or negative, or of no batches: more different rows
                than rows, or more under a spec than different ones

        """
        added = [int(count) for count in counts]
        if len(added) != 3 + len(self.specs) or min(added) < 0:
            raise ArgumentError(
                f"counts: found {added}, expected {3 + len(self.specs)} numbers from 0"
            )
        batches, rows, distinct, *coded = added
        if max(coded) > distinct or distinct > rows or (rows and not batches):
            raise ArgumentError(f"counts: found {added}, which no batches have")
        with self._lock:
            own = self._statistics
            # Before anything is written: a sum that is too large is an OverflowError.
            sums = ffi.new("uint64_t[]", [a + b for a, b in zip(self.counts, added, strict=True)])
            own.batches, own.rows, own.distinct = sums[0:3]
            own.coded[0 : len(self.specs)] = sums[3 : len(added)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _of, (self.specs, self.counts)

    def __repr__(self) -> str:
        return f"<pith.bounds.RowStatistics of {self.counts[0]} batches>"


def _of(specs: tuple[str, ...], counts: list[int]) -> RowStatistics:
    made = RowStatistics(specs)
    made.add(counts)
    return made
