"""Communication for ``fully_shard`` (FSDP2): weights as differences, gradients as frames.

SPDX-License-Identifier: Apache-2.0

    for layer in [*model.layers, model]:
        fully_shard(layer)
    comms = pith.torch.fsdp.apply(model, optimizer)

Weights are gathered as differences to what all ranks have already, encoded once per optimizer step;
what is gathered again within a step comes from that copy, so that forward and backward see the same
weights. The price is a full replica of the weights on every rank, in their dtype, and a copy of the
own shard: this saves traffic, and of FSDP's memory only that of gradients and optimizer states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from ..collective import Channel, Communicator, Report
from ..errors import ArgumentError, DtypeError, ShapeError, StateError, numbered
from . import _group

__all__ = ["AllGather", "Comms", "ReduceScatter", "apply"]


class Comms:
    """What the objects of one model share: a communicator for each process group.

    Args:
        ranks_per_node: None: nodes are machines, by their names
        timeout: seconds of a call, after which a rank that does not answer is an error

    """

    def __init__(self, *, ranks_per_node: int | None = None, timeout: float | None = None) -> None:
        self._ranks_per_node, self._timeout = ranks_per_node, timeout
        self._ranks: dict[Any, Communicator] = {}
        self.gathers: list[AllGather] = []
        """Those that :meth:`step` tells of a step."""
        self.scatters: list[ReduceScatter] = []
        """Those whose steps and error feedback :meth:`state_dict` has."""
        self._failed = False  # a reduce-scatter did

    def ranks(self, group: Any) -> Communicator:
        """Return the communicator of a group, made at the first call. Collective then."""
        if group not in self._ranks:
            self._ranks[group] = _group.communicator(
                group, ranks_per_node=self._ranks_per_node, timeout=self._timeout
            )
        return self._ranks[group]

    def check(self) -> None:
        """Raise unless FSDP goes on reducing gradients.

        Raises:
            StateError: a reduce-scatter raised inside a backward. FSDP keeps the state that it had
                there, and from then on calls none any more: gradients are a rank's own

        """
        if self._failed:
            raise StateError(
                "a reduce-scatter failed inside a backward, after which FSDP reduces no gradients:"
                " shard a new model, apply() again, and load a checkpoint"
            )

    def step(self) -> None:
        """Say that the optimizer has changed the weights: the next gathers encode them.

        Raises:
            StateError: as :meth:`check`

        """
        self.check()
        for gather in self.gathers:
            gather.step()
        for scatter in self.scatters:
            scatter._latest = None

    def rollback(self) -> None:
        """Take back what the last backward did to error feedback.

        For gradients that no step of the optimizer uses, for instance because one overflowed.
        Every rank does so, or none. Of several backwards of a step the last one alone is taken
        back, and nothing is once the weights have changed.

        Raises:
            StateError: as :meth:`check`

        """
        self.check()
        for scatter in self.scatters:
            scatter._rollback()

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Call :meth:`step` after each step of an optimizer."""
        optimizer.register_step_post_hook(lambda *_: self.step())

    def reset(self) -> None:
        """Say that the weights are others, loaded from a checkpoint: the next gathers are exact."""
        for gather in self.gathers:
            gather.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's steps and what encoding has lost, by the order of the modules.

        Each rank saves its own, ``{"rank 3": (parts,)}``, torch.distributed.checkpoint that of
        every rank. Replicas of weights are not in it.
        """
        return _group.OwnState({"scatters": [scatter._state() for scatter in self.scatters]})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what this rank's :meth:`state_dict` returned, and let the next gathers be exact.

        Before or after the first step. Every rank does so, with a state of its own.

        Raises:
            ArgumentError: a key is missing, or the state is of another number of modules, or of
                another rank; after some were taken up maybe
            FrameError: the bytes are not of such channels; from the first call where there are no
                channels yet

        """
        scatters = _group.parts_of(state).get("scatters", ())
        if not isinstance(scatters, (list, tuple)) or len(scatters) != len(self.scatters):
            raise ArgumentError(f"state: expected scatters of {len(self.scatters)} modules")
        for scatter, saved in zip(self.scatters, scatters, strict=True):
            scatter._load(saved)
        self.reset()


