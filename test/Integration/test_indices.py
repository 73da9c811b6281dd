"""Indices: those that the graph computes, and those of the data that are no row of what they index."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, ROOT, call, check_call, encode_model

TABLE = numpy.array([[0, 1], [10, 11], [20, 21], [30, 31], [40, 41]], numpy.float32)


@pytest.fixture(scope="module")
def indices(tmp_path_factory):
    """Looks rows up at `ids` and at `ids - 2`, and picks columns at `ids - 2`."""
    folder = tmp_path_factory.mktemp("indices")
    text = (ROOT / "test/Import/Inputs/indices.txtpb").read_text()
    model = encode_model(text, folder / "indices.onnx")
    artifact = folder / "indices.dtc"
    check_call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", artifact)
    return artifact


def test_computed_indices_count_from_the_end(indices, tmp_path):
    data, outputs = tmp_path / "data.safetensors", tmp_path / "outputs.safetensors"
    ids = numpy.array([[0, 1, 2], [3, 4, 2]])
    save_file({"ids": ids}, data)
    check_call("dtc-run", indices, "--data", data, "--outputs", outputs, "--no-shuffle")
    got = load_file(outputs)
    assert (got["x"] == TABLE[ids]).all()
    assert (got["y"] == TABLE[ids - 2]).all()
    picked = numpy.array([[0, 11, 20], [31, numpy.nan, 20]], numpy.float32)
    assert numpy.array_equal(got["z"][..., 0], picked, equal_nan=True)


@pytest.mark.parametrize("value", [-1, 5])
def test_indices_of_the_data_are_checked(indices, tmp_path, value):
    data, outputs = tmp_path / "data.safetensors", tmp_path / "outputs.safetensors"
    save_file({"ids": numpy.array([[0, 1, 2], [3, value, 2]])}, data)
    outcome = call("dtc-run", indices, "--data", data, "--outputs", outputs, "--no-shuffle")
    assert outcome.code == 3, outcome.err
    assert outcome.error_line().endswith(
        f"data.safetensors: ids: sample 1: is not in [0, 5): {value}")
    assert not outputs.exists()


@pytest.fixture(scope="module")
def given_experts(tmp_path_factory):
    """Each row is multiplied by the weights that the data choose for it."""
    folder = tmp_path_factory.mktemp("experts")
    model = encode_model("""ir_version: 9 opset_import { version: 20 }
        graph { name: "g"
          node { op_type: "Gather" input: "w" input: "task" output: "chosen" }
          node { op_type: "MatMul" input: "x" input: "chosen" output: "y" }
          initializer { name: "w" data_type: 1 dims: 3 dims: 2 dims: 2 float_data: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] }
          input { name: "x" type { tensor_type { elem_type: 1
            shape { dim { dim_value: 2 } dim { dim_value: 1 } dim { dim_value: 2 } } } } }
          input { name: "task" type { tensor_type { elem_type: 7 shape { dim { dim_value: 2 } } } } }
          output { name: "y" } }""", folder / "experts.onnx")
    raised = check_call("dtc", "compile", model, "--loss", "none", "--emit", "import").out
    assert "dtc.grouped_contract" in raised
    check_call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", folder / "experts.dtc")
    return folder / "experts.dtc"


@pytest.mark.parametrize("value", [2, -1, 3])
def test_choices_of_the_data_are_checked(given_experts, tmp_path, value):
    data, outputs = tmp_path / "data.safetensors", tmp_path / "outputs.safetensors"
    save_file({"x": numpy.ones((2, 1, 2), numpy.float32), "task": numpy.array([0, value])}, data)
    outcome = call("dtc-run", given_experts, "--data", data, "--outputs", outputs, "--no-shuffle")
    if value == 2:
        assert outcome.code == 0, outcome.err
        assert load_file(outputs)["y"].flatten().tolist() == [4, 6, 20, 22]
        return
    assert outcome.code == 3, outcome.err
    assert outcome.error_line().endswith(f"data.safetensors: task: sample 1: is not in [0, 3): {value}")
    assert not outputs.exists()


@pytest.fixture(scope="module")
def split_vocabulary(tmp_path_factory):
    artifact = tmp_path_factory.mktemp("split") / "gpt2.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--plan", "tp=2", "--loss",
               "cross_entropy", "--global-batch", 8, "-o", artifact)
    return artifact


@pytest.mark.parametrize("name,value,code", [
    ("input_ids", 512, 3), ("input_ids", -1, 3), ("target", 512, 3), ("target", -1, 3),
    ("target", -99, 3), ("target", -100, 0),
])
def test_tokens_under_a_split_vocabulary(split_vocabulary, tmp_path, name, value, code):
    """Every rank holds half the rows and takes other indices for another rank's."""
    arrays = load_file(MODELS / "gpt2.data.safetensors")
    arrays[name][2, 5] = value
    data, weights = tmp_path / "data.safetensors", tmp_path / "weights.safetensors"
    save_file(arrays, data)
    outcome = call("dtc-run", split_vocabulary, "--data", data, "--no-shuffle", "--steps", 1,
                   "--save-weights", weights)
    assert outcome.code == code, outcome.err
    if code:
        assert outcome.error_line().endswith(f"{name}: sample 2: is not in [0, 512): {value}")
        assert not weights.exists()


