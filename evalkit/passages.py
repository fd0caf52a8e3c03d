"""The chunks and documents that labels can name, and what is wrong with a label that names none of them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from evalkit.chunking import Chunk
from evalkit.dataset import Dataset, PositionalLabel, Quote
from evalkit.errors import refuse, some
from evalkit.wording import closest_span, closest_text, fold

GRADES = (0, 1, 2)


class Passages:
    """The chunks that labels can name, with the folded texts of documents and chunks that were asked for."""

    def __init__(
        self,
        dataset: Dataset,
        chunks: Sequence[Chunk],
        version: str | None = None,
        uncut: Mapping[str, str] | None = None,
    ) -> None:
        """Take a version without chunks, and documents that cannot be cut: id -> what must be mended first."""
        versions = sorted({chunk.chunking_version for chunk in chunks} | ({version} if version else set()))
        if len(versions) != 1:
            found = ", ".join(versions) or "no chunks"
            refuse(f"chunks of data set {dataset.name!r}", [f"want one chunking version, found {found}"])
        self.version = versions[0]
        self._uncut = uncut or {}
        self._awaited: dict[str, dict[str, None]] = defaultdict(dict)
        self.own = self.version == dataset.chunking
        self._dataset = dataset
        self._documents = {document.document_id: document for document in dataset.documents}
        self._chunks: dict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            self._chunks[chunk.document_id].append(chunk)
        self._texts: dict[str, dict[str, str]] = {}
        self._bodies: dict[str, str] = {}

    def eligible(self) -> Iterator[Chunk]:
        """Give the eligible chunks in order."""
        for document_id, chunks in self._chunks.items():
            if document_id in self._documents and self._dataset.is_eligible(self._documents[document_id]):
                yield from chunks

    def awaits(self, document_id: str, kind: str = "sentence") -> bool:
        """Tell whether a label, on a ``chunk`` or a ``sentence``, can be checked only when a document is mended."""
        unread, sources = self._dataset.unread.documents, []
        if document_id not in self._documents:
            sources = [source for source, known in unread.items() if known == document_id] or [
                source for source, known in unread.items() if known is None
            ]
        until = f"{some(sources)} can be read" if sources else self._uncut.get(document_id, "")
        if not until or (kind != "chunk" and not sources):
            return False
        self._awaited[until][document_id] = None
        return True

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Say which labels were met that cannot be checked, and what must be mended first."""
        return tuple(
            f"labels on {some(map(repr, names))}, until {until}" for until, names in self._awaited.items()
        )

    def usable(self, document_id: str) -> bool:
        """Tell whether labels can name a document: it is there and eligible."""
        document = self._documents.get(document_id)
        return document is not None and self._dataset.is_eligible(document)

    def document_fault(self, document_id: str) -> str | None:
        """Say why a label cannot name this document; None if it can."""
        document = self._documents.get(document_id)
        if document is None:
            if self.awaits(document_id):
                return None
            known = [name for name in self._documents if self.usable(name)]
            close = closest_text(document_id, known)
            mend = f"did you mean {close.text!r}?" if close else "name one of the data set's documents"
            return f"document {document_id!r} does not exist; {mend}"
        if not self._dataset.is_eligible(document):
            return (
                f"document {document_id!r} is not eligible (document_type {document.document_type!r}, "
                f"publication_state {document.publication_state!r}); label eligible documents only"
            )
        return None

    def chunk_fault(self, label: PositionalLabel) -> str | None:
        """Say why a label cannot name this chunk with this grade; None if it can."""
        fault = self.document_fault(label.document)
        known = self.texts(label.document)
        if fault is None and label.chunk not in known and not self.awaits(label.document, "chunk"):
            there = some(known, 20)
            fault = f"chunk {label.chunk!r} does not exist in document {label.document!r}; it has {there}"
        if label.grade not in GRADES:
            wrong = f"grade {label.grade} of chunk {label.chunk!r} in document {label.document!r}; grades are 0, 1, 2"
            fault = f"{wrong}; also, {fault}" if fault else wrong
        return fault

    def raw(self, document_id: str) -> str:
        """Give the body of a document as it is written."""
        return self._documents[document_id].body

    def body(self, document_id: str) -> str:
        """Give the folded body of a document."""
        if document_id not in self._bodies:
            self._bodies[document_id] = fold(self.raw(document_id))
        return self._bodies[document_id]

    def texts(self, document_id: str) -> dict[str, str]:
        """Give the folded text of each chunk of a document by chunk id; empty for an unknown document."""
        if document_id not in self._texts:
            chunks = self._chunks.get(document_id, ())
            self._texts[document_id] = {chunk.chunk_id: fold(chunk.text) for chunk in chunks}
        return self._texts[document_id]

    def holders(self, quote: Quote) -> tuple[list[str], str | None]:
        """Name the chunks that hold a quote, and the fault of a quote that cannot be used."""
        fault = self.document_fault(quote.document)
        if fault or quote.document not in self._documents:
            return [], fault
        text = fold(quote.quote)
        times = occurrences(self.body(quote.document), text)
        chunk_ids = [name for name, chunk in self.texts(quote.document).items() if text in chunk]
        named = f"quote {text!r}"
        if times == 0:
            hint = self._hint(quote.document, text)
            return [], f"{named} is nowhere in document {quote.document!r}; copy it word for word{hint}"
        if times > 1:
            return (
                chunk_ids,
                f"{named} stands more than once in document {quote.document!r}; quote more words",
            )
        if self.own and not chunk_ids and not self.awaits(quote.document, "chunk"):
            return (
                [],
                f"{named} is cut by a chunk border of document {quote.document!r}; quote what one chunk holds",
            )
        return chunk_ids, None

    def _hint(self, document_id: str, text: str) -> str:
        match = closest_span(text, self.body(document_id))
        close = f"; closest there ({match.likeness:.0f} % alike): {match.text!r}" if match else ""
        elsewhere = [name for name in self._documents if self.usable(name) and text in self.body(name)]
        return close + (f"; it stands in {some(map(repr, elsewhere))}" if elsewhere else "")


def occurrences(body: str, text: str) -> int:
    """Count where a text stands in a body, overlapping places included, up to two."""
    first = body.find(text)
    return 0 if first < 0 else 1 if body.find(text, first + 1) < 0 else 2
