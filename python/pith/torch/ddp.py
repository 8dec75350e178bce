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
from decimal import Decimal
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from ..collective import Channel, Choice, Communicator, Deft, Partitions, Report
from ..errors import ArgumentError, StateError
from ..frames import check_spec
from . import _group, device
from ._squares import Means, Squares, check_kept

__all__ = ["State", "hook", "register"]


class _Layers:
    """The pieces of a bucket's parameters, and a channel that sums their norms over the ranks."""

    def __init__(self, counts: tuple[int, ...], ranks: Communicator) -> None:
        self.deft, self._ranks = Deft(counts, ranks.ranks), ranks.ranks
        count = len(self.deft.pieces)
        # Below the threshold nothing is encoded: each sum is one rank's, whose bytes all get.
        self.sums = ranks.channel(
            "allreduce", "grad", count=count, dtype=torch.float32, threshold=count + 1
        )

    def norms(self, channel: Channel, buffer: torch.Tensor, scale: float, step: int) -> list[float]:
        """Return the norms of each piece of residual plus gradient, summed over the ranks."""
        norms, failed = torch.empty(0), None
        try:
            x = torch.empty(buffer.numel(), dtype=torch.float32, device="cpu")
            channel.get_residual(scale=scale, out=x)
            x += buffer
            # The sum of so large norms is finite.
            most = torch.finfo(torch.float32).max / (2 * self._ranks)
            norms = torch.tensor([min(norm, most) for norm in self.deft.norms(x)])
        except Exception as error:  # the others are told: without norms the call fails everywhere
            failed = error
        try:
            self.sums.run(norms, norms, step=step)
        except Exception as error:
            raise failed or error from None
        return [float(norm) for norm in norms]


class _Bucket:
    """A channel and whose gradients it carries."""

    def __init__(
        self,
        names: tuple[str, ...],
        counts: tuple[int, ...],
        channel: Channel,
        partitions: Partitions | _Layers | None,
    ) -> None:
        self.names, self.counts = names, counts
        self.channel, self.partitions = channel, partitions
        self.squares: Squares | None = None
        self.step = -1  # the last one that ended well
        self.pieces = _group.pieces(names, counts)

    def close(self) -> None:
        self.channel.close()
        if isinstance(self.partitions, _Layers):
            self.partitions.sums.close()


