"""The programs with little memory: each does its work, or ends with one line and a documented code."""

import os
import pathlib
import resource
import subprocess

import pytest

from conftest import BIN, MODELS, check_call

MIB = 1 << 20
JOB = ("--devices", "2", "--loss", "cross_entropy", "--global-batch", "8")


def call_within(limit: int, *command: object, **environment: str) -> subprocess.CompletedProcess:
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return subprocess.run([str(BIN / command[0]), *map(str, command[1:])], capture_output=True, text=True, errors="replace",
                          preexec_fn=bound, timeout=60, env=os.environ | {"OMP_NUM_THREADS": "1"} | environment)


def least(program: str) -> int:
    """What it takes to load the program's libraries, to a few MiB."""
    low, high = 1, 4096
    while high - low > 4:
        middle = (low + high) // 2
        low, high = (low, middle) if call_within(middle * MIB, program, "--version").returncode == 0 else (middle, high)
    return high * MIB


def test_too_little_memory_ends_with_a_line(tmp_path):
    commands = [("dtc", "compile", MODELS / "gpt2.onnx", *JOB, "-o", tmp_path / "out"),
                ("dtc", "plan", MODELS / "gpt2.onnx", "--gpus", 64)]
    start, codes = least("dtc"), set()
    for more in (4, 16, 40, 96, 1024):
        for command in commands:
            done = call_within(start + more * MIB, *command)
            lines = [line for line in done.stderr.splitlines() if "error:" in line]
            assert done.returncode in (0, 1, 4), (more, command[1], done.returncode, done.stderr)
            assert len(lines) == (done.returncode != 0), (more, done.stderr)
            assert not done.returncode or not list(tmp_path.iterdir())
            (tmp_path / "out").unlink(missing_ok=True)
            codes.add(done.returncode)
    assert 0 in codes and len(codes) > 1


def test_ranks_with_too_little_memory_end_with_a_line(tmp_path):
    """Their libraries take memory too: oneDNN for its objects and its code, OpenMP for its threads."""
    artifact, data = tmp_path / "gpt2.dtc", MODELS / "gpt2.data.safetensors"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", *JOB, "-o", artifact)
    start, codes = least("dtc-run"), set()
    for more in (10, 22, 24, 27, 30, 34, 38, 40, 42, 44, 46, 48, 50, 1024):
        done = call_within(start + more * MIB, "dtc-run", artifact, "--data", data, "--steps", 1)
        lines = [line for line in done.stderr.splitlines() if "error:" in line]
        assert done.returncode in (0, 1, 4), (more, done.returncode, done.stderr)
        assert len(lines) == (done.returncode != 0) and "libgomp:" not in done.stderr, (more, done.stderr)
        codes.add(done.returncode)
    assert 0 in codes and 1 in codes


def test_an_allocator_of_the_users_has_all_blocks(tmp_path):
    """As jemalloc and others are used. It ends the program where it is to free a block of the C library's."""
    artifact, allocator = tmp_path / "gpt2.dtc", tmp_path / "allocator.so"
    source = pathlib.Path(__file__).parent / "other_allocator.c"
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-fno-builtin", "-o", allocator, source], check=True)
    check_call("dtc", "compile", MODELS / "gpt2.onnx", *JOB, "-o", artifact)
    done = call_within(1 << 36, "dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 1, LD_PRELOAD=str(allocator))
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="a rank on one processor starts no threads of OpenMP")
def test_threads_that_openmp_cannot_start_end_with_a_line(tmp_path):
    """Their stacks alone are larger than what the program may have."""
    artifact = tmp_path / "gpt2.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 1, "--loss", "cross_entropy", "--global-batch", 8, "-o", artifact)
    done = call_within(1 << 36, "dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 1, OMP_STACKSIZE="1000G")
    assert (done.returncode, done.stderr) == (1, "dtc-run: error: can't start a thread: Resource temporarily unavailable\n")
