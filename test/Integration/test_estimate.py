"""`dtc estimate`: how many devices a model needs, checked by arithmetic and against `dtc plan`."""

import dataclasses
import json

import pytest

import llama_graph
from conftest import MODELS, call, check_call

JOBS = ["training in full", "training adapters (LoRA)", "inference"]
GIB = 2**30
NAMES = {"7B": llama_graph.LLAMA_7B, "13B": llama_graph.LLAMA_13B, "70B": llama_graph.LLAMA_70B,
         "405B": llama_graph.LLAMA_405B}


def estimate(model, *arguments) -> dict:
    """The jobs of an answer, by name."""
    answer = json.loads(check_call("dtc", "estimate", model, *arguments, "--json").out)
    assert [job["job"] for job in answer["jobs"]] == JOBS
    return {job["job"]: job for job in answer["jobs"]}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    return {name: llama_graph.write(folder / f"{name}.onnx", size) for name, size in NAMES.items()}


def smallest(model) -> dict:
    return {name: job["devices"][0]["count"] for name, job in estimate(model, "--cluster", "dgx-h100").items()}


def held(model, gpus: int) -> dict[str, list[tuple[int, int]]]:
    """The (tp, pp) of all ways that fit on so many H100, by job."""
    jobs = estimate(model, "--cluster", "dgx-h100", "--gpus", gpus)
    result = {}
    for name, job in jobs.items():
        fits = [way for way in job["configurations"]["plans"] if way["fits"]]
        result[name] = sorted({(way["plan"]["tp"], way["plan"]["pp"]) for way in fits})
        # Where one of the ways fits, the search finds one.
        assert not fits or job["devices"][0]["count"] == gpus
    return result


def test_the_guides_table(models):
    """"7B on 1-2 GPUs, 13B on 2-4, 70B on 8 with TP8 or on 4 with TP4, 405B on 64 with TP8 x PP8": for
    what that is enough on GPUs of 80 GB, and how few are."""
    full, adapters, inference = JOBS
    assert smallest(models["7B"]) == {full: 2, adapters: 1, inference: 1}
    assert held(models["7B"], 1) == {full: [], adapters: [(1, 1)], inference: [(1, 1)]}
    assert held(models["7B"], 2)[full] == [(1, 1), (1, 2), (2, 1)]

    assert smallest(models["13B"]) == {full: 4, adapters: 1, inference: 1}
    assert held(models["13B"], 2)[full] == [] and (2, 1) in held(models["13B"], 2)[adapters]
    assert (1, 1) in held(models["13B"], 4)[full], "ZeRO-3 over all four"

    assert smallest(models["70B"]) == {full: 16, adapters: 2, inference: 2}
    for gpus in (4, 8):
        ways = held(models["70B"], gpus)
        assert ways[full] == [] and (gpus, 1) in ways[adapters] and (gpus, 1) in ways[inference]
        assert (1, 1) not in ways[adapters], "141 GB of weights fit no GPU whole"

    assert smallest(models["405B"]) == {full: 88, adapters: 16, inference: 16}
    ways = held(models["405B"], 64)
    assert ways[full] == [] and (8, 8) in ways[adapters] and (8, 8) in ways[inference]
    assert (8, 1) not in ways[adapters], "101 GB of weights in each GPU"


def test_tensor_parallelism_means_split_weights(models):
    """Whole weights on each rank would be a little faster, but none asks for it in order to hold them."""
    (device,) = estimate(models["7B"], "--cluster", "dgx-h100", "--gpus", 8)["inference"]["devices"]
    assert device["plan"]["tp"] == 8
    assert device["memory"]["parameters"] < 1.2 * 2 * NAMES["7B"].parameters / 8


@pytest.mark.parametrize("name", NAMES)
def test_no_count_holds_less_than_the_state(models, name):
    """Whatever is found holds 16 bytes a parameter in full training, and 2 in the others."""
    for job, data in estimate(models[name], "--cluster", "dgx-h100").items():
        (device,) = data["devices"]
        memory, parameters = device["memory"], NAMES[name].parameters
        state = memory["parameters"] + memory["gradients"] + memory["optimizer"]
        needed = parameters * (16 if job == JOBS[0] else 2)
        assert device["count"] * state >= needed
        assert device["peak_memory_bytes"] == sum(memory.values()) <= device["capacity_bytes"]
        assert state < 1.35 * needed / device["count"] or job != JOBS[0]
        assert device["fits"]


