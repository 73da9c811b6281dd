"""Models whose file has another precision than they are trained in."""

import json

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import ROOT, check_call, encode_model

WEIGHT = numpy.array([[1, -2, 3], [0.5, 4, -1]])
TYPES = {  # number in ONNX, field of an initializer, numpy's type
    "f16": (10, "int32_data", numpy.float16),
    "f64": (11, "double_data", numpy.float64),
}


def losses_in_numpy(x, target, rate: float, steps: int) -> tuple[list[float], numpy.ndarray]:
    """Cross entropy of (x + x) w under plain gradient descent."""
    weight, losses = WEIGHT.copy(), []
    rows = numpy.arange(len(x))
    for _ in range(steps):
        logits = 2 * x @ weight
        p = numpy.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(-numpy.log(p[rows, target]).mean())
        p[rows, target] -= 1
        weight -= rate * (2 * x).T @ p / len(x)
    return losses, weight


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("precision,bound", [("fp32", 1e-6), ("bf16", 3e-2)])
def test_the_files_precision_is_replaced(tmp_path, name, precision, bound):
    """Trained in f32, or bf16 with f32 masters; saved as the file has it."""
    number, field, dtype = TYPES[name]
    values = WEIGHT.astype(numpy.float16).view(numpy.uint16) if name == "f16" else WEIGHT
    data = f"{field}: [{', '.join(str(value) for value in values.flatten().tolist())}]"
    text = (ROOT / "test/Import/Inputs/element_type.txtpb").read_text()
    model = encode_model(text.replace("TYPE", str(number)).replace("DATA", data), tmp_path / "m.onnx")
    generator = numpy.random.default_rng(0)
    x, target = generator.integers(-4, 5, (4, 2)) / 4, numpy.array([0, 2, 1, 1])
    save_file({"x": x.astype(dtype), "target": target}, tmp_path / "data.safetensors")
    check_call("dtc", "compile", model, "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", 0.1,
               "--weight-decay", 0, "--global-batch", 4, "--precision", precision, "-o",
               tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--steps", 5,
               "--no-shuffle", "--log", tmp_path / "log.jsonl", "--save-weights",
               tmp_path / "w.safetensors")
    losses, weight = losses_in_numpy(x, target, 0.1, 5)
    log = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert numpy.allclose(log, losses, rtol=bound)
    saved = load_file(tmp_path / "w.safetensors")["w"]
    assert saved.dtype == dtype
    assert numpy.allclose(saved, weight, rtol=0, atol=max(bound, 2e-3 if name == "f16" else 1e-6))
