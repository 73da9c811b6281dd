"""TorchScript (.pt) plans and trains as the same models do through ONNX, and as PyTorch trains them.

The committed files come with what dtc-torchscript wrote of them, so that no LibTorch is needed. With
DTC_TORCHSCRIPT_LIVE=FOLDER, of ts_export.py, that program reads the files of the folder; check-torchscript does so.
"""

import json
import os
import pathlib
import pickle
import shutil
import zipfile

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, ROOT, call, case, check_call, compare_steps, reference

LIVE = os.environ.get("DTC_TORCHSCRIPT_LIVE")
FOLDER = pathlib.Path(LIVE) if LIVE else MODELS
READER = BIN / "dtc-torchscript" if LIVE else ROOT / "test/Integration/recorded_torchscript.sh"
SCRIPTED = "scripted"
TRACED = sorted(path.stem for path in FOLDER.glob("*.pt") if path.stem != SCRIPTED)
EXPORTED = [model for model in TRACED if (MODELS / f"{model}.onnx").exists()]
SGD = ("t5",)


@pytest.fixture(autouse=True)
def reader(monkeypatch):
    monkeypatch.setenv("DTC_TORCHSCRIPT", str(READER))


def shapes(model: str) -> list[str]:
    return [part for line in (FOLDER / f"{model}.pt.shapes").read_text().split() for part in ("--shape", line)]


def test_there_are_models():
    assert {"mlp", "vit"} <= set(EXPORTED)


@pytest.mark.parametrize("model,devices,plan", [
    case(bool(LIVE) or devices == 4, model, devices, plan) for model in TRACED for devices, plan in ((1, "dp=1"), (4, "dp=2,tp=2"))])
def test_training(trainer, model, devices, plan):
    expected = reference(model, "sgd" if model in SGD else "adamw")
    flags = [*expected["flags"], *shapes(model)]
    if "--padding-idx" in flags:  # the row is in the program; ONNX loses it
        at = flags.index("--padding-idx")
        del flags[at:at + 2]
    run = trainer.train(str(FOLDER / f"{model}.pt"), model, *flags, devices=devices, plan=plan)
    compare_steps(run, expected, loss=2e-5, norm=1e-4)


def predicted(path, *options) -> dict:
    out = check_call("dtc", "plan", path, "--gpus", 4, "--cluster", "dgx-h100", "--loss", "cross_entropy",
                     "--global-batch", 8, *options, "--json").out
    return json.loads(out)


@pytest.mark.parametrize("model", EXPORTED)
def test_plan_is_that_of_onnx(model):
    ours = predicted(FOLDER / f"{model}.pt", *shapes(model))
    theirs = predicted(MODELS / f"{model}.onnx")
    assert ours["plan"] == theirs["plan"]
    for key in ("step_time_s", "peak_memory_bytes"):
        assert ours["predicted"][key] == pytest.approx(theirs["predicted"][key], rel=0.01)
    assert ours["model"]["parameters"] == theirs["model"]["parameters"]


def test_scripted_module(tmp_path):
    """Loops, lists, conditions and changes in place give what PyTorch gives; parameters train under their names."""
    path, outputs = FOLDER / f"{SCRIPTED}.pt", tmp_path / "outputs"
    expected = load_file(FOLDER / f"{SCRIPTED}.outputs.safetensors")
    save_file({"x": expected["x"]}, tmp_path / "x.safetensors")
    check_call("dtc", "compile", path, *shapes(SCRIPTED), "--devices", 1, "--loss", "none", "-o", tmp_path / "m.dtc")
    check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "x.safetensors", "--outputs", outputs, "--no-shuffle")
    (got,) = load_file(outputs).values()
    assert numpy.allclose(got, expected["outputs"], rtol=1e-5, atol=1e-5)
    check_call("dtc", "compile", path, *shapes(SCRIPTED), "--devices", 1, "--loss", "cross_entropy", "-o", tmp_path / "m.dtc")
    with zipfile.ZipFile(tmp_path / "m.dtc") as artifact:
        about = json.loads(artifact.read("manifest.json"))
    trains = {parameter["name"] for parameter in about["parameters"] if parameter["trainable"]}
    assert len(trains) == 15 and {"w", "head.weight", "blocks.2.linear.bias"} <= trains


def refusal(path, *options) -> str:
    outcome = call("dtc", "plan", path, "--loss", "cross_entropy", *options, timeout=60)
    assert outcome.code == 3, outcome.err
    return outcome.error_line()


def test_without_the_reader(monkeypatch):
    """The message has the command that builds it."""
    monkeypatch.delenv("DTC_TORCHSCRIPT")
    monkeypatch.setenv("PATH", "")
    if (BIN / "dtc-torchscript").exists():
        pytest.skip("dtc-torchscript is built")
    assert "scripts/torchscript.sh" in refusal(FOLDER / "mlp.pt", *shapes("mlp"))


