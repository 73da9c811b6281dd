"""The validation against published runs (bench/published): how rows become plans, and what the figures mean."""

import copy
import json
import pathlib
import sys

import pytest

from conftest import BIN, MODELS, ROOT, check_call

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "published")]

import graphs  # noqa: E402
import metrics  # noqa: E402
import plan_time  # noqa: E402
import predict  # noqa: E402
import runs  # noqa: E402
import validate  # noqa: E402

RUN = {
    "id": "a", "suite": "s", "source": "a paper", "cluster": "c", "gpus": 64,
    "model": {"family": "gpt", "params_b": 1.0, "layers": 24, "hidden": 2048, "ffn_hidden": 8192, "heads": 16,
              "kv_heads": 16, "head_dim": 128, "vocab": 50257, "seq_len": 1024, "gated_mlp": False},
    "plan": {"dp": 4, "tp": 4, "pp": 4, "cp": 1, "sequence_parallel": True, "zero_stage": 1, "micro_batch": 2,
             "global_batch": 64, "recompute": "full", "schedule": "1F1B", "precision": "fp16"},
    "measured": {"iteration_time_s": 2.0, "peak_mem_gib": 10.0},
}
SUITES = {"s": {"title": "S", "fitted": True, "software": {"flash_attention": 0}, "vocabulary_multiple": 128}}
CLUSTERS = {"c": {"cluster": {"name": "c", "device": "a100-80"}}}


def changed(**parts) -> dict:
    """RUN with some values of its parts replaced."""
    run = copy.deepcopy(RUN)
    for part, values in parts.items():
        if isinstance(values, dict):
            run[part].update(values)
        else:
            run[part] = values
    return run


def case(run: dict) -> runs.Case:
    return runs.case(run, SUITES["s"], CLUSTERS)


def test_a_run_becomes_a_plan():
    made = case(RUN)
    assert made.spec == "dp=4,tp=4,pp=4,cp=1,ep=1,sp=on,zero=1,zero_group=4,schedule=1f1b,recompute=full,offload=none,micro_batch=2"
    # 50257 rounded up to a multiple of 128 times tp.
    assert made.graph.name == "gpt-l24-h2048-a16-f8192-v50688-s1024"
    assert made.cluster == {"name": "c", "device": "a100-80", "software": {"flash_attention": 0}}


@pytest.mark.parametrize("plan, expected", [
    ({"schedule": "interleaved-1F1B", "vpp": 3}, "schedule=interleaved,chunks=3"),
    ({"schedule": "ZB-1p"}, "schedule=zb"),
    ({"zero_stage": 3, "fsdp": "2"}, "zero=3,zero_group=2"),
    ({"zero_stage": 3, "fsdp": "FULL_SHARD"}, "zero=3,zero_group=4,schedule"),
    ({"zero_stage": 1, "zero1_group": -1}, "zero=1,zero_group=4,schedule"),
    ({"tp": 1, "dp": 16}, "sp=off"),
    ({"recompute": None}, "schedule=1f1b,offload=none"),
])
def test_parts_of_a_plan(plan, expected):
    assert expected in case(changed(plan=plan)).spec


@pytest.mark.parametrize("parts, reason", [
    ({"plan": {"schedule": "interleaved-1F1B"}}, "chunks"),
    ({"plan": {"schedule": "ZB-2p"}}, "schedule ZB-2p"),
    ({"plan": {"dp": 8}}, "product"),
    ({"plan": {"micro_batch": 3}}, "ragged"),
    ({"plan": {"precision": "fp8"}}, "precision fp8"),
    ({"plan": {"recompute": "selective(op)"}}, "recomputation"),
    ({"plan": {"task": "LoRA"}}, "LoRA"),
    ({"plan": {"micro_batch": None}}, "micro_batch not stated"),
    ({"model": {"experts": 8, "topk": 2}}, "mixture of experts of gpt"),
    ({"plan": {"ep": 8}}, "other than data-parallel"),
    ({"plan": {"ep": 2, "etp": 1}}, "tensor parallelism of their own"),
    ({"model": {"vocab": None}}, "vocabulary"),
    ({"model": {"heads": 15}}, "width"),
    ({"doubts": ["tokens and time disagree"]}, "contradict"),
])
def test_what_cannot_be_stated_is_not_guessed(parts, reason):
    with pytest.raises(graphs.Unsupported, match=reason):
        case(changed(**parts))


def test_architectures():
    model = RUN["model"]
    assert graphs.architecture(model) == "gpt"
    assert graphs.architecture(model | {"gated_mlp": True}) == "llama"
    assert graphs.architecture(model | {"kv_heads": 4}) == "nemotron"


