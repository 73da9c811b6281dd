"""A classifier of small images with what windows, upsampling and gates need: x [batch, 32] -> logits [batch, 10].

A sample is an image of 4 x 4 positions with two channels. Windows are shifted as Swin's, images are turned, and channels become
positions and go back.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from sizes import CLASSES, FEATURES

SIDE = 4


class Windows(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patches = nn.Linear(FEATURES // SIDE**2, width)
        self.gate = nn.Linear(width, 2 * width)
        self.slopes = nn.PReLU(width)
        self.mix = nn.Parameter(torch.linspace(0.1, 0.9, width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.patches(x.unflatten(1, (SIDE, SIDE, -1)))
        shifted = torch.roll(h, shifts=(-1, -1), dims=(1, 2)).flip([1])
        h = h + functional.glu(self.gate(torch.roll(shifted, 3, 1)), dim=-1)
        h = torch.lerp(h, functional.normalize(h, dim=-1), self.mix)
        image = functional.pixel_shuffle(self.slopes(h.permute(0, 3, 1, 2)), 2)
        image = functional.pixel_unshuffle(functional.selu(image) + functional.elu(image), 2)
        h = self.norm(torch.addcmul(h, image.permute(0, 2, 3, 1), torch.tan(0.1 * h), value=0.5))
        size = torch.log1p(h.abs()) + torch.expm1(0.1 * h) + torch.atan(h) + torch.sinh(0.1 * h) + torch.log2(1 + h.square())
        h = torch.addcdiv(size, h, torch.cosh(0.1 * h), value=0.1) + functional.logsigmoid(h)
        weights = torch.linalg.vector_norm(h, ord=1, dim=(1, 2)) + torch.logsumexp(h, dim=(1, 2))
        return self.head(0.05 * weights + torch.roll(h, 5).mean((1, 2)))
