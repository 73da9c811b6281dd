"""test/continued.py: a slow target that was interrupted goes on where it ended, and never trusts results of other programs."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT

TESTS = """
import os, pathlib, pytest

@pytest.mark.parametrize("i", range(5))
def test_one(i):
    with pathlib.Path(os.environ["RAN"]).open("a") as file:
        file.write(f"{i}")
    if i == 3:
        pytest.skip("it can't run here")
    assert i != 2 or "MENDED" in os.environ
"""


@pytest.fixture
def target(tmp_path):
    """Calls the target and returns which tests ran, the last line of continued.py and the exit code."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dtc").write_text("a program")
    (tmp_path / "test_it.py").write_text(TESTS)

    def call(*arguments, **environment) -> tuple[str, str, int]:
        ran = tmp_path / "ran"
        ran.write_text("")
        own = {"PYTHONPATH": str(ROOT / "test"), "DTC_RESULTS": str(tmp_path / "results" / "it.json"), "DTC_BIN": str(tmp_path / "bin"), "RAN": str(ran)}
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "continued", "-p", "no:cacheprovider", *arguments], cwd=tmp_path,
                              env=os.environ | own | environment, capture_output=True, text=True, timeout=300)
        line = next(line for line in done.stdout.splitlines() if line.startswith("it:"))
        return "".join(sorted(ran.read_text())), line, done.returncode

    call.folder = tmp_path
    return call


def test_what_passed_is_not_run_again(target):
    assert target()[0] == "01234"
    ran, line, code = target()
    assert ran == "23" and code == 1
    assert line.startswith("it: 3 tests have passed since ") and line.endswith("; 2 failed or were skipped")
    ran, line, code = target(MENDED="1")
    assert ran == "23" and code == 0 and line.startswith("it: 4 tests")
    assert target(DTC_AGAIN="1", MENDED="1")[0] == "01234"


def test_nothing_starts_once_time_is_over(target):
    ran, line, code = target(DTC_MINUTES="0")
    assert ran == "0" and code != 0 and line.startswith("it: 1 tests")
    assert target(MENDED="1")[0] == "1234"
    (target.folder / "test_it.py").write_text(TESTS.replace('pytest.skip("it can\'t run here")', "pass"))
    assert target(MENDED="1")[0] == "01234"
    ran, line, code = target(MENDED="1")
    assert ran == "" and code == 0 and line.startswith("it: 5 tests")


@pytest.mark.parametrize("changed", ["bin/dtc", "test_it.py"])
def test_all_run_again_once_something_changed(target, changed):
    target("-n", "2", MENDED="1")
    assert target(MENDED="1")[0] == "3"
    with (target.folder / changed).open("a") as file:
        file.write("# another one")
    assert target("-n", "2", MENDED="1")[0] == "01234"
