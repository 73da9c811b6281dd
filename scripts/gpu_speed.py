"""How fast artifacts run on a GPU: the part `speed` of gpu_tests.py, and what packs it.

Of each packed model, in one run: tokens/s of dtc's best batch against PyTorch's own best (torch.compile of model and loss, flash
attention, fused AdamW, bf16 by autocast with fp32 weights), the step time that the plan predicted, and the bandwidth of kernels that
move 64 MB and more, by kind, against a copy in the same memory. On a machine without PyTorch, or with an emulated GPU, what
can't be judged isn't run.

    gpu_speed.py torch MODEL.json     tokens/s of PyTorch for each batch, as JSON
    gpu_speed.py copy LIBRARIES MIB   bytes/s that a copy on the device moves
"""

import ctypes
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS, WARMUP = 20, 5
LEAST_BYTES = 64_000_000
# What issue and literature ask for: of PyTorch's tokens/s, of a copy's bandwidth, and of the measured step.
LEAST_RATIO, LEAST_BANDWIDTH, MOST_ERROR, MOST_MEMORY_ERROR = 1.0, 0.85, 0.08, 0.02
# By a part of a GPU's name: its built-in cluster, what that says of it, and how far a calibration may be off.
CLUSTERS = {"H100": "dgx-h100", "H200": "dgx-h200"}
BUILT_IN = {"H100": {"bandwidth_gbs": 3350, "memory_gb": 84.93}, "H200": {"bandwidth_gbs": 4800, "memory_gb": 150.11}}
MOST_APART = 0.15
# Name, dimensions of bench/published/graphs.py, batches. Sequences are as long as the model's.
MODELS = [
    ("gpt2-124m", ("gpt", 12, 768, 12, 12, 3072, 50257, 1024), [8, 16, 32, 64]),
    ("llama-1b", ("llama", 16, 2048, 16, 8, 8192, 32000, 2048), [1, 2, 4, 8]),
]
ELEMENT_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ui8": 1, "i1": 1}


# --- where dtc is built


def bytes_of(types: str) -> int:
    """Of all tensors that a part of a printed op names."""
    total = 0
    for shape, element in re.findall(r"tensor<((?:\d+x)*)([a-z]+\d+)>", types):
        size = ELEMENT_BYTES[element]
        for extent in shape.split("x")[:-1]:
            size *= int(extent)
        total += size
    return total


def launches_of(schedule: str) -> list[dict]:
    """The launches of a step in their order, from what `--emit schedule` prints: kernel, kind, bytes that it must move."""
    functions: dict[str, list[dict]] = {}
    calls, function = [], ""
    for line in schedule.splitlines():
        if match := re.search(r"func\.func @(\w+)", line):
            function = match[1]
        elif match := re.search(r"exec\.call @(\w+)", line):
            calls.append(match[1])
        elif match := re.search(r"exec\.launch @(\w+)\(.*? : (\(.*)$", line):
            kind = "optimizer" if function == "update" else re.sub(r"_\d+$", "", match[1])
            functions.setdefault(function, []).append({"kernel": match[1], "kind": kind, "bytes": bytes_of(match[2])})
    return [launch for call in calls for launch in functions.get(call, [])]


def write_tokens(path: pathlib.Path, vocabulary: int, count: int) -> None:
    """Tokens that look random, of a fixed seed."""
    state, tokens = 1, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        tokens.append((state >> 33) % vocabulary)
    path.write_bytes(struct.pack(f"<{count}{'H' if vocabulary < 65536 else 'I'}", *tokens))


def run_compiler(build: pathlib.Path, *words: object, check: bool = False) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in (build / "bin" / "dtc", *words)], capture_output=True, text=True, check=check)


def predicted_seconds(build: pathlib.Path, asked: list) -> dict[str, float]:
    """Of a step, by GPU."""
    return {gpu: json.loads(run_compiler(build, "plan", *asked, "--cluster", cluster, "--json", check=True).stdout)["predicted"]["step_time_s"]
            for gpu, cluster in CLUSTERS.items()}


