"""Optimizer states in the host's memory: a plan computes the same with `offload=optimizer` as without, bit by bit."""

import json
import os

import pytest

from conftest import BIN, MODELS, check_call
from test_memory import check_prediction
from test_stage_groups import plan_file

EMULATOR = BIN.parent / "lib" / "gpu-emulator"


def compiled(folder, name: str, model: str, *flags: object):
    path = folder / f"{name}.dtc"
    check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch", 8, "--lr", 1e-2,
               *flags, "-o", path)
    return path


def inspected(path) -> dict:
    return json.loads(check_call("dtc", "inspect", path, "--json").out)


def trained(path, model: str, steps: int = 3, *flags: object) -> tuple[list, bytes]:
    """Losses and norms of the steps, and the weights."""
    log, weights = path.with_suffix(".jsonl"), path.with_suffix(".safetensors")
    check_call("dtc-run", path, "--data", MODELS / f"{model}.data.safetensors", "--steps", steps, "--log", log,
               "--save-weights", weights, *flags)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(line["loss"], line["grad_norm"]) for line in lines], weights.read_bytes()


@pytest.mark.parametrize("model,devices,plan,flags", [
    ("gpt2", 2, "dp=2,zero=1", ["--precision", "bf16"]),
    ("llama", 2, "tp=2", ["--optimizer", "sgd", "--momentum", 0.9]),
    ("gpt2", 4, "dp=2,tp=2,zero=3,micro_batch=2", []),
    ("gpt2", 4, "dp=2,pp=2,zero=2,schedule=1f1b,micro_batch=2", ["--clip-grad-norm", 0.5]),
])
def test_results_and_memory(tmp_path, model, devices, plan, flags):
    common = [model, "--devices", devices, "--target", "cpu", "--cluster", "cpu", *flags]
    kept = compiled(tmp_path, "kept", *common, "--plan", plan)
    away = compiled(tmp_path, "away", *common, "--plan", plan + ",offload=optimizer")
    assert trained(kept, model) == trained(away, model)
    before, after = inspected(kept), inspected(away)
    assert all(size == 0 for size in before["host_bytes"])
    for less, more, host in zip(after["arena_bytes"], before["arena_bytes"], after["host_bytes"]):
        assert host > 0 and less <= more - 0.95 * host


def test_stages_with_meshes_of_their_own(tmp_path):
    found = []
    for kind in ("none", "optimizer"):
        plan, devices = plan_file(tmp_path, [(1, 2, 1, 1), (1, 1, 2, 2)], schedule="zb", zero=1, offload=kind)
        artifact = compiled(tmp_path, kind, "gpt2", "--devices", devices, "--target", "cpu", "--cluster", "cpu", "--plan", plan)
        found.append(trained(artifact, "gpt2"))
    assert found[0] == found[1]
    assert all(size > 0 for size in inspected(artifact)["host_bytes"])


def test_copies_are_made_at_any_moment(tmp_path, monkeypatch):
    away = compiled(tmp_path, "away", "gpt2", "--devices", 2, "--target", "cpu", "--cluster", "cpu", "--plan",
                    "dp=2,zero=3,micro_batch=2,offload=optimizer")
    found = []
    for moment in ("start", "wait", "thread"):
        monkeypatch.setenv("DTC_COLLECTIVES", moment)
        found.append(trained(away, "gpt2", 2))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("devices,plan", [(1, "micro_batch=4"), (2, "dp=2,zero=1")])
def test_prediction_is_within_5_percent(devices, plan):
    check_prediction(MODELS / "gpt2.onnx", "--devices", devices, "--target", "cpu", "--cluster", "cpu", "--plan",
                     plan + ",offload=optimizer", "--loss", "cross_entropy", "--global-batch", 8)


def test_checkpoints_fit_plans_that_keep_states(tmp_path):
    common = ["gpt2", "--devices", 2, "--target", "cpu", "--cluster", "cpu", "--plan"]
    kept = compiled(tmp_path, "kept", *common, "dp=2")
    away = compiled(tmp_path, "away", *common, "dp=2,offload=optimizer")
    expected = trained(kept, "gpt2", 4)
    for first, second in ((away, kept), (kept, away)):
        saved = ["--checkpoint-dir", tmp_path / first.stem]
        trained(first, "gpt2", 2, *saved)
        losses, weights = trained(second, "gpt2", 4, *saved, "--resume")
        assert losses[-2:] == expected[0][2:] and weights == expected[1]


@pytest.mark.parametrize("devices,plan", [(1, "dp=1"), (2, "dp=1,pp=2,schedule=1f1b,micro_batch=4")])
def test_emulated_gpus(tmp_path, monkeypatch, devices, plan):
    """Copies between host and GPU go beside the update; the emulator finds one that nothing waits for."""
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", os.environ.get("DTC_CUDA_LIBRARY_PATH", str(EMULATOR)))
    common = ["gpt2", "--devices", devices, "--target", "cuda", "--plan"]
    kept = compiled(tmp_path, "kept", *common, plan)
    away = compiled(tmp_path, "away", *common, plan + ",offload=optimizer")
    assert trained(kept, "gpt2") == trained(away, "gpt2")
    assert inspected(away)["arena_bytes"][0] < inspected(kept)["arena_bytes"][0]
