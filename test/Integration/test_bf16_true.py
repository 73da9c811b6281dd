"""bf16-true: parameters, gradients and the optimizer's states are bf16, as a module of PyTorch after `.to(torch.bfloat16)`."""

import json
import os
import re
import shutil

import pytest

from conftest import BIN, MODELS, call, check_call, compare_steps, reference

#: Half of what bf16's masters, states and sums in fp32 move the losses of GPT-2 by.
LOSS, NORM = 3e-3, 2e-2
GPT2 = [
    (1, "dp=1"),
    (2, "dp=2,zero=1,micro_batch=2"),
    (2, "dp=2,zero=3,offload=optimizer"),
    (4, "dp=2,tp=2,recompute=full"),
    (2, "pp=2,schedule=1f1b,micro_batch=4"),
]


@pytest.mark.parametrize("model,devices,plan", [*(("gpt2", *each) for each in GPT2), ("llama", 4, "dp=2,tp=2"),
                                                ("mlp", 1, "dp=1")])
def test_trains_as_pytorch(trainer, model, devices, plan):
    expected = reference(model, "bf16-true")
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=LOSS, norm=NORM)


def test_the_reference_is_not_that_of_fp32_states(trainer):
    """So the bound above tells them apart."""
    expected = reference("gpt2", "bf16-true")
    flags = ["bf16" if flag == "bf16-true" else flag for flag in expected["flags"]]
    run = trainer.train("gpt2", "gpt2", *flags)
    with pytest.raises(AssertionError):
        compare_steps(run, expected, loss=LOSS, norm=NORM)


@pytest.mark.parametrize("model,devices,plan", [("mlp", 1, "dp=1"), ("gpt2", 2, "dp=2,zero=1")])
def test_emulated_gpus(trainer, monkeypatch, model, devices, plan):
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH",
                       os.environ.get("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator")))
    expected = reference(model, "bf16-true")
    run = trainer.train(model, model, "--target", "cuda", *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=LOSS, norm=NORM)


def test_nothing_of_a_parameter_is_fp32():
    """The update reads parameter, two states and gradient of each weight, all of them bf16, and no master."""
    text = check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 2, "--plan", "dp=2", "--loss", "cross_entropy",
                      "--global-batch", 8, "--precision", "bf16-true", "--emit", "train").out
    update = text.split("func.func @update")[1].split("{\n")[0]
    types = re.findall(r"%\w+: tensor<((?:\d+x)+)(\w+)>", update)
    assert len(types) == 4 * len(set(re.findall(r'role<parameter, "([^"]+)">', update))) == 32
    assert {element for _, element in types} == {"bf16"}, update


def planned(*flags: object) -> dict:
    return json.loads(check_call("dtc", "plan", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--global-batch", 8, *flags,
                                 "--json").out)


@pytest.mark.parametrize("where", [("--devices", 1), ("--gpus", 1)])
def test_a_parameter_takes_eight_bytes(where):
    """Two for itself, two for its gradient, four for Adam's averages; with masters it takes 18."""
    memory = {precision: planned(*where, "--plan", "dp=1", "--precision", precision)["predicted"]["memory"]
              for precision in ("bf16", "bf16-true")}
    pure, mixed = memory["bf16-true"], memory["bf16"]
    assert pure["parameters"] == mixed["parameters"]
    assert pure["optimizer"] == pytest.approx(mixed["optimizer"] / 3, rel=0.01)
    assert pure["gradients"] == pytest.approx(mixed["gradients"] / 2, rel=0.01)


def compiled(path, precision):
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 2, "--plan", "dp=2,zero=2", "--loss", "cross_entropy",
               "--global-batch", 8, "--precision", precision, "-o", path)
    return path


DATA = ["--data", MODELS / "mlp.data.safetensors"]


def test_checkpoints_go_on_with_the_same_bits(tmp_path):
    artifact = compiled(tmp_path / "m.dtc", "bf16-true")
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    check_call("dtc-run", artifact, *DATA, "--steps", 6, "--save-weights", whole)
    saved = ["--checkpoint-dir", tmp_path / "saved"]
    check_call("dtc-run", artifact, *DATA, "--steps", 3, *saved, "--checkpoint-every", 3)
    check_call("dtc-run", artifact, *DATA, "--steps", 6, *saved, "--resume", "--save-weights", parts)
    assert whole.read_bytes() == parts.read_bytes()


@pytest.mark.parametrize("wider", ["bf16", "fp32"])
def test_checkpoints_go_on_in_more_precision_only(tmp_path, wider):
    """bf16 weights and averages are exact in fp32, so that the next step begins with the same numbers."""
    artifacts = {precision: compiled(tmp_path / f"{precision}.dtc", precision) for precision in ("bf16-true", wider)}
    saved = {precision: ["--checkpoint-dir", tmp_path / precision] for precision in artifacts}
    for precision, artifact in artifacts.items():
        check_call("dtc-run", artifact, *DATA, "--steps", 3, *saved[precision])
    before = (tmp_path / wider / "step-3" / "checkpoint.json").read_bytes()
    refused = call("dtc-run", artifacts["bf16-true"], *DATA, "--steps", 4, *saved[wider], "--resume")
    assert refused.code == 3 and "has more precision than this artifact keeps, BF16" in refused.error_line()
    assert (tmp_path / wider / "step-3" / "checkpoint.json").read_bytes() == before
    shutil.copytree(tmp_path / "bf16-true", tmp_path / "copy")
    losses = []
    for artifact, folder in ((artifacts[wider], "copy"), (artifacts["bf16-true"], "bf16-true")):
        log = tmp_path / f"{folder}.jsonl"
        check_call("dtc-run", artifact, *DATA, "--steps", 4, "--checkpoint-dir", tmp_path / folder, "--resume", "--log", log)
        (step,) = (json.loads(line) for line in log.read_text().splitlines())
        assert step["step"] == 4
        losses.append(step["loss"])
    # fp32 computes with the same weights, but doesn't round what lies between.
    assert losses[0] == (losses[1] if wider == "bf16" else pytest.approx(losses[1], rel=2e-2))
