"""Pipeline schedules on two CPU ranks: how much of a step is bubble, predicted and measured.

    python3 bench/schedules.py [--rounds 3] [--steps 5] [--output FILE.json]

The model of step_time.py in two stages and eight microbatches of one sample, one thread a rank. The bubble is the part of a rank's
step in which it computes nothing: it waits for a message, or exchanges. `dtc inspect --compare` gives both figures. Schedules take
turns, round by round, and the round of the shortest step counts. Needs what step_time.py needs; dtc from build/bin.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess

from step_time import BATCH, ROOT, WORK, export
from two_processes import write_data

SCHEDULES = {"gpipe": "", "1f1b": "", "interleaved": ",chunks=2", "zb": "", "zbv": ",chunks=2", "list": ""}
BIN = ROOT / "build" / "bin"


def compile_plan(schedule: str) -> pathlib.Path:
    artifact = WORK / f"schedule-{schedule}.dtc"
    subprocess.run([BIN / "dtc", "compile", export(), "--devices", "2", "--loss", "cross_entropy", "--global-batch", str(BATCH),
                    "--threads-per-rank", "1", "--allow-merged", "--plan",
                    f"pp=2,schedule={schedule},micro_batch=1{SCHEDULES[schedule]}", "-o", artifact],
                   check=True, stdout=subprocess.DEVNULL)
    return artifact


def run(artifact: pathlib.Path, steps: int) -> dict:
    trace = WORK / "schedule.json"
    subprocess.run([BIN / "dtc-run", artifact, "--data", WORK / "two.safetensors", "--no-shuffle", "--steps", str(steps),
                    "--profile", trace], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(subprocess.check_output([BIN / "dtc", "inspect", artifact, "--compare", trace, "--json"]))


def bubble(facts: dict) -> float:
    return (facts["waiting_s"] + facts["exposed_communication_s"]) / facts["step_time_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    export()
    write_data(options.steps)
    artifacts = {schedule: compile_plan(schedule) for schedule in SCHEDULES}
    rounds = [{schedule: run(artifact, options.steps) for schedule, artifact in artifacts.items()} for _ in range(options.rounds)]
    print(f"{'schedule':12}  {'step':>8}  {'predicted':>9}  {'bubble':>6}  {'predicted':>9}")
    for schedule in SCHEDULES:
        both = min((one[schedule] for one in rounds), key=lambda one: one["measured"]["step_time_s"])
        measured, predicted = both["measured"], both["predicted"]
        print(f"{schedule:12}  {measured['step_time_s']:6.3f} s  {predicted['step_time_s']:7.3f} s  {bubble(measured):6.1%}"
              f"  {bubble(predicted):9.1%}")
    if options.output:
        options.output.write_text(json.dumps(rounds, indent=1) + "\n")


if __name__ == "__main__":
    main()
