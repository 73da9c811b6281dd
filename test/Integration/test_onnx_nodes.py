"""ONNX operators by the ONNX project's own tests, and the forms of older opsets (test/Conformance/fixtures.py)."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import ROOT, check_call

MODELS = sorted((ROOT / "test/Conformance/fixtures").glob("*.onnx"))


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_nodes(tmp_path, model):
    """All nodes of a model at once, each with tensors of its own."""
    arrays = load_file(model.with_suffix(".safetensors"))
    wanted = {name.removeprefix("output:"): array for name, array in arrays.items() if name.startswith("output:")}
    save_file({name: array for name, array in arrays.items() if not name.startswith("output:")},
              tmp_path / "data.safetensors")
    # Some functions are defined for a part of the numbers alone, of which a verification would draw others.
    check_call("dtc", "compile", model, "--devices", 1, "--loss", "none", "--no-verify", "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle",
               "--outputs", tmp_path / "outputs.safetensors")
    got = load_file(tmp_path / "outputs.safetensors")
    assert wanted
    for name, want in wanted.items():
        assert got[name].dtype == want.dtype and got[name].shape == want.shape, name
        if want.dtype.kind == "f":
            assert numpy.allclose(got[name], want, rtol=1e-3, atol=1e-5, equal_nan=True), name
        else:
            assert numpy.array_equal(got[name], want), name
