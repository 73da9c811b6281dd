"""Evaluation of models that drop and normalize by batches while they train: `eval_loss` is what PyTorch's eval() gives."""

import json
import pathlib
import zipfile

import numpy
import pytest
from safetensors.numpy import load_file

from conftest import MODELS, call, case, check_call, compare_steps, first, part, reference
from test_batch_norm import with_a_norm_used_twice

NORMS, DROPOUT = ("resnet_norms.pt2", "resnet_tiny"), ("gpt2_dropout.pt2", "gpt2")  # with their data
FULL = "recompute=full"
PLANS = [
    *((NORMS, "sgd", devices, plan) for devices, plan in (
        (1, "dp=1"), (2, "dp=2"), (2, "tp=2"), (2, "dp=2,zero=3"), (4, "dp=2,tp=2,zero=1"), (4, f"dp=4,zero=2,{FULL}"))),
    *((NORMS, "micro", devices, plan) for devices, plan in (
        (1, "micro_batch=4"), (2, "dp=2,micro_batch=2"), (2, "pp=2,micro_batch=4"), (2, f"pp=2,micro_batch=4,{FULL}"),
        (2, "pp=2,micro_batch=4,schedule=zb"), (2, "pp=2,micro_batch=4,schedule=interleaved,chunks=2"))),
    *((DROPOUT, "sgd", devices, plan) for devices, plan in (
        (1, "dp=1"), (2, "dp=2,micro_batch=2"), (2, "tp=2"), (2, "cp=2"), (2, "dp=2,zero=3,micro_batch=2"),
        (2, "pp=2,micro_batch=2,schedule=zb"), (4, f"dp=2,tp=2,sp=on,{FULL}"))),
]


def compile_to(path: pathlib.Path, model: tuple[str, str], recipe: str, devices: int, plan: str, *flags: object) -> pathlib.Path:
    check_call("dtc", "compile", MODELS / model[0], "--loss", "cross_entropy", "--global-batch", 8, "--devices", devices,
               "--plan", plan, *expected(model, recipe)["flags"], *flags, "-o", path)
    return path


def expected(model: tuple[str, str], recipe: str) -> dict:
    return reference("resnet_norms" if model[1] == NORMS[1] else "gpt2_dropout", recipe)


class Evaluated:
    """A run that evaluates the data it trains on after each step."""

    def __init__(self, artifact: pathlib.Path, data: pathlib.Path, *flags: object):
        log, weights = artifact.with_suffix(".log"), artifact.with_suffix(".weights")
        check_call("dtc-run", artifact, "--data", data, "--no-shuffle", "--log", log, "--save-weights", weights, *flags)
        self.log = [json.loads(line) for line in log.read_text().splitlines()]
        self.weights = load_file(weights)

    def column(self, key: str) -> numpy.ndarray:
        return numpy.array([line[key] for line in self.log])


def evaluated(artifact: pathlib.Path, model: tuple[str, str], *flags: object, steps: int = 10) -> Evaluated:
    data = MODELS / f"{model[1]}.data.safetensors"
    return Evaluated(artifact, data, "--steps", steps, "--eval-data", data, "--eval-every", 1, *flags)


def compare(run: Evaluated, model: tuple[str, str], recipe: str, bound: float = 2e-5, steps: int = 10) -> None:
    """Losses of steps and of evaluations."""
    made = first(steps, expected(model, recipe))
    compare_steps(run, made, loss=bound, norm=2.5 * bound)
    want = numpy.array([step["eval_loss"] for step in made["steps"]])
    assert numpy.ptp(want) > 0.2 and numpy.abs(want / run.column("loss") - 1).max() > 0.01
    assert numpy.allclose(run.column("eval_loss"), want, rtol=bound, atol=0), run.column("eval_loss") / want - 1


@pytest.mark.parametrize("model,recipe,devices,plan", part(PLANS))
def test_evaluation_is_pytorchs_eval_mode(tmp_path, model, recipe, devices, plan):
    compare(evaluated(compile_to(tmp_path / "m.dtc", model, recipe, devices, plan), model), model, recipe)


@pytest.mark.parametrize("model,recipe", [(NORMS, "micro"), (DROPOUT, "sgd")])
def test_training_goes_on_as_without(tmp_path, model, recipe):
    """Statistics that an evaluation moved, or a draw that it took, would show in the steps after it."""
    artifact = compile_to(tmp_path / "m.dtc", model, recipe, 2, "pp=2,micro_batch=4")
    plain = Evaluated(artifact, MODELS / f"{model[1]}.data.safetensors", "--steps", 10)
    run = evaluated(artifact, model, "--processes")
    assert all((run.column(key) == plain.column(key)).all() for key in ("loss", "grad_norm"))
    assert run.weights.keys() == plain.weights.keys()
    assert all((run.weights[name] == array).all() for name, array in plain.weights.items())


