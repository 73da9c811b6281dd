"""What each dimension of the planner's search gains, and what it takes.

    python3 bench/plan_strategies.py [--published] [--only NAME] [--dimension NAME] [--jobs N] [--record FILE]

Searches plans freely and with each dimension left out (`dtc-plan-test search`): Llama-3 70B and Llama-3.1 405B on 64 to
16,384 GPUs, Mixtral 8x7B on 64, clusters of two types of GPUs, and a small cluster with slow links. With --published
also the 59 jobs of bench/published that were run under two plans or more. Some of their models, those other than GPT and
Llama, need a graph (bench/published/make_graphs.py). Prints how much longer each step is without a dimension, in percent, and at the end the
table of docs/SearchDimensions.md. Problems are kept in ~/.cache/dtc-strategies. With --record a run that was
stopped goes on where it was: what FILE has isn't searched again.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("DTC_BIN", ROOT / "build" / "bin"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "dtc-strategies"
MAKE = ROOT / "test" / "Unit" / "Plan" / "problems" / "make.py"


@dataclasses.dataclass(frozen=True)
class Dimension:
    name: str
    pin: str = ""  # a SPEC that leaves it out
    without: str = ""  # or what dtc-plan-test leaves out
    files: tuple[str, ...] = ()  # all that only it needs
    where: str = "one type"  # of searches: all, of one type of GPUs, of several, or of experts


DIMENSIONS = (
    Dimension("tp", "tp=1"),
    Dimension("pp", "pp=1", files=("include/dtc/Plan/Solve/StageCuts.h", "lib/Plan/Solve/StageCuts.cpp",
                                   "lib/Plan/Search/PipelineFloor.cpp", "lib/Plan/Search/CutPositions.cpp")),
    Dimension("cp", "cp=1", files=("lib/Plan/Plan/SplitSequence.cpp",)),
    Dimension("cp_by", "cp_by=keys", files=("lib/Plan/Search/SearchContextExchange.cpp",)),
    Dimension("regather", "regather=off", files=("lib/Plan/Search/SearchRegathered.cpp",)),
    Dimension("ep", "ep=1", files=("include/dtc/Plan/Shard/Experts.h", "lib/Plan/Shard/Experts.cpp"), where="experts"),
    Dimension("sp", "sp=off"),
    Dimension("micro_batch", "micro_batch=1"),
    Dimension("schedule=interleaved", without="interleaved",
              files=("lib/Schedule/Kinds/Interleaved.cpp", "lib/Plan/Search/ChunkRecomputation.cpp")),
    Dimension("schedule=zb", without="zb", files=("lib/Schedule/Kinds/ZeroBubble.cpp",)),
    Dimension("zero", "zero=0", files=("include/dtc/Plan/Plan/Storage.h", "lib/Plan/Plan/Storage.cpp",
                                       "lib/Plan/Plan/VerifyStorage.cpp")),
    Dimension("zero above 1", "zero=1"),
    Dimension("zero_group", without="zero-groups"),
    Dimension("recompute", "recompute=none",
              files=("include/dtc/Plan/Predict/Recomputation.h", "lib/Plan/Predict/Recomputation.cpp")),
    Dimension("recompute_blocks", without="some-blocks", files=("lib/Plan/Search/ChunkRecomputation.cpp",)),
    Dimension("smaller shardings", without="smaller-shardings", files=("lib/Plan/Search/SearchSmallerShardings.cpp",)),
    Dimension("offload", without="offloaded",
              files=("lib/Plan/Search/SearchOffloaded.cpp", "lib/Plan/Predict/HostMemory.cpp")),
    Dimension("stage_groups", without="unequal-meshes",
              files=("lib/Plan/Search/GroupedCandidates.cpp", "lib/Plan/Search/DeviceGroups.cpp"), where="several"),
)

MODELS = {
    "8B": "llama --layers 32 --width 4096 --heads 32 --kv-heads 8 --hidden 14336 --sequence 8192 --vocabulary 128256",
    "70B": "llama --layers 80 --width 8192 --heads 64 --kv-heads 8 --hidden 28672 --sequence 8192 --vocabulary 128256",
    "405B": "llama --layers 126 --width 16384 --heads 128 --kv-heads 8 --hidden 53248 --sequence 8192 "
            "--vocabulary 128256",
    "Mixtral 8x7B": "mixtral --layers 32 --width 4096 --heads 32 --hidden 14336 --experts 8 --sequence 4096 "
                    "--vocabulary 32000",
    "175B": "gpt --layers 96 --width 12288 --heads 96 --sequence 2048 --vocabulary 51200",
}
#: Of the graphs, where it divides a search's batch, which problems are then given.
GRAPH_BATCH = 4
INTER_NODE = {"bandwidth_gbs": 25, "latency_us": 10}


def two_types(first: str, second: str, nodes: int) -> dict:
    return {"groups": [{"node": f"dgx-{first}", "nodes": nodes},
                       {"node": second, "devices_per_node": 8, "nodes": nodes}], "inter_node": INTER_NODE}


SLOW = {"device": "a100-40", "devices_per_node": 2, "intra_node": {"bandwidth_gbs": 25, "latency_us": 5},
        "inter_node": {"bandwidth_gbs": 3, "latency_us": 20}}


@dataclasses.dataclass(frozen=True)
class Search:
    name: str
    problem: pathlib.Path
    cluster: str  # its name or file
    devices: int
    batch: int
    kind: str = "one type"  # or experts, or several

    def has(self, dimension: Dimension) -> bool:
        """Whether leaving it out can change anything here."""
        return dimension.where == self.kind or (dimension.where == "one type" and self.kind == "experts")


def problem_of(model: str) -> pathlib.Path:
    return made_problem(model, MODELS[model], GRAPH_BATCH)


def made_problem(name: str, arguments: str, batch: int) -> pathlib.Path:
    """What make.py writes with these arguments, kept under that name."""
    path = CACHE / f"{name}.json"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        forward = subprocess.run([sys.executable, MAKE, *arguments.split(), "--batch", str(batch)], check=True,
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
    found += [Search(f"405B on {gpus}, batch {batch}", problem_of("405B"), "dgx-h100", gpus, batch)
              for gpus, batch in ((1024, 128), (16384, 2048))]
    found.append(Search("70B on 16", problem_of("70B"), "dgx-h100", 16, 256))
    found.append(Search("405B on 64", problem_of("405B"), "dgx-h100", 64, 256))
    found.append(Search("Mixtral 8x7B on 64", problem_of("Mixtral 8x7B"), "dgx-h100", 64, 512, "experts"))
    for model, second, nodes in (("8B", "a10g", 1), ("70B", "l40s", 8)):
        found.append(Search(f"{model} on {8 * nodes} H100, {8 * nodes} {second.upper()}", problem_of(model),
                            cluster_file(two_types("h100", second, nodes)), 16 * nodes, 64 * nodes, "several"))
    found.append(Search("8B on 16 slow A100", problem_of("8B"), cluster_file(SLOW), 16, 128))
    return found


def problem_of_graph(graph, precision: str, global_batch: int) -> pathlib.Path | None:
    """The problem of a published model: made without an export where the export gives the same one; None where
    bench/published/make_graphs.py hasn't made its graph yet."""
    batch = math.gcd(GRAPH_BATCH, global_batch)
    path = CACHE / f"{graph.name}-{precision}-batch{batch}.json"
    if path.exists():
        return path
    if graph.architecture in ("gpt", "llama") and precision == "bf16":
        norm = " --embedding-norm" if graph.embedding_norm else ""
        return made_problem(path.stem, f"{graph.architecture} --layers {graph.layers} --width {graph.hidden} "
                            f"--heads {graph.heads} --kv-heads {graph.kv_heads} --hidden {graph.ffn} "
                            f"--sequence {graph.sequence} --vocabulary {graph.vocabulary}{norm}", batch)
    if not graph.path.exists():
        return None
    write_problem(subprocess.run(
        [BIN / "dtc", "compile", graph.path, "--devices", "1", "--loss", "cross_entropy", "--optimizer", "adamw",
         "--precision", precision, "--global-batch", str(batch), "--emit", "train"], check=True,
        capture_output=True).stdout, path)
    return path


