"""Features of an MLP and heads that tensor parallelism doesn't divide are padded: against PyTorch, and in weights and checkpoints."""

import json
import re

import numpy
import pytest
from safetensors.numpy import load_file, save_file

import llama_graph
from conftest import MODELS, call, case, check_call, compare_steps, reference
from test_context_parallel import sent_and_priced
from test_cuda import emulator  # noqa: F401 (a fixture that applies by itself)
from test_memory import check_prediction
from test_training import compare_weights

FLAGS = ["--loss", "cross_entropy", "--global-batch", 6, "--clip-grad-norm", 1.0]


def widths(export: str, plan: str, devices: int) -> set[int]:
    """How many features the first layer's MLP has in memory, on all ranks."""
    emitted = check_call("dtc", "compile", MODELS / f"{export}.onnx", "--devices", devices, "--plan", plan, *FLAGS,
                         "--emit", "train").out
    weight = re.compile(r'@"?\S*0\.mlp\.(?:c_proj|down_proj)\.weight"? : tensor<(\d+)x(\d+)xf32> ')
    return {max(map(int, found)) for found in weight.findall(emitted)}


@pytest.mark.parametrize("export,devices,plan,width", [
    ("gpt2", 3, "tp=3", 258), ("llama", 3, "tp=3", 177), ("gpt2", 2, "tp=2", 256), ("llama", 2, "tp=2", 176), ("gpt2", 3, "dp=3", 256)])
def test_what_divides_stays(export, devices, plan, width):
    assert widths(export, plan, devices) == {width}


def padded(folder, export: str, *flags: object, devices: int = 3, plan: str = "tp=3") -> set[str]:
    """What the plan's step has more of than files: parameters of the first layer."""
    check_call("dtc", "plan", MODELS / f"{export}.onnx", "--devices", devices, "--plan", plan, "--cluster", "cpu", "--target", "cpu",
               *FLAGS, *flags, "--save-plan", folder / "plan.yaml")
    return set(re.findall(r"\{name: \S*\.0\.(\S+), dim: \d\}", (folder / "plan.yaml").read_text().partition("padded:")[2]))


@pytest.mark.parametrize("export,names", [
    ("gpt2", {"attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight"}),  # a fused projection
    ("llama", {f"self_attn.{name}_proj.weight" for name in "qkvo"})])  # two queries share a head of keys
def test_heads_are_padded_where_that_is_faster(tmp_path, export, names):
    assert names < padded(tmp_path, export)
    assert not padded(tmp_path, export, "--eps", 0)
    assert not padded(tmp_path, export, devices=2, plan="tp=2")


@pytest.mark.parametrize("model,recipe", [("qwen2", "adamw"), ("gpt_neox", "adamw"), ("mistral", "sgd"), ("gpt2", "bf16"), ("t5", "sgd")])
def test_heads_of_other_models(trainer, tmp_path, model, recipe):
    """Biases of projections and of scores; keys and values beside the queries of each head; windows; and half precision."""
    expected = reference(model, recipe)
    names = padded(tmp_path, model, *expected["flags"])
    assert any("attention" in name.lower() or "attn" in name for name in names)
    assert ("SelfAttention.relative_attention_bias.weight" in names) == (model == "t5")
    run = trainer.train(model, model, *expected["flags"], devices=3, plan="tp=3")
    compare_steps(run, expected, **({"loss": 2e-2, "norm": 5e-2} if recipe == "bf16" else {"loss": 1e-4, "norm": 1e-3}))


@pytest.mark.parametrize("model,devices,plan", [
    ("gpt2", 3, "tp=3"), ("llama", 3, "tp=3"), ("gpt2", 6, "dp=2,tp=3,zero=1"), ("llama", 6, "dp=2,tp=3,zero=3,micro_batch=2"),
    ("gpt2", 6, "pp=2,tp=3,dp=1,schedule=1f1b,micro_batch=2")])
def test_losses_and_norms_are_those_of_pytorch(trainer, model, devices, plan):
    """Gradients are clipped, so a norm that counted what is added would show in the losses, too."""
    expected = reference(model, "clip")
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_weights_are_those_of_pytorch(trainer, model):
    expected = reference(model, "adamw")
    run = trainer.train(model, model, *expected["flags"], devices=3, plan="tp=3")
    compare_weights(run, model, expected)


