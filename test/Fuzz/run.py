"""Runs the fuzzers of a build with -DDTC_FUZZ=ON (ninja check-fuzz-sanitized) on seeds that the plain build makes.

    build/venv/bin/python test/Fuzz/run.py build/fuzz --inputs 20000 [--seed N] [KIND...]

Every kind gets as many inputs. The last line is their number and that of the findings, whose files stay in
BUILD/findings. A finding is an error that AddressSanitizer or UBSan sees, more than ten seconds, or more than 2 GiB.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "Integration"))
import fuzzing  # noqa: E402

PROBLEM = ROOT / "test/Unit/Plan/problems/gpt.json"
FUZZERS = {  # kind: program, seeds' kind, flags
    "artifact": ("dtc-fuzz-runtime", ["artifact"]),
    "manifest": ("dtc-fuzz-runtime", ["manifest.json"]),
    "program": ("dtc-fuzz-runtime", ["program/0.bin"]),
    "arrays": ("dtc-fuzz-runtime", ["safetensors", "npz"]),
    "data": ("dtc-fuzz-runtime", ["safetensors", "npz"]),
    "tokens": ("dtc-fuzz-runtime", ["bin"]),
    "cluster": ("dtc-fuzz-plan", ["cluster"]),
    "plan": ("dtc-fuzz-plan", ["plan", "plan_gpt2"]),
    "problem": ("dtc-fuzz-plan", ["problem"]),
    "model": ("dtc-fuzz-import", ["bytes", "onnx"]),
    "exported": ("dtc-fuzz-import", ["exported"]),
    "config": ("dtc-fuzz-flags", ["config"]),
}


def seeds(folder: pathlib.Path, names: list[str], kinds: dict[str, fuzzing.Kind]) -> None:
    """Writes the unharmed inputs of a kind as files."""
    folder.mkdir()
    for name in names:
        if name in kinds:
            contents = kinds[name].seeds
        else:  # a member of an artifact
            contents = [fuzzing.members_of(each)[name] for each in kinds["manifest"].seeds]
        for number, content in enumerate(contents):
            (folder / f"{name.replace('/', '-')}-{number}").write_bytes(content)


def fuzz(build: pathlib.Path, kind: str, place: pathlib.Path, inputs: int, seed: int) -> tuple[int, int]:
    """How many inputs ran, and how many were findings."""
    program = FUZZERS[kind][0]
    findings = build / "findings"
    findings.mkdir(exist_ok=True)
    done = found = 0
    artifact = place / ("gpt2.dtc" if kind in ("tokens", "program") else "mlp.dtc")
    while done < inputs and found < 5:
        command = [build / "bin" / program, place / kind, f"-runs={inputs - done}", f"-seed={seed + found}", "-timeout=10",
                   "-rss_limit_mb=2048", "-malloc_limit_mb=2048", f"-artifact_prefix={findings}/{kind}-", "-print_final_stats=1",
                   "-max_len=200000", "-len_control=0", "-verbosity=0", "-detect_leaks=0",
                   f"--kind={kind}", f"--artifact={artifact}", f"--problem={PROBLEM}"]
        ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace",
                               env=os.environ | {"ASAN_OPTIONS": "detect_container_overflow=0:allocator_may_return_null=1",
                                                 "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"})
        executed = re.search(r"stat::number_of_executed_units: *(\d+)", ended.stderr)
        done += int(executed.group(1)) if executed else 0
        if ended.returncode:
            found += 1
            print(ended.stderr[-4000:], flush=True)
            if not executed:
                break
    return done, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--inputs", type=int, default=20_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("kinds", nargs="*", choices=[*FUZZERS, []])
    options = parser.parse_intermixed_args()
    build = options.build.resolve()
    total = wrong = 0
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        made = fuzzing.prepare(folder)
        for kind in options.kinds or FUZZERS:
            shutil.rmtree(folder / kind, ignore_errors=True)
            seeds(folder / kind, FUZZERS[kind][1], made)
            done, found = fuzz(build, kind, folder, options.inputs, options.seed)
            print(f"{kind}: {done} inputs, {found} findings", flush=True)
            total, wrong = total + done, wrong + found
    print(f"{total} inputs, {wrong} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
