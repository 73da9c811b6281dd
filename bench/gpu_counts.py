"""What bounds the speed of programs for GPUs, counted without a GPU.

    python3 bench/gpu_counts.py [--models gpt2.adamw llama.bf16 …] [--output FILE.json]
    python3 bench/gpu_counts.py --large           bytes in flight, of kernels that move 64 MB and more; a quarter of a minute. By
                                                  nvdisasm (DTC_NVDISASM or PATH), as ptxas ordered the loads, else as PTX allows
    python3 bench/gpu_counts.py --instructions    instructions of PTX that threads carry out for each element, and their reads and writes,
                                                  on the emulated GPU; half a minute
    python3 bench/gpu_counts.py --wide            bytes of one layer of real widths, bf16, by kernel; needs torch, transformers and
                                                  numpy; some four minutes in all
    python3 bench/gpu_counts.py --layers          what a layer of GPT-2 124M and of a Llama of 1B adds; needs torch and transformers
    python3 bench/gpu_counts.py --collectives     what collectives of these models take on 8 and 16 H100, and how much of that the
                                                  programs expose, against their plans; needs torch and transformers, a minute more

For test models on one GPU, fp32 and bf16 where PyTorch's run is recorded: the launches and library calls of a step; the bytes
that each kernel moves against the least (DTC_EMULATED_GPU_TRAFFIC of the emulated GPU: sectors of 32 bytes, once a block); registers and
spilled bytes by ptxas, and the share of an SM's 2,048 threads that these let run. The models are small, so kernels of little data
move relatively much: the sums over a step weigh them. Needs ptxas (DTC_PTXAS or PATH) for registers; a minute in all.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "published"))

import graphs  # noqa: E402

BIN = ROOT / "build" / "bin"
EMULATOR = ROOT / "build" / "lib" / "gpu-emulator"
MODELS = ROOT / "test" / "models"
ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]
# Of one SM: threads, registers, in what numbers these are handed to a warp, blocks.
THREADS, REGISTERS, GRANULE, BLOCKS = 2048, 65536, 256, 32
SHARED, SHARED_GRANULE = 227 * 1024, 1024
# Of an H100: its SMs, and what each must have asked for and not got yet: 3 TB/s for the 600 ns that memory takes to answer.
SMS, LEAST_IN_FLIGHT = 132, 14e3
LARGE = ROOT / "bench" / "gpu_kernels.mlir"
INSTRUCTIONS = ROOT / "bench" / "gpu_instructions.mlir"
FORM = ["--target=cuda", "--dtc-decompose-layers", "--dtc-fold-epilogues", "--dtc-form-kernels"]


def call(*command: object, **environment: str) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=os.environ | environment)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def kind_of(kernel: str) -> str:
    return re.sub(r"_\d+$", "", kernel)


def blocks_at_once(registers: int, threads: int, shared: int = 0) -> int:
    """Blocks that an SM runs at once, by registers, threads and shared memory."""
    warps = -(-threads // 32)
    per_warp = -(-registers * 32 // GRANULE) * GRANULE
    return min(REGISTERS // (per_warp * warps), THREADS // (warps * 32), BLOCKS,
               SHARED // (-(-shared // SHARED_GRANULE) * SHARED_GRANULE + SHARED_GRANULE))


def occupancy(registers: int, threads: int) -> float:
    """The share of an SM's threads that run at once."""
    return blocks_at_once(registers, threads) * -(-threads // 32) * 32 / THREADS


def registers_of(ptx: bytes, folder: pathlib.Path, architecture: str) -> dict[str, tuple[int, int]]:
    """Registers and spilled bytes by kernel."""
    source = folder / "kernels.ptx"
    source.write_bytes(ptx)
    done = subprocess.run([os.environ.get("DTC_PTXAS", "ptxas"), "-v", f"-arch={architecture}", source, "-o", folder / "cubin"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ptxas: {done.stderr.strip()}")
    found, spilled = {}, {}
    name = ""
    for line in done.stderr.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            name = match[1]
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled[name] = sum(map(int, match.groups()))
        elif match := re.search(r"Used (\d+) registers", line):
            found[name] = (int(match[1]), spilled[name])
    return found


def run_step(artifact: pathlib.Path, data: pathlib.Path, folder: pathlib.Path) -> tuple[float, list[dict]]:
    """The loss, and the launches of a step on the emulated GPU."""
    traffic, log = folder / "traffic.jsonl", folder / "log.jsonl"
    for file in (traffic, log):
        file.unlink(missing_ok=True)
    call(BIN / "dtc-run", artifact, "--data", data, "--no-shuffle", "--steps", 1, "--log", log,
         DTC_CUDA_LIBRARY_PATH=str(EMULATOR), DTC_EMULATED_GPU_TRAFFIC=str(traffic), DTC_EMULATED_GPU_DELAY_US="0")
    launches = [json.loads(line) for line in traffic.read_text().splitlines()]
    for launch in launches:
        launch["moved"] = launch["read"] + launch["written"]
        launch["least"] = launch["least_read"] + launch["least_written"]
    return json.loads(log.read_text().splitlines()[0])["loss"], launches


def sums_of(launches: list[dict], group) -> dict[str, collections.Counter]:
    sums: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for launch in launches:
        sums[group(launch["kernel"])].update(launches=1, moved=launch["moved"], least=launch["least"], sectors=launch["sectors"])
    return sums


def count(model: str, recipe: str, folder: pathlib.Path) -> dict:
    """Of one step, after a first one that PyTorch's loss has confirmed."""
    reference = json.loads((MODELS / f"{model}.{recipe}.json").read_text())
    artifact = folder / "model.dtc"
    call(BIN / "dtc", "compile", MODELS / f"{model}.onnx", "--target", "cuda", "--devices", 1, "--loss", "cross_entropy",
         "--global-batch", 8, *reference["flags"], "-o", artifact)
    loss, launches = run_step(artifact, MODELS / f"{model}.data.safetensors", folder)
    if abs(loss / reference["steps"][0]["loss"] - 1) > 1e-2:
        sys.exit(f"{model}: loss {loss} is not PyTorch's")
    kinds = sums_of(launches, kind_of)
    calls = json.loads(call(BIN / "dtc", "inspect", artifact, "--json"))["library_calls"]
    ptx = zipfile.ZipFile(artifact).read("code/kernels.ptx")
    threads = {launch["kernel"]: launch["threads"] for launch in launches}
    registers = {}
    for architecture in ARCHITECTURES:
        used = registers_of(ptx, folder, architecture)
        shares = sorted(occupancy(used[kernel][0], threads[kernel]) for kernel in threads)
        registers[architecture] = {"most": max(count for count, _ in used.values()), "spilled": sum(s for _, s in used.values()),
                                   "least_occupancy": shares[0], "median_occupancy": shares[len(shares) // 2]}
    worst = sorted(launches, key=lambda launch: launch["least"] - launch["moved"])[:3]
    return {"model": model, "recipe": recipe, "launches": len(launches), "kernels": len(threads), "library_calls": sum(calls.values()),
            "kinds": {name: dict(kinds[name]) for name in sorted(kinds)}, "registers": registers,
            "most_moved_beyond_least": [launch["kernel"] for launch in worst]}


def ratio(kinds: list[dict]) -> str:
    least = sum(kind["least"] for kind in kinds)
    return f"{sum(kind['moved'] for kind in kinds) / least:.2f}" if least else "-"


BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


def loaded_at_once(ptx: str) -> dict[str, tuple[int, int]]:
    """By kernel: the bytes that a thread can have asked for, in the block of instructions without branches where these are the most,
    and by how many loads.

    Those count that wait neither for one another nor for what is stored before them. ptxas may put fewer of them before the first
    that waits (issued_at_once).
    """
    found = {}
    for entry in re.split(r"\.entry ", ptx)[1:]:
        name = re.match(r"\w+", entry)[0]
        most = (0, 0)
        for block in re.split(r"^\$\w+:|\bbra\b.*;|\bbar\.sync\b.*;|\bst\.global.*;", entry, flags=re.MULTILINE):
            late: set[str] = set()  # registers that wait for what is loaded
            bytes_ = loads = 0
            for line in block.split("\n"):
                names = re.findall(r"%\w+", line)
                load = re.search(r"\bld\.global(?:\.\w+)*?(?:\.v(\d))?\.[bfsu](\d+)\b", line)
                results = re.search(r"\{([^}]*)\}", line)[1].count("%") if load and "{" in line else 1
                if late.intersection(names[results:]) or load:
                    if load and not late.intersection(names[results:]):
                        bytes_ += int(load[1] or 1) * BYTES[load[2]]
                        loads += 1
                    late.update(names[:results])
            most = max(most, (bytes_, loads))
        found[name] = most
    return found


SASS_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def issued_at_once(cubin: pathlib.Path) -> dict[str, tuple[int, int]]:
    """By kernel, in the order that ptxas chose: the most bytes that a thread asks for before an instruction waits for any of them, and
    by how many loads. Of PyPI's nvidia-cuda-nvdisasm; nothing where that isn't installed."""
    tool = shutil.which(os.environ.get("DTC_NVDISASM", "nvdisasm"))
    if not tool:
        return {}
    found = {}
    for section in re.split(r"^\.text\.", call(tool, "-c", cubin), flags=re.MULTILINE)[1:]:
        most, bytes_, loads = (0, 0), 0, 0
        waiting: set[int] = set()  # registers
        for line in section.splitlines()[1:]:
            if line.lstrip().startswith(".section"):
                break
            registers = [int(number) for number in re.findall(r"\bR(\d+)\b", line)]
            load = re.search(r"\bLDG\.E((?:\.\w+)*) R(\d+)", line)
            used = {register + more for register in (registers[1:] if load else registers) for more in ((0, 1) if ".64" in line else (0,))}
            if waiting & used or re.match(r"\s*\.L_|.*\b(BRA|BAR|EXIT)\b", line):
                most, bytes_, loads, waiting = max(most, (bytes_, loads)), 0, 0, set()
            if load:
                size = next((SASS_BYTES[part] for part in load[1].split(".") if part in SASS_BYTES), 4)
                bytes_, loads = bytes_ + size, loads + 1
                waiting |= set(range(int(load[2]), int(load[2]) + max(size // 4, 1)))
        found[re.match(r"\w+", section)[0]] = most
    return found


def count_large(output: pathlib.Path | None) -> None:
    formed = call(BIN / "dtc-opt", *FORM, LARGE)
    ptx = call(BIN / "dtc-opt", *FORM, LARGE, "--test-emit-ptx", "-o", "/dev/null")
    asked = loaded_at_once(ptx)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        used = registers_of(ptx.encode(), pathlib.Path(folder), "sm_90")
        issued = issued_at_once(pathlib.Path(folder) / "cubin")
    shared = {name: sum(int(count) * BYTES[bits] for bits, count in re.findall(rf"\.shared \.align \d+ \.b(\d+) {name}_\w+\[(\d+)\]", ptx))
              for name in used}
    geometry = {name: (int(blocks), int(threads), int(kept or 0)) for name, blocks, threads, kept in
                re.findall(r"exec\.kernel @(\w+) .*geometry <blocks = (\d+), threads = (\d+)(?:, sharedBytes = (\d+))?>", formed)}
    for body in re.split(r"func\.func @", formed)[1:]:
        for name in re.findall(r"exec\.launch @(\w+)", body):
            blocks, threads, kept = geometry[name]
            registers, spilled = used[name]
            at_once = blocks_at_once(registers, threads, shared[name] + kept)
            per_sm = min(at_once, blocks / SMS) * threads
            bytes_, loads = issued.get(name, asked[name])
            rows.append({"function": re.match(r"\w+", body)[0], "kernel": name, "blocks": blocks, "threads": threads,
                         "shared": shared[name] + kept, "registers": registers, "spilled": spilled, "asked": bytes_, "loads": loads,
                         "threads_per_sm": round(per_sm), "waves": round(blocks / SMS / at_once, 2), "in_flight": round(per_sm * bytes_)})
    print("| kernel of | blocks | threads | shared bytes | registers | bytes a thread asks for at once | loads | threads an SM | waves | "
          "bytes in flight an SM |")
    print("|" + "---|" * 10)
    for row in rows:
        print(f"| {row['function']}, {kind_of(row['kernel'])} | {row['blocks']} | {row['threads']} | {row['shared']} | {row['registers']} | "
              f"{row['asked']} | {row['loads']} | {row['threads_per_sm']} | {row['waves']} | {row['in_flight']} |")
    if output:
        output.write_text(json.dumps(rows, indent=1))


def count_instructions(output: pathlib.Path | None) -> None:
    """What bounds a kernel whose memory would be faster: an H100 carries out 28e12 instructions of threads a second, and an H200."""
    formed = call(BIN / "dtc-opt", *FORM, INSTRUCTIONS)
    ptx = call(BIN / "dtc-opt", *FORM, INSTRUCTIONS, "--test-emit-ptx", "-o", "/dev/null")
    entries = {re.match(r"\w+", entry)[0]: entry for entry in re.split(r"\.entry ", ptx)[1:]}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        used = registers_of(ptx.encode(), pathlib.Path(folder), "sm_90")
        traffic = pathlib.Path(folder) / "traffic.jsonl"
        call(BIN / "dtc-opt", *FORM, INSTRUCTIONS, "--test-run-cuda-kernels=tolerance=1e-2 int-low=0", "-o", "/dev/null",
             DTC_CUDA_LIBRARY_PATH=str(EMULATOR), DTC_EMULATED_GPU_TRAFFIC=str(traffic), DTC_EMULATED_GPU_DELAY_US="0")
        launches = {}  # a kernel runs again with its results over its operands
        for line in traffic.read_text().splitlines():
            launch = json.loads(line)
            launches.setdefault(launch["kernel"], launch)
    for body in re.split(r"func\.func @", formed)[1:]:
        for name in re.findall(r"exec\.launch @(\w+)", body):
            elements = max(math.prod(map(int, shape.split("x"))) for shape in re.findall(r"tensor<([\dx]+)x\w+>", body))
            registers, spilled = used[name]
            rows.append({"function": re.match(r"\w+", body)[0], "kernel": name, "registers": registers, "spilled": spilled,
                         "instructions": launches[name]["instructions"] / elements,
                         "loads": len(re.findall(r"\bld\.global", entries[name])), "stores": len(re.findall(r"\bst\.global", entries[name]))})
    print("| kernel of | instructions for each element | loads in its text | stores | registers |")
    print("|" + "---|" * 5)
    for row in rows:
        print(f"| {row['function']}, {kind_of(row['kernel'])} | {row['instructions']:.1f} | {row['loads']} | {row['stores']} | {row['registers']} |")
    if output:
        output.write_text(json.dumps(rows, indent=1))


def count_wide(output: pathlib.Path | None) -> None:
    """A step of one layer of real widths, with weights and tokens that are drawn."""
    import numpy as np

    vocabulary, sequence = 8192, 256
    models = {"GPT-2 124M": (4, graphs.Dimensions("gpt", 1, 768, 12, 12, 3072, vocabulary, sequence)),
              "Llama": (4, graphs.Dimensions("llama", 1, 1024, 16, 4, 2816, vocabulary, sequence)),
              "Mixtral": (2, graphs.Dimensions("mixtral", 1, 512, 8, 2, 1024, vocabulary, sequence, experts=8, chosen=2))}
    rows, summaries = [], []
    for name, (batch, dims) in models.items():
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            artifact, data, buffers = folder / "model.dtc", folder / "data.safetensors", folder / "buffers.safetensors"
            tokens = np.random.default_rng(0).integers(0, vocabulary, (batch, sequence))
            write_tensors(data, {"input_ids": tokens, "target": np.roll(tokens, -1, 1)})
            frequencies = 1e4 ** (-np.arange(0, dims.head_dim, 2) / dims.head_dim)
            write_tensors(buffers, {"m.model.rotary_emb.inv_freq": frequencies.astype(np.float32)})
            weights = [] if dims.architecture == "gpt" else ["--weights", buffers]
            call(BIN / "dtc", "compile", graphs.export(dims), "--init", *weights, "--target", "cuda", "--devices", 1, "--precision", "bf16",
                 "--plan", "dp=1,recompute=none", "--loss", "cross_entropy", "--global-batch", batch, "-o", artifact)
            loss, launches = run_step(artifact, data, folder)
        if abs(loss / np.log(vocabulary) - 1) > 0.1:
            sys.exit(f"{name}: loss {loss} is not that of drawn weights")
        kernels = sums_of(launches, str)
        rows += [{"model": name, "kernel": kernel, **kernels[kernel]} for kernel in sorted(kernels, key=lambda k: -kernels[k]["moved"])]
        summaries.append((name, len(launches), list(kernels.values())))
    print("| model | launches | MB moved | moved / least |\n|---|---|---|---|")
    for name, count_, kernels in summaries:
        print(f"| {name} | {count_} | {sum(kernel['moved'] for kernel in kernels) / 1e6:.1f} | {ratio(kernels)} |")
    print("\n| model | kernel above 1.1 | launches | MB moved | moved / least | each sector once / least |\n|---|---|---|---|---|---|")
    for row in rows:
        if row["moved"] > max(1.1 * row["least"], 1e6):
            print(f"| {row['model']} | {row['kernel']} | {row['launches']} | {row['moved'] / 1e6:.1f} | {ratio([row])} | "
                  f"{row['sectors'] / row['least']:.2f} |")
    if output:
        output.write_text(json.dumps(rows, indent=1))


def write_tensors(path: pathlib.Path, tensors: dict) -> None:
    """As safetensors."""
    header, place = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": {"int64": "I64", "float32": "F32"}[tensor.dtype.name], "shape": list(tensor.shape),
                        "data_offsets": [place, place + tensor.nbytes]}
        place += tensor.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensor.tobytes() for tensor in tensors.values()))


def count_layers() -> None:
    """What a third layer adds to two, by the scheduled program. No layer is run, so that no weights are needed."""
    models = {"GPT-2 124M": ("gpt", 768, 12, 12, 3072, 50257, 1024), "Llama 1B": ("llama", 2048, 16, 8, 8192, 32000, 2048)}
    print("| model | launches a layer | products a layer | attentions a layer |\n|---|---|---|---|")
    for name, (architecture, *sizes) in models.items():
        counts = []
        for layers in (2, 3):
            path = graphs.export(graphs.Dimensions(architecture, layers, *sizes))
            program = call(BIN / "dtc", "compile", path, "--target", "cuda", "--devices", 1, "--precision", "bf16", "--plan",
                           "dp=1,recompute=none", "--loss", "cross_entropy", "--global-batch", 8, "--emit", "schedule")
            counts.append([len(re.findall(op, program)) for op in (r"exec\.launch\b", r"exec\.matmul\b", r"exec\.attention\b")])
        print(f"| {name}, bf16 | {' | '.join(str(more - fewer) for fewer, more in zip(*counts))} |")


#: Plans by number of GPUs. pp stands for 1F1B.
PLANS = {8: ["dp=8,zero=0", "dp=8,zero=1", "dp=8,zero=3", "dp=4,tp=2,zero=0", "dp=4,pp=2,zero=0", "dp=4,cp=2,zero=0"],
         16: ["dp=16,zero=0", "dp=16,zero=3", "dp=8,tp=2,zero=0"]}


def count_collectives(output: pathlib.Path | None) -> None:
    """The programs' calls are played by the cost model (test/lib/PlanBridge/ExposedCollectives.cpp)."""
    models = {"GPT-2 124M": (4, graphs.Dimensions("gpt", 12, 768, 12, 12, 3072, 50257, 1024)),
              "Llama 1B": (1, graphs.Dimensions("llama", 16, 2048, 16, 8, 8192, 32000, 2048))}
    runs = []
    for name, (micro_batch, dims) in models.items():
        path = graphs.export(dims)
        for gpus, plans in PLANS.items():
            for plan in plans:
                degrees = dict(pair.split("=") for pair in plan.split(","))
                flags = ["--target", "cuda", "--devices", gpus, "--cluster", "dgx-h100", "--precision", "bf16", "--loss", "cross_entropy",
                         "--plan", f"{plan},micro_batch={micro_batch},recompute=none",
                         # four microbatches, of which a pipeline's stages have some at a time
                         "--global-batch", 4 * micro_batch * int(degrees["dp"])]
                planned = json.loads(call(BIN / "dtc", "plan", path, *flags, "--json"))
                with tempfile.NamedTemporaryFile("w", suffix=".mlir") as program:
                    program.write(call(BIN / "dtc", "compile", path, *flags, "--no-verify", "--emit", "schedule"))
                    program.flush()
                    said = call(BIN / "dtc-opt", "--test-exposed-collectives", program.name, "-o", "/dev/null")
                # Of a pipeline the rank whose collectives take longest.
                ranks = [json.loads(line) for line in said.splitlines()]
                emitted = max(ranks, key=lambda rank: sum(each["seconds"] for each in rank["collectives"]))
                runs.append({"model": name, "gpus": gpus, "plan": plan, "emitted": emitted, "predicted": planned["predicted"],
                             "collectives": planned["collectives"]})
    print("| model | GPUs | plan | computing, ms | communication | of it exposed | the plan's communication | of it exposed |")
    print("|" + "---|" * 8)
    for run in runs:
        emitted, planned = run["emitted"], run["predicted"]
        cells = [emitted["computing_s"], *(sum(each[key] for each in emitted["collectives"]) for key in ("seconds", "exposed_s")),
                 sum(each["time_s"] for each in run["collectives"] if each["kind"] != "send"), planned["exposed_communication_s"]]
        print(f"| {run['model']} | {run['gpus']} | {run['plan']} | {' | '.join(f'{1e3 * cell:.2f}' for cell in cells)} |")
    print("\n| model | GPUs | plan | collective | calls | MB | ms | computed beside, ms | exposed, ms |\n" + "|" + "---|" * 9)
    for run in runs:
        for each in run["emitted"]["collectives"]:
            print(f"| {run['model']} | {run['gpus']} | {run['plan']} | {each['kind']} over {each['axes']} | {each['calls']} | "
                  f"{each['bytes'] / 1e6:.1f} | {1e3 * each['seconds']:.2f} | {1e3 * each['beside_s']:.2f} | {1e3 * each['exposed_s']:.2f} |")
    if output:
        output.write_text(json.dumps(runs, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["gpt2.adamw", "gpt2.bf16", "llama.adamw", "llama.bf16", "bert.adamw", "vit.adamw"])
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("--collectives", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--wide", action="store_true")
    options = parser.parse_args()
    if options.layers:
        return count_layers()
    if options.collectives:
        return count_collectives(options.output)
    if options.large:
        return count_large(options.output)
    if options.instructions:
        return count_instructions(options.output)
    if options.wide:
        return count_wide(options.output)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            model, _, recipe = name.partition(".")
            results.append(count(model, recipe or "adamw", pathlib.Path(folder)))
    names = sorted({kind for result in results for kind in result["kinds"]})
    print("| model | launches | kernels | library calls | moved / least | " + " | ".join(names) + " |")
    print("|" + "---|" * (5 + len(names)))
    for result in results:
        kinds = result["kinds"]
        cells = [ratio([kinds[name]]) if name in kinds else "-" for name in names]
        print(f"| {result['model']}, {result['recipe']} | {result['launches']} | {result['kernels']} | {result['library_calls']} | "
              f"{ratio(list(kinds.values()))} | {' | '.join(cells)} |")
    print()
    print("| model | architecture | most registers | spilled bytes | occupancy: median | least |")
    print("|" + "---|" * 6)
    for result in results:
        for architecture, used in result["registers"].items():
            print(f"| {result['model']}, {result['recipe']} | {architecture} | {used['most']} | {used['spilled']} | "
                  f"{100 * used['median_occupancy']:.0f} % | {100 * used['least_occupancy']:.0f} % |")
    for result in results:
        print(f"{result['model']}, {result['recipe']}: most beyond the least: {', '.join(result['most_moved_beyond_least'])}")
    if options.output:
        options.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
