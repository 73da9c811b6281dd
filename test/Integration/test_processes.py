"""Ranks as processes: the same bits as threads, and how a run ends when one of them does."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
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


def launch(commands: list[tuple], port: int | None = None, of_rank: dict[int, dict[str, str]] | None = None,
           **extra: str) -> Launched:
    """A command line for each rank, and variables of some ranks alone."""
    port, own = port or free_port(), of_rank or {}
    return Launched([
        subprocess.Popen([str(BIN / "dtc-run"), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=os.environ | variables(rank, len(commands), port) | extra | own.get(rank, {}))
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


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    """A small artifact of two ranks."""
    artifact = tmp_path_factory.mktemp("mlp") / "mlp.dtc"
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 2, "--plan", "dp=2", "--loss", "cross_entropy",
               "--global-batch", 8, "-o", artifact)
    return artifact


def command(artifact, *flags) -> tuple:
    return (artifact, "--data", MODELS / "mlp.data.safetensors", "--no-shuffle", *flags)


def wait_for_steps(log, count: int = 3) -> None:
    """Until a run is well under way."""
    end = time.monotonic() + 60
    while not log.exists() or log.read_text().count("\n") < count:
        assert time.monotonic() < end
        time.sleep(0.02)


def endless(artifact, log, *flags) -> tuple:
    return command(artifact, "--steps", 10**9, "--log", log, *flags)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_others(mlp, tmp_path, victim):
    job = launch([endless(mlp, tmp_path / "log.jsonl")] * 2)
    wait_for_steps(tmp_path / "log.jsonl")
    job.processes[victim].kill()
    code, said = job.finish(timeout=10)[1 - victim]
    assert code == 5
    assert f"rank {victim} was lost" in said


def said_of_a_hanging_rank(artifact, log, **environment: str) -> str:
    """By rank 0, which must end with 5 although rank 1 is stopped."""
    job = launch([endless(artifact, log, "--timeout", 2)] * 2, **environment)
    wait_for_steps(log)
    job.processes[1].send_signal(signal.SIGSTOP)
    try:
        said = job.processes[0].communicate(timeout=12)[1]
        assert job.processes[0].returncode == 5
        return said
    finally:
        job.processes[1].kill()
        job.finish()


def test_a_rank_that_hangs_ends_the_others(mlp, tmp_path):
    said = said_of_a_hanging_rank(mlp, tmp_path / "log.jsonl")
    assert "rank 0 waited 2 s in" in said and "for rank: 1, whose process does not answer" in said


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_process_is_noticed_before_the_time_limit(mlp, tmp_path, victim):
    job = launch([endless(mlp, tmp_path / "log.jsonl", "--timeout", 1000)] * 2)
    wait_for_steps(tmp_path / "log.jsonl")
    job.processes[victim].send_signal(signal.SIGSTOP)
    try:
        said = job.processes[1 - victim].communicate(timeout=12)[1]
        assert job.processes[1 - victim].returncode == 5
        assert f"rank {victim} was lost: its process has not answered" in said
    finally:
        job.processes[victim].kill()
        job.finish()


def test_a_rank_that_fails_ends_the_others(mlp, tmp_path):
    """Each says why: the one that failed with its own exit code, the others with 5."""
    broken = tmp_path / "data.safetensors"
    broken.write_bytes(b"short")
    (code, said), (broken_code, broken_said) = launch(
        [command(mlp), (mlp, "--data", broken)]).finish(timeout=10)
    assert broken_code == 3 and str(broken) in broken_said
    assert code == 5 and "ended because of rank 1" in said and str(broken) in said


def test_another_artifact_is_noticed(mlp, tmp_path):
    other = tmp_path / "other.dtc"
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 2, "--plan", "dp=2", "--loss", "cross_entropy",
               "--global-batch", 8, "--lr", "0.5", "-o", other)
    for code, said in launch([command(mlp), command(other)]).finish(timeout=10):
        assert code == 5
        assert "rank 1 has another artifact" in said


def test_another_command_line_is_noticed(mlp):
    for code, said in launch([command(mlp), command(mlp, "--seed", 3)]).finish(timeout=10):
        assert code == 5
        assert "rank 1 has another command line" in said


def test_a_missing_rank_is_named(mlp):
    job = launch([command(mlp, "--timeout", 1)] * 2)
    job.processes[1].kill()
    code, said = job.finish(timeout=11)[0]
    assert code == 5
    assert "rank: 1" in said or "rank 1 was lost" in said


def test_other_than_the_artifacts_ranks_are_refused(mlp):
    for code, said in launch([command(mlp)] * 3).finish(timeout=20):
        assert code in (4, 5)  # each finds it, unless another one ends it first
        assert "--devices 3" in said


def test_part_of_a_launchers_variables_is_wrong_usage(mlp):
    outcome = call("dtc-run", *command(mlp), env=os.environ | {"RANK": "0", "WORLD_SIZE": "2"})
    assert outcome.code == 2
    assert "LOCAL_RANK is missing" in outcome.error_line()


def when_listening(port: int) -> socket.socket:
    """A connection to rank 0, which may still be starting."""
    end = time.monotonic() + 20
    while True:
        assert time.monotonic() < end
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            time.sleep(0.05)


def test_strangers_change_nothing(mlp, tmp_path):
    """One that talks nonsense and one that is silent: neither joins, neither holds up the ranks."""
    port, weights = free_port(), tmp_path / "w.safetensors"
    job = launch([command(mlp, "--steps", 3, "--save-weights", weights)], port=port, WORLD_SIZE="2")
    strangers = [when_listening(port), when_listening(port)]
    strangers[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
    second = subprocess.Popen([str(BIN / "dtc-run"), *map(str, command(mlp, "--steps", 3, "--save-weights", weights))],
                              stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=os.environ | variables(1, 2, port))
    job.processes.append(second)
    assert [code for code, _ in job.finish()] == [0, 0]
    for stranger in strangers:
        stranger.close()


def test_who_only_knows_the_protocol_is_kept_out(mlp, tmp_path):
    """It claims to be rank 1, with a proof that it can't make; then the true one comes."""
    port, weights = free_port(), tmp_path / "w.safetensors"
    words = command(mlp, "--steps", 3, "--timeout", 20, "--save-weights", weights)
    job = launch([words], port=port, WORLD_SIZE="2", DTC_JOB_TOKEN="ours")
    with when_listening(port) as stranger:
        stranger.sendall(b"dtc-run ranks 3\0" + bytes(16))
        answer = stranger.recv(64, socket.MSG_WAITALL)
        assert len(answer) == 64 and answer.startswith(b"dtc-run ranks 3\0")
        stranger.sendall(struct.pack("<4I", 1, 2, port, 1) + bytes(32) + bytes(32))
        assert stranger.recv(1) == b""  # closed without a word
    second = subprocess.Popen([str(BIN / "dtc-run"), *map(str, words)], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env=os.environ | variables(1, 2, port) | {"DTC_JOB_TOKEN": "ours"})
    job.processes.append(second)
    assert [code for code, _ in job.finish()] == [0, 0]


