"""Checkpoints: a run that was stopped, killed or moved to another plan goes on as if it had not been."""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import time

import numpy
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import llama_graph
from conftest import BIN, MODELS, call, check_call
from test_processes import launch

STEPS = 8
ENDLESS = 10**9  # of runs that are stopped: however late that is, they have not ended
# The learning rate and the data's order differ from step to step.
FLAGS = ["--loss", "cross_entropy", "--lr", 3e-3, "--lr-schedule", "cosine",
         "--warmup-steps", 2, "--total-steps", 12, "--clip-grad-norm", 1.0, "--global-batch", 8]
PLANS = {
    "one": (1, "auto"),
    "dp2": (2, "dp=2"),
    "tp2": (2, "tp=2"),
    "dp2tp2": (4, "dp=2,tp=2"),
    "zero3": (2, "dp=2,zero=3"),
    "pp2": (2, "pp=2,dp=1,schedule=1f1b,micro_batch=2"),
    "pp2dp2": (4, "pp=2,dp=2,schedule=interleaved,chunks=2,micro_batch=1"),
}
# Set by `ninja -C build check-kills`; a few are enough to find what breaks often. A quarter is test_rank_kills.py's.
KILLS = int(os.environ.get("DTC_KILLS", 5))


class Artifacts:
    """Compiles GPT-2 (tied embedding) and the MLP under plans, once each."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def __call__(self, plan: str, model: str = "gpt2", optimizer: tuple = ("adamw",)) -> pathlib.Path:
        path = self.folder / f"{model}.{plan}.{optimizer[0]}.dtc"
        if not path.exists():
            devices, spec = PLANS[plan]
            check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", devices, "--plan", spec, *FLAGS,
                       "--optimizer", *optimizer, "-o", path)
        return path


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    return Artifacts(tmp_path_factory.mktemp("artifacts"))


def arguments(artifact: pathlib.Path, *flags: object) -> list[str]:
    model = artifact.name.split(".")[0]
    return [str(BIN / "dtc-run"), str(artifact), "--data", str(MODELS / f"{model}.data.safetensors"),
            *map(str, flags)]


def run(artifact: pathlib.Path, *flags: object, **kwargs):
    return call("dtc-run", *arguments(artifact, *flags)[1:], **kwargs)


def trained(log: pathlib.Path) -> list[tuple]:
    """What of a log doesn't depend on the clock; steps that are missing or there twice are seen."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(line["step"], line["loss"], line["grad_norm"], line["lr"]) for line in lines]


