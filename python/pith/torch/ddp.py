"""A communication hook for DistributedDataParallel: gradients travel as frames.

SPDX-License-Identifier: Apache-2.0

    model = DistributedDataParallel(net)
    state = pith.torch.ddp.register(model, spec="grad:preset=intra,ef=full")

Each bucket is one all-reduce of pith: its gradients are encoded, summed in f32 by the rank that
owns the piece, encoded again and decoded by every rank from the same bytes, so that replicas stay
equal bit for bit. That happens on a thread of its own, while backward goes on.

With ``kind=`` the largest gradients of a bucket travel alone, by a spec of codec ``topk``:

    state = pith.torch.ddp.register(model, kind="union", spec="topk:density=0.01,ef=full")
"""

# Not postponed: DistributedDataParallel looks at the annotations of hooks.

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from ..collective import Channel, Partitions, Report
from ..errors import ArgumentError, StateError
from . import _group

__all__ = ["State", "hook", "register"]


class _Bucket:
    """A channel and whose gradients it carries."""

    def __init__(
        self,
        names: tuple[str, ...],
        counts: tuple[int, ...],
        channel: Channel,
        partitions: Partitions | None,
    ) -> None:
        self.names, self.channel, self.partitions = names, channel, partitions
        self.step = -1  # the last one that ended well
        self.pieces, first = {}, 0
        for name, count in zip(names, counts, strict=True):
            self.pieces[name] = (first, count)
            first += count