class State:
    """What the hook remembers: a channel for each bucket, and what encoding has lost.

    Collective: every rank makes one, with the same arguments but ``threads``. DDP rebuilds its
    buckets after the first step; what encoding has lost belongs to parameters and moves along.

    Args:
        model: DistributedDataParallel, whose parameters' names are those of :meth:`state_dict`
        spec: of the frames inside nodes; with ``ef=full`` it has error feedback: 8 bytes for each
            gradient element. None: ``"grad:preset=intra"``, with a kind
            ``"topk:density=0.01,ef=full"``, for deft and leader with ``control=exact``
        kind: None: all gradients travel. ``"gather"``: the largest of each rank, gathered;
            ``"union"``: those of all ranks at the union of what each chose; ``"oktopk"``: the
            largest of each rank by regions, whose owners choose again from the sums. The three are
            the sparse sums of :meth:`pith.collective.Communicator.channel`, which take no gather
            and no threshold; inter and exempt are not used
        partitions: of ``"union"``: None: every rank chooses from all of a bucket. The others make
            all ranks together choose the spec's share. ``"even"``: each from a part of its own,
            which rotate (MiCRO), ``"moving"``: and move until ranks choose alike many (ExDyna);
            with ``control=micro`` in the spec as published. Both ask every rank for as many,
            however long its part is. ``"deft"``: each from parameters, or pieces of large ones, of
            its own, which rotate, and from each as much as its norm has of all (DEFT).
            ``"leader"``: one rank, which rotates, from all of a bucket (CLT-k). These two take
            specs of ``control=exact``
        refresh: of ``"oktopk"``: steps from one exact threshold to the next; 0: 32
        inter: of those between nodes, which are all where each has one rank. ``"auto"``: ``spec``
            where it is given, else 4 bits with searched scales; None: one level, of ``spec``
        gather: of the summed gradients on their way back; None: as the hop before
        op: ``"avg"`` or ``"sum"`` over the ranks
        exempt: how gradients of parameters with one dimension or none (biases, norms) travel:
            ``"16"`` bits, ``"exact"``, or None: as the others, which codecs but grad need
        threshold: buckets of fewer elements travel uncompressed
        normalize: None, or how much of itself the running mean of a gradient element's squares
            keeps at every step, 0.95 for instance: elements are divided by the roots of these means
            while they travel, so that each is rounded about as coarsely as it is large, and
            optimizers that divide by such roots themselves, as Adam does, see no noise that is
            larger than an element: for two bits, and for such optimizers alone, after a warm-up,
            without tables of rows that are rarely seen. 4 bytes for each gradient element. Takes no
            error feedback, which would be of other units at every step, and no kind
        ranks_per_node: None: nodes are machines, by their names
        seed: of random bits
        timeout: seconds of a bucket's call, after which a rank that does not answer is an error
        threads: of encoding and decoding

    Raises:
        SpecError: a spec does not parse
        DtypeError: a parameter that takes a gradient is not f32, bf16 or f16
        ArgumentError: op, exempt, kind or partitions is none of these; the codec is topk, and there
            is no kind; or a later hop has error feedback and the first has not, to which it moves
            when buckets are rebuilt
        UnsupportedError: without a kind: the frames of a spec have no fixed size

    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        spec: str | None = None,
        kind: str | None = None,
        partitions: str | None = None,
        refresh: int = 0,
        inter: str | None = _group.AUTO,
        gather: str | None = None,
        op: str = "avg",
        exempt: str | None = "16",
        threshold: int = 0,
        normalize: float | None = None,
        ranks_per_node: int | None = None,
        seed: int = 0,
        timeout: float | None = None,
        threads: int = 1,
    ) -> None:
        group = model.process_group if isinstance(model, DistributedDataParallel) else None
        self._ranks, (self._spec, inter, self._exempt) = _group.agree(
            lambda: _checked(
                model,
                spec,
                inter,
                exempt,
                kind=kind,
                partitions=partitions,
                gather=gather,
                op=op,
                normalize=normalize,
            ),
            group,
            ranks_per_node=ranks_per_node,
            timeout=timeout,
            alike={"normalize": normalize, "partitions": partitions},
        )
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._parameters = dict(model.named_parameters())
        self._scale = 1.0 / self._ranks.ranks if op == "avg" else 1.0
        self._options: dict[str, Any] = {
            "inter": inter,
            "gather": gather,
            "threshold": threshold,
            "seed": seed,
            "threads": threads,
            "refresh": refresh,
        }
        self._means = Means(normalize, self._parameters, self._is_exempt)
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
                    self._means.age()
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
        choices = self._choices(bucket, buffer, step)
        squares = bucket.squares if buffer.device.type == "cpu" else None
        if squares is not None:
            squares.divide(buffer)
        report = bucket.channel.run(buffer, buffer, scale=self._scale, step=step, choices=choices)
        if squares is not None:
            squares.multiply(buffer, self._means.share)
        if isinstance(bucket.partitions, Partitions):
            bucket.partitions.update(bucket.channel.chosen())
        bucket.step = step
        return report

    def _choices(self, bucket: _Bucket, buffer: torch.Tensor, step: int) -> list[Choice] | None:
        """Return from what this rank chooses: of deft and leader the step alone says who does."""
        rank, parts = self._ranks.rank, bucket.partitions
        if isinstance(parts, Partitions):
            # As many of every rank, however long its part is: rules that take their first threshold
            # from the number alone begin with one then. Where all are wanted 0, all of a part.
            k = bucket.channel.sparse_state().k
            k = 0 if k == buffer.numel() else k // self._ranks.ranks
            return [parts.choice(rank)._replace(k=k)]
        if isinstance(parts, _Layers):
            norms = parts.norms(bucket.channel, buffer, self._scale, step)
            return parts.deft.choices(norms, _share(self._spec, buffer.numel()), rank, step)
        if self._partitions == "leader":
            return [Choice() if rank == step % self._ranks.ranks else Choice(elements=0)]
        return None

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
            bucket.close()
        parts: Partitions | _Layers | None = None
        spec, pieces = self._spec, None
        if self._partitions in ("even", "moving"):
            parts = self._parts(counts)
        elif self._partitions == "deft" and any(counts):
            parts = _Layers(counts, self._ranks)
            spec, pieces = _whole(spec), parts.deft.pieces
        made = self._ranks.channel(
            self._kind,
            spec,
            count=sum(counts),
            dtype=dtype,
            exempt=_group.exempt_ranges(
                zip(counts, map(self._is_exempt, names), strict=True), self._exempt
            ),
            rng_stream=index * 3 * self._ranks.ranks % 2**32,
            pieces=pieces,
            **self._options,
        )
        bucket = _Bucket(names, counts, made, parts)
        if sum(counts) >= self._options["threshold"]:
            bucket.squares = self._means.squares(bucket.pieces, self._scale * self._ranks.ranks)
        self._buckets.append(bucket)
        for name in names:
            self._give(bucket, name)
        return bucket

    def _parts(self, counts: tuple[int, ...]) -> Partitions:
        """Return the parts of a bucket of so many elements as they are at first."""
        moving = self._partitions == "moving"
        return Partitions(sum(counts), self._ranks.ranks, moving=moving)

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
        self._means.keep(bucket)

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
        so, or none. Means of ``normalize`` stay as they are.
        """
        self._wait()
        for bucket in self._buckets:
            bucket.channel.rollback(self._step)
            if isinstance(bucket.partitions, Partitions) and bucket.step == self._step:
                bucket.partitions.rollback()

    def _wait(self) -> None:
        self._worker.submit(lambda: None).result()

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's step and what its encoding has lost, by parameter.

        With ``normalize`` the running means too, which are the same on every rank. The momentum
        and the threshold of a spec of codec topk, and where partitions are, are not in it: they
        begin anew when it is loaded.

        Each rank saves its own, ``{"rank 3": (parts,)}``, torch.distributed.checkpoint that of
        every rank; it holds whatever buckets, nodes or shards there are later.
        """
        self._wait()
        residuals = dict(self._residuals)
        for bucket in self._buckets:
            for name in bucket.names:
                lost = self._residual(bucket, name)
                if lost is not None:
                    residuals[name] = lost
        means = self._means.state(self._buckets)
        return _group.OwnState({"step": self._step, "residuals": residuals, **means})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned, before or after the first step.

        Of parameters that it says nothing of, nothing was lost. With ``normalize`` every rank takes
        up a state of one step, or none does: where means differ, replicas become different.

        Raises:
            ArgumentError: a key is missing, or a residual or mean fits no parameter; nothing
                changed

        """
        parts = _group.parts_of(state)
        residuals = _group.residuals_of(parts, self._parameters)
        means = self._means.check(parts)
        self._wait()
        self._step = int(parts["step"])
        self._residuals = residuals
        self._means.load(means, self._buckets)
        for bucket in self._buckets:
            bucket.channel.reset()
            if isinstance(bucket.partitions, Partitions):
                bucket.partitions = self._parts(bucket.counts)
            for name in bucket.names:
                self._give(bucket, name)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(_group.HOOKED)

    def __repr__(self) -> str:
        return f"<pith.torch.ddp.State {self._spec!r}, {len(self._buckets)} buckets>"


