"""Made rankings and judgments of known size, the same at every call.

``marco`` has the shape of MS MARCO passage retrieval: many queries, deep rankings, about one relevant passage each.
``dl`` has that of the TREC deep learning track: few queries, deep rankings, about 100 graded judgments each. Files
are ordered as retrieval systems write them, query by query and best first; no two scores of a query are equal and
every judged query has a ranking, so that all tools agree on every figure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).resolve().parent / "workloads"
DEPTH = 1000
CORPUS = 8_841_823
SEED = 20240611


@dataclass(frozen=True)
class Spec:
    """Size of a workload."""

    queries: int
    highest_query: int


SPECS = {"marco": Spec(6980, 1_102_432), "dl": Spec(200, 1_136_962)}


def ensure(name: str) -> Path:
    """Make the files of a workload unless they are there, and give their folder."""
    folder = FOLDER / name
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, *_tables(name))
        (folder / "complete").touch()
    return folder


def _tables(name: str) -> tuple[pa.Table, pa.Table]:
    spec = SPECS[name]
    source = np.random.default_rng([SEED, spec.queries])
    queries = np.sort(source.choice(spec.highest_query, spec.queries, replace=False)) + 1
    fill = _few_relevant if name == "marco" else _many_graded
    documents = np.empty((spec.queries, DEPTH), np.int64)
    judged: list[tuple[int, int, int]] = []
    for place, query in enumerate(queries.tolist()):
        ranked, grades = fill(source)
        documents[place] = ranked
        judged += [(query, document, grade) for document, grade in grades]
    steps = source.integers(1, 4000, documents.shape)
    scores = (
        steps[:, ::-1].cumsum(axis=1)[:, ::-1] + source.integers(1000, 900_000, (spec.queries, 1))
    ) / 1e5
    run = pa.table(
        {
            "query_id": pa.array(np.repeat(queries, DEPTH)).cast(pa.string()),
            "document_id": pa.array(documents.ravel()).cast(pa.string()),
            "rank": np.tile(np.arange(1, DEPTH + 1, dtype=np.int32), spec.queries),
            "score": scores.ravel(),
        }
    )
    columns = [pa.array(column) for column in zip(*judged, strict=True)]
    qrels = pa.table(
        {
            "query_id": columns[0].cast(pa.string()),
            "document_id": columns[1].cast(pa.string()),
            "grade": columns[2].cast(pa.int32()),
        }
    )
    return run, qrels


def _distinct(source: np.random.Generator, n: int) -> np.ndarray:
    found = np.unique(source.integers(0, CORPUS, n + 32))
    return source.permutation(found)[:n]


def _few_relevant(source: np.random.Generator) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """One relevant document, seldom two or three; 86 % of them in the ranking, rather near its top."""
    n_relevant = 1 + (source.random() < 0.06) + (source.random() < 0.01)
    documents = _distinct(source, DEPTH + n_relevant)
    ranked, relevant = documents[:DEPTH].copy(), documents[DEPTH:]
    for document in relevant:
        place = min(int(DEPTH ** source.random()) - 1, DEPTH - 1)
        if source.random() < 0.86 and ranked[place] not in relevant:
            ranked[place] = document
    return ranked, [(int(document), 1) for document in relevant]


def _many_graded(source: np.random.Generator) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """80 to 120 judgments with grades 0 to 3, about 70 % of them in the ranking, better ones nearer its top."""
    n = int(source.integers(80, 121))
    documents = _distinct(source, DEPTH + n)
    wanted = int(0.7 * n)
    places = np.unique((source.random(2 * wanted) ** 2.5 * DEPTH).astype(int))
    places = source.permutation(places)[:wanted]
    near, far, outside = (0.25, 0.25, 0.3, 0.2), (0.45, 0.25, 0.2, 0.1), (0.7, 0.15, 0.1, 0.05)
    grades = [
        (int(documents[place]), int(source.choice(4, p=near if place <= 50 else far)))
        for place in places.tolist()
    ]
    unranked = documents[DEPTH : DEPTH + n - len(places)]
    grades += [(int(document), int(source.choice(4, p=outside))) for document in unranked]
    return documents[:DEPTH], grades


def _write(folder: Path, run: pa.Table, qrels: pa.Table) -> None:
    pq.write_table(run, folder / "run.parquet")
    pq.write_table(qrels, folder / "qrels.parquet")
    with (folder / "run.trec").open("w") as stream:
        stream.writelines(f"{q} Q0 {d} {rank} {score:.5f} made\n" for q, d, rank, score in _rows(run))
    with (folder / "qrels.trec").open("w") as stream:
        stream.writelines(f"{q} 0 {d} {grade}\n" for q, d, grade in _rows(qrels))


def _rows(table: pa.Table) -> Iterator[tuple]:
    for batch in table.to_batches(max_chunksize=1 << 18):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
