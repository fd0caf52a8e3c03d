"""Quotes of labels, marked in the passages that hold them."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from evalkit.dataset import Dataset, load_dataset
from evalkit.errors import InputError
from evalkit.runs import Run
from evalkit.views.markup import render
from evalkit.views.tables import rows_of

Quotes = Mapping[tuple[str, str], Sequence[tuple[str, str]]]
"""By case and document: each quote with the name that stands behind its mark."""


def label_quotes(run: Run) -> tuple[Quotes, bool]:
    """Find the quotes that the labels of a run name.

    Parameters
    ----------
    run
        A run.

    Returns
    -------
    quotes
        By case and document. All quotes of the data set while its labels are those of the run, supporting ones too;
        else those that the run itself holds: of each fact the quote of its best place.
    whole
        Whether the data set could be used.
    """
    name = run.record.parameters["dataset"]
    try:
        dataset = load_dataset(name)
    except InputError:
        return _of_run(run), False  # A run is shown even when its data set is gone.
    if dataset.labels_sha256 != run.record.dataset.labels_sha256:
        return _of_run(run), False
    return _of_dataset(dataset), True


def highlight(text: str, quotes: Sequence[tuple[str, str]]) -> Markup:
    """Mark the quotes that a text holds.

    Parameters
    ----------
    text
        Any text; escaped.
    quotes
        ``(quote, name)``; a quote is searched with white space folded, exactly as labels are, and its name
        stands behind the marked passage. Quotes that the text does not hold mark nothing.

    Returns
    -------
    Markup
        The whole text, overlapping quotes in one mark with all their names.
    """
    spans: list[tuple[int, int, list[str]]] = []
    for start, end, name in sorted(_places(text, quotes)):
        if spans and start < spans[-1][1]:
            first, last, names = spans[-1]
            spans[-1] = (first, max(last, end), names if name in names else [*names, name])
        else:
            spans.append((start, end, [name]))
    parts, position = [], 0
    for start, end, names in spans:
        parts.append(escape(text[position:start]))
        parts.append(
            render(
                "<mark>{{ text }}</mark>&nbsp;<sup>{{ names }}</sup>",
                text=text[start:end],
                names=", ".join(names),
            )
        )
        position = end
    return Markup("").join([*parts, escape(text[position:])])


def _places(text: str, quotes: Sequence[tuple[str, str]]) -> set[tuple[int, int, str]]:
    found: set[tuple[int, int, str]] = set()
    for quote, name in quotes:
        words = [re.escape(word) for word in quote.split()]
        if words:
            found.update(
                (match.start(), match.end(), name) for match in re.finditer(r"\s+".join(words), text)
            )
    return found


def _of_dataset(dataset: Dataset) -> Quotes:
    quotes: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for case in dataset.cases:
        for number, fact in enumerate(case.evidence, start=1):
            for quote in fact.quotes:
                quotes[case.id, quote.document].append((quote.quote, f"fact {number}"))
        for quote in case.supporting:
            quotes[case.id, quote.document].append((quote.quote, "supports"))
    return quotes


def _of_run(run: Run) -> Quotes:
    quotes: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    placed = run.facts[run.facts["quote"].notna()]
    for row in rows_of(placed.drop_duplicates(["case_id", "fact", "document_id", "quote"])):
        quotes[row.case_id, row.document_id].append((row.quote, f"fact {row.fact + 1}"))
    return quotes
