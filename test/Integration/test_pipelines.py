"""Pipelines: every rank a program of its own, against PyTorch and against each other."""

import json
import re
import zipfile

import numpy
import pytest

from conftest import MODELS, call, case, check_call, compare_steps, encode_model, reference
from llama_graph import FLOAT, INT64, Graph, value_info
from test_training import compare_weights

ONE_F_ONE_B = "pp=2,dp=1,schedule=1f1b,micro_batch=1"
PIPELINES = [
    (2, "pp=2,dp=1,schedule=gpipe,micro_batch=2"),
    (4, "pp=4,dp=1,schedule=1f1b,micro_batch=1"),
    (4, "pp=2,dp=2,schedule=1f1b,micro_batch=1"),
    (4, "pp=2,tp=2,schedule=1f1b,micro_batch=2"),
    (2, "pp=2,dp=1,schedule=interleaved,chunks=2,micro_batch=1"),
    (4, "pp=4,dp=1,schedule=zb,micro_batch=1"),
    (2, "pp=2,dp=1,schedule=zbv,micro_batch=1"),
    (4, "pp=2,tp=2,schedule=list,micro_batch=1"),
]


@pytest.mark.parametrize("model,devices,plan", [
    case(model == "gpt2" or number % 2 == 0, model, *each) for model in ("gpt2", "llama") for number, each in enumerate(PIPELINES)])
def test_pipelines_train_as_pytorch_does(trainer, model, devices, plan):
    """Losses, norms and weights of ten steps; targets are ragged, GPT-2's embedding is tied."""
    expected = reference(model, "adamw")
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)
    compare_weights(run, model, expected)


