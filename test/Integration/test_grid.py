"""Plans times models: every composition trains as PyTorch does, with clipping active in every step and ragged targets.

All of them run by the target check-grid, a part always. docs/Testing.md says what the whole showed.
"""

import zlib

import numpy
import pytest

from conftest import case, reference
from trained_weights import compare_with_one_rank, compare_with_pytorch

PLANS = {
    2: [
        "dp=2",
        "dp=1,tp=2",
        "dp=2,zero=1,micro_batch=2",
        "dp=2,zero=2,micro_batch=1",
        "dp=2,zero=3,micro_batch=2",
        "dp=2,recompute=full,micro_batch=2",
        "dp=1,tp=2,recompute=selective",
        "cp=2,dp=1,recompute=full",
        "pp=2,dp=1,schedule=gpipe,micro_batch=2",
        "pp=2,dp=1,schedule=1f1b,micro_batch=1",
        "pp=2,dp=1,schedule=zb,micro_batch=1",
        "pp=2,dp=1,schedule=1f1b,micro_batch=2,recompute=full",
    ],
    4: [
        "dp=4,zero=3,micro_batch=1",
        "dp=4,zero=3,zero_group=2",
        "dp=4,zero=2,zero_group=2,micro_batch=1,recompute=full",
        "dp=2,tp=2,zero=1,micro_batch=2",
        "dp=2,tp=2,zero=3,recompute=full,micro_batch=2",
        "dp=1,tp=4",
        "dp=2,cp=2,zero=2,micro_batch=1",
        "cp=2,tp=2,sp=on",
        "pp=2,dp=2,schedule=gpipe,micro_batch=1",
        "pp=2,dp=2,zero=3,schedule=1f1b,micro_batch=1",
        "pp=2,dp=2,zero=2,schedule=zb,micro_batch=1",
        "pp=2,tp=2,schedule=1f1b,micro_batch=2",
        "pp=2,tp=2,schedule=zb,micro_batch=2,recompute=full",
        "pp=4,dp=1,schedule=1f1b,micro_batch=1",
        "dp=2,cp=2,cp_by=ring,zero=2,micro_batch=1",
        "cp=4,dp=1,cp_by=ring,recompute=full,micro_batch=2",
    ],
    8: [
        "dp=8,zero=3",
        "dp=4,tp=2,zero=2,micro_batch=1",
        "pp=2,dp=2,tp=2,schedule=1f1b,micro_batch=1",
        "pp=2,dp=2,tp=2,zero=3,schedule=zb,micro_batch=1",
        "pp=2,dp=2,cp=2,zero=3,schedule=zb,micro_batch=1,recompute=full",
        "dp=2,cp=2,tp=2,zero=1,micro_batch=2",
        "pp=2,dp=4,zero=1,schedule=gpipe,micro_batch=1",
        "pp=4,dp=2,zero=2,schedule=1f1b,micro_batch=1,recompute=full",
        "pp=2,dp=2,cp=2,cp_by=ring,zero=3,schedule=zb,micro_batch=1",
        "cp=4,tp=2,dp=1,sp=on,cp_by=ring",
        "dp=2,cp=2,tp=2,cp_by=heads,zero=3,micro_batch=2",
        "pp=2,dp=2,cp=2,cp_by=heads,zero=2,schedule=1f1b,micro_batch=1",
    ],
}
EXPERTS = [(2, "dp=1,ep=2"), (4, "dp=2,ep=2,zero=1"), (4, "dp=2,ep=2,zero=3,recompute=full"), (8, "dp=2,ep=2,tp=2")]
CHOSEN_EXPERTS = [(4, "dp=1,ep=4"), (4, "dp=1,cp=2,ep=2,micro_batch=2"), (8, "dp=2,cp=2,ep=2,zero=2"), (8, "cp=2,ep=2,tp=2,zero=1"),
                  (8, "pp=2,dp=1,cp=2,ep=2,schedule=1f1b,micro_batch=1")]
MODELS = ["gpt2", "llama", "bart", "t5", "mixtral", "moe", "resnet_tiny"]
# What a model's shapes rule out, or what `dtc compile` refuses for it.
NOT_SPLIT = {"resnet_tiny": ("tp=", "cp=")}
SHARE = 14  # one of so many runs always


def combinations():
    """Model, recipe, ranks and plan; the recipe alternates."""
    for model in MODELS:
        plans = [(devices, plan) for devices, each in PLANS.items() for plan in each]
        plans += EXPERTS if model in ("moe", "mixtral") else []
        plans += CHOSEN_EXPERTS if model == "mixtral" else []
        for number, (devices, plan) in enumerate(plans):
            if not any(axis in plan for axis in NOT_SPLIT.get(model, ())):
                yield model, ("clip", "sgd_clip")[number % 2], devices, plan


def is_chosen(*values: object) -> bool:
    return zlib.crc32(repr(values).encode()) % SHARE == 0


@pytest.mark.parametrize("model,recipe,devices,plan", [case(is_chosen(*each), *each) for each in combinations()])
def test_composition(trainer, model, recipe, devices, plan):
    expected = reference(model, recipe)
    assert min(step["grad_norm"] for step in expected["steps"]) > 0.25  # all are clipped
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    for key in ("loss", "grad_norm"):
        want = numpy.array([step[key] for step in expected["steps"]])
        assert numpy.abs(run.column(key) / want - 1).max() < 1e-5, key
    compare_with_pytorch(run.weights, model, recipe)
    alone = trainer.train(model, model, *expected["flags"])
    compare_with_one_rank(run.weights, alone.weights, model, recipe)
