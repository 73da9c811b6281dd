"""A process for each GPU: the same bits as threads, and how a run ends when one of them does. On emulated GPUs."""

import os
import re
import shutil
import subprocess
import time

import pytest

from conftest import BIN, MODELS, call, check_call
from test_cuda import CUDA, emulator  # noqa: F401 (a fixture that applies by itself)
from test_processes import command, endless, launch, said_of_a_hanging_rank, trained, wait_for_steps


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    """A small artifact of two GPUs."""
    artifact = tmp_path_factory.mktemp("mlp") / "mlp.dtc"
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 2, "--plan", "dp=2", *CUDA, "--loss", "cross_entropy",
               "--global-batch", 8, "-o", artifact)
    return artifact


def results(folder, name: str):
    return folder / f"{name}.jsonl", folder / f"{name}.safetensors"


def flags(folder, name: str) -> tuple:
    log, weights = results(folder, name)
    return ("--log", log, "--save-weights", weights)


def test_launched_processes_give_the_bits_of_threads(mlp, tmp_path):
    words = command(mlp, "--steps", 4)
    check_call("dtc-run", *words, *flags(tmp_path, "threads"))
    ended = launch([(*words, *flags(tmp_path, "processes"))] * 2).finish()
    assert [code for code, _ in ended] == [0, 0], ended
    expected = trained(*results(tmp_path, "threads"))
    assert len(expected[0]) == 4
    assert trained(*results(tmp_path, "processes")) == expected


def test_a_pipeline_of_processes_gives_the_bits_of_threads(tmp_path):
    """Messages in both directions."""
    artifact = tmp_path / "gpt2.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--plan", "pp=2", *CUDA, "--loss",
               "cross_entropy", "--global-batch", 2, "-o", artifact)
    words = (artifact, "--data", MODELS / "gpt2.data.safetensors", "--no-shuffle", "--steps", 1)
    check_call("dtc-run", *words, *flags(tmp_path, "threads"))
    check_call("dtc-run", *words, *flags(tmp_path, "processes"), "--processes")
    assert trained(*results(tmp_path, "threads")) == trained(*results(tmp_path, "processes"))


def test_mpirun(mlp, tmp_path):
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed (scripts/install.sh --tests does it)")
    words = command(mlp, "--steps", 2)
    check_call("dtc-run", *words, *flags(tmp_path, "threads"))
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(["mpirun", "-n", "2", "--oversubscribe", BIN / "dtc-run",
                           *map(str, (*words, *flags(tmp_path, "processes")))],
                          capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert trained(*results(tmp_path, "threads")) == trained(*results(tmp_path, "processes"))


def test_a_killed_rank_ends_the_others(mlp, tmp_path):
    job = launch([endless(mlp, tmp_path / "log.jsonl")] * 2)
    wait_for_steps(tmp_path / "log.jsonl")
    job.processes[1].kill()
    code, said = job.finish(timeout=10)[0]
    assert code == 5 and "rank 1 was lost" in said


@pytest.mark.parametrize("delay", ["0", "20000"])
def test_a_rank_that_hangs_ends_the_others(mlp, tmp_path, delay):
    """It is named also where it has called all, and its slow GPU, which needs the process, is what the others miss."""
    said = said_of_a_hanging_rank(mlp, tmp_path / "log.jsonl", DTC_EMULATED_GPU_DELAY_US=delay)
    assert "rank 0 waited 2 s" in said and "for rank: 1, whose process does not answer" in said


def said_where_one_never_ends(artifact, log, victim: int, what: str, of_other: str = "") -> str:
    """By the other rank, which must end with 5 within 10 s of the last step."""
    job = launch([endless(artifact, log)] * 2, of_rank={rank: {"DTC_EMULATED_GPU_HANGS": hangs} for rank, hangs in
                                                        ((victim, what), (1 - victim, of_other)) if hangs})
    try:
        said = job.processes[1 - victim].communicate(timeout=90)[1]
        seconds = time.time() - log.stat().st_mtime
        assert job.processes[1 - victim].returncode == 5
        assert 4 < seconds < 10
        return said
    finally:
        job.processes[victim].kill()
        job.finish()


def kernels_of_a_rank(artifact, folder, steps: int) -> int:
    """So many does each of the two ranks launch in as many steps."""
    launches = folder / f"launches{steps}"
    check_call("dtc-run", *command(artifact, "--steps", steps),
               env=os.environ | {"DTC_EMULATED_GPU_TRAFFIC": str(launches)})
    return launches.read_text().count("\n") // 2


def test_a_gpu_that_hangs_ends_the_others_within_10_s(mlp, tmp_path):
    """Its process answers and has called all. That its GPU hangs shows once the others have given up their collectives."""
    three, four = (kernels_of_a_rank(mlp, tmp_path, steps) for steps in (3, 4))
    first_of_step_21 = three + 17 * (four - three) + 1
    said = said_where_one_never_ends(mlp, tmp_path / "log.jsonl", victim=1, what=f"kernel,{first_of_step_21}")
    assert "waited 5 s for its GPU" in said and "because of the device of rank: 1\n" in said, said


def test_a_gpu_that_hangs_in_a_mesh_is_named(tmp_path):
    """Its ranks are in two communicators, which one graph has captured. NCCL ends none of them before the graph, and the
    other GPUs end once both have been told."""
    artifact = tmp_path / "mlp.dtc"
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 4, "--plan", "dp=2,tp=2,tp_weights=split", *CUDA, "--loss", "cross_entropy",
               "--global-batch", 8, "-o", artifact)
    ended = call("dtc-run", *endless(artifact, tmp_path / "log.jsonl"), timeout=90,
                 env=os.environ | {"DTC_EMULATED_GPU_HANGS": "kernel,2000"})
    assert ended.code == 5
    assert re.search(r"waited 5 s for its GPU.*because of the device of rank: [0-3]$", ended.error_line()), ended.err


def test_a_call_of_rank_0_that_hangs_ends_the_others_within_10_s(mlp, tmp_path):
    """So does NCCL, where rank 1 gives up its communicators. If rank 0 ends first, the emulated GPU 1 says so, too."""
    said = said_where_one_never_ends(mlp, tmp_path / "log.jsonl", victim=0, what="cuGraphLaunch,20",
                                     of_other="ncclCommAbort,1")
    lines = [line for line in said.splitlines() if not line.startswith("emulated GPU 1: ")]
    assert len(lines) == 1 and "rank 1 waited 5 s" in lines[0] and lines[0].endswith("for rank: 0"), said


def test_each_process_needs_a_gpu(mlp):
    """One that sees a GPU of its own alone has enough."""
    words = command(mlp, "--steps", 1)
    ended = launch([words] * 2, DTC_EMULATED_GPU_COUNT="1").finish(timeout=20)
    assert ended[1][0] == 4 and "rank 1 needs GPU 1 of this machine, which has fewer" in ended[1][1]
    assert ended[0][0] == 5 and "ended because of rank 1" in ended[0][1]
    ended = launch([words] * 2, DTC_EMULATED_GPU_COUNT="1", CUDA_VISIBLE_DEVICES="0").finish(timeout=20)
    assert [code for code, _ in ended] == [0, 0], ended
