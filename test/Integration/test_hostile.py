"""Inputs made to hurt: each ends within ten seconds of the processor and two GiB, with exit code 2 or 3 and one line that names the cause."""

import contextlib
import io
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import time
import zlib

import numpy
import pytest

from conftest import BIN, MODELS, Outcome, check_call, encode_model
from fuzzing import varint, with_manifest

# Programs with sanitizers are slower, and reserve terabytes of addresses (test/Sanitized).
SANITIZED = "DTC_SANITIZED" in os.environ
SECONDS = 60 if SANITIZED else 10  # of the processor: other work on the machine may take as many
WAIT = 100
BYTES = 2 << 30
PLAN = ["plan", "--devices", 2, "--loss", "none"]


def limited(program: str, *arguments: object, memory: int = BYTES, **kwargs) -> Outcome:
    """Runs a program that may use so much address space and ten seconds."""
    def limit():
        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with subprocess.Popen([str(BIN / program), *map(str, arguments)], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit, errors="replace",
                          **kwargs) as process:
        try:
            out, err = process.communicate(timeout=WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"waits for ever: {err[-300:]}")
    if process.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        pytest.fail(f"takes longer than {SECONDS} s: {err[-300:]}")
    return Outcome(process.returncode, out, err)


def refused(outcome: Outcome, *words: str, codes: tuple[int, ...] = (2, 3)) -> None:
    assert outcome.code in codes, (outcome.code, outcome.err[-1000:])
    line = outcome.error_line()
    assert len(outcome.err.splitlines()) == 1 and len(line) < 1000, outcome.err[-2000:]
    for word in words:
        assert word in line, line


def value(name: str, *sizes: int, kind: int = 1) -> str:
    dims = " ".join(f"dim {{ dim_value: {size} }}" for size in sizes)
    return f'{{ name: "{name}" type {{ tensor_type {{ elem_type: {kind} shape {{ {dims} }} }} }} }}'


def ints(name: str, *numbers: int) -> str:
    data = " ".join(f"int64_data: {number}" for number in numbers)
    return f'initializer {{ name: "{name}" data_type: 7 dims: {len(numbers)} {data} }}'


def node(op: str, inputs: str, outputs: str, **attributes) -> str:
    """A node; attributes are integers or lists of them."""
    text = " ".join(f'input: "{name}"' for name in inputs.split())
    text += " " + " ".join(f'output: "{name}"' for name in outputs.split())
    for name, given in attributes.items():
        if isinstance(given, int):
            text += f' attribute {{ name: "{name}" type: INT i: {given} }}'
        elif isinstance(given, float):
            text += f' attribute {{ name: "{name}" type: FLOAT f: {given} }}'
        else:
            text += f' attribute {{ name: "{name}" type: INTS {" ".join(f"ints: {each}" for each in given)} }}'
    return f'node {{ op_type: "{op}" name: "{outputs.split()[0]}" {text} }}'


def model(path: pathlib.Path, *parts: str, outputs: str = "y", rest: str = "") -> pathlib.Path:
    """A file of these nodes, inputs and initializers."""
    results = " ".join(f"output {value(name)}" for name in outputs.split())
    return encode_model(f'ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "g" {" ".join(parts)} {results} }} {rest}',
                        path / "hostile.onnx")


X = "input " + value("x", 4, 8)


def nested_functions(depth: int) -> str:
    """Each calls the next twice; the last is one node."""
    text = 'opset_import { domain: "own" version: 1 } '
    for level in range(depth):
        op, domain = (f"f{level + 1}", 'domain: "own"') if level + 1 < depth else ("Relu", "")
        text += (f'functions {{ name: "f{level}" domain: "own" input: "a" output: "c" '
                 f'node {{ op_type: "{op}" {domain} input: "a" output: "b" }} '
                 f'node {{ op_type: "{op}" {domain} input: "b" output: "c" }} }} ')
    return text


