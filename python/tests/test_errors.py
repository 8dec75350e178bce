"""Every class of exception, from a call that meets it; hostile frames.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import pathlib
import pickle
import re
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
from conftest import GOLDEN, OnlyDlpack, elsewhere, interruptions, noise, same

import pith
import pith.kv
from pith import dtypes, errors

EXPECTED = {
    "PITH_ERR_BASE": pith.BaseMismatchError,
    "PITH_ERR_TRUNCATED": pith.TruncatedError,
    "PITH_ERR_MAGIC": pith.MagicError,
    "PITH_ERR_NEWER": pith.NewerError,
    "PITH_ERR_CORRUPT": pith.CorruptError,
    "PITH_ERR_CHECKSUM": pith.ChecksumError,
}


def test_each_status_has_its_class_and_builtin():
    builtins = {
        pith.ArgumentError: ValueError,
        pith.DtypeError: TypeError,
        pith.LimitError: MemoryError,
        pith.UnsupportedError: NotImplementedError,
        pith.StateError: RuntimeError,
        pith.TruncatedError: EOFError,
        pith.BusyError: RuntimeError,
        pith.OutOfMemoryError: MemoryError,
        pith.FrameError: ValueError,
    }
    for cls, builtin in builtins.items():
        assert issubclass(cls, builtin) and issubclass(cls, pith.Error)
    for status in (
        *range(-1, -9, -1),
        *range(-20, -28, -1),
        *range(-40, -43, -1),
        *range(-60, -64, -1),
        -99,
    ):
        error = errors.from_status(status)
        assert type(error) is not pith.Error and error.status == status
        assert error.text and error.name.startswith("PITH_ERR_")
    assert type(errors.from_status(-70)) is pith.Error


def test_attributes_and_pickling():
    with pytest.raises(pith.SpecError) as caught:
        pith.Plan("eb:what=1", shape=4, dtype="f32")
    error = caught.value
    assert error.name == "PITH_ERR_SPEC" and error.offset == 3 and "what" in error.text
    assert str(error) == f"{error.text} (PITH_ERR_SPEC)"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and again.offset == 3


def test_argument_classes():
    x = noise(8)
    plan = pith.Plan("wdiff", like=x, base_dtype="f32")
    stream = pith.Stream(plan)
    with pytest.raises(pith.DtypeError):
        stream.encode(x.astype(np.float64))
    with pytest.raises(pith.ShapeError):
        stream.encode(noise(9))
    with pytest.raises(pith.SpaceError):
        stream.encode(x, out=bytearray(3))
    with pytest.raises(pith.ArgumentError):
        stream.encode(x, slot=1)
    with pytest.raises(pith.StateError):
        stream.rollback(0)
    with pytest.raises(pith.UnsupportedError):
        stream.set_bound(0.1)
    with pytest.raises(pith.UnsupportedError):
        pith.kv.check(plan)
    with pytest.raises(pith.DtypeError):
        pith.Plan("wdiff", shape=4, dtype="i32")
    with pytest.raises(OverflowError):
        stream.encode(x, slot=-1)
    assert stream.step() == 0 and stream.encode(x)


def test_stream_classes():
    x = noise(64)
    plan = pith.Plan("wdiff", like=x, base_dtype="f32")
    a, b = pith.Stream(plan), pith.Stream(plan)
    first, second = a.encode(x), a.encode(x + 1)
    with pytest.raises(pith.StepError):
        b.decode(second)
    b.decode(first)
    c = pith.Stream(plan)
    c.set_base(x, step=1)
    with pytest.raises(pith.BaseMismatchError):
        c.decode(second)
    with pytest.raises(pith.MismatchError):
        b.decode(pith.compress(x))
    before = b.base_hash()
    assert b.step() == 1 and before == b.base_hash()
    key = a.encode(x + 2, key_frame=True)
    assert same(c.decode(key), x + 2) and same(b.decode(key), x + 2)


def test_what_a_stream_does_not_have_is_said():
    """The texts spoke of a view without a dtype, and of what this codec or build cannot do."""
    x = noise(64)
    stream = pith.Stream(pith.Plan("grad", like=x))
    frame = stream.encode(x)
    with pytest.raises(pith.StateError, match="no base to advance"):
        stream.advance(frame)
    with pytest.raises(pith.DtypeError, match=r"out: expected the tensor .* found None"):
        stream.decode_add(frame, None)
    with pytest.raises(pith.UnsupportedError, match="the codec sends no sets"):
        stream.sparse_state()
    with pytest.raises(pith.ArgumentError, match="slot: found 3, expected 0 to 0"):
        pith.Stream(pith.Plan("topk", like=x)).sparse_state(3)


def golden_bad():
    lines = (GOLDEN / "golden-bad" / "EXPECTED").read_text().splitlines()
    return [line.split()[:2] for line in lines]


@pytest.mark.parametrize("name,status", golden_bad())
def test_hostile_frames(name, status):
    frame = (GOLDEN / "golden-bad" / f"{name}.pith").read_bytes()
    if status == "PITH_OK":
        pith.verify(frame)
    elif status == "PITH_ERR_BASE":
        pith.verify(frame)
        info = pith.inspect(frame)
        base = np.zeros(info.count, dtypes.numpy_dtype(dtypes.number_of(info.base_dtype)))
        with pytest.raises(pith.BaseMismatchError):
            pith.decompress(frame, base=base)
    elif status == "PITH_ERR_STATE":
        pith.verify(frame)
        with pytest.raises(pith.StateError):
            pith.decompress(frame)
        return
    else:
        with pytest.raises(EXPECTED[status]) as caught:
            pith.verify(frame)
        assert caught.value.name == status
    # A decoder need not see what a check of everything sees; it never crashes.
    with contextlib.suppress(pith.FrameError, pith.LimitError):
        pith.decompress(frame, max_output=1 << 24)


def test_errors_of_lists_name_the_entry():
    x = noise(10)
    bad = [x, x, x.astype(complex), x]
    streams = [pith.Stream(pith.Plan("grad", shape=10, dtype="f32")) for _ in bad]
    ends, frame = pith.Bucket(streams), streams[0].encode(x)
    plan = pith.Plan("kv:page=16", shape=(16, 1), dtype="f32")
    caches = [pith.kv.Cache(plan) for _ in bad]
    frames = [frame, bytearray(frame), "frame", frame]
    calls = [
        lambda: ends.encode(bad),
        lambda: ends.decode([frame] * 4, bad),
        lambda: ends.decode(frames),
        lambda: ends.reduce([[frame]] * 4, bad),
        lambda: ends.reduce([[frame, one] for one in frames]),
        lambda: pith.kv.append(caches, [one.reshape(10, 1) for one in bad]),
        lambda: pith.kv.read(caches, out=[one[:0].reshape(0, 1, 1) for one in bad]),
        lambda: pith.Stream(pith.Plan("topk", shape=10, dtype="f32")).hold(frames),
    ]
    for call in calls:
        with pytest.raises(pith.DtypeError) as caught:
            call()
        assert caught.value.item == 2
    with pytest.raises(TypeError, match=r"caches\[1\]: .* found Stream"):
        pith.kv.append([caches[0], streams[0]], [x.reshape(10, 1)] * 2)
    assert all(len(cache) == 0 for cache in caches)


def test_a_tensor_of_a_device_is_told_where_it_goes():
    for device, more in ((2, ", or make its frames there with pith.cuda.DeviceStream"), (10, "")):
        refusal = pith.views.lib.PITHPY_DEVICE | device << 8  # CUDA, ROCm
        text = str(pith.views.refused(refusal, OnlyDlpack(noise(1))))
        assert f"one on device type {device} of DLPack: give its cpu(){more} (PITH" in text


def test_numbers_that_c_has_not_are_refused_by_name():
    stream = pith.Stream(pith.Plan("raw", shape=9, dtype="f32"))
    keys = ("slots", "slot_count", "seed", "rng_stream", "rank", "ranks", "step")
    for key in keys:
        for value in (-1, 1 << 64, 1.5, "a"):
            wrong = pith.ArgumentError if isinstance(value, int) else TypeError
            with pytest.raises(wrong, match=f"^{key}: .*found {value!r}"):
                if key.startswith("slot"):
                    pith.Plan("raw", shape=9, dtype="f32", **{key: value})
                else:
                    pith.Stream(stream.plan, **{key: value})
    x = noise(9)
    for call in (
        *(stream.set_step, stream.rollback, stream.plan.is_key),
        *(lambda n: stream.set_base(x, n), lambda n: stream.bind_base(x, n)),
    ):
        for value in (-1, 1 << 64):
            with pytest.raises(pith.ArgumentError, match=f"^step: found {value}, expected 0 to"):
                call(value)
        with pytest.raises(TypeError, match=r"^step: expected an integer, found 1\.5"):
            call(1.5)
    for keys, text in (
        ({"shape": 1 << 70}, "shape"),
        ({"slot_counts": [9, -1]}, r"slot_counts\[1\]"),
        ({"exempt": [(0, 1)]}, r"exempt\[0\]"),
        ({"exempt": [(0, 1, "16"), (-1, 1, "16")]}, r"exempt\[1\]: first"),
        ({"exempt": [(0, 1, [])]}, r"exempt\[0\]"),
    ):
        with pytest.raises(pith.ArgumentError, match=f"^{text}: "):
            pith.Plan("grad", **{"shape": 9, "dtype": "f32", **keys})
    cache = pith.kv.Cache(pith.Plan("kv:page=16,group=16", shape=(64, 16), dtype="f32"))
    for value in (-1, 1 << 64):
        for call, key in (
            (lambda n: pith.kv.Cache(cache.plan, n), "tokens"),
            (cache.truncate, "tokens"),
            (cache.fork, "tokens"),
            (lambda n: cache.fork(reserve=n), "reserve"),
        ):
            with pytest.raises(pith.ArgumentError, match=f"^{key}: found {value}, expected 0 to"):
                call(value)
    for shape in (1.5, "34"):
        with pytest.raises(TypeError, match=r"^shape: expected integers, found"):
            pith.Plan("raw", shape=shape, dtype="f32")


class OtherDtype(np.ndarray):
    """An array that says another dtype than its memory has."""

    @property
    def dtype(self):
        """Four bytes an element."""
        return np.dtype(np.float32)


def test_no_more_is_read_than_an_array_has():
    plan, liars = pith.Plan("raw", shape=9, dtype="f32"), [np.zeros(9, np.uint8).view(OtherDtype)]
    with pytest.raises(pith.UnsupportedError, match="does not say where it lies"):
        pith.compress(liars[0])
    with pytest.raises(pith.UnsupportedError, match="does not say where it lies"):
        pith.Bucket([pith.Stream(plan)]).encode(liars)


def test_modules_that_are_imported_by_name():
    program = (
        "import pith\nfor name in ('collective', 'torch', 'nothing'):\n"
        "    try: getattr(pith, name)\n    except AttributeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    said = "module 'pith' has no attribute "
    assert done.stdout.decode().splitlines() == [
        f"{said}'collective': import pith.collective",
        f"{said}'torch': import pith.torch",
        f"{said}'nothing'",
    ]


def test_calls_import_nothing():
    # A process that is forked while another thread imports waits for that for ever.
    code = (
        "import sys, numpy as np, pith; before = set(sys.modules); x = np.ones(9, np.float32);"
        "s = pith.Stream(pith.Plan('grad', like=x)); s.decode(s.encode(x));"
        "pith.decompress(pith.compress(x)); pith.compress(bytes(9)); s.reduce([s.encode(x)]);"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_cut_of_a_frame():
    frame = pith.compress(noise(50), "eb:abs=0.01")
    for n in range(len(frame)):
        with pytest.raises(pith.TruncatedError):
            pith.decompress(frame[:n])


def test_flipped_bits():
    x = noise(60)
    frame = pith.compress(x, "grad")
    for i in range(len(frame)):
        bad = bytearray(frame)
        bad[i] ^= 0x10
        with pytest.raises(pith.Error):
            pith.decompress(bytes(bad))


def test_a_second_thread_is_refused_and_changes_nothing():
    x = noise(1 << 22)
    plan = pith.Plan("lossless", like=x, base_dtype="f32")
    stream, twin = pith.Stream(plan), pith.Stream(plan)
    busy, good = [], []

    def work():
        for _ in range(4):
            try:
                good.append(stream.encode(x))
            except pith.BusyError:
                busy.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert busy, "no call met another"
    assert stream.step() == len(good)
    for frame in sorted(good, key=lambda f: pith.inspect(f).step):
        twin.advance(frame)
    assert twin.base_hash() == stream.base_hash()


def test_an_exception_of_a_signal_leaves_no_stream_busy():
    plan = pith.Plan("grad:ef=full", shape=10, dtype="f32")
    end, twin = pith.Stream(plan), pith.Stream(plan)
    bucket, sums = pith.Bucket([end]), pith.Bucket([twin])
    x, frame = noise(10), pith.Stream(plan).encode(noise(10))
    calls = [
        lambda: end.stats,
        end.step,
        end.save,
        lambda: end.encode(x),
        lambda: end.decode(frame, x),
        lambda: end.get_residual(x),
        lambda: bucket.encode([x]),
        lambda: bucket.decode([frame], [x]),
        lambda: bucket.reduce([[frame]], [x]),
        lambda: bucket.reduce_encode([[frame]], sums),
    ]
    for call in calls:
        times = 0
        for _ in interruptions(call):
            times += 1
            assert not isinstance(elsewhere(end.step), Exception)
            assert not isinstance(elsewhere(twin.step), Exception)
        assert times > 10


def test_an_exception_of_a_signal_leaves_no_cache_busy():
    plan = pith.Plan("kv:bits=4,group=32,page=32,window=32", shape=(32, 2, 32), dtype="f32")
    cache, x = pith.kv.Cache(plan), noise(1, 2, 32)
    cache.append(x)
    saved = cache.save()
    calls = [
        lambda: cache.stats,
        cache.save,
        cache.read,
        lambda: cache.append(x),
        lambda: pith.kv.append_batch([cache], x[None]),
        lambda: cache.truncate(1),
    ]
    for call in calls:
        for _ in interruptions(call):
            assert not isinstance(elsewhere(lambda: cache.load(saved)), Exception)


def test_calls_of_handlers_and_finalizers_leave_the_mark_of_a_call():
    """Where Python runs code of others inside a call, that code reads the stream."""
    n = 1 << 20
    end = pith.Stream(pith.Plan("topk:density=0.01,ef=full", shape=n, dtype="f32"))
    x, few, many = (np.arange(0, n, step, dtype=np.uint64) for step in (1, 16, 2))
    x, base = x.astype(np.float32), np.full(n, -1, np.float32)
    ended, met = threading.Event(), []

    def other():
        while not ended.is_set():
            for elements in (few, many):
                try:
                    end.hold_elements(elements)
                except pith.BusyError:
                    met.append(1)

    def read(frame, *_):
        if frame.f_globals["__name__"].startswith("pith."):
            with contextlib.suppress(pith.BusyError):
                assert end.stats.frames == 0

    thread = threading.Thread(target=other)
    thread.start()
    out, until = base[: len(few)], time.monotonic() + 20
    try:
        gathered = 0
        while gathered < 200 and time.monotonic() < until:
            sys.setprofile(read)
            try:
                end.gather(x, out)
                gathered += 1
            except (pith.BusyError, pith.ShapeError, pith.StateError):
                continue
            finally:
                sys.setprofile(None)
            assert (base[len(few) :] == -1).all(), "the set grew while it was read"
            assert same(out, few.astype(np.float32)), "the set changed while it was read"
    finally:
        ended.set()
        thread.join()
    assert gathered and met


def test_many_threads_with_streams_of_their_own():
    x = noise(1000)
    plan = pith.Plan("grad:ef=full", like=x)
    expected = [pith.Stream(plan, rng_stream=i).encode(x) for i in range(8)]
    got = [None] * 8

    def work(i):
        for _ in range(50):
            got[i] = pith.Stream(plan, rng_stream=i).encode(x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == expected


def test_many_threads_ask_for_the_codecs_at_once():
    frame, expected = pith.compress(noise(10), "eb:abs=0.5"), pith.codecs()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            pith.codecs.cache_clear()
            barrier, got = threading.Barrier(8), []

            def work(barrier=barrier, got=got):
                barrier.wait()
                got.append((pith.inspect(frame).bound, pith.codecs()))

            threads = [threading.Thread(target=work) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert got == [(0.5, expected)] * 8
    finally:
        sys.setswitchinterval(interval)


def test_dtypes_of_a_module_that_another_thread_is_importing(ml_dtypes, monkeypatch):
    x = noise(10).astype(ml_dtypes.bfloat16)
    known = {d: n for d, n in dtypes._number_of.items() if n != dtypes.NAMES.index("bf16")}
    monkeypatch.setattr(dtypes, "_number_of", known)
    with monkeypatch.context() as m:
        m.setitem(sys.modules, "ml_dtypes", types.ModuleType("ml_dtypes"))
        with pytest.raises(pith.DtypeError):
            dtypes.number_of(x.dtype)
    assert dtypes.NAMES[dtypes.number_of(x.dtype)] == "bf16"


def test_calls_release_the_lock():
    x = noise(1 << 22)
    done = threading.Event()
    ticks = 0

    def work():
        pith.compress(x)
        done.set()

    t = threading.Thread(target=work)
    t.start()
    while not done.wait(0.001):
        ticks += 1
    t.join()
    assert ticks > 5


FORK = """
import os, sys, numpy as np, pith
x = np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32)
threads = int(sys.argv[1])
plan = pith.Plan("grad:ef=full", like=x)
stream = pith.Stream(plan, threads=threads)
stream.encode(x)
child = os.fork()
frame = stream.encode(x)
if child == 0:
    sys.stdout.buffer.write(frame)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
