"""Kernels keep to registers: by ptxas' own account none spills or has a stack frame, for any architecture, model or plan.

dtc asks ptxas for kernels that it hasn't got yet alone (test_cubins.py). So a kernel is assembled once, whatever models
and plans of this file have it. A part always runs; `ninja -C build check-cuda` runs all (DTC_ALL_OF_CUDA=1).
"""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import BIN, MODELS, ROOT, call
from test_cuda import CUDA, PTXAS, members
from test_cuda_models import EXPERTS, LANGUAGE, PLANS, VISION
from test_pipelines import PIPELINES

pytestmark = pytest.mark.skipif(not PTXAS.exists(), reason="needs ptxas, which scripts/install.sh --tests installs")

ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]
PRECISIONS = ["fp32", "bf16", "fp16"]
# gpt2_fake.pt2 has no weights, which kernels don't see.
PROGRAMS = sorted(str(path.relative_to(MODELS)) for path in MODELS.rglob("*.pt2") if path.stem != "gpt2_fake")
SPLIT = [
    *PLANS, *PIPELINES,
    (2, "dp=2,zero=1"), (2, "dp=2,zero=2"), (2, "dp=2,zero=3,micro_batch=2"), (4, "dp=2,tp=2,zero=3"), (2, "tp=2,sp=on,regather=on"),
    (2, "cp=2,cp_by=keys"), (2, "cp=2,cp_by=heads"), (2, "cp=2,cp_by=ring"), (4, "dp=2,cp=2,cp_by=ring"),
    (1, "recompute=full"), (2, "tp=2,recompute=full"), (2, "pp=2,recompute=full,micro_batch=2"), (4, "dp=2,zero=3,pp=2,micro_batch=2"),
    (1, "offload=optimizer"), (2, "dp=2,zero=2,offload=optimizer"),
]
OF_IMAGES = [(2, "dp=2"), (2, "tp=2"), (2, "dp=2,zero=3"), (2, "pp=2,micro_batch=2"), (1, "recompute=full")]
RECIPES = [
    ("--optimizer", "sgd"), ("--optimizer", "adam"), ("--optimizer", "sgd", "--momentum", "0.9", "--nesterov"),
    ("--clip-grad-norm", "1"), ("--label-smoothing", "0.1"), ("--lora", "rank=4"),
]
ONE = (1, "dp=1")

FEW = [(2, "tp=2,sp=on"), (2, "dp=2,zero=3,micro_batch=2"), (2, "pp=2,dp=1,schedule=zbv,micro_batch=1"), (1, "recompute=full"),
       (2, "cp=2,cp_by=keys")]

CASES = list(dict.fromkeys([
    *((f"{model}.onnx", precision, *ONE) for model in ["mlp", *LANGUAGE, *VISION] for precision in PRECISIONS),
    *((program, "bf16", *ONE) for program in PROGRAMS),
    *((program, "fp32", *ONE) for program in PROGRAMS if not (MODELS / program).with_suffix(".onnx").exists()),
    *((f"{model}.onnx", precision, *plan) for plan in SPLIT for model, precision in (("gpt2", "bf16"), ("llama", "bf16"), ("gpt2", "fp32"))),
    *((f"{model}.onnx", "bf16", *plan) for model in ("t5", "bart", "bert", "gpt2_mask", "mistral") for plan in FEW),
    *((f"{model}.onnx", "bf16", *plan) for model in ("moe", "mixtral") for plan in EXPERTS),
    *((f"{model}.onnx", "bf16", *plan) for model in VISION for plan in OF_IMAGES),
    *((f"{model}.onnx", "bf16", *ONE, *recipe) for model in ("gpt2", "resnet_tiny") for recipe in RECIPES),
    *((f"{model}.onnx", "bf16-true", *ONE) for model in ("gpt2", "llama", "resnet_tiny")),
]))  # plans have one device, too
ALWAYS = {
    ("mlp.onnx", "fp32", *ONE), ("gpt2.onnx", "fp32", *ONE), ("llama.onnx", "bf16", *ONE), ("moe.onnx", "bf16", *ONE),
    ("convnext.onnx", "bf16", *ONE), ("t5.onnx", "fp16", *ONE), ("gpt2.onnx", "bf16", 2, "cp=2,cp_by=ring"),
    ("llama.onnx", "bf16", 2, "pp=2,dp=1,schedule=zbv,micro_batch=1"),
}
assert ALWAYS <= set(CASES)
ALL = bool(os.environ.get("DTC_ALL_OF_CUDA"))


