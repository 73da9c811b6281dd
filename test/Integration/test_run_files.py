"""Files of a run that get in each other's way: nothing of the user's is lost."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, call, check_call

STEPS = 3


@pytest.fixture
def files(tmp_path):
    """An artifact and data of its own, which a test may lose."""
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 1, "--loss", "cross_entropy",
               "--global-batch", 8, "--lr-schedule", "linear", "--total-steps", STEPS,
               "-o", tmp_path / "mlp.dtc")
    save_file(load_file(MODELS / "mlp.data.safetensors"), tmp_path / "data.safetensors")
    return tmp_path


def run(files, *flags):
    return call("dtc-run", files / "mlp.dtc", "--data", files / "data.safetensors", "--steps", STEPS, *flags)


def test_a_full_disk_under_the_log_does_not_end_the_run(files):
    outcome = run(files, "--log", "/dev/full", "--save-weights", files / "w.safetensors")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("/dev/full: cannot be written") == 1
    assert numpy.isfinite(load_file(files / "w.safetensors")["fc1.weight"]).all()


@pytest.mark.parametrize("flag", ["--log", "--save-weights"])
@pytest.mark.parametrize("file", ["data.safetensors", "mlp.dtc"])
def test_an_output_is_no_input(files, flag, file):
    before = (files / file).read_bytes()
    outcome = run(files, flag, files / "." / file)
    assert outcome.code == 2
    assert f"{file}: {flag} would write over" in outcome.error_line()
    assert (files / file).read_bytes() == before


def test_a_killed_run_leaves_nothing_for_ever(files):
    abandoned = files / "w.safetensors.partial-4194304"  # beyond the largest process number
    abandoned.write_bytes(b"half")
    assert run(files, "--save-weights", files / "w.safetensors").code == 0
    assert not abandoned.exists()


def test_steps_beyond_the_learning_rate_are_said(files):
    assert "--total-steps" not in run(files).err
    longer = call("dtc-run", files / "mlp.dtc", "--data", files / "data.safetensors", "--steps", STEPS + 1)
    assert longer.code == 0
    assert f"its minimum at step {STEPS} (compile's --total-steps), this run has {STEPS + 1} steps" in longer.err


@pytest.mark.parametrize("flags", [["-o", "m.onnx"], ["-o", "m.dtc", "--report", "m.dtc"]])
def test_a_compilation_writes_over_nothing_that_it_reads(tmp_path, flags):
    model = (MODELS / "mlp.onnx").read_bytes()
    (tmp_path / "m.onnx").write_bytes(model)
    outcome = call("dtc", "compile", "m.onnx", "--devices", 1, "--loss", "cross_entropy", *flags, cwd=tmp_path)
    assert outcome.code == 2
    assert "would write" in outcome.error_line()
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
    assert (tmp_path / "m.onnx").read_bytes() == model


def test_a_run_takes_the_data_of_its_configuration(files):
    """They are found from the artifact, wherever the run begins."""
    config = files / "train.yaml"
    config.write_text(f"model: {MODELS / 'mlp.onnx'}\nloss: cross_entropy\nglobal_batch: 8\ndata: {files / 'data.safetensors'}\n")
    check_call("dtc", "plan", "--config", config)
    check_call("dtc", "compile", "--config", config, "-o", files / "own.dtc")
    assert "\ndata data.safetensors\n" in check_call("dtc", "inspect", files / "own.dtc").out
    moved = files / "moved"
    moved.mkdir()
    for name in ("own.dtc", "data.safetensors"):
        (files / name).rename(moved / name)
    check_call("dtc-run", moved / "own.dtc", "--steps", STEPS)
    (moved / "data.safetensors").unlink()
    outcome = call("dtc-run", moved / "own.dtc", "--steps", STEPS)
    assert outcome.code == 3 and "data.safetensors: cannot open" in outcome.error_line()
    assert call("dtc", "compile", "--config", config, "-o", files / "own.dtc").code == 3
    assert not (files / "own.dtc").exists()
    assert "--data is missing" in call("dtc-run", files / "mlp.dtc").error_line()
