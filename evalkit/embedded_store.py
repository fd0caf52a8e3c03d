"""Qdrant Edge: the engine in this process, one folder a collection under ``outputs/collections/``."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

import qdrant_edge as edge

from evalkit import paths
from evalkit.edge_shards import HeldElsewhere, Shard, engine_errors, require_space
from evalkit.edge_values import edge_filter, edge_points, is_approximate, our_point, shard_config
from evalkit.embedding import Vectors
from evalkit.errors import InfrastructureError, InputError
from evalkit.files import TEMPORARY, disk_errors, sweep, write_whole
from evalkit.points import READ, CollectionState, Filter, Hit, Point, point_vectors
from evalkit.settings import ServerSettings
from evalkit.transport import Deadline

LOCK_WAIT = 10.0
"""Seconds to wait for another process that holds a collection."""

FLUSH = 10_000
"""Points after which the engine writes them to the disk; what a killed process loses is sent again."""

UPDATE = 64
"""Points that the engine takes at once: as many as stay in the processor's cache."""

_STATE = "state.json"
_SHARD = "shard"
_DIMENSION = "dimension"
_APPROXIMATE = "approximate"


class EmbeddedStore:
    """The store protocol (see `evalkit.points.Store`) over Qdrant Edge.

    Parameters
    ----------
    folder
        Holds one folder a collection; default ``outputs/collections``.
    """

    kind: Literal["embedded", "server"] = "embedded"

    def __init__(self, folder: Path | None = None, deadline: Deadline | None = None) -> None:
        self.folder = (folder or paths.outputs() / "collections").absolute()
        self.version = version("qdrant-edge-py")
        self._deadline = deadline or Deadline()
        self._requests = 0
        self._shards: dict[str, Shard] = {}
        self._dimensions: dict[str, int] = {}
        self._unflushed: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all collections; the folder of each is free when nobody else in this process uses it."""
        self._shards.clear()

    @property
    def counts(self) -> dict[str, int]:
        """Count calls of the engine; none is ever repeated."""
        return {"store_requests": self._requests, "store_retries": 0}

    def _place(self, collection: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", collection):
            raise InputError(
                f"collection name {collection!r} refused; use letters, digits, '.', '_' and '-', at most 200"
            )
        return self.folder / collection

    def _open(self, collection: str) -> Shard:
        try:
            return Shard.at(self._place(collection) / _SHARD, min(LOCK_WAIT, self._deadline.remaining()))
        except HeldElsewhere:
            raise self._held(collection) from None

    def _held(self, collection: str) -> InfrastructureError:
        return InfrastructureError(
            f"collection folder {self._place(collection)} is held by another process, after a wait of "
            f"{LOCK_WAIT:g} s too; wait until its indexing or evaluation ends, or shut down the other notebook's "
            "kernel (JupyterLab: Running Terminals and Kernels), then run again"
        )

    def _engine(self, collection: str) -> edge.EdgeShard:
        shard = self._shards.get(collection)
        if shard is None or shard.closed:
            place = self._place(collection)
            if not (place / _SHARD).is_dir():
                if (place / _STATE).is_file():
                    raise InputError(
                        f"collection folder {place} is damaged, it holds no {_SHARD}/; index the data set again with "
                        "recreate (--recreate)"
                    )
                raise InputError(f"no collection {collection!r} in {self.folder}; index it first")
            shard = self._shards[collection] = self._open(collection)
        self._deadline.check(f"using collection {collection!r}")
        self._requests += 1
        return shard.engine

    def collections(self) -> list[str]:
        """List the names of all collections, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and path.name[0] != ".")

    def exists(self, collection: str) -> bool:
        """Tell whether there is a folder of this name."""
        return self._place(collection).is_dir()

    def create(
        self, collection: str, dimension: int, state: CollectionState, settings: ServerSettings
    ) -> tuple[str, ...]:
        """Make the folder whole under another name, then rename it: there is no collection without its state."""
        place = self._place(collection)
        taken = InputError(
            f"collection {collection!r} exists in {self.folder}; index with recreate to replace it"
        )
        if place.exists():
            raise taken
        with disk_errors(place):
            self.folder.mkdir(parents=True, exist_ok=True)
            sweep(self.folder)
            require_space(self.folder)
            made = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=self.folder))
        try:
            with engine_errors(f"creating collection {collection!r}"):
                edge.EdgeShard.create(str(made / _SHARD), shard_config(dimension, settings)).close()
            own = {_DIMENSION: dimension, _APPROXIMATE: is_approximate(settings)}
            write_whole(made / _STATE, _as_text(state.as_json() | own))
            with disk_errors(place):
                made.chmod(0o755)
                try:
                    made.rename(place)  # refused by the system when another process was faster
                except OSError:
                    if place.exists():
                        raise taken from None
                    raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return tuple(
            f"the embedded engine has no setting {name!r}: {getattr(settings, name)} is ignored"
            for name in ("shards", "replicas", "parallel")
            if getattr(settings, name) not in (None, 1)
        )

    def index_fields(self, collection: str, fields: Sequence[str]) -> None:
        """Make a keyword index on each payload field that has none."""
        engine = self._engine(collection)
        with engine_errors(f"indexing payload fields of collection {collection!r}"):
            there = engine.info().payload_schema
            for name in fields:
                if name not in there:
                    engine.update(
                        edge.UpdateOperation.create_field_index(name, edge.PayloadSchemaType.Keyword)
                    )

    def drop(self, collection: str) -> None:
        """Remove the folder; what another process holds is left alone with an error."""
        place = self._place(collection)
        if not place.exists():
            return
        self._shards.pop(collection, None)
        self._dimensions.pop(collection, None)
        self._unflushed.pop(collection, None)
        if (place / _SHARD).is_dir():
            self._close_everywhere(collection)
        with disk_errors(place):
            gone = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=self.folder))
            place.rename(gone / collection)
            shutil.rmtree(gone)

    def _close_everywhere(self, collection: str) -> None:
        try:
            Shard.at(self._place(collection) / _SHARD, min(LOCK_WAIT, self._deadline.remaining())).close()
        except HeldElsewhere:
            raise self._held(collection) from None
        except InfrastructureError:
            pass  # a shard that cannot be opened is nobody's, and what one wants to drop

    def _stored(self, collection: str) -> dict[str, Any] | None:
        file = self._place(collection) / _STATE
        if not file.is_file():
            return None
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InputError(
                f"{file} is not readable ({error}); index the collection again with recreate"
            ) from None
        return stored if isinstance(stored, dict) else {}

    def read_state(self, collection: str) -> CollectionState | None:
        """Read the state file; works while another process holds the collection."""
        stored = self._stored(collection)
        where = str(self._place(collection) / _STATE)
        return None if stored is None else CollectionState.from_json(stored, where)

    def write_state(self, collection: str, state: CollectionState) -> None:
        """Replace the state file, with the folder held so that nobody else is writing to it."""
        self._engine(collection)
        own = self._stored(collection) or {}
        write_whole(self._place(collection) / _STATE, _as_text(own | state.as_json()))

    def dimension(self, collection: str) -> int:
        """Tell the size of the collection's vectors."""
        if collection not in self._dimensions:
            dimension = (self._stored(collection) or {}).get(_DIMENSION)
            if not isinstance(dimension, int):
                raise InputError(
                    f"{self._place(collection) / _STATE} names no dimension; index the collection again with recreate"
                )
            self._dimensions[collection] = dimension
        return self._dimensions[collection]

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write points; they outlast this process once it has closed the collection or written `FLUSH` of them."""
        if not points:
            return
        engine = self._engine(collection)
        vectors = point_vectors(points, self.dimension(collection))
        # Titles and ids find their room within what is kept free at all times.
        texts = sum(len(str(point.payload.get("text"))) for point in points)
        with engine_errors(f"writing {len(points)} points to collection {collection!r}"):
            require_space(self._place(collection), vectors.nbytes + texts)
            for first in range(0, len(points), UPDATE):
                part = slice(first, first + UPDATE)
                engine.update(edge.UpdateOperation.upsert_points(edge_points(points[part], vectors[part])))
            self._unflushed[collection] += len(points)
            if self._unflushed[collection] >= FLUSH:
                engine.flush()
                self._unflushed[collection] = 0

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Delete points by id."""
        if ids:
            engine = self._engine(collection)
            with engine_errors(f"deleting {len(ids)} points of collection {collection!r}"):
                engine.update(edge.UpdateOperation.delete_points(list(ids)))

    def count(self, collection: str, filter: Filter | None = None) -> int:
        """Count points exactly."""
        engine = self._engine(collection)
        with engine_errors(f"counting collection {collection!r}"):
            return engine.count(edge.CountRequest(exact=True, filter=edge_filter(filter or {})))

    def scroll(self, collection: str, *, vectors: bool) -> Iterator[Point]:
        """Read every point, in order of id."""
        offset = None
        while True:
            engine = self._engine(collection)
            with engine_errors(f"reading collection {collection!r}"):
                records, offset = engine.scroll(
                    edge.ScrollRequest(offset=offset, limit=READ, with_payload=True, with_vector=vectors)
                )
            yield from map(our_point, records)
            if offset is None:
                return

    def retrieve(self, collection: str, ids: Sequence[str], *, vectors: bool) -> list[Point]:
        """Read points by id; unknown ids are missing from the answer."""
        engine = self._engine(collection)
        with engine_errors(f"reading collection {collection!r}"):
            return [our_point(record) for record in engine.retrieve(list(ids), True, vectors)]

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
        """Ask for the nearest points of each vector in one batch."""
        engine = self._engine(collection)
        params = edge.SearchParams(
            hnsw_ef=hnsw_ef,
            exact=exact,
            quantization=edge.QuantizationSearchParams(ignore=exact, rescore=True),
        )
        conditions = edge_filter(filter)
        requests = [
            edge.QueryRequest(
                query=edge.Query.Nearest(vector.tolist()),
                filter=conditions,
                limit=limit,
                score_threshold=threshold,
                params=params,
                with_payload=True,
            )
            for vector in vectors
        ]
        with engine_errors(f"querying collection {collection!r}"):
            answers = engine.query_batch(edge.QueryBatchRequest(requests))
        # The engine gives a float32 as the Python float of the same value.
        return [[Hit(str(hit.id), hit.score, hit.payload or {}) for hit in answer] for answer in answers]

    def is_exact(self, collection: str) -> bool:
        """Tell whether there is no approximate index, so that every search is exact."""
        engine = self._engine(collection)
        with engine_errors(f"reading collection {collection!r}"):
            return engine.info().indexed_vectors_count == 0

    def finish(self, collection: str) -> None:
        """Flush; build the approximate index if the collection was created with one.

        Without it every search is exact: 6 ms a question for 100,000 passages of 768 numbers on two cores, where
        building the index takes many minutes, during which the engine holds the interpreter.
        """
        engine = self._engine(collection)
        with engine_errors(f"optimizing collection {collection!r}"):
            require_space(self._place(collection))
            engine.flush()
            if (self._stored(collection) or {}).get(_APPROXIMATE):
                engine.optimize()


def _as_text(stored: dict[str, Any]) -> str:
    return json.dumps(stored, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
