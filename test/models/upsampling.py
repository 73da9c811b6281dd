"""A classifier of small images with what networks that make images are made of: x [batch, 32] -> logits [batch, 10].

A sample is an image of 4 x 4 positions with two channels. It is enlarged and made smaller in each way that PyTorch has.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from sizes import CLASSES, FEATURES

SIDE = 4


class Upsampling(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(FEATURES // SIDE**2, width, 3, padding="same", dilation=2)
        self.norm = nn.InstanceNorm2d(width, affine=True)
        self.up = nn.ConvTranspose2d(width, width, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.wider = nn.ConvTranspose1d(width, width, 2, dilation=2, bias=False)
        self.blocks = nn.Linear(4 * width, width)
        self.head = nn.Linear(3 * width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = functional.celu(self.norm(self.first(x.unflatten(1, (-1, SIDE, SIDE)))), 0.7)
        large = self.up(image)
        for mode, corners in (("nearest", None), ("nearest-exact", None), ("bilinear", False), ("bilinear", True),
                              ("bicubic", False), ("bicubic", True)):
            large = large + functional.interpolate(image, scale_factor=2, mode=mode, align_corners=corners)
            large = large + 0.5 * functional.interpolate(image, size=(8, 8), mode=mode, align_corners=corners)
        uneven = functional.interpolate(large, scale_factor=(0.8, 1.3), mode="bilinear")
        smooth = functional.interpolate(large, size=(3, 11), mode="bilinear", antialias=True)
        smooth = smooth + functional.interpolate(large, size=(3, 11), mode="bicubic", antialias=True)
        nearest = functional.interpolate(large, size=(5, 3), mode="nearest")
        large = functional.softshrink(large, 0.1) + functional.hardshrink(large, 0.2) + functional.threshold(large, 0.3, -0.1)
        large = large + functional.rrelu(large) + 0.5 * functional.softplus(large, beta=2.0)
        parts = functional.adaptive_avg_pool2d(large, (3, 5)).sum((2, 3)) + functional.adaptive_max_pool2d(large, (3, 5)).mean((2, 3))
        parts = parts + functional.adaptive_avg_pool2d(image, (6, 2)).mean((2, 3)) + functional.adaptive_max_pool2d(image, 2).sum((2, 3))
        line = self.wider(functional.interpolate(large.flatten(2), size=31, mode="linear"))
        line = functional.adaptive_avg_pool1d(line, 3).sum(2) + functional.adaptive_max_pool1d(line, 1).squeeze(2)
        blocks = self.blocks(functional.unfold(image, 2, stride=2, padding=1, dilation=1).swapaxes(1, 2)).mean(1)
        tiles = functional.fold(torch.sin(functional.unfold(image, 3, stride=2, padding=1)), (SIDE, SIDE), 3, stride=2, padding=1)
        blocks = blocks + (tiles * image).mean((2, 3))
        both = uneven.mean((2, 3)) + smooth.sum((2, 3)) * 0.1 + nearest.mean((2, 3))
        return self.head(torch.concatenate((parts, torch.multiply(line, 0.1) + both, blocks), 1))
