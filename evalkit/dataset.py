"""Documents and cases as they stand on disk, checked while reading."""

import hashlib
import json
import shlex
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from evalkit import paths
from evalkit.datafiles import parse_yaml, read_text
from evalkit.documents import Document, read_documents
from evalkit.errors import refuse
from evalkit.fields import Allowed, Id, Record, Text, checked
from evalkit.questions import Case, Fact, PositionalLabel, Quote, Remains, Unsupported, read_questions

__all__ = [
    "Case",
    "Dataset",
    "Document",
    "Fact",
    "PositionalLabel",
    "Quote",
    "Unread",
    "Unsupported",
    "load_dataset",
    "read_dataset",
]

DESCRIPTION = "dataset.yaml"


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


@dataclass(frozen=True)
class Unread:
    """What of a data set cannot be read; it is refused, and `labels.guard` looks at the rest in the same round.

    Attributes
    ----------
    documents
        File (JSONL: and line) of each document at fault to its ``document_id``; None where that cannot be told.
    questions
        What remains of the questions at fault.
    """

    documents: dict[str, str | None] = field(default_factory=dict)
    questions: tuple[Remains, ...] = ()


class HasType(Protocol):
    """What eligibility looks at: a document or a chunk."""

    @property
    def document_type(self) -> str: ...
    @property
    def publication_state(self) -> str: ...


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
    unread
        Empty unless `read_dataset` listed faults.
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
    unread: Unread = field(default_factory=Unread)

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
    unread: dict[str, str | None] = {}
    if description is None:
        _list_faults_of_files(folder, described, faults)
        return None, faults
    documents = tuple(read_documents(folder, description.documents, faults, unread))
    cases, unsupported, remains = read_questions(folder, description.cases, faults)
    loaded = Dataset(
        **description.model_dump(exclude={"documents", "cases", "eligibility"}),
        eligibility=description.eligibility.model_dump(exclude_none=True),
        documents=documents,
        cases=cases,
        unsupported=unsupported,
        folder=folder,
        cases_file=description.cases,
        unread=Unread(unread, remains),
    )
    return loaded, faults


def _list_faults_of_files(folder: Path, described: object, faults: list[str]) -> None:
    """List the faults of the files that a faulty description names."""
    named = described if isinstance(described, dict) else {}
    if isinstance(documents := named.get("documents"), str):
        deque(read_documents(folder, documents, faults, {}), maxlen=0)
    if isinstance(cases := named.get("cases"), str):
        read_questions(folder, cases, faults)
