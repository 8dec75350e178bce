"""Caches of keys and values, and pages.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import pickle
import signal
import threading
import time
from copy import copy as copy_of
from copy import deepcopy

import numpy as np
import pytest
from conftest import noise, same

import pith
from pith import kv

SHAPE = (512, 4, 64)


def plan(spec="kv:preset=kivi4", dtype="f32", shape=SHAPE):
    return pith.Plan(spec, shape=shape, dtype=dtype)


def test_append_and_read():
    p = plan()
    x = noise(400, 4, 64)
    one, bulk = kv.Cache(p), kv.Cache(p, 400)
    bulk.append(x)
    for t in range(400):
        one.append(x[t : t + 1])
    assert len(one) == len(bulk) == 400 and one.finished == bulk.finished > 0
    assert 0 <= bulk.remaining < 128 and one.remaining >= 112
    assert one.nbytes > bulk.nbytes and one.plan is p
    assert one.save() == bulk.save()
    y = one.read()
    assert y.shape == x.shape and np.abs(y - x).max() < 0.5
    assert same(y[one.finished :], x[one.finished :])
    assert same(one.read(10, 20, head=1, heads=2), y[10:30, 1:3])
    out = np.zeros((4, 20, 64), np.float16).transpose(1, 0, 2)
    assert one.read(10, 20, out=out) is out
    assert same(out.copy(), y[10:30].astype(np.float16))
    assert one.read(dtype="f16", count=3).dtype == np.float16
    with pytest.raises(pith.SpaceError):
        bulk.append(x[: bulk.remaining + 1])
    for wrong in ((390, 20), (-1, 3), (401, 0)):
        with pytest.raises(pith.ArgumentError):
            one.read(*wrong)
    with pytest.raises(pith.ArgumentError):
        one.read(head=3, heads=2)
    with pytest.raises(pith.ShapeError):
        one.append(noise(3, 4, 65))
    with pytest.raises(pith.DtypeError):
        one.append(noise(3, 4, 64).astype(np.float16))
    assert one.stats.poisoned == 0 and "400 tokens" in repr(one)


def test_ranges_are_numbers_of_any_kind():
    cache = kv.Cache(plan(), 400)
    cache.append(noise(300, 4, 64))
    expected = cache.read(7, 20, head=1, heads=2)
    for of in (np.int64, np.uint8, np.array):
        assert same(cache.read(of(7), of(20), head=of(1), heads=of(2)), expected)
        lists = kv.read([cache] * 2, of(7), [of(20), 20], head=1, heads=2)
        assert same(lists[0], expected) and same(lists[1], expected)
    for at in ("first", "count", "head", "heads"):
        for value, error in ((-1, pith.ArgumentError), (1 << 70, pith.ArgumentError)):
            with pytest.raises(error, match=f"^{at}: found {value}, expected 0 to"):
                cache.read(**{at: value})
        for value in (1.5, "2", np.array(1.5)):
            with pytest.raises(TypeError, match=f"^{at}: expected an integer, found"):
                cache.read(**{at: value})
    for at in ("first", "count"):
        with pytest.raises(TypeError, match=f"^{at}: expected an integer, found 1.5"):
            kv.read([cache, cache], **{at: [1, 1.5]})
    for value in (-1, 1 << 70):
        with pytest.raises(pith.ArgumentError, match=r"^first: found"):
            cache.read_add(noise(1, 4, 64), value)
    with pytest.raises(TypeError, match=r"^tokens: expected an integer, found '2'"):
        kv.page_bytes(cache.plan, "2")


def test_caches_and_pages_are_of_a_plan():
    for call in (
        kv.check,
        kv.Cache,
        kv.page_tokens,
        kv.page_bytes,
        kv.idempotent_from,
        lambda p: kv.encode_pages(p, noise(2, 128, 4, 64), [0]),
        lambda p: kv.accumulate(p, bytearray(1), plan(), b""),
    ):
        with pytest.raises(TypeError, match=r"^plan: expected a pith\.Plan, found str"):
            call("kv")


def test_read_of_several():
    p, q = plan(), plan("kv:page=16")
    caches = [kv.Cache(p), kv.Cache(q), kv.Cache(p)]
    for i, cache in enumerate(caches):
        cache.append(noise(100 * (i + 1), 4, 64))
    whole = [cache.read() for cache in caches]
    for got, expected in zip(kv.read(caches), whole, strict=True):
        assert same(got, expected)
    twice = kv.read([caches[0], caches[0]], [3, 50], 7, head=1, heads=2, dtype="f16")
    assert same(twice[0], whole[0][3:10, 1:3].astype(np.float16))
    assert same(twice[1], whole[0][50:57, 1:3].astype(np.float16))
    out = [np.zeros((n, 4, 64), np.float32) for n in (1, 2, 3)]
    work = pith.Work([p, q], threads=2)
    for given, got in zip(out, kv.read(caches, 9, [1, 2, 3], out=out, work=work), strict=True):
        assert given is got
    assert all(same(x, y[9 : 9 + len(x)]) for x, y in zip(out, whole, strict=True))
    assert kv.read([]) == []
    kept = [x.copy() for x in out]
    with pytest.raises(pith.ArgumentError) as error:
        kv.read(caches, [0, 199, 0], [1, 2, 3], out=out)
    assert error.value.item == 1 and all(same(x, y) for x, y in zip(out, kept, strict=True))
    for more in ({}, {"out": [*out[:1], [1, 2], out[2]]}):
        with pytest.raises(pith.Error) as error:
            kv.read(caches, [0, 199 if not more else 0, 0], [1, 2, 3], **more)
        assert error.value.item == 1
    for wrong in ({"first": [1, 2]}, {"count": [1]}, {"out": out[:2]}, {"first": 99}, {"head": -1}):
        with pytest.raises(pith.ArgumentError):
            kv.read(caches, **{"count": 3, **wrong})


def test_reads_run_side_by_side_and_keep_writers_out():
    cache = kv.Cache(plan(shape=(16384, 8, 64)))
    cache.append(noise(16384, 8, 64))
    ended, met = threading.Event(), []

    def read():
        while not ended.is_set():
            try:
                cache.save()
                cache.read(0, 1)
            except pith.BusyError:
                met.append("a reader")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    try:
        while "a writer" not in met and time.monotonic() < until:
            try:
                kv.append([cache], [noise(1, 8, 32)])
            except pith.BusyError:
                met.append("a writer")
            except pith.ShapeError:
                pass
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert "a writer" in met
    assert len(cache.read()) == len(cache) == 16384


class Interrupted(BaseException):
    """What a signal's handler raises."""


