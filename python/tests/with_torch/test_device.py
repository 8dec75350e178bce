"""The hook for models on a device: there where there is one, and over the host runner.

SPDX-License-Identifier: Apache-2.0

PITH_TEST_CUDA_HOST is the module over the host runner, see test_cuda.py; gloo exchanges the frames.
"""

import importlib.util
import os
import sys

import pytest
from ranks import bits, equal_everywhere, loss, net, run, torch
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


class Sums(torch.nn.Module):
    """A model whose gradients are what it is given."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.zeros(40, 20))
        self.b = torch.nn.Parameter(torch.zeros(33))
        self.c = torch.nn.Parameter(torch.zeros(30, 31))

    def forward(self, gradients):
        return sum((p * g).sum() for p, g in zip(self.parameters(), gradients, strict=True))


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
    use(place)
    model, _ = made(Sums(), place, exempt="exact" if rank else "16")
    with pytest.raises(Exception, match="rank 1 has another spec"):
        model(drawn(model.module, None, place)).backward()


@pytest.mark.parametrize("place", PLACES)
def test_ranks_of_different_specs(place):
    run(2, apart, place)


def damaged(rank, ranks, place):
    """A frame that cannot be read makes gradients NaN, and is an exception afterwards."""
    use(place)
    module = Sums()
    model, state = made(module, place)
    given = drawn(module, None, place)
    for _ in range(2):
        model(given).backward()
    exchange = state._exchange

    def cut(out, x):
        exchange(out, x)
        if rank == 0:  # its sums are no frames then, and no rank can read them
            out[-1, :8] = 0

    state._exchange = cut
    model.zero_grad()
    model(given).backward()
    assert all(p.grad.isnan().all() for p in module.parameters())
    with pytest.raises(pith.MagicError):
        state.check()
    state._exchange = exchange
    model.zero_grad()
    model(given).backward()
    state.check()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("place", PLACES)
def test_damaged_frames(place):
    run(2, damaged, place)


def refused(rank, ranks, place):
    use(place)
    model = DistributedDataParallel(Sums().to(place))
    for options, error in (
        ({"op": "max"}, pith.ArgumentError),
        ({"exempt": "8"}, pith.ArgumentError),
        ({"spec": "grad:bits=9"}, pith.SpecError),
        ({"gather": "grad:ef=full"}, pith.ArgumentError),
    ):
        with pytest.raises(error):
            device.State(model, **options)
    state = device.State(model)
    with pytest.raises(pith.ArgumentError):
        state.load_state_dict({"step": 1})
    with pytest.raises(pith.UnsupportedError, match="found codec lossless"):
        device.State(model, spec="lossless")


def stored(rank, ranks, place):
    """Sums of values that are stored as they are: those of f32."""
    use(place)
    module = Sums()
    model, _ = made(module, place, spec="raw", exempt=None, op="sum")
    model([p.detach() + rank + 1 for p in module.parameters()]).backward()
    assert all((p.grad == ranks * (ranks + 1) / 2).all() for p in module.parameters())


@pytest.mark.parametrize("place", PLACES)
def test_values_as_they_are(place):
    run(3, stored, place)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_refused(place):
    run(1, refused, place)
