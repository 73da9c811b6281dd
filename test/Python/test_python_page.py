"""The blocks of docs/Python.md run, in order, as a reader would type them."""

import os
import re

from package import MODELS, ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def test_every_block_of_the_page_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "test").mkdir()
    os.symlink(MODELS, tmp_path / "test" / "models")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "docs" / "Python.md").read_text())
    assert len(blocks) == 8
    names: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/Python.md, block {number + 1}", "exec"), names)
    printed = capsys.readouterr().out
    assert "{'input_ids': ('I64', (8, 32)), 'target': ('I64', (8, 32))}" in printed
    assert re.search(r"unknown cluster: nowhere, neither a file nor among .* 2\n", printed)
    assert {"plan.html", "plan.yaml", "step.json", "trained.safetensors", "gpt2.dtc"} <= set(os.listdir())
