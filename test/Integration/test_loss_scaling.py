"""fp16 with a scaled loss: steps that overflow are skipped by all ranks alike, and the scale is torch.amp.GradScaler's."""

import json
import os

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, Run, call, check_call, part, reference

STEPS = 10
PLANS = [
    (1, "dp=1"),
    (2, "dp=2,micro_batch=2"),
    (2, "dp=2,recompute=full,offload=optimizer"),
    (2, "cp=2"),
    (4, "dp=2,tp=2"),
    (4, "dp=2,tp=2,zero=1,micro_batch=1"),
    (4, "dp=4,zero=3,zero_group=2"),
    (4, "pp=2,dp=2,schedule=1f1b,micro_batch=1"),
    (4, "pp=2,dp=2,zero=2,schedule=interleaved,chunks=2,micro_batch=1"),
]


def compiled(folder, model: str, devices: int, plan: str, *flags: object, target: str = "cpu"):
    artifact = folder / f"{plan.replace(',', '-')}.dtc"
    check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", devices, "--target", target, "--plan", plan,
               "--loss", "cross_entropy", "--global-batch", 8, *flags, "-o", artifact)
    return artifact


def trained(artifact, model: str, *flags: object, steps: int = STEPS) -> Run:
    log, weights = artifact.with_suffix(".jsonl"), artifact.with_suffix(".safetensors")
    check_call("dtc-run", artifact, "--data", MODELS / f"{model}.data.safetensors", "--no-shuffle", "--steps", steps,
               "--log", log, "--save-weights", weights, *flags)
    return Run([json.loads(line) for line in log.read_text().splitlines()], load_file(weights), artifact)


def compare(run: Run, expected: dict, loss: float = 2e-3, norm: float = 1e-2) -> None:
    """Bounds: about what fp16's rounding moves PyTorch's own losses and norms."""
    assert [line["loss_scale"] for line in run.log] == [step["loss_scale"] for step in expected["steps"]]
    skipped = numpy.cumsum([step["grad_norm"] is None for step in expected["steps"]])
    assert run.column("skipped_steps").tolist() == skipped.tolist() and skipped[-1] > 1
    for line, step in zip(run.log, expected["steps"], strict=True):
        assert abs(line["loss"] - step["loss"]) < loss * step["loss"], line
        if step["grad_norm"] is None:
            assert line["grad_norm"] is None and line["nonfinite_grads"] > 0, line
        else:
            assert abs(line["grad_norm"] - step["grad_norm"]) < norm * step["grad_norm"], line
            assert line["nonfinite_grads"] == 0


@pytest.mark.parametrize("devices,plan", part(PLANS))
def test_trains_as_pytorch(tmp_path, devices, plan):
    expected = reference("gpt2", "fp16")
    compare(trained(compiled(tmp_path, "gpt2", devices, plan, *expected["flags"]), "gpt2"), expected)


def test_processes_compute_the_bits_of_threads(tmp_path):
    expected = reference("mlp", "fp16")
    artifact = compiled(tmp_path, "mlp", 2, "dp=2", *expected["flags"])
    threads = trained(artifact, "mlp")
    compare(threads, expected)
    processes = trained(artifact, "mlp", "--processes")
    for key in ("loss", "grad_norm", "loss_scale", "skipped_steps"):
        assert threads.column(key).tolist() == processes.column(key).tolist()


@pytest.mark.parametrize("model,devices,plan", [("mlp", 1, "dp=1"), ("gpt2", 2, "dp=2,zero=1"),
                                                ("gpt2", 2, "pp=2,schedule=1f1b,micro_batch=4")])
def test_emulated_gpus(tmp_path, monkeypatch, model, devices, plan):
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH",
                       os.environ.get("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator")))
    expected = reference(model, "fp16")
    compare(trained(compiled(tmp_path, model, devices, plan, *expected["flags"], target="cuda"), model), expected)


