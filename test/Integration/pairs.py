#!/usr/bin/env python3
"""Plans exports of one model in different precisions, and says how far their predictions are apart.

    pairs.py FOLDER [--export PYTHON] [--real]

FOLDER has files MODEL-EXPORTER-ATTENTION-TIES-PRECISION.onnx as test/models/pairs.py writes them; with --export they are
made first, by an interpreter that has PyTorch. Each bf16 and fp16 file is planned as its fp32 one, for dtc's own program
and for one of PyTorch's eager mode. The exit code is 1 where a step time or memory is more than 1 % off.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUND = 0.01

#: A node of eight A100, for programs that run every op by itself.
EAGER = """device: a100-80
devices_per_node: 8
intra_node: {bandwidth_gbs: 300, latency_us: 5}
software: {flash_attention: false, fused_norm: false, fused_softmax: false, fused_loss: false, fused_rotary: false,
           compiled: false, caching_allocator: true}
"""
PLAN = ("--gpus", "4", "--loss", "cross_entropy", "--plan", "dp=4,tp=1,pp=1,zero=0,recompute=none", "--json")


class Refused(Exception):
    """The file can't be planned; the text says why."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a plan predicts, but for what the device takes whatever the model is."""

    seconds: float
    bytes: int
    parameters: int

    def error(self, other: Prediction) -> tuple[float, float]:
        """How far step time and memory of `other` are off, relative to these."""
        return other.seconds / self.seconds - 1, other.bytes / self.bytes - 1


def predict(dtc: pathlib.Path, model: pathlib.Path, cluster: str, precision: str, batch: int) -> Prediction:
    """What `dtc plan` predicts of four devices."""
    done = subprocess.run(
        [dtc, "plan", model, *PLAN, "--cluster", cluster, "--precision", precision, "--global-batch", str(batch)],
        capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        raise Refused(done.stderr.strip().splitlines()[-1])
    answer = json.loads(done.stdout)
    memory = dict(answer["predicted"]["memory"])
    del memory["reserved"]
    return Prediction(answer["predicted"]["step_time_s"], sum(memory.values()), answer["model"]["parameters"])


def models(folder: pathlib.Path) -> dict[str, dict[str, pathlib.Path]]:
    """The files of each model by their precision."""
    result: dict[str, dict[str, pathlib.Path]] = collections.defaultdict(dict)
    for path in sorted(folder.glob("*-*.onnx")):
        stem, _, precision = path.stem.rpartition("-")
        result[stem][precision] = path
    return result


def compare(dtc: pathlib.Path, files: dict[str, pathlib.Path], cluster: str, batch: int) -> dict[str, tuple[float, float]]:
    """The errors of each file against the fp32 one, all planned in bf16."""
    wanted = predict(dtc, files["fp32"], cluster, "bf16", batch)
    errors = {}
    for precision, path in files.items():
        got = predict(dtc, path, cluster, "bf16", batch)
        if got.parameters != wanted.parameters:
            raise Refused(f"{path.name} has {got.parameters} parameters instead of {wanted.parameters}")
        errors[precision] = wanted.error(got)
    del errors["fp32"]
    return errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--export", metavar="PYTHON")
    parser.add_argument("--real", action="store_true")
    arguments = parser.parse_args()
    dtc = pathlib.Path(os.environ.get("DTC_BIN", ROOT / "build" / "bin")) / "dtc"
    if arguments.export:
        command = [arguments.export, ROOT / "test" / "models" / "pairs.py", "--output", arguments.folder]
        subprocess.run(command + ["--real"] * arguments.real, check=True)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        eager = pathlib.Path(folder) / "eager.yaml"
        eager.write_text(EAGER)
        for stem, files in models(arguments.folder).items():
            for name, cluster in (("compiled", "dgx-a100"), ("eager", str(eager))):
                try:
                    errors = compare(dtc, files, cluster, batch=32)
                except (Refused, KeyError) as error:
                    print(f"{stem}: {error}", flush=True)
                    worst = 1
                    break
                for precision, (seconds, size) in errors.items():
                    print(f"{stem} {precision} {name}: step time {seconds:+.2%}, memory {size:+.2%}", flush=True)
                    worst = max(worst, abs(seconds), abs(size))
    print(f"largest error {worst:.2%}, {BOUND:.0%} is allowed")
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main())
