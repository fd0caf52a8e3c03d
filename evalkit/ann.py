"""Approximate search against exact search: what a wider beam finds, and what it takes in time."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evalkit.checks import compare_with_exact
from evalkit.embedders import embed_cached, open_embedder
from evalkit.embedding import Vectors, query_prompt
from evalkit.errors import refuse
from evalkit.evidence import cover
from evalkit.indexing import open_for_evaluation
from evalkit.labels import Labels
from evalkit.points import Filter, Store
from evalkit.querying import retrieve
from evalkit.retrieval import search_filter
from evalkit.review import load_labelled
from evalkit.scoring import score_rankings
from evalkit.settings import EvaluateSettings
from evalkit.stores import open_store
from evalkit.tables import ranking_table
from evalkit.transport import Deadline
from evalkit.vectors import VectorCache

PERCENTILES = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99}
COLUMNS = "hnsw_ef recall_exact identical recall coverage p50_ms p90_ms p99_ms batch_ms n requests".split()


@dataclass(frozen=True)
class Sweep:
    """What a sweep measured.

    Attributes
    ----------
    table
        A row for exact search (``hnsw_ef`` null) and one for each beam width, in ascending order:

        ``hnsw_ef`` (Int64); ``recall_exact``, mean share in [0, 1] of the exact first K that came back, a chunk as
        good as the last of them counting too; ``identical``, questions with the same ranking up to equal scores;
        ``recall`` and ``coverage``, means against the labels, NaN without labels; ``p50_ms, p90_ms, p99_ms``,
        milliseconds of a request with one question; ``batch_ms``, milliseconds a question in requests of up to 500;
        ``n`` questions; ``requests`` with one question that were timed.
    k
        Hits a question.
    approximate
        False where the collection has no approximate index, so that every search is exact.
    points, collection, store, store_version
        What was searched.
    """

    table: pd.DataFrame
    k: int
    approximate: bool
    points: int
    collection: str
    store: str
    store_version: str


def sweep(
    settings: EvaluateSettings,
    efs: Sequence[int],
    repeats: int = 3,
    progress: Callable[[str], None] = lambda _: None,
) -> Sweep:
    """Ask every question of a data set with several beam widths, and exactly. Writes nothing but new query vectors.

    Parameters
    ----------
    settings
        Data set, model and collection; hits a question are the largest of ``ks``. A threshold, ``exact`` and
        ``hnsw_ef`` are not looked at.
    efs
        Beam widths ``hnsw_ef``, each at least 1, ascending.
    repeats
        Requests with one question that are timed for each question and beam width.
    progress
        Called with what is done as it begins.

    Returns
    -------
    Sweep
        With recall against the labels too.

    Raises
    ------
    InputError
        Beam widths or repeats that cannot be, and all that `evaluation.evaluate` refuses.
    InfrastructureError
        As `evaluation.evaluate`.
    """
    _refuse_unfit(efs, repeats)
    deadline = Deadline(settings.deadline)
    progress("labels")
    subject = load_labelled(settings.dataset, settings.chunking)
    questions = {one.id: one.question for one in (*subject.dataset.cases, *subject.dataset.unsupported)}
    with open_embedder(settings, deadline) as embedder, VectorCache() as cache, open_store(deadline) as store:
        progress("verification")
        opened = open_for_evaluation(store, settings, subject.dataset, subject.chunks, embedder, cache)
        progress("embedding")
        profile = embedder.identity.profile
        prompts = [query_prompt(profile, name, question) for name, question in questions.items()]
        vectors, _ = embed_cached(embedder, cache, prompts)
        return sweep_collection(
            store,
            opened.collection,
            list(questions),
            vectors,
            search_filter(subject),
            settings.ks[-1],
            efs,
            repeats,
            subject.labels,
            progress,
        )


def sweep_collection(
    store: Store,
    collection: str,
    names: Sequence[str],
    vectors: Vectors,
    filter: Filter,
    k: int,
    efs: Sequence[int],
    repeats: int = 3,
    labels: Labels | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Sweep:
    """Ask questions of one collection with several beam widths, and exactly.

    The widths take turns within each repeat, so that a busy moment of the machine falls on all of them. Every width
    is asked in batches first, which are checked as in an evaluation and warm the engine up; then one by one.

    Parameters
    ----------
    store, collection, filter
        What is searched.
    names, vectors
        Questions: ids, and unit vectors of shape (n, dimension).
    k
        Hits a question.
    efs, repeats, progress
        As for `sweep`.
    labels
        For recall and coverage against the labels; None leaves them out.

    Returns
    -------
    Sweep
        No questions give a table of NaN.

    Raises
    ------
    InputError, InfrastructureError
        As `querying.retrieve`, and for beam widths or repeats that cannot be.
    """
    _refuse_unfit(efs, repeats)
    widths: list[int | None] = [None, *efs]
    rankings: dict[int | None, pd.DataFrame] = {}
    batched: dict[int | None, list[float]] = defaultdict(list)
    single: dict[int | None, list[float]] = defaultdict(list)
    for turn in range(repeats):
        for ef in widths:
            progress(f"turn {turn + 1} of {repeats}, {'exact' if ef is None else f'hnsw_ef {ef}'}")
            start = time.perf_counter()
            found = retrieve(store, collection, names, vectors, filter, k, exact=ef is None, hnsw_ef=ef)
            batched[ef].append(time.perf_counter() - start)
            rankings.setdefault(ef, ranking_table(names, found))
            for place in range(len(names)):
                start = time.perf_counter()
                store.query(collection, vectors[place : place + 1], filter, k, exact=ef is None, hnsw_ef=ef)
                single[ef].append(time.perf_counter() - start)
    rows = [
        {
            "hnsw_ef": ef,
            **_against_exact(rankings[ef], rankings[None]),
            **_against_labels(rankings[ef], labels, k),
            **_latencies(single[ef], batched[ef], len(names)),
        }
        for ef in widths
    ]
    table = pd.DataFrame(rows).astype({"hnsw_ef": "Int64", "n": "int64", "requests": "int64"})[COLUMNS]
    return Sweep(
        table,
        k,
        not store.is_exact(collection),
        store.count(collection, filter),
        collection,
        store.kind,
        store.version,
    )


def _refuse_unfit(efs: Sequence[int], repeats: int) -> None:
    faults = []
    if not efs or min(efs) < 1 or list(efs) != sorted(set(efs)):
        faults.append(
            f"efs: want beam widths of at least 1 in ascending order, such as [8, 32, 128], found {efs}"
        )
    if repeats < 1:
        faults.append(f"repeats: want at least 1, found {repeats}")
    if faults:
        refuse("sweep over hnsw_ef", faults)


def _against_exact(found: pd.DataFrame, exact: pd.DataFrame) -> dict[str, float | None]:
    compared = compare_with_exact(found, exact)
    return {"recall_exact": compared["recall"], "identical": compared["identical"]}


def _against_labels(found: pd.DataFrame, labels: Labels | None, k: int) -> dict[str, float]:
    if labels is None or labels.judgments.empty:
        return {"recall": np.nan, "coverage": np.nan}
    at_k = found.assign(k=k)
    recall = score_rankings(at_k, labels.judgments, (k,))["recall"]
    return {"recall": recall.mean(), "coverage": cover(at_k, labels, (k,))["coverage"].mean()}


def _latencies(single: list[float], batched: list[float], n: int) -> dict[str, float]:
    """Milliseconds: percentiles of single requests, and the median turn of batches a question."""
    if not n:
        return {**dict.fromkeys(PERCENTILES, np.nan), "batch_ms": np.nan, "n": 0, "requests": 0}
    found = np.percentile(np.asarray(single) * 1000, list(PERCENTILES.values()))
    return {
        **dict(zip(PERCENTILES, found.tolist(), strict=True)),
        "batch_ms": float(np.median(batched)) * 1000 / n,
        "n": n,
        "requests": len(single),
    }
