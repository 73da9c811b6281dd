"""PyTorch programs (.pt2) plan and train as the same models do through ONNX, and as PyTorch trains them."""

import json
import shutil
import zipfile

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, call, case, check_call, compare_steps, reference

TRAINED = {
    "mlp": "adamw", "gpt2": "adamw", "gpt2_mask": "adamw", "llama": "adamw", "resnet_tiny": "adamw", "bert": "adamw",
    "vit": "adamw", "t5": "sgd", "bart": "adamw", "qwen2": "adamw", "gpt_neox": "adamw", "mobilenet": "adamw",
    "convnext": "adamw", "mistral": "adamw", "mixtral": "adamw", "moe": "adamw", "messages": "adamw", "parts": "adamw", "windows": "adamw",
    "upsampling": "adamw", "recurrent": "adamw", "points": "adamw", "distances": "adamw", "losses": "adamw", "rotations": "adamw", "codes": "adamw",
}
# The ONNX exporter writes means of scattered elements as plain writes. The others of these have no .onnx either.
EXPORTED = [model for model in TRAINED if model not in ("messages", "parts", "windows", "upsampling", "recurrent", "points", "distances", "losses",
                                                      "rotations", "codes")]
# The row of an embedding that gets no gradient is in the program; ONNX loses it.
OWN_PADDING = "--padding-idx"


def flags_of(expected: dict) -> list[str]:
    flags = list(expected["flags"])
    if OWN_PADDING in flags:
        at = flags.index(OWN_PADDING)
        del flags[at:at + 2]
    return flags


# What ONNX has, too, trains on one rank there. These take longest to compile so.
SLOW = {("points", 1), ("losses", 1), ("recurrent", 4)}


@pytest.mark.parametrize("model,devices,plan", [
    case((model, devices) not in SLOW and (devices == 4 or model not in EXPORTED), model, devices, plan)
    for model in TRAINED for devices, plan in ((1, "dp=1"), (4, "dp=2,tp=2"))])
def test_training(trainer, model, devices, plan):
    expected = reference(model, TRAINED[model])
    run = trainer.train(f"{model}.pt2", model, *flags_of(expected), devices=devices, plan=plan)
    compare_steps(run, expected, loss=2e-5, norm=1e-4)


def test_broadcast_to_is_expand(tmp_path):
    """Under either name it is the same program."""
    members, renamed = {}, tmp_path / "t5.pt2"
    with zipfile.ZipFile(MODELS / "t5.pt2") as before, zipfile.ZipFile(renamed, "w") as after:
        for info in before.infolist():
            members[info] = before.read(info).replace(b"ops.aten.expand.default", b"ops.aten.broadcast_to.default")
            after.writestr(info, members[info])
    assert any(b"broadcast_to" in data for data in members.values())
    program = [check_call("dtc", "compile", path, "--loss", "none", "--devices", 1, "--global-batch", 8, "--emit", "import").out
               for path in (MODELS / "t5.pt2", renamed)]
    assert program[0] == program[1]


def test_parameters_without_dimensions_are_whole_under_zero(trainer):
    expected = reference("points", "adamw")
    run = trainer.train("points.pt2", "points", *flags_of(expected), devices=2, plan="dp=2,zero=3")
    compare_steps(run, expected, loss=2e-5, norm=1e-4)


def predicted(path, *options) -> dict:
    out = check_call("dtc", "plan", path, "--gpus", 4, "--cluster", "dgx-h100", "--loss", "cross_entropy", *options, "--json").out
    plan = json.loads(out)
    del plan["planning_time_s"]
    return plan


@pytest.mark.parametrize("model", EXPORTED)
def test_plan_is_that_of_onnx(model):
    ours = predicted(MODELS / f"{model}.pt2", "--global-batch", 8)
    theirs = predicted(MODELS / f"{model}.onnx", "--global-batch", 8)
    assert ours["plan"] == theirs["plan"]
    for key in ("step_time_s", "peak_memory_bytes"):
        assert ours["predicted"][key] == pytest.approx(theirs["predicted"][key], rel=0.01)
    assert ours["model"]["parameters"] == theirs["model"]["parameters"]


@pytest.mark.parametrize("model", ["mlp", "llama"])
def test_symbolic_batch(model):
    """A batch that the program leaves open is the one that is asked for."""
    symbolic = predicted(MODELS / f"{model}_dyn.pt2", "--global-batch", 16)
    fixed = predicted(MODELS / f"{model}.pt2", "--global-batch", 16)
    assert symbolic["plan"] == fixed["plan"]
    assert symbolic["predicted"] == fixed["predicted"]


def test_tied_weights_are_one(tmp_path):
    """Training keeps GPT-2's tied weights equal; both names are saved."""
    artifact, weights = tmp_path / "gpt2.dtc", tmp_path / "gpt2.safetensors"
    check_call("dtc", "compile", MODELS / "gpt2.pt2", "--devices", 1, "--loss", "cross_entropy", "--global-batch", 8,
               "-o", artifact)
    check_call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 1, "--save-weights", weights)
    saved = load_file(weights)
    assert numpy.array_equal(saved["m.lm_head.weight"], saved["m.transformer.wte.weight"])


