"""A scripted module with what TorchScript has beside operators: lists, dictionaries, loops, conditions, changes in place."""

from __future__ import annotations

from typing import Dict, List, Optional  # noqa: UP035 (TorchScript reads these)

import torch
from torch import Tensor, nn

from sizes import CLASSES

WIDTH = 16


class Block(nn.Module):
    """A residual layer that works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.drop = nn.Dropout(0.1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(self.act(self.linear(self.norm(x))))


class Scripted(nn.Module):
    """x [batch, 16] -> logits [batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.w = nn.Parameter(torch.zeros(WIDTH, WIDTH))
        self.register_buffer("scale", torch.full((WIDTH,), 0.5))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, gain: float = 1.5, mask: Optional[Tensor] = None) -> Tensor:  # noqa: UP045
        outs: List[Tensor] = []  # noqa: UP006
        y = x
        for block in self.blocks:
            y = block(y)
            outs.append(y)
        total = torch.zeros_like(y)
        for i in range(len(outs)):
            if i % 2 == 0:
                total += outs[i]
            else:
                total -= outs[i] * gain
        total[:, 2:5] = 0.25
        total[:, 0].add_(1.0)
        total[..., -1] *= 2.0
        z = torch.einsum("bi,ij->bj", total, self.w) * self.scale
        if mask is not None:
            z = z * mask
        named: Dict[str, Tensor] = {"z": z}  # noqa: UP006
        chosen = torch.topk(named["z"], 2, dim=1)[1]
        z = z * (1.0 + nn.functional.one_hot(chosen, z.size(1)).sum(1))
        n = 0
        while n < 3:
            z = z + 0.1 * n
            n += 1
        z[z > 4.0] = 4.0
        backwards = torch.arange(z.size(1) - 1, -1, -1)
        return self.head(z[:, backwards])
