"""Joins of rankings and judgments: every form of input, faults, counts, equal scores, categories."""

import json
import subprocess
import sys
from uuid import UUID, uuid5

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import InputError
from evalkit.joining import hints
from evalkit.scoring import METRICS, prepare, score, score_rankings, score_run
from tests.rankcases import KS, frames, made

NAMESPACE = UUID(int=7)


def same(one, other):
    """Equal scores of the same queries, whatever the order."""
    place = {query: number for number, query in enumerate(other.queries)}
    order = [place[query] for query in one.queries]
    assert len(one.queries) == len(other.queries)
    for left, right in zip(one.metrics, other.metrics, strict=True):
        assert np.array_equal(left, right[order])


def renamed(run, qrels, query, document):
    return (
        {query(q): {document(d): s for d, s in ranking.items()} for q, ranking in run.items()},
        {query(q): {document(d): g for d, g in grades.items()} for q, grades in qrels.items()},
    )


# Forms of input


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_dictionaries_frames_tables_and_lists_give_the_same(ties, shuffled):
    run, qrels = made(1, ties=ties, shuffled=shuffled)
    wanted = score(run, qrels, KS)
    frame, judged = frames(run, qrels)
    same(wanted, score(frame, judged, KS))
    same(wanted, score(pa.Table.from_pandas(frame), pa.Table.from_pandas(judged), KS))
    same(wanted, score(frame.rename(columns={"query_id": "qid", "document_id": "docno"}), qrels, KS))
    ranked = frame.sort_values("score", ascending=False, kind="stable")
    lists = {query: group["document_id"].tolist() for query, group in ranked.groupby("query_id")}
    same(wanted, score(lists, qrels, KS))
    frame["rank"] = ranked.groupby("query_id").cumcount() + 1
    same(wanted, score(frame.drop(columns="score"), judged, KS))


@pytest.mark.parametrize(
    ("query", "document"),
    [
        (lambda q: int(q[1:]), lambda d: int(d[1:]) * 10**12),
        (
            lambda q: q * 5,
            lambda d: f"a very long name of the document {d}, longer than any word of eight bytes",
        ),
        (lambda q: f"frage-ü-{q}", lambda d: f"{d}-文書"),
        (lambda q: str(uuid5(NAMESPACE, q)), lambda d: str(uuid5(NAMESPACE, d))),
        (lambda q: f"{q}-equal-tail", lambda d: f"{d}/chunk-0001"),
    ],
)
def test_ids_of_any_kind_give_the_same(query, document):
    run, qrels = made(2)
    wanted = score(run, qrels, KS)
    other_run, other_qrels = renamed(run, qrels, query, document)
    for given_run, given_qrels in ((other_run, other_qrels), frames(other_run, other_qrels)):
        scores = score(given_run, given_qrels, KS)
        assert scores.queries == tuple(map(query, wanted.queries))
        assert all(np.array_equal(a, b) for a, b in zip(scores.metrics, wanted.metrics, strict=True))


@pytest.mark.parametrize("dtype", ["str", "object", "category", "string[pyarrow]"])
def test_text_columns_of_any_dtype(dtype):
    run, qrels = made(3)
    frame, judged = frames(run, qrels)
    ids = ["query_id", "document_id"]
    same(score(run, qrels, KS), score(frame.astype(dict.fromkeys(ids, dtype)), judged, KS))


def test_uuid_objects_count_as_text():
    run, qrels = made(4)
    frame, judged = frames(run, qrels)
    for table in (frame, judged):
        table["document_id"] = [uuid5(NAMESPACE, name) for name in table["document_id"]]
    same(score(run, qrels, KS), score(frame, judged, KS))


@pytest.mark.parametrize("dtype", ["int32", "uint16", "Int64"])
def test_whole_numbers_of_any_dtype(dtype):
    run, qrels = renamed(*made(5), lambda q: int(q[1:]), lambda d: int(d[1:]))
    frame, judged = frames(run, qrels)
    ids = dict.fromkeys(["query_id", "document_id"], dtype)
    same(score(run, qrels, KS), score(frame.astype(ids), judged, KS))


