"""The problems that unit tests read are what is extracted today, by the commands of their README."""

import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT, check_call

FOLDER = ROOT / "test" / "Unit" / "Plan" / "problems"
README = (FOLDER / "README.md").read_text()
MADE = {name: options.split() for options, name in re.findall(r"python3 make\.py (.+) > (\w+)\.mlir", README)}
TRAINED = {name: options for options, name in re.findall(r'dtc-opt --dtc-train="(.+)" (\w+)\.mlir', README)}


def test_each_problem_has_its_command():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(MADE)


@pytest.mark.parametrize("name", sorted(MADE))
def test_problem_is_what_is_extracted(name, tmp_path):
    graph, trained = tmp_path / "graph.mlir", tmp_path / "trained.mlir"
    made = subprocess.run([sys.executable, FOLDER / "make.py", *MADE[name]], capture_output=True, text=True, check=True)
    graph.write_text(made.stdout)
    check_call("dtc-opt", f"--dtc-train={TRAINED.get(name, '')}".rstrip("="), graph, "-o", trained)
    extracted = check_call("dtc-opt", trained, "--dtc-print-problem", "-o", "/dev/null").out
    assert json.loads(extracted) == json.loads((FOLDER / f"{name}.json").read_text())