class Straight:
    """Runs that were never stopped: the bits that all others must have."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def __call__(self, artifact: pathlib.Path, steps: int = STEPS) -> tuple[list[tuple], bytes]:
        log, weights = (self.folder / f"{artifact.stem}.{steps}.{kind}" for kind in ("jsonl", "safetensors"))
        if not weights.exists():
            outcome = run(artifact, "--steps", steps, "--log", log, "--save-weights", weights)
            assert outcome.code == 0, outcome.err
        return trained(log), weights.read_bytes()


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return Straight(tmp_path_factory.mktemp("straight"))


def steps_in(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def load(folder: pathlib.Path) -> dict[tuple, numpy.ndarray]:
    """The tensors of a checkpoint, put together as its manifest says."""
    content = json.loads((folder / "checkpoint.json").read_text())["content"]
    whole = {}
    for tensor in content["tensors"]:
        array = numpy.full(tensor["view"], numpy.nan, numpy.float32)
        for part in tensor["parts"]:
            file = (folder / content["files"][part["file"]]["name"]).read_bytes()
            box = tuple(slice(at, at + size) for at, size in zip(part["offset"], part["shape"]))
            elements = array[box].reshape(-1).copy()
            count = part["end"] - part["begin"]
            elements[part["begin"]:part["end"]] = numpy.frombuffer(file, numpy.float32, count, part["at"])
            array[box] = elements.reshape(part["shape"])
        whole[tensor["name"], tensor["state"]] = array.reshape(tensor["shape"])
    return whole


@pytest.mark.parametrize("plan", PLANS)
def test_a_resumed_run_goes_on_bitwise(artifacts, straight, tmp_path, plan):
    artifact, folder, log = artifacts(plan), tmp_path / "c", tmp_path / "log"
    flags = ["--log", log, "--checkpoint-dir", folder, "--checkpoint-every", 3]
    assert run(artifact, "--steps", 4, *flags).code == 0
    assert steps_in(folder) == ["step-3", "step-4"]
    outcome = run(artifact, "--steps", STEPS, *flags, "--resume", "--save-weights", tmp_path / "w")
    assert outcome.code == 0, outcome.err
    assert (trained(log), (tmp_path / "w").read_bytes()) == straight(artifact)
    assert steps_in(folder) == ["step-3", "step-4", "step-6", "step-8"]
    assert {path.suffix for path in folder.glob("*/*")} == {".safetensors", ".json"}
    # What is cut back is run again, to the same bits.
    shutil.rmtree(folder / "step-8")
    assert run(artifact, "--steps", STEPS, *flags, "--resume").code == 0
    assert trained(log) == straight(artifact)[0]


def distance(tensor: numpy.ndarray, other: numpy.ndarray) -> float:
    return numpy.linalg.norm(tensor - other) / (numpy.linalg.norm(other) + 1e-12)


@pytest.mark.parametrize("saved,loaded", [
    *((plan, "one") for plan in PLANS if plan != "one"),
    *(("one", plan) for plan in PLANS if plan != "one"),
    ("dp2tp2", "pp2dp2"),
    ("pp2dp2", "dp2tp2"),
])
def test_any_plan_goes_on_with_the_checkpoint_of_any(artifacts, tmp_path, saved, loaded):
    """The weights are the same bits, and the next step makes the same states but for rounding."""
    folder, copy, before, after = (tmp_path / name for name in ("saved", "loaded", "before", "after"))
    assert run(artifacts(saved), "--steps", 3, "--checkpoint-dir", folder, "--save-weights", before).code == 0
    shutil.copytree(folder, copy)
    flags = ["--checkpoint-dir", copy, "--resume"]
    outcome = run(artifacts(loaded), "--steps", 3, *flags, "--save-weights", after)
    assert outcome.code == 0, outcome.err
    assert before.read_bytes() == after.read_bytes()
    assert run(artifacts(loaded), "--steps", 4, *flags).code == 0
    assert run(artifacts(saved), "--steps", 4, "--checkpoint-dir", folder, "--resume").code == 0
    ours, theirs = load(copy / "step-4"), load(folder / "step-4")
    assert ours.keys() == theirs.keys() and {state for _, state in ours} == {"", "exp_avg", "exp_avg_sq"}
    for key in ours:
        assert distance(ours[key], theirs[key]) < (1e-3 if key[1] else 0.05), key


def test_a_checkpoint_is_safetensors_of_all_elements(artifacts, tmp_path):
    artifact = artifacts("dp2tp2")
    assert run(artifact, "--steps", 2, "--checkpoint-dir", tmp_path / "c", "--save-weights", tmp_path / "w").code == 0
    tensors, elements = load(tmp_path / "c" / "step-2"), 0
    for name, weight in load_file(tmp_path / "w").items():
        if (name, "") in tensors:  # others are further names of a tied weight
            assert numpy.array_equal(tensors[name, ""], weight)
    sizes = []
    for shard in (tmp_path / "c" / "step-2").glob("*.safetensors"):
        with safe_open(shard, "numpy") as file:
            elements += sum(file.get_tensor(name).size for name in file.keys())
        sizes.append(shard.stat().st_size)
    assert elements == sum(tensor.size for tensor in tensors.values())
    # No rank writes much more than another, copies or not.
    assert max(sizes) < 1.1 * min(sizes)


def start(artifact: pathlib.Path, *flags: object) -> subprocess.Popen:
    return subprocess.Popen(arguments(artifact, *flags), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def wait_for(log: pathlib.Path, lines: int) -> None:
    deadline = time.monotonic() + 60
    while not log.exists() or log.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_saves(artifacts, straight, tmp_path, number):
    artifact, log = artifacts("dp2", "mlp"), tmp_path / "log"
    flags = ["--log", log, "--checkpoint-dir", tmp_path / "c", "--resume"]
    process = start(artifact, *flags, "--steps", ENDLESS)
    wait_for(log, 20)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    done = len(trained(log))
    steps = done + 20
    assert steps_in(tmp_path / "c") == [f"step-{done}"]
    assert f"stopped by signal {number.value} after step {done}" in err and "--resume" in err
    outcome = run(artifact, *flags, "--steps", steps, "--save-weights", tmp_path / "w")
    assert outcome.code == 0, outcome.err
    assert (trained(log), (tmp_path / "w").read_bytes()) == straight(artifact, steps)


def names_in(folder: pathlib.Path) -> set[str]:
    return set(steps_in(folder)) if folder.exists() else set()


def wait_for_a_moment(number: int, moments: random.Random, folder: pathlib.Path, before: set[str], process: subprocess.Popen) -> None:
    """In turn: after a checkpoint was written, as one is, which isn't always slow enough to be seen, and any moment of a start."""
    deadline = time.monotonic() + 60
    while number % 3 < 2 and not any(("partial" in name) == (number % 3 == 1) for name in names_in(folder) - before):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.001)
    if number % 3 != 1:
        time.sleep(moments.uniform(0, 0.4))


