"""What the adapters share: a communicator of a process group, and what they refuse.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  whose function at exit is then registered
import fcntl
import os
import re
import socket
import struct
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.distributed_c10d import Work as C10dWork

from .. import collective
from .._core import lib
from ..errors import ArgumentError, DtypeError, UnsupportedError
from ..frames import check_spec
from ..plan import Plan

_T = TypeVar("_T")
AUTO = "auto"
INTRA = "grad:preset=intra"
"""Of gradients inside nodes, unless told otherwise."""
INTER = "grad:bits=4,group=64,scale_dtype=bf16,search=mse"
"""Of those between nodes: searched scales, in the bytes of grad:preset=inter."""
SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def _end_waits() -> None:
    """Break the calls that wait for other ranks, where an exception has ended the program.

    They run on threads, and Python waits for these before it ends: other ranks, which may wait for
    this one, would learn nothing until the timeout.
    """
    if hasattr(sys, "last_type"):
        lib.pithpy_end_waits()


# Functions of atexit run after Python has waited, these before, and the last one first.
if _register := getattr(threading, "_register_atexit", None):
    _register(_end_waits)


def _interface_address(name: str) -> str:
    """Return the address of an interface.

    Raises:
        OSError: there is none

    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        found = fcntl.ioctl(s, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    return socket.inet_ntoa(found[20:24])


def gather(mine: Any, failed: Exception | None, group: Any) -> list[Any]:
    """Return what every rank gives, unless one has failed. Collective.

    Raises:
        Exception: failed, on this rank
        ArgumentError: another rank has failed; its number and text

    """
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, (mine, failed and str(failed)), group=group)
    if failed is not None:
        raise failed
    for rank, (_, why) in enumerate(found):
        if why is not None:
            raise ArgumentError(f"rank {rank}: {why}")
    return [given for given, _ in found]


def communicator(
    group: Any,
    *,
    ranks_per_node: int | None = None,
    timeout: float | None = None,
    alike: dict[str, Any] | None = None,
    failed: Exception | None = None,
) -> collective.Communicator:
    """Return a new communicator of a process group's ranks. Collective.

    Addresses are exchanged with the group's own object all-gather. The interface is the one that
    gloo takes: the first of ``GLOO_SOCKET_IFNAME``, else that of the machine's name; on one machine
    the loopback one. ``alike`` has what must be the same on every rank and channels do not know,
    by its name, and ``failed`` is what this rank has refused before, which is raised again.

    Raises:
        ArgumentError: this process is not in the group, or torch.distributed is not initialised;
            on every rank: one has something else there; another rank has refused something

    """
    if not dist.is_initialized():
        raise ArgumentError("torch.distributed: call init_process_group first")
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ArgumentError("group: this process is not one of its ranks")

    def exchange(text: str) -> list[str]:
        found = gather((text, alike or {}), failed, group)
        first = found[0][1]
        for other, (_, has) in enumerate(found):
            for name in has:
                if has[name] != first[name]:
                    raise ArgumentError(
                        f"rank {other} has {name}={has[name]!r}, rank 0 {name}={first[name]!r}"
                    )
        return [str(text) for text, _ in found]

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


def agree(
    check: Callable[[], _T], group: Any, **options: Any
) -> tuple[collective.Communicator, _T]:
    """Return a new communicator, and what a check of this rank's arguments returns. Collective.

    Args:
        check: raises what this rank refuses, of which no other is left waiting
        group: see :func:`communicator`
        options: of it

    Raises:
        Exception: what the check raises
        ArgumentError: as communicator

    """
    failed: Exception | None = None
    found: Any = None
    try:
        found = check()
    except Exception as error:  # the others are told
        failed = error
    return communicator(group, failed=failed, **options), found


def refuse(ranks: collective.Communicator, channel: collective.Channel | None = None) -> None:
    """Take part in a call that this rank refuses, so that it fails on the others without a wait.

    Args:
        ranks: of the call
        channel: of the call; None: it is made by the call, which fails when it is made

    Raises:
        Error: always

    """
    if channel is None:
        ranks.channel("refused on this rank", "", dtype=torch.float32)
    else:
        channel.run((), (), scale=0.0)


