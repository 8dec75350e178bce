"""The hook of DistributedDataParallel.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
from ranks import TIMEOUT, Sums, bits, equal_everywhere, loss, net, run, torch
from torch.nn.parallel import DistributedDataParallel

import pith
from pith.torch import _group, ddp, device
from pith.torch._squares import DeviceSquares, Squares

CAP = 0.004  # MB: the model has several buckets once they are rebuilt
FEEDBACK = {"spec": "grad:bits=4,ef=full", "inter": "grad:bits=3,ef=full"}


def train(rank, ranks, options, steps=30, dtype=torch.float32):
    model = DistributedDataParallel(net(dtype=dtype), bucket_cap_mb=CAP)
    state = None if options is None else ddp.register(model, timeout=TIMEOUT, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(model, rank, step)
        value.backward()
        optimizer.step()
        equal_everywhere(bits(model.parameters()))
        losses.append(value.item())
    if state is not None:
        assert len(state.reports) > 1
        levels = 2 if options.get("ranks_per_node") else 1
        assert {report.levels for report in state.reports.values()} == {levels}
    return sum(losses[-5:]) / 5, losses[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_replicas_are_equal_and_the_loss_falls_as_without(dtype):
    plain = run(3, train, None, 30, dtype)
    packed = run(3, train, {**FEEDBACK, "ranks_per_node": 2}, 30, dtype)
    for (end, start), (plain_end, _) in zip(packed, plain, strict=True):
        assert end < 0.8 * start
        assert abs(end - plain_end) < 0.1 * plain_end


def overlapped(rank, ranks):
    model = DistributedDataParallel(net(), bucket_cap_mb=CAP)
    state = ddp.register(model, timeout=TIMEOUT)
    loss(model, rank, 0).backward()  # buckets are rebuilt behind it
    seen, sent, run_bucket = [], threading.Event(), state._run
    state._run = lambda *bucket: (run_bucket(*bucket), sent.set())[0]
    # The gradient that comes last waits until a bucket of others has been exchanged.
    model.module[0].weight.register_hook(lambda _: seen.append(sent.wait(TIMEOUT / 4)))
    loss(model, rank, 1).backward()
    assert seen == [True]


def test_buckets_travel_while_backward_goes_on():
    run(2, overlapped)


def empty(rank, ranks, options):
    module = Sums()
    module.a, module.b = (torch.nn.Parameter(torch.zeros(s)) for s in ((0, 4), (0,)))
    model = DistributedDataParallel(module, bucket_cap_mb=CAP)
    state = ddp.register(model, timeout=TIMEOUT, **options)
    for _ in range(3):
        model.zero_grad()
        model([torch.full(p.shape, 1.0 + rank) for p in module.parameters()]).backward()
        for p in module.parameters():
            torch.testing.assert_close(p.grad, torch.full(p.shape, 1.5), atol=0.1, rtol=0)
        state.load_state_dict(state.state_dict())


@pytest.mark.parametrize("options", [{}, {"spec": "grad:ef=full,bits=8"}, {"normalize": 0.95}])
def test_parameters_of_no_elements(options):
    run(2, empty, options)


def feedback(rank, ranks, op, per_node):
    """What the steps lack is what encoding says it has lost, whatever happened to buckets."""
    options = {**FEEDBACK, "op": op, "ranks_per_node": per_node, "exempt": "exact"}
    module, saved, wanted = Sums(), None, None
    g = torch.Generator().manual_seed(rank)
    for _ in range(2):
        model = DistributedDataParallel(module, bucket_cap_mb=CAP)
        state = ddp.register(model, timeout=TIMEOUT, **options)
        if saved is not None:
            state.load_state_dict(saved)
            assert set(state.state_dict()["residuals"]) == set(saved["residuals"])
        shapes = set()
        for _ in range(3):
            given = [torch.randn(p.shape, generator=g) for p in module.parameters()]
            model.zero_grad()
            model(given).backward()
            with torch.no_grad():
                for p in module.parameters():
                    p -= p.grad
            wanted = (
                given if wanted is None else [a + b for a, b in zip(wanted, given, strict=True)]
            )
            shapes.add(tuple(bucket.names for bucket in state._buckets))
        assert len(shapes) == 2, "the buckets were not rebuilt"
        saved = state.state_dict()
    scale = ranks if op == "avg" else 1
    worst = 0.0
    for (name, p), total in zip(model.named_parameters(), wanted, strict=True):
        lost = saved["residuals"].get(name)
        assert (lost is None) == (p.dim() == 1)
        sums = torch.stack([total, torch.zeros_like(total) if lost is None else lost.view_as(p)])
        torch.distributed.all_reduce(sums)
        lacking = sums[0] + p.detach() * scale
        torch.testing.assert_close(lacking, sums[1], atol=2e-4, rtol=1e-4)
        worst = max(worst, lacking.abs().max().item())
    assert worst > 0.05
    return saved["step"]


@pytest.mark.parametrize("op,per_node", [("avg", None), ("sum", 2)])
def test_error_feedback_survives_rebuilt_buckets_and_checkpoints(op, per_node):
    assert run(3, feedback, op, per_node) == [5, 5, 5]


NORMALIZED = {"spec": "grad:bits=2", "inter": None, "normalize": 0.9}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_replicas_are_equal_when_gradients_are_normalized(dtype):
    plain = run(2, train, None, 30, dtype)
    for (end, start), (plain_end, _) in zip(
        run(2, train, NORMALIZED, 30, dtype), plain, strict=True
    ):
        assert end < 0.8 * start
        assert abs(end - plain_end) < 0.2 * plain_end


def small_beside_large(rank, ranks, options):
    """How much smaller elements of a gradient err, as a part of them, of the sum of the ranks."""
    model = DistributedDataParallel(Sums())
    ddp.register(model, timeout=TIMEOUT, op="sum", **options)
    names = [name for name, p in model.named_parameters() if p.dim() > 1]
    g = torch.Generator().manual_seed(5)
    for _ in range(30):  # until what is small is known to be so
        given = []
        for p in model.parameters():
            signs = torch.randn(p.shape, generator=g).sign()
            small = torch.arange(p.numel()).view(p.shape) % 2 == 1
            given.append(torch.where(small, signs / 512, signs))
        model.zero_grad()
        model(given).backward()
    worst = 0.0
    for (name, p), x in zip(model.named_parameters(), given, strict=True):
        if name in names:
            small = x.abs() < 1
            errors = (p.grad - ranks * x)[small].square().mean().sqrt()
            worst = max(worst, errors.item() * 512 / ranks)
    return worst


def test_small_elements_err_less_when_normalized():
    plain, normalized = {**NORMALIZED, "normalize": None}, {**NORMALIZED, "normalize": 0.5}
    assert min(run(2, small_beside_large, plain)) > 10
    assert max(run(2, small_beside_large, normalized)) < 1


def means_kept(rank, ranks):
    """Means belong to parameters, in rebuilt buckets and in checkpoints, and every rank's agree."""
    options, saved, module = {**NORMALIZED, "exempt": "exact"}, None, Sums()
    g = torch.Generator().manual_seed(rank)
    for _ in range(2):
        model = DistributedDataParallel(module, bucket_cap_mb=CAP)
        state = ddp.register(model, timeout=TIMEOUT, **options)
        if saved is not None:
            state.load_state_dict(saved)
        shapes = set()
        for _ in range(3):
            given = [torch.randn(p.shape, generator=g) for p in module.parameters()]
            before = state.state_dict()
            assert saved is None or set(before["means"]) == set(saved["means"])
            model.zero_grad()
            model(given).backward()
            after = state.state_dict()
            share = 0.1 / (1 - after["forgotten"])
            for name, p in model.named_parameters():
                assert (name in after["means"]) == (p.dim() > 1)
                if p.dim() > 1:
                    old = before["means"].get(name, torch.zeros(p.numel()))
                    wanted = old + share * (p.grad.flatten().square() - old)
                    torch.testing.assert_close(after["means"][name], wanted)
            shapes.add(tuple(bucket.names for bucket in state._buckets))
        assert len(shapes) == 2, "the buckets were not rebuilt"
        equal_everywhere(bits(after["means"].values()))
        saved = after
    assert abs(saved["forgotten"] - 0.9**6) < 1e-12
    state.load_state_dict({"step": -1, "residuals": {}})
    assert not any(one.any() for one in state.state_dict()["means"].values())


