"""The communication hook for models in the memory of a CUDA device: frames over NCCL.

SPDX-License-Identifier: Apache-2.0

:func:`pith.torch.ddp.register` takes it where a model's parameters are on a device. Each bucket is
one all-reduce in two hops: every rank encodes its gradients in as many slots as there are ranks,
and sends each to the rank that owns it; the owner sums the frames in f32 and encodes the sum, in
one kernel; the sums are gathered, and every rank decodes the same bytes, so that replicas stay
equal bit for bit. Frames are exchanged by the process group itself.

All of it is put on a CUDA stream of its own, so that it goes on beside backward, and nothing waits
for the device. What is wrong with a frame is known there only: the bucket is NaN then, on every
rank that cannot read a frame or its sum, and the next step, or :meth:`State.check`, raises why.
"""

# Not postponed: DistributedDataParallel looks at the annotations of hooks.

import importlib
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from ..errors import ArgumentError, StateError, UnsupportedError, from_status
from ..frames import check_spec
from ..plan import Plan
from ..stream import Stream
from . import _group

__all__ = ["State", "hook", "register"]


class _Bucket:
    """Plans and streams of a bucket, and whose gradients it carries."""

    def __init__(
        self, names: tuple[str, ...], counts: tuple[int, ...], plans: tuple[Plan, Plan]
    ) -> None:
        self.names, self.plans = names, plans
        self.pieces, first = {}, 0
        for name, count in zip(names, counts, strict=True):
            self.pieces[name] = (first, count)
            first += count
        self.streams: list[Any] = []  # of the two hops
        self.last, self.next = -1, 0  # the step of the last call, and of the streams' next frames


def _room(stream: Any, count: int) -> Any:
    """Return room for frames: what is not written is no frame, so that nobody reads an old one."""
    room = stream._room(count, stream.plan.plan.sizes.slot_bytes)
    room.frames[:, :8].zero_()
    return room


