"""What from_torch says of modules that torch.export or dtc doesn't take."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Python"))
import package  # noqa: F401  finds the package of the build folder

import dtc


class Deciding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        if y.sum() > 0:
            y = y + 1
        if x[0, 0] > 1:
            y = y * 2
        return y


class Unsupported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.linalg.qr(self.linear(x))[0]
        return y + torch.special.bessel_j0(y)


def test_all_decisions_on_values_are_named_with_their_lines():
    with pytest.raises(dtc.UnsupportedError) as raised:
        dtc.plan(Deciding(), torch.randn(4, 4), gpus=2)
    first = Deciding.forward.__code__.co_firstlineno
    assert f"test_modules.py:{first + 2}: if y.sum() > 0:; test_modules.py:{first + 4}: if x[0, 0] > 1:" in str(raised.value)


def test_all_unsupported_operators_are_named_with_their_lines():
    with pytest.raises(dtc.InputError) as raised:
        dtc.plan(Unsupported(), torch.randn(4, 4), gpus=2)
    assert str(raised.value).startswith("Unsupported: unsupported operators: ")
    assert "linalg_qr" in str(raised.value) and "bessel_j0" in str(raised.value)
    first = Unsupported.forward.__code__.co_firstlineno
    assert f"test_modules.py:{first + 1}" in str(raised.value) and f"test_modules.py:{first + 2}" in str(raised.value)
