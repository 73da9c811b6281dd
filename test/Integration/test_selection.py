"""Operators that choose elements and count them, against NumPy on one and on two ranks."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import ROOT, check_call, encode_model


@pytest.mark.parametrize("devices", [1, 2])
def test_selection(tmp_path, devices):
    """Half of the elements have an equal one: the earlier index comes first. NumPy's stable sorting does the same."""
    model = encode_model((ROOT / "test/Import/Inputs/selection.txtpb").read_text(), tmp_path / "m.onnx")
    random = numpy.random.default_rng(0)
    x = random.integers(-3, 3, (2, 3, 4)).astype(numpy.float32)
    at = random.integers(0, 3, (2, 5, 3))
    which = numpy.array([0, 2])  # position which - 1: the last one, the second one
    save_file({"x": x, "at": at, "which": which}, tmp_path / "data.safetensors")
    check_call("dtc", "compile", model, "--devices", devices, "--plan", f"dp={devices}", "--loss", "none",
               "--global-batch", 2, "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle",
               "--outputs", tmp_path / "outputs.safetensors")
    got = load_file(tmp_path / "outputs.safetensors")

    best_at = numpy.argsort(-x, axis=1, kind="stable")[:, :2]
    least_at = numpy.argsort(x, axis=2, kind="stable")[..., :2]
    least = numpy.take_along_axis(x, least_at, 2)
    hot = numpy.where(least_at[:, None] == numpy.arange(4)[:, None, None], 2.0, -1.0).astype(numpy.float32)
    before = numpy.flip(numpy.cumsum(numpy.flip(hot, 1), 1), 1) - hot
    want = {
        "best": numpy.take_along_axis(x, best_at, 1), "best_at": best_at, "least": least, "least_at": least_at,
        "elements": numpy.take_along_axis(x[..., :3], at, 1), "hot": hot, "before": before,
        "most_at": numpy.argmax(x, axis=1),
        "last_at": 2 - numpy.argmin(at[..., ::-1], axis=2)[..., None],
        "of_rows": x[numpy.arange(2), which - 1],
        "rows": numpy.array([[1, 2], [3, 4], [5, 6]], numpy.float32)[which - 1],
        "products": numpy.einsum("bkse,bse,bsm->bkm", hot, least, x),
    }
    for name, value in want.items():
        assert got[name].dtype == value.dtype and numpy.array_equal(got[name], value), name


@pytest.mark.parametrize("devices", [1, 2])
def test_positions(tmp_path, devices):
    """Elements read and rows written at constant positions; a slice of nothing joined with something."""
    model = encode_model((ROOT / "test/Import/Inputs/positions.txtpb").read_text(), tmp_path / "m.onnx")
    random = numpy.random.default_rng(0)
    x = random.standard_normal((2, 4, 3)).astype(numpy.float32)
    new = random.standard_normal((2, 2, 3)).astype(numpy.float32)
    save_file({"x": x, "new": new}, tmp_path / "data.safetensors")
    check_call("dtc", "compile", model, "--devices", devices, "--plan", f"tp={devices}", "--loss", "none",
               "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle",
               "--outputs", tmp_path / "outputs.safetensors")
    got = load_file(tmp_path / "outputs.safetensors")

    spread = x.copy()
    spread[:, [3, 1]] = new
    want = {"pooled": x[:, [0, 1, 1], [2, 1, -1]], "first_rows": x[:, :2],
            "joined": numpy.concatenate([new, x[:, 2:]], 1), "spread": spread, "all": x}
    for name, value in want.items():
        assert numpy.array_equal(got[name], value), name


LIKE_NOTHING = """
ir_version: 10 opset_import { version: 21 }
graph { name: "g"
  node { op_type: "CastLike" input: "x" input: "like" output: "y" }
  initializer { dims: 0 data_type: 6 name: "like" }
  input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 3 } } } } }
  output { name: "y" type { tensor_type { elem_type: 6 shape { dim { dim_value: 2 } dim { dim_value: 3 } } } } }
}
"""


def test_a_tensor_without_elements_is_no_parameter(tmp_path):
    """It tells a type alone."""
    model = encode_model(LIKE_NOTHING, tmp_path / "m.onnx")
    save_file({"x": numpy.array([[1.5, -1.5, 2], [0, 3, -0.5]], numpy.float32)}, tmp_path / "data.safetensors")
    check_call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle",
               "--outputs", tmp_path / "outputs.safetensors")
    assert load_file(tmp_path / "outputs.safetensors")["y"].tolist() == [[1, -1, 2], [0, 3, 0]]


def test_a_parameter_without_elements_is_left_out(tmp_path):
    model = encode_model(LIKE_NOTHING.replace("data_type: 6 name", "data_type: 1 name").replace("elem_type: 6", "elem_type: 1"),
                         tmp_path / "m.onnx")
    check_call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", tmp_path / "m.dtc")
