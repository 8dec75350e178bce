"""Codecs inside PyTorch's training: communication hooks, sharded training, operators.

SPDX-License-Identifier: Apache-2.0

:mod:`~pith.torch.ddp` for DistributedDataParallel (:mod:`~pith.torch.device` where its model is on
one), :mod:`~pith.torch.fsdp` for ``fully_shard``,
:mod:`~pith.torch.optim` for an optimizer whose states are sharded, :mod:`~pith.torch.megatron` for
Megatron's buckets. Importing this registers the operators ``torch.ops.pith``. doc/PYTORCH.md has a
page with a program for each.
"""

from . import ddp, device, fsdp, megatron, ops, optim

__all__ = ["ddp", "device", "fsdp", "megatron", "ops", "optim"]
