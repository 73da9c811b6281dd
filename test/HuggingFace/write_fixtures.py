#!/usr/bin/env python3
"""Writes test/models/hf: small models of transformers as programs, and ten losses of each by PyTorch.

    PYTHONPATH=build/python PYTHON_WITH_TORCH test/HuggingFace/write_fixtures.py

They stand for architectures that test/models has in no other form, and are what CI trains, which has no PyTorch.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile

import numpy
import torch
from architectures import ARCHITECTURES
from training import RATE, batches, looking_trained, pytorch_losses

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
sys.path.insert(0, str(MODELS))

import pt2_export  # noqa: E402

from dtc import hf  # noqa: E402

FIXTURES = ("falcon", "mamba", "whisper")


class WritesParts(torch.nn.Module):
    """Writes at constant indices, which become operators that give new tensors; an empty cache; padding that cuts.

    What is changed last is seen in a view of which PyTorch doesn't say that it is one.
    """

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, 5))

    def forward(self, x):
        x = torch.cat([torch.tensor([]), x])
        y = torch.zeros_like(x)
        y[:, 1:4] = x[:, :3] * self.scale
        y[:, -1, 3:] = x[:, 0, :2]
        y[..., 2] = x.square().sum(-1)
        y[:, 0] = 3
        seen, _ = torch.broadcast_tensors(y[..., 1:], x[..., :1])
        y[:, 2] = 4
        return torch.nn.functional.pad(seen, (1, -2, -1, 2), value=0.5)


def write_parts(folder: pathlib.Path) -> None:
    """A program that writes into parts, and what it gives."""
    module = WritesParts().eval()
    x = torch.from_numpy(numpy.random.default_rng(5).standard_normal((4, 6, 5), dtype=numpy.float32))
    with torch.no_grad():
        numpy.savez_compressed(folder / "parts.npz", x=x.numpy(), y=module(x).numpy())
    program = hf.functional(torch, torch.export.export(module, (x,)))
    with tempfile.TemporaryDirectory() as temporary:
        torch.export.save(program, f"{temporary}/parts.pt2")
        pt2_export.rewrite(pathlib.Path(temporary) / "parts.pt2", folder / "parts.pt2")


def main() -> None:
    """Writes all of them."""
    folder = MODELS / "hf"
    folder.mkdir(exist_ok=True)
    write_parts(folder)
    for name in FIXTURES:
        architecture = ARCHITECTURES[name]
        model, data = looking_trained(architecture), batches(architecture)
        with tempfile.TemporaryDirectory() as temporary:
            saved = pathlib.Path(temporary) / "model"
            model.save_pretrained(saved)
            program = pathlib.Path(temporary) / "model.pt2"
            hf.export(saved, program, sequence=16, with_weights=True)
            pt2_export.rewrite(program, folder / f"{name}.pt2")
        joined = {key: numpy.concatenate([batch[key] for batch in data]) for key in data[0]}
        numpy.savez_compressed(folder / f"{name}.npz", **joined)
        losses = pytorch_losses(model, data)
        (folder / f"{name}.json").write_text(json.dumps({"lr": RATE, "losses": losses}) + "\n")


if __name__ == "__main__":
    main()
