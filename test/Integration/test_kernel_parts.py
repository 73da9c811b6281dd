"""The planner says without IR which kernels a microbatch has (Plan/KernelParts.h), and the compiler forms them (Kernels/Clusters.h). Both
see the same graph here, in bf16 on one GPU, convolutions also in fp32 and as processors form them. What libraries compute isn't compared."""

import re
import subprocess
import sys

import pytest

from conftest import HAS_AVX512, MODELS, ROOT, check_call

MAKE = ROOT / "test" / "Unit" / "Plan" / "problems" / "make.py"
#: Of sizes that are trained, for which columns of sums are made in two passes.
LARGE = ["gpt --layers 2 --width 768 --heads 12 --sequence 1024 --batch 8 --vocabulary 50304",
         "gpt --layers 3 --width 2048 --heads 16 --sequence 1024 --batch 4 --vocabulary 50304",
         "llama --layers 1 --width 4096 --heads 32 --kv-heads 8 --hidden 14336 --sequence 2048 --batch 1 --vocabulary 128256",
         "llama --layers 2 --width 2048 --heads 16 --kv-heads 2 --hidden 8192 --sequence 2048 --batch 4 --vocabulary 32000"]
CONVOLUTIONS = "resnet --layers 2 --width 64 --batch 32 --vocabulary 1000"
#: By test model: how many launches are priced beside those that are formed, and the bytes that are priced in percent of
#: those that kernels move. A change of either side shows here: it should bring both together. Small models sum columns in one
#: pass, and their norms' gradients have two or three launches less than are priced.
PARTED = {
    "gpt2": (10, 105), "gpt_neox": (13, 103), "llama": (5, 100), "qwen2": (5, 101),
    # Classifiers: tensors of a few bytes.
    "bert_classifier": (8, 96), "mlp": (-1, 88), "vit": (7, 96),
    # Attention with a mask, a bias or a window is taken apart. Its softmax is priced with it, as a library's.
    "bart": (15, 87), "bert": (-6, 54), "bert_odd": (-6, 50), "gpt2_mask": (3, 70), "mistral": (5, 100), "t5": (-13, 89),
    # Kernels find the slots of experts and fill them.
    "mixtral": (1, 109), "moe": (-6, 84),
    # Losses of ten classes have three launches more than are priced. Norms of the first one's 16 channels are kernels for each
    # of their sums, and keep what they normalize in fp32. Of 96 channels and more, in fp32, they are priced as they are formed.
    "convnext": (0, 79), "mobilenet": (-3, 100), "resnet18": (-2, 100), "resnet_tiny": (-2, 101),
}
#: The same of models with convolutions, by precision and target.
PARTED_CONVOLUTIONS = {
    ("mobilenet", "fp32", "cuda"): (-3, 100), ("mobilenet", "fp32", "cpu"): (-3, 100), ("mobilenet", "bf16", "cpu"): (-3, 100),
    ("resnet18", "fp32", "cuda"): (-2, 102), ("resnet18", "fp32", "cpu"): (-2, 103), ("resnet18", "bf16", "cpu"): (-2, 103),
    ("resnet_tiny", "fp32", "cuda"): (-2, 103), ("resnet_tiny", "fp32", "cpu"): (-2, 104), ("resnet_tiny", "bf16", "cpu"): (-2, 103),
    ("convnext", "fp32", "cuda"): (-2, 89),
}
#: The same in bf16 on processors without AVX-512, where kernels copy what is multiplied, and round what is made.
PARTED_COPIES = {"mobilenet": (-3, 100), "resnet18": (-2, 100), "resnet_tiny": (-2, 101)}


def kernels(trained, target="cuda") -> tuple[list[int], list[int]]:
    """Launches and bytes, of those that are priced and of those that are formed."""
    said = check_call("dtc-opt", f"--target={target}", "--test-kernel-parts", trained, "-o", "/dev/null").out
    priced, formed = (list(map(int, numbers)) for numbers in re.findall(r"^(?:priced|formed): (\d+) launches, (\d+) bytes$", said, re.M))
    assert formed[0] > 5 and formed[1] > 0
    return priced, formed


@pytest.mark.parametrize("graph,precision,target,error", [(graph, "bf16", "cuda", 0.035) for graph in LARGE] +
                         [(CONVOLUTIONS, precision, target, 0.025) for precision in ("fp32", "bf16") for target in ("cuda", "cpu")])
def test_kernels_are_priced_as_they_are_formed(graph, precision, target, error, tmp_path):
    source, trained = tmp_path / "graph.mlir", tmp_path / "trained.mlir"
    source.write_text(subprocess.run([sys.executable, MAKE, *graph.split()], capture_output=True, text=True, check=True).stdout)
    check_call("dtc-opt", f"--dtc-train=precision={precision}", source, "-o", trained)
    priced, formed = kernels(trained, target)
    assert priced[0] == formed[0]
    assert priced[1] == pytest.approx(formed[1], rel=error)


@pytest.mark.parametrize("model,precision,target", [(model, "bf16", "cuda") for model in sorted(PARTED)] + sorted(PARTED_CONVOLUTIONS))
def test_kernels_of_test_models_part_no_further(model, precision, target, tmp_path):
    trained = tmp_path / "trained.mlir"
    trained.write_text(check_call("dtc", "compile", MODELS / f"{model}.onnx", "--target", "cuda", "--devices", 1, "--plan", "dp=1", "--cluster",
                                  "dgx-h100", "--precision", precision, "--loss", "cross_entropy", "--global-batch", 8, "--emit", "train").out)
    priced, formed = kernels(trained, target)
    copies = precision == "bf16" and target == "cpu" and not HAS_AVX512
    launches, percent = PARTED_COPIES[model] if copies else PARTED_CONVOLUTIONS.get((model, precision, target)) or PARTED[model]
    assert priced[0] - formed[0] == launches
    assert 100 * priced[1] / formed[1] == pytest.approx(percent, abs=1)


def test_all_test_models_are_compared():
    """Twins of others, as exported another way, are left out, and what can't be trained."""
    twins = re.compile(r"_(b1|dyn|eager|opset24|dangling)$")
    assert {path.stem for path in MODELS.glob("*.onnx") if not twins.search(path.stem)} - {"functions"} == set(PARTED)