READERS = {
    "crashes": ("kill -SEGV $$", "LibTorch fails on it"),
    "ends": ("exit 1", "LibTorch fails on it"),
    "refuses": ("echo 'a warning' >&2; echo 'node aten::Bool (m.py:7): depends on data' >&2; exit 3",
                "mlp.pt: node aten::Bool (m.py:7): depends on data"),
    "says_nothing": ("true", "JSON"),
    "says_nonsense": ("echo '{}'", "lacks the field schema_version"),
    "lacks_weights": (f"head -1 {MODELS}/mlp.pt.recorded", "JSON"),
    "invents_members": (f"sed s,data/1,data/77, {MODELS}/mlp.pt.recorded", "in a member that is not there: mlp/data/77"),
    "invents_sizes": (f"sed s,64,6400,g {MODELS}/mlp.pt.recorded", "needs more bytes than the"),
}


@pytest.mark.parametrize("case", READERS)
def test_what_the_reader_writes_is_checked(monkeypatch, tmp_path, case):
    script, message = READERS[case]
    (tmp_path / "reader").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "reader").chmod(0o755)
    monkeypatch.setenv("DTC_TORCHSCRIPT", str(tmp_path / "reader"))
    assert message in refusal(MODELS / "mlp.pt", "--shape", "x=8x32")


def nested(count: int) -> bytes:
    return b"\x80\x02" + b")" + b"\x85" * count + b"."


def chained(count: int) -> bytes:
    """Lists that are put into each other only after all of them were made."""
    made = b"".join(b"]r" + i.to_bytes(4, "little") for i in range(count))
    linked = b"".join(b"j" + i.to_bytes(4, "little") + b"j" + (i + 1).to_bytes(4, "little") + b"a" for i in range(count - 1))
    return b"\x80\x02" + made + linked + b"."


PICKLES = {
    "deep": (nested(1_000_000), "nests deeper than 1000 values"),
    "chain": (chained(100_000), "nests deeper than 1000 values"),
    "cycle": (b"\x80\x02]q\x00h\x00a.", "has a value that holds itself"),
    "short": (b"\x80\x02)\x85", "ends too early"),
    "empty_stack": (b"\x80\x02\x85.", "takes a value that isn't there"),
    "no_memo": (b"\x80\x02h\x07.", "takes a value that isn't there"),
    "no_mark": (b"\x80\x02t.", "lacks a mark"),
    "long_text": (b"\x80\x02X\xff\xff\xff\xffabc.", "ends too early"),
    "opcode": (pickle.dumps({1, 2}, protocol=4), "an opcode that PyTorch doesn't write"),
}


@pytest.mark.parametrize("member", ["data.pkl", "constants.pkl"])
@pytest.mark.parametrize("case", PICKLES)
def test_pickles_are_looked_at_before_libtorch(tmp_path, case, member):
    data, message = PICKLES[case]
    with zipfile.ZipFile(MODELS / "mlp.pt") as before, zipfile.ZipFile(tmp_path / "mlp.pt", "w") as after:
        for info in before.infolist():
            after.writestr(info.filename, data if info.filename.endswith("/" + member) else before.read(info))
    for suffix in ("shapes", "recorded"):
        shutil.copy(MODELS / f"mlp.pt.{suffix}", tmp_path)
    line = refusal(tmp_path / "mlp.pt", "--shape", "x=8x32")
    assert f"mlp/{member}: " in line and message in line


@pytest.mark.parametrize("member", ["data.pkl", "code/__torch__.py", "data/0"])
def test_compressed_members_are_bounded(tmp_path, member):
    """Whatever they unpack to, nobody unpacks it."""
    with zipfile.ZipFile(MODELS / "mlp.pt") as before, zipfile.ZipFile(tmp_path / "mlp.pt", "w") as after:
        for info in before.infolist():
            if not info.filename.endswith("/" + member):
                after.writestr(info.filename, before.read(info))
        after.writestr(zipfile.ZipInfo(f"mlp/{member}"), bytes(65 << 20), zipfile.ZIP_DEFLATED)
    for suffix in ("shapes", "recorded"):
        shutil.copy(MODELS / f"mlp.pt.{suffix}", tmp_path)
    line = refusal(tmp_path / "mlp.pt", "--shape", "x=8x32")
    assert f"mlp/{member}: is too large for a compressed member: {65 << 20}" in line


if LIVE:
    from torchscript_cases import CASES

    @pytest.mark.parametrize("case", CASES)
    def test_refusals_name_the_line(case):
        """Of the modules in torchscript_cases.py, which ts_export.py scripts into the folder."""
        options, message = CASES[case]
        assert message in refusal(FOLDER / "cases" / f"{case}.pt", *options)
