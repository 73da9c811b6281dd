"""Checks the layout of changed lines, runs the three test suites and adds up their results.

The last line printed is `N passed, N failed`; the exit status is 1 when
anything failed or a suite did not run at all.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOWEST = "PlanSearchTests"
#: Its tests mostly wait, so that it runs beside lit.
WAITING = "RuntimeTests"


def run(title: str, command: list[str], **environment: str) -> int:
    print(f"== {title}", flush=True)
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode


def run_lint() -> tuple[int, int]:
    """Of what the last commit, or the branch, changed; takes three minutes at most."""
    return (1, 0) if run("lint", ["scripts/lint.sh", "--within", "90"]) == 0 else (0, 1)


def run_lit(build: pathlib.Path) -> tuple[int, int]:
    report = build / "lit.json"
    report.unlink(missing_ok=True)
    run("lit", ["/usr/lib/llvm-22/bin/lit", "-s", "-v", "-o", str(report), str(build / "test")])
    if not report.exists():
        return 0, 1
    codes = [test["code"] for test in json.loads(report.read_text())["tests"]]
    good = sum(code in ("PASS", "XFAIL") for code in codes)
    bad = sum(code not in ("PASS", "XFAIL", "UNSUPPORTED", "EXCLUDED", "SKIPPED") for code in codes)
    return good, bad if codes else 1


def run_shard(binary: pathlib.Path, shard: int, shards: int) -> tuple[int, int]:
    """One part of a GoogleTest program, printed when it ends: the passed and the failed tests."""
    report = binary.with_suffix(f".{shard}.json")
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [str(binary), "--gtest_brief=1", f"--gtest_output=json:{report}"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=os.environ | {"GTEST_SHARD_INDEX": str(shard), "GTEST_TOTAL_SHARDS": str(shards)},
    )
    print(f"== GoogleTest {binary.name}{f' {shard + 1}/{shards}' if shards > 1 else ''}\n{done.stdout}", end="", flush=True)
    if not report.exists():
        return 0, 1
    result = json.loads(report.read_text())
    failed = result["failures"] + result.get("errors", 0)
    return result["tests"] - failed - result["disabled"], failed if failed or not done.returncode else 1


def run_unit(build: pathlib.Path) -> tuple[int, int]:
    """As many programs at once as there are processors; the slowest is split and goes first. That which waits runs beside lit."""
    binaries = [path for path in sorted((build / "test" / "Unit").rglob("*Tests")) if path.is_file() and path.name != WAITING]
    slowest = [path for path in binaries if path.name == SLOWEST]
    parts = [(path, shard, 4) for path in slowest for shard in range(4)]
    parts += [(path, 0, 1) for path in binaries if path.name != SLOWEST]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        results = list(workers.map(lambda part: run_shard(*part), parts))
    good, bad = (sum(column) for column in zip(*results, strict=True)) if results else (0, 0)
    return good, bad if good + bad else 1


def run_pytest(build: pathlib.Path) -> tuple[int, int]:
    """One test more at once than there are processors: many wait, for ranks, for time limits and for files."""
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    run(
        "pytest",
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(os.cpu_count() + 1),
         "--dist", "loadfile", "--no-loadscope-reorder", f"--junitxml={report}",
         "--rootdir", str(ROOT / "test"), str(ROOT / "test" / "Integration"), str(ROOT / "test" / "Python")],
        PYTHONPATH=str(build / "python"),  # the workers report warnings of the package's own kinds
    )
    if not report.exists():
        return 0, 1
    suite = next(ElementTree.parse(report).iter("testsuite"))
    tests, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    if skipped:
        print(f"NOT RUN: {skipped} tests of pytest, for the reasons above")
    return tests - skipped - failed, failed if tests else 1


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(run_shard, build / "test" / "Unit" / WAITING, 0, 1)
        results = {"lint": run_lint(), "lit": run_lit(build), "GoogleTest": run_unit(build)}
        results["GoogleTest"] = tuple(map(sum, zip(results["GoogleTest"], waiting.result(), strict=True)))
    results["pytest"] = run_pytest(build)
    for name, (good, bad) in results.items():
        print(f"{name}: {good} passed, {bad} failed")
    good = sum(result[0] for result in results.values())
    bad = sum(result[1] for result in results.values())
    print(f"{good} passed, {bad} failed")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main())
