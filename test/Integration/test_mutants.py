"""Faults planted into partitioned steps: --verify finds every one of them on a twin of small dimensions.

The replay finds those of calls, addresses, slots and messages (test_replay.py). These are the others: sums that are lost or
made twice, ranks along a wrong axis, exchanged tensors, terms and scales. So are kernels and library calls that read other
tensors, or other parts. A part always runs; the target check-mutants (DTC_WHOLE_GRID=1) plants them into all combinations of
test_grid.py.
"""

import json
import os
import re
import subprocess

import pytest

from conftest import BIN, MODELS, case, check_call, reference
from fault_places import PLACES
from test_grid import combinations
from test_stage_groups import plan_file

MUTANTS = BIN.parent / "test" / "Unit" / "verify-mutants"
BATCH = 8
MOST = os.environ.get("DTC_MUTANTS", "3")  # of each kind

SAMPLE = [
    ("gpt2", "clip", 8, "pp=2,dp=2,tp=2,zero=3,micro_batch=2,schedule=1f1b"),
    ("bart", "sgd_clip", 4, "pp=4,dp=1,schedule=zb,micro_batch=2"),
    ("moe", "clip", 4, "dp=2,ep=2,zero=1,recompute=full"),
    ("llama", "clip", 4, "cp=2,tp=2,sp=on"),
    ("llama", "clip", 6, "dp=2,tp=3,zero=3,micro_batch=2"),  # heads and features that are padded
    ("gpt2", "clip", 2, "cp=2,cp_by=ring"),  # parts in zig-zag
    ("resnet_tiny", "sgd_clip", 2, "pp=2,dp=1,schedule=1f1b,micro_batch=1"),  # gradients behind rectifiers that are off
]
# What a recipe adds to a step. The kind of fault that it can have is planted into it.
RECIPES = [
    case(True, "gpt2_dropout.pt2", ["--clip-grad-norm", 1], 4, "dp=2,tp=2,zero=1,micro_batch=2", "unsharded seed"),
    case(True, "gpt2_dropout.pt2", [], 4, "pp=2,tp=2,schedule=zb,micro_batch=2,recompute=full", "other random numbers"),
    case(True, "gpt2.onnx", ["--clip-grad-norm", 1, "--lora", "rank=2"], 4, "dp=2,tp=2,zero=1,micro_batch=2", "unscaled gradient"),
    case(False, "gpt2.onnx", ["--clip-grad-norm", 1, "--precision", "fp16"], 4, "pp=2,dp=2,zero=2,micro_batch=2,schedule=1f1b",
         "unscaled gradient"),
    case(True, "gpt2.onnx", ["--label-smoothing", 0.1], 4, "dp=1,tp=4", "tensor left out of a bucket"),
    case(True, "resnet_norms.pt2", ["--batch-norm", "train"], 2, "dp=2,zero=1,micro_batch=2", "lost exchange"),
    case(True, "mixtral.onnx", [], 4, "dp=1,ep=4,capacity=1.25,overflow=drop", "wrong order of parts"),
]
ALWAYS = {"dropped term", "doubled term", "stale parameter", "wrong operand", "unscaled gradient", "wrong decay class"}


def cases() -> list:
    return list(combinations()) if "DTC_WHOLE_GRID" in os.environ else SAMPLE


def degree(plan: str, name: str) -> int:
    found = re.search(rf"\b{name}=(\d+)", plan)
    return int(found[1]) if found else 1


def with_microbatches(devices: int, plan: str) -> tuple[str, int]:
    """The plan with its microbatches said, and how many there are."""
    ranks = devices // (degree(plan, "pp") * degree(plan, "tp") * degree(plan, "cp"))
    if "micro_batch=" not in plan:
        plan += f",micro_batch={BATCH // ranks}"
    return plan, BATCH // (ranks * degree(plan, "micro_batch"))


def planted(tmp_path, model, recipe, devices, plan, calls, splits=False, most=MOST) -> set[str]:
    """As `planted_into`, with the flags of a recipe of PyTorch's runs."""
    return planted_into(tmp_path, f"{model}.onnx", reference(model, recipe)["flags"], devices, plan, calls, splits, most)


def planted_into(tmp_path, file, flags, devices, plan, calls, splits=False, most=MOST, target=()) -> set[str]:
    """The kinds of faults that are planted into the twin of a plan and found: all but those that change nothing.

    A step that the interpreter refuses to carry out counts as found, but its kind doesn't count as planted. For a target, those
    of its kernels alone are planted, into the program itself. A kind of PLACES is planted wherever it can change something.
    """
    path = tmp_path / "planned.mlir"
    check_call("dtc", "compile", MODELS / file, "--loss", "cross_entropy", *flags,
               "--devices", devices, "--plan", plan, "--global-batch", BATCH,
               "--emit", "plan", "-o", path)
    words = [most, str(calls), str(int(splits)), path, *target]
    result = found_all(words)
    kinds = set(result["planted"])
    for kind, (program, places_in) in PLACES.items():
        if program == "step" and target:
            continue
        places = places_in(result[program])
        assert result["places"].get(kind, 0) == len(places), kind
        if kind not in kinds and most != "0" and any(changes() for changes in places):
            kinds |= set(found_all(["--all-of", kind, *words])["planted"])
            assert kind in kinds
    return kinds


