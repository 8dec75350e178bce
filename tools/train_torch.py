#!/usr/bin/env python3
"""Train a GPT with torch.distributed over a slow network, plainly and through pith.

SPDX-License-Identifier: Apache-2.0

    ./dev train --torch [--rates=100,250,1000] [--steps=20] [--ways=NAME,...] [--ranks-per-node=1]
    ./dev train --torch --losses [--steps=300] [--seeds=1,2,3] [--ways=NAME,...]

The first: four nodes, joined by links of so many Mbit/s (tools/network.py; needs root), a model of
10 million parameters, batches of 1 x 64 bytes for each rank. For each way to exchange gradients:
the median time of a step, what it does on the links by the kernel's counters, the speed-up, and the
part of a step that pith's codecs take. The second: validation losses of a model of a million
parameters, unshaped, over paired seeds. Both print tables. Standard library only; ranks need
PyTorch (./dev need torch).
"""
import glob
import json
import os
import signal
import statistics
import subprocess
import sys

import network

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NODES = 4
LARGE = {"layers": 8, "width": 320, "heads": 5, "context": 64, "batch": 1, "rate": 3e-4}
SMALL = {"layers": 4, "width": 128, "heads": 4, "context": 64, "batch": 8, "rate": 1e-3}
USUAL = {"spec": "grad:preset=inter", "inter": None, "weights": "wdiff:bits=4", "share": 0,
         "approximation": 4, "every": 0, "warm": 3, "seed": 1}
# Of a gradient element as f32, what a frame of 4 bits has: 0.53125 bytes of 4.
SHARE_OF_4 = 0.1328125
# Inside nodes 8 bits where there are two levels.
LEVELS = {"spec": "grad:preset=intra", "inter": "grad:preset=inter"}
WAYS = {
    "no-hook": {"way": "plain"},
    # As many bytes as of 4 bits, by the same transport; nothing is coded or summed.
    "bytes-alone": {"way": "bytes", "share": SHARE_OF_4},
    "fp16": {"way": "fp16"},
    "bf16": {"way": "bf16"},
    "powersgd": {"way": "powersgd"},
    "pith-8/4": {"way": "pith", **LEVELS},
    "pith-4/4": {"way": "pith"},
    "pith-2/2": {"way": "pith", "spec": "grad:bits=2"},
    "zero": {"way": "zero"},
    "pith-zero": {"way": "pith-zero"},  # 4 bits, weights by wdiff in 4 bits
}
LONGEST = 900  # seconds of a run


def text_file(folder):
    """The text in the repository, in one file."""
    path = os.path.join(folder, "text")
    parts = sorted(glob.glob(os.path.join(ROOT, "**", "*.[chm]*"), recursive=True))
    parts = [p for p in parts if p.endswith((".md", ".c", ".h")) and "/build" not in p]
    with open(path, "wb") as out:
        for part in parts:
            with open(part, "rb") as f:
                out.write(f.read())
    return path


class Failed(Exception):
    pass


