"""The record of gpu_tests.py: a page with a section for each part, and with what the last call reached.

A part of which a call reached nothing keeps the results that it has. The page's first table says so.
"""

import dataclasses
import datetime
import os
import pathlib
import platform
import shutil
import subprocess
import sys

LAST_CALL = "The last call"
WORDS = {True: "passed", False: "**failed**", None: "not run"}
TIME_OVER = "the part's time was over"


@dataclasses.dataclass
class PartRun:
    """What a call got of a part: rows of a check, whether it passed (None: it wasn't run), and what is said of it."""

    name: str
    says: str  # what the part shows
    rows: list[tuple[str, bool | None, str]] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    share: float = 0.0  # of the call's seconds

    def count(self, wanted: bool | None) -> int:
        return sum(row[1] is wanted for row in self.rows)

    @property
    def late(self) -> int:
        """Checks that there was no time for."""
        return sum(row[1] is None and row[2] == TIME_OVER for row in self.rows)

    @property
    def was_reached(self) -> bool:
        return any(row[1] is not None or row[2] != TIME_OVER for row in self.rows)


@dataclasses.dataclass
class Place:
    """Where a call ran, and what of dtc."""

    gpus: list[str]
    is_emulated: bool
    commit: str
    command: str

    def lines(self) -> list[str]:
        """A table, below what must be said first."""
        gpus = ", ".join(f"{self.gpus.count(name)} x {name}" for name in sorted(set(self.gpus)))
        lines = ["**The GPU is emulated: this says nothing of a true one.**", ""] if self.is_emulated else []
        return [*lines, "| | |", "|---|---|", f"| date | {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC |",
                f"| GPUs | {gpus} |", f"| driver | {driver_version()} |",
                f"| machine | {platform.platform()}, {os.cpu_count()} processors |", f"| dtc | {self.commit} |",
                f"| command | `{self.command}` |", ""]


def driver_version() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    if not shutil.which(query[0]):
        return "unknown (no nvidia-smi)"
    return subprocess.run(query, capture_output=True, text=True).stdout.splitlines()[0]


def command_line() -> str:
    return " ".join(["gpu_tests.py", *map(str, sys.argv[1:])])


def section(place: Place, run: PartRun) -> list[str]:
    """What one run of a part showed, and where."""
    good, bad, none = (run.count(wanted) for wanted in (True, False, None))
    return [f"## {run.name}", "", run.says, "", *place.lines(),
            f"{good} passed, {bad} failed, {none} not run, in {run.seconds:.0f} s.", "", "| check | result | |", "|---|---|---|",
            *(f"| {name} | {WORDS[result]} | {text} |" for name, result, text in run.rows), ""]


def summary(place: Place, runs: list[PartRun], ahead: list[str]) -> list[str]:
    """The call as a whole; `ahead`: parts that are still to come, or that a crash cut off."""
    lines = [f"## {LAST_CALL}", "", "Of each part, in the order in which they ran. What was not reached has older results below, or none.", "",
             *place.lines(), "| part | passed | failed | not run | not reached | seconds | its share |", "|---|---|---|---|---|---|---|"]
    for run in runs:
        reached = f"{run.late} checks" if run.was_reached and run.late else "" if run.was_reached else "**all of it**"
        lines.append(f"| {run.name} | {run.count(True)} | {run.count(False)} | {run.count(None) - run.late} | {reached} | "
                     f"{run.seconds:.0f} | {run.share:.0f} |")
    return [*lines, *(f"| {name} | | | | **all of it** | | |" for name in ahead), ""]


def kept_sections(output: pathlib.Path) -> dict[str, list[str]]:
    """By part, what the page says already."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in output.read_text().splitlines() if output.exists() else []:
        if line.startswith("## "):
            lines = found.setdefault(line[3:], [])
        lines.append(line)
    return found


class Page:
    """Written anew after each part: also what came before a crash is on it."""

    def __init__(self, output: pathlib.Path, place: Place, order: list[str]):
        self.output, self.place, self.order = output, place, order
        self.sections = kept_sections(output)
        self.runs: list[PartRun] = []

    def add(self, run: PartRun, ahead: list[str]) -> None:
        self.runs.append(run)
        if run.was_reached or run.name not in self.sections:
            self.sections[run.name] = section(self.place, run)
        lines = ["# GPU results", "", "Written by `scripts/gpu_tests.py run`, which packs and runs as its first lines say. "
                 "Each part stands as its last run left it.", "", *summary(self.place, self.runs, ahead)]
        for part in self.order:
            lines += self.sections.get(part, [])
        self.output.write_text("\n".join(lines).rstrip() + "\n")
