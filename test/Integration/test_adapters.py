"""Adapters (LoRA): against NumPy under many plans; what is trained, saved and loaded."""

import json

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, call, check_call, encode_model
from perceptron import HIDDEN, INPUTS, RATE, Perceptron, compare, log_of, model, tensors, train

LORA = ("--lora", "rank=2,alpha=8,targets=w1")


def save_adapters(folder, steps, name, form="adapters"):
    check_call("dtc-run", folder / "m.dtc", "--data", folder / "data.safetensors", "--no-shuffle", "--steps", steps,
               "--save-weights", f"{form}={folder / name}")
    return load_file(folder / name) if form != "peft" else folder / name


@pytest.mark.parametrize("devices,plan", [
    (1, "dp=1"), (2, "dp=2,zero=3"), (2, "tp=2"), (4, "dp=2,tp=2,zero=1,micro_batch=2"), (2, "pp=2,micro_batch=4")])
def test_adapters(tmp_path, devices, plan):
    """A is drawn, B is 0, and the model stays as it was; the adapters are saved alone."""
    log = train(tmp_path, LORA, devices=devices, plan=plan)
    whole = load_file(tmp_path / "weights.safetensors")
    assert sorted(whole) == ["w1.lora_A.weight", "w1.lora_B.weight", "w1.weight", "w2.weight"]
    for name, array in tensors().items():
        assert (whole[name] == array).all()
    one = save_adapters(tmp_path, 1, "one.safetensors")
    assert {name: array.shape for name, array in one.items()} == {
        "w1.lora_A.weight": (2, INPUTS), "w1.lora_B.weight": (HIDDEN, 2)}
    # B is 0 at first, so the first step leaves A as it was drawn.
    first = one["w1.lora_A.weight"].astype("f8")
    assert 0.05 < first.std() < 0.6
    perceptron = Perceptron(adapter={"A": first, "B": numpy.zeros((HIDDEN, 2)), "factor": 4.0})
    compare(log, perceptron)
    for key in ("A", "B"):
        assert numpy.allclose(whole[f"w1.lora_{key}.weight"], perceptron.adapter[key], atol=2e-6)


def test_adapters_go_on_from_a_file(tmp_path):
    train(tmp_path, LORA)
    before = save_adapters(tmp_path, 4, "saved.safetensors")
    train(tmp_path, (*LORA, "--weights", tmp_path / "saved.safetensors"), rate=0)
    after = save_adapters(tmp_path, 1, "again.safetensors")
    assert sorted(after) == sorted(before)
    for name, array in before.items():
        assert (after[name] == array).all()


def test_adapters_are_merged_into_the_model(tmp_path):
    """Into weights that are [in, out], under the names of the model alone."""
    train(tmp_path, LORA, devices=2, plan="tp=2")
    adapters, merged = save_adapters(tmp_path, 4, "a.safetensors"), save_adapters(tmp_path, 4, "m.safetensors", "merged")
    assert sorted(merged) == sorted(tensors())
    added = 4.0 * (adapters["w1.lora_B.weight"].astype("f8") @ adapters["w1.lora_A.weight"].astype("f8")).T
    assert abs(added).max() > 1e-3
    assert numpy.allclose(merged["w1.weight"], tensors()["w1.weight"] + added, rtol=0, atol=2e-7)
    assert (merged["w2.weight"] == tensors()["w2.weight"]).all()


