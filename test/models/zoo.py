"""The test models: how each is built, which weights it gets, and which exports are made of it.

Model code is Hugging Face transformers' and torchvision's own; the sizes are tiny. Weights are drawn to look trained
(norm scales off one, biases off zero, no two tensors equal): fresh ones hide merged initializers and dead biases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch
import torchvision
import transformers
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

import codes
import distances
import experts
import families
import losses
import messages
import moe
import parts
import points
import recurrent
import rotations
import upsampling
import windows
from draw import Distribution, draw
from sizes import CLASSES, FEATURES, IMAGE, ODD_VOCABULARY, POSITIONS, SEQUENCE, SMALL_IMAGE, VOCABULARY


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


class Task(Enum):
    """What a model learns, which says what its data looks like."""

    NEXT_TOKEN = "the next token of a text"
    NEXT_TOKEN_PADDED = "the next token of a padded text"
    MASKED_TOKEN = "tokens that were taken out of a padded text"
    CONTINUATION = "the text after a text"
    TEXT_CLASS = "the class of a text"
    CLASS = "the class of a point or an image"


@dataclass(frozen=True)
class Model:
    """A model with weights, and what its data looks like. `name` names its data and its trajectories.

    `salt` chooses among drawings of the weights: the first under which rounding alone doesn't change what is learnt
    (reference.py's `nudged`). A ReLU whose input is nearly zero passes a gradient or none.
    """

    name: str
    build: Callable[[], nn.Module]  # the module that is exported and trained
    inputs: tuple[str, ...]
    samples: int  # fewer than 10 steps of 8 need: the data wraps around
    task: Task = Task.NEXT_TOKEN
    shape: tuple[int, ...] = ()  # of a sample of `x`
    vocabulary: int = VOCABULARY
    padding: str = ""  # WEIGHT=ROW, by the .onnx file's name: nn.Embedding's padding_idx, which ONNX loses
    salt: str = ""

    def instantiate(self) -> nn.Module:
        """The module in eval mode (frozen batch norm statistics) with its drawn weights."""
        module = self.build().eval()
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, distribution in distributions(module).items():
                tensors[name].copy_(torch.from_numpy(draw(self.salt + name, distribution)))
        return module


def dropping(module: nn.Module) -> nn.Module:
    """The module in training mode, dropping a tenth wherever it has a dropout."""
    for child in module.modules():
        if isinstance(child, nn.Dropout):
            child.p = 0.1
    return module.train()


def distributions(module: nn.Module) -> dict[str, Distribution]:
    """The distribution of every tensor that is drawn: all parameters (tied ones once) and batch norm statistics."""
    result = {}
    of_norm = _parameters_of(module, _is_norm)
    of_embedding = _parameters_of(module, lambda child: isinstance(child, nn.Embedding))
    for name, tensor in module.named_parameters():
        mean, sd = _moments(name, tensor, name in of_norm, name in of_embedding)
        result[name] = Distribution(tuple(tensor.shape), mean, sd)
    for name, tensor in module.named_buffers():
        if name.endswith("running_mean"):
            result[name] = Distribution(tuple(tensor.shape), 0.0, 0.1)
        elif name.endswith("running_var"):
            result[name] = Distribution(tuple(tensor.shape), 1.0, 0.2)
    return result


def _is_norm(module: nn.Module) -> bool:
    is_rms_norm = type(module).__name__.endswith(("RMSNorm", "T5LayerNorm"))
    return is_rms_norm or isinstance(module, (nn.LayerNorm, nn.BatchNorm2d))


def _parameters_of(module: nn.Module, wanted: Callable[[nn.Module], bool]) -> set[str]:
    """The names of the parameters of the wanted modules within `module`."""
    return {
        f"{prefix}.{name}"
        for prefix, child in module.named_modules()
        if wanted(child)
        for name, _ in child.named_parameters()
    }


def _moments(name: str, tensor: torch.Tensor, of_norm: bool, of_embedding: bool) -> tuple[float, float]:
    """Mean and standard deviation of a trained-looking parameter."""
    if of_norm and name.endswith("weight"):
        return 1.0, 0.2
    if tensor.dim() <= 1:
        return 0.0, 0.1 if of_norm else 0.05
    if of_embedding or (tensor.dim() == 3 and tensor.shape[0] == 1):  # ViT's class token and positions
        return 0.0, 0.3
    if tensor.dim() == 4:
        return 0.0, math.sqrt(2.0 / math.prod(tensor.shape[1:])) * 0.7
    return 0.0, 1.0 / math.sqrt(tensor.shape[0 if "c_" in name else 1])  # GPT-2's Conv1D stores [in, out]


_IDS = ("input_ids",)
_IDS_AND_MASK = ("input_ids", "attention_mask")
_TWO_TEXTS = ("input_ids", "decoder_input_ids")
_IMAGE = ("x",)

MODELS = {
    model.name: model
    for model in (
        Model("gpt2", lambda: LogitsOfIds(gpt2()), _IDS, samples=80),
        Model("gpt2_mask", lambda: LogitsOfMaskedIds(gpt2()), _IDS_AND_MASK, 60, Task.NEXT_TOKEN_PADDED),
        Model("llama", lambda: LogitsOfIds(llama()), _IDS, samples=80),
        Model("mlp", Mlp, ("x",), 52, Task.CLASS, (FEATURES,)),
        Model("resnet_tiny", resnet_tiny, _IMAGE, 28, Task.CLASS, IMAGE, salt="1:"),
        Model("resnet18", resnet18, _IMAGE, 24, Task.CLASS, IMAGE),
        Model("bert", families.bert, (*_IDS_AND_MASK, "token_type_ids"), 32, Task.MASKED_TOKEN,
              padding="m.cls.predictions.decoder.weight=0"),
        Model("bert_odd", families.bert_odd, (*_IDS_AND_MASK, "token_type_ids"), 32, Task.MASKED_TOKEN,
              padding="m.cls.predictions.decoder.weight=0", vocabulary=ODD_VOCABULARY),
        Model("bert_classifier", families.bert_classifier, _IDS, 28, Task.TEXT_CLASS,
              padding="m.bert.embeddings.word_embeddings.weight=0"),
        Model("vit", families.vit, _IMAGE, 28, Task.CLASS, SMALL_IMAGE),
        Model("t5", families.t5, _TWO_TEXTS, 32, Task.CONTINUATION),
        Model("bart", families.bart, _TWO_TEXTS, 32, Task.CONTINUATION, padding="m.lm_head.weight=0"),
        Model("qwen2", families.qwen2, _IDS, 32),
        Model("gpt_neox", families.gpt_neox, _IDS, 32),
        Model("mobilenet", families.mobilenet, _IMAGE, 28, Task.CLASS, SMALL_IMAGE, salt="1:"),
        Model("convnext", families.convnext, _IMAGE, 28, Task.CLASS, SMALL_IMAGE),
        Model("mistral", families.mistral, _IDS, 32),
        Model("mixtral", families.mixtral, _IDS, 32),
        Model("moe", moe.MixtureOfExperts, _IDS, 32),
        Model("olmoe", experts.olmoe, _IDS, 32),
        Model("qwen2_moe", experts.qwen2_moe, _IDS, 32, salt="1:"),
        Model("qwen3_moe", experts.qwen3_moe, _IDS, 32),
        Model("gpt_oss", experts.gpt_oss, _IDS, 32),
        Model("messages", messages.Messages, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("parts", parts.Parts, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("windows", windows.Windows, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("upsampling", upsampling.Upsampling, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("recurrent", recurrent.Recurrent, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("points", points.Points, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("distances", distances.Distances, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("losses", losses.Losses, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("rotations", rotations.Rotations, ("x",), 28, Task.CLASS, (FEATURES,)),
        Model("codes", codes.Codes, ("x",), 28, Task.CLASS, (FEATURES,)),
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
    Export("bert", "bert"),
    Export("bert_odd", "bert_odd"),
    Export("bert_classifier", "bert_classifier"),
    Export("vit", "vit"),
    Export("t5", "t5"),
    Export("bart", "bart"),
    Export("qwen2", "qwen2"),
    Export("gpt_neox", "gpt_neox"),
    Export("mobilenet", "mobilenet"),
    Export("convnext", "convnext"),
    Export("mistral", "mistral"),
    Export("mixtral", "mixtral"),
    Export("moe", "moe"),
)


@dataclass(frozen=True)
class Program:
    """One .pt2 file. `weights` are inside, or fake: shapes and types without data."""

    name: str
    model: str
    batch: int | None = 8  # None: symbolic
    weights: str = "inside"
    training: bool = False  # exported in training mode, with dropout or batch norm


PROGRAMS = (
    Program("mlp", "mlp"),
    Program("mlp_dyn", "mlp", batch=None),
    Program("gpt2", "gpt2"),
    Program("gpt2_fake", "gpt2", weights="fake"),
    Program("gpt2_dropout", "gpt2", training=True),
    Program("gpt2_mask", "gpt2_mask"),
    Program("llama", "llama"),
    Program("llama_dyn", "llama", batch=None),
    Program("resnet_tiny", "resnet_tiny"),
    Program("resnet_norms", "resnet_tiny", training=True),
    Program("bert", "bert"),
    Program("vit", "vit"),
    Program("t5", "t5"),
    Program("bart", "bart"),
    Program("qwen2", "qwen2"),
    Program("gpt_neox", "gpt_neox"),
    Program("mobilenet", "mobilenet"),
    Program("convnext", "convnext"),
    Program("mistral", "mistral"),
    Program("mixtral", "mixtral"),
    Program("moe", "moe"),
    Program("olmoe", "olmoe"),
    Program("qwen2_moe", "qwen2_moe"),
    Program("qwen3_moe", "qwen3_moe"),
    Program("gpt_oss", "gpt_oss"),
    Program("messages", "messages"),
    Program("parts", "parts"),
    Program("windows", "windows"),
    Program("upsampling", "upsampling"),
    Program("recurrent", "recurrent"),
    Program("points", "points"),
    Program("distances", "distances"),
    Program("losses", "losses"),
    Program("rotations", "rotations"),
    Program("codes", "codes"),
)


def example_inputs(model: Model, batch: int) -> tuple[torch.Tensor, ...]:
    """Inputs to trace the model with: only shapes and types matter."""
    # A tensor for each: torch.export takes inputs that are the same tensor for a single input.
    examples = {name: torch.zeros(batch, SEQUENCE, dtype=torch.int64) for name in model.inputs}
    if "attention_mask" in examples:
        examples["attention_mask"].fill_(1)
    if "x" in examples:
        examples["x"] = torch.zeros(batch, *model.shape)
    return tuple(examples.values())
