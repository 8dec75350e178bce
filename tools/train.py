#!/usr/bin/env python3
"""Train the example of adapters/mpi twice, plain and through pith, and draw both curves.

SPDX-License-Identifier: Apache-2.0

    ./dev train [--NAME=VALUE...]   one pair of runs; arguments go to pith-train
    ./dev train --results           seeds and variants; doc/TRAINING.md, its pictures
    tools/train.py BUILD OUT ...    the same with another release build and folder of logs

NAME is one of steps, every, seed, nodes, replica, rate, clip, weights, intra, inter, exempt,
sparse, slack, exchange: adapters/mpi/examples/train/options.c has the values. OUT keeps the logs;
--results uses those that are newer than the build, so that it can go on where it was stopped.
Standard library only.
"""
import datetime
import os
import subprocess
import sys

import training_page

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLE = "adapters/mpi/examples/train"
RANKS = 8
SEEDS = (1, 2, 3)
VARIANT_SEEDS = SEEDS[:1]
PATHS = ("gradients, inside nodes", "gradients, between nodes", "weights")
PLAIN = ["--exchange=plain"]
PITH = ["--exchange=pith"]
SDP4BIT = ["--intra=grad:preset=intra,round=stochastic",
           "--inter=grad:preset=inter,round=stochastic", "--weights=wdiff:round=stochastic"]
VARIANTS = (
    ("weights", "4 bits, not a difference", ["--weights=grad:group=2048,rotate=0"]),
    ("weights", "stochastic rounding", ["--weights=wdiff:round=stochastic"]),
    ("weights", "3 bits", ["--weights=wdiff:bits=3"]),
    ("gradients", "no rotation", ["--intra=grad:preset=intra,rotate=0",
                                  "--inter=grad:preset=inter,scale_dtype=bf16,rotate=0"]),
    ("gradients", "two levels, both 4 bits", ["--intra=grad:scale_dtype=bf16"]),
    ("gradients", "one level, 4 bits to all ranks", ["--nodes=8"]),
    ("gradients", "one level, 4 bits, no rotation",
     ["--nodes=8", "--inter=grad:scale_dtype=bf16,rotate=0"]),
    ("gradients", "stochastic rounding", ["--intra=grad:preset=intra,round=stochastic",
                                          "--inter=grad:scale_dtype=bf16,round=stochastic"]),
    ("gradients", "searched scales (search=mse)", ["--inter=grad:scale_dtype=bf16,search=mse"]),
    ("gradients", "error feedback", ["--intra=grad:preset=intra,ef=full",
                                     "--inter=grad:scale_dtype=bf16,ef=full"]),
    ("gradients", "gains and biases at 16 bits", ["--exempt=16"]),
    ("all", "as SDP4Bit: stochastic, f32 scales", SDP4BIT),
)
INTER_3 = "--inter=grad:bits=3,codebook=trellis,scale_dtype=bf16"
THREE = (("`wdiff:bits=3`", ["--weights=wdiff:bits=3", INTER_3]),
         ("`wdiff:bits=3,codebook=trellis`", ["--weights=wdiff:bits=3,codebook=trellis", INTER_3]),
         ("`wdiff:bits=3,group=128`", ["--weights=wdiff:bits=3,group=128", INTER_3]))
SPARSE = (("topk, 1 %", "topk:density=0.01,control=micro,ef=full"),
          ("topk, 0.1 %", "topk:density=0.001,control=micro,ef=full"))


# ---- Running ------------------------------------------------------------------------------------

def built(build):
    """When the program or a library of it was last linked."""
    names = (EXAMPLE + "/pith-train", "adapters/mpi/libpith_mpi.so",
             "adapters/collective/libpith_collective.so", "codec/libpith.so")
    paths = [os.path.join(build, name) for name in names]
    return max(os.path.getmtime(path) for path in paths if os.path.exists(path))


def mpirun(build, arguments, quiet):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_btl_vader_single_copy_mechanism="none")
    command = ["mpirun", "--oversubscribe", "-n", str(RANKS),
               os.path.join(build, EXAMPLE, "pith-train"),
               "--data=" + os.path.join(ROOT, EXAMPLE, "data", "new_testament.txt")]
    subprocess.run(command + arguments, env=environment, check=True,
                   stdout=subprocess.DEVNULL if quiet else None)


