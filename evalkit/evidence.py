"""Facts and quotes: how much of the evidence of a question its first K chunks hold, and what is missing."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from evalkit.errors import InputError
from evalkit.labels import Labels

_PLACE = ["case_id", "document_id", "chunk_id"]
_FACT = ["case_id", "k", "fact"]
_COVER = ["case_id", "k", "coverage", "complete"]
_FACT_TABLE = [*_FACT, "text", "quote", "document_id", "chunk_id", "rank", "found", "lost"]


def cover(rankings: pd.DataFrame, labels: Labels, ks: Sequence[int]) -> pd.DataFrame:
    """Score the rankings by the facts whose evidence they hold.

    A fact is found when one of the first K chunks holds one of its quotes. ``coverage`` at K is facts found /
    facts of the case; ``complete`` is 1 when all are found. A fact of which no chunk holds a quote whole
    (``lost``) is never found.

    Parameters
    ----------
    rankings
        One row a question, K and rank: ``case_id, k, document_id, chunk_id`` and any others. A case without
        rows for a K has an empty ranking there and scores 0. Questions without labels are left out.
    labels
        Resolved under the chunking version of the rankings.
    ks
        Cutoffs K, each at least 1.

    Returns
    -------
    DataFrame
        ``case_id, k, coverage, complete`` (float64 in [0, 1]; null for a case without facts), one row a
        labelled case and K, sorted by both; no rows without labelled cases.

    Raises
    ------
    InputError
        Missing columns, or a K below 1.
    """
    facts = _facts_at(rankings, labels, ks)
    grouped = facts.groupby(["case_id", "k"])["found"]
    scores = pd.DataFrame({"coverage": grouped.mean(), "complete": grouped.all().astype("float64")})
    cases = sorted({*labels.judgments["case_id"], *labels.facts["case_id"]})
    grid = pd.MultiIndex.from_product([pd.Index(cases, dtype="str"), sorted(set(ks))], names=["case_id", "k"])
    return scores.reindex(grid).astype("float64").reset_index()[_COVER]


def fact_table(rankings: pd.DataFrame, deep: pd.DataFrame, labels: Labels, ks: Sequence[int]) -> pd.DataFrame:
    """Name each fact of each case, where its evidence stands, and whether the first K chunks hold it.

    Parameters
    ----------
    rankings
        As in `cover`, with ``rank``.
    deep
        The diagnostic ranking, one row a question and rank: ``case_id, rank, document_id, chunk_id``.
    labels
        Resolved under the chunking version of the rankings.
    ks
        Cutoffs K, each at least 1.

    Returns
    -------
    DataFrame
        One row a case, K and fact, sorted by them: ``case_id, k, fact`` (index from 0), ``text, quote,
        document_id, chunk_id, rank, found, lost``. The place is the one of best rank: within K for a found
        fact, else within ``deep``, that is where the evidence would have come. ``rank`` (Int64, from 1) is
        null when no retrieved chunk holds the fact; the place is then the first that the labels name. A lost
        fact has its first quote and no place.

    Raises
    ------
    InputError
        Missing columns, or a K below 1.
    """
    require_columns(rankings, ["rank"], "rankings")
    require_columns(deep, [*_PLACE, "rank"], "deep ranking")
    facts = _facts_at(rankings, labels, ks)
    held = labels.places.rename(columns={"text": "quote", "quote": "nth"})
    within = rankings[[*_PLACE, "k", "rank"]].merge(held, on=_PLACE).assign(source=0)
    below = deep[[*_PLACE, "rank"]].merge(held, on=_PLACE).assign(source=1)
    unseen = held.assign(rank=pd.array([None] * len(held), dtype="Int64"), source=2)
    every_k = pd.DataFrame({"k": sorted(set(ks))}, dtype="int64")
    places = pd.concat(
        [
            part.astype({"rank": "Int64"})
            for part in (within, below.merge(every_k, how="cross"), unseen.merge(every_k, how="cross"))
        ]
    ).sort_values([*_FACT, "source", "rank", "nth", "document_id", "chunk_id"], kind="stable")
    best = places.drop_duplicates(_FACT)
    table = facts.merge(best, on=_FACT, how="left")
    table["quote"] = table["quote"].fillna(table["first_quote"])
    return table.sort_values(_FACT, ignore_index=True)[_FACT_TABLE]


def rank_outside(rank: Any, k: int, depth: int, threshold: float | None) -> str:  # noqa: ANN401 - a cell of a table
    """Say at which rank of the diagnostic ranking a passage came that the first K do not hold.

    Parameters
    ----------
    rank
        From 1; missing when the diagnostic ranking does not hold the passage.
    k, depth, threshold
        Cutoff, depth of the diagnostic ranking, and the score to be above (None: off).
    """
    if pd.isna(rank):
        return f"not within the first {depth} ranks"
    if int(rank) > k:
        return f"comes at rank {rank}, outside K = {k}"
    if threshold is not None:
        return f"would come at rank {rank}, but does not score above {threshold}"
    return f"comes at rank {rank} when {depth} are asked for, but not when {k} are: the search is approximate"


def _facts_at(rankings: pd.DataFrame, labels: Labels, ks: Sequence[int]) -> pd.DataFrame:
    """Facts x K with ``found``: a chunk of the ranking at that K holds a quote of the fact."""
    require_columns(rankings, [*_PLACE, "k"], "rankings")
    if wrong := [k for k in ks if k < 1]:
        raise InputError(f"ks: each cutoff K must be at least 1, found {wrong}")
    every_k = pd.DataFrame({"k": sorted(set(ks))}, dtype="int64")
    facts = labels.facts.merge(every_k, how="cross")
    hits = rankings[[*_PLACE, "k"]].merge(labels.places, on=_PLACE)[_FACT].drop_duplicates()
    facts = facts.merge(hits.assign(found=True), on=_FACT, how="left")
    return facts.assign(found=facts["found"].notna())


def require_columns(table: pd.DataFrame, columns: list[str], name: str) -> None:
    """Raise InputError when a table lacks columns; the text names those missing and those found."""
    if missing := [column for column in columns if column not in table.columns]:
        raise InputError(f"{name}: columns {missing} are missing, found {list(table.columns)}")
