"""Writes the .onnx files with PyTorch's exporter as a user would: optimize=False, weights inside the file or absent."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch

import zoo

# The stack trace has the exporting machine's paths and is half of each file; the namespace repeats name_scopes and
# class_hierarchy.
_DROPPED_METADATA = frozenset({"pkg.torch.onnx.stack_trace", "namespace"})


def write(export: zoo.Export, folder: Path) -> Path:
    """Exports one model to FOLDER/NAME.onnx and returns that path."""
    model = zoo.MODELS[export.model]
    module = model.instantiate() if export.build is None else zoo.Model("", export.build, (), 0).instantiate()
    path = folder / f"{export.name}.onnx"
    dynamic = None
    if export.batch is None:
        batch = torch.export.Dim("batch", min=1)
        dynamic = tuple({0: batch} for _ in model.inputs)
    torch.onnx.export(
        module,
        zoo.example_inputs(model, export.batch or 8),
        path,
        input_names=list(model.inputs),
        output_names=["logits"],
        opset_version=export.opset,
        dynamic_shapes=dynamic,
        dynamo=True,
        optimize=False,
        external_data=False,
        export_params=export.weights == "inside",
        keep_initializers_as_inputs=export.weights == "inputs",
        verbose=False,
    )
    _drop_metadata(path)
    return path


def _drop_metadata(path: Path) -> None:
    """Removes what names files of this machine from the node metadata; everything else stays as exported."""
    proto = onnx.load(path)
    for node in proto.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key not in _DROPPED_METADATA]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(proto, path)
