"""Compares the planner's predictions with published measurements.

    python3 bench/published/make_graphs.py                  # once; needs torch and transformers
    python3 bench/published/validate.py [--suite NAME ...] [--worst N] [--free] [--jobs N] [--json FILE]

Every run of runs.json that `dtc plan` can be asked about is planned with its own plan pinned. Printed are, by suite:
errors of step time and memory, runs wrongly said to fit or not, and, for jobs that were run under several plans,
what choosing by prediction costs. With --free each of these jobs is also planned with nothing pinned: the planner's
own choice must be predicted no slower than the best of the published plans. Suites are either fitted, that is constants of the cost model may be chosen by
looking at them, or held out; sums are given for both. docs/Validation.md explains the figures.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import math
import pathlib
import statistics

import metrics
import predict
import presets
import runs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
#: Runs whose graph computes other flops than their figures imply were described wrongly.
DIMENSION_TOLERANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A case with its prediction."""

    case: runs.Case
    prediction: predict.Prediction

    @property
    def run(self) -> dict:
        return self.case.run

    @property
    def suite(self) -> str:
        return self.run["suite"]

    @property
    def is_mixture(self) -> bool:
        return bool(self.run["model"].get("experts"))

    @property
    def known(self) -> bool:
        return self.prediction.seconds is not None

    @property
    def mismatch(self) -> float | None:
        """The dimension error, if it is too large."""
        if not self.known:
            return None
        error = runs.dimension_error(self.run, self.prediction.parameters)
        return error if error is not None and abs(error) > DIMENSION_TOLERANCE else None

    @property
    def times(self) -> tuple[float, float] | None:
        """Predicted and measured seconds of a step."""
        measured = runs.measured_seconds(self.run)
        usable = self.known and measured and not self.run["measured"].get("oom") and self.mismatch is None
        return (self.prediction.seconds, measured) if usable else None

    @property
    def memory(self) -> tuple[float, float] | None:
        """Predicted and measured bytes of the fullest rank."""
        measured = runs.measured_bytes(self.run)
        usable = self.known and measured and self.mismatch is None
        read = {"device": self.prediction.peak_bytes, "reserved": self.prediction.reserved_bytes,
                "allocated": self.prediction.allocated_bytes,
                "tensors": self.prediction.tensor_bytes}[self.case.reading]
        return (read, measured) if usable else None

    @property
    def fits(self) -> tuple[bool, bool] | None:
        """Whether it is predicted to fit, and whether it ran."""
        if not self.known or not self.case.memory_stated or self.mismatch is not None:
            return None
        return self.prediction.fits, not self.run["measured"].get("oom")

    @property
    def job(self) -> tuple:
        """Runs of one job differ in their plan alone."""
        model = {key: value for key, value in self.run["model"].items() if key != "vocab"}
        return (self.suite, json.dumps(model, sort_keys=True), self.run["cluster"], self.run["gpus"],
                self.run["plan"]["global_batch"], self.case.precision)


def present(values: list) -> list:
    return [value for value in values if value is not None]