@pytest.mark.parametrize("model,recipe,plan", [
    ("bart", "adamw", "pp=4,dp=1,schedule=1f1b,micro_batch=1"),  # decoders read the encoder's result
    ("t5", "sgd", "pp=4,dp=1,schedule=1f1b,micro_batch=1"),      # and layers a common bias
    ("gpt2_mask", "adamw", "pp=2,dp=2,schedule=1f1b,micro_batch=1"),  # a mask made from an input
    ("resnet_tiny", "adamw", "pp=2,dp=2,schedule=1f1b,micro_batch=1"),  # skip connections
    # The loss' stage reads no target: cross entropy is cut from its sum.
    ("resnet_tiny", "adamw", "pp=4,dp=1,schedule=1f1b,micro_batch=2"),
    ("mixtral", "adamw", "pp=2,dp=2,schedule=zb,micro_batch=1"),
    ("moe", "adamw", "pp=2,dp=2,schedule=1f1b,micro_batch=1"),
    ("qwen2", "adamw", "pp=4,dp=1,schedule=zbv,micro_batch=1"),  # one chunk of a rank has far more slots than the other
    # One microbatch: both chunks of a rank have terms of the tied weight.
    ("bart", "adamw", "pp=2,dp=2,schedule=zbv,micro_batch=4"),
    ("gpt2", "adamw", "pp=2,dp=2,zero=2,schedule=zbv,micro_batch=4"),
])
def test_any_graph_is_cut(trainer, model, recipe, plan):
    """Values that skip stages are passed on by those in between."""
    expected = reference(model, recipe)
    run = trainer.train(model, model, *expected["flags"], devices=4, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("devices,plan", [(2, ONE_F_ONE_B), PIPELINES[2]])
def test_all_stages_clip_alike(trainer, devices, plan):
    expected = reference("gpt2", "clip_cosine")
    run = trainer.train("gpt2", "gpt2", *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


EQUAL_CUTS = [
    [(2, "pp=2,dp=1,schedule=gpipe,micro_batch=1"), (2, ONE_F_ONE_B)],
    [(2, "pp=2,dp=1,schedule=zb,micro_batch=1"), (2, ONE_F_ONE_B)],
    [(4, "pp=4,dp=1,schedule=zb,micro_batch=2"), (4, "pp=4,dp=1,schedule=1f1b,micro_batch=2")],
    [(4, "pp=4,dp=1,schedule=1f1b,micro_batch=1"),
     (2, "pp=2,dp=1,schedule=interleaved,chunks=2,micro_batch=1")],
    [(4, "pp=4,dp=1,schedule=1f1b,micro_batch=1"), (4, "pp=4,dp=1,schedule=list,micro_batch=1")],
    [(4, "pp=4,dp=1,schedule=1f1b,micro_batch=1"), (4, "pp=4,dp=1,schedule=list,kept=1,micro_batch=1")],
    [(3, "pp=3,dp=1,schedule=list,kept=2,micro_batch=1"), (3, "pp=3,dp=1,schedule=list,kept=8,micro_batch=1")],
    # The first and the last stage lie on one rank: both have terms of a tied weight.
    [(4, "pp=4,dp=1,schedule=1f1b,micro_batch=1"), (2, "pp=2,dp=1,schedule=zbv,micro_batch=1")],
    [(4, "pp=4,dp=1,schedule=gpipe,micro_batch=8"), (2, "pp=2,dp=1,schedule=zbv,micro_batch=8")],
    [(8, "pp=4,dp=2,schedule=1f1b,micro_batch=1"), (4, "pp=2,dp=2,schedule=zbv,micro_batch=1")],
    # Eight microbatches on three ranks, and one on two: groups that aren't full.
    [(6, "pp=6,dp=1,schedule=1f1b,micro_batch=1"),
     (3, "pp=3,dp=1,schedule=interleaved,chunks=2,micro_batch=1")],
    [(4, "pp=4,dp=1,schedule=1f1b,micro_batch=8"),
     (2, "pp=2,dp=1,schedule=interleaved,chunks=2,micro_batch=8")],
]


@pytest.mark.parametrize("model,plans", [
    case(model == "gpt2" or number % 3 == 0, model, plans) for model in ("gpt2", "llama") for number, plans in enumerate(EQUAL_CUTS)])
def test_schedules_with_equal_cuts_agree_bitwise(trainer, model, plans):
    """Gradients are added in ascending order of microbatches, norms stage by stage, and no kernel rounds otherwise
    where a value is stored between two passes."""
    check_bitwise(trainer, model, plans)


def test_parts_of_a_tied_weight_agree_bitwise(trainer):
    check_bitwise(trainer, "gpt2", [(8, "pp=4,dp=2,zero=2,schedule=1f1b,micro_batch=1"), (4, "pp=2,dp=2,zero=2,schedule=zbv,micro_batch=1")])


def layers_that_share(path, layers: int, shared: set[int]):
    graph = Graph()
    graph.lines.append(value_info("input", "input_ids", [1, 16], INT64, "USER_INPUT"))
    x = graph.node("Gather", "embed", graph.parameter("embed.weight", 7, 256), "input_ids")
    common = graph.parameter("common.weight", 256, 256)
    for layer in range(layers):
        weight = common if layer in shared else graph.parameter(f"{layer}.weight", 256, 256)
        made = graph.node("Tanh", f"{layer}.tanh", graph.node("MatMul", f"{layer}.product", x, weight))
        x = graph.node("Add", f"{layer}.add", x, made)
    logits = graph.linear("logits", x, 256, 7)
    graph.lines.append(value_info("output", logits, [1, 16, 7], FLOAT))
    body = "\n".join(graph.lines)
    return encode_model(f'ir_version: 10 opset_import {{ version: 24 }} graph {{ name: "shared" {body} }}', path)


def compile_shared(path, devices: int, plan: str, *more) -> list:
    return ["dtc", "compile", path, "--target", "cpu", "--cluster", "cpu", "--devices", devices, "--plan", f"{plan},micro_batch=1",
            "--loss", "cross_entropy", "--global-batch", 8, "--lr", 0.01, *more]


def weights_of(job, tmp_path) -> bytes:
    """What six steps make of drawn weights."""
    (numpy.arange(2000) * 7919 % 61 % 7).astype("u2").tofile(tmp_path / "tokens.bin")
    check_call(*job, "--init", "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "tokens.bin", "--no-shuffle", "--steps", 6,
               "--save-weights", tmp_path / "w.safetensors")
    return (tmp_path / "w.safetensors").read_bytes()


def test_ranks_that_share_a_weight_add_their_terms_in_the_order_of_stages(tmp_path):
    """Stages 2, 3 and 4 do. Under an interleaved schedule they lie on ranks 2, 0 and 1."""
    path = layers_that_share(tmp_path / "m.onnx", 6, {2, 3, 4})
    saved = []
    for devices, plan, ranks in ((6, "pp=6,schedule=gpipe", "2, 3, 4"), (6, "pp=6,schedule=1f1b", "2, 3, 4"),
                                 (3, "pp=3,schedule=interleaved,chunks=2", "2, 0, 1")):
        job = compile_shared(path, devices, f"{plan},dp=1")
        assert f"stages [{ranks}] : tensor<256x256xf32>" in check_call(*job, "--emit", "partition").out
        saved.append(weights_of(job, tmp_path))
    assert len(set(saved)) == 1


@pytest.mark.parametrize("ranks,dp,more,schedules", [
    (2, 1, "", ("1f1b", "zb", "list", "interleaved,chunks=2", "zbv")), (2, 2, "", ("interleaved,chunks=2", "zbv")),
    (2, 2, ",zero=1", ("interleaved,chunks=2",)), (2, 2, ",zero=2", ("interleaved,chunks=2", "zbv")), (2, 2, ",zero=3", ("zbv",)),
    (3, 2, ",zero=1", ("interleaved,chunks=2",))])  # one of three ranks has no more terms, and gives zeros
def test_a_rank_adds_up_the_terms_of_its_stages_apart(tmp_path, ranks, dp, more, schedules):
    """Four layers share a weight. Ranks have several stages of them, and add the terms as so many ranks do."""
    path = layers_that_share(tmp_path / "m.onnx", 2 * ranks, {0, 1, 2, 3})
    saved = []
    for schedule in ("gpipe", *schedules):
        held = ranks if schedule.startswith(("interleaved", "zbv")) else 2 * ranks
        job = compile_shared(path, held * dp, f"pp={held},dp={dp},schedule={schedule}{more}", "--optimizer", "sgd")
        saved.append(weights_of(job, tmp_path))
    assert len(set(saved)) == 1, schedules


@pytest.mark.parametrize("model,precision,schedule", [
    case((schedule == "zb") == (number % 2 == 0), *each, schedule) for schedule in ("zb", "list") for number, each in enumerate([
        ("gpt2", "bf16"), ("gpt2", "fp16"), ("llama", "bf16"), ("moe", "bf16"), ("resnet_tiny", "bf16"),
        ("resnet_tiny", "fp32"), ("convnext", "fp32")])])
def test_split_backward_passes_round_as_joint_ones(trainer, model, precision, schedule):
    """A half is rounded wherever it is computed, stored or not. Sums of rows have one order in whatever kernel they are."""
    # With one sample a microbatch, rows of these models in fp32 have the same order by chance.
    devices, plan = (2, "pp=2,dp=1,micro_batch=2") if precision == "fp32" else (4, "pp=2,dp=2,micro_batch=1")
    plans = [(devices, f"{plan},schedule={name}") for name in ("1f1b", schedule)]
    check_bitwise(trainer, model, plans, "--precision", precision, steps=3)


def check_bitwise(trainer, model, plans, *more, steps=10):
    flags = reference(model, "adamw")["flags"]
    first, second = (trainer.train(model, model, *flags, *more, devices=devices, plan=plan, steps=steps)
                     for devices, plan in plans)
    for key in ("loss", "grad_norm"):
        assert first.column(key).tolist() == second.column(key).tolist(), key
    for name, weight in first.weights.items():
        assert weight.tobytes() == second.weights[name].tobytes(), name


def test_every_rank_has_a_program(trainer):
    flags = reference("gpt2", "adamw")["flags"]
    run = trainer.train("gpt2", "gpt2", *flags, devices=2, plan=ONE_F_ONE_B)
    facts = json.loads(check_call("dtc", "inspect", run.artifact, "--json").out)
    assert len(facts["arena_bytes"]) == 2
    # One message a microbatch and direction; the tied weight and the step vector once a step.
    collectives = facts["collectives"]
    assert collectives["send"] == collectives["recv"] == 8 and collectives["all_reduce"] == 2


def test_drawn_weights_do_not_depend_on_stages(tmp_path):
    """--init numbers parameters as the model does, whatever the order in which roles have them."""
    saved = []
    for plan in ("pp=1,dp=2", ONE_F_ONE_B):
        artifact, weights = tmp_path / "model.dtc", tmp_path / "weights.safetensors"
        check_call("dtc", "compile", MODELS / "gpt2_b1.onnx", "--devices", 2, "--plan", plan,
                   "--loss", "cross_entropy", "--global-batch", 8, "--init", "--lr", 0,
                   "--weight-decay", 0, "-o", artifact)
        check_call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 1,
                   "--save-weights", weights)
        saved.append(weights.read_bytes())
    assert saved[0] == saved[1]


@pytest.mark.parametrize("devices,plan", [
    (2, ONE_F_ONE_B), (2, "pp=2,dp=1,schedule=zb,micro_batch=1"), (2, "pp=2,dp=1,schedule=zbv,micro_batch=1"),
    (4, "pp=2,dp=2,zero=2,schedule=interleaved,chunks=2,micro_batch=1")])
def test_stages_that_train_nothing(trainer, devices, plan):
    """Adapters of the second layer alone: the stages before it have no backward pass."""
    flags = reference("gpt2", "adamw")["flags"]
    adapters = ("--lora", r"rank=4,alpha=8,targets=h\.1\.")
    one, several = (trainer.train("gpt2", "gpt2", *flags, *adapters, devices=ranks, plan=given)
                    for ranks, given in ((1, "dp=1"), (devices, plan)))
    for key in ("loss", "grad_norm"):
        assert several.column(key) == pytest.approx(one.column(key), rel=1e-4), key
    assert min(one.column("grad_norm")) > 0


def test_code_does_not_grow_with_microbatches(tmp_path):
    """A microbatch is an argument of a call: there are as many kernels, bytes of code and instructions for 4 and for 32."""
    sizes = []
    for batch in (4, 32):
        artifact = tmp_path / f"{batch}.dtc"
        check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--loss", "cross_entropy", "--global-batch", batch,
                   "--plan", ONE_F_ONE_B, "-o", artifact)
        with zipfile.ZipFile(artifact) as members:
            length = {info.filename: info.file_size for info in members.infolist()}
        kernels = json.loads(check_call("dtc", "inspect", artifact, "--json").out)["kernels"]
        code = sum(size for name, size in length.items() if name.startswith("code/"))
        programs = sum(size for name, size in length.items() if name.startswith("program/"))
        sizes.append((len(kernels), code, programs))
    (kernels, code, programs), (more_kernels, more_code, more_programs) = sizes
    assert kernels == more_kernels and abs(code - more_code) < 100
    # A call of a schedule is a few numbers; each rank makes at most ten a microbatch.
    assert 0 < programs and more_programs - programs <= 28 * 2 * 10 * 40


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_stages_share_the_kernels_of_norms(tmp_path, model):
    """Each stage adds up other gradients, by the very kernels that one rank has for tensors of these shapes."""
    totals = []
    for devices, plan in [(1, "dp=1,micro_batch=1"), (4, "pp=4,micro_batch=1")]:
        text = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", devices, "--plan", plan, "--loss", "cross_entropy",
                          "--global-batch", 4, "--emit=schedule").out
        totals.append(len(set(re.findall(r"exec\.kernel @(rows_\d+) extent 1 ", text))))
    assert 3 < totals[1] <= totals[0]
