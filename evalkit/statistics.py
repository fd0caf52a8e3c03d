"""Could it be chance? Tests of paired cases and of groups, and the smallest difference that n cases can show."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.intervals import CELLS, RESAMPLES, SEED, present
from evalkit.measures import MISSING

FLIPS = 100_000
MAX_ENUMERATED = 16  # 2^16 sign patterns are fewer than FLIPS
ALPHA = 0.05
POWER = 0.8


class LowestGroup(NamedTuple):
    """The group that stands most clearly below all others, and whether that can be chance.

    Attributes
    ----------
    name
        Of the group.
    p
        Chance that some group stands so clearly below the rest when groups do not matter, in 0..1.
    """

    name: str
    p: float


def lowest_group(values: ArrayLike, groups: Sequence[str]) -> LowestGroup:
    """Find the group whose mean lies most clearly below that of all other cases; one-sided permutation test.

    Clearly is the difference from the rest over sqrt(1 / n + 1 / n of the rest). The cases are dealt out to the
    groups anew 9,999 times, and each time the clearest group counts, whichever it is: that the lowest of several was
    picked is allowed for (Westfall and Young, *Resampling-Based Multiple Testing*, 1993).

    Parameters
    ----------
    values
        One number a case, without nulls.
    groups
        The group of each case; two different ones at least.

    Returns
    -------
    LowestGroup
        Ties go to the first name. Same values, same p-value.
    """
    names, codes = np.unique(np.asarray(groups, dtype=np.str_), return_inverse=True)
    numbers = np.asarray(values, dtype=np.float64)
    members = np.equal.outer(codes, np.arange(len(names))).astype(np.float64)
    sizes, n = members.sum(axis=0), len(numbers)

    def below(cases: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = cases @ members
        rest = (cases.sum(axis=-1, keepdims=True) - sums) / (n - sizes)
        clear: NDArray[np.float64] = (rest - sums / sizes) / np.sqrt(1 / sizes + 1 / (n - sizes))
        return clear.round(9)  # the same sums taken in another order tie

    seen = below(numbers)
    rng, batch = np.random.default_rng(SEED), max(1, CELLS // n)
    as_clear = 0
    for start in range(0, RESAMPLES, batch):
        dealt = rng.permuted(np.tile(numbers, (min(batch, RESAMPLES - start), 1)), axis=1)
        as_clear += int((below(dealt).max(axis=1) >= seen.max()).sum())
    return LowestGroup(str(names[seen.argmax()]), (as_clear + 1) / (RESAMPLES + 1))


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
    counted = present(differences)
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
    rng = np.random.default_rng(SEED)
    total = 2**count if count <= MAX_ENUMERATED else FLIPS
    batch = max(1, CELLS // max(1, count))
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
    counted = present(differences)
    n = len(counted)
    if n < least_changed_cases() or np.ptp(counted) == 0:
        return float("nan")
    from scipy import stats

    quantiles = stats.t.ppf(1 - ALPHA / 2, n - 1) + stats.t.ppf(POWER, n - 1)
    return float(quantiles * counted.std(ddof=1) / np.sqrt(n))
