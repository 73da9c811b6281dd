"""Makes the graphs of the models that published runs trained (graphs.py).

    python3 bench/published/make_graphs.py                     # every model of runs.json
    python3 bench/published/make_graphs.py --only llama-l80    # those whose name contains this

Needs torch, transformers and onnx.
"""

from __future__ import annotations

import argparse
import time

import graphs
import runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the graph's name")
    options = parser.parse_args()
    for dims in runs.graphs_needed(runs.all_cases()[0]):
        if options.only not in dims.name or dims.path.exists():
            continue
        start = time.perf_counter()
        path = graphs.export(dims)
        print(f"{dims.name}  {path.stat().st_size / 1e6:.1f} MB  {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
