"""The cffi module over the library, with the names of pith.h, pith_collective.h and helpers.h.

The functions are in helpers.c, and :mod:`pith.views` adds them: calls that a loop makes for each
small tensor, without what cffi costs. Tensors and bytes may be anything that :mod:`pith.views`
takes. Where the library's call fails, or one of these is refused, they raise an
:class:`~pith.errors.Error`.
"""

from typing import Any

from .views import Buffer, Tensor

ffi: Any
lib: Any

def encode(
    end: int,
    work: int,
    x: Tensor,
    out: Buffer | None,
    slot: int,
    flags: int,
    scratch: int,
    capacity: int,
    /,
) -> bytes | int:
    """Return the frame that ``pith_encode`` makes, or with ``out`` its length.

    Args:
        end: address of a ``pithpy_end``
        work: address of a ``pith_work``
        x: the tensor
        out: where the frame goes
        slot: as the library's
        flags: as the library's
        scratch: address of memory for a frame whose length is not known beforehand, which is
            copied; not used with ``out``
        capacity: its bytes

    """

def decode(
    end: int, work: int, frame: Buffer, out: Tensor | None, slot: int, flags: int, /
) -> None:
    """Decode a frame by ``pith_decode`` to a tensor, or to the base alone.

    Args:
        end: address of a ``pithpy_end``
        work: address of a ``pith_work``
        frame: its bytes
        out: the tensor
        slot: as the library's
        flags: as the library's

    """

def compress(
    spec: bytes,
    x: Tensor,
    base: Tensor | None,
    out: Buffer | None,
    flags: int,
    source: bytes,
    exempt: int,
    exempt_count: int,
    threads: int,
    /,
) -> bytes | int:
    """Return the frame that ``pith_compress`` makes, or with ``out`` its length.

    Args:
        spec: without zeros
        x: the tensor
        base: its base
        out: where the frame goes
        flags: of the layout
        source: of the layout
        exempt: address of an array of ``pith_exempt``
        exempt_count: their number
        threads: 1 to 1024

    """

def decompress(
    frame: Buffer, base: Tensor | None, out: Tensor, max_output: int, threads: int, /
) -> None:
    """Decode a frame by ``pith_decompress``.

    Args:
        frame: its bytes
        base: the tensor that it was made against
        out: the tensor
        max_output: bytes; 0: no limit
        threads: 1 to 1024

    """

def direct(items: int, tensors: list[Tensor], write: bool, /) -> bool:
    """Fill the views of items from tensors of types that ``views.direct`` has.

    Args:
        items: address of a ``pith_item`` for each
        tensors: the tensors
        write: whether their values are going to be written

    Returns:
        Whether all are filled: False where one has another type, or must be looked at.

    """
