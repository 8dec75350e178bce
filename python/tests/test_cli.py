"""The command line of the wheel, and files of PyTorch through it.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import io
import json
import os
import pathlib
import pty
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import has, noise, same

import pith
from pith import cli


def run(*words, cwd, stdout=subprocess.PIPE):
    return subprocess.run(
        [sys.executable, "-m", "pith", *map(str, words)],
        cwd=cwd,
        stdout=stdout,
        stderr=subprocess.PIPE,
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


def test_tensors_of_a_compressed_checkpoint_are_frames(torch, needs_safetensors, tmp_path):
    """As doc/PYTHON.md says: one is restored without the others."""
    from safetensors.torch import load_file, save_file

    old = {"w": torch.randn(40, 30).bfloat16(), "b": torch.randn(30)}
    new = {name: x + torch.randn(x.shape).to(x.dtype) / 100 for name, x in old.items()}
    save_file(old, tmp_path / "old.safetensors")
    save_file(new, tmp_path / "new.safetensors")
    done = run("compress", "--base", "old.safetensors", "new.safetensors", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    frames = load_file(tmp_path / "new.safetensors.pith.safetensors")
    assert frames["w"].dtype == torch.uint8
    w = pith.decompress(frames["w"], base=old["w"], dtype=torch.bfloat16)
    assert w.shape == (40, 30) and torch.equal(w, new["w"])


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


def test_the_output_is_named_after_the_operand(torch, pith_command):
    torch.save({"w": torch.zeros(3)}, "old.pt")
    torch.save({"w": torch.ones(3)}, "new.pt")
    for words in ("new.pt --base old.pt", "--base=old.pt new.pt", "--bas=old.pt -- new.pt"):
        assert pith_command("compress", "-C", "lossless", *words.split()) == 0
        assert not pathlib.Path("old.pt.pith.safetensors").exists()
        packed = pathlib.Path("new.pt.pith.safetensors")
        assert subprocess.run([cli.program(), "inspect", packed], check=False).returncode == 0
        assert pith_command("decompress", "--base=old.pt", "-fo", "c.pt", str(packed)) == 0
        assert torch.load("c.pt", weights_only=True)["w"].tolist() == [1, 1, 1]
        packed.unlink()


@pytest.mark.parametrize(
    "flags", [["--output=back.pt"], ["-oback.pt"], ["--out", "back.pt"], ["--ou=back.pt"]]
)
def test_the_output_is_of_pytorch_however_it_is_given(torch, pith_command, flags):
    state = {"w": torch.arange(5.0), "step": 3}
    torch.save(state, "a.pt")
    assert pith_command("compress", "a.pt") == 0
    for words in (["a.pt.pith.safetensors", *flags], [*flags, "-f", "--", "a.pt.pith.safetensors"]):
        assert pith_command("decompress", *words) == 0
        assert equal(state, torch.load("back.pt", weights_only=True), torch)
    with pytest.raises(cli._Failed, match=r"back\.pt: exists; -f overwrites"):
        pith_command("decompress", *flags, "a.pt.pith.safetensors")
    assert {p.name for p in pathlib.Path().iterdir()} == {
        "a.pt",
        "a.pt.pith.safetensors",
        "back.pt",
    }


def test_an_output_is_replaced_whole(torch, pith_command, monkeypatch):
    torch.save({"w": torch.zeros(3)}, "a.pt")
    pathlib.Path("a.pt").chmod(0o640)
    assert pith_command("compress", "a.pt") == 0
    pathlib.Path("a.pt.pith.safetensors").chmod(0o600)
    pathlib.Path("back.pt").write_bytes(b"before")

    def full(content, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(cli._Failed, match=r"back\.pt: cannot write: No space"):
            pith_command("decompress", "-f", "-o", "back.pt", "a.pt.pith.safetensors")
    assert pathlib.Path("back.pt").read_bytes() == b"before"
    assert pith_command("decompress", "-f", "-o", "back.pt", "a.pt.pith.safetensors") == 0
    assert pathlib.Path("back.pt").stat().st_mode & 0o777 == 0o600
    assert len(list(pathlib.Path().iterdir())) == 3


@pytest.mark.parametrize("name", ["a.pt", "./a.pt", "symbolic", "hard"])
def test_an_input_or_a_base_is_not_overwritten(torch, pith_command, name):
    torch.save({"w": torch.zeros(300)}, "a.pt")
    torch.save({"w": torch.ones(300)}, "next.pt")
    pathlib.Path("symbolic").symlink_to("a.pt")
    os.link("a.pt", "hard")
    os.link("a.pt", "a.pt.pith.safetensors")
    before, there = pathlib.Path("a.pt").read_bytes(), sorted(os.listdir())
    with pytest.raises(cli._Failed, match=r"^a\.pt\.pith\.safetensors: is the input"):
        pith_command("compress", "-f", "a.pt")
    for words, why in ((["a.pt"], "input"), (["--base", "a.pt", "next.pt"], "base, without which")):
        with pytest.raises(cli._Failed, match=f"^{name}: is the {why}"):
            pith_command("compress", "-f", "-o", name, *words)
    assert pathlib.Path("a.pt").read_bytes() == before and sorted(os.listdir()) == there


def test_standard_output_is_not_the_input_either(torch, needs_safetensors, tmp_path):
    torch.save({"w": torch.zeros(300)}, tmp_path / "a.pt")
    before = (tmp_path / "a.pt").read_bytes()
    for to, why in (("-", "standard output: is the input"), ("/dev/stdout", "stdout: is the inp")):
        with open(tmp_path / "a.pt", "ab") as out:
            done = run("compress", "-o", to, "a.pt", cwd=tmp_path, stdout=out)
        assert done.returncode == 1 and why in done.stderr
        assert (tmp_path / "a.pt").read_bytes() == before


def test_what_is_restored_does_not_replace_what_it_is_restored_from(torch, pith_command):
    torch.save({"w": torch.zeros(300)}, "a.pt")
    assert pith_command("compress", "-o", "packed", "a.pt") == 0
    os.link("packed", "packed.pt")
    before = pathlib.Path("packed").read_bytes()
    with pytest.raises(cli._Failed, match=r"^packed\.pt: is the input"):
        pith_command("decompress", "-f", "-o", "packed.pt", "packed")
    assert pathlib.Path("packed").read_bytes() == before


def test_links_are_those_of_the_program(torch, pith_command):
    state = {"w": torch.arange(300)}
    torch.save(state, "a.pt")
    assert pith_command("compress", "-o", "packed", "a.pt") == 0
    pathlib.Path("target").write_bytes(b"before")
    pathlib.Path("link.pt").symlink_to("target")
    pathlib.Path("nowhere.pt").symlink_to("new")
    pathlib.Path("loop.pt").symlink_to("loop.pt")
    pathlib.Path("folder.pt").mkdir()
    for name, why in (
        ("link", "exists; -f"),
        ("nowhere", "exists; -f"),
        ("folder", "is a directory"),
        ("loop", "cannot write: Too many"),
    ):
        with pytest.raises(cli._Failed, match=rf"^{name}\.pt: {why}"):
            pith_command("decompress", "-o", f"{name}.pt", "packed")
    for name in ("link.pt", "nowhere.pt"):
        assert pith_command("decompress", "-f", "-o", name, "packed") == 0
        assert not pathlib.Path(name).is_symlink()
        assert equal(state, torch.load(name, weights_only=True), torch)
    assert pathlib.Path("target").read_bytes() == b"before" and not pathlib.Path("new").exists()


def test_a_file_that_appears_meanwhile_is_kept(torch, pith_command, monkeypatch):
    torch.save({"w": torch.zeros(3)}, "a.pt")
    assert pith_command("compress", "-o", "packed", "a.pt") == 0
    save = torch.save

    def slow(content, file):
        save(content, file)
        pathlib.Path("back.pt").write_bytes(b"of another")

    monkeypatch.setattr(torch, "save", slow)
    with pytest.raises(cli._Failed, match=r"back\.pt: cannot write: File exists"):
        pith_command("decompress", "-o", "back.pt", "packed")
    assert pathlib.Path("back.pt").read_bytes() == b"of another"
    assert sorted(os.listdir()) == ["a.pt", "back.pt", "packed"]


def test_pipes_and_standard_output_are_written_in_place(torch, pith_command):
    state = {"w": torch.arange(300)}
    torch.save(state, "a.pt")
    assert pith_command("compress", "-q", "-o", "packed", "a.pt") == 0
    os.mkfifo("pipe.pt")
    with subprocess.Popen(["cat", "pipe.pt"], stdout=subprocess.PIPE) as reader:
        try:
            assert pith_command("decompress", "-q", "-o", "pipe.pt", "packed") == 0
            content = io.BytesIO(reader.communicate(timeout=10)[0])
        finally:
            reader.kill()
    assert equal(state, torch.load(content, weights_only=True), torch)
    with open("out.pt", "wb") as out:
        done = run("decompress", "-q", "-o", "out.pt", "packed", cwd=".", stdout=out)
    assert done.returncode == 0, done.stderr
    assert equal(state, torch.load("out.pt", weights_only=True), torch)
    assert sorted(os.listdir()) == ["a.pt", "out.pt", "packed", "pipe.pt"]


def test_messages_name_the_file_and_not_its_copy(torch, pith_command, capfd):
    torch.save({"w": torch.zeros(30, 10)}, "a.pt")
    torch.save({"w": torch.ones(30, 10)}, "b\x1b.pt")
    for words, status, text in (
        (["compress", "a.pt"], 0, "pith: a.pt: 13"),
        (["compress", "-q", "-C", "wdiff", "--base", "a.pt", "-o", "c", "b\x1b.pt"], 0, ""),
        (["compress", "--base", "c", "-o", "d", "a.pt"], 1, "pith: c: "),
        (["inspect", "b\x1b.pt"], 1, "pith: b\\x1b.pt: "),
        (["compare", "--max-abs", "0.5", "a.pt", "b\x1b.pt"], 1, "pith: b\\x1b.pt: the largest"),
        (["decompress", "-o", "d.pt", "a.pt.pith.safetensors"], 0, "pith: a.pt.pith.safe"),
        (["decompress", "-q", "-o", "e.pt", "a.pt.pith.safetensors"], 0, ""),
    ):
        assert pith_command(*words) == status
        said = capfd.readouterr().err
        assert said.startswith(text) and bool(said) == bool(text) and "pith-" not in said, said
        if "d.pt" in words:
            size = pathlib.Path("d.pt").stat().st_size
            assert said == f"pith: a.pt.pith.safetensors: restored {size} bytes to d.pt\n"


COPY = """
import sys
from pith import cli

