"""Training on two processes: dtc against PyTorch's DDP and FSDP with Gloo, in one run.

    python3 bench/two_processes.py [--rounds 5] [--steps 5] [--output FILE.json]

The model of step_time.py (GPT-2 with 6 layers, width 384), global batch 8, fp32, AdamW, one thread a process. Competitors take
turns, round by round; a figure is the best round's median step after two of warm-up. DDP is compared with dp=2, FSDP (all
parameters sharded, each block gathered by itself) with dp=2,zero=3. Needs an interpreter with torch, transformers, onnx, onnxscript;
dtc from build/bin.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

from step_time import BATCH, ROOT, SEQUENCE, WARMUP, WORK, batches, export, gpt2

PLANS = {"dtc dp=2": "dp=2", "dtc zero=3": "dp=2,zero=3"}
PROCESSES = 2


def train_torch(kind: str, steps: int) -> list[float]:
    """In one of the processes."""
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, model = torch.distributed.get_rank(), gpt2()
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (PROCESSES,))
        for block in next(m for m in model.modules() if hasattr(m, "h")).h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    share = BATCH // PROCESSES
    inputs, targets = (torch.tensor(part)[:, rank * share:(rank + 1) * share] for part in batches(steps))
    times = []
    for step in range(steps):
        torch.distributed.barrier()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs[step]).flatten(0, 1), targets[step].flatten())
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - start)
    torch.distributed.destroy_process_group()
    return times


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def on_processes(command: list) -> str:
    """The output of rank 0."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(PROCESSES), "OMP_NUM_THREADS": "1",
             "HF_HUB_OFFLINE": "1"}
    started = [subprocess.Popen([str(part) for part in command], text=True, stdout=subprocess.PIPE,
                                env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), **where))
               for rank in range(PROCESSES)]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"{command} failed")
    return outputs[0]


@functools.cache
def compiled(plan: str) -> pathlib.Path:
    """Compiled anew in each run, as the format of artifacts may have changed since the last one."""
    artifact = WORK / f"two-{plan}.dtc"
    subprocess.run([ROOT / "build" / "bin" / "dtc", "compile", export(), "--devices", str(PROCESSES), "--loss", "cross_entropy",
                    "--lr", "3e-4", "--global-batch", str(BATCH), "--threads-per-rank", "1", "--allow-merged", "--plan", plan,
                    "-o", artifact], check=True, stdout=subprocess.DEVNULL)
    return artifact


def train_dtc(plan: str, steps: int) -> list[float]:
    log = WORK / "two.jsonl"
    on_processes([ROOT / "build" / "bin" / "dtc-run", compiled(plan), "--data", WORK / "two.safetensors", "--no-shuffle", "--steps", steps,
                  "--log", log])
    return [json.loads(line)["step_time_s"] for line in log.read_text().splitlines()]


def write_data(steps: int) -> None:
    import numpy
    from safetensors.numpy import save_file

    arrays = {name: numpy.ascontiguousarray(part.reshape(-1, SEQUENCE))
              for name, part in zip(("input_ids", "target"), batches(steps))}
    save_file(arrays, WORK / "two.safetensors")


def measure(name: str, steps: int) -> float:
    if name in PLANS:
        times = train_dtc(PLANS[name], steps)
    else:
        times = json.loads(on_processes([sys.executable, __file__, "--one", name, "--steps", steps]).splitlines()[-1])
    return statistics.median(times[WARMUP:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=WARMUP + 3)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--one", choices=["ddp", "fsdp"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(train_torch(options.one, options.steps)))
        return
    export()
    write_data(options.steps)
    rounds = [{name: measure(name, options.steps) for name in (*PLANS, "ddp", "fsdp")} for _ in range(options.rounds)]
    best = {name: min(one[name] for one in rounds) for name in rounds[0]}
    for name, seconds in best.items():
        print(f"{name:10}  {seconds:7.3f} s a step  {BATCH * SEQUENCE / seconds:8.0f} tokens/s")
    for theirs, ours in (("ddp", "dtc dp=2"), ("fsdp", "dtc zero=3")):
        ratios = [one[theirs] / one[ours] for one in rounds]
        print(f"{theirs} / {ours}: {best[theirs] / best[ours]:.2f} (rounds {min(ratios):.2f} to {max(ratios):.2f})")
    if options.output:
        options.output.write_text(json.dumps(rounds, indent=1) + "\n")


if __name__ == "__main__":
    main()