_PARTITIONS = ("even", "moving", "deft", "leader")


def _checked(
    model: torch.nn.Module,
    spec: str | None,
    inter: str | None,
    exempt: str | None,
    *,
    kind: str | None,
    partitions: str | None,
    gather: str | None,
    op: str,
    normalize: float | None,
) -> tuple[str, str | None, str | None]:
    """Return the specs and the exemption as buckets take them, with their defaults.

    Raises:
        As :class:`State`.

    """
    _group.check_gradients(model)
    if op not in ("avg", "sum"):
        raise ArgumentError(f"op: found {op!r}, expected 'avg' or 'sum'")
    if kind not in (None, "gather", "union", "oktopk"):
        raise ArgumentError(f"kind: found {kind!r}, expected 'gather', 'union' or 'oktopk'")
    if partitions is not None and (kind != "union" or partitions not in _PARTITIONS):
        raise ArgumentError(
            f"partitions: found {partitions!r}, expected {_PARTITIONS}, of kind='union'"
        )
    exact = partitions in ("deft", "leader")
    if spec is None and kind is not None:
        spec = "topk:density=0.01,ef=full" + ",control=exact" * exact
    spec, inter = _group.levels(spec, inter)
    check_spec(spec)
    if exact and _keys(spec).get("control") != "exact":
        raise ArgumentError(
            f"spec: found {spec!r}, and partitions={partitions!r} takes control=exact: of what"
            " a rank chooses from in turn it keeps no threshold"
        )
    if kind is not None:
        inter = exempt = None
    elif spec.split(":")[0] == "topk":
        raise ArgumentError(
            f"spec: found {spec!r}, expected another codec, as grad, or kind='gather', 'union'"
            " or 'oktopk' with it"
        )
    if kind is None:
        _group.check_sums(spec, inter, gather)
    _group.exempt_ranges([], exempt)
    later = [one for one in (inter, gather) if one is not None and _group.has_feedback(one)]
    if not _group.has_feedback(spec) and later:
        raise ArgumentError(
            f"spec: found no error feedback, and {later[0]!r} has it: add ef=full, since what"
            " is lost moves to the first hop when buckets are rebuilt"
        )
    if normalize is not None and kind is not None:
        raise ArgumentError(f"normalize: found {normalize}, and kind={kind!r} takes none")
    check_kept(normalize, spec)  # feedback of later hops is refused without that of the first
    return spec, inter, exempt


