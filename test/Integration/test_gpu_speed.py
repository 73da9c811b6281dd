"""The part of gpu_tests.py that times: what it reads of programs and profiles, and a whole run on the emulated GPU."""

import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import types

import pytest

from conftest import BIN, ROOT
from test_gpu_tests import run

spec = importlib.util.spec_from_file_location("gpu_speed", ROOT / "scripts" / "gpu_speed.py")
gpu_speed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gpu_speed)

SCHEDULE = """
  func.func @loss_and_grads(%arg0: tensor<8x4xbf16>) -> tensor<f32> {
    %0 = exec.launch @rows_3(%arg0) extent 8 in_place [-1] {exec.offsets = array<i64: 0>} : (tensor<8x4xbf16>) -> tensor<8xf32>
  }
  func.func @update(%arg0: tensor<6xf32>, %arg1: tensor<f64>) {
    %0:2 = exec.launch @pointwise_0(%arg0, %arg1) extent 6 in_place [0] : (tensor<6xf32>, tensor<f64>) -> (tensor<6xf32>, tensor<6xi1>)
  }
  exec.schedule microbatches 2 {
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 1 slot 0
    exec.call @update microbatch 0 slot 0
  }
"""


def test_bytes_of_launches():
    rows = {"kernel": "rows_3", "kind": "rows", "bytes": 8 * 4 * 2 + 8 * 4}
    update = {"kernel": "pointwise_0", "kind": "optimizer", "bytes": 6 * 4 + 8 + 6 * 4 + 6}
    assert gpu_speed.launches_of(SCHEDULE) == [rows, rows, update]


def slices(*durations: float) -> dict:
    return {"traceEvents": [{"cat": "kernel", "ts": i, "dur": duration} for i, duration in enumerate(durations)]
                           + [{"cat": "matmul", "ts": 0, "dur": 5}, {"ph": "M"}]}


def test_times_and_bandwidths_of_kinds():
    launches = [{"kind": "rows", "bytes": 1000}, {"kind": "rows", "bytes": 3000}, {"kind": "optimizer", "bytes": 10}]
    # The first step is left out; of the others the median counts.
    times = gpu_speed.kernel_times(slices(99, 99, 99, 2, 4, 1, 2, 4, 1, 50, 4, 1), launches)
    assert [seconds for _, seconds in times] == [2e-6, 4e-6, 1e-6]
    assert gpu_speed.bandwidths(times, 100, most=1e9) == {"rows": (2, pytest.approx(4000 / 6e-6))}
    assert gpu_speed.bandwidths(times, 100, most=6e8) == {"rows": (1, pytest.approx(1000 / 2e-6))}, "one that looks up elements"
    assert gpu_speed.kernel_times(slices(1, 2, 3, 4), launches) is None, "a profile of another program"


class StubMachine:
    def __init__(self, gpus, answers):
        self.gpus, self.answers, self.libraries = gpus, answers, ""

    def is_late(self):
        return False

    def is_emulated(self):
        return "emulated" in self.gpus[0]

    def run(self, *command):
        words = " ".join(map(str, command))
        for word, answer in self.answers.items():
            if word in words:
                return answer(command)
        raise AssertionError(words)

    def ended(self, code, said):
        return (None, "the part's time was over") if code == 124 else (False, f"exit code {code}")


def rows_on(tmp_path, gpu: str, step: float, torch_tokens: float, monkeypatch):
    """What is said of a model of which a step, a profile and PyTorch's speed are given."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(gpu_speed, "MemoryWatch", lambda: contextlib.nullcontext(types.SimpleNamespace(most=200 << 20)))
    model = {"name": "m", "sequence": 100, "batches": [1, 2, 4], "artifacts": [
        {"batch": 1, "file": "m-1.dtc", "predicted_s": {"H100": 1.0}, "launches": []},
        {"batch": 2, "file": "m-2.dtc", "predicted_s": {"H100": 0.5, "H200": 0.4}, "predicted_bytes": 202 << 20, "launches": [{"kind": "rows", "bytes": 10**8}]},
        {"batch": 4, "refused": "dtc: error: it doesn't fit"}]}

    def train(command):
        if "--log" in command:
            seconds = step if "m-2" in str(command[1]) else 10 * step
            command[command.index("--log") + 1].write_text("\n".join(json.dumps({"step_time_s": seconds}) for _ in range(20)))
        else:
            command[command.index("--profile") + 1].write_text(json.dumps(slices(9, 100, 100, 100)))
        return 0, ""

    answers = {"dtc-run": train, "gpu_speed.py torch": lambda command: (0, json.dumps({"8": torch_tokens})),
               "gpu_speed.py copy": lambda command: (0, "1.1e12")}
    return {name: (result, text) for name, result, text in
            gpu_speed.model_rows(StubMachine([gpu], answers), tmp_path, model, 10**6)}


def test_what_is_judged(tmp_path, monkeypatch):
    rows = rows_on(tmp_path, "NVIDIA H100", 0.5, 380, monkeypatch)
    assert rows["m: batch 4"] == (None, "dtc: error: it doesn't fit")
    assert rows["m: tokens/s"] == (True, "1.05 of PyTorch's 380 (batch 8); dtc 400 (batch 2)")
    assert rows["m: predicted step"][0] is True
    assert rows["m: predicted memory"] == (True, "202 MiB, +1.0 % of the 200 MiB that the run took")
    assert rows["m: bandwidth of rows"][0] is True and "91 % of a copy's 1100" in rows["m: bandwidth of rows"][1]
    rows = rows_on(tmp_path, "NVIDIA H100", 0.6, 380, monkeypatch)
    assert rows["m: tokens/s"][0] is False and rows["m: predicted step"][0] is False
    rows = rows_on(tmp_path, "NVIDIA H200", 0.4, 300, monkeypatch)
    assert rows["m: predicted step"] == (True, "400.00 ms for dgx-h200, +0.0 % of the measured 400.00 ms")
    assert rows["m: batch 2"] == (True, "500 tokens/s, 400.00 ms a step, predicted +0.0 %")
    # A GPU that wasn't planned for, and one whose speed says nothing.
    assert "m: predicted step" not in rows_on(tmp_path, "NVIDIA A100", 0.6, 300, monkeypatch)
    rows = rows_on(tmp_path, "emulated GPU", 0.6, 380, monkeypatch)
    assert {rows[name][0] for name in ("m: tokens/s", "m: bandwidth of rows")} == {None} and "m: predicted step" not in rows


def test_what_time_cut_off_has_not_failed(tmp_path, monkeypatch):
    """PyTorch's figures until then count; what fails otherwise, fails."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    model, partial = {"name": "m"}, json.dumps({"8": 380.0}) + "\n"
    late = StubMachine(["NVIDIA H100"], {"gpu_speed.py torch": lambda command: (124, partial)})
    assert gpu_speed.run_torch(late, tmp_path, model) == ({"8": 380.0}, "the part's time was over")
    broken = StubMachine(["NVIDIA H100"], {"gpu_speed.py torch": lambda command: (1, "ImportError")})
    assert gpu_speed.run_torch(broken, tmp_path, model) == ({}, "PyTorch: exit code 1")
    for code, result in ((124, None), (7, False)):
        machine = StubMachine(["NVIDIA H100"], {"dtc-run": lambda command, code=code: (code, "")})
        artifact = {"batch": 1, "file": "m.dtc", "launches": []}
        assert [row[1] for row in gpu_speed.bandwidth_rows(machine, tmp_path, model, artifact, 10)] == [result]
        assert gpu_speed.run_dtc(machine, tmp_path, model, artifact)[1][0] is result


