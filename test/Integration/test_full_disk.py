"""A disk that is full leaves nothing half-written: on a tmpfs of 64 KiB, one line and no file."""

import pathlib
import subprocess

import pytest

from conftest import BIN, MODELS, Outcome, check_call

LOSS = ["--loss", "cross_entropy", "--global-batch", "8"]
SCRIPT = 'mount -t tmpfs -o size=64k tmpfs "$0" && cd "$0" && { "$@"; code=$?; ls -A; exit $code; }'


def mounts() -> bool:
    return subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not mounts(), reason="this user may not mount a tmpfs")


def on_a_small_disk(folder: pathlib.Path, *command: object) -> Outcome:
    """Runs a command in an empty tmpfs; its output ends with the names of what is left there."""
    disk = folder / "disk"
    disk.mkdir()
    done = subprocess.run(["unshare", "-rm", "sh", "-c", SCRIPT, disk, *map(str, command)],
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("artifact") / "gpt2.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", *LOSS, "-o", path)
    return path


@pytest.mark.parametrize("flag", ["-o", "--save-plan", "--report", "--trace"])
def test_dtc(tmp_path, flag):
    command = ["compile", *LOSS, "--devices", "1"] if flag == "-o" else ["plan", *LOSS, "--devices", "4", "--plan", "tp=4"]
    outcome = on_a_small_disk(tmp_path, BIN / "dtc", command[0], MODELS / "gpt2.onnx", *command[1:], flag, "written")
    if outcome.code == 0:
        assert flag != "-o" and outcome.out.endswith("written\n")  # it is small enough
        return
    assert outcome.code == 1 and "written" in outcome.error_line(), outcome.err
    assert "written" not in outcome.out.splitlines()[-1:] and ".partial" not in outcome.out, outcome.out


@pytest.mark.parametrize("flag", ["--save-weights", "--profile"])
def test_dtc_run(tmp_path, artifact, flag):
    outcome = on_a_small_disk(tmp_path, BIN / "dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", "8",
                              flag, "written")
    assert outcome.code == 1 and outcome.error_line().startswith("dtc-run: error: written: "), outcome.err
    assert outcome.error_line().endswith(": No space left on device"), outcome.err
    assert outcome.out == "", outcome.out


def test_a_log_that_fails_does_not_end_training(tmp_path, artifact):
    """The weights lie elsewhere."""
    weights = tmp_path / "weights.safetensors"
    outcome = on_a_small_disk(tmp_path, BIN / "dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", "400",
                              "--log", "log.jsonl", "--save-weights", weights)
    assert outcome.code == 0 and weights.exists(), outcome.err
    assert outcome.err.count("warning") == 1 and "log.jsonl" in outcome.err
