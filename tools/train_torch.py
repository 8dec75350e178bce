#!/usr/bin/env python3
"""Train a GPT with torch.distributed over a slow network, plainly and through pith.

SPDX-License-Identifier: Apache-2.0

    ./dev train --torch [--rates=100,250,1000] [--steps=20] [--ways=NAME,...] [--ranks-per-node=1]
    ./dev train --torch --losses [--steps=300] [--rate=6e-3] [--seeds=1,2,3] [--ways=NAME,...]
    ./dev train --torch --results[=steps|=losses|=sgd|=clipped]

The first: four nodes, joined by links of so many Mbit/s (tools/network.py; needs root), a model of
10 million parameters, batches of 1 x 64 bytes for each rank. For each way to exchange gradients:
the median time of a step, what it does on the links by the kernel's counters, the speed-up, and
the parts of a step that pith's codecs take by the clock and in CPU time. The second: validation
losses of a model of a million parameters, unshaped, over paired seeds. Both print tables. The
third runs all of this and writes its parts of doc/TRAINING.md, four hours on a machine with
nothing else to do; what was measured is kept, so that it goes on where it was stopped. With =steps
it measures steps alone, for three quarters of an hour, and keeps the page's losses; with =losses it
trains for losses alone, which depend on no clock, and takes seconds of steps from the page; with
=sgd for those of SGD alone, and with =clipped for those of clipped gradients. Standard library
only; ranks need PyTorch (./dev need torch). As a script it wants the folder of what it writes
before all else.
"""
import datetime
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys

import network
import training_page

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, "build-torch", "bin", "python")
NODES = 4
LARGE = {"layers": 8, "width": 320, "heads": 5, "context": 64, "batch": 1, "rate": 3e-4}
# The learning rate is warmed up over a share of all steps, and falls to a share of itself. No hook
# with seed 1 ends at 2.06, 1.81, 1.58, 1.55 and 1.57 with rates of 1e-3, 2e-3, 4e-3, 6e-3 and 8e-3.
SMALL = {"layers": 4, "width": 160, "heads": 5, "context": 64, "batch": 8, "rate": 6e-3,
         "warm_up": 0.1, "floor": 0.1}
USUAL = {"spec": "grad:preset=inter", "inter": None, "weights": "wdiff:bits=4", "share": 0,
         "kind": None, "partitions": None, "approximation": 4, "every": 0, "warm": 3, "before": 0,
         "seed": 1, "warm_up": 0, "floor": 1, "momentum": None, "normalize": None,
         "gather": None, "clip": None}
# Of a gradient element as f32, what a frame of 4 bits has: 0.53125 bytes of 4.
SHARE_OF_4 = 0.1328125
# Inside nodes 8 bits where there are two levels.
LEVELS = {"spec": "grad:preset=intra", "inter": "grad:preset=inter"}
# Sums at what any rank chose, each from a part that is its own in this step; all together choose
# the share.
SPARSE = {"way": "pith", "kind": "union", "partitions": "moving"}
SHARES = {"topk-1%": 0.01, "topk-0.1%": 0.001}
# With SGD no hook with seed 1 ends at 2.41, 2.29, 2.21, 2.14 and 2.27 with rates of 0.1, 0.2, 0.3,
# 0.45 and 0.6; with 0.45 it diverges with the seeds 2 and 3.
SGD = {"rate": 0.2, "momentum": 0.9}
# Gradients clipped to a norm: no hook with the seeds 1, 2 and 3 ends at 1.603, 1.557 and 1.608 on
# the mean with rates of 4e-3, 6e-3 and 9e-3. With the lowest of these, trainings that differ in
# rounding alone stay together.
CLIPPED = {"clip": 1.0}
LOWER, LOWER_FASTER = 4e-3, 4.3e-3
# As many bytes as by grad:preset=inter: half as many elements share a scale of half the bits.
SEARCHED = "grad:bits=4,group=64,scale_dtype=bf16,search=mse"
# Least error at 2 bits: with so few values to a scale it is less without rotation.
SHORT_GROUPS = "grad:bits=2,codebook=trellis,group=32,scale_dtype=bf16,rotate=0"
WAYS = {
    "none": {"way": "none"},  # each rank for itself: what computing takes
    "no-hook": {"way": "plain"},
    # As many bytes as of 4 bits, by the same transport, of a sum without codec.
    "bytes-alone": {"way": "bytes", "share": SHARE_OF_4},
    "fp16": {"way": "fp16"},
    "bf16": {"way": "bf16"},
    "powersgd": {"way": "powersgd"},
    "pith-8/4": {"way": "pith", **LEVELS},
    "pith-4/4": {"way": "pith"},
    "pith-4/4-mse": {"way": "pith", "spec": SEARCHED},
    "pith-4/4-trellis": {"way": "pith", "spec": "grad:bits=4,codebook=trellis"},
    "pith-3/3-trellis": {"way": "pith", "spec": "grad:bits=3,codebook=trellis,scale_dtype=bf16"},
    # As doc/PYTORCH.md advises; then what each part of it buys.
    "pith-2/2": {"way": "pith", "spec": "grad:bits=2,codebook=trellis", "normalize": 0.95},
    "pith-2/4": {"way": "pith", "spec": "grad:bits=2,codebook=trellis", "normalize": 0.95,
                 "gather": "grad:bits=4,codebook=trellis"},
    "pith-2/2-trellis": {"way": "pith", "spec": "grad:bits=2,codebook=trellis"},
    "pith-2/2-trellis-32": {"way": "pith", "spec": SHORT_GROUPS},  # 2.5 bits
    "pith-2/2-rounded": {"way": "pith", "spec": "grad:bits=2"},
    "pith-2/2-rounded-normalized": {"way": "pith", "spec": "grad:bits=2", "normalize": 0.95},
    "pith-2/2-rounded-ef": {"way": "pith", "spec": "grad:bits=2,ef=full"},
    **{name: {**SPARSE, "spec": "topk:density=%g,ef=full" % share}
       for name, share in SHARES.items()},
    "sgd": {"way": "plain", **SGD},
    "sgd-pith-2/2-rounded": {"way": "pith", "spec": "grad:bits=2", **SGD},
    "sgd-pith-2/2-rounded-ef": {"way": "pith", "spec": "grad:bits=2,ef=full", **SGD},
    # The stream has the momentum, so that the optimizer needs none.
    **{"sgd-" + name: {**SPARSE, **SGD, "momentum": 0,
                       "spec": "topk:density=%g,ef=full,momentum=%g" % (share, SGD["momentum"])}
       for name, share in SHARES.items()},
    "sgd-topk-1%-apart": {**SPARSE, **SGD, "spec": "topk:density=0.01,ef=full"},
    "zero": {"way": "zero"},
    "pith-zero": {"way": "pith-zero"},  # 4 bits, weights by wdiff in 4 bits
    "pith-zero-mse": {"way": "pith-zero", "spec": SEARCHED},
    "pith-zero-2/2": {"way": "pith-zero", "spec": "grad:bits=2", "weights": "wdiff:bits=2"},
}
ALSO_CLIPPED = ("no-hook", "bf16", "pith-8/4", "pith-4/4", "pith-2/2", "pith-zero")
WAYS.update({"clipped-" + name: {**WAYS[name], **CLIPPED} for name in ALSO_CLIPPED})
WAYS.update({"lower-" + name: {**WAYS[name], **CLIPPED, "rate": LOWER}
             for name in (*ALSO_CLIPPED, "pith-4/4-mse", "pith-2/4")})
