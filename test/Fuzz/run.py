"""Runs the fuzzers of a build with -DDTC_SANITIZE=address (ninja check-fuzz-sanitized) on seeds that the plain build makes.

    build/venv/bin/python test/Fuzz/run.py build/asan [--inputs 20000] [--minutes 60] [--seed N] [KIND...]

Every kind gets as many inputs. Half of those of models are files that Integration/fuzzing.py mutates, which stay
well-formed; libFuzzer makes the rest, guided by what they reach. A later call goes on where one ended: BUILD/fuzzed.json
counts the inputs of each kind until --again is given. The last line has their number and that of the findings, whose
files stay in BUILD/findings. A finding is an error that AddressSanitizer or UBSan sees, more than ten seconds, or more
than 2 GiB.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test" / "Integration"), str(ROOT / "test" / "Sanitized")]
import flag_words  # noqa: E402
import fuzzing  # noqa: E402
from sanitizers import OPTIONS  # noqa: E402

PROBLEM = ROOT / "test/Unit/Plan/problems/gpt.json"
BATCH = 500  # mutated files at a time
LONGEST = 200_000  # bytes of what libFuzzer makes
FUZZERS = {  # kind: program, seeds' kinds, whether their own mutators are used, too
    "artifact": ("dtc-fuzz-runtime", ["artifact"], False),
    "manifest": ("dtc-fuzz-runtime", ["manifest.json"], False),
    "program": ("dtc-fuzz-runtime", ["program/0.bin"], False),
    "checkpoint": ("dtc-fuzz-runtime", ["checkpoint"], True),
    "arrays": ("dtc-fuzz-runtime", ["safetensors", "npz"], False),
    "data": ("dtc-fuzz-runtime", ["safetensors", "npz"], False),
    "tokens": ("dtc-fuzz-runtime", ["bin"], False),
    "cluster": ("dtc-fuzz-plan", ["cluster"], False),
    "plan": ("dtc-fuzz-plan", ["plan", "plan_gpt2"], False),
    "problem": ("dtc-fuzz-plan", ["problem"], False),
    "settings": ("dtc-fuzz-plan", ["settings"], True),
    "nodes": ("dtc-fuzz-import", ["nodes"], True),
    "model": ("dtc-fuzz-import", ["onnx", "graph"], True),
    "exported": ("dtc-fuzz-import", ["exported"], True),
    "config": ("dtc-fuzz-flags", ["config"], True),
    "flags": ("dtc-fuzz-flags", ["flags"], True),
    "run_flags": ("dtc-fuzz-runtime", ["run_flags"], True),
}


class Record:
    """How many inputs of each kind have run, in a file that a later call goes on with."""

    def __init__(self, path: pathlib.Path, again: bool):
        self.path = path
        self.counts = json.loads(path.read_text()) if path.exists() and not again else {}

    def add(self, kind: str, count: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + count
        self.path.write_text(json.dumps(self.counts))


class Campaign:
    """The inputs of one kind: how many ran, and what they found."""

    def __init__(self, kind: str, build: pathlib.Path, place: pathlib.Path, seed: int, record: Record):
        self.kind, self.build, self.place, self.seed, self.record = kind, build, place, seed, record
        self.done = self.found = 0

    def call(self, folder: pathlib.Path, runs: int) -> int | None:
        """Runs the fuzzer on a folder: its files alone where `runs` is 0. How many inputs it says to have run."""
        findings = self.build / "findings"
        findings.mkdir(exist_ok=True)
        artifact = self.place / ("gpt2.dtc" if self.kind in ("tokens", "program") else "mlp.dtc")
        command = [self.build / "bin" / FUZZERS[self.kind][0], folder, f"-runs={runs}", f"-seed={self.seed + self.found}",
                   "-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=2048", f"-artifact_prefix={findings}/{self.kind}-",
                   "-print_final_stats=1", f"-max_len={LONGEST if runs else 4_000_000}", "-len_control=0", "-verbosity=0",
                   "-detect_leaks=0", f"--kind={self.kind}", f"--artifact={artifact}", f"--problem={PROBLEM}"]
        ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace",
                               env=os.environ | OPTIONS)
        executed = re.search(r"stat::number_of_executed_units: *(\d+)", ended.stderr)
        if ended.returncode:
            self.found += 1
            print(ended.stderr[-4000:], flush=True)
        if not executed:
            return None
        self.done += int(executed.group(1))
        self.record.add(self.kind, int(executed.group(1)))
        return int(executed.group(1))

    def mutated(self, given: list[fuzzing.Kind], inputs: int, until: float) -> None:
        """Files that stay well-formed, as `fuzzing.py` makes them."""
        rng = random.Random(self.seed)
        folder = self.place / f"{self.kind}-mutated"
        while inputs > 0 and self.found < 5 and time.monotonic() < until:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for number in range(min(inputs, BATCH)):
                kind = rng.choice(given)
                (folder / str(number)).write_bytes(kind.mutate(rng.choice(kind.seeds), rng))
            count = self.call(folder, 0)
            if count is None:
                break
            inputs -= count

    def guided(self, inputs: int, until: float) -> None:
        """libFuzzer's own, in rounds, so that time can end them."""
        while inputs > 0 and self.found < 5 and time.monotonic() < until:
            count = self.call(self.place / self.kind, min(inputs, 5000))
            if count is None:
                break
            self.seed += 1
            inputs -= count


