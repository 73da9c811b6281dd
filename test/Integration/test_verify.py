"""`dtc compile --verify`: every family of models computes on four ranks what it
computes on one, by the reference interpreter. So do the kernels and library calls that become of it."""

import re

import pytest

import llama_graph
from conftest import MODELS, call, case, check_call, encode_model

LINE = re.compile(r"verified (\d+) tensors of a step on (\d+) ranks?, largest difference (\S+) of "
                  r"its largest element: \S")


def verified(text: str) -> tuple[int, int, float]:
    match = LINE.search(text)
    assert match, text
    return int(match[1]), int(match[2]), float(match[3])


@pytest.mark.parametrize("model,plan", [
    case("tp=2" in plan or model in ("gpt2", "moe", "resnet_tiny", "t5"), model, plan)
    for plan in ("dp=2,tp=2,micro_batch=2", "tp=4", "dp=4")
    for model in ("bart", "bert", "convnext", "gpt2", "gpt2_mask", "gpt_neox", "llama", "mistral", "mixtral", "mobilenet",
                  "moe", "qwen2", "resnet_tiny", "t5", "vit")])
def test_ranks_compute_what_one_computes(model, plan, tmp_path):
    outcome = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy",
                         "--devices", 4, "--global-batch", 8, "--plan", plan, "--clip-grad-norm", 1,
                         "--verify", "--emit", "partition", "-o", tmp_path / "o.mlir")
    tensors, ranks, worst = verified(outcome.err)
    assert tensors > 20 and ranks == 4
    assert worst < 1e-14


@pytest.mark.parametrize("heads,ffn,vocabulary", [(6, 192, 256), (4, 198, 256), (6, 198, 257)])
def test_sizes_that_four_ranks_divide_together_with_others(tmp_path, heads, ffn, vocabulary):
    """Two of tp's factors split six heads, and two the size of a head: nothing is padded, and nothing repeated."""
    path = tmp_path / "model.onnx"
    llama_graph.write(path, llama_graph.Llama(1, 96, heads, heads, ffn, vocabulary, 16))
    outcome = check_call("dtc", "compile", path, "--init", "--loss", "cross_entropy", "--devices", 4, "--global-batch", 4,
                         "--plan", "tp=4,tp_weights=split", "--verify", "--emit", "partition", "-o", tmp_path / "o.mlir")
    tensors, ranks, worst = verified(outcome.err)
    assert tensors > 20 and ranks == 4 and worst < 1e-14


@pytest.mark.parametrize("flags", [
    ["--loss", "mse", "--optimizer", "sgd", "--momentum", 0.9, "--nesterov"],
    ["--loss", "mse", "--precision", "bf16", "--optimizer", "adam"],
    ["--loss", "none"],
])
def test_other_steps(flags, tmp_path):
    outcome = check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 4, "--plan", "dp=2,tp=2",
                         "--global-batch", 8, *flags, "--verify", "-o", tmp_path / "o.dtc")
    assert verified(outcome.out)[1] == 4
    assert outcome.out.startswith("verified ")  # in front of the table
    assert (tmp_path / "o.dtc").exists()


@pytest.mark.parametrize("model,precision", [("gpt2", "bf16"), ("t5", "bf16"), ("mixtral", "fp32"), ("resnet_tiny", "bf16")])
def test_kernels_and_calls_of_gpus_are_compared(model, precision, tmp_path):
    plan = "dp=4" if model == "resnet_tiny" else "dp=2,tp=2,micro_batch=2"
    outcome = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--devices", 4,
                         "--global-batch", 8, "--plan", plan, "--clip-grad-norm", 1, "--target", "cuda", "--arch", "sm_90",
                         "--precision", precision, "--verify", "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert verified(outcome.err)[1] == 4
    assert "not as kernels" not in outcome.err


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_calls_of_attention_in_a_ring_are_compared(model, tmp_path):
    """A backward call reads statistics of keys that other ranks have, too."""
    outcome = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--devices", 2, "--global-batch", 2,
                         "--plan", "dp=1,cp=2,cp_by=ring", "--target", "cuda", "--arch", "sm_90", "--precision", "bf16", "--verify",
                         "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert verified(outcome.err)[1] == 2
    assert "not as kernels" not in outcome.err


def test_one_rank_is_itself(tmp_path):
    outcome = check_call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "mse", "--verify", "-o",
                         tmp_path / "o.dtc")
    assert verified(outcome.out)[1:] == (1, 0)


PIPELINES = [
    ("gpt2", 8, "pp=2,dp=2,tp=2,zero=3,micro_batch=2,schedule=1f1b"),
    ("gpt2", 4, "pp=2,dp=2,schedule=interleaved,chunks=2,micro_batch=1"),
    ("bart", 4, "pp=4,dp=1,schedule=gpipe,micro_batch=2"),
    ("t5", 4, "pp=2,dp=1,tp=2,schedule=zb,micro_batch=1,recompute=full"),
    ("moe", 4, "pp=2,dp=2,zero=2,schedule=zb,micro_batch=1"),
    ("resnet_tiny", 2, "pp=2,dp=1,micro_batch=4"),
    ("llama", 4, "pp=2,cp=2,schedule=1f1b,micro_batch=2,recompute=full"),
]


@pytest.mark.parametrize("model,devices,plan", PIPELINES)
def test_pipelines_compute_what_one_rank_computes(model, devices, plan, tmp_path):
    outcome = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--devices", devices,
                         "--global-batch", 8, "--plan", plan, "--clip-grad-norm", 1, "--verify", "--emit", "partition", "-o",
                         tmp_path / "o.mlir")
    tensors, ranks, worst = verified(outcome.err)
    assert tensors > 20 and ranks == devices and worst < 1e-13
    assert "twin" not in outcome.err


