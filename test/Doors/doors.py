"""Models, and the doors through which each comes into dtc.

Modules are those of test/models and test/HuggingFace, with weights that look trained. A door writes a file, or hands in
the module itself or a folder of transformers.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy
import torch

TEST = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TEST / "models"), str(TEST / "HuggingFace"), str(TEST / "Python")]

import training  # noqa: E402
import zoo  # noqa: E402
from architectures import ARCHITECTURES  # noqa: E402
from package import MODELS  # noqa: E402  finds the package of the build folder
from pt2_export import _with_named_inputs  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

import dtc  # noqa: E402

STEPS, BATCH, RATE = training.STEPS, training.BATCH, training.RATE


class Logits(torch.nn.Module):
    """A model of transformers as a function of its tensors."""

    def __init__(self, m: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.m, self.names = m, names
        if hasattr(m.config, "rescale_every"):
            m.config.rescale_every = 0  # RWKV would halve its weights in place

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        more = {"use_cache": False} if "use_cache" in type(self.m).forward.__code__.co_varnames else {}
        return self.m(**dict(zip(self.names, tensors, strict=True)), **more).logits


@dataclasses.dataclass
class Case:
    """A model, and ten global batches with their targets."""

    make: Callable[[], torch.nn.Module]  # input tensors -> logits; the same weights at every call
    inputs: tuple[str, ...]
    batches: list[dict[str, numpy.ndarray]]
    transformers: Callable[[], Any] | None = None  # the model inside, for `save_pretrained`
    architecture: str | None = None
    rate: float = RATE

    def tensors(self, batch: dict[str, numpy.ndarray]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(batch[name].copy()) for name in self.inputs)


def _of_zoo(name: str, architecture: str | None = None) -> Case:
    model = zoo.MODELS[name]
    data = load_file(MODELS / f"{name}.data.safetensors")
    samples = len(data["target"])
    order = [[(step * BATCH + i) % samples for i in range(BATCH)] for step in range(STEPS)]

    def make() -> torch.nn.Module:
        return _with_named_inputs(model.instantiate(), model.inputs)

    return Case(make, model.inputs, [{key: array[rows] for key, array in data.items()} for rows in order],
                (lambda: model.instantiate().m) if architecture else None, architecture)


def _resnet18() -> Case:
    """With a rate at which losses don't leap: rounding alone would change what is learnt."""
    return dataclasses.replace(_of_zoo("resnet18"), rate=1e-4)


def _of_transformers(name: str) -> Case:
    architecture = ARCHITECTURES[name]
    names = tuple(architecture.sample)

    def make() -> torch.nn.Module:
        return _with_named_inputs(Logits(training.looking_trained(architecture).eval(), names), names)

    return Case(make, names, training.batches(architecture), lambda: training.looking_trained(architecture),
                architecture.model)


MODELS_TO_PASS: dict[str, Callable[[], Case]] = {
    "gpt2": lambda: _of_zoo("gpt2", "GPT2LMHeadModel"),
    "llama": lambda: _of_zoo("llama", "LlamaForCausalLM"),
    "bert": lambda: _of_transformers("bert"),
    "vit": lambda: _of_transformers("vit"),
    "resnet18": _resnet18,
    "t5": lambda: _of_zoo("t5", "T5ForConditionalGeneration"),
    "whisper": lambda: _of_transformers("whisper"),
    "moe": lambda: _of_zoo("moe"),
    "mixtral": lambda: _of_zoo("mixtral", "MixtralForCausalLM"),
    "mamba": lambda: _of_transformers("mamba"),
    "rwkv": lambda: _of_transformers("rwkv"),
    "mlp": lambda: _of_zoo("mlp"),
}


def losses(case: Case) -> list[float]:
    """Of ten steps of AdamW by PyTorch."""
    module = case.make().eval()
    optimizer = torch.optim.AdamW([each for each in module.parameters() if each.requires_grad], lr=case.rate)
    found = []
    for batch in case.batches:
        logits = module(*case.tensors(batch))
        target = torch.from_numpy(batch["target"].copy()).reshape(-1)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def _onnx(case: Case, folder: pathlib.Path) -> dict[str, Any]:
    path = folder / "model.onnx"
    torch.onnx.export(case.make().eval(), case.tensors(case.batches[0]), str(path), dynamo=True, optimize=False,
                      external_data=False, input_names=list(case.inputs), output_names=["logits"], verbose=False)
    return {"model": path}


def _program(case: Case, folder: pathlib.Path) -> dict[str, Any]:
    path = folder / "model.pt2"
    program = torch.export.export(case.make().eval(), case.tensors(case.batches[0]))
    if case.architecture == "RwkvForCausalLM":  # which writes into parts; dtc's message says what to do
        program = program.run_decompositions()
    torch.export.save(program, path)
    return {"model": path}


def _module(case: Case, folder: pathlib.Path) -> dict[str, Any]:
    return {"model": case.make().eval(), "example_inputs": case.tensors(case.batches[0])}


def _torchscript(case: Case, folder: pathlib.Path) -> dict[str, Any]:
    path = folder / "model.pt"
    examples = case.tensors(case.batches[0])
    torch.jit.trace(case.make().eval(), examples, check_trace=False).save(str(path))
    types = {torch.int64: "xi64", torch.float32: ""}
    return {"model": path, "flags": [f"--shape={name}={'x'.join(map(str, each.shape))}{types[each.dtype]}"
                                     for name, each in zip(case.inputs, examples, strict=True)]}


def _folder(case: Case, folder: pathlib.Path) -> dict[str, Any]:
    case.transformers().save_pretrained(folder / "model")
    texts = [batch.shape[1] for name, batch in case.batches[0].items() if name.endswith("input_ids")]
    return {"model": dtc.from_hf(folder / "model", sequence=texts[0] if texts else None, inputs=list(case.inputs),
                                 architecture=case.architecture, with_weights=True)}


#: What each makes of a case are arguments of `dtc.parallelize`.
DOORS: dict[str, Callable[[Case, pathlib.Path], dict[str, Any]]] = {
    "onnx": _onnx, "pt2": _program, "module": _module, "torchscript": _torchscript, "hf": _folder,
}