class _Comm:
    """A channel that is made when sizes are known, at the first call."""

    _FIXED = "each module needs objects of its own"

    def __init__(self, comms: Comms) -> None:
        self._comms = comms
        self._channel: Channel | None = None
        self._key: Any = None
        self.report: Report | None = None
        """What the last call that sent anything did."""

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Return memory for FSDP's buffers."""
        return torch.empty(*size, dtype=dtype, device=device)

    def _check(self, whole: torch.Tensor, shard: torch.Tensor, group: Any) -> None:
        if whole.dtype == torch.uint8:
            raise DtypeError(
                "found bytes, into which FSDP2 packs the parameters of a module that are of several"
                " dtypes: give all one dtype, MixedPrecisionPolicy(param_dtype=) for instance, or"
                " call fully_shard on submodules of one dtype each"
            )
        for x, what in ((whole, "the whole tensor"), (shard, "the shard")):
            _group.check(x, what)
        ranks = dist.get_world_size(group)
        if whole.dtype != shard.dtype or whole.numel() != ranks * shard.numel():
            raise ShapeError(
                f"found {numbered(whole.numel(), 'elements')} of {whole.dtype} for"
                f" {numbered(ranks, 'shards')} of {numbered(shard.numel(), 'elements')} of"
                f" {shard.dtype}"
            )
        key = (group, whole.numel(), whole.dtype)
        if self._key is not None and self._key[0] != group:
            raise ArgumentError(
                f"group: found another one, of {ranks} ranks, than in the calls before:"
                " reshard_after_forward= takes True or False here, and no number"
            )
        if self._key not in (None, key):
            raise ArgumentError(
                f"found {key[1:]}, and the calls before had {self._key[1:]}: {self._FIXED}"
            )
        self._key = key

    def _refuse(self, group: Any) -> None:
        """Let a call that this rank refuses fail on the others, too, before they wait for it."""
        if self._key is not None and self._key[0] != group:
            return  # in which of the two groups others make a call is not known
        with contextlib.suppress(Exception):
            _group.refuse(self._comms.ranks(group), self._channel)


class AllGather(_Comm):
    """For ``module.set_custom_all_gather``, one for each module.

    Args:
        comms: shared by the model's objects; it tells this one of steps
        spec: of the differences

    Raises:
        SpecError: the spec does not parse
        DtypeError: its codec takes no base

    """

    def __init__(self, comms: Comms, spec: str = "wdiff:bits=8") -> None:
        super().__init__(comms)
        _group.check_weights(spec)
        self._spec = spec
        self._shard: torch.Tensor | None = None  # as it was encoded last
        self._next, self._changed, self._exact = 0, True, True
        comms.gathers.append(self)

    def step(self) -> None:
        """Say that the shards have changed: every rank does so, or none."""
        self._changed = True

    def reset(self) -> None:
        """Let the next gather be exact, whatever was gathered before. Every rank, or none."""
        self._changed = self._exact = True

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        async_op: bool = False,
    ) -> Any:
        """Gather the shards; the result is there when this returns.

        Raises:
            StateError: the weights were changed and nobody called :meth:`step`; or as
                :meth:`Comms.check`
            ShapeError, ArgumentError: sizes that do not fit, or those of another module
            UnsupportedError, DtypeError: not in the memory of the CPU; or of no float dtype, as
                where parameters of several dtypes are packed into bytes
            Error: what went wrong on any rank; the next call gathers exactly

        """
        self._comms.check()
        try:
            self._check(output_tensor, input_tensor, group)
        except Exception:
            if self._changed:  # else the others have their copy, and wait for nobody
                self._exact = True
                self._refuse(group)
            raise
        if self._channel is None:
            self._channel = self._comms.ranks(group).channel(
                "allgather",
                self._spec,
                count=output_tensor.numel(),
                counts=[input_tensor.numel()] * dist.get_world_size(group),
                dtype=output_tensor.dtype,
                base_dtype=output_tensor.dtype,
            )
        if self._changed:
            self._gather(self._channel, output_tensor, input_tensor)
        else:
            if not _same(self._shard, input_tensor):
                raise StateError(
                    "the weights have changed since they were gathered: call step() after the"
                    " optimizer's, or attach(optimizer) once"
                )
            self._channel.get_base(output_tensor)
        return _group.Work() if async_op else None

    def _gather(self, channel: Channel, output: torch.Tensor, shard: torch.Tensor) -> None:
        # A copy, since FSDP's shard is a part of its output.
        self._shard = shard.clone() if self._shard is None else self._shard.copy_(shard)
        exact, self._exact = self._exact, True
        self.report = channel.run(self._shard, output, step=self._next, key_frame=exact)
        self._exact = self._changed = False
        self._next += 1

    def base_hash(self) -> int:
        """Return one number of the replica, equal on every rank; 0 before the first gather."""
        return 0 if self._channel is None else self._channel.base_hash()


def _same(a: torch.Tensor | None, b: torch.Tensor) -> bool:
    return a is not None and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


