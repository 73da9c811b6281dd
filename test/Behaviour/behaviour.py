"""Proves that a change leaves the behaviour of dtc and dtc-run as it was.

    build/venv/bin/python test/Behaviour/behaviour.py record [--quick] [--bin FOLDER] [--pieces FOLDER]
                                                    [--against BEFORE] -o RECORD
    build/venv/bin/python test/Behaviour/behaviour.py compare [--by-place] BEFORE AFTER
    build/venv/bin/python test/Behaviour/behaviour.py times BEFORE_BIN AFTER_BIN

`record` writes down what the binaries of a folder compute: the answers of `dtc plan --json` for the published runs
(bench/published), each under its own plan and each job planned freely, and what the integration tests compile and run:
`dtc inspect --json` of every artifact, every step's loss and gradient norm, and hashes of outputs and weights.
`compare`, or `--against`, prints every difference between two records by its name and ends with exit code 1 if there is
one. With `--by-place` it prints a line for each member of answers that differs, over all entries. Losses must be bitwise
equal. `times` compares the processor seconds that two sets of binaries take to compile and to plan.

Both records must be made on the same machine, because plans and kernels depend on its processor and memory. A quick
record has a part of the published runs; a full one takes hours. Graphs of published runs come from
bench/published/make_graphs.py; what is missing there is told and left out. The answers of a binary are kept beside the
graphs, so that a second record of the same binary plans nothing again. With `--pieces` a folder keeps what each file of
tests computed. A record that was interrupted, given again, runs what is missing or failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import differences
import places
import published_plans
import times

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "test" / "Integration"
BIN = ROOT / "build" / "bin"

#: The tests that compile and run, the slow ones first.
RUNS = ["test_training", "test_memory", "test_families", "test_main_job", "test_weights", "test_own_loss", "test_indices",
        "test_selection", "test_resize", "test_precision", "test_pipelines", "test_cuda", "test_cuda_models", "test_autotune", "test_zero", "test_recomputation", "test_orders",
        "test_pytorch", "test_context_parallel", "test_dropout", "test_grid", "test_overlap", "test_torchscript",
        "test_adapters", "test_losses", "test_step_vector", "test_loss_scaling", "test_bf16_true", "test_tf32", "test_offload", "test_free_choice",
        "test_batch_norm", "test_forward_pipelines", "test_capacity",
        "test_stage_groups", "test_buckets", "test_eval_mode", "test_looked_up_experts", "test_padding", "test_padded_batch",
        "test_padded_tokens"]
#: The tests that plan. A full record has their answers, too.
PLANS = ["test_saved_plans", "test_compare", "test_estimate", "test_explain", "test_device_types", "test_host_memory",
         "test_megatron"]


def run_tests(name: str, binaries: pathlib.Path, folder: pathlib.Path) -> tuple[pathlib.Path, list[str]]:
    """Runs a file of integration tests. Returns what they have recorded, and the tests that failed. A file that has
    passed before isn't run again."""
    passed, part = folder / f"{name}.jsonl", folder / f"{name}.part"
    if passed.exists():
        return passed, []
    part.write_text("")
    environment = os.environ | {"DTC_BIN": str(binaries), "DTC_RECORD": str(part)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", str(TESTS / f"{name}.py")],
        cwd=ROOT, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode > 1 or (done.returncode == 1 and not failed):
        print(f"behaviour: {name} could not be run\n{done.stdout}{done.stderr}", flush=True)
        return part, [f"{name}.py (could not be run)"]
    print(f"  {name}: {done.stdout.splitlines()[-1]}", flush=True)
    return (part, failed) if failed else (part.rename(passed), [])


def merged(parts: list[pathlib.Path]) -> tuple[dict[str, dict], list[str]]:
    """The entries of all parts, and the names of commands that computed two things when they were given twice."""
    entries: dict[str, dict] = {}
    unsteady = set()
    for part in parts:
        for line in part.read_text().splitlines() if part.exists() else []:
            name, test, value = json.loads(line)
            if entries.setdefault(name, {"test": test, "value": value})["value"] != value:
                unsteady.add(name)
    return {name: entry for name, entry in entries.items() if name not in unsteady}, sorted(unsteady)


@contextlib.contextmanager
def pieces_of(binaries: pathlib.Path, pieces: pathlib.Path | None) -> Iterator[pathlib.Path]:
    """Where what each file of tests computes is written: a folder that goes, or one that stays for these programs and
    tests."""
    if not pieces:
        with tempfile.TemporaryDirectory() as folder:
            yield pathlib.Path(folder)
        return
    content = hashlib.sha256()
    for path in (binaries / "dtc", binaries / "dtc-run", *sorted(TESTS.glob("*.py"))):
        content.update(path.read_bytes())
    folder = pieces / content.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def record_tests(names: list[str], binaries: pathlib.Path, folder: pathlib.Path,
                 jobs: int) -> tuple[dict[str, dict], list[str], list[str]]:
    """What the tests of these files compute, the commands that computed two things, and the tests that failed."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = list(pool.map(lambda name: run_tests(name, binaries, folder), names))
    return *merged([part for part, _ in runs]), [test for _, failed in runs for test in failed]


def write(path: pathlib.Path, record: dict) -> None:
    """One entry a line, so that records can be read and searched."""
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(record["entries"].items())]
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in record.items() if key != "entries")
    path.write_text("{" + head + '"entries": {\n' + ",\n".join(lines) + "\n}}\n")


def record_file(text: str) -> pathlib.Path:
    path = pathlib.Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"is no record: {path}")
    return path


def read(path: pathlib.Path, quick: bool) -> dict:
    record = json.loads(path.read_text())
    if record["quick"] != quick:
        raise SystemExit("behaviour: one of the records is quick, the other is full")
    return record


def make_record(options: argparse.Namespace) -> int:
    before = read(options.against, options.quick) if options.against else None
    binaries = options.bin.resolve()
    with pieces_of(binaries, options.pieces and options.pieces.resolve()) as folder:
        names = RUNS if options.quick else RUNS + PLANS
        entries, unsteady, failed = record_tests(names, binaries, folder, options.jobs)
    plans, missing = published_plans.record(binaries / "dtc", options.graphs.resolve(), options.quick, options.jobs)
    for test in failed:
        print(f"failed while it was recorded: {test}")
    for name in unsteady:
        print(f"computes two things when it is given twice: {name}")
    if missing:
        print(f"{len(missing)} graphs of published runs are missing; bench/published/make_graphs.py makes them")
    record = {"quick": options.quick, "failed": failed, "unsteady": unsteady, "missing": missing,
              "entries": entries | plans}
    write(options.output, record)
    print(f"{len(entries)} entries of tests, {len(plans)} plans of published runs")
    return differences.report(before, record, options.most) if before else 0


def compare_records(options: argparse.Namespace) -> int:
    before = json.loads(options.before.read_text())
    after = read(options.after, before["quick"])
    return places.report(before, after) if options.by_place else differences.report(before, after, options.most)


def compare_times(options: argparse.Namespace) -> int:
    binaries = [folder.resolve() for folder in (options.before, options.after)]
    return times.report(*binaries, options.rounds, options.limit)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="write down what the binaries compute")
    record.add_argument("--bin", type=pathlib.Path, default=BIN, help="the folder of dtc and dtc-run")
    record.add_argument("--graphs", type=pathlib.Path, default=published_plans.FOLDER, help="the published runs' graphs")
    record.add_argument("--quick", action="store_true", help="a part of the published runs and all that is compiled")
    record.add_argument("--pieces", type=pathlib.Path, help="a folder that keeps what is done, so that a record that was "
                        "interrupted goes on")
    record.add_argument("--jobs", type=int, default=2, help="how many processes work at the same time")
    record.add_argument("--against", type=record_file, help="an earlier record to compare with")
    record.add_argument("-o", "--output", type=pathlib.Path, required=True)
    record.set_defaults(do=make_record)
    compare = commands.add_parser("compare", help="print what differs between two records")
    compare.add_argument("before", type=record_file)
    compare.add_argument("after", type=record_file)
    compare.add_argument("--by-place", action="store_true", help="a line for each member that differs, over all entries")
    compare.set_defaults(do=compare_records)
    for command in (record, compare):
        command.add_argument("--most", type=int, default=5, help="how many differences of an entry to print")
    timing = commands.add_parser("times", help="compare the time to compile and to plan")
    timing.add_argument("before", type=pathlib.Path, help="the folder of dtc before")
    timing.add_argument("after", type=pathlib.Path, help="the folder of dtc after")
    timing.add_argument("--rounds", type=int, default=5, help="how often each command is given at least")
    timing.add_argument("--limit", type=float, default=1.03, help="the largest ratio that is accepted")
    timing.set_defaults(do=compare_times)
    return parser


def main() -> int:
    options = arguments().parse_args()
    return options.do(options)


if __name__ == "__main__":
    sys.exit(main())
