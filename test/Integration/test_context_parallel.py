"""Context parallelism: ranks with a part of every sequence each, against PyTorch, one rank and the prediction."""

import json
import pathlib
import re

import numpy
import pytest
from safetensors.numpy import load_file

import llama_graph
from conftest import MODELS, case, check_call, compare_steps, part, reference
from test_cuda import CUDA, emulator  # noqa: F401 (a fixture that applies by itself)
from test_memory import arena_bytes, check_prediction

FLAGS = ["--loss", "cross_entropy", "--global-batch", 8]

# T5's update by Adam divides by gradients that are rounding alone (test_families.py).
PLANS = [
    ("gpt2", "clip_cosine", 4, "cp=4"),
    ("gpt2", "adamw", 4, "dp=2,cp=2,zero=3"),
    ("gpt2", "adamw", 4, "dp=2,cp=2,zero=1,micro_batch=1"),
    ("gpt2", "adamw", 4, "pp=2,cp=2,schedule=1f1b,micro_batch=1"),
    ("gpt2", "adamw", 4, "cp=2,tp=2,sp=on,recompute=full"),
    ("llama", "adamw", 4, "cp=2,tp=2,sp=off"),  # grouped keys and values, rotary embeddings
    ("llama", "adamw", 2, "cp=2,recompute=selective"),
    ("llama", "adamw", 4, "pp=2,cp=2,zero=3,schedule=zb,micro_batch=1,recompute=full"),
    ("bert", "adamw", 4, "dp=2,cp=2"),  # every token sees all others but the padding
    ("bart", "adamw", 2, "cp=2"),       # keys of another sequence
    ("t5", "sgd", 4, "cp=4"),           # biases by distance
    ("qwen2", "adamw", 4, "cp=4"),
    ("mistral", "adamw", 4, "cp=4"),    # windows that begin with the keys of a rank before
    ("mistral", "adamw", 2, "cp=2,cp_by=heads,recompute=full"),
    ("gpt2", "adamw", 4, "dp=2,cp=2,cp_by=heads,zero=1"),
    ("llama", "adamw", 4, "cp=2,tp=2,cp_by=heads"),  # keys have a head on each rank of tp, so queries' are exchanged
    ("t5", "sgd", 2, "cp=2,cp_by=heads"),
    ("llama", "adamw", 4, "cp=2,tp=2,sp=on,regather=on"),
    ("gpt2", "clip_cosine", 4, "cp=4,cp_by=ring"),
    ("llama", "adamw", 4, "cp=2,tp=2,cp_by=ring"),
    ("llama", "adamw", 4, "pp=2,cp=2,zero=3,schedule=zb,micro_batch=1,cp_by=ring"),
    ("gpt2", "adamw", 4, "dp=2,cp=2,cp_by=ring,zero=1,recompute=full"),
    ("bart", "adamw", 2, "cp=2,cp_by=ring"),  # keys of another sequence
    ("qwen2", "adamw", 4, "cp=4,cp_by=ring"),
    ("llama", "adamw", 4, "cp=2,tp=2,sp=on,cp_by=ring,recompute=selective"),  # tp cuts a rank's two chunks
    ("moe", "adamw", 4, "cp=2,ep=2,cp_by=keys,regather=on"),  # cp sums up what ep exchanges, and nothing waits between
]


