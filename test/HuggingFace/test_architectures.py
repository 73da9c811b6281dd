"""Models of transformers come in from a folder, train as in PyTorch, and go back. `check-hugging-face` runs this."""

import pathlib
import sys

import numpy
import pytest
import torch
import transformers
from architectures import ARCHITECTURES, CLASSES, VOCABULARY, Architecture

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Python"))
import package  # noqa: F401  finds the package of the build folder

import dtc

STEPS, BATCH, RATE = 10, 8, 1e-3


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A folder of each model, made when it is first asked for; its weights look trained."""
    made = {}

    def folder_of(name: str) -> pathlib.Path:
        if name not in made:
            torch.manual_seed(1)
            model = getattr(transformers, ARCHITECTURES[name].model)(ARCHITECTURES[name].config())
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.05)
            made[name] = tmp_path_factory.mktemp(name)
            model.save_pretrained(made[name], max_shard_size="40KB")
        return made[name]

    return folder_of


def batches(architecture: Architecture) -> list[dict]:
    random = numpy.random.default_rng(3)

    def draw(name: str, shape: tuple[int, ...]) -> numpy.ndarray:
        if name.endswith("ids"):
            return random.integers(3, VOCABULARY, (BATCH, *shape))
        return random.standard_normal((BATCH, *shape), dtype=numpy.float32)

    classes = VOCABULARY if architecture.targets else CLASSES
    return [{**{name: draw(name, shape) for name, shape in architecture.sample.items()},
             "target": random.integers(0, classes, (BATCH, *architecture.targets))} for _ in range(STEPS)]


def pytorch_losses(architecture: Architecture, folder: pathlib.Path, data: list[dict]) -> list[float]:
    model = getattr(transformers, architecture.model).from_pretrained(folder, dtype=torch.float32).eval()
    if hasattr(model.config, "_experts_implementation"):
        model.config._experts_implementation = "eager"
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=RATE)
    losses = []
    for batch in data:
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        target = tensors.pop("target")
        if "use_cache" in model.forward.__code__.co_varnames:
            tensors["use_cache"] = False
        logits = model(**tensors).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


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
    assert losses == pytest.approx(pytorch_losses(architecture, folders(name), data), rel=1e-4)
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
