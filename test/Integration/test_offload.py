"""Optimizer states in the host's memory: a plan computes the same with `offload=optimizer` as without, bit by bit."""

import json
import os
import subprocess

import numpy
import pytest
from safetensors.numpy import save_file

from conftest import BIN, MODELS, case, check_call, encode_model
from test_memory import check_prediction
from test_stage_groups import plan_file

EMULATOR = BIN.parent / "lib" / "gpu-emulator"
REPLAY = BIN.parent / "test" / "Unit" / "replay-artifacts"


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


ROWS, WIDTH, CLASSES, LAYERS, TOKENS = 50000, 256, 16, 2, (8, 8)
PART = 64 << 20  # of states


def write_wide(folder, rows):
    """Looks tokens up in a table whose states are larger than a part in which they pass. It has no values yet."""
    def value(name, kind, *sizes):
        dims = " ".join(f"dim {{ dim_value: {size} }}" for size in sizes)
        return f'{{ name: "{name}" type {{ tensor_type {{ elem_type: {kind} shape {{ {dims} }} }} }} }}'

    def stored(name, *sizes):
        os.truncate(os.open(folder / name, os.O_CREAT | os.O_WRONLY), 4 * sizes[0] * sizes[1])
        return f'initializer {{ name: "{name}" data_type: 1 dims: {sizes[0]} dims: {sizes[1]} data_location: EXTERNAL ' \
               f'external_data {{ key: "location" value: "{name}" }} }}'

    layers = [f"""node {{ op_type: "MatMul" name: "layers.{i}.product" input: "x{i}" input: "layers.{i}.weight" output: "p{i}" }}
                  node {{ op_type: "Tanh" name: "layers.{i}.tanh" input: "p{i}" output: "t{i}" }}
                  node {{ op_type: "Add" name: "layers.{i}.add" input: "x{i}" input: "t{i}" output: "x{i + 1}" }}"""
              for i in range(LAYERS)]
    return encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "wide"
        input {value("ids", 7, *TOKENS)} output {value("logits", 1, *TOKENS, CLASSES)}
        {stored("table", rows, WIDTH)} {stored("head", WIDTH, CLASSES)}
        {" ".join(stored(f"layers.{layer}.weight", WIDTH, WIDTH) for layer in range(LAYERS))}
        node {{ op_type: "Gather" input: "table" input: "ids" output: "x0" }}
        {" ".join(layers)}
        node {{ op_type: "MatMul" input: "x{LAYERS}" input: "head" output: "logits" }} }}""", folder / "model.onnx")


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("wide"), numpy.random.default_rng(1)
    write_wide(folder, ROWS)
    for name in ("table", "layers.0.weight", "layers.1.weight", "head"):
        draw.normal(0, 0.1, (folder / name).stat().st_size // 4).astype("f4").tofile(folder / name)
    save_file({"ids": draw.integers(0, ROWS, (24, TOKENS[1])), "target": draw.integers(0, CLASSES, (24, TOKENS[1]))},
              folder / "data.safetensors")
    return folder


def compile_wide(folder, artifact, *flags):
    check_call("dtc", "compile", folder / "model.onnx", "--loss", "cross_entropy", "--global-batch", 8, "--lr", 1e-2, *flags,
               "-o", artifact)
    return artifact


def train_wide(folder, artifact, steps=2, *flags):
    log, weights = artifact.with_suffix(".jsonl"), artifact.with_suffix(".safetensors")
    check_call("dtc-run", artifact, "--data", folder / "data.safetensors", "--steps", steps, "--log", log, "--save-weights",
               weights, *flags)
    return [(line["loss"], line["grad_norm"]) for line in map(json.loads, log.read_text().splitlines())], weights.read_bytes()


def parts(folder, schedule, *flags) -> int:
    """Updates of parts in what is scheduled."""
    compile_wide(folder, schedule, *flags, "--emit=schedule")
    return schedule.read_text().count("dtc.slice %")


@pytest.mark.parametrize("devices,plan,flags", [
    case(False, 1, "micro_batch=4", []),
    case(False, 2, "dp=2,zero=1", ["--precision", "bf16"]),
    case(True, 2, "dp=2,zero=3", ["--precision", "fp16"]),
    case(True, 2, "pp=2,dp=1,schedule=1f1b,micro_batch=4", ["--optimizer", "adam", "--clip-grad-norm", 0.01]),
])
def test_large_parameters_pass_in_parts(wide, tmp_path, devices, plan, flags):
    common = ["--devices", devices, "--target", "cpu", "--cluster", "cpu", *flags, "--plan"]
    kept = compile_wide(wide, tmp_path / "kept.dtc", *common, plan)
    away = compile_wide(wide, tmp_path / "away.dtc", *common, plan + ",offload=optimizer")
    assert parts(wide, tmp_path / "kept.mlir", *common, plan) == 0
    assert parts(wide, tmp_path / "away.mlir", *common, plan + ",offload=optimizer") > 0
    assert train_wide(wide, kept) == train_wide(wide, away)


def test_large_parameters_are_saved_and_resumed(wide, tmp_path):
    common = ["--devices", 1, "--target", "cpu", "--cluster", "cpu", "--plan"]
    kept = compile_wide(wide, tmp_path / "kept.dtc", *common, "dp=1")
    away = compile_wide(wide, tmp_path / "away.dtc", *common, "dp=1,offload=optimizer")
    expected = train_wide(wide, kept)
    saved = ["--checkpoint-dir", tmp_path / "saved"]
    train_wide(wide, away, 1, *saved)
    losses, weights = train_wide(wide, away, 2, *saved, "--resume")
    assert losses[-1] == expected[0][1] and weights == expected[1]


@pytest.mark.parametrize("state,beside,flags", [
    (8, 8, []),
    (12, 6, ["--precision", "bf16"]),
    (4, 8, ["--optimizer", "sgd", "--momentum", 0.9]),
])
def test_a_device_holds_few_parts(tmp_path, state, beside, flags):
    """However many there are: for a larger table it has the parameter and the gradient more, and no states."""
    common = ["--loss", "cross_entropy", "--global-batch", 8, "--devices", 1, "--target", "cpu", "--cluster", "cpu", *flags,
              "--plan", "offload=optimizer"]
    found = []
    for count in (4, 7):
        model = write_wide(tmp_path, count * PART // state // WIDTH)
        check_call("dtc", "compile", model, *common, "-o", tmp_path / "m.dtc")
        found.append(inspected(tmp_path / "m.dtc"))
        check_prediction(model, *common)
    growth = {name: found[1][name][0] - found[0][name][0] for name in ("arena_bytes", "host_bytes")}
    assert growth["host_bytes"] == pytest.approx(3 * PART, rel=0.01)
    assert growth["arena_bytes"] == pytest.approx(3 * PART / state * beside, rel=0.01)


def test_replay_finds_faults_in_parts(wide, tmp_path):
    """In copies of parts as elsewhere: what is dropped, or goes to another place."""
    away = compile_wide(wide, tmp_path / "away.dtc", "--target", "cpu", "--cluster", "cpu", "--plan", "offload=optimizer")
    found = json.loads(subprocess.run([REPLAY, "40", away], capture_output=True, text=True, timeout=300).stdout)
    assert found["violation"] == "" and found["missed"] == []
    assert {"dropped instruction", "wrong address read", "wrong address written", "dropped wait"} <= set(found["planted"])


def test_large_parameters_on_emulated_gpus(wide, tmp_path, monkeypatch):
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", os.environ.get("DTC_CUDA_LIBRARY_PATH", str(EMULATOR)))
    common = ["--devices", 1, "--target", "cuda", "--plan"]
    kept = compile_wide(wide, tmp_path / "kept.dtc", *common, "dp=1")
    away = compile_wide(wide, tmp_path / "away.dtc", *common, "dp=1,offload=optimizer")
    assert train_wide(wide, kept, 1) == train_wide(wide, away, 1)


def test_parts_are_copied_at_any_moment(wide, tmp_path, monkeypatch):
    away = compile_wide(wide, tmp_path / "away.dtc", "--target", "cpu", "--cluster", "cpu", "--plan", "offload=optimizer")
    found = []
    for moment in ("start", "wait", "thread"):
        monkeypatch.setenv("DTC_COLLECTIVES", moment)
        found.append(train_wide(wide, away))
    assert found[0] == found[1] == found[2]
