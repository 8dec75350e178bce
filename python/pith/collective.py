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
import errno
import hmac
import ipaddress
import os
import pathlib
import resource
import secrets
import selectors
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple

from . import dtypes, sparse, views
from ._core import ffi, lib
from .errors import (
    ArgumentError,
    BrokenError,
    BusyError,
    DtypeError,
    Error,
    ShapeError,
    StateError,
    TimedOutError,
    TransportError,
    check_new,
    from_status,
    numbered,
    of_each,
)
from .plan import c_spec, check_scale, environment, set_exempt
from .stream import Stats
from .views import Buffer, Tensor

__all__ = [
    "BrokenError",
    "Channel",
    "Choice",
    "Chosen",
    "Communicator",
    "Deft",
    "Measure",
    "Partitions",
    "Place",
    "Report",
    "Request",
    "TimedOutError",
    "TransportError",
    "wait_all",
]

KINDS = {
    "reduce_scatter": 1,
    "allreduce": 2,
    "allgather": 3,
    "alltoall": 4,
    "sparse_gather": 5,
    "sparse_union": 6,
    "sparse_oktopk": 7,
}
"""What a channel can do, by name."""


class Report(NamedTuple):
    """What a call did, as this rank saw it."""

    failed_rank: int
    """The lowest rank that met the error, where known; else -1."""
    compressed: bool
    """False: the tensor was below the threshold."""
    levels: int
    """Of sums: 1, or 2 where nodes exchange with a spec of their own."""
    sent_bytes: tuple[int, int]
    """To ranks of the same node, and to other nodes; with what a rank forwards: what is gathered
    crosses to each node once. Without what it keeps."""
    sent_values: tuple[int, int]
    """Elements in these bytes."""
    encode_seconds: float
    """Values to frames."""
    recode_seconds: float
    """Sums of frames to frames."""
    decode_seconds: float
    """Frames, or sums of them, to values."""
    cpu_seconds: float
    """Of these three: CPU time of the thread that worked, which stands still while another rank
    has its core."""
    wait_seconds: float
    """Waited with nothing else to do."""
    total_seconds: float
    """From start to end."""
    chosen: int
    """Sparse sums: elements that the ranks chose, each as often as it was."""
    summed: int
    """Sparse sums by union or regions: elements whose sums came back."""


class Measure(NamedTuple):
    """From which size on frames are faster than uncompressed tensors, by the slowest rank."""

    elements: int | None
    """Compressed is faster from here on; None: at no size that was tried, up to 2**20."""
    codec_ns: float
    """Of encoding, recoding and decoding, for each element of the largest tensor tried."""
    plain_ns: float
    """Of a whole uncompressed call, for each element of it."""
    packed_ns: float
    """Of a whole compressed call."""
    link_bytes_per_second: float
    """Sent by a rank in the uncompressed call."""


class Choice(NamedTuple):
    """What a rank may choose from a piece of a tensor, in a sparse sum."""

    first: int = 0
    """First element of the piece that may be chosen."""
    elements: int | None = None
    """How many from there on; None: all, 0: none."""
    k: int = 0
    """Elements to choose, in place of the spec's; 0: as the spec says."""
    threshold: float = 0.0
    """In place of the controller's: elements of at least this magnitude; 0: none."""


class Chosen(NamedTuple):
    """What a rank's choice from a piece of a tensor came to."""

    k: int
    """Elements that the spec asks for."""
    most: int
    """Its hard limit."""
    sent: int
    """Elements that were chosen last."""
    overflowed: int
    """Elements that reached the threshold beyond the limit."""
    threshold: float
    """Of the last choice; 0: none yet."""


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
_HELLO_SECONDS = 10.0
_BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")


def _address_of(host: str) -> tuple[int, Any]:
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    return family, address


def _machine() -> str:
    """Return a name of this machine: two that have one name by accident booted apart."""
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()}/{boot}"


class _Hello:
    """A connection that has not yet said who it is."""

    def __init__(self, s: socket.socket) -> None:
        self.socket, self.said = s, b""
        self._deadline = time.monotonic() + _HELLO_SECONDS

    def left(self) -> float:
        """Return the seconds that it still has."""
        return self._deadline - time.monotonic()

    def read(self) -> bool:
        """Read what is there; whether it has said all, or will say no more."""
        try:
            part = self.socket.recv(_HELLO.size - len(self.said))
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        self.said += part
        return not part or len(self.said) == _HELLO.size


