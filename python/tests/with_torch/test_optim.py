"""The sharded optimizer.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import io
import os

import pytest
from ranks import TIMEOUT, batch, bits, equal_everywhere, loss, net, run, torch
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

import pith
import pith.collective
from pith.torch import optim

VIEWS = {"parameters_as_bucket_view": True}
BOTH = pytest.mark.parametrize("more", [{}, VIEWS], ids=["copied", "views"])
EXACT = {"gradients": "raw", "inter": None, "weights": "lossless", "exempt": None}


def groups(model):
    return [
        {"params": [model[0].weight, model[0].bias], "lr": 0.02},
        {"params": list(model[2:].parameters()), "weight_decay": 0.1},
    ]


def reference(ranks, steps):
    """Train one process on the mean gradient of all ranks' batches."""
    model = net()
    optimizer = torch.optim.AdamW(groups(model), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        total = sum(loss(model, rank, step) for rank in range(ranks)) / ranks
        total.backward()
        optimizer.step()
    return model, total.item()


def train(rank, ranks, options, steps, dtype=torch.float32):
    model = net(seed=rank, dtype=dtype)  # rank 0's weights are everybody's
    optimizer = optim.Sharded(
        groups(model), torch.optim.AdamW, lr=0.01, timeout=TIMEOUT, verify_every=7, **options
    )
    equal_everywhere(bits(model.parameters()))
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(model, rank, step)
        value.backward()
        optimizer.step()
        equal_everywhere(bits(model.parameters()))
    optimizer.verify()
    total = sum(loss(model, r, steps) for r in range(ranks)).item() / ranks
    report = optimizer.reports["weights"]
    assert report.sent_values[0] >= 0 and optimizer.param_groups[0]["lr"] == 0.02
    # Not tensors: PyTorch would send these as memory of a process that is gone.
    return total, [p.detach().float().numpy() for p in model.parameters()]


@pytest.mark.parametrize("ranks", [1, 3])
def test_with_exact_specs_it_is_the_optimizer(ranks):
    model, _ = reference(ranks, 10)
    for _, parameters in run(ranks, train, EXACT, 10):
        for p, q in zip(parameters, model.parameters(), strict=True):
            torch.testing.assert_close(torch.from_numpy(p), q.detach(), atol=1e-5, rtol=0)


def limited(rank, ranks):
    """Steps of SGD, which sees how long gradients are, beside those that clip_grad_norm_ limits."""
    plain, model, free = net(), net(), net()
    wanted = torch.optim.SGD(plain.parameters(), lr=0.2)
    options = {**EXACT, "lr": 0.2, "timeout": TIMEOUT}
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, max_norm=0.05, **options)
    norms = []
    for step in range(4):
        wanted.zero_grad()
        (sum(loss(plain, r, step) for r in range(ranks)) / ranks).backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.05)
        wanted.step()
        optimizer.zero_grad()
        loss(model, rank, step).backward()
        optimizer.step()
        assert norm > 0.06 and optimizer.norm == pytest.approx(float(norm), rel=1e-5)
        norms.append(optimizer.norm)
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p.detach(), q.detach(), atol=1e-6, rtol=0)
        equal_everywhere(bits(model.parameters()))
    equal_everywhere(norms)
    # A norm that is not reached changes nothing, whatever it is.
    same, optimizers = net(), []
    for one, more in ((free, {}), (same, {"max_norm": float("inf")})):
        optimizers.append(optim.Sharded(one.parameters(), torch.optim.SGD, **options, **more))
        loss(one, rank, 0).backward()
        optimizers[-1].step()
    assert bits(free.parameters()) == bits(same.parameters())
    assert optimizers[0].norm is None and optimizers[1].norm == pytest.approx(norms[0], rel=1e-5)
    # What is no number anywhere has no direction: no element is, as after clip_grad_norm_.
    optimizer.zero_grad()
    loss(model, rank, 0).backward()
    if rank == ranks - 1:
        model[0].weight.grad[1, 1] = float("nan")
    optimizer.step()
    assert all(p.isnan().all() for p in model.parameters()) and optimizer.norm != optimizer.norm


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_norm_is_limited_as_by_clip_grad_norm(ranks):
    run(ranks, limited)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_replicas_are_equal_and_the_loss_falls_as_without(dtype):
    model, _ = reference(3, 40)
    wanted = sum(loss(model, r, 40) for r in range(3)).item() / 3
    options = {"gradients": "grad:bits=4,ef=full", "weights": "wdiff:bits=4", "ranks_per_node": 2}
    for total, _ in run(3, train, options, 40, dtype):
        assert abs(total - wanted) < 0.15 * wanted