def test_rows_in_any_order_give_the_same():
    run, qrels = made(6)
    frame, judged = frames(run, qrels)
    mixed = frame.sample(frac=1, random_state=1), judged.sample(frac=1, random_state=2)
    same(score(frame, judged, KS), score(*mixed, KS))


def test_judgments_are_prepared_once_for_many_runs():
    run, qrels = made(7)
    judged = prepare(qrels, KS)
    worse = {query: dict(zip(ranking, range(len(ranking)), strict=True)) for query, ranking in run.items()}
    for one in (run, worse, run):
        same(score(one, qrels, KS), score_run(one, judged))


def test_a_k_beyond_any_ranking_scores_the_whole_of_it():
    run, qrels = made(1, shuffled=True)
    wanted = score(run, qrels, (1000,)).metrics.recall
    lists = {query: sorted(ranking, key=ranking.get, reverse=True) for query, ranking in run.items()}
    for form in ((run, qrels), frames(run, qrels), (lists, qrels)):
        assert score(*form, (2**63 - 1,)).metrics.recall.tolist() == wanted.tolist()


# Properties


GRADES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 3), min_size=1, max_size=8)
SCORES = st.dictionaries(
    st.sampled_from("abcdefghijkl"), st.floats(allow_nan=False, width=32), min_size=1, max_size=12
)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(SCORES, GRADES), min_size=1, max_size=5),
    st.randoms(),
    st.sampled_from(["given", "trec"]),
)
def test_order_of_queries_and_judgments_is_irrelevant(pairs, source, ties):
    run = {f"q{number}": ranking for number, (ranking, _) in enumerate(pairs)}
    qrels = {f"q{number}": grades for number, (_, grades) in enumerate(pairs)} | {"sure": {"a": 1}}
    run["sure"] = {"a": 1.0}
    first = score(run, qrels, (1, 2, 5), ties=ties)

    def mixed(one):
        return dict(sorted(one.items(), key=lambda _: source.random()))

    again = score(
        mixed(run), {query: mixed(grades) for query, grades in mixed(qrels).items()}, (1, 2, 5), ties=ties
    )
    same(first, again)
    same(first, score(*frames(run, qrels), (1, 2, 5), ties=ties))
    for part in first.metrics:
        assert ((part >= 0) & (part <= 1)).all()
    assert (np.diff(first.metrics.recall, axis=1) >= 0).all()
    assert (np.diff(first.metrics.reciprocal_rank, axis=1) >= 0).all()
    for bounds in first.ties:
        column = first.ks.index(bounds.k)
        for name in METRICS:
            mean = getattr(first.metrics, name)[:, column].mean()
            assert bounds.worst[name] - 1e-12 <= mean <= bounds.best[name] + 1e-12


# What is counted


def test_a_judged_query_without_ranking_scores_zero_and_is_named():
    scores = score({"a": {"d": 1.0}}, {"a": {"d": 1}, "b": {"d": 1}}, (1,))
    assert scores.queries == ("a", "b")
    assert scores.metrics.recall.tolist() == [[1.0], [0.0]]
    assert scores.means()["recall"].tolist() == [0.5]
    assert scores.means()["n"].tolist() == [2]
    assert scores.report.missing == ("b",)
    assert any(
        "1 judged queries have no ranking and score 0: 'b'" in line for line in scores.report.notices()
    )


def test_queries_without_relevant_documents_and_unknown_rankings_are_counted_and_not_scored():
    run = {"a": {"d": 1.0}, "none": {"d": 1.0}, "stranger": {"d": 1.0}}
    scores = score(run, {"a": {"d": 2}, "none": {"d": 0, "e": -1}}, (1,))
    assert scores.queries == ("a",)
    assert scores.report.set_aside == ("none",)
    assert scores.report.unknown == ("stranger",)
    same(scores, score(*frames(run, {"a": {"d": 2}, "none": {"d": 0, "e": -1}}), (1,)))


