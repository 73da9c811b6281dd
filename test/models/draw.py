#!/usr/bin/env python3
"""Draws model weights that are the same bits on every machine.

The test models are built from a configuration, not downloaded, so their weights have to come from somewhere that does
not depend on a library's random numbers. Element `i` of the tensor NAME is a uniform number with the wanted mean and
standard deviation, hashed from (NAME, i) by SplitMix64: integer arithmetic and one exact conversion to float32.

As a program (needs only NumPy) it writes the weights that are too large to be in the repository:

    draw.py resnet18.weights.json OUT.safetensors
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Distribution:
    """Uniform with this mean and standard deviation, for a tensor of this shape."""

    shape: tuple[int, ...]
    mean: float
    sd: float


def _splitmix64(counter: np.ndarray) -> np.ndarray:
    """The SplitMix64 output function on an array of uint64 states (arithmetic modulo 2^64)."""
    z = counter
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(name: str, count: int) -> np.ndarray:
    """`count` float64 numbers in [0, 1) of 24 random bits each, the same for the same name."""
    seed = np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], dtype="<u8")
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + seed
    return (_splitmix64(state) >> np.uint64(40)).astype(np.float64) / 2.0**24


def draw(name: str, distribution: Distribution) -> np.ndarray:
    """The float32 tensor `name`: the same values for the same name and distribution, whatever else is drawn."""
    half_width = math.sqrt(3.0) * distribution.sd
    unit = uniform(name, math.prod(distribution.shape))
    values = distribution.mean + (2.0 * unit - 1.0) * half_width
    return values.astype(np.float32).reshape(distribution.shape)


def save_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes float32 tensors in the safetensors format, sorted by name, without needing the safetensors package."""
    header: dict[str, object] = {}
    offset = 0
    for name in sorted(tensors):
        size = tensors[name].size * 4
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(np.ascontiguousarray(tensors[name], dtype="<f4").tobytes())


def save_distributions(path: Path, distributions: Mapping[str, Distribution]) -> None:
    """Writes what `load_distributions` reads: {name: {"shape": [...], "mean": F, "sd": F}}."""
    lines = (f"  {json.dumps(name)}: {json.dumps(asdict(entry))}" for name, entry in distributions.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def load_distributions(path: Path) -> dict[str, Distribution]:
    """Reads a file written by `save_distributions`."""
    entries = json.loads(path.read_text())
    return {name: Distribution(tuple(entry["shape"]), entry["mean"], entry["sd"]) for name, entry in entries.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("distributions", type=Path, help="NAME.weights.json")
    parser.add_argument("output", type=Path, help="the safetensors file to write")
    arguments = parser.parse_args()
    distributions = load_distributions(arguments.distributions)
    save_safetensors(arguments.output, {name: draw(name, entry) for name, entry in distributions.items()})


if __name__ == "__main__":
    main()
