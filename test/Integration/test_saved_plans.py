"""`--save-plan` writes the plan that was told of."""

import json

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