@pytest.mark.parametrize("form", [lambda *pair: pair, frames])
def test_counts_of_judgments(form):
    run = {"a": {"d": 2.0, "x": 1.0}, "b": {"e": 1.0}}
    qrels = {"a": {"d": 2, "e": 1, "f": 0}, "b": {"f": 1, "e": 1}}
    report = score(*form(run, qrels), (1,)).report
    assert (report.queries, report.judgments, report.retrieved, report.never_retrieved) == (2, 5, 2, 1)


def test_a_judgment_given_twice_is_counted_and_the_higher_grade_wins():
    judged = pd.DataFrame({"query_id": ["a"] * 3, "document_id": ["d", "e", "d"], "grade": [1, 1, 2]})
    scores = score({"a": {"d": 2.0, "e": 1.0}}, judged, (1, 2))
    assert scores.report.repeated == 1
    assert scores.metrics.ndcg.tolist() == [[1.0, 1.0]]


# What is refused


@pytest.mark.parametrize("ks", [(0,), (1, -3), (), (1.5,), (True,), ("3",), (2**63,)])
def test_k_that_is_no_cutoff_is_refused(ks):
    with pytest.raises(InputError, match="at least 1"):
        score({"a": {"d": 1.0}}, {"a": {"d": 1}}, ks)


@pytest.mark.parametrize("form", [lambda *pair: pair, frames])
def test_a_score_that_is_not_a_number_is_refused_with_the_query(form):
    run = {"a": {"d": 1.0}, "query-9": {"d": 2.0, "e": float("nan")}}
    with pytest.raises(InputError, match=r"'query-9'.*place 2.*NaN"):
        score(*form(run, {"a": {"d": 1}}), (1,))


def test_a_score_that_is_text_is_refused_with_the_query():
    with pytest.raises(InputError, match=r"'a'.*'e'.*'high'"):
        score({"a": {"d": 1.0, "e": "high"}}, {"a": {"d": 1}}, (1,))
    with pytest.raises(InputError, match="not numbers"):
        score(
            pd.DataFrame({"query_id": ["a"], "document_id": ["d"], "score": ["high"]}), {"a": {"d": 1}}, (1,)
        )


@pytest.mark.parametrize("name", ["e", "a long name that ends alike", 17])
def test_a_document_twice_in_a_ranking_is_refused_with_the_query(name):
    other = 3 if isinstance(name, int) else "another name that ends alike"
    with pytest.raises(InputError, match=rf"'query-9'.*{name!r}.*twice"):
        score({"query-9": [name, other, name]}, {"query-9": {name: 1}}, (1,))
    table = pd.DataFrame(
        {"query_id": ["query-9"] * 3, "document_id": [name, other, name], "score": [3.0, 2, 1]}
    )
    with pytest.raises(InputError, match=rf"'query-9'.*{name!r}.*twice"):
        score(table, {"query-9": {name: 1}}, (1,))


def test_ids_that_end_alike_are_not_taken_for_one():
    names = [f"{number}-the-same-tail" for number in range(10, 99)]
    table = pd.DataFrame({"query_id": "a", "document_id": names, "score": range(len(names), 0, -1)})
    scores = score(table, {"a": {names[3]: 1}}, (3, 4))
    assert scores.metrics.reciprocal_rank.tolist() == [[0.0, 0.25]]


@pytest.mark.parametrize("grade", [1.5, float("nan"), float("inf"), "high", None, 101])
def test_a_grade_that_is_none_is_refused_with_the_query(grade):
    with pytest.raises(InputError, match="'query-9'"):
        score({"query-9": {"d": 1.0}}, {"query-9": {"e": 1, "d": grade}}, (1,))


