"""`python -m dtc watch` shows the log of a run."""

import json
import subprocess
import sys

import pytest
from package import PACKAGE

from dtc import InputError, _watch


def step(number: int, loss: float = 2.0, seconds: float = 0.5) -> dict:
    return {"step": number, "loss": loss, "lr": 1e-3, "grad_norm": 1.5, "step_time_s": seconds, "samples_per_s": 8 / seconds,
            "tokens_per_s": 256 / seconds, "peak_memory_bytes": 2**20, "predicted_step_time_s": None}


def write(path, steps) -> None:
    with open(path, "a") as file:
        file.writelines(json.dumps(each) + "\n" for each in steps)


def test_the_curve_spans_all_rows_and_averages_neighbours():
    rows = _watch.plot([4.0, 3.0, 2.0, 1.0], width=40, height=2)
    assert [row[10:] for row in rows] == ["█▃  ", "██▆▁"] and rows[0].split()[0] == "4" and rows[1].split()[0] == "1"
    assert [row[10:] for row in _watch.plot([1.0, 1.0], width=40, height=2)] == ["  ", "▁▁"]
    assert _watch.plot([3.0, 5.0, 1.0, 1.0], width=2, height=2) == _watch.plot([4.0, 1.0], width=2, height=2)


def test_the_summary_has_loss_rate_and_time_left():
    text = _watch.summary([step(number, loss=3.25) for number in range(1, 11)], total=130)
    assert text == "step 10/130  loss 3.2500  lr 0.001  512 tokens/s  500 ms a step (median)  ETA 1:00"


def test_the_last_evaluation_is_shown_until_the_next_one():
    steps = [step(1), {**step(2), "eval_loss": 2.5}, step(3)]
    assert "loss 2.0000  eval loss 2.5000  lr" in _watch.summary(steps, total=None)
    assert ("validation_metrics/loss", 2.5) in list(_watch.scalars(steps[1]))


def test_a_log_is_read_line_by_line_as_it_grows(tmp_path):
    log = tmp_path / "run.jsonl"
    write(log, [step(1), step(2)])
    reader = _watch.LogReader(log)
    assert [each["step"] for each in reader.read()] == [1, 2]
    half = json.dumps(step(3))
    with open(log, "a") as file:
        file.write(half[:20])
    assert reader.read() == []
    with open(log, "a") as file:
        file.write(half[20:] + "\n")
    assert [each["step"] for each in reader.read()] == [3]
    log.write_text(json.dumps(step(1)) + "\n")  # a new run
    assert [each["step"] for each in reader.read()] == [1]
    write(log, [{"no": "step"}])
    with pytest.raises(InputError, match="run.jsonl:2: is not a step"):
        reader.read()


@pytest.mark.parametrize("line", ['{"step": 1, "step_time_s": 1}', "[" * 100000, json.dumps({**step(1), "loss": "low"}),
                                  json.dumps({**step(1), "loss": float("nan")}), json.dumps(step(1, seconds=float("inf")))])
def test_what_is_no_step_is_told_with_its_line(tmp_path, line):
    log = tmp_path / "run.jsonl"
    log.write_text(f"{json.dumps(step(1))}\n{line}\n")
    with pytest.raises(InputError, match="run.jsonl:2: is not a step"):
        _watch.LogReader(log).read()


def watch(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "dtc", "watch", *map(str, arguments)], capture_output=True, text=True,
                          env={"PYTHONPATH": str(PACKAGE), "PYTHONIOENCODING": "utf-8", "COLUMNS": "60"}, timeout=60)


def test_it_ends_with_the_run(tmp_path):
    log = tmp_path / "run.jsonl"
    write(log, [step(number, loss=3.0 / number) for number in range(1, 6)])
    shown = watch(log, "--steps", 5)
    assert shown.returncode == 0 and "step 5/5  loss 0.6000" in shown.stdout and "█" in shown.stdout
    missing = watch(tmp_path / "none.jsonl", "--once")
    assert missing.returncode == 3 and missing.stderr.startswith("dtc: error: ") and "cannot open" in missing.stderr
    assert watch(log, "--interval", "-1").returncode == 2


def test_tensorboards_own_reader_finds_the_steps(tmp_path):
    pytest.importorskip("tensorboard", reason="needs PyPI's tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    log = tmp_path / "run.jsonl"
    write(log, [step(number, loss=3.0 / number) for number in range(1, 4)])
    assert watch(log, "--once", "--tensorboard", tmp_path / "board").returncode == 0
    (file,) = (tmp_path / "board").iterdir()
    losses = {event.step: value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value
              for event in EventFileLoader(str(file)).Load() for value in event.summary.value
              if value.tag == "loss_metrics/global_avg_loss"}
    assert losses == pytest.approx({1: 3.0, 2: 1.5, 3: 1.0})


def test_tensorboard_gets_torchtitans_tags():
    tags = dict(_watch.scalars(step(1)))
    assert tags == {"loss_metrics/global_avg_loss": 2.0, "grad_norm": 1.5, "lr": 1e-3, "time_metrics/end_to_end(s)": 0.5,
                    "throughput(tps)": 512.0, "memory/max_reserved(GiB)": 2**-10}
