"""The programs of doc/PYTORCH.md run, and are short.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import re
import socket

import pytest
from ranks import run

DOC = pathlib.Path(__file__).resolve().parents[3] / "doc" / "PYTORCH.md"
PROGRAMS = dict(
    re.findall(r"^## [^\n]*`([\w.]+)`$.*?```python\n(.*?)```", DOC.read_text(), re.M | re.S)
)


def program(rank, ranks, name, port):
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    exec(compile(PROGRAMS[name], name, "exec"), {})


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert PROGRAMS[name].count("\n") < 40
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    run(2, program, name, port, group=False)  # the program makes its own, as under torchrun


def test_there_is_one_for_each_adapter():
    assert [name.split(".")[-1] for name in PROGRAMS] == [
        "ddp",
        "fsdp",
        "optim",
        "megatron",
        "pith",
    ]
