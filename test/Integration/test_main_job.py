"""The README's main job: GPT-2 planned freely for four ranks, trained on real text."""

import json
import os
import re

import pytest
from safetensors.numpy import load_file

from conftest import MODELS, check_call


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    artifact, log = folder / "gpt2.dtc", folder / "run.jsonl"
    compiled = check_call(
        "dtc", "compile", MODELS / "gpt2.onnx", "--devices", 4, "--target", "cpu", "--loss",
        "cross_entropy", "--optimizer", "adamw", "--lr", "3e-4", "--global-batch", 8, "-o", artifact)
    ran = check_call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", 100, "--log", log)
    return compiled, ran, artifact, [json.loads(line) for line in log.read_text().splitlines()]


def test_loss_falls_on_real_text(job):
    log = job[3]
    assert [line["step"] for line in log] == list(range(1, 101))
    first, last = (sum(line["loss"] for line in part) / 10 for part in (log[:10], log[-10:]))
    assert last < 0.85 * first


def test_log_has_the_contract_keys(job):
    keys = {"step", "loss", "lr", "grad_norm", "nonfinite_grads", "step_time_s", "samples_per_s", "tokens_per_s",
            "peak_memory_bytes", "predicted_step_time_s"}
    assert all(set(line) == keys for line in job[3])
    assert all(line["tokens_per_s"] > line["samples_per_s"] > 0 for line in job[3])


def test_compile_prints_the_plan(job):
    out = job[0].out
    for word in ("mesh", "all_reduce", "step time", "memory", "lm_head"):
        assert word in out, out


def test_arena_is_what_inspect_says(job):
    inspected = json.loads(check_call("dtc", "inspect", job[2], "--json").out)
    assert set(inspected) >= {"target", "world_size", "plan", "parameters", "kernels",
                              "library_calls", "collectives", "arena_bytes"}
    assert inspected["world_size"] == 4 and inspected["target"] == "cpu"
    assert max(inspected["arena_bytes"]) == job[3][0]["peak_memory_bytes"]


def test_plan_json_has_the_contract_keys():
    out = check_call("dtc", "plan", MODELS / "gpt2.onnx", "--devices", 4, "--target", "cpu",
                     "--global-batch", 8, "--json").out
    plan = json.loads(out)
    assert set(plan) >= {"model", "devices", "planning_time_s", "plan", "predicted", "stages",
                         "collectives", "alternatives"}
    assert set(plan["plan"]) >= {"dp", "tp", "pp", "cp", "ep", "sp", "zero", "zero_group", "schedule",
                                 "chunks", "micro_batch", "num_microbatches", "recompute", "offload", "order"}
    assert set(plan["predicted"]) >= {"step_time_s", "tokens_per_s_per_device",
                                      "model_tflops_per_device", "mfu", "peak_memory_bytes", "fits",
                                      "bubble_fraction", "exposed_communication_s"}
    assert plan["plan"]["dp"] * plan["plan"]["tp"] == 4
    assert plan["alternatives"] and plan["predicted"]["step_time_s"] > 0


def test_trace_shows_the_predicted_step(tmp_path):
    """`--trace`: as many calls as microbatches, of the length and memory that were predicted."""
    trace = tmp_path / "trace.json"
    out = check_call("dtc", "plan", MODELS / "gpt2.onnx", "--devices", 2, "--loss", "cross_entropy",
                     "--global-batch", 8, "--plan", "tp=2,micro_batch=2", "--trace", trace, "--json").out
    planned, traced = json.loads(out)["predicted"], json.loads(trace.read_text())
    events = traced["traceEvents"]
    calls = [event["cat"] for event in events if event["ph"] == "X"]
    assert calls.count("forward") == calls.count("backward") == 4
    assert traced["otherData"]["step_seconds"] == planned["step_time_s"]
    end = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
    assert end == pytest.approx(planned["step_time_s"] * 1e6)
    memory = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert max(memory) == planned["peak_memory_bytes"] > min(memory)


