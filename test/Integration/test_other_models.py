"""Checkpoints of a model go on under all files of it; those of another are refused, though all tensors have the same names and
shapes."""

import dataclasses
import json
import pathlib
import shutil
from typing import Callable

import numpy
import pytest
from safetensors.numpy import save_file

import llama_graph
from conftest import MODELS, call, check_call, encode_model

Edit = Callable[[str], str]
LLAMA = llama_graph.Llama(layers=2, hidden=64, heads=4, kv_heads=2, ffn=128, vocabulary=64, sequence=16)
FLAGS = ("--loss", "cross_entropy", "--global-batch", 2, "--no-verify")


def train(model: pathlib.Path, folder: pathlib.Path, steps: int, *flags: object):
    """Trains up to a step, from the newest checkpoint in the folder on."""
    artifact = folder.parent / f"{model.name}.{steps}.dtc"
    check_call("dtc", "compile", model, *FLAGS, *flags, "-o", artifact)
    data = MODELS / f"{model.stem.split('_')[0]}.data.safetensors"
    if not data.exists():
        data = folder.parent / "data.safetensors"
        sequence = LLAMA.sequence if "longer" not in model.stem else 2 * LLAMA.sequence
        save_file({"input_ids": numpy.zeros((4, sequence), "i8"), "target": numpy.zeros((4, sequence), "i8")}, data)
    return call("dtc-run", artifact, "--data", data, "--checkpoint-dir", folder, "--steps", steps, "--resume")


def traits(folder: pathlib.Path, step: int) -> dict[str, str]:
    return json.loads((folder / f"step-{step}" / "checkpoint.json").read_text())["content"]["traits"]


@pytest.mark.parametrize("model,others", [
    ("gpt2.onnx", ["gpt2.pt2", "gpt2_opset24.onnx", "gpt2_dyn.onnx"]),
    ("llama.onnx", ["llama.pt2", "llama_opset24.onnx", "llama_dyn.pt2"]),
    ("mixtral.onnx", ["mixtral.pt2"]),
    ("bart.onnx", ["bart.pt2"]),
])
def test_all_files_of_a_model_go_on(tmp_path, model, others):
    """They compute the same of the same weights, however a layer is spelled out."""
    folder = tmp_path / "saved"
    for step, name in enumerate([model, *others], 1):
        outcome = train(MODELS / name, folder, step)
        assert outcome.code == 0, outcome.err
        own, first = (traits(folder, of)["results"].split(":")[0] for of in (step, 1))
        assert own.split(", ")[-1] == first.split(", ")[-1]  # so that they were compared


def test_dropout_may_change(tmp_path):
    """As a learning rate may: it is how a model is trained, not what the weights mean."""
    assert train(MODELS / "gpt2_dropout.pt2", tmp_path / "saved", 1).code == 0
    outcome = train(MODELS / "gpt2.pt2", tmp_path / "saved", 2)
    assert outcome.code == 0, outcome.err


def multiplied(name: str) -> Edit:
    """What is computed under a name is doubled."""
    def edit(text: str) -> str:
        lines = text.splitlines()
        [at] = [i for i, line in enumerate(lines) if line.startswith("node") and f'output: "{name}" ' in line]
        lines[at] = lines[at].replace(f'output: "{name}"', 'output: "plain"')
        lines.insert(at + 1, f'node {{ input: "plain" input: "two" output: "{name}" op_type: "Mul" }}')
        lines.insert(at, 'initializer { name: "two" data_type: 1 float_data: 2.0 }')
        return "\n".join(lines)
    return edit


def replaced(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new)
    return edit


def above_one(text: str) -> str:
    """A norm's weight is how much its scale is above 1, as Gemma has it."""
    lines = text.splitlines()
    [at] = [i for i, line in enumerate(lines) if line.startswith("node") and 'input: "norm.weight"' in line]
    lines[at] = lines[at].replace('input: "norm.weight"', 'input: "scale"')
    lines.insert(at, 'node { input: "norm.weight" input: "one" output: "scale" op_type: "Add" }')
    lines.insert(at, 'initializer { name: "one" data_type: 1 float_data: 1.0 }')
    return "\n".join(lines)


