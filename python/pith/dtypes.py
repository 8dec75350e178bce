"""Element types: their names, numbers, and what NumPy and PyTorch call them.

SPDX-License-Identifier: Apache-2.0

A dtype is named by a short string, the same as on the command line and in ``pith inspect``:
``f32 bf16 f16 f64 u8 i8 u16 i16 u32 i32 u64 i64 bool f8e4m3 f8e5m2``. Wherever a dtype is taken, a
NumPy dtype or type, one of ``ml_dtypes`` and a ``torch.dtype`` are taken too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .errors import DtypeError

NAMES = (
    *("none", "f32", "bf16", "f16", "f64", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"),
    *("bool", "f8e4m3", "f8e5m2"),
)
"""Names by number; number 0, "none", stands for no dtype."""

BYTES = (0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 1)
"""Bytes of an element, by number."""

_NUMBERS = {name: number for number, name in enumerate(NAMES)}

_NUMPY = {
    "f32": "float32",
    "f16": "float16",
    "f64": "float64",
    "u8": "uint8",
    "i8": "int8",
    "u16": "uint16",
    "i16": "int16",
    "u32": "uint32",
    "i32": "int32",
    "u64": "uint64",
    "i64": "int64",
    "bool": "bool",
}
# NumPy has none of these; the package ml_dtypes adds them.
_ML = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
_TORCH = {**_NUMPY, **_ML}

_number_of: dict[Any, int] = {np.dtype(numpy): _NUMBERS[name] for name, numpy in _NUMPY.items()}


def _learn() -> None:
    """Take the dtypes of what the process has imported; other threads may still be importing it."""
    for module, names in (("ml_dtypes", _ML), ("torch", _TORCH)):
        loaded = sys.modules.get(module)
        for name, attribute in names.items():
            known = getattr(loaded, attribute, None)
            if known is not None:
                key = np.dtype(known) if module == "ml_dtypes" else known
                _number_of[key] = _NUMBERS[name]


def number_of(dtype: Any) -> int:
    """Return the number of a dtype.

    Args:
        dtype: a name such as ``"bf16"``, anything that ``numpy.dtype`` takes, or a ``torch.dtype``

    Raises:
        DtypeError: it is none of pith's, or has another byte order than the machine

    """
    if isinstance(dtype, str) and dtype in _NUMBERS and dtype != "none":
        return _NUMBERS[dtype]
    try:
        if dtype not in _number_of:
            _learn()
        number = _number_of.get(dtype) or _number_of.get(np.dtype(dtype))
    except TypeError:
        number = None
    if number is None or dtype is None:
        text = f"dtype: found {dtype!r}, expected one of {' '.join(NAMES[1:])}"
        if isinstance(dtype, np.dtype) and dtype.newbyteorder("=") in _number_of:
            text += f", in this machine's byte order: give its astype({dtype.name!r})"
        raise DtypeError(text)
    return number


def numpy_dtype(number: int) -> np.dtype[Any]:
    """Return NumPy's dtype for a number.

    Raises:
        DtypeError: bf16 or an fp8 without the package ``ml_dtypes``

    """
    name = NAMES[number]
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    try:
        import ml_dtypes
    except ImportError:
        raise DtypeError(
            f"NumPy has no dtype {name}: install ml_dtypes, or give out= or dtype="
        ) from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML[name]))
    return dtype


def torch_dtype(number: int) -> Any:
    """Return PyTorch's dtype for a number; the caller has imported torch."""
    return getattr(sys.modules["torch"], _TORCH[NAMES[number]])


def is_torch(dtype: Any) -> bool:
    """Whether this is a dtype of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(dtype, torch.dtype)
