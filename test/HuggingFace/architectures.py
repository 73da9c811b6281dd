"""Small models of the architectures of transformers that are downloaded most, and of further ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import transformers

VOCABULARY, POSITIONS, SEQUENCE, CLASSES = 128, 64, 16, 10

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_TEXT = {"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS}
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_IMAGES = {"image_size": 8, "patch_size": 4}
_WHOLE = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A class of transformers with a small configuration; `sample` are the shapes of what a sample has."""

    model: str
    config: Callable[[], Any]
    sample: dict[str, tuple[int, ...]]
    targets: tuple[int, ...] = (SEQUENCE,)
    most_downloaded: bool = False


def _encoder(name: str, *, listed: bool = True, **more: object) -> Architecture:
    make = getattr(transformers, f"{name}Config")
    return Architecture(f"{name}ForMaskedLM", lambda: make(**_TEXT, **_SIZES, **_WHOLE, **more), {"input_ids": (SEQUENCE,)},
                        most_downloaded=listed)


def _decoder(name: str, *, config: str = "", listed: bool = True, **more: object) -> Architecture:
    make = getattr(transformers, config or f"{name}Config")
    return Architecture(f"{name}ForCausalLM", lambda: make(**{**_TEXT, **_SIZES, **_SPECIAL, **more}),
                        {"input_ids": (SEQUENCE,)}, most_downloaded=listed)


def _images(name: str, make: Callable[[], Any], *, listed: bool = True) -> Architecture:
    return Architecture(f"{name}ForImageClassification", make, {"pixel_values": (3, 8, 8)}, (), listed)


def _distilbert() -> Any:
    return transformers.DistilBertConfig(**_TEXT, dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0,
                                         attention_dropout=0.0)


def _gpt2() -> Any:
    return transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=32, n_layer=2, n_head=4,
                                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **_SPECIAL)


def _t5() -> Any:
    return transformers.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                 dropout_rate=0.0, decoder_start_token_id=0)


def _bart() -> Any:
    return transformers.BartConfig(**_TEXT, **_SPECIAL, d_model=32, encoder_layers=1, decoder_layers=1,
                                   encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                                   decoder_ffn_dim=64, dropout=0.0, decoder_start_token_id=0)


def _whisper() -> Any:
    return transformers.WhisperConfig(vocab_size=VOCABULARY, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2,
                                      encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                                      decoder_ffn_dim=64, max_source_positions=16, max_target_positions=POSITIONS,
                                      dropout=0.0, decoder_start_token_id=0, **_SPECIAL)


def _clip() -> Any:
    return transformers.CLIPConfig(vision_config={**_IMAGES, **_SIZES}, num_labels=CLASSES)


def _rwkv() -> Any:
    return transformers.RwkvConfig(vocab_size=VOCABULARY, context_length=POSITIONS, hidden_size=32, attention_hidden_size=32,
                                   num_hidden_layers=2, intermediate_size=64)


_TWO_TEXTS = {"input_ids": (SEQUENCE,), "decoder_input_ids": (SEQUENCE,)}

ARCHITECTURES = {
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta"),
    "xlm-roberta": _encoder("XLMRoberta"),
    "distilbert": Architecture("DistilBertForMaskedLM", _distilbert, {"input_ids": (SEQUENCE,)}, most_downloaded=True),
    "gpt2": Architecture("GPT2LMHeadModel", _gpt2, {"input_ids": (SEQUENCE,)}, most_downloaded=True),
    "llama": _decoder("Llama", num_key_value_heads=2),
    "qwen2": _decoder("Qwen2", num_key_value_heads=2),
    "qwen3": _decoder("Qwen3", num_key_value_heads=2, head_dim=8),
    "mistral": _decoder("Mistral", num_key_value_heads=2, sliding_window=8),
    "gemma3": _decoder("Gemma3", config="Gemma3TextConfig", num_key_value_heads=2, head_dim=8, sliding_window=8),
    "phi": _decoder("Phi", resid_pdrop=0.0),
    "t5": Architecture("T5ForConditionalGeneration", _t5, _TWO_TEXTS, most_downloaded=True),
    "vit": _images("ViT", lambda: transformers.ViTConfig(**_IMAGES, **_SIZES, **_WHOLE, num_labels=CLASSES)),
    "clip": _images("CLIP", _clip),
    "whisper": Architecture("WhisperForConditionalGeneration", _whisper,
                            {"input_features": (8, 32), "decoder_input_ids": (SEQUENCE,)}, most_downloaded=True),
    "electra": _encoder("Electra", listed=False, embedding_size=16),
    "albert": _encoder("Albert", listed=False, embedding_size=16),
    "mpnet": _encoder("MPNet", listed=False),
    "deberta-v2": _encoder("DebertaV2", listed=False),
    "modernbert": _decoder("ModernBert", listed=False, cls_token_id=1, sep_token_id=2),
    "gemma2": _decoder("Gemma2", listed=False, num_key_value_heads=2, head_dim=8, sliding_window=8),
    "phi3": _decoder("Phi3", listed=False, num_key_value_heads=2, resid_pdrop=0.0),
    "opt": _decoder("OPT", listed=False, ffn_dim=64, word_embed_proj_dim=32, dropout=0.0),
    "gpt-neox": _decoder("GPTNeoX", listed=False),
    "falcon": _decoder("Falcon", listed=False),
    "bloom": _decoder("Bloom", listed=False, n_layer=2, n_head=4, hidden_dropout=0.0, attention_dropout=0.0),
    "mixtral": _decoder("Mixtral", listed=False, num_key_value_heads=2, num_local_experts=4),
    "mamba": _decoder("Mamba", listed=False, state_size=4),
    "rwkv": Architecture("RwkvForCausalLM", _rwkv, {"input_ids": (SEQUENCE,)}),
    "bart": Architecture("BartForConditionalGeneration", _bart, _TWO_TEXTS),
    "dinov2": _images("Dinov2", lambda: transformers.Dinov2Config(**_IMAGES, **_SIZES, mlp_ratio=2, num_labels=CLASSES),
                      listed=False),
}
ARCHITECTURES["modernbert"] = dataclasses.replace(ARCHITECTURES["modernbert"], model="ModernBertForMaskedLM")
