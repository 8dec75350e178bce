#!/usr/bin/env python3
"""Compress a checkpoint against the one before it, restore it, check it, print one table.

SPDX-License-Identifier: Apache-2.0

    tools/demo.py PITH DATA

DATA holds ckpt_prev_bf16.safetensors and ckpt_next_bf16.safetensors. Runs the program PITH only;
the exit status is 1 when any check fails. Standard library only.
"""
import array
import filecmp
import json
import os
import struct
import subprocess
import sys
import tempfile

SHOWN = 12
ROW = "{:<25} {:<8} {:>10} {:>9} {:>10} {:>9} {:>9} {:>6} {:>6}"
LEGEND = """\
max error  largest error of a restored weight
allowed    the frame's bound on the decoded difference, and half a bf16 step of the weight with the
           largest error: the sum of base and difference is rounded to bf16 once
used       largest share of what is allowed, over all values; over 100 % would be a failure
GB/s       compressing against the base, one thread; these tensors are small
"""


class Pith:
    def __init__(self, program):
        self.program = program

    def run(self, *args):
        done = subprocess.run([self.program, *args], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"pith {' '.join(args)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout + done.stderr

    def json(self, command, *args):
        return json.loads(self.run(command, "--json", *args))

    def status(self, *args):
        return subprocess.run([self.program, *args], capture_output=True).returncode


def load(path):
    """{name: the bits of a bf16 tensor} of a .safetensors file."""
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack_from("<Q", raw)
    out = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        out[name] = array.array("H", raw[8 + length + begin:8 + length + end])
        if sys.byteorder == "big":
            out[name].byteswap()
    return out


# Of every bf16 pattern: its value, and what storing as bf16 may add to an error, which is half a
# step there, and what f32 may add before that.
VALUE = struct.unpack("<65536f", struct.pack("<65536I", *(u << 16 for u in range(65536))))
STEP = [2.0 ** (max(u >> 7 & 255, 1) - 127 - 8) * (1 + 2.0 ** -14) for u in range(65536)]


def errors(want, got, bound):
    """The largest error, what is allowed there, and the largest share of what is allowed."""
    worst, allowed, share = 0.0, bound, 0.0
    for a, b in zip(want, got):
        if a != b:
            error, limit = abs(VALUE[a] - VALUE[b]), bound + STEP[b]
            share = max(share, error / limit)
            if (error, -limit) > (worst, -allowed):
                worst, allowed = error, limit
    return worst, allowed, share


class Result:
    """One codec's way through the checkpoint."""

    def __init__(self, pith, codec, prev, next_, folder):
        self.packed = os.path.join(folder, codec + ".pith.safetensors")
        self.restored = os.path.join(folder, codec + ".safetensors")
        log = pith.run("compress", "-v", "-C", codec, "--base", prev, "-o", self.packed, next_)
        pith.run("test", "--base", prev, self.packed)
        pith.run("decompress", "--base", prev, "-o", self.restored, self.packed)
        self.tensors = {t["name"]: t for t in pith.json("inspect", self.packed)["tensors"]}
        difference = pith.json("compare", next_, self.restored)
        self.overall = difference["overall"]
        want, got = load(next_), load(self.restored)
        for t in difference["tensors"]:
            row = self.tensors[t["name"]]
            row["bits"] = t["differing_bits"]
            row["nonfinite"] = t["nonfinite_mismatch"]
            row["error"], row["allowed"], row["share"] = errors(
                want[t["name"]], got[t["name"]], row["error_bound"])
        self.speed(log)

    def speed(self, log):
        """GB/s is the last column of the table of compress -v; its last row is the whole file."""
        rows = [text.split() for text in log.splitlines() if text.strip()]
        for words in rows:
            if words[0] in self.tensors:
                self.tensors[words[0]]["gbps"] = words[-1]
        self.gbps = rows[-1][-1]

    def wrong(self):
        """Names of the tensors that are not what their frame states."""
        return [name for name, t in self.tensors.items()
                if t["nonfinite"] or t["share"] > 1 or (t["codec"] != "wdiff" and t["bits"])]


def number(value):
    return "0" if value == 0 else f"{value:.2e}"


def line(name, codec, rows, gbps):
    raw, packed = (sum(t[key] for t in rows) for key in ("raw_bytes", "bytes"))
    worst = max(rows, key=lambda t: (t["error"], t["allowed"]))
    used = max(t["share"] for t in rows)
    print(ROW.format(name, codec, f"{raw:,}", f"{packed:,}", f"{8 * packed / (raw // 2):.2f}",
                     number(worst["error"]), number(worst["allowed"]), f"{100 * used:.0f} %",
                     gbps).rstrip())


def table(results):
    print(LEGEND)
    print(ROW.format("tensor", "codec", "raw bytes", "packed", "bits/value", "max error",
                     "allowed", "used", "GB/s"))
    first = next(iter(results.values())).tensors
    order = sorted(first, key=lambda name: -first[name]["raw_bytes"])
    for name in order[:SHOWN]:
        for i, result in enumerate(results.values()):
            row = result.tensors[name]
            line("" if i else name, row["codec"], [row], row["gbps"])
    for title, names in ((f"{len(order) - SHOWN} more", order[SHOWN:]),
                         (f"all {len(order)}", order)):
        for i, (codec, result) in enumerate(results.items()):
            line("" if i else title, codec, [result.tensors[n] for n in names],
                 result.gbps if names is order else "")


def unchanged(prev, next_):
    """The share of weights whose bits are the same in both files."""
    before, after = load(prev), load(next_)
    same = sum(a == b for name in after for a, b in zip(before[name], after[name]))
    return same / sum(map(len, after.values()))


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    pith, data = Pith(sys.argv[1]), sys.argv[2]
    prev, next_ = (os.path.join(data, f"ckpt_{w}_bf16.safetensors") for w in ("prev", "next"))
    with tempfile.TemporaryDirectory() as folder:
        results = {c: Result(pith, c, prev, next_, folder) for c in ("lossless", "wdiff")}
        exact, lossy = results.values()
        spoiled = os.path.join(folder, "spoiled")
        print(f"checkpoint {next_}\nbase       {prev}\n")
        table(results)
        print(f"\n{100 * unchanged(prev, next_):.0f} % of the bf16 weights did not change at all:"
              " late in training the exact difference is the"
              "\nsmaller one. wdiff is for f32 masters, early training, collectives of fixed"
              " size.\n")
        checks = [
            ("lossless: the restored file is the checkpoint, byte for byte",
             filecmp.cmp(next_, exact.restored, shallow=False)),
            ("lossless: pith compare finds no differing bit",
             exact.overall["differing_bits"] == 0 and not exact.wrong()),
            (f"wdiff: every value within its bound (NMSE {lossy.overall['nmse']:.1e}, "
             f"PSNR {lossy.overall['psnr_db']:.1f} dB)", not lossy.wrong()),
            ("wdiff: another base than the encoder's is refused, nothing is written",
             pith.status("decompress", "--base", next_, "-o", spoiled, lossy.packed) == 1
             and not os.path.exists(spoiled)),
        ]
    for text, good in checks:
        print(f"{'ok    ' if good else 'FAILED'} {text}")
    sys.exit(0 if all(good for _, good in checks) else 1)


if __name__ == "__main__":
    main()
