"""Columns of rankings and judgments under the names that tools of this field give them."""

from typing import Any

from evalkit.errors import InputError

COLUMNS = {
    "query": ("query_id", "case_id", "query-id", "qid", "q_id", "query"),
    "document": ("document_id", "doc_id", "corpus-id", "docid", "docno", "document"),
    "grade": ("grade", "relevance", "rel", "label", "score"),
    "score": ("score", "sim"),
    "rank": ("rank",),
}
"""Meaning to usual names, the first that a table has counts."""


def column(table: Any, meaning: str) -> Any:  # noqa: ANN401 - pandas or pyarrow
    """Take the column that has one of the usual names.

    Parameters
    ----------
    table
        pandas DataFrame or pyarrow Table.
    meaning
        A key of `COLUMNS`.

    Returns
    -------
    Series or ChunkedArray
        The column.

    Raises
    ------
    InputError
        No such column, or more than one of the name; the text names those found.
    """
    return table[column_name(table, meaning)]


def column_name(table: Any, meaning: str, where: object = "the table") -> str:  # noqa: ANN401
    """Find the name of a column of a table or schema; as `column`, ``where`` stands in the error."""
    names = _names(table)
    name = next((name for name in COLUMNS[meaning] if name in names), None)
    if name is None:
        raise InputError(
            f"{where}: no column for the {meaning}; expected one of {', '.join(COLUMNS[meaning])}, found {names}"
        )
    if names.count(name) > 1:
        raise InputError(f"{where}: column {name!r} stands there {names.count(name)} times; keep one")
    return name


def has_column(table: Any, meaning: str) -> bool:  # noqa: ANN401
    """Tell whether a table has a column of this meaning."""
    return any(name in COLUMNS[meaning] for name in _names(table))


def _names(table: Any) -> list[str]:  # noqa: ANN401
    attribute = next(name for name in ("column_names", "columns", "names") if hasattr(table, name))
    return list(getattr(table, attribute))
