"""Every adapter among eight ranks: on two nodes of four, and on nodes of three, three and two.

SPDX-License-Identifier: Apache-2.0
"""

import pytest
from ranks import TIMEOUT, bits, equal_everywhere, loss, net, run, torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from pith.torch import ddp, fsdp, megatron, optim

RANKS, STEPS = 8, 10
LEARNS = 0.9  # of the first loss, at most, at the end
TWO_LEVELS = {"inter": "grad:bits=4", "timeout": TIMEOUT}


def steps(rank, model, optimizer, whole):
    """Train; replicas are equal after every step. Return whether the loss has fallen."""
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        value = loss(model, rank, step)
        value.backward()
        optimizer.step()
        equal_everywhere(bits(whole()))
        total = value.detach()
        torch.distributed.all_reduce(total)
        losses.append(total.item())
    return sum(losses[-3:]) / 3 < LEARNS * losses[0]


def hook(rank, ranks, per_node):
    model = DistributedDataParallel(net(), bucket_cap_mb=0.004)
    state = ddp.register(model, spec="grad:bits=8,ef=full", ranks_per_node=per_node, **TWO_LEVELS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    assert steps(rank, model, optimizer, model.parameters)
    assert {report.levels for report in state.reports.values()} == {2}


def shards(rank, ranks, per_node):
    model = net()
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)  # the last layer has three rows: five ranks have none of it
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fsdp.apply(model, optimizer, ranks_per_node=per_node, gradients="grad:bits=8", **TWO_LEVELS)
    assert steps(rank, model, optimizer, lambda: [p.full_tensor() for p in model.parameters()])


def sharded_optimizer(rank, ranks, per_node):
    model = net(seed=rank)  # rank 0's weights are everybody's
    optimizer = optim.Sharded(
        model.parameters(), torch.optim.Adam, lr=0.01, ranks_per_node=per_node, **TWO_LEVELS
    )
    assert steps(rank, model, optimizer, model.parameters)
    optimizer.verify()
    assert optimizer.reports["gradients"].levels == 2


def bucket(rank, ranks, per_node):
    g = torch.Generator().manual_seed(rank)
    whole = torch.randn(ranks * 997, generator=g)
    wanted = whole.clone()
    torch.distributed.all_reduce(wanted)
    own = torch.empty(997)
    func = megatron.reduce_scatter("grad:bits=8", ranks_per_node=per_node, **TWO_LEVELS)
    func(own, whole, op=torch.distributed.ReduceOp.SUM, group=torch.distributed.group.WORLD)
    error = own - wanted.view(ranks, -1)[rank]
    assert 0 < error.square().mean() < 0.02 * wanted.square().mean()


@pytest.mark.parametrize("per_node", [4, 3])
@pytest.mark.parametrize("adapter", [hook, shards, sharded_optimizer, bucket])
def test_eight_ranks(adapter, per_node):
    run(RANKS, adapter, per_node)
