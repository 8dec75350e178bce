"""pith.cuda: on a device where there is one, over the host runner, and what it refuses.

SPDX-License-Identifier: Apache-2.0

PITH_TEST_CUDA_HOST is the module over the host runner, in which memory of the CPU stands for that
of a device; the kernels are the same source.
"""

import importlib.util
import os
import subprocess
import sys

import pytest
from conftest import noise, same

import pith

HOST = os.environ.get("PITH_TEST_CUDA_HOST")


def forget():
    """Let pith.cuda be loaded anew: over another library, or after a test that has loaded it."""
    for name in ("_cuda", "cuda"):
        sys.modules.pop(f"pith.{name}", None)
        vars(pith).pop(name, None)  # where "from . import" looks first


@pytest.fixture(scope="module", params=["host", "device"])
def cuda(request):
    """pith.cuda over the host runner, and on a device."""
    pytest.importorskip("torch", reason="torch is not installed")
    forget()
    if request.param == "device":
        if why := importlib.import_module("pith.cuda").available():
            pytest.skip(f"no device: {why}")
    elif HOST:
        spec = importlib.util.spec_from_file_location("_cuda_host", HOST)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["pith._cuda"] = module
    else:
        pytest.skip("the module over the host runner was not built")
    module = importlib.import_module("pith.cuda")
    if request.param == "host":
        module.DEVICE = "cpu"
        module._current_stream = lambda device: sys.modules["pith._cuda"].ffi.NULL
    yield module
    forget()


@pytest.fixture
def put(cuda, torch):
    """Return a tensor of an array, on the device."""
    return lambda x: torch.as_tensor(x).to(cuda.DEVICE)


@pytest.fixture
def zeros(cuda, torch):
    return lambda *shape, **keys: torch.zeros(*shape, **{"device": cuda.DEVICE, **keys})


def test_the_build_says_why_there_is_no_device(tmp_path):
    code = (
        "import pith, sys; assert 'pith._cuda' not in sys.modules; why = pith.cuda.available();"
        "print(why); sys.exit(not why)"
    )
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a device")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == 0


def ends(cuda, spec, shape=(6, 50), base_dtype=None, **keys):
    plan = pith.Plan(spec, shape=shape, dtype="f32", base_dtype=base_dtype, **keys)
    device = cuda.DevicePlan(plan)
    return pith.Stream(plan), cuda.DeviceStream(device), cuda.DeviceStream(device)


def rows(made):
    return [
        frame[: int(n)].cpu().numpy().tobytes()
        for frame, n in zip(made.frames, made.lengths, strict=True)
    ]


@pytest.mark.parametrize(
    "spec,base_dtype,slots",
    [
        ("raw", None, 1),
        ("wdiff", "f32", 1),
        ("wdiff:bits=8", "bf16", 4),
        ("grad:bits=4,ef=full", None, 3),
        ("eb:abs=0.01,mode=fast", None, 1),
        ("kv:bits=8,page=16", None, 1),
    ],
)
def test_frames_are_those_of_the_cpu(cuda, put, zeros, spec, base_dtype, slots):
    host, sender, receiver = ends(cuda, spec, base_dtype=base_dtype, slots=slots)
    for step in range(3):
        x = noise(6, 50, seed=step)
        made = sender.encode(put(x))
        cuda.check(made.status)
        assert rows(made) == [host.encode(x, slot=i) for i in range(slots)]
        out = zeros(6, 50)
        cuda.check(receiver.decode(made, out))
        assert abs(out.cpu().numpy() - x).max() < 1
        if base_dtype:
            assert same(out.cpu().numpy(), host.get_base(dtype="f32"))
            cuda.check(sender.verify())


def test_calls_of_the_cpu_say_where_tensors_of_a_device_go(cuda, put):
    if cuda.DEVICE == "cpu":
        pytest.skip("memory of the CPU stands for that of a device")
    x = put(noise(64))
    stream = pith.Stream(pith.Plan("raw", like=noise(64)))
    for call in (pith.compress, stream.encode, pith.decompress, lambda y: stream.decode(b"", y)):
        with pytest.raises(
            pith.UnsupportedError, match=r"cuda.*give its cpu\(\), or .*DeviceStream"
        ):
            call(x)


