#!/usr/bin/env python3
"""Tests artifacts for GPUs on true GPUs, on a machine that needs no build, no LLVM and no Python package.

    scripts/gpu_tests.py pack build/gpu-tests                          where dtc is built: a folder, and build/gpu-tests.tar.gz
    scripts/gpu_tests.py pack build/gpu-tests --speed                  with GPT-2 124M and a Llama of 1B; needs torch and transformers
    build/gpu-tests/gpu_tests.py run -o docs/GpuResults.md             on the machine with GPUs; every part, in half an hour
    build/gpu-tests/gpu_tests.py run --call 1 -o docs/GpuResults.md    the parts of one of three calls of ten minutes
    build/gpu-tests/gpu_tests.py run --part train -o docs/GpuResults.md

The folder has dtc-run, the device's unit tests, the libraries that they need, compiled artifacts of the test models with
their data, and what PyTorch computed. The libraries of CUDA are those of the machine, or of PyTorch's packages on it, or
those that DTC_CUDA_LIBRARY_PATH names. Python needs no package; PyTorch is compared with where it is installed. Each part ends
within its seconds, or --seconds; what it didn't reach is said. What parts write beside the page has its name. Exit codes: 0
all passed, 1 something failed, 4 no GPU.
"""

import argparse
import ctypes
import datetime
import glob
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time

import gpu_functions
import gpu_speed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
STEPS = 10
NO_GPU = 4
# Model, PyTorch's run, GPUs, plan, and how far losses and gradient norms may be off, relatively: as in test_cuda_models.py.
FP32, BF16 = (1e-4, 1e-3), (2e-3, 5e-2)
CASES = [
    ("mlp", "adamw", 1, "dp=1", FP32), ("gpt2", "adamw", 1, "dp=1", FP32), ("llama", "adamw", 1, "dp=1", FP32),
    ("qwen2", "adamw", 1, "dp=1", FP32), ("bert", "adamw", 1, "dp=1", FP32), ("t5", "sgd", 1, "dp=1", (1e-4, 5e-3)),
    ("bart", "adamw", 1, "dp=1", FP32), ("moe", "adamw", 1, "dp=1", FP32), ("mixtral", "adamw", 1, "dp=1", FP32),
    ("vit", "adamw", 1, "dp=1", FP32), ("convnext", "adamw", 1, "dp=1", FP32), ("resnet_tiny", "adamw", 1, "dp=1", FP32),
    ("mlp", "bf16", 1, "dp=1", (6e-3, 5e-2)), ("gpt2", "bf16", 1, "dp=1", BF16), ("llama", "bf16", 1, "dp=1", BF16),
    ("gpt2", "adamw", 1, "dp=1,offload=optimizer", FP32), ("gpt2", "bf16", 2, "dp=2,zero=1,offload=optimizer", BF16),
    ("mlp", "adamw", 2, "dp=2", FP32), ("gpt2", "adamw", 2, "tp=2", FP32), ("gpt2", "adamw", 2, "pp=2", FP32),
    ("gpt2", "adamw", 2, "dp=2,zero=3", FP32), ("llama", "adamw", 4, "dp=2,tp=2", FP32), ("moe", "adamw", 4, "ep=4", FP32),
    ("gpt2", "adamw", 8, "dp=4,tp=2", FP32), ("gpt2", "bf16", 8, "dp=4,tp=2", BF16),
]
QUICK = [case for case in CASES if case[0] == "mlp" and case[1] == "adamw"]
SANITIZED = [("mlp", "adamw", 1), ("gpt2", "adamw", 1), ("gpt2", "bf16", 1), ("resnet_tiny", "adamw", 1)]
TOOLS = ["memcheck", "racecheck", "initcheck"]


def name_of(model: str, recipe: str, gpus: int, plan: str) -> str:
    return f"{model}-{recipe}-{gpus}-{plan.replace(',', '-').replace('=', '')}"


# --- where dtc is built


def needed_libraries(binary: pathlib.Path) -> list[pathlib.Path]:
    """Those that another machine may lack: all but the C library's."""
    lines = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [pathlib.Path(match[1]) for line in lines if (match := re.search(r"=> (/\S+)", line))]
    return [path for path in paths if not re.match(r"lib(c|m|dl|rt|pthread)\.so", path.name)]


