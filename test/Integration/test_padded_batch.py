"""A batch that the data-parallel ranks don't divide gets samples without targets: against one rank that has none of them."""

import json
import re

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, call, check_call, encode_model

BATCH, STEPS = 7, 4
FLAGS = ["--target", "cpu", "--loss", "cross_entropy", "--global-batch", BATCH, "--clip-grad-norm", 1.0]
SGD = ["--optimizer", "sgd", "--lr", 0.1, "--momentum", 0.9]


def trained(folder, export: str, devices: int, plan: object, *flags: object, run=(), data="gpt2", steps=STEPS):
    """Losses and gradient norms, and the final weights."""
    check_call("dtc", "compile", MODELS / export, "--devices", devices, "--plan", plan, *FLAGS, *flags, "-o", folder / "m.dtc")
    check_call("dtc-run", folder / "m.dtc", "--data", MODELS / f"{data}.data.safetensors", "--steps", steps, "--log",
               folder / "log", "--save-weights", folder / "w.safetensors", *run)
    log = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    keys = ("loss", "grad_norm", "eval_loss") if "--eval-data" in run else ("loss", "grad_norm")
    return [[line[key] for key in keys] for line in log], load_file(folder / "w.safetensors")


def compare(first, other):
    assert numpy.allclose(first[0], other[0], rtol=1e-6) and numpy.ptp(first[0], axis=0).min() > 0.01
    assert all(numpy.allclose(other[1][name], weight, rtol=0, atol=1e-6) for name, weight in first[1].items())


@pytest.mark.parametrize("export,data,plans", [
    ("gpt2.onnx", "gpt2", [(2, "dp=2"), (4, "dp=2,tp=2,zero=3,micro_batch=2"), (4, "dp=2,pp=2,schedule=1f1b,micro_batch=1")]),
    ("gpt2_dropout.pt2", "gpt2", [(3, "dp=3,zero=1")]),
    ("mixtral.onnx", "mixtral", [(2, "dp=2")]), ("moe.onnx", "moe", [(2, "dp=2")])])
def test_it_is_exact(tmp_path, export, data, plans):
    """Samples are shuffled, and evaluated; targets are smoothed, and samples keep the keys by which their elements are dropped.
    Experts have slots for each sample."""
    flags = [*SGD, "--label-smoothing", 0.1]
    run = ["--eval-data", MODELS / f"{data}.data.safetensors", "--eval-every", 1]
    alone = trained(tmp_path, export, 1, "dp=1", *flags, run=run, data=data)
    for devices, plan in plans:
        compare(alone, trained(tmp_path, export, devices, plan, *flags, run=run, data=data))
        told = json.loads(check_call("dtc", "inspect", tmp_path / "m.dtc", "--json").out)
        assert told["global_batch"] == BATCH and told["padded_samples"] in (1, 2)


def test_padding_has_no_weight_of_a_class(tmp_path):
    """Nor is it counted: the mean is over the classes' weights of seven samples."""
    save_file({"weights": numpy.linspace(0.5, 2, 512).astype("f4")}, tmp_path / "classes.safetensors")
    flags = [*SGD, "--class-weights", tmp_path / "classes.safetensors"]
    compare(trained(tmp_path, "gpt2.onnx", 1, "dp=1", *flags), trained(tmp_path, "gpt2.onnx", 2, "dp=2", *flags))


def test_checkpoints_go_to_other_numbers_of_ranks(tmp_path):
    """As after the loss of a rank: each goes on with the samples behind those that were read."""
    whole = trained(tmp_path, "gpt2.onnx", 1, "dp=1", *SGD, steps=6)
    run = ["--checkpoint-dir", tmp_path / "saved", "--resume"]
    for steps, devices, plan in ((2, 2, "dp=2"), (4, 3, "dp=3"), (6, 1, "dp=1")):
        resumed = trained(tmp_path, "gpt2.onnx", devices, plan, *SGD, run=run, steps=steps)
        assert len(resumed[0]) == steps
    compare(whole, resumed)