def compiled(tmp_path, *flags):
    return check_call("dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--devices", 4, "--global-batch", 8,
                      "--plan", "pp=2,tp=2,micro_batch=1", *flags, "-o", tmp_path / "o.dtc")


def test_artifacts_are_verified_on_a_twin(tmp_path):
    outcome = compiled(tmp_path)
    assert verified(outcome.out)[1] == 4
    assert outcome.out.splitlines()[0].endswith(", on a twin of small dimensions with tp=2 pp=2")


def test_a_twin_of_a_pipeline_alone_is_named(tmp_path):
    outcome = check_call("dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--devices", 2, "--global-batch", 8,
                         "--plan", "pp=2,dp=1", "-o", tmp_path / "o.dtc")
    assert outcome.out.splitlines()[0].endswith(", on a twin of small dimensions with pp=2")


def test_verifying_can_be_left_out(tmp_path):
    assert "verified" not in compiled(tmp_path, "--no-verify").out


LARGE = """
    ir_version: 10 opset_import { version: 18 }
    graph { name: "g"
      node { op_type: "Transpose" input: "x" output: "t"
             attribute { name: "perm" type: INTS ints: 0 ints: 2 ints: 1 } }
      node { op_type: "MatMul" input: "x" input: "t" output: "y" }
      input { name: "x" type { tensor_type { elem_type: 1
        shape { dim { dim_value: 1 } dim { dim_value: 16384 } dim { dim_value: 1024 } } } } }
      output { name: "y" type { tensor_type { elem_type: 1
        shape { dim { dim_value: 1 } dim { dim_value: 16384 } dim { dim_value: 16384 } } } } }
    }"""


def test_what_is_large_is_verified_on_a_twin(tmp_path):
    model = encode_model(LARGE, tmp_path / "large.onnx")
    outcome = check_call("dtc", "compile", model, "--loss", "none", "--devices", 2, "--verify", "--emit", "partition", "-o",
                         tmp_path / "o.mlir")
    assert verified(outcome.err)[1] == 2
    assert "on a twin of small dimensions" in outcome.err


# Every sixth element of x meets 12,288 x 12,288 others: a slice with strides keeps its size.
STRIDED = """
    ir_version: 10 opset_import { version: 18 }
    graph { name: "g"
      node { op_type: "Slice" input: "x" input: "from" input: "to" input: "axes" input: "steps" output: "s" }
      node { op_type: "Transpose" input: "s" output: "t"
             attribute { name: "perm" type: INTS ints: 0 ints: 2 ints: 1 } }
      node { op_type: "MatMul" input: "s" input: "t" output: "y" }
      initializer { name: "from" data_type: 7 dims: 1 int64_data: 0 }
      initializer { name: "to" data_type: 7 dims: 1 int64_data: 73728 }
      initializer { name: "axes" data_type: 7 dims: 1 int64_data: 1 }
      initializer { name: "steps" data_type: 7 dims: 1 int64_data: 6 }
      input { name: "x" type { tensor_type { elem_type: 1
        shape { dim { dim_value: 1 } dim { dim_value: 73728 } dim { dim_value: 1024 } } } } }
      output { name: "y" type { tensor_type { elem_type: 1
        shape { dim { dim_value: 1 } dim { dim_value: 12288 } dim { dim_value: 12288 } } } } }
    }"""


def test_what_cannot_be_verified_is_said(tmp_path):
    model = encode_model(STRIDED, tmp_path / "large.onnx")
    flags = ["--loss", "none", "--devices", 2, "-o", tmp_path / "o.dtc"]
    assert check_call("dtc", "compile", model, *flags).out.startswith(
        "not verified: a twin with small dimensions takes too long: some ")
    (tmp_path / "o.dtc").unlink()


@pytest.mark.parametrize("phase, flags", [
    ("plan", ["--verify"]),
    ("train", ["--report", "o"]),
    ("import", ["--trace", "o"]),
    ("train", ["--save-plan", "o"]),
])
def test_what_comes_after_the_last_phase_is_refused(phase, flags, tmp_path):
    outcome = call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "mse", *flags, "--emit", phase,
                   cwd=tmp_path)
    assert outcome.code == 2 and not outcome.out
    assert f"{flags[0]} is about what --emit {phase} doesn't come to" in outcome.error_line()
    assert not list(tmp_path.iterdir())


def test_grouped_products_are_large_taken_apart(tmp_path):
    """2,048 rows, each of which has its 512 x 512 weights, in two calls."""
    model = encode_model('''
        ir_version: 10 opset_import { version: 20 }
        graph { name: "g"
          node { op_type: "Gather" input: "w" input: "task" output: "chosen" }
          node { op_type: "MatMul" input: "x" input: "chosen" output: "y" }
          initializer { name: "w" data_type: 1 dims: 1 dims: 512 dims: 512 raw_data: "ZEROS" }
          input { name: "x" type { tensor_type { elem_type: 1
            shape { dim { dim_value: 2048 } dim { dim_value: 1 } dim { dim_value: 512 } } } } }
          input { name: "task" type { tensor_type { elem_type: 7 shape { dim { dim_value: 2048 } } } } }
          output { name: "y" }
        }'''.replace("ZEROS", "\\000" * (4 * 512 * 512)), tmp_path / "large.onnx")
    outcome = check_call("dtc", "compile", model, "--loss", "none", "--devices", 2, "--verify", "--emit", "partition",
                         "-o", tmp_path / "o.mlir")
    assert "on a twin of small dimensions" in outcome.err  # not the step itself, which takes 3e9 elements
