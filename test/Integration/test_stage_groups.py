"""Stages with meshes of their own: what they send each other is resent in pieces, and they train as PyTorch does."""

import json
import os
import re

import pytest
from safetensors.numpy import load_file

from conftest import BIN, MODELS, check_call, compare_steps, reference
from test_training import compare_weights

EMULATOR = BIN.parent / "lib" / "gpu-emulator"


def plan_file(folder, groups, **settings):
    """A plan of groups (pp, dp, tp, micro_batch); the shardings and the cuts are planned."""
    named = [dict(zip(("pp", "dp", "tp", "micro_batch"), group)) for group in groups]
    plan = {"dp": named[0]["dp"], "tp": named[0]["tp"], "pp": sum(each["pp"] for each in named), "cp": 1, "ep": 1, "sp": "off",
            "schedule": "1f1b", "chunks": 1, "micro_batch": named[0]["micro_batch"], "zero": 0, "recompute": "none"} | settings
    plan["stage_groups"] = [each | {"sp": "off"} for each in named]
    path = folder / "plan.yaml"
    path.write_text("plan: " + json.dumps(plan) + "\n")
    return path, sum(each["pp"] * each["dp"] * each["tp"] for each in named)


@pytest.mark.parametrize("model,groups,settings", [
    ("gpt2", [(1, 1, 2, 2), (1, 2, 1, 1)], {}),                      # rows for columns, and a tied weight
    ("gpt2", [(1, 2, 1, 2), (1, 1, 1, 4)], {"zero": 2}),
    ("llama", [(1, 2, 1, 1), (1, 1, 2, 2)], {"schedule": "zb"}),
    ("llama", [(1, 2, 2, 1), (1, 1, 2, 2)], {"schedule": "gpipe"}),  # four devices, then two
    ("llama", [(1, 1, 1, 2), (1, 2, 1, 1)], {"zero": 2}),            # one, then two, which share their states
    ("llama", [(1, 1, 1, 4), (1, 4, 1, 1), (1, 1, 2, 4)], {"recompute": "full"}),
    ("llama", [(1, 2, 1, 1), (2, 1, 1, 2)], {}),                     # a mesh of two stages
    ("resnet_tiny", [(1, 4, 1, 1), (1, 2, 1, 2)], {}),
    ("mixtral", [(1, 2, 1, 2), (1, 1, 2, 4)], {}),
])
def test_trains_as_pytorch_does(trainer, tmp_path, model, groups, settings):
    """Also verified against one rank, and replayed, when it is compiled."""
    expected = reference(model, "adamw")
    plan, devices = plan_file(tmp_path, groups, **settings)
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)
    if model == "llama":
        compare_weights(run, model, expected)


def compiled(folder, groups, *flags, model="llama", **settings):
    plan, devices = plan_file(folder, groups, **settings)
    artifact = folder / "m.dtc"
    done = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", devices, "--plan", plan,
                      "--global-batch", 8, "-o", artifact, *flags)
    return artifact, done.out


def test_processes_give_the_bits_of_threads(tmp_path):
    artifact, said = compiled(tmp_path, [(1, 1, 2, 4), (1, 4, 1, 1)], "--loss", "cross_entropy")
    assert "verified" in said and "not verified" not in said
    weights = []
    for flags in ([], ["--processes"]):
        weights.append(tmp_path / f"w{len(flags)}.safetensors")
        check_call("dtc-run", artifact, "--data", MODELS / "llama.data.safetensors", "--steps", 3, "--save-weights", weights[-1], *flags)
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_gpus_train_too(trainer, tmp_path, monkeypatch):
    if "DTC_CUDA_LIBRARY_PATH" not in os.environ:
        monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", str(EMULATOR))
    expected = reference("llama", "adamw")
    plan, devices = plan_file(tmp_path, [(1, 2, 1, 1), (1, 1, 1, 2)])
    run = trainer.train("llama", "llama", "--target", "cuda", *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


def test_outputs_of_other_meshes(tmp_path):
    whole = {}
    for name, groups in (("one", None), ("groups", [(1, 1, 2, 4), (1, 2, 1, 2)])):
        artifact = tmp_path / "m.dtc"
        if groups:
            artifact, _ = compiled(tmp_path, groups, "--loss", "none")
        else:
            check_call("dtc", "compile", MODELS / "llama.onnx", "--loss", "none", "--global-batch", 8, "-o", artifact)
        check_call("dtc-run", artifact, "--data", MODELS / "llama.data.safetensors", "--no-shuffle", "--outputs", tmp_path / name)
        whole[name] = load_file(tmp_path / name)["logits"]
    assert abs(whole["one"] - whole["groups"]).max() < 1e-5 * abs(whole["one"]).max()


def test_checkpoints_move_between_meshes(tmp_path):
    """Four steps and four more are eight, wherever these are made."""
    flags = ["--loss", "cross_entropy", "--lr", 1e-3]
    groups, _ = compiled(tmp_path, [(1, 1, 2, 2), (1, 2, 1, 1)], *flags, zero=1)
    one = tmp_path / "one.dtc"
    check_call("dtc", "compile", MODELS / "llama.onnx", "--global-batch", 8, *flags, "-o", one)
    data = ["--data", MODELS / "llama.data.safetensors"]

    def run(artifact, folder, steps, log, *more):
        check_call("dtc-run", artifact, *data, "--steps", steps, "--checkpoint-dir", folder, "--log", tmp_path / log, *more)
        return [json.loads(line)["loss"] for line in (tmp_path / log).read_text().splitlines()]

    whole = run(groups, tmp_path / "whole", 8, "whole.jsonl")
    run(groups, tmp_path / "c", 4, "a.jsonl")
    again = run(groups, tmp_path / "c", 8, "b.jsonl", "--resume")
    assert again[-4:] == whole[-4:]
    run(groups, tmp_path / "d", 4, "c.jsonl")
    moved = run(one, tmp_path / "d", 8, "d.jsonl", "--resume")
    assert moved[-4:] == pytest.approx(whole[-4:], rel=1e-5)


def test_memory_and_messages_are_as_predicted(tmp_path):
    groups = [(1, 2, 2, 1), (1, 1, 2, 2)]
    plan, devices = plan_file(tmp_path, groups)
    flags = [MODELS / "llama.onnx", "--loss", "cross_entropy", "--devices", devices, "--plan", plan, "--global-batch", 8]
    answer = json.loads(check_call("dtc", "plan", *flags, "--json").out)
    scheduled = check_call("dtc", "compile", *flags, "--emit", "schedule").out
    arenas = list(map(int, re.findall(r"exec\.arena_bytes = (\d+)", scheduled)))
    predicted = [stage["memory_bytes"] if "memory_bytes" in stage else stage["peak_memory_bytes"] for stage in answer["stages"]]
    assert arenas == pytest.approx(predicted, rel=0.05)
