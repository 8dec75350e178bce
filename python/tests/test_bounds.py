"""Statistics of rows, by which tables get their bounds.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import pickle
import threading

import numpy as np
import pytest

import pith
from pith import bounds

SPECS = ("embed:rel=0.001", "embed:rel=0.03", "embed:rel=0.2")


def table(spread, seed=0):
    """Return rows that lie around five points."""
    rng = np.random.default_rng(seed)
    points = np.arange(300)[:, None] % 5 - 2.0
    return (points + spread * rng.standard_normal((300, 16))).astype(np.float32)


def test_a_table_gets_the_loosest_bound_that_it_bears():
    rough, fine = bounds.RowStatistics(SPECS), bounds.RowStatistics(SPECS)
    for seed in range(2):
        rough.sample(table(3, seed))
        fine.sample(table(0.01, seed))
    assert rough.counts[:3] == fine.counts[:3] == [2, 600, 600]
    assert rough.index(2) < 0.25 and rough.choose() == 2
    assert fine.index(0) < 0.25 < 0.9 < fine.index(2) and fine.choose() == 0
    assert fine.choose(1) == 2 and bounds.RowStatistics(SPECS).choose(0) == 2
    assert fine.index(2) == 1 - fine.counts[5] / fine.counts[2]
    assert "of 2 batches" in repr(fine)


def test_the_published_classes_have_factors():
    assert np.allclose(bounds.FACTORS, (1 / 3, 1, 5 / 3))
    assert bounds.RowStatistics().specs == bounds.CLASSES
    x = table(1)
    plan = pith.Plan("embed:rel=0.03", like=x)
    lengths = []
    for factor in bounds.FACTORS:
        stream = pith.Stream(plan)
        stream.scale_bound(factor)
        lengths.append(len(stream.encode(x)))
    assert lengths[0] > lengths[1] > lengths[2]


def test_counts_are_added_up_over_ranks():
    both, one, other = (bounds.RowStatistics(SPECS) for _ in range(3))
    one.sample(table(0.1, 1))
    other.sample(table(0.1, 2))
    both.sample(table(0.1, 1))
    both.sample(table(0.1, 2))
    for make in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        sums = make(one)
        assert sums is not one and sums.specs == SPECS
        sums.add(other.counts)
        assert sums.counts == both.counts != one.counts
    for wrong in ([1, 2, 3], [*one.counts[:-1], -1], [*one.counts, 0]):
        with pytest.raises(pith.ArgumentError, match="counts: found"):
            sums.add(wrong)
    with pytest.raises(OverflowError):
        sums.add([1, 2**64, 0, 0, 0, 0])
    assert sums.counts == both.counts


@pytest.mark.parametrize("counts", [[1, 5, 6, 1, 1, 1], [1, 9, 5, 1, 6, 1], [0, 5, 5, 1, 1, 1]])
def test_counts_that_no_batches_have_are_refused(counts):
    """They were added, and index was below 0."""
    statistics = bounds.RowStatistics(SPECS)
    with pytest.raises(pith.ArgumentError, match="which no batches have"):
        statistics.add(counts)
    assert statistics.counts == [0] * 6
    empty = bounds.RowStatistics(SPECS)
    empty.sample(np.zeros((0, 16), np.float32))
    statistics.add(empty.counts)


def test_threads_sample_one_table():
    alone, shared = bounds.RowStatistics(SPECS), bounds.RowStatistics(SPECS)
    batches = [table(0.1, seed) for seed in range(4)]

    def sample(rows):
        for _ in range(20):
            shared.sample(rows)

    threads = [threading.Thread(target=sample, args=(rows,)) for rows in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rows in batches * 20:
        alone.sample(rows)
    assert shared.counts == alone.counts


def test_what_statistics_refuse():
    for wrong in ((), ["embed"] * 9):
        with pytest.raises(pith.ArgumentError, match="expected 1 to 8"):
            bounds.RowStatistics(wrong)
    with pytest.raises(pith.ArgumentError, match="found 'embed' alone"):
        bounds.RowStatistics("embed")  # was five specs, of one letter each
    statistics = bounds.RowStatistics(SPECS)
    statistics.sample(table(1))
    before = statistics.counts
    with pytest.raises(pith.DtypeError):
        statistics.sample(np.zeros((3, 4), np.uint8))
    for specs, error in (
        (["embed:nothing=1"], pith.SpecError),
        (["embed", "eb"], pith.ArgumentError),
        (["embed:dim=4", "embed:dim=8"], pith.ArgumentError),
    ):
        with pytest.raises(error):
            bounds.RowStatistics(specs).sample(table(1))
    for number in (-1, 3):
        with pytest.raises(pith.ArgumentError, match="expected 0 to 2"):
            statistics.index(number)
    assert statistics.counts == before
