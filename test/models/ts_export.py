"""Writes TorchScript files (.pt) of the test models: traced ones as a user would, and the scripted one.

    python3 ts_export.py FOLDER [MODEL ...]             # each model's .pt; the scripted one's inputs and outputs
    python3 ts_export.py FOLDER --record READER [...]   # also what dtc-torchscript writes of each, for tests without it
"""

from __future__ import annotations

import argparse
import subprocess
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file

import scripted
import zoo
from draw import Distribution, draw
from pt2_export import _with_named_inputs

SCRIPTED = "scripted"
TRACED = [program.model for program in zoo.PROGRAMS if program.name == program.model]
# Paths of the machine that traced, and example inputs that nobody reads.
_DROPPED = (".debug_pkl", "traced_inputs.pkl", "/.data/serialization_id")


def trace(name: str, path: Path) -> None:
    """torch.jit.trace of one of the zoo's models."""
    model = zoo.MODELS[name]
    module = _with_named_inputs(model.instantiate(), model.inputs)
    traced = torch.jit.trace(module, zoo.example_inputs(model, 8), check_trace=False)
    traced.save(str(path))


def script(path: Path) -> None:
    """torch.jit.script of the module of scripted.py, and what it gives for some inputs."""
    module = scripted.Scripted().eval()
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            tensor.copy_(torch.from_numpy(draw(name, Distribution(tuple(tensor.shape), 0.0, 0.3))))
        x = torch.from_numpy(draw("x", Distribution((8, scripted.WIDTH), 0.0, 1.0)))
        outputs = module(x)
    torch.jit.script(module).save(str(path))
    save_file({"x": x, "outputs": outputs}, path.with_suffix(".outputs.safetensors"))


def _rewrite(path: Path) -> None:
    """The archive without what differs from machine to machine; its members are stored as before."""
    with zipfile.ZipFile(path) as before:
        members = {info.filename: before.read(info) for info in before.infolist()}
    with zipfile.ZipFile(path, "w") as after:
        for name, data in members.items():
            if not name.endswith(_DROPPED) and "/traced_inputs/" not in name:
                after.writestr(zipfile.ZipInfo(name), data)


def shapes(name: str) -> list[str]:
    """--shape of each input."""
    if name == SCRIPTED:
        return [f"x=8x{scripted.WIDTH}"]
    model = zoo.MODELS[name]
    types = {torch.int64: "xi64", torch.float32: ""}
    return [f"{each}={'x'.join(map(str, example.shape))}{types[example.dtype]}"
            for each, example in zip(model.inputs, zoo.example_inputs(model, 8), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--record", type=Path, help="dtc-torchscript")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in asked.models or [*TRACED, SCRIPTED]:
        path = asked.folder / f"{name}.pt"
        script(path) if name == SCRIPTED else trace(name, path)
        _rewrite(path)
        (asked.folder / f"{name}.pt.shapes").write_text("\n".join(shapes(name)) + "\n")
        if asked.record:
            written = subprocess.run([asked.record, path, *shapes(name)], check=True, capture_output=True)
            (asked.folder / f"{name}.pt.recorded").write_bytes(written.stdout)


if __name__ == "__main__":
    main()