def test_another_token_keeps_a_rank_out(mlp, tmp_path):
    """And doesn't take the place of the true one, which comes later."""
    port, words = free_port(), command(mlp, "--steps", 3, "--save-weights", tmp_path / "w.safetensors")
    job = launch([words], port=port, WORLD_SIZE="2", DTC_JOB_TOKEN="ours")
    when_listening(port).close()
    for token, limit in (("theirs", 4), ("ours", 1800)):
        job.processes.append(subprocess.Popen(
            [str(BIN / "dtc-run"), *map(str, words), "--timeout", str(limit)], stderr=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE, env=os.environ | variables(1, 2, port) | {"DTC_JOB_TOKEN": token}))
        if token == "theirs":
            said = job.processes[-1].communicate(timeout=60)[1]
            assert job.processes.pop().returncode == 5 and "another job listens" in said
    assert [code for code, _ in job.finish()] == [0, 0]


def test_a_rank_that_never_starts_is_named(mlp):
    code, said = launch([command(mlp, "--timeout", 1)], WORLD_SIZE="2").finish()[0]
    assert code == 5 and "for the start of rank: 1" in said


def wait_for_connection(process: subprocess.Popen) -> None:
    end, folder = time.monotonic() + 60, pathlib.Path(f"/proc/{process.pid}")
    while True:
        assert process.poll() is None and time.monotonic() < end
        own = set()
        for each in folder.glob("fd/*"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                own.add(os.readlink(each))
        connections = [line.split() for table in ("tcp", "tcp6") for line in (folder / "net" / table).read_text().splitlines()]
        if any(f"socket:[{each[9]}]" in own for each in connections if each[3] == "01"):
            return
        time.sleep(0.01)


def test_a_rank_that_ends_before_all_have_met_ends_the_others(mlp):
    """Rank 2 never starts."""
    job = launch([command(mlp)] * 2, WORLD_SIZE="3")
    wait_for_connection(job.processes[1])
    time.sleep(1)  # both have met
    job.processes[1].kill()
    code, said = job.finish(timeout=10)[0]
    assert code == 5 and "rank 1 was lost" in said


def wait_for_handler(process: subprocess.Popen, number: int) -> None:
    end, caught = time.monotonic() + 60, 0
    while not caught >> (number - 1) & 1:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        caught = int(status.split("SigCgt:")[1].split()[0], 16)


def test_a_signal_stops_ranks_that_wait_for_others(mlp, tmp_path):
    """Rank 2 never starts."""
    job = launch([command(mlp, "--checkpoint-dir", tmp_path / "c"), command(mlp)], WORLD_SIZE="3")
    for process in job.processes:
        wait_for_handler(process, signal.SIGTERM)
    for process in job.processes:
        process.send_signal(signal.SIGTERM)
    (first, said), (second, _) = job.finish(timeout=10)
    assert (first, second) == (75, 143)
    assert "stopped by signal 15 while it waited for the start of rank: " in said and "--resume" in said


def test_a_rank_that_opens_files_ends_with_the_others(mlp, tmp_path):
    """It hangs: nobody reads from the pipe that it opens."""
    os.mkfifo(tmp_path / "log")
    job = launch([endless(mlp, tmp_path / "log")] * 2)
    time.sleep(1.5)
    assert job.processes[0].poll() is None
    job.processes[1].kill()
    code, said = job.finish(timeout=10)[0]
    assert code == 5 and "rank 1 was lost" in said


def test_a_signal_to_one_rank_stops_all(mlp, tmp_path):
    weights = tmp_path / "w.safetensors"
    job = launch([endless(mlp, tmp_path / "log.jsonl", "--save-weights", weights)] * 2)
    wait_for_steps(tmp_path / "log.jsonl")
    job.processes[1].send_signal(signal.SIGTERM)
    assert [code for code, _ in job.finish(timeout=20)] == [75, 75]
    assert weights.exists()


def test_nohup_keeps_a_run_from_hanging_up(mlp, tmp_path):
    log, folder = tmp_path / "log.jsonl", tmp_path / "c"
    run = subprocess.Popen([str(BIN / "dtc-run"), *map(str, endless(mlp, log, "--checkpoint-dir", folder))], text=True,
                           stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_steps(log)
    run.send_signal(signal.SIGHUP)
    wait_for_steps(log, log.read_text().count("\n") + 50)
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=60)[1]
    assert run.returncode == 75 and "stopped by signal 15 " in said, said


def test_outputs_are_collected(tmp_path):
    """Without a loss: each process computes its samples, rank 0 writes all of them."""
    artifact, outputs = tmp_path / "mlp.dtc", {}
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--devices", 2, "--plan", "dp=2", "--loss", "none",
               "--global-batch", 8, "-o", artifact)
    for flags in ([], ["--processes"]):
        written = tmp_path / f"out{len(flags)}.safetensors"
        check_call("dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", "--outputs", written, *flags)
        outputs[len(flags)] = written.read_bytes()
    assert outputs[0] == outputs[1]