def check(x: torch.Tensor, what: str) -> None:
    """Raise unless a tensor is one that the channels take.

    Raises:
        UnsupportedError: it is not in the memory of the CPU, or not dense
        DtypeError: not f32, bf16 or f16, or no tensor

    """
    if not isinstance(x, torch.Tensor):
        raise DtypeError(f"{what}: expected a tensor of PyTorch, found {type(x).__name__}")
    if x.device.type != "cpu":
        raise UnsupportedError(
            f"{what}: expected a tensor in the memory of the CPU, found one on {x.device}: channels"
            " take host memory; train with a gloo group, or copy"
        )
    check_dtype(x, what)
    if not x.is_contiguous():
        raise UnsupportedError(f"{what}: expected a contiguous tensor, found strides {x.stride()}")


def check_dtype(x: torch.Tensor, what: str) -> None:
    """Raise unless a tensor is f32, bf16 or f16.

    Raises:
        DtypeError: as said

    """
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise DtypeError(f"{what}: found {x.dtype}, expected float32, bfloat16 or float16")


def check_gradients(model: torch.nn.Module) -> None:
    """Raise unless a model's gradients are those that hooks take; of what DDP ignores it has none.

    Raises:
        DtypeError: one is not f32, bf16 or f16

    """
    ignored = {f"module.{name}" for name in getattr(model, "parameters_to_ignore", ())}
    for name, p in model.named_parameters():
        if p.requires_grad and name not in ignored:
            check_dtype(p, name)


def check_bucket(bucket: Any) -> None:
    """Raise unless a hook is given a bucket of DistributedDataParallel.

    Raises:
        UnsupportedError: it is a pair of a gradient and its parameter

    """
    if not isinstance(bucket, GradBucket):
        raise UnsupportedError(
            f"bucket: found a {type(bucket).__name__}, expected a GradBucket: with"
            " torch._dynamo.config.optimize_ddp = 'python_reducer' gradients come one by one; leave"
            " it at True or False"
        )


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


def pieces(names: Iterable[str], counts: Iterable[int]) -> dict[str, tuple[int, int]]:
    """Return where tensors that follow one another begin, and their counts, by name."""
    found, first = {}, 0
    for name, count in zip(names, counts, strict=True):
        found[name] = (first, count)
        first += count
    return found


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


def levels(spec: str | None, inter: str | None) -> tuple[str, str | None]:
    """Return the specs of gradients inside nodes and between them, with their defaults."""
    if inter == AUTO:
        inter = INTER if spec is None else spec
    return INTRA if spec is None else spec, inter


def check_sums(*specs: str | None) -> None:
    """Raise at once for specs that channels of sums refuse, whatever their elements.

    Raises:
        SpecError: one does not parse
        UnsupportedError: the frames of one have no fixed size

    """
    for spec in specs:
        if spec is not None and not Plan(spec, shape=1 << 16, dtype=torch.float32).sizes.fixed:
            raise UnsupportedError(f"spec: found {spec!r}, and sums take those of fixed rate only")


def check_weights(spec: str) -> None:
    """Raise at once for a spec that cannot send weights as differences.

    Raises:
        SpecError: it does not parse
        DtypeError: its codec takes no base

    """
    Plan(spec, shape=1 << 16, dtype=torch.float32, base_dtype=torch.float32)


def factor(op: Any, ranks: int) -> float:
    """Return what a sum is multiplied by for a reduction of torch.distributed.

    Raises:
        UnsupportedError: neither SUM nor AVG

    """
    if op == dist.ReduceOp.SUM:
        return 1.0
    if op == dist.ReduceOp.AVG:
        return 1.0 / ranks
    text = f"op: found {getattr(op, 'op', op)}, expected ReduceOp.SUM or ReduceOp.AVG"
    if op == dist.ReduceOp.PREMUL_SUM:
        text += ": after set_gradient_divide_factor() call set_force_sum_reduction_for_comms(True)"
        text += " of each module, for FSDP2 to divide sums itself"
    raise UnsupportedError(text)


