"""pith.cuda without a device: over the host runner, where one was built, and what it refuses.

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


@pytest.fixture(scope="module")
def cuda():
    """pith.cuda over the host runner."""
    pytest.importorskip("torch", reason="torch is not installed")
    if not HOST:
        pytest.skip("the module over the host runner was not built")
    spec = importlib.util.spec_from_file_location("_cuda_host", HOST)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["pith._cuda"] = module
    from pith import cuda

    cuda.DEVICE = "cpu"
    cuda._current_stream = lambda device: module.ffi.NULL
    yield cuda
    del sys.modules["pith._cuda"], sys.modules["pith.cuda"]


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
        frame[: int(n)].numpy().tobytes()
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
def test_frames_are_those_of_the_cpu(cuda, torch, spec, base_dtype, slots):
    host, sender, receiver = ends(cuda, spec, base_dtype=base_dtype, slots=slots)
    for step in range(3):
        x = noise(6, 50, seed=step)
        made = sender.encode(torch.from_numpy(x))
        cuda.check(made.status)
        assert rows(made) == [host.encode(x, slot=i) for i in range(slots)]
        out = torch.zeros(6, 50)
        cuda.check(receiver.decode(made, out))
        assert abs(out.numpy() - x).max() < 1
        if base_dtype:
            assert same(out.numpy(), host.get_base(dtype="f32"))
            cuda.check(sender.verify())


def test_pieces_and_listed_slots(cuda, torch):
    host, sender, receiver = ends(cuda, "wdiff", base_dtype="f32", slots=4)
    x = torch.from_numpy(noise(6, 50))
    pieces = [x.flatten()[150:225].clone(), x.flatten()[:75].clone()]
    made = sender.encode(pieces, slots=[2, 0])
    cuda.check(made.status)
    assert rows(made) == [host.encode(x, slot=i) for i in (2, 0)]
    outs = [torch.zeros(75), torch.zeros(75)]
    cuda.check(receiver.decode(made, outs, slots=[2, 0]))
    assert same(outs[0].numpy(), host.get_base(slot=2))
    cuda.check(receiver.decode(sender.encode(x, slots=[1]), None, slots=[1]))
    for slots in ([4], [-1]):
        with pytest.raises(pith.ArgumentError, match="slots"):
            sender.encode(x, slots=slots)


def test_bases_steps_and_key_frames(cuda, torch):
    host, sender, receiver = ends(cuda, "wdiff", base_dtype="f32")
    base = noise(6, 50, seed=9)
    host.set_base(base, step=5)
    sender.set_base(torch.from_numpy(base), step=5)
    x = noise(6, 50)
    made = sender.encode(torch.from_numpy(x))
    assert rows(made) == [host.encode(x)]
    with pytest.raises(pith.StepError) as caught:
        cuda.check(receiver.decode(made, torch.zeros(6, 50)))
    assert caught.value.item == 0
    key = sender.encode(torch.from_numpy(x), key_frame=True)
    assert rows(key) == [host.encode(x, key_frame=True)]
    out = torch.zeros(6, 50)
    cuda.check(receiver.decode(key, out))
    assert same(out.numpy(), x)
    added = torch.from_numpy(x.copy())
    cuda.check(receiver.decode(sender.encode(torch.from_numpy(x + 1)), added, add=True))
    assert abs(added.numpy() - x - 1).max() < 0.2


def test_external_base(cuda, torch):
    _, sender, receiver = ends(cuda, "wdiff", base_dtype="f32", external_base=True)
    w, v = torch.zeros(6, 50), torch.zeros(6, 50)
    sender.bind_base(w)
    receiver.bind_base(v)
    cuda.check(receiver.decode(sender.encode(torch.from_numpy(noise(6, 50))), None))
    assert torch.equal(w, v) and w.any()
    w += 1
    with pytest.raises(pith.BaseMismatchError):
        cuda.check(sender.verify())
    w.data = torch.zeros(6, 50)
    with pytest.raises(pith.BaseMismatchError, match="bind it again"):
        sender.encode(torch.zeros(6, 50))
    sender.bind_base(w)
    cuda.check(sender.encode(torch.zeros(6, 50)).status)


def test_between_the_cpu_and_a_device(cuda, torch):
    host, sender, _ = ends(cuda, "grad:ef=full,bits=4")
    x = noise(6, 50)
    host.encode(x)
    sender.load(host)
    assert rows(sender.encode(torch.from_numpy(x))) == [host.encode(x)]
    other = pith.Stream(host.plan)
    sender.save(other)
    assert other.encode(x) == host.encode(x)


def test_sums(cuda, torch):
    plan = pith.Plan("grad:bits=8", shape=300, dtype="f32", slots=2)
    device = cuda.DevicePlan(plan)
    senders = [cuda.DeviceStream(device, rng_stream=i) for i in range(3)]
    tensors = [torch.from_numpy(noise(300, seed=i)) for i in range(3)]
    made = [s.encode(x) for s, x in zip(senders, tensors, strict=True)]
    # Slot by slot: the frames of the first slot, then those of the second.
    order = [made[r].frames[slot] for slot in range(2) for r in range(3)]
    frames = torch.stack(order)[:, : plan.frame_bytes(0)].contiguous()
    receiver, out = cuda.DeviceStream(device), torch.zeros(300)
    cuda.check(receiver.reduce(frames, out, scale=0.5))
    host = pith.Stream(plan)
    lists = [[rows(made[r])[slot] for r in range(3)] for slot in range(2)]
    expected = [host.reduce(some, slot=i, scale=0.5) for i, some in enumerate(lists)]
    assert same(out.numpy()[:150], expected[0]) and same(out.numpy()[150:], expected[1])
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


def test_random_bits_and_rollback(cuda, torch):
    host, sender, _ = ends(cuda, "grad:bits=4,round=stochastic,ef=full")
    x = torch.from_numpy(noise(6, 50))
    host.set_random(seed=3, rng_stream=2)
    sender.set_random(seed=3, rng_stream=2)
    host.set_step(7)
    sender.set_step(7)
    frame = host.encode(x)
    assert rows(sender.encode(x)) == [frame]
    sender.rollback(7)
    assert rows(sender.encode(x)) == [frame]


def test_pages(cuda, torch):
    plan = pith.Plan("kv:bits=8,page=16", shape=(64, 2, 64), dtype="f32")
    device = cuda.DevicePlan(plan)
    pool = torch.randn(8, 2, 16, 2, 64)[:, 1]
    ids = torch.tensor([3, 1, 7])
    out = torch.zeros(3, pith.kv.page_bytes(plan), dtype=torch.uint8)
    cuda.check(cuda.encode_pages(device, pool, ids, out))
    assert same(out.numpy(), pith.kv.encode_pages(plan, pool, ids))
    back, host = torch.zeros(8, 16, 2, 64), torch.zeros(8, 16, 2, 64)
    cuda.check(cuda.decode_pages(device, out, back, ids))
    pith.kv.decode_pages(plan, out, host, ids)
    assert torch.equal(back, host) and back[7].any()
    short = torch.tensor([5, 16, 1])
    cuda.check(cuda.encode_pages(device, pool, ids, out, tokens=short))
    with pytest.raises(pith.ArgumentError):
        cuda.check(cuda.encode_pages(device, pool, ids, out, tokens=short + 100))
    for bad, error in (
        ((device, pool, ids.int(), out), pith.DtypeError),
        ((device, pool, ids, out[:2]), pith.ShapeError),
        ((device, pool.flatten(), ids, out), pith.ShapeError),
    ):
        with pytest.raises(error):
            cuda.encode_pages(*bad)


def test_tensors_that_are_refused(cuda, torch):
    _, sender, _ = ends(cuda, "wdiff", base_dtype="f32")
    x = torch.zeros(6, 50)
    for wrong, error in (
        (x.numpy(), pith.DtypeError),
        (x.double(), pith.DtypeError),
        (x.t(), pith.ShapeError),
        (torch.zeros(6, 49), pith.ShapeError),
        (torch.zeros(6, 50, device="meta"), pith.ArgumentError),
        ([x, x], pith.ArgumentError),
        ([torch.zeros(7)], pith.ShapeError),
    ):
        with pytest.raises(error):
            sender.encode(wrong)
    with pytest.raises(pith.ShapeError, match="frames"):
        sender.decode(torch.zeros(3, dtype=torch.uint8), x)
    with pytest.raises(pith.ShapeError, match="found 2 rows, expected 1"):
        sender.decode(torch.zeros(2, 100, dtype=torch.uint8), x)
    with pytest.raises(pith.DtypeError):
        sender.decode(torch.zeros(1, 100), x)
    with pytest.raises(pith.MagicError):
        cuda.check(sender.decode(torch.zeros(1, 100, dtype=torch.uint8), x))
    with pytest.raises(pith.UnsupportedError):
        cuda.DevicePlan(pith.Plan("lossless", shape=4, dtype="f32"))
    with pytest.raises(pith.UnsupportedError, match="device"):
        cuda.DevicePlan(sender.plan.plan, torch.device("meta"))


def test_tensors_of_a_device_are_named_elsewhere(torch):
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device")
    with pytest.raises(pith.UnsupportedError, match=r"pith\.cuda"):
        pith.compress(torch.zeros(4, device="cuda"))
