"""Runs the tests with programs that are built with sanitizers (ninja check-sanitized, check-threads).

    build/venv/bin/python test/Sanitized/run.py address build/asan build/bin
    build/venv/bin/python test/Sanitized/run.py thread build/tsan build/bin

`address`: AddressSanitizer and UndefinedBehaviorSanitizer. `thread`: ThreadSanitizer, on the runtime alone. The GoogleTest
programs of the build run first, then pytest's integration tests. Programs that the build lacks are those of the plain
one, so that a build of the runtime alone runs what the plain compiler made. Reports stay in BUILD/reports. The last line
says how many tests ran and how many reports there are; a report fails the command, as a failing test does.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("dtc", "dtc-opt", "dtc-run", "dtc-import-test", "dtc-plan-test")
# What starts ranks as threads and as processes, exchanges, stops, resumes and evaluates.
OF_THREADS = ("test_training", "test_pipelines", "test_overlap", "test_checkpoints", "test_eval", "test_zero", "test_processes")
# Debian's MLIR isn't instrumented: containers that cross its border look overflown, and its caches look leaked.
OPTIONS = {
    "ASAN_OPTIONS": "detect_container_overflow=0:detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}


def programs(folder: pathlib.Path, build: pathlib.Path, plain: pathlib.Path) -> pathlib.Path:
    """A folder with the sanitized programs, and plain ones where these are missing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        own = build / "bin" / name
        (folder / name).symlink_to(own if own.exists() else plain / name)
    return folder


def unit_tests(build: pathlib.Path, environment: dict[str, str]) -> tuple[int, int]:
    ran = failed = 0
    for path in sorted((build / "test" / "Unit").rglob("*Tests")):
        if path.is_file():
            done = subprocess.run([str(path), "--gtest_brief=1"], cwd=ROOT, env=environment, capture_output=True, text=True,
                                  errors="replace")
            counts = re.search(r"(\d+) tests? from .* ran", done.stdout)
            ran += int(counts.group(1)) if counts else 0
            failed += done.returncode != 0
            print(f"{path.name}: {'failed' if done.returncode else 'passed'}, {counts.group(0) if counts else 'did not end'}",
                  flush=True)
            if done.returncode:
                print(done.stdout[-3000:], done.stderr[-3000:], flush=True)
    return ran, failed


def integration_tests(build: pathlib.Path, tests: list[str], environment: dict[str, str]) -> tuple[int, int]:
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(os.cpu_count()),
                    "--dist", "loadfile", f"--junitxml={report}", "--rootdir", str(ROOT / "test"), *tests], cwd=ROOT, env=environment)
    if not report.exists():
        return 0, 1
    suite = next(ElementTree.parse(report).iter("testsuite"))
    return int(suite.get("tests")) - int(suite.get("skipped")), int(suite.get("failures")) + int(suite.get("errors"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["address", "thread"])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("plain", type=pathlib.Path)
    parser.add_argument("tests", nargs="*", help="instead of the chosen ones, as for pytest")
    options = parser.parse_args()
    build, plain = options.build.resolve(), options.plain.resolve()
    reports = build / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    environment = os.environ | {key: f"{value}:log_path={reports}/report" for key, value in OPTIONS.items()}
    environment["DTC_BIN"] = str(programs(build / "programs", build, plain))
    tests = options.tests
    if not tests:
        folder = ROOT / "test" / "Integration"
        # AddressSanitizer reserves more memory than that test allows.
        everything = [str(folder), f"--ignore={folder / 'test_low_memory.py'}"]
        tests = [str(folder / f"{name}.py") for name in OF_THREADS] if options.kind == "thread" else everything
    ran, failed = unit_tests(build, environment)
    more, wrong = integration_tests(build, tests, environment)
    found = sorted(reports.glob("report*"))
    for path in found[:5]:
        print(path.read_text(errors="replace")[:3000])
    print(f"{ran} unit tests, {more} integration tests, {failed + wrong} failed, {len(found)} reports of sanitizers")
    return int(bool(failed or wrong or found) or not ran or not more)


if __name__ == "__main__":
    sys.exit(main())