def test_means_survive_rebuilt_buckets_and_checkpoints():
    run(2, means_kept)


@pytest.mark.parametrize("squares_of", [Squares, DeviceSquares])
def test_what_is_divided_comes_back(squares_of):
    count, first = 100003, 70000
    g = torch.Generator().manual_seed(1)
    squares = squares_of(count, [(0, first - 5), (first, count - first)])
    x = torch.randn(count, generator=g) * 10.0 ** torch.randint(-15, 18, (count,), generator=g)
    x[3], x[4], x[5] = 0, float("inf"), float("nan")
    for step in range(3):
        y = x.clone()
        squares.divide(y)
        assert step > 0 or bits([y]) == bits([x])
        assert bits([y[first - 5 : first]]) == bits([x[first - 5 : first]])
        squares.multiply(y, 1.0 if step == 0 else 0.5)
        torch.testing.assert_close(y, x, equal_nan=True, rtol=1e-6, atol=0)
        assert bool(torch.isfinite(squares.means).all()) and bool((squares.means >= 0).all())
    assert squares.means[4] == squares.means[5] == squares.means[first - 1] == 0
    for few in (0, 1):
        nothing = squares_of(few, [(0, few)])
        for _ in range(2):
            y = torch.zeros(few)
            nothing.divide(y)
            nothing.multiply(y, 1.0)
            assert not y.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_means_on_a_device_are_those_of_the_cpu(dtype, monkeypatch):
    """But for roots of PyTorch on a CPU, in whose memory these are: few are not the nearest."""
    monkeypatch.setattr("pith.torch._squares._CHUNK_ON_DEVICE", 4097)
    count, ranges, weight = 20011, [(5, 9000), (9000 + 7, 11004)], 3.0
    host, other = Squares(count, ranges, weight), DeviceSquares(count, ranges, weight)
    g = torch.Generator().manual_seed(2)
    largest = 1e4 if dtype == torch.float16 else 1e15
    for step in range(5):
        x = torch.randn(count, generator=g) * largest ** torch.rand(count, generator=g)
        x[9:13] = torch.tensor([float("nan"), 0.0, float("inf"), -float("inf")])
        if step == 3:
            saved = host.means[5:9005].clone()
            for squares in (host, other):
                squares.reset()
                squares.begin(5, saved)
        y, z = x.to(dtype), x.to(dtype, copy=True)
        host.divide(y)
        other.divide(z)
        close = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 0, "equal_nan": True}
        torch.testing.assert_close(y, z, **close)
        host.multiply(y, 1 / (step + 1))
        other.multiply(z, 1 / (step + 1))
        torch.testing.assert_close(y, z, **close)
        torch.testing.assert_close(host.means, other.means, rtol=2 * close["rtol"], atol=0)
    assert not other.means[:5].any() and not other.means[9005:9007].any()


