"""The communication objects of fully_shard.

SPDX-License-Identifier: Apache-2.0
"""

import os
import time

import pytest
from ranks import TIMEOUT, bits, equal_everywhere, loss, net, run, torch, wait_for_all
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import pith
import pith.collective
from pith.torch import fsdp

SEEN = {"forward": [], "backward": []}


class Product(torch.autograd.Function):
    """A product with a weight that records what forward and backward see of it."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        SEEN["forward"].append(bits([w]))
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        SEEN["backward"].append(bits([w]))
        return g @ w, g.t() @ x


class Layer(torch.nn.Linear):
    """A linear layer of it."""

    def forward(self, x):
        return Product.apply(x, self.weight) + self.bias


def sharded(**keys):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Layer(19, 61), torch.nn.Tanh(), Layer(61, 33), Layer(33, 3))
    for layer in (model[0], model[2]):
        fully_shard(layer, **keys)
    return fully_shard(model, **keys)


def train(rank, ranks, packed, keys, steps=12):
    model = sharded(**keys)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    comms = None
    if packed:
        comms = fsdp.apply(
            model, optimizer, ranks_per_node=2, timeout=TIMEOUT, gradients="grad:bits=8,ef=full"
        )
    losses = []
    for step in range(steps):
        for part in range(2):  # gradients of two batches add up, and weights do not change between
            value = loss(model, rank, 2 * step + part)
            value.backward()
            losses.append(value.item())
        optimizer.step()
        optimizer.zero_grad()
        equal_everywhere(SEEN["forward"])
        assert sorted(SEEN["forward"]) == sorted(SEEN["backward"])
        assert len(set(SEEN["forward"])) == 3  # layers, of the same weights in both batches
        SEEN["forward"].clear()
        SEEN["backward"].clear()
    if comms is not None:
        assert [gather._next for gather in comms.gathers] == [steps] * 3
        equal_everywhere([gather.base_hash() for gather in comms.gathers])
        assert all(gather.base_hash() for gather in comms.gathers)
    return sum(losses[-6:]) / 6, losses[0]


HALF = {
    "mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32),
    "reshard_after_forward": False,
}


@pytest.mark.parametrize("keys", [{}, HALF])
def test_weights_are_equal_and_the_loss_falls_as_without(keys):
    plain, packed = run(3, train, False, keys), run(3, train, True, keys)
    for (end, start), (plain_end, _) in zip(packed, plain, strict=True):
        assert end < 0.9 * start
        assert abs(end - plain_end) < 0.1 * plain_end


def resumed(rank, ranks):
    """Gradients after a state was loaded are those of a run that went on."""

    def make():
        model = sharded()
        return model, fsdp.apply(model, timeout=TIMEOUT, gradients="grad:bits=3,ef=full")

    def gradients(model, which):
        found = []
        for step in which:
            model.zero_grad()
            loss(model, rank, step).backward()
            found += [p.grad.to_local() for p in model.parameters()]
        return bits(found)

    (model, comms), (other, again) = make(), make()
    start = comms.state_dict()
    gradients(model, range(3))
    state = comms.state_dict()
    end = gradients(model, range(3, 6))
    again.load_state_dict(state)  # before there are channels
    assert again.state_dict() == state
    assert gradients(other, range(3, 6)) == end
    again.load_state_dict(state)
    assert again.state_dict() == state and gradients(other, range(3, 6)) == end
    again.load_state_dict(start)
    assert gradients(other, range(3, 6)) != end
    wrong = {"scatters": [{**one, "rank": [rank + 1, ranks]} for one in state["scatters"]]}
    for bad, text in (
        ({}, "3 modules"),
        ({"scatters": [{}] * 3}, "channel, rank, step"),
        ({"scatters": [{**one, "step": None} for one in state["scatters"]]}, "step None"),
        ({"scatters": [{**one, "step": -1} for one in start["scatters"]]}, "step -1"),
        (wrong, "saved itself"),
    ):
        with pytest.raises(pith.ArgumentError, match=text):
            again.load_state_dict(bad)


def test_error_feedback_is_kept():
    run(2, resumed)


def taken_back(rank, ranks):
    """A backward that is taken back leaves no trace in the gradients of the next ones."""

    def gradients(model, step):
        model.zero_grad()
        loss(model, rank, step).backward()
        return bits([p.grad.to_local() for p in model.parameters()])

    model = sharded()
    comms = fsdp.apply(model, timeout=TIMEOUT, gradients="grad:bits=3,ef=full,round=stochastic")
    comms.rollback()  # before the first backward there is nothing
    gradients(model, 0)
    state = comms.state_dict()
    seen = [gradients(model, step) for step in (1, 2)]
    comms.load_state_dict(state)
    comms.rollback()  # nor is there after a load
    for step in (1, 2):
        gradients(model, 7)
        comms.rollback()
        comms.rollback()  # once is enough
        assert gradients(model, step) == seen[step - 1]
    state = comms.state_dict()
    comms.step()
    comms.rollback()  # the optimizer has used the gradients
    assert comms.state_dict() == state


def test_a_backward_that_is_taken_back():
    run(2, taken_back)


class Either(torch.nn.Module):
    """A model that uses one of two parameters, of one size."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.zeros(40, 20))
        self.b = torch.nn.Parameter(torch.zeros(40, 20))

    def forward(self, name, gradient):
        return (getattr(self, name) * gradient).sum()


