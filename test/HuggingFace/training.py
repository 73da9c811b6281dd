"""Ten steps of a small model of transformers in PyTorch, with data that NumPy draws."""

from __future__ import annotations

import numpy
import torch
import transformers
from architectures import CLASSES, VOCABULARY, Architecture

STEPS, BATCH, RATE = 10, 8, 1e-3


def looking_trained(architecture: Architecture) -> torch.nn.Module:
    """The model with noise on all parameters: fresh ones hide what is one, zero or equal."""
    torch.manual_seed(1)
    model = getattr(transformers, architecture.model)(architecture.config())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def batches(architecture: Architecture) -> list[dict]:
    """The same at every call."""
    random = numpy.random.default_rng(3)

    def draw(name: str, shape: tuple[int, ...]) -> numpy.ndarray:
        if name.endswith("ids"):
            return random.integers(3, VOCABULARY, (BATCH, *shape))
        return random.standard_normal((BATCH, *shape), dtype=numpy.float32)

    classes = VOCABULARY if architecture.targets else CLASSES
    return [{**{name: draw(name, shape) for name, shape in architecture.sample.items()},
             "target": random.integers(0, classes, (BATCH, *architecture.targets))} for _ in range(STEPS)]


def pytorch_losses(model: torch.nn.Module, data: list[dict]) -> list[float]:
    """Of a step for each batch, by AdamW with PyTorch's defaults."""
    model.eval()
    if hasattr(model.config, "_experts_implementation"):
        model.config._experts_implementation = "eager"
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=RATE)
    losses = []
    for batch in data:
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        target = tensors.pop("target")
        if "use_cache" in model.forward.__code__.co_varnames:
            tensors["use_cache"] = False
        logits = model(**tensors).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
