"""What kernels move on the emulated GPU, against what they must: sectors of 32 bytes, each once a block."""

import json

import pytest

from conftest import BIN, ROOT, check_call

KERNELS = ROOT / "test" / "Target" / "CUDA"


#: In one kernel of the second, each of the few rows' blocks reads 9,001 indices.
@pytest.mark.parametrize("source,bound", [("across.mlir", 1.1), ("scatter.mlir", 1.15)])
def test_kernels_move_little_in_vain(source, bound, tmp_path, monkeypatch):
    traffic = tmp_path / "traffic.jsonl"
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", str(BIN.parent / "lib" / "gpu-emulator"))
    monkeypatch.setenv("DTC_EMULATED_GPU_TRAFFIC", str(traffic))
    check_call("dtc-opt", "--target=cuda", KERNELS / source, "--dtc-decompose-layers", "--dtc-form-kernels",
               "--test-run-cuda-kernels=tolerance=1e-4", "-o", "/dev/null")
    launches = [json.loads(line) for line in traffic.read_text().splitlines()]
    assert len({launch["kernel"] for launch in launches}) > 2
    for launch in launches:
        moved, least = (launch[f"{of}read"] + launch[f"{of}written"] for of in ("", "least_"))
        assert moved <= bound * least, launch
