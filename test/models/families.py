"""The model families whose operators the importer has to know: small ones, built by Hugging Face transformers and
torchvision, each wrapped to take tensors and return its logits alone.
"""

from __future__ import annotations

import torch
import torchvision
import transformers
from torch import nn

from sizes import CLASSES, ODD_VOCABULARY, POSITIONS, SMALL_IMAGE, VOCABULARY

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_ENCODER = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_DECODER = {"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS, "use_cache": False}
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1}


class Logits(nn.Module):
    """A Hugging Face model as its inputs, by position -> logits. Parameters are named `m.` + the Hugging Face name."""

    def __init__(self, m: nn.Module, *inputs: str, **fixed: object) -> None:
        super().__init__()
        self.m = m
        self.inputs = inputs
        self.fixed = fixed

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.m(**dict(zip(self.inputs, values, strict=True)), **self.fixed).logits


def bert(vocabulary: int = VOCABULARY) -> nn.Module:
    """BERT for masked language modelling, its decoder tied to the embeddings: takes ids, padding mask and segments."""
    config = transformers.BertConfig(
        vocab_size=vocabulary, max_position_embeddings=POSITIONS, **_SIZES, **_ENCODER, pad_token_id=0
    )
    return Logits(transformers.BertForMaskedLM(config), "input_ids", "attention_mask", "token_type_ids")


def bert_odd() -> nn.Module:
    """The same with a vocabulary that no two ranks divide."""
    return bert(ODD_VOCABULARY)


def bert_classifier() -> nn.Module:
    """BERT for sequence classification: the first token's state through the pooler."""
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, num_labels=CLASSES, **_SIZES, **_ENCODER
    )
    return Logits(transformers.BertForSequenceClassification(config), "input_ids")


def vit() -> nn.Module:
    """ViT: patches of 4 by 4 and a class token."""
    config = transformers.ViTConfig(image_size=SMALL_IMAGE[-1], patch_size=4, num_labels=CLASSES, **_SIZES, **_ENCODER)
    return Logits(transformers.ViTForImageClassification(config), "pixel_values")


def t5() -> nn.Module:
    """T5 1.0, tied embeddings: relative position biases in the first layers, cross-attention, ReLU."""
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        relative_attention_num_buckets=8, relative_attention_max_distance=16, decoder_start_token_id=0,
        attn_implementation="eager",  # torch.onnx 2.15 cannot decompose sdpa with a bias
    )  # fmt: skip
    return Logits(transformers.T5ForConditionalGeneration(config), "input_ids", "decoder_input_ids", use_cache=False)


def bart() -> nn.Module:
    """BART, one layer each: learned positions, cross-attention, norms behind the residual sums, a bias buffer on the logits."""
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=POSITIONS,
        dropout=0.0, decoder_start_token_id=0, **_SPECIAL,
    )  # fmt: skip
    return Logits(transformers.BartForConditionalGeneration(config), "input_ids", "decoder_input_ids", use_cache=False)


def qwen2() -> nn.Module:
    """Qwen2: like Llama, with biases on queries, keys and values, tied embeddings; 2 key-value heads."""
    config = transformers.Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True, **_SIZES, **_DECODER)
    return Logits(transformers.Qwen2ForCausalLM(config), "input_ids", use_cache=False)


def gpt_neox() -> nn.Module:
    """GPT-NeoX: parallel residuals, heads outside of a fused QKV, rotary embedding on a quarter of each head."""
    config = transformers.GPTNeoXConfig(**_SIZES, **_DECODER)
    return Logits(transformers.GPTNeoXForCausalLM(config), "input_ids", use_cache=False)


def mistral() -> nn.Module:
    """Mistral: like Llama, each query sees the last 8 keys; 2 key-value heads, untied."""
    config = transformers.MistralConfig(
        num_key_value_heads=2, sliding_window=8, tie_word_embeddings=False, **_SIZES, **_DECODER
    )
    return Logits(transformers.MistralForCausalLM(config), "input_ids", use_cache=False)


def mixtral() -> nn.Module:
    """Mixtral, one layer: 4 experts, 2 a token, whose weights are looked up for each token; untied."""
    sizes = _SIZES | {"num_hidden_layers": 1, "num_key_value_heads": 2, "num_local_experts": 4}
    config = transformers.MixtralConfig(
        experts_implementation="batched_mm",  # the other forms loop over experts found at run time, or have no export
        **sizes, **_DECODER,
    )  # fmt: skip
    return Logits(transformers.MixtralForCausalLM(config), "input_ids", use_cache=False)


def mobilenet() -> nn.Module:
    """torchvision's MobileNetV2 with seven of its inverted residual blocks: depthwise convolutions, ReLU6."""
    blocks = [[1, 8, 1, 1], [6, 8, 2, 2], [6, 16, 2, 2], [6, 24, 2, 1]]  # expansion, channels, repetitions, stride
    return torchvision.models.MobileNetV2(CLASSES, width_mult=1.0, inverted_residual_setting=blocks, dropout=0.0)


def convnext() -> nn.Module:
    """ConvNeXt: depthwise 7 by 7 convolutions, layer norms over channels, layer scales."""
    config = transformers.ConvNextConfig(
        hidden_sizes=[16, 32], depths=[2, 1], num_stages=2, num_labels=CLASSES, drop_path_rate=0.0
    )
    return Logits(transformers.ConvNextForImageClassification(config), "pixel_values")
