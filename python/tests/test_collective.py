"""Channels between ranks that are threads, on NumPy's arrays.

SPDX-License-Identifier: Apache-2.0
"""

import pickle
import socket
import threading
import time

import numpy as np
import pytest
from conftest import noise, same

import pith
from pith import collective

TIMEOUT = 60


def run(ranks, function, *arguments, timeout=TIMEOUT, nodes=None):
    """Call function(communicator, *arguments) in a thread for each rank; return its results."""
    barrier, box = threading.Barrier(ranks), [None] * ranks

    def exchange_of(rank):
        def exchange(text):
            box[rank] = text
            barrier.wait(TIMEOUT)
            texts = list(box)
            barrier.wait(TIMEOUT)
            return texts

        return exchange

    results = [None] * ranks

    def one(rank):
        try:
            keys = {} if nodes is None else {"node": nodes[rank], "host": "127.0.0.1"}
            made = collective.Communicator(rank, ranks, exchange_of(rank), timeout=timeout, **keys)
            results[rank] = function(made, *arguments)
            made.close()
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(r,)) for r in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def inputs(ranks, n, step=0):
    return [noise(n, seed=100 * step + r) for r in range(ranks)]


def by_hand(spec, xs, scale):
    """The sum, serially: each rank's pieces are encoded, added in f32, and encoded once more."""
    n, ranks = len(xs[0]), len(xs)
    plan = pith.Plan(spec, shape=n, dtype="f32", slots=ranks)
    streams = [pith.Stream(plan, rng_stream=r) for r in range(ranks)]
    shards, whole = [], np.zeros(n, np.float32)
    for r in range(ranks):
        first, count = plan.slot(r)
        frames = [s.encode(x, slot=r) for s, x in zip(streams, xs, strict=True)]
        shards.append(streams[r].reduce(frames, slot=r, scale=scale))
        # The gathering half encodes the sum in f32, in the domain in which it was summed.
        last = pith.Stream(pith.Plan(spec, shape=count, dtype="f32"), rng_stream=2 * ranks + r)
        frame = streams[r].reduce_encode(frames, last, slot=r, scale=scale)
        whole[first : first + count] = pith.decompress(frame)
    return shards, whole


