"""Pipelines without a backward pass (`--loss none`): what stages compute is what one rank computes."""

import json
import os
import re
import subprocess

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, check_call, encode_model
from test_hostile import node, value
from test_mutants import MUTANTS

EMULATOR = BIN.parent / "lib" / "gpu-emulator"


def compiled(folder, model, devices, plan, *flags):
    artifact = folder / "m.dtc"
    done = check_call("dtc", "compile", model, "--loss", "none", "--devices", devices, "--plan", plan, "-o", artifact, *flags)
    return artifact, done.out


def outputs(artifact, data, *flags, **kwargs):
    written = artifact.with_suffix(".safetensors")
    check_call("dtc-run", artifact, "--data", data, "--no-shuffle", "--outputs", written, *flags, **kwargs)
    return load_file(written)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Outputs of one rank, by model."""
    known = {}

    def compute(model):
        if model not in known:
            folder = tmp_path_factory.mktemp(model)
            artifact, _ = compiled(folder, MODELS / f"{model}.onnx", 1, "dp=1", "--global-batch", 8)
            known[model] = outputs(artifact, MODELS / f"{model}.data.safetensors")
        return known[model]
    return compute


def expect_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, whole in expected.items():
        assert found[name].shape == whole.shape, name
        assert abs(found[name] - whole).max() < 1e-5 * abs(whole).max(), name


@pytest.mark.parametrize("model,devices,plan", [
    ("gpt2", 2, "pp=2,dp=1,micro_batch=1"),
    ("llama", 4, "pp=4,dp=1,schedule=gpipe,micro_batch=2"),
    ("gpt2", 4, "pp=2,dp=2,schedule=interleaved,chunks=2,micro_batch=2"),
    ("llama", 4, "pp=2,tp=2,schedule=zbv,micro_batch=2"),
    ("bart", 4, "pp=4,dp=1,schedule=list,micro_batch=4"),       # decoders read the encoder's result
    ("resnet_tiny", 2, "pp=2,dp=1,schedule=zb,micro_batch=4"),  # skip connections
])
def test_stages_give_what_one_rank_gives(tmp_path, alone, model, devices, plan):
    """By every schedule; the ranks of the plan were compared with one before, too, and all programs replayed."""
    artifact, said = compiled(tmp_path, MODELS / f"{model}.onnx", devices, plan, "--global-batch", 8)
    assert ("not verified" in said) == (model == "resnet_tiny")  # whose small form takes too long
    found = outputs(artifact, MODELS / f"{model}.data.safetensors")
    expect_equal(found, alone(model))
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes()
        for name, array in outputs(artifact, MODELS / f"{model}.data.safetensors", "--processes").items()}


@pytest.mark.parametrize("plan", ["pp=2,dp=1,micro_batch=2", "pp=2,tp=2,micro_batch=4"])
def test_gpus_give_it_too(tmp_path, alone, plan):
    devices = 4 if "tp=2" in plan else 2
    artifact, _ = compiled(tmp_path, MODELS / "gpt2.onnx", devices, plan, "--global-batch", 8, "--target", "cuda")
    emulated = {"DTC_CUDA_LIBRARY_PATH": str(EMULATOR)} | os.environ
    expect_equal(outputs(artifact, MODELS / "gpt2.data.safetensors", env=emulated), alone("gpt2"))


def test_each_stage_writes_its_outputs(tmp_path):
    """Of the first stage, of the second, and an input that is returned as it came; the last samples are ragged."""
    text = f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "g"
        input {value("x", 4, 8)} output {value("early", 4, 8)} output {value("same", 4, 8)} output {value("y", 4, 8)}
        {node("Tanh", "x", "early")} {node("MatMul", "early table", "h")} {node("Identity", "x", "same")}
        {node("Softmax", "h", "s", axis=1)} {node("MatMul", "s table", "y")}
        initializer {{ name: "table" data_type: 1 dims: 8 dims: 8 {" ".join(f"float_data: {i % 5 - 2}" for i in range(64))} }} }}"""
    model, table = encode_model(text, tmp_path / "m.onnx"), numpy.array([i % 5 - 2 for i in range(64)], numpy.float32)
    x = numpy.random.default_rng(0).normal(size=(10, 8)).astype(numpy.float32)
    save_file({"x": x}, tmp_path / "data.safetensors")
    artifact, _ = compiled(tmp_path, model, 2, "pp=2,dp=1,micro_batch=1", "--global-batch", 4)
    found = outputs(artifact, tmp_path / "data.safetensors")
    table, early = table.reshape(8, 8), numpy.tanh(x)
    scores = numpy.exp(early @ table)
    expect_equal(found, {"early": early, "same": x, "y": scores / scores.sum(axis=1, keepdims=True) @ table})


@pytest.mark.parametrize("model,plan", [("gpt2", "pp=2,dp=1,micro_batch=1"), ("llama", "pp=4,dp=1,micro_batch=1"),
                                        ("gpt2", "pp=2,dp=1,schedule=interleaved,chunks=2,micro_batch=1")])
def test_memory_is_as_predicted(model, plan):
    devices = 4 if "pp=4" in plan else 2
    flags = ["--loss", "none", "--devices", devices, "--plan", plan, "--global-batch", 32]
    answer = json.loads(check_call("dtc", "plan", MODELS / f"{model}.onnx", *flags, "--json").out)
    scheduled = check_call("dtc", "compile", MODELS / f"{model}.onnx", *flags, "--emit", "schedule").out
    arena = max(map(int, re.findall(r"exec\.arena_bytes = (\d+)", scheduled)))
    assert arena == pytest.approx(answer["predicted"]["peak_memory_bytes"], rel=0.05)


def test_faults_are_found(tmp_path):
    """Planted into the partitioned stages, as test_mutants.py does it with steps that train."""
    planned = tmp_path / "planned.mlir"
    check_call("dtc", "compile", MODELS / "bart.onnx", "--loss", "none", "--devices", 4, "--plan", "pp=2,tp=2,sp=off,micro_batch=4",
               "--global-batch", 8, "--emit", "plan", "-o", planned)
    done = subprocess.run([MUTANTS, "3", "2", "0", planned], capture_output=True, text=True, timeout=600)
    result = json.loads(done.stdout)
    assert (result["wrong"], result["missed"], done.returncode) == ("", [], 0)
    assert {"missing scale", "swapped message"} <= set(result["planted"]), result["planted"]


def test_what_splits_the_backward_pass_isnt_chosen():
    answer = json.loads(check_call("dtc", "plan", MODELS / "gpt2.onnx", "--loss", "none", "--gpus", 4, "--plan", "pp=4",
                                   "--global-batch", 32, "--json").out)
    assert answer["plan"]["schedule"] in ("1f1b", "interleaved")
    assert all(stage["backward_s"] == 0 for stage in answer["stages"])
