"""`--save-plan` writes the plan that was told of."""

import json

import llama_graph
import pytest

from conftest import MODELS, check_call

# Room for one of two layers' activations.
CLUSTER = """\
device: {base: h100, memory_gb: 0.89}
devices_per_node: 8
intra_node: {bandwidth_gbs: 300, latency_us: 5}
"""


def test_some_recomputed_blocks_stay_some(tmp_path):
    cluster, saved = tmp_path / "small.yaml", tmp_path / "plan.yaml"
    cluster.write_text(CLUSTER)
    job = [MODELS / "gpt2.onnx", "--gpus", 2, "--cluster", cluster, "--loss", "cross_entropy",
           "--global-batch", 4096, "--json"]
    told = json.loads(check_call("dtc", "plan", *job, "--plan", "dp=2").out)["plan"]
    assert told["recompute"] == "full" and told["recompute_blocks"] == 1
    assert json.loads(check_call("dtc", "plan", *job, "--plan", "dp=2", "--save-plan", saved).out)["plan"] == told
    assert json.loads(check_call("dtc", "plan", *job, "--plan", saved).out)["plan"] == told


@pytest.mark.parametrize("cluster, size", [
    ("h100", llama_graph.Llama(8, 4096, 32, 8, 14336, 32000, 2048)),
    ("cpu", llama_graph.Llama(4, 512, 8, 8, 1024, 1000, 16)),  # few tokens: its gradients are most of what it moves
], ids=["h100", "cpu"])
@pytest.mark.parametrize("plan", ["pp=4,micro_batch=1,schedule=1f1b", "dp=4,micro_batch=1", "dp=4,zero=2,micro_batch=1"])
def test_adding_up_gradients_costs_the_same_in_both(tmp_path, plan, cluster, size):
    """Saved plans are of calls that add to earlier gradients, others of a call as the file has it."""
    model = llama_graph.write(tmp_path / "llama.onnx", size)
    job = [model, "--gpus", 4, "--loss", "cross_entropy", "--global-batch", 16, "--precision", "bf16",
           "--cluster", cluster, "--plan", plan, "--json"]
    told = json.loads(check_call("dtc", "plan", *job).out)["predicted"]
    saved = json.loads(check_call("dtc", "plan", *job, "--save-plan", tmp_path / "plan.yaml").out)["predicted"]
    assert saved["step_time_s"] == pytest.approx(told["step_time_s"], rel=1e-5)
