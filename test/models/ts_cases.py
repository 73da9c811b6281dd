"""Scripts modules that dtc refuses, and archives that hurt LibTorch: FOLDER/CASE.pt. test_torchscript.py has the messages."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn


class _Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(8, 8)


class Condition(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        y = self.f(x)
        if bool(y.sum() > 0):
            y = y * 2
        return y


class Selection(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        return self.f(x[x[:, 0] > 0])


class Endless(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        n = 0
        while n < 1000000000:
            n += 1
        return self.f(x)


class Lists(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        n = [0]
        while len(n) > 0:
            n = n + n
        return self.f(x)


class Parameter(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.f.weight.mul_(2)
        return self.f(x)


class Raising(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) > 2:
            raise ValueError("too many")
        return self.f(x)


class Fine(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        return self.f(x)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for module in (Condition, Selection, Endless, Lists, Parameter, Raising, Fine):
        torch.jit.script(module().eval()).save(str(folder / f"{module.__name__}.pt"))
    with zipfile.ZipFile(folder / "Fine.pt") as before, zipfile.ZipFile(folder / "Parentheses.pt", "w") as after:
        for info in before.infolist():
            data = before.read(info)
            if info.filename.endswith("code/__torch__.py"):
                data = data.replace(b"return ", b"return " + b"(" * 1_000_000)
            if not info.filename.endswith("debug_pkl"):
                after.writestr(zipfile.ZipInfo(info.filename), data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
