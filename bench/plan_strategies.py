"""What each strategy of the planner's search gains, and what it takes.

    python3 bench/plan_strategies.py [--published] [--only NAME] [--jobs N]

Searches plans with all strategies and with each one left out (`dtc-plan-test search`): Llama-3 70B and Llama-3.1 405B on
64 to 16,384 GPUs, two clusters of two types of GPUs, and a small cluster with slow links. With --published also the
jobs of bench/published that were run under two plans or more, of those whose graphs are there
(bench/published/graphs.py). Prints for each strategy how much longer a step is without it, in percent, and the seconds
of planning with and without it. Problems are kept in ~/.cache/dtc-strategies.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("DTC_BIN", ROOT / "build" / "bin"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "dtc-strategies"
MAKE = ROOT / "test" / "Unit" / "Plan" / "problems" / "make.py"
STRATEGIES = ("offloaded", "smaller-shardings", "between-zero-levels", "orders", "unequal-meshes")
OF_ONE_TYPE = ("smaller-shardings", "orders")  # searched on one type of devices alone
OF_SEVERAL = ("unequal-meshes",)

MODELS = {
    "8B": "llama --layers 32 --width 4096 --heads 32 --kv-heads 8 --hidden 14336 --sequence 8192 --vocabulary 128256",
    "70B": "llama --layers 80 --width 8192 --heads 64 --kv-heads 8 --hidden 28672 --sequence 8192 --vocabulary 128256",
    "405B": "llama --layers 126 --width 16384 --heads 128 --kv-heads 8 --hidden 53248 --sequence 8192 "
            "--vocabulary 128256",
    "175B": "gpt --layers 96 --width 12288 --heads 96 --sequence 2048 --vocabulary 51200",
}
H100_A100 = {"groups": [{"node": "dgx-h100", "nodes": 16}, {"node": "dgx-a100", "nodes": 16}],
             "inter_node": {"bandwidth_gbs": 25, "latency_us": 10}}
H100_L40S = {"groups": [{"node": "dgx-h100", "nodes": 2}, {"node": "l40s", "devices_per_node": 8, "nodes": 2}],
             "inter_node": {"bandwidth_gbs": 25, "latency_us": 10}}
SLOW = {"device": "a100-40", "devices_per_node": 2, "intra_node": {"bandwidth_gbs": 25, "latency_us": 5},
        "inter_node": {"bandwidth_gbs": 3, "latency_us": 20}}


@dataclasses.dataclass(frozen=True)
class Search:
    name: str
    problem: pathlib.Path
    cluster: str  # its name or file
    devices: int
    batch: int
    mixed: bool = False  # GPUs of several types

    def strategies(self) -> list[str]:
        """Those that can find anything here."""
        return [name for name in STRATEGIES if name not in (OF_ONE_TYPE if self.mixed else OF_SEVERAL)]


def problem_of(model: str) -> pathlib.Path:
    path = CACHE / f"{model}.json"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        forward = subprocess.run([sys.executable, MAKE, *MODELS[model].split(), "--batch", "8"], check=True,
                                 capture_output=True).stdout
        write_problem(subprocess.run([BIN / "dtc-opt", "--dtc-train=precision=bf16 optimizer=adamw"], input=forward,
                                     check=True, capture_output=True).stdout, path)
    return path


def write_problem(training: bytes, path: pathlib.Path) -> None:
    found = subprocess.run([BIN / "dtc-opt", "--dtc-print-problem", "-o", os.devnull], input=training, check=True,
                           capture_output=True).stdout
    part = path.with_suffix(".part")
    part.write_bytes(found)
    part.rename(path)


def cluster_file(content: dict) -> str:
    text = json.dumps(content, sort_keys=True)  # JSON is YAML
    path = CACHE / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def large_models() -> list[Search]:
    found = [Search(f"{model} on {gpus}", problem_of(model), "dgx-h100", gpus, batch)
             for model, sizes in (("70B", (64, 256, 1024, 4096, 16384)), ("405B", (512, 1024, 4096, 16384)))
             for gpus, batch in ((gpus, max(256, 2 * gpus)) for gpus in sizes)]
    found.append(Search("70B on 16", problem_of("70B"), "dgx-h100", 16, 256))
    found.append(Search("405B on 64", problem_of("405B"), "dgx-h100", 64, 256))
    found.append(Search("175B on 128 H100, 128 A100", problem_of("175B"), cluster_file(H100_A100), 256, 512, True))
    found.append(Search("8B on 16 H100, 16 L40S", problem_of("8B"), cluster_file(H100_L40S), 32, 128, True))
    found.append(Search("8B on 16 slow A100", problem_of("8B"), cluster_file(SLOW), 16, 128))
    return found


def published() -> list[Search]:
    """Jobs that were run under two plans or more."""
    sys.path.insert(0, str(ROOT / "bench" / "published"))
    import runs

    jobs = collections.defaultdict(dict)
    for case in runs.all_cases()[0]:
        batch, gpus = case.run["plan"]["global_batch"], case.run["gpus"]
        key = (case.graph, json.dumps(case.cluster, sort_keys=True), gpus, batch, case.precision)
        jobs[key][case.spec] = case
    found = []
    for (graph, cluster, gpus, batch, precision), plans in jobs.items():
        if len(plans) < 2 or not graph.path.exists():
            continue
        path = CACHE / f"{graph.name}-{precision}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_problem(subprocess.run(
                [BIN / "dtc", "compile", graph.path, "--devices", "1", "--loss", "cross_entropy", "--optimizer", "adamw",
                 "--precision", precision, "--global-batch", "1", "--emit", "train"], check=True,
                capture_output=True).stdout, path)
        found.append(Search(f"{graph.name} on {gpus}, {batch}", path, cluster_file(json.loads(cluster)), gpus, batch))
    return found


def searched(search: Search, without: tuple[str, ...]) -> dict:
    done = subprocess.run([BIN / "dtc-plan-test", "search", search.problem, "auto", search.cluster, str(search.devices),
                           str(search.batch), *without], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def compared(search: Search) -> tuple[str, dict[str, float]]:
    """A line of the table, and what a step loses in percent without each strategy."""
    full, losses, cells = searched(search, ()), {}, ""
    if "error" in full:
        return f"{search.name:40} {full['error'][:80]}  {full['planning_s']:.1f} s", {}
    for name in STRATEGIES:
        if name not in search.strategies():
            cells += f" {'-':>21}"
            continue
        other = searched(search, (name,))
        losses[name] = 100 * (other["step_s"] / full["step_s"] - 1) if "step_s" in other else float("inf")
        cells += f" {losses[name]:9.2f} % {other['planning_s']:7.2f} s"
    return f"{search.name:40} {full['step_s']:8.3f} {full['planning_s']:8.2f}{cells}   {full['plan']}", losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--published", action="store_true", help="also the jobs of bench/published")
    parser.add_argument("--only", default="", help="part of a search's name")
    parser.add_argument("--jobs", type=int, default=1, help="searches at a time")
    options = parser.parse_args()
    searches = [s for s in large_models() + (published() if options.published else []) if options.only in s.name]
    worst = dict.fromkeys(STRATEGIES, 0.0)
    print(f"{'':40} {'step':>8} {'planning':>8}" + "".join(f" {name:>21}" for name in STRATEGIES), flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for line, losses in pool.map(compared, searches):
            print(line, flush=True)
            for name, loss in losses.items():
                worst[name] = max(worst[name], loss)
    print("at most: " + ", ".join(f"{name} {loss:.2f} %" for name, loss in worst.items()))


if __name__ == "__main__":
    main()
