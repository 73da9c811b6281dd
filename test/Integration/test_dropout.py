"""Dropout of models that are exported in training mode: by NumPy, with Philox written down once more, and by dtc under
many plans."""

import json

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, check_call, compare_steps, encode_model, reference

BATCH, STEPS, IGNORED = 8, 6, -100
INPUTS, HIDDEN, CLASSES, RATIO, RATE = 6, 8, 4, 0.3, 0.3
PLANS = [(1, "dp=1"), (1, "micro_batch=2"), (2, "dp=2"), (2, "tp=2"), (4, "dp=2,tp=2"), (2, "pp=2,micro_batch=2"),
         (2, "dp=2,zero=3,micro_batch=2")]


def philox(seed, counter):
    """The first two words of Philox 4x32-10; all arrays are of uint64."""
    low = numpy.uint64(0xFFFFFFFF)
    key = [numpy.asarray(seed, numpy.uint64) & low, numpy.asarray(seed, numpy.uint64) >> numpy.uint64(32)]
    x = [numpy.asarray(word, numpy.uint64) for word in counter]
    for _ in range(10):
        a, b = numpy.uint64(0xD2511F53) * x[0], numpy.uint64(0xCD9E8D57) * x[2]
        x = [b >> numpy.uint64(32) ^ x[1] ^ key[0], b & low, a >> numpy.uint64(32) ^ x[3] ^ key[1], a & low]
        key = [key[0] + numpy.uint64(0x9E3779B9) & low, key[1] + numpy.uint64(0xBB67AE85) & low]
    return x[0], x[1]


def kept(samples, elements, ratio, seed=0, number=0):
    """What a dropout keeps of each element of each sample, which are counted from the start of training."""
    words = philox(seed, (samples, 0, 0, 3))
    keys = words[0] | words[1] << numpy.uint64(32)
    drawn, _ = philox(keys[:, None], (numpy.arange(elements)[None, :], 0, number, 3))
    return drawn >= round(ratio * 2**32)


def test_philox_is_philox():
    """A known answer of Random123."""
    assert [hex(int(word)) for word in philox(0, (0, 0, 0, 0))] == ["0x6627e8d5", "0xe169c58d"]


def tensors(seed=1):
    draw = numpy.random.default_rng(seed)
    return {"w1.weight": draw.normal(0, 0.6, (INPUTS, HIDDEN)).astype("f4"),
            "w2.weight": draw.normal(0, 0.6, (HIDDEN, CLASSES)).astype("f4")}


def samples():
    draw = numpy.random.default_rng(2)
    target = draw.integers(0, CLASSES, 24)
    target[[3, 4, 17]] = IGNORED
    return {"x": draw.normal(size=(24, INPUTS)).astype("f4"), "target": target}


