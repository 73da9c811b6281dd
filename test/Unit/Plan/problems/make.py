"""Writes the forward graph of a GPT-2, a Llama, one of two mixtures of experts or a ResNet of any size, as the importer gives it, for tests.

    make.py gpt --layers 2 --width 1024 --heads 16 --sequence 512 --batch 8 --vocabulary 32768 > gpt.mlir
    dtc-opt --dtc-train gpt.mlir | dtc-opt --dtc-print-problem -o /dev/null > gpt.json
"""

import argparse


class Function:
    """Collects arguments and ops; values are (name, type)."""

    def __init__(self, element):
        self.element, self.arguments, self.ops, self.parameters = element, [], [], []

    def type(self, shape, element=None):
        return "tensor<" + "".join(f"{size}x" for size in shape) + (element or self.element) + ">"

    def argument(self, role, name, shape, element=None):
        value = (f"%arg{len(self.arguments)}", self.type(shape, element), shape)
        self.arguments.append(f'{value[0]}: {value[1]} {{dtc.role = #dtc.role<{role}, "{name}">}}')
        if role == "parameter":
            self.parameters.append(f'dtc.parameter trainable @"{name}" : {value[1]} file {value[1]}')
        return value

    def op(self, text, shape, extra=()):
        name = f"%v{len(self.ops)}"
        types = [self.type(shape)] + [self.type(s, "f32") for s in extra]
        self.ops.append(f"{name}:{len(types)} = {text.replace('RESULT', ', '.join(types))}")
        return (name + "#0", types[0], shape)

    def contract(self, a, ai, b, bi, oi, shape):
        return self.op(f"dtc.contract {a[0]} {ai}, {b[0]} {bi} -> {oi} : {a[1]}, {b[1]} -> RESULT", shape)

    def binary(self, op, a, b):
        return self.op(f"{op} {a[0]}, {b[0]} : {a[1]}", a[2])

    def unary(self, op, a):
        return self.op(f"{op} {a[0]} : {a[1]}", a[2])

    def broadcast(self, a, dims, shape):
        return self.op(f"dtc.broadcast {a[0]} {dims} : {a[1]} -> RESULT", shape)

    def slice(self, a, offsets, shape):
        strides = [1] * len(shape)
        return self.op(f"dtc.slice {a[0]} offsets {offsets} strides {strides} : {a[1]} -> RESULT", shape)

    def reshape(self, a, shape):
        return self.op(f"dtc.reshape {a[0]} : {a[1]} -> RESULT", shape)

    def concat(self, a, b, dim, shape):
        return self.op(f"dtc.concat {dim}({a[0]}, {b[0]}) : {a[1]}, {b[1]} -> RESULT", shape)

    def bias(self, a, bias, dims):
        return self.binary("arith.addf", a, self.broadcast(bias, dims, a[2]))

    def gather(self, table, ids):
        shape = ids[2] + table[2][1:]
        return self.op(f"dtc.gather {table[0]}, {ids[0]} axis 0 : {table[1]}, {ids[1]} -> RESULT", shape)

    def attention(self, q, k, v):
        b, s, h, _ = q[2]
        return self.op(f"dtc.attention {q[0]}, {k[0]}, {v[0]} scale 1.25e-01 causal : "
                       f"{q[1]}, {k[1]}, {v[1]} -> RESULT", q[2], [[b, h, s]])

    def rms_norm(self, x, name):
        scale = self.argument("parameter", name + ".weight", x[2][-1:])
        return self.op(f"dtc.rms_norm {x[0]} scale {scale[0]} : {scale[1]} eps 1.0e-05 : {x[1]} -> RESULT",
                       x[2], [x[2][:-1]])

    def routed(self, x, prefix, experts):
        """The norm of x, and its scores for each expert."""
        b, s, w = x[2]
        y = self.rms_norm(x, prefix + "norm_2")
        gate = self.contract(y, [0, 1, 3], self.argument("parameter", prefix + "gate", [experts, w]), [2, 3],
                             [0, 1, 2], [b, s, experts])
        return y, gate

    def attention_block(self, x, prefix, heads):
        """x plus the attention of its norm, with as many heads of keys and values as of queries."""
        b, s, w = x[2]
        h, e = heads, w // heads
        y = self.rms_norm(x, prefix + "norm_1")
        q, k, v = (self.contract(y, [0, 1, 4], self.argument("parameter", prefix + name, [h, e, w]), [2, 3, 4],
                                 [0, 1, 2, 3], [b, s, h, e]) for name in ("q", "k", "v"))
        y = self.contract(self.attention(q, k, v), [0, 1, 3, 4], self.argument("parameter", prefix + "o", [h, e, w]),
                          [3, 4, 2], [0, 1, 2], [b, s, w])
        return self.binary("arith.addf", y, x)

    def text(self, result):
        parameters = "\n  ".join(self.parameters)
        body = "\n    ".join(self.ops)
        return (f"module {{\n  {parameters}\n  func.func @forward({', '.join(self.arguments)}) -> "
                f'({result[1]} {{dtc.role = #dtc.role<output, "logits">}}) {{\n    {body}\n'
                f"    return {result[0]} : {result[1]}\n  }}\n}}")