def published() -> list[Search]:
    """Jobs that were run under two plans or more, as validate.py --free counts them."""
    sys.path.insert(0, str(ROOT / "bench" / "published"))
    import runs
    import validate

    jobs = collections.defaultdict(dict)
    for case in runs.all_cases()[0]:
        if runs.measured_seconds(case.run):
            jobs[validate.Outcome(case, None).job][case.spec] = case
    found = []
    for case in (next(iter(plans.values())) for plans in jobs.values() if len(plans) > 1):
        batch, gpus = case.run["plan"]["global_batch"], case.run["gpus"]
        problem = problem_of_graph(case.graph, case.precision, batch)
        name = f"{case.graph.name} on {gpus} of {case.run['cluster']}, batch {batch}"
        if problem is None:
            print(f"{name}: no graph, run bench/published/make_graphs.py", file=sys.stderr)
            continue
        kind = "experts" if case.graph.experts else "one type"
        found.append(Search(name, problem, cluster_file(case.cluster), gpus, batch, kind))
    return found


class Record:
    """What was searched before, in a file of one JSON object a line; None: nothing is kept."""

    def __init__(self, path: pathlib.Path | None):
        self.path, self.known, self.lock = path, {}, threading.Lock()
        if path and path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.known[entry["search"], entry["without"]] = entry["answer"]

    def searched(self, search: Search, left_out: Dimension | None = None) -> dict:
        key = (search.name, left_out.name if left_out else "")
        if key not in self.known:
            answer = self.known[key] = searched(search, left_out)
            if self.path:
                with self.lock, self.path.open("a") as file:
                    print(json.dumps({"search": key[0], "without": key[1], "answer": answer}), file=file)
        return self.known[key]


