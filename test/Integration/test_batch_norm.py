"""Batch norm in training mode, against PyTorch: losses, gradient norms and running statistics under many plans."""

import json
import re
import zipfile

import numpy
import pytest
from safetensors.numpy import load_file

from conftest import MODELS, call, check_call, compare_steps, encode_model, reference
from perceptron import log_of

PLANS = [(1, "dp=1"), (2, "tp=2"), (4, "dp=2,tp=2,zero=1"), (4, "dp=4,recompute=full"), (2, "dp=2,zero=3")]
CUT = [(1, "micro_batch=4"), (2, "dp=2,micro_batch=2"), (2, "pp=2,micro_batch=4"),
       (2, "pp=2,micro_batch=4,schedule=zb"), (2, "pp=2,micro_batch=4,schedule=interleaved,chunks=2")]
COUNT = "num_batches_tracked"


def compare(run, name):
    """Deviations as large as rounding makes them in ten steps."""
    compare_steps(run, reference("resnet_norms", name), loss=2e-5, norm=5e-5)
    statistics = load_file(MODELS / f"resnet_norms.{name}.statistics.safetensors")
    known = {key: value for key, value in statistics.items() if key in run.weights}
    assert len(known) >= 16
    for key, value in known.items():
        assert numpy.allclose(run.weights[key], value, rtol=2e-5, atol=2e-5), key
    return known


@pytest.mark.parametrize("devices,plan", PLANS)
def test_statistics_are_those_of_the_whole_batch(trainer, devices, plan):
    run = trainer.train("resnet_norms.pt2", "resnet_tiny", *reference("resnet_norms", "sgd")["flags"], devices=devices,
                        plan=plan)
    known = compare(run, "sgd")
    assert all(int(value) == 10 for key, value in known.items() if key.endswith(COUNT))
    assert any(key.endswith(COUNT) for key in known)


@pytest.mark.parametrize("devices,plan", CUT)
def test_each_microbatch_has_its_own(trainer, devices, plan):
    """As in PyTorch, where the gradients of several batches are added up."""
    run = trainer.train("resnet_norms.pt2", "resnet_tiny", *reference("resnet_norms", "micro")["flags"], devices=devices,
                        plan=plan)
    compare(run, "micro")


@pytest.mark.parametrize("file", ["resnet_tiny", "resnet_tiny.pt2"])
def test_norms_of_a_model_in_eval_mode(trainer, file):
    run = trainer.train(file, "resnet_tiny", "--batch-norm", "train", *reference("resnet_norms", "sgd")["flags"],
                        devices=2, plan="dp=2")
    compare(run, "sgd")


def test_the_planner_leaves_the_batch_whole(tmp_path):
    """How many samples have statistics in common is not for a plan to choose."""
    compiled = ("dtc", "compile", MODELS / "resnet_norms.pt2", "--loss", "cross_entropy", "--global-batch", 64, "--devices", 2)
    check_call(*compiled, "--verify", "--save-plan", tmp_path / "plan.yaml", "-o", tmp_path / "m.dtc")
    text = (tmp_path / "plan.yaml").read_text()
    assert "microbatches: 1\n" in text, text


