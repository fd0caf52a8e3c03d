"""Arithmetic of the metrics: by hand, by plain loops, and properties."""

import subprocess
import sys
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import metrics


def score_grades(grades, ks, gain="exponential", judged=None):
    """Scores of one ranking, given the grades in ranked order; None is an unjudged document."""
    known = [(rank, grade) for rank, grade in enumerate(grades, 1) if grade is not None]
    all_grades = judged if judged is not None else [grade for _, grade in known]
    prepared = metrics.prepare(
        np.zeros(len(all_grades), int), np.arange(len(all_grades)), np.array(all_grades, int), 1, ks, gain
    )
    rank, grade = np.array(known, int).reshape(-1, 2).T
    return {
        name: part[0].tolist()
        for name, part in metrics.score(prepared, np.zeros_like(rank), rank, grade)._asdict().items()
    }


def test_grades_0_2_1_at_3_by_hand():
    scores = score_grades([0, 2, 1], [3])
    assert scores["precision"] == [pytest.approx(2 / 3)]
    assert scores["recall"] == [1.0]
    assert scores["reciprocal_rank"] == [0.5]
    assert scores["ndcg"] == [pytest.approx((3 / log2(3) + 1 / 2) / (3 + 1 / log2(3)))]
    assert round(scores["ndcg"][0], 4) == 0.6590


def test_grades_0_2_2_at_3_by_hand():
    scores = score_grades([0, 2, 2], [3])
    assert round(scores["ndcg"][0], 4) == 0.6934


def test_linear_gain_by_hand():
    scores = score_grades([0, 2, 1], [3], gain="linear")
    assert scores["ndcg"] == [pytest.approx((2 / log2(3) + 1 / 2) / (2 + 1 / log2(3)))]


def test_k_beyond_a_short_list_divides_precision_by_k():
    scores = score_grades([2, None], [1, 2, 5], judged=[2, 1])
    assert scores["precision"] == [1.0, 0.5, 0.2]
    assert scores["recall"] == [0.5, 0.5, 0.5]
    assert scores["reciprocal_rank"] == [1.0, 1.0, 1.0]
    assert scores["ndcg"] == [1.0, pytest.approx(3 / (3 + 1 / log2(3))), pytest.approx(3 / (3 + 1 / log2(3)))]


def test_a_hit_beyond_k_does_not_count():
    scores = score_grades([None, None, 2], [1, 2, 3])
    assert scores["reciprocal_rank"] == [0.0, 0.0, pytest.approx(1 / 3)]
    assert scores["ndcg"] == [0.0, 0.0, 0.5]


def test_an_empty_ranking_and_a_query_without_relevant_documents_score_zero():
    assert score_grades([], [1, 3], judged=[2, 1]) == {name: [0.0, 0.0] for name in metrics.METRICS}
    assert score_grades([0, 0], [1, 3]) == {name: [0.0, 0.0] for name in metrics.METRICS}


def test_grades_below_zero_neither_gain_nor_cost():
    assert score_grades([-1, 2, -2], [3])["ndcg"] == score_grades([0, 2, 0], [3])["ndcg"]


def test_of_two_grades_of_a_document_the_higher_wins():
    prepared = metrics.prepare(np.zeros(3, int), np.array([4, 4, 1]), np.array([1, 2, 0]), 1, [1])
    assert prepared.grades.tolist() == [0, 2]
    assert prepared.n_relevant.tolist() == [1]


def test_find_knows_judged_pairs_only():
    prepared = metrics.prepare(np.array([0, 1]), np.array([3, 0]), np.array([1, 1]), 2, [1])
    query, document = np.array([0, 1, 0, 1, 0, 1]), np.array([3, 0, 0, 3, -1, 4])
    assert metrics.find(prepared, query, document).tolist() == [0, 1, -1, -1, -1, -1]


def test_no_judgments_at_all():
    none = np.zeros(0, int)
    prepared = metrics.prepare(none, none, none, 2, [1, 2])
    assert metrics.find(prepared, np.array([0]), np.array([0])).tolist() == [-1]
    assert all(part.tolist() == [[0, 0], [0, 0]] for part in metrics.score(prepared, none, none, none))


