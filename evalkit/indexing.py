"""Index a data set: guard, write, verify. And open a verified collection for evaluation."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.chunking import Chunk
from evalkit.collector import collector_spared, give_back_memory
from evalkit.contents import (
    REEMBEDDED_TOLERANCE,
    VECTOR_TOLERANCE,
    Verification,
    by_point_id,
    corpus_hash,
    default_name,
    differences,
    foreign,
    index_command,
    outdated,
    point_id,
    same_source,
    spread,
    unowned,
    verify_collection,
)
from evalkit.dataset import Dataset
from evalkit.embedders import embed_cached, open_embedder
from evalkit.embedding import Embedder, ModelIdentity, Vectors, document_prompt
from evalkit.errors import InfrastructureError, InputError, bullets
from evalkit.points import CollectionState, Fingerprint, Store
from evalkit.review import load_labelled
from evalkit.settings import CollectionSettings, EvaluateSettings, IndexSettings
from evalkit.stores import open_store
from evalkit.vectors import VectorCache
from evalkit.writing import Outcome, Progress, Writing, write


@dataclass(frozen=True)
class IndexReport:
    """What indexing did.

    Attributes
    ----------
    collection, store, store_version
        Where the passages are now.
    outcome
        ``created``; ``resumed`` (an interrupted one was completed); ``unchanged`` (it was there already: nothing was
        embedded or sent).
    identity
        The model that made the vectors.
    fingerprint
        What the collection holds.
    counts
        ``documents``, ``chunks``, ``eligible_chunks``; ``embedded`` (vectors that were nowhere kept before), ``sent``
        and ``deleted`` points; ``store_requests`` and ``store_retries``, of a live model also ``ollama_requests`` and
        ``ollama_retries``.
    verification
        What was read back and compared; without problems.
    timings
        Seconds a stage: ``prepare``, ``write``, ``finish``, ``verify``.
    notices
        Sentences that a reader should see.
    """

    collection: str
    store: str
    store_version: str
    outcome: Outcome
    identity: ModelIdentity
    fingerprint: Fingerprint
    counts: dict[str, int]
    verification: Verification
    timings: dict[str, float]
    notices: tuple[str, ...] = ()

    def describe(self) -> str:
        """Say in a few lines what was done and what was verified."""
        done = {
            "created": "{sent} points written, {embedded} vectors computed, the others known",
            "resumed": "completed: {sent} points written, {deleted} deleted, {embedded} vectors computed",
            "unchanged": "there already: nothing embedded, nothing sent",
        }[self.outcome]
        lines = [
            f"collection {self.collection} on the {self.store} engine {self.store_version}",
            done.format(**self.counts),
            "verified: {points} points, {payloads} payloads, {vectors} vectors".format(
                **self.verification.checked
            ),
            *self.notices,
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class OpenedCollection:
    """A collection that holds what the data set says.

    Attributes
    ----------
    collection
        Its name.
    points
        Every passage by the id of its point.
    details
        Notes of indexing.
    checked
        Numbers of things compared.
    notices
        Sentences that a reader should see.
    """

    collection: str
    points: Mapping[str, Chunk]
    details: dict[str, Any]
    checked: dict[str, int]
    notices: tuple[str, ...] = ()


def index(settings: IndexSettings, progress: Callable[[Progress], None] = lambda _: None) -> IndexReport:
    """Put all chunks of a data set into its collection, or find that they are there.

    A complete collection of the same fingerprint is only verified. One whose writing was interrupted is completed:
    what it holds is not sent again, and points of passages that are gone are deleted. Until everything is written
    and read back, the collection says ``building``, and evaluation refuses it.

    Parameters
    ----------
    settings
        Data set, model, collection and layout.
    progress
        Called after each batch.

    Returns
    -------
    IndexReport
        What was done and what was verified.

    Raises
    ------
    InputError
        Faulty data set or labels, before anything is embedded; a collection of this name that holds something else,
        or that was changed since (with `recreate` it is replaced); a prompt without a recorded vector.
    InfrastructureError
        Qdrant or the embedder failed, or what was read back is not what was written.
    """
    start = time.perf_counter()
    subject = load_labelled(settings.dataset, settings.chunking)
    dataset, version = subject.dataset, subject.chunking
    wanted = by_point_id(subject.chunks)
    chunks = tuple(wanted.values())
    sizes = {
        "documents": len(dataset.documents),
        "chunks": len(chunks),
        "eligible_chunks": sum(map(dataset.is_eligible, chunks)),
    }
    notices = subject.labels.notices
    with (
        open_embedder(settings) as embedder,
        VectorCache() as cache,
        open_store() as store,
        collector_spared(),
    ):
        name = collection_name(settings, dataset, embedder.identity)
        state = expected_state(dataset, version, chunks, embedder)
        del subject, dataset  # a large one is as much again as its chunks, which are all that is written
        give_back_memory()
        job = Writing(store, name, wanted, embedder, cache, settings, state, progress)
        job.timings["prepare"] = round(time.perf_counter() - start, 3)
        outcome, ignored = write(job)
        with job.stage("verify"):
            expected, tolerance = _sample(
                chunks, embedder, cache, settings.verify_sample, outcome != "unchanged"
            )
            verification = verify_collection(store, name, wanted, expected, tolerance)
        if outcome == "unchanged":
            _refuse_changed(name, store, verification, settings)
        else:
            _complete(job, verification)
        return IndexReport(
            collection=name,
            store=store.kind,
            store_version=store.version,
            outcome=outcome,
            identity=embedder.identity,
            fingerprint=state.fingerprint,
            counts={**sizes, **job.counts, **embedder.counts, **store.counts},
            verification=verification,
            timings=job.timings,
            notices=(*notices, *ignored, *embedder.identity.warnings),
        )


def collection_name(settings: CollectionSettings, dataset: Dataset, identity: ModelIdentity) -> str:
    """Give the name in the settings, or the default one for data set, embedder, model and chunking version."""
    version = settings.chunking or dataset.chunking
    return settings.collection or default_name(dataset.name, identity.embedder, identity.model, version)


def expected_state(
    dataset: Dataset, version: str, chunks: Sequence[Chunk], embedder: Embedder
) -> CollectionState:
    """Make the state of a collection while these chunks are written to it."""
    identity = embedder.identity
    details = {
        "dataset": dataset.name,
        "chunking": version,
        "points": len(chunks),
        "embedder": identity.embedder,
        "model": identity.model,
        "embed_batch": embedder.batch_size,
        "server_version": identity.server_version,
    }
    return CollectionState(
        "building", Fingerprint(corpus_hash(chunks), identity.digest, identity.profile), details
    )


def open_for_evaluation(
    store: Store,
    settings: EvaluateSettings,
    dataset: Dataset,
    chunks: Sequence[Chunk],
    embedder: Embedder,
    cache: VectorCache,
) -> OpenedCollection:
    """Find the collection of a data set and make sure that it holds all of it, embedded by this very model.

    Raises
    ------
    InputError
        No such collection; one made by something else; one whose indexing did not finish; another corpus, model
        digest or prompt profile; points missing, too many or changed. Every problem is listed.
    InfrastructureError
        Qdrant or the embedder failed.
    """
    name = collection_name(settings, dataset, embedder.identity)
    if not store.exists(name):
        raise InputError(
            f"no collection {name!r} on the {store.kind} engine; index the data set {dataset.name} first: "
            f"`{index_command(settings)}`"
        )
    state = store.read_state(name)
    if state is None:
        raise unowned(name)
    points = by_point_id(chunks)
    wanted = expected_state(dataset, settings.chunking or dataset.chunking, chunks, embedder)
    reasons = differences(state.fingerprint, wanted.fingerprint)
    edited = list(reasons) == ["corpus"] and same_source(state, wanted)
    if state.state == "building" and (edited or not reasons):
        raise InputError(
            f"collection {name!r} is incomplete: its indexing was interrupted or is still running; "
            f"index the data set {dataset.name} again, which goes on where it stopped"
        )
    if edited:
        raise outdated(store, name, points, settings)
    if reasons:
        raise foreign(name, reasons.values(), settings)
    expected, tolerance = _sample(chunks, embedder, cache, settings.verify_sample, embed=True)
    verification = verify_collection(store, name, points, expected, tolerance)
    _refuse_changed(name, store, verification, settings)
    before, now = state.details.get("server_version"), embedder.identity.server_version
    notice = (
        f"passages were embedded by {embedder.identity.embedder} {before}, questions by {now}: vectors can differ "
        "between versions of the server"
    )
    return OpenedCollection(
        name, points, state.details, verification.checked, (notice,) if before != now else ()
    )


def _sample(
    chunks: Sequence[Chunk], embedder: Embedder, cache: VectorCache, size: int, embed: bool
) -> tuple[dict[str, Vectors], float]:
    """Give expected vectors by point id, and how near the stored ones must be; `embed` allows to compute some."""
    chosen = spread(chunks, size)
    profile = embedder.identity.profile
    prompts = {chunk.key: document_prompt(profile, chunk) for chunk in chosen}
    if embedder.live and not embed:
        kept, _ = cache.get(embedder.identity, [prompt.sha256 for prompt in prompts.values()])
        prompts = {key: prompt for key, prompt in prompts.items() if prompt.sha256 in kept}
    vectors, embedded = embed_cached(embedder, cache, list(prompts.values()))
    expected = {point_id(key): vector for key, vector in zip(prompts, vectors, strict=True)}
    return expected, REEMBEDDED_TOLERANCE if embedded else VECTOR_TOLERANCE


def _complete(job: Writing, verification: Verification) -> None:
    if verification.problems:
        raise InfrastructureError(
            f"collection {job.collection!r} does not hold what was just written to it and stays marked as building:"
            f"{bullets(verification.problems)}\nindex again; if it stays, index with recreate, and look for "
            "somebody else who writes to it"
        )
    job.store.write_state(
        job.collection, CollectionState("complete", job.state.fingerprint, job.state.details)
    )


def _refuse_changed(
    collection: str, store: Store, verification: Verification, settings: CollectionSettings
) -> None:
    if verification.problems:
        raise InputError(
            f"collection {collection!r} on the {store.kind} engine was changed since it was indexed:"
            f"{bullets(verification.problems)}\nindex with recreate to write it anew: "
            f"`{index_command(settings)} --recreate`"
        )