def test_tokens_of_a_binary_file_beyond_the_vocabulary(split_vocabulary, tmp_path):
    tokens = numpy.fromfile(MODELS / "text.bin", numpy.uint16)
    tokens[32 * 3 + 7] = 512
    data = tmp_path / "text.bin"
    tokens.tofile(data)
    outcome = call("dtc-run", split_vocabulary, "--data", data, "--no-shuffle", "--steps", 1)
    assert outcome.code == 3, outcome.err
    assert "text.bin: " in outcome.error_line() and "is not in [0, 512): 512" in outcome.error_line()


INTEGER_TABLE = """
ir_version: 10
opset_import {{ version: 20 }}
graph {{
  name: "integers"
  node {{ name: "best" op_type: "ArgMax" input: "x" output: "best"
    attribute {{ name: "axis" i: 1 type: INT }} attribute {{ name: "keepdims" i: 0 type: INT }} }}
  node {{ name: "shift" op_type: "Sub" input: "{index}" input: "offset" output: "at" }}
  node {{ name: "look_up" op_type: "Gather" input: "table" input: "at" output: "y" }}
  initializer {{ name: "table" data_type: 7 dims: 4 int64_data: [7, 8, 9, 10] }}
  initializer {{ name: "offset" data_type: 7 int64_data: {offset} }}
  input {{ name: "x" type {{ tensor_type {{ elem_type: 1
    shape {{ dim {{ dim_value: 2 }} dim {{ dim_value: 4 }} }} }} }} }}
  input {{ name: "ids" type {{ tensor_type {{ elem_type: 7
    shape {{ dim {{ dim_value: 2 }} }} }} }} }}
  output {{ name: "y" }}
}}
"""


def compile_integer_table(folder, index: str, offset: int):
    model = encode_model(INTEGER_TABLE.format(index=index, offset=offset), folder / "m.onnx")
    return call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", folder / "m.dtc")


@pytest.mark.parametrize("offset", [0, 4])
def test_integers_are_looked_up_where_indices_are_known_to_be_inside(tmp_path, offset):
    """Positions of the largest elements lie within [0, 4), less 4 they count from the end."""
    assert compile_integer_table(tmp_path, "best", offset).code == 0
    x = numpy.array([[0, 5, 1, 1], [1, 2, 3, 4]], numpy.float32)
    data, outputs = tmp_path / "data.safetensors", tmp_path / "outputs.safetensors"
    save_file({"x": x, "ids": numpy.zeros(2, numpy.int64)}, data)
    check_call("dtc-run", tmp_path / "m.dtc", "--data", data, "--outputs", outputs,
               "--no-shuffle")
    assert load_file(outputs)["y"].tolist() == [8, 10]


@pytest.mark.parametrize("index,offset,bounds", [
    ("best", 5, ": from -5 to -2"), ("best", -1, ": from 1 to 4"), ("ids", 2, ""),
])
def test_integers_are_not_looked_up_where_indices_may_be_outside(tmp_path, index, offset, bounds):
    """No integer could say at run time that there is nothing to look up."""
    outcome = compile_integer_table(tmp_path, index, offset)
    assert outcome.code == 3, outcome.err
    assert outcome.error_line().endswith(
        "takes integers at computed indices that may be outside of the 4 there are" + bounds)
    assert "look_up" in outcome.error_line()
    assert not (tmp_path / "m.dtc").exists()


SCATTER = """ir_version: 9 opset_import { version: 18 }
graph { name: "scatter"
  node { op_type: "ScatterElements" input: "x" input: "at" input: "u" output: "replaced"
    attribute { name: "axis" i: 1 type: INT } }
  node { op_type: "ScatterElements" input: "x" input: "at" input: "u" output: "added"
    attribute { name: "axis" i: 1 type: INT } attribute { name: "reduction" s: "add" type: STRING } }
  node { op_type: "ScatterElements" input: "x" input: "at" input: "u" output: "larger"
    attribute { name: "axis" i: 1 type: INT } attribute { name: "reduction" s: "max" type: STRING } }
  input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_param: "n" } dim { dim_value: 4 } } } } }
  input { name: "at" type { tensor_type { elem_type: 7 shape { dim { dim_param: "n" } dim { dim_value: 3 } } } } }
  input { name: "u" type { tensor_type { elem_type: 1 shape { dim { dim_param: "n" } dim { dim_value: 3 } } } } }
  output { name: "replaced" } output { name: "added" } output { name: "larger" } }
"""


