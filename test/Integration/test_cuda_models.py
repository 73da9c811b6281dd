"""The test models on 1, 2, 4 and 8 GPUs, as PyTorch trains them, and their kernels as the interpreter computes them.

A part of it always runs; `ninja -C build check-cuda` runs all (DTC_ALL_OF_CUDA=1).
"""

import os

import pytest

from conftest import MODELS, check_call, compare_steps, first, reference
from test_cuda import CUDA, FEW, emulator  # noqa: F401 (a fixture that applies by itself)
from test_pipelines import PIPELINES

LANGUAGE = ["gpt2", "gpt2_mask", "llama", "qwen2", "gpt_neox", "bert", "bert_classifier", "t5", "bart", "mistral", "mixtral", "moe"]
VISION = ["resnet_tiny", "vit", "mobilenet", "convnext"]
PLANS = [(1, "dp=1"), (2, "dp=2"), (2, "tp=2,sp=on"), (2, "tp=2,sp=off"), (4, "dp=2,tp=2"), (8, "dp=8"), (8, "dp=4,tp=2")]
IMAGE_PLANS = [(1, "dp=1"), (2, "dp=2"), (4, "dp=2,tp=2"), (8, "dp=8")]
EXPERTS = [(2, "ep=2"), (4, "ep=4"), (4, "dp=2,ep=2"), (4, "ep=2,tp=2"), (8, "dp=2,ep=4")]
PRECISIONS = ["fp32", "bf16"]
# T5's update by Adam divides by gradients that are rounding alone (test_families.py).
RECIPES = {"t5": "sgd"}
# One of T5's ReLUs that changes its sign by rounding changes the gradient's norm by so much.
NORMS = {"t5": 5e-3}
STEPS = 10 if os.environ.get("DTC_ALL_OF_CUDA") else FEW

ALWAYS = {
    ("gpt2", 8, "dp=4,tp=2"), ("llama", 2, "tp=2,sp=on"), ("qwen2", 2, "tp=2,sp=off"), ("gpt_neox", 2, "dp=2"),
    ("bert", 4, "dp=2,tp=2"), ("t5", 2, "dp=2"), ("bart", 4, "dp=2,tp=2"),
    ("mixtral", 4, "cp=2,ep=2"), ("moe", 4, "ep=2,tp=2"), ("moe", 8, "dp=2,ep=4"),
    ("resnet_tiny", 4, "dp=2,tp=2"), ("vit", 1, "dp=1"), ("mobilenet", 2, "dp=2"), ("convnext", 2, "dp=2"),
    ("llama", *PIPELINES[4]),
    ("mlp", "bf16", 1), ("gpt2", "bf16", 2), ("llama", "bf16", 4), ("mistral", "bf16", 4),
    ("mlp", "fp32"), ("gpt2", "fp32"), ("llama", "bf16"), ("moe", "bf16"),
}


def cases(*all_of_them: tuple) -> list:
    """Those that always run; the others only where all of them are wanted."""
    wanted = [case for case in all_of_them if os.environ.get("DTC_ALL_OF_CUDA") or case in ALWAYS]
    return [pytest.param(*case, id="-".join(map(str, case))) for case in wanted]


@pytest.mark.parametrize("model,devices,plan", cases(
    *((model, *plan) for model in LANGUAGE for plan in PLANS),
    *((model, *plan) for model in VISION for plan in IMAGE_PLANS),
    *((model, *plan) for model in ("moe", "mixtral") for plan in EXPERTS),
    ("mixtral", 4, "cp=2,ep=2"),
    *((model, *plan) for model in ("gpt2", "llama") for plan in PIPELINES),
))
def test_trains_as_pytorch(trainer, model, devices, plan):
    expected = reference(model, RECIPES.get(model, "adamw"))
    run = trainer.train(model, model, *CUDA, *expected["flags"], devices=devices, plan=plan, steps=STEPS)
    compare_steps(run, first(STEPS, expected), loss=1e-4, norm=NORMS.get(model, 1e-3))


BF16_PLANS = {1: "dp=1", 2: "dp=2", 4: "dp=2,tp=2", 8: "dp=4,tp=2"}


@pytest.mark.parametrize("model,recipe,devices", cases(
    *((model, "bf16", devices) for model in ("mlp", "gpt2", "llama", "mistral") for devices in BF16_PLANS)))
def test_bf16_trains_as_pytorch(trainer, model, recipe, devices):
    """The bounds of test_training.py. GPUs need no AVX-512."""
    expected = reference(model, recipe)
    run = trainer.train(model, model, *CUDA, *expected["flags"], devices=devices, plan=BF16_PLANS[devices], steps=STEPS)
    compare_steps(run, first(STEPS, expected), loss={"mlp": 6e-3}.get(model, 2e-3), norm=5e-2)


@pytest.mark.parametrize("model,precision", cases(
    *((model, precision) for model in ["mlp", *LANGUAGE] for precision in PRECISIONS),
    *((model, "fp32") for model in VISION)))
def test_kernels_compute_what_the_interpreter_does(tmp_path, model, precision):
    """Each kernel alone, on drawn inputs: fp32 within 1e-5, bf16 within its rounding."""
    kernels = tmp_path / "kernels.mlir"
    kernels.write_text(check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch", 1,
                                  "--precision", precision, *CUDA, "--emit", "schedule").out)
    assert kernels.read_text().count("exec.kernel @") > 8
    check_call("dtc-opt", "--target=cuda", kernels, "--test-run-cuda-kernels=int-low=0", "-o", "/dev/null")
