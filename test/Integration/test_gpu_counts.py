"""The counts of bench/gpu_counts.py, for the smallest model."""

import json
import os
import subprocess
import sys

from conftest import ROOT
from test_cuda import PTXAS


def test_counts_of_a_step(tmp_path):
    output = tmp_path / "counts.json"
    done = subprocess.run([sys.executable, ROOT / "bench" / "gpu_counts.py", "--models", "mlp.adamw", "--output", output],
                          capture_output=True, text=True, env=os.environ | {"DTC_PTXAS": str(PTXAS), "DTC_CALIBRATION": "off"})
    assert done.returncode == 0, done.stderr
    (counts,) = json.loads(output.read_text())
    assert counts["library_calls"] > 0 and counts["launches"] >= counts["kernels"] > 0
    for kind, sums in counts["kinds"].items():
        assert sums["moved"] >= sums["least"] > 0, kind
    for architecture, used in counts["registers"].items():
        assert used["spilled"] == 0 and 16 <= used["most"] <= 255, architecture
        assert 0 < used["least_occupancy"] <= used["median_occupancy"] <= 1, architecture


def test_large_kernels_ask_for_enough_at_once(tmp_path):
    """Memory keeps an H100 busy with 14 KB on their way for each multiprocessor, and not by single elements of bf16."""
    output = tmp_path / "large.json"
    done = subprocess.run([sys.executable, ROOT / "bench" / "gpu_counts.py", "--large", "--output", output],
                          capture_output=True, text=True, env=os.environ | {"DTC_PTXAS": str(PTXAS)})
    assert done.returncode == 0, done.stderr
    large = [row for row in json.loads(output.read_text()) if row["threads_per_sm"] >= 500]
    assert {"loss", "norm", "norm_grad", "bias_grad", "embedding_grad", "residual"} == {row["function"] for row in large}
    for row in large:
        assert row["spilled"] == 0 and row["in_flight"] >= 14e3 and row["asked"] >= 6 * row["loads"], row


#: Of PTX for each element; 40 bound what moves 6 bytes.
MOST_INSTRUCTIONS = {"loss_odd": 32, "loss_even": 31, "swiglu": 15, "swiglu_grad": 28, "rotary": 7, "rotary_grad": 8, "norm": 21,
                     "norm_grad": 24}


def test_kernels_take_few_instructions(tmp_path):
    output = tmp_path / "instructions.json"
    done = subprocess.run([sys.executable, ROOT / "bench" / "gpu_counts.py", "--instructions", "--output", output],
                          capture_output=True, text=True, env=os.environ | {"DTC_PTXAS": str(PTXAS)})
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())
    assert {row["function"] for row in rows} == set(MOST_INSTRUCTIONS)
    for row in rows:
        assert row["spilled"] == 0 and 0 < row["instructions"] <= MOST_INSTRUCTIONS[row["function"]], row
