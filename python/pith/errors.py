"""The exceptions of pith: one class for each way in which a call can fail.

SPDX-License-Identifier: Apache-2.0

All are :class:`Error`. What is wrong with arguments is an :class:`ArgumentError`, what is wrong
with the bytes of a frame a :class:`FrameError`; the others stand beside these two. A class is also
the builtin exception that it is a case of, such as ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ._core import ffi, lib


class Error(Exception):
    """A call of pith failed.

    Attributes:
        status: the number of the status in ``pith.h``, such as -25
        name: its name, such as ``"PITH_ERR_BASE"``
        text: a sentence with what was expected and what was found
        offset: a byte of the frame or of the spec, or a block, of which the text speaks; else 0
        item: the number of the item in a list of tensors or frames; else 0
        results: of a call on a list, what was made all the same, None where it failed; else None

    """

    default_status = -99
    results: list[Any] | None = None

    def __init__(
        self, text: str, *, status: int | None = None, offset: int = 0, item: int = 0
    ) -> None:
        """Make an exception from its text; the status is the class's unless one is given."""
        super().__init__(text)
        self.status = self.default_status if status is None else status
        self.text = text
        self.offset = offset
        self.item = item

    @property
    def name(self) -> str:
        """The status's name, such as ``"PITH_ERR_BASE"``."""
        return _string(lib.pith_status_name(self.status))

    def __str__(self) -> str:
        """Return the text and the status's name."""
        return f"{self.text} ({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the attributes when an exception crosses to another process."""
        return type(self), (self.text,), vars(self)


class ArgumentError(Error, ValueError):
    """An argument is outside what its text allows."""

    default_status = -1


class SpecError(ArgumentError):
    """A codec's spec does not parse; ``offset`` is the place in it."""

    default_status = -2


class DtypeError(ArgumentError, TypeError):
    """The codec or the call does not take this dtype, or this kind of object."""

    default_status = -3


class ShapeError(ArgumentError):
    """A tensor does not have the shape, element count or strides that the call needs."""

    default_status = -4


class SpaceError(ArgumentError):
    """The memory given is too small; nothing usable was written."""

    default_status = -5


class LimitError(Error, MemoryError):
    """A frame declares more output than the limit, or than there is memory."""

    default_status = -6


class UnsupportedError(Error, NotImplementedError):
    """Valid, but this codec, build or kind of tensor cannot do it."""

    default_status = -7


class StateError(Error, RuntimeError):
    """The stream cannot do this now: it has no base, or a failed call left it half written."""

    default_status = -8


class FrameError(Error, ValueError):
    """The bytes of a frame are not what the call can take."""

    default_status = -23


class TruncatedError(FrameError, EOFError):
    """The bytes end before the frame does."""

    default_status = -20


class MagicError(FrameError):
    """Not a frame of pith."""

    default_status = -21


class NewerError(FrameError):
    """A format version, codec, revision or section of a newer pith."""

    default_status = -22


class CorruptError(FrameError):
    """The bytes break a rule of the format."""

    default_status = -23


class ChecksumError(CorruptError):
    """The checksum of the header or of a block differs."""

    default_status = -24


class BaseMismatchError(FrameError):
    """The base is not the encoder's. Nothing was written."""

    default_status = -25


class StepError(FrameError):
    """The frame is of another step than the stream's next one. Nothing was written."""

    default_status = -26


class MismatchError(FrameError):
    """A valid frame of another plan: codec, setting, dtype or count. Nothing was written."""

    default_status = -27


class OutOfMemoryError(Error, MemoryError):
    """There is no memory for what the call needs."""

    default_status = -40


class RunnerError(Error, RuntimeError):
    """Threads could not be run."""

    default_status = -41


class DeviceError(Error, RuntimeError):
    """The device's runtime reported failure; ``offset`` is its error."""

    default_status = -42


class TimedOutError(Error, TimeoutError):
    """Not all ranks took part in time: one died, hangs, or did not make the call."""

    default_status = -60


class TransportError(Error, ConnectionError):
    """The transport of a channel failed: a rank that died closes its connections, for instance."""

    default_status = -61


class BrokenError(Error, ConnectionError):
    """The channel met one of these two before; make a new one."""

    default_status = -62


class BusyError(Error, RuntimeError):
    """Another call is using this work, stream, cache or channel: from another thread maybe."""

    default_status = -63


class InternalError(Error, RuntimeError):
    """A bug in pith."""

    default_status = -99


_CLASSES: dict[int, type[Error]] = {
    cls.default_status: cls
    for cls in (
        ArgumentError,
        SpecError,
        DtypeError,
        ShapeError,
        SpaceError,
        LimitError,
        UnsupportedError,
        StateError,
        TruncatedError,
        MagicError,
        NewerError,
        CorruptError,
        ChecksumError,
        BaseMismatchError,
        StepError,
        MismatchError,
        OutOfMemoryError,
        RunnerError,
        DeviceError,
        TimedOutError,
        TransportError,
        BrokenError,
        BusyError,
        InternalError,
    )
}


def _string(text: Any) -> str:
    return bytes(ffi.string(text)).decode("ascii", "replace")


_Entry = TypeVar("_Entry")
_Made = TypeVar("_Made")


def of_each(make: Callable[[_Entry], _Made], entries: Iterable[_Entry]) -> list[_Made]:
    """Return what a call makes of each entry of a list.

    Raises:
        Error: what the call raises; ``item`` is the number of the entry

    """
    made: list[_Made] = []
    try:
        for entry in entries:
            made.append(make(entry))
    except Error as error:
        error.item = len(made)
        raise
    return made


def numbered(number: int, plural: str) -> str:
    """Return a number and what there are so many of, such as ``"1 element"``."""
    return f"{number} {plural if number != 1 else plural[:-1]}"


def check_new(owner: object, attribute: str) -> None:
    """Raise where an object has the attribute, and so was made before.

    Others keep the addresses of what it holds, which ``__init__`` would replace.

    Raises:
        StateError: it was

    """
    if attribute in vars(owner):
        kind = type(owner).__name__
        raise StateError(f"this {kind} is made already, and stays as it is: make another one")


def from_status(status: int, error: Any = None) -> Error:
    """Return the exception for a status.

    Args:
        status: a negative ``pith_status``
        error: the ``pith_error *`` that the call filled, or None

    """
    if not error:
        return made(status, b"", 0, 0)
    return made(status, ffi.string(error.text), int(error.offset), int(error.item))


def made(status: int, text: Any, offset: int, item: int) -> Error:
    """Return the exception for a status and what a ``pith_error`` has; the text is bytes."""
    return _CLASSES.get(status, Error)(
        bytes(text).decode("ascii", "replace") or _string(lib.pith_status_text(status)),
        status=status,
        offset=offset,
        item=item,
    )
