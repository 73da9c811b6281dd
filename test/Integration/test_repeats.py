"""The same run again has the same bits: weights, losses and norms, however ranks are started and collectives carried out."""

import json
import os

import pytest

from conftest import MODELS, check_call

REPEATS = int(os.environ.get("DTC_REPEATS", 3))
STEPS = 4
WAYS = [(moment, flags) for flags in ([], ["--processes"]) for moment in ("start", "wait", "thread")]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("repeats") / "m.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 4, "--plan", "pp=2,dp=2,zero=3,schedule=zb,micro_batch=1",
               "--loss", "cross_entropy", "--clip-grad-norm", 0.5, "--global-batch", 8, "-o", path)
    return path


@pytest.fixture(scope="module")
def first(artifact, tmp_path_factory):
    return trained(artifact, tmp_path_factory.mktemp("first"), "start")


def trained(artifact, folder, moment: str, *flags: str) -> tuple:
    """What must be the same, to the bit."""
    log, weights = folder / "log", folder / "weights"
    check_call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", STEPS, "--log", log, "--save-weights", weights,
               *flags, env=os.environ | {"DTC_COLLECTIVES": moment})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == STEPS
    return [(line["step"], line["loss"], line["grad_norm"], line["lr"]) for line in lines], weights.read_bytes()


@pytest.mark.parametrize("moment,flags", WAYS, ids=[f"{moment}-{'processes' if flags else 'threads'}" for moment, flags in WAYS])
def test_repeated_runs_are_bitwise_equal(artifact, first, tmp_path, moment, flags):
    """Three times each, or as often as DTC_REPEATS says. What all ways share is the first run of threads."""
    for number in range(REPEATS):
        assert trained(artifact, tmp_path, moment, *flags) == first, number
