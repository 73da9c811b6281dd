"""The parts of gpu_tests.py. Each yields (check, True | False | None: not run, what is said of it)."""

import json
import pathlib
import re
import shutil
import sys

import gpu_functions
import gpu_mixtures
import gpu_nccl
import gpu_sanitizer
import gpu_speed
from gpu_machine import HERE, LATE, Machine
from gpu_page import TIME_OVER

STEPS = 10


def training(case: dict, log: pathlib.Path, *flags: object) -> list:
    folder = HERE / "models"
    return [HERE / "bin" / "dtc-run", folder / f"{case['name']}.dtc", "--data", folder / f"{case['model']}.data.safetensors",
            "--no-shuffle", "--log", log, *flags]


def check_losses(case: dict, log: pathlib.Path) -> tuple[bool, str]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    if len(lines) != len(case["steps"]):
        return False, f"{len(lines)} of {len(case['steps'])} steps"
    worst = {}
    for key, bound in zip(("loss", "grad_norm"), case["bounds"]):
        pairs = [(got[key], want[key]) for got, want in zip(lines, case["steps"])]
        if any((got is None) != (want is None) for got, want in pairs):
            return False, f"{key} is there in other steps"
        # A step whose scaled gradients overflow has no norm.
        errors = [abs(got - want) / abs(want) for got, want in pairs if want is not None]
        worst[key] = (max(errors), bound)
    times = sorted(line["step_time_s"] for line in lines[2:])
    figures = ", ".join(f"{key} off by {error:.1e} (bound {bound:.0e})" for key, (error, bound) in worst.items())
    return (all(error < bound for error, bound in worst.values()),
            f"{figures}, {1000 * times[len(times) // 2]:.2f} ms a step")


def compare_losses(machine: Machine, case: dict, *before: str, most: float = 60) -> tuple[str, bool | None, str]:
    log = HERE / "train.jsonl"
    log.unlink(missing_ok=True)
    code, said = machine.run(*before, *training(case, log, "--steps", STEPS), most=most)
    return (case["name"], *(machine.ended(code, said) if code else check_losses(case, log)))


def part_train(machine: Machine, cases: list):
    """Ten steps of each model against PyTorch's losses and gradient norms."""
    for case in cases:
        if case["gpus"] > len(machine.gpus):
            yield case["name"], None, f"needs {case['gpus']} GPUs"
        else:
            yield compare_losses(machine, case)


def part_shared(machine: Machine, cases: list):
    """The same of ranks that share one GPU, by collectives of dtc's own in the place of NCCL's."""
    for case in cases:
        if case["gpus"] > 1:
            yield compare_losses(machine, case, "env", "DTC_SHARE_GPU=1", most=20)


def finished_tests(said: str) -> dict[str, bool]:
    """Of what GoogleTest printed before it was cut off: each test that ended, and whether it passed."""
    found = re.findall(r"^\[ +(OK|FAILED) +\] [^/\s]+/[^.\s]+\.([^\s,]+),? ", said, re.MULTILINE)
    return {name: word == "OK" for word, name in found}


def unfinished_rows(machine: Machine, program: list, code: int, said: str):
    """A run that left no report: the tests that ended, the one during which it did, and those that weren't reached."""
    ended = finished_tests(said)
    for name, passed in ended.items():
        yield name, passed, "" if passed else "failed"
    started = re.findall(r"^\[ RUN +\] [^/\s]+/[^.\s]+\.(\S+)", said, re.MULTILINE)
    if running := [name for name in started if name not in ended]:
        yield (running[-1], *machine.ended(code, said))
    elif not ended:
        yield ("unit tests", *machine.ended(code, said))
    with machine.for_seconds(3):  # a list takes no time to speak of
        listed = re.findall(r"^  (\S+)", machine.run(*program, "--gtest_list_tests")[1], re.MULTILINE)
    for name in listed:
        if name not in started and name not in ended:
            yield name, None, TIME_OVER if code == LATE else "not reached"