def test_it_is_told_apart(tmp_path):
    """Speeds are those of the samples that are read, beside which the padding stands. A saved plan has it, too."""
    job = ["dtc", "plan", MODELS / "gpt2.onnx", "--devices", 2, "--cluster", "cpu", *FLAGS, "--plan"]
    padded = json.loads(check_call(*job, "dp=2", "--json", "--save-plan", tmp_path / "p.yaml").out)
    alone, predicted = json.loads(check_call(*job, "tp=2", "--json").out), padded["predicted"]
    assert (padded["model"]["padded_samples"], alone["model"]["padded_samples"]) == (1, 0)
    assert padded["conditions"]["global_batch"] == alone["conditions"]["global_batch"] == BATCH
    flops = [each["predicted"]["model_tflops_per_device"] * each["predicted"]["step_time_s"] for each in (padded, alone)]
    assert flops[0] == pytest.approx(flops[1], rel=1e-9)
    assert predicted["padding_tflops_per_device"] == pytest.approx(predicted["model_tflops_per_device"] / BATCH, rel=1e-9)
    assert predicted["tokens_per_s_per_device"] * predicted["step_time_s"] * 2 == pytest.approx(BATCH * 32, rel=1e-9)
    text = check_call(*job, "dp=2", "--report", tmp_path / "page.html").out
    assert "parameters, global batch 7 and 1 of padding, 2 x cpu" in text
    assert "7 samples a step and 1 of padding" in re.sub("<[^>]*>", "", (tmp_path / "page.html").read_text())

    job = ["dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--target", "cpu", "--plan", tmp_path / "p.yaml", "--loss"]
    again = [*job, "cross_entropy"]
    for batch in ([], ["--global-batch", BATCH]):
        check_call(*again, *batch, "-o", tmp_path / "m.dtc")
        assert "\nglobal batch 7 and 1 of padding\n" in check_call("dtc", "inspect", tmp_path / "m.dtc").out
    check_call(*again, "--global-batch", 8, "-o", tmp_path / "m.dtc")
    assert "\nglobal batch 8\n" in check_call("dtc", "inspect", tmp_path / "m.dtc").out
    told = call(*again, "--global-batch", 16, "-o", tmp_path / "m.dtc")
    assert told.code == 3
    assert re.search(r"p\.yaml:\d+: made for a global batch of 7, not 16; its part plan: alone", told.error_line())
    told = call(*job, "mse", "-o", tmp_path / "m.dtc")
    assert told.code == 3 and told.error_line().endswith("p.yaml: padded_samples is 1, but these flags pad the batch by 0")


UNDIVIDED = "no plan for 2 devices: dp doesn't divide the batch of 7: 2"
MIXES = "cannot pad the batch of 7 for dp=2: {} mixes samples; --global-batch 8 needs no padding"


@pytest.mark.parametrize("export,pins,loss,line", [
    ("resnet_norms.pt2", "dp=2", "cross_entropy", MIXES.format("batch norm in training mode")),
    ("resnet_norms.pt2", "dp=1,tp=2,micro_batch=2", "cross_entropy", "for dp=1 and micro_batch=2: batch norm"),
    ("mixtral.onnx", "dp=2,capacity=1.5", "cross_entropy", UNDIVIDED), ("mlp.onnx", "dp=2", "mse", UNDIVIDED)])
def test_what_can_not_be_padded_is_refused(tmp_path, export, pins, loss, line):
    refused(tmp_path, MODELS / export, pins, loss, line)


def refused(folder, model, pins: str, loss: str, line: str) -> str:
    told = call("dtc", "compile", model, "--devices", 2, "--plan", pins, "--target", "cpu", "--global-batch", BATCH, "--loss", loss,
                "-o", folder / "m.dtc")
    assert told.code == (4 if line == UNDIVIDED else 3) and line in told.error_line()
    assert not (folder / "m.dtc").exists()
    return told.error_line()


def test_a_sum_over_the_batch_is_refused_by_name(tmp_path):
    """Logits less their mean over all samples, which one more would change."""
    shape = 'type { tensor_type { elem_type: 1 shape { dim { dim_value: 8 } dim { dim_value: 4 } } } }'
    weight = " ".join(f"float_data: {i / 16}" for i in range(16))
    path = encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "centred"
        input {{ name: "x" {shape} }} output {{ name: "logits" {shape} }}
        initializer {{ name: "w" data_type: 1 dims: 4 dims: 4 {weight} }}
        initializer {{ name: "axes" data_type: 7 dims: 1 int64_data: 0 }}
        node {{ op_type: "MatMul" input: "x" input: "w" output: "h" }}
        node {{ op_type: "ReduceMean" name: "centre" input: "h" input: "axes" output: "mean" }}
        node {{ op_type: "Sub" input: "h" input: "mean" output: "logits" }} }}""", tmp_path / "model.onnx")
    assert "centre" in refused(tmp_path, path, "dp=2", "cross_entropy", MIXES.format("the operation"))


def test_what_mixes_samples_is_cut_into_no_calls(tmp_path):
    """The file takes any batch. A pipeline would be faster in several calls, each with a mean of its own."""
    shape = 'type { tensor_type { elem_type: 1 shape { dim { dim_param: "batch" } dim { dim_value: 32 } } } }'
    weight = f"dims: 32 dims: 32 float_data: [{', '.join(['0.01'] * 1024)}]"
    path = encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "centred"
        input {{ name: "x" {shape} }} output {{ name: "logits" {shape} }}
        initializer {{ name: "v" data_type: 1 {weight} }} initializer {{ name: "w" data_type: 1 {weight} }}
        initializer {{ name: "axes" data_type: 7 dims: 1 int64_data: 0 }}
        node {{ op_type: "MatMul" input: "x" input: "v" output: "g" }}
        node {{ op_type: "Relu" input: "g" output: "r" }}
        node {{ op_type: "MatMul" input: "r" input: "w" output: "h" }}
        node {{ op_type: "ReduceMean" name: "centre" input: "h" input: "axes" output: "mean" }}
        node {{ op_type: "Sub" input: "h" input: "mean" output: "logits" }} }}""", tmp_path / "model.onnx")
    job = ["dtc", "plan", path, "--gpus", 2, "--loss", "cross_entropy", "--global-batch", 1 << 20, "--json", "--plan"]
    line = "node 'centre': cannot change the batch: the operation mixes samples; without a micro_batch"
    whole = check_call(*job, "pp=2")
    assert json.loads(whole.out)["plan"]["num_microbatches"] == 1 and line in whole.err
    cut = call(*job, "pp=2,micro_batch=1024")
    assert cut.code == 3 and line in cut.error_line()


