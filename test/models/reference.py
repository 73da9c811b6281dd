"""Training trajectories by PyTorch in eager mode on one CPU thread: what dtc's programs are compared with.

A step takes the next 8 samples in order, wrapping around. Its loss is the sum of the cross entropies of the valid
targets over their number in the whole batch, or over the sum of their class weights; grad_norm is the L2 norm of its
gradient over all parameters, a tied one once, before clipping. Batch norm statistics are frozen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import ContextManager

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import nn

import tf32
import zoo
from draw import uniform
from samples import IGNORED

STEPS = 10
GLOBAL_BATCH = 8
NUDGES = 8
MOST_NUDGED = 1e-5


@dataclass(frozen=True)
class Recipe:
    """How to train: `options` are dtc's, by the names of its flags; what is left out has PyTorch's default here."""

    name: str
    options: Mapping[str, str | float | bool]
    models: tuple[str, ...]

    def flags(self) -> list[str]:
        """The options as dtc's command line."""
        result: list[str] = []
        for key, value in self.options.items():
            result += [f"--{key}"] if value is True else [f"--{key}", str(value)]
        return result

    def learning_rate(self, step: int) -> float:
        """The rate at a step (from 1): linear warm-up, then constant or cosine to min-lr at total-steps."""
        rate = float(self.options["lr"])
        warmup = int(self.options.get("warmup-steps", 0))
        if step <= warmup:
            return rate * step / warmup
        if self.options.get("lr-schedule") != "cosine":
            return rate
        low = float(self.options["min-lr"])
        done = (step - warmup) / (int(self.options["total-steps"]) - warmup)
        return low + (rate - low) * 0.5 * (1.0 + math.cos(math.pi * done))

    def scaler(self) -> torch.amp.GradScaler | None:
        """What scales the loss of fp16."""
        if self.options.get("precision") != "fp16":
            return None
        scale, interval = float(self.options["loss-scale"]), int(self.options["loss-scale-growth-interval"])
        return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)

    def class_weights(self) -> torch.Tensor | None:
        """Those of cross entropy, if any."""
        name = self.options.get("class-weights")
        return torch.from_numpy(load_file(Path(__file__).parent / name)["weights"]) if name else None

    def optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """PyTorch's optimizer of that name, one tensor at a time. That of halves is the fused one, as LitGPT's: it rounds
        what it stores, not each number on the way."""
        kind = self.options["optimizer"]
        rate = float(self.options["lr"])
        decay = float(self.options["weight-decay"])
        if kind == "sgd":
            momentum = float(self.options["momentum"])
            nesterov = bool(self.options.get("nesterov", False))
            return torch.optim.SGD(parameters, rate, momentum, weight_decay=decay, nesterov=nesterov, foreach=False)
        adam = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
        fused = self.options.get("precision") == "bf16-true"
        return adam(parameters, rate, (0.9, 0.999), 1e-8, decay, foreach=False, fused=fused)


_ADAMW = {"optimizer": "adamw", "lr": 1e-3, "weight-decay": 0.01}
_SGD = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9}
_COSINE = {"lr-schedule": "cosine", "warmup-steps": 3, "total-steps": STEPS, "min-lr": 1e-5}

_SCALE = {"loss-scale": 2**21, "loss-scale-growth-interval": 3}

_CLASS_WEIGHTS = "gpt2.class_weights.safetensors"  # beside the trajectories

_FAMILIES = ("bert", "bert_odd", "bert_classifier", "vit", "bart", "qwen2", "gpt_neox", "mobilenet", "convnext", "mistral",
             "mixtral", "moe", "olmoe", "qwen2_moe", "qwen3_moe", "gpt_oss", "messages", "parts", "windows", "upsampling",
             "recurrent", "points", "distances", "losses", "rotations", "codes")
# Of these, SGD at this rate diverges.
_STEADY = tuple(model for model in _FAMILIES if model not in ("upsampling", "points", "distances", "losses", "rotations", "codes"))
_GRID = ("gpt2", "llama", "bart", "t5", "mixtral", "moe", "resnet_tiny")

