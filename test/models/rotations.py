"""A classifier that turns its features as complex numbers: x [batch, 32] -> logits [batch, 10].

Llama's first code, DeepSeek-V2 and Llama 4 of transformers have rotary embeddings like that. Some turns are stored,
others are computed from angles, and a few are learned.
"""

from __future__ import annotations

import torch
from torch import nn

from sizes import CLASSES, FEATURES

POSITIONS, PAIRS = 4, 6


def turns(base: float) -> torch.Tensor:
    """A complex number of length 1 for each position and each pair of features."""
    angles = torch.outer(torch.arange(POSITIONS).float(), base ** (-torch.arange(PAIRS) / PAIRS))
    return torch.polar(torch.ones_like(angles), angles)


class Rotations(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(FEATURES, POSITIONS * 2 * PAIRS)
        self.key = nn.Linear(FEATURES, POSITIONS * 2 * PAIRS)
        self.angle = nn.Linear(PAIRS, PAIRS)
        self.head = nn.Linear(POSITIONS * 2 * PAIRS + POSITIONS * POSITIONS, CLASSES)
        self.stored = turns(100.0)
        self.register_buffer("scaled", 0.5 * turns(10.0).T.contiguous())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = torch.view_as_complex(self.query(x).unflatten(1, (POSITIONS, PAIRS, 2)))
        key = torch.view_as_complex(self.key(x).unflatten(1, (POSITIONS, PAIRS, 2)))
        query, key = query * self.stored, turns(100.0) * key
        scores = torch.view_as_real((query.unsqueeze(2) * key.conj().unsqueeze(1)).sum(-1))[..., 0]
        learned = torch.polar(torch.sigmoid(key.real), self.angle(key.imag)).transpose(1, 2)
        turned = torch.cat([learned * self.scaled, -query.transpose(1, 2)], 1).to(torch.complex64)
        first, second = (turned * 2.0 - turned / 3).chunk(2, 1)
        mixed = torch.view_as_real(first + torch.complex(second.imag, second.real)).flatten(1)
        return self.head(torch.cat([mixed, scores.flatten(1)], 1))
