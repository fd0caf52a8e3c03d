"""Judgments with ids of any kind, made ready once for scoring many runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit import metrics
from evalkit.columns import column
from evalkit.errors import InputError
from evalkit.ids import DocumentIndex, as_ids, values
from evalkit.metrics import Gain

MAX_GRADE = 100  # a larger number is some other column; as an exponential gain it would also overflow


@dataclass(frozen=True, eq=False)
class Judged:
    """Judgments made ready by `prepare`.

    Attributes
    ----------
    numbers
        Number of each scored query: one with a relevant document, in the order given.
    by_query
        Document to grade, by the number of the query.
    documents
        The judged documents of scored queries.
    counts
        int64, shape (number of scored queries,): judged documents of each.
    document
        int64, shape (sum of counts,): number of each judged document, in the order of ``by_query``.
    set_aside
        Queries without a relevant document.
    repeated
        Judgments of a document that its query had already judged.
    core
        The same as arrays.
    """

    numbers: dict[Any, int]
    by_query: list[Mapping[Any, int]]
    documents: DocumentIndex
    counts: NDArray[np.int64]
    document: NDArray[np.int64]
    set_aside: tuple[Any, ...]
    repeated: int
    core: metrics.Judgments


def prepare(judgments: Any, ks: Sequence[int], gain: Gain = "exponential") -> Judged:  # noqa: ANN401
    """Make judgments ready for scoring.

    Parameters
    ----------
    judgments
        ``{query: {document: grade}}``, or a pandas DataFrame or pyarrow Table with a column each for query,
        document and grade (``query_id, document_id, grade`` and the usual other names). Grades are whole numbers of
        at most 100; 1 or more is relevant.
    ks
        Cutoffs K.
    gain
        ``exponential`` or ``linear``.

    Returns
    -------
    Judged
        For `evalkit.scoring.score_run`.

    Raises
    ------
    InputError
        K below 1, no judgments, a grade that is not a whole number of at most 100, a missing column, or ids of
        mixed types.
    """
    check_ks(ks)
    if gain not in ("exponential", "linear"):
        raise InputError(f"gain must be 'exponential' or 'linear', found {gain!r}")
    repeated = 0
    if not isinstance(judgments, Mapping):
        judgments, repeated = _from_columns(judgments)
    elif not all(issubclass(kind, Mapping) for kind in set(map(type, judgments.values()))):
        strange = next(query for query, held in judgments.items() if not isinstance(held, Mapping))
        raise InputError(f"query {strange!r}: its judgments are no dictionary; wanted {{document: grade}}")
    counts = np.fromiter(map(len, judgments.values()), np.int64, len(judgments))
    grades = _grades(judgments, int(counts.sum()))
    relevant = np.bincount(np.repeat(np.arange(len(counts)), counts)[grades >= 1], minlength=len(counts)) > 0
    if not relevant.any():
        raise InputError(f"no query has a relevant document (grade 1 or more) among {len(grades)} judgments")
    set_aside: tuple[Any, ...] = ()
    if not relevant.all():
        kept = dict(zip(judgments, relevant.tolist(), strict=True))
        set_aside = tuple(query for query in judgments if not kept[query])
        judgments = {query: held for query, held in judgments.items() if kept[query]}
    by_query = list(judgments.values())
    documents = DocumentIndex(dict.fromkeys(chain.from_iterable(by_query)))
    kept_counts = counts[relevant]
    n_kept = int(kept_counts.sum())
    document = np.fromiter(map(documents.number.__getitem__, chain.from_iterable(by_query)), np.int64, n_kept)
    core = metrics.prepare(
        np.repeat(np.arange(len(by_query)), kept_counts),
        document,
        grades[np.repeat(relevant, counts)],
        n_queries=len(by_query),
        ks=ks,
        gain=gain,
    )
    numbers = dict(zip(judgments, range(len(by_query)), strict=True))
    return Judged(numbers, by_query, documents, kept_counts, document, set_aside, repeated, core)


def check_ks(ks: Sequence[int]) -> None:
    """Raise InputError unless every K is a whole number of at least 1, and there is one."""
    wrong = [
        k for k in ks if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k < 2**63
    ]
    if wrong or not len(ks):
        raise InputError(
            f"cutoffs K must be whole numbers of at least 1 (below 2^63), found {list(ks)}; give such as 1,3,5"
        )


def _from_columns(table: Any) -> tuple[dict[Any, dict[Any, int]], int]:  # noqa: ANN401
    queries = values(as_ids(column(table, "query"), "queries of the judgments"))
    documents = values(as_ids(column(table, "document"), "documents of the judgments"))
    grades = column(table, "grade")
    listed = grades.to_pylist() if hasattr(grades, "to_pylist") else grades.tolist()
    nested: dict[Any, dict[Any, int]] = {}
    for query, document, grade in zip(queries, documents, listed, strict=True):
        held = nested.setdefault(query, {})
        held[document] = grade if document not in held else _higher(grade, held[document])
    return nested, len(queries) - sum(map(len, nested.values()))


def _grades(judgments: Mapping[Any, Mapping[Any, int]], n: int) -> metrics.Ints:
    try:
        listed = chain.from_iterable([held.values() for held in judgments.values()])
        grades = np.fromiter(listed, np.float64, n)
        wrong = ~((grades == np.rint(grades)) & (grades >= -1e9) & (grades <= MAX_GRADE))
    except (TypeError, ValueError, OverflowError):
        wrong = np.ones(n, np.bool_)
    if wrong.any():
        for query, held in judgments.items():
            for document, grade in held.items():
                if not _is_grade(grade):
                    raise InputError(
                        f"query {query!r}: grade {grade!r} of document {document!r}; a grade is a whole number of at "
                        f"most {MAX_GRADE}"
                    )
    return grades.astype(np.int64)


def _higher(one: Any, other: Any) -> Any:  # noqa: ANN401 - a grade that is none wins, to be reported
    return one if not _is_grade(one) or (_is_grade(other) and float(one) >= float(other)) else other


def _is_grade(grade: object) -> bool:
    try:
        return -1e9 <= float(grade) <= MAX_GRADE and float(grade) == int(grade)  # type: ignore[arg-type, call-overload]
    except (TypeError, ValueError, OverflowError):
        return False
