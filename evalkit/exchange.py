"""Runs of ours for other tools, and rankings of other retrievers for us.

A passage goes into files of other tools under one id, ``<document>#<chunk>``; white space, ``#`` and ``%`` within
the parts are percent-encoded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evalkit import beir, trec
from evalkit.chunking import Chunk, chunk_documents
from evalkit.dataset import Dataset, load_dataset
from evalkit.errors import InputError, refuse
from evalkit.files import whole_folder, write_whole
from evalkit.runs import TABLES, Run

_RESERVED = re.compile(r"[\s#%]")
_IDS = ("case_id", "document_id", "chunk_id")
_COLUMNS = ["case_id", "rank", "document_id", "chunk_id", "score"]


def passage_id(document: str, chunk: str) -> str:
    """Give the one id under which other tools know a passage."""
    return "#".join(_RESERVED.sub(_percent, part) for part in (document, chunk))


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode())


def export_trec(run: Run, folder: Path) -> list[Path]:
    """Write a run as ``run.trec`` and ``qrels.trec``.

    Parameters
    ----------
    run
        A finished run. The rankings at its largest K are written, unsupported questions included; scores are made
        from the ranks, so that every tool keeps the order.
    folder
        Made when absent.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InputError
        A case id that holds white space.
    InfrastructureError
        The disk refused.
    """
    contents = {
        folder / "run.trec": trec.write_run(_ranked(run), run.run_id),
        folder / "qrels.trec": trec.write_qrels(_judged(run)),
    }
    for path, content in contents.items():
        write_whole(path, content)
    return list(contents)


def export_csv(run: Run, folder: Path) -> list[Path]:
    """Write the tables of a run as CSV files.

    Parameters
    ----------
    run
        The run to export.
    folder
        Folder for ``<table>.csv``, made when absent.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InfrastructureError
        The disk refused.
    """
    contents = {folder / f"{name}.csv": getattr(run, name).to_csv(index=False) for name in TABLES}
    for path, content in contents.items():
        write_whole(path, content)
    return list(contents)


def export_beir(run: Run, folder: Path) -> list[Path]:
    """Write a run as BEIR folder: corpus and queries of its data set, its judgments, and ``run.trec``.

    Parameters
    ----------
    run
        A finished run, whose data set must be as it was.
    folder
        The new folder, with ``corpus.jsonl`` (eligible chunks under the run's chunking), ``queries.jsonl``,
        ``qrels/test.tsv`` and ``run.trec``; must not exist.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InputError
        `folder` exists, the data set has changed since the run, or an id holds white space.
    InfrastructureError
        The disk refused.
    """
    if folder.exists():
        raise InputError(f"{folder} exists; remove it or give another folder")
    dataset = load_dataset(run.record.parameters["dataset"])
    recorded = run.record.dataset
    now = (dataset.corpus_sha256, dataset.cases_sha256)
    if now != (recorded.corpus_sha256, recorded.cases_sha256):
        raise InputError(
            f"data set {dataset.name!r} has changed since run {run.run_id}; evaluate again, then export the new run"
        )
    questions = [(case.id, case.question) for case in dataset.questions]
    contents = {
        "corpus.jsonl": beir.corpus_text(_passages(dataset, run.record.chunking)),
        "queries.jsonl": beir.queries_text(questions),
        "qrels/test.tsv": beir.qrels_text(_judged(run)),
        "run.trec": trec.write_run(_ranked(run), run.run_id),
    }
    with whole_folder(folder) as draft:
        for name, content in contents.items():
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_text(content, encoding="utf-8")
    return [folder / name for name in contents]


def _passages(dataset: Dataset, chunking: str) -> Iterator[beir.Passage]:
    for chunk in chunk_documents(filter(dataset.is_eligible, dataset.documents), chunking):
        yield beir.Passage(passage_id(chunk.document_id, chunk.chunk_id), chunk.title, chunk.text)


def _ranked(run: Run) -> Iterator[tuple[str, str, float]]:
    rankings = run.rankings
    rows = rankings[rankings["k"] == rankings["k"].max()].sort_values(["case_id", "rank"])
    length = rows.groupby("case_id")["rank"].transform("max")
    scores = (length - rows["rank"] + 1).tolist()
    return zip(rows["case_id"].tolist(), _passage_ids(rows), map(float, scores), strict=True)


def _judged(run: Run) -> Iterator[tuple[str, str, int]]:
    rows = run.judgments
    return zip(rows["case_id"].tolist(), _passage_ids(rows), rows["grade"].tolist(), strict=True)


def _passage_ids(rows: pd.DataFrame) -> list[str]:
    return list(map(passage_id, rows["document_id"], rows["chunk_id"]))


def only_chunks(chunks: Iterable[Chunk]) -> dict[str, str]:
    """Give the chunk id of each document that is one chunk, for rankings that name documents alone."""
    found: dict[str, str] = {}
    several: set[str] = set()
    for chunk in chunks:
        if found.setdefault(chunk.document_id, chunk.chunk_id) != chunk.chunk_id:
            several.add(chunk.document_id)
    return {document: chunk for document, chunk in found.items() if document not in several}


def rankings_from_file(path: Path, chunk_of: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Read the rankings of any retriever.

    Parameters
    ----------
    path
        TREC run, plain or gzipped, whose documents are named ``<document>#<chunk>`` or, when a document is one
        chunk, by the document alone; or Parquet with the same in its columns, or with a column ``chunk_id``. A
        Parquet file with a column ``k`` gives the rankings of its largest K.
    chunk_of
        Chunk of each document that is one chunk, from `only_chunks`.

    Returns
    -------
    DataFrame
        ``case_id, rank, document_id, chunk_id, score``, sorted by case and rank; rank counts from 1, by descending
        score, equal scores in the order of the file.

    Raises
    ------
    InputError
        A file that cannot be read or has no rows, a column of another kind or with gaps, a question without a ranking
        at the largest K, a score that is no number, a passage twice in one ranking, or a document without chunk that
        is not one chunk; the text names each.
    """
    table = _parquet_with_chunks(path)
    if table is None:
        batches = list(trec.run_batches(path))
        rows = pa.Table.from_batches(batches).to_pandas().rename(columns={"query_id": "case_id"})
        passages = [_split(name, chunk_of or {}) for name in rows.pop("document_id")]
        rows["document_id"], rows["chunk_id"] = zip(*passages, strict=True)
    else:
        rows = table
    faults = _faults(rows)
    if faults:
        refuse(f"rankings in {path}", faults)
    rows = rows.sort_values("score", ascending=False, kind="stable").sort_values("case_id", kind="stable")
    rows["rank"] = rows.groupby("case_id").cumcount() + 1
    ordered: pd.DataFrame = rows[_COLUMNS].reset_index(drop=True)
    return ordered


def _split(name: str, chunk_of: Mapping[str, str]) -> tuple[str, str | None]:
    document, separator, chunk = name.partition("#")
    if separator:
        return unquote(document), unquote(chunk)
    plain = name if name in chunk_of else unquote(name)
    return plain, chunk_of.get(plain)


def _parquet_with_chunks(path: Path) -> pd.DataFrame | None:
    try:
        names = pq.read_schema(path).names
        if not {"case_id", "document_id", "chunk_id"} <= set(names) or not {"score", "rank"} & set(names):
            return None
        wanted = [name for name in (*_COLUMNS, "k") if name in names]
        table = pq.read_table(path, columns=wanted)
    except (OSError, pa.ArrowException):
        return None
    if faults := _column_faults(table):
        refuse(f"rankings in {path}", faults)
    # Without metadata: an index of pandas would take its column away.
    rows: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    numbers = {"score": "float64", "rank": "float64"}
    rows = rows.astype(
        {name: kind for name, kind in numbers.items() if name in rows} | dict.fromkeys(_IDS, "str")
    )
    if "k" in rows:
        rows = _largest_k(path, rows)
    # Ours are ordered by rank already: equal scores keep it, whatever the order of rows.
    rows = rows.sort_values(["case_id", "rank"]) if "rank" in rows else rows
    return rows if "score" in rows else rows.assign(score=-rows["rank"])


def _column_faults(table: pa.Table) -> list[str]:
    """List the columns that hold something else than rankings do."""
    faults = [] if len(table) else ["no rows; a ranking has at least one"]
    for name, column in zip(table.column_names, table.columns, strict=True):
        whole, number = pa.types.is_integer(column.type), pa.types.is_floating(column.type)
        if name == "k" and not whole:
            faults.append(f"column k: wanted whole numbers, found {column.type}")
        if name in ("score", "rank") and not (whole or number or pa.types.is_decimal(column.type)):
            faults.append(f"column {name}: wanted numbers, found {column.type}")
        if name != "score" and column.null_count:
            faults.append(
                f"column {name}: {column.null_count} of {len(table)} rows have none; every row needs it"
            )
    return faults


def _largest_k(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rankings of the largest K; every question must have one."""
    largest: pd.DataFrame = rows[rows["k"] == rows["k"].max()]
    if lost := sorted({*rows["case_id"]} - {*largest["case_id"]}):
        refuse(
            f"rankings in {path}",
            [f"case {name!r}: has rankings, but none at the largest k = {rows['k'].max()}" for name in lost],
        )
    return largest


def _faults(rows: pd.DataFrame) -> list[str]:
    unknown = rows.loc[rows["chunk_id"].isna(), "document_id"].unique()
    known = rows[rows["chunk_id"].notna()]
    twice = known[known.duplicated(["case_id", "document_id", "chunk_id"])]
    return [
        *(
            f"document {document!r} is not one chunk of the data set; name the passage as <document>#<chunk>"
            for document in unknown
        ),
        *(
            f"case {case!r}: a score is not a number (NaN)"
            for case in rows.loc[rows["score"].isna(), "case_id"].unique()
        ),
        *(
            f"case {row.case_id!r}: {row.document_id!r} {row.chunk_id!r} stands twice in the ranking"
            for row in twice.itertuples()
        ),
    ]