def kind(text: str) -> str:
    """The exporter's mark of a graph input."""
    return text[:-1] + 'metadata_props { key: "pkg.torch.export.graph_signature.InputSpec.kind" value: "PARAMETER" } }'


def doubling_constants(count: int) -> list[str]:
    nodes = [ints("c0", *range(64))]
    nodes += [node("Concat", f"c{i} c{i}", f"c{i + 1}", axis=0) for i in range(count)]
    return nodes


def many_folds(count: int) -> list[str]:
    """Nodes whose results are as large as constants may become, each another one."""
    nodes = [ints("zero", 0), ints("limit", 1 << 16), ints("one", 1), ints("pair", 2),
             'initializer { name: "s0" data_type: 7 int64_data: 0 }', 'initializer { name: "s1" data_type: 7 int64_data: 65536 }',
             'initializer { name: "s2" data_type: 7 int64_data: 1 }', node("Range", "s0 s1 s2", "c0")]
    nodes += [node("Add", f"c{i} c0", f"c{i + 1}") for i in range(count)]
    nodes += [node("Concat", " ".join(f"c{i}" for i in range(count)), "all", axis=0)]
    return nodes + [node("Cast", "all", "f", to=1), node("ReduceSum", "f", "r", keepdims=0), node("Add", "x r", "y")]


def without_an_input(op: str, rest: str) -> str:
    """Inputs that are left out in the middle have an empty name."""
    return f'node {{ op_type: "{op}" name: "y" input: "x" input: "" output: "y" {rest} }}'


