"""Stages with meshes of their own: what they send each other is resent in pieces, and they train as PyTorch does."""

import json
import os
import re

import pytest
from safetensors.numpy import load_file

import llama_graph
from conftest import BIN, MODELS, case, check_call, compare_steps, reference
from trained_weights import compare_with_one_rank, compare_with_pytorch

EMULATOR = BIN.parent / "lib" / "gpu-emulator"
# For each mesh pp, dp, tp and micro_batch; and what all of them share.
PLANS = [
    ([(1, 1, 2, 2), (1, 2, 1, 1)], {}),                                         # rows for columns
    ([(1, 2, 1, 1), (1, 1, 2, 2)], {"schedule": "zb"}),
    ([(1, 2, 2, 1), (1, 1, 2, 2)], {"schedule": "gpipe", "zero": 1}),           # four ranks, then two
    ([(1, 1, 1, 2), (1, 2, 1, 1)], {"zero": 2}),                                # one, then two
    ([(1, 4, 1, 1), (1, 2, 1, 2)], {"zero": 3}),
    ([(1, 1, 1, 4), (1, 4, 1, 1), (1, 1, 2, 4)], {"recompute": "full"}),
    ([(1, 2, 1, 1), (2, 1, 1, 2)], {}),                                         # a mesh of two stages
    ([(1, 1, 2, 2), (1, 2, 1, 1)], {"schedule": "interleaved", "chunks": 2}),
    ([(1, 1, 2, 2), (1, 2, 1, 1)], {"schedule": "zbv", "chunks": 2, "recompute": "selective"}),
    ([(1, 2, 1, 1), (1, 1, 2, 2)], {"cp": 2, "zero": 1}),
    ([(1, 2, 1, 1), (1, 1, 2, 2)], {"cp": 2, "cp_by": "ring"}),
]
OF_EXPERTS = [([(1, 2, 1, 1), (1, 1, 2, 2)], {"ep": 2, "zero": 1})]
MODEL_NAMES = ["gpt2", "llama", "bart", "t5", "mixtral", "moe", "resnet_tiny"]
ALWAYS = [("gpt2", 0), ("llama", 1), ("t5", 2), ("gpt2", 4), ("mixtral", 3), ("resnet_tiny", 4)]


def combinations():
    """Models and plans. All run by check-grid, some always."""
    for model in MODEL_NAMES:
        for number, (groups, settings) in enumerate(PLANS + (OF_EXPERTS if model == "moe" else [])):
            splits = "cp" in settings or any(tp > 1 for _, _, tp, _ in groups)
            if model != "resnet_tiny" or not splits:
                yield case((model, number) in ALWAYS, model, ("clip", "sgd_clip")[number % 2], groups, settings)


def plan_file(folder, groups, **settings):
    """A plan of these meshes, and its devices; the shardings and the cuts are planned."""
    named = [dict(zip(("pp", "dp", "tp", "micro_batch"), group)) for group in groups]
    plan = {"dp": named[0]["dp"], "tp": named[0]["tp"], "pp": sum(each["pp"] for each in named), "cp": 1, "ep": 1, "sp": "off",
            "schedule": "1f1b", "chunks": 1, "micro_batch": named[0]["micro_batch"], "zero": 0, "recompute": "none"} | settings
    plan["stage_groups"] = [each | {"sp": "off"} for each in named]
    path = folder / "plan.yaml"
    path.write_text("plan: " + json.dumps(plan) + "\n")
    return path, sum(each["pp"] * each["dp"] * each["tp"] for each in named) * plan["cp"] * plan["ep"]


@pytest.mark.parametrize("model,recipe,groups,settings", list(combinations()))
def test_trains_as_pytorch_does(trainer, tmp_path, model, recipe, groups, settings):
    """Also verified against one rank, and replayed, when it is compiled."""
    expected = reference(model, recipe)
    plan, devices = plan_file(tmp_path, groups, **settings)
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-5, norm=1e-5)
    compare_with_pytorch(run.weights, model, recipe)
    alone = trainer.train(model, model, *expected["flags"])
    compare_with_one_rank(run.weights, alone.weights, model, recipe)


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


@pytest.mark.parametrize("groups,settings,meshes", [
    ([(1, 4, 2, 1), (1, 2, 2, 2)], {"zero": 3}, "dp=4 tp=2 pp=1 and dp=2 tp=2 pp=1"),
    ([(1, 2, 1, 2), (2, 1, 2, 4)], {"recompute": "full"}, "dp=2 pp=1 and tp=2 pp=2")])
def test_large_plans_are_verified_on_a_twin(tmp_path, groups, settings, meshes):
    """With 4,096 tokens scores alone are a billion."""
    plan, devices = plan_file(tmp_path, groups, **settings)
    model = llama_graph.write(tmp_path / "model.onnx", llama_graph.Llama(3, 64, 4, 4, 128, 256, 4096))
    outcome = check_call("dtc", "compile", model, "--loss", "cross_entropy", "--devices", devices, "--plan", plan,
                         "--global-batch", 8, "--verify", "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert f"on {devices} ranks" in outcome.err and outcome.err.strip().endswith(f", on a twin of small dimensions with {meshes}")


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