def test_pytorch_compiles_its_loss(monkeypatch):
    """With the network: else logits are written and read again, which PyTorch at its best doesn't."""
    inside, lost = [], []

    class Logits(list):
        logits = property(lambda self: self)

        def __getitem__(self, key):
            return self

        def flatten(self, *dims):
            return self

    def compiled(function):
        def call(*arguments):
            inside.append(True)
            try:
                return function(*arguments)
            finally:
                inside.pop()
        return call

    def network(inputs):
        assert inside
        return Logits()

    def cross_entropy(logits, targets):
        assert inside
        lost.append(types.SimpleNamespace(backward=lambda: lost.append("backward")))
        return lost[-1]

    torch = types.SimpleNamespace(
        compile=compiled, autocast=lambda *args, **kwargs: contextlib.nullcontext(), bfloat16=None,
        nn=types.SimpleNamespace(functional=types.SimpleNamespace(cross_entropy=cross_entropy)))
    optimizer = types.SimpleNamespace(zero_grad=lambda set_to_none: None, step=lambda: lost.append("update"))
    gpu_speed.torch_step(torch, network, optimizer, Logits())()
    assert lost[1:] == ["backward", "update"]


def test_a_run_on_the_emulated_gpu(tmp_path):
    folder = tmp_path / "packed"
    subprocess.run([sys.executable, ROOT / "scripts" / "gpu_tests.py", "pack", "--quick", "--speed", "--build", BIN.parent, folder], check=True)
    page = tmp_path / "GpuResults.md"
    done = run(folder, page, "--part", "speed")
    assert done.returncode == 0, done.stdout + done.stderr
    text = page.read_text()
    assert "| gpt2-tiny: batch 4 | passed |" in text and "tokens/s," in text
    assert "| gpt2-tiny: bandwidth of optimizer | not run |" in text and "of a copy's" in text
    assert "failed**" not in text


def test_packed_without_speed_is_said(tmp_path):
    folder = tmp_path / "packed"
    subprocess.run([sys.executable, ROOT / "scripts" / "gpu_tests.py", "pack", "--quick", "--build", BIN.parent, folder], check=True)
    done = run(folder, tmp_path / "page.md", "--part", "speed")
    assert done.returncode == 1 and "speed: tokens/s: not run: packed without --speed" in done.stdout


def test_tiles_are_timed_against_the_worst_case(tmp_path, monkeypatch):
    """A mixture is packed and runs in both ways; which one is faster says only a true GPU."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import gpu_mixtures
    import gpu_tests

    model = gpu_mixtures.pack(tmp_path, BIN.parent, *gpu_tests.mixture(True, tmp_path))
    files = [tmp_path / artifact["file"] for artifact in model["artifacts"]]
    assert [len(re.findall(rb"products_\d+", file.read_bytes())) > 0 for file in files] == [False, True]
    assert all(set(artifact["predicted_s"]) == {"H100", "H200"} for artifact in model["artifacts"])

    seconds = {"worst": 0.020, "tiles": 0.008}

    def train(command):
        step = seconds[command[1].stem.split("-")[-1]]
        command[command.index("--log") + 1].write_text("\n".join(json.dumps({"step_time_s": step}) for _ in range(20)))
        return 0, ""

    monkeypatch.setattr(gpu_mixtures.gpu_speed, "MemoryWatch", lambda: contextlib.nullcontext(types.SimpleNamespace(most=0)))
    rows = list(gpu_mixtures.rows(StubMachine(["NVIDIA H100"], {"dtc-run": train}), tmp_path, model))
    assert rows[-1] == ("mixtral-tiny: tiles", True, "2.50 of the tokens/s of the worst case")
    assert rows[1][:2] == ("mixtral-tiny: capacity=tiles", True) and rows[1][2].startswith("16000 tokens/s, 8.00 ms a step, predicted")
