"""TREC runs and qrels, plain, gzipped or as Parquet, read as a stream and written.

A run line is ``query Q0 document rank score tag``, a qrels line ``query 0 document grade``, fields separated by white
space (https://trec.nist.gov/data/qrels_eng/ and trec_eval). Score and not rank orders a run, as in trec_eval. BEIR's
qrels, three tab-separated columns under a heading, are read as well.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from evalkit.columns import column_name, has_column
from evalkit.errors import InputError
from evalkit.ids import offsets_of

_BLOCK = 1 << 20
_LONGEST_LINE = 4 * _BLOCK
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?|[+-]?nan", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True)
class _Layout:
    """Lines of one kind of file."""

    what: str
    fields: tuple[str, ...]
    number: str
    pattern: re.Pattern[str]
    heading: bool = False

    @property
    def types(self) -> dict[str, pa.DataType]:
        kind = pa.float64() if self.number == "score" else pa.int64()
        return {"query_id": pa.string(), "document_id": pa.string(), self.number: kind}


RUN = _Layout("TREC run", ("query_id", "iteration", "document_id", "rank", "score", "tag"), "score", _NUMBER)
QRELS = _Layout("TREC qrels", ("query_id", "iteration", "document_id", "grade"), "grade", _WHOLE)
BEIR_QRELS = _Layout("BEIR qrels", ("query_id", "document_id", "grade"), "grade", _WHOLE, heading=True)


def run_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Read a run as a stream.

    Parameters
    ----------
    path
        TREC run, plain or gzipped, or Parquet with columns for query, document and score (or rank).

    Yields
    ------
    pyarrow.RecordBatch
        Columns ``query_id, document_id`` (text) and ``score`` (float64), in the order of the file.

    Raises
    ------
    InputError
        The file cannot be opened, is empty, or a line is malformed; the text names file and line.
    """
    with _reading(path):
        if _begins(path, b"PAR1"):
            yield from _parquet_batches(path, "score")
        else:
            yield from _text_batches(path, RUN)


def read_qrels(path: Path) -> pa.Table:
    """Read judgments.

    Parameters
    ----------
    path
        TREC qrels, or BEIR qrels, plain or gzipped, or Parquet with columns for query, document and grade.

    Returns
    -------
    pyarrow.Table
        Columns ``query_id, document_id`` (text) and ``grade`` (int64), in the order of the file.

    Raises
    ------
    InputError
        The file cannot be opened, is empty, or a line is malformed; the text names file and line.
    """
    with _reading(path):
        if _begins(path, b"PAR1"):
            return pa.Table.from_batches(list(_parquet_batches(path, "grade")))
        first = _sample(path).lstrip(b"\xef\xbb\xbf").split(b"\n")[0].split()
        heading = len(first) == 3 and not _WHOLE.fullmatch(first[2].decode("utf-8", "replace"))
        return pa.Table.from_batches(list(_text_batches(path, BEIR_QRELS if heading else QRELS)))


def write_run(rows: Iterable[tuple[str, str, float]], tag: str) -> str:
    """Give the text of a TREC run.

    Parameters
    ----------
    rows
        Query, document and score; the rows of a query together, best first.
    tag
        Name of the run.

    Returns
    -------
    str
        One line a row; no rows give an empty text.

    Raises
    ------
    InputError
        An id or the tag is empty or holds white space, which the format cannot carry.
    """
    lines = []
    rank, current = 0, None
    for query, document, score in rows:
        rank = rank + 1 if query == current else 1
        current = query
        lines.append(f"{word(query)} Q0 {word(document)} {rank} {score!r} {word(tag)}\n")
    return "".join(lines)


def write_qrels(rows: Iterable[tuple[str, str, int]]) -> str:
    """Give the text of TREC qrels from query, document and grade; errors as for `write_run`."""
    return "".join(f"{word(query)} 0 {word(document)} {grade}\n" for query, document, grade in rows)


