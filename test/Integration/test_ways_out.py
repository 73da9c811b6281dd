"""Refusals name the way out: another export, a flag, or what there is instead."""

import json
import zipfile

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, call, check_call, encode_model


def refusal(*arguments, code) -> str:
    outcome = call(*arguments)
    assert outcome.code == code, outcome.err
    return outcome.error_line()


def test_a_pt_file_is_no_program(tmp_path):
    saved = tmp_path / "model.pt"
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02}.")
    line = refusal("dtc", "plan", saved, code=3)
    assert "torch.save writes" in line and "torch.jit.save" in line and "torch.export.save" in line


def test_a_model_is_no_artifact():
    for command in (["dtc", "inspect", MODELS / "mlp.onnx"], ["dtc-run", MODELS / "mlp.onnx", "--data", MODELS / "text.bin"]):
        assert "not an artifact of dtc; dtc compile makes one of a model" in refusal(*command, code=3)


def test_unknown_clusters_are_told_which_there_are():
    line = refusal("dtc", "plan", MODELS / "mlp.onnx", "--cluster", "my-machines", code=2)
    assert "neither a file nor among cpu, dgx-1, dgx-2" in line


def test_a_batch_that_cannot_be_changed_can_be_kept(tmp_path):
    """A loss that the model computes is a scalar, and its mean is of as many samples as were exported."""
    shape = "type { tensor_type { elem_type: 1 shape { %s } } }"
    model = encode_model("""
      ir_version: 10 opset_import { version: 20 } graph { name: "g"
        node { input: "x" input: "w" output: "p" op_type: "MatMul" }
        node { input: "p" output: "loss" op_type: "ReduceMean" attribute { name: "keepdims" type: INT i: 0 } }
        initializer { name: "w" dims: 4 dims: 2 data_type: 1 float_data: [1, 2, 3, 4, 5, 6, 7, 8] }
        input { name: "x" %s } output { name: "loss" %s } }
      """ % (shape % "dim { dim_value: 8 } dim { dim_value: 4 }", shape % ""), tmp_path / "own.onnx")
    line = refusal("dtc", "plan", model, "--loss", "output:loss", "--devices", 2, "--plan", "dp=2", code=3)
    assert "--global-batch 8 without a micro_batch keeps the file's" in line, line


def test_data_without_an_input_is_told_what_it_holds(tmp_path):
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "cross_entropy", "-o", tmp_path / "mlp.dtc")
    save_file({"images": numpy.zeros((8, 3), numpy.float32)}, tmp_path / "data.safetensors")
    line = refusal("dtc-run", tmp_path / "mlp.dtc", "--data", tmp_path / "data.safetensors", code=3)
    assert "it holds images of 8x3 F32" in line, line


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    check_call("dtc", "plan", MODELS / "mlp.onnx", "--devices", 2, "--global-batch", 8, "--plan", "dp=2", "--save-plan", path)
    return path


def test_a_plan_of_other_flags_is_not_of_another_model(saved):
    line = refusal("dtc", "plan", MODELS / "mlp.onnx", "--devices", 2, "--plan", saved, "--loss", "none", code=3)
    assert "--loss or the batch is another" in line, line
    line = refusal("dtc", "plan", MODELS / "vit.onnx", "--devices", 2, "--plan", saved, code=3)
    assert "other flags" not in line, line


def test_an_edit_in_one_place_is_enough(saved, tmp_path):
    """A plan of which only its degrees are kept is planned anew."""
    text = saved.read_text()
    edited = tmp_path / "edited.yaml"
    edited.write_text(text.replace("  dp: 2", "  dp: 1").replace("  tp: 1", "  tp: 2"))
    line = refusal("dtc", "plan", MODELS / "mlp.onnx", "--devices", 2, "--plan", edited, code=3)
    assert "keep the part plan: alone" in line, line
    edited.write_text(edited.read_text().split("mesh:")[0])
    answer = json.loads(check_call("dtc", "plan", MODELS / "mlp.onnx", "--devices", 2, "--plan", edited, "--json").out)
    assert (answer["plan"]["dp"], answer["plan"]["tp"]) == (1, 2)


def test_a_pinned_plan_without_memory_is_told_which_pin_fits(tmp_path):
    """As it is with the search. Who follows the advice has a program."""
    cluster = tmp_path / "small.yaml"
    cluster.write_text("node: dgx-h100\ndevice: {base: h100, memory_gb: 0.895}\n")
    asked = ["dtc", "compile", MODELS / "mlp.onnx", "--loss", "cross_entropy", "--init", "--gpus", 2, "--global-batch", 131072,
             "--cluster", cluster, "--emit", "partition"]
    pins = "dp=2,tp=1,pp=1,cp=1,ep=1,zero=0,recompute=none,offload=none"
    line = refusal(*asked, "--plan", f"{pins},micro_batch=65536", code=4)
    assert " short; with micro_batch=" in line and line.endswith(" a plan fits"), line
    check_call(*asked, "--plan", f"{pins},{line.split()[-4]}")


def test_inspect_says_how_it_trains(tmp_path):
    artifact = tmp_path / "gpt2.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--lr", "3e-4", "--global-batch", 8,
               "-o", artifact)
    facts = json.loads(check_call("dtc", "inspect", artifact, "--json").out)
    assert facts["loss"] == "cross_entropy" and facts["global_batch"] == 8 and facts["sequence"] == 32
    assert facts["optimizer"]["kind"] == "adamw" and facts["learning_rate"]["lr"] == 3e-4
    assert [item["name"] for item in facts["inputs"]] == ["input_ids", "target"]
    out = check_call("dtc", "inspect", artifact).out
    assert "loss cross_entropy" in out and "optimizer adamw (" in out and "global batch 8" in out
    assert "learning rate constant (lr=0.0003)" in out and "  input_ids  I64 [8,32]" in out


def test_a_program_without_kernels(tmp_path):
    """One product is a call of a library: there is nothing to link."""
    model = encode_model("""
      ir_version: 10 opset_import { version: 20 } graph { name: "g"
        node { input: "x" input: "w" output: "y" op_type: "MatMul" }
        initializer { name: "w" dims: 4 dims: 2 data_type: 1 float_data: [1, 0, 0, 1, 1, 0, 0, 1] }
        input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 8 } dim { dim_value: 4 } } } } }
        output { name: "y" type { tensor_type { elem_type: 1 shape { dim { dim_value: 8 } dim { dim_value: 2 } } } } } }
      """, tmp_path / "product.onnx")
    check_call("dtc", "compile", model, "--loss", "none", "-o", tmp_path / "product.dtc")
    x = numpy.arange(32, dtype=numpy.float32).reshape(8, 4)
    save_file({"x": x}, tmp_path / "data.safetensors")
    check_call("dtc-run", tmp_path / "product.dtc", "--data", tmp_path / "data.safetensors",
               "--outputs", tmp_path / "out.safetensors")
    assert numpy.array_equal(load_file(tmp_path / "out.safetensors")["y"], x @ numpy.array([[1, 0], [0, 1], [1, 0], [0, 1]]))
