"""Plans, streams and lists: what ends remember, and that lists are what single calls are.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import copy
import pathlib
import pickle
import platform
import re
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from conftest import OnlyDlpack, interruptions, noise, same

import pith


def ends(spec="wdiff:bits=4", n=100, base_dtype="f32", **keys):
    plan = pith.Plan(spec, shape=n, dtype="f32", base_dtype=base_dtype, **keys)
    return plan, pith.Stream(plan), pith.Stream(plan)


# ---- Plans --------------------------------------------------------------------------------------


def test_plan_says_what_it_is():
    x = noise(6, 50)
    plan = pith.Plan("wdiff:bits=4", like=x, base_dtype="bf16", slots=4, checksums=True)
    assert (plan.shape, plan.dtype, plan.base_dtype) == ((6, 50), "f32", "bf16")
    assert (plan.slots, plan.count) == (4, 300)
    assert [plan.slot(i) for i in range(4)] == [(0, 75), (75, 75), (150, 75), (225, 75)]
    assert plan.spec == pith.check_spec("wdiff:bits=4")
    assert plan.sizes.slot_bytes >= plan.frame_bytes(0) and plan.sizes.fixed
    assert plan.frame_bytes(0, key_frame=True) <= plan.sizes.key_bytes
    assert not plan.is_key(3)
    every = pith.Plan("wdiff:key_every=3", like=x, base_dtype="f32")
    assert [every.is_key(i) for i in range(4)] == [True, False, False, True]
    for slot in (-1, 4):
        with pytest.raises(pith.ArgumentError, match="slot"):
            plan.slot(slot)
    assert "wdiff" in repr(plan) and "wdiff" in repr(pith.Stream(plan))


def test_shapes_are_numbers_of_any_kind():
    for shape in (300, np.int64(300), [300], np.array([300]), (np.int32(300),)):
        plan = pith.Plan("raw", shape=shape, dtype="f32")
        assert plan.shape == (300,) and type(plan.shape[0]) is int


def test_a_stream_is_of_a_plan():
    with pytest.raises(TypeError, match=r"needs a pith\.Plan, found str"):
        pith.Stream("grad")


def test_plans_with_equal_fingerprints_take_each_others_frames():
    a = pith.Plan("grad:bits=4", shape=100, dtype="f32")
    b = pith.Plan("grad:bits=4,round=stochastic", shape=100, dtype="f32")
    c = pith.Plan("grad:bits=8", shape=100, dtype="f32")
    assert a.fingerprint == b.fingerprint != c.fingerprint
    frame = pith.Stream(b).encode(noise(100))
    pith.Stream(a).decode(frame)
    with pytest.raises(pith.MismatchError):
        pith.Stream(c).decode(frame)


@pytest.mark.parametrize(
    "keys,error",
    [
        ({}, pith.ArgumentError),
        ({"shape": 4}, pith.ArgumentError),
        ({"shape": -4, "dtype": "f32"}, pith.ShapeError),
        ({"shape": (1,) * 9, "dtype": "f32"}, pith.ShapeError),
        ({"shape": 4, "dtype": "f32", "slots": 2, "slot_count": 1}, pith.ArgumentError),
        ({"shape": 4, "dtype": "f32", "slot_counts": [1, 2]}, pith.ArgumentError),
        ({"shape": 4, "dtype": "f32", "slots": 3, "slot_counts": [2, 2]}, pith.ArgumentError),
        ({"shape": 4, "dtype": "f32", "check_base": True}, pith.UnsupportedError),
        ({"shape": 4, "dtype": "f32", "trust_base": True}, pith.UnsupportedError),
        ({"shape": 4, "dtype": "i64"}, pith.DtypeError),
        ({"shape": 4, "dtype": "f32", "base_dtype": "i8"}, pith.DtypeError),
        ({"shape": 4, "dtype": "f32", "exempt": [(3, 2, "exact")]}, pith.ArgumentError),
        ({"shape": 4, "dtype": "f32", "exempt": [(0, 2, "x")]}, pith.ArgumentError),
    ],
)
def test_layouts_that_are_none(keys, error):
    with pytest.raises(error):
        pith.Plan("grad" if "exempt" in keys else "wdiff", **keys)


def test_plans_are_pickled():
    plan = pith.Plan(
        "wdiff:bits=8",
        shape=(10, 10),
        dtype="f16",
        base_dtype="f32",
        slot_counts=[30, 70],
        checksums=True,
        check_base=True,
        source=b"abc",
    )
    around = pith.Plan("grad", shape=99, dtype="f32", exempt=[(5, 5, "16")])
    assert pickle.loads(pickle.dumps(around)).fingerprint == around.fingerprint
    again = pickle.loads(pickle.dumps(plan))
    assert again.fingerprint == plan.fingerprint and again.sizes == plan.sizes
    assert again.slot(1) == (30, 70)
    x = noise(10, 10).astype(np.float16)
    frame = pith.Stream(again).encode(x, slot=1)
    assert frame == pith.Stream(plan).encode(x, slot=1)
    assert pith.inspect(frame).source == b"abc"


def test_works_are_pickled():
    """As scratch memory for the same calls, without what it holds."""
    x = noise(10, 10)
    plan = pith.Plan("raw", like=x)
    frame = pith.Stream(plan).encode(x)
    work = pickle.loads(pickle.dumps(pith.Work(plan, max_output=9)))
    with pytest.raises(pith.LimitError):
        pith.Stream(plan, work=work).decode(frame)
    assert pickle.loads(pickle.dumps(pith.Work([plan], threads=2))).threads == 2


# ---- Streams ------------------------------------------------------------------------------------


def test_ends_stay_alike():
    plan, a, b = ends(base_dtype="bf16")
    for i in range(5):
        x = noise(100, seed=i)
        y = b.decode(a.encode(x))
        assert a.base_hash() == b.base_hash() and a.step() == b.step() == i + 1
        assert same(y, b.get_base(dtype="f32"))
    assert b.stats.frames == 5 and a.plan is plan
    a.verify()


def test_key_frame_brings_a_late_joiner_up_to_date():
    _, a, b = ends()
    a.encode(noise(100))
    x = noise(100, seed=1)
    assert same(b.decode(a.encode(x, key_frame=True)), x)
    assert b.step() == 2 and a.stats.key_frames == 1
    plain = pith.Stream(pith.Plan("grad", shape=4, dtype="f32"))
    with pytest.raises(pith.UnsupportedError):
        plain.encode(noise(4), key_frame=True)


def test_key_every_has_room():
    _, a, b = ends("wdiff:key_every=2")
    for i in range(4):
        b.advance(a.encode(noise(100, seed=i)))
    assert b.base_hash() == a.base_hash()


def test_out_of_encode_and_decode():
    plan, a, b = ends()
    x, space = noise(100), bytearray(plan.sizes.slot_bytes)
    n = a.encode(x, out=space)
    y = np.zeros((10, 20), np.float32)
    out = y[::-1, ::2]
    assert b.decode(memoryview(space)[:n], out) is out
    assert same(out.ravel().copy(), b.get_base())
    place = np.zeros(plan.sizes.slot_bytes, np.uint8)
    n = a.encode(x, out=place)
    b.advance(place)
    assert a.base_hash() == b.base_hash()


def test_dtype_of_the_result():
    _, a, b = ends()
    y = b.decode(a.encode(noise(100)), dtype="f16")
    assert y.dtype == np.float16
    with pytest.raises(pith.DtypeError):
        b.decode(a.encode(noise(100)), dtype=np.int8)


def test_slots():
    plan = pith.Plan("wdiff", shape=(10, 10), dtype="f32", base_dtype="f32", slots=3)
    a, b = pith.Stream(plan), pith.Stream(plan)
    x = noise(10, 10)
    for i in range(3):
        first, count = plan.slot(i)
        frame = a.encode(x.ravel()[first : first + count] if i == 1 else x, slot=i)
        part = b.decode(frame, slot=i)
        assert part.shape == (count,)
        assert same(b.get_base(slot=i), part)
    assert same(b.get_base(), a.get_base()) and b.get_base().shape == (10, 10)
    assert a.step(0) == a.step(2) == 1
    a.set_step(7, slot=2)
    assert (a.step(0), a.step(2)) == (1, 7)
    for call in (a.step, a.base_hash, a.bound, a.nonzero):
        with pytest.raises(pith.ArgumentError):
            call(3)


def test_decode_add_with_and_without_a_base():
    _, a, b = ends("grad:bits=8", base_dtype=None)
    x, y = noise(100), np.ones(100, np.float32)
    frame = a.encode(x)
    assert b.decode_add(frame, y) is y
    assert same(y, np.float32(1) + b.decode(frame))
    _, a, _ = ends()
    z = np.zeros(100, np.float32)
    _, _, c = ends()
    assert np.abs(c.decode_add(a.encode(x), z) - x).max() < 1
    with pytest.raises(pith.BaseMismatchError):
        c.decode_add(a.encode(x), np.ones(100, np.float32))


def test_external_base():
    _, a, b = ends(external_base=True)
    w, v = np.zeros((10, 10), np.float32), np.zeros(100, np.float32)
    with pytest.raises(pith.StateError):
        a.encode(noise(100))
    for wrong, error in (
        (w.astype(np.float16), pith.DtypeError),
        (w[:5], pith.ShapeError),
        (np.zeros((10, 20), np.float32)[:, ::2], pith.ShapeError),
    ):
        with pytest.raises(error):
            a.bind_base(wrong)
    a.bind_base(w)
    b.bind_base(v)
    b.advance(a.encode(noise(100)))
    assert same(w.ravel(), v) and w.any()
    w += 1
    with pytest.raises(pith.BaseMismatchError):
        a.encode(noise(100))
    with pytest.raises(pith.BaseMismatchError):
        a.verify()
    with pytest.raises(pith.StateError, match="not pickled"):
        pickle.dumps(a)
    plain = pith.Stream(pith.Plan("grad", shape=100, dtype="f32"))
    with pytest.raises(pith.DtypeError, match="expected no base"):
        plain.bind_base(v)
    with pytest.raises(pith.StateError):
        plain.verify()


def test_a_base_is_kept_while_the_library_writes_to_it():
    plan = pith.Plan("wdiff", shape=100, dtype="f32", base_dtype="f32", external_base=True)

    class Trainer:
        """Streams with a base of their own, one after the other."""

        def bind(self):
            """Bind a base, which nothing but the stream and this object keep."""
            self.stream, self.x = pith.Stream(plan), np.zeros(100, np.float32)
            self.stream.bind_base(self.x)

        def check(self):
            """A base that is written to is one that the stream keeps."""
            with contextlib.suppress(pith.StateError):
                self.stream.encode(noise(100), key_frame=True)
            return not self.x.any() or sys.getrefcount(self.x) > 2

    trainer = Trainer()
    for _ in interruptions(lambda: trainer.bind()):
        if hasattr(trainer, "x"):
            assert trainer.check()
    assert trainer.check() and trainer.x.any()
    with pytest.raises(pith.DtypeError):
        trainer.stream.bind_base(np.zeros(100, np.float16))
    assert trainer.check()


def test_set_base_and_reset():
    _, a, b = ends()
    base = noise(100)
    for end in (a, b):
        end.set_base(base, step=5)
    assert a.step() == 5 and same(a.get_base(), base)
    b.advance(a.encode(base + 1))
    a.reset()
    assert a.step() == 0 and not a.get_base().any()
    with pytest.raises(pith.ShapeError):
        a.set_base(noise(99))


def test_error_feedback():
    plan = pith.Plan("grad:bits=4,ef=full", shape=256, dtype="f32")
    a, b = pith.Stream(plan), pith.Stream(plan)
    x = noise(256)
    frame = a.encode(x)
    residual = a.get_residual()
    assert np.abs(residual - (x - b.decode(frame))).max() < 1e-4
    assert a.encode(x) != frame
    a.rollback(1)
    assert a.step() == 1 and same(a.get_residual(), residual)
    a.set_residual(np.zeros(256, np.float32))
    assert not a.get_residual(first=10, count=20).any()
    a.set_residual(np.ones(10, np.float32), first=246)
    got = a.get_residual(np.zeros(10, np.float32), first=246)
    assert np.abs(got - 1).max() < 1e-5
    for first in (-1, 257):
        with pytest.raises(pith.ArgumentError):
            a.get_residual(first=first)
    with pytest.raises(pith.Error):
        a.get_residual(first=250, count=10)
    with pytest.raises(pith.ArgumentError):
        a.set_residual(np.array([np.nan], np.float32))
    with pytest.raises(pith.StateError):
        pith.Stream(pith.Plan("grad", shape=4, dtype="f32")).get_residual()


def test_random_bits():
    plan = pith.Plan("grad:bits=4,round=stochastic", shape=256, dtype="f32")
    x = noise(256)
    a, b = pith.Stream(plan, seed=3, rng_stream=1), pith.Stream(plan)
    frame = a.encode(x)
    assert b.encode(x) != frame
    b.set_random(seed=3, rng_stream=1)
    b.set_step(0)
    assert b.encode(x) == frame
    with pytest.raises(pith.ArgumentError):
        b.set_random(rank=3, ranks=2)
    with pytest.raises(pith.ArgumentError):
        pith.Stream(plan, rank=3, ranks=2)
    b.set_step(0)
    assert b.encode(x) == frame


def test_bounds():
    plan = pith.Plan("eb:abs=0.01", shape=1000, dtype="f32")
    s, x = pith.Stream(plan), noise(1000)
    sizes = [len(s.encode(x))]
    s.set_bound(0.1)
    assert s.bound() == 0.1
    sizes.append(len(s.encode(x)))
    s.set_bound(0)
    s.scale_bound(0.1)
    sizes.append(len(s.encode(x)))
    assert sizes[1] < sizes[0] < sizes[2]
    with pytest.raises(pith.ArgumentError):
        s.set_bound(-1)
    act = pith.Stream(pith.Plan("act:rel=0.001", shape=1000, dtype="f32"))
    act.encode(np.maximum(x, 0))
    assert act.nonzero() == pytest.approx((x > 0).mean(), abs=0.05)
    bound = act.adapt(momentum=1.0, gradient=0.1, samples=32)
    assert bound > 0 and act.bound() == bound


def has_huge_pages(address):
    """Whether the mapping at an address of this process asks for them."""
    inside = False
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        if ends := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(ends[1], 16) <= address < int(ends[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    pytest.fail("no such mapping")


@pytest.mark.skipif(
    not pathlib.Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="a kernel without huge pages",
)
@pytest.mark.parametrize("spec", ["raw", "lossless"])  # encoded where it stays, and copied
def test_large_frames_ask_for_huge_pages(spec):
    """Of more than 32 MiB: glibc maps these anew each time."""
    x = np.random.default_rng(1).integers(0, 256, 33 << 20, np.uint8)
    frame = pith.Stream(pith.Plan(spec, like=x)).encode(x)
    assert len(frame) > 32 << 20
    begin = np.frombuffer(frame, np.uint8).__array_interface__["data"][0]
    assert has_huge_pages(begin + len(frame) // 2)


@pytest.mark.parametrize(
    "spec,base_dtype", [("wdiff", "bf16"), ("grad:ef=full", None), ("lossless", "f32")]
)
def test_streams_are_kept(spec, base_dtype):
    plan = pith.Plan(spec, shape=200, dtype="f32", base_dtype=base_dtype)
    a = pith.Stream(plan, seed=9, rng_stream=4)
    a.encode(noise(200))
    b = pith.Stream(plan)
    b.load_state_dict(a.state_dict())
    c, d = pickle.loads(pickle.dumps(a)), copy.deepcopy(a)
    e = pith.Stream(plan, seed=9, rng_stream=4)
    e.load(a.save())
    x = noise(200, seed=1)
    frames = [end.encode(x) for end in (a, b, c, d, e)]
    assert len(set(frames)) == 1
    before = e.save()
    for wrong in (b"", b"x" * 100, before[:-1]):
        with pytest.raises(pith.Error):
            e.load(wrong)
    other = pith.Stream(pith.Plan(spec, shape=201, dtype="f32", base_dtype=base_dtype))
    with pytest.raises(pith.MismatchError):
        other.load(before)
    with pytest.raises(pith.ArgumentError, match="state"):
        e.load_state_dict({"random": {}})
    with pytest.raises(pith.ArgumentError, match="state: expected a dict, found a NoneType"):
        e.load_state_dict(None)
    assert e.save() == before


def kept_bucket(seed):
    plan = pith.Plan("grad:ef=full", shape=200, dtype="f32", slots=2)
    wide = pith.Stream(plan, seed=seed)
    other = pith.Stream(pith.Plan("wdiff", shape=50, dtype="f32", base_dtype="bf16"))
    return pith.Bucket([(wide, 1), other, (wide, 0)], threads=2)


def test_buckets_are_kept():
    a, tensors = kept_bucket(9), [noise(100), noise(50), noise(100, seed=1)]
    a.encode(tensors)
    b, c, d = kept_bucket(0), pickle.loads(pickle.dumps(a)), copy.deepcopy(a)
    b.load_state_dict(a.state_dict())
    state = a.state_dict()
    assert [set(one) for one in state["streams"]] == [{"spec", "state"}] * 2
    for wrong, error, text in (
        ({}, pith.ArgumentError, "state: found no streams"),
        ({"streams": None}, pith.ArgumentError, "state: found no streams"),
        ({"streams": [None, None]}, pith.ArgumentError, "expected a dict, found a NoneType"),
        ([], pith.ArgumentError, "state: expected a dict, found a list"),
        ({"streams": state["streams"][:1]}, pith.MismatchError, "found 1 stream, expected 2"),
        ({"streams": state["streams"][::-1]}, pith.MismatchError, "found spec"),
        ({"streams": [kept_bucket(1).state_dict()["streams"][0], {}]}, pith.ArgumentError, "found"),
    ):
        with pytest.raises(error, match=text):
            b.load_state_dict(wrong)
    assert b.state_dict() == state
    for _ in range(2):
        frames = [bucket.encode(tensors) for bucket in (a, b, c, d)]
        assert all(each == frames[0] for each in frames)
    base = np.zeros(9, np.float32)
    bound = pith.Stream(pith.Plan("wdiff", like=base, base_dtype="f32", external_base=True))
    bound.bind_base(base)
    with pytest.raises(pith.StateError, match="memory of others is not pickled"):
        pickle.dumps(pith.Bucket([bound]))
    with pytest.raises(pith.StateError, match=r"work of its own is not pickled: save its state_d"):
        pickle.dumps(pith.Bucket([bound], work=pith.Work(bound.plan)))


def test_lists_are_for_buckets():
    stream, x = pith.Stream(pith.Plan("grad", shape=9, dtype="f32")), noise(9)
    frame = stream.encode(x)
    for listed in ([x, x], (x, x)):
        for call in (stream.encode, lambda y: stream.decode(frame, y), stream.set_base):
            with pytest.raises(pith.DtypeError, match=r"found (list|tuple): pith\.Bucket takes"):
                call(listed)
    with pytest.raises(pith.DtypeError, match=r"^frame: .* found a list: pith\.Bucket takes lists"):
        stream.decode([frame, frame])


def test_what_is_made_is_not_made_again():
    plan = pith.Plan("grad", shape=100, dtype="f32")
    stream = pith.Stream(plan)
    bucket = pith.Bucket([stream])
    work = pith.Work(plan)
    x = noise(100)
    expected = pith.Stream(plan).encode(x)
    state = stream.__getstate__()
    for again in (
        lambda: stream.__setstate__(state),
        lambda: stream.__init__(pith.Plan("grad", shape=9, dtype="f32")),
        lambda: bucket.__init__([]),
        lambda: bucket.__setstate__({"ends": [], "threads": 1}),
        lambda: plan.__init__("grad", shape=9, dtype="f32"),
        lambda: work.__init__([]),
    ):
        with pytest.raises(pith.StateError, match="make another"):
            again()
    assert bucket.encode([x]) == [expected]


class _Stream(pith.Stream):
    """A stream with something of its own, which is there before the stream is."""

    def __init__(self, plan, name):
        self.name = name
        super().__init__(plan)


def test_classes_of_ones_own():
    plan = pith.Plan("grad", shape=100, dtype="f32")
    assert _Stream(plan, "own").encode(noise(100)) == pith.Stream(plan).encode(noise(100))


def test_what_is_loaded_brings_its_random_bits():
    plan = pith.Plan("grad:bits=4,round=stochastic", shape=256, dtype="f32")
    a, x = pith.Stream(plan, seed=3, rng_stream=1), noise(256)
    saved, frame = a.save(), a.encode(x)
    b = pith.Stream(plan, seed=5)
    b.load(saved)
    c = pith.Stream(plan)
    c.load_state_dict(b.state_dict())
    d = pickle.loads(pickle.dumps(b))
    assert [end.encode(x) for end in (b, c, d)] == [frame] * 3
    b.reset()
    d.reset()
    assert b.encode(x) == d.encode(x) == pith.Stream(plan, seed=5).encode(x)
    other = pith.Plan("grad:bits=4,round=nearest", shape=256, dtype="f32")
    with pytest.raises(pith.MismatchError, match="round"):
        pith.Stream(other).load_state_dict(a.state_dict())


def test_calls_that_read_keep_those_that_write_out():
    plan = pith.Plan("wdiff", shape=1 << 22, dtype="f32", base_dtype="f32")
    end, ended = pith.Stream(plan), threading.Event()

    def read():
        while not ended.is_set():
            with contextlib.suppress(pith.BusyError):
                end.save()

    def other(call):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                call()
            except pith.BusyError as error:
                assert error.results is None
                return True
            except pith.ShapeError:
                pass  # it met no reader: encode was given a tensor of no elements
        return False

    bucket = pith.Bucket([end])
    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert other(lambda: end.set_step(0))
        assert other(lambda: end.encode(np.zeros(1, np.float32)[:0]))
        assert other(lambda: bucket.encode([np.zeros(1, np.float32)[:0]]))
    finally:
        ended.set()
        thread.join()
    end.set_step(0)


def test_bases_are_copied_as_asked():
    plan = pith.Plan("wdiff", shape=10, dtype="f32", base_dtype="f32", slot_counts=[4, 6])
    end = pith.Stream(plan)
    end.set_base(np.arange(10, dtype=np.float32))
    assert same(end.get_base(slot=1), np.arange(4, 10, dtype=np.float32))
    for slot, count in ((None, 4), (1, 10), (0, 3)):
        with pytest.raises(pith.ShapeError, match="out"):
            end.get_base(np.zeros(count, np.float32), slot=slot)


def test_a_given_work():
    x = noise(1000)
    plan = pith.Plan("eb:abs=0.01", like=x)
    small = pith.Work(pith.Plan("eb:abs=0.01", shape=10, dtype="f32"))
    with pytest.raises(pith.SpaceError):
        pith.Stream(plan, work=small).encode(x)
    work = pith.Work([plan], max_output=100)
    assert work.threads == 1 and "1 plans" in repr(work)
    frame = pith.Stream(plan, work=work).encode(x)
    with pytest.raises(pith.LimitError):
        pith.Stream(plan, work=work).decode(frame)
    with pytest.raises(pith.StateError, match="work of its own"):
        pickle.dumps(pith.Stream(plan, work=work))


def test_arguments_are_refused_where_they_are_given():
    plan = pith.Plan("grad", shape=10, dtype="f32")
    for threads in (0, -1, 1025):
        with pytest.raises(pith.ArgumentError, match="threads"):
            pith.Stream(plan, threads=threads)
        with pytest.raises(pith.ArgumentError, match="threads"):
            pith.Bucket([], threads=threads)
    with pytest.raises(TypeError, match="found int"):
        pith.Bucket([5])
    with pytest.raises(TypeError, match="found a tuple of 3"):
        pith.Bucket([(pith.Stream(plan), 0, 1)])
    ends = pith.Bucket([pith.Stream(plan)])
    for to in (None, pith.Stream(plan), []):
        with pytest.raises(TypeError, match=r"^to: expected a pith\.Bucket, found"):
            ends.reduce_encode([[]], to)
    with pytest.raises(pith.OutOfMemoryError, match="no memory for"):
        pith.Stream(pith.Plan("grad:ef=full", shape=1 << 50, dtype="f32"))
    end = pith.Stream(pith.Plan("grad:ef=full", shape=10, dtype="f32"))
    with pytest.raises(pith.ArgumentError, match="count"):
        end.get_residual(count=-1)
    for source in (10, "text", [1, 2]):
        with pytest.raises(pith.DtypeError):
            pith.Plan("grad", shape=10, dtype="f32", source=source)
        with pytest.raises(pith.DtypeError):
            pith.compress(noise(10), source=source)
    with pytest.raises(pith.ArgumentError, match="at most 1048576 bytes of source, not 1048577"):
        pith.compress(noise(10), source=bytes((1 << 20) + 1))


# ---- Sums ---------------------------------------------------------------------------------------


def test_reduce():
    plan = pith.Plan("grad:bits=8", shape=(8, 64), dtype="f32")
    streams = [pith.Stream(plan, rng_stream=i) for i in range(4)]
    tensors = [noise(8, 64, seed=i) for i in range(4)]
    frames = [s.encode(x) for s, x in zip(streams, tensors, strict=True)]
    receiver = pith.Stream(plan)
    total = receiver.reduce(frames, scale=0.25)
    assert np.abs(total - sum(tensors) / 4).max() < 0.1
    out = np.zeros((8, 64), np.float16)
    assert receiver.reduce(frames, out) is out and np.abs(out - sum(tensors)).max() < 0.4
    to = pith.Stream(pith.Plan("grad:bits=8,round=nearest", shape=(8, 64), dtype="f32"))
    again = receiver.reduce_encode(frames, to, scale=0.25)
    assert to.step() == 1 and np.abs(to.decode(again) - total).max() < 0.1
    with pytest.raises(pith.TruncatedError):
        receiver.reduce([frames[0], frames[1][:-1]])
    with pytest.raises(pith.ArgumentError):
        receiver.reduce_encode(frames, receiver)
    # Which the library would take for 1.
    for scale in (0, -0.0, 1e-46):
        with pytest.raises(pith.ArgumentError, match="scale"):
            receiver.reduce(frames, scale=scale)
        with pytest.raises(pith.ArgumentError, match="scale"):
            receiver.reduce_encode(frames, to, scale=scale)
    with pytest.raises(TypeError, match="scale: expected a number, found '1'"):
        receiver.reduce(frames, scale="1")


# ---- Lists --------------------------------------------------------------------------------------

MIXED = [
    ("grad:bits=4,ef=full", 1000, None),
    ("wdiff", 333, "bf16"),
    ("lossless", 77, "f32"),
    ("eb:abs=0.01", 500, None),
    ("raw", 0, None),
    ("kv:page=16", 640, None),
]


def mixed(**keys):
    plans = [pith.Plan(s, shape=n, dtype="f32", base_dtype=b) for s, n, b in MIXED]
    return [pith.Stream(plan, rng_stream=i, **keys) for i, plan in enumerate(plans)]


@pytest.mark.parametrize("threads", [1, 2])
def test_lists_are_what_single_calls_are(threads):
    singles, receivers = mixed(), mixed()
    try:
        listed = pith.Bucket(mixed(), threads=threads)
        takers = pith.Bucket(mixed(), threads=threads)
        listed.encode([noise(n) for _, n, _ in MIXED])
    except pith.UnsupportedError:
        pytest.skip("this build has no threads")
    for s, (_, n, _) in zip(singles, MIXED, strict=True):
        s.encode(noise(n))
    listed, takers = pith.Bucket(mixed(), threads=threads), pith.Bucket(mixed(), threads=threads)
    singles = mixed()
    for step in range(3):
        tensors = [noise(n, seed=step) for _, n, _ in MIXED]
        frames = listed.encode(tensors)
        assert frames == [s.encode(x) for s, x in zip(singles, tensors, strict=True)]
        space = bytearray(listed.nbytes)
        values = takers.decode(frames)
        for y, r, frame in zip(values, receivers, frames, strict=True):
            assert same(y, r.decode(frame))
        assert len(space) >= max(listed.offsets)


def test_list_out():
    bucket, twin = pith.Bucket(mixed()), pith.Bucket(mixed())
    tensors = [noise(n) for _, n, _ in MIXED]
    space = np.zeros(bucket.nbytes, np.uint8)
    lengths = bucket.encode(tensors, out=space)
    frames = twin.encode(tensors)
    for at, n, frame in zip(bucket.offsets, lengths, frames, strict=True):
        assert space[at : at + n].tobytes() == frame
    with pytest.raises(pith.SpaceError):
        bucket.encode(tensors, out=bytearray(bucket.nbytes - 1))
    outs = [np.zeros(n, np.float32) for _, n, _ in MIXED]
    assert all(a is b for a, b in zip(pith.Bucket(mixed()).decode(frames, outs), outs, strict=True))


WAYS = [
    ("raw", None),
    ("grad:bits=4,ef=full", None),
    ("wdiff:key_every=3", "bf16"),
    ("kv:page=16", None),
    ("lossless", "f32"),
    ("eb:abs=0.01", None),
    ("topk:density=0.1", None),
]


@pytest.mark.parametrize(("spec", "base"), WAYS)
@pytest.mark.parametrize("slots", [1, 3])
def test_frames_are_the_same_wherever_they_are_made(spec, base, slots):
    """As objects, encoded in place or copied, alone and in lists; and in memory that is given."""
    plan = pith.Plan(spec, shape=640, dtype="f32", base_dtype=base, slots=slots)
    plain, listed, twin = (pith.Stream(plan) for _ in range(3))
    bucket = pith.Bucket([(listed, slot) for slot in range(slots)])
    space = bytearray(max(plan.sizes.slot_bytes, plan.sizes.key_bytes))
    for step in range(7):
        x = noise(640, seed=step)
        key = base is not None and step == 5 and spec != "lossless"
        frames = bucket.encode([x] * slots, key_frame=key)
        for slot, frame in enumerate(frames):
            n = twin.encode(x, slot=slot, out=space, key_frame=key)
            assert type(frame) is bytes and frame == bytes(space[:n])
            assert plain.encode(x, slot=slot, key_frame=key) == frame
            if plan.sizes.fixed:
                assert n == plan.frame_bytes(slot, key or plan.is_key(step))


def test_what_is_refused_makes_no_frame():
    plan = pith.Plan("raw", shape=10, dtype="f32")
    end = pith.Stream(plan)
    bucket, x = pith.Bucket([end]), noise(10)
    for call in (end.encode, lambda x, **keys: bucket.encode([x], **keys)):
        for error, refused in (
            (pith.ShapeError, lambda call=call: call(noise(11))),
            (pith.UnsupportedError, lambda call=call: call(x, key_frame=True)),
            (pith.UnsupportedError, lambda call=call: call(x, held_set=True)),
        ):
            with pytest.raises(error):
                refused()
    for slot in (1, 1 << 40):
        with pytest.raises(pith.ArgumentError, match="there is none with number"):
            end.encode(x, slot=slot)
        with pytest.raises(pith.ArgumentError, match="there is none with number"):
            pith.Bucket([(end, slot)]).encode([x])
    assert end.step() == 0 and end.encode(x) and end.step() == 1


def test_frames_for_which_there_is_no_memory():
    n = 1 << 50
    x = np.broadcast_to(np.float32(1), (n,))
    for spec in ("raw", "eb:abs=0.5"):
        end = pith.Stream(pith.Plan(spec, shape=n, dtype="f32"))
        for call in (lambda e=end: e.encode(x), lambda e=end: pith.Bucket([e]).encode([x])):
            with pytest.raises(pith.OutOfMemoryError, match="no memory for"):
                call()
        assert end.step() == 0


def test_frames_are_nobody_elses():
    end = pith.Stream(pith.Plan("raw", shape=1 << 14, dtype="f32"))
    bucket, x = pith.Bucket([end, pith.Stream(end.plan)]), noise(1 << 14)
    for call in (lambda: [end.encode(x)], lambda: bucket.encode([x, x])):
        alone = sys.getrefcount(object())  # a local variable is one more
        for frame in call():
            assert sys.getrefcount(frame) == alone + 2  # it, and the list
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            call()
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 16
        tracemalloc.stop()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's allocator")
def test_frames_of_lists_take_no_fresh_pages(tmp_path):
    """In a process that has given no large block back before."""
    code = """if True:
        import resource, sys, numpy, pith
        tensors = [numpy.ones(20000, numpy.float32)] * 100
        plan = pith.Plan("raw", like=tensors[0])
        bucket = pith.Bucket([pith.Stream(plan) for _ in tensors])
        for _ in range(5):
            frames = bucket.encode(tensors)
            del frames
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            frames = bucket.encode(tensors)
            del frames
        found = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        sys.exit(f"{found} pages" if found > 5 * bucket.nbytes / 4096 / 4 else 0)
    """
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert run.returncode == 0


def test_lists_of_any_tensors():
    n, plan = 12, pith.Plan("raw", shape=12, dtype="f32")
    x = noise(n)
    strided = np.zeros((n, 3), np.float32)
    strided[:, 1] = x
    reverse = x[::-1].copy()[::-1]
    frame = pith.Stream(plan).encode(x)
    for tensors in (
        [x, strided[:, 1], reverse, x.reshape(3, 4)],
        [x, memoryview(x), OnlyDlpack(x)],
        [OnlyDlpack(x), x],
    ):
        bucket = pith.Bucket([pith.Stream(plan) for _ in tensors])
        assert bucket.encode(y for y in tensors) == [frame] * len(tensors)
    locked = np.zeros(n, np.float32)
    locked.flags.writeable = False
    refused = [
        (pith.ArgumentError, "read-only", locked),
        (pith.DtypeError, "f4|float32", np.zeros(n, ">f4")),
        (pith.DtypeError, "found str", "text"),
        (pith.DtypeError, "complex64", np.zeros(n, np.complex64)),
        (pith.DtypeError, "masked", np.ma.masked_array(x)),
        (pith.ShapeError, "9 dimensions", np.zeros((1,) * 9, np.float32)),
        (pith.ShapeError, "stride", np.zeros(4 * n, "u1,f4")["f1"][:n]),
    ]
    for error, text, y in refused:
        bucket = pith.Bucket([pith.Stream(plan) for _ in range(3)])
        with pytest.raises(error, match=text) as caught:
            bucket.decode([frame] * 3, [np.zeros_like(x), y, np.zeros_like(x)])
        assert caught.value.item == 1
    mixed_frames = [frame, bytearray(frame), memoryview(frame), frame]
    bucket = pith.Bucket([pith.Stream(plan) for _ in mixed_frames])
    assert all(same(y, x) for y in bucket.decode(mixed_frames))


def test_list_of_slots():
    plan = pith.Plan("wdiff", shape=100, dtype="f32", base_dtype="f32", slots=3)
    a, b, c = (pith.Stream(plan) for _ in range(3))
    x = noise(100)
    frames = pith.Bucket([(a, i) for i in range(3)]).encode([x] * 3)
    assert frames == [b.encode(x, slot=i) for i in range(3)]
    out = np.zeros(100, np.float32)
    pith.Bucket([(c, i) for i in range(3)]).decode(frames, [out] * 3)
    assert same(out, a.get_base())
    with pytest.raises(pith.ArgumentError):
        pith.Bucket([(a, 1), (a, 1)]).encode([x, x])


def test_list_errors_name_the_item_and_keep_the_others():
    plan = pith.Plan("wdiff", shape=50, dtype="f32", base_dtype="f32")
    a = pith.Bucket([pith.Stream(plan) for _ in range(3)])
    b = pith.Bucket([pith.Stream(plan) for _ in range(3)])
    frames = a.encode([noise(50)] * 3)
    bad = [frames[0], frames[1][:-5], frames[2]]
    with pytest.raises(pith.TruncatedError) as caught:
        b.decode(bad)
    assert caught.value.item == 1
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert error.item == 1 and error.results[1] is None
        assert same(error.results[0], error.results[2])
    with pytest.raises(pith.DtypeError) as caught:
        a.encode([noise(50), noise(50), "x"])
    assert caught.value.item == 2
    with pytest.raises(pith.ArgumentError, match="found 2, expected 3"):
        a.encode([noise(50)] * 2)
    with pytest.raises(pith.ShapeError) as caught:
        a.encode([noise(50), noise(51), noise(50)])
    assert caught.value.item == 1 and caught.value.results == [None] * 3
    assert pith.Bucket([]).encode([]) == [] and len(pith.Bucket([])) == 0


def test_list_sums():
    plan = pith.Plan("grad:bits=8", shape=128, dtype="f32")
    streams = [pith.Stream(plan, rng_stream=i) for i in range(3)]
    bucket = pith.Bucket(streams)
    lists = [[s.encode(noise(128, seed=k)) for k in range(3)] for s in streams]
    singles = [s.reduce(some) for s, some in zip(streams, lists, strict=True)]
    for y, z in zip(bucket.reduce(lists), singles, strict=True):
        assert same(y, z)
    to, twins = [pith.Stream(plan) for _ in range(3)], [pith.Stream(plan) for _ in range(3)]
    frames = bucket.reduce_encode(lists, pith.Bucket(to))
    for frame, s, some, twin in zip(frames, streams, lists, twins, strict=True):
        assert frame == s.reduce_encode(some, twin)
    added = [np.zeros(128, np.float32) for _ in range(3)]
    assert same(
        bucket.decode_add([some[0] for some in lists], added)[0], streams[0].decode(lists[0][0])
    )
    with pytest.raises(pith.ArgumentError, match="found 2 streams"):
        bucket.reduce_encode(lists, pith.Bucket(to[:2]))
    with pytest.raises(pith.TruncatedError) as caught:
        bucket.reduce_encode([lists[0], [lists[1][0][:-1]], lists[2]], pith.Bucket(twins))
    assert caught.value.item == 1 and caught.value.results[1] is None
    for i in (0, 2):
        assert caught.value.results[i] == streams[i].reduce_encode(lists[i], to[i])
    with pytest.raises(pith.TruncatedError) as caught:
        bucket.reduce([lists[0], [lists[1][0][:-1]], lists[2]])
    assert caught.value.item == 1 and caught.value.results[1] is None


def test_summed_frames_are_encoded_where_they_stay(monkeypatch):
    """Those of lengths that are known beforehand, as encode does; others are copied once."""
    sizes = []
    own = pith.stream._Call.frame_memory
    monkeypatch.setattr(pith.stream._Call, "frame_memory", lambda *a: sizes.append(a[1]) or own(*a))
    plan = pith.Plan("grad:bits=8,rotate=0", shape=5000, dtype="f32")
    few = pith.Plan("topk:density=0.02", shape=5000, dtype="f32")
    streams = [pith.Stream(plan, rng_stream=i) for i in range(3)]
    lists = [[s.encode(noise(5000, seed=k)) for k in range(3)] for s in streams]
    sizes.clear()
    for plans, most in (([plan] * 3, 0), ([plan, few, plan], few.sizes.frame_bytes)):
        to, twins = ([pith.Stream(p) for p in plans] for _ in range(2))
        frames = pith.Bucket(streams).reduce_encode(lists, pith.Bucket(to))
        assert most <= sizes.pop() < most + 64
        for frame, s, some, twin in zip(frames, streams, lists, twins, strict=True):
            assert frame == twin.encode(s.reduce(some))


def test_lists_of_every_kind_of_tensor():
    plan = pith.Plan("grad", shape=(4, 6), dtype="f32")
    x = noise(4, 6)
    wide = noise(8, 12)
    wide[::2, ::2] = x
    kinds = [x, wide[::2, ::2], OnlyDlpack(x), memoryview(x)]
    frames = pith.Bucket([pith.Stream(plan) for _ in kinds]).encode(kinds)
    assert len(set(frames)) == 1


def switches_in(call):
    """Return how often another thread gets the interpreter's lock while a call runs."""
    turns, ended, interval = [], threading.Event(), sys.getswitchinterval()

    def take_turns():
        while not ended.is_set():
            turns.append(None)
            time.sleep(0)

    other = threading.Thread(target=take_turns)
    other.start()
    sys.setswitchinterval(100)  # nobody is made to give the lock away
    try:
        time.sleep(0.001)
        before = len(turns)
        call()
        return len(turns) - before
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        other.join()


