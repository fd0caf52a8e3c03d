"""Documents as they stand on disk: Markdown with front matter, or JSON Lines."""

from collections.abc import Iterator
from pathlib import Path

from evalkit.datafiles import matching, parse_yaml, read_json_lines, read_text
from evalkit.fields import Id, Lines, Record, Text, checked

PLACE = "dataset.yaml: documents"


class _FrontMatter(Record):
    document_id: Id
    title: Text
    document_type: Id
    publication_state: Id


class _Written(_FrontMatter):
    body: Lines


class Document(_Written):
    r"""One source text.

    Attributes
    ----------
    body
        Text below the front matter, line ends as ``\n``, white space around it stripped.
    source
        File within the data set's folder, and line of a JSONL file, for messages.
    """

    source: str = ""


def read_documents(
    folder: Path, pattern: str, faults: list[str], unread: dict[str, str | None]
) -> Iterator[Document]:
    """Read the documents one after another; only their ids are kept here.

    Parameters
    ----------
    folder
        Folder of the data set, resolved.
    pattern
        A glob of Markdown files with front matter, or a ``.jsonl`` file.
    faults
        Gets every fault of the files.
    unread
        Gets each document at fault by its file (JSONL: and line) with its id; None where that cannot be told.

    Yields
    ------
    Document
        In order of file name, or of line.
    """
    read = _json_documents if pattern.endswith(".jsonl") else _markdown_documents
    sources: dict[str, str] = {}
    for document in read(folder, pattern, faults, unread):
        first = sources.get(document.document_id)
        if first is None:
            sources[document.document_id] = document.source
            yield document
        else:
            faults.append(
                f"{document.source}: document_id {document.document_id!r} stands in {first} already"
            )


def _json_documents(
    folder: Path, name: str, faults: list[str], unread: dict[str, str | None]
) -> Iterator[Document]:
    found, known = False, len(faults)
    for source, value in read_json_lines(folder, name, PLACE, faults):
        found = True
        if len(faults) > known:  # a line before this one is no object
            unread[name] = None
        yield from _checked(_Written, value, source, faults, unread)
        known = len(faults)
    if len(faults) > known:
        unread[name] = None
    if not found and not faults:
        faults.append(f"{name}: no documents; write one JSON object a line")


def _markdown_documents(
    folder: Path, pattern: str, faults: list[str], unread: dict[str, str | None]
) -> Iterator[Document]:
    known = len(faults)
    names = matching(folder, pattern, PLACE, faults)
    if len(faults) > known:
        unread[pattern] = None
    for name in names:
        text = read_text(folder, name, PLACE, faults)
        front = None if text is None else _front_matter(text, name, faults)
        if text is None or front is None:
            unread[name] = None
            continue
        fields, end = front
        if isinstance(fields, dict) and "body" not in fields:
            body = "\n".join(text.split("\n")[end + 1 :])
            yield from _checked(_Written, {**fields, "body": body}, name, faults, unread)
        else:
            yield from _checked(_FrontMatter, fields, name, faults, unread)


def _front_matter(text: str, name: str, faults: list[str]) -> tuple[object, int] | None:
    """Read what stands between the first two lines of ---; with the number of the second, from 0."""
    lines = text.split("\n")
    end = next((number for number, line in enumerate(lines) if number and line.rstrip() == "---"), 0)
    if lines[0].rstrip() != "---" or not end:
        wanted = ", ".join(_FrontMatter.model_fields)
        faults.append(f"{name}:1: no front matter; begin the file with {wanted} between two lines of ---")
        return None
    known = len(faults)
    fields = parse_yaml("\n".join(lines[1:end]), name, faults, first_line=2)
    return None if len(faults) > known else (fields, end)


def _checked(
    model: type[_FrontMatter], value: object, source: str, faults: list[str], unread: dict[str, str | None]
) -> Iterator[Document]:
    """Give the document, or list its faults and keep its id where that is there."""
    written = checked(model, value, source, faults)
    if isinstance(written, _Written):
        yield Document.model_construct(**dict(written), source=source)
        return
    name = value.get("document_id") if isinstance(value, dict) else None
    unread[source] = name if isinstance(name, str) else None