def unused(rank, ranks):
    """What was lost of one parameter is sent as its own, and not as that of another one."""
    model = fully_shard(Either())
    fsdp.apply(model, timeout=TIMEOUT, gradients="grad:bits=2,ef=full")
    gradient = torch.randn(40, 20, generator=torch.Generator().manual_seed(rank))
    model("a", gradient).backward()
    model.zero_grad()
    model("b", torch.zeros(40, 20)).backward()
    assert model.a.grad.full_tensor().any()
    assert not model.b.grad.full_tensor().any()


def test_what_was_lost_of_an_unused_parameter_is_its_own():
    run(2, unused)


def of_others(rank, ranks):
    """Gradients of other parameters, of another size, are refused with what to do."""

    def made():
        model = Either()
        model.b = torch.nn.Parameter(torch.zeros(7, 20))
        fsdp.apply(fully_shard(model), timeout=TIMEOUT)
        return model

    model = made()
    model("a", torch.ones(40, 20)).backward()
    with pytest.raises(pith.ArgumentError, match=r"set_reduce_scatter_unused_params\(True\)"):
        model("b", torch.ones(7, 20)).backward()
    model = made()
    model.set_reduce_scatter_unused_params(True)
    model("a", torch.ones(40, 20)).backward()
    model("b", torch.ones(7, 20)).backward()
    model = made()
    model.b.requires_grad_(False)
    model("a", torch.ones(40, 20)).backward()
    model.b.requires_grad_(True)
    fsdp.apply(model, timeout=TIMEOUT)
    (model("a", torch.ones(40, 20)) + model("b", torch.ones(7, 20))).backward()


def test_gradients_of_other_parameters_than_before():
    run(2, of_others)


def divided(rank, ranks):
    """Sums are divided by what FSDP2 is told to divide them by, where it does so itself."""
    model = fully_shard(Either())
    fsdp.apply(model, timeout=TIMEOUT, gradients="raw", inter=None)
    model.set_gradient_divide_factor(4.0)
    model.set_force_sum_reduction_for_comms(True)
    model("a", torch.full((40, 20), rank + 1.0)).backward()
    assert (model.a.grad.full_tensor() == ranks * (ranks + 1) / 8).all()
    model.set_force_sum_reduction_for_comms(False)
    with pytest.raises(pith.UnsupportedError, match=r"PREMUL_SUM.*set_force_sum_reduction"):
        model("a", torch.ones(40, 20)).backward()


def test_a_factor_of_gradients():
    run(3, divided)


def replicated(rank, ranks):
    """On a mesh of replicas and shards nothing differs, where nothing is rounded."""
    trained = []
    for exact in (True, False):
        model = sharded(mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard")))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
        if exact:
            options = {"weights": "lossless", "gradients": "raw", "inter": None}
            fsdp.apply(model, optimizer, timeout=TIMEOUT, **options)
        for step in range(3):
            for part in range(2):
                model.set_requires_all_reduce(part == 1)
                loss(model, rank, 2 * step + part).backward()
            optimizer.step()
            optimizer.zero_grad()
        trained.append(bits(p.to_local() for p in model.parameters()))
    assert trained[0] == trained[1]


def test_a_mesh_of_replicas_and_shards():
    run(4, replicated)


def forgotten(rank, ranks):
    model = sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    comms = fsdp.apply(model, timeout=TIMEOUT)
    loss(model, rank, 0).backward()
    optimizer.step()
    with pytest.raises(pith.StateError, match=r"attach\(optimizer\)"):
        model(torch.zeros(1, 19))
    comms.step()
    model(torch.zeros(1, 19))
    # Other weights, as of a checkpoint, are gathered exactly.
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.full_like(p, 0.1234))
    comms.reset()
    model(torch.zeros(1, 19))
    replica = comms.gathers[1]._channel.get_base(dtype=torch.float32)
    assert set(replica.tolist()) <= {torch.tensor(0.1234).item(), 0.0}


