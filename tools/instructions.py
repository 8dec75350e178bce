#!/usr/bin/env python3
"""Print how many instructions calls take for a value: tools/instructions.py BUILD.

SPDX-License-Identifier: Apache-2.0

BUILD is a release build. Its bench/instructions runs under valgrind's callgrind, which knows no
AVX-512; the same program, compiled for aarch64, runs under qemu-user with a plugin that counts.
Instructions of zstd are left out, and where it is part of what is coded, the cells of aarch64 are
empty: the program has no zstd there. They are all empty without a compiler for it, or without
a qemu-user that takes plugins. Standard library only.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCALAR, AVX2, NEON = "0x40000000", "0x1", "0x4"
CROSS = "aarch64-linux-gnu-gcc"
# As meson.build compiles a release.
FLAGS = ["-std=c11", "-O3", "-D_POSIX_C_SOURCE=200809L", "-DPITH_BUILD", "-ffp-contract=off",
         "-Iinclude", "-Icodec"]
HEAD = """\
| call | setting | values | base | scalar | AVX2 | aarch64: scalar | NEON |
|---|---|---|---|---|---|---|---|"""


# Of `rep movsb` callgrind counts every byte.
COPIES = ("GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824:"
          "glibc.cpu.x86_rep_stosb_threshold=1073741824")


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done


def rows_of(text):
    """Lists [what, spec, dtype, base, count, hash] that the program wrote."""
    return [line.split("\t") for line in text.splitlines()]


def counted_here(program, mask, place):
    """What the program wrote, and the instructions of its calls."""
    out = pathlib.Path(place) / f"callgrind.{mask}"
    # The function turns the counter on and off again; zstd inside it off and on.
    done = run("env", COPIES, "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
               "--toggle-collect=counted", "--toggle-collect=ZSTD_compress2",
               "--toggle-collect=ZSTD_decompressDCtx", "--zero-before=counted",
               "--dump-after=counted", program, mask)
    rows, counts = rows_of(done.stdout), []
    for part in range(1, len(rows) + 1):
        text = pathlib.Path(f"{out}.{part}").read_text()
        counts.append(int(re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1)))
    return rows, counts


def cross_compiled(place):
    """The program for aarch64, and the plugin that counts there."""
    place = pathlib.Path(place)
    headers = place / "headers"
    headers.mkdir()
    for package, names in (("libzstd", ["zstd.h", "zstd_errors.h"]),
                           ("libxxhash", ["xxhash.h", "xxh3.h"])):
        folder = run("pkg-config", "--variable=includedir", package).stdout.strip()
        for name in names:
            (headers / name).symlink_to(pathlib.Path(folder) / name)
    sources = [p.relative_to(ROOT) for p in sorted((ROOT / "codec").rglob("*.c"))
               if not re.search(r"_avx\d+\.c$", p.name)]
    sources += [pathlib.Path("bench") / f"{name}.c" for name in ("instructions", "end", "no_zstd")]
    cache = [shutil.which("ccache")] if shutil.which("ccache") else []

    def compiled(source):
        to = place / (str(source).replace("/", "_") + ".o")
        run(*cache, CROSS, *FLAGS, f"-I{headers}", "-c", source, "-o", to)
        return to

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, sources))
    program, plugin = place / "instructions", place / "count.so"
    run(CROSS, "-static", *objects, "-lm", "-o", program)
    run(*os.environ.get("CC", "cc").split(), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror",
        "-fPIC", "-shared", "bench/count_plugin.c", "-o", plugin)
    return program, plugin


def counted_there(program, plugin, mask):
    done = run("qemu-aarch64", "-plugin", plugin, program, mask)
    rows = rows_of(done.stdout)
    at = [int(line) for line in done.stderr.split()]
    if len(at) != 2 * len(rows):
        raise SystemExit("qemu-aarch64: no plugin has counted")
    return rows, [after - before for before, after in zip(at[::2], at[1::2])]


def has_cross():
    """Whether there are a compiler and an emulator that takes plugins."""
    if not shutil.which(CROSS) or not shutil.which("qemu-aarch64"):
        return False
    return "-plugin" in run("qemu-aarch64", "--help").stdout


def per_value(count, row):
    value = count / int(row[4])
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "bench" / "instructions"
    with tempfile.TemporaryDirectory() as place:
        ways = [counted_here(program, mask, place) for mask in (SCALAR, AVX2)]
        if has_cross():
            cross, plugin = cross_compiled(place)
            ways += [counted_there(cross, plugin, mask) for mask in (SCALAR, NEON)]
    print(HEAD)
    for i, row in enumerate(ways[0][0]):
        cells = [""] * 4
        for k, (rows, counts) in enumerate(ways):
            if rows[i] != ways[k // 2 * 2][0][i] or rows[i][:5] != row[:5]:
                raise SystemExit(f"{' '.join(row)}: instruction sets differ in what they wrote")
            if rows[i] == row:
                cells[k] = per_value(counts[i], row)
        what, spec, dtype, base, _, _ = row
        print(f"| {what} | `{spec}` | {dtype} | {base} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