RECIPES = (
    Recipe("adamw", _ADAMW, ("gpt2", "gpt2_mask", "llama", "mlp", "resnet_tiny", *_FAMILIES)),
    Recipe("adamw", _ADAMW | {"lr": 1e-4}, ("resnet18",)),  # at 1e-3 rounding alone moves a loss by 3e-4
    Recipe("adam", _ADAMW | {"optimizer": "adam"}, ("gpt2", "llama", "mlp", "resnet_tiny")),
    Recipe("sgd", _SGD | {"weight-decay": 0.0}, ("gpt2", "llama", "mlp", "resnet_tiny", *_STEADY, "t5")),
    Recipe("nesterov", _SGD | {"nesterov": True, "weight-decay": 0.01}, ("gpt2", "mlp")),
    Recipe("clip_cosine", _ADAMW | {"clip-grad-norm": 1.0} | _COSINE, ("gpt2",)),
    # A bound that every step's norm exceeds; the grid of plans (test_grid.py) trains with these.
    Recipe("clip", _ADAMW | {"clip-grad-norm": 0.25}, _GRID),
    Recipe("sgd_clip", _SGD | {"weight-decay": 0.0, "clip-grad-norm": 0.25}, _GRID),
    Recipe("weighted", _SGD | {"weight-decay": 0.0, "label-smoothing": 0.1, "class-weights": _CLASS_WEIGHTS}, ("gpt2",)),
    Recipe("tf32", _ADAMW | {"precision": "tf32"}, ("gpt2", "mlp", "resnet_tiny")),
    Recipe("bf16", _ADAMW | {"precision": "bf16"}, ("gpt2", "llama", "mistral", "mixtral", "mlp", "resnet_tiny")),
    Recipe("bf16-true", _ADAMW | {"precision": "bf16-true", "clip-grad-norm": 0.25}, ("gpt2", "llama", "mlp")),
    # Some of the first steps overflow, and the scale grows after others.
    Recipe("fp16", _ADAMW | {"precision": "fp16", "clip-grad-norm": 0.25} | _SCALE, ("gpt2", "mlp")),
)


@dataclass
class Trajectory:
    """What a run leaves: a line a step, and by parameter name its first gradient's norm and its final value."""

    steps: list[dict[str, float]] = field(default_factory=list)
    gradient_norms: dict[str, float] = field(default_factory=dict)
    final: dict[str, torch.Tensor] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)  # by name, in the end


