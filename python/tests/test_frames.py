"""One-shot calls: every codec, dtype and kind of tensor, there and back.

SPDX-License-Identifier: Apache-2.0
"""

import array
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import OnlyDlpack, has, noise, same

import pith
from pith import dtypes

# Where the default does not do for the values of these tests.
SPECS = {
    "eb": "eb:rel=0.001",
    "embed": "embed:rel=0.01",
    "act": "act:rel=0.01",
    "grad": "grad:bits=8",
    "topk": "topk:density=0.1",
}
LOSSY = [SPECS.get(c.name, c.name) for c in pith.codecs() if not c.lossless]


def of_dtype(name, shape=(6, 10)):
    number = dtypes.number_of(name)
    raw = np.random.default_rng(1).integers(0, 255, (*shape, dtypes.BYTES[number]), np.uint8)
    if name == "bool":
        raw &= 1
    return raw.view(dtypes.numpy_dtype(number))[..., 0]


@pytest.mark.parametrize("name", dtypes.NAMES[1:])
@pytest.mark.parametrize("spec", ["raw", "lossless"])
def test_every_dtype_comes_back_bit_for_bit(name, spec, ml_dtypes):
    x = of_dtype(name)
    frame = pith.compress(x, spec)
    info = pith.inspect(frame)
    assert (info.dtype, info.shape, info.codec) == (name, (6, 10), spec)
    assert same(pith.decompress(frame), x)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("spec", LOSSY)
def test_lossy_codecs_come_back_nearly(spec, dtype, ml_dtypes):
    codec = next(c for c in pith.codecs() if c.name == spec.split(":")[0])
    x = noise(16, 64).astype(dtypes.numpy_dtype(dtypes.number_of(dtype)))
    if dtype not in codec.dtypes:
        with pytest.raises(pith.DtypeError):
            pith.compress(x, spec)
        return
    frame = pith.compress(x, spec)
    y = pith.decompress(frame)
    assert y.dtype == x.dtype and y.shape == x.shape
    off = np.abs(y.astype(np.float64) - x.astype(np.float64)).max()
    assert 0 < off < 2
    bound = pith.error_bound(frame)
    assert off <= bound + (0 if dtype in ("f32", "f64") else 0.02)
    assert (pith.inspect(frame).bound is not None) == codec.bound


def test_codecs_that_are_alone_of_their_kind():
    assert [codec.name for codec in pith.codecs() if codec.sparse] == ["topk"]
    assert [codec.name for codec in pith.codecs() if codec.update] == ["wdiff"]


def test_codecs_that_take_exempt_ranges():
    for codec in pith.codecs():
        try:
            ranges = [(0, 64, "exact"), (100, 1, "16")]
            plan = pith.Plan(codec.name, shape=(64, 64), dtype="f32", exempt=ranges)
            assert plan.exempt == ranges and pickle.loads(pickle.dumps(plan)).exempt == ranges
        except pith.UnsupportedError as error:
            assert not codec.exempt and f"codec {codec.name}" in str(error)
        else:
            assert codec.exempt


@pytest.mark.parametrize(
    "cut",
    [
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: x.T,
        lambda x: x[::2, 1::3],
        lambda x: x[3:3],
        lambda x: x[2],
        lambda x: x[2, 3],
        lambda x: np.broadcast_to(x[0], (5, 24)),
        lambda x: x.reshape(1, 2, 8, 1, 2, 12, 1, 1),
    ],
)
@pytest.mark.parametrize("spec", ["lossless", "eb:abs=0.01"])
def test_strides(cut, spec):
    x = cut(noise(16, 24))
    dense = np.array(x, order="C", copy=True)
    frame = pith.compress(x, spec)
    assert frame == pith.compress(dense, spec)
    whole = np.full((64, 60), 7, np.float32)
    if dense.ndim == 2 and dense.size:
        out = whole[: 2 * dense.shape[0] : 2, dense.shape[1] - 1 :: -1]
        assert pith.decompress(frame, out=out) is out
        assert same(out.copy(), pith.decompress(frame))
        assert (whole[1::2] == 7).all() and (whole[:, dense.shape[1] :] == 7).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 7), (1,), (1, 1, 1)])
