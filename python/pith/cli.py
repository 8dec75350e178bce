"""The command line ``pith``: the C program, and PyTorch's files where PyTorch is installed.

SPDX-License-Identifier: Apache-2.0

Flags are read as the C program reads them, wherever they stand and however they are abbreviated. A
``.pt`` or ``.pth`` file that is an operand or a base is converted: it is read, without running code
that it holds (``torch.load`` with ``weights_only``), and handed on as a ``.safetensors`` in a
temporary folder; one that is the output of ``pith decompress`` is written with ``torch.save``.
Everything but tensors travels in the metadata of the ``.safetensors``, so that what comes back has
the same keys and values, in plain dicts.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getopt
import json
import os
import pathlib
import pickle
import pty
import re
import secrets
import shutil
import signal
import stat
import string
import subprocess
import sys
import tempfile
import tty
from collections.abc import Iterable, Iterator
from itertools import count
from types import FrameType
from typing import Any, BinaryIO, NamedTuple, NoReturn

SUFFIXES = (".pt", ".pth")
STRUCTURE = "pith.structure"
"""Key of the metadata that has everything but tensors."""
DEPTH = 100
"""Most dicts and lists inside each other."""
ENTRIES = 1 << 20
"""Most tensors and values: lists of one list twice, inside each other, have any number."""
SHORT = "C:T:o:fqvh"
LONG = [
    *("codec=", "base=", "rule=", "dtype=", "shape=", "threads=", "output=", "force", "quiet"),
    *("verbose", "json", "max-abs=", "max-output=", "max-spool=", "cpu=", "quick", "ranks="),
    *("ranks-per-node=", "links=", "latency=", "size=", "compute=", "overlap=", "codec-speed="),
    *("levels=", "cores=", "transport=", "help"),
]
"""The flags of the C program: cli/options.c."""


class _Failed(Exception):
    """The file cannot be converted; the text is for the user."""


def program() -> pathlib.Path:
    """Return where the C program is.

    Raises:
        FileNotFoundError: the package was built without it

    """
    path = pathlib.Path(__file__).with_name("bin") / "pith"
    if not path.exists():
        raise FileNotFoundError("built without the command line: jansson was not found")
    return path


def main() -> NoReturn:
    """Run the command line with the arguments of the process, and exit with its status."""
    try:
        sys.exit(_run(sys.argv[1:]))
    except (_Failed, OSError) as error:
        sys.exit(f"pith: {_printable(str(error))}")
    except KeyboardInterrupt:
        sys.exit(130)


def _run(arguments: list[str]) -> int:
    path = program()
    try:
        flags, operands = getopt.gnu_getopt(arguments[1:], SHORT, LONG)
    except getopt.GetoptError:  # which the C program says
        flags, operands = [], []
    command = arguments[0] if arguments else ""
    outputs = [value for flag, value in flags if flag in ("-o", "--output")]
    to = outputs[-1] if outputs and command == "decompress" else ""
    restores = to.endswith(SUFFIXES)
    bases = [value for flag, value in flags if flag == "--base"]
    if not restores and not any(map(_is_source, [*operands, *bases])):
        os.execv(path, [str(path), *arguments])
    if command == "compress":
        if not outputs and any(map(_is_source, operands)):
            outputs = [f"{operands[-1]}.pith.safetensors"]
            flags.append(("--output", outputs[0]))
        if outputs:
            _refuse_sources(outputs[-1], filter(_is_source, operands), filter(_is_source, bases))
    elif restores:
        _refuse_sources(to, operands, [])  # a base may give way to what was coded against it
        output = _find_output(to, bool({"-f", "--force"} & {flag for flag, _ in flags}))
    _occupy()
    with _Temporary() as temporary:

        def converted(name: str) -> str:
            return _to_safetensors(name, temporary) if _is_source(name) else name

        quiet = bool({"-q", "--quiet"} & {flag for flag, _ in flags})
        if restores:
            # In an error this file is what cannot be written; the rest is said below.
            restored = temporary.copy_of(f"a copy of {to} in {os.path.dirname(temporary.folder)}")
            flags += [("--output", restored), ("--quiet", "")]
        words = [
            *(
                _word(flag, converted(value) if flag == "--base" else value)
                for flag, value in flags
            ),
            "--",
            *map(converted, operands),
        ]
        status = temporary.run([str(path), command, *words])
        if status == 0 and restores:
            content = _from_safetensors(restored, to, operands[0])
            size = _save(content, output, operands[0], temporary)
            if not quiet:
                source = "standard input" if operands[0] == "-" else operands[0]
                _say(f"pith: {_printable(f'{source}: restored {size} bytes to {to}')}\n".encode())
    return status if status >= 0 else 128 - status


def _occupy() -> None:
    """Keep files from taking the numbers of standard streams that are closed."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _printable(text: str) -> str:
    """Return text that cannot steer a terminal: names are as files have them."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _word(flag: str, value: str) -> str:
    """Return a flag and its value as one word."""
    takes = f"{flag[1:]}:" in SHORT if len(flag) == 2 else f"{flag[2:]}=" in LONG
    return flag + ("=" if len(flag) > 2 else "") + value if takes else flag


def _is_source(name: str) -> bool:
    return name.endswith(SUFFIXES) and os.path.isfile(name)


def _refuse_sources(to: str, inputs: Iterable[str], bases: Iterable[str]) -> None:
    """Refuse an output that is an input or a base, as the C program does, which sees copies."""
    label = "standard output" if to == "-" else to
    output = _status(to, 1)
    if any(_same_file(output, _status(name, 0)) for name in inputs):
        raise _Failed(f"{label}: is the input")
    if any(_same_file(output, _status(name, 0)) for name in bases):
        raise _Failed(f"{label}: is the base, without which the result could not be read")


def _status(name: str, standard: int) -> os.stat_result | None:
    """Return the status of a file, or of a standard stream where the name is that of one."""
    try:
        return os.fstat(standard) if name == "-" else os.stat(name)
    except OSError:
        return None


def _same_file(a: os.stat_result | None, b: os.stat_result | None) -> bool:
    return a is not None and stat.S_ISREG(a.st_mode) and _same_inode(a, b)


def _same_inode(a: os.stat_result, b: os.stat_result | None) -> bool:
    return b is not None and os.path.samestat(a, b)


# ---- Outputs ------------------------------------------------------------------------------------


class _Output(NamedTuple):
    """Where ``torch.save`` writes: what open_path of cli/output.c finds at a path."""

    path: str
    in_place: str | int | None
    """A device, a pipe or a descriptor; None: a file that gets its name when it is whole."""
    replaces: bool


def _say(text: bytes) -> None:
    """Write text to stderr, which may be closed."""
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(2, text) :]


def _find_output(path: str, force: bool) -> _Output:
    if _same_file(_status("-", 1), _status(path, 1)):
        return _Output(path, 1, force)
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            with contextlib.suppress(FileNotFoundError):  # which is there, leading nowhere
                found = os.stat(path)
    except FileNotFoundError:
        return _Output(path, None, force)
    except OSError as error:
        raise _Failed(f"{path}: cannot write: {error.strerror}") from None
    if stat.S_ISDIR(found.st_mode):
        raise _Failed(f"{path}: is a directory")
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
        return _Output(path, path, force)
    if not force:
        raise _Failed(f"{path}: exists; -f overwrites")
    return _Output(path, None, force)


def _save(content: Any, output: _Output, source: str, temporary: _Temporary) -> int:
    """Write with ``torch.save`` what was restored from source; return how many bytes."""
    try:
        if output.in_place is None:
            return _save_file(content, output, source, temporary)
        with tempfile.TemporaryFile(dir=temporary.folder) as whole:
            _libraries(output.path)[0].save(content, whole)
            whole.seek(0)
            with open(output.in_place, "wb", closefd=output.in_place != 1) as to:
                shutil.copyfileobj(whole, to)
            return whole.tell()
    except (OSError, RuntimeError) as error:
        raise _Failed(f"{output.path}: cannot write: {_reason(error)}") from None


def _save_file(content: Any, output: _Output, source: str, temporary: _Temporary) -> int:
    directory = os.path.dirname(output.path)
    file, name = temporary.file(directory)
    with file:
        try:
            _libraries(output.path)[0].save(content, file)
            file.flush()
            size = file.tell()
            os.fchmod(file.fileno(), _mode_like(source))
            os.fsync(file.fileno())
            temporary.publish(name, output.path, output.replaces)
        except BaseException:
            temporary.forget(name)
            raise
    with contextlib.suppress(OSError):  # so that the name survives a crash, where that can be
        fd = os.open(directory or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    return size


def _mode_like(source: str) -> int:
    """Return the mode of a new file that nobody may read who may not read the source."""
    mask = os.umask(0)
    os.umask(mask)
    status = _status(source, 0)
    return 0o666 & ~mask & (status.st_mode if status and stat.S_ISREG(status.st_mode) else 0o666)


# ---- What a signal must not leave ---------------------------------------------------------------


class _Temporary:
    """Temporary files and the C program, none of which outlives this one.

    A signal that ends programs first ends the C program and removes the files, then ends this one
    as if it had no handler. The signals are those of cli/signals.c; what is ignored stays so.
    """

    ENDING = (
        *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM),
        *(signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2),
    )
    LETTERS = string.ascii_lowercase + string.digits
    TRIES = 100
    FOLDER = "pith-copies-"

    def __init__(self) -> None:
        self._handlers: dict[signal.Signals, Any] = {}
        self._paths: list[str] = []
        self._child: subprocess.Popen[bytes] | None = None
        self._held = False
        self._arrived = 0
        self._names: dict[bytes, bytes] = {}
        self._lock = -1
        self.folder = ""

    def __enter__(self) -> _Temporary:
        for number in self.ENDING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._handlers[number] = signal.signal(number, self._handle)
        self.folder = self._make_folder()
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()
        os.close(self._lock)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._arrived = number
        else:
            self._end(number)

    def _end(self, number: int) -> NoReturn:
        for other in self._handlers:
            signal.signal(other, signal.SIG_IGN)
        if self._child is not None:
            # The methods of the child take a lock that the interrupted call may have.
            with contextlib.suppress(OSError):
                os.kill(self._child.pid, number)
                os.waitpid(self._child.pid, 0)
        self._remove()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        os._exit(128 + number)  # the signal was blocked

    @contextlib.contextmanager
    def _hold(self) -> Iterator[None]:
        """Hold signals back while a file or a child comes into being or ceases to be ours."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._arrived:
                self._end(self._arrived)

    def _remove(self) -> None:
        for path in self._paths:
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(path)

    def run(self, words: list[str]) -> int:
        """Run a program, whose messages name files by what they are copies of; return its status.

        It finds a terminal where there is one, for its bar.
        """
        terminal = os.isatty(2)
        source, sink = pty.openpty() if terminal else os.pipe()
        try:
            if terminal:
                tty.setraw(sink)  # lines end as the other terminal wants it
            with self._hold():
                # The folder is in use as long as one of both runs.
                self._child = subprocess.Popen(words, stderr=sink, pass_fds=[self._lock])
        finally:
            os.close(sink)
        self._relay(source)
        os.close(source)
        status = self._child.wait()
        self._child = None
        return status

    def _make_folder(self) -> str:
        """Make a folder where cli/spool.c makes files: /tmp is memory on many machines.

        It is locked while it is in use. Those that are not were left by programs that were killed,
        and are removed.
        """
        for place in filter(None, (os.environ.get("TMPDIR"), "/var/tmp", "/tmp")):
            with contextlib.suppress(OSError):
                self._remove_left(place)
            try:
                for _ in range(self.TRIES):
                    with self._hold():
                        folder = tempfile.mkdtemp(prefix=self.FOLDER, dir=place)
                        self._paths.append(folder)
                    if self._keep(folder):
                        return folder
                    self._paths.remove(folder)
                text = f"{place}: cannot keep a temporary folder"
            except OSError as error:
                text = f"{place}: cannot make a temporary folder: {error.strerror}"
        raise _Failed(text)

    def _keep(self, folder: str) -> bool:
        """Lock a folder that was just made; return False where another run removed it before."""
        try:
            self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        if _same_inode(os.fstat(self._lock), _status(folder, -1)):
            return True
        os.close(self._lock)
        return False

    def _remove_left(self, place: str) -> None:
        """Remove the folders that nobody has locked, of this user alone."""
        for entry in os.scandir(place):
            if not re.fullmatch(self.FOLDER + "[a-z0-9_]{8}", entry.name):
                continue
            with contextlib.suppress(OSError):  # another user's; in use; removed meanwhile
                fd = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    if os.fstat(fd).st_uid == os.geteuid():
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(fd)

    def _relay(self, source: int) -> None:
        """Copy messages to stderr, with the names of files in place of those of their copies."""
        text, more = b"", b"?"
        while more:
            try:
                more = os.read(source, 1 << 16)
            except OSError:  # the end of a terminal
                more = b""
            text += more
            for copy, name in self._names.items():
                text = text.replace(copy, name)
            # What may be the beginning of a name waits for the rest of it.
            begun = (n for copy in self._names for n in range(len(copy)) if text.endswith(copy[:n]))
            cut = len(text) - (max(begun, default=0) if more else 0)
            _say(text[:cut])
            text = text[cut:]

    def copy_of(self, name: str) -> str:
        """Return a path in the folder, which messages give as this name."""
        path = os.path.join(self.folder, f"{len(self._names)}.safetensors")
        self._names[os.fsencode(_printable(path))] = os.fsencode(_printable(name))
        return path

    def file(self, folder: str) -> tuple[BinaryIO, str]:
        """Make a file with a temporary name of cli/output.c, which removes what it finds unlocked.

        Such files are left by programs that were killed.
        """
        for _ in range(self.TRIES):
            letters = "".join(secrets.choice(self.LETTERS) for _ in range(6))
            name = os.path.join(folder, f".pith.tmp-{letters}")
            with self._hold():
                try:
                    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                except FileExistsError:
                    continue
                self._paths.append(name)
            file = os.fdopen(fd, "w+b")
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(fd, fcntl.LOCK_EX)
            if _same_file(os.fstat(fd), _status(name, -1)):
                return file, name
            file.close()  # removed before it was locked
            self.forget(name)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), folder)

    def publish(self, name: str, to: str, replaces: bool) -> None:
        """Give a file its name, in place of another that has it only where it replaces that."""
        with self._hold():
            if replaces:
                os.replace(name, to)
            else:
                try:
                    os.link(name, to)
                except FileExistsError:
                    raise
                except OSError:  # a file system without links
                    os.replace(name, to)
                else:
                    os.unlink(name)
            self._paths.remove(name)

    def forget(self, name: str) -> None:
        """Remove a file."""
        with self._hold(), contextlib.suppress(OSError):
            self._paths.remove(name)
            os.unlink(name)


