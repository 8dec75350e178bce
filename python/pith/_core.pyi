"""The cffi module over the library: its names are those of pith.h and helpers.h."""

from typing import Any

ffi: Any
lib: Any