def test_pieces_and_listed_slots(cuda, put, zeros):
    host, sender, receiver = ends(cuda, "wdiff", base_dtype="f32", slots=4)
    x = put(noise(6, 50))
    pieces = [x.flatten()[150:225].clone(), x.flatten()[:75].clone()]
    made = sender.encode(pieces, slots=[2, 0])
    cuda.check(made.status)
    assert rows(made) == [host.encode(x.cpu(), slot=i) for i in (2, 0)]
    outs = [zeros(75), zeros(75)]
    cuda.check(receiver.decode(made, outs, slots=[2, 0]))
    assert same(outs[0].cpu().numpy(), host.get_base(slot=2))
    cuda.check(receiver.decode(sender.encode(x, slots=[1]), None, slots=[1]))
    for slots in ([4], [-1], [1, 1]):
        with pytest.raises(pith.ArgumentError, match="slots"):
            sender.encode(x, slots=slots)
    cuda.check(receiver.decode(sender.encode(x), None))  # all slots are as before


def test_tensors_that_require_grad_are_not_written(cuda, put, zeros, torch):
    _, sender, receiver = ends(cuda, "grad:bits=8", shape=(64,), slots=2)
    _, top, _ = ends(cuda, "topk:density=1,ef=full", shape=(64,))
    x = put(noise(64))
    made = sender.encode(x)
    cuda.check(top.encode(x).status)
    values = top.gather(capacity=64)
    plan = cuda.DevicePlan(pith.Plan("kv:page=16,entropy=none", shape=(16, 1, 4), dtype="f32"))
    ids = torch.tensor([0], device=cuda.DEVICE)
    pages = zeros(1, pith.kv.page_bytes(plan.plan), dtype=torch.uint8)
    leaf = zeros(64).requires_grad_()
    calls = [
        lambda y: receiver.decode(made, y),
        lambda y: receiver.decode(made, y, add=True),
        lambda y: receiver.decode_range(made, y, 0, 10),
        lambda y: receiver.reduce(made, y),
        lambda y: top.scatter(values, y),
        lambda y: cuda.decode_pages(plan, pages, y.view(1, 16, 1, 4), ids),
    ]
    for call in calls:
        with pytest.raises(pith.ArgumentError, match="no_grad"):
            call(leaf)
        with torch.no_grad():
            cuda.check(call(leaf))
    with pytest.raises(pith.ArgumentError, match="no_grad") as caught:
        receiver.decode(made, [zeros(32), leaf[32:]])
    assert caught.value.item == 1


def test_pieces_of_empty_slots(cuda, put, zeros):
    host, sender, receiver = ends(cuda, "grad:bits=8", shape=(5,), slots=4)
    x = put(noise(5))
    pieces = [x[:2].clone(), x[2:4].clone(), x[4:].clone(), x[5:].clone()]
    made = sender.encode(pieces)
    cuda.check(made.status)
    assert rows(made) == [host.encode(x.cpu(), slot=i) for i in range(4)]
    outs = [zeros(2), zeros(2), zeros(1), zeros(0)]
    cuda.check(receiver.decode(made, outs))
    assert abs(outs[2] - x[4]).item() < 0.1


def test_bases_steps_and_key_frames(cuda, put, zeros):
    host, sender, receiver = ends(cuda, "wdiff", base_dtype="f32")
    base = noise(6, 50, seed=9)
    host.set_base(base, step=5)
    sender.set_base(put(base), step=5)
    x = noise(6, 50)
    made = sender.encode(put(x))
    assert rows(made) == [host.encode(x)]
    with pytest.raises(pith.StepError) as caught:
        cuda.check(receiver.decode(made, zeros(6, 50)))
    assert caught.value.item == 0
    key = sender.encode(put(x), key_frame=True)
    assert rows(key) == [host.encode(x, key_frame=True)]
    out = zeros(6, 50)
    cuda.check(receiver.decode(key, out))
    assert same(out.cpu().numpy(), x)
    added = put(x.copy())
    cuda.check(receiver.decode(sender.encode(put(x + 1)), added, add=True))
    assert abs(added.cpu().numpy() - x - 1).max() < 0.2


