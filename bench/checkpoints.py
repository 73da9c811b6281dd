"""What saving a checkpoint costs a training run, by the clock.

    python3 bench/checkpoints.py [--ranks 1] [--every 14] [--saves 3] [--small]

The model of step_time.py, AdamW, one thread a rank, so that a machine of more cores than ranks has one to write with. A step ends
when its line is in the log, which is read as it grows: what dtc-run says of itself isn't used. `blocked` is by how much the step
during which a save begins is longer than the median step without a save; `after` is the mean of the ten steps from there on over
the mean of those without. Steps of one rank vary by more than a save costs. So the mean over all saves comes last, with its standard
error: each ten steps are compared with the quiet ones just before them, as a processor's speed drifts. `--small` trains a model
of 2 layers and width 96. Its states are smaller as its steps are shorter, so that many more saves fit into the same time.
Needs what step_time.py needs; dtc from build/bin.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import statistics
import subprocess
import time

from step_time import BATCH, ROOT, WARMUP, WORK, Size, export
from two_processes import write_data

BIN = ROOT / "build" / "bin"
AFTER = 10
SMALL = Size(layers=2, width=96, heads=3)


def compile_for(model: pathlib.Path, ranks: int) -> pathlib.Path:
    artifact = WORK / f"checkpoints-{ranks}.dtc"
    subprocess.run([BIN / "dtc", "compile", model, "--devices", str(ranks), "--loss", "cross_entropy", "--global-batch", str(BATCH),
                    "--threads-per-rank", "1", "--allow-merged", "--plan", f"dp={ranks}", "-o", artifact],
                   check=True, stdout=subprocess.DEVNULL)
    return artifact


def step_times(artifact: pathlib.Path, steps: int, every: int) -> list[float]:
    """Seconds from the end of each step to that of the next; the first is that of step 2."""
    log, folder = WORK / "checkpoints.jsonl", WORK / "checkpoints"
    log.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    run = subprocess.Popen([BIN / "dtc-run", artifact, "--data", WORK / "two.safetensors", "--steps", str(steps), "--log", log,
                            "--checkpoint-dir", folder, "--checkpoint-every", str(every), "--checkpoint-keep", "1"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ends: list[float] = []
    while run.poll() is None:
        lines = log.read_bytes().count(b"\n") if log.exists() else 0
        ends += [time.perf_counter()] * (lines - len(ends))
        time.sleep(0.0005)
    shutil.rmtree(folder, ignore_errors=True)
    if run.returncode:
        raise SystemExit(f"dtc-run ended with {run.returncode}")
    return [second - first for first, second in zip(ends, ends[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--every", type=int, default=14, help="steps between saves; more than ten")
    parser.add_argument("--saves", type=int, default=3, help="at least two")
    parser.add_argument("--small", action="store_true", help="a model of shorter steps")
    options = parser.parse_args()
    model = export(SMALL if options.small else Size())
    write_data(8)
    times = step_times(compile_for(model, options.ranks), options.every * (options.saves + 1) - 1, options.every)
    begins = [options.every * save - 1 for save in range(1, options.saves + 1)]  # of step every * save + 1, which the save delays
    quiet = [seconds for index, seconds in enumerate(times)
             if index >= WARMUP and not any(0 <= index - begin < AFTER for begin in begins)]
    usual = statistics.median(quiet)
    print(f"step without a save: median {usual:.4f} s, {min(quiet):.4f} to {max(quiet):.4f}")
    for begin in begins:
        after = statistics.mean(times[begin:begin + AFTER]) / statistics.mean(quiet)
        print(f"save after step {begin + 1}: blocked {times[begin] - usual:+.3f} s, the ten steps after {after:.4f}")
    local = [statistics.mean(times[begin:begin + AFTER]) / statistics.mean(times[max(begin - options.every + AFTER, WARMUP):begin])
             for begin in begins]
    print(f"the mean of all: {statistics.mean(local):.4f}, standard error {statistics.stdev(local) / len(local) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
