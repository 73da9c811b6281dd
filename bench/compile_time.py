"""Compile time of a GPT-2 against its number of layers.

    python3 bench/compile_time.py [--layers 2 12 48]

Prints, for each depth, the seconds of import alone (`--emit=import`), of the whole compilation, and of
what comes after import, and the last one's ratio to the shallowest model. Width 128, 4 heads,
sequence 64, vocabulary 1024, 4 devices, a free plan; the best of three runs. Needs an interpreter
with torch, transformers, onnx and onnxscript; dtc from build/bin.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench"
sys.path.insert(0, str(ROOT / "bench" / "published"))

import graphs  # noqa: E402


def export(layers: int) -> pathlib.Path:
    """A GPT-2 with that many layers, without weights, as ONNX; exported once."""
    return graphs.export(graphs.Dimensions("gpt", layers, hidden=128, heads=4, kv_heads=4, ffn=512,
                                           vocabulary=1024, sequence=64))


def seconds(model: pathlib.Path, *flags: str) -> float:
    """Best of three runs of dtc compile."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([ROOT / "build" / "bin" / "dtc", "compile", model, "--devices", "4", "--loss",
                        "cross_entropy", "--global-batch", "8", "--init", *flags], check=True,
                       stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 12, 48])
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    first = None
    for layers in options.layers:
        model = export(layers)
        imported = seconds(model, "--emit=import")
        whole = seconds(model, "-o", str(WORK / "deep.dtc"))
        after = whole - imported
        first = first or after
        print(f"{layers:3} layers  import {imported:6.2f} s  compile {whole:6.2f} s  "
              f"after import {after:6.2f} s  ratio {after / first:5.2f}", flush=True)


if __name__ == "__main__":
    main()
