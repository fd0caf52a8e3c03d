"""Where the judged documents stand in rankings that come as blocks of columns.

What is not judged is checked (scores that are no numbers, repeated documents) and otherwise left alone.
`evalkit.mappings` finds the same in dictionaries and lists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from evalkit.blocks import Block
from evalkit.errors import InputError
from evalkit.ids import DocumentIndex, fingerprints, values, values_at

Ties = Literal["given", "trec"]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SAMPLE = 20_000  # ids kept to find out why nothing joins
_SALT = np.uint64(0xC2B2AE3D27D4EB4F)


class Places(NamedTuple):
    """Places of rankings where a judged document stands; int64 arrays of shape (n,).

    Attributes
    ----------
    query, document
        Numbers of the query and of the document.
    rank
        From 1.
    first, size
        Rank of the first document of the same score, and how many documents have this score.
    """

    query: Ints
    document: Ints
    rank: Ints
    first: Ints
    size: Ints


class Standing(NamedTuple):
    """What was found in the rankings of a run.

    Attributes
    ----------
    places
        Those of scored queries.
    depth
        Shape (n_queries,): length of the ranking of each scored query, -1 where there is none.
    crossing
        Shape (number of K,): scored queries in which a group of equal scores lies on both sides of K.
    unscored
        Queries that have a ranking and are not among the scored ones.
    sample
        Gives some of the document ids that stand in rankings.
    """

    places: Places
    depth: Ints
    crossing: Ints
    unscored: list[Any]
    sample: Callable[[], list[Any]]


def in_blocks(
    blocks: Iterable[Block],
    numbers: Mapping[Any, int],
    documents: DocumentIndex,
    ks: Sequence[int],
    ties: Ties,
) -> Standing:
    """Find the places of judged documents.

    Parameters
    ----------
    blocks
        Rankings; the rows of a query in any order, scores decide.
    numbers
        Number of each scored query.
    documents
        The judged documents.
    ks
        Cutoffs K.
    ties
        ``given``: equal scores keep their order; ``trec``: scores are compared as float32 and equal ones stand in
        descending order of their ids, as in trec_eval.

    Returns
    -------
    Standing
        What was found.

    Raises
    ------
    InputError
        A score that is not a number, or a document twice in one ranking.
    """
    depth = np.full(len(numbers), -1, np.int64)
    crossing = np.zeros(len(ks), np.int64)
    places: list[Places] = []
    unscored: list[Any] = []
    sample: list[Any] = []
    for block in blocks:
        query = np.array([numbers.get(name, -1) for name in block.queries], np.int64)
        depth[query[query >= 0]] = np.diff(block.bounds)[query >= 0]
        unscored += [block.queries[place] for place in np.flatnonzero(query < 0).tolist()]
        if sum(map(len, sample)) < SAMPLE:
            sample.append(block.documents[:SAMPLE])
        refuse_nan(block.scores, block.bounds, block.queries)
        prints = fingerprints(block.documents)
        _refuse_repeated(block, prints)
        rows, document = documents.find(block.documents, prints)
        row_of, equal_next = _sorted_rows(block, ties)
        crossing += count_crossing(query, block.bounds, equal_next, ks)
        places.append(_places(rows, row_of[rows], document, query, block.bounds, equal_next))
    return Standing(_joined(places), depth, crossing, unscored, lambda: list(chain(*map(values, sample))))


def refuse_nan(scores: NDArray[np.floating[Any]], bounds: Ints, queries: Sequence[Any]) -> None:
    """Raise InputError, with the query's name, for a score that is not a number."""
    wrong = np.isnan(scores)
    if wrong.any():
        row = int(np.argmax(wrong))
        place = int(np.searchsorted(bounds, row, side="right")) - 1
        raise InputError(
            f"query {queries[place]!r}: the score at place {row - int(bounds[place]) + 1} of its ranking is not a "
            "number (NaN); a ranking can only be scored when every score is a number"
        )


def refuse_repeated(query: object, document: object) -> NoReturn:
    """Raise InputError for a document that stands twice in one ranking."""
    raise InputError(
        f"query {query!r}: document {document!r} stands twice in its ranking; "
        "keep its best place and drop the others before scoring"
    )


