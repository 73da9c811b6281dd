"""Experts that tokens look up, with fewer slots than the worst case needs (capacity=): exact where they suffice, an error
where they don't, or dropped choices where these are asked for."""

import functools
import json
import os

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, call, check_call, compare_steps, reference

BOUND = 2e-5  # as in test_families.py
CROSS_ENTROPY = ("--loss", "cross_entropy", "--global-batch", 8)
# 4 experts, 2 of which each token chooses: twice the average is all tokens of a sample.
EXACT = [(1, "capacity=2"), (2, "ep=2,capacity=2"), (4, "dp=2,ep=2,capacity=2,zero=3"), (4, "dp=1,cp=2,ep=2,capacity=2"),
         (4, "dp=1,tp=2,ep=2,capacity=2"), (4, "pp=2,dp=1,ep=2,capacity=2,schedule=1f1b,micro_batch=2")]
DROPPING = [(1, "micro_batch=2"), (2, "ep=2"), (4, "dp=1,ep=4"), (4, "dp=2,ep=2,zero=2,micro_batch=1"),
            (4, "dp=1,tp=2,ep=2,recompute=full"), (4, "pp=2,dp=1,ep=2,schedule=zb,micro_batch=2")]
OVERFLOWING = [(1, "dp=1"), (2, "ep=2,dp=1"), (4, "dp=2,cp=2,ep=1"), (4, "pp=2,dp=1,ep=2,schedule=1f1b,micro_batch=2")]


def compiled(folder, devices, plan, *flags):
    check_call("dtc", "compile", MODELS / "mixtral.onnx", "--devices", devices, "--target", "cpu", "--plan", plan,
               *CROSS_ENTROPY, *flags, "-o", folder / "m.dtc")
    return folder / "m.dtc"


@pytest.mark.parametrize("devices,plan", EXACT)
def test_enough_slots_are_exact(trainer, devices, plan):
    expected = reference("mixtral", "adamw")
    run = trainer.train("mixtral", "mixtral", *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=BOUND, norm=BOUND)
    assert all("dropped_tokens" not in step for step in run.log)


@pytest.mark.parametrize("devices,plan", DROPPING)
def test_choices_without_a_slot_are_dropped(trainer, devices, plan):
    """As PyTorch's experts drop them (test/models/dropping.py), whatever the plan is; each is counted once."""
    expected = reference("mixtral_dropping", "adamw")
    run = trainer.train("mixtral", "mixtral", *expected["flags"], devices=devices,
                        plan=f"{plan},capacity={expected['capacity']},overflow=drop")
    compare_steps(run, expected, loss=BOUND, norm=BOUND)
    assert [step["dropped_tokens"] for step in run.log] == [step["dropped_tokens"] for step in expected["steps"]]


@pytest.mark.parametrize("devices,plan", OVERFLOWING)
def test_too_few_slots_end_the_run(tmp_path, devices, plan):
    """All ranks end after the same step; one of those whose tokens found no slot says so."""
    artifact = compiled(tmp_path, devices, f"{plan},capacity=0.5")
    for flags in ([], ["--processes"]) if devices == 4 else [[]]:
        outcome = call("dtc-run", artifact, "--data", MODELS / "mixtral.data.safetensors", "--no-shuffle", "--steps", 3,
                       "--save-weights", tmp_path / "w.safetensors", *flags)
        assert outcome.code == 6
        line = outcome.error_line()
        assert "step 1: rank " in line and ": layer 1 (" in line, line
        assert "tokens find no slot with an expert " in line and "capacity" in line, line
        assert not (tmp_path / "w.safetensors").exists()


#: Of the four batches of the data only the last has a row too many for it.
NEARLY_ENOUGH = "dp=1,ep=2,capacity=1.65"


def test_slots_are_found_missing_when_they_are(tmp_path):
    """Batches with room come first: the step of the other one ends the run, and none before it."""
    log = tmp_path / "log.jsonl"
    run = ("--data", MODELS / "mixtral.data.safetensors", "--no-shuffle", "--steps", 5, "--log", log)
    check_call("dtc-run", compiled(tmp_path, 2, NEARLY_ENOUGH + ",overflow=drop", "--lr", 1e-9), *run)
    assert [json.loads(line)["dropped_tokens"] for line in log.read_text().splitlines()] == [0, 0, 0, 1, 0]
    outcome = call("dtc-run", compiled(tmp_path, 2, NEARLY_ENOUGH, "--lr", 1e-9), *run)
    assert outcome.code == 6
    assert "step 4: rank " in outcome.error_line()
    assert len(log.read_text().splitlines()) == 3


