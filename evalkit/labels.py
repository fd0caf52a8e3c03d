"""Judgments and places of facts from the labels of a data set, and the guard that refuses faulty labels.

The guard runs before anything is embedded and lists every fault at once. It looks only at the chunks of
documents that a label names, so its cost grows with the labels and not with the corpus.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import pandas as pd

from evalkit.chunking import Chunk
from evalkit.dataset import Case, Dataset
from evalkit.errors import refuse
from evalkit.passages import Passages
from evalkit.questions import Remains
from evalkit.wording import fold

__all__ = ["Labels", "fold", "guard", "resolve_labels"]

ANSWERS, SUPPORTS = 2, 1
_DTYPES = {
    **dict.fromkeys(("case_id", "document_id", "chunk_id", "text", "first_quote"), "str"),
    **dict.fromkeys(("fact", "quote", "grade"), "int64"),
    "lost": "bool",
}

Place = tuple[str, str]
"""Document id and chunk id."""


@dataclass(frozen=True)
class Labels:
    """What the labels of a data set say about its chunks.

    Attributes
    ----------
    judgments
        ``case_id, document_id, chunk_id, grade`` (int64): a row for each eligible chunk that a label reaches,
        sorted by the first three. Explicit grade 0 (judged, not relevant) is kept.
    facts
        ``case_id, fact`` (int64, from 0), ``text, first_quote`` (folded), ``lost`` (bool: no chunk holds any
        of its quotes).
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
    labels, faults = guard(dataset, Passages(dataset, chunks))
    if faults:
        refuse(f"labels of data set {dataset.name!r}", faults)
    return labels


def guard(dataset: Dataset, passages: Passages) -> tuple[Labels, list[str]]:
    """Resolve the labels that can be resolved and list the faults of the others; see `resolve_labels`."""
    found = _Found()
    faults = _repeats(dataset)
    for case in dataset.cases:
        faults += [f"{dataset.cases_file}: case {case.id!r}: {fault}" for fault in found.add(case, passages)]
    for remains in dataset.unread.questions:
        faults += [f"{remains.place}: {fault}" for fault in _faults_of_remains(remains, passages)]
    if found.positional_only:
        faults.append(
            f"{dataset.cases_file}: positional labels hold for {dataset.chunking} only, not for {passages.version}; "
            f"add evidence quotes to: {', '.join(found.positional_only)}"
        )
    return found.labels(passages.version), faults


def _repeats(dataset: Dataset) -> list[str]:
    """List case ids that stand twice and questions that are asked twice."""
    remains = [question for question in dataset.unread.questions if question.id]
    questions = [*dataset.questions, *remains]
    faults = [
        f"{dataset.cases_file}: case {name!r}: the id stands {times} times; give each question its own id"
        for name, times in Counter(question.id for question in questions).items()
        if times > 1
    ]
    asked = defaultdict(list)
    for question in filter(lambda one: one.question, questions):
        asked[fold(question.question).casefold()].append(question)
    for same in asked.values():
        if len(same) == 1:
            continue
        names = ", ".join(repr(question.id) for question in same)
        both = {"development", "held-out"} <= {question.split for question in same}
        why = (
            "stands in both splits, so that the held-out one is not unseen"
            if both
            else "is asked more than once"
        )
        faults.append(
            f"{dataset.cases_file}: cases {names}: the question {same[0].question!r} {why}; keep one"
        )
    return faults


