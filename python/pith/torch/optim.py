"""An optimizer whose states are sharded over the ranks (ZeRO-1), and that talks in frames.

SPDX-License-Identifier: Apache-2.0

    optimizer = pith.torch.optim.Sharded(model.parameters(), torch.optim.AdamW, lr=1e-3)
    ...
    loss.backward()
    optimizer.step()

Each rank has the optimizer's states, and f32 weights, of its shard alone. A step reduces gradients
to shards, runs the optimizer there, and gathers what it changed as differences to what all ranks
have. The model is not wrapped in DistributedDataParallel: gradients are local until the step.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from numbers import Real
from typing import Any

import torch
import torch.distributed as dist
from torch._compile import _disable_dynamo

from ..collective import Report
from ..errors import (
    ArgumentError,
    BaseMismatchError,
    DtypeError,
    Error,
    MismatchError,
    StateError,
    UnsupportedError,
)
from ..frames import check_spec
from . import _group

__all__ = ["Sharded"]


_OWN = (
    "states are those of flat shards and not of parameters, which torch.distributed.checkpoint"
    " cannot gather: save the state_dict() of a Sharded on each rank, and load it there"
)


_WRITTEN = "the parameters are not what the last step gathered"
_LOAD = "load weights before the optimizer is made, or its own state_dict"


class _State(_group.OwnState):
    """What an optimizer's state_dict returns: it says why it has no states by parameter."""

    def __missing__(self, name: str) -> Any:
        if name in ("state", "param_groups"):
            raise UnsupportedError(f"{name}: {_OWN}")
        return super().__missing__(name)


