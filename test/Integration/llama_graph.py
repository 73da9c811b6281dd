"""ONNX graphs of Llama models of any size, without weights, in the operators of opset 24.

`write(path, LLAMA_7B)` takes milliseconds: parameters are graph inputs of a shape, marked as PyTorch's exporter marks
them. Rotary positions are left out; they have no parameters and next to no work.
"""

import dataclasses
import pathlib

from conftest import encode_model

FLOAT, INT64 = 1, 7


@dataclasses.dataclass(frozen=True)
class Llama:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    sequence: int
    window: int = 0  # keys that a query sees; 0: all up to its own

    @property
    def parameters(self) -> int:
        kv = self.hidden // self.heads * self.kv_heads
        layer = self.hidden * (2 * self.hidden + 2 * kv + 3 * self.ffn + 2)
        return self.layers * layer + self.hidden * (2 * self.vocabulary + 1)


LLAMA_7B = Llama(32, 4096, 32, 32, 11008, 32000, 4096)
LLAMA_13B = Llama(40, 5120, 40, 40, 13824, 32000, 4096)
LLAMA_70B = Llama(80, 8192, 64, 8, 28672, 128256, 8192)
LLAMA_405B = Llama(126, 16384, 128, 8, 53248, 128256, 8192)


def value_info(field: str, name: str, shape: list[int], element: int, kind: str = "") -> str:
    dims = " ".join(f"dim {{ dim_value: {size} }}" for size in shape)
    mark = (f'metadata_props {{ key: "pkg.torch.export.graph_signature.InputSpec.kind" value: "{kind}" }}'
            if kind else "")
    return (f'{field} {{ name: "{name}" type {{ tensor_type {{ elem_type: {element} shape {{ {dims} }} }} }} '
            f'{mark} }}')


class Graph:
    """Nodes in order; an operator's result is named as its node."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def parameter(self, name: str, *shape: int) -> str:
        self.lines.append(value_info("input", name, list(shape), FLOAT, "PARAMETER"))
        return name

    def node(self, operator: str, name: str, *inputs: str, **attributes: int) -> str:
        parts = [f'input: "{value}"' for value in inputs]
        parts += [f'output: "{name}" name: "{name}" op_type: "{operator}"']
        parts += [f'attribute {{ name: "{key}" type: INT i: {value} }}' for key, value in attributes.items()]
        self.lines.append(f"node {{ {' '.join(parts)} }}")
        return name

    def linear(self, name: str, value: str, inputs: int, outputs: int) -> str:
        return self.node("MatMul", name, value, self.parameter(f"{name}.weight", inputs, outputs))

    def norm(self, name: str, value: str, width: int) -> str:
        return self.node("RMSNormalization", name, value, self.parameter(f"{name}.weight", width), axis=-1)


def add_layer(graph: Graph, prefix: str, x: str, size: Llama) -> str:
    kv = size.hidden // size.heads * size.kv_heads
    y = graph.norm(f"{prefix}.input_norm", x, size.hidden)
    q, k, v = (graph.linear(f"{prefix}.{name}_proj", y, size.hidden, width)
               for name, width in (("q", size.hidden), ("k", kv), ("v", kv)))
    window = {"left_window_size": size.window - 1} if size.window else {}
    y = graph.node("Attention", f"{prefix}.attention", q, k, v, q_num_heads=size.heads, kv_num_heads=size.kv_heads,
                   is_causal=1, **window)
    x = graph.node("Add", f"{prefix}.add_1", x, graph.linear(f"{prefix}.o_proj", y, size.hidden, size.hidden))
    y = graph.norm(f"{prefix}.post_norm", x, size.hidden)
    gate = graph.linear(f"{prefix}.gate_proj", y, size.hidden, size.ffn)
    gate = graph.node("Mul", f"{prefix}.silu", gate, graph.node("Sigmoid", f"{prefix}.sigmoid", gate))
    y = graph.node("Mul", f"{prefix}.mul", gate, graph.linear(f"{prefix}.up_proj", y, size.hidden, size.ffn))
    return graph.node("Add", f"{prefix}.add_2", x, graph.linear(f"{prefix}.down_proj", y, size.ffn, size.hidden))


def text(size: Llama, learned_positions: bool = False) -> str:
    """The model in protobuf's text form, a node or a value in each line. With learned positions there is a row of a
    table for each token of the sequence."""
    graph = Graph()
    graph.lines.append(value_info("input", "input_ids", [1, size.sequence], INT64, "USER_INPUT"))
    x = graph.node("Gather", "embed", graph.parameter("embed.weight", size.vocabulary, size.hidden), "input_ids")
    if learned_positions:
        x = graph.node("Add", "placed", x, graph.parameter("positions", size.sequence, size.hidden))
    for layer in range(size.layers):
        x = add_layer(graph, f"layers.{layer}", x, size)
    logits = graph.linear("logits", graph.norm("norm", x, size.hidden), size.hidden, size.vocabulary)
    graph.lines.append(value_info("output", logits, [1, size.sequence, size.vocabulary], FLOAT))
    body = "\n".join(graph.lines)
    return f'ir_version: 10 opset_import {{ version: 24 }} graph {{ name: "llama"\n{body}\n}}'


def write(path: pathlib.Path, size: Llama, learned_positions: bool = False) -> pathlib.Path:
    return encode_model(text(size, learned_positions), path)