class Communicator:
    """Ranks that make channels with each other, over TCP.

    Collective: every rank makes one at the same time, and its channels in the same order. A channel
    has one connection to every other rank, and so ``ranks - 1`` of the process's descriptors. Not
    encrypted; a connection must bring a secret that the ranks exchanged, so that no stranger takes
    a rank's place by accident.

    Args:
        rank: this process, from 0
        ranks: their number
        exchange: collective: takes a text and returns the texts of all ranks, in rank order. It
            waits no longer than a time of its own, and raises when a rank is missing
        host: name or address of the interface to listen on; None: the loopback one when all ranks
            are on one machine, else that of this machine's name. Or the exception why there is
            none, which every rank then hears of
        node: name of this rank's node; None: this machine, by its name and when it booted
        ranks_per_node: ranks 0 .. R-1 are node 0, the next R node 1, and so on, whatever their
            names; None: by name
        timeout: seconds in which a channel must be connected, and for its calls where it says none

    Raises:
        ArgumentError: an argument of any rank is out of range
        TransportError: a rank has no address to listen on, or only the loopback one where ranks are
            on several machines: the same on every rank

    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        exchange: Callable[[str], Sequence[str]],
        *,
        host: str | Exception | None = None,
        node: str | None = None,
        ranks_per_node: int | None = None,
        timeout: float = 300.0,
    ) -> None:
        if not 0 <= rank < ranks:
            raise ArgumentError(f"rank: found {rank}, expected 0 to {ranks - 1}")
        # What one rank alone does wrong is told to all.
        machine = _machine()
        own = f"+{machine} {machine if node is None else node}"
        try:
            if ranks_per_node is not None and ranks_per_node < 1:
                own = f"-ranks_per_node: found {ranks_per_node}, expected 1 or more"
            elif refused := _refused_timeout(timeout):
                own = "-" + refused
            elif not isinstance(host, (str, Exception, type(None))):
                own = f"-host: expected a str, found {type(host).__name__}"
        except TypeError as error:
            own = f"-ranks_per_node or timeout: {error}"
        self.rank, self.ranks, self.timeout = rank, ranks, timeout
        self._process = os.getpid()
        names = list(exchange(own))
        if len(names) != ranks:
            raise ArgumentError(f"exchange: found {len(names)} texts, expected {ranks}")
        for r, text in enumerate(names):
            if text.startswith("-"):
                raise ArgumentError(f"rank {r}: {text[1:]}")
        machines, nodes = zip(*(text[1:].split(" ", 1) for text in names), strict=True)
        order = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
        self._node_of = [order[name] for name in nodes]
        if ranks_per_node is not None:
            self._node_of = [r // ranks_per_node for r in range(ranks)]
        together = len(set(machines)) == 1
        if host is None:
            host = "127.0.0.1" if together else socket.gethostname()
        try:
            if isinstance(host, Exception):
                raise host
            own = f"{self._listen(host, together)} {secrets.token_hex(16)}"
        except (OSError, UnicodeError) as error:
            own = f"- {error}" if error is host else f"- {host}: {error}"
        texts = list(exchange(own))
        for r, text in enumerate(texts):
            if text.startswith("-"):
                raise TransportError(f"rank {r} cannot listen on {text[2:]}")
        heard = [text.split() for text in texts]
        self._addresses = [(address, int(port)) for port, address, _ in heard]
        self._token = bytes.fromhex(heard[0][2])
        self._number = 0
        self._early: dict[tuple[int, int], socket.socket] = {}

    def _listen(self, host: str, together: bool) -> str:
        """Listen on a host's address; return port and address."""
        family, address = _address_of(host)
        if not together and ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
            raise OSError(
                f"{address[0]} is not reached from other machines: give the address of an interface"
                " as host= (pith.torch takes that of GLOO_SOCKET_IFNAME)"
            )
        self._listener = socket.create_server(address, family=family, backlog=max(self.ranks, 128))
        self._close = weakref.finalize(self, self._listener.close)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        return f"{self._listener.getsockname()[1]} {address[0]}"

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
        external_base: bool = False,
        exempt: Iterable[tuple[int, int, str]] = (),
        pieces: Sequence[int] | None = None,
        refresh: int = 0,
        seed: int = 0,
        rng_stream: int | None = None,
        slice: int = 0,
        threshold: int | None = 0,
        timeout: float | None = None,
        threads: int = 1,
    ) -> Channel:
        """Make a channel. Collective, with the same arguments but threads and the two counts.

        Args:
            kind: ``"reduce_scatter"``, ``"allreduce"``, ``"allgather"`` or ``"alltoall"``; or an
                all-reduce of the largest elements, by a spec of codec ``topk``:
                ``"sparse_gather"``, ``"sparse_union"`` or ``"sparse_oktopk"``
            spec: of the frames; with ``inter`` of those inside nodes
            dtype: of the values: f32, bf16 or f16 for sums
            count: elements of the whole tensor
            counts: elements of every rank's shard; None: count / ranks, rounded up, the last less
            send_counts: of all-to-all: elements to every rank
            recv_counts: of all-to-all: elements from every rank
            inter: spec of frames between nodes, for sums: of all where each node has one rank;
                None: one level, of ``spec``
            gather: spec of the second half of all-reduce; None: as the hop before it
            base_dtype: of an all-gather of differences
            external_base: the base lies in memory that :meth:`Channel.bind_base` is given, before
                the first call
            exempt: as :class:`pith.Plan` takes them, of sums, in elements of the whole tensor
            pieces: of sparse sums: elements of the pieces from which each rank chooses; None: one
            refresh: of ``"sparse_oktopk"``: calls from one exact threshold to the next; 0: 32
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
            StateError: this process was forked from the one that made the communicator

        """
        _check_process(self._process)
        error: Exception | None = None
        try:
            options, keep = _options(locals(), self)
        except Exception as wrong:  # the others are told: options without a kind fail on every rank
            error, keep = wrong, None
            options = ffi.new("pith_collective_options *", {"size": _OPTIONS})
        number, self._number = self._number, self._number + 1
        if error is None and rng_stream is None:
            options.rng_stream = number * 3 * self.ranks % 2**32
        transport, nodes = self._transport(number)
        made = ffi.gc(ffi.new("pithpy_channel *"), lib.pithpy_collective_destroy)
        why = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
        raised: list[BaseException] = []
        status = lib.pithpy_collective_create(made, transport, options, why, _to(raised))
        del keep, nodes
        for cause in (*raised, error):
            if cause is not None:
                lib.pithpy_collective_close(made)
                raise cause
        if status:
            raise _elsewhere(status, _said(why), "another rank says why")
        return Channel(made, options, self, None if pieces is None else list(pieces))

    def break_even(
        self,
        kind: str,
        spec: str,
        *,
        dtype: Any,
        inter: str | None = None,
        gather: str | None = None,
        slice: int = 0,
        timeout: float | None = None,
        threads: int = 1,
    ) -> Measure:
        """Measure from how many elements on frames are faster than the tensors themselves.

        Collective, with the same arguments but threads, which are those of :meth:`channel`. Values
        are synthetic, tensors have 2**10, 2**12, ... 2**20 elements, and the result is the same on
        every rank: a ``threshold`` for channels that are made later. ``threshold=None`` of a
        channel measures for that channel alone.

        Raises:
            ArgumentError: kind is not ``"reduce_scatter"``, ``"allreduce"`` or ``"allgather"``, or
                another argument is out of range
            MismatchError, SpecError, DtypeError, TimedOutError: as :meth:`channel`
            StateError: this process was forked from the one that made the communicator

        """
        _check_process(self._process)
        given = {**_DEFAULTS, **{k: v for k, v in locals().items() if k != "self"}}
        error: Exception | None = None
        try:
            if kind not in _MEASURED:
                raise ArgumentError(f"kind: found {kind!r}, expected one of {', '.join(_MEASURED)}")
            options, keep = _options(given, self)
        except Exception as wrong:  # the others are told, as by channel
            error, keep = wrong, None
            options = ffi.new("pith_collective_options *", {"size": _OPTIONS, "kind": 1})
        number, self._number = self._number, self._number + 1
        transport, nodes = self._transport(number)
        why, raised = _error(), list[BaseException]()
        out = ffi.new("pith_collective_measure *", {"size": ffi.sizeof("pith_collective_measure")})
        status = lib.pithpy_collective_break_even(transport, options, out, why, _to(raised))
        del keep, nodes
        for cause in (*raised, error):
            if cause is not None:
                raise cause
        if status:
            raise _elsewhere(status, _said(why), "another rank says why")
        return Measure(
            None if out.elements == 2**64 - 1 else int(out.elements),
            float(out.codec_ns),
            float(out.plain_ns),
            float(out.packed_ns),
            float(out.link_bytes_per_s),
        )

    def _transport(self, number: int) -> tuple[Any, Any]:
        """Return a ``pith_transport *`` on new connections, and what must be kept with it."""
        sockets = self._connect(number)
        handles = ffi.new("int[]", [-1 if s is None else s.fileno() for s in sockets])
        transport = ffi.new("pith_transport *")
        status = lib.pith_collective_sockets(transport, self.rank, self.ranks, handles)
        for s in sockets:
            if s is not None and status:
                s.close()
            elif s is not None:
                s.detach()  # the transport closes them
        if status:
            raise from_status(status)
        nodes = ffi.new("uint32_t[]", self._node_of)
        transport.node_of = nodes
        lib.pithpy_heed_signals(transport)
        return transport, nodes

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
        except BaseException as error:
            for made in found:
                if made is not None:
                    made.close()
            if not isinstance(error, OSError):
                raise
            late = [r for r, s in enumerate(found) if s is None and r != self.rank]
            text = f"channel {number}: no connection to ranks {late}: {error}"
            if error.errno == errno.EMFILE:
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                text += f": each channel takes {self.ranks - 1} of {limit} (ulimit -n)"
            cls = TimedOutError if isinstance(error, TimeoutError) else TransportError
            raise cls(text) from None
        return found

    def _left(self, deadline: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"not connected in {self.timeout} seconds")
        return left

    def _accept(self, deadline: float) -> None:
        """Wait for connections and for what they say, of all at once, so that none delays another.

        One of a later channel is kept; one of a stranger is closed, and one that says nothing, too.
        """
        if self._listener.fileno() < 0:
            raise OSError("the communicator was closed")
        wait = min([self._left(deadline), *(hello.left() for hello in self._hellos())])
        for key, _ in self._selector.select(max(wait, 0)):
            if key.data is None:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    s, _ = self._listener.accept()
                    s.setblocking(False)
                    self._selector.register(s, selectors.EVENT_READ, _Hello(s))
            elif key.data.read():
                self._selector.unregister(key.data.socket)
                self._welcome(key.data)
        for hello in self._hellos():
            if hello.left() <= 0:
                self._selector.unregister(hello.socket)
                hello.socket.close()

    def _hellos(self) -> list[_Hello]:
        """Return the connections that have not said who they are."""
        return [key.data for key in self._selector.get_map().values() if key.data is not None]

    def _welcome(self, hello: _Hello) -> None:
        """Keep a connection that has said who it is, or close it."""
        if len(hello.said) == _HELLO.size:
            token, number, rank = _HELLO.unpack(hello.said)
            if hmac.compare_digest(token, self._token) and self.rank < rank < self.ranks:
                hello.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._early[number, rank] = hello.socket
                return
        hello.socket.close()

    def close(self) -> None:
        """Stop listening. Channels that were made live on."""
        for hello in self._hellos():
            self._selector.unregister(hello.socket)
            hello.socket.close()
        self._close()
        for s in self._early.values():
            s.close()
        self._early.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the attributes would listen on the same socket.
        raise TypeError("communicators are not copied or pickled: every rank makes another one")

    def __repr__(self) -> str:
        return f"<pith.collective.Communicator of rank {self.rank} of {self.ranks}>"


