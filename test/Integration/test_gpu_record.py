"""What gpu_tests.py does without a GPU: shares of a call's time, its page, and what it reads of tools' output."""

import json
import subprocess
import sys
import time
import types

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import cudnn_support  # noqa: E402
import gpu_machine  # noqa: E402
import gpu_page  # noqa: E402
import gpu_parts  # noqa: E402
import gpu_sanitizer  # noqa: E402
import gpu_tests  # noqa: E402

# --- time


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_what_a_part_does_not_take_is_the_later_ones():
    clock = Clock()
    shares = gpu_machine.Shares({"a": 10, "b": 20, "c": 30}, 120, 100.0, clock)
    assert shares.begin("a") == pytest.approx(20)
    clock.now += 5
    assert shares.begin("b") == pytest.approx(115 * 20 / 50)
    clock.now += 200  # one that hung, as nothing should
    assert shares.begin("c") == 0
    # A part that takes all of its share leaves the others theirs.
    clock.now = 100.0
    shares = gpu_machine.Shares({"a": 10, "b": 20}, 60, 100.0, clock)
    clock.now += shares.begin("a")
    assert shares.begin("b") == pytest.approx(40)
    assert gpu_machine.Shares({"a": 7}, None, 0.0, clock).begin("a") == 7, "without a limit"


def test_a_call_of_ten_minutes_is_enough_for_each_part():
    """It has 570 seconds. Parts took so many on an H100; one that takes longer leaves others enough."""
    took = {"device": 4, "train": 13, "functions": 1, "shared": 9, "sanitizer": 52, "calibrate": 3, "autotune": 9}
    clock, shares = Clock(), None
    shares = gpu_machine.Shares(gpu_parts.SECONDS, 565, 100.0, clock)
    given = {}
    for part in gpu_parts.PARTS:
        given[part] = shares.begin(part)
        clock.now += min(took.get(part, 1), given[part])
    assert all(given[part] > 2 * seconds for part, seconds in took.items())
    assert given["speed"] > 400 and list(given)[-1] == "speed"
    order = list(given)
    assert order.index("sanitizer") < order.index("autotune") and order[0] == "device"
    assert set(gpu_parts.SECONDS) == set(gpu_parts.PARTS)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(gpu_machine.subprocess, "run", lambda *words, **kwargs: types.SimpleNamespace(returncode=0, stdout='["NVIDIA H100"]'))
    made = gpu_machine.Machine(tmp_path / "page.md")
    monkeypatch.undo()
    made.begin_part(60)
    return made


def test_a_command_ends_with_what_it_started(machine, tmp_path):
    """A tool that is ended must not leave a run on the GPU."""
    begin, marker = time.monotonic(), tmp_path / "still there"
    code, said = machine.run("sh", "-c", f"echo begun; (sleep 4; touch '{marker}') & wait", most=1)
    assert (code, said) == (gpu_machine.LATE, "begun\n") and time.monotonic() - begin < 3
    time.sleep(4)
    assert not marker.exists()
    assert machine.ended(code, said) == (False, "it didn't end in time: begun")


def test_what_the_parts_time_cut_off_was_not_run(machine):
    assert machine.ended(3, "dtc-run: error: no") == (False, "exit code 3: dtc-run: error: no")
    with machine.for_seconds(0.5):
        code, said = machine.run("sleep", 5)
        assert machine.ended(code, said) == (None, gpu_page.TIME_OVER)
        assert machine.run("touch", "never") == (gpu_machine.LATE, ""), "nothing begins any more"
    assert machine.run("echo", "again") == (0, "again\n")


def test_a_part_that_raises_has_failed(machine, monkeypatch):
    def broken(machine, cases):
        """Breaks."""
        yield "first", True, ""
        raise ValueError("a | b")

    monkeypatch.setitem(gpu_parts.PARTS, "train", broken)
    run = gpu_tests.run_part(machine, "train", [], 5)
    assert run.rows == [("first", True, ""), ("the part", False, "ValueError: a / b")]


# --- the page

