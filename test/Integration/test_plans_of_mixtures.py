"""`dtc plan` for GPUs assumes the slots of experts that dtc's own programs have, unless the plan is for another program."""

import json
import zipfile

import pytest

from conftest import MODELS, call, check_call

JOB = ("--target", "cuda", "--precision", "bf16", "--loss", "cross_entropy")
CASES = [("mixtral.onnx", 1, 1024, "dp=1,micro_batch=1024"), ("mixtral.onnx", 4, 64, "dp=2,ep=2,zero=1"), ("mixtral.onnx", 4, 64, "auto"),
         ("gpt_oss.pt2", 1, 256, "dp=1,micro_batch=256"), ("gpt_oss.pt2", 4, 64, "ep=4,dp=1"), ("gpt_oss.pt2", 4, 64, "pp=2,tp=2"),
         ("gpt_oss.pt2", 2, 64, "auto")]


def planned(model, devices, batch, plan, *flags):
    return json.loads(check_call("dtc", "plan", MODELS / model, *JOB, "--devices", devices, "--global-batch", batch, "--plan", plan,
                                 *flags, "--json").out)


@pytest.mark.parametrize("model,devices,batch,plan", CASES)
def test_plan_says_what_compile_makes(tmp_path, model, devices, batch, plan):
    artifact, saved = tmp_path / "m.dtc", tmp_path / "plan.yaml"
    check_call("dtc", "compile", MODELS / model, *JOB, "--devices", devices, "--global-batch", batch, "--plan", plan,
               "--save-plan", saved, "-o", artifact)
    made = json.loads(zipfile.ZipFile(artifact).read("manifest.json"))["predicted"]
    first = planned(model, devices, batch, plan)
    assert first["predicted"]["step_time_s"] == pytest.approx(made["step_time_s"], rel=1e-9)
    assert first["predicted"]["peak_memory_bytes"] == pytest.approx(made["peak_memory_bytes"], rel=1e-3)
    check_call("dtc", "plan", MODELS / model, *JOB, "--devices", devices, "--global-batch", batch, "--plan", plan, "--save-plan",
               tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text() == saved.read_text()


def activations(answer):
    return answer["predicted"]["memory"]["activations"]


def test_plans_of_other_programs_have_none(tmp_path):
    """A program that is named, and a cluster that says what its software does, take experts as chosen equally often."""
    own = planned("mixtral.onnx", 1, 1024, "dp=1,micro_batch=1024")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("{device: h100, devices_per_node: 8, intra_node: {bandwidth_gbs: 450, latency_us: 2}, "
                       "software: {flash_attention: 3}}")
    their = planned("mixtral.onnx", 1, 1024, "dp=1,micro_batch=1024", "--cluster", cluster)
    bare = tmp_path / "bare.yaml"
    bare.write_text(cluster.read_text().replace(", software: {flash_attention: 3}", ""))
    assert activations(planned("mixtral.onnx", 1, 1024, "dp=1,micro_batch=1024", "--cluster", bare)) == activations(own)
    assert activations(their) < 0.8 * activations(own)
    # So many slots are the worst case here, where each token chooses two of four experts.
    asked = planned("mixtral.onnx", 1, 1024, "dp=1,micro_batch=1024,capacity=2", "--cluster", cluster)
    assert activations(asked) == pytest.approx(activations(own), rel=0.01)
    # The warning of slots counts those of the problem that was planned.
    for flags in (("--cluster", cluster), ("--for", "megatron-core")):
        assert "slots" not in call("dtc", "plan", MODELS / "mixtral.onnx", *JOB, "--devices", 4, "--global-batch", 64, "--plan",
                                   "ep=4,dp=1", *flags).err


def test_what_slots_cost_is_said(tmp_path):
    def said(command, plan, *flags):
        return call("dtc", command, MODELS / "mixtral.onnx", *JOB, "--devices", 1, "--global-batch", 8, "--plan", plan, *flags).err

    warning = ("warning: experts have slots for whatever tokens choose, and compute 2.0 times the rows; with capacity=tiles these are "
               "hardly more than there are; capacity=NUMBER pins fewer")
    assert warning + "; --for plans other programs" in said("plan", "dp=1")
    told = said("compile", "dp=1", "-o", tmp_path / "m.dtc")
    assert warning in told and "--for" not in told
    for plan in ("dp=1,capacity=1", "dp=1,capacity=worst"):
        assert "slots" not in said("plan", plan)
    assert "slots" not in call("dtc", "plan", MODELS / "moe.onnx", *JOB, "--devices", 1, "--global-batch", 8, "--plan", "dp=1").err


def test_estimates_have_the_slots_of_plans(tmp_path):
    """`dtc estimate` counts what `dtc plan` holds for the same way, and says so; not for a cluster with software of its own."""
    def way(*flags):
        answer = json.loads(check_call("dtc", "estimate", MODELS / "mixtral.onnx", "--gradients", "fp32", "--micro-batch", 256, "--gpus", 1,
                                       *flags, "--json").out)
        return answer["jobs"][0], next(way for way in answer["jobs"][0]["configurations"]["plans"] if way["plan"]["recompute"] == "full")

    job, own = way("--cluster", "dgx-h100")
    plan = planned("mixtral.onnx", 1, 4096, "dp=1,micro_batch=256,recompute=full")
    assert own["peak_memory_bytes"] == pytest.approx(plan["predicted"]["peak_memory_bytes"], rel=0.01)
    assert "experts have slots for whatever tokens choose, and compute 2.0 times the rows" in job["assumptions"]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("{device: h100, devices_per_node: 8, intra_node: {bandwidth_gbs: 450, latency_us: 2}, "
                       "software: {flash_attention: 3}}")
    job, their = way("--cluster", cluster)
    assert their["memory"]["activations"] < 0.8 * own["memory"]["activations"]
    assert "slots" not in job["assumptions"]
