#!/usr/bin/env python3
"""Makes the files in this folder: small real exports, their data, and PyTorch's training trajectories.

    export.py                   writes all of them beside this script
    export.py --output DIR      ... into DIR
    export.py --only MODEL,...  writes the files of these models alone
    export.py --programs        writes the .pt2 files alone, of all models or of those of --only
    export.py --sampled         writes the .sampled.safetensors files alone, likewise, where the losses are those that are here
    export.py --check           writes them to a temporary folder and compares them with those here; with --only, a part
    export.py --weights DIR     writes DIR/resnet18.safetensors, the initial weights that are too large to be here
                                (draw.py does the same without PyTorch)

README.md says what the files are and with which versions they were made.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

import compare
import draw
import dropout
import dropping
import norms
import onnx_export
import pt2_export
import reference
import sampled_weights
import samples
import zoo

HERE = Path(__file__).resolve().parent
_STATE_DICT = ("gpt2",)  # models whose weights are also here as Hugging Face saves them
_FINAL = ("gpt2", "llama", "mlp", "resnet_tiny")  # models whose weights after AdamW are here
_SAMPLED = ("clip", "sgd_clip")  # recipes after which some of each weight is here
_NORMS = {"resnet_tiny": "resnet_norms"}  # models that are also trained with batch norm in training mode
_DROPOUT = ("gpt2",)  # models that are also trained with dropout
_DROPPING = ("mixtral",)  # models whose experts also drop what finds no slot
_DRAWN = ("resnet18",)  # models whose weights are described, not stored


def write_all(folder: Path, names: list[str]) -> None:
    """Writes every file of the README's table to the folder, or those of the models that are named."""
    samples.write_text(folder)
    samples.write_class_weights(folder)
    for name in names:
        write_model(name, folder)


def write_model(name: str, folder: Path) -> None:
    """Writes the files of one model to the folder, where text.bin is already."""
    model = zoo.MODELS[name]
    for export in zoo.EXPORTS:
        if export.model == name:
            _progress(f"{export.name}.onnx")
            onnx_export.write(export, folder)
    write_programs(name, folder)
    if name in _STATE_DICT:
        _write_state_dict(name, folder)
    if name in _DRAWN:
        draw.save_distributions(folder / f"{name}.weights.json", zoo.distributions(model.build()))
    save_file(samples.arrays(model, folder), folder / f"{name}.data.safetensors")
    _write_trajectories(model, folder)
    if name in _DROPOUT:
        _progress(f"{name}_dropout")
        dropout.write(model, folder)
    if name in _DROPPING:
        _progress(f"{name}_dropping")
        dropping.write(model, folder)
    if name in _NORMS:
        _progress(_NORMS[name])
        norms.write(model, _NORMS[name], folder)


def write_programs(name: str, folder: Path) -> None:
    """Writes the .pt2 files of one model to the folder."""
    for program in zoo.PROGRAMS:
        if program.model == name:
            _progress(f"{program.name}.pt2")
            pt2_export.write(program, folder)


def _write_state_dict(name: str, folder: Path) -> None:
    """Writes the initial weights under Hugging Face's names, a tied one once and without non-persistent buffers."""
    module = zoo.MODELS[name].instantiate().m
    save_file({key: value.detach().numpy() for key, value in module.named_parameters()}, folder / f"{name}.safetensors")


def _write_trajectories(model: zoo.Model, folder: Path) -> None:
    """Writes MODEL.RECIPE.json for each recipe, and of some the weights after it, with the .onnx file's names."""
    data = load_file(folder / f"{model.name}.data.safetensors")
    for recipe in reference.RECIPES:
        if model.name not in recipe.models:
            continue
        stem = f"{model.name}.{recipe.name}"
        _progress(stem)
        run = reference.train(model, recipe, data, reference.numerics_of(recipe))
        extra = {}
        if reference.numerics_of(recipe) == reference.Numerics():
            extra["rounding"] = reference.rounding(model, recipe, data, run)
            extra["rounding"]["nudged"] = reference.nudged(model, recipe, data, run)
        flags = recipe.flags() + (["--padding-idx", model.padding] if model.padding else [])
        reference.write(folder / f"{stem}.json", flags, run, extra)
        if recipe.name == "adamw" and model.name in _FINAL:
            final = {name: np.ascontiguousarray(value.numpy()) for name, value in run.final.items()}
            save_file(final, folder / f"{stem}.final.safetensors")
        if recipe.name in _SAMPLED:
            _save_sampled(run, folder / f"{stem}.sampled.safetensors")


def _save_sampled(run: reference.Trajectory, path: Path) -> None:
    save_file(sampled_weights.record({name: value.numpy() for name, value in run.final.items()}), path)


def write_sampled(name: str, folder: Path) -> None:
    """Trains a model again and writes its .sampled.safetensors. The run must be the one whose losses are in the folder."""
    model, data = zoo.MODELS[name], load_file(folder / f"{name}.data.safetensors")
    for recipe in reference.RECIPES:
        if name not in recipe.models or recipe.name not in _SAMPLED:
            continue
        stem = f"{name}.{recipe.name}"
        _progress(f"{stem}.sampled")
        run = reference.train(model, recipe, data, reference.numerics_of(recipe))
        problems = compare.differing_steps(json.loads((folder / f"{stem}.json").read_text())["steps"], run.steps)
        if problems:
            raise RuntimeError(f"{stem}: {problems[0]}")
        _save_sampled(run, folder / f"{stem}.sampled.safetensors")


def _progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE, metavar="DIR")
    parser.add_argument("--only", type=lambda names: names.split(","), metavar="MODEL,...")
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--weights", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # the exporters' own: deprecations, and "training mode" about the wrapper
    if arguments.weights:
        for name in _DRAWN:
            entries = zoo.distributions(zoo.MODELS[name].build())
            tensors = {key: draw.draw(key, entry) for key, entry in entries.items()}
            draw.save_safetensors(arguments.weights / f"{name}.safetensors", tensors)
        return 0
    names = arguments.only or list(zoo.MODELS)
    unknown = [name for name in names if name not in zoo.MODELS]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}")
    if arguments.check:
        with tempfile.TemporaryDirectory() as folder:
            write_all(Path(folder), names)
            return compare.report(HERE, Path(folder), whole=not arguments.only)
    arguments.output.mkdir(parents=True, exist_ok=True)
    if not (arguments.only or arguments.programs or arguments.sampled):
        write_all(arguments.output, names)
        return 0
    for name in names:
        if arguments.programs:
            write_programs(name, arguments.output)
        elif arguments.sampled:
            write_sampled(name, arguments.output)
        else:
            write_model(name, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
