"""Opening an embedder, embedding through the vector cache, recording the vectors of a data set."""

from collections.abc import Callable, Sequence

import numpy as np

from evalkit import paths
from evalkit.embedding import (
    Embedder,
    Prompt,
    Vectors,
    capped,
    check_vectors,
    choose_profile,
)
from evalkit.errors import InfrastructureError, InputError
from evalkit.recorded import (
    RecordedEmbedder,
    RecordedVectors,
    open_recorded,
)
from evalkit.settings import EmbeddingSettings
from evalkit.transport import Deadline
from evalkit.vectors import VectorCache

Progress = Callable[[int, int], None]


def open_embedder(settings: EmbeddingSettings, deadline: Deadline | None = None) -> Embedder:
    """Open the embedder that the settings ask for.

    Parameters
    ----------
    settings
        Embedder, model, profile, batch and time-out.
    deadline
        Ends retries and requests of a live model; None for no limit.

    Returns
    -------
    Embedder
        A context manager.

    Raises
    ------
    InputError
        A model without a known profile and none given, an unknown profile, recorded vectors of another model or
        profile than asked for, a model that the server does not have.
    InfrastructureError
        The live server does not answer as it should.
    """
    folder = paths.embeddings_folder(settings.embeddings)
    if settings.embedder == "recorded":
        recorded = open_recorded(folder)
        _refuse_other(recorded, settings)
        return RecordedEmbedder(recorded, settings.embed_batch)
    raise InputError("no live embedder yet")


def _refuse_other(recorded: RecordedVectors, settings: EmbeddingSettings) -> None:
    there = recorded.model
    choose_profile(there.model, there.profile)
    asked = {"model": settings.model, "profile": settings.profile or there.profile}
    differing = [
        f"{name} {value!r} asked for, {getattr(there, name)!r} recorded"
        for name, value in asked.items()
        if value != getattr(there, name)
    ]
    if differing:
        raise InputError(
            f"recorded vectors in {recorded.folder}: {'; '.join(differing)}; ask for what is recorded, embed live "
            "with `embedder: ollama`, or name another folder of recorded vectors with `embeddings`"
        )


def embed_cached(
    embedder: Embedder, cache: VectorCache, prompts: Sequence[Prompt], progress: Progress | None = None
) -> tuple[Vectors, int]:
    """Give the vectors of prompts, computing only those that are nowhere kept yet.

    Distinct prompts are embedded once, in batches of ``embedder.batch_size``, each stored as it arrives. Recorded
    vectors are looked up where they are and not copied into the cache.

    Parameters
    ----------
    embedder, cache
        Where vectors come from and where those of a live model are kept.
    prompts
        Any number, repeats allowed.
    progress
        Called with (done, total) counts of the prompts to compute, after each batch.

    Returns
    -------
    vectors
        Float32, shape (prompts, dimension), in order, rows of unit length. No prompts give no rows.
    embedded
        Number of prompts that a model computed just now; 0 for recorded vectors.

    Raises
    ------
    InputError
        A prompt without a recorded vector, or one that the model refuses; the text names the chunk or case.
    InfrastructureError
        The model, the cache or the deadline failed, or a vector cannot be used.
    """
    distinct = {prompt.sha256: prompt for prompt in prompts}
    if not embedder.live:
        kept = dict(zip(distinct, embedder.embed(list(distinct.values())), strict=True))
        return _in_order(embedder, prompts, kept), 0
    kept = cache.get(embedder.identity, list(distinct))
    _check_kept(embedder, cache, {distinct[key].name: vector for key, vector in kept.items()})
    missing = [key for key in distinct if key not in kept]
    for start in range(0, len(missing), embedder.batch_size):
        batch = missing[start : start + embedder.batch_size]
        vectors = embedder.embed([distinct[key] for key in batch])
        cache.put(embedder.identity, batch, vectors)
        kept.update(zip(batch, vectors, strict=True))
        if progress is not None:
            progress(min(start + len(batch), len(missing)), len(missing))
    return _in_order(embedder, prompts, kept), len(missing)


def _check_kept(embedder: Embedder, cache: VectorCache, kept: dict[str, Vectors]) -> None:
    """Refuse cached vectors that a fault of the disk has changed."""
    if kept:
        size = embedder.identity.dimension or len(next(iter(kept.values())))
        odd = [f"{name}: {len(vector)} numbers" for name, vector in kept.items() if len(vector) != size]
        if odd:
            raise InfrastructureError(
                f"vector cache {cache.path}: vectors of {size} numbers wanted:\n{capped(odd)}\n"
                "move the file away; its vectors are computed again"
            )
        check_vectors(np.stack(list(kept.values())), size, list(kept), f"vector cache {cache.path}")


def _in_order(embedder: Embedder, prompts: Sequence[Prompt], kept: dict[str, Vectors]) -> Vectors:
    if not prompts:
        return np.empty((0, embedder.identity.dimension or 0), np.float32)
    return np.stack([kept[prompt.sha256] for prompt in prompts])
