"""Dropout of models that are exported in training mode: by NumPy, with Philox written down once more, and by dtc under
many plans."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, check_call, compare_steps, reference
from perceptron import BATCH, HIDDEN, STEPS, Perceptron, compare, log_of, model, samples, train

RATIO = 0.3
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


def mask(seed=0):
    """What multiplies the perceptron's hidden layer in a step."""
    return lambda step: kept(numpy.arange(BATCH) + (step - 1) * BATCH, HIDDEN, RATIO, seed) / (1 - RATIO)


@pytest.mark.parametrize("devices,plan", PLANS)
def test_dropout_draws_the_same_under_every_plan(tmp_path, devices, plan):
    perceptron = Perceptron(mask())
    compare(train(tmp_path, devices=devices, plan=plan, ratio=RATIO), perceptron)
    for name, array in load_file(tmp_path / "weights.safetensors").items():
        assert numpy.allclose(array, perceptron.weights[name], atol=2e-6)


def test_dropout_goes_by_the_seed_and_goes_on_after_a_restart(tmp_path):
    log = train(tmp_path, run_flags=("--seed", 7), ratio=RATIO)
    compare(log, Perceptron(mask(seed=7)))
    again = ("--data", tmp_path / "data.safetensors", "--no-shuffle", "--seed", 7, "--checkpoint-dir", tmp_path / "saved",
             "--log", tmp_path / "again.jsonl")
    check_call("dtc-run", tmp_path / "m.dtc", *again, "--steps", 3)
    check_call("dtc-run", tmp_path / "m.dtc", *again, "--steps", STEPS, "--resume")
    assert [line["loss"] for line in log_of(tmp_path / "again.jsonl")] == [line["loss"] for line in log]


@pytest.mark.parametrize("parts", [[(2, "dp=2,zero=3,micro_batch=2"), (2, "pp=2,micro_batch=2"), (2, "tp=2")],
                                   [(2, "pp=2,micro_batch=1,schedule=zb"), (4, "dp=4,zero=2,micro_batch=1"), (1, "micro_batch=4")]])
def test_shuffled_epochs_go_on_under_other_plans(tmp_path, parts):
    """21 samples in batches of 8: epochs end inside of batches, before and after a restart, and so do the draws."""
    data, flags = samples(), ("--optimizer", "sgd", "--momentum", 0.9, "--lr", 0.1, "--loss", "cross_entropy", "--global-batch", BATCH)
    save_file({name: array[:21] for name, array in data.items()}, tmp_path / "data.safetensors")
    run = ("--data", tmp_path / "data.safetensors", "--seed", 3, "--log", tmp_path / "log")
    losses, stops = [], (3, 5, 8)
    for stage, (devices, plan) in zip((8, *stops), [(1, "dp=1"), *parts]):
        check_call("dtc", "compile", model(tmp_path / "m.onnx", RATIO), "--devices", devices, "--plan", plan, *flags, "-o", tmp_path / "m.dtc")
        saved = ("--checkpoint-dir", tmp_path / "saved", "--resume") if losses else ()
        check_call("dtc-run", tmp_path / "m.dtc", *run, "--steps", stage, *saved)
        losses.append([line["loss"] for line in log_of(tmp_path / "log")])
    assert [len(each) for each in losses] == [8, *stops]
    assert numpy.allclose(losses[-1], losses[0], rtol=2e-6) and len(set(losses[0])) == 8


@pytest.mark.parametrize("devices,plan", [
    (1, "dp=1"), (3, "tp=3"), (4, "dp=2,tp=2,sp=on,recompute=full"), (4, "pp=2,tp=2,micro_batch=4")])
def test_a_transformer_with_dropout(trainer, devices, plan):
    """GPT-2 as it is exported for training, against PyTorch with the same draws: of embeddings, probabilities, and before
    residual sums. For three ranks four heads are padded to six."""
    expected = reference("gpt2_dropout", "sgd")
    assert abs(expected["steps"][0]["loss"] - reference("gpt2", "sgd")["steps"][0]["loss"]) > 0.01  # something is dropped
    run = trainer.train("gpt2_dropout.pt2", "gpt2", *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected)


def test_ranks_with_dropout_are_verified(tmp_path):
    checked = check_call("dtc", "compile", MODELS / "gpt2_dropout.pt2", "--devices", 4, "--plan", "dp=2,tp=2,sp=on", "--loss",
                         "cross_entropy", "--global-batch", 4, "--verify", "--emit", "partition", "-o", tmp_path / "ir.mlir")
    assert "verified" in checked.out + checked.err
