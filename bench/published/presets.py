"""The programs of lib/Plan/Plan/Presets.yaml: their suites, and how far their runs were predicted wrongly."""

from __future__ import annotations

import dataclasses
import pathlib
import re

FILE = pathlib.Path(__file__).resolve().parents[2] / "lib" / "Plan" / "Plan" / "Presets.yaml"


@dataclasses.dataclass(frozen=True)
class Preset:
    """What the file says of a program's interval."""

    suites: tuple[str, ...]
    error: float  # of step time, a share: at least nine in ten runs are within it
    runs: int


def load() -> dict[str, Preset]:
    """All presets by name."""
    text = FILE.read_text()
    shared = re.search(r"suites: &fsdp-suites (\[.*\])", text)[1]
    found = {}
    for name, body in re.findall(r"^([a-z-]+):\n(.*?)(?=^[a-z]|\Z)", text.replace("*fsdp-suites", shared), re.M | re.S):
        suites = re.search(r"suites: (?:&fsdp-suites )?\[(.*)\]", body)[1].split(", ")
        errors = re.search(r"step_time: ([\d.]+), runs: (\d+)", body)
        found[name] = Preset(tuple(suites), float(errors[1]), int(errors[2]))
    return found
