"""Opening an embedder, embedding through the vector cache, recording the vectors of a data set."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evalkit import paths
from evalkit.chunking import chunk_documents
from evalkit.dataset import Dataset
from evalkit.embedding import (
    Embedder,
    ModelIdentity,
    Prompt,
    Vectors,
    check_vectors,
    choose_profile,
    document_prompt,
    query_prompt,
)
from evalkit.errors import SHOWN, InfrastructureError, InputError, bullets
from evalkit.recorded import (
    RecordedEmbedder,
    RecordedVectors,
    open_recorded,
    refuse_other_model,
    write_recorded,
)
from evalkit.settings import EmbeddingSettings
from evalkit.transport import Deadline
from evalkit.vectors import VectorCache

_log = logging.getLogger(__name__)

CANARY_COSINE = 0.99

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
    from evalkit.ollama_embedder import OllamaEmbedder  # the client loads slowly, and most runs need none

    embedder = OllamaEmbedder(
        settings.model,
        choose_profile(settings.model, settings.profile),
        settings.embed_batch,
        settings.embed_timeout,
        deadline,
    )
    try:
        _compare_with_recorded(embedder, folder)
    except BaseException:
        embedder.close()
        raise
    return embedder


def _compare_with_recorded(embedder: Embedder, folder: Path) -> None:
    """Embed one recorded prompt live, and note whether this is the model of the recorded vectors."""
    identity = embedder.identity
    try:
        recorded = open_recorded(folder)
        canary = recorded.canary
    except InputError as error:
        identity.notes["canary"] = f"not done: {str(error).splitlines()[0]}"
        return
    if recorded.model.profile != identity.profile or canary is None:
        why = f"profile {recorded.model.profile}" if canary else "no prompt in clear text (canary.txt)"
        identity.notes["canary"] = f"not done: the recorded vectors in {folder} have {why}"
        return
    live, kept = embedder.embed([canary])[0], recorded.vectors([canary])[0]
    if len(live) == len(kept):
        cosine = float(live.astype(np.float64) @ kept.astype(np.float64))
        found = f"cosine {cosine:.4f} between one prompt embedded live and its recorded vector"
    else:
        cosine, found = 0.0, f"vectors of {len(live)} numbers live, of {len(kept)} recorded"
    if cosine < CANARY_COSINE:
        found += (
            f" (at least {CANARY_COSINE} wanted): this is not the model that the recorded vectors came from"
        )
        warn(identity, f"{identity.model}: {found}; do not compare its scores with those of recorded vectors")
    identity.notes["canary"] = found


def warn(identity: ModelIdentity, text: str) -> None:
    """Keep a warning for the reader of the results, once, and log it."""
    if text not in identity.warnings:
        identity.warnings.append(text)
        _log.warning(text)


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
    if not embedder.live:
        return embedder.embed(prompts), 0
    distinct = {prompt.sha256: prompt for prompt in prompts}
    identity = embedder.identity
    kept, versions = cache.get(identity, list(distinct))
    _check_kept(identity, cache, {distinct[key].name: vector for key, vector in kept.items()})
    if others := sorted(versions - {identity.server_version}):
        warn(
            identity,
            f"vectors in {cache.path} come from Ollama {', '.join(others)}, the server now is "
            f"{identity.server_version}: vectors can change with the version; move the file away to make them anew",
        )
    missing = [key for key in distinct if key not in kept]
    for start in range(0, len(missing), embedder.batch_size):
        batch = missing[start : start + embedder.batch_size]
        vectors = embedder.embed([distinct[key] for key in batch])
        if kept and len(next(iter(kept.values()))) != vectors.shape[1]:
            raise _other_size(identity, cache, kept, vectors.shape[1])
        cache.put(embedder.identity, batch, vectors)
        kept.update(zip(batch, vectors, strict=True))
        if progress is not None:
            progress(min(start + len(batch), len(missing)), len(missing))
    return _in_order(embedder, prompts, kept), len(missing)


def _check_kept(identity: ModelIdentity, cache: VectorCache, kept: dict[str, Vectors]) -> None:
    """Refuse cached vectors that a fault of the disk has changed, and a model that is not the one that made them."""
    if kept:
        size = identity.dimension or len(next(iter(kept.values())))
        if all(len(vector) != size for vector in kept.values()) and len(set(map(len, kept.values()))) == 1:
            raise _other_size(identity, cache, kept, size)
        odd = [f"{name}: {len(vector)} numbers" for name, vector in kept.items() if len(vector) != size]
        if odd:
            raise InfrastructureError(
                f"vector cache {cache.path}: vectors of {size} numbers wanted:{bullets(odd, SHOWN)}\n"
                "move the file away; its vectors are computed again"
            )
        check_vectors(np.stack(list(kept.values())), size, list(kept), f"vector cache {cache.path}")


def _other_size(
    identity: ModelIdentity, cache: VectorCache, kept: dict[str, Vectors], size: int
) -> InfrastructureError:
    """Blame the model: vectors of the cache that agree with each other were not damaged."""
    before = len(next(iter(kept.values())))
    return InfrastructureError(
        f"{identity.model} gives vectors of {size} numbers now and gave {before} before, under the same digest "
        f"{identity.digest}: the model or its server changed, not the vector cache {cache.path}. Pull the model "
        "again, or go back to the Ollama that it ran on; if the new vectors are meant, move that file away and index "
        "again with recreate"
    )


def _in_order(embedder: Embedder, prompts: Sequence[Prompt], kept: dict[str, Vectors]) -> Vectors:
    if not prompts:
        return np.empty((0, embedder.identity.dimension or 0), np.float32)
    return np.stack([kept[prompt.sha256] for prompt in prompts])


@dataclass(frozen=True)
class Recording:
    """What `record_vectors` found recorded, added, and had to compute for it; the file that it added."""

    folder: Path
    already: int
    added: int
    embedded: int
    file: Path | None


def record_vectors(
    dataset: Dataset,
    embedder: Embedder,
    cache: VectorCache,
    folder: Path,
    chunkings: Iterable[str] = (),
    progress: Progress | None = None,
) -> Recording:
    """Add the missing prompts of a data set to a folder of recorded vectors.

    Parameters
    ----------
    dataset
        Its documents, cut into chunks, and all its questions.
    embedder, cache
        A live model; what it computes is kept in the cache too, so that a recording that was stopped goes on.
    folder
        Folder of recorded vectors; made if need be.
    chunkings
        Chunking versions; none takes the data set's own.
    progress
        As for `embed_cached`.

    Returns
    -------
    Recording
        With no file when nothing was missing.

    Raises
    ------
    InputError
        Vectors of another model, digest or profile in the folder, an embedder that only looks up, an unknown
        chunking version, a document that cannot be cut, a prompt that the model refuses.
    InfrastructureError
        The model, the cache or the folder failed.
    """
    if not embedder.live:
        raise InputError("recorded vectors cannot be recorded from themselves; use `embedder: ollama`")
    refuse_other_model(folder, embedder.identity)
    prompts = {
        prompt.sha256: prompt
        for prompt in dataset_prompts(
            dataset, tuple(chunkings) or (dataset.chunking,), embedder.identity.profile
        )
    }
    known = open_recorded(folder) if (folder / "model.json").exists() else ()
    missing = [prompt for key, prompt in prompts.items() if key not in known]
    if not missing:
        return Recording(folder, len(prompts), 0, 0, None)
    vectors, embedded = embed_cached(embedder, cache, missing, progress)
    file = write_recorded(folder, embedder.identity, missing, vectors)
    return Recording(folder, len(prompts) - len(missing), len(missing), embedded, file)


def dataset_prompts(dataset: Dataset, chunkings: Iterable[str], profile: str) -> list[Prompt]:
    """Make every prompt of a data set: chunks in order of version and text, then questions."""
    documents = [
        document_prompt(profile, chunk)
        for version in chunkings
        for chunk in chunk_documents(dataset.documents, version)
    ]
    return documents + [query_prompt(profile, case.id, case.question) for case in dataset.questions]
