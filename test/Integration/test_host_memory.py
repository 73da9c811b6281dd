"""Offloaded states against the memory of hosts, as answers tell of it."""

import json
import re

import pytest

from conftest import MODELS, call, check_call

COMMON = (MODELS / "gpt2.onnx", "--gpus", 8, "--global-batch", 64)
#: Each of eight ranks has all states: two moments of 4 bytes a parameter.
SPEC = "dp=8,tp=1,pp=1,cp=1,ep=1,zero=0,recompute=none,micro_batch=8,offload=optimizer"
BYTES = 8 * 136960 * 8


@pytest.fixture
def node(tmp_path):
    """A cluster file of 8 H100 whose host has so many bytes, or that doesn't say it."""
    def write(host: float | None):
        path = tmp_path / f"{host}.yaml"
        known = "" if host is None else f"host_memory_gb: {host / 1e9}\n"
        path.write_text(f"device: h100\ndevices_per_node: 8\n{known}intra_node: {{bandwidth_gbs: 450}}\n")
        return path
    return write


def told(*arguments) -> dict:
    return json.loads(check_call("dtc", "plan", *COMMON, *arguments, "--json").out)["predicted"]


def test_answers_tell_of_it():
    kept = told("--plan", SPEC.replace("=optimizer", "=none"))
    assert "host_memory" not in kept
    host = told("--plan", SPEC)["host_memory"]
    assert host == {"node": 0, "ranks": 8, "bytes": BYTES, "capacity_bytes": 2048 * 2**30, "unchecked_nodes": 0}
    out = check_call("dtc", "plan", *COMMON, "--plan", SPEC).out
    assert "offloaded to hosts: 8.36 MiB of 8 ranks in node 0, of 2.00 TiB\n" in out


def test_unknown_is_not_checked_and_said(node):
    predicted = told("--plan", SPEC, "--cluster", node(None))
    assert predicted["fits"]
    assert predicted["host_memory"]["capacity_bytes"] is None and predicted["host_memory"]["unchecked_nodes"] == 1
    out = check_call("dtc", "plan", *COMMON, "--plan", SPEC, "--cluster", node(None)).out
    assert "8.36 MiB of 8 ranks in node 0; not checked: the cluster doesn't say host_memory_gb\n" in out


def test_what_is_short_is_named(node, tmp_path):
    small = node(BYTES - 2**20)
    assert not told("--plan", SPEC, "--cluster", small)["fits"]
    out = check_call("dtc", "plan", *COMMON, "--cluster", small, "--compare", SPEC, SPEC.replace("zero=0", "zero=1")).out
    assert "no, 1.00 MiB of host memory short" in out and "B wins: A doesn't fit" in out
    page = tmp_path / "plan.html"
    check_call("dtc", "plan", *COMMON, "--plan", SPEC, "--cluster", small, "--report", page)
    assert "This plan does not fit into the memory of hosts: 8.36 MiB of 8 ranks in node 0" in page.read_text()
    refused = call("dtc", "plan", *COMMON, "--plan", "dp=8,zero=0,offload=optimizer", "--cluster", small)
    assert refused.code == 4
    assert re.search(r" needs 8.36 MiB of host memory in node 0 for the optimizer states of 8 ranks, there are 7.36 MiB: "
                     r"1.00 MiB short; with zero=\d a plan fits", refused.err), refused.err
