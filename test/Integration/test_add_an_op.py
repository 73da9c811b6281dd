"""docs/HowTo/AddAnOp.md names the files of an op, and no more than five of them."""

import re

import pytest

from conftest import ROOT

TEXT = (ROOT / "docs" / "HowTo" / "AddAnOp.md").read_text()
# Where an op is used rather than defined, and the targets' kernels, which the text has apart.
ELSEWHERE = ("lib/Import/", "lib/Raise/", "include/dtc/Kernels/", "lib/Kernels/", "lib/Target/")


def section(op: str) -> str:
    return re.search(rf"^## .*`dtc\.{op}`\n(.*?)^## ", TEXT, re.S | re.M).group(1)


def documented(op: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", section(op), re.M))


def defining(name: str) -> set[str]:
    found = set()
    for top in ("include/dtc", "lib"):
        for path in (ROOT / top).rglob("*"):
            relative = path.relative_to(ROOT).as_posix()
            if path.suffix in (".cpp", ".h", ".td") and not relative.startswith(ELSEWHERE) \
                    and re.search(rf"\b(Graph_)?{name}\b", path.read_text()):
                found.add(relative)
    return found


@pytest.mark.parametrize("op, name", [("rms_norm", "RmsNormOp"), ("top_k", "TopKOp")])
def test_the_files_of_an_op_are_those_of_the_text(op, name):
    assert documented(op) == defining(name)
    assert 3 <= len(documented(op)) <= 5


def test_every_place_that_is_named_exists():
    for name in re.findall(r"`((?:lib|test|include)/[^`]*)`", TEXT):
        assert list(ROOT.glob(name)) if "*" in name else (ROOT / name).exists(), name


def test_every_interface_that_is_named_is_one():
    interfaces = "".join(path.read_text() for path in (ROOT / "include/dtc/Interfaces").glob("*"))
    methods = re.findall(r"^- \*\*`(\w+)`\*\*", TEXT, re.M)
    assert len(methods) >= 5
    for method in methods:
        assert re.search(rf"\b{method}\b", interfaces), method
