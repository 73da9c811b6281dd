"""Random programs of views and of changes in place give what PyTorch gives, as torch.export has them before decompositions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Python"))

from package import BIN  # noqa: E402

SAMPLES, SHAPE = 4, (2, 3, 4)
STEPS = 18

Step = tuple[str, Callable[[list[Tensor]], Tensor | None]]


def view_of(draw: random.Random, at: int, tensor: Tensor) -> Step:
    """Another name of (a part of) a value; its first dimension are the samples."""
    dim = draw.randrange(1, tensor.dim())
    size = tensor.shape[dim]
    start = draw.randrange(size)
    end = draw.randrange(start + 1, size + 1)
    order = [0, *draw.sample(range(1, tensor.dim()), tensor.dim() - 1)]
    index = draw.randrange(-size, size)
    takes: list[Callable[[Tensor], Tensor]] = [
        lambda t: t.select(dim, index), lambda t: t.narrow(dim, start, end - start), lambda t: t.unsqueeze(dim),
        lambda t: t[(slice(None),) * dim + (slice(start, end),)], lambda t: t.transpose(dim, order[-1]), lambda t: t.mT,
        lambda t: t.permute(order), lambda t: t.view(SAMPLES, -1), lambda t: t.view(SAMPLES, 2, -1), lambda t: t.squeeze(dim),
        lambda t: t.unbind(dim)[-1], lambda t: t.split(1, dim)[0], lambda t: t[:],
    ]  # fmt: skip
    take = draw.choice(takes)
    return "view", lambda values: take(values[at])


def change_of(draw: random.Random, at: int, other: int) -> Step:
    number = draw.choice((0.0, 1.5, -0.5))

    def set_first(t: Tensor) -> None:
        t[:, 0] = number

    changes: list[Callable[[Tensor, Tensor], object]] = [
        lambda t, o: t.add_(number), lambda t, o: t.mul_(number), lambda t, o: t.fill_(number), lambda t, o: t.copy_(o),
        lambda t, o: t.add_(o * 0.5), lambda t, o: t.sub_(o), lambda t, o: t.relu_(), lambda t, o: t.clamp_(-1, 1),
        lambda t, o: set_first(t),
    ]  # fmt: skip
    change = draw.choice(changes)
    return "change", lambda values: change(values[at], values[other]) and None


def run(steps: list[Step], first: Tensor) -> list[Tensor]:
    values = [first]
    for kind, step in steps:
        made = step(values)
        if kind != "change":
            values.append(made)
    return values


def outputs(steps: list[Step], first: Tensor) -> Tensor:
    return torch.cat([value.reshape(SAMPLES, -1) for value in run(steps, first)], 1)


def random_steps(seed: int, first: Tensor) -> list[Step]:
    """Only such as PyTorch carries out, and differentiates."""
    first = first.clone().requires_grad_()
    draw = random.Random(seed)
    steps: list[Step] = []
    while len(steps) < STEPS:
        values = run(steps, first * 1.0)
        at, other = draw.randrange(len(values)), draw.randrange(len(values))
        kind = draw.random()
        if kind < 0.1:
            step: Step = "fresh", lambda values, at=at: torch.sin(values[at]) * 1.1
        elif kind < 0.5 and values[at].dim() > 1:
            step = view_of(draw, at, values[at])
        else:
            step = change_of(draw, at, other)
        try:
            outputs([*steps, step], first * 1.0)
        except (RuntimeError, IndexError):
            continue
        steps.append(step)
    return steps


class Steps(nn.Module):
    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 24).view(SHAPE))
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        return outputs(self.steps, x * self.weight)


def command(program: str, *arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([BIN / program, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("seed", range(24))
def test_outputs(seed, tmp_path):
    x = torch.randn(SAMPLES, *SHAPE, generator=torch.Generator().manual_seed(seed))
    module = Steps(random_steps(seed, x)).eval()
    expected = module(x).detach()
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "m.pt2")
    save_file({"x": x}, tmp_path / "x.safetensors")
    compiled = command("dtc", "compile", tmp_path / "m.pt2", "--devices", 1, "--loss", "none", "-o", tmp_path / "m.dtc")
    assert compiled.returncode == 0, compiled.stderr
    ran = command("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "x.safetensors", "--outputs", tmp_path / "y", "--no-shuffle")
    assert ran.returncode == 0, ran.stderr
    (got,) = load_file(tmp_path / "y").values()
    assert torch.allclose(got, expected, rtol=1e-5, atol=1e-5)


class PartsOfBuffer(nn.Module):
    """Changes a part of a buffer each step, which the loss depends on."""

    def __init__(self, change: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.change = change
        self.linear = nn.Linear(4, 3)
        self.register_buffer("state", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x: Tensor) -> Tensor:
        self.change(self.state)
        return self.linear(x) * self.state.sum()


@pytest.mark.parametrize("change", [
    lambda state: state[0].mul_(0.5), lambda state: state[1:3].add_(1.0), lambda state: state.view(2, 2)[0].copy_(state[2:] * 0.5),
], ids=["select", "slice", "view"])  # fmt: skip
def test_parts_of_buffers(change, tmp_path):
    torch.manual_seed(0)
    module, steps, rate = PartsOfBuffer(change), 4, 0.01
    x, target = torch.randn(8, 4), torch.randint(0, 3, (8,))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "m.pt2")
    module.load_state_dict(before)
    save_file({"x": x, "target": target}, tmp_path / "data.safetensors")
    optimizer, losses = torch.optim.SGD(module.parameters(), lr=rate), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    compiled = command("dtc", "compile", tmp_path / "m.pt2", "--devices", 2, "--plan", "dp=2", "--loss", "cross_entropy", "--optimizer",
                       "sgd", "--lr", rate, "--global-batch", 8, "-o", tmp_path / "m.dtc")
    assert compiled.returncode == 0, compiled.stderr
    ran = command("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--steps", steps, "--no-shuffle", "--log",
                  tmp_path / "log", "--save-weights", tmp_path / "weights.safetensors")
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line)["loss"] for line in (tmp_path / "log").read_text().splitlines()] == pytest.approx(losses, rel=1e-5)
    assert torch.allclose(load_file(tmp_path / "weights.safetensors")["state"], module.state, rtol=1e-6)
