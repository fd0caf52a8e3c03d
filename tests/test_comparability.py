"""Which runs may be compared, in which figures, and what is said to differ."""

import pytest

from evalkit.comparability import contract, require_comparable
from evalkit.errors import InputError
from tests.smallruns import small_run

FACTS = {"a": [1, 2], "b": [4]}


def test_equal_runs_differ_in_nothing():
    terms = require_comparable(small_run(FACTS), small_run(FACTS))
    assert terms.reasons == ()
    assert terms.notes == ()
    assert terms.differs.empty
    assert terms.metrics == ("precision", "recall", "reciprocal_rank", "ndcg", "coverage", "complete")


def test_the_same_run_twice_is_said():
    run = small_run(FACTS)
    assert "same run" in require_comparable(run, run).notes[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dataset": {"name": "other"}}, "data set: baseline small, candidate other"),
        ({"dataset": {"version": 2}}, "version of data set small: baseline 1, candidate 2"),
        (
            {"dataset": {"cases_sha256": "e" * 64}},
            "cases: other questions, hash aaaaaaaaaaaa against eeeeeeeeeeee",
        ),
        ({"dataset": {"labels_sha256": "e" * 64}}, "labels: another truth"),
        ({"dataset": {"judgments": "partial"}}, "judgments: baseline complete, candidate partial"),
        ({"search": {"ks": (1, 5)}}, r"K: baseline \[1, 3\], candidate \[1, 5\]"),
    ],
)
def test_incomparable_runs_are_refused(changes, reason):
    with pytest.raises(InputError, match=reason):
        require_comparable(small_run(FACTS), small_run(FACTS, **changes))


def test_all_reasons_come_at_once():
    other = small_run(FACTS, dataset={"version": 2, "labels_sha256": "e" * 64}, search={"ks": (5,)})
    assert len(contract(small_run(FACTS), other).reasons) == 3
    with pytest.raises(InputError, match=r"(?s)version.*labels.*K: baseline.*evaluate one of them again"):
        require_comparable(small_run(FACTS), other)


def test_a_run_that_lacks_questions_is_refused():
    with pytest.raises(InputError, match="candidate lacks the results of questions: b"):
        require_comparable(small_run(FACTS), small_run({"a": [1, 2]}))
    with pytest.raises(InputError, match="baseline lacks the results of questions: b"):
        require_comparable(small_run({"a": [1, 2]}), small_run(FACTS))


def test_what_differs_is_listed_in_words():
    candidate = small_run(
        FACTS,
        dataset={"corpus_sha256": "f" * 64},
        model={"model": "other", "digest": "9" * 64, "profile": "q"},
        search={"threshold": 0.5, "exact": True, "hnsw_ef": 64},
        code={"revision": "2" * 40, "packages": {"numpy": "2.1.0", "scipy": "1.15.0"}},
    )
    differs = require_comparable(small_run(FACTS), candidate).differs
    assert differs.values.tolist() == [
        ["corpus", "cccccccccccc", "ffffffffffff"],
        ["model", "m", "other"],
        ["model digest", "d" * 19, "9" * 19],
        ["prompt profile", "p", "q"],
        ["threshold", "none", "0.5"],
        ["exact search", "no", "yes"],
        ["hnsw_ef", "none", "64"],
        ["code revision", "111111111111", "222222222222"],
        ["package numpy", "2.0.0", "2.1.0"],
        ["package scipy", "–", "1.15.0"],
    ]


def test_another_chunking_refuses_chunk_metrics_only():
    terms = require_comparable(small_run(FACTS), small_run(FACTS, chunking="other-v1"))
    assert terms.metrics == ("coverage", "complete")
    assert not terms.chunks_comparable
    assert "precision, recall, MRR and nDCG" in terms.notes[0]
    assert terms.differs["setting"].tolist() == ["chunking"]


def test_a_dirty_tree_is_said_on_either_side():
    notes = contract(small_run(FACTS, code={"dirty": True}), small_run(FACTS)).notes
    assert "uncommitted changes (baseline)" in notes[0]


def test_other_relevant_chunks_under_equal_labels_are_said():
    candidate = small_run({"a": [1, 2, None], "b": [4]})
    note = require_comparable(small_run(FACTS), candidate).notes[0]
    assert "the relevant chunks of a: part of the difference" in note
