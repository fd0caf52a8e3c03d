"""What passes between us and Qdrant Edge: settings, filters, points."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import qdrant_edge as edge

from evalkit.embedding import Vectors
from evalkit.points import Filter, Point
from evalkit.settings import ServerSettings

_NO_VECTOR: Vectors = np.empty(0, np.float32)


def is_approximate(settings: ServerSettings) -> bool:
    """Tell whether the settings ask for an approximate index."""
    return settings.quantized or settings.hnsw_m is not None or settings.hnsw_ef_construct is not None


def shard_config(dimension: int, settings: ServerSettings) -> edge.EdgeConfig:
    """Give the configuration of a shard."""
    vectors = edge.EdgeVectorParams(
        size=dimension,
        distance=edge.Distance.Cosine,
        memory=edge.Memory.Cold if settings.vectors_on_disk else None,
        quantization_config=edge.ScalarQuantizationConfig(edge.ScalarType.Int8)
        if settings.quantized
        else None,
    )
    # No log: it would write every point twice. Whatever an interrupted writing lost is found missing and sent again.
    if not is_approximate(settings):
        return edge.EdgeConfig(vectors=vectors, wal_enabled=False)
    # Whoever asks for the index gets it whatever the size: the engine's own thresholds would pass small ones over.
    return edge.EdgeConfig(
        vectors=vectors,
        wal_enabled=False,
        hnsw_config=edge.HnswIndexConfig(settings.hnsw_m or 16, settings.hnsw_ef_construct or 100, 10),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1),
    )


def edge_filter(filter: Filter) -> edge.Filter | None:
    """Give a filter in the engine's terms; None where everything is allowed."""
    conditions: list[Any] = [
        edge.FieldCondition(key=name, match=edge.MatchAny(any=list(values)))
        for name, values in filter.items()
    ]
    return edge.Filter(must=conditions) if conditions else None


def edge_points(points: Sequence[Point], vectors: Vectors) -> list[edge.Point]:
    """Give points in the engine's terms, with rows of `vectors` of shape (n, dimension)."""
    # The engine reads any sequence of numbers; lists would be made only to be read once.
    return [
        edge.Point(point.id, cast("list[float]", memoryview(vector)), point.payload)
        for point, vector in zip(points, vectors, strict=True)
    ]


def our_point(record: edge.Record) -> Point:
    """Give a stored point in our terms."""
    stored, payload = record.vector, record.payload
    vector = _NO_VECTOR if stored is None else np.asarray(stored, dtype=np.float32)
    return Point(str(record.id), vector, payload or {})
