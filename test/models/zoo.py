"""The test models: how each is built, which weights it gets, and which exports are made of it.

Model code is Hugging Face transformers' and torchvision's own; the sizes are tiny. Weights are drawn to look trained
(norm scales off one, biases off zero, no two tensors equal): fresh ones hide merged initializers and dead biases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torchvision
import transformers
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from draw import Distribution, draw

VOCABULARY = 512
SEQUENCE = 32
POSITIONS = 64  # more than SEQUENCE: the position table is read in part
FEATURES = 32
CLASSES = 10
IMAGE = (3, 32, 32)


class LogitsOfIds(nn.Module):
    """A language model as input_ids -> logits. Parameters are named `m.` + the Hugging Face name."""

    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.m(input_ids=input_ids, use_cache=False).logits


class LogitsOfMaskedIds(nn.Module):
    """The same with Hugging Face's padding mask as a second input: 1 for a token, 0 for padding."""

    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.m(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class Mlp(nn.Module):
    """A classifier of three linear layers with GELU and a layer norm: x [batch, 32] -> logits [batch, 10]."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.fc1 = nn.Linear(FEATURES, width)
        self.norm = nn.LayerNorm(width)
        self.fc2 = nn.Linear(width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.fc1(x))
        hidden = nn.functional.gelu(self.fc2(self.norm(hidden)))
        return self.head(hidden)


def gpt2(attention: str = "sdpa") -> nn.Module:
    """Hugging Face's GPT-2 with tied embeddings: 2 layers, width 64, 4 heads, no dropout."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=64, n_layer=2, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        use_cache=False, attn_implementation=attention,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama() -> nn.Module:
    """Hugging Face's Llama, untied: 2 layers, width 64, 4 heads, 2 key-value heads, intermediate width 176."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=POSITIONS, tie_word_embeddings=False,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def resnet18() -> nn.Module:
    """torchvision's ResNet-18 with 10 classes."""
    return torchvision.models.resnet18(num_classes=CLASSES)


def resnet_tiny() -> nn.Module:
    """torchvision's ResNet of one BasicBlock a stage, with 8, 16, 32 and 64 planes instead of 64 to 512."""
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=CLASSES)
    model.inplanes = 8
    model.conv1 = nn.Conv2d(3, 8, kernel_size=7, stride=2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(8)
    for stage, planes in enumerate((8, 16, 32, 64)):
        layer = model._make_layer(BasicBlock, planes, 1, stride=1 if stage == 0 else 2)
        setattr(model, f"layer{stage + 1}", layer)
    model.fc = nn.Linear(64, CLASSES)
    return model


@dataclass(frozen=True)
class Model:
    """A model with weights, and what its data looks like. `name` names its data and its trajectories."""

    name: str
    build: Callable[[], nn.Module]  # the module that is exported and trained
    inputs: tuple[str, ...]
    samples: int  # fewer than 10 steps of 8 need: the data wraps around

    def instantiate(self) -> nn.Module:
        """The module in eval mode (frozen batch norm statistics) with its drawn weights."""
        module = self.build().eval()
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, distribution in distributions(module).items():
                tensors[name].copy_(torch.from_numpy(draw(name, distribution)))
        return module


def distributions(module: nn.Module) -> dict[str, Distribution]:
    """The distribution of every tensor that is drawn: all parameters (tied ones once) and batch norm statistics."""
    result = {}
    norms = (nn.LayerNorm, nn.BatchNorm2d)
    of_norm = {
        f"{prefix}.{name}"
        for prefix, child in module.named_modules()
        if isinstance(child, norms) or type(child).__name__.endswith("RMSNorm")
        for name, _ in child.named_parameters()
    }
    for name, tensor in module.named_parameters():
        mean, sd = _moments(name, tensor, name in of_norm)
        result[name] = Distribution(tuple(tensor.shape), mean, sd)
    for name, tensor in module.named_buffers():
        if name.endswith("running_mean"):
            result[name] = Distribution(tuple(tensor.shape), 0.0, 0.1)
        elif name.endswith("running_var"):
            result[name] = Distribution(tuple(tensor.shape), 1.0, 0.2)
    return result


def _moments(name: str, tensor: torch.Tensor, of_norm: bool) -> tuple[float, float]:
    """Mean and standard deviation of a trained-looking parameter."""
    if of_norm and name.endswith("weight"):
        return 1.0, 0.2
    if tensor.dim() == 1:
        return 0.0, 0.1 if of_norm else 0.05
    if "wte" in name or "wpe" in name or "embed_tokens" in name:
        return 0.0, 0.3
    if tensor.dim() == 4:
        return 0.0, math.sqrt(2.0 / math.prod(tensor.shape[1:])) * 0.7
    return 0.0, 1.0 / math.sqrt(tensor.shape[0 if "c_" in name else 1])  # GPT-2's Conv1D stores [in, out]


MODELS = {
    model.name: model
    for model in (
        Model("gpt2", lambda: LogitsOfIds(gpt2()), ("input_ids",), samples=80),
        Model("gpt2_mask", lambda: LogitsOfMaskedIds(gpt2()), ("input_ids", "attention_mask"), samples=60),
        Model("llama", lambda: LogitsOfIds(llama()), ("input_ids",), samples=80),
        Model("mlp", Mlp, ("x",), samples=52),
        Model("resnet_tiny", resnet_tiny, ("x",), samples=28),
        Model("resnet18", resnet18, ("x",), samples=24),
    )
}


@dataclass(frozen=True)
class Export:
    """One .onnx file. `weights` says where they are.

    inside   in the file
    inputs   nowhere; each is a graph input without data (export_params=False, keep_initializers_as_inputs=True)
    dangling nowhere; nodes use names that nothing declares, not even their shapes (export_params=False alone)
    """

    name: str
    model: str
    opset: int = 20
    batch: int | None = 8  # None: symbolic
    weights: str = "inside"
    build: Callable[[], nn.Module] | None = None  # another form of the model with the same weights


EXPORTS = (
    Export("gpt2", "gpt2"),
    Export("gpt2_opset24", "gpt2", opset=24),
    Export("gpt2_b1", "gpt2", batch=1, weights="inputs"),
    Export("gpt2_dyn", "gpt2", batch=None),
    Export("gpt2_eager", "gpt2", weights="inputs", build=lambda: LogitsOfIds(gpt2("eager"))),
    Export("gpt2_mask", "gpt2_mask"),
    Export("llama", "llama"),
    Export("llama_opset24", "llama", opset=24),
    Export("llama_b1", "llama", batch=1),
    Export("llama_dyn", "llama", batch=None),
    Export("mlp", "mlp"),
    Export("mlp_dyn", "mlp", batch=None, opset=24),
    Export("mlp_dangling", "mlp", weights="dangling"),
    Export("resnet_tiny", "resnet_tiny"),
    Export("resnet18", "resnet18", weights="inputs"),
)


def example_inputs(model: Model, batch: int) -> tuple[torch.Tensor, ...]:
    """Inputs to trace the model with: only shapes and types matter."""
    examples = {
        "input_ids": torch.zeros(batch, SEQUENCE, dtype=torch.int64),
        "attention_mask": torch.ones(batch, SEQUENCE, dtype=torch.int64),
        "x": torch.zeros(batch, *((FEATURES,) if model.name == "mlp" else IMAGE)),
    }
    return tuple(examples[name] for name in model.inputs)
