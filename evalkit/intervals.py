"""How far a mean over a few questions can be trusted: exact bounds, bounds of equal values, bootstrap."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from evalkit.measures import MEASURES

CONFIDENCE = 0.95
RESAMPLES = 9_999
FEW = 10
SEED = 0
CELLS = 4_000_000  # resampled values held at once, to bound memory


class Interval(NamedTuple):
    """A mean with its 95 % interval.

    Attributes
    ----------
    mean, low, high
        Mean and bounds in the unit of the values; NaN without a value.
    n
        Values that count; nulls do not.
    method
        ``exact``, ``equal`` or ``bootstrap``, as `mean_interval` chooses, ``groups`` of `difference_of_means`; empty
        without a value.
    """

    mean: float
    low: float
    high: float
    n: int
    method: str

    @property
    def note(self) -> str:
        """What a reader must know before trusting the bounds, in words; empty when there is nothing to say."""
        if self.n == 0:
            return "no case counts, so there is no mean"
        if self.n == 1:
            return "a single case tells next to nothing"
        if self.method == "equal":
            return f"all {self.n} values are equal: the width of the interval comes from n alone"
        if self.method == "bootstrap" and self.n < FEW:
            return f"only {self.n} cases: the interval is a rough hint and likely too narrow"
        return ""


def mean_interval(
    values: ArrayLike, *, bounds: tuple[float, float] = (0.0, 1.0), resamples: int = RESAMPLES
) -> Interval:
    """Mean over cases with a 95 % interval.

    Three methods, by what the values are:

    - Each is one of the two bounds, as for yes and no: ``exact`` bounds of `clopper_pearson`.
    - All are equal, or there is one alone: resampling would show no spread and claim certainty. Instead ``equal``
      takes the means that n such values do not refute. With values in 0..1, all of them c, these are
      ``c * a`` to ``1 - (1 - c) * a`` with ``a = 0.025 ** (1 / n)``: by Markov's inequality a single value exceeds
      mean / a with a chance of at most a, so all n do with one of at most 2.5 %; likewise from above. At
      c = 0 and c = 1 this is `clopper_pearson`, the two-sided form of the "rule of three" (Hanley and
      Lippman-Hand, JAMA 249, 1983).
    - Else ``bootstrap``: cases are drawn with replacement; the bounds are the 2.5 and 97.5 percentiles of the
      resampled means (the percentile method of Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993,
      chapter 13). It is chosen because its bounds exist for every input and never leave the range of the values.

    For paired differences, pass the differences: drawing cases keeps each pair together.

    Parameters
    ----------
    values
        One number a case; NaN and None are left out and not counted in ``n``. Same values, same bounds.
    bounds
        Least and greatest value that there can be: 0 and 1 for scores, -1 and 1 for their differences.
    resamples
        Number of resamples.

    Returns
    -------
    Interval
        Within the bounds; without values NaN throughout and ``n`` 0.
    """
    counted = present(values)
    n = len(counted)
    if n == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0, "")
    mean, (least, greatest) = float(counted.mean()), bounds
    unit = (counted - least) / (greatest - least)
    if np.isin(unit, (0.0, 1.0)).all():
        method, (low, high) = "exact", clopper_pearson(unit.sum(), n)
    elif np.ptp(counted) == 0:
        share = ((1 - CONFIDENCE) / 2) ** (1 / n)
        method, (low, high) = "equal", (unit[0] * share, 1 - (1 - unit[0]) * share)
    else:
        return Interval(mean, *_resampled_bounds(counted, resamples), n, "bootstrap")
    low, high = least + (greatest - least) * np.array([low, high])
    return Interval(mean, float(low), float(high), n, method)


def _resampled_bounds(values: NDArray[np.float64], resamples: int) -> tuple[float, float]:
    from scipy import stats  # loading takes longer than most of what notebooks do: only where it is needed

    interval = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, CELLS // len(values)),
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def mean_intervals(
    scores: pd.DataFrame, by: Sequence[str], metrics: Iterable[str] = MEASURES
) -> pd.DataFrame:
    """Means of several metrics in groups of cases, each with n and interval.

    Parameters
    ----------
    scores
        A row a case and K, with the columns of ``by`` and ``metrics``.
    by
        Columns that make a group, such as ``("category", "k")``; rows with a null there form a group of their own.
    metrics
        Columns to average; nulls are outside the mean.

    Returns
    -------
    DataFrame
        ``*by, metric, mean, low, high, n, note``, groups in sorted order, metrics in the order given. Empty
        scores give an empty table with these columns.
    """
    names = list(metrics)
    rows = [
        (*group, name, *(interval := mean_interval(cases[name]))[:4], interval.note)
        for group, cases in scores.groupby(list(by), dropna=False, sort=True)
        for name in names
    ]
    return pd.DataFrame(rows, columns=[*by, "metric", "mean", "low", "high", "n", "note"])


def clopper_pearson(
    successes: ArrayLike, trials: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact 95 % bounds of a proportion (Clopper and Pearson, Biometrika 26, 1934).

    Parameters
    ----------
    successes, trials
        Counts, broadcast against each other; ``0 <= successes <= trials``.

    Returns
    -------
    low, high
        Bounds within 0..1 in the broadcast shape; no trial gives 0 and 1: nothing is known.
    """
    hits, of = np.broadcast_arrays(
        np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    )
    from scipy import stats

    tail = (1 - CONFIDENCE) / 2
    low = np.where(hits > 0, stats.beta.ppf(tail, np.maximum(hits, 1), of - hits + 1), 0.0)
    high = np.where(hits < of, stats.beta.ppf(1 - tail, hits + 1, np.maximum(of - hits, 1)), 1.0)
    return low, high


def difference_of_means(one: Interval, other: Interval) -> Interval:
    """Difference of the means of two groups that share no case, with the 95 % interval that theirs give.

    The distances of the bounds from their means add up like standard errors, each on the side that counts (Newcombe,
    Statistics in Medicine 17, 1998, method 10; Zou and Donner, Statistics in Medicine 27, 2008). Honest bounds of
    both groups give honest ones, also where all values of a group are equal.

    Parameters
    ----------
    one, other
        From `mean_interval`.

    Returns
    -------
    Interval
        ``one`` minus ``other``; NaN where one of them has no value.
    """
    difference = one.mean - other.mean
    low = difference - float(np.hypot(one.mean - one.low, other.high - other.mean))
    high = difference + float(np.hypot(one.high - one.mean, other.mean - other.low))
    return Interval(difference, low, high, one.n + other.n, "groups")


def present(values: ArrayLike) -> NDArray[np.float64]:
    """Give the values as floats, without nulls."""
    numbers = pd.to_numeric(pd.Series(values)).to_numpy(dtype=np.float64, na_value=np.nan).astype(np.float64)
    return numbers[~np.isnan(numbers)]
