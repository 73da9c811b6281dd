"""ZeRO: states, gradients and parameters divided over data-parallel ranks, against PyTorch and against plain dp."""

import re

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, call, check_call, compare_steps, encode_model, part, reference
from test_context_parallel import sent_and_priced
from test_memory import check_prediction
from test_training import compare_weights

# Levels 1 and 3 on two ranks, 2 and 3 with several microbatches, and each with another axis.
PLANS = [
    (2, "dp=2,zero=1"),
    (4, "dp=4,zero=1,micro_batch=1"),
    (2, "dp=2,zero=2,micro_batch=1"),
    (4, "dp=4,zero=3"),
    (2, "dp=2,zero=3,micro_batch=1"),
    (4, "dp=2,tp=2,zero=1"),
    (4, "dp=2,tp=2,zero=3,micro_batch=2"),
    (4, "dp=4,zero=2,zero_group=2,micro_batch=1"),
    (4, "dp=4,zero=3,zero_group=2"),
    (4, "pp=2,dp=2,zero=1,schedule=1f1b,micro_batch=1"),
    (4, "pp=2,dp=2,zero=2,schedule=zb,micro_batch=1"),
    (4, "pp=2,dp=2,zero=3,schedule=1f1b,micro_batch=1"),
]


@pytest.mark.parametrize("devices,plan", PLANS)
def test_gpt2_trains_as_pytorch_does(trainer, devices, plan):
    """Its gradients are clipped, and its embedding is tied, on two stages too."""
    expected = reference("gpt2", "clip_cosine")
    run = trainer.train("gpt2", "gpt2", *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("model,recipe,devices,plan", [
    ("gpt2", "adamw", 2, "dp=2,zero=1"),
    ("gpt2", "adamw", 4, "dp=2,tp=2,zero=3,micro_batch=2"),
    ("mlp", "adamw", 2, "dp=2,zero=1"),
    ("mlp", "adamw", 4, "dp=4,zero=3"),
    ("llama", "adamw", 4, "dp=2,tp=2,zero=3,micro_batch=2"),
    ("resnet_tiny", "adamw", 4, "dp=4,zero=3"),
])
def test_final_weights_are_those_of_pytorch(trainer, model, recipe, devices, plan):
    expected = reference(model, recipe)
    run = trainer.train(model, model, *expected["flags"], devices=devices, plan=plan)
    compare_steps(run, expected)
    compare_weights(run, model, expected)


@pytest.mark.parametrize("model,recipe,plan", [
    ("gpt2", "adamw", "pp=2,dp=2,zero=3,schedule=interleaved,chunks=2,micro_batch=1"),
    ("gpt2", "adamw", "pp=2,dp=2,zero=2,schedule=gpipe,micro_batch=2"),
    ("t5", "sgd", "pp=2,dp=2,zero=3,schedule=1f1b,micro_batch=1"),
    ("gpt2", "adamw", "dp=4,zero=3,recompute=full,micro_batch=1"),
    ("gpt2", "adamw", "dp=2,tp=2,zero=2,recompute=selective,micro_batch=2"),
    ("gpt2", "adamw", "pp=2,dp=2,zero=3,recompute=full,schedule=1f1b,micro_batch=1"),
    ("t5", "sgd", "pp=2,dp=2,zero=3,recompute=full,schedule=zb,micro_batch=1"),
    ("moe", "adamw", "dp=2,ep=2,zero=3"),  # experts are divided over dp, all else over dp and ep
])
def test_other_schedules_and_graphs(trainer, model, recipe, plan):
    expected = reference(model, recipe)
    run = trainer.train(model, model, *expected["flags"], devices=4, plan=plan)
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("model,recipe,plan", [
    ("gpt2", "sgd", "dp=2,zero=3"), ("mlp", "nesterov", "dp=2,zero=2"), ("mlp", "sgd", "dp=2,zero=1")])
def test_sgd(trainer, model, recipe, plan):
    """Without momentum there is no state to divide; gradients and parameters are all the same."""
    expected = reference(model, recipe)
    run = trainer.train(model, model, *expected["flags"], devices=2, plan=plan)
    compare_steps(run, expected)


@pytest.mark.parametrize("plan", ["dp=2,tp=2,zero=1", "dp=2,tp=2,zero=3"])
def test_bf16(trainer, plan):
    """Masters are divided; parameters are gathered in bf16."""
    expected = reference("gpt2", "bf16")
    run = trainer.train("gpt2", "gpt2", *expected["flags"], devices=4, plan=plan)
    compare_steps(run, expected, loss=2e-3, norm=5e-2)


@pytest.mark.parametrize("level,micro_batch", [(1, 4), (2, 4), (3, 4), (1, 1)])
def test_levels_agree_with_plain_dp_bitwise(trainer, level, micro_batch):
    """Sums over ranks have one order, whether all ranks get them or each its part. Norms add up
    parts, in another order, and nothing is clipped here."""
    flags = reference("gpt2", "adamw")["flags"]
    plain = trainer.train("gpt2", "gpt2", *flags, devices=2, plan=f"dp=2,zero=0,micro_batch={micro_batch}")
    stored = trainer.train("gpt2", "gpt2", *flags, devices=2, plan=f"dp=2,zero={level},micro_batch={micro_batch}")
    assert stored.column("loss").tolist() == plain.column("loss").tolist()
    assert numpy.allclose(stored.column("grad_norm"), plain.column("grad_norm"), rtol=1e-6)
    for name, weight in plain.weights.items():
        assert weight.tobytes() == stored.weights[name].tobytes(), name


@pytest.mark.parametrize("micro_batch", [2, 1])
def test_padded_gradients_are_scattered_with_the_others(trainer, micro_batch):
    """Three ranks divide hardly any weight. Zeros are put behind gradients in their places, and nothing is left to the update."""
    flags = reference("gpt2", "adamw")["flags"]
    plain, stored = (trainer.train("gpt2", "gpt2", *flags, devices=3, batch=6, plan=f"dp=3,zero={level},micro_batch={micro_batch}")
                     for level in (0, 1))
    for name, weight in plain.weights.items():
        assert weight.tobytes() == stored.weights[name].tobytes(), name
    emitted = check_call("dtc", "compile", MODELS / "gpt2.onnx", *flags, "--loss", "cross_entropy", "--global-batch", 6, "--devices", 3,
                         "--plan", f"dp=3,zero=1,micro_batch={micro_batch}", "--emit", "schedule").out
    update = emitted[emitted.index("func.func @update("):]
    assert "dist.reduce_scatter" in emitted and "dist.reduce_scatter" not in update


@pytest.mark.parametrize("devices,plan", [
    (2, "dp=2,zero=1,micro_batch=1"), (4, "dp=4,zero=2,micro_batch=1"), (4, "dp=2,tp=2,zero=1,micro_batch=1"),
    (4, "dp=2,tp=2,sp=on,zero=2,micro_batch=1"), (4, "dp=4,zero=2,zero_group=2,micro_batch=1")])
def test_positions_are_stored_as_other_parameters(tmp_path, devices, plan):
    """Samples have 32 of 64 positions. No microbatch sums up the gradients of those over samples. They are scattered with the others, so
    that a step scatters as much as it gathers."""
    sent, priced = sent_and_priced(tmp_path, "gpt2", devices, plan, "--cluster", "cpu")
    assert sent == priced
    text = check_call("dtc", "inspect", tmp_path / "model.dtc").out
    calls = [(kind, int(count), float(size) * {"": 1, "Ki": 1024, "Mi": 1024**2}[unit]) for kind, count, size, unit in
             re.findall(r"^  (all_reduce|reduce_scatter|all_gather) over dp\S*  (\d+) x ([\d.]+) (Ki|Mi|)B", text, re.M)]
    microbatches = 8 // int(re.search(r"dp=(\d+)", plan)[1])
    assert not [call for call in calls if call[0] == "all_reduce" and call[1] >= microbatches and call[2] > 16]
    scattered, gathered = (sum(count * size for kind, count, size in calls if kind == of) for of in ("reduce_scatter", "all_gather"))
    assert scattered == pytest.approx(gathered * (microbatches if "zero=2" in plan else 1), rel=0.01)


def with_first_layer_lower(folder, model: str, devices: int, plan: str):
    """A plan file whose first layer is stored by the level of ZeRO below the plan's, the second by the plan's."""
    saved = folder / "plan.yaml"
    check_call("dtc", "plan", MODELS / f"{model}.onnx", "--devices", devices, "--plan", plan, "--cluster", "cpu",
               "--loss", "cross_entropy", "--global-batch", 8, "--save-plan", saved)
    level = plan[plan.index("zero=") + 5]
    split = {"2": "gradient_axes", "3": "storage_axes"}[level]
    text = saved.read_text().replace(f"  zero: {level}\n", f"  zero: {level}\n  zero_blocks: 1\n")
    first = re.compile(r"parameter: \S*(?:layers|h)\.0\.")
    saved.write_text("".join(re.sub(split + r": \[[^]]*\]", f"{split}: []", line) if first.search(line) else line
                             for line in text.splitlines(keepends=True)))
    return saved


def test_some_blocks_are_stored_by_a_higher_level(trainer, tmp_path):
    """The second layer is gathered for each pass, the first one stays whole."""
    saved = with_first_layer_lower(tmp_path, "gpt2", 2, "dp=2,zero=3")
    expected = reference("gpt2", "clip_cosine")
    run = trainer.train("gpt2", "gpt2", *expected["flags"], devices=2, plan=saved)
    compare_steps(run, expected)


@pytest.mark.parametrize("model,devices,plan", [
    ("gpt2", 2, "dp=2,zero=2"), ("llama", 4, "dp=4,zero=2,micro_batch=1"), ("gpt2", 4, "dp=2,tp=2,zero=2,micro_batch=2"),
    ("llama", 4, "dp=4,zero=2,zero_group=2"), ("llama", 2, "dp=2,zero=3"), ("gpt2", 4, "dp=2,tp=2,zero=3")])
def test_two_levels_exchange_what_is_priced(tmp_path, model, devices, plan):
    """The update has common calls for both: one gathers what it made, and sums over further ranks follow on one scatter."""
    saved = with_first_layer_lower(tmp_path, model, devices, plan)
    sent, priced = sent_and_priced(tmp_path, model, devices, str(saved), "--cluster", "cpu")
    assert sent == priced


@pytest.mark.parametrize("model,plan", [("gpt2", "dp=2,tp=2,zero=1"), ("gpt2", "dp=4,zero=1,zero_group=2"), ("t5", "dp=2,tp=2,zero=1")])
def test_an_update_scatters_by_buckets(tmp_path, model, plan):
    """Also those gradients that are then summed over further ranks."""
    sent, priced = sent_and_priced(tmp_path, model, 4, plan, "--cluster", "cpu")
    assert sent == priced
    if "tp" not in plan:
        assert sent["reduce_scatter"] == 1


PART = re.compile(r"tensor<(\d+)xf32> \{dist\.flat = #dist\.flat<([0-9x]+) .*? "
                  r"dtc\.role = #dtc\.role<(\w+), ")


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("level,kinds", [(1, {"state"}), (2, {"state", "gradient"}),
                                         (3, {"state", "gradient", "parameter"})])
def test_parts_are_the_whole_divided_by_ranks(ranks, level, kinds):
    outcome = check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", ranks, "--plan",
                         f"dp={ranks},zero={level}", "--loss", "cross_entropy", "--global-batch", 8,
                         "--emit", "partition")
    update = outcome.out[outcome.out.index("func.func @update("):].split("\n")[0]
    parts = PART.findall(update.split(" -> ")[0])
    assert {kind for _, _, kind in parts} == kinds
    for size, shape, _ in parts:
        whole = numpy.prod([int(dim) for dim in shape.split("x")])
        assert 0 <= int(size) - whole / ranks < (64 if whole / ranks > 4096 else 1)


