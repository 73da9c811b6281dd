"""Trains with batch norm in training mode: each microbatch is normalized by its own statistics, and moves the running ones."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from safetensors.numpy import load_file
from safetensors.torch import save_file

import reference
import zoo

RUNS = {"sgd": 1, "micro": 2}  # microbatches
# With few samples a rate as high as other models' makes rounding alone change what is learnt.
RECIPE = reference.Recipe("sgd", {"optimizer": "sgd", "lr": 1e-3, "momentum": 0.9, "weight-decay": 0.0}, ())


def write(model: zoo.Model, name: str, folder: Path) -> None:
    """Writes NAME.sgd.json and NAME.micro.json, and the running statistics in the end as NAME.RUN.statistics.safetensors."""
    data = load_file(folder / f"{model.name}.data.safetensors")
    for run, count in RUNS.items():
        result = reference.train(model, RECIPE, data, reference.Numerics(micro_batches=count), lambda _: nullcontext(),
                                 evaluates=True)
        reference.write(folder / f"{name}.{run}.json", RECIPE.flags(), result, {})
        save_file(result.buffers, folder / f"{name}.{run}.statistics.safetensors")
