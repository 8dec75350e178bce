"""Channels between ranks that are threads, on NumPy's arrays.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import copy
import errno
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import Interrupted, elsewhere, interruptions, noise, same

import pith
from pith import collective

TIMEOUT = 60


def exchanges(ranks):
    """Return what makes the exchange of texts of each of some threads."""
    barrier, box = threading.Barrier(ranks), [None] * ranks

    def exchange_of(rank):
        def exchange(text):
            box[rank] = text
            barrier.wait(TIMEOUT)
            texts = list(box)
            barrier.wait(TIMEOUT)
            return texts

        return exchange

    return exchange_of


def run(ranks, function, *arguments, timeout=TIMEOUT, nodes=None):
    """Call function(communicator, *arguments) in a thread for each rank; return its results."""
    exchange_of = exchanges(ranks)
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


def largest(acc, k):
    """The k largest elements, as a mask."""
    return np.isin(np.arange(len(acc)), np.argsort(-np.abs(acc), kind="stable")[:k])


def sparse(ranks, kind, shared):
    """Sums of the largest elements, with error feedback, and the same by hand."""
    n, k, size = 40000, 50, ranks.ranks
    spec = f"topk:k={k},control=exact,ef=full"
    channel = ranks.channel(kind, spec, count=n, dtype="f32", refresh=3 * (kind[-4:] == "topk"))
    parts = collective.Partitions(n, size) if shared else None
    accs, total, sent = [np.zeros(n, np.float32) for _ in range(size)], 0, 0
    assert channel.sparse_state()[:3] == (k, 2 * k, 0)
    for step in range(5):
        xs, out = inputs(size, n, step), np.empty(n, np.float32)
        own = None if parts is None else [parts.choice(ranks.rank)._replace(k=k // size)]
        report = channel.run(xs[ranks.rank], [out[:7], out[7:]], step=step, choices=own)
        if parts is not None:
            parts.update(channel.chosen())
        total, sent = total + sum(xs), sent + out.astype(np.float64)
        assert sum(channel.chosen()) == report.chosen
        assert channel.sparse_state().sent == channel.chosen()[ranks.rank] or kind[-4:] == "topk"
        if kind == "sparse_oktopk":
            assert np.count_nonzero(out) == report.summed
            continue
        # All ranks know what any rank has, so that this one computes it for all.
        for acc, x in zip(accs, xs, strict=True):
            acc += x
        if parts is None:
            sets = [largest(acc, k) for acc in accs]
            wanted = np.zeros(n, np.float32)
            for acc, one in zip(accs, sets, strict=True):
                where = one if kind == "sparse_gather" else np.logical_or.reduce(sets)
                wanted[where] += acc[where]
                acc[where] = 0
            assert same(out, wanted)
            assert same(channel.get_residual(), accs[ranks.rank])
        else:
            assert report.summed == report.chosen == size * (k // size)
            for acc in accs:
                acc[out != 0] = 0
            assert same(channel.get_residual(), accs[ranks.rank])
    return out.tobytes(), total - sent, channel.get_residual().astype(np.float64)


@pytest.mark.parametrize(
    "kind,shared",
    [
        ("sparse_gather", False),
        ("sparse_union", False),
        ("sparse_union", True),
        ("sparse_oktopk", False),
    ],
)
def test_sums_of_the_largest(kind, shared):
    results = run(3, sparse, kind, shared)
    assert len({out for out, _, _ in results}) == 1
    lacking = sum(residual for _, _, residual in results)
    assert np.allclose(results[0][1], lacking, atol=1e-4) and np.abs(lacking).max() > 1


def pieces(ranks):
    """Of two layers one rank chooses from one, and the other from the other."""
    spec = "topk:k=4,control=exact,ef=full"
    channel = ranks.channel(
        "sparse_union", spec, count=300, dtype="f32", pieces=[100, 200], timeout=TIMEOUT
    )
    x, out = noise(300, seed=ranks.rank), np.zeros(300, np.float32)
    own = [collective.Choice(elements=0)] * 2
    own[ranks.rank] = collective.Choice(k=3 + ranks.rank)
    channel.run(x, out, choices=own)
    assert channel.chosen() == [3, 4]
    assert np.count_nonzero(out[:100]) == 3 and np.count_nonzero(out[100:]) == 4
    with pytest.raises(pith.ArgumentError, match="one for each piece"):
        channel.run(x, out, step=1, choices=own[:1])
    with pytest.raises(pith.ArgumentError, match="first"):
        channel.run(x, out, step=1, choices=[collective.Choice(first=-1)] * 2)
    with pytest.raises(pith.ArgumentError):
        channel.run(x, out, step=1, choices=[collective.Choice(first=101)] * 2)
    with pytest.raises(pith.ArgumentError):
        channel.sparse_state(2)
    channel.run(x, out, step=1, choices=[collective.Choice(threshold=5)] * 2)
    assert channel.sparse_state(1).threshold == 5


def test_pieces_of_which_ranks_choose():
    run(2, pieces)


def test_partitions():
    moving, even = (collective.Partitions(100000, 4, moving=moving) for moving in (True, False))
    for parts in (moving, even):
        choices = [parts.choice(r) for r in range(4)]
        assert choices[0].first == 0 and sum(one.elements for one in choices) == 100000
        parts.update([900, 5, 5, 5])
        assert parts.choice(0) != choices[0]
        parts.rollback()
        parts.rollback()
        assert [parts.choice(r) for r in range(4)] == choices
    assert {even.choice(r).elements for r in range(4)} == {25000}
    moving.update([900, 5, 5, 5])
    assert moving.choice(3).elements < 24576 < moving.choice(0).elements
    for wrong in (lambda: moving.choice(4), lambda: moving.update([1]), lambda: moving.choice(-1)):
        with pytest.raises(pith.ArgumentError):
            wrong()
    for ranks in (0, 257):
        with pytest.raises(pith.ArgumentError):
            collective.Partitions(10, ranks)


def test_deft_gives_each_piece_to_one_rank():
    layers = collective.Deft([90, 0, 6, 4], 3)
    assert layers.pieces == [30, 30, 30, 6, 4]
    x = np.repeat(np.array([1, 2, 3, 0, 5], np.float32), layers.pieces)
    norms = layers.norms(x)
    assert np.allclose(norms, [30**0.5, 120**0.5, 270**0.5, 0, 10])
    shares = pith.sparse.deft_counts(pith.sparse.deft_pieces([90, 0, 6, 4], 3), norms, 20)
    assert shares == [4, 5, 7, 1, 4]
    first = [layers.choices(norms, 20, r, 0) for r in range(3)]
    chosen = [
        [one.k for one in choices if one.elements is None] for choices in zip(*first, strict=True)
    ]
    # The last piece is sent whole, and chosen by all.
    assert chosen == [[4], [5], [7], [1], [4, 4, 4]]
    assert [layers.choices(norms, 20, r, 1) for r in range(3)] == [first[1], first[2], first[0]]
    for wrong in (
        lambda: collective.Deft([3], 0),
        lambda: layers.choices(norms, 20, 3, 0),
        lambda: layers.choices(norms[1:], 20, 0, 0),
        lambda: layers.choices([-1.0] * 5, 20, 0, 0),
    ):
        with pytest.raises(pith.ArgumentError):
            wrong()


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


def bound(ranks):
    """A base in memory of ours, which has the weights of all ranks and is what is gathered."""
    n, spec, options = 101, "wdiff:bits=8", {"dtype": "f32", "base_dtype": "f32"}
    own = ranks.channel("allgather", spec, count=n, rng_stream=0, **options)
    channel = ranks.channel("allgather", spec, count=n, rng_stream=0, external_base=True, **options)
    first, count = channel.shard(ranks.rank)
    mine, weights = noise(n)[first : first + count].copy(), np.zeros((n,), np.float32)
    before = sys.getrefcount(weights)
    channel.bind_base(weights)
    kept = sys.getrefcount(weights)
    assert kept > before
    for step in range(4):
        mine += 0.01
        own.run(mine, None, step=step, key_frame=step == 0)
        channel.run(mine, None, step=step, key_frame=step == 0)
        assert same(weights, own.get_base()) and same(weights, channel.get_base())
        assert channel.base_hash() == own.base_hash()
    saved = channel.save()
    for wrong, error, text in (
        (np.zeros(n, np.float64), pith.DtypeError, "found dtype f64, expected f32"),
        (np.zeros(n - 1, np.float32), pith.ShapeError, "found 100 elements, expected 101"),
        (np.zeros(2 * n, np.float32)[::2], pith.ShapeError, "dense"),
    ):
        with pytest.raises(error, match=text):
            channel.bind_base(wrong, 4)
    with pytest.raises(pith.Error):
        own.bind_base(weights, 4)
    own.run(mine, None, step=4)
    channel.run(mine, None, step=4)  # as before: what was refused has changed nothing
    assert same(weights, own.get_base())
    other = weights.copy()
    channel.bind_base(other, 5)
    left = sys.getrefcount(weights)
    assert left == before
    channel.load(saved)
    channel.run(mine, None, step=4)
    assert same(other, weights)
    other[(first + n // 2) % n] += 1
    with pytest.raises(pith.BaseMismatchError):
        channel.verify_base()
    with pytest.raises(pith.BaseMismatchError):
        for step in (5, 6):
            channel.run(mine, None, step=step)
    return other.tobytes()


def test_a_base_in_memory_of_ours():
    run(3, bound)


def replaced(ranks):
    """On rank 1 the memory of the base goes elsewhere: no rank goes on as if nothing was."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    options = {"dtype": "f32", "base_dtype": "f32", "external_base": True}
    channel = ranks.channel("allgather", "wdiff:bits=8", count=64, timeout=20, **options)
    weights = torch.zeros(64)
    channel.bind_base(weights)
    mine = torch.ones(channel.shard(ranks.rank)[1])
    channel.run(mine, None)
    if ranks.rank == 1:
        weights.data = weights.clone()
    error, text = (
        (pith.BaseMismatchError, "bind it again")
        if ranks.rank == 1
        else (pith.ArgumentError, "rank 1 met it")
    )
    with pytest.raises(error, match=text):
        channel.run(mine, None, step=1)
    if ranks.rank == 1:
        with pytest.raises(pith.BaseMismatchError, match="bind it again"):
            channel.verify_base()
    channel.bind_base(weights, 1)
    channel.run(mine * 2, None, step=1)
    assert (weights == 2).all()


