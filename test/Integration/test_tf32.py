"""--precision tf32: on GPUs, libraries round the fp32 operands of products and convolutions to TF32; all else is fp32."""

import json
import os

import pytest

from conftest import BIN, MODELS, call, case, check_call, compare_steps, reference

CUDA = ["--target", "cuda"]
#: Steps that are compared, and how closely. What is a bit off before a product may round to the neighbour, and GPT-2 and ResNet
#: make more of that with each step. PyTorch's reference sums exactly.
BOUNDS = {"mlp": (10, 1e-5, 1e-5), "gpt2": (10, 1e-4, 2e-4), "resnet_tiny": (2, 1e-6, 1e-6)}


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", os.environ.get("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator")))


def trained(trainer, model, precision, devices=1, plan="dp=1"):
    """The run, and PyTorch's in TF32 for as many steps."""
    expected = reference(model, "tf32")
    steps = BOUNDS[model][0]
    flags = [precision if flag == "tf32" else flag for flag in expected["flags"]]
    run = trainer.train(model, model, *CUDA, *flags, devices=devices, plan=plan, steps=steps)
    return run, {"steps": expected["steps"][:steps]}


@pytest.mark.parametrize("model,devices,plan", [
    ("mlp", 1, "dp=1"), ("gpt2", 1, "dp=1"), ("resnet_tiny", 1, "dp=1"), case(False, "gpt2", 2, "tp=2"),
    case(False, "gpt2", 2, "dp=2,zero=3,micro_batch=2"), ("gpt2", 2, "pp=2,dp=1,schedule=1f1b,micro_batch=2")])
def test_trains_as_pytorch(trainer, model, devices, plan):
    _, loss, norm = BOUNDS[model]
    compare_steps(*trained(trainer, model, "tf32", devices, plan), loss=loss, norm=norm)


@pytest.mark.parametrize("model", BOUNDS)
def test_fp32_rounds_nothing(trainer, model):
    """So the bounds above tell the two apart, which are within a rounding to 10 bits of each other."""
    _, loss, norm = BOUNDS[model]
    run, expected = trained(trainer, model, "fp32")
    with pytest.raises(AssertionError):
        compare_steps(run, expected, loss=loss, norm=norm)
    compare_steps(run, expected, loss=2**-10, norm=2**-10)


@pytest.mark.parametrize("command", ["compile", "plan"])
def test_processors_have_none(tmp_path, command):
    made = ["-o", tmp_path / "m.dtc"] if command == "compile" else []
    outcome = call("dtc", command, MODELS / "mlp.onnx", "--loss", "cross_entropy", "--precision", "tf32", *made)
    assert outcome.code == 2
    assert outcome.error_line().endswith("--precision tf32 is for GPUs, with --gpus N or --target cuda")
    assert not list(tmp_path.iterdir())


def planned(*flags: object) -> dict:
    return json.loads(check_call("dtc", "plan", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--global-batch", 64, "--gpus", 8,
                                 *flags, "--json").out)


@pytest.mark.parametrize("cluster,times", [("dgx-h100", 494.75 / 67), ("dgx-a100", 156 / 19.5), ("dgx-b200", 1125 / 80)])
def test_plans_have_its_rate(cluster, times):
    """The model's work is the same, so what it takes at the peak rate, MFU times the step, is as much less."""
    plans = [planned("--plan", "dp=8", "--cluster", cluster, "--precision", precision) for precision in ("fp32", "tf32")]
    exact, rounded = (plan["predicted"]["mfu"] * plan["predicted"]["step_time_s"] for plan in plans)
    assert exact / rounded == pytest.approx(times, rel=1e-6)
    memory = [plan["predicted"]["memory"] for plan in plans]
    assert memory[0] == memory[1] and plans[1]["conditions"]["precision"] == "tf32"


def test_v100s_are_refused():
    outcome = call("dtc", "plan", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--gpus", 8, "--cluster", "dgx-1", "--precision", "tf32")
    assert outcome.code == 2
    assert outcome.error_line().endswith("--cluster dgx-1: --precision tf32 needs tensor cores that its v100 hasn't got")


def test_estimates_are_those_of_fp32():
    texts = [check_call("dtc", "estimate", MODELS / "gpt2.onnx", "--cluster", "h100", "--precision", precision).out
             for precision in ("fp32", "tf32")]
    assert texts[0] == texts[1] and "fp32" in texts[0]
