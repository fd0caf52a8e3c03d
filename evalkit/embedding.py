"""What every embedder shares: prompts from named profiles, the identity of a model, checks of vectors."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from evalkit.chunking import Chunk
from evalkit.errors import SHOWN, InfrastructureError, InputError, bullets

Vectors = NDArray[np.float32]

NORM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Profile:
    """The text around what is embedded, as the model was trained.

    Attributes
    ----------
    document
        Template with ``{title}`` and ``{text}``.
    query
        Template with ``{question}``.
    untitled
        What stands for an empty title.
    """

    document: str
    query: str
    untitled: str = ""


# Each is what the publisher of the model prescribes; the last two are for models that want no prefix.
PROFILES: dict[str, Profile] = {
    "embeddinggemma": Profile(
        "title: {title} | text: {text}", "task: search result | query: {question}", untitled="none"
    ),
    "nomic-embed-text": Profile("search_document: {text}", "search_query: {question}"),
    "mxbai-embed-large": Profile(
        "{text}", "Represent this sentence for searching relevant passages: {question}"
    ),
    "text-only": Profile("{text}", "{question}"),
    "title-and-text": Profile("{title}\n{text}", "{question}"),
}


@dataclass(frozen=True)
class Prompt:
    """A whole text to embed.

    Attributes
    ----------
    name
        The chunk or case that it stands for; errors name it.
    text
        The prompt, prefix included.
    """

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the text in UTF-8: the identity of the prompt in every vector store."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class ModelIdentity:
    """Where vectors come from.

    Attributes
    ----------
    embedder
        ``recorded`` or ``ollama``.
    model, digest
        Name of the model and the hash of its weights, as the source of the vectors states them.
    profile
        Name of the prompt profile.
    dimension
        Numbers in a vector; None as long as a live model has not embedded anything.
    server_version
        Version of the live server; None for recorded vectors.
    notes
        What was seen on the way, such as the outcome of the canary.
    warnings
        What a reader of the results must know, in whole sentences.
    """

    embedder: str
    model: str
    digest: str
    profile: str
    dimension: int | None
    server_version: str | None = None
    notes: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class Embedder(Protocol):
    """Makes vectors from prompts; a context manager.

    Attributes
    ----------
    identity
        Where the vectors come from.
    batch_size
        Prompts that one call of `embed` should get at most.
    live
        True if a model computes the vectors, False if they are only looked up.
    counts
        ``ollama_requests`` and ``ollama_retries`` so far, for the run record; empty for recorded vectors.
    """

    @property
    def identity(self) -> ModelIdentity: ...  # noqa: D102
    @property
    def batch_size(self) -> int: ...  # noqa: D102
    @property
    def live(self) -> bool: ...  # noqa: D102
    @property
    def counts(self) -> Counter[str]: ...  # noqa: D102

    def embed(self, prompts: Sequence[Prompt]) -> Vectors:
        """Give the vectors, float32 of shape (prompts, dimension), rows of unit length, in order."""
        ...

    def close(self) -> None:
        """Let go of connections; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


def family(model: str) -> str:
    """Give the name of a model without registry, namespace and tag: ``embeddinggemma`` of all its sizes."""
    return model.rpartition("/")[2].partition(":")[0].lower()


def choose_profile(model: str, profile: str | None) -> str:
    """Choose the prompt profile of a model.

    Parameters
    ----------
    model
        Name of the model.
    profile
        Profile asked for; None takes the known one of the model's family.

    Raises
    ------
    InputError
        An unknown profile, or none given for a model without a known one; the text lists the profiles.
    """
    chosen = family(model) if profile is None else profile
    if chosen in PROFILES:
        return chosen
    listed = "\n".join(
        f"- {name}: document {known.document!r}, query {known.query!r}" for name, known in PROFILES.items()
    )
    what = (
        f"model {model!r} has no known prompt profile" if profile is None else f"unknown profile {profile!r}"
    )
    raise InputError(f"{what}; set `profile` to what the model's card asks for, one of:\n{listed}")


def document_prompt(profile: str, chunk: Chunk) -> Prompt:
    """Make the prompt of a chunk; an unknown profile is an InputError."""
    known = PROFILES[choose_profile("", profile)]
    text = known.document.format(title=chunk.title or known.untitled, text=chunk.text)
    return Prompt(f"chunk {chunk.chunk_id} of document {chunk.document_id}", text)


def query_prompt(profile: str, case_id: str, question: str) -> Prompt:
    """Make the prompt of a case's question; an unknown profile is an InputError."""
    known = PROFILES[choose_profile("", profile)]
    return Prompt(f"case {case_id}", known.query.format(question=question))


def check_vectors(
    vectors: NDArray[np.floating],
    dimension: int | None,
    names: Sequence[str],
    what: str,
    error: type[InputError | InfrastructureError] = InfrastructureError,
) -> None:
    """Refuse vectors that would search for nothing or for something else.

    Parameters
    ----------
    vectors
        Shape (names, dimension).
    dimension
        Numbers wanted in each vector; None takes what is there, at least 1.
    names
        What each vector stands for (chunk or case).
    what
        Where they come from, such as "query vectors", for the text.
    error
        Class of the error: `InputError` for files that a user gave.

    Raises
    ------
    InfrastructureError or InputError
        Another count or size, values that are not finite, a length of zero or one that differs from 1 by more
        than `NORM_TOLERANCE`; the text names each chunk or case (a long list is capped, with its count).
    """
    if vectors.ndim != 2 or len(vectors) != len(names):
        raise error(f"{what}: {len(names)} vectors wanted, an array of shape {vectors.shape} found")
    if not len(names):
        return
    wanted = max(vectors.shape[1], 1) if dimension is None else dimension
    if vectors.shape[1] != wanted:
        raise error(
            f"{what}: vectors of {wanted} numbers wanted, {vectors.shape[1]} found, first for {names[0]}; "
            "is this the model that the others came from?"
        )
    if _are_unit(vectors):
        return
    finite = np.isfinite(vectors).all(axis=1)
    lengths = np.linalg.norm(np.where(finite[:, None], vectors, 0.0).astype(np.float64), axis=1)
    faults = [
        f"{names[row]}: {_fault(vectors[row], float(lengths[row]))}"
        for row in np.flatnonzero(~finite | (np.abs(lengths - 1.0) > NORM_TOLERANCE)).tolist()
    ]
    if faults:
        raise error(
            f"{what}: {len(faults)} of {len(names)} vectors cannot be used:{bullets(faults, SHOWN)}\n"
            "a search with them would look like a miss; embed them again"
        )


def _are_unit(vectors: NDArray[np.floating]) -> bool:
    """Tell quickly whether all rows are surely finite and of unit length."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    # A value that is not finite makes the sum so, and NaN is never near. A length within the tolerance has its
    # square within twice that: this is stricter, and what fails it is looked at closely.
    return bool((np.abs(squares - 1.0) < NORM_TOLERANCE).all())


def _fault(vector: NDArray[np.floating], length: float) -> str:
    odd = np.flatnonzero(~np.isfinite(vector))
    if len(odd):
        return f"{len(odd)} values are not finite, the first is {vector[odd[0]]} at position {odd[0]}"
    return "all zeros" if length == 0.0 else f"length {length:.6g} found, 1 wanted"