MIXTURE = {"family": "gpt_oss", "layers": 24, "hidden": 2048, "ffn_hidden": 8192, "moe_ffn_hidden": 1024, "heads": 32,
           "kv_heads": 8, "head_dim": 128, "vocab": 50257, "seq_len": 1024, "gated_mlp": True, "experts": 16, "topk": 4}


def test_a_mixture_of_experts():
    made = case(changed(model=MIXTURE, plan={"dp": 4, "ep": 2, "schedule": "1F1B"}))
    assert made.graph.name == "gptoss-l24-h2048-a32-k8-d128-f1024-e16x4-v50688-s1024"
    # Megatron's ep lies within dp, dtc's beside it: 4 ranks split the batch in both.
    assert made.spec.startswith("dp=2,tp=4,pp=4,cp=1,ep=2,sp=on,zero=1,schedule=1f1b")
    assert case(changed(model=MIXTURE, plan={"dp": 4, "ep": 2, "etp": 4})).spec == case(
        changed(model=MIXTURE, plan={"dp": 4, "ep": 2})).spec
    beside = case(changed(model=MIXTURE, plan={"dp": 2, "ep": 2, "cp": 2, "schedule": "1F1B"}))
    assert beside.spec.startswith("dp=1,tp=4,pp=4,cp=2,ep=2,sp=on,zero=1,schedule=1f1b")
    # 12 of 16 experts of three matrices each lie idle in each layer; embeddings are looked up.
    idle = 24 * 12 * 3 * 2048 * 1024 + 50257 * 2048
    assert runs.active_parameters(MIXTURE, 10e9) == 10e9 - idle
    assert runs.active_parameters(RUN["model"], 10e9) == 10e9


@pytest.mark.parametrize("family, kind", [("grok1", "mixtral"), ("qwen3_moe", "qwen3moe"), ("gpt_oss", "gptoss")])
def test_architectures_of_mixtures(family, kind):
    assert graphs.architecture(MIXTURE | {"family": family}) == kind


def test_measured_time_and_flops():
    assert runs.measured_seconds(RUN) == 2.0
    by_tokens = changed(measured={}) | {"measured": {"tokens_per_s_per_gpu": 512.0}}
    assert runs.measured_seconds(by_tokens) == 64 * 1024 / (512 * 64)
    assert runs.measured_seconds(by_tokens | {"measured": {"tflops_per_gpu": 100.0}}) is None
    # 6 * 1e9 + 12 * 24 * 2048 * 1024 flops a token, 65536 tokens.
    flops = (6e9 + 12 * 24 * 2048 * 1024) * 65536
    assert runs.model_flops(RUN, 1e9) == flops
    implied = RUN | {"implied_tflops_per_gpu": flops / 2 / 64 / 1e12}
    assert runs.dimension_error(implied, 1e9) == pytest.approx(0)
    assert runs.dimension_error(implied, 2e9) > 0.5
    assert runs.dimension_error(RUN, 1e9) is None


def test_errors():
    found = metrics.errors([(1.1, 1.0), (0.8, 1.0), (1.0, 1.0), (3.0, 2.0)])
    assert (found.count, found.median, found.p90) == (4, pytest.approx(0.1), pytest.approx(0.5))
    assert found.bias == pytest.approx(0.0) and found.share_under == 0.25
    assert metrics.errors([]) is None


def test_confusion():
    assert metrics.confusion([(True, True), (True, False), (False, False), (False, False)]) == metrics.Fits(
        ran_fits=1, ran_refused=0, failed_fits=1, failed_refused=2)


def test_choice():
    # Predicted fastest is the second, 20 % slower than the first; two of three pairs are right.
    found = metrics.choice([(1.0, 10.0), (0.9, 12.0), (2.0, 20.0)])
    assert (found.plans, found.pairs, found.pairs_right) == (3, 3, 2)
    assert found.regret == pytest.approx(0.2) and found.correlation == pytest.approx(0.5)
    # Equal predictions order nothing and choose the worst; equal measurements aren't counted.
    tied = metrics.choice([(1.0, 10.0), (1.0, 12.0), (1.0, 12.05)])
    assert (tied.pairs, tied.pairs_right, tied.correlation) == (2, 0, 0.0)
    assert tied.regret == pytest.approx(0.205)


def test_order_by_margin():
    # Measured 2, 10 and 8 % apart; the first pair alone is ordered wrongly.
    pairs = [(1.1, 100.0), (1.0, 102.0), (1.2, 110.0)]
    assert [metrics.order(pairs, margin) for margin in (0.01, 0.05, 0.09, 0.2)] == [(3, 2), (2, 2), (1, 1), (0, 0)]


