"""The blocks of docs/Python.md and docs/Tutorial.md run, in order, as a reader would type them. The reference is current."""

import importlib.util
import os
import re

import pytest
from package import MODELS, ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def run_blocks(page: str) -> dict:
    """Runs all blocks of a page in one name space, which is returned with their number."""
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    names: dict = {"number of blocks": len(blocks)}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/{page}, block {number + 1}", "exec"), names)
    return names


def test_every_block_of_the_page_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "test").mkdir()
    os.symlink(MODELS, tmp_path / "test" / "models")
    monkeypatch.chdir(tmp_path)
    assert run_blocks("Python.md")["number of blocks"] == 11
    printed = capsys.readouterr().out
    assert "{'input_ids': ('I64', (8, 32)), 'target': ('I64', (8, 32))}" in printed
    assert re.search(r"unknown cluster: nowhere, neither a file nor among .* 2\n", printed)
    assert {"plan.html", "plan.yaml", "step.json", "trained.safetensors", "gpt2.dtc"} <= set(os.listdir())


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the tutorial needs PyTorch")
    monkeypatch.chdir(tmp_path)
    names = run_blocks("Tutorial.md")
    assert names["number of blocks"] == 9
    losses = names["losses"]
    assert losses[-1] < 0.7 * losses[0]
    assert abs(names["loss"].item() - losses[0]) < 1e-4
    assert {"plan.html", "trained.dtc"} <= set(os.listdir())
    trained = float(capsys.readouterr().out.splitlines()[-1])
    assert trained < 0.7 * losses[0]


def test_the_reference_is_what_the_docstrings_say():
    path = ROOT / "scripts" / "python_reference.py"
    script = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("python_reference", path))
    spec.loader.exec_module(script)
    assert (ROOT / "docs" / "PythonReference.md").read_text() == script.page(), "run scripts/python_reference.py"