def test_external_base(cuda, torch, put, zeros):
    _, sender, receiver = ends(cuda, "wdiff", base_dtype="f32", external_base=True)
    w, v = zeros(6, 50), zeros(6, 50)
    sender.bind_base(w)
    receiver.bind_base(v)
    cuda.check(receiver.decode(sender.encode(put(noise(6, 50))), None))
    assert torch.equal(w, v) and w.any()
    w += 1
    with pytest.raises(pith.BaseMismatchError):
        cuda.check(sender.verify())
    w.data = zeros(6, 50)
    with pytest.raises(pith.BaseMismatchError, match="bind it again"):
        sender.encode(zeros(6, 50))
    sender.bind_base(w)
    cuda.check(sender.encode(zeros(6, 50)).status)
    with pytest.raises(pith.Error):
        ends(cuda, "wdiff", base_dtype="f32")[1].bind_base(w)
    with pytest.raises(pith.StateError, match="make another"):
        sender.__init__(sender.plan)
    cuda.check(sender.encode(zeros(6, 50)).status)


@pytest.mark.parametrize("base_dtype", ["f32", "bf16"])
def test_copies_of_the_base(cuda, torch, put, zeros, base_dtype):
    host, sender, receiver = ends(cuda, "wdiff", base_dtype=base_dtype, slots=3)
    assert not receiver.get_base().any()
    for step in range(2):
        made = sender.encode(put(noise(6, 50, seed=step)))
        for frame in rows(made):
            host.advance(frame, slot=rows(made).index(frame))
        cuda.check(receiver.decode(made, None))
        base = receiver.get_base()
        assert base.shape == (6, 50) and base.dtype == getattr(
            torch, {"f32": "float32", "bf16": "bfloat16"}[base_dtype]
        )
        assert same(base.float().cpu().numpy(), host.get_base(dtype="f32"))
        base += 1  # a copy
    cuda.check(receiver.verify())
    _, bound, _ = ends(cuda, "wdiff", base_dtype="f32", external_base=True)
    with pytest.raises(pith.StateError, match="no base"):
        bound.get_base()
    w = zeros(300)
    bound.bind_base(w)
    w += 2
    assert (bound.get_base() == 2).all() and bound.get_base().shape == (6, 50)
    with pytest.raises(pith.StateError, match="no base"):
        ends(cuda, "raw")[1].get_base()


@pytest.mark.parametrize("spec,base_dtype", [("grad:bits=8", None), ("wdiff", "f32")])
def test_ranges(cuda, put, zeros, spec, base_dtype):
    _, sender, receiver = ends(cuda, spec, base_dtype=base_dtype, slots=4)
    whole = zeros(6, 50)
    for step in range(2):
        made = sender.encode(put(noise(6, 50, seed=step)))
        part, pieces = zeros(6, 50), [zeros(40), zeros(40)]
        cuda.check(receiver.decode_range(made, part, 20, 40))
        listed = cuda.Frames(*(x[[3, 1]] for x in made))
        cuda.check(receiver.decode_range(listed, pieces, 20, 40, slots=[3, 1]))
        tail, nothing = [zeros(15)], [zeros(0)]
        first = cuda.Frames(*(x[:1] for x in made))
        cuda.check(receiver.decode_range(first, tail, 60, 1000, slots=[0]))
        cuda.check(receiver.decode_range(first, nothing, 75, 3, slots=[0]))
        cuda.check(receiver.decode(made, whole))
        slots = whole.reshape(4, 75)
        wanted = zeros(4, 75)
        wanted[:, 20:60] = slots[:, 20:60]
        assert same(part.cpu().numpy(), wanted.reshape(6, 50).cpu().numpy())
        for piece, expected in (
            (pieces[0], slots[3, 20:60]),
            (pieces[1], slots[1, 20:60]),
            (tail[0], slots[0, 60:]),
        ):
            assert same(piece.cpu().numpy(), expected.cpu().numpy())
    for range_ in ((-1, 3), (0, -1)):
        with pytest.raises(pith.ArgumentError, match="range"):
            receiver.decode_range(made, whole, *range_)
    with pytest.raises(pith.ShapeError, match="expected 40"):
        receiver.decode_range(first, [zeros(75)], 20, 40, slots=[0])