MODELS_THAT_HURT = {
    "einsum-without-an-input": lambda: (
        [X, without_an_input("Einsum", 'attribute { name: "equation" type: STRING s: "ij,ij->ij" }')], "lacks its input 1"),
    "mean-of-nothing": lambda: ([X, node("Mean", "", "y")], "lacks its input 0"),
    "loss-without-an-input": lambda: ([X, without_an_input("SoftmaxCrossEntropyLoss", "")], "lacks its input 1"),
    "likelihood-without-an-input": lambda: ([X, without_an_input("NegativeLogLikelihoodLoss", "")], "lacks its input 1"),
    "unpool-without-an-input": lambda: ([X, without_an_input("MaxUnpool", "")], "lacks its input 1"),
    "scan-without-an-input": lambda: (
        [X, without_an_input("Scan", 'attribute { name: "num_scan_inputs" type: INT i: 1 } attribute { name: "body" type: GRAPH '
                             f'g {{ name: "body" input {value("a", 4)} input {value("b", 4)} output {value("a", 4)} }} }}')],
        "lacks its input 1"),
    "weight-of-2^64": lambda: ([X, "input " + kind(value("w", 1 << 32, 1 << 32)), node("ReduceSum", "w", "s", keepdims=0),
                                node("Add", "x s", "y")], "w"),
    "input-of-2^64": lambda: (["input " + value("x", 1 << 32, 1 << 32), node("Relu", "x", "y")], "x"),
    "initializer-of-2^64": lambda: ([X, f'initializer {{ name: "w" data_type: 1 dims: {1 << 32} dims: {1 << 32} raw_data: "" }}',
                                     node("MatMul", "x w", "y")], "w"),
    "split-4e18": lambda: ([X, node("Split", "x", "y", axis=0, num_outputs=4 * 10**18)], "Split"),
    "sequence-of-2^40": lambda: (["input " + value("x", 1 << 40, 2), node("SplitToSequence", "x", "s", axis=0),
                                  ints("first", 0), node("SequenceAt", "s first", "y")], "SplitToSequence"),
    "sequence-by-ones": lambda: (["input " + value("x", 1 << 40, 2), 'initializer { name: "one" data_type: 7 int64_data: 1 }',
                                  node("SplitToSequence", "x one", "s", axis=0), ints("first", 0),
                                  node("SequenceAt", "s first", "y")], "SplitToSequence"),
    "slice-backwards": lambda: (["input " + value("x", 10**9, 1), ints("start", -1), ints("end", -(1 << 62)), ints("axis", 0),
                                 ints("step", -1), node("Slice", "x start end axis step", "y")], "Slice"),
    "average-pool": lambda: (["input " + value("x", 1, 1, 60000, 60000),
                              node("AveragePool", "x", "y", kernel_shape=[30000, 30000])], "AveragePool"),
    "pool-with-a-kernel-of-2^62": lambda: (["input " + value("x", 1, 1, 60000, 60000),
                                            node("MaxPool", "x", "y", kernel_shape=[1 << 62, 1 << 62],
                                                 dilations=[1 << 62, 4])], "MaxPool"),
    "conv-of-2^62-groups": lambda: (["input " + value("x", 1, 4, 8, 8), "input " + value("w", 1, 1, 3, 3),
                                     node("Conv", "x w", "y", group=1 << 62)], "Conv"),
    "range-to-infinity": lambda: ([X, 'initializer { name: "a" data_type: 1 float_data: 0 }',
                                   'initializer { name: "b" data_type: 1 float_data: inf }',
                                   'initializer { name: "c" data_type: 1 float_data: 1 }',
                                   node("Range", "a b c", "r"), node("ReduceSum", "r", "s", keepdims=0),
                                   node("Add", "x s", "y")], "Range"),
    "range-of-nan": lambda: ([X, 'initializer { name: "a" data_type: 1 float_data: nan }',
                              'initializer { name: "b" data_type: 1 float_data: 3 }',
                              'initializer { name: "c" data_type: 1 float_data: 1 }',
                              node("Range", "a b c", "r"), node("ReduceSum", "r", "s", keepdims=0),
                              node("Add", "x s", "y")], "Range"),
    "tile-of-2^62": lambda: ([X, ints("times", 1 << 62, 1 << 62), node("Tile", "x times", "y")], "Tile"),
    "pad-by-2^62": lambda: ([X, ints("pads", 1 << 62, 1 << 62, 1 << 62, 1 << 62), node("Pad", "x pads", "y")], "Pad"),
    "expand-to-minus-2": lambda: ([X, ints("sizes", -2, 4, 8), node("Expand", "x sizes", "y")], "Expand"),
    "one-hot-of-2^62": lambda: (["input " + value("x", 4, kind=7), ints("depth", 1 << 62), ints("values", 0, 1),
                                 node("OneHot", "x depth values", "y")], "OneHot"),
    "scatter-into-2^40-rows": lambda: (["input " + value("x", 1 << 40, 1),
                                        'initializer { name: "at" data_type: 7 dims: 2 dims: 1 int64_data: 0 int64_data: 7 }',
                                        "initializer { name: \"u\" data_type: 1 dims: 2 dims: 1 float_data: 1 float_data: 2 }", node("ScatterND", "x at u", "y")], "ScatterND"),
    "gather-of-2^75": lambda: ([ints("sizes", 1 << 25, 1 << 25), node("ConstantOfShape", "sizes", "a"),
                                node("ConstantOfShape", "sizes", "b"), node("Cast", "b", "i", to=7),
                                node("Gather", "a i", "g"), node("Gather", "g i", "y")], "Gather"),
    "a-thousand-dimensions": lambda: ([X, ints("sizes", *[1] * 4000), node("Expand", "x sizes", "y")], "Expand"),
    "many-large-folds": lambda: ([X, *many_folds(4000)], ""),
    "einsum-of-many": lambda: ([X, node("Einsum", " ".join(["x"] * 30000), "y")[:-1]
                                + f'attribute {{ name: "equation" type: STRING s: "{",".join(["ab"] * 30000)}->ab" }} }}'], "Einsum"),
}


@pytest.mark.parametrize("name", MODELS_THAT_HURT)
def test_models(tmp_path, name):
    parts, word = MODELS_THAT_HURT[name]()
    refused(limited("dtc", *PLAN, model(tmp_path, *parts)), "hostile.onnx", word)


def test_nested_functions(tmp_path):
    path = model(tmp_path, X, 'node { op_type: "f0" domain: "own" input: "x" output: "y" }', rest=nested_functions(28))
    refused(limited("dtc", *PLAN, path), "hostile.onnx", "nodes")