def test_calls_on_small_tensors_alone_keep_the_interpreters_lock():
    for n in (1024, 1 << 20):
        x = noise(n)
        end, frame = pith.Stream(pith.Plan("raw", shape=n, dtype="f32")), pith.compress(x)
        made, out = end.encode(x), bytearray(8 * n)
        for call in (
            lambda end=end, x=x: end.encode(x),
            lambda end=end, x=x, out=out: end.encode(x, out=out),
            lambda end=end, x=x, made=made: end.decode(made, x),
            lambda x=x: pith.compress(x),
            lambda x=x, out=out: pith.compress(x, out=out),
            lambda x=x, frame=frame: pith.decompress(frame, out=x),
        ):
            if n == 1024:
                assert not any(switches_in(call) for _ in range(5))
            else:  # where another process has the core it takes several calls
                assert any(switches_in(call) for _ in range(1000))


def test_a_bytearray_keeps_its_size_while_a_call_uses_it():
    x = noise(1 << 21)
    end = pith.Stream(pith.Plan("grad", shape=x.size, dtype="f32"))
    compressed, out = bytearray(pith.compress(x, "grad")), bytearray(4 * x.size)
    for bytes_, call in (
        (out, lambda: end.encode(x, out=out)),
        (out, lambda: pith.compress(x, "grad", out=out)),
        (compressed, lambda: pith.decompress(compressed, out=x)),
    ):
        refused = []

        def repeat(call=call, refused=refused):
            for _ in range(2000):
                if refused:
                    return
                call()

        other = threading.Thread(target=repeat)
        other.start()
        while other.is_alive():
            try:
                bytes_.append(0)
            except BufferError:
                refused.append(None)
            time.sleep(0)
        other.join()
        assert refused


