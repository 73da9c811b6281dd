"""Recomputation: the backward pass computes again what the forward pass computed, in less memory."""

import pytest

from conftest import MODELS, case, compare_steps, reference
from test_memory import arena_bytes, check_prediction

ROWS = [
    ("gpt2", "adamw", 1, "dp=1"),
    ("gpt2", "adamw", 2, "dp=2"),
    ("gpt2", "adamw", 2, "tp=2,sp=off"),
    ("llama", "adamw", 4, "dp=2,tp=2,micro_batch=2"),
    ("t5", "sgd", 2, "tp=2"),
    ("bart", "adamw", 1, "dp=1"),
    ("gpt2_mask", "adamw", 2, "tp=2"),
    ("resnet_tiny", "adamw", 2, "dp=2"),
    ("mixtral", "adamw", 1, "micro_batch=4"),
]


def kinds(rows):
    """Each row always with one of both."""
    return [case(kind == ("full", "selective")[number % 2], *row, kind) for kind in ("full", "selective") for number, row in enumerate(rows)]


@pytest.mark.parametrize("model,recipe,devices,plan,kind", kinds(ROWS))
def test_trains_as_pytorch_does(trainer, model, recipe, devices, plan, kind):
    expected = reference(model, recipe)
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=f"{plan},recompute={kind}")
    compare_steps(run, expected)


@pytest.mark.parametrize("model,devices,plan", [
    ("gpt2", 2, "pp=2,dp=1,schedule=1f1b,micro_batch=1,recompute=full"),
    ("gpt2", 2, "pp=2,dp=1,schedule=interleaved,chunks=2,micro_batch=1,recompute=full"),
    ("gpt2", 4, "pp=2,tp=2,schedule=gpipe,micro_batch=2,recompute=selective"),
    ("llama", 4, "pp=4,dp=1,schedule=zb,micro_batch=1,recompute=full"),
    ("llama", 4, "pp=2,dp=2,schedule=zb,micro_batch=1,recompute=selective"),
    ("bart", 4, "pp=4,dp=1,schedule=1f1b,micro_batch=1,recompute=full"),
])
def test_pipelines_train_as_pytorch_does(trainer, model, devices, plan):
    expected = reference(model, "adamw")
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("kind", ["full", "selective"])
@pytest.mark.parametrize("model,precision,steps", [("gpt2", "fp32", 10), ("gpt2", "bf16", 3), ("llama", "fp32", 3),
                                                   ("resnet_tiny", "fp32", 3)])
def test_numbers_are_those_of_a_run_that_keeps_all(trainer, model, precision, steps, kind):
    """Bitwise, also where a clone is in one kernel with other ops than the original."""
    flags = [*reference(model, "adamw")["flags"], "--precision", precision]
    kept, again = (trainer.train(model, model, *flags, devices=2, plan=f"dp=2,recompute={what}", steps=steps)
                   for what in ("none", kind))
    for key in ("loss", "grad_norm"):
        assert again.column(key).tolist() == kept.column(key).tolist(), key
    for name, weight in kept.weights.items():
        assert weight.tobytes() == again.weights[name].tobytes(), name


def flags_of(model: str, devices: int, plan: str, *flags: object) -> list:
    return [MODELS / f"{model}.onnx", "--devices", devices, "--target", "cpu", "--loss", "cross_entropy",
            "--global-batch", 8, "--plan", plan, *flags]


@pytest.mark.parametrize("model,devices,plan,precision,kind", kinds([
    ("gpt2", 2, "dp=2", "fp32"), ("gpt2", 4, "dp=2,tp=2", "bf16"), ("llama", 2, "tp=2", "fp32"),
    ("t5", 2, "tp=2", "fp32"), ("resnet_tiny", 2, "dp=2", "fp32"), ("mixtral", 4, "tp=4", "fp32"),
]))
def test_memory_is_what_was_predicted(model, devices, plan, precision, kind):
    flags = flags_of(model, devices, f"{plan},recompute={kind}", "--precision", precision)
    check_prediction(*flags)


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_an_activation_takes_no_place_beside_its_gradient(model):
    """Both are computed in one kernel, in the places of what it reads. Two places more would be 7 % of a rank's memory."""
    check_prediction(*flags_of(model, 1, "dp=1,recompute=full"), most=0.01)


def test_memory_falls():
    """Of two layers' activations those of one are there at a time."""
    need = {kind: arena_bytes(*flags_of("gpt2", 1, f"dp=1,recompute={kind}")) for kind in ("none", "selective", "full")}
    assert need["full"] < 0.7 * need["none"] and need["full"] < need["selective"] < need["none"]
