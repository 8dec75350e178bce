#!/usr/bin/env python3
"""Make tests/data/adam_late.safetensors: what AdamW keeps of two matrices late in a training.

SPDX-License-Identifier: Apache-2.0

    build-torch/bin/python tools/make_optimizer_data.py [OUT]

Trains the small model of tools/train_torch.py on one rank, on the text in the repository, and
saves the means of gradients (exp_avg) and of their squares (exp_avg_sq) of the embedding of tokens
and of a square matrix. Needs PyTorch (./dev need torch, ./dev train --torch). Other versions of it,
other CPUs and another text give other values of the same kind.
"""
import os
import sys
import tempfile

import torch

import make_test_data
import train_torch
import train_torch_rank

STEPS = 300
MATRICES = ("token.weight", "blocks.2.project.weight")
STATES = ("exp_avg", "exp_avg_sq")


def train():
    settings = {**train_torch.USUAL, **train_torch.SMALL, "way": "none", "ranks_per_node": 1,
                "steps": STEPS}
    trainer = train_torch_rank.Trainer(settings)
    with tempfile.TemporaryDirectory() as folder:
        text = train_torch_rank.Text(train_torch.text_file(folder), settings["context"],
                                     settings["seed"])
    for _ in range(STEPS):
        trainer.step(text.next(4 * settings["batch"]))
    return trainer


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        train_torch.ROOT, "tests", "data", "adam_late.safetensors")
    torch.set_num_threads(1)
    trainer = train()
    parameters = dict(trainer.model.named_parameters())
    rows = []
    for name in MATRICES:
        state = trainer.optimizer.state[parameters[name]]
        rows += [("%s.%s" % (name, key), "F32", list(state[key].shape),
                  state[key].contiguous().numpy().tobytes()) for key in STATES]
    make_test_data.save(out, None, rows)


if __name__ == "__main__":
    main()
