"""Scores of runs and judgments in files: what ``evalkit score`` prints."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.blocks import Block, Scattered, gathered, slices, whole_queries
from evalkit.errors import InputError
from evalkit.metrics import METRICS, Gain
from evalkit.places import Ties
from evalkit.scores import Columns, Scores
from evalkit.scoring import prepare, score_blocks
from evalkit.trec import read_qrels, run_batches


def score_run_file(
    run: Path,
    qrels: Path,
    ks: Sequence[int] = (1, 3, 5, 10),
    gain: Gain = "exponential",
    ties: Ties = "given",
) -> Scores:
    """Score a run file of any size in bounded memory: only rows of judged documents are kept.

    Parameters
    ----------
    run
        TREC run, plain or gzipped, or Parquet. Rows in any order; when those of a query do not stand together the
        file is read twice, by way of temporary files.
    qrels
        TREC or BEIR qrels, plain or gzipped, Parquet, or a BEIR folder (its ``qrels/test.tsv``, or the only one).
    ks, gain, ties
        As for `evalkit.scoring.score`.

    Returns
    -------
    Scores
        For every query with a relevant document.

    Raises
    ------
    InputError
        A file that is missing, malformed (file and line are named) or empty, and all that
        `evalkit.scoring.score_run` refuses.
    """
    judged = prepare(read_qrels(_qrels_file(qrels)), ks, gain)
    try:
        return score_blocks(_cut(whole_queries(run_batches(run))), judged, ties)
    except Scattered:
        return score_blocks(gathered(run_batches(run)), judged, ties)


def score_files(
    run: Path,
    qrels: Path,
    ks: Sequence[int] = (1, 3, 5, 10),
    *,
    per_query: bool = False,
    categories: Path | None = None,
    gain: Gain = "exponential",
    ties: Ties = "given",
    as_json: bool = False,
) -> str:
    """Score a run file and give what ``evalkit score`` prints.

    Parameters
    ----------
    run, qrels, ks, gain, ties
        As for `score_run_file`.
    per_query
        Add the scores of every query.
    categories
        File with a query and its category a line, separated by a tab or a comma; adds means of each category.
    as_json
        Give one JSON object (``means, per_query, by_category, ties, join, notices``) instead of text.

    Returns
    -------
    str
        Tables with n beside every mean, and below them how much joined and all that did not.

    Raises
    ------
    InputError
        As for `score_run_file`, and for a faulty line of `categories`.
    """
    category_of = None if categories is None else read_categories(categories)
    scores = score_run_file(run, qrels, ks, gain, ties)
    tables = {"means": scores.means()}
    if category_of is not None:
        tables["by_category"] = scores.by_category(category_of)
    if per_query:
        tables["per_query"] = scores.per_query()
    return _as_json(scores, tables) if as_json else _as_text(scores, tables)


def read_categories(path: Path) -> dict[str, str]:
    """Read the category of each query.

    Parameters
    ----------
    path
        UTF-8 text, a line a query: its id, a tab or comma, its category. A first line ``query_id,category`` is
        taken as heading.

    Returns
    -------
    dict of str to str
        Query to category.

    Raises
    ------
    InputError
        A line without both parts, or a query with two categories; file and line are named.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        query, _, category = (part.strip() for part in line.partition("\t" if "\t" in line else ","))
        if not line.strip() or (number == 1 and category == "category"):
            continue
        if not query or not category:
            raise InputError(
                f"{path}:{number}: {line!r}: wanted a query id, a tab or comma, and its category"
            )
        if found.setdefault(query, category) != category:
            raise InputError(f"{path}:{number}: query {query!r} has category {found[query]!r} already")
    return found


def _qrels_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = sorted((path / "qrels").glob("*.tsv"))
    test = path / "qrels" / "test.tsv"
    if test in files or len(files) == 1:
        return test if test in files else files[0]
    names = ", ".join(file.name for file in files) or "none"
    raise InputError(
        f"{path}: no qrels/test.tsv in this folder; give one of its qrels files (found: {names})"
    )


def _cut(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        yield from slices(block)


def _as_json(scores: Scores, tables: Mapping[str, Columns]) -> str:
    content: dict[str, Any] = {name: list(_rows(table)) for name, table in tables.items()}
    content["ties"] = [vars(bounds) for bounds in scores.ties]
    content["join"] = scores.report.counts()
    content["notices"] = scores.report.notices()
    return json.dumps(content, ensure_ascii=False, indent=1)


def _rows(table: Columns) -> Iterator[dict[str, Any]]:
    columns = [column.tolist() for column in table.values()]
    for row in zip(*columns, strict=True):
        yield dict(zip(table, row, strict=True))


def _as_text(scores: Scores, tables: Mapping[str, Columns]) -> str:
    parts = [_table(table) for table in tables.values()]
    open_ks = [bounds for bounds in scores.ties if bounds.worst != bounds.best or bounds.crossing]
    if open_ks:
        lines = [
            f"K={bounds.k}: equal scores cross K in {bounds.crossing} queries; "
            + ", ".join(f"{name} {bounds.worst[name]:.4f} to {bounds.best[name]:.4f}" for name in METRICS)
            for bounds in open_ks
        ]
        parts.append("\n".join(["worst and best case of equal scores", *lines]))
    notes = [f"note: {notice}" for notice in scores.report.notices()]
    parts.append("\n".join([f"joined: {scores.report.summary()}", *notes]))
    return "\n\n".join(parts)


def _table(table: Columns) -> str:
    cells = [[_shown(cell) for cell in (name, *column.tolist())] for name, column in table.items()]
    numeric = [column.dtype.kind in "iuf" for column in table.values()]
    widths = [max(map(len, column)) for column in cells]
    lines = []
    for row in zip(*cells, strict=True):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _shown(cell: Any) -> str:  # noqa: ANN401
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)