def test_checkpoints_and_weights_have_no_padding(tmp_path):
    """They go from a plan that pads to others and back, bitwise."""
    plans = {"three": (3, "tp=3"), "one": (1, "dp=1"), "six": (6, "dp=2,tp=3,zero=3")}
    for name, (devices, plan) in plans.items():
        check_call("dtc", "compile", MODELS / "llama.onnx", "--devices", devices, "--plan", plan, *FLAGS,
                   "-o", tmp_path / f"{name}.dtc")
    data, folder, saved = ["--data", MODELS / "llama.data.safetensors"], tmp_path / "c", []
    for name in ("three", "one", "six", "three", "six", "one"):
        saved.append(tmp_path / f"{len(saved)}.safetensors")
        check_call("dtc-run", tmp_path / f"{name}.dtc", *data, "--steps", 2, "--checkpoint-dir", folder, "--resume",
                   "--checkpoint-every", 1, "--save-weights", saved[-1])
        manifest = json.loads((folder / "step-2" / "checkpoint.json").read_text())["content"]
        assert {tuple(tensor["shape"]) for tensor in manifest["tensors"] if "up_proj" in tensor["name"]} == {(176, 64)}
        assert {tuple(tensor["shape"]) for tensor in manifest["tensors"] if "k_proj" in tensor["name"]} == {(32, 64)}
    assert len({path.read_bytes() for path in saved}) == 1
    assert load_file(saved[0])["m.model.layers.0.mlp.down_proj.weight"].shape == (64, 176)
    assert load_file(saved[0])["m.model.layers.0.self_attn.o_proj.weight"].shape == (64, 64)


@pytest.mark.parametrize("model", ["gpt2", "llama", "qwen2", "t5"])
def test_reports_have_the_models_own_figures(tmp_path, model):
    """Of products forward and backward, and of attention: as many as without padding, which stands beside them."""
    job = ["dtc", "plan", MODELS / f"{model}.onnx", "--devices", 3, "--cluster", "cpu", "--target", "cpu", *FLAGS, "--plan"]
    padded, own = (json.loads(check_call(*job, plan, "--json").out) for plan in ("tp=3", "dp=3"))
    assert padded["model"]["parameters"] == own["model"]["parameters"]
    assert own["model"]["padding"] == own["predicted"]["padding_tflops_per_device"] == 0 < padded["model"]["padding"]
    flops = [each["predicted"]["model_tflops_per_device"] * each["predicted"]["step_time_s"] for each in (padded, own)]
    assert flops[0] == pytest.approx(flops[1], rel=1e-9)
    beside = padded["predicted"]["padding_tflops_per_device"] / padded["predicted"]["model_tflops_per_device"]
    assert 0.05 < beside < 0.5
    text = check_call(*job, "tp=3", "--report", tmp_path / "page.html").out
    assert f": {own['model']['parameters']} parameters and {padded['model']['padding']} of padding, global batch 6" in text
    assert re.search(r"per device: \d+ tokens/s, [\d.e-]+ TFLOP/s; padding [\d.e-]+ TFLOP/s more\n", text)
    assert f"parameters and {padded['model']['padding']:,} of padding, trained on" in (tmp_path / "page.html").read_text()


def test_a_padded_vocabulary_is_not_counted_as_the_models(tmp_path):
    """1,021 classes become 1,024 for GPUs."""
    size = llama_graph.Llama(1, 64, 2, 2, 128, 1021, 16)
    path = llama_graph.write(tmp_path / "m.onnx", size)
    plan = json.loads(check_call("dtc", "plan", path, "--devices", 1, "--cluster", "dgx-h100", *FLAGS, "--json").out)
    assert plan["model"]["parameters"] == size.parameters and plan["model"]["padding"] == 3 * 64
    # Of 16 tokens the head's rows, forward and twice backward.
    wasted = plan["predicted"]["padding_tflops_per_device"] * plan["predicted"]["step_time_s"] * 1e12
    assert wasted == pytest.approx(3 * 2 * 6 * 16 * 3 * 64, rel=1e-6)


@pytest.mark.parametrize("smoothing,weighted", [case(False, 0.1, False), case(False, 0, True), case(True, 0.1, True)])
def test_classes_of_smoothed_and_weighted_losses(tmp_path, smoothing, weighted):
    """1,021 classes are 1,024 for two ranks, and those alone for one. A few have no weight."""
    path = llama_graph.write(tmp_path / "m.onnx", llama_graph.Llama(1, 64, 2, 2, 128, 1021, 16))
    (numpy.arange(2000) * 7 % 1021).astype("u2").tofile(tmp_path / "tokens.bin")
    save_file({"weights": numpy.linspace(-0.01, 2, 1021).clip(0).astype("f4")}, tmp_path / "classes.safetensors")
    flags = [path, "--target", "cpu", *FLAGS, "--init", "--optimizer", "sgd", "--lr", 0.5, "--label-smoothing", smoothing]
    flags += ["--class-weights", tmp_path / "classes.safetensors"] if weighted else []
    logs, weights = [], []
    for devices, plan in ((1, "dp=1"), (2, "tp=2,tp_weights=split"), (2, "dp=2,zero=3")):
        job = [*flags, "--devices", devices, "--plan", plan]
        emitted = check_call("dtc", "compile", *job, "--emit", "train").out
        assert (" : tensor<64x1024xf32> file tensor<64x1021xf32>" in emitted) == (devices == 2)
        check_call("dtc", "compile", *job, "-o", tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "tokens.bin", "--no-shuffle", "--steps", 4, "--log",
                   tmp_path / "log", "--save-weights", tmp_path / "w.safetensors")
        logs.append([[line["loss"], line["grad_norm"]] for line in map(json.loads, (tmp_path / "log").read_text().splitlines())])
        weights.append(load_file(tmp_path / "w.safetensors"))
    assert numpy.allclose(logs[1:], logs[0], rtol=1e-6) and numpy.ptp(logs[0], axis=0).min() > 0.01
    for name, weight in weights[0].items():
        assert all(numpy.allclose(other[name], weight, rtol=0, atol=1e-6) for other in weights[1:]), name


