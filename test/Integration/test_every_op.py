"""Every op of the dialect is in the lit tests that prove what it says: that it prints and parses, that its verifier
refuses, its sharding rule, its gradient and its kernel. So no op lives by a default that nobody looked at."""

import functools
import re

import pytest
from changed_build import table_records
from conftest import ROOT


def declared() -> dict[str, str]:
    """The text of each op's declaration, by its name."""
    ops = {}
    for path in sorted((ROOT / "include/dtc/Dialect/Graph").glob("*.td")):
        for text in re.split(r"^(?=def |class )", path.read_text(), flags=re.M):
            if match := re.match(r'def Graph_\w+\s*:\s*\w+<\s*"(\w+)"', text):
                ops[match[1]] = text
    return {name: text for name, text in ops.items() if re.match(r"def Graph_\w+Op\b", text)}


OPS = declared()
#: What has no operands or results: it declares a symbol.
SYMBOLS = {"parameter"}
#: Formed where a target's blocks would read all indices; CPUs refuse it.
FOR_GPUS = {"bucket_indices"}
#: Its gradient is none by definition, not what differences are.
WITHOUT_DIFFERENCES = {"stop_gradient"}


@functools.cache
def lit_text(folder: str, run: str) -> str:
    """The functions of the lit tests in a folder of which a line runs this."""
    texts = [path.read_text() for path in sorted((ROOT / "test" / folder).rglob("*.mlir"))]
    return "\n".join(text for text in texts if re.search(rf"^// RUN: .*{run}", text, re.M))


def lacking(ops, *tests: tuple[str, str]) -> list[str]:
    text = "\n".join(lit_text(*test) for test in tests)
    return [op for op in ops if not re.search(rf"^[^/\n]*\bdtc\.{op}\b", text, re.M)]


def test_all_ops_are_found():
    assert len(OPS) >= 46 and {"grouped_contract", "max_pool", "softmax"} <= set(OPS)


def test_no_interface_has_defaults():
    """So an op that has an interface, and doesn't answer each of its questions, isn't compiled."""
    texts = [path.read_text() for path in (ROOT / "include/dtc/Interfaces").glob("*.td")]
    names = re.findall(r'"(\w+)",\s*\(ins\b', "".join(texts))
    assert len(names) >= 9 and {"getReach", "hasOwnLoops", "buildLocal", "isStatistic"} <= set(names)
    records = table_records("include/dtc/Dialect/Graph/GraphOps.h.inc")
    methods = re.findall(r"^def \w+ \{\t// InterfaceMethod\n(.*?)^\}", records, re.S | re.M)
    for name in names:
        found = [method for method in methods if f'string name = "{name}";' in method]
        assert found, name
        assert all("code defaultBody = [{}];" in method for method in found), name


def test_ops_print_and_parse():
    ops = [op for op in OPS if op not in SYMBOLS]
    assert lacking(ops, ("", r"dtc-opt %s \| dtc-opt"), ("", "verify-roundtrip")) == []


def test_verifiers_refuse():
    ops = [op for op, text in OPS.items() if "hasVerifier = 1" in text]
    assert len(ops) > 20
    assert lacking(ops, ("Graph", "verify-diagnostics")) == []


def test_sharding_rules_are_proved_on_ranks():
    ops = [op for op in OPS if op not in SYMBOLS]
    assert lacking(ops, ("Graph", "test-sharding-rule-numerics"), ("Partition", "partition")) == []


def test_gradients_are_compared_with_differences():
    ops = [op for op, text in OPS.items() if re.search(r"\bDifferentiable\b", text) and op not in WITHOUT_DIFFERENCES]
    assert len(ops) > 15
    assert lacking(ops, ("Training/Gradients", "dtc-check-gradients")) == []


@pytest.mark.parametrize("target", ["CPU"])
def test_kernels_are_compared_with_the_interpreter(target):
    """Where an element comes from (getReach) and whether an op has loops of its own are no more than stated."""
    ops = [op for op, text in OPS.items() if re.search(r"\bInKernels\b", text)]
    assert len(ops) > 10
    assert lacking(set(ops) - FOR_GPUS, (f"Target/{target}", "test-run-kernels")) == []
    assert lacking(FOR_GPUS, ("Target/CUDA", "%if gpu .*test-run-cuda-kernels")) == []
