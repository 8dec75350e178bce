"""Tests of several ranks: processes on gloo, forked from one that has imported PyTorch.

SPDX-License-Identifier: Apache-2.0
"""

import datetime
import multiprocessing
import os
import tempfile
import traceback

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402

SECONDS = 120
TIMEOUT = 60  # of calls: longer than a loaded machine needs
torch.set_num_threads(1)

# Importing takes seconds, and autograd does not run in what is forked from a process that used it:
# so a server that did nothing else forks the ranks. DDP imports _dynamo when it is used.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["torch", "torch._dynamo", "torch.distributed.fsdp", "pith.torch", "pytest"]
)


def _init(rank, ranks, store, backend):
    dist.init_process_group(
        backend,
        store=dist.FileStore(store, ranks),
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=TIMEOUT),
    )


def _rank(rank, ranks, store, backend, function, arguments, results):
    try:
        if store:
            _init(rank, ranks, store, backend)
        results.send((True, function(rank, ranks, *arguments)))
    except BaseException:
        results.send((False, traceback.format_exc()))
    results.close()
    os._exit(0)  # nothing of the test process is ended twice


def run(ranks, function, *arguments, dies=(), group=True, backend="gloo"):
    """Call function(rank, ranks, *arguments) in each process; return what each returned.

    Ranks in dies end without a result. Without group there is no process group.
    """
    with tempfile.TemporaryDirectory() as folder:
        ends, processes = [], []
        for r in range(ranks):
            end, child = CONTEXT.Pipe(duplex=False)
            store = f"{folder}/store" if group else None
            args = (r, ranks, store, backend, function, arguments, child)
            processes.append(CONTEXT.Process(target=_rank, args=args))
            processes[-1].start()
            child.close()
            ends.append(end)
        results = []
        try:
            for r, end in enumerate(ends):
                assert end.poll(SECONDS), f"rank {r} hangs"
                try:
                    good, value = end.recv()
                except (EOFError, OSError):
                    assert r in dies, f"rank {r} died"
                    good, value = True, None
                results.append((good, value))
        finally:
            for process in processes:
                process.join(0.1 if process.is_alive() else None)
                process.kill()
        for r, (good, value) in enumerate(results):
            assert good, f"rank {r}:\n{value}"
        return [value for _, value in results]


def equal_everywhere(value):
    """Assert that all ranks have the same value."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    assert all(one == values[0] for one in values)


def wait_for_all():
    """Return when all ranks are here. Through the store, so that it is no collective of a group."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"rank {dist.get_rank()} is here", "")
    store.wait([f"rank {rank} is here" for rank in range(dist.get_world_size())])


def bits(tensors):
    """Return the bytes of tensors. Of copies: memory that NumPy has seen cannot be resized."""
    return b"".join(
        t.detach().clone().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        for t in tensors
    )


def net(seed=0, dtype=torch.float32):
    """Return a small model with odd sizes."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(19, 61), torch.nn.Tanh(), torch.nn.Linear(61, 33), torch.nn.Linear(33, 3)
    ).to(dtype)


class Sums(torch.nn.Module):
    """A model whose gradients are what it is given."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.zeros(40, 20))
        self.b = torch.nn.Parameter(torch.zeros(33))
        self.c = torch.nn.Parameter(torch.zeros(30, 31))
        self.d = torch.nn.Parameter(torch.zeros(7, 13))

    def forward(self, gradients):
        return sum((p * g).sum() for p, g in zip(self.parameters(), gradients, strict=True))


def batch(rank, step):
    """Return inputs and targets of a smooth function, another for every rank and step."""
    g = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(32, 19, generator=g)
    return x, torch.stack([x.sum(1).sin(), x[:, 0] * x[:, 1], x[:, 2].abs()], 1)


def loss(model, rank, step):
    """Return the mean squared error on a batch."""
    x, y = batch(rank, step)
    p = next(model.parameters())
    return ((model(x.to(p.device, p.dtype)).float() - y.to(p.device)) ** 2).mean()