def order_of(scores: NDArray[np.floating[Any]], bounds: Ints) -> tuple[Ints | None, Bools]:
    """Bring rankings into descending order of their scores; the usual case, that they are, is only verified.

    Parameters
    ----------
    scores, bounds
        As in `evalkit.blocks.Block`; some rankings may be empty.

    Returns
    -------
    order
        int64, shape (n,): row of the input at each place of the result; None when nothing has to move.
    equal_next
        bool, shape (n,): the place has the score of the next one of the same ranking.
    """
    ends = bounds[1:-1] - 1
    ends = ends[(ends >= 0) & (ends < len(scores) - 1)]
    rises = scores[1:] > scores[:-1]
    rises[ends] = False
    order = None
    if rises.any():
        order = np.lexsort((-scores, np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))))
        scores = scores[order]
    equal_next = np.append(scores[1:] == scores[:-1], False)[: len(scores)]
    equal_next[ends] = False
    return order, equal_next


def count_crossing(query: Ints, bounds: Ints, equal_next: Bools, ks: Sequence[int]) -> Ints:
    """Count the scored queries in which equal scores stand at K and K + 1, for each K."""
    lengths = np.diff(bounds)
    starts = [bounds[:-1][(lengths > k) & (query >= 0)] for k in ks]
    return np.array(
        [np.count_nonzero(equal_next[start + k - 1]) for start, k in zip(starts, ks, strict=True)]
    )


def groups_of(rows: Ints, equal_next: Bools) -> tuple[Ints, Ints]:
    """Give the first row and the size of the group of equal scores in which each row lies."""
    if not equal_next.any():
        return rows, np.ones_like(rows)
    opens = np.flatnonzero(~np.append(False, equal_next[:-1]))
    group = np.searchsorted(opens, rows, side="right") - 1
    return opens[group], np.diff(np.append(opens, len(equal_next)))[group]


def _refuse_repeated(block: Block, prints: NDArray[np.uint64]) -> None:
    lengths = np.diff(block.bounds)
    mixed = prints + np.repeat(np.arange(len(lengths), dtype=np.uint64) * _SALT, lengths)
    ordered = np.sort(mixed)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return
    rows = np.flatnonzero(np.isin(mixed, twice))
    owner = np.searchsorted(block.bounds, rows, side="right") - 1
    seen: set[tuple[int, Any]] = set()
    for pair in zip(owner.tolist(), values_at(block.documents, rows), strict=True):
        if pair in seen:
            refuse_repeated(block.queries[pair[0]], pair[1])
        seen.add(pair)


def _sorted_rows(block: Block, ties: Ties) -> tuple[Ints, Bools]:
    """Tell to which row each row goes when the rankings are sorted, and which then equal their next."""
    scores = block.scores.astype(np.float32) if ties == "trec" else block.scores
    order, equal_next = order_of(scores, block.bounds)
    if ties == "trec" and equal_next.any():
        order = _by_id_descending(block, np.arange(len(scores)) if order is None else order, equal_next)
    row_of = np.arange(len(scores))
    if order is not None:
        row_of[order] = np.arange(len(scores))
    return row_of, equal_next


def _by_id_descending(block: Block, order: Ints, equal_next: Bools) -> Ints:
    tied = equal_next.copy()
    tied[1:] |= equal_next[:-1]
    rows = np.flatnonzero(tied)
    first, _ = groups_of(rows, equal_next)
    text = [str(document) for document in values_at(block.documents, order[rows])]
    place = np.empty(len(rows), np.int64)
    place[sorted(range(len(rows)), key=text.__getitem__)] = np.arange(len(rows))
    order = order.copy()
    order[rows] = order[rows[np.lexsort((-place, first))]]
    return order


def _places(
    rows: Ints, sorted_rows: Ints, document: Ints, query: Ints, bounds: Ints, equal_next: Bools
) -> Places:
    owner = np.searchsorted(bounds, rows, side="right") - 1
    scored = query[owner] >= 0
    owner, sorted_rows = owner[scored], sorted_rows[scored]
    first, size = groups_of(sorted_rows, equal_next)
    before = bounds[owner] - 1
    return Places(query[owner], document[scored], sorted_rows - before, first - before, size)


def _joined(places: list[Places]) -> Places:
    empty = Places(*np.zeros((5, 0), np.int64))
    return Places(*(np.concatenate(parts) for parts in zip(empty, *places, strict=True)))