class _Group(MutableMapping[str, Any]):
    """A group of the inner optimizer, with the model's parameters in the place of shards."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, index: int, parameters: Iterable[torch.Tensor]
    ) -> None:
        self._optimizer, self._index, self.parameters = optimizer, index, list(parameters)

    @property
    def _own(self) -> dict[str, Any]:
        # Optimizers make other groups when they load a state.
        return self._optimizer.param_groups[self._index]

    def __getitem__(self, name: str) -> Any:
        return self.parameters if name == "params" else self._own[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params":
            raise UnsupportedError("params: parameters are given when the optimizer is made")
        self._own[name] = value

    def __delitem__(self, name: str) -> None:
        if name == "params":
            raise UnsupportedError("params: parameters are given when the optimizer is made")
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class Sharded(torch.optim.Optimizer):
    """A sharded optimizer, used as the optimizer it is made of; schedulers take it as one.

    Collective: every rank makes one with the same arguments but ``threads``, and calls
    :meth:`step` and :meth:`verify` together. All ranks begin with rank 0's weights. The optimizer
    sees one flat f32 tensor for each parameter group, so it must treat elements alike: SGD, Adam,
    AdamW and their kin, not those that look at a parameter's shape or norm (LARS, LAMB, Muon) or
    compute gradients again in a step (LBFGS).

    PyTorch's ``ShardedGradScaler`` takes it, too, where its ``unscale_`` is called before its
    ``step``: what is not finite on one rank makes all skip the step.

    Args:
        parameters: of the model, or groups of them with options, as optimizers take them; all of
            one dtype, f32, bf16 or f16, dense, in the memory of the CPU
        optimizer: its class
        group: a process group; None: the default one
        gradients: spec of gradients inside nodes; with ``ef=full`` it has error feedback. None:
            ``"grad:preset=intra"``
        inter: spec of gradients between nodes, which are all where each has one rank. ``"auto"``:
            ``gradients`` where it is given, else 4 bits with searched scales; None: one level
        weights: spec of weight differences
        op: ``"avg"`` or ``"sum"`` of gradients over the ranks
        exempt: how gradients of parameters with one dimension or none travel: ``"16"`` bits,
            ``"exact"``, or None: as the others
        max_norm: what the norm of the gradients that a step reduced, of all parameters together,
            may be: longer ones are scaled down to it, as ``clip_grad_norm_`` of PyTorch does.
            None: any, which is not asked for
        verify_every: steps after which :meth:`verify` is called; 0: never
        parameters_as_bucket_view: the parameters become views of one flat tensor, into which steps
            gather. Without, what was gathered is kept beside them: as many bytes as they have, and
            the time to write them twice. It takes parameters that share no memory with each other;
            what else shares memory with one (``.data``, views) does so no longer. torch.save of one
            of them alone writes all of the flat tensor: save a clone, or the whole state_dict
        ranks_per_node: None: nodes are machines, by their names
        seed: of random bits
        timeout: seconds of a call, after which a rank that does not answer is an error
        threads: of encoding and decoding
        options: of the optimizer

    Raises:
        ArgumentError, DtypeError, UnsupportedError: parameters that are none of these; on
            another rank verify_every, max_norm, the optimizer or numbers among its options are
            others
        MismatchError: the ranks' specs differ
        Exception: what the optimizer's class raises; ArgumentError on the other ranks

    """

    def __init__(
        self,
        parameters: Iterable[Any],
        optimizer: Callable[..., torch.optim.Optimizer],
        *,
        group: Any = None,
        gradients: str | None = None,
        inter: str | None = _group.AUTO,
        weights: str = "wdiff:bits=8",
        op: str = "avg",
        exempt: str | None = "16",
        max_norm: float | None = None,
        verify_every: int = 0,
        parameters_as_bucket_view: bool = False,
        ranks_per_node: int | None = None,
        seed: int = 0,
        timeout: float | None = None,
        threads: int = 1,
        **options: Any,
    ) -> None:
        def check() -> tuple[list[dict[str, Any]], list[tuple[int, int, str]]]:
            _check_options(
                op, max_norm, verify_every, parameters_as_bucket_view, optimizer, weights
            )
            groups = _groups(parameters)
            listed = [p for one in groups for p in one["params"]]
            _check_parameters(listed)
            if parameters_as_bucket_view:
                _check_apart(listed)
            return groups, _group.exempt_ranges(((p.numel(), p.dim() <= 1) for p in listed), exempt)

        ranks, (groups, ranges) = _group.agree(
            check,
            group,
            ranks_per_node=ranks_per_node,
            timeout=timeout,
            alike={"verify_every": verify_every, "max_norm": max_norm},
        )
        self._parameters = [p for one in groups for p in one["params"]]
        self._group, self._verify_every, self._steps = group, verify_every, 0
        self._max_norm = max_norm
        dtype = self._parameters[0].dtype
        count = sum(p.numel() for p in self._parameters)
        self._scale = 1.0 / ranks.ranks if op == "avg" else 1.0
        gradients, inter = _group.levels(gradients, inter)
        shared: dict[str, Any] = {"count": count, "seed": seed, "threads": threads}
        self._sum = ranks.channel(
            "reduce_scatter",
            gradients,
            inter=inter,
            dtype=dtype,
            exempt=ranges,
            **shared,
        )
        self._gather = ranks.channel(
            "allgather",
            weights,
            dtype="f32",
            base_dtype=dtype,
            external_base=parameters_as_bucket_view,
            **shared,
        )
        ranks.close()
        self._first, self._count = self._sum.shard(ranks.rank)
        self._place = {
            "rank": ranks.rank,
            "ranks": ranks.ranks,
            "first": self._first,
            "count": self._count,
        }
        self._parts: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        self._versions: list[tuple[int, int]] = []  # of the parameters, when they were gathered
        # The first gather is exact: it brings rank 0's weights to all.
        flat = torch.cat([p.detach().flatten() for p in self._parameters]).float()
        dist.broadcast(flat, dist.get_global_rank(group, 0) if group else 0, group=group)
        self._weights = flat[self._first : self._first + self._count].clone()
        self._gradient = torch.zeros_like(self._weights)
        self._bucket: torch.Tensor | None = None
        self._bound = 0  # where the bucket lay when the channel was told
        self._bucket_views: list[torch.Tensor] = []
        if parameters_as_bucket_view:
            self._bucket = flat.to(dtype)
            parts = torch.split(self._bucket, [p.numel() for p in self._parameters])
            self._bucket_views = [
                part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)
            ]
            self._bind(self._bucket, 0)
        del flat
        self._move(key_frame=True)
        if self._bucket is not None:
            self._attach()
        failed: Exception | None = None
        try:
            self.optimizer = self._inner(optimizer, groups, options)
            """The optimizer of this rank's shard, whose groups and states are this one's."""
        except Exception as error:  # the others are told
            failed = error
        found = _group.gather(None if failed else _settings(self.optimizer), failed, group)
        for rank, settings in enumerate(found):
            if settings != found[0]:
                raise ArgumentError(f"rank {rank} has {settings}, rank 0 {found[0]}")
        self._groups = self._views(groups)
        super().__init__(self.optimizer.param_groups, self.optimizer.defaults)
        self.reports: dict[str, Report] = {}
        """What the last step's two calls did: ``"gradients"`` and ``"weights"``."""
        self.norm: float | None = None
        """Of the gradients that the last step reduced, before max_norm, which asks for it."""

    def _inner(
        self,
        optimizer: Callable[..., torch.optim.Optimizer],
        groups: list[dict[str, Any]],
        options: dict[str, Any],
    ) -> torch.optim.Optimizer:
        """Return the optimizer of this rank's shard.

        Raises:
            Exception: what its class raises
            ArgumentError: it is no class of optimizers, or one that needs a closure

        """
        inner = optimizer(self._shards(groups), **options)
        if not isinstance(getattr(inner, "param_groups", None), list):
            raise ArgumentError(
                f"optimizer: expected a class of optimizers, and it made a {type(inner).__name__}"
            )
        closure = inspect.signature(inner.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise ArgumentError(
                f"optimizer: {type(inner).__name__} computes gradients again in its step: they are"
                " reduced once"
            )
        return inner

    def _shards(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the groups with this rank's part of them, as views of its weights."""
        made, first = [], 0
        for one in groups:
            end = first + sum(p.numel() for p in one["params"])
            low = min(max(first - self._first, 0), self._count)
            high = min(max(end - self._first, 0), self._count)
            part = torch.nn.Parameter(self._weights[low:high])
            self._parts.append((part, self._gradient[low:high]))
            made.append({**one, "params": [part]})
            first = end
        return made

    def _views(self, groups: list[dict[str, Any]]) -> list[_Group]:
        """Return the inner optimizer's groups with the model's parameters."""
        return [_Group(self.optimizer, i, one["params"]) for i, one in enumerate(groups)]

    @property
    def param_groups(self) -> list[Any]:
        """The groups, whose ``lr`` and other options schedulers change: the inner optimizer's.

        Their parameters are the model's.
        """
        return self._groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        if groups:  # PyTorch's constructor begins with none
            raise UnsupportedError("param_groups: change the options of those that there are")

    @property
    def state(self) -> Any:
        """The inner optimizer's states, of this rank's shards."""
        return self.optimizer.state

    @state.setter
    def state(self, state: Any) -> None:
        if state:
            raise UnsupportedError("state: load_state_dict takes up another one")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse: shards are cut when the optimizer is made.

        Raises:
            UnsupportedError: the group is none of those that it has

        """
        if not any(param_group is one for one in self.optimizer.param_groups):
            raise UnsupportedError("groups are given when the optimizer is made: make another one")

    # PyTorch's GradScaler then calls step on every rank, and sets these before; else it would leave
    # out the steps of ranks that found something infinite, for which the others wait.
    _step_supports_amp_scaling = True
    grad_scale: torch.Tensor | None
    found_inf: torch.Tensor

    def _skips(self) -> bool:
        """Whether a GradScaler found something infinite on any rank, so that all skip the step."""
        found = getattr(self, "found_inf", None)
        if found is None:
            return False
        scaled, infinite = self.grad_scale is not None, bool(found)
        seen = torch.tensor([scaled, infinite, not infinite], dtype=torch.int32)
        dist.all_reduce(seen, dist.ReduceOp.MAX, group=self._group)
        if not seen[0] and int(seen[1:].sum()) == 1:
            return infinite
        del self.grad_scale, self.found_inf  # which a scaler does after a step that raises nothing
        raise MismatchError(
            "GradScaler: gradients are scaled still, or infinite on some ranks alone: call unscale_"
            " before step, of torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
        )

    # torch.compile cannot trace channels. torch.compiler.disable would import it with this module.
    @_disable_dynamo
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduce gradients, run the optimizer on this rank's shard, and gather the weights.

        A parameter without a gradient counts as one of zeros: others may have it.

        Args:
            closure: called once before, with gradients enabled; it makes the gradients

        Returns:
            What the closure returned.

        Raises:
            StateError: parameters are not what was gathered, but loaded for instance, and the step
                would undo that, or lie elsewhere than parameters_as_bucket_view put them; the other
                ranks meet an error, too. What bypasses autograd's counters (``.data``) is seen
                where verify_every asks for a look
            Error: what went wrong on any rank, on every rank; weights are as before where gradients
                failed, else not usable: load a checkpoint
            BaseMismatchError: verify_every, and replicas differ; or parameters_as_bucket_view, and
                others wrote to parameters past the counters: this step met it or, where the shard
                is another rank's, the next one. The weights are not usable
            MismatchError: called by a GradScaler whose ranks do not share what they find

        """
        if self._skips():
            return None
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        changed = self._changed()
        if changed:
            # The others are in the sum: it fails on every rank.
            with contextlib.suppress(Error):
                self._sum.run(None, None, step=self._steps)
            undo = ", and this one would undo what was written to them"
            raise StateError(f"{changed}{undo if self._bucket is None else ''}: {_LOAD}")
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        sums = self._sum.run(grads, self._gradient, scale=self._scale, step=self._steps)
        if self._max_norm is not None:
            self.norm = self._limit(self._max_norm)
        for part, gradient in self._parts:
            part.grad = gradient
        try:
            self.optimizer.step()
        except BaseException:
            # The others are in the gather: it fails on every rank.
            with contextlib.suppress(Error):
                self._gather.run(None, None, step=self._steps + 1)
            raise
        finally:
            for part, _ in self._parts:
                part.grad = None  # what looks for gradients finds those of the model alone
        try:
            self.reports = {"gradients": sums, "weights": self._move()}
        except BaseMismatchError as error:
            if self._bucket is None:
                raise
            raise BaseMismatchError(
                f"{error.text}: with parameters_as_bucket_view nobody else writes to parameters"
                f" between steps (.data, views of them): {_LOAD}",
                status=error.status,
            ) from error
        self._steps += 1
        if self._verify_every and self._steps % self._verify_every == 0:
            self.verify()
        return result

    def _limit(self, most: float) -> float:
        """Scale the reduced gradients down to a norm where theirs is larger; return theirs."""
        squares = torch.linalg.vector_norm(self._gradient, dtype=torch.float64).square()
        dist.all_reduce(squares, group=self._group)  # of all shards
        norm = float(squares.sqrt())
        share = most / (norm + 1e-6)
        if not share >= 1:  # NaN, too, which all elements become then
            self._gradient.mul_(share)
        return norm

    def _move(self, key_frame: bool = False) -> Report:
        """Gather the shards into every rank's parameters. Its steps are one ahead of the sums'."""
        step = 0 if key_frame else self._steps + 1
        with torch.no_grad():
            views = self._bucket is not None
            outputs = None if views else [p.detach() for p in self._parameters]
            report = self._gather.run(self._weights, outputs, step=step, key_frame=key_frame)
        self._count_writes()
        return report

    def _count_writes(self) -> None:
        """Let autograd know that parameters have changed: graphs made before know other values."""
        for p in self._parameters:
            torch.autograd.graph.increment_version(p)
        self._versions = self._seen()

    def _seen(self) -> list[tuple[int, int]]:
        """Return what changes where others write to parameters, or replace their memory."""
        return [(p._version, p.data_ptr()) for p in self._parameters]

    def _bind(self, bucket: torch.Tensor, step: int) -> None:
        """Let the channel gather into the bucket, where that lies now, from a step on."""
        self._gather.bind_base(bucket, step)
        self._bound = bucket.data_ptr()

    def _attach(self) -> None:
        """Make the parameters views of the bucket."""
        for p, view in zip(self._parameters, self._bucket_views, strict=True):
            p.data = view
        self._count_writes()

    def _changed(self) -> str:
        """Return the difference where counters have moved or verify_every looks, else ""."""
        look = self._verify_every and (self._steps + 1) % self._verify_every == 0
        seen = self._seen()
        if seen == self._versions and not look:
            return ""
        try:
            wrong = self._difference()
        except StateError:  # after a step that failed, which the gather says
            return ""
        except Exception:  # of several dtypes or devices now
            return _WRITTEN
        if not wrong:
            self._versions = seen
        return wrong

    def _difference(self) -> str:
        """Return how this rank's parameters differ from what it gathered; "" where they do not.

        Raises:
            StateError: a step that failed left nothing that is whole

        """
        if self._bucket is None:
            whole = self._gather.get_base(dtype=self._parameters[0].dtype)
            own = torch.cat([p.detach().flatten() for p in self._parameters])
            same = torch.equal(own.view(torch.uint8), whole.view(torch.uint8))
            return "" if same else _WRITTEN
        if self._bucket.data_ptr() != self._bound:
            return "the parameters lie in other memory than was gathered into (share_memory)"
        away = [
            i
            for i, (p, view) in enumerate(zip(self._parameters, self._bucket_views, strict=True))
            if _place_of(p) != _place_of(view)
        ]
        if away:
            return (
                f"parameters {away} lie no longer where parameters_as_bucket_view put them (.data"
                " was replaced)"
            )
        try:
            self._gather.verify_base()
        except BaseMismatchError:
            return _WRITTEN
        return ""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the model's parameters."""
        for p in self._parameters:
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.zero_()

    def verify(self) -> None:
        """Compare replicas: this rank's parameters with what it gathered, and ranks by hash.

        Raises:
            BaseMismatchError: they differ; the text names the ranks
            StateError: a step that failed left nothing that is whole on this rank

        """
        wrong, number, failed = "", 0, None
        try:
            wrong = self._difference()
            number = 0 if wrong else self._gather.base_hash()
        except Exception as error:  # which the other ranks have to hear of
            wrong, failed = f"{error}", error
        hashes: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(hashes, (wrong, number), group=self._group)
        if failed is not None:
            raise failed
        changed = [r for r, (text, _) in enumerate(hashes) if text]
        other = [r for r, (_, number) in enumerate(hashes) if number != hashes[0][1]]
        if changed:
            raise BaseMismatchError(f"ranks {changed}: {hashes[changed[0]][0]}")
        if other:
            raise BaseMismatchError(f"ranks {other} have other weights than rank 0")

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's states, weights and channels: each rank saves its own.

        It is ``{"rank 3": (parts,)}``, so that torch.distributed.checkpoint saves that of every
        rank. All of it is copied: later steps do not change it.

        Raises:
            StateError: a step failed before; or parameters_as_bucket_view, and others wrote to the
                parameters, which are what is saved

        """
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)
        state = self._save()
        for after in self._optimizer_state_dict_post_hooks.values():
            changed = after(self, state)
            if changed is not None:
                state = changed
        return state

    def _save(self) -> dict[str, Any]:
        wrong = "" if self._bucket is None else self._difference()
        if wrong:
            raise StateError(f"{wrong}: {_LOAD}")
        return _State(
            {
                **self._place,
                "parameters_as_bucket_view": self._bucket is not None,
                "steps": self._steps,
                "optimizer": copy.deepcopy(self.optimizer.state_dict()),
                "weights": self._weights.clone(),
                "gradients": self._sum.save(),
                "replica": self._gather.save(),
            }
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what this rank's :meth:`state_dict` returned, among as many ranks.

        The model's parameters become the replica that was saved, wherever their memory lies now;
        with parameters_as_bucket_view, views of the flat tensor again. What was given stays as it
        is. On failure nothing changed.

        Raises:
            ArgumentError: a key is missing, or the state is of another rank or number of ranks, of
                other parameters or another optimizer, or with another parameters_as_bucket_view
            FrameError: the bytes are not of such channels

        """
        if not isinstance(state_dict, dict):
            raise ArgumentError(f"state: expected a dict, found a {type(state_dict).__name__}")
        state = dict(state_dict)
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            changed = before(self, state)
            if changed is not None:
                state = changed
        self._take(_group.parts_of(state))
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def _take(self, state: dict[str, Any]) -> None:
        missing = {"steps", "optimizer", "weights", "gradients", "replica", *self._place}
        missing -= set(state)
        if missing:
            text = f"state: found no {', '.join(sorted(missing))}"
            raise ArgumentError(f"{text}: {_OWN}" if "param_groups" in state else text)
        for name, expected in self._place.items():
            if state[name] != expected:
                raise ArgumentError(
                    f"state: found {name} {state[name]}, expected {expected}: each rank loads what"
                    " it saved itself, among as many ranks and of as many elements"
                )
        views = state.get("parameters_as_bucket_view", False)  # which is not in older ones
        if views != (self._bucket is not None):
            raise ArgumentError(
                f"state: found parameters_as_bucket_view={views}, expected {not views}: make the"
                " optimizer as the one that was saved"
            )
        weights = state["weights"]
        if not isinstance(weights, torch.Tensor):
            raise ArgumentError(f"state: expected weights, found a {type(weights).__name__}")
        if weights.shape != self._weights.shape or weights.dtype != self._weights.dtype:
            raise ArgumentError(
                f"state: found weights {list(weights.shape)} of {weights.dtype}, expected"
                f" {list(self._weights.shape)} of {self._weights.dtype}"
            )
        before = copy.deepcopy(self.optimizer.state_dict()), self._sum.save()
        try:
            self._load(state)
        except Exception as error:
            self.optimizer.load_state_dict(before[0])
            self._sum.load(before[1])
            if isinstance(error, Error):
                raise
            raise ArgumentError(f"state: {error}") from error

    def _load(self, state: dict[str, Any]) -> None:
        steps = int(state["steps"])
        if steps < 0:
            raise ArgumentError(f"state: found steps {steps}, expected 0 or more")
        # Optimizers go on with the tensors that they are given.
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self._sum.load(state["gradients"])
        if self._bucket is not None and self._bucket.data_ptr() != self._bound:
            self._bind(self._bucket, self._steps + 1)
        self._gather.load(state["replica"])  # the last that may refuse: it is then as before
        self._weights.copy_(state["weights"])
        self._steps = steps
        if self._bucket is not None:
            self._attach()
            return
        whole = self._gather.get_base(dtype=self._parameters[0].dtype)
        parts = torch.split(whole, [p.numel() for p in self._parameters])
        with torch.no_grad():
            for p, part in zip(self._parameters, parts, strict=True):
                p.copy_(part.view_as(p))
        self._versions = self._seen()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the attributes would speak on the same channels.
        raise TypeError("optimizers with channels are not copied or pickled: state_dict() is")


def _place_of(x: torch.Tensor) -> tuple[Any, ...]:
    """Return what two tensors have in common where they are one."""
    return x.data_ptr(), x.dtype, x.shape, x.stride()


def _settings(optimizer: torch.optim.Optimizer) -> str:
    """Return what shards must have in common: the optimizer's name, and numbers of its groups."""
    simple = (bool, int, float, str, tuple, type(None))
    groups = [
        {name: value for name, value in sorted(one.items()) if isinstance(value, simple)}
        for one in optimizer.param_groups
    ]
    return f"{type(optimizer).__name__} of {groups}"


def _check_options(
    op: str,
    max_norm: float | None,
    verify_every: int,
    parameters_as_bucket_view: bool,
    optimizer: Any,
    weights: str,
) -> None:
    """Raise unless they are what :class:`Sharded` takes.

    Raises:
        ArgumentError, UnsupportedError: one is not, or they do not go together

    """
    if op not in ("avg", "sum"):
        raise ArgumentError(f"op: found {op!r}, expected 'avg' or 'sum'")
    if max_norm is not None and not (isinstance(max_norm, Real) and max_norm > 0):
        raise ArgumentError(f"max_norm: found {max_norm!r}, expected a number above 0, or None")
    if not hasattr(verify_every, "__index__") or verify_every < 0:
        raise ArgumentError(f"verify_every: found {verify_every!r}, expected 0 or more")
    if not isinstance(parameters_as_bucket_view, bool):
        raise ArgumentError(
            f"parameters_as_bucket_view: found {parameters_as_bucket_view!r}, expected True or"
            " False"
        )
    if not callable(optimizer):
        raise ArgumentError(
            f"optimizer: expected a class, torch.optim.AdamW for instance, found {optimizer!r}"
        )
    if parameters_as_bucket_view and "base_hash=off" in check_spec(weights):
        raise UnsupportedError(
            "weights: parameters_as_bucket_view knows by the hash of what was gathered whether"
            " others wrote to it: leave base_hash=off out"
        )


def _check_parameters(parameters: list[Any]) -> None:
    """Raise unless they are what :class:`Sharded` takes, of one dtype.

    Raises:
        ArgumentError, DtypeError, UnsupportedError: they are none of these

    """
    for i, p in enumerate(parameters):
        if not isinstance(p, torch.Tensor):
            raise ArgumentError(
                f"parameters[{i}]: expected a tensor, found a {type(p).__name__}: give"
                " model.parameters(), or groups of them"
            )
    if len({id(p) for p in parameters}) < len(parameters):
        raise ArgumentError("parameters: one is there twice")
    if not sum(p.numel() for p in parameters):
        raise ArgumentError("parameters: found none")
    for i, p in enumerate(parameters):
        if not p.requires_grad or not p.is_leaf:
            raise ArgumentError(f"parameters[{i}]: expected a leaf with requires_grad")
        if p.device.type == "cpu" and not p.is_contiguous():
            raise UnsupportedError(
                f"parameters[{i}]: expected a contiguous tensor, found strides {p.stride()}:"
                " set p.data = p.data.contiguous() before the optimizer is made"
            )
        _group.check(p, f"parameters[{i}]")
    dtype = parameters[0].dtype
    for i, p in enumerate(parameters):
        if p.dtype != dtype:
            raise DtypeError(
                f"parameters[{i}]: found {p.dtype}, and {dtype} before: make one optimizer for"
                " each dtype"
            )


def _check_apart(parameters: list[torch.Tensor]) -> None:
    """Raise where contiguous tensors share memory.

    Raises:
        UnsupportedError: two of them do

    """
    lies = sorted((p.data_ptr(), p.nbytes, i) for i, p in enumerate(parameters) if p.numel())
    end, before = 0, 0
    for first, length, i in lies:
        if first < end:
            raise UnsupportedError(
                f"parameters[{max(i, before)}]: shares memory with parameters[{min(i, before)}]:"
                " parameters_as_bucket_view gives each its own, so tie modules by one Parameter"
                " that both have, or leave the option out"
            )
        end, before = first + length, i


def _listed(parameters: Any, what: str, single: bool = False) -> list[Any]:
    """Return a list of what is iterated in one order on every rank.

    Raises:
        ArgumentError: it is no such thing

    """
    if single and isinstance(parameters, torch.Tensor):
        return [parameters]
    if isinstance(parameters, (set, frozenset)):
        raise ArgumentError(f"{what}: found a set, whose order differs between ranks: give a list")
    if isinstance(parameters, (torch.Tensor, dict, str)) or not isinstance(parameters, Iterable):
        raise ArgumentError(
            f"{what}: expected a list, model.parameters() for instance, found a"
            f" {type(parameters).__name__}"
        )
    return list(parameters)


def _groups(parameters: Any) -> list[dict[str, Any]]:
    """Return copies of groups, or one of parameters, whose parameters are lists.

    Raises:
        ArgumentError: they are none of these

    """
    given = _listed(parameters, "parameters")
    if not given or not isinstance(given[0], dict):
        return [{"params": given}]
    groups = []
    for i, one in enumerate(given):
        if not isinstance(one, dict):
            raise ArgumentError(
                f"parameters[{i}]: expected a group as before, found a {type(one).__name__}"
            )
        if "params" not in one:
            raise ArgumentError(
                f"parameters[{i}]: found a group without 'params', expected its parameters there"
            )
        listed = _listed(one["params"], f"parameters[{i}]['params']", single=True)
        groups.append({**one, "params": listed})
    return groups