@pytest.mark.parametrize("export,data,targets", [("gpt2", "gpt2", "c_attn|c_proj"), ("mlp", "mlp", "fc")])
def test_weights_of_other_layouts_are_merged(tmp_path, export, data, targets):
    """GPT-2's are [in, out] and seen by heads, those of the perceptron [out, in]; what is merged needs no adapters."""
    compiled = ("--loss", "cross_entropy", "--global-batch", 8, "--devices", 2, "--plan", "tp=2")
    check_call("dtc", "compile", MODELS / f"{export}.onnx", *compiled, "--lora", f"rank=2,alpha=64,targets={targets}",
               "--optimizer", "sgd", "--lr", 0.1, "-o", tmp_path / "m.dtc")
    run = ("dtc-run", tmp_path / "m.dtc", "--data", MODELS / f"{data}.data.safetensors", "--no-shuffle")
    check_call(*run, "--steps", 3, "--log", tmp_path / "log.jsonl", "--save-weights", f"merged={tmp_path}/merged.safetensors")
    check_call(*run, "--steps", 3, "--save-weights", tmp_path / "both.safetensors")
    both, merged = load_file(tmp_path / "both.safetensors"), load_file(tmp_path / "merged.safetensors")
    changed = {name for name in merged if (merged[name] != both[name]).any()}
    assert changed == {name.replace(".lora_A", "") for name in both if ".lora_A" in name} and changed
    # One more step from the adapters has the loss that the merged model has.
    check_call(*run, "--steps", 4, "--log", tmp_path / "log.jsonl")
    check_call("dtc", "compile", MODELS / f"{export}.onnx", "--weights", tmp_path / "merged.safetensors", *compiled, "-o",
               tmp_path / "merged.dtc")
    data = {name: numpy.roll(array, -24, axis=0) for name, array in load_file(MODELS / f"{data}.data.safetensors").items()}
    save_file(data, tmp_path / "rolled.safetensors")
    check_call("dtc-run", tmp_path / "merged.dtc", "--data", tmp_path / "rolled.safetensors", "--no-shuffle", "--steps", 1,
               "--log", tmp_path / "merged.jsonl")
    losses = [line["loss"] for line in log_of(tmp_path / "log.jsonl")]
    assert log_of(tmp_path / "merged.jsonl")[0]["loss"] == pytest.approx(losses[3], rel=2e-6)
    assert losses[3] != pytest.approx(losses[0], rel=1e-3)


@pytest.mark.parametrize("devices,plan", [(1, "dp=1"), (2, "tp=2"), (2, "pp=2,micro_batch=4")])
def test_a_weight_that_is_read_transposed_too(tmp_path, devices, plan):
    """As of encoders and decoders that share one: both products have the sum that is merged. It is square, so no size tells them apart."""
    draw = numpy.random.default_rng(4)
    data = {"x": draw.normal(size=(32, 6)).astype("f4"), "target": draw.integers(0, 6, 32)}
    before = draw.normal(0, 0.6, (6, 6)).astype("f4")
    save_file(data, tmp_path / "data.safetensors")
    rows = '{{ name: "{}" type {{ tensor_type {{ elem_type: 1 shape {{ dim {{ dim_value: 8 }} dim {{ dim_value: 6 }} }} }} }} }}'
    values = " ".join(f"float_data: {value}" for value in before.flatten())
    encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "shared"
        input {rows.format("x")} output {rows.format("y")} initializer {{ name: "w" data_type: 1 dims: 6 dims: 6 {values} }}
        node {{ op_type: "MatMul" input: "x" input: "w" output: "h" }} node {{ op_type: "Tanh" input: "h" output: "a" }}
        node {{ op_type: "Transpose" input: "w" output: "t" attribute {{ name: "perm" type: INTS ints: 1 ints: 0 }} }}
        node {{ op_type: "MatMul" input: "a" input: "t" output: "y" }} }}""", tmp_path / "m.onnx")
    check_call("dtc", "compile", tmp_path / "m.onnx", "--devices", devices, "--plan", plan, "--loss", "cross_entropy", "--global-batch",
               8, "--optimizer", "sgd", "--lr", RATE, "--lora", "rank=2,alpha=8", "-o", tmp_path / "m.dtc")
    merged = save_adapters(tmp_path, 3, "merged", "merged")["w"].astype("f8")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle", "--steps", 4, "--log",
               tmp_path / "log")
    logits = numpy.tanh(data["x"][24:].astype("f8") @ merged) @ merged.T
    expected = numpy.log(numpy.exp(logits).sum(1)) - logits[numpy.arange(8), data["target"][24:]]
    assert log_of(tmp_path / "log")[3]["loss"] == pytest.approx(expected.mean(), rel=2e-6)
    assert abs(merged - before).max() > 0.01


def test_what_is_looked_up_is_not_merged(tmp_path):
    """GPT-2's last product has an adapter, and its weight is the table of tokens, too: added to it, that would change as well."""
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--global-batch", 8, "--devices", 1,
               "--lora", "rank=2,targets=lm_head|c_fc", "-o", tmp_path / "m.dtc")
    for form, message in (("merged", "can't add an adapter to a weight that is looked up"),
                          ("peft", "no place for the adapter of a weight that is looked up")):
        refused = call("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "text.bin", "--steps", 1, "--save-weights",
                       f"{form}={tmp_path / form}")
        assert refused.code == 2, refused.err
        assert message in refused.error_line() and refused.error_line().endswith("m.lm_head.weight")
        assert not (tmp_path / form).exists()
    check_call("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "text.bin", "--steps", 1, "--save-weights",
               f"adapters={tmp_path}/a.safetensors")
    assert "m.lm_head.lora_A.weight" in load_file(tmp_path / "a.safetensors")


