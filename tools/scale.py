#!/usr/bin/env python3
"""Print doc/SCALE.md: tools/scale.py PITH, the program; for ./dev results.

SPDX-License-Identifier: Apache-2.0

Every number is what `pith advise` answers for speeds that are given, so that the page is the same
wherever it is made.
"""
import json
import subprocess
import sys

# Bits per second: of a rank inside its node, of a node; seconds; bytes of f32 a second.
SYSTEMS = [
    ("4 A100 a node, Slingshot-10", 4, "2.4T", "100G", "600G,600G"),
    ("8 H800 a node, 8 InfiniBand links", 8, "1.6T", "3.2T", "600G,600G"),
    ("8 GPUs a node on PCIe, 25 Gbit/s Ethernet", 8, "200G", "25G", "300G,300G"),
    ("CPUs, 10 Gbit/s Ethernet", 1, "10G", "10G", "10G,15G"),
    ("CPUs, 1 Gbit/s Ethernet", 1, "1G", "1G", "10G,15G"),
    ("CPUs in homes, 100 Mbit/s", 1, "100M", "100M", "10G,15G"),
]
LATENCY = "3e-6,2e-5"
RANKS = (64, 1024, 16384)
GRADIENTS = "5.2G"  # 1.3 billion values

TEXT = """# When compressing gradients pays

`pith advise` answers this for a machine: how long a step takes in which the gradients of all
ranks are summed, plainly or through codec `grad`, and which setting to take. It knows the machine
by a few numbers: ranks, ranks of a node, the bandwidth of links inside nodes and across,
latencies, bytes of gradients, seconds of computing, cores of a node and how fast these move bytes.
How fast codecs are it measures where it runs, or is told (`--codec-speed`). This page has the
model, what it was compared with, and its answers for systems from the literature. `./dev results`
makes it, with `tools/scale.py`.

## The model

A message of `b` bytes over a link of bandwidth `B` takes `latency + b / B`, and a rank sends its
messages one after the other (the alpha-beta model). There are `P` ranks on `N` nodes of `R = P /
N`. `B_in` is what a rank sends inside its node, `B_out` what all ranks of a node together send to
other nodes. `V` values are summed, of `c` bytes each.

    exchange(k, bytes, B, latency) = (k - 1) latency + bytes (k - 1) / k / B

is how long it takes until each of `k` has sent every other its part.

* **Plain sums** (f32, bf16): the better of one ring, `2 exchange(P, V c, min(B_in, B_out))`, and
  of rings at two levels, `2 exchange(R, V c, B_in) + 2 exchange(N, V c, B_out)`.
* **Through codecs**, as
  [`pith_collective.h`](../adapters/collective/include/pith/pith_collective.h) does it. The
  reduce-scatter sends frames to the owner of each shard, first inside the node, then across
  nodes: `exchange(R, V c1, B_in) + exchange(N, V c2, B_out)`. On the way back the owner sends its
  shard to the ranks of its node and to one of each other node, which forwards it to the others
  there: `exchange(N, V c2, B_out)` across, and `N` times `(R - 1) V c2 / P` bytes inside, which is
  `exchange(R, V c2, B_in)`. `c1` and `c2` are bytes of a value in frames of 131072 values, scales
  and headers included, as plans say.
* **At one level** (`--levels 1`), as gloo sums and as channels with a single spec do where ranks of
  a node share a link, plain sums are the one ring, and every rank sends its frames to all owners
  itself: `exchange(N, R V c, B_out) + exchange(R, V c / N, B_in)` is the reduce-scatter. The way
  back is the same.
* **Latency**: a shard is cut into `S` slices of 131072 values, and each is a message of its own:
  `(R - 1) S` inside and `(N - 1) S` across to the owners, `N (R - 1) S` and `(N - 1) S` back, one
  latency each. Where links carry several messages at once, that is too much.
* **Codecs** take, for every value of a rank: encoding, adding (a frame of each rank of the node
  for a share of `V / R`), decoding what comes back; for a share of `V / R` values: encoding sums,
  and adding a frame of each node; for a shard of `V / P` values: encoding what goes back.
* **Transport** (`--transport SEND,COPY`): a core sends and receives `SEND` bytes of messages a
  second, and copies `COPY` bytes of f32 gradients a second to where they are sent from, and back.
  Not given, neither takes time. GPUs that send by themselves need neither; TCP takes both.
* **Cores** (`--cores`): where the ranks of a node share so many cores, fewer than there are ranks,
  what codecs and transport of a rank take is multiplied by ranks and divided by cores. Seconds of
  computing are as given: of ranks that share cores already.
* Slice after slice, links work side by side with codecs and messages: the larger of both, and the
  smaller once for each slice (of plain sums the larger). Copies come before and after.
* `--overlap F`: sums hide behind that part of the computing.

What it leaves out: ranks that wait for each other or for a core, links that others use too,
protocol headers, and collectives that networks or switches add up. Ratios are more to be trusted
than seconds.

## Compared with what was published

SDP4Bit (NeurIPS 2024, table 4): gradients of a GPT of 1.3 billion parameters, reduce-scattered
over 32 A100, 4 a node, 100 Gbit/s each node. The model's are of its reduce-scatter, without
latencies: theirs sends each rank one large message.

| | published, ms | model, ms | apart |
|---|---|---|---|
{published}

And with steps of training over four shaped links, four or eight ranks on two cores, in
[TRAINING.md](TRAINING.md#what-the-model-of-pith-advise-says): all 24 steps are within 15 %,
and but for 2 bits at 1 Gbit/s within 11 %. There codecs are the longest part: the model says 13 %
too little, since ranks that share a core count more seconds in them than at 100 Mbit/s.

## 1.3 billion values

Seconds of a sum and nothing else (`--compute 0`), latencies 3 and 20 us. Codecs of GPUs: 600 GB of
f32 a second, on PCIe 300, to encode and to decode (the kernels of SDP4Bit reach 688 on an A100;
pith's on an H200 are in [CUDA.md](CUDA.md#speeds)). Of CPUs: 10 and 15, two threads of the machine
of [RESULTS.md](RESULTS.md). A step
wins what its computing does not hide: where it hides the seconds of f32 (`--overlap 1`), nothing.

| system | ranks | f32 | bf16 | `grad` 8/4 bits | its reduce-scatter | `grad` 2 bits | advice |
|---|---|---|---|---|---|---|---|
{rows}

The reduce-scatter is what training with sharded optimizer states sums by; of f32 and bf16 it is
half of what stands here. Where ranks have a link each (the last three) there is one level, of 4
bits. 3 and 2 bits are shown and never advised: they are for those who have measured what they do
to their model.

**What follows.** Where a rank has a link of its own of up to 10 Gbit/s, or the ranks of a node
share one of up to 100 Gbit/s, `grad` is worth three to eight times the communication of f32, and
one and a half to four times that of bf16: in an all-reduce as in its reduce-scatter, since both of
its halves cross nodes once. Links are the limit there, and codecs far from it, but for CPUs at 10
Gbit/s, where one takes about as long as the other. At terabits a node, and from thousands of ranks
on, the latency of many messages is what is left, for which codecs do nothing: larger shards and
slices, or fewer ranks in a sum, do. What fewer bits do to a model is measured in
[TRAINING.md](TRAINING.md): 8 and 4 bits cost nothing that can be seen there.
"""