@pytest.mark.parametrize("schedule, backward", [("1f1b", "backward"), ("zb", "input gradient")])
def test_trace_of_a_pipeline(tmp_path, schedule, backward):
    """Each pipeline rank makes its calls; what it computes, communicates and idles is the step."""
    trace = tmp_path / "trace.json"
    out = check_call("dtc", "plan", MODELS / "gpt2.onnx", "--gpus", 4, "--loss", "cross_entropy",
                     "--global-batch", 16, "--plan", f"dp=2,pp=2,micro_batch=1,schedule={schedule}",
                     "--trace", trace, "--json").out
    plan, events = json.loads(out), json.loads(trace.read_text())["traceEvents"]
    assert plan["plan"]["num_microbatches"] == 8 and len(plan["stages"]) == 2
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert [name.split(":")[0] for name in names] == ["pipeline rank 0", "pipeline rank 1"]
    busy = 0
    for rank, sent in ((0, "send activations"), (1, "send gradients")):
        slices = [event for event in events if event["ph"] == "X" and event["pid"] == rank]
        counts = [sum(event["cat"] == kind for event in slices) for kind in ("forward", backward, sent)]
        assert counts == [8, 8, 8]
        busy += sum(event["dur"] for event in slices if event["tid"] == 1) / 1e6
        peak = max(event["args"]["bytes"] for event in events
                   if event["ph"] == "C" and event["pid"] == rank)
        assert peak == plan["stages"][rank]["peak_memory_bytes"]
    step, bubble = (plan["predicted"][key] for key in ("step_time_s", "bubble_fraction"))
    assert 0 < bubble < 1 / 3
    # Neither idle nor in a call: waiting for what is on its way, summing gradients.
    assert busy / 2 <= step * (1 - bubble) <= busy / 2 + plan["predicted"]["exposed_communication_s"]


def test_outputs_without_a_loss(tmp_path):
    """`--loss none` runs the forward pass alone; two ranks give what one gives."""
    outputs = []
    for devices in (1, 2):
        artifact, written = tmp_path / f"{devices}.dtc", tmp_path / f"{devices}.safetensors"
        check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", devices, "--plan",
                   f"tp={devices}", "--loss", "none", "--global-batch", 8, "-o", artifact)
        check_call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--no-shuffle",
                   "--outputs", written)
        outputs.append(load_file(written)["logits"])
    assert outputs[0].shape == (80, 32, 512)
    assert abs(outputs[0] - outputs[1]).max() < 3e-5 < abs(outputs[0]).max()


@pytest.mark.parametrize("pinned", [[], ["--plan", "dp=2,tp=2,micro_batch=1"]])
def test_a_saved_plan_compiles_to_the_same_artifact(tmp_path, pinned):
    """It brings its batch and microbatches."""
    plan, first, second = (tmp_path / name for name in ("plan.yaml", "first.dtc", "second.dtc"))
    common = ["dtc", "compile", MODELS / "gpt2.onnx", "--devices", 4, "--loss", "cross_entropy"]
    check_call(*common, *pinned, "--global-batch", 8, "--save-plan", plan, "-o", first)
    check_call(*common, "--plan", plan, "-o", second)
    assert first.read_bytes() == second.read_bytes()


def test_calibrated_cluster_plans(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    check_call("dtc", "calibrate", "-o", cluster)
    text = cluster.read_text()
    assert float(re.search(r"launch_us: (\S+)", text)[1]) > 0
    forks = re.findall(r"{threads: (\d+), seconds: (\S+)}", text)
    assert all(float(seconds) > 0 for _, seconds in forks)
    assert max((int(threads) for threads, _ in forks), default=1) == os.cpu_count()
    out = check_call("dtc", "plan", MODELS / "gpt2.onnx", "--devices", 2, "--cluster", cluster,
                     "--json").out
    assert json.loads(out)["predicted"]["step_time_s"] > 0


@pytest.mark.parametrize("model,batch", [("mlp", 32), ("mlp", 64), ("gpt2", 8), ("llama", 32)])
def test_no_alternative_is_faster(model, batch):
    """Several calls a step cost more than the search knows before it has them; the choice is made with that."""
    answer = json.loads(check_call("dtc", "plan", MODELS / f"{model}.onnx", "--devices", 4, "--loss", "cross_entropy",
                                   "--global-batch", batch, "--json").out)
    chosen = answer["predicted"]["step_time_s"]
    assert all(other["predicted"]["step_time_s"] >= chosen for other in answer["alternatives"])