def run(net, settings, per_node):
    """Ranks of all nodes train; what rank 0 says, and the bytes on the links meanwhile."""
    ranks = per_node * len(net.names)
    python = os.path.join(ROOT, "build-torch", "bin", "python")
    words = [python, os.path.join(ROOT, "tools", "train_torch_rank.py")]
    processes = []
    try:
        for rank in range(ranks):
            node = rank // per_node
            env = {**os.environ, "PITH_TRAIN": json.dumps(settings), "RANK": str(rank),
                   "WORLD_SIZE": str(ranks), "MASTER_ADDR": net.address(0), "MASTER_PORT": "29511",
                   "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
                   "GLOO_SOCKET_IFNAME": "lo" if net.names[0] == "lo" else network.LINK}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if rank == 0 else {
                "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
            processes.append(subprocess.Popen(net.command(node, words), env=env, text=True,
                                              start_new_session=True, stderr=sys.stderr, **pipes))
        first = processes[0]
        signal.alarm(LONGEST)
        if settings["signal"] and first.stdout.readline().strip() != "begin":
            raise Failed("rank 0 ended before it began")
        before = net.sent_bytes()
        said, _ = first.communicate("\n")
        sent = net.sent_bytes() - before
        for process in processes:
            if process.wait():
                raise Failed("a rank failed: exit status %d" % process.returncode)
        return json.loads(said.strip().splitlines()[-1]), sent
    finally:
        signal.alarm(0)
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def too_long(*_):
    raise Failed("a run took longer than %d s" % LONGEST)


def print_table(heads, rows):
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def throughput(net, args, text):
    for rate in args["rates"]:
        net.shape(rate)
        speed = "%d Mbit/s" % rate if rate else "not shaped"
        print("%d nodes, %d ranks each, %s\n" % (NODES, args["ranks-per-node"], speed), flush=True)
        rows, plain = [], None
        for name in args["ways"]:
            settings = {**USUAL, **LARGE, **WAYS[name], "steps": args["steps"], "signal": True,
                        "text": text, "ranks_per_node": args["ranks-per-node"]}
            try:
                result, sent = run(net, settings, args["ranks-per-node"])
            except Failed as failure:
                rows.append((name, str(failure), "", "", "", ""))
                continue
            step = statistics.median(result["seconds"])
            plain = plain or step
            rows.append((name, "%.3f" % step, "%.1f" % (1e-6 * sent / args["steps"]),
                         "%.2f" % (plain / step),
                         "%.1f" % (100 * statistics.median(result["codecs"]) / step),
                         "nothing is summed" if WAYS[name]["way"] == "bytes"
                         else "yes" if result["equal"] else "NO"))
        print_table(("gradients", "s a step", "MB on the links a step", "speed-up",
                     "codecs, % of a step", "replicas equal"), rows)


def losses(net, args, text):
    ends = {name: [] for name in args["ways"]}
    for seed in args["seeds"]:
        for name in args["ways"]:
            settings = {**USUAL, **SMALL, **WAYS[name], "steps": args["steps"], "signal": False,
                        "seed": seed, "every": args["steps"], "warm": 0, "text": text,
                        "ranks_per_node": args["ranks-per-node"]}
            if WAYS[name]["way"] == "powersgd":
                settings.update(warm=2, steps=args["steps"] - 2)  # it begins no sooner
            result, _ = run(net, settings, args["ranks-per-node"])
            ends[name].append(result["curve"][-1][1])
    first = ends[args["ways"][0]]
    rows = []
    for name, values in ends.items():
        apart = [100 * (v / p - 1) for v, p in zip(values, first, strict=True)]
        rows.append((name, " ".join("%.4f" % v for v in values), "%+.2f" % statistics.mean(apart)))
    print_table(("gradients", "validation loss, each seed", "apart, %"), rows)


def arguments(words):
    args = {"rates": [100, 250, 1000], "steps": None, "seeds": [1, 2, 3], "ranks-per-node": 1,
            "ways": list(WAYS), "losses": False}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if word == "--losses":
            args["losses"] = True
        elif name in ("rates", "seeds") and value:
            args[name] = [int(v) for v in value.split(",")]
        elif name in ("steps", "ranks-per-node") and value.isdigit():
            args[name] = int(value)
        elif name == "ways" and set(value.split(",")) <= set(WAYS):
            args["ways"] = value.split(",")
        else:
            sys.exit(__doc__.strip() + "\n\nNAMEs: " + ", ".join(WAYS))
    args["steps"] = max(args["steps"] or (300 if args["losses"] else 20), 3)
    return args


def main():
    out, args = sys.argv[1], arguments(sys.argv[2:])
    os.makedirs(out, exist_ok=True)
    text = text_file(out)
    signal.signal(signal.SIGALRM, too_long)
    why = None if args["losses"] else network.missing()
    if why:
        print("No network can be made here (%s): the loopback interface, not shaped.\n" % why)
        args["rates"] = [None]
    shaped = not why and not args["losses"]
    with network.Network(NODES) if shaped else network.Loopback(NODES) as net:
        (losses if args["losses"] else throughput)(net, args, text)


if __name__ == "__main__":
    main()
