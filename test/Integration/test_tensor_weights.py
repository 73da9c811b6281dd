"""tp means what people expect, or the table says what it means."""

import json

import llama_graph
import pytest

from conftest import MODELS, check_call

JOB = ["dtc", "plan", MODELS / "gpt2.onnx", "--gpus", 2, "--loss", "cross_entropy", "--global-batch", 64]
MATRICES = ["attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight", "lm_head.weight"]


def rows(out: str) -> dict[str, str]:
    """The lines of weight matrices by their names."""
    return {name: line for name in MATRICES for line in out.splitlines() if name + " " in line}


def test_whole_weights_are_told():
    """The weights of a small model are whole: moving them costs more than moving activations."""
    out = check_call(*JOB, "--plan", "tp=2").out
    told = rows(out)
    assert len(told) == len(MATRICES)
    whole = [name for name, line in told.items() if "  whole" in line]
    assert whole and whole == [name for name, line in told.items() if '"tp"' not in line]
    assert "tp_weights=split cuts such weights" in out


@pytest.mark.parametrize("target", ["gpus", "devices"])
def test_weights_can_be_split(target, tmp_path):
    job = [f"--{target}" if word == "--gpus" else word for word in JOB]
    out = check_call(*job, "--plan", "tp=2,tp_weights=split", "--save-plan", tmp_path / "plan.yaml").out
    assert all('"tp"' in line and "whole" not in line for line in rows(out).values()), out
    assert "tp_weights=split cuts" not in out and " tp_weights=split" in out
    again = json.loads(check_call(*job, "--plan", tmp_path / "plan.yaml", "--json").out)
    assert again["plan"]["tp_weights"] == "split"
    anew = json.loads(check_call(*job, "--plan", "tp=2", "--json").out)
    assert anew["plan"]["tp_weights"] == "any"
    assert anew["predicted"]["step_time_s"] <= again["predicted"]["step_time_s"] * 1.001


def test_split_weights_train_as_whole_ones_do(tmp_path):
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--loss", "cross_entropy", "--global-batch", 8,
               "--plan", "tp=2,tp_weights=split", "--verify", "-o", tmp_path / "gpt2.dtc")


def test_a_pinned_zero_1_is_shared_by_all_of_dp(tmp_path):
    model = llama_graph.write(tmp_path / "llama.onnx", llama_graph.Llama(8, 2048, 16, 16, 5632, 32000, 1024))
    job = ["dtc", "plan", model, "--gpus", 32, "--global-batch", 32, "--precision", "bf16", "--json"]
    def group(plan):
        return json.loads(check_call(*job, "--plan", plan).out)["plan"]["zero_group"]
    assert group("dp=32,zero=1") == 32
    assert group("dp=32,zero=1,zero_group=8") == 8


def test_estimates_of_tp_split_weights(tmp_path):
    size = llama_graph.Llama(8, 1024, 16, 16, 2816, 32000, 512)
    model = llama_graph.write(tmp_path / "llama.onnx", size)
    answer = json.loads(check_call("dtc", "estimate", model, "--cluster", "dgx-h100", "--gpus", 8, "--json").out)
    full = answer["jobs"][0]["configurations"]["plans"]
    ways = [way for way in full if way["plan"]["tp"] == 8]
    assert ways and all(way["plan"]["tp_weights"] == "split" for way in ways)
    matrices = size.parameters - (2 * size.layers + 1) * size.hidden - size.vocabulary * size.hidden
    for way in ways:  # norms and the embedding may be whole
        assert way["memory"]["parameters"] <= 2 * (size.parameters - matrices + matrices / 8)
