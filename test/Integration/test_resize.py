"""Resized images and the activations that come with them, against NumPy on one and on two ranks."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import ROOT, call, check_call, encode_model

TEXT = (ROOT / "test/Import/Inputs/resize.txtpb").read_text()


def half_pixel(size: int, to: int) -> numpy.ndarray:
    """Where the centres of `to` pixels lie among those of `size`."""
    return (numpy.arange(to) + 0.5) * size / to - 0.5


def interpolate(x: numpy.ndarray, axis: int, at: numpy.ndarray) -> numpy.ndarray:
    return numpy.apply_along_axis(lambda row: numpy.interp(at, numpy.arange(len(row)), row), axis, x)


@pytest.mark.parametrize("devices", [1, 2])
def test_resize(tmp_path, devices):
    model = encode_model(TEXT, tmp_path / "m.onnx")
    x = numpy.random.default_rng(0).standard_normal((2, 3, 4, 6)).astype(numpy.float32)
    save_file({"x": x}, tmp_path / "data.safetensors")
    check_call("dtc", "compile", model, "--devices", devices, "--plan", f"dp={devices}", "--loss", "none",
               "--global-batch", 2, "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle",
               "--outputs", tmp_path / "outputs.safetensors")
    got = load_file(tmp_path / "outputs.safetensors")

    rows, columns = half_pixel(4, 7), half_pixel(6, 3)
    above = [numpy.clip(numpy.ceil(at).astype(int), 0, size - 1) for at, size in ((rows, 4), (columns, 6))]
    slope = numpy.array([0.5, 0, -1])[:, None, None]
    exact = {"double": x.repeat(2, 2).repeat(2, 3), "nearest": x[:, :, above[0]][..., above[1]]}
    close = {
        "linear": interpolate(interpolate(x, 2, rows), 3, columns),
        "corners": interpolate(x, 3, numpy.linspace(0, 5, 9)),
        "prelu": numpy.where(x > 0, x, slope * x),
        "mish": x * numpy.tanh(numpy.log1p(numpy.exp(x))),
    }
    for name, value in exact.items():
        assert numpy.array_equal(got[name], value), name
    for name, value in close.items():
        assert got[name].shape == value.shape and numpy.allclose(got[name], value, rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("old,new,message", [
    ('s: "linear"', 's: "quintic"', "node linear (Resize): has an unknown mode: quintic"),
    ('s: "floor"', 's: "up"', "node double (Resize): has an unsupported nearest_mode: up"),
    ('s: "align_corners"', 's: "tf_crop_and_resize"',
     "node corners (Resize): needs a begin and end for each axis, known while compiling"),
    ("int64_data: 9", "int64_data: 0", "node corners (Resize): has a bad size for dimension 3"),
    ("[1, 1, 2, 2]", "[1, 1, nan, 2]", "node double (Resize): has a bad size for dimension 2"),
    ('input: "twice"', 'input: "slope"', "node double (Resize): needs a scale or size for each axis"),
    ("dims: 3 dims: 1 dims: 1", "dims: 1 dims: 3 dims: 1", "node prelu (PRelu): needs floats and a slope"),
])
def test_refused(tmp_path, old, new, message):
    assert old in TEXT
    model = encode_model(TEXT.replace(old, new), tmp_path / "m.onnx")
    outcome = call("dtc", "plan", model, "--devices", 2)
    assert outcome.code == 3
    assert message in outcome.error_line()