def test_evaluation_ends_with_too_few_slots(tmp_path):
    data = load_file(MODELS / "mixtral.data.safetensors")
    for name, batch in (("train", 0), ("eval", 3)):
        save_file({key: array[8 * batch:8 * batch + 8].copy() for key, array in data.items()}, tmp_path / f"{name}.safetensors")
    train = ("--data", tmp_path / "train.safetensors", "--steps", 1)
    artifact = compiled(tmp_path, 2, NEARLY_ENOUGH, "--lr", 1e-9)
    check_call("dtc-run", artifact, *train, "--eval-data", tmp_path / "train.safetensors")
    outcome = call("dtc-run", artifact, *train, "--eval-data", tmp_path / "eval.safetensors")
    assert outcome.code == 6
    assert "evaluation after step 1: rank " in outcome.error_line()
    dropping = compiled(tmp_path, 2, NEARLY_ENOUGH + ",overflow=drop", "--lr", 1e-9)
    check_call("dtc-run", dropping, *train, "--eval-data", tmp_path / "eval.safetensors")


def test_the_planner_shares_out_experts_with_a_capacity(tmp_path):
    """Their slots are the same for all ranks: ep needn't be pinned, and fewer slots are less to compute and to keep."""
    def planned(*spec):
        return json.loads(check_call("dtc", "plan", MODELS / "mixtral.onnx", "--devices", 4, "--target", "cpu", "--cluster",
                                     "cpu", "--plan", ",".join(spec), *CROSS_ENTROPY, "--json").out)
    few, many = planned("ep=4", "dp=1", "capacity=1"), planned("ep=4", "dp=1", "capacity=2")
    assert few["plan"]["capacity"] == 1 and "overflow" not in few["plan"]
    assert few["predicted"]["step_time_s"] < many["predicted"]["step_time_s"]
    free = planned("capacity=1.25", "tp=1", "zero=0")
    assert free["plan"]["ep"] * free["plan"]["dp"] == 4
    assert "capacity" not in planned("ep=4", "dp=1")["plan"]


def test_plan_files_keep_the_capacity(tmp_path):
    saved = tmp_path / "plan.yaml"
    first = compiled(tmp_path, 2, "ep=2,dp=1,capacity=1.25,overflow=drop", "--save-plan", saved).read_bytes()
    text = saved.read_text()
    assert "  capacity: 1.25\n  overflow: drop\n" in text
    assert compiled(tmp_path, 2, saved).read_bytes() == first


def test_what_has_no_such_slots_is_refused(tmp_path):
    for model, plan, line in (("gpt2", "capacity=1.25", "no experts that tokens look up, which capacity= is about"),
                              ("mixtral", "overflow=drop", "overflow=drop needs a capacity"),
                              ("mixtral", "capacity=0", "plan: capacity expects a factor from 0.01 to 10000, worst, or tiles, got '0'")):
        outcome = call("dtc", "compile", MODELS / f"{model}.onnx", "--plan", plan, *CROSS_ENTROPY, "-o", tmp_path / "m.dtc")
        assert outcome.code == 2 and line in outcome.error_line()
    outcome = call("dtc", "compile", MODELS / "mixtral.onnx", "--plan", "capacity=1", "--loss", "none", "-o", tmp_path / "m.dtc")
    assert outcome.code == 3 and "needs a loss" in outcome.error_line()
    assert not (tmp_path / "m.dtc").exists()


def test_gpus_drop_and_end_alike(trainer, tmp_path, monkeypatch):
    if "DTC_CUDA_LIBRARY_PATH" not in os.environ:
        monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator"))
    expected = reference("mixtral_dropping", "adamw")
    plan, count = f"dp=1,ep=2,capacity={expected['capacity']}", 3
    run = trainer.train("mixtral", "mixtral", "--target", "cuda", *expected["flags"], devices=2, steps=count,
                        plan=plan + ",overflow=drop")
    compare_steps(run, expected | {"steps": expected["steps"][:count]}, loss=1e-4, norm=1e-3)
    assert [step["dropped_tokens"] for step in run.log] == [step["dropped_tokens"] for step in expected["steps"][:count]]
    check_call("dtc", "compile", MODELS / "mixtral.onnx", "--target", "cuda", "--devices", 2, "--plan", plan, *CROSS_ENTROPY,
               "-o", tmp_path / "gpu.dtc")
    outcome = call("dtc-run", tmp_path / "gpu.dtc", "--data", MODELS / "mixtral.data.safetensors", "--no-shuffle", "--steps", 3)
    assert outcome.code == 6
    assert "step 1: rank " in outcome.error_line()


