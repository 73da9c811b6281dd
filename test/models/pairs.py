#!/usr/bin/env python3
"""Exports one model in many ways: every precision, attention and exporter, tied and untied.

    pairs.py --output DIR                writes all of them, without weights, some 25 minutes
    pairs.py --output DIR --only llama   ... those whose name contains this
    pairs.py --output DIR --real         GPT-2 124M and a Llama of 1B parameters instead of the small models
    pairs.py --list                      prints the names

A file is called MODEL-EXPORTER-ATTENTION-TIES-PRECISION.onnx. Files that differ in the last part alone are one model, and
`dtc plan` has to plan them alike (test/Integration/pairs.py compares them). What PyTorch cannot export is printed and
left out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import onnx
import torch
import transformers
from torch import nn

from sizes import SEQUENCE, VOCABULARY

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ATTENTIONS = ("sdpa", "eager")
EXPORTERS = ("dynamo", "script")  # torch.export's, and the older one that traces TorchScript
_BATCH = 8
_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 176}
_ENCODER = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Logits(nn.Module):
    """A Hugging Face model as its inputs, by position -> logits."""

    def __init__(self, m: nn.Module, inputs: tuple[str, ...], fixed: dict[str, object]) -> None:
        super().__init__()
        self.m = m
        self.inputs = inputs
        self.fixed = fixed

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.m(**dict(zip(self.inputs, values, strict=True)), **self.fixed).logits


@dataclass(frozen=True)
class Variant:
    """One way to export one model."""

    model: str
    exporter: str
    attention: str
    tied: bool
    precision: str

    @property
    def name(self) -> str:
        ties = "tied" if self.tied else "untied"
        return f"{self.model}-{self.exporter}-{self.attention}-{ties}-{self.precision}"


def _gpt2(attention: str, tied: bool, **sizes: int) -> nn.Module:
    config = transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False,
        tie_word_embeddings=tied, attn_implementation=attention, **sizes,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def _llama(attention: str, tied: bool, **sizes: int) -> nn.Module:
    config = transformers.LlamaConfig(
        bos_token_id=0, eos_token_id=0, use_cache=False, tie_word_embeddings=tied, attn_implementation=attention, **sizes
    )
    return transformers.LlamaForCausalLM(config)


def _bert(attention: str, tied: bool) -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, max_position_embeddings=64, tie_word_embeddings=tied, attn_implementation=attention,
        **_SMALL, **_ENCODER,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


def _vit(attention: str, _tied: bool) -> nn.Module:
    config = transformers.ViTConfig(
        image_size=16, patch_size=4, num_labels=10, attn_implementation=attention, **_SMALL, **_ENCODER
    )
    return transformers.ViTForImageClassification(config)


def _t5(attention: str, tied: bool) -> nn.Module:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=176, num_layers=2, num_heads=4, dropout_rate=0.0,
        relative_attention_num_buckets=8, relative_attention_max_distance=16, decoder_start_token_id=0,
        feed_forward_proj="gated-gelu", tie_word_embeddings=tied, attn_implementation=attention,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


_TOKENS = {"vocab_size": VOCABULARY}
MODELS = {
    "gpt2": lambda a, t: _gpt2(a, t, **_TOKENS, n_positions=64, n_embd=64, n_layer=2, n_head=4),
    "llama": lambda a, t: _llama(a, t, **_TOKENS, **_SMALL, num_key_value_heads=2, max_position_embeddings=64),
    "bert": _bert,
    "vit": _vit,
    "t5": _t5,
}
REAL = {
    "gpt2_124m": lambda a, t: _gpt2(a, t),
    "llama_1b": lambda a, t: _llama(
        a, t, vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=2048),
}  # fmt: skip
_INPUTS = {
    "bert": ("input_ids", "attention_mask", "token_type_ids"),
    "vit": ("pixel_values",),
    "t5": ("input_ids", "decoder_input_ids"),
}


def variants(real: bool) -> list[Variant]:
    """Every way to export every model; the real sizes have one exporter, which needs no memory for weights."""
    models, exporters = (REAL, EXPORTERS[:1]) if real else (MODELS, EXPORTERS)
    return [
        Variant(*choice)
        for choice in itertools.product(models, exporters, ATTENTIONS, (True, False), PRECISIONS)
        if not (choice[0] == "vit" and choice[3])
    ]


def _examples(variant: Variant) -> tuple[torch.Tensor, ...]:
    if variant.model == "vit":
        return (torch.randn(_BATCH, 3, 16, 16, dtype=PRECISIONS[variant.precision]),)
    shape = {"gpt2_124m": (1, 1024), "llama_1b": (1, 2048)}.get(variant.model, (_BATCH, SEQUENCE))
    # torch.export takes two inputs that are the same tensor for one.
    return tuple(torch.full(shape, i % 2, dtype=torch.int64) for i in range(len(_inputs(variant))))


def _inputs(variant: Variant) -> tuple[str, ...]:
    return _INPUTS.get(variant.model, ("input_ids",))


def write(variant: Variant, folder: Path) -> Path:
    """Exports one variant to FOLDER/NAME.onnx and returns that path."""
    path = folder / f"{variant.name}.onnx"
    real = variant.model in REAL
    with torch.device("meta" if real else "cpu"):
        model = (REAL if real else MODELS)[variant.model](variant.attention, variant.tied)
        examples = _examples(variant)
    if not real:  # fresh norms and biases are equal, which the older exporter makes one
        for parameter in model.parameters():
            nn.init.normal_(parameter)
    fixed = {} if variant.model in ("bert", "vit") else {"use_cache": False}
    module = Logits(model.to(PRECISIONS[variant.precision]), _inputs(variant), fixed).eval()
    names = {"input_names": list(_inputs(variant)), "output_names": ["logits"]}
    if variant.exporter == "dynamo":
        program = torch.onnx.export(module, examples, dynamo=True, optimize=False, verbose=False, **names)
        program.save(path, include_initializers=False, keep_initializers_as_inputs=True)
        _drop_metadata(path)
    else:
        # Sequences packed into one are told apart by torch.diff, which the older exporter doesn't know.
        with mock.patch("transformers.masking_utils.find_packed_sequence_indices", lambda _: None):
            torch.onnx.export(module, examples, path, dynamo=False, opset_version=17, **names)
    return path


def _drop_metadata(path: Path) -> None:
    """Removes what the exporter notes at nodes: it names files of this machine and is most of a small graph."""
    proto = onnx.load(path, load_external_data=False)
    for node in proto.graph.node:
        del node.metadata_props[:]
    onnx.save(proto, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="PART")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = [variant for variant in variants(arguments.real) if arguments.only in variant.name]
    if arguments.list or not arguments.output:
        print("\n".join(variant.name for variant in chosen))
        return 0 if arguments.list else 2
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for variant in chosen:
        try:
            print(f"{variant.name}  {write(variant, arguments.output).stat().st_size} bytes", flush=True)
        except Exception as error:  # whatever stops PyTorch's exporters
            (arguments.output / f"{variant.name}.onnx").unlink(missing_ok=True)
            print(f"{variant.name}  not exported: {str(error).strip().splitlines()[0][:120]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