def test_frames_in_tensors_and_other_bytes():
    x = noise(300)
    end = pith.Stream(pith.Plan("raw", shape=300, dtype="f32"))
    frame = end.encode(x)
    outs = [np.zeros(2000, np.uint8), np.zeros((50, 10), np.float32), memoryview(bytearray(2000))]
    for out in (*outs, bytearray(2000), np.zeros((10, 40), "V5"), OnlyDlpack(outs[0])):
        assert end.encode(x, out=out) == len(frame)
        assert same(end.decode(out, np.empty_like(x)), x)
        assert pith.decompress(out).shape == x.shape
    for wrong in (np.zeros((2000, 2), np.uint8)[:, 0], np.zeros((2000, 2), np.uint8).T):
        with pytest.raises(pith.ArgumentError, match="expected contiguous bytes, found strides"):
            end.encode(x, out=wrong)
    outs[0].flags.writeable = False
    for wrong in (outs[0], frame, memoryview(frame)):
        with pytest.raises(pith.ArgumentError, match="read-only"):
            end.encode(x, out=wrong)


def test_a_negative_stride_that_is_no_multiple_is_refused():
    """The refusal was read as a status, and the exception was not of its class."""
    fields = np.zeros(4, [("a", "f4"), ("b", "u2")])
    stream = pith.Stream(pith.Plan("raw", shape=4, dtype="f32"))
    for x, stride in ((fields["a"], "6"), (fields["a"][::-1], "-6")):
        for call in (stream.encode, pith.compress, lambda x: stream.decode(b"", x)):
            with pytest.raises(pith.ShapeError, match=f"^a stride of {stride} bytes, expected a"):
                call(x)


def test_slots_in_the_order_of_an_exchange():
    assert pith.slot_order(2, 3) == [0, 3, 1, 4, 2, 5]
    assert pith.slot_order(3, 2) == [0, 2, 4, 1, 3, 5]
    assert pith.slot_order(0, 3) == pith.slot_order(3, 0) == []
    for wrong in ((-1, 3), (3, -1), (-2, -2), (2**40, 1)):
        with pytest.raises(pith.ArgumentError, match="expected numbers from 0"):
            pith.slot_order(*wrong)
    with pytest.raises(TypeError):
        pith.slot_order(1.5, 2)
