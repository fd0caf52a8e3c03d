"""What reaches the model: the chunks of a ranking assembled into a context."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from rapidfuzz import fuzz

from evalkit.errors import InputError
from evalkit.evidence import require_columns
from evalkit.wording import fold

Counter = Callable[[str], int]
Builder = Callable[[pd.DataFrame], str]
SEPARATOR = "\n\n"
_COLUMNS = ["document_id", "chunk_id", "text"]
_NUMBERED = re.compile(r"(?P<section>.*/p)(?P<number>[0-9]+)")


class Options(TypedDict, total=False):
    """How chunks become a context: the parameters of `assemble`."""

    budget_words: int | None
    deduplicate: float | None
    merge_overlap: bool
    count: Counter
    build: Builder | None


@dataclass(frozen=True)
class Passage:
    """A stretch of one document in a context.

    Attributes
    ----------
    document_id
        Where it stands; empty for a text that a function of the user built.
    chunk_ids
        The chunk it comes from, or the neighbours that were joined, in the order of the document.
    text
        Its text, cut where the budget ended.
    """

    document_id: str
    chunk_ids: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Context:
    """What a model would be given for one question; ``text`` joins the passages by a blank line."""

    passages: tuple[Passage, ...]

    @property
    def text(self) -> str:
        """The passages in order, a blank line between them."""
        return SEPARATOR.join(passage.text for passage in self.passages)

    @property
    def words(self) -> int:
        """White-space separated words of the text."""
        return count_words(self.text)


def count_words(text: str) -> int:
    """Count white-space separated words."""
    return len(text.split())


def assemble(
    ranking: pd.DataFrame,
    budget_words: int | None = None,
    deduplicate: float | None = None,
    *,
    merge_overlap: bool = False,
    count: Counter = count_words,
    build: Builder | None = None,
) -> Context:
    """Assemble the context of one question from its ranking, in the order of the ranking.

    Parameters
    ----------
    ranking
        Chunks of one question in order: ``document_id, chunk_id, text`` and any others.
    budget_words
        Words that the context may have, or tokens when `count` counts tokens. The first words that fit are kept:
        the passage in which the budget ends is cut after its last fitting word, later ones are dropped. None is
        unlimited.
    deduplicate
        Smallest similarity, in (0, 1], at which a chunk counts as a copy of one before it and is dropped: the
        normalised Indel similarity of the folded, case-folded texts, 1 - insertions and deletions / both lengths
        (`rapidfuzz.fuzz.ratio` / 100). 1.0 drops exact copies alone; None keeps all.
    merge_overlap
        Join neighbouring chunks of a section (``<section>/p<n>`` and ``p<n+1>``) that share paragraphs at their
        border, at the place of the higher ranked one; the shared paragraphs then appear once.
    count
        Size of a text: words, or a user's token counter. More text must not count less.
    build
        The user's own way from chunks (the rows left after deduplication) to text, in place of joining them;
        not called for an empty ranking.

    Returns
    -------
    Context
        Without passages for an empty ranking or a budget that nothing fits.

    Raises
    ------
    InputError
        Missing columns, texts that a run did not keep, a budget below 1, a similarity outside (0, 1], or a `build`
        that gives no text.
    """
    rows = _texts(ranking)
    options = Options(
        budget_words=budget_words,
        deduplicate=deduplicate,
        merge_overlap=merge_overlap,
        count=count,
        build=build,
    )
    named = _assembly(rows, options)
    return Context(next(reversed(named.values())) if named else tuple(_passages(rows)))


def steps(
    ranking: pd.DataFrame, k: int, threshold: float | None, options: Options
) -> dict[str, tuple[Passage, ...]]:
    """Run the steps from a ranking to a context, those that are off left out.

    Parameters
    ----------
    ranking
        Chunks of one question in order: ``document_id, chunk_id, score, text``.
    k
        Chunks that the ranking was cut at, for the name of the first step.
    threshold
        Chunks must score above it, both as float32; None is off.
    options
        As in `assemble`.

    Returns
    -------
    dict
        Name of the step -> passages after it, in order; the same names for every ranking.

    Raises
    ------
    InputError
        As `assemble`.
    """
    rows = _texts(ranking)
    named = {f"in the first {k}": tuple(_passages(rows))}
    if threshold is not None:
        rows = rows[rows["score"].astype("float32") > np.float32(threshold)]
        named["above threshold"] = tuple(_passages(rows))
    return {**named, **_assembly(rows, options)}


def load_function(place: str) -> Callable[..., Any]:
    """Import a function named ``module:function``, such as a token counter or a builder of contexts.

    Raises
    ------
    InputError
        Not of this form, no such module, or nothing callable under the name.
    """
    module, _, name = place.partition(":")
    try:
        function = getattr(import_module(module), name) if module and name else None
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"function {place!r}: {error}; give module:function that can be imported here"
        ) from None
    if not callable(function):
        raise InputError(f"function {place!r}: not callable or not of the form module:function")
    return function  # type: ignore[no-any-return]


def _assembly(rows: pd.DataFrame, options: Options) -> dict[str, tuple[Passage, ...]]:
    budget, similarity = options.get("budget_words"), options.get("deduplicate")
    if budget is not None and budget < 1:
        raise InputError(f"budget_words: wanted at least 1 or None, found {budget}")
    if similarity is not None and not 0 < similarity <= 1:
        raise InputError(f"deduplicate: wanted a similarity above 0 and up to 1, or None, found {similarity}")
    named = {}
    if similarity is not None:
        rows = _without_copies(rows, similarity)
        named["after deduplication"] = tuple(_passages(rows))
    passages = _passages(rows)
    if (build := options.get("build")) is not None:
        passages = _built(rows, build)
    elif options.get("merge_overlap"):
        passages = _merged(passages)
    if build is not None or options.get("merge_overlap"):
        named["assembled"] = tuple(passages)
    if budget is not None:
        named["within budget"] = _cut(passages, budget, options.get("count", count_words))
    return named


def _texts(ranking: pd.DataFrame) -> pd.DataFrame:
    require_columns(ranking, _COLUMNS, "ranking")
    if ranking["text"].isna().any():
        raise InputError("the ranking holds no texts; evaluate with retention 'full' to assemble contexts")
    return ranking


def _passages(rows: pd.DataFrame) -> list[Passage]:
    columns = zip(rows["document_id"], rows["chunk_id"], rows["text"], strict=True)
    return [Passage(document_id, (chunk_id,), text) for document_id, chunk_id, text in columns]


def _without_copies(rows: pd.DataFrame, similarity: float) -> pd.DataFrame:
    kept: list[str] = []
    keep = []
    for text in rows["text"].map(lambda text: fold(text).casefold()):
        keep.append(not any(fuzz.ratio(text, other) >= 100 * similarity for other in kept))
        if keep[-1]:
            kept.append(text)
    return rows[np.array(keep, dtype=bool)]


def _built(rows: pd.DataFrame, build: Builder) -> list[Passage]:
    if rows.empty:
        return []
    text = build(rows.reset_index(drop=True))
    if not isinstance(text, str):
        raise InputError(f"build: wanted a text from the chunks, found {type(text).__name__}")
    return [Passage("", tuple(rows["chunk_id"]), text)]


def _merged(passages: list[Passage]) -> list[Passage]:
    """Join each passage with a neighbour among those before it, until no two of them overlap."""
    merged: list[Passage] = []
    for passage in passages:
        current = passage
        place = len(merged)
        for other in list(merged):
            if (joined := _join(other, current) or _join(current, other)) is not None:
                place = min(place, merged.index(other))
                merged.remove(other)
                current = joined
        merged.insert(place, current)
    return merged


def _join(first: Passage, second: Passage) -> Passage | None:
    """Join two passages when the second goes on where the first ends and repeats its last paragraphs."""
    end = _NUMBERED.fullmatch(first.chunk_ids[-1])
    start = _NUMBERED.fullmatch(second.chunk_ids[0])
    if first.document_id != second.document_id or end is None or start is None:
        return None
    if end["section"] != start["section"] or int(end["number"]) + 1 != int(start["number"]):
        return None
    before, after = first.text.split(SEPARATOR), second.text.split(SEPARATOR)
    for shared in range(min(len(before), len(after)), 0, -1):
        if before[-shared:] == after[:shared]:
            text = SEPARATOR.join([*before, *after[shared:]])
            return Passage(first.document_id, (*first.chunk_ids, *second.chunk_ids), text)
    return None


def _cut(passages: Sequence[Passage], budget: int, count: Counter) -> tuple[Passage, ...]:
    text = SEPARATOR.join(passage.text for passage in passages)
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    fitting = bisect_right(ends, budget, key=lambda end: count(text[:end]))
    end = ends[fitting - 1] if fitting else 0
    kept: list[Passage] = []
    start = 0
    for passage in passages:
        if start >= end:
            break
        kept.append(replace(passage, text=passage.text[: end - start]))
        start += len(passage.text) + len(SEPARATOR)
    return tuple(kept)
