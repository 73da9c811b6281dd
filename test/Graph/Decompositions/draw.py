"""Writes the .mlir files beside it: layer and optimizer ops on fixed numbers, with PyTorch's results as constants.

A function a case returns whether the op agrees with PyTorch; the reference interpreter evaluates @main, which calls
them all. In f64 they agree to rounding; in bf16 bit for bit, since both round once, at the end.

    python draw.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F

F64_TOLERANCE = 1e-11
NAMES = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.int64: "i64"}


def type_of(tensor: torch.Tensor) -> str:
    return "tensor<" + "".join(f"{size}x" for size in tensor.shape) + NAMES[tensor.dtype] + ">"


def literal(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(literal(entry) for entry in value) + "]"
    if isinstance(value, int):
        return str(value)
    if value == float("-inf"):
        return "0xFFF0000000000000"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


@dataclass
class Case:
    """One function: operands as constants, an op, its results compared with `expected`."""

    name: str
    operands: dict[str, torch.Tensor]
    op: Sequence[str]  # lines that define %r0, %r1, ...
    expected: Sequence[torch.Tensor]
    lines: list[str] = field(default_factory=list)

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def constant(self, name: str, tensor: torch.Tensor) -> None:
        self.emit(f"%{name} = arith.constant dense<{literal(tensor.tolist())}> : {type_of(tensor)}")

    def compare(self, index: int, expected: torch.Tensor) -> None:
        shape, name = type_of(expected), f"e{index}"
        self.constant(name, expected)
        mask = shape.replace(NAMES[expected.dtype], "i1")
        exact = expected.dtype == torch.bfloat16
        if exact:
            self.emit(f"%c{index} = arith.cmpf oeq, %r{index}, %{name} : {shape}")
        else:
            self.emit(f"%d{index} = arith.subf %r{index}, %{name} : {shape}")
            self.emit(f"%a{index} = math.absf %d{index} : {shape}")
            self.emit(f"%t{index} = arith.constant dense<{F64_TOLERANCE:.1e}> : {shape}")
            self.emit(f"%c{index} = arith.cmpf olt, %a{index}, %t{index} : {shape}")
        dims = ", ".join(str(dim) for dim in range(expected.ndim))
        number = mask.replace("i1", "f32")
        self.emit(f"%f{index} = arith.uitofp %c{index} : {mask} to {number}")
        self.emit(f"%ok{index} = dtc.reduce min %f{index} [{dims}] : {number} -> tensor<f32>")

    def function(self) -> str:
        for name, tensor in self.operands.items():
            self.constant(name, tensor)
        for line in self.op:
            self.emit(line)
        for index, expected in enumerate(self.expected):
            self.compare(index, expected)
        result = "%ok0"
        for index in range(1, len(self.expected)):
            self.emit(f"%both{index} = arith.minimumf {result}, %ok{index} : tensor<f32>")
            result = f"%both{index}"
        self.emit(f"return {result} : tensor<f32>")
        return f"func.func @{self.name}() -> tensor<f32> {{\n" + "\n".join(self.lines) + "\n}\n"


def write(file: str, cases: Sequence[Case]) -> None:
    calls = "\n".join(f"  %{case.name} = func.call @{case.name}() : () -> tensor<f32>" for case in cases)
    results = ", ".join(f"%{case.name}" for case in cases)
    types = ", ".join("tensor<f32>" for _ in cases)
    head = (
        "// RUN: dtc-opt --dtc-interpret %s | FileCheck %s\n"
        "// Made by draw.py: 1 where the op agrees with PyTorch.\n\n"
        + "\n".join(f"// CHECK: result {index}: tensor<f32> 1{{{{$}}}}" for index in range(len(cases)))
        + f"\nfunc.func @main() -> ({types}) {{\n{calls}\n  return {results} : {types}\n}}\n\n"
    )
    Path(__file__).with_name(file).write_text(head + "\n".join(case.function() for case in cases))


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": F.sigmoid,
    "softplus": lambda x: F.softplus(x, threshold=100),
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
    "relu6": F.relu6,
}


def activations() -> list[Case]:
    cases = []
    for dtype in (torch.float64, torch.bfloat16):
        for kind, function in ACTIVATIONS.items():
            if dtype == torch.bfloat16 and kind in ("gelu", "gelu_tanh", "hard_swish", "hard_sigmoid", "softplus"):
                continue  # PyTorch's vectorized forms differ in the last place here and there
            x = torch.linspace(-40, 40, 33, dtype=torch.float64).to(dtype) / 4
            op = f"%r0 = dtc.activation {kind} %x : {type_of(x)}"
            cases.append(Case(f"{kind}_{NAMES[dtype]}", {"x": x}, [op], [function(x)]))
    return cases


def softmaxes() -> list[Case]:
    cases = []
    for dim in (0, 1, 2):
        x = draw(2, 3, 4) * 5
        x[1, 2, 1] = float("-inf")
        op = f"%r0 = dtc.softmax %x {dim} : {type_of(x)}"
        cases.append(Case(f"softmax_{dim}", {"x": x}, [op], [F.softmax(x, dim)]))
    x = torch.full((2, 3), float("-inf"), dtype=torch.float64)
    op = f"%r0 = dtc.softmax %x 1 : {type_of(x)}"
    cases.append(Case("softmax_of_nothing", {"x": x}, [op], [torch.zeros_like(x)]))
    return cases


def normalizations() -> list[Case]:
    x, scale, bias = draw(2, 3, 6) + 3, draw(6), draw(6)
    wide = "tensor<2x3xf64>, tensor<2x3xf64>"
    mean, variance = x.mean(-1), x.var(-1, unbiased=False)
    layer = (
        f"%r0, %r1, %r2 = dtc.layer_norm %x scale %s : {type_of(scale)} bias %b : {type_of(bias)} eps 1.0e-3 "
        f": {type_of(x)} -> {type_of(x)}, {wide}"
    )
    root = (
        f"%r0, %rstd = dtc.rms_norm %x scale %s : {type_of(scale)} eps 1.0e-3 "
        f": {type_of(x)} -> {type_of(x)}, tensor<2x3xf64>"
    )
    expected = [F.layer_norm(x, (6,), scale, bias, 1e-3), mean, (variance + 1e-3).rsqrt()]
    plain = f"%r0, %r1, %r2 = dtc.layer_norm %x eps 1.0e-3 : {type_of(x)} -> {type_of(x)}, {wide}"
    return [
        Case("layer_norm", {"x": x, "s": scale, "b": bias}, [layer], expected),
        Case("layer_norm_plain", {"x": x}, [plain], [F.layer_norm(x, (6,), None, None, 1e-3)]),
        Case("rms_norm", {"x": x, "s": scale}, [root], [F.rms_norm(x, (6,), scale, 1e-3)]),
    ]


def attention(name: str, heads: tuple[int, int], keys: int, *, causal: bool = False, bias: bool = False) -> Case:
    queries, (query_heads, key_heads) = 3, heads
    q, k, v = draw(2, queries, query_heads, 4), draw(2, keys, key_heads, 4), draw(2, keys, key_heads, 5)
    operands = {"q": q, "k": k, "v": v}
    mask = torch.zeros(queries, keys, dtype=torch.float64)
    if causal:
        mask.masked_fill_(torch.ones(queries, keys).tril(keys - queries) == 0, float("-inf"))
    text = ""
    if bias:
        operands["bias"] = draw(2, query_heads, queries, keys)
        mask = mask + operands["bias"]
        text = f" bias %bias : {type_of(operands['bias'])}"
    transposed = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    y = F.scaled_dot_product_attention(*transposed, mask, scale=0.3, enable_gqa=True).transpose(1, 2)
    repeated = transposed[1].repeat_interleave(query_heads // key_heads, 1)
    lse = (transposed[0] @ repeated.mT * 0.3 + mask).logsumexp(-1)
    op = (
        f"%r0, %r1 = dtc.attention %q, %k, %v{text} scale 0.3{' causal' if causal else ''} "
        f": {type_of(q)}, {type_of(k)}, {type_of(v)} -> {type_of(y)}, {type_of(lse)}"
    )
    return Case(name, operands, [op], [y.contiguous(), lse])


def attentions() -> list[Case]:
    return [
        attention("attention", (2, 2), 3),
        attention("attention_causal", (2, 2), 3, causal=True),
        attention("attention_more_keys", (2, 2), 5, causal=True),
        attention("attention_grouped", (4, 2), 3, causal=True),
        attention("attention_bias", (4, 1), 3, bias=True),
        attention("attention_causal_bias", (4, 2), 4, causal=True, bias=True),
    ]


def cross_entropies() -> list[Case]:
    logits, target = draw(2, 4, 7) * 30, torch.tensor([[0, 6, -100, 3], [5, -100, -100, 1]])
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(2, 4)
    op = (
        f"%r0, %r1 = dtc.cross_entropy %x, %t ignore -100 : {type_of(logits)}, {type_of(target)} "
        f"-> {type_of(loss)}, {type_of(loss)}"
    )
    return [Case("cross_entropy", {"x": logits, "t": target}, [op], [loss, logits.logsumexp(-1)])]


STEPS, RATE, CLIP = 3, 0.01, 0.5


def trained(optimizer: Callable[[list[torch.Tensor]], torch.optim.Optimizer], p: torch.Tensor, gs: list[torch.Tensor]):
    p = p.clone().requires_grad_()
    steps = optimizer([p])
    for g in gs:
        p.grad = g * CLIP
        steps.step()
    return p.detach(), steps.state[p]


def scalars() -> list[str]:
    return [
        f"%lr = arith.constant dense<{RATE!r}> : tensor<f64>",
        f"%clip = arith.constant dense<{CLIP!r}> : tensor<f64>",
    ]


def sgd(name: str, momentum: float, nesterov: bool, decay: float) -> Case:
    p, gs = draw(5), [draw(5) for _ in range(STEPS)]
    expected, state = trained(
        lambda ps: torch.optim.SGD(ps, RATE, momentum, weight_decay=decay, nesterov=nesterov), p, gs
    )
    operands = {"p0": p, "m0": torch.zeros_like(p)} | {f"g{i}": g for i, g in enumerate(gs)}
    attributes = f"{{momentum = {momentum!r} : f64, weightDecay = {decay!r} : f64{', nesterov' if nesterov else ''}}}"
    t, ops = type_of(p), scalars()
    for i in range(STEPS):
        new = f"%p{i + 1}" if i + 1 < STEPS else "%r0"
        if momentum:
            buffer = f"%m{i + 1}" if i + 1 < STEPS else "%r1"
            ops.append(
                f"{new}, {buffer} = dtc.sgd_update %p{i}, %g{i}, %m{i}, %lr, %clip {attributes} "
                f": ({t}, {t}, {t}, tensor<f64>, tensor<f64>) -> ({t}, {t})"
            )
        else:
            ops.append(
                f"{new} = dtc.sgd_update %p{i}, %g{i}, %lr, %clip {attributes} "
                f": ({t}, {t}, tensor<f64>, tensor<f64>) -> {t}"
            )
    return Case(name, operands, ops, [expected, state["momentum_buffer"]] if momentum else [expected])


def adam(name: str, decoupled: bool, decay: float) -> Case:
    p, gs = draw(5), [draw(5) for _ in range(STEPS)]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    expected, state = trained(lambda ps: kind(ps, RATE, (0.8, 0.95), 1e-6, decay), p, gs)
    zero = torch.zeros_like(p)
    operands = {"p0": p, "m0": zero, "v0": zero} | {f"g{i}": g for i, g in enumerate(gs)}
    attributes = (
        f"{{beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = {decay!r} : f64"
        f"{', decoupled' if decoupled else ''}}}"
    )
    t, ops = type_of(p), scalars()
    for i in range(STEPS):
        ops.append(f"%c{i}a = arith.constant dense<{1 - 0.8 ** (i + 1)!r}> : tensor<f64>")
        ops.append(f"%c{i}b = arith.constant dense<{1 - 0.95 ** (i + 1)!r}> : tensor<f64>")
        new = f"%p{i + 1}, %m{i + 1}, %v{i + 1}" if i + 1 < STEPS else "%r0, %r1, %r2"
        s = "tensor<f64>"
        ops.append(
            f"{new} = dtc.adam_update %p{i}, %g{i}, %m{i}, %v{i}, %lr, %clip, %c{i}a, %c{i}b {attributes} "
            f": ({t}, {t}, {t}, {t}, {s}, {s}, {s}, {s}) -> ({t}, {t}, {t})"
        )
    return Case(name, operands, ops, [expected, state["exp_avg"], state["exp_avg_sq"]])


def optimizers() -> list[Case]:
    return [
        sgd("sgd", 0.0, False, 0.1),
        sgd("sgd_momentum", 0.9, False, 0.1),
        sgd("sgd_nesterov", 0.9, True, 0.0),
        adam("adam", False, 0.1),
        adam("adamw", True, 0.1),
        adam("adamw_without_decay", True, 0.0),
    ]


def main() -> None:
    torch.manual_seed(0)
    write("activation.mlir", activations())
    write("softmax.mlir", softmaxes())
    write("normalization.mlir", normalizations())
    write("attention.mlir", attentions())
    write("cross_entropy.mlir", cross_entropies())
    write("optimizer.mlir", optimizers())


if __name__ == "__main__":
    main()
