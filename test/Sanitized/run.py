"""Runs the tests with programs that are built with sanitizers (ninja check-sanitized, check-threads).

    build/venv/bin/python test/Sanitized/run.py address build/asan build/bin [--minutes 60] [PART...]
    build/venv/bin/python test/Sanitized/run.py thread build/tsan build/bin [--minutes 60] [PART...]

`address`: AddressSanitizer and UndefinedBehaviorSanitizer. `thread`: ThreadSanitizer, on the runtime alone. A part is a
folder of lit tests, a GoogleTest program or a file of pytest; those are chosen whose names contain a PART. None starts
after so many minutes. What passed isn't run again by a later call, unless it says --again: BUILD/results.json knows it.
Programs that the build lacks are those of the plain one, so that a build of the runtime alone runs what the plain
compiler made. Reports of sanitizers stay in BUILD/reports. The last line says how many tests of how many parts ran and
what was found. The exit code is 0 when all chosen parts have passed without a report.
"""

import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

from sanitizers import OPTIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
INTEGRATION = ROOT / "test" / "Integration"
PROGRAMS = ("dtc", "dtc-opt", "dtc-run", "dtc-import-test", "dtc-plan-test")
OF_TESTS = ("replay-artifacts", "verify-mutants")  # programs that pytest finds beside GoogleTest's
LONGEST = 3600  # seconds that one part may take
# What starts ranks as threads and as processes, on processors and emulated GPUs.
OF_THREADS = ("test_training", "test_pipelines", "test_overlap", "test_checkpoints", "test_eval", "test_zero", "test_processes",
              "test_profile", "test_offload", "test_step_vector", "test_cuda", "test_cuda_processes", "test_run_files")
# Why a file isn't run by these programs.
LEFT_OUT = {
    "test_low_memory": "AddressSanitizer reserves more memory than it allows",
    "test_fuzz": "check-fuzz-sanitized does it in process",
    "test_layering": "it runs no program",
    "test_gpu_tests": "Python, which isn't instrumented, loads the emulated GPU",
    "test_gpu_speed": "likewise",
    "test_gpu_record": "it runs no program",
}
# Programs that take longer than a part may, and into how many parts their tests are divided.
SHARDS = {"PlanSearchTests": 8}
# Tests that bound time, which sanitizers take several times as much of.
TIMED = ("Size.*",)
# Tests of the emulator that do on purpose what a sanitizer reports: an access to memory that isn't the host's, and races.
ON_PURPOSE = {
    "address": ("*.HostTouchesDeviceMemory",),
    "thread": ("*.HostTouchesDeviceMemory", "*.MissingWait*", "*.RaceWithinAGraph", "*.AWordSaysNothingOfWhatComesLater"),
}


@dataclasses.dataclass
class Part:
    """Tests that run together: how, and the file in which their results are found."""

    name: str
    command: list[str]
    results: pathlib.Path


@dataclasses.dataclass
class Result:
    passed: int
    failed: int
    reports: int
    seconds: int
    day: str