def test_a_base_whose_memory_is_replaced():
    run(2, replaced)


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


def wait_no_time(ranks):
    for timeout in (0, -1, 2e9, float("nan")):
        with pytest.raises(pith.ArgumentError, match=r"timeout: found .* more than 0, at most 1e9"):
            ranks.channel("allreduce", "grad", count=100, dtype="f32", timeout=timeout)
    with pytest.raises(pith.ArgumentError, match="or timeout"):
        ranks.channel("allreduce", "grad", count=100, dtype="f32", timeout="1")
    return ranks.channel("allreduce", "grad", count=100, dtype="f32", timeout=1).count


def test_a_channel_without_time():
    """0 seconds stood for 300, and not for those of the communicator."""
    assert run(2, wait_no_time) == [100, 100]


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


def gather(ranks):
    channel = ranks.channel("allgather", "raw", count=800, dtype="f32")
    whole = np.zeros(800, np.float32)
    report = channel.run(noise(200, seed=ranks.rank), whole)
    # Another node gets the shard once. Inside, the other rank gets it, and one that is forwarded.
    assert report.sent_values == (400, 200) and report.levels == 1
    return whole


def test_gathers_cross_to_a_node_once():
    whole = np.concatenate([noise(200, seed=r) for r in range(4)])
    assert all(same(one, whole) for one in run(4, gather, nodes=["a", "a", "b", "b"]))


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
    for scale in (0, 1e-50, "1"):  # the library would take the first two for 1
        with pytest.raises(pith.ArgumentError, match="scale" if ranks.rank == 1 else "rank 1"):
            channel.run(x, y, scale=scale if ranks.rank == 1 else 1)
    y.flags.writeable = False
    with pytest.raises(pith.ArgumentError, match="read-only" if ranks.rank == 0 else "rank 0"):
        channel.run(x, y if ranks.rank == 0 else np.zeros_like(x))
    y = np.zeros(100, np.float32)
    request = channel.start(x, y)
    assert channel.in_flight is request
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
    assert request.wait() is request.wait() and request.test() and channel.in_flight is None
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


