"""Lets a slow target go on where its last call ended: pytest -p continued, with DTC_RESULTS=FILE.

What passed isn't run again. It is once the programs or the test's file have changed, and where DTC_AGAIN=1 asks for all.
None starts after DTC_MINUTES. The last line says how many tests have passed, in how many seconds, and since which day.
"""

import datetime
import hashlib
import json
import os
import pathlib
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def programs() -> str:
    """A digest of what tests may run: the programs, the Python package and the emulated GPU's libraries."""
    folder = pathlib.Path(os.environ.get("DTC_BIN", ROOT / "build" / "bin"))
    found = [*folder.glob("*"), folder.parent / "test" / "Unit" / "verify-mutants", *folder.parent.glob("python/**/*.so"),
             *folder.parent.glob("lib/**/*.so*")]
    return hashlib.sha256("".join(digest(path) for path in sorted(found) if path.is_file()).encode()).hexdigest()


class Continued:
    """The tests that passed, in a file. With xdist each worker reads it, and the process that started them writes it."""

    def __init__(self, config: pytest.Config):
        self.root, self.writes = config.rootpath, not hasattr(config, "workerinput")
        self.path = pathlib.Path(os.environ["DTC_RESULTS"])
        self.until = time.monotonic() + 60 * float(os.environ.get("DTC_MINUTES", "inf"))
        self.programs, self.files = programs(), {}
        self.running, self.failed = {}, set()
        known = json.loads(self.path.read_text()) if self.path.exists() and "DTC_AGAIN" not in os.environ else {}
        self.passed = {name: each for name, each in known.items() if each["made_with"] == self.made_with(name)}
        self.before = set(self.passed)

    def made_with(self, name: str) -> str:
        path = self.root / name.split("::")[0]
        if path not in self.files:
            self.files[path] = digest(path) if path.exists() else ""
        return self.programs + self.files[path]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        done = [item for item in items if item.nodeid in self.before]
        if done:
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if item.nodeid not in self.before]

    def pytest_sessionstart(self, session):
        self.session = session

    def pytest_runtest_logreport(self, report):
        """Called after the setup, the call and the teardown of a test."""
        name = report.nodeid
        self.running[name] = self.running.get(name, 0) + report.duration
        if not report.passed:
            self.failed.add(name)
        if report.when != "teardown":
            return
        if name not in self.failed and self.writes:
            self.passed[name] = {"day": str(datetime.date.today()), "seconds": self.running[name], "made_with": self.made_with(name)}
            self.write()
        if time.monotonic() > self.until:
            self.session.shouldstop = "DTC_MINUTES are over; the next call goes on"

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".new")
        aside.write_text(json.dumps(self.passed, indent=1))
        aside.replace(self.path)

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.before:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter):
        days = {each["day"] for each in self.passed.values()}
        seconds = sum(each["seconds"] for each in self.passed.values())
        since = f" since {min(days)}, in {seconds:.0f} s of tests" if days else ""
        terminalreporter.write_line(f"{self.path.stem}: {len(self.passed)} tests have passed{since}; {len(self.failed)} failed or were skipped")


def pytest_configure(config):
    if "DTC_RESULTS" in os.environ:
        config.pluginmanager.register(Continued(config), "dtc-continued")