def plans_of_jobs(outcomes: list[Outcome]) -> list[list[tuple[float, float]]]:
    """Predicted and measured seconds of each plan, by job with two or more; repeated runs of a plan count once, by
    their median."""
    jobs: dict[tuple, dict[str, list]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for outcome in outcomes:
        if outcome.times:
            jobs[outcome.job][outcome.case.spec].append(outcome.times)
    return [[(times[0][0], statistics.median(m for _, m in times)) for times in plans.values()]
            for _, plans in sorted(jobs.items()) if len(plans) > 1]


#: Differences of measured times above which the order of plans is also looked at: repeated runs differ by a few percent.
MARGINS = (0.01, 0.03, 0.05, 0.1)


def print_order(outcomes: list[Outcome], suites: dict) -> None:
    """How many pairs are ordered right among those that differ by more than some margins."""
    print("\npairs ordered right, of those whose measured times differ by more than")
    for name, fitted in (("fitted", True), ("held out", False)):
        plans = plans_of_jobs([o for o in outcomes if suites[o.suite]["fitted"] == fitted])
        cells = []
        for margin in MARGINS:
            counts = [metrics.order(pairs, margin) for pairs in plans]
            count, right = sum(c for c, _ in counts), sum(r for _, r in counts)
            cells.append(f"{100 * margin:.0f} %: {percent(right / count) if count else '-'} ({right}/{count})")
        print(f"  {name:9} " + "   ".join(cells))


@dataclasses.dataclass(frozen=True)
class FreeChoice:
    """What the planner chooses for a job by itself, beside the plans that were published for it."""

    job: str
    plans: int
    best: float  # predicted seconds of the published plan that fits and is predicted fastest
    seconds: float | None  # of the planner's own; None where it finds no plan that fits

    @property
    def loss(self) -> float:
        """Relative to the best published plan; negative where the choice is faster."""
        return self.seconds / self.best - 1 if self.seconds is not None else float("inf")

    @property
    def slower(self) -> bool:
        return self.loss > 1e-6  # the times are printed in decimal


def free_choices(outcomes: list[Outcome], predictor: predict.Predictor, workers: int) -> list[FreeChoice]:
    """Of every job that was run under two or more plans of which one is predicted to fit."""
    jobs: dict[tuple, dict[str, Outcome]] = collections.defaultdict(dict)
    for outcome in outcomes:
        if outcome.times:
            jobs[outcome.job][outcome.case.spec] = outcome
    plans = [[o for o in group.values() if o.prediction.fits] for group in jobs.values() if len(group) > 1]
    plans = [group for group in plans if group]
    free = predictor.predict_all([dataclasses.replace(group[0].case, spec="auto") for group in plans], workers)
    return [FreeChoice(group[0].run["id"], len(group), min(o.prediction.seconds for o in group),
                       answer.seconds if answer.fits else None) for group, answer in zip(plans, free)]


def print_free(found: list[FreeChoice]) -> None:
    slower = sorted((choice for choice in found if choice.slower), key=lambda choice: -choice.loss)
    print(f"\nplanned freely: {len(found)} jobs, {len(slower)} of them slower than the best published plan; "
          f"loss in percent: median {percent(statistics.median(c.loss for c in found)) if found else '-'}, "
          f"worst {percent(max((c.loss for c in found), default=None))}")
    for choice in slower:
        print(f"  {percent(choice.loss):>6} {choice.job} (of {choice.plans} plans)")


@dataclasses.dataclass(frozen=True)
class Summary:
    """The figures of some outcomes."""

    name: str
    cases: int
    refused: int
    mismatched: int
    time: metrics.Errors | None
    memory: metrics.Errors | None
    fits: metrics.Fits
    jobs: int
    mean_regret: float | None
    worst_regret: float | None
    pairs: int
    pairs_right: int
    correlation: float | None


def summarize(name: str, outcomes: list[Outcome]) -> Summary:
    chosen = [metrics.choice(pairs) for pairs in plans_of_jobs(outcomes)]
    regrets = [choice.regret for choice in chosen]
    return Summary(
        name, len(outcomes),
        sum(o.prediction.refused is not None for o in outcomes),
        sum(o.mismatch is not None for o in outcomes),
        metrics.errors(present([o.times for o in outcomes])),
        metrics.errors(present([o.memory for o in outcomes])),
        metrics.confusion(present([o.fits for o in outcomes])),
        len(chosen), statistics.mean(regrets) if regrets else None, max(regrets, default=None),
        sum(choice.pairs for choice in chosen), sum(choice.pairs_right for choice in chosen),
        statistics.mean(choice.correlation for choice in chosen) if chosen else None)


def percent(value: float | None) -> str:
    return f"{100 * value:.1f}" if value is not None else "-"


def row(s: Summary) -> list[str]:
    share = s.pairs_right / s.pairs if s.pairs else None
    fits = f"{s.fits.ran_fits}/{s.fits.ran_refused}/{s.fits.failed_fits}/{s.fits.failed_refused}"
    return [s.name, str(s.cases), str(s.refused), str(s.mismatched),
            *([str(s.time.count), percent(s.time.median), percent(s.time.p90), percent(s.time.bias)]
              if s.time else ["0", "-", "-", "-"]),
            *([str(s.memory.count), percent(s.memory.median), percent(s.memory.bias), percent(s.memory.share_under)]
              if s.memory else ["0", "-", "-", "-"]),
            fits, str(s.jobs), percent(s.mean_regret), percent(s.worst_regret), percent(share),
            f"{s.correlation:.2f}" if s.correlation is not None else "-"]


HEADER = ["suite", "cases", "refused", "dims", "time", "median", "p90", "bias", "memory", "median", "bias", "under",
          "fits", "jobs", "regret", "worst", "pairs", "corr"]


def print_table(rows: list[list[str]]) -> None:
    widths = [max(len(line[i]) for line in rows) for i in range(len(rows[0]))]
    for line in rows:
        print("  ".join(f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(line)))


def print_counts(title: str, reasons: list[str]) -> None:
    if reasons:
        print(f"\n{title}")
        for reason, count in collections.Counter(reasons).most_common():
            print(f"  {count:4} {reason}")


def print_worst(outcomes: list[Outcome], count: int) -> None:
    """The runs whose step time is most wrong."""
    timed = sorted((o for o in outcomes if o.times), key=lambda o: -abs(o.times[0] / o.times[1] - 1))
    print("\nworst step times: error, predicted and measured seconds, plan")
    for outcome in timed[:count]:
        predicted, measured = outcome.times
        print(f"  {percent(predicted / measured - 1):>6} {predicted:9.3f} {measured:9.3f}  {outcome.run['id']}  "
              f"{outcome.case.spec}")


def print_worst_memory(outcomes: list[Outcome], count: int) -> None:
    """The runs whose memory is most too low, with what was predicted of each kind."""
    known = sorted((o for o in outcomes if o.memory), key=lambda o: o.memory[0] / o.memory[1])
    print("\nmemory most too low: error, predicted and measured GiB, reading, plan, predicted by kind")
    for outcome in known[:count]:
        predicted, measured = outcome.memory
        parts = " ".join(f"{kind} {size / 2**30:.1f}" for kind, size in outcome.prediction.parts.items() if size)
        print(f"  {percent(predicted / measured - 1):>6} {predicted / 2**30:6.1f} {measured / 2**30:6.1f} "
              f"{outcome.case.reading}  {outcome.run['id']}  {outcome.case.spec}  {parts}")


def report(outcomes: list[Outcome], suites: dict) -> list[Summary]:
    """A summary of each suite, of those fitted, of those held out, of these by dense models and mixtures of experts,
    and of all."""
    names = sorted({outcome.suite for outcome in outcomes})
    parts = [(name + ("" if suites[name]["fitted"] else " *"), [o for o in outcomes if o.suite == name])
             for name in names]
    held_out = [o for o in outcomes if not suites[o.suite]["fitted"]]
    parts += [("fitted", [o for o in outcomes if suites[o.suite]["fitted"]]), ("held out *", held_out),
              ("  dense *", [o for o in held_out if not o.is_mixture]),
              ("  mixtures *", [o for o in held_out if o.is_mixture]), ("all", outcomes)]
    return [summarize(name, part) for name, part in parts if part]


def print_presets(outcomes: list[Outcome]) -> None:
    """Of all runs of a preset's suites: within what share nine in ten lie, and how many within the stated one."""
    print("\nruns of each program's suites, by all that were compared")
    for name, preset in presets.load().items():
        times = [o.times for o in outcomes if o.suite in preset.suites and o.times]
        errors = [abs(predicted / measured - 1) for predicted, measured in times]
        if not errors:
            continue
        nine_in_ten = sorted(errors)[math.ceil(0.9 * len(errors)) - 1]
        within = sum(error <= preset.error for error in errors)
        print(f"  {name:14}{len(errors):4} of {preset.runs} runs   nine in ten within {percent(nine_in_ten)} %"
              f"   {within} within the stated {percent(preset.error)} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtc", type=pathlib.Path, default=ROOT / "build" / "bin" / "dtc")
    parser.add_argument("--suite", nargs="+", help="only these suites")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worst", type=int, default=0, help="how many of the worst times and memory figures to list")
    parser.add_argument("--free", action="store_true", help="plan jobs with several plans freely, too (minutes)")
    parser.add_argument("--json", type=pathlib.Path, help="write the summaries here")
    options = parser.parse_args()
    suites = runs.load("suites")
    cases, others = runs.all_cases()
    wanted = set(options.suite or suites)
    if unknown := wanted - set(suites):
        parser.error(f"no such suite: {sorted(unknown)[0]}")
    cases = [case for case in cases if case.run["suite"] in wanted]
    others = [reason for run, reason in others if run["suite"] in wanted]
    missing = [case for case in cases if not case.graph.path.exists()]
    cases = [case for case in cases if case.graph.path.exists()]
    predictor = predict.Predictor(options.dtc)
    predictions = predictor.predict_all(cases, options.jobs)
    outcomes = [Outcome(case, prediction) for case, prediction in zip(cases, predictions)]
    summaries = report(outcomes, suites)
    print_table([HEADER] + [row(summary) for summary in summaries])
    print("\n* held out. Errors, bias, regret and pairs in percent; under: memory predicted too low by "
          "more than 3 %; fits: ran and predicted to fit / ran but refused / "
          "failed but predicted to fit / failed and refused")
    print_order(outcomes, suites)
    print_presets(outcomes)
    print_counts(f"{len(others)} runs that no plan of dtc can state:", others)
    print_counts("refused:", present([o.prediction.refused for o in outcomes]))
    if missing:
        print(f"\n{len(missing)} runs without a graph: run bench/published/make_graphs.py")
    if options.worst:
        print_worst(outcomes, options.worst)
        print_worst_memory(outcomes, options.worst)
    if options.free:
        print_free(free_choices(outcomes, predictor, options.jobs))
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(s) for s in summaries], indent=1) + "\n")


if __name__ == "__main__":
    main()
