"""What a layer costs in launches with torch.compile, by the code that Inductor writes for an H100.

    python3 bench/torch_kernels.py        needs torch with Triton, and transformers; a minute, and no GPU

GPT-2 124M and a Llama of 1B in bf16, forward and backward: what a third layer adds to two. Nothing is run. Graphs are
traced on fake tensors, then lowered as if they lay on a GPU, whose properties are stated here. Attention is one call of
PyTorch's flash attention. `bench/gpu_counts.py --layers` counts dtc's launches for the same layers.
"""

from __future__ import annotations

import contextlib
import copy
import re
import types
import unittest.mock

import torch
import transformers
import transformers.masking_utils
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import detect_fake_mode
from torch._inductor import compile_fx
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import post_grad_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

BATCH = 8
H100 = types.SimpleNamespace(name="NVIDIA H100", gcnArchName="", major=9, minor=0, multi_processor_count=132, warp_size=32,
                             regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
                             shared_memory_per_block=48 << 10, shared_memory_per_block_optin=227 << 10, L2_cache_size=50 << 20,
                             total_memory=80 << 30)
CUDA = {"_get_device_properties": lambda *_: H100, "get_device_properties": lambda *_: H100, "get_device_capability": lambda *_: (9, 0),
        "current_device": lambda: 0, "device_count": lambda: 1, "_lazy_init": lambda: None, "is_available": lambda: True}


@contextlib.contextmanager
def gpu_as_stated():
    with contextlib.ExitStack() as stack:
        for name, function in CUDA.items():
            stack.enter_context(unittest.mock.patch(f"torch.cuda.{name}", function, create=True))
        active = types.SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32), get_current_device=lambda: 0)
        stack.enter_context(unittest.mock.patch.object(driver, "_default", active))
        stack.enter_context(unittest.mock.patch.object(driver, "_active", active))
        yield


def inductor_code(module: torch.fx.GraphModule, inputs: list) -> str:
    """Of a traced graph, moved to a GPU that isn't there."""
    fake, module = detect_fake_mode(inputs), copy.deepcopy(module)
    for node in module.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": torch.device("cuda", 0)}
    with gpu_as_stated(), torch.no_grad():
        with fake:
            moved = [torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda:0")
                     if isinstance(value, torch.Tensor) else value for value in inputs]
        with V.set_fake_mode(fake):
            FakeTensorProp(module, mode=fake).propagate_dont_convert_inputs(*moved)
            compile_fx.view_to_reshape(module)
            post_grad_passes(module, is_inference=False)
            graph = GraphLowering(module, example_inputs=moved, shape_env=fake.shape_env, is_inference=False)
            with V.set_graph_handler(graph), V.set_debug_handler(DebugContext()):
                graph.run(*moved)
                return graph.codegen()[0].value


def flash_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, True, False, scale=scale)[0]


def gpt2(layers: int):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                                                use_cache=False, attn_implementation="sdpa")), 1024


def llama(layers: int):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=8192, num_hidden_layers=layers, num_attention_heads=16,
        num_key_value_heads=8, max_position_embeddings=2048, use_cache=False, attn_implementation="sdpa")), 2048


def counts(make, layers: int) -> tuple[int, int, int]:
    """Elementwise and reducing kernels, products and attentions of a step's forward and backward pass."""
    with torch.device("meta"):
        model, sequence = make(layers)
    model = model.bfloat16()
    codes: list[str] = []

    def compiler(module, inputs):
        codes.append(inductor_code(module, inputs))
        return module

    with FakeTensorMode(allow_non_fake_inputs=True):
        parameters = {name: torch.nn.Parameter(torch.empty(p.shape, dtype=p.dtype)) for name, p in model.named_parameters()}
        buffers = {name: torch.empty(b.shape, dtype=b.dtype) for name, b in model.named_buffers()}
        names = [*parameters, *buffers]

        def loss(tokens, labels, *values):
            logits = torch.func.functional_call(model, dict(zip(names, values)), (), {"input_ids": tokens, "use_cache": False}).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

        tokens, labels = (torch.empty(BATCH, sequence, dtype=torch.int64) for _ in range(2))
        step = aot_function(loss, fw_compiler=compiler, bw_compiler=compiler, partition_fn=min_cut_rematerialization_partition,
                            decompositions=select_decomp_table())
        step(tokens, labels, *parameters.values(), *buffers.values()).backward()
    calls = "\n".join(line for code in codes for line in code[code.index("def call("):].split("\n") if not line.lstrip().startswith("#"))
    # What Triton leaves of a sum for the caller, and its rounding, are two of PyTorch's own kernels.
    launch = r"\btriton_\w+\.run\(|\.sum\(dim=0\)|(?<=\))\.to\(torch\.\w+\)"
    return tuple(len(re.findall(pattern, calls)) for pattern in
                 (launch, r"\bextern_kernels\.\w*mm\w*\(", r"= torch\.ops\.aten\._scaled_dot_product_flash\w+\.default\("))


def main() -> None:
    torch.nn.functional.scaled_dot_product_attention = flash_attention
    transformers.masking_utils.find_packed_sequence_indices = lambda *_: None  # asks for values
    print("| model | launches a layer | products a layer | attentions a layer |\n|---|---|---|---|")
    for name, make in (("GPT-2 124M", gpt2), ("Llama 1B", llama)):
        two, three = counts(make, 2), counts(make, 3)
        print(f"| {name}, bf16 | {' | '.join(str(more - fewer) for fewer, more in zip(two, three))} |")


if __name__ == "__main__":
    main()
