"""Chunking versions: how the body of a document becomes passages.

A new version is one function from a body to ``(chunk id, text)`` pairs and one name in `VERSIONS`. A version
never changes once labels or collections name it: another rule is another name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

from evalkit.dataset import Document
from evalkit.errors import InputError, refuse
from evalkit.wording import fold

MAX_WORDS = 80
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NO_SLUG = re.compile(r"[^a-z0-9]+")

Passages = list[tuple[str, str]]


class ChunkKey(NamedTuple):
    """Identity of a passage everywhere; equal chunk ids of other documents or versions never match."""

    document_id: str
    chunking_version: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage of a document, with what a filter and a prompt need of the document.

    Attributes
    ----------
    words
        Number of white-space separated tokens of the text.
    """

    key: ChunkKey
    title: str
    document_type: str
    publication_state: str
    text: str
    words: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", len(self.text.split()))

    @property
    def document_id(self) -> str:
        """Document that the passage stands in."""
        return self.key.document_id

    @property
    def chunking_version(self) -> str:
        """Version that made the passage."""
        return self.key.chunking_version

    @property
    def chunk_id(self) -> str:
        """Name of the passage within its document and version."""
        return self.key.chunk_id


def chunk_documents(documents: Iterable[Document], version: str) -> Iterator[Chunk]:
    """Cut documents into chunks, one document at a time.

    Parameters
    ----------
    documents
        Documents; only one is held at a time, so that a stream of any length can be cut.
    version
        A name in `VERSIONS`.

    Yields
    ------
    Chunk
        Chunks in the order of the documents and of their text. No documents give none.

    Raises
    ------
    InputError
        At once for an unknown version; after the last document, in one error, for every document that cannot
        be cut (headings without or with equal slugs) or gives no chunk. Whoever must refuse bad input before
        acting on chunks takes them all first.
    """
    if version not in VERSIONS:
        raise InputError(unknown_version(version))
    return _all_or_refused(documents, version)


def unknown_version(version: str) -> str:
    """Say that there is no such chunking version, and which there are."""
    return f"chunking version {version!r} is unknown; known: {', '.join(sorted(VERSIONS))}"


def _all_or_refused(documents: Iterable[Document], version: str) -> Iterator[Chunk]:
    faults: list[str] = []
    yield from cut_documents(documents, version, faults)
    if faults:
        refuse(f"chunking {version}", faults)


def cut_documents(documents: Iterable[Document], version: str, faults: list[str]) -> Iterator[Chunk]:
    """Cut the documents that can be cut, and add a fault for each other one; see `chunk_documents`."""
    cut = VERSIONS[version]
    for document in documents:
        place = f"{document.source}: document {document.document_id!r}"
        try:
            passages = cut(document.body)
        except InputError as error:
            faults.append(f"{place}: {error}")
            continue
        if not passages:
            faults.append(
                f"{place} holds no paragraph under {version}; write text below its headings or remove it"
            )
        for chunk_id, text in passages:
            yield Chunk(
                # Few distinct names stand in very many keys: each is held once.
                ChunkKey(document.document_id, version, intern(chunk_id)),
                document.title,
                document.document_type,
                document.publication_state,
                text,
            )


def section_paragraphs(body: str) -> Passages:
    """Pack the paragraphs of each section into chunks of at most 80 words, overlapping by one paragraph.

    Parameters
    ----------
    body
        Text of a document.

    Returns
    -------
    list of (str, str)
        Chunk id ``<slug>/p<n>`` and text, paragraphs joined by one blank line.

    Raises
    ------
    InputError
        A heading with an empty slug, or two of the same slug.
    """
    return [
        (f"{slug}/p{number}", "\n\n".join(group))
        for slug, paragraphs in _sections(body)
        for number, group in enumerate(_pack([piece for text in paragraphs for piece in _pieces(text)]))
    ]


def paragraphs(body: str) -> Passages:
    """Make each paragraph of each section a chunk, however long.

    Parameters
    ----------
    body
        Text of a document.

    Returns
    -------
    list of (str, str)
        Chunk id ``<slug>/p<n>`` and text.

    Raises
    ------
    InputError
        A heading with an empty slug, or two of the same slug.
    """
    return [
        (f"{slug}/p{number}", text) for slug, texts in _sections(body) for number, text in enumerate(texts)
    ]