def grow_in_f16(rank, ranks, op):
    """Elements that become far larger than ever before are finite, and soon what they were."""
    model = DistributedDataParallel(Sums().half())
    ddp.register(model, timeout=TIMEOUT, op=op, **{**NORMALIZED, "spec": "grad:bits=8"})
    factor = ranks if op == "sum" else 1
    for step in range(16):
        size = 1e-6 if step < 3 else 1.0
        given = [torch.full_like(p, size) for p in model.parameters()]
        if step == 12 and rank == 0:
            given[0].view(-1)[0] = float("inf")
        model.zero_grad()
        model(given).backward()
        finite = all(bool(p.grad.isfinite().all()) for p in model.parameters())
        assert finite == (step != 12), step
    for p in model.parameters():
        torch.testing.assert_close(p.grad / factor, torch.ones_like(p), atol=0.1, rtol=0)


@pytest.mark.parametrize("op", ["avg", "sum"])
def test_normalized_gradients_in_f16_may_grow(op):
    run(2, grow_in_f16, op)


def rolled_back(rank, ranks):
    model = DistributedDataParallel(Sums())
    state = ddp.register(model, timeout=TIMEOUT, **FEEDBACK)
    g = torch.Generator().manual_seed(rank)
    for step in range(3):
        given = [torch.randn(p.shape, generator=g) for p in model.parameters()]
        if step == 2:
            before = state.state_dict()["residuals"]
        model(given).backward()
    state.rollback()
    after = state.state_dict()["residuals"]
    assert all(torch.equal(before[name], after[name]) for name in before) and before


def test_a_step_is_taken_back():
    run(2, rolled_back)


def begun_again(rank, ranks, options):
    """A state of before the first step, in which nothing was lost, is taken up as it is."""
    model = DistributedDataParallel(Sums())
    state = ddp.register(model, timeout=TIMEOUT, **options)
    start, g = state.state_dict(), torch.Generator().manual_seed(rank)
    given = [torch.randn(p.shape, generator=g) for p in model.parameters()]
    found = []
    for _ in range(2):  # after which buckets stay as they are
        model(given).backward()
    for _ in range(2):
        state.load_state_dict(start)
        model.zero_grad()
        for _ in range(3):  # parts of two ranks are others after an odd number
            model(given).backward()
        lost = state.state_dict()["residuals"]
        assert lost and any(one.any() for one in lost.values())
        found.append((bits([p.grad for p in model.parameters()]), bits(lost.values())))
        state.reports[99] = None  # of a bucket that is no more
    assert found[0] == found[1]
    model(given).backward()
    assert 99 not in state.reports


