"""PyTorch's tensors on the CPU; what is not there, or not dense, is refused.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess
import sys

import numpy as np
import pytest
from conftest import noise, same

import pith
from pith import collective


def bits(t):
    return t.contiguous().view(-1).view(__import__("torch").uint8).numpy().tobytes()


DTYPES = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f64": "float64",
    "u8": "uint8",
    "i8": "int8",
    "u16": "uint16",
    "i16": "int16",
    "u32": "uint32",
    "i32": "int32",
    "u64": "uint64",
    "i64": "int64",
    "bool": "bool",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name, torch):
    dtype = getattr(torch, DTYPES[name])
    raw = torch.randint(0, 2 if name == "bool" else 255, (6, 16), dtype=torch.uint8)
    x = raw.view(dtype)
    frame = pith.compress(x)
    assert pith.inspect(frame).dtype == name
    y = pith.decompress(frame, dtype=dtype)
    assert y.dtype is dtype and y.shape == x.shape and bits(y) == bits(x)
    assert pith.Plan("raw", like=x).dtype == name


def test_strides_and_outputs(torch):
    x = torch.from_numpy(noise(12, 10))
    cuts = (x.t(), x[::2, 1::3], x[3], x[2, 2], x[:0], x.expand(2, 12, 10), x.unsqueeze(0))
    for cut in cuts:
        frame = pith.compress(cut, "eb:abs=0.01")
        assert frame == pith.compress(cut.contiguous().numpy(), "eb:abs=0.01")
    out = torch.zeros(10, 24)[:, ::2]
    frame = pith.compress(x.t())
    assert pith.decompress(frame, out=out) is out
    assert torch.equal(out, x.t())


def test_streams(torch):
    x = torch.from_numpy(noise(100)).to(torch.bfloat16)
    plan = pith.Plan("wdiff:bits=8", like=x, base_dtype=torch.bfloat16)
    a, b = pith.Stream(plan), pith.Stream(plan)
    w = torch.nn.Parameter(torch.zeros(100, dtype=torch.bfloat16))
    frame = a.encode(x)
    with torch.no_grad():
        assert b.decode(frame, w) is w
    assert w.detach().sub(x).abs().max() < 0.1
    y = b.decode(a.encode(x), dtype=torch.float32)
    assert y.dtype is torch.float32
    assert b.get_base(dtype=torch.bfloat16).dtype is torch.bfloat16
    frames = pith.Bucket([pith.Stream(plan)]).encode([x])
    assert frames == [frame]
    external = pith.Stream(pith.Plan("wdiff", like=x, base_dtype="bf16", external_base=True))
    external.bind_base(w)
    external.encode(x)
    pool = torch.randn(4, 16, 2, 64)
    p = pith.Plan("kv:bits=8,page=16", shape=(64, 2, 64), dtype="f32")
    pages = torch.zeros(2, pith.kv.page_bytes(p), dtype=torch.uint8)
    pith.kv.encode_pages(p, pool, torch.tensor([1, 2]), pages)
    back = torch.zeros_like(pool)
    pith.kv.decode_pages(p, pages, back, [1, 2])
    assert (back[1] - pool[1]).abs().max() < 0.1


@pytest.mark.parametrize("capsules", [False, True])
def test_a_bound_tensor_whose_memory_is_replaced(torch, capsules, monkeypatch):
    if capsules:
        monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__", raising=False)
    monkeypatch.setattr(pith.views, "sources", {})
    for cls in (torch.Tensor, torch.nn.Parameter):
        monkeypatch.delitem(pith.views.direct, cls, raising=False)
    plan = pith.Plan("wdiff", shape=100, dtype="f32", base_dtype="f32", external_base=True)
    x = torch.from_numpy(noise(100))

    def replaced(p):
        p.data = torch.zeros(100)

    def resized(p):
        p.untyped_storage().resize_(0)

    for change in (replaced, resized):
        end, p = pith.Stream(plan), torch.nn.Parameter(torch.zeros(100))
        end.bind_base(p)
        frame = end.encode(x)
        change(p)
        bucket = pith.Bucket([end])
        for call in (
            lambda end=end: end.encode(x),
            lambda end=end, frame=frame: end.advance(frame),
            lambda end=end: end.get_base(),
            lambda end=end: end.reset(),
            lambda bucket=bucket: bucket.encode([x]),
            lambda bucket=bucket, frame=frame: bucket.decode([frame], [torch.zeros(100)]),
        ):
            with pytest.raises(pith.BaseMismatchError, match="bind it again"):
                call()
        p.data = torch.zeros(100)
        end.bind_base(p)
        assert end.encode(x) == frame


def test_frames_in_tensors(torch):
    x = noise(100)
    frame = torch.frombuffer(bytearray(pith.compress(x)), dtype=torch.uint8)
    assert same(pith.decompress(frame), x)
    space = torch.zeros(1000, dtype=torch.uint8)
    n = pith.compress(x, out=space)
    assert same(pith.decompress(space[:n]), x)


def test_gradients_are_no_obstacle(torch):
    x = torch.randn(10, requires_grad=True)
    y = x * 2
    assert pith.decompress(pith.compress(y)).tolist() == y.tolist()
    assert pith.decompress(pith.compress(x)).tolist() == x.tolist()


def test_written_tensors_that_require_grad(torch):
    leaf = torch.zeros(10, requires_grad=True)
    frame, ones = pith.compress(torch.ones(10)), pith.compress(np.ones(10, np.float32))
    plan = pith.Plan("raw", shape=(10,), dtype="f32")
    stream = pith.Stream(plan)
    sent = stream.encode(torch.ones(10))
    for out in (leaf, leaf * 2):
        with pytest.raises(pith.ArgumentError, match="no_grad"):
            pith.decompress(frame, out=out)
        with pytest.raises(pith.ArgumentError, match="no_grad"):
            stream.decode(sent, out)
    assert leaf.tolist() == [0] * 10
    assert pith.decompress(ones, out=leaf.detach()).tolist() == [1] * 10
    with torch.no_grad():
        stream.decode(sent, leaf)
    assert leaf.tolist() == [1] * 10 and leaf.requires_grad


def writers(torch):
    """Return every call that writes to a tensor, by its name: of 64 elements of f32."""
    x = torch.ones(64)
    shaped = x.reshape(16, 1, 4)
    frame = pith.compress(x, "raw")
    raw, summed = (pith.Stream(pith.Plan(s, shape=64, dtype="f32")) for s in ("raw", "grad"))
    sent, part = raw.encode(x), summed.encode(x)
    based = pith.Stream(pith.Plan("wdiff", shape=64, dtype="f32", base_dtype="f32"))
    based.set_base(x)
    top = pith.Stream(pith.Plan("topk:density=1,ef=full", shape=64, dtype="f32"))
    top.encode(x)
    spec = "kv:page=16,window=0,outliers=none,axis=token,codebook=uniform,rotate_heads=off"
    plan = pith.Plan(spec, shape=(16, 1, 4), dtype="f32")
    cache = pith.kv.Cache(plan)
    cache.append(shaped)
    page = pith.kv.encode_pages(plan, shaped[None], [0])
    delta = pith.Stream(plan).encode(shaped)

    def channel(**keys):
        ranks = collective.Communicator(0, 1, lambda text: [text])
        return ranks.channel(count=64, dtype="f32", **keys)

    gather = channel(kind="allgather", spec="wdiff", base_dtype="f32")
    gather.set_base(x)
    loses = channel(kind="reduce_scatter", spec="grad:ef=full")
    return {
        "decompress": lambda y: pith.decompress(frame, out=y),
        "decode_range": lambda y: pith.decode_range(frame, 0, 64, out=y),
        "compress": lambda y: pith.compress(x, "raw", out=y.repeat(9)),
        "encode": lambda y: raw.encode(x, out=y.repeat(9)),
        "decode": lambda y: raw.decode(sent, y),
        "decode_add": lambda y: raw.decode_add(sent, y),
        "reduce": lambda y: summed.reduce([part], y),
        "get_base": lambda y: based.get_base(y),
        "get_residual": lambda y: top.get_residual(y),
        "gather": lambda y: top.gather(out=y),
        "scatter": lambda y: top.scatter(x, y),
        "Bucket.decode": lambda y: pith.Bucket([raw]).decode([sent], [y]),
        "Bucket.decode_add": lambda y: pith.Bucket([raw]).decode_add([sent], [y]),
        "Bucket.reduce": lambda y: pith.Bucket([summed]).reduce([[part]], [y]),
        "kv.read": lambda y: cache.read(out=y.view(16, 1, 4)),
        "kv.read_add": lambda y: cache.read_add(y.view(16, 1, 4)),
        "kv.append_delta": lambda y: pith.kv.Cache(plan).append_delta(shaped, y.view(16, 1, 4)),
        "kv.decode_pages": lambda y: pith.kv.decode_pages(plan, page, y.view(1, 16, 1, 4), [0]),
        "kv.accumulate": lambda y: pith.kv.accumulate(
            plan, bytearray(delta), plan, delta, y.view(16, 1, 4)
        ),
        "Channel.run": lambda y: channel(kind="allreduce", spec="raw").run(x, y),
        "Channel.get_base": lambda y: gather.get_base(y),
        "Channel.get_residual": lambda y: loses.get_residual(out=y),
    }


def test_every_call_that_writes_looks_for_autograd(torch):
    for name, call in writers(torch).items():
        leaf = torch.zeros(64, requires_grad=True)
        for out in (leaf, leaf * 2):
            with pytest.raises(pith.ArgumentError, match="no_grad"):
                call(out)
                pytest.fail(f"{name} wrote to a tensor that requires grad")
        assert not leaf.any(), name
        with torch.no_grad():
            call(leaf)
        assert leaf.requires_grad, name
        call(leaf.detach())


def test_tensors_that_are_refused(torch):
    meta = torch.zeros(4, device="meta")
    negative = torch.zeros(4, dtype=torch.complex64).conj().imag
    assert negative.is_neg()
    for x in (meta, torch.zeros(4, 4).to_sparse(), torch.zeros(4, 4).to_sparse_csr(), negative):
        with pytest.raises(pith.UnsupportedError):
            pith.compress(x)
    for x in (torch.zeros(4, dtype=torch.complex64), torch.zeros(4, dtype=torch.complex64).conj()):
        with pytest.raises(pith.Error):
            pith.compress(x)
    with pytest.raises(pith.ShapeError, match="found 9 dimensions"):
        pith.compress(torch.zeros((1,) * 9))
    with pytest.raises(pith.DtypeError):
        pith.Plan("raw", like=torch.zeros(4, dtype=torch.complex64))
    assert pith.compress(negative.resolve_neg())


def test_lists(torch):
    plan = pith.Plan("raw", shape=4, dtype="f32")
    x = torch.from_numpy(noise(4))
    frame = pith.Stream(plan).encode(x)
    ends = [pith.Stream(plan) for _ in range(3)]
    wide = torch.stack((x, x), dim=1)
    for tensors in (
        [x, wide[:, 1], x.reshape(2, 2)],
        [torch.nn.Parameter(x), torch.nn.Parameter(x.clone()), torch.nn.Parameter(x)],
        [x, torch.nn.Parameter(x), x.numpy()],
    ):
        for _ in range(2):  # the second time, all is known of the types
            assert pith.Bucket([pith.Stream(plan) for _ in ends]).encode(tensors) == [frame] * 3
    negative = torch.zeros(4, dtype=torch.complex64).conj().imag
    for error, y in (
        (pith.UnsupportedError, negative),
        (pith.UnsupportedError, torch.zeros(4, device="meta")),
        (pith.DtypeError, torch.zeros(4, dtype=torch.complex64)),
    ):
        with pytest.raises(error) as caught:
            pith.Bucket(ends).encode([x, x, y])
        assert caught.value.item == 2
    assert [end.step() for end in ends] == [0] * 3


@pytest.mark.filterwarnings("ignore")
def test_refusals_say_what_to_do(torch):
    for x, text in (
        (torch.eye(3).to_sparse(), "to_dense"),
        (torch.eye(3).to_sparse_csr(), "to_dense"),
        (torch.zeros(3, device="meta"), "no values"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "int_repr"),
        (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "nested one: .* unbind"),
        (
            torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
            "nested one: .* unbind",
        ),
    ):
        with pytest.raises(pith.UnsupportedError, match=text):
            pith.compress(x)
        if x.is_nested:
            with pytest.raises(pith.UnsupportedError, match=text):
                pith.Plan("raw", like=x)
    with pytest.raises(pith.UnsupportedError, match=r"torch\.ops\.pith"):
        torch.vmap(pith.compress)(torch.ones(3, 2))


def test_subclasses(torch):
    class Mine(torch.Tensor):
        pass

    x = torch.randn(10)
    assert pith.compress(x.as_subclass(Mine)) == pith.compress(x)
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    with pytest.raises(pith.UnsupportedError, match=r"FakeTensor.*torch\.ops\.pith"):
        pith.compress(fake)


def test_versions_without_the_exchange_of_newer_ones(torch):
    from pith import views

    x = torch.randn(6, 4).t()
    kind, _, _, keep = views._torch_source(torch, type("Other", (torch.Tensor,), {}))(x)
    assert kind == views.lib.PITHPY_DLPACK and keep[0] is x
    assert views._torch_source(torch, torch.Tensor)(x)[0] == (
        views.lib.PITHPY_EXCHANGE
        if hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
        else views.lib.PITHPY_DLPACK
    )


def test_state_dicts_are_loaded_without_pickle(torch, tmp_path):
    plan = pith.Plan("wdiff", shape=10, dtype="f32", base_dtype="f32")
    a, b = pith.Stream(plan), pith.Stream(plan)
    a.encode(noise(10))
    torch.save(a.state_dict(), tmp_path / "state.pt")
    b.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert a.base_hash() == b.base_hash() and a.step() == b.step()


def test_importing_pith_imports_neither_torch_nor_ml_dtypes(tmp_path):
    code = (
        "import sys, pith, numpy; pith.decompress(pith.compress(numpy.zeros(4)));"
        "sys.exit('torch' in sys.modules or 'ml_dtypes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_torch_imported_after_pith(torch, tmp_path):
    code = (
        "import pith, numpy; x = numpy.arange(4, dtype='f4'); f = pith.compress(x);"
        "import torch; t = torch.arange(4, dtype=torch.bfloat16);"
        "assert pith.inspect(pith.compress(t)).dtype == 'bf16';"
        "assert pith.decompress(f, dtype=torch.float32).tolist() == [0, 1, 2, 3]"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_numpy_and_torch_make_the_same_frames(torch):
    x = noise(64, 64)
    for spec in ("lossless", "wdiff", "grad", "eb:rel=0.01"):
        assert pith.compress(torch.from_numpy(x), spec) == pith.compress(x, spec)
    assert np.array_equal(pith.decompress(pith.compress(torch.from_numpy(x))), x)


def test_new_tensors_are_on_the_cpu(torch):
    frame = pith.compress(torch.ones(3))
    with torch.device("meta"):
        y = pith.decompress(frame, dtype=torch.float32)
        assert y.device.type == "cpu" and y.tolist() == [1, 1, 1]


def test_exceptions_of_function_modes_are_not_lost():
    torch = pytest.importorskip("torch")
    from torch.overrides import TorchFunctionMode

    class Interrupted(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            raise KeyboardInterrupt

    x = torch.ones(10)
    plan = pith.Plan("raw", like=x)
    stream, bucket = pith.Stream(plan), pith.Bucket([pith.Stream(plan)])
    frame, frames = stream.encode(x), bucket.encode([x])
    calls = (
        lambda: pith.compress(x),
        lambda: pith.decompress(pith.compress(np.ones(10, np.float32)), out=x),
        lambda: stream.encode(x),
        lambda: stream.decode(frame, x),
        lambda: bucket.encode([x]),
        lambda: bucket.decode(frames, [x]),
    )
    for call in calls:
        with Interrupted(), pytest.raises(KeyboardInterrupt):
            call()
    assert torch.equal(x, torch.ones(10))
    assert stream.encode(x) == frame


def test_a_frame_without_bytes_is_cut(torch):
    """Tensors without elements have no address, which was taken for no frame at all."""
    none = torch.zeros(0, dtype=torch.uint8)
    plan = pith.Plan("topk:k=1", shape=4, dtype="f32")
    stream = pith.Stream(plan)
    for call in (
        pith.decompress,
        pith.inspect,
        pith.verify,
        pith.error_bound,
        lambda x: pith.decode_range(x, 0, 1),
        lambda x: stream.reduce([x]),
        lambda x: stream.hold([x]),
        lambda x: pith.Bucket([stream]).decode([x]),
    ):
        with pytest.raises(pith.TruncatedError):
            call(none)


def test_room_for_no_bytes_is_too_little(torch):
    """A tensor without elements as out= was taken for none."""
    none, x = torch.zeros(0, dtype=torch.uint8), torch.ones(4)
    stream = pith.Stream(pith.Plan("grad:bits=4", like=x))
    for call in (pith.compress, lambda x, out: stream.encode(x, out=out)):
        with pytest.raises(pith.SpaceError):
            call(x, out=none)
    with pytest.raises(pith.MagicError):
        stream.load(none)
