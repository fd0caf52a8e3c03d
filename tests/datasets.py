"""Small data sets written by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

OWN = "section-paragraphs-80w-overlap1-v1"
OTHER = "paragraphs-v1"

RUNBOOK = {"document_type": "runbook", "publication_state": "published"}


def words(count: int, start: int = 0, end: str = "") -> str:
    """``w0 w1 …``: words that are all different."""
    return " ".join(f"w{number}" for number in range(start, start + count)) + end


def markdown(document_id: str, body: str, /, **fields: str) -> str:
    """A document with front matter."""
    front = {"document_id": document_id, "title": f"Title of {document_id}", **RUNBOOK, **fields}
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{body}\n"


def case(name: str, question: str = "", **labels: Any) -> dict[str, Any]:
    """An answerable question."""
    return {"id": name, "category": "plain", "question": question or f"What about {name}?", **labels}


def fact(document: str, *quotes: str, fact: str = "A fact.") -> dict[str, Any]:
    """A fact whose quotes stand in one document."""
    return {"fact": fact, "quotes": [{"document": document, "quote": quote} for quote in quotes]}


def write_dataset(
    folder: Path,
    documents: Mapping[str, str],
    answerable: list[dict[str, Any]],
    unsupported: list[dict[str, Any]] | None = None,
    /,
    **fields: Any,
) -> Path:
    """Write a data set: bodies by document id (or whole files by name with ``.md``)."""
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    description = {
        "name": "small",
        "version": 1,
        "documents": "documents/*.md",
        "cases": "cases.yaml",
        "chunking": OWN,
        "eligibility": dict(RUNBOOK),
        "judgments": "complete",
        **fields,
    }
    (folder / "dataset.yaml").write_text(yaml.safe_dump(description), encoding="utf-8")
    for name, content in documents.items():
        whole = name.endswith(".md")
        path = folder / "documents" / (name if whole else f"{name}.md")
        path.write_text(content if whole else markdown(name, content), encoding="utf-8")
    cases = {"answerable": answerable, "unsupported": unsupported or []}
    (folder / "cases.yaml").write_text(yaml.safe_dump(cases, allow_unicode=True), encoding="utf-8")
    return folder
