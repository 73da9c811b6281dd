"""A few mutations of every kind of input; `fuzzing.py` makes as many as one likes."""

import pytest

import fuzzing

KINDS = ["bytes", "onnx", "graph", "cluster", "plan", "plan_gpt2", "config", "problem", "artifact",
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
    findings = fuzzing.fuzz(kind, kinds[kind], 0, 12, tmp_path)
    assert not findings, [(finding.number, finding.what) for finding in findings]
