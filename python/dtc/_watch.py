"""`python -m dtc watch run.jsonl`: a run as it goes, from the log that `dtc-run --log` writes."""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._errors import Error, InputError, UnsupportedError

#: Rows of the plot.
HEIGHT = 10
BLOCKS = " ▁▂▃▄▅▆▇█"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_step(step: Any) -> bool:
    """Whether it has what is shown of a step."""
    return (isinstance(step["step"], int) and all(_is_number(step[key]) for key in ("lr", "samples_per_s", "step_time_s"))
            and step["step_time_s"] > 0
            and all(step.get(key) is None or _is_number(step[key])
                    for key in ("loss", "eval_loss", "grad_norm", "tokens_per_s", "peak_memory_bytes")))


class LogReader:
    """Reads the whole lines that a log has gained since the last call."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._at = 0
        self._lines = 0

    def read(self) -> list[dict[str, Any]]:
        """The new steps. A log that became shorter belongs to a new run, and is read from its beginning."""
        try:
            with open(self._path, "rb") as file:
                if file.seek(0, 2) < self._at:
                    self._at = self._lines = 0
                file.seek(self._at)
                text = file.read()
        except OSError as error:
            raise InputError(f"{self._path}: cannot open: {error.strerror}") from None
        whole = text[:text.rfind(b"\n") + 1]
        self._at += len(whole)
        return [self._parse(line) for line in whole.splitlines()]

    def _parse(self, line: bytes) -> dict[str, Any]:
        self._lines += 1
        try:
            step = json.loads(line)
            if _is_step(step):
                return step
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            pass
        raise InputError(f"{self._path}:{self._lines}: is not a step of a log that dtc-run writes")


def plot(values: Sequence[float], width: int, height: int = HEIGHT) -> list[str]:
    """The curve of finite values in blocks of an eighth of a row, means of neighbours where there are more than columns."""
    if not values:
        return []
    columns = min(width, len(values))
    cuts = [index * len(values) // columns for index in range(columns + 1)]
    means = [math.fsum(values[a:b]) / (b - a) for a, b in zip(cuts, cuts[1:])]
    low, high = min(means), max(means)
    scale = (8 * height - 1) / (high - low) if high > low else 0.0
    eighths = [1 + round((mean - low) * scale) for mean in means]
    rows = ["".join(BLOCKS[max(0, min(8, value - 8 * row))] for value in eighths) for row in reversed(range(height))]
    labels = [f"{high:9.4g} ", *[" " * 10] * (height - 2), f"{low:9.4g} "]
    return [label + row for label, row in zip(labels, rows)]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary(steps: Sequence[dict[str, Any]], total: int | None) -> str:
    """One line: loss, rate and, where the number of steps is known, the time left."""
    last = steps[-1]
    recent = sorted(step["step_time_s"] for step in steps[-50:])
    seconds = recent[len(recent) // 2]
    parts = [f"step {last['step']}" + (f"/{total}" if total else "")]
    if last.get("loss") is not None:
        parts.append(f"loss {last['loss']:.4f}")
    evaluated = [step["eval_loss"] for step in steps if step.get("eval_loss") is not None]
    if evaluated:
        parts.append(f"eval loss {evaluated[-1]:.4f}")
    parts.append(f"lr {last['lr']:.3g}")
    rate, unit = (last["tokens_per_s"], "tokens/s") if last.get("tokens_per_s") else (last["samples_per_s"], "samples/s")
    parts.append(f"{rate * last['step_time_s'] / seconds:.0f} {unit}")
    parts.append(f"{seconds * 1e3:.4g} ms a step (median)")
    if total and total > last["step"]:
        parts.append(f"ETA {_duration((total - last['step']) * seconds)}")
    return "  ".join(parts)


def page(steps: Sequence[dict[str, Any]], total: int | None, width: int) -> str:
    """What is shown: the curve of the loss, and the summary."""
    losses = [step["loss"] for step in steps if step.get("loss") is not None]
    return "\n".join([*plot(losses, max(1, width - 10)), summary(steps, total)]) + "\n"


def scalars(step: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """A step's figures under the tags that torchtitan gives them."""
    tags = {"loss": "loss_metrics/global_avg_loss", "eval_loss": "validation_metrics/loss", "grad_norm": "grad_norm", "lr": "lr",
            "step_time_s": "time_metrics/end_to_end(s)", "tokens_per_s": "throughput(tps)"}
    for key, tag in tags.items():
        if step.get(key) is not None:
            yield tag, float(step[key])
    if step.get("peak_memory_bytes") is not None:
        yield "memory/max_reserved(GiB)", step["peak_memory_bytes"] / 2**30


def tensorboard_writer(folder: str) -> Callable[[dict[str, Any]], None]:
    """Hands steps to TensorBoard's own writer."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        raise UnsupportedError("--tensorboard needs TensorBoard: pip install tensorboard") from None
    writer = EventFileWriter(folder)

    def write(step: dict[str, Any]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(step)]
        writer.add_event(Event(wall_time=time.time(), step=step["step"], summary=Summary(value=values)))
        writer.flush()

    return write


def _follow(arguments: argparse.Namespace, show: Callable[[str], None], width: Callable[[], int]) -> None:
    write = tensorboard_writer(arguments.tensorboard) if arguments.tensorboard else None
    reader = LogReader(arguments.log)
    steps: list[dict[str, Any]] = []
    while True:
        new = reader.read()
        if new and steps and new[0]["step"] <= steps[-1]["step"]:
            steps.clear()
        steps += new
        for step in new if write else ():
            write(step)
        if new:
            show(page(steps, arguments.steps, width()))
        if arguments.once or (arguments.steps and steps and steps[-1]["step"] >= arguments.steps):
            return
        time.sleep(arguments.interval)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"is no number of seconds: {text}")
    return value


def main(arguments: list[str]) -> int:
    """The command line of `python -m dtc watch`."""
    import shutil
    parser = argparse.ArgumentParser(prog="python -m dtc watch", description="Shows a run as it goes.")
    parser.add_argument("log", type=pathlib.Path, help="the file of dtc-run --log")
    parser.add_argument("--steps", type=int, help="of the whole run: shows the time left, and ends with the run")
    parser.add_argument("--tensorboard", metavar="DIR", help="hands the steps to TensorBoard's writer as well")
    parser.add_argument("--once", action="store_true", help="shows what there is, and ends")
    parser.add_argument("--interval", type=_seconds, default=1.0, help="seconds between two looks")
    parsed = parser.parse_args(arguments)
    clear = "\x1b[H\x1b[2J" if sys.stdout.isatty() else ""

    def show(text: str) -> None:
        sys.stdout.write(clear + text)
        sys.stdout.flush()

    try:
        _follow(parsed, show, lambda: shutil.get_terminal_size().columns)
    except Error as error:
        print(f"dtc: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0
