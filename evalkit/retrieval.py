"""Every question at every K against one collection: rankings as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from evalkit.checks import above, missing_hits
from evalkit.chunking import Chunk
from evalkit.contents import payload_of
from evalkit.embedding import Vectors
from evalkit.errors import SHOWN, InfrastructureError, InputError, bullets, counted, some
from evalkit.indexing import OpenedCollection
from evalkit.points import Filter, Hit, Store, stored_name
from evalkit.querying import retrieve_batches
from evalkit.review import Labelled
from evalkit.settings import EvaluateSettings
from evalkit.tables import ranking_table


@dataclass(frozen=True)
class Retrieved:
    """Rankings of all questions, columns as of `tables.ranking_table`.

    Attributes
    ----------
    rankings
        With ``k``: each K asked for by itself.
    deep
        One deeper ranking a question, without a threshold.
    exact
        Of exact search, down to the largest K; asked for anew only where the others are not exact.
    approximate
        Whether an approximate index was searched.
    """

    rankings: pd.DataFrame
    deep: pd.DataFrame
    exact: pd.DataFrame
    approximate: bool


def search_filter(subject: Labelled) -> Filter:
    """Give the filter of every search: the chunking version and what the data set calls eligible."""
    return {"chunking_version": (subject.chunking,), **subject.dataset.eligibility}


def diagnostic_depth(settings: EvaluateSettings) -> int:
    """Give the depth of the diagnostic ranking: one rank beyond the largest K shows whether equal scores cross it."""
    return max(settings.depth, settings.ks[-1] + 1)


def retrieve_rankings(
    store: Store,
    opened: OpenedCollection,
    subject: Labelled,
    names: Sequence[str],
    vectors: Vectors,
    settings: EvaluateSettings,
) -> Retrieved:
    """Ask every question at every K, and once more deeper, for diagnosis.

    Parameters
    ----------
    store, opened
        What is searched; it was verified to hold the chunks of `subject`.
    names, vectors
        Questions, at least one: ids, and unit vectors of shape (n, dimension).
    settings
        Cutoffs, threshold, depth and search parameters.

    Raises
    ------
    InputError
        As `querying.retrieve`, and for a hit that is not the point of a chunk, its payload included.
    InfrastructureError
        As `querying.retrieve`, and where an exact search with a threshold left out what it gave without one.
    """
    allowed = search_filter(subject)

    def ask(k: int, threshold: float | None, exact: bool) -> Iterator[pd.DataFrame]:
        ef = None if exact else settings.hnsw_ef
        answers = retrieve_batches(
            store, opened.collection, names, vectors, allowed, k, threshold=threshold, exact=exact, hnsw_ef=ef
        )
        # Laid out request by request: hits with their payloads take many times the room of the table.
        for part, hits in answers:
            _refuse_changed(part, hits, opened.points)
            yield ranking_table(part, hits)

    ks, threshold = settings.ks, settings.threshold
    approximate = not (settings.exact or store.is_exact(opened.collection))
    # Without an approximate index every search is exact, and asked for as such: a missing hit is then a fault.
    asked = (part.assign(k=k) for k in ks for part in ask(k, threshold, not approximate))
    rankings = pd.concat(asked, ignore_index=True)
    deep = pd.concat(ask(diagnostic_depth(settings), None, not approximate), ignore_index=True)
    exact = pd.concat(ask(ks[-1], threshold, True)) if approximate else above(deep, threshold)
    exact = exact[exact["rank"] <= ks[-1]]
    if not approximate and (short := missing_hits(rankings, exact, ks)):
        raise InfrastructureError(
            f"Qdrant left out hits above the threshold {threshold} that it gave without one, for {some(short)}; "
            "a score of such an answer would be wrong. Run again; if it stays, index the collection again with "
            "recreate"
        )
    return Retrieved(rankings, deep, exact, approximate)


def _refuse_changed(
    names: Sequence[str], rankings: Sequence[Sequence[Hit]], points: Mapping[str, Chunk]
) -> None:
    """Refuse hits that are not the point of a chunk: tables hold the texts of the corpus, as verified before."""
    changed = [
        f"case {name}: {stored_name(hit)}"
        for name, hits in zip(names, rankings, strict=True)
        for hit in hits
        if (chunk := points.get(hit.id)) is None or hit.payload != payload_of(chunk)
    ]
    if changed:
        raise InputError(
            f"{counted(len(changed), 'hit')} with another payload or id than was indexed and verified:"
            f"{bullets(changed, SHOWN)}\nthe collection was changed meanwhile; index it again with recreate"
        )
