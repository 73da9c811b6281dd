"""dtc.parallelize trains as dtc compile and dtc-run do."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy
import pytest
from package import MODELS, PACKAGE, command
from safetensors.numpy import load_file

import dtc
from dtc._interruptible import interruptible

GPT2 = MODELS / "gpt2.onnx"
DATA = MODELS / "gpt2.data.safetensors"
FLAGS = ["--devices", "4", "--loss", "cross_entropy", "--lr", "3e-4", "--global-batch", "8", "--threads-per-rank", "1"]


def make(**changes) -> dtc.Program:
    asked = {"loss": "cross_entropy", "optimizer": dtc.AdamW(lr=3e-4), "devices": 4, "target": "cpu",
             "global_batch": 8, "threads_per_rank": 1, **changes}
    return dtc.parallelize(GPT2, **asked)


@pytest.fixture(scope="module")
def batches() -> list[dict]:
    """Global batches of eight samples, in order."""
    data = load_file(DATA)
    return [{name: array[at:at + 8] for name, array in data.items()} for at in range(0, len(data["target"]) - 7, 8)]


def check(program: str, *arguments: object) -> None:
    done = command(program, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The artifact, the log and the weights of five steps of dtc-run, in order and shuffled."""
    folder = tmp_path_factory.mktemp("run")
    check("dtc", "compile", GPT2, *FLAGS, "-o", folder / "gpt2.dtc")
    for name, more in (("ordered", ["--no-shuffle"]), ("shuffled", ["--seed", "7"])):
        check("dtc-run", folder / "gpt2.dtc", "--data", DATA, "--steps", 5, *more, "--log", folder / f"{name}.jsonl",
              "--save-weights", folder / f"{name}.safetensors")
    return folder


def log(run, name: str) -> list[tuple]:
    lines = [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["grad_norm"], line["lr"]) for line in lines]


def facts(steps) -> list[tuple]:
    return [(step.step, step.loss, step.grad_norm, step.lr) for step in steps]


def check_weights(program: dtc.Program, expected) -> None:
    weights = load_file(expected)
    got = program.state_dict()
    assert got.keys() == weights.keys()
    for name, array in weights.items():
        assert got[name].dtype == array.dtype and numpy.array_equal(got[name], array), name


def test_steps_are_those_of_the_command_line(run, batches):
    program = make()
    assert "chosen" in program.plan and (program.devices, program.global_batch) == (4, 8)
    assert program.inputs["input_ids"] == ("I64", (8, 32))
    program.save(run / "m.dtc")
    steps = [program.step(batch) for batch in batches[:5]]
    assert facts(steps) == log(run, "ordered")
    assert program.steps_done == 5
    loaded = dtc.load(run / "m.dtc")
    assert facts([loaded.step(batches[0])]) == log(run, "ordered")[:1]
    check_weights(program, run / "ordered.safetensors")
    program.save_weights(run / "again.safetensors")
    assert (run / "again.safetensors").read_bytes() == (run / "ordered.safetensors").read_bytes()


@pytest.mark.parametrize("given,expected", [(None, "1"), ("0", "0")])
def test_nccl_is_told_to_keep_to_the_programs_order(monkeypatch, given, expected):
    monkeypatch.delenv("NCCL_LAUNCH_ORDER_IMPLICIT", raising=False)
    if given:
        monkeypatch.setenv("NCCL_LAUNCH_ORDER_IMPLICIT", given)
    make()
    assert os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"] == expected


def test_a_file_is_fitted_as_dtc_run_does(run):
    program = dtc.load(run / "gpt2.dtc", seed=7)
    assert facts(program.fit(DATA, steps=2) + program.fit(DATA, steps=3)) == log(run, "shuffled")
    check_weights(program, run / "shuffled.safetensors")


def test_batches_are_fitted_again_and_again(run, batches):
    program = dtc.load(run / "gpt2.dtc")
    made = program.fit(batches[:5])
    assert facts(made) == log(run, "ordered")
    assert repr(program) == "Program(inputs=['input_ids', 'target'], global_batch=8, devices=4, steps_done=5)"
    assert len(program.fit([list(batch.values()) for batch in batches[:2]], steps=3)) == 3
    with pytest.raises(dtc.InputError, match="after 2 of 4 steps"):
        program.fit(iter(batches[:2]), steps=4)


