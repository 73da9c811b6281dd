"""What the documents show is what the commands print."""

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from conftest import BIN, MODELS, ROOT, call, check_call, encode_model

SECTION = (ROOT / "docs" / "OneLayer.md").read_text()


def plain(line: str) -> str:
    """Without what the text leaves out: roles, numbers of ops where nothing else is said, spaces."""
    return re.sub(r"\s+", " ", re.sub(r" \{dtc\.id = \d+ : i64\}", "", line)).strip()


def matches(shown: str, line: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in plain(shown).split("..."))
    return re.fullmatch(pattern, plain(line)) is not None


@pytest.mark.parametrize("phase", ["import", "train", "plan", "partition", "schedule"])
def test_the_example_is_what_is_printed(phase):
    command = re.search(r"`dtc (compile .*?) --emit PHASE`", SECTION, re.S).group(1).split()
    command = [str(ROOT / part) if part.endswith(".onnx") else part for part in command]
    part = SECTION.split(f"**{phase}.**")[1].split("**")[0]
    shown = [line for line in part.splitlines() if line.startswith("    ")]
    assert shown
    printed = iter(check_call("dtc", *command, "--emit", phase).out.splitlines())
    for line in shown:  # in this order
        assert any(matches(line, other) for other in printed), line


@pytest.mark.parametrize("page", ["README.md", "docs/Tools.md"])
def test_settings_of_another_program_are_as_the_page_shows(page):
    """Long comments are cut by dots, and lines may be left out."""
    example = re.search(r"^    dtc (plan test/[^\n]* --for [\w-]+)$.*?^```\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    command = [str(ROOT / part) if part.endswith(".onnx") else part for part in example.group(1).split()]
    shown = example.group(2).splitlines()
    assert len(shown) > 3
    printed = iter(check_call("dtc", *command).out.splitlines())
    for line in shown:  # in this order
        assert any(matches(line, other) for other in printed), line


def test_the_plan_of_the_main_job_is_as_pages_show():
    """But for how much memory this machine has. The README leaves lines out, and has the run's last one."""
    def without_room(line: str) -> str:
        return re.sub(r"; of [\d.]+ [KMGT]iB$", "", plain(line).removeprefix("test/models/"))

    printed = check_call("dtc", "plan", "test/models/gpt2.onnx", "--devices", 4, "--target", "cpu", "--loss", "cross_entropy",
                         "--optimizer", "adamw", "--global-batch", 8, cwd=ROOT).out
    lines = [without_room(line) for line in printed.splitlines()]
    for page, whole in (("docs/Plans.md", True), ("README.md", False)):
        block = re.search(r"^```\n((?:test/models/)?gpt2\.onnx: .*?)^(?:```|\n)", (ROOT / page).read_text(), re.M | re.S)[1]
        shown = [without_room(line) for line in block.splitlines()]
        assert shown == (lines if whole else [line for line in lines if line in shown]), page


def test_the_refused_model_is_refused_as_the_page_says(tmp_path):
    page = (ROOT / "docs" / "HowTo" / "AModelThatDoesNotImport.md").read_text()
    encode_model(re.search(r"```\n(.*?)```", page, re.S).group(1), tmp_path / "tripled.onnx")
    lines = [line.strip() for line in page.splitlines() if line.startswith("    dtc")]
    refused = call(*lines[0].split(), cwd=tmp_path)
    message = lines[1]
    assert (refused.code, refused.err.strip()) == (3, message)


def test_pages_link_to_what_is_there():
    wrong = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http") and not (page.parent / target).exists():
                wrong.append(f"{page.relative_to(ROOT)}: {target}")
    assert not wrong, "\n".join(wrong)


#: Made by programs: scripts/gpu_tests.py, and docstrings.
GENERATED = {"GpuResults.md", "PythonReference.md"}


def sentences(page: Path):
    """Of paragraphs and lists; tables and blocks of code are left out."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    prose = re.sub(r"^(?: {4}|\||#).*$", "", prose, flags=re.M)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", prose):
        text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "Code", " ".join(paragraph.split())))
        yield from re.split(r"(?<=[.!?])[)\]*\"]*\s+(?=\[|[(*\"]*(?:[A-Z0-9]|cuDNN|dtc))", text)


def test_sentences_are_short():
    """CONTRIBUTING.md has it."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [(page.name, sentence) for page in pages if page.name not in GENERATED for sentence in sentences(page)]
    assert len(found) > 2000
    assert [each for each in found if len(re.findall(r"\S*\w\S*", each[1])) > 25] == []


def test_each_schedule_has_a_file_and_a_line():
    """docs/HowTo/AddASchedule.md; test_add_schedule.py does what it says."""
    kinds = ROOT / "lib" / "Schedule" / "Kinds"
    listed = (ROOT / "include" / "dtc" / "Schedule" / "Schedules.def").read_text()
    names = re.findall(r"^DTC_SCHEDULE\((\w+)\)", listed, re.M)
    assert sorted(names) == sorted(path.stem for path in kinds.glob("*.cpp"))


def test_a_target_answers_the_questions_that_the_page_lists():
    page = (ROOT / "docs" / "HowTo" / "AddATarget.md").read_text()
    header = (ROOT / "include" / "dtc" / "Target" / "Target.h").read_text()
    questions = re.findall(r"(\w+)\([^()]*\) const = 0", header.split("class Target {")[1])
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == questions
    lines = [line.strip() for line in re.sub(r"```.*?```", "", page, flags=re.S).splitlines() if line.startswith("    ")]
    lists = ("lib/Target/Targets.cpp", "include/dtc/Driver/FlagWords.h", "lib/Runtime/Platforms.cpp")
    for line, listed in zip(lines, lists, strict=True):
        assert line in (ROOT / listed).read_text()


def test_cluster_files_of_the_page_are_read(tmp_path):
    examples = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "Clusters.md").read_text(), re.S)
    assert len(examples) == 3
    for text in examples:
        (tmp_path / "cluster.yaml").write_text(text)
        out = check_call("dtc", "plan", MODELS / "mlp.onnx", "--devices", 32, "--cluster", tmp_path / "cluster.yaml",
                         "--global-batch", 64, "--plan", "dp=32,tp=1").out
        assert "MFU" in out, out


