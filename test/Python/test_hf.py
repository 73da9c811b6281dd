"""Models of Hugging Face where transformers is missing; test/HuggingFace has the rest."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy
import pytest
from package import BIN, MODELS

import dtc
from dtc import hf

MISSING = importlib.util.find_spec("transformers") is None
without = pytest.mark.skipif(not MISSING, reason="transformers is installed")


def plan(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([BIN / "dtc", "plan", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "DTC_PYTHON": sys.executable, **environment})


@without
def test_what_is_missing_is_said_with_the_command_that_installs_it(tmp_path, capsys):
    with pytest.raises(dtc.UnsupportedError, match=r"need PyTorch and transformers .*: pip install torch transformers"):
        dtc.plan(hf=tmp_path, sequence=16, gpus=4)
    assert hf.main(["export", str(tmp_path), "-o", str(tmp_path / "m.pt2")]) == 3
    assert capsys.readouterr().err.startswith("dtc: error: models of Hugging Face need PyTorch and transformers")
    assert not (tmp_path / "m.pt2").exists()


@pytest.mark.parametrize("settings, said", [
    ({"n_layer": 10**9}, "n_layer 1000000000 is above 16384"),
    ({"text_config": {"num_local_experts": 1 << 40}}, "text_config.num_local_experts 1099511627776 is above 16384"),
    ({"depths": [2, 2, 1 << 20]}, "depths 1048576 is above 16384"),
    ({"max_position_embeddings": 1 << 40}, "max_position_embeddings 1099511627776 is above 134217728"),
])
def test_what_would_take_for_ever_is_told_before(settings, said):
    """A billion layers are made one by one."""
    assert hf.too_large_in(settings) == said


@pytest.mark.parametrize("settings", [
    {"num_hidden_layers": 126, "vocab_size": 262_144, "max_position_embeddings": 10_485_760, "rope_theta": 500_000_000},
    {"id2label": {0: "LABEL_0", 1: "LABEL_1"}, "n_layer": 2},
    {"n_routed_experts": 256, "moe_intermediate_size": 2048, "eos_token_id": [1, 1 << 30], "layer_types": ["full"] * 94},
])
def test_what_models_have_is_not_too_large(settings):
    assert hf.too_large_in(settings) == ""


def test_a_configuration_without_the_size_of_images_can_be_given_one():
    class Configuration:
        pass

    with pytest.raises(hf.HfError, match='has no image_size: add one to config.json, as "image_size": 224'):
        hf._size_of_images(Configuration())
    Configuration.image_size = 64
    assert hf._size_of_images(Configuration()) == (3, 64, 64)


def test_why_a_configuration_is_refused_is_told():
    """As transformers says it: the second line has the reason, advice follows."""
    error = ValueError("Validation error for field 'n_layer':\n    TypeError: expected int\n\nUpgrade.\n")
    assert hf.first_paragraph(error) == "Validation error for field 'n_layer': TypeError: expected int"
    assert hf.first_paragraph(ValueError()) == "ValueError"


def test_a_configuration_that_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(hf.HfError, match="config.json: not a regular file"):
        hf._check_file(tmp_path / "config.json")


@without
def test_the_command_says_so_too(tmp_path):
    done = plan("--hf", tmp_path, "--sequence", 16, "--gpus", 4, TMPDIR=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr.startswith("dtc: error: models of Hugging Face need PyTorch") and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, code, text", [
    (["--hf", "x", MODELS / "gpt2.onnx"], 2, "--hf and a model file exclude each other"),
    ([MODELS / "gpt2.onnx", "--sequence", 8], 2, "--sequence is for --hf"),
    ([], 2, "model is required"),
])
def test_what_can_not_be_meant(arguments, code, text):
    done = plan(*arguments, "--gpus", 4)
    assert (done.returncode, done.stderr) == (code, f"dtc: error: {text}\n")


@pytest.mark.parametrize("name", ["no-such-python", "/no/such/python", "/etc"])
def test_without_python_there_is_one_line(name):
    done = plan("--hf", "x", "--gpus", 4, DTC_PYTHON=name)
    assert done.returncode == 3
    assert done.stderr == (f"dtc: error: --hf needs Python with PyTorch and transformers, and there is no {name}; "
                           "DTC_PYTHON names another one\n")


def test_writes_into_parts_of_a_tensor():
    """The program that test/HuggingFace/write_fixtures.py wrote, with PyTorch's output."""
    data = numpy.load(MODELS / "hf" / "parts.npz")
    for plan in ("dp=1", "dp=2"):
        program = dtc.parallelize(MODELS / "hf" / "parts.pt2", loss="none", devices=int(plan[-1]), plan=plan, target="cpu",
                                  cluster="cpu", global_batch=4, threads_per_rank=1)
        (found,) = program.forward({"x": data["x"]}).values()
        assert found.shape == data["y"].shape and numpy.allclose(found, data["y"], rtol=1e-6, atol=1e-6)


def test_a_model_is_one_thing():
    with pytest.raises(dtc.UsageError, match="hf is the model"):
        dtc.plan(MODELS / "gpt2.onnx", hf="x")
    with pytest.raises(dtc.UsageError, match="sequence is for hf"):
        dtc.plan(MODELS / "gpt2.onnx", sequence=8)


@pytest.mark.parametrize("devices, plan", [(1, "dp=1"), (4, "dp=2,tp=2")], ids=["one", "dp2tp2"])
@pytest.mark.parametrize("name", ["falcon", "mamba", "whisper"])
def test_models_of_transformers_train_as_in_pytorch(name, devices, plan):
    """Programs and losses that test/HuggingFace/write_fixtures.py wrote."""
    folder = MODELS / "hf"
    expected = json.loads((folder / f"{name}.json").read_text())
    data = dict(numpy.load(folder / f"{name}.npz"))
    program = dtc.parallelize(folder / f"{name}.pt2", loss="cross_entropy", optimizer=dtc.AdamW(lr=expected["lr"]),
                              devices=devices, target="cpu", cluster="cpu", global_batch=8, plan=plan, threads_per_rank=1)
    losses = [program.step({key: array[at:at + 8] for key, array in data.items()}).loss for at in range(0, 80, 8)]
    assert losses == pytest.approx(expected["losses"], rel=1e-4)