def test_what_a_way_holds_is_what_planning_it_says(models):
    jobs = estimate(models["13B"], "--cluster", "dgx-h100", "--gradients", "fp32", "--gpus", 4)
    ways = [way for way in jobs[JOBS[0]]["configurations"]["plans"] if way["plan"]["tp"] == 1]
    assert {way["plan"]["zero"] for way in ways} == {0, 1, 3}
    assert {way["plan"]["recompute"] for way in ways} == {"none", "full"}
    for way in ways:
        plan = way["plan"]
        spec = ",".join(f"{key}={plan[key]}" for key in ("dp", "tp", "pp", "cp", "ep", "zero", "recompute",
                                                         "micro_batch", "schedule"))
        planned = json.loads(check_call(
            "dtc", "plan", models["13B"], "--gpus", 4, "--precision", "bf16", "--loss", "cross_entropy",
            "--global-batch", plan["dp"] * plan["num_microbatches"], "--plan", spec, "--json").out)
        # These can be compiled, so that dtc plan adds the ops that sum gradients up.
        assert way["peak_memory_bytes"] == pytest.approx(planned["predicted"]["peak_memory_bytes"], rel=0.01)
        told = {**planned["predicted"]["memory"], "keys_and_values": 0}
        assert told | {"activations": 0} == way["memory"] | {"activations": 0}
        assert way["fits"] == planned["predicted"]["fits"]


def test_adapters_alone_are_trained(models):
    size, rank = llama_graph.LLAMA_7B, 8
    jobs = estimate(models["7B"], "--cluster", "dgx-h100", "--lora-rank", rank)
    (device,) = jobs[JOBS[1]]["devices"]
    ends = [(size.hidden, size.hidden)] * 4 + [(size.hidden, size.ffn)] * 3
    adapters = rank * (size.layers * sum(a + b for a, b in ends) + size.hidden + size.vocabulary)
    assert device["count"] == 1
    assert device["memory"]["gradients"] == 2 * adapters
    assert device["memory"]["optimizer"] == 12 * adapters
    assert device["memory"]["parameters"] == 2 * (size.parameters + adapters)
    assert device["memory"]["activations"] > 0
    answer = json.loads(check_call("dtc", "estimate", models["7B"], "--cluster", "dgx-h100", "--lora-rank", 0,
                                   "--json").out)
    assert [job["job"] for job in answer["jobs"]] == [JOBS[0], JOBS[2]]


@pytest.mark.parametrize("precision, state, weights", [("fp32", 16, 4), ("fp16", 16, 2), ("bf16-true", 8, 2)])
def test_precisions(models, precision, state, weights):
    """Bytes a parameter, of which none is shared out."""
    jobs = estimate(models["7B"], "--precision", precision, "--gpus", 1, "--gpu-memory", "400GB")
    parameters = NAMES["7B"].parameters
    for job, bytes_each in ((JOBS[0], state), (JOBS[2], weights)):
        memory = jobs[job]["devices"][0]["memory"]
        held = memory["parameters"] + memory["gradients"] + memory["optimizer"]
        assert held == pytest.approx(bytes_each * parameters, rel=1e-4), job


def sizes_of_products(size) -> tuple[int, int]:
    """Weights of all products but the head, and the rows of their results."""
    kv = size.hidden // size.heads * size.kv_heads
    ends = [(size.hidden, size.hidden)] * 2 + [(size.hidden, kv)] * 2 + [(size.hidden, size.ffn)] * 2 + [(size.ffn, size.hidden)]
    return size.layers * sum(a * b for a, b in ends), size.layers * sum(b for _, b in ends)


