"""Precision, recall, reciprocal rank and nDCG at K: arrays in, arrays out, all queries and all K at once.

Rankings come in sparse form: only the places where a *judged* document stands. An unjudged document counts as not
relevant wherever it stands, so it never has to be looked at. Judgments are prepared once (sorted keys, number of
relevant documents, ideal DCG); any number of rankings is then scored against them.

Queries and documents are integers here: ``query`` in ``[0, n_queries)``, ``document`` at least 0, and -1 for a
document that no query has a judgment for. `evalkit.scoring` makes them from ids of any kind.

A document is relevant when its grade is 1 or more. For K >= 1:

* precision = relevant documents in the first K / K, also when the ranking is shorter than K;
* recall = relevant documents in the first K / all relevant documents of the query;
* reciprocal rank = 1 / rank of the first relevant document, 0 when none is in the first K;
* nDCG = DCG / DCG of the best possible order of all judgments, where DCG is the sum of gain / log2(rank + 1) over
  the first K. Gain is ``2**grade - 1`` (exponential: Burges et al. 2005, Learning to rank using gradient descent)
  or the grade itself (linear: Järvelin and Kekäläinen 2002, as in trec_eval). Grades below 0 gain nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Gain = Literal["exponential", "linear"]
Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]

METRICS = ("precision", "recall", "reciprocal_rank", "ndcg")


class Metrics(NamedTuple):
    """The four metrics; each float64 in [0, 1], an array of shape (n_queries, number of K) or (n_queries,)."""

    precision: Floats
    recall: Floats
    reciprocal_rank: Floats
    ndcg: Floats


@dataclass(frozen=True, eq=False)
class Judgments:
    """Judgments made ready for scoring by `prepare`.

    Attributes
    ----------
    n_queries
        Number of queries, with and without judgments.
    ks
        Cutoffs K.
    gain
        How grades become gains.
    keys
        int64, shape (n_judgments,): ``query * n_documents + document``, ascending and unique.
    grades
        int64, shape (n_judgments,): the grade of each key.
    n_documents
        One more than the largest judged document.
    n_relevant
        int64, shape (n_queries,): documents of grade 1 or more.
    ideal
        float64, shape (n_queries, number of K): DCG of the best possible order.
    """

    n_queries: int
    ks: tuple[int, ...]
    gain: Gain
    keys: NDArray[np.int64]
    grades: NDArray[np.int64]
    n_documents: int
    n_relevant: NDArray[np.int64]
    ideal: Floats


def prepare(
    query: Ints, document: Ints, grade: Ints, n_queries: int, ks: Sequence[int], gain: Gain = "exponential"
) -> Judgments:
    """Prepare judgments for scoring.

    Parameters
    ----------
    query, document, grade
        Shape (n_judgments,), in any order. Where a document of a query is judged twice the higher grade wins.
    n_queries
        Number of queries; those without judgments have scores of 0.
    ks
        Cutoffs K, each at least 1.
    gain
        ``exponential`` or ``linear``.

    Returns
    -------
    Judgments
        Ready for `find` and `score`.

    Raises
    ------
    ValueError
        A K below 1, an unknown gain, or a query or document outside its range.
    """
    if min(ks, default=0) < 1:
        raise ValueError(f"every K must be at least 1, found {list(ks)}")
    if gain not in ("exponential", "linear"):
        raise ValueError(f"gain must be 'exponential' or 'linear', found {gain!r}")
    if query.size and (query.min() < 0 or query.max() >= n_queries or document.min() < 0):
        raise ValueError(f"queries must lie in [0, {n_queries}) and documents be at least 0")
    n_documents = int(document.max()) + 1 if document.size else 1
    keys = query.astype(np.int64) * n_documents + document
    order = np.argsort(keys, kind="stable")
    keys, grades = keys[order], grade[order].astype(np.int64)
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    if first.size < keys.size:
        keys, grades = keys[first], np.maximum.reduceat(grades, first)
    owner = keys // n_documents
    highest = int(grades.max(initial=0))
    best = np.argsort(owner * (highest - int(grades.min(initial=0)) + 1) + highest - grades)
    rank = np.arange(keys.size) - np.searchsorted(owner, owner) + 1
    ideal = np.stack([_dcg(owner, rank, grades[best], k, n_queries, gain) for k in ks], axis=1)
    return Judgments(
        n_queries=n_queries,
        ks=tuple(ks),
        gain=gain,
        keys=keys,
        grades=grades,
        n_documents=n_documents,
        n_relevant=np.bincount(owner[grades >= 1], minlength=n_queries),
        ideal=ideal,
    )


def find(judgments: Judgments, query: Ints, document: Ints) -> NDArray[np.int64]:
    """Look documents of rankings up in the judgments.

    Parameters
    ----------
    judgments
        From `prepare`.
    query, document
        Shape (n,); a document of -1 or beyond the largest judged one is unjudged.

    Returns
    -------
    NDArray[np.int64]
        Shape (n,): position in ``judgments.keys`` and ``judgments.grades``, -1 for unjudged documents.
    """
    if not judgments.keys.size:
        return np.full(query.shape, -1, np.int64)
    known = (document >= 0) & (document < judgments.n_documents)
    key = query.astype(np.int64) * judgments.n_documents + document
    place = np.minimum(np.searchsorted(judgments.keys, key), judgments.keys.size - 1)
    return np.where(known & (judgments.keys[place] == key), place, -1)


def score(judgments: Judgments, query: Ints, rank: Ints, grade: Ints) -> Metrics:
    """Score rankings at every K.

    Parameters
    ----------
    judgments
        From `prepare`.
    query, rank, grade
        Shape (n,): the places of the rankings where a judged document stands; ``rank`` counts from 1. The order
        of the places is irrelevant; documents that are not relevant may be left out.

    Returns
    -------
    Metrics
        Arrays of shape (n_queries, number of K); 0 for queries without places or without relevant documents.
    """
    hit = (rank <= max(judgments.ks)) & (grade >= 1)
    query, rank, grade = query[hit], rank[hit], grade[hit]
    order = np.argsort(query * (int(rank.max(initial=0)) + 1) + rank)
    query, rank, grade = query[order], rank[order], grade[order]
    columns = [score_at(judgments, column, query, rank, grade) for column in range(len(judgments.ks))]
    return Metrics(*(np.stack(parts, axis=1) for parts in zip(*columns, strict=True)))


def score_at(judgments: Judgments, column: int, query: Ints, rank: Ints, grade: Ints) -> Metrics:
    """Score rankings at one K, for rankings that were asked for with this K alone.

    Parameters
    ----------
    judgments
        From `prepare`.
    column
        Which K: position in ``judgments.ks``.
    query, rank, grade
        As for `score`, the places of one query in order of rank.

    Returns
    -------
    Metrics
        Arrays of shape (n_queries,).
    """
    n, k = judgments.n_queries, judgments.ks[column]
    hit = (rank <= k) & (grade >= 1)
    hit_query, hit_rank = query[hit], rank[hit]
    hits = np.bincount(hit_query, minlength=n)
    reciprocal_rank = np.zeros(n)
    np.maximum.at(reciprocal_rank, hit_query, 1.0 / hit_rank)
    dcg = _dcg(hit_query, hit_rank, grade[hit], k, n, judgments.gain)
    return Metrics(
        precision=hits / k,
        recall=_ratio(hits, judgments.n_relevant),
        reciprocal_rank=reciprocal_rank,
        ndcg=_ratio(dcg, judgments.ideal[:, column]),
    )


def gains(grade: Ints, gain: Gain) -> Floats:
    """Turn grades into gains: ``2**grade - 1`` or the grade, and 0 for grades below 0."""
    positive = np.maximum(grade, 0).astype(np.float64)
    return np.exp2(positive) - 1.0 if gain == "exponential" else positive


def _dcg(query: Ints, rank: Ints, grade: Ints, k: int, n_queries: int, gain: Gain) -> Floats:
    within = rank <= k
    summands = gains(grade[within], gain) / np.log2(rank[within] + 1.0)
    return np.bincount(query[within], weights=summands, minlength=n_queries).astype(np.float64, copy=False)


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    ratio: Floats = np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
    return ratio
