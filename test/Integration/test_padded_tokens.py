"""Tokens that ranks of cp can't share get more behind them, without targets: against one rank that has none of these."""

import json
import re

import numpy
import pytest
from safetensors.numpy import load_file, save_file

import llama_graph
from conftest import MODELS, call, check_call, encode_model
from test_cuda import CUDA, emulator  # noqa: F401 (a fixture that applies by itself)

FLAGS = ["--loss", "cross_entropy", "--global-batch", 8, "--clip-grad-norm", 1.0, "--optimizer", "sgd", "--lr", 0.1, "--momentum", 0.9]
CPU = ["--target", "cpu"]


def ragged(folder, model: str):
    """Samples of 3 to 31 tokens, of which the fourth has no target either."""
    data = load_file(MODELS / f"{model}.data.safetensors")
    lengths = numpy.arange(len(data["target"])) * 5 % 29 + 3
    data["target"][numpy.arange(32) >= lengths[:, None]] = -100
    data["target"][:, 3] = -100
    save_file(data, folder / "data.safetensors")
    return folder / "data.safetensors"


def trained(folder, model, devices: int, plan: str, *flags: object, data, run=(), steps=3):
    """Losses, gradient norms and evaluations, and the final weights."""
    check_call("dtc", "compile", model, "--devices", devices, "--plan", plan, *FLAGS, *(flags or CPU), "-o", folder / "m.dtc")
    check_call("dtc-run", folder / "m.dtc", "--data", data, "--steps", steps, "--log", folder / "log", "--save-weights",
               folder / "w.safetensors", "--eval-data", data, "--eval-every", 1, *run)
    log = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    return [[line[key] for key in ("loss", "grad_norm", "eval_loss")] for line in log], load_file(folder / "w.safetensors")


def compare(first, other):
    assert numpy.allclose(first[0], other[0], rtol=1e-6) and numpy.ptp(first[0], axis=0).min() > 0.01
    assert all(numpy.allclose(other[1][name], weight, rtol=0, atol=1e-6) for name, weight in first[1].items())


@pytest.mark.parametrize("model,plans", [
    ("gpt2", [(3, "cp=3,cp_by=ring"), (6, "cp=3,pp=2,micro_batch=2,schedule=1f1b"), (6, "cp=3,dp=2,zero=3")]),
    ("llama", [(5, "cp=5,cp_by=keys"), (6, "cp=3,tp=2,sp=on")])])
def test_it_is_exact(tmp_path, model, plans):
    """32 tokens become 36 for three ranks and 40 for five. Keys are grouped and turned; targets are smoothed."""
    flags, data = [*CPU, "--label-smoothing", 0.1], ragged(tmp_path, model)
    alone = trained(tmp_path, MODELS / f"{model}.onnx", 1, "dp=1", *flags, data=data)
    for devices, plan in plans:
        compare(alone, trained(tmp_path, MODELS / f"{model}.onnx", devices, plan, *flags, data=data))
        about = json.loads(check_call("dtc", "inspect", tmp_path / "m.dtc", "--json").out)
        assert about["sequence"] == 32 and {tuple(each["shape"][1:]) for each in about["inputs"]} == {(32,)}


def test_odd_lengths_of_a_file_of_tokens(tmp_path):
    """15 tokens become 16, on processors and GPUs. There is a learned position for each of 15, and a token's bound is known."""
    path = llama_graph.write(tmp_path / "m.onnx", llama_graph.Llama(1, 64, 4, 2, 128, 61, 15), learned_positions=True)
    (numpy.arange(600) * 7 % 61).astype("u2").tofile(tmp_path / "tokens.bin")
    runs = [trained(tmp_path, path, devices, plan, *flags, "--init", data=tmp_path / "tokens.bin")
            for devices, plan, flags in ((1, "dp=1", CPU), (2, "cp=2", CPU), (4, "cp=4", CPU), (2, "cp=2", CUDA))]
    for run in runs[1:3]:
        compare(runs[0], run)
    assert numpy.allclose(runs[3][0], runs[0][0], rtol=1e-5)