_OPTIONS = ffi.sizeof("pith_collective_options")
_MEASURED = ("reduce_scatter", "allreduce", "allgather")
_DEFAULTS: dict[str, Any] = {
    "count": 0,
    "counts": None,
    "send_counts": None,
    "recv_counts": None,
    "base_dtype": None,
    "external_base": False,
    "exempt": (),
    "pieces": None,
    "refresh": 0,
    "seed": 0,
    "rng_stream": None,
    "threshold": 0,
}
"""Arguments of a channel that :meth:`Communicator.break_even` does not have."""


def _refused_timeout(seconds: float) -> str:
    """Return why these cannot be waited for, or nothing."""
    if 0 < seconds <= 1e9:
        return ""
    return f"timeout: found {seconds} seconds, expected more than 0, at most 1e9"


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
    if given["pieces"] is not None:
        pieces = list(given["pieces"])
        if not pieces or min(pieces) < 0:
            raise ArgumentError(f"pieces: found {pieces}, expected numbers from 0")
        keep.append(ffi.new("uint64_t[]", pieces))
        o.pieces, o.piece_count = keep[-1], len(pieces)
    timeout = ranks.timeout if given["timeout"] is None else given["timeout"]
    try:
        if refused := _refused_timeout(timeout):
            raise ArgumentError(refused)
        o.count, o.seed, o.slice = given["count"], given["seed"], given["slice"]
        o.refresh = given["refresh"]
        o.rng_stream = given["rng_stream"] or 0
        o.threshold = given["threshold"] or 0
        o.timeout = timeout
    except (OverflowError, TypeError) as error:
        raise ArgumentError(
            f"count, seed, slice, refresh, rng_stream, threshold or timeout: {error}"
        ) from None
    if given["threshold"] is None:
        o.flags |= lib.PITH_COLLECTIVE_MEASURE_THRESHOLD
    if given["external_base"]:
        o.flags |= lib.PITH_COLLECTIVE_EXTERNAL_BASE
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

    In the main thread a wait lets handlers of signals run, ten times a second. An exception that
    one of them raises, KeyboardInterrupt for instance, ends the call: the channel is then broken,
    as after a timeout, and so are those of the other ranks once this one is closed.

    Calls are made by the process that made the channel: of one that is forked from it they raise
    :class:`~pith.errors.StateError`, and its connections stay as they are.
    """

    def __init__(
        self, handle: Any, options: Any, communicator: Communicator, pieces: list[int] | None
    ) -> None:
        check_new(self, "_channel")
        self._channel = handle
        self._ranks, self._process = communicator.ranks, communicator._process
        self._dtype, self._base_dtype = int(options.dtype), int(options.base_dtype)
        self._in_flight: Request | None = None  # set by waits.c
        self._base: views.Bound | None = None  # set by waits.c
        self._pieces = [int(options.count)] if pieces is None else pieces
        self.count = int(options.count)
        """Elements of the whole tensor; 0 for all-to-all."""

    def start(
        self,
        inputs: Tensor | Sequence[Tensor],
        outputs: Tensor | Sequence[Tensor] | None,
        *,
        scale: float = 1.0,
        step: int = 0,
        key_frame: bool = False,
        choices: Sequence[Choice] | None = None,
    ) -> Request:
        """Start a call, which the returned request's ``wait`` and ``test`` carry on.

        Args:
            inputs: the tensor that is summed, the shard that is gathered, or what is sent
            outputs: where the shard, the whole tensor or what is got goes; None: only the base of
                an all-gather moves on. May be the input, as ``pith_collective.h`` says
            scale: what sums are multiplied by, not 0; ``1 / ranks`` for the mean
            step: another for every call; of an all-gather with a base the next one, from 0
            key_frame: of an all-gather with a base: gather exactly, whatever bases there were; a
                call that failed, on whichever rank, wants the next one to be so
            choices: of sparse sums by frames or union: from what this rank chooses, one for each
                piece; all ranks give them, or none

        Raises:
            BusyError: a call is in flight
            BrokenError: the channel met a timeout or a failing transport before

        """
        _check_process(self._process)
        request = Request(self)
        try:
            self._start(request, inputs, outputs, scale, step, key_frame, choices)
        except BaseException:
            request._stop()
            raise
        return request

    def _start(
        self,
        request: Request,
        inputs: Any,
        outputs: Any,
        scale: float,
        step: int,
        key_frame: bool,
        choices: Sequence[Choice] | None,
    ) -> None:
        call = request._call
        try:
            try:
                call.scale, call.step = scale, step
                check_scale(scale)
            except (OverflowError, TypeError) as wrong:
                raise ArgumentError(f"scale or step: {wrong}") from None
            call.flags = lib.PITH_KEY_FRAME * bool(key_frame)
            if self._base is not None:
                self._base.check()
            if choices is not None:
                request._keep.append(_requests(choices, self._pieces))
                call.requests = request._keep[-1]
            for name, tensors in (("input", inputs), ("output", outputs)):
                if tensors is None:
                    continue
                listed = tensors if isinstance(tensors, (list, tuple)) else [tensors]
                array = ffi.new("pith_view[]", max(len(listed), 1))
                request._keep.append(array)
                given = [(array + i, x, name == "output") for i, x in enumerate(listed)]
                request._keep += of_each(lambda one: views.fill(*one), given)
                setattr(call, name + "s", array)
                setattr(call, name + "_count", len(listed))
        except Exception as wrong:
            # The call is made all the same, and fails on every rank.
            request._local = wrong
            call.inputs, call.outputs = ffi.NULL, ffi.NULL
        status = lib.pithpy_collective_start(self._channel, call, request._request)
        _check_entered(status)
        if status == lib.PITH_ERR_BUSY:
            raise request._local or BusyError("a call is in flight: wait for it first")
        if status:
            raise request._local or _elsewhere(status, None, "wait for it first")

    def run(
        self,
        inputs: Tensor | Sequence[Tensor],
        outputs: Tensor | Sequence[Tensor] | None,
        *,
        scale: float = 1.0,
        step: int = 0,
        key_frame: bool = False,
        choices: Sequence[Choice] | None = None,
    ) -> Report:
        """Start a call and wait for its end; see :meth:`start` and :meth:`Request.wait`."""
        _check_process(self._process)
        request = Request(self)
        try:
            self._start(request, inputs, outputs, scale, step, key_frame, choices)
            return request.wait()
        except BaseException:
            request._stop()
            raise

    def _do(self, call: Callable[..., int], *arguments: Any) -> None:
        """Make a local call of waits.h that takes this channel."""
        if self._base is not None:
            self._base.check()
        self._do_unchecked(call, *arguments)

    def _do_unchecked(self, call: Callable[..., int], *arguments: Any) -> None:
        why = _error()
        status = call(self._channel, why, *arguments)
        _check_entered(status)
        if status:
            # A busy channel's text is of the call in flight.
            busy = status == lib.PITH_ERR_BUSY
            raise from_status(status, None if busy else _said(why))

    # ---- What it is ----

    @property
    def in_flight(self) -> Request | None:
        """The call in flight, whose ``wait`` ends it; None: there is none. Local."""
        return self._in_flight

    @property
    def place(self) -> Place:
        """Where this rank lies among nodes. Local, as all that follows."""
        place = ffi.new("pith_collective_place *", {"size": ffi.sizeof("pith_collective_place")})
        self._do(lib.pithpy_collective_get_place, place)
        return Place(*(int(getattr(place, name)) for name in Place._fields))

    def shard(self, rank: int) -> tuple[int, int]:
        """Return first element and element count of a rank's shard.

        Raises:
            ArgumentError: there is no such rank, or the channel is of all-to-all

        """
        if not 0 <= rank < self._ranks:
            raise ArgumentError(f"rank: found {rank}, expected 0 to {self._ranks - 1}")
        out = ffi.new("uint64_t[2]")
        self._do(lib.pithpy_collective_shard, rank, out, out + 1)
        return int(out[0]), int(out[1])

    def stats(self, hop: int = 0) -> Stats:
        """Return what this rank encoded: hop 0 the first, 1 between nodes, 2 the gathering half."""
        if not 0 <= hop <= 2:
            raise ArgumentError(f"hop: found {hop}, expected 0 to 2")
        out = ffi.new("pith_stats *", {"size": ffi.sizeof("pith_stats")})
        self._do(lib.pithpy_collective_stats, hop, out)
        return Stats(*(int(getattr(out, name)) for name in Stats._fields))

    def chosen(self) -> list[int]:
        """Return how many elements each rank chose in the last sparse sum that ended well.

        Raises:
            ArgumentError: the channel is of another kind

        """
        counts = ffi.new("uint64_t[]", self._ranks)
        self._do(lib.pithpy_collective_chosen, counts)
        return [int(count) for count in counts]

    def sparse_state(self, piece: int = 0) -> Chosen:
        """Return what this rank's choice from a piece came to.

        Raises:
            ArgumentError: there is no such piece, or the channel is of another kind

        """
        if not 0 <= piece < len(self._pieces):
            raise ArgumentError(f"piece: found {piece}, expected 0 to {len(self._pieces) - 1}")
        out = ffi.new("pith_sparse_state *", {"size": ffi.sizeof("pith_sparse_state")})
        self._do(lib.pithpy_collective_sparse_state, piece, out)
        return Chosen(*(getattr(out, name) for name in Chosen._fields))

    # ---- What it remembers ----

    def set_base(self, x: Tensor, step: int = 0) -> None:
        """Set the base of all shards from the whole tensor: the same one on every rank."""
        view, keep = views.new(x)
        self._do(lib.pithpy_collective_set_base, view, step)
        del keep

    def bind_base(self, x: Tensor, step: int = 0) -> None:
        """Use a tensor of yours as the base of all shards, which calls write to from now on.

        The weights of all ranks are then in one place, and not in a replica beside them: gather
        with ``outputs=None``. The channel was made with ``external_base=True``, and keeps the
        memory alive; nobody else may change it. Every rank gives the same values and step.

        Memory that is replaced afterwards (``x.data = ...``) is noticed by the next call, and what
        others wrote to the own shard, too; :meth:`verify_base` looks at all of it.

        Args:
            x: dense, writable, of the base dtype and the whole tensor's element count
            step: of the next call

        Raises:
            DtypeError, ShapeError: it is not that
            StateError, UnsupportedError: the channel has no base, or one of its own

        """
        view, keep = views.new_base(x)
        if self._base_dtype and view.dtype != self._base_dtype:
            found, expected = dtypes.NAMES[view.dtype], dtypes.NAMES[self._base_dtype]
            raise DtypeError(f"base: found dtype {found}, expected {expected}")
        found = lib.pith_view_count(view)
        if found != self.count:
            raise ShapeError(f"base: found {numbered(found, 'elements')}, expected {self.count}")
        if not views.is_dense(view):
            raise ShapeError("base: expected a dense tensor, found strides")
        bound = views.Bound(x, keep)
        self._do_unchecked(lib.pithpy_collective_bind_base, view.data, step, id(self), id(bound))

    def get_base(self, out: Tensor | None = None, *, dtype: Any = None) -> Tensor:
        """Return a copy of the whole base.

        Raises:
            ShapeError: out has another element count
            StateError: there is no base, or a failed call left it invalid

        """
        if out is None:
            if not self._base_dtype:
                raise StateError("the channel has no base")
            number = self._base_dtype if dtype is None else dtypes.number_of(dtype)
            out = views.empty((self.count,), dtype, number)
        view, keep = views.new(out, write=True)
        self._do(lib.pithpy_collective_get_base, view)
        del keep
        return out

    def base_hash(self) -> int:
        """Return one number of all bases and steps, equal on ranks with equal bases."""
        answer = ffi.new("uint64_t *")
        self._do(lib.pithpy_collective_base_hash, answer)
        return int(answer[0])

    def verify_base(self) -> None:
        """Read the base and compare its hash.

        Raises:
            BaseMismatchError: the memory was changed by others

        """
        self._do(lib.pithpy_collective_verify_base)

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
        self._do(lib.pithpy_collective_get_residual, first, count, check_scale(scale), data)
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
        self._do(lib.pithpy_collective_set_residual, first, count, data)
        del keep

    def rollback(self, step: int) -> None:
        """Take back a step, in every hop: every rank does so, or none."""
        self._do(lib.pithpy_collective_rollback, step)

    def reset(self) -> None:
        """Make the channel remember nothing."""
        self._do(lib.pithpy_collective_reset)

    def save(self) -> bytes:
        """Return everything this rank's channel remembers."""
        bytes_, written = ffi.new("uint64_t *"), ffi.new("size_t *")
        self._do(lib.pithpy_collective_save_bytes, bytes_)
        memory = views.memory(bytes_[0])
        self._do(lib.pithpy_collective_save, memory, bytes_[0], written)
        return bytes(ffi.buffer(memory, written[0]))

    def load(self, saved: Buffer) -> None:
        """Take up what :meth:`save` of this rank returned, among as many ranks.

        Raises:
            FrameError: the bytes are not that; the channel remembers nothing then

        """
        data, length, keep = views.bytes_of(saved, "saved")
        self._do(lib.pithpy_collective_load, data, length)
        del keep

    def close(self) -> None:
        """Close the connections and give the memory back.

        Raises:
            BusyError: a call is in flight

        """
        status = lib.pithpy_collective_close(self._channel)
        _check_entered(status)
        if status:
            raise BusyError("a call is in flight: wait for it first")

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the attributes would speak on the same connections.
        raise TypeError("channels are not copied or pickled: save() is, and load() takes it up")


