"""`--batch-dim`: inputs whose first dimension isn't the batch, against NumPy on one and on two ranks."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import call, check_call, encode_model

LAYERS, WIDTH, SAMPLES = 3, 4, 6
STATE, WHOLE = ["--batch-dim", "state=1"], ["--batch-dim", "scale=none", "--batch-dim", "table=none"]


def value(name, *sizes, kind=1):
    dims = " ".join(f'dim {{ dim_param: "{size}" }}' if isinstance(size, str) else f"dim {{ dim_value: {size} }}"
                    for size in sizes)
    return f'{{ name: "{name}" type {{ tensor_type {{ elem_type: {kind} shape {{ {dims} }} }} }} }}'


@pytest.fixture
def model(tmp_path):
    """A state of [layers, batch, width], a scalar, a table that all samples share, and outputs of each kind."""
    def write(batch):
        return encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "cell"
            input {value("x", batch, WIDTH)} input {value("state", LAYERS, batch, WIDTH)} input {value("scale")}
            input {value("table", WIDTH, 2)}
            output {value("next", LAYERS, batch, WIDTH)} output {value("y", batch, 2)} output {value("double", WIDTH, 2)}
            node {{ op_type: "Tanh" input: "state" output: "a" }}
            node {{ op_type: "Mul" input: "a" input: "scale" output: "b" }}
            node {{ op_type: "Add" input: "b" input: "x" output: "next" }}
            node {{ op_type: "MatMul" input: "x" input: "table" output: "y" }}
            node {{ op_type: "Add" input: "table" input: "table" output: "double" }} }}""", tmp_path / "m.onnx")
    return write


def run(model, folder, arrays, *flags):
    save_file(arrays, folder / "data.safetensors")
    check_call("dtc", "compile", model, "--loss", "none", "-o", folder / "m.dtc", *flags)
    check_call("dtc-run", folder / "m.dtc", "--data", folder / "data.safetensors", "--no-shuffle",
               "--outputs", folder / "out.safetensors")
    return load_file(folder / "out.safetensors")


def drawn():
    draw = numpy.random.default_rng(0)
    shapes = {"x": (SAMPLES, WIDTH), "state": (LAYERS, SAMPLES, WIDTH), "scale": (), "table": (WIDTH, 2)}
    return {name: numpy.asarray(draw.normal(size=shape), numpy.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("batch, devices, flags", [
    (2, 1, []), ("n", 1, []), (1, 1, ["--global-batch", 3]), (2, 1, ["--global-batch", 3]),
    ("n", 2, ["--global-batch", 2, "--plan", "dp=2"]), (2, 2, ["--plan", "tp=2"])])
def test_samples_lie_where_is_said(model, tmp_path, batch, devices, flags):
    """Three calls and more, also with another batch than the file's: all samples are there, and in order."""
    arrays = drawn()
    got = run(model(batch), tmp_path, arrays, *STATE, *WHOLE, "--devices", devices, *flags)
    want = {"next": numpy.tanh(arrays["state"]) * arrays["scale"] + arrays["x"], "y": arrays["x"] @ arrays["table"],
            "double": 2 * arrays["table"]}
    assert got.keys() == want.keys()
    for name, array in want.items():
        assert got[name].shape == array.shape, name
        numpy.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_no_input_has_samples(tmp_path):
    model = encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "sum"
        input {value("a", 2, 3)} input {value("b")} output {value("c", 2, 3)}
        node {{ op_type: "Add" input: "a" input: "b" output: "c" }} }}""", tmp_path / "m.onnx")
    arrays = {"a": numpy.arange(6, dtype=numpy.float32).reshape(2, 3), "b": numpy.array(0.5, numpy.float32)}
    flags = ["--batch-dim", "a=none", "--batch-dim", "b=none"]
    got = run(model, tmp_path, arrays, *flags)
    assert numpy.array_equal(got["c"], arrays["a"] + 0.5)
    done = call("dtc", "compile", model, "--loss", "none", "-o", tmp_path / "n.dtc", "--global-batch", 2, *flags)
    assert done.code == 3 and "no input has samples" in done.err


@pytest.mark.parametrize("flags, code, message", [
    (["--batch-dim", "state"], 2, "expected INPUT=AXIS or INPUT=none"),
    (["--batch-dim", "state=-1"], 2, "expected INPUT=AXIS or INPUT=none"),
    (["--batch-dim", "states=1"], 3, "--batch-dim names no input of the model: states"),
    (["--batch-dim", "state=3"], 3, "--batch-dim names dimension 3 of the input state, which has 3"),
    ([], 3, "inputs have different batch sizes"),
    ([*STATE, "--batch-dim", "table=none"], 3, "say --batch-dim scale=none"),
])
def test_what_does_not_fit_is_refused(model, tmp_path, flags, code, message):
    done = call("dtc", "compile", model(2), "--loss", "none", "-o", tmp_path / "m.dtc", *flags)
    assert (done.code, message in done.err) == (code, True), done.err
    assert not (tmp_path / "m.dtc").exists()


def test_it_is_for_inference(model, tmp_path):
    done = call("dtc", "compile", model(2), "--loss", "mse", "-o", tmp_path / "m.dtc", *STATE)
    assert done.code == 2 and "--batch-dim needs --loss none" in done.err


def test_samples_that_are_mixed_have_no_dimension(tmp_path):
    """A sum over samples is no output of each."""
    model = encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "sum"
        input {value("state", 2, 3)} output {value("sum", 2)} initializer {{ name: "axis" data_type: 7 dims: 1 int64_data: 1 }}
        node {{ op_type: "ReduceSum" input: "state" input: "axis" output: "sum"
                attribute {{ name: "keepdims" i: 0 type: INT }} }} }}""", tmp_path / "m.onnx")
    done = call("dtc", "compile", model, "--loss", "none", "-o", tmp_path / "m.dtc", *STATE)
    assert done.code == 3 and "has no dimension of samples alone" in done.err


def test_data_of_another_layout_is_told_what_fits(model, tmp_path):
    run(model(2), tmp_path, drawn(), *STATE, *WHOLE)
    arrays = drawn()
    arrays["state"] = numpy.ascontiguousarray(arrays["state"].swapaxes(0, 1))
    save_file(arrays, tmp_path / "data.safetensors")
    done = call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--outputs", tmp_path / "o.safetensors")
    assert done.code == 3 and "state: has the wrong shape" in done.err and "along dimension 1" in done.err
