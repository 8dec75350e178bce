"""What the adapters share: a communicator of a process group, and what they refuse.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Work as C10dWork

from .. import collective
from ..errors import ArgumentError, DtypeError, UnsupportedError
from ..frames import check_spec

INTER = "grad:bits=4,group=64,scale_dtype=bf16,search=mse"
"""Of gradients between nodes: searched scales, in the bytes of grad:preset=inter."""
SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def _interface_address(name: str) -> str:
    """Return the address of an interface.

    Raises:
        OSError: there is none

    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        found = fcntl.ioctl(s, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    return socket.inet_ntoa(found[20:24])


def communicator(
    group: Any, *, ranks_per_node: int | None = None, timeout: float | None = None
) -> collective.Communicator:
    """Return a new communicator of a process group's ranks. Collective.

    Addresses are exchanged with the group's own object all-gather. The interface is the one that
    gloo takes: the first of ``GLOO_SOCKET_IFNAME``, else that of the machine's name; on one machine
    the loopback one.

    Raises:
        ArgumentError: this process is not in the group, or torch.distributed is not initialised

    """
    if not dist.is_initialized():
        raise ArgumentError("torch.distributed: call init_process_group first")
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ArgumentError("group: this process is not one of its ranks")

    def exchange(text: str) -> list[str]:
        texts: list[Any] = [None] * ranks
        dist.all_gather_object(texts, text, group=group)
        return [str(one) for one in texts]

    name = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    host: str | Exception | None = None
    if name:
        try:
            host = _interface_address(name)
        except OSError as error:
            host = OSError(f"interface {name}: {error}")
    return collective.Communicator(
        rank,
        ranks,
        exchange,
        host=host,
        ranks_per_node=ranks_per_node,
        timeout=300.0 if timeout is None else timeout,
    )


def check(x: torch.Tensor, what: str) -> None:
    """Raise unless a tensor is one that the channels take.

    Raises:
        UnsupportedError: it is not in the memory of the CPU, or not dense
        DtypeError: not f32, bf16 or f16

    """
    if x.device.type != "cpu":
        raise UnsupportedError(
            f"{what}: expected a tensor in the memory of the CPU, found one on {x.device}: channels"
            " take host memory; train with a gloo group, or copy"
        )
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise DtypeError(f"{what}: found {x.dtype}, expected float32, bfloat16 or float16")
    if not x.is_contiguous():
        raise UnsupportedError(f"{what}: expected a contiguous tensor, found strides {x.stride()}")


HOOKED = (
    "what a hook remembers is not copied or pickled, nor a DistributedDataParallel with a hook:"
    " copy model.module, or take state_dict() of both"
)
"""Said where DistributedDataParallel copies a state: the copy of it would have no hook."""


class Work(C10dWork):
    """A call that has ended: what torch.distributed returns for ``async_op=True``."""

    def wait(self, timeout: Any = None) -> bool:
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def is_success(self) -> bool:
        """Return True: a call that failed has raised its exception."""
        return True


def has_feedback(spec: str) -> bool:
    """Whether a spec has error feedback.

    Raises:
        SpecError: it does not parse

    """
    return "ef=" in check_spec(spec)


def exempt_ranges(
    pieces: Iterable[tuple[int, bool]], how: str | None
) -> list[tuple[int, int, str]]:
    """Return the ranges of a channel that go around the codec.

    Args:
        pieces: for each tensor in its order its element count, and whether it is exempt
        how: ``"16"`` or ``"exact"``; None: nothing is exempt

    Raises:
        ArgumentError: how is none of these

    """
    if how not in ("16", "exact", None):
        raise ArgumentError(f"exempt: found {how!r}, expected '16', 'exact' or None")
    ranges: list[tuple[int, int, str]] = []
    first = 0
    for count, exempt in pieces:
        if how is not None and exempt and count:
            if ranges and ranges[-1][0] + ranges[-1][1] == first:
                first_of_range, so_far, _ = ranges.pop()
                ranges.append((first_of_range, so_far + count, how))
            else:
                ranges.append((first, count, how))
        first += count
    return ranges


def factor(op: Any, ranks: int) -> float:
    """Return what a sum is multiplied by for a reduction of torch.distributed.

    Raises:
        UnsupportedError: neither SUM nor AVG

    """
    if op == dist.ReduceOp.SUM:
        return 1.0
    if op == dist.ReduceOp.AVG:
        return 1.0 / ranks
    raise UnsupportedError(f"op: found {op}, expected ReduceOp.SUM or ReduceOp.AVG")


def residuals_of(
    state: dict[str, Any], parameters: dict[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """Return copies of the residuals in what ``state_dict`` of a hook returned, flat and in f32.

    Raises:
        ArgumentError: a key is missing, or a residual fits no parameter

    """
    if not isinstance(state, dict):
        raise ArgumentError(f"state: expected a dict, found a {type(state).__name__}")
    missing = {"step", "residuals"} - set(state)
    if missing:
        raise ArgumentError(f"state: found no {', '.join(sorted(missing))}")
    saved = state["residuals"]
    if not hasattr(state["step"], "__index__") or int(state["step"]) < -1:
        raise ArgumentError(f"step: found {state['step']!r}, expected -1 or more")
    if not isinstance(saved, dict):
        raise ArgumentError(f"residuals: found a {type(saved).__name__}, expected a dict")
    residuals: dict[str, torch.Tensor] = {}
    for name, lost in saved.items():
        if name not in parameters:
            raise ArgumentError(f"residuals: found {name!r}, which is no parameter")
        if not isinstance(lost, torch.Tensor) or lost.layout is not torch.strided:
            raise ArgumentError(f"residuals: {name!r}: expected a dense tensor")
        count = parameters[name].numel()
        residuals[name] = lost.to("cpu", torch.float32, copy=True).flatten()
        if lost.numel() != count or not bool(torch.isfinite(residuals[name]).all()):
            raise ArgumentError(f"residuals: {name!r}: expected {count} finite elements in f32")
    return residuals
