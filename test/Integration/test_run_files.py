"""Files of a run that get in each other's way: nothing of the user's is lost."""

import fcntl
import functools
import json
import os
import resource
import signal
import subprocess
import time

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, call, check_call, encode_model

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


def test_nothing_is_printed_into_files(files):
    """As a service manager starts a run, with stdin, stdout and stderr closed: their numbers were those of the log and the weights."""
    weights, log = files / "w.safetensors", files / "log.jsonl"
    command = [BIN / "dtc-run", files / "mlp.dtc", "--data", files / "data.safetensors", "--steps", STEPS, "--log", log,
               "--save-weights", weights]
    subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *map(str, command)], check=True)
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == list(range(1, STEPS + 1))
    assert numpy.isfinite(load_file(weights)["fc1.weight"]).all()


@pytest.mark.parametrize("devices", [1, 4])
def test_data_that_is_refused_leaves_no_file(tmp_path, devices):
    """The first step finds a label that is no class; a log of before stays as it was."""
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", devices, "--loss", "cross_entropy",
               "--global-batch", 8, "-o", tmp_path / "mlp.dtc")
    data = load_file(MODELS / "mlp.data.safetensors")
    save_file({**data, "target": data["target"] + 1000}, tmp_path / "bad.safetensors")
    (tmp_path / "old.jsonl").write_text("old\n")
    names = {path.name for path in tmp_path.iterdir()}
    for log in ("new.jsonl", "old.jsonl"):
        outcome = call("dtc-run", tmp_path / "mlp.dtc", "--data", tmp_path / "bad.safetensors", "--log", tmp_path / log,
                       "--save-weights", tmp_path / "w.safetensors", "--profile", tmp_path / "p.json",
                       "--checkpoint-dir", tmp_path / "c")
        assert outcome.code == 3 and "target" in outcome.error_line()
        assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "old.jsonl").read_text() == "old\n"


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


def test_weights_have_one_writer(files):
    """Another run is one that holds the lock of its unfinished file."""
    others = files / f"w.safetensors.partial-{os.getpid()}"
    with open(others, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        outcome = run(files, "--save-weights", files / "w.safetensors")
        assert outcome.code == 2 and "step 1" not in outcome.err
        assert "w.safetensors: another run writes this file" in outcome.error_line()
        assert others.exists() and run(files, "--save-weights", files / "v.safetensors").code == 0
    assert run(files, "--save-weights", files / "w.safetensors").code == 0


def test_outputs_go_where_links_point(tmp_path):
    """The link stays, and the artifact finds its data from where it lies."""
    (tmp_path / "runs").mkdir()
    save_file(load_file(MODELS / "mlp.data.safetensors"), tmp_path / "data.safetensors")
    (tmp_path / "latest.dtc").symlink_to("runs/1.dtc")
    (tmp_path / "w.safetensors").symlink_to("runs/1.safetensors")
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 1, "--loss", "cross_entropy", "--global-batch", 8,
               "--data", "data.safetensors", "-o", "latest.dtc", cwd=tmp_path)
    profile = tmp_path / "p.json"
    profile.symlink_to("runs/p.json")
    for artifact in ("latest.dtc", "runs/1.dtc"):
        check_call("dtc-run", artifact, "--steps", 1, "--save-weights", "w.safetensors", "--profile", profile, cwd=tmp_path)
    assert all((tmp_path / name).is_symlink() for name in ("latest.dtc", "w.safetensors", "p.json"))
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["1.dtc", "1.safetensors", "p.json"]


REFUSES_FOLDERS_THAT_ARE_THERE = """#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int mkdir(const char *path, mode_t mode) {
  if (syscall(SYS_mkdirat, -100, path, mode) == 0)
    return 0;
  errno = EACCES;
  return -1;
}"""


def test_folders_that_are_there_are_not_made(files):
    """Who asks a server's file system for one may be told that it is forbidden, not that there is one."""
    library = files / "mkdir.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", library, "-"], check=True,
                   input=REFUSES_FOLDERS_THAT_ARE_THERE, text=True)
    subprocess.run([BIN / "dtc-run", files / "mlp.dtc", "--data", files / "data.safetensors", "--steps", "1", "--checkpoint-dir",
                    files / "new/saved"], check=True, env=os.environ | {"LD_PRELOAD": str(library)})
    assert any((files / "new/saved").iterdir())


WAITS_BEFORE_A_FILE_IS_COMPLETE = """#include <unistd.h>
int fsync(int file) { for (;;) pause(); }"""