@pytest.mark.parametrize("qrels", [{}, {"a": {}}, {"a": {"d": 0}}])
def test_judgments_without_a_relevant_document_are_refused(qrels):
    with pytest.raises(InputError, match="no query has a relevant document"):
        score({"a": {"d": 1.0}}, qrels, (1,))


def test_ids_of_two_types_are_refused():
    with pytest.raises(InputError, match=r"query ids are text .* whole numbers"):
        score({1: {"d": 1.0}}, {"1": {"d": 1}}, (1,))
    table = pd.DataFrame({"query_id": ["a"], "document_id": [7], "score": [1.0]})
    with pytest.raises(InputError, match=r"document ids are text .* whole numbers"):
        score(table, {"a": {"7": 1}}, (1,))


def test_tables_with_gaps_or_without_columns_are_refused():
    table = pd.DataFrame({"query_id": ["a", None], "document_id": ["d", "e"], "score": [1.0, 2.0]})
    with pytest.raises(InputError, match="row 1 has no id"):
        score(table, {"a": {"d": 1}}, (1,))
    with pytest.raises(InputError, match=r"no column for the document; expected .* found .*paper"):
        score(table.rename(columns={"document_id": "paper"})[1:0], {"a": {"d": 1}}, (1,))
    floats = table.assign(query_id=[1.0, 2.0])
    with pytest.raises(InputError, match=r"double such as 1\.0"):
        score(floats, {"a": {"d": 1}}, (1,))


def test_rankings_of_mixed_or_other_forms_are_refused():
    for run in ({"a": {"d": 1.0}, "b": ["d"]}, {"a": "d"}, {"a": {"d"}}):
        with pytest.raises(InputError, match="each ranking must be"):
            score(run, {"a": {"d": 1}}, (1,))
    with pytest.raises(InputError, match="'a': its judgments are no dictionary"):
        score({"a": ["d"]}, {"a": ["d"]}, (1,))


def test_whole_numbers_beyond_64_bits_are_refused_in_tables_and_fine_in_dictionaries():
    large = 2**64 - 1
    assert score({1: {large: 1.0}}, {1: {large: 1}}, (1,)).means()["recall"].tolist() == [1.0]
    table = pd.DataFrame({"query_id": [1], "document_id": [5], "score": [1.0]})
    assert score(table, {1: {5: 1, large: 1}}, (1,)).means()["recall"].tolist() == [0.5]
    with pytest.raises(InputError, match="convert the ids to text"):
        score(table.assign(document_id=np.array([large], np.uint64)), {1: {5: 1}}, (1,))


# Ids that do not join


def test_queries_that_hardly_join_are_refused_and_the_difference_named():
    run = {f"q{number}": {"d": 1.0} for number in range(30)}
    qrels = {f"q{number:04d}": {"d": 1} for number in range(30)}
    with pytest.raises(
        InputError, match=r"0 of 30 judged queries(.|\n)*differ only by padding: 'q0000'.*'q0'"
    ):
        score(run, qrels, (1,))


def test_documents_that_do_not_join_are_refused_and_the_difference_named():
    run, qrels = made(8)
    other = {
        query: {document.upper(): s for document, s in ranking.items()} for query, ranking in run.items()
    }
    for one in (other, frames(other, qrels)[0]):
        with pytest.raises(InputError, match="document ids differ only by case"):
            score(one, qrels, (1,))


def test_documents_of_another_corpus_are_refused():
    run, qrels = made(8)
    other, _ = renamed(run, qrels, str, lambda d: f"{hash(d) % 10**6:x}-other")
    with pytest.raises(InputError, match="another corpus"):
        score(other, qrels, (1,))


def test_a_few_misses_are_scores_and_no_fault():
    assert score({"a": ["x", "y"]}, {"a": {"d": 1}}, (1,)).means()["recall"].tolist() == [0.0]