def summed(rank, ranks, op, more):
    shapes = (0, 4), (33, 5), (0,)
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    groups_ = [{"params": parameters[:1]}, {"params": parameters[1:]}]
    options = {"timeout": TIMEOUT, **EXACT, **more}
    optimizer = optim.Sharded(groups_, torch.optim.SGD, lr=1.0, op=op, **options)
    for step in range(1, 4):
        for p in parameters:
            p.grad = torch.full(p.shape, rank + 1.0)
        optimizer.step()
        total = step * (6.0 if op == "sum" else 2.0)
        assert all(torch.equal(p, torch.full(p.shape, -total)) for p in parameters)
        optimizer.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize(("op", "more"), [("avg", {}), ("sum", {}), ("avg", VIEWS)])
def test_sums_and_means_with_parameters_of_no_elements(op, more):
    run(3, summed, op, more)


def resumed(rank, ranks, more):
    def steps(model, optimizer, which):
        for step in which:
            optimizer.zero_grad(set_to_none=False)
            loss(model, rank, step).backward()
            optimizer.step()

    def make(seed):
        model = net(seed=seed)
        options = {"gradients": "grad:bits=4,ef=full", "timeout": TIMEOUT, **more}
        return model, optim.Sharded(model.parameters(), torch.optim.Adam, lr=0.01, **options)

    model, optimizer = make(0)
    steps(model, optimizer, range(3))
    state = copy.deepcopy(optimizer.state_dict())
    steps(model, optimizer, range(3, 6))
    other, again = make(1)
    again.load_state_dict(state)
    steps(other, again, range(3, 6))
    assert bits(model.parameters()) == bits(other.parameters())
    (parts,) = state[f"rank {rank}"]
    with pytest.raises(pith.ArgumentError, match="found no weights"):
        again.load_state_dict({key: parts[key] for key in parts if key != "weights"})
    for wrong, error, text in (
        ({"weights": parts["weights"][:-1]}, pith.ArgumentError, "found weights"),
        ({"rank": rank + 1}, pith.ArgumentError, f"found rank {rank + 1}, expected {rank}"),
        ({"ranks": ranks + 1}, pith.ArgumentError, f"found ranks {ranks + 1}, expected {ranks}"),
        ({"first": 1}, pith.ArgumentError, "found first 1"),
        ({"optimizer": {"state": {}, "param_groups": []}}, pith.ArgumentError, "state: "),
        ({"gradients": b"nothing at all, and long enough to look at"}, pith.FrameError, ""),
        ({"replica": b"nothing at all, and long enough to look at"}, pith.FrameError, ""),
    ):
        with pytest.raises(error, match=text):
            again.load_state_dict({**state, **wrong})
    steps(model, optimizer, range(6, 8))
    steps(other, again, range(6, 8))  # as if nothing had been tried
    assert bits(model.parameters()) == bits(other.parameters())
    best, kept = again.state_dict(), bits(other.parameters())
    weights = best["weights"].clone()
    for _ in range(2):
        steps(other, again, range(8, 10))
        end = bits(other.parameters())
        again.load_state_dict(best)
        assert bits(other.parameters()) == kept
        assert bits([best["weights"]]) == bits([weights])
        assert bits(again._parts[0][0].unsqueeze(0)) == bits([weights])
    steps(other, again, range(8, 10))
    assert bits(other.parameters()) == end


@BOTH
def test_a_checkpoint_goes_on_bit_for_bit(more):
    run(3, resumed, more)


def half_loaded(rank, ranks):
    """A state that is refused after a step failed leaves the inner optimizer and sums alone."""
    model = net()
    options = {"gradients": "grad:bits=4,ef=full", "timeout": TIMEOUT}
    optimizer = optim.Sharded(model.parameters(), torch.optim.Adam, lr=0.01, **options)
    state = optimizer.state_dict()
    for step in range(2):
        loss(model, rank, step).backward()
        optimizer.step()
    if rank == 1:
        optimizer.optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError if rank == 1 else pith.Error):
        optimizer.step()
    sums, inner = optimizer._sum.save(), copy.deepcopy(optimizer.optimizer.state_dict())
    with pytest.raises(pith.FrameError):
        optimizer.load_state_dict({**state, "replica": b"nothing at all" * 9})
    assert optimizer._sum.save() == sums
    torch.testing.assert_close(optimizer.optimizer.state_dict(), inner, atol=0, rtol=0)


def test_a_state_that_is_refused_after_a_failed_step_changes_nothing():
    run(2, half_loaded)