@pytest.mark.parametrize("plan,model,share", [("dp2", "mlp", 0.375), ("zero3", "gpt2", 0.1875), ("pp2", "gpt2", 0.1875)])
def test_kills_lose_nothing_that_was_saved(artifacts, straight, tmp_path, plan, model, share):
    """At the moments of `wait_for_a_moment`; whatever has happened by then."""
    artifact, log, folder, moments = artifacts(plan, model), tmp_path / "log", tmp_path / "c", random.Random(16)
    flags = ["--log", log, "--checkpoint-dir", folder, "--resume"]
    kills, writing, kept = round(share * KILLS), 0, []
    for number in range(kills):
        before = names_in(folder)
        process = start(artifact, *flags, "--steps", ENDLESS, "--checkpoint-every", 5)
        wait_for_a_moment(number, moments, folder, before, process)
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.communicate()
        if not folder.exists():
            continue
        names = steps_in(folder)
        writing += any("partial" in name for name in names)
        saved = max((int(name[5:]) for name in names if "partial" not in name), default=0)
        logged = trained(log) if log.exists() else []  # it may be killed before its first step
        assert len(kept) <= saved <= len(logged) and logged[:len(kept)] == kept
        kept = logged[:saved]
        # All are kept, and none is damaged; the disk isn't filled by this test.
        for name in sorted(names, key=lambda name: int(name[5:].split(".")[0]))[:-3]:
            shutil.rmtree(folder / name)
    assert kept
    steps = len(kept) + 20
    outcome = run(artifact, *flags, "--steps", steps, "--checkpoint-every", 100, "--save-weights", tmp_path / "w")
    assert outcome.code == 0, outcome.err
    assert "damaged" not in outcome.err
    expected = straight(artifact, steps)
    assert (trained(log), (tmp_path / "w").read_bytes()) == expected and kept == expected[0][:len(kept)]
    assert not any("partial" in name for name in steps_in(folder))
    print(f"{plan}: {kills} kills of {len(kept)} steps, {writing} of them while a checkpoint was written")