def test_functions_without_nodes(tmp_path):
    """Calls cost even where nothing is left of them."""
    text = nested_functions(28).replace('node { op_type: "Relu"', 'node { op_type: "none" domain: "own"')
    text += 'functions { name: "none" domain: "own" input: "a" output: "c" }'
    path = model(tmp_path, X, 'node { op_type: "f0" domain: "own" input: "x" output: "y" }', rest=text)
    refused(limited("dtc", *PLAN, path), "hostile.onnx", "nodes")


def test_many_empty_nodes(tmp_path):
    """Two bytes in the file, two hundred in memory."""
    path = model(tmp_path, X, node("Relu", "x", "y"))
    nodes = b"\x0a\x00" * 30_000_000
    path.write_bytes(path.read_bytes() + b"\x3a" + varint(len(nodes)) + nodes)
    refused(limited("dtc", *PLAN, path), "hostile.onnx", "entries")


def test_functions_with_large_constants(tmp_path):
    """A body is copied for each of its calls, with what its attributes hold."""
    data = "\\0" * (1 << 19)
    body = (f'functions {{ name: "big" domain: "own" input: "a" output: "c" node {{ op_type: "Constant" output: "k" attribute {{ '
            f'name: "value" type: TENSOR t {{ data_type: 1 dims: {1 << 17} raw_data: "{data}" }} }} }} '
            'node { op_type: "Identity" input: "a" output: "c" } } opset_import { domain: "own" version: 1 }')
    calls = [f'node {{ op_type: "big" domain: "own" input: "{"x" if i == 0 else f"t{i}"}" output: "t{i + 1}" }}' for i in range(8000)]
    path = model(tmp_path, X, *calls, node("Relu", "t8000", "y"), rest=body)
    refused(limited("dtc", *PLAN, path), "hostile.onnx", "memory")


def test_doubling_constants(tmp_path):
    """The largest are operations, whose results no machine can hold."""
    parts = [X, *doubling_constants(44), node("Cast", "c44", "f", to=1), node("ReduceSum", "f", "s", keepdims=0),
             node("Add", "x s", "y")]
    outcome = limited("dtc", *PLAN, model(tmp_path, *parts))
    assert outcome.code == 4 and "no plan fits" in outcome.error_line(), outcome.err


