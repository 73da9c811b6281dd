"""Single ranks that are processes are killed: all others end soon, and the run goes on from its last checkpoint, bit by bit.

test_checkpoints.py kills all ranks at once. `ninja -C build check-kills` runs both.
"""

import contextlib
import ctypes
import os
import pathlib
import random
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from test_checkpoints import ENDLESS, KILLS, artifacts, names_in, run, start, straight, trained, wait_for_a_moment  # noqa: F401
from test_processes import DATA, launch

EVERY = 5  # steps from checkpoint to checkpoint
# The step whose checkpoint is being written, and the steps until the next one, which waits for it.
MOST_LOST = 2 * EVERY


def ranks_of(launcher: subprocess.Popen, count: int) -> list[int]:
    """The processes of all ranks, by rank, once they are there."""
    children, deadline = [], time.monotonic() + 60
    while len(children) < count:
        assert time.monotonic() < deadline and launcher.poll() is None
        time.sleep(0.005)
        children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return list(map(int, children))


def is_alive(process: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def kill_a_rank(launcher: subprocess.Popen, ranks: list[int], victim: int) -> float:
    """How long the others took to end."""
    os.kill(ranks[victim], signal.SIGKILL)
    killed = time.monotonic()
    said = launcher.communicate(timeout=60)[1]
    seconds = time.monotonic() - killed
    assert launcher.returncode == 5, said
    assert said.count("error:") == 1 and f"rank {victim} was lost" in said, said
    assert seconds < 10 and not any(map(is_alive, ranks))
    return seconds


@pytest.mark.parametrize("plan,model,share,ranks", [
    ("dp2", "mlp", 0.125, 2), ("zero3", "gpt2", 0.0625, 2), ("pp2dp2", "gpt2", 0.0625, 4)])
def test_kills_of_one_rank_lose_nothing_that_was_saved(artifacts, straight, tmp_path, plan, model, share, ranks):
    """At the moments of `wait_for_a_moment`."""
    artifact, log, folder, moments = artifacts(plan, model), tmp_path / "log", tmp_path / "c", random.Random(17)
    flags = ["--log", log, "--checkpoint-dir", folder, "--checkpoint-every", EVERY, "--resume"]
    kills, writing, slowest, lost, seen = max(2, round(share * KILLS)), 0, 0.0, 0, []
    for number in range(kills):
        before = names_in(folder)
        launcher = start(artifact, *flags, "--processes", "--steps", ENDLESS)
        children = ranks_of(launcher, ranks)
        wait_for_a_moment(number, moments, folder, before, launcher)
        writing += any("partial" in name for name in names_in(folder) - before)
        slowest = max(slowest, kill_a_rank(launcher, children, moments.randrange(ranks)))
        saved = max((int(name[5:]) for name in names_in(folder) if "partial" not in name), default=0)
        logged = trained(log) if log.exists() else []
        assert len(logged) - saved <= MOST_LOST
        lost = max(lost, len(logged) - saved)
        seen.append(logged[:saved])
    steps = len(seen[-1]) + 20
    outcome = run(artifact, *flags, "--processes", "--steps", steps, "--save-weights", tmp_path / "w")
    assert outcome.code == 0 and "damaged" not in outcome.err, outcome.err
    expected = straight(artifact, steps)
    assert (trained(log), (tmp_path / "w").read_bytes()) == expected
    for saved in seen:
        assert saved == expected[0][:len(saved)]
    assert not any("partial" in name for name in names_in(folder))
    print(f"{plan}: {kills} ranks killed, {writing} of them while a checkpoint was written; the others ended within "
          f"{slowest:.1f} s; at most {lost} steps lost")


def freeze_its_busiest_thread(process: int) -> int:
    """The others go on, and so the process answers as before. Returns the thread."""
    PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
    threads = pathlib.Path(f"/proc/{process}/task").iterdir()
    busiest = max(threads, key=lambda thread: int((thread / "stat").read_text().rsplit(")", 1)[1].split()[11]))
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        assert ptrace(request, int(busiest.name), None, None) == 0, os.strerror(ctypes.get_errno())
    return int(busiest.name)


def wait_for_steps(log: pathlib.Path, count: int, process: subprocess.Popen) -> None:
    while len(log.read_text().splitlines() if log.exists() else []) < count:
        assert process.poll() is None
        time.sleep(0.02)


def seconds_until(is_over: Callable[[], bool], frozen: int) -> float:
    """The process of the frozen thread ends once its end was waited for here, too."""
    ALL_CHILDREN, begin = 0x40000000, time.monotonic()
    while not is_over():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(frozen, os.WNOHANG | ALL_CHILDREN)
        assert time.monotonic() < begin + 80
        time.sleep(0.05)
    return time.monotonic() - begin


def test_a_rank_that_hangs_ends_the_others_within_10_s(artifacts, tmp_path):
    """Its process answers, and no time limit is given: steps of before say how long one may take. It ends itself a bit later."""
    launcher = start(artifacts("dp2", "gpt2"), "--log", tmp_path / "log", "--processes", "--steps", ENDLESS)
    other, victim = ranks_of(launcher, 2)
    wait_for_steps(tmp_path / "log", 20, launcher)
    frozen = freeze_its_busiest_thread(victim)
    seconds = seconds_until(lambda: not is_alive(other), frozen)
    seconds_until(lambda: launcher.poll() is not None, frozen)
    said = launcher.communicate()[1]
    assert launcher.returncode == 5 and "waited 5 s" in said and "for rank: 1" in said, said
    assert 4 < seconds < 10 and not is_alive(victim)


def test_rank_0_that_hangs_ends_a_rank_of_another_machine_within_10_s(artifacts, tmp_path):
    """It is what finds that steps take too long. By their addresses, the ranks are on two machines."""
    words = (artifacts("dp2", "gpt2"), *DATA, "--log", tmp_path / "log", "--steps", ENDLESS)
    job = launch([words] * 2, MASTER_ADDR="127.0.0.2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    victim, other = job.processes
    wait_for_steps(tmp_path / "log", 20, victim)
    frozen = freeze_its_busiest_thread(victim.pid)
    seconds = seconds_until(lambda: not is_alive(other.pid), frozen)
    victim.kill()
    seconds_until(lambda: victim.poll() is not None, frozen)
    code, said = job.finish()[1]
    assert code == 5 and "waited 5 s" in said and "for rank: 0" in said, said
    assert 4 < seconds < 10


@pytest.mark.skipif("DTC_KILLS" not in os.environ, reason="much like the one above: ninja -C build check-kills")
def test_a_thread_that_hangs_ends_the_process(artifacts, tmp_path):
    """Two seconds after its run has failed."""
    process = start(artifacts("dp2", "gpt2"), "--log", tmp_path / "log", "--steps", ENDLESS)
    wait_for_steps(tmp_path / "log", 20, process)
    seconds = seconds_until(lambda: process.poll() is not None, freeze_its_busiest_thread(process.pid))
    said = process.communicate()[1]
    assert process.returncode == 5 and "waited 5 s" in said and "for rank: " in said, said
    assert 6.5 < seconds < 10
