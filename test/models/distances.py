"""A classifier of short sequences by distances, bags of rows and bilinear forms: x [batch, 32] -> logits [batch, 10].

A sample is four points with eight numbers, and 32 indices that are counted from the signs of its numbers.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from sizes import CLASSES, FEATURES

POINTS, MANY = 4, 30


class Distances(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        numbers = FEATURES // POINTS
        self.few = nn.Parameter(torch.empty(5, numbers))
        self.many = nn.Parameter(torch.empty(MANY, numbers))  # from 26 on PyTorch multiplies
        self.bag = nn.EmbeddingBag(FEATURES + 1, width, mode="mean")
        self.padded = nn.EmbeddingBag(FEATURES + 1, width, mode="mean", padding_idx=-30)
        self.weighted = nn.EmbeddingBag(FEATURES + 1, width, mode="sum")
        self.form = nn.Bilinear(width, width, width)
        self.plain = nn.Bilinear(width, numbers, width, bias=False)
        self.head = nn.Linear(5 + MANY + 3 * POINTS + 2 * width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        points = x.reshape(x.shape[0], POINTS, -1)
        to_few = torch.cdist(points, self.few).sum(1)
        to_many = torch.cdist(points, self.many).mean(1)
        # Of points to themselves, where the distance is 0.
        own = torch.cdist(points, points).sum(1) + 0.1 * torch.cdist(points, points, p=1.0).sum(1)
        sizes = torch.cdist(points, self.many, p=1.0).amin(2)
        exact = torch.cdist(points, self.many, compute_mode="donot_use_mm_for_euclid_dist").sum(2)
        counted = (x > 0).long().cumsum(1)
        sums = self.weighted(counted, per_sample_weights=torch.sigmoid(x))
        joined = self.form(self.bag(counted), self.padded(counted)) + functional.relu(sums)
        forms = self.plain(joined.unsqueeze(1).expand(-1, POINTS, -1), points).sum(1)
        return self.head(torch.cat((to_few, to_many, own, sizes, exact, joined, forms), 1))
