"""What dtc-run calls of CUDA's driver: in the steady state nothing waits, and a step is one graph for each rank.

The emulated GPU counts the calls (DTC_EMULATED_GPU_CALLS), and has a function fail (DTC_EMULATED_GPU_FAILS).
"""

import collections
import json
import os

import pytest

from conftest import BIN, MODELS, call, check_call

EMULATOR = BIN.parent / "lib" / "gpu-emulator"
WAITS = ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize")


def run(folder, artifact, steps: int, **environment: str) -> tuple[str, list[tuple[float, float]], collections.Counter]:
    """What was said, losses and norms, and how often each function was called."""
    log, calls = folder / f"{steps}.jsonl", folder / f"{steps}.calls"
    environment = os.environ | {"DTC_CUDA_LIBRARY_PATH": str(EMULATOR), "DTC_EMULATED_GPU_CALLS": str(calls)} | environment
    done = call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", steps, "--log", log, env=environment)
    assert done.code == 0, done.err
    steps_of = [json.loads(line) for line in log.read_text().splitlines()]
    counts = collections.Counter({name: int(count) for name, count in map(str.split, calls.read_text().splitlines())})
    calls.unlink()
    return done.err, [(step["loss"], step["grad_norm"]) for step in steps_of], counts


@pytest.fixture(scope="module", params=[(1, "dp=1"), (2, "dp=2,zero=1,micro_batch=2")], ids=["one", "two"])
def compiled(request, tmp_path_factory):
    devices, plan = request.param
    artifact = tmp_path_factory.mktemp("calls") / "m.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--target", "cuda", "--loss", "cross_entropy", "--global-batch", 8,
               "--devices", devices, "--plan", plan, "-o", artifact)
    return devices, artifact


def test_steps_wait_for_nothing(compiled, tmp_path):
    """More steps are more launches of the graph, and no more waiting, memory or captures."""
    ranks, artifact = compiled
    _, _, few = run(tmp_path, artifact, 6)
    _, _, many = run(tmp_path, artifact, 16)
    assert many["cuGraphLaunch"] - few["cuGraphLaunch"] == 10 * ranks
    for name in (*WAITS, "cuMemAlloc", "cuStreamBeginCapture", "cuGraphInstantiateWithFlags"):
        assert few[name] == many[name], name
    assert few["cuMemAlloc"] == ranks * (1 if ranks == 1 else 2)  # an arena; ranks of several connect with an element


def test_a_step_that_is_no_graph_has_the_same_bits(compiled, tmp_path):
    _, artifact = compiled
    said, expected, calls = run(tmp_path, artifact, 4)
    assert "note" not in said and calls["cuGraphLaunch"] > 0
    for function in ("cuGraphInstantiateWithFlags", "cuStreamBeginCapture"):
        said, found, calls = run(tmp_path, artifact, 4, DTC_EMULATED_GPU_FAILS=function)
        assert "steps are not launched as one graph" in said, said
        assert calls["cuGraphLaunch"] == 0 and found == expected


def test_one_hardware_queue_is_enough(tmp_path):
    """A driver may map all streams to it, and NCCL may carry out its calls one after another: their order waits for nothing
    that comes later. An NCCL before 2.26 keeps no order of its own, so that dtc-run does."""
    artifact = tmp_path / "m.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--target", "cuda", "--loss", "cross_entropy", "--global-batch", 8,
               "--devices", 4, "--plan", "dp=2,pp=2,zero=3,micro_batch=1", "-o", artifact)
    _, expected, _ = run(tmp_path, artifact, 3)
    for setting in ({"DTC_EMULATED_GPU_QUEUES": "1"}, {"DTC_EMULATED_NCCL_VERSION": "22502"}):
        _, found, _ = run(tmp_path, artifact, 3, **setting)
        assert found == expected
