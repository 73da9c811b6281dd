"""What a run says of a GPU's memory beside the arena: the context's, and that of communicators. On emulated GPUs."""

import json
import os

import numpy
import pytest

from conftest import MODELS, call, check_call
from test_cuda import CUDA, emulator  # noqa: F401 (a fixture that applies by itself)
from test_pipelines import layers_that_share

CONTEXT, COMMUNICATOR = 300 << 20, 70 << 20
SIZES = {"DTC_EMULATED_GPU_CONTEXT": "300M", "DTC_EMULATED_NCCL_MEMORY": "70M"}


def run(folder, devices: int, plan: str, *flags: object, **environment: str) -> tuple[str, list[dict]]:
    """The summary, and the lines of the log."""
    check_call("dtc", "compile", MODELS / "gpt2.onnx", *CUDA, "--loss", "cross_entropy", "--global-batch", 8, "--devices", devices,
               "--plan", plan, "-o", folder / "m.dtc")
    log = folder / "log.jsonl"
    done = check_call("dtc-run", folder / "m.dtc", "--data", MODELS / "gpt2.data.safetensors", "--steps", 2, "--log", log, *flags,
                      env={**os.environ, **SIZES, **environment})
    return done.out, [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("devices,plan,flags,communicators", [
    (1, "dp=1", [], 0),
    (2, "tp=2", [], 1),
    (4, "dp=2,tp=2", [], 3),  # two axes, and all ranks for the step's numbers
    (4, "dp=2,tp=2", ["--processes"], 3),
])
def test_context_and_communicators_are_told_apart(tmp_path, devices, plan, flags, communicators):
    """Of NCCL's memory a half comes with the first call."""
    summary, lines = run(tmp_path, devices, plan, *flags)
    for line in lines:
        assert (line["context_bytes"], line["communicator_bytes"]) == (CONTEXT, communicators * COMMUNICATOR)
    arena = lines[0]["peak_memory_bytes"] / 2**20
    said = f"{arena:.1f} MiB a rank, beside it 300.0 MiB of the context"
    said += f" and {70 * communicators:.1f} MiB of communicators\n" if communicators else "\n"
    assert said in summary


def test_sums_of_the_same_ranks_share_a_communicator(tmp_path):
    """Stages 2, 3 and 4 share a weight, and lie on ranks 2, 0 and 1. Numbers of the step are summed over ranks 0, 1 and 2. Rank 0 has four
    communicators for messages: to and from both of the others."""
    path = layers_that_share(tmp_path / "m.onnx", 6, {2, 3, 4})
    (numpy.arange(2000) * 7919 % 61 % 7).astype("u2").tofile(tmp_path / "tokens.bin")
    check_call("dtc", "compile", path, *CUDA, "--loss", "cross_entropy", "--global-batch", 8, "--devices", 3, "--init",
               "--plan", "pp=3,schedule=interleaved,chunks=2,dp=1,micro_batch=1", "-o", tmp_path / "m.dtc")
    log = tmp_path / "log.jsonl"
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "tokens.bin", "--steps", 2, "--log", log, env={**os.environ, **SIZES})
    assert {json.loads(line)["communicator_bytes"] for line in log.read_text().splitlines()} == {5 * COMMUNICATOR}


def test_ranks_that_share_a_gpu_have_one_context(tmp_path):
    """What others have taken before isn't counted, and they exchange without NCCL."""
    _, lines = run(tmp_path, 4, "dp=2,tp=2", DTC_EMULATED_GPU_COUNT="1", DTC_SHARE_GPU="1")
    assert {(line["context_bytes"], line["communicator_bytes"]) for line in lines} == {(CONTEXT, 0)}


def test_a_context_needs_its_memory(tmp_path):
    """A GPU that has less than context, arena and communicators has too little."""
    check_call("dtc", "compile", MODELS / "gpt2.onnx", *CUDA, "--loss", "cross_entropy", "--global-batch", 8, "--devices", 2,
               "--plan", "tp=2", "-o", tmp_path / "m.dtc")
    for memory, code in (("310M", 4), ("500M", 0)):
        done = call("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "gpt2.data.safetensors", "--steps", 1,
                    env={**os.environ, **SIZES, "DTC_EMULATED_GPU_MEMORY": memory})
        assert done.code == code, done.err


def test_ranks_on_processors_have_neither(tmp_path):
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "cross_entropy", "--global-batch", 8, "-o", tmp_path / "m.dtc")
    done = check_call("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "mlp.data.safetensors", "--steps", 1, "--log",
                      tmp_path / "log.jsonl")
    assert "context" not in done.out and "context_bytes" not in (tmp_path / "log.jsonl").read_text()
