#!/usr/bin/env python3
# check_golden_coverage.py - golden frames reach every branch of the second decoder.
# SPDX-License-Identifier: Apache-2.0
"""Says for each branch of tests/refdec/refdec*.c which golden frame takes it, and fails unless
every branch that a valid frame can take is taken by one, and unless every value that a list of
FORMAT.md has (REF_CASE) is met in one. Frames of tests/golden-bad that are good count as golden,
and so do those of the set that a receiver holds (NAME.held with NAME.map).
tests/golden/COVERAGE.txt is that table as it was committed.

A branch is an outcome of a condition as gcov counts them (gcc -O0: each side of each && and ||).
Those need no golden frame that only a refusal takes: outcomes of a statement that names the
refusal, that is whose source holds one of

    return false   REJECT_IF   TRY   REF_CORRUPT and the other bad statuses   status == REF_OK
    good   allocated   (whether a part was read, whether there was memory)

A statement that also decides something else is therefore written apart from refusals. How many of
these the bad frames of tests/golden-bad take is counted.

    tests/form/check_golden_coverage.py            check; compare with the committed table
    tests/form/check_golden_coverage.py --write    write the table
"""
import collections
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ME = "tests/form/check_golden_coverage.py"
REFDEC = ROOT / "tests/refdec"
GOLDEN = ROOT / "tests/golden/v1"
BAD = ROOT / "tests/golden-bad"
TABLE = ROOT / "tests/golden/COVERAGE.txt"
STATUS = "TRUNCATED|MAGIC|NEWER|CORRUPT|CHECKSUM|BASE|NO_BASE|STATE|LIMIT|MEMORY"
REFUSAL = re.compile(
    rf"return false|REJECT_IF|\bTRY\(|\bREF_({STATUS})\b|status [!=]= REF_OK|\bgood\b|\ballocated\b"
)


def build(folder):
    sources = sorted(str(p) for p in REFDEC.glob("refdec*.c"))
    command = ["gcc", "-std=c11", "-O0", "--coverage", "-DREFDEC_CASES"]
    subprocess.run(
        [*command, "-o", "refdec", *sources, "-lzstd", "-lxxhash", "-lm"], cwd=folder, check=True
    )


def decode(folder, frame, base):
    """Status of refdec, and the values of lists that it met."""
    arguments = ["./refdec", frame, *([base] if base.exists() else []), "out"]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    return done.returncode, [line.rsplit(":", 2) for line in done.stderr.splitlines()]


def counts(folder):
    """How often each branch was taken since the last call: {(file, line, number): count}."""
    files = glob.glob("*.gcda", root_dir=folder)
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", *files]
    text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    taken = {}
    for line in text.splitlines():
        for file in json.loads(line)["files"]:
            name = os.path.basename(file["file"])
            if not name.startswith("refdec") or name == "refdec_main.c":
                continue
            for row in file["lines"]:
                for i, branch in enumerate(row["branches"]):
                    taken[name, row["line_number"], i] = branch["count"]
    for file in files:
        os.remove(os.path.join(folder, file))
    return taken


def statement(lines, number):
    """The statement that the line of this number is a part of; of one that begins a block of code
    also the first line in it."""
    end = re.compile(r"[;{}]\s*(/\*.*)?$")
    first = last = number - 1
    while first and not end.search(lines[first - 1]) and lines[first - 1].strip():
        first -= 1
    while not end.search(lines[last]):
        last += 1
    if lines[last].endswith("{") and lines[last + 1].lstrip().startswith(("return", "status")):
        last += 1
    return " ".join(line.strip() for line in lines[first : last + 1])


def measure():
    """By branch and by value of a list: the first golden frame; and what bad frames take."""
    first, lists, met = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        build(folder)
        rows = [line.split() for line in (BAD / "EXPECTED").read_text().splitlines()]
        good = [(path, path.with_suffix(".base")) for path in sorted(GOLDEN.glob("*.pith"))]
        good += [(path, path.with_suffix(".map"))
                 for suffix in ("held", "blocks") for path in sorted(GOLDEN.glob("*." + suffix))]
        for name, status, origin in rows:
            if status == "PITH_OK":
                good.append((BAD / f"{name}.pith", GOLDEN / f"{origin}.base"))
        for frame, base in good:
            status, cases = decode(folder, frame, base)
            if status:
                sys.exit(f"{frame.name}: refdec does not decode it")
            for branch, count in counts(folder).items():
                first[branch] = first.get(branch) or (frame.stem if count else None)
            for name, legal, value in cases:
                lists[name] = int(legal)
                met.setdefault((name, int(value)), frame.stem)
        for name, status, origin in rows:
            if status != "PITH_OK":
                decode(folder, BAD / f"{name}.pith", GOLDEN / f"{origin}.base")
        bad = counts(folder)
    return first, lists, met, bad


def main():
    first, lists, met, bad = measure()
    compiler = subprocess.run(["gcov", "--version"], capture_output=True, text=True).stdout
    version = re.search(r"(\d+)\.\d+\.\d+", compiler).group(1)
    text = [
        f"Made by {ME} --write with gcov {version}: for each branch of",
        "the second decoder the first golden frame that takes it. Branches are numbered as gcov",
        "does, within a line; of those not listed only a refusal is the outcome.",
    ]
    missing, refusals, damaged = [], 0, 0
    by_line = collections.defaultdict(dict)
    for (file, line, i), frame in first.items():
        by_line[file, line][i] = frame
    source, before = {}, None
    for (file, line), frames in sorted(by_line.items()):
        if file != before:
            source[file] = (REFDEC / file).read_text().splitlines()
            text += ["", file]
            before = file
        words = statement(source[file], line)
        for i, frame in sorted(frames.items()):
            if frame:
                continue
            if REFUSAL.search(words):
                refusals += 1
                damaged += bool(bad.get((file, line, i)))
            else:
                missing.append(f"{file}:{line}: no golden frame takes branch {i} of: {words}")
        taken = [f"{i} {frame}" for i, frame in sorted(frames.items()) if frame]
        if taken:
            text += [f"{line:4}: {source[file][line - 1].strip()}", "      " + ", ".join(taken)]
    text += ["", "values of lists"]
    for name, legal in sorted(lists.items()):
        values = [i for i in range(64) if legal >> i & 1]
        text.append(f"{name}: " + ", ".join(f"{i} {met.get((name, i), '-')}" for i in values))
        missing += [f"no golden frame has {name} = {i}" for i in values if (name, i) not in met]
    text = "\n".join(text) + "\n"
    for line in missing:
        print(line)
    reached = sum(1 for frame in first.values() if frame)
    print(
        f"{reached} branches and {len(met)} values of {len(lists)} lists have a golden frame,"
        f" {len(missing)} have none; {refusals} are refusals, of which {damaged} have a bad frame"
    )
    if "--write" in sys.argv:
        TABLE.write_text(text)
    elif not TABLE.exists() or TABLE.read_text() != text:
        old = TABLE.read_text() if TABLE.exists() else ""
        if f"with gcov {version}:" in old or not old:
            print(f"{TABLE}: not the table that --write makes")
            return 1
        print(f"made by another gcov than {version}: not compared with the committed table")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