class _Rounded(torch.autograd.Function):
    """Rounds to fp16 forwards and backwards, and keeps float32."""

    @staticmethod
    def forward(_, value: torch.Tensor) -> torch.Tensor:
        return value.half().float()

    @staticmethod
    def backward(_, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.half().float()


def _round_activations(module: nn.Module) -> None:
    """What each leaf gives and its gradient are fp16, but products are summed in float32, also to gradients of weights:
    PyTorch's own of fp16 overflow earlier. Rows of an embedding are fp16 anyway, and their gradients those of weights."""
    for leaf in module.modules():
        if not list(leaf.children()) and not isinstance(leaf, nn.Embedding):
            leaf.register_forward_hook(lambda _module, _inputs, output: _Rounded.apply(output))


@dataclass(frozen=True)
class Numerics:
    """How a run computes: the type of parameters and activations, of the optimizer's copy, and the microbatches."""

    compute: torch.dtype = torch.float32
    master: torch.dtype = torch.float32
    micro_batches: int = 1
    tf32: bool = False  # operands of products and convolutions are rounded to it
    nudge: int = 0  # unless 0, each weight begins up to one rounding away; numbers the draws

    @property
    def simulates(self) -> bool:
        """Whether float32 computes what is rounded to fp16."""
        return self.compute == torch.float16


def _stored(value: torch.Tensor, numerics: Numerics) -> torch.Tensor:
    stored = value.to(numerics.compute)
    return stored.float() if numerics.simulates else stored


def train(model: zoo.Model, recipe: Recipe, data: Mapping[str, np.ndarray], numerics: Numerics,
          draws: Callable[[int], ContextManager] | None = None, evaluates: bool = False) -> Trajectory:
    """Trains the model for STEPS steps; in training mode where `draws` says, of each step, what dropout draws. Steps also
    have the loss on all data in eval mode where it `evaluates`.

    The module computes in `numerics.compute`; the optimizer keeps its own copy of the parameters in `numerics.master`,
    which is rounded into the module after each update. The loss is computed in float32, at least. Batch norm statistics have the parameters' type, as PyTorch
    wants it; rotary frequencies stay in float32 unless everything is in double.
    """
    module = model.instantiate()
    if draws:
        zoo.dropping(module)
    if numerics.nudge:
        _nudge(module, numerics.nudge)
    if numerics.compute == torch.float64:
        module.double()
    masters = [nn.Parameter(parameter.detach().to(numerics.master, copy=True)) for parameter in module.parameters()]
    for parameter in module.parameters():
        parameter.data = _stored(parameter.data, numerics)
    if numerics.simulates:
        _round_activations(module)
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.data = _stored(buffer.data, numerics)
    of_name = _masters_by_name(module, masters)
    optimizer = recipe.optimizer(masters)
    scaler = recipe.scaler()
    result = Trajectory()
    for step in range(1, STEPS + 1):
        chosen = (np.arange(GLOBAL_BATCH) + (step - 1) * GLOBAL_BATCH) % model.samples
        batch = {name: torch.from_numpy(array[chosen]) for name, array in data.items()}
        with draws(step) if draws else nullcontext(), tf32.products() if numerics.tf32 else nullcontext():
            loss = _gradients(module, model.inputs, batch, numerics, masters, recipe, scaler)
        if scaler:
            scaler.unscale_(optimizer)
        norm = math.sqrt(sum(float(each.grad.double().square().sum()) for each in masters if each.grad is not None))
        if not result.gradient_norms and math.isfinite(norm):
            result.gradient_norms = {name: float(master.grad.double().norm()) for name, master in of_name.items()
                                     if master.grad is not None}
        rate = recipe.learning_rate(step)
        result.steps.append({"step": step, "loss": loss, "grad_norm": norm, "lr": rate})
        _update(module, masters, optimizer, rate, recipe.options.get("clip-grad-norm"), numerics, scaler)
        if evaluates:
            result.steps[-1]["eval_loss"] = _evaluation(module, model, data)
        if scaler:
            result.steps[-1] |= {"grad_norm": norm if math.isfinite(norm) else None, "loss_scale": scaler.get_scale()}
    result.buffers = {name: buffer.detach() for name, buffer in module.named_buffers()}
    result.final = {name: master.detach() for name, master in of_name.items()}
    return result


def _evaluation(module: nn.Module, model: zoo.Model, data: Mapping[str, np.ndarray]) -> float:
    """The mean over the valid targets of all whole batches, in eval mode; the module trains afterwards."""
    module.eval()
    total = count = 0.0
    for first in range(0, model.samples - GLOBAL_BATCH + 1, GLOBAL_BATCH):
        batch = {name: torch.from_numpy(array[first : first + GLOBAL_BATCH]) for name, array in data.items()}
        with torch.no_grad():
            logits = module(*(batch[name] for name in model.inputs)).float()
        total += float(nn.functional.cross_entropy(logits.flatten(0, -2), batch["target"].flatten(), reduction="sum"))
        count += int((batch["target"] != IGNORED).sum())
    module.train()
    return total / count


def _nudge(module: nn.Module, number: int) -> None:
    """Moves every weight by up to its last bit."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            unit = uniform(f"nudge {number} {name}", parameter.numel()).reshape(parameter.shape)
            parameter.mul_(1 + (2 * torch.from_numpy(unit) - 1) * 2.0**-23)


def _masters_by_name(module: nn.Module, masters: list[nn.Parameter]) -> dict[str, nn.Parameter]:
    """The optimizer's copy of each parameter; a tied one is found under all its names."""
    of_identity = {id(parameter): master for parameter, master in zip(module.parameters(), masters, strict=True)}
    every = module.named_parameters(remove_duplicate=False)
    return {name: of_identity[id(parameter)] for name, parameter in every}


def _gradients(
    module: nn.Module,
    inputs: tuple[str, ...],
    batch: Mapping[str, torch.Tensor],
    numerics: Numerics,
    masters: list[nn.Parameter],
    recipe: Recipe,
    scaler: torch.amp.GradScaler | None = None,
) -> float:
    """Sets the masters' gradients to those of the batch's mean loss, which is returned; scaled where there is a scaler."""
    weights, smoothing = recipe.class_weights(), float(recipe.options.get("label-smoothing", 0))
    valid = batch["target"][batch["target"] != IGNORED]
    wide = torch.promote_types(numerics.master, torch.float32)
    count = len(valid) if weights is None else weights[valid].sum()
    weights = None if weights is None else weights.to(wide)
    total = 0.0
    for master in masters:
        master.grad = torch.zeros_like(master)
    for part in torch.arange(GLOBAL_BATCH).chunk(numerics.micro_batches):
        arguments = [batch[name][part] for name in inputs]
        arguments = [_stored(value, numerics) if value.is_floating_point() else value for value in arguments]
        logits = module(*arguments).to(wide)
        target = batch["target"][part]
        loss = nn.functional.cross_entropy(logits.flatten(0, -2), target.flatten(), weights, reduction="sum",
                                           label_smoothing=smoothing) / count
        scaled = scaler.scale(loss) if scaler else loss
        gradients = torch.autograd.grad(scaled, list(module.parameters()), allow_unused=True)
        for master, gradient in zip(masters, gradients, strict=True):
            master.grad = None if gradient is None else master.grad + gradient  # none where the module detaches it
        total += loss.item()
    return total


def _update(
    module: nn.Module,
    masters: list[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    rate: float,
    clip: float | None,
    numerics: Numerics,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """One step of the optimizer on the masters, rounded back into the module. A scaler may skip it."""
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(masters, float(clip))
    for group in optimizer.param_groups:
        group["lr"] = rate
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(module.parameters(), masters, strict=True):
            parameter.copy_(_stored(master, numerics))


def numerics_of(recipe: Recipe) -> Numerics:
    """The numerics that the recipe asks for."""
    bf16 = torch.bfloat16
    numerics = {"tf32": Numerics(tf32=True), "bf16": Numerics(bf16), "fp16": Numerics(torch.float16),
                "bf16-true": Numerics(bf16, bf16)}
    return numerics.get(str(recipe.options.get("precision")), Numerics())


def rounding(model: zoo.Model, recipe: Recipe, data: Mapping[str, np.ndarray], run: Trajectory) -> dict[str, object]:
    """How far rounding alone moves this trajectory: the largest difference to a run in four microbatches and to one
    in double. Relative for losses and norms, absolute for final weights. A gradient that is zero but for rounding (the
    bias of attention keys) moves its weight by up to the learning rate a step under Adam."""
    others = [train(model, recipe, data, Numerics(micro_batches=4))]
    others.append(train(model, recipe, data, Numerics(torch.float64, torch.float64)))
    result: dict[str, object] = {}
    for key in ("loss", "grad_norm"):
        result[key] = max(
            abs(mine[key] - theirs[key]) / mine[key]
            for other in others
            for mine, theirs in zip(run.steps, other.steps, strict=True)
        )
    result["weights"] = {
        name: max(float((value.double() - other.final[name].double()).abs().max()) for other in others)
        for name, value in run.final.items()
    }
    return result


def nudged(model: zoo.Model, recipe: Recipe, data: Mapping[str, np.ndarray], run: Trajectory) -> float:
    """The largest relative difference of a loss to those of runs whose weights begin one rounding away. Where it is
    large the trajectory says more about rounding than about training, and nothing can be compared with it."""
    others = [train(model, recipe, data, Numerics(nudge=number)) for number in range(1, NUDGES + 1)]
    largest = max(
        abs(mine["loss"] - theirs["loss"]) / mine["loss"]
        for other in others
        for mine, theirs in zip(run.steps, other.steps, strict=True)
    )
    if largest > MOST_NUDGED:
        raise RuntimeError(f"{model.name}.{recipe.name}: one rounding of the weights moves a loss by {largest:.1e}")
    return largest


def write(path: Path, flags: list[str], run: Trajectory, extra: Mapping[str, object]) -> None:
    """Writes the trajectory as JSON: a line a step and a line a parameter, numbers unrounded."""
    record = {"flags": flags, "steps": run.steps, "gradient_norms": run.gradient_norms} | dict(extra)
    path.write_text(json.dumps(record, indent=1) + "\n")
