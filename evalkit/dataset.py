"""Documents and cases as they stand on disk, checked while reading."""

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from evalkit import paths
from evalkit.datafiles import (
    Mapping,
    matching,
    parse_yaml,
    read_json_lines,
    read_text,
)
from evalkit.errors import refuse
from evalkit.fields import LISTED, Allowed, Id, Lines, Record, Split, Text, WholeNumber, checked, shown

DESCRIPTION = "dataset.yaml"


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


class Quote(Record):
    """Verbatim text of one document."""

    document: Id
    quote: Text


class Fact(Record):
    """One fact that a complete answer needs; any of its quotes is enough."""

    fact: Text
    quotes: Annotated[tuple[Quote, ...], Field(min_length=1)]


class PositionalLabel(Record):
    """Grade of a chunk of the data set's own chunking version."""

    document: Id
    chunk: Id
    grade: WholeNumber = 2


class _Question(Record):
    id: Id
    split: Split | None = None
    question: Text


class Case(_Question):
    """An answerable question with its labels."""

    category: Text
    relevant: Annotated[tuple[PositionalLabel, ...], LISTED] = ()
    evidence: Annotated[tuple[Fact, ...], LISTED] = ()
    supporting: Annotated[tuple[Quote, ...], LISTED] = ()


class Unsupported(_Question):
    """A question that no eligible chunk answers."""

    category: Text | None = None


class Eligibility(Record):
    """Values that eligible documents have; a field left out allows all."""

    document_type: Allowed | None = None
    publication_state: Allowed | None = None


class _Description(Record):
    """What ``dataset.yaml`` holds."""

    name: Id
    version: Id
    description: str = ""
    documents: Text
    cases: Text
    chunking: Id
    eligibility: Eligibility = Eligibility()
    judgments: Literal["complete", "partial"]


class _CasesFile(Record):
    """What a YAML cases file holds; its entries are checked one by one."""

    answerable: Annotated[tuple[Any, ...], LISTED] = ()
    unsupported: Annotated[tuple[Any, ...], LISTED] = ()


