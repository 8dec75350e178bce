"""The programs of doc/PYTHON.md and of README.md run, and the one that measures calls.

SPDX-License-Identifier: Apache-2.0
"""

import importlib.metadata
import re
import subprocess
import sys

from conftest import GOLDEN

import pith


def test_programs(capsys):
    text = (GOLDEN.parent / "doc" / "PYTHON.md").read_text()
    printed = []
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        assert program.count("\n") < 40
        exec(compile(program, "PYTHON.md", "exec"), {})
        printed.append(capsys.readouterr().out.splitlines())
    overview, sums, caches, mean = printed
    assert overview[0].startswith("eb:rel=1e-3") and "PITH_ERR_MISMATCH" in overview[-1]
    assert caches[0].startswith("300 301 (50, 1, 64) (3, 40960) error 0.")
    assert mean[0].startswith("mean 1.0 bits a value 8.")
    assert 280 < int(sums[0].split()[0]) <= 300


def test_readme(capsys):
    text = (GOLDEN.parent / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    assert all(f"`{line}`" in text for line in printed), printed


def test_what_measures_calls_runs():
    program = [sys.executable, GOLDEN.parent / "python" / "bench" / "calls.py", "1"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| `")]
    assert len(rows) == 2 * 5 + 5
    assert all(re.search(r"\| -?[\d.]+ \|$", row) for row in rows), rows


def test_page_names_what_there_is():
    text = (GOLDEN.parent / "doc" / "PYTHON.md").read_text()
    for name in re.findall(r"`pith\.(\w+)", text):
        assert hasattr(pith, name), name


def test_licenses_are_in_the_wheel():
    files = importlib.metadata.files("libpith")
    licenses = {file.name: file for file in files if "licenses" in file.parts}
    assert "Apache License" in licenses["LICENSE"].read_text()
    for name in ("zstd", "xxhash", "jansson", "libgomp"):
        assert "permi" in licenses[name + ".txt"].read_text().lower(), name


def test_the_wheel_says_who_made_it_and_what_for():
    metadata = importlib.metadata.metadata("libpith")
    assert metadata["Author"] == "The pith developers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "quantization" in metadata["Keywords"].split(",")
    classifiers = metadata.get_all("Classifier")
    # The expression says the licence; the index refuses a classifier beside it.
    assert not any(each.startswith("License ::") for each in classifiers)
    assert "Topic :: System :: Archiving :: Compression" in classifiers
