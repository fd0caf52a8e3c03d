"""Where the judged documents stand in rankings that come as dictionaries of scores or as lists of ids.

Turning millions of ids into arrays would cost more than scoring them: the ids stay where they are, each query's
judged documents are looked up in its ranking, and only the scores become an array.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import InputError
from evalkit.ids import DocumentIndex
from evalkit.places import (
    SAMPLE,
    Ints,
    Places,
    Standing,
    Ties,
    count_crossing,
    groups_of,
    order_of,
    refuse_nan,
    refuse_repeated,
)

Judged = Sequence[Mapping[Any, int]]


def in_lists(
    run: Mapping[Any, Sequence[Any]],
    numbers: Mapping[Any, int],
    judged: Judged,
    documents: DocumentIndex,
    ks: Sequence[int],
) -> Standing:
    """Find the places of judged documents in ranked lists.

    Parameters
    ----------
    run
        Query to the ids of its documents, best first.
    numbers
        Number of each scored query.
    judged
        The judgments of each scored query, by its number.
    documents
        The judged documents.
    ks
        Cutoffs K.

    Returns
    -------
    Standing
        What was found; a list has no equal scores.

    Raises
    ------
    InputError
        A document twice in one ranking.
    """
    query: list[int] = []
    document: list[Any] = []
    rank: list[int] = []
    for name, ranking in run.items():
        distinct = set(ranking)
        if len(distinct) != len(ranking):
            refuse_repeated(name, next(one for place, one in enumerate(ranking) if one in ranking[:place]))
        number = numbers.get(name)
        if number is not None and not distinct.isdisjoint(judged[number]):
            held = distinct.intersection(judged[number])
            query += [number] * len(held)
            document += held
            rank += map(ranking.index, held)
    ranks = np.array(rank, np.int64) + 1
    found = _numbers_of(document, documents)
    places = Places(np.array(query, np.int64), found, ranks, ranks, np.ones_like(ranks))
    return _standing(run, _query_numbers(run, numbers), len(numbers), places, np.zeros(len(ks), np.int64))


def in_mappings(
    run: Mapping[Any, Mapping[Any, float]],
    numbers: Mapping[Any, int],
    judged: Judged,
    documents: DocumentIndex,
    ks: Sequence[int],
    ties: Ties,
) -> Standing:
    """Find the places of judged documents in dictionaries of scores.

    Parameters
    ----------
    run
        Query to document to score, in any order.
    numbers, judged, documents, ks
        As for `in_lists`.
    ties
        As for `evalkit.places.in_blocks`.

    Returns
    -------
    Standing
        What was found.

    Raises
    ------
    InputError
        A score that is not a number.
    """
    bounds = np.cumsum([0, *map(len, run.values())])
    scores = _scores(run, bounds)
    if ties == "trec":
        scores = scores.astype(np.float32)
    order, equal_next = order_of(scores, bounds)
    query = _query_numbers(run, numbers)
    owner, document, score = _held(run, query, judged)
    ordered = scores if order is None else scores[order]
    row = _first_not_above(ordered, bounds[owner], bounds[owner + 1], np.array(score, ordered.dtype))
    first, size = groups_of(row, equal_next)
    if (size > 1).any():
        row = row + _places_in_groups(run, order, bounds, ties, owner, document, first, size)
    before = bounds[owner] - 1
    places = Places(query[owner], _numbers_of(document, documents), row - before, first - before, size)
    return _standing(run, query, len(numbers), places, count_crossing(query, bounds, equal_next, ks))


def _scores(run: Mapping[Any, Mapping[Any, float]], bounds: Ints) -> NDArray[np.floating[Any]]:
    listed = chain.from_iterable(map(methodcaller("values"), run.values()))
    try:
        scores = np.fromiter(listed, np.float64, int(bounds[-1]))
    except (TypeError, ValueError):
        raise _not_a_number(run) from None
    refuse_nan(scores, bounds, list(run))
    return scores


def _not_a_number(run: Mapping[Any, Mapping[Any, float]]) -> InputError:
    for query, ranking in run.items():
        for document, score in ranking.items():
            try:
                float(score)
            except (TypeError, ValueError):
                return InputError(
                    f"query {query!r}: the score of document {document!r} is {score!r}, not a number"
                )
    return InputError("a ranking holds scores that are not numbers")


def _held(
    run: Mapping[Any, Mapping[Any, float]], query: Ints, judged: Judged
) -> tuple[Ints, list[Any], list[float]]:
    owner: list[int] = []
    document: list[Any] = []
    score: list[float] = []
    for place, (number, ranking) in enumerate(zip(query.tolist(), run.values(), strict=True)):
        if number >= 0:
            held = judged[number].keys() & ranking.keys()
            owner += [place] * len(held)
            document += held
            score += map(ranking.__getitem__, held)
    return np.array(owner, np.int64), document, score


def _first_not_above(ordered: NDArray[np.floating[Any]], low: Ints, high: Ints, wanted: NDArray[Any]) -> Ints:
    """Find the first row in each ``[low, high)`` with a score of at most the wanted one, by halving."""
    while (low < high).any():
        middle = (low + high) // 2
        above = ordered[np.minimum(middle, len(ordered) - 1)] > wanted
        searching = low < high
        low = np.where(searching & above, middle + 1, low)
        high = np.where(searching & ~above, middle, high)
    return low


def _places_in_groups(
    run: Mapping[Any, Mapping[Any, float]],
    order: Ints | None,
    bounds: Ints,
    ties: Ties,
    owner: Ints,
    document: list[Any],
    first: Ints,
    size: Ints,
) -> Ints:
    """Tell how many documents of the same score stand before each document."""
    rankings = list(run.values())
    offset = np.zeros(len(owner), np.int64)
    places: dict[int, dict[Any, int]] = {}
    listed: dict[int, list[Any]] = {}
    for i in np.flatnonzero(size > 1).tolist():
        start, place = int(first[i]), int(owner[i])
        if start not in places:
            if place not in listed:
                listed[place] = list(rankings[place])
            rows = np.arange(start, start + size[i]) if order is None else order[start : start + size[i]]
            members = [listed[place][row] for row in (rows - bounds[place]).tolist()]
            if ties == "trec":
                members.sort(key=str, reverse=True)
            places[start] = dict(zip(members, range(len(members)), strict=True))
        offset[i] = places[start][document[i]]
    return offset


def _query_numbers(run: Mapping[Any, Any], numbers: Mapping[Any, int]) -> Ints:
    return np.fromiter((numbers.get(name, -1) for name in run), np.int64, len(run))


def _numbers_of(document: list[Any], documents: DocumentIndex) -> Ints:
    return np.fromiter(map(documents.number.__getitem__, document), np.int64, len(document))


def _standing(
    run: Mapping[Any, Any], query: Ints, n_queries: int, places: Places, crossing: Ints
) -> Standing:
    scored = query >= 0
    depth = np.full(n_queries, -1, np.int64)
    depth[query[scored]] = np.fromiter(map(len, run.values()), np.int64, len(run))[scored]
    unscored = (
        [name for name, kept in zip(run, scored.tolist(), strict=True) if not kept]
        if not scored.all()
        else []
    )

    def sample() -> list[Any]:
        return list(islice(chain.from_iterable(run.values()), SAMPLE))

    return Standing(places, depth, crossing, unscored, sample)