sys.stdout.buffer.write(frame)
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_fork(threads, tmp_path):
    command = [sys.executable, "-c", FORK, threads]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=tmp_path)
    if b"UnsupportedError" in done.stderr:
        pytest.skip("this build has no threads")
    assert done.returncode == 0, done.stderr
    half = len(done.stdout) // 2
    assert half > 1000 and done.stdout[:half] == done.stdout[half:]


def test_dtypes_are_refused_by_name():
    for wrong in ("f9", "none", "", None, 3.5, object):
        with pytest.raises(pith.DtypeError, match="expected one of f32 bf16"):
            dtypes.number_of(wrong)


@pytest.mark.parametrize(
    "frame,text",
    [
        (pathlib.Path("x.pith"), "found a PosixPath: read the file first"),
        ("x.pith", "found a str: read the file first"),
        (None, "found a NoneType"),
        ([1, 2], "found a list"),
    ],
)
def test_what_is_no_bytes_is_told_which_argument_it_is(frame, text):
    with pytest.raises(pith.DtypeError):
        pith.compress(frame)  # which remembers the type
    stream = pith.Stream(pith.Plan("raw", shape=3, dtype="f32"))
    for call in (pith.decompress, pith.inspect, pith.verify, pith.error_bound, stream.decode):
        with pytest.raises(pith.DtypeError, match=f"^\\w+: expected bytes, .*{text}"):
            call(frame)
    if frame is not None:
        with pytest.raises(pith.DtypeError, match=f"^out: expected bytes, .*{text}"):
            stream.encode(noise(3), out=frame)


