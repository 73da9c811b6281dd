"""`dtc compile --verify`: every family of models computes on four ranks what it
computes on one, by the reference interpreter."""

import re

import pytest

from conftest import MODELS, call, check_call, encode_model

LINE = re.compile(r"verified (\d+) tensors of a step on (\d+) ranks?, largest difference (\S+) of "
                  r"its largest element: \S")


def verified(text: str) -> tuple[int, int, float]:
    match = LINE.search(text)
    assert match, text
    return int(match[1]), int(match[2]), float(match[3])


@pytest.mark.parametrize("model", [
    "bart", "bert", "convnext", "gpt2", "gpt2_mask", "gpt_neox", "llama", "mixtral", "mobilenet",
    "moe", "qwen2", "resnet_tiny", "t5", "vit"])
@pytest.mark.parametrize("plan", ["dp=2,tp=2,micro_batch=2", "tp=4", "dp=4"])
def test_ranks_compute_what_one_computes(model, plan, tmp_path):
    outcome = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy",
                         "--devices", 4, "--global-batch", 8, "--plan", plan, "--clip-grad-norm", 1,
                         "--verify", "--emit", "partition", "-o", tmp_path / "o.mlir")
    tensors, ranks, worst = verified(outcome.err)
    assert tensors > 20 and ranks == 4
    assert worst < 1e-14


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


def test_one_rank_is_itself(tmp_path):
    outcome = check_call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "mse", "--verify", "-o",
                         tmp_path / "o.dtc")
    assert verified(outcome.out)[1:] == (1, 0)


def test_what_is_too_large_is_refused(tmp_path):
    model = encode_model('''
        ir_version: 10 opset_import { version: 18 }
        graph { name: "g"
          node { op_type: "Transpose" input: "x" output: "t"
                 attribute { name: "perm" type: INTS ints: 0 ints: 2 ints: 1 } }
          node { op_type: "MatMul" input: "x" input: "t" output: "y" }
          input { name: "x" type { tensor_type { elem_type: 1
            shape { dim { dim_value: 1 } dim { dim_value: 16384 } dim { dim_value: 1024 } } } } }
          output { name: "y" type { tensor_type { elem_type: 1
            shape { dim { dim_value: 1 } dim { dim_value: 16384 } dim { dim_value: 16384 } } } } }
        }''', tmp_path / "large.onnx")
    outcome = call("dtc", "compile", model, "--loss", "none", "--devices", 2, "--verify",
                   "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert outcome.code == 2
    assert "too slow for this step" in outcome.error_line()
    assert not (tmp_path / "o.mlir").exists()


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
    outcome = call("dtc", "compile", model, "--loss", "none", "--devices", 2, "--verify", "--emit", "partition",
                   "-o", tmp_path / "o.mlir")
    assert outcome.code == 2, outcome.err
    assert "2.15e+09 flops and 3.23e+09 elements" in outcome.error_line()
