"""Documents and cases as they stand on disk, checked while reading."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Protocol, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evalkit import paths
from evalkit.errors import InputError

MAX_FAULTS_SHOWN = 1000


def refuse(what: str, faults: Sequence[str]) -> NoReturn:
    """Raise all faults as one InputError.

    Parameters
    ----------
    what
        What was being read or checked.
    faults
        One text a fault, at least one, each with its place and its mend.

    Raises
    ------
    InputError
        Always. Over 1000 faults the rest is counted, not shown.
    """
    shown = "".join(f"\n- {fault}" for fault in faults[:MAX_FAULTS_SHOWN])
    rest = len(faults) - MAX_FAULTS_SHOWN
    more = f"\n… and {rest} more" if rest > 0 else ""
    raise InputError(f"{what}: {len(faults)} fault{'s' if len(faults) > 1 else ''}{shown}{more}")


def _plain_id(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("an id has no control or invisible characters and no white space around it")
    return value


def _no_null(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a null character; remove it")
    return value


def _has_words(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; write text")
    return value


def _unix_lines(value: str) -> str:
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


Text = Annotated[str, AfterValidator(_no_null), AfterValidator(_has_words)]
Id = Annotated[str, Field(min_length=1), AfterValidator(_plain_id)]
Split = Literal["development", "held-out"]
Allowed = Annotated[tuple[Id, ...], Field(min_length=1), BeforeValidator(_as_tuple)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class Document(_Record):
    """One source text."""

    document_id: Id
    title: Text
    document_type: Id
    publication_state: Id
    body: Annotated[Text, AfterValidator(_unix_lines)]
    source: str = Field(
        default="", description="file, and line of a JSONL file, within the data set's folder"
    )


class Quote(_Record):
    """Verbatim text of one document."""

    document: Id
    quote: Text


class Fact(_Record):
    """One fact that a complete answer needs; any of its quotes is enough."""

    fact: Text
    quotes: Annotated[tuple[Quote, ...], Field(min_length=1)]


class PositionalLabel(_Record):
    """Grade of a chunk of the data set's own chunking version."""

    document: Id
    chunk: Id
    grade: Annotated[int, BeforeValidator(_no_bool)] = 2


class _Question(_Record):
    id: Id
    split: Split | None = None
    question: Text


class Case(_Question):
    """An answerable question with its labels."""

    category: Text
    relevant: tuple[PositionalLabel, ...] = ()
    evidence: tuple[Fact, ...] = ()
    supporting: tuple[Quote, ...] = ()


class Unsupported(_Question):
    """A question that no eligible chunk answers."""

    category: Text | None = None


class Eligibility(_Record):
    """Values that eligible documents have; a field left out allows all."""

    document_type: Allowed | None = None
    publication_state: Allowed | None = None


class _Description(_Record):
    """What ``dataset.yaml`` holds."""

    name: Id
    version: Id
    description: str = ""
    documents: Text
    cases: Text
    chunking: Id
    eligibility: Eligibility = Eligibility()
    judgments: Literal["complete", "partial"]


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
        Every fault on disk at once, each with file, line or case, and mend.
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
    described = _read_yaml(folder / "dataset.yaml", "dataset.yaml", faults)
    description = _checked(_Description, described, "dataset.yaml", faults) if not faults else None
    if description is None:
        return None, faults
    documents = tuple(_read_documents(folder, description.documents, faults))
    cases, unsupported = _read_cases(folder, description.cases, faults)
    eligibility = description.eligibility.model_dump(exclude_none=True)
    return Dataset(
        name=description.name,
        version=description.version,
        description=description.description,
        chunking=description.chunking,
        eligibility=eligibility,
        judgments=description.judgments,
        documents=documents,
        cases=cases,
        unsupported=unsupported,
        folder=folder,
        cases_file=description.cases,
    ), faults


Record = TypeVar("Record", bound=BaseModel)


def _checked(model: type[Record], value: object, place: str, faults: list[str]) -> Record | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for fault in error.errors():
            where = ".".join(str(part) for part in fault["loc"]) or "entry"
            faults.append(f"{place}: {where}: {fault['msg']}, found {fault['input']!r}")
        return None


def _read_text(path: Path, place: str, faults: list[str]) -> str | None:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        faults.append(f"{place}: cannot be read: {error}")
        return None


def _read_yaml(path: Path, place: str, faults: list[str]) -> Any:  # noqa: ANN401
    text = _read_text(path, place, faults)
    return None if text is None else _parse_yaml(text, place, faults)


def _parse_yaml(text: str, place: str, faults: list[str]) -> Any:  # noqa: ANN401
    try:
        return yaml.load(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError as error:
        faults.append(f"{place}: {error}")
        return None


def _read_documents(folder: Path, pattern: str, faults: list[str]) -> Iterator[Document]:
    if pattern.endswith(".jsonl"):
        yield from _read_jsonl_documents(folder / pattern, pattern, faults)
        return
    found = sorted(folder.glob(pattern), key=lambda path: path.relative_to(folder).as_posix())
    if not found:
        faults.append(
            f"dataset.yaml: documents: nothing matches {pattern!r}; name Markdown files in {folder}"
        )
    for path in found:
        place = path.relative_to(folder).as_posix()
        text = _read_text(path, place, faults)
        if text is None:
            continue
        head, mark, body = text.removeprefix("---\n").partition("\n---\n")
        if not text.startswith("---\n") or not mark:
            faults.append(
                f"{place}: no front matter; begin the file with a block of fields between two lines ---"
            )
            continue
        fields = _parse_yaml(head, place, faults)
        document = _checked(Document, {**fields, "body": body, "source": place}, place, faults)
        if document is not None:
            yield document


def _read_jsonl_documents(path: Path, place: str, faults: list[str]) -> Iterator[Document]:
    for number, value in _read_jsonl(path, place, faults):
        line = f"{place}:{number}"
        document = _checked(Document, {**value, "source": line}, line, faults)
        if document is not None:
            yield document


def _read_jsonl(path: Path, place: str, faults: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    text = _read_text(path, place, faults)
    for number, line in enumerate((text or "").split("\n"), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                faults.append(f"{place}:{number}: {error}")


def _read_cases(
    folder: Path, name: str, faults: list[str]
) -> tuple[tuple[Case, ...], tuple[Unsupported, ...]]:
    if name.endswith(".jsonl"):
        rows = [(f"{name}:{number}", value) for number, value in _read_jsonl(folder / name, name, faults)]
        answerable = [(place, row) for place, row in rows if row.pop("answerable", True)]
        unsupported = [(place, row) for place, row in rows if row not in [r for _, r in answerable]]
    else:
        content = _read_yaml(folder / name, name, faults) or {}
        answerable = [(f"{name}: case {row.get('id')!r}", row) for row in content.get("answerable") or []]
        unsupported = [(f"{name}: case {row.get('id')!r}", row) for row in content.get("unsupported") or []]
    cases = [_checked(Case, row, place, faults) for place, row in answerable]
    others = [_checked(Unsupported, row, place, faults) for place, row in unsupported]
    return tuple(c for c in cases if c is not None), tuple(u for u in others if u is not None)