with cli._Temporary() as temporary:
    names = [temporary.copy_of("m.pt"), temporary.copy_of("base.pt")]
    code = (
        "import os, sys, time\\n"
        "for word in sys.argv[1:]:\\n"
        "    os.write(2, word.encode()); time.sleep(0.05)\\n"
        "sys.exit(os.isatty(2))"
    )
    a, b = names
    sys.exit(temporary.run([sys.executable, "-c", code, a[:9], a[9:], ": ", b, " " + a[:5], "\\n"]))
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_names_that_come_in_pieces_on_a_terminal_too(start, tmp_path, terminal):
    source, sink = pty.openpty() if terminal else os.pipe()
    process = start("-c", COPY, stderr=sink)
    os.close(sink)
    said = b""
    with contextlib.suppress(OSError):
        while more := os.read(source, 100):
            said += more
    os.close(source)
    assert process.wait(60) == terminal
    end = b"\r\n" if terminal else b"\n"
    assert said == b"m.pt: base.pt " + os.fsencode(tmp_path)[:5] + end


@contextlib.contextmanager
def files_end_at(size):
    """A disk that is full, as far as a program can tell."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_said_and_nothing_is_left(torch, pith_command, tmp_path, monkeypatch, capfd):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    torch.save({"w": torch.zeros(300000)}, "a.pt")
    assert pith_command("compress", "-q", "-o", "packed", "a.pt") == 0
    there = sorted(os.listdir())

    def check():
        assert sorted(os.listdir()) == there and not os.listdir(folder)

    with files_end_at(100000):
        kept = rf"^a\.pt: cannot be kept in a temporary file in {folder}: File too large"
        with pytest.raises(cli._Failed, match=kept):
            pith_command("compress", "-o", "new", "a.pt")
        check()
        assert pith_command("decompress", "-o", "back.pt", "packed") == 1
        copy = f"pith: a copy of back.pt in {folder}: cannot write: File too large\n"
        assert capfd.readouterr().err == copy
        check()
    save = torch.save

    def full(content, file):
        with files_end_at(100000):
            save(content, file)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(cli._Failed, match=r"^back\.pt: cannot write: File too large$"):
        pith_command("decompress", "-o", "back.pt", "packed")
    check()


def test_a_frame_that_is_no_checkpoint_becomes_none(torch, pith_command):
    pathlib.Path("x.pith").write_bytes(pith.compress(noise(30)))
    with pytest.raises(cli._Failed, match=r"^x\.pith: back\.pt cannot be made of it: "):
        pith_command("decompress", "-o", "back.pt", "x.pith")
    assert os.listdir() == ["x.pith"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_the_output_is_for_those_who_may_read_the_input(torch, pith_command, mode):
    torch.save({"w": torch.zeros(3)}, "a.pt")
    pathlib.Path("a.pt").chmod(mode)
    mask = os.umask(0o022)
    try:
        assert pith_command("compress", "a.pt") == 0
        assert pathlib.Path("a.pt.pith.safetensors").stat().st_mode & 0o777 == mode
        assert pith_command("decompress", "-o", "back.pt", "a.pt.pith.safetensors") == 0
        assert pathlib.Path("back.pt").stat().st_mode & 0o777 == mode
    finally:
        os.umask(mask)


def test_copies_are_kept_where_the_program_keeps_them(tmp_path, monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    for variable, place in (("", "/var/tmp"), (str(tmp_path / "none"), "/var/tmp"), (tmp_path, "")):
        monkeypatch.setenv("TMPDIR", str(variable))
        with cli._Temporary() as temporary:
            folder = pathlib.Path(temporary.folder)
            assert str(folder.parent) == (place or str(tmp_path))
        assert not folder.exists()


@pytest.fixture
def start(needs_safetensors, tmp_path, monkeypatch):
    """What starts Python in a folder to itself, and kills what still runs after the test."""
    work, begun = tmp_path / "work", []
    (tmp_path / "temporary").mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))

    def start(*words, **more):
        begun.append(subprocess.Popen([sys.executable, *words], text=True, **more))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def until(condition):
    """Return what a condition gives as soon as it is true."""
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, "nothing happened for a minute"
        time.sleep(0.02)
    return value


def children(process):
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in path.read_text().split()]


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_and_leaves_no_copies(torch, start, tmp_path, number):
    torch.save({"w": torch.zeros(300)}, "a.pt")
    os.mkfifo("pipe")  # which the program waits for somebody to read

    def ignore_others():
        signal.signal(number, signal.SIG_DFL)  # which who runs the tests may ignore
        for other in {signal.SIGTERM, signal.SIGHUP, signal.SIGINT} - {number}:
            signal.signal(other, signal.SIG_IGN)

    process = start("-m", "pith", "compress", "-o", "pipe", "a.pt", preexec_fn=ignore_others)
    (child,) = until(lambda: children(process))
    until(lambda: pathlib.Path(f"/proc/{child}/cmdline").read_bytes().count(b"/bin/pith"))
    assert list((tmp_path / "temporary").iterdir())
    for other in {signal.SIGTERM, signal.SIGHUP, signal.SIGINT} - {number}:
        process.send_signal(other)
    time.sleep(0.2)
    assert process.poll() is None and runs(child)
    process.send_signal(number)
    try:
        assert process.wait(60) == -number
        assert not runs(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    assert not list((tmp_path / "temporary").iterdir())


SLOW = """
import sys, time, torch
from pith import cli