def hooked(rank, ranks):
    """Hooks of state_dict and load_state_dict run as those of other optimizers."""
    optimizer = optim.Sharded(net().parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT)
    seen = []

    def stamp(which, state):
        assert which is optimizer
        state["own"] = 1

    def replaced(which, state):
        assert which is optimizer and state.pop("own") == 1
        seen.append("replaced")
        return {**state, "steps": 5}

    handles = [
        optimizer.register_state_dict_pre_hook(lambda which: seen.append("saves")),
        optimizer.register_state_dict_post_hook(stamp),
        optimizer.register_state_dict_post_hook(lambda _, state: {**state, "last": 2}),
        optimizer.register_load_state_dict_pre_hook(replaced),
        optimizer.register_load_state_dict_post_hook(lambda which: seen.append("loaded")),
    ]
    state = optimizer.state_dict()
    assert state["own"] == 1 and state["last"] == 2 and seen == ["saves"]
    optimizer.load_state_dict(state)
    assert state["own"] == 1 and seen == ["saves", "replaced", "loaded"]
    for handle in handles:
        handle.remove()
    assert optimizer.state_dict()["steps"] == 5 and "own" not in optimizer.state_dict()


def test_hooks_of_states():
    run(1, hooked)


def gathered(rank, ranks):
    """What gathers states by parameter is told what to do instead; states are saved as they are."""
    model, plain = net(), net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.AdamW, lr=0.1, timeout=TIMEOUT)
    other = torch.optim.AdamW(plain.parameters())
    states = [get_optimizer_state_dict(plain, other), other.state_dict()]
    for step in range(2):
        with pytest.raises(pith.UnsupportedError, match=r"state_dict\(\) of a Sharded"):
            get_optimizer_state_dict(model, optimizer)
        with pytest.raises(pith.ArgumentError, match=r"state_dict\(\) of a Sharded"):
            set_optimizer_state_dict(model, optimizer, states[0])
        for state in states:
            with pytest.raises(pith.ArgumentError, match=r"state_dict\(\) of a Sharded"):
                optimizer.load_state_dict(state)
        loss(model, rank, step).backward()
        optimizer.step()
    with pytest.raises(KeyError, match="'other'"):
        optimizer.state_dict()["other"]
    with pytest.raises(pith.ArgumentError, match="found a NoneType"):
        optimizer.load_state_dict(None)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert state.keys() == optimizer.state_dict().keys()
    optimizer.load_state_dict(state)


def test_states_by_parameter_are_refused():
    run(2, gathered)


def one_cycle(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[0.05, 0.02], total_steps=12)


