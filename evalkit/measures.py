"""The measures of a run: their names, in the order in which tables and figures show them, and their means."""

from collections.abc import Sequence

import pandas as pd

from evalkit.metrics import METRICS

EVIDENCE = ("coverage", "complete")
"""Measures over required facts; null for a case without facts."""

MEASURES = (*METRICS, *EVIDENCE)

TABLE_ORDER = ("complete", "coverage", "recall", "ndcg", "reciprocal_rank", "precision")
"""Order in which tables of pages show them: what an answer needs first, since a phone shows a few columns only."""

JUDGED = "judged"
"""Under partial judgments: share of the returned chunks that are judged."""

METRIC_LABELS = {
    "precision": "precision",
    "recall": "recall",
    "reciprocal_rank": "MRR",
    "ndcg": "nDCG",
    "coverage": "coverage",
    "complete": "complete",
}
"""Name of the mean of each measure, as tables and figures write it."""

MISSING = "–"
"""What stands for a figure that does not exist."""


def label(measure: str) -> str:
    """Give the name of a mean for readers, also of one that is no measure, such as ``false_acceptance``."""
    return METRIC_LABELS.get(measure, measure.replace("_", " "))


def means(scores: pd.DataFrame, measures: Sequence[str] = MEASURES) -> pd.DataFrame:
    """Average scores over cases at each K, every mean with its n.

    Parameters
    ----------
    scores
        ``scores.parquet``: a row an answerable case and K.
    measures
        Columns to average; nulls (coverage and complete of cases without facts) stay outside.

    Returns
    -------
    DataFrame
        A row a K: ``k``, the measures (macro means, null without a single value), ``n`` (cases with a relevant chunk,
        the n of the chunk metrics) and ``n_facts`` (cases with facts, the n of coverage and complete). No rows for
        no scores.
    """
    grouped = scores.groupby("k", sort=True)
    table = grouped[list(measures)].mean()
    table["n"] = grouped["precision"].count()
    table["n_facts"] = grouped["coverage"].count()
    return table.reset_index()
