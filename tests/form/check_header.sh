#!/usr/bin/env bash
# check_header.sh: the public headers compile alone, without a warning, in C and C++; tools that
# read headers without being compilers understand all of them; and every call says its errors.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
headers=({,adapters/svd/,adapters/collective/}include/pith/*.h)
places=(-Iinclude -Iadapters/svd/include -Iadapters/collective/include)
strict=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror "${places[@]}" -fsyntax-only)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failed=0

try() {
    "$@" || {
        printf 'failed: %s\n' "$*"
        failed=1
    }
}

expect_none() { # expect_none TITLE, lines on stdin
    local lines
    lines=$(cat)
    [ -n "$lines" ] || return 0
    printf '%s:\n%s\n' "$1" "$lines"
    failed=1
}

# ---- Compilers -----------------------------------------------------------------------------------
# CC and CXX are one compiler each, of one word or more: ccache gcc.
compilers=() ccs=(cc clang) cxxs=(c++ clang++)
[ -z "${CC:-}" ] || ccs=("$CC")
[ -z "${CXX:-}" ] || cxxs=("$CXX")
for words in "${ccs[@]}"; do
    read -ra cc <<<"$words"
    command -v "${cc[0]}" >/dev/null || continue
    compilers+=("$words")
    for std in c99 c11 gnu17; do
        try "${cc[@]}" -std=$std -Wstrict-prototypes "${strict[@]}" tests/form/header_test.c
        for header in "${headers[@]}"; do
            try "${cc[@]}" -std=$std -Wstrict-prototypes "${strict[@]}" -x c - \
                <<<"#include \"${header#*include/}\"
int used;"
        done
    done
done
for words in "${cxxs[@]}"; do
    read -ra cxx <<<"$words"
    command -v "${cxx[0]}" >/dev/null || continue
    try "${cxx[@]}" -std=c++17 "${strict[@]}" tests/form/header_test.cc
    for header in "${headers[@]}"; do
        try "${cxx[@]}" -std=c++17 "${strict[@]}" -x c++ - <<<"#include \"${header#*include/}\""
    done
done

# ---- Readers that are no compilers (bindgen, cffi) see types, functions and enumerators ----------
directives() { grep -nE "^ *# *$1" "${headers[@]}" || true; } # FILE:LINE:#text
expect_none 'a public header includes more than stddef.h, stdint.h and pith/' < <(
    directives '(include|import)' |
        grep -vE ':#include (<std(def|int)\.h>|"pith/[a-z_]+\.h")$')
macros='PITH_[A-Z_]+_H|PITH_(API|NODISCARD)( __.+)?|PITH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+'
expect_none 'a constant is an enumerator, and a function is a function, not a macro' < <(
    directives define | grep -vE ":#define ($macros)\$")

all=$(printf '#include "%s"\n' "${headers[@]#*include/}")
cat "${headers[@]}" | tr '\n' ' ' | grep -oE 'PITH_API [^;(]*\bpith_[a-z0-9_]+\(' |
    grep -oE 'pith_[a-z0-9_]+\($' | tr -d '(' >"$place/declared"
[ "$(wc -l <"$place/declared")" -gt 20 ] || { echo 'the headers were not understood'; exit 1; }

# read.py C NAMES: reads preprocessed C with the modules of Python that are there; the functions in
# it are those that NAMES lists.
cat >"$place/read.py" <<'END'
import importlib
import sys

def load(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"not read by {name}: python3 has no such module")

text, names = (open(path).read() for path in sys.argv[1:])
declared = set(names.split())
pycparser, cffi = load("pycparser"), load("cffi")
if pycparser:
    tree = pycparser.CParser().parse(text)
    functions = {d.name for d in tree.ext if isinstance(getattr(d, "type", None),
                                                        pycparser.c_ast.FuncDecl)}
    if functions != declared:
        sys.exit(f"pycparser sees other functions: {sorted(functions ^ declared)}")
    print(f"pycparser sees {len(functions)} functions")
if cffi:
    ffi = cffi.FFI()
    ffi.cdef(text)
    constants = ffi.dlopen(None)
    if (constants.PITH_MAX_NDIM, constants.PITH_ERR_BUSY) != (8, -63):
        sys.exit("cffi sees other constants")
    print(f"cffi sees structs, an item of {ffi.sizeof('pith_item')} bytes")
END
for words in "${compilers[@]}"; do
    read -ra cc <<<"$words"
    "${cc[@]}" -E -P "-D__attribute__(x)=" "${places[@]}" -x c - <<<"$all" >"$place/plain.c"
    expect_none 'a public header defines more than types and enumerators' < <(
        tr '\n' ' ' <"$place/plain.c" | sed -E 's/\benum\b[^{};]*\{[^}]*\}//g' |
            grep -oE '.{0,60}(=|\b(static|inline|extern)\b).{0,60}')
    if command -v python3 >/dev/null; then
        try python3 "$place/read.py" "$place/plain.c" "$place/declared"
    else
        echo 'not read by pycparser and cffi: no python3'
    fi
done
[ ${#compilers[@]} -gt 0 ] || { echo 'no compiler was found'; exit 1; }

# ---- Text ----------------------------------------------------------------------------------------
if command -v python3 >/dev/null; then try python3 tests/form/check_calls.py; fi
exit $failed
