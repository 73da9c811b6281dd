"""`dtc-run --autotune`: algorithms of products are timed once, kept, and the same on all ranks. On emulated GPUs.

The emulated cuBLASLt offers three algorithms, which add in another order each, so that their last bits differ. How long
each takes is made up. It differs from device to device: on the first the second algorithm is the fastest, on the second
the first one.
"""

import json
import os

import pytest

from conftest import MODELS, call, check_call
from test_cuda import CUDA, compile_mlp, emulator  # noqa: F401 (a fixture that applies by itself)

TIMES = "30,10,20"


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    artifact = tmp_path_factory.mktemp("mlp") / "mlp.dtc"
    assert compile_mlp(artifact, *CUDA, "--devices", 2, "--plan", "dp=2").code == 0
    return artifact


class Runs:
    """Runs of an artifact with one cache."""

    def __init__(self, artifact, folder):
        self.artifact, self.folder, self.cache = artifact, folder, folder / "cache"

    def train(self, *flags: object, times: str = TIMES, cache=None) -> tuple[bytes, str]:
        """The trained weights and what was said."""
        weights = self.folder / "weights.safetensors"
        run = check_call("dtc-run", self.artifact, "--data", MODELS / "mlp.data.safetensors", "--steps", 3, "--save-weights",
                         weights, *flags, env={**os.environ, "DTC_CUBLASLT_CACHE": str(cache or self.cache),
                                               **({"DTC_EMULATED_CUBLASLT_MS": times} if times else {})})
        return weights.read_bytes(), run.err

    def kept(self):
        (file,) = self.cache.iterdir()
        return file, json.loads(file.read_text())


@pytest.fixture
def runs(mlp, tmp_path):
    return Runs(mlp, tmp_path)


def test_products_are_timed_once(runs):
    plain, said = runs.train()
    assert "timed" not in said and not runs.cache.exists()
    tuned, said = runs.train("--autotune")
    places = runs.kept()[1]["places"]
    count = len(places)
    assert f"timed cuBLASLt's algorithms for {count} products; another than its first choice is faster for {count}\n" in said
    assert set(places.values()) == {1} and count >= 3
    again, said = runs.train("--autotune", times="10,20,30")
    assert again == tuned and "timed" not in said
    assert tuned != plain


def test_ranks_take_what_one_of_them_chose(runs):
    """Rank 1 alone would take the first algorithm. Where the cache has that for all, the bits are those of the heuristic."""
    tuned, _ = runs.train("--autotune")
    file, kept = runs.kept()
    file.write_text(json.dumps(kept | {"places": dict.fromkeys(kept["places"], 0)}))
    assert runs.train("--autotune")[0] == runs.train()[0]
    file.unlink()
    assert runs.train("--autotune", "--processes")[0] == tuned
    assert runs.kept()[1] == kept


def test_a_cache_of_others_is_not_used(runs):
    tuned, _ = runs.train("--autotune")
    file, kept = runs.kept()
    for wrong in ("{", json.dumps(kept | {"gpu": "another"}), json.dumps(kept | {"places": {name: "1" for name in kept["places"]}})):
        file.write_text(wrong)
        weights, said = runs.train("--autotune")
        assert weights == tuned and said.count("isn't used") == 1 and "timed" in said
        assert runs.kept()[1] == kept
    file.write_text(json.dumps(kept | {"places": {name: place for name, place in zip(kept["places"], [99, -5, 2**31 - 1])}}))
    weights, said = runs.train("--autotune")
    assert weights == tuned and f"for {len(kept['places'])} products" in said, "places that nobody offers are timed"


def test_nothing_is_kept_where_that_is_asked_for(runs):
    assert "timed" in runs.train("--autotune", cache="off")[1] and "timed" in runs.train("--autotune", cache="off")[1]


def test_only_gpus_that_are_not_shared_are_tuned(runs, tmp_path):
    cpu = tmp_path / "cpu.dtc"
    assert compile_mlp(cpu).code == 0
    for artifact, share, said in ((cpu, "0", "this artifact was compiled for: cpu"), (runs.artifact, "1", "a GPU for each rank")):
        run = call("dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", "--autotune", env={**os.environ, "DTC_SHARE_GPU": share})
        assert run.code == 2 and said in run.error_line()


@pytest.mark.parametrize("version", ["22809", "21700"])
def test_communicators_are_split_or_made_anew(tmp_path, version):
    """With the same losses, by threads and by processes. An NCCL that can't split is said once."""
    artifact = tmp_path / "gpt2.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 4, "--plan", "dp=2,tp=2", *CUDA, "--loss", "cross_entropy",
               "--global-batch", 4, "-o", artifact)
    logs = []
    for flags in ([], ["--processes"]):
        log = tmp_path / "log.jsonl"
        run = check_call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 2, "--log", log, *flags,
                         env={**os.environ, "DTC_EMULATED_NCCL_VERSION": version})
        assert run.err.count("can't split communicators") == (version == "21700")
        logs.append([json.loads(line)["loss"] for line in log.read_text().splitlines()])
    assert logs[0] == logs[1] and len(logs[0]) == 2
