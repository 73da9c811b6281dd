"""What a model may be: a path, the bytes of an ONNX file, a PyTorch module, or a model of Hugging Face."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from . import _dtc
from ._errors import UnsupportedError, UsageError, error_of

Model = str | os.PathLike | bytes

# PyTorch follows one module at a time: threads would trace each other's.
_EXPORTING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class HfOrigin:
    """The folder or config.json of transformers that a model comes from."""

    path: str
    architecture: str | None = None


class ModelSource:
    """A model as a file. A file that was written for it lives as long as this object."""

    def __init__(self, path: str, folder: tempfile.TemporaryDirectory | None = None, from_torch: bool = False,
                 name: str | None = None, origin: HfOrigin | None = None, state_names: frozenset[str] | None = None,
                 state: Mapping[str, Any] | None = None):
        self.path = path
        self.from_torch = from_torch
        self.state_names = state_names  #: of a module's `state_dict`, which has no buffers that it computes
        self.state = dict(state or {})  #: a module's `state_dict`, for what its program doesn't read
        self.origin = origin
        #: As arguments of the command line. The path of a file that was written for it says nothing.
        self.arguments = [path] if name is None else [path, f"--model-name={name}"]
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
    if average := _cumulative_average(torch, model):
        raise UnsupportedError(f"{average} has momentum=None, a cumulative average of its statistics, which isn't supported")
    from . import hf

    folder = tempfile.TemporaryDirectory(prefix="dtc-")
    path = str(pathlib.Path(folder.name) / "model.pt2")
    with _EXPORTING:
        try:
            with hf.experts_as_products(model), hf.own_gradients(torch, model) as own, hf.without_graphs():
                program = torch.export.export(model, inputs, named or None)
            program = hf.functional(torch, program, _dtc.imported_operators().split(","))
            _store_row_by_row(torch, program)
            torch.export.save(program, path, extra_files={**hf.ties_of(model), **own})
        except Exception as error:  # of many kinds, from all that a module can do
            breaks = _graph_breaks(torch, model, inputs, named)
            why = f"it decides by what tensors hold: {'; '.join(breaks)}" if breaks else hf.first_line(error)
            raise UnsupportedError(f"torch.export doesn't take the module: {why}") from error
    state = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    return ModelSource(path, folder, from_torch=True, name=type(model).__name__, state_names=frozenset(state), state=state)


def _cumulative_average(torch: Any, model: Any) -> str:
    """A batch norm that moves its statistics by one over their number, which PyTorch's export can't follow; or ""."""
    kind = torch.nn.modules.batchnorm._BatchNorm
    for name, part in model.named_modules():
        if isinstance(part, kind) and part.training and part.track_running_stats and part.momentum is None:
            return name or type(part).__name__
    return ""


def _store_row_by_row(torch: Any, program: Any) -> None:
    """Stores transposed and repeated weights as files have them."""
    for name, value in program.state_dict.items():
        if not value.is_contiguous():
            copy = value.detach().contiguous()
            trains = isinstance(value, torch.nn.Parameter)
            program.state_dict[name] = torch.nn.Parameter(copy, requires_grad=value.requires_grad) if trains else copy


def _graph_breaks(torch: Any, model: Any, inputs: tuple, named: dict[str, Any]) -> list[str]:
    """All lines where values decide how the module goes on, as PyTorch's draft of a program reports them.

    The report is no stable interface of PyTorch. Where it is another one there are none, and the first error is told.
    """
    try:
        report = torch.export.draft_export(model, inputs, named or None)._report
        # Files have numbers, which PyTorch gives when it first meets them: before the draft, too.
        names = {number: file for file, number in torch._logging.structured.INTERN_TABLE.items()}
        lines = []
        for failure in report.failures:
            frames = [(names[frame["filename"]], frame) for frame in failure.data["user_stack"]]
            file, frame = [each for each in frames if "/torch/" not in each[0]][-1]
            lines.append(f"{os.path.basename(file)}:{frame['line']}: {frame['loc']}")
        return list(dict.fromkeys(lines))
    except Exception:  # of many kinds, from all that a module can do
        return []


def from_hf(path: str | os.PathLike, *, sequence: int | None = None, decoder_sequence: int | None = None,
            inputs: Sequence[str] | None = None, architecture: str | None = None,
            with_weights: bool = False) -> ModelSource:
    """A model of Hugging Face's transformers: a folder as `save_pretrained` writes it, or a config.json.

    Nothing is downloaded. `sequence` is the number of tokens of a sample, which models of text need. `inputs` are the
    names of what the model is called with; by default it is what the model can't do without. `architecture` is the class
    of transformers that is trained, if it isn't the configuration's. A graph is planned without weights; `with_weights`
    reads those of the folder, from safetensors.

    Raises `UnsupportedError` where PyTorch or transformers is missing, `InputError` for what transformers or
    torch.export refuses, `UsageError` where the request can't be meant.
    """
    from . import hf

    folder = tempfile.TemporaryDirectory(prefix="dtc-")
    file = str(pathlib.Path(folder.name) / "model.pt2")
    with _EXPORTING:
        try:
            names = hf.export(path, file, sequence=sequence, decoder_sequence=decoder_sequence, inputs=inputs,
                              architecture=architecture, with_weights=with_weights,
                              operators=_dtc.imported_operators().split(","))
        except hf.HfError as error:
            if error.lacks_package:
                raise UnsupportedError(str(error)) from error
            raise error_of(error.exit_code, str(error)) from error
    return ModelSource(file, folder, from_torch=True, name=os.fspath(path), origin=HfOrigin(os.fspath(path), architecture),
                       state_names=names)


def _is_torch_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def source_of(model: Any, example_inputs: Any, hf: str | os.PathLike | None = None, sequence: int | None = None,
              with_weights: bool = False) -> ModelSource:
    """The file of whatever the user calls a model."""
    if hf is not None:
        if model is not None or example_inputs is not None:
            raise UsageError("hf is the model: neither another one nor example inputs go with it")
        return from_hf(hf, sequence=sequence, with_weights=with_weights)
    if sequence is not None:
        raise UsageError("sequence is for hf; shapes says the sizes of a file's inputs")
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
