"""The communication hook for models in the memory of CUDA devices: frames over NCCL.

SPDX-License-Identifier: Apache-2.0

:func:`pith.torch.ddp.register` takes it where a model's parameters are on a device. Each bucket is
one all-reduce in two hops: every rank encodes its gradients in as many slots as there are ranks,
and sends each to the rank that owns it; the owner sums the frames in f32 and encodes the sum, in
one kernel; the sums are gathered, and every rank decodes the same bytes, so that replicas stay
equal bit for bit. Frames are exchanged by the process group itself.

All of it is put on a CUDA stream of its own, so that it goes on beside backward; over NCCL nothing
waits for the device but the first bucket of a step, for the buckets of the step before. What is
wrong with a frame is known on the device only. Every rank learns of it with the sums: the bucket is
NaN then, and the next backward, or :meth:`State.check`, raises what it was.
"""

# Not postponed: DistributedDataParallel looks at the annotations of hooks.

import importlib
import time
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from ..errors import ArgumentError, Error, StateError, UnsupportedError, from_status
from ..frames import check_spec
from ..plan import Plan
from ..stream import Stream
from . import _group
from ._squares import Means, Squares, check_kept

__all__ = ["Report", "State", "hook", "register"]

# A row of frames begins so, and ends with whether its rank has found something wrong.
_HEAD, _TAIL = 8, 16


class Report(NamedTuple):
    """What a bucket's call did, as this rank saw it, in seconds of the device."""

    sent_bytes: int
    """To other ranks, in both hops."""
    encode_seconds: float
    """Gradients to frames; with ``normalize`` they are divided before."""
    exchange_seconds: float
    """Frames to the owners of their slots; it waits for ranks that come later."""
    recode_seconds: float
    """Sums of frames to frames."""
    gather_seconds: float
    """These frames to all ranks."""
    decode_seconds: float
    """Frames to sums; with ``normalize`` they are multiplied then."""
    total_seconds: float
    """From start to end."""


class _Clock:
    """When a call began and when each of its parts ended, in the order of a device's stream."""

    def __init__(self, place: torch.device) -> None:
        self._on_device = place.type == "cuda"
        self._marks: list[Any] = []
        self.mark()

    def mark(self) -> None:
        if not self._on_device:
            self._marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        self._marks.append(event)

    def seconds(self) -> list[float]:
        """Return what each part took, and the whole; wait until it has ended."""
        spans = [*pairwise(self._marks), (self._marks[0], self._marks[-1])]
        if not self._on_device:
            return [end - begin for begin, end in spans]
        self._marks[-1].synchronize()
        return [begin.elapsed_time(end) / 1000 for begin, end in spans]


class _Bucket:
    """Plans, streams and frames of a bucket, and whose gradients it carries."""

    def __init__(self, names: tuple[str, ...], counts: tuple[int, ...], place: torch.device):
        self.names, self.place = names, place
        self.pieces = _group.pieces(names, counts)
        self.squares: Squares | None = None
        # For each of the two hops: plan, stream, frames that are made and that come.
        self.plans: list[Plan] = []
        self.streams: list[Any] = []
        self.made: list[Any] = []
        self.came: list[torch.Tensor] = []
        self.last, self.next = -1, 0  # the step of the last call, and of the streams' next frames