def whole_document(body: str) -> Passages:
    """Make the whole body one chunk, however long, for collections whose judgments name documents.

    Parameters
    ----------
    body
        Text of a document; headings are plain text.

    Returns
    -------
    list of (str, str)
        One chunk ``document`` with the folded paragraphs joined by one blank line; none for an empty body.
    """
    texts = _paragraphs(body.split("\n"))
    return [("document", "\n\n".join(texts))] if texts else []


def sentences(body: str) -> list[str]:
    """Split a body into its headings and the sentences of its paragraphs.

    Parameters
    ----------
    body
        Text of a document.

    Returns
    -------
    list of str
        In order; joined by single spaces they are the folded body, whatever the chunking version.
    """
    lines: list[str] = []
    for line in body.split("\n"):
        lines += ["", line, ""] if line.startswith("#") else [line]
    return [sentence for paragraph in _paragraphs(lines) for sentence in _SENTENCE_END.split(paragraph)]


def _sections(body: str) -> list[tuple[str, list[str]]]:
    """Split a body into sections: slug and folded paragraphs. Only ``## `` at the start of a line counts."""
    sections: list[tuple[str, list[str]]] = []
    faults: list[str] = []
    slugs: set[str] = set()
    heading: str | None = None
    lines: list[str] = []

    def close() -> None:
        texts = _paragraphs(lines)
        if heading is None and not texts:
            return
        slug = "body" if heading is None else _NO_SLUG.sub("-", heading.lower()).strip("-")
        if not slug:
            faults.append(f"heading {heading!r} has no letter a-z or digit to name its section; reword it")
        elif slug in slugs:
            faults.append(f"heading {heading!r}: a second section {slug!r}; reword one of the two headings")
        slugs.add(slug)
        sections.append((slug, texts))

    for line in body.split("\n"):
        if line.startswith("## "):
            close()
            heading, lines = line[3:].strip(), []
        else:
            lines.append(line)
    close()
    if faults:
        raise InputError("; ".join(faults))
    return sections


def _paragraphs(lines: list[str]) -> list[str]:
    """Gather lines into paragraphs: blocks between blank lines, white space folded."""
    texts: list[str] = []
    gathered: list[str] = []
    for line in [*lines, ""]:
        if line and (folded := fold(line)):  # blank lines are half of all
            gathered.append(folded)
        elif gathered:
            texts.append(" ".join(gathered))
            gathered = []
    return texts


def _pieces(paragraph: str) -> list[str]:
    """Split a paragraph over 80 words into gathered sentences; pieces of a cut sentence stand alone."""
    if len(paragraph.split()) <= MAX_WORDS:
        return [paragraph]
    pieces: list[list[str]] = []
    gathered: list[str] = []
    for sentence in _SENTENCE_END.split(paragraph):
        words = sentence.split()
        if gathered and len(gathered) + len(words) > MAX_WORDS:
            pieces.append(gathered)
            gathered = []
        if len(words) > MAX_WORDS:
            pieces += [words[start : start + MAX_WORDS] for start in range(0, len(words), MAX_WORDS)]
        else:
            gathered = gathered + words
    if gathered:
        pieces.append(gathered)
    return [" ".join(piece) for piece in pieces]


def _pack(texts: list[str]) -> Iterator[list[str]]:
    sizes = [len(text.split()) for text in texts]
    start = 0
    while start < len(texts):
        end, total = start + 1, sizes[start]
        while end < len(texts) and total + sizes[end] <= MAX_WORDS:
            total += sizes[end]
            end += 1
        yield texts[start:end]
        overlaps = end < len(texts) and sizes[end - 1] + sizes[end] <= MAX_WORDS
        start = end - 1 if overlaps else end


VERSIONS: dict[str, Callable[[str], Passages]] = {
    "section-paragraphs-80w-overlap1-v1": section_paragraphs,
    "paragraphs-v1": paragraphs,
    "whole-document-v1": whole_document,
}