def part_device(machine: Machine, cases: list):
    """What any device must do (test/Unit/Runtime/Conformance)."""
    report = HERE / "device.json"
    report.unlink(missing_ok=True)
    program = [HERE / "bin" / "DeviceConformanceTests", "--gtest_filter=*/CUDA"]
    code, said = machine.run(*program, f"--gtest_output=json:{report}")
    if not report.exists():
        yield from unfinished_rows(machine, program, code, said)
        return
    for suite in json.loads(report.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            if test.get("result") == "SKIPPED":
                yield test["name"], None, " ".join(skip["message"] for skip in test.get("skipped", [])).strip() or "skipped"
            else:
                why = " ".join(failure["failure"] for failure in test.get("failures", [])) or test["time"]
                words = [word[word.index("test/Unit/"):] if "/test/Unit/" in word else word for word in why.split()]
                yield test["name"], "failures" not in test, " ".join(words)[:1000].replace("|", "/")


def part_nccl(machine: Machine, cases: list):
    """NCCL with one rank: communicators, collectives of every type, a message and a split, as dtc-run calls them."""
    yield from gpu_nccl.rows(machine, HERE / "gpu_nccl.py")


def part_processes(machine: Machine, cases: list):
    """A process for each GPU computes the bits that threads do."""
    for case in cases:
        if case["gpus"] == 1:
            continue
        if case["gpus"] > len(machine.gpus):
            yield case["name"], None, f"needs {case['gpus']} GPUs"
            continue
        results = []
        for flags in ([], ["--processes"]):
            log, weights = HERE / "processes.jsonl", HERE / "processes.safetensors"
            log.unlink(missing_ok=True)
            code, said = machine.run(*training(case, log, "--steps", 3, "--save-weights", weights, *flags))
            if code:
                yield (case["name"], *machine.ended(code, said))
                break
            results.append(([json.loads(line)["loss"] for line in log.read_text().splitlines()], weights.read_bytes()))
        else:
            same = results[0] == results[1]
            yield case["name"], same, "the same bits" if same else "other bits than threads"


def part_sanitizer(machine: Machine, cases: list):
    """compute-sanitizer finds nothing in two steps. Its racecheck leaves out cuDNN's kernels."""
    yield from gpu_sanitizer.rows(machine, cases, lambda case, *flags: training(case, HERE / "sanitizer.jsonl", *flags))


def part_planner(machine: Machine, cases: list):
    """The device's properties, which cuDNN's planner takes where there is no device (test/Integration/cudnn_support.py)."""
    if machine.is_emulated():
        yield "properties", None, "an emulated GPU has none for cuDNN"
        return
    code, said = machine.run(sys.executable, HERE / "gpu_planner.py", machine.libraries)
    if code:
        yield ("properties", *machine.ended(code, said))
        return
    machine.beside("properties.json").write_text(said)
    yield "properties", True, f"{json.loads(said).get('deviceName')}, {len(said)} characters: {machine.beside('properties.json').name}"


def part_calibrate(machine: Machine, cases: list):
    """What `dtc calibrate --target cuda` measures, against the built-in cluster of such GPUs."""
    code, said = machine.run(HERE / "bin" / "gpu-calibration")
    if code:
        yield ("calibrate", *machine.ended(code, said))
        return
    machine.beside("calibrated.yaml").write_text(said)
    yield "calibrate", True, f"{said.splitlines()[0].strip('# ')}; {machine.beside('calibrated.yaml').name}"
    for key, built_in in gpu_speed.BUILT_IN.get(gpu_speed.kind_of(machine), {}).items():
        found = float(re.search(rf"{key}: ([0-9.e+-]+)", said)[1])
        good = abs(found / built_in - 1) <= gpu_speed.MOST_APART
        yield (f"calibrate: {key}", gpu_speed.judge(good, machine),
               f"{found:.4g}, {100 * (found / built_in - 1):+.1f} % of the built-in {built_in:g}")


def part_functions(machine: Machine, cases: list):
    """Elementwise functions against Python's in float64, and against the emulated GPU's bits."""
    yield from gpu_functions.rows(machine, HERE / "bin" / "dtc-run", HERE / "models")


def part_autotune(machine: Machine, cases: list):
    """Products whose algorithms are timed: losses stay PyTorch's, and later runs take what is kept, with the same bits."""
    cache, weights, log = HERE / "cublaslt", HERE / "autotune.safetensors", HERE / "autotune.jsonl"
    for case in cases:
        if case["gpus"] > 1 or not case["name"].startswith(("mlp", "gpt2-bf16", "llama-bf16")):
            continue
        shutil.rmtree(cache, ignore_errors=True)
        found = []
        for flags in ([], ["--autotune"], ["--autotune"]):
            log.unlink(missing_ok=True)
            code, said = machine.run("env", f"DTC_CUBLASLT_CACHE={cache}", *training(case, log, "--steps", STEPS, "--save-weights", weights, *flags))
            good, text = machine.ended(code, said) if code else check_losses(case, log)
            found.append((good, text.split(", ")[-1], "timed cuBLASLt" in said, weights.read_bytes() if good else None))
            if not good:
                break
        if found[-1][0] is None:
            yield case["name"], None, found[-1][1]
            continue
        good = all(run[0] for run in found) and [run[2] for run in found] == [False, True, False] and found[1][3] == found[2][3]
        yield case["name"], good, "; ".join(run[1] for run in found)


def part_mixtures(machine: Machine, cases: list):
    """Tokens/s of a mixture of experts with slots in tiles, against slots for the worst case."""
    models = json.loads((HERE / "cases.json").read_text())["mixtures"]
    if not models:
        yield "tiles", None, "packed without --speed"
    for model in models:
        yield from gpu_mixtures.rows(machine, HERE / "models", model)


def part_speed(machine: Machine, cases: list):
    """Tokens/s against PyTorch's best in the same run, predicted against measured steps, and the bandwidth of kernels against a copy's."""
    models = json.loads((HERE / "cases.json").read_text())["speed"]
    if not models:
        yield "tokens/s", None, "packed without --speed"
    for index, model in enumerate(models):
        with machine.for_seconds(machine.seconds_left() / (len(models) - index)):
            yield from gpu_speed.model_rows(machine, HERE / "models", model, gpu_speed.LEAST_BYTES if model["sequence"] > 64 else 4096)


# In the order of their worth for a minute. What is quick and says whether programs are right comes first, and races before
# what is only slow. What PyTorch is compared in comes last, and takes what the others leave.
PARTS = {"device": part_device, "train": part_train, "planner": part_planner, "functions": part_functions, "nccl": part_nccl,
         "shared": part_shared, "sanitizer": part_sanitizer, "calibrate": part_calibrate, "autotune": part_autotune,
         "processes": part_processes, "mixtures": part_mixtures, "speed": part_speed}
# What each may take, or its share of a limit. An H200 had 41 of 48 tests of the device left after 14 seconds, as cuDNN compiles an
# engine for each attention. The others took 17, 0, 1, 2, 17, 56 (not all), 3, 12, 0 and 156 (not all).
SECONDS = {"device": 100, "train": 60, "planner": 10, "functions": 15, "nccl": 20, "shared": 60, "sanitizer": 150, "calibrate": 25,
           "autotune": 30, "processes": 40, "mixtures": 30, "speed": 360}