@pytest.mark.parametrize("count, both", [(60, True), (50_000, False)])
def test_long_products(tmp_path, count, both):
    """What looks for products finds 2^60 factors in squares of squares, and goes 50,000 deep."""
    nodes = [node("Mul", f"t{i} {f't{i}' if both else 'x'}", f"t{i + 1}") for i in range(count)]
    path = model(tmp_path, X, node("Tanh", "x", "t0"), *nodes, node("Relu", f"t{count}", "y"))
    outcome = limited("dtc", "compile", path, "--loss", "none", "--emit", "import", "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err


def test_values_that_are_read_twice(tmp_path):
    """Each node adds the two before it: what the last one is fused of doubles with every two nodes."""
    nodes = [node("Add", f"a{max(i - 1, 0)} a{max(i - 2, 0)}" if i else "x x", f"a{i}") for i in range(300)]
    outcome = limited("dtc", *PLAN, model(tmp_path, X, *nodes, outputs="a299"))
    assert outcome.code == 0, outcome.err[-300:]


def test_many_inputs(tmp_path):
    """Their sum is one kernel: what each addition in it reads was counted anew, against all that were known."""
    names = [f"x{i}" for i in range(5_000)]
    inputs = [f"input {{ name: '{name}' type {{ tensor_type {{ elem_type: 1 shape {{ dim {{ dim_value: 2 }} }} }} }} }}" for name in names]
    path = model(tmp_path, *inputs, node("Sum", " ".join(names), "y"))
    outcome = limited("dtc", *PLAN, path)
    assert outcome.code == 0, outcome.err[-300:]


def test_many_aliases(tmp_path):
    """Names of tied weights: as many as one likes take no longer than reading them."""
    names = [f"m{i}.weight" for i in range(100_000)]
    signature = "\\n".join(f"p_{i}: PARAMETER target='{name}'" for i, name in enumerate(names))
    scopes = 'metadata_props { key: "pkg.torch.onnx.name_scopes" value: "[\'\', \'%s\', \'linear\']" }'
    nodes = [node("Mul", f"{'x' if i == 0 else f't{i}'} m0.weight", f"t{i + 1}")[:-1] + scopes % f"m{i}" + "}"
             for i in range(20_000)]
    path = model(tmp_path, X, "input " + kind(value("m0.weight", 8)), *nodes, node("Relu", "t20000", "y"),
                 f'metadata_props {{ key: "pkg.torch.export.ExportedProgram.graph_signature" value: "{signature}" }}')
    outcome = limited("dtc", "compile", path, "--loss", "none", "--emit", "import", "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "out").read_text().count('"m') >= 20_000


def test_many_weights(tmp_path, artifacts):
    """The manifest has a key for each weight, which nothing may look up one by one."""
    def change(text: bytes) -> bytes:
        manifest = json.loads(text)
        known = manifest["parameters"][0]
        for i in range(100_000):
            manifest["parameters"].append(dict(known, name=f"more.{i}", shape=[1], view=[1], aliases=[]))
            manifest["weights"]["tensors"][f"more.{i}"] = {"offset": 0, "size": 4, "dtype": known["dtype"], "shape": [1]}
        return json.dumps(manifest).encode()
    path = tmp_path / "many.dtc"
    path.write_bytes(with_manifest((artifacts / "mlp.dtc").read_bytes(), change))
    outcome = limited("dtc", "inspect", path, "--json")
    assert outcome.code == 0, outcome.err
    assert len(json.loads(outcome.out)["parameters"]) > 100_000


@pytest.mark.parametrize("flag", ["--freeze", "--train", "--no-decay"])
@pytest.mark.parametrize("pattern", ["(" * 48_000 + "a" + ")" * 47_999, "((((((((a{100}){100}){100}){100}){100}){100}){100}){100})",
                                     "(" * 60_000])
def test_regular_expressions(tmp_path, flag, pattern):
    refused(limited("dtc", "compile", MODELS / "mlp.onnx", "--loss", "mse", flag, pattern, "-o", tmp_path / "out"), flag, codes=(2,))


# --- files that are none -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifacts")
    for name in ("mlp", "gpt2"):
        check_call("dtc", "compile", MODELS / f"{name}.onnx", "--devices", 1, "--loss", "cross_entropy", "--global-batch", 8,
                   "-o", folder / f"{name}.dtc")
    return folder


INPUTS = {
    "model": ["dtc", "plan", "FILE", "--devices", 2],
    "plan": ["dtc", "plan", MODELS / "mlp.onnx", "--devices", 2, "--plan", "FILE"],
    "cluster": ["dtc", "plan", MODELS / "mlp.onnx", "--gpus", 2, "--cluster", "FILE"],
    "config": ["dtc", "plan", MODELS / "mlp.onnx", "--config", "FILE"],
    "weights": ["dtc", "compile", MODELS / "gpt2_b1.onnx", "--loss", "cross_entropy", "--weights", "FILE", "-o", "OUT"],
    "inspect": ["dtc", "inspect", "FILE"],
    "artifact": ["dtc-run", "FILE", "--data", MODELS / "mlp.data.safetensors"],
    "data": ["dtc-run", "mlp.dtc", "--data", "FILE"],
}


@pytest.mark.parametrize("what", INPUTS)
@pytest.mark.parametrize("file", ["/dev/zero", "fifo", "folder", "socket"])
def test_files_that_are_none(tmp_path, monkeypatch, artifacts, what, file):
    path = pathlib.Path(file) if file.startswith("/") else tmp_path / f"{file}.yaml"
    if file == "fifo":
        os.mkfifo(path)
    elif file == "folder":
        path.mkdir()
    elif file == "socket":
        monkeypatch.chdir(tmp_path)  # its name may not be long
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(path.name)
    words = {"FILE": path, "OUT": tmp_path / "out", "mlp.dtc": artifacts / "mlp.dtc"}
    refused(limited(*[words.get(word, word) for word in INPUTS[what]]), str(path))
    assert not (tmp_path / "out").exists()


def test_files_inside_files(tmp_path, artifacts):
    """The index of a folder of weights, and the shards that it names."""
    folder = tmp_path / "weights"
    folder.mkdir()
    os.mkfifo(folder / "model.safetensors.index.json")
    compile_ = ["dtc", "compile", MODELS / "gpt2_b1.onnx", "--loss", "cross_entropy", "--weights", folder, "-o", tmp_path / "out"]
    refused(limited(*compile_), "index.json", codes=(3,))
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "shard.safetensors"}}))
    os.mkfifo(folder / "shard.safetensors")
    refused(limited(*compile_), "shard.safetensors", codes=(3,))
    external = [f'initializer {{ name: "w" data_type: 1 dims: 8 dims: 8 data_location: EXTERNAL external_data {{ key: "location" value: "{name}" }} }}'
                for name in ("pipe", "/dev/zero")]
    os.mkfifo(tmp_path / "pipe")
    for initializer in external:
        refused(limited("dtc", *PLAN, model(tmp_path, X, initializer, node("MatMul", "x w", "y"))), "hostile.onnx", codes=(3,))


