#!/usr/bin/env python3
"""One rank of tools/train_torch.py: trains GPTs on bytes, and says how long steps take.

SPDX-License-Identifier: Apache-2.0

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are torchrun's. Rank 0 reads the settings of one
training after the other as lines of JSON, and answers each with a line.
"""
import hashlib
import json
import math
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import pith.sparse
import pith.torch.ddp
import pith.torch.optim
from pith.torch import _group

ONE_BUCKET_MB = 1024  # PowerSGD's hook waits for ever on gloo where there are several
# Rows of a validation, the same ones each time: while a model trains, and when it has.
HELD_OUT, HELD_OUT_LAST = 512, 4096


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = torch.nn.LayerNorm(width)
        self.attend = torch.nn.Linear(width, 3 * width)
        self.project = torch.nn.Linear(width, width)
        self.between = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.attend(self.before(x)).split(width, 2)
        q, k, v = (p.view(batch, tokens, self.heads, -1).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class GPT(torch.nn.Module):
    """Of bytes."""

    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.token = torch.nn.Embedding(256, width)
        self.place = torch.nn.Embedding(context, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.end = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, 256, bias=False)

    def forward(self, x):
        h = self.token(x) + self.place(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.end(h))


class Text:
    """Bytes; the last tenth is for validation."""

    def __init__(self, path, context, seed):
        with open(path, "rb") as f:
            data = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)
        cut = len(data) * 9 // 10
        self.train, self.test, self.context = data[:cut], data[cut:], context
        self.random = torch.Generator().manual_seed(seed)

    def batch(self, data, count, random):
        at = torch.randint(len(data) - self.context - 1, (count,), generator=random)
        rows = torch.stack([data[i : i + self.context + 1] for i in at.tolist()]).long()
        return rows[:, :-1], rows[:, 1:]

    def next(self, count):
        return self.batch(self.train, count, self.random)

    def held_out(self, count):
        return self.batch(self.test, count, torch.Generator().manual_seed(0))


def loss_of(model, batch):
    return functional.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


# ---- How gradients are exchanged ----------------------------------------------------------------

def same_bytes(state, bucket):
    """A sum without codec of so few elements that as many bytes move as pith's; the gradients stay
    what they are."""
    count = max(int(bucket.buffer().numel() * state["share"]), 1)
    index = bucket.index()
    if (index, count) not in state["channels"]:
        state["channels"][index, count] = (
            state["ranks"].channel("allreduce", "raw", count=count, dtype=torch.float32),
            torch.zeros(count))
    future = torch.futures.Future()
    buffer, step = bucket.buffer(), state["step"][0]

    def call():
        channel, moved = state["channels"][index, count]
        try:
            channel.run(moved, moved, step=step)
            future.set_result(buffer)
        except Exception as error:
            future.set_exception(error)

    if bucket.is_last():
        state["step"][0] += 1
    state["worker"].submit(call)
    return future


