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
    for case in stated("random", 0, 120, "training", 8):
        if "error" in case or has_many_readers(case):
            continue
        own, best = compared(case)
        assert own == pytest.approx(case["seconds"], rel=1e-9), case["seed"]
        assert best * (1 - 1e-9) <= own <= best * (1 + case["gap"]) * (1 + 1e-9), case["seed"]
        inexact += case["gap"] > 0
        worse += own > best * (1 + 1e-6)
    assert inexact > 30 and worse > 0


def fastest(case: dict, most: list[float]) -> float | None:
    """Seconds of the first of the frontier that holds no more."""
    within = [point["seconds"] for point in case["frontier"]
              if all(held <= limit for held, limit in zip(point["held"], most))]
    return min(within, default=None)


def check_points(case: dict, statement: Statement) -> None:
    """Every point of a frontier costs and holds what its choices do."""
    for point in case["frontier"]:
        assert point["legal"] and -1 not in point["choices"], case["seed"]
        assert statement.cost(point["choices"]) == pytest.approx(point["seconds"], rel=1e-9), case["seed"]
        assert statement.holds(point["choices"]) == pytest.approx(point["held"], rel=1e-9), case["seed"]


@pytest.mark.parametrize("kind,count", [("forward", 160), ("training", 80)])
def test_frontiers_of_random_graphs(kind, count):
    """Where memory is short the frontier has what the integer program finds."""
    compared = short = 0
    for case in stated("frontier", 0, count, kind, 4096):
        if "error" in case or has_many_readers(case):
            continue
        assert case["exact"], case["seed"]
        statement = Statement(case)
        check_points(case, statement)
        first = case["frontier"][0]
        assert first["seconds"] == pytest.approx(case["seconds"], rel=1e-9), case["seed"]
        found, best = with_little_memory(case, statement)
        if best is None:
            continue
        compared += 1
        short += found > case["seconds"] * (1 + 1e-6)
    assert compared > count / 2 and short > count / 4


def with_little_memory(case: dict, statement: Statement,
                       alike: list[list[int]] = ()) -> tuple[float | None, float | None]:
    """The frontier's and the program's fastest that hold only so much, which must agree."""
    first = case["frontier"][0]
    share = 0.3 if case["seed"] % 2 else 0.7
    most = []  # rounded, so that no sum differs from it by rounding
    for kind in range(2):
        least = min(point["held"][kind] for point in case["frontier"])
        most.append(round(least + share * (first["held"][kind] - least)) + 0.5)
    found = fastest(case, most)
    best = minimize(statement, case["seconds"], most, alike)
    assert (best is None) == (found is None), case["seed"]
    if best is None:
        return None, None
    assert best.seconds <= best.bound * (1 + 1e-7), "HiGHS stopped early"
    assert found == pytest.approx(best.seconds, rel=1e-7), case["seed"]
    return found, best.seconds


def alike(case: dict, statement: Statement) -> list[list[int]]:
    """Deciders that a folded frontier treats alike: those of the repeated block, in all copies, and of the two around
    it; of the block before, as far as the first of them reads it."""
    repeated, places = case["repeated"], case["places"]
    groups = {}
    for decider, (block, number) in enumerate(places):
        if abs(block - repeated) <= 1:
            groups.setdefault(number, []).append(decider)
    for together in statement.together():
        blocks = {places[decider][0] for decider in together if decider >= 0}
        for decider in together if {repeated - 2, repeated - 1} <= blocks else ():
            block, number = places[decider]
            if block == repeated - 2 and decider not in groups[number]:
                groups[number].append(decider)
    return list(groups.values())


def test_frontiers_of_folded_graphs():
    """Eight layers and more as a few: a point holds and costs what all of them do; nothing with all alike is better."""
    compared = short = 0
    for case in stated("frontier", 0, 48, "folded", 1024):
        if "error" in case or "frontier" not in case or has_many_readers(case):
            continue
        statement = Statement(case)
        check_points(case, statement)
        assert case["frontier"][0]["seconds"] == pytest.approx(case["seconds"], rel=1e-9), case["seed"]
        if not case["exact"]:
            continue
        found, best = with_little_memory(case, statement, alike(case, statement))
        if best is None:
            continue
        compared += 1
        short += found > case["seconds"] * (1 + 1e-6)
    assert compared > 8 and short > 4


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
