"""A few mutations of every kind of input; `fuzzing.py` makes as many as one likes.

CI makes more of them, by a seed that it prints: DTC_FUZZ_SEED and DTC_FUZZ_CASES repeat them.
"""

import os

import pytest

import fuzzing

SEED = int(os.environ.get("DTC_FUZZ_SEED", 0))
CASES = int(os.environ.get("DTC_FUZZ_CASES", 12))
KINDS = ["bytes", "onnx", "graph", "nodes", "exported", "cluster", "plan", "plan_gpt2", "config", "flags", "problem", "artifact",
         "manifest", "program", "members", "safetensors", "header", "npz", "bin", "weights"]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unharmed")
    made = fuzzing.prepare(folder)
    fuzzing.unharmed(made, folder)
    assert sorted(made) == sorted(KINDS)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_inputs(kinds, kind, tmp_path):
    findings = fuzzing.fuzz(kind, kinds[kind], SEED, CASES, tmp_path)
    assert not findings, [f"DTC_FUZZ_SEED={SEED}", *((finding.number, finding.what) for finding in findings)]
