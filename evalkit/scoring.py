"""Rankings and judgments with ids of any kind, joined once and scored by `evalkit.metrics`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalkit import metrics
from evalkit.errors import InputError
from evalkit.metrics import METRICS, Gain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METRICS", "score_rankings"]

_CHUNK = ["document_id", "chunk_id"]


def score_rankings(
    rankings: "pd.DataFrame", judgments: "pd.DataFrame", ks: Sequence[int], gain: Gain = "exponential"
) -> "pd.DataFrame":
    """Score rankings of chunks, where each K was asked for on its own.

    Parameters
    ----------
    rankings
        One row a case, K and rank: ``case_id, k, rank, document_id, chunk_id``; other columns are ignored. ``rank``
        counts from 1. Rows of cases without judgments (unsupported questions) and of other K are not looked at.
    judgments
        One row a judged chunk of a case: ``case_id, document_id, chunk_id, grade``; where a chunk is judged
        twice the higher grade wins. Its cases are the cases scored.
    ks
        Cutoffs K.
    gain
        ``exponential`` or ``linear``.

    Returns
    -------
    DataFrame
        One row a case and K, sorted so: ``case_id, k, precision, recall, reciprocal_rank, ndcg``, each in [0, 1] and
        0 where nothing was returned; ``judged``, the share of the chunks returned within K that have a judgment,
        NaN where nothing was returned; ``precision_upper``, the precision if every unjudged chunk were relevant
        (``precision`` itself is the lower bound). Empty judgments give an empty table.

    Raises
    ------
    InputError
        K below 1, a grade other than 0, 1 and 2, a case without a relevant chunk, or a chunk twice in one ranking;
        the text names every case concerned.
    """
    import pandas as pd

    _check_ks(ks)
    cases = pd.Index(judgments["case_id"].unique()).sort_values()
    faults = _judgment_faults(judgments) + _ranking_faults(rankings)
    if faults:
        raise InputError("rankings cannot be scored:\n- " + "\n- ".join(faults))
    judgments = judgments.sort_values("grade").drop_duplicates(["case_id", *_CHUNK], keep="last")
    judged = metrics.prepare(
        cases.get_indexer(judgments["case_id"]),
        np.arange(len(judgments)),
        judgments["grade"].to_numpy(np.int64),
        n_queries=len(cases),
        ks=ks,
        gain=gain,
    )
    rows = rankings.loc[rankings["case_id"].isin(cases), ["case_id", "k", "rank", *_CHUNK]]
    rows = rows.merge(judgments[["case_id", *_CHUNK, "grade"]], how="left", on=["case_id", *_CHUNK])
    rows = rows.assign(query=cases.get_indexer(rows["case_id"])).sort_values(["query", "rank"])
    return _long_table(cases, [_one_k(judged, column, rows) for column in range(len(ks))])


def _one_k(judged: metrics.Judgments, column: int, rows: "pd.DataFrame") -> "pd.DataFrame":
    import pandas as pd

    k, n = judged.ks[column], judged.n_queries
    rows = rows[(rows["k"] == k) & (rows["rank"] <= k)]
    known = rows[rows["grade"].notna()]
    places = [known[name].to_numpy(np.int64) for name in ("query", "rank", "grade")]
    scores = metrics.score_at(judged, column, *places)
    returned = np.bincount(rows["query"], minlength=n)
    labelled = np.bincount(known["query"], minlength=n)
    share = np.divide(labelled, returned, out=np.full(n, np.nan), where=returned > 0)
    upper = scores.precision + (returned - labelled) / k
    return pd.DataFrame({"k": k, **scores._asdict(), "judged": share, "precision_upper": upper})


def _long_table(cases: "pd.Index[str]", tables: list["pd.DataFrame"]) -> "pd.DataFrame":
    import pandas as pd

    for table in tables:
        table.insert(0, "case_id", cases)
    return pd.concat(tables).sort_values(["case_id", "k"], kind="stable", ignore_index=True)


def _check_ks(ks: Sequence[int]) -> None:
    wrong = [k for k in ks if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1]
    if wrong or not ks:
        raise InputError(
            f"cutoffs K must be whole numbers of at least 1, found {list(ks)}; give such as 1,3,5"
        )


def _judgment_faults(judgments: "pd.DataFrame") -> list[str]:
    strange = judgments[~judgments["grade"].isin([0, 1, 2])]
    faults = [
        f"case {case!r}: grade {grade!r} on {document!r} {chunk!r}; grades are 2 (answers), 1 (supports), 0 (neither)"
        for case, document, chunk, grade in strange[["case_id", *_CHUNK, "grade"]].itertuples(index=False)
    ]
    relevant = judgments.loc[judgments["grade"] >= 1, "case_id"]
    without = judgments.loc[~judgments["case_id"].isin(relevant), "case_id"].unique()
    return faults + [
        f"case {case!r}: no chunk of grade 1 or 2; label one or take the case out" for case in without
    ]


def _ranking_faults(rankings: "pd.DataFrame") -> list[str]:
    twice = rankings[rankings.duplicated(["case_id", "k", *_CHUNK])]
    return [
        f"case {case!r}: chunk {chunk!r} of {document!r} stands twice in the ranking at K={k}"
        for case, k, document, chunk in twice[["case_id", "k", *_CHUNK]].itertuples(index=False)
    ]