class OwnState(dict[str, Any]):
    """What one rank remembers, under a name that no other rank has; its parts are read by theirs.

    Of entries with one name torch.distributed.checkpoint keeps those of one rank, and of what is
    loaded it reads the names that there are before: of a state that is still empty, none. So the
    whole is one entry, in a tuple, into which it does not look.
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self._name = _own_name()
        super().__init__({self._name: (parts,)})

    def __missing__(self, name: str) -> Any:
        if name != self._name:
            return self[self._name][0][name]
        raise KeyError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Which torch.load takes with weights_only=True, as those of modules.
        return OrderedDict, (), None, None, iter(self.items())


def _own_name() -> str:
    """Return the name of this rank's state, among all processes and not in one group."""
    return f"rank {dist.get_rank() if dist.is_initialized() else 0}"


def parts_of(state: Any) -> dict[str, Any]:
    """Return the parts of an :class:`OwnState`, with what was put beside them.

    Of several ranks' states it is this rank's; where there is another's alone, that one: whether
    it fits is for the caller to say. A dict of parts is taken as it is.

    Raises:
        ArgumentError: it is no such state

    """
    if not isinstance(state, dict):
        raise ArgumentError(f"state: expected a dict, found a {type(state).__name__}")
    names = [name for name in state if isinstance(name, str) and _RANK.fullmatch(name)]
    if not names:
        return dict(state)
    own = _own_name()
    if own not in names:
        if len(names) > 1:
            raise ArgumentError(f"state: found those of {', '.join(names)}, expected {own}")
        own = names[0]
    whole = state[own]
    if not isinstance(whole, tuple) or len(whole) != 1 or not isinstance(whole[0], dict):
        raise ArgumentError(f"state: {own!r}: expected a dict in a tuple, as state_dict() returns")
    return {**whole[0], **{name: value for name, value in state.items() if name not in names}}


_RANK = re.compile("rank [0-9]+")


def residuals_of(
    state: dict[str, Any], parameters: dict[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """Return copies of the residuals in parts of a hook's state, flat and in f32.

    Raises:
        ArgumentError: a key is missing, or a residual fits no parameter

    """
    missing = {"step", "residuals"} - set(state)
    if missing:
        raise ArgumentError(f"state: found no {', '.join(sorted(missing))}")
    if not hasattr(state["step"], "__index__") or not -1 <= int(state["step"]) < 1 << 64:
        raise ArgumentError(f"step: found {state['step']!r}, expected -1 to 2**64 - 1")
    return tensors_of(state["residuals"], "residuals", parameters)


def tensors_of(
    saved: Any, what: str, parameters: dict[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """Return copies of saved tensors, each as long as the parameter of its name, flat and in f32.

    Raises:
        ArgumentError: one fits no parameter

    """
    if not isinstance(saved, dict):
        raise ArgumentError(f"{what}: found a {type(saved).__name__}, expected a dict")
    tensors: dict[str, torch.Tensor] = {}
    for name, one in saved.items():
        if name not in parameters:
            raise ArgumentError(f"{what}: found {name!r}, which is no parameter")
        if not isinstance(one, torch.Tensor) or one.layout is not torch.strided or one.is_meta:
            raise ArgumentError(f"{what}: {name!r}: expected a dense tensor")
        if one.is_complex():
            raise ArgumentError(f"{what}: {name!r}: found {one.dtype}, expected real numbers")
        count = parameters[name].numel()
        tensors[name] = one.to("cpu", torch.float32, copy=True).flatten()
        if one.numel() != count or not bool(torch.isfinite(tensors[name]).all()):
            raise ArgumentError(f"{what}: {name!r}: expected {count} finite elements in f32")
    return tensors
