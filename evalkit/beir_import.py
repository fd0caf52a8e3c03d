"""A BEIR folder made into a data set of ours.

BEIR judges documents, not passages, so each document becomes one chunk (chunking ``whole-document-v1``) and each
judgment a positional label on it. Nearly all documents of a BEIR collection are unjudged: ``judgments: partial``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from evalkit.beir import Passage, json_line, read_corpus, read_judgments, read_queries
from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.files import whole_folder

CHUNKING = "whole-document-v1"
CHUNK = "document"
NO_TITLE = "none"  # what prompt profiles write for a missing title
CATEGORY = "all"


@dataclass(frozen=True)
class ImportReport:
    """What became of a BEIR folder.

    Attributes
    ----------
    folder
        The new data set.
    documents, cases, labels
        How many there are in it.
    notices
        All that could not be taken over as it was, in words with counts.
    """

    folder: Path
    documents: int
    cases: int
    labels: int
    notices: tuple[str, ...]

    def describe(self) -> str:
        """Say it in a few lines."""
        done = f"{self.folder}: {self.documents} documents, {self.cases} cases, {self.labels} labels"
        return "\n".join([done, *(f"note: {notice}" for notice in self.notices)])


@dataclass
class _Labels:
    """Judgments of a split while the corpus is read."""

    grades: dict[str, dict[str, int]]
    notes: Counter[str]
    examples: dict[str, str]

    def note(self, what: str, example: str) -> None:
        self.notes[what] += 1
        self.examples.setdefault(what, example)

    def notices(self) -> tuple[str, ...]:
        return tuple(f"{n} {what}, such as {self.examples[what]!r}" for what, n in self.notes.items())


def import_beir(folder: Path, target: Path, split: str = "test") -> ImportReport:
    """Make a data set of a BEIR folder.

    Grades stay as they are up to 2; higher ones become 2 and those below 0 become 0, which is reported. A document
    without text keeps its title as text; one with neither is left out. A query without a relevant document in the
    corpus, and one whose text an earlier query has, is set aside; all counts are reported.

    Parameters
    ----------
    folder
        Holds ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``.
    target
        Folder of the new data set; must not exist.
    split
        Which judgments to take.

    Returns
    -------
    ImportReport
        Counts, and what could not be taken over.

    Raises
    ------
    InputError
        `target` exists, a file is missing or malformed (file and line are named), hardly any judged query or
        document is in the folder, or the result is no valid data set.
    InfrastructureError
        The disk refused; nothing is left under `target`.
    """
    if target.exists():
        raise InputError(f"{target} exists; remove it or give another folder")
    labels = _read_labels(folder, split)
    queries = read_queries(folder)
    with whole_folder(target) as draft:
        with (draft / "documents.jsonl").open("w", encoding="utf-8") as stream:
            known, n_documents = _write_documents(read_corpus(folder), labels, stream)
        cases = list(_cases(queries, known, labels))
        if not cases:
            raise InputError(
                f"{folder}: no query of qrels/{split}.tsv has both a text and a relevant document in the corpus; "
                f"do the ids of the files fit together?{_examples(labels, queries, known)}"
            )
        (draft / "cases.jsonl").write_text("".join(json_line(case) for case in cases), encoding="utf-8")
        description = _description(folder, target, split, n_documents, len(cases))
        (draft / "dataset.yaml").write_text(description, encoding="utf-8")
        load_dataset(draft)
    n_labels = sum(len(case["relevant"]) for case in cases)
    return ImportReport(target, n_documents, len(cases), n_labels, labels.notices())


def _read_labels(folder: Path, split: str) -> _Labels:
    labels = _Labels(defaultdict(dict), Counter(), {})
    for query, document, grade in read_judgments(folder, split):
        held = labels.grades[query]
        if document in held:
            labels.note("judgments repeat a document of their query; the higher grade counts", query)
        if grade > 2:
            labels.note(
                "grades above 2 became 2, so that nDCG differs from that of the original grades", query
            )
        if grade < 0:
            labels.note("grades below 0 became 0", query)
        held[document] = max(min(max(grade, 0), 2), held.get(document, 0))
    return labels


def _write_documents(corpus: Iterator[Passage], labels: _Labels, stream: IO[str]) -> tuple[set[str], int]:
    """Write the documents; give the judged ones among them, and the number of all."""
    judged = {document for held in labels.grades.values() for document in held}
    known: set[str] = set()
    n = 0
    for one in corpus:
        title, text = one.title.strip(), one.text.strip()
        if not text and not title:
            labels.note("documents have neither text nor title and are left out", one.id)
            continue
        if not text:
            labels.note("documents have no text; their title stands for it", one.id)
        n += 1
        if one.id in judged:
            known.add(one.id)
        document = {
            "document_id": one.id,
            "title": title or NO_TITLE,
            "document_type": "document",
            "publication_state": "published",
            "body": text or title,
        }
        stream.write(json_line(document))
    return known, n


def _cases(queries: dict[str, str], known: set[str], labels: _Labels) -> Iterator[dict[str, Any]]:
    first_with: dict[str, str] = {}
    for query, held in labels.grades.items():
        present = {document: grade for document, grade in held.items() if document in known}
        for document in held.keys() - known:
            labels.note("judged documents are not in the corpus; their labels are left out", document)
        question = " ".join(queries.get(query, "").split())
        if not question:
            labels.note("judged queries have no text in queries.jsonl and are set aside", query)
        elif max(present.values(), default=0) < 1:
            labels.note("queries have no relevant document in the corpus and are set aside", query)
        elif first_with.setdefault(question.casefold(), query) != query:
            labels.note("queries repeat the text of an earlier query and are set aside", query)
        else:
            relevant = [{"document": name, "chunk": CHUNK, "grade": grade} for name, grade in present.items()]
            yield {"id": query, "category": CATEGORY, "question": question, "relevant": relevant}
    if unjudged := queries.keys() - labels.grades.keys():
        labels.notes["queries have no judgments in this split and are left out"] = len(unjudged)
        labels.examples["queries have no judgments in this split and are left out"] = min(unjudged)


def _examples(labels: _Labels, queries: dict[str, str], known: set[str]) -> str:
    judged = next(iter(labels.grades), None)
    document = next((name for held in labels.grades.values() for name in held), None)
    return (
        f"\n- qrels name query {judged!r}, queries.jsonl has {next(iter(queries), None)!r}"
        f"\n- qrels name document {document!r}; {len(known)} judged documents are in the corpus"
    )


def _description(folder: Path, target: Path, split: str, documents: int, cases: int) -> str:
    content = {
        "name": target.name,
        "version": f"beir-{split}",
        "description": f"BEIR collection {folder.resolve().name}, {split}: {documents} documents, {cases} cases.",
        "documents": "documents.jsonl",
        "cases": "cases.jsonl",
        "chunking": CHUNKING,
        "eligibility": {"document_type": ["document"], "publication_state": ["published"]},
        "judgments": "partial",
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)