@pytest.mark.parametrize("spec", ["raw", "lossless", "eb:abs=0.1", "wdiff", "grad", "act:abs=0.1"])
def test_small_shapes(shape, spec):
    x = noise(*shape)
    y = pith.decompress(pith.compress(x, spec))
    assert y.shape == shape
    assert np.abs(y - x).max(initial=0) <= 1


def test_nine_dimensions_are_refused():
    x = np.zeros((1,) * 9, np.float32)
    with pytest.raises(pith.ShapeError, match="found 9 dimensions, expected at most 8"):
        pith.compress(x)


@pytest.mark.parametrize("old", [False, True])
def test_dlpack(old):
    x = noise(8, 9)[::-1, ::2]
    frame = pith.compress(OnlyDlpack(x, old))
    assert frame == pith.compress(x)
    y = np.zeros_like(x)
    out = OnlyDlpack(y, old)
    assert pith.decompress(frame, out=out) is out
    assert same(y, x)


@pytest.mark.parametrize("old", [False, True])
def test_dlpack_refuses_what_is_read_only_or_unknown(old):
    x = noise(4)
    x.flags.writeable = False
    with pytest.raises((pith.ArgumentError, BufferError)):
        pith.decompress(pith.compress(noise(4)), out=OnlyDlpack(x, old))
    with pytest.raises(pith.DtypeError, match="code 5 with 128 bits"):
        pith.compress(OnlyDlpack(np.zeros(3, np.complex128), old))
    with pytest.raises(pith.ShapeError, match="found 9 dimensions"):
        pith.compress(OnlyDlpack(np.zeros((1,) * 9, np.float32), old))


def test_buffers():
    values = array.array("f", [1, 2, 3])
    assert same(pith.decompress(pith.compress(values)), np.array([1, 2, 3], np.float32))
    assert same(pith.decompress(pith.compress(b"abc")), np.frombuffer(b"abc", np.uint8))
    out = bytearray(3)
    pith.decompress(pith.compress(b"abc"), out=out)
    assert out == b"abc"
    strided = memoryview(bytes(range(10)))[::-2]
    assert pith.decompress(pith.compress(strided)).tobytes() == strided.tobytes()


@pytest.mark.parametrize("name", dtypes.NAMES[1:])
def test_scalars_of_numpy(name, ml_dtypes):
    x = of_dtype(name, (3,))
    assert isinstance(x[1], np.generic)
    assert pith.compress(x[1]) == pith.compress(x[1:2].reshape(()))
    with pytest.raises(pith.ArgumentError, match="read-only"):
        pith.decompress(pith.compress(x[1]), out=x[1])


@pytest.mark.parametrize("codec", [c for c in pith.codecs() if "f16" in c.dtypes])
def test_dtypes_that_a_frame_is_decoded_to(codec, ml_dtypes):
    floats = ("f32", "bf16", "f16")
    for dtype in floats:
        x = noise(64, 64).astype(dtypes.numpy_dtype(dtypes.number_of(dtype)))
        frame = pith.compress(x, codec.name)
        for to in (*floats, "f64"):
            if to == dtype or (to in floats and not codec.lossless):
                number = dtypes.number_of(to)
                assert pith.decompress(frame, dtype=to).dtype == dtypes.numpy_dtype(number)
            else:
                with pytest.raises(pith.DtypeError):
                    pith.decompress(frame, dtype=to)


@pytest.mark.parametrize("x", [3, "text", None, [1.0, 2.0], object()])
def test_what_is_no_tensor_is_refused(x):
    with pytest.raises(pith.DtypeError, match="expected a NumPy array"):
        pith.compress(x)


def test_dtypes_that_pith_has_not_are_refused():
    for x in (np.zeros(3, np.complex64), np.zeros(3, ">f4"), np.array(["a"]), np.zeros(3, "M8[s]")):
        with pytest.raises(pith.DtypeError):
            pith.compress(x)
    swapped = np.arange(3, dtype=np.float32).astype(np.dtype("f4").newbyteorder())
    with pytest.raises(pith.DtypeError, match=r"byte order: give its astype\('float32'\)"):
        pith.compress(swapped)
    assert pith.compress(swapped.astype("float32"))
    with pytest.raises(pith.DtypeError) as caught:
        pith.compress(np.zeros(3, np.complex64))
    assert "byte order" not in str(caught.value)
    with pytest.raises(pith.DtypeError, match="mask"):
        pith.compress(np.ma.masked_array([1.0, 2.0], [0, 1]))
    fields = np.zeros(4, [("a", "f4"), ("b", "i1")])
    with pytest.raises(pith.ShapeError, match="multiple"):
        pith.compress(fields["a"])