SPARSE = [
    {"kind": "gather", "spec": "topk:density=0.1,values=f16,ef=full"},
    {"kind": "union"},
    {"kind": "union", "partitions": "even", "spec": "topk:density=0.2,control=exact,ef=full"},
    {"kind": "union", "partitions": "moving", "spec": "topk:density=0.2,control=micro,ef=full"},
    {"kind": "union", "partitions": "deft", "spec": "topk:density=0.2,control=exact,ef=full"},
    {"kind": "union", "partitions": "leader", "spec": "topk:density=0.2,control=exact,ef=full"},
    {"kind": "oktopk", "spec": "topk:density=0.1,ef=full", "refresh": 4},
]


@pytest.mark.parametrize("options", [FEEDBACK, SPARSE[2], SPARSE[3]])
def test_a_state_of_the_beginning_is_taken_up(options):
    run(2, begun_again, options)


@pytest.mark.parametrize("options", SPARSE)
def test_replicas_are_equal_when_the_largest_gradients_travel(options):
    for end, start in run(3, train, options, 40):
        assert end < 0.8 * start


def lacking(rank, ranks, options):
    """What the steps lack is in the residuals, when buckets are rebuilt and a step taken back."""
    model = DistributedDataParallel(Sums(), bucket_cap_mb=CAP)
    state = ddp.register(model, timeout=TIMEOUT, **options)
    parameters, g = list(model.parameters()), torch.Generator().manual_seed(rank)
    wanted, had = [[torch.zeros_like(p) for p in parameters] for _ in range(2)]
    for step in range(6):
        given = [torch.randn(p.shape, generator=g) for p in parameters]
        for again in (False, True) if step == 4 else (True,):
            model.zero_grad()
            model(given).backward()
            now = bits([p.grad for p in parameters])
            equal_everywhere(now)
            if not again:
                first = now
                state.rollback()
                state._step -= 1
        assert step != 4 or first == now
        for i, p in enumerate(parameters):
            had[i] += p.grad
            wanted[i] += given[i]
    lost = state.state_dict()["residuals"]
    names = [name for name, _ in model.named_parameters()]
    worst = 0.0
    for name, one, total in zip(names, had, wanted, strict=True):
        sums = torch.stack([total, lost[name].view_as(total)])
        torch.distributed.all_reduce(sums)
        torch.testing.assert_close(sums[0] - one * ranks, sums[1], atol=2e-3, rtol=1e-3)
        worst = max(worst, sums[1].abs().max().item())
    assert worst > 1
    assert all(report.chosen > 0 for report in state.reports.values())
    assert {i: sum(counts) for i, counts in state.chosen.items()} == {
        i: report.chosen for i, report in state.reports.items()
    }
    assert all(len(counts) == ranks for counts in state.chosen.values())


@pytest.mark.parametrize("options", SPARSE)
def test_nothing_is_lost_of_gradients_that_do_not_travel(options):
    run(3, lacking, options)


def largest(x, k):
    where = torch.zeros(len(x), dtype=torch.bool)
    where[x.abs().topk(k).indices] = True
    return where


def sets_of_deft(accs, counts, k, step):
    """Each rank's set, from what all ranks have: its bin of pieces, of each its share by norm."""
    ranks = len(accs)
    pieces = pith.sparse.deft_pieces(counts, ranks)
    norms = torch.zeros(len(pieces))
    for acc in accs:
        norms += torch.tensor([pith.sparse.norm(acc[at : at + n]) for at, n in pieces])
    ks = pith.sparse.deft_counts(pieces, norms.tolist(), k)
    bins = pith.sparse.deft_pack(pieces, ks, ranks)
    sets = [torch.zeros(len(acc), dtype=torch.bool) for acc in accs]
    for (at, n), share, own in zip(pieces, ks, bins, strict=True):
        for rank in range(ranks):
            if own is None or own == (rank + step) % ranks:
                sets[rank][at : at + n] = largest(accs[rank][at : at + n], share)
    return sets


