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
from architectures import ARCHITECTURES
from training import RATE, batches, looking_trained, pytorch_losses

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
sys.path.insert(0, str(MODELS))

import pt2_export  # noqa: E402

from dtc import hf  # noqa: E402

FIXTURES = ("falcon", "mamba", "whisper")


def main() -> None:
    """Writes all of them."""
    folder = MODELS / "hf"
    folder.mkdir(exist_ok=True)
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