def test_an_exception_of_a_signal_leaves_no_reader():
    def handler(*_):
        raise Interrupted

    cache, count = kv.Cache(plan()), 0
    cache.append(noise(3, 4, 64))
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for i in range(300):
            with contextlib.suppress(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + i * 1e-6)
                while True:
                    cache.read(0, 1)
                    assert cache.stats.poisoned == 0
                    cache.save()
                    cache.fork()
            count += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert count == 300
    cache.truncate(2)
    assert len(cache) == 2


def test_lists_of_caches():
    p, q = plan(), plan("kv:preset=kivi4", shape=(256, 2, 64))
    caches = [kv.Cache(p), kv.Cache(q), kv.Cache(p)]
    tensors = [noise(10, 4, 64), noise(20, 2, 64), noise(30, 4, 64)]
    kv.append(caches, tensors)
    assert [len(c) for c in caches] == [10, 20, 30]
    for c, x in zip(caches, tensors, strict=True):
        assert same(c.read(), x)
    with pytest.raises(pith.ShapeError) as caught:
        kv.append(caches, [tensors[0], tensors[0], tensors[2]])
    assert caught.value.item == 1 and len(caches[0]) == 10
    with pytest.raises(pith.ArgumentError, match="found 1, expected 3"):
        kv.append(caches, tensors[:1])
    with pytest.raises(pith.ArgumentError):
        kv.append([caches[0], caches[0]], [tensors[0], tensors[0]])
    kv.append([], [])


@pytest.mark.parametrize("tokens", [0, 3])
def test_a_cache_is_no_list_of_caches(tokens):
    """An empty cache, whose length is 0, was taken for an empty list: read returned []."""
    cache = kv.Cache(plan())
    cache.append(noise(tokens, 4, 64))
    for call in (
        lambda: kv.read(cache),
        lambda: kv.append(cache, []),
        lambda: kv.append(cache, noise(1, 4, 64)),
        lambda: kv.append_batch(cache, noise(1, 1, 4, 64)),
    ):
        with pytest.raises(TypeError, match=r"^caches: expected a list of them, found a pith\.kv"):
            call()