def sets_of_a_leader(accs, counts, k, step):
    leader = step % len(accs)
    nothing = torch.zeros(len(accs[0]), dtype=torch.bool)
    return [largest(acc, k) if r == leader else nothing for r, acc in enumerate(accs)]


def planned(rank, ranks, partitions, sets_of, k):
    """Gradients are, bit for bit, those of the published rule, of which one rank plays all."""
    model = DistributedDataParallel(Sums())
    spec = f"topk:k={k},control=exact,ef=full"
    state = ddp.register(model, kind="union", partitions=partitions, spec=spec, timeout=TIMEOUT)
    everyone = [torch.Generator().manual_seed(r) for r in range(ranks)]
    had = dict(model.named_parameters())
    lost = [{name: torch.zeros(p.numel()) for name, p in had.items()} for _ in range(ranks)]
    for step in range(5):
        scales = torch.rand(4, generator=torch.Generator().manual_seed(step)) ** 4
        given = [
            [
                s * torch.randn(p.shape, generator=g)
                for s, p in zip(scales, had.values(), strict=True)
            ]
            for g in everyone
        ]
        if step == 4:  # what was lost goes into a checkpoint and to another state
            saved = state.state_dict()
            model = DistributedDataParallel(model.module)
            had = dict(model.named_parameters())
            state = ddp.register(
                model, kind="union", partitions=partitions, spec=spec, timeout=TIMEOUT
            )
            state.load_state_dict(saved)
        model.zero_grad()
        model(given[rank]).backward()
        (bucket,) = state._buckets
        for one, gradients in zip(lost, given, strict=True):
            for name, g in zip(had, gradients, strict=True):
                one[name] += g.flatten()
        accs = [torch.cat([one[name] for name in bucket.names]) for one in lost]
        counts = [had[name].numel() for name in bucket.names]
        sets = sets_of(accs, counts, k, step)
        union = torch.stack(sets).any(0)
        total = accs[0].clone()
        for acc in accs[1:]:
            total += acc
        found = torch.cat([had[name].grad.flatten() for name in bucket.names])
        assert torch.equal(found, torch.where(union, total * (1 / ranks), 0))
        assert state.chosen[0] == [int(one.sum()) for one in sets]
        for one in lost:
            for name, where in zip(bucket.names, union.split(counts), strict=True):
                one[name][where] = 0
    return state.state_dict()["step"]


@pytest.mark.parametrize("k", [40, 1500])
def test_deft_is_the_published_choice(k):
    assert run(3, planned, "deft", sets_of_deft, k) == [4, 4, 4]


def test_a_leader_chooses_for_all():
    assert run(3, planned, "leader", sets_of_a_leader, 40) == [4, 4, 4]


class Vector(torch.nn.Module):
    """A model with one parameter, whose gradient is what it is given."""

    def __init__(self, count):
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(count))

    def forward(self, gradient):
        return (self.x * gradient).sum()


def first_choice(rank, ranks, control, size):
    """What a rank's first choice came to, where the last part is four times as long as others."""
    count = 1024 * 32 + 1023 * 32
    lengths = [pith.sparse.ExDyna(count, ranks).range(r)[1] for r in range(ranks)]
    assert lengths[-1] > 3.9 * max(lengths[:-1])
    spec = f"topk:density=0.01,control={control},ef=full"
    model = DistributedDataParallel(Vector(count))
    state = ddp.register(model, kind="union", partitions="moving", spec=spec, timeout=TIMEOUT)
    model(size * torch.randn(count, generator=torch.Generator().manual_seed(rank))).backward()
    (bucket,) = state._buckets
    return state.chosen[0], bucket.channel.sparse_state().threshold


