"""Faults planted into partitioned steps: --verify finds every one of them on a twin of small dimensions.

The replay finds those of calls, addresses, slots and messages (test_replay.py). These are the others: sums that are lost or
made twice, ranks along a wrong axis, exchanged tensors, terms and scales. A part always runs; the target check-mutants
(DTC_WHOLE_GRID=1) plants them into all combinations of test_grid.py.
"""

import json
import os
import re
import subprocess

import pytest

from conftest import BIN, MODELS, check_call, reference
from test_grid import combinations

MUTANTS = BIN.parent / "test" / "Unit" / "verify-mutants"
BATCH = 8

SAMPLE = [
    ("gpt2", "clip", 8, "pp=2,dp=2,tp=2,zero=3,micro_batch=2,schedule=1f1b"),
    ("bart", "sgd_clip", 4, "pp=4,dp=1,schedule=zb,micro_batch=2"),
    ("moe", "clip", 4, "dp=2,ep=2,zero=1,recompute=full"),
    ("llama", "clip", 4, "cp=2,tp=2,sp=on"),
]
ALWAYS = {"dropped term", "doubled term", "stale parameter", "swapped gradients", "missing scale", "wrong operand"}


def cases():
    return combinations() if "DTC_WHOLE_GRID" in os.environ else SAMPLE


def degree(plan: str, name: str) -> int:
    found = re.search(rf"\b{name}=(\d+)", plan)
    return int(found[1]) if found else 1


def with_microbatches(devices: int, plan: str) -> tuple[str, int]:
    """The plan with its microbatches said, and how many there are."""
    ranks = devices // (degree(plan, "pp") * degree(plan, "tp") * degree(plan, "cp"))
    if "micro_batch=" not in plan:
        plan += f",micro_batch={BATCH // ranks}"
    return plan, BATCH // (ranks * degree(plan, "micro_batch"))


@pytest.mark.parametrize("model,recipe,devices,plan", cases())
def test_faults_are_found(model, recipe, devices, plan, tmp_path):
    planned = tmp_path / "planned.mlir"
    plan, calls = with_microbatches(devices, plan)
    check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", *reference(model, recipe)["flags"],
               "--devices", devices, "--plan", plan, "--global-batch", BATCH,
               "--emit", "plan", "-o", planned)
    most = os.environ.get("DTC_MUTANTS", "3")
    done = subprocess.run([MUTANTS, most, str(calls), str(int("schedule=zb" in plan)), planned],
                          capture_output=True, text=True, timeout=600)
    result = json.loads(done.stdout)
    assert result["wrong"] == ""
    assert result["missed"] == []
    assert done.returncode == 0
    kinds = set(result["planted"])
    assert ALWAYS <= kinds | {"missing scale"} and len(kinds) >= 9, kinds
    if "pp=" in plan and model == "gpt2":
        assert {"tied weight counted twice", "unsummed tied weight", "swapped activation"} <= kinds
