"""Ranks as processes: the same bits as threads, and how a run ends when one of them does."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from conftest import BIN, MODELS, call, check_call

DATA = ("--data", MODELS / "gpt2.data.safetensors", "--no-shuffle")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclasses.dataclass
class Launched:
    """The processes of a job, started as torchrun starts them."""

    processes: list[subprocess.Popen]

    def finish(self, timeout: float = 60) -> list[tuple[int, str]]:
        """Exit codes and what was said, by rank."""
        said = [process.communicate(timeout=timeout)[1] for process in self.processes]
        return [(process.returncode, text) for process, text in zip(self.processes, said)]


def variables(rank: int, ranks: int, port: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def launch(commands: list[tuple], port: int | None = None, **extra: str) -> Launched:
    """A command line for each rank."""
    port = port or free_port()
    return Launched([
        subprocess.Popen([str(BIN / "dtc-run"), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=os.environ | variables(rank, len(commands), port) | extra)
        for rank, command in enumerate(commands)])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Artifacts by plan."""
    folder, made = tmp_path_factory.mktemp("processes"), {}

    def get(plan: str, devices: int = 2):
        if plan not in made:
            made[plan] = folder / f"{plan}.dtc"
            check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", devices, "--plan", plan, "--loss",
                       "cross_entropy", "--global-batch", 8, "-o", made[plan])
        return made[plan]

    return get


def trained(log, weights) -> tuple:
    """What must be the same, to the bit."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines], weights.read_bytes()


@pytest.mark.parametrize("plan, ranks", [("dp=2", 2), ("tp=2", 2), ("dp=2,pp=2", 4)])
def test_processes_give_the_bits_of_threads(compiled, tmp_path, plan, ranks):
    artifact = compiled(plan, ranks)

    def results(name):
        return tmp_path / f"{name}.jsonl", tmp_path / f"{name}.safetensors"

    def flags(name):
        log, weights = results(name)
        return (*DATA, "--steps", 4, "--log", log, "--save-weights", weights)

    check_call("dtc-run", artifact, *flags("threads"))
    ended = launch([(artifact, *flags("processes"))] * ranks).finish()
    assert [code for code, _ in ended] == [0] * ranks, ended
    assert all(said == "" for _, said in ended[1:]), "ranks other than 0 say nothing"
    expected = trained(*results("threads"))
    assert len(expected[0]) == 4
    assert trained(*results("processes")) == expected
