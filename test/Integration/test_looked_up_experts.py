"""Mixtures of transformers whose tokens look up their experts train as PyTorch does, whatever the plan is.

Beside Mixtral (test_capacity.py, test_grid.py): OLMoE, Qwen2-MoE with a shared expert, Qwen3-MoE with a dense layer, and GPT-OSS with
biases, clamped gates, attention sinks and windows. Without any one of these PyTorch's own losses move by 6e-4 and more in three steps.
"""

import json
import os

import pytest

from conftest import BIN, case, check_call, compare_steps, first, reference

BOUND = 2e-5  # as in test_families.py
MIXTURES = ["olmoe", "qwen2_moe", "qwen3_moe", "gpt_oss"]
PLANS = [(2, "dp=1,ep=2"), (2, "tp=2"), (2, "dp=2,zero=3"), (2, "pp=2")]
#: Each with another mixture.
TOGETHER = [("olmoe", 4, "dp=1,tp=2,ep=2"), ("qwen2_moe", 4, "pp=2,dp=1,ep=2,schedule=zb,micro_batch=2"),
            ("qwen3_moe", 4, "dp=2,tp=2,zero=2,recompute=full"), ("gpt_oss", 4, "dp=1,cp=2,ep=2")]


def trains(trainer, model, devices, plan, *flags, recipe="adamw", steps=10, loss=BOUND, norm=BOUND):
    expected = reference(model, recipe)
    run = trainer.train(f"{model}.pt2", model, *flags, *expected["flags"], devices=devices, plan=plan, steps=steps)
    compare_steps(run, first(steps, expected), loss=loss, norm=norm)


@pytest.mark.parametrize("model,recipe", [
    case(recipe == ("adamw", "sgd")[number % 2], model, recipe) for recipe in ("adamw", "sgd") for number, model in enumerate(MIXTURES)])
def test_one_rank(trainer, model, recipe):
    trains(trainer, model, 1, "dp=1", recipe=recipe)


@pytest.mark.parametrize("model,devices,plan", [
    case((first + second) % 2 == 0, model, *each) for first, model in enumerate(MIXTURES) for second, each in enumerate(PLANS)])
def test_a_plan_of_each_kind(trainer, model, devices, plan):
    trains(trainer, model, devices, plan)


@pytest.mark.parametrize("model,devices,plan", TOGETHER)
def test_plans_together(trainer, model, devices, plan):
    trains(trainer, model, devices, plan)


@pytest.mark.parametrize("model,devices,plan", [("olmoe", 1, "dp=1"), ("qwen2_moe", 2, "dp=1,ep=2"), ("qwen3_moe", 2, "dp=2,zero=3"),
                                                ("gpt_oss", 2, "tp=2")])
def test_emulated_gpus(trainer, model, devices, plan, monkeypatch):
    if "DTC_CUDA_LIBRARY_PATH" not in os.environ:
        monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator"))
    trains(trainer, model, devices, plan, "--target", "cuda", steps=4, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("model,layers", [("olmoe", 2), ("qwen2_moe", 2), ("qwen3_moe", 1), ("gpt_oss", 2)])
def test_experts_are_shared_out(trainer, model, layers):
    """What is looked up is raised to products of experts, in every layer that has them: ep sends tokens, and gathers no weights.
    Biases of experts stay whole."""
    expected = reference(model, "adamw")
    run = trainer.train(f"{model}.pt2", model, *expected["flags"], devices=2, plan="dp=1,ep=2")
    found = json.loads(check_call("dtc", "inspect", run.artifact, "--json").out)
    assert found["collectives"]["all_to_all"] == 5 * layers and found["collectives"]["all_gather"] == 0
    shared = [parameter["name"] for parameter in found["parameters"] if parameter["sharding"] and parameter["sharding"][0] == ["ep"]]
    assert len(shared) == 2 * layers and all(name.endswith((".experts.gate_up_proj", ".experts.down_proj")) for name in shared)