def test_answers_of_dtc():
    predicted = {"step_time_s": 2.0, "peak_memory_bytes": 7.0, "fits": False, "model_tflops_per_device": 3.0,
                 "memory": {"reserved": 2.0, "cached": 1.0}, "workspace_bytes": 0.5}
    answer = {"model": {"parameters": 5}, "devices": 4, "predicted": predicted}
    known = predict.interpret(0, json.dumps(answer), "")
    assert (known.seconds, known.peak_bytes, known.fits, known.parameters) == (2.0, 7.0, False, 5)
    assert (known.reserved_bytes, known.allocated_bytes, known.tensor_bytes) == (5.5, 4.5, 4.0)
    assert known.flops == 24e12
    refused = predict.interpret(3, "", "dtc: error: /a/b/model.onnx: is truncated\n")
    assert refused == predict.Prediction(refused="dtc: error: model.onnx: is truncated")


def test_summary():
    def outcome(run: dict, seconds: float, fits: bool) -> validate.Outcome:
        return validate.Outcome(case(run), predict.Prediction(seconds, 9 * 2.0**30, 8 * 2.0**30, 7 * 2.0**30, 6 * 2.0**30,
                                                              fits, 1e9))

    slower = changed(plan={"dp": 8, "tp": 2}, measured={"iteration_time_s": 3.0})
    again = changed(measured={"iteration_time_s": 2.2})  # the first plan once more
    failed = changed(plan={"dp": 16, "tp": 1}, measured={"oom": True})
    outcomes = [outcome(RUN, 2.2, True), outcome(again, 2.2, True), outcome(slower, 2.0, False),
                outcome(failed, 1.0, True),
                validate.Outcome(case(RUN), predict.Prediction(refused="pp=4"))]
    found = validate.summarize("s", outcomes)
    assert (found.cases, found.refused, found.mismatched) == (5, 1, 0)
    assert found.time.count == 3 and found.time.median == pytest.approx(0.1)
    assert found.memory.count == 4 and found.memory.bias == pytest.approx(-0.1)
    assert found.fits == metrics.Fits(ran_fits=2, ran_refused=1, failed_fits=1, failed_refused=0)
    # One job with two plans: 2.1 s (the median of its runs) and 3 s, of which the second is chosen.
    assert (found.jobs, found.pairs, found.pairs_right) == (1, 1, 0)
    assert found.worst_regret == pytest.approx(3.0 / 2.1 - 1)


def test_memory_is_compared_with_what_the_source_reads():
    """nvidia-smi shows the context and communication buffers, too, PyTorch's counters its cache or tensors alone."""
    for reading, expected in (("device", 9.0), ("reserved", 8.0), ("allocated", 7.0), ("tensors", 6.0)):
        made = runs.case(RUN, SUITES["s"] | {"reading": reading}, CLUSTERS)
        outcome = validate.Outcome(made, predict.Prediction(2.0, 9.0, 8.0, 7.0, 6.0, True, 1e9))
        assert outcome.memory == (expected, 10.0 * 2**30)


def test_lists_memory_that_is_most_too_low(capsys):
    def outcome(share: float) -> validate.Outcome:
        return validate.Outcome(case(RUN), predict.Prediction(2.0, share * 10 * 2.0**30, 1.0, 1.0, 1.0, True, 1e9,
                                                              parts={"parameters": 3 * 2.0**30, "data": 0}))

    validate.print_worst_memory([outcome(1.2), outcome(0.9), outcome(0.95)], 2)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[:4] for line in lines] == [["-10.0", "9.0", "10.0", "device"], ["-5.0", "9.5", "10.0", "device"]]
    assert all(line.endswith("  parameters 3.0") for line in lines)


def test_half_gradients_depend_on_the_precision():
    suite = SUITES["s"] | {"software": {"half_gradients": ["fp16"], "keeps_half_gradients": ["bf16"]}}
    made = [runs.case(changed(plan={"precision": p}), suite, CLUSTERS) for p in ("fp16", "bf16", "fp16/bf16 (not stated)")]
    assert [case.cluster["software"]["half_gradients"] for case in made] == [True, False, True]
    assert [case.cluster["software"]["keeps_half_gradients"] for case in made] == [False, True, False]


def test_rotary_embeddings_are_unfused_for_models_that_a_suite_names():
    suite = SUITES["s"] | {"software": {"unfused_rotary": ["phi2"]}}
    made = [runs.case(changed(model={"family": family}), suite, CLUSTERS) for family in ("phi2", "gpt")]
    assert [case.cluster["software"] for case in made] == [{"fused_rotary": False}, {}]


