"""Losses that a model computes itself (--loss output:NAME), against NumPy."""

import json

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import call, case, check_call, encode_model

RATE, STEPS, CLASSES = 0.5, 3, 3
WEIGHT = numpy.array([[1, -2, 0.5], [0.5, 1, -1]], numpy.float32)


def value(name: str, element: int, *shape: int) -> str:
    dims = " ".join(f"dim {{ dim_value: {size} }}" for size in shape)
    return f'name: "{name}" type {{ tensor_type {{ elem_type: {element} shape {{ {dims} }} }} }}'


def write(path, node: str, labels: int = 7, rows: int = 4):
    """Scores [4, 3, 5] of x [4, 2, 5] by class, as of an image's pixels."""
    weights = ", ".join(map(str, WEIGHT.T.flatten().tolist()))
    return encode_model(f"""
      ir_version: 10 opset_import {{ version: 20 }}
      graph {{ name: "loss"
        node {{ name: "scores" op_type: "MatMul" input: "w" input: "x" output: "scores" }}
        node {{ name: "log" op_type: "LogSoftmax" input: "scores" output: "log"
                attribute {{ name: "axis" i: 1 type: INT }} }}
        {node}
        input {{ {value("x", 1, 4, 2, 5)} }}
        input {{ {value("labels", labels, rows, 5)} }}
        initializer {{ name: "w" data_type: 1 dims: 3 dims: 2 float_data: [{weights}] }}
        output {{ {value("loss", 1)} }} }}""", path)


def node(op: str, reduction: str, ignore: int | None, shares: list[float] | None = None) -> str:
    constant = f"""node {{ name: "shares" op_type: "Constant" output: "shares" attribute {{ name: "value" type: TENSOR
                 t {{ data_type: 1 dims: 3 float_data: {shares} }} }} }}""" if shares else ""
    given = 'input: "shares"' if shares else ""
    scores = "scores" if op == "SoftmaxCrossEntropyLoss" else "log"
    ignored = f'attribute {{ name: "ignore_index" i: {ignore} type: INT }}' if ignore is not None else ""
    return f"""{constant} node {{ name: "loss" op_type: "{op}" input: "{scores}" input: "labels" {given}
                output: "loss" {ignored}
                attribute {{ name: "reduction" s: "{reduction}" type: STRING }} }}"""


def expected(x, labels, reduction: str, ignore: int | None, shares=None) -> tuple[list[float], numpy.ndarray]:
    """Losses of plain gradient descent, and the weight after it."""
    weight, losses = WEIGHT.T.astype(float), []
    counted = labels != ignore if ignore is not None else numpy.full(labels.shape, True)
    if shares:
        counted = counted * numpy.array(shares)[numpy.where(counted, labels, 0)]
    hot = numpy.eye(CLASSES)[numpy.where(counted, labels, 0)].transpose(0, 2, 1)
    scale = 1 / counted.sum() if reduction == "mean" else 1
    for _ in range(STEPS):
        p = numpy.exp(weight @ x)
        p /= p.sum(1, keepdims=True)
        losses.append(-(numpy.log(p) * hot * counted[:, None]).sum() * scale)
        weight = weight - RATE * scale * numpy.einsum("ncs,nks->ck", (p - hot) * counted[:, None], x)
    return losses, weight


@pytest.mark.parametrize("reduction,ignore,shares,op,devices,plan", [
    case((number + (op[0] == "S") + devices) % 2 == 0, *each, op, devices, plan)
    for number, each in enumerate([("mean", -100, None), ("sum", 1, None), ("mean", None, None), ("mean", 1, [0.5, 2.0, 1.25])])
    for op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss") for devices, plan in ((1, "auto"), (2, "dp=2"))])
def test_losses_of_classes(tmp_path, op, reduction, ignore, shares, devices, plan):
    random = numpy.random.default_rng(0)
    x, labels = random.standard_normal((4, 2, 5)).astype(numpy.float32), random.integers(0, 3, (4, 5))
    if ignore is not None:
        labels[0, :3] = labels[2] = ignore
    model = write(tmp_path / "m.onnx", node(op, reduction, ignore, shares))
    data = tmp_path / "data.safetensors"
    save_file({"x": x, "labels": labels}, data)
    check_call("dtc", "compile", model, "--devices", devices, "--plan", plan, "--loss", "output:loss",
               "--optimizer", "sgd", "--lr", RATE, "--weight-decay", 0, "-o", tmp_path / "m.dtc",
               "--global-batch", 4)
    check_call("dtc-run", tmp_path / "m.dtc", "--data", data, "--steps", STEPS, "--no-shuffle", "--log",
               tmp_path / "log.jsonl", "--save-weights", tmp_path / "w.safetensors")
    losses, weight = expected(x, labels, reduction, ignore, shares)
    log = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert numpy.allclose(log, losses, rtol=1e-6)
    assert numpy.allclose(load_file(tmp_path / "w.safetensors")["w"], weight, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_a_label_that_is_no_class_is_no_loss(tmp_path, op):
    model, data = write(tmp_path / "m.onnx", node(op, "mean", -100), labels=6), tmp_path / "data.safetensors"
    labels = numpy.zeros((4, 5), numpy.int32)
    labels[3, 4] = CLASSES
    save_file({"x": numpy.ones((4, 2, 5), numpy.float32), "labels": labels}, data)
    check_call("dtc", "compile", model, "--loss", "output:loss", "-o", tmp_path / "m.dtc")
    outcome = call("dtc-run", tmp_path / "m.dtc", "--data", data)
    assert outcome.code == 6 and "not finite" in outcome.error_line()


@pytest.mark.parametrize("change,words", [
    (('input: "labels"', 'input: "labels" input: "w"'), "a weight for each class"),
    (('s: "mean"', 's: "middle"'), "middle"),
    (('input: "scores" input: "labels"', 'input: "labels" input: "scores"'), "targets [n, ...]"),
])
def test_what_is_refused(tmp_path, change, words):
    text = node("SoftmaxCrossEntropyLoss", "mean", None)
    assert change[0] in text
    text = text.replace(*change)
    model = write(tmp_path / "m.onnx", text)
    outcome = call("dtc", "compile", model, "--loss", "output:loss", "-o", tmp_path / "m.dtc")
    assert outcome.code == 3 and words in outcome.error_line(), outcome.err


def test_the_batch_is_of_all_inputs(tmp_path):
    model = write(tmp_path / "m.onnx", node("SoftmaxCrossEntropyLoss", "mean", None), rows=3)
    outcome = call("dtc", "compile", model, "--loss", "output:loss", "-o", tmp_path / "m.dtc")
    assert outcome.code == 3 and "x has 4, labels has 3" in outcome.error_line()


def test_the_output_needs_a_name(tmp_path):
    (tmp_path / "m.onnx").touch()
    outcome = call("dtc", "compile", tmp_path / "m.onnx", "--loss", "output:", "-o", tmp_path / "m.dtc")
    assert outcome.code == 2 and "output:NAME" in outcome.error_line()
