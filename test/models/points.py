"""A classifier with functions at the points where their derivatives jump: x [batch, 32] -> logits [batch, 10].

What is added to such a point is so small that the sum is the point. So a term is 0 at each step, and its gradient is the
derivative that PyTorch chose.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from sizes import CLASSES, FEATURES

POINTS = (1.0, 1.0, -1.0, -1.0, 2.0, 2.0, -2.0, -2.0, 0.5, -0.5, 1.5, 3.0)
TINY = 1e-8


def zero(h: torch.Tensor) -> torch.Tensor:
    """The points without their sizes: all are 0."""
    return h - h.new_tensor(POINTS)


FUNCTIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda h: h.clamp(-1, 2),
    lambda h: h.clamp(min=-2) + h.clamp_max(1.5) + h.clamp_max(h.new_tensor(3.0)),
    lambda h: torch.clamp(zero(h), 0, 6),
    lambda h: functional.hardtanh(h) + functional.hardtanh(h, -2, 0.5),
    lambda h: functional.elu(zero(h), 0.5) + functional.celu(zero(h), 2.0) + functional.selu(zero(h)),
    lambda h: functional.softplus(h, 2.0, 1.0),
    lambda h: torch.remainder(h, 0.5) + torch.remainder(h, -1.0) + torch.fmod(h, 1.5),
    lambda h: h.max(-1, keepdim=True).values + h.min(-1).values[:, None] * h,
    lambda h: functional.pad(functional.adaptive_max_pool1d(h[:, None], 5)[:, 0], (0, 7)),
    lambda h: functional.adaptive_max_pool2d(h.unflatten(1, (1, 3, 4)), 1).flatten(1) * h,
    lambda h: h[:, :2].std(-1, keepdim=True) + torch.linalg.vector_norm(zero(h), dim=-1, keepdim=True),
    lambda h: torch.xlogy(zero(h), h.abs()) + torch.sinc(zero(h)),
    lambda h: torch.maximum(h, h.new_tensor(2.0)) + h.amax(-1, keepdim=True) + zero(h).abs(),
)


class Points(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, width)
        self.directions = nn.ModuleList(nn.Linear(width, len(POINTS)) for _ in FUNCTIONS)
        self.outer = nn.Linear(len(POINTS), width)
        self.head = nn.Linear(width, CLASSES)
        self.bias = nn.Parameter(torch.tensor(0.0))  # without a dimension that ranks could divide
        self.register_buffer("points", torch.tensor(POINTS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.inner(x))
        for function, direction in zip(FUNCTIONS, self.directions):
            y = torch.tanh(direction(h))
            term = function(self.points + TINY * y) - function(self.points + 0.0 * y)
            h = h + self.outer(functional.layer_norm(y, (len(POINTS),)) + term / TINY)
        return self.head(h) * (1 + self.bias)