def test_some_queries_with_another_padding_are_pointed_out():
    run = {"q1": {"d": 1.0}, "q2": {"d": 1.0}, "q03": {"d": 1.0}}
    report = score(run, {"q1": {"d": 1}, "q2": {"d": 1}, "q3": {"d": 1}}, (1,)).report
    assert report.missing == ("q3",)
    assert (
        "1 query ids differ only by padding: 'q3' in the judgments, 'q03' in the rankings" in report.notices()
    )


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (["A1"], ["a1"], "case"),
        (["007"], ["7"], "padding"),
        (["12.0", "13.0"], ["12", "13"], "padding"),
        (["doc-12", "doc-13"], ["12", "99"], "a prefix"),
        (["12", "13"], ["https://host/12", "https://host/44"], "a prefix"),
        ([" d"], ["d"], "white space"),
        (["DOC012", "DOC013"], ["12", "13"], "case, padding and a prefix"),
    ],
)
def test_small_differences_of_ids_are_named(left, right, wanted):
    (hint,) = hints("document", left, right)
    assert f"differ only by {wanted}:" in hint or f"surrounding {wanted}:" in hint


def test_different_ids_give_no_hint():
    assert hints("document", ["abc"], ["xyz"]) == ()
    assert hints("document", ["abc", "ABD"], ["abc", "xyz"]) == ()
    assert hints("document", ["abc", "ABD"], ["abc", "abd"])[0].startswith(
        "1 document ids differ only by case"
    )
    assert hints("document", [], ["xyz"]) == ()


# Equal scores


def test_the_given_order_counts_among_equal_scores():
    for order, wanted in (("de", 1.0), ("ed", 0.5)):
        for form in (lambda *pair: pair, frames):
            run = {"a": dict.fromkeys(order, 1.0)}
            assert score(*form(run, {"a": {"d": 1}}), (2,)).metrics.reciprocal_rank.tolist() == [[wanted]]


def test_ties_as_trec_eval_breaks_them_ignore_the_given_order():
    for order in ("de", "ed"):
        run = {"a": dict.fromkeys(order, 1.0)}
        assert score(run, {"a": {"d": 1}}, (2,), ties="trec").metrics.reciprocal_rank.tolist() == [[0.5]]
    with pytest.raises(InputError, match="'given' or 'trec'"):
        score(run, {"a": {"d": 1}}, (2,), ties="best")


@pytest.mark.parametrize("form", [lambda *pair: pair, frames])
def test_groups_that_cross_k_are_reported_with_best_and_worst_case(form):
    run = {"a": {"x": 3.0, "d": 2.0, "y": 2.0, "e": 2.0, "z": 1.0}, "b": {"d": 2.0, "x": 1.0}}
    scores = score(*form(run, {"a": {"d": 2, "e": 1}, "b": {"d": 1}}), (1, 2, 4))
    one, two, four = scores.ties
    assert [bounds.crossing for bounds in scores.ties] == [0, 1, 0]
    assert one.best == one.worst
    assert (two.worst["recall"], two.best["recall"]) == (0.5, 0.75)  # at 2 neither or one of d, e for query a
    assert (two.worst["reciprocal_rank"], two.best["reciprocal_rank"]) == (0.5, 0.75)
    assert (four.worst["recall"], four.best["recall"]) == (1.0, 1.0)
    assert (four.worst["reciprocal_rank"], four.best["reciprocal_rank"]) == (
        pytest.approx((1 / 3 + 1) / 2),
        0.75,
    )


def test_without_equal_scores_nothing_is_reported():
    assert score(*made(9), KS).ties == ()


# Results


def test_means_per_query_and_categories():
    run = {"a": ["d"], "b": ["x", "d"], "c": ["x"]}
    scores = score(run, {name: {"d": 1} for name in "abc"}, (1, 2))
    per_query = pd.DataFrame(scores.per_query())
    assert per_query["query_id"].tolist() == ["a", "a", "b", "b", "c", "c"]
    assert per_query["recall"].tolist() == [1, 1, 0, 1, 0, 0]
    table = pd.DataFrame(scores.by_category({"a": "easy", "b": "easy"}))
    assert table["category"].tolist() == ["(no category)", "(no category)", "easy", "easy"]
    assert table["n"].tolist() == [1, 1, 2, 2]
    assert table["recall"].tolist() == [0, 0, 0.5, 1]
    assert pd.DataFrame(scores.means())["recall"].tolist() == pytest.approx([1 / 3, 2 / 3])