def test_runs_of_other_dimensions_are_left_out():
    run = RUN | {"implied_tflops_per_gpu": runs.model_flops(RUN, 1e9) / 2 / 64 / 1e12}
    same = validate.Outcome(case(run), predict.Prediction(2.0, 1.0, 1.0, 1.0, 1.0, True, 1e9))
    other = validate.Outcome(case(run), predict.Prediction(2.0, 1.0, 1.0, 1.0, 1.0, True, 1.2e9))
    assert same.mismatch is None and same.times == (2.0, 2.0)
    assert other.mismatch > 0.05 and other.times is None and other.fits is None


def test_published_data_is_complete():
    suites, clusters, table = runs.load("suites"), runs.load("clusters"), runs.load("runs")
    assert len({run["id"] for run in table}) == len(table)
    assert {run["suite"] for run in table} == set(suites)
    assert {run["cluster"] for run in table} == set(clusters)
    assert all(run["source"] for run in table)
    assert 2 * sum(suite["fitted"] for suite in suites.values()) <= len(suites)
    cases, others = runs.all_cases()
    assert len(cases) + len(others) == len(table) and len(cases) > 300


def test_dtc_reads_every_cluster(tmp_path: pathlib.Path):
    cases, _ = runs.all_cases()
    for text in sorted({json.dumps(made.cluster) for made in cases}):
        path = tmp_path / "cluster.yaml"
        path.write_text(text)
        check_call("dtc", "plan", MODELS / "mlp.onnx", "--gpus", 2, "--cluster", path, "--loss", "cross_entropy",
                   "--plan", "dp=2", "--json")


def test_the_free_choice_is_no_slower_than_published_plans(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(graphs, "CACHE", tmp_path)
    monkeypatch.setattr(predict, "RESULTS", tmp_path / "results")
    outcomes, predictor = [], predict.Predictor(BIN / "dtc")
    for plan in ({"dp": 4, "tp": 1, "pp": 1}, {"dp": 2, "tp": 2, "pp": 1, "zero_stage": 1},
                 {"dp": 1, "tp": 1, "pp": 4}, {"dp": 1, "tp": 2, "pp": 2, "recompute": "full"}):
        made = case(changed(gpus=4, plan={"zero_stage": 0, "recompute": "none", "global_batch": 8, "micro_batch": 1,
                                          "sequence_parallel": False} | plan))
        made.cluster.update(devices_per_node=4, intra_node={"bandwidth_gbs": 300, "latency_us": 3})
        made.graph.path.write_bytes((MODELS / "gpt2.onnx").read_bytes())
        outcomes.append(validate.Outcome(made, predictor.predict(made)))
    assert all(outcome.times and outcome.prediction.fits for outcome in outcomes), outcomes
    (found,) = validate.free_choices(outcomes, predictor, 1)
    assert found.plans == 4 and found.best == min(outcome.prediction.seconds for outcome in outcomes)
    assert not found.slower and found.seconds > 0
    # A choice that is slower, or none, is told.
    assert validate.FreeChoice("a", 1, best=1.0, seconds=1.01).slower
    assert validate.FreeChoice("a", 1, best=1.0, seconds=None).slower


def test_predictor_remembers(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(graphs, "CACHE", tmp_path)
    monkeypatch.setattr(predict, "RESULTS", tmp_path / "results")
    made = case(changed(gpus=2, plan={"dp": 2, "tp": 1, "pp": 1, "zero_stage": 0, "recompute": "none",
                                      "global_batch": 8, "sequence_parallel": False}))
    made.cluster.update(devices_per_node=8, intra_node={"bandwidth_gbs": 300, "latency_us": 3})
    made.graph.path.write_bytes((MODELS / "gpt2.onnx").read_bytes())
    predictor = predict.Predictor(BIN / "dtc")
    first = predictor.predict(made)
    assert first.seconds > 0 and first.fits and first.parameters > 100_000, first
    (kept,) = (tmp_path / "results").iterdir()
    answer = json.loads(json.loads(kept.read_text())[1])
    answer["predicted"]["step_time_s"] = 17.0
    kept.write_text(json.dumps([0, json.dumps(answer), ""]))
    assert predictor.predict(made).seconds == 17.0
    made.graph.path.write_bytes((MODELS / "gpt2_b1.onnx").read_bytes())
    other = predict.Predictor(BIN / "dtc").predict(made)
    assert other.seconds != 17.0


def test_benchmarks_name_the_graphs_that_they_time():
    names = {dims.name for _, dims, _, _ in plan_time.cases()}
    assert "gpt-l96-h12288-a96-f49152-v51200-s2048" in names
    assert {f"llama-l{layers}-h4096-a32-k8-f14336-v128256-s8192" for layers in (8, 128)} < names