PLACE = gpu_page.Place(["NVIDIA H100"], False, "abc", "gpu_tests.py run --limit 60")


def part(name, *rows):
    return gpu_page.PartRun(name, f"What {name} shows.", list(rows), 1.0, 20.0)


def test_a_page_says_what_was_not_reached(tmp_path):
    output, late = tmp_path / "page.md", gpu_page.TIME_OVER
    page = gpu_page.Page(output, PLACE, ["a", "b", "c"])
    page.add(part("a", ("one", True, ""), ("two", False, "off"), ("three", None, "needs 2 GPUs"), ("four", None, late)), ["b", "c"])
    text = output.read_text()
    assert "| a | 1 | 1 | 1 | 1 checks | 1 | 20 |\n| b | | | | **all of it** | | |\n| c | | | | **all of it** | | |" in text
    assert "| three | not run | needs 2 GPUs |" in text and "| two | **failed** | off |" in text
    page.add(part("b", ("five", None, late), ("six", None, late)), ["c"])
    text = output.read_text()
    assert "| b | 0 | 0 | 0 | **all of it** | 1 | 20 |\n| c | | | | **all of it** | | |" in text
    assert "| five | not run | the part's time was over |" in text, "nothing older stands there"


def test_a_page_keeps_what_a_call_did_not_reach(tmp_path):
    output, late = tmp_path / "page.md", gpu_page.TIME_OVER
    gpu_page.Page(output, PLACE, ["a", "b"]).add(part("b", ("one", True, "old")), [])
    page = gpu_page.Page(output, PLACE, ["a", "b"])
    page.add(part("a", ("two", True, "new")), ["b"])
    page.add(part("b", ("one", None, late)), [])
    text = output.read_text()
    assert "| one | passed | old |" in text and "| two | passed | new |" in text and text.count("\n## ") == 3
    page = gpu_page.Page(output, PLACE, ["a", "b"])
    page.add(part("b", ("one", False, "newer")), [])
    assert "| one | **failed** | newer |" in output.read_text() and "| old |" not in output.read_text()


# --- what tools print

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
RACES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at rows_3+0x2a0
=========     and Read access at rows_3+0x310 [16 hazards]
=========
========= Error: Race reported between Write access at void cudnn::fusion::compute<float, 4>(int, float *)+0x120 in kernel.cu:12
=========     and Write access at void cudnn::fusion::compute<float, 4>(int, float *)+0x130 in kernel.cu:12 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""
INVALID = """========= Invalid __global__ read of size 4 bytes
=========     at pointwise_12+0xd0
=========     by thread (0,0,0) in block (1,0,0)
=========     Access at 0x7f0 is out of bounds
========= ERROR SUMMARY: 1 error
"""


def test_whose_kernels_a_sanitizer_names():
    assert gpu_sanitizer.kernels_named(RACES) == {"rows_3": 2, "cudnn::fusion::compute<float, 4>": 2}
    assert gpu_sanitizer.kernels_named(INVALID) == {"pointwise_12": 1}
    assert gpu_sanitizer.verdict(0, CLEAN) == (True, "ERROR SUMMARY: 0 errors")
    assert gpu_sanitizer.verdict(9, RACES) == (
        False, "RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings); in rows_3 (2), cudnn::fusion::compute<float, 4> (2)")
    assert gpu_sanitizer.verdict(9, INVALID) == (False, "ERROR SUMMARY: 1 error; in pointwise_12 (1)")
    assert gpu_sanitizer.verdict(0, RACES)[0] is False, "whatever the tool exits with"


def test_a_tool_that_looked_at_nothing_is_no_success():
    assert gpu_sanitizer.verdict(0, "step 2/2\n") == (False, "exit code 0, without a summary: step 2/2")
    assert gpu_sanitizer.verdict(1, "unrecognised option '--kernel-name-exclude'")[0] is False
    assert gpu_sanitizer.verdict(5, CLEAN) == (False, "ERROR SUMMARY: 0 errors, but exit code 5"), "the run itself failed"


