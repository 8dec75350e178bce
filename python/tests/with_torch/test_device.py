"""The hook for models on a device: there where there is one, and over the host runner.

SPDX-License-Identifier: Apache-2.0

PITH_TEST_CUDA_HOST is the module over the host runner, see test_cuda.py; gloo exchanges the frames.
"""

import importlib.util
import os
import sys

import pytest
from ranks import Sums, bits, equal_everywhere, loss, net, run, torch
from torch.nn.parallel import DistributedDataParallel

import pith
from pith.torch import ddp, device

HOST = os.environ.get("PITH_TEST_CUDA_HOST")
PLACES = [
    pytest.param(
        "cpu", marks=pytest.mark.skipif(not HOST, reason="no module over the host runner")
    ),
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    ),
]
CAP = 0.004  # MB: the model has several buckets once they are rebuilt


def use(place):
    """Make pith.cuda work there."""
    if place != "cpu":
        return
    spec = importlib.util.spec_from_file_location("_cuda_host", HOST)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["pith._cuda"] = module
    cuda = importlib.import_module("pith.cuda")
    cuda.DEVICE = "cpu"
    cuda._current_stream = lambda device: module.ffi.NULL


def made(module, place, **options):
    model = DistributedDataParallel(module.to(place), bucket_cap_mb=CAP)
    register = device.register if place == "cpu" else ddp.register
    return model, register(model, **options)