CAUSAL = 'attribute { name: "is_causal" type: INT i: 1 }'
OTHERS = {
    "scale": (replaced(CAUSAL, f'{CAUSAL} attribute {{ name: "scale" type: FLOAT f: 0.0625 }}'),
              "has other scale of scores than 0.0625: 0.25"),
    "mask": (replaced(CAUSAL, ""), "has other masks than none: causal"),
    "cap": (replaced(CAUSAL, f'{CAUSAL} attribute {{ name: "softcap" type: FLOAT f: 5 }}'), "has other results of the same weights"),
    "embedding": (multiplied("embed"), "has other results of the same weights"),
    "residual": (multiplied("layers.1.o_proj"), "has other results of the same weights"),
    "logits": (multiplied("logits"), "has other results of the same weights"),
    "norm": (above_one, "has other results of the same weights"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("plain") / "saved"
    outcome = train(llama_graph.write(folder.parent / "plain.onnx", LLAMA), folder, 1, "--init")
    assert outcome.code == 0, outcome.err
    return folder


@pytest.mark.parametrize("other", OTHERS)
def test_another_constant_is_another_model(saved, other):
    edit, words = OTHERS[other]
    model = encode_model(edit(llama_graph.text(LLAMA)), saved.parent / f"{other}.onnx")
    outcome = train(model, saved, 2, "--init")
    assert outcome.code == 3 and words in outcome.error_line(), outcome.err
    assert [path.name for path in saved.iterdir() if path.name.startswith("step")] == ["step-1"]


def test_a_model_goes_on_with_longer_sequences(saved, tmp_path):
    """Of a causal model the first positions are the same."""
    shutil.copytree(saved, tmp_path / "saved")
    model = llama_graph.write(tmp_path / "longer.onnx", dataclasses.replace(LLAMA, sequence=32))
    outcome = train(model, tmp_path / "saved", 2, "--init")
    assert outcome.code == 0, outcome.err
    own, others = (traits(tmp_path / "saved", step)["results"].split(":") for step in (1, 2))
    assert own[0] != others[0] and own[1] == others[1]


def angles(base: float) -> bytes:
    """As the frequencies of rotary positions are in a file."""
    return (numpy.float32(1) / numpy.float32(base) ** (numpy.arange(0, 16, 2, dtype="f4") / numpy.float32(16))).tobytes()


@pytest.mark.parametrize("base", [500000, 10100])
def test_other_angles_of_positions_are_refused(tmp_path, base):
    """Else the checkpoint's own angles, or the file's, would win without a word."""
    content = (MODELS / "llama.onnx").read_bytes()
    assert content.count(angles(10000)) == 1
    (tmp_path / "llama_other.onnx").write_bytes(content.replace(angles(10000), angles(base)))
    assert train(MODELS / "llama.onnx", tmp_path / "saved", 1).code == 0
    outcome = train(tmp_path / "llama_other.onnx", tmp_path / "saved", 2)
    words = "has other smallest rotary angle than" if base > 20000 else "has other results of the same weights"
    assert outcome.code == 3 and words in outcome.error_line(), outcome.err


def mixture(chosen: int) -> str:
    """Each token looks up the weights of so many of four experts."""
    graph, (ids, floats) = llama_graph.Graph(), (llama_graph.INT64, llama_graph.FLOAT)
    sizes = {"count": [chosen], "row": [2, 3], "factor": [3, 4]}
    graph.lines += [f'initializer {{ name: "{name}" data_type: 7 dims: {len(values)} int64_data: {values} }}' for name, values in sizes.items()]
    graph.lines.append(llama_graph.value_info("input", "input_ids", [1, LLAMA.sequence], ids, "USER_INPUT"))
    x = graph.node("Gather", "embed", graph.parameter("embed.weight", LLAMA.vocabulary, 8), "input_ids")
    graph.lines.append(f'node {{ input: "{graph.linear("router", x, 8, 4)}" input: "count" output: "factors" output: "experts" op_type: "TopK" }}')
    weights = graph.node("Gather", "weights", graph.parameter("experts.weight", 4, 8, 8), "experts")
    rows = graph.node("Mul", "weighted", graph.node("Unsqueeze", "rows", x, "row"), graph.node("Unsqueeze", "of_row", "factors", "factor"))
    y = graph.node("MatMul", "products", rows, weights)
    logits = graph.linear("logits", graph.node("ReduceSum", "sum", y, "row", keepdims=0), 8, LLAMA.vocabulary)
    graph.lines.append(llama_graph.value_info("output", logits, [1, LLAMA.sequence, LLAMA.vocabulary], floats))
    return 'ir_version: 10 opset_import { version: 24 } graph { name: "mixture"\n' + "\n".join(graph.lines) + "\n}"


def test_another_number_of_experts_is_another_model(tmp_path):
    runs = [train(encode_model(mixture(chosen), tmp_path / f"{chosen}.onnx"), tmp_path / "saved", 3 - chosen, "--init") for chosen in (2, 1)]
    assert runs[0].code == 0, runs[0].err
    assert runs[1].code == 3 and "has other experts of a token than 1 of 4: 2 of 4" in runs[1].error_line(), runs[1].err