def test_skipped_steps_write_nothing(tmp_path):
    """Neither weights nor moments: the first step that isn't skipped is Adam's first."""
    flags = reference("mlp", "fp16")["flags"]
    artifact = compiled(tmp_path, "mlp", 2, "dp=2,zero=1", *flags)
    initial, after = trained(artifact, "mlp", steps=1), trained(artifact, "mlp", steps=3)
    assert initial.weights.keys() == after.weights.keys()
    assert not [name for name in after.weights if name.startswith("dtc.")]
    for name, value in initial.weights.items():
        assert numpy.array_equal(value, after.weights[name]), name
    moved = trained(artifact, "mlp", steps=4).weights
    assert any(not numpy.array_equal(value, moved[name]) for name, value in initial.weights.items())


@pytest.mark.parametrize("devices,plan", [(2, "dp=2"), (2, "pp=2,schedule=1f1b,micro_batch=4")])
def test_checkpoints_keep_the_scale(tmp_path, devices, plan):
    """The run stops between two steps after which the scale grows. Under the same plan it goes on with the same bits."""
    flags = reference("gpt2", "fp16")["flags"]
    artifact = compiled(tmp_path, "gpt2", 2, "dp=2", *flags)
    through = trained(artifact, "gpt2")
    trained(artifact, "gpt2", "--checkpoint-dir", tmp_path / "kept", steps=5)
    other = compiled(tmp_path, "gpt2", devices, plan, *flags)
    resumed = trained(other, "gpt2", "--checkpoint-dir", tmp_path / "kept", "--resume")
    resumed.log = resumed.log[-5:]  # the log of the same artifact has the steps before, too
    for key in ("loss_scale", "skipped_steps"):
        assert resumed.column(key).tolist() == through.column(key).tolist()[5:]
    if plan == "dp=2":
        assert resumed.column("loss").tolist() == through.column("loss").tolist()[5:]
        assert all(numpy.array_equal(value, resumed.weights[name]) for name, value in through.weights.items())
    else:
        assert numpy.allclose(resumed.column("loss"), through.column("loss")[5:], rtol=2e-3)
    single = compiled(tmp_path, "gpt2", 1, "dp=1", "--optimizer", "adamw")
    refused = call("dtc-run", single, "--data", MODELS / "gpt2.data.safetensors", "--no-shuffle", "--steps", 10,
                   "--checkpoint-dir", tmp_path / "kept", "--resume")
    assert refused.code == 3 and "has what the artifact doesn't train: dtc.clean_steps" in refused.error_line()


def test_a_run_ends_where_each_step_overflows(tmp_path):
    weights = load_file(MODELS / "mlp.adamw.final.safetensors")
    weights["fc1.bias"][0] = float("nan")
    save_file(weights, tmp_path / "w.safetensors")
    artifact = compiled(tmp_path, "mlp", 2, "dp=2", "--precision", "fp16", "--loss-scale", 2**-60, "--weights",
                        tmp_path / "w.safetensors")
    outcome = call("dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", "--steps", 100)
    assert outcome.code == 6
    assert "step 67: rank " in outcome.err and "scale of the loss has become nothing" in outcome.error_line()


@pytest.mark.parametrize("flags,said", [
    (["--loss-scale", 1024], "--loss-scale is for training with --precision fp16"),
    (["--precision", "bf16", "--loss-scale-growth-interval", 5],
     "--loss-scale-growth-interval is for training with --precision fp16"),
    (["--precision", "fp16", "--loss-scale", 0], "--loss-scale must be from 2^-64 to 2^64"),
    (["--precision", "fp16", "--loss-scale", "nan"], "--loss-scale must be from 2^-64 to 2^64"),
    (["--precision", "fp16", "--loss-scale-growth-interval", 0],
     "--loss-scale-growth-interval must be from 1 to 16777216"),
])
def test_refusals(tmp_path, flags, said):
    outcome = call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 1, "--loss", "cross_entropy", *flags, "-o",
                   tmp_path / "m.dtc")
    assert outcome.code == 2 and said in outcome.error_line()


def test_config_has_the_names_of_lightning(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("precision: 16-mixed\nloss_scale: 1024\nloss_scale_growth_interval: 2\n")
    run = trained(compiled(tmp_path, "mlp", 1, "dp=1", "--config", config), "mlp", steps=2)
    assert run.column("loss_scale").tolist() == [1024, 2048]
