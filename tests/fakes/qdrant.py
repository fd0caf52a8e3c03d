"""A small Qdrant server: the embedded engine behind the parts of the REST API that evalkit uses, over real HTTP.

`tests.fakes.qdrant_grpc` puts gRPC in front of the same engine.
"""

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from tests.fakes.http import FakeServer, Reply, Request

HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
OPTIMIZER = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "flush_interval_sec": 5,
}


class Refusal(Exception):
    """What the server refuses, with the status of the REST API."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Collection:
    def __init__(self, folder: Path, body: dict[str, Any]) -> None:
        vectors = body["vectors"]
        if vectors["distance"] != "Cosine":
            raise Refusal(400, "the fake knows only Cosine")
        self.body = body
        self.metadata = dict(body.get("metadata") or {})
        self.shard = edge.EdgeShard.create(
            str(folder),
            edge.EdgeConfig(
                vectors=edge.EdgeVectorParams(size=vectors["size"], distance=edge.Distance.Cosine)
            ),
        )


class Engine:
    """Collections in a folder; bodies and answers as in the REST API."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.collections: dict[str, Collection] = {}
        self.yellow = 0  # that many times the next collection info says that it is still indexing
        self._lock = threading.RLock()

    def close(self) -> None:
        for collection in self.collections.values():
            collection.shard.close()
        self.collections.clear()

    def find(self, name: str) -> Collection:
        if name not in self.collections:
            raise Refusal(404, f"Not found: Collection `{name}` doesn't exist!")
        return self.collections[name]

    def run(self, operation: Callable[..., Any], *values: Any) -> Any:
        """One operation at a time; complaints of the engine are what the server answers 400 to."""
        with self._lock:
            try:
                return operation(*values)
            except Refusal:
                raise
            except Exception as error:
                if type(error) is not Exception:
                    raise
                raise Refusal(400, f"Wrong input: {error}") from None

    def create(self, name: str, body: dict[str, Any]) -> bool:
        if name in self.collections:
            raise Refusal(409, f"Wrong input: Collection `{name}` already exists!")
        self.collections[name] = Collection(self.folder / uuid.uuid4().hex, body)
        return True

    def drop(self, name: str) -> bool:
        collection = self.collections.pop(name, None)
        if collection is not None:
            collection.shard.close()
        return collection is not None

    def update(self, name: str, body: dict[str, Any]) -> bool:
        metadata = self.find(name).metadata
        for key, value in (body.get("metadata") or {}).items():
            if value is None:
                metadata.pop(key, None)
            else:
                metadata[key] = value
        return True

    def info(self, name: str) -> dict[str, Any]:
        collection = self.find(name)
        body, there = collection.body, collection.shard.info()
        self.yellow, status = max(self.yellow - 1, 0), "yellow" if self.yellow else "green"
        params = {
            name: body[name] for name in ("vectors", "shard_number", "replication_factor") if body.get(name)
        }
        return {
            "status": status,
            "optimizer_status": "ok",
            "points_count": there.points_count,
            "indexed_vectors_count": there.indexed_vectors_count,
            "segments_count": there.segments_count,
            "config": {
                "params": params,
                "hnsw_config": HNSW
                | {k: v for k, v in (body.get("hnsw_config") or {}).items() if v is not None},
                "optimizer_config": OPTIMIZER,
                "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
                "quantization_config": body.get("quantization_config"),
                "metadata": collection.metadata or None,
            },
            "payload_schema": {
                name: {"data_type": "keyword", "points": index.points}
                for name, index in there.payload_schema.items()
            },
        }

    def index(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if body["field_schema"] != "keyword":
            raise Refusal(400, "the fake knows only keyword indexes")
        return self._updated(
            name, edge.UpdateOperation.create_field_index(body["field_name"], edge.PayloadSchemaType.Keyword)
        )

    def upsert(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        points = [edge.Point(point["id"], point["vector"], point.get("payload")) for point in body["points"]]
        return self._updated(name, edge.UpdateOperation.upsert_points(points))

    def delete(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._updated(name, edge.UpdateOperation.delete_points(body["points"]))

    def _updated(self, name: str, operation: edge.UpdateOperation) -> dict[str, Any]:
        self.find(name).shard.update(operation)
        return {"operation_id": 1, "status": "completed"}

    def count(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        request = edge.CountRequest(exact=body["exact"], filter=_filter(body.get("filter")))
        return {"count": self.find(name).shard.count(request)}

    def scroll(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        records, offset = self.find(name).shard.scroll(
            edge.ScrollRequest(
                offset=body.get("offset"),
                limit=body["limit"],
                with_payload=body["with_payload"],
                with_vector=body["with_vector"],
            )
        )
        return {
            "points": list(map(_record, records)),
            "next_page_offset": None if offset is None else str(offset),
        }

    def retrieve(self, name: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        records = self.find(name).shard.retrieve(body["ids"], body["with_payload"], body["with_vector"])
        return list(map(_record, records))

    def query_batch(self, name: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        requests = [_query(search) for search in body["searches"]]
        answers = self.find(name).shard.query_batch(edge.QueryBatchRequest(requests))
        return [{"points": [_hit(hit) for hit in answer]} for answer in answers]


def _filter(body: dict[str, Any] | None) -> edge.Filter | None:
    if not body:
        return None
    assert {name for name, conditions in body.items() if conditions} == {"must"}, body
    return edge.Filter(
        must=[
            edge.FieldCondition(key=one["key"], match=edge.MatchAny(any=one["match"]["any"]))
            for one in body["must"]
        ]
    )


def _query(search: dict[str, Any]) -> edge.QueryRequest:
    params = search.get("params") or {}
    query = search["query"]
    assert not params.get("indexed_only"), "results would be lost"
    return edge.QueryRequest(
        query=edge.Query.Nearest(query["nearest"] if isinstance(query, dict) else query),
        filter=_filter(search.get("filter")),
        limit=search["limit"],
        score_threshold=search.get("score_threshold"),
        with_payload=search["with_payload"],
        params=edge.SearchParams(exact=params.get("exact") or False, hnsw_ef=params.get("hnsw_ef")),
    )


def _record(record: edge.Record) -> dict[str, Any]:
    return {"id": str(record.id), "payload": record.payload, "vector": record.vector}


def _hit(hit: edge.ScoredPoint) -> dict[str, Any]:
    return {"id": str(hit.id), "version": hit.version, "score": hit.score, "payload": hit.payload}


class FakeQdrant(FakeServer):
    """Qdrant's REST API on a free port.

    Parameters
    ----------
    folder
        Where the engine keeps its collections.
    key
        API key that every request but the one for the version must carry.
    version
        What the server says it is.
    """

    def __init__(self, folder: Path, key: str | None = None, version: str = "1.16.0") -> None:
        super().__init__()
        self.engine = Engine(folder)
        self.key = key
        self.version = version

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self.engine.close()

    def answer(self, request: Request) -> Reply:
        parts = request.path.strip("/").split("/")
        if parts == [""]:
            return Reply(
                {"title": "qdrant - vector search engine", "version": self.version, "commit": "fake"}
            )
        if self.key is not None and request.headers.get("api-key") != self.key:
            return Reply(b"Invalid API key or JWT", 401, {"Content-Type": "text/plain"})
        try:
            result = self._route(request.method, parts, request.body or {})
        except Refusal as refusal:
            return Reply({"status": {"error": str(refusal)}, "time": 0.0}, refusal.status)
        return Reply({"result": result, "status": "ok", "time": 0.0})

    def _route(self, method: str, parts: list[str], body: dict[str, Any]) -> Any:
        engine = self.engine
        match method, parts:
            case "GET", ["collections"]:
                return {"collections": [{"name": name} for name in list(engine.collections)]}
            case "GET", ["collections", name, "exists"]:
                return {"exists": name in engine.collections}
            case "GET", ["collections", name]:
                return engine.run(engine.info, name)
            case "DELETE", ["collections", name]:
                return engine.run(engine.drop, name)
        operations: dict[tuple[str, ...], Callable[..., Any]] = {
            ("PUT",): engine.create,
            ("PATCH",): engine.update,
            ("PUT", "index"): engine.index,
            ("PUT", "points"): engine.upsert,
            ("POST", "points"): engine.retrieve,
            ("POST", "points", "delete"): engine.delete,
            ("POST", "points", "count"): engine.count,
            ("POST", "points", "scroll"): engine.scroll,
            ("POST", "points", "query", "batch"): engine.query_batch,
        }
        operation = operations.get((method, *parts[2:]))
        if operation is None or parts[0] != "collections":
            raise Refusal(404, f"the fake does not know {method} /{'/'.join(parts)}")
        return engine.run(operation, parts[1], body)
