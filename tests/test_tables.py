import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalkit.chunking import chunk_documents
from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.labels import resolve_labels
from evalkit.points import Hit
from evalkit.tables import make_tables, ranking_table

DOCUMENT = """---
document_id: {name}
title: {name}
document_type: runbook
publication_state: {state}
---

## One

First passage of {name}.

## Two

Second passage of {name}.
"""

CASES = """answerable:
- {id: both, category: c, question: What is first?, relevant: [{document: a, chunk: one/p0, grade: 2},
   {document: a, chunk: two/p0, grade: 1}]}
- {id: none-found, category: c, question: What is second?, relevant: [{document: b, chunk: two/p0}]}
unsupported:
- {id: unknown, question: What is third?}
"""


@pytest.fixture
def subject(tmp_path):
    def make(judgments="complete"):
        folder = tmp_path / judgments
        (folder / "documents").mkdir(parents=True)
        for name, state in (("a", "published"), ("b", "published"), ("c", "draft")):
            (folder / "documents" / f"{name}.md").write_text(DOCUMENT.format(name=name, state=state))
        (folder / "cases.yaml").write_text(CASES)
        (folder / "dataset.yaml").write_text(
            "{name: tiny, version: 1, description: d, documents: documents/*.md, cases: cases.yaml, "
            "chunking: section-paragraphs-80w-overlap1-v1, "
            f"eligibility: {{publication_state: published}}, judgments: {judgments}}}"
        )
        dataset = load_dataset(folder)
        chunks = tuple(chunk_documents(dataset.documents, dataset.chunking))
        return dataset, chunks, resolve_labels(dataset, chunks)

    return make


def hits(chunks, *picked):
    return [
        Hit("id", score, {"document_id": chunk.document_id, "chunk_id": chunk.chunk_id})
        for chunk, score in ((chunks[place], score) for place, score in picked)
    ]


def tables_of(subject, rankings, ks=(2,), retention="full"):
    dataset, chunks, labels = subject
    table = ranking_table(list(rankings), [hits(chunks, *ranking) for ranking in rankings.values()])
    every_k = pd.concat([table.assign(k=k) for k in ks])
    return make_tables(dataset, chunks, labels, every_k, table, ks, retention)


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        ("full", lambda text: text),
        ("snippet", lambda text: text[:9]),
        ("hash", lambda text: hashlib.sha256(text.encode()).hexdigest()),
        ("none", lambda _: None),
    ],
)
def test_each_row_has_text_and_properties_of_its_own_chunk(subject, monkeypatch, retention, kept):
    """Rows come in another order than they are sorted into."""
    monkeypatch.setattr("evalkit.tables.SNIPPET", 9)
    given = subject()
    rankings = {
        "unknown": [(3, 0.9), (0, 0.8), (2, 0.7)],
        "none-found": [(1, 0.9)],
        "both": [(2, 0.4), (1, 0.3)],
    }
    tables = tables_of(given, rankings, (5, 1), retention)
    own = {(chunk.document_id, chunk.chunk_id): chunk for chunk in given[1]}
    assert (len(tables.rankings), len(tables.deep)) == (12, 6)
    for row in [*tables.rankings.to_dict("records"), *tables.deep.to_dict("records")]:
        chunk = own[row["document_id"], row["chunk_id"]]
        assert row["chunking_version"] == chunk.chunking_version
        assert row.get("document_type", chunk.document_type) == chunk.document_type
        assert row.get("publication_state", chunk.publication_state) == chunk.publication_state
        assert (None if pd.isna(row["text"]) else row["text"]) == kept(chunk.text)


def test_grades_zeros_and_nulls(subject):
    rankings = {
        "both": [(2, 0.9), (0, 0.8)],
        "none-found": [],
        "unknown": [(0, 0.5), (1, 0.4)],
    }
    tables = tables_of(subject(), rankings)
    graded = tables.rankings.set_index(["case_id", "rank"])["grade"]
    assert graded["both"].tolist() == [0, 2]
    assert graded["unknown"].isna().all()
    scores = tables.scores.set_index("case_id")
    assert scores.loc["both", ["precision", "recall", "reciprocal_rank"]].tolist() == [0.5, 0.5, 0.5]
    # Gains 0, 3 against an ideal of 3, 1.
    assert scores.loc["both", "ndcg"] == pytest.approx(3 / np.log2(3) / (3 + 1 / np.log2(3)))
    assert scores.loc["none-found", ["precision", "recall", "reciprocal_rank", "ndcg"]].tolist() == [
        0,
        0,
        0,
        0,
    ]
    assert scores["coverage"].isna().all()
    questions = tables.questions.set_index("case_id")
    assert questions.loc["none-found", "result_count"] == 0
    assert not questions.loc["none-found", "accepted"]
    assert questions.loc["unknown", "top_score"] == np.float32(0.5)


def test_partial_judgments_leave_the_unjudged_null(subject):
    tables = tables_of(
        subject("partial"), {"both": [(2, 0.9), (0, 0.8)], "none-found": [(0, 0.5)], "unknown": []}
    )
    assert tables.rankings.query("case_id == 'both'")["grade"].isna().tolist() == [True, False]
    both = tables.scores.set_index("case_id").loc["both"]
    assert both[["precision", "judged", "precision_upper"]].tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("place", [4, 5], ids=["draft", "draft too"])
def test_an_ineligible_chunk_is_refused_by_name(subject, place):
    with pytest.raises(InputError, match=r"case both: c (one|two)/p0"):
        tables_of(subject(), {"both": [(place, 0.9)], "none-found": [], "unknown": []})


def test_a_chunk_twice_in_one_ranking_is_refused_by_name(subject):
    with pytest.raises(InputError, match="both"):
        tables_of(subject(), {"both": [(0, 0.9), (0, 0.8)], "none-found": [], "unknown": []})


def test_no_absolute_place_in_the_tables(subject):
    tables = tables_of(subject(), {"both": [(0, 0.9)], "none-found": [], "unknown": []}, ks=(1, 2))
    for table in vars(tables).values():
        text = table.to_csv()
        assert str(Path.cwd()) not in text
    ranking = "case_id k rank document_id chunk_id chunking_version score grade".split()
    assert list(tables.rankings.columns) == [*ranking, "document_type", "publication_state", "text"]
    assert list(tables.deep.columns) == (
        "case_id rank document_id chunk_id chunking_version score grade text".split()
    )