class Log:
    """What pith-train wrote about one training."""

    def __init__(self, path):
        self.settings, self.points, self.sent, self.time, self.sparse = {}, [], {}, {}, {}
        with open(path, encoding="ascii") as file:
            for line in file:
                kind, key, *values = line.rstrip("\n").split("\t")
                self.add(kind, key, values)

    def add(self, kind, key, values):
        if kind == "point":
            self.points.append((int(key),) + tuple(float(v) for v in values))
        elif kind == "sent":
            self.sent[key] = (float(values[0]), float(values[1]))
        elif kind == "time":
            self.time[key] = float(values[0])
        elif kind == "sparse":
            self.sparse[key] = float(values[0])
        elif kind == "set":
            self.settings[key] = values[0]

    def last(self):
        return self.points[-1][2]

    def error(self, column):
        return mean(point[column] for point in self.points)

    def sent_bytes(self, paths=PATHS):
        return sum(self.sent[path][0] for path in paths)

    def bits_per_gradient(self):
        return 8 * self.sent_bytes(PATHS[:2]) / int(self.settings["parameters"])


def train_once(build, out, name, arguments):
    """One training, unless its log is there already and newer than the program."""
    kind = "plain" if arguments[0] == PLAIN[0] else "pith"
    path = os.path.join(out, name + "-" + kind + ".tsv")
    if not os.path.exists(path) or os.path.getmtime(path) < built(build):
        print("train:", name, *arguments, flush=True)
        mpirun(build, arguments + ["--log=" + os.path.join(out, name)], True)
    return Log(path)


def train_seeds(build, out, name, arguments, seeds=SEEDS):
    return [train_once(build, out, "%s-%d" % (name, seed), arguments + ["--seed=%d" % seed])
            for seed in seeds]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def draw(name, *kinds):
    """Validation losses over steps, one line a seed. kinds: (legend, logs)."""
    training_page.draw(name, "step; validation loss in nats per character",
                       [(legend, [[(p[0], p[2]) for p in log.points] for log in logs])
                        for legend, logs in kinds])


# ---- The document -------------------------------------------------------------------------------

def percent(new, old):
    return "%+.2f %%" % (100 * (new / old - 1))


def spread(plains, piths):
    apart = [b.last() / a.last() - 1 for a, b in zip(plains, piths)]
    return "%+.2f to %+.2f %%" % (100 * min(apart), 100 * max(apart))


def seed_table(plains, piths, singles):
    yield "| seed | uncompressed | through pith | apart | uncompressed, f32 replicas | apart |"
    yield "|---|---|---|---|---|---|"
    for seed, a, b, c in zip(SEEDS, plains, piths, singles):
        yield "| %d | %.4f | %.4f | %s | %.4f | %s |" % (
            seed, a.last(), b.last(), percent(b.last(), a.last()), c.last(),
            percent(c.last(), a.last()))
    a, b, c = (mean(log.last() for log in logs) for logs in (plains, piths, singles))
    yield "| mean | %.4f | %.4f | **%s** | %.4f | %s |" % (a, b, percent(b, a), c, percent(c, a))


def three_table(plains, threes):
    yield "| weights | %s | mean, apart | bits between | bits of weights |" % (
        " | ".join("seed %d | apart" % seed for seed in SEEDS))
    yield "|---" * (4 + 2 * len(SEEDS)) + "|"
    for (name, _), logs in zip(THREE, threes):
        cells = ["%.4f | %s" % (log.last(), percent(log.last(), plain.last()))
                 for log, plain in zip(logs, plains)]
        whole = percent(mean(log.last() for log in logs), mean(log.last() for log in plains))
        yield "| %s | %s | **%s** | %.2f | %.2f |" % (
            name, " | ".join(cells), whole, logs[0].sent[PATHS[1]][1], logs[0].sent[PATHS[2]][1])


def curve_table(plain, pith):
    yield "| step | training | validation | training, pith | validation, pith | apart |"
    yield "|---|---|---|---|---|---|"
    for a, b in zip(plain.points, pith.points):
        yield "| %d | %.4f | %.4f | %.4f | %.4f | %s |" % (
            a[0], a[1], a[2], b[1], b[2], percent(b[2], a[2]))


def sent_table(plain, pith):
    yield "| per rank and step | uncompressed | bits per value | pith | bits per value | less |"
    yield "|---|---|---|---|---|---|"
    for path in PATHS:
        a, b = plain.sent[path], pith.sent[path]
        yield "| %s | %d | %.2f | %d | %.3f | %.1f x |" % (path, a[0], a[1], b[0], b[1],
                                                          a[0] / b[0])


def time_table(plain, pith):
    yield "| ms per rank and step | model | exchange | encode | decode | wait |"
    yield "|---|---|---|---|---|---|"
    for name, log in (("uncompressed", plain), ("pith", pith)):
        cells = ["%.2f" % (1e3 * log.time[key]) if log.time[key] > 0 else ""
                 for key in ("model", "exchange", "encode", "decode", "wait")]
        yield "| %s | %s |" % (name, " | ".join(cells))


def variant_row(what, name, logs, plain):
    sent = logs[0].sent
    bits = ["%.2f" % sent[path][1] if sent[path][0] else "" for path in PATHS]
    return "| %s | %s | %s | %.1e | %.1e | %s |" % (
        what, name, " | ".join(bits), mean(log.error(3) for log in logs),
        mean(log.error(4) for log in logs), percent(mean(log.last() for log in logs), plain))