@pytest.mark.parametrize("model,recipe,devices,plan", PLANS)
def test_trains_as_pytorch_does(trainer, model, recipe, devices, plan):
    expected = reference(model, recipe)
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("plan", ["cp=2,recompute=full", "cp=2,cp_by=ring"])
def test_gpus_train_as_pytorch_does(trainer, plan):
    expected = reference("llama", "adamw")
    run = trainer.train("llama", "llama", *CUDA, *expected["flags"], devices=2, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


def test_bf16(trainer):
    expected = reference("llama", "bf16")
    run = trainer.train("llama", "llama", *expected["flags"], devices=4, plan="dp=2,cp=2")
    compare_steps(run, expected, loss=2e-3, norm=5e-2)


@pytest.mark.parametrize("model,plan", part([
    ("gpt2", "cp=2,tp=2"), ("llama", "cp=2,dp=2,zero=3"), ("bert", "cp=4"), ("t5", "cp=2,tp=2"), ("bart", "cp=4"), ("mistral", "cp=2,tp=2"),
    ("gpt2_mask", "cp=2,dp=2"), ("gpt2", "cp=2,dp=2,recompute=full"), ("bart", "cp=4,cp_by=heads"),
    ("llama", "cp=2,tp=2,cp_by=heads,regather=on"), ("gpt2", "cp=4,cp_by=ring"),
    ("llama", "cp=2,dp=2,cp_by=ring,zero=3,recompute=full"), ("bart", "cp=2,tp=2,cp_by=ring")]))
def test_ranks_compute_what_one_computes(tmp_path, model, plan):
    """Every gradient and one update, by the reference interpreter."""
    outcome = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", 4, *FLAGS, "--plan", plan,
                         "--clip-grad-norm", 1, "--verify", "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert "verified " in outcome.err


@pytest.mark.parametrize("model,devices,plan,precision", [
    ("gpt2", 4, "dp=2,cp=2,zero=1,micro_batch=1", "fp32"), ("llama", 4, "tp=2,cp=2", "bf16"), ("bert", 2, "cp=2", "fp32"), ("mistral", 2, "cp=2", "fp32"),
    ("t5", 2, "cp=2", "fp32"), ("gpt2", 2, "cp=2,cp_by=heads", "fp32"), ("llama", 2, "cp=2,regather=on", "fp32"),
    ("gpt2", 2, "cp=2,recompute=selective", "fp32"), ("gpt2", 2, "cp=2,cp_by=ring", "fp32"),
    ("gpt2", 4, "cp=4,cp_by=ring,recompute=full", "fp32"), ("llama", 4, "tp=2,cp=2,cp_by=ring", "bf16"),
    ("llama", 4, "cp=4,cp_by=ring", "fp32")])
def test_memory_is_what_was_predicted(model, devices, plan, precision):
    check_prediction(MODELS / f"{model}.onnx", "--devices", devices, "--target", "cpu", "--plan", plan, *FLAGS,
                     "--precision", precision)


def sent_and_priced(folder, model: str, devices: int, plan: str, *flags: object) -> tuple[dict, dict]:
    """How many collectives of each kind a compiled step has, and how many of them are priced."""
    arguments = [MODELS / f"{model}.onnx", "--devices", devices, *FLAGS, "--plan", plan, *flags]
    check_call("dtc", "compile", *arguments, "-o", folder / "model.dtc")
    sent = json.loads(check_call("dtc", "inspect", folder / "model.dtc", "--json").out)["collectives"]
    priced = dict.fromkeys(sent, 0)
    for use in json.loads(check_call("dtc", "plan", *arguments, "--json").out)["collectives"]:
        priced[use["kind"]] += use["count"]
    # How many targets count is priced among dp's ranks alone. A ring's ranks read all of them.
    priced["all_reduce"] += "cp" in plan and "ring" not in plan and "dp=2" not in plan
    return sent, priced


@pytest.mark.parametrize("model,plan", [
    ("gpt2", "cp=2,cp_by=keys"), ("llama", "cp=2,cp_by=keys,recompute=selective"), ("llama", "cp=2,cp_by=keys,recompute=full"),
    ("gpt2", "cp=2,cp_by=heads"), ("gpt2", "cp=2,cp_by=keys,regather=on"), ("gpt2", "tp=2,sp=on,regather=on"),
    ("gpt2", "cp=2,cp_by=ring"), ("llama", "cp=2,cp_by=ring,recompute=selective"), ("llama", "cp=2,cp_by=ring,recompute=full")])
def test_what_is_priced_is_what_is_sent(tmp_path, model, plan):
    """Keys and values are gathered, and their gradients summed up in parts. Heads of queries, keys, values and results are
    exchanged in both passes of two layers. What is gathered again is gathered in both passes. In a ring of two ranks keys and
    values are passed on once in either pass, their gradients once, and all of it again for a forward pass that is recomputed."""
    sent, priced = sent_and_priced(tmp_path, model, 2, plan, "--cluster", "cpu")
    assert sent == priced
    if "heads" in plan:
        assert (sent["all_to_all"], sent["all_gather"], sent["reduce_scatter"]) == (16, 1, 0)  # 1: of positions' gradient
    elif "ring" in plan:
        assert sent["permute"] == (16 if "full" in plan else 12)
    else:
        assert sent["all_gather"] >= (4 if plan == "cp=2,cp_by=keys" else 8) and sent["reduce_scatter"] >= 4


@pytest.mark.parametrize("model,devices,plan", [
    ("bert", 2, "cp=2"), ("bert", 2, "cp=2,cp_by=heads"), ("bert", 4, "cp=4"),  # a bias that repeats a mask
    ("llama", 2, "dp=2,zero=3"), ("gpt2", 2, "dp=2,zero=3,recompute=full"), ("gpt2", 4, "dp=2,tp=2,zero=3,micro_batch=2"),
    ("llama", 4, "cp=2,dp=2,zero=3,micro_batch=2"), ("mixtral", 4, "dp=2,ep=2,zero=3"), ("bert", 2, "dp=2,zero=2")])
def test_what_is_priced_is_what_is_sent_of_masks_and_parameters(tmp_path, model, devices, plan):
    """A mask is gathered before it is repeated. Each pass gathers what it reads of a block's parameters, by one call."""
    sent, priced = sent_and_priced(tmp_path, model, devices, plan, "--cluster", "cpu")
    assert sent == priced


@pytest.mark.parametrize("model,devices", [case(True, "gpt2", 4), case(False, "llama", 2), case(True, "bart", 2)])
def test_one_call_of_attention_exchanges_nothing_again(tmp_path, model, devices):
    """It keeps nothing inside that a selective block could compute again."""
    plan = f"cp={devices},dp=1,cp_by=heads,recompute="
    flags = ["--target", "cuda", "--precision", "bf16"]
    sent, priced = sent_and_priced(tmp_path, model, devices, plan + "selective", *flags)
    kept, _ = sent_and_priced(tmp_path, model, devices, plan + "none", *flags)
    assert sent["all_to_all"] == priced["all_to_all"] == kept["all_to_all"]


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_decomposed_attention_exchanges_again_as_priced(tmp_path, model):
    """No library takes fp32, so that scores are kept inside, or computed again from heads that are exchanged once more."""
    sent, priced = sent_and_priced(tmp_path, model, 2, "cp=2,dp=1,cp_by=heads,recompute=selective", "--target", "cuda")
    assert sent["all_to_all"] == priced["all_to_all"] > 16


WHOLE = re.compile(r"tensor<([0-9x]+)xf32>")


def test_parameters_are_gathered_as_priced():
    """In seven calls: the embedding, two layers and the head before their forward pass, and all but the first before the other."""
    flags = [MODELS / "llama.onnx", "--devices", 2, "--cluster", "cpu", *FLAGS, "--plan", "dp=2,zero=3"]
    program = check_call("dtc", "compile", *flags, "--target", "cpu", "--emit", "partition").out
    calls = [line.rsplit("->", 1)[1] for line in program.splitlines() if "dist.all_gather" in line]
    sent = sum(4 * numpy.prod([int(dim) for dim in shape.split("x")]) for call in calls for shape in WHOLE.findall(call))
    uses = [use for use in json.loads(check_call("dtc", "plan", *flags, "--json").out)["collectives"] if use["kind"] == "all_gather"]
    assert len(calls) == sum(use["count"] for use in uses) == 7
    assert sum(use["count"] * use["bytes"] for use in uses) == pytest.approx(sent, rel=1e-3)


@pytest.mark.parametrize("plan", ["cp=2,cp_by=keys", "tp=2,sp=on"])
def test_what_is_gathered_again_is_not_kept(plan):
    flags = [MODELS / "llama.onnx", "--devices", 2, "--target", "cpu", *FLAGS]
    kept, again = (arena_bytes(*flags, "--plan", f"{plan},regather={value}") for value in ("off", "on"))
    assert again < 0.97 * kept


def test_a_ring_holds_parts_alone(tmp_path):
    """Of keys and values two parts of four, and no scores between the passes."""
    path = tmp_path / "model.onnx"
    llama_graph.write(path, llama_graph.Llama(2, 64, 4, 4, 128, 256, 512))
    flags = [path, "--devices", 4, "--target", "cpu", *FLAGS, "--plan"]
    gathered, ring = (arena_bytes(*flags, f"cp=4,cp_by={by}") for by in ("keys", "ring"))
    assert ring < 0.45 * gathered
    check_prediction(*flags, "cp=4,cp_by=ring")


def sequence_of(model: str | pathlib.Path, plan: str, devices: int) -> dict:
    file = model if isinstance(model, pathlib.Path) else MODELS / f"{model}.onnx"
    return json.loads(check_call("dtc", "plan", file, "--devices", devices, "--cluster", "cpu", *FLAGS,
                                 "--plan", plan, "--json").out)["sequence"]


@pytest.mark.parametrize("cp", [2, 4])
def test_ranks_compute_no_hidden_keys_of_others(cp):
    """All ranks have one program, in which a step computes half of the scores with another rank's keys."""
    plan = f"cp={cp},cp_by=ring"
    program = check_call("dtc", "compile", MODELS / "llama.onnx", "--devices", cp, *FLAGS, "--plan", plan,
                         "--emit", "partition").out
    scores = re.findall(r"dtc.attention .* : tensor<\d+x(\d+)x\d+x\d+xf32>, tensor<\d+x(\d+)x", program)
    pairs = [int(queries) * int(keys) for queries, keys in scores]
    own = max(pairs)
    assert len(pairs) == 2 * (2 * cp - 1) and sum(pairs) == 2 * (own + (cp - 1) * own // 2)  # two layers
    assert "dist.zigzag" in program
    assert sequence_of("llama", plan, cp) == {"zigzag": True, "why_in_order": None}


def test_tokens_keep_their_order_where_nothing_is_hidden():
    assert sequence_of("t5", "cp=2,cp_by=ring", 2) == {"zigzag": False, "why_in_order": "no attention has a causal mask"}
    assert sequence_of("gpt2", "cp=2,cp_by=keys", 2) is None


def test_a_table_of_all_positions_keeps_tokens_in_order(tmp_path):
    """Each rank has its own rows of it, which enter in order; a compiler that put them in zig-zag ended in an error."""
    path = llama_graph.write(tmp_path / "m.onnx", llama_graph.Llama(1, 16, 2, 2, 32, 64, 8), learned_positions=True)
    assert sequence_of(path, "cp=2,cp_by=ring", 2) == {"zigzag": False, "why_in_order": "it has a row for each position: positions"}
    (numpy.arange(600) % 61).astype("u2").tofile(tmp_path / "tokens.bin")
    losses = []
    for devices, plan in ((1, "dp=1"), (2, "cp=2,cp_by=ring"), (2, "cp=2,cp_by=ring,micro_batch=2,recompute=full")):
        check_call("dtc", "compile", path, "--devices", devices, "--plan", plan, *FLAGS, "--init", "--lr", 0.1, "-o", tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "tokens.bin", "--steps", 4, "--log", tmp_path / "log")
        losses.append([json.loads(line)["loss"] for line in (tmp_path / "log").read_text().splitlines()])
    assert numpy.allclose(losses[1:], losses[0], rtol=1e-5) and numpy.ptp(losses[0]) > 0.1


def test_attention_with_a_bias_gathers_beside_a_ring():
    program = check_call("dtc", "compile", MODELS / "t5.onnx", "--devices", 2, *FLAGS, "--plan", "cp=2,dp=1,cp_by=ring",
                         "--emit", "partition").out
    assert "dist.permute" in program and "dist.all_gather" in program


def trained(tmp_path, plan: str, devices: int, *flags: object) -> tuple[list, dict]:
    artifact, log, weights = (tmp_path / f"{plan}.{suffix}" for suffix in ("dtc", "jsonl", "safetensors"))
    if not artifact.exists():
        check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", devices, *FLAGS, "--optimizer", "sgd",
                   "--lr", 0.1, "--plan", plan, "-o", artifact)
    check_call("dtc-run", artifact, *flags, "--log", log, "--save-weights", weights)
    return [json.loads(line) for line in log.read_text().splitlines()], load_file(weights)


def test_parts_of_a_text(tmp_path):
    """Targets are the next tokens, also where a rank's part ends."""
    flags = ["--data", MODELS / "text.bin", "--steps", 4]
    (whole, weights), (parts, theirs) = trained(tmp_path, "dp=1", 1, *flags), trained(tmp_path, "cp=4", 4, *flags)
    for key in ("loss", "grad_norm"):
        assert numpy.allclose([line[key] for line in parts], [line[key] for line in whole], rtol=1e-5)
    tokens = [line["tokens_per_s"] * line["step_time_s"] for line in whole + parts]
    assert numpy.allclose(tokens, 8 * 32)
    assert all(numpy.allclose(theirs[name], weight, atol=1e-5) for name, weight in weights.items())


def test_processes_give_the_bits_of_threads(tmp_path):
    flags = ["--data", MODELS / "text.bin", "--steps", 3]
    threads, weights = trained(tmp_path, "cp=2", 2, *flags)
    processes, theirs = trained(tmp_path, "cp=2", 2, *flags, "--processes")
    assert [line["loss"] for line in processes] == [line["loss"] for line in threads]
    assert all(theirs[name].tobytes() == weight.tobytes() for name, weight in weights.items())


@pytest.mark.parametrize("saved,loaded", [("cp=2", "dp=1"), ("dp=1", "cp=2")])
def test_other_plans_go_on_with_its_checkpoints(tmp_path, saved, loaded):
    flags = ["--data", MODELS / "gpt2.data.safetensors", "--no-shuffle", "--steps"]
    devices = {"dp=1": 1, "cp=2": 2}
    straight, _ = trained(tmp_path, loaded, devices[loaded], *flags, 4)
    resume = ["--checkpoint-dir", tmp_path / "saved"]
    trained(tmp_path, saved, devices[saved], *flags, 2, *resume)
    resumed, _ = trained(tmp_path, loaded, devices[loaded], *flags, 4, *resume, "--resume")
    for key in ("loss", "grad_norm"):
        assert numpy.allclose([line[key] for line in resumed][-2:], [line[key] for line in straight][-2:], rtol=1e-4)


@pytest.mark.parametrize("model", ["gpt2", "bert"])
def test_outputs_are_put_together(tmp_path, model):
    outputs = []
    for plan in ("dp=1", "cp=2"):
        artifact, written = tmp_path / f"{plan}.dtc", tmp_path / f"{plan}.safetensors"
        check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", 1 + ("cp" in plan), "--plan", plan,
                   "--loss", "none", "--global-batch", 8, "-o", artifact)
        check_call("dtc-run", artifact, "--data", MODELS / f"{model}.data.safetensors", "--outputs", written)
        outputs.append(load_file(written))
    assert outputs[0].keys() == outputs[1].keys()
    for name, output in outputs[0].items():
        assert numpy.allclose(outputs[1][name], output, rtol=1e-4, atol=1e-5), name


def test_a_saved_plan_is_compiled(tmp_path):
    """Whole, and by its settings alone."""
    saved, artifact = tmp_path / "plan.yaml", tmp_path / "gpt2.dtc"
    job = [MODELS / "gpt2.onnx", "--devices", 2, *FLAGS]
    check_call("dtc", "compile", *job, "--plan", "cp=2", "--save-plan", saved, "-o", artifact)
    first = artifact.read_bytes()
    check_call("dtc", "compile", *job, "--plan", saved, "-o", artifact)
    assert artifact.read_bytes() == first
