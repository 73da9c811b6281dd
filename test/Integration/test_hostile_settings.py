"""Settings, clusters and flags made to hurt: as in test_hostile.py, ten seconds, two GiB, exit code 2 or 3 and one line."""

import hashlib
import json
import struct

import pytest

from conftest import MODELS, check_call
from fuzzing import with_manifest
from test_hostile import BYTES, PLAN, X, ints, limited, model, node, refused, value


def read(path, text: str, form: str):
    """What dtc says of another program's settings."""
    path.write_text(text)
    return limited("dtc", "plan", MODELS / "gpt2.onnx", "--gpus", 8, "--loss", "cross_entropy", "--for", form, "--plan-from", path)


def test_settings_without_end(tmp_path):
    """Each took a gigabyte, or was compared with all known names."""
    path = tmp_path / "settings"
    for form, text in (("megatron-lm", "--a\\\n" * 5_000_000), ("megatron-lm", "--" + "a" * 30_000_000 + " 1\n--bf16\n"),
                       ("torchtitan", "[" + "a" * 1_600_000 + "]\n" + "b = 1\n" * 10_000)):
        refused(read(path, text, form), "settings have no more than 1048576 bytes", codes=(3,))


def test_degrees_that_are_left_open(tmp_path):
    """An open degree is torchtitan's."""
    refused(read(tmp_path / "settings", "--tensor-model-parallel-size -1", "megatron-lm"), "expected a number from 1", codes=(3,))


@pytest.mark.parametrize("form, text", [
    ("torchtitan", "[" + "a" * 500_000 + "]\n" + "b = 1\n" * 80_000),
    ("accelerate", "? " + "a" * 500_000 + "\n: {" + ", ".join(f"b{i}: 1" for i in range(40_000)) + "}"),
])
def test_names_that_all_below_would_copy(tmp_path, form, text):
    refused(read(tmp_path / "settings", text, form), ": expected names of up to 256 letters: aaa", codes=(3,))


def test_a_key_is_refused_once(tmp_path):
    text = "".join(f"--tensor-model-parallel-size {i}\n" for i in range(10_000))
    refused(read(tmp_path / "settings", text, "megatron-lm"), "--tensor-model-parallel-size 1 contradicts", codes=(3,))


def test_a_word_of_megabytes_is_like_no_other(tmp_path):
    path = tmp_path / "flags.yaml"
    path.write_text("? " + "k" * 20_000_000 + "\n: 1\n")
    refused(limited("dtc", "plan", MODELS / "mlp.onnx", "--config", path), "flags.yaml:1: unknown key")


def test_rings_of_all_numbers_of_ranks(tmp_path):
    path = tmp_path / "cluster.yaml"
    rings = ", ".join(f"{ranks}: 200" for ranks in range(2, 20_000))
    path.write_text(f"device: h100\ndevices_per_node: 8\nlinks: [{{name: a, bandwidth_gbs: 300, latency_us: 3, ring_gbs: {{{rings}}}}}]\n")
    refused(limited("dtc", "plan", MODELS / "mlp.onnx", "--gpus", 8, "--cluster", path), "ring_gbs has more than 4096 entries", codes=(3,))


@pytest.mark.parametrize("key, row", [("groups", "{node: dgx-h100, nodes: 1}"),
                                      ("measured", "{type: fp32, m: 64, n: 64, k: 64, seconds: 1e-5}")])
def test_clusters_of_many_parts(tmp_path, key, row):
    """Their links are compared with each other, and measurements with each operation."""
    rows = "[" + ", ".join([row] * 5000) + "]"
    path = tmp_path / "cluster.yaml"
    text = {"groups": f"name: a\ngroups: {rows}\ninter_node: {{bandwidth_gbs: 25, latency_us: 14}}\n",
            "measured": f"device: h100\nlinks: [{{bandwidth_gbs: 5, latency_us: 3}}]\nmeasured: {{contractions: {rows}}}\n"}[key]
    path.write_text(text)
    refused(limited("dtc", "plan", MODELS / "mlp.onnx", "--gpus", 8, "--cluster", path), "has more than 4096 entries", codes=(3,))


def test_microbatches_without_end():
    """Millions of them in a pipeline's schedule took all memory."""
    outcome = limited("dtc", "plan", MODELS / "gpt2.onnx", "--gpus", 8, "--loss", "cross_entropy", "--global-batch", 1 << 24,
                      "--micro-batch", 1)
    refused(outcome, "a schedule of ", " microbatches on ", "is too long", codes=(4,))


RESULTS_THAT_ARE_TOO_LARGE = {
    "AffineGrid": ["input " + value("x", 1, 2, 3), ints("s", 1, 1, 1 << 40, 1 << 40), node("AffineGrid", "x s", "y")],
    "Col2Im": ["input " + value("x", 1, 4, 9), ints("s", 1 << 40, 1 << 40), ints("b", 2, 2), node("Col2Im", "x s b", "y")],
    "CenterCropPad": [X, ints("s", 1 << 62, 1 << 62), node("CenterCropPad", "x s", "y")],
    "MaxUnpool": ["input " + value("x", 1, 1, 2, 2), "input " + value("i", 1, 1, 2, 2, kind=7), ints("s", 1, 1, 1 << 40, 1 << 40),
                  node("MaxUnpool", "x i s", "y", kernel_shape=[2, 2])],
}