def test_a_step_that_nobody_told_of():
    run(2, forgotten)


def direct(rank, ranks):
    group, comms = dist.group.WORLD, fsdp.Comms(timeout=TIMEOUT)
    for n in (0, 1, 7, 1001):
        scatter, gather = fsdp.ReduceScatter(comms), fsdp.AllGather(comms)
        inputs = [
            torch.randn(ranks * n, generator=torch.Generator().manual_seed(r)) for r in range(ranks)
        ]
        whole = gather.allocate((ranks * n,), dtype=torch.float32, device=torch.device("cpu"))
        out = whole[rank * n : (rank + 1) * n]
        for op, scale in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, 1 / ranks)):
            work = scatter(out, inputs[rank], group, op, async_op=True)
            assert work.wait() and work.is_completed() and work.is_success()
            wanted = sum(inputs)[rank * n : (rank + 1) * n] * scale
            torch.testing.assert_close(out, wanted, atol=0.15, rtol=0)
        # The input is a piece of the output, as FSDP has it; the first gather is exact.
        sent = out.clone()
        gather(whole, out, group)
        assert torch.equal(out, sent)
        equal_everywhere(bits([whole]))
        gather.step()
        out += 0.01
        sent = out.clone()
        gather(whole, out, group)
        torch.testing.assert_close(out, sent, atol=1e-3, rtol=0)
        equal_everywhere(bits([whole]))
        if n == 0:
            continue
        again = torch.zeros_like(whole)
        again[rank * n : (rank + 1) * n] = sent
        gather(again, again[rank * n : (rank + 1) * n], group)
        assert torch.equal(again, whole)


def test_any_length():
    run(3, direct)


def failed(rank, ranks):
    """After an exception in backward FSDP reduces nothing any more, which is not to be missed."""
    model = sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    comms = fsdp.apply(model, optimizer, timeout=TIMEOUT, seed=rank)
    with pytest.raises(pith.ArgumentError, match="seed"):
        loss(model, rank, 0).backward()
    before = [scatter._step for scatter in comms.scatters]
    with pytest.raises(pith.StateError, match="reduces no gradients"):
        loss(model, rank, 1).backward()
        optimizer.step()
    assert [scatter._step for scatter in comms.scatters] == before


def test_a_backward_that_failed_is_the_last():
    run(2, failed)


def part(rank, ranks):
    """Gathers of backward in a smaller group are refused, in words that say why."""
    model = sharded(reshard_after_forward=2)
    fsdp.apply(model, timeout=TIMEOUT)
    with pytest.raises(pith.ArgumentError, match="reshard_after_forward"):
        loss(model, rank, 0).backward()


def test_a_smaller_group_in_backward():
    run(4, part)


def refused(rank, ranks):
    group, comms = dist.group.WORLD, fsdp.Comms(timeout=TIMEOUT)
    scatter, gather = fsdp.ReduceScatter(fsdp.Comms(timeout=TIMEOUT)), fsdp.AllGather(comms)
    x, whole = torch.zeros(5), torch.zeros(10)
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist._make_nccl_premul_sum(0.5)):
        with pytest.raises(pith.UnsupportedError, match=r"SUM or ReduceOp\.AVG"):
            scatter(x, whole, group, op)
    with pytest.raises(pith.ShapeError, match="2 shards of 4"):
        scatter(torch.zeros(4), whole, group, dist.ReduceOp.SUM)
    with pytest.raises(pith.ShapeError):
        gather(whole, x.bfloat16(), group)
    with pytest.raises(pith.DtypeError, match="expected float32"):
        gather(whole.double(), x.double(), group)
    with pytest.raises(pith.UnsupportedError, match="memory of the CPU"):
        gather(whole.to("meta"), x.to("meta"), group)
    with pytest.raises(pith.UnsupportedError, match="contiguous"):
        gather(torch.zeros(20)[::2], x, group)
    gather(whole, x, group)
    with pytest.raises(pith.ArgumentError, match="objects of its own"):
        gather(torch.zeros(12), torch.zeros(6), group)
    with pytest.raises(pith.ArgumentError, match="fully_shard"):
        fsdp.apply(net())
    for spec, cls, text in (
        ("nope", pith.SpecError, "no codec nope"),
        ("grad", pith.DtypeError, "takes no base"),
    ):
        with pytest.raises(cls, match=text):
            fsdp.AllGather(comms, spec)
    for specs in ("lossless", None), ("grad", "topk:density=0.01"):
        with pytest.raises(pith.UnsupportedError, match=f"{specs[1] or specs[0]}'.*fixed rate"):
            fsdp.ReduceScatter(comms, *specs)
    other = fsdp.AllGather(comms, "wdiff:bits=4" if rank else "wdiff:bits=8")
    with pytest.raises(pith.MismatchError, match="rank 1"):
        other(whole, x, group)


