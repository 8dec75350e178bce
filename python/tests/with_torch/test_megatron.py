"""The function for Megatron's buckets, inside of the coalescing manager and outside.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import gc
import os
import time
import types

import pytest
from ranks import TIMEOUT, equal_everywhere, run, torch, wait_for_all
from torch import distributed as dist
from torch.distributed import _coalescing_manager

import pith
import pith.collective
from pith.torch import megatron


def buckets(rank, ranks):
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=TIMEOUT)
    made = {r: torch.Generator().manual_seed(r) for r in range(ranks)}
    for step in range(3):
        sent = [[torch.randn(ranks * n, generator=made[r]) for n in (64, 1000, 64)] for r in made]
        wanted = [sum(parts) / (ranks if step else 1) for parts in zip(*sent, strict=True)]
        pieces, handles = [], []
        for whole in sent[rank]:
            n = whole.numel() // ranks
            piece = whole[rank * n : (rank + 1) * n]  # Megatron's output lies in its input
            op = dist.ReduceOp.AVG if step else dist.ReduceOp.SUM
            pieces.append(piece)
            handles.append(func(piece, whole, op=op, group=dist.group.WORLD, async_op=step != 1))
        for handle, piece, total in zip(handles, pieces, wanted, strict=True):
            assert handle is None if step == 1 else handle.wait() and handle.is_completed()
            n = piece.numel()
            torch.testing.assert_close(piece, total[rank * n : (rank + 1) * n], atol=0.1, rtol=0)


def test_buckets():
    run(3, buckets)


def refused(rank, ranks):
    with pytest.raises(pith.ArgumentError, match="error feedback"):
        megatron.reduce_scatter("grad:ef=full")
    with pytest.raises(pith.SpecError):
        megatron.reduce_scatter("grad:nothing=1")
    with pytest.raises(pith.UnsupportedError, match=r"'lossless'.*fixed rate"):
        megatron.reduce_scatter("grad", "lossless")
    func = megatron.reduce_scatter(timeout=TIMEOUT)
    with pytest.raises(pith.UnsupportedError, match=r"SUM or ReduceOp\.AVG"):
        func(torch.zeros(4), torch.zeros(8), op=dist.ReduceOp.PRODUCT)
    with pytest.raises(pith.ShapeError, match="expected 2 times"):
        func(torch.zeros(4), torch.zeros(9))
    with pytest.raises(pith.DtypeError):
        func(torch.zeros(4).int(), torch.zeros(8).int())
    with pytest.raises(pith.DtypeError, match="output: expected a tensor of PyTorch, found Non"):
        func(None, torch.zeros(8))
    wrong = megatron.reduce_scatter("grad:bits=4" if rank else "grad:bits=8", None, timeout=TIMEOUT)
    handle = wrong(torch.zeros(4), torch.zeros(8), async_op=True)
    with pytest.raises(pith.MismatchError, match="rank 1"):
        handle.wait()
    assert handle.is_completed() and not handle.is_success()


def test_what_is_refused():
    run(2, refused)


# ---- As Megatron calls it: inside of the coalescing manager -------------------------------------


def coalesced(rank, ranks, async_op):
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=TIMEOUT)
    made = {r: torch.Generator().manual_seed(r) for r in range(ranks)}
    groups = (dist.group.WORLD, dist.new_group(list(range(ranks))), None)
    for group in groups * 3:
        sent = [[torch.randn(ranks, n, generator=made[r]) for n in (64, 999, 64)] for r in made]
        wanted = [sum(parts)[rank] for parts in zip(*sent, strict=True)]
        pieces = [whole[rank] for whole in sent[rank]]
        with _coalescing_manager(group, async_ops=async_op) as cm:
            handles = [
                func(piece, whole.view(-1), group=group, async_op=async_op)
                for piece, whole in zip(pieces, sent[rank], strict=True)
            ]
        if async_op:  # the manager is all that Megatron keeps
            cm.wait()
        for piece, total in zip(pieces, wanted, strict=True):
            torch.testing.assert_close(piece, total, atol=0.2, rtol=0)
        for handle in handles:
            assert handle.wait() and handle.is_success() if async_op else handle is None


@pytest.mark.parametrize("async_op", [False, True])
def test_inside_the_coalescing_manager(async_op):
    run(3, coalesced, async_op)


def beside(rank, ranks):
    """The manager still makes at its end what it recorded, and leaves other groups alone."""
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=TIMEOUT)
    other = dist.new_group(list(range(ranks)))
    ours, theirs, apart = torch.ones(2 * ranks), torch.ones(3), torch.ones(5)
    with _coalescing_manager():
        dist.all_reduce(theirs)
        func(ours[:2], ours)
        dist.all_reduce(apart, group=other)
        assert [theirs[0], ours[0], apart[0]] == [1, ranks, ranks]
        handle = func(apart[:1], apart[:ranks], group=other, async_op=True)
    handle.wait()
    assert [theirs[0], apart[0]] == [ranks, ranks**2]


def test_beside_other_collectives():
    run(2, beside)


def without_a_record(rank, ranks):
    """PyTorch's record is none of its public names: without it there is nothing to keep from."""
    megatron.distributed_c10d = types.SimpleNamespace()
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=TIMEOUT)
    x = torch.ones(2 * ranks)
    func(x[:2], x)
    assert x[0] == ranks


