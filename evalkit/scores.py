"""Scores of a run: per query, means, means of each category, and what equal scores leave open."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.joining import JoinReport
from evalkit.metrics import Metrics

Columns = dict[str, Any]
NO_CATEGORY = "(no category)"


@dataclass(frozen=True)
class TieBounds:
    """What equal scores leave open at one K.

    Attributes
    ----------
    k
        The cutoff.
    crossing
        Scored queries in which a group of equal scores lies on both sides of K.
    worst, best
        Mean of each metric when within every group of equal scores the relevant documents stand last, or first.
    """

    k: int
    crossing: int
    worst: dict[str, float]
    best: dict[str, float]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a run.

    Attributes
    ----------
    queries
        Ids of the scored queries, in the order of the judgments.
    ks
        Cutoffs K.
    metrics
        Each of shape (n_queries, number of K).
    report
        How rankings and judgments joined.
    ties
        One entry a K when equal scores could change a metric or cross a K, else empty.
    """

    queries: tuple[Any, ...]
    ks: tuple[int, ...]
    metrics: Metrics
    report: JoinReport
    ties: tuple[TieBounds, ...]

    def means(self) -> Columns:
        """Give the means over all scored queries, zeros included.

        Returns
        -------
        dict
            Columns of a table, one row a K: ``k, n, precision, recall, reciprocal_rank, ndcg``.
        """
        n = np.full(len(self.ks), len(self.queries))
        return {"k": np.array(self.ks), "n": n} | {
            name: part.mean(axis=0) for name, part in self.metrics._asdict().items()
        }

    def per_query(self) -> Columns:
        """Give the scores of every query.

        Returns
        -------
        dict
            Columns of a table, one row a query and K: ``query_id, k, precision, recall, reciprocal_rank, ndcg``.
        """
        ids = np.empty(len(self.queries), object)
        ids[:] = self.queries
        frame = {"query_id": np.repeat(ids, len(self.ks)), "k": np.tile(self.ks, len(self.queries))}
        return frame | {name: part.ravel() for name, part in self.metrics._asdict().items()}

    def by_category(self, categories: Mapping[Any, str]) -> Columns:
        """Give the means of each category.

        Parameters
        ----------
        categories
            Category of each query. Queries that it lacks stand together under ``(no category)``.

        Returns
        -------
        dict
            Columns of a table, one row a category and K, sorted so:
            ``category, k, n, precision, recall, reciprocal_rank, ndcg``.
        """
        own = [str(categories.get(query, NO_CATEGORY)) for query in self.queries]
        names = sorted(set(own))
        place = dict(zip(names, range(len(names)), strict=True))
        code = np.array([place[name] for name in own])
        n = np.bincount(code)
        frame = {
            "category": np.repeat(np.array(names), len(self.ks)),
            "k": np.tile(self.ks, len(names)),
            "n": np.repeat(n, len(self.ks)),
        }
        for name, part in self.metrics._asdict().items():
            sums = [np.bincount(code, weights=at_k) for at_k in part.T]
            frame[name] = (np.stack(sums, axis=1) / n[:, None]).ravel()
        return frame