def test_a_model_that_computes_with_the_size_of_its_batch_has_that_of_the_whole(tmp_path):
    """Logits are divided by it. The file leaves it open; a call has fewer samples, or padding beside them."""
    shape = 'type { tensor_type { elem_type: 1 shape { dim { dim_param: "batch" } dim { dim_value: 4 } } } }'
    weights = [" ".join(f"float_data: {round(numpy.sin(each + i), 4)}" for i in range(16)) for each in range(2)]
    path = encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "divided"
        input {{ name: "x" {shape} }} output {{ name: "logits" {shape} }}
        initializer {{ name: "v" data_type: 1 dims: 4 dims: 4 {weights[0]} }}
        initializer {{ name: "w" data_type: 1 dims: 4 dims: 4 {weights[1]} }}
        initializer {{ name: "first" data_type: 7 int64_data: 0 }}
        node {{ op_type: "MatMul" input: "x" input: "v" output: "g" }}
        node {{ op_type: "Relu" input: "g" output: "r" }}
        node {{ op_type: "MatMul" input: "r" input: "w" output: "h" }}
        node {{ op_type: "Shape" input: "x" output: "sizes" }}
        node {{ op_type: "Gather" input: "sizes" input: "first" output: "size" }}
        node {{ op_type: "Cast" input: "size" output: "divisor" attribute {{ name: "to" type: INT i: 1 }} }}
        node {{ op_type: "Div" name: "divide" input: "h" input: "divisor" output: "logits" }} }}""", tmp_path / "model.onnx")
    draw = numpy.random.default_rng(0)
    save_file({"x": 4 * draw.standard_normal((28, 4)).astype("f4"), "target": draw.integers(0, 4, 28)},
              tmp_path / "d.data.safetensors")
    alone = trained(tmp_path, path, 1, "dp=1", *SGD, data=tmp_path / "d")
    for devices, plan in ((1, "dp=1,micro_batch=1"), (2, "dp=2"), (2, "pp=2,micro_batch=2")):
        compare(alone, trained(tmp_path, path, devices, plan, *SGD, data=tmp_path / "d"))

    # Without a --global-batch each of two ranks has that of --shape, here in two calls, each of as many samples as the file is given.
    check_call("dtc", "compile", path, "--shape", "x=4x4", "--devices", 2, "--target", "cpu", "--loss", "cross_entropy",
               "--plan", "dp=2,micro_batch=2", "--emit", "import", "-o", tmp_path / "imported.mlir")
    assert re.search(r"dense<8\.0.*tensor", (tmp_path / "imported.mlir").read_text())


def test_the_batch_of_a_file_is_that_of_each_rank_where_none_is_given(tmp_path):
    """Here of one call, and cut into eight."""
    for devices, plan in ((2, "dp=2"), (1, "dp=1,micro_batch=1")):
        check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", devices, "--target", "cpu", "--loss", "cross_entropy",
                   "--plan", plan, "-o", tmp_path / "m.dtc")
        assert f"\nglobal batch {8 * devices}\n" in check_call("dtc", "inspect", tmp_path / "m.dtc").out


def test_a_plan_file_with_nothing_but_padding_is_refused(tmp_path):
    job = ["--devices", 2, "--target", "cpu", "--loss", "cross_entropy", "--plan"]
    check_call("dtc", "plan", MODELS / "gpt2.onnx", *job, "dp=2", "--global-batch", BATCH, "--save-plan", tmp_path / "p.yaml")
    file = tmp_path / "p.yaml"
    file.write_text(file.read_text().replace("padded_samples: 1", "padded_samples: 8"))
    told = call("dtc", "plan", MODELS / "gpt2.onnx", *job, file)
    assert told.code == 3 and told.error_line().endswith(f"{file}: padded_samples leaves none of a step: 8")
