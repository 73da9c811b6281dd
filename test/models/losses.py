"""A classifier by what PyTorch's losses say of its features: x [batch, 32] -> logits [batch, 10].

Each is asked for every sample. Some are also asked, as a mean or a sum, for rows that are parameters. `met` is 0 and has
a gradient: with it bounds are met exactly, where derivatives jump.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as f

from sizes import CLASSES, FEATURES

WIDTH, PIXELS, ROWS = 6, 3, 5


class Rows:
    """What losses are asked about: numbers with gradients, and known ones."""

    def __init__(self, y: torch.Tensor, z: torch.Tensor, known: torch.Tensor, weights: torch.Tensor) -> None:
        self.y, self.z, self.known, self.weights = y, z, known, weights
        self.met = y - y.detach()
        self.nothing = 0 * known
        self.target = torch.where(known > 0, y.detach(), known)
        self.truths = (known > 0).to(known.dtype)
        self.counts, self.signs = (3 * known).abs().round(), known.sign()
        self.sparse = f.normalize(f.relu(known), p=1.0)
        self.label, self.sign = known.argmax(-1), known[:, 0].sign()


LOSSES: tuple[Callable[[Rows, str], torch.Tensor], ...] = (
    lambda r, by: f.l1_loss(r.y, r.target, reduction=by),
    lambda r, by: f.smooth_l1_loss(r.y, r.target, reduction=by, beta=0.4),
    lambda r, by: f.smooth_l1_loss(r.met + 0.4, r.nothing, reduction=by, beta=0.4),
    lambda r, by: f.huber_loss(r.y, r.target, reduction=by, delta=0.6),
    lambda r, by: f.huber_loss(r.met + 0.6, r.nothing, reduction=by, delta=0.6),
    lambda r, by: f.mse_loss(r.y, r.z, reduction=by),
    lambda r, by: f.poisson_nll_loss(r.y, r.counts, reduction=by, full=True),
    lambda r, by: f.poisson_nll_loss(r.y.exp(), r.counts, log_input=False, reduction=by),
    lambda r, by: f.hinge_embedding_loss(r.y, r.signs, reduction=by),
    lambda r, by: f.hinge_embedding_loss(r.met + 1, r.signs, reduction=by),
    lambda r, by: f.soft_margin_loss(r.y, r.signs, reduction=by),
    lambda r, by: f.binary_cross_entropy(r.y.sigmoid(), r.z.sigmoid(), r.weights, reduction=by),
    lambda r, by: f.binary_cross_entropy(r.met + r.truths, r.truths, reduction=by),
    lambda r, by: f.binary_cross_entropy_with_logits(r.y, r.truths, r.weights, reduction=by, pos_weight=2 * r.weights),
    lambda r, by: f.binary_cross_entropy_with_logits(8 * r.y, r.z.sigmoid(), reduction=by),
    lambda r, by: f.kl_div(r.y.log_softmax(-1), r.sparse, reduction=by),
    lambda r, by: f.kl_div(r.y.log_softmax(-1), r.z.log_softmax(-1), reduction=by, log_target=True),
    lambda r, by: f.cross_entropy(r.y, r.z.softmax(-1), r.weights, label_smoothing=0.1, reduction=by),
    lambda r, by: f.cross_entropy(r.y, r.sparse, reduction=by),
    lambda r, by: f.cross_entropy(r.y, r.label, r.weights, ignore_index=1, reduction=by, label_smoothing=0.2),
    lambda r, by: f.cross_entropy(
        r.y.unflatten(1, (2, PIXELS)), (r.known[:, :PIXELS] > 0).long(), ignore_index=0, reduction=by, label_smoothing=0.1),
    lambda r, by: f.nll_loss(r.z.log_softmax(-1), r.label, r.weights, ignore_index=2, reduction=by),
    lambda r, by: f.multilabel_soft_margin_loss(r.y, r.truths, r.weights, reduction=by),
    lambda r, by: f.multi_margin_loss(r.y, r.label, p=2, margin=0.7, weight=r.weights, reduction=by),
    lambda r, by: f.multi_margin_loss(r.met + r.known.round(), r.label, reduction=by),
    lambda r, by: f.margin_ranking_loss(r.y[:, 0], r.y[:, 1], r.sign, margin=0.3, reduction=by),
    lambda r, by: f.margin_ranking_loss(r.met[:, 0], 0 * r.sign, r.sign, reduction=by),
    lambda r, by: f.cosine_embedding_loss(r.y, r.z, r.sign, margin=0.1, reduction=by),
    lambda r, by: f.cosine_similarity(r.y, r.z) - f.cosine_similarity(r.y, r.z, eps=3.0) + f.cosine_similarity(r.met, r.z, eps=0.5),
    lambda r, by: f.pairwise_distance(r.y, r.known, p=1.0),
    lambda r, by: f.triplet_margin_loss(r.y, r.z, r.known, reduction=by),
    lambda r, by: f.triplet_margin_loss(r.y, r.y, r.known, margin=9.0, swap=True, reduction=by),
    lambda r, by: f.triplet_margin_with_distance_loss(r.y, r.known, r.z, margin=0.5, reduction=by),
)  # fmt: skip
REDUCED = LOSSES[:2] + LOSSES[17:22]  # others reduce as the first two


class Losses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, 2 * WIDTH)
        self.rows = nn.Parameter(torch.empty(ROWS, 2 * WIDTH))
        self.head = nn.Linear(len(LOSSES) + len(REDUCED) + WIDTH, CLASSES)
        self.register_buffer("weights", torch.linspace(0.5, 2.0, WIDTH))
        self.register_buffer("known", torch.linspace(-4.0, 9.0, ROWS * WIDTH).sin().reshape(ROWS, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, z = self.inner(x).chunk(2, -1)
        samples = Rows(y, z, x[:, :WIDTH], self.weights)
        rows = Rows(*self.rows.chunk(2, -1), self.known, self.weights)
        said = [loss(samples, "none").reshape(x.shape[0], -1).mean(1) for loss in LOSSES]
        said += [loss(rows, ("mean", "sum")[i % 2]).mean().expand(x.shape[0]) for i, loss in enumerate(REDUCED)]
        whole = y[:, :1] * 2
        first, second = torch.broadcast_tensors(whole, z)
        whole.mul_(0.25)  # `first` sees it
        return self.head(torch.cat((torch.stack(said, 1), first * second), 1))
