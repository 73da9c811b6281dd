"""The package: how fast it is imported, its types, its command line, clusters and estimates."""

import json
import subprocess
import sys

import pytest
from package import MODELS, PACKAGE, ROOT, command

import dtc

GPT2 = MODELS / "gpt2.onnx"


def python(*arguments: object, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True,
                          env={"PYTHONPATH": str(PACKAGE), "DTC_CALIBRATION": "off"}, **kwargs)


def test_it_is_imported_fast_and_without_other_packages():
    code = "import sys, time; s = time.process_time(); import dtc; print(time.process_time() - s, 'numpy' in sys.modules)"
    answers = [python("-c", code).stdout.split() for _ in range(3)]
    assert min(float(seconds) for seconds, _ in answers) < 0.3
    assert all(numpy == "False" for _, numpy in answers)


def test_the_headers_of_the_c_api_are_c():
    for header in sorted((ROOT / "include" / "dtc-c").iterdir()):
        subprocess.run(["clang-22", "-std=c99", "-Wall", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c",
                        "-I", ROOT / "include", header], check=True)


def test_everything_is_documented_and_typed():
    declared = (PACKAGE / "dtc" / "_dtc.pyi").read_text()
    for name in ("class Plan", "class Program", "def command(arguments: Sequence[str]) -> str", "def explain"):
        assert name in declared, name
    assert (PACKAGE / "dtc" / "py.typed").exists()
    for name in dtc.__all__:
        assert getattr(dtc, name).__doc__, name


def test_the_module_is_the_command_line(tmp_path):
    for arguments in (["plan", GPT2, "--gpus", "2"], ["plan", "none.onnx"], ["--version"], ["nonsense"], []):
        mine = python("-m", "dtc", *arguments)
        other = command("dtc", *arguments)
        assert (mine.returncode, mine.stdout, mine.stderr) == (other.returncode, other.stdout, other.stderr)
    assert python("-m", "dtc", "run", tmp_path / "none.dtc", "--data", "x").stderr.startswith("dtc-run: error: ")


def test_clusters(tmp_path):
    names = dtc.Cluster.names()
    assert {"dgx-h100", "h100", "cpu"} <= set(names)
    assert len(names) == len(set(names))
    dtc.Cluster("dgx-h100").save(tmp_path / "cluster.yaml")
    saved = dtc.Cluster(tmp_path / "cluster.yaml")
    assert saved.yaml == dtc.Cluster("dgx-h100").yaml
    facts = [dtc.plan(GPT2, gpus=16, cluster=cluster).facts["predicted"] for cluster in (saved, "dgx-h100")]
    assert facts[0] == facts[1]
    with pytest.raises(dtc.UsageError, match="nowhere"):
        dtc.Cluster("nowhere")
    with pytest.raises(dtc.InputError, match="lacks the key: device"):
        dtc.Cluster(nodes=2)


def test_estimates_are_those_of_the_command_line():
    estimate = dtc.estimate(GPT2, cluster="dgx-h100", lora_rank=8)
    answer = command("dtc", "estimate", GPT2, "--cluster", "dgx-h100", "--lora-rank", 8, "--json")
    assert estimate.facts == json.loads(answer.stdout)
    assert estimate.parameters == 136960
    assert [need.count for need in estimate.training] == [1] and estimate.adapters and estimate.inference
    assert "training in full: 1 h100" in repr(estimate)
    assert not dtc.estimate(GPT2, cluster="dgx-h100", lora_rank=0).adapters
    one = dtc.estimate(GPT2, gpu_memory="48GB", lora_rank=8)
    assert one.facts == dtc.estimate(GPT2, gpu_memory=["48GB"], lora_rank=8).facts
    quantized = dtc.estimate(GPT2, cluster="dgx-h100", quantization="int4").facts["jobs"]
    # Of two layers; the head is the embedding.
    assert [job["quantized_parameters"] for job in quantized] == [0, 98304, 98304]


def test_a_step_is_simulated(tmp_path):
    plan = dtc.plan(GPT2, gpus=4, plan={"pp": 2, "dp": 2}, global_batch=8)
    simulation = dtc.simulate(plan)
    simulation.save(tmp_path / "trace.json")
    command("dtc", "plan", GPT2, "--gpus", 4, "--plan", "pp=2,dp=2", "--global-batch", 8, "--save-plan",
            tmp_path / "plan.yaml", "--trace", tmp_path / "expected.json")
    assert (tmp_path / "trace.json").read_text() == (tmp_path / "expected.json").read_text()
    assert simulation.step_time == plan.step_time and len(simulation.events) > 10


def test_pytorch_modules_need_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(dtc.UnsupportedError, match="pip install torch"):
        dtc.from_torch(object(), ())


def test_a_pytorch_module_trains_as_pytorch_does():
    torch = pytest.importorskip("torch", reason="PyTorch isn't installed")
    torch.manual_seed(0)
    embedding, head = torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64, bias=False)
    head.weight = embedding.weight
    module = torch.nn.Sequential(embedding, torch.nn.Linear(32, 32), torch.nn.GELU(), head).eval()
    ids, target = torch.randint(0, 64, (2, 8, 16))
    program = dtc.parallelize(module, ids, loss="cross_entropy", optimizer=dtc.AdamW(lr=1e-2), devices=2, target="cpu",
                              global_batch=8)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(module(ids).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert program.step({"input": ids, "target": target}).loss == pytest.approx(loss.item(), rel=1e-5)
    trained = program.state_dict()
    for name, weight in module.state_dict().items():
        assert torch.allclose(trained[name], weight, atol=1e-5), name
    module.load_state_dict(trained)
