"""Processor seconds that two sets of binaries take for a fixed list of commands.

The sets take turns, and of each command the smallest figure counts: other work on the machine makes a command slower,
never faster. Where the ratio is above the limit, more rounds are made before it is believed.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "Integration"))

import llama_graph  # noqa: E402

MODELS = ROOT / "test" / "models"
#: How many times the rounds that were asked for are made where the ratio is above the limit.
PATIENCE = 3

COMPILED = ["gpt2", "llama", "resnet_tiny", "bert", "t5", "bart", "convnext", "moe"]
#: Llamas that are planned freely: layers, GPUs and global batch, each in the sizes of the 7B.
PLANNED = [(8, 8, 64), (32, 64, 256), (32, 512, 1024), (80, 256, 512)]


@dataclasses.dataclass(frozen=True)
class Command:
    kind: str  # compile or plan
    name: str
    arguments: tuple[str, ...]


def commands(folder: pathlib.Path) -> list[Command]:
    """The fixed list; graphs and artifacts lie in the folder."""
    found = []
    for model in COMPILED:
        found.append(Command("compile", model, (
            "compile", str(MODELS / f"{model}.onnx"), "--devices", "4", "--plan", "dp=2,tp=2", "--loss", "cross_entropy",
            "--global-batch", "8", "-o", str(folder / "artifact.dtc"))))
    small = llama_graph.write(folder / "llama.onnx", llama_graph.Llama(24, 128, 4, 4, 352, 1024, 64))
    found.append(Command("compile", "24 layers", (
        "compile", str(small), "--devices", "4", "--init", "--loss", "cross_entropy", "--global-batch", "8", "-o",
        str(folder / "artifact.dtc"))))
    for layers, gpus, batch in PLANNED:
        size = dataclasses.replace(llama_graph.LLAMA_7B, layers=layers)
        graph = llama_graph.write(folder / f"llama{layers}.onnx", size)
        found.append(Command("plan", f"{layers} layers on {gpus} GPUs", (
            "plan", str(graph), "--gpus", str(gpus), "--loss", "cross_entropy", "--precision", "bf16", "--global-batch",
            str(batch), "--json")))
    found += [Command("plan", model, ("plan", str(MODELS / f"{model}.onnx"), "--gpus", "8", "--loss", "cross_entropy",
                                      "--global-batch", "64", "--json")) for model in ("mixtral", "bert", "t5")]
    return found


def processor_seconds(dtc: pathlib.Path, command: Command) -> float:
    process = subprocess.Popen([dtc, *command.arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"behaviour: {dtc} {' '.join(command.arguments)} ends with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


class Comparison:
    """The smallest figures of each command so far, before and after."""

    def __init__(self, before: pathlib.Path, after: pathlib.Path, listed: list[Command]) -> None:
        self.binaries = (before / "dtc", after / "dtc")
        self.least = {command: [float("inf"), float("inf")] for command in listed}
        self.rounds = 0

    def round(self) -> None:
        """Each command by both, in turn first."""
        for command, least in self.least.items():
            for which in (0, 1) if self.rounds % 2 == 0 else (1, 0):
                least[which] = min(least[which], processor_seconds(self.binaries[which], command))
        self.rounds += 1

    def sums(self, kind: str) -> tuple[float, float]:
        figures = [least for command, least in self.least.items() if command.kind == kind]
        return sum(before for before, _ in figures), sum(after for _, after in figures)

    def ratio(self, kind: str) -> float:
        before, after = self.sums(kind)
        return after / before

    def within(self, limit: float) -> bool:
        return all(self.ratio(kind) <= limit for kind in ("compile", "plan"))


def report(before: pathlib.Path, after: pathlib.Path, rounds: int, limit: float) -> int:
    """Prints the figures. Returns 1 where compiling or planning takes longer than the limit."""
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(before, after, commands(pathlib.Path(folder)))
        while comparison.rounds < rounds or (comparison.rounds < PATIENCE * rounds and not comparison.within(limit)):
            comparison.round()
    for command, (old, new) in comparison.least.items():
        print(f"{command.kind:8} {command.name:24} {old:8.3f} {new:8.3f}  {new / old:.3f}")
    for kind in ("compile", "plan"):
        old, new = comparison.sums(kind)
        print(f"{kind:8} {'all':24} {old:8.3f} {new:8.3f}  {new / old:.3f}")
    good = comparison.within(limit)
    print(f"processor seconds before and after, the least of {comparison.rounds} rounds; "
          f"{'within' if good else 'NOT within'} {100 * (limit - 1):.0f} % of before")
    return 0 if good else 1
