"""Each model comes in through each door that it fits, and trains as in PyTorch. `check-doors` runs this."""

import functools
import os
import pathlib

import pytest
from doors import BATCH, DOORS, MODELS_TO_PASS, losses

import dtc

#: Models that aren't of transformers have no folder.
ALONE = {"resnet18", "moe", "mlp"}
COMBINATIONS = [(model, door) for model in MODELS_TO_PASS for door in DOORS if door != "hf" or model not in ALONE]
READER = pathlib.Path(os.environ.get("DTC_TORCHSCRIPT", dtc.__path__[0] + "/../../bin/dtc-torchscript"))


@functools.cache
def case_of(model: str):
    """The model, its batches and PyTorch's losses."""
    case = MODELS_TO_PASS[model]()
    return case, losses(case)


@pytest.mark.parametrize("model,door", COMBINATIONS, ids=["-".join(each) for each in COMBINATIONS])
def test_losses_are_pytorchs(model, door, tmp_path):
    if door == "torchscript" and not READER.exists():
        pytest.skip("dtc-torchscript isn't built: scripts/torchscript.sh")
    case, expected = case_of(model)
    asked = DOORS[door](case, tmp_path)
    for devices, plan in ((1, "dp=1"), (4, "dp=2,tp=2")):
        program = dtc.parallelize(**asked, loss="cross_entropy", optimizer=dtc.AdamW(lr=case.rate), devices=devices,
                                  target="cpu", global_batch=BATCH, plan=plan, threads_per_rank=1)
        assert program.devices == devices
        got = [program.step(batch).loss for batch in case.batches]
        assert got == pytest.approx(expected, rel=1e-4), (devices, got, expected)
        assert got[0] != got[-1]