def limit_files() -> None:
    """As on a full disk: what is written beyond some bytes fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_disk_that_is_full_leaves_what_was_there(artifacts, straight, tmp_path):
    artifact, folder, log = artifacts("dp2"), tmp_path / "c", tmp_path / "log"
    flags = ["--checkpoint-dir", folder, "--checkpoint-every", 2, "--resume", "--log", log]
    assert run(artifact, "--steps", 3, *flags).code == 0
    before = {path: path.read_bytes() for path in folder.glob("*/*")}
    outcome = run(artifact, "--steps", 6, *flags, preexec_fn=limit_files)
    assert outcome.code == 1 and "checkpoint of step 6 not saved" in outcome.error_line()
    assert "warning: checkpoint of step 4 not saved" in outcome.err and "File too large" in outcome.err
    assert {path: path.read_bytes() for path in folder.glob("*/*")} == before
    assert steps_in(folder) == ["step-2", "step-3"]
    assert run(artifact, "--steps", STEPS, *flags, "--save-weights", tmp_path / "w").code == 0
    assert (trained(log), (tmp_path / "w").read_bytes()) == straight(artifact)


@pytest.fixture(scope="module")
def checkpoints(artifacts, tmp_path_factory):
    """Three checkpoints of the MLP on two ranks."""
    folder = tmp_path_factory.mktemp("checkpoints")
    assert run(artifacts("dp2", "mlp"), "--steps", 6, "--checkpoint-dir", folder, "--checkpoint-every", 2).code == 0
    return folder


def flip(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "flipped": flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "emptied": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("file", ["checkpoint.json", "rank-1.safetensors"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over(artifacts, straight, checkpoints, tmp_path, damage, file):
    folder, artifact = tmp_path / "c", artifacts("dp2", "mlp")
    shutil.copytree(checkpoints, folder)
    DAMAGE[damage](folder / "step-6" / file)
    flags = ["--checkpoint-dir", folder, "--resume", "--save-weights", tmp_path / "w"]
    outcome = run(artifact, "--steps", 6, *flags)
    assert outcome.code == 0, outcome.err
    [warning] = [line for line in outcome.err.splitlines() if "warning" in line]
    assert f"step-6/{file}" in warning and warning.endswith("going on from step-4")
    assert (tmp_path / "w").read_bytes() == straight(artifact, 6)[1]
    # The damaged one was replaced.
    assert steps_in(folder) == ["step-2", "step-4", "step-6"]
    assert "warning" not in run(artifact, "--steps", 6, *flags).err
    # Without any that is intact there is nothing to go on with.
    for path in folder.glob(f"*/{file}"):
        DAMAGE[damage](path)
    outcome = run(artifact, "--steps", 6, *flags)
    assert outcome.code == 3 and f"step-6/{file}" in outcome.error_line()


@pytest.mark.parametrize("other,optimizer,words", [
    ("gpt2", ("adamw",), ["step-6", "another model", "fc1"]),
    ("mlp", ("sgd", "--momentum", 0.9), ["step-6", "another model or optimizer", "of fc1.bias"]),
])
def test_the_checkpoint_of_another_model_is_refused(artifacts, checkpoints, tmp_path, other, optimizer, words):
    folder = tmp_path / "c"
    shutil.copytree(checkpoints, folder)
    outcome = run(artifacts("dp2", other, optimizer), "--steps", 7, "--checkpoint-dir", folder, "--resume")
    assert outcome.code == 3 and all(word in outcome.error_line() for word in words), outcome.err
    assert steps_in(folder) == steps_in(checkpoints)


@pytest.mark.parametrize("own,other,words", [
    ({"lora": "rank=2,alpha=8"}, {"lora": "rank=2,alpha=16"}, "has other adapters than alpha 16: alpha 8"),
    ({}, {"heads": 8, "kv_heads": 4}, "has other heads than 8 of 8, 4 of keys: 4 of 16, 2 of keys"),
    ({"window": 4}, {"window": 8}, "has other windows than 8 of 16 keys: 4 of 16 keys"),
    ({}, {"window": 8}, "has other windows than 8 of 16 keys: all of 16 keys"),
    ({"window": 4}, {}, "has other windows than all of 16 keys: 4 of 16 keys"),
])
def test_the_checkpoint_of_a_model_of_the_same_shapes_is_refused(tmp_path, own, other, words):
    """What a weight means depends on how many heads it is cut into, on what these see, and what an adapter does on its factor."""
    runs = []
    for name, size in (("own", own), ("other", other)):
        path = tmp_path / f"{name}.onnx"
        flags = ["--lora", size["lora"]] if "lora" in size else []
        llama_graph.write(path, llama_graph.Llama(1, 64, size.get("heads", 4), size.get("kv_heads", 2), 128, 64, 16, size.get("window", 0)))
        check_call("dtc", "compile", path, "--loss", "cross_entropy", "--global-batch", 2, "--init", *flags, "-o",
                   tmp_path / f"{name}.dtc")
        save_file({"input_ids": numpy.zeros((4, 16), "i8"), "target": numpy.zeros((4, 16), "i8")}, tmp_path / "data.safetensors")
        runs.append(call("dtc-run", tmp_path / f"{name}.dtc", "--data", tmp_path / "data.safetensors", "--checkpoint-dir",
                         tmp_path / "saved", "--steps", 1 + len(runs), *(["--resume"] if runs else [])))
    assert runs[0].code == 0, runs[0].err
    assert runs[1].code == 3 and words in runs[1].error_line(), runs[1].err


@pytest.mark.parametrize("flags,words", [
    ([], ["--resume", "step-6"]),
    (["--resume", "--seed", 1], ["--seed 0", "--seed 1"]),
    (["--resume", "--no-shuffle"], ["--no-shuffle"]),
])
def test_a_folder_is_of_one_run(artifacts, checkpoints, tmp_path, flags, words):
    (tmp_path / "log").write_text("mine")
    outcome = run(artifacts("dp2", "mlp"), "--steps", 7, "--checkpoint-dir", checkpoints, "--log", tmp_path / "log",
                  *flags)
    assert outcome.code == 2 and all(word in outcome.error_line() for word in words), outcome.err
    assert (tmp_path / "log").read_text() == "mine"


def test_two_runs_do_not_share_a_folder(artifacts, tmp_path):
    artifact, log = artifacts("dp2", "mlp"), tmp_path / "log"
    flags = ["--steps", ENDLESS, "--checkpoint-dir", tmp_path / "c", "--resume"]
    first = start(artifact, *flags, "--log", log)
    wait_for(log, 1)
    second = run(artifact, *flags)
    first.kill()
    first.communicate()
    assert second.code == 2 and "another run" in second.error_line()


def test_what_a_killed_run_left_is_removed(artifacts, tmp_path):
    left = tmp_path / "c" / "step-2.partial-1"  # of a process that lives: the folder's lock says that it isn't ours
    left.mkdir(parents=True)
    (left / "rank-0.safetensors").write_bytes(b"half")
    assert run(artifacts("dp2", "mlp"), "--steps", 1, "--checkpoint-dir", tmp_path / "c").code == 0
    assert steps_in(tmp_path / "c") == ["step-1"]


def test_old_checkpoints_are_removed(artifacts, straight, tmp_path):
    """The newest two stay, also of those that an earlier run saved; the run goes on from the newest."""
    artifact = artifacts("dp2", "mlp")
    flags = ["--checkpoint-dir", tmp_path / "c", "--checkpoint-every", 2, "--log", tmp_path / "log"]
    assert run(artifact, "--steps", 7, *flags).code == 0
    assert steps_in(tmp_path / "c") == ["step-2", "step-4", "step-6", "step-7"]
    assert run(artifact, "--steps", 9, *flags, "--resume", "--checkpoint-keep", 2).code == 0
    assert steps_in(tmp_path / "c") == ["step-8", "step-9"]
    assert trained(tmp_path / "log") == straight(artifact, 9)[0]


def test_an_empty_folder_is_a_beginning(artifacts, straight, tmp_path):
    """One command line serves every requeue; the log of an earlier run is begun anew."""
    artifact = artifacts("dp2", "mlp")
    (tmp_path / "log").write_text('{"step": 1, "loss": 0}\n')
    outcome = run(artifact, "--steps", 6, "--checkpoint-dir", tmp_path / "a" / "b", "--resume", "--log", tmp_path / "log")
    assert outcome.code == 0, outcome.err
    assert trained(tmp_path / "log") == straight(artifact, 6)[0]
    again = run(artifact, "--steps", 6, "--checkpoint-dir", tmp_path / "a" / "b", "--resume", "--log", tmp_path / "log")
    assert again.code == 0 and again.out == ""
    assert "note: no step is made: " in again.err and "step-6 is of step 6, and this run ends with step 6" in again.err
    assert trained(tmp_path / "log") == straight(artifact, 6)[0]


def test_the_seed_is_the_checkpoints(artifacts, tmp_path):
    """It need not be given again."""
    artifact, runs = artifacts("dp2", "mlp"), []
    for name, stops in (("whole", [5]), ("parts", [2, 5])):
        for steps in stops:
            seed = ["--seed", 7] if steps == stops[0] else ["--resume"]
            assert run(artifact, "--steps", steps, "--checkpoint-dir", tmp_path / name, *seed, "--save-weights",
                       tmp_path / f"{name}.w").code == 0
        runs.append((tmp_path / f"{name}.w").read_bytes())
    assert runs[0] == runs[1]


def test_processes_save_and_go_on(artifacts, straight, tmp_path):
    """Each writes its file; what threads saved, processes go on with, and the other way round."""
    artifact, folder, log = artifacts("dp2tp2"), tmp_path / "c", tmp_path / "log"
    flags = ["--log", log, "--checkpoint-dir", folder, "--checkpoint-every", 2, "--resume"]
    for steps in (3, 6):
        command = arguments(artifact, "--steps", steps, *flags)[1:]
        assert [code for code, _ in launch([command] * 4).finish()] == [0] * 4
        outcome = run(artifact, "--steps", steps + 1, *flags)
        assert outcome.code == 0, outcome.err
    command = arguments(artifact, "--steps", STEPS, *flags, "--save-weights", tmp_path / "w")[1:]
    assert [code for code, _ in launch([command] * 4).finish()] == [0] * 4
    assert (trained(log), (tmp_path / "w").read_bytes()) == straight(artifact)
    assert steps_in(folder) == [f"step-{step}" for step in (2, 3, 4, 6, 7, 8)]
    assert len(list((folder / "step-8").iterdir())) == 5


def test_a_signal_to_one_process_saves_all(artifacts, straight, tmp_path):
    artifact, log = artifacts("dp2", "mlp"), tmp_path / "log"
    flags = ["--log", log, "--checkpoint-dir", tmp_path / "c", "--resume"]
    job = launch([arguments(artifact, *flags, "--steps", ENDLESS)[1:]] * 2)
    wait_for(log, 20)
    job.processes[1].send_signal(signal.SIGTERM)
    assert [code for code, _ in job.finish()] == [75, 75]
    steps = len(trained(log)) + 20
    assert steps_in(tmp_path / "c") == [f"step-{steps - 20}"]
    assert run(artifact, *flags, "--steps", steps).code == 0
    assert trained(log) == straight(artifact, steps)[0]


def test_a_lost_process_loses_no_checkpoint(artifacts, straight, tmp_path):
    artifact, log = artifacts("dp2", "mlp"), tmp_path / "log"
    flags = ["--log", log, "--checkpoint-dir", tmp_path / "c", "--checkpoint-every", 3, "--resume"]
    for victim in (1, 0):
        done = len(log.read_text().splitlines()) if log.exists() else 0
        job = launch([arguments(artifact, *flags, "--steps", ENDLESS)[1:]] * 2)
        wait_for(log, done + 20)
        job.processes[victim].kill()
        codes = [code for code, _ in job.finish()]
        assert codes[victim] == -signal.SIGKILL and codes[1 - victim] == 5
        assert [name for name in steps_in(tmp_path / "c") if "partial" not in name]
    steps = len(log.read_text().splitlines()) + 20
    assert run(artifact, *flags, "--steps", steps).code == 0
    assert trained(log) == straight(artifact, steps)[0]
    assert not any("partial" in name for name in steps_in(tmp_path / "c"))


def test_gpus_and_processors_go_on_with_each_others(artifacts, tmp_path, monkeypatch):
    """Bitwise on the same target; the weights are the same bits on the other."""
    if "DTC_CUDA_LIBRARY_PATH" not in os.environ:
        monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator"))
    straight, parts, moved = tmp_path / "straight", tmp_path / "parts", tmp_path / "moved"
    compiled = {}
    for plan in ("dp2", "tp2"):
        compiled[plan] = tmp_path / f"gpt2.{plan}.cuda.dtc"
        check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--plan", PLANS[plan][1], *FLAGS,
                   "--optimizer", "adamw", "--target", "cuda", "-o", compiled[plan])
    assert run(compiled["dp2"], "--steps", 6, "--log", straight).code == 0
    flags = ["--log", parts, "--checkpoint-dir", tmp_path / "c", "--checkpoint-every", 2, "--resume"]
    outcome = run(compiled["dp2"], "--steps", 3, *flags, "--save-weights", tmp_path / "gpu")
    assert outcome.code == 0, outcome.err
    shutil.copytree(tmp_path / "c", moved)
    assert run(compiled["dp2"], "--steps", 6, *flags).code == 0
    assert trained(parts) == trained(straight)
    assert steps_in(tmp_path / "c") == ["step-2", "step-3", "step-4", "step-6"]
    for other in (compiled["tp2"], artifacts("tp2")):
        assert run(other, "--steps", 3, "--checkpoint-dir", moved, "--resume", "--save-weights",
                   tmp_path / "other").code == 0
        assert (tmp_path / "other").read_bytes() == (tmp_path / "gpu").read_bytes()