@pytest.mark.parametrize("export,data,name", [
    ("t5.onnx", "t5", "SelfAttention.relative_attention_bias.weight"), ("gpt2_dropout.pt2", "gpt2", "attn.c_attn.weight")])
def test_biased_and_dropped_scores(tmp_path, export, data, name):
    """Each head has its own bias by distance, or elements of each are dropped: the same ones under every plan."""
    logs, weights = [], []
    for devices, plan in ((1, "dp=1"), (3, "tp=3"), (6, "pp=2,tp=3,dp=1,schedule=1f1b,micro_batch=2")):
        flags = [MODELS / export, "--target", "cpu", "--devices", devices, *FLAGS, "--optimizer", "sgd", "--lr", 0.1, "--plan"]
        check_call("dtc", "plan", *flags, plan, "--save-plan", tmp_path / "plan.yaml")
        assert (f"{name}, dim: " in (tmp_path / "plan.yaml").read_text()) == (devices > 1)
        check_call("dtc", "compile", *flags, tmp_path / "plan.yaml", "-o", tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", MODELS / f"{data}.data.safetensors", "--no-shuffle", "--steps", 4,
                   "--log", tmp_path / "log", "--save-weights", tmp_path / "w.safetensors")
        logs.append([[line["loss"], line["grad_norm"]] for line in map(json.loads, (tmp_path / "log").read_text().splitlines())])
        weights.append(load_file(tmp_path / "w.safetensors"))
    assert numpy.allclose(logs[1:], logs[0], rtol=1e-6) and numpy.ptp(logs[0], axis=0).min() > 0.01
    for key, weight in weights[0].items():
        assert all(numpy.allclose(other[key], weight, rtol=0, atol=1e-6) for other in weights[1:]), key


@pytest.mark.parametrize("export,plan", [("gpt2.onnx", "tp=3"), ("gpt2.onnx", "dp=2,tp=3"), ("t5.onnx", "tp=3"), ("gpt2_dropout.pt2", "tp=3")])
def test_it_is_priced(tmp_path, export, plan):
    devices = 6 if "dp" in plan else 3
    if export == "gpt2.onnx":
        sent, priced = sent_and_priced(tmp_path, "gpt2", devices, plan, "--cluster", "cpu")
        assert sent == priced
    check_prediction(MODELS / export, "--devices", devices, "--target", "cpu", "--plan", plan, *FLAGS)


