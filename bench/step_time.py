"""Step time of a GPT-2 trained by dtc, PyTorch (eager, compiled) and JAX, side by side in one run.

    python3 bench/step_time.py [--threads 1 2] [--steps 7] [--only dtc eager ...] [--output FILE.json]

The model: 6 layers, width 384, 6 heads, sequence 256, vocabulary 8192, batch 8, fp32, AdamW. Each
competitor runs in its own process, one after the other, for each thread count; the figure is the
median of the steps after two of warm-up. dtc runs as one rank with that many threads. Needs an
interpreter with torch, transformers, onnx, onnxscript, jax and optax; dtc from build/bin.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "published"))

from graphs import logits  # noqa: E402

WORK = ROOT / "build" / "bench"
LAYERS, WIDTH, HEADS, SEQUENCE, VOCABULARY, BATCH = 6, 384, 6, 256, 8192, 8
WARMUP = 2


class Size(NamedTuple):
    """Of a GPT-2 with VOCABULARY tokens and parts of SEQUENCE of them."""

    layers: int = LAYERS
    width: int = WIDTH
    heads: int = HEADS


def gpt2(size: Size = Size()):
    """Hugging Face's GPT-2, seeded."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=SEQUENCE, n_embd=size.width, n_layer=size.layers, n_head=size.heads,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )
    return logits(transformers.GPT2LMHeadModel(config))


def export(size: Size = Size()) -> pathlib.Path:
    """The model as ONNX, with weights; exported once."""
    import torch

    path = WORK / f"gpt2-{size.layers}-{size.width}.onnx"
    if not path.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        ids = torch.zeros(BATCH, SEQUENCE, dtype=torch.int64)
        module = gpt2(size)
        # Fresh norms and biases are all equal, which the exporter would merge.
        torch.onnx.export(module, (ids,), path, input_names=["input_ids"], output_names=["logits"],
                          dynamo=True, optimize=False, external_data=False, verbose=False)
    return path


def batches(steps: int):
    """Tokens and shifted targets, the same for everybody."""
    import numpy

    tokens = numpy.random.default_rng(0).integers(0, VOCABULARY, (steps, BATCH, SEQUENCE + 1))
    return tokens[:, :, :-1], tokens[:, :, 1:]


def torch_libraries() -> list[str]:
    """What computes PyTorch's matrix products: its BLAS, oneDNN, and the instructions it chose for this processor."""
    import torch

    lines = (line.strip(" -") for line in torch.__config__.show().splitlines())
    return [line for line in lines if re.search("Kernel Library|MKL-DNN v|OpenBLAS|CPU capability", line)] + [
        setting for setting in re.findall(r"BLAS_INFO=\w+", torch.__config__.show())]


def run_torch(threads: int, steps: int, compiled: bool) -> list[float]:
    import torch

    torch.set_num_threads(threads)
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
    inputs, targets = (torch.tensor(part) for part in batches(steps))

    def loss_of(ids, target):
        return torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), target.flatten())

    loss_function = torch.compile(loss_of) if compiled else loss_of
    times = []
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(inputs[step], targets[step])
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - start)
    return times