def variant_table(plains, piths, variants):
    plains, piths = plains[:len(VARIANT_SEEDS)], piths[:len(VARIANT_SEEDS)]
    plain = mean(log.last() for log in plains)
    yield ("| what | changed | bits inside nodes | bits between | bits of weights "
           "| error of gradients | error of weights | loss apart |")
    yield "|---|---|---|---|---|---|---|---|"
    yield variant_row("", "nothing compressed", plains, plain)
    yield variant_row("", "pith as above", piths, plain)
    for (what, name, _), logs in zip(VARIANTS, variants):
        yield variant_row(what, name, logs, plain)


def sparse_row(name, logs, plains):
    sent, plain = mean(log.sent_bytes(PATHS[:2]) for log in logs), plains[0].sent_bytes(PATHS[:2])
    whole = plains[0].sent_bytes() / mean(log.sent_bytes() for log in logs)
    cells = ["%.4f" % log.last() for log in logs]
    cells += [percent(mean(log.last() for log in logs), mean(log.last() for log in plains)),
              "%.3f" % mean(log.bits_per_gradient() for log in logs),
              "%.1f x" % (plain / sent), "%.1f x" % whole]
    if logs[0].sparse:
        chosen, asked = mean(log.sparse["chosen"] for log in logs), asked_share(logs)
        cells += ["%.3f of %g %%" % (100 * chosen, 100 * asked),
                  "%.2f" % mean(log.sparse["imbalance"] for log in logs)]
    else:
        cells += ["", ""]
    return "| %s | %s |" % (name, " | ".join(cells))


def asked_share(logs):
    return float(logs[0].settings["sparse"].split("density=")[1].split(",")[0])


def sparse_table(plains, piths, sparse):
    yield "| gradients | %s | apart | bits | less | with weights | chosen | imbalance |" % (
        " | ".join("seed %d" % seed for seed in SEEDS))
    yield "|---" * (8 + len(SEEDS) - 1) + "|"
    yield sparse_row("uncompressed", plains, plains)
    yield sparse_row("`grad`, pith as above", piths, plains)
    for (name, _), logs in zip(SPARSE, sparse):
        yield sparse_row(name, logs, plains)


def steps_behind(logs, plains):
    """Where the uncompressed training had the loss that these ended with, on the mean."""
    wanted = mean(log.last() for log in logs)
    means = [(points[0][0], mean(p[2] for p in points))
             for points in zip(*(log.points for log in plains))]
    passed = [step for step, loss in means if loss <= wanted]
    return "had that loss by step %d" % passed[0] if passed else "never came to so low a loss"


def sparse_sentences(plains, piths, sparse):
    for (name, _), logs in zip(SPARSE, sparse):
        yield ("%s: losses are %s from the uncompressed ones of the same seed, which\non the mean"
               " %s; gradients take %.1f times fewer bytes than\nthrough `grad`, all messages %.1f"
               " times."
               % (name, spread(plains, logs), steps_behind(logs, plains),
                  piths[0].sent_bytes(PATHS[:2]) / mean(log.sent_bytes(PATHS[:2]) for log in logs),
                  piths[0].sent_bytes() / mean(log.sent_bytes() for log in logs)))


