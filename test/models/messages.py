"""A classifier of small graphs that writes at positions in every way that PyTorch has: x [batch, 32] -> logits [batch, 10].

A sample has 8 nodes of 4 features. Edges are the same for all samples; the nodes that are written to at computed positions
are a sample's best ones.
"""

from __future__ import annotations

import torch
from torch import nn

from sizes import CLASSES, FEATURES

NODES = 8
EDGES = ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 0), (5, 3), (6, 7), (7, 5), (7, 6), (2, 0), (4, 3))


class Messages(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.nodes = nn.Linear(FEATURES // NODES, width)
        self.message = nn.Linear(width, width)
        self.score = nn.Linear(width, 1)
        self.fresh = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)
        self.register_buffer("edges", torch.tensor(EDGES).T.contiguous())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.nodes(x.unflatten(1, (NODES, -1))))
        # Known positions: sums, means and maxima over each node's edges.
        sent = self.message(h.index_select(1, self.edges[0]))
        h = h.index_add(1, self.edges[1], sent, alpha=0.5)
        to = self.edges[1][None, :, None].expand_as(sent)
        h = h + torch.zeros_like(h).scatter_reduce(1, to, torch.sin(sent), "mean", include_self=False)
        # Computed ones: each sample's best nodes.
        scores, best = self.score(h)[..., 0].topk(3, dim=1)
        rows = best[..., None].expand(-1, -1, h.shape[2])
        picked = h.gather(1, rows) * torch.sigmoid(scores)[..., None]
        h = h.scatter(1, rows, torch.tanh(self.fresh(picked)))
        following = ((best[:, :2] + 1) % NODES)[..., None].expand(-1, -1, h.shape[2])
        h = h + torch.zeros_like(h).scatter_add(1, following, picked[:, :2])
        h = h.scatter_reduce(1, rows, torch.cos(picked), "amax")
        samples = torch.arange(h.shape[0])[:, None]
        h = h.index_put((samples, best[:, 1:]), 0.1 * picked[:, 1:], accumulate=True)
        last = h.clone()
        last.index_copy_(1, self.edges[1, :2], picked[:, 1:])
        last.index_fill_(1, self.edges[1, 3:4], 0.5)
        last[last > 1] = 1.0
        first = h.new_zeros(h.shape[0], NODES).scatter_(1, best[:, :1], 1.0)
        return self.head(self.norm((h + last).mean(1) + (first[..., None] * h).sum(1)))
