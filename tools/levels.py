#!/usr/bin/env python3
# levels.py - print how much of AVX-512's shares of the ceilings AVX2 reaches: levels.py PITH
# SPDX-License-Identifier: Apache-2.0
"""For doc/RESULTS.md: `pith bench` of every codec with either set of instructions in turn.

Shares are of a read-only sum (encode) and of the best fill (decode) of the same run, so that what
the machine does from one run to the next matters little.
"""

import json
import subprocess
import sys

GOAL = 0.8


def bench(pith, *options):
    """Returns the rows of a run."""
    command = [pith, "bench", "--json", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["results"]


def shares(row):
    """Returns what encoding and decoding reach of their ceilings."""
    return row["encode_gbps"] / row["read_gbps"], row["decode_gbps"] / row["fill_gbps"]


def main():
    """Prints the table, and how many of its shares are as large as they should be."""
    pith = sys.argv[1]
    quick = bench(pith, "--quick")
    if quick[0]["isa"] != "avx512":
        print("The machine had no AVX-512 when this page was made.")
        return
    heads = ["codec", "values", "base"]
    for what in ("encode", "decode"):
        heads += [f"{what}, AVX-512", "AVX2", "of it"]
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|---|---|")
    good = count = 0
    for spec in dict.fromkeys(row["spec"] for row in quick):
        best = bench(pith, "--cpu", "avx512", "-C", spec)
        for row, other in zip(best, bench(pith, "--cpu", "avx2", "-C", spec)):
            cells = [f"`{spec}`", row["dtype"], row["base"] or "none"]
            for a, b in zip(shares(row), shares(other)):
                cells += [f"{a:.2f}", f"{b:.2f}", f"{b / a:.2f}"]
                good += b >= GOAL * a
                count += 1
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{good} of {count} are at least {GOAL}.")


main()