def test_statistics_go_on_after_a_restart(tmp_path):
    check_call("dtc", "compile", MODELS / "resnet_norms.pt2", "--loss", "cross_entropy", "--global-batch", 8, "--devices", 2,
               "--plan", "dp=2", "-o", tmp_path / "m.dtc")
    run = ("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "resnet_tiny.data.safetensors", "--no-shuffle")
    check_call(*run, "--steps", 6, "--log", tmp_path / "whole.jsonl", "--save-weights", tmp_path / "whole.safetensors")
    saved = (*run, "--checkpoint-dir", tmp_path / "saved", "--log", tmp_path / "log.jsonl")
    check_call(*saved, "--steps", 2)
    check_call(*saved, "--steps", 6, "--resume", "--save-weights", tmp_path / "weights.safetensors")
    assert [line["loss"] for line in log_of(tmp_path / "log.jsonl")] == [
        line["loss"] for line in log_of(tmp_path / "whole.jsonl")]
    whole = load_file(tmp_path / "whole.safetensors")
    for name, array in load_file(tmp_path / "weights.safetensors").items():
        assert (array == whole[name]).all(), name


def with_a_norm_used_twice(path, model="resnet_norms.pt2"):
    """The stem's norm also takes the place of the first layer's."""
    with zipfile.ZipFile(MODELS / model) as before, zipfile.ZipFile(path, "w") as after:
        for info in before.infolist():
            data = before.read(info)
            if "models/" in info.filename:
                program = json.loads(data)
                for node in program["graph_module"]["graph"]["nodes"]:
                    for argument in node["inputs"] if "batch_norm" in node["target"] else ():
                        if "as_tensor" in argument["arg"] and "layer1" in (name := argument["arg"]["as_tensor"]["name"]):
                            argument["arg"]["as_tensor"]["name"] = re.sub("layer1_0_bn.", "bn1", name)
                data = json.dumps(program).encode()
            after.writestr(info, data)
    return str(path)


def test_a_norm_that_is_used_twice_is_not_cut_apart(trainer, tmp_path):
    """The next microbatch would begin where the last one has ended. Other cuts are left, and train as one rank does."""
    path = with_a_norm_used_twice(tmp_path / "m.pt2")
    one, cut = (trainer.train(path, "resnet_tiny", devices=devices, plan=plan)
                for devices, plan in ((1, "micro_batch=4"), (4, "pp=4,micro_batch=4")))
    assert numpy.allclose(one.column("loss"), cut.column("loss"), rtol=2e-5)
    shared = [name for name in cut.weights if name.startswith("bn1.running")]
    assert len(shared) == 2
    for name in shared:
        assert numpy.allclose(one.weights[name], cut.weights[name], rtol=2e-5, atol=2e-5), name


@pytest.mark.parametrize("command", ["plan", "compile"])
def test_too_many_stages_for_a_norm_that_is_used_twice(tmp_path, command):
    path = with_a_norm_used_twice(tmp_path / "m.pt2")
    refused = call("dtc", command, path, "--loss", "cross_entropy", "--devices", 512, "--global-batch", 8, "--plan",
                   "pp=512,micro_batch=4", *(["-o", tmp_path / "m.dtc"] if command == "compile" else []))
    assert refused.code == 4, refused.err
    assert re.search(r"one stage must have all that changes and reads \S+\.running_\S+, as where a batch norm is used several "
                     r"times, which leaves \d+ stages at most: 512", refused.error_line())
    assert not (tmp_path / "m.dtc").exists()


def test_a_batch_of_one_is_refused(tmp_path):
    refused = call("dtc", "compile", MODELS / "resnet_norms.pt2", "--loss", "cross_entropy", "--global-batch", 1, "-o",
                   tmp_path / "m.dtc")
    assert refused.code == 3
    assert "several elements of each channel" in refused.error_line()
    assert not (tmp_path / "m.dtc").exists()


def test_a_momentum_that_an_export_hides(tmp_path):
    """Exports in eval mode write 0 where PyTorch takes the average over all batches."""
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(MODELS / "resnet_tiny.pt2") as before, zipfile.ZipFile(path, "w") as after:
        for info in before.infolist():
            after.writestr(info, before.read(info).replace(b'{"as_float":0.1}', b'{"as_float":0.0}'))
    flags = ("--loss", "cross_entropy", "--devices", 1, "--global-batch", 8, "-o", tmp_path / "m.dtc")
    check_call("dtc", "compile", path, *flags)
    refused = call("dtc", "compile", path, "--batch-norm", "train", *flags)
    assert refused.code == 3
    assert "has a momentum of 0, which exports in eval mode also write for momentum=None" in refused.error_line()


def test_a_momentum_that_onnx_hides(tmp_path):
    """The same of ONNX, whose momentum is one less PyTorch's."""
    model = encode_model("""
        ir_version: 8 opset_import { version: 18 }
        graph {
          name: "norm"
          node { name: "n" op_type: "BatchNormalization" input: "x" input: "s" input: "b" input: "mean" input: "var"
                 output: "y" attribute { name: "momentum" f: 1 type: FLOAT } }
          initializer { dims: 2 data_type: 1 name: "s" float_data: 1 float_data: 2 }
          initializer { dims: 2 data_type: 1 name: "b" float_data: 0 float_data: 1 }
          initializer { dims: 2 data_type: 1 name: "mean" float_data: 0 float_data: 1 }
          initializer { dims: 2 data_type: 1 name: "var" float_data: 1 float_data: 2 }
          input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 8 } dim { dim_value: 2 } } } } }
          output { name: "y" type { tensor_type { elem_type: 1 shape { dim { dim_value: 8 } dim { dim_value: 2 } } } } }
        }""", tmp_path / "m.onnx")
    flags = ("--loss", "mse", "--devices", 1, "-o", tmp_path / "m.dtc")
    check_call("dtc", "compile", model, *flags)
    refused = call("dtc", "compile", model, "--batch-norm", "train", *flags)
    assert refused.code == 3
    assert "has a momentum of 0" in refused.error_line()
