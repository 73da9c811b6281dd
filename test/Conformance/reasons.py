"""Why a test of the ONNX project may be refused: what dtc doesn't mean to take. docs/Models.md prints the list."""

import itertools

import onnx
from onnx import TensorProto

PLAIN = {getattr(TensorProto, name) for name in (
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64")}
UNSIGNED = {getattr(TensorProto, name) for name in ("UINT8", "UINT16", "UINT32", "UINT64")}
QUANTIZED = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
             "ConvInteger", "MatMulInteger"}
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
DATA_DEPENDENT = {"Compress", "NonMaxSuppression", "NonZero", "Unique"}
IMAGES = {"ImageDecoder"}
LACKING = {"BitCast", "TfIdfVectorizer"}
# Where onnx's own output isn't what the standard says, ONNX Runtime's is taken. With align_corners, a scale of 0.6 and
# 4 elements, onnx divides by 0.6 * 4 - 1; the standard, PyTorch and ONNX Runtime divide by the resized length of 2 - 1.
BY_ONNXRUNTIME = {"test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"}


def nodes_of(graph):
    """The nodes of a graph and of the graphs inside of it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from nodes_of(inner)


def element_types(model: onnx.ModelProto) -> set[int]:
    types = set()
    for value in itertools.chain(model.graph.input, model.graph.output):
        if value.type.HasField("tensor_type"):
            types.add(value.type.tensor_type.elem_type)
    types.update(tensor.data_type for tensor in model.graph.initializer)
    for node in nodes_of(model.graph):
        types.update(attribute.t.data_type for attribute in node.attribute if attribute.HasField("t"))
        if node.op_type == "Cast":
            types.update(attribute.i for attribute in node.attribute if attribute.name == "to")
    return types


def input_types(model: onnx.ModelProto) -> set[int]:
    """Of the first inputs alone, not of sizes and axes."""
    return {model.graph.input[0].type.tensor_type.elem_type}


def has_kind(model: onnx.ModelProto, kind: str) -> bool:
    return any(value.type.HasField(kind) for value in itertools.chain(model.graph.input, model.graph.output))


def is_empty(case) -> bool:
    return any(getattr(array, "size", 1) == 0 for array in itertools.chain(*case.data_sets[0]))


def trains(node: onnx.NodeProto) -> bool:
    training = any(a.name == "training_mode" and a.i for a in node.attribute)
    return training or node.op_type == "Dropout" and len(node.input) > 2


def draws(case) -> bool:
    """Whether the outputs depend on what dropout draws: onnx's then are one draw of many."""
    inputs = [info.name for info in case.model.graph.input]
    for node in nodes_of(case.model.graph):
        if node.op_type == "Dropout" and len(node.input) > 2:
            ratio, training = (case.data_sets[0][0][inputs.index(name)] if name else None for name in node.input[1:3])
            return bool(training) and (ratio is None or ratio > 0)
    return False


def reason_of(case) -> str:
    """The reason that the test's model gives; empty where there is none."""
    model, nodes = case.model, list(nodes_of(case.model.graph))
    names, types = {node.op_type for node in nodes}, element_types(model)
    domains = {node.domain for node in nodes}
    checks = [
        (TensorProto.STRING in types, "strings"),
        (has_kind(model, "optional_type") or any(name.startswith("Optional") for name in names), "optionals"),
        (has_kind(model, "sequence_type"), "sequences at run time"),
        (bool(names & QUANTIZED) or bool(types - PLAIN - UNSIGNED - {0, TensorProto.STRING}), "quantized types"),
        ("ai.onnx.preview.training" in domains or any(map(trains, nodes)), "training operators and modes"),
        ("ai.onnx.preview" in domains, "operators in preview (ai.onnx.preview)"),
        ("ai.onnx.ml" in domains, "classical machine learning (ai.onnx.ml)"),
        (min((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=7) < 7, "opsets before 7"),
        (bool(names & RANDOM), "random numbers"),
        (bool(names & DATA_DEPENDENT), "shapes that depend on data"),
        (bool(names & IMAGES), "encoded images"),
        (is_empty(case), "tensors without elements"),
        (bool(types & UNSIGNED), "unsigned integers at run time"),
        (TensorProto.INT16 in types, "integers of 16 bits at run time"),
        (bool(names & LACKING), "operators that dtc lacks"),
        ("TopK" in names and TensorProto.INT64 in input_types(model), "operators that dtc lacks"),
    ]
    return next((reason for holds, reason in checks if holds), "")