def train(rank, ranks, place, options, dtype=torch.float32):
    use(place)
    model, state = made(net(dtype=dtype), place, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(30):
        optimizer.zero_grad()
        value = loss(model, rank, step)
        value.backward()
        optimizer.step()
        equal_everywhere(bits([p.cpu() for p in model.parameters()]))
        losses.append(value.item())
    state.check()
    assert len(state._buckets) > 1
    return sum(losses[-5:]) / 5, losses[0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "ranks,dtype", [(1, torch.float32), (3, torch.float32), (2, torch.bfloat16)]
)
def test_replicas_are_equal_and_the_loss_falls(place, ranks, dtype):
    options = {"spec": "grad:bits=4,ef=full", "gather": "grad:bits=8"}
    for end, start in run(ranks, train, place, options, dtype):
        assert end < 0.8 * start


def drawn(module, generator, place):
    return [torch.randn(p.shape, generator=generator).to(place) for p in module.parameters()]


def feedback(rank, ranks, place, op):
    """What the steps lack is what encoding says it has lost, whatever happened to buckets."""
    use(place)
    module, saved, wanted = Sums(), None, None
    options = {"spec": "grad:bits=4,ef=full", "op": op, "exempt": "exact"}
    g = torch.Generator().manual_seed(rank)
    for _ in range(2):
        model, state = made(module, place, **options)
        if saved is not None:
            state.load_state_dict(saved)
        for _ in range(3):
            given = drawn(module, g, place)
            model.zero_grad()
            model(given).backward()
            with torch.no_grad():
                for p in module.parameters():
                    p -= p.grad
            wanted = (
                given if wanted is None else [a + b for a, b in zip(wanted, given, strict=True)]
            )
        saved = state.state_dict()
    scale = ranks if op == "avg" else 1
    worst = 0.0
    for (name, p), total in zip(model.named_parameters(), wanted, strict=True):
        lost = saved["residuals"].get(name)
        assert (lost is None) == (p.dim() == 1)
        sums = torch.stack(
            [total.cpu(), torch.zeros(p.shape) if lost is None else lost.view(p.shape)]
        )
        torch.distributed.all_reduce(sums)
        lacking = sums[0] + p.detach().cpu() * scale
        torch.testing.assert_close(lacking, sums[1], atol=2e-4, rtol=1e-4)
        worst = max(worst, lacking.abs().max().item())
    assert worst > 0.05
    return saved["step"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", ["avg", "sum"])
def test_error_feedback_survives_rebuilt_buckets_and_checkpoints(place, op):
    assert run(2, feedback, place, op) == [5, 5]


NORMALIZED = {"spec": "grad:bits=2", "normalize": 0.5}


def small_beside_large(rank, ranks, place, options, dtype):
    """How much smaller elements of a gradient err, as a part of them, of the mean of the ranks."""
    use(place)
    model, _ = made(Sums().to(dtype), place, exempt=None, **options)
    g = torch.Generator().manual_seed(5)
    for _ in range(30):  # until what is small is known to be so
        given = []
        for p in model.parameters():
            signs = torch.randn(p.shape, generator=g).sign()
            small = torch.arange(p.numel()).view(p.shape) % 2 == 1
            given.append(torch.where(small, signs / 512, signs).to(place, dtype))
        model.zero_grad()
        model(given).backward()
    equal_everywhere(bits([p.grad.cpu() for p in model.parameters()]))
    worst = 0.0
    for p, x in zip(model.parameters(), given, strict=True):
        errors = (p.grad.float() - x.float())[x.abs() < 1].square().mean().sqrt()
        worst = max(worst, errors.item() * 512)
    return worst


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_small_elements_err_less_when_normalized(place, dtype):
    plain = {**NORMALIZED, "normalize": None}
    assert min(run(2, small_beside_large, place, plain, dtype)) > 10
    assert max(run(2, small_beside_large, place, NORMALIZED, dtype)) < 1


def means_kept(rank, ranks, place):
    """Means belong to parameters, in rebuilt buckets and in checkpoints, also in the CPU's hook."""
    use(place)
    saved, module = None, Sums()
    g = torch.Generator().manual_seed(rank)
    for _ in range(2):
        model, state = made(module, place, **NORMALIZED)
        if saved is not None:
            state.load_state_dict(saved)
        shapes = set()
        for _ in range(3):
            before = state.state_dict()
            model.zero_grad()
            model(drawn(module, g, place)).backward()
            after = state.state_dict()
            share = 0.5 / (1 - after["forgotten"])
            for name, p in model.named_parameters():
                assert (name in after["means"]) == (p.dim() > 1)
                if p.dim() > 1:
                    old = before["means"].get(name, torch.zeros(p.numel()))
                    wanted = old + share * (p.grad.cpu().flatten().square() - old)
                    torch.testing.assert_close(after["means"][name], wanted)
            shapes.add(tuple(bucket.names for bucket in state._buckets))
        assert len(shapes) == 2, "the buckets were not rebuilt"
        equal_everywhere(bits(after["means"].values()))
        saved = after
    assert saved["forgotten"] == 0.5**6
    for bad in ({**saved["means"], "q": torch.zeros(1)}, {"module.a": -torch.ones(800)}):
        with pytest.raises(pith.ArgumentError, match="means"):
            state.load_state_dict({"step": 1, "residuals": {}, "means": bad})
    other = ddp.State(DistributedDataParallel(Sums()), **NORMALIZED)
    other.load_state_dict(saved)
    assert bits(other.state_dict()["means"].values()) == bits(saved["means"].values())


@pytest.mark.parametrize("place", PLACES)
def test_means_survive_rebuilt_buckets_and_checkpoints(place):
    run(2, means_kept, place)


def damaged_when_normalized(rank, ranks, place):
    """Frames that cannot be read move no means."""
    use(place)
    module = Sums()
    model, state = made(module, place, **NORMALIZED)
    g = torch.Generator().manual_seed(rank)
    for _ in range(2):
        model(drawn(module, g, place)).backward()
    before, real = state.state_dict(), state._exchange

    def cut(out, x):
        real(out, x)
        out[-1, :8] = 0

    state._exchange = cut
    model(drawn(module, g, place)).backward()
    state._exchange = real
    with pytest.raises(pith.Error):
        state.check()
    assert all(p.grad.isnan().all() for p in module.parameters())
    assert bits(state.state_dict()["means"].values()) == bits(before["means"].values())
    model.zero_grad()
    model(drawn(module, g, place)).backward()
    state.check()
    assert all(p.grad.isfinite().all() for p in module.parameters())
    equal_everywhere(bits(state.state_dict()["means"].values()))


@pytest.mark.parametrize("place", PLACES)
def test_damaged_frames_move_no_means(place):
    run(2, damaged_when_normalized, place)


def reported(rank, ranks, place):
    use(place)
    module = Sums()
    model, state = made(module, place)
    assert state.reports == {}
    for _ in range(2):
        model(drawn(module, None, place)).backward()
    reports = state.reports
    assert sorted(reports) == list(range(len(state._buckets))) and len(reports) > 1
    for report in reports.values():
        parts = report[1:-1]
        assert min(parts) >= 0 and report.total_seconds > 0
        assert sum(parts) == pytest.approx(report.total_seconds, rel=1e-3)
    # At 8 bits each element is sent to its owner, but for those of one's own, and each sum to all.
    elements = sum(p.numel() for p in module.parameters())
    sent = sum(report.sent_bytes for report in reports.values())
    assert 2 * (ranks - 1) / ranks * elements < sent < 4 * (ranks - 1) / ranks * elements + 2000


@pytest.mark.parametrize("place", PLACES)
def test_reports(place):
    run(3, reported, place)


def left_alone(rank, ranks, place):
    """A rank that ends is an exception of the others."""
    use(place)
    module = Sums()
    model, _ = made(module, place)
    for _ in range(2):
        model(drawn(module, None, place)).backward()
    if rank == 1:
        os._exit(3)
    with pytest.raises(RuntimeError):
        for _ in range(3):
            model(drawn(module, None, place)).backward()


@pytest.mark.parametrize("place", PLACES)
def test_a_rank_that_ends(place):
    run(3, left_alone, place, dies=(1,))


def rolled_back(rank, ranks, place):
    use(place)
    module = Sums()
    model, state = made(module, place, spec="grad:bits=4,ef=full,round=stochastic")
    g = torch.Generator().manual_seed(rank)
    for _ in range(3):
        model(drawn(module, g, place)).backward()
    given, found = drawn(module, g, place), []
    for _ in range(2):
        model.zero_grad()
        model(given).backward()
        found.append(bits([p.grad.cpu() for p in module.parameters()]))
        state.rollback()
    state.rollback()
    assert found[0] == found[1]


@pytest.mark.parametrize("place", PLACES)
def test_a_step_is_taken_back(place):
    run(2, rolled_back, place)


def apart(rank, ranks, place):
    """What ranks do not have in common, or one of them alone cannot do, is an error of all."""
    use(place)
    model = DistributedDataParallel(Sums().to(place))
    for name, values in (
        ("exempt", ("16", "exact")),
        ("op", ("avg", "sum")),
        ("seed", (0, 1)),
        ("normalize", (None, 0.5)),
    ):
        with pytest.raises(pith.ArgumentError, match="rank 1 has"):
            device.State(model, **{name: values[rank]})
    with pytest.raises(pith.Error, match="max"):
        device.State(model, op="max" if rank else "avg")
    state = device.State(model)
    if rank:
        state._cuda = None
    model.register_comm_hook(state, device.hook)
    with pytest.raises(RuntimeError, match="rank 1: .*NoneType" if not rank else "NoneType"):
        model(drawn(model.module, None, place)).backward()


@pytest.mark.parametrize("place", PLACES)
def test_ranks_that_differ(place):
    run(2, apart, place)


def damaged(rank, ranks, place, hop):
    """A frame that one rank cannot read makes gradients NaN, and is an exception, on all."""
    use(place)
    module = Sums()
    model, state = made(module, place, spec="grad:bits=4,ef=full", gather="grad:bits=8,ef=full")
    given = drawn(module, None, place)
    for _ in range(3):
        model(given).backward()
    real = getattr(state, hop)

    def cut(out, x):
        real(out, x)
        if rank == 0 or hop == "_gather":
            out[-1, :8] = 0

    for later in (False, True):
        setattr(state, hop, cut)
        model.zero_grad()
        model(given).backward()
        setattr(state, hop, real)
        assert all(p.grad.isnan().all() for p in module.parameters())
        state.rollback()
        kinds = pith.MagicError if rank == 0 or hop == "_gather" else pith.Error
        if later:
            with pytest.raises(RuntimeError, match="step 6, bucket of"):
                model(given).backward()
            state.rollback()
        else:
            with pytest.raises(kinds, match="step 3, bucket of"):
                state.check()
        before = bits(state.state_dict()["residuals"].values())
        for _ in range(2):
            model.zero_grad()
            model(given).backward()
            state.check()
            assert all(p.grad.isfinite().all() for p in module.parameters())
            state.rollback()
        assert bits(state.state_dict()["residuals"].values()) == before


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hop", ["_exchange", "_gather"])
def test_damaged_frames(place, hop):
    run(2, damaged, place, hop)


def broken(rank, ranks, place):
    """A rank that cannot encode raises; the others have sums without it, which are NaN."""
    use(place)
    module = Sums()
    model, state = made(module, place)
    given = drawn(module, None, place)
    model(given).backward()
    model(given).backward()
    if rank:
        encode = state._buckets[0].streams[0].encode
        state._buckets[0].streams[0].encode = lambda *_, **__: 1 / 0
        with pytest.raises(RuntimeError, match="division by zero"):
            model(given).backward()
        state._buckets[0].streams[0].encode = encode
    else:
        model(given).backward()
        assert any(p.grad.isnan().all() for p in module.parameters())
    with pytest.raises(pith.Error):
        state.check()
    model.zero_grad()
    model(given).backward()
    state.check()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("place", PLACES)
def test_a_rank_that_cannot_encode(place):
    run(2, broken, place)


def refused(rank, ranks, place):
    use(place)
    model = DistributedDataParallel(Sums().to(place))
    for options, error in (
        ({"op": "max"}, pith.ArgumentError),
        ({"exempt": "8"}, pith.ArgumentError),
        ({"spec": "grad:bits=9"}, pith.SpecError),
        ({"gather": "grad:ef=full"}, pith.ArgumentError),
        ({"normalize": 1.0}, pith.ArgumentError),
        ({"normalize": 0.5, "spec": "grad:ef=full"}, pith.ArgumentError),
        ({"spec": "lossless"}, pith.UnsupportedError),
        ({"spec": "raw"}, pith.UnsupportedError),
        ({"kind": "union"}, pith.UnsupportedError),
    ):
        with pytest.raises(error):
            device.register(model, **options)
    with pytest.raises(pith.DtypeError, match="found torch"):
        device.register(DistributedDataParallel(Sums().to(place).double()))
    state = device.State(model, spec=None)
    for bad in ({"step": 1}, {"step": -7, "residuals": {}}, {"step": 0, "residuals": {"q": 0}}):
        with pytest.raises(pith.ArgumentError):
            state.load_state_dict(bad)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_refused(place):
    run(1, refused, place)


def stored(rank, ranks, place, dtype):
    """Sums of values that are stored as they are: those of f32."""
    use(place)
    module = Sums().to(dtype)
    model, _ = made(module, place, spec="raw", exempt=None, op="sum")
    model([p.detach() + rank + 1 for p in module.parameters()]).backward()
    assert all((p.grad == ranks * (ranks + 1) / 2).all() for p in module.parameters())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_as_they_are(place, dtype):
    run(3, stored, place, dtype)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_over_nccl():
    options = {"spec": "grad:bits=4,ef=full", "gather": "grad:bits=8"}
    ((end, start),) = run(1, train, "cuda", options, backend="nccl")
    assert end < 0.8 * start
