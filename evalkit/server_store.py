"""A Qdrant server or cluster, through qdrant-client over REST or gRPC."""

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from qdrant_client import models

from evalkit.embedding import Vectors
from evalkit.errors import InfrastructureError, InputError
from evalkit.points import READ, CollectionState, Filter, Hit, Point, as_float32, point_vectors
from evalkit.qdrant_connection import Connection
from evalkit.qdrant_errors import Conflict, client_errors
from evalkit.settings import ServerSettings
from evalkit.transport import Deadline, without_secrets

INDEX_TIMEOUT = 3600.0
"""Seconds to wait until the server has built its approximate index."""

REQUEST_BYTES = 16_000_000
"""Half of what Qdrant takes in one request by default."""

_FLOAT_BYTES = 24
_METADATA = "evalkit"

_log = logging.getLogger(__name__)


class ServerStore:
    """The store protocol (see `evalkit.points.Store`) over a Qdrant server."""

    kind: Literal["embedded", "server"] = "server"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client = connection.client
        self._ask = connection.ask
        self.url = connection.url
        self.version = connection.version
        self._dimensions: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._connection.close()

    @property
    def counts(self) -> dict[str, int]:
        """Count requests, and the retries among them."""
        return self._connection.counts

    def collections(self) -> list[str]:
        """List the names of all collections, sorted."""
        answer = self._ask("listing collections", self._client.get_collections)
        return sorted(collection.name for collection in answer.collections)

    def exists(self, collection: str) -> bool:
        """Tell whether there is a collection of this name."""
        return self._ask(
            f"looking for collection {collection!r}", lambda: self._client.collection_exists(collection)
        )

    def create(
        self, collection: str, dimension: int, state: CollectionState, settings: ServerSettings
    ) -> tuple[str, ...]:
        """Create the collection with its state; with replicas, a write waits for all of them."""
        hnsw = {"m": settings.hnsw_m, "ef_construct": settings.hnsw_ef_construct}
        quantized = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)

        def create() -> bool:
            try:
                with client_errors(self.url):
                    return self._client.create_collection(
                        collection,
                        vectors_config=models.VectorParams(
                            size=dimension,
                            distance=models.Distance.COSINE,
                            on_disk=settings.vectors_on_disk or None,
                        ),
                        hnsw_config=models.HnswConfigDiff(**hnsw) if any(hnsw.values()) else None,
                        quantization_config=models.ScalarQuantization(scalar=quantized)
                        if settings.quantized
                        else None,
                        shard_number=settings.shards,
                        replication_factor=settings.replicas,
                        write_consistency_factor=settings.replicas,
                        metadata={_METADATA: state.as_json()},
                    )
            except Conflict:
                return False

        made = self._ask(f"creating collection {collection!r}", create)
        # After a lost answer our own first attempt is what the second one met.
        if not made and (self.read_state(collection) != state or self.count(collection)):
            raise InputError(
                f"collection {collection!r} exists at {self.url}; index with recreate to replace it"
            )
        return ()

    def index_fields(self, collection: str, fields: Sequence[str]) -> None:
        """Make a keyword index on each field that has none."""
        for name in fields:
            self._ask(
                f"indexing payload field {name!r}",
                partial(
                    self._client.create_payload_index,
                    collection,
                    name,
                    field_schema=models.PayloadSchemaType.KEYWORD,
                    wait=True,
                ),
            )

    def drop(self, collection: str) -> None:
        """Remove a collection with all that is in it; nothing happens when there is none."""
        self._dimensions.pop(collection, None)
        if self.exists(collection):
            self._ask(
                f"dropping collection {collection!r}", lambda: self._client.delete_collection(collection)
            )

    def _info(self, collection: str) -> models.CollectionInfo:
        return self._ask(
            f"reading collection {collection!r}", lambda: self._client.get_collection(collection)
        )

    def dimension(self, collection: str) -> int:
        """Tell the size of the collection's vectors."""
        if collection not in self._dimensions:
            vectors = self._info(collection).config.params.vectors
            if not isinstance(vectors, models.VectorParams):
                raise InputError(
                    f"collection {collection!r} at {self.url} has named vectors, so something else made it; "
                    "index with recreate to replace all that is in it, or give another collection name"
                )
            self._dimensions[collection] = vectors.size
        return self._dimensions[collection]

    def read_state(self, collection: str) -> CollectionState | None:
        """Read the state from the collection's metadata."""
        metadata = self._info(collection).config.metadata or {}
        if _METADATA not in metadata:
            return None
        return CollectionState.from_json(metadata[_METADATA], f"collection {collection!r} at {self.url}")

    def write_state(self, collection: str, state: CollectionState) -> None:
        """Replace the state in the collection's metadata; other metadata stays."""
        self._ask(
            f"marking collection {collection!r} as {state.state}",
            lambda: self._client.update_collection(collection, metadata={_METADATA: state.as_json()}),
        )

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write points and wait until they are stored; split where one request would be too large."""
        if not points:
            return
        vectors = point_vectors(points, self.dimension(collection)).tolist()
        structs = [
            models.PointStruct(id=point.id, vector=vector, payload=point.payload)
            for point, vector in zip(points, vectors, strict=True)
        ]
        for batch in _within_limit(structs, len(vectors[0])):
            self._ask(
                f"writing {len(batch)} points to collection {collection!r}",
                partial(self._client.upsert, collection, batch, wait=True),
            )

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Delete points by id and wait."""
        if ids:
            selector = models.PointIdsList(points=list(ids))
            self._ask(
                f"deleting {len(ids)} points of collection {collection!r}",
                lambda: self._client.delete(collection, selector, wait=True),
            )

    def count(self, collection: str, filter: Filter | None = None) -> int:
        """Count points exactly."""
        return self._ask(
            f"counting collection {collection!r}",
            lambda: self._client.count(
                collection, count_filter=_filter(filter or {}), exact=True, timeout=self._connection.seconds()
            ),
        ).count

    def scroll(self, collection: str, *, vectors: bool) -> Iterator[Point]:
        """Read every point, in order of id."""
        offset: Any = None
        while True:
            records, offset = self._ask(
                f"reading collection {collection!r}",
                partial(
                    self._client.scroll,
                    collection,
                    limit=READ,
                    offset=offset,
                    with_payload=True,
                    with_vectors=vectors,
                    timeout=self._connection.seconds(),
                ),
            )
            yield from map(_point, records)
            if offset is None:
                return

    def retrieve(self, collection: str, ids: Sequence[str], *, vectors: bool) -> list[Point]:
        """Read points by id; unknown ids are missing from the answer."""
        records = self._ask(
            f"reading {len(ids)} points of collection {collection!r}",
            lambda: self._client.retrieve(
                collection,
                list(ids),
                with_payload=True,
                with_vectors=vectors,
                timeout=self._connection.seconds(),
            ),
        )
        return [_point(record) for record in records]

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
        """Ask for the nearest points of each vector in one request; points not yet indexed are searched too."""
        params = models.SearchParams(
            exact=exact,
            hnsw_ef=hnsw_ef,
            quantization=models.QuantizationSearchParams(ignore=exact, rescore=True),
        )
        conditions = _filter(filter)
        requests = [
            models.QueryRequest(
                query=vector,
                filter=conditions,
                limit=limit,
                score_threshold=threshold,
                params=params,
                with_payload=True,
            )
            for vector in vectors.tolist()
        ]
        answers = self._ask(
            f"asking {len(requests)} questions of collection {collection!r}",
            lambda: self._client.query_batch_points(collection, requests, timeout=self._connection.seconds()),
        )
        return [
            [Hit(str(hit.id), as_float32(hit.score), dict(hit.payload or {})) for hit in answer.points]
            for answer in answers
        ]

    def is_exact(self, collection: str) -> bool:
        """Tell whether there is no approximate index and no quantization, so that every search is exact."""
        info = self._info(collection)
        return not info.indexed_vectors_count and info.config.quantization_config is None

    def finish(self, collection: str) -> None:
        """Wait until the server has indexed everything (status green).

        Raises
        ------
        InfrastructureError
            The server reports a failure of its optimizer, or is not done within `INDEX_TIMEOUT`.
        """
        limit = Deadline(INDEX_TIMEOUT)
        pause = 0.05
        while True:
            info = self._info(collection)
            if (
                info.status == models.CollectionStatus.RED
                or info.optimizer_status != models.OptimizersStatusOneOf.OK
            ):
                said = without_secrets(str(info.optimizer_status))[:300]
                raise InfrastructureError(
                    f"{self.url}: collection {collection!r} is {info.status}, its optimizer says {said}; "
                    "look into the server's log (disk, memory), then index again"
                )
            if info.status == models.CollectionStatus.GREEN:
                return
            limit.check(f"waiting for the index of collection {collection!r}")
            _log.info(
                "collection %s is %s, %s vectors indexed", collection, info.status, info.indexed_vectors_count
            )
            time.sleep(pause)
            pause = min(pause * 1.5, 5.0)


def _within_limit(points: list[models.PointStruct], dimension: int) -> Iterator[list[models.PointStruct]]:
    batch: list[models.PointStruct] = []
    size = 0
    for point in points:
        bytes_ = _FLOAT_BYTES * dimension + 6 * len(str(point.payload))
        if batch and size + bytes_ > REQUEST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += bytes_
    yield batch


def _filter(filter: Filter) -> models.Filter | None:
    conditions: list[Any] = [
        models.FieldCondition(key=name, match=models.MatchAny(any=list(values)))
        for name, values in filter.items()
    ]
    return models.Filter(must=conditions) if conditions else None


def _point(record: models.Record) -> Point:
    vector = np.asarray([] if record.vector is None else record.vector, dtype=np.float32)
    return Point(str(record.id), vector, dict(record.payload or {}))
