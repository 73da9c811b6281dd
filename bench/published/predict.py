"""Runs `dtc plan` on cases. Results are kept by content, so that only what changed is planned again."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import threading

import graphs
from runs import Case

RESULTS = graphs.CACHE / "results"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What dtc says about a case: the figures, or why there are none."""

    seconds: float | None = None
    peak_bytes: float | None = None
    reserved_bytes: float | None = None  # of that, what PyTorch's allocator holds: not context and communication buffers
    allocated_bytes: float | None = None  # of that, without what it caches: tensors and the libraries' workspace
    tensor_bytes: float | None = None  # of that, tensors alone
    fits: bool | None = None
    parameters: float | None = None
    flops: float | None = None  # of a step, as dtc counts the model's
    refused: str | None = None  # any other error
    parts: dict[str, float] = dataclasses.field(default_factory=dict)  # of peak_bytes, by kind


def write(path: pathlib.Path, text: str) -> None:
    """At once: other threads and processes see the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
    part.write_text(text)
    part.rename(path)


class Predictor:
    """`dtc plan` with a memory of its answers."""

    def __init__(self, dtc: pathlib.Path) -> None:
        self.dtc = dtc
        self.version = hashlib.sha256(dtc.read_bytes()).hexdigest()
        self.graph_hashes: dict[pathlib.Path, str] = {}

    def graph_hash(self, path: pathlib.Path) -> str:
        if path not in self.graph_hashes:
            self.graph_hashes[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self.graph_hashes[path]

    def command(self, case: Case, cluster: pathlib.Path) -> list[str]:
        return [str(self.dtc), "plan", str(case.graph.path), "--gpus", str(case.run["gpus"]), "--cluster",
                str(cluster), "--loss", "cross_entropy", "--precision", case.precision, "--global-batch",
                str(case.run["plan"]["global_batch"]), "--plan", case.spec, "--json"]

    def answer(self, case: Case) -> tuple[int, str, str]:
        """Exit code and output of the command."""
        text = json.dumps(case.cluster, sort_keys=True)  # JSON is YAML
        cluster = graphs.CACHE / "clusters" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
        command = self.command(case, cluster)
        key = [self.version, self.graph_hash(case.graph.path), text, *command[3:5], *command[7:]]
        result = RESULTS / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.json"
        if not result.exists():
            if not cluster.exists():
                write(cluster, text)
            done = subprocess.run(command, capture_output=True, text=True)
            write(result, json.dumps([done.returncode, done.stdout, done.stderr]))
        return tuple(json.loads(result.read_text()))

    def answers(self, cases: list[Case], jobs: int) -> list[tuple[int, str, str]]:
        for graph in {case.graph for case in cases}:
            self.graph_hash(graph.path)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(self.answer, cases))

    def predict(self, case: Case) -> Prediction:
        return interpret(*self.answer(case))

    def predict_all(self, cases: list[Case], jobs: int) -> list[Prediction]:
        return [interpret(*answer) for answer in self.answers(cases, jobs)]


def interpret(code: int, stdout: str, stderr: str) -> Prediction:
    """The answer of one `dtc plan --json`."""
    if code != 0:
        lines = [line for line in stderr.splitlines() if "error" in line] or [f"exit code {code}"]
        return Prediction(refused=re.sub(r"\S*/(\S+\.(onnx|yaml))", r"\1", lines[0]))
    answer = json.loads(stdout)
    predicted = answer["predicted"]
    seconds, rate = predicted["step_time_s"], predicted["model_tflops_per_device"]
    peak, memory = predicted["peak_memory_bytes"], predicted["memory"]
    reserved = peak - memory["reserved"] + predicted["workspace_bytes"]
    allocated = reserved - memory["cached"]
    return Prediction(seconds, peak, reserved, allocated, allocated - predicted["workspace_bytes"], predicted["fits"],
                      answer["model"]["parameters"],
                      rate * 1e12 * answer["devices"] * seconds if rate else None, parts=memory)
