"""On real exports the solver finds Megatron's layout by itself.

Shoeybi et al., Megatron-LM (arXiv 1909.08053): column then row parallel weights,
one sum for attention and one for the MLP in each direction, embedding and loss
parallel over the vocabulary. Korthikanti et al., Reducing Activation Recomputation
(arXiv 2205.05198): the sums as pairs of reduce-scatter and all-gather, norms along
the sequence.
"""

import json
import re

import pytest

from conftest import MODELS, check_call

# An H100 node as a model of width 64 instead of 4096 sees it: a byte that is sent
# stands for 64 times less arithmetic, so the rate is 64 times lower, and a whole
# step about 3000 times shorter, so latencies are.
CLUSTER = """\
device:
  name: narrow
  memory_gb: 80
  bandwidth_gbs: 3350
  launch_us: 0.001
  peak_tflops: {fp32: 1, bf16: 15}
  achieved_tflops: {fp32: 0.7, bf16: 12}
devices_per_node: 8
intra_node: {bandwidth_gbs: 450, latency_us: 0.001}
"""
SEQUENCE, WIDTH, LAYERS = 32, 64, 2
ACTIVATION_BYTES = SEQUENCE * WIDTH * 2  # one sample: half as many tokens as the model is wide


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "narrow.yaml"
    path.write_text(CLUSTER)
    return path


def plan(model: str, tp: int, cluster) -> tuple[dict[str, list[str]], dict]:
    """The axes that split each dimension of the parameters, by name with * for
    the layer; and the answer in JSON."""
    flags = ["dtc", "plan", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch",
             1, "--gpus", tp, "--plan", f"tp={tp}", "--precision", "bf16", "--cluster", cluster]
    layouts = {}
    for line in check_call(*flags).out.splitlines():
        if match := re.match(r"  m\.(?:transformer|model)?\.?(\S+) +[\dx]+ +\[(.*?)\]", line):
            layouts[match[1]] = [dim.replace('"', "") for dim in re.findall(r"{(.*?)}", match[2])]
    return layouts, json.loads(check_call(*flags, "--json").out)


def counts(answer: dict, size: int) -> dict[str, int]:
    """Collectives of tensors of that many bytes, by kind."""
    result: dict[str, int] = {}
    for use in answer["collectives"]:
        if use["bytes"] == size:
            result[use["kind"]] = result.get(use["kind"], 0) + use["count"]
    return result


def check_collectives(answer: dict, around: int) -> None:
    """A pair for attention and one for the MLP of each layer in each direction,
    `around` pairs for embedding and head, and nothing else of that size or in
    that number."""
    pairs = LAYERS * 2 * 2 + around
    assert counts(answer, ACTIVATION_BYTES) in (
        {"all_gather": pairs, "reduce_scatter": pairs},
        # the ends of the sequence-parallel region may exchange instead of gathering
        {"all_gather": pairs, "reduce_scatter": pairs, "all_to_all": 1})
    assert all(use["bytes"] <= ACTIVATION_BYTES for use in answer["collectives"])
    rest = sum(use["bytes"] * use["count"] for use in answer["collectives"]
               if use["kind"] not in ("all_gather", "reduce_scatter"))
    assert rest < 0.25 * pairs * 2 * ACTIVATION_BYTES


@pytest.mark.parametrize("tp", [2, 4])
def test_gpt2(cluster, tp):
    layouts, answer = plan("gpt2", tp, cluster)
    expected = {
        "h.*.attn.c_attn.weight": ["", "", "tp", ""],  # the fused projection by heads
        "h.*.attn.c_attn.bias": ["", "tp", ""],
        "h.*.attn.c_proj.weight": ["tp", "", ""],
        "h.*.attn.c_proj.bias": [""],
        "h.*.mlp.c_fc.weight": ["", "tp"],
        "h.*.mlp.c_fc.bias": ["tp"],
        "h.*.mlp.c_proj.weight": ["tp", ""],
        "h.*.mlp.c_proj.bias": [""],
        "h.*.ln_1.weight": [""],
        "h.*.ln_2.bias": [""],
        "lm_head.weight": ["tp", ""],  # tied: embedding and head by vocabulary
    }
    assert {name: layouts[name] for name in expected} == expected
    check_collectives(answer, around=2)


@pytest.mark.parametrize("tp", [2, 4])
def test_llama(cluster, tp):
    """Two key-value heads: under tp=4 they are split in two, by the outer axis."""
    layouts, answer = plan("llama", tp, cluster)
    whole, outer = ("tp", "tp") if tp == 2 else ("tp.0, tp.1", "tp.0")
    expected = {
        "layers.*.self_attn.q_proj.weight": [whole, "", ""],
        "layers.*.self_attn.o_proj.weight": ["", whole, ""],
        "layers.*.mlp.gate_proj.weight": [whole, ""],
        "layers.*.mlp.up_proj.weight": [whole, ""],
        "layers.*.mlp.down_proj.weight": ["", whole],
        "layers.*.input_layernorm.weight": [""],
        "lm_head.weight": [whole, ""],
    }
    assert {name: layouts[name] for name in expected} == expected
    for name in ("k_proj", "v_proj"):
        assert layouts[f"layers.*.self_attn.{name}.weight"][0] == outer
    check_collectives(answer, around=1)