@pytest.mark.parametrize("what", ["plan", "cluster", "config", "model", "data", "weights"])
def test_files_without_end(tmp_path, artifacts, what):
    """A sparse file of a terabyte takes no memory to make."""
    path = tmp_path / "sparse.yaml"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    words = {"FILE": path, "OUT": tmp_path / "out", "mlp.dtc": artifacts / "mlp.dtc"}
    refused(limited(*[words.get(word, word) for word in INPUTS[what]], memory=8 << 40), "sparse.yaml", codes=(3,))


# --- JSON, YAML, zip -------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", ["plan", "library_calls", "processor", "unknown"])
def test_deep_manifests(tmp_path, artifacts, nested):
    content = (artifacts / "mlp.dtc").read_bytes()
    deep = "[" * 200_000 + "]" * 200_000
    path = tmp_path / "deep.dtc"

    def change(text: bytes) -> bytes:
        manifest = json.loads(text)
        manifest[nested] = "DEEP"
        return json.dumps(manifest).replace('"DEEP"', deep).encode()
    path.write_bytes(with_manifest(content, change))
    for command in (["dtc", "inspect", path, "--json"], ["dtc-run", path, "--data", MODELS / "mlp.data.safetensors"]):
        refused(limited(*command), "deep.dtc", "manifest.json", codes=(3,))


def test_deep_headers(tmp_path, artifacts):
    header = b'{"x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    path = tmp_path / "deep.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    refused(limited("dtc-run", artifacts / "mlp.dtc", "--data", path), "deep.safetensors", codes=(3,))
    header = b'{"x":[' + b"[]," * 30_000_000 + b"[]]}"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    refused(limited("dtc-run", artifacts / "mlp.dtc", "--data", path), "deep.safetensors", codes=(3,))


def bomb(levels: int, top: str) -> str:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(levels):
        text += f"a{level + 1}: &a{level + 1} [{', '.join([f'*a{level}'] * 10)}]\n"
    return text + f"{top}: *a{levels}\n"


