"""Evidence of each case: facts, ranking, quotes, what lies outside K."""

import pytest

from evalkit.dataset import load_dataset
from evalkit.evidence import rank_outside
from evalkit.runs import load_run
from evalkit.views.cases import case_evidence
from tests.datasets import case, fact, write_dataset
from tests.htmlparts import SCRIPT, changed, eventful_run, soup, text_of
from tests.smallruns import small_run


@pytest.fixture
def run():
    return eventful_run()


def test_evidence_names_found_and_missing_facts_with_quote_chunk_and_rank(run):
    late = text_of(soup(case_evidence(run)).find(id="case-late"))
    assert "1 of 2 facts found" in late
    assert "found Fact 0 of late Rank 1: late › fact/p0" in late
    assert (
        "missing Fact 1 of late late › fact/p1: comes at rank 5, outside K = 3 Quote: “quote 1 of late”"
        in late
    )
    assert "Relevant passages outside K = 3 2 answers late › fact/p1: rank 5, score 0.6875" in late
    lost = text_of(soup(case_evidence(run)).find(id="case-lost"))
    assert "missing Fact 0 of lost lost › fact/p0: not within the first 10 ranks" in lost
    assert "Relevant passages outside K = 3 2 answers lost › fact/p0: not within the first 10 ranks" in lost


def test_evidence_shows_the_ranking_at_k_in_order(run):
    table_rows = soup(case_evidence(run, ["whole"], 3)).tbody("tr")
    got = [[cell.get_text() for cell in row(["th", "td"])[:3]] for row in table_rows]
    assert got == [["1", "0.9375", "2 answers"], ["2", "0.8750", "2 answers"], ["3", "0.8125", "unjudged"]]


def test_evidence_of_unsupported_questions_and_cases_without_facts(run):
    found = soup(case_evidence(run))
    assert "unsupported, 3 results" in text_of(found.find(id="case-taken"))
    refused = text_of(found.find(id="case-refused"))
    assert "unsupported, refused" in refused
    assert "Nothing came back at K = 3." in refused
    plain = text_of(found.find(id="case-plain"))
    assert "recall 1.000, no facts labelled" in plain
    assert "coverage –, complete –" in plain


def test_cases_that_miss_something_are_open_when_there_are_many():
    many = {f"good{number}": [1] for number in range(25)}
    found = soup(case_evidence(small_run({**many, "weak": [9]})))
    assert [part["id"] for part in found("details", open=True)] == ["case-weak"]
    assert len(found("details")) == 26


def test_rankings_of_unsupported_questions_are_closed(run):
    opened = {part["id"] for part in soup(case_evidence(run))("details", open=True)}
    assert opened == {"case-whole", "case-late", "case-lost", "case-plain"}


def test_a_case_behind_the_threshold_says_so():
    assert rank_outside(2, 5, 20, None).startswith("comes at rank 2 when 20 are asked for")
    assert rank_outside(2, 5, 20, 0.5) == "would come at rank 2, but does not score above 0.5"
    assert rank_outside(7, 5, 20, None) == "comes at rank 7, outside K = 5"
    assert rank_outside(None, 5, 20, None) == "not within the first 20 ranks"


def test_documents_and_questions_are_escaped_in_evidence(run):
    hostile = changed(
        run,
        rankings=run.rankings.assign(text=SCRIPT, document_id=run.rankings["document_id"] + "<b>"),
        questions=run.questions.assign(question=SCRIPT),
        facts=run.facts.assign(text=SCRIPT, quote=SCRIPT),
    )
    html = case_evidence(hostile).data
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>" not in html
    assert SCRIPT in soup(html).find(id="case-late").get_text()


@pytest.mark.parametrize(
    ("retention", "said", "notice"),
    [
        ("none", "(text not kept)", "kept no texts"),
        ("hash", "SHA-256 Passage 1", "SHA-256 of each text"),
        ("snippet", "Passage 1", "first 200 characters"),
    ],
)
def test_texts_that_were_not_kept_are_not_pretended(retention, said, notice):
    run = small_run({"whole": [1]}, retention=retention)
    html = case_evidence(run)
    assert said in text_of(soup(html).find(id="case-whole"))
    assert notice in text_of(html)


def test_all_quotes_of_unchanged_labels_are_marked(tmp_path):
    text = "The queue is drained first. Wait for   the readers. A hint stands here."
    folder = write_dataset(
        tmp_path / "set",
        {"whole": text},
        [
            case(
                "whole",
                evidence=[fact("whole", "queue is drained", "Wait for the readers")],
                supporting=[{"document": "whole", "quote": "A hint stands here"}],
            )
        ],
    )
    labels = load_dataset(folder).labels_sha256
    run = small_run({"whole": [1]}, parameters={"dataset": str(folder)}, dataset={"labels_sha256": labels})
    run = changed(run, rankings=run.rankings.assign(text=text))
    html = case_evidence(run, ["whole"])
    marks = [mark.get_text() for mark in soup(html).find(id="case-whole").tbody.tr("mark")]
    assert marks == ["queue is drained", "Wait for   the readers", "A hint stands here"]
    assert "no longer those of this run" not in text_of(html)
    other = small_run({"whole": [1]}, parameters={"dataset": str(folder)})  # labels of another hash
    other = changed(other, rankings=other.rankings.assign(text="Here is quote 0 of whole, kept in the run."))
    html = case_evidence(other, ["whole"])
    assert soup(html).mark.get_text() == "quote 0 of whole"
    assert "no longer those of this run" in text_of(html)


def test_platform_runbooks_says_which_facts_are_missing_and_where_they_come(example_runs):
    run = load_run(example_runs["platform-runbooks"])
    found = soup(case_evidence(run, ["config-change-no-effect"], 5))
    said = text_of(found)
    assert "0 of 2 facts found" in said
    assert "reverting-a-configuration-change/p2: comes at rank 8, outside K = 5" in said
    at_10 = soup(case_evidence(run, ["config-change-no-effect"], 10))
    assert "2 of 2 facts found" in text_of(at_10)
    assert [mark.get_text().split()[0] for mark in at_10("mark")] == ["A", "Run"]
