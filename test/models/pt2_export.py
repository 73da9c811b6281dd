"""Writes the .pt2 files as a user would: torch.export.export of the module, torch.export.save of the program."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

import zoo

# Pickled example inputs, a random identity, and what nobody reads.
_DROPPED_MEMBERS = ("data/sample_inputs/", ".data/")
# nn_module_stack and torch_fn are half of each file.
_KEPT_METADATA = frozenset({"stack_trace"})


def write(export: zoo.Program, folder: Path) -> Path:
    """Exports one model to FOLDER/NAME.pt2 and returns that path."""
    model = zoo.MODELS[export.model]
    module = model.instantiate()
    module = _with_named_inputs(zoo.dropping(module) if export.training else module, model.inputs)
    examples = zoo.example_inputs(model, export.batch or 8)
    dynamic = None
    if export.batch is None:
        batch = torch.export.Dim("batch", min=1)
        dynamic = tuple({0: batch} for _ in model.inputs)
    if export.weights == "fake":
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            module = _with_named_inputs(model.build().eval(), model.inputs)
            examples = tuple(mode.from_tensor(example) for example in examples)
    program = torch.export.export(module, examples, dynamic_shapes=dynamic)
    path = folder / f"{export.name}.pt2"
    with tempfile.TemporaryDirectory() as temporary:
        saved = Path(temporary) / f"{export.name}.pt2"
        torch.export.save(program, saved)
        rewrite(saved, path)
    return path


def _with_named_inputs(module: nn.Module, names: tuple[str, ...]) -> nn.Module:
    """The module with a forward of named arguments: a program's inputs are called as these."""
    listed = ", ".join(names)
    forward = eval(f"lambda self, {listed}: forward(self, {listed})", {"forward": type(module).forward})  # noqa: S307
    module.__class__ = type(type(module).__name__, (type(module),), {"forward": forward})
    return module


def rewrite(saved: Path, path: Path) -> None:
    """The archive without what differs from run to run and from machine to machine; its members are stored as before."""
    with zipfile.ZipFile(saved) as before, zipfile.ZipFile(path, "w") as after:
        for info in before.infolist():
            member = info.filename.split("/", 1)[1]
            if member.startswith(_DROPPED_MEMBERS):
                continue
            data = before.read(info)
            if member.startswith("models/"):
                data = _trim(data)
            after.writestr(zipfile.ZipInfo(info.filename), data)


def _trim(text: bytes) -> bytes:
    """The program with one frame of each stack trace, the innermost that isn't PyTorch's, and no folders in it."""
    program = json.loads(text)

    def trim(graph: dict) -> None:
        for node in graph["nodes"]:
            metadata = {key: node["metadata"][key] for key in _KEPT_METADATA if key in node["metadata"]}
            if "stack_trace" in metadata:
                metadata["stack_trace"] = _innermost(metadata["stack_trace"])
            node["metadata"] = metadata
            for argument in node["inputs"]:
                if "as_graph" in argument["arg"]:
                    trim(argument["arg"]["as_graph"]["graph"])

    trim(program["graph_module"]["graph"])
    program["guards_code"] = []
    return json.dumps(program, separators=(",", ":")).encode()


def _innermost(trace: str) -> str:
    frames = [line.strip() for line in trace.splitlines() if line.strip().startswith('File "')]
    own = [frame for frame in frames if "-packages/torch/" not in frame] or frames
    if not own:
        return ""
    place, rest = own[-1].removeprefix('File "').split('"', 1)
    return f'File "{Path(place).name}"{rest}'
