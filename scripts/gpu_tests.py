#!/usr/bin/env python3
"""Tests artifacts for GPUs on true GPUs, on a machine that needs no build, no LLVM and no Python package.

    scripts/gpu_tests.py pack build/gpu-tests                          where dtc is built: a folder, and build/gpu-tests.tar.gz
    scripts/gpu_tests.py pack build/gpu-tests --speed                  with GPT-2 124M and a Llama of 1B; needs torch and transformers
    build/gpu-tests/gpu_tests.py run -o docs/GpuResults.md             on the machine with GPUs; every part, in a quarter of an hour
    build/gpu-tests/gpu_tests.py run --limit 570 -o docs/GpuResults.md the same, where it has to end in so many seconds
    build/gpu-tests/gpu_tests.py run --part train -o docs/GpuResults.md

The folder has dtc-run, the device's unit tests, the libraries that they need, compiled artifacts of the test models with
their data, and what PyTorch computed. The libraries of CUDA are those of the machine, or of PyTorch's packages on it, or
those that DTC_CUDA_LIBRARY_PATH names. Python needs no package; PyTorch is compared with where it is installed.

Parts run in the order of their worth (gpu_parts.py). Each ends within its seconds, its share of --limit, or --seconds. What
wasn't reached is said on the page. What parts write beside the page has its name, and is kept in git with it. Exit codes: 0
all passed, 1 something failed or nothing passed, 4 no GPU.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

BEGUN = time.monotonic()

import gpu_functions  # noqa: E402
import gpu_mixtures  # noqa: E402
import gpu_parts  # noqa: E402
import gpu_speed  # noqa: E402
from gpu_machine import HERE, Machine, Shares  # noqa: E402
from gpu_page import Page, PartRun, Place, command_line  # noqa: E402

ROOT = HERE.parent
SCRIPTS = ["gpu_tests.py", "gpu_machine.py", "gpu_parts.py", "gpu_page.py", "gpu_functions.py", "gpu_mixtures.py", "gpu_nccl.py", "gpu_planner.py",
           "gpu_sanitizer.py", "gpu_speed.py"]
NO_GPU = 4
RESERVE = 5.0  # seconds of a limit for what isn't a part
# Model, PyTorch's run, GPUs, plan, and how far losses and gradient norms may be off, relatively: as in test_cuda_models.py.
FP32, BF16 = (1e-4, 1e-3), (2e-3, 5e-2)
CASES = [
    ("mlp", "adamw", 1, "dp=1", FP32), ("gpt2", "adamw", 1, "dp=1", FP32), ("llama", "adamw", 1, "dp=1", FP32),
    ("qwen2", "adamw", 1, "dp=1", FP32), ("bert", "adamw", 1, "dp=1", FP32), ("t5", "sgd", 1, "dp=1", (1e-4, 5e-3)),
    ("bart", "adamw", 1, "dp=1", FP32), ("moe", "adamw", 1, "dp=1", FP32), ("mixtral", "adamw", 1, "dp=1", FP32),
    ("qwen2_moe", "adamw", 1, "dp=1", FP32), ("gpt_oss", "adamw", 1, "dp=1", FP32),
    ("vit", "adamw", 1, "dp=1", FP32), ("convnext", "adamw", 1, "dp=1", FP32), ("resnet_tiny", "adamw", 1, "dp=1", FP32),
    ("mlp", "bf16", 1, "dp=1", (6e-3, 5e-2)), ("gpt2", "bf16", 1, "dp=1", BF16), ("llama", "bf16", 1, "dp=1", BF16),
    ("gpt2", "adamw", 1, "dp=1,micro_batch=2", FP32), ("llama", "bf16", 1, "dp=1,micro_batch=2", BF16),
    ("gpt2", "fp16", 1, "dp=1", BF16), ("resnet_tiny", "bf16", 1, "dp=1", (6e-2, 1.5e-1)), ("upsampling", "adamw", 1, "dp=1", FP32),
    ("mixtral", "bf16", 1, "dp=1", BF16), ("mixtral", "bf16", 1, "dp=1,capacity=tiles", BF16),
    ("mistral", "bf16", 1, "dp=1", BF16), ("gpt2", "clip", 1, "dp=1,recompute=full", FP32),
    ("gpt2", "adamw", 1, "dp=1,offload=optimizer", FP32), ("gpt2", "bf16", 2, "dp=2,zero=1,offload=optimizer", BF16),
    ("mlp", "adamw", 2, "dp=2", FP32), ("gpt2", "adamw", 2, "tp=2", FP32), ("gpt2", "adamw", 2, "pp=2", FP32),
    ("gpt2", "adamw", 2, "dp=2,zero=3", FP32), ("llama", "adamw", 4, "dp=2,tp=2", FP32), ("moe", "adamw", 4, "ep=4", FP32),
    ("gpt2", "bf16", 2, "dp=1,cp=2,cp_by=ring", BF16), ("gpt2", "bf16", 2, "dp=2,zero=1,micro_batch=2", BF16),
    ("mixtral", "adamw", 2, "ep=2", FP32), ("mixtral", "bf16", 2, "dp=1,ep=2,capacity=tiles", BF16),
    ("gpt2", "clip", 4, "pp=2,dp=2,zero=2,schedule=zb,micro_batch=1", FP32),
    ("llama", "clip", 2, "dp=2,zero=3,recompute=full", FP32), ("gpt2", "adamw", 8, "dp=4,tp=2", FP32), ("gpt2", "bf16", 8, "dp=4,tp=2", BF16),
]
QUICK = [case for case in CASES if case[0] == "mlp" and case[1] == "adamw"]


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


def mixture(quick: bool, folder: pathlib.Path) -> tuple[pathlib.Path, dict, list]:
    """Likewise, of a mixture of experts."""
    if quick:
        return ROOT / "test" / "models" / "mixtral.onnx", {"name": "mixtral-tiny", "vocabulary": 512, "sequence": 32, "batches": [4]}, []
    import graphs

    name, sizes, batch = gpu_mixtures.MODEL
    dimensions = graphs.Dimensions(**sizes)
    buffers = rotary_buffers(graphs.build(dimensions), folder / f"{name}.buffers.safetensors")
    model = {"name": name, "vocabulary": dimensions.vocabulary, "sequence": dimensions.sequence, "batches": [batch]}
    return graphs.export(dimensions), model, ["--init", *buffers]


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
        graph = models / f"{model}.onnx"
        if not graph.exists():
            graph = models / f"{model}.pt2"
        subprocess.run([build / "bin" / "dtc", "compile", graph, "--target", "cuda", "--devices", str(gpus),
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
    for script in SCRIPTS:
        shutil.copy(HERE / script, folder / script)
    models_to_time = speed_models(quick, folder / "models") if speed else []
    timed = [gpu_speed.pack_model(folder / "models", build, *model) for model in models_to_time]
    mixtures = [gpu_mixtures.pack(folder / "models", build, *mixture(quick, folder / "models"))] if speed else []
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    (folder / "cases.json").write_text(json.dumps({"commit": commit.stdout.strip() or "unknown", "cases": packed, "speed": timed, "mixtures": mixtures},
                                                   indent=1))
    archive = pathlib.Path(shutil.make_archive(str(folder), "gztar", folder.parent, folder.name))
    print(f"{folder}: {len(packed)} artifacts; {archive}: {archive.stat().st_size >> 20} MiB")


# --- on the machine with GPUs


def run_part(machine: Machine, name: str, cases: list, seconds: float) -> PartRun:
    """A part that raises has failed; the next one goes on."""
    run = PartRun(name, gpu_parts.PARTS[name].__doc__, share=seconds)
    begin = time.monotonic()
    machine.begin_part(seconds)
    try:
        for row in gpu_parts.PARTS[name](machine, cases):
            run.rows.append(row)
            print(f"{name}: {row[0]}: { {True: 'passed', False: 'FAILED', None: 'not run'}[row[1]]}: {row[2]}", flush=True)
    except Exception as error:  # noqa: BLE001 (whatever a true machine does must not cost the other parts)
        run.rows.append(("the part", False, f"{type(error).__name__}: {error}".replace("|", "/")[:300]))
        print(f"{name}: FAILED: {run.rows[-1][2]}", flush=True)
    run.seconds = time.monotonic() - begin
    return run


def run(parts: list, output: pathlib.Path, limit: float | None, seconds: float | None) -> int:
    packed = json.loads((HERE / "cases.json").read_text())
    machine = Machine(output)
    if not machine.gpus:
        print("gpu_tests: no GPU: there is no driver (libcuda.so.1), or it sees none", file=sys.stderr)
        return NO_GPU
    parts = [part for part in gpu_parts.PARTS if part in parts]
    weights = {part: gpu_parts.SECONDS[part] if seconds is None else seconds for part in parts}
    shares = Shares(weights, None if limit is None else limit - RESERVE, BEGUN)
    page = Page(output, Place(machine.gpus, machine.is_emulated(), packed["commit"], command_line()), list(gpu_parts.PARTS))
    for index, part in enumerate(parts):
        page.add(run_part(machine, part, packed["cases"], shares.begin(part)), parts[index + 1:])
    passed, failed, none = (sum(run.count(wanted) for run in page.runs) for wanted in (True, False, None))
    late = sum(run.late for run in page.runs)
    print(f"{passed} passed, {failed} failed, {none} not run, {late} of them as time was over, in {time.monotonic() - BEGUN:.0f} s: {output}")
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
    running.add_argument("--part", choices=gpu_parts.PARTS, action="append", help="one part alone, or several; they keep their order")
    running.add_argument("--limit", type=float, metavar="SECONDS", help="after which the call has ended; parts have shares of it")
    running.add_argument("--seconds", type=float, help="of each part, in the place of its own")
    options = parser.parse_args()
    if options.command == "pack":
        pack(options.folder.resolve(), QUICK if options.quick else CASES, options.build, options.quick, options.speed)
        return 0
    if options.limit is not None and options.seconds is not None:
        parser.error("--limit shares out its seconds; --seconds gives each part as many: one of them")
    if options.limit is not None and options.limit <= RESERVE:
        parser.error(f"--limit: expected more than {RESERVE:g} seconds, got {options.limit:g}")
    return run(options.part or list(gpu_parts.PARTS), options.output.resolve(), options.limit, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
