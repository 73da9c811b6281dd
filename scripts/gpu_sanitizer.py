"""What compute-sanitizer says of two training steps: the part `sanitizer` of gpu_tests.py.

Its racecheck isn't asked about cuDNN's kernels, in which it reports hazards. Whose kernel each report names is said, so that
those of another library are known as such.
"""

import collections
import glob
import re
import shutil

SANITIZED = [("gpt2", "bf16", 1), ("gpt2", "adamw", 1), ("mlp", "adamw", 1), ("resnet_tiny", "adamw", 1)]
# Races first: memory that isn't ours is what the emulated GPU finds, too.
TOOLS = {"racecheck": ["--kernel-name-exclude", "kns=cudnn"], "memcheck": [], "initcheck": []}
FOUND = 9  # exit code where something is reported
MOST_NAMED = 4


def kernels_named(said: str) -> collections.Counter:
    """How many reports name each kernel: 'Write access at NAME+0x120', and '    at NAME+0x50 in FILE'."""
    names: collections.Counter = collections.Counter()
    for line in said.splitlines():
        if match := re.match(r"=+ .*?\bat (?:void )?([^\s+][^+]*?)(?:\(.*\))?\+0x[0-9a-fA-F]+", line):
            names[match[1]] += 1
    return names


def verdict(code: int, said: str) -> tuple[bool, str]:
    """Whether nothing was found, and what is said of it. A tool that sums up nothing has looked at nothing."""
    sums = [line.strip("= ") for line in said.splitlines() if re.match(r"=+ .*SUMMARY: ", line)]
    if not sums:
        last = (said.strip().splitlines() or [""])[-1].strip("= ")
        return False, f"exit code {code}, without a summary: {last[:160].replace('|', '/')}"
    named = [f"{name} ({count})" for name, count in kernels_named(said).most_common(MOST_NAMED)]
    found = re.search(r"[1-9]\d* (?:error|hazard|warning)", sums[-1]) is not None
    text = sums[-1] + (f"; in {', '.join(named)}" if found and named else "")
    if code and not found:
        text += f", but exit code {code}"
    return code == 0 and not found, text.replace("|", "/")


def rows(machine, cases: list, training):
    """Of each tool and each model that it looks at."""
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    wanted = [case for key in SANITIZED for case in cases if (case["model"], case["recipe"], case["gpus"]) == key]
    for check, flags in TOOLS.items():
        for case in wanted:
            name = f"{check} of {case['name']}"
            if not tool:
                yield name, None, "compute-sanitizer isn't installed"
                continue
            code, said = machine.run(tool, "--tool", check, "--error-exitcode", FOUND, *flags, *training(case, "--steps", 2))
            yield (name, *machine.ended(code, said)) if code == 124 else (name, *verdict(code, said))
