"""Weights after training under a plan, against PyTorch's and against those of one rank."""

import sys

import numpy
from safetensors.numpy import load_file

from conftest import MODELS, reference

sys.path.append(str(MODELS))
import sampled_weights  # noqa: E402

MOST = 1e-3  # of any element
# But not of these: the gradient of a key's bias is zero but for rounding, and Adam divides by its size.
KEY_BIASES = ("k_proj.bias", "c_attn.bias", "qkv.bias")


def has_name(weights, recorded: dict, name: str) -> bool:
    """Whether a parameter of PyTorch's has a name in the .onnx file: of tied ones, which are alike, one has."""
    return name in weights or any(numpy.array_equal(recorded[name], recorded[other])
                                  for other in sampled_weights.parameters(recorded) if other in weights)


def compare_with_pytorch(weights: dict[str, numpy.ndarray], model: str, recipe: str) -> None:
    """Each parameter's norm and up to 64 of its elements. `rounding` is what PyTorch's own runs differ by."""
    rounding = reference(model, recipe)["rounding"]["weights"]
    expected = load_file(MODELS / f"{model}.{recipe}.sampled.safetensors")
    assert expected
    got = sampled_weights.record(weights)
    for name in sampled_weights.parameters(expected):
        assert has_name(weights, expected, name), name
        if name in weights:
            bound = max(1e-5, 10 * rounding[name])
            assert bound <= MOST or name.endswith(KEY_BIASES), name
            assert sampled_weights.distance(expected, got, name) < bound, name


def compare_with_one_rank(weights: dict[str, numpy.ndarray], alone: dict[str, numpy.ndarray], model: str, recipe: str) -> None:
    """Every element."""
    rounding = reference(model, recipe)["rounding"]["weights"]
    assert weights.keys() == alone.keys()
    for name, weight in alone.items():
        error = numpy.abs(weights[name] - weight).max(initial=0)
        assert error < max(1e-5, 10 * rounding.get(name, 0)), name