def test_frames_are_verified(cuda, put, zeros):
    _, sender, receiver = ends(cuda, "wdiff", base_dtype="f32", slots=2, checksums=True)
    made = sender.encode(put(noise(6, 50)))
    cuda.check(receiver.verify_frames(made))
    damaged = made._replace(frames=made.frames.clone())
    damaged.frames[1, int(made.lengths[1]) - 9] ^= 1
    assert [bool(one) for one in receiver.verify_frames(damaged)] == [False, True]
    with pytest.raises(pith.CorruptError):
        cuda.check(receiver.verify_frames(damaged))
    one = cuda.Frames(*(x[1:] for x in made))
    cuda.check(receiver.verify_frames(one, slots=[1]))
    cuda.check(receiver.decode(made, zeros(6, 50)))
    with pytest.raises(pith.StepError):
        cuda.check(receiver.verify_frames(made))
    with pytest.raises(pith.ShapeError, match="rows"):
        receiver.verify_frames(made, slots=[1])


def test_between_the_cpu_and_a_device(cuda, put):
    host, sender, _ = ends(cuda, "grad:ef=full,bits=4")
    x = noise(6, 50)
    host.encode(x)
    sender.load(host)
    assert rows(sender.encode(put(x))) == [host.encode(x)]
    other = pith.Stream(host.plan)
    sender.save(other)
    assert other.encode(x) == host.encode(x)


def test_sums(cuda, torch, put, zeros):
    plan = pith.Plan("grad:bits=8", shape=300, dtype="f32", slots=2)
    device = cuda.DevicePlan(plan)
    senders = [cuda.DeviceStream(device, rng_stream=i) for i in range(3)]
    tensors = [put(noise(300, seed=i)) for i in range(3)]
    made = [s.encode(x) for s, x in zip(senders, tensors, strict=True)]
    # Slot by slot: the frames of the first slot, then those of the second.
    order = [made[r].frames[slot] for slot in range(2) for r in range(3)]
    frames = torch.stack(order)[:, : plan.frame_bytes(0)].contiguous()
    receiver, out = cuda.DeviceStream(device), zeros(300)
    cuda.check(receiver.reduce(frames, out, scale=0.5))
    host = pith.Stream(plan)
    lists = [[rows(made[r])[slot] for r in range(3)] for slot in range(2)]
    expected = [host.reduce(some, slot=i, scale=0.5) for i, some in enumerate(lists)]
    assert same(out[:150].cpu().numpy(), expected[0])
    assert same(out[150:].cpu().numpy(), expected[1])
    to, host_to = cuda.DeviceStream(device), pith.Stream(plan)
    again = receiver.reduce_encode(frames, to, scale=0.5)
    cuda.check(again.status)
    for slot, some in enumerate(lists):
        frame = host.reduce_encode(some, host_to, slot=slot, to_slot=slot, scale=0.5)
        assert rows(again)[slot] == frame
    with pytest.raises(pith.ArgumentError, match="found 5 for 2 slots"):
        receiver.reduce(frames[:5], out)
    with pytest.raises(pith.ArgumentError, match="to_slots"):
        receiver.reduce_encode(frames, to, to_slots=[0])
    for scale in (0, 1e-46):  # which the library would take for 1
        with pytest.raises(pith.ArgumentError, match="scale"):
            receiver.reduce(frames, out, scale=scale)
        with pytest.raises(pith.ArgumentError, match="scale"):
            receiver.reduce_encode(frames, to, scale=scale)


def test_sets_of_elements(cuda, torch, put, zeros):
    host, sender, receiver = ends(cuda, "topk:density=0.1,ef=full,clear=call", slots=2)
    x = noise(6, 50)
    made = sender.encode(put(x))
    cuda.check(made.status)
    frames = [host.encode(x, slot=i) for i in range(2)]
    assert rows(made) == frames
    # The other end holds the sets of these frames, and values follow without their elements.
    for how in ("union", "intersection"):
        cuda.check(receiver.hold(made, how))
    follows = receiver.encode(put(2 * x), same_set=True)
    cuda.check(follows.status)
    other = pith.Stream(host.plan)
    for i, frame in enumerate(frames):
        other.hold([frame], slot=i)
    assert rows(follows) == [other.encode(2 * x, slot=i, same_set=True) for i in range(2)]
    whole = receiver.encode(put(x), held_set=True)
    assert rows(whole) == [other.encode(x, slot=i, held_set=True) for i in range(2)]
    # Values on their own: gathered, scattered, cleared.
    for source, given in ((None, None), (put(x), x)):
        got = sender.gather(source, capacity=40)
        cuda.check(got.status)
        for i in range(2):
            expected = host.gather(given, slot=i)
            assert same(got.values[i, : len(expected)].cpu().numpy(), expected)
            assert got.lengths[i] == 4 * len(expected)
    out, back = put(x.copy()), x.copy()
    values = [host.gather(x, slot=i) for i in range(2)]
    cuda.check(sender.scatter(got, out, scale=0.5))
    for i in range(2):
        host.scatter(values[i], back, scale=0.5, slot=i)
    assert same(out.cpu().numpy(), back)
    cuda.check(sender.clear())
    cuda.check(sender.gather(capacity=40).status)
    assert not sender.gather(capacity=40).values[0, :5].any()
    halves = sender.gather(put(x), capacity=40, slots=[1], dtype="f16")
    assert same(halves.values[0, : len(values[1])].cpu().numpy(), values[1].astype("f2"))
    # Sums to half precision have a space of their own.
    half = zeros(6, 50, dtype=torch.float16)
    cuda.check(sender.reduce(made, half))
    sums = [pith.Stream(host.plan).reduce([f], slot=i) for i, f in enumerate(frames)]
    flat = half.flatten().cpu().numpy()
    assert same(flat, torch.tensor([*sums[0], *sums[1]]).half().numpy())