def test_ranks_are_asked_for_as_many_whatever_their_parts():
    for chosen, _ in run(3, first_choice, "prop", 1.0):
        assert chosen == [655 // 3] * 3
    # MiCRO begins with what all ranks are asked for. The gradients are so small that the limit,
    # which would replace the first threshold, is not reached.
    for _, threshold in run(3, first_choice, "micro", 1e-9):
        assert threshold == pytest.approx(1 / (2 * 655**0.5))


def all_of_parts(rank, ranks, count, partitions, control):
    """Return how many each rank chose in two steps of all gradients, which are those of no hook."""
    model = DistributedDataParallel(Vector(count))
    spec = f"topk:density=1,control={control},ef=full"
    state = ddp.register(model, kind="union", partitions=partitions, spec=spec, timeout=TIMEOUT)
    chosen = []
    for step in range(2):
        given = [
            torch.randn(count, generator=torch.Generator().manual_seed(10 * step + r)) * 1e-3
            for r in range(ranks)
        ]
        model.zero_grad()
        model(given[rank]).backward()
        wanted = sum(given[1:], given[0]) * (1 / ranks)
        assert torch.equal(model.module.x.grad, wanted)
        chosen.append(state.chosen[0])
    return chosen


@pytest.mark.parametrize("control", ["prop", "micro"])
@pytest.mark.parametrize("count,partitions", [(527, "even"), (40001, "moving")])
def test_all_gradients_travel_whatever_the_parts(count, partitions, control):
    for chosen in run(3, all_of_parts, count, partitions, control):
        assert [sum(counts) for counts in chosen] == [count] * 2


def norms_of_one_size(rank, ranks):
    """What one rank cannot take the norms of is an exception on every rank, and no hang."""
    group = _group.communicator(None, timeout=TIMEOUT)
    layers = ddp._Layers((30, 40), group)
    channel = group.channel("sparse_union", "topk:ef=full", count=70, dtype="f32")
    error, text = pith.ShapeError, "rank 1 met it"
    if rank == 1:
        error, text = pith.ArgumentError, "expected 70"
    with pytest.raises(error, match=text):
        layers.norms(channel, torch.ones(3 if rank == 1 else 70), 1.0, 0)
    norms = layers.norms(channel, torch.full((70,), float(2 + rank)), 1.0, 1)
    assert norms == [pytest.approx(5 * n**0.5) for n in layers.deft.pieces]
    huge = layers.norms(channel, torch.full((70,), 3e38), 1.0, 2)
    assert all(1e38 < norm < 3.5e38 for norm in huge)


def test_norms_that_one_rank_cannot_take():
    run(2, norms_of_one_size)


def not_finite(rank, ranks, options):
    """One rank has an infinity where another chooses: every rank sees it, and nothing is lost."""
    model = DistributedDataParallel(Sums(), bucket_cap_mb=CAP)
    state = ddp.register(model, timeout=TIMEOUT, **options)
    parameters, g = list(model.parameters()), torch.Generator().manual_seed(rank)
    for step in range(4):
        given = [torch.randn(p.shape, generator=g) for p in parameters]
        if step == 2 and rank == 1:
            for x in given:
                x.view(-1)[-1] = float("inf")
        before = state.state_dict()["residuals"]
        model.zero_grad()
        model(given).backward()
        now = [p.grad for p in parameters]
        equal_everywhere(bits(now))
        assert all(bool(x.isfinite().all()) for x in now) == (step != 2)
        if step == 2:
            state.rollback()
            state._step -= 1
            after = state.state_dict()["residuals"]
            assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("options", SPARSE)
def test_a_gradient_that_is_not_finite_is_seen_on_every_rank(options):
    run(3, not_finite, options)


def raised(rank, ranks, options):
    model = DistributedDataParallel(net())
    try:
        ddp.register(model, **{"timeout": TIMEOUT, **options[rank]})
        loss(model, rank, 0).backward()
    except (pith.Error, RuntimeError) as error:
        return str(error)
    return "nothing"


def test_specs_that_differ_are_an_error_on_every_rank():
    texts = run(
        3, raised, [{"spec": "grad:bits=8"}, {"spec": "grad:bits=4"}, {"spec": "grad:bits=8"}]
    )
    assert all("MismatchError" in text and "rank 1" in text for text in texts)
    texts = run(2, raised, [{"normalize": 0.5}, {}])
    assert all("rank 1 has normalize=None, rank 0 normalize=0.5" in text for text in texts)
    union = {"kind": "union"}
    texts = run(2, raised, [{**union, "partitions": "even"}, {**union, "partitions": "moving"}])
    assert all("rank 1 has partitions='moving', rank 0 partitions='even'" in t for t in texts)
    texts = run(2, raised, [{"seed": 1}, {"seed": 2}])
    assert all("rank 1 has other options than rank 0: they differ in seed" in t for t in texts)


def bits_sent(rank, ranks):
    """Return the bits of a value in each hop and in what is gathered, for three specs and nodes."""
    found = []
    for per_node, spec in (
        (1, {}),
        (1, {"spec": "grad:bits=2,ef=full"}),
        (2, {"spec": "grad:bits=2"}),
    ):
        model = DistributedDataParallel(torch.nn.Linear(512, 256, bias=False))
        state = ddp.register(model, ranks_per_node=per_node, timeout=TIMEOUT, **spec)
        model(torch.ones(1, 512)).sum().backward()
        report = state.reports[0]
        found.append(
            [8 * b / v for b, v in zip(report.sent_bytes, report.sent_values, strict=True) if v]
        )
    return found


def test_a_spec_counts_between_nodes():
    """Between nodes there were 4 bits without error feedback, and one rank a node had no others."""
    for usual, one, two in run(4, bits_sent):
        assert all(4 < bits < 5 for bits in usual)
        assert all(2 < bits < 3 for bits in one + two) and len(two) > len(one)


def refused_on_one(rank, ranks):
    """The others are told when the state is made: nobody waits in the first backward."""
    model = DistributedDataParallel(net())
    for options, text in (
        ({"spec": "grad:bits=99"}, "key bits takes"),
        ({"op": "max"}, "op: "),
        ({"gather": "lossless", "exempt": None}, "spec: found 'lossless', and sums take"),
    ):
        with pytest.raises(pith.Error, match=text if rank == 1 else f"rank 1: {text}"):
            ddp.register(model, **(options if rank == 1 else {}))


RAISES = """
import sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import pith.torch
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
net = torch.nn.Sequential(*(torch.nn.Linear(40, 40) for _ in range(4)))
model = DistributedDataParallel(net, bucket_cap_mb=0.004)
pith.torch.ddp.register(model, timeout=600)
for step in range(3):
    if step == 2:
        if rank == 0:
            print("left", flush=True)
            time.sleep(600)
        net[0].weight.register_hook(lambda gradient: gradient.of_this_test)
    model(torch.ones(1, 40)).sum().backward()
"""


def test_a_rank_that_raises_ends_although_others_do_not_come(tmp_path):
    """Of the step's buckets the first is under way when its backward raises."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RAISES, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert ranks[0].stdout.readline() == "left\n"
        _, errors = ranks[1].communicate(timeout=120)
        assert ranks[1].returncode == 1
        assert "has no attribute 'of_this_test'" in errors
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def wide(rank, ranks):
    """Gradients in f64 are refused where the state is made, and not where there are none."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2).double())
    text = "module.1.weight: found torch.float64, expected float32"
    with pytest.raises(pith.DtypeError, match=text):
        ddp.register(DistributedDataParallel(module))
    names = ["1.weight", "1.bias"]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
    ddp.register(DistributedDataParallel(module))
    del module._ddp_params_and_buffers_to_ignore
    module[1].requires_grad_(False)
    ddp.register(DistributedDataParallel(module))


def test_gradients_in_f64_are_refused_at_once():
    run(2, wide)


def test_what_one_rank_refuses_is_an_error_of_all():
    run(3, refused_on_one)


@pytest.mark.parametrize(
    "options,text",
    [
        ({"op": "max"}, "'avg' or 'sum'"),
        ({"exempt": "8"}, "'16', 'exact' or None"),
        ({"spec": "grad:bit=4"}, "bit"),
        ({"inter": "grad:ef=full"}, "add ef=full"),
        (
            {"spec": "wdiff", "inter": None},
            "codec wdiff takes no exempt ranges: exempt has to be none",
        ),
        ({"spec": 3}, "spec: expected a str, found int"),
        ({"spec": "lossless", "exempt": None, "inter": None}, "fixed rate"),
        ({"spec": "topk:density=0.01,ef=full"}, "or kind='gather', 'union' or 'oktopk' with it"),
        ({"kind": "most"}, "'gather', 'union' or 'oktopk'"),
        ({"kind": "gather", "partitions": "even"}, "of kind='union'"),
        ({"kind": "union", "partitions": "odd"}, "'even', 'moving', 'deft', 'leader'"),
        ({"kind": "union", "partitions": "deft", "spec": "topk:ef=full"}, "control=exact"),
        ({"kind": "union", "partitions": "leader", "spec": "topk:ef=full"}, "control=exact"),
        ({"kind": "union", "partitions": "leader", "spec": "topk:control=exact"}, "ef=full"),
        ({"kind": "union", "spec": "grad"}, "codec topk"),
        ({"kind": "union", "threshold": 5}, "no threshold"),
        ({"ranks_per_node": 0}, "1 or more"),
        ({"timeout": -1}, "more than 0"),
        ({"normalize": 1.0}, "None or between 0 and 1"),
        ({"normalize": True}, "found True"),
        ({"normalize": float("nan")}, "found nan"),
        ({"normalize": 0.9, "kind": "gather"}, "kind='gather' takes none"),
        ({"normalize": 0.9, "spec": "grad:ef=full"}, "has error feedback"),
        ({"normalize": 0.9, "gather": "grad:ef=full"}, "add ef=full"),
    ],
)
def test_options_that_are_refused(options, text):
    assert all(text in found for found in run(2, raised, [options, options]))


def interface(rank, ranks, names):
    os.environ["GLOO_SOCKET_IFNAME"] = names[rank]
    return raised(rank, ranks, [{}] * ranks)


def test_interfaces():
    assert run(2, interface, ["lo,eth9", "lo"]) == ["nothing"] * 2
    texts = run(2, interface, ["lo", "nosuch0"])
    assert all("rank 1 cannot listen on interface nosuch0" in text for text in texts)


def killed(rank, ranks):
    model = DistributedDataParallel(net())
    ddp.register(model, timeout=20)
    for step in range(3):  # in the first ones DDP itself talks to the ranks
        loss(model, rank, step).backward()
    if rank == 1:
        os._exit(1)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"TransportError|TimedOutError"):
        loss(model, rank, 1).backward()
    with pytest.raises(RuntimeError, match="make new channels"):
        loss(model, rank, 2).backward()
    return time.monotonic() - begin


