"""The command line of the wheel, and files of PyTorch through it.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import has, noise, same

import pith
from pith import cli


def run(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "pith", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(autouse=True)
def built_with_it():
    try:
        cli.program()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_arguments_and_status_are_the_programs(tmp_path):
    done = run("--version", cwd=tmp_path)
    assert done.returncode == 0 and pith.version in done.stdout
    assert run("codecs", cwd=tmp_path).stdout.count("wdiff") >= 1
    assert run("nothing", cwd=tmp_path).returncode == 2
    assert run("inspect", "missing.pith", cwd=tmp_path).returncode == 1


def test_files_of_the_program_are_those_of_the_package(tmp_path):
    x = noise(30, 40)
    np.save(tmp_path / "x.npy", x)
    done = run("compress", "-C", "eb:abs=0.01", "x.npy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    frame = (tmp_path / "x.npy.pith").read_bytes()
    assert same(pith.decompress(frame), pith.decompress(pith.compress(x, "eb:abs=0.01")))
    (tmp_path / "y.pith").write_bytes(pith.compress(x))
    done = run("decompress", "-o", "y.raw", "y.pith", cwd=tmp_path)
    assert (tmp_path / "y.raw").read_bytes() == x.tobytes()


def checkpoint(torch):
    w = torch.randn(40, 30)
    return {
        "model": {"w": w, "tied": w, "part": w[1:3, ::2], "b": torch.randn(30).bfloat16()},
        "optimizer": [{"step": 3, "m": torch.zeros(3, dtype=torch.float64)}, (1.5, None, "adam")],
        7: torch.tensor(5),
        "empty": torch.zeros(0, 4),
        "complex": torch.zeros(3, dtype=torch.complex64),
    }


def equal(a, b, torch):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k], torch) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and all(equal(x, y, torch) for x, y in zip(a, b, strict=True))
    return a == b


@pytest.fixture
def needs_safetensors(torch):
    pytest.importorskip("safetensors", reason="safetensors is not installed")


@pytest.fixture
def pith_command(needs_safetensors, tmp_path, monkeypatch):
    """The command line in this process: PyTorch takes seconds to import."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli._run(list(words))


@pytest.mark.parametrize("suffix", [".pt", ".pth"])
def test_checkpoints_come_back(torch, pith_command, suffix):
    state = checkpoint(torch)
    torch.save(state, f"step1{suffix}")
    assert pith_command("compress", f"step1{suffix}") == 0
    packed = f"step1{suffix}.pith.safetensors"
    assert subprocess.run([cli.program(), "test", packed], check=False).returncode == 0
    assert pith_command("decompress", "-o", "back.pt", packed) == 0
    assert equal(state, torch.load("back.pt", weights_only=True), torch)
    with pytest.raises(cli._Failed, match="exists"):
        pith_command("decompress", "-o", "back.pt", packed)
    assert pith_command("decompress", "-f", "-o", "back.pt", packed) == 0
    assert pith_command("decompress", "-o", "other.pt", f"step1{suffix}") != 0


def test_checkpoints_against_a_base(torch, pith_command):
    w = torch.randn(200, 100)
    torch.save({"w": w}, "a.pt")
    torch.save({"w": w + torch.randn(200, 100) * 1e-3}, "b.pt")
    packed = "b.pith.safetensors"
    assert pith_command("compress", "-C", "wdiff", "--base", "a.pt", "-o", packed, "b.pt") == 0
    assert pith_command("decompress", "--base", "a.pt", "-o", "c.pt", packed) == 0
    b, c = (torch.load(name, weights_only=True)["w"] for name in ("b.pt", "c.pt"))
    assert 0 < (b - c).abs().max() < 1e-3


def test_what_cannot_be_kept_is_said(torch, pith_command):
    torch.save({"w": torch.zeros(3), "s": {1, 2}}, "set.pt")
    torch.save({(1, 2): torch.zeros(3)}, "key.pt")
    torch.save({"w": torch.nn.Linear(2, 2)}, "module.pt")
    pathlib.Path("broken.pt").write_bytes(b"no file of PyTorch")
    for name in ("set.pt", "key.pt", "module.pt", "broken.pt"):
        with pytest.raises(cli._Failed, match=name):
            pith_command("compress", name)
        assert not pathlib.Path(f"{name}.pith.safetensors").exists()


@pytest.mark.skipif(has("torch"), reason="torch is installed")
def test_without_pytorch_it_says_what_to_install(tmp_path):
    (tmp_path / "x.pt").write_bytes(b"")
    done = run("compress", "x.pt", cwd=tmp_path)
    assert done.returncode == 1 and "pip install torch safetensors" in done.stderr
