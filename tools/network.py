"""A slow network on one machine: nodes are network namespaces, joined by shaped links.

SPDX-License-Identifier: Apache-2.0

Each node has one link to a switch, a bridge in a namespace of its own. What leaves and what enters
a node is shaped to the same rate, as on a full-duplex port. Needs root, iproute2 and tc.
"""
import os
import signal
import subprocess
import sys

PREFIX = "pith%d" % os.getpid()
SWITCH = PREFIX + "s"
LINK = "link0"  # the name of a node's interface, in its namespace
# What a port may send at once, and how long what it holds back may wait.
BURST, WAIT = "256kb", "200ms"


def _run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise OSError("%s: %s" % (" ".join(words), done.stdout.decode(errors="replace").strip()))
    return done.stdout.decode()


def _in(namespace, *words):
    return _run("ip", "netns", "exec", namespace, *words)


def end_by_signals():
    """From here on signals that end a program end its contexts too, and with them networks, which
    no end of a process takes away."""
    signals = (signal.SIGTERM, signal.SIGHUP)

    def end(number, _):
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in signals:
        signal.signal(each, end)


class Network:
    """Nodes 0 .. count-1 at addresses of 10.77.0.0/24; a context, gone at its end."""

    def __init__(self, count):
        self.names = [PREFIX + "n%d" % i for i in range(count)]

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        _run("ip", "netns", "add", SWITCH)
        _in(SWITCH, "ip", "link", "add", "switch", "type", "bridge")
        _in(SWITCH, "ip", "link", "set", "switch", "up")
        for i, name in enumerate(self.names):
            port = "port%d" % i
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", LINK, "netns", name, "type", "veth", "peer", "name", port,
                 "netns", SWITCH)
            _in(SWITCH, "ip", "link", "set", port, "master", "switch", "up")
            _in(name, "ip", "address", "add", self.address(i) + "/24", "dev", LINK)
            _in(name, "ip", "link", "set", LINK, "up")
            _in(name, "ip", "link", "set", "lo", "up")

    def __exit__(self, *_):
        for name in (*self.names, SWITCH):
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)

    def address(self, node):
        return "10.77.0.%d" % (node + 1)

    def shape(self, mbit):
        """Both directions of every link, in Mbit/s; None: as fast as the machine is."""
        for i, name in enumerate(self.names):
            for namespace, link in ((name, LINK), (SWITCH, "port%d" % i)):
                subprocess.run(["ip", "netns", "exec", namespace, "tc", "qdisc", "delete", "dev",
                                link, "root"], stderr=subprocess.DEVNULL)
                if mbit:
                    _in(namespace, "tc", "qdisc", "add", "dev", link, "root", "tbf", "rate",
                        "%dmbit" % mbit, "burst", BURST, "latency", WAIT)

    def sent_bytes(self):
        """What all nodes have sent on their links so far, as the kernel counts."""
        path = "/sys/class/net/%s/statistics/tx_bytes" % LINK
        return sum(int(_in(name, "cat", path)) for name in self.names)

    def command(self, node, words):
        """The command that runs these words on a node."""
        return ["ip", "netns", "exec", self.names[node], *words]


class Loopback:
    """What stands for a network where the privileges for one are missing: nothing is shaped."""

    def __init__(self, count):
        self.names = ["lo"] * count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def address(self, _):
        return "127.0.0.1"

    def shape(self, _):
        pass

    def sent_bytes(self):
        with open("/sys/class/net/lo/statistics/tx_bytes") as f:
            return int(f.read())

    def command(self, _, words):
        return words


def missing():
    """Why there can be no network, or None."""
    try:
        with Network(1) as network:
            network.shape(1000)
    except OSError as error:
        return str(error)
    return None
