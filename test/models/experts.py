"""Mixtures whose tokens look up their experts, beyond Mixtral: small ones, built by Hugging Face transformers, each wrapped
to take ids and return its logits alone.
"""

from __future__ import annotations

import transformers
from torch import nn

from families import Logits
from sizes import POSITIONS, VOCABULARY

_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_experts_per_tok": 2, "max_position_embeddings": POSITIONS, "use_cache": False, "pad_token_id": None, "eos_token_id": None,
    "experts_implementation": "batched_mm",  # the other forms loop over experts found at run time, or have no export
}  # fmt: skip


def olmoe() -> nn.Module:
    """OLMoE: norms over all heads of queries and of keys, which are clipped; the weights of a token's experts sum to less
    than 1; untied."""
    config = transformers.OlmoeConfig(num_experts=4, intermediate_size=16, clip_qkv=1.5, **_SIZES)
    return Logits(transformers.OlmoeForCausalLM(config), "input_ids", use_cache=False)


def qwen2_moe() -> nn.Module:
    """Qwen2-MoE: an expert that all tokens share, behind a gate; biases on queries, keys and values; the weights of a
    token's experts sum to 1; tied."""
    config = transformers.Qwen2MoeConfig(
        num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=24, norm_topk_prob=True,
        tie_word_embeddings=True, **_SIZES,
    )  # fmt: skip
    return Logits(transformers.Qwen2MoeForCausalLM(config), "input_ids", use_cache=False)


def qwen3_moe() -> nn.Module:
    """Qwen3-MoE: norms of each head of queries and keys; the first layer has no experts; untied."""
    config = transformers.Qwen3MoeConfig(
        num_experts=4, moe_intermediate_size=16, intermediate_size=48, head_dim=8, norm_topk_prob=True, mlp_only_layers=[0],
        **_SIZES,
    )  # fmt: skip
    return Logits(transformers.Qwen3MoeForCausalLM(config), "input_ids", use_cache=False)


def gpt_oss() -> nn.Module:
    """GPT-OSS: biases everywhere, experts' too, whose gates are clamped; a sink in each head's softmax; a layer whose
    queries see the last 8 keys; scaled rotary embeddings (YaRN); tied, which keeps the file small."""
    config = transformers.GptOssConfig(
        num_local_experts=4, intermediate_size=16, head_dim=8, sliding_window=8, swiglu_limit=1.0, tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "truncate": False, "original_max_position_embeddings": 16},
        **_SIZES,
    )  # fmt: skip
    return Logits(transformers.GptOssForCausalLM(config), "input_ids", use_cache=False)
