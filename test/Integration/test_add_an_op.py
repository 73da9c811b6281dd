"""docs/HowTo/AddAnOp.md names the files of an op, and no more than five of them. Its example is added to a copy."""

import re
import subprocess

import pytest

from changed_build import ChangedBuild
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


#: Where the pieces of the example go: before the end of a file's namespace or guard, else to the end.
ENDS = {".td": "#endif", ".cpp": "} // namespace dtc::graph"}
SOFTSIGN = """
func.func @main() -> tensor<4xf32> {
  %x = arith.constant dense<[-3.0, 0.0, 1.0, 0.25]> : tensor<4xf32>
  %y = dtc.softsign %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {check_gradients} {
  %y = dtc.softsign %x : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
"""


def test_the_example_is_an_op(tmp_path):
    """The page's five pieces are compiled; the op's value, gradient and sharding rule are as they should be."""
    pieces = re.findall(r"^\*\*`([^`]+)`\*\*\n\n```\n(.*?)```$", section("softsign"), re.S | re.M)
    assert len(pieces) == 5
    build = ChangedBuild(tmp_path, "include/dtc/Dialect/Graph", "lib/Dialect/Graph")
    for path, text in pieces:
        build.insert(path, text, before=ENDS[path[path.rindex("."):]])
    for name in ("GraphOps.h.inc", "GraphOps.cpp.inc"):
        build.generate(f"include/dtc/Dialect/Graph/{name}")
    changed = [path for path, _ in pieces if path.endswith(".cpp")]
    dtc_opt = build.link("bin/dtc-opt", [build.compile(path) for path in (*changed, "lib/Dialect/Graph/Dialect.cpp")])

    (tmp_path / "softsign.mlir").write_text(SOFTSIGN)

    def answer(*flags: str) -> str:
        done = subprocess.run([dtc_opt, tmp_path / "softsign.mlir", *flags], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "[-0.75, 0, 0.5, 0.2]" in answer("--dtc-interpret")
    assert "gradient ok: 24 elements" in answer("--dtc-check-gradients")
    assert "([a,b])->([a,b]) {a=4,b=6}" in answer("-test-sharding-rule")
    assert "test.shardings = 6 :" in answer("-test-sharding-rule-numerics")
