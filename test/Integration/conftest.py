"""What the integration tests share: the binaries, the models, PyTorch's runs."""

import dataclasses
import json
import os
import pathlib
import subprocess
from collections.abc import Iterable

import numpy
import pytest
from safetensors.numpy import load_file

import recording

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "test" / "models"
BIN = pathlib.Path(os.environ.get("DTC_BIN", ROOT / "build" / "bin"))
#: Without it oneDNN has no products of bf16, and copies in fp32 are multiplied.
HAS_AVX512 = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text().split()
os.environ["DTC_CALIBRATION"] = "off"  # plans must not hang on what else runs on this machine
RECORDER = recording.recorder(BIN, MODELS)
#: The files that take longest are begun first, so that none of them is left alone at the end.
FIRST = [f"test_{name}" for name in (
    "add_an_op", "cuda", "add_schedule", "add_a_target", "cuda_models", "verify", "pytorch", "pipelines", "looked_up_experts", "zero",
    "training", "checkpoints", "rank_kills", "optimality", "add_converter", "fuzz", "compositions")]
#: Of the target check-grid: cases run that else don't, too.
WHOLE_GRID = "DTC_WHOLE_GRID" in os.environ


def case(always: bool, *values: object):
    """A case that always runs, or one that the target check-grid alone runs. It runs both."""
    return pytest.param(*values, marks=() if always and not WHOLE_GRID else pytest.mark.grid)


def part(cases: Iterable, share: int = 2) -> list:
    """Of cases that prove the same with other models and plans, every second or third always runs."""
    return [case(number % share == 0, *(each if isinstance(each, tuple) else (each,))) for number, each in enumerate(cases)]


def pytest_configure(config):
    config.addinivalue_line("markers", "grid: the target check-grid runs it")


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST))
    if not WHOLE_GRID:
        left_out = [item for item in items if item.get_closest_marker("grid")]
        items[:] = [item for item in items if not item.get_closest_marker("grid")]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter):
    """Says loudly which tests didn't run, and why."""
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])]
    for reason in sorted(set(reasons)):
        terminalreporter.write_line(f"NOT RUN: {reasons.count(reason)} tests: {reason}", red=True, bold=True)


@dataclasses.dataclass
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    def error_line(self) -> str:
        """The one line that says what went wrong."""
        lines = [line for line in self.err.splitlines() if "error:" in line]
        assert len(lines) == 1, self.err
        return lines[0]


def call(program: str, *arguments: object, timeout: float = 300, **kwargs) -> Outcome:
    """Runs one of the project's programs and returns how it ended."""
    done = subprocess.run(
        [str(BIN / program), *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **kwargs,
    )
    if RECORDER and done.returncode == 0:
        RECORDER.add(program, [str(argument) for argument in arguments], done.stdout, pathlib.Path(kwargs.get("cwd", ".")))
    return Outcome(done.returncode, done.stdout, done.stderr)


def check_call(program: str, *arguments: object, **kwargs) -> Outcome:
    """As `call`, and the program must end with exit code 0."""
    outcome = call(program, *arguments, **kwargs)
    assert outcome.code == 0, f"exit code {outcome.code}\n{outcome.err}"
    return outcome


def bare_environment(home: pathlib.Path) -> dict[str, str]:
    """Of a user without CUDA or caches; what sanitizers are told stays."""
    told = {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}
    return told | {"PATH": "/nowhere", "HOME": str(home)}


def encode_model(text: str, path: pathlib.Path) -> pathlib.Path:
    """Writes the .onnx file of a model in protobuf's text form."""
    path.write_bytes(subprocess.run(
        ["protoc", "--encode=onnx.ModelProto", "-I", ROOT / "third_party" / "onnx", "onnx-ml.proto"],
        input=text.encode(), stdout=subprocess.PIPE, check=True).stdout)
    return path


@dataclasses.dataclass
class Run:
    """A finished training run: its log and its weights."""

    log: list[dict]
    weights: dict[str, numpy.ndarray]
    artifact: pathlib.Path

    def column(self, key: str) -> numpy.ndarray:
        return numpy.array([line[key] for line in self.log])


def reference(model: str, recipe: str) -> dict:
    """PyTorch's trajectory: test/models/MODEL.RECIPE.json."""
    return json.loads((MODELS / f"{model}.{recipe}.json").read_text())


def first(steps: int, expected: dict) -> dict:
    """Of a trajectory, for a run of so many steps."""
    return expected | {"steps": expected["steps"][:steps]}


def compare_steps(run, expected: dict, loss: float = 5e-6, norm: float = 1e-5) -> None:
    """Relative errors of every step's loss and gradient norm. In fp32 the largest that were measured are 8e-7 and 1e-6."""
    for key, bound in (("loss", loss), ("grad_norm", norm)):
        want = numpy.array([step[key] for step in expected["steps"]])
        got = run.column(key)
        assert got.shape == want.shape
        errors = numpy.abs(got - want) / numpy.abs(want)
        assert errors.max() < bound, f"{key}: {errors}"
    assert numpy.allclose(run.column("lr"), [s["lr"] for s in expected["steps"]], rtol=1e-12)
    assert run.column("step").tolist() == list(range(1, len(run.log) + 1))


class Trainer:
    """Compiles and runs; equal requests within a session share one run."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.runs: dict[tuple, Run] = {}

    def train(self, export: str, data: str, *flags: object, devices: int = 1, plan: str = "auto",
              batch: int = 8, steps: int = 10, loss: str = "cross_entropy",
              fresh: bool = False) -> Run:
        key = (export, data, tuple(map(str, flags)), devices, plan, batch, steps, loss)
        if not fresh and key in self.runs:
            return self.runs[key]
        file = MODELS / (export if export.endswith((".pt", ".pt2")) else f"{export}.onnx")
        stem = self.folder / f"run{len(self.runs)}{'again' if fresh else ''}"
        artifact, log, weights = (stem.with_suffix(s) for s in (".dtc", ".jsonl", ".safetensors"))
        check_call("dtc", "compile", file, "--devices", devices, "--loss", loss,
                   "--global-batch", batch, "--plan", plan, *flags, "-o", artifact)
        check_call("dtc-run", artifact, "--data", MODELS / f"{data}.data.safetensors",
                   "--no-shuffle", "--steps", steps, "--log", log, "--save-weights", weights)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        run = Run(lines, load_file(weights), artifact)
        if not fresh:
            self.runs[key] = run
        return run


@pytest.fixture(scope="session")
def trainer(tmp_path_factory) -> Trainer:
    return Trainer(tmp_path_factory.mktemp("runs"))