#: Rows of each expert begin a tile of slots, which tensor cores multiply.
#: Three ranks get a batch of nine, of which one sample has no targets.
TILES = [(1, "dp=1", "bf16"), (2, "dp=1,ep=2", "bf16"), (2, "dp=1,tp=2", "fp16"), (3, "dp=3", "bf16"),
         (4, "dp=1,cp=2,ep=2", "bf16"), (4, "pp=2,dp=2,schedule=zb,zero=2,micro_batch=1", "bf16")]


@pytest.fixture(scope="module")
def worst(trainer):
    """What one GPU computes with slots for all tokens for each expert, by libraries."""
    def run(precision):
        return trainer.train("mixtral", "mixtral", "--target", "cuda", "--precision", precision, *reference("mixtral", "adamw")["flags"],
                             devices=1, steps=3, plan="dp=1,capacity=worst")
    return functools.cache(run)


@pytest.mark.parametrize("devices,plan,precision", TILES)
def test_tiles_are_exact(trainer, worst, devices, plan, precision, monkeypatch):
    if "DTC_CUDA_LIBRARY_PATH" not in os.environ:
        monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator"))
    expected = worst(precision)
    run = trainer.train("mixtral", "mixtral", "--target", "cuda", "--precision", precision, *reference("mixtral", "adamw")["flags"],
                        devices=devices, steps=3, plan=plan + ",capacity=tiles")
    bound = 1e-3 if "cp" in plan else 1e-5  # gathered keys are no attention of cuDNN's
    assert run.column("loss") == pytest.approx(expected.column("loss"), rel=bound)
    assert run.column("grad_norm") == pytest.approx(expected.column("grad_norm"), rel=bound)
    if precision == "bf16":
        pytorch = reference("mixtral", "bf16")
        compare_steps(run, pytorch | {"steps": pytorch["steps"][:3]}, loss=2e-3, norm=5e-2)


def test_tiles_are_multiplied_by_a_kernel():
    text = check_call("dtc", "compile", MODELS / "mixtral.onnx", "--target", "cuda", "--devices", 1, "--precision", "bf16", *CROSS_ENTROPY,
                      "--plan", "dp=1,capacity=tiles", "--emit", "schedule").out
    # Two products of one layer: gates and what they scale are one. Forward, and back to rows and to weights.
    assert text.count("exec.launch @products") == 2 * 3
    assert "expert_slots" not in text


@pytest.mark.parametrize("flags,line", [
    (("--target", "cpu"), "capacity=tiles is for GPUs in bf16 or fp16"),
    (("--target", "cuda", "--precision", "fp32"), "capacity=tiles is for GPUs in bf16 or fp16"),
    (("--target", "cuda", "--precision", "bf16", "--plan", "capacity=tiles,overflow=drop"), "overflow=drop needs a capacity")])
def test_where_tiles_are_refused(tmp_path, flags, line):
    plan = [] if "--plan" in flags else ["--plan", "capacity=tiles"]
    outcome = call("dtc", "compile", MODELS / "mixtral.onnx", "--devices", 1, *CROSS_ENTROPY, *flags, *plan, "-o", tmp_path / "m.dtc")
    assert outcome.code == 2 and line in outcome.error_line()
    assert not (tmp_path / "m.dtc").exists()


@pytest.mark.parametrize("model,plan", [("mixtral", "ep=2,dp=1"), ("mixtral", "ep=2,dp=1,capacity=2"), ("moe", "ep=2,dp=1")])
def test_bf16_on_processors(trainer, model, plan):
    """Near PyTorch's trajectory in fp32, as one rank in bf16 is."""
    expected = reference(model, "adamw")
    run = trainer.train(model, model, "--precision", "bf16", *expected["flags"], devices=2, plan=plan)
    want = numpy.array([step["loss"] for step in expected["steps"]])
    assert 0 < numpy.abs(run.column("loss") / want - 1).max() < 5e-3