@pytest.mark.parametrize(
    ("ks", "gain", "query", "text"),
    [
        ([0], "linear", 0, "K"),
        ([], "linear", 0, "K"),
        ([1], "cubic", 0, "cubic"),
        ([1], "linear", 1, "queries"),
    ],
)
def test_arguments_out_of_range_are_refused(ks, gain, query, text):
    with pytest.raises(ValueError, match=text):
        metrics.prepare(np.array([query]), np.array([0]), np.array([1]), 1, ks, gain)


def by_loops(grades, all_grades, k, gain):
    """The definitions once more, for one ranking, without arrays."""
    worth = (lambda grade: 2 ** max(grade, 0) - 1) if gain == "exponential" else (lambda grade: max(grade, 0))
    top = [(rank, grade) for rank, grade in enumerate(grades, 1) if rank <= k and grade is not None]
    hits = [rank for rank, grade in top if grade >= 1]
    relevant = sum(grade >= 1 for grade in all_grades)
    ideal = sum(worth(g) / log2(r + 1) for r, g in enumerate(sorted(all_grades, reverse=True)[:k], 1))
    return (
        len(hits) / k,
        len(hits) / relevant if relevant else 0.0,
        1 / hits[0] if hits else 0.0,
        sum(worth(g) / log2(r + 1) for r, g in top) / ideal if ideal else 0.0,
    )


GRADE = st.integers(-1, 4)
RANKING = st.tuples(st.lists(st.none() | GRADE, max_size=12), st.lists(GRADE, max_size=6))
RANKINGS = st.lists(RANKING, min_size=1, max_size=6)


@given(
    RANKINGS, st.lists(st.integers(1, 15), min_size=1, max_size=4), st.sampled_from(["exponential", "linear"])
)
def test_many_queries_and_k_at_once_equal_plain_loops(rankings, ks, gain):
    query, document, grade, place, rank = [], [], [], [], []
    for number, (ranked, unranked) in enumerate(rankings):
        known = [one for one in ranked if one is not None]
        query += [number] * (len(known) + len(unranked))
        grade += known + unranked
        document += range(len(known) + len(unranked))
        rank += [r for r, one in enumerate(ranked, 1) if one is not None]
        place += [number] * len(known)
    arrays = [np.array(one, int) for one in (query, document, grade)]
    prepared = metrics.prepare(*arrays, len(rankings), ks, gain)
    ranked_grades = np.array([one for ranked, _ in rankings for one in ranked if one is not None], int)
    scores = metrics.score(prepared, np.array(place, int), np.array(rank, int), ranked_grades)
    for number, (ranked, unranked) in enumerate(rankings):
        for column, k in enumerate(ks):
            wanted = by_loops(ranked, [one for one in ranked if one is not None] + unranked, k, gain)
            assert [part[number, column] for part in scores] == pytest.approx(wanted, abs=1e-12)


@given(RANKINGS, st.randoms())
def test_scores_lie_in_range_grow_with_k_and_ignore_the_order_of_rows(rankings, source):
    ks = list(range(1, 16))
    for ranked, unranked in rankings:
        known = [one for one in ranked if one is not None]
        scores = score_grades(ranked, ks, judged=known + unranked)
        for name in ("recall", "reciprocal_rank", "ndcg", "precision"):
            assert all(0 <= value <= 1 for value in scores[name])
        assert scores["recall"] == sorted(scores["recall"])
        assert scores["reciprocal_rank"] == sorted(scores["reciprocal_rank"])
        shuffled = known + unranked
        source.shuffle(shuffled)
        assert score_grades(ranked, ks, judged=shuffled) == scores


def test_the_best_order_scores_exactly_one():
    grades = [3, 3, 2, 2, 2, 1, 1, 0]
    assert score_grades(grades, list(range(1, 9)))["ndcg"] == [1.0] * 8


def test_the_module_imports_numpy_and_nothing_heavier():
    code = (
        "import sys, numpy; before = set(sys.modules); import evalkit.metrics; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - sys.stdlib_module_names - {'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['evalkit']"
