"""Python's arguments as flags of the command line, which has one meaning and one check for each."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._errors import UsageError


def flags_of(arguments: Mapping[str, Any]) -> list[str]:
    """`{"global_batch": 8, "init": True}` as `["--global-batch=8", "--init"]`; None and False are left out."""
    flags = []
    for name, value in arguments.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag)
        elif isinstance(value, (list, tuple)):
            flags += [f"{flag}={each}" for each in value]
        else:
            flags.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return flags


def shape_flags(shapes: Mapping[str, Iterable[int]] | None) -> list[str]:
    """The values of `--shape`: INPUT=DxD."""
    return [f"{name}={'x'.join(str(size) for size in shape)}" for name, shape in (shapes or {}).items()]


def plan_flag(plan: str | os.PathLike | Mapping[str, Any] | None) -> str | None:
    """A plan file, a SPEC, or a mapping of settings: `{"dp": 2, "tp": 4}` is `dp=2,tp=4`."""
    if isinstance(plan, Mapping):
        return ",".join(f"{key}={_word(value)}" for key, value in plan.items())
    return os.fspath(plan) if plan is not None else None


def _word(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@dataclasses.dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, as PyTorch's."""

    lr: float = 1e-3
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def flags(self) -> dict[str, Any]:
        """As arguments of the command line."""
        return {"optimizer": "sgd", "lr": self.lr, "momentum": self.momentum, "nesterov": self.nesterov,
                "weight_decay": self.weight_decay}


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam, as PyTorch's."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    _kind = "adam"

    def flags(self) -> dict[str, Any]:
        """As arguments of the command line."""
        first, second = self.betas
        return {"optimizer": self._kind, "lr": self.lr, "betas": f"{first},{second}", "eps": self.eps,
                "weight_decay": self.weight_decay}


@dataclasses.dataclass(frozen=True)
class AdamW(Adam):
    """AdamW, as PyTorch's. `no_decay` is a regular expression on names of parameters that don't decay."""

    weight_decay: float = 0.01
    no_decay: str | None = None

    _kind = "adamw"

    def flags(self) -> dict[str, Any]:
        """As arguments of the command line."""
        return {**super().flags(), "no_decay": self.no_decay}


@dataclasses.dataclass(frozen=True)
class LearningRate:
    """How the learning rate goes on: `constant`, `linear` or `cosine`, after steps of linear warm-up."""

    schedule: str = "constant"
    warmup_steps: int = 0
    total_steps: int = 0
    min_lr: float = 0.0

    def flags(self) -> dict[str, Any]:
        """As arguments of the command line."""
        return {"lr_schedule": self.schedule, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps,
                "min_lr": self.min_lr}


Optimizer = SGD | Adam | AdamW


def training_flags(optimizer: Optimizer | None, learning_rate: LearningRate | None) -> dict[str, Any]:
    """Both as arguments of the command line. The name of an optimizer, or one of PyTorch's, is none of ours."""
    if not isinstance(optimizer, Optimizer | None):
        kind = type(optimizer)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise UsageError(f"optimizer: expected dtc.SGD, dtc.Adam or dtc.AdamW, got {name}")
    if not isinstance(learning_rate, LearningRate | None):
        raise UsageError(f"learning_rate: expected dtc.LearningRate, got {type(learning_rate).__name__}")
    return {**(optimizer.flags() if optimizer else {}), **(learning_rate.flags() if learning_rate else {})}
