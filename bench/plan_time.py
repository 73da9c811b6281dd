"""Time and memory of `dtc plan` against the size of the model and of the cluster.

    python3 bench/plan_time.py [--search]

Plans real graphs (weightless exports, see bench/published/make_graphs.py, which needs torch and transformers the first
time): four models on their clusters, Llama-3 8B and a narrower Llama with 8 to 128 layers, and Llama-3.1 405B on 512 to
16,384 GPUs.
Without --search the plan is pinned to dp x tp=8 with ZeRO-3, so that import, training and the price of one plan are
timed; with it the plan is searched. Prints the seconds of the whole command, its processor seconds, the planner's share
(`planning_time_s`) and the peak memory; the best of three runs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "published"))

from graphs import Dimensions, export  # noqa: E402


def llama(layers: int, hidden: int, heads: int, ffn: int) -> Dimensions:
    return Dimensions("llama", layers, hidden, heads, 8, ffn, 128256, 8192)


def narrow(layers: int) -> Dimensions:
    """128 such layers fit 16 GPUs in all ways, so that time grows with layers alone, not with what memory lacks."""
    return Dimensions("llama", layers, 1024, 8, 8, 3584, 32000, 2048)


MODELS = {
    "Llama-3 8B": (llama(32, 4096, 32, 14336), 16, 128),
    "Llama-3 70B": (llama(80, 8192, 64, 28672), 256, 256),
    "GPT-3 175B": (Dimensions("gpt", 96, 12288, 96, 96, 49152, 51200, 2048), 1024, 1536),
    "Llama-3.1 405B": (llama(126, 16384, 128, 53248), 1024, 1024),
}

PINNED = "dp={},tp=8,pp=1,cp=1,ep=1,sp=on,zero=3,recompute=full,offload=none,micro_batch=1"


def cases() -> list[tuple[str, Dimensions, int, int]]:
    """Name, model, GPUs and global batch."""
    found = [(name, *case) for name, case in MODELS.items()]
    found += [(f"8B, {layers} layers", llama(layers, 4096, 32, 14336), 16, 128) for layers in (8, 16, 32, 64, 128)]
    found += [(f"width 1024, {layers} layers", narrow(layers), 16, 128) for layers in (8, 16, 32, 64, 128)]
    found += [(f"405B, {gpus} GPUs", MODELS["Llama-3.1 405B"][0], gpus, 2 * gpus)
              for gpus in (512, 2048, 8192, 16384)]
    return found


def exported(dims: Dimensions) -> pathlib.Path:
    """The graph, made by another process: a child's peak memory counts what its parent had when it was started."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(export, dims).result()


def measure(model: pathlib.Path, gpus: int, batch: int, plan: str) -> tuple[float, float, float, int, int]:
    """Seconds, processor seconds, planning seconds and bytes of one `dtc plan`, and the nodes of the graph."""
    start = time.perf_counter()
    process = subprocess.Popen([ROOT / "build" / "bin" / "dtc", "plan", model, "--gpus", str(gpus), "--loss",
                                "cross_entropy", "--precision", "bf16", "--global-batch", str(batch), "--plan",
                                plan, "--json"], stdout=subprocess.PIPE)
    answer = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"dtc plan failed: exit code {os.waitstatus_to_exitcode(status)}")
    result = json.loads(answer)
    return (seconds, usage.ru_utime + usage.ru_stime, result["planning_time_s"], usage.ru_maxrss * 1024,
            result["model"]["nodes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--search", action="store_true", help="search the plan instead of pinning it")
    options = parser.parse_args()
    print(f"{'':20} {'nodes':>6} {'GPUs':>6} {'seconds':>8} {'cpu':>6} {'planning':>8} {'MB':>6}")
    for name, dims, gpus, batch in cases():
        model = exported(dims)
        plan = "auto" if options.search else PINNED.format(gpus // 8)
        best = min(measure(model, gpus, batch, plan) for _ in range(3))
        print(f"{name:20} {best[4]:6} {gpus:6} {best[0]:8.2f} {best[1]:6.2f} {best[2]:8.2f} {best[3] / 1e6:6.0f}",
              flush=True)


if __name__ == "__main__":
    main()