@pytest.mark.parametrize("flag", ["--no-decay={}", "--freeze={}", "--lora=rank=2,targets={}"])
def test_tied_weights_are_meant_by_all_their_names(tmp_path, flag):
    """Which name a tied weight goes by is the exporter's choice; expressions mean it by each."""
    losses = {}
    for name in ("m.lm_head.weight", "m.transformer.wte.weight", None):
        flags = [flag.format(name)] if name else []
        compiled = check_call("dtc", "compile", MODELS / "gpt2.pt2", "--devices", 1, "--loss", "cross_entropy", "--global-batch", 8,
                              "--lr", 0.01, "--weight-decay", 0.5, *flags, "-o", tmp_path / "gpt2.dtc")
        check_call("dtc-run", tmp_path / "gpt2.dtc", "--data", MODELS / "gpt2.data.safetensors", "--steps", 3, "--log", tmp_path / "log.jsonl")
        losses[name] = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
        assert ("such as a look-up, goes without: m." in compiled.err) == (name is not None and "lora" in flag)
    assert losses["m.lm_head.weight"] == losses["m.transformer.wte.weight"] != losses[None]


def test_a_pattern_that_no_parameter_matches_is_told(tmp_path):
    compiled = check_call("dtc", "compile", MODELS / "mlp.pt2", "--devices", 1, "--loss", "cross_entropy", "--global-batch", 8,
                          "--no-decay", "gamma", "-o", tmp_path / "mlp.dtc")
    assert "no parameter matches, so that all decay: gamma" in compiled.err


def with_ties(path, ties: object):
    """The program without weights, saved with what the package says of its tied ones."""
    shutil.copy(MODELS / "gpt2_fake.pt2", path)
    with zipfile.ZipFile(path, "a") as archive:
        root = archive.namelist()[0].split("/")[0]
        archive.writestr(f"{root}/extra/tied_weights.json", json.dumps(ties))
    return path


def test_gradients_that_a_program_leaves_out(tmp_path):
    """What the package has noted beside the program is refused where it is trained, and nowhere else."""
    program = shutil.copy(MODELS / "mlp.pt2", tmp_path / "mlp.pt2")
    with zipfile.ZipFile(program, "a") as archive:
        archive.writestr(f"{archive.namelist()[0].split('/')[0]}/extra/own_gradients.txt", "Round.backward, the hook of fc")
    for command, loss, code in (("plan", "cross_entropy", 0), ("compile", "none", 0), ("compile", "cross_entropy", 3)):
        output = ("-o", tmp_path / "mlp.dtc") if command == "compile" else ()
        done = call("dtc", command, program, "--devices", 1, "--target", "cpu", "--global-batch", 8, "--loss", loss, *output)
        assert done.code == code, done.err
    assert "what changes gradients there isn't part of a program: Round.backward, the hook of fc" in done.error_line()


def test_ties_of_a_program_without_weights(tmp_path):
    """Its storages don't say what is tied: the file that the package adds does."""
    tied, separate = ["m.transformer.wte.weight", "m.lm_head.weight"], ["m.transformer.wte.weight", "m.transformer.wpe.weight"]
    artifact, weights = tmp_path / "gpt2.dtc", tmp_path / "gpt2.safetensors"
    flags = ("--devices", 1, "--loss", "cross_entropy", "--global-batch", 8, "-o", artifact)
    run = ("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 1, "--save-weights")
    check_call("dtc", "compile", MODELS / "gpt2.pt2", *flags)
    check_call(*run, weights)
    both = load_file(weights)
    save_file({name: each for name, each in both.items() if name != "m.lm_head.weight"}, weights)
    assert "m.lm_head.weight" in call("dtc", "compile", MODELS / "gpt2_fake.pt2", "--weights", weights, *flags).error_line()
    check_call("dtc", "compile", with_ties(tmp_path / "tied.pt2", [tied]), "--weights", weights, *flags)
    check_call(*run, tmp_path / "trained.safetensors")
    trained = load_file(tmp_path / "trained.safetensors")
    assert trained.keys() == both.keys()
    assert numpy.array_equal(trained[tied[0]], trained[tied[1]]) and not numpy.array_equal(trained[tied[0]], both[tied[0]])
    for ties, message in (([separate], "ties the tensors m.transformer.wte.weight and m.transformer.wpe.weight"),
                          ([tied, tied], "which can't be one"), ("no list", "is no list of lists of names")):
        refused = call("dtc", "plan", with_ties(tmp_path / "wrong.pt2", ties), "--gpus", 4)
        assert refused.code == 3 and message in refused.error_line()


def test_program_without_weights(tmp_path):
    """Fake tensors have no data: such a program is planned as it is, and trains from --init."""
    assert predicted(MODELS / "gpt2_fake.pt2", "--global-batch", 8)["plan"] == predicted(
        MODELS / "gpt2.pt2", "--global-batch", 8)["plan"]
    options = ("--devices", 1, "--loss", "cross_entropy", "--global-batch", 8, "-o", tmp_path / "gpt2.dtc")
    refused = call("dtc", "compile", MODELS / "gpt2_fake.pt2", *options)
    assert refused.code == 3
    assert "has no data for" in refused.error_line() and "--init" in refused.error_line()
    check_call("dtc", "compile", MODELS / "gpt2_fake.pt2", "--init", *options)
