"""What `dtc plan --json` answers for the published runs of bench/published."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "published"), str(ROOT / "test" / "Integration")]

import graphs  # noqa: E402
import predict  # noqa: E402
import recording  # noqa: E402
import runs  # noqa: E402

#: Where bench/published/make_graphs.py puts the graphs.
FOLDER = graphs.CACHE
#: A quick record has graphs of at most so many layers.
QUICK_LAYERS = 48
#: These settings of a plan matter to its kind as one or more than one.
DEGREES = {"dp", "tp", "pp", "cp", "ep", "chunks"}


def kind(case: runs.Case) -> tuple[str, ...]:
    """The architecture and what a plan makes use of, without sizes."""
    settings = [setting.split("=") for setting in case.spec.split(",")]
    return (case.graph.architecture, *(
        f"{key}={'1' if value == '1' else 'more'}" if key in DEGREES else f"{key}={value}"
        for key, value in settings if key not in ("micro_batch", "zero_group")))


def first_of_each(cases: list[runs.Case], key) -> list[runs.Case]:
    found: dict = {}
    for case in cases:
        found.setdefault(key(case), case)
    return list(found.values())


def job(case: runs.Case) -> tuple:
    """What is planned freely: a run without its plan."""
    return (case.graph, json.dumps(case.cluster, sort_keys=True), case.run["gpus"], case.precision,
            case.run["plan"]["global_batch"])


def free(case: runs.Case) -> runs.Case:
    return dataclasses.replace(case, spec="auto")


def chosen(quick: bool) -> dict[str, runs.Case]:
    """The cases by name. A quick record has the smallest run of each kind of plan and of each architecture on each cluster
    freely."""
    cases, _ = runs.all_cases()
    jobs = first_of_each(cases, job)
    if quick:
        small = sorted((case for case in cases if case.graph.layers <= QUICK_LAYERS),
                       key=lambda case: (case.graph.layers, case.run["gpus"]))
        cases = first_of_each(small, kind)
        jobs = first_of_each(small, lambda case: (case.graph.architecture, case.run["cluster"]))
    return ({f"plan of {case.run['id']}": case for case in cases}
            | {f"free plan of {case.run['id']}": free(case) for case in jobs})


def value(code: int, out: str, err: str) -> dict:
    if code == 0:
        return {"answer": recording.answer(out)}
    return {"code": code, "refused": predict.interpret(code, out, err).refused}


def record(dtc: pathlib.Path, folder: pathlib.Path, quick: bool, jobs: int) -> tuple[dict[str, dict], list[str]]:
    """The answers by name, and the names of the graphs that the folder lacks."""
    graphs.CACHE, predict.RESULTS = folder, folder / "results"
    cases = chosen(quick)
    missing = sorted({case.graph.name for case in cases.values() if not case.graph.path.exists()})
    cases = {name: case for name, case in cases.items() if case.graph.path.exists()}
    answers = predict.Predictor(dtc).answers(list(cases.values()), jobs)
    entries = {name: {"test": case.graph.name, "value": value(*answer)}
               for (name, case), answer in zip(cases.items(), answers)}
    return entries, missing