def test_a_pytorch_without_the_record():
    run(2, without_a_record)


def begun_again(rank, ranks, folder):
    """Of a process group that was destroyed no connection stays, while the function lives."""
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=TIMEOUT)
    descriptors = []
    for i in range(3):
        x = torch.ones(2 * ranks)
        func(x[:2], x)
        assert x[0] == ranks
        dist.destroy_process_group()
        gc.collect()
        descriptors.append(len(os.listdir("/proc/self/fd")))
        store = dist.FileStore(f"{folder}/{i}", ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    assert len(set(descriptors)) == 1, descriptors


def test_process_groups_that_are_made_again(tmp_path):
    run(2, begun_again, str(tmp_path))


# ---- Failures -----------------------------------------------------------------------------------


def refused_on_one(rank, ranks, async_op, manager):
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=TIMEOUT)
    x = torch.zeros(1000 * ranks)
    start = time.monotonic()
    for _ in range(2):
        context = _coalescing_manager(async_ops=async_op) if manager else contextlib.nullcontext()
        with pytest.raises(pith.ShapeError if rank == 1 else pith.Error) as raised, context:
            handle = func(x[: 999 if rank == 1 else 1000], x, async_op=async_op)
            if handle is not None:
                handle.wait()
        assert rank == 1 or "rank 1" in str(raised.value)
    assert time.monotonic() - start < TIMEOUT / 2
    wait_for_all()
    equal_everywhere("after the exception the manager records no collectives")
    x += 1
    func(x[:1000], x)
    assert x[0] == ranks


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("manager", [False, True])
def test_what_one_rank_is_refused_at_first_ends_the_others(async_op, manager):
    run(3, refused_on_one, async_op, manager)


def refused_later(rank, ranks):
    """Which of its channels the others use is not known: they wait as long as for a dead rank."""
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=3)
    x = torch.zeros(8 * ranks)
    func(x[:8], x)
    with pytest.raises(pith.ShapeError if rank == 1 else pith.collective.TimedOutError):
        func(x[: 7 if rank == 1 else 8], x)
    wait_for_all()


def test_what_one_rank_is_refused_later_is_a_timeout_of_the_others():
    run(2, refused_later)


def killed(rank, ranks, async_op, first):
    func = megatron.reduce_scatter("grad:bits=8", None, timeout=20)
    x = torch.zeros(1000 * ranks)
    if not first:
        with _coalescing_manager(async_ops=async_op):
            func(x[:1000], x, async_op=async_op)
    if rank == 0:
        os._exit(1)
    # The addresses of a first call are exchanged by gloo, which has exceptions of its own.
    expected = (pith.collective.TransportError, pith.collective.TimedOutError)
    with (
        pytest.raises(RuntimeError if first else expected),
        _coalescing_manager(async_ops=async_op),
    ):
        func(x[:1000], x, async_op=async_op)


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_a_rank_that_dies_is_an_exception_of_the_others(async_op, first):
    run(3, killed, async_op, first, dies=(0,))