def pack_model(folder: pathlib.Path, build: pathlib.Path, graph: pathlib.Path, model: dict, flags: list) -> dict:
    """Artifacts of a model for each batch, and what is to be known of them."""
    name, sequence = model["name"], model["sequence"]
    write_tokens(folder / f"{name}.bin", model["vocabulary"], (max(model["batches"]) * 4 + 1) * sequence + 1)
    artifacts = []
    for batch in model["batches"]:
        asked = [graph, "--target", "cuda", "--devices", 1, "--precision", "bf16", "--loss", "cross_entropy", "--optimizer", "adamw",
                 "--lr", "1e-4", "--plan", "dp=1,recompute=none", "--global-batch", batch]
        path = folder / f"{name}-{batch}.dtc"
        command = ["compile", *asked, "--cluster", "dgx-h100", *flags]
        done = run_compiler(build, *command, "-o", path)
        if done.returncode:
            artifacts.append({"batch": batch, "refused": done.stderr.strip().splitlines()[-1]})
            continue
        schedule = run_compiler(build, *command, "--emit", "schedule", check=True)
        predicted = json.loads(zipfile.ZipFile(path).read("manifest.json")).get("predicted") or {}
        artifacts.append({"batch": batch, "file": path.name, "predicted_s": predicted_seconds(build, asked),
                          "predicted_bytes": predicted.get("peak_memory_bytes"),
                          "launches": launches_of(schedule.stdout)})
    return model | {"artifacts": artifacts}


# --- on the machine with GPUs