@pytest.mark.parametrize("model,devices,plan,precision", [
    ("gpt2", 2, "dp=2,zero=1", "fp32"), ("gpt2", 4, "dp=4,zero=1,micro_batch=1", "fp32"),
    ("mlp", 4, "dp=2,tp=2,zero=1", "bf16"), ("gpt2", 3, "dp=3,zero=1", "fp32"), ("gpt2", 3, "dp=3,zero=1,micro_batch=1", "fp32")])
def test_prediction_is_within_5_percent(model, devices, plan, precision):
    check_prediction(MODELS / f"{model}.onnx", "--devices", devices, "--target", "cpu", "--plan", plan,
                     "--loss", "cross_entropy", "--global-batch", 6 if devices == 3 else 8, "--precision", precision)


@pytest.mark.parametrize("plan", ["dp=4,zero=2,micro_batch=1", "dp=4,zero=3", "dp=2,tp=2,zero=3"])
def test_parts_are_predicted_step_by_step(plan):
    """Gathered parameters and whole gradients are there while a block computes, and its neighbour."""
    check_prediction(MODELS / "gpt2.onnx", "--devices", 4, "--target", "cpu", "--plan", plan, "--loss", "cross_entropy",
                     "--global-batch", 8)


@pytest.mark.parametrize("model,plan", part([
    ("gpt2", "dp=4,zero=3,zero_group=2"), ("gpt2", "dp=4,zero=1"), ("gpt2", "dp=2,tp=2,zero=2,micro_batch=2"),
    ("llama", "dp=2,tp=2,zero=1"), ("t5", "dp=4,zero=3"), ("moe", "dp=2,ep=2,zero=1"), ("moe", "dp=2,ep=2,zero=3"),
    ("resnet_tiny", "dp=4,zero=3")]))
