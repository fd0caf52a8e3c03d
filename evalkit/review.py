"""Labels that outlive a change of the corpus: what was reviewed against what stands there now.

A positional label stands for the text that its chunk had when it was reviewed, a quote for the sentence that it
was taken from; ``labels.lock`` holds both. A label on another text stops every run until somebody has looked.
The chunks that a quote reaches are in no lock: they follow the quote.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalkit import paths
from evalkit.chunking import VERSIONS, Chunk, cut_documents, unknown_version
from evalkit.collector import collector_paused
from evalkit.dataset import DESCRIPTION, Dataset, read_dataset
from evalkit.errors import refuse
from evalkit.labels import Labels, guard
from evalkit.lock import LOCK, Key, read_lock, standings, write_lock
from evalkit.passages import Passages
from evalkit.proposals import Proposal, Proposals
from evalkit.wording import word_diff


@dataclass(frozen=True)
class Labelled:
    """A data set under one chunking version with its labels resolved and reviewed."""

    dataset: Dataset
    chunking: str
    chunks: tuple[Chunk, ...]
    labels: Labels


@dataclass(frozen=True)
class Change:
    """A label whose present text is not the reviewed one.

    Attributes
    ----------
    key
        The label.
    cases
        Ids of the cases that have it; empty when no label names it any more.
    reviewed, now
        Folded texts; None where there is none.
    proposal
        Where the reviewed text may be now.
    """

    key: Key
    cases: tuple[str, ...]
    reviewed: str | None
    now: str | None
    proposal: Proposal | None = None

    @property
    def place(self) -> str:
        """What changed, in words."""
        name = "chunk" if self.key.kind == "chunk" else "sentence of quote"
        cases = (
            f" ({'cases' if len(self.cases) > 1 else 'case'} {', '.join(self.cases)})" if self.cases else ""
        )
        return f"{name} {self.key.label!r} in document {self.key.document!r}{cases}"


@dataclass(frozen=True)
class LabelReview:
    """What the lock and the labels say about each other.

    Attributes
    ----------
    locked
        Whether there is a lock.
    changes
        Labels whose text is not the reviewed one: faults.
    unreviewed
        Labels without a reviewed text: noticed, no faults.
    dropped
        Reviewed texts that no label names any more; empty when not every case can be read.
    faults
        Faults of the labels themselves, as the guard lists them, and of the lock.
    notices
        What a run should mention.
    unchecked
        Labels that cannot be checked until something else is mended; no faults of their own.
    """

    locked: bool
    changes: tuple[Change, ...]
    unreviewed: tuple[Change, ...]
    dropped: tuple[Change, ...]
    faults: tuple[str, ...]
    notices: tuple[str, ...]
    unchecked: tuple[str, ...] = ()


def load_labelled(dataset: str | Path, chunking: str | None = None) -> Labelled:
    """Read a data set, cut it, resolve its labels and compare them with the lock.

    Parameters
    ----------
    dataset
        Name under ``data/`` or path of a folder with a ``dataset.yaml``.
    chunking
        Chunking version; None takes the data set's own.

    Returns
    -------
    Labelled
        Without any fault; what is only worth a mention stands in ``labels.notices``.

    Raises
    ------
    InputError
        Every fault at once: of the files, of the chunking, of the labels, and labels on text that is not the
        reviewed one, with old and new text and proposals.
    """
    labelled, review = _inspect(dataset, chunking, list_unreviewed=False)
    faults = [*review.faults, *map(_fault, review.changes)]
    if labelled is None or faults:
        name = shlex.quote(str(dataset))
        accept = f"look at `evalkit labels diff {name}`, mend the labels, then `evalkit labels accept {name}`"
        then = [*map(_unchecked, review.unchecked), *([accept] if review.changes else [])]
        refuse(f"data set {str(dataset)!r}", faults, "\n".join(then))
    return labelled


def check_dataset(dataset: str | Path) -> LabelReview:
    """Look for every fault that `load_labelled` would refuse under the data set's own chunking; changes nothing.

    Parameters
    ----------
    dataset
        Name under ``data/`` or path of a folder with a ``dataset.yaml``.

    Returns
    -------
    LabelReview
        With the faults of files, chunking, labels and lock. What cannot be read is not compared with the lock.

    Raises
    ------
    InputError
        No such folder.
    """
    return _inspect(dataset, None, list_unreviewed=True)[1]


@collector_paused()
def _inspect(
    dataset: str | Path, chunking: str | None, list_unreviewed: bool
) -> tuple[Labelled | None, LabelReview]:
    """Read, cut, resolve and compare as far as it goes; without a lock the list of all labels can be left out."""
    loaded, faults = read_dataset(dataset)
    if loaded is None:
        locked = (paths.dataset_folder(dataset) / LOCK).exists()
        return None, LabelReview(locked, (), (), (), tuple(faults), ())
    version = chunking or loaded.chunking
    chunks: tuple[Chunk, ...] = ()
    if version in VERSIONS:
        chunks = tuple(cut_documents(loaded.documents, version, faults))
    else:
        faults.append(f"{DESCRIPTION if chunking is None else 'chunking'}: {unknown_version(version)}")
    cut = {chunk.document_id for chunk in chunks}
    uncut = {
        document.document_id: f"{document.source} can be cut"
        if version in VERSIONS
        else "the chunking version is known"
        for document in loaded.documents
        if document.document_id not in cut
    }
    passages = Passages(loaded, chunks, version, uncut)
    labels, label_faults = guard(loaded, passages)
    review = _review(loaded, passages, [*faults, *label_faults], list_unreviewed, whole=not faults)
    notices = (*labels.notices, *review.notices)
    return Labelled(loaded, version, chunks, replace(labels, notices=notices)), review


def check_labels(dataset: Dataset, chunks: Sequence[Chunk]) -> LabelReview:
    """Compare the labels with the lock; changes nothing.

    Parameters
    ----------
    dataset
        Data set with its labels.
    chunks
        All its chunks under one chunking version. Positional labels are looked at under the data set's own only.

    Returns
    -------
    LabelReview
        With the faults of the guard and of the lock itself.
    """
    passages = Passages(dataset, chunks)
    return _review(dataset, passages, guard(dataset, passages)[1])


def accept_labels(dataset: Dataset, chunks: Sequence[Chunk]) -> LabelReview:
    """Write the present texts of all labels to the lock, as reviewed.

    Parameters
    ----------
    dataset
        Data set with its labels.
    chunks
        All its chunks under its own chunking version.

    Returns
    -------
    LabelReview
        How things stood before: what this call accepted.

    Raises
    ------
    InputError
        Labels with faults, or chunks of another version than the data set's own.
    InfrastructureError
        The lock cannot be written.
    """
    passages = Passages(dataset, chunks)
    review = _review(dataset, passages, guard(dataset, passages)[1])
    faults = list(review.faults)
    if not passages.own:
        faults.insert(0, f"labels are accepted under {dataset.chunking}, the data set's own chunking version")
    if faults:
        refuse(f"labels of data set {dataset.name!r} are not accepted", faults)
    now = standings(dataset, passages)
    write_lock(
        dataset.folder, [(key, standing.text) for key, standing in now.items() if standing.text is not None]
    )
    return review


def diff(review: LabelReview) -> str:
    """Show reviewed and present text of each change, one above the other.

    Returns
    -------
    str
        Removed words as ``[-so-]``, added ones as ``{+so+}``; empty when nothing changed.
    """
    return "\n\n".join(f"{change.place}\n{_texts(change, '  ')}" for change in review.changes)


def describe(review: LabelReview) -> str:
    """Say in a few lines what a review found.

    Returns
    -------
    str
        Faults, then counts of changed, unreviewed and dropped texts with their places.
    """
    lines = [f"fault: {fault}" for fault in review.faults] + list(map(_unchecked, review.unchecked))
    for changes, word in (
        (review.changes, "changed"),
        (review.unreviewed, "new"),
        (review.dropped, "no longer labelled"),
    ):
        lines += [f"{word}: {change.place}" for change in changes]
    if not lines:
        lines = ["all labels stand on the texts that were reviewed"]
    return "\n".join(lines if review.locked else [f"no {LOCK} yet", *lines])


def _unchecked(labels: str) -> str:
    return f"not checked: {labels}"


def _fault(change: Change) -> str:
    return f"{LOCK}: {change.place}: not the text that was reviewed\n{_texts(change, '    ')}"


def _texts(change: Change, indent: str) -> str:
    reviewed, now = change.reviewed or "", change.now
    if now is None:
        lines = [f"reviewed: {reviewed}", "now:      (gone)"]
    else:
        old, new = word_diff(reviewed, now)
        lines = [f"reviewed: {old}", f"now:      {new}"]
    if change.proposal:
        lines.append(f"proposal: {change.proposal.label} ({change.proposal.likeness:.0f} % alike)")
        if change.proposal.text != reviewed:
            old, new = word_diff(reviewed, change.proposal.text)
            lines += [f"reviewed: {old}", f"there:    {new}"]
    return "\n".join(indent + line for line in lines)


def _review(
    dataset: Dataset,
    passages: Passages,
    label_faults: Sequence[str],
    list_unreviewed: bool = True,
    whole: bool = True,
) -> LabelReview:
    faults = list(label_faults)
    lock = read_lock(dataset.folder, faults)
    reviewed = lock or {}
    now = {} if lock is None and not list_unreviewed else standings(dataset, passages)
    proposals = Proposals(passages)
    changes = [
        Change(key, standing.cases, old, standing.text, proposals.find(key, old, standing.text))
        for key, standing in now.items()
        if (old := reviewed.get(key)) is not None
        and standing.text != old
        and not passages.awaits(key.document, key.kind)
    ]
    unreviewed = [
        Change(key, standing.cases, None, standing.text)
        for key, standing in now.items()
        if key not in reviewed
    ]
    dropped = [
        Change(key, (), text, None)
        for key, text in reviewed.items()
        if whole and key not in now and (passages.own or key.kind == "sentence")
    ]
    notices = []
    if lock is None:
        notices.append(
            f"no {LOCK}: nothing shows that the labels were reviewed; `evalkit labels accept DATASET` writes it"
        )
    elif unreviewed:
        notices.append(
            f"labelled texts not in {LOCK}: {len(unreviewed)}; review, then `evalkit labels accept DATASET`"
        )
    return LabelReview(
        locked=lock is not None,
        changes=tuple(changes),
        unreviewed=tuple(unreviewed),
        dropped=tuple(dropped),
        faults=tuple(faults),
        notices=tuple(notices),
        unchecked=passages.unchecked,
    )