def scheduled(rank, ranks):
    """A scheduler changes rates and betas, also where another optimizer took up the states."""
    plain = net()
    wanted = torch.optim.AdamW(groups(plain), lr=0.01)
    changed = one_cycle(wanted)
    model = net()
    optimizer = optim.Sharded(groups(model), torch.optim.AdamW, lr=0.01, timeout=TIMEOUT, **EXACT)
    scheduler = one_cycle(optimizer)
    for step in range(12):
        if step == 6:
            states = [copy.deepcopy(optimizer.state_dict()), scheduler.state_dict()]
            model = net()
            optimizer = optim.Sharded(
                groups(model), torch.optim.AdamW, lr=0.01, timeout=TIMEOUT, **EXACT
            )
            scheduler = one_cycle(optimizer)
            optimizer.load_state_dict(states[0])
            scheduler.load_state_dict(states[1])
        for parameters, own in ((plain, wanted), (model, optimizer)):
            own.zero_grad()
            total = sum(loss(parameters, r, step) for r in range(ranks)) / ranks
            total.backward()
            own.step()
        changed.step()
        scheduler.step()
        assert [one["lr"] for one in optimizer.param_groups] == changed.get_last_lr()
        assert optimizer.optimizer.param_groups[0]["betas"] == wanted.param_groups[0]["betas"]
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p, q, atol=1e-5, rtol=0)
    assert optimizer.state is optimizer.optimizer.state and optimizer.state
    assert optimizer.state_dict()["steps"] == 12
    with pytest.raises(pith.UnsupportedError, match="another one"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
    with pytest.raises(TypeError, match="state_dict"):
        copy.deepcopy(optimizer)


def test_schedulers_take_it_as_an_optimizer():
    run(2, scheduled)


def scaled(rank, ranks, dtype, more):
    """With a ShardedGradScaler the steps are those without, and all ranks skip, or none."""

    def make():
        model = net(dtype=dtype)
        options = {"gradients": "grad:bits=8,ef=full", "timeout": TIMEOUT, **more}
        return model, optim.Sharded(groups(model), torch.optim.AdamW, lr=0.01, **options)

    plain, wanted = make()
    model, optimizer = make()
    scaler = ShardedGradScaler("cpu", init_scale=2.0**13, growth_interval=4)
    scales = []
    for step in range(8):
        optimizer.zero_grad()
        scaler.scale(loss(model, rank, step)).backward()
        if step in (2, 5) and rank == ranks - 1:  # which alone meets it
            model[2].weight.grad[3, 2] = float("inf" if step == 2 else "nan")
        scaler.unscale_(optimizer)
        if step in (3, 5):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        before, state = bits(model.parameters()), optimizer.state_dict()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        if step in (2, 5):
            assert bits(model.parameters()) == before
            assert optimizer.state_dict()["steps"] == state["steps"]
            assert optimizer.state_dict()["gradients"] == state["gradients"]
            continue
        assert bits(model.parameters()) != before
        wanted.zero_grad()
        loss(plain, rank, step).backward()
        if step == 3:
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        wanted.step()
        assert bits(model.parameters()) == bits(plain.parameters())
        if step == 3:  # goes on from states that were saved
            saved = [optimizer.state_dict(), scaler.state_dict()]
            model, optimizer = make()
            optimizer.load_state_dict(saved[0])
            scaler = ShardedGradScaler("cpu")
            scaler.load_state_dict(saved[1])
    assert scales == [2.0**13] * 2 + [2.0**12] * 3 + [2.0**11] * 3
    equal_everywhere(scales)


@pytest.mark.parametrize(
    ("dtype", "more"), [(torch.float32, {}), (torch.bfloat16, {}), (torch.bfloat16, VIEWS)]
)
def test_a_sharded_grad_scaler_skips_on_all_ranks_or_none(dtype, more):
    run(3, scaled, dtype, more)


def scaled_apart(rank, ranks):
    """A GradScaler that does not share what it finds is refused on every rank, in every step."""
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT)
    before = bits(model.parameters())
    for scalers, unscales in (
        (torch.amp.GradScaler, True),
        (torch.amp.GradScaler, False),
        (ShardedGradScaler, False),
    ):
        optimizer.zero_grad()
        scaler = scalers("cpu", init_scale=256.0)
        scaler.scale(loss(model, rank, 0)).backward()
        if rank == 0:
            model[0].bias.grad[0] = float("inf")
        if unscales:
            scaler.unscale_(optimizer)
        with pytest.raises(pith.MismatchError, match="ShardedGradScaler"):
            scaler.step(optimizer)
        assert bits(model.parameters()) == before
    optimizer.zero_grad()
    loss(model, rank, 0).backward()
    optimizer.step()
    assert bits(model.parameters()) != before
    before = bits(model.parameters())
    scaler = ShardedGradScaler("cpu", init_scale=256.0)
    optimizer.zero_grad()
    value = scaler.scale(loss(model, rank, 0))
    if rank == 0:  # the other has no gradients
        value.backward()
        model[0].bias.grad[0] = float("inf")
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert bits(model.parameters()) == before and scaler.get_scale() == 128


def test_a_grad_scaler_that_does_not_share_is_refused():
    run(2, scaled_apart)


def grouped(rank, ranks):
    """Groups are the inner optimizer's, with the model's parameters; what assigns is refused."""
    model = net()
    optimizer = optim.Sharded(groups(model), torch.optim.SGD, lr=0.1, timeout=TIMEOUT)
    parameters = [p for one in optimizer.param_groups for p in one["params"]]
    assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))
    loss(model, rank, 0).backward()
    assert torch.nn.utils.clip_grad_norm_(parameters, 1e-3) > 1e-3
    assert torch.cat([p.grad.flatten() for p in parameters]).norm() < 1.1e-3
    optimizer.step()
    assert all(p.grad is None for one in optimizer.optimizer.param_groups for p in one["params"])
    first = optimizer.param_groups[0]
    optimizer.optimizer.load_state_dict(optimizer.optimizer.state_dict())
    first["lr"] = 0.0
    assert optimizer.optimizer.param_groups[0]["lr"] == 0.0
    first["own"] = 1
    assert optimizer.optimizer.param_groups[0].pop("own") == 1 and "own" not in first
    assert copy.deepcopy(first).keys() == first.keys() == dict(first).keys()
    assert len(first) == len(dict(first)) and "lr: 0.0" in repr(optimizer)
    assert repr(first) == repr(dict(first))
    first["own"] = 1
    del first["own"]
    assert "own" not in optimizer.optimizer.param_groups[0]
    for change in (lambda: first.update(params=[]), lambda: first.pop("params")):
        with pytest.raises(pith.UnsupportedError, match="when the optimizer is made"):
            change()
    for name, value in (("param_groups", [{}]), ("state", {1: 2})):
        with pytest.raises(pith.UnsupportedError):
            setattr(optimizer, name, value)
    with pytest.raises(pith.ArgumentError, match="LBFGS"):
        optim.Sharded(net().parameters(), torch.optim.LBFGS, timeout=TIMEOUT)


def test_groups_have_the_models_parameters():
    run(2, grouped)