def test_choices_that_are_asked_for(cuda, torch, put):
    host, sender, _ = ends(cuda, "topk:density=0.1,ef=full", slots=2)
    x = noise(6, 50)

    def same_frames() -> None:
        made = sender.encode(put(x))
        cuda.check(made.status)
        assert rows(made) == [host.encode(x, slot=i) for i in range(2)]
        states = sender.sparse_states()
        cuda.check(states.status)
        for i in range(2):
            assert tuple(each[i].item() for each in states[:-1]) == host.sparse_state(i)

    with pytest.raises(pith.StateError):
        cuda.check(sender.report(5))
    for request in ({}, {"first": 20, "count": 70}, {"k": 3}, {"threshold": 0.02}, {"count": 0}):
        cuda.check(sender.request(**request))
        for i in range(2):
            host.request(**request, slot=i)
        same_frames()
    cuda.check(sender.request())
    cuda.check(sender.report(put([40, 50])))
    for i in range(2):
        host.request(slot=i)
        host.report(40 + 10 * i, slot=i)
    same_frames()
    with pytest.raises(pith.ArgumentError):
        cuda.check(sender.request(100, 51))
    with pytest.raises(pith.ShapeError):
        sender.report(put([1, 2, 3]))


def test_sums_that_are_chosen_from_again(cuda, torch, put):
    host, sender, receiver = ends(cuda, "topk:density=0.1,ef=full", slots=2)
    x = noise(6, 50)
    made = sender.encode(put(x))
    cuda.check(made.status)
    frames = [host.encode(x, slot=i) for i in range(2)]
    again = sender.reduce_encode(made, receiver, scale=0.5)
    cuda.check(again.status)
    other = pith.Stream(host.plan)
    for i in range(2):
        expected = host.reduce_encode([frames[i]], other, slot=i, to_slot=i, scale=0.5)
        assert rows(again)[i] == expected


def test_sets_that_are_chosen_and_refused(cuda, put, zeros):
    host, sender, receiver = ends(cuda, "topk:density=0.1", slots=2)
    x = noise(6, 50)
    lists = [put([7, 3, 149]), put([0])]
    cuda.check(sender.hold_elements(lists))
    for i in range(2):
        host.hold_elements(lists[i].cpu(), slot=i)
    made = sender.encode(put(x), held_set=True)
    assert rows(made) == [host.encode(x, slot=i, held_set=True) for i in range(2)]
    cuda.check(sender.hold_elements([put([1])], 50, slots=[1]))
    got = sender.gather(put(x), capacity=50, slots=[1])
    assert same(got.values[0].cpu().numpy(), x.ravel()[200:250])
    with pytest.raises(pith.SpaceError):
        cuda.check(sender.gather(put(x), capacity=49, slots=[1]).status)
    for wrong in (put([150]), put([-1])):
        with pytest.raises(pith.ArgumentError):
            cuda.check(sender.hold_elements([wrong], slots=[0]))
    with pytest.raises(pith.StateError):
        cuda.check(receiver.encode(put(x), same_set=True).status)
    with pytest.raises(pith.StateError):
        cuda.check(receiver.gather(put(x), capacity=9).status)
    values = sender.gather(put(x), capacity=60)
    for call, error in (
        (lambda: sender.gather(capacity=9), pith.StateError),
        (lambda: sender.clear(), pith.StateError),
        (lambda: sender.gather(put(x), capacity=0), pith.ArgumentError),
        (lambda: sender.gather(put(x), capacity=-1), pith.ArgumentError),
        (lambda: sender.gather(put(x), capacity=9, dtype="i64"), pith.DtypeError),
        (lambda: sender.hold(made, "difference"), pith.ArgumentError),
        (lambda: sender.hold_elements(put([1])), pith.ArgumentError),
        (lambda: sender.hold_elements([put([0.5]), put([1])]), pith.DtypeError),
        (lambda: sender.scatter(values, put(x), slots=[0]), pith.ShapeError),
        (lambda: sender.scatter(values, put(x)[0]), pith.ShapeError),
        (lambda: ends(cuda, "grad")[1].clear(), pith.UnsupportedError),
    ):
        with pytest.raises(error):
            call()
    with pytest.raises(pith.ShapeError):
        cuda.check(sender.scatter(values._replace(lengths=values.lengths + 4), put(x)))