def test_integers_of_another_type_are_named():
    plan = pith.Plan("grad", shape=64, dtype="f32")
    for wrong in (1.5, "2", [1], None):
        for name in ("slots", "slot_count"):
            with pytest.raises(TypeError, match=f"^{name}: expected an integer, found"):
                pith.Plan("grad", shape=64, dtype="f32", **{name: wrong})
        with pytest.raises(TypeError, match=r"^slot_counts\[1\]: expected an integer"):
            pith.Plan("grad", shape=64, dtype="f32", slot_counts=[32, wrong])
        with pytest.raises(TypeError, match=r"^shape: expected an integer, found"):
            pith.Plan("grad", shape=(wrong,), dtype="f32")
        with pytest.raises(TypeError, match=r"^exempt\[0\]: count: expected an integer"):
            pith.Plan("grad", shape=64, dtype="f32", exempt=[(0, wrong, "16")])
        with pytest.raises(TypeError, match=r"^slot: expected an integer, found"):
            plan.frame_bytes(wrong)
        with pytest.raises(TypeError, match=r"^per_node: expected an integer, found"):
            pith.slot_order(2, wrong)
        for name in ("seed", "rng_stream", "rank", "ranks", "step"):
            with pytest.raises(TypeError, match=f"^{name}: expected an integer, found"):
                pith.Stream(plan, **{name: wrong})
    pages = pith.Plan("kv:page=16,group=16", shape=(64, 16), dtype="f32")
    frame, cache = pith.compress(noise(64), "raw"), pith.kv.Cache(pages, 64)
    for wrong in (1.5, "2", [1]):
        for call, name in (
            (lambda n: pith.decode_range(frame, n, 1), "first"),
            (lambda n: pith.decode_range(frame, 0, n), "count"),
            (lambda n: pith.kv.Cache(pages, n), "tokens"),
            (lambda n: cache.truncate(n), "tokens"),
            (lambda n: cache.fork(n), "tokens"),
            (lambda n: cache.fork(reserve=n), "reserve"),
        ):
            with pytest.raises(TypeError, match=f"^{name}: expected an integer, found"):
                call(wrong)
    with pytest.raises(TypeError, match="found a list: slot_counts= takes the elements of every"):
        pith.Plan("grad", shape=64, dtype="f32", slots=list(range(32)))