def word(text: str) -> str:
    """Give an id that can stand in a run or qrels file; InputError for an empty one or one with white space."""
    if not text or text.split() != [text]:
        raise InputError(
            f"{text!r} cannot stand in a run or qrels file: an id must not be empty or hold white space"
        )
    return text


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error):
        raise InputError(f"{path}: cannot be read: the gzip file is damaged or cut short") from None
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read: {reason}") from None
    except pa.ArrowException as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def _begins(path: Path, magic: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(magic)) == magic


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading bytes, unpacked when it is gzipped."""
    return gzip.open(path, "rb") if _begins(path, b"\x1f\x8b") else path.open("rb")  # type: ignore[return-value]


def _arrow_stream(path: Path) -> pa.NativeFile:
    return pa.input_stream(str(path), compression="gzip" if _begins(path, b"\x1f\x8b") else None)


def _sample(path: Path) -> bytes:
    with open_bytes(path) as stream:
        return stream.read(1 << 16)


def _text_batches(path: Path, layout: _Layout) -> Iterator[pa.RecordBatch]:
    empty = True
    for batch in _streamed(path, layout):
        empty = empty and not batch.num_rows
        yield batch
    if empty:
        raise InputError(f"{path}: holds no lines of {layout.what}")


def _streamed(path: Path, layout: _Layout) -> Iterator[pa.RecordBatch]:
    """Read with one separator as long as that goes, then with white space folded, then find the faulty line."""
    given = 0
    separator = _separator(_sample(path), layout)
    if separator:
        try:
            with _arrow_stream(path) as stream:
                for batch in _parsed(stream, layout, separator):
                    given += batch.num_rows
                    yield batch
            return
        except pa.ArrowInvalid:
            pass
    try:
        with open_bytes(path) as source:
            for batch in _parsed(io.BufferedReader(_Folded(source), _BLOCK), layout, " "):
                # What came before the switch has been given already: the rows are the same.
                known = min(given, batch.num_rows)
                given -= known
                yield batch.slice(known)
    except pa.ArrowInvalid as error:
        raise InputError(
            _fault(path, layout) or f"{path}: no {layout.what}: {str(error).splitlines()[0]}"
        ) from None


def _separator(sample: bytes, layout: _Layout) -> str:
    """Tell the separator when every line of the sample has exactly one between its fields, else nothing."""
    lines = sample.splitlines()[:-1] or sample.splitlines()
    for separator in (" ", "\t"):
        field = rb"[^\s]+"
        line = re.compile(separator.encode().join([field] * len(layout.fields)))
        if lines and all(line.fullmatch(one) for one in lines):
            return separator
    return ""


def _parsed(stream: Any, layout: _Layout, separator: str) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
    from pyarrow import csv

    reader = csv.open_csv(
        stream,
        # One thread: a run is read as fast as one core takes it in, and what counts is the work in all.
        csv.ReadOptions(
            use_threads=False, block_size=_BLOCK, column_names=layout.fields, skip_rows=int(layout.heading)
        ),
        csv.ParseOptions(delimiter=separator, quote_char=False, double_quote=False, escape_char=False),
        csv.ConvertOptions(
            column_types=layout.types,
            include_columns=list(layout.types),
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    for batch in reader:
        # Two separators in a row make an empty field; the line is then read again with white space folded.
        for name in ("query_id", "document_id"):
            ends = offsets_of(batch[name])
            if (ends[1:] == ends[:-1]).any():
                raise pa.ArrowInvalid("an id is empty")
        yield batch


class _Folded(io.RawIOBase):
    """A stream with runs of white space folded to one space, and none at the ends of lines."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._rest = b"\n"
        self._ready = b""
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:  # noqa: ANN401 - a writable buffer
        while not self._ready:
            chunk = self._source.read(_BLOCK)
            if not chunk and not self._rest:
                return 0
            text = self._rest + chunk
            if len(text) > _LONGEST_LINE:
                raise pa.ArrowInvalid("a line is too long")
            end = text.rfind(b"\n") if chunk else len(text)
            folded = re.sub(rb"[ \t\r\f\v]+", b" ", text[:end])
            self._rest = text[end:] if chunk else b""
            # Both ends of each line, and of the text, which begins with a line end and stops before one.
            self._ready = folded.rstrip(b" ").replace(b"\n ", b"\n").replace(b" \n", b"\n")
            if not self._begun and self._ready:
                self._ready, self._begun = self._ready[1:], True
        n = min(len(target), len(self._ready))
        target[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n


def _fault(path: Path, layout: _Layout) -> str | None:
    """Find the first faulty line and say what is wrong with it."""
    number = 0
    with open_bytes(path) as stream:
        for line in iter(lambda: stream.readline(_BLOCK), b""):
            number += 1
            if number == 1 and layout.heading:
                continue
            fault = _line_fault(line, layout)
            if fault:
                return f"{path}:{number}: {fault}"
    return (
        f"{path}: is empty; expected {layout.what} lines: {' '.join(layout.fields)}" if number == 0 else None
    )


def _line_fault(line: bytes, layout: _Layout) -> str | None:
    if len(line) == _BLOCK:
        return f"a line of more than {_BLOCK} bytes is no line of {layout.what}"
    try:
        fields = line.removeprefix(b"\xef\xbb\xbf").decode().split()
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start + 1} of the line"
    if not fields:
        return None
    if len(fields) != len(layout.fields):
        return f"{len(fields)} fields, wanted {len(layout.fields)}: {' '.join(layout.fields)}; found {fields[:8]}"
    value = fields[layout.fields.index(layout.number)]
    if not layout.pattern.fullmatch(value):
        kind = "number" if layout.number == "score" else "whole number"
        return f"{layout.number} {value!r} is not a {kind}"
    return None


def _parquet_batches(path: Path, number: str) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        query, document = column_name(schema, "query", path), column_name(schema, "document", path)
        value = "rank" if number == "score" and not has_column(schema, "score") else number
        value_name = column_name(schema, value, path)
        if not file.metadata.num_rows:
            raise InputError(f"{path}: holds no rows")
        for batch in file.iter_batches(
            batch_size=1 << 16, columns=[query, document, value_name], use_threads=False
        ):
            numbers = _numbers(batch[value_name], number, path)
            if value == "rank":
                numbers = pa.array(-numbers.to_numpy())
            ids = [_text(batch[name], name, path) for name in (query, document)]
            yield pa.RecordBatch.from_arrays([*ids, numbers], names=["query_id", "document_id", number])


def _text(ids: pa.Array, name: str, path: Path) -> pa.Array:
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if ids.null_count or not (
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    ):
        found = "gaps" if ids.null_count else f"type {kind}"
        raise InputError(
            f"{path}: column {name!r} has {found}; every row needs an id, text or a whole number"
        )
    return ids.cast(pa.string())


def _numbers(values: pa.Array, number: str, path: Path) -> pa.Array:
    try:
        if values.null_count:
            raise pa.ArrowInvalid("has gaps")
        return values.cast(pa.float64() if number == "score" else pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path}: column for the {number}: {str(error).splitlines()[0]}") from None
