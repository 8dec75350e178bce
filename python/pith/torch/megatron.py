"""A reduce-scatter for Megatron-LM's gradient buckets.

SPDX-License-Identifier: Apache-2.0

    from megatron.core.distributed import param_and_grad_buffer
    param_and_grad_buffer.dist_reduce_scatter_func = pith.torch.megatron.reduce_scatter()

The function is called as ``func(output, input, op=, group=, async_op=)``, where Megatron calls
``torch.distributed.reduce_scatter_tensor``: inside of torch.distributed's coalescing manager, which
records the collectives of a group in place of making them. Tensors are in the memory of the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ..collective import Channel, Communicator
from ..errors import ArgumentError, ShapeError, numbered
from . import _group

__all__ = ["reduce_scatter"]


class _Handle(_group.Work):
    """A call under way: what ``async_op=True`` returns."""

    def __init__(self, future: Future[None]) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the end, and raise what went wrong on any rank."""
        self._future.result()
        return True

    def is_completed(self) -> bool:
        """Whether the call has ended."""
        return self._future.done()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._future.done() and self._future.exception() is None


class _Channels:
    """The channels of one process group, by the count and dtype of buckets, and their steps."""

    def __init__(self, ranks: Communicator) -> None:
        self.ranks = ranks
        self.made: dict[tuple[int, torch.dtype], Channel] = {}
        self.steps: dict[tuple[int, torch.dtype], int] = {}


@contextlib.contextmanager
def _not_coalesced(group: Any) -> Iterator[bool]:
    """Let a group's collectives be made although a coalescing manager records them.

    Yields whether there is such a manager around the caller. After an exception it finds no record
    to go on with: the exception leaves the manager, which would not end the recording then, and all
    later collectives of the group would be recorded and never made.
    """
    world = getattr(distributed_c10d, "_world", None)
    records = getattr(world, "pg_coalesce_state", {})  # of each group inside of a manager: a list
    record = records.pop(group, None)
    yield record is not None
    if record is not None:
        records[group] = record


def reduce_scatter(
    spec: str | None = None,
    inter: str | None = _group.AUTO,
    *,
    ranks_per_node: int | None = None,
    timeout: float | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Callable[..., Any]:
    """Return a function to put in the place of ``dist_reduce_scatter_func``.

    Buckets of one size share a channel, so specs have no error feedback: nothing says which bucket
    a call is of. Calls are carried out in their order, on a thread of their own; with
    ``async_op=True`` they overlap with backward, and the returned handle's ``wait`` ends them.
    Inside of a coalescing manager, which takes no such handles and is all that Megatron waits for,
    each call has ended when it returns.

    Args:
        spec: of the frames inside nodes; None: ``"grad:preset=intra"``
        inter: of those between nodes, which are all where each has one rank. ``"auto"``: ``spec``
            where it is given, else 4 bits with searched scales; None: one level, of ``spec``
        ranks_per_node: None: nodes are machines, by their names
        timeout: seconds of a call, after which a rank that does not answer is an error
        seed: of random bits
        threads: of encoding and decoding

    Raises:
        SpecError: a spec does not parse
        ArgumentError: a spec has error feedback
        UnsupportedError: the frames of a spec have no fixed size

    """
    spec, inter = _group.levels(spec, inter)
    for one in (spec, inter):
        if one is not None and _group.has_feedback(one):
            raise ArgumentError(
                f"spec: found {one!r}, expected none with error feedback: nothing says which bucket"
                " a call is of"
            )
    _group.check_sums(spec, inter)
    # Not those of groups that were destroyed: a training that is begun again makes others.
    groups: WeakKeyDictionary[Any, _Channels] = WeakKeyDictionary()
    worker = ThreadPoolExecutor(1, "pith-megatron")

    def func(
        output: torch.Tensor,
        input: torch.Tensor,
        op: Any = dist.ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        """Sum the ranks' inputs, and write this rank's piece to output.

        Raises:
            UnsupportedError: op is neither SUM nor AVG; or not in the memory of the CPU
            ShapeError, DtypeError: sizes that do not fit, or no float dtype
            Error: what went wrong on any rank

        """
        group = dist.group.WORLD if group is None else group
        with _not_coalesced(group) as coalesced:
            handle = submit(output, input, op, group)
            if async_op and not coalesced:
                return handle
            handle.wait()
        return handle if async_op else None

    def submit(output: torch.Tensor, input: torch.Tensor, op: Any, group: Any) -> _Handle:
        try:
            scale = _scale(output, input, op, group)
        except Exception:
            with contextlib.suppress(Exception):
                worker.submit(refuse, channels_of(group)).result()
            raise
        channels = channels_of(group)

        def call() -> None:
            key = (input.numel(), input.dtype)
            if key not in channels.made:
                channels.made[key] = channels.ranks.channel(
                    "reduce_scatter",
                    spec,
                    inter=inter,
                    count=input.numel(),
                    dtype=input.dtype,
                    seed=seed,
                    threads=threads,
                )
            step = channels.steps.get(key, 0)
            channels.steps[key] = step + 1
            channels.made[key].run(input, output, scale=scale, step=step)

        return _Handle(worker.submit(call))

    def refuse(channels: _Channels) -> None:
        # Where the group has no channel, the others make one now, and it fails there. Later nothing
        # says which of its channels they use: they wait for this rank until the timeout.
        if not channels.made:
            _group.refuse(channels.ranks)

    def channels_of(group: Any) -> _Channels:
        # By the group's own collective, which must not meet those of the caller on a thread.
        if group not in groups:
            groups[group] = _Channels(
                _group.communicator(group, ranks_per_node=ranks_per_node, timeout=timeout)
            )
        return groups[group]

    return func


def _scale(output: torch.Tensor, input: torch.Tensor, op: Any, group: Any) -> float:
    """Return what sums are multiplied by; raise where a call's arguments are refused."""
    count = dist.get_world_size(group)
    scale = _group.factor(op, count)
    _group.check(input, "input")
    _group.check(output, "output")
    if input.numel() != count * output.numel():
        raise ShapeError(
            f"input: found {numbered(input.numel(), 'elements')}, expected {count} times the"
            f" {output.numel()} of output"
        )
    return scale