def test_append_batch_of_strided_tokens():
    p = plan()
    batch = noise(3, 4, 200, 64)  # [batch, heads, tokens, dim]
    a, b = [kv.Cache(p) for _ in range(3)], [kv.Cache(p) for _ in range(3)]
    for t in range(200):
        kv.append_batch(a, batch[:, :, t : t + 1].transpose(0, 2, 1, 3))
    for cache, x in zip(b, batch, strict=True):
        cache.append(x.transpose(1, 0, 2))
    assert [c.save() for c in a] == [c.save() for c in b]
    with pytest.raises(pith.ShapeError, match="found 2 sequences, expected 3"):
        kv.append_batch(a, batch[:2, :, :1].transpose(0, 2, 1, 3))
    with pytest.raises(pith.ShapeError, match="scalar"):
        kv.append_batch(a, np.float32(1))
    kv.append_batch([], np.zeros((0, 1, 4, 64), np.float32))


def test_a_cache_is_not_made_again():
    cache = kv.Cache(plan())
    cache.append(noise(3, 4, 64))
    with pytest.raises(pith.StateError, match="make another"):
        cache.__init__(plan(), tokens=1)
    assert len(cache.read()) == 3


@pytest.mark.parametrize("how", [copy_of, deepcopy, pickle.dumps])
def test_a_copy_is_no_second_name_of_a_cache(how):
    cache = kv.Cache(plan())
    with pytest.raises(TypeError, match=r"fork\(\) or save\(\)"):
        how(cache)


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("axis", ["token", "channel"])
def test_forks_of_what_was_cut_have_space(axis, copy):
    p = pith.Plan(f"kv:axis={axis},page=16,group=16", shape=(1000, 1, 8), dtype="f32")
    for cuts in (1, 2, 20):
        cache = kv.Cache(p)
        for kept in range(1, cuts + 1):  # with axis=channel a page of one token each
            cache.append(noise(16, 1, 8))
            cache.truncate(kept)
        expected = cache.read()
        for reserve in (0, 1, 16, 50):
            child = cache.fork(reserve=reserve, copy=copy)
            assert same(child.read(), expected) and child.remaining >= reserve
            child.append(noise(reserve, 1, 8))
            assert same(child.read(0, cuts), expected)
    for most in (1 << 62, (1 << 64) - 1):
        with pytest.raises(pith.ArgumentError, match="20 tokens"):
            cache.fork(most, copy=copy)
        with pytest.raises(pith.OutOfMemoryError):
            cache.fork(reserve=most, copy=copy)
    full = kv.Cache(p)
    full.append(noise(1000, 1, 8))
    assert len(full.fork(reserve=50, copy=copy)) == 1000


@pytest.mark.parametrize("axis", ["token", "channel"])
@pytest.mark.parametrize("window", [0, 5, 33])
def test_space_for_what_is_loaded(axis, window):
    page = 16
    p = pith.Plan(
        f"kv:axis={axis},page={page},group=16,window={window}", shape=(1000, 1, 8), dtype="f32"
    )
    cache, cuts = kv.Cache(p), 0
    for tokens, kept, forked in ((90, 37, 30), (50, 60, 45), (70, 101, 101), (1, 33, 20)):
        cache.append(noise(tokens, 1, 8))
        cuts += (kept < cache.finished) + (forked < cache.finished)
        cache.truncate(kept)
        cache = cache.fork(forked, reserve=200)
        for more in (0, 5, 20):
            cache.append(noise(more, 1, 8))
            space = window + len(cache) + page * (1 + cuts * (axis == "channel"))
            loaded = kv.Cache(p, space)
            loaded.load(cache.save())
            assert same(loaded.read(), cache.read())