def test_checkpoints_go_to_other_numbers_of_ranks(tmp_path):
    data, run = ragged(tmp_path, "gpt2"), ["--checkpoint-dir", tmp_path / "saved", "--resume"]
    whole = trained(tmp_path, MODELS / "gpt2.onnx", 1, "dp=1", data=data, steps=6)
    for steps, devices, plan in ((2, 3, "cp=3"), (4, 2, "cp=2"), (6, 5, "cp=5")):
        resumed = trained(tmp_path, MODELS / "gpt2.onnx", devices, plan, data=data, run=run, steps=steps)
    compare(whole, resumed)


def test_it_is_priced_and_told_apart(tmp_path):
    """Products of 36 tokens, of which four are padding: no part of the model's own. A saved plan is planned the same."""
    job = ["dtc", "plan", MODELS / "gpt2.onnx", "--cluster", "cpu", *CPU, *FLAGS, "--json", "--devices", 3, "--plan"]
    padded = json.loads(check_call(*job, "cp=3", "--save-plan", tmp_path / "p.yaml").out)
    alone, again = (json.loads(check_call(*job, plan).out) for plan in ("tp=3", tmp_path / "p.yaml"))
    assert again["predicted"] == padded["predicted"]
    flops = [each["predicted"]["model_tflops_per_device"] * each["predicted"]["step_time_s"] for each in (padded, alone)]
    assert flops[0] == pytest.approx(flops[1], rel=1e-9)
    share = padded["predicted"]["padding_tflops_per_device"] / padded["predicted"]["model_tflops_per_device"]
    assert 4 / 32 < share < (36 / 32) ** 2 - 1  # of rows, and of queries times keys
    assert padded["predicted"]["tokens_per_s_per_device"] * padded["predicted"]["step_time_s"] * 3 == pytest.approx(8 * 32, rel=1e-9)


def test_ranks_compute_what_one_computes(tmp_path):
    outcome = check_call("dtc", "compile", MODELS / "llama.onnx", "--devices", 3, "--plan", "cp=3", *CPU, *FLAGS, "--verify",
                         "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert "verified " in outcome.err


@pytest.mark.parametrize("model,why", [
    ("bert.onnx", "attention lets tokens see later ones"), ("t5.onnx", "the operation mixes tokens"),
    ("mixtral.onnx", "the operation isn't known to leave tokens apart")])
def test_what_can_not_be_padded_is_refused(tmp_path, model, why):
    """The line says which cp there can be, and a warning why no other one."""
    told = call("dtc", "compile", MODELS / model, "--devices", 3, "--plan", "cp=3", *CPU, *FLAGS, "-o", tmp_path / "m.dtc")
    assert told.code == 4 and told.error_line().endswith("not a multiple of cp: 3; on 3 devices cp can be 1")
    assert re.search(rf"warning: .*: node '\S+': the 32 tokens of a sample aren't padded for cp=3: {why}\n", told.err)


def test_tokens_of_the_model_itself_are_no_padding(tmp_path):
    """It repeats the last of 32 tokens. Ranks share the 32, as they would without the 33rd."""
    graph = llama_graph.Graph()
    graph.node("Slice", "last", "input_ids", "from", "to", "axis")
    graph.node("Concat", "more", "input_ids", "last", axis=1)
    graph.node("Slice", "own", "logits", "begin", "to", "axis")
    graph.lines += [f'initializer {{ name: "{name}" data_type: {llama_graph.INT64} dims: 1 int64_data: {value} }}'
                    for name, value in (("from", 31), ("to", 32), ("begin", 0), ("axis", 1))]
    first, *rest = llama_graph.text(llama_graph.Llama(1, 64, 4, 2, 128, 61, 33)).replace('input: "input_ids"', 'input: "more"').replace(
        'output { name: "logits"', 'output { name: "own"').replace("dim_value: 33", "dim_value: 32").splitlines()
    model = encode_model("\n".join([first, *graph.lines[:2], *rest[:-1], *graph.lines[2:], rest[-1]]), tmp_path / "m.onnx")
    check_call("dtc", "compile", model, "--devices", 2, "--plan", "cp=2", *CPU, *FLAGS, "--init", "-o", tmp_path / "m.dtc")