def test_adapters_in_the_layout_of_peft(tmp_path):
    train(tmp_path, LORA)
    adapters, folder = save_adapters(tmp_path, 4, "a.safetensors"), save_adapters(tmp_path, 4, "peft", "peft")
    stored = load_file(folder / "adapter_model.safetensors")
    assert sorted(stored) == ["base_model.model.w1.lora_A.weight", "base_model.model.w1.lora_B.weight"]
    for name, array in adapters.items():
        assert (stored[f"base_model.model.{name}"] == array).all()
    config = json.loads((folder / "adapter_config.json").read_text())
    assert {key: config[key] for key in ("peft_type", "r", "lora_alpha", "target_modules", "fan_in_fan_out", "bias")} == {
        "peft_type": "LORA", "r": 2, "lora_alpha": 8.0, "target_modules": ["w1"], "fan_in_fan_out": True, "bias": "none"}


def test_only_adapters_have_states(tmp_path):
    """A transformer's, in a checkpoint; a run that goes on from there is the one that wasn't stopped."""
    compiled = check_call(
        "dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--global-batch", 8, "--devices", 4, "--plan",
        "dp=2,tp=2,zero=1", "--lora", "rank=2,targets=c_attn|c_fc|wpe", "--verify", "-o", tmp_path / "m.dtc")
    assert "gets no adapter, as no product reads it: m.transformer.wpe.weight" in compiled.err
    run = ("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "text.bin", "--checkpoint-dir", tmp_path / "saved")
    check_call(*run[:4], "--steps", 4, "--log", tmp_path / "whole.jsonl")
    check_call(*run, "--steps", 2, "--log", tmp_path / "log.jsonl")
    check_call(*run, "--steps", 4, "--log", tmp_path / "log.jsonl", "--resume")
    resumed, whole = ([line["loss"] for line in log_of(tmp_path / f"{name}.jsonl")] for name in ("log", "whole"))
    assert resumed == whole and len(set(whole)) == 4
    content = json.loads((tmp_path / "saved" / "step-2" / "checkpoint.json").read_text())["content"]
    states = {tensor["name"] for tensor in content["tensors"] if tensor["state"]}
    assert len(states) == 8 and all(".lora_" in name for name in states)


@pytest.mark.parametrize("flags,code,message", [
    (("--lora", "alpha=2"), 2, "without a rank"),
    (("--lora", "rank=2,beta=1"), 2, "'beta=1'"),
    (("--lora", "rank=2,alpha=0"), 2, "'alpha=0'"),
    (("--lora", "rank=2,targets=("), 2, "missing"),
    (("--lora", "rank=2,targets=w7"), 3, "no product with a trainable weight to adapt that matches: w7"),
    (("--lora", "rank=2", "--loss", "none"), 2, "--lora is for training"),
])
def test_refusals(tmp_path, flags, code, message):
    loss = () if "--loss" in flags else ("--loss", "cross_entropy")
    refused = call("dtc", "compile", model(tmp_path / "model.onnx"), *loss, *flags, "-o", tmp_path / "m.dtc")
    assert refused.code == code, refused.err
    assert message in refused.error_line()
    assert not (tmp_path / "m.dtc").exists()


def test_no_adapters_to_save(tmp_path):
    train(tmp_path)
    refused = call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--steps", 1, "--save-weights",
                   f"adapters={tmp_path}/a.safetensors")
    assert refused.code == 2
    assert f"{tmp_path}/m.dtc: trains no adapters" in refused.error_line()
    for value, message in (("adapters=", "adapters= needs a path"), ("peft=", "peft= needs a path"),
                           (f"merged={tmp_path}/a.safetensors", "trains no adapters"),
                           (f"peft={tmp_path}/a", "trains no adapters")):
        refused = call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--save-weights", value)
        assert refused.code == 2
        assert message in refused.error_line()