def found_all(words: list) -> dict:
    done = subprocess.run([MUTANTS, *words], capture_output=True, text=True, timeout=600)
    result = json.loads(done.stdout)
    assert result["wrong"] == ""
    assert result["missed"] == []
    assert done.returncode == 0
    return result


@pytest.mark.parametrize("model,recipe,devices,plan", cases())
def test_faults_are_found(model, recipe, devices, plan, tmp_path):
    plan, calls = with_microbatches(devices, plan)
    kinds = planted(tmp_path, model, recipe, devices, plan, calls, "schedule=zb" in plan)
    assert ALWAYS <= kinds and len(kinds) >= 11, kinds
    if "ring" in plan and model not in ("t5", "mixtral"):  # T5 has no mask of causal form, Mixtral's parts can't be halved
        assert "wrong chunk" in kinds
    assert "skipped op" in kinds or model not in ("gpt2", "llama", "bart", "moe")
    assert kinds & {"wrong mask", "lost mask"} or model not in ("gpt2", "llama", "moe")
    assert "wrong recomputation" in kinds or model != "moe" or "recompute=full" not in plan
    if "pp=" in plan and model == "gpt2":
        assert {"tied weight counted twice", "unsummed tied weight", "swapped activation"} <= kinds


@pytest.mark.parametrize("file,flags,devices,plan,kind", RECIPES, ids=lambda value: str(value).replace(" ", ""))
def test_faults_of_recipes_are_found(file, flags, devices, plan, kind, tmp_path):
    plan, calls = with_microbatches(devices, plan)
    kinds = planted_into(tmp_path, file, flags, devices, plan, calls, "schedule=zb" in plan)
    assert {kind, "dropped term", "stale parameter", "wrong decay class"} <= kinds, kinds


@pytest.mark.parametrize("model,devices,plan", [
    case(False, "bart", 2, "dp=2,zero=2,micro_batch=1"),  # a term of the norm that is far below the others
    case(True, "gpt2", 8, "dp=4,tp=2,zero=2,micro_batch=1"),  # a part of a gradient that isn't counted, but another one
])
def test_faults_of_the_norm_and_the_count_are_found(model, devices, plan, tmp_path):
    planted(tmp_path, model, "sgd_clip", devices, plan, calls=with_microbatches(devices, plan)[1], most="12")


@pytest.mark.parametrize("devices,plan", [
    case(False, 4, "dp=2,cp=2,zero=2,micro_batch=1"),  # choices gathered along a wrong axis
    case(True, 8, "cp=4,tp=2,dp=1,sp=on,cp_by=ring,micro_batch=8"),  # and in a wrong order
])
def test_faults_before_full_experts_are_found(devices, plan, tmp_path):
    """Only the tokens that an expert has no room for show whose choices were counted before."""
    kinds = planted(tmp_path, "moe", "clip", devices, plan, calls=with_microbatches(devices, plan)[1], most="12")
    assert {"wrong axis", "unsharded index"} <= kinds and ("wrong chunk" in kinds or "ring" not in plan), kinds


@pytest.mark.grid
def test_faults_between_ranks_with_experts_are_found(tmp_path):
    """Where each token chooses one expert of each of two ranks, these may return each other's gradients."""
    kinds = planted(tmp_path, "mixtral", "sgd_clip", 8, "dp=2,ep=2,tp=2,micro_batch=2", calls=1, most="12")
    assert {"wrong order of parts", "group without an axis", "group with another axis", "lost exchange"} <= kinds, kinds


@pytest.mark.parametrize("model", [case(True, "gpt2"), case(False, "llama")])
def test_faults_in_calls_of_a_gpu_are_found(model, tmp_path):
    """Attention reads parts of one product, and writes its gradients to where they are joined."""
    flags = [*reference(model, "clip")["flags"], "--target", "cuda", "--arch", "sm_90", "--precision", "bf16"]
    kinds = planted_into(tmp_path, f"{model}.onnx", flags, 2, "dp=2,micro_batch=2", calls=2, target=["cuda"])
    assert {"exchanged operands of a kernel", "transposed operand", "lost mask"} <= kinds, kinds
    assert "exchanged parts of attention" in kinds or model != "gpt2"


def test_a_twin_keeps_axes_that_split_what_must_stay(tmp_path):
    """The rows of experts are in four sections, one a rank, and tp splits what is behind them."""
    planted(tmp_path, "mixtral", "sgd_clip", 8, "cp=4,tp=2,dp=1,sp=on,cp_by=ring,micro_batch=8", calls=1, most="0")


def test_faults_between_meshes_are_found(tmp_path):
    """Rows of two ranks go to columns of two, and the tied weight's terms are summed between them."""
    plan, devices = plan_file(tmp_path, [(1, 2, 1, 2), (1, 1, 2, 4)], zero=1)
    kinds = planted(tmp_path, "gpt2", "clip", devices, plan, calls=2)
    assert {"tied weight counted twice", "unsummed tied weight", "swapped activation"} <= kinds, kinds