def test_programs_of_several_models_train_side_by_side(run, batches):
    """Each has kernels of its own."""
    data = load_file(MODELS / "mlp.data.safetensors")
    alone = [step.loss for step in make_mlp().fit([{name: array[:8] for name, array in data.items()}], steps=3)]
    program, mlp = dtc.load(run / "gpt2.dtc"), make_mlp()
    steps, losses = [], []
    for batch in batches[:3]:
        steps.append(program.step(batch))
        losses.append(mlp.step({name: array[:8] for name, array in data.items()}).loss)
    assert facts(steps) == log(run, "ordered")[:3]
    assert losses == alone


def make_mlp() -> dtc.Program:
    return dtc.parallelize(MODELS / "mlp.onnx", loss="cross_entropy", devices=1, global_batch=8, threads_per_rank=1)


def test_arrays_of_any_kind_are_read_where_they_are(run, batches):
    program = dtc.load(run / "gpt2.dtc")
    batch = {name: array.astype("int32") for name, array in batches[0].items()}
    batch["target"] = memoryview(batch["target"])  # the buffer protocol alone
    batch["input_ids"].flags.writeable = False
    assert facts([program.step(batch)]) == log(run, "ordered")[:1]


class Lent:
    """What has DLPack alone, and notes how it is asked for its memory."""

    def __init__(self, array: numpy.ndarray):
        self.array, self.asked = array, []

    def __dlpack__(self, **wishes):
        self.asked.append(wishes)
        return self.array.__dlpack__(**wishes)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_come_by_dlpack_without_a_copy(run, batches):
    program = dtc.load(run / "gpt2.dtc")
    lent = {name: Lent(array) for name, array in batches[0].items()}
    assert facts([program.step(lent)]) == log(run, "ordered")[:1]
    for array in lent.values():
        assert array.asked and not any(wishes.get("copy") for wishes in array.asked)


def test_other_threads_run_while_a_call_computes():
    """The interpreter takes its lock from no thread here, so another one runs only where a call gives it up."""
    mlp = make_mlp()
    batch = {name: array[:8] for name, array in load_file(MODELS / "mlp.data.safetensors").items()}
    looks, ended, before = [], threading.Event(), sys.getswitchinterval()

    def look() -> None:
        while not ended.wait(1e-4):
            looks.append(time.monotonic())

    other = threading.Thread(target=look)
    other.start()
    sys.setswitchinterval(1000)
    try:
        deadline, grew = time.monotonic() + 60, False
        while not grew and time.monotonic() < deadline:
            seen = len(looks)
            mlp._program.step(batch)
            grew = len(looks) > seen
    finally:
        sys.setswitchinterval(before)
        ended.set()
        other.join()
    assert grew


@pytest.mark.parametrize("change, kind, text", [
    (lambda batch: batch | {"target": batch["target"][:4]}, dtc.InputError, "another number of samples"),
    (lambda batch: {name: array[:4] for name, array in batch.items()}, dtc.InputError, "global batch of 8: 4"),
    (lambda batch: batch | {"input_ids": batch["input_ids"] * 0 + 512}, dtc.InputError, "is not in \\[0, 512\\): 512"),
    (lambda batch: batch | {"input_ids": batch["input_ids"].astype("float32")}, dtc.InputError, "elements F32"),
    (lambda batch: batch | {"input_ids": batch["input_ids"][:, ::2]}, ValueError, "input_ids: .* not contiguous"),
    (lambda batch: batch | {"more": batch["target"]}, dtc.InputError, "not an input of the model"),
    (lambda batch: {"target": batch["target"]}, dtc.InputError, "no array for the model's input input_ids"),
    (lambda batch: [batch["target"]], dtc.InputError, "has 1 arrays, the program takes"),
    (lambda batch: batch | {"input_ids": batch["input_ids"].astype(">i8")}, TypeError, "input_ids: is no array of this machine's"),
    (lambda batch: batch | {"input_ids": batch["input_ids"].tolist()}, TypeError, "input_ids: is no array of this machine's"),
    (lambda batch: {0: batch["input_ids"], 1: batch["target"]}, TypeError, "the name of an array is no string"),
])
def test_bad_batches_are_refused(run, batches, change, kind, text):
    program = dtc.load(run / "gpt2.dtc")
    with pytest.raises(kind, match=text):
        program.step(change(batches[0]))