def _libraries(path: str) -> tuple[Any, Any]:
    try:
        import safetensors
        import safetensors.torch
        import torch
    except ImportError as error:
        raise _Failed(
            f"{path}: a file of PyTorch needs torch and safetensors beside pith"
            f" (pip install torch safetensors): {error}"
        ) from None
    return torch, safetensors


# ---- Files of PyTorch ---------------------------------------------------------------------------


def _to_safetensors(path: str, temporary: _Temporary) -> str:
    """Write a file as .safetensors, a temporary one; return its name."""
    torch, safetensors = _libraries(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        if error.errno == errno.EINVAL:  # of an archive that is cut, from PyTorch's own reader
            raise _Failed(f"{path}: PyTorch cannot read it: it ends early") from None
        raise _Failed(f"{path}: cannot read: {error.strerror}") from None
    except pickle.UnpicklingError as error:
        # PyTorch adds how to run the code that a file holds.
        text = _first_sentence(str(error).rpartition("WeightsUnpickler error:")[2])
        raise _Failed(
            f"{path}: is no file of torch.save, or holds more than tensors and plain values: {text}"
        ) from None
    except Exception as error:
        text = _first_sentence(str(error)) or "it ends early"
        raise _Failed(f"{path}: PyTorch cannot read it: {text}") from None
    tensors: dict[str, Any] = {}
    structure = _take_apart(content, "", tensors, torch, path, count())
    to = temporary.copy_of(path)
    try:
        safetensors.torch.save_file(tensors, to, {STRUCTURE: json.dumps(structure)})
    except KeyError as error:
        raise _Failed(f"{path}: dtype {error} cannot be kept: .safetensors has none") from None
    except (ValueError, RuntimeError) as error:
        raise _Failed(f"{path}: {error}") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise _Failed(
            f"{path}: cannot be kept in a temporary file in {os.path.dirname(temporary.folder)}:"
            f" {_reason(error)}"
        ) from None
    # The output is for nobody who may not read the file; who runs this can.
    os.chmod(to, os.stat(path).st_mode & 0o666 | 0o400)
    return to


def _first_sentence(text: str) -> str:
    return text.strip().partition("\n")[0].partition(". ")[0]


def _reason(error: Exception) -> str:
    """Return why a file could not be written: what the system says, where that is known.

    PyTorch raises another error while that of the system is handled; safetensors has its number.
    """
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.strerror:
            return at.strerror
        at = at.__context__
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else _first_sentence(str(error))


def _take_apart(
    value: Any,
    name: str,
    tensors: dict[str, Any],
    torch: Any,
    path: str,
    entries: Iterator[int],
    depth: int = 0,
) -> Any:
    """Put the tensors below value into a dict; return what says where they were, as JSON."""
    if depth > DEPTH:
        raise _Failed(f"{path}: more than {DEPTH} dicts and lists inside each other")
    if next(entries) >= ENTRIES:
        raise _Failed(f"{path}: more than {ENTRIES} tensors and values")
    if isinstance(value, torch.Tensor):
        while name in tensors or name in ("", "__metadata__"):  # the latter is not a tensor's
            name += "_"
        if value.layout is not torch.strided or value.is_quantized:
            kind, dense = value.layout, "to_dense()"
            if value.is_quantized:
                kind, dense = value.dtype, "dequantize()"
            raise _Failed(f"{path}: {name} is of {kind}, which cannot be kept: save its {dense}")
        try:
            # Tensors of one memory would be refused: each has its own.
            tensor = value.detach().contiguous()
            tensors[name] = tensor.clone() if tensor.data_ptr() == value.data_ptr() else tensor
        except RuntimeError as error:  # no memory
            raise _Failed(f"{path}: tensor {name}: {error}") from None
        return {"tensor": name}
    if isinstance(value, dict):
        rows = []
        for key, below in value.items():
            if type(key) not in (str, int, float, bool):
                raise _Failed(f"{path}: a key of type {type(key).__name__} cannot be kept")
            inner = f"{name}.{key}".lstrip(".")
            below = _take_apart(below, inner, tensors, torch, path, entries, depth + 1)
            rows.append([key, below])
        return {"dict": rows}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        items = [
            _take_apart(below, f"{name}.{i}".lstrip("."), tensors, torch, path, entries, depth + 1)
            for i, below in enumerate(value)
        ]
        return {kind: items}
    if value is None or type(value) in (str, int, float, bool):
        return {"value": value}
    raise _Failed(f"{path}: {name or 'it'} is a {type(value).__name__}, which cannot be kept")


def _from_safetensors(path: str, to: str, source: str) -> Any:
    """Return what was restored from source to a path, for a file of PyTorch."""
    _, safetensors = _libraries(to)
    try:
        with safetensors.safe_open(path, "pt") as opened:
            structure = (opened.metadata() or {}).get(STRUCTURE)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:
        raise _Failed(f"{source}: {to} cannot be made of it: {_reason(error)}") from None
    content = tensors
    if structure is not None:
        try:
            content = _put_together(json.loads(structure), tensors)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _Failed(
                f"{source}: metadata {STRUCTURE!r} is not what pith writes:"
                f" {type(error).__name__}: {error}"
            ) from None
    return content


def _put_together(node: dict[str, Any], tensors: dict[str, Any], depth: int = 0) -> Any:
    if depth > DEPTH:
        raise ValueError(f"more than {DEPTH} dicts and lists inside each other")
    ((kind, below),) = node.items()
    if kind == "tensor":
        return tensors[below]
    if kind == "dict":
        return {key: _put_together(value, tensors, depth + 1) for key, value in below}
    if kind in ("list", "tuple"):
        items = [_put_together(value, tensors, depth + 1) for value in below]
        return items if kind == "list" else tuple(items)
    if kind != "value":
        raise ValueError(f"found {kind!r}")
    return below
