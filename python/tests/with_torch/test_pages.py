"""The programs of doc/PYTORCH.md run, and are short.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import re
import socket

import pytest
from ranks import run, torch
from test_device import HOST, use

import pith
from pith.torch import ddp, device

DOC = pathlib.Path(__file__).resolve().parents[3] / "doc" / "PYTORCH.md"
CHECKPOINT = re.search(r"^## Checkpoints$.*?```python\n(.*?)```", DOC.read_text(), re.M | re.S)[1]
PROGRAMS = dict(
    re.findall(r"^## [^\n]*`([\w.]+)`$.*?```python\n(.*?)```", DOC.read_text(), re.M | re.S)
)


DEVICE = "pith.torch.device"
ON_CPU = {
    "available(local_rank)": "available()",  # the runner has one device
    'torch.device("cuda", local_rank)': 'torch.device("cpu")',
    "torch.cuda.set_device(place)\n": "\n",
    '"nccl"': '"gloo"',
}


def program(rank, ranks, name, port, replaced):
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(ranks),
        LOCAL_RANK=str(rank),
        LOCAL_WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    text = PROGRAMS[name]
    for old, new in replaced.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    if name == DEVICE and replaced:
        use("cpu")
        torch.cuda.device_count = lambda: ranks
        ddp.register = device.register
    exec(compile(text, name, "exec"), {})


def run_program(name, ranks=2, replaced=None):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    # The program makes its own group, as under torchrun.
    run(ranks, program, name, port, replaced or {}, group=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert PROGRAMS[name].count("\n") < 40
    if name != DEVICE:
        run_program(name)


def test_a_checkpoint_at_the_end_of_a_program(tmp_path, monkeypatch):
    """The lines named a module of PyTorch that nothing had imported."""
    assert CHECKPOINT.startswith("import torch.distributed.checkpoint\n")
    monkeypatch.chdir(tmp_path)
    end = "dist.destroy_process_group()\n"
    run_program("pith.torch.optim", replaced={end: CHECKPOINT + end})
    assert (tmp_path / "step-1000").is_dir()


def test_program_on_a_device():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    run_program(DEVICE, min(torch.cuda.device_count(), 2))


@pytest.mark.skipif(not HOST, reason="no module over the host runner")
def test_program_over_the_host_runner():
    run_program(DEVICE, replaced=ON_CPU)


def test_program_says_which_devices_it_needs(monkeypatch):
    ranks = torch.cuda.device_count() + 2
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    with pytest.raises(SystemExit, match=f"needs {ranks} CUDA devices, .* sees {ranks - 2}"):
        exec(compile(PROGRAMS[DEVICE], DEVICE, "exec"), {})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: ranks)
    if why := pith.cuda.available():
        with pytest.raises(SystemExit, match=f"built with CUDA: {re.escape(why)}"):
            exec(compile(PROGRAMS[DEVICE], DEVICE, "exec"), {})


def test_there_is_one_for_each_adapter():
    assert [name.split(".")[-1] for name in PROGRAMS] == [
        "ddp",
        "device",
        "fsdp",
        "optim",
        "megatron",
        "pith",
    ]
