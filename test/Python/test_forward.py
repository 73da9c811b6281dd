"""Programs without a loss give their outputs, as `dtc-run --outputs` writes them."""

import numpy
import pytest
from package import MODELS, command
from safetensors.numpy import load_file, save_file

import dtc

GPT2 = MODELS / "gpt2.onnx"


@pytest.fixture(scope="module")
def batches() -> list[dict]:
    tokens = load_file(MODELS / "gpt2.data.safetensors")["input_ids"]
    return [{"input_ids": tokens[at:at + 8]} for at in (0, 8)]


@pytest.fixture(scope="module")
def alone() -> dtc.Program:
    """The model on one rank."""
    return dtc.parallelize(GPT2, loss="none", devices=1, target="cpu", global_batch=8, threads_per_rank=1)


def outputs_of_the_command(artifact, batch: dict, folder) -> dict:
    save_file({name: numpy.ascontiguousarray(array) for name, array in batch.items()}, folder / "in.safetensors")
    done = command("dtc-run", artifact, "--data", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
    assert done.returncode == 0, done.stderr
    return load_file(folder / "out.safetensors")


@pytest.mark.parametrize("devices", [1, 4])
def test_outputs_are_those_of_the_command_line(devices, alone, batches, tmp_path):
    program = alone if devices == 1 else dtc.parallelize(GPT2, loss="none", devices=devices, target="cpu",
                                                         global_batch=8, plan="dp=2,tp=2", threads_per_rank=1)
    assert program.outputs == {"logits": ("F32", (8, 32, 512))} and set(program.inputs) == {"input_ids"}
    assert "outputs=['logits']" in repr(program)
    found = [program.forward(batch)["logits"] for batch in batches]
    program.save(tmp_path / "m.dtc")
    loaded = dtc.load(tmp_path / "m.dtc")
    for batch, logits in zip(batches, found, strict=True):
        expected = outputs_of_the_command(tmp_path / "m.dtc", batch, tmp_path)["logits"]
        assert numpy.array_equal(logits, expected) and numpy.array_equal(loaded.forward(batch)["logits"], expected)
    assert not numpy.array_equal(*found)
    assert loaded.steps_done == 0 and "m.lm_head.weight" in loaded.state_dict()


def test_outputs_are_where_they_are_computed(alone, batches):
    """The arrays have DLPack, and each call gives others."""
    first = alone.forward([batches[0]["input_ids"]])["logits"]
    kept = first.copy()
    second = alone.forward(batches[1])["logits"]
    assert numpy.array_equal(first, kept) and not numpy.shares_memory(first, second)
    assert numpy.shares_memory(numpy.from_dlpack(first), first)


def test_what_has_no_loss_makes_no_steps(alone, batches):
    with pytest.raises(dtc.UsageError, match="computes outputs alone"):
        alone.step(batches[0])
    with pytest.raises(dtc.UsageError, match="computes outputs alone"):
        alone.fit(MODELS / "gpt2.data.safetensors", steps=1)
    with pytest.raises(dtc.UsageError, match="has its loss"):
        alone.evaluate(batches[0])
    with pytest.raises(dtc.InputError, match="another number of samples than the global batch of 8: 4"):
        alone.forward({"input_ids": batches[0]["input_ids"][:4]})
    assert alone.forward(batches[0])["logits"].shape == (8, 32, 512)


def test_what_trains_gives_no_outputs(batches):
    program = dtc.parallelize(GPT2, loss="cross_entropy", devices=1, target="cpu", global_batch=8)
    assert program.outputs == {}
    with pytest.raises(dtc.UsageError, match="trains; outputs are those of artifacts without a loss"):
        program.forward(batches[0])