def blocks_of_commands(page: Path) -> list[str]:
    """Indented lines that stand together and begin with a compilation."""
    blocks = re.findall(r"(?:^    \S.*\n)(?:^    .*\n)*", page.read_text(), re.M)
    return [textwrap.dedent(block) for block in blocks if block.startswith("    dtc compile")]


README_JOBS = blocks_of_commands(ROOT / "README.md")


@pytest.mark.parametrize("job", range(2), ids=["cpu", "emulated-gpus"])
def test_jobs_of_the_readme_run_as_it_has_them(tmp_path, job):
    """In a folder where `test` and `build` are those of the project."""
    assert len(README_JOBS) == 2 and ("gpu-emulator" in README_JOBS[job]) == bool(job)
    (tmp_path / "test").symlink_to(ROOT / "test")
    (tmp_path / "build").symlink_to(BIN.parent)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DTC_CUDA")}
    done = subprocess.run(["bash", "-e", "-c", README_JOBS[job]], cwd=tmp_path, capture_output=True, text=True,
                          env=environment | {"PATH": f"{BIN}:{os.environ['PATH']}"}, timeout=300)
    assert done.returncode == 0, done.stderr
    steps = re.search(r"--steps (\d+)", README_JOBS[job])[1]
    assert re.search(rf"^{steps} steps, loss \d+\.\d+ -> \d+\.\d+, ", done.stdout, re.M), done.stdout


def test_quickstart_is_the_readmes_main_job():
    script = (ROOT / "scripts" / "quickstart.sh").read_text().replace("build/quickstart/", "")
    jobs = script[script.index("dtc compile"):]
    assert jobs.replace("\\\n", "").split() == README_JOBS[0].replace("\\\n", "").split()
