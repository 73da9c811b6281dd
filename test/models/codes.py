"""A classifier whose features become the nearest of some codes, with a gradient as if they hadn't: x [batch, 32] -> logits [batch, 10].

As a VQ-VAE has it: gradients pass the codes and not the choice. Around it are a norm that is looked at without
gradients, a spectral norm of a weight, features in order, and padding by features of their own.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from sizes import CLASSES, FEATURES


class Codes(nn.Module):
    def __init__(self, width: int = 8, codes: int = 12) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, 4 * width)
        self.codes = nn.Embedding(codes, width)
        self.across = nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular")
        self.mirrored = nn.Conv1d(4, 4, 3, padding=2, padding_mode="reflect")
        self.outer = nn.Conv1d(8, 4, 3, padding=1, padding_mode="replicate")
        self.head = nn.Linear(4 * (width + 2), CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        points = self.inner(x).unflatten(1, (4, -1))
        codes = self.codes.weight
        distances = points.square().sum(-1, keepdim=True) - 2 * points @ codes.T + codes.square().sum(-1)
        nearest = self.codes(distances.argmin(-1))
        with torch.no_grad():
            size = points.norm(dim=-1, keepdim=True)
        chosen = points + (nearest - points).detach() + 0.25 * (nearest - points.detach())
        ordered, order = torch.sort(chosen / (1 + size), dim=-1, descending=True)
        ordered = ordered + 0.1 * chosen.gather(-1, torch.argsort(chosen, dim=-1)) + 0.01 * order
        both = torch.cat([functional.pad(self.across(ordered), (1, 1), "circular"), self.mirrored(chosen)], 1)
        weight = self.head.weight
        left, right = functional.normalize(weight.detach().sum(1), dim=0), functional.normalize(weight.detach().sum(0), dim=0)
        largest = torch.vdot(left, torch.mv(weight, right))
        return functional.linear(self.outer(both).flatten(1), weight / (1 + largest.square()), self.head.bias)
