"""The script that tests artifacts on true GPUs: packed and run, on an emulated one."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from conftest import BIN, ROOT
from test_cuda import EMULATOR

sys.path.insert(0, str(ROOT / "scripts"))

import gpu_parts  # noqa: E402


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu") / "packed"
    subprocess.run([sys.executable, ROOT / "scripts" / "gpu_tests.py", "pack", "--quick", "--build", BIN.parent, folder], check=True)
    return folder


def run(folder, output, *flags: str, gpus: int = 8) -> subprocess.CompletedProcess:
    """From another folder, without what the checkout has."""
    environment = {"PATH": os.environ["PATH"], "DTC_CUDA_LIBRARY_PATH": str(EMULATOR), "DTC_EMULATED_GPU_COUNT": str(gpus)}
    return subprocess.run([sys.executable, folder / "gpu_tests.py", "run", "-o", output, *flags], capture_output=True, text=True,
                          cwd=folder.parent, env=environment, timeout=300)


def test_a_packed_folder_says_what_passed(packed, tmp_path):
    page = tmp_path / "GpuResults.md"
    done = run(packed, page, "--part", "train", "--part", "shared", "--part", "processes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("4 passed, 0 failed, 0 not run")
    text = page.read_text()
    assert text.count("The GPU is emulated: this says nothing of a true one") == 4  # of each part, and of the call
    assert "| mlp-adamw-1-dp1 | passed | loss off by " in text and "| mlp-adamw-2-dp2 | passed | the same bits |" in text


def test_functions_are_exact(packed, tmp_path):
    """An emulated GPU's bits are its own, and a wrong one is found."""
    done = run(packed, tmp_path / "page.md", "--part", "functions")
    assert done.returncode == 0 and done.stdout.count("; 16384 of 16384 have the emulated GPU's bits") == 18, done.stdout
    folder = shutil.copytree(packed, tmp_path / "packed")
    values = (folder / "models" / "functions.safetensors").read_bytes()
    (folder / "models" / "functions.safetensors").write_bytes(values[:-4] + bytes([0, 0, 0, 0x3F]))
    done = run(folder, tmp_path / "page.md", "--part", "functions")
    assert "functions: tan: passed" in done.stdout and "; 16383 of 16384" in done.stdout


def test_parts_that_are_not_run_again_keep_their_results(packed, tmp_path):
    page = tmp_path / "GpuResults.md"
    run(packed, page, "--part", "train")
    before = page.read_text()
    run(packed, page, "--part", "processes")
    after = page.read_text()
    assert before[before.index("## train"):].rstrip() in after and after.count("\n## ") == 3 and "## processes" in after
    # A call that reaches nothing of a part says so, and leaves what an earlier one showed.
    done = run(packed, page, "--part", "train", "--seconds", "0")
    assert done.returncode == 1 and "0 passed, 0 failed, 2 not run, 2 of them as time was over" in done.stdout
    last = page.read_text()
    assert after[after.index("## train"):] == last[last.index("## train"):]
    assert "| train | 0 | 0 | 0 | **all of it** |" in last


def test_a_part_that_was_never_reached_lists_its_checks(packed, tmp_path):
    page = tmp_path / "page.md"
    assert run(packed, page, "--part", "train", "--seconds", "0").returncode == 1
    assert page.read_text().count("| not run | the part's time was over |") == 2


def test_wrong_losses_fail(packed, tmp_path):
    folder = shutil.copytree(packed, tmp_path / "packed")
    cases = json.loads((folder / "cases.json").read_text())
    cases["cases"][0]["steps"][3]["loss"] *= 1.001
    (folder / "cases.json").write_text(json.dumps(cases))
    done = run(folder, tmp_path / "page.md", "--part", "train")
    assert done.returncode == 1 and "train: mlp-adamw-1-dp1: FAILED" in done.stdout
    assert "| mlp-adamw-1-dp1 | **failed** |" in (tmp_path / "page.md").read_text()


def test_what_there_is_no_time_for_is_not_run(packed, tmp_path):
    """A page on which nothing passed is no success."""
    done = run(packed, tmp_path / "page.md", "--part", "train", "--seconds", "0")
    assert done.returncode == 1 and done.stdout.count("not run: the part's time was over") == 2


def test_a_calibration_lies_beside_the_page(packed, tmp_path):
    """An emulated GPU's speed says nothing, so figures aren't judged."""
    done = run(packed, tmp_path / "page.md", "--part", "calibrate", "--part", "planner", gpus=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "calibrate: calibrate: passed: attention: " in done.stdout and "planner: properties: not run" in done.stdout
    assert "achieved_tflops" in (tmp_path / "page.calibrated.yaml").read_text()


def test_timed_algorithms_are_kept(packed, tmp_path):
    done = run(packed, tmp_path / "page.md", "--part", "autotune", gpus=1)
    assert done.returncode == 0 and "autotune: mlp-adamw-1-dp1: passed" in done.stdout, done.stdout + done.stderr


def test_nccl_with_one_rank(packed, tmp_path):
    """Emulated NCCL checks what it is called with, that a communicator isn't used before it is ready, nor goes before its graphs."""
    done = run(packed, tmp_path / "page.md", "--part", "nccl", gpus=1)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("nccl: ")]
    assert len(lines) == 18 and all(": passed: " in line for line in lines)
    assert "nccl: all_reduce of bf16: passed: 16 bytes" in done.stdout and "nccl: split: passed" in done.stdout
    assert "nccl: abort: passed: ends after its graph" in done.stdout


def test_a_limit_ends_the_call(packed, tmp_path):
    """Parts run in their order; the page says of each what it wasn't reached for."""
    page, begin = tmp_path / "page.md", time.monotonic()
    done = run(packed, page, "--limit", "14", gpus=2)
    assert time.monotonic() - begin < 30, "a busy machine may take some seconds more than the limit"
    text = page.read_text()
    table = text[text.index("| part | passed"):text.index("\n\n", text.index("| part | passed"))]
    assert re.findall(r"^\| (\w+) \|", table, re.M)[1:] == list(gpu_parts.PARTS)
    assert "**all of it**" in table or "checks |" in table, table
    assert re.search(r"not run, \d+ of them as time was over", done.stdout.splitlines()[-1])


def test_flags_that_contradict_are_refused(packed, tmp_path):
    for flags in (("--limit", "60", "--seconds", "3"), ("--limit", "4"), ("--part", "everything")):
        done = run(packed, tmp_path / "page.md", *flags)
        assert done.returncode == 2 and "error: " in done.stderr and not (tmp_path / "page.md").exists()


def test_machines_without_a_gpu_are_told(packed, tmp_path):
    done = run(packed, tmp_path / "page.md", gpus=0)
    assert done.returncode == 4 and "no GPU" in done.stderr and not (tmp_path / "page.md").exists()