def speed_models(quick: bool, folder: pathlib.Path) -> list[tuple[pathlib.Path, dict, list]]:
    """Graph, what is to be known of the model, and flags of `dtc compile`."""
    if quick:
        tiny = {"name": "gpt2-tiny", "vocabulary": 512, "sequence": 32, "batches": [2, 4], "dimensions": ["gpt", 2, 64, 4, 4, 256, 512, 64]}
        return [(ROOT / "test" / "models" / "gpt2.onnx", tiny, [])]
    sys.path.insert(0, str(ROOT / "bench" / "published"))
    import graphs

    found = []
    for name, sizes, batches in gpu_speed.MODELS:
        model = {"name": name, "vocabulary": sizes[-2], "sequence": sizes[-1], "batches": batches, "dimensions": sizes}
        dimensions = graphs.Dimensions(*sizes)
        buffers = rotary_buffers(graphs.build(dimensions), folder / f"{name}.buffers.safetensors")
        found.append((graphs.export(dimensions), model, ["--init", *buffers]))
    return found


def rotary_buffers(network, path: pathlib.Path) -> list:
    """Flags that give the frequencies of rotary embeddings, which the exported graph names without data."""
    from safetensors.torch import save_file

    rotary = getattr(getattr(network, "model", None), "rotary_emb", None)
    if rotary is None:
        return []
    save_file({"m.model.rotary_emb.inv_freq": type(rotary)(network.config).inv_freq.clone()}, path)
    return ["--weights", path]


def pack(folder: pathlib.Path, cases: list, build: pathlib.Path, quick: bool, speed: bool) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib", "models"):
        (folder / name).mkdir(parents=True)
    models = ROOT / "test" / "models"
    packed = []
    for model, recipe, gpus, plan, bounds in cases:
        reference = json.loads((models / f"{model}.{recipe}.json").read_text())
        name = name_of(model, recipe, gpus, plan)
        subprocess.run([build / "bin" / "dtc", "compile", models / f"{model}.onnx", "--target", "cuda", "--devices", str(gpus),
                        "--plan", plan, "--loss", "cross_entropy", "--global-batch", "8", *map(str, reference["flags"]),
                        "-o", folder / "models" / f"{name}.dtc"], check=True, stdout=subprocess.DEVNULL)
        shutil.copy(models / f"{model}.data.safetensors", folder / "models")
        packed.append({"name": name, "model": model, "recipe": recipe, "gpus": gpus, "bounds": bounds,
                       "steps": [{key: step[key] for key in ("loss", "grad_norm")} for step in reference["steps"]]})
    for binary in (build / "bin" / "dtc-run", build / "test" / "Unit" / "DeviceConformanceTests",
                   build / "bin" / "gpu-calibration"):
        shutil.copy(binary, folder / "bin")
        for library in needed_libraries(binary):
            shutil.copy(library, folder / "lib")
    shutil.copy(ROOT / "test" / "Unit" / "Runtime" / "TestKernels.ptx", folder / "bin")
    gpu_functions.pack(folder / "models", build, models / "functions.onnx")
    for script in ("gpu_tests.py", "gpu_functions.py", "gpu_planner.py", "gpu_speed.py"):
        shutil.copy(HERE / script, folder / script)
    models_to_time = speed_models(quick, folder / "models") if speed else []
    timed = [gpu_speed.pack_model(folder / "models", build, *model) for model in models_to_time]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    (folder / "cases.json").write_text(json.dumps({"commit": commit.stdout.strip() or "unknown", "cases": packed, "speed": timed}, indent=1))
    archive = pathlib.Path(shutil.make_archive(str(folder), "gztar", folder.parent, folder.name))
    print(f"{folder}: {len(packed)} artifacts; {archive}: {archive.stat().st_size >> 20} MiB")


# --- on the machine with GPUs


def link_cuda(folder: pathlib.Path) -> None:
    """Links of the libraries that PyTorch's packages and the toolkit bring, for dtc-run to find."""
    patterns = [f"{place}/nvidia/*/lib" for place in sys.path if place] + ["/usr/local/cuda*/lib64"]
    for base in glob.glob("/usr/local/lib/python3*/*-packages") + glob.glob("/opt/*/lib/python3*/site-packages"):
        patterns.append(f"{base}/nvidia/*/lib")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for pattern in patterns:
        for path in sorted(glob.glob(f"{pattern}/lib*.so*")):
            link = folder / pathlib.Path(path).name
            if re.match(r"lib(cublas|cudnn|nccl|nvrtc|nvJitLink)", link.name) and not link.exists():
                link.symlink_to(path)


