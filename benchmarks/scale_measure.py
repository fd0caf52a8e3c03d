"""One measurement in a fresh process: ``python -m benchmarks.scale_measure TASK DATA_SET_FOLDER OUTPUTS``.

Prints JSON with what was done; CPU time and peak memory of the process are taken by whoever started it.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.made import CHUNKING, PASSAGES, MadeEmbedder, rows

KS = (1, 3, 5, 10)
DEPTH = 20
BATCH = 500
UPDATE = 64  # points that both sides hand to the engine at once, the fastest number
FIELDS = ("chunking_version", "document_type", "publication_state")
ALLOWED = {"chunking_version": CHUNKING, "document_type": "runbook", "publication_state": "published"}


def floor_index(folder: Path, outputs: Path) -> dict[str, Any]:
    """The same points straight into the engine: read, convert, write, flush."""
    import uuid

    import qdrant_edge as edge

    shard = edge.EdgeShard.create(
        str(outputs / "shard"),
        edge.EdgeConfig(vectors=edge.EdgeVectorParams(size=768, distance=edge.Distance.Cosine)),
    )
    for field in FIELDS:
        shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
    number = 0
    with (folder / "documents.jsonl").open(encoding="utf-8") as stream:
        points: list[edge.Point] = []
        for line in stream:
            document = json.loads(line)
            vectors = rows(folder / "passage.f32", list(range(number, number + PASSAGES))).tolist()
            for part, text in enumerate(document["body"].split("\n\n")[1::2]):
                payload = {
                    "document_id": document["document_id"],
                    "chunking_version": CHUNKING,
                    "chunk_id": f"part-{part}/p0",
                    "title": document["title"],
                    "document_type": document["document_type"],
                    "publication_state": document["publication_state"],
                    "text": text,
                    "words": len(text.split()),
                }
                name = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{document['document_id']} part-{part}/p0"))
                points.append(edge.Point(name, vectors[part], payload))
                number += 1
            if len(points) >= UPDATE:
                shard.update(edge.UpdateOperation.upsert_points(points))
                points = []
    if points:
        shard.update(edge.UpdateOperation.upsert_points(points))
    shard.flush()
    shard.close()
    return {"points": number}


def floor_evaluate(folder: Path, outputs: Path) -> dict[str, Any]:
    """The same searches straight from the engine, hits dropped as they come; CPU seconds after each limit."""
    import numpy as np
    import qdrant_edge as edge

    shard = edge.EdgeShard.load(str(outputs / "shard"))
    filter = edge.Filter(
        must=[
            edge.FieldCondition(key=name, match=edge.MatchAny(any=[value])) for name, value in ALLOWED.items()
        ]
    )
    vectors = np.fromfile(folder / "question.f32", np.float32).reshape(-1, 768)
    hits, spent = 0, {}
    for limit in (*KS, DEPTH):
        for first in range(0, len(vectors), BATCH):
            requests = [
                edge.QueryRequest(
                    query=edge.Query.Nearest(vector), filter=filter, limit=limit, with_payload=True
                )
                for vector in vectors[first : first + BATCH].tolist()
            ]
            for answer in shard.query_batch(edge.QueryBatchRequest(requests)):
                hits += len([(str(hit.id), hit.score, hit.payload) for hit in answer])
        spent[limit] = time.process_time()
    shard.close()
    return {"hits": hits, "cpu": spent}


def our_index(folder: Path, outputs: Path, live: bool = False) -> dict[str, Any]:
    """Index the data set by `evalkit.indexing.index`, with the CPU seconds of its main parts."""
    os.environ["EVALKIT_OUTPUTS"] = str(outputs)
    from evalkit import indexing
    from evalkit.settings import IndexSettings

    indexing.open_embedder = lambda *_: MadeEmbedder(folder, live)
    spent: dict[str, float] = {}
    parts = {"load_labelled": "labels", "write": "writing", "verify_collection": "verification"}
    for name, part in parts.items():
        setattr(indexing, name, _timed(getattr(indexing, name), part, spent))
    report = indexing.index(IndexSettings.checked(dataset=str(folder)))
    return {"points": report.counts["sent"], "timings": report.timings, "cpu": spent}


def our_evaluate(folder: Path, outputs: Path) -> dict[str, Any]:
    """Evaluate and store the run, with the CPU seconds of each stage."""
    os.environ["EVALKIT_OUTPUTS"] = str(outputs)
    from evalkit import evaluation
    from evalkit.measures import means
    from evalkit.runs import write_run
    from evalkit.settings import EvaluateSettings

    evaluation.open_embedder = lambda *_: MadeEmbedder(folder)
    begun: list[tuple[str, float]] = []
    settings = EvaluateSettings.checked(dataset=str(folder), ks=KS, depth=DEPTH, deadline=36_000.0)
    done = evaluation.evaluate(settings, lambda stage: begun.append((stage, time.process_time())))
    begun.append(("record", time.process_time()))
    write_run(done)
    begun.append(("", time.process_time()))
    spent = {stage: later[1] - start for (stage, start), later in pairwise(begun)}
    means_of = means(done.scores).round(6).to_dict("list")
    return {
        "cpu": spent,
        "timings": done.record.timings,
        "means": means_of,
        "checks": done.record.checks.exact_search,
    }


def _timed(function: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    def timed(*values: Any, **more: Any) -> Any:
        start = time.process_time()
        found = function(*values, **more)
        spent[name] = time.process_time() - start
        return found

    return timed


TASKS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "floor index": floor_index,
    "evalkit index": our_index,
    "evalkit index live": lambda folder, outputs: our_index(folder, outputs, live=True),
    "floor evaluate": floor_evaluate,
    "evalkit evaluate": our_evaluate,
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))))
