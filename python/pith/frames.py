"""Frames without a stream: compress and decompress a tensor, look into a frame, list the codecs.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from . import dtypes, views
from ._core import compress as _compress
from ._core import decompress as _decompress
from ._core import ffi, lib
from .errors import ArgumentError, Error, LimitError, _string, from_status, numbered
from .plan import c_exempt, c_spec, check_threads, environment, integer, limit_of
from .views import Buffer, Tensor


@dataclass(frozen=True)
class Info:
    """What the header of a frame says."""

    spec: str
    """Codec and the keys that a frame records."""
    codec: str
    """Name of the codec."""
    dtype: str
    """Of the values."""
    shape: tuple[int, ...]
    """Elements along each dimension."""
    count: int
    """Elements."""
    frame_bytes: int
    """Header and payload: where the next frame of a sequence begins."""
    header_bytes: int
    """The header with its sections."""
    raw_bytes: int
    """Bytes of the values as they were."""
    base_dtype: str | None
    """None: decodes without a base."""
    base_hash: int | None
    """Of the base that the frame was made against; None: it does not say."""
    step: int | None
    """The step of its stream; None: it does not say."""
    is_key: bool
    """A key frame: the exact new base."""
    checksums: bool
    """Every block has a checksum."""
    source: bytes | None
    """What ``source=`` put into it."""
    exempt: int
    """Elements that go around the codec."""
    bound: float | None
    """Largest ``|x - x'|`` of a finite value, before rounding to a dtype; None: no promise."""
    relative_bound: float | None
    """The same of ``|x - x'| / |x|``, for pwrel."""
    revision: int
    """Of the codec."""
    sent: int | None
    """Elements that have values (codec topk); None: all."""
    threshold: float | None
    """Their magnitudes are at least this, for information; None without ``sent``."""
    value_bits: int | None
    """Of each: 32, 16, 8 or 0, without the scales of int8; None without ``sent``."""
    same_set: bool
    """No indices: they are of the set that the receiver holds."""
    same_blocks: bool
    """No indices of some blocks: these are of the set that the receiver holds of them."""


class Key(NamedTuple):
    """A key of a codec's spec."""

    name: str
    values: str
    """What it may be, such as ``"2,3,4,6,8"`` or ``"nearest|stochastic"``."""
    initial: str
    """What it is when the spec does not say."""
    summary: str


class Codec(NamedTuple):
    """A codec of this build."""

    name: str
    summary: str
    dtypes: tuple[str, ...]
    """Dtypes that it takes."""
    lossless: bool
    """Decodes to the same bits."""
    fixed_rate: bool
    """The size of a frame follows from the layout alone."""
    base: bool
    """Codes against a base."""
    bound: bool
    """Frames state a bound that holds for every value."""
    exempt: bool
    """Plans take exempt ranges."""
    update: bool
    """Made for changes: of little use without a base."""
    sparse: bool
    """Sends chosen elements; the others decode to 0."""
    keys: tuple[Key, ...]


_CHECKSUMS = lib.PITH_LAYOUT_CHECKSUMS


def _error() -> Any:
    return ffi.new("pith_error *", {"size": ffi.sizeof("pith_error")})


def _check(status: int, error: Any) -> None:
    if status:
        raise from_status(status, error)


def _maybe(x: Tensor | None) -> tuple[Any, Any]:
    return (ffi.NULL, None) if x is None else views.new(x)


@overload
def compress(
    x: Tensor,
    spec: str = ...,
    *,
    base: Tensor | None = ...,
    checksums: bool = ...,
    threads: int = ...,
    source: Buffer = ...,
    exempt: Iterable[tuple[int, int, str]] = ...,
    out: None = None,
) -> bytes: ...
@overload
def compress(
    x: Tensor,
    spec: str = ...,
    *,
    base: Tensor | None = ...,
    checksums: bool = ...,
    threads: int = ...,
    source: Buffer = ...,
    exempt: Iterable[tuple[int, int, str]] = ...,
    out: Buffer,
) -> int: ...
def compress(
    x: Tensor,
    spec: str = "lossless",
    *,
    base: Tensor | None = None,
    checksums: bool = True,
    threads: int = 1,
    source: Buffer = b"",
    exempt: Iterable[tuple[int, int, str]] = (),
    out: Buffer | None = None,
) -> bytes | int:
    """Make one frame of a tensor.

    Args:
        x: a NumPy array, a PyTorch tensor, or anything with DLPack or the buffer protocol; any
            strides, up to 8 dimensions
        spec: codec and keys, such as ``"eb:rel=0.001"``; the default loses nothing
        base: a tensor of the same element count that the receiver has, too; without one ``wdiff``
            codes the values themselves, which is no error and far less exact
        checksums: a checksum for every block
        threads: threads to use; the bytes do not depend on it
        source: up to 1 MiB that the frame carries and that is not interpreted
        exempt: ``(first, count, how)`` of elements that go around the codec, see :class:`Plan`
        out: where the frame goes: writable bytes that do not overlap x

    Returns:
        The frame, or with ``out`` its length in bytes.

    Raises:
        SpecError, DtypeError, ShapeError, UnsupportedError: the codec cannot do it
        StateError: the spec has error feedback, which only a :class:`Stream` remembers
        SpaceError: out is too small
        ArgumentError: out shares memory with x

    """
    if type(source) is not bytes:
        source = views.copy_of(source, "source")
    ranges, count = c_exempt(exempt)
    threads = check_threads(threads)
    frame: bytes | int = _compress(
        c_spec(spec),
        x,
        base,
        out,
        _CHECKSUMS if checksums else 0,
        source,
        views.address(ranges) if count else 0,
        count,
        threads,
    )
    return frame


