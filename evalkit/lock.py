"""``labels.lock``: what was reviewed, and the texts that the labels stand on now.

One JSON object a line, in order of kind, document and label, with the reviewed text and its hash: a change of
one label is a change of one line. White space is folded, so that wrapping a paragraph anew changes nothing.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from evalkit.chunking import sentences
from evalkit.datafiles import read_json_lines
from evalkit.dataset import Dataset, PositionalLabel, Quote
from evalkit.fields import Record, checked
from evalkit.files import write_whole
from evalkit.passages import Passages, occurrences
from evalkit.wording import fold

LOCK = "labels.lock"
Kind = Literal["chunk", "sentence"]


class Key(NamedTuple):
    """Identity of a label: a chunk, or the sentence or sentences that a quote is part of.

    Attributes
    ----------
    kind, document, label
        For ``chunk`` the label is the chunk id, for ``sentence`` the folded quote.
    """

    kind: Kind
    document: str
    label: str


class Standing(NamedTuple):
    """What a label stands on now: ids of the cases that have it, folded text or None where there is none."""

    cases: tuple[str, ...]
    text: str | None


class _Entry(Record):
    kind: Kind
    document: str
    label: str
    sha256: str
    text: str


def standings(dataset: Dataset, passages: Passages) -> dict[Key, Standing]:
    """Give what each label stands on now, in order of the keys.

    Positional labels are left out under another chunking version than the data set's own. A quote that is not in
    its document exactly once, and a label on a chunk or document that is not there, stand on nothing.
    """
    cases: dict[Key, dict[str, None]] = defaultdict(dict)
    for name, positional, quotes in _labels(dataset):
        for label in positional if passages.own else ():
            cases[Key("chunk", label.document, label.chunk)][name] = None
        for quote in quotes:
            cases[Key("sentence", quote.document, fold(quote.quote))][name] = None
    split: dict[str, list[str]] = {}
    found = {}
    for key in sorted(cases):
        text = None
        if key.kind == "chunk":
            text = passages.texts(key.document).get(key.label)
        elif passages.usable(key.document):
            if key.document not in split:
                split[key.document] = sentences(passages.raw(key.document))
            text = around(key.label, passages.body(key.document), split[key.document])
        found[key] = Standing(tuple(cases[key]), text)
    return found


def _labels(dataset: Dataset) -> Iterator[tuple[str, list[PositionalLabel], list[Quote]]]:
    """Give the labels of each case, also those that can be read of a case with faults."""
    for case in dataset.cases:
        quotes = [quote for fact in case.evidence for quote in fact.quotes]
        yield case.id, [*case.relevant], [*quotes, *case.supporting]
    for remains in dataset.unread.questions:
        yield remains.id, [label for _, label in remains.relevant], [quote for _, quote in remains.quotes]


def around(quote: str, body: str, parts: Sequence[str]) -> str | None:
    """Give the sentences that a quote touches.

    Parameters
    ----------
    quote, body
        Folded texts.
    parts
        The sentences of the body, see `chunking.sentences`.

    Returns
    -------
    str or None
        The sentences, joined; None when the quote is not there exactly once.
    """
    if occurrences(body, quote) != 1:
        return None
    start = body.find(quote)
    end, position, touched = start + len(quote), 0, []
    for part in parts:
        if position < end and position + len(part) > start:
            touched.append(part)
        position += len(part) + 1
    return " ".join(touched)


def read_lock(folder: Path, faults: list[str]) -> dict[Key, str] | None:
    """Read the reviewed texts.

    Parameters
    ----------
    folder
        Folder of the data set.
    faults
        Gets a fault for each line that `write_lock` did not write.

    Returns
    -------
    dict or None
        Reviewed text of each label; None without a lock.
    """
    if not (folder / LOCK).exists():
        return None
    known = len(faults)
    reviewed: dict[Key, str] = {}
    for line, value in read_json_lines(folder, LOCK, LOCK, faults):
        entry = checked(_Entry, value, line, faults)
        if entry is None:
            continue
        key = Key(entry.kind, entry.document, entry.label)
        if entry.sha256 != _sha256(entry.text):
            faults.append(f"{line}: the text does not have the hash beside it")
        if key in reviewed:
            faults.append(
                f"{line}: {key.kind} {key.label!r} of document {key.document!r} stands there already"
            )
        reviewed[key] = entry.text
    if len(faults) > known:
        faults.append(
            f"{folder / LOCK} was edited; restore it, or delete it, review all labels and accept them"
        )
    return reviewed


def write_lock(folder: Path, texts: Iterable[tuple[Key, str]]) -> None:
    """Write the reviewed texts, in one step.

    Raises
    ------
    InfrastructureError
        The file cannot be written; the old one stays.
    """
    entries = [{**key._asdict(), "sha256": _sha256(text), "text": text} for key, text in sorted(texts)]
    write_whole(folder / LOCK, "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries))


def _sha256(text: str) -> str:
    # A lone surrogate, which only a damaged lock holds, has to give a wrong hash and no error of its own.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
