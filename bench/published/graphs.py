"""ONNX graphs without weights of the models that published runs trained.

A model is known by its dimensions alone, which also name its file: `gpt-l96-h12288-a96-f49152-v51200-s2048.onnx`
has 96 layers of width 12288 with 96 heads, a feed-forward width of 49152, a vocabulary of 51200 and sequences of
2048. Parameters are created on PyTorch's meta device and become graph inputs without data, so that a graph of 405
billion parameters takes 1.3 GB of memory, half a minute and 20 MB of disk. Graphs are made once, in build/published/.

Exporting needs torch, transformers and onnx; nothing else here does. Graphs that differ in the vocabulary alone are
exported once.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent.parent / "build" / "published"


class Unsupported(Exception):
    """A model for which no graph can be made; the text says why."""


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """What tells one exported graph from another."""

    architecture: str  # gpt, bloom, llama, nemotron, phi, mixtral, qwen3moe or gptoss
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int  # of a mixture: of one expert
    vocabulary: int
    sequence: int
    head_dim: int = 0  # 0: hidden / heads
    embedding_norm: bool = False  # a LayerNorm after the tokens' embedding, as BLOOM always has
    experts: int = 0
    chosen: int = 0  # experts a token

    def __post_init__(self) -> None:
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.hidden // self.heads)

    @property
    def name(self) -> str:
        kv = f"-k{self.kv_heads}" if self.kv_heads != self.heads else ""
        norm = "-n" if self.embedding_norm and self.architecture != "bloom" else ""
        size = f"-d{self.head_dim}" if self.heads * self.head_dim != self.hidden else ""
        experts = f"-e{self.experts}x{self.chosen}" if self.experts else ""
        return (f"{self.architecture}-l{self.layers}-h{self.hidden}-a{self.heads}{kv}{size}-f{self.ffn}{experts}"
                f"-v{self.vocabulary}-s{self.sequence}{norm}")

    @property
    def path(self) -> pathlib.Path:
        return CACHE / f"{self.name}.onnx"


#: Of mixtures of experts. Grok-1 is a Mixtral but for two more norms a layer, caps of attention scores and logits,
#: scales of embeddings and logits and GELU instead of SiLU.
MIXTURES = {"mixtral": "mixtral", "grok1": "mixtral", "qwen3_moe": "qwen3moe", "gpt_oss": "gptoss"}


def architecture(model: dict) -> str:
    """The transformers architecture that computes what this model does.

    Rotary tables instead of learned positions change less than 0.1 % of the work, so that every decoder of
    LayerNorm, GELU and as many key-value heads as heads is a GPT-2, unless it has ALiBi, which BLOOM adds to the
    scores.
    """
    if model.get("experts"):
        if model["family"] not in MIXTURES:
            raise Unsupported(f"mixture of experts of {model['family']}")
        return MIXTURES[model["family"]]
    if model.get("position") == "alibi":
        if not model.get("embedding_norm") or model["ffn_hidden"] != 4 * model["hidden"]:
            raise Unsupported("ALiBi in another model than BLOOM")
        return "bloom"
    if model["gated_mlp"]:
        return "llama"
    if model["family"] == "phi2":
        return "phi"
    return "gpt" if model["kv_heads"] == model["heads"] and "nemotron" not in model["family"] else "nemotron"


def dimensions(model: dict, vocabulary: int) -> Dimensions:
    """Of a run's model, with that (padded) vocabulary."""
    kind, experts = architecture(model), model.get("experts", 0)
    if not experts and model["heads"] * model["head_dim"] != model["hidden"]:
        raise Unsupported("heads that don't divide the width")
    return Dimensions(kind, model["layers"], model["hidden"], model["heads"], model["kv_heads"],
                      model.get("moe_ffn_hidden", model["ffn_hidden"]), vocabulary, model["seq_len"],
                      model["head_dim"], model.get("embedding_norm", False), experts, model["topk"] if experts else 0)


def gpt_oss(config):
    """GPT-OSS with PyTorch's attention, which leaves out the trained sink that each head's softmax has beside its
    keys: one score in thousands, which fused kernels add for nothing."""
    import transformers
    from transformers.models.gpt_oss import modeling_gpt_oss

    modeling_gpt_oss.GptOssPreTrainedModel._supports_sdpa = True
    return transformers.GptOssForCausalLM(config)