def test_read_only_arrays_are_read_and_not_written():
    x = noise(8)
    x.flags.writeable = False
    frame = pith.compress(x)
    with pytest.raises(pith.ArgumentError, match="read-only"):
        pith.decompress(frame, out=x)


def test_out_for_frames():
    x = noise(100)
    frame = pith.compress(x)
    out = bytearray(len(frame) + 500)
    n = pith.compress(x, out=out)
    assert out[:n] == frame
    place = np.zeros(len(frame) + 500, np.uint8)
    assert pith.compress(x, out=place) == n and place[:n].tobytes() == frame
    with pytest.raises(pith.SpaceError):
        pith.compress(x, out=bytearray(10))
    with pytest.raises(pith.ArgumentError):
        pith.compress(x, out=bytes(1000))


def test_frames_are_any_bytes_like():
    x = noise(100)
    frame = pith.compress(x)
    for kind in (bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)):
        assert same(pith.decompress(kind(frame)), x)
    assert same(pith.decompress(frame + b"behind"), x)
    with pytest.raises(pith.ArgumentError, match="contiguous"):
        pith.decompress(memoryview(frame + frame)[::2])


@pytest.mark.parametrize("spec", ["lossless", "wdiff:bits=4"])
def test_base(spec):
    base = noise(64, 32)
    x = base + noise(64, 32, seed=1) * np.float32(1e-3)
    frame = pith.compress(x, spec, base=base)
    y = pith.decompress(frame, base=base)
    assert np.abs(y - x).max() < 1e-3
    assert pith.inspect(frame).base_dtype == "f32"
    for other in (None, base + 1):
        with pytest.raises(pith.BaseMismatchError):
            pith.decompress(frame, base=other)
    part = pith.decode_range(frame, 100, 50, base=base)
    assert same(part, y.ravel()[100:150])


def test_decode_range():
    x = noise(100, 100)
    frame = pith.compress(x, "eb:abs=0.01")
    whole = pith.decompress(frame).ravel()
    for first, count in ((0, 10000), (0, 0), (10000, 0), (9999, 1), (123, 4567)):
        assert same(pith.decode_range(frame, first, count), whole[first : first + count])
    for first, count in ((-1, 3), (9999, 2), (0, -1), (10001, 0)):
        with pytest.raises(pith.ArgumentError, match="range"):
            pith.decode_range(frame, first, count)
    with pytest.raises(pith.ArgumentError, match="found 3 elements, expected 4"):
        pith.decode_range(frame, 0, 4, out=np.zeros(3, np.float32))


def test_limits():
    frame = pith.compress(np.zeros(1000, np.float32))
    with pytest.raises(pith.LimitError):
        pith.decompress(frame, max_output=3999)
    with pytest.raises(MemoryError):
        pith.decompress(frame, max_output=3999, out=np.zeros(1000, np.float32))
    assert pith.decompress(frame, max_output=4000).size == 1000
    assert pith.decompress(frame, max_output=1 << 70).size == 1000  # no machine has so much
    for wrong in (0, -1):
        with pytest.raises(pith.ArgumentError):
            pith.decompress(frame, max_output=wrong)


def test_more_than_memory_is_a_limit():
    frame = pith.compress(np.broadcast_to(np.float32(0), (1 << 12,)), "raw")
    header = bytearray(frame)
    with pytest.raises(pith.FrameError):
        header[20] ^= 1
        pith.decompress(bytes(header))


def test_threads_do_not_change_bytes():
    x = noise(300, 1000)
    for spec in ("lossless", "eb:rel=1e-3", "grad"):
        frame = pith.compress(x, spec)
        try:
            assert pith.compress(x, spec, threads=2) == frame
        except pith.UnsupportedError:
            pytest.skip("this build has no threads")
        assert same(pith.decompress(frame, threads=2), pith.decompress(frame))
    for wrong in (0, -1, 1025):
        with pytest.raises(pith.ArgumentError, match="threads"):
            pith.compress(x, threads=wrong)