TEXT = """\
# Training through pith

Made by `./dev train --results` on {date}. The trainer of
[`adapters/mpi/examples/train`](../adapters/mpi/examples/train/train.c): a transformer of
{parameters} parameters over the characters of the New Testament, {ranks} ranks as {nodes} nodes,
Adam with states sharded over the ranks, bf16 replicas on every rank, {steps} steps. "Uncompressed":
MPI_Reduce_scatter of f32 gradients, MPI_Allgatherv of bf16 weights. "Through pith": gradients
`{intra}` inside nodes and `{inter}` between them, weights `{weights}` against the
live replicas. Same first weights, same batches. Losses are nats per character.

After every step all ranks compared a hash of their replicas; a difference would have ended the run.

## Loss

{seeds}

Two trainings that differ in any bit at all drift apart; how far, the last two columns show: they
are uncompressed too and differ in the rounding of the replicas only.

Three bits: gradients `{inter3}` between nodes, weights as each
row says, all else as above.

{three}

![validation loss](training.svg)

Seed {seed}:

{curve}

## Bytes

{sent}

MPI does not tell what it sends; the uncompressed column is the least that sums inside nodes before
crossing can send. Headers are included in pith's.

## Time

{time}

Seed {seed}. More ranks than cores, on a machine with other work: the model's time, the same code in
both rows, shows how much the two runs were disturbed; waiting is mostly waiting for a core. Encode
and decode are what pith costs; nothing here says what a network would gain.

## What each part buys

Each row changes one thing of "pith as above"; {count}. Errors are NMSE: of the summed gradient
against the exact sum of the same gradients, and of the replica against the master weights (rounding
to bf16 alone loses what the first row says), means of {points} places of the training. With error
feedback the first counts as lost what later steps bring back. Losses of unchanged pith lie {apart}
from the uncompressed ones of the same seed: smaller differences in the last column say little, and
the errors are the sharper measure.

{variants}

## Sparse gradients

Codec `topk` with error feedback, in the sparse all-reduce of kind union
([COLLECTIVES.md](COLLECTIVES.md)): each rank chooses from a part of its own, parts go round and
move by the counts of the last step, as ExDyna's do ([SPARSE.md](SPARSE.md)). The specs are
{specs}.
Weights travel as above, and all else is as above, too: same learning rate and clipping, no warm-up
of the density, no correction of momentum; gains and biases take part.

{sparse}

"Bits": of the gradients that a rank sends in a step, over the number of parameters. "Less": how
many times fewer bytes that is than uncompressed; "with weights": the same of all that a rank sends.
"Chosen": the share of all elements that the ranks chose, mean of all steps, and what the spec asks
for. "Imbalance": elements of the rank that chose most, over the mean of ranks, mean of all steps.

![validation loss with sparse gradients](training_sparse.svg)

{sentences}

Adam does not look at the size of a gradient: one that sums a hundred steps moves a weight no
further than one of a single step, so that weights whose gradients wait learn later. A learning rate
of its own might win some of that back; it is not tried here. The all-reduce gives each rank all
sums, of which a sharded optimizer needs one shard. Parts are not of fewer than {least} blocks, and
the last one has what blocks leave over: where the largest gradients lie close together, as those of
the output layer at the end, its rank goes on choosing more than others.
"""


def document(plains, piths, singles, threes, variants, sparse):
    settings, lines = piths[0].settings, "\n".join
    return TEXT.format(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        seeds=lines(seed_table(plains, piths, singles)), seed=SEEDS[0], count=(
            "means over %d seeds" % len(VARIANT_SEEDS) if len(VARIANT_SEEDS) > 1 else "one seed"),
        apart=spread(plains, piths),
        inter3=INTER_3.split("=", 1)[1], three=lines(three_table(plains, threes)),
        curve=lines(curve_table(plains[0], piths[0])), sent=lines(sent_table(plains[0], piths[0])),
        time=lines(time_table(plains[0], piths[0])), points=len(piths[0].points),
        variants=lines(variant_table(plains, piths, variants)),
        least=256 // RANKS, specs=" and ".join("`%s`" % spec for _, spec in SPARSE),
        sparse=lines(sparse_table(plains, piths, sparse)),
        sentences="\n\n".join(sparse_sentences(plains, piths, sparse)),
        **{key: settings[key] for key in ("parameters", "ranks", "nodes", "steps", "intra",
                                          "inter", "weights")})


def results(build, out):
    plains = train_seeds(build, out, "base", PLAIN)
    piths = train_seeds(build, out, "base", PITH)
    singles = train_seeds(build, out, "f32", PLAIN + ["--replica=f32"])
    threes = [train_seeds(build, out, "three%d" % i, PITH + arguments)
              for i, (_, arguments) in enumerate(THREE)]
    variants = [train_seeds(build, out, "variant%d" % i, PITH + arguments, VARIANT_SEEDS)
                for i, (_, _, arguments) in enumerate(VARIANTS)]
    sparse = [train_seeds(build, out, "sparse%d" % i, PITH + ["--sparse=" + spec])
              for i, (_, spec) in enumerate(SPARSE)]
    curves = (("uncompressed", plains), ("through pith", piths))
    draw("training.svg", *curves)
    draw("training_sparse.svg", *curves, *((name, logs) for (name, _), logs in zip(SPARSE, sparse)))
    training_page.write_part(document(plains, piths, singles, threes, variants, sparse))
    print("wrote doc/TRAINING.md, doc/training.svg and doc/training_sparse.svg")


def pair(build, out, arguments):
    mpirun(build, arguments + ["--exchange=both", "--log=" + os.path.join(out, "train")], False)
    logs = [Log(os.path.join(out, "train-%s.tsv" % name)) for name in ("plain", "pith")]
    draw(os.path.abspath(os.path.join(out, "train.svg")), ("uncompressed", logs[:1]),
         ("through pith", logs[1:]))
    print("drawn: " + os.path.join(out, "train.svg"))


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return
    build, out, arguments = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    os.makedirs(out, exist_ok=True)
    try:
        if arguments == ["--results"]:
            results(build, out)
        else:
            pair(build, out, arguments)
    except subprocess.CalledProcessError as error:
        sys.exit("train: mpirun failed with status %d" % error.returncode)


if __name__ == "__main__":
    main()