def test_exempt_ranges_that_are_no_list():
    for call in (
        lambda: pith.Plan("grad", shape=64, dtype="f32", exempt=5),
        lambda: pith.compress(noise(64), "grad", exempt=5),
    ):
        with pytest.raises(TypeError, match=r"^exempt: expected .*\(first, count, how\), found 5$"):
            call()


def test_arguments_of_another_type_are_type_errors():
    """As doc/PYTHON.md says; these were ArgumentErrors alone."""
    x = noise(64)
    stream = pith.Stream(pith.Plan("raw", like=x))
    for call, text in (
        (lambda: pith.compress(x, 3), "spec: expected a str, found int"),
        (lambda: pith.check_spec(None), "spec: expected a str, found NoneType"),
        (lambda: pith.Plan(b"raw", like=x), "spec: expected a str, found bytes"),
        (lambda: pith.bounds.RowStatistics([3]), "spec: expected a str, found int"),
        (lambda: pith.bounds.RowStatistics("embed"), "specs: found 'embed' alone"),
        (lambda: pith.compress(x, "grad", exempt=[5]), r"exempt\[0\]: expected \(first"),
        (lambda: stream.load_state_dict([]), "state: expected a dict, found a list"),
        (lambda: pith.Bucket([stream]).load_state_dict(3), "state: expected a dict, found a int"),
    ):
        with pytest.raises(TypeError, match=text) as caught:
            call()
        assert isinstance(caught.value, pith.ArgumentError)