@pytest.mark.parametrize("what, top", [("plan", "ops"), ("cluster", "links"), ("config", "shape")])
def test_yaml_aliases(tmp_path, what, top):
    path = tmp_path / "bomb.yaml"
    command = [{"FILE": path}.get(word, word) for word in INPUTS[what]]
    path.write_text(bomb(12, top))
    refused(limited(*command), "bomb.yaml")
    path.write_text(f"a: &a [{', '.join(['1'] * 40_000)}]\n{top}: [{', '.join(['*a'] * 40_000)}]\n")
    refused(limited(*command), "bomb.yaml")
    path.write_text(f"{top}: &a [*a, *a]\n")
    refused(limited(*command), "bomb.yaml")
    path.write_text(f"{top}: " + "[" * 100_000)
    refused(limited(*command), "bomb.yaml")
    path.write_text(f"{top}: [" + "a," * 7_000_000 + "]")
    refused(limited(*command), "bomb.yaml")


@pytest.mark.parametrize("what", ["plan", "cluster", "config"])
def test_yaml_documents_without_an_end(tmp_path, what):
    """Behind a comma outside brackets yaml-cpp finds empty documents for ever."""
    path = tmp_path / "endless.yaml"
    for text in (", a\n", "- a\n, b\n"):
        path.write_text(text)
        refused(limited(*[{"FILE": path}.get(word, word) for word in INPUTS[what]]), "endless.yaml", "a second one")


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zipped(path: pathlib.Path, names: list[str], data: bytes, compressed: bool, shared: bool) -> None:
    """A zip of members with the same content; `shared`: they are one and the same bytes of the file."""
    packed = deflated(data) if compressed else data
    fields = struct.pack("<HHHHHIII", 20, 0, 8 if compressed else 0, 0, 33, zlib.crc32(data), len(packed), len(data))
    content, directory, at = bytearray(), bytearray(), 0
    for name in names:
        if not shared or not content:
            at = len(content)
            content += b"PK\3\4" + fields + struct.pack("<HH", len(name), 0) + name.encode() + packed
        directory += (b"PK\1\2" + struct.pack("<H", 20) + fields
                      + struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, at) + name.encode())
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(names), len(names), len(directory), len(content), 0)
    path.write_bytes(content + directory + end)


def test_members_that_claim_much(tmp_path, artifacts):
    path, run = tmp_path / "large.npz", ["dtc-run", artifacts / "mlp.dtc", "--data", tmp_path / "large.npz"]
    stream = io.BytesIO()
    numpy.save(stream, numpy.zeros(1 << 24, numpy.float32))
    names = [f"x{i:03}.npy" for i in range(300)]
    zipped(path, names, stream.getvalue(), compressed=True, shared=True)  # 19 GiB in some kilobytes
    refused(limited(*run), "large.npz", "overlap", codes=(3,))
    zipped(path, names, stream.getvalue(), compressed=True, shared=False)
    refused(limited(*run), "large.npz", "uncompressed", codes=(3,))
    stream = io.BytesIO()
    numpy.save(stream, numpy.zeros(16, numpy.float32))
    zipped(path, names, stream.getvalue(), compressed=False, shared=True)
    refused(limited(*run), "large.npz", "overlap", codes=(3,))


# --- files that change while they are read ----------------------------------------------------------


def cut_while(process: subprocess.Popen, path: pathlib.Path, size: int) -> tuple[int, str]:
    """Truncates a file once the program has it mapped."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if str(path) in pathlib.Path(f"/proc/{process.pid}/maps").read_text():
                break
    os.truncate(path, size)
    err = process.communicate(timeout=WAIT)[1]
    return process.returncode, err


def test_data_truncated_while_mapped(tmp_path, artifacts):
    """Pages that are gone are told by a signal; it becomes the line that any other cut file gets."""
    tokens, weights = tmp_path / "tokens.bin", tmp_path / "weights.safetensors"
    tokens.write_bytes((numpy.arange(1 << 24, dtype=numpy.uint16) % 60).tobytes())
    process = subprocess.Popen(
        [BIN / "dtc-run", artifacts / "gpt2.dtc", "--data", tokens, "--steps", "1000000", "--save-weights", weights],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    code, err = cut_while(process, tokens, 1 << 12)
    lines = [line for line in err.splitlines() if "error:" in line]
    assert code == 3 and len(lines) == 1 and "tokens.bin: was truncated" in lines[0], err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens.bin"]