def helped(rank, ranks):
    """What the inner optimizer's zero_grad takes away is given back; its errors end the step."""
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT)
    before = bits(model.parameters())
    loss(model, rank, 0).backward()
    optimizer.optimizer.zero_grad()
    assert optimizer.step() is None
    assert bits(model.parameters()) != before

    def closure():
        optimizer.zero_grad()
        value = loss(model, rank, 1)
        value.backward()
        return value

    with torch.no_grad():
        wanted = loss(model, rank, 1)
        assert torch.equal(optimizer.step(closure), wanted)
    assert not torch.equal(loss(model, rank, 1), wanted)
    if rank == 1:
        optimizer.optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError if rank == 1 else pith.Error):
        optimizer.step()


def test_the_inner_optimizer():
    run(3, helped)


def tampered(rank, ranks, more):
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT, **more)
    optimizer.verify()
    if rank == 1:
        with torch.no_grad():
            model[0].weight[3, 2] += 1e-6
    with pytest.raises(pith.BaseMismatchError, match=r"ranks \[1\]"):
        optimizer.verify()


@BOTH
def test_a_replica_that_was_changed_is_found_on_every_rank(more):
    run(3, tampered, more)


def overwritten(rank, ranks, more):
    """Weights that are loaded on one rank or all are not undone in silence."""
    model = net()
    options = {"timeout": TIMEOUT, "verify_every": 3, **more}
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, **options)

    def step():
        optimizer.zero_grad()
        loss(model, rank, 0).backward()
        optimizer.step()

    step()
    own = {name: x.clone() for name, x in model.state_dict().items()}
    other = net(seed=1).state_dict()
    for who in (range(ranks), [1]):
        if rank in who:
            model.load_state_dict(other)
        with pytest.raises(pith.StateError if rank in who else pith.Error, match=r"gather|rank 1"):
            step()
        if rank in who:
            assert bits(model.parameters()) == bits(other.values())
        model.load_state_dict(own)  # written to, and what was gathered
    step()
    model[0].weight.data[0, 0] += 1  # which no counter of autograd has
    with pytest.raises(pith.StateError, match="gathered"):
        step()


@BOTH
def test_weights_that_are_loaded_are_not_undone_in_silence(more):
    run(3, overwritten, more)


def refused(rank, ranks):
    def made(parameters, **options):
        return optim.Sharded(parameters, torch.optim.SGD, lr=0.1, timeout=TIMEOUT, **options)

    p, q = torch.nn.Parameter(torch.zeros(5, 4)), torch.nn.Parameter(torch.zeros(1))
    for parameters, error, text in (
        ([], pith.ArgumentError, "found none"),
        ([torch.nn.Parameter(torch.zeros(0))], pith.ArgumentError, "found none"),
        ([p, p], pith.ArgumentError, "twice"),
        ([torch.zeros(3)], pith.ArgumentError, "requires_grad"),
        ([p * 2], pith.ArgumentError, "leaf"),
        ([p, torch.nn.Parameter(torch.zeros(3).half())], pith.DtypeError, r"parameters\[1\]"),
        ([torch.nn.Parameter(torch.zeros(3).double())], pith.DtypeError, "float64"),
        ([torch.nn.Parameter(torch.zeros(3, device="meta"))], pith.UnsupportedError, "CPU"),
        ([torch.nn.Parameter(torch.zeros(4, 3).t())], pith.UnsupportedError, r"contiguous\(\)"),
        ([("name", p)], pith.ArgumentError, "found a tuple"),
        ([p, None], pith.ArgumentError, r"parameters\[1\]: expected a tensor, found a NoneType"),
        (None, pith.ArgumentError, "found a NoneType"),
        (torch.nn.Linear(2, 2), pith.ArgumentError, r"model\.parameters\(\).* found a Linear"),
        (p, pith.ArgumentError, "expected a list.* found a Parameter"),
        ({"params": [p]}, pith.ArgumentError, "expected a list.* found a dict"),
        ({p}, pith.ArgumentError, "order differs"),
        ([{}], pith.ArgumentError, r"parameters\[0\]: found a group without 'params'"),
        ([{"params": [p]}, q], pith.ArgumentError, r"parameters\[1\]: expected a group"),
        ([q, {"params": [p]}], pith.ArgumentError, r"parameters\[1\]: .* found a dict"),
        ([{"params": None}], pith.ArgumentError, r"\['params'\]: .* found a NoneType"),
        ([{"params": [None]}], pith.ArgumentError, "found a NoneType"),
        ([{"params": {p}}], pith.ArgumentError, "order differs"),
    ):
        with pytest.raises(error, match=text):
            made(parameters)
    with pytest.raises(pith.ArgumentError, match="'avg' or 'sum'"):
        made([p], op="max")
    with pytest.raises(pith.ArgumentError, match="verify_every: found None"):
        made([p], verify_every=None)
    for most in (0, -1.0, float("nan"), "1", torch.ones(())):
        with pytest.raises(pith.ArgumentError, match=r"max_norm: found .*, expected a number"):
            made([p], max_norm=most)
    for wrong in ("yes", 1, None):
        text = f"parameters_as_bucket_view: found {wrong!r}, expected True or False"
        with pytest.raises(pith.ArgumentError, match=text):
            made([p], parameters_as_bucket_view=wrong)
    for wrong, text in ((torch.optim.SGD([p]), "found SGD"), (None, "None"), (list, "made a list")):
        with pytest.raises(pith.ArgumentError, match=f"optimizer: expected a class.*{text}"):
            optim.Sharded([p], wrong, timeout=TIMEOUT)
    with pytest.raises(pith.MismatchError, match="rank 1"):
        made([p], weights="wdiff:bits=4" if rank else "wdiff:bits=8")
    # A gradient that one rank has not, and a parameter that is smaller than the ranks are many.
    optimizer = made([q], gradients="raw", inter=None, exempt=None)
    if rank == 0:
        q.grad = torch.ones(1)
    optimizer.step()
    assert abs(q.item() + 0.1 / ranks) < 1e-6
    good = optimizer.state_dict()
    for key, value in (("weights", None), ("optimizer", None), ("steps", None), ("steps", -1)):
        with pytest.raises(pith.ArgumentError, match="state: "):
            optimizer.load_state_dict({**good, key: value})
    optimizer.load_state_dict(good)


