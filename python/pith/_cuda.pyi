"""The cffi module over the library for devices: its names are those of pith_cuda.h and pith.h."""

from typing import Any

ffi: Any
lib: Any
