#!/usr/bin/env python3
"""Write the C source of a cffi module from the public headers.

SPDX-License-Identifier: Apache-2.0

    make_ffi.py OUT.c --module=M [--base=M:HEADER] [-IFOLDER]... HEADER... -- CC [ARG...]

The compiler's preprocessor reads the headers, so that what Python sees is what C sees: nothing is
declared a second time. Of the headers of the C library nothing is taken: cffi knows their types.
--base names a module that was made from HEADER: its types are shared and not declared again.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import cffi


def declarations(compiler: list[str], folders: list[str], headers: list[str]) -> str:
    """Return what the headers declare, as plain C."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("stddef.h", "stdint.h"):
            pathlib.Path(place, name).touch()
        text = "".join(f'#include "{header}"\n' for header in headers)
        command = [*compiler, "-E", "-P", "-nostdinc", "-D__attribute__(x)=", f"-I{place}"]
        command += [f"-I{folder}" for folder in folders] + ["-x", "c", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


def builder(module: str, text: str, headers: list[str]) -> cffi.FFI:
    """Return an FFI of what the headers declare, which is text."""
    ffi = cffi.FFI()
    ffi.cdef(text)
    ffi.set_source(module, "".join(f'#include "{header}"\n' for header in headers))
    return ffi


def main() -> None:
    """Read the command line and write the source."""
    split = sys.argv.index("--")
    compiler = sys.argv[split + 1 :]
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("headers", nargs="+")
    parser.add_argument("--module", required=True)
    parser.add_argument("--base")
    parser.add_argument("-I", dest="folders", action="append", default=[])
    given = parser.parse_args(sys.argv[1:split])
    text = declarations(compiler, given.folders, given.headers)
    if given.base:
        module, header = given.base.split(":")
        known = declarations(compiler, given.folders, [header])
        ffi = cffi.FFI()
        ffi.include(builder(module, known, [header]))
        ffi.cdef(text.replace(known, ""))
        ffi.set_source(given.module, "".join(f'#include "{name}"\n' for name in given.headers))
    else:
        ffi = builder(given.module, text, given.headers)
    ffi.emit_c_code(given.out)


main()