def sums(ranks, spec, n):
    x = inputs(ranks.ranks, n)[ranks.rank]
    scatter = ranks.channel("reduce_scatter", spec, count=n, dtype="f32", rng_stream=0)
    first, count = scatter.shard(ranks.rank)
    shard, whole = np.zeros(count, np.float32), x.copy()
    scatter.run(x, shard, scale=0.25)
    reduce = ranks.channel("allreduce", spec, count=n, dtype="f32", rng_stream=0)
    report = reduce.run([whole[:5], whole[5:]], whole, scale=0.25)  # in place, as one list
    assert report.compressed and report.levels == 1 and report.failed_rank == -1
    assert first == min(n, ranks.rank * -(-n // ranks.ranks))
    assert reduce.stats(0).frames and reduce.stats(2).frames <= 1
    return shard, whole


@pytest.mark.parametrize("spec", ["grad:preset=intra", "grad:bits=4,round=stochastic", "raw"])
@pytest.mark.parametrize("ranks,n", [(1, 7), (2, 1000), (3, 4001), (4, 9)])
def test_sums_are_those_of_streams(spec, ranks, n):
    shards, whole = by_hand(spec, inputs(ranks, n), 0.25)
    for r, (shard, all_) in enumerate(run(ranks, sums, spec, n)):
        assert same(shard, shards[r]) and same(all_, whole)


def differences(ranks):
    n, size = 101, ranks.ranks
    channel = ranks.channel("allgather", "wdiff:bits=8", count=n, dtype="f32", base_dtype="f32")
    first, count = channel.shard(ranks.rank)
    mine, out = noise(n)[first : first + count].copy(), np.zeros(n, np.float32)
    assert channel.base_hash() != 0 and channel.place.ranks == size
    channel.run(mine, out, key_frame=True)
    assert same(out, noise(n))
    mine += 0.01
    channel.run(mine, None, step=1)
    assert np.abs(channel.get_base() - noise(n) - 0.01).max() < 1e-3
    channel.verify_base()
    saved, number = channel.save(), channel.base_hash()
    channel.reset()
    assert channel.base_hash() != number
    channel.load(saved)
    assert channel.base_hash() == number
    with pytest.raises(pith.FrameError):
        channel.load(saved[:-1])
    channel.set_base(out, 5)
    channel.run(mine, out, step=5)
    with pytest.raises(pith.StepError):
        channel.run(mine, out, step=9)
    channel.run(mine, out, step=9, key_frame=True)
    return channel.base_hash(), out.tobytes()


def test_differences():
    results = run(3, differences)
    assert results[0] == results[1] == results[2]


def exchange(ranks):
    size, rank = ranks.ranks, ranks.rank
    counts = [[(3 * a + b) % 5 for b in range(size)] for a in range(size)]
    sent, got = counts[rank], [counts[r][rank] for r in range(size)]
    channel = ranks.channel("alltoall", "lossless", send_counts=sent, recv_counts=got, dtype="i32")
    x = np.repeat(np.arange(size, dtype=np.int32) + 10 * rank, sent)
    y = np.zeros(sum(got), np.int32)
    request = channel.start(x, y)
    while not request.test():
        pass
    assert request.wait().total_seconds > 0
    assert y.tolist() == np.repeat(10 * np.arange(size) + rank, got).tolist()


def test_all_to_all():
    run(3, exchange)


def two_levels(ranks):
    keys = {"inter": "grad:preset=inter", "count": 500, "dtype": "f32"}
    channel = ranks.channel("allreduce", "grad:preset=intra", **keys)
    x = noise(500, seed=ranks.rank)
    report = channel.run(x, x)
    assert report.levels == 2 and report.sent_bytes[1] > 0
    return tuple(channel.place)


def test_nodes():
    places = run(3, two_levels, nodes=["b", "a", "b"])
    assert [place[2:] for place in places] == [(0, 2, 0, 2), (1, 2, 0, 1), (0, 2, 1, 2)]


def residuals(ranks):
    keys = {"count": 300, "dtype": "f32", "exempt": [(100, 50, "exact")]}
    a = ranks.channel("allreduce", "grad:bits=4,ef=full", **keys)
    b = ranks.channel("allreduce", "grad:bits=4,ef=full", slice=31, **keys)
    x = noise(300, seed=ranks.rank)
    a.run(x, np.zeros_like(x), step=1)
    lost = a.get_residual()
    assert np.abs(lost).max() > 0.01
    b.set_residual(lost)
    assert np.allclose(np.delete(b.get_residual(), np.s_[100:150]), np.delete(lost, np.s_[100:150]))
    assert same(b.get_residual(10, 5), b.get_residual()[10:15])
    a.rollback(1)
    assert not a.get_residual().any()
    for first, count, out in ((-1, 2, None), (299, 2, None), (0, 3, np.zeros(2, np.float32))):
        with pytest.raises(pith.ArgumentError):
            a.get_residual(first, count, out=out)
    with pytest.raises(pith.ArgumentError, match="f32"):
        a.set_residual(lost.astype(np.float16))
    with pytest.raises(pith.ArgumentError):
        a.set_residual(lost * np.nan)


def test_error_feedback_moves():
    run(2, residuals)


def fails(ranks, keys, of_rank):
    given = {"spec": "grad:bits=8", "count": 100, "dtype": "f32", **of_rank.get(ranks.rank, keys)}
    try:
        ranks.channel("allreduce", **given)
    except pith.Error as error:
        # Channels that are made later do not suffer.
        channel = ranks.channel("allreduce", "raw", count=3, dtype="f32")
        x = np.ones(3, np.float32)
        channel.run(x, x)
        assert x.tolist() == [ranks.ranks] * 3
        return [error]


@pytest.mark.parametrize(
    "keys,error",
    [
        ({"spec": "grad:bits=4"}, pith.MismatchError),
        ({"count": 99}, pith.ArgumentError),
        ({"spec": "grad:nothing=1"}, pith.SpecError),
        ({"spec": 3}, pith.ArgumentError),
        ({"dtype": "f99"}, pith.ArgumentError),
        ({"count": -1}, pith.ArgumentError),
        ({"counts": [1]}, pith.ArgumentError),
        ({"exempt": [(0, 1, "8")]}, pith.ArgumentError),
        ({"threads": 0}, pith.ArgumentError),
        ({"spec": "lossless"}, pith.UnsupportedError),
    ],
)
def test_one_rank_that_asks_for_something_else(keys, error):
    for (result,) in run(3, fails, {}, {1: keys}):
        assert isinstance(result, error)


def calls(ranks):
    channel = ranks.channel("allreduce", "grad", count=100, dtype="f32")
    x, y = noise(100), np.zeros(100, np.float32)
    bad = x.astype(np.complex64), x[:50], x.astype(np.float64), [], None
    for wrong in bad:
        with pytest.raises(pith.Error) as caught:
            channel.run(wrong if ranks.rank == 1 else x, y)
        assert ranks.rank == 1 or "rank 1 met it" in str(caught.value)
    y.flags.writeable = False
    with pytest.raises(pith.ArgumentError, match="read-only" if ranks.rank == 0 else "rank 0"):
        channel.run(x, y if ranks.rank == 0 else np.zeros_like(x))
    y = np.zeros(100, np.float32)
    request = channel.start(x, y)
    with pytest.raises(pith.BusyError):
        channel.start(x, y)
    with pytest.raises(pith.BusyError):
        channel.save()
    with pytest.raises(pith.BusyError, match="in flight"):
        channel.close()
    threads = [threading.Thread(target=request.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    request.wait()
    assert request.wait() is request.wait() and request.test()
    for hop in (-1, 3):
        with pytest.raises(pith.ArgumentError):
            channel.stats(hop)
    with pytest.raises(pith.ArgumentError):
        channel.shard(ranks.ranks)
    with pytest.raises(pith.StateError):
        channel.get_residual()
    channel.close()
    channel.close()
    with pytest.raises(pith.StateError, match="closed"):
        channel.run(x, y)


def test_calls_that_fail_leave_the_channel_as_it_was():
    run(3, calls)


def silent(ranks):
    channel = ranks.channel("allreduce", "grad", count=100, dtype="f32", timeout=0.5)
    x = noise(100)
    if ranks.rank == 1:
        time.sleep(2)
        return None
    with pytest.raises(collective.TimedOutError, match="make new channels"):
        channel.run(x, x)
    with pytest.raises(collective.BrokenError, match="make new channels"):
        channel.run(x, x)


def test_a_rank_that_does_not_call():
    run(3, silent)


def gone(ranks):
    channel = ranks.channel("allreduce", "grad", count=100, dtype="f32")
    x = noise(100)
    if ranks.rank == 1:
        channel.close()
        return
    with pytest.raises(collective.TransportError) as caught:
        channel.run(x, x)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is collective.TransportError and str(again) == str(caught.value)


def test_a_rank_that_is_gone():
    run(2, gone)


def absent(ranks):
    if ranks.rank == 1:
        return
    begin = time.monotonic()
    with pytest.raises(pith.Error) as caught:
        ranks.channel("allreduce", "grad", count=100, dtype="f32")
    assert isinstance(caught.value, collective.TimedOutError | collective.TransportError)
    assert time.monotonic() - begin < 20


def test_a_rank_that_does_not_come():
    run(3, absent, timeout=1.0)


def strangers(ranks):
    """Connections that bring no secret, or nothing at all, are closed."""
    for r in range(ranks.ranks):
        with socket.create_connection(ranks._addresses[r]) as s:
            s.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(64))
        socket.create_connection(ranks._addresses[r]).close()
    channel = ranks.channel("allreduce", "raw", count=1, dtype="f32")
    x = np.ones(1, np.float32)
    channel.run(x, x)
    return x[0]


def test_strangers():
    assert run(2, strangers) == [2, 2]


def test_communicators_that_cannot_be():
    def alone(text):
        return [text]

    for keys in ({"rank": 1}, {"rank": -1}, {"timeout": 0}, {"ranks_per_node": 0}):
        with pytest.raises(pith.ArgumentError):
            collective.Communicator(**{"rank": 0, "ranks": 1, "exchange": alone, **keys})
    with pytest.raises(pith.ArgumentError, match="expected 2"):
        collective.Communicator(0, 2, alone)
    with pytest.raises(collective.TransportError, match="rank 0 cannot listen on 192"):
        collective.Communicator(0, 1, alone, host="192.0.2.1")
    with pytest.raises(pith.ArgumentError, match="kind"):
        collective.Communicator(0, 1, alone).channel("sum", "raw", dtype="f32")
