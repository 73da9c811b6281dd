"""Evaluation between steps: the loss is that of the weights, and training doesn't notice."""

import json
import pathlib
import signal
import subprocess
import time

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, call, check_call

FLAGS = ["--global-batch", 8, "--optimizer", "adamw", "--lr", 1e-2]
PLANS = {
    "one": (1, "auto"),
    "accumulation": (1, "micro_batch=2"),
    "dp2": (2, "dp=2,micro_batch=2"),
    "dp2tp2": (4, "dp=2,tp=2"),
    "cp2": (2, "cp=2"),
    "zero1": (2, "dp=2,zero=1"),
    "zero3": (2, "dp=2,zero=3,micro_batch=2"),
    "recomputed": (2, "pp=2,dp=1,schedule=interleaved,chunks=2,micro_batch=1,recompute=full"),
    "zero_bubble": (4, "pp=4,dp=1,schedule=zb,micro_batch=1"),
    "pp2dp2": (4, "pp=2,dp=2,schedule=1f1b,micro_batch=1"),
}


class Artifacts:
    """Compiles models under plans, once each."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def __call__(self, plan: str, *flags: object, model: str = "gpt2.onnx", loss: str = "cross_entropy") -> pathlib.Path:
        path = self.folder / f"{model}.{plan}.{loss}{''.join(map(str, flags))}.dtc"
        if not path.exists():
            devices, spec = PLANS[plan]
            check_call("dtc", "compile", MODELS / model, "--devices", devices, "--plan", spec, "--loss", loss,
                       *FLAGS, *flags, "-o", path)
        return path


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    return Artifacts(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What is trained on, and two batches to evaluate, with ragged targets: the first is the first that is trained on."""
    folder = tmp_path_factory.mktemp("data")
    arrays = load_file(MODELS / "gpt2.data.safetensors")
    first = {name: array[:8] for name, array in arrays.items()}
    last = {name: array[8:16] for name, array in arrays.items()}
    last["target"] = last["target"].copy()
    last["target"][:3] = -100
    last["target"][3, 5:] = -100
    both = {name: numpy.concatenate([first[name], last[name]]) for name in first}
    for name, content in {"first": first, "last": last, "both": both}.items():
        save_file({key: numpy.ascontiguousarray(value) for key, value in content.items()}, folder / f"{name}.safetensors")
    return folder


def train(artifact: pathlib.Path, data: pathlib.Path, folder: pathlib.Path, *flags: object) -> tuple[list[dict], bytes]:
    log, weights = folder / "log.jsonl", folder / "weights.safetensors"
    check_call("dtc-run", artifact, "--data", data, "--no-shuffle", "--log", log, "--save-weights", weights, *flags)
    return [json.loads(line) for line in log.read_text().splitlines()], weights.read_bytes()


def losses(log: list[dict]) -> list[tuple]:
    return [(line["step"], line["loss"], line["grad_norm"]) for line in log]


def expect_next_losses(artifact: pathlib.Path, first: pathlib.Path, folder: pathlib.Path, *flags: object) -> None:
    """Trained on one batch again and again, a step's loss is the evaluation of the weights after the step before."""
    plain, weights = train(artifact, first, folder, "--steps", 4, *flags)
    log, evaluated = train(artifact, first, folder, "--steps", 4, "--eval-data", first, "--eval-every", 1, *flags)
    assert losses(log) == losses(plain)
    assert evaluated == weights
    assert all("eval_loss" not in line for line in plain)
    ours = numpy.array([line["eval_loss"] for line in log[:-1]])
    theirs = numpy.array([line["loss"] for line in log[1:]])
    assert numpy.allclose(ours, theirs, rtol=1e-6, atol=0)
    assert numpy.ptp(theirs) > 0.1


@pytest.mark.parametrize("plan,flags", [
    *((plan, ()) for plan in PLANS), ("dp2", ("--processes",)), ("pp2dp2", ("--processes",))])
def test_evaluation_is_the_next_steps_loss(artifacts, data, tmp_path, plan, flags):
    expect_next_losses(artifacts(plan), data / "first.safetensors", tmp_path, *flags)


def evaluate(artifact: pathlib.Path, data: pathlib.Path, samples: pathlib.Path, folder: pathlib.Path) -> float:
    """After one step on the first batch."""
    log, _ = train(artifact, data / "first.safetensors", folder, "--steps", 1, "--eval-data", samples)
    return log[0]["eval_loss"]