@pytest.mark.parametrize("op", RESULTS_THAT_ARE_TOO_LARGE)
def test_results_that_are_too_large(tmp_path, op):
    """Their size is told once, and no other reason beside it."""
    refused(limited("dtc", *PLAN, model(tmp_path, *RESULTS_THAT_ARE_TOO_LARGE[op])), op, "too many elements", codes=(3,))


def arrays(path, header: dict, size: int = 0) -> None:
    """A safetensors file, whose data is a hole."""
    text = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + size)


def test_class_weights_of_gigabytes(tmp_path):
    path = tmp_path / "weights.safetensors"
    arrays(path, {"w": {"dtype": "F32", "shape": [1 << 29], "data_offsets": [0, 1 << 31]}}, 1 << 31)
    command = ["dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--class-weights", path, "-o", tmp_path / "out"]
    refused(limited(*command, memory=3 * BYTES), "weights.safetensors: w: has more than 4194304 weights: 536870912", codes=(3,))


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    artifact = tmp_path_factory.mktemp("artifact") / "mlp.dtc"
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "cross_entropy", "--global-batch", 8, "-o", artifact)
    return artifact


@pytest.mark.parametrize("names", [["x" * 1_000_000], [f"x{i}" for i in range(20_000)], ["\x1b[2J\n"]])
def test_names_in_data(tmp_path, mlp, names):
    """dtc-run's line is as short and as printable as dtc's."""
    path = tmp_path / "data.safetensors"
    arrays(path, {name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in names})
    outcome = limited("dtc-run", mlp, "--data", path)
    refused(outcome, "has no array for the model's input x", codes=(3,))
    assert outcome.error_line().isprintable()


def halve(tensor: dict, *changes: dict) -> None:
    """A tensor's only part becomes two, with 32 elements each."""
    (part,) = tensor["parts"]
    assert part["begin"] == 0 and part["end"] == 64 and tensor["view"] == [64]
    tensor["parts"] = [part | change for change in changes]


@pytest.mark.parametrize("change, words", [
    (lambda content: content["files"].extend(content["files"] * 1000), "has a file twice: rank-0.safetensors"),
    (lambda content: content["files"][0].update(name="../other/rank-0.safetensors"), "has a file outside of its folder"),
    (lambda content: content["files"][0].update(name="rank-0.safetensors\0"), "has a file outside of its folder"),
    (lambda content: content.update(seed=1 << 64), "has one of another type"),
    (lambda content: content.update(position=2.5), "has one of another type"),
    (lambda content: content["tensors"][0]["parts"][0].update(end=1e30), "has one of another type"),
    (lambda content: content["tensors"][0].update(shape=[64.0]), "has one of another type"),
    (lambda content: content["files"][0].update(size=-1), "has one of another type"),
    (lambda content: content["files"][0].update(size=(1 << 64) - 1), "damaged, its size was 18446744073709551615"),
    (lambda content: content["tensors"][0].update(view=[1 << 62, 1 << 62]), "has an impossible type or shape"),
    (lambda content: content["tensors"][0]["parts"][0].update(at=(1 << 64) - 1), "has a part that reaches beyond"),
    (lambda content: halve(content["tensors"][0], {"end": 32}, {"end": 32}), "fc1.bias: has parts that overlap"),
    (lambda content: halve(content["tensors"][0], {"shape": [32], "end": 32}, {"offset": [1], "shape": [32], "end": 32}),
     "fc1.bias: has parts that overlap"),
    (lambda content: halve(content["tensors"][0], {"end": 32}, {"begin": 32}), "has two parts in the same bytes of a file"),
])
def test_checkpoints_whose_hash_fits(tmp_path, mlp, change, words):
    """Each file is read as often as it is named."""
    train = ["dtc-run", mlp, "--data", MODELS / "mlp.data.safetensors", "--checkpoint-dir", tmp_path]
    check_call(*train, "--steps", 1)
    manifest = tmp_path / "step-1" / "checkpoint.json"
    content = json.loads(manifest.read_text())["content"]
    change(content)
    text = json.dumps(content)
    manifest.write_text(f'{{"sha256": "{hashlib.sha256(text.encode()).hexdigest()}",\n"content": {text}}}\n')
    refused(limited(*train, "--steps", 2, "--resume"), "step-1", words, codes=(3,))


@pytest.mark.parametrize("entry", [{"shape": [1e30]}, {"shape": [2.5]}, {"shape": [1 << 63]}, {"data_offsets": [0, -1]}, {"shape": 4}])
def test_numbers_that_are_no_sizes(tmp_path, mlp, entry):
    """A fraction was cut, and what is too large or negative was wrapped."""
    path = tmp_path / "data.safetensors"
    arrays(path, {"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} | entry}, 16)
    refused(limited("dtc-run", mlp, "--data", path), "x: malformed header entry", codes=(3,))


def test_numbers_of_a_manifest(tmp_path, mlp):
    path = tmp_path / "wrong.dtc"
    for number in (1e30, 8.5, 1 << 63, -1):
        path.write_bytes(with_manifest(mlp.read_bytes(), lambda text: json.dumps(json.loads(text) | {"global_batch": number}).encode()))
        refused(limited("dtc-run", path, "--data", MODELS / "mlp.data.safetensors"), "wrong.dtc", "global_batch", codes=(3,))