def save(content, file):
    file.write(b"half")
    file.flush()
    print("began", flush=True)
    time.sleep(60)

torch.save = save
sys.argv[1:] = ["decompress", "-f", "-o", "back.pt", "a.pt.pith.safetensors"]
cli.main()
"""


def test_what_a_signal_finds_half_written_goes_or_is_found_later(torch, start, tmp_path):
    torch.save({"w": torch.zeros(300)}, "a.pt")
    assert run("compress", "-q", "a.pt", cwd=".").returncode == 0
    pathlib.Path("back.pt").write_bytes(b"before")
    np.save("x.npy", noise(3))
    there = sorted(os.listdir())
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = start("-c", SLOW, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "began\n"
        (half,) = pathlib.Path().glob(".pith.tmp-*")
        # The program removes what was left here, but not what somebody still writes.
        assert subprocess.run([cli.program(), "compress", "-q", "-o", "x", "x.npy"]).returncode == 0
        os.unlink("x")
        assert half.exists()
        # So does this one with copies.
        assert run("compress", "-q", "-o", "x", "a.pt", cwd=".").returncode == 0
        os.unlink("x")
        assert len(list((tmp_path / "temporary").iterdir())) == 1
        process.send_signal(number)
        assert process.wait(60) == -number
        if number == signal.SIGTERM:
            assert not list((tmp_path / "temporary").iterdir())
        else:
            subprocess.run([cli.program(), "compress", "-q", "-o", "x", "x.npy"], check=True)
            os.unlink("x")
            assert run("compress", "-q", "-o", "x", "a.pt", cwd=".").returncode == 0
            os.unlink("x")
            assert not list((tmp_path / "temporary").iterdir())
        assert sorted(os.listdir()) == there
        assert pathlib.Path("back.pt").read_bytes() == b"before"


WARNS = """
import os, sys, torch
from pith import cli

