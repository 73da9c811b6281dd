"""docs/HowTo/AddATarget.md: its example is added to a copy of the sources, compiles a model and trains it."""

import json
import re
import subprocess
import zipfile

from changed_build import ChangedBuild
from conftest import BIN, MODELS, ROOT

PAGE = (ROOT / "docs" / "HowTo" / "AddATarget.md").read_text()
FOLDERS = ("include/dtc/Target", "include/dtc-rt", "include/dtc/Driver", "lib/Target", "lib/Driver", "lib/Runtime")


def trained(programs: dict, target: str, folder) -> tuple[list, list]:
    """The losses of three steps, and the artifact's members."""
    artifact, log = folder / f"{target}.dtc", folder / f"{target}.jsonl"
    for command in (
        [programs["dtc"], "compile", MODELS / "gpt2.onnx", "--target", target, "--cluster", "cpu", "--devices", "2",
         "--loss", "cross_entropy", "--global-batch", "4", "--plan", "dp=2", "--no-verify", "-o", artifact],
        [programs["dtc-run"], artifact, "--data", MODELS / "text.bin", "--steps", "3", "--log", log],
    ):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    return [step["loss"] for step in steps if "loss" in step], zipfile.ZipFile(artifact).namelist()


def test_the_example_is_a_target(tmp_path):
    build = ChangedBuild(tmp_path, *FOLDERS)
    files = re.findall(r"^\*\*`([^`]+)`\*\*\n\n```\n(.*?)```$", PAGE, re.S | re.M)
    assert len(files) == 4
    for path, text in files:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    targets, word, platform = re.search(r"```\n(\{.*?)\n```", PAGE, re.S).group(1).splitlines()
    build.insert("lib/Target/Targets.cpp", targets.split("cudaTarget()")[1].removesuffix("}"), before="})\n    if")
    build.insert("lib/Target/Targets.cpp", '#include "dtc/Target/Listed/ListedTarget.h"', before="\nnamespace")
    build.insert("include/dtc/Driver/Options.h", ", Listed", before=" };\nenum class LearningRateSchedule")
    build.insert("include/dtc/Driver/FlagWords.h", word, before="};\n\ntemplate")
    build.insert("lib/Runtime/Platforms.cpp", platform, before="};\n\nconst Entry")
    build.insert("lib/Runtime/Platforms.cpp", '#include "dtc-rt/Listed/ListedPlatform.h"', before="\n#include <algorithm>")

    compiler = [build.compile(path) for path in ("lib/Target/Targets.cpp", "lib/Driver/Flags/CommandLine.cpp",
                                                 "lib/Driver/Frontend.cpp")]
    compiler.append(build.compile(files[1][0], like="lib/Target/CPU/CpuTarget.cpp"))
    runtime = [build.compile("lib/Runtime/Platforms.cpp"),
               build.compile(files[3][0], like="lib/Runtime/CPU/CpuPlatform.cpp")]
    programs = {"dtc": build.link("bin/dtc", compiler + runtime), "dtc-run": build.link("bin/dtc-run", runtime)}
    losses, members = trained(programs, "listed", tmp_path)
    expected, without = trained({name: BIN / name for name in programs}, "cpu", tmp_path)
    assert losses == expected and len(losses) == 3
    assert set(members) - set(without) == {"code/kernels.mlir"}