def test_dictionaries_and_lists_need_neither_pandas_nor_pyarrow():
    code = (
        "import sys, json; from evalkit.scoring import score; "
        "s = score({'a': {'d': 1.0}, 'b': {'e': 1.0}}, {'a': {'d': 1}}); score({'a': ['d']}, {'a': {'d': 1}}); "
        "heavy = {'pandas', 'pyarrow', 'pydantic'} & set(sys.modules); "
        "print(json.dumps([s.means()['ndcg'].tolist(), sorted(heavy)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[1.0] * 4, []]


# Rankings of chunks, a ranking for each K


def rankings(*rows):
    return pd.DataFrame(rows, columns=["case_id", "k", "rank", "document_id", "chunk_id"])


def judgments(*rows):
    return pd.DataFrame(rows, columns=["case_id", "document_id", "chunk_id", "grade"])


def test_each_k_is_scored_with_its_own_ranking():
    asked = rankings(
        ("a", 1, 1, "d", "p1"), ("a", 2, 1, "d", "p0"), ("a", 2, 2, "d", "p1"), ("u", 2, 1, "d", "p0")
    )
    table = score_rankings(asked, judgments(("a", "d", "p0", 2), ("a", "d", "p1", 0)), (1, 2))
    assert table["case_id"].tolist() == ["a", "a"]
    assert table["k"].tolist() == [1, 2]
    assert table["precision"].tolist() == [0.0, 0.5]
    assert table["recall"].tolist() == [0.0, 1.0]
    assert table["ndcg"].tolist() == [0.0, 1.0]


def test_equal_chunk_ids_of_other_documents_never_match():
    table = score_rankings(rankings(("a", 1, 1, "other", "p0")), judgments(("a", "d", "p0", 2)), (1,))
    assert table["recall"].tolist() == [0.0]


def test_partial_judgments_have_judged_share_and_bounds_of_precision():
    asked = rankings(("a", 4, 1, "d", "p0"), ("a", 4, 2, "d", "p7"), ("a", 4, 3, "d", "p1"))
    judged = judgments(("a", "d", "p0", 2), ("a", "d", "p1", 0), ("b", "d", "p0", 1))
    table = score_rankings(asked, judged, (4,))
    assert table["precision"].tolist() == [0.25, 0.0]
    assert table["precision_upper"].tolist() == [0.5, 0.0]
    assert table["judged"].tolist()[0] == pytest.approx(2 / 3)
    assert np.isnan(table["judged"].tolist()[1])  # nothing was returned


def test_faults_of_chunk_rankings_are_named_all_at_once():
    asked = rankings(("a", 2, 1, "d", "p0"), ("a", 2, 2, "d", "p0"))
    judged = judgments(("a", "d", "p0", 3), ("b", "d", "p0", 0))
    with pytest.raises(InputError) as error:
        score_rankings(asked, judged, (2,))
    for text in ("'a': grade 3", "'b': no chunk of grade 1 or 2", "'a': chunk 'p0' of 'd' stands twice"):
        assert text in str(error.value)
    with pytest.raises(InputError, match="at least 1"):
        score_rankings(asked, judged, (0,))


def test_empty_rankings_score_zero_and_empty_judgments_give_an_empty_table():
    table = score_rankings(rankings(), judgments(("a", "d", "p0", 2)), (1, 3))
    assert table[list(METRICS)].to_numpy().tolist() == [[0.0] * 4] * 2
    assert score_rankings(rankings(), judgments(), (1,)).empty
