"""Checks the layout of changed lines, runs the three test suites and adds up their results.

The last line printed is `N passed, N failed`; the exit status is 1 when
anything failed or a suite did not run at all.
"""

import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(title: str, command: list[str]) -> int:
    print(f"== {title}", flush=True)
    return subprocess.run(command, cwd=ROOT).returncode


def run_lint() -> tuple[int, int]:
    """Of the lines that the last commit, or the branch, changed; takes two minutes at most."""
    return (1, 0) if run("lint", ["scripts/lint.sh", "--layout"]) == 0 else (0, 1)


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


def run_unit(build: pathlib.Path) -> tuple[int, int]:
    good = bad = 0
    for binary in sorted((build / "test" / "Unit").rglob("*Tests")):
        if not binary.is_file():
            continue
        report = binary.with_suffix(".json")
        report.unlink(missing_ok=True)
        status = run(
            f"GoogleTest {binary.name}",
            [str(binary), "--gtest_brief=1", f"--gtest_output=json:{report}"],
        )
        if not report.exists():
            bad += 1
            continue
        result = json.loads(report.read_text())
        failed = result["failures"] + result.get("errors", 0)
        good += result["tests"] - failed - result["disabled"]
        bad += failed if failed or not status else 1
    return good, bad if good + bad else 1


def run_pytest(build: pathlib.Path) -> tuple[int, int]:
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    run(
        "pytest",
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
         "--rootdir", str(ROOT / "test"), str(ROOT / "test" / "Integration")],
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
    results = {"lint": run_lint(), "lit": run_lit(build), "GoogleTest": run_unit(build), "pytest": run_pytest(build)}
    for name, (good, bad) in results.items():
        print(f"{name}: {good} passed, {bad} failed")
    good = sum(result[0] for result in results.values())
    bad = sum(result[1] for result in results.values())
    print(f"{good} passed, {bad} failed")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main())