@dataclass
class _Found:
    """Rows of the tables, gathered case by case."""

    judgments: list[tuple[str, str, str, int]] = field(default_factory=list)
    facts: list[tuple[str, int, str, str, bool]] = field(default_factory=list)
    places: list[tuple[str, int, int, str, str, str]] = field(default_factory=list)
    positional_only: list[str] = field(default_factory=list)
    supporting_lost: int = 0

    def add(self, case: Case, passages: Passages) -> Iterator[str]:
        """Resolve one case and yield its faults."""
        if not (case.relevant or case.evidence or case.supporting):
            yield "no labels; add relevant, evidence or supporting, or move the question to unsupported"
            return
        anchored: dict[Place, int] = {}
        yield from self._add_supporting(case, passages, anchored)
        yield from self._add_facts(case, passages, anchored)
        positional: dict[Place, int] = {}
        if passages.own:
            yield from _positional(case, passages, positional)
            yield from _disagreements(anchored, case, positional)
            if not (case.evidence or case.supporting) and not any(label.grade for label in case.relevant):
                yield "every label has grade 0; name a chunk that answers (2) or supports (1)"
        elif not (case.evidence or case.supporting):
            self.positional_only.append(case.id)
        places = anchored | positional
        self.judgments += [
            (case.id, *place, max(anchored.get(place, 0), positional.get(place, 0))) for place in places
        ]

    def _add_supporting(self, case: Case, passages: Passages, anchored: dict[Place, int]) -> Iterator[str]:
        for number, quote in enumerate(case.supporting):
            chunk_ids, fault = passages.holders(quote)
            if fault:
                yield f"supporting[{number}]: {fault}"
            self.supporting_lost += not chunk_ids
            anchored.update({(quote.document, chunk_id): SUPPORTS for chunk_id in chunk_ids})

    def _add_facts(self, case: Case, passages: Passages, anchored: dict[Place, int]) -> Iterator[str]:
        for number, fact in enumerate(case.evidence):
            lost = True
            for index, quote in enumerate(fact.quotes):
                chunk_ids, fault = passages.holders(quote)
                if fault:
                    yield f"evidence[{number}].quotes[{index}]: {fault}"
                lost = lost and not chunk_ids
                anchored.update({(quote.document, chunk_id): ANSWERS for chunk_id in chunk_ids})
                text = fold(quote.quote)
                self.places += [
                    (case.id, number, index, quote.document, chunk_id, text) for chunk_id in chunk_ids
                ]
            self.facts.append((case.id, number, fact.fact, fold(fact.quotes[0].quote), lost))

    def labels(self, version: str) -> Labels:
        """Make the tables."""
        notices = []
        lost = sum(row[-1] for row in self.facts)
        if lost:
            notices.append(
                f"{lost} of {len(self.facts)} facts are lost to chunking: no {version} chunk holds a quote"
            )
        if self.supporting_lost:
            notices.append(f"supporting quotes that no {version} chunk holds: {self.supporting_lost}")
        return Labels(
            _table(self.judgments, "case_id document_id chunk_id grade"),
            _table(self.facts, "case_id fact text first_quote lost"),
            _table(self.places, "case_id fact quote document_id chunk_id text"),
            tuple(notices),
        )


def _table(rows: Sequence[tuple[object, ...]], names: str) -> pd.DataFrame:
    columns = names.split()
    keys = [
        place for place, name in enumerate(columns) if name not in ("grade", "text", "first_quote", "lost")
    ]
    ordered = sorted(rows, key=itemgetter(*keys))
    return pd.DataFrame(
        {
            name: pd.Series([row[place] for row in ordered], dtype=_DTYPES[name])
            for place, name in enumerate(columns)
        }
    )


def _faults_of_remains(remains: Remains, passages: Passages) -> Iterator[str]:
    """Check each label of a faulty case by itself; what all of them say together is not known."""
    for path, label in remains.relevant if passages.own else ():
        if fault := passages.chunk_fault(label):
            yield f"{path}: {fault}"
    for path, quote in remains.quotes:
        if fault := passages.holders(quote)[1]:
            yield f"{path}: {fault}"


def _positional(case: Case, passages: Passages, positional: dict[Place, int]) -> Iterator[str]:
    for number, label in enumerate(case.relevant):
        fault = passages.chunk_fault(label)
        if fault:
            yield f"relevant[{number}]: {fault}"
        else:
            place = label.document, label.chunk
            positional[place] = max(label.grade, positional.get(place, 0))


def _disagreements(
    anchored: Mapping[Place, int], case: Case, positional: Mapping[Place, int]
) -> Iterator[str]:
    listed = {(label.document, label.chunk) for label in case.relevant}
    for place, grade in anchored.items() if listed else ():
        found = positional.get(place)
        # A listed place without a grade here has a fault of its own already.
        if found == grade or (found is None and place in listed):
            continue
        says = "does not list it" if found is None else f"gives grade {found}"
        yield (
            f"labels disagree on chunk {place[1]!r} of document {place[0]!r}: its quotes give grade {grade}, "
            f"relevant {says}; mend one or drop relevant"
        )