class State:
    """What the hook remembers: streams for each bucket, and what encoding has lost.

    Collective: every rank makes one, with the same arguments, which are compared. DDP rebuilds its
    buckets after the first step; what encoding has lost belongs to parameters and moves along.

    Args:
        model: DistributedDataParallel, whose parameters' names are those of :meth:`state_dict`
        spec: of the frames to the owners, of codec grad (or raw, with ``exempt=None``); with
            ``ef=full`` it has error feedback: 8 bytes for each gradient element. None:
            ``"grad:preset=intra"``
        gather: of the summed gradients on their way back; None: as ``spec``
        op: ``"avg"`` or ``"sum"`` over the ranks
        exempt: how gradients of parameters with one dimension or none (biases, norms) travel:
            ``"16"`` bits, ``"exact"``, or None: as the others
        normalize: as that of :class:`pith.torch.ddp.State`; while a bucket is divided or
            multiplied, the device has copies of up to 2**24 of its elements beside the means
        seed: of random bits, another for each model of a process

    Raises:
        SpecError: a spec does not parse
        DtypeError: a parameter that takes a gradient is not f32, bf16 or f16
        UnsupportedError: it has no kernels for devices, or this build has none
        ArgumentError: op, exempt or normalize is none of these; ``gather`` has error feedback and
            ``spec`` has not, to which it moves when buckets are rebuilt; or another rank has other
            arguments

    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        spec: str | None = None,
        gather: str | None = None,
        op: str = "avg",
        exempt: str | None = "16",
        normalize: float | None = None,
        seed: int = 0,
    ) -> None:
        self._group = model.process_group if isinstance(model, DistributedDataParallel) else None
        self._rank, self._ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
        if self._rank < 0:
            raise ArgumentError("group: this process is not one of its ranks")
        spec = _group.INTRA if spec is None else spec
        self._specs = (spec, spec if gather is None else gather)
        self._exempt, self._seed = exempt, seed
        self._scale = 1.0 / self._ranks if op == "avg" else 1.0
        # The library for devices loads here.
        self._cuda = importlib.import_module("pith.cuda")
        failed: Error | None = None
        try:
            _group.check_gradients(model)
            self._check(op, normalize)
        except Error as error:  # the others are told
            failed = error
        self._agree([*self._specs, op, exempt, normalize, seed], failed)
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._parameters = dict(model.named_parameters())
        self._means = Means(normalize, self._parameters, self._is_exempt)
        self._buckets: list[_Bucket] = []
        self._count = 0  # of buckets so far
        self._residuals: dict[str, torch.Tensor] = {}  # of parameters that have no bucket now
        self._own: dict[torch.device, Any] = {}  # the CUDA stream that calls are put on
        # Statuses on the host, when they are there, and of what they are.
        self._seen: list[tuple[torch.Tensor, Any, str]] = []
        self._calls: dict[int, tuple[int, _Clock]] = {}  # of the last step: bytes sent, and when
        self._step = -1

    @property
    def reports(self) -> dict[int, Report]:
        """By number of the bucket: what its call of the last step did. It waits for the device."""
        return {
            index: Report(sent, *clock.seconds()) for index, (sent, clock) in self._calls.items()
        }

    def _check(self, op: str, normalize: float | None) -> None:
        """Raise what no bucket could be made with."""
        if op not in ("avg", "sum"):
            raise ArgumentError(f"op: found {op!r}, expected 'avg' or 'sum'")
        _group.exempt_ranges([], self._exempt)
        for one in self._specs:
            codec = check_spec(one).partition(":")[0]
            if codec not in ("grad", "raw") or (codec == "raw" and self._exempt is not None):
                raise UnsupportedError(
                    f"spec: found {one!r}, expected codec grad, or raw with exempt=None: on a"
                    " device the frames of no other are summed"
                )
        feedback = [_group.has_feedback(one) for one in self._specs]
        if feedback[1] and not feedback[0]:
            raise ArgumentError(
                f"spec: found no error feedback, and {self._specs[1]!r} has it: add ef=full, since"
                " what is lost moves to the first hop when buckets are rebuilt"
            )
        check_kept(normalize, self._specs[0])
        if why := self._cuda.available():
            raise UnsupportedError(f"no device: {why}")
        for one in self._specs:
            self._cuda.DevicePlan(Plan(one, shape=1, dtype="f32", slots=self._ranks))

    def _agree(self, mine: list[Any], failed: Error | None) -> None:
        """Raise on every rank where one has failed, or has something else than the others."""
        found = _group.gather(mine, failed, self._group)
        for rank, theirs in enumerate(found):
            if theirs != found[0]:
                raise ArgumentError(
                    f"rank {rank} has {theirs}, rank 0 {found[0]}: every rank makes a State with"
                    " the same arguments for the same model"
                )

    def _on(self, place: torch.device) -> Any:
        """Make the CUDA stream of this hook the current one, behind what was put on that before."""
        if place.type != "cuda":
            return nullcontext()
        if place not in self._own:
            self._own[place] = torch.cuda.Stream(place)  # type: ignore[no-untyped-call]
        self._own[place].wait_stream(torch.cuda.current_stream(place))
        return torch.cuda.stream(self._own[place])

    # ---- A step ----

    def _reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        index, buffer, parameters = bucket.index(), bucket.buffer(), bucket.parameters()
        found: BaseException | None = None
        if index == 0:
            self._step += 1
            self._means.age()
            self._calls.clear()
            found = self._wrong()
        names = tuple(self._names[id(p)] for p in parameters)
        counts = tuple(p.numel() for p in parameters)
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future(
            devices=[buffer.device] if buffer.is_cuda else None
        )
        with self._on(buffer.device):
            if buffer.is_cuda:  # whatever becomes of this backward
                buffer.record_stream(torch.cuda.current_stream(buffer.device))
            try:
                if buffer.numel():
                    self._calls[index] = self._run(self._bucket(names, counts, buffer), buffer)
            except Exception as error:
                found = found or error
            if found is None:
                # Its waiter waits for the work on the stream that is current now.
                future.set_result(buffer)
        # Not raised here, where other buckets of this backward would be left, and other ranks wait.
        if found is not None:
            if buffer.is_cuda:
                torch.cuda.current_stream(buffer.device).wait_stream(self._own[buffer.device])
            future.set_exception(found)  # type: ignore[arg-type]
        return future

    def _run(self, bucket: _Bucket, buffer: torch.Tensor) -> tuple[int, _Clock]:
        """Put the all-reduce of a bucket on the current CUDA stream.

        Return how many bytes other ranks are sent, and when its parts end.
        """
        (send, back), (sent, sums), (came, all_sums) = bucket.streams, bucket.made, bucket.came
        own, failed, clock = [self._rank], None, _Clock(buffer.device)
        # What is not written now is no frame, so that nobody reads one of the step before.
        for rows in (sent.frames, came, sums.frames, all_sums):
            rows[:, :_HEAD].zero_()
        bucket.last = self._step
        bucket.next += 1
        try:
            # The step of the slot has not moved where its sum could not be made.
            back.set_step(bucket.next - 1, self._rank)
            if bucket.squares is not None:
                bucket.squares.divide(buffer)
            send.encode(buffer, out=sent)
        except Exception as error:  # the others wait for what this rank sends
            failed = error
        clock.mark()
        self._exchange(came, sent.frames)
        clock.mark()
        try:
            send.reduce_encode(came, back, slots=own, to_slots=own, scale=self._scale, out=sums)
        except Exception as error:
            failed = failed or error
        wrong = (torch.cat([sent.status, sums.status]) != 0).any()
        sums.frames[:, -_TAIL:] = 255 if failed else wrong.to(torch.uint8)
        clock.mark()
        self._gather(all_sums, sums.frames)
        clock.mark()
        # Sums that are stored as they are, in f32, decode to nothing else.
        out = buffer.float() if self._specs[1].startswith("raw") else buffer
        status = torch.cat([sent.status, sums.status, back.decode(all_sums, out)])
        if out is not buffer:
            buffer.copy_(out)
        anywhere = (all_sums[:, -1] != 0).any()
        buffer.masked_fill_((status != 0).any() | anywhere, float("nan"))
        if bucket.squares is not None:
            bucket.squares.multiply(buffer, self._means.share)
        clock.mark()
        self._see(torch.cat([status, anywhere.to(torch.int32).view(1)]), bucket)
        if failed is not None:
            raise failed
        frames = (sent.frames, sums.frames)
        return (self._ranks - 1) * sum(rows[0].numel() for rows in frames), clock

    def _exchange(self, out: torch.Tensor, x: torch.Tensor) -> None:
        self._move(dist.all_to_all_single, out, x)

    def _gather(self, out: torch.Tensor, x: torch.Tensor) -> None:
        self._move(dist.all_gather_into_tensor, out, x)

    def _move(self, collective: Any, out: torch.Tensor, x: torch.Tensor) -> None:
        """Make a collective; gloo takes what is in the memory of the CPU."""
        if not x.is_cuda or dist.get_backend(self._group) != "gloo":
            collective(out, x, group=self._group)
            return
        came = torch.empty_like(out, device="cpu")
        collective(came, x.cpu(), group=self._group)
        out.copy_(came)

    # ---- What was wrong with frames ----

    def _see(self, status: torch.Tensor, bucket: _Bucket) -> None:
        """Copy statuses to the host, where they are looked at later."""
        what = f"step {self._step}, bucket of {bucket.names[0]!r}"
        if not status.is_cuda:
            self._seen.append((status, None, what))
            return
        there = torch.empty_like(status, device="cpu", pin_memory=True)
        there.copy_(status, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        self._seen.append((there, event, what))

    def _wrong(self) -> Error | None:
        """Return what was wrong with the first bad frame, once the work so far is done."""
        seen, self._seen = self._seen, []
        for status, event, what in seen:
            if event is not None:
                event.synchronize()
            *numbers, anywhere = status.tolist()
            for number in numbers:
                if number:
                    error = from_status(number)
                    return type(error)(f"{what}: {error.text}", status=number)
            if anywhere:
                return StateError(f"{what}: another rank could not read a frame")
        return None

    def check(self) -> None:
        """Wait for the work of the last step, and raise what was wrong with a frame of it.

        Before the optimizer's step it keeps gradients that are NaN out of the weights.

        Raises:
            Error: of the class that a call on the CPU raises; StateError where the frame was
                another rank's. Every rank raises.

        """
        if error := self._wrong():
            raise error

    # ---- Buckets ----

    def _bucket(
        self, names: tuple[str, ...], counts: tuple[int, ...], buffer: torch.Tensor
    ) -> _Bucket:
        """Return a bucket, with new streams when it is of other parameters than before."""
        for bucket in self._buckets:
            if bucket.names == names:
                return bucket
        for bucket in [one for one in self._buckets if set(one.names) & set(names)]:
            self._keep(bucket)
            self._buckets.remove(bucket)
        bucket, failed = _Bucket(names, counts, buffer.device), None
        try:
            self._make(bucket, counts, buffer)
        except Error as error:
            failed = error
        except Exception as error:  # no memory, for instance
            failed = StateError(f"{type(error).__name__}: {error}")
        self._agree([plan.fingerprint for plan in bucket.plans], failed)
        self._count += 1
        self._buckets.append(bucket)
        return bucket

    def _make(self, bucket: _Bucket, counts: tuple[int, ...], buffer: torch.Tensor) -> None:
        exempt = _group.exempt_ranges(
            zip(counts, map(self._is_exempt, bucket.names), strict=True), self._exempt
        )
        bucket.next = self._step
        for hop, spec in enumerate(self._specs):
            dtype = torch.float32 if hop else buffer.dtype
            plan = Plan(spec, shape=sum(counts), dtype=dtype, slots=self._ranks, exempt=exempt)
            # Numbers of their own for every bucket that ever was, hop and rank.
            number = ((2 * self._count + hop) * self._ranks + self._rank) % 2**32
            stream = self._cuda.DeviceStream(
                self._cuda.DevicePlan(plan, buffer.device),
                seed=self._seed,
                rng_stream=number,
                step=self._step,
            )
            made = stream._room(1 if hop else self._ranks, plan.sizes.slot_bytes + _TAIL)
            bucket.plans.append(plan)
            bucket.streams.append(stream)
            bucket.made.append(made)
            bucket.came.append(made.frames.new_zeros((self._ranks, made.frames.shape[1])))
        self._give(bucket)
        bucket.squares = self._means.squares(
            bucket.pieces, self._scale * self._ranks, buffer.device
        )

    def _is_exempt(self, name: str) -> bool:
        return self._exempt is not None and self._parameters[name].dim() <= 1

    # ---- What encoding has lost ----

    def _lost(self, bucket: _Bucket) -> torch.Tensor | None:
        """Return the residual of a bucket; what the sums of this rank's slot lack is in it."""
        if not _group.has_feedback(self._specs[0]):
            return None
        lost = torch.empty(bucket.plans[0].count, dtype=torch.float32, device="cpu")
        with self._on(bucket.place):
            host = Stream(bucket.plans[0])
            bucket.streams[0].save(host)
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
        self._residuals.update(self._pieces(bucket))
        self._means.keep(bucket)

    def _pieces(self, bucket: _Bucket) -> dict[str, torch.Tensor]:
        lost = self._lost(bucket)
        return {
            name: lost[first : first + count].clone()
            for name, (first, count) in bucket.pieces.items()
            if lost is not None and not self._is_exempt(name)
        }

    def _give(self, bucket: _Bucket) -> None:
        """Put what was lost of a bucket's parameters into its streams."""
        names = [name for name in bucket.names if name in self._residuals]
        names = [name for name in names if not self._is_exempt(name)]
        if not names or not _group.has_feedback(self._specs[0]):
            return
        host = Stream(bucket.plans[0])
        bucket.streams[0].save(host)
        for name in names:
            host.set_residual(self._residuals[name], first=bucket.pieces[name][0])
        bucket.streams[0].load(host)
        for name in names:
            del self._residuals[name]

    def rollback(self) -> None:
        """Take back what the last step did to error feedback.

        For steps that are thrown away, for instance because a gradient overflowed. Every rank does
        so, or none. Means of ``normalize`` stay as they are.
        """
        for bucket in self._buckets:
            if bucket.last != self._step:
                continue
            bucket.last, bucket.next = -1, bucket.next - 1
            with self._on(bucket.place):
                for stream in bucket.streams:
                    stream.rollback(bucket.next)

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's step and what its encoding has lost, by parameter: on the CPU.

        With ``normalize`` the running means too, which are the same on every rank. It waits for the
        device. Each rank saves its own, ``{"rank 3": (parts,)}``; :class:`pith.torch.ddp.State`
        loads it, too.
        """
        residuals = dict(self._residuals)
        for bucket in self._buckets:
            residuals.update(self._pieces(bucket))
        means = self._means.state(self._buckets)
        return _group.OwnState({"step": self._step, "residuals": residuals, **means})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned, before or after the first step.

        Of parameters that it says nothing of, nothing was lost. Every rank does so, or none: all
        make their buckets again at the next step. With ``normalize`` every rank takes up a state of
        one step: where means differ, replicas become different.

        Raises:
            ArgumentError: a key is missing, or a residual or mean fits no parameter; nothing
                changed

        """
        parts = _group.parts_of(state)
        residuals = _group.residuals_of(parts, self._parameters)
        means = self._means.check(parts)
        self._step = int(parts["step"])
        self._residuals = residuals
        self._buckets, self._seen = [], []
        self._means.load(means, self._buckets)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(_group.HOOKED)

    def __repr__(self) -> str:
        return f"<pith.torch.device.State {self._specs[0]!r}, {len(self._buckets)} buckets>"


def hook(state: State, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Reduce a bucket: ``model.register_comm_hook(state, pith.torch.device.hook)``.

    What goes wrong is an exception of backward; what was wrong with a frame, one of the next.
    """
    _group.check_bucket(bucket)
    return state._reduce(bucket)


_OPTIONS = ("spec", "gather", "op", "exempt", "normalize", "seed")


def register(model: DistributedDataParallel, **options: Any) -> State:
    """Make a :class:`State` for a model, with its options, and register the hook.

    Collective, once for a model, before the first backward.

    Raises:
        UnsupportedError: an option is that of models in the memory of the CPU alone
        As :class:`State`.

    """
    for name in options:
        if name not in _OPTIONS:
            raise UnsupportedError(
                f"{name}: not for a model on a device, whose hook takes {', '.join(_OPTIONS)}"
            )
    state = State(model, **options)
    model.register_comm_hook(state, hook)
    return state