def children_of(run: subprocess.Popen) -> list[str]:
    return pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()


class TestStartedByItself:
    """`dtc-run --processes`."""

    def test_gives_the_bits_of_threads(self, mlp, tmp_path):
        results = []
        for flags in ([], ["--processes"]):
            log, weights = (tmp_path / f"run{len(flags)}{suffix}" for suffix in (".jsonl", ".safetensors"))
            outcome = check_call("dtc-run", *command(mlp, "--steps", 5, "--log", log, "--save-weights", weights), *flags)
            assert outcome.out.count("5 steps, loss") == 1
            results.append(trained(log, weights))
        assert results[0] == results[1]

    def test_says_in_one_line_why_it_failed(self, mlp, tmp_path):
        missing = tmp_path / "none.safetensors"
        outcome = call("dtc-run", mlp, "--data", missing, "--processes")
        assert outcome.code == 3
        assert str(missing) in outcome.error_line()

    def test_a_killed_rank_ends_the_run(self, mlp, tmp_path):
        log = tmp_path / "log.jsonl"
        run = subprocess.Popen([str(BIN / "dtc-run"), *map(str, endless(mlp, log)), "--processes"],
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_for_steps(log)
        children = children_of(run)
        assert len(children) == 2
        os.kill(int(children[1]), signal.SIGKILL)
        said = run.communicate(timeout=12)[1]
        assert run.returncode == 5
        assert said.count("error:") == 1 and "rank 1 was lost: it was ended by signal 9" in said

    def test_a_signal_stops_it(self, mlp, tmp_path):
        log, weights = tmp_path / "log.jsonl", tmp_path / "w.safetensors"
        run = subprocess.Popen([str(BIN / "dtc-run"), *map(str, endless(mlp, log, "--save-weights", weights)),
                                "--processes"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_for_steps(log)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=20)
        assert run.returncode == 75
        assert weights.exists()

    def test_a_signal_to_all_processes_stops_it(self, mlp, tmp_path):
        """As clusters send it: ranks get it themselves, and once more from the process that started them."""
        log, weights = tmp_path / "log.jsonl", tmp_path / "w.safetensors"
        run = subprocess.Popen([str(BIN / "dtc-run"), *map(str, endless(mlp, log, "--save-weights", weights)),
                                "--processes"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_for_steps(log)
        for process in (run.pid, *map(int, children_of(run))):
            os.kill(process, signal.SIGUSR1)
        said = run.communicate(timeout=20)[1]
        assert run.returncode == 75, said
        assert weights.exists()

    @pytest.mark.parametrize("to", ["launcher", "rank"])
    def test_a_signal_before_ranks_are_ready_stops_it(self, mlp, tmp_path, to):
        flags = endless(mlp, tmp_path / "log.jsonl", "--checkpoint-dir", tmp_path / "c")
        run = subprocess.Popen([str(BIN / "dtc-run"), *map(str, flags), "--processes"],
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while len(children_of(run)) < 2:
            assert run.poll() is None
        os.kill(run.pid if to == "launcher" else int(children_of(run)[0]), signal.SIGTERM)
        said = run.communicate(timeout=60)[1]
        assert run.returncode == 75 and "stopped by signal 15 " in said, said

    def test_two_signals_end_ranks_that_take_none(self, mlp, tmp_path):
        run = subprocess.Popen([str(BIN / "dtc-run"), *map(str, endless(mlp, tmp_path / "log.jsonl")), "--processes"],
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_for_steps(tmp_path / "log.jsonl")
        for rank in map(int, children_of(run)):
            os.kill(rank, signal.SIGSTOP)
        run.send_signal(signal.SIGINT)
        time.sleep(1.3)
        assert run.poll() is None
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=10)[1]
        assert run.returncode == 5 and "signal 9" in said, said

    def test_not_under_a_launcher(self, mlp):
        outcome = call("dtc-run", *command(mlp), "--processes", env=os.environ | variables(0, 2, free_port()))
        assert outcome.code == 2
        assert "--processes" in outcome.error_line()


def test_mpirun(mlp, tmp_path):
    """Debian's Open MPI starts the ranks; dtc-run uses nothing else of it."""
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed (scripts/install.sh --tests does it)")
    log, weights = tmp_path / "log.jsonl", tmp_path / "w.safetensors"
    flags = command(mlp, "--steps", 3, "--log", log, "--save-weights", weights)
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(["mpirun", "-n", "2", "--oversubscribe", BIN / "dtc-run", *map(str, flags)],
                          capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("3 steps, loss") == 1
    expected = tmp_path / "threads.jsonl", tmp_path / "threads.safetensors"
    check_call("dtc-run", *command(mlp, "--steps", 3, "--log", expected[0], "--save-weights", expected[1]))
    assert trained(log, weights) == trained(*expected)


@pytest.mark.parametrize("given,expected", [({}, b"1"), ({"NCCL_LAUNCH_ORDER_IMPLICIT": "0"}, b"0")])
def test_nccl_is_told_to_keep_to_the_programs_order(compiled, monkeypatch, given, expected):
    """Rank 0 waits for the other one, and has begun anew with its own settings. What a user says of NCCL stays."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("NCCL_LAUNCH_ORDER_IMPLICIT", raising=False)
    process = subprocess.Popen([BIN / "dtc-run", compiled("dp=2"), *DATA], stderr=subprocess.DEVNULL,
                               env=os.environ | variables(0, 2, free_port()) | given)
    try:
        told, end = {}, time.monotonic() + 20
        while b"OMP_WAIT_POLICY" not in told and time.monotonic() < end:
            time.sleep(0.01)
            lines = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            told = dict(line.split(b"=", 1) for line in lines if b"=" in line)
        assert told[b"NCCL_LAUNCH_ORDER_IMPLICIT"] == expected
    finally:
        process.kill()
        process.wait()