def gpt(o):
    f = Function(o.type)
    b, s, w, h, e = o.batch, o.sequence, o.width, o.heads, o.width // o.heads
    table = f.argument("parameter", "wte.weight", [o.vocabulary, w])
    positions = f.argument("parameter", "wpe.weight", [s, w])
    ids = f.argument("input", "input_ids", [b, s], "i64")

    def norm(x, name):
        scale = f.argument("parameter", name + ".weight", [w])
        bias = f.argument("parameter", name + ".bias", [w])
        return f.op(f"dtc.layer_norm {x[0]} scale {scale[0]} : {scale[1]} bias {bias[0]} : {bias[1]} "
                    f"eps 1.0e-05 : {x[1]} -> RESULT", x[2], [[b, s], [b, s]])

    x = f.gather(table, ids)
    x = f.bias(norm(x, "ln_e") if o.embedding_norm else x, positions, [1, 2])

    for layer in range(o.layers):
        p = f"h.{layer}."
        y = norm(x, p + "ln_1")
        weight = f.argument("parameter", p + "attn.c_attn.weight", [w, 3, h, e])
        qkv = f.contract(y, [0, 1, 5], weight, [5, 2, 3, 4], [0, 1, 2, 3, 4], [b, s, 3, h, e])
        qkv = f.bias(qkv, f.argument("parameter", p + "attn.c_attn.bias", [3, h, e]), [2, 3, 4])
        q, k, v = (f.reshape(f.slice(qkv, [0, 0, i, 0, 0], [b, s, 1, h, e]), [b, s, h, e]) for i in range(3))
        weight = f.argument("parameter", p + "attn.c_proj.weight", [h, e, w])
        y = f.contract(f.attention(q, k, v), [0, 1, 3, 4], weight, [3, 4, 2], [0, 1, 2], [b, s, w])
        y = f.bias(y, f.argument("parameter", p + "attn.c_proj.bias", [w]), [2])
        x = f.binary("arith.addf", y, x)
        y = norm(x, p + "ln_2")
        weight = f.argument("parameter", p + "mlp.c_fc.weight", [w, 4 * w])
        y = f.contract(y, [0, 1, 3], weight, [3, 2], [0, 1, 2], [b, s, 4 * w])
        y = f.unary("dtc.activation gelu_tanh", f.bias(y, f.argument("parameter", p + "mlp.c_fc.bias", [4 * w]), [2]))
        weight = f.argument("parameter", p + "mlp.c_proj.weight", [4 * w, w])
        y = f.contract(y, [0, 1, 3], weight, [3, 2], [0, 1, 2], [b, s, w])
        y = f.bias(y, f.argument("parameter", p + "mlp.c_proj.bias", [w]), [2])
        x = f.binary("arith.addf", x, y)
    x = norm(x, "ln_f")
    return f.text(f.contract(x, [0, 1, 3], table, [2, 3], [0, 1, 2], [b, s, o.vocabulary]))