def test_racecheck_leaves_out_cudnn(machine, tmp_path, monkeypatch):
    """Races are looked for first, and each tool in each model."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/calls\nprintf '%s' '{CLEAN}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cases = [{"name": f"{model}-{recipe}", "model": model, "recipe": recipe, "gpus": gpus}
             for model, recipe, gpus in (("mlp", "adamw", 1), ("gpt2", "bf16", 1), ("gpt2", "bf16", 2), ("bert", "adamw", 1))]
    rows = list(gpu_sanitizer.rows(machine, cases, lambda case, *flags: ["run", case["name"], *flags]))
    assert [row[0] for row in rows] == [f"{check} of {name}" for check in ("racecheck", "memcheck", "initcheck") for name in ("gpt2-bf16", "mlp-adamw")]
    assert all(row[1] for row in rows)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "--tool racecheck --error-exitcode 9 --kernel-name-exclude kns=cudnn run gpt2-bf16 --steps 2"
    assert all(("--kernel-name-exclude" in call) == ("racecheck" in call) for call in calls)
    with machine.for_seconds(0):
        assert {row[1:] for row in gpu_sanitizer.rows(machine, cases, lambda case, *flags: ["run"])} == {(None, gpu_page.TIME_OVER)}


CUT = """[ RUN      ] Devices/Conformance.Attention/CUDA
[       OK ] Devices/Conformance.Attention/CUDA (1412 ms)
[ RUN      ] Devices/Conformance.Epilogues/CUDA
[  FAILED  ] Devices/Conformance.Epilogues/CUDA, where GetParam() = x (3 ms)
[ RUN      ] Devices/Conformance.Copies/CUDA
"""


def test_unit_tests_that_were_cut_off(machine, tmp_path, monkeypatch):
    """Their program leaves no report then; what it printed counts."""
    program = tmp_path / "bin" / "DeviceConformanceTests"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncase \"$*\" in *list*) printf 'Devices/Conformance.\\n  Attention/CUDA  # GetParam() = x\\n"
                       f"  Epilogues/CUDA\\n  Copies/CUDA\\n  Queues/CUDA\\n';; *) printf '{CUT}'; exec sleep 20;; esac\n")
    program.chmod(0o755)
    monkeypatch.setattr(gpu_parts, "HERE", tmp_path)
    with machine.for_seconds(1):
        rows = list(gpu_parts.part_device(machine, []))
    assert rows == [("Attention/CUDA", True, ""), ("Epilogues/CUDA", False, "failed"), ("Copies/CUDA", None, gpu_page.TIME_OVER),
                    ("Queues/CUDA", None, gpu_page.TIME_OVER)]


# --- a GPU's properties


def test_properties_lie_beside_the_page_and_are_asked_about(machine, tmp_path, monkeypatch):
    told = json.dumps({**cudnn_support.H200, "deviceName": "NVIDIA H100 80GB HBM3"})
    (tmp_path / "gpu_planner.py").write_text(f"print({told!r})")
    monkeypatch.setattr(gpu_parts, "HERE", tmp_path)
    [row] = gpu_parts.part_planner(machine, [])
    path = tmp_path / "page.properties.json"
    assert row == ("properties", True, f"NVIDIA H100 80GB HBM3, {len(told) + 1} characters: page.properties.json")
    names = [device["deviceName"] for device in cudnn_support.devices(path)]
    assert names == ["NVIDIA H100 80GB HBM3", "NVIDIA A100", "NVIDIA H200", "NVIDIA B200"]
    assert len(cudnn_support.devices(tmp_path / "none.json")) == 3


def test_what_lies_beside_the_page_is_kept_in_git():
    """The planner's check and clusters read it."""
    names = ["docs/GpuResults.properties.json", "docs/GpuResults.calibrated.yaml"]
    ignored = subprocess.run(["git", "-C", ROOT, "check-ignore", *names], capture_output=True, text=True)
    assert ignored.stdout == "" and cudnn_support.MEASURED == ROOT / names[0]
