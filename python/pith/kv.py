"""Caches of keys and values that grow token by token, and pages of pools.

SPDX-License-Identifier: Apache-2.0

Plans are of codec kv with ``order=tokens`` and ``entropy=none``, one slot, no base, and a shape
``[tokens, heads, dim]`` or ``[tokens, dim]`` of at least a page of tokens (key ``page``, 128 by
default), which are as many as a cache holds at a time: :func:`check` says what is wrong with
another one.
One plan serves any number of caches. Tensors of Hugging Face, ``[batch, heads, tokens, dim]``, are
given as ``x[b].transpose(0, 1)``: nothing is moved, since tensors may have any strides.
"""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, cast

import numpy as np

from . import dtypes, frames, views
from ._core import ffi, lib
from .errors import (
    ArgumentError,
    DtypeError,
    OutOfMemoryError,
    ShapeError,
    SpaceError,
    StateError,
    check_new,
    from_status,
    numbered,
    of_each,
)
from .plan import Plan, Work, check_status, check_work, integer, unsigned
from .stream import Stats, borrow, marks_of
from .views import Buffer, Tensor


def check(plan: Plan) -> None:
    """Say why a plan has no caches and pages.

    Raises:
        UnsupportedError: what the plan is that it may not be
        TypeError: it is no plan

    """
    _check_plan(plan, "plan")
    error = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
    status = lib.pith_kv_check(plan._plan, error)
    if status:
        raise from_status(status, error)


def _check_plan(plan: Plan, what: str) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"{what}: expected a pith.Plan, found {type(plan).__name__}")