def programs(folder: pathlib.Path, build: pathlib.Path, plain: pathlib.Path) -> pathlib.Path:
    """A folder with the sanitized programs, and plain ones where these are missing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        own = build / "bin" / name
        (folder / name).symlink_to(own if own.exists() else plain / name)
    for name in OF_TESTS:
        own = build / "test" / "Unit" / name
        if not own.exists():
            own.unlink(missing_ok=True)  # a link to nothing
            own.symlink_to(plain.parent / "test" / "Unit" / name)
    print("with sanitizers:", *(name for name in PROGRAMS if (build / "bin" / name).exists()), flush=True)
    return folder


def of_program(path: pathlib.Path, results: pathlib.Path, kind: str) -> list[Part]:
    shards = SHARDS.get(path.name, 1)
    parts = []
    for shard in range(shards):
        name = path.name if shards == 1 else f"{path.name}-{shard + 1}"
        out = results / f"{name}.xml"
        parts.append(Part(name, ["env", f"GTEST_TOTAL_SHARDS={shards}", f"GTEST_SHARD_INDEX={shard}", str(path), "--gtest_brief=1",
                                 f"--gtest_output=xml:{out}", f"--gtest_filter=-{':'.join(ON_PURPOSE[kind] + TIMED)}"], out))
    return parts


def all_parts(kind: str, build: pathlib.Path) -> list[Part]:
    results = build / "part-results"
    results.mkdir(exist_ok=True)
    parts = []
    for path in sorted((build / "test" / "Unit").rglob("*Tests")):
        if path.is_file():
            parts += of_program(path, results, kind)
    names = OF_THREADS if kind == "thread" else sorted(path.stem for path in INTEGRATION.glob("test_*.py"))
    for name in names:
        if name not in LEFT_OUT:
            out = results / f"{name}.xml"
            parts.append(Part(name, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}",
                                     "--rootdir", str(ROOT / "test"), str(INTEGRATION / f"{name}.py")], out))
    if kind == "address" and all((build / "bin" / name).exists() for name in ("dtc", "dtc-opt", "dtc-import-test")):
        for folder in sorted({path.relative_to(ROOT / "test").parts[0] for suffix in ("mlir", "test")
                              for path in (ROOT / "test").rglob(f"*.{suffix}")} - {"Integration", "Unit", "models", "lib"}):
            out = results / f"lit-{folder}.xml"
            parts.append(Part(f"lit-{folder}", ["/usr/lib/llvm-22/bin/lit", "-q", "-j1", f"--xunit-xml-output={out}",
                                                str(build / "test" / folder)], out))
    return parts


def counts(path: pathlib.Path) -> tuple[int, int]:
    """Passed and failed tests of a file of results; a program that crashes leaves none."""
    if not path.exists():
        return 0, 1
    suites = list(ElementTree.parse(path).iter("testsuite"))

    def total(what: str) -> int:
        return sum(int(suite.get(what) or 0) for suite in suites)

    failed = total("failures") + total("errors")
    return total("tests") - failed - total("skipped") - total("disabled"), failed


def run(part: Part, build: pathlib.Path, environment: dict[str, str]) -> Result:
    reports = build / "reports" / part.name
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    part.results.unlink(missing_ok=True)
    own = {key: f"{value}:log_path={reports}/report" for key, value in OPTIONS.items()}
    began = time.monotonic()
    try:
        done = subprocess.run(part.command, cwd=ROOT, env=environment | own, stdin=subprocess.DEVNULL, timeout=LONGEST,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as ended:
        output, code = (ended.stdout or b"").decode(errors="replace"), -1
    (reports / "output.txt").write_text(output)
    passed, failed = counts(part.results)
    found = len(list(reports.glob("report*")))
    return Result(passed, failed or int(code != 0), found, round(time.monotonic() - began), str(datetime.date.today()))


def told(name: str, result: Result) -> str:
    words = f"{name}: {result.passed} passed, {result.failed} failed, {result.reports} reports, {result.seconds} s"
    return words if result.day == str(datetime.date.today()) else f"{words} ({result.day})"


class Record:
    """What parts showed, in a file that a later call goes on with."""

    def __init__(self, path: pathlib.Path):
        self.path, self.lock = path, threading.Lock()
        known = json.loads(path.read_text()) if path.exists() else {}
        self.results = {name: Result(**each) for name, each in known.items()}

    def passed(self, name: str) -> bool:
        result = self.results.get(name)
        return result is not None and not result.failed and not result.reports

    def add(self, name: str, result: Result) -> None:
        with self.lock:
            self.results[name] = result
            self.path.write_text(json.dumps({name: vars(each) for name, each in self.results.items()}, indent=1))
            print(told(name, result), flush=True)


def run_all(parts: list[Part], build: pathlib.Path, environment: dict[str, str], record: Record, minutes: float) -> None:
    """As many parts at once as there are processors, while there is time."""
    until = time.monotonic() + 60 * minutes

    def one(part: Part) -> None:
        if time.monotonic() < until:
            record.add(part.name, run(part, build, environment))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(one, parts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["address", "thread"])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("plain", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_intermixed_args()
    build, plain = options.build.resolve(), options.plain.resolve()
    environment = os.environ | {"DTC_BIN": str(programs(build / "programs", build, plain)), "DTC_SANITIZED": options.kind}
    chosen = [part for part in all_parts(options.kind, build)
              if not options.parts or any(word in part.name for word in options.parts)]
    record = Record(build / "results.json")
    left = [part for part in chosen if options.again or not record.passed(part.name)]
    run_all(left, build, environment, record, options.minutes)
    seen = {part.name: record.results[part.name] for part in chosen if part.name in record.results}
    for name in seen:
        for path in sorted((build / "reports" / name).glob("report*"))[:1]:
            print(f"{path}:\n{re.sub(r'^=+$', '', path.read_text(errors='replace')[:4000], flags=re.MULTILINE)}")
    failed, reports = (sum(getattr(each, what) for each in seen.values()) for what in ("failed", "reports"))
    print(f"{sum(each.passed for each in seen.values())} tests passed, {failed} failed, {reports} reports of sanitizers;"
          f" {len(seen)} of {len(chosen)} parts have run")
    return int(bool(failed or reports) or len(seen) < len(chosen) or not seen)


if __name__ == "__main__":
    sys.exit(main())