def test_source_and_exempt():
    x = noise(4, 100)
    frame = pith.compress(x, "grad:bits=4", source=b"header", exempt=[(10, 20, "exact")])
    info = pith.inspect(frame)
    assert (info.source, info.exempt) == (b"header", 20)
    assert same(pith.decompress(frame).ravel()[10:30], x.ravel()[10:30])
    assert pith.inspect(pith.compress(x)).source is None
    with pytest.raises(pith.ArgumentError, match="'16' or 'exact'"):
        pith.compress(x, "grad", exempt=[(0, 1, "no")])


def test_checksums_find_damage():
    x = noise(1000)
    frame = bytearray(pith.compress(x, "raw"))
    pith.verify(bytes(frame))
    frame[-10] ^= 1
    with pytest.raises(pith.ChecksumError):
        pith.verify(bytes(frame))
    with pytest.raises(pith.CorruptError):
        pith.decompress(bytes(frame))
    assert not pith.inspect(pith.compress(x, checksums=False)).checksums


def test_values_that_are_not_finite():
    x = noise(256)
    x[[3, 100]] = np.nan, -np.inf
    assert same(pith.decompress(pith.compress(x)), x)
    y = pith.decompress(pith.compress(x, "eb:abs=0.1"))
    assert same(y[[3, 100]], x[[3, 100]])
    assert math.isnan(pith.error_bound(pith.compress(x, "grad")))


def test_specs():
    assert pith.check_spec("wdiff:group=2048,bits=4") == pith.check_spec("wdiff:bits=4,group=2048")
    with pytest.raises(pith.SpecError) as caught:
        pith.compress(noise(4), "wdiff:bits=5")
    assert caught.value.offset == len("wdiff:bits=")
    for wrong in (None, 3, b"raw"):
        with pytest.raises(pith.ArgumentError, match="expected a str"):
            pith.compress(noise(4), wrong)
    with pytest.raises(pith.ArgumentError, match="ASCII"):
        pith.compress(noise(4), "r\u00e4w")
    with pytest.raises(pith.ArgumentError):
        pith.compress(noise(4), "raw\0eb")


def test_codecs_are_those_of_the_library():
    lossless = next(c for c in pith.codecs() if c.name == "lossless")
    assert lossless.lossless and lossless.base and set(lossless.dtypes) == set(dtypes.NAMES[1:])
    for codec in pith.codecs():
        for key in codec.keys:
            assert key.name and key.values and key.summary
    assert pith.version.count(".") == 2 and pith.format_version >= 1


@pytest.mark.skipif(has("ml_dtypes"), reason="ml_dtypes is installed")
def test_without_ml_dtypes_bf16_says_what_to_do():
    x = np.arange(8, dtype=np.float32)
    frame = pith.Stream(pith.Plan("raw", shape=8, dtype="bf16")).encode(
        memoryview(x.view(np.uint8)).cast("H")[:8]
    )
    with pytest.raises(pith.DtypeError, match="ml_dtypes"):
        pith.decompress(frame)


def test_a_number_of_threads_is_asked_for_once():
    class Threads:
        asked = 0

        def __index__(self):
            self.asked += 1
            if self.asked > 1:
                raise ZeroDivisionError
            return 1

    x = np.arange(9, dtype=np.float32)
    frame = pith.compress(x, threads=Threads())
    assert np.array_equal(pith.decompress(frame, threads=Threads()), x)
    with pytest.raises(pith.SpecError):
        pith.compress(x, "zzz", threads=Threads(), out=bytearray(999))


def test_a_frame_in_the_memory_of_its_tensor_is_refused():
    x = np.arange(64, dtype=np.float32)
    plan = pith.Plan("raw", like=x)
    frame = np.frombuffer(pith.compress(x, "raw"), np.uint8)
    coded = np.frombuffer(pith.Stream(plan).encode(x), np.uint8)
    space = np.zeros(2048, np.uint8)
    for at in (0, 64, 300, 320 + 4 * len(x)):
        for bytes_, decode in (
            (frame, lambda f, out: pith.decompress(f, out=out)),
            (coded, lambda f, out: pith.Stream(plan).decode(f, out)),
        ):
            out = space[64:320].view(np.float32)
            there = space[at : at + len(bytes_)]
            there[:] = bytes_
            if at >= 320 or at + len(bytes_) <= 64:
                decode(there, out)
                assert np.array_equal(out, x)
                continue
            for tensor in (out, out[::-1], out[::3]):
                with pytest.raises(pith.ArgumentError, match="share memory"):
                    decode(there, tensor)


