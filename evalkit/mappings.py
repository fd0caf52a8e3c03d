"""Where the judged documents stand in rankings that come as dictionaries of scores or as lists of ids.

Turning millions of ids into arrays would cost more than scoring them: the ids stay where they are, each query's
judged documents are looked up in its ranking, and only the scores become an array.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, count, islice, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import InputError
from evalkit.judged import Judged
from evalkit.places import (
    SAMPLE,
    Bools,
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

FEW = 8
Ranking = Mapping[Any, float]
Scores = NDArray[np.floating[Any]]


def in_lists(run: Mapping[Any, Sequence[Any]], judged: Judged) -> Standing:
    """Find the places of judged documents in ranked lists.

    Parameters
    ----------
    run
        Query to the ids of its documents, best first.
    judged
        The judgments.

    Returns
    -------
    Standing
        What was found; a list has no equal scores.

    Raises
    ------
    InputError
        A document twice in one ranking.
    """
    query = _numbers(run, judged)
    numbers = query.tolist()
    # A query that is not scored has number -1: it finds the last entry, no judgments.
    held = map([*judged.by_query, {}].__getitem__, numbers)
    number_of = judged.documents.number
    places: list[int] = []
    for number, ranking, grades in zip(numbers, run.values(), held, strict=True):
        distinct = set(ranking)
        if len(distinct) != len(ranking):
            _refuse_first_repeated(run)
        # A search from the top is fastest for a few documents, a dictionary of all places for many.
        place_of = (
            ranking.index if len(grades) < FEW else dict(zip(ranking, count(), strict=False)).__getitem__
        )
        for document in grades:
            if document in distinct:
                places += (number, number_of[document], place_of(document) + 1)
    query_of, document_of, rank = np.array(places, np.int64).reshape(-1, 3).T
    where = Places(query_of, document_of, rank, rank, np.ones_like(rank))
    return _standing(run, query, judged, where, np.zeros(len(judged.core.ks), np.int64))


def _refuse_first_repeated(run: Mapping[Any, Sequence[Any]]) -> None:
    for query, ranking in run.items():
        seen: set[Any] = set()
        for document in ranking:
            if document in seen:
                refuse_repeated(query, document)
            seen.add(document)


def in_mappings(run: Mapping[Any, Ranking], judged: Judged, ties: Ties) -> Standing:
    """Find the places of judged documents in dictionaries of scores.

    Parameters
    ----------
    run
        Query to document to score, in any order.
    judged
        The judgments.
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
    ordered = scores if order is None else scores[order]
    query = _numbers(run, judged)
    owner, judgment, score = _held(run, query, judged, scores.dtype)
    row, within = _rows(ordered, bounds, owner, score, min(max(judged.core.ks), len(ordered)))
    first, size = groups_of(row, equal_next)
    first, size = np.where(within, first, row), np.where(within, size, 1)
    if (size > 1).any():
        row = row + _places_in_groups(run, order, bounds, ties, owner, judgment, first, size, judged)
    before = bounds[owner] - 1
    places = Places(query[owner], judged.document[judgment], row - before, first - before, size)
    return _standing(run, query, judged, places, count_crossing(query, bounds, equal_next, judged.core.ks))


def _scores(run: Mapping[Any, Ranking], bounds: Ints) -> Scores:
    listed = chain.from_iterable([ranking.values() for ranking in run.values()])
    try:
        scores = np.fromiter(listed, np.float64, int(bounds[-1]))
    except (TypeError, ValueError):
        raise _not_a_number(run) from None
    refuse_nan(scores, bounds, list(run))
    return scores


def _not_a_number(run: Mapping[Any, Ranking]) -> InputError:
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
    run: Mapping[Any, Ranking], query: Ints, judged: Judged, kind: np.dtype[Any]
) -> tuple[Ints, Ints, Scores]:
    """Give the judgments whose document the ranking holds: place of the ranking, of the judgment, and the score."""
    missing = repeat(float("nan"))
    scores: list[float] = []
    for number, ranking in zip(query.tolist(), run.values(), strict=True):
        if number >= 0:
            scores += map(ranking.get, judged.by_query[number], missing)
    ranked = np.flatnonzero(query >= 0)
    counts = judged.counts[query[ranked]]
    begins = np.cumsum(judged.counts) - judged.counts
    shift = begins[query[ranked]] - (np.cumsum(counts) - counts)
    judgment = np.arange(len(scores)) + np.repeat(shift, counts)
    found = np.array(scores, kind)
    held = ~np.isnan(found)
    return np.repeat(ranked, counts)[held], judgment[held], found[held]


def _rows(ordered: Scores, bounds: Ints, owner: Ints, score: Scores, deepest: int) -> tuple[Ints, Bools]:
    """Find the first row of the same score; below the deepest K, and so marked, the last row stands for any."""
    low, last = bounds[owner], bounds[owner + 1] - 1
    border = np.minimum(low + deepest, last)
    within = score >= ordered[border] if len(border) else np.zeros(0, np.bool_)
    row = last.copy()
    row[within] = _first_not_above(ordered, low[within], border[within], score[within])
    return row, within


def _first_not_above(ordered: Scores, low: Ints, high: Ints, wanted: Scores) -> Ints:
    """Find the first row in each ``[low, high]`` with a score of at most the wanted one, by halving."""
    while (low < high).any():
        middle = (low + high) // 2
        above = ordered[middle] > wanted
        low = np.where(above, middle + 1, low)
        high = np.where(above, high, middle)
    return low


def _places_in_groups(
    run: Mapping[Any, Ranking],
    order: Ints | None,
    bounds: Ints,
    ties: Ties,
    owner: Ints,
    judgment: Ints,
    first: Ints,
    size: Ints,
    judged: Judged,
) -> Ints:
    """Tell how many documents of the same score stand before each document."""
    rankings = list(run.values())
    documents = list(chain.from_iterable(judged.by_query))
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
        offset[i] = places[start][documents[judgment[i]]]
    return offset


def _numbers(run: Mapping[Any, Any], judged: Judged) -> Ints:
    return np.fromiter(map(judged.numbers.get, run, repeat(-1)), np.int64, len(run))


def _standing(
    run: Mapping[Any, Any], query: Ints, judged: Judged, places: Places, crossing: Ints
) -> Standing:
    scored = query >= 0
    depth = np.full(len(judged.numbers), -1, np.int64)
    depth[query[scored]] = np.fromiter(map(len, run.values()), np.int64, len(run))[scored]
    unscored = (
        [name for name, kept in zip(run, scored.tolist(), strict=True) if not kept]
        if not scored.all()
        else []
    )

    def sample() -> list[Any]:
        return list(islice(chain.from_iterable(run.values()), SAMPLE))

    return Standing(places, depth, crossing, unscored, sample)