class ReduceScatter(_Comm):
    """For ``module.set_custom_reduce_scatter``, one for each module.

    Args:
        comms: shared by the model's objects
        spec: of the frames inside nodes; with ``ef=full`` it has error feedback. None:
            ``"grad:preset=intra"``
        inter: of those between nodes, which are all where each has one rank. ``"auto"``: ``spec``
            where it is given, else 4 bits with searched scales; None: one level, of ``spec``
        seed: of random bits

    Raises:
        SpecError: a spec does not parse
        UnsupportedError: its frames have no fixed size

    """

    _FIXED = (
        "each module needs objects of its own, and in every backward gradients of the same"
        " parameters: set_reduce_scatter_unused_params(True) where some may be unused, apply()"
        " again after requires_grad has changed"
    )

    def __init__(
        self,
        comms: Comms,
        spec: str | None = None,
        inter: str | None = _group.AUTO,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(comms)
        spec, inter = _group.levels(spec, inter)
        _group.check_sums(spec, inter)
        self._spec, self._inter, self._seed, self._step = spec, inter, seed, 0
        self._saved: dict[str, Any] | None = None  # to be loaded when there is a channel
        self._latest: int | None = None  # a step that may be taken back
        comms.scatters.append(self)

    def _state(self) -> dict[str, Any]:
        if self._channel is None:
            return self._saved or {"step": self._step, "rank": None, "channel": None}
        place = self._channel.place
        return {
            "step": self._step,
            "rank": [place.rank, place.ranks],
            "channel": self._channel.save(),
        }

    def _load(self, saved: dict[str, Any]) -> None:
        missing = {"step", "rank", "channel"} - set(saved)
        if missing:
            raise ArgumentError(f"state: found no {', '.join(sorted(missing))}")
        if not hasattr(saved["step"], "__index__") or int(saved["step"]) < 0:
            raise ArgumentError(f"state: found step {saved['step']!r}, expected 0 or more")
        if self._channel is None:
            self._saved = saved
            return
        place = self._channel.place
        if saved["channel"] is None:
            self._channel.reset()
        elif list(saved["rank"]) != [place.rank, place.ranks]:
            raise ArgumentError(
                f"state: found that of rank and ranks {saved['rank']}, expected"
                f" {[place.rank, place.ranks]}: each rank loads what it saved itself"
            )
        else:
            self._channel.load(saved["channel"])
        self._step, self._saved, self._latest = int(saved["step"]), None, None

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> Any:
        """Sum the inputs and keep this rank's shard, which is there when this returns.

        After an exception of it the objects of its :class:`Comms` refuse to go on.

        Raises:
            UnsupportedError: op is neither SUM nor AVG; or not in the memory of the CPU
            ShapeError, ArgumentError, DtypeError: as :class:`AllGather`'s call
            Error: what went wrong on any rank

        """
        try:
            self._reduce(output_tensor, input_tensor, group, op)
        except BaseException:
            self._comms._failed = True
            raise
        return _group.Work() if async_op else None

    def _reduce(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any
    ) -> None:
        try:
            self._check(input_tensor, output_tensor, group)
            scale = _group.factor(op, dist.get_world_size(group))
        except Exception:
            self._refuse(group)
            raise
        if self._channel is None:
            self._channel = self._comms.ranks(group).channel(
                "reduce_scatter",
                self._spec,
                inter=self._inter,
                count=input_tensor.numel(),
                counts=[output_tensor.numel()] * dist.get_world_size(group),
                dtype=input_tensor.dtype,
                seed=self._seed,
            )
        if self._saved is not None:
            try:
                self._load(self._saved)
            except Exception:
                self._refuse(group)
                raise
        step, self._step = self._step, self._step + 1
        self.report = self._channel.run(input_tensor, output_tensor, scale=scale, step=step)
        self._latest = step

    def _rollback(self) -> None:
        if self._channel is not None and self._latest is not None:
            self._channel.rollback(self._latest)
            self._step, self._latest = self._latest, None


def apply(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    weights: str = "wdiff:bits=8",
    gradients: str | None = None,
    inter: str | None = _group.AUTO,
    ranks_per_node: int | None = None,
    timeout: float | None = None,
    seed: int = 0,
) -> Comms:
    """Let every module on which ``fully_shard`` was called communicate through pith.

    With error feedback a parameter without a gradient counts as one of zeros
    (``set_reduce_scatter_unused_params(True)`` of FSDP2, where PyTorch has it): else FSDP2 reduces
    only parameters that have one, and what was lost of one would be added to another.

    Args:
        model: after ``fully_shard``, before its first forward
        optimizer: whose steps change the weights; None: call ``step()`` of what is returned
        weights: spec of weight differences
        gradients: spec of gradients inside nodes; None: ``"grad:preset=intra"``
        inter: spec of gradients between nodes, which are all where each has one rank. ``"auto"``:
            ``gradients`` where it is given, else 4 bits with searched scales; None: one level
        ranks_per_node: None: nodes are machines, by their names
        timeout: seconds of a call
        seed: of random bits

    Raises:
        ArgumentError: no module of the model is sharded
        SpecError, DtypeError, UnsupportedError: what AllGather and ReduceScatter raise for specs
        ValueError: from PyTorch, for modules with several parameter groups

    """
    gradients, inter = _group.levels(gradients, inter)
    comms = Comms(ranks_per_node=ranks_per_node, timeout=timeout)
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not sharded:
        raise ArgumentError("model: found no module on which fully_shard was called")
    feedback = any(_group.has_feedback(one) for one in (gradients, inter) if one is not None)
    for module in sharded:
        # FSDP calls these objects, and asks for no class of its own.
        gather: Any = AllGather(comms, weights)
        scatter: Any = ReduceScatter(comms, gradients, inter, seed=seed)
        module.set_custom_all_gather(gather)
        module.set_custom_reduce_scatter(scatter)
        if feedback and hasattr(module, "set_reduce_scatter_unused_params"):
            module.set_reduce_scatter_unused_params(True, recurse=False)
    if optimizer is not None:
        comms.attach(optimizer)
    return comms