@pytest.mark.parametrize("command", [["compile", "-o", "m.dtc"], ["plan", "--save-plan", "m.yaml"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_half_written(tmp_path, command, number):
    """It comes while there is a file under the name of one that isn't complete, however slow the machine is."""
    library, folder = tmp_path / "fsync.so", tmp_path / "written"
    folder.mkdir()
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", library, "-"], check=True,
                   input=WAITS_BEFORE_A_FILE_IS_COMPLETE, text=True)
    process = subprocess.Popen([BIN / "dtc", command[0], MODELS / "mlp.onnx", "--loss", "none", *command[1:]], cwd=folder,
                               stdout=subprocess.DEVNULL, env=os.environ | {"LD_PRELOAD": str(library)})
    try:
        while not any(folder.glob("*.partial-*")):
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(number)
        assert process.wait(timeout=60) == -number and not list(folder.iterdir())
    finally:
        process.kill()
        process.wait()


EXTERNAL = """ir_version: 9 opset_import { version: 20 } graph { name: "g"
  node { op_type: "MatMul" input: "x" input: "w" output: "y" }
  initializer { name: "w" data_type: 1 dims: 2 dims: 2 data_location: EXTERNAL
    external_data { key: "location" value: "m.data" } }
  input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } dim { dim_value: 2 } } } } }
  output { name: "y" } }"""


@pytest.mark.parametrize("command", ["compile", "plan"])
@pytest.mark.parametrize("written", ["m.data", "weights/model.safetensors", "run.yaml"])
def test_files_that_others_name_are_not_written_over(tmp_path, command, written):
    """A model names its external data; --weights and --config name files with others in them."""
    encode_model(EXTERNAL, tmp_path / "m.onnx")
    (tmp_path / "m.data").write_bytes(bytes(16))
    (tmp_path / "weights").mkdir()
    save_file({"w": numpy.ones((2, 2), numpy.float32)}, tmp_path / "weights/model.safetensors")
    (tmp_path / "run.yaml").write_text("loss: mse\n")
    before = (tmp_path / written).read_bytes()
    output = ["-o" if command == "compile" else "--report", written]
    outcome = call("dtc", command, "m.onnx", "--config", "run.yaml", "--weights", "weights", *output, cwd=tmp_path)
    assert outcome.code == 2 and f"{written}: {output[0]} would write over" in outcome.error_line()
    assert (tmp_path / written).read_bytes() == before


def test_a_killed_compilation_leaves_nothing_for_ever(tmp_path):
    compile_mlp = ["dtc", "compile", MODELS / "mlp.onnx", "--loss", "cross_entropy", "-o", tmp_path / "m.dtc"]
    check_call(*compile_mlp)
    most = (tmp_path / "m.dtc").stat().st_size - 100
    (tmp_path / "m.dtc").unlink()
    # The last bytes of the artifact kill the process, as no file may be so large.
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
    killed = subprocess.run([BIN / "dtc", *map(str, compile_mlp[1:])], capture_output=True, preexec_fn=limit)
    assert killed.returncode == -signal.SIGXFSZ, killed.stderr
    assert len(list(tmp_path.iterdir())) == 1 and not (tmp_path / "m.dtc").exists()
    check_call(*compile_mlp)
    assert [path.name for path in tmp_path.iterdir()] == ["m.dtc"]


def test_a_profile_without_a_folder_is_told_before_the_run(files):
    outcome = run(files, "--profile", files / "none/p.json")
    assert outcome.code == 1 and "step 1" not in outcome.err
    assert "none/p.json: cannot write: No such file" in outcome.error_line()


@pytest.mark.parametrize("flag", ["-o", "--save-plan", "--report", "--trace"])
def test_folders_of_outputs_are_looked_at_first(tmp_path, flag):
    """Before a model is read, which would take its time: here it is none."""
    (tmp_path / "empty.onnx").touch()
    own = [] if flag == "-o" else ["-o", tmp_path / "m.dtc"]
    for path, words in ((tmp_path / "none/out", "No such file or directory"), (tmp_path, "it is a folder")):
        outcome = call("dtc", "compile", tmp_path / "empty.onnx", "--loss", "mse", *own, flag, path)
        assert outcome.code == 1
        assert f"{path}: cannot write: {words}" in outcome.error_line()


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
    assert f"--data is missing, and there is none in the artifact: dtc-run {files}/mlp.dtc --data FILE" in call(
        "dtc-run", files / "mlp.dtc").error_line()