def test_what_is_refused():
    run(3, refused)


# ---- parameters_as_bucket_view ------------------------------------------------------------------


def take_steps(made, rank, which):
    """Take the same steps with each of some models and optimizers."""
    for step in which:
        for model, optimizer in made:
            optimizer.zero_grad()
            loss(model, rank, step).backward()
            optimizer.step()


def assert_views(model):
    """Assert that the parameters lie in one memory, one after the other, and nothing else does."""
    parameters = list(model.parameters())
    storage = parameters[0].untyped_storage()
    assert storage.nbytes() == sum(p.nbytes for p in parameters)
    at = storage.data_ptr()
    for p in parameters:
        assert p.is_leaf and p.is_contiguous() and p.data_ptr() == at
        at += p.nbytes


def as_views(rank, ranks, dtype):
    """The weights are those without the option, bit for bit, also after a state is loaded."""

    def make(**more):
        model = net(seed=rank, dtype=dtype)
        options = {"gradients": "grad:bits=4,ef=full", "weights": "wdiff:bits=4", "verify_every": 2}
        empty = {"params": [torch.nn.Parameter(torch.zeros(0, 3, dtype=dtype))]}
        return model, optim.Sharded(
            [*groups(model)[:1], empty, *groups(model)[1:]],
            torch.optim.AdamW,
            lr=0.01,
            timeout=TIMEOUT,
            **options,
            **more,
        )

    copied, views = make(), make(**VIEWS)
    tied = views[0][0].weight
    for steps in (range(5), range(5, 8)):
        for step in steps:
            take_steps((copied, views), rank, [step])
            assert bits(copied[0].parameters()) == bits(views[0].parameters())
        assert_views(views[0])
        assert views[0][0].weight is tied
        equal_everywhere(bits(views[0].parameters()))
        views[1].verify()
        states = [copy.deepcopy(optimizer.state_dict()) for _, optimizer in (copied, views)]
        kept = bits(copied[0].parameters())
        take_steps((copied, views), rank, [40])
        for (model, optimizer), state, other in zip(
            (copied, views), states, reversed(states), strict=True
        ):
            with pytest.raises(pith.ArgumentError, match="found parameters_as_bucket_view="):
                optimizer.load_state_dict(other)
            optimizer.load_state_dict(state)
            assert bits(model.parameters()) == kept
        assert_views(views[0])
    del states[0][f"rank {rank}"][0]["parameters_as_bucket_view"]
    copied[1].load_state_dict(states[0])  # which was saved before there was the option


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_that_are_views_have_the_same_weights(dtype):
    run(2, as_views, dtype)