def find_gpus(libraries: str) -> list[str]:
    """As the driver names them; none where there is no driver."""
    for path in (os.path.join(libraries, "libcuda.so.1"), "libcuda.so.1"):
        try:
            driver = ctypes.CDLL(path)
            break
        except OSError:
            continue
    else:
        return []
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    names = []
    for ordinal in range(count.value):
        text = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(text, 255, ordinal)
        names.append(text.value.decode())
    return names


class Machine:
    """What runs commands here, until a part's time is over."""

    def __init__(self, seconds: float | None, output: pathlib.Path):
        self.output = output
        given = os.environ.get("DTC_CUDA_LIBRARY_PATH")
        self.libraries = given or str(HERE / "cuda")
        if not given:
            link_cuda(HERE / "cuda")
        self.environment = os.environ | {
            "DTC_CUDA_LIBRARY_PATH": self.libraries, "DTC_TEST_PTX": str(HERE / "bin" / "TestKernels.ptx"),
            "LD_LIBRARY_PATH": ":".join([str(HERE / "lib"), self.libraries, os.environ.get("LD_LIBRARY_PATH", "")])}
        self.seconds = seconds
        self.end = time.monotonic()
        # In a process of its own: what a driver does at the end of this one is no test.
        asked = subprocess.run([sys.executable, __file__, "gpus", self.libraries], capture_output=True, text=True)
        self.gpus = json.loads(asked.stdout) if asked.returncode == 0 else []

    def begin_part(self, part: str) -> None:
        self.end = time.monotonic() + (SECONDS[part] if self.seconds is None else self.seconds)

    def beside(self, name: str) -> pathlib.Path:
        """A file beside the page."""
        return self.output.with_suffix(f".{name}")

    def run(self, *command: object, most: float = 1e9) -> tuple[int, str]:
        """Exit code and all that was said; 124 where the part's time is over, or `most` seconds are."""
        try:
            done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", env=self.environment, cwd=HERE, stdin=subprocess.DEVNULL,
                                  timeout=max(1.0, min(most, self.end - time.monotonic())))
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            said = late.stdout or b""
            return 124, said.decode(errors="replace") if isinstance(said, bytes) else said

    def is_late(self) -> bool:
        return time.monotonic() > self.end

    def is_emulated(self) -> bool:
        return any("emulated" in name.lower() for name in self.gpus)


def last_line(text: str) -> str:
    errors = [line for line in text.splitlines() if "error" in line.lower()]
    lines = errors or text.splitlines() or [""]
    return lines[-1].strip()[:200].replace("|", "/")


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
        errors = [abs(got[key] - want[key]) / abs(want[key]) for got, want in zip(lines, case["steps"])]
        worst[key] = (max(errors), bound)
    times = sorted(line["step_time_s"] for line in lines[2:])
    figures = ", ".join(f"{key} off by {error:.1e} (bound {bound:.0e})" for key, (error, bound) in worst.items())
    return (all(error < bound for error, bound in worst.values()),
            f"{figures}, {1000 * times[len(times) // 2]:.2f} ms a step")


def compare_losses(machine: Machine, case: dict, *before: str, most: float = 60) -> tuple[str, bool | None, str]:
    log = HERE / "train.jsonl"
    log.unlink(missing_ok=True)
    if machine.is_late():
        return case["name"], None, "the part's time was over"
    code, said = machine.run(*before, *training(case, log, "--steps", STEPS), most=most)
    return (case["name"], False, f"exit code {code}: {last_line(said)}") if code else (case["name"], *check_losses(case, log))


# Each part yields (check, True | False | None: not run, what is said of it).


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