@pytest.mark.parametrize("model,plan", [(NORMS, "dp=2,zero=3"), (DROPOUT, "pp=2,micro_batch=4")])
def test_a_resumed_run_evaluates_the_same(tmp_path, model, plan):
    artifact = compile_to(tmp_path / "m.dtc", model, "sgd", 2, plan)
    straight = evaluated(artifact, model).column("eval_loss")
    saved = ["--checkpoint-dir", tmp_path / "saved", "--resume"]
    evaluated(artifact, model, *saved, steps=4)
    assert (evaluated(artifact, model, *saved).column("eval_loss") == straight).all()


@pytest.mark.parametrize("model", ["resnet_tiny.onnx", "resnet_tiny.pt2", "twice"])
def test_saved_statistics_are_those_that_it_takes(tmp_path, model):
    """With the weights that a run saves, the model in eval mode has its last `eval_loss`. A norm that is used several times
    has moved them in between, and takes in evaluations what was there before."""
    trained, file = NORMS, MODELS / model
    if model == "twice":
        trained = with_a_norm_used_twice(tmp_path / "trained.pt2"), NORMS[1]
        file = with_a_norm_used_twice(tmp_path / "eval.pt2", "resnet_tiny.pt2")
    run = evaluated(compile_to(tmp_path / "m.dtc", trained, "sgd", 2, "dp=2"), NORMS)
    check_call("dtc", "compile", file, "--loss", "cross_entropy", "--global-batch", 8, "--devices", 1, "--optimizer", "sgd",
               "--lr", 1e-30, "--weights", tmp_path / "m.weights", "-o", tmp_path / "frozen.dtc")
    frozen = evaluated(tmp_path / "frozen.dtc", NORMS, steps=1)
    assert frozen.column("eval_loss")[-1] == pytest.approx(run.column("eval_loss")[-1], rel=1e-6)


@pytest.mark.parametrize("precision,model,recipe,plans", [
    case((precision == "bf16") == (model == NORMS), precision, model, "sgd", [(1, "dp=1"), (2, plan)])
    for precision in ("bf16", "fp16") for model, plan in ((NORMS, "dp=2,zero=2"), (DROPOUT, "pp=2,micro_batch=4"))])
def test_half_precision(tmp_path, precision, model, recipe, plans):
    """Steps round, so that their losses are PyTorch's in fp32 within a hundredth."""
    for devices, plan in plans:
        run = evaluated(compile_to(tmp_path / "m.dtc", model, recipe, devices, plan, "--precision", precision), model)
        want = [step["eval_loss"] for step in expected(model, recipe)["steps"]]
        assert numpy.allclose(run.column("eval_loss"), want, rtol=2e-2, atol=0), run.column("eval_loss") / want - 1


def test_ranks_are_verified_as_they_evaluate(tmp_path):
    checked = check_call("dtc", "compile", MODELS / NORMS[0], "--devices", 4, "--plan", "pp=2,dp=2,micro_batch=2", "--loss",
                         "cross_entropy", "--global-batch", 8, "--verify", "-o", tmp_path / "m.dtc")
    assert "verified" in checked.out + checked.err


def test_a_buffer_that_eval_mode_may_treat_otherwise_is_refused(tmp_path):
    """It is no running statistic, nor a count of batches: one norm's count adds another's."""
    path, name = tmp_path / "m.pt2", "num_batches_tracked"
    with zipfile.ZipFile(MODELS / NORMS[0]) as before, zipfile.ZipFile(path, "w") as after:
        for info in before.infolist():
            data = before.read(info)
            if "models/" in info.filename:
                program = json.loads(data)
                adds = [node for node in program["graph_module"]["graph"]["nodes"]
                        if "add" in node["target"] and name in json.dumps(node["inputs"][0])]
                assert len(adds) > 1
                adds[0]["inputs"][1]["arg"] = adds[1]["inputs"][0]["arg"]
                data = json.dumps(program).encode()
            after.writestr(info, data)
    check_call("dtc", "compile", path, "--loss", "cross_entropy", "--global-batch", 8, "--devices", 1, "-o", tmp_path / "m.dtc")
    data = MODELS / "resnet_tiny.data.safetensors"
    refused = call("dtc-run", tmp_path / "m.dtc", "--data", data, "--steps", 1, "--eval-data", data)
    assert refused.code == 2
    assert "would change what the model keeps from step to step: " in refused.error_line()