def test_numbers_of_one_are_singular():
    stream = pith.Stream(pith.Plan("raw", shape=2, dtype="f32"))
    with pytest.raises(pith.ShapeError, match="found 1 element, expected 2"):
        pith.Stream(
            pith.Plan("wdiff", shape=2, dtype="f32", base_dtype="f32", external_base=True)
        ).bind_base(noise(1))
    with pytest.raises(pith.ShapeError, match=r"^the view has 1 element, the slot 2, "):
        stream.encode(noise(1))
    with pytest.raises(pith.ArgumentError, match=r"of 1 element "):
        pith.decode_range(pith.compress(noise(1)), 1, 1)


SHORT_OF_MEMORY = """
import re, resource, numpy as np, pith

x = np.random.default_rng(0).standard_normal(8 << 20).astype(np.float32)
pith.compress(x[:5000], "eb:abs=1e-6")
used = re.search(r"VmSize:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
for more in (16, 48):  # for the call, and beside it not for the frame
    most = int(used) * 1024 + (more << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    try:
        pith.compress(x, "eb:abs=1e-6")
    except pith.OutOfMemoryError as error:
        print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_compress_says_how_many_bytes_there_are_not():
    program = [sys.executable, "-c", SHORT_OF_MEMORY]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    sizes = re.findall(
        r"^no memory for (\d+) bytes \(PITH_ERR_MEMORY\)$", done.stdout, re.MULTILINE
    )
    assert len(sizes) == 2 and all(int(size) > 1 << 24 for size in sizes)


def test_works_threads_and_limits_of_another_type():
    plan = pith.Plan("raw", shape=3, dtype="f32")
    stream, pages = pith.Stream(plan), pith.Plan("kv:preset=kivi4", shape=(256, 1, 64), dtype="f32")
    for call in (
        lambda: pith.Stream(plan, work="x"),
        lambda: pith.Bucket([stream], work="x"),
        lambda: pith.kv.Cache(pages, 64, work="x"),
        lambda: pith.kv.append([pith.kv.Cache(pages, 64)], [noise(1, 1, 64)], work="x"),
    ):
        with pytest.raises(TypeError, match=r"work: expected a pith\.Work, found a str"):
            call()
    frame = pith.compress(noise(3), "raw")
    for wrong in (1.5, "2", None):
        for call in (pith.Stream, pith.Work):
            with pytest.raises(TypeError, match="threads: expected an integer, found"):
                call(plan, threads=wrong)
        with pytest.raises(TypeError, match="threads: expected an integer, found"):
            pith.compress(noise(3), "raw", threads=wrong)
    for wrong in (1.5, "2", float("inf")):
        with pytest.raises(TypeError, match="max_output: expected bytes or None, found"):
            pith.Work(plan, max_output=wrong)
        with pytest.raises(TypeError, match="max_output: expected bytes or None, found"):
            pith.decompress(frame, max_output=wrong)
    with pytest.raises(pith.ArgumentError, match="threads: found 1099511627776"):
        pith.Work(plan, threads=2**40)