class State:
    """What the hook remembers: a channel for each bucket, and what encoding has lost.

    Collective: every rank makes one, with the same arguments but ``threads``. DDP rebuilds its
    buckets after the first step; what encoding has lost belongs to parameters and moves along.

    Args:
        model: DistributedDataParallel, whose parameters' names are those of :meth:`state_dict`
        spec: of the frames inside nodes; with ``ef=full`` it has error feedback: 8 bytes for each
            gradient element. None: ``"grad:preset=intra"``, with a kind
            ``"topk:density=0.01,ef=full"``
        kind: None: all gradients travel. ``"gather"``: the largest of each rank, gathered;
            ``"union"``: those of all ranks at the union of what each chose; ``"oktopk"``: the
            largest of each rank by regions, whose owners choose again from the sums. The three are
            the sparse sums of :meth:`pith.collective.Communicator.channel`, which take no gather
            and no threshold; inter and exempt are not used
        partitions: of ``"union"``: None: every rank chooses from all of a bucket. ``"even"``: from
            a part of its own, which rotate (MiCRO), ``"moving"``: and move until ranks choose alike
            many (ExDyna), so that all ranks together choose the spec's share; with
            ``control=micro`` in the spec as published
        refresh: of ``"oktopk"``: steps from one exact threshold to the next; 0: 32
        inter: of those between nodes; None: one level
        gather: of the summed gradients on their way back; None: as the hop before
        op: ``"avg"`` or ``"sum"`` over the ranks
        exempt: how gradients of parameters with one dimension or none (biases, norms) travel:
            ``"16"`` bits, ``"exact"``, or None: as the others
        threshold: buckets of fewer elements travel uncompressed
        ranks_per_node: None: nodes are machines, by their names
        seed: of random bits
        timeout: seconds of a bucket's call, after which a rank that does not answer is an error
        threads: of encoding and decoding

    Raises:
        SpecError: a spec does not parse
        ArgumentError: op, exempt, kind or partitions is none of these; or a later hop has error
            feedback and the first has not, to which it moves when buckets are rebuilt

    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        spec: str | None = None,
        kind: str | None = None,
        partitions: str | None = None,
        refresh: int = 0,
        inter: str | None = "grad:preset=inter",
        gather: str | None = None,
        op: str = "avg",
        exempt: str | None = "16",
        threshold: int = 0,
        ranks_per_node: int | None = None,
        seed: int = 0,
        timeout: float | None = None,
        threads: int = 1,
    ) -> None:
        group = model.process_group if isinstance(model, DistributedDataParallel) else None
        # First, so that what is refused below is noticed by ranks that go on.
        self._ranks = _group.communicator(group, ranks_per_node=ranks_per_node, timeout=timeout)
        if op not in ("avg", "sum"):
            raise ArgumentError(f"op: found {op!r}, expected 'avg' or 'sum'")
        if kind not in (None, "gather", "union", "oktopk"):
            raise ArgumentError(f"kind: found {kind!r}, expected 'gather', 'union' or 'oktopk'")
        if partitions not in ((None, "even", "moving") if kind == "union" else (None,)):
            raise ArgumentError(
                f"partitions: found {partitions!r}, expected 'even' or 'moving', of kind='union'"
            )
        if spec is None:
            spec = "grad:preset=intra" if kind is None else "topk:density=0.01,ef=full"
        if kind is not None:
            inter = exempt = None
        _group.exempt_ranges([], exempt)
        later = [one for one in (inter, gather) if one is not None and _group.has_feedback(one)]
        if not _group.has_feedback(spec) and later:
            raise ArgumentError(
                f"spec: found no error feedback, and {later[0]!r} has it: add ef=full, since what"
                " is lost moves to the first hop when buckets are rebuilt"
            )
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._parameters = dict(model.named_parameters())
        self._scale = 1.0 / self._ranks.ranks if op == "avg" else 1.0
        self._exempt = exempt
        self._options: dict[str, Any] = {
            "inter": inter,
            "gather": gather,
            "threshold": threshold,
            "seed": seed,
            "threads": threads,
            "refresh": refresh,
        }
        self._spec = spec
        self._kind = "allreduce" if kind is None else f"sparse_{kind}"
        self._partitions = partitions
        self._buckets: list[_Bucket] = []
        self._residuals: dict[str, torch.Tensor] = {}  # of parameters that have no bucket now
        self._worker = ThreadPoolExecutor(1, "pith-ddp")  # calls end in the order of their start
        self._step = -1
        self.reports: dict[int, Report] = {}
        """By number of the bucket: what its call of the last step did."""
        self.chosen: dict[int, list[int]] = {}
        """By number of the bucket, with a kind: how many elements each rank chose in that call."""

    # ---- A step ----

    def _reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        index, buffer, parameters = bucket.index(), bucket.buffer(), bucket.parameters()
        if index == 0:
            self._step += 1
        step = self._step
        names = tuple(self._names[id(p)] for p in parameters)
        counts = tuple(p.numel() for p in parameters)
        future: torch.futures.Future[Any] = torch.futures.Future()

        # What channels do not take, memory of a device for instance, fails the call on every rank.
        def call() -> None:
            try:
                if index == 0:
                    self.reports.clear()
                    self.chosen.clear()
                found = self._bucket(index, names, counts, buffer.dtype)
                self.reports[index] = self._run(found, buffer, step)
                if self._kind != "allreduce":
                    self.chosen[index] = found.channel.chosen()
            except BaseException as error:
                future.set_result(error)
            else:
                future.set_result(buffer)

        self._worker.submit(call)
        return future.then(_unwrap)

    def _run(self, bucket: _Bucket, buffer: torch.Tensor, step: int) -> Report:
        parts, choices = bucket.partitions, None
        if parts is not None:
            choices = [parts.choice(self._ranks.rank)]
        report = bucket.channel.run(buffer, buffer, scale=self._scale, step=step, choices=choices)
        if parts is not None:
            parts.update(bucket.channel.chosen())
        bucket.step = step
        return report

    def _bucket(
        self, index: int, names: tuple[str, ...], counts: tuple[int, ...], dtype: torch.dtype
    ) -> _Bucket:
        """Return a bucket, with a new channel when it is of other parameters than before."""
        for bucket in self._buckets:
            if bucket.names == names:
                return bucket
        cut = [bucket for bucket in self._buckets if set(bucket.names) & set(names)]
        for bucket in cut:
            self._keep(bucket)
            self._buckets.remove(bucket)
            bucket.channel.close()
        made = self._ranks.channel(
            self._kind,
            self._spec,
            count=sum(counts),
            dtype=dtype,
            exempt=_group.exempt_ranges(
                zip(counts, map(self._is_exempt, names), strict=True), self._exempt
            ),
            rng_stream=index * 3 * self._ranks.ranks % 2**32,
            **self._options,
        )
        parts = None
        if self._partitions is not None:
            moving = self._partitions == "moving"
            parts = Partitions(sum(counts), self._ranks.ranks, moving=moving)
        bucket = _Bucket(names, counts, made, parts)
        self._buckets.append(bucket)
        for name in names:
            self._give(bucket, name)
        return bucket

    def _is_exempt(self, name: str) -> bool:
        return self._exempt is not None and self._parameters[name].dim() <= 1

    # ---- What encoding has lost ----

    def _residual(self, bucket: _Bucket, name: str) -> torch.Tensor | None:
        first, count = bucket.pieces[name]
        if self._is_exempt(name):
            return None
        out = torch.empty(count, dtype=torch.float32, device="cpu")
        try:
            bucket.channel.get_residual(first, count, scale=self._scale, out=out)
        except StateError:  # no error feedback, or the bucket travels uncompressed
            return None
        return out

    def _keep(self, bucket: _Bucket) -> None:
        for name in bucket.names:
            lost = self._residual(bucket, name)
            if lost is not None:
                self._residuals[name] = lost

    def _give(self, bucket: _Bucket, name: str) -> None:
        if name not in self._residuals:
            return
        try:
            bucket.channel.set_residual(self._residuals[name], bucket.pieces[name][0])
        except StateError:  # the bucket travels uncompressed: kept for another one
            return
        del self._residuals[name]

    def rollback(self) -> None:
        """Take back what the last step did to error feedback.

        For steps that are thrown away, for instance because a gradient overflowed. Every rank does
        so, or none.
        """
        self._wait()
        for bucket in self._buckets:
            bucket.channel.rollback(self._step)
            if bucket.partitions is not None and bucket.step == self._step:
                bucket.partitions.rollback()

    def _wait(self) -> None:
        self._worker.submit(lambda: None).result()

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's step and what its encoding has lost, by parameter.

        Each rank saves its own; it holds whatever buckets, nodes or shards there are later.
        """
        self._wait()
        residuals = dict(self._residuals)
        for bucket in self._buckets:
            for name in bucket.names:
                lost = self._residual(bucket, name)
                if lost is not None:
                    residuals[name] = lost
        return {"step": self._step, "residuals": residuals}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned, before or after the first step.

        Of parameters that it says nothing of, nothing was lost.

        Raises:
            ArgumentError: a key is missing, or a residual fits no parameter; nothing changed

        """
        missing = {"step", "residuals"} - set(state)
        if missing:
            raise ArgumentError(f"state: found no {', '.join(sorted(missing))}")
        for name, lost in state["residuals"].items():
            if name not in self._parameters:
                raise ArgumentError(f"residuals: found {name!r}, which is no parameter")
            count = self._parameters[name].numel()
            if lost.numel() != count or not bool(torch.isfinite(lost).all()):
                raise ArgumentError(f"residuals: {name!r}: expected {count} finite elements")
        self._wait()
        self._step = int(state["step"])
        self._residuals = {
            name: lost.to("cpu", torch.float32, copy=True).flatten()
            for name, lost in state["residuals"].items()
        }
        for bucket in self._buckets:
            bucket.channel.reset()
            for name in bucket.names:
                self._give(bucket, name)

    def __repr__(self) -> str:
        return f"<pith.torch.ddp.State {self._spec!r}, {len(self._buckets)} buckets>"


def _unwrap(future: torch.futures.Future[Any]) -> torch.Tensor:
    result = future.value()
    if isinstance(result, BaseException):
        raise result
    assert isinstance(result, torch.Tensor)
    return result


def hook(state: State, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Reduce a bucket: ``model.register_comm_hook(state, pith.torch.ddp.hook)``.

    What goes wrong on any rank, a gradient that is not in the memory of the CPU for instance, is a
    RuntimeError of backward with the exception of pith in its text, on every rank.

    """
    return state._reduce(bucket)


def register(model: DistributedDataParallel, **options: Any) -> State:
    """Make a :class:`State` for a model, with its options, and register the hook.

    Collective, once for a model, before the first backward.
    """
    state = State(model, **options)
    model.register_comm_hook(state, hook)
    return state