def _keys(spec: str) -> dict[str, str]:
    """Return the keys of a spec that are not at their defaults."""
    return dict(one.split("=", 1) for one in check_spec(spec).partition(":")[2].split(",") if one)


def _share(spec: str, count: int) -> int:
    """Return how many of so many elements a spec of codec topk chooses."""
    keys = _keys(spec)
    k = int(Decimal(keys["density"]) * count) if "density" in keys else int(keys["k"])
    return max(1, min(k, count))


def _whole(spec: str) -> str:
    """Return a spec without a limit of its own, for choices that say how many elements."""
    keys = {"density": "1", "block": "262144", **_keys(spec)}
    keys["density"] = "1"
    keys.pop("k", None)
    return "topk:" + ",".join(f"{key}={value}" for key, value in keys.items())


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
    _group.check_bucket(bucket)
    return state._reduce(bucket)


def register(model: DistributedDataParallel, **options: Any) -> State | device.State:
    """Make a :class:`State` for a model, with its options, and register the hook.

    Where the model's parameters are on a CUDA device it is a :class:`pith.torch.device.State`,
    whose frames stay on devices. Collective, once for a model, before the first backward.

    Raises:
        ArgumentError: the model is not wrapped in DistributedDataParallel; what State raises

    """
    if not isinstance(model, DistributedDataParallel):
        raise ArgumentError(
            f"model: expected a DistributedDataParallel, found a {type(model).__name__}"
        )
    if any(p.is_cuda for p in model.parameters()):
        return device.register(model, **options)
    state = State(model, **options)
    model.register_comm_hook(state, hook)
    return state
