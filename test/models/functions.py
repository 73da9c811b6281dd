"""Writes functions.onnx: elementwise functions of x (any number), p (above 0) and u (between -1 and 1), an output for each."""

import pathlib

import onnx
from onnx import TensorProto, helper

OF = {"x": ["Exp", "Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh"],
      "p": ["Log", "Sqrt", "Reciprocal"], "u": ["Asin", "Acos", "Atanh", "Tan"]}


def main() -> None:
    kind = [TensorProto.FLOAT, ["batch", 256]]
    nodes = [helper.make_node(op, [argument], [op.lower()]) for argument, ops in OF.items() for op in ops]
    nodes.append(helper.make_node("Pow", ["p", "u"], ["pow"]))
    inputs = [helper.make_tensor_value_info(name, *kind) for name in OF]
    outputs = [helper.make_tensor_value_info(node.output[0], *kind) for node in nodes]
    graph = helper.make_graph(nodes, "functions", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9, producer_name="functions.py")
    onnx.checker.check_model(model)
    onnx.save(model, pathlib.Path(__file__).with_name("functions.onnx"))


if __name__ == "__main__":
    main()