def test_random_bits_and_rollback(cuda, put):
    host, sender, _ = ends(cuda, "grad:bits=4,round=stochastic,ef=full")
    x = put(noise(6, 50))
    host.set_random(seed=3, rng_stream=2)
    sender.set_random(seed=3, rng_stream=2)
    host.set_step(7)
    sender.set_step(7)
    frame = host.encode(x.cpu())
    assert rows(sender.encode(x)) == [frame]
    sender.rollback(7)
    assert rows(sender.encode(x)) == [frame]


def test_pages(cuda, torch, put, zeros):
    plan = pith.Plan("kv:bits=8,page=16", shape=(64, 2, 64), dtype="f32")
    device = cuda.DevicePlan(plan)
    pool = put(torch.randn(8, 2, 16, 2, 64))[:, 1]
    ids = put([3, 1, 7])
    out = zeros(3, pith.kv.page_bytes(plan), dtype=torch.uint8)
    cuda.check(cuda.encode_pages(device, pool, ids, out))
    assert same(out.cpu().numpy(), pith.kv.encode_pages(plan, pool.cpu(), ids.cpu()))
    back = zeros(8, 16, 2, 64)
    host = back.cpu().clone()
    cuda.check(cuda.decode_pages(device, out, back, ids))
    pith.kv.decode_pages(plan, out.cpu(), host, ids.cpu())
    assert torch.equal(back.cpu(), host) and back[7].any()
    short = put([5, 16, 1])
    cuda.check(cuda.encode_pages(device, pool, ids, out, tokens=short))
    with pytest.raises(pith.ArgumentError):
        cuda.check(cuda.encode_pages(device, pool, ids, out, tokens=short + 100))
    for bad, error in (
        ((device, pool, ids.int(), out), pith.DtypeError),
        ((device, pool, ids, out[:2]), pith.ShapeError),
        ((device, pool.flatten(), ids, out), pith.ShapeError),
        ((device, pool, ids[0], out), pith.ShapeError),
        ((device, pool, ids[:1].reshape(1, 1), out[:1]), pith.ShapeError),
        ((device, None, ids, out), pith.DtypeError),
        ((device, zeros(8, 16, 2, 64).to_sparse(), ids, out), pith.UnsupportedError),
    ):
        with pytest.raises(error):
            cuda.encode_pages(*bad)
    for wrong in (put([5]), put([5, 16]), put([[5], [16], [1]])):  # one was taken for all
        with pytest.raises(pith.ShapeError, match="tokens"):
            cuda.encode_pages(device, pool, ids, out, tokens=wrong)


def test_pages_of_a_pool_with_the_negative_bit(cuda, torch, put, zeros):
    """Pages were made of the values with the other sign."""
    plan = pith.Plan("kv:bits=8,page=16", shape=(64, 2, 64), dtype="f32")
    pool, ids = torch._neg_view(put(torch.randn(8, 16, 2, 64))), put([3, 1, 7])
    out = zeros(3, pith.kv.page_bytes(plan), dtype=torch.uint8)
    for call in (
        lambda: cuda.encode_pages(cuda.DevicePlan(plan), pool, ids, out),
        lambda: cuda.decode_pages(cuda.DevicePlan(plan), out, pool, ids),
    ):
        with pytest.raises(pith.UnsupportedError, match=r"resolve_neg\(\)"):
            call()