def _requests(choices: Sequence[Choice], pieces: list[int]) -> Any:
    """Return a ``pith_sparse_request[]``, one for each piece."""
    if len(choices) != len(pieces):
        raise ArgumentError(f"choices: found {len(choices)}, expected one for each piece")
    requests = ffi.new("pith_sparse_request[]", len(pieces))
    for request, choice, piece in zip(requests, choices, pieces, strict=True):
        request.size = ffi.sizeof("pith_sparse_request")
        try:
            request.first = piece if choice.elements == 0 else choice.first
            request.count, request.k = choice.elements or 0, choice.k
            request.threshold = choice.threshold
        except (OverflowError, TypeError) as wrong:
            raise ArgumentError(f"choices: {choice}: {wrong}") from None
    return requests


class Partitions:
    """The parts of a tensor from which ranks choose in a sparse sum by union, disjoint.

    They go round, so that each rank sees every part. All ranks compute the same from the counts
    that :meth:`Channel.chosen` tells all:

        parts = pith.collective.Partitions(g.size, ranks.ranks)
        channel.run(g, g, step=step, choices=[parts.choice(rank)])
        parts.update(channel.chosen())

    Args:
        n: elements of the tensor
        ranks: their number
        moving: the parts grow and shrink until ranks choose alike many (ExDyna); False: they are of
            one size (MiCRO)

    Raises:
        ArgumentError: no ranks, or for moving parts more than 256

    """

    def __init__(self, n: int, ranks: int, *, moving: bool = True) -> None:
        if ranks < 1:
            raise ArgumentError(f"ranks: found {ranks}, expected 1 or more")
        self._n, self._ranks, self._step = n, ranks, 0
        self._moving = sparse.ExDyna(n, ranks) if moving else None
        self._before: tuple[int, sparse.ExDyna | None] | None = None

    def choice(self, rank: int) -> Choice:
        """Return what a rank chooses from in this step."""
        if not 0 <= rank < self._ranks:
            raise ArgumentError(f"rank: found {rank}, expected 0 to {self._ranks - 1}")
        if self._moving:
            return Choice(*self._moving.range(rank))
        return Choice(*sparse.partition(self._n, self._ranks, rank, self._step))

    def update(self, counts: Sequence[int]) -> None:
        """Go on to the next step, when so many elements were chosen by each rank in this one."""
        if len(counts) != self._ranks:
            raise ArgumentError(f"counts: found {len(counts)}, expected {self._ranks}")
        before = (self._step, copy(self._moving))
        if self._moving:
            self._moving.update(counts)
        self._step, self._before = self._step + 1, before

    def rollback(self) -> None:
        """Take the last update back, once."""
        if self._before is None:
            return
        self._step, self._moving = self._before
        self._before = None


