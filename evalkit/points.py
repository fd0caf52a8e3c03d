"""The store protocol, and what passes through it: points, hits, the state of a collection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Self

import numpy as np

from evalkit.embedding import Vectors, check_vectors
from evalkit.errors import SHOWN, InputError, bullets
from evalkit.settings import ServerSettings

Filter = Mapping[str, tuple[str, ...]]
"""Payload field -> allowed values; a point must match every field."""


READ = 256
"""Points that are read at once: as many as stay in the processor's cache, or make a small answer of a server."""


@dataclass(frozen=True, slots=True)
class Point:
    """A stored passage: ``id`` is a UUID as text, ``vector`` has shape (dimension,) or (0,) when not read."""

    id: str
    vector: Vectors
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hit:
    """A returned passage; ``score`` is the engine's float32 cosine similarity as a Python float."""

    id: str
    score: float
    payload: dict[str, Any]


@dataclass(frozen=True)
class Fingerprint:
    """What was put into a collection: hash of chunks and payloads, digest of the model, prompt profile."""

    corpus: str
    digest: str
    profile: str


@dataclass(frozen=True)
class CollectionState:
    """What a collection says about itself; ``details`` is JSON-like and for readers, never for decisions."""

    state: Literal["building", "complete"]
    fingerprint: Fingerprint
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Give the form that is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: object, where: str) -> Self:
        """Read the stored form.

        Raises
        ------
        InputError
            Not a state that this package wrote; the text names `where`.
        """
        match stored:
            case {
                "state": "building" | "complete" as state,
                "fingerprint": {"corpus": str(corpus), "digest": str(digest), "profile": str(profile)},
                "details": dict(details),
            }:
                return cls(state, Fingerprint(corpus, digest, profile), details)
        raise InputError(
            f"{where}: the collection's state is not readable, found {str(stored)[:200]!r}; "
            "index it again with recreate, or choose another collection name"
        )


class Store(Protocol):
    """A Qdrant engine. Every method raises InfrastructureError when the engine fails or cannot be reached.

    Attributes
    ----------
    kind, version
        Which engine answers, and its version.
    """

    kind: Literal["embedded", "server"]
    version: str

    @property
    def counts(self) -> dict[str, int]:
        """Count so far: ``store_requests`` and the ``store_retries`` among them."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def close(self) -> None:
        """Release everything that is held; a second call does nothing."""

    def collections(self) -> list[str]:
        """List the names of all collections, sorted."""

    def exists(self, collection: str) -> bool:
        """Tell whether there is a collection of this name, whoever made it."""

    def create(
        self,
        collection: str,
        dimension: int,
        state: CollectionState,
        settings: ServerSettings,
    ) -> tuple[str, ...]:
        """Create a collection with cosine distance and its state.

        Returns
        -------
        tuple of str
            One sentence for each setting that this engine does not have.

        Raises
        ------
        InputError
            There is a collection of this name.
        """

    def index_fields(self, collection: str, fields: Sequence[str]) -> None:
        """Make a keyword index on each payload field that has none; to be called before points are written."""

    def drop(self, collection: str) -> None:
        """Remove a collection with all that is in it; nothing happens when there is none."""

    def dimension(self, collection: str) -> int:
        """Tell the size of the collection's vectors."""

    def read_state(self, collection: str) -> CollectionState | None:
        """Read the state; None when the collection carries none, and so was made by something else."""

    def write_state(self, collection: str, state: CollectionState) -> None:
        """Replace the state as one step."""

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write points and wait until they are stored.

        Raises
        ------
        InputError
            Vectors of a wrong size, with values that are not finite, or of a length other than 1.
        """

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Delete points by id and wait; unknown ids are passed over."""

    def count(self, collection: str, filter: Filter | None = None) -> int:
        """Count points exactly."""

    def scroll(self, collection: str, *, vectors: bool) -> Iterator[Point]:
        """Read every point, in order of id."""

    def retrieve(self, collection: str, ids: Sequence[str], *, vectors: bool) -> list[Point]:
        """Read points by id; unknown ids are missing from the answer."""

    def query(
        self,
        collection: str,
        vectors: Vectors,
        filter: Filter,
        limit: int,
        threshold: float | None = None,
        *,
        exact: bool = False,
        hnsw_ef: int | None = None,
    ) -> list[list[Hit]]:
        """Ask for the nearest points of each vector in one request.

        Parameters
        ----------
        vectors
            Shape (n, dimension), float32, rows of unit length.
        filter
            Payload field -> allowed values; an empty one filters nothing.
        limit
            Hits a vector, at most.
        threshold
            Only hits whose score is above it, both as float32.
        exact
            Compare with every point instead of using the approximate index.
        hnsw_ef
            Beam width of the approximate search.

        Returns
        -------
        list of list of Hit
            One list a vector, best first.
        """

    def is_exact(self, collection: str) -> bool:
        """Tell whether every search is exact, because the collection has no approximate index."""

    def finish(self, collection: str) -> None:
        """Bring the collection into its lasting form after the last upsert, and wait for it."""


def point_vectors(points: Sequence[Point], dimension: int) -> Vectors:
    """Stack the vectors of points that are to be stored, after the checks of `embedding.check_vectors`.

    Returns
    -------
    ndarray of float32
        Shape (n, dimension).

    Raises
    ------
    InputError
        A vector that must not be stored.
    """
    wanted = (dimension,)
    wrong = [
        f"{stored_name(point)}: {point.vector.shape}" for point in points if point.vector.shape != wanted
    ]
    if wrong:
        raise InputError(
            f"points to store: {len(wrong)} of {len(points)} vectors have another size than ({dimension},):"
            f"{bullets(wrong, SHOWN)}\nthey come from another embedding model than the collection's"
        )
    vectors = np.array([point.vector for point in points], np.float32)
    check_vectors(vectors, dimension, list(map(stored_name, points)), "points to store", InputError)
    return vectors


def stored_name(stored: Point | Hit) -> str:
    """Name a stored passage for a message, also one whose payload is not ours."""
    return f"{stored.payload.get('document_id', '?')} {stored.payload.get('chunk_id', stored.id)}"


def as_float32(score: float) -> float:
    """Give a score as the engine computed it: the nearest float32, as a Python float."""
    return float(np.float32(score))
