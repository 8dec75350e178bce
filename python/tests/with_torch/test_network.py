"""What stands for a slow network in tools/network.py where privileges for one are missing.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "tools"
SEND = "import socket, sys; socket.socket(type=2).sendto(bytes(5000), (sys.argv[1], 9))"


def test_without_privileges_there_is_the_loopback_interface(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(TOOLS)
    import network

    monkeypatch.setenv("PATH", str(tmp_path))
    assert "No such file" in network.missing()  # without iproute2
    (tmp_path / "ip").write_text("#!/bin/sh\necho Operation not permitted\nexit 1\n")
    (tmp_path / "ip").chmod(0o755)
    assert network.missing().endswith("Operation not permitted")
    with network.Loopback(3) as net:
        net.shape(100)
        before = net.sent_bytes()
        subprocess.run(net.command(2, [sys.executable, "-c", SEND, net.address(1)]), check=True)
        assert len(net.names) == 3 and net.sent_bytes() - before >= 5000