class Deft:
    """Pieces of tensors from which ranks choose in a sparse sum by union, by their norms (DEFT).

    From each piece one rank chooses, as many elements as its norm has of all norms; ranks have
    pieces of like cost, which go round. All ranks compute the same from norms that are the same
    on all, for instance the means of what each has:

        layers = pith.collective.Deft([p.size for p in parameters], ranks.ranks)
        spec = "topk:density=1,control=exact,ef=full"
        channel = ranks.channel("sparse_union", spec, count=n, dtype="f32", pieces=layers.pieces)
        own = layers.norms(channel.get_residual() + g)  # then summed over the ranks
        channel.run(g, g, step=step, choices=layers.choices(norms, k, rank, step))

    With density=1 no piece has a hard limit of its own: the choices say how many.

    Args:
        sizes: elements of each tensor
        ranks: their number

    Raises:
        ArgumentError: no ranks

    """

    def __init__(self, sizes: Iterable[int], ranks: int) -> None:
        self._ranges, self._ranks = sparse.deft_pieces(sizes, ranks), ranks
        self.pieces = [count for _, count in self._ranges]
        """Elements of each piece; a tensor of more than 1/ranks of all elements has several."""

    def norms(self, x: Tensor) -> list[float]:
        """Return the 2-norm of each piece of a flat tensor, of its finite values."""
        return [sparse.norm(x[first : first + count]) for first, count in self._ranges]

    def choices(self, norms: Iterable[float], k: int, rank: int, step: int) -> list[Choice]:
        """Return what a rank chooses from each piece in a step.

        A piece that is sent whole is chosen by every rank.

        Args:
            norms: of each piece, the same on every rank
            k: elements that all ranks choose together, about: from each piece at least one
            rank: this one
            step: the pieces go round with it

        Raises:
            ArgumentError: a norm that is negative or not finite, not as many as pieces, no such
                rank

        """
        if not 0 <= rank < self._ranks:
            raise ArgumentError(f"rank: found {rank}, expected 0 to {self._ranks - 1}")
        ks = sparse.deft_counts(self._ranges, norms, k)
        bins = sparse.deft_pack(self._ranges, ks, self._ranks)
        own = sparse.part(self._ranks, rank, step)
        return [
            Choice(k=k) if bin_ in (own, None) else Choice(elements=0)
            for k, bin_ in zip(ks, bins, strict=True)
        ]


