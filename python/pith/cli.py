"""The command line ``pith``: the C program, and PyTorch's files where PyTorch is installed.

SPDX-License-Identifier: Apache-2.0

Arguments go to the C program as they are. A ``.pt`` or ``.pth`` file among them is converted: one
that exists is read, without running code that it holds (``torch.load`` with ``weights_only``), and
handed on as a ``.safetensors`` in a temporary folder; one behind ``-o`` of ``pith decompress`` is
written with ``torch.save``. Everything but tensors travels in the metadata of the ``.safetensors``,
so that what comes back has the same keys and values, in plain dicts.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, NoReturn

SUFFIXES = (".pt", ".pth")
STRUCTURE = "pith.structure"
"""Key of the metadata that has everything but tensors."""


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
    except _Failed as error:
        sys.exit(f"pith: {error}")
    except FileNotFoundError as error:
        sys.exit(f"pith: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _run(arguments: list[str]) -> int:
    path = program()
    command = arguments[0] if arguments else ""
    sources = [i for i, word in enumerate(arguments) if i and _is_source(arguments, i)]
    out = _output(arguments) if command == "decompress" else None
    if not sources and out is None:
        os.execv(path, [str(path), *arguments])
    words = list(arguments)
    with tempfile.TemporaryDirectory(prefix="pith-") as place:
        for i in sources:
            folder = pathlib.Path(place, str(i))
            folder.mkdir()
            words[i] = str(_to_safetensors(arguments[i], folder))
        if command == "compress" and sources and not {"-o", "--output"} & set(arguments):
            words += ["-o", f"{arguments[sources[-1]]}.pith.safetensors"]
        restored = pathlib.Path(place, "restored.safetensors")
        if out is not None:
            if os.path.exists(arguments[out]) and not {"-f", "--force"} & set(arguments):
                raise _Failed(f"{arguments[out]} exists; -f overwrites it")
            words[out] = str(restored)
        status = subprocess.run([str(path), *words], check=False).returncode
        if status == 0 and out is not None:
            _from_safetensors(restored, arguments[out])
    return status if status >= 0 else 128 - status


def _is_source(arguments: list[str], i: int) -> bool:
    word, before = arguments[i], arguments[i - 1]
    return word.endswith(SUFFIXES) and before not in ("-o", "--output") and os.path.isfile(word)


def _output(arguments: list[str]) -> int | None:
    for i, word in enumerate(arguments):
        if i and arguments[i - 1] in ("-o", "--output") and word.endswith(SUFFIXES):
            return i
    return None


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


def _to_safetensors(path: str, folder: pathlib.Path) -> pathlib.Path:
    torch, safetensors = _libraries(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise _Failed(f"{path}: {error}") from None
    tensors: dict[str, Any] = {}
    structure = _take_apart(content, "", tensors, torch, path)
    to = folder / f"{pathlib.Path(path).stem}.safetensors"
    try:
        safetensors.torch.save_file(tensors, to, {STRUCTURE: json.dumps(structure)})
    except (KeyError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise _Failed(f"{path}: {error}") from None
    return to


def _take_apart(value: Any, name: str, tensors: dict[str, Any], torch: Any, path: str) -> Any:
    """Put the tensors below value into a dict; return what says where they were, as JSON."""
    if isinstance(value, torch.Tensor):
        # Tensors of one memory would be refused: each has its own.
        tensor = value.detach().contiguous()
        while name in tensors or not name:
            name += "_"
        tensors[name] = tensor.clone() if tensor.data_ptr() == value.data_ptr() else tensor
        return {"tensor": name}
    if isinstance(value, dict):
        rows = []
        for key, below in value.items():
            if type(key) not in (str, int, float, bool):
                raise _Failed(f"{path}: a key of type {type(key).__name__} cannot be kept")
            rows.append(
                [key, _take_apart(below, f"{name}.{key}".lstrip("."), tensors, torch, path)]
            )
        return {"dict": rows}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        items = [
            _take_apart(below, f"{name}.{i}".lstrip("."), tensors, torch, path)
            for i, below in enumerate(value)
        ]
        return {kind: items}
    if value is None or type(value) in (str, int, float, bool):
        return {"value": value}
    raise _Failed(f"{path}: {name or 'it'} is a {type(value).__name__}, which cannot be kept")


def _from_safetensors(path: pathlib.Path, to: str) -> None:
    torch, safetensors = _libraries(to)
    with safetensors.safe_open(path, "pt") as opened:
        structure = (opened.metadata() or {}).get(STRUCTURE)
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    content = tensors if structure is None else _put_together(json.loads(structure), tensors)
    torch.save(content, to)


def _put_together(node: dict[str, Any], tensors: dict[str, Any]) -> Any:
    ((kind, below),) = node.items()
    if kind == "tensor":
        return tensors[below]
    if kind == "dict":
        return {key: _put_together(value, tensors) for key, value in below}
    if kind in ("list", "tuple"):
        items = [_put_together(value, tensors) for value in below]
        return items if kind == "list" else tuple(items)
    return below