def part_device(machine: Machine, cases: list):
    """What any device must do (test/Unit/Runtime/Conformance)."""
    report = HERE / "device.json"
    report.unlink(missing_ok=True)
    code, said = machine.run(HERE / "bin" / "DeviceConformanceTests", "--gtest_filter=*/CUDA", f"--gtest_output=json:{report}")
    if not report.exists():
        yield "unit tests", False, f"exit code {code}: {last_line(said)}"
        return
    for suite in json.loads(report.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            if test.get("result") == "SKIPPED":
                yield test["name"], None, " ".join(skip["message"] for skip in test.get("skipped", [])).strip() or "skipped"
            else:
                why = " ".join(failure["failure"] for failure in test.get("failures", [])) or test["time"]
                words = [word[word.index("test/Unit/"):] if "/test/Unit/" in word else word for word in why.split()]
                yield test["name"], "failures" not in test, " ".join(words)[:1000].replace("|", "/")


def part_processes(machine: Machine, cases: list):
    """A process for each GPU computes the bits that threads do."""
    for case in cases:
        if case["gpus"] == 1:
            continue
        if case["gpus"] > len(machine.gpus) or machine.is_late():
            yield case["name"], None, f"needs {case['gpus']} GPUs" if not machine.is_late() else "the part's time was over"
            continue
        results = []
        for flags in ([], ["--processes"]):
            log, weights = HERE / "processes.jsonl", HERE / "processes.safetensors"
            log.unlink(missing_ok=True)
            code, said = machine.run(*training(case, log, "--steps", 3, "--save-weights", weights, *flags))
            if code:
                yield case["name"], False, f"exit code {code}: {last_line(said)}"
                break
            results.append(([json.loads(line)["loss"] for line in log.read_text().splitlines()], weights.read_bytes()))
        else:
            same = results[0] == results[1]
            yield case["name"], same, "the same bits" if same else "other bits than threads"


def part_sanitizer(machine: Machine, cases: list):
    """compute-sanitizer finds nothing in two steps."""
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    for case in cases:
        if (case["model"], case["recipe"], case["gpus"]) not in SANITIZED:
            continue
        for check in TOOLS:
            name = f"{check} of {case['name']}"
            if not tool or machine.is_late():
                yield name, None, "compute-sanitizer isn't installed" if not tool else "the part's time was over"
                continue
            code, said = machine.run(tool, "--tool", check, "--error-exitcode", 9,
                                     *training(case, HERE / "sanitizer.jsonl", "--steps", 2))
            summary = [line for line in said.splitlines() if "SUMMARY" in line]
            yield name, code == 0, (summary or [f"exit code {code}: {last_line(said)}"])[-1].strip("= ")


def part_planner(machine: Machine, cases: list):
    """The device's properties, which cuDNN's planner takes where there is no device (test/Integration/cudnn_support.py)."""
    if machine.is_emulated():
        yield "properties", None, "an emulated GPU has none for cuDNN"
        return
    code, said = machine.run(sys.executable, HERE / "gpu_planner.py", machine.libraries)
    if code == 0:
        machine.beside("properties.json").write_text(said)
    yield "properties", code == 0, f"{len(said)} characters: {machine.beside('properties.json').name}" if code == 0 else last_line(said)


def part_calibrate(machine: Machine, cases: list):
    """What `dtc calibrate --target cuda` measures, against the built-in cluster of an H100."""
    code, said = machine.run(HERE / "bin" / "gpu-calibration")
    if code:
        yield "calibrate", False, f"exit code {code}: {last_line(said)}"
        return
    machine.beside("calibrated.yaml").write_text(said)
    yield "calibrate", True, f"{said.splitlines()[0].strip('# ')}; {machine.beside('calibrated.yaml').name}"
    for key, built_in in gpu_speed.BUILT_IN.items():
        found = float(re.search(rf"{key}: ([0-9.e+-]+)", said)[1])
        good = abs(found / built_in - 1) <= gpu_speed.MOST_APART
        yield (f"calibrate: {key}", gpu_speed.judge(good, machine) if gpu_speed.GPU in " ".join(machine.gpus) else None,
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
            good, text = (False, f"exit code {code}: {last_line(said)}") if code else check_losses(case, log)
            found.append((good, text.split(", ")[-1], "timed cuBLASLt" in said, weights.read_bytes() if good else None))
            if not good:
                break
        good = all(run[0] for run in found) and [run[2] for run in found] == [False, True, False] and found[1][3] == found[2][3]
        yield case["name"], good, "; ".join(run[1] for run in found)


def part_speed(machine: Machine, cases: list):
    """Tokens/s against PyTorch's best in the same run, predicted against measured steps, and the bandwidth of kernels against a copy's."""
    models = json.loads((HERE / "cases.json").read_text())["speed"]
    if not models:
        yield "tokens/s", None, "packed without --speed"
    for model in models:
        yield from gpu_speed.model_rows(machine, HERE / "models", model, gpu_speed.LEAST_BYTES if model["sequence"] > 64 else 4096)


PARTS = {"train": part_train, "shared": part_shared, "device": part_device, "functions": part_functions, "planner": part_planner,
         "calibrate": part_calibrate, "autotune": part_autotune, "processes": part_processes, "sanitizer": part_sanitizer, "speed": part_speed}
# Of each part; those of a call take less than ten minutes together.
SECONDS = {"train": 90, "shared": 180, "device": 40, "functions": 20, "planner": 20, "calibrate": 60, "autotune": 30, "processes": 120,
           "sanitizer": 540, "speed": 540}
CALLS = {1: ["device", "train", "functions", "planner", "calibrate", "autotune", "shared", "processes"], 2: ["speed"], 3: ["sanitizer"]}


def driver_version() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    if not shutil.which(query[0]):
        return "unknown (no nvidia-smi)"
    return subprocess.run(query, capture_output=True, text=True).stdout.splitlines()[0]


def section(machine: Machine, commit: str, part: str, rows: list, seconds: float) -> list[str]:
    """What one run of a part showed, and where."""
    gpus = ", ".join(f"{machine.gpus.count(name)} x {name}" for name in sorted(set(machine.gpus)))
    good, bad, none = (sum(row[1] is wanted for row in rows) for wanted in (True, False, None))
    words = {True: "passed", False: "**failed**", None: "not run"}
    lines = [f"## {part}", "", PARTS[part].__doc__, ""]
    if machine.is_emulated():
        lines += ["**The GPU is emulated: this says nothing of a true one.**", ""]
    return [*lines, "| | |", "|---|---|", f"| date | {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC |",
            f"| GPUs | {gpus} |", f"| driver | {driver_version()} |", f"| machine | {platform.platform()}, {os.cpu_count()} processors |",
            f"| dtc | {commit} |", f"| command | `{' '.join(map(str, ['gpu_tests.py', *sys.argv[1:]]))}` |", "",
            f"{good} passed, {bad} failed, {none} not run, in {seconds:.0f} s.", "", "| check | result | |", "|---|---|---|",
            *(f"| {name} | {words[result]} | {text} |" for name, result, text in rows), ""]


def kept_sections(output: pathlib.Path) -> dict[str, list[str]]:
    """By part, what the page says already."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in output.read_text().splitlines() if output.exists() else []:
        if line.startswith("## "):
            lines = found.setdefault(line[3:], [])
        lines.append(line)
    return found


def write_page(output: pathlib.Path, sections: dict[str, list[str]]) -> None:
    lines = ["# GPU results", "", "Written by `scripts/gpu_tests.py run`, which packs and runs as its first lines say. "
             "Each part stands as its last run left it.", ""]
    for part in PARTS:
        lines += sections.get(part, [])
    output.write_text("\n".join(lines).rstrip() + "\n")


def run(parts: list, output: pathlib.Path, seconds: float | None) -> int:
    packed = json.loads((HERE / "cases.json").read_text())
    machine = Machine(seconds, output)
    if not machine.gpus:
        print("gpu_tests: no GPU: there is no driver (libcuda.so.1), or it sees none", file=sys.stderr)
        return NO_GPU
    results, sections = [], kept_sections(output)
    for part in parts:
        machine.begin_part(part)
        begin, rows = time.monotonic(), []
        for row in PARTS[part](machine, packed["cases"]):
            rows.append(row)
            print(f"{part}: {row[0]}: { {True: 'passed', False: 'FAILED', None: 'not run'}[row[1]]}: {row[2]}", flush=True)
        results += rows
        sections[part] = section(machine, packed["commit"], part, rows, time.monotonic() - begin)
        write_page(output, sections)  # also what came before a crash
    failed, passed = sum(row[1] is False for row in results), sum(row[1] is True for row in results)
    print(f"{passed} passed, {failed} failed, {len(results) - passed - failed} not run: {output}")
    return 1 if failed or not passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("folder", type=pathlib.Path)
    packing.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    packing.add_argument("--quick", action="store_true", help="the smallest model alone")
    packing.add_argument("--speed", action="store_true", help="the models of the part speed, too")
    running = commands.add_parser("run")
    running.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("GpuResults.md"))
    running.add_argument("--part", choices=PARTS, action="append")
    running.add_argument("--call", type=int, choices=CALLS, help="the parts that ten minutes are enough for: " +
                         "; ".join(f"{call}: {', '.join(parts)}" for call, parts in CALLS.items()))
    running.add_argument("--seconds", type=float, help="of each part, in the place of its own")
    commands.add_parser("gpus").add_argument("libraries")
    options = parser.parse_args()
    if options.command == "pack":
        pack(options.folder.resolve(), QUICK if options.quick else CASES, options.build, options.quick, options.speed)
        return 0
    if options.command == "gpus":
        print(json.dumps(find_gpus(options.libraries)))
        return 0
    parts = options.part or (CALLS[options.call] if options.call else [part for call in CALLS.values() for part in call])
    return run(parts, options.output.resolve(), options.seconds)


if __name__ == "__main__":
    sys.exit(main())
