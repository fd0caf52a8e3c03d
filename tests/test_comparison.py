"""Paired differences and changed cases, on runs written by hand and on real ones."""

import math

import pandas as pd
import pytest

from evalkit.comparability import require_comparable
from evalkit.comparison import compare, rank_moves
from evalkit.errors import InputError
from evalkit.runs import load_run, write_run
from evalkit.statistics import sign_flip_test
from tests.conftest import environment
from tests.smallruns import small_run

BASELINE = {
    "kept": [1],
    "lost": [1, 3],
    "gained": [5],
    "swapped": [2, 7],
    "lower": [1],
    "higher": [3],
    "no": [None],
}
CANDIDATE = {
    "kept": [1],
    "lost": [2, 9],
    "gained": [1],
    "swapped": [8, 2],
    "lower": [2],
    "higher": [1],
    "no": [None],
}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    accepted = ({"x": True, "y": True, "z": False}, {"x": True, "y": False, "z": False})
    with environment(EVALKIT_OUTPUTS=str(tmp_path_factory.mktemp("compared"))):
        return compare(
            small_run(BASELINE, unsupported=accepted[0]), small_run(CANDIDATE, unsupported=accepted[1])
        )


def figure(comparison, metric, k):
    table = comparison.means
    (row,) = table[(table["metric"] == metric) & (table["k"] == k)].to_dict("records")
    return row


def test_mean_differences_by_hand(comparison):
    row = figure(comparison, "coverage", 3)
    # Coverage at 3: kept 1 -> 1, lost 1 -> 1/2, gained 0 -> 1, swapped 1/2 -> 1/2, lower, higher 1 -> 1, no 0 -> 0.
    assert (row["n"], row["left_out"]) == (7, 0)
    assert row["baseline"] == pytest.approx(4.5 / 7)
    assert row["candidate"] == pytest.approx(5 / 7)
    assert row["difference"] == pytest.approx(0.5 / 7)
    assert (row["better"], row["worse"], row["equal"]) == (1, 1, 5)
    # Two cases differ, by -1/2 and 1: of four sign patterns all have a sum of at least 1/2.
    assert (row["p"], row["method"]) == (1.0, "exact")
    assert row["low"] < 0 < row["high"]
    assert "only 7 cases" in row["note"]
    assert row["detectable"] > abs(row["difference"])
    # MRR at 3: lost 1 -> 1/2, gained 0 -> 1, lower 1 -> 1/2, higher 1/3 -> 1; swapped stays at 1/2.
    assert figure(comparison, "reciprocal_rank", 3)["difference"] == pytest.approx((1 - 1 + 2 / 3) / 7)
    assert figure(comparison, "complete", 1)["difference"] == pytest.approx(1 / 7)


def test_cases_worst_first_with_their_verdicts(comparison):
    assert comparison.k == 3
    cases = comparison.cases
    assert cases[["case_id", "verdict", "facts_lost", "facts_gained"]].values.tolist() == [
        ["lost", "worse", 1, 0],
        ["swapped", "worse", 1, 1],
        ["lower", "ranks lower", 0, 0],
        ["kept", "same", 0, 0],
        ["no", "same", 0, 0],
        ["higher", "ranks higher", 0, 0],
        ["gained", "better", 0, 1],
    ]
    lost = cases.iloc[0]
    assert (lost["coverage_baseline"], lost["coverage_candidate"], lost["coverage_difference"]) == (
        1,
        0.5,
        -0.5,
    )
    assert lost["question"] == "What about lost?"


def test_lost_and_gained_facts_with_their_ranks(comparison):
    changed = comparison.facts[comparison.facts["change"] != "same"].set_index(["case_id", "fact"])
    assert changed["change"].to_dict() == {
        ("lost", 1): "lost", ("gained", 0): "gained", ("swapped", 0): "lost", ("swapped", 1): "gained"
    }  # fmt: skip
    lost = changed.loc[("lost", 1)]
    assert (lost["rank_baseline"], lost["rank_candidate"]) == (3, 9)
    assert (lost["text"], lost["quote_baseline"]) == ("Fact 1 of lost", "quote 1 of lost")
    assert len(comparison.facts) == 9


def test_rank_moves_largest_falls_first(comparison):
    moves = comparison.moves.astype(object).where(comparison.moves.notna(), None)
    assert moves[["case_id", "chunk_id", "rank_baseline", "rank_candidate"]].values.tolist() == [
        ["lost", "fact/p1", 3, 9],
        ["swapped", "fact/p0", 2, 8],
        ["lost", "fact/p0", 1, 2],
        ["lower", "fact/p0", 1, 2],
        ["higher", "fact/p0", 3, 1],
        ["gained", "fact/p0", 5, 1],
        ["swapped", "fact/p1", 7, 2],
    ]


def test_a_chunk_that_drops_out_of_the_deep_ranking_falls_furthest():
    moves = compare(small_run({"a": [1], "b": [1]}), small_run({"a": [10], "b": [None]})).moves
    assert moves["case_id"].tolist() == ["b", "a"]
    assert pd.isna(moves["rank_candidate"].iloc[0])


def test_wrong_decisions_are_compared_as_rates(comparison):
    table = comparison.decisions
    assert table[["metric", "k", "n"]].values.tolist() == [
        ["false_acceptance", 1, 3], ["false_acceptance", 3, 3], ["false_rejection", 1, 7], ["false_rejection", 3, 7]
    ]  # fmt: skip
    row = table.iloc[1]
    assert (row["baseline"], row["candidate"]) == pytest.approx((2 / 3, 1 / 3))
    assert (row["better"], row["worse"], row["p"]) == (1, 0, 1.0)


