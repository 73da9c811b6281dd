"""A classifier that writes into parts of its tensors, as programs have it before decompositions: x [batch, 32] -> logits [batch, 10].

Each write is seen under another name: the whole after a part, a part after the whole, two parts that overlap.
"""

from __future__ import annotations

import torch
from torch import nn

from sizes import CLASSES, FEATURES


class Parts(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.second = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y[:, -1] = 0
        y[:, 2:5] += x[:, 2:5]
        y[:, 1::5] -= x[:, :3]
        squares = y.view(-1, 4, 4)
        squares[:, 1].mul_(0.5)
        across = y.t()
        across[3] = across[4] * 2
        middle = squares.permute(2, 0, 1)[1:3]
        y.mul_(1.5)  # middle, squares and across are other numbers from here on
        z = torch.sin(self.second(y))
        z.narrow(1, 0, 8).add_(middle.sum(0).repeat(1, 2))
        rows = z.unsqueeze(0)
        rows[0, :, 6:10] -= across.transpose(0, 1)[:, :4]
        steps = torch.zeros_like(z)
        for i in range(4):
            steps[:, 4 * i : 4 * i + 4] = z[:, i : i + 4] + steps[:, 4 * i - 4 : 4 * i] if i else squares[:, 0]
        return self.head(self.norm(z + steps))