def _floats(x: Tensor, count: int | None, what: str, write: bool) -> tuple[Any, Any]:
    """Return ``float *`` of a dense f32 tensor, and what must be kept with it."""
    view, keep = views.new(x, write)
    if view.dtype != lib.PITH_F32 or not views.is_dense(view):
        raise ArgumentError(f"{what}: expected a dense tensor of f32")
    found = lib.pith_view_count(view)
    if count is not None and found != count:
        raise ArgumentError(f"{what}: found {numbered(found, 'elements')}, expected {count}")
    return ffi.cast("float *", view.data), (view, keep)


def _error() -> Any:
    """Return a new ``pith_error *``."""
    return ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})


def _said(why: Any) -> Any:
    """Return a ``pith_error *`` that has a text, or None."""
    return why if why.text[0] != b"\0" else None


def _check_process(process: int) -> None:
    """Raise in a process that was forked: what it says on connections it would say as another."""
    if os.getpid() != process:
        raise StateError(
            f"the channel is process {process}'s, from which this one was forked: make another"
            " communicator"
        )


def _check_entered(status: int) -> None:
    """Raise where a call of waits.h found the channel in use, or closed."""
    if status == lib.PITHPY_INSIDE:
        raise BusyError("another thread, or a call that a handler interrupts, uses this channel")
    if status == lib.PITHPY_CLOSED:
        raise StateError("the channel was closed")