def scheduled(step, steps, warm_up, floor):
    """What the learning rate is multiplied by: it rises over a share of the steps, and falls along
    half a cosine to a share of what it reached."""
    rise = warm_up * steps
    if step < rise:
        return (step + 1) / (rise + 1)
    return floor + (1 - floor) * (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2


class Trainer:
    """A model, its optimizer, and one way to exchange: plain, fp16, bf16, powersgd, bytes, pith,
    zero (PyTorch's sharded optimizer), pith-zero, or none (each rank for itself). The optimizer is
    AdamW, or SGD where the settings have a momentum."""

    def __init__(self, s):
        self._make(s)
        self.clip = s["clip"]
        steps = s["before"] + s["steps"]
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: scheduled(step, steps, s["warm_up"], s["floor"]))

    def _make(self, s):
        torch.manual_seed(s["seed"])
        self.model = GPT(s["layers"], s["width"], s["heads"], s["context"])
        self.state = None
        # Not fused, AdamW takes roots of second moments with MKL, of zeros nine times as slowly as
        # of other numbers: of elements that no rank ever chose, which a sparse hook has most of.
        way, adam = s["way"], {"lr": s["rate"], "betas": (0.9, 0.95), "weight_decay": 0.01,
                               "fused": True}
        per_node = s["ranks_per_node"]
        if way == "pith-zero":
            self.whole = self.model
            self.optimizer = pith.torch.optim.Sharded(
                self.model.parameters(), torch.optim.AdamW, gradients=s["spec"], inter=s["inter"],
                weights=s["weights"], max_norm=s["clip"], parameters_as_bucket_view=True,
                ranks_per_node=per_node, **adam)
            return
        bucket = {"bucket_cap_mb": ONE_BUCKET_MB} if way == "powersgd" else {}
        self.whole = (self.model if way == "none" else
                      DistributedDataParallel(self.model, **bucket))
        if way == "fp16":
            self.whole.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif way == "bf16":
            self.whole.register_comm_hook(None, default_hooks.bf16_compress_hook)
        elif way == "powersgd":
            state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=s["approximation"],
                                                start_powerSGD_iter=s["warm"])
            self.whole.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        elif way == "bytes":
            self.state = {"ranks": _group.communicator(None, ranks_per_node=per_node),
                          "share": s["share"], "channels": {}, "step": [0],
                          "worker": ThreadPoolExecutor(1)}
            self.whole.register_comm_hook(self.state, same_bytes)
        elif way == "pith":
            self.state = pith.torch.ddp.register(self.whole, spec=s["spec"], inter=s["inter"],
                                                 kind=s["kind"], partitions=s["partitions"],
                                                 normalize=s["normalize"], gather=s["gather"],
                                                 ranks_per_node=per_node)
        if way == "zero":
            self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.AdamW,
                                                     **adam)
        elif s["momentum"] is None:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), **adam)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=s["rate"],
                                             momentum=s["momentum"])

    def step(self, batch):
        self.optimizer.zero_grad()
        loss_of(self.whole, batch).backward()
        if self.clip is not None and not isinstance(self.optimizer, pith.torch.optim.Sharded):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.schedule.step()

    def codec_seconds(self):
        """Of the last step, by the clock and by this rank's share of the core."""
        if isinstance(self.state, pith.torch.ddp.State):
            reports = self.state.reports.values()
        else:
            reports = getattr(self.optimizer, "reports", {}).values()
        return (sum(r.encode_seconds + r.recode_seconds + r.decode_seconds for r in reports),
                sum(r.cpu_seconds for r in reports))

    def chosen(self):
        """Of the last step: elements that ranks chose, elements whose sums came back, and how many
        more the rank with the most chose than the mean; None where all gradients travel."""
        if not isinstance(self.state, pith.torch.ddp.State) or not self.state.chosen:
            return None
        by_rank = [sum(counts) for counts in zip(*self.state.chosen.values(), strict=True)]
        summed = sum(report.summed for report in self.state.reports.values())
        return sum(by_rank), summed, pith.sparse.imbalance(by_rank)


def digest_of(model):
    digest = hashlib.sha256()
    for p in model.parameters():
        digest.update(p.detach().numpy().tobytes())
    return digest.hexdigest()


def same_everywhere(digests):
    everywhere = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, digests)
    return all(each == digests for each in everywhere)


def train(s):
    trainer = Trainer(s)
    text = Text(s["text"], s["context"], 1000 * s["seed"] + dist.get_rank())
    for _ in range(s["warm"]):
        trainer.step(text.next(s["batch"]))
    dist.barrier()
    if dist.get_rank() == 0 and s["signal"]:
        print("begin", flush=True)
        sys.stdin.readline()  # the counters of the links are read
    dist.barrier()
    seconds, codecs, cpu, chosen, curve, digests = [], [], [], [], [], []

    for step in range(s["steps"]):
        if s["every"] and step % s["every"] == 0:
            curve.append((step + s["before"], validation(trainer.model, text, HELD_OUT)))
        batch = text.next(s["batch"])
        begin = time.perf_counter()
        trainer.step(batch)
        seconds.append(time.perf_counter() - begin)
        for times, spent in zip((codecs, cpu), trainer.codec_seconds(), strict=True):
            times.append(spent)
        chosen.append(trainer.chosen())
        if s["every"]:  # else ranks are timed, and would wait for one another's digests
            digests.append(digest_of(trainer.model))
    loss = None
    if s["every"]:
        curve.append((s["before"] + s["steps"], validation(trainer.model, text, HELD_OUT)))
        loss = validation(trainer.model, text, HELD_OUT_LAST)
    if dist.get_rank() == 0 and s["signal"]:
        print("end", flush=True)
        sys.stdin.readline()
    return {"seconds": seconds, "codecs": codecs, "cpu": cpu, "curve": curve, "loss": loss,
            "chosen": [each for each in chosen if each],
            "equal": same_everywhere([*digests, digest_of(trainer.model)]),
            "parameters": sum(p.numel() for p in trainer.model.parameters())}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    while True:
        line = [sys.stdin.readline() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(line)
        if not line[0]:
            break
        result = train(json.loads(line[0]))
        if dist.get_rank() == 0:
            print(json.dumps(result), flush=True)
    dist.destroy_process_group()


@torch.no_grad()
def validation(model, text, count):
    """The mean loss of so many rows, of which each rank takes its share: replicas are equal."""
    ranks = dist.get_world_size()
    shares = (x[dist.get_rank() :: ranks].split(64) for x in text.held_out(count))
    losses = [float(loss_of(model, batch)) for batch in zip(*shares, strict=True)]
    total = torch.tensor(statistics.mean(losses), dtype=torch.float64)
    dist.all_reduce(total)
    return float(total) / ranks


if __name__ == "__main__":
    main()