def advise(pith, *flags):
    out = subprocess.run([pith, "advise", "--json", *flags], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)


def published(pith):
    rows = advise(pith, "--ranks", "32", "--ranks-per-node", "4", "--links", "2.4T,100G",
                  "--latency", "0", "--size", "5.2G", "--codec-speed", "600G,600G")["rows"]
    by_name = {row["name"]: row for row in rows}
    lines = []
    for name, said, row in (("f32", 379.3, by_name["f32, not compressed"]),
                            ("8 bits inside, 4 across", 45.9,
                             by_name["grad:preset=intra inside, grad:preset=inter across"])):
        model = 1e3 * row["scatter_seconds"]
        apart = 100 * (model / said - 1)
        lines.append("| %s | %.1f | %.1f | %+.0f %% |" % (name, said, model, apart))
    return "\n".join(lines)


def row_of(pith, system, ranks):
    name, per_node, inside, across, speed = system
    answer = advise(pith, "--ranks", str(ranks), "--ranks-per-node", str(per_node), "--links",
                    inside + "," + across, "--latency", LATENCY, "--size", GRADIENTS,
                    "--codec-speed", speed)
    rows = answer["rows"]
    by_name = {row["name"]: row for row in rows}
    two = "grad:preset=intra inside, grad:preset=inter across"
    four = by_name.get(two, by_name["grad:preset=inter"])
    best = rows[answer["advice"]]["name"].replace(", not compressed", "")
    best = best.replace(two, "8/4 bits")
    best = best.replace("grad:preset=inter", "4 bits").replace("grad:preset=intra", "8 bits")
    seconds = (by_name["f32, not compressed"]["sum_seconds"],
               by_name["bf16, not compressed"]["sum_seconds"], four["sum_seconds"],
               four["scatter_seconds"], by_name["grad:bits=2"]["sum_seconds"])
    return "| %s | %d | %.3g | %.3g | %.3g | %.3g | %.3g | %s |" % (name, ranks, *seconds, best)


def main():
    pith = sys.argv[1]
    rows = "\n".join(row_of(pith, s, ranks) for s in SYSTEMS for ranks in RANKS)
    print(TEXT.format(published=published(pith), rows=rows), end="")


if __name__ == "__main__":
    main()
