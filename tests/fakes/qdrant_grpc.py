"""gRPC in front of the fake Qdrant's engine: the client's servicers, messages turned to REST bodies and back."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, Self

import grpc
from qdrant_client import grpc as messages
from qdrant_client import models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc.collections_service_pb2_grpc import (
    CollectionsServicer,
    add_CollectionsServicer_to_server,
)
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server
from qdrant_client.grpc.qdrant_pb2_grpc import QdrantServicer, add_QdrantServicer_to_server

from tests.fakes.qdrant import Engine, Refusal

CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
}


def answers(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def answered(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        fake = self.fake
        fake.calls.append(method.__name__)
        if fake.key is not None and dict(context.invocation_metadata()).get("api-key") != fake.key:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid API key or JWT")
        if fake.failures:
            context.abort(fake.failures.pop(0), "made error")
        try:
            return method(self, request)
        except Refusal as refusal:
            context.abort(CODES[refusal.status], str(refusal))

    return answered


class _Servicer:
    def __init__(self, fake: "FakeQdrantGrpc") -> None:
        self.fake = fake
        self.engine = fake.engine


class _Root(_Servicer, QdrantServicer):
    def HealthCheck(self, request: Any, context: grpc.ServicerContext) -> Any:
        return messages.HealthCheckReply(title="qdrant - vector search engine", version=self.fake.version)


class _Collections(_Servicer, CollectionsServicer):
    @answers
    def Create(self, request: Any) -> Any:
        body = {
            "vectors": _plain(GrpcToRest.convert_vectors_config(request.vectors_config)),
            "metadata": GrpcToRest.convert_payload(request.metadata),
        }
        done = self.engine.run(self.engine.create, request.collection_name, body)
        return messages.CollectionOperationResponse(result=done)

    @answers
    def Update(self, request: Any) -> Any:
        body = {"metadata": GrpcToRest.convert_payload(request.metadata)}
        done = self.engine.run(self.engine.update, request.collection_name, body)
        return messages.CollectionOperationResponse(result=done)

    @answers
    def Delete(self, request: Any) -> Any:
        done = self.engine.run(self.engine.drop, request.collection_name)
        return messages.CollectionOperationResponse(result=done)

    @answers
    def Get(self, request: Any) -> Any:
        info = models.CollectionInfo(**self.engine.run(self.engine.info, request.collection_name))
        return messages.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(info))

    @answers
    def List(self, request: Any) -> Any:
        names = [messages.CollectionDescription(name=name) for name in self.engine.collections]
        return messages.ListCollectionsResponse(collections=names)

    @answers
    def CollectionExists(self, request: Any) -> Any:
        exists = request.collection_name in self.engine.collections
        return messages.CollectionExistsResponse(result=messages.CollectionExists(exists=exists))


class _Points(_Servicer, PointsServicer):
    @answers
    def Upsert(self, request: Any) -> Any:
        points = [_plain(GrpcToRest.convert_point_struct(point)) for point in request.points]
        return self._updated(self.engine.upsert, request, {"points": points})

    @answers
    def Delete(self, request: Any) -> Any:
        ids = [GrpcToRest.convert_point_id(one) for one in request.points.points.ids]
        return self._updated(self.engine.delete, request, {"points": ids})

    @answers
    def CreateFieldIndex(self, request: Any) -> Any:
        assert request.field_type == messages.FieldType.FieldTypeKeyword
        return self._updated(
            self.engine.index, request, {"field_name": request.field_name, "field_schema": "keyword"}
        )

    def _updated(self, operation: Callable[..., Any], request: Any, body: dict[str, Any]) -> Any:
        assert request.wait
        self.engine.run(operation, request.collection_name, body)
        result = messages.UpdateResult(operation_id=1, status=messages.UpdateStatus.Completed)
        return messages.PointsOperationResponse(result=result)

    @answers
    def Count(self, request: Any) -> Any:
        body = {"exact": request.exact, "filter": _filter(request)}
        return messages.CountResponse(
            result=messages.CountResult(**self.engine.run(self.engine.count, request.collection_name, body))
        )

    @answers
    def Scroll(self, request: Any) -> Any:
        body = {
            "offset": GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None,
            "limit": request.limit,
            "with_payload": request.with_payload.enable,
            "with_vector": request.with_vectors.enable,
        }
        found = self.engine.run(self.engine.scroll, request.collection_name, body)
        after = found["next_page_offset"]
        return messages.ScrollResponse(
            result=[_retrieved(point) for point in found["points"]],
            next_page_offset=None if after is None else RestToGrpc.convert_extended_point_id(after),
        )

    @answers
    def Get(self, request: Any) -> Any:
        ids = [GrpcToRest.convert_point_id(one) for one in request.ids]
        body = {
            "ids": ids,
            "with_payload": request.with_payload.enable,
            "with_vector": request.with_vectors.enable,
        }
        found = self.engine.run(self.engine.retrieve, request.collection_name, body)
        return messages.GetResponse(result=[_retrieved(point) for point in found])

    @answers
    def QueryBatch(self, request: Any) -> Any:
        searches = [_search(query) for query in request.query_points]
        found = self.engine.run(self.engine.query_batch, request.collection_name, {"searches": searches})
        return messages.QueryBatchResponse(
            result=[
                messages.BatchResult(
                    result=[
                        RestToGrpc.convert_scored_point(models.ScoredPoint(**hit)) for hit in answer["points"]
                    ]
                )
                for answer in found
            ]
        )


def _plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def _filter(request: Any) -> dict[str, Any] | None:
    return _plain(GrpcToRest.convert_filter(request.filter)) if request.HasField("filter") else None


def _search(query: Any) -> dict[str, Any]:
    return {
        "query": list(query.query.nearest.dense.data),
        "filter": _filter(query),
        "limit": query.limit,
        "score_threshold": query.score_threshold if query.HasField("score_threshold") else None,
        "params": _plain(GrpcToRest.convert_search_params(query.params)),
        "with_payload": query.with_payload.enable,
    }


def _retrieved(point: dict[str, Any]) -> Any:
    return RestToGrpc.convert_record(models.Record(**point))


class FakeQdrantGrpc:
    """Qdrant's gRPC API on a free port of 127.0.0.1; ``failures`` are the status codes of the next calls."""

    def __init__(self, engine: Engine, key: str | None = None, version: str = "1.16.0") -> None:
        self.engine, self.key, self.version = engine, key, version
        self.failures: list[grpc.StatusCode] = []
        self.calls: list[str] = []
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool)
        add_QdrantServicer_to_server(_Root(self), self._server)
        add_CollectionsServicer_to_server(_Collections(self), self._server)
        add_PointsServicer_to_server(_Points(self), self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.stop(None).wait()
        self._pool.shutdown()
        self.engine.close()