def decompress(
    frame: Buffer,
    *,
    base: Tensor | None = None,
    out: Tensor | None = None,
    dtype: Any = None,
    max_output: int | None = None,
    threads: int = 1,
) -> Tensor:
    """Restore the tensor of a frame.

    A frame says how many elements it has. Where frames come from others, ``max_output`` keeps one
    of a few bytes from taking all memory.

    Args:
        frame: the bytes of the frame; bytes behind its end are ignored
        base: the base that it was made against, when it was
        out: where the values go, of the frame's element count and any strides, in memory that the
            frame is not in; it may be the base
        dtype: of the new tensor when out is None: the frame's, or of frames of lossy codecs in f32,
            bf16 or f16 any of these; a dtype of PyTorch makes a PyTorch tensor
        max_output: refuse frames of more bytes of values; None: no limit
        threads: threads to use

    Returns:
        out, or a new tensor of the frame's shape: a NumPy array unless dtype is PyTorch's.

    Raises:
        FrameError: the bytes are no frame, or damaged
        BaseMismatchError: another base, or none
        StateError: codec topk: the frame has the values of a set that streams hold
        LimitError: more than max_output, or than memory
        ShapeError: out has another element count
        DtypeError: the frame does not decode to that; or NumPy has no such dtype: install
            ``ml_dtypes``
        ArgumentError: out is read-only, or shares memory with the frame, or with the base without
            being it

    """
    threads = check_threads(threads)
    limit = limit_of(max_output)
    if out is None:
        data, length, keep = views.bytes_of(frame, "frame")
        info = _info(data, length)
        del keep
        if max_output is not None and info.raw_bytes > max_output:
            raise LimitError(
                f"{numbered(info.raw_bytes, 'bytes')} of values, expected at most {max_output}"
            )
        number = info.dtype if dtype is None else dtypes.number_of(dtype)
        out = _new(views.shape_of(info), dtype, number)
    _decompress(frame, base, out, limit, threads)
    return out


def decode_range(
    frame: Buffer,
    first: int,
    count: int,
    *,
    base: Tensor | None = None,
    out: Tensor | None = None,
    dtype: Any = None,
    max_output: int | None = None,
) -> Tensor:
    """Restore elements ``[first, first + count)`` of a frame's tensor taken flat.

    Work is in proportion to the blocks touched.

    Args:
        frame: the bytes of the frame
        first: first element
        count: number of elements
        base: the whole base, when the frame was made against one
        out: where the values go, of ``count`` elements
        dtype: of the new tensor when out is None, as in :func:`decompress`
        max_output: refuse frames of more bytes of values

    Returns:
        out, or a new flat tensor.

    Raises:
        ArgumentError: the range does not lie in the tensor; out lies in the memory of the frame or
            of the base
        As :func:`decompress`.

    """
    data, length, keep = views.bytes_of(frame, "frame")
    env, error = environment(1, max_output), _error()
    info = _info(data, length)
    first, count = integer("first", first), integer("count", count)
    if first < 0 or count < 0 or first + count > info.count:
        raise ArgumentError(
            f"range: found [{first}, {first + count}) of {numbered(info.count, 'elements')}"
        )
    if out is None:
        out = _new((count,), dtype, info.dtype if dtype is None else dtypes.number_of(dtype))
    view, keep_out = views.new(out, write=True)
    if lib.pith_view_count(view) != count:
        raise ArgumentError(
            f"out: found {numbered(lib.pith_view_count(view), 'elements')}, expected {count}"
        )
    base_view, keep_base = _maybe(base)
    views.check_apart(lib.pithpy_share(view, data, length))
    if base is not None and lib.pithpy_share_otherwise(view, base_view):
        raise ArgumentError("out and base share memory, but not as one tensor")
    status = lib.pith_decode_range(data, length, base_view, first, env, view, error)
    del keep, keep_out, keep_base
    _check(status, error)
    return out