def stalled(ranks):
    """A stranger that says nothing, and one that says a part, delay nobody."""
    silent = [socket.create_connection(address) for address in ranks._addresses]
    slow = [socket.create_connection(address) for address in ranks._addresses]
    for s in slow:
        s.sendall(b"half")
    time.sleep(0.2)
    begin = time.monotonic()
    ranks.channel("allreduce", "raw", count=1, dtype="f32")
    took = time.monotonic() - begin
    ranks.close()
    ranks.close()
    if ranks.rank == 0:
        with pytest.raises(collective.TransportError, match="was closed"):
            ranks.channel("allreduce", "raw", count=1, dtype="f32")
    for s in silent + slow:
        s.close()
    return took


def test_strangers_that_say_nothing():
    assert max(run(3, stalled)) < 5


@contextlib.contextmanager
def alarm(seconds):
    """Raise Interrupted in the main thread after so many seconds."""

    def handler(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pair(of_other):
    """Return a communicator of rank 0 for this thread, and the thread of rank 1."""
    exchange_of = exchanges(2)

    def other():
        of_other(collective.Communicator(1, 2, exchange_of(1), timeout=TIMEOUT))

    thread = threading.Thread(target=other)
    thread.start()
    return collective.Communicator(0, 2, exchange_of(0), timeout=TIMEOUT), thread


KEYS = {"count": 1000, "dtype": "f32"}


def test_a_signal_ends_a_wait():
    met, interrupted = [], threading.Event()

    def other(ranks):
        channel, late = (ranks.channel("allreduce", "raw", **KEYS) for _ in range(2))
        interrupted.wait(TIMEOUT)
        try:
            channel.run(noise(1000), np.zeros(1000, np.float32))
        except pith.Error as error:
            met.append(error)
        late.run(noise(1000), np.zeros(1000, np.float32))

    ranks, thread = pair(other)
    channel, late = (ranks.channel("allreduce", "raw", **KEYS) for _ in range(2))
    begin = time.monotonic()
    with alarm(0.3), pytest.raises(Interrupted):
        channel.run(noise(1000), np.zeros(1000, np.float32))
    assert time.monotonic() - begin < TIMEOUT / 2
    assert channel._in_flight is None
    with pytest.raises(collective.BrokenError):
        channel.run(noise(1000), np.zeros(1000, np.float32))
    channel.close()
    interrupted.set()
    late.run(noise(1000), np.zeros(1000, np.float32))
    thread.join(TIMEOUT)
    assert isinstance(met[0], collective.TransportError)


def test_handlers_that_return_run_while_a_call_waits():
    ran, go = [], threading.Event()

    def handler(*_):
        ran.append(time.monotonic())
        go.set()

    def other(ranks):
        channel = ranks.channel("allreduce", "raw", **KEYS)
        go.wait(TIMEOUT)
        channel.run(noise(1000), np.zeros(1000, np.float32))

    ranks, thread = pair(other)
    channel = ranks.channel("allreduce", "raw", **KEYS)
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        channel.run(noise(1000), np.zeros(1000, np.float32))
    finally:
        signal.signal(signal.SIGALRM, before)
        thread.join(TIMEOUT)
    assert len(ran) == 1


def test_a_signal_ends_the_making_of_a_channel():
    ended = threading.Event()

    def other(ranks):
        first = ranks._connect(0)  # goes no further
        ended.wait(TIMEOUT)
        for s in first:
            if s is not None:
                s.close()

    ranks, thread = pair(other)
    begin = time.monotonic()
    with alarm(0.3), pytest.raises(Interrupted):
        ranks.channel("allreduce", "raw", **KEYS)
    assert time.monotonic() - begin < TIMEOUT / 2
    ended.set()
    thread.join(TIMEOUT)


def test_a_call_that_nobody_waits_for_is_stopped():
    ended = threading.Event()

    def other(ranks):
        ranks.channel("allreduce", "raw", **KEYS)
        ended.wait(TIMEOUT)

    ranks, thread = pair(other)
    channel = ranks.channel("allreduce", "raw", **KEYS)
    request = channel.start(noise(1000), np.zeros(1000, np.float32))
    begin = time.monotonic()
    request._stop()
    assert time.monotonic() - begin < TIMEOUT / 2
    assert request.test() and channel._in_flight is None
    with pytest.raises(collective.TransportError):
        request.wait()
    channel.close()
    ended.set()
    thread.join(TIMEOUT)


FORKED = """
import os, sys, threading, numpy as np, pith
from test_collective import exchanges
from pith.collective import Communicator

exchange_of, ends = exchanges(2), [None, None]

def make(rank):
    ranks = Communicator(rank, 2, exchange_of(rank), timeout=20)
    ends[rank] = ranks, ranks.channel("allreduce", "raw", count=3, dtype="f32")

def both(function):
    threads = [threading.Thread(target=function, args=(rank,)) for rank in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

def call(rank):
    ends[rank][1].run(x[rank], x[rank])

both(make)
x = np.ones((2, 3), np.float32)
(ranks, channel), (_, other) = ends
request = channel.start(x[0], x[0])
child = os.fork()
if child == 0:
    calls = (
        lambda: request.wait(),
        lambda: request.test(),
        lambda: other.run(x[1], x[1]),
        lambda: other.start(x[1], x[1]),
        lambda: ranks.channel("allreduce", "raw", count=3, dtype="f32"),
    )
    refused = 0
    for make in calls:
        try:
            make()
        except pith.StateError as error:
            refused += "forked" in str(error)
    os._exit(refused == len(calls))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
both(lambda rank: call(1) if rank else request.wait())
both(call)
assert (x == 4).all(), x
"""


def test_a_forked_process_says_nothing_as_the_one_before(tmp_path):
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    command = [sys.executable, "-c", FORKED]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, capture_output=True, timeout=TIMEOUT, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()


class Broken:
    """A tensor whose methods raise what pith does not."""

    def __dlpack__(self, **_):
        raise BufferError("nothing can be had")


def odd(ranks):
    channel = ranks.channel("allreduce", "raw", **KEYS)
    x, y = noise(1000), np.zeros(1000, np.float32)
    expected = BufferError if ranks.rank == 1 else pith.Error
    with pytest.raises(expected):
        channel.run(Broken() if ranks.rank == 1 else x, y)
    channel.run((x[:10], x[10:]), (y,))
    assert np.allclose(y, ranks.ranks * x)
    counts = 3 if ranks.rank == 1 else None
    with pytest.raises(TypeError if ranks.rank == 1 else pith.Error):
        ranks.channel("allreduce", "raw", counts=counts, **KEYS)
    with pytest.raises(pith.StateError, match="no base"):
        channel.get_base()
    ranks.channel("allreduce", "raw", **KEYS).run(x, y)


def test_any_exception_of_one_rank_ends_the_call():
    run(3, odd)


def test_nobody_waits_for_a_thread_that_is_inside():
    """A thread that is inside keeps close and test from waiting."""
    inside, go = threading.Event(), threading.Event()

    def other(ranks):
        channel = ranks.channel("allreduce", "raw", **KEYS)
        go.wait(TIMEOUT)
        channel.run(noise(1000), np.zeros(1000, np.float32))

    def wait():
        inside.set()
        request.wait()

    ranks, thread = pair(other)
    channel = ranks.channel("allreduce", "raw", **KEYS)
    request = channel.start(noise(1000), np.zeros(1000, np.float32))
    assert channel.in_flight is request
    with pytest.raises(pith.BusyError, match="in flight"):
        channel.close()
    waiting = threading.Thread(target=wait)
    waiting.start()
    inside.wait(TIMEOUT)
    while not isinstance(elsewhere(lambda: channel.place), pith.BusyError):
        time.sleep(0.001)
    assert not request.test()
    with pytest.raises(pith.BusyError, match="another thread"):
        channel.close()
    go.set()
    assert request.wait().failed_rank == -1
    waiting.join()
    thread.join(TIMEOUT)
    assert request.test() and channel.in_flight is None
    channel.close()
    with pytest.raises(pith.StateError, match="closed"):
        channel.save()
    channel.close()


def alone():
    """Return a channel of one rank."""
    return collective.Communicator(0, 1, lambda text: [text]).channel("allreduce", "raw", **KEYS)


class Caller:
    """Calls with a channel, one after the other."""

    def __init__(self):
        self.x, self.out, self.step = noise(1000), np.zeros(1000, np.float32), 0
        self.channel = alone()

    def _next(self):
        self.step += 1
        return {"step": self.step}

    def place(self):
        return self.channel.place

    def save(self):
        return self.channel.save()

    def run(self):
        self.channel.run(self.x, self.out, **self._next())

    def wait(self):
        self.channel.start(self.x, self.out, **self._next()).wait()

    def test(self):
        request = self.channel.start(self.x, self.out, **self._next())
        while not request.test():
            pass

    def close(self):
        self.channel.close()


@pytest.mark.parametrize("call", ["place", "save", "run", "wait", "test", "close"])
def test_an_exception_of_a_signal_leaves_no_channel_busy(call):
    caller, times = Caller(), 0
    for _ in interruptions(getattr(caller, call)):
        times += 1
        assert not isinstance(elsewhere(caller.place), pith.BusyError)
        request = caller.channel.in_flight
        if request is not None:
            assert call in ("wait", "test")  # run ends what it started
            with contextlib.suppress(pith.Error):
                request.wait()
        assert caller.channel.in_flight is None
        caller.channel.close()
        caller.channel = alone()
    assert times


def test_a_handler_has_calls_of_its_own():
    """It runs in a wait, which then goes on and heeds signals as before."""
    met, go = [], threading.Event()
    single, x = alone(), noise(1000)

    def handler(*_):
        if met:
            raise Interrupted
        single.run(x, np.zeros_like(x))
        for call in (channel.save, channel.in_flight.wait, lambda: channel.run(x, x)):
            with pytest.raises(pith.BusyError):
                call()
        met.append(channel.in_flight.test())

    def other(ranks):
        silent = ranks.channel("allreduce", "raw", **KEYS)
        go.wait(TIMEOUT)
        silent.close()

    ranks, thread = pair(other)
    channel = ranks.channel("allreduce", "raw", **KEYS)
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
    begin = time.monotonic()
    try:
        with pytest.raises(Interrupted):
            channel.run(x, np.zeros_like(x))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        go.set()
        thread.join(TIMEOUT)
    assert time.monotonic() - begin < TIMEOUT / 2 and met == [False]


@pytest.mark.parametrize("host", [None, "127.0.0.1", "localhost"])
def test_loopback_between_machines(host, monkeypatch):
    names = iter(["a/1", "a/2"])
    monkeypatch.setattr(collective, "_machine", lambda: next(names))
    monkeypatch.setattr(collective.socket, "gethostname", lambda: "localhost")
    box, barrier, met = [None] * 2, threading.Barrier(2), []

    def one(rank):
        def exchange(text):
            box[rank] = text
            barrier.wait(TIMEOUT)
            texts = list(box)
            barrier.wait(TIMEOUT)
            return texts

        try:
            collective.Communicator(rank, 2, exchange, host=host)
        except pith.Error as error:
            met.append(error)

    threads = [threading.Thread(target=one, args=(r,)) for r in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(met) == 2
    for error in met:
        assert isinstance(error, collective.TransportError)
        assert "rank 0" in str(error) and "GLOO_SOCKET_IFNAME" in str(error)


def exhausted(ranks):
    with pytest.raises(pith.Error) as caught:
        ranks.channel("allreduce", "raw", count=1, dtype="f32")
    return str(caught.value)


def test_descriptors_run_out(monkeypatch):
    def none_left(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(collective.socket, "create_connection", none_left)
    texts = run(2, exhausted, timeout=1.0)
    assert "takes 1 of" in texts[1] and "ulimit -n" in texts[1]


def test_communicators_that_cannot_be():
    def alone(text):
        return [text]

    for keys in ({"rank": 1}, {"rank": -1}, {"timeout": 0}, {"ranks_per_node": 0}):
        with pytest.raises(pith.ArgumentError):
            collective.Communicator(**{"rank": 0, "ranks": 1, "exchange": alone, **keys})
    # Said to all, who would wait for this rank otherwise.
    for keys in ({"timeout": "1"}, {"ranks_per_node": "1"}, {"host": 1}):
        with pytest.raises(pith.ArgumentError, match="rank 0: "):
            collective.Communicator(0, 1, alone, **keys)
    with pytest.raises(pith.ArgumentError, match="expected 2"):
        collective.Communicator(0, 2, alone)
    with pytest.raises(collective.TransportError, match="rank 0 cannot listen on 192"):
        collective.Communicator(0, 1, alone, host="192.0.2.1")
    for host, text in (("x" * 70, "x: "), (OSError("interface eth9: none"), "on interface eth9")):
        with pytest.raises(collective.TransportError, match=text):
            collective.Communicator(0, 1, alone, host=host)
    with pytest.raises(pith.ArgumentError, match="kind"):
        collective.Communicator(0, 1, alone).channel("sum", "raw", dtype="f32")


def copied(ranks):
    channel = ranks.channel("allreduce", "raw", count=5, dtype="f32")
    x = np.ones(5, np.float32)
    request = channel.start(x, x)
    for what, text in (
        (ranks, "every rank makes another"),
        (channel, r"save\(\) is"),
        (request, "wait for their end"),
    ):
        for how in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=text):
                how(what)
    request.wait()
    assert (x == ranks.ranks).all()


def test_what_speaks_with_other_ranks_is_not_copied():
    run(2, copied)


def dropped(ranks, n):
    """Rank 0 forgets a call and its channel: the others hear that it is gone, at once."""
    for i in range(4):
        channel = ranks.channel("allreduce", "grad:bits=8", count=n, dtype="f32", timeout=20)
        x, out = np.ones(n, np.float32), np.empty(n, np.float32)
        request = channel.start(x, out)
        if ranks.rank:
            begin = time.monotonic()
            with pytest.raises(collective.TransportError):
                request.wait()
            assert time.monotonic() - begin < 10
            continue
        for _ in range(i):
            request.test()
        seen = weakref.ref(channel)
        del channel, request, x, out
        gc.collect()
        assert seen() is None
        # Memory of the call is used again.
        assert sum(np.full(n, 7, np.float32)[0] for _ in range(4)) == 28


def waited_for_elsewhere(ranks, n):
    """Another thread has the last reference to a call, and waits in it."""

    def wait(request, reports):
        reports.append(request.wait())

    for _ in range(4):
        channel = ranks.channel("allreduce", "grad:bits=8", count=n, dtype="f32")
        reports = []
        x = np.ones(n, np.float32)
        request = channel.start(x, x)
        thread = threading.Thread(target=wait, args=(request, reports))
        seen = weakref.ref(channel)
        thread.start()
        del channel, request, x
        gc.collect()
        thread.join()
        assert reports[0].compressed
        del thread
        gc.collect()
        assert seen() is None


@pytest.mark.parametrize("forgotten", [dropped, waited_for_elsewhere])
def test_calls_that_are_forgotten(forgotten):
    run(3, forgotten, 300000)


def crossed(ranks):
    """Calls of three channels, of which every rank waits for another one first."""
    specs = ("raw", "grad:bits=8", "grad:bits=4")
    n = 300_000  # several slices
    channels = [ranks.channel("allreduce", one, count=n, dtype="f32") for one in specs]
    x = noise(n, seed=ranks.rank)
    wanted = [np.empty_like(x) for _ in channels]
    for channel, y in zip(channels, wanted, strict=True):
        channel.run(x, y, step=3)
    found = [np.empty_like(x) for _ in channels]
    calls = [c.start(x, y, step=3) for c, y in zip(channels, found, strict=True)]
    turned = calls[ranks.rank :] + calls[: ranks.rank]
    reports = collective.wait_all(iter(turned))
    assert all(same(a, b) for a, b in zip(wanted, found, strict=True))
    assert reports == [call.wait() for call in turned]
    assert reports == collective.wait_all(turned) and all(call.test() for call in calls)
    assert [c.in_flight for c in channels] == [None] * 3
    assert collective.wait_all([]) == [] and len(collective.wait_all(calls[:1] * 2)) == 2
    with pytest.raises(TypeError, match=r"requests\[1\]: expected a Request, found a str"):
        collective.wait_all([calls[0], "x"])


def test_calls_of_several_channels_are_waited_for_in_any_order():
    run(3, crossed)


def failing(ranks):
    channels = [ranks.channel("allreduce", "raw", count=50, dtype="f32") for _ in range(3)]
    x = noise(50)
    short = x if ranks.rank else x[:-1]
    calls = [c.start(y, x.copy()) for c, y in zip(channels, (x, short, x), strict=True)]
    with pytest.raises(pith.Error, match="rank 0" if ranks.rank else "49") as info:
        collective.wait_all(calls)
    assert info.value.item == 1
    assert [one is None for one in info.value.results] == [False, True, False]
    assert info.value.results[2] == calls[2].wait()
    return channels[1].run(x, x).compressed


def test_a_call_that_fails_says_which_it_was():
    assert run(2, failing) == [True, True]


def test_a_signal_ends_the_wait_for_all():
    ended = threading.Event()

    def one(ranks):
        channels = [ranks.channel("allreduce", "raw", count=9, dtype="f32") for _ in range(2)]
        if ranks.rank:
            ended.wait(TIMEOUT)
            for channel in channels:
                with pytest.raises((pith.errors.TransportError, pith.errors.BrokenError)):
                    channel.run(noise(9), noise(9))
            return
        calls = [channel.start(noise(9), noise(9)) for channel in channels]

        def handler(*_):
            raise Interrupted

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            with pytest.raises(Interrupted):
                collective.wait_all(calls)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert [channel.in_flight for channel in channels] == [None, None]
        with pytest.raises(pith.errors.TransportError):
            collective.wait_all(calls)
        for channel in channels:
            channel.close()
        ended.set()

    exchange_of = exchanges(2)
    failed = []

    def other():
        try:
            one(collective.Communicator(1, 2, exchange_of(1), timeout=TIMEOUT))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    one(collective.Communicator(0, 2, exchange_of(0), timeout=TIMEOUT))
    thread.join()
    assert not failed


def measured(ranks):
    found = ranks.break_even("allreduce", "grad:bits=8", dtype="f32", threads=1)
    assert found.elements is None or found.elements in [2**n for n in range(10, 21, 2)]
    assert min(found[1:]) > 0
    channel = ranks.channel("allgather", "raw", count=8, dtype="f32")  # others are made as before
    channel.run(np.full(4, ranks.rank, np.float32), out := np.empty(8, np.float32))
    assert out.tolist() == [0] * 4 + [1] * 4
    for keys, error, text in (
        ({"kind": "alltoall"}, pith.ArgumentError, "reduce_scatter, allreduce, allgather"),
        ({"spec": "gard"}, pith.SpecError, "gard"),
        ({"dtype": "i8"}, pith.Error, None),
        ({"slice": -1}, pith.ArgumentError, "slice"),
        ({"threads": 0}, pith.ArgumentError, "threads"),
    ):
        with pytest.raises(error, match=text):
            ranks.break_even(**{"kind": "allreduce", "spec": "raw", "dtype": "f32", **keys})
    with pytest.raises(pith.Error, match="kind: found" if ranks.rank else "rank 1|another rank"):
        ranks.break_even("nothing" if ranks.rank else "allreduce", "raw", dtype="f32")
    return found


def test_where_frames_are_faster_is_measured():
    a, b = run(2, measured)
    assert a == b
