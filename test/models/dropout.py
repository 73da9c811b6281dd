"""Trains with dropout whose draws are dtc's, which are a function of the sample, the layer and the element.

PyTorch's own numbers depend on the device and on what was drawn before. Here torch's dropout is replaced by one that keeps
what Philox 4x32-10 says: its key is the sample's, its counter the element's index in the sample, the number of the
dropout in order of the calls, and the stream 3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from safetensors.numpy import load_file
from torch.nn import functional

import reference
import zoo

_STREAM = 3
_LOW = np.uint64(0xFFFFFFFF)


def write(model: zoo.Model, folder: Path) -> None:
    """Writes MODEL_dropout.sgd.json."""
    recipe = next(recipe for recipe in reference.RECIPES if recipe.name == "sgd")
    data = load_file(folder / f"{model.name}.data.safetensors")
    run = reference.train(model, recipe, data, reference.Numerics(), draws, evaluates=True)
    reference.write(folder / f"{model.name}_dropout.sgd.json", recipe.flags(), run, {})


@contextlib.contextmanager
def draws(step: int) -> Iterator[None]:
    """What is called inside draws for the samples of this step."""
    count = 0

    def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:  # noqa: A002
        nonlocal count
        if not training or p == 0:
            return input
        samples = np.arange(len(input)) + (step - 1) * reference.GLOBAL_BATCH
        mask = _kept(samples, input[0].numel(), p, count).reshape(input.shape)
        count += 1
        return torch.where(torch.from_numpy(mask), input / (1 - p), 0)

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_):  # noqa: ANN001, ANN003, ANN202
        scores = query @ key.transpose(-2, -1) * (scale or query.shape[-1] ** -0.5)
        if is_causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~seen, float("-inf"))
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
        return dropout(scores.softmax(-1), dropout_p) @ value

    with mock.patch.object(functional, "dropout", dropout), mock.patch.object(
            functional, "scaled_dot_product_attention", attention):
        yield


def _kept(samples: np.ndarray, elements: int, ratio: float, number: int) -> np.ndarray:
    words = _philox(np.uint64(0), samples, 0, 0)
    keys = words[0] | words[1] << np.uint64(32)
    return _philox(keys[:, None], np.arange(elements)[None, :], 0, number)[0] >= round(ratio * 2**32)


def _philox(seed: np.ndarray, *counter: object) -> list[np.ndarray]:
    keys = [np.asarray(seed, np.uint64) & _LOW, np.asarray(seed, np.uint64) >> np.uint64(32)]
    x = [np.asarray(word, np.uint64) for word in (*counter, _STREAM)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * x[0], np.uint64(0xCD9E8D57) * x[2]
        x = [b >> np.uint64(32) ^ x[1] ^ keys[0], b & _LOW, a >> np.uint64(32) ^ x[3] ^ keys[1], a & _LOW]
        keys = [keys[0] + np.uint64(0x9E3779B9) & _LOW, keys[1] + np.uint64(0xBB67AE85) & _LOW]
    return x