class State:
    """What the hook remembers: streams for each bucket, and what encoding has lost.

    Collective: every rank makes one, with the same arguments. DDP rebuilds its buckets after the
    first step; what encoding has lost belongs to parameters and moves along.

    Args:
        model: DistributedDataParallel, whose parameters' names are those of :meth:`state_dict`
        spec: of the frames to the owners, of codec grad (or raw, with ``exempt=None``); with
            ``ef=full`` it has error feedback: 8 bytes for each gradient element
        gather: of the summed gradients on their way back; None: as ``spec``
        op: ``"avg"`` or ``"sum"`` over the ranks
        exempt: how gradients of parameters with one dimension or none (biases, norms) travel:
            ``"16"`` bits, ``"exact"``, or None: as the others
        seed: of random bits

    Raises:
        SpecError: a spec does not parse
        UnsupportedError: it has no kernels for devices, or this build has none
        ArgumentError: op or exempt is none of these; or ``gather`` has error feedback and ``spec``
            has not, to which it moves when buckets are rebuilt

    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        spec: str = "grad:preset=intra",
        gather: str | None = None,
        op: str = "avg",
        exempt: str | None = "16",
        seed: int = 0,
    ) -> None:
        if op not in ("avg", "sum"):
            raise ArgumentError(f"op: found {op!r}, expected 'avg' or 'sum'")
        _group.exempt_ranges([], exempt)
        self._specs = (spec, spec if gather is None else gather)
        for one in self._specs:
            codec = check_spec(one).partition(":")[0]
            if codec not in ("grad", "raw"):
                raise UnsupportedError(
                    f"spec: found codec {codec}, expected grad or raw, whose frames are summed on"
                    " a device"
                )
        feedback = [_group.has_feedback(one) for one in self._specs]
        if feedback[1] and not feedback[0]:
            raise ArgumentError(
                f"spec: found no error feedback, and {self._specs[1]!r} has it: add ef=full, since"
                " what is lost moves to the first hop when buckets are rebuilt"
            )
        self._group = model.process_group if isinstance(model, DistributedDataParallel) else None
        self._rank, self._ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
        if self._rank < 0:
            raise ArgumentError("group: this process is not one of its ranks")
        # Attributes of modules are looked up late: the library for devices loads here.
        self._cuda = importlib.import_module("pith.cuda")
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._parameters = dict(model.named_parameters())
        self._scale = 1.0 / self._ranks if op == "avg" else 1.0
        self._exempt, self._seed = exempt, seed
        self._buckets: list[_Bucket] = []
        self._residuals: dict[str, torch.Tensor] = {}  # of parameters that have no bucket now
        self._own: Any = None  # the CUDA stream that calls are put on
        self._seen: list[tuple[torch.Tensor, Any]] = []  # statuses on the host, and when they are
        self._step = -1

    # ---- A step ----

    def _reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        index, buffer, parameters = bucket.index(), bucket.buffer(), bucket.parameters()
        if index == 0:
            self._step += 1
            self._raise_seen(wait=False)
        names = tuple(self._names[id(p)] for p in parameters)
        counts = tuple(p.numel() for p in parameters)
        future: torch.futures.Future[torch.Tensor]
        if buffer.is_cuda:
            if self._own is None:
                self._own = torch.cuda.Stream(buffer.device)  # type: ignore[no-untyped-call]
            self._own.wait_stream(torch.cuda.current_stream(buffer.device))
            future = torch.futures.Future(devices=[buffer.device])
        else:
            future = torch.futures.Future()
        with torch.cuda.stream(self._own) if buffer.is_cuda else nullcontext():
            if buffer.numel():
                self._run(self._bucket(index, names, counts, buffer), buffer)
            # Of the work on the stream that is current now, for which whoever waits will wait.
            future.set_result(buffer)
        return future

    def _run(self, bucket: _Bucket, buffer: torch.Tensor) -> None:
        """Put the all-reduce of a bucket on the current CUDA stream."""
        send, back = bucket.streams
        own = [self._rank]
        made = send.encode(buffer, out=_room(send, self._ranks))
        came = torch.empty_like(made.frames)
        self._exchange(came, made.frames)
        sums = send.reduce_encode(
            came, back, slots=own, to_slots=own, scale=self._scale, out=_room(back, 1)
        )
        all_sums = sums.frames.new_empty((self._ranks, sums.frames.shape[1]))
        self._gather(all_sums, sums.frames)
        status = torch.cat([made.status, sums.status, back.decode(all_sums, buffer)])
        buffer.masked_fill_((status != 0).any(), float("nan"))
        bucket.last = self._step
        bucket.next += 1
        self._see(status)

    # gloo exchanges what is in the memory of the CPU.
    def _over_gloo(self, x: torch.Tensor) -> bool:
        return x.is_cuda and dist.get_backend(self._group) == "gloo"

    def _exchange(self, out: torch.Tensor, x: torch.Tensor) -> None:
        if self._over_gloo(x):
            came = torch.empty_like(x, device="cpu")
            dist.all_to_all_single(came, x.cpu(), group=self._group)
            out.copy_(came)
        else:
            dist.all_to_all_single(out, x, group=self._group)

    def _gather(self, out: torch.Tensor, x: torch.Tensor) -> None:
        if self._over_gloo(x):
            came = torch.empty_like(out, device="cpu")
            dist.all_gather_into_tensor(came, x.cpu(), group=self._group)
            out.copy_(came)
        else:
            dist.all_gather_into_tensor(out, x, group=self._group)

    # ---- What was wrong with frames ----

    def _see(self, status: torch.Tensor) -> None:
        """Copy statuses to the host, where they are looked at later."""
        if not status.is_cuda:
            self._seen.append((status, None))
            return
        there = torch.empty_like(status, device="cpu", pin_memory=True)
        there.copy_(status, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        self._seen.append((there, event))

    def _raise_seen(self, *, wait: bool) -> None:
        later = []
        for status, event in self._seen:
            if event is not None and wait:
                event.synchronize()
            if event is not None and not event.query():
                later.append((status, event))
                continue
            for number in status.tolist():
                if number:
                    self._seen = []
                    raise from_status(number)
        self._seen = later

    def check(self) -> None:
        """Wait for the work of the last steps, and raise what was wrong with a frame of theirs.

        Raises:
            Error: of the class that a call on the CPU raises; the gradients of that step are NaN

        """
        self._raise_seen(wait=True)

    # ---- Buckets ----

    def _bucket(
        self, index: int, names: tuple[str, ...], counts: tuple[int, ...], buffer: torch.Tensor
    ) -> _Bucket:
        """Return a bucket, with new streams when it is of other parameters than before."""
        for bucket in self._buckets:
            if bucket.names == names:
                return bucket
        for bucket in [one for one in self._buckets if set(one.names) & set(names)]:
            self._keep(bucket)
            self._buckets.remove(bucket)
        exempt = _group.exempt_ranges(
            zip(counts, map(self._is_exempt, names), strict=True), self._exempt
        )
        plans = [
            Plan(spec, shape=sum(counts), dtype=dtype, slots=self._ranks, exempt=exempt)
            for spec, dtype in zip(self._specs, (buffer.dtype, torch.float32), strict=True)
        ]
        self._agree([plan.fingerprint for plan in plans])
        bucket = _Bucket(names, counts, (plans[0], plans[1]))
        bucket.next = self._step
        numbers = index * 2 * self._ranks + self._rank
        for plan, number in zip(plans, (numbers, numbers + self._ranks), strict=True):
            device = self._cuda.DevicePlan(plan, buffer.device)
            bucket.streams.append(
                self._cuda.DeviceStream(
                    device, seed=self._seed, rng_stream=number % 2**32, step=self._step
                )
            )
        self._buckets.append(bucket)
        self._give(bucket)
        return bucket

    def _agree(self, mine: list[int]) -> None:
        """Raise on every rank unless all have the same plans."""
        found: list[Any] = [None] * self._ranks
        dist.all_gather_object(found, mine, group=self._group)
        for rank, theirs in enumerate(found):
            if theirs != found[0]:
                raise ArgumentError(
                    f"rank {rank} has another spec, exempt or model than rank 0: every rank makes"
                    " a State with the same arguments"
                )

    def _is_exempt(self, name: str) -> bool:
        return self._exempt is not None and self._parameters[name].dim() <= 1

    # ---- What encoding has lost ----

    def _lost(self, bucket: _Bucket) -> torch.Tensor | None:
        """Return the residual of a bucket; what the sums of this rank's slot lack is in it."""
        if not _group.has_feedback(self._specs[0]):
            return None
        host = Stream(bucket.plans[0])
        bucket.streams[0].save(host)
        lost = torch.empty(bucket.plans[0].count, dtype=torch.float32, device="cpu")
        host.get_residual(lost)
        if _group.has_feedback(self._specs[1]):
            host = Stream(bucket.plans[1])
            bucket.streams[1].save(host)
            first, count = bucket.plans[1].slot(self._rank)
            own = torch.empty(count, dtype=torch.float32, device="cpu")
            host.get_residual(own, first=first)
            lost[first : first + count] += own / self._scale
        return lost

    def _keep(self, bucket: _Bucket) -> None:
        lost = self._lost(bucket)
        for name, (first, count) in bucket.pieces.items():
            if lost is not None and not self._is_exempt(name):
                self._residuals[name] = lost[first : first + count].clone()

    def _give(self, bucket: _Bucket) -> None:
        """Put what was lost of a bucket's parameters into its streams."""
        names = [name for name in bucket.names if name in self._residuals]
        if not names:
            return
        host = Stream(bucket.plans[0])
        bucket.streams[0].save(host)
        for name in names:
            try:
                host.set_residual(self._residuals[name], first=bucket.pieces[name][0])
            except StateError:  # no error feedback
                return
            del self._residuals[name]
        bucket.streams[0].load(host)

    def rollback(self) -> None:
        """Take back what the last step did to error feedback.

        For steps that are thrown away, for instance because a gradient overflowed. Every rank does
        so, or none.
        """
        for bucket in self._buckets:
            if bucket.last != self._step:
                continue
            bucket.last, bucket.next = -1, bucket.next - 1
            for stream in bucket.streams:
                stream.rollback(bucket.next)

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's step and what its encoding has lost, by parameter: on the CPU.

        It waits for the device. Each rank saves its own; :class:`pith.torch.ddp.State` loads it,
        too.
        """
        self.check()
        residuals = dict(self._residuals)
        for bucket in self._buckets:
            lost = self._lost(bucket)
            for name, (first, count) in bucket.pieces.items():
                if lost is not None and not self._is_exempt(name):
                    residuals[name] = lost[first : first + count].clone()
        return {"step": self._step, "residuals": residuals}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned, before or after the first step.

        Of parameters that it says nothing of, nothing was lost. Buckets are made again at the next
        step.

        Raises:
            ArgumentError: a key is missing, or a residual fits no parameter; nothing changed

        """
        residuals = _group.residuals_of(state, self._parameters)
        self._step = int(state["step"])
        self._residuals = residuals
        self._buckets = []

    def __repr__(self) -> str:
        return f"<pith.torch.device.State {self._specs[0]!r}, {len(self._buckets)} buckets>"


def hook(state: State, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Reduce a bucket: ``model.register_comm_hook(state, pith.torch.device.hook)``."""
    return state._reduce(bucket)


def register(model: DistributedDataParallel, **options: Any) -> State:
    """Make a :class:`State` for a model, with its options, and register the hook.

    Collective, once for a model, before the first backward.
    """
    state = State(model, **options)
    model.register_comm_hook(state, hook)
    return state
