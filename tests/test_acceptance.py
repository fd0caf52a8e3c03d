"""Error rates at thresholds: worked out by hand, against direct counting, and against the engine itself."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.acceptance import (
    SWEEP,
    accepts,
    auc,
    evidence_scores,
    question_scores,
    rates_at,
    sweep,
    wrongly_decided,
)
from evalkit.errors import InputError

NAN = float("nan")


def asked(*rows: tuple[str, bool, float]) -> pd.DataFrame:
    """Questions from (case, answerable, score)."""
    return pd.DataFrame(
        {
            "case_id": [row[0] for row in rows],
            "question": [f"{row[0]}?" for row in rows],
            "category": None,
            "split": None,
            "answerable": [row[1] for row in rows],
            "score": [float(np.float32(row[2])) for row in rows],
        }
    )


def needed(*rows: tuple[str, int, float]) -> pd.DataFrame:
    """Facts from (case, fact, score)."""
    table = pd.DataFrame(rows, columns=["case_id", "fact", "score"])
    return table.assign(score=table["score"].astype("float32").astype("float64"))


# a needs two facts (0.9 and 0.5), b one (0.6), c one that is not found; x and y have no answer.
QUESTIONS = asked(("a", True, 0.9), ("b", True, 0.6), ("c", True, 0.4), ("x", False, 0.7), ("y", False, 0.3))
FACTS = needed(("a", 0, 0.9), ("a", 1, 0.5), ("b", 0, 0.6), ("c", 0, NAN))


def test_a_sweep_by_hand():
    table = sweep(QUESTIONS, FACTS)
    assert tuple(table.columns) == SWEEP
    steps = [float(np.float32(t)) for t in (0.3, 0.4, 0.5, 0.6, 0.7, 0.9)]
    assert table["threshold"].tolist() == [-np.inf, *steps]
    assert table["false_acceptances"].tolist() == [2, 1, 1, 1, 1, 0, 0]
    assert table["false_rejections"].tolist() == [0, 0, 1, 1, 2, 2, 3]
    # At 0.5 no decision changes, but a loses its second fact.
    assert table["coverage"].tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1 / 2, 1 / 6, 1 / 6, 0])
    assert table["complete"].tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1 / 3, 0, 0, 0])
    assert table["answered"].tolist() == pytest.approx([1, 4 / 5, 3 / 5, 3 / 5, 2 / 5, 1 / 5, 0])
    assert table["risk_unsupported"].tolist()[:6] == pytest.approx([2 / 5, 1 / 4, 1 / 3, 1 / 3, 1 / 2, 0])
    # c is accepted and misses its fact up to 0.4; above 0.5, a misses its second fact.
    assert table["risk_incomplete"].tolist()[:6] == pytest.approx([3 / 5, 2 / 4, 1 / 3, 2 / 3, 2 / 2, 1 / 1])
    assert math.isnan(table["risk_unsupported"].iloc[6])
    assert (table["n_facts"] == 3).all()
    both = table.iloc[0]
    assert (both["false_acceptance_low"], both["false_acceptance_high"]) == (
        pytest.approx(0.15811, abs=1e-5),
        1,
    )


def test_auc_by_hand():
    # Of the six pairs, x (0.7) beats b and c; the other four go the right way.
    assert auc(QUESTIONS) == pytest.approx(4 / 6)
    assert auc(asked(("a", True, 0.5), ("x", False, 0.5))) == 0.5
    assert auc(asked(("a", True, 0.1), ("x", False, NAN))) == 1.0
    assert math.isnan(auc(asked(("a", True, 0.5))))


def test_rates_where_nothing_counts():
    rates = rates_at(QUESTIONS.iloc[:0], FACTS.iloc[:0], 0.5)
    assert math.isnan(rates.false_acceptance.rate)
    assert rates.false_acceptance[3:] == (0, 1)
    assert math.isnan(rates.coverage)
    assert rates.n_facts == 0
    table = sweep(QUESTIONS.iloc[:0], FACTS.iloc[:0])
    assert len(table) == 1
    assert table["false_rejection"].isna().all()


def test_questions_without_results_are_never_accepted():
    questions = asked(("a", True, NAN), ("b", True, 0.2), ("x", False, NAN))
    first = sweep(questions, FACTS.iloc[:0]).iloc[0]
    assert (first["false_rejections"], first["false_acceptances"]) == (1, 0)
    assert accepts([NAN, 0.2], None).tolist() == [False, True]
    assert accepts([NAN, 0.2], -5.0).tolist() == [False, True]


def test_a_threshold_equal_to_a_score_rejects_it_as_float32():
    score = float(np.float32(0.65864724))
    assert not accepts([score], 0.65864724)[0]
    assert not accepts([score], score)[0]
    assert accepts([score], np.nextafter(np.float32(score), np.float32(0)))[0]
    assert not accepts([score], np.nextafter(score, 0.0))[0]  # a float64 step below is the same float32


def test_case_order_and_other_k_do_not_matter():
    questions = pd.DataFrame(
        {
            "case_id": ["b", "a", "a"],
            "question": ["b?", "a?", "a?"],
            "category": None,
            "split": None,
            "answerable": True,
            "k": [3, 3, 1],
            "top_score": [0.5, 0.25, 0.75],
        }
    )
    assert question_scores(questions, 3)[["case_id", "score"]].values.tolist() == [["a", 0.25], ["b", 0.5]]
    with pytest.raises(InputError, match=r"K = 2.*cutoffs are 1, 3"):
        question_scores(questions, 2)


def test_evidence_takes_its_score_from_the_place_within_k():
    place = {"document_id": "d", "chunk_id": ["p0", "p1", "p2", "p0"]}
    rankings = pd.DataFrame({"case_id": "a", "k": [3, 3, 3, 1], **place, "score": [0.75, 0.5, 0.25, 0.75]})
    facts = pd.DataFrame(
        {
            "case_id": "a", "k": [3, 3, 1, 1], "fact": [0, 1, 0, 1], "document_id": "d",
            "chunk_id": ["p1", "p9", "p1", "p9"], "found": [True, False, False, False],
        }
    )  # fmt: skip
    at_three = evidence_scores(rankings, facts, 3)
    assert at_three["score"].tolist()[0] == 0.5
    assert math.isnan(at_three["score"].iloc[1])
    assert evidence_scores(rankings, facts, 1)["score"].isna().all()


def test_wrong_decisions_clearest_first():
    wrong = wrongly_decided(QUESTIONS, 0.6)
    assert wrong["case_id"].tolist() == ["x", "c", "b"]
    assert wrong["error"].tolist() == ["accepted without an answer"] + ["rejected though answerable"] * 2
    assert wrongly_decided(QUESTIONS, None)["case_id"].tolist() == ["x", "y"]


SCORES = st.one_of(st.just(NAN), st.sampled_from([0.1, 0.2, 0.3, 0.5]), st.floats(-1, 1, width=32))
ROWS = st.lists(st.tuples(st.booleans(), SCORES, st.lists(SCORES, max_size=3)), min_size=1, max_size=12)


@given(ROWS)
@settings(max_examples=20, deadline=None)
def test_every_row_of_a_sweep_equals_direct_counting(rows):
    questions = asked(*((f"q{i}", answerable, score) for i, (answerable, score, _) in enumerate(rows)))
    facts = needed(
        *(
            (f"q{i}", j, min(score, fact))
            for i, (answerable, score, scores) in enumerate(rows)
            if answerable
            for j, fact in enumerate(scores)
        )
    )
    table = sweep(questions, facts)
    assert table["false_acceptances"].is_monotonic_decreasing
    assert table["false_rejections"].is_monotonic_increasing
    for row in table.itertuples():
        rates = rates_at(questions, facts, None if row.threshold == -np.inf else row.threshold)
        acceptance, rejection = rates.false_acceptance, rates.false_rejection
        assert (row.false_acceptances, row.n_unsupported) == acceptance[:2]
        assert (row.false_acceptance_low, row.false_acceptance_high) == pytest.approx(acceptance[3:])
        assert (row.false_rejections, row.n_answerable) == rejection[:2]
        assert (row.false_rejection_low, row.false_rejection_high) == pytest.approx(rejection[3:])
        assert (row.coverage, row.complete) == pytest.approx((rates.coverage, rates.complete), nan_ok=True)


@given(ROWS)
@settings(max_examples=25, deadline=None)
def test_auc_is_the_area_under_the_sweep(rows):
    questions = asked(*((f"q{i}", answerable, score) for i, (answerable, score, _) in enumerate(rows)))
    expected = auc(questions)
    table = sweep(questions, needed().iloc[:0])
    if not math.isnan(expected):
        # The corner (1, 1) accepts even questions without results, which no threshold does.
        fpr = [1.0, *table["false_acceptance"]]
        tpr = [1.0, *(1 - table["false_rejection"])]
        assert -np.trapezoid(tpr, fpr) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["worker-runbooks", "platform-runbooks"])
def test_our_rule_is_the_engines_rule_for_every_score(example_runs, dataset):
    from evalkit.embedders import embed_cached, open_embedder
    from evalkit.embedding import query_prompt
    from evalkit.querying import retrieve
    from evalkit.runs import load_run
    from evalkit.settings import EvaluateSettings
    from evalkit.stores import open_store
    from evalkit.vectors import VectorCache

    run = load_run(example_runs[dataset])
    k = run.record.search.ks[-1]
    rankings = run.rankings[run.rankings["k"] == k]
    texts = run.questions.drop_duplicates("case_id").set_index("case_id")["question"]
    profile = run.record.model.profile
    prompts = [query_prompt(profile, case_id, text) for case_id, text in texts.items()]
    with open_embedder(EvaluateSettings.checked(dataset=dataset)) as embedder, VectorCache() as cache:
        vectors = embed_cached(embedder, cache, prompts)[0]
    by_case = dict(zip(texts.index, vectors, strict=True))
    with open_store() as store:
        for case_id, ranking in rankings.groupby("case_id"):
            for score in ranking["score"]:
                for threshold in (score, float(np.nextafter(np.float32(score), np.float32(-1)))):
                    kept = ranking.loc[accepts(ranking["score"], threshold), ["document_id", "chunk_id"]]
                    (hits,) = retrieve(
                        store, run.record.store.collection, [case_id], by_case[case_id][np.newaxis],
                        run.record.search.filter, k, threshold=threshold,
                    )  # fmt: skip
                    found = [[hit.payload["document_id"], hit.payload["chunk_id"]] for hit in hits]
                    assert found == kept.values.tolist(), (case_id, threshold)
