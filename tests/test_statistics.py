"""Tests of differences against scipy and figures worked out by hand."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.statistics import detectable_difference, least_changed_cases, lowest_group, sign_flip_test


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


def test_what_does_not_differ_or_differs_alike_in_every_case():
    assert sign_flip_test([0.25] * 8) == (2 / 2**8, "exact")
    assert sign_flip_test([0.0] * 7) == (1.0, "exact")
    assert sign_flip_test([0.5]).p == 1.0
    for differences in ([0.25] * 8, [0.0] * 7):
        assert math.isnan(detectable_difference(differences))


@pytest.mark.parametrize("values", [[], [None], [float("nan"), None]])
def test_no_pair_gives_no_figure(values):
    assert math.isnan(sign_flip_test(values).p)
    assert math.isnan(detectable_difference(values))


def test_nulls_are_left_out_of_pairs():
    assert sign_flip_test([0.5, None, 0.25, float("nan"), 0.1]) == (2 / 8, "exact")


def test_a_group_far_below_the_rest_and_one_that_is_not():
    # 3 zeros against 3 ones: of the 20 ways to deal them out, 2 set the groups apart as clearly.
    assert lowest_group([0, 0, 0, 1, 1, 1], list("aaabbb")) == ("a", pytest.approx(0.1, abs=0.01))
    # A single zero falls to the group of one case in 1 of 7 deals; only then it stands so far below.
    assert lowest_group([1, 1, 0, 1, 1, 1, 1], list("bbabbbb")) == ("a", pytest.approx(1 / 7, abs=0.012))
    assert lowest_group([0.5] * 6, list("ababab")) == ("a", 1.0)
    assert lowest_group([0] * 9 + [1] * 9, ["low"] * 9 + ["high"] * 9).p < 0.001


@pytest.mark.thorough
def test_the_lowest_of_equal_groups_is_hardly_ever_found():
    rng = np.random.default_rng(3)
    groups = np.repeat(list("abcdef"), [4, 8, 12, 12, 20, 30])
    found = [lowest_group(rng.binomial(1, 0.8, len(groups)), groups).p <= 0.05 for _ in range(60)]
    assert np.mean(found) <= 0.1  # picking the lowest and testing it alone would find one in every fifth


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