def moved(rank, ranks):
    """Parameters that lie elsewhere now are an error that says so, until a state is loaded."""
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT, **VIEWS)
    take_steps([(model, optimizer)], rank, range(2))
    state, kept = optimizer.state_dict(), bits(model.parameters())
    for replace in (
        lambda p: p.data.clone(),  # the values are as they were
        lambda p: p.data.t(),  # the memory is, too
        lambda p: p.data[:2].clone(),
    ):
        for who in (range(ranks), [1]):
            if rank in who:
                model[2].weight.data = replace(model[2].weight)
            with pytest.raises(
                pith.BaseMismatchError, match=rf"ranks \[{who[0]}.*parameters \[2\] lie no longer"
            ):
                optimizer.verify()
            if rank in who:
                with pytest.raises(pith.StateError, match=r"parameters \[2\] lie no longer"):
                    optimizer.state_dict()
                with pytest.raises(pith.FrameError):
                    optimizer.load_state_dict({**state, "replica": b"nothing" * 8})
            optimizer.load_state_dict(state)
            assert bits(model.parameters()) == kept
            assert_views(model)
    if rank == 1:
        model[2].weight.data = model[2].weight.data.clone()
    with pytest.raises(
        pith.StateError if rank == 1 else pith.Error,
        match=r"parameters \[2\] lie no longer" if rank == 1 else "refused the call; rank 1",
    ):
        take_steps([(model, optimizer)], rank, [2])
    optimizer.load_state_dict(state)
    take_steps([(model, optimizer)], rank, [2])
    equal_everywhere(bits(model.parameters()))


def test_parameters_that_lie_elsewhere_are_found():
    run(2, moved)


def half_written(rank, ranks, where):
    """A step that meets what no counter saw fails on every rank; a state that was saved goes on."""
    model, plain = net(), net()
    options = {"weights": "wdiff:bits=4", "timeout": TIMEOUT}
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, **options, **VIEWS)
    other = optim.Sharded(plain.parameters(), torch.optim.SGD, lr=0.1, **options)
    made = (model, optimizer), (plain, other)
    take_steps(made, rank, range(3))
    state = optimizer.state_dict()
    if rank == 1:
        whole = torch.tensor([]).set_(model[0].weight.untyped_storage())
        whole[2 + (state["first"] if where == "own" else 0)] += 1
    if where == "other":  # whose frame after the next one is for another base
        take_steps(made[:1], rank, [3])
    with pytest.raises(pith.BaseMismatchError, match=r"between steps .*its own state_dict"):
        take_steps(made[:1], rank, [4])
    with pytest.raises(pith.StateError):
        take_steps(made[:1], rank, [5])
    with pytest.raises(pith.FrameError):
        optimizer.load_state_dict({**state, "replica": b"nothing" * 8})
    with pytest.raises(pith.StateError):
        take_steps(made[:1], rank, [5])
    optimizer.load_state_dict(state)
    assert bits(model.parameters()) == bits(plain.parameters())
    take_steps(made, rank, range(3, 5))
    assert_views(model)
    assert bits(model.parameters()) == bits(plain.parameters())


@pytest.mark.parametrize("where", ["own", "other"])
def test_what_counters_do_not_see_ends_a_step_of_views(where):
    run(2, half_written, where)


def shared(rank, ranks):
    """Memory that is replaced under all parameters is found by every rank; a load mends it."""
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT, **VIEWS)
    take_steps([(model, optimizer)], rank, range(2))
    state = optimizer.state_dict()
    if rank == 1:
        model.share_memory()
    with pytest.raises(pith.BaseMismatchError, match=r"ranks \[1\].* in other memory"):
        optimizer.verify()
    with pytest.raises(
        pith.StateError if rank == 1 else pith.Error,
        match="in other memory .*its own state_dict" if rank == 1 else "refused the call; rank 1",
    ):
        take_steps([(model, optimizer)], rank, [2])
    with pytest.raises(pith.FrameError):
        optimizer.load_state_dict({**state, "replica": b"nothing" * 8})
    take_steps([(model, optimizer)], rank, [2])  # the memory is known now, and what was in it
    equal_everywhere(bits(model.parameters()))
    optimizer.load_state_dict(state)
    take_steps([(model, optimizer)], rank, [2])
    assert model[0].weight.is_shared() == (rank == 1)
    optimizer.verify()
    equal_everywhere(bits(model.parameters()))


def test_parameters_in_shared_memory_are_found():
    run(2, shared)


def stale(rank, ranks, more):
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT, **more)
    graph = loss(model, rank, 0)
    take_steps([(model, optimizer)], rank, [1])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        graph.backward()


@pytest.mark.parametrize("more", [{}, VIEWS])
def test_a_graph_from_before_a_step_is_of_other_weights(more):
    run(1, stale, more)


def written(rank, ranks):
    """Of parameters that were written to no state is saved, whose hash would not be theirs."""
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT, **VIEWS)
    take_steps([(model, optimizer)], rank, range(2))
    state, kept = optimizer.state_dict(), bits(model.parameters())
    graph = loss(model, rank, 2)
    with torch.no_grad():
        model[3].bias += 1
    with pytest.raises(pith.StateError, match="not what the last step gathered"):
        optimizer.state_dict()
    with pytest.raises(pith.FrameError):
        optimizer.load_state_dict({**state, "replica": b"nothing" * 8})
    optimizer.load_state_dict(state)
    assert bits(model.parameters()) == kept
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        graph.backward()