def _elsewhere(status: int, why: Any, where: str) -> Error:
    """Return the exception for a status that this rank, if why is None, did not meet itself."""
    if status in (lib.PITH_ERR_TIMEOUT, lib.PITH_ERR_TRANSPORT, lib.PITH_ERR_BROKEN):
        where = "make new channels, with ranks that all live, from what was saved last"
    elif why is not None:
        return from_status(status, why)
    error = from_status(status)
    # Of an argument only the rank that gave it can say more.
    if status == lib.PITH_ERR_ARG:
        where = f"a rank refused the call; {where}, and its error says why"
    else:
        where = f"{error.text}; {where}"
    return type(error)(where, status=status)


def _to(raised: list[BaseException]) -> int:
    """Return where C puts what handlers of signals raise: nowhere but in the main thread."""
    return id(raised) if threading.current_thread() is threading.main_thread() else 0


class Request:
    """A call in flight. Its tensors stay as they are until it has ended."""

    def __init__(self, channel: Channel) -> None:
        check_new(self, "_request")
        self._channel: Channel | None = channel
        self._call = ffi.new("pith_collective_call *", {"size": ffi.sizeof("pith_collective_call")})
        self._keep: list[Any] = []
        self._local: Exception | None = None
        size = ffi.sizeof("pith_collective_report")
        self._report = ffi.new("pith_collective_report *", {"size": size})
        self._error = _error()
        self._request = ffi.new(
            "pithpy_request *",
            {
                "report": self._report,
                "error": self._error,
                "object": id(self),
                "owner": id(channel),
            },
        )
        self._result: Report | Exception | None = None

    def test(self) -> bool:
        """Do what can be done without waiting; whether the call has ended, well or not."""
        channel = self._channel
        if channel is not None:
            _check_process(channel._process)
            # Another thread that is inside does what can be done.
            lib.pithpy_collective_test(channel._channel, self._request)
            self._settle()
        return self._channel is None

    def wait(self) -> Report:
        """Wait for the end of the call.

        Raises:
            TimedOutError: a rank died, hangs, or did not make the call
            TransportError: a rank is gone, or broke the connection
            Error: any other: the same on every rank; the text says more on the rank that failed

        """
        self._wait(False)
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None
        return self._result

    def _stop(self) -> None:
        """End a call that nobody will wait for, if it has started, without waiting for others."""
        if self._request.request:
            self._wait(True)

    def _wait(self, stop: bool) -> None:
        channel = self._channel
        if channel is None:
            return
        _check_process(channel._process)
        raised: list[BaseException] = []
        to = _to(raised)
        status = lib.pithpy_collective_wait(channel._channel, self._request, stop, to)
        self._settle()
        if raised:
            raise raised[0]
        _check_entered(status)

    def _settle(self) -> None:
        """Take the result of a call that has ended; an exception of a handler may end this."""
        r = self._report
        if self._channel is None or not self._request.ended:
            return
        if r.status == 0:
            self._result = Report(
                int(r.failed_rank),
                bool(r.compressed),
                int(r.levels),
                (int(r.sent_bytes[0]), int(r.sent_bytes[1])),
                (int(r.sent_values[0]), int(r.sent_values[1])),
                float(r.encode_seconds),
                float(r.recode_seconds),
                float(r.decode_seconds),
                float(r.cpu_seconds),
                float(r.wait_seconds),
                float(r.total_seconds),
                int(r.chosen),
                int(r.summed),
            )
        elif self._local is not None:
            self._result = self._local
        else:
            where = f"rank {r.failed_rank} met it" if r.failed_rank >= 0 else "another rank met it"
            self._result = _elsewhere(r.status, _said(self._error), where)
        self._keep, self._channel = [], None

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("calls in flight are not copied or pickled: wait for their end")