@pytest.mark.parametrize("flags", [["--devices", 1], ["--devices", 2, "--plan", "dp=2"]], ids=["one", "dp"])
def test_elements_are_written_where_the_data_say(tmp_path, flags):
    """The last of equal positions replaces, negative ones count from the end, and a row with one outside is NaN."""
    model = encode_model(SCATTER, tmp_path / "m.onnx")
    check_call("dtc", "compile", model, *flags, "--loss", "none", "--global-batch", 4, "-o", tmp_path / "m.dtc")
    x = numpy.arange(16, dtype=numpy.float32).reshape(4, 4)
    at = numpy.array([[0, 2, 0], [3, -1, 1], [0, 4, 1], [-4, -5, 2]])
    u = numpy.array([[50, 60, 70], [-1, -2, -3], [7, 8, 9], [1, 2, 3]], numpy.float32)
    replaced, added, larger = x.copy(), x.copy(), x.copy()
    for row in range(2):
        for j, column in enumerate(at[row]):
            replaced[row, column] = u[row, j]
            added[row, column] += u[row, j]
            larger[row, column] = max(larger[row, column], u[row, j])
    for array in (replaced, added, larger):
        array[2:] = numpy.nan
    data, outputs = tmp_path / "data.safetensors", tmp_path / "outputs.safetensors"
    save_file({"x": x, "at": at, "u": u}, data)
    check_call("dtc-run", tmp_path / "m.dtc", "--data", data, "--outputs", outputs, "--no-shuffle")
    got = load_file(outputs)
    for name, wanted in (("replaced", replaced), ("added", added), ("larger", larger)):
        assert numpy.array_equal(got[name], wanted, equal_nan=True), (name, got[name])


def test_integers_are_not_written_where_indices_may_be_outside(tmp_path):
    model = encode_model(SCATTER.replace("elem_type: 1 ", "elem_type: 7 "), tmp_path / "m.onnx")
    outcome = call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", tmp_path / "m.dtc")
    assert outcome.code == 3 and "takes integers at computed indices" in outcome.error_line()


def scattered(tmp_path, rows: int = 0, metadata: str = "") -> tuple:
    """What `dtc plan` says of a plain write alone; with `rows`, into as many of a table."""
    text = SCATTER.split('  node { op_type: "ScatterElements" input: "x" input: "at" input: "u" output: "added"')[0]
    inputs = SCATTER[SCATTER.index("  input {"):SCATTER.index("  output {")]
    if rows:
        inputs = inputs.replace("dim_value: 4", f"dim_value: {rows}").replace("dim_value: 3", "dim_value: 65536")
    node = text.rstrip().removesuffix("}") + metadata + " }\n"
    model = encode_model(node + inputs + '  output { name: "replaced" } }', tmp_path / "m.onnx")
    return call("dtc", "plan", model, "--devices", 1, "--loss", "none")


def test_what_decides_among_equal_positions_is_said(tmp_path):
    outcome = scattered(tmp_path)
    assert outcome.code == 0
    [warning] = [line for line in outcome.err.splitlines() if "warning" in line]
    assert "ScatterElements" in warning and "the last one stays" in warning


def test_means_that_pytorch_exports_as_writes_are_refused(tmp_path):
    call_of = "%scatter_reduce : [num_users=1] = call_function[target=torch.ops.aten.scatter_reduce.two](args = (%x, 1, %at, %u, {}), kwargs = {{}})"
    entry = 'metadata_props {{ key: "pkg.torch.onnx.fx_node" value: "{}" }}'
    outcome = scattered(tmp_path, metadata=entry.format(call_of.format("mean")))
    assert outcome.code == 3 and 'scatter_reduce("mean")' in outcome.error_line() and "torch.export" in outcome.error_line()
    assert scattered(tmp_path, metadata=entry.format(call_of.format("amax"))).code == 0


def test_comparisons_with_positions_are_bounded(tmp_path):
    assert scattered(tmp_path, rows=1 << 8).code == 0
    outcome = scattered(tmp_path, rows=1 << 23)
    assert outcome.code == 3 and "compare too many elements" in outcome.error_line()