def _new(shape: tuple[int, ...], dtype: Any, number: int) -> Tensor:
    try:
        return views.empty(shape, dtype, number)
    except Error:
        raise
    except (MemoryError, ValueError, RuntimeError) as error:
        raise LimitError(f"no memory for a tensor of shape {list(shape)}: {error}") from None


def _info(data: Any, length: int) -> Any:
    info, error = ffi.new("pith_info *", {"size": ffi.sizeof("pith_info")}), _error()
    _check(lib.pith_inspect(data, length, info, error), error)
    return info


def inspect(frame: Buffer) -> Info:
    """Read and check the header of a frame; the payload is not touched and may be missing.

    Raises:
        TruncatedError, MagicError, NewerError, CorruptError, ChecksumError: it is no header

    """
    data, length, keep = views.bytes_of(frame, "frame")
    info = _info(data, length)
    codec = _string(info.codec_name)
    bounded = any(c.name == codec and c.bound for c in codecs())
    sparse = any(c.name == codec and c.sparse for c in codecs())
    result = Info(
        spec=_string(info.spec),
        codec=codec,
        dtype=dtypes.NAMES[info.dtype],
        shape=views.shape_of(info),
        count=int(info.count),
        frame_bytes=int(info.frame_bytes),
        header_bytes=int(info.header_bytes),
        raw_bytes=int(info.raw_bytes),
        base_dtype=dtypes.NAMES[info.base_dtype] if info.base_dtype else None,
        base_hash=int(info.base_hash) if info.has_base_hash else None,
        step=int(info.step) if info.has_step else None,
        is_key=bool(info.is_key),
        checksums=bool(info.has_checksums),
        source=ffi.buffer(info.source, info.source_bytes)[:] if info.source else None,
        exempt=int(info.exempt),
        bound=float(info.bound) if bounded else None,
        relative_bound=float(info.relative_bound) if info.relative_bound else None,
        revision=int(info.revision),
        sent=int(info.sent) if sparse else None,
        threshold=float(info.threshold) if sparse else None,
        value_bits=int(info.value_bits) if sparse else None,
        same_set=info.same_set == 1,
        same_blocks=info.same_set == 2,
    )
    del keep
    return result


def verify(frame: Buffer, *, threads: int = 1) -> None:
    """Check all that can be checked without a base: structure, checksums, every block.

    Raises:
        FrameError: what is wrong; ``offset`` is the place

    """
    data, length, keep = views.bytes_of(frame, "frame")
    error = _error()
    status = lib.pith_verify(data, length, environment(threads, None), error)
    del keep
    _check(status, error)


def error_bound(frame: Buffer) -> float:
    """Return the largest distance between a value and its decoded value that the frame admits.

    0 for lossless frames; NaN when a group of values is not finite.

    Raises:
        FrameError: the bytes are no frame

    """
    data, length, keep = views.bytes_of(frame, "frame")
    bound, error = ffi.new("double *"), _error()
    status = lib.pith_error_bound(data, length, bound, error)
    del keep
    _check(status, error)
    return float(bound[0])


def check_spec(spec: str) -> str:
    """Return the canonical form of a spec.

    Raises:
        SpecError: it does not parse; ``offset`` says where

    """
    text, error = ffi.new("char[]", lib.PITH_SPEC_MAX), _error()
    _check(lib.pith_spec_check(c_spec(spec), text, lib.PITH_SPEC_MAX, error), error)
    return _string(text)


@functools.cache
def codecs() -> tuple[Codec, ...]:
    """Return the codecs of this build with their keys."""
    return tuple(_read_codecs())


def _read_codecs() -> Iterable[Codec]:
    info = ffi.new("pith_codec_info *", {"size": ffi.sizeof("pith_codec_info")})
    key = ffi.new("pith_key_info *", {"size": ffi.sizeof("pith_key_info")})
    index = 0
    while lib.pith_codec_at(index, info) == lib.PITH_OK:
        keys: list[Key] = []
        while lib.pith_codec_key_at(index, len(keys), key) == lib.PITH_OK:
            texts = (key.name, key.values, key.initial, key.summary)
            keys.append(Key(*map(_string, texts)))
        yield Codec(
            name=_string(info.name),
            summary=_string(info.summary),
            dtypes=tuple(n for d, n in enumerate(dtypes.NAMES) if d and info.dtypes >> d & 1),
            lossless=bool(info.traits & lib.PITH_TRAIT_LOSSLESS),
            fixed_rate=bool(info.traits & lib.PITH_TRAIT_FIXED_RATE),
            base=bool(info.traits & lib.PITH_TRAIT_BASE),
            bound=bool(info.traits & lib.PITH_TRAIT_BOUND),
            exempt=bool(info.traits & lib.PITH_TRAIT_EXEMPT),
            update=bool(info.traits & lib.PITH_TRAIT_UPDATE),
            sparse=bool(info.traits & lib.PITH_TRAIT_SPARSE),
            keys=tuple(keys),
        )
        index += 1