def test_what_is_no_data_set_is_refused(run, batches):
    program = dtc.load(run / "gpt2.dtc")
    with pytest.raises(dtc.UsageError, match="steps: expected a number from 0, got -1"):
        program.fit(DATA, steps=-1)
    with pytest.raises(dtc.UsageError, match="one batch is for step"):
        program.fit(batches[0], steps=1)
    assert program.steps_done == 0


def test_a_batch_that_is_refused_costs_no_step(run, batches, tmp_path):
    """Whether its shapes or its numbers are wrong, and whether it is given, evaluated or lies in a file."""
    program = dtc.load(run / "gpt2.dtc")
    wrong = batches[0] | {"input_ids": batches[0]["input_ids"] * 0 - 1}
    numpy.savez(tmp_path / "wrong.npz", **wrong)
    for call, data in ((program.step, {name: array[:4] for name, array in batches[0].items()}), (program.step, wrong),
                       (program.evaluate, wrong), (program.fit, tmp_path / "wrong.npz"), (program.evaluate, tmp_path / "wrong.npz")):
        with pytest.raises(dtc.InputError):
            call(data)
    assert facts([program.step(batches[0])]) == log(run, "ordered")[:1]


def test_without_targets_the_loss_is_none_and_the_program_goes_on(batches):
    """As in PyTorch, where all of a batch are ignored: the gradients are zeros, and SGD moves nothing."""
    program, other = (make(optimizer=dtc.SGD(lr=0.1), devices=2) for _ in range(2))
    ignored = batches[0] | {"target": numpy.full_like(batches[0]["target"], -100)}
    assert numpy.isnan(program.evaluate(ignored))
    step = program.step(ignored)
    assert numpy.isnan(step.loss) and (step.grad_norm, program.steps_done) == (0, 1)
    assert program.step(batches[0]).loss == other.step(batches[0]).loss


def test_after_a_loss_that_is_not_finite_no_step_is_made(batches):
    program = make(optimizer=dtc.SGD(lr=1e30))
    with pytest.raises(dtc.NotFiniteError, match="^step .* is not finite"):
        for batch in batches[:5]:
            program.step(batch)
    with pytest.raises(dtc.NotFiniteError, match="the program has ended before: step .* is not finite"):
        program.state_dict()


def test_fp16_scales_the_loss(batches, tmp_path):
    """A scale that overflows, and one that doesn't; what holds it is no weight of the model."""
    for scale, moves in ((2.0**40, False), (1024.0, True)):
        program = make(precision="fp16", loss_scale=scale, loss_scale_growth_interval=5, devices=2)
        before = program.state_dict()
        step = program.step(batches[0])
        assert step.loss == pytest.approx(8.6965, rel=1e-3)
        assert (step.loss_scale, step.skipped_steps) == ((scale, 0) if moves else (scale / 2, 1))
        assert f", loss_scale={step.loss_scale:.6g})" in repr(step)
        after = program.state_dict()
        program.save_weights(tmp_path / "w.safetensors")
        assert after.keys() == before.keys() == load_file(tmp_path / "w.safetensors").keys()
        assert not [name for name in after if name.startswith("dtc.")]
        assert any(not numpy.array_equal(before[name], after[name]) for name in before) == moves


def test_errors_of_compiling_are_those_of_the_command_line():
    with pytest.raises(dtc.UsageError, match="--loss-scale is for training with --precision fp16"):
        make(loss_scale=1024.0)
    with pytest.raises(dtc.UsageError, match="--loss: expected"):
        make(loss="nonsense")
    with pytest.raises(dtc.UsageError, match="--global-batch must be between 1"):
        make(global_batch=0)
    with pytest.raises(dtc.InputError, match="none.dtc"):
        dtc.load("none.dtc")


def test_trained_weights_are_not_saved_as_an_artifact_without_a_word(run, batches, tmp_path):
    program = dtc.load(run / "gpt2.dtc")
    program.step(batches[0])
    with pytest.raises(dtc.UnsupportedError, match="save_weights"):
        program.save(tmp_path / "m.dtc")
    assert not (tmp_path / "m.dtc").exists()


