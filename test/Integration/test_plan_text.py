"""What `dtc plan` prints for people: tables that can be read, and warnings."""

import re

from conftest import MODELS, ROOT, call, check_call, encode_model

JOB = ["dtc", "plan", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--global-batch", 8192]


def test_columns_stay_apart_however_many_devices_there_are():
    text = check_call(*JOB, "--gpus", 16384, "--plan", "dp=8192,pp=2").out
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("stage "))
    rows = [re.split(r"\s{2,}", line) for line in lines[begin:begin + 3]]
    assert rows[0] == ["stage", "layers", "devices", "parameters", "memory", "of capacity", "forward",
                       "backward"]
    assert all(len(row) == len(rows[0]) for row in rows), rows
    # Neighbours are stages here: each has every second device.
    assert [row[2] for row in rows[1:]] == ["0,2,..,16382", "1,3,..,16383"] or \
        [row[2] for row in rows[1:]] == ["0-8191", "8192-16383"], rows


def test_warns_of_degrees_that_split_little():
    told = call(*JOB, "--devices", 11, "--plan", "tp=11", "--eps", 0)  # which pads nothing
    assert told.code == 0
    assert "warning: ranks repeat each other's work" in told.err and "11.0 times" in told.err, told.err
    assert "whole: on each rank of tp, which repeat each other's work" in told.out
    assert call(*JOB, "--devices", 4, "--plan", "tp=4").err == ""


def test_warns_once_of_a_model_that_is_read_twice(tmp_path):
    """Without a global batch the file says its own, for which it is read first."""
    model = encode_model((ROOT / "test/Import/Inputs/merged_identity.txtpb").read_text(), tmp_path / "m.onnx")
    told = call("dtc", "plan", model, "--devices", 2)
    assert told.code == 0 and told.err.count("are one tensor") == 1, told.err


def test_warns_of_a_precision_that_the_devices_havent_got():
    options = ["--gpus", 8, "--precision", "bf16", "--plan", "dp=8"]
    assert "warning: v100 can't compute in bf16" in call(*JOB, *options, "--cluster", "dgx-1").err
    assert call(*JOB, *options, "--cluster", "dgx-a100").err == ""
