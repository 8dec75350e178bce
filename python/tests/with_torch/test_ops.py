"""The operators: what they give, what torch says of them, and that graphs keep them.

SPDX-License-Identifier: Apache-2.0
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import pith  # noqa: E402
import pith.torch  # noqa: E402

OPS = torch.ops.pith
SPEC = "grad:bits=4,round=stochastic"


def values(n=1000, dtype=torch.float32):
    return torch.randn(n, generator=torch.Generator().manual_seed(n)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [0, 1, 1000, 4097])
def test_bytes_are_those_of_a_stream(dtype, n):
    x = values(n, dtype)
    frame = OPS.encode(x, SPEC, 3, 7, 2)
    stream = pith.Stream(pith.Plan(SPEC, like=x), seed=7, rng_stream=2, step=3)
    assert bytes(frame.numpy()) == stream.encode(x)
    assert frame.numel() == pith.torch.ops.frame_bytes(SPEC, n, dtype)
    y = OPS.decode(frame, SPEC, n, dtype)
    assert y.dtype is dtype and torch.equal(y, pith.decompress(bytes(frame.numpy()), dtype=dtype))
    out, space = torch.full_like(x, 9), torch.empty_like(frame)
    OPS.encode_out(x, SPEC, space, 3, 7, 2)
    OPS.decode_out(space, SPEC, out)
    assert torch.equal(space, frame) and torch.equal(out, y)
    OPS.decode_add(frame, SPEC, out)
    assert torch.equal(out, (y.float() + y.float()).to(dtype))


def test_opcheck():
    x = values()
    frame = OPS.encode(x, SPEC)
    check = torch.library.opcheck
    check(OPS.encode.default, (x, SPEC))
    check(OPS.encode.default, (values(7, torch.bfloat16), "wdiff:bits=8", 1, 2, 3))
    check(OPS.encode_out.default, (x, SPEC, torch.empty_like(frame)))
    check(OPS.decode.default, (frame, SPEC, 1000, torch.float32))
    check(OPS.decode_out.default, (frame, SPEC, torch.empty(10, 100)))
    check(OPS.decode_add.default, (frame, SPEC, torch.ones(1000)))


def test_graphs_keep_them():
    seen = []

    def backend(module, _):
        seen.extend(str(node.target) for node in module.graph.nodes if node.op == "call_function")
        return module

    @torch.compile(backend=backend, fullgraph=True)
    def step(x, total):
        frame = OPS.encode(x * 2, SPEC)
        OPS.decode_add(frame, SPEC, total)
        return OPS.decode(frame, SPEC, x.numel(), x.dtype) + 1

    x, total = values(), torch.zeros(1000)
    y = step(x, total)
    wanted = OPS.decode(OPS.encode(x * 2, SPEC), SPEC, 1000, torch.float32)
    assert torch.equal(y, wanted + 1) and torch.equal(total, wanted)
    assert {name.split(".")[1] for name in seen if name.startswith("pith")} == {
        "encode",
        "decode",
        "decode_add",
    }


def test_one_graph_for_every_size():
    graphs = []

    def backend(module, _):
        graphs.append(module)
        return module

    def step(x, frame):
        OPS.encode_out(x, SPEC, frame)
        y = OPS.decode(frame, SPEC, x.numel(), x.dtype)
        OPS.decode_add(frame, SPEC, y)
        return y

    torch._dynamo.reset()
    compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=True)
    for n in range(100, 112):
        x = values()[:n].clone()
        frame = torch.zeros(pith.torch.ops.frame_bytes(SPEC, n, x.dtype), dtype=torch.uint8)
        assert torch.equal(compiled(x, frame), step(x, frame.clone()))
        assert torch.equal(frame, OPS.encode(x, SPEC))
    assert len(graphs) == 1
    with pytest.raises(pith.ShapeError, match="out: found 3 bytes"):
        compiled(x, torch.zeros(3, dtype=torch.uint8))


def test_what_is_refused():
    x = values()
    frame = OPS.encode(x, SPEC)
    for spec in ("lossless", "eb:abs=0.1", "topk", "kv:entropy=rans"):
        with pytest.raises(
            pith.UnsupportedError, match=r"variable rate.* of raw wdiff grad kv, .*"
        ):
            OPS.encode(x, spec)
    sender = pith.Stream(pith.Plan("wdiff", like=x, base_dtype="f32"))
    sender.set_base(x)
    against = torch.frombuffer(bytearray(sender.encode(x)), dtype=torch.uint8)
    for call in (OPS.decode_out, OPS.decode_add):
        with pytest.raises(pith.MismatchError, match=r"made against a base.*decompress"):
            call(against, "wdiff", x.clone())
    with pytest.raises(pith.SpecError):
        OPS.encode(x, "grad:bit=4")
    with pytest.raises(pith.DtypeError):
        OPS.encode(x.to(torch.int32), SPEC)
    with pytest.raises(pith.ArgumentError, match="contiguous"):
        OPS.encode(x[::2], SPEC)
    with pytest.raises(pith.ShapeError, match="out: found 5 bytes"):
        OPS.encode_out(x, SPEC, torch.empty(5, dtype=torch.uint8))
    with pytest.raises(pith.DtypeError, match="expected uint8"):
        OPS.decode(frame.view(torch.int8), SPEC, 1000, torch.float32)
    with pytest.raises(pith.MismatchError):
        OPS.decode(frame, SPEC, 999, torch.float32)
    with pytest.raises(pith.TruncatedError):
        OPS.decode(frame[:-1], SPEC, 1000, torch.float32)
    with pytest.raises(NotImplementedError):
        OPS.encode(x.to("meta").to_sparse(), SPEC)


def test_error_feedback_is_refused():
    """It was forgotten after every call, and nothing said so."""
    x, spec = values(), "grad:bits=4,ef=full"
    out = torch.empty(pith.torch.ops.frame_bytes("grad:bits=4", 1000, x.dtype), dtype=torch.uint8)
    for call in (lambda: OPS.encode(x, spec), lambda: OPS.encode_out(x, spec, out)):
        with pytest.raises(pith.StateError, match=r"remember nothing: leave ef= out"):
            call()
    with pytest.raises(Exception, match="remember nothing"):
        torch.compile(lambda x: OPS.encode(x, spec), backend="eager", fullgraph=True)(x)
    # Decoding needs none of it.
    frame = OPS.encode(x, "grad:bits=4")
    assert torch.equal(
        OPS.decode(frame, spec, 1000, x.dtype), OPS.decode(frame, "grad:bits=4", 1000, x.dtype)
    )


def test_frames_of_a_newer_version():
    frame = OPS.encode(values(), SPEC).clone()
    info = pith.inspect(bytes(frame.numpy()))
    assert info.spec
    newer = frame.clone()
    newer[4] = 250  # the version of the format
    with pytest.raises(pith.NewerError):
        OPS.decode(newer, SPEC, 1000, torch.float32)


def test_values_that_are_not_finite_are_seen():
    x = values()
    x[10] = float("inf")
    assert OPS.decode(OPS.encode(x, SPEC), SPEC, 1000, torch.float32).isnan().any()


def test_no_gradient_passes():
    x = values().requires_grad_()
    y = OPS.decode(OPS.encode(x, SPEC), SPEC, 1000, torch.float32)
    with pytest.raises(RuntimeError):
        y.sum().backward()