def model(path):
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
        initializer {{ name: "ratio" data_type: 1 float_data: {RATIO} }}
        initializer {{ name: "training" data_type: 9 int32_data: 1 }}
        node {{ op_type: "MatMul" input: "x" input: "w1.weight" output: "h" }}
        node {{ op_type: "Dropout" name: "drop" input: "h" input: "ratio" input: "training" output: "d" }}
        node {{ op_type: "Tanh" input: "d" output: "a" }}
        node {{ op_type: "MatMul" input: "a" input: "w2.weight" output: "logits" }} }}""", path)


class Perceptron:
    """The same in NumPy: SGD on the mean over the global batch."""

    def __init__(self, seed=0):
        self.seed = seed
        self.weights = {name: array.astype("f8") for name, array in tensors().items()}

    def step(self, number, data):
        chosen = (numpy.arange(BATCH) + (number - 1) * BATCH) % len(data["target"])
        x, target, (w1, w2) = data["x"][chosen].astype("f8"), data["target"][chosen], self.weights.values()
        mask = kept(numpy.arange(BATCH) + (number - 1) * BATCH, HIDDEN, RATIO, self.seed) / (1 - RATIO)
        a = numpy.tanh(x @ w1 * mask)
        logits = a @ w2
        log_p = logits - numpy.log(numpy.exp(logits).sum(1, keepdims=True))
        valid = (target != IGNORED)[:, None] / (target != IGNORED).sum()
        hot = numpy.eye(CLASSES)[numpy.where(target == IGNORED, 0, target)]
        by_logits = (numpy.exp(log_p) - hot) * valid
        gradients = {"w1.weight": x.T @ ((1 - a * a) * (by_logits @ w2.T) * mask), "w2.weight": a.T @ by_logits}
        for name, gradient in gradients.items():
            self.weights[name] = self.weights[name] - RATE * gradient
        return -(hot * log_p * valid).sum(), numpy.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))


def train(folder, *run_flags, devices=1, plan="dp=1"):
    save_file(samples(), folder / "data.safetensors")
    check_call("dtc", "compile", model(folder / "model.onnx"), "--devices", devices, "--plan", plan, "--loss",
               "cross_entropy", "--global-batch", BATCH, "--optimizer", "sgd", "--lr", RATE, "-o", folder / "m.dtc")
    check_call("dtc-run", folder / "m.dtc", "--data", folder / "data.safetensors", "--no-shuffle", "--steps", STEPS, "--log",
               folder / "log.jsonl", "--save-weights", folder / "weights.safetensors", *run_flags)
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def compare(log, perceptron, bound=2e-6):
    data = samples()
    for line in log:
        loss, norm = perceptron.step(line["step"], data)
        assert line["loss"] == pytest.approx(loss, rel=bound), line
        assert line["grad_norm"] == pytest.approx(norm, rel=10 * bound), line
    assert len(log) == STEPS


@pytest.mark.parametrize("devices,plan", PLANS)
def test_dropout_draws_the_same_under_every_plan(tmp_path, devices, plan):
    perceptron = Perceptron()
    compare(train(tmp_path, devices=devices, plan=plan), perceptron)
    for name, array in load_file(tmp_path / "weights.safetensors").items():
        assert numpy.allclose(array, perceptron.weights[name], atol=2e-6)


def test_dropout_goes_by_the_seed_and_goes_on_after_a_restart(tmp_path):
    log = train(tmp_path, "--seed", 7)
    compare(log, Perceptron(seed=7))
    again = ("--data", tmp_path / "data.safetensors", "--no-shuffle", "--seed", 7, "--checkpoint-dir", tmp_path / "saved",
             "--log", tmp_path / "again.jsonl")
    check_call("dtc-run", tmp_path / "m.dtc", *again, "--steps", 3)
    check_call("dtc-run", tmp_path / "m.dtc", *again, "--steps", STEPS, "--resume")
    resumed = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in resumed] == [line["loss"] for line in log]


@pytest.mark.parametrize("devices,plan", [(1, "dp=1"), (4, "dp=2,tp=2,sp=on,recompute=full"), (4, "pp=2,tp=2,micro_batch=4")])
def test_a_transformer_with_dropout(trainer, devices, plan):
    """GPT-2 as it is exported for training, against PyTorch with the same draws: of embeddings, probabilities, and before
    residual sums."""
    expected = reference("gpt2_dropout", "sgd")
    assert abs(expected["steps"][0]["loss"] - reference("gpt2", "sgd")["steps"][0]["loss"]) > 0.01  # something is dropped
    run = trainer.train("gpt2_dropout.pt2", "gpt2", *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected)


def test_ranks_with_dropout_are_verified(tmp_path):
    checked = check_call("dtc", "compile", MODELS / "gpt2_dropout.pt2", "--devices", 4, "--plan", "dp=2,tp=2,sp=on", "--loss",
                         "cross_entropy", "--global-batch", 4, "--verify", "--emit", "partition", "-o", tmp_path / "ir.mlir")
    assert "verified" in checked.out + checked.err