def test_ranks_compute_what_one_computes(tmp_path):
    outcome = check_call("dtc", "compile", MODELS / "llama.onnx", "--devices", 3, "--plan", "tp=3", *FLAGS, "--verify",
                         "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert "verified " in outcome.err


def test_gpus_compute_what_a_processor_does(tmp_path):
    """1,000 features become 1,008: 16-byte accesses for each of three ranks. The drawn weights are those of any plan."""
    path = llama_graph.write(tmp_path / "m.onnx", llama_graph.Llama(1, 64, 2, 2, 1000, 64, 16))
    (numpy.arange(600) % 61).astype("u2").tofile(tmp_path / "tokens.bin")
    losses, weights = [], []
    for target, devices, plan in (("cpu", 1, "dp=1"), ("cuda", 3, "tp=3"), ("cuda", 6, "dp=2,tp=3,zero=1")):
        flags = [path, "--target", target, "--devices", devices, "--plan", plan, *FLAGS, "--init", "--optimizer", "sgd", "--lr", 0.5]
        padded = "1008x64" in check_call("dtc", "compile", *flags, "--emit", "train").out
        assert padded == (target == "cuda")
        check_call("dtc", "compile", *flags, "-o", tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "tokens.bin", "--steps", 4, "--log", tmp_path / "log",
                   "--save-weights", tmp_path / "w.safetensors")
        losses.append([json.loads(line)["loss"] for line in (tmp_path / "log").read_text().splitlines()])
        weights.append(load_file(tmp_path / "w.safetensors"))
    assert numpy.allclose(losses[1:], losses[0], rtol=1e-5) and numpy.ptp(losses[0]) > 0.1
    for name, weight in weights[0].items():
        for other in weights[1:]:
            assert numpy.allclose(other[name], weight, rtol=1e-3, atol=1e-5), name


def test_nothing_is_padded_that_an_update_would_divide_by_zero(tmp_path):
    """Adam without an epsilon, all of whose weights have gradients: each step sees each of 61 tokens."""
    path = llama_graph.write(tmp_path / "m.onnx", llama_graph.Llama(1, 64, 4, 2, 1000, 61, 16))
    (numpy.arange(600) * 7 % 61).astype("u2").tofile(tmp_path / "tokens.bin")
    losses = []
    for devices, plan in ((1, "dp=1"), (3, "tp=3")):
        check_call("dtc", "compile", path, "--target", "cpu", "--devices", devices, "--plan", plan, *FLAGS, "--init", "--eps", 0,
                   "-o", tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "tokens.bin", "--no-shuffle", "--steps", 3,
                   "--log", tmp_path / "log")
        losses.append([json.loads(line)["loss"] for line in (tmp_path / "log").read_text().splitlines()])
    assert numpy.allclose(*losses, rtol=1e-5) and numpy.ptp(losses[0]) > 0.01


@pytest.mark.parametrize("plan,padded", [("auto", True), ("tp=3", True), ("tp=3,tp_weights=split", True), ("dp=3", False)])
def test_a_saved_plan_is_compiled_as_it_was_planned(tmp_path, plan, padded):
    """A search without pins takes tp=3, too: three ranks can't share 8 samples, nor 4 heads, but 6."""
    flags = [MODELS / "gpt2.onnx", "--devices", 3, "--target", "cpu", "--cluster", "cpu", "--loss", "cross_entropy",
             "--global-batch", 8 + (plan == "dp=3")]
    told = check_call("dtc", "plan", *flags, "--save-plan", tmp_path / "p.yaml", "--json", "--plan", plan)
    again = check_call("dtc", "plan", *flags, "--plan", tmp_path / "p.yaml", "--json")
    first, same = json.loads(told.out), json.loads(again.out)
    assert (first["plan"]["tp"] == 3) == padded
    assert same["predicted"] == first["predicted"]
    assert ("padded:" in (tmp_path / "p.yaml").read_text()) == padded
    emitted = check_call("dtc", "compile", *flags, "--plan", tmp_path / "p.yaml", "--emit", "train").out
    assert ("258x64" in emitted) == ("64x3x6x16" in emitted) == padded


@pytest.mark.parametrize("flags,wrong", [
    (["--eps", 0], None), ([], "- {name: nope, dim: 0}"), ([], "- {name: m.model.norm.weight, dim: 0}")])
def test_padding_of_a_plan_file_that_can_not_be_is_refused(tmp_path, flags, wrong):
    """By the file and the parameter, before anything is planned."""
    assert padded(tmp_path, "llama")
    file = tmp_path / "plan.yaml"
    if wrong:
        file.write_text(file.read_text() + f"  {wrong}\n")
    told = call("dtc", "plan", MODELS / "llama.onnx", "--devices", 3, "--plan", file, "--cluster", "cpu", "--target", "cpu", *FLAGS, *flags)
    assert told.code == 3
    assert re.fullmatch(rf"dtc: error: {file}: padded: dimension \d of \S+ can't be padded here", told.error_line())
    if wrong:
        assert re.search(r"name: (\S+),", wrong).group(1) in told.error_line()


def test_runners_up_beside_a_padded_plan_are_as_fast_as_told(tmp_path):
    """None is that of a model without padding which has the padded plan's degrees."""
    job = ["dtc", "plan", MODELS / "gpt2.onnx", "--devices", 3, "--global-batch", 8, "--loss", "cross_entropy", "--cluster", "cpu",
           "--target", "cpu", "--json"]
    told = json.loads(check_call(*job).out)
    assert told["plan"]["tp"] == 3
    beside = [each for each in told["alternatives"] if each["plan"]["tp"] == 3]
    for each in beside:
        alone = json.loads(check_call(*job, "--plan", f"tp=3,micro_batch={each['plan']['micro_batch']}").out)
        assert each["predicted"]["step_time_s"] == pytest.approx(alone["predicted"]["step_time_s"], rel=1e-6)


def test_a_model_that_is_planned_padded_warns_once(tmp_path):
    """It is imported for both plans."""
    told = check_call("dtc", "plan", MODELS / "gpt2.onnx", "--devices", 3, "--plan", "tp=3", "--cluster", "cpu", "--target", "cpu", *FLAGS,
                      "--lora", "rank=4", "--save-plan", tmp_path / "plan.yaml")
    assert "padded:" in (tmp_path / "plan.yaml").read_text()
    assert told.err.count("its adapter is of products alone") == 1
