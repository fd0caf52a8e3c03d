"""One retrieval: many questions, one filter, one K; nothing comes through that the filter does not allow."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite

import numpy as np

from evalkit.embedding import Vectors, check_vectors
from evalkit.errors import InfrastructureError, InputError
from evalkit.points import Filter, Hit, Store, stored_name

BATCH = 500
"""Questions a request, at most."""

NUMBERS = 1_000_000
"""Numbers a request, at most: as JSON some 22 MB, where a Qdrant server takes 32."""

HITS = 5_000
"""Hits that a request may be answered with: their payloads take some 6 kB of memory each."""


def retrieve(
    store: Store,
    collection: str,
    names: Sequence[str],
    vectors: Vectors,
    filter: Filter,
    k: int,
    *,
    threshold: float | None = None,
    exact: bool = False,
    hnsw_ef: int | None = None,
) -> list[list[Hit]]:
    """Ask for the nearest K passages of each question.

    Parameters
    ----------
    names
        Case ids, one a row of `vectors`; errors name them.
    vectors
        Shape (n, dimension), float32, rows of unit length.
    filter
        Payload field -> allowed values, applied inside the engine and checked on everything that comes back.
    k
        Hits a question, at least 1.
    threshold
        Only hits whose score is above it, both as float32; None is off.
    exact
        Exact instead of approximate search.
    hnsw_ef
        Beam width of the approximate search; None is the engine's default.

    Returns
    -------
    list of list of Hit
        In the order of `names`, each list best first as the engine gave it. Empty for no questions.

    Raises
    ------
    InputError
        K below 1, a threshold that is not finite, vectors of a wrong shape, not finite or not of unit length, a
        returned passage that the filter does not allow.
    InfrastructureError
        The engine failed, or its answer is not one: a missing list, more than K hits, a passage twice, a score that
        is not finite, scores at or below the threshold or not in descending order, or an exact search that gave
        fewer hits than there are passages to give.
    """
    asked = retrieve_batches(
        store, collection, names, vectors, filter, k, threshold=threshold, exact=exact, hnsw_ef=hnsw_ef
    )
    return [hits for _, answers in asked for hits in answers]


def retrieve_batches(
    store: Store,
    collection: str,
    names: Sequence[str],
    vectors: Vectors,
    filter: Filter,
    k: int,
    *,
    threshold: float | None = None,
    exact: bool = False,
    hnsw_ef: int | None = None,
) -> Iterator[tuple[Sequence[str], list[list[Hit]]]]:
    """Ask as `retrieve` does, with its parameters and errors, and give the answers of one request after another.

    Yields
    ------
    names, answers
        The questions of one request and their hits, within `BATCH`, `NUMBERS` and `HITS`.
    """
    if k < 1:
        raise InputError(f"K must be at least 1, found {k}")
    if threshold is not None and not np.isfinite(threshold):
        raise InputError(
            f"threshold must be a finite number, found {threshold}; leave it out to switch it off"
        )
    if not len(names):
        return
    check_vectors(vectors, store.dimension(collection), names, "query vectors", InputError)
    allowed = {field: frozenset(values) for field, values in filter.items()}
    complete = min(k, store.count(collection, filter)) if exact and threshold is None else 0
    batch = max(1, min(BATCH, NUMBERS // vectors.shape[1], HITS // k))
    for start in range(0, len(names), batch):
        part = names[start : start + batch]
        answers = store.query(
            collection, vectors[start : start + batch], filter, k, threshold, exact=exact, hnsw_ef=hnsw_ef
        )
        if len(answers) != len(part):
            raise InfrastructureError(
                f"Qdrant answered {len(answers)} of {len(part)} questions in one request; run again, "
                "and check what stands between here and the server"
            )
        _guard_payloads(part, answers, allowed)
        for name, hits in zip(part, answers, strict=True):
            _guard_ranking(name, hits, k, threshold, complete)
        yield part, answers


def _guard_payloads(
    names: Sequence[str], answers: Sequence[Sequence[Hit]], allowed: dict[str, frozenset[str]]
) -> None:
    """Refuse hits that the filter does not allow: the values of all hits at once, then, to name it, one by one."""
    payloads = [hit.payload for hits in answers for hit in hits]
    for field, values in allowed.items():
        try:
            if {payload.get(field) for payload in payloads} <= values:
                continue
        except TypeError:
            pass  # a list or mapping, which no filter allows
        for name, hits in zip(names, answers, strict=True):
            _guard_payload(name, hits, field, values)


def _guard_payload(name: str, hits: Sequence[Hit], field: str, values: frozenset[str]) -> None:
    for hit in hits:
        value = hit.payload.get(field)
        if not isinstance(value, str) or value not in values:
            raise InputError(
                f"case {name}: Qdrant returned {stored_name(hit)} with {field} = {value!r}, which the filter "
                f"does not allow (allowed: {', '.join(sorted(values))}); the collection is not what was indexed: "
                "index it again with recreate"
            )


def _guard_ranking(name: str, hits: Sequence[Hit], k: int, threshold: float | None, complete: int) -> None:
    scores = [hit.score for hit in hits]
    fault = None
    if len(hits) > k:
        fault = f"{len(hits)} hits for K = {k}"
    elif len({hit.id for hit in hits}) < len(hits):
        fault = "a passage twice in one ranking"
    elif not all(map(isfinite, scores)):
        fault = "a score that is not finite"
    elif any(later > score for score, later in pairwise(scores)):
        fault = "scores that are not in descending order"
    elif threshold is not None and scores and np.float32(scores[-1]) <= np.float32(threshold):
        fault = f"a score at or below the threshold {threshold:g}"
    elif len(hits) < complete:
        fault = f"{len(hits)} hits from exact search where {complete} passages can be given"
    if fault:
        raise InfrastructureError(
            f"case {name}: Qdrant answered with {fault}; a score of such an answer would be wrong. Run again; "
            "if it stays, index the collection again with recreate"
        )
