"""The same scores as pytrec_eval, ir_measures and ranx, per query, wherever they support the measure.

Compared on data without equal scores, except where ties are broken as trec_eval does. ranx comes with the benchmarks'
dependencies: `make bench` runs this file there, so that nothing is left untested.
"""

from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scorefiles import score_run_file
from evalkit.scoring import score
from tests.rankcases import KS, TREC_MEASURES, frames, made, qrels_text, trec_text

EXACT = 1e-12
NAMES = {"precision": "P", "recall": "recall", "ndcg": "ndcg_cut"}


def as_pytrec_eval(run, qrels, queries):
    """Its scores in our shape; it leaves out queries that the run lacks, which score zero."""
    found = pytrec_eval.RelevanceEvaluator(qrels, TREC_MEASURES).evaluate(run)
    scores = {
        ours: np.array([[found.get(query, {}).get(f"{name}_{k}", 0.0) for k in KS] for query in queries])
        for ours, name in NAMES.items()
    }
    whole = np.array([found.get(query, {}).get("recip_rank", 0.0) for query in queries])
    scores["reciprocal_rank"] = np.stack([np.where(whole >= 1 / k - EXACT, whole, 0.0) for k in KS], axis=1)
    return scores


def assert_equal(scores, wanted):
    for name, part in scores.metrics._asdict().items():
        if name in wanted:
            np.testing.assert_allclose(part, wanted[name], rtol=0, atol=EXACT, err_msg=name)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shuffled", [False, True])
def test_linear_gain_equals_pytrec_eval(seed, shuffled):
    run, qrels = made(seed, shuffled=shuffled)
    for form in ((run, qrels), frames(run, qrels)):
        scores = score(*form, KS, gain="linear")
        assert_equal(scores, as_pytrec_eval(run, qrels, scores.queries))


@pytest.mark.parametrize("seed", range(2))
def test_exponential_gain_equals_pytrec_eval_with_exponential_grades(seed):
    run, qrels = made(seed)
    exponential = {
        query: {d: 2 ** max(g, 0) - 1 for d, g in grades.items()} for query, grades in qrels.items()
    }
    scores = score(run, qrels, KS)
    assert_equal(scores, as_pytrec_eval(run, exponential, scores.queries))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shuffled", [False, True])
def test_ties_broken_as_trec_eval_equal_pytrec_eval(tmp_path, seed, shuffled):
    run, qrels = made(seed, ties=True, shuffled=shuffled)
    (tmp_path / "run").write_text(trec_text(run))
    (tmp_path / "qrels").write_text(qrels_text(qrels))
    for scores in (
        score(run, qrels, KS, gain="linear", ties="trec"),
        score(*frames(run, qrels), KS, gain="linear", ties="trec"),
        score_run_file(Path(tmp_path / "run"), Path(tmp_path / "qrels"), KS, gain="linear", ties="trec"),
    ):
        assert_equal(scores, as_pytrec_eval(run, qrels, scores.queries))


def test_scores_that_differ_only_beyond_float32_are_ties_for_trec_eval():
    run = {"q": {"a": 1.0 + 1e-12, "b": 1.0}}
    qrels = {"q": {"a": 1}}
    scores = score(run, qrels, KS, gain="linear", ties="trec")
    assert_equal(scores, as_pytrec_eval(run, qrels, scores.queries))
    assert scores.metrics.reciprocal_rank[0, 1] == 0.5
    assert score(run, qrels, KS).metrics.reciprocal_rank[0, 1] == 1.0


DOCUMENTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4)


@settings(max_examples=60)
@given(
    st.dictionaries(DOCUMENTS, st.integers(0, 3).map(float), min_size=1, max_size=12),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_ties_between_ids_of_any_characters_equal_pytrec_eval(ranking, grades):
    run, qrels = {"q": ranking}, {"q": dict(zip(ranking, grades, strict=False)) | {"surely relevant": 1}}
    for form in ((run, qrels), frames(run, qrels)):
        scores = score(*form, KS, gain="linear", ties="trec")
        assert_equal(scores, as_pytrec_eval(run, qrels, scores.queries))


@pytest.mark.parametrize("seed", range(2))
def test_equal_to_ir_measures(seed):
    run, qrels = made(seed)
    measures = {
        "precision": [ir_measures.P @ k for k in KS],
        "recall": [ir_measures.R @ k for k in KS],
        "reciprocal_rank": [ir_measures.RR @ k for k in KS],
        "ndcg": [ir_measures.nDCG @ k for k in KS],
    }
    scores = score(run, qrels, KS, gain="linear")
    flat = [measure for column in measures.values() for measure in column]
    found = {(one.query_id, one.measure): one.value for one in ir_measures.iter_calc(flat, qrels, run)}
    wanted = {
        name: np.array([[found.get((query, measure), 0.0) for measure in column] for query in scores.queries])
        for name, column in measures.items()
    }
    assert_equal(scores, wanted)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.filterwarnings("ignore")
def test_equal_to_ranx(seed):
    ranx = pytest.importorskip(
        "ranx", reason="ranx is in the benchmarks' dependencies; `make bench` runs this test"
    )
    run, qrels = made(seed)
    # It pairs queries by position and knows no negative grades: the same queries on both sides, grades from 0.
    both = [query for query in run if any(grade > 0 for grade in qrels.get(query, {}).values())]
    run = {query: run[query] for query in both}
    qrels = {query: {d: max(grade, 0) for d, grade in qrels[query].items()} for query in both}
    names = {"precision": "precision", "recall": "recall", "reciprocal_rank": "mrr"}
    for gain, ndcg in (("linear", "ndcg"), ("exponential", "ndcg_burges")):
        scores = score(run, qrels, KS, gain=gain)
        measures = [f"{name}@{k}" for name in (*names.values(), ndcg) for k in KS]
        ranked = ranx.Run(run)
        ranx.evaluate(ranx.Qrels(qrels), ranked, measures)
        wanted = {
            ours: np.array([[ranked.scores[f"{name}@{k}"][query] for k in KS] for query in scores.queries])
            for ours, name in (names | {"ndcg": ndcg}).items()
        }
        assert_equal(scores, wanted)