WAYS.update({"lower-%s-normalized" % name: {**WAYS[name], **CLIPPED, "rate": LOWER,
                                            "normalize": 0.95}
             for name in ("pith-8/4", "pith-4/4", "pith-4/4-mse", "pith-3/3-trellis")})
WAYS["lower-pith-2/2-faster"] = {**WAYS["lower-pith-2/2"], "rate": LOWER_FASTER}
LONGEST = 900  # seconds of a run


def text_file(folder):
    """The text in the repository, in one file, as it was when results began to be kept beside it:
    losses are compared, which they are of one text alone."""
    path, parts = os.path.join(folder, "text"), []
    if os.path.exists(path):
        return path
    for place, folders, names in os.walk(ROOT):  # not through python/subprojects/pith to ROOT again
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        parts += [os.path.join(place, n) for n in names if n.endswith((".md", ".c", ".h"))]
    with open(path, "wb") as out:
        for part in sorted(parts):
            with open(part, "rb") as f:
                out.write(f.read())
    return path


class Failed(Exception):
    pass


class Ranks:
    """The processes of all ranks; they train one model after the other."""

    def __init__(self, net, per_node):
        self.net, self.per_node, self.processes = net, per_node, []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if self.processes and not kind:
                self.processes[0].stdin.close()  # which tells the ranks to end
                for process in self.processes:
                    process.wait()
        finally:
            self.stop()

    def start(self):
        count = self.per_node * len(self.net.names)
        words = [PYTHON, os.path.join(ROOT, "tools", "train_torch_rank.py")]
        for rank in range(count):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count),
                   "MASTER_ADDR": self.net.address(0), "MASTER_PORT": "29511",
                   "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
                   "GLOO_SOCKET_IFNAME": "lo" if self.net.names[0] == "lo" else network.LINK}
            pipes = subprocess.DEVNULL if rank else subprocess.PIPE
            self.processes.append(subprocess.Popen(
                self.net.command(rank // self.per_node, words), env=env, text=True,
                start_new_session=True, stdin=pipes, stdout=pipes))

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes = []

    def say(self, line):
        first = self.processes[0]
        first.stdin.write(line + "\n")
        first.stdin.flush()

    def hear(self):
        line = self.processes[0].stdout.readline()
        if not line:
            raise Failed("a rank ended: exit status %s" % [p.poll() for p in self.processes])
        return line.strip()

    def train(self, settings):
        """What rank 0 says, with the bytes on the links meanwhile."""
        if not self.processes:
            self.start()
        signal.alarm(LONGEST)
        try:
            self.say(json.dumps({"ranks_per_node": self.per_node, **settings}))
            sent = 0
            if settings["signal"]:
                for word in ("begin", "end"):
                    if self.hear() != word:
                        raise Failed("rank 0 did not " + word)
                    sent = self.net.sent_bytes() - sent
                    self.say("")
            return {**json.loads(self.hear()), "sent": sent}
        except (Failed, OSError):
            self.stop()
            raise
        finally:
            signal.alarm(0)


def too_long(*_):
    raise Failed("a training took longer than %d s" % LONGEST)


# ---- Measurements -------------------------------------------------------------------------------

def throughput(ranks, name, args):
    """Steps of the large model."""
    return ranks.train({**USUAL, **LARGE, **WAYS[name], "steps": args["steps"], "signal": True,
                        "text": args["text"]})


def validation(ranks, name, seed, args):
    """Losses of the small model."""
    settings = {**USUAL, **SMALL, **WAYS[name], "steps": args["steps"], "signal": False,
                "seed": seed, "every": args["every"], "warm": 0, "text": args["text"]}
    if args["rate"]:
        settings["rate"] = args["rate"]
    if settings["inter"]:
        settings["ranks_per_node"] = 2  # so that there is something inside nodes to sum
    if WAYS[name]["way"] == "powersgd":
        settings.update(warm=2, before=2, steps=args["steps"] - 2)  # it begins no sooner
    result = ranks.train(settings)
    if not result["equal"]:
        raise Failed(name + ": replicas differ after a step")
    return result


def transport_speed(size=1 << 30, message=70000):
    """Bytes that a core both sends and receives in a second: CPU seconds of both ends of a TCP
    connection by the loopback interface, in messages as long as a slice of 4 bits."""
    data = bytes(message)
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = os.fork()
        if not child:
            with socket.create_connection(server.getsockname()) as end:
                into = bytearray(message)
                while end.recv_into(into):
                    pass
            os._exit(0)
        end, _ = server.accept()
        before = os.times()
        with end:
            for _ in range(size // message):
                end.sendall(data)
        os.waitpid(child, 0)
    return size / (sum(os.times()[:4]) - sum(before[:4]))


def throughput_table(results, steps):
    """results: {way: what train() gave, or why it failed}."""
    rows, plain = [], None
    for name, result in results.items():
        if isinstance(result, str):
            rows.append((name, result, "", "", "", "", ""))
            continue
        step = statistics.median(result["seconds"])
        if name == "no-hook":
            plain = step
        summed = WAYS[name]["way"] not in ("none", "bytes")
        parts = ["%.1f" % (100 * statistics.median(result[key]) / step) if any(result[key]) else ""
                 for key in ("codecs", "cpu")]
        rows.append((name, "%.3f" % step, "%.4g" % (1e-6 * result["sent"] / steps),
                     "%.2f" % (plain / step) if plain else "",
                     *parts,
                     ("yes" if result["equal"] else "NO") if summed else "not summed"))
    return table(("gradients", "s a step", "MB on the links a step", "speed-up",
                  "codecs, % of a step", "their CPU time, %", "replicas equal"), rows)


def sparse_table(steps, losses):
    rows = []
    plain = sent_of(steps, "no-hook")
    for name, share in SHARES.items():
        seen = [each for result in losses[name] for each in result["chosen"]]
        large = sent_of(steps, name)
        rows.append((name, "%g" % (100 * share),
                     "%.3f" % (100 * statistics.mean(each[0] for each in seen)
                               / losses[name][0]["parameters"]),
                     "%.0f" % (100 * statistics.mean(each[2] for each in seen)),
                     "%.2f" % (1e-6 * large) if large else "",
                     "%.0f" % (plain / large) if plain and large else ""))
    return table(("gradients", "asked, %", "chosen, %", "imbalance, %", "MB on the links a step",
                  "times less than no-hook"), rows)


def apart_text(values, first):
    """The mean of how far losses are from the first way's of the same seeds, and its error."""
    apart = [100 * (v / p - 1) for v, p in zip(values, first, strict=True)]
    error = (" +- %.2f" % (statistics.stdev(apart) / len(apart) ** 0.5)
             if len(apart) > 1 and any(apart) else "")
    return "%+.2f" % statistics.mean(apart) + error


def losses_table(ends):
    """ends: {way: validation losses, one a seed}, no hook first."""
    first = next(iter(ends.values()))
    return table(("gradients", "validation loss, each seed", "apart, %"),
                 [(name, " ".join("%.4f" % v for v in values), apart_text(values, first))
                  for name, values in ends.items()])


def heading_of(heads):
    return "| " + " | ".join(heads) + " |"


def table(heads, rows):
    return "\n".join([heading_of(heads), "|" + "---|" * len(heads), *map(heading_of, rows)])


def show(net, args):
    with Ranks(net, args["ranks-per-node"]) as ranks:
        if args["losses"]:
            ends = {name: [validation(ranks, name, seed, args)["loss"] for seed in args["seeds"]]
                    for name in args["ways"]}
            print(losses_table(ends))
            return
        for rate in args["rates"]:
            net.shape(rate)
            results = {}
            for name in args["ways"]:
                try:
                    results[name] = throughput(ranks, name, args)
                except Failed as failure:
                    results[name] = str(failure)
            print("%d nodes, %d ranks each, %s\n\n%s\n" % (
                NODES, args["ranks-per-node"], "%d Mbit/s" % rate if rate else "not shaped",
                throughput_table(results, args["steps"])), flush=True)


# ---- The page -----------------------------------------------------------------------------------

TWO_BITS = tuple(name for name in WAYS if name.startswith("pith-2/2"))
SHARDED = ("pith-zero", "pith-zero-mse", "pith-zero-2/2")
WAYS_OF = {  # by ranks of a node
    1: ("none", "no-hook", "bytes-alone", "fp16", "bf16", "powersgd", "pith-4/4", "pith-4/4-mse",
        "pith-4/4-trellis", *TWO_BITS, *SHARES, "zero", *SHARDED),
    2: ("none", "no-hook", "bytes-alone", "fp16", "bf16", "powersgd", "pith-8/4", "pith-4/4",
        "pith-2/2", "pith-2/2-rounded", "pith-zero"),
}
HEADINGS = {1: "One rank a node", 2: "Two ranks a node"}
LEARNING = ("no-hook", "fp16", "bf16", "powersgd", "pith-8/4", "pith-4/4", "pith-4/4-mse",
            "pith-4/4-trellis", "pith-3/3-trellis", *TWO_BITS, *SHARES, *SHARDED)
LEARNING_SGD, LEARNING_CLIPPED, LEARNING_LOWER = (
    tuple(name for name in WAYS if name.startswith(kind)) for kind in ("sgd", "clipped", "lower"))
RATES, SEEDS, STEPS, LOSS_STEPS, EVERY = (100, 250, 1000), (1, 2, 3), 20, 300, 50
TIMES = ("gradients", "steps", *("s at %d Mbit/s" % rate for rate in RATES))  # to a loss
NOT_REACHED = "not reached"
# Three seeds tell no loss of a few tenths of a percent from none: some ways have more.
MORE_SEEDS, MOST_SEEDS = range(1, 10), range(1, 19)
SEEDS_OF = {**dict.fromkeys(("no-hook", "pith-8/4", "pith-4/4", "pith-2/2", "pith-zero"),
                            MOST_SEEDS),
            **dict.fromkeys(("pith-4/4-mse", "pith-2/2-rounded"), MORE_SEEDS)}
# The rows of pith advise.
ADVISED = {"no-hook": "f32, not compressed", "bf16": "bf16, not compressed",
           "pith-4/4": "grad:preset=inter", "pith-2/2-rounded": "grad:bits=2",
           "pith-8/4": "grad:preset=intra inside, grad:preset=inter across"}
INSIDE = "20G"  # between two ranks of a node; nothing here is shaped
NEAR = 15  # percent

TEXT = """\
# PyTorch over slow links

Made by `./dev train --torch --results` on {date}, on {cores} cores of an
{cpu}. Four nodes are network namespaces with one link each to a switch, shaped in
both directions (`tools/network.py`). A GPT of {parameters:.1f} million parameters, batches of
1 x 64 bytes for each rank, gloo, AdamW (fused).
"none": ranks do not exchange anything. "bytes-alone": a hook that moves as many bytes as `pith-4/4`
by the same transport, in a sum without codec of fewer elements. fp16, bf16, PowerSGD
(rank {approximation}, one bucket): the hooks of PyTorch. `pith-4/4`: `pith.torch.ddp` with
`grad:preset=inter`; `pith-4/4-mse`: as many bytes, in which groups are half as long and their
scales searched (`grad:bits=4,group=64,scale_dtype=bf16,search=mse`); `pith-4/4-trellis`: as many
bytes, codes along paths through a trellis (`grad:bits=4,codebook=trellis`); `pith-2/2`: as
[PYTORCH.md](PYTORCH.md) advises for 2 bits, along a trellis and each element divided by the root of
the running mean of its squares while it travels (`grad:bits=2,codebook=trellis`,
`normalize=0.95`); then what the parts of that do: `pith-2/2-trellis` without `normalize=`;
`pith-2/2-trellis-32`: without it, not rotated, in groups of 32, at 2.5 bits
(`grad:bits=2,codebook=trellis,group=32,scale_dtype=bf16,rotate=0`); `pith-2/2-rounded`: each value
rounded alone by scales that are searched (`grad:bits=2`), `pith-2/2-rounded-normalized` with
`normalize=0.95`, `pith-2/2-rounded-ef` with error feedback. All of these sum in one level
(`inter=None`); `pith-8/4`: 8 bits inside nodes, 4 across.
`topk-1%`: the largest gradients of all ranks together, error feedback for the rest
(`topk:density=0.01,ef=full`, `kind="union"`, `partitions="moving"`); `topk-0.1%` likewise. `zero`:
PyTorch's sharded optimizer over plain gradients; `pith-zero`: `pith.torch.optim.Sharded` with
parameters as views of what is gathered (`parameters_as_bucket_view`), gradients as `pith-4/4`,
weights by `wdiff:bits=4`. Seconds are medians of {steps} steps; bytes are
the kernel's counters of all four links, headers of TCP and all. "Codecs": what rank 0 spent in
them by the clock, and the CPU time that its thread had meanwhile: all ranks share {cores} cores, so
that one also waits in a codec while another has the core. After the last step the ranks compared
hashes of their replicas.

{tables}
"""


MODEL = """\
## What the model of `pith advise` says

[SCALE.md](SCALE.md) has the model; here are seconds of a step. What it was told:

* the links, and {cores} cores that the ranks of all nodes share (`--cores`): the work of a rank
  takes as many times as long as there are ranks for a core;
* seconds of computing: the median of the rows "none" of so many ranks. These do not use the links,
  and yet are {scatter} % apart: no row is known better than that;
* a core sends and receives {send:.2f} GB of messages a second: CPU seconds of both ends of a TCP
  connection by the loopback interface (`transport_speed` in `tools/train_torch.py`);
* a core copies {copy} GB of gradients a second to where they are sent from, and back, with one and
  with two ranks a node: what "bytes-alone" takes by the fastest links beyond computing and links,
  which is why that way has no row here. By slower ones it takes longer: their slack;
* codecs take what the ranks counted at {first} Mbit/s;
* all ranks sum together (`--levels 1`), but for `pith-8/4`.

{model}

{near}

Of ranks that wait for a core the model knows nothing. They do so most where codecs and transport
take longer than the links, and then also count more seconds in codecs than at {first} Mbit/s.
"""


LOSSES = """\

## Losses

Trained on {date}. Validation losses after {loss_steps} steps of a GPT of {small:.1f} million
parameters, 4 ranks, batches of 8 x 64 bytes each, on links that are not shaped, paired seeds
{seeds}. AdamW, whose learning rate rises linearly to {rate:g} over {warm_up:g} % of the steps, and
then falls to {floor:g} % of that along half a cosine: the rate with which no hook learns best.
With a lower one whatever shortens steps would seem to be a loss, and noise in gradients does: it
is in the means of squares that AdamW divides by. `pith-8/4`: here two nodes of two ranks each.
`pith-3/3-trellis`: `grad:bits=3,codebook=trellis,scale_dtype=bf16`; `pith-zero-mse`: `pith-zero`
with gradients as `pith-4/4-mse`; `pith-zero-2/2`: with `grad:bits=2` and `wdiff:bits=2`. Losses are
of 4096 rows of text that no training saw, the same ones for all. "Apart": means of the seeds, and
their standard errors. Hashes of the replicas of all ranks were compared for every step; a
difference would have ended the run.

{losses}

Seeds of no hook are {spread:.0f} % apart: a few tenths of a percent say that nothing is lost,
and no more. Some of the ways with more seeds:

{more_losses}

![validation loss](training_torch.svg)

What the sparse ways sent in these trainings, means of all steps and seeds: elements that ranks
chose, as a share of all; how many more the rank with the most chose than the mean (what messages
padded to the longest would waste); and the bytes of a step on the links at {pictured} Mbit/s, of
the larger model.

{sparse}

## Time to a loss

Composed, not measured: seconds of a step as in the tables with one rank a node, times the steps
that the small model took to a validation loss of {target:.3f}, mean of the seeds, on lines between
losses that were measured every {every} steps, on 512 of the rows.

{times}

![validation loss over seconds](training_torch_time.svg)

The picture: the same at {pictured} Mbit/s, with seconds of a step as they were on {date}.
"""


SGD_TEXT = """\
# PyTorch with SGD

Made by `./dev train --torch --results=sgd` on {date}: the same small model, ranks, batches and
schedule as under Losses above, on the text as it was then, with SGD of momentum {momentum:g}
instead of AdamW, and a learning rate of {rate:g}: with more than twice as high a one no hook
diverges with some seeds. Published reducers were shown with this optimizer. Validation losses after
{steps} steps, paired seeds {seeds}; "apart": from `sgd`, which has no hook.

{losses}

`sgd-pith-2/2-rounded`, `-ef`: specs as above. `sgd-topk-1%`:
`topk:density=0.01,ef=full,momentum={momentum:g}`, with which the stream has the momentum (the
correction of Deep Gradient Compression) and the optimizer has none; `sgd-topk-0.1%` likewise,
without the warm-up of the density that its authors want. `sgd-topk-1%-apart`:
`topk:density=0.01,ef=full`, and momentum in the optimizer. Beside AdamW's rows of the same specs:
SGD moves a weight by the sum of what waited, AdamW by no more than by one step of it.
"""


CLIPPED_TEXT = """\
# PyTorch with clipped gradients

Made by `./dev train --torch --results=clipped` on {date}: the same small model, ranks, batches,
schedule and AdamW as under Losses above, on the text as it was then, with gradients whose norm is
limited to {clip:g}, by `clip_grad_norm_` and by `max_norm=` of `pith.torch.optim.Sharded`. So
trained, a model without a hook ends lower. Validation losses after {steps} steps, means of paired
seeds:

{losses}

## Below the best rate

The rate above, {rate:g}, is the best of {lower:g}, {rate:g} and 0.009, at which trainings that
differ in rounding alone drift apart. With {lower:g} they stay together, so that {few} seeds show
small effects; and whatever shortens steps shows as a loss, since longer ones would do better. AdamW
divides by the root of the mean of squares, in which the noise of a codec is, too.
`-normalized`: with `normalize=0.95`; `lower-pith-2/4`: as 2/2, but for the sums on their way back,
`gather="grad:bits=4,codebook=trellis"`; `lower-pith-2/2-faster`: with a rate of {faster:g}.

{lower_losses}
"""


def kept(results, path, key, measure):
    """A measurement, or what it gave before. A failure is a result too, but not kept."""
    if key not in results:
        print("train:", key, flush=True)
        try:
            results[key] = measure()
        except Failed as failure:
            return str(failure)
        with open(path + ".new", "w", encoding="ascii") as file:
            json.dump(results, file)
        os.replace(path + ".new", path)
    return results[key]


def read_results(out):
    path = os.path.join(out, "results.json")
    if not os.path.exists(path):
        return {}, path
    with open(path, encoding="ascii") as file:
        return json.load(file), path


def measure_steps(net, out, per_node, args):
    """{(ranks a node, rate): {way: result}}."""
    results, path = read_results(out)
    steps = {}
    with Ranks(net, per_node) as ranks:
        for rate in RATES:
            net.shape(rate)
            steps[per_node, rate] = {name: kept(
                results, path, "%s, %d ranks a node, %d Mbit/s" % (name, per_node, rate),
                lambda name=name: throughput(ranks, name, args)) for name in WAYS_OF[per_node]}
    return steps


def measure_losses(out, args, ways, seeds=SEEDS):
    """{way: results, one a seed}."""
    results, path = read_results(out)
    args = {**args, "steps": LOSS_STEPS, "every": EVERY}
    with network.Loopback(NODES) as net, Ranks(net, 1) as ranks:
        return {name: [kept(results, path, "%s, seed %d, %d steps" % (name, seed, LOSS_STEPS),
                            lambda name=name, seed=seed: validation(ranks, name, seed, args))
                       for seed in seeds] for name in ways}


def measure_more_losses(out, args):
    return {name: measure_losses(out, args, [name], seeds)[name]
            for name, seeds in SEEDS_OF.items()}


def ends_of(losses):
    """{way: last losses, one a seed}."""
    return {name: [r["loss"] for r in results] for name, results in losses.items()}


def mean_curve(results):
    """The steps of a way, and the mean of its losses."""
    curves = [result["curve"] for result in results]
    return [(points[0][0], statistics.mean(p[1] for p in points))
            for points in zip(*curves, strict=True)]


def steps_to(curve, target):
    """Where the curve meets the loss first, or None."""
    for (a, high), (b, low) in zip(curve, curve[1:], strict=False):
        if low <= target:
            return a + (b - a) * (high - target) / (high - low)
    return None


def seconds_of(result):
    return statistics.median(result["seconds"])


def sent_of(steps, name):
    """Bytes of a step on the slowest links; None where that failed or was not measured."""
    result = steps[1, RATES[0]].get(name)
    return result["sent"] / STEPS if isinstance(result, dict) else None


def times_table(steps, counts):
    """counts: {way: steps to the loss, or None}."""
    rows = []
    for name, count in counts.items():
        results = [steps[1, rate].get(name) for rate in RATES]
        rows.append((name, "%.0f" % count if count else NOT_REACHED, *(
            "%.0f" % (count * seconds_of(each)) if count and isinstance(each, dict) else ""
            for each in results)))
    return table(TIMES, rows)


def page_counts(text):
    """The counts of the page's times_table."""
    lines = text.partition(heading_of(TIMES) + "\n")[2].splitlines()
    rows = [line.split("|") for line in itertools.takewhile(str.strip, lines[1:])]
    return {row[1].strip(): None if row[2].strip() == NOT_REACHED else int(row[2]) for row in rows}


def pith(*words):
    out = subprocess.run([PYTHON, "-m", "pith", *words], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)


def compute_of(steps, per_node):
    """Median seconds of a step without exchange: the links' rate does not matter."""
    return statistics.median(seconds_of(steps[per_node, rate]["none"]) for rate in RATES)


def copy_speed(steps, per_node):
    """Bytes of gradients per second that a core copies into buckets and back, of bytes-alone by the
    fastest links: slower ones have a slack of their own that is longer. A hundredth of the step at
    least, since a difference of three measurements may be nothing."""
    row = steps[per_node, RATES[-1]]["bytes-alone"]
    links = row["sent"] / STEPS / NODES / (1e6 * RATES[-1] / 8)
    rest = max(seconds_of(row) - compute_of(steps, per_node) - links, 0.01 * seconds_of(row))
    return NODES * per_node / os.cpu_count() * 4 * row["parameters"] / rest


def advised(per_node, rate, name, transport, compute, size, speed):
    """The row of pith advise for a way."""
    answer = pith("advise", "--json", "--ranks", str(NODES * per_node),
                  "--ranks-per-node", str(per_node), "--links", "%s,%dM" % (INSIDE, rate),
                  "--size", str(size), "--compute", "%.6f" % compute,
                  "--codec-speed", "%.0f" % speed, "--transport", transport,
                  "--cores", "%g" % (os.cpu_count() / NODES), "--levels",
                  "2" if name == "pith-8/4" else "1")
    row, = (each for each in answer["rows"] if each["name"] == ADVISED[name])
    return row


def model_table(steps, send):
    """The table, and a sentence of which rows are near; send: what transport_speed() says."""
    rows, far = [], []
    for (per_node, rate), results in steps.items():
        transport = "%.0f,%.0f" % (send, copy_speed(steps, per_node))
        told = transport, compute_of(steps, per_node), 4 * results["none"]["parameters"]
        for name in (name for name in ADVISED if name in results):
            row = advised(per_node, rate, name, *told, 1e9)
            if row["codecs_seconds"]:
                counted = statistics.median(steps[per_node, RATES[0]][name]["codecs"])
                row = advised(per_node, rate, name, *told, 1e9 * row["codecs_seconds"] / counted)
            measured, said = seconds_of(results[name]), row["step_seconds"]
            apart = 100 * (said / measured - 1)
            rows.append(("%d, %d a node" % (NODES * per_node, per_node), str(rate), name,
                         "%.3f" % measured, "%.3f" % said, "%+.1f" % apart))
            if abs(apart) > NEAR:
                far.append("%s, %d ranks, %d Mbit/s" % (name, NODES * per_node, rate))
    return (table(("ranks", "Mbit/s", "gradients", "measured, s", "model, s", "apart, %"), rows),
            "%d of %d rows are within %d %%.%s" % (
                len(rows) - len(far), len(rows), NEAR,
                " Not within:\n%s." % "; ".join(far) if far else ""))


def model_text(steps, send):
    rows, near = model_table(steps, send)
    none = {per_node: [seconds_of(steps[per_node, rate]["none"]) for rate in RATES]
            for per_node, _ in steps}
    return MODEL.format(
        cores=os.cpu_count(), first=RATES[0], send=1e-9 * send,
        copy=" and ".join("%.2f" % (1e-9 * copy_speed(steps, per_node)) for per_node in none),
        scatter=" and ".join("%.0f" % (100 * (max(each) / min(each) - 1))
                             for each in none.values()), model=rows, near=near)


def cpu_name():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else "unknown CPU"


def means_table(ends):
    """ends: {way: validation losses, one a seed}, no hook first, which has the most."""
    first = next(iter(ends.values()))
    return table(("gradients", "seeds", "mean validation loss", "apart, %"),
                 [(name, str(len(values)), "%.4f" % statistics.mean(values),
                   apart_text(values, first[: len(values)])) for name, values in ends.items()])


def losses_text(steps, losses, more):
    curves = {name: mean_curve(results) for name, results in losses.items()}
    ends = ends_of(losses)
    # A loss that every way reaches but the worst by far: 1 % above where no hook ends.
    target = 1.01 * curves["no-hook"][-1][1]
    pictured = RATES[0]
    training_page.draw("training_torch.svg", "step; validation loss in nats per byte",
                       [(name, [curve]) for name, curve in curves.items()])
    timed = {name: seconds_of(result) for name, result in steps[1, pictured].items()
             if name in curves and name != "no-hook" and isinstance(result, dict)}
    training_page.draw(
        "training_torch_time.svg", "seconds; validation loss in nats per byte",
        [(name, [[(step * seconds, loss) for step, loss in curves[name]]])
         for name, seconds in timed.items()])
    return LOSSES.format(
        date=date(), rate=SMALL["rate"], warm_up=100 * SMALL["warm_up"],
        floor=100 * SMALL["floor"], loss_steps=LOSS_STEPS,
        small=1e-6 * losses["no-hook"][0]["parameters"],
        seeds=", ".join(map(str, SEEDS)), losses=losses_table(ends), target=target, every=EVERY,
        spread=100 * (max(ends["no-hook"]) / min(ends["no-hook"]) - 1),
        more_losses=means_table(ends_of(more)),
        times=times_table(steps, {name: steps_to(curve, target)
                                  for name, curve in curves.items()}), pictured=pictured,
        sparse=sparse_table(steps, losses))


def date():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")


def kept_losses(steps):
    """What the page says of losses, with times to a loss of these steps."""
    text = training_page.read_part(TEXT.splitlines()[0])
    _, found, losses = text.partition(LOSSES.split("\n\n")[0])
    before, heading, times = losses.partition(heading_of(TIMES))
    if not heading:
        return ""
    return (found + before + times_table(steps, page_counts(losses)) + "\n\n" +
            times.partition("\n\n")[2])


def write_page(steps, losses, more, send, args):
    """Of steps what there is, and losses, or None twice, which keeps those of the page; send: what
    transport_speed() says."""
    tables = ""
    for (per_node, rate), results in steps.items():
        tables += "## %s, %d Mbit/s\n\n%s\n\n" % (
            HEADINGS[per_node], rate, throughput_table(results, args["steps"]))
    one = steps[1, RATES[0]]["none"]
    text = TEXT.format(
        date=date(), cores=os.cpu_count(), cpu=cpu_name(), parameters=1e-6 * one["parameters"],
        approximation=USUAL["approximation"], steps=args["steps"],
        tables=tables.rstrip("\n"))
    training_page.write_part(text + "\n" + model_text(steps, send) +
                             (losses_text(steps, losses, more) if losses else
                              kept_losses(steps)))
    print("wrote doc/TRAINING.md" + (" and two pictures" if losses else ""), flush=True)


def page_steps(text):
    """What the page says of steps, as measure_steps() does: {(ranks a node, rate): {way: result}}.
    Results have no more than seconds and bytes; rows of failures are left out."""
    steps, counts = {}, {heading: count for count, heading in HEADINGS.items()}
    for section in text.split("\n## ")[1:]:
        heading, *lines = section.splitlines()
        name, _, rate = heading.removesuffix(" Mbit/s").rpartition(", ")
        if name not in counts:
            continue
        cells = [[cell.strip() for cell in line.split("|")[1:-1]]
                 for line in lines if line.startswith("| ")][1:]
        steps[counts[name], int(rate)] = {
            way: {"seconds": [float(seconds)], "sent": STEPS * 1e6 * float(sent)}
            for way, seconds, sent, *_ in cells if sent}
    return steps


def write_losses(losses, more):
    """Puts losses in place of those in the page, which keeps what it says of steps."""
    text = training_page.read_part(TEXT.splitlines()[0])
    before = text.partition(LOSSES.split("\n\n")[0])[0]
    training_page.write_part(before + losses_text(page_steps(text), losses, more))
    print("wrote losses to doc/TRAINING.md and two pictures", flush=True)


def write_sgd(losses):
    """Puts the part of SGD into the page."""
    ends = ends_of(losses)
    training_page.write_part(SGD_TEXT.format(
        date=date(), momentum=SGD["momentum"], rate=SGD["rate"], steps=LOSS_STEPS,
        seeds=", ".join(map(str, SEEDS)), losses=losses_table(ends)))
    print("wrote losses with SGD to doc/TRAINING.md", flush=True)


def measure_clipped(out, args):
    """{way: results, one a seed}, of most ways of as many seeds as MORE_SEEDS."""
    few = ["clipped-bf16"]
    return {**measure_losses(out, args, [w for w in LEARNING_CLIPPED if w not in few], MORE_SEEDS),
            **measure_losses(out, args, few), **measure_losses(out, args, LEARNING_LOWER)}


def write_clipped(losses):
    """Puts the part of clipped gradients into the page."""
    ends = ends_of(losses)
    training_page.write_part(CLIPPED_TEXT.format(
        date=date(), clip=CLIPPED["clip"], steps=LOSS_STEPS, few=len(SEEDS),
        rate=SMALL["rate"], lower=LOWER, faster=LOWER_FASTER,
        losses=means_table({name: ends[name] for name in LEARNING_CLIPPED}),
        lower_losses=losses_table({name: ends[name] for name in LEARNING_LOWER})))
    print("wrote losses with clipped gradients to doc/TRAINING.md", flush=True)


# ---- Arguments ----------------------------------------------------------------------------------

USAGE = "%s\n\nNAMEs: %s" % (__doc__.strip(), ", ".join(WAYS))


def arguments(words):
    args = {"rates": list(RATES), "steps": None, "seeds": list(SEEDS), "ranks-per-node": 1,
            "ways": None, "rate": None, "losses": False, "results": None}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if word == "--losses":
            args[name] = True
        elif name == "results" and value in ("", "steps", "losses", "sgd", "clipped"):
            args[name] = value or "all"
            args["losses"] = value in ("losses", "sgd", "clipped")
        elif name in ("rates", "seeds") and value:
            args[name] = [int(v) for v in value.split(",")]
        elif name in ("steps", "ranks-per-node") and value.isdigit():
            args[name] = int(value)
        elif name == "rate" and value:
            args["rate"] = float(value)
        elif name == "ways" and set(value.split(",")) <= set(WAYS):
            args["ways"] = value.split(",")
        else:
            sys.exit(USAGE)
    args["steps"] = max(args["steps"] or (LOSS_STEPS if args["losses"] else STEPS), 3)
    args["every"] = args["steps"]
    args["ways"] = args["ways"] or list(LEARNING if args["losses"] else WAYS)
    return args


def main():
    if "--help" in sys.argv or len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(USAGE)
        sys.exit(0 if "--help" in sys.argv else 2)
    out, args = sys.argv[1], arguments(sys.argv[2:])
    network.end_by_signals()
    os.makedirs(out, exist_ok=True)
    args["text"] = text_file(out)
    signal.signal(signal.SIGALRM, too_long)
    why = None if args["losses"] else network.missing()
    if why and args["results"]:
        sys.exit("train: no network can be made here: " + why)
    if why:
        print("No network can be made here (%s): the loopback interface, not shaped.\n" % why)
        args["rates"] = [None]
    if args["results"] == "sgd":
        write_sgd(measure_losses(out, args, LEARNING_SGD))
        return
    if args["results"] == "clipped":
        write_clipped(measure_clipped(out, args))
        return
    if args["results"] == "losses":
        write_losses(measure_losses(out, args, LEARNING), measure_more_losses(out, args))
        return
    shaped = not why and not args["losses"]
    with network.Network(NODES) if shaped else network.Loopback(NODES) as net:
        if args["results"]:
            results, path = read_results(out)
            send = kept(results, path, "bytes of a core's transport a second",
                        lambda: statistics.median(transport_speed() for _ in range(7)))
            steps = {}
            for per_node in WAYS_OF:
                steps.update(measure_steps(net, out, per_node, args))
                write_page(steps, None, None, send, args)
            if args["results"] == "steps":
                return
            write_page(steps, measure_losses(out, args, LEARNING), measure_more_losses(out, args),
                       send, args)
            write_sgd(measure_losses(out, args, LEARNING_SGD))
            write_clipped(measure_clipped(out, args))
        else:
            show(net, args)


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit("train: %s" % why)
