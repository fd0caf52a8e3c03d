"""What a score threshold does: unsupported questions accepted, answerable ones rejected, evidence still covered."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from evalkit.errors import InputError
from evalkit.intervals import clopper_pearson

_RATES = (
    ("false_acceptance", "false_acceptances", "n_unsupported"),
    ("false_rejection", "false_rejections", "n_answerable"),
)
SWEEP = (
    "threshold",
    *(column for rate, count, n in _RATES for column in (count, n, rate, f"{rate}_low", f"{rate}_high")),
    *("coverage", "complete", "n_facts", "answered", "risk_unsupported", "risk_incomplete"),
)
"""Columns of a sweep."""


class Proportion(NamedTuple):
    """A count among n with its exact 95 % bounds; without n the rate is NaN and the bounds are 0 and 1."""

    counted: int
    n: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, counted: int, n: int) -> "Proportion":
        """Make it from ``counted`` among ``n``."""
        low, high = clopper_pearson(counted, n)
        return cls(counted, n, counted / n if n else float("nan"), float(low), float(high))


@dataclass(frozen=True)
class Rates:
    """What one threshold does to one set of questions.

    Attributes
    ----------
    threshold
        A question is accepted when its top score is above it (as float32); None: when anything came back.
    false_acceptance
        Unsupported questions accepted, among the unsupported.
    false_rejection
        Answerable questions rejected, among the answerable.
    coverage, complete
        Mean share of required facts, and share of cases with all facts, that stand in the first K chunks above the
        threshold; NaN without facts.
    n_facts
        Cases with facts: the n of both.
    """

    threshold: float | None
    false_acceptance: Proportion
    false_rejection: Proportion
    coverage: float
    complete: float
    n_facts: int


def accepts(scores: ArrayLike, threshold: float | None) -> NDArray[np.bool_]:
    """Apply a threshold as Qdrant does: strictly above, both sides as float32.

    Parameters
    ----------
    scores
        Top scores or scores of hits; NaN where nothing came back.
    threshold
        None: whatever came back is accepted.

    Returns
    -------
    array of bool
        Same shape; False for NaN.
    """
    values = np.asarray(scores, dtype=np.float32)
    return ~np.isnan(values) if threshold is None else values > np.float32(threshold)


def question_scores(questions: pd.DataFrame, k: int) -> pd.DataFrame:
    """Give the score by which each question is accepted: that of its first hit.

    Parameters
    ----------
    questions
        Table ``questions`` of a run.
    k
        One of its cutoffs.

    Returns
    -------
    DataFrame
        ``case_id, question, category, split, answerable, score`` (float64 of a float32, NaN without results), one
        row a question, sorted by case.

    Raises
    ------
    InputError
        No row at this K.
    """
    at_k = questions[questions["k"] == k]
    if at_k.empty:
        known = ", ".join(map(str, sorted(questions["k"].unique()))) or "none"
        raise InputError(f"k: the run has no results at K = {k}; its cutoffs are {known}")
    return at_k.rename(columns={"top_score": "score"}).sort_values("case_id", ignore_index=True)[
        ["case_id", "question", "category", "split", "answerable", "score"]
    ]


def evidence_scores(rankings: pd.DataFrame, facts: pd.DataFrame, k: int) -> pd.DataFrame:
    """Give the best score with which each required fact stands in the first K chunks.

    Parameters
    ----------
    rankings, facts
        Tables of a run.
    k
        One of its cutoffs.

    Returns
    -------
    DataFrame
        ``case_id, fact, score`` (float64 of a float32, NaN for a fact not found), one row a fact, sorted. The place
        in ``facts`` is the one of best rank, so its score is the highest of the fact's quotes.
    """
    place = ["case_id", "document_id", "chunk_id"]
    needed = facts.loc[facts["k"] == k, [*place, "fact", "found"]]
    scores = rankings.loc[rankings["k"] == k, [*place, "score"]]
    joined = needed.merge(scores, on=place, how="left", validate="many_to_one")
    joined["score"] = joined["score"].where(joined["found"])
    return joined.sort_values(["case_id", "fact"], ignore_index=True)[["case_id", "fact", "score"]]


def rates_at(questions: pd.DataFrame, evidence: pd.DataFrame, threshold: float | None) -> Rates:
    """Count what one threshold does.

    Parameters
    ----------
    questions, evidence
        Tables of `question_scores` and `evidence_scores`.
    threshold
        None: whatever came back is accepted.

    Returns
    -------
    Rates
        With NaN rates and bounds 0 and 1 where no question counts.
    """
    accepted = accepts(questions["score"], threshold)
    answerable = questions["answerable"].to_numpy(dtype=bool)
    found = pd.Series(accepts(evidence["score"], threshold)).groupby(evidence["case_id"].to_numpy())
    return Rates(
        threshold=threshold,
        false_acceptance=Proportion.of(int((accepted & ~answerable).sum()), int((~answerable).sum())),
        false_rejection=Proportion.of(int((~accepted & answerable).sum()), int(answerable.sum())),
        coverage=float(found.mean().mean()),
        complete=float(found.all().astype("float64").mean()),
        n_facts=found.ngroups,
    )


def sweep(questions: pd.DataFrame, evidence: pd.DataFrame) -> pd.DataFrame:
    """Count what every threshold does that does something else than its neighbours.

    Parameters
    ----------
    questions, evidence
        Tables of `question_scores` and `evidence_scores`.

    Returns
    -------
    DataFrame
        One row a threshold in ascending order: -inf (whatever came back is accepted), then every distinct score of a
        top hit or a fact, since there something changes (a threshold equal to a score rejects it). Columns
        ``threshold``; ``false_acceptances, n_unsupported, false_acceptance, false_acceptance_low,
        false_acceptance_high``; ``false_rejections, n_answerable, false_rejection, false_rejection_low,
        false_rejection_high``; ``coverage, complete, n_facts, answered, risk_unsupported, risk_incomplete``. Rates
        are NaN without n. ``answered`` is the share of all questions that are accepted; among these,
        ``risk_unsupported`` is the share without an answer and ``risk_incomplete`` the share that have no answer or
        miss a required fact above the threshold (the risk-coverage curve of El-Yaniv and Wiener, JMLR 11, 2010); NaN
        when nothing is accepted.
    """
    scores = questions["score"].to_numpy(dtype=np.float32)
    answerable = questions["answerable"].to_numpy(dtype=bool)
    fact_scores = evidence["score"].to_numpy(dtype=np.float32)
    steps = np.unique(np.concatenate([scores, fact_scores]))
    thresholds = np.concatenate([[-np.inf], steps[~np.isnan(steps)]]).astype(np.float32)
    n_unsupported, n_answerable = int((~answerable).sum()), int(answerable.sum())
    accepted_unsupported = _above(scores[~answerable], thresholds)
    accepted_answerable = _above(scores[answerable], thresholds)
    rejected = n_answerable - accepted_answerable

    by_case = pd.Series(fact_scores).groupby(evidence["case_id"].to_numpy())
    n_facts = by_case.ngroups
    per_fact = 1 / by_case.transform("size").to_numpy(dtype=np.float64)
    complete = _above(by_case.min(skipna=False).to_numpy(dtype=np.float32), thresholds)
    has_facts = questions["case_id"].isin(evidence["case_id"]).to_numpy()
    incomplete = _above(scores[has_facts], thresholds) - complete

    accepted = accepted_unsupported + accepted_answerable
    with np.errstate(invalid="ignore", divide="ignore"):
        table = pd.DataFrame(
            {
                "threshold": thresholds.astype(np.float64),
                "false_acceptances": accepted_unsupported,
                "n_unsupported": n_unsupported,
                "false_acceptance": accepted_unsupported / np.float64(n_unsupported),
                "false_rejections": rejected,
                "n_answerable": n_answerable,
                "false_rejection": rejected / np.float64(n_answerable),
                "coverage": _above(fact_scores, thresholds, per_fact) / np.float64(n_facts),
                "complete": complete / np.float64(n_facts),
                "n_facts": n_facts,
                "answered": accepted / np.float64(len(scores)),
                "risk_unsupported": accepted_unsupported / accepted,
                "risk_incomplete": (accepted_unsupported + incomplete) / accepted,
            }
        )
    for rate, count, n in _RATES:
        table[f"{rate}_low"], table[f"{rate}_high"] = clopper_pearson(table[count], table[n])
    return table[list(SWEEP)]


def auc(questions: pd.DataFrame) -> float:
    """Chance that an answerable question scores above an unsupported one, ties counting half.

    The area under the ROC curve by the rank-sum identity (Hanley and McNeil, Radiology 143, 1982). A question
    without results ranks below every score.

    Parameters
    ----------
    questions
        Table of `question_scores`.

    Returns
    -------
    float
        0..1, 0.5 for scores that tell nothing; NaN when one of the two kinds of question is absent.
    """
    answerable = questions["answerable"].to_numpy(dtype=bool)
    positive, negative = int(answerable.sum()), int((~answerable).sum())
    if not positive or not negative:
        return float("nan")
    ranks = stats.rankdata(np.nan_to_num(questions["score"].to_numpy(dtype=np.float64), nan=-np.inf))
    return float((ranks[answerable].sum() - positive * (positive + 1) / 2) / (positive * negative))


def wrongly_decided(questions: pd.DataFrame, threshold: float | None) -> pd.DataFrame:
    """List the questions that a threshold decides wrongly, the clearest errors first.

    Parameters
    ----------
    questions
        Table of `question_scores`.
    threshold
        None: whatever came back is accepted.

    Returns
    -------
    DataFrame
        Columns of ``questions`` and ``error`` (``accepted without an answer`` or ``rejected though answerable``):
        accepted ones by falling score, then rejected ones by rising score.
    """
    accepted = accepts(questions["score"], threshold)
    answerable = questions["answerable"].to_numpy(dtype=bool)
    wrong_accept = questions[accepted & ~answerable].sort_values("score", ascending=False, kind="stable")
    wrong_reject = questions[~accepted & answerable].sort_values("score", na_position="first", kind="stable")
    errors = [
        wrong_accept.assign(error="accepted without an answer"),
        wrong_reject.assign(error="rejected though answerable"),
    ]
    wrong: pd.DataFrame = pd.concat(errors, ignore_index=True)
    return wrong


def _above(
    scores: NDArray[np.float32], thresholds: NDArray[np.float32], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Count (or weigh) the scores strictly above each threshold; NaN is above none."""
    present = ~np.isnan(scores)
    order = np.argsort(scores[present], kind="stable")
    each = np.ones(len(order)) if weights is None else weights[present][order]
    from_here = np.concatenate([np.cumsum(each[::-1])[::-1], [0.0]])
    counts = from_here[np.searchsorted(scores[present][order], thresholds, side="right")]
    return counts.astype(np.int64) if weights is None else counts