def searched(search: Search, left_out: Dimension | None = None) -> dict:
    spec = left_out.pin if left_out and left_out.pin else "auto"
    without = [left_out.without] if left_out and left_out.without else []
    command = [BIN / "dtc-plan-test", "search", search.problem, spec, search.cluster, str(search.devices),
               str(search.batch), *without]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        line = running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    return {**json.loads(line), "planning_s": used.ru_utime + used.ru_stime}


@dataclasses.dataclass
class Loss:
    """What a search loses without a dimension."""

    search: str
    percent: float  # infinite: nothing fits
    planning: float  # processor seconds with it, and
    without: float


def compared(search: Search, dimensions: list[Dimension], record: Record) -> dict[str, Loss]:
    full = record.searched(search)
    lines = [f"{search.name}: {full.get('step_s', 0):.4f} s, planned in {full['planning_s']:.2f} s: "
             f"{full.get('plan', full.get('error'))}"]
    losses = {}
    for dimension in dimensions:
        if "step_s" not in full or not search.has(dimension):
            continue
        other = record.searched(search, dimension)
        percent = 100 * (other["step_s"] / full["step_s"] - 1) if "step_s" in other else float("inf")
        losses[dimension.name] = Loss(search.name, percent, full["planning_s"], other["planning_s"])
        lines.append(f"  without {dimension.name:20} {percent:8.2f} %  {other['planning_s']:7.2f} s")
    print("\n".join(lines), flush=True)
    return losses


def lines_of(dimension: Dimension) -> int:
    return sum(len((ROOT / file).read_text().splitlines()) for file in dimension.files)


def percent_text(percent: float) -> str:
    return "nothing fits" if percent == float("inf") else f"{percent:.1f} %"


def table(dimensions: list[Dimension], found: list[dict[str, Loss]]) -> None:
    print("\n| dimension | lines of its own | gains at most | where | gains 1 % in | planning with it | planning without |")
    print("|---|---|---|---|---|---|---|")
    for dimension in dimensions:
        losses = [each[dimension.name] for each in found if dimension.name in each]
        if not losses:
            continue
        best = max(losses, key=lambda loss: loss.percent)
        paying = sum(loss.percent >= 1 for loss in losses)
        where = best.search if best.percent > 0 else "-"
        print(f"| {dimension.name} | {lines_of(dimension) or '-'} | {percent_text(best.percent)} | {where} | {paying} of "
              f"{len(losses)} | {sum(loss.planning for loss in losses):.0f} s | "
              f"{sum(loss.without for loss in losses):.0f} s |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--published", action="store_true", help="also the jobs of bench/published")
    parser.add_argument("--only", default="", help="a regular expression for the name of a search")
    parser.add_argument("--dimension", default="", help="part of a dimension's name")
    parser.add_argument("--jobs", type=int, default=1, help="searches at a time")
    parser.add_argument("--record", type=pathlib.Path, metavar="FILE", help="where answers are kept, and read again")
    options = parser.parse_args()
    record = Record(options.record)
    searches = [s for s in large_models() + (published() if options.published else []) if re.search(options.only, s.name)]
    dimensions = [d for d in DIMENSIONS if options.dimension in d.name]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        table(dimensions, list(pool.map(lambda search: compared(search, dimensions, record), searches)))


if __name__ == "__main__":
    main()
