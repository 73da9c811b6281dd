"""Trains Mixtral with experts that have a capacity, and drops the choices that find no slot.

Each sample is a group. An expert takes as many of its rows as it has slots, in the order of tokens and, of one token, of its
choices. It gives zeros for the others, whose weights are not shared out among the rest (as in GShard).
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from pathlib import Path
from collections.abc import Iterator
from unittest import mock

import torch
from safetensors.numpy import load_file
from transformers.models.mixtral import modeling_mixtral

import reference
import zoo
from sizes import SEQUENCE

CAPACITY = 1.0


def write(model: zoo.Model, folder: Path) -> None:
    """Writes MODEL_dropping.adamw.json, with the number of choices that each step drops."""
    recipe = next(recipe for recipe in reference.RECIPES if recipe.name == "adamw")
    data = load_file(folder / f"{model.name}.data.safetensors")
    counts: list[int] = []
    run = reference.train(model, recipe, data, reference.Numerics(), lambda _: dropping(counts))
    for step, count in zip(run.steps, counts, strict=True):
        step["dropped_tokens"] = count
    reference.write(folder / f"{model.name}_dropping.adamw.json", recipe.flags(), run, {"capacity": CAPACITY})


def kept(choices: torch.Tensor, experts: int, slots: int) -> torch.Tensor:
    """Of choices [samples, rows], which find a slot."""
    chosen = torch.nn.functional.one_hot(choices, experts)
    before = ((torch.cumsum(chosen, dim=1) - chosen) * chosen).sum(dim=-1)
    return before < slots


@contextmanager
def dropping(counts: list[int]) -> Iterator[None]:
    """What is called inside drops; the number of choices that are dropped is appended."""
    original = modeling_mixtral.MixtralExperts.forward
    total = 0

    def forward(self, hidden_states, top_k_index, top_k_weights):  # noqa: ANN001, ANN202
        nonlocal total
        rows = SEQUENCE * top_k_index.shape[-1]
        slots = math.ceil(CAPACITY * rows / self.num_experts)
        mask = kept(top_k_index.reshape(-1, rows), self.num_experts, slots).reshape(top_k_index.shape)
        total += int((~mask).sum())
        return original(self, hidden_states, top_k_index, top_k_weights * mask)

    with mock.patch.object(modeling_mixtral.MixtralExperts, "forward", forward):
        yield
    counts.append(total)