@pytest.mark.parametrize("name", ["7B", "70B"])
@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_quantized_weights(models, name, quantization):
    """Bytes of what doesn't train; what trains, and full training, are as without."""
    size, flags = NAMES[name], ("--gpus", 1, "--gpu-memory", "3000GB")
    products, rows = sizes_of_products(size)
    stored = products + 4 * rows if quantization == "int8" else products * (4 + 8 / 64 + 32 / (64 * 256)) / 8
    plain, jobs = estimate(models[name], *flags), estimate(models[name], *flags, "--quantization", quantization)
    full, adapters, inference = JOBS
    assert [jobs[job]["quantized_parameters"] for job in JOBS] == [0, products, products]
    assert jobs[full]["devices"] == plain[full]["devices"] and quantization not in jobs[full]["assumptions"]
    for job in (adapters, inference):
        before, after = plain[job]["devices"][0]["memory"], jobs[job]["devices"][0]["memory"]
        saved = before["parameters"] - after["parameters"]
        assert saved == pytest.approx(2 * products - stored, rel=1e-6), job
        for part in ("gradients", "optimizer", "data", "keys_and_values"):
            assert after[part] == before[part]
        # The copy of one weight in the type of its product, where the most is held while a product of a layer runs. The
        # adapters of 7B hold the most while one kernel makes both gradients of a gated activation.
        copy = after["activations"] - before["activations"]
        most = {inference: 2 * size.hidden * size.ffn, adapters: 0} if name == "7B" else {}
        assert copy == most[job] if job in most else 0 <= copy <= 2 * size.hidden * size.ffn
        assert quantization in jobs[job]["assumptions"]


def test_what_quantization_is_for(tmp_path):
    """QLoRA's claim: adapters of a model of 65 billion parameters on one GPU of 48 GB."""
    model = llama_graph.write(tmp_path / "m.onnx", dataclasses.replace(llama_graph.LLAMA_70B, sequence=512))
    counts = [estimate(model, "--gpu-memory", "48GB", "--quantization", kind)[JOBS[1]]["devices"][0]["count"]
              for kind in ("none", "int8", "int4")]
    assert counts == [4, 2, 1]


def test_nothing_to_quantize(tmp_path):
    outcome = call("dtc", "estimate", MODELS / "resnet_tiny.onnx", "--quantization", "int8", cwd=tmp_path)
    assert outcome.code == 3 and "resnet_tiny.onnx: has no weight to quantize" in outcome.error_line()


def test_samples_of_a_device_hold_activations_and_keys(models):
    one, four = (estimate(models["7B"], "--micro-batch", count, "--gpus", 1, "--gpu-memory", "400GB") for count in (1, 4))
    for job in (JOBS[0], JOBS[2]):
        few, many = one[job]["devices"][0], four[job]["devices"][0]
        assert many["plan"]["micro_batch"] == 4 and many["memory"]["parameters"] == few["memory"]["parameters"]
        assert many["memory"]["activations"] == pytest.approx(4 * few["memory"]["activations"], rel=0.1)
    assert four[JOBS[2]]["devices"][0]["memory"]["keys_and_values"] == 4 * one[JOBS[2]]["devices"][0]["memory"]["keys_and_values"]


def test_keys_and_values_of_inference(models):
    size = llama_graph.LLAMA_70B
    jobs = estimate(models["70B"], "--cluster", "dgx-h100", "--gpus", 8)
    (way,) = [way for way in jobs[JOBS[2]]["configurations"]["plans"] if way["plan"]["tp"] == 8]
    whole = size.layers * 2 * size.sequence * size.hidden // size.heads * size.kv_heads * 2
    assert way["memory"]["keys_and_values"] == whole // 8
    assert way["memory"]["gradients"] == way["memory"]["optimizer"] == 0


def test_every_built_in_device():
    """The devices of more memory never need more, where nodes are alike."""
    answer = estimate(MODELS / "llama.onnx")
    names = [device["device"] for device in answer[JOBS[0]]["devices"]]
    assert {"v100", "a10g", "a100-40", "a100-80", "l40s", "h100", "h200", "b200"} <= set(names)
    assert all(device["count"] == 1 for job in answer.values() for device in job["devices"])
    assert answer[JOBS[0]]["configurations"]["device"] == "h100"


def test_memory_can_be_given(models):
    jobs = estimate(models["7B"], "--gpu-memory", "24GiB", "--gpu-memory", "40GiB", "--gpu-memory", "160GB")
    rows = jobs[JOBS[0]]["devices"]
    assert [row["device"] for row in rows] == ["24GiB", "40GiB", "160GB"]
    assert [row["memory_bytes"] for row in rows] == [24 * GIB, 40 * GIB, 160e9]
    assert [row["count"] for row in rows] == [8, 4, 1]


