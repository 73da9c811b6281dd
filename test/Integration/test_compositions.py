"""Compositions of precision, adapters, dropout, statistics, offload and stages with meshes of their own: each trains as one
rank does, as threads and as processes, and goes on from a checkpoint, also under another plan.

The target check-compositions draws further ones (compositions.py); DTC_COMPOSITIONS says how many of them run here.
"""

import os

import pytest

from compositions import CLASS_WEIGHTS, Case, check, drawn_case

ADAMW = ["--optimizer", "adamw", "--eps", "1e-5", "--weight-decay", "0.1", "--lr", "0.001"]
SGD = ["--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.02"]
CLIP = ["--clip-grad-norm", "0.25"]
LORA = ["--lora", "rank=2,alpha=8,targets=attn|mlp|fc|proj"]


def plan(**settings) -> dict:
    return {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "micro_batch": 2, "schedule": "1f1b", "chunks": 1} | settings


def meshes(first: dict, second: dict, **settings) -> dict:
    """Two stages, each with a mesh of its own."""
    groups = [{"pp": 1, "sp": "off"} | mesh for mesh in (first, second)]
    return plan(pp=2, **first, **settings) | {"stage_groups": groups}


COLUMNS, ROWS = {"dp": 1, "tp": 2, "micro_batch": 2}, {"dp": 2, "tp": 1, "micro_batch": 1}
ONE, TWO = {"dp": 1, "tp": 1, "micro_batch": 4}, {"dp": 2, "tp": 1, "micro_batch": 2}
FP16 = [*ADAMW, *CLIP, "--precision", "fp16", "--loss-scale", "8388608", "--loss-scale-growth-interval", "2"]
CASES = [
    # Adapters in fp16, whose first steps overflow, between two meshes; states are offloaded.
    Case(0, "gpt2", [*FP16, *LORA], "fp16", [
        (4, meshes(COLUMNS, ROWS, zero=3, offload="optimizer", recompute="full")),
        (4, plan(dp=2, pp=2, zero=2, schedule="zb", micro_batch=1))], "thread", True),
    # Dropout in a V on four ranks, whose chunks need slots of very different number.
    Case(1, "gpt2_dropout.pt2", [*SGD, *CLIP, "--label-smoothing", "0.1"], "fp32", [
        (4, plan(pp=4, micro_batch=1, schedule="zbv", chunks=2, recompute="selective", offload="optimizer")),
        (4, plan(dp=2, cp=2, zero=3, regather="on"))], "start", False, evaluates=True),
    # Running statistics and a mesh of one rank, then of two.
    Case(2, "resnet_norms.pt2", ["--optimizer", "sgd", "--lr", "0.001"], "fp32", [
        (3, meshes(ONE, TWO, zero=3, offload="optimizer", schedule="gpipe")),
        (4, plan(dp=4, micro_batch=1, zero=2, zero_group=2, recompute="full"))], "wait", True, evaluates=True),
    # A tied weight, and groups of microbatches that aren't full.
    Case(3, "qwen2", [*ADAMW, *CLIP], "fp32", [
        (3, plan(pp=3, micro_batch=1, schedule="interleaved", chunks=2, zero=0)),
        (3, plan(pp=3, micro_batch=1, schedule="interleaved", chunks=2, zero=0))], "start", True),
    # Frozen experts, shared out, beside adapters.
    Case(4, "moe", [*SGD, *CLIP, "--lora", "rank=2,alpha=8,targets=router|head"], "fp32", [
        (8, plan(dp=2, tp=2, ep=2, zero=2, recompute="selective")), (4, plan(pp=2, dp=2, schedule="gpipe"))], "wait", False),
    # Choices of experts that are dropped, in training and in evaluations, and a layer that stays as it is.
    Case(5, "qwen3_moe.pt2", [*ADAMW, *CLIP, "--freeze", "[.]0[.]"], "fp32", [
        (4, plan(pp=2, ep=2, schedule="zb", zero=3, capacity=0.75, overflow="drop")),
        (4, plan(dp=2, tp=2, zero=2, recompute="full", capacity=0.75, overflow="drop"))], "thread", False, evaluates=True),
]
#: Frozen norms beside a tied weight whose states are offloaded, and classes of weight 0.
ON_GPUS = Case(6, "qwen2", [*ADAMW, *CLIP, "--freeze", "norm", "--class-weights", CLASS_WEIGHTS], "fp32", [
    (4, plan(pp=2, dp=2, micro_batch=1, schedule="zb", zero=3, offload="optimizer")), (2, plan(cp=2))], "thread", False, evaluates=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model)
def test_trains_as_one_rank_does(tmp_path, case):
    assert check(case, tmp_path) == ""


def test_emulated_gpus(tmp_path):
    assert check(ON_GPUS, tmp_path, "cuda") == ""


@pytest.mark.parametrize("number", range(int(os.environ.get("DTC_COMPOSITIONS", "0"))))
def test_drawn(tmp_path, number):
    """A refusal is one line."""
    check(drawn_case(int(os.environ.get("DTC_COMPOSITIONS_SEED", "1")), number), tmp_path)
