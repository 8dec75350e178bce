#!/usr/bin/env python3
# check_calls.py - every call of the public headers says its errors, and who may call at once.
# SPDX-License-Identifier: Apache-2.0
"""The form of the public headers.

C. The text at the top of a header has a paragraph that begins with "Threads.". Every call has a
comment of its own. That of a call which returns a status names errors (PITH_ERR_...), or calls
whose errors it has ("As pith_...", "Errors as pith_...;"): PITH_ERR_SPACE where it is given memory
or a capacity, PITH_ERR_DTYPE where it is given a view. What all calls of a section can answer
besides is said once in the section's comment ("/* ----"), what all of a header can at its top.

C++. The comment of a call that has a form try_name has "Errors:" and "Threads:".
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PLACES = ("include/pith", "adapters/*/include/pith")
NOT_C = re.compile(r'^#(.*\\\n)*.*$|^extern "C" \{$', re.M)
PART = re.compile(r"/\*.*?\*/|[{};]|[^{};/]+|/", re.S)
NAME = re.compile(r"\bPITH_API\b[^()]*?\b(pith_\w+)\s*\(")
STATUS = re.compile(r"\bpith_status\s+pith_\w+\s*\(")
TRY = re.compile(r"\bpith_status (try_\w+)\(")
REFERENCE = re.compile(r"\bAs (pith_\w+)|\bas (pith_\w+)(?=[.,;:]| and as )")
# What a call that takes such an argument says, in its own comment or in one that it refers to.
WANTED = {
    re.compile(r"\bsize_t cap\b|\bvoid \*memory, size_t bytes\b"): "SPACE",
    re.compile(r"\bconst pith_view \*(?!const\b)"): "DTYPE",
}


@dataclass
class Call:
    """A function, and what is said of it."""

    header: Path
    name: str
    has_status: bool
    comment: str
    words: str


def paragraphs_of(comment: str) -> list[str]:
    """Return what a comment says, a line for each of its paragraphs."""
    text = "\n".join(line.strip(" */") for line in comment.splitlines())
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\n+", text)]


def read(path: Path) -> tuple[list[str], list[Call]]:
    """Return the paragraphs at the top of a header, and its calls."""
    depth, words, comment = 0, "", ""
    top: list[str] = []
    found: list[Call] = []
    for part in PART.findall(NOT_C.sub("", path.read_text())):
        if part.startswith("/*"):
            text = " ".join(paragraphs_of(part))
            if not top:
                top = paragraphs_of(part)
            elif depth == 0 and part.startswith("/* ----"):
                comment = ""
            elif depth == 0 and not words.strip():
                comment = text
            continue
        depth = max(0, depth + {"{": 1, "}": -1}.get(part, 0))
        if depth == 0:
            words += part
        if depth == 0 and part == ";":
            name = NAME.search(words)
            if name:
                status = bool(STATUS.search(words))
                found.append(Call(path, name.group(1), status, comment, " ".join(words.split())))
                comment = ""
            words = ""
    return top, found


def faults_of(headers: list[Path]) -> list[str]:
    """Return a line for everything that is not said."""
    faults: list[str] = []
    calls: dict[str, Call] = {}
    for path in headers:
        top, found = read(path)
        calls.update((call.name, call) for call in found)
        if found and not any(p.startswith("Threads.") for p in top):
            faults.append(f"{path.name}: no paragraph 'Threads.' at the top")

    def says(call: Call, error: str, seen: tuple[str, ...] = ()) -> bool:
        if re.search(rf"\bPITH_ERR_{error}|, _{error}", call.comment):
            return True
        others = {a or b for a, b in REFERENCE.findall(call.comment)}.difference(seen)
        return any(n in calls and says(calls[n], error, (*seen, n)) for n in others)

    for call in calls.values():
        if not call.comment:
            faults.append(f"{call.header.name}: {call.name} has no comment")
        elif call.has_status and not says(call, ""):
            faults.append(f"{call.header.name}: {call.name} does not say its errors")
        elif call.has_status:
            faults += [
                f"{call.header.name}: {call.name} does not say when it answers PITH_ERR_{error}"
                for argument, error in WANTED.items()
                if argument.search(call.words) and not says(call, error)
            ]
    if len(calls) < 100:
        faults.append("the headers were not understood")
    return faults


def faults_of_cpp(path: Path) -> list[str]:
    """Return a line for every call with two forms of which that is not said."""
    faults: list[str] = []
    said, calls, open_comment = "", 0, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.match(r" {0,4}//", line):
            said = said + line if open_comment else line
        open_comment = re.match(r" {0,4}//", line) is not None
        name = TRY.search(line)
        if name:
            calls += 1
            if "Errors:" not in said or "Threads:" not in said:
                faults.append(f"{path.name}:{number}: {name.group(1)} says no errors or threads")
    if calls < 30:
        faults.append(f"{path.name} was not understood")
    return faults


def main() -> int:
    """Print what is not said; 1 when something is not."""
    faults = faults_of(sorted(p for place in PLACES for p in TOP.glob(place + "/*.h")))
    faults += faults_of_cpp(TOP / "include/pith/pith.hpp")
    print("\n".join(faults) or "all calls say their errors, all headers who may call at once")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
