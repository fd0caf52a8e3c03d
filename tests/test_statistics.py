"""Intervals, bounds and tests against scipy and figures worked out by hand."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.statistics import (
    clopper_pearson,
    detectable_difference,
    least_changed_cases,
    mean_interval,
    mean_intervals,
    sign_flip_test,
)

UNIT = st.floats(0, 1, allow_subnormal=False)


def test_none_of_seven_and_two_of_two_by_hand():
    low, high = clopper_pearson([0, 2], [7, 2])
    assert low == pytest.approx([0.0, math.sqrt(0.025)])
    assert high == pytest.approx([1 - 0.025 ** (1 / 7), 1.0])


def test_no_trial_tells_nothing():
    assert [float(bound) for bound in clopper_pearson(0, 0)] == [0.0, 1.0]


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=60, deadline=None)
def test_clopper_pearson_equals_scipys_exact_bounds(counts):
    hits, of = counts
    expected = stats.binomtest(hits, of).proportion_ci(0.95, method="exact")
    low, high = clopper_pearson(hits, of)
    assert float(low) == pytest.approx(expected.low, abs=1e-12)
    assert float(high) == pytest.approx(expected.high, abs=1e-12)


def test_three_pairs_by_enumeration():
    # Of the eight sign patterns of (0.5, 0.25, 0.1) only the two without a change of sign sum to 0.85 or more.
    assert sign_flip_test([0.5, 0.25, 0.1]) == (2 / 8, "exact")
    # |0.5 - 0.25 + 0.1| = 0.35 is reached by (+++), (++-), (+-+) and their mirror images.
    assert sign_flip_test([0.5, -0.25, 0.1]) == (6 / 8, "exact")


@given(st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.1, 0.25, 1.0]), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_the_exact_test_counts_every_sign_pattern(differences):
    observed = abs(sum(differences))
    patterns = list(product((-1, 1), repeat=len(differences)))
    extreme = sum(
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= observed - 1e-12
        for signs in patterns
    )
    assert sign_flip_test(differences).p == pytest.approx(extreme / len(patterns))


def test_the_exact_test_equals_scipys():
    differences = np.random.default_rng(4).normal(0.3, 1, 12)
    expected = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=10_000)
    assert sign_flip_test(differences) == (pytest.approx(expected.pvalue), "exact")


def test_the_sampled_test_is_near_the_exact_one_and_repeats():
    # 17 equal differences, one of them against the rest: p = P(|2 * Binomial(17, 1/2) - 17| >= 15) exactly.
    differences = [0.2] * 16 + [-0.2]
    expected = 2 * stats.binom.cdf(1, 17, 0.5)
    first = sign_flip_test(differences)
    assert first.method == "resampled"
    assert first.p == pytest.approx(expected, abs=2e-4)
    assert first == sign_flip_test(differences)
    assert sign_flip_test([0.2] * 200).p == pytest.approx(1 / 100_001)


def test_a_constant_difference():
    assert mean_interval([0.25] * 8)[:4] == (0.25, 0.25, 0.25, 8)
    assert "are equal" in mean_interval([0.25] * 8).note
    assert sign_flip_test([0.25] * 8) == (2 / 2**8, "exact")
    assert math.isnan(detectable_difference([0.25] * 8))


def test_identical_runs_differ_by_nothing():
    assert mean_interval([0.0] * 7)[:4] == (0, 0, 0, 7)
    assert sign_flip_test([0.0] * 7) == (1.0, "exact")
    assert math.isnan(detectable_difference([0.0] * 7))


@pytest.mark.parametrize("values", [[], [None], [float("nan"), None]])
def test_no_value_gives_no_figure(values):
    interval = mean_interval(values)
    assert interval.n == 0
    assert math.isnan(interval.mean)
    assert "no case" in interval.note
    assert math.isnan(sign_flip_test(values).p)
    assert math.isnan(detectable_difference(values))


def test_one_value_has_a_mean_and_no_interval():
    interval = mean_interval([0.5])
    assert (interval.mean, interval.n) == (0.5, 1)
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)
    assert "single case" in interval.note
    assert sign_flip_test([0.5]).p == 1.0


def test_nulls_are_outside_mean_and_n():
    values = pd.Series([1, None, 0, None], dtype="Int64")
    assert mean_interval(values)[:1] == (0.5,)
    assert mean_interval(values).n == 2
    assert sign_flip_test([0.5, None, 0.25, float("nan"), 0.1]) == (2 / 8, "exact")


def test_few_cases_are_said_in_words():
    assert "only 7 cases" in mean_interval([0, 1, 0, 1, 1, 0, 1]).note
    assert mean_interval([0, 1] * 5).note == ""


def test_interval_equals_the_quantiles_of_all_resamples_of_two_values():
    # Of two values the resampled means are 0, 1/2 and 1 with chances 1/4, 1/2, 1/4: both tails reach the ends.
    assert mean_interval([0, 1])[:3] == (0.5, 0.0, 1.0)


@given(st.lists(UNIT, min_size=2, max_size=12))
@settings(max_examples=25, deadline=None)
def test_interval_holds_the_mean_stays_in_range_and_repeats(values):
    interval = mean_interval(values, resamples=999)
    assert min(values) - 1e-12 <= interval.low <= interval.high <= max(values) + 1e-12
    assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9
    assert interval == mean_interval(values, resamples=999)


def test_interval_covers_as_promised():
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.binomial(1, 0.8, 60), resamples=499) for _ in range(200)]
    covered = np.mean([one.low <= 0.8 <= one.high for one in intervals])
    assert 0.89 <= covered <= 0.99


def test_six_cases_must_change_before_chance_is_unlikely():
    assert least_changed_cases() == 6
    assert sign_flip_test([1.0] * 6).p <= 0.05 < sign_flip_test([1.0] * 5).p
    assert math.isnan(detectable_difference([0.1, 0.2, 0.3, 0.0, 0.5]))


def test_detectable_difference_has_the_power_it_promises():
    rng = np.random.default_rng(7)
    spread = rng.normal(0, 0.2, 40)
    effect = detectable_difference(spread)
    assert effect == pytest.approx((2.0227 + 0.8509) * spread.std(ddof=1) / math.sqrt(40), rel=1e-4)
    shifted = (rng.normal(effect, spread.std(ddof=1), 40) for _ in range(400))
    found = np.mean([stats.ttest_1samp(sample, 0).pvalue < 0.05 for sample in shifted])
    assert 0.7 <= found <= 0.9


def test_means_of_groups_keep_their_own_n():
    scores = pd.DataFrame(
        {
            "category": ["a", "a", "b", None],
            "k": 1,
            "recall": [1.0, 0.0, 1.0, 1.0],
            "coverage": [0.5, None, None, 1.0],
        }
    )
    table = mean_intervals(scores, ("category", "k"), ("recall", "coverage"))
    assert list(table.columns) == ["category", "k", "metric", "mean", "low", "high", "n", "note"]
    assert list(zip(table["metric"], table["n"], strict=True)) == [
        ("recall", 2), ("coverage", 1), ("recall", 1), ("coverage", 0), ("recall", 1), ("coverage", 1)
    ]  # fmt: skip
    assert table["mean"].isna().sum() == 1
    assert mean_intervals(scores.iloc[:0], ["k"], ["recall"]).empty