class Cache:
    """The keys or the values of one sequence.

    The newest tokens (key ``window`` of the spec) are kept exactly, older ones are coded once and
    from then on left as they are. Calls that only read run side by side; one that meets a call that
    changes the cache, or the other way round, raises :class:`~pith.errors.BusyError`. On failure a
    cache is as before.

    Args:
        plan: codec, dtype and shape; see :func:`check`
        tokens: how many tokens can be appended in all; 0: as many as the plan has, more than which
            are never held at a time. With ``axis=channel``, add a page for every time that finished
            tokens are to be cut off
        work: scratch memory and threads to use instead of the calling thread's own

    Raises:
        UnsupportedError: the plan has no caches

    """

    def __init__(self, plan: Plan, tokens: int = 0, *, work: Work | None = None) -> None:
        check_new(self, "_cache")
        check(plan)
        check_work(work)
        self._start(plan, lib.pith_kv_bytes(plan._plan, unsigned("tokens", tokens)), work)
        made = ffi.new("pith_kv **")
        error = ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})
        status = lib.pith_kv_init(plan._plan, self._memory, self._bytes, made, error)
        if status:
            raise from_status(status, error)
        self._cache = made[0]

    def _start(self, plan: Plan, bytes_: int, work: Work | None) -> None:
        if not bytes_:
            raise OutOfMemoryError("a cache of so many tokens is larger than any memory")
        self._plan, self._work, self._bytes = plan, work, int(bytes_)
        self._memory = views.memory(self._bytes)
        self._parent: Cache | None = None
        self._shared = 0  # first tokens, of which pages are read where the parent has them
        self._forks: set[weakref.ref[Cache]] = set()  # that share, and live
        self._cutting: list[str] = []  # calls that cut tokens off, under way
        self._cut: object = None  # another one whenever such a call begins or ends
        self._mark = ffi.new("intptr_t *")

    def _do(self, call: Callable[..., int], *arguments: Any) -> None:
        """Make a call of helpers.h that takes a work and this cache."""
        with borrow(self._work, (self._plan,)) as work:
            check_status(call(work, self._cache, self._mark, *arguments), work)

    @property
    def plan(self) -> Plan:
        """The plan that the cache was made for."""
        return self._plan

    def __len__(self) -> int:
        return int(lib.pith_kv_count(self._cache))

    @property
    def finished(self) -> int:
        """Tokens that are coded; the newer ones are exact."""
        return int(lib.pith_kv_finished(self._cache))

    @property
    def remaining(self) -> int:
        """Tokens that can still be appended."""
        return int(lib.pith_kv_remaining(self._cache))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the cache takes."""
        return self._bytes

    @property
    def stats(self) -> Stats:
        """What appending met: ``poisoned`` and ``saturated``; the others are 0."""
        out = ffi.new("pith_stats *", {"size": ffi.sizeof("pith_stats")})
        status = lib.pithpy_kv_stats(self._cache, self._mark, out)
        if status:
            raise from_status(status)
        return Stats(*(int(getattr(out, name)) for name in Stats._fields))

    def append(self, x: Tensor) -> None:
        """Append tokens.

        Args:
            x: ``[n, heads, dim]``, or ``[n, dim]`` of one head, of the plan's dtype

        Raises:
            SpaceError: more than :attr:`remaining`
            DtypeError, ShapeError: x is not that

        """
        append([self], [x], work=self._work)

    def read(
        self,
        first: int = 0,
        count: int | None = None,
        *,
        head: int = 0,
        heads: int | None = None,
        out: Tensor | None = None,
        dtype: Any = None,
    ) -> Tensor:
        """Return tokens ``[first, first + count)`` of heads ``[head, head + heads)``.

        Args:
            first: first token
            count: number of tokens; None: to the end
            head: first head
            heads: number of heads; None: to the last
            out: ``[count, heads, dim]`` of dtype f32, bf16 or f16
            dtype: of the new tensor when out is None; the plan's

        Returns:
            out, or a new tensor ``[count, heads, dim]``.

        Raises:
            ArgumentError: the range does not lie in the cache

        """
        (out,) = read(
            [self],
            first,
            count,
            head=head,
            heads=heads,
            out=None if out is None else [out],
            dtype=dtype,
            work=self._work,
        )
        return out

    def truncate(self, tokens: int) -> None:
        """Keep the first tokens. Those that were coded stay as they are.

        Raises:
            ArgumentError: more than there are
            StateError: a fork that is still held reads more where this cache has them

        """
        tokens = unsigned("tokens", tokens)
        with self._cuts(min(tokens, len(self)), f"truncate({tokens})"):
            self._do(lib.pithpy_kv_truncate, tokens)
        self._limit_shared(tokens)

    @contextlib.contextmanager
    def _cuts(self, tokens: int, what: str) -> Iterator[None]:
        """Be around a call that cuts off all but the first tokens; raise as _check_forks."""
        self._cutting.append(what)
        self._cut = object()
        try:
            self._check_forks(tokens, what)
            yield
        finally:
            self._cut = object()
            self._cutting.pop()

    def _limit_shared(self, tokens: int) -> None:
        self._shared = min(self._shared, tokens)
        if not self._shared:
            self._parent = None  # whose memory is not kept for nothing

    def _check_forks(self, tokens: int, what: str) -> None:
        """Raise where a fork reads more than the first tokens where this cache has them."""
        forks = [fork for ref in list(self._forks) if (fork := ref()) is not None]
        shared = max((fork._shared for fork in forks), default=0)
        if shared > tokens:
            raise StateError(
                f"{what} of a cache whose first {numbered(shared, 'tokens')} a fork reads: fork"
                " with copy=True, or drop the fork before"
            )

    def fork(self, tokens: int | None = None, *, reserve: int = 0, copy: bool = False) -> Cache:
        """Return a second cache that begins with this one's first tokens.

        Args:
            tokens: how many; None: all
            reserve: tokens that can be appended to it, at least
            copy: copy everything. Else complete pages are read where this cache has them: it is not
                truncated below ``tokens`` or loaded as long as the other one is held, which keeps
                all of this one's memory, also where nothing else holds it

        Raises:
            ArgumentError: more tokens than there are; reserve below 0

        """
        reserve = unsigned("reserve", reserve)
        tokens = len(self) if tokens is None else unsigned("tokens", tokens)
        page = int(lib.pith_kv_page_tokens(self._plan._plan))
        need = _window(self._plan) + reserve + page + (min(tokens, len(self)) if copy else 0)
        if not copy:
            cut = self._cut
            child = self._fork(tokens, 0, need)
            child._parent, child._shared = self, tokens
            self._forks.add(weakref.ref(child, self._forks.discard))
            if self._cutting or self._cut is not cut:
                # A call of another thread may not have seen the child, and cut what it shares.
                return self.fork(tokens, reserve=reserve, copy=True)
            return child
        # Where finished tokens were cut off, pages have places that stay empty. How many pages
        # there are is not known here, but that each has a token.
        most = min(reserve, self._plan._shape[0] - tokens)
        spare = 0
        while True:
            try:
                child = self._fork(tokens, lib.PITH_KV_COPY, need + spare * page)
            except SpaceError:
                if spare >= tokens:
                    raise
            else:
                if child.remaining >= most or spare >= tokens:
                    return child
            spare = max(2 * spare, 1)

    def _fork(self, tokens: int, flags: int, need: int) -> Cache:
        """Return a fork in memory to which so many tokens could be appended."""
        child = Cache.__new__(Cache)
        bytes_ = lib.pith_kv_bytes(self._plan._plan, need) if need < 1 << 64 else 0
        child._start(self._plan, bytes_, self._work)
        made = ffi.new("pith_kv **")
        self._do(lib.pithpy_kv_fork, tokens, flags, child._memory, child._bytes, made)
        child._cache = made[0]
        return child

    def save(self) -> bytes:
        """Return the cache as frames: what is coded, then the exact tokens.

        Damage to their values is found by a cache whose plan has ``checksums=True``, and else
        decodes to other values.
        """
        capacity, bytes_ = 0, ffi.new("size_t *", 1)
        while bytes_[0] > capacity:  # first, and when the cache has grown since
            capacity = bytes_[0]
            memory = views.memory(capacity)
            self._do(lib.pithpy_kv_save, memory, capacity, bytes_)
        return bytes(ffi.buffer(memory, bytes_[0]))

    def load(self, saved: Buffer) -> None:
        """Replace the tokens by those that :meth:`save` returned.

        A cache that was made for ``window + tokens + page`` has space for so many saved tokens,
        ``window`` and ``page`` being the keys of the spec. With ``axis=channel`` add a page for
        every time that finished tokens were cut off before they were saved, also by a fork.

        Raises:
            FrameError: the bytes are not that; with ``checksums=True`` of the plan, any damage
            MismatchError: they are of another setting
            SpaceError: they do not fit
            StateError: a fork that is still held reads tokens where this cache has them

        """
        data, length, keep = views.bytes_of(saved, "saved")
        with self._cuts(0, "load()"):
            self._do(lib.pithpy_kv_load, data, length)
        self._limit_shared(0)
        del keep

    def append_delta(self, x: Tensor, base: Tensor) -> None:
        """Append what tokens differ from a base by, and move the base to what readers get.

        Args:
            x: ``[n, heads, dim]`` of the plan's dtype
            base: the same shape, dense, f32, bf16 or f16; written

        Raises:
            UnsupportedError: not a plan for differences along layers (XQuant-CL), which has
                ``axis=token``, ``window=0``, ``codebook=uniform``, ``rotate_heads=off`` and
                ``outliers=none``, the defaults

        """
        view, keep = views.new(x)
        base_view, keep_base = views.new(base, write=True)
        self._do(lib.pithpy_kv_append_delta, view, base_view)
        del keep, keep_base

    def read_add(self, base: Tensor, first: int = 0, count: int | None = None) -> Tensor:
        """Add tokens to a base, ``base := round(base + decoded)``: the reader's side of deltas.

        Args:
            base: ``[count, heads, dim]``, dense, f32, bf16 or f16; written
            first: first token
            count: number of tokens; None: to the end

        Returns:
            base

        Raises:
            ArgumentError: the range does not lie in the cache
            DtypeError, ShapeError: base is not that
            UnsupportedError: as :meth:`append_delta`

        """
        first = unsigned("first", first)
        count = None if count is None else unsigned("count", count)
        count = max(len(self) - first, 0) if count is None else count
        view, keep = views.new(base, write=True)
        self._do(lib.pithpy_kv_read_add, first, count, view)
        del keep
        return base

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the attributes would be a second name of the same tokens.
        raise TypeError("caches are not copied or pickled: fork() or save() makes another one")

    def __repr__(self) -> str:
        return f"<pith.kv.Cache {self._plan._spec!r} of {numbered(len(self), 'tokens')}>"


def _token_shape(plan: Plan) -> tuple[int, int, int]:
    shape = plan._shape
    return (shape[0], 1, shape[1]) if len(shape) == 2 else (shape[0], shape[1], shape[2])


def _window(plan: Plan) -> int:
    found = re.search(r"\bwindow=(\d+)", plan._spec)
    if found:
        return int(found[1])
    keys = next(codec.keys for codec in frames.codecs() if codec.name == "kv")
    return int(next(key.initial for key in keys if key.name == "window"))


def _check_caches(caches: Sequence[Cache]) -> None:
    """Raise unless this is a list of caches.

    Raises:
        TypeError: it is a cache, which has a length as lists have, or one of it is none

    """
    if isinstance(caches, Cache):
        raise TypeError("caches: expected a list of them, found a pith.kv.Cache")
    for i, cache in enumerate(caches):
        if not isinstance(cache, Cache):
            raise TypeError(f"caches[{i}]: expected a pith.kv.Cache, found {type(cache).__name__}")


def append(caches: Sequence[Cache], tensors: Iterable[Tensor], *, work: Work | None = None) -> None:
    """Append tokens to each of several caches in one call; on failure all are as before.

    Args:
        caches: no cache twice
        tensors: for each cache what :meth:`Cache.append` takes
        work: scratch memory and threads to use instead of the calling thread's own

    Raises:
        As :meth:`Cache.append`; ``item`` is the number of the cache.

    """
    _check_caches(caches)
    tensors = list(tensors)
    if len(tensors) != len(caches):
        raise ArgumentError(f"tensors: found {len(tensors)}, expected {len(caches)}")
    if not caches:
        return
    array = ffi.new("pith_view[]", len(caches))
    given = [(array + i, x) for i, x in enumerate(tensors)]
    keep = of_each(lambda one: views.fill(*one), given)
    handles = ffi.new("pith_kv *[]", [cache._cache for cache in caches])
    marks = marks_of(cache._mark for cache in caches)
    with borrow(work, [cache._plan for cache in caches]) as w:
        check_status(lib.pithpy_kv_append_list(w, *marks, handles, array, len(caches)), w)
    del keep


def append_batch(caches: Sequence[Cache], x: Tensor, *, work: Work | None = None) -> None:
    """Append ``x[i]`` to cache i: faster than :func:`append` for caches of one plan.

    Args:
        caches: of one plan, none twice
        x: ``[len(caches), n, heads, dim]``, or ``[len(caches), n, dim]`` of one head
        work: scratch memory and threads to use instead of the calling thread's own

    Raises:
        As :func:`append`.

    """
    _check_caches(caches)
    view, keep = views.new(x)
    like, step = _first_of(view, "x")
    if view.shape[0] != len(caches):
        raise ShapeError(f"x: found {view.shape[0]} sequences, expected {len(caches)}")
    if not caches:
        return
    to = ffi.new("pith_kv_tokens[]", len(caches))
    data = ffi.cast("char *", view.data)
    for i, cache in enumerate(caches):
        to[i].cache, to[i].values = cache._cache, data + i * step
    marks = marks_of(cache._mark for cache in caches)
    with borrow(work, [cache._plan for cache in caches]) as w:
        check_status(lib.pithpy_kv_append_batch_list(w, *marks, like, to, len(caches)), w)
    del keep


def read(
    caches: Sequence[Cache],
    first: int | Sequence[int] = 0,
    count: int | Sequence[int] | None = None,
    *,
    head: int = 0,
    heads: int | None = None,
    out: Sequence[Tensor] | None = None,
    dtype: Any = None,
    work: Work | None = None,
) -> list[Tensor]:
    """Read a range of tokens of each of several caches in one call, with all threads.

    Args:
        caches: also one cache several times
        first: first token, the same of all caches or of each
        count: number of tokens, the same of all or of each; None: to the end
        head: first head
        heads: number of heads; None: to the last
        out: for each cache ``[count, heads, dim]`` of dtype f32, bf16 or f16, no two overlapping
        dtype: of the new tensors when out is None; the plan's
        work: scratch memory and threads to use instead of the calling thread's own

    Returns:
        out, or new tensors, for each cache ``[count, heads, dim]``.

    Raises:
        As :meth:`Cache.read`; ``item`` is the number of the cache. Nothing is written then.

    """
    _check_caches(caches)
    firsts, counts = _of_each(first, caches, "first"), _of_each(count, caches, "count")
    if out is not None and len(out) != len(caches):
        raise ArgumentError(f"out: found {len(out)}, expected {len(caches)}")
    if not caches:
        return []
    ranges = ffi.new("pith_kv_range[]", len(caches))
    outs: list[Tensor] = []

    def fill(i: int) -> Any:
        _set_range(ranges[i], caches[i], firsts[i], counts[i], head, heads)
        outs.append(_new_tokens(ranges[i], caches[i], dtype) if out is None else out[i])
        return views.fill(ffi.addressof(ranges[i], "view"), outs[i], write=True)

    keep = of_each(fill, range(len(caches)))
    marks = marks_of(cache._mark for cache in caches)
    with borrow(work, [cache._plan for cache in caches]) as w:
        check_status(lib.pithpy_kv_read_list(w, *marks, ranges, len(caches)), w)
    del keep
    return outs


def _of_each(value: Any, caches: Sequence[Cache], what: str) -> Sequence[Any]:
    """Return a number, or None, for each cache, which `value` is or has.

    Raises:
        ArgumentError: it has more numbers, or fewer
        TypeError: it is neither an integer nor a sequence

    """
    # An integer of NumPy is no int, and a tensor of one number has a length that raises.
    if value is None or isinstance(value, Integral) or getattr(value, "ndim", 1) == 0:
        return [value] * len(caches)
    if isinstance(value, str) or not hasattr(value, "__len__"):
        integer(what, value)
    if len(value) != len(caches):
        raise ArgumentError(f"{what}: found {len(value)}, expected {len(caches)}")
    return cast("Sequence[Any]", value)


def _set_range(
    to: Any, cache: Cache, first: int, count: int | None, head: int, heads: int | None
) -> None:
    """Set all of a ``pith_kv_range`` but the view."""
    first, head = unsigned("first", first), unsigned("head", head, 32)
    count = max(len(cache) - first, 0) if count is None else unsigned("count", count)
    heads = (
        max(_token_shape(cache._plan)[1] - head, 0)
        if heads is None
        else unsigned("heads", heads, 32)
    )
    to.cache, to.first, to.count, to.head, to.heads = cache._cache, first, count, head, heads


def _new_tokens(range_: Any, cache: Cache, dtype: Any) -> Tensor:
    """Return a new tensor for a range that lies in the cache."""
    _, heads, dim = _token_shape(cache._plan)
    if range_.first + range_.count > len(cache) or range_.head + range_.heads > heads:
        raise ArgumentError(
            f"found tokens up to {range_.first + range_.count} and heads up to"
            f" {range_.head + range_.heads}, expected at most {len(cache)} and {heads}"
        )
    number = cache._plan._number if dtype is None else dtypes.number_of(dtype)
    return views.empty((range_.count, range_.heads, dim), dtype, number)


def _first_of(view: Any, what: str) -> tuple[Any, int]:
    """Return the view of x[0], and the bytes from it to that of x[1]."""
    if view.ndim < 1:
        raise ShapeError(f"{what}: found a scalar, expected at least one dimension")
    like = ffi.new("pith_view *")
    like.data, like.dtype, like.ndim = view.data, view.dtype, view.ndim - 1
    for i in range(view.ndim - 1):
        like.shape[i], like.stride[i] = view.shape[i + 1], view.stride[i + 1]
    return like, int(view.stride[0]) * dtypes.BYTES[view.dtype]


# ---- Pages --------------------------------------------------------------------------------------


def page_tokens(plan: Plan) -> int:
    """Return the tokens of a page: the key ``page`` of the spec."""
    check(plan)
    return int(lib.pith_kv_page_tokens(plan._plan))


def page_bytes(plan: Plan, tokens: int | None = None) -> int:
    """Return the bytes of a page of so many tokens; None: of a whole page."""
    tokens = page_tokens(plan) if tokens is None else integer("tokens", tokens)
    if not 1 <= tokens <= page_tokens(plan):
        raise ArgumentError(f"tokens: found {tokens}, expected 1 to {page_tokens(plan)}")
    return int(lib.pith_kv_page_bytes(plan._plan, tokens))


def page_bound(plan: Plan, page: Buffer, tokens: int | None = None) -> float:
    """Return the largest error of the values of a page; NaN where a group decodes to NaN."""
    data, length, keep = views.bytes_of(page, "page")
    tokens = page_tokens(plan) if tokens is None else integer("tokens", tokens)
    if length < page_bytes(plan, tokens):
        raise ArgumentError(
            f"page: found {numbered(length, 'bytes')}, expected {page_bytes(plan, tokens)}"
        )
    bound = float(lib.pith_kv_page_bound(plan._plan, data, tokens))
    del keep
    return bound


def idempotent_from(plan: Plan) -> float:
    """Return from which scale on a page that is decoded and encoded again is the same page.

    0: always; infinity: not promised.
    """
    _check_plan(plan, "plan")
    return float(lib.pith_kv_idempotent_from(plan._plan))


def encode_pages(
    plan: Plan,
    pool: Tensor,
    block_ids: Any,
    out: Tensor | None = None,
    *,
    tokens: Any = None,
    work: Work | None = None,
) -> Tensor:
    """Encode blocks of a pool as pages of one size, which stand alone and have no header.

    Args:
        plan: of the pages; its dtype is the pool's
        pool: ``[blocks, page tokens, heads, dim]``, any strides
        block_ids: which blocks, a list or an array of integers
        out: ``[len(block_ids), page_bytes(plan)]`` bytes, u8, rows of any stride; None: a new array
        tokens: of every page, where some are shorter, which zeros follow; None: all of a page
        work: scratch memory and threads to use instead of the calling thread's own

    Returns:
        out

    Raises:
        ArgumentError: a block that the pool does not have, or tokens that a page does not
        DtypeError, ShapeError: the pool is not of the plan; tokens are no integers

    """
    ids = _block_ids(block_ids)
    if out is None:
        out = np.empty((len(ids), page_bytes(plan)), np.uint8)
    _pages(plan, pool, ids, out, tokens, work, True)
    return out


def decode_pages(
    plan: Plan,
    pages: Tensor,
    pool: Tensor,
    block_ids: Any,
    *,
    tokens: Any = None,
    work: Work | None = None,
) -> Tensor:
    """Decode pages into blocks of a pool, the reverse of :func:`encode_pages`.

    Args:
        plan: of the pages
        pages: ``[len(block_ids), page_bytes(plan)]`` bytes, u8; any bytes decode to something
        pool: ``[blocks, page tokens, heads, dim]`` of dtype f32, bf16 or f16, any strides
        block_ids: which blocks are written, none twice
        tokens: of every page, where some are shorter; what follows them in a block stays as it was
        work: scratch memory and threads to use instead of the calling thread's own

    Returns:
        pool

    Raises:
        As :func:`encode_pages`.

    """
    ids = _block_ids(block_ids)
    if len(np.unique(ids)) != len(ids):
        raise ArgumentError("block_ids: a block is named twice")
    _pages(plan, pool, ids, pages, tokens, work, False)
    return pool


def _block_ids(block_ids: Any) -> Any:
    ids = _array("block_ids", block_ids)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise DtypeError("block_ids: expected a list of integers")
    largest = ids.max(initial=0) if ids.dtype == np.uint64 else 0
    if largest >= 1 << 63:
        raise ArgumentError(f"block_ids: found {largest}, and no pool has so many blocks")
    return np.ascontiguousarray(ids, np.int64)


def _array(what: str, value: Any) -> Any:
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        raise DtypeError(f"{what}: expected a list of integers") from None


def _tokens(tokens: Any, n: int, page: int) -> Any:
    """Return how many tokens each of n pages has; 0: all."""
    counts = np.zeros(n, np.uint32)
    if tokens is not None:
        given = _array("tokens", tokens)
        if given.size and given.dtype.kind not in "iu":
            raise DtypeError(f"tokens: expected integers, found {given.dtype}")
        if given.shape != (n,) or (given < 1).any() or (given > page).any():
            raise ArgumentError(f"tokens: expected {n} numbers of 1 to {page}")
        counts[:] = given
    return counts


def _pages(
    plan: Plan, pool: Tensor, ids: Any, pages: Tensor, tokens: Any, work: Work | None, encode: bool
) -> None:
    check(plan)
    view, keep = views.new(pool, write=not encode)
    like, step = _first_of(view, "pool")
    page_view, keep_pages = views.new(pages, write=encode)
    n, bytes_ = len(ids), page_bytes(plan)
    if page_view.dtype != lib.PITH_U8:
        raise DtypeError(f"pages: found dtype {dtypes.NAMES[page_view.dtype]}, expected u8")
    if page_view.ndim != 2 or page_view.shape[0] < n or page_view.shape[1] < bytes_:
        found = list(views.shape_of(page_view))
        raise ShapeError(f"pages: found shape {found}, expected at least [{n}, {bytes_}]")
    counts = _tokens(tokens, n, page_tokens(plan))
    if n == 0:
        return
    if page_view.stride[1] != 1:
        raise ShapeError(f"pages: found bytes {page_view.stride[1]} apart, expected 1")
    if encode and n > 1 and abs(page_view.stride[0]) < bytes_:
        raise ShapeError(
            f"pages: found rows {page_view.stride[0]} bytes apart, expected at least {bytes_}: they"
            " would be written over each other"
        )
    if not encode and n > 1 and step == 0:
        raise ShapeError("pool: found blocks 0 bytes apart: they would be written over each other")
    bad = ids[(ids < 0) | (ids >= view.shape[0])]
    if len(bad) and not view.shape[0]:
        raise ArgumentError(f"block_ids: found {bad[0]}, and the pool has no blocks")
    if len(bad):
        raise ArgumentError(f"block_ids: found {bad[0]}, expected 0 to {view.shape[0] - 1}")
    pairs = ffi.new("pith_kv_pair[]", n)
    lib.pithpy_pairs(
        pairs,
        n,
        ffi.cast("char *", view.data),
        step,
        ffi.from_buffer("int64_t[]", ids),
        ffi.cast("char *", page_view.data),
        page_view.stride[0],
        ffi.from_buffer("uint32_t[]", counts),
    )
    call = lib.pith_kv_encode_pages if encode else lib.pith_kv_decode_pages
    with borrow(work, (plan,)) as w:
        check_status(call(w, plan._plan, like, pairs, n), w)
    del keep, keep_pages


def accumulate(
    plan: Plan,
    frame: Buffer,
    delta_plan: Plan,
    delta: Buffer,
    out: Tensor | None = None,
    *,
    work: Work | None = None,
) -> None:
    """Add a delta to an accumulator that is itself kept as a frame, and encode it in its place.

    Args:
        plan: of the accumulator
        frame: the accumulator, writable; as before on failure
        delta_plan: of the delta, of the same shape, order and page
        delta: its frame
        out: where the sum goes as well, dense or strided; None: nowhere
        work: scratch memory and threads to use instead of the calling thread's own

    Raises:
        BaseMismatchError: the delta was made against another accumulator
        MismatchError: frames of other plans

    """
    _check_plan(plan, "plan")
    _check_plan(delta_plan, "delta_plan")
    data, length, keep = views.bytes_of(frame, "frame", write=True)
    more, more_length, keep_more = views.bytes_of(delta, "delta")
    view, keep_out = (ffi.NULL, None) if out is None else views.new(out, write=True)
    with borrow(work, (plan, delta_plan)) as w:
        status = lib.pith_kv_accumulate(
            w, plan._plan, data, length, delta_plan._plan, more, more_length, view
        )
        check_status(status, w)
    del keep, keep_more, keep_out