def build(dims: Dimensions):
    """The PyTorch model, on the meta device."""
    import torch
    import transformers

    common = {"vocab_size": dims.vocabulary, "use_cache": False, "attn_implementation": "sdpa"}
    grouped = common | {
        "hidden_size": dims.hidden, "intermediate_size": dims.ffn, "num_hidden_layers": dims.layers,
        "num_attention_heads": dims.heads, "num_key_value_heads": dims.kv_heads,
        "max_position_embeddings": dims.sequence, "tie_word_embeddings": False,
    }

    def gpt():
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_positions=dims.sequence, n_embd=dims.hidden, n_layer=dims.layers, n_head=dims.heads,
            n_inner=dims.ffn, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
            **common))
        if dims.embedding_norm:
            model.transformer.wte = torch.nn.Sequential(model.transformer.wte, torch.nn.LayerNorm(dims.hidden))
        return model

    # Tokens look up their experts' weights: the other forms loop over experts found at run time, or have no export.
    mixture = grouped | {"head_dim": dims.head_dim, "num_experts_per_tok": dims.chosen,
                         "experts_implementation": "batched_mm"}
    makers = {
        "gpt": gpt,
        "bloom": lambda: transformers.BloomForCausalLM(transformers.BloomConfig(
            hidden_size=dims.hidden, n_layer=dims.layers, n_head=dims.heads, hidden_dropout=0.0,
            attention_dropout=0.0, **common | {"attn_implementation": "eager"})),
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**grouped)),
        "nemotron": lambda: transformers.NemotronForCausalLM(transformers.NemotronConfig(**grouped)),
        "phi": lambda: transformers.PhiForCausalLM(transformers.PhiConfig(**grouped)),
        "mixtral": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(
            num_local_experts=dims.experts, **mixture)),
        "qwen3moe": lambda: transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
            num_experts=dims.experts, moe_intermediate_size=dims.ffn, **mixture)),
        "gptoss": lambda: gpt_oss(transformers.GptOssConfig(num_local_experts=dims.experts, **mixture)),
    }
    with torch.device("meta"):
        return makers[dims.architecture]().eval()


def logits(model):
    """The module that is exported and trained: from token ids to the model's logits."""
    import torch

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.m = model

        def forward(self, input_ids):
            return self.m(input_ids=input_ids, use_cache=False).logits

    return Logits()


def with_vocabulary(path: pathlib.Path, old: int, new: int):
    """The graph of a file with another vocabulary, or None where the number might mean something else. An export with
    that vocabulary has the same bytes, and takes a hundred times as long."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for node in graph.node:
        for attribute in node.attribute:
            constants = [attribute.i, *attribute.ints, *onnx_integers(attribute)]
            if old in constants:
                return None
    for value in [*graph.input, *graph.output, *graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == old:
                dim.dim_value = new
    return model


def onnx_integers(attribute) -> list[int]:
    """The elements of a constant of integers, such as a shape."""
    import onnx

    if attribute.type != onnx.AttributeProto.TENSOR or attribute.t.data_type != onnx.TensorProto.INT64:
        return []
    return onnx.numpy_helper.to_array(attribute.t).ravel().tolist()


def derived(dims: Dimensions) -> pathlib.Path | None:
    """Writes the graph if there is one that differs in the vocabulary alone."""
    import onnx

    for path in sorted(CACHE.glob("*.onnx")):
        number = re.search(r"-v(\d+)-", path.name)
        if number and dataclasses.replace(dims, vocabulary=int(number[1])).path == path:
            model = with_vocabulary(path, int(number[1]), dims.vocabulary)
            if model:
                part = dims.path.with_suffix(".part")
                onnx.save(model, part)
                return part.rename(dims.path)
    return None


def export(dims: Dimensions) -> pathlib.Path:
    """Writes the graph unless it exists; a file is complete once it has its name."""
    if dims.path.exists() or derived(dims):
        return dims.path
    import onnx
    import torch

    tokens = torch.zeros(1, dims.sequence, dtype=torch.int64, device="meta")
    program = torch.onnx.export(logits(build(dims)).eval(), (tokens,), input_names=["input_ids"], output_names=["logits"],
                                dynamo=True, optimize=False, verbose=False)
    CACHE.mkdir(parents=True, exist_ok=True)
    part = dims.path.with_suffix(".part")
    program.save(part, include_initializers=False, keep_initializers_as_inputs=True)
    graph = onnx.load(part, load_external_data=False)
    for node in graph.graph.node:  # names of the exporting machine's files, half of the size
        kept = [p for p in node.metadata_props if not p.key.startswith("pkg.torch.onnx.")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(graph, part)
    part.rename(dims.path)
    return dims.path
