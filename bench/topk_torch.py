#!/usr/bin/env python3
"""Compare torch.topk with pith's exact choice of as many elements, one thread, in one run.

SPDX-License-Identifier: Apache-2.0

    build-torch/bin/python bench/topk_torch.py [ELEMENTS] [SHARE]

Each round takes another tensor of normal deviates;
torch.topk is given magnitudes, whose making is not counted, and pith makes whole frames. ./dev need
torch, and a wheel of ./dev python, come first.
"""
import statistics
import sys
import time

import torch

import pith

ROUNDS = 9


def seconds(call):
    begin = time.perf_counter()
    out = call()
    return time.perf_counter() - begin, out


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 26
    share = sys.argv[2] if len(sys.argv) > 2 else "0.001"
    k = int(float(share) * count)
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(1)
    stream = pith.Stream(pith.Plan("topk:k=%d,control=exact" % k, shape=(count,), dtype="f32"))
    times = []
    for _ in range(ROUNDS):
        x = torch.randn(count, generator=random)
        largest, (values, _) = seconds(lambda x=x.abs(): torch.topk(x, k, sorted=False))
        ours, frame = seconds(lambda x=x: stream.encode(x))
        sent = torch.from_numpy(pith.decompress(frame, dtype="f32")).abs()
        # Of equal magnitudes either may choose others.
        if not torch.equal(sent[sent != 0].sort().values, values.sort().values):
            sys.exit("topk_torch: the chosen elements are not those of torch.topk")
        times.append((largest, ours))
    print("%d of %d f32: torch.topk %.2f ns a value, pith %.2f, %.1f times" % (
        k, count, *(1e9 / count * statistics.median(t) for t in zip(*times)),
        statistics.median(a / b for a, b in times)))


if __name__ == "__main__":
    main()
