"""What a model may be: a path, the bytes of an ONNX file, or a PyTorch module."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from ._errors import UnsupportedError, UsageError

Model = str | os.PathLike | bytes


class ModelSource:
    """A model as a file. A file that was written for it lives as long as this object."""

    def __init__(self, path: str, folder: tempfile.TemporaryDirectory | None = None, from_torch: bool = False):
        self.path = path
        self.from_torch = from_torch
        self._folder = folder


def from_torch(model: Any, example_inputs: Any) -> ModelSource:
    """A PyTorch module as a model, through `torch.export`.

    `example_inputs` are what the module is called with: a tensor, a tuple of tensors, or a mapping of names to them.
    Parameters keep the names of `state_dict`, and train; buffers don't. Weights may be fake (`FakeTensorMode`) where a
    model is only planned.

    Raises `UnsupportedError` where PyTorch is missing or can't export the module, `UsageError` for what is no module.
    """
    try:
        import torch
    except ImportError:
        raise UnsupportedError("PyTorch modules need PyTorch: pip install torch") from None
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"from_torch takes a torch.nn.Module, got {type(model).__name__}")
    if example_inputs is None:
        raise UsageError("a PyTorch module needs example_inputs, what it is called with")
    named = dict(example_inputs) if isinstance(example_inputs, Mapping) else {}
    inputs = () if named else example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    folder = tempfile.TemporaryDirectory(prefix="dtc-")
    path = str(pathlib.Path(folder.name) / "model.pt2")
    try:
        torch.export.save(torch.export.export(model, inputs, named or None), path)
    except Exception as error:  # of many kinds, from all that a module can do
        raise UnsupportedError(f"torch.export doesn't take the module: {error}") from error
    return ModelSource(path, folder, from_torch=True)


def _is_torch_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def source_of(model: Any, example_inputs: Any) -> ModelSource:
    """The file of whatever the user calls a model."""
    if isinstance(model, ModelSource):
        return model
    if isinstance(model, (str, os.PathLike)):
        return ModelSource(os.fspath(model))
    if isinstance(model, (bytes, bytearray, memoryview)):
        folder = tempfile.TemporaryDirectory(prefix="dtc-")
        path = pathlib.Path(folder.name) / "model.onnx"
        path.write_bytes(model)
        return ModelSource(str(path), folder)
    if _is_torch_module(model):
        return from_torch(model, example_inputs)
    raise UsageError(f"a model is a path, the bytes of an ONNX file or a torch.nn.Module, got {type(model).__name__}")


def shapes_of(example_inputs: Any) -> dict[str, tuple[int, ...]]:
    """Of example inputs by name, the shapes that a file with symbolic dimensions is read with."""
    if example_inputs is None:
        return {}
    if not isinstance(example_inputs, Mapping):
        raise UsageError("example inputs of a file are a mapping: the names of its inputs to arrays")
    return {name: tuple(int(size) for size in array.shape) for name, array in example_inputs.items()}
