"""What the documents show is what the commands print."""

import re

import pytest

from conftest import ROOT, check_call

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