def llama(o):
    f = Function(o.type)
    b, s, w, h, g, e = o.batch, o.sequence, o.width, o.heads, o.kv_heads, o.width // o.heads
    hidden = o.hidden or 4 * w
    table = f.argument("parameter", "embed_tokens.weight", [o.vocabulary, w])
    ids = f.argument("input", "input_ids", [b, s], "i64")
    cos = f.argument("buffer", "cos", [s, e])
    sin = f.argument("buffer", "sin", [s, e])
    x = f.gather(table, ids)

    def rotate(x):
        half = x[2][:3] + [e // 2]
        turned = f.concat(f.unary("arith.negf", f.slice(x, [0, 0, 0, e // 2], half)),
                          f.slice(x, [0, 0, 0, 0], half), 3, x[2])
        return f.binary("arith.addf", f.binary("arith.mulf", x, f.broadcast(cos, [1, 3], x[2])),
                        f.binary("arith.mulf", turned, f.broadcast(sin, [1, 3], x[2])))

    def project(x, name, heads):
        weight = f.argument("parameter", name, [heads, e, w])
        return f.contract(x, [0, 1, 4], weight, [2, 3, 4], [0, 1, 2, 3], [b, s, heads, e])

    def linear(x, name, size):
        weight = f.argument("parameter", name, [size, x[2][2]])
        return f.contract(x, [0, 1, 3], weight, [2, 3], [0, 1, 2], [b, s, size])

    for layer in range(o.layers):
        p = f"layers.{layer}."
        y = f.rms_norm(x, p + "input_layernorm")
        q = rotate(project(y, p + "self_attn.q_proj.weight", h))
        k = rotate(project(y, p + "self_attn.k_proj.weight", g))
        v = project(y, p + "self_attn.v_proj.weight", g)
        weight = f.argument("parameter", p + "self_attn.o_proj.weight", [w, h, e])
        y = f.contract(f.attention(q, k, v), [0, 1, 3, 4], weight, [2, 3, 4], [0, 1, 2], [b, s, w])
        x = f.binary("arith.addf", x, y)
        y = f.rms_norm(x, p + "post_attention_layernorm")
        gate = f.unary("dtc.activation silu", linear(y, p + "mlp.gate_proj.weight", hidden))
        y = f.binary("arith.mulf", gate, linear(y, p + "mlp.up_proj.weight", hidden))
        x = f.binary("arith.addf", x, linear(y, p + "mlp.down_proj.weight", w))
    return f.text(linear(f.rms_norm(x, "norm"), "lm_head.weight", o.vocabulary))


def moe(o):
    """GPT-2 with GShard's layers, but a gate that sends every token to every expert with room for its share of them."""
    f = Function(o.type)
    b, s, w = o.batch, o.sequence, o.width
    experts, hidden = o.experts, o.hidden or 4 * w
    capacity = 2 * s // experts
    table = f.argument("parameter", "wte.weight", [o.vocabulary, w])
    ids = f.argument("input", "input_ids", [b, s], "i64")
    x = f.gather(table, ids)

    for layer in range(o.layers):
        p = f"h.{layer}."
        x = f.attention_block(x, p, o.heads)
        y, gate = f.routed(x, p, experts)
        gate = f.op(f"dtc.softmax {gate[0]} 2 : {gate[1]}", gate[2])
        combine = f.broadcast(gate, [0, 1, 2], [b, s, experts, capacity])
        sent = f.contract(combine, [1, 4, 0, 2], y, [1, 4, 3], [0, 1, 2, 3], [experts, b, capacity, w])
        up = f.contract(sent, [0, 1, 2, 4], f.argument("parameter", p + "wi", [experts, w, hidden]), [0, 4, 3],
                        [0, 1, 2, 3], [experts, b, capacity, hidden])
        up = f.unary("dtc.activation gelu_tanh", up)
        down = f.contract(up, [0, 1, 2, 4], f.argument("parameter", p + "wo", [experts, hidden, w]), [0, 4, 3],
                          [0, 1, 2, 3], [experts, b, capacity, w])
        y = f.contract(combine, [0, 1, 3, 4], down, [3, 0, 4, 2], [0, 1, 2], [b, s, w])
        x = f.binary("arith.addf", x, y)
    x = f.rms_norm(x, "norm")
    return f.text(f.contract(x, [0, 1, 3], table, [2, 3], [0, 1, 2], [b, s, o.vocabulary]))


def mixtral(o):
    """Llama's attention, and SwiGLU experts of which each token chooses two."""
    f = Function(o.type)
    b, s, w = o.batch, o.sequence, o.width
    experts, hidden, rows = o.experts, o.hidden or 4 * w, 2 * s
    ids = f.argument("input", "input_ids", [b, s], "i64")
    x = f.gather(f.argument("parameter", "wte.weight", [o.vocabulary, w]), ids)

    def exchange(kind, x, choices):
        return f.op(f"dtc.{kind} {x[0]}, {choices[0]} experts {experts} : {x[1]}, {choices[1]}", x[2])

    def integers(text, shape):
        name, _, _ = f.op(text, shape)
        return (name, f.type(shape, "i64"), shape)

    def product(x, weights, choices, size):
        return f.op(f"dtc.grouped_contract {x[0]} [0, 1, 4], {weights[0]} [2, 3, 4] -> [0, 1, 3] by {choices[0]} [0, 1] "
                    f"of 2 : {x[1]}, {weights[1]}, {choices[1]} -> RESULT", [b, rows, size])

    for layer in range(o.layers):
        p = f"layers.{layer}."
        x = f.attention_block(x, p, o.heads)
        y, gate = f.routed(x, p, experts)
        type_ = f.type([b, s, 2], "i64")
        best = integers(f"dtc.top_k {gate[0]} : {gate[1]} -> {type_}", [b, s, 2])
        each = f.broadcast(gate, [0, 1, 3], [b, s, 2, experts])
        weights = f.op(f"dtc.pick {each[0]}, {best[0]} : {each[1]}, {best[1]} -> RESULT", [b, s, 2])
        weights = f.op(f"dtc.softmax {weights[0]} 2 : RESULT", [b, s, 2])
        choices = integers(f"dtc.reshape {best[0]} : {best[1]} -> {f.type([b, rows], 'i64')}", [b, rows])
        sent = exchange("dispatch", f.reshape(f.broadcast(y, [0, 1, 3], [b, s, 2, w]), [b, rows, w]), choices)
        there = integers(f"dtc.dispatch {choices[0]}, {choices[0]} experts {experts} : {choices[1]}, {choices[1]}",
                         [b, rows])
        up = product(sent, f.argument("parameter", p + "up", [experts, hidden, w]), there, hidden)
        up_gate = product(sent, f.argument("parameter", p + "up_gate", [experts, hidden, w]), there, hidden)
        both = f.binary("arith.mulf", f.unary("dtc.activation silu", up_gate), up)
        down = product(both, f.argument("parameter", p + "down", [experts, w, hidden]), there, w)
        y = f.reshape(exchange("combine", down, choices), [b, s, 2, w])
        y = f.binary("arith.mulf", y, f.broadcast(weights, [0, 1, 2], [b, s, 2, w]))
        x = f.binary("arith.addf", x, f.op(f"dtc.reduce sum {y[0]} [2] : {y[1]} -> RESULT", [b, s, w]))
    head = f.argument("parameter", "lm_head.weight", [o.vocabulary, w])
    return f.text(f.contract(f.rms_norm(x, "norm"), [0, 1, 3], head, [2, 3], [0, 1, 2], [b, s, o.vocabulary]))


def resnet(o):
    """Of basic blocks, with as many layers of them as in ResNet-18, and frozen batch norms."""
    f = Function(o.type)
    b = o.batch

    def constant(value, shape):
        return f.op(f"arith.constant dense<{value}> : {f.type(shape)}", shape)

    def conv(x, name, channels, kernel, stride):
        weight = f.argument("parameter", name + ".weight", [channels, x[2][1], kernel, kernel])
        size = x[2][2] // stride
        pads = [kernel // 2] * 2
        return f.op(f"dtc.conv {x[0]}, {weight[0]} strides [{stride}, {stride}] pad {pads}, {pads} dilations [1, 1] groups 1 : "
                    f"{x[1]}, {weight[1]} -> RESULT", [b, channels, size, size])

    def norm(x, name):
        each = [x[2][1]]
        scale, bias = (f.argument("parameter", f"{name}.{part}", each) for part in ("weight", "bias"))
        mean, variance = (f.argument("buffer", f"{name}.running_{part}", each) for part in ("mean", "var"))
        deviation = f.unary("math.sqrt", f.binary("arith.addf", variance, constant("1.0e-05", each)))
        scale = f.binary("arith.divf", scale, deviation)
        x = f.binary("arith.subf", x, f.broadcast(mean, [1], x[2]))
        return f.bias(f.binary("arith.mulf", x, f.broadcast(scale, [1], x[2])), bias, [1])

    def relu(x):
        return f.unary("dtc.activation relu", x)

    x = relu(norm(conv(f.argument("input", "pixels", [b, 3, o.image, o.image]), "conv1", o.width, 7, 2), "bn1"))
    size = x[2][2] // 2
    x = f.op(f"dtc.max_pool {x[0]} kernel [3, 3] strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] : {x[1]} -> RESULT",
             [b, o.width, size, size])
    for stage in range(4):
        for layer in range(o.layers):
            p, channels = f"layer{stage + 1}.{layer}.", o.width << stage
            stride = 2 if stage and not layer else 1
            y = relu(norm(conv(x, p + "conv1", channels, 3, stride), p + "bn1"))
            y = norm(conv(y, p + "conv2", channels, 3, 1), p + "bn2")
            if stride > 1:
                x = norm(conv(x, p + "downsample.0", channels, 1, stride), p + "downsample.1")
            x = relu(f.binary("arith.addf", y, x))
    channels, size = x[2][1:3]
    x = f.op(f"dtc.reduce sum {x[0]} [2, 3] : {x[1]} -> RESULT", [b, channels])
    x = f.binary("arith.divf", x, constant(float(size * size), [b, channels]))
    head = f.argument("parameter", "fc.weight", [o.vocabulary, channels])
    x = f.contract(x, [0, 2], head, [1, 2], [0, 1], [b, o.vocabulary])
    return f.text(f.bias(x, f.argument("parameter", "fc.bias", [o.vocabulary]), [1]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["gpt", "llama", "moe", "mixtral", "resnet"])
    for name, default in [("layers", 1), ("width", 1024), ("heads", 16), ("kv-heads", 16), ("hidden", 0),
                          ("experts", 16), ("sequence", 512), ("batch", 8), ("vocabulary", 32768), ("image", 224)]:
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--type", default="f32")
    parser.add_argument("--embedding-norm", action="store_true", help="a GPT's, behind its tokens' embedding")
    options = parser.parse_args()
    print({"gpt": gpt, "llama": llama, "moe": moe, "mixtral": mixtral, "resnet": resnet}[options.model](options))


if __name__ == "__main__":
    main()
