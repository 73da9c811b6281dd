"""A small perceptron by NumPy and by dtc, for what layers and losses do in training."""

import dataclasses
import json
from collections.abc import Callable

import numpy
import pytest
from safetensors.numpy import save_file

from conftest import check_call, encode_model

BATCH, STEPS, IGNORED = 8, 6, -100
INPUTS, HIDDEN, CLASSES, RATE = 6, 8, 4, 0.3


def tensors(seed=1):
    draw = numpy.random.default_rng(seed)
    return {"w1.weight": draw.normal(0, 0.6, (INPUTS, HIDDEN)).astype("f4"),
            "w2.weight": draw.normal(0, 0.6, (HIDDEN, CLASSES)).astype("f4")}


def samples():
    draw = numpy.random.default_rng(2)
    target = draw.integers(0, CLASSES, 24)
    target[[3, 4, 17]] = IGNORED
    return {"x": draw.normal(size=(24, INPUTS)).astype("f4"), "target": target}


def model(path, ratio=0.0):
    def initializer(name, array):
        values = " ".join(f"float_data: {value}" for value in array.flatten())
        dims = " ".join(f"dims: {size}" for size in array.shape)
        return f'initializer {{ name: "{name}" data_type: 1 {dims} {values} }}'

    def value(name, *sizes):
        dims = " ".join(f"dim {{ dim_value: {size} }}" for size in sizes)
        return f'{{ name: "{name}" type {{ tensor_type {{ elem_type: 1 shape {{ {dims} }} }} }} }}'

    weights = " ".join(initializer(name, array) for name, array in tensors().items())
    return encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "perceptron"
        input {value("x", BATCH, INPUTS)} output {value("logits", BATCH, CLASSES)} {weights}
        initializer {{ name: "ratio" data_type: 1 float_data: {ratio} }}
        initializer {{ name: "training" data_type: 9 int32_data: 1 }}
        node {{ op_type: "MatMul" input: "x" input: "w1.weight" output: "h" }}
        node {{ op_type: "Dropout" name: "drop" input: "h" input: "ratio" input: "training" output: "d" }}
        node {{ op_type: "Tanh" input: "d" output: "a" }}
        node {{ op_type: "MatMul" input: "a" input: "w2.weight" output: "logits" }} }}""", path)


@dataclasses.dataclass
class Perceptron:
    """SGD on the mean over the global batch. The mask of a step multiplies the hidden layer."""

    mask: Callable[[int], numpy.ndarray | float] = lambda step: 1.0
    smoothing: float = 0.0
    class_weights: numpy.ndarray = dataclasses.field(default_factory=lambda: numpy.ones(CLASSES))
    adapter: dict | None = None  # A, B, and the factor of what they add to w1

    def __post_init__(self):
        self.weights = {name: array.astype("f8") for name, array in tensors().items()}

    def loss(self, logits, target):
        """The mean, and its gradient by the logits."""
        w, e, valid = self.class_weights, self.smoothing, target != IGNORED
        hot = numpy.eye(CLASSES)[numpy.where(valid, target, 0)]
        wanted = ((1 - e) * hot + e / CLASSES) * w * valid[:, None] / (hot @ w)[valid].sum()
        log_p = logits - numpy.log(numpy.exp(logits).sum(1, keepdims=True))
        return -(wanted * log_p).sum(), wanted.sum(1, keepdims=True) * numpy.exp(log_p) - wanted

    def step(self, number, data):
        chosen = (numpy.arange(BATCH) + (number - 1) * BATCH) % len(data["target"])
        x, (w1, w2), mask = data["x"][chosen].astype("f8"), self.weights.values(), self.mask(number)
        if self.adapter:
            w1 = w1 + self.adapter["factor"] * (self.adapter["B"] @ self.adapter["A"]).T
        a = numpy.tanh(x @ w1 * mask)
        loss, by_logits = self.loss(a @ w2, data["target"][chosen])
        gradients = {"w1.weight": x.T @ ((1 - a * a) * (by_logits @ w2.T) * mask), "w2.weight": a.T @ by_logits}
        trained = self.weights
        if self.adapter:
            trained, by_sum = self.adapter, gradients["w1.weight"].T * self.adapter["factor"]
            gradients = {"A": trained["B"].T @ by_sum, "B": by_sum @ trained["A"].T}
        for name, gradient in gradients.items():
            trained[name] = trained[name] - RATE * gradient
        return loss, numpy.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))


def log_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def train(folder, flags=(), run_flags=(), devices=1, plan="dp=1", ratio=0.0, rate=RATE):
    save_file(samples(), folder / "data.safetensors")
    check_call("dtc", "compile", model(folder / "model.onnx", ratio), "--devices", devices, "--plan", plan, "--loss",
               "cross_entropy", "--global-batch", BATCH, "--optimizer", "sgd", "--lr", rate, *flags, "-o", folder / "m.dtc")
    check_call("dtc-run", folder / "m.dtc", "--data", folder / "data.safetensors", "--no-shuffle", "--steps", STEPS, "--log",
               folder / "log.jsonl", "--save-weights", folder / "weights.safetensors", *run_flags)
    return log_of(folder / "log.jsonl")


def compare(log, perceptron, bound=2e-6):
    data = samples()
    for line in log:
        loss, norm = perceptron.step(line["step"], data)
        assert line["loss"] == pytest.approx(loss, rel=bound), line
        assert line["grad_norm"] == pytest.approx(norm, rel=10 * bound), line
    assert len(log) == STEPS
