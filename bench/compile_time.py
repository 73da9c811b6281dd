"""Compile time of a GPT-2 against its number of layers.

    python3 bench/compile_time.py [--layers 2 12 48] [--plan dp=2,tp=2]

Prints, for each depth, the seconds of import alone (`--emit=import`), of the whole compilation, and
of what comes after import, with that one's ratio to the shallowest model; in brackets processor
seconds of all threads, which other work on the machine disturbs less. Width 128, 4 heads, sequence
64, vocabulary 1024, 4 devices, a free plan unless one is given; the best of five runs. Needs an
interpreter with torch, transformers, onnx and onnxscript; dtc from build/bin. No kernel that an
earlier compilation kept is taken.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench"
sys.path.insert(0, str(ROOT / "bench" / "published"))

import graphs  # noqa: E402


@dataclasses.dataclass
class Seconds:
    wall: float = float("inf")
    processor: float = float("inf")

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.processor - other.processor)

    def __truediv__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall / other.wall, self.processor / other.processor)

    def __str__(self) -> str:
        return f"{self.wall:5.2f} ({self.processor:5.2f})"


def export(layers: int) -> pathlib.Path:
    """A GPT-2 with that many layers, without weights, as ONNX; exported once."""
    return graphs.export(graphs.Dimensions("gpt", layers, hidden=128, heads=4, kv_heads=4,
                                           ffn=512, vocabulary=1024, sequence=64))


def processor_seconds() -> float:
    """Of all commands that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(model: pathlib.Path, *flags: str) -> Seconds:
    """Best of five runs of dtc compile."""
    best = Seconds()
    for _ in range(5):
        start, used = time.perf_counter(), processor_seconds()
        subprocess.run([ROOT / "build" / "bin" / "dtc", "compile", model, "--devices", "4",
                        "--loss", "cross_entropy", "--global-batch", "8", "--init", *flags],
                       check=True, stdout=subprocess.DEVNULL,
                       env=os.environ | {"DTC_KERNEL_CACHE": "off"})
        best.wall = min(best.wall, time.perf_counter() - start)
        best.processor = min(best.processor, processor_seconds() - used)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 12, 48])
    parser.add_argument("--plan", default="auto")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    first = None
    for layers in options.layers:
        model = export(layers)
        imported = measure(model, "--emit=import")
        whole = measure(model, "--plan", options.plan, "-o", str(WORK / "deep.dtc"))
        after = whole - imported
        first = first or after
        print(f"{layers:3} layers  import {imported}  compile {whole}  after import {after}  "
              f"ratio {after / first}", flush=True)


if __name__ == "__main__":
    main()
