"""Ranks that PyTorch's torchrun starts: the bits of `dtc-run --processes`, and how such a job fails.

PyTorch is no part of the tests' environment: PYTHON_WITH_TORCH names an interpreter that has it, as `ninja -C build
check-torchrun` does. Without one, the first `torchrun` on PATH is taken.
"""

import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import BIN, check_call
from test_processes import command, endless, free_port, mlp, trained, wait_for_steps  # noqa: F401 (a fixture)

SHELL_WORDS = ["--no-python", "--nproc-per-node", "2"]


def launcher() -> list[str] | None:
    python = os.environ.get("PYTHON_WITH_TORCH")
    if python:
        return [python, "-m", "torch.distributed.run"]
    found = shutil.which("torchrun")
    return [found] if found else None


pytestmark = pytest.mark.skipif(not launcher(), reason="torchrun isn't found (PYTHON_WITH_TORCH, PATH)")


def start(flags: list[str], words: tuple, *before: str) -> subprocess.Popen:
    """A process group of its own: agent and ranks."""
    return subprocess.Popen([*launcher(), *flags, *SHELL_WORDS, "--", *before, str(BIN / "dtc-run"), *map(str, words)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(job: subprocess.Popen, timeout: float = 120) -> tuple[int, str, str]:
    try:
        out, err = job.communicate(timeout=timeout)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
    return job.returncode, out, err


@pytest.mark.parametrize("meeting", ["standalone", "static"])
def test_the_bits_of_processes(mlp, tmp_path, meeting):  # noqa: F811
    """Its agent picks a port, or is told one, at which it may listen itself."""
    flags = ["--standalone"] if meeting == "standalone" else ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    results = []
    for name in ("torchrun", "processes"):
        log, weights = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.safetensors"
        words = command(mlp, "--steps", 4, "--log", log, "--save-weights", weights)
        if name == "torchrun":
            code, out, err = finish(start(flags, words))
            assert code == 0, err
            assert out.count("4 steps, loss") == 1
        else:
            check_call("dtc-run", *words, "--processes")
        results.append(trained(log, weights))
    assert len(results[0][0]) == 4 and results[0] == results[1]


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_a_part_of_its_variables_is_wrong_usage(mlp, missing):  # noqa: F811
    """Each rank says what is missing, with exit code 2."""
    code, _, err = finish(start(["--standalone"], command(mlp, "--steps", 1), "env", "-u", missing))
    assert code != 0
    said = [line for line in err.splitlines() if "dtc-run: error:" in line]
    assert said and all(f"{missing} is missing" in line for line in said), err
    assert re.search(r"exitcode *: 2\b", err), err


def test_a_killed_rank_ends_the_job(mlp, tmp_path):  # noqa: F811
    """The other one says so, before the agent ends it or by itself."""
    log = tmp_path / "log.jsonl"
    job = start(["--standalone"], endless(mlp, log))
    wait_for_steps(log)
    ranks = [int(pid) for pid in subprocess.run(["pgrep", "-P", str(job.pid), "-f", "dtc-run"], capture_output=True,
                                                text=True).stdout.split()]
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    code, _, err = finish(job, timeout=60)
    assert code not in (0, None)
    assert "exitcode  : -9" in err or "was lost" in err, err