def test_what_is_refused():
    run(2, refused)


def refused_on_one(rank, ranks):
    """What one rank alone is refused ends the others' call at once, the first and later ones."""
    group, comms = dist.group.WORLD, fsdp.Comms(timeout=TIMEOUT)
    start = time.monotonic()
    x, whole, one = torch.ones(5), torch.ones(5 * ranks), rank == 1

    def differ(cls, call):
        with pytest.raises(cls if one else pith.Error) as raised:
            call()
        assert one or "rank 1" in str(raised.value)

    def reduced(scatter):
        op = dist.ReduceOp.MAX if one else dist.ReduceOp.SUM
        differ(pith.UnsupportedError, lambda: scatter(x, whole, group, op))
        differ(pith.ShapeError, lambda: scatter(x[one:], whole, group, dist.ReduceOp.SUM))

    scatter, gather = fsdp.ReduceScatter(fsdp.Comms(timeout=TIMEOUT)), fsdp.AllGather(comms)
    reduced(scatter)
    scatter(x, whole, group, dist.ReduceOp.SUM)
    assert x[0] == ranks
    reduced(scatter)
    shard = x[one:]
    for _ in range(2):
        differ(pith.ShapeError, lambda: gather(whole, shard, group))
        x += rank
        gather(whole, x, group)  # exactly, as the first one
        assert torch.equal(whole[5 * rank : 5 * rank + 5], x)
        equal_everywhere(bits([whole]))
        if one:  # the others take their copies, and make no call
            with pytest.raises(pith.ShapeError):
                gather(whole, x[1:], group)
        else:
            gather(whole, x, group)
        gather.step()
    saved = {"step": 1, "rank": [0, ranks], "channel": b""} if one else scatter._state()
    other = fsdp.ReduceScatter(fsdp.Comms(timeout=TIMEOUT))
    other._load(saved)
    differ(pith.ArgumentError, lambda: other(x, whole, group, dist.ReduceOp.SUM))
    assert time.monotonic() - start < TIMEOUT / 2
    wait_for_all()


def test_what_one_rank_is_refused_ends_the_others():
    run(3, refused_on_one)


def of_another_dtype(rank, ranks):
    model = sharded()
    if rank == 1:
        model = model.double()
    fsdp.apply(model, timeout=TIMEOUT)
    start = time.monotonic()
    with pytest.raises(pith.DtypeError if rank == 1 else pith.Error):
        loss(model, rank, 0)
    assert time.monotonic() - start < TIMEOUT / 2
    wait_for_all()


def test_a_model_of_another_dtype_on_one_rank():
    run(2, of_another_dtype)


def several_dtypes(rank, ranks, keys):
    """A frozen layer in bf16 beside one that is trained: FSDP2 gathers them as bytes, or cast."""
    model = net()
    model[0].bfloat16().requires_grad_(False)
    fsdp.apply(fully_shard(model, **keys), timeout=TIMEOUT)
    x = torch.zeros(1, 19, dtype=torch.bfloat16)
    if keys:
        model(x).sum().backward()
    else:
        with pytest.raises(pith.DtypeError, match=r"MixedPrecisionPolicy\(param_dtype=\)"):
            model(x)


def test_parameters_of_several_dtypes():
    run(2, several_dtypes, {})
    run(2, several_dtypes, HALF)


def killed(rank, ranks):
    model = sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fsdp.apply(model, optimizer, timeout=20)
    loss(model, rank, 0).backward()
    optimizer.step()
    if rank == 0:
        os._exit(1)
    with pytest.raises((pith.collective.TransportError, pith.collective.TimedOutError)):
        loss(model, rank, 1).backward()


def test_a_rank_that_dies_is_an_exception_of_the_others():
    run(3, killed, dies=(0,))