class Assembler:
    """A ptxas that notes its last account of each kernel, and a cache that all tests share."""

    def __init__(self, folder: pathlib.Path):
        self.accounts, self.count, tool = folder / "accounts", 0, folder / "ptxas"
        self.accounts.mkdir()
        tool.write_text(f"""#!/bin/sh
account={self.accounts}/$(basename $(dirname $2))
{PTXAS} "$@" -v 2>$account
code=$?
cat $account >&2
exit $code
""")
        tool.chmod(0o755)
        self.environment = os.environ | {"DTC_PTXAS": str(tool), "DTC_KERNEL_CACHE": str(folder / "cache")}

    def take(self) -> list[str]:
        """The accounts since they were taken last."""
        files = list(self.accounts.iterdir())
        texts = [file.read_text() for file in files]
        for file in files:
            file.unlink()
        self.count += len(files)
        return texts


@pytest.fixture(scope="module")
def assembler(tmp_path_factory) -> Assembler:
    return Assembler(tmp_path_factory.mktemp("registers"))


@pytest.mark.parametrize("case", [pytest.param(case, id="-".join(map(str, case))) for case in CASES if ALL or case in ALWAYS])
def test_models_and_plans(assembler, tmp_path, case):
    """Local memory is where a GPU puts what registers can't hold. There is none, and no function is called."""
    model, precision, devices, plan, *flags = case
    path = tmp_path / "model.dtc"
    done = call("dtc", "compile", MODELS / model, "--precision", precision, "--devices", devices, "--plan", plan, *flags, *CUDA,
                "--loss", "cross_entropy", "--global-batch", 8, "--init", "-o", path, env=assembler.environment)
    if done.code == 3 and case not in ALWAYS:
        pytest.skip(f"refused: {done.error_line()}")
    assert done.code == 0, done.err
    made = members(path)
    ptx = made["code/kernels.ptx"].decode()
    for word in (".local", "call.uni", ".extern", "atom."):
        assert word not in ptx, word
    wanted = {f"code/{architecture}/{kernel}.cubin" for architecture in ARCHITECTURES
              for kernel in re.findall(r"\.entry (\w+)\(", ptx)}
    assert wanted == {name for name in made if name.endswith(".cubin")} and len(wanted) >= 3 * 3
    for account in assembler.take():
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", account)
        assert set(frames) == {("0", "0", "0")}, account


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tiles_of_experts(tmp_path, architecture):
    """Of sizes that no test model has: sums of products take most registers there are."""
    made = subprocess.run([BIN / "dtc-opt", "--target=cuda", ROOT / "test" / "Target" / "CUDA" / "tiles_of_experts.mlir", "--dtc-decompose-layers",
                           "--dtc-form-kernels", "--test-emit-ptx", "-o", os.devnull], capture_output=True, text=True, check=True)
    (tmp_path / "kernels.ptx").write_text(made.stdout)
    account = subprocess.run([PTXAS, f"-arch={architecture}", "-v", tmp_path / "kernels.ptx", "-o", tmp_path / "kernels.cubin"],
                             capture_output=True, text=True, check=True).stderr
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", account)
    assert frames == [("0", "0", "0")] * 5, account


def test_kernels_were_looked_at(assembler):
    """Those of the tests above."""
    assert assembler.count >= 3 * 8
