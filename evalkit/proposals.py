"""Where a reviewed text that no longer stands under its label may be now."""

from dataclasses import dataclass
from functools import cached_property

from evalkit.chunking import sentences
from evalkit.lock import Key, around
from evalkit.passages import Passages
from evalkit.wording import closest_span, closest_text, fold, likeness


@dataclass(frozen=True)
class Proposal:
    """A label that may stand for a reviewed text; never taken by itself.

    Attributes
    ----------
    label
        As it could stand in the cases file.
    text
        What it would stand on: a chunk, or the sentences around a quote.
    likeness
        Of the chunk to the reviewed one, or of the quote to the old quote, in per cent.
    """

    label: str
    text: str
    likeness: float


class Proposals:
    """Finds proposals; the corpus is folded once, and only when something changed."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    @cached_property
    def _eligible(self) -> dict[tuple[str, str], str]:
        return {(chunk.document_id, chunk.chunk_id): fold(chunk.text) for chunk in self._passages.eligible()}

    def find(self, key: Key, reviewed: str, now: str | None) -> Proposal | None:
        """Propose a label for a reviewed text, if there is one nearer to it than what stands there now."""
        return self._for_chunk(key, reviewed, now or "") if key.kind == "chunk" else self._for_quote(key, now)

    def _for_chunk(self, key: Key, reviewed: str, now: str) -> Proposal | None:
        own = key.document, key.label
        others = [(place, text) for place, text in self._eligible.items() if place != own]
        match = None if reviewed in now else closest_text(reviewed, [text for _, text in others])
        if match is None or match.likeness <= likeness(reviewed, now):
            return None
        document, chunk = others[match.index][0]
        return Proposal(f"{{document: {document}, chunk: {chunk}}}", match.text, match.likeness)

    def _for_quote(self, key: Key, now: str | None) -> Proposal | None:
        if now is not None or not self._passages.usable(key.document):
            return None
        body = self._passages.body(key.document)
        match = closest_span(key.label, body)
        if match is None:
            return None
        sentence = around(match.text, body, sentences(self._passages.raw(key.document)))
        return Proposal(f"quote: {match.text}", sentence or match.text, match.likeness)
