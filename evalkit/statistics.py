"""How far a figure from a few questions can be trusted: intervals, bounds, paired tests."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from evalkit.measures import MISSING

CONFIDENCE = 0.95
RESAMPLES = 9_999
FLIPS = 100_000
MAX_ENUMERATED = 16  # 2^16 sign patterns are fewer than FLIPS
ALPHA = 0.05
POWER = 0.8
FEW = 10
_SEED = 0
_CELLS = 4_000_000  # resampled values held at once, to bound memory


class Interval(NamedTuple):
    """A mean with its 95 % interval.

    Attributes
    ----------
    mean, low, high
        Mean and bounds in the unit of the values; NaN where they do not exist (no value; bounds: fewer than 2).
    n
        Values that count; nulls do not.
    constant
        All values are equal, so that resampling shows no spread.
    """

    mean: float
    low: float
    high: float
    n: int
    constant: bool

    @property
    def note(self) -> str:
        """What a reader must know before trusting the bounds, in words; empty when there is nothing to say."""
        if self.n == 0:
            return "no case counts, so there is no mean"
        if self.n == 1:
            return "a single case has no interval"
        if self.constant:
            return (
                f"all {self.n} values are equal: resampling them shows no spread, "
                "which does not mean that there is no uncertainty"
            )
        if self.n < FEW:
            return f"only {self.n} cases: the interval is a rough hint and likely too narrow"
        return ""


def mean_interval(values: ArrayLike, *, resamples: int = RESAMPLES) -> Interval:
    """Mean over cases with a bootstrap interval.

    Cases are drawn with replacement; the bounds are the 2.5 and 97.5 percentiles of the resampled means (the
    percentile method of Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13). It is chosen
    because its bounds exist for every input and never leave the range of the values. For paired differences,
    pass the differences: drawing cases keeps each pair together.

    Parameters
    ----------
    values
        One number a case; NaN and None are left out and not counted in ``n``. Same values, same bounds.
    resamples
        Number of resamples.

    Returns
    -------
    Interval
        Without values NaN throughout and ``n`` 0; with one value NaN bounds; with equal values both bounds are
        that value and ``constant`` is set.
    """
    counted = _present(values)
    n = len(counted)
    if n == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0, constant=False)
    mean = float(counted.mean())
    if n == 1:
        return Interval(mean, float("nan"), float("nan"), 1, constant=True)
    if np.ptp(counted) == 0:
        return Interval(float(counted[0]), float(counted[0]), float(counted[0]), n, constant=True)
    from scipy import stats  # loading takes longer than most of what notebooks do: only where it is needed

    bounds = stats.bootstrap(
        (counted,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, _CELLS // n),
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return Interval(mean, float(bounds.low), float(bounds.high), n, constant=False)


def mean_intervals(scores: pd.DataFrame, by: Sequence[str], metrics: Iterable[str]) -> pd.DataFrame:
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


class PairedTest(NamedTuple):
    """Outcome of a sign-flip test.

    Attributes
    ----------
    p
        Two-sided p-value in 0..1; NaN without pairs.
    method
        ``exact`` (all sign patterns enumerated) or ``resampled`` (100,000 random ones).
    """

    p: float
    method: str


def sign_flip_test(differences: ArrayLike) -> PairedTest:
    """Could the mean difference of paired cases be chance? Two-sided paired sign-flip permutation test.

    If the two runs were equal, each case's difference could as well have had the other sign. A zero has no sign, so
    that only cases that differ are flipped: up to 16 of them are enumerated, more are sampled 100,000 times
    (Fisher, *The Design of Experiments*, 1935). Equal to ``scipy.stats.permutation_test`` with
    ``permutation_type="samples"`` (a test compares them), which takes 20 times as long for 90 cases.

    Parameters
    ----------
    differences
        Candidate minus baseline, one a case; nulls are left out. Same values, same p-value.

    Returns
    -------
    PairedTest
        ``p`` is 1 when no case differs, NaN when there is no case.
    """
    counted = _present(differences)
    if len(counted) == 0:
        return PairedTest(float("nan"), "exact")
    differing = counted[counted != 0]
    exact = len(differing) <= MAX_ENUMERATED
    observed = abs(differing.sum())
    # The same sum taken in another order may differ in its last bits.
    as_extreme = observed - 1e-9 * max(observed, 1.0)
    extreme = patterns = 0
    for sums in _signed_sums(differing):
        extreme += int((np.abs(sums) >= as_extreme).sum())
        patterns += len(sums)
    # A sample counts the observed pattern itself, so that p is never 0 (Phipson and Smyth, 2010).
    if exact:
        return PairedTest(extreme / patterns, "exact")
    return PairedTest((extreme + 1) / (patterns + 1), "resampled")


def p_text(p: float) -> str:
    """Write a p-value with three digits, never as 0; one that does not exist as a dash."""
    return MISSING if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _signed_sums(values: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    count = len(values)
    rng = np.random.default_rng(_SEED)
    total = 2**count if count <= MAX_ENUMERATED else FLIPS
    batch = max(1, _CELLS // max(1, count))
    for start in range(0, total, batch):
        size = min(batch, total - start)
        if count <= MAX_ENUMERATED:
            kept = (np.arange(start, start + size)[:, np.newaxis] >> np.arange(count)) & 1
        else:
            kept = rng.integers(0, 2, size=(size, count), dtype=np.int8)
        yield 2 * (kept.astype(np.float64) @ values) - values.sum()


def least_changed_cases() -> int:
    """Fewest cases that must all change in one direction before the sign-flip test can give p <= 0.05.

    With m changed cases the smallest two-sided p-value is 2 / 2^m, whatever the size of the changes.
    """
    return int(np.ceil(np.log2(2 / ALPHA)))


def detectable_difference(differences: ArrayLike) -> float:
    """Smallest true mean difference that this many pairs, spread like these, would show in 4 of 5 experiments.

    ``(t(0.975, n - 1) + t(0.8, n - 1)) * s / sqrt(n)`` with the standard deviation s of the differences seen: the
    usual power formula of a paired test at 5 % two-sided and 80 % power (Cohen, *Statistical Power Analysis*, 1988).

    Parameters
    ----------
    differences
        Candidate minus baseline, one a case; nulls are left out.

    Returns
    -------
    float
        In the unit of the differences. NaN when there are too few cases for any difference to reach p <= 0.05 (see
        `least_changed_cases`) or all differences are equal, since then nothing is known about their spread.
    """
    counted = _present(differences)
    n = len(counted)
    if n < least_changed_cases() or np.ptp(counted) == 0:
        return float("nan")
    from scipy import stats

    quantiles = stats.t.ppf(1 - ALPHA / 2, n - 1) + stats.t.ppf(POWER, n - 1)
    return float(quantiles * counted.std(ddof=1) / np.sqrt(n))


def _present(values: ArrayLike) -> NDArray[np.float64]:
    numbers = pd.to_numeric(pd.Series(values)).to_numpy(dtype=np.float64, na_value=np.nan).astype(np.float64)
    return numbers[~np.isnan(numbers)]
