"""Label smoothing and class weights of cross entropy: against PyTorch and NumPy, under many plans."""

import numpy
import pytest
from safetensors.numpy import save_file

from conftest import MODELS, call, case, check_call, compare_steps, encode_model, reference
from perceptron import CLASSES, Perceptron, compare, model, samples, train

WEIGHTS = numpy.array([0.5, 2, 0, 1.25])


@pytest.mark.parametrize("smoothing,weighted,devices,plan", [
    case((smoothing, weighted) == (0.1, True) or devices == 4, smoothing, weighted, devices, plan)
    for smoothing, weighted in ((0.2, False), (0, True), (0.1, True))
    for devices, plan in ((1, "dp=1"), (4, "dp=2,tp=2,micro_batch=2"), (2, "pp=2,micro_batch=4"))])
def test_smoothed_and_weighted(tmp_path, devices, plan, smoothing, weighted):
    flags = ["--label-smoothing", smoothing]
    if weighted:
        save_file({"weights": WEIGHTS.astype("f4")}, tmp_path / "classes.safetensors")
        flags += ["--class-weights", tmp_path / "classes.safetensors"]
    compare(train(tmp_path, flags, devices=devices, plan=plan),
            Perceptron(smoothing=smoothing, class_weights=WEIGHTS if weighted else numpy.ones(CLASSES)))


@pytest.mark.parametrize("devices,plan", [(1, "dp=1"), (2, "dp=2,micro_batch=2")])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_step_without_targets_ends_the_run_and_says_so(tmp_path, devices, plan, precision):
    """Its mean is over nothing, and no number in PyTorch, too. In fp16 no step is skipped for it: its gradients are finite."""
    train(tmp_path, ["--precision", precision, "--loss-scale", 1024] if precision == "fp16" else [], devices=devices, plan=plan)
    data = samples()
    data["target"][8:16] = -100
    save_file(data, tmp_path / "data.safetensors")
    ended = call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle", "--steps", 3)
    assert ended.code == 6 and "step 2: rank " in ended.error_line() and "the loss is not finite" in ended.error_line()
    assert ended.error_line().endswith("as where all targets of a step are ignored or have classes of weight 0")


DIVIDED = "tp=4,sp=off,tp_weights=split"  # the vocabulary, too


@pytest.mark.parametrize("devices,plan", [
    (1, "dp=1"), (2, "dp=2,micro_batch=2"), (4, DIVIDED), (4, "dp=2,tp=2,zero=3,micro_batch=2"), (4, "pp=2,tp=2,micro_batch=4")])
def test_a_transformer(trainer, devices, plan):
    """GPT-2 with both, and whole samples ignored."""
    expected = reference("gpt2", "weighted")
    compare_steps(trainer.train("gpt2", "gpt2", *flags_of(expected), devices=devices, plan=plan), expected)


def flags_of(expected):
    """The recorded flags; files are beside the models."""
    return [MODELS / flag if flag.endswith(".safetensors") else flag for flag in expected["flags"]]


@pytest.mark.parametrize("plan,classes", [("dp=2,tp=2,micro_batch=1", 512), (DIVIDED, 128)])
def test_ranks_are_verified(tmp_path, plan, classes):
    checked = check_call("dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--global-batch", 4, "--devices", 4,
                         "--plan", plan, *flags_of(reference("gpt2", "weighted")), "--verify", "--emit", "partition", "-o",
                         tmp_path / "m.mlir")
    assert "verified" in checked.err
    picks = [line for line in (tmp_path / "m.mlir").read_text().splitlines() if "dtc.pick" in line]
    assert picks and all(f"x{classes}xf32>, " in line for line in picks)


@pytest.mark.parametrize("flags,code,message", [
    (("--label-smoothing", 1.5), 2, "--label-smoothing must be between 0 and 1"),
    (("--label-smoothing", "nan"), 2, "--label-smoothing must be between 0 and 1"),
    (("--label-smoothing", 0.1, "--loss", "mse"), 2, "--label-smoothing is for --loss cross_entropy"),
    (("--class-weights", "three.safetensors", "--loss", "mse"), 2, "--class-weights is for --loss cross_entropy"),
    (("--class-weights", "three.safetensors"), 3, "has 4 classes, but there are 3 class weights"),
    (("--class-weights", "negative.safetensors"), 3, "is no number of 0 or more: -1"),
    (("--class-weights", "zero.safetensors"), 3, "all class weights are 0"),
    (("--class-weights", "two.safetensors"), 3, "must hold one array of class weights, it holds 2"),
    (("--class-weights", "none.safetensors"), 3, "none.safetensors"),
])
def test_refusals(tmp_path, flags, code, message):
    for name, arrays in {"three": {"w": numpy.ones(3, "f4")}, "negative": {"w": -numpy.ones(4, "f4")},
                         "zero": {"w": numpy.zeros(4, "f4")}, "two": {"w": numpy.ones(4, "f4"), "v": numpy.ones(4, "f4")}}.items():
        save_file(arrays, tmp_path / f"{name}.safetensors")
    loss = () if "--loss" in flags else ("--loss", "cross_entropy")
    refused = call("dtc", "compile", model(tmp_path / "model.onnx"), *loss, *flags, "-o", tmp_path / "m.dtc", cwd=tmp_path)
    assert refused.code == code, refused.err
    assert message in refused.error_line()
    assert not (tmp_path / "m.dtc").exists()


def test_a_model_that_gives_its_own_loss(tmp_path):
    """The message says how it is trained; it did say that there is nothing to train by."""
    dims = "dim { dim_value: 4 } dim { dim_value: 3 }"
    own = encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "own"
        input {{ name: "x" type {{ tensor_type {{ elem_type: 1 shape {{ {dims} }} }} }} }}
        output {{ name: "mean" type {{ tensor_type {{ elem_type: 1 shape {{ }} }} }} }}
        initializer {{ name: "w.weight" data_type: 1 dims: 3 dims: 3 {"float_data: 0.5 " * 9} }}
        node {{ op_type: "MatMul" input: "x" input: "w.weight" output: "h" }}
        node {{ op_type: "ReduceMean" input: "h" output: "mean" attribute {{ name: "keepdims" type: INT i: 0 }} }} }}""",
                       tmp_path / "own.onnx")
    asked = ("dtc", "plan", own, "--gpus", 2, "--global-batch", 4)
    refused = call(*asked)
    assert refused.code == 3 and "--loss output:mean trains it" in refused.error_line()
    check_call(*asked, "--loss", "output:mean")
