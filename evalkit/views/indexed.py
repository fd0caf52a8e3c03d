"""What indexing did: verdict, documents, verification, provenance."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from IPython.display import HTML, display
from markupsafe import Markup

from evalkit.chunking import Chunk
from evalkit.dataset import Dataset
from evalkit.indexing import IndexReport
from evalkit.views.markup import banner, page, render
from evalkit.views.tables import key_values, table
from evalkit.writing import Progress

_OUTCOMES = {
    "created": "written and read back whole",
    "resumed": "completed where an earlier indexing had stopped, and read back whole",
    "unchanged": "there already and read back whole: nothing was embedded, nothing was written",
}


def live_progress() -> Callable[[Progress], None]:
    """Show how far indexing is in one line of a notebook, written anew after each batch.

    Returns
    -------
    callable
        To be given to `indexing.index`; nothing is shown before its first call.
    """
    handle: Any = None

    def update(progress: Progress) -> None:
        nonlocal handle
        left = progress.seconds_left
        rest = f"{left:,.0f} s left" if left else f"took {progress.seconds:,.1f} s"
        line = page(
            render(
                "<p>{{ text }}</p>",
                text=f"{progress.done:,} of {progress.total:,} chunks, {progress.rate:,.0f} a second, {rest}",
            )
        )
        if handle is None:
            handle = display(line, display_id=True)  # type: ignore[no-untyped-call]
        else:
            handle.update(line)

    return update


def index_verdict(report: IndexReport) -> HTML:
    """Say in a sentence what stands in the collection now; a banner for each notice."""
    counts = report.counts
    title = (
        f"{counts['chunks']:,} chunks of {counts['documents']:,} documents are {_OUTCOMES[report.outcome]}."
    )
    detail = f"Searches can return the {counts['eligible_chunks']:,} eligible ones."
    return page(banner("good", title, detail), *(banner("warning", notice) for notice in report.notices))


def what_was_indexed(report: IndexReport, dataset: Dataset, chunks: Sequence[Chunk]) -> HTML:
    """Show data set, model, engine and numbers in a table."""
    counts, words = report.counts, sum(chunk.words for chunk in chunks)
    allowed = sum(chunk.words for chunk in chunks if dataset.is_eligible(chunk))
    rows: dict[str, object] = {
        "data set": f"{dataset.name}, version {dataset.version}",
        "documents": f"{counts['documents']:,}",
        "chunks": f"{counts['chunks']:,}, of them eligible {counts['eligible_chunks']:,}",
        "words": f"{words:,}, in eligible chunks {allowed:,}",
        "chunking": chunks[0].chunking_version if chunks else None,
        "eligible": "; ".join(
            f"{field}: {', '.join(values)}" for field, values in dataset.eligibility.items()
        ),
        "model": f"{report.identity.model} ({report.identity.embedder}), profile {report.identity.profile}",
        "engine": f"Qdrant {report.store} {report.store_version}",
        "collection": report.collection,
        "newly embedded": f"{counts['embedded']:,}",
        "points written": f"{counts['sent']:,}",
        "points deleted": f"{counts['deleted']:,}",
    }
    return page(key_values(rows, "What was indexed"))


def documents_table(dataset: Dataset, chunks: Sequence[Chunk]) -> HTML:
    """Show each document with its chunks and words, and whether searches can return it."""
    sizes = pd.DataFrame(
        [(chunk.document_id, 1, chunk.words) for chunk in chunks], columns=["document_id", "chunks", "words"]
    )
    totals = sizes.groupby("document_id").sum()
    frame = pd.DataFrame(
        [
            (one.document_id, one.title, one.document_type, one.publication_state, dataset.is_eligible(one))
            for one in dataset.documents
        ],
        columns=["document_id", "title", "type", "state", "eligible"],
    ).join(totals, on="document_id")
    frame = frame.fillna({"chunks": 0, "words": 0}).astype({"chunks": "int64", "words": "int64"})
    return page(table(frame, f"Documents (n = {len(frame)})"))


def index_verification(report: IndexReport) -> HTML:
    """Show what was read back from the collection and compared, and every problem that was found."""
    meanings = {
        "points": "the number of points is exactly the number of chunks",
        "payloads": "identity and payload of each point, compared with the chunk",
        "vectors": "stored vectors of a sample, compared with the vector cache",
    }
    problems = report.verification.problems
    rows = [(name, count, meanings.get(name, "")) for name, count in report.verification.checked.items()]
    frame = pd.DataFrame(rows, columns=["checked", "number", "what was compared"])
    found = banner("bad", f"{len(problems)} problems were found.", *problems) if problems else Markup("")
    return page(found, table(frame, f"Verification: {len(problems)} problems"))


def index_provenance(report: IndexReport, dataset: Dataset) -> HTML:
    """Show hashes, model digest and timings of the indexing."""
    rows: dict[str, object] = {
        "corpus of the data set (SHA-256)": dataset.corpus_sha256,
        "chunks and payloads (SHA-256)": report.fingerprint.corpus,
        "model digest": report.fingerprint.digest,
        "prompt profile": report.fingerprint.profile,
        "embedding server": report.identity.server_version,
        **{f"model: {name}": note for name, note in report.identity.notes.items()},
        "seconds a stage": "; ".join(f"{stage} {seconds}" for stage, seconds in report.timings.items()),
    }
    return page(key_values(rows, "Provenance"))