def test_identical_runs():
    run = small_run(BASELINE, unsupported={"x": True})
    comparison = compare(run, run)
    assert (comparison.means["difference"] == 0).all()
    few = 1 - 0.025 ** (1 / comparison.means["n"])  # so few cases cannot show that nothing ever differs
    assert list(comparison.means["high"]) == pytest.approx(list(few))
    assert list(comparison.means["low"]) == pytest.approx(list(-few))
    assert (comparison.means["p"] == 1).all()
    assert comparison.means["detectable"].isna().all()
    assert set(comparison.cases["verdict"]) == {"same"}
    assert set(comparison.facts["change"]) == {"same"}
    assert comparison.moves.empty


def test_a_constant_difference():
    cases = [f"q{index}" for index in range(8)]
    comparison = compare(small_run({case: [4] for case in cases}), small_run({case: [1] for case in cases}))
    row = figure(comparison, "complete", 3)
    assert (row["difference"], row["low"], row["high"]) == (1, pytest.approx(2 * 0.025 ** (1 / 8) - 1), 1)
    assert row["p"] == 2 / 2**8
    assert "are equal" in figure(comparison, "precision", 3)["note"]
    assert math.isnan(row["detectable"])


def test_a_single_case_tells_next_to_nothing():
    comparison = compare(small_run({"a": [1]}), small_run({"a": [2]}))
    row = figure(comparison, "ndcg", 3)
    assert row["high"] - row["low"] > 1.9
    assert row["p"] == 1.0
    assert "single case" in row["note"]


def test_cases_without_facts_are_outside_coverage_and_judged_by_recall():
    before = small_run({"a": [1]}, relevant={"r": [1, 2], "s": [3]})
    after = small_run({"a": [1]}, relevant={"r": [1, 9], "s": [1]})
    comparison = compare(before, after)
    assert figure(comparison, "coverage", 3)["n"] == 1
    assert figure(comparison, "recall", 3)["n"] == 3
    assert comparison.cases[["case_id", "verdict"]].values.tolist() == [
        ["r", "worse"], ["a", "same"], ["s", "ranks higher"]
    ]  # fmt: skip


def test_no_case_with_facts_leaves_coverage_without_a_figure():
    run = small_run({}, relevant={"r": [1]})
    row = figure(compare(run, run), "coverage", 3)
    assert row["n"] == 0
    assert math.isnan(row["difference"])
    assert math.isnan(row["p"])


def test_another_chunking_compares_evidence_only():
    before = small_run({"a": [1], "b": [2, 3]}, relevant={"r": [1]})
    after = small_run({"a": [4], "b": [2, 3]}, relevant={"r": [9]}, chunking="other-v1")
    comparison = compare(before, after)
    assert set(comparison.means["metric"]) == {"coverage", "complete"}
    assert comparison.cases[["case_id", "verdict"]].values.tolist() == [
        ["a", "worse"], ["r", "not compared"], ["b", "same"]
    ]  # fmt: skip
    assert not [column for column in comparison.cases if column.startswith("ndcg")]
    assert comparison.moves.empty
    assert rank_moves(before, after, 3, comparison.contract).empty


def test_an_unknown_cutoff_is_refused():
    run = small_run(BASELINE)
    with pytest.raises(InputError, match=r"no results at K = 4; its cutoffs are \[1, 3\]"):
        compare(run, run, 4)
    assert compare(run, run, 1).k == 1


def test_incomparable_runs_are_refused():
    with pytest.raises(InputError, match="cannot be compared"):
        compare(small_run(BASELINE), small_run(BASELINE, dataset={"version": 2}))


@pytest.fixture
def against_threshold(example_runs, own_outputs, monkeypatch):
    """The example run of platform-runbooks, and one with a threshold of 0.5."""
    from evalkit.evaluation import evaluate
    from evalkit.settings import EvaluateSettings

    monkeypatch.setenv("EVALKIT_OUTPUTS", str(own_outputs))
    settings = EvaluateSettings.checked(dataset="platform-runbooks", ks=(1, 3, 5, 10), threshold=0.5)
    return compare(load_run(example_runs["platform-runbooks"]), write_run(evaluate(settings)), 5)


@pytest.mark.slow
def test_a_threshold_loses_evidence_and_refuses_questions(against_threshold):
    comparison = against_threshold
    assert "threshold" in comparison.contract.differs["setting"].tolist()
    coverage = figure(comparison, "coverage", 5)
    assert coverage["n"] == 90
    assert coverage["difference"] < 0
    old, new = (run.scores[run.scores["k"] == 5] for run in (comparison.baseline, comparison.candidate))
    differences = (new["coverage"] - old["coverage"]).to_numpy()
    assert coverage["difference"] == pytest.approx(differences.mean())
    assert coverage["p"] == sign_flip_test(differences).p
    assert coverage["low"] < coverage["difference"] < coverage["high"]
    lost = comparison.facts[comparison.facts["change"] == "lost"]
    assert set(lost["case_id"]) == set(
        comparison.cases.loc[comparison.cases["verdict"] == "worse", "case_id"]
    )
    falsely = comparison.decisions[(comparison.decisions["metric"] == "false_acceptance")]
    assert (falsely["difference"] < 0).all()
    assert require_comparable(comparison.baseline, comparison.candidate).reasons == ()