real = torch.save

def save(content, file):
    real(content, file)
    try:
        os.write(2, b"C++ warns")
    except OSError:
        pass

torch.save = save
sys.argv[1:] = ["decompress", "-o", "back.pt", "packed"]
cli.main()
"""


def test_no_file_takes_the_place_of_a_closed_stderr(torch, start):
    torch.save({"w": torch.zeros(300)}, "a.pt")
    assert run("compress", "-q", "-o", "packed", "a.pt", cwd=".").returncode == 0
    process = start("-c", WARNS, preexec_fn=lambda: os.close(2))
    assert process.wait(60) == 0
    assert b"C++ warns" not in pathlib.Path("back.pt").read_bytes()


def test_flags_that_are_wrong_are_the_programs_to_refuse(torch, needs_safetensors, tmp_path):
    torch.save({"w": torch.zeros(3)}, tmp_path / "a.pt")
    for words in (["--nothing"], ["--ma", "3"], ["-o"], ["-T", "x"]):
        done = run("compress", "a.pt", *words, cwd=tmp_path)
        assert done.returncode == 2 and "usage" in done.stderr


def test_flags_are_those_of_the_program():
    source = pathlib.Path(__file__).resolve().parents[2] / "cli" / "options.c"
    if not source.exists():
        pytest.skip("the package is tested without its checkout")
    rows = re.findall(r'{"([a-z-]+)", (required|no)_argument', source.read_text())
    assert [name + "=" * (takes == "required") for name, takes in rows] == cli.LONG
    assert f'short_flags[] = ":{cli.SHORT}"' in source.read_text()


@pytest.mark.parametrize(
    "structure",
    [
        "no JSON",
        "[1]",
        "[" * 100000,
        json.dumps({"tensor": "absent"}),
        json.dumps({"dict": [[["no", "key"], {"value": 1}]]}),
        json.dumps({"dict": 3}),
        json.dumps({"sets": []}),
        '{"list": [' * 200 + '{"value": 1}' + "]}" * 200,
    ],
)
def test_structures_of_others(torch, pith_command, structure):
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file({"w": torch.zeros(3)}, "a.safetensors", {cli.STRUCTURE: structure})
    assert subprocess.run([cli.program(), "compress", "a.safetensors"], check=False).returncode == 0
    with pytest.raises(cli._Failed, match=r"a\.safetensors\.pith\.safetensors: metadata"):
        pith_command("decompress", "-o", "b.pt", "a.safetensors.pith.safetensors")
    assert not pathlib.Path("b.pt").exists()


def test_what_cannot_be_kept_is_said(torch, pith_command):
    torch.save({"w": torch.zeros(3), "s": {1, 2}}, "set.pt")
    torch.save({(1, 2): torch.zeros(3)}, "key.pt")
    torch.save({"w": torch.nn.Linear(2, 2)}, "module.pt")
    deep = [torch.zeros(3)]
    for _ in range(200):
        deep = [deep]
    torch.save(deep, "deep.pt")
    pathlib.Path("broken.pt").write_bytes(b"no file of PyTorch")
    pathlib.Path("empty.pt").write_bytes(b"")
    pathlib.Path("half.pt").write_bytes(pathlib.Path("set.pt").read_bytes()[:500])
    torch.save(torch.zeros(60000), "cut.pt")
    pathlib.Path("cut.pt").write_bytes(pathlib.Path("cut.pt").read_bytes()[:5000])
    for name, why in (
        ("set.pt", "s is a set, which cannot"),
        ("key.pt", "a key of type tuple"),
        ("module.pt", "is no file.*GLOBAL torch.nn.modules.linear.Linear"),
        ("broken.pt", "is no file of torch.save.*: Unsupported operand"),
        ("empty.pt", "PyTorch cannot read it: it ends early"),
        ("half.pt", "PyTorch cannot read it: "),
        ("cut.pt", "PyTorch cannot read it: it ends early"),
        ("deep.pt", "more than"),
    ):
        with pytest.raises(cli._Failed, match=f"^{name}: {why}") as failed:
            pith_command("compress", name)
        # PyTorch would run what the file holds, and says how.
        assert "weights_only" not in str(failed.value) and "\n" not in str(failed.value)
        assert not pathlib.Path(f"{name}.pith.safetensors").exists()


@pytest.mark.filterwarnings("ignore")
def test_tensors_that_cannot_be_kept_are_named(torch, pith_command):
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    for name, x, text in (
        ("sparse.pt", torch.eye(3).to_sparse(), "to_dense"),
        ("rows.pt", torch.eye(3).to_sparse_csr(), "to_dense"),
        ("quantized.pt", quantized, "dequantize"),
        ("bits.pt", torch.zeros(3, dtype=torch.bits8), "dtype"),
        ("huge.pt", torch.zeros(1).expand(1 << 50), "alloc"),
    ):
        torch.save({"w": x}, name)
        with pytest.raises(cli._Failed, match=f"{name}: .*{text}"):
            pith_command("compress", name)


def test_a_name_that_safetensors_reserves(torch, pith_command):
    torch.save({"__metadata__": torch.ones(2), "__metadata___": torch.zeros(3)}, "name.pt")
    pith_command("compress", "name.pt")
    pith_command("decompress", "-o", "back.pt", "name.pt.pith.safetensors")
    back = torch.load("back.pt", weights_only=True)
    assert list(back) == ["__metadata__", "__metadata___"]
    assert back["__metadata__"].tolist() == [1, 1] and len(back["__metadata___"]) == 3


def test_a_list_twice_in_each_of_many_lists(torch, pith_command):
    nested = []
    for _ in range(60):
        nested = [nested, nested]
    torch.save(nested, "nested.pt")
    with pytest.raises(cli._Failed, match=r"nested\.pt: more than \d+ tensors and values"):
        pith_command("compress", "nested.pt")


@pytest.mark.skipif(has("torch"), reason="torch is installed")
def test_without_pytorch_it_says_what_to_install(tmp_path):
    (tmp_path / "x.pt").write_bytes(b"")
    done = run("compress", "x.pt", cwd=tmp_path)
    assert done.returncode == 1 and "pip install torch safetensors" in done.stderr
