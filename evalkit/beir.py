"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/<split>.tsv`` (https://github.com/beir-cellar/beir)."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evalkit.errors import InputError, refuse
from evalkit.trec import open_bytes, read_qrels, word

MAX_FAULTS = 20


class Passage(NamedTuple):
    """One entry of a corpus."""

    id: str
    title: str
    text: str


def read_corpus(folder: Path) -> Iterator[Passage]:
    """Read ``corpus.jsonl`` as a stream.

    Parameters
    ----------
    folder
        A BEIR folder.

    Yields
    ------
    Passage
        In the order of the file; title and text may be empty.

    Raises
    ------
    InputError
        After the last line or the 20th fault, naming file and line of each: no JSON object, no ``_id``, a title or
        text that is not text, an id that was there before. At once for a missing file.
    """
    for row in _rows(folder / "corpus.jsonl", ("title", "text")):
        yield Passage(row["_id"], row["title"], row["text"])


def read_queries(folder: Path) -> dict[str, str]:
    """Read ``queries.jsonl``: id to text; errors as for `read_corpus`."""
    return {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl", ("text",))}


def read_judgments(folder: Path, split: str) -> list[tuple[str, str, int]]:
    """Read ``qrels/<split>.tsv``.

    Parameters
    ----------
    folder
        A BEIR folder.
    split
        Such as ``test``.

    Returns
    -------
    list of (str, str, int)
        Query, document and grade, in the order of the file.

    Raises
    ------
    InputError
        No such split (the text lists those there are), or a malformed line.
    """
    path = folder / "qrels" / f"{split}.tsv"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in (folder / "qrels").glob("*.tsv"))) or "none"
        raise InputError(f"{path}: no such file; splits there: {known}")
    return list(zip(*(column.to_pylist() for column in read_qrels(path).columns), strict=True))


def corpus_text(passages: Iterable[Passage]) -> str:
    """Give the text of ``corpus.jsonl``."""
    rows = ({"_id": one.id, "title": one.title, "text": one.text, "metadata": {}} for one in passages)
    return "".join(map(json_line, rows))


def queries_text(queries: Iterable[tuple[str, str]]) -> str:
    """Give the text of ``queries.jsonl`` from ids and texts."""
    return "".join(json_line({"_id": name, "text": text, "metadata": {}}) for name, text in queries)


def qrels_text(judgments: Iterable[tuple[str, str, int]]) -> str:
    """Give the text of a qrels file from query, document and grade.

    Raises
    ------
    InputError
        An id is empty or holds white space, which readers of the format split at.
    """
    lines = ["query-id\tcorpus-id\tscore\n"]
    for query, document, grade in judgments:
        lines.append(f"{word(query)}\t{word(document)}\t{grade}\n")
    return "".join(lines)


def json_line(row: dict[str, Any]) -> str:
    """Write an object as a line of JSON."""
    return json.dumps(row, ensure_ascii=False) + "\n"


def _rows(path: Path, texts: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    faults: list[str] = []
    seen: set[str] = set()
    try:
        with open_bytes(path) as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                row = _row(line, texts, seen)
                if isinstance(row, dict):
                    seen.add(row["_id"])
                    yield row
                    continue
                faults.append(f"{path}:{number}: {row}")
                if len(faults) == MAX_FAULTS:
                    break
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}; a BEIR folder holds {path.name}") from None
    if faults:
        refuse(str(path), faults, "reading stopped there" if len(faults) == MAX_FAULTS else "")
    if not seen:
        raise InputError(f"{path}: is empty")


def _row(line: bytes, texts: tuple[str, ...], seen: set[str]) -> dict[str, Any] | str:
    """Give the fields of a line, or what is wrong with it."""
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        return f"no JSON object in UTF-8: {error}"
    if not isinstance(row, dict) or not isinstance(row.get("_id"), str | int) or isinstance(row["_id"], bool):
        return 'wanted a JSON object with an "_id"'
    name = str(row["_id"])
    if name in seen:
        return f"_id {name!r} stands on an earlier line already"
    found = {field: row.get(field) or "" for field in texts}
    wrong = next((field for field, value in found.items() if not isinstance(value, str)), None)
    if wrong:
        return f"{wrong} of {name!r} is {found[wrong]!r}, not text"
    return {"_id": name, **found}