def jax_model(jax, jnp):
    """The same network in JAX: initial parameters and the loss."""
    import numpy

    generator = numpy.random.default_rng(0)

    def draw(*shape):
        return jnp.asarray(generator.normal(0, 0.02, shape), jnp.float32)

    def layer():
        return {"n1": jnp.ones(WIDTH), "b1": jnp.zeros(WIDTH), "n2": jnp.ones(WIDTH),
                "b2": jnp.zeros(WIDTH), "qkv": draw(WIDTH, 3 * WIDTH), "qkvb": jnp.zeros(3 * WIDTH),
                "o": draw(WIDTH, WIDTH), "ob": jnp.zeros(WIDTH), "fc": draw(WIDTH, 4 * WIDTH),
                "fcb": jnp.zeros(4 * WIDTH), "pr": draw(4 * WIDTH, WIDTH), "prb": jnp.zeros(WIDTH)}

    parameters = {"wte": draw(VOCABULARY, WIDTH), "wpe": draw(SEQUENCE, WIDTH),
                  "layers": [layer() for _ in range(LAYERS)],
                  "nf": jnp.ones(WIDTH), "bf": jnp.zeros(WIDTH)}

    def norm(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias

    def block(x, p):
        qkv = (norm(x, p["n1"], p["b1"]) @ p["qkv"] + p["qkvb"])
        q, k, v = jnp.split(qkv.reshape(BATCH, SEQUENCE, 3 * HEADS, WIDTH // HEADS), 3, axis=2)
        scores = jnp.einsum("bshe,bthe->bhst", q, k) / (WIDTH // HEADS) ** 0.5
        mask = jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
        mixed = jnp.einsum("bhst,bthe->bshe", weights, v).reshape(x.shape)
        x = x + mixed @ p["o"] + p["ob"]
        hidden = jax.nn.gelu(norm(x, p["n2"], p["b2"]) @ p["fc"] + p["fcb"], approximate=True)
        return x + hidden @ p["pr"] + p["prb"]

    def loss(p, ids, target):
        x = p["wte"][ids] + p["wpe"]
        for q in p["layers"]:
            x = block(x, q)
        logits = norm(x, p["nf"], p["bf"]) @ p["wte"].T
        picked = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - picked).mean()

    return parameters, loss


def run_jax(threads: int, steps: int) -> list[float]:
    import jax
    import jax.numpy as jnp
    import optax

    parameters, loss = jax_model(jax, jnp)
    optimizer = optax.adamw(3e-4, weight_decay=0.01)
    state = optimizer.init(parameters)

    def step(p, s, ids, target):
        value, gradient = jax.value_and_grad(loss)(p, ids, target)
        updates, s = optimizer.update(gradient, s, p)
        return optax.apply_updates(p, updates), s, value

    step = jax.jit(step, donate_argnums=(0, 1))
    inputs, targets = batches(steps)
    times = []
    for i in range(steps):
        start = time.perf_counter()
        parameters, state, value = step(parameters, state, inputs[i], targets[i])
        value.block_until_ready()
        times.append(time.perf_counter() - start)
    return times


def run_dtc(threads: int, steps: int) -> list[float]:
    import numpy
    from safetensors.numpy import save_file

    model, artifact = export(), WORK / f"gpt2-t{threads}.dtc"
    inputs, targets = batches(steps)
    data, log = WORK / "data.safetensors", WORK / "log.jsonl"
    save_file({"input_ids": numpy.ascontiguousarray(inputs.reshape(-1, SEQUENCE)),
               "target": numpy.ascontiguousarray(targets.reshape(-1, SEQUENCE))}, data)
    binaries = ROOT / "build" / "bin"
    subprocess.run(
        [binaries / "dtc", "compile", model, "--devices", "1", "--loss", "cross_entropy", "--lr", "3e-4",
         "--global-batch", str(BATCH), "--threads-per-rank", str(threads), "--allow-merged",
         "-o", artifact], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([binaries / "dtc-run", artifact, "--data", data, "--no-shuffle", "--steps",
                    str(steps), "--log", log], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line)["step_time_s"] for line in log.read_text().splitlines()]


COMPETITORS = {
    "dtc": run_dtc,
    "eager": lambda threads, steps: run_torch(threads, steps, compiled=False),
    "compiled": lambda threads, steps: run_torch(threads, steps, compiled=True),
    "jax": run_jax,
}


def measure(name: str, threads: int, steps: int) -> dict:
    """One competitor in this process: median step time and peak memory."""
    times = COMPETITORS[name](threads, steps)[WARMUP:]
    who = resource.RUSAGE_CHILDREN if name == "dtc" else resource.RUSAGE_SELF
    result = {"name": name, "threads": threads, "median_s": statistics.median(times),
              "min_s": min(times), "max_s": max(times),
              "peak_mib": resource.getrusage(who).ru_maxrss / 1024}
    if name in ("eager", "compiled"):
        result["libraries"] = torch_libraries()
    return result


def in_process(name: str, threads: int, steps: int) -> dict:
    """`measure` in a fresh process pinned to `threads` cores."""
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:threads])
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), JAX_PLATFORMS="cpu",
                       HF_HUB_OFFLINE="1")
    command = ["taskset", "-c", cores, sys.executable, __file__, "--one", name, "--threads",
               str(threads), "--steps", str(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} with {threads} threads failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count()])
    parser.add_argument("--steps", type=int, default=WARMUP + 5)
    parser.add_argument("--only", nargs="+", choices=COMPETITORS, default=list(COMPETITORS))
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--one", choices=COMPETITORS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.threads[0], options.steps)))
        return
    export()
    results = []
    for threads in options.threads:
        for name in options.only:
            results.append(in_process(name, threads, options.steps))
            row = results[-1]
            print(f"{threads} threads  {name:9} {row['median_s']:7.3f} s "
                  f"({row['min_s']:.3f} to {row['max_s']:.3f})  {row['peak_mib']:6.0f} MiB", flush=True)
            for library in row.get("libraries", []):
                print(f"             {library}")
        ours = next((r for r in results if r["threads"] == threads and r["name"] == "dtc"), None)
        for row in results:
            if ours and row["threads"] == threads and row is not ours:
                print(f"{threads} threads  {row['name']} / dtc = {row['median_s'] / ours['median_s']:.2f}")
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