class HasType(Protocol):
    """What eligibility looks at: a document or a chunk."""

    @property
    def document_type(self) -> str: ...  # noqa: D102
    @property
    def publication_state(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Dataset:
    """Documents, cases and the rules that go with them.

    Attributes
    ----------
    eligibility
        Field of a document to the values allowed; empty allows all.
    folder
        Folder of ``dataset.yaml``.
    cases_file
        Name of the cases file within the folder, for messages.
    """

    name: str
    version: str
    description: str
    chunking: str
    eligibility: dict[str, tuple[str, ...]]
    judgments: Literal["complete", "partial"]
    documents: tuple[Document, ...]
    cases: tuple[Case, ...]
    unsupported: tuple[Unsupported, ...]
    folder: Path
    cases_file: str

    @property
    def argument(self) -> str:
        """What names the data set on a command line: its folder's name under ``data/``, else the path, quoted."""
        here = self.folder.parent == (paths.root() / "data").resolve()
        return shlex.quote(self.folder.name if here else str(self.folder))

    @property
    def questions(self) -> tuple[Case | Unsupported, ...]:
        """All questions, the answerable ones first."""
        return (*self.cases, *self.unsupported)

    def is_eligible(self, passage: HasType) -> bool:
        """Tell whether the data set's eligibility allows a document or a chunk."""
        return all(getattr(passage, field) in allowed for field, allowed in self.eligibility.items())

    @cached_property
    def corpus_sha256(self) -> str:
        """SHA-256 of the documents, whatever their order and file format."""
        ordered = sorted(self.documents, key=lambda document: document.document_id)
        return _sha256(document.model_dump(exclude={"source"}) for document in ordered)

    @cached_property
    def cases_sha256(self) -> str:
        """SHA-256 of the questions, answerable or not, with id, category and split."""
        fields = {"id", "category", "split", "question"}
        rows = [case.model_dump(include=fields) | {"answerable": True} for case in self.cases]
        rows += [case.model_dump(include=fields) | {"answerable": False} for case in self.unsupported]
        return _sha256(sorted(rows, key=lambda row: str(row["id"])))

    @cached_property
    def labels_sha256(self) -> str:
        """SHA-256 of the labels of all cases and of what an unlabelled chunk means."""
        fields = {"id", "relevant", "evidence", "supporting"}
        rows = [case.model_dump(include=fields) for case in sorted(self.cases, key=lambda case: case.id)]
        return _sha256([{"judgments": self.judgments}, *rows])


def _sha256(rows: Iterable[dict[str, Any]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def load_dataset(dataset: str | Path) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    dataset
        Name under ``data/`` or path of a folder with a ``dataset.yaml``.

    Returns
    -------
    Dataset
        Documents in order of file name (JSONL: of line), cases in order of the file.

    Raises
    ------
    InputError
        Every fault on disk at once, each with file, line or case, and mend. Labels are not looked into:
        `labels.resolve_labels` does, and `review.load_labelled` does all in one.
    """
    loaded, faults = read_dataset(dataset)
    if loaded is None or faults:
        refuse(f"data set {str(dataset)!r}", faults)
    return loaded


def read_dataset(dataset: str | Path) -> tuple[Dataset | None, list[str]]:
    """Read what can be read of a data set, and list the rest.

    Parameters
    ----------
    dataset
        Name under ``data/`` or path of a folder with a ``dataset.yaml``.

    Returns
    -------
    Dataset or None
        The readable documents and cases; None when ``dataset.yaml`` itself is at fault.
    list of str
        Every fault on disk.

    Raises
    ------
    InputError
        No such folder.
    """
    folder = paths.dataset_folder(dataset).resolve()
    faults: list[str] = []
    text = read_text(folder, DESCRIPTION, DESCRIPTION, faults)
    described = None if text is None else parse_yaml(text, DESCRIPTION, faults)
    description = None if faults else checked(_Description, described, DESCRIPTION, faults)
    if description is None:
        return None, faults
    documents = tuple(_documents(folder, description.documents, faults))
    cases, unsupported = _questions(folder, description.cases, faults)
    loaded = Dataset(
        **description.model_dump(exclude={"documents", "cases", "eligibility"}),
        eligibility=description.eligibility.model_dump(exclude_none=True),
        documents=documents,
        cases=cases,
        unsupported=unsupported,
        folder=folder,
        cases_file=description.cases,
    )
    return loaded, faults


def _documents(folder: Path, pattern: str, faults: list[str]) -> Iterator[Document]:
    """Read the documents one after another; only their ids are kept here."""
    place = f"{DESCRIPTION}: documents"
    read = _json_documents if pattern.endswith(".jsonl") else _markdown_documents
    sources: dict[str, str] = {}
    for document in read(folder, pattern, place, faults):
        first = sources.get(document.document_id)
        if first is None:
            sources[document.document_id] = document.source
            yield document
        else:
            faults.append(
                f"{document.source}: document_id {document.document_id!r} stands in {first} already"
            )


def _json_documents(folder: Path, name: str, place: str, faults: list[str]) -> Iterator[Document]:
    found = False
    for source, value in read_json_lines(folder, name, place, faults):
        found = True
        yield from _placed(checked(_Written, value, source, faults), source)
    if not found and not faults:
        faults.append(f"{name}: no documents; write one JSON object a line")


def _markdown_documents(folder: Path, pattern: str, place: str, faults: list[str]) -> Iterator[Document]:
    for name in matching(folder, pattern, place, faults):
        text = read_text(folder, name, place, faults)
        if text is None:
            continue
        lines = text.split("\n")
        end = next((number for number, line in enumerate(lines) if number and line.rstrip() == "---"), 0)
        if lines[0].rstrip() != "---" or not end:
            wanted = ", ".join(_FrontMatter.model_fields)
            faults.append(f"{name}:1: no front matter; begin the file with {wanted} between two lines of ---")
            continue
        known = len(faults)
        fields = parse_yaml("\n".join(lines[1:end]), name, faults, first_line=2)
        if len(faults) > known:
            continue
        if isinstance(fields, dict) and "body" not in fields:
            body = "\n".join(lines[end + 1 :])
            yield from _placed(checked(_Written, {**fields, "body": body}, name, faults), name)
        else:
            checked(_FrontMatter, fields, name, faults)


def _placed(written: _Written | None, source: str) -> Iterator[Document]:
    if written is not None:
        yield Document.model_construct(**dict(written), source=source)


def _questions(
    folder: Path, name: str, faults: list[str]
) -> tuple[tuple[Case, ...], tuple[Unsupported, ...]]:
    """Read the cases file, whose form its ending tells."""
    known = len(faults)
    read = _json_questions if name.endswith(".jsonl") else _yaml_questions
    cases: list[Case] = []
    unsupported: list[Unsupported] = []
    for answerable, place, value in read(folder, name, faults):
        name_given = value.get("id") if isinstance(value, dict) else None
        named = place if name_given is None else f"{place}: case {shown(name_given)}"
        if answerable:
            cases += filter(None, [checked(Case, value, named, faults)])
        else:
            unsupported += filter(None, [checked(Unsupported, value, named, faults)])
    if not cases and not unsupported and len(faults) == known:
        faults.append(f"{name}: no questions; list them under answerable and unsupported")
    return tuple(cases), tuple(unsupported)


def _json_questions(folder: Path, name: str, faults: list[str]) -> Iterator[tuple[bool, str, Any]]:
    for place, value in read_json_lines(folder, name, f"{DESCRIPTION}: cases", faults):
        answerable = value.pop("answerable", True)
        if isinstance(answerable, bool):
            yield answerable, place, value
        else:
            faults.append(f"{place}: answerable: wanted true or false, found {shown(answerable)}")


def _yaml_questions(folder: Path, name: str, faults: list[str]) -> Iterator[tuple[bool, str, Any]]:
    text = read_text(folder, name, f"{DESCRIPTION}: cases", faults)
    if text is None:
        return
    known = len(faults)
    content = parse_yaml(text, name, faults)
    lists = checked(_CasesFile, content or {}, name, faults) if len(faults) == known else None
    if lists is None:
        return
    for answerable, values in ((True, lists.answerable), (False, lists.unsupported)):
        for value in values:
            place = f"{name}:{value.line}" if isinstance(value, Mapping) else name
            yield answerable, place, value