def further_kinds(folder: pathlib.Path) -> dict[str, fuzzing.Kind]:
    """Inputs that are read in process alone: what a checkpoint says of itself, and other programs' settings."""
    fuzzing.run_dtc("dtc-run", folder / "mlp.dtc", "--data", fuzzing.MODELS / "mlp.data.safetensors", "--steps", 1,
                    "--checkpoint-dir", folder / "saved")
    content = json.loads((folder / "saved/step-1/checkpoint.json").read_text())["content"]
    settings = [path.read_bytes() for path in sorted((ROOT / "test/Integration/tool_settings").glob("*.txt"))]
    return {"checkpoint": fuzzing.Kind(".json", [json.dumps(content).encode()], fuzzing.mutate_json, []),
            "settings": fuzzing.Kind(".txt", settings, fuzzing.mutate_text, [])}


def seeds(folder: pathlib.Path, names: list[str], kinds: dict[str, fuzzing.Kind]) -> None:
    """Writes the unharmed inputs of a kind as files, but for those that libFuzzer would cut."""
    folder.mkdir()
    for name in names:
        if name in kinds:
            contents = kinds[name].seeds
        else:  # a member of an artifact
            contents = [fuzzing.members_of(each)[name] for each in kinds["manifest"].seeds]
        for number, content in enumerate(each for each in contents if len(each) <= LONGEST):
            (folder / f"{name.replace('/', '-')}-{number}").write_bytes(content)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--inputs", type=int, default=20_000, help="of each kind")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("kinds", nargs="*", choices=[*FUZZERS, []])
    options = parser.parse_intermixed_args()
    build, until = options.build.resolve(), time.monotonic() + 60 * options.minutes
    record = Record(build / "fuzzed.json", options.again)
    chosen = options.kinds or list(FUZZERS)
    total = wrong = 0
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        made = fuzzing.prepare(pathlib.Path(folder))
        made |= further_kinds(pathlib.Path(folder))
        # Of these but the reading is tried: what they ask for would run.
        made["run_flags"] = fuzzing.Kind(".txt", flag_words.lines(flag_words.DTC_RUN), flag_words.mutate_words, [])
        for kind in chosen:
            campaign = Campaign(kind, build, pathlib.Path(folder), options.seed, record)
            seeds(campaign.place / kind, FUZZERS[kind][1], made)
            left = options.inputs - record.counts.get(kind, 0)
            if FUZZERS[kind][2]:
                campaign.mutated([made[name] for name in FUZZERS[kind][1]], left - left // 2, until)
            campaign.guided(left - campaign.done, until)
            count = record.counts.get(kind, 0)
            print(f"{kind}: {count} inputs, {campaign.done} of them now, {campaign.found} findings", flush=True)
            total, wrong = total + count, wrong + campaign.found
    print(f"{total} inputs, {wrong} findings")
    return int(wrong > 0 or any(record.counts.get(kind, 0) < options.inputs for kind in chosen))


if __name__ == "__main__":
    sys.exit(main())