@pytest.mark.parametrize("checksums", [False, True])
def test_damage_to_a_saved_cache_is_found_where_there_are_checksums(checksums):
    made = pith.Plan("kv:preset=kivi4", shape=SHAPE, dtype="f32", checksums=checksums)
    cache, other = kv.Cache(made), kv.Cache(made)
    cache.append(noise(300, *SHAPE[1:]))
    saved = bytearray(cache.save())
    saved[len(saved) // 2] ^= 1
    if checksums:
        with pytest.raises(pith.ChecksumError):
            other.load(saved)
    else:
        other.load(saved)
    assert len(other) == (0 if checksums else 300)


def test_fork_truncate_save_load():
    p = plan()
    x = noise(400, 4, 64)
    parent = kv.Cache(p)
    parent.append(x)
    for copy in (False, True):
        child = parent.fork(390, reserve=50, copy=copy)
        assert len(child) == 390 and same(child.read(), parent.read(0, 390))
        child.append(x[:50])
        assert len(child) == 440 and len(parent) == 400
    whole = parent.fork()
    assert len(whole) == 400
    orphan = parent.fork(reserve=1)
    saved, expected = parent.save(), parent.read()
    del parent
    assert same(orphan.read(), expected)
    other = kv.Cache(p)
    other.load(saved)
    assert other.save() == saved and same(other.read(), expected)
    other.truncate(100)
    assert len(other) == 100 and same(other.read(), expected[:100])
    with pytest.raises(pith.ArgumentError):
        other.truncate(101)
    with pytest.raises(pith.FrameError):
        other.load(saved[:-1])
    with pytest.raises(pith.MismatchError):
        kv.Cache(plan("kv:bits=8")).load(saved)
    with pytest.raises(pith.ArgumentError):
        other.fork(101)
    with pytest.raises(pith.ArgumentError, match="reserve: found -1"):
        other.fork(reserve=-1)
    assert len(other) == 100


def test_what_a_fork_reads_stays():
    """A fork read what its parent had appended after it was truncated."""
    p = plan()
    parent = kv.Cache(p)
    parent.append(noise(400, 4, 64))
    fork = parent.fork(390)
    expected = fork.read()
    for call in (lambda: parent.truncate(389), lambda: parent.load(parent.save())):
        with pytest.raises(pith.StateError, match=r"390 tokens a fork reads: fork with copy=True"):
            call()
    with pytest.raises(pith.ArgumentError):  # more than there are, as without forks
        parent.truncate(401)
    parent.truncate(390)
    parent.append(noise(100, 4, 64, seed=1))
    assert same(fork.read(), expected)
    fork.truncate(200)
    parent.truncate(200)
    assert same(fork.read(), expected[:200])
    second = fork.fork(reserve=400)  # which keeps the fork, and what that reads
    copy = parent.fork(copy=True)
    del fork
    with pytest.raises(pith.StateError, match="200 tokens"):
        parent.truncate(100)
    second.truncate(1)
    with pytest.raises(pith.StateError, match="200 tokens"):
        parent.truncate(100)
    second.load(copy.save())  # and lets go of the fork, which nobody else has
    parent.truncate(100)
    assert same(second.read(), copy.read())
    assert same(copy.read(), expected[:200])


def test_what_is_known_of_forks_ends_with_them():
    """A cache kept something of every fork that was made of it."""
    parent = kv.Cache(plan())
    parent.append(noise(300, 4, 64))
    kept = parent.fork()
    for _ in range(100):
        parent.fork()
    assert len(parent._forks) == 1
    with pytest.raises(pith.StateError):
        parent.truncate(299)
    del kept
    assert not parent._forks


def test_a_fork_that_shares_nothing_keeps_nothing():
    """A cache that was loaded kept the memory of the one that it had been forked from."""
    parent = kv.Cache(plan())
    parent.append(noise(300, 4, 64))
    saved = parent.save()
    for empty in (lambda fork: fork.load(saved), lambda fork: fork.truncate(0)):
        fork = parent.fork(200)
        second = fork.fork()
        with pytest.raises(pith.StateError):
            empty(fork)
        assert fork._parent is parent
        del second
        fork.truncate(100)
        assert fork._parent is parent
        empty(fork)
        assert fork._parent is None


@pytest.mark.parametrize("left", [50, 250])
def test_a_fork_that_meets_a_cut_shares_nothing(monkeypatch, left):
    """A call that looked for forks just before one was made cut the pages that it reads."""
    parent = kv.Cache(plan())
    parent.append(noise(400, 4, 64))
    fork = parent._fork

    def then_cut(*arguments):
        child = fork(*arguments)
        monkeypatch.undo()
        parent.truncate(0)
        parent.append(noise(left, 4, 64, seed=1))
        return child

    monkeypatch.setattr(parent, "_fork", then_cut)
    if left < 200:
        with pytest.raises(pith.ArgumentError, match=r"50 tokens: not 200"):
            parent.fork(200)
        return
    child = parent.fork(200)
    expected = child.read()
    assert same(expected, parent.read(0, 200))
    parent.truncate(0)
    parent.append(noise(250, 4, 64, seed=2))
    assert same(child.read(), expected)


def test_window_that_the_spec_names():
    p = plan("kv:preset=kivi4,window=32")
    cache = kv.Cache(p)
    cache.append(noise(300, 4, 64))
    child = cache.fork(reserve=200)
    child.append(noise(200, 4, 64, seed=1))
    assert len(child) == 500


def test_plans_without_caches():
    for spec in ("grad", "kv:entropy=zstd", "kv:order=heads"):
        p = plan(spec)
        for call in (kv.check, kv.Cache, kv.page_tokens, kv.page_bytes):
            with pytest.raises(pith.UnsupportedError):
                call(p)
        assert kv.idempotent_from(p) == np.inf


DELTA = "kv:window=0,outliers=none,axis=token,codebook=uniform,rotate_heads=off"


def test_deltas_along_layers():
    p = plan(DELTA)
    layers = [noise(100, 4, 64, seed=i) for i in range(3)]
    base = np.zeros((100, 4, 64), np.float32)
    reader = base.copy()
    for x in layers:
        cache = kv.Cache(p)
        cache.append_delta(x, base)
        assert cache.read_add(reader) is reader
        assert same(reader, base) and np.abs(base - x).max() < 1
    with pytest.raises(pith.UnsupportedError):
        kv.Cache(plan()).append_delta(layers[0], base)


def test_accumulate():
    p = pith.Plan(DELTA + ",bits=8", shape=(100, 4, 64), dtype="f32")
    x, d = noise(100, 4, 64), noise(100, 4, 64, seed=1)
    frame = bytearray(pith.Stream(p).encode(x))
    delta = pith.Stream(p).encode(d)
    out = np.zeros((100, 4, 64), np.float32)
    kv.accumulate(p, frame, p, delta, out)
    assert np.abs(out - x - d).max() < 0.1
    assert np.abs(pith.decompress(frame) - out).max() < 0.1
    before = bytes(frame)
    with pytest.raises(pith.FrameError):
        kv.accumulate(p, frame, p, delta[:-1])
    assert frame == before


@pytest.mark.parametrize("ids", [[3, 1, 7], np.array([0], np.int32), []])
def test_pages(ids):
    p = plan("kv:preset=kivi4,page=32")
    assert kv.page_tokens(p) == 32
    pool = noise(8, 2, 32, 4, 64)[:, 1]  # keys and values interleaved
    pages = kv.encode_pages(p, pool, ids)
    assert pages.shape == (len(ids), kv.page_bytes(p))
    back = np.zeros((8, 4, 32, 64), np.float32).transpose(0, 2, 1, 3)
    assert kv.decode_pages(p, pages, back, ids) is back
    for block in range(8):
        close = np.abs(back[block] - pool[block]).max() < 0.5
        assert close == (block in list(ids))
    if kv.idempotent_from(p) < 1:
        assert same(kv.encode_pages(p, np.ascontiguousarray(back), ids), pages)
    wide = np.zeros((len(ids) + 1, kv.page_bytes(p) + 7), np.uint8)
    assert kv.encode_pages(p, pool, ids, wide) is wide
    assert same(wide[: len(ids), :-7].copy(), pages)
    for page in pages:
        assert 0 < kv.page_bound(p, page) < 0.5


def test_short_pages():
    p = plan("kv:bits=8,page=16")
    pool = noise(4, 16, 4, 64)
    pages = kv.encode_pages(p, pool, [0, 1], tokens=[5, 16])
    back = np.ones_like(pool)
    kv.decode_pages(p, pages, back, [0, 1], tokens=[5, 16])
    assert np.abs(back[0, :5] - pool[0, :5]).max() < 0.1
    assert (back[0, 5:] == 1).all() and (back[2:] == 1).all()
    assert not pages[0, kv.page_bytes(p, 5) :].any()
    assert kv.page_bytes(p, 5) < kv.page_bytes(p)
    for wrong in ([0, 1], [17, 1], [1]):
        with pytest.raises(pith.ArgumentError):
            kv.encode_pages(p, pool, [0, 1], tokens=wrong)
    for wrong in ([float("nan"), 16], [1.5, 16]):
        with pytest.raises(pith.DtypeError, match="tokens"):
            kv.encode_pages(p, pool, [0, 1], tokens=wrong)
    with pytest.raises(pith.DtypeError, match="tokens: expected a list of integers"):
        kv.encode_pages(p, pool, [0, 1], tokens=[[1], [1, 2]])
    for wrong in (0, 17):
        with pytest.raises(pith.ArgumentError):
            kv.page_bytes(p, wrong)


def test_tokens_of_no_page():
    """They were not looked at."""
    p = plan("kv:bits=8,page=16")
    pool = noise(4, 16, 4, 64)
    assert kv.encode_pages(p, pool, [], tokens=[]).shape[0] == 0
    with pytest.raises(pith.ArgumentError, match="tokens: expected 0 numbers"):
        kv.encode_pages(p, pool, [], tokens=[1, 2])
    with pytest.raises(pith.ArgumentError, match="tokens: expected 0 numbers"):
        kv.decode_pages(p, kv.encode_pages(p, pool, []), pool, [], tokens=[1])


def test_pages_that_cannot_be():
    p = plan("kv:bits=8,page=16")
    pool, n = noise(4, 16, 4, 64), kv.page_bytes(p)
    for ids in ([4], [-1]):
        with pytest.raises(pith.ArgumentError, match="expected 0 to 3"):
            kv.encode_pages(p, pool, ids)
    with pytest.raises(pith.ArgumentError, match=f"found {2**63 + 5}, and no pool"):
        kv.encode_pages(p, pool, np.array([1, 2**63 + 5], np.uint64))
    for ids in ([0.5], [[1]], "12", [[1], [2, 3]]):
        with pytest.raises(pith.DtypeError, match="integers"):
            kv.encode_pages(p, pool, ids)
    with pytest.raises(pith.ArgumentError, match="found 0, and the pool has no blocks"):
        kv.encode_pages(p, pool[:0], [0])
    for out, error in (
        (np.zeros((1, n), np.int16), pith.DtypeError),
        (np.zeros((1, n - 1), np.uint8), pith.ShapeError),
        (np.zeros((0, n), np.uint8), pith.ShapeError),
        (np.zeros((1, 2 * n), np.uint8)[:, ::2], pith.ShapeError),
    ):
        with pytest.raises(error):
            kv.encode_pages(p, pool, [0], out)
    with pytest.raises(pith.ShapeError):
        kv.encode_pages(p, noise(4, 15, 4, 64), [0])
    with pytest.raises(pith.ArgumentError, match="twice"):
        kv.decode_pages(p, np.zeros((2, n), np.uint8), pool, [1, 1])
    with pytest.raises(pith.ArgumentError, match="found 3 bytes"):
        kv.page_bound(p, b"abc")


def test_pages_and_blocks_that_lie_on_each_other():
    p = plan("kv:preset=kivi4,page=32")
    pool = noise(4, 32, 4, 64)
    bytes_ = kv.page_bytes(p)
    whole = np.zeros(3 * bytes_, np.uint8)
    for step in (0, bytes_ - 1, 1 - bytes_):
        start = whole[2 * bytes_ :] if step < 0 else whole
        pages = np.lib.stride_tricks.as_strided(start, (2, bytes_), (step, 1))
        with pytest.raises(pith.ShapeError, match="over each other"):
            kv.encode_pages(p, pool, [0, 1], pages)
        kv.encode_pages(p, pool, [0], pages)
        kv.decode_pages(p, pages, pool, [0, 1])  # reading from them is no matter
    one = np.lib.stride_tricks.as_strided(noise(1, 32, 4, 64), pool.shape, (0, 1024, 256, 4))
    with pytest.raises(pith.ShapeError, match="over each other"):
        kv.decode_pages(p, kv.encode_pages(p, pool, [0, 1]), one, [0, 1])


def test_more_tokens_than_any_memory():
    p = plan()
    for tokens in (1 << 62, (1 << 64) - 1, 1 << 44):
        with pytest.raises(pith.OutOfMemoryError):
            kv.Cache(p, tokens)
    with pytest.raises(pith.OutOfMemoryError):
        kv.Cache(p).fork(reserve=1 << 60)