def test_a_rank_that_dies_is_an_exception_of_the_others():
    times = run(3, killed, dies=(1,))
    assert times[1] is None and max(times[0], times[2]) < 45


def states(rank, ranks):
    state = ddp.register(DistributedDataParallel(net()), timeout=TIMEOUT, **FEEDBACK)
    good = state.state_dict()
    for bad, text in (
        (None, "found a NoneType"),
        ({}, "residuals, step"),
        ({**good, "residuals": {"nobody": torch.zeros(3)}}, "no parameter"),
        ({**good, "residuals": {"module.0.bias": torch.zeros(3)}}, "expected 61 finite"),
        ({**good, "residuals": {"module.0.bias": torch.full((61,), float("nan"))}}, "finite"),
        ({**good, "residuals": {"module.0.bias": torch.ones(61).double() * 1e39}}, "finite"),
        ({**good, "residuals": {"module.0.bias": torch.ones(61).to_sparse()}}, "dense"),
        ({**good, "residuals": {"module.0.bias": 1}}, "dense"),
        ({**good, "residuals": {"module.0.bias": torch.ones(61, device="meta")}}, "dense"),
        ({**good, "residuals": {"module.0.bias": torch.ones(61) * 1j}}, "expected real numbers"),
        ({**good, "residuals": None}, "a dict"),
        ({**good, "step": None}, "step: found None"),
        ({**good, "step": "1"}, "step: found '1'"),
        ({**good, "step": 1 << 64}, "step: found 18446744073709551616, expected -1 to"),
        ({**good, "means": {"module.0.bias": torch.ones(3)}}, "means: 'module.0.bias': expected"),
        ({**good, "means": {"module.0.bias": -torch.ones(61)}}, "0 or more"),
        ({**good, "forgotten": 2.0}, "forgotten: found 2.0"),
    ):
        with pytest.raises(pith.ArgumentError, match=text):
            state.load_state_dict(bad)
    with pytest.raises(pith.ArgumentError, match="DistributedDataParallel, found a Sequential"):
        ddp.register(net())


def test_states_that_fit_no_model():
    run(1, states)


def copied(rank, ranks):
    """The module is copied, for averages of weights; what speaks with other ranks says not to."""
    model = DistributedDataParallel(net())
    state = ddp.register(model, timeout=TIMEOUT)
    average = torch.optim.swa_utils.AveragedModel(model.module)
    for step in range(2):
        loss(model, rank, step).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= p.grad
        average.update_parameters(model.module)
        equal_everywhere(bits(average.parameters()))
        for what in (model, state, device.State.__new__(device.State)):
            for how in (copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match=r"copy model\.module"):
                    how(what)
    assert bits(average.parameters()) != bits(model.parameters())
    assert bits(copy.deepcopy(model.module).parameters()) == bits(model.parameters())


def test_a_model_is_copied_without_its_hook():
    run(2, copied)


def one_by_one(rank, ranks):
    """PyTorch's reducer in Python, for compiled autograd, makes no buckets."""
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        model = DistributedDataParallel(net())
    ddp.register(model, timeout=TIMEOUT)
    with pytest.raises(pith.UnsupportedError, match="python_reducer"):
        loss(model, rank, 0).backward()


def test_gradients_without_buckets_are_refused():
    run(2, one_by_one)