def test_types_of_a_mixed_cluster_are_asked_one_by_one(models, tmp_path):
    """Each type alone; all together where none is enough alone."""
    cluster = tmp_path / "mixed.yaml"
    cluster.write_text("groups:\n  - {node: dgx-h100, nodes: 1}\n  - {node: dgx-a100, nodes: 1}\n"
                       "inter_node: {bandwidth_gbs: 25, latency_us: 10}\n")
    full, adapters, _ = JOBS
    jobs = estimate(models["70B"], "--cluster", cluster)
    assert [(row["device"], row["count"]) for row in jobs[adapters]["devices"]] == [("h100", 2), ("a100-80", 2)]
    assert [(row["device"], row["count"], row.get("reason")) for row in jobs[full]["devices"]] == [
        ("h100", None, "more than 8 are needed"), ("a100-80", None, "more than 8 are needed"),
        ("h100 + a100-80", 16, None)]
    given = estimate(models["70B"], "--cluster", cluster, "--gpus", 16)[adapters]["devices"]
    assert [(row["device"], row["count"], row.get("reason")) for row in given] == [
        ("h100", None, "there are 8"), ("a100-80", None, "there are 8"), ("h100 + a100-80", 16, None)]
    for devices, device in ((8, "h100"), (16, "h100 + a100-80"), (17, None)):
        ways = estimate(models["70B"], "--cluster", cluster, "--gpus", devices)[adapters]["configurations"]
        assert (ways["device"], bool(ways["plans"])) == (device, device is not None)


def test_what_is_too_much_is_said(models, tmp_path):
    cluster = tmp_path / "node.yaml"
    cluster.write_text("node: dgx-h100\nnodes: 1\n")
    jobs = estimate(models["70B"], "--cluster", cluster)
    (row,) = jobs[JOBS[0]]["devices"]
    assert row["count"] is None and row["reason"] == "more than 8 are needed"
    assert "more than 8 are needed" in check_call("dtc", "estimate", models["70B"], "--cluster", cluster).out


def test_the_table(models):
    out = check_call("dtc", "estimate", models["7B"], "--cluster", "dgx-h100").out
    assert "16 bytes a parameter (18 in dtc's own programs, whose gradients are fp32: --gradients fp32)" in out
    assert "The fewest devices that hold it, and what each of them then holds. Tried are powers of two" in out
    assert "adapters of rank 16" in out and "keys and values" in out
    lines = [line.split() for line in out.splitlines() if line.startswith("  h100 ")]
    assert [line[3] for line in lines] == ["2", "1", "1"]
    assert "other ways on 2 x h100" in out and " short" in out
    assert check_call("dtc", "estimate", models["7B"], "--cluster", "dgx-h100").out == out


@pytest.mark.parametrize("arguments, code, message", [
    ([MODELS / "mlp.onnx", "--cluster", "dgx-h101"], 2, "unknown cluster: dgx-h101 (did you mean dgx-h100?)"),
    ([MODELS / "mlp.onnx", "--gpu-memory", "80"], 2, "--gpu-memory: expected a number of GB or GiB, got '80'"),
    ([MODELS / "mlp.onnx", "--gpu-memory", "-1GB"], 2, "got '-1GB'"),
    ([MODELS / "mlp.onnx", "--lora-rank", -1], 2, "--lora-rank must be between 0 and 65536, got -1"),
    ([MODELS / "mlp.onnx", "--gpus", 0], 2, "--gpus must be between 1"),
    ([MODELS / "mlp.onnx", "--gradients", "fp8"], 2, "--gradients: expected bf16|fp32, got 'fp8'"),
    ([MODELS / "mlp.onnx", "--precision", "int4"], 2, "--precision: expected fp32|tf32|bf16|fp16|bf16-true, got 'int4'"),
    ([MODELS / "mlp.onnx", "--quantization", "int3"], 2, "--quantization: expected none|int8|int4, got 'int3'"),
    ([MODELS / "mlp.onnx", "--micro-batch", 0], 2, "--micro-batch must be between 1 and 4096, got 0"),
    ([MODELS / "mlp.onnx", "--loss", "none"], 2, "--loss"),
    ([MODELS / "mlp.onnx", "--plan", "tp=2"], 2, "unknown flag --plan"),
    ([MODELS / "README.md"], 3, "README.md"),
    (["missing.onnx"], 3, "missing.onnx"),
])
def test_wrong_inputs(tmp_path, arguments, code, message):
    outcome = call("dtc", "estimate", *arguments, "--json", cwd=tmp_path)
    assert outcome.code == code and outcome.out == "", outcome.err
    assert message in outcome.error_line()
