"""Collectives whose messages are frames: reduce-scatter, all-reduce, all-gather, all-to-all.

SPDX-License-Identifier: Apache-2.0

Ranks are connected once, by a :class:`Communicator`; each tensor that they exchange step after step
has a :class:`Channel` of its own:

    ranks = pith.collective.Communicator(rank, 4, exchange)
    channel = ranks.channel("allreduce", "grad:preset=intra", count=g.size, dtype=g.dtype)
    channel.run(g, g, scale=1 / 4, step=step)

What channels compute, bit for bit, and what errors mean is in ``pith_collective.h``: an error on
any rank is the same exception on every rank, and no call waits longer than its timeout. Messages
travel over TCP, and none of that needs Python: the interpreter's lock is free meanwhile.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from . import dtypes, views
from ._core import ffi, lib
from .errors import (
    ArgumentError,
    BrokenError,
    BusyError,
    Error,
    StateError,
    TimedOutError,
    TransportError,
    from_status,
)
from .plan import c_spec, environment, set_exempt
from .stream import Stats
from .views import Buffer, Tensor

__all__ = [
    "BrokenError",
    "Channel",
    "Communicator",
    "Place",
    "Report",
    "Request",
    "TimedOutError",
    "TransportError",
]

KINDS = {"reduce_scatter": 1, "allreduce": 2, "allgather": 3, "alltoall": 4}
"""What a channel can do, by name."""


class Report(NamedTuple):
    """What a call did, as this rank saw it."""

    failed_rank: int
    """The lowest rank that met the error, where known; else -1."""
    compressed: bool
    """False: the tensor was below the threshold."""
    levels: int
    """1, or 2 where nodes exchange with a spec of their own."""
    sent_bytes: tuple[int, int]
    """To ranks of the same node, and to other nodes; without what a rank keeps."""
    sent_values: tuple[int, int]
    """Elements in these bytes."""
    encode_seconds: float
    """Values to frames."""
    recode_seconds: float
    """Sums of frames to frames."""
    decode_seconds: float
    """Frames, or sums of them, to values."""
    wait_seconds: float
    """Waited with nothing else to do."""
    total_seconds: float
    """From start to end."""


class Place(NamedTuple):
    """Where a rank lies among nodes, which are numbered by their lowest rank."""

    rank: int
    ranks: int
    node: int
    nodes: int
    local: int
    locals: int


# ---- Connections --------------------------------------------------------------------------------

_HELLO = struct.Struct("<16sQI")  # token, number of the channel, rank


def _address_of(host: str) -> tuple[int, Any]:
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    return family, address


def _read(s: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = s.recv(count - len(parts))
        if not part:
            raise ConnectionError("closed before it said who it is")
        parts += part
    return parts


class Communicator:
    """Ranks that make channels with each other, over TCP.

    Collective: every rank makes one at the same time, and its channels in the same order. A channel
    has one connection to every other rank. Not encrypted; a connection must bring a secret that the
    ranks exchanged, so that no stranger takes a rank's place by accident.

    Args:
        rank: this process, from 0
        ranks: their number
        exchange: collective: takes a text and returns the texts of all ranks, in rank order. It
            waits no longer than a time of its own, and raises when a rank is missing
        host: name or address of the interface to listen on; None: the loopback one when all ranks
            have the same node, else that of this machine's name
        node: name of this rank's node; None: this machine's name
        ranks_per_node: ranks 0 .. R-1 are node 0, the next R node 1, and so on, whatever their
            names; None: by name
        timeout: seconds in which a channel must be connected, and for its calls where it says none

    Raises:
        ArgumentError: an argument of any rank is out of range
        TransportError: a rank has no address to listen on: the same on every rank

    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        exchange: Callable[[str], Sequence[str]],
        *,
        host: str | None = None,
        node: str | None = None,
        ranks_per_node: int | None = None,
        timeout: float = 300.0,
    ) -> None:
        if not 0 <= rank < ranks:
            raise ArgumentError(f"rank: found {rank}, expected 0 to {ranks - 1}")
        # What one rank alone does wrong is told to all.
        own = "+" + (node if node is not None else socket.gethostname())
        if ranks_per_node is not None and ranks_per_node < 1:
            own = f"-ranks_per_node: found {ranks_per_node}, expected 1 or more"
        elif not 0 < timeout <= 1e9:
            own = f"-timeout: found {timeout} seconds, expected more than 0"
        self.rank, self.ranks, self.timeout = rank, ranks, timeout
        names = list(exchange(own))
        if len(names) != ranks:
            raise ArgumentError(f"exchange: found {len(names)} texts, expected {ranks}")
        for r, text in enumerate(names):
            if text.startswith("-"):
                raise ArgumentError(f"rank {r}: {text[1:]}")
        order = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._node_of = [order[name] for name in names]
        if ranks_per_node is not None:
            self._node_of = [r // ranks_per_node for r in range(ranks)]
        if host is None:
            host = "127.0.0.1" if len(order) == 1 else socket.gethostname()
        try:
            family, address = _address_of(host)
            self._listener = socket.create_server(address, family=family, backlog=max(ranks, 128))
            self._close = weakref.finalize(self, self._listener.close)
            own = f"{self._listener.getsockname()[1]} {address[0]} {secrets.token_hex(16)}"
        except OSError as error:
            own = f"- {host}: {error}"
        texts = list(exchange(own))
        for r, text in enumerate(texts):
            if text.startswith("-"):
                raise TransportError(f"rank {r} cannot listen on {text[2:]}")
        heard = [text.split() for text in texts]
        self._addresses = [(address, int(port)) for port, address, _ in heard]
        self._token = bytes.fromhex(heard[0][2])
        self._number = 0
        self._early: dict[tuple[int, int], socket.socket] = {}

    def channel(
        self,
        kind: str,
        spec: str,
        *,
        dtype: Any,
        count: int = 0,
        counts: Sequence[int] | None = None,
        send_counts: Sequence[int] | None = None,
        recv_counts: Sequence[int] | None = None,
        inter: str | None = None,
        gather: str | None = None,
        base_dtype: Any = None,
        exempt: Iterable[tuple[int, int, str]] = (),
        seed: int = 0,
        rng_stream: int | None = None,
        slice: int = 0,
        threshold: int | None = 0,
        timeout: float | None = None,
        threads: int = 1,
    ) -> Channel:
        """Make a channel. Collective, with the same arguments but threads and the two counts.

        Args:
            kind: ``"reduce_scatter"``, ``"allreduce"``, ``"allgather"`` or ``"alltoall"``
            spec: of the frames; with ``inter`` of those inside nodes
            dtype: of the values: f32, bf16 or f16 for sums
            count: elements of the whole tensor
            counts: elements of every rank's shard; None: count / ranks, rounded up, the last less
            send_counts: of all-to-all: elements to every rank
            recv_counts: of all-to-all: elements from every rank
            inter: spec of frames between nodes, for sums; None: one level
            gather: spec of the second half of all-reduce; None: as the hop before it
            base_dtype: of an all-gather of differences
            exempt: as :class:`pith.Plan` takes them, of sums, in elements of the whole tensor
            seed: of random bits
            rng_stream: first of ``3 * ranks`` ids of random bits; None: another for every channel
            slice: elements that are encoded while the slice before travels; 0: 131072
            threshold: tensors of fewer elements travel uncompressed; None: measure where that pays
            timeout: seconds of a call; None: the communicator's
            threads: of encoding and decoding

        Raises:
            MismatchError: ranks gave specs, or have versions of pith, that refuse each other
            ArgumentError: they differ in another argument, or it is out of range
            SpecError, DtypeError, UnsupportedError: the spec, or what this kind does not take
            TimedOutError: a rank did not come

        """
        error: Error | None = None
        try:
            options, keep = _options(locals(), self)
        except Error as wrong:  # the others are told: options without a kind fail on every rank
            error, keep = wrong, None
            options = ffi.new("pith_collective_options *", {"size": _OPTIONS})
        number, self._number = self._number, self._number + 1
        if error is None and rng_stream is None:
            options.rng_stream = number * 3 * self.ranks % 2**32
        sockets = self._connect(number)
        handles = ffi.new("int[]", [-1 if s is None else s.detach() for s in sockets])
        transport = ffi.new("pith_transport *")
        status = lib.pith_collective_sockets(transport, self.rank, self.ranks, handles)
        if status:
            for handle in handles:
                if handle >= 0:
                    socket.close(handle)
            raise from_status(status)
        nodes = ffi.new("uint32_t[]", self._node_of)
        transport.node_of = nodes
        made = ffi.new("pith_collective_channel **")
        why = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
        status = lib.pith_collective_create(made, transport, options, why)
        del keep, nodes
        if error is not None:
            if not status:
                lib.pith_collective_destroy(made[0])
            raise error
        if status:
            raise _elsewhere(status, why if why.text[0] != b"\0" else None, "another rank says why")
        return Channel(made[0], options, self)

    def _connect(self, number: int) -> list[socket.socket | None]:
        """Return a socket to every other rank, for channel ``number``."""
        deadline = time.monotonic() + self.timeout
        found: list[socket.socket | None] = [None] * self.ranks
        try:
            for r in range(self.rank):
                s = socket.create_connection(self._addresses[r], self._left(deadline))
                found[r] = s
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                s.sendall(_HELLO.pack(self._token, number, self.rank))
            for r in range(self.rank + 1, self.ranks):
                while (number, r) not in self._early:
                    self._accept(deadline)
                found[r] = self._early.pop((number, r))
        except OSError as error:
            late = [r for r, s in enumerate(found) if s is None and r != self.rank]
            for made in found:
                if made is not None:
                    made.close()
            text = f"channel {number}: no connection to ranks {late}: {error}"
            cls = TimedOutError if isinstance(error, TimeoutError) else TransportError
            raise cls(text) from None
        return found

    def _left(self, deadline: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"not connected in {self.timeout} seconds")
        return left

    def _accept(self, deadline: float) -> None:
        """Take one connection; of a later channel, it is kept; of a stranger, it is closed."""
        self._listener.settimeout(self._left(deadline))
        s, _ = self._listener.accept()
        with contextlib.suppress(OSError):
            s.settimeout(min(self._left(deadline), 10.0))
            token, number, rank = _HELLO.unpack(_read(s, _HELLO.size))
            if hmac.compare_digest(token, self._token) and self.rank < rank < self.ranks:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._early[number, rank] = s
                return
        s.close()

    def close(self) -> None:
        """Stop listening. Channels that were made live on."""
        self._close()
        for s in self._early.values():
            s.close()
        self._early.clear()

    def __repr__(self) -> str:
        return f"<pith.collective.Communicator of rank {self.rank} of {self.ranks}>"


_OPTIONS = ffi.sizeof("pith_collective_options")


def _options(given: dict[str, Any], ranks: Communicator) -> tuple[Any, list[Any]]:
    """Return a ``pith_collective_options *`` and what must be kept with it."""
    o = ffi.new("pith_collective_options *", {"size": _OPTIONS})
    keep: list[Any] = []
    if given["kind"] not in KINDS:
        raise ArgumentError(f"kind: found {given['kind']!r}, expected one of {', '.join(KINDS)}")
    o.kind = KINDS[given["kind"]]
    o.dtype = dtypes.number_of(given["dtype"])
    o.base_dtype = 0 if given["base_dtype"] is None else dtypes.number_of(given["base_dtype"])
    for name in ("spec", "inter", "gather"):
        if given[name] is not None:
            keep.append(ffi.new("char[]", c_spec(given[name])))
            setattr(o, name, keep[-1])
    for name in ("counts", "send_counts", "recv_counts"):
        if given[name] is None:
            continue
        numbers = list(given[name])
        if len(numbers) != ranks.ranks or min(numbers) < 0:
            raise ArgumentError(f"{name}: found {numbers}, expected {ranks.ranks} numbers from 0")
        keep.append(ffi.new("uint64_t[]", numbers))
        setattr(o, name, keep[-1])
    timeout = ranks.timeout if given["timeout"] is None else given["timeout"]
    try:
        o.count, o.seed, o.slice = given["count"], given["seed"], given["slice"]
        o.rng_stream = given["rng_stream"] or 0
        o.threshold = given["threshold"] or 0
        o.timeout = timeout
    except (OverflowError, TypeError) as error:
        raise ArgumentError(f"count, seed, slice, rng_stream or threshold: {error}") from None
    if given["threshold"] is None:
        o.flags = lib.PITH_COLLECTIVE_MEASURE_THRESHOLD
    keep.append(set_exempt(o, given["exempt"]))
    env = environment(given["threads"], None)
    o.env = env
    keep.append(env)
    return o, keep


# ---- Channels -----------------------------------------------------------------------------------


class Channel:
    """One tensor, or one list of tensors, and one kind of collective, step after step.

    Made by :meth:`Communicator.channel`. Tensors are what the rest of pith takes; several in a list
    stand for one, their elements one after the other. Calls are collective unless they say that
    they are local. One call at a time; a second one is answered with
    :class:`~pith.errors.BusyError`.
    """

    def __init__(self, handle: Any, options: Any, communicator: Communicator) -> None:
        self._channel = ffi.gc(handle, lib.pith_collective_destroy)
        self._ranks = communicator.ranks
        self._dtype, self._base_dtype = int(options.dtype), int(options.base_dtype)
        self._lock = threading.Lock()  # the library is inside a channel once at a time
        self._in_flight: Request | None = None
        self.count = int(options.count)
        """Elements of the whole tensor; 0 for all-to-all."""

    def start(
        self,
        inputs: Tensor | list[Tensor],
        outputs: Tensor | list[Tensor] | None,
        *,
        scale: float = 1.0,
        step: int = 0,
        key_frame: bool = False,
    ) -> Request:
        """Start a call, which the returned request's ``wait`` and ``test`` carry on.

        Args:
            inputs: the tensor that is summed, the shard that is gathered, or what is sent
            outputs: where the shard, the whole tensor or what is got goes; None: only the base of
                an all-gather moves on. May be the input, as ``pith_collective.h`` says
            scale: what sums are multiplied by; ``1 / ranks`` for the mean
            step: another for every call; of an all-gather with a base the next one, from 0
            key_frame: of an all-gather with a base: gather exactly, whatever bases there were

        Raises:
            BusyError: a call is in flight
            BrokenError: the channel met a timeout or a failing transport before

        """
        local: Error | None = None
        keep: list[Any] = []
        call = ffi.new("pith_collective_call *", {"size": ffi.sizeof("pith_collective_call")})
        try:
            call.scale, call.step = scale, step
            call.flags = lib.PITH_KEY_FRAME * bool(key_frame)
            for name, tensors in (("input", inputs), ("output", outputs)):
                if tensors is None:
                    continue
                listed = tensors if isinstance(tensors, list) else [tensors]
                array = ffi.new("pith_view[]", max(len(listed), 1))
                keep.append(array)
                for i, x in enumerate(listed):
                    keep.append(views.fill(ffi.addressof(array, i), x, name == "output"))
                setattr(call, name + "s", array)
                setattr(call, name + "_count", len(listed))
        except (Error, OverflowError, TypeError) as wrong:
            # The call is made all the same, and fails on every rank.
            local = wrong if isinstance(wrong, Error) else ArgumentError(f"scale or step: {wrong}")
            call.inputs, call.outputs = ffi.NULL, ffi.NULL
        request = ffi.new("pith_collective_request **")
        with self._alone() as channel:
            status = lib.pith_collective_start(channel, call, request)
            if status:
                raise local or _elsewhere(status, None, "wait for it first")
            self._in_flight = Request(self, request[0], (keep, call), local)
            return self._in_flight

    def run(
        self,
        inputs: Tensor | list[Tensor],
        outputs: Tensor | list[Tensor] | None,
        *,
        scale: float = 1.0,
        step: int = 0,
        key_frame: bool = False,
    ) -> Report:
        """Start a call and wait for its end; see :meth:`start` and :meth:`Request.wait`."""
        return self.start(inputs, outputs, scale=scale, step=step, key_frame=key_frame).wait()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[Any]:
        """Give the C channel to a ``with`` statement in which no other thread is inside it."""
        if not self._lock.acquire(blocking=False):
            raise BusyError("another thread is using this channel")
        try:
            if self._channel is None:
                raise StateError("the channel was closed")
            yield self._channel
        finally:
            self._lock.release()

    def _do(self, call: Callable[..., int], *arguments: Any) -> None:
        """Make a local call of the library that takes this channel."""
        with self._alone() as channel:
            status = call(channel, *arguments)
            if status:
                # A busy channel's text is of the call in flight.
                busy = status == lib.PITH_ERR_BUSY
                raise from_status(status, None if busy else self._why())

    def _why(self) -> Any:
        error = lib.pith_collective_last_error(self._channel)
        return error if error.text[0] != b"\0" else None

    # ---- What it is ----

    @property
    def place(self) -> Place:
        """Where this rank lies among nodes. Local, as all that follows."""
        place = ffi.new("pith_collective_place *", {"size": ffi.sizeof("pith_collective_place")})
        self._do(lib.pith_collective_get_place, place)
        return Place(*(int(getattr(place, name)) for name in Place._fields))

    def shard(self, rank: int) -> tuple[int, int]:
        """Return first element and element count of a rank's shard.

        Raises:
            ArgumentError: there is no such rank, or the channel is of all-to-all

        """
        if not 0 <= rank < self._ranks:
            raise ArgumentError(f"rank: found {rank}, expected 0 to {self._ranks - 1}")
        out = ffi.new("uint64_t[2]")
        self._do(lib.pith_collective_shard, rank, out, out + 1)
        return int(out[0]), int(out[1])

    def stats(self, hop: int = 0) -> Stats:
        """Return what this rank encoded: hop 0 the first, 1 between nodes, 2 the gathering half."""
        if not 0 <= hop <= 2:
            raise ArgumentError(f"hop: found {hop}, expected 0 to 2")
        out = ffi.new("pith_stats *", {"size": ffi.sizeof("pith_stats")})
        self._do(lib.pith_collective_stats, hop, out)
        return Stats(*(int(getattr(out, name)) for name in Stats._fields))

    # ---- What it remembers ----

    def set_base(self, x: Tensor, step: int = 0) -> None:
        """Set the base of all shards from the whole tensor: the same one on every rank."""
        view, keep = views.new(x)
        self._do(lib.pith_collective_set_base, view, step)
        del keep

    def get_base(self, out: Tensor | None = None, *, dtype: Any = None) -> Tensor:
        """Return a copy of the whole base.

        Raises:
            ShapeError: out has another element count
            StateError: there is no base, or a failed call left it invalid

        """
        if out is None:
            number = self._base_dtype if dtype is None else dtypes.number_of(dtype)
            out = views.empty((self.count,), dtype, number)
        view, keep = views.new(out, write=True)
        self._do(lib.pith_collective_get_base, view)
        del keep
        return out

    def base_hash(self) -> int:
        """Return one number of all bases and steps, equal on ranks with equal bases."""
        with self._alone() as channel:
            return int(lib.pith_collective_base_hash(channel))

    def verify_base(self) -> None:
        """Read the base and compare its hash.

        Raises:
            BaseMismatchError: the memory was changed by others

        """
        self._do(lib.pith_collective_verify_base)

    def get_residual(
        self, first: int = 0, count: int | None = None, *, scale: float = 1.0, out: Tensor = None
    ) -> Tensor:
        """Return what encoding has lost so far on this rank, in all hops, as input values.

        Args:
            first: first element
            count: number of elements; None: to the end
            scale: of the calls
            out: dense and f32, where it goes; None: a new array

        Raises:
            StateError: there is no error feedback
            ArgumentError: the range does not lie in the tensor

        """
        if count is None:
            count = max(self.count - first, 0)
        if out is None:
            out = views.empty((max(count, 0),), None, lib.PITH_F32)
        data, keep = _floats(out, count, "out", True)
        if first < 0:
            raise ArgumentError(f"first: found {first}, expected 0 to {self.count}")
        self._do(lib.pith_collective_get_residual, first, count, scale, data)
        del keep
        return out

    def set_residual(self, x: Tensor, first: int = 0) -> None:
        """Set what encoding has lost of a range, whose values :meth:`get_residual` gave.

        Raises:
            StateError: the first hop has no error feedback
            ArgumentError: a value is not finite, or the range does not lie in the tensor

        """
        data, keep = _floats(x, None, "x", False)
        if first < 0:
            raise ArgumentError(f"first: found {first}, expected 0 to {self.count}")
        count = lib.pith_view_count(keep[0])
        self._do(lib.pith_collective_set_residual, first, count, data)
        del keep

    def rollback(self, step: int) -> None:
        """Take back a step, in every hop: every rank does so, or none."""
        self._do(lib.pith_collective_rollback, step)

    def reset(self) -> None:
        """Make the channel remember nothing."""
        self._do(lib.pith_collective_reset)

    def save(self) -> bytes:
        """Return everything this rank's channel remembers."""
        with self._alone() as channel:
            bytes_ = int(lib.pith_collective_save_bytes(channel))
        memory, written = views.memory(bytes_), ffi.new("size_t *")
        self._do(lib.pith_collective_save, memory, bytes_, written)
        return bytes(ffi.buffer(memory, written[0]))

    def load(self, saved: Buffer) -> None:
        """Take up what :meth:`save` of this rank returned, among as many ranks.

        Raises:
            FrameError: the bytes are not that; the channel remembers nothing then

        """
        data, length, keep = views.bytes_of(saved, "saved")
        self._do(lib.pith_collective_load, data, length)
        del keep

    def close(self) -> None:
        """Close the connections and give the memory back.

        Raises:
            BusyError: a call is in flight

        """
        if self._channel is None:
            return
        if self._in_flight is not None:
            raise BusyError("a call is in flight: wait for it first")
        with self._alone() as channel:
            self._channel = None
            ffi.release(channel)


def _floats(x: Tensor, count: int | None, what: str, write: bool) -> tuple[Any, Any]:
    """Return ``float *`` of a dense f32 tensor, and what must be kept with it."""
    view, keep = views.new(x, write)
    if view.dtype != lib.PITH_F32 or not views.is_dense(view):
        raise ArgumentError(f"{what}: expected a dense tensor of f32")
    found = lib.pith_view_count(view)
    if count is not None and found != count:
        raise ArgumentError(f"{what}: found {found} elements, expected {count}")
    return ffi.cast("float *", view.data), (view, keep)


def _elsewhere(status: int, why: Any, where: str) -> Error:
    """Return the exception for a status that this rank, if why is None, did not meet itself."""
    if status in (lib.PITH_ERR_TIMEOUT, lib.PITH_ERR_TRANSPORT, lib.PITH_ERR_BROKEN):
        where = "make new channels, with ranks that all live, from what was saved last"
    elif why is not None:
        return from_status(status, why)
    error = from_status(status)
    return type(error)(f"{error.text}; {where}", status=status)


class Request:
    """A call in flight. Its tensors stay as they are until it has ended."""

    def __init__(self, channel: Channel, request: Any, keep: Any, local: Error | None) -> None:
        self._channel: Channel | None = channel
        self._request, self._keep, self._local = request, keep, local
        self._report = ffi.new(
            "pith_collective_report *", {"size": ffi.sizeof("pith_collective_report")}
        )
        self._result: Report | Error | None = None

    def test(self) -> bool:
        """Do what can be done without waiting; whether the call has ended, well or not."""
        channel = self._channel
        if channel is not None:
            with channel._lock:
                done = ffi.new("int *")
                if self._channel is not None:
                    status = lib.pith_collective_test(self._request, done, self._report)
                    if done[0] or status:
                        self._end(status)
        return self._channel is None

    def wait(self) -> Report:
        """Wait for the end of the call.

        Raises:
            TimedOutError: a rank died, hangs, or did not make the call
            TransportError: a rank is gone, or broke the connection
            Error: any other: the same on every rank; the text says more on the rank that failed

        """
        channel = self._channel
        if channel is not None:
            with channel._lock:
                if self._channel is not None:  # another thread may have waited, too
                    self._end(lib.pith_collective_wait(self._request, self._report))
        if isinstance(self._result, Error):
            raise self._result
        assert self._result is not None
        return self._result

    def _end(self, status: int) -> None:
        assert self._channel is not None
        r, why = self._report, self._channel._why()
        if status == 0:
            self._result = Report(
                int(r.failed_rank),
                bool(r.compressed),
                int(r.levels),
                (int(r.sent_bytes[0]), int(r.sent_bytes[1])),
                (int(r.sent_values[0]), int(r.sent_values[1])),
                *(float(getattr(r, name)) for name in Report._fields[5:]),
            )
        elif self._local is not None:
            self._result = self._local
        else:
            where = f"rank {r.failed_rank} met it" if r.failed_rank >= 0 else "another rank met it"
            self._result = _elsewhere(status, why, where)
        self._channel._in_flight = None
        self._channel = self._keep = None
