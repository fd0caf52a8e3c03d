"""Intervals of means against scipy and figures worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.intervals import clopper_pearson, difference_of_means, mean_interval, mean_intervals

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


def test_a_constant_difference():
    # a = 0.025 ** (1 / 8) = 0.6306: in -1..1 the value 0.25 lies 1.25 above the least and 0.75 below the greatest.
    interval = mean_interval([0.25] * 8, bounds=(-1, 1))
    assert interval[:4] == (0.25, pytest.approx(-1 + 1.25 * 0.63058, abs=1e-4),
                            pytest.approx(1 - 0.75 * 0.63058, abs=1e-4), 8)  # fmt: skip
    assert "all 8 values are equal" in interval.note


def test_identical_runs_differ_by_nothing_as_far_as_so_few_cases_can_tell():
    reach = 1 - 0.025 ** (1 / 7)
    assert mean_interval([0.0] * 7, bounds=(-1, 1))[:4] == (0, pytest.approx(-reach), pytest.approx(reach), 7)


def test_yes_and_no_have_exact_bounds_also_when_all_are_equal():
    # Of 3, 2 are 1: the bounds solve P(X >= 2) = 0.025 and P(X <= 2) = 0.025 with X binomial.
    interval = mean_interval([1, 0, 1])
    assert (interval.mean, interval.n, interval.method) == (pytest.approx(2 / 3), 3, "exact")
    assert 3 * interval.low**2 - 2 * interval.low**3 == pytest.approx(0.025)
    assert 1 - interval.high**3 == pytest.approx(0.025)
    assert mean_interval([1, 1, 1])[:3] == (1, pytest.approx(0.025 ** (1 / 3)), 1)
    assert mean_interval([0] * 90)[:3] == (0, 0, pytest.approx(0.0402, abs=1e-4))
    assert interval.note == ""


@given(UNIT, st.integers(1, 40))
def test_equal_values_are_never_certain(value, n):
    interval = mean_interval([value] * n)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1
    assert interval.high - interval.low >= 0.99 * (1 - 0.025 ** (1 / n))


@pytest.mark.parametrize("chance", [0.9, 0.97, 0.995])
def test_the_bounds_of_equal_values_hold_for_the_worst_distribution(chance):
    # Values c or 0, c with this chance: n equal ones are seen with chance ** n, and wrong only below 2.5 %.
    c, n = 0.4, 12
    excluded = mean_interval([c] * n).low > c * chance
    assert excluded == (chance**n < 0.025)


@pytest.mark.parametrize("values", [[], [None], [float("nan"), None]])
def test_no_value_gives_no_figure(values):
    interval = mean_interval(values)
    assert interval.n == 0
    assert math.isnan(interval.mean)
    assert "no case" in interval.note


def test_one_value_tells_next_to_nothing():
    interval = mean_interval([0.5])
    assert interval[:4] == (0.5, pytest.approx(0.0125), pytest.approx(0.9875), 1)
    assert "single case" in interval.note


def test_nulls_are_outside_mean_and_n():
    values = pd.Series([1, None, 0, None], dtype="Int64")
    assert mean_interval(values)[:1] == (0.5,)
    assert mean_interval(values).n == 2


def test_few_cases_are_said_in_words():
    assert "only 7 cases" in mean_interval([0, 1, 0.5, 1, 1, 0, 1]).note
    assert mean_interval([0, 0.5] * 5).note == ""


def test_interval_equals_the_quantiles_of_all_resamples_of_two_values():
    # Of two values the resampled means are 0, 1/4 and 1/2 with chances 1/4, 1/2, 1/4: both tails reach the ends.
    assert mean_interval([0, 0.5])[:3] == (0.25, 0.0, 0.5)


@given(st.lists(UNIT, min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_interval_holds_the_mean_stays_in_range_and_repeats(values):
    interval = mean_interval(values, resamples=999)
    assert 0 <= interval.low <= interval.high <= 1
    if interval.method == "bootstrap":
        assert min(values) - 1e-12 <= interval.low <= interval.high <= max(values) + 1e-12
    assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9
    assert interval == mean_interval(values, resamples=999)


def test_interval_covers_as_promised():
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.binomial(2, 0.8, 60) / 2, resamples=499) for _ in range(200)]
    covered = np.mean([one.low <= 0.8 <= one.high for one in intervals])
    assert 0.89 <= covered <= 0.99
    exact = [mean_interval(rng.binomial(1, 0.8, 60)) for _ in range(200)]
    assert np.mean([one.low <= 0.8 <= one.high for one in exact]) >= 0.93


def test_difference_of_two_groups_by_hand():
    one, other = mean_interval([0, 1, 1, 1]), mean_interval([1] * 6)
    apart = difference_of_means(one, other)
    assert (apart.mean, apart.n) == (-0.25, 10)
    assert apart.low == pytest.approx(-0.25 - (0.75 - one.low))  # the other mean cannot be higher than 1
    assert apart.high == pytest.approx(-0.25 + math.hypot(one.high - 0.75, 1 - other.low))
    assert math.isnan(difference_of_means(one, mean_interval([])).low)


def test_difference_of_two_groups_covers_as_promised():
    rng = np.random.default_rng(5)
    pairs = [
        (mean_interval(rng.binomial(1, 0.6, 15)), mean_interval(rng.binomial(1, 0.9, 60))) for _ in range(300)
    ]
    bounds = [difference_of_means(*pair) for pair in pairs]
    assert np.mean([one.low <= -0.3 <= one.high for one in bounds]) >= 0.93


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
