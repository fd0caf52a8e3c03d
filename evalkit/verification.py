"""Provenance: what can still be shown about a run or a collection, and what cannot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evalkit.contents import (
    REEMBEDDED_TOLERANCE,
    VECTOR_TOLERANCE,
    by_point_id,
    corpus_hash,
    point_id,
    spread,
    verify_collection,
)
from evalkit.embedders import open_embedder
from evalkit.embedding import Embedder, Prompt, Vectors, document_prompt, query_prompt
from evalkit.errors import InputError, some
from evalkit.evaluation import dataset_record
from evalkit.points import Store
from evalkit.review import Labelled, load_labelled
from evalkit.runs import TABLES, Run, changed_tables
from evalkit.settings import EmbeddingSettings
from evalkit.stores import open_store
from evalkit.tables import make_tables

Verdict = Literal["shown", "differs", "cannot be shown"]
_FOLLOW = "scores follow from the rankings and labels"
_COSINES = "recorded scores are the cosines of question and passage"
_HIT = ("case_id", "document_id", "chunk_id", "score")
SCORE_TOLERANCE = 1e-4
"""How far a recorded score may be from the cosine of the two vectors computed again."""


@dataclass(frozen=True)
class Finding:
    """One claim about a run or a collection and what became of it."""

    claim: str
    verdict: Verdict
    detail: str


def verify_run(run: Run, sample: int | None = 64) -> tuple[Finding, ...]:
    """Compare a run with the data set, the collection and the model as they are now. Changes nothing.

    Parameters
    ----------
    run
        A finished run.
    sample
        Stored vectors to embed again and compare; None for all.

    Returns
    -------
    tuple of Finding
        Tables of the run by their hashes, data set by its three, scores computed again from the rankings, collection,
        vectors, model. What rests on tables that changed is not computed.

    Raises
    ------
    InputError
        The data set cannot be read, or its labels have faults now.
    InfrastructureError
        Qdrant or the embedder failed.
    """
    parameters = run.record.parameters
    subject = load_labelled(parameters["dataset"], run.record.chunking)
    tables = _same_tables(run)
    whole = tables.verdict != "differs"
    findings = [tables, *_same_dataset(run, subject)]
    findings.append(_same_scores(run, subject) if whole else _unshown(_FOLLOW))
    settings = EmbeddingSettings.checked(
        **{name: parameters[name] for name in EmbeddingSettings.model_fields if name in parameters}
    )
    if run.record.store.kind not in ("embedded", "server"):
        detail = "the rankings were read from a file; which engine and model made them is not known here"
        return (*findings, Finding("collection and vectors", "cannot be shown", detail))
    with open_embedder(settings) as embedder, open_store() as store:
        findings.append(_same_digest(run.record.model.digest, embedder))
        findings += _collection(store, run.record.store.collection, subject, embedder, sample)
        findings.append(_same_ranking_scores(run, store, subject, embedder) if whole else _unshown(_COSINES))
    return (*findings, *_limits(embedder))


def verify_stored(
    collection: str,
    dataset: str,
    settings: EmbeddingSettings,
    chunking: str | None = None,
    sample: int | None = 64,
) -> tuple[Finding, ...]:
    """Compare a collection with a data set and with vectors embedded again. Changes nothing.

    Parameters
    ----------
    collection
        Its name.
    dataset
        Name under ``data/`` or path of a folder: what the collection should hold.
    settings
        Which model embeds the sample again.
    chunking
        Chunking version; None takes the data set's own.
    sample
        Stored vectors to embed again and compare; None for all.

    Returns
    -------
    tuple of Finding
        State, corpus, points, payloads, vectors, model.

    Raises
    ------
    InputError
        Faulty data set or labels, no such collection.
    InfrastructureError
        Qdrant or the embedder failed.
    """
    subject = load_labelled(dataset, chunking)
    labels = Finding("labels", "shown", f"they fit the corpus of data set {subject.dataset.name}")
    with open_embedder(settings) as embedder, open_store() as store:
        if not store.exists(collection):
            known = ", ".join(store.collections()) or "none"
            raise InputError(f"no collection {collection!r} on the {store.kind} engine; there are: {known}")
        findings = tuple(_collection(store, collection, subject, embedder, sample))
    return (labels, *findings, *_limits(embedder))


def _finding(claim: str, good: bool, detail: str) -> Finding:
    return Finding(claim, "shown" if good else "differs", detail)


def _unshown(claim: str) -> Finding:
    return Finding(claim, "cannot be shown", "the tables are not those that were stored")


def _same_tables(run: Run) -> Finding:
    claim = "tables of the run are those that were stored with it"
    if run.record.tables_sha256 is None:
        return Finding(claim, "cannot be shown", "the run is older than the hashes of tables in run.json")
    changed = changed_tables(run)
    return _finding(claim, not changed, "; ".join(changed) or f"{len(TABLES)} files with equal SHA-256")


def _same_dataset(run: Run, subject: Labelled) -> Iterator[Finding]:
    then, now = run.record.dataset, dataset_record(subject.dataset)
    for part in ("corpus", "cases", "labels"):
        old, new = getattr(then, f"{part}_sha256"), getattr(now, f"{part}_sha256")
        detail = f"SHA-256 {old[:12]} when the run was made, {new[:12]} now"
        yield _finding(f"{part} of data set {now.name}", old == new, detail)


def _same_scores(run: Run, subject: Labelled) -> Finding:
    claim = _FOLLOW
    places = ["case_id", "document_id", "chunk_id"]
    if not run.deep["case_id"].isin({one.id for one in subject.dataset.questions}).all():
        return Finding(claim, "differs", "the run holds questions that the data set has no more")
    try:
        again = make_tables(
            subject.dataset, subject.chunks, subject.labels, run.rankings, run.deep, run.record.search.ks
        ).scores
    except InputError as error:
        return Finding(claim, "differs", _first_line(error))
    keys = [*places[:1], "k"]
    both = run.scores.merge(again, on=keys, how="outer", suffixes=("", "_again"), indicator=True)
    names = [name for name in run.scores.select_dtypes("float64").columns if f"{name}_again" in both]
    same = [
        (both[name] == both[f"{name}_again"]) | (both[name].isna() & both[f"{name}_again"].isna())
        for name in names
    ]
    good = np.all(same, axis=0) & (both["_merge"] == "both").to_numpy()
    return _finding(
        claim, bool(good.all()), f"{int(good.sum())} of {len(both)} rows are equal when computed again"
    )


def _same_digest(recorded: str, embedder: Embedder) -> Finding:
    now = embedder.identity.digest
    return _finding("model digest of the run", recorded == now, f"{recorded} then, {now} now")


def _collection(
    store: Store, collection: str, subject: Labelled, embedder: Embedder, sample: int | None
) -> Iterator[Finding]:
    if not store.exists(collection):
        yield Finding(
            f"collection {collection}", "cannot be shown", f"it is not on this {store.kind} engine any more"
        )
        return
    state = store.read_state(collection)
    if state is None:
        yield Finding(f"collection {collection}", "differs", "it carries no state, so something else made it")
        return
    yield _finding("indexing finished", state.state == "complete", f"the collection says {state.state}")
    hashes = (state.fingerprint.corpus, corpus_hash(subject.chunks))
    yield _finding(
        "collection was made from this corpus", hashes[0] == hashes[1], f"{hashes[0][:12]}, {hashes[1][:12]}"
    )
    identity = embedder.identity
    yield _finding(
        "collection was embedded by this model and profile",
        (state.fingerprint.digest, state.fingerprint.profile) == (identity.digest, identity.profile),
        f"{state.fingerprint.digest} {state.fingerprint.profile} indexed, {identity.digest} {identity.profile} now",
    )
    chosen = list(subject.chunks) if sample is None else spread(subject.chunks, sample)
    try:
        vectors = _embedded(embedder, [document_prompt(identity.profile, chunk) for chunk in chosen])
    except InputError as error:  # such as a changed text, of which there is no recorded vector
        yield Finding("stored vectors are those of the model", "cannot be shown", _first_line(error))
        vectors, chosen = np.empty((0, 0), np.float32), []
    expected = {point_id(chunk.key): vector for chunk, vector in zip(chosen, vectors, strict=True)}
    tolerance = REEMBEDDED_TOLERANCE if embedder.live else VECTOR_TOLERANCE
    result = verify_collection(store, collection, by_point_id(subject.chunks), expected, tolerance)
    counts = ", ".join(f"{number} {name}" for name, number in result.checked.items())
    how = "embedded again" if embedder.live else "as recorded"
    detail = f"compared {counts} ({how})" if not result.problems else "; ".join(result.problems[:5])
    yield _finding(
        "points, payloads and vectors are what the data set and model give", not result.problems, detail
    )


def _same_ranking_scores(run: Run, store: Store, subject: Labelled, embedder: Embedder) -> Finding:
    claim = _COSINES
    collection = run.record.store.collection
    first = run.rankings[(run.rankings["k"] == run.record.search.ks[-1]) & (run.rankings["rank"] == 1)]
    questions = {one.id: one.question for one in subject.dataset.questions}
    points = {(chunk.document_id, chunk.chunk_id): point_id(chunk.key) for chunk in subject.chunks}
    rows: list[tuple[str, str, float]] = [
        (case_id, points[document_id, chunk_id], score)
        for case_id, document_id, chunk_id, score in zip(*(first[name] for name in _HIT), strict=True)
        if case_id in questions and (document_id, chunk_id) in points
    ]
    if not rows or not store.exists(collection):
        return Finding(claim, "cannot be shown", "no first result whose question and passage are still there")
    ids = sorted({key for _, key, _ in rows})
    stored = {point.id: point.vector for point in store.retrieve(collection, ids, vectors=True)}
    profile = embedder.identity.profile
    try:
        asked = _embedded(
            embedder, [query_prompt(profile, case_id, questions[case_id]) for case_id, _, _ in rows]
        )
    except InputError as error:
        return Finding(claim, "cannot be shown", _first_line(error))
    off = [
        case_id
        for (case_id, key, score), vector in zip(rows, asked, strict=True)
        if key not in stored or abs(float(stored[key] @ vector) - score) > SCORE_TOLERANCE
    ]
    detail = f"{len(rows) - len(off)} of {len(rows)} first results" + (f"; not {some(off)}" if off else "")
    return _finding(claim, not off, detail)


def _first_line(error: InputError) -> str:
    return str(error).splitlines()[0].removesuffix(":")


def _embedded(embedder: Embedder, prompts: Sequence[Prompt]) -> Vectors:
    """Embed anew, past the vector cache, since the cache is what is to be checked."""
    size = embedder.batch_size
    parts = [embedder.embed(prompts[start : start + size]) for start in range(0, len(prompts), size)]
    return np.concatenate(parts)


def _limits(embedder: Embedder) -> Iterator[Finding]:
    if not embedder.live:
        detail = "the vectors were looked up in data/embeddings; that the model gives them takes a live model"
        yield Finding("the model gives these vectors", "cannot be shown", detail)
    detail = "a digest names the weights; the server's build, hardware and batching are not part of it"
    yield Finding("vectors would come out the same on another machine", "cannot be shown", detail)
