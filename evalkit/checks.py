"""What is looked at beside the scores: prefixes, ties at the cutoff, approximate against exact search."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

_CHUNK = ["document_id", "chunk_id"]


def compare_prefixes(rankings: pd.DataFrame, ks: Sequence[int]) -> dict[str, Any]:
    """Compare the ranking of each K with the start of the ranking of the next larger K, up to equal scores.

    Parameters
    ----------
    rankings
        ``case_id, k, rank, document_id, chunk_id, score``, rank from 1.
    ks
        Cutoffs K in ascending order.

    Returns
    -------
    dict
        ``pairs``: number of (case, neighbouring K) compared; ``differing``: sorted list of
        ``{"case_id", "k", "next_k"}`` whose lists differ by more than the order within equal scores.
    """
    differing = []
    pairs = 0
    by_k = dict(list(rankings.groupby("k")))
    empty = rankings.iloc[:0]
    for k, next_k in pairwise(ks):
        small, large = by_k.get(k, empty), by_k.get(next_k, empty)
        cases = sorted({*small["case_id"], *large["case_id"]})
        pairs += len(cases)
        start = large[large["rank"] <= k]
        for case_id in sorted(_differing_cases(small, start)):
            differing.append({"case_id": case_id, "k": int(k), "next_k": int(next_k)})
    return {"pairs": pairs, "differing": differing}


def ties_at_cutoff(deep: pd.DataFrame, ks: Sequence[int], threshold: float | None) -> dict[str, list[str]]:
    """Find the cases in which the chunks at rank K and K + 1 have the same score.

    Which of two equally scored chunks comes within K is then the engine's choice, and so are the scores.

    Parameters
    ----------
    deep
        ``case_id, rank, score`` without a threshold, at least one rank deeper than the largest K.
    ks
        Cutoffs K.
    threshold
        Chunks at or below it are not returned, so their ties do not count; None is off.

    Returns
    -------
    dict
        K as text -> sorted case ids; an empty list where no tie group crosses K.
    """
    scored = above(deep, threshold)
    wide = scored.set_index(["case_id", "rank"])["score"]
    ties = {}
    for k in ks:
        last, beyond = (
            wide[wide.index.get_level_values("rank") == rank].droplevel("rank") for rank in (k, k + 1)
        )
        equal = last.reindex(beyond.index) == beyond
        ties[str(k)] = sorted(equal.index[equal])
    return ties


def above(rankings: pd.DataFrame, threshold: float | None) -> pd.DataFrame:
    """Keep the rows whose score is above a threshold, both as float32, as the engine does; None keeps all."""
    return (
        rankings
        if threshold is None
        else rankings[rankings["score"].astype("float32") > np.float32(threshold)]
    )


def missing_hits(rankings: pd.DataFrame, exact: pd.DataFrame, ks: Sequence[int]) -> list[str]:
    """Find the cases whose rankings hold fewer chunks than exact search has to give.

    Parameters
    ----------
    rankings
        ``case_id, k, rank``.
    exact
        ``case_id, rank`` of exact search down to the largest K.
    ks
        Cutoffs K.

    Returns
    -------
    list of str
        Sorted ids of the cases that lack a chunk at any K.
    """
    given = exact.groupby("case_id").size()
    short: set[str] = set()
    for k in ks:
        found = rankings[rankings["k"] == k].groupby("case_id").size().reindex(given.index, fill_value=0)
        short |= set(given.index[found < given.clip(upper=k)])
    return sorted(short)


def compare_with_exact(returned: pd.DataFrame, exact: pd.DataFrame) -> dict[str, Any]:
    """Compare approximate rankings with those of exact search at the same K.

    Parameters
    ----------
    returned, exact
        ``case_id, rank, document_id, chunk_id, score`` at one K.

    Returns
    -------
    dict
        ``compared``: questions; ``identical``: questions with the same ranking up to equal scores; ``recall``:
        mean share of the exact chunks that came back, a chunk whose score equals the last exact one counting as
        found (null without questions); ``differing``: sorted ids of the cases that are not identical.
    """
    cases = sorted({*returned["case_id"], *exact["case_id"]})
    differing = sorted(_differing_cases(returned, exact))
    wanted = exact.groupby("case_id").size().reindex(cases, fill_value=0)
    last = exact.groupby("case_id")["score"].min()
    good = returned[
        returned["score"] >= returned["case_id"].map(last.to_dict()).astype("float64").fillna(-np.inf)
    ]
    found = good.groupby("case_id").size().reindex(cases, fill_value=0)
    shares = (found / wanted).where(wanted > 0, 1.0).clip(upper=1.0)
    return {
        "compared": len(cases),
        "identical": len(cases) - len(differing),
        "recall": float(shares.mean()) if cases else None,
        "differing": differing,
    }


def _differing_cases(one: pd.DataFrame, other: pd.DataFrame) -> set[str]:
    """Cases whose score sequences differ, or whose chunks do where no equal score could explain it."""
    both = one.merge(other, on=["case_id", "rank"], how="outer", suffixes=("", "_other"))
    score, score_other = both["score"], both["score_other"]
    differing = set(both.loc[~(score == score_other), "case_id"])
    swapped = both[np.any([both[name] != both[f"{name}_other"] for name in _CHUNK], axis=0)]
    for case_id, rows in swapped.groupby("case_id"):
        if case_id not in differing and not _only_ties(rows, one, case_id):
            differing.add(str(case_id))
    return differing


def _only_ties(rows: pd.DataFrame, ranking: pd.DataFrame, case_id: object) -> bool:
    """Whether each swapped rank shares its score with another rank, or is the last one, where a tie may cross K."""
    scores = ranking.loc[ranking["case_id"] == case_id, "score"]
    counts = scores.value_counts()
    return all(counts[score] > 1 or score == scores.min() for score in rows["score"])
