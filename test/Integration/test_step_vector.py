"""The numbers of a step that all ranks agree on: one sum over all ranks, which counts each gradient once."""

import json

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, call, check_call

SEQUENCE = 32
PLANS = [
    (1, "dp=1"),
    (2, "dp=2"),
    (4, "dp=2,tp=2"),
    (4, "dp=2,tp=2,zero=1,micro_batch=1"),
    (4, "dp=4,zero=3,zero_group=2"),
    (4, "pp=2,dp=2,schedule=1f1b,micro_batch=1"),
    (4, "pp=2,tp=2,schedule=zb,micro_batch=2"),
    (4, "pp=2,dp=2,zero=2,schedule=interleaved,chunks=2,micro_batch=1"),
]


def compiled(folder, devices, plan, *flags):
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", devices, "--target", "cpu", "--plan", plan, "--loss",
               "cross_entropy", "--global-batch", 8, *flags, "-o", folder / "m.dtc")
    return folder / "m.dtc"


def weights_with(folder, change):
    """The weights of the model, with a change to one of them."""
    check_call("dtc-run", compiled(folder, 1, "dp=1"), "--data", MODELS / "gpt2.data.safetensors", "--steps", 1,
               "--save-weights", folder / "w.safetensors")
    weights = load_file(folder / "w.safetensors")
    change(weights["m.transformer.wpe.weight"])
    save_file(weights, folder / "changed.safetensors")
    elements = sum(array.size for name, array in weights.items() if name != "m.lm_head.weight")
    elements -= weights["m.transformer.wpe.weight"][SEQUENCE:].size  # of positions that no sample has
    return folder / "changed.safetensors", elements


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """One weight is no number, so that no gradient is one."""
    def change(positions):
        positions[5, 3] = numpy.nan
    return weights_with(tmp_path_factory.mktemp("weights"), change)


@pytest.mark.parametrize("devices,plan", PLANS)
def test_each_element_that_is_no_number_is_counted_once(tmp_path, broken, devices, plan):
    weights, elements = broken
    artifact = compiled(tmp_path, devices, plan, "--weights", weights)
    for flags in ([], ["--processes"]) if devices == 4 else [[]]:
        outcome = call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 2, *flags)
        assert outcome.code == 6
        line = outcome.error_line()
        assert "step 1: rank " in line and "the loss is not finite: " in line, line
        assert line.endswith(f"elements of the gradients that are infinite or no numbers: {elements}"), line


def test_the_log_counts_none(tmp_path):
    log = tmp_path / "log.jsonl"
    check_call("dtc-run", compiled(tmp_path, 4, "dp=2,tp=2"), "--data", MODELS / "gpt2.data.safetensors", "--steps", 2,
               "--log", log)
    assert [json.loads(line)["nonfinite_grads"] for line in log.read_text().splitlines()] == [0, 0]


def test_one_sum_of_all_ranks(tmp_path):
    """Nothing else of a step's numbers is summed up after the backward pass."""
    for devices, plan in PLANS[2:]:
        out = check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", devices, "--target", "cpu", "--plan", plan,
                         "--loss", "cross_entropy", "--global-batch", 8, "--emit", "partition").out
        for update in out.split("func.func @update(")[1:]:
            update = update[:update.index("\n  }")]
            sums = [line for line in update.splitlines()
                    if ("all_reduce" in line or "stage_sum" in line) and line.endswith("tensor<f32>")]
            assert len(sums) == 1, (plan, sums)