def test_calls_that_read_and_write_the_same_memory_are_refused():
    x = np.arange(64, dtype=np.float32)
    plan = pith.Plan("raw", like=x)
    frame = np.frombuffer(pith.Stream(plan).encode(x), np.uint8)
    space = np.zeros(2048, np.uint8)
    tensor, other = space[512:768].view(np.float32), np.zeros(64, np.float32)

    def bucket():
        return pith.Bucket([(pith.Stream(plan), 0) for _ in range(2)])

    one, two = len(pith.compress(x, "raw")), bucket().nbytes

    def calls(at):
        """Yield calls that read or write so many bytes from a place on, and use the tensor."""
        stream, size, there = pith.Stream(plan), len(frame), space[at : at + len(frame)]
        there[:] = frame
        yield size, lambda: stream.decode_add(there, tensor)
        yield size, lambda: stream.reduce([frame, there], out=tensor)
        yield size, lambda: stream.reduce([there], out=tensor[::-1])
        yield size, lambda: bucket().decode([there, frame], [other, tensor])
        yield size, lambda: bucket().decode_add([frame, there], [tensor, other])
        yield size, lambda: bucket().reduce([[frame, there], [frame]], [other, tensor])
        yield size, lambda: stream.encode(tensor, out=there)
        yield size, lambda: pith.decode_range(there, 3, 64 - 3, out=tensor[3:])
        yield one, lambda: pith.compress(tensor, "raw", out=space[at : at + one])
        yield two, lambda: bucket().encode([other, tensor[::-1]], out=space[at : at + two])

    for at in (0, 150, 300, 512, 767, 768, 1200):
        for size, call in calls(at):
            if at + size <= 512 or at >= 768:
                call()
                continue
            with pytest.raises(pith.ArgumentError, match="share memory"):
                call()
    # Tensors of a list may lie between each other's elements, and one frame be read for several.
    both, there = np.zeros((64, 2), np.float32), space[: len(frame)]
    there[:] = frame
    bucket().decode([there, there], [both[:, 0], both[:, 1]])
    assert np.array_equal(both, np.stack([x, x], 1))


@pytest.mark.parametrize(
    "spec", ["wdiff:bits=4", "lossless:block=1024", "wdiff:bits=4,entropy=rans"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_values_take_the_place_of_their_base_or_lie_elsewhere(spec, threads):
    count = 20000
    before = np.random.default_rng(1).standard_normal(count).astype(np.float32)
    frame = pith.compress(before * 1.001, spec, base=before)
    wanted = pith.decompress(frame, base=before)
    for places in (slice(0, count), slice(count - 1, None, -1)):
        base = before[places].copy()[places]
        assert pith.decompress(frame, base=base, out=base, threads=threads) is base
        assert np.array_equal(base, wanted)
    flat = before.copy()
    pith.decompress(frame, base=flat, out=flat.reshape(2, -1), threads=threads)
    assert np.array_equal(flat, wanted)
    space = np.zeros(2 * count, np.float32)
    base = space[:count]
    base[:] = before
    for out in (space[1 : count + 1], space[::2], space[count - 1 :][:count], base[::-1]):
        with pytest.raises(pith.ArgumentError, match="out and base share memory"):
            pith.decompress(frame, base=base, out=out, threads=threads)
    with pytest.raises(pith.ArgumentError, match="out and base share memory"):
        pith.decode_range(frame, 5, 10, base=base, out=base[5:15])
    assert np.array_equal(base, before)
    pith.decompress(frame, base=base, out=space[count:], threads=threads)
    assert np.array_equal(space[count:], wanted)


def test_a_package_imported_again_has_errors_of_its_own():
    program = """
import sys, pith as first
for name in [n for n in sys.modules if n == "pith" or n.startswith("pith.")]:
    del sys.modules[name]
import pith as second
assert first is not second
for package in (first, second, first):
    try:
        package.compress(None)
    except package.DtypeError:
        pass
"""
    subprocess.run([sys.executable, "-c", program], check=True)