def test_views_that_were_written_to_are_not_saved():
    run(1, written)


def refused_views(rank, ranks):
    def made(parameters, more=VIEWS, **options):
        return optim.Sharded(
            parameters, torch.optim.SGD, lr=0.1, timeout=TIMEOUT, **options, **more
        )

    whole = torch.arange(40.0)
    apart = [torch.nn.Parameter(whole[first : first + 10]) for first in (30, 0, 20)]
    over = torch.nn.Parameter(whole[9:11])
    with pytest.raises(pith.UnsupportedError, match=r"parameters\[3\].* with parameters\[1\]"):
        made([*apart, over])
    with pytest.raises(pith.UnsupportedError, match=r"p\.data\.contiguous\(\)"):
        made([torch.nn.Parameter(torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last))])
    with pytest.raises(pith.UnsupportedError, match="base_hash=off"):
        made([over], weights="wdiff:bits=8,base_hash=off")
    with pytest.raises(pith.ArgumentError, match="flags"):
        made([over], more=VIEWS if rank else {})
    made([torch.nn.Parameter(torch.zeros(3)), *apart]).verify()  # neighbours share nothing
    assert torch.equal(torch.cat([apart[1], apart[2]]), torch.cat([whole[:10], whole[20:30]]))
    with torch.no_grad():
        apart[0].zero_()
    assert whole[30] == 30  # which is no parameter's memory any more


def test_what_is_refused_of_views():
    run(2, refused_views)


def compiled(rank, ranks):
    """A compiled function of a whole step trains as one that is not."""
    trained = []
    for compile_ in (torch.compile(backend="eager"), lambda function: function):
        model = net()
        optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=TIMEOUT)

        @compile_
        def step(x, y, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()

        for i in range(3):
            step(*batch(rank, i))
        trained.append(bits(model.parameters()))
    assert trained[0] == trained[1]


def test_a_compiled_step():
    run(2, compiled)


# ---- Ranks that fail -----------------------------------------------------------------------------


def refused_on_one(rank, ranks):
    model = net()
    options = [{"op": "max"}, {}, {}][rank]
    with pytest.raises(pith.ArgumentError, match="op: found" if rank == 0 else "rank 0: op: found"):
        optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, **options)
    parameters = [torch.zeros(3)] if rank == 2 else model.parameters()
    text = r"parameters\[0\]: expected a leaf"
    with pytest.raises(pith.ArgumentError, match=text if rank == 2 else f"rank 2: {text}"):
        optim.Sharded(parameters, torch.optim.SGD, lr=0.1)
    options = [{}, {"ranks_per_node": -1}, {}][rank]
    with pytest.raises(pith.ArgumentError, match="rank 1: ranks_per_node"):
        optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=5, **options)
    error, text = (ValueError, "Invalid") if rank == 2 else (pith.ArgumentError, "rank 2: Invalid")
    with pytest.raises(error, match=text):
        optim.Sharded(model.parameters(), torch.optim.SGD, lr=-1.0 if rank == 2 else 0.1)


def test_what_is_refused_on_one_rank_ends_the_others():
    run(3, refused_on_one)


def other_options(rank, ranks):
    """Shards went apart in what was done to them; verify() met another collective of rank 1."""
    for text, options in (
        (r"verify_every=1, rank 0 verify_every=0", {"verify_every": rank}),
        (r"max_norm=2\.0, rank 0 max_norm=None", {"max_norm": 2.0 if rank else None}),
        (r"SGD .*'lr': 0\.2, .*, rank 0 SGD .*'lr': 0\.1, ", {"lr": 0.1 * (1 + rank)}),
        (r"SGD .*'momentum': 0\.9, ", {"momentum": 0.9} if rank else {}),
        (r"AdamW .*, rank 0 SGD ", {"optimizer": torch.optim.AdamW} if rank else {}),
    ):
        options = {"lr": 0.1, "optimizer": torch.optim.SGD, **options}
        with pytest.raises(pith.ArgumentError, match=f"rank 1 has {text}"):
            optim.Sharded(net().parameters(), **options)


def test_ranks_with_other_options():
    run(2, other_options)


def killed(rank, ranks):
    model = net()
    optimizer = optim.Sharded(model.parameters(), torch.optim.SGD, lr=0.1, timeout=20)
    if rank == 2:
        os._exit(1)
    loss(model, rank, 0).backward()
    with pytest.raises((pith.collective.TransportError, pith.collective.TimedOutError)):
        optimizer.step()


def test_a_rank_that_dies_is_an_exception_of_the_others():
    run(3, killed, dies=(2,))
