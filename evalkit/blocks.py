"""Rankings in blocks of whole queries, so that a ranking of any size is read in bounded memory."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalkit.ids import BLOCK_ROWS, Ids, as_arrow, as_numpy, changes, take, values_at

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_PARTITIONS = 64
_PARTITION_ROWS = 1 << 20


class Block(NamedTuple):
    """Rankings of some queries, each whole.

    Attributes
    ----------
    queries
        Ids of the queries, length m.
    bounds
        int64, shape (m + 1,): query i has the rows ``bounds[i]:bounds[i + 1]``.
    documents
        Ids, shape (n,).
    scores
        float64, shape (n,), higher is better.
    """

    queries: list[Any]
    bounds: NDArray[np.int64]
    documents: Ids
    scores: NDArray[np.float64]


class Scattered(Exception):
    """The rows of a query do not stand together."""


def of_columns(queries: Ids, documents: Ids, scores: NDArray[np.float64]) -> Block:
    """Make a block of columns in which the rows of a query stand together."""
    starts = np.flatnonzero(changes(queries)) + 1
    bounds = np.concatenate(([0], starts, [len(queries)])) if len(queries) else np.zeros(1, np.int64)
    return Block(values_at(queries, bounds[:-1]), bounds, documents, scores)


def slices(block: Block) -> Iterator[Block]:
    """Cut a block into smaller ones of about `BLOCK_ROWS` rows, each of whole queries."""
    first = 0
    while first < len(block.queries):
        wanted = block.bounds[first] + BLOCK_ROWS
        last = max(int(np.searchsorted(block.bounds, wanted, side="right")) - 1, first + 1)
        low, high = block.bounds[first], block.bounds[last]
        yield Block(
            block.queries[first:last],
            block.bounds[first : last + 1] - low,
            block.documents[low:high],
            block.scores[low:high],
        )
        first = last


def together(queries: Ids, documents: Ids, scores: NDArray[np.float64]) -> Block:
    """Make a block of columns in any order; rows of a query keep their order."""
    block = of_columns(queries, documents, scores)
    if len(set(block.queries)) == len(block.queries):
        return block
    numbers: dict[Any, int] = {}
    runs = np.array([numbers.setdefault(query, len(numbers)) for query in block.queries])
    order = np.argsort(np.repeat(runs, np.diff(block.bounds)), kind="stable")
    return of_columns(take(queries, order), take(documents, order), scores[order])


def whole_queries(batches: "Iterable[pa.RecordBatch]") -> Iterator[Block]:
    """Regroup batches so that each query is whole.

    Parameters
    ----------
    batches
        Columns ``query_id``, ``document_id`` (text) and ``score`` (float64), rows of a query together.

    Yields
    ------
    Block
        In the order of the batches.

    Raises
    ------
    Scattered
        A query comes again after another one; `gathered` reads such a ranking.
    """
    closed: set[str] = set()
    open_query: str | None = None
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        queries = batch.column(0)
        begins = np.append(0, np.flatnonzero(changes(queries)) + 1)
        names = values_at(queries, begins)
        _close(closed, names if names[0] != open_query else names[1:])
        if pending and names[0] != open_query:
            yield _one_query(open_query, pending)
            pending = []
        open_query = names[-1]
        if len(names) == 1:
            pending.append(batch)
            continue
        yield _one_query(names[0], [*pending, batch.slice(0, begins[1])])
        if len(names) > 2:
            whole = batch.slice(begins[1], begins[-1] - begins[1])
            yield Block(names[1:-1], begins[1:] - begins[1], whole.column(1), as_numpy(whole.column(2)))
        pending = [batch.slice(begins[-1])]
    if pending:
        yield _one_query(open_query, pending)


def _close(closed: set[str], names: list[str]) -> None:
    before = len(closed)
    closed.update(names)
    if len(closed) != before + len(names):
        raise Scattered


def _one_query(name: str | None, batches: "list[pa.RecordBatch]") -> Block:
    import pyarrow as pa

    _, documents, scores = (part.combine_chunks() for part in pa.Table.from_batches(batches).columns)
    return Block([name], np.array([0, len(documents)]), documents, as_numpy(scores))


def gathered(batches: "Iterable[pa.RecordBatch]") -> Iterator[Block]:
    """Regroup batches in which the rows of a query are scattered, by way of temporary files.

    Parameters
    ----------
    batches
        As for `whole_queries`, rows in any order.

    Yields
    ------
    Block
        Whole queries in no particular order; rows of a query keep their order.
    """
    import tempfile
    from pathlib import Path

    import pyarrow as pa

    with tempfile.TemporaryDirectory(prefix="evalkit-") as folder:
        for part in _partitions(batches, Path(folder)):
            with pa.memory_map(str(part)) as source, pa.ipc.open_stream(source) as stored:
                columns = stored.read_all().columns
            queries, documents, scores = (part.combine_chunks() for part in columns)
            yield from slices(together(queries, documents, as_numpy(scores)))


def _partitions(batches: "Iterable[pa.RecordBatch]", folder: "Path") -> "list[Path]":
    """Write the rows of a query into one file out of many, the same for all its rows."""
    import pyarrow as pa

    writers: dict[int, pa.RecordBatchStreamWriter] = {}
    waiting: list[pa.RecordBatch] = []
    try:
        for batch in batches:
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= _PARTITION_ROWS:
                _write_parts(waiting, writers, folder)
                waiting = []
        if waiting:
            _write_parts(waiting, writers, folder)
    finally:
        for writer in writers.values():
            writer.close()
    return sorted(folder.iterdir())


def _write_parts(waiting: "list[pa.RecordBatch]", writers: "dict[int, Any]", folder: "Path") -> None:
    import zlib

    import pyarrow as pa

    table = pa.Table.from_batches(waiting)
    coded = table.column(0).combine_chunks().dictionary_encode()
    part_of = np.array([zlib.crc32(query.encode()) % _PARTITIONS for query in coded.dictionary.to_pylist()])
    parts = part_of[as_numpy(coded.indices)]
    for part in np.unique(parts).tolist():
        if part not in writers:
            writers[part] = pa.ipc.new_stream(str(folder / f"{part:02d}.arrows"), table.schema)
        writers[part].write_table(table.take(as_arrow(np.flatnonzero(parts == part))))
