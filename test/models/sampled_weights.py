"""Trained weights in few bytes: of each tensor its norm, and up to 64 elements at fixed positions.

MODEL.RECIPE.sampled.safetensors has them of PyTorch's run, under the parameters' names. Needs only NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import draw

ELEMENTS = 64
_NORM = "norm of "


def positions(size: int) -> np.ndarray:
    """Which elements of a tensor are recorded: all of a small one, else drawn ones, the first and the last among them.
    Drawn ones are in rows and columns alike, so that each part of a divided tensor has some."""
    if size <= ELEMENTS:
        return np.arange(size)
    drawn = (draw.uniform(f"sampled {size}", ELEMENTS) * size).astype(np.int64)
    drawn[0], drawn[-1] = 0, size - 1
    return drawn


def record(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What is written of trained weights."""
    result = {}
    for name, value in weights.items():
        result[name] = np.ascontiguousarray(value.reshape(-1)[positions(value.size)], np.float32)
        result[_NORM + name] = np.array([np.linalg.norm(value.astype(np.float64))], np.float32)
    return result


def parameters(recorded: Mapping[str, np.ndarray]) -> list[str]:
    """The parameters of a record."""
    return [name for name in recorded if not name.startswith(_NORM)]


def distance(recorded: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], name: str) -> float:
    """The largest difference of the parameter's recorded elements, and of its norm relative to itself."""
    if recorded[name].shape != other[name].shape:
        return float("inf")
    elements = np.abs(recorded[name] - other[name]).max(initial=0)
    norm, theirs = float(recorded[_NORM + name][0]), float(other[_NORM + name][0])
    return max(float(elements), abs(norm - theirs) / (norm or 1))
