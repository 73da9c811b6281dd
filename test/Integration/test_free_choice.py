"""What `dtc compile` chooses without a pin, of all that saves a rank's memory."""

import json
import os
import re

import pytest

import llama_graph
from conftest import BIN, MODELS, check_call, compare_steps, reference

CLUSTER = """\
name: small
device: {{name: d, memory_gb: {memory}, bandwidth_gbs: 10, launch_us: 2, peak_tflops: {{fp32: 0.2}}}}
shared_memory: true
intra_node: {{bandwidth_gbs: 5, latency_us: 5}}
"""


def plan_of(artifact) -> dict:
    return json.loads(check_call("dtc", "inspect", artifact, "--json").out)["plan"]


def chosen(trainer, folder, memory: float) -> dict:
    """The plan for two ranks that share so many MiB, which trains as PyTorch does."""
    cluster = folder / f"{memory}.yaml"
    cluster.write_text(CLUSTER.format(memory=memory * 2**20 / 1e9))
    expected = reference("gpt2", "adamw")
    run = trainer.train("gpt2", "gpt2", *expected["flags"], "--cluster", cluster, devices=2, plan="tp=1")
    compare_steps(run, expected, loss=1e-4, norm=1e-3)
    return plan_of(run.artifact)


def test_cpus_save_memory_where_nothing_fits_without(trainer, tmp_path):
    plain = chosen(trainer, tmp_path, 1000)
    assert (plain["pp"], plain["zero"], plain["recompute"]) == (1, 0, "none")
    short = chosen(trainer, tmp_path, 4.4)
    assert short["pp"] > 1 or short["zero"] > 0 or short["recompute"] != "none"


def test_cpus_save_memory_where_that_is_faster(tmp_path):
    """A plan without savings fits, in twice as many microbatches."""
    cluster = tmp_path / "short.yaml"
    cluster.write_text(CLUSTER.format(memory=0.0095))
    job = (MODELS / "gpt2.onnx", "--devices", 4, "--target", "cpu", "--cluster", cluster, "--loss", "cross_entropy", "--global-batch", 64)
    free, plain = (json.loads(check_call("dtc", "plan", *job, "--plan", plan, "--json").out)["predicted"]
                   for plan in ("auto", "pp=1,cp=1,zero=0,recompute=none,regather=off"))
    assert plain["fits"] and free["fits"]
    assert free["step_time_s"] < 0.9 * plain["step_time_s"]


def test_open_batches_are_compared_by_sample(tmp_path):
    """A rank brings its own samples: a step of more of them takes longer, and may still be faster."""
    cluster = tmp_path / "short.yaml"
    cluster.write_text(CLUSTER.format(memory=0.00687))
    job = (MODELS / "llama_dyn.pt2", "--devices", 4, "--target", "cpu", "--cluster", cluster, "--loss", "cross_entropy")

    def seconds_per_sample(plan: str) -> float:
        said = json.loads(check_call("dtc", "plan", *job, "--plan", plan, "--json").out)
        chosen = said["plan"]
        return said["predicted"]["step_time_s"] / (chosen["dp"] * chosen["micro_batch"] * chosen["num_microbatches"])

    assert seconds_per_sample("auto") <= min(map(seconds_per_sample, ("dp=1", "dp=2", "dp=4")))


def test_gpus_have_every_choice(tmp_path):
    """Of the program that is compiled the planner says the same as of one that isn't."""
    job = (MODELS / "llama.onnx", "--gpus", 4, "--loss", "cross_entropy", "--global-batch", 32)
    check_call("dtc", "compile", *job, "-o", tmp_path / "gpu.dtc")
    planned = json.loads(check_call("dtc", "plan", *job, "--json").out)["plan"]
    compiled = plan_of(tmp_path / "gpu.dtc")
    assert {key: compiled[key] for key in ("dp", "tp", "pp", "cp", "zero", "schedule")} == \
        {key: planned[key] for key in ("dp", "tp", "pp", "cp", "zero", "schedule")}
    assert compiled["pp"] > 1


def test_gpus_offload_states_that_do_not_fit(tmp_path, monkeypatch):
    """Chosen, compiled, and trained on an emulated GPU as on a processor."""
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", os.environ.get("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator")))
    model = llama_graph.write(tmp_path / "model.onnx", llama_graph.Llama(1, 128, 4, 4, 256, 4096, 8))
    job = (model, "--loss", "cross_entropy", "--global-batch", 2, "--init")
    said = check_call("dtc", "compile", *job, "--gpus", 1, "-o", tmp_path / "kept.dtc").out
    held = float(re.search(r"^chosen .* memory a rank ([\d.]+) MiB$", said, re.MULTILINE)[1])
    cluster = tmp_path / "small.yaml"
    cluster.write_text(f"node: dgx-h100\ndevice: {{base: h100, memory_gb: {(held - 4) * 2**20 / 1e9}}}\nhost_memory_gb: 4\n")
    losses = {}
    for name, flags in (("gpu", ("--gpus", 1, "--cluster", cluster)), ("cpu", ("--target", "cpu"))):
        artifact, log = tmp_path / f"{name}.dtc", tmp_path / f"{name}.jsonl"
        check_call("dtc", "compile", *job, *flags, "-o", artifact)
        check_call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", 2, "--log", log)
        losses[name] = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        assert plan_of(artifact)["offload"] == ("optimizer" if name == "gpu" else "none")
    assert losses["gpu"] == pytest.approx(losses["cpu"], rel=1e-4)