def copy_bandwidth(libraries: str, mebibytes: int) -> float:
    """Bytes that are read and written a second by a copy within the device."""
    driver = ctypes.CDLL(f"{libraries}/libcuda.so.1" if pathlib.Path(libraries, "libcuda.so.1").exists() else "libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        if code := getattr(driver, name)(*arguments):
            raise SystemExit(f"{name}: error {code}")

    device, context, size = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(mebibytes << 20)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    buffers = [ctypes.c_uint64(), ctypes.c_uint64()]
    for buffer in buffers:
        call("cuMemAlloc_v2", ctypes.byref(buffer), size)
        call("cuMemsetD8Async", buffer, ctypes.c_ubyte(0), size, stream)
    call("cuStreamSynchronize", stream)
    best = 0.0
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(10):
            call("cuMemcpyDtoDAsync_v2", buffers[0], buffers[1], size, stream)
        call("cuStreamSynchronize", stream)
        best = max(best, 10 * 2 * size.value / (time.perf_counter() - begin))
    return best


def torch_model(model: dict):
    import torch
    import transformers

    architecture, layers, width, heads, kv_heads, feed_forward, vocabulary, sequence = model["dimensions"]
    if architecture == "gpt":
        config = transformers.GPT2Config(vocab_size=vocabulary, n_positions=sequence, n_embd=width, n_layer=layers, n_head=heads,
                                         n_inner=feed_forward, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    else:
        config = transformers.LlamaConfig(vocab_size=vocabulary, hidden_size=width, intermediate_size=feed_forward,
                                          num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
                                          max_position_embeddings=sequence, use_cache=False, tie_word_embeddings=False)
    torch.manual_seed(0)
    with torch.device("cuda"):  # drawing a billion numbers takes the processor longer than all that is timed
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa"), vocabulary, sequence


def torch_step(torch, network, optimizer, tokens):
    """A step of PyTorch's. The loss is compiled with the network: apart from it, logits would be written, cast and read again."""

    @torch.compile
    def loss_of(inputs, targets):
        return torch.nn.functional.cross_entropy(network(inputs).logits.flatten(0, 1), targets.flatten())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()

    return step


def torch_tokens(model: dict):
    """Tokens/s by batch, each time one is known. The largest two batches and half as much again are tried, large ones first, as
    each takes a compilation and time may be over; what doesn't fit is left out."""
    import torch

    torch.set_float32_matmul_precision("high")
    found: dict[int, float] = {}
    for batch in [b for size in reversed(model["batches"][-2:]) for b in (size, size * 3 // 2)]:
        torch.cuda.empty_cache()
        try:
            network, vocabulary, sequence = torch_model(model)
            optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
            step = torch_step(torch, network, optimizer, torch.randint(0, vocabulary, (batch, sequence + 1), device="cuda"))
            for _ in range(WARMUP):
                step()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(STEPS - WARMUP):
                step()
            torch.cuda.synchronize()
            found[batch] = batch * sequence * (STEPS - WARMUP) / (time.perf_counter() - begin)
            yield found
        except torch.cuda.OutOfMemoryError:
            pass
        finally:
            network = optimizer = step = None


def median(values: list) -> float:
    values = sorted(values)
    return values[len(values) // 2]


def step_seconds(log: pathlib.Path) -> float:
    return median([json.loads(line)["step_time_s"] for line in log.read_text().splitlines()][WARMUP:])


def kernel_times(trace: dict, launches: list[dict]) -> list[tuple[dict, float]] | None:
    """Each launch with its median seconds over the steps but the first; None where the profile has other launches."""
    slices = sorted((event for event in trace["traceEvents"] if event.get("cat") == "kernel"), key=lambda event: event["ts"])
    if not launches or len(slices) % len(launches) or len(slices) // len(launches) < 2:
        return None
    steps = [slices[at:at + len(launches)] for at in range(len(launches), len(slices), len(launches))]
    return [(launch, median([step[i]["dur"] for step in steps]) / 1e6) for i, launch in enumerate(launches)]


def bandwidths(times: list[tuple[dict, float]], least: int, most: float) -> dict[str, tuple[int, float]]:
    """By kind, of launches that must move so much: how many there are, and bytes over seconds of all of them.

    A launch that looks up single elements, as the loss those of the targets, doesn't read all of an operand. No memory is
    as fast as it seems then, and those above `most` are left out.
    """
    found: dict[str, list] = {}
    for launch, seconds in times:
        if launch["bytes"] >= least and seconds > 0 and launch["bytes"] <= most * seconds:
            found.setdefault(launch["kind"], []).append((launch["bytes"], seconds))
    return {kind: (len(rows), sum(moved for moved, _ in rows) / sum(seconds for _, seconds in rows)) for kind, rows in found.items()}


def run_torch(machine, folder: pathlib.Path, model: dict) -> tuple[dict, str]:
    """Tokens/s by batch, and why there are none or no more."""
    import importlib.util

    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        return {}, "PyTorch or transformers isn't installed"
    request = folder / f"{model['name']}.json"
    request.write_text(json.dumps(model))
    code, said = machine.run(sys.executable, HERE / "gpu_speed.py", "torch", request)
    found = [json.loads(line) for line in said.splitlines() if line.startswith('{"')]
    if code and (why := machine.ended(code, said))[0] is None:
        return found[-1] if found else {}, why[1]
    if code or not found:
        return {}, f"PyTorch: {machine.ended(code, said)[1]}"
    return found[-1], ""


class MemoryWatch:
    """What a run takes of the first GPU's memory, its context included, as nvidia-smi sees it."""

    def __enter__(self):
        query = ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        self.most = None
        if shutil.which(query[0]):
            self.before = int(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
            self.watch = subprocess.Popen([*query, "-lms", "100"], stdout=subprocess.PIPE, text=True)
        else:
            self.watch = None
        return self

    def __exit__(self, *error: object) -> None:
        if self.watch:
            self.watch.terminate()
            seen = [int(line) for line in self.watch.communicate()[0].split() if line.isdigit()]
            self.most = (max(seen, default=self.before) - self.before) << 20


def run_dtc(machine, folder: pathlib.Path, model: dict, artifact: dict) -> tuple[float, tuple[bool | None, str] | None]:
    """Seconds of a step, or why there are none. The artifact gets the memory that it took, where that can be seen."""
    log = folder / "speed.jsonl"
    log.unlink(missing_ok=True)
    with MemoryWatch() as memory:
        code, said = machine.run(HERE / "bin" / "dtc-run", folder / artifact["file"], "--data", folder / f"{model['name']}.bin", "--steps",
                                 STEPS, "--log", log)
    artifact["bytes"] = memory.most
    return (0, machine.ended(code, said)) if code else (step_seconds(log), None)


def kind_of(machine) -> str | None:
    """The GPU, if it is one of those in CLUSTERS."""
    return next((kind for kind in CLUSTERS if kind in " ".join(machine.gpus)), None)


def judge(good: bool, machine) -> bool | None:
    """An emulated GPU's speed says nothing."""
    return None if machine.is_emulated() else good


def bandwidth_rows(machine, folder: pathlib.Path, model: dict, artifact: dict, least: int):
    trace = folder / f"{model['name']}.trace.json"
    code, said = machine.run(HERE / "bin" / "dtc-run", folder / artifact["file"], "--data", folder / f"{model['name']}.bin", "--steps", 4,
                             "--profile", trace)
    times = None if code else kernel_times(json.loads(trace.read_text()), artifact["launches"])
    if times is None:
        yield (f"{model['name']}: bandwidth", *(machine.ended(code, said) if code else (False, "the profile has other launches")))
        return
    code, said = machine.run(sys.executable, HERE / "gpu_speed.py", "copy", machine.libraries, 8 if machine.is_emulated() else 1024)
    if code:
        yield (f"{model['name']}: bandwidth", *machine.ended(code, said))
        return
    copy = float(said)
    for kind, (count, rate) in sorted(bandwidths(times, least, 2 * copy).items()):
        yield (f"{model['name']}: bandwidth of {kind}", judge(rate >= LEAST_BANDWIDTH * copy, machine),
               f"{rate / 1e9:.0f} GB/s, {100 * rate / copy:.0f} % of a copy's {copy / 1e9:.0f}, {count} launches of {least / 1e6:.0f} MB and more")


def torch_rows(machine, folder: pathlib.Path, model: dict, rate: float, artifact: dict):
    """Tokens/s against PyTorch's, which has all of the time that is left."""
    theirs, why = run_torch(machine, folder, model)
    if theirs:
        batch, most = max(theirs.items(), key=lambda row: row[1])
        yield (f"{model['name']}: tokens/s", judge(rate >= LEAST_RATIO * most, machine),
               f"{rate / most:.2f} of PyTorch's {most:.0f} (batch {batch}{'; ' + why if why else ''}); "
               f"dtc {rate:.0f} (batch {artifact['batch']})")
    else:
        yield f"{model['name']}: tokens/s", None, why


def model_rows(machine, folder: pathlib.Path, model: dict, least: int):
    name, best, kind = model["name"], (0.0, None, 0.0), kind_of(machine)
    for artifact in model["artifacts"]:
        label = f"{name}: batch {artifact['batch']}"
        seconds, why = (0, (None, artifact["refused"])) if "refused" in artifact else run_dtc(machine, folder, model, artifact)
        if why:
            yield (label, *why)
            continue
        rate = artifact["batch"] * model["sequence"] / seconds
        best = max(best, (rate, artifact, seconds), key=lambda row: row[0])
        predicted = artifact["predicted_s"].get(kind)
        yield (label, True, f"{rate:.0f} tokens/s, {1000 * seconds:.2f} ms a step"
               + (f", predicted {100 * (predicted / seconds - 1):+.1f} %" if predicted else ""))
    rate, artifact, seconds = best
    if artifact is None:
        yield f"{name}: tokens/s", None, "no batch ran"
        return
    if predicted := artifact["predicted_s"].get(kind):
        error = predicted / seconds - 1
        yield (f"{name}: predicted step", judge(abs(error) <= MOST_ERROR, machine),
               f"{1000 * predicted:.2f} ms for {CLUSTERS[kind]}, {100 * error:+.1f} % of the measured {1000 * seconds:.2f} ms")
    if artifact.get("predicted_bytes") and artifact.get("bytes"):
        wanted, taken = artifact["predicted_bytes"], artifact["bytes"]
        yield (f"{name}: predicted memory", judge(abs(wanted / taken - 1) <= MOST_MEMORY_ERROR, machine),
               f"{wanted / 2**20:.0f} MiB, {100 * (wanted / taken - 1):+.1f} % of the {taken / 2**20:.0f} MiB that the run took")
    yield from bandwidth_rows(machine, folder, model, artifact, least)
    yield from torch_rows(machine, folder, model, rate, artifact)


def main() -> None:
    if sys.argv[1] == "torch":
        for found in torch_tokens(json.loads(pathlib.Path(sys.argv[2]).read_text())):
            print(json.dumps(found), flush=True)
    elif sys.argv[1] == "copy":
        print(copy_bandwidth(sys.argv[2], int(sys.argv[3])))
    else:
        raise SystemExit(f"unknown command: {sys.argv[1]}")


if __name__ == "__main__":
    main()