@pytest.mark.parametrize("wrong", [0, -1, 17, 2**32, 2**32 + 5, -(2**32) + 5, 2**63 - 1, -(2**63)])
def test_tokens_that_a_page_does_not_have(cuda, torch, put, zeros, wrong):
    """0 was all of a page, and of others the low 32 bits were taken."""
    plan = pith.Plan("kv:bits=8,page=16", shape=(64, 2, 64), dtype="f32")
    device, pool, ids = cuda.DevicePlan(plan), put(torch.randn(8, 16, 2, 64)), put([3, 1])
    out = zeros(2, pith.kv.page_bytes(plan), dtype=torch.uint8)
    encoded = cuda.encode_pages(device, pool, ids, out, tokens=put([5, wrong]))
    assert out[0].any() and not out[1].any()
    back = torch.ones_like(pool)
    decoded = cuda.decode_pages(device, out, back, ids, tokens=put([5, wrong]))
    assert (back[3, :5] != 1).any() and (back[1] == 1).all()
    for status in (encoded, decoded):
        with pytest.raises(pith.ArgumentError) as failed:
            cuda.check(status)
        assert failed.value.item == 1


def test_other_things_than_plans_and_streams_are_refused(cuda, put, zeros):
    """They were an AttributeError."""
    host, sender, _ = ends(cuda, "grad")
    plan, x = sender.plan.plan, zeros(6, 50)
    made = sender.encode(x)
    for call, text in (
        (lambda: cuda.DevicePlan("grad"), r"plan: expected a pith\.Plan, found str"),
        (lambda: cuda.DeviceStream(plan), r"plan: expected a pith\.cuda\.DevicePlan, found Plan"),
        (lambda: sender.reduce_encode(made, None), r"to: expected a pith\.cuda\.DeviceStream"),
        (lambda: sender.reduce_encode(made, host), r"to: .*DeviceStream, found Stream"),
        (lambda: sender.load(sender), r"host: expected a pith\.Stream, found DeviceStream"),
        (lambda: sender.save(None), r"host: expected a pith\.Stream, found NoneType"),
        (lambda: cuda.encode_pages(plan, x, x, x), r"plan: expected a pith\.cuda\.DevicePlan"),
    ):
        with pytest.raises(TypeError, match=f"^{text}"):
            call()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_on_output_is_above_0(cuda, limit):
    """0 was no limit, on the CPU it is an error."""
    plan = pith.Plan("grad", shape=4, dtype="f32")
    with pytest.raises(pith.ArgumentError, match=f"^max_output: found {limit}, expected 1 or more"):
        cuda.DevicePlan(plan, max_output=limit)


def test_tensors_that_are_refused(cuda, torch, put, zeros):
    _, sender, _ = ends(cuda, "wdiff", base_dtype="f32")
    x = zeros(6, 50)
    for wrong, error in (
        (x.cpu().numpy(), pith.DtypeError),
        (x.double(), pith.DtypeError),
        (x.t(), pith.ShapeError),
        (zeros(6, 49), pith.ShapeError),
        (zeros(6, 50, device="meta"), pith.ArgumentError),
        ([x, x], pith.ArgumentError),
        ([zeros(7)], pith.ShapeError),
    ):
        with pytest.raises(error):
            sender.encode(wrong)
    with pytest.raises(pith.ShapeError, match="frames"):
        sender.decode(zeros(3, dtype=torch.uint8), x)
    with pytest.raises(pith.ShapeError, match="found 2 rows, expected 1"):
        sender.decode(zeros(2, 100, dtype=torch.uint8), x)
    with pytest.raises(pith.DtypeError):
        sender.decode(zeros(1, 100), x)
    with pytest.raises(pith.MagicError):
        cuda.check(sender.decode(zeros(1, 100, dtype=torch.uint8), x))
    with pytest.raises(pith.UnsupportedError):
        cuda.DevicePlan(pith.Plan("lossless", shape=4, dtype="f32"))
    with pytest.raises(pith.UnsupportedError, match="device"):
        cuda.DevicePlan(sender.plan.plan, torch.device("meta"))


def test_tensors_of_a_device_are_named_elsewhere(torch):
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device")
    with pytest.raises(pith.UnsupportedError, match=r"pith\.cuda"):
        pith.compress(torch.zeros(4, device="cuda"))
