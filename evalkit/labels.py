"""Judgments and places of facts from the labels of a data set, and the guard that refuses faulty labels.

The guard runs before anything is embedded and lists every fault at once. It looks only at the chunks of
documents that a label names, so its cost grows with the labels and not with the corpus.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pandas as pd

from evalkit.chunking import Chunk
from evalkit.dataset import Case, Dataset, Quote, refuse

GRADES = (0, 1, 2)


@dataclass(frozen=True)
class Labels:
    """What the labels of a data set say about its chunks.

    Attributes
    ----------
    judgments
        ``case_id, document_id, chunk_id, grade`` (int64): a row for each eligible chunk that a label reaches,
        sorted by the first three. Explicit grade 0 (judged, not relevant) is kept.
    facts
        ``case_id, fact`` (int64, from 0), ``text, lost`` (bool: no chunk holds any of its quotes).
    places
        ``case_id, fact, quote`` (int64, from 0), ``document_id, chunk_id, text`` (the quote, folded): a row for
        each chunk that holds a quote of a fact.
    notices
        What a reader of the scores should know, such as how many facts the chunking lost.
    """

    judgments: pd.DataFrame
    facts: pd.DataFrame
    places: pd.DataFrame
    notices: tuple[str, ...] = ()


def fold(text: str) -> str:
    """Fold runs of white space to single spaces and strip both ends."""
    return " ".join(text.split())


def resolve_labels(dataset: Dataset, chunks: Sequence[Chunk]) -> Labels:
    """Turn labels into judgments and places of facts, or refuse them.

    Parameters
    ----------
    dataset
        Data set with its labels.
    chunks
        All chunks of the data set's documents under one chunking version.

    Returns
    -------
    Labels
        Where two labels reach one chunk the higher grade holds. Positional labels count only under the data
        set's own chunking version.

    Raises
    ------
    InputError
        Every fault of the labels at once.
    """
    labels, faults = guard(dataset, chunks)
    if faults:
        refuse(f"labels of data set {dataset.name!r}", faults)
    return labels


def guard(dataset: Dataset, chunks: Sequence[Chunk]) -> tuple[Labels, list[str]]:
    """Resolve what can be resolved and list the faults; see `resolve_labels`."""
    passages = Passages(dataset, chunks)
    resolved = _Resolved()
    faults = _repeats(dataset)
    for case in dataset.cases:
        place = f"{dataset.cases_file}: case {case.id!r}"
        faults += [f"{place}: {fault}" for fault in _resolve(case, passages, resolved)]
    if resolved.positional_only:
        faults.append(
            f"{dataset.cases_file}: positional labels hold for {dataset.chunking} only, not for {passages.version}; "
            f"add evidence quotes to: {', '.join(resolved.positional_only)}"
        )
    return resolved.labels(passages.version), faults


class Passages:
    """Chunks by document, with folded texts kept for the documents that labels name."""

    def __init__(self, dataset: Dataset, chunks: Sequence[Chunk]) -> None:
        versions = sorted({chunk.chunking_version for chunk in chunks})
        if len(versions) != 1:
            refuse(
                f"chunks of data set {dataset.name!r}",
                [f"want one chunking version, found {versions or 'no chunks'}"],
            )
        self.version = versions[0]
        self.own = self.version == dataset.chunking
        self._dataset = dataset
        self._documents = {document.document_id: document for document in dataset.documents}
        self._chunks: dict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            self._chunks[chunk.document_id].append(chunk)
        self._folded: dict[str, tuple[str, list[tuple[str, str]]]] = {}

    def document_fault(self, document_id: str) -> str | None:
        """Say why a label cannot name this document; None if it can."""
        document = self._documents.get(document_id)
        if document is None:
            return f"document {document_id!r} does not exist; name one of the data set's documents"
        if not self._dataset.is_eligible(document):
            return (
                f"document {document_id!r} is not eligible ({document.document_type}, {document.publication_state}); "
                f"label eligible documents only, or widen eligibility in dataset.yaml"
            )
        return None

    def chunk_ids(self, document_id: str) -> list[str]:
        """Give the chunk ids of a document, in order of its text."""
        return [chunk.chunk_id for chunk in self._chunks[document_id]]

    def find(self, quote: Quote) -> tuple[int, list[str]]:
        """Count a quote in its document and name the chunks that hold it."""
        if quote.document not in self._folded:
            chunks = [(chunk.chunk_id, fold(chunk.text)) for chunk in self._chunks[quote.document]]
            self._folded[quote.document] = fold(self._documents[quote.document].body), chunks
        body, chunks = self._folded[quote.document]
        text = fold(quote.quote)
        return _occurrences(body, text), [chunk_id for chunk_id, chunk in chunks if text in chunk]


def _occurrences(body: str, text: str) -> int:
    """Count where a text stands in a body, overlapping places included; stops at two."""
    first = body.find(text)
    return 0 if first < 0 else 1 if body.find(text, first + 1) < 0 else 2


@dataclass
class _Resolved:
    judgments: list[tuple[str, str, str, int]] = field(default_factory=list)
    facts: list[tuple[str, int, str, bool]] = field(default_factory=list)
    places: list[tuple[str, int, int, str, str, str]] = field(default_factory=list)
    positional_only: list[str] = field(default_factory=list)
    lost_supporting: int = 0

    def labels(self, version: str) -> Labels:
        judgments = pd.DataFrame(self.judgments, columns=["case_id", "document_id", "chunk_id", "grade"])
        facts = pd.DataFrame(self.facts, columns=["case_id", "fact", "text", "lost"])
        places = pd.DataFrame(
            self.places, columns=["case_id", "fact", "quote", "document_id", "chunk_id", "text"]
        )
        names = dict.fromkeys(["case_id", "document_id", "chunk_id", "text"], "str")
        return Labels(
            _typed(judgments, names | {"grade": "int64"}),
            _typed(facts, names | {"fact": "int64", "lost": "bool"}),
            _typed(places, names | {"fact": "int64", "quote": "int64"}),
            tuple(self._notices(version)),
        )

    def _notices(self, version: str) -> Iterator[str]:
        lost = sum(row[3] for row in self.facts)
        if lost:
            yield f"{lost} of {len(self.facts)} facts are lost to chunking: no {version} chunk holds a quote"
        if self.lost_supporting:
            yield f"{self.lost_supporting} supporting quotes are in no chunk of {version}"


def _typed(table: pd.DataFrame, dtypes: dict[str, str]) -> pd.DataFrame:
    typed = table.astype({column: dtypes[column] for column in table.columns})
    keys = [column for column in table.columns if column not in ("grade", "lost", "text")]
    return typed.sort_values(keys, ignore_index=True)


def _repeats(dataset: Dataset) -> list[str]:
    """List ids that stand twice in documents or cases, and questions asked twice."""
    faults = []
    questions = [*dataset.cases, *dataset.unsupported]
    faults += [
        f"{dataset.cases_file}: case id {name!r} stands {count} times; give each question its own id"
        for name, count in Counter(case.id for case in questions).items()
        if count > 1
    ]
    asked = defaultdict(list)
    for case in questions:
        asked[fold(case.question).casefold()].append(case)
    for cases in asked.values():
        if len(cases) > 1:
            names = ", ".join(repr(case.id) for case in cases)
            both = {"development", "held-out"} <= {case.split for case in cases}
            why = (
                "stands in both splits; the held-out split must hold unseen questions"
                if both
                else "is asked twice"
            )
            faults.append(
                f"{dataset.cases_file}: cases {names}: the question {cases[0].question!r} {why}; keep one"
            )
    return faults


def _resolve(case: Case, passages: Passages, resolved: _Resolved) -> Iterator[str]:
    if not (case.relevant or case.evidence or case.supporting):
        yield "no labels; add relevant, evidence or supporting, or move the question to unsupported"
        return
    anchored: dict[tuple[str, str], int] = {}
    for number, fact in enumerate(case.evidence):
        held = False
        for index, quote in enumerate(fact.quotes):
            chunk_ids, fault = _locate(quote, passages)
            if fault:
                yield f"evidence {number}, quote {index}: {fault}"
            held = held or bool(chunk_ids)
            for chunk_id in chunk_ids:
                anchored[quote.document, chunk_id] = 2
                resolved.places.append((case.id, number, index, quote.document, chunk_id, fold(quote.quote)))
        resolved.facts.append((case.id, number, fact.fact, not held))
    for index, quote in enumerate(case.supporting):
        chunk_ids, fault = _locate(quote, passages)
        if fault:
            yield f"supporting quote {index}: {fault}"
        resolved.lost_supporting += not chunk_ids
        for chunk_id in chunk_ids:
            anchored.setdefault((quote.document, chunk_id), 1)
    positional: dict[tuple[str, str], int] = {}
    if passages.own:
        for label in case.relevant:
            fault = _position_fault(label.document, label.chunk, passages)
            if label.grade not in GRADES:
                yield f"chunk {label.document}/{label.chunk}: grade {label.grade}; a grade is 0, 1 or 2"
            elif fault:
                yield fault
            else:
                key = label.document, label.chunk
                positional[key] = max(label.grade, positional.get(key, 0))
        if positional:
            yield from _disagreements(anchored, positional)
    elif not (case.evidence or case.supporting):
        resolved.positional_only.append(case.id)
    grades = {key: max(anchored.get(key, 0), positional.get(key, 0)) for key in anchored | positional}
    resolved.judgments += [(case.id, *key, grade) for key, grade in grades.items()]


def _locate(quote: Quote, passages: Passages) -> tuple[list[str], str | None]:
    fault = passages.document_fault(quote.document)
    if fault:
        return [], fault
    count, chunk_ids = passages.find(quote)
    named = f"quote {quote.quote!r}"
    if count == 0:
        return (
            [],
            f"{named} is not in document {quote.document!r}; copy the sentence from the document word for word",
        )
    if count > 1:
        return (
            chunk_ids,
            f"{named} stands more than once in document {quote.document!r}; quote more of the sentence",
        )
    if not chunk_ids and passages.own:
        return [], (
            f"{named} is cut by a chunk border in document {quote.document!r}; quote a part that one chunk holds"
        )
    return chunk_ids, None


def _position_fault(document: str, chunk: str, passages: Passages) -> str | None:
    fault = passages.document_fault(document)
    if fault:
        return f"chunk {chunk!r}: {fault}"
    known = passages.chunk_ids(document)
    if chunk not in known:
        return f"chunk {chunk!r} of document {document!r} does not exist; its chunks: {', '.join(known)}"
    return None


def _disagreements(
    anchored: dict[tuple[str, str], int], positional: dict[tuple[str, str], int]
) -> Iterable[str]:
    for (document, chunk), grade in anchored.items():
        found = positional.get((document, chunk))
        if found != grade:
            lists = "does not list it" if found is None else f"grades it {found}"
            yield (
                f"both label forms disagree on {document}/{chunk}: its quotes give grade {grade}, relevant {lists}; "
                f"make them agree, or keep one form"
            )
