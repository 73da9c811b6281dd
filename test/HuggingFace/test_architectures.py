"""Models of transformers come in from a folder, train as in PyTorch, and go back. `check-hugging-face` runs this."""

import pathlib
import sys

import pytest
import torch
import transformers
from architectures import ARCHITECTURES, Architecture
from safetensors.torch import save_file
from training import BATCH, RATE, batches, looking_trained, pytorch_losses

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Python"))
import package  # noqa: F401  finds the package of the build folder

import dtc
from dtc import hf


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A folder of each model, made when it is first asked for; its weights look trained."""
    made = {}

    def folder_of(name: str) -> pathlib.Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            looking_trained(ARCHITECTURES[name]).save_pretrained(made[name], max_shard_size="40KB")
        return made[name]

    return folder_of


def load(name: str, folders) -> torch.nn.Module:
    return getattr(transformers, ARCHITECTURES[name].model).from_pretrained(folders(name), dtype=torch.float32)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_plans_without_weights(name, folders):
    architecture = ARCHITECTURES[name]
    sequence = 16 if architecture.targets else None
    plan = dtc.plan(hf=folders(name) / "config.json", sequence=sequence, gpus=8, cluster="dgx-h100", global_batch=64)
    assert plan.fits and plan.settings["dp"] * plan.settings["tp"] * plan.settings["pp"] * plan.settings["ep"] == 8
    own = getattr(transformers, architecture.model).from_pretrained(folders(name))
    sizes = [each.numel() for each in own.parameters()]
    # What the logits don't depend on isn't part of the graph, such as the other half of CLIP.
    assert 0.5 * sum(sizes) < plan.facts["model"]["parameters"] <= sum(sizes) or name == "clip"


@pytest.mark.parametrize("devices,plan", [(1, "dp=1"), (4, "dp=2,tp=2")], ids=["one", "dp2tp2"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_trains_as_pytorch(name, devices, plan, folders, tmp_path):
    architecture = ARCHITECTURES[name]
    data = batches(architecture)
    program = dtc.parallelize(hf=folders(name), sequence=16 if architecture.targets else None, loss="cross_entropy",
                              optimizer=dtc.AdamW(lr=RATE), devices=devices, target="cpu", global_batch=BATCH, plan=plan,
                              threads_per_rank=1)
    losses = [program.step(batch).loss for batch in data]
    assert losses == pytest.approx(pytorch_losses(load(name, folders), data), rel=1e-4)
    assert losses[0] != losses[-1]
    if devices > 1:
        check_back(architecture, program, tmp_path / "trained")


def check_back(architecture: Architecture, program: dtc.Program, folder: pathlib.Path) -> None:
    """What `from_pretrained` loads has the trained weights."""
    program.save_pretrained(folder)
    loaded, info = getattr(transformers, architecture.model).from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    weights = program.state_dict()
    own = loaded.state_dict()
    assert set(weights) <= set(own) and len(weights) > 4
    for name, tensor in weights.items():
        assert torch.equal(own[name], tensor), name


def test_saving_lists_the_weights_of_a_model_a_few_times(folders, tmp_path, monkeypatch):
    """However many they are: a list of thousands takes long."""
    calls, own = [], transformers.BertForMaskedLM.state_dict
    monkeypatch.setattr(transformers.BertForMaskedLM, "state_dict", lambda *args, **named: calls.append(0) or own(*args, **named))
    weights = transformers.BertForMaskedLM.from_pretrained(folders("bert")).state_dict()
    calls.clear()
    hf.save(folders("bert"), weights, tmp_path / "new")
    assert 0 < len(calls) < 6 < len(weights)


def test_what_can_not_be_saved_is_told_in_one_line(folders, tmp_path, capsys):
    (tmp_path / "text").write_text("no weights")
    save_file({"cls.predictions.bias": torch.zeros(2)}, tmp_path / "small")
    save_file({}, tmp_path / "none")
    for weights, output, code, told in (
            ("text", "new", 3, "text: cannot read the weights: "), ("missing", "new", 3, "missing: cannot read the weights: "),
            ("small", "new", 3, "cls.predictions.bias has the shape [128], the weights have [2]"),
            ("none", "text", 1, "text: cannot write: it is no folder"), ("none", "text/in", 1, "text/in: cannot write: ")):
        asked = ["save", str(folders("bert")), "--weights", str(tmp_path / weights), "-o", str(tmp_path / output)]
        assert hf.main(asked) == code
        said = capsys.readouterr().err
        assert told in said.splitlines()[-1] and not (tmp_path / "new").exists(), said
