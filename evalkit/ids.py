"""Ids as arrays, and the look-up of judged documents: only the few that may be judged are compared in full.

Ids are text (pyarrow strings) or whole numbers (numpy int64). Every id gets a 64-bit fingerprint, computed for whole
arrays at once. Different fingerprints mean different ids, so a table of the judged fingerprints rules out nearly
every unjudged document; what is left is compared id by id.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Ids = Any  # a pyarrow array of strings or a numpy array of int64

BLOCK_ROWS = 1 << 16  # arrays of so many rows stay in the processor's cache
_SPREAD = np.uint64(
    0x9E3779B97F4A7C15
)  # 2**64 / golden ratio: spreads neighbouring numbers over the upper bits


def as_ids(column: Any, name: str) -> Ids:  # noqa: ANN401 - a pandas or pyarrow column, or a list
    """Turn a column into ids.

    Parameters
    ----------
    column
        A pandas Series, a pyarrow array or a sequence: text of any dtype, whole numbers, or UUIDs (taken as text).
    name
        What the column is called in an error.

    Returns
    -------
    pyarrow.Array or NDArray[np.int64]
        Shape (n,), without gaps.

    Raises
    ------
    InputError
        A gap, or ids of another or of mixed types.
    """
    import pyarrow as pa

    try:
        array = (
            column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, from_pandas=True)
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        array = _uuids(column, name)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = _uuids(column, name)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        gap = array.is_null().to_pylist().index(True)
        raise InputError(f"{name}: row {gap} has no id; every row needs one")
    if pa.types.is_integer(array.type):
        try:
            return as_numpy(array.cast(pa.int64()))
        except pa.ArrowInvalid:
            raise InputError(f"{name}: whole numbers of 64 bits and more; convert the ids to text") from None
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or not len(array)):
        raise InputError(
            f"{name}: ids must be text, whole numbers or UUIDs, found {array.type} such as {array[0].as_py()!r}; "
            "convert them to text, in the same way on both sides"
        )
    return array


def _uuids(column: Any, name: str) -> "pa.Array":  # noqa: ANN401
    from uuid import UUID

    import pyarrow as pa

    listed = list(column)
    strange = next((value for value in listed if not isinstance(value, UUID)), None)
    if strange is not None:
        raise InputError(
            f"{name}: ids must all be text, all whole numbers or all UUIDs, found {strange!r} among others"
        )
    return pa.array(list(map(str, listed)), pa.string())


class _Text:
    """The bytes of texts, read in words of eight from the end of each text."""

    def __init__(self, ids: "pa.Array") -> None:
        data: Any = ids.buffers()[2] if len(ids) else None
        ends = offsets_of(ids)
        first, last = int(ends[0]), int(ends[-1])
        # Eight bytes in front, so that a word that ends with the first id can be read too.
        padded = np.zeros(last - first + 8, np.uint8)
        if last > first:
            padded[8:] = np.frombuffer(data, np.uint8)[first:last]
        self.words: NDArray[np.uint64] = np.ndarray(last - first + 1, "<u8", buffer=padded, strides=(1,))
        self.ends = ends[1:] - first
        self.length = np.diff(ends)
        self.longest = int(self.length.max(initial=0))

    def word(self, step: int) -> NDArray[np.uint64]:
        """Give the word that ends ``8 * step`` bytes before the end; bytes before the beginning are 0."""
        excess = 8 - np.clip(np.arange(self.longest + 1) - 8 * step, 0, 8)
        shift_of_length = (8 * excess).astype(np.uint64)
        places = self.ends if step == 0 else np.maximum(self.ends - 8 * step, 0)
        word: NDArray[np.uint64] = self.words[places]
        word >>= shift_of_length[self.length]
        return word


def fingerprints(ids: Ids) -> NDArray[np.uint64]:
    """Map ids to 64-bit numbers: equal ids get equal numbers, different ids seldom do.

    Parameters
    ----------
    ids
        Shape (n,), text or whole numbers.

    Returns
    -------
    NDArray[np.uint64]
        Shape (n,). Of text the last 8 bytes count.
    """
    if isinstance(ids, np.ndarray):
        return ids.view(np.uint64) * _SPREAD
    return _Text(ids).word(0) * _SPREAD


def changes(ids: Ids) -> NDArray[np.bool_]:
    """Tell, for all ids but the last, whether the next one is another id."""
    if isinstance(ids, np.ndarray):
        return np.not_equal(ids[1:], ids[:-1])
    other = np.zeros(max(len(ids) - 1, 0), np.bool_)
    for begin in range(0, len(other), BLOCK_ROWS):
        text = _Text(ids[begin : begin + BLOCK_ROWS + 1])
        part = other[begin : begin + BLOCK_ROWS]
        part |= text.length[1:] != text.length[:-1]
        for step in range(-(-text.longest // 8)):
            word = text.word(step)
            part |= word[1:] != word[:-1]
    return other


def take(ids: Ids, rows: NDArray[np.int64]) -> Ids:
    """Pick ids by position."""
    return ids[rows] if isinstance(ids, np.ndarray) else ids.take(as_arrow(rows))


def values_at(ids: Ids, rows: NDArray[np.int64]) -> list[Any]:
    """Give the ids at some positions as Python objects."""
    if isinstance(ids, np.ndarray):
        numbers: list[Any] = ids[rows].tolist()
        return numbers
    if not len(rows):
        return []
    ends, data = offsets_of(ids), memoryview(ids.buffers()[2] or b"")
    spans = zip(ends[rows].tolist(), ends[rows + 1].tolist(), strict=True)
    return [str(data[begin:end], "utf-8") for begin, end in spans]


def values(ids: Ids) -> list[Any]:
    """Give ids as Python objects."""
    listed: list[Any] = ids.tolist()
    return listed


# pyarrow's own conversions to and from numpy import pandas, which takes longer than reading a small run.


def as_numpy(array: "pa.Array") -> NDArray[Any]:
    """View a pyarrow array of numbers without gaps as numpy array."""
    kind = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    return (
        np.frombuffer(buffer, kind)[array.offset : array.offset + len(array)]
        if len(array)
        else np.empty(0, kind)
    )


def as_arrow(numbers: NDArray[Any]) -> "pa.Array":
    """View a numpy array of int64 as pyarrow array."""
    import pyarrow as pa

    return pa.Array.from_buffers(
        pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    )


def offsets_of(text: "pa.Array") -> NDArray[np.signedinteger[Any]]:
    """Give the n + 1 byte positions at which the n texts of a pyarrow array begin and end."""
    if not len(text):
        return np.zeros(1, np.int32)
    wide = str(text.type).startswith("large_")
    offsets: NDArray[np.signedinteger[Any]] = np.frombuffer(text.buffers()[1], np.int64 if wide else np.int32)
    return offsets[text.offset : text.offset + len(text) + 1]


def _text_array(texts: Sequence[Any]) -> "pa.Array":
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    return pa.Array.from_buffers(
        pa.large_string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    )


class DocumentIndex:
    """The judged documents, numbered from 0.

    Parameters
    ----------
    documents
        Distinct ids, all text or all whole numbers when arrays of ids are to be looked up.
    """

    def __init__(self, documents: Iterable[Hashable]) -> None:
        self.number = dict(zip(documents, count(), strict=False))

    def find(self, ids: Ids, prints: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Look ids up.

        Parameters
        ----------
        ids
            Shape (n,), of the same kind as the documents.
        prints
            Shape (n,), their `fingerprints`.

        Returns
        -------
        tuple of NDArray[np.int64]
            Positions in ``ids`` of the judged documents, ascending, and their numbers.
        """
        table, shift = self._whole_numbers if isinstance(ids, np.ndarray) else self._texts
        rows = np.flatnonzero(table[prints >> shift])
        found = [self.number.get(document, -1) for document in values_at(ids, rows)]
        numbers = np.array(found, np.int64)
        return rows[numbers >= 0], numbers[numbers >= 0]

    @cached_property
    def _texts(self) -> tuple[NDArray[np.bool_], np.uint64]:
        return _table(_text_array([one for one in self.number if isinstance(one, str)]))

    @cached_property
    def _whole_numbers(self) -> tuple[NDArray[np.bool_], np.uint64]:
        # What is too large for 64 bits stands in no array of them.
        return _table(np.array([one for one in self.number if _fits(one)], np.int64))


def _fits(one: Any) -> bool:  # noqa: ANN401
    return not isinstance(one, str) and -(2**63) <= one < 2**63


def _table(ids: Ids) -> tuple[NDArray[np.bool_], np.uint64]:
    """Mark the fingerprints of ids by their leading bits, and give how far to shift for these."""
    bits = int(np.clip(len(ids).bit_length() + 6, 16, 22))
    shift = np.uint64(64 - bits)
    table = np.zeros(1 << bits, np.bool_)
    table[fingerprints(ids) >> shift] = True
    return table, shift
