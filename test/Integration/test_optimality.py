"""Shardings are optimal: the planner's solver against an integer program (HiGHS) of the same problems."""

import json

import pytest

from conftest import MODELS, ROOT, check_call
from integer_program import Statement, minimize

LAYERS = ROOT / "test" / "Unit" / "Plan" / "problems"
TRAINED = {"mlp": "cross_entropy", "gpt2": "cross_entropy", "llama": "cross_entropy",
           "bert": "cross_entropy", "bart": "cross_entropy", "t5": "cross_entropy",
           "gpt_neox": "cross_entropy", "qwen2": "cross_entropy", "vit": "cross_entropy",
           "mixtral": "cross_entropy", "moe": "cross_entropy",
           "resnet_tiny": "cross_entropy", "resnet18": "cross_entropy",
           "convnext": "cross_entropy", "mobilenet": "cross_entropy"}


def stated(*arguments) -> list[dict]:
    lines = check_call("dtc-plan-test", *arguments).out.splitlines()
    return [json.loads(line) for line in lines]


def compared(case: dict) -> tuple[float, float]:
    """Cost of the solver's choices and of the best; its own figure must be the former."""
    statement = Statement(case)
    assert -1 not in case["choices"], "the solver chose what isn't among the legal shardings"
    own = statement.cost(case["choices"])
    best = minimize(statement, case["seconds"])
    assert best.seconds <= best.bound * (1 + 1e-7), "HiGHS stopped early"
    return own, best.seconds


def has_many_readers(case: dict) -> bool:
    """What more than four ops read has its copies in one shared layout, which is nearly exact."""
    return any(len(transfer["spokes"]) > 4 for transfer in case["transfers"])


@pytest.mark.parametrize("kind", ["forward", "training", "folded"])
def test_random_graphs(kind):
    """`folded`: eight layers and more, solved as a few; the program is always that of all layers."""
    exact = split = 0
    for case in stated("random", 0, 200, kind):
        if case.get("error") == "not folded" and kind == "folded":
            continue
        if "error" in case:  # merged dimensions: the batch is in the way of the sequence
            assert "no legal sharding of dtc.reshape" in case["error"] and "cp=2" in case["error"]
            continue
        own, best = compared(case)
        if has_many_readers(case):
            assert best * (1 - 1e-9) <= own <= best * 1.001, case["seed"]
            continue
        exact += 1
        split += any(case["choices"])
        assert own == pytest.approx(case["seconds"], rel=1e-9), case["seed"]
        assert own == pytest.approx(best, rel=1e-7), case["seed"]
        assert case["gap"] == 0
        if kind == "forward":
            assert case["predicted"] == pytest.approx(own, rel=1e-9), case["seed"]
    assert exact > (50 if kind == "folded" else 150) and split > exact / 2


def test_gap_bounds_what_small_tables_miss():
    inexact = worse = 0
    for case in stated("random", 0, 120, "training", 2):
        if "error" in case or has_many_readers(case):
            continue
        own, best = compared(case)
        assert own == pytest.approx(case["seconds"], rel=1e-9), case["seed"]
        assert best * (1 - 1e-9) <= own <= best * (1 + case["gap"]) * (1 + 1e-9), case["seed"]
        inexact += case["gap"] > 0
        worse += own > best * (1 + 1e-6)
    assert inexact > 30 and worse > 0


@pytest.mark.parametrize("layer", ["gpt", "llama", "llama_kv2"])
@pytest.mark.parametrize("degrees", ["tp=2", "tp=8", "tp=4,cp=2"])
def test_layers_of_large_models(layer, degrees):
    case, = stated("file", LAYERS / f"{layer}.json", degrees, "dgx-h100")
    own, best = compared(case)
    assert own == pytest.approx(case["seconds"], rel=1e-9)
    assert own == pytest.approx(best, rel=1e-7)
    assert case["predicted"] == pytest.approx(own, rel=0.005)
    assert case["gap"] == 0


@pytest.mark.parametrize("model", TRAINED)
def test_models(tmp_path, model):
    graph = tmp_path / "graph.mlir"
    check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", 1, "--loss", TRAINED[model],
               "--global-batch", 8, "--emit", "train", "-o", graph)
    problem = tmp_path / "problem.json"
    problem.write_text(check_call("dtc-opt", graph, "--dtc-print-problem", "-o", "/dev/null").out)
    for degrees in ["tp=4", "dp=2,tp=2"]:
        case, = stated("file", problem, degrees, "dgx-h100")
        own, best = compared(case)
        assert own == pytest.approx(case["seconds"], rel=1e-9)
        assert own == pytest.approx(best, rel=1e-7)
        assert case["gap"] == 0