def wait_all(requests: Iterable[Request]) -> list[Report]:
    """Wait for calls of several channels, working on all of them in turn.

    Whoever waits for one channel does not work on the others: ranks that wait for theirs in
    different orders would wait for each other. Here the order does not matter.

    Args:
        requests: of any channels, ended or not

    Returns:
        The report of each.

    Raises:
        Error: what :meth:`Request.wait` raises, of the call with the lowest status, when all have
            ended; ``item`` is its number, and ``results`` has the reports, None where a call failed
        BusyError: a handler interrupts a call on one of the channels

    """
    listed = list(requests)
    for i, request in enumerate(listed):
        if not isinstance(request, Request):
            raise TypeError(f"requests[{i}]: expected a Request, found a {type(request).__name__}")
    flying, channels = [], []
    for request in dict.fromkeys(listed):
        channel = request._channel
        if channel is not None:
            _check_process(channel._process)
            flying.append(request)
            channels.append(channel._channel)
    raised: list[BaseException] = []
    handles = ffi.new("pithpy_request *[]", [request._request for request in flying])
    opened = ffi.new("pithpy_channel *[]", channels)
    status = lib.pithpy_collective_wait_all(opened, handles, len(flying), _to(raised))
    for request in flying:
        request._settle()
    if raised:
        raise raised[0]
    _check_entered(status)
    results = [request._result for request in listed]
    failed = [(i, one) for i, one in enumerate(results) if isinstance(one, Exception)]
    if failed:
        i, error = min(failed, key=lambda one: getattr(one[1], "status", 0))
        if isinstance(error, Error):
            error.item = i
            error.results = [one if isinstance(one, Report) else None for one in results]
        raise error
    return [one for one in results if isinstance(one, Report)]