def test_a_trained_program_is_saved_with_its_weights(batches, tmp_path):
    program = make()
    for batch in batches[:3]:
        program.step(batch)
    program.save(tmp_path / "m.dtc")
    loaded = dtc.load(tmp_path / "m.dtc")
    assert (loaded.devices, loaded.global_batch) == (program.devices, program.global_batch)
    weights, saved = program.state_dict(), loaded.state_dict()
    assert weights.keys() == saved.keys()
    for name, array in weights.items():
        assert numpy.array_equal(saved[name], array), name
    # The weights are those after three steps, so that the losses are the same but for Adam's states.
    assert loaded.step(batches[3]).loss == program.step(batches[3]).loss


def test_an_artifact_is_saved_as_it_was_loaded_or_not_at_all(run, batches, tmp_path):
    loaded, artifact = tmp_path / "loaded.dtc", (run / "gpt2.dtc").read_bytes()
    loaded.write_bytes(artifact)
    program = dtc.load(loaded)
    with pytest.raises(dtc.UsageError, match="would write over the artifact"):
        program.save(loaded)
    with pytest.raises(dtc.Error, match="cannot create"):
        program.save(tmp_path / "none" / "m.dtc")
    loaded.unlink()
    loaded.write_text("another file")
    program.save(tmp_path / "m.dtc")
    assert (tmp_path / "m.dtc").read_bytes() == artifact


def test_the_batch_of_an_example_is_the_global_batch():
    example = {"input_ids": numpy.zeros((8, 32), dtype=numpy.int64)}
    program = dtc.parallelize(MODELS / "gpt2_dyn.onnx", example, loss="cross_entropy", devices=2, plan="dp=2",
                              threads_per_rank=1)
    assert program.global_batch == 8


CONTROL_C = """
import os, signal, threading, time
from dtc._interruptible import interruptible
released = threading.Event()
def call():
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    released.wait(20)
begin = time.monotonic()
try:
    interruptible(call)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin < 10)
"""


def test_control_c_ends_a_long_call():
    """As in planning: the call is one of C++, which doesn't look at signals. Tests may run beside the main thread."""
    done = subprocess.run([sys.executable, "-c", CONTROL_C], capture_output=True, text=True, timeout=60,
                          env={"PYTHONPATH": str(PACKAGE)})
    assert done.stdout == "interrupted True\n", done.stderr


LEFT_BEHIND = """
import sys, threading
import dtc
made = threading.Event()
def call():
    plan = dtc.plan(sys.argv[1], gpus=1)
    made.set()
    threading.Event().wait()
    print(plan)
threading.Thread(target=call, daemon=True).start()
made.wait()
"""


def test_a_call_that_control_c_left_ends_with_the_process():
    """What it holds then isn't complained of."""
    done = subprocess.run([sys.executable, "-c", LEFT_BEHIND, MODELS / "mlp.onnx"], capture_output=True, text=True, timeout=60,
                          env={"PYTHONPATH": str(PACKAGE)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_calls_beside_signals_end_as_others():
    assert interruptible(len, "four") == 4
    with pytest.raises(dtc.UsageError):
        interruptible(dtc.Cluster, "nowhere")

def test_evaluation_is_that_of_the_command_line_and_changes_nothing(run, batches):
    check("dtc-run", run / "gpt2.dtc", "--data", DATA, "--steps", 2, "--no-shuffle", "--eval-data", DATA, "--log", run / "eval.jsonl")
    lines = [json.loads(line) for line in (run / "eval.jsonl").read_text().splitlines()]
    program = make()
    first = program.evaluate(batches[0])
    steps = [program.step(batch) for batch in batches[:2]]
    assert first == pytest.approx(steps[0].loss, rel=1e-6)
    assert program.evaluate(DATA) == lines[-1]["eval_loss"]
    assert facts(steps) == log(run, "ordered")[:2]
    assert facts([program.step(batches[2])]) == log(run, "ordered")[2:3]
    with pytest.raises(dtc.InputError, match="nothing.npz"):
        program.evaluate("nothing.npz")
    assert facts([program.step(batches[3])]) == log(run, "ordered")[3:4]


def test_an_unknown_value_of_a_variable_is_wrong_usage(tmp_path, monkeypatch):
    check("dtc", "compile", GPT2, *FLAGS, "-o", tmp_path / "m.dtc")
    monkeypatch.setenv("DTC_COLLECTIVES", "later")
    for asked in (make, lambda: dtc.load(tmp_path / "m.dtc")):
        with pytest.raises(dtc.UsageError, match="DTC_COLLECTIVES: expected start, wait or thread, got 'later'"):
            asked()