def test_ranks_compute_what_one_computes(tmp_path, model, plan):
    """Every gradient and one update, by the reference interpreter."""
    outcome = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy",
                         "--devices", 4, "--global-batch", 8, "--plan", plan, "--clip-grad-norm", 1,
                         "--verify", "--emit", "partition", "-o", tmp_path / "o.mlir")
    assert "verified " in outcome.err


@pytest.mark.parametrize("devices,plan", [(2, "dp=2,zero=2,micro_batch=1"), (2, "dp=2,zero=3,micro_batch=2"), (1, "micro_batch=2")])
def test_a_part_may_be_one_element(tmp_path, devices, plan):
    """A rank's part of two classes' biases: what adds up its gradient isn't what adds up those of longer parts."""
    draw = numpy.random.default_rng(0)
    w, b = draw.normal(size=(3, 2)).astype("f4"), numpy.array([0.5, -0.25], "f4")
    x, target = draw.normal(size=(8, 3)).astype("f4"), draw.integers(0, 2, 8)
    dims = "dim {{ dim_value: 8 }} dim {{ dim_value: {} }}"
    named = 'name: "{}" type {{ tensor_type {{ elem_type: 1 shape {{ {} }} }} }}'
    values = [" ".join(f"float_data: {value}" for value in array.flatten()) for array in (b, w)]
    model = encode_model(f"""ir_version: 10 opset_import {{ version: 20 }} graph {{ name: "classifier"
        input {{ {named.format("x", dims.format(3))} }} output {{ {named.format("y", dims.format(2))} }}
        initializer {{ name: "b" data_type: 1 dims: 2 {values[0]} }} initializer {{ name: "w" data_type: 1 dims: 3 dims: 2 {values[1]} }}
        node {{ op_type: "MatMul" input: "x" input: "w" output: "h" }}
        node {{ op_type: "Add" input: "h" input: "b" output: "y" }} }}""", tmp_path / "m.onnx")
    save_file({"x": x, "target": target}, tmp_path / "data.safetensors")
    check_call("dtc", "compile", model, "--devices", devices, "--plan", plan, "--loss", "cross_entropy", "--global-batch", 8,
               "--optimizer", "sgd", "--lr", 0.5, "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle", "--steps", 3,
               "--save-weights", tmp_path / "w.safetensors")
    for _ in range(3):
        p = numpy.exp(x @ w + b)
        g = (p / p.sum(1, keepdims=True) - numpy.eye(2)[target]) / 8
        w, b = w - 0.5 * x.T @ g, b - 0.5 * g.sum(0)
    saved = load_file(tmp_path / "w.safetensors")
    assert numpy.allclose(saved["w"], w, atol=1e-6) and numpy.allclose(saved["b"], b, atol=1e-6)


def test_weights_go_in_and_out_through_parts(tmp_path):
    """Without learning, what is saved is what was drawn, whatever the ranks hold of it."""
    saved = []
    for plan in ("dp=4,zero=0", "dp=4,zero=3", "dp=2,tp=2,zero=1"):
        artifact, weights = tmp_path / "model.dtc", tmp_path / "weights.safetensors"
        check_call("dtc", "compile", MODELS / "gpt2_b1.onnx", "--devices", 4, "--plan", plan,
                   "--loss", "cross_entropy", "--global-batch", 8, "--init", "--lr", 0,
                   "--weight-decay", 0, "-o", artifact)
        check_call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 1,
                   "--save-weights", weights)
        saved.append(weights.read_bytes())
    assert saved[0] == saved[1] == saved[2]
