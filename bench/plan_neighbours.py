"""Whether a plan that differs from the chosen one in a single setting is predicted to be faster.

    python3 bench/plan_neighbours.py [--only NAME] [--every N] [--limit PERCENT] [--published] [--jobs N]

Searches a plan freely, as bench/plan_strategies.py does, and then with all of its settings pinned but for one, or two
degrees whose product stays the same, which take each other value in turn. A search that missed nothing is never beaten.
Prints every change that gains more than the limit (0.5 % by default) and ends with exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import re
import subprocess
import sys

import plan_strategies
from plan_strategies import BIN, Search

#: Settings whose values a change takes in turn.
VALUES = {
    "sp": ("on", "off"),
    "zero": ("0", "1", "2", "3"),
    "recompute": ("none", "selective", "full"),
    "schedule": ("1f1b", "interleaved", "zb"),
    "offload": ("none", "optimizer"),
}
DEGREES = ("dp", "tp", "pp", "cp", "ep")


def settings_of(plan: str) -> dict[str, str]:
    """The SPEC of a plan as `dtc-plan-test search` prints it; what is said of blocks is left to the search."""
    return dict(word.split("=", 1) for word in plan.split() if "=" in word)


def pinned(settings: dict[str, str], free: tuple[str, ...] = ()) -> str:
    kept = {key: value for key, value in settings.items() if key not in free}
    if "recompute" in kept and kept["recompute"] != "none":
        del kept["recompute"]  # of as few blocks as memory asks for
    if kept.get("schedule") != "interleaved":
        kept.pop("chunks", None)
    return ",".join(f"{key}={value}" for key, value in kept.items())


def scaled(settings: dict[str, str], up: str, down: str) -> dict[str, str] | None:
    """Twice as much of one degree, half as much of the other."""
    if int(settings[down]) % 2:
        return None
    changed = settings | {up: str(2 * int(settings[up])), down: str(int(settings[down]) // 2)}
    if changed["pp"] == "1":
        changed |= {"schedule": "1f1b", "chunks": "1"}
    return changed


def neighbours(settings: dict[str, str]) -> list[str]:
    """SPECs, each with one change."""
    specs = []
    for key, values in VALUES.items():
        for value in values:
            if value != settings.get(key) and not (key == "schedule" and settings["pp"] == "1"):
                changed = pinned(settings, (key, "chunks") if key == "schedule" else (key,))
                specs.append(f"{changed},{key}={value}")
    batch = int(settings["micro_batch"])
    for value in {2 * batch, batch // 2} - {0}:
        specs.append(pinned(settings | {"micro_batch": str(value)}))
    for up in DEGREES:
        for down in DEGREES:
            if up != down and (changed := scaled(settings, up, down)):
                specs.append(pinned(changed, ("micro_batch", "zero_group", "cp_by")))
    # A part of what was chosen is left open.
    specs += [pinned(settings, free) for free in (("zero", "zero_group"), ("micro_batch",), ("sp", "cp_by"))]
    return list(dict.fromkeys(specs))


def planned(search: Search, spec: str) -> dict:
    command = [BIN / "dtc-plan-test", "search", search.problem, spec, search.cluster, str(search.devices),
               str(search.batch)]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()}


def gains(search: Search, limit: float) -> list[str]:
    """What beats the choice by more than the limit."""
    chosen = planned(search, "auto")
    if not chosen.get("fits") or "|" in chosen["plan"]:
        return []  # what stages of several meshes have can't be pinned one by one
    specs = neighbours(settings_of(chosen["plan"]))
    found, planless, best = [], 0, 0.0
    for spec in specs:
        other = planned(search, spec)
        if not other.get("fits"):
            planless += 1
            continue
        gain = 100 * (1 - other["step_s"] / chosen["step_s"])
        best = max(best, gain)
        if gain > limit:
            found.append(f"{search.name}: {spec} is {gain:.2f} % faster: {other['plan']}")
    print(f"{search.name}: {chosen['step_s']:.4f} s, {len(specs)} changes, {planless} of which fit in no way, the best gains "
          f"{best:.2f} %", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression for the name of a search")
    parser.add_argument("--every", type=int, default=1, help="of the searches that are left, one of so many")
    parser.add_argument("--limit", type=float, default=0.5, help="percent that a change may gain")
    parser.add_argument("--published", action="store_true", help="also the jobs of bench/published")
    parser.add_argument("--jobs", type=int, default=1, help="searches at a time")
    options = parser.parse_args()
    searches = plan_strategies.large_models() + (plan_strategies.published() if options.published else [])
    searches = [search for search in searches if re.search(options.only, search.name)][:: options.every]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        beaten = [text for texts in pool.map(lambda search: gains(search, options.limit), searches) for text in texts]
    print(*beaten, sep="\n")
    return 1 if beaten else 0


if __name__ == "__main__":
    sys.exit(main())
