"""HTML about indexing."""

from dataclasses import replace

import pytest

from evalkit.chunking import chunk_documents
from evalkit.contents import Verification
from evalkit.dataset import load_dataset
from evalkit.indexing import IndexReport, index
from evalkit.settings import IndexSettings
from evalkit.views import indexed
from evalkit.writing import Progress
from tests.htmlparts import SCRIPT, rows, text_of


@pytest.fixture
def indexing() -> tuple:
    dataset = load_dataset("worker-runbooks")
    return dataset, list(chunk_documents(dataset.documents, dataset.chunking)), index(
        IndexSettings.checked(dataset="worker-runbooks")
    )  # fmt: skip


def test_indexing_says_what_stands_in_the_collection(indexing):
    dataset, chunks, report = indexing
    assert "11 chunks of 7 documents are written and read back whole." in text_of(
        indexed.index_verdict(report)
    )
    assert "7 eligible" in text_of(indexed.index_verdict(report))
    shown = dict(rows(indexed.what_was_indexed(report, dataset, chunks), "What was indexed"))
    assert shown["chunks"] == "11, of them eligible 7"
    assert shown["words"].startswith(str(sum(chunk.words for chunk in chunks)))
    documents = rows(indexed.documents_table(dataset, chunks), "Documents (n = 7)")
    assert sum(int(row[-2]) for row in documents[1:]) == 11
    assert [row[4] for row in documents[1:]].count("yes") == sum(map(dataset.is_eligible, dataset.documents))
    assert rows(indexed.index_verification(report), "Verification: 0 problems")[1][:2] == ["points", "11"]
    assert report.fingerprint.digest in text_of(indexed.index_provenance(report, dataset))
    again = index(IndexSettings.checked(dataset="worker-runbooks"))
    assert "there already" in text_of(indexed.index_verdict(again))


def test_problems_of_verification_are_all_shown(indexing):
    report: IndexReport = indexing[2]
    broken = replace(report, verification=Verification((f"point {SCRIPT}", "point b"), {"points": 11}))
    html = indexed.index_verification(broken)
    assert "<script" not in html.data
    assert "2 problems were found." in text_of(html)
    assert "point b" in text_of(html)


def test_progress_is_one_line_that_is_written_anew(monkeypatch):
    shown: list[str] = []

    class Handle:
        def update(self, line):
            shown[-1] = text_of(line)

    def display(line, display_id):
        assert display_id
        shown.append(text_of(line))
        return Handle()

    monkeypatch.setattr(indexed, "display", display)
    update = indexed.live_progress()
    update(Progress(500, 2000, 10.0))
    assert shown == ["500 of 2,000 chunks, 50 a second, 30 s left"]
    update(Progress(2000, 2000, 40.0))
    assert shown == ["2,000 of 2,000 chunks, 50 a second, took 40.0 s"]
