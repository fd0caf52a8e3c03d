"""Texts compared: word diff, closest match. Whoever uses a match proposes it; nothing here decides."""

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel

CLOSE_SPAN = 70.0
CLOSE_TEXT = 75.0
_CONTEXT = 8
_LONGEST_DIFF = 3000


@dataclass(frozen=True)
class Match:
    """A text like the one that was sought.

    Attributes
    ----------
    text
        The text found.
    likeness
        Per cent, 100 for the same text.
    index
        Which of the texts it was.
    """

    text: str
    likeness: float
    index: int = 0


def fold(text: str) -> str:
    """Fold runs of white space to single spaces and strip both ends."""
    # All white space but the plain space is not printable, so this finds quickly that there is nothing to fold.
    if text.isprintable() and "  " not in text:
        return text.strip(" ")
    return " ".join(text.split())


def closest_span(sought: str, text: str) -> Match | None:
    """Find the stretch of whole words that is most like a quote.

    Parameters
    ----------
    sought, text
        Folded texts.

    Returns
    -------
    Match or None
        None when nothing is at least 70 per cent alike.
    """
    if not sought or not text:
        return None
    found = fuzz.partial_ratio_alignment(sought, text, score_cutoff=CLOSE_SPAN)
    # A quote longer than the text has no stretch in it that could stand for it.
    if found is None or len(sought) > len(text):
        return None
    words = text.split(" ")
    first = text.count(" ", 0, found.dest_start + 1)
    last = text.count(" ", 0, max(found.dest_end - 1, 0)) + 1
    best = Match(" ".join(words[first:last]), fuzz.ratio(sought, " ".join(words[first:last])))
    # The alignment is a stretch of as many characters: words at its ends may be missing or too many.
    while True:
        ends = [(first - 1, last), (first + 1, last), (first, last - 1), (first, last + 1)]
        tried = [
            (fuzz.ratio(sought, " ".join(words[start:end])), start, end)
            for start, end in ends
            if 0 <= start < end <= len(words)
        ]
        likeness, start, end = max(tried, default=(0.0, 0, 0))
        if likeness <= best.likeness:
            bare = best.text.strip(".,;:!?")
            return max(best, Match(bare, fuzz.ratio(sought, bare)), key=lambda match: match.likeness)
        first, last = start, end
        best = Match(" ".join(words[first:last]), likeness)


def closest_text(sought: str, texts: Sequence[str]) -> Match | None:
    """Find the text that is, holds or is most like another one.

    Parameters
    ----------
    sought
        Folded text.
    texts
        Folded texts to choose from.

    Returns
    -------
    Match or None
        The first equal text, else the first that holds the sought one, else the one most alike; None when nothing
        is at least 75 per cent alike.
    """
    for index, text in enumerate(texts):
        if text == sought:
            return Match(text, 100.0, index)
    for index, text in enumerate(texts):
        if sought and sought in text:
            return Match(text, 100.0, index)
    found = process.extractOne(sought, texts, scorer=fuzz.ratio, score_cutoff=CLOSE_TEXT)
    return None if found is None else Match(texts[found[2]], found[1], found[2])


def likeness(one: str, other: str) -> float:
    """Give how much two texts are alike, in per cent."""
    return fuzz.ratio(one, other)


def word_diff(old: str, new: str) -> tuple[str, str]:
    """Mark the words that differ, for two lines that are read one above the other.

    Parameters
    ----------
    old, new
        Texts of any length; white space is folded.

    Returns
    -------
    tuple of (str, str)
        The old text with ``[-removed-]`` and the new one with ``{+added+}`` words. Long stretches that are equal
        are cut to the eight words beside a change.
    """
    before, after = old.split(), new.split()
    if max(len(before), len(after)) > _LONGEST_DIFF:
        return _whole_diff(before, after)
    left: list[str] = []
    right: list[str] = []
    for step in Indel.opcodes(before, after):
        removed, added = before[step.src_start : step.src_end], after[step.dest_start : step.dest_end]
        if step.tag == "equal":
            first, last = step.src_start == 0, step.src_end == len(before)
            shown = _shortened(removed, keep_start=not first, keep_end=not last)
            left.append(shown)
            right.append(shown)
        if removed and step.tag != "equal":
            left.append(f"[-{' '.join(removed)}-]")
        if added and step.tag != "equal":
            right.append(f"{{+{' '.join(added)}+}}")
    return " ".join(left), " ".join(right)


def _whole_diff(before: list[str], after: list[str]) -> tuple[str, str]:
    """Compare texts too long for a diff: the first words from where they part."""
    part = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    old, new = (" ".join(words[max(part - _CONTEXT, 0) : part + 10 * _CONTEXT]) for words in (before, after))
    return f"… {old} … ({len(before)} words)", f"… {new} … ({len(after)} words)"


def _shortened(words: list[str], *, keep_start: bool, keep_end: bool) -> str:
    head = words[:_CONTEXT] if keep_start else []
    tail = words[-_CONTEXT:] if keep_end else []
    if len(words) <= len(head) + len(tail) + _CONTEXT:
        return " ".join(words)
    return " ".join([*head, "…", *tail])
