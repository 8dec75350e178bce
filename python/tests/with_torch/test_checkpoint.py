"""torch.distributed.checkpoint: what differs by rank is there for every rank.

SPDX-License-Identifier: Apache-2.0
"""

import pytest
from ranks import TIMEOUT, Sums, bits, loss, net, run, torch
from torch.distributed import checkpoint
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import pith
from pith.torch import _group, ddp, fsdp, optim


class Optimizer:
    """A model under the sharded optimizer; what a checkpoint of both has."""

    def __init__(self, seed=0):
        self.model = net(seed=seed)
        self.optimizer = optim.Sharded(
            self.model.parameters(),
            torch.optim.Adam,
            lr=0.01,
            gradients="grad:bits=4,ef=full",
            timeout=TIMEOUT,
        )
        self.saved = {"model": self.model.state_dict(), "pith": self.optimizer}


class Hook:
    """A model under DDP's hook."""

    def __init__(self, seed=0):
        self.model = DistributedDataParallel(net(seed=seed))
        self.hook = ddp.register(self.model, spec="grad:bits=3,ef=full", timeout=TIMEOUT)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.saved = {"model": self.model.module.state_dict(), "pith": self.hook}
        for step in range(2):  # after which buckets stay as they are
            loss(self.model, 0, step).backward()


class Fsdp:
    """A model under FSDP2's functions."""

    def __init__(self, seed=0, weights="lossless"):
        self.model = net(seed=seed)
        for layer in (self.model[0], self.model[2], self.model):
            fully_shard(layer)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        options = {"gradients": "grad:bits=3,ef=full", "timeout": TIMEOUT}
        self.comms = fsdp.apply(self.model, self.optimizer, weights=weights, **options)
        self.saved = {"model": self.model.state_dict(), "pith": self.comms}


KINDS = {"optimizer": Optimizer, "hook": Hook, "fsdp": Fsdp}


def train(made, rank, which):
    for step in which:
        made.optimizer.zero_grad()
        loss(made.model, rank, step).backward()
        made.optimizer.step()


def parameters(made):
    return bits(getattr(p, "to_local", lambda p=p: p)() for p in made.model.parameters())


def resumed(rank, ranks, kind, folder, how):
    """Whoever loads goes on as who saved, bit for bit."""
    first = KINDS[kind]()
    train(first, rank, range(3))
    if how == "async":
        checkpoint.async_save(first.saved, checkpoint_id=folder).result()
    else:
        named = {name: x.state_dict() if name == "pith" else x for name, x in first.saved.items()}
        checkpoint.save(named if how == "dict" else first.saved, checkpoint_id=folder)
    if kind == "hook":  # what several hops have lost is one sum in a state
        first.hook.load_state_dict(first.hook.state_dict())
    train(first, rank, range(3, 6))

    second = KINDS[kind](seed=1)
    if how == "dict":
        read = {**second.saved, "pith": second.saved["pith"].state_dict()}
        checkpoint.load(read, checkpoint_id=folder)
        second.saved["pith"].load_state_dict(read["pith"])
    else:
        checkpoint.load(second.saved, checkpoint_id=folder)
    if kind == "optimizer":
        assert second.saved["pith"].state_dict()["steps"] == 3
    train(second, rank, range(3, 6))
    assert parameters(second) == parameters(first)

    third = KINDS[kind](seed=1)  # what is compared above notices a state that is not loaded
    if kind != "optimizer":
        checkpoint.load({"model": third.saved["model"]}, checkpoint_id=folder)
        train(third, rank, range(3, 6))
        assert parameters(third) != parameters(first)


@pytest.mark.parametrize("how", ["object", "dict", "async"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_rank_goes_on_bit_for_bit(kind, how, tmp_path):
    run(3 if how == "object" else 2, resumed, kind, str(tmp_path), how)


def after_a_reset(rank, ranks, folder):
    """Weights that are rounded are exact after loading, as after a reset."""
    first, second = Fsdp(weights="wdiff:bits=4"), Fsdp(seed=1, weights="wdiff:bits=4")
    train(first, rank, range(3))
    checkpoint.save(first.saved, checkpoint_id=folder)
    checkpoint.load(second.saved, checkpoint_id=folder)
    before = parameters(first)
    first.comms.reset()
    for made in (first, second):
        train(made, rank, range(3, 6))
    assert parameters(second) == parameters(first) != before


def test_fsdp_goes_on_as_after_a_reset(tmp_path):
    run(2, after_a_reset, str(tmp_path))


def saved(rank, ranks, folder):
    made = Optimizer()
    train(made, rank, range(2))
    checkpoint.save({"pith": made.optimizer}, checkpoint_id=folder)


def others(rank, ranks, folder, error, text):
    made = Optimizer()
    with pytest.raises(error, match=text):
        checkpoint.load({"pith": made.optimizer}, checkpoint_id=folder)


def test_another_number_of_ranks_is_refused(tmp_path):
    run(2, saved, str(tmp_path))
    run(1, others, str(tmp_path), pith.ArgumentError, "found ranks 2, expected 1")
    run(3, others, str(tmp_path), checkpoint.api.CheckpointException, r"pith\.rank 2")


def named(rank, ranks):
    """A state is read by the names of its parts, also after another was put in its place."""
    hook = ddp.register(DistributedDataParallel(Sums()), timeout=TIMEOUT)
    state, own = hook.state_dict(), f"rank {rank}"
    assert list(state) == [own] and state["step"] == -1 and state[own][0]["step"] == -1
    state[own] = ({**state[own][0], "step": 7},)
    assert state["step"] == 7
    for name in ("rank 9", "nothing"):
        with pytest.raises(KeyError, match=name):
            state[name]
    hook.load_state_dict(state)
    assert hook.state_dict()["step"] == 7
    whole = state[own][0]
    for bad, text in (
        ({own: [whole]}, "a dict in a tuple"),
        ({own: (1,)}, "a dict in a tuple"),
        ({own: ()}, "a dict in a tuple"),
        ({"rank 7": (whole,), "rank 8": (whole,)}, f"rank 7, rank 8, expected {own}"),
    ):
        with pytest.raises(pith.ArgumentError, match=text):
            hook.load_state_dict(bad)
    mixed = {"rank 8": ({**whole, "step": 3},), own: ({**whole, "step": 4},), "more": 1}
    assert _group.parts_of(mixed) == {**whole, "step": 4, "more": 1}
    hook.load_state_dict({"rank 8": ({**whole, "step": 3},)})  # residuals are parameters'
    assert hook.state_dict()["step"] == 3
    hook.load_state_dict({**whole, "step": 2})
    assert hook.state_dict()["step"] == 2


def test_a_state_has_the_name_of_its_rank():
    run(2, named)
