"""The cffi module over the library, with the names of pith.h, pith_collective.h and helpers.h."""

from typing import Any

ffi: Any
lib: Any
