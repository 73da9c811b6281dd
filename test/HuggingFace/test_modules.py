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
    with pytest.raises(dtc.UnsupportedError) as raised:
        dtc.plan(Unsupported(), torch.randn(4, 4), gpus=2)
    assert str(raised.value).startswith("Unsupported: unsupported operators: ")
    assert "linalg_qr" in str(raised.value) and "bessel_j0" in str(raised.value)
    first = Unsupported.forward.__code__.co_firstlineno
    assert f"test_modules.py:{first + 1}" in str(raised.value) and f"test_modules.py:{first + 2}" in str(raised.value)


class Normed(torch.nn.Module):
    """As wav2vec 2.0 normalizes a convolution's weights."""

    def __init__(self):
        super().__init__()
        weight_norm = torch.nn.utils.parametrizations.weight_norm
        self.first = weight_norm(torch.nn.Linear(16, 24), dim=0)
        self.last = weight_norm(torch.nn.Linear(24, 8), dim=1)

    def forward(self, x):
        return self.last(torch.nn.functional.gelu(self.first(x)))


def test_weights_by_length_and_direction_train_as_in_pytorch():
    torch.manual_seed(0)
    module, x, target = Normed(), torch.randn(8, 16), torch.arange(8)
    program = dtc.parallelize(module, x, loss="cross_entropy", optimizer=dtc.SGD(lr=0.5), devices=1, target="cpu")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(module(x), target)
        assert program.step({"x": x, "target": target}).loss == pytest.approx(loss.item(), rel=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Looking(torch.nn.Module):
    """Scales by a size that gets no gradient, and has an operator that becomes what it is made of."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 6)

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            size = y.square().mean(-1, keepdim=True)
        return torch.logaddexp(y, -y) + y * size / (size + 1).detach()


def test_decompositions_keep_where_gradients_stop():
    torch.manual_seed(0)
    module, x, target = Looking(), torch.randn(8, 8), torch.randn(8, 6)
    program = dtc.parallelize(module, x, loss="mse", optimizer=dtc.SGD(lr=0.5), devices=1, target="cpu")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(4):
        loss = torch.nn.functional.mse_loss(module(x), target)
        assert program.step({"x": x, "target": target}).loss == pytest.approx(loss.item(), rel=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
