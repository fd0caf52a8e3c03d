import pandas as pd
import pytest

from evalkit.checks import compare_prefixes, compare_with_exact, missing_hits, ties_at_cutoff


def ranking(case_id, chunks, k=None):
    rows = [(case_id, rank, "doc", chunk, score) for rank, (chunk, score) in enumerate(chunks, 1)]
    table = pd.DataFrame(rows, columns=["case_id", "rank", "document_id", "chunk_id", "score"])
    return table if k is None else table.assign(k=k)


def test_prefixes_agree():
    table = pd.concat([ranking("q", [("a", 0.9)], 1), ranking("q", [("a", 0.9), ("b", 0.5)], 2)])
    assert compare_prefixes(table, [1, 2]) == {"pairs": 1, "differing": []}


def test_another_first_chunk_differs_unless_the_scores_tie():
    large = [("b", 0.9), ("a", 0.8)]
    table = pd.concat([ranking("q", [("a", 0.8)], 1), ranking("q", large, 2)])
    assert compare_prefixes(table, [1, 2])["differing"] == [{"case_id": "q", "k": 1, "next_k": 2}]
    tied = pd.concat([ranking("q", [("a", 0.9)], 1), ranking("q", [("b", 0.9), ("a", 0.9)], 2)])
    assert compare_prefixes(tied, [1, 2])["differing"] == []


def test_a_shorter_small_ranking_differs():
    table = ranking("q", [("a", 0.9), ("b", 0.5)], 3)
    assert compare_prefixes(table, [1, 3]) == {
        "pairs": 1,
        "differing": [{"case_id": "q", "k": 1, "next_k": 3}],
    }


@pytest.mark.parametrize(
    ("threshold", "crossing"), [(None, ["q"]), (0.4, ["q"]), (0.5, [])], ids=["off", "below", "at"]
)
def test_ties_at_the_cutoff(threshold, crossing):
    deep = ranking("q", [("a", 0.9), ("b", 0.5), ("c", 0.5)])
    assert ties_at_cutoff(deep, [1, 2, 3], threshold) == {"1": [], "2": crossing, "3": []}


def test_exact_search_counts_what_was_missed():
    exact = pd.concat([ranking("q", [("a", 0.9), ("b", 0.5)]), ranking("r", [("c", 0.7), ("d", 0.6)])])
    returned = pd.concat([ranking("q", [("a", 0.9), ("b", 0.5)]), ranking("r", [("c", 0.7), ("x", 0.1)])])
    assert compare_with_exact(returned, exact) == {
        "compared": 2,
        "identical": 1,
        "recall": 0.75,
        "differing": ["r"],
    }


def test_a_tie_at_the_end_is_not_a_miss():
    exact, returned = ranking("q", [("a", 0.9), ("b", 0.5)]), ranking("q", [("a", 0.9), ("c", 0.5)])
    assert compare_with_exact(returned, exact)["recall"] == 1
    assert compare_with_exact(returned, exact)["differing"] == []


def test_nothing_asked():
    empty = ranking("q", [])
    assert compare_with_exact(empty, empty) == {
        "compared": 0,
        "identical": 0,
        "recall": None,
        "differing": [],
    }
    assert compare_prefixes(empty.assign(k=1), [1, 3]) == {"pairs": 0, "differing": []}


def test_cases_that_lack_hits_at_any_k_are_found():
    exact = pd.concat(
        [ranking("p", [("a", 0.9)]), ranking("q", [("a", 0.9), ("b", 0.5)]), ranking("r", [("c", 0.4)])]
    )
    whole = pd.concat([exact[exact["rank"] <= k].assign(k=k) for k in (1, 3)])
    assert missing_hits(whole, exact, (1, 3)) == []
    assert missing_hits(whole[~((whole["case_id"] == "q") & (whole["rank"] == 2))], exact, (1, 3)) == ["q"]
    assert missing_hits(whole[whole["k"] == 3], exact, (1, 3)) == ["p", "q", "r"]
    assert missing_hits(whole, exact.iloc[:0], (1, 3)) == []
