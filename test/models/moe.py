"""A language model with mixture-of-experts layers as GShard has them (Lepikhin et al. 2020, "GShard: Scaling Giant Models
with Conditional Computation and Automatic Sharding", algorithm 1; no random second expert, no auxiliary loss).
"""

from __future__ import annotations

import torch
from torch import nn

from sizes import POSITIONS, VOCABULARY


class GShardLayer(nn.Module):
    """Sends each token to its two best experts as long as those have room.

    Each sample is a group: an expert takes at most `capacity` of its tokens, first choices before second ones, earlier
    tokens before later ones; a choice that finds no room is dropped. Dispatch and combination are dense einsums with
    one-hot positions: x [batch, sequence, width] -> [batch, sequence, width].
    """

    def __init__(self, width: int, hidden: int, experts: int, capacity: int) -> None:
        super().__init__()
        self.experts = experts
        self.capacity = capacity
        self.gate = nn.Linear(width, experts, bias=False)
        self.wi = nn.Parameter(torch.empty(experts, width, hidden))
        self.wo = nn.Parameter(torch.empty(experts, hidden, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, _ = x.shape
        weights, choices = torch.topk(torch.softmax(self.gate(x), dim=-1), k=2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        chosen = nn.functional.one_hot(choices, self.experts)  # batch, sequence, choice, expert
        in_order = chosen.transpose(1, 2).reshape(batch, 2 * sequence, self.experts)
        before = torch.cumsum(in_order, dim=1) - in_order  # how many the expert has already
        before = before.reshape(batch, 2, sequence, self.experts).transpose(1, 2)
        position = (before * chosen).sum(dim=-1)  # batch, sequence, choice
        weights = weights * (position < self.capacity)
        slot = nn.functional.one_hot(position.clamp(max=self.capacity - 1), self.capacity)
        combine = torch.einsum("bsk,bske,bskc->bsec", weights, chosen.to(x.dtype), slot.to(x.dtype))
        dispatch = (combine > 0).to(x.dtype)
        inputs = torch.einsum("bsec,bsm->ebcm", dispatch, x)
        hidden = nn.functional.gelu(torch.einsum("ebcm,emh->ebch", inputs, self.wi))
        outputs = torch.einsum("ebch,ehm->ebcm", hidden, self.wo)
        return torch.einsum("bsec,ebcm->bsm", combine, outputs)


class Block(nn.Module):
    """Causal attention and a mixture of experts, each behind a layer norm and added to the residual stream."""

    def __init__(self, width: int, heads: int, **experts: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.moe = GShardLayer(width, **experts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attention = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        return x + self.moe(self.norm2(x))


class MixtureOfExperts(nn.Module):
    """input_ids [batch, sequence] -> logits: 2 layers, width 32, 4 heads, 4 experts of hidden width 64 with room for 12
    of the 64 choices of a sample of 32 tokens."""

    def __init__(self) -> None:
        super().__init__()
        width = 32
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(POSITIONS, width)
        sizes = {"hidden": 64, "experts": 4, "capacity": 12}
        self.blocks = nn.ModuleList(Block(width, heads=4, **sizes) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(input_ids) + self.positions.weight[: input_ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
