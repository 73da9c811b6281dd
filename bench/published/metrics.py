"""How good predictions are: errors, refusals, order and regret, from plain numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of the values doesn't exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclasses.dataclass(frozen=True)
class Errors:
    """Relative errors of predictions; bias is the median of predicted/measured - 1."""

    count: int
    median: float
    p90: float
    bias: float
    share_under: float  # predictions that are too low by more than 3 %


def errors(pairs: list[tuple[float, float]]) -> Errors | None:
    """Of (predicted, measured) pairs; None without any."""
    if not pairs:
        return None
    signed = [predicted / measured - 1 for predicted, measured in pairs]
    sizes = [abs(error) for error in signed]
    return Errors(len(pairs), percentile(sizes, 0.5), percentile(sizes, 0.9), percentile(signed, 0.5),
                  sum(error < -0.03 for error in signed) / len(signed))


@dataclasses.dataclass(frozen=True)
class Fits:
    """Runs that ran or ran out of memory against what was predicted."""

    ran_fits: int = 0
    ran_refused: int = 0
    failed_fits: int = 0
    failed_refused: int = 0


def confusion(pairs: list[tuple[bool, bool]]) -> Fits:
    """Of (predicted to fit, ran) pairs."""
    count = {key: pairs.count(key) for key in itertools.product((True, False), repeat=2)}
    return Fits(count[True, True], count[False, True], count[True, False], count[False, False])


@dataclasses.dataclass(frozen=True)
class Choice:
    """What choosing by prediction among the plans of one job means.

    Regret is the measured time of the plan predicted fastest over the fastest measured one, less 1. A pair counts
    when its measured times differ by more than 1 %; it is right when the predicted ones have the same order.
    """

    plans: int
    regret: float
    pairs: int
    pairs_right: int
    correlation: float  # Spearman's; 0 where predictions or measurements are all equal


def ranks(values: list[float]) -> list[float]:
    """From 0; equal values share the mean of their ranks."""
    return [sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2
            for value in values]


def correlation(first: list[float], second: list[float]) -> float:
    a, b = ranks(first), ranks(second)
    mean = (len(a) - 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    size = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return product / size if size else 0.0


def order(pairs: list[tuple[float, float]], margin: float) -> tuple[int, int]:
    """Of (predicted, measured) times: how many pairs have measured times that differ by more than `margin` of the
    smaller one, and how many of those the predicted times order alike."""
    decided = [(a, b) for a, b in itertools.combinations(pairs, 2)
               if abs(a[1] - b[1]) > margin * min(a[1], b[1])]
    return len(decided), sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in decided)


def choice(pairs: list[tuple[float, float]]) -> Choice:
    """Of the (predicted, measured) times of two or more plans. Among plans predicted equal, the slowest measured
    one counts as chosen."""
    chosen = max(measured for predicted, measured in pairs if predicted == min(p for p, _ in pairs))
    decided, right = order(pairs, 0.01)
    return Choice(len(pairs), chosen / min(m for _, m in pairs) - 1, decided, right,
                  correlation([p for p, _ in pairs], [m for _, m in pairs]))