@pytest.mark.parametrize("plan", ["one", "dp2tp2", "pp2dp2"])
def test_the_mean_is_over_all_valid_targets(artifacts, data, tmp_path, plan):
    """Not over batches: the second has far fewer. Samples that fill no batch are left out."""
    artifact, sums, counts = artifacts(plan), 0.0, 0
    for name in ("first", "last"):
        count = int((load_file(data / f"{name}.safetensors")["target"] != -100).sum())
        sums += count * evaluate(artifact, data, data / f"{name}.safetensors", tmp_path)
        counts += count
    whole = evaluate(artifact, data, data / "both.safetensors", tmp_path)
    assert abs(whole - sums / counts) < 1e-6 * whole
    arrays = load_file(data / "both.safetensors")
    save_file({name: numpy.concatenate([array, array[:5]]) for name, array in arrays.items()}, tmp_path / "more.safetensors")
    assert evaluate(artifact, data, tmp_path / "more.safetensors", tmp_path) == whole


def test_it_is_due_every_so_many_steps_and_at_the_end(artifacts, data, tmp_path):
    both = data / "both.safetensors"
    log, _ = train(artifacts("one"), both, tmp_path, "--steps", 5, "--eval-data", both, "--eval-every", 2)
    assert [line["step"] for line in log if "eval_loss" in line] == [2, 4, 5]
    log, _ = train(artifacts("one"), both, tmp_path, "--steps", 3, "--eval-data", both)
    assert [line["step"] for line in log if "eval_loss" in line] == [3]


@pytest.mark.parametrize("plan", ["zero3", "pp2dp2"])
def test_a_resumed_run_evaluates_the_same(artifacts, data, tmp_path, plan):
    artifact, train_on = artifacts(plan), MODELS / "gpt2.data.safetensors"
    plain, weights = train(artifact, train_on, tmp_path, "--steps", 6)
    flags = ["--eval-data", data / "both.safetensors", "--eval-every", 2, "--checkpoint-dir", tmp_path / "c", "--resume"]
    train(artifact, train_on, tmp_path, "--steps", 4, *flags)
    log, resumed = train(artifact, train_on, tmp_path, "--steps", 6, *flags)
    assert (losses(log), resumed) == (losses(plain), weights)
    straight, _ = train(artifact, train_on, tmp_path, "--steps", 6, *flags[:4])
    assert [line.get("eval_loss") for line in log] == [line.get("eval_loss") for line in straight]


def resident_bytes(process: int, path: pathlib.Path) -> int:
    """How much of a mapped file a process has read."""
    lines = iter(pathlib.Path(f"/proc/{process}/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return next(int(each.split()[1]) << 10 for each in lines if each.startswith("Rss:"))
    return 0


def test_a_signal_ends_an_evaluation(artifacts, data, tmp_path):
    """It is left out, training stops and goes on as it would have."""
    artifact, train_on, log = artifacts("dp2"), MODELS / "gpt2.data.safetensors", tmp_path / "log"
    arrays = load_file(data / "both.safetensors")
    long = tmp_path / "long.safetensors"
    save_file({name: numpy.concatenate([array] * 4000) for name, array in arrays.items()}, long)
    flags = ["--data", train_on, "--no-shuffle", "--steps", 3, "--log", log, "--checkpoint-dir", tmp_path / "c", "--resume"]
    process = subprocess.Popen(
        [BIN / "dtc-run", artifact, *map(str, flags), "--eval-data", long, "--eval-every", "2"], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while resident_bytes(process.pid, long) < 1 << 18:  # an evaluation reads it
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75 and "after step 2" in err, err
    assert ["eval_loss" in json.loads(line) for line in log.read_text().splitlines()] == [False, False]
    check_call("dtc-run", artifact, *flags)
    plain, _ = train(artifact, train_on, tmp_path, "--steps", 3)
    assert losses([json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]) == losses(plain)


def test_what_cannot_be_evaluated_is_refused(artifacts, data, tmp_path):
    first, both = data / "first.safetensors", data / "both.safetensors"
    save_file({name: array[:7] for name, array in load_file(first).items()}, tmp_path / "few.safetensors")
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--loss", "none", "--devices", 1, "-o", tmp_path / "outputs.dtc")
    one, outputs = artifacts("one"), tmp_path / "outputs.dtc"
    for artifact, flags, code, words in [
        (one, ["--eval-every", 2], 2, "--eval-data is missing"),
        (one, ["--eval-data", tmp_path / "few.safetensors"], 3, "few.safetensors: has fewer samples than the global batch of 8: 7"),
        (one, ["--eval-data", MODELS / "mlp.data.safetensors"], 3, "mlp.data.safetensors"),
        (one, ["--eval-data", both, "--profile", tmp_path / "p.json"], 2, "--profile"),
        (one, ["--eval-data", both, "--log", both], 2, "would write over --eval-data"),
        (outputs, ["--eval-data", both, "--outputs", tmp_path / "o"], 2, f"{outputs}: computes outputs alone (--loss none); --steps"),
        (outputs, [], 2, f"{outputs}: computes outputs alone (--loss none); give --outputs"),
        (one, ["--outputs", tmp_path / "o"], 2, f"{one}: trains; --outputs"),
    ]:
        outcome = call("dtc-run", artifact, "--data", first, *flags)
        assert outcome.code == code and words in outcome.error_line(), outcome.err
